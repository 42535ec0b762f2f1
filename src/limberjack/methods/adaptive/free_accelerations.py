"""Accelerations of the fully articulated body, and the acceleration metric of the nodes of the rigid front.

    rigid_front           motion of the top of each node of the front, from the rows of its cluster; current b, p, eta
    sweep                 forces on the handles of all nodes of the front and qdd of all active joints (`dca.py`)
    acceleration_metric   of each node of the front, eq. (7); of an active node, the sum over its joints

The passive front are the nodes outside the update region whose parent is in it: their b, p and eta are evaluated from
their stored columns (`coefficients.py`). Joints of rigid nodes are factored when a choice reaches them, and cached as
long as nothing in the node changes.

Redon, Galoppo, Lin 2005, sections 5.3.1 and 6.2.
"""

from __future__ import annotations

import numpy as np

from limberjack._jit import inner, outlined
from limberjack.methods.adaptive.coefficients import evaluate_coefficients
from limberjack.methods.adaptive.layout import CACHED, COUNT, EPOCH, MOST_CACHED, SLOTS, STAMP, VISITED
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
    "acceleration_metric",
    "factor_rigid_node",
    "free_accelerations",
    "merge_mass_metrics",
    "prefetch_row",
    "rigid_front_motion",
    "side_angular_velocities",
    "weighted_square",
]

# Joints per sweep, whole trees: what they need stays in the cache. In larger regions it is prefetched this many joints
# ahead.
BATCH, AHEAD = 48, 4


@inner
def _factor_joint(co, node, g):
    """Factor the joint of `node` in the next slot, which is returned."""
    slot = g.counts[SLOTS]
    g.counts[SLOTS] = slot + 1
    g.slot[node] = slot
    g.factored[node] = g.counts[STAMP]
    g.counts[VISITED] += 1
    factor_joint(co.table, co.numbers, co.own, co.scratch, node, slot)
    return slot


