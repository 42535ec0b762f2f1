"""The two choices of a region update: the acceleration update region, and the new active region among its velocities.

Both descend the assembly tree from the roots with a priority queue of nodes, the largest metric first and of equal ones
the lowest node, until the budget is spent or the error left is below the tolerance.

Redon, Galoppo, Lin 2005, sections 5.3.1 and 5.4.1.
"""

from __future__ import annotations

from limberjack._jit import inner
from limberjack.methods.adaptive.free_accelerations import (
    acceleration_metric,
    factor_rigid_node,
    prefetch_row,
    weighted_square,
)
from limberjack.methods.adaptive.layout import COUNT, ERROR, POPPED, STAMP, TOTAL, VELOCITY_ERROR, counts_in_budget
from limberjack.methods.adaptive.metrics import mass_velocity_metric
from limberjack.methods.adaptive.view_metric import PERIOD, set_root_pose, set_side_poses, squared_pixels
from limberjack.model.arrays import LINK
from limberjack.model.joints import FREE
from limberjack.reduced.assembly_tree import (
    DOFS,
    ETA,
    FIRST_SIDE,
    KIND,
    SECOND_SIDE,
    TOP,
    TREE_INDEX,
    UP,
    WEIGHT,
    V,
    offset_of,
)
from limberjack.reduced.merges import back_substitute
from limberjack.reduced.work import R

__all__ = ["acceleration_update_region", "new_active_region", "pop", "push"]

# Errors below this part of the total are rounding: no tolerance goes below.
ROUNDING = 1e-13


@inner
def _goes_first(key, node, i, j):
    return key[i] > key[j] or (key[i] == key[j] and node[i] < node[j])


@inner
def push(count, new_key, new_node, key, node):
    """Add a node to a queue of `count`; return the count after."""
    i = count
    key[i], node[i] = new_key, new_node
    while i > 0:
        up = (i - 1) // 2
        if not _goes_first(key, node, i, up):
            break
        key[i], key[up] = key[up], key[i]
        node[i], node[up] = node[up], node[i]
        i = up
    return count + 1


@inner
def pop(count, key, node):
    """Move the first node of a queue of `count` to index count - 1; return the count after."""
    last = count - 1
    key[0], key[last] = key[last], key[0]
    node[0], node[last] = node[last], node[0]
    i = 0
    while True:
        best = i
        left = 2 * i + 1
        if left < last and _goes_first(key, node, left, best):
            best = left
        if left + 1 < last and _goes_first(key, node, left + 1, best):
            best = left + 1
        if best == i:
            break
        key[i], key[best] = key[best], key[i]
        node[i], node[best] = node[best], node[i]
        i = best
    return last


@inner
def _queue_node(limits, node, count, g):
    """Queue a node by its metric, or by its pixels in a view; return the count after and the key."""
    key = g.acceleration_metric[node]
    if limits.camera[0] > 0.0:
        key *= squared_pixels(
            limits,
            node,
            0.5 * limits.camera[PERIOD] ** 2,
            g.top_pose[node, 9],
            g.top_pose[node, 10],
            g.top_pose[node, 11],
        )
    return push(count, key, node, g.key, g.queue), key


@inner
def _visit(links, co, link_map, limits, node, count, rows, g):
    """Fill the accelerations of the joint of `node`, unless they are known, and queue its sides.

    Returns:
        the count of the queue and the sum of the keys added.
    """
    table, c, s = co.table, co.numbers, co.scratch
    nb, first, second = len(table) // 2, table[node, FIRST_SIDE], table[node, SECOND_SIDE]
    known = g.active_region[node] or table[node, UP] < 0
    if not known:
        if g.factored[node] != g.counts[STAMP]:
            factor_rigid_node(co, False, node, g)
        back_substitute(table, c, s, node, g.slot[node], g.forces, 12 * node, 12 * first, 12 * second, g.qdd)
    if limits.camera[0] > 0.0:
        set_side_poses(links, table, c, link_map, g.active_region, node, rows, g.top_pose)
    total = 0.0
    for side in range(2):
        k = first if side == 0 else second
        # in the mass metric, active nodes have no key
        if k >= nb and not (limits.mass[0] > 0 and g.active_region[k]):
            if not known:
                g.acceleration_metric[k] = acceleration_metric(table, c, k, g.forces)
            count, key = _queue_node(limits, k, count, g)
            total += key
    return count, total


@inner
def _budget_spent(table, node, limit, each, taken):
    """Return whether the budget of joints is spent: that of the node's tree, or that of all."""
    f = table[node, TREE_INDEX] if each else 0
    return limit[f] >= 0 and taken[f] >= limit[f]


