"""Joint limits in mode `kinematic`: satisfied exactly, whatever trackers pull.

Corrections enforce limits by rows, which are linear and not exact where joints and trackers contradict each other. In
mode `kinematic` each correction therefore ends with a pass over the joints of the tree, starting from the fixed bodies.
D moves a body; past a joint that is beyond its limit by t it continues as D C, where C turns by t about the joint's
axis and point, or slides along the axis. The errors of joints stay as they are; trackers and loops take the rest.

An angle is brought back exactly: that about z of frame A, or x of A, or y of B, by a rotation about the same axis. For
cones and compound joints the row gives the direction, and a few passes suffice.
"""

from __future__ import annotations

import math

import numpy as np

from limberjack._jit import inner, outlined
from limberjack.constraints.rows import ANGLE, AXES_A, AXES_B, LEVER_B, SLIDE
from limberjack.maximal.rows import Maximal
from limberjack.model.model import Model
from limberjack.spatial.quaternions import quaternion_exp, quaternion_multiply, rotation_from_quaternion
from limberjack.spatial.vectors import rotate, rotate_back

__all__ = ["MOVES", "update_active_limits", "soften_trackers", "enforce_limits", "limit_order", "limit_displacements"]

# Columns of the move of a body: quaternion, then translation.
MOVES = 7
# A limit exceeded by no more than the first is satisfied; one nearer than the second is active from the start [m, rad].
_SATISFIED, _ACTIVE = 1e-12, 1e-9
_LEAST = 1e-300
# Largest displacement of a tracked body in one correction, relative to its size, and largest rotation [rad].
_MAX_PULL, _MAX_TURN = 0.5, 0.8
# Compliance of a tracker at that distance, relative to the mobility of a free body; less when nearer.
_COMPLIANCE = 0.5


def limit_order(model: Model, whole: Maximal, rows: tuple[int, int], free: np.ndarray) -> np.ndarray:
    """Return (m, 4) the order in which limits are enforced: over the joints of the tree, away from fixed bodies.

    Each line is a body, its predecessor (-1 = none; itself for a further limit of its joint), the row of a limit or -1,
    and 1 or -1 as it is body b or a of that row's joint.

    Args:
        model: the model.
        whole: the same in maximal coordinates.
        rows: first of the inequality rows, and the end of them.
        free: (n,) 0 for fixed bodies.
    """
    table, parent, n = whole.table, model.arrays.links.parent, len(free)
    edge: dict[int, list[tuple[int, int]]] = {i: [] for i in range(n)}  # of each link, limits of its joint and sides
    for r in range(*rows):
        a, b = (int(i) for i in table.pair_link[table.row_pair[r, 0]])
        if table.joint[r] >= model.body_count:
            continue
        if b >= 0 and parent[b] == a:
            edge[b].append((r, 1))
        elif a >= 0 and parent[a] == b:
            edge[a].append((r, -1))
    # the last of a joint's limits is applied first: turns about an axis of B, then about one of A, then slides
    for own in edge.values():
        own.sort(key=lambda one: _rank(table.terms[table.term_start[one[0]]]))
    floats = {int(model.arrays.body_link[b]) for b in range(model.body_count) if _is_free(model, b)}
    children: dict[int, list[int]] = {i: [] for i in range(-1, n)}
    for i in range(n):
        if i not in floats:
            children[int(parent[i])].append(i)
    order: list[tuple[int, int, int, int]] = []
    seen = {i for i in range(n) if free[i] == 0.0}
    queue = [-1, *sorted(seen)]
    waiting = sorted(floats - seen)
    while queue or waiting:
        if not queue:
            start = waiting.pop(0)
            if start in seen:
                continue
            seen.add(start)
            queue.append(start)
        at = queue.pop(0)
        near = [(i, edge[i], 1) for i in children[at]]
        if at >= 0 and at not in floats and parent[at] >= 0:
            near.append((int(parent[at]), edge[at], -1))
        for i, limits, way in near:
            if i in seen:
                continue
            seen.add(i)
            queue.append(i)
            lines = [(r, way * side) for r, side in limits] or [(-1, 1)]
            order += [(i, at if k == 0 else i, r, side) for k, (r, side) in enumerate(lines)]
    return np.array(order, np.int64).reshape(-1, 4)


def _rank(term: np.ndarray) -> int:
    return 0 if term[0] == SLIDE else 2 if term[0] == ANGLE and term[2] == 2 else 1


def _is_free(model: Model, body: int) -> bool:
    return model.joint_spec(model.joint_names[body]).kind == "free"


