"""The region update: which joints are simulated until the next one.

    edits           nodes above links edited from outside become active
    known forces    wrenches and springs on links, and the force update region of the nodes they act within
                    (`known_forces.py`)
    coefficients    accelerations of the fully articulated body, and the acceleration metric of the nodes of the rigid
                    front (`free_accelerations.py`)
    missed          what the nodes of the rigid front have missed since they became rigid (`missed.py`)
    acceleration    the acceleration update region: from the roots down, largest metric first, until the budget or the
    update region   tolerance is reached (`choose.py`)
    transient body  accelerations of the hybrid body with the old and the chosen joints active
    velocities      velocities after the next step, their metric, and the same choice among those: the new active region
    rigidify        joints that leave it are stopped by impulses (`rigidify.py`); their nodes get coefficients again

Each stage visits active nodes, their sides, the nodes chosen and those above forces: none loops over all nodes.

Many kinematic trees are updated in turns, a group of them at a time: the hybrid body of the group takes the place of
the whole one, and `update` is the same. A budget for all trees is divided into quotas. A group that leaves out less
than half the mean error gives joints back at its turn, one that leaves out more than the mean takes them.

Redon, Galoppo, Lin 2005, sections 5 and 6.
"""

from __future__ import annotations

from limberjack._jit import inner, outlined
from limberjack.errors import Status
from limberjack.methods.adaptive.choose import acceleration_update_region, new_active_region
from limberjack.methods.adaptive.coefficients import rigid_coefficients
from limberjack.methods.adaptive.free_accelerations import AHEAD, BATCH, free_accelerations
from limberjack.methods.adaptive.hybrid_body import condense, gather, order_bodies, place_wrench, scatter
from limberjack.methods.adaptive.known_forces import (
    collect_forces,
    merge_force_paths,
    remember_wrenches,
    resting_joint_forces,
)
from limberjack.methods.adaptive.layout import (
    ALL_DUE,
    CACHED,
    CHANGE_RATE,
    CHANGED,
    CHECK,
    COUNT,
    EARLY,
    EDITED,
    ENTERED,
    EPOCH,
    ERROR,
    EXPECTED,
    HORIZON,
    JOINTS,
    LAST_TRANSIENT,
    LEFT,
    MOST_CACHED,
    POPPED,
    PUSHED,
    REFRESHED,
    REMOVED,
    REMOVED_ALL,
    SLOTS,
    SPARE_JOINTS,
    STALE,
    STAMP,
    TAKEN,
    TREES,
    TURN,
    TURNOVER,
    UNTIL,
    VELOCITY,
    VELOCITY_ERROR,
    VISITED,
    counts_in_budget,
)
from limberjack.methods.adaptive.missed import accumulate_missed, pass_on_missed
from limberjack.methods.adaptive.poses import lay_sweep, sort_nodes
from limberjack.methods.adaptive.rigidify import rigidify
from limberjack.model.arrays import BALL_DRIVE, DOF, LINK, SCALAR_DRIVE, SPAN
from limberjack.reduced.assembly_tree import CHILD, DOFS, OWN, TAU, TREE_INDEX, UP, V
from limberjack.reduced.drives import drive_forces
from limberjack.reduced.forces import Wrenches
from limberjack.reduced.kinematics import kinematics
from limberjack.reduced.step import dynamics
from limberjack.spatial.lanes import prefetch

__all__ = ["apply_impulse", "condense_groups", "is_due", "refresh_stale_nodes", "update", "update_due_trees"]

# The rate of changes is a mean over about this time [s].
RATE_TIME = 1.0
# Links that only forces act on are all activated if there are no more of them than this, or than active joints.
_FEW = 8


@outlined
def _make_rigid(links, drives, link_map, co, mass, cached, node, h, q, still, applied, work):
    """Fill the joint forces and coefficients of a rigid node; return whether the matrix of its joint is positive."""
    i = co.table[node, CHILD]
    cached[node, 1] = cached[node, 2] = -1
    if i < len(links.parent):
        resting_joint_forces(links, drives, link_map, i, h, q, still, applied, co.own)
    return rigid_coefficients(links, co.table, co.numbers, co.shares, co.own, co.scratch, node, q, still, work, mass)


