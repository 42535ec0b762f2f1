"""The two choices of a region update: the acceleration update region, and the new active region among its velocities.

Both descend the assembly tree from the roots with a priority queue of nodes, the largest metric first and of equal ones
the lowest node, until the budget is spent or the error left is below the tolerance. The paper's keys are the metrics at
this instant, accelerations and then velocities. With a horizon H they are what each node will have missed by then
(`missed.py`): of rigid nodes e(C), of the transient body the metric of qd + L qdd with L = H / 2, the mean velocity
until then, and the credit of joints that have just become active. A budget alone takes L of a few update periods and a
small part of the credit: what moves already is worth more than what might, and its velocity is lost when it stops.

Active joints go first while others have less than HYSTERESIS times their key. Half of a budget for several trees is
shared: each tree that moves takes its equal part before the rest goes by keys alone.

Redon, Galoppo, Lin 2005, sections 5.3.1 and 5.4.1.
"""

from __future__ import annotations

import math

from limberjack._jit import inner, outlined
from limberjack.methods.adaptive.free_accelerations import (
    acceleration_metric,
    factor_rigid_node,
    prefetch_row,
    weighted_square,
)
from limberjack.methods.adaptive.layout import (
    AHEAD,
    COUNT,
    CREDIT,
    ERROR,
    EXPECTED,
    FREE_CONTACTS,
    HORIZON,
    JOINT_TRUST,
    NODE_TRUST,
    POPPED,
    REST,
    STAMP,
    TOTAL,
    VELOCITY_ERROR,
    counts_in_budget,
)
from limberjack.methods.adaptive.metrics import mass_velocity_metric
from limberjack.methods.adaptive.missed import set_node_trust, share_of, trust_in
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

# With a horizon, active joints give way to others of more than this times their key.
HYSTERESIS = 1.5


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
    horizon = limits.horizon[HORIZON]
    key = g.predicted[node] * trust_in(limits, node, NODE_TRUST, g) if horizon > 0.0 else g.acceleration_metric[node]
    if limits.camera[0] > 0.0:
        period = horizon if horizon > 0.0 else limits.camera[PERIOD]
        p = g.top_pose
        key = squared_pixels(limits, node, 0.5 * period**2, key, p[node, 9], p[node, 10], p[node, 11])
    return push(count, key, node, g.key, g.queue), key


@inner
def _queue_aside(limits, aside, count, g):
    """Queue the nodes set aside while each tree took its share; return the count after."""
    for j in range(aside):
        count, _ = _queue_node(limits, g.aside[j], count, g)
    return count


@inner
def _from_the_front(limits):
    """Return whether the first queue begins at the rigid front: active nodes then have no key."""
    return limits.mass[0] > 0 or limits.horizon[HORIZON] > 0.0


@outlined
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
        if k >= nb and not (_from_the_front(limits) and g.active_region[k]):
            if not known:
                g.acceleration_metric[k] = acceleration_metric(table, c, k, g.forces)
            if not g.active_region[node]:
                part = share_of(g.acceleration_metric[k], g.acceleration_metric[node])
                g.predicted[k] = part * g.predicted[node]
            count, key = _queue_node(limits, k, count, g)
            total += key
    if limits.horizon[HORIZON] > 0.0 and not g.active_region[node]:
        set_node_trust(table, limits, node, g)
    return count, total


@inner
def _budget_spent(table, node, limit, each, taken):
    """Return whether the budget of joints is spent: that of the node's tree, or that of all."""
    f = table[node, TREE_INDEX] if each else 0
    return limit[f] >= 0 and taken[f] >= limit[f]


@inner
def _make_room(table, limits, each, g):
    """Count what the budgets have room for as taken off the count of joints looked at."""
    for f in range(len(limits.budget) if each else 1):
        g.taken[f] = -limits.budget[f]
    for j in range(g.counts[COUNT]):
        node = g.active_nodes[j]
        g.taken[table[node, TREE_INDEX] if each else 0] += counts_in_budget(table, node)
    for f in range(len(limits.budget) if each else 1):
        g.taken[f] = min(g.taken[f], 0)