@inner
def _limit_correction(table, r, residual, e):
    """Return the rotation and the translation of b that bring row r to 0."""
    t, state = table.term_start[r], e.state
    what, k, axis = table.terms[t, 0], table.terms[t, 1], table.terms[t, 2]
    alone = table.term_start[r + 1] == t + 1
    if alone and (what == ANGLE or what == SLIDE):
        by = -residual / table.weights[t]
        o = AXES_A + 3 * axis
        if what == ANGLE:
            o = AXES_A + 6 if axis == 0 else (AXES_A if axis == 1 else AXES_B + 3)
        x, y, z = by * state[k, o], by * state[k, o + 1], by * state[k, o + 2]
        if what == ANGLE:
            return x, y, z, 0.0, 0.0, 0.0
        return 0.0, 0.0, 0.0, x, y, z
    x, y, z = e.wrench[r, 0], e.wrench[r, 1], e.wrench[r, 2]
    a, b, c = e.wrench[r, 3], e.wrench[r, 4], e.wrench[r, 5]
    turn, slide = x * x + y * y + z * z, a * a + b * b + c * c
    f = -residual / turn if turn > slide and turn > 1e-6 else 0.0
    g = -residual / slide if slide >= turn and slide > 1e-6 else 0.0
    return f * x, f * y, f * z, g * a, g * b, g * c


@inner
def _apply_limit(table, r, side, residual, e, i, moves):
    """Add to the move of body i, so far that of its predecessor, what satisfies the limit of row r."""
    k = table.row_pair[r, 0]
    b = table.pair_link[k, 1]
    px, py, pz = table.pair_frame[k, 21], table.pair_frame[k, 22], table.pair_frame[k, 23]
    if b >= 0:
        px, py, pz = (e.ends[b, 9] + e.state[k, LEVER_B], e.ends[b, 10] + e.state[k, LEVER_B + 1],
                      e.ends[b, 11] + e.state[k, LEVER_B + 2])  # fmt: skip
    tx, ty, tz, sx, sy, sz = _limit_correction(table, r, residual, e)
    q = quaternion_exp(tx, ty, tz)
    turn = rotation_from_quaternion(q[0], q[1], q[2], q[3])
    if side > 0:
        x, y, z = rotate(turn, px, py, pz)
        x, y, z = px + sx - x, py + sy - y, pz + sz - z
    else:
        q = (q[0], -q[1], -q[2], -q[3])
        x, y, z = rotate_back(turn, px + sx, py + sy, pz + sz)
        x, y, z = px - x, py - y, pz - z
    m = moves
    own = (m[i, 0], m[i, 1], m[i, 2], m[i, 3])
    x, y, z = rotate(rotation_from_quaternion(own[0], own[1], own[2], own[3]), x, y, z)
    m[i, 0], m[i, 1], m[i, 2], m[i, 3] = quaternion_multiply(own, q)
    m[i, 4], m[i, 5], m[i, 6] = m[i, 4] + x, m[i, 5] + y, m[i, 6] + z


@outlined
def enforce_limits(
    # model
    table, row_start, order, sided,
    # in
    starts, residual, e,
    # out
    active, lam_total, limit_moves, pose,
):  # fmt: skip
    """Bring all joints back within their limits; return whether any was beyond.

    Args:
        table: rows of the model.
        row_start: of the constraints.
        order: as of `limit_order`.
        sided: the first inequality constraint, and the end of them.
        starts: whether a step starts: then limits that are reached are active from its first correction on.
        residual: errors.
        e: evaluation of the rows.
        active, lam_total: of constraints, whether they act; of rows, multipliers summed. Those brought back act next.
        limit_moves: (n, MOVES) how bodies are moved.
        pose: (n, POSE) the bodies.
    """
    any_passed = False
    for c in range(sided[0], sided[1]):
        r = row_start[c]
        passed = residual[r] < -_SATISFIED
        if not passed and residual[r] < 0.0:
            residual[r] = 0.0  # rounding must not activate a limit
        any_passed = any_passed or passed
        if passed or (starts and residual[r] < _ACTIVE):
            active[c] = 1
            lam_total[r] = max(lam_total[r], _LEAST)
    if not any_passed:
        return False
    for i in range(len(limit_moves)):
        for k in range(MOVES):
            limit_moves[i, k] = 1.0 if k == 0 else 0.0
    acted = False
    for t in range(len(order)):
        i, before, r = order[t, 0], order[t, 1], order[t, 2]
        if before >= 0 and before != i:
            for k in range(MOVES):
                limit_moves[i, k] = limit_moves[before, k]
        if r >= 0 and residual[r] < -_SATISFIED:
            _apply_limit(table, r, order[t, 3], residual[r], e, i, limit_moves)
            acted = True
    if not acted:
        return False
    for i in range(len(limit_moves)):
        m = limit_moves
        q = (m[i, 0], m[i, 1], m[i, 2], m[i, 3])
        x, y, z = rotate(rotation_from_quaternion(q[0], q[1], q[2], q[3]), pose[i, 0], pose[i, 1], pose[i, 2])
        pose[i, 0], pose[i, 1], pose[i, 2] = x + m[i, 4], y + m[i, 5], z + m[i, 6]
        w, a, b, c = quaternion_multiply(q, (pose[i, 3], pose[i, 4], pose[i, 5], pose[i, 6]))
        f = 1.0 / math.sqrt(w * w + a * a + b * b + c * c)
        pose[i, 3], pose[i, 4], pose[i, 5], pose[i, 6] = f * w, f * a, f * b, f * c
    return True


