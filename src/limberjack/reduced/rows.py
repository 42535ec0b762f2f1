"""Constraint rows over the articulated-body solution of a tree: auxiliary constraints (Baraff 1996, section 7).

The articulated-body algorithm has given qdd0 for all known forces. With the path-sparse forward pass y of each row
(`responses.py`) the multipliers lam satisfy

    A_ij = sum_v y_i[v] y_j[v] / D_v
    equality rows:   A lam + b = 0
    inequality rows: lam >= 0, A lam + b >= 0, one of them 0

with b the row's acceleration without the constraints, and the forces J^T lam enter where the forward elimination left
the joint forces: one more outward pass gives qdd. The same rows with b = phi' or phi project velocities or positions:
the smallest change in the metric of the mass.

A soft row, with stiffness k, damping c and the current force f = k phi + c phi', is implicit over a step h:
(A + 1/s) lam = -(b + (f + h k phi') / s), s = h (h k + c).

In the variational step (AHEAD) an iterate of the velocity leads to a pose ahead, with the value phi+ there, and qdd is
its correction per time: b = phi+ / h^2 + J qdd and for soft rows b = J qdd + (k phi+ + c phi') / s. Rows at velocity
level have b = (phi' + r phi'-) / h + J qdd with the rate phi'- of the last half step: with r = 1 the force, which acts
between the two, would do no work at all; r is a little less, so that what is violated dies away. Inequalities ask for
the lesser of the two: where a curved limit, or one that is violated already, would need a faster way back than the rate
it was approached with, reflected, its force would do work; what is then still violated is left to the projection.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from limberjack._jit import inner, outlined
from limberjack.constraints.compound import new_scratch, set_compound
from limberjack.constraints.rows import GAP, LEVER_A, LEVER_B, PAIR, PLAIN, row, set_pair
from limberjack.constraints.table import DRIVE, EQUALITY, GRIP, INEQUALITY, Row, Table
from limberjack.linear.dense import factor_psd, solve_psd
from limberjack.linear.lcp import Workspace, new_workspace, solve_lcp
from limberjack.model.arrays import DOF, LINK, Links
from limberjack.model.joints import HINGE, SLIDE
from limberjack.reduced.responses import path_forward
from limberjack.reduced.work import AC, AL, BC, BL, DI, UU, R, W
from limberjack.spatial.vectors import cross

__all__ = [
    "ACCELERATION",
    "AHEAD",
    "ConstraintState",
    "GIVING",
    "NO_ROOM",
    "POSITION",
    "SINGULAR",
    "VELOCITY",
    "apply_multipliers",
    "blocks_of_rows",
    "evaluate_rows",
    "evaluate_rows_at",
    "grown",
    "new_constraint_state",
    "paths",
    "forget",
    "takes_known",
    "response_matrix",
    "select_rows",
    "solve_rows",
]

ACCELERATION, VELOCITY, POSITION, AHEAD, GIVING = range(5)
# An inequality row is active when its value is no more than this.
ACTIVE_GAP = 1e-10
# Columns of `blocks`: rows (equalities, then inequalities), pairs, links of the pairs.
ROW, ROW_END, PAIR_START, PAIR_END, LINK_START, LINK_END, BLOCK = range(7)
NO_ROOM = -1
INFINITE = np.inf
# Redundant rows: pivots below this, of rows scaled to 1.
DEPENDENT = 1e-11
# Rows that move the tree by less than this part of what they would move a free body are near a singular pose: damped.
NEARLY_SINGULAR = 1e-6
SINGULAR = 5  # in the report


class ConstraintState(NamedTuple):
    """State and scratch of the rows on a tree; n links, r rows, p pairs, m rows that may act at once."""

    blocks: np.ndarray  # (k, BLOCK) what belongs to each span of trees
    pair_links: np.ndarray  # links that pairs are on, block by block
    path: np.ndarray  # (r, 4) links at which the paths of a row to the world begin, -1 = none
    stop: np.ndarray  # (r, 4) where that path joins an earlier one
    velocities: np.ndarray  # (n, 6)
    ends: np.ndarray  # (n, 18)
    state: np.ndarray  # (p, PAIR)
    near: np.ndarray  # (t,) angles, turns counted
    scratch: np.ndarray  # of compound joints
    wrench: np.ndarray  # (r, 12)
    values: np.ndarray  # (r, 3) value, rate, bias
    ahead: np.ndarray  # (r,) value at the end of a variational step
    reflected: np.ndarray  # (r,) r times the rate of the last half step of inequalities and rows at velocity level
    compliance: np.ndarray  # (r, 3) current force, stiffness and damping of soft rows
    entered: np.ndarray  # (r,) bool: inequality rows that acted in this projection of positions
    correction: np.ndarray  # (nv,) change of positions or velocities by a projection
    displaced: np.ndarray  # (nv,) sum of those of the positions
    multipliers: np.ndarray  # (r,) of the last step
    rows: np.ndarray  # (m,) the rows that act now
    known: np.ndarray  # (m + 3,) block and rows of `matrix`, and whether it is in `factor`, see `takes_known`
    y: np.ndarray  # (m, nv)
    inverse: np.ndarray  # (nv,) 1 / D
    matrix: np.ndarray  # (m, m)
    factor: np.ndarray  # (m, m)
    order: np.ndarray  # (m,)
    diagonal: np.ndarray  # (m,) of the matrix before it was factored
    low: np.ndarray  # (m,) bounds of the multipliers
    high: np.ndarray  # (m,)
    rhs: np.ndarray  # (m,) right-hand sides b
    force: np.ndarray  # (m,) multipliers
    slack: np.ndarray  # (m,) A lam + b
    residual: np.ndarray  # (m,) -b; after the solve -b - A lam, not zero in inconsistent redundant rows
    guess: np.ndarray  # (m,) int8 state of the pivoting
    lcp: Workspace
    # (6,) rows acting, rank, iterations of the projection, gap left, row of the gap, whether one was nearly singular
    report: np.ndarray


def blocks_of_rows(links: Links, rows: list[Row], pair_link: np.ndarray, spans: np.ndarray) -> np.ndarray:
    """Return, per row, the block of trees it belongs to; all links it acts on lie in one."""
    first = spans[:, LINK]
    out = np.zeros(len(rows), np.int64)
    owner = np.repeat(np.arange(len(links.parent)), links.dof)
    for k, one in enumerate(rows):
        on = [int(link) for pair, _ in one.terms for link in pair_link[pair] if link >= 0]
        on += [int(owner[v]) for v, _, _ in one.coordinates]
        out[k] = int(np.searchsorted(first, on[0], side="right")) - 1 if on else 0
    return out


def new_constraint_state(
    links: Links, table: Table, row_block: np.ndarray, pair_block: np.ndarray, spans: np.ndarray
) -> ConstraintState:
    """Return state and scratch for the rows of `table`, sorted by block and, in it, equalities first."""
    n, nv, r, p = len(links.parent), len(links.armature), len(table.joint), len(table.pair_link)
    blocks = np.zeros((len(spans), BLOCK), np.int64)
    pair_links: list[int] = []
    for k in range(len(spans)):
        rows, own = np.flatnonzero(row_block == k), np.flatnonzero(pair_block == k)
        first = int(np.searchsorted(row_block, k))
        here = sorted({int(i) for i in table.pair_link[own].ravel() if i >= 0})
        pair = int(np.searchsorted(pair_block, k))
        blocks[k] = [first, first + len(rows), pair, pair + len(own), len(pair_links), len(pair_links) + len(here)]
        pair_links += here
    path, stop = paths(links, table, n)
    equalities = max((int((table.role[row_block == k] != INEQUALITY).sum()) for k in range(len(spans))), default=0)
    width = PAIR if len(table.compound) else PLAIN
    parts: list[Any] = [
        blocks, np.array(pair_links, np.int64), path, stop, np.zeros((n, 6)), np.zeros((n, 18)), np.zeros((p, width)),
        np.zeros(len(table.weights)), new_scratch(), np.zeros((r, 12)), np.zeros((r, 3)), np.zeros(r), np.zeros(r),
        np.zeros((r, 3)), np.zeros(r, bool), np.zeros(nv), np.zeros(nv), np.zeros(r),
        *_row_arrays(equalities + min(r - equalities, 16), nv), np.zeros(6),
    ]  # fmt: skip
    return ConstraintState(*parts)


def _row_arrays(m: int, nv: int) -> tuple[Any, ...]:
    return (
        np.zeros(m, np.int64), np.full(m + 3, -1, np.int64), np.zeros((m, nv)), np.zeros(nv), np.zeros((m, m)),
        np.zeros((m, m)), np.zeros(m, np.int64), *(np.zeros(m) for _ in range(7)), np.zeros(m, np.int8),
        new_workspace(m),
    )  # fmt: skip


def grown(constraint: ConstraintState, most: int) -> ConstraintState:
    """Return `constraint` with room for twice as many rows at once, at most `most`."""
    names = ConstraintState._fields[ConstraintState._fields.index("rows") : ConstraintState._fields.index("lcp") + 1]
    m = min(most, max(2 * len(constraint.rows), 16))
    return constraint._replace(**dict(zip(names, _row_arrays(m, constraint.y.shape[1]), strict=True)))


def paths(links: Links, table: Table, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the links each row's paths start at, and where each joins an earlier one; of the first n links."""
    owner = np.repeat(np.arange(n), links.dof[:n])
    r = len(table.joint)
    path, stop = np.full((r, 4), -1, np.int64), np.full((r, 4), -1, np.int64)
    # rows on one coordinate are many, and need no walk
    single = (table.row_pair[:, 0] < 0) & (table.indices[:, 0] >= 0) & (table.indices[:, 1] < 0)
    path[single, 0] = owner[table.indices[single, 0]]
    for k in np.flatnonzero(~single):
        starts = [int(i) for pair in table.row_pair[k] if pair >= 0 for i in table.pair_link[pair] if i >= 0]
        starts += [int(owner[v]) for v in table.indices[k, :2] if v >= 0]
        if len(starts) == 1:  # no other path to join: no need to walk one that may be long
            path[k, 0] = starts[0]
            continue
        seen: set[int] = set()
        for slot, i in enumerate(dict.fromkeys(starts)):
            path[k, slot] = i
            while i >= 0 and i not in seen:
                seen.add(i)
                i = int(links.parent[i])
            stop[k, slot] = i
    return path, stop