@outlined
def acceleration_update_region(links, co, link_map, roots, limits, rows, g):
    """Choose the acceleration update region from the roots, the largest metric first; add it to the transient region.

    Returns:
        how many joints are new to the active region.
    """
    table, c, each, mass = co.table, co.numbers, limits.each[0] > 0, limits.mass[0] > 0
    front, horizon, rest = _from_the_front(limits), limits.horizon[HORIZON], limits.horizon[REST]
    sharing, aside = limits.share[0] > 0, 0
    count, error = 0, 0.0
    for f in range(len(roots)):
        root = roots[f]
        g.taken[f] = g.shared[f] = 0
        if not g.due[f]:
            continue
        if limits.camera[0] > 0.0:
            set_root_pose(links, table, c, link_map, g.active_region, root, rows, g.top_pose)
        if not (front and g.active_region[root]):
            if mass:
                g.acceleration_metric[root] = c[0, offset_of(root, len(table) // 2) + ETA]
            count, key = _queue_node(limits, root, count, g)
            error += key
    if front:
        for j in range(g.counts[COUNT] - 1, -1, -1):
            count, more = _visit(links, co, link_map, limits, g.active_nodes[j], count, rows, g)
            error += more
    if limits.refill[0] > 0:
        _make_room(table, limits, each, g)
    if not horizon > 0.0:
        g.numbers[TOTAL] = error
    tolerance = limits.tolerance[0]
    if tolerance >= 0.0:
        tolerance = max(tolerance, ROUNDING * error)
    new = 0
    while count > 0 or aside > 0:
        if sharing and (count == 0 or g.key[0] < rest):
            count, aside, sharing = _queue_aside(limits, aside, count, g), 0, False
            continue
        node = g.queue[0]
        counts = counts_in_budget(table, node)
        if counts and (tolerance >= 0.0 and error <= tolerance or g.key[0] < rest):
            break
        tree = table[node, TREE_INDEX]
        if sharing and counts and g.shared[tree] >= limits.share[0]:
            g.aside[aside] = node
            aside += 1
            count = pop(count, g.key, g.queue)
            continue
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
        if front or limits.camera[0] > 0.0:
            error += more - key
        else:
            error -= weighted_square(co.own, WEIGHT, table[node, V], table[node, DOFS], g.qdd)
        if counts:
            g.taken[tree if each else 0] += 1
            g.shared[tree] += 1
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


@outlined
def _velocity_metric(links, table, c, shares, link_map, roots, limits, count, body, qd, work, g):
    """Fill the velocity metric of the `count` transient nodes, which move with qd (of the transient `body`)."""
    if limits.mass[0] > 0:
        mass_velocity_metric(links, table, c, shares, link_map, roots, count, body, qd, work, g)
    else:
        _joint_velocity_metric(table, count, g)


@inner
def _credit(table, limits, count, g):
    """Add what joints have missed to the velocity metric of the `count` transient nodes.

    It is kept, before any view, in the first of the `sums`.
    """
    nb, scale = len(table) // 2, limits.horizon[CREDIT] * limits.horizon[AHEAD] ** 2
    for j in range(count):
        node = g.transient_nodes[j]
        first, second = table[node, FIRST_SIDE], table[node, SECOND_SIDE]
        if not g.active_region[node]:
            own = 1.0
            for side in range(2):
                k = first if side == 0 else second
                if k >= nb:
                    own -= share_of(g.acceleration_metric[k], g.acceleration_metric[node])
            more = max(g.predicted[node] - g.acceleration_metric[node], 0.0)
            g.credit[node] = scale * max(own, 0.0) * more * trust_in(limits, node, JOINT_TRUST, g)
        total = g.credit[node]
        if first >= 0 and g.transient_region[first]:
            total += g.sums[first, 1]
        if g.transient_region[second]:
            total += g.sums[second, 1]
        g.sums[node, 1] = total
        g.velocity_metric[node] += total
        g.sums[node, 0] = g.velocity_metric[node]


@inner
def _velocity_key(limits, node, g):
    """Return the key of a transient node: its velocity metric, with a horizon more for an active one."""
    more = HYSTERESIS if limits.horizon[HORIZON] > 0.0 and g.active_region[node] else 1.0
    return more * g.velocity_metric[node]


@outlined
def new_active_region(links, table, c, shares, link_map, roots, limits, count, body, h, qdd, work, g):
    """Choose the new active region among the `count` transient nodes by their velocities after a step h.

    Returns:
        joints of the new region; its nodes are unmarked in `transient_region`, which keeps those that are rigidified.
    """
    out, each, horizon = body.links, limits.each[0] > 0, limits.horizon[HORIZON]
    period = horizon if horizon > 0.0 else limits.camera[PERIOD]
    if horizon > 0.0:
        h = limits.horizon[AHEAD]
    # nodes that complete a group of loops were not visited
    foreseen = g.counts[FREE_CONTACTS] > 0 and len(g.loop_start) <= 1
    for k in range(body.whole[LINK + 1]):
        v, iv, ahead = links.v_start[body.link[k]], out.v_start[k], h
        node = link_map.node[body.link[k]]
        if foreseen:
            # Contact forces with all joints free do not hold the transient body: what is active is known to move by its
            # velocity, and of the others the accelerations belong to these forces.
            for a in range(out.dof[k]):
                qdd[iv + a] = 0.0 if g.active_region[node] and limits.tolerance[0] < 0.0 else g.qdd[v + a]
        if horizon > 0.0 and not g.active_region[node]:
            square = 0.0
            for a in range(out.dof[k]):
                square += qdd[iv + a] * qdd[iv + a]
            g.trust[node, EXPECTED] = square
            ahead *= math.sqrt(trust_in(limits, node, JOINT_TRUST, g))
        for a in range(out.dof[k]):
            qdd[iv + a] = body.qd[iv + a] + ahead * qdd[iv + a]
            g.qdd[v + a] = qdd[iv + a]
    _velocity_metric(links, table, c, shares, link_map, roots, limits, count, body, qdd, work, g)
    if horizon > 0.0 and limits.tolerance[0] >= 0.0:
        # What a tolerance bounds is the farthest until the horizon, at most |qd| + |L qdd|: with x = qd + L qdd and
        # y = qd - L qdd that is at most sqrt(|x|^2 + |y|^2).
        for j in range(count):
            g.key[g.transient_nodes[j]] = g.velocity_metric[g.transient_nodes[j]]
        for k in range(body.whole[LINK + 1]):
            v, iv = links.v_start[body.link[k]], out.v_start[k]
            for a in range(out.dof[k]):
                qdd[iv + a] = 2.0 * body.qd[iv + a] - qdd[iv + a]
                g.qdd[v + a] = qdd[iv + a]
        _velocity_metric(links, table, c, shares, link_map, roots, limits, count, body, qdd, work, g)
        for j in range(count):
            g.velocity_metric[g.transient_nodes[j]] += g.key[g.transient_nodes[j]]
    if horizon > 0.0:
        _credit(table, limits, count, g)
    if limits.camera[0] > 0.0:
        for j in range(count):
            k = g.transient_nodes[j]
            i = link_map.cluster[table[k, TOP]]
            x, y, z = work.rows[i, R + 3], work.rows[i, R + 7], work.rows[i, R + 11]
            g.velocity_metric[k] = squared_pixels(limits, k, period, g.velocity_metric[k], x, y, z)
    sharing, aside, rest = limits.share[0] > 0, 0, h * h * limits.horizon[REST]
    waiting, error = 0, 0.0
    for f in range(len(roots)):
        g.taken[f] = g.shared[f] = 0
        root = roots[f]
        if g.transient_region[root]:
            error += g.velocity_metric[root]
            if table[root, KIND] == FREE:  # always active, and not counted in the budget
                g.transient_region[root] = 0
                below_root = table[root, SECOND_SIDE]
                error -= g.velocity_metric[root]
                if g.transient_region[below_root]:
                    error += g.velocity_metric[below_root]
                    waiting = push(waiting, _velocity_key(limits, below_root, g), below_root, g.key, g.queue)
            else:
                waiting = push(waiting, _velocity_key(limits, root, g), root, g.key, g.queue)
    tolerance, joints, held = limits.tolerance[1], 0, 0.0
    if horizon > 0.0:  # what is left out already leaves less for joints that stop
        held = g.numbers[ERROR] * (1.0 if limits.camera[0] > 0.0 else h * h)
    while waiting > 0 or aside > 0:
        if sharing and (waiting == 0 or g.key[0] < rest):
            for j in range(aside):
                node = g.aside[j]
                waiting = push(waiting, _velocity_key(limits, node, g), node, g.key, g.queue)
            aside, sharing = 0, False
            continue
        node = g.queue[0]
        tree = table[node, TREE_INDEX]
        counts = counts_in_budget(table, node)
        moves = False
        if limits.bounded[0] > 0 and g.velocity_metric[node] > 0.0:
            moves = True
        if counts and not moves:
            if tolerance >= 0.0 and error + held <= tolerance:
                break
            if sharing and g.shared[tree] >= limits.share[0]:
                g.aside[aside] = node
                aside += 1
                waiting = pop(waiting, g.key, g.queue)
                continue
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
            waiting = push(waiting, _velocity_key(limits, first, g), first, g.key, g.queue)
        if g.transient_region[second]:
            own -= g.velocity_metric[second]
            waiting = push(waiting, _velocity_key(limits, second, g), second, g.key, g.queue)
        error -= own
        if counts:
            joints += 1
            g.taken[tree if each else 0] += 1
            g.shared[tree] += 1
    error = max(error, 0.0)
    g.numbers[VELOCITY_ERROR] = error
    if horizon > 0.0:
        g.numbers[ERROR] += error if limits.camera[0] > 0.0 else error / (h * h)
    return joints
