"""Accelerations as if all joints were free, and what each rigid part at the front makes of them.

    front       how the part's top moves, from the rows of its cluster; b, p, eta of now from its columns
    sweep       forces on the handles of all parts and qdd of all active joints (`sweeps.py`)
    metric      of each part of the front from its Psi, p, eta, eq. (7); of an active node, the sum over its joints

Joints of rigid nodes are opened when a choice comes to them, and kept so as long as nothing in the node changes.
"""

from __future__ import annotations

import numpy as np

from limberjack._jit import inner, outlined
from limberjack.methods.adaptive.coefficients import evaluate
from limberjack.methods.adaptive.layout import COUNT, EPOCH, KEPT, MOST_KEPT, SLOTS, STAMP, VISITED
from limberjack.methods.adaptive.poses import cluster_pose
from limberjack.reduced.assembly_tree import (
    CHILD,
    CURRENT,
    DOFS,
    ETA,
    FIRST_SIDE,
    HANDLES,
    JX,
    KT,
    LEAF,
    NODE,
    NON_NEGATIVE,
    PSI,
    PSI0,
    PT,
    SECOND_SIDE,
    SLOT,
    TOP,
    TT,
    UP,
    WEIGHT,
    V,
    columns_offset,
    offset_of,
    pose,
    row_length,
)
from limberjack.reduced.dca import ABOVE, JOINT, PART, sweep
from limberjack.reduced.joint_poses import child_pose, handle_pose, set_joint
from limberjack.reduced.merges import back_substitute, factor_joint, joint_bias, merge_accelerations
from limberjack.reduced.metric_merges import joint_metric_matrices, merge_mass_metric, merge_mass_metric_vectors
from limberjack.reduced.work import AC, AL, W, rotation
from limberjack.spatial.lanes import add, lane, load4, prefetch, scale
from limberjack.spatial.vectors import cross, multiply, rotate, rotate_back

__all__ = [
    "convert",
    "fetch_row",
    "front_motion",
    "joint_square",
    "merge_distances",
    "metric_of",
    "open_rigid",
    "turn_sides",
]

# Joints converted at a time, whole figures: what they need stays in the cache. In larger regions it is asked for this
# many joints ahead.
SWEPT, AHEAD = 48, 4


@inner
def _open(co, node, g):
    """Open the joint of `node` in the next slot, which is returned."""
    slot = g.counts[SLOTS]
    g.counts[SLOTS] = slot + 1
    g.slot[node] = slot
    g.opened[node] = g.counts[STAMP]
    g.counts[VISITED] += 1
    factor_joint(co.table, co.numbers, co.own, co.scratch, node, slot)
    return slot


