"""The region update: which joints are simulated from now on.

    touched      joints above links that were touched from outside are opened: they may move
    forces       wrenches and springs on links, in their axes, and the parts they act within (force region)
    convert      Phi and b of the whole body as if all its joints were free: values of rigid parts at the front from
                 their columns, then eq. (2) up the active region; forces down again, eqs. (4), (5), and the metric of
                 every part of the front, eq. (7)
    choose       from the roots down, largest acceleration metric first, until the budget or the tolerance is reached
    transient    accelerations of the body with old and chosen joints free
    velocities   velocities after the next step, their metric, and the same choice among those: the new active region
    rigidify     joints that leave it are stopped by impulses (`rigidify.py`); their parts get columns again

Each stage touches active nodes, their sides, the nodes opened and those above forces: nothing is done for all.

Redon, Galoppo, Lin 2005, sections 5 and 6.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from limberjack._jit import inner, outlined, spliced
from limberjack.articulated.assembly_tree import Assembly
from limberjack.articulated.drives import ball_drive, drive_forces, scalar_drive
from limberjack.articulated.joint_poses import below, set_joint, within
from limberjack.articulated.kinematics import kinematics
from limberjack.articulated.merges import (
    CHILD,
    DOFS,
    ETA,
    FIGURE,
    FIRST_SIDE,
    HANDLES,
    JX,
    KIND,
    KT,
    LEAF,
    LEAF_KT,
    NODE,
    NOW,
    OPEN,
    OPEN_PSI0,
    OPEN_TT,
    OPENED,
    OWN,
    PSI,
    PSI0,
    PT,
    SECOND_SIDE,
    SLOT,
    TAU,
    TOP,
    TT,
    UP,
    WEIGHT,
    V,
    back_substitute,
    bias,
    columns_place,
    merge_accelerations,
    open_joint,
    place,
    pose,
    stride,
)
from limberjack.articulated.metric_merges import (
    merge_distance,
    merge_distance_vectors,
    merge_metric_vectors,
    metric_rows,
)
from limberjack.articulated.sweeps import ABOVE, JOINT, PART, SWEEP, sweep
from limberjack.articulated.work import AC, AL, R, W, rotation
from limberjack.forces import spring_lengths
from limberjack.methods.adaptive.coefficients import evaluate, hold
from limberjack.methods.adaptive.condensed import cluster_pose, condense, gather, lay_sweep, locate, scatter, sort_nodes
from limberjack.methods.adaptive.energies import energy_speeds
from limberjack.methods.adaptive.queue import pop, push
from limberjack.methods.adaptive.rigidify import rigidify
from limberjack.methods.adaptive.sight import PERIOD, place_root, place_sides, seen
from limberjack.model.arrays import BALL_DRIVE, DOF, LINK, SCALAR_DRIVE
from limberjack.model.joints import FREE
from limberjack.spatial.lanes import add, lane, load4, prefetch, scale
from limberjack.spatial.vectors import cross, multiply, rotate, rotate_back
from limberjack.stepping import dynamics

__all__ = ["Regions", "hold_all", "new_regions", "update"]

# Places in Regions.counts: active nodes, steps until the next update, updates so far, slots of opened joints in use,
# links touched from outside, joints that entered and left the region at the last update, nodes touched by it, nodes
# popped by its queues, active joints that count, updates that changed the region, joints changed in all, opened joints
# of rigid nodes that are kept from update to update, which round of them this is, whether the region may be larger than
# the budget, and nodes of the last transient body while it is of use (0 = it is not).
COUNT, UNTIL, STAMP, SLOTS, TOUCHED, ENTERED, LEFT, VISITED, POPPED, JOINTS, CHANGED, TURNOVER = range(12)
KEPT, EPOCH, CHECK, TRIED, COUNTS = 12, 13, 14, 15, 16
# Places in Regions.numbers: acceleration metric left out at the last update, energy removed by it and by all, metric
# of everything, velocity metric left out.
ERROR, REMOVED, REMOVED_ALL, WHOLE, SPEED_ERROR, NUMBERS = range(6)

MOST_KEPT = 4096
# Joints converted at a time, whole figures: what they need stays in the cache. In larger regions it is asked for this
# many joints ahead.
SWEPT, AHEAD = 48, 4
# Errors below this part of the whole are rounding: no tolerance asks for less.
ROUNDING = 1e-13


class Limits(NamedTuple):
    """When the choices end; f figures."""

    budget: np.ndarray  # (f,) joints of each figure, or the first alone for all
    opened: np.ndarray  # (f,) joints each choice of accelerations may take, likewise
    tolerance: np.ndarray  # (2,) accelerations, velocities; negative = none
    period: np.ndarray  # (1,) steps between updates
    each: np.ndarray  # (1,) 1 = one budget per figure
    bounded: np.ndarray  # (1,) 1 = no moving joint is stopped
    mass: np.ndarray  # (1,) 1 = the metric of the masses
    camera: np.ndarray  # (VIEW,) the camera, see `metrics.view_numbers`
    lever: np.ndarray  # (m,) how far the joints of a node can move anything per radian or metre [m]
    extent: np.ndarray  # (m,) radius about handle 0 of all that the joints of a node move [m]


class Regions(NamedTuple):
    """The active region and the scratch of updates; nb bodies, m nodes, nv freedoms."""

    active: np.ndarray  # (m,) uint8, inner nodes whose joints move
    nodes: np.ndarray  # (nb,) the same in ascending order
    transient: np.ndarray  # (m,) uint8
    trial: np.ndarray  # (nb,) nodes of the transient region, ascending
    tried: np.ndarray  # (nb,) those of the last one
    slot: np.ndarray  # (m,) where the joint of a node is opened
    opened: np.ndarray  # (m,) stamp of the update that opened it
    kept: np.ndarray  # (m, 3) slot of an opened joint, kept while its node stays as it is; rounds of it and of its T^T
    path: np.ndarray  # (m,) stamp of the update in which a force acts within the node
    above: np.ndarray  # (2 nb,) the nodes of this update's paths
    wrench: np.ndarray  # (nb, 6) forces on leaves, link axes
    turn: np.ndarray  # (m, 3) angular velocity of handle 0, its axes
    forces: np.ndarray  # (1, 12 m) on the handles
    metric: np.ndarray  # (m,) acceleration metric of nodes of the region and its front
    key: np.ndarray  # (m,) queue
    queue: np.ndarray  # (m,)
    speed: np.ndarray  # (m,) velocity metric
    qdd: np.ndarray  # (nv,)
    touched: np.ndarray  # (n,) links touched from outside
    plain: np.ndarray  # (0,) no keys: nodes are sorted by their numbers
    joints: np.ndarray  # (nb, SWEEP) the active joints, depth first, see `sweeps.py`
    taken: np.ndarray  # (figures,) joints taken by a choice
    velocities: np.ndarray  # (n, 6) scratch of the rigidification
    momenta: np.ndarray  # (n, 6)
    spot: np.ndarray  # (m, 12) poses of handle 0, where a view looks at
    sums: np.ndarray  # (m, 17) inertia, momentum and energy of nodes, for the mass metric
    velocity_weight: np.ndarray  # (nv, most freedoms of a joint)
    counts: np.ndarray  # (COUNTS,)
    numbers: np.ndarray  # (NUMBERS,)


def new_regions(tree: Assembly, links: int, nv: int, wide: int) -> Regions:
    """Return an empty active region on `tree`; no joint has more than `wide` freedoms."""
    nb = len(tree.body_link)
    m = 2 * nb

    def whole(n: int) -> np.ndarray:
        return np.zeros(n, np.int64)

    counts = whole(COUNTS)
    counts[EPOCH] = counts[CHECK] = 1
    return Regions(
        np.zeros(m, np.uint8), whole(nb), np.zeros(m, np.uint8), whole(nb), whole(nb), whole(m), whole(m),
        np.zeros((m, 3), np.int32), whole(m), whole(m),
        np.zeros((nb, 6)), np.zeros((m, 3)), np.zeros((1, 12 * m + 8)), np.zeros(m), np.zeros(m), whole(m),
        np.zeros(m),
        np.zeros(nv), whole(links), whole(0), np.zeros((nb, SWEEP), np.int64), whole(len(tree.roots)),
        np.zeros((links, 6)), np.zeros((links, 6)), np.zeros((m, 12)), np.zeros((m, 17)), np.zeros((nv, wide)), counts,
        np.zeros(NUMBERS),
    )  # fmt: skip


@inner
def counted(table, node):
    """Return whether the joint of `node` counts: it has freedoms and is no free joint to the world."""
    return table[node, DOFS] > 0 and table[node, KIND] != FREE


@outlined
def held_forces(links, drives, places, i, h, q, still, applied, own):
    """Fill the joint forces and own inertias of link i at rest: constant as long as it is held."""
    for v in range(links.v_start[i], links.v_start[i] + links.dof[i]):
        own[v, TAU], own[v, OWN] = applied[v], links.armature[v]
    for v in range(links.v_start[i], links.v_start[i] + links.dof[i]):
        row = places.scalar[v]
        if row >= 0:
            f, k, b = scalar_drive(row, drives.scalar, h, q[drives.place[row, 0]], 0.0)
            own[v, TAU] += f
            own[v, OWN] += h * b + h * h * k
        row = places.ball[v]
        if row >= 0:
            x, y, z, fx, fy, fz = ball_drive(row, drives.ball, h, q, drives.ball_place[row, 0], still, v)
            own[v, TAU] += x
            own[v + 1, TAU] += y
            own[v + 2, TAU] += z
            own[v, OWN] += fx
            own[v + 1, OWN] += fy
            own[v + 2, OWN] += fz


@spliced
def _hold_node(links, drives, places, co, mass, kept, node, h, q, still, applied, work):
    """Fill the forces and coefficients of a node whose joint is held."""
    i = co.table[node, CHILD]
    kept[node, 1] = kept[node, 2] = -1
    if i < len(links.parent):
        held_forces(links, drives, places, i, h, q, still, applied, co.own)
    return hold(links, co.table, co.numbers, co.shares, co.own, co.scratch, node, q, still, work, mass)


@spliced
def hold_all(links, drives, places, co, mass, kept, stale, h, q, still, applied, work):
    """Fill the coefficients of all nodes marked in `stale`, in ascending order, and unmark them.

    Returns:
        0 or 1 + the first freedom of a joint whose matrix is not positive.
    """
    status = 0
    for node in range(len(co.table) // 2, len(co.table)):
        if stale[node]:
            stale[node] = 0
            if not _hold_node(links, drives, places, co, mass, kept, node, h, q, still, applied, work):
                status = 1 + co.table[node, V]
    return status


@spliced
def _open(co, node, g):
    """Open the joint of `node` in the next slot, which is returned."""
    slot = g.counts[SLOTS]
    g.counts[SLOTS] = slot + 1
    g.slot[node] = slot
    g.opened[node] = g.counts[STAMP]
    g.counts[VISITED] += 1
    open_joint(co.table, co.numbers, co.own, co.scratch, node, slot)
    return slot


@inner
def _front_motion(links, table, c, active, places, node, rows):
    """Return how the top of a rigid part below an active node or root moves, in its own axes.

    Returns:
        angular velocity, angular acceleration and acceleration with qdd = 0 (less gravity), three numbers each.
    """
    top = table[node, TOP]
    up = table[node, UP]
    if not active[up]:  # the joint with the world is held
        r, _, _, _ = pose(c, place(up, len(table) // 2) + JX)
        g = links.gravity
        ax, ay, az = rotate_back(r, -g[0], -g[1], -g[2])
        return 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, ax, ay, az
    k = places.cluster[top]
    r = rotation(k, rows)
    wx, wy, wz = rows[k, W], rows[k, W + 1], rows[k, W + 2]
    lx, ly, lz = rows[k, AL], rows[k, AL + 1], rows[k, AL + 2]
    ax, ay, az = rows[k, AC], rows[k, AC + 1], rows[k, AC + 2]
    if top >= len(links.parent):
        p, x, y, z = cluster_pose(links, places, top)
        dx, dy, dz = rotate(r, x, y, z)
        r = multiply(r, p)
        sx, sy, sz = cross(wx, wy, wz, dx, dy, dz)
        tx, ty, tz = cross(wx, wy, wz, sx, sy, sz)
        ux, uy, uz = cross(lx, ly, lz, dx, dy, dz)
        ax, ay, az = ax + tx + ux, ay + ty + uy, az + tz + uz
    wx, wy, wz = rotate_back(r, wx, wy, wz)
    lx, ly, lz = rotate_back(r, lx, ly, lz)
    ax, ay, az = rotate_back(r, ax, ay, az)
    return wx, wy, wz, lx, ly, lz, ax, ay, az


@inner
def _turn_sides(table, c, node, turn):
    """Set the angular velocities of the sides of a rigid node from its own."""
    x, y, z = turn[node, 0], turn[node, 1], turn[node, 2]
    a, b = table[node, FIRST_SIDE], table[node, SECOND_SIDE]
    turn[a, 0], turn[a, 1], turn[a, 2] = x, y, z
    r, _, _, _ = below(table, c, node)
    turn[b, 0], turn[b, 1], turn[b, 2] = rotate_back(r, x, y, z)


@inner
def _centripetal(table, c, node, turn):
    """Return the acceleration of link i against its parent by the turning of a rigid node, in the axes of link i."""
    o = place(node, len(table) // 2) + JX
    x, y, z = turn[node, 0], turn[node, 1], turn[node, 2]
    a, _, _, _ = within(table, c, table[node, FIRST_SIDE], table[node, SLOT])
    dx, dy, dz = rotate(a, c[0, o + 9], c[0, o + 10], c[0, o + 11])
    sx, sy, sz = cross(x, y, z, dx, dy, dz)
    tx, ty, tz = cross(x, y, z, sx, sy, sz)
    r, _, _, _ = below(table, c, node)
    return rotate_back(r, tx, ty, tz)


@outlined
def _look_within(table, c, node, path, stamp, turn):
    """Find how the sides of a rigid node turn and their values of now, unless forces act within them.

    Returns:
        the acceleration of link i against its parent by the turning, and how many sides were looked at.
    """
    _turn_sides(table, c, node, turn)
    seen = 0
    for side in range(2):
        k = table[node, FIRST_SIDE] if side == 0 else table[node, SECOND_SIDE]
        if path[k] != stamp:
            evaluate(table, c, k, turn[k, 0], turn[k, 1], turn[k, 2])
            seen += 1
    x, y, z = _centripetal(table, c, node, turn)
    return x, y, z, seen


@spliced
def _open_rigid(co, again, node, g):
    """Open the joint of a rigid node, unless it is kept and not wanted `again`, and find its gamma and R."""
    x, y, z, visited = _look_within(co.table, co.numbers, node, g.path, g.counts[STAMP], g.turn)
    g.counts[VISITED] += visited + 1
    slot = g.kept[node, 0]
    if g.kept[node, 1] != g.counts[EPOCH]:
        again = True
        nb = len(co.table) // 2
        if g.counts[KEPT] < min(nb, MOST_KEPT):
            slot = nb + g.counts[KEPT]
            g.kept[node, 0], g.kept[node, 1] = slot, g.counts[EPOCH]
            g.counts[KEPT] += 1
        else:
            slot = g.counts[SLOTS]
            g.counts[SLOTS] += 1
    if again:
        open_joint(co.table, co.numbers, co.own, co.scratch, node, slot)
    g.slot[node] = slot
    g.opened[node] = g.counts[STAMP]
    bias(co.table, co.numbers, co.scratch, node, slot, x, y, z)
    return slot


@inner
def _front(links, table, c, active, places, node, rows, path, stamp, turn):
    """Set the values of now of the rigid part `node` at the front, b as the difference from qdd = 0."""
    nb = len(table) // 2
    wx, wy, wz, lx, ly, lz, ax, ay, az = _front_motion(links, table, c, active, places, node, rows)
    turn[node, 0], turn[node, 1], turn[node, 2] = wx, wy, wz
    if path[node] != stamp:
        evaluate(table, c, node, wx, wy, wz)
    o = columns_place(node, nb) + NOW * stride(node, nb)
    c[0, o] -= lx
    c[0, o + 1] -= ly
    c[0, o + 2] -= lz
    c[0, o + 3] -= ax
    c[0, o + 4] -= ay
    c[0, o + 5] -= az
    if table[node, HANDLES] == 2:
        r, x, y, z = within(table, c, node, 1)
        sx, sy, sz = cross(wx, wy, wz, x, y, z)
        tx, ty, tz = cross(wx, wy, wz, sx, sy, sz)
        ux, uy, uz = cross(lx, ly, lz, x, y, z)
        ax, ay, az = rotate_back(r, ax + tx + ux, ay + ty + uy, az + tz + uz)
        lx, ly, lz = rotate_back(r, lx, ly, lz)
        c[0, o + 6] -= lx
        c[0, o + 7] -= ly
        c[0, o + 8] -= lz
        c[0, o + 9] -= ax
        c[0, o + 10] -= ay
        c[0, o + 11] -= az


@inner
def _mark_path(table, leaf, count, g):
    """Mark the rigid nodes from a leaf up to the front; return how many are marked now."""
    stamp, node = g.counts[STAMP], leaf
    if g.path[leaf] != stamp:
        for k in range(6):
            g.wrench[leaf, k] = 0.0
    while table[node, UP] >= 0 and not g.active[node] and g.path[node] != stamp:
        g.path[node] = stamp
        g.above[count] = node
        count += 1
        node = table[node, UP]
    return count


@inner
def _push_link(links, table, c, places, i, px, py, pz, fx, fy, fz, tx, ty, tz, rows, count, g):
    """Let the world force f at the point p of link i and the torque t act on its leaf; return the marked nodes."""
    count = _mark_path(table, i, count, g)
    k, r, _, _, _ = locate(links, table, c, g.active, places, i)
    if k >= 0:
        r = multiply(rotation(k, rows), r)
    fx, fy, fz = rotate_back(r, fx, fy, fz)
    tx, ty, tz = rotate_back(r, tx, ty, tz)
    nx, ny, nz = cross(px, py, pz, fx, fy, fz)
    w = g.wrench
    w[i, 0] += tx + nx
    w[i, 1] += ty + ny
    w[i, 2] += tz + nz
    w[i, 3] += fx
    w[i, 4] += fy
    w[i, 5] += fz
    return count


@spliced
def _gather_forces(links, springs, table, c, places, body, wrenches, work, pull, g):
    """Find the forces on leaves, the rigid nodes they act within and how these turn; return their number."""
    rows, count = work.rows, 0
    w = wrenches.data
    for j in range(len(wrenches.link)):
        count = _push_link(
            links, table, c, places, wrenches.link[j], w[j, 0], w[j, 1], w[j, 2], w[j, 3], w[j, 4], w[j, 5],
            w[j, 6], w[j, 7], w[j, 8], rows, count, g,
        )  # fmt: skip
    if len(springs.link) > 0:
        spring_lengths(body.links, body.springs, body.whole, body.qd, work, pull)
        s, p = pull.state, springs.point
        for j in range(len(springs.link)):
            for end in range(2):
                i = springs.link[j, end]
                if i >= 0:
                    f = s[j, 11] if end == 0 else -s[j, 11]
                    o = 3 * end
                    count = _push_link(
                        links, table, c, places, i, p[j, o], p[j, o + 1], p[j, o + 2], f * s[j, 0], f * s[j, 1],
                        f * s[j, 2], 0.0, 0.0, 0.0, rows, count, g,
                    )  # fmt: skip
    if count == 0:
        return 0
    sort_nodes(count, g.plain, g.above, g.queue)
    nb, stamp = len(table) // 2, g.counts[STAMP]
    for j in range(count - 1, -1, -1):
        node = g.above[j]
        up = table[node, UP]
        if g.path[up] != stamp:
            motion = _front_motion(links, table, c, g.active, places, node, rows)
            g.turn[node, 0], g.turn[node, 1], g.turn[node, 2] = motion[0], motion[1], motion[2]
        if node >= nb:
            _turn_sides(table, c, node, g.turn)
    return count


@outlined
def _push_leaf(table, c, node, turn, wrench):
    """Set the values of now of a leaf that a force acts on."""
    evaluate(table, c, node, turn[node, 0], turn[node, 1], turn[node, 2])
    o = node * LEAF
    for k in range(6):
        total = 0.0
        for q in range(6):
            total += c[0, o + 6 * k + q] * wrench[node, q]
        c[0, o + LEAF_KT + 6 * NOW + k] += total


@spliced
def _merge_distances(co, node, slot):
    """Set the values of now of `node` for the mass metric from its sides and its joint, just opened."""
    table, c, s = co.table, co.numbers, co.scratch
    some = metric_rows(table, c, s, node, np.int64(TT), np.int64(PSI0))
    if table[node, HANDLES] > 0:
        merge_accelerations(table, c, s, node, slot)
    merge_distance(table, c, s, node, slot, some)
    merge_distance_vectors(table, c, s, node, slot, some)


@spliced
def _merge_values(co, node, slot, g):
    """Set the values of now of `node`, no root, from its opened joint and its sides; T^T and Psi0 are kept with it."""
    table, c, s = co.table, co.numbers, co.scratch
    nb, o = len(table) // 2, OPENED + slot * OPEN
    some = table[node, FIRST_SIDE] >= nb or table[node, SECOND_SIDE] >= nb
    if some and g.kept[node, 2] != g.counts[EPOCH]:
        metric_rows(table, c, s, node, o + OPEN_TT, o + OPEN_PSI0)
        if slot >= nb:
            g.kept[node, 2] = g.counts[EPOCH]
    merge_accelerations(table, c, s, node, slot)
    merge_metric_vectors(table, c, co.own, s, node, slot, some, o + OPEN_TT, o + OPEN_PSI0)


@spliced
def _climb(co, mass, count, g):
    """Find the values of now of the `count` rigid nodes that forces act within."""
    for j in range(count):
        node = g.above[j]
        if node < len(co.table) // 2:
            _push_leaf(co.table, co.numbers, node, g.turn, g.wrench)
            g.counts[VISITED] += 1
        else:
            slot = _open_rigid(co, mass, node, g)  # the mass metric needs M, which is not kept
            if mass:
                _merge_distances(co, node, slot)
            else:
                _merge_values(co, node, slot, g)


@inner
def _joint_square(weight, at, v, d, x):
    """Return x^T A x for the freedoms v .. v + d - 1 of x and the rows of A, which begin in column `at`."""
    total = 0.0
    for a in range(d):
        for b in range(d):
            total += weight[v + a, at + b] * x[v + a] * x[v + b]
    return total


@outlined
def _metric(table, c, node, f):
    """Return the acceleration metric of `node` under the forces f on its handles, eq. (7)."""
    nb = len(table) // 2
    o, k, wide = place(node, nb), 12 * node, 6 * table[node, HANDLES]
    total = c[0, o + ETA]
    for b in range(0, wide, 4):
        t = load4(c, 0, o + PT + 12 * NOW + b)
        for i in range(wide):
            t = add(t, scale(f[0, k + i], load4(c, 0, o + PSI + 12 * i + b)))
        total += f[0, k + b] * lane(t, 0) + f[0, k + b + 1] * lane(t, 1)
        if b + 2 < wide:
            total += f[0, k + b + 2] * lane(t, 2) + f[0, k + b + 3] * lane(t, 3)
    return total


@inner
def _add_up(table, own, node, g):
    """Set the metric of a converted node: that of its joint and of its sides."""
    nb, first, second = len(table) // 2, table[node, FIRST_SIDE], table[node, SECOND_SIDE]
    total = _joint_square(own, WEIGHT, table[node, V], table[node, DOFS], g.qdd)
    if first >= nb:
        total += g.metric[first]
    if second >= nb:
        total += g.metric[second]
    g.metric[node] = total


@spliced
def _convert_root(links, co, mass, places, root, rows, g):
    """Find the accelerations of a root whose joint is held, and the forces and the metric of the part below it."""
    table, c, s = co.table, co.numbers, co.scratch
    part = table[root, SECOND_SIDE]
    _front(links, table, c, g.active, places, part, rows, g.path, g.counts[STAMP], g.turn)
    slot = _open(co, root, g)
    bias(table, c, s, root, slot, 0.0, 0.0, 0.0)
    if mass:
        _merge_distances(co, root, slot)
    for k in range(12):
        g.forces[0, 12 * root + k] = 0.0
    back_substitute(table, c, s, root, slot, g.forces, 12 * root, 12 * table[root, FIRST_SIDE], 12 * part, g.qdd)
    if part >= len(table) // 2:
        g.metric[part] = _metric(table, c, part, g.forces)
    g.counts[VISITED] += 1


@inner
def _fetch_front(links, table, c, j, count, g):
    """Ask for the numbers that `_convert` uses some joints after joint j: in large regions they are far away."""
    nb = len(table) // 2
    k = min(j + 2 * AHEAD, count - 1)
    node, part = g.joints[k, JOINT], g.joints[k, PART]
    prefetch(table, node, 0)
    prefetch(table, node, 8)
    prefetch(table, part, 0)
    prefetch(table, part, 8)
    prefetch(g.turn, part, 0)
    prefetch(g.forces, 0, 12 * part)
    prefetch(g.forces, 0, 12 * part + 8)
    k = min(j + AHEAD, count - 1)
    node, part = g.joints[k, JOINT], g.joints[k, PART]
    o = place(node, nb)
    for b in range(0, 80, 8):
        prefetch(c, 0, o + b)
    prefetch(c, 0, o + KT + 12 * NOW)
    prefetch(c, 0, o + JX)
    prefetch(c, 0, o + JX + 8)
    i = table[node, CHILD]
    if i < len(links.parent):
        prefetch(links.placement, i, 0)
        prefetch(links.placement, i, 8)
    o = place(part, nb)
    for b in range(0, LEAF if part < nb else NODE, 8):
        prefetch(c, 0, o + b)


@spliced
def _convert(links, co, mass, places, roots, q, still, jwork, rows, g):
    """Find the accelerations of all active joints, the forces on the parts of the front and their metrics.

    An active node needs no Psi, p, eta: all its joints are looked at anyway, and its metric is the sum over them.
    """
    table, c, count, nb = co.table, co.numbers, g.counts[COUNT], len(co.table) // 2
    begin = most = 0
    while begin < count:
        end = begin
        while end < count and (end - begin < SWEPT or g.joints[end, ABOVE] >= 0):  # whole figures
            if count > SWEPT:
                _fetch_front(links, table, c, end, count, g)
            # A matrix that rounding made indefinite spoils the choice at worst: steps do not use it.
            set_joint(links, table, c, co.scratch, g.joints[end, JOINT], q, still, jwork)
            part = g.joints[end, PART]
            _front(links, table, c, g.active, places, part, rows, g.path, g.counts[STAMP], g.turn)
            end += 1
        sweep(table, c, co.own, co.scratch, g.joints, begin, end, g.counts[SLOTS], g.forces, g.qdd)
        for j in range(begin, end):
            part = g.joints[j, PART]
            if part >= nb:
                g.metric[part] = _metric(table, c, part, g.forces)
        most = max(most, end - begin)
        begin = end
    g.counts[SLOTS] += most
    g.counts[VISITED] += 2 * count
    for f in range(len(roots)):
        if not g.active[roots[f]]:
            _convert_root(links, co, mass, places, roots[f], rows, g)
    if not mass:
        for j in range(count):
            _add_up(table, co.own, g.nodes[j], g)
        for f in range(len(roots)):
            if not g.active[roots[f]]:
                _add_up(table, co.own, roots[f], g)


@inner
def _queue_node(limits, node, count, g):
    """Queue a node by its metric, or by what a camera sees of it; return the count after and the key."""
    key = g.metric[node]
    if limits.camera[0] > 0.0:
        key *= seen(
            limits, node, 0.5 * limits.camera[PERIOD] ** 2, g.spot[node, 9], g.spot[node, 10], g.spot[node, 11]
        )
    return push(count, key, node, g.key, g.queue), key


@spliced
def _visit(links, co, places, limits, node, count, rows, g):
    """Find the accelerations of the joint of `node`, unless they are known, and queue its sides.

    Returns:
        the count of the queue and the sum of the keys added.
    """
    table, c, s = co.table, co.numbers, co.scratch
    nb, first, second = len(table) // 2, table[node, FIRST_SIDE], table[node, SECOND_SIDE]
    known = g.active[node] or table[node, UP] < 0
    if not known:
        if g.opened[node] != g.counts[STAMP]:
            _open_rigid(co, False, node, g)
        back_substitute(table, c, s, node, g.slot[node], g.forces, 12 * node, 12 * first, 12 * second, g.qdd)
    if limits.camera[0] > 0.0:
        place_sides(links, table, c, places, g.active, node, rows, g.spot)
    total = 0.0
    for side in range(2):
        k = first if side == 0 else second
        # of the mass metric, active nodes have no key
        if k >= nb and not (limits.mass[0] > 0 and g.active[k]):
            if not known:
                g.metric[k] = _metric(table, c, k, g.forces)
            count, key = _queue_node(limits, k, count, g)
            total += key
    return count, total


@inner
def _full(table, node, limit, each, taken):
    """Return whether the joints that may be taken are: of the node's figure, or of all."""
    f = table[node, FIGURE] if each else 0
    return limit[f] >= 0 and taken[f] >= limit[f]


