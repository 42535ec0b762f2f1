"""Soft rows: springs, dampers, motors and soft limits of joints, springs between bodies, and grips, taken implicitly.

A law along the rate v of a row gives the impulse lam = F - G v over a substep h, at the velocity at its end. As a row
of the joints' solve it has the compliance C = 1 / G,

    J u + C lam + B = 0,      B = -F / G,      lam summed over all solves of the substep,

so that contacts and the other joints feel the law while they are solved, at any stiffness, damping and mass ratio.
Solved for accelerations the row is J a + C lam + b + (v0 + B) / h = 0, with its bias acceleration b. With
the stiffness k, the damping b, the force f without velocity, the rate v0 at the start and the mobility W of the row,

    stiffness   h^2 k W <= s: F = h f + h^2 k v0 / 4, G = h^2 k / 4    trapezoidal, conserves energy
                else:         F = h f,                G = h^2 k        the force at the end of the substep, damps
    damping     h b W <= s/2: F = -h b v0 / 2,        G = h b / 2      the mean of start and end
                else:         F = 0,                  G = h b          the velocity at the end

where s is 1, or 0 to have all of them at the end.

Motors and grips have a largest force, soft limits push only: after a solve each law is compared with its bounds, and
where one enters or leaves them the rows are factored again.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from limberjack._jit import inner, outlined
from limberjack.constraints.table import SPRING, Table
from limberjack.linear.saddle import row_mobility
from limberjack.model.arrays import Drives
from limberjack.spatial.quaternions import quaternion_log, quaternion_multiply

__all__ = [
    "AT_END", "B", "C", "CONSERVING", "GRIPPED", "INERT", "SoftRows", "add_soft_forces", "new_soft_rows",
    "no_soft_rows", "row_rate", "set_soft_compliance", "set_soft_laws", "set_soft_rhs", "switch_soft_rows",
]  # fmt: skip

# What a soft row belongs to: a scalar drive, one axis of a ball drive, a spring between bodies, a grip.
SCALAR, BALL, BETWEEN, GRIPPED = range(4)
# Columns of a law: G and F of springs and dampers; of motors and grips, with their largest impulse, whether it acts and
# the impulse then; of soft limits, with the direction they push in, and whether they act; C and B of all together.
G1, F1, G2, F2, MOST, BOUND, AT_BOUND, G3, F3, SIGN, PUSHES, C, B, LAW = range(14)
# The compliance of rows that do not act, and the least damping of those that do, over the inverse of their mobility.
INERT, _LEAST = 1e12, 1e-9
# The bound s: h^2 k W up to which energy is conserved, a period of six steps for a free body, more for one with joints.
AT_END, CONSERVING = 0.0, 1.0


class SoftRows(NamedTuple):
    """The soft rows of a model; m of them."""

    row: np.ndarray  # (m,) among all rows
    constraint: np.ndarray  # (m,)
    kind: np.ndarray  # (m,) SCALAR, BALL, BETWEEN, GRIPPED
    drive: np.ndarray  # (m, 2) the row of the drive, and the axis of a ball drive
    law: np.ndarray  # (m, LAW)
    first: np.ndarray  # (1,) their first row in the sums of impulses
    acting: np.ndarray  # (1,) 0 while no time passes, in collisions and projections of poses


def new_soft_rows(table: Table, row_start: np.ndarray, joints: int, springs: int, drives: Drives, first: int) -> Any:
    """Return the soft rows of a table.

    Args:
        table: all rows.
        row_start: of the constraints.
        joints, springs: how many the model has; other soft rows are those of grips.
        drives: of all joints.
        first: their first row in the sums of impulses.
    """
    rows = np.flatnonzero(table.role == SPRING)
    kind, drive = np.full(len(rows), GRIPPED), np.zeros((len(rows), 2), np.int64)
    scalar = {int(v): i for i, v in enumerate(drives.indices[:, 1])}
    ball = {int(v): i for i, v in enumerate(drives.ball_indices[:, 1])}
    for m, r in enumerate(rows):
        if table.joint[r] < joints:
            v = int(table.drive[r, 1])
            kind[m] = BALL if table.speed[r] == 1 else SCALAR
            axis = int(table.terms[table.term_start[r], 3]) if kind[m] == BALL else 0
            drive[m] = (ball[v - axis], axis) if kind[m] == BALL else (scalar[v], 0)
        elif table.joint[r] < joints + springs and table.soft[r, 2] == 0.0:
            kind[m] = BETWEEN
    constraint = np.searchsorted(row_start, rows, side="right") - 1
    return SoftRows(
        rows.astype(np.int64), constraint.astype(np.int64), kind, drive, np.zeros((len(rows), LAW)),
        np.array([first], np.int64), np.zeros(1, np.int64),
    )  # fmt: skip


def no_soft_rows() -> SoftRows:
    """Return soft rows of a model whose springs, dampers and motors are forces."""
    none, one = np.zeros(0, np.int64), np.zeros(1, np.int64)
    return SoftRows(none, none, none, np.zeros((0, 2), np.int64), np.zeros((0, LAW)), one, one.copy())


@inner
def row_rate(system, r, c, j, u):
    """Return the rate of row r of constraint c at the velocities u."""
    out = 0.0
    for t in range(system.incidence_start[c], system.incidence_start[c + 1]):
        first = system.body_start[system.incidence_body[t]]
        size = system.body_start[system.incidence_body[t] + 1] - first
        o = system.block_start[t] + size * (r - system.row_start[c])
        for k in range(size):
            out += j[o + k] * u[first + k]
    return out


@inner
def _law(h, bound, k, b, force, v, mobility):
    """Return G and F of stiffness k, damping b and a force without velocity, at the rate v at the start."""
    g, f = 0.0, h * force
    if h * h * k * mobility <= bound:
        g += 0.25 * h * h * k
        f += 0.25 * h * h * k * v
    else:
        g += h * h * k
    if h * b * mobility <= 0.5 * bound:
        g += 0.5 * h * b
        f -= 0.5 * h * b * v
    else:
        g += h * b
    return g, f


@inner
def _set_scalar(m, law, h, bound, d, i, q, v, mobility):
    """Fill the laws of scalar drive i; see `model/arrays.py:Drives`."""
    pull = -d[i, 1] * (q - d[i, 2]) if d[i, 1] > 0.0 else 0.0
    law[m, G1], law[m, F1] = _law(h, bound, d[i, 1], d[i, 0], pull, v, mobility)
    pull = d[i, 7] * (d[i, 9] - q) + d[i, 8] * d[i, 10]
    law[m, G2], law[m, F2] = _law(h, bound, d[i, 7], d[i, 8], pull, v, mobility)
    law[m, MOST] = h * d[i, 11]
    if d[i, 5] > 0.0:
        ahead = q + h * v
        low = ahead - d[i, 3] < d[i, 4] - ahead
        edge = d[i, 3] if low else d[i, 4]
        law[m, SIGN] = 1.0 if low else -1.0
        law[m, G3], law[m, F3] = h * d[i, 6] + h * h * d[i, 5], -h * d[i, 5] * (q - edge)
        law[m, PUSHES] = 1.0 if law[m, SIGN] * (law[m, F3] - law[m, G3] * v) > 0.0 else 0.0


@inner
def _turned_from(q, at, d, row, column):
    """Return the rotation vector from the quaternion in d[row, column:] to the one at q[at:], in the child's axes."""
    back = d[row, column], -d[row, column + 1], -d[row, column + 2], -d[row, column + 3]
    w, x, y, z = quaternion_multiply(back, (q[at], q[at + 1], q[at + 2], q[at + 3]))
    return quaternion_log(w, x, y, z)