@outlined
def _link_velocities(links, span, qd, rows, subspace, velocities):
    """Fill the (n, 6) velocities of the links in `span`."""
    parent, kinds, v_start, dofs = links.parent, links.kind, links.v_start, links.dof
    for i in range(span[LINK], span[LINK + 1]):
        p = parent[i]
        vx = vy = vz = 0.0
        if p >= 0:
            cx, cy, cz = cross(rows[p, W], rows[p, W + 1], rows[p, W + 2], rows[i, 24], rows[i, 25], rows[i, 26])
            vx, vy, vz = velocities[p, 3] + cx, velocities[p, 4] + cy, velocities[p, 5] + cz
        if kinds[i] == SLIDE:
            s = qd[v_start[i]]
            vx, vy, vz = vx + s * rows[i, R + 8], vy + s * rows[i, R + 9], vz + s * rows[i, R + 10]
        elif kinds[i] != HINGE:
            for v in range(v_start[i], v_start[i] + dofs[i]):
                vx += subspace[v, 3] * qd[v]
                vy += subspace[v, 4] * qd[v]
                vz += subspace[v, 5] * qd[v]
        velocities[i, 0], velocities[i, 1], velocities[i, 2] = rows[i, W], rows[i, W + 1], rows[i, W + 2]
        velocities[i, 3], velocities[i, 4], velocities[i, 5] = vx, vy, vz