@spliced
def _choose_accelerations(links, co, places, roots, limits, rows, g):
    """Open joints from the roots, the largest metric first; mark them transient and list those that are new.

    Returns:
        how many joints are new to the region.
    """
    table, c, each, mass = co.table, co.numbers, limits.each[0] > 0, limits.mass[0] > 0
    count, error = 0, 0.0
    for f in range(len(roots)):
        root = roots[f]
        g.taken[f] = 0
        if limits.camera[0] > 0.0:
            place_root(links, table, c, places, g.active, root, rows, g.spot)
        if not (mass and g.active[root]):
            if mass:
                g.metric[root] = c[0, place(root, len(table) // 2) + ETA]
            count, key = _queue_node(limits, root, count, g)
            error += key
    if mass:  # the queue begins where the region ends
        for j in range(g.counts[COUNT] - 1, -1, -1):
            count, more = _visit(links, co, places, limits, g.nodes[j], count, rows, g)
            error += more
    g.numbers[WHOLE] = error
    tolerance = limits.tolerance[0]
    if tolerance >= 0.0:
        tolerance = max(tolerance, ROUNDING * error)
    new = 0
    while count > 0:
        node = g.queue[0]
        counts = counted(table, node)
        if counts and tolerance >= 0.0 and error <= tolerance:
            break
        if counts and _full(table, node, limits.opened, each, g.taken):
            if not each:
                break
            count = pop(count, g.key, g.queue)
            continue
        key = g.key[0]
        count = pop(count, g.key, g.queue)
        count, more = _visit(links, co, places, limits, node, count, rows, g)
        g.counts[POPPED] += 1
        # what is left out: the keys in the queue; for plain weights its change is known with less rounding
        if mass or limits.camera[0] > 0.0:
            error += more - key
        else:
            error -= _joint_square(co.own, WEIGHT, table[node, V], table[node, DOFS], g.qdd)
        if counts:
            g.taken[table[node, FIGURE] if each else 0] += 1
        if not g.transient[node]:
            g.transient[node] = 1
            g.trial[g.counts[COUNT] + new] = node
            new += 1
    g.numbers[ERROR] = max(error, 0.0)
    return new


@inner
def _open_touched(table, g):
    """Make the nodes above links touched from outside active."""
    count = g.counts[COUNT]
    for j in range(g.counts[TOUCHED]):
        node = table[g.touched[j], UP]
        while node >= 0 and not g.active[node]:
            g.active[node] = 1
            g.nodes[count] = node
            count += 1
            node = table[node, UP]
    g.counts[TOUCHED] = 0
    g.counts[CHECK] = 1
    g.counts[COUNT] = count
    sort_nodes(count, g.plain, g.nodes, g.queue)


@inner
def _tried_before(count, g):
    """Return whether the transient region is that of the last update, and note it.

    Its body is the same then, but for q and qd: regions are parts of it, so nothing below it has moved.
    """
    same = g.counts[TRIED] == count
    for j in range(count):
        same = same and g.tried[j] == g.trial[j]
        g.tried[j] = g.trial[j]
    g.counts[TRIED] = count
    return same


@inner
def _joint_speeds(table, count, g):
    """Fill the velocity metric of the `count` transient nodes: sums over their joints."""
    for j in range(count):
        node = g.trial[j]
        first, second = table[node, FIRST_SIDE], table[node, SECOND_SIDE]
        total = 0.0
        if counted(table, node):
            total = _joint_square(g.velocity_weight, 0, table[node, V], table[node, DOFS], g.qdd)
        if first >= 0 and g.transient[first]:
            total += g.speed[first]
        if g.transient[second]:
            total += g.speed[second]
        g.speed[node] = total


@spliced
def _choose_velocities(links, table, c, shares, places, roots, limits, count, body, h, qdd, work, g):
    """Choose the new active region among the `count` transient nodes by their velocities after a step h.

    Returns:
        joints of the new region; its nodes are unmarked in `transient`, which keeps those that are left out.
    """
    out, each = body.links, limits.each[0] > 0
    for k in range(body.whole[LINK + 1]):
        v, iv = links.v_start[body.link[k]], out.v_start[k]
        for a in range(out.dof[k]):
            qdd[iv + a] = body.qd[iv + a] + h * qdd[iv + a]
            g.qdd[v + a] = qdd[iv + a]
    if limits.mass[0] > 0:
        energy_speeds(links, table, c, shares, places, roots, count, body, qdd, work, g)
    else:
        _joint_speeds(table, count, g)
        if limits.camera[0] > 0.0:
            for j in range(count):
                k = g.trial[j]
                i = places.cluster[table[k, TOP]]
                g.speed[k] *= seen(
                    limits, k, limits.camera[PERIOD], work.rows[i, R + 3], work.rows[i, R + 7], work.rows[i, R + 11]
                )
    waiting, error = 0, 0.0
    for f in range(len(roots)):
        g.taken[f] = 0
        root = roots[f]
        if g.transient[root]:
            error += g.speed[root]
            if table[root, KIND] == FREE:  # always active, whatever is left of the budget
                g.transient[root] = 0
                below_root = table[root, SECOND_SIDE]
                error -= g.speed[root]
                if g.transient[below_root]:
                    error += g.speed[below_root]
                    waiting = push(waiting, g.speed[below_root], below_root, g.key, g.queue)
            else:
                waiting = push(waiting, g.speed[root], root, g.key, g.queue)
    tolerance, joints = limits.tolerance[1], 0
    while waiting > 0:
        node = g.queue[0]
        counts = counted(table, node)
        moves = False
        if limits.bounded[0] > 0 and g.speed[node] > 0.0:
            moves = True
        if counts and not moves:
            if tolerance >= 0.0 and error <= tolerance:
                break
            if _full(table, node, limits.budget, each, g.taken):
                if not each:
                    break
                waiting = pop(waiting, g.key, g.queue)
                continue
        waiting = pop(waiting, g.key, g.queue)
        g.counts[POPPED] += 1
        g.transient[node] = 0
        first, second = table[node, FIRST_SIDE], table[node, SECOND_SIDE]
        own = g.speed[node]
        if first >= 0 and g.transient[first]:
            own -= g.speed[first]
            waiting = push(waiting, g.speed[first], first, g.key, g.queue)
        if g.transient[second]:
            own -= g.speed[second]
            waiting = push(waiting, g.speed[second], second, g.key, g.queue)
        error -= own
        if counts:
            joints += 1
            g.taken[table[node, FIGURE] if each else 0] += 1
    g.numbers[SPEED_ERROR] = max(error, 0.0)
    return joints


@spliced
def body_kinematics(body, work):
    """Fill the rows of the hybrid body."""
    kinematics(body.links, body.whole, body.q, body.qd, work)


@spliced
def body_dynamics(body, h, work, pull, b):
    """Fill b.qdd, the accelerations of the hybrid body, implicit over h where h > 0; return its status."""
    span = body.whole
    driven = span[SCALAR_DRIVE + 1] > 0 or span[BALL_DRIVE + 1] > 0
    tau, added = (b.tau, b.added) if driven else (body.tau, body.links.armature)
    return dynamics(
        body.links, body.drives, body.springs, span, h, body.q, body.qd, body.tau, body.wrenches, work, pull, driven,
        tau, added, b.qdd,
    )  # fmt: skip


@spliced
def _own_forces(links, body, h, b, own):
    """Find the joint forces and own inertias of active joints for the coefficients."""
    span = body.whole
    drive_forces(body.drives, body.links.armature, span, h, body.q, body.qd, body.tau, b.tau, b.added)
    for k in range(span[LINK + 1]):
        v, iv = links.v_start[body.link[k]], body.links.v_start[k]
        for a in range(body.links.dof[k]):
            own[v + a, TAU], own[v + a, OWN] = b.tau[iv + a], b.added[iv + a]


@spliced
def update(
    # model
    links, drives, springs, roots,
    # in
    limits, h, reach, applied, wrenches, still,
    # scratch
    co, places, others, jwork, work, pull, buffers, trial, aside,
    # out
    g, body, q, qd, shown_q, shown_qd,
):  # fmt: skip
    """Choose the active region anew; `body`, q and qd are those of the new one after it.

    Args:
        limits: when the choices end.
        h: time step; velocities are judged after it.
        reach: h where drives are taken implicitly, else 0.
        applied, wrenches: forces on freedoms and links.
        places, others: where links are in `body` and in `trial`.
        trial, aside: a hybrid body to try on, and its springs' scratch.
        shown_q, shown_qd: copies of q and qd for the user, kept equal for joints that leave the region.

    """
    table, c, mass = co.table, co.numbers, limits.mass[0] > 0
    scatter(links, body, q, qd)
    scatter(links, body, shown_q, shown_qd)
    g.counts[STAMP] += 1
    g.counts[SLOTS] = g.counts[VISITED] = g.counts[POPPED] = g.counts[ENTERED] = g.counts[LEFT] = 0
    g.numbers[REMOVED] = 0.0
    if g.counts[KEPT] > min(len(table) // 2, MOST_KEPT) // 2:  # in time: not in the middle of an update
        g.counts[KEPT] = 0
        g.counts[EPOCH] += 1
    if g.counts[TOUCHED] > 0:
        _open_touched(table, g)
        at = g.counts[COUNT]
        condense(links, drives, springs, table, c, g.active, g.nodes, at, q, qd, applied, wrenches, places, body)
        lay_sweep(table, g.active, places.sorted, places.node, at, g.slot, g.joints)
    body_kinematics(body, work)
    _own_forces(links, body, reach, buffers, co.own)
    if len(wrenches.link) + len(springs.link) > 0:
        _climb(co, mass, _gather_forces(links, springs, table, c, places, body, wrenches, work, pull, g), g)
    _convert(links, co, mass, places, roots, q, still, jwork, work.rows, g)
    old = g.counts[COUNT]
    for j in range(old):
        g.trial[j] = g.nodes[j]
        g.transient[g.nodes[j]] = 1
    new = _choose_accelerations(links, co, places, roots, limits, work.rows, g)
    count = old + new
    if new == 0 and g.counts[CHECK] == 0 and limits.tolerance[1] < 0.0:
        # No joint came in and none has to go: the choice by velocities would keep them all.
        for j in range(count):
            g.transient[g.trial[j]] = 0
        g.numbers[SPEED_ERROR] = 0.0
        g.counts[VISITED] += count
        return
    g.counts[CHECK] = 0
    if new > 0:
        sort_nodes(count, g.plain, g.trial, g.queue)
    if _tried_before(count, g):
        gather(links, q, qd, trial)
    else:
        condense(links, drives, springs, table, c, g.transient, g.trial, count, q, qd, applied, wrenches, others, trial)
    if body_dynamics(trial, reach, work, aside, buffers) != 0:
        # The step that follows meets what is wrong and tells it; until then velocities are judged as they are.
        for k in range(trial.whole[DOF + 1]):
            buffers.qdd[k] = 0.0
    g.counts[JOINTS] = _choose_velocities(
        links, table, c, co.shares, others, roots, limits, count, trial, h, buffers.qdd, work, g
    )
    left = kept = 0
    for j in range(count):
        node = g.trial[j]
        if g.transient[node] and g.active[node]:
            left += 1
        elif not g.transient[node]:
            kept += 1
    entered = kept - (old - left)
    g.counts[ENTERED], g.counts[LEFT] = entered, left
    g.counts[TURNOVER] += entered + left
    g.counts[CHANGED] += entered + left > 0
    if left > 0:
        removed = rigidify(links, places.node, trial, g.transient, work, g.velocities, g.momenta, buffers, qd)
        g.numbers[REMOVED] = removed
        g.numbers[REMOVED_ALL] += removed
    g.counts[VISITED] += count
    if entered + left == 0:
        for j in range(count):
            g.transient[g.trial[j]] = 0
        return
    at = 0
    for j in range(count):
        node = g.trial[j]
        if g.transient[node]:
            g.transient[node] = 0
            if g.active[node]:
                g.active[node] = 0
                for v in range(table[node, V], table[node, V] + table[node, DOFS]):
                    shown_qd[v] = 0.0
                _hold_node(links, drives, places, co, mass, g.kept, node, reach, q, still, applied, jwork)
        else:
            g.active[node] = 1
            g.nodes[at] = node
            at += 1
    g.counts[COUNT] = at
    condense(links, drives, springs, table, c, g.active, g.nodes, at, q, qd, applied, wrenches, places, body)
    lay_sweep(table, g.active, places.sorted, places.node, at, g.slot, g.joints)