@inner
def _set_ball(m, axis, law, h, bound, d, i, q, at, wx, wy, wz, v, mobility):
    """Fill the laws of one axis of ball drive i; its soft limit pushes along the rotation vector."""
    turned = _turned_from(q, at, d, i, 4)
    law[m, G1], law[m, F1] = _law(h, bound, d[i, 3], d[i, axis], -d[i, 3] * turned[axis], v, mobility)
    turned = _turned_from(q, at, d, i, 13)
    law[m, G2], law[m, F2] = _law(h, bound, d[i, 11], d[i, 12], -d[i, 11] * turned[axis], v, mobility)
    law[m, MOST] = h * d[i, 17]
    if d[i, 9] > 0.0:
        turned = quaternion_log(q[at], q[at + 1], q[at + 2], q[at + 3])
        angle = math.sqrt(turned[0] * turned[0] + turned[1] * turned[1] + turned[2] * turned[2])
        f = 1.0 / max(angle, 1e-12)
        out = f * (turned[0] * wx + turned[1] * wy + turned[2] * wz)
        push = d[i, 9] * (angle + h * out - d[i, 8]) + d[i, 10] * out
        if push > 0.0 and angle + h * out > d[i, 8]:
            g = h * d[i, 10] + h * h * d[i, 9]
            along = f * turned[axis]
            # across the rotation vector it resists changes of velocity only
            law[m, G3], law[m, F3] = g, -h * d[i, 9] * (angle - d[i, 8]) * along + g * (v - out * along)
            law[m, PUSHES] = 1.0