@outlined
def evaluate_rows(
    # model
    links, table,
    # in
    span, k, time, q, qd, work,
    # out
    constraint,
):  # fmt: skip
    """Fill value, rate, bias and wrenches of all rows of block k, after `kinematics`."""
    if constraint.blocks[k, PAIR_END] > constraint.blocks[k, PAIR_START]:
        _link_velocities(links, span, qd, work.rows, work.subspace, constraint.velocities)
    evaluate_rows_at(table, k, time, q, qd, work.rows, constraint.velocities, constraint)


@outlined
def evaluate_rows_at(
    # model
    table,
    # in
    k, time, q, qd, rows, velocities,
    # out
    constraint,
):  # fmt: skip
    """Fill value, rate, bias and wrenches of all rows of block k for links with poses `rows` and (n, 6) velocities."""
    blocks, ends = constraint.blocks, constraint.ends
    if blocks[k, PAIR_END] > blocks[k, PAIR_START]:
        for t in range(blocks[k, LINK_START], blocks[k, LINK_END]):
            i = constraint.pair_links[t]
            for c in range(3):
                for j in range(3):
                    ends[i, 3 * c + j] = rows[i, R + 4 * j + c]
                ends[i, 9 + c] = rows[i, R + 4 * c + 3]
            for c in range(6):
                ends[i, 12 + c] = velocities[i, c]
        for p in range(blocks[k, PAIR_START], blocks[k, PAIR_END]):
            set_pair(p, table.pair_link, table.pair_frame, ends, constraint.state)
        for c in range(len(table.compound)):
            p = table.compound[c, 0]
            if blocks[k, PAIR_START] <= p < blocks[k, PAIR_END]:
                set_compound(
                    table.compound[c, 1], table.compound[c, 2], table.factor_kind, table.factor_data, time, p,
                    constraint.scratch, constraint.state,
                )  # fmt: skip
    values, indices, share, target = constraint.values, table.indices, table.share, table.target
    for r in range(blocks[k, ROW], blocks[k, ROW_END]):
        if table.row_pair[r, 0] >= 0:
            row(table, r, time, constraint.state, constraint.near, constraint.wrench, values)
        else:
            values[r, 0] = -(target[r, 0] + target[r, 1] * time)
            values[r, 1] = -target[r, 1]
            values[r, 2] = 0.0
        for c in range(2):
            if indices[r, c] >= 0:
                values[r, 0] += share[r, c] * q[indices[r, 2 + c]]
                values[r, 1] += share[r, c] * qd[indices[r, c]]