@outlined
def update_active_limits(
    # model
    system, sided,
    # in
    residual, jacobian, correction,
    # out
    active, lam, lam_total,
):  # fmt: skip
    """Deactivate limits that pull, activate those that would be exceeded, and undo the last solve if there are any.

    Clamping multipliers alone would leave those of the joints that they balanced.

    Args:
        system: the constraints.
        sided: the first inequality constraint, and the end of them.
        residual: errors.
        jacobian: rows of all constraints.
        correction: displacements by the last solve.
        active: which constraints are active.
        lam, lam_total: multipliers of the last solve and their sum.

    Returns:
        Whether there are any.
    """
    changed = False
    for c in range(sided[0], sided[1]):
        r, acts = system.row_start[c], active[c]
        if acts == 1 and lam_total[r] < 0.0:
            active[c], lam_total[r], lam[r] = 0, 0.0, 0.0
        elif acts == 0 and residual[r] < _ACTIVE:
            rate = 0.0
            for t in range(system.incidence_start[c], system.incidence_start[c + 1]):
                o, k = 6 * system.incidence_body[t], system.block_start[t]
                for i in range(6):
                    rate += jacobian[k + i] * correction[o + i]
            if rate < -_ACTIVE:
                active[c], lam_total[r], lam[r] = 1, _LEAST, 0.0
        changed = changed or acts != active[c]
    if changed:
        for r in range(len(lam)):
            lam_total[r] -= lam[r]
    return changed


@outlined
def limit_displacements(clamp, d):
    """Scale all displacements alike where one rotates a body by more than half of `clamp`: no joint opens further."""
    most = 0.0
    for o in range(0, len(d), 6):
        most = max(most, d[o] * d[o] + d[o + 1] * d[o + 1] + d[o + 2] * d[o + 2])
    most = math.sqrt(most)
    if most > 0.5 * clamp:
        for k in range(len(d)):
            d[k] *= 0.5 * clamp / most


@outlined
def soften_trackers(
    # model
    unit,
    # in
    first, tracked,
    # out
    b, c,
):  # fmt: skip
    """Limit the displacements of trackers in one correction, and make them compliant where bodies cannot follow.

    Joints and limits do not contradict each other: with compliant trackers a solve has a solution, also near singular
    positions, and trackers out of reach open no joint. The rest of the displacement is left to the next correction.

    Args:
        unit: (n, 7) the unit metric.
        first: row of the first tracker.
        tracked: (T,) bodies, -1 = none.
        b, c: right sides and compliances.
    """
    for t in range(len(tracked)):
        i = tracked[t]
        if i < 0:
            continue
        r = first + 6 * t
        size = math.sqrt(b[r] * b[r] + b[r + 1] * b[r + 1] + b[r + 2] * b[r + 2])
        turn = math.sqrt(b[r + 3] * b[r + 3] + b[r + 4] * b[r + 4] + b[r + 5] * b[r + 5])
        most = _MAX_PULL / math.sqrt(unit[i, 0]) if unit[i, 0] > 0.0 else size
        f = most / size if size > most else 1.0
        g = _MAX_TURN / turn if turn > _MAX_TURN else 1.0
        give, turning = (
            _COMPLIANCE * min(1.0, size / most) if most > 0.0 else 0.0,
            _COMPLIANCE * min(1.0, turn / _MAX_TURN),
        )
        for k in range(3):
            b[r + k] *= f
            b[r + 3 + k] *= g
            c[r + k], c[r + 3 + k] = give * unit[i, 6], turning * unit[i, k]
