"""External forces on rigid nodes: the force update region, from the links they act on up to the rigid front.

Its coefficients follow from eqs. (2) and (8), bottom up, in place of the stored columns. Redon, Galoppo, Lin 2005,
sections 4.1 and 6.2.
"""

from __future__ import annotations

from limberjack._jit import inner, outlined
from limberjack.methods.adaptive.coefficients import evaluate_coefficients
from limberjack.methods.adaptive.free_accelerations import (
    factor_rigid_node,
    merge_mass_metrics,
    rigid_front_motion,
    side_angular_velocities,
)
from limberjack.methods.adaptive.layout import EPOCH, STAMP, VISITED
from limberjack.methods.adaptive.poses import locate, sort_nodes
from limberjack.reduced.assembly_tree import (
    CURRENT,
    FACTOR_PSI0,
    FACTOR_TT,
    FIRST_SIDE,
    LEAF,
    LEAF_KT,
    SECOND_SIDE,
    UP,
    factor_offset,
)
from limberjack.reduced.forces import spring_lengths
from limberjack.reduced.merges import merge_accelerations
from limberjack.reduced.metric_merges import joint_metric_matrices, merge_metric_vectors
from limberjack.reduced.work import rotation
from limberjack.spatial.vectors import cross, multiply, rotate_back

__all__ = ["collect_forces", "merge_force_paths"]


@inner
def _mark_path(table, leaf, count, g):
    """Mark the rigid nodes from a leaf up to the rigid front; return how many are marked."""
    stamp, node = g.counts[STAMP], leaf
    if g.force_path[leaf] != stamp:
        for k in range(6):
            g.wrench[leaf, k] = 0.0
    while table[node, UP] >= 0 and not g.active_region[node] and g.force_path[node] != stamp:
        g.force_path[node] = stamp
        g.path_nodes[count] = node
        count += 1
        node = table[node, UP]
    return count


@inner
def _apply_force(links, table, c, link_map, i, px, py, pz, fx, fy, fz, tx, ty, tz, rows, count, g):
    """Add the force f at the point p of link i and the torque t, world axes, to its leaf; return the marked nodes."""
    count = _mark_path(table, i, count, g)
    k, r, _, _, _ = locate(links, table, c, g.active_region, link_map, i)
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


@inner
def collect_forces(links, springs, table, c, link_map, body, wrenches, work, spring_work, g):
    """Collect forces on leaves, the rigid nodes they act within and their angular velocities; return their number."""
    rows, count = work.rows, 0
    w = wrenches.data
    for j in range(len(wrenches.link)):
        count = _apply_force(
            links, table, c, link_map, wrenches.link[j], w[j, 0], w[j, 1], w[j, 2], w[j, 3], w[j, 4], w[j, 5],
            w[j, 6], w[j, 7], w[j, 8], rows, count, g,
        )  # fmt: skip
    if len(springs.link) > 0:
        spring_lengths(body.links, body.springs, body.whole, body.qd, work, spring_work)
        s, p = spring_work.state, springs.point
        for j in range(len(springs.link)):
            for end in range(2):
                i = springs.link[j, end]
                if i >= 0:
                    f = s[j, 11] if end == 0 else -s[j, 11]
                    o = 3 * end
                    count = _apply_force(
                        links, table, c, link_map, i, p[j, o], p[j, o + 1], p[j, o + 2], f * s[j, 0], f * s[j, 1],
                        f * s[j, 2], 0.0, 0.0, 0.0, rows, count, g,
                    )  # fmt: skip
    if count == 0:
        return 0
    sort_nodes(count, g.no_keys, g.path_nodes, g.queue)
    nb, stamp = len(table) // 2, g.counts[STAMP]
    for j in range(count - 1, -1, -1):
        node = g.path_nodes[j]
        up = table[node, UP]
        if g.force_path[up] != stamp:
            motion = rigid_front_motion(links, table, c, g.active_region, link_map, node, rows)
            g.angular_velocity[node, 0], g.angular_velocity[node, 1], g.angular_velocity[node, 2] = (
                motion[0],
                motion[1],
                motion[2],
            )
        if node >= nb:
            side_angular_velocities(table, c, node, g.angular_velocity)
    return count


@outlined
def _forced_leaf(table, c, node, angular_velocity, wrench):
    """Set the current b of a leaf that a force acts on."""
    evaluate_coefficients(
        table, c, node, angular_velocity[node, 0], angular_velocity[node, 1], angular_velocity[node, 2]
    )
    o = node * LEAF
    # Equation (3): b = I^-1 (f - v x* I v)
    for k in range(6):
        total = 0.0
        for q in range(6):
            total += c[0, o + 6 * k + q] * wrench[node, q]
        c[0, o + LEAF_KT + 6 * CURRENT + k] += total


@inner
def _merge_values(co, node, slot, g):
    """Set the current coefficients of `node`, no root, from its factored joint and its sides; cache T^T and Psi0."""
    table, c, s = co.table, co.numbers, co.scratch
    nb, o = len(table) // 2, factor_offset(slot)
    some = table[node, FIRST_SIDE] >= nb or table[node, SECOND_SIDE] >= nb
    if some and g.cached[node, 2] != g.counts[EPOCH]:
        joint_metric_matrices(table, c, s, node, o + FACTOR_TT, o + FACTOR_PSI0)
        if slot >= nb:
            g.cached[node, 2] = g.counts[EPOCH]
    merge_accelerations(table, c, s, node, slot)
    merge_metric_vectors(table, c, co.own, s, node, slot, some, o + FACTOR_TT, o + FACTOR_PSI0)


@inner
def merge_force_paths(co, mass, count, g):
    """Set the current coefficients of the `count` rigid nodes that forces act within."""
    for j in range(count):
        node = g.path_nodes[j]
        if node < len(co.table) // 2:
            _forced_leaf(co.table, co.numbers, node, g.angular_velocity, g.wrench)
            g.counts[VISITED] += 1
        else:
            slot = factor_rigid_node(co, mass, node, g)  # the mass metric needs M, which is not cached
            if mass:
                merge_mass_metrics(co, node, slot)
            else:
                _merge_values(co, node, slot, g)