@outlined
def _row_acceleration(links, table, r, known, rows, qdd, constraint):
    """Return the second derivative of row r by the accelerations found so far.

    With `known` = 1, those with qdd = 0 included; with 0, the part of qdd alone.
    """
    gravity, state, wrench, indices = links.gravity, constraint.state, constraint.wrench, table.indices
    out = known * constraint.values[r, 2]
    for slot in range(2):
        k = table.row_pair[r, slot]
        if k < 0:
            continue
        nx, ny, nz = wrench[r, 6 * slot], wrench[r, 6 * slot + 1], wrench[r, 6 * slot + 2]
        fx, fy, fz = wrench[r, 6 * slot + 3], wrench[r, 6 * slot + 4], wrench[r, 6 * slot + 5]
        for end in range(2):
            i = table.pair_link[k, end]
            if i < 0:
                continue
            lever = LEVER_A if end == 0 else LEVER_B
            ax = known * rows[i, AL] + rows[i, BL]
            ay = known * rows[i, AL + 1] + rows[i, BL + 1]
            az = known * rows[i, AL + 2] + rows[i, BL + 2]
            cx, cy, cz = cross(ax, ay, az, state[k, lever], state[k, lever + 1], state[k, lever + 2])
            cx += known * rows[i, AC] + rows[i, BC] + known * gravity[0]
            cy += known * rows[i, AC + 1] + rows[i, BC + 1] + known * gravity[1]
            cz += known * rows[i, AC + 2] + rows[i, BC + 2] + known * gravity[2]
            seen = fx * cx + fy * cy + fz * cz + (nx * ax + ny * ay + nz * az)
            if end == 1:
                out += seen
            else:
                tx, ty, tz = cross(state[k, GAP], state[k, GAP + 1], state[k, GAP + 2], fx, fy, fz)
                out -= seen + (tx * ax + ty * ay + tz * az)
    for c in range(2):
        if indices[r, c] >= 0:
            out += table.share[r, c] * qdd[indices[r, c]]
    return out