@inner
def acceleration_update_region(links, co, link_map, roots, limits, rows, g):
    """Choose the acceleration update region from the roots, the largest metric first; add it to the transient region.

    Returns:
        how many joints are new to the active region.
    """
    table, c, each, mass = co.table, co.numbers, limits.each[0] > 0, limits.mass[0] > 0
    count, error = 0, 0.0
    for f in range(len(roots)):
        root = roots[f]
        g.taken[f] = 0
        if not g.due[f]:
            continue
        if limits.camera[0] > 0.0:
            set_root_pose(links, table, c, link_map, g.active_region, root, rows, g.top_pose)
        if not (mass and g.active_region[root]):
            if mass:
                g.acceleration_metric[root] = c[0, offset_of(root, len(table) // 2) + ETA]
            count, key = _queue_node(limits, root, count, g)
            error += key
    if mass:  # the queue begins at the rigid front
        for j in range(g.counts[COUNT] - 1, -1, -1):
            count, more = _visit(links, co, link_map, limits, g.active_nodes[j], count, rows, g)
            error += more
    g.numbers[TOTAL] = error
    tolerance = limits.tolerance[0]
    if tolerance >= 0.0:
        tolerance = max(tolerance, ROUNDING * error)
    new = 0
    while count > 0:
        node = g.queue[0]
        counts = counts_in_budget(table, node)
        if counts and tolerance >= 0.0 and error <= tolerance:
            break
        if counts and _budget_spent(table, node, limits.update_budget, each, g.taken):
            if not each:
                break
            count = pop(count, g.key, g.queue)
            continue
        key = g.key[0]
        count = pop(count, g.key, g.queue)
        count, more = _visit(links, co, link_map, limits, node, count, rows, g)
        g.counts[POPPED] += 1
        # Section 5.3.1: the error left, the sum of the keys in the queue, falls by qdd^T A qdd; for joint weights that
        # change is known with less rounding
        if mass or limits.camera[0] > 0.0:
            error += more - key
        else:
            error -= weighted_square(co.own, WEIGHT, table[node, V], table[node, DOFS], g.qdd)
        if counts:
            g.taken[table[node, TREE_INDEX] if each else 0] += 1
        if not g.transient_region[node]:
            g.transient_region[node] = 1
            g.transient_nodes[g.counts[COUNT] + new] = node
            new += 1
    g.numbers[ERROR] = max(error, 0.0)
    return new


@inner
def _joint_velocity_metric(table, count, g):
    """Fill the velocity metric of the `count` transient nodes: weighted sums over their joints."""
    for j in range(count):
        prefetch_row(table, g.transient_nodes, j, count)
        node = g.transient_nodes[j]
        first, second = table[node, FIRST_SIDE], table[node, SECOND_SIDE]
        # Section 5.4.1: V(C) = qd^T V qd + V(A) + V(B)
        total = 0.0
        if counts_in_budget(table, node):
            total = weighted_square(g.velocity_weight, 0, table[node, V], table[node, DOFS], g.qdd)
        if first >= 0 and g.transient_region[first]:
            total += g.velocity_metric[first]
        if g.transient_region[second]:
            total += g.velocity_metric[second]
        g.velocity_metric[node] = total


@inner
def new_active_region(links, table, c, shares, link_map, roots, limits, count, body, h, qdd, work, g):
    """Choose the new active region among the `count` transient nodes by their velocities after a step h.

    Returns:
        joints of the new region; its nodes are unmarked in `transient_region`, which keeps those that are rigidified.
    """
    out, each = body.links, limits.each[0] > 0
    for k in range(body.whole[LINK + 1]):
        v, iv = links.v_start[body.link[k]], out.v_start[k]
        for a in range(out.dof[k]):
            qdd[iv + a] = body.qd[iv + a] + h * qdd[iv + a]
            g.qdd[v + a] = qdd[iv + a]
    if limits.mass[0] > 0:
        mass_velocity_metric(links, table, c, shares, link_map, roots, count, body, qdd, work, g)
    else:
        _joint_velocity_metric(table, count, g)
        if limits.camera[0] > 0.0:
            for j in range(count):
                k = g.transient_nodes[j]
                i = link_map.cluster[table[k, TOP]]
                g.velocity_metric[k] *= squared_pixels(
                    limits, k, limits.camera[PERIOD], work.rows[i, R + 3], work.rows[i, R + 7], work.rows[i, R + 11]
                )
    waiting, error = 0, 0.0
    for f in range(len(roots)):
        g.taken[f] = 0
        root = roots[f]
        if g.transient_region[root]:
            error += g.velocity_metric[root]
            if table[root, KIND] == FREE:  # always active, and not counted in the budget
                g.transient_region[root] = 0
                below_root = table[root, SECOND_SIDE]
                error -= g.velocity_metric[root]
                if g.transient_region[below_root]:
                    error += g.velocity_metric[below_root]
                    waiting = push(waiting, g.velocity_metric[below_root], below_root, g.key, g.queue)
            else:
                waiting = push(waiting, g.velocity_metric[root], root, g.key, g.queue)
    tolerance, joints = limits.tolerance[1], 0
    while waiting > 0:
        node = g.queue[0]
        counts = counts_in_budget(table, node)
        moves = False
        if limits.bounded[0] > 0 and g.velocity_metric[node] > 0.0:
            moves = True
        if counts and not moves:
            if tolerance >= 0.0 and error <= tolerance:
                break
            if _budget_spent(table, node, limits.budget, each, g.taken):
                if not each:
                    break
                waiting = pop(waiting, g.key, g.queue)
                continue
        waiting = pop(waiting, g.key, g.queue)
        g.counts[POPPED] += 1
        g.transient_region[node] = 0
        first, second = table[node, FIRST_SIDE], table[node, SECOND_SIDE]
        own = g.velocity_metric[node]
        if first >= 0 and g.transient_region[first]:
            own -= g.velocity_metric[first]
            waiting = push(waiting, g.velocity_metric[first], first, g.key, g.queue)
        if g.transient_region[second]:
            own -= g.velocity_metric[second]
            waiting = push(waiting, g.velocity_metric[second], second, g.key, g.queue)
        error -= own
        if counts:
            joints += 1
            g.taken[table[node, TREE_INDEX] if each else 0] += 1
    g.numbers[VELOCITY_ERROR] = max(error, 0.0)
    return joints