@inner
def rigid_front_motion(links, table, c, active_region, link_map, node, rows):
    """Return the motion of the top of a node of the rigid front, in its own axes.

    Returns:
        angular velocity, angular acceleration and acceleration with qdd = 0 (less gravity), three numbers each.
    """
    top = table[node, TOP]
    up = table[node, UP]
    if not active_region[up]:  # the joint with the world is rigid
        r, _, _, _ = pose(c, offset_of(up, len(table) // 2) + JX)
        g = links.gravity
        ax, ay, az = rotate_back(r, -g[0], -g[1], -g[2])
        return 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, ax, ay, az
    k = link_map.cluster[top]
    r = rotation(k, rows)
    wx, wy, wz = rows[k, W], rows[k, W + 1], rows[k, W + 2]
    lx, ly, lz = rows[k, AL], rows[k, AL + 1], rows[k, AL + 2]
    ax, ay, az = rows[k, AC], rows[k, AC + 1], rows[k, AC + 2]
    if top >= len(links.parent):
        p, x, y, z = cluster_pose(links, link_map, top)
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
def side_angular_velocities(table, c, node, angular_velocity):
    """Set the angular velocities of the sides of a rigid node from its own."""
    x, y, z = angular_velocity[node, 0], angular_velocity[node, 1], angular_velocity[node, 2]
    a, b = table[node, FIRST_SIDE], table[node, SECOND_SIDE]
    angular_velocity[a, 0], angular_velocity[a, 1], angular_velocity[a, 2] = x, y, z
    r, _, _, _ = child_pose(table, c, node)
    angular_velocity[b, 0], angular_velocity[b, 1], angular_velocity[b, 2] = rotate_back(r, x, y, z)


@inner
def _centripetal(table, c, node, angular_velocity):
    """Return the centripetal acceleration of link i against its parent in a rigid node, in the axes of link i."""
    o = offset_of(node, len(table) // 2) + JX
    x, y, z = angular_velocity[node, 0], angular_velocity[node, 1], angular_velocity[node, 2]
    a, _, _, _ = handle_pose(table, c, table[node, FIRST_SIDE], table[node, SLOT])
    dx, dy, dz = rotate(a, c[0, o + 9], c[0, o + 10], c[0, o + 11])
    sx, sy, sz = cross(x, y, z, dx, dy, dz)
    tx, ty, tz = cross(x, y, z, sx, sy, sz)
    r, _, _, _ = child_pose(table, c, node)
    return rotate_back(r, tx, ty, tz)


@outlined
def passive_front(table, c, node, force_path, stamp, angular_velocity):
    """Set angular velocities and current coefficients of the sides of a rigid node, unless forces act within them.

    Returns:
        the centripetal acceleration of link i against its parent, and how many sides were evaluated.
    """
    side_angular_velocities(table, c, node, angular_velocity)
    seen = 0
    for side in range(2):
        k = table[node, FIRST_SIDE] if side == 0 else table[node, SECOND_SIDE]
        if force_path[k] != stamp:
            evaluate_coefficients(table, c, k, angular_velocity[k, 0], angular_velocity[k, 1], angular_velocity[k, 2])
            seen += 1
    x, y, z = _centripetal(table, c, node, angular_velocity)
    return x, y, z, seen


@inner
def factor_rigid_node(co, again, node, g):
    """Factor the joint of a rigid node, unless it is cached and `again` is false, and fill its gamma and R."""
    x, y, z, visited = passive_front(co.table, co.numbers, node, g.force_path, g.counts[STAMP], g.angular_velocity)
    g.counts[VISITED] += visited + 1
    slot = g.cached[node, 0]
    if g.cached[node, 1] != g.counts[EPOCH]:
        again = True
        nb = len(co.table) // 2
        if g.counts[CACHED] < min(nb, MOST_CACHED):
            slot = nb + g.counts[CACHED]
            g.cached[node, 0], g.cached[node, 1] = slot, g.counts[EPOCH]
            g.counts[CACHED] += 1
        else:
            slot = g.counts[SLOTS]
            g.counts[SLOTS] += 1
    if again:
        factor_joint(co.table, co.numbers, co.own, co.scratch, node, slot)
    g.slot[node] = slot
    g.factored[node] = g.counts[STAMP]
    joint_bias(co.table, co.numbers, co.scratch, node, slot, x, y, z)
    return slot


@inner
def rigid_front(links, table, c, active_region, link_map, node, rows, force_path, stamp, angular_velocity):
    """Set the current coefficients of `node` of the rigid front, b as the difference from qdd = 0."""
    nb = len(table) // 2
    wx, wy, wz, lx, ly, lz, ax, ay, az = rigid_front_motion(links, table, c, active_region, link_map, node, rows)
    angular_velocity[node, 0], angular_velocity[node, 1], angular_velocity[node, 2] = wx, wy, wz
    if force_path[node] != stamp:
        evaluate_coefficients(table, c, node, wx, wy, wz)
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
def merge_mass_metrics(co, node, slot):
    """Set the current coefficients of `node` for the mass metric from its sides and its joint, just factored."""
    table, c, s = co.table, co.numbers, co.scratch
    some = joint_metric_matrices(table, c, s, node, np.int64(TT), np.int64(PSI0))
    if table[node, HANDLES] > 0:
        merge_accelerations(table, c, s, node, slot)
    merge_mass_metric(table, c, s, node, slot, some)
    merge_mass_metric_vectors(table, c, s, node, slot, some)


@inner
def weighted_square(weight, at, v, d, x):
    """Return x^T A x for the dofs v .. v + d - 1 of x and the rows of A, which begin in column `at`."""
    total = 0.0
    for a in range(d):
        for b in range(d):
            total += weight[v + a, at + b] * x[v + a] * x[v + b]
    return total


@outlined
def acceleration_metric(table, c, node, f):
    """Return the acceleration metric of `node` under the forces f on its handles."""
    # Equation (7): A(C) = f^T Psi f + f^T p + eta
    o, k, psi = offset_of(node, len(table) // 2), 12 * node & NON_NEGATIVE, offset_of(node, len(table) // 2) + PSI
    at = o + PT + 12 * CURRENT
    t0, t1, t2 = load4(c, 0, at), load4(c, 0, at + 4), load4(c, 0, at + 8)
    two = table[node, HANDLES] == 2
    for i in range(12 if two else 6):
        x, r = f[0, k + i], psi + 12 * i
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
def _sum_metric(table, own, node, g):
    """Set the acceleration metric of a node from its joint and its sides."""
    nb, first, second = len(table) // 2, table[node, FIRST_SIDE], table[node, SECOND_SIDE]
    total = weighted_square(own, WEIGHT, table[node, V], table[node, DOFS], g.qdd)
    if first >= nb:
        total += g.acceleration_metric[first]
    if second >= nb:
        total += g.acceleration_metric[second]
    g.acceleration_metric[node] = total


@inner
def _resting_root(links, co, mass, link_map, root, rows, g):
    """Fill the accelerations of a root whose joint is rigid, and the forces and the metric of the node below it."""
    table, c, s = co.table, co.numbers, co.scratch
    part = table[root, SECOND_SIDE]
    rigid_front(
        links, table, c, g.active_region, link_map, part, rows, g.force_path, g.counts[STAMP], g.angular_velocity
    )
    slot = _factor_joint(co, root, g)
    joint_bias(table, c, s, root, slot, 0.0, 0.0, 0.0)
    if mass:
        merge_mass_metrics(co, root, slot)
    for k in range(12):
        g.forces[0, 12 * root + k] = 0.0
    back_substitute(table, c, s, root, slot, g.forces, 12 * root, 12 * table[root, FIRST_SIDE], 12 * part, g.qdd)
    if part >= len(table) // 2:
        g.acceleration_metric[part] = acceleration_metric(table, c, part, g.forces)
    g.counts[VISITED] += 1


@inner
def prefetch_row(table, nodes, j, count):
    """Prefetch the row of the table of a node some entries after nodes[j] of `count`, in large regions."""
    if count > BATCH:
        node = nodes[min(j + 2 * AHEAD, count - 1)]
        prefetch(table, node, 0)
        prefetch(table, node, 8)


@inner
def _prefetch_front(links, table, c, j, count, g):
    """Prefetch the numbers that `free_accelerations` uses some joints after joint j, in large regions."""
    nb = len(table) // 2
    k = min(j + 2 * AHEAD, count - 1)
    node, part = g.joints[k, JOINT], g.joints[k, PART]
    prefetch(table, node, 0)
    prefetch(table, node, 8)
    prefetch(table, part, 0)
    prefetch(table, part, 8)
    prefetch(g.angular_velocity, part, 0)
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


@outlined
def free_accelerations(links, co, mass, link_map, roots, q, still, jwork, rows, g):
    """Fill the accelerations of all active joints, the forces on the nodes of the rigid front and their metrics.

    An active node needs no Psi, p, eta: the accelerations of its joints are known, and its metric is the sum over them.
    """
    table, c, count, nb = co.table, co.numbers, g.counts[COUNT], len(co.table) // 2
    begin = most = 0
    while begin < count:
        end = begin
        while end < count and (end - begin < BATCH or g.joints[end, ABOVE] >= 0):  # whole trees
            if count > BATCH:
                _prefetch_front(links, table, c, end, count, g)
            # A matrix made indefinite by rounding affects the choice only: steps do not use it.
            set_joint(links, table, c, co.scratch, g.joints[end, JOINT], q, still, jwork)
            part = g.joints[end, PART]
            rigid_front(
                links,
                table,
                c,
                g.active_region,
                link_map,
                part,
                rows,
                g.force_path,
                g.counts[STAMP],
                g.angular_velocity,
            )
            end += 1
        sweep(table, c, co.own, co.scratch, g.joints, begin, end, g.counts[SLOTS], g.forces, g.qdd)
        for j in range(begin, end):
            part = g.joints[j, PART]
            if part >= nb:
                g.acceleration_metric[part] = acceleration_metric(table, c, part, g.forces)
        most = max(most, end - begin)
        begin = end
    g.counts[SLOTS] += most
    g.counts[VISITED] += 2 * count
    for f in range(len(roots)):
        if g.due[f] and not g.active_region[roots[f]]:
            _resting_root(links, co, mass, link_map, roots[f], rows, g)
    if not mass:
        for j in range(count):
            prefetch_row(table, g.active_nodes, j, count)
            _sum_metric(table, co.own, g.active_nodes[j], g)
        for f in range(len(roots)):
            if g.due[f] and not g.active_region[roots[f]]:
                _sum_metric(table, co.own, roots[f], g)