@outlined
def select_rows(
    # model
    links, table,
    # in
    k, mode, h, margin, soft, rows, qdd,
    # out
    constraint,
):  # fmt: skip
    """List the rows of block k that act in `mode`, with bounds and right-hand sides; return how many, or NO_ROOM.

    Args:
        links: the tree.
        table: the rows.
        k: the block.
        mode: ACCELERATION, VELOCITY, POSITION, AHEAD or GIVING: grips and drives, beside equalities of velocities.
        h: step over which soft rows are implicit [s].
        margin: largest value at which an inequality row acts, but in AHEAD [m, rad].
        soft: whether rows of springs are included; grips (with a largest force) always are.
        rows: of the work arrays.
        qdd: accelerations without the rows.
        constraint: filled.

    An active inequality row acts; one that pressed in an earlier stage (its multiplier is not zero) stays an equality
    for the stages and the positions after it, which are off by no more than the integrator's error. Its separating
    velocity is subtracted from the acceleration that would bring it back within the step. In AHEAD an inequality acts
    where the correction would leave it violated, or pressed in an earlier iteration.
    """
    values, blocks, compliance, roles = constraint.values, constraint.blocks, constraint.compliance, table.role
    low, high, rhs, entered = constraint.low, constraint.high, constraint.rhs, constraint.entered
    count = 0
    for r in range(blocks[k, ROW], blocks[k, ROW_END]):
        role = roles[r]
        if mode == GIVING and not (role == EQUALITY or role == GRIP or role == DRIVE):
            continue
        pressed = role == INEQUALITY and constraint.multipliers[r] > 0.0
        seen = 0.0
        if mode == AHEAD and role <= INEQUALITY:
            seen = _row_acceleration(links, table, r, 0.0, rows, qdd, constraint)
            turned = seen + (values[r, 1] + constraint.reflected[r]) / h
            seen += constraint.ahead[r] / (h * h)
            if table.speed[r] == 1 or (role == INEQUALITY and turned > seen):
                seen = turned
            if role == INEQUALITY and not pressed and seen >= 0.0:
                continue
        elif mode == GIVING and role == EQUALITY:
            seen = _row_acceleration(links, table, r, 0.0, rows, qdd, constraint) + values[r, 1] / h
        elif role == INEQUALITY and not pressed:
            # once in a projection, always: rows that enter and leave would cycle
            if not (values[r, 0] <= margin or (mode == POSITION and entered[r])):
                continue
            if mode == POSITION:
                entered[r] = True
        if role > INEQUALITY:
            s = h * (h * compliance[r, 1] + compliance[r, 2])
            if mode == VELOCITY or mode == POSITION or s == 0.0 or not (soft or role == GRIP):
                continue
        if mode == POSITION and table.speed[r] == 1:
            continue
        if count == len(constraint.rows):
            return NO_ROOM
        constraint.rows[count] = r
        low[count] = 0.0 if role == INEQUALITY and not (pressed and mode == POSITION) else -INFINITE
        high[count] = INFINITE
        if mode == POSITION:
            rhs[count] = values[r, 0]
        elif mode == VELOCITY:
            rhs[count] = values[r, 1]
        else:
            if mode == ACCELERATION or role > INEQUALITY:
                known = 1.0 if mode == ACCELERATION else 0.0
                seen = _row_acceleration(links, table, r, known, rows, qdd, constraint)
            if mode == ACCELERATION and role == INEQUALITY and not pressed and values[r, 1] > 0.0:
                seen += values[r, 1] / h
            if role > INEQUALITY:
                # AHEAD, the force is that at the end of the step already
                ahead = h * compliance[r, 1] * values[r, 1] if mode == ACCELERATION else 0.0
                seen += (compliance[r, 0] + ahead) / s
                if role == GRIP:
                    most = table.soft[r, 2] * (compliance[r, 1] / table.soft[r, 0])  # of the share that acts
                    low[count], high[count] = -most, most
            rhs[count] = seen
        count += 1
    return count


