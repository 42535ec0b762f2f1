"""Contact forces of bodies under constraints: contacts are auxiliary rows over the joints, then complementarity.

At the poses of the start, with the velocities u that the step would end with without contacts:

    v = A lam + b,   A = J Mhat^-1 J^T,   b = J u - target

where Mhat^-1 is the response of the bodies with their joints (Baraff 1996, section 8.1, equation (12)). Without
friction this is one complementarity problem with the loops and the limits that are reached, solved exactly; with
friction the cones are swept.

Contacts occupy slots of `inserted_rows.with_contact_slots`. The kernels here write frames into slots, list active rows,
and fill right sides and resulting wrenches; rows, factor, responses and complementarity are those of the rooms that own
them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from limberjack._jit import inner, kernel
from limberjack.collision.detect import Contacts
from limberjack.constraints.table import DRIVE, ROTOR, SPRING
from limberjack.contact.friction_cone import sweep_cones
from limberjack.contact.restitution import separation_velocity
from limberjack.linear.auxiliary import auxiliary_matrix, empty_responses, trace
from limberjack.linear.elimination import new_work, order_of, split
from limberjack.linear.lcp import new_workspace, solve_lcp
from limberjack.linear.tree import factor
from limberjack.maximal.inserted_rows import with_contact_slots
from limberjack.maximal.rows import Maximal, diagonal_of, indices_of, new_evaluation
from limberjack.maximal.solve import Setup, State, evaluate_state
from limberjack.model.model import Model
from limberjack.reduced.forces import Wrenches
from limberjack.spatial.quaternions import rotation_from_quaternion
from limberjack.spatial.vectors import cross, rotate_back

__all__ = ["ContactRows", "list_rows", "write_contacts", "write_frames", "set_contact_rhs", "set_wrenches"]
# Penetration that is left as it is, recovery rate of deeper ones and its largest speed [m, 1/s, m/s].
_SLOP, _RECOVERY_RATE, _MAX_RECOVERY = 1e-4, 10.0, 1.0
# Slower impacts have no restitution, as a multiple of the speed that gravity gives in a step.
_RESTITUTION_SPEED = 2.0
# Rows with at most this part of their diagonal left by others depend on them.
_DEPENDENT = 1e-11
_SWEEPS, _CONVERGED = 2000, 1e-13


@inner
def _axes(nx, ny, nz):
    """Return the unit vectors x and y of a frame whose z is the unit vector n."""
    if abs(nz) < 0.7:
        x, y, z = -ny, nx, 0.0
    else:
        x, y, z = 0.0, -nz, ny
    f = 1.0 / math.sqrt(x * x + y * y + z * z)
    x, y, z = f * x, f * y, f * z
    ux, uy, uz = cross(nx, ny, nz, x, y, z)
    return x, y, z, ux, uy, uz


@inner
def _write_frame(frame, pair, o, r, x, y, n, px, py, pz):
    """Write axes x, y, n and a point, rotated back by r, into frame[pair, o:]."""
    for c in range(3):
        v = x if c == 0 else (y if c == 1 else n)
        a, b, d = rotate_back(r, v[0], v[1], v[2])
        frame[pair, o + c], frame[pair, o + 3 + c], frame[pair, o + 6 + c] = a, b, d
    a, b, d = rotate_back(r, px, py, pz)
    frame[pair, o + 9], frame[pair, o + 10], frame[pair, o + 11] = a, b, d


@kernel
def write_frames(
    # model
    first, static, row_start, row_pair, incidence_start,
    # in
    count, link_a, link_b, point, normal, pose,
    # out
    pair_link, pair_frame, incidence_body, slot,
):  # fmt: skip
    """Write the frames of `count` contacts into slots, those of one body first; return how many are of one body.

    Args:
        first: the constraint of the first slot.
        static: slots of one body.
        row_start, incidence_start: of the system.
        row_pair: of the table.
        count: contacts.
        link_a, link_b, point, normal: of the contacts.
        pose: (n, POSE) of the bodies.
        pair_link, pair_frame: of the table.
        incidence_body: of the system.
        slot: (count,) the constraint of each contact.
    """
    ground = moving = 0
    for k in range(count):
        a, b = link_a[k], link_b[k]
        if b < 0:
            c = first + ground
            ground += 1
        else:
            c = first + static + moving
            moving += 1
        slot[k] = c
        pair, t = row_pair[row_start[c], 0], incidence_start[c]
        pair_link[pair, 0], pair_link[pair, 1] = b, a
        incidence_body[t] = a
        nx, ny, nz = normal[k, 0], normal[k, 1], normal[k, 2]
        xx, xy, xz, yx, yy, yz = _axes(nx, ny, nz)
        x, y, z = (xx, xy, xz), (yx, yy, yz), (nx, ny, nz)
        px, py, pz = point[k, 0], point[k, 1], point[k, 2]
        r = rotation_from_quaternion(pose[a, 3], pose[a, 4], pose[a, 5], pose[a, 6])
        _write_frame(pair_frame, pair, 12, r, x, y, z, px - pose[a, 0], py - pose[a, 1], pz - pose[a, 2])
        if b < 0:
            one = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0)
            _write_frame(pair_frame, pair, 0, one, x, y, z, px, py, pz)
        else:
            incidence_body[t + 1] = b
            r = rotation_from_quaternion(pose[b, 3], pose[b, 4], pose[b, 5], pose[b, 6])
            _write_frame(pair_frame, pair, 0, r, x, y, z, px - pose[b, 0], py - pose[b, 1], pz - pose[b, 2])
    return ground


@kernel
def list_rows(
    # model
    row_start, auxiliary, limits,
    # in
    h, count, slot, values,
    # out
    listed, rows,
):  # fmt: skip
    """List the active constraints and their rows: loops, limits reached within h, contacts.

    Args:
        row_start: of the system.
        auxiliary: loops.
        limits: (2,) the first limit, and the first constraint after them.
        h: the step [s].
        count: contacts.
        slot: (count,) their constraints.
        values: (r, 3) value, rate, bias of all rows.
        listed: the constraints.
        rows: all their rows.

    Returns:
        constraints listed, rows before the first of a contact, rows.
    """
    n = m = 0
    for k in range(len(auxiliary)):
        listed[n] = auxiliary[k]
        n += 1
    for c in range(limits[0], limits[1]):
        r = row_start[c]
        if values[r, 0] + h * min(values[r, 1], 0.0) <= 0.0:
            listed[n] = c
            n += 1
    before = n
    for k in range(count):
        listed[n] = slot[k]
        n += 1
    first = 0
    for k in range(n):
        first = m if k <= before else first
        for r in range(row_start[listed[k]], row_start[listed[k] + 1]):
            rows[m] = r
            m += 1
    return n, first, m


@kernel
def set_contact_rhs(
    # model
    equality_rows, rows_per_contact, compliance, slop, recovery_rate, max_recovery, restitution_threshold,
    # in
    h, first, count, rows, values, before, depth, restitution, negligible,
    # out
    matrix, rhs, low, high,
):  # fmt: skip
    """Complete the matrix and fill the velocities without forces minus their targets, and bounds.

    Args:
        equality_rows: rows of loops.
        rows_per_contact: rows of a contact.
        compliance: (r,) of compliant rows.
        slop: penetration that is left as it is [m].
        recovery_rate, max_recovery: how fast deeper penetration is pushed out [1/s], and at most [m/s].
        restitution_threshold: slower impacts have no restitution [m/s].
        h: the step [s].
        first: rows before the first of a contact.
        count: contacts.
        rows: all rows.
        values: (r, 3) at the velocities that the step would end with.
        before: (r,) rates at the start, for restitution.
        depth, restitution: of the contacts.
        negligible: (equality_rows,) diagonals up to this are rounding: the tree determines the row already.
        matrix: (n, n) completed.
        rhs, low, high: (n,).
    """
    n = first + rows_per_contact * count
    for i in range(n):
        r = rows[i]
        rhs[i], high[i] = values[r, 1], math.inf
        low[i] = -math.inf if i < equality_rows else 0.0
        if compliance[r] > 0.0:
            # compliant rows keep their predicted velocity
            matrix[i, i] += compliance[r]
            rhs[i] = 0.0
        if equality_rows <= i < first:
            rhs[i] += max(values[r, 0], 0.0) / h
    for i in range(equality_rows):
        if matrix[i, i] <= negligible[i]:
            rhs[i] = 0.0
            for k in range(n):
                matrix[i, k], matrix[k, i] = 0.0, 0.0
    for k in range(count):
        i = first + rows_per_contact * k
        r, over = rows[i], depth[k]
        # a gap may close within the step
        target = over / h if over < 0.0 else min(recovery_rate * max(over - slop, 0.0), max_recovery)
        if restitution[k] > 0.0 and before[r] < -restitution_threshold and values[r, 1] < target:
            target = max(target, separation_velocity(restitution[k], before[r], values[r, 1], -over, h))
        rhs[i] -= target
    return n


@kernel
def set_wrenches(
    # model
    rows_per_contact, center,
    # in
    h, first, count, link_a, link_b, point, normal, force, pose, begin,
    # out
    contact_forces, link, data,
):  # fmt: skip
    """Fill the force of each contact on its first body, and the wrenches on both after the first `begin`.

    Args:
        rows_per_contact: rows of a contact: along its normal, then along x and y of its frame.
        center: (n, 3) com of each body in its link's frame.
        h: the step [s].
        first: rows before the first of a contact.
        count: contacts.
        link_a, link_b, point, normal: of the contacts.
        force: (n,) impulses of all rows.
        pose: of the bodies.
        begin: number of wrenches before.
        contact_forces: (count, 3) forces, world axes.
        link, data: of the wrenches.

    Returns:
        wrenches in all.
    """
    n = begin
    for k in range(count):
        nx, ny, nz = normal[k, 0], normal[k, 1], normal[k, 2]
        i = first + rows_per_contact * k
        f = force[i] / h
        x, y, z = f * nx, f * ny, f * nz
        if rows_per_contact == 3:
            ax, ay, az, bx, by, bz = _axes(nx, ny, nz)
            f, g = force[i + 1] / h, force[i + 2] / h
            x, y, z = x + f * ax + g * bx, y + f * ay + g * by, z + f * az + g * bz
        contact_forces[k, 0], contact_forces[k, 1], contact_forces[k, 2] = x, y, z
        if x == 0.0 and y == 0.0 and z == 0.0:
            continue
        for end in range(2):
            body = link_a[k] if end == 0 else link_b[k]
            if body < 0:
                continue
            sign = 1.0 if end == 0 else -1.0
            r = rotation_from_quaternion(pose[body, 3], pose[body, 4], pose[body, 5], pose[body, 6])
            px, py, pz = rotate_back(
                r, point[k, 0] - pose[body, 0], point[k, 1] - pose[body, 1], point[k, 2] - pose[body, 2]
            )
            link[n] = body
            data[n, 0], data[n, 1] = px + center[body, 0], py + center[body, 1]
            data[n, 2] = pz + center[body, 2]
            data[n, 3], data[n, 4], data[n, 5] = sign * x, sign * y, sign * z
            data[n, 6], data[n, 7], data[n, 8] = 0.0, 0.0, 0.0
            n += 1
    return n


def write_contacts(
    whole: Maximal, first: int, static: int, contacts: Contacts, pose: np.ndarray, slot: np.ndarray
) -> None:
    """Write the frames of contacts into the slots of `with_contact_slots`.

    Args:
        whole: with slots from its constraint `first` on, `static` of them for one body.
        first: see above.
        static: see above.
        contacts: found at the poses.
        pose: of the bodies.
        slot: filled with the constraint of each contact.
    """
    table, system = whole.table, whole.system
    write_frames(
        first, static, system.row_start, table.row_pair, system.incidence_start, int(contacts.count[0]),
        contacts.link_a, contacts.link_b, contacts.point, contacts.normal, pose, table.pair_link, table.pair_frame,
        system.incidence_body, slot,
    )  # fmt: skip


class ContactRows:
    """Contact rows of a model in maximal coordinates, all bodies rigid, and the solver of their forces.

    Args:
        model: the model.
        base: the model in maximal coordinates.
        state: the state of its stepper, whose poses are read.
        room: capacity for contacts with the ground, and between bodies.
        friction: whether contacts have friction.
    """

    def __init__(self, model: Model, base: Maximal, state: State, room: tuple[int, int], *, friction: bool) -> None:
        reads = int((base.table.role == DRIVE).sum())
        self._first = len(base.names) - reads
        self._rows = 3 if friction else 1
        self._static, self.room = room[0], room
        self._whole = with_contact_slots(model, base, self._first, *room, self._rows)
        whole, system = self._whole, self._whole.system
        links, count = model.arrays.links, len(whole.names)
        sizes = np.array([base.equality_count, count - reads, count], np.int64)
        self._setup = Setup(
            whole.bodies, system, whole.table, whole.row_block, whole.scalable_pairs, whole.center, sizes, links.gravity
        )
        self._e, self._base = new_evaluation(whole), base
        self._s = state._replace(
            u=np.zeros_like(state.u), q=state.q.copy(), qd=state.qd.copy(), last_force=np.zeros(len(whole.table.joint)),
            report=np.zeros(4),
        )  # fmt: skip
        parts = split(system, np.arange(count) < base.equality_count)
        self._tree = order_of(system, parts)
        self._auxiliary = parts.auxiliary[parts.auxiliary < base.equality_count]
        self._work = new_work(self._tree)
        row_counts = np.diff(system.row_start)
        self._limits, limits = np.array([base.equality_count, self._first], np.int64), self._first - base.equality_count
        most = len(self._auxiliary) + limits + sum(room)
        self._responses = empty_responses(
            self._tree, most, int(row_counts.max(initial=0)), int(np.diff(system.incidence_start).max(initial=0))
        )
        self._equality_rows, self._spots = (
            int(row_counts[self._auxiliary].sum()),
            indices_of(whole.system, self._auxiliary),
        )
        n = self._equality_rows + limits + self._rows * sum(room)
        self._diagonal = diagonal_of(system)
        self._matrix, self._lcp = np.zeros((n, n)), new_workspace(n)
        # rotors have compliance 1 / inertia for impulses, springs and grips unbounded compliance
        role = whole.table.role
        self._compliance = np.where(role == SPRING, 1e12, np.where(role == ROTOR, whole.table.soft[:, 0], 0.0))
        self._terms = int(base.table.term_start[base.system.row_start[self._first]])
        self._pull = float(np.sqrt((links.gravity**2).sum()))
        self._slot, self._listed = np.zeros(sum(room), np.int64), np.zeros(n, np.int64)
        self._negligible = np.zeros(self._equality_rows)
        self._vectors = (*(np.zeros(n) for _ in range(5)), np.zeros(n, np.int8))
        self.sweeps = 0

    def forces(
        self, contacts: Contacts, e: Any, u: np.ndarray, predicted_u: np.ndarray, time: float, h: float, own: Wrenches
    ) -> tuple[np.ndarray, Wrenches] | None:
        """Return the force (n, 3) on the first body of each contact over a step h, world axes, and all wrenches.

        None if no forces fit.

        Args:
            contacts: found at the poses now.
            e: the stepper's evaluation, for unwrapped angles.
            u: (nu,) current velocities.
            predicted_u: (nu,) velocities at the end of the step without contacts.
            time: [s].
            h: [s].
            own: other wrenches.
        """
        n, local, system, r = int(contacts.count[0]), self._e, self._whole.system, self._responses
        write_contacts(self._whole, self._first, self._static, contacts, self._s.pose, self._slot)
        local.near[: self._terms] = e.near[: self._terms]
        local.state[: len(e.state)] = e.state
        before = local.values[:, 1]
        if contacts.restitution[:n].any():
            self._s.u[:] = u
            evaluate_state(self._setup, time, local, self._s)
            before = local.values[:, 1].copy()
        self._s.u[:] = predicted_u
        evaluate_state(self._setup, time, local, self._s)
        if factor(system, self._tree, local.m, local.j, self._compliance, self._work) != 0:
            return None
        listed, first, _ = list_rows(
            system.row_start, self._auxiliary, self._limits, h, n, self._slot, local.values, r.constraint, self._listed
        )
        r.count[0] = listed
        if trace(system, self._tree, r) != 0:
            return None
        auxiliary_matrix(system, self._tree, local.j, self._work, r, self._matrix)
        if self._equality_rows:
            row, in_j, in_u = self._spots
            weights = local.j[in_j] ** 2 / local.m[self._diagonal[in_u]]
            self._negligible[:] = _DEPENDENT * np.bincount(row, weights, minlength=self._equality_rows)
        rhs, low, high, force, residual, state = self._vectors
        rows = set_contact_rhs(
            self._equality_rows, self._rows, self._compliance, _SLOP, _RECOVERY_RATE, _MAX_RECOVERY,
            _RESTITUTION_SPEED * h * self._pull, h, first, n, self._listed, local.values, np.ascontiguousarray(before),
            contacts.depth, contacts.restitution, self._negligible, self._matrix, rhs, low, high,
        )  # fmt: skip
        force[:rows], state[:rows] = 0.0, 0
        if self._rows == 3:
            cones = (self._matrix, rhs, low, contacts.friction)
            self.sweeps, _ = sweep_cones(first, n, _SWEEPS, _CONVERGED, *cones, force)
        elif solve_lcp(rows, _DEPENDENT, self._matrix, rhs, low, high, self._lcp, state, force, residual) != 0:
            return None
        k = len(own.link)
        contact_forces, link, data = np.zeros((n, 3)), np.empty(k + 2 * n, np.int64), np.empty((k + 2 * n, 9))
        link[:k], data[:k] = own.link, own.data
        last = set_wrenches(
            self._rows, self._whole.center, h, first, n, contacts.link_a, contacts.link_b, contacts.point,
            contacts.normal, force, self._s.pose, k, contact_forces, link, data,
        )  # fmt: skip
        return contact_forces, Wrenches(link[:last], data[:last])