@outlined
def refresh_stale_nodes(links, drives, link_map, co, mass, cached, stale, h, q, still, applied, work):
    """Fill the coefficients of the rigid nodes marked in `stale`, in ascending order, and unmark them.

    Returns:
        0 or Status.NO_INERTIA + the first dof of a joint whose matrix is not positive.
    """
    status = 0
    for node in range(len(co.table) // 2, len(co.table)):
        if stale[node]:
            stale[node] = 0
            if not _make_rigid(links, drives, link_map, co, mass, cached, node, h, q, still, applied, work):
                status = Status.NO_INERTIA + co.table[node, V]
    return status


@outlined
def _refresh_columns(links, drives, link_map, co, mass, cached, stale, h, q, still, applied, work, g):
    """Fill the coefficients of the rigid nodes above joints whose forces have changed since the last update."""
    count = g.counts[STALE]
    sort_nodes(count, g.no_keys, g.stale_nodes, g.queue)
    for j in range(count):
        node = g.stale_nodes[j]
        if stale[node]:
            stale[node] = 0
            g.counts[REFRESHED] += 1
            # a matrix made indefinite by rounding affects the choice only
            _make_rigid(links, drives, link_map, co, mass, cached, node, h, q, still, applied, work)
    g.counts[STALE] = 0


@inner
def _activate_edited(table, g):
    """Make the nodes above links edited from outside active.

    Where forces act on more links than there are active joints, the metric chooses among them.
    """
    count = g.counts[COUNT]
    all_pushed = g.counts[PUSHED] <= max(count, _FEW)
    for j in range(g.counts[EDITED]):
        i = g.edited[j]
        node = table[i, UP] if all_pushed or g.edit[i] & VELOCITY else -1
        g.edit[i] = 0
        while node >= 0 and not g.active_region[node]:
            g.active_region[node] = 1
            g.held[node] = 0
            g.credit[node] = g.trust[node, EXPECTED] = 0.0
            g.active_nodes[count] = node
            count += 1
            node = table[node, UP]
    g.counts[EDITED] = g.counts[PUSHED] = 0
    g.counts[CHECK] = 1
    g.counts[COUNT] = count
    sort_nodes(count, g.no_keys, g.active_nodes, g.queue)


@inner
def _same_transient(count, g):
    """Return whether the transient region is that of the last update, and store it.

    Its body is then the same, but for q and qd: active regions are subsets of it, so nothing below it has moved.
    """
    same = g.counts[LAST_TRANSIENT] == count and count > 0  # 0 also says that there is none
    for j in range(count):
        same = same and g.last_transient[j] == g.transient_nodes[j]
        g.last_transient[j] = g.transient_nodes[j]
    g.counts[LAST_TRANSIENT] = count
    return same


@inner
def body_kinematics(body, work):
    """Fill the rows of the hybrid body."""
    kinematics(body.links, body.whole, body.q, body.qd, work)


@outlined
def body_dynamics(body, h, work, spring_work, b):
    """Fill b.qdd, the accelerations of the hybrid body, implicit over h where h > 0; return its status."""
    span = body.whole
    driven = span[SCALAR_DRIVE + 1] > 0 or span[BALL_DRIVE + 1] > 0
    tau, added = (b.tau, b.added) if driven else (body.tau, body.links.armature)
    return dynamics(
        body.links, body.drives, body.springs, span, h, body.q, body.qd, body.tau, body.wrenches, work, spring_work,
        driven, tau, added, b.qdd,
    )  # fmt: skip


@inner
def _active_joint_forces(links, body, h, b, own):
    """Fill the joint forces and own inertias of the active joints in the coefficients."""
    span = body.whole
    drive_forces(body.drives, body.links.armature, span, h, body.q, body.qd, body.tau, b.tau, b.added)
    n = span[LINK + 1]
    for k in range(span[LINK], n):
        if n - span[LINK] > BATCH:
            prefetch(own, links.v_start[body.link[min(k + 2 * AHEAD, n - 1)]], 0)
        v, iv = links.v_start[body.link[k]], body.links.v_start[k]
        for a in range(body.links.dof[k]):
            own[v + a, TAU], own[v + a, OWN] = b.tau[iv + a], b.added[iv + a]


@outlined
def _complete_loops(table, count, g):
    """Add all nodes of a group of loops, and those above them, to the transient region if one of them is in it.

    Returns:
        how many were added after the `count` there are.
    """
    added = 0
    for k in range(len(g.loop_start) - 1):
        some = False
        for j in range(g.loop_start[k], g.loop_start[k + 1]):
            some = some or g.transient_region[g.loop_nodes[j]] > 0
        if some:
            for j in range(g.loop_start[k], g.loop_start[k + 1]):
                node = g.loop_nodes[j]
                while node >= 0 and not g.transient_region[node]:
                    g.transient_region[node] = 1
                    g.transient_nodes[count + added] = node
                    added += 1
                    node = table[node, UP]
    return added


@outlined
def _keep_loops(table, g):
    """Keep all nodes of a group of loops, and those above them, if one of them stays; return joints added.

    Nodes that stay are not marked in the transient region, nor are those outside: `_complete_loops` has marked all of a
    group before the choice, or none.
    """
    joints = 0
    for k in range(len(g.loop_start) - 1):
        some = all_out = False
        for j in range(g.loop_start[k], g.loop_start[k + 1]):
            node = g.loop_nodes[j]
            if g.transient_region[node] > 0:
                all_out = True
            else:
                some = True
        if not (some and all_out):
            continue
        for j in range(g.loop_start[k], g.loop_start[k + 1]):
            node = g.loop_nodes[j]
            while node >= 0 and g.transient_region[node]:
                g.transient_region[node] = 0
                joints += counts_in_budget(table, node)
                node = table[node, UP]
    return joints


@outlined
def update(
    # model
    links, drives, springs, roots,
    # in
    limits, start, none, h, reach, applied, wrenches, still,
    # scratch
    co, link_map, transient_map, jwork, work, spring_work, buffers, transient_body, transient_springs,
    # out
    g, body, q, qd, shown_q, shown_qd,
):  # fmt: skip
    """Choose a new active region; `body`, q and qd are its hybrid body and state afterwards.

    Args:
        limits: when the choices end.
        start, none: (SPAN,) where `body` and `transient_body` begin in their arrays.
        h: time step; velocities are measured after it.
        reach: time over which drives are implicit: h or more, 0 = they are explicit.
        applied, wrenches: forces on dofs and links.
        link_map, transient_map: where links are in `body` and in `transient_body`.
        transient_body, transient_springs: the transient hybrid body, and the scratch of its springs.
        shown_q, shown_qd: copies of q and qd for the user, updated for joints that leave the region.
    """
    table, c, mass, horizon = co.table, co.numbers, limits.mass[0] > 0, limits.horizon[HORIZON]
    elapsed = 0.0
    for f in range(len(roots)):
        if g.due[f]:
            elapsed = h * (g.counts[TAKEN] - g.updated[f])
            g.updated[f] = g.counts[TAKEN]
    g.numbers[CHANGE_RATE] *= max(1.0 - h * (g.counts[TAKEN] - g.updated[len(roots)]) / RATE_TIME, 0.0)
    g.updated[len(roots)] = g.counts[TAKEN]
    scatter(links, body, q, qd)
    scatter(links, body, shown_q, shown_qd)
    g.counts[STAMP] += 1
    g.counts[SLOTS] = g.counts[VISITED] = g.counts[POPPED] = g.counts[ENTERED] = g.counts[LEFT] = 0
    g.numbers[REMOVED] = 0.0
    if g.counts[CACHED] > min(len(table) // 2, MOST_CACHED) // 2:  # here and not in the middle of an update
        g.counts[CACHED] = 0
        g.counts[EPOCH] += 1
    if g.counts[EDITED] > 0:
        _activate_edited(table, g)
        at = g.counts[COUNT]
        condense(
            links,
            drives,
            springs,
            table,
            c,
            g.active_region,
            g.active_nodes,
            0,
            at,
            start,
            q,
            qd,
            applied,
            wrenches,
            link_map,
            body,
        )
        lay_sweep(table, g.active_region, link_map.sorted, link_map.node, at, g.slot, g.joints)
    body_kinematics(body, work)
    _active_joint_forces(links, body, reach, buffers, co.own)
    if len(wrenches.link) + len(springs.link) > 0:
        merge_force_paths(
            co, mass, collect_forces(links, springs, table, c, link_map, body, wrenches, work, spring_work, g), g
        )
    free_accelerations(links, co, mass, link_map, roots, q, still, jwork, work.rows, g)
    if horizon > 0.0:
        accumulate_missed(table, c, roots, limits, mass, elapsed, qd, g)
    old = g.counts[COUNT]
    for j in range(old):
        g.transient_nodes[j] = g.active_nodes[j]
        g.transient_region[g.active_nodes[j]] = 1
    new = acceleration_update_region(links, co, link_map, roots, limits, work.rows, g)
    new += _complete_loops(table, old + new, g)
    count = old + new
    if new == 0 and g.counts[CHECK] == 0 and limits.tolerance[1] < 0.0:
        # No joint enters and none has to leave: the choice by velocities would keep them all.
        for j in range(count):
            g.transient_region[g.transient_nodes[j]] = 0
        g.numbers[VELOCITY_ERROR] = 0.0
        g.counts[VISITED] += count
        return
    g.counts[CHECK] = 0
    if new > 0:
        sort_nodes(count, g.no_keys, g.transient_nodes, g.queue)
    if _same_transient(count, g):
        gather(links, q, qd, transient_body)
    else:
        condense(
            links,
            drives,
            springs,
            table,
            c,
            g.transient_region,
            g.transient_nodes,
            0,
            count,
            none,
            q,
            qd,
            applied,
            wrenches,
            transient_map,
            transient_body,
        )
    if body_dynamics(transient_body, reach, work, transient_springs, buffers) != 0:
        # The step that follows fails in the same way and reports it; until then velocities are measured as they are.
        for k in range(transient_body.whole[DOF + 1]):
            buffers.qdd[k] = 0.0
    g.counts[JOINTS] = new_active_region(
        links, table, c, co.shares, transient_map, roots, limits, count, transient_body, h, buffers.qdd, work, g
    )
    if len(g.loop_start) > 1:
        g.counts[JOINTS] += _keep_loops(table, g)
    left = cached = 0
    for j in range(count):
        node = g.transient_nodes[j]
        if g.transient_region[node] and g.active_region[node]:
            left += 1
        elif not g.transient_region[node]:
            cached += 1
    entered = cached - (old - left)
    g.counts[ENTERED], g.counts[LEFT] = entered, left
    g.counts[TURNOVER] += entered + left
    g.counts[CHANGED] += entered + left > 0
    g.numbers[CHANGE_RATE] += (entered + left) / RATE_TIME
    if left > 0:
        removed = rigidify(
            links, link_map.node, transient_body, g.transient_region, g.span, work, g.velocities, g.momenta, buffers, qd
        )
        g.numbers[REMOVED] = removed
        g.numbers[REMOVED_ALL] += removed
    g.counts[VISITED] += count
    if entered + left == 0:
        for j in range(count):
            g.transient_region[g.transient_nodes[j]] = 0
        return
    if horizon > 0.0:
        pass_on_missed(table, c, count, g)
    at = 0
    for j in range(count):
        node = g.transient_nodes[j]
        if g.transient_region[node]:
            g.transient_region[node] = 0
            if g.active_region[node]:
                g.active_region[node] = 0
                for v in range(table[node, V], table[node, V] + table[node, DOFS]):
                    shown_qd[v] = 0.0
                _make_rigid(links, drives, link_map, co, mass, g.cached, node, reach, q, still, applied, jwork)
        else:
            g.active_region[node] = 1
            g.active_nodes[at] = node
            at += 1
    g.counts[COUNT] = at
    condense(
        links, drives, springs, table, c, g.active_region, g.active_nodes, 0, at, start, q, qd, applied, wrenches,
        link_map, body,
    )  # fmt: skip
    lay_sweep(table, g.active_region, link_map.sorted, link_map.node, at, g.slot, g.joints)


@inner
def _trade(group, turns, g):
    """Let a group give joints back that others need more, or take some that were given back."""
    total, count = 0.0, len(turns.error)
    for k in range(count):
        if turns.error[k] < 0.0:
            return
        total += turns.error[k]
    part = max(turns.quota[group] // 8, 1)
    if 2.0 * count * turns.error[group] < total and turns.quota[group] >= part:
        turns.quota[group] -= part
        g.counts[SPARE_JOINTS] += part
        g.counts[CHECK] = 1
    elif count * turns.error[group] >= total and g.counts[SPARE_JOINTS] > 0:
        part = min(part, g.counts[SPARE_JOINTS])
        turns.quota[group] += part
        g.counts[SPARE_JOINTS] -= part


@inner
def _limit_group(limits, group, turns):
    """Set the limits of a group: its part of those of all trees."""
    own = turns.limits
    for f in range(len(limits.budget)):
        own.budget[f], own.update_budget[f] = limits.budget[f], limits.update_budget[f]
    if limits.each[0] == 0 and limits.budget[0] >= 0:
        own.budget[0] = turns.quota[group]
        if limits.update_budget[0] >= 0:
            whole = max(limits.budget[0], 1)
            own.update_budget[0] = (limits.update_budget[0] * own.budget[0] + whole - 1) // whole
    for k in range(2):
        own.tolerance[k] = limits.tolerance[k] * (turns.share[group] if limits.tolerance[k] > 0.0 else 1.0)


@inner
def _set_others_aside(table, wrenches, turns, g):
    """Keep the active nodes, edited links and wrenches of the trees that are due, and put the others aside.

    Returns:
        how many nodes, their joints that count, and how many edited links were put aside.
    """
    here = others = joints = 0
    g.counts[JOINTS] = 0
    for j in range(g.counts[COUNT]):
        node = g.active_nodes[j]
        counted = 1 if counts_in_budget(table, node) else 0
        if g.due[table[node, TREE_INDEX]]:
            g.active_nodes[here] = node
            here += 1
            g.counts[JOINTS] += counted
        else:
            turns.others[others] = node
            others += 1
            joints += counted
    g.counts[COUNT] = here
    here = links = pushed = 0
    for j in range(g.counts[EDITED]):
        i = g.edited[j]
        if g.due[table[i, TREE_INDEX]]:
            g.edited[here] = i
            here += 1
            pushed += g.edit[i] & VELOCITY == 0
        else:
            turns.edited[links] = i
            links += 1
    g.counts[EDITED], g.counts[PUSHED] = here, pushed
    for j in range(len(wrenches.link)):
        i = wrenches.link[j]
        turns.link[j] = i if i >= 0 and g.due[table[i, TREE_INDEX]] else -1
    return others, joints, links


@inner
def _set_span(group, turns, body):
    """Store the span of a group that was just condensed, and list those of all groups as blocks, if there are several.

    One block per group, also of an empty one: what is carried from step to step is known by the block.
    """
    for p in range(SPAN):
        turns.span[group, p] = body.whole[p]
    if len(turns.quota) > 1:
        for k in range(len(turns.quota)):
            for p in range(SPAN):
                body.blocks[k, p] = turns.span[k, p]
        body.count[0] = len(turns.quota)


@inner
def _start_group(group, turns):
    for p in range(SPAN):
        turns.start[p] = turns.first[group, p]


@outlined
def condense_groups(links, drives, springs, co, g, q, qd, applied, wrenches, link_map, turns, body):
    """Fill the hybrid body of all trees, group by group, and their sweep if they are one."""
    table, first = co.table, 0
    for group in range(len(turns.quota)):
        last = first
        while last < g.counts[COUNT] and turns.group[table[g.active_nodes[last], TREE_INDEX]] == group:
            last += 1
        _start_group(group, turns)
        condense(
            links, drives, springs, table, co.numbers, g.active_region, g.active_nodes, first, last - first,
            turns.start, q, qd, applied, wrenches, link_map, body,
        )  # fmt: skip
        _set_span(group, turns, body)
        first = last
    if len(turns.quota) == 1:
        lay_sweep(table, g.active_region, link_map.sorted, link_map.node, first, g.slot, g.joints)
    else:
        for j in range(len(wrenches.link)):  # in all clusters, now that there are all
            place_wrench(links, table, co.numbers, g.active_region, link_map, wrenches, j, body.wrenches)


@outlined
def _update_group(
    # model
    links, drives, springs, roots,
    # in
    group, limits, h, reach, applied, wrenches, still,
    # scratch
    co, link_map, transient_map, jwork, work, spring_work, buffers, transient_body, transient_springs, turns,
    # out
    g, body, q, qd, shown_q, shown_qd,
):  # fmt: skip
    """Update the trees of a group; the others keep their joints. See `update`."""
    table = co.table
    for f in range(len(g.due)):
        g.due[f] = turns.group[f] == group
    _limit_group(limits, group, turns)
    _start_group(group, turns)
    others, joints, edited = _set_others_aside(table, wrenches, turns, g)
    for p in range(SPAN):
        body.whole[p] = turns.span[group, p]
    g.counts[LAST_TRANSIENT] = 0
    before = g.counts[CHANGED] - g.counts[EDITED]
    order_bodies(table, g.active_nodes, 0, g.counts[COUNT], link_map)
    lay_sweep(table, g.active_region, link_map.sorted, link_map.node, g.counts[COUNT], g.slot, g.joints)
    blocks, body.count[0] = body.count[0], -1
    update(
        links, drives, springs, roots, turns.limits, turns.start, turns.none, h, reach, applied,
        Wrenches(turns.link, wrenches.data), still, co, link_map, transient_map, jwork, work, spring_work, buffers,
        transient_body, transient_springs, g, body, q, qd, shown_q, shown_qd,
    )  # fmt: skip
    turns.changed[group] = g.counts[CHANGED] != before  # edited links are none after an update
    if body.count[0] < 0:
        body.count[0] = blocks
    else:
        _set_span(group, turns, body)
        for j in range(len(wrenches.link)):
            if turns.link[j] < 0:
                place_wrench(links, table, co.numbers, g.active_region, link_map, wrenches, j, body.wrenches)
    count = g.counts[COUNT]
    for j in range(others):
        g.active_nodes[count + j] = turns.others[j]
    for j in range(edited):
        i = turns.edited[j]
        g.edited[g.counts[EDITED] + j] = i
        g.counts[PUSHED] += g.edit[i] & VELOCITY == 0
    g.counts[COUNT], g.counts[EDITED] = count + others, g.counts[EDITED] + edited
    g.counts[JOINTS] += joints
    sort_nodes(count + others, g.no_keys, g.active_nodes, g.queue)
    turns.error[group] = g.numbers[ERROR]


@inner
def _end_update(table, wrenches, known, g):
    """Store what the trees just updated know of forces."""
    remember_wrenches(table, wrenches, g, known)
    for f in range(len(g.due)):
        if g.due[f]:
            g.counts[TREES] += 1
            g.wanted[f] = 0


@inner
def is_due(group, first, turns, g):
    """Return whether an update of a group is due, its first tree being `first`, and the first tree of the next."""
    due = g.counts[ALL_DUE] > 0 or (g.counts[UNTIL] <= 0 and group == g.counts[TURN])
    while first < len(g.due) and turns.group[first] == group:
        due = due or (g.counts[EARLY] == 0 and g.wanted[first] > 0)
        first += 1
    return due, first


@outlined
def update_due_trees(
    # model
    links, drives, springs, roots,
    # in
    limits, h, reach, applied, wrenches, still, known, stale,
    # scratch
    co, link_map, transient_map, jwork, work, spring_work, buffers, transient_body, transient_springs, turns,
    # out
    g, body, q, qd, shown_q, shown_qd,
):  # fmt: skip
    """Update all trees, or the group whose turn it is and those that changed forces ask for; see `update`."""
    groups, period = len(turns.quota), limits.period[0]
    if g.counts[STALE] > 0:
        _refresh_columns(
            links, drives, link_map, co, limits.mass[0] > 0, g.cached, stale, reach, q, still, applied, jwork, g
        )
    if groups == 1:
        before = g.counts[CHANGED] - g.counts[EDITED]
        update(
            links, drives, springs, roots, limits, turns.none, turns.none, h, reach, applied, wrenches, still, co,
            link_map, transient_map, jwork, work, spring_work, buffers, transient_body, transient_springs, g, body, q,
            qd, shown_q, shown_qd,
        )  # fmt: skip
        turns.changed[0] = g.counts[CHANGED] != before  # edited links are none after an update
        for p in range(SPAN):
            turns.span[0, p] = body.whole[p]
        _end_update(co.table, wrenches, known, g)
        g.counts[UNTIL], g.counts[ALL_DUE], g.counts[EARLY] = period, 0, -1
        return
    turn = -1
    if g.counts[ALL_DUE]:
        g.counts[TURN], g.counts[UNTIL] = 0, period // groups
    elif g.counts[UNTIL] <= 0:
        turn = g.counts[TURN]
        g.counts[TURN] = (turn + 1) % groups
        g.counts[UNTIL] = ((turn + 2) * period) // groups - ((turn + 1) * period) // groups
        if limits.each[0] == 0 and limits.budget[0] >= 0:
            _trade(turn, turns, g)
    f, total = 0, 0.0
    for group in range(groups):
        due, f = is_due(group, f, turns, g)
        if due or group == turn:
            if g.counts[ALL_DUE]:
                g.counts[CHECK] = 1
            _update_group(
                links, drives, springs, roots, group, limits, h, reach, applied, wrenches, still, co, link_map,
                transient_map, jwork, work, spring_work, buffers, transient_body, transient_springs, turns, g, body, q,
                qd, shown_q, shown_qd,
            )  # fmt: skip
            _end_update(co.table, wrenches, known, g)
        total += max(turns.error[group], 0.0)
    g.numbers[ERROR], g.counts[ALL_DUE] = total, 0
    waiting = False
    for f in range(len(g.wanted)):
        waiting = waiting or g.wanted[f] > 0
    if not waiting:
        g.counts[EARLY] = -1


@outlined
def apply_impulse(links, co, link_map, j, wrenches, g, work, spring_work, buffers, spare, body):
    """Change body.qd by the response of the hybrid body to the impulse in row j of `wrenches`.

    Accelerations are linear in forces: the change is the difference of those with and without it.

    Args:
        spare: (nv,) scratch.
    """
    place_wrench(links, co.table, co.numbers, g.active_region, link_map, wrenches, j, body.wrenches)
    for p in range(SPAN):
        g.span[p] = body.whole[p]
    for again in range(2):
        for block in range(body.count[0]):
            for p in range(SPAN):
                body.whole[p] = body.blocks[block, p]
            status = body_dynamics(body, 0.0, work, spring_work, buffers)
            for v in range(body.whole[DOF], body.whole[DOF + 1]):
                if again == 0:
                    spare[v] = buffers.qdd[v]
                elif status == 0:
                    body.qd[v] += spare[v] - buffers.qdd[v]
        body.wrenches.link[j] = -1
    for p in range(SPAN):
        body.whole[p] = g.span[p]