@inner
def _free_response(inertia, i, nx, ny, nz, fx, fy, fz):
    """Return what link i, free of joints, does along the wrench (n at the origin, f), and how that changes with pose.

    Both are estimates: the second is the first per length of the link, or per radian.
    """
    out = bend = 0.0
    m, size = inertia[i, 9], inertia[i, 0] + inertia[i, 1] + inertia[i, 2]
    if m > 0.0:
        out += (fx * fx + fy * fy + fz * fz) / m
    if size > 0.0:
        bend = out * math.sqrt(m / size)
        turned = 3.0 * (nx * nx + ny * ny + nz * nz) / size
        out += turned
        bend += turned
    return out, bend


# Columns of `known`: block, or -1 where the matrix holds for one solve only; rows; whether they are factored; the rows.
_BLOCK, _COUNT, _FACTORED, _ROWS = range(4)


@inner
def takes_known(k, count, constraint):
    """Return whether y and the matrix are those of the listed rows of block k, see `forget`; rhs is then so, too."""
    known = constraint.known
    if known[_BLOCK] != k or known[_COUNT] != count:
        return False
    for j in range(count):
        if known[_ROWS + j] != constraint.rows[j]:
            return False
    for j in range(count):
        if constraint.matrix[j, j] == 0.0:  # the tree already satisfies it
            constraint.rhs[j] = 0.0
    return True


@inner
def forget(constraint):
    """Take note that the pose or what `articulate` left are others than those of the matrix."""
    constraint.known[_BLOCK] = -1


@outlined
def response_matrix(
    # model
    links, table,
    # in
    span, k, count, h, damping, work,
    # out
    constraint,
):  # fmt: skip
    """Fill y of the listed rows of block k and the matrix A, after `articulate`.

    Near a pose where a row loses its rank its value is a square, which Newton's steps may find no root of: A gets the
    row's right-hand side times `damping` and its curvature (Levenberg, Marquardt), so that they stay bounded.
    """
    kinds, v_start, dofs, parent = links.kind, links.v_start, links.dof, links.parent
    y, inverse, matrix, state, wrench = (
        constraint.y,
        constraint.inverse,
        constraint.matrix,
        constraint.state,
        constraint.wrench,
    )
    for i in range(span[LINK], span[LINK + 1]):
        for c in range(dofs[i]):
            v = v_start[i] + c
            inverse[v] = work.rows[i, DI] if kinds[i] == HINGE or kinds[i] == SLIDE else work.pivot[v, c]
    constraint.known[_BLOCK], constraint.known[_COUNT], constraint.known[_FACTORED] = k, count, 0
    for j in range(count):
        r = constraint.rows[j]
        constraint.known[_ROWS + j] = r
        for v in range(span[DOF], span[DOF + 1]):
            y[j, v] = 0.0
        whole = curvature = 0.0
        for slot in range(2):
            pair = table.row_pair[r, slot]
            if pair < 0:
                continue
            o = 6 * slot
            nx, ny, nz = wrench[r, o], wrench[r, o + 1], wrench[r, o + 2]
            fx, fy, fz = wrench[r, o + 3], wrench[r, o + 4], wrench[r, o + 5]
            for end in range(2):
                i = table.pair_link[pair, end]
                if i < 0:
                    continue
                lever, sign = (LEVER_A, -1.0) if end == 0 else (LEVER_B, 1.0)
                tx, ty, tz = state[pair, lever], state[pair, lever + 1], state[pair, lever + 2]
                if end == 0:
                    tx, ty, tz = tx + state[pair, GAP], ty + state[pair, GAP + 1], tz + state[pair, GAP + 2]
                cx, cy, cz = cross(tx, ty, tz, fx, fy, fz)
                response, bend = _free_response(links.inertia, i, nx + cx, ny + cy, nz + cz, fx, fy, fz)
                whole, curvature = whole + response, curvature + bend
                path_forward(
                    links, i, sign * (nx + cx), sign * (ny + cy), sign * (nz + cz), sign * fx, sign * fy, sign * fz,
                    -1, 0.0, work, j, y,
                )  # fmt: skip
        for c in range(2):
            v = table.indices[r, c]
            if v >= 0:
                # the link whose dof it is starts one of the paths
                i = constraint.path[r, 0]
                for slot in range(4):
                    at = constraint.path[r, slot]
                    if at >= 0 and v_start[at] <= v < v_start[at] + dofs[at]:
                        i = at
                path_forward(links, i, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, v, table.share[r, c], work, j, y)
        for other in range(j + 1):
            # along the paths of this row; y of the other is zero off its own
            total = 0.0
            for slot in range(4):
                i = constraint.path[r, slot]
                while i >= 0 and i != constraint.stop[r, slot]:
                    for c in range(dofs[i]):
                        v = v_start[i] + c
                        total += y[j, v] * y[other, v] * inverse[v]
                    i = parent[i]
            matrix[j, other] = total
            matrix[other, j] = total
        if matrix[j, j] <= DEPENDENT * whole:
            # the tree already satisfies this row: what is left is rounding, and is dropped; one that gives way pulls
            for v in range(span[DOF], span[DOF + 1]):
                y[j, v] = 0.0
            if table.role[r] <= INEQUALITY:
                constraint.rhs[j] = 0.0
            for other in range(j + 1):
                matrix[j, other] = 0.0
                matrix[other, j] = 0.0
        elif matrix[j, j] < NEARLY_SINGULAR * whole and table.role[r] <= INEQUALITY:
            constraint.known[_BLOCK] = -1
            matrix[j, j] += damping * abs(constraint.rhs[j]) * curvature
            constraint.report[SINGULAR] = 1.0
        if table.role[r] > INEQUALITY:
            constraint.known[_BLOCK] = -1
            matrix[j, j] += 1.0 / (h * (h * constraint.compliance[r, 1] + constraint.compliance[r, 2]))