@inner
def _combine(m, law, mobility):
    """Fill C and B from the laws that act; a law without damping gets a little, which keeps C finite."""
    g, f = law[m, G1], law[m, F1]
    if law[m, BOUND] != 0.0:
        f += law[m, AT_BOUND]
    else:
        g, f = g + law[m, G2], f + law[m, F2]
    if law[m, PUSHES] != 0.0:
        g, f = g + law[m, G3], f + law[m, F3]
    g = max(g, _LEAST / mobility) if mobility > 0.0 else max(g, _LEAST)
    law[m, C], law[m, B] = 1.0 / g, -f / g


@outlined
def set_soft_laws(setup, drives, h, bound, soft, e, s):
    """Fill the laws of all soft rows at the rows e and the coordinates s.q, for a step h; `bound` is s above."""
    law, table, system = soft.law, setup.table, setup.system
    for m in range(len(soft.row)):
        r, c, i = soft.row[m], soft.constraint[m], soft.drive[m, 0]
        for column in range(LAW):
            law[m, column] = 0.0
        mobility = row_mobility(system, c, r - system.row_start[c], e.m, e.j)
        x, v = e.values[r, 0], e.values[r, 1]
        if soft.kind[m] == SCALAR:
            _set_scalar(m, law, h, bound, drives.scalar, i, x, v, mobility)
        elif soft.kind[m] == BALL:
            axis = soft.drive[m, 1]
            wx, wy, wz = e.values[r - axis, 1], e.values[r - axis + 1, 1], e.values[r - axis + 2, 1]
            at = drives.ball_indices[i, 0]
            _set_ball(m, axis, law, h, bound, drives.ball, i, s.q, at, wx, wy, wz, v, mobility)
        elif soft.kind[m] == BETWEEN:
            k, b = table.soft[r, 0], table.soft[r, 1]
            law[m, G1], law[m, F1] = _law(h, bound, k, b, -k * x, v, mobility)
            law[m, MOST] = np.inf
        else:
            # critically damped, at the end of the substep whatever the mass
            law[m, G2] = h * table.soft[r, 1] + h * h * table.soft[r, 0]
            law[m, F2], law[m, MOST] = -h * table.soft[r, 0] * x, h * table.soft[r, 2]
        _combine(m, law, mobility)
    soft.acting[0] = 1


@outlined
def set_soft_compliance(soft, compliance):
    """Set the compliance of the soft rows."""
    for m in range(len(soft.row)):
        compliance[soft.row[m]] = soft.law[m, C] if soft.acting[0] else INERT


@outlined
def set_soft_rhs(soft, mode, h, values, rhs, compliance):
    """Set compliance and right sides of the soft rows for changes of velocity (mode 1) or accelerations (2) over h."""
    for m in range(len(soft.row)):
        r = soft.row[m]
        acts = mode != 0 and h > 0.0
        compliance[r] = soft.law[m, C] if acts else INERT
        rhs[r] = values[r, 1] + soft.law[m, B] if acts else 0.0
        if acts and mode == 2:
            rhs[r] = values[r, 2] + rhs[r] / h


@outlined
def add_soft_forces(table, soft, lam, tau):
    """Add the forces of drives along the coordinates of joints to tau."""
    for m in range(len(soft.row)):
        if soft.kind[m] <= BALL:
            tau[table.drive[soft.row[m], 1]] += lam[soft.row[m]]


@outlined
def switch_soft_rows(setup, soft, e, u):
    """Let laws enter and leave their bounds at the velocities u; return whether any did."""
    law, changed, system = soft.law, False, setup.system
    if soft.acting[0] == 0:
        return False
    m = 0
    while m < len(soft.row):
        count = 3 if soft.kind[m] == BALL else 1
        square, most = 0.0, law[m, MOST]
        for i in range(m, m + count):
            x = law[i, F2] - law[i, G2] * row_rate(system, soft.row[i], soft.constraint[i], e.j, u)
            square += x * x
        bound = square > most * most
        if bound or law[m, BOUND] != 0.0:
            f = most / math.sqrt(square) if bound else 0.0
            for i in range(m, m + count):
                x = f * (law[i, F2] - law[i, G2] * row_rate(system, soft.row[i], soft.constraint[i], e.j, u))
                if (law[i, BOUND] != 0.0) != bound or abs(x - law[i, AT_BOUND]) > 1e-6 * most:
                    changed = True
                law[i, BOUND], law[i, AT_BOUND] = 1.0 if bound else 0.0, x
        if law[m, SIGN] != 0.0:
            push = law[m, SIGN] * (law[m, F3] - law[m, G3] * row_rate(system, soft.row[m], soft.constraint[m], e.j, u))
            if (push > 0.0) != (law[m, PUSHES] != 0.0):
                law[m, PUSHES] = 1.0 if push > 0.0 else 0.0
                changed = True
        m += count
    if changed:
        for m in range(len(soft.row)):
            r, c = soft.row[m], soft.constraint[m]
            _combine(m, law, row_mobility(system, c, r - system.row_start[c], e.m, e.j))
    return changed