@inner
def front_motion(links, table, c, active, places, node, rows):
    """Return how the top of a rigid part below an active node or root moves, in its own axes.

    Returns:
        angular velocity, angular acceleration and acceleration with qdd = 0 (less gravity), three numbers each.
    """
    top = table[node, TOP]
    up = table[node, UP]
    if not active[up]:  # the joint with the world is held
        r, _, _, _ = pose(c, offset_of(up, len(table) // 2) + JX)
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
def turn_sides(table, c, node, turn):
    """Set the angular velocities of the sides of a rigid node from its own."""
    x, y, z = turn[node, 0], turn[node, 1], turn[node, 2]
    a, b = table[node, FIRST_SIDE], table[node, SECOND_SIDE]
    turn[a, 0], turn[a, 1], turn[a, 2] = x, y, z
    r, _, _, _ = child_pose(table, c, node)
    turn[b, 0], turn[b, 1], turn[b, 2] = rotate_back(r, x, y, z)


@inner
def _centripetal(table, c, node, turn):
    """Return the acceleration of link i against its parent by the turning of a rigid node, in the axes of link i."""
    o = offset_of(node, len(table) // 2) + JX
    x, y, z = turn[node, 0], turn[node, 1], turn[node, 2]
    a, _, _, _ = handle_pose(table, c, table[node, FIRST_SIDE], table[node, SLOT])
    dx, dy, dz = rotate(a, c[0, o + 9], c[0, o + 10], c[0, o + 11])
    sx, sy, sz = cross(x, y, z, dx, dy, dz)
    tx, ty, tz = cross(x, y, z, sx, sy, sz)
    r, _, _, _ = child_pose(table, c, node)
    return rotate_back(r, tx, ty, tz)


@outlined
def _look_within(table, c, node, path, stamp, turn):
    """Find how the sides of a rigid node turn and their values of now, unless forces act within them.

    Returns:
        the acceleration of link i against its parent by the turning, and how many sides were looked at.
    """
    turn_sides(table, c, node, turn)
    seen = 0
    for side in range(2):
        k = table[node, FIRST_SIDE] if side == 0 else table[node, SECOND_SIDE]
        if path[k] != stamp:
            evaluate(table, c, k, turn[k, 0], turn[k, 1], turn[k, 2])
            seen += 1
    x, y, z = _centripetal(table, c, node, turn)
    return x, y, z, seen


@inner
def open_rigid(co, again, node, g):
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
        factor_joint(co.table, co.numbers, co.own, co.scratch, node, slot)
    g.slot[node] = slot
    g.opened[node] = g.counts[STAMP]
    joint_bias(co.table, co.numbers, co.scratch, node, slot, x, y, z)
    return slot


@inner
def _front(links, table, c, active, places, node, rows, path, stamp, turn):
    """Set the values of now of the rigid part `node` at the front, b as the difference from qdd = 0."""
    nb = len(table) // 2
    wx, wy, wz, lx, ly, lz, ax, ay, az = front_motion(links, table, c, active, places, node, rows)
    turn[node, 0], turn[node, 1], turn[node, 2] = wx, wy, wz
    if path[node] != stamp:
        evaluate(table, c, node, wx, wy, wz)
    o = columns_offset(node, nb) + CURRENT * row_length(node, nb)
    c[0, o] -= lx
    c[0, o + 1] -= ly
    c[0, o + 2] -= lz
    c[0, o + 3] -= ax
    c[0, o + 4] -= ay
    c[0, o + 5] -= az
    if table[node, HANDLES] == 2:
        r, x, y, z = handle_pose(table, c, node, 1)
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
def merge_distances(co, node, slot):
    """Set the values of now of `node` for the mass metric from its sides and its joint, just opened."""
    table, c, s = co.table, co.numbers, co.scratch
    some = joint_metric_matrices(table, c, s, node, np.int64(TT), np.int64(PSI0))
    if table[node, HANDLES] > 0:
        merge_accelerations(table, c, s, node, slot)
    merge_mass_metric(table, c, s, node, slot, some)
    merge_mass_metric_vectors(table, c, s, node, slot, some)


@inner
def joint_square(weight, at, v, d, x):
    """Return x^T A x for the freedoms v .. v + d - 1 of x and the rows of A, which begin in column `at`."""
    total = 0.0
    for a in range(d):
        for b in range(d):
            total += weight[v + a, at + b] * x[v + a] * x[v + b]
    return total


@outlined
def metric_of(table, c, node, f):
    """Return the acceleration metric of `node` under the forces f on its handles, eq. (7)."""
    o, k, p = offset_of(node, len(table) // 2), 12 * node & NON_NEGATIVE, offset_of(node, len(table) // 2) + PSI
    at = o + PT + 12 * CURRENT
    t0, t1, t2 = load4(c, 0, at), load4(c, 0, at + 4), load4(c, 0, at + 8)
    two = table[node, HANDLES] == 2
    for i in range(12 if two else 6):
        x, r = f[0, k + i], p + 12 * i
        t0 = add(t0, scale(x, load4(c, 0, r)))
        t1 = add(t1, scale(x, load4(c, 0, r + 4)))
        t2 = add(t2, scale(x, load4(c, 0, r + 8)))
    total = c[0, o + ETA] + (f[0, k] * lane(t0, 0) + f[0, k + 1] * lane(t0, 1))
    total += f[0, k + 2] * lane(t0, 2) + f[0, k + 3] * lane(t0, 3)
    total += f[0, k + 4] * lane(t1, 0) + f[0, k + 5] * lane(t1, 1)
    if two:
        total += f[0, k + 6] * lane(t1, 2) + f[0, k + 7] * lane(t1, 3)
        total += f[0, k + 8] * lane(t2, 0) + f[0, k + 9] * lane(t2, 1)
        total += f[0, k + 10] * lane(t2, 2) + f[0, k + 11] * lane(t2, 3)
    return total


@inner
def _add_up(table, own, node, g):
    """Set the metric of a converted node: that of its joint and of its sides."""
    nb, first, second = len(table) // 2, table[node, FIRST_SIDE], table[node, SECOND_SIDE]
    total = joint_square(own, WEIGHT, table[node, V], table[node, DOFS], g.qdd)
    if first >= nb:
        total += g.metric[first]
    if second >= nb:
        total += g.metric[second]
    g.metric[node] = total


@inner
def _convert_root(links, co, mass, places, root, rows, g):
    """Find the accelerations of a root whose joint is held, and the forces and the metric of the part below it."""
    table, c, s = co.table, co.numbers, co.scratch
    part = table[root, SECOND_SIDE]
    _front(links, table, c, g.active, places, part, rows, g.path, g.counts[STAMP], g.turn)
    slot = _open(co, root, g)
    joint_bias(table, c, s, root, slot, 0.0, 0.0, 0.0)
    if mass:
        merge_distances(co, root, slot)
    for k in range(12):
        g.forces[0, 12 * root + k] = 0.0
    back_substitute(table, c, s, root, slot, g.forces, 12 * root, 12 * table[root, FIRST_SIDE], 12 * part, g.qdd)
    if part >= len(table) // 2:
        g.metric[part] = metric_of(table, c, part, g.forces)
    g.counts[VISITED] += 1


@inner
def fetch_row(table, nodes, j, count):
    """Ask for the row of the table of a node some places after nodes[j] of `count`, in large regions."""
    if count > SWEPT:
        node = nodes[min(j + 2 * AHEAD, count - 1)]
        prefetch(table, node, 0)
        prefetch(table, node, 8)


@inner
def _fetch_front(links, table, c, j, count, g):
    """Ask for the numbers that `convert` uses some joints after joint j: in large regions they are far away."""
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
    o = offset_of(node, nb)
    for b in range(0, 80, 8):
        prefetch(c, 0, o + b)
    prefetch(c, 0, o + KT + 12 * CURRENT)
    prefetch(c, 0, o + JX)
    prefetch(c, 0, o + JX + 8)
    i = table[node, CHILD]
    if i < len(links.parent):
        prefetch(links.placement, i, 0)
        prefetch(links.placement, i, 8)
    o = offset_of(part, nb)
    for b in range(0, LEAF if part < nb else NODE, 8):
        prefetch(c, 0, o + b)


@inner
def convert(links, co, mass, places, roots, q, still, jwork, rows, g):
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
                g.metric[part] = metric_of(table, c, part, g.forces)
        most = max(most, end - begin)
        begin = end
    g.counts[SLOTS] += most
    g.counts[VISITED] += 2 * count
    for f in range(len(roots)):
        if not g.active[roots[f]]:
            _convert_root(links, co, mass, places, roots[f], rows, g)
    if not mass:
        for j in range(count):
            fetch_row(table, g.nodes, j, count)
            _add_up(table, co.own, g.nodes[j], g)
        for f in range(len(roots)):
            if not g.active[roots[f]]:
                _add_up(table, co.own, roots[f], g)