@outlined
def solve_rows(
    # in
    count,
    # out
    constraint,
):  # fmt: skip
    """Solve for the multipliers of the listed rows; return 0, or the status of the pivoting if there are none."""
    matrix, factor, residual = constraint.matrix, constraint.factor, constraint.residual
    bounded = False
    for i in range(count):
        bounded = bounded or constraint.low[i] > -INFINITE
    constraint.report[0] = count
    if bounded:
        constraint.known[_FACTORED] = 0
        for i in range(count):
            constraint.guess[i] = 0
        constraint.report[1] = count
        return solve_lcp(
            count,
            DEPENDENT,
            matrix,
            constraint.rhs,
            constraint.low,
            constraint.high,
            constraint.lcp,
            constraint.guess,
            constraint.force,
            constraint.slack,
        )
    if constraint.known[_FACTORED] == 0:
        for i in range(count):
            for j in range(i + 1):
                factor[i, j] = matrix[i, j]
        constraint.report[1] = factor_psd(count, DEPENDENT, factor, constraint.order, constraint.diagonal)
        constraint.known[_FACTORED] = 1
    for i in range(count):
        residual[i] = -constraint.rhs[i]
    solve_psd(count, np.int64(constraint.report[1]), factor, constraint.order, residual, constraint.force)
    return 0


@outlined
def apply_multipliers(
    # model
    links,
    # in
    span, count, fresh, constraint, work,
):  # fmt: skip
    """Add J^T lam to the joint forces left by the elimination, or with `fresh` replace them."""
    v_start, kinds, dofs, rest, rows = links.v_start, links.kind, links.dof, work.rest, work.rows
    for i in range(span[LINK], span[LINK + 1]):
        for v in range(v_start[i], v_start[i] + dofs[i]):
            change = 0.0
            for j in range(count):
                change += constraint.y[j, v] * constraint.force[j]
            if kinds[i] == HINGE or kinds[i] == SLIDE:
                rows[i, UU] = change if fresh else rows[i, UU] + change
            else:
                rest[v] = change if fresh else rest[v] + change
