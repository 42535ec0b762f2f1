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

A turn has three parts: `plan_turn` says which groups are updated and with how many joints, `update_groups` updates some
of them, and `end_turn` adds up what they did. The groups of a turn have nothing in common: they can be updated on
different threads, each with lists and scratch of its own, and the result does not depend on which.

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
    ELSEWHERE,
    ENTERED,
    EPOCH,
    ERROR,
    EXPECTED,
    FORCE,
    GROUP_ENTERED,
    GROUP_LEFT,
    GROUP_POPPED,
    GROUP_REMOVED,
    GROUP_TOTAL,
    GROUP_VELOCITY_ERROR,
    GROUP_VISITED,
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
    SLIGHT_FORCE,
    SLOTS,
    SPARE_JOINTS,
    STALE,
    STAMP,
    TAKEN,
    TOTAL,
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

__all__ = [
    "apply_impulse",
    "condense_groups",
    "end_turn",
    "list_blocks",
    "plan_turn",
    "refresh_stale_nodes",
    "update",
    "update_all_trees",
    "update_groups",
]

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
def _activate_edited(table, horizon, g):
    """Make the nodes above links edited from outside active; return whether the hybrid body is another one then.

    Where forces act on more links than there are active joints, the metric chooses among them, as it does with a
    horizon among those on which forces changed slightly.
    """
    count, moved, forces = g.counts[COUNT], False, FORCE if horizon > 0.0 else FORCE | SLIGHT_FORCE
    all_pushed = g.counts[PUSHED] <= max(count, _FEW)
    for j in range(g.counts[EDITED]):
        i = g.edited[j]
        moved = moved or g.edit[i] & VELOCITY > 0
        node = table[i, UP] if g.edit[i] & VELOCITY or (all_pushed and g.edit[i] & forces) else -1
        g.edit[i] = 0
        while node >= 0 and not g.active_region[node]:
            g.active_region[node] = 1
            g.held[node] = 0
            g.credit[node] = g.trust[node, EXPECTED] = 0.0
            g.active_nodes[count] = node
            count += 1
            node = table[node, UP]
    g.counts[EDITED] = g.counts[PUSHED] = 0
    if count == g.counts[COUNT] and not moved:
        return False
    g.counts[CHECK] = 1
    g.counts[COUNT] = count
    sort_nodes(count, g.no_keys, g.active_nodes, g.queue)
    return True


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
        some = g.loop_always[k] > 0
        for j in range(g.loop_start[k], g.loop_start[k + 1]):
            some = some or g.transient_region[g.loop_nodes[j]] > 0
        if some:
            for j in range(g.loop_start[k], g.loop_start[k + 1]):
                node = g.loop_nodes[j]
                while node >= 0 and not g.transient_region[node]:
                    g.transient_region[node] = 1
                    g.transient_nodes[count + added] = node
                    # it was not visited: these may be of an earlier update
                    g.acceleration_metric[node] = g.predicted[node] = 0.0
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
        some, all_out = g.loop_always[k] > 0, False
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

    Returns:
        whether the hybrid body is another one, or moves on from other velocities.
    """
    table, c, mass, horizon = co.table, co.numbers, limits.mass[0] > 0, limits.horizon[HORIZON]
    elapsed = 0.0
    for f in range(len(roots)):
        if g.due[f]:
            elapsed = h * (g.counts[TAKEN] - g.updated[f])
            g.updated[f] = g.counts[TAKEN]
    scatter(links, body, q, qd)
    scatter(links, body, shown_q, shown_qd)
    g.counts[STAMP] += 1
    g.counts[SLOTS] = g.counts[VISITED] = g.counts[POPPED] = g.counts[ENTERED] = g.counts[LEFT] = 0
    g.numbers[REMOVED] = 0.0
    if g.counts[CACHED] > min(len(table) // 2, MOST_CACHED) // 2:  # here and not in the middle of an update
        g.counts[CACHED] = 0
        g.counts[EPOCH] += 1
    edited = g.counts[EDITED] > 0 and _activate_edited(table, horizon, g)
    if edited:
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
        return edited
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
    if left > 0:
        g.numbers[REMOVED] = rigidify(
            links, link_map.node, transient_body, g.transient_region, g.span, work, g.velocities, g.momenta, buffers, qd
        )
    g.counts[VISITED] += count
    if entered + left == 0:
        for j in range(count):
            g.transient_region[g.transient_nodes[j]] = 0
        return edited
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
    return True


@inner
def _add_up(h, trees, changed, g):
    """Add what the updates of a turn did to what all have done; `changed` of them changed joints."""
    moved = g.counts[ENTERED] + g.counts[LEFT]
    g.counts[TURNOVER] += moved
    g.counts[CHANGED] += changed
    g.numbers[REMOVED_ALL] += g.numbers[REMOVED]
    g.numbers[CHANGE_RATE] *= max(1.0 - h * (g.counts[TAKEN] - g.updated[trees]) / RATE_TIME, 0.0)
    g.numbers[CHANGE_RATE] += moved / RATE_TIME
    g.updated[trees] = g.counts[TAKEN]


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
        turns.check[group] = 1
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
def _take_group(table, wrenches, group, turns, g):
    """List the active nodes, edited links and wrenches of a group alone."""
    for f in range(len(g.due)):
        g.due[f] = turns.group[f] == group
    first, count = turns.node_first[group], turns.node_count[group]
    for j in range(count):
        g.active_nodes[j] = turns.nodes[first + j]
    g.counts[COUNT], g.counts[JOINTS] = count, turns.joints[group]
    edited = pushed = 0
    for j in range(turns.edits[0]):
        i = turns.edited[j]
        if g.due[table[i, TREE_INDEX]]:
            g.edited[edited] = i
            edited += 1
            pushed += g.edit[i] & VELOCITY == 0
    g.counts[EDITED], g.counts[PUSHED] = edited, pushed
    for j in range(len(wrenches.link)):
        i = wrenches.link[j]
        turns.link[j] = i if i < 0 or g.due[table[i, TREE_INDEX]] else ELSEWHERE
    g.counts[CHECK], g.counts[STAMP], g.counts[LAST_TRANSIENT] = turns.check[group], turns.stamp[group], 0


@inner
def _keep_group(group, changed, turns, g):
    """Store the active nodes of a group that was updated, and what the update did."""
    first = turns.node_first[group]
    for j in range(g.counts[COUNT]):
        turns.nodes[first + j] = g.active_nodes[j]
    turns.node_count[group], turns.joints[group] = g.counts[COUNT], g.counts[JOINTS]
    counted, measured = turns.counted, turns.measured
    counted[group, GROUP_ENTERED], counted[group, GROUP_LEFT] = g.counts[ENTERED], g.counts[LEFT]
    counted[group, GROUP_VISITED], counted[group, GROUP_POPPED] = g.counts[VISITED], g.counts[POPPED]
    measured[group, GROUP_REMOVED], measured[group, GROUP_TOTAL] = g.numbers[REMOVED], g.numbers[TOTAL]
    measured[group, GROUP_VELOCITY_ERROR], turns.error[group] = g.numbers[VELOCITY_ERROR], g.numbers[ERROR]
    turns.check[group] = g.counts[CHECK]
    turns.changed[group] = changed


@inner
def list_blocks(first, last, turns, body):
    """List the groups from `first` to `last` - 1 as blocks, also empty ones: what is carried is known by the block."""
    for k in range(first, last):
        for p in range(SPAN):
            body.blocks[k - first, p] = turns.span[k, p]
    body.count[0] = last - first


@inner
def _start_group(group, turns):
    for p in range(SPAN):
        turns.start[p] = turns.first[group, p]


@outlined
def condense_groups(links, drives, springs, co, g, q, qd, applied, wrenches, link_map, turns, body):
    """Fill the hybrid body of all trees, group by group, and their sweep if they are one."""
    table, groups = co.table, len(turns.quota)
    if groups == 1:
        condense(
            links, drives, springs, table, co.numbers, g.active_region, g.active_nodes, 0, g.counts[COUNT], turns.none,
            q, qd, applied, wrenches, link_map, body,
        )  # fmt: skip
        for p in range(SPAN):
            turns.span[0, p] = body.whole[p]
        lay_sweep(table, g.active_region, link_map.sorted, link_map.node, g.counts[COUNT], g.slot, g.joints)
        return
    for group in range(groups):
        _start_group(group, turns)
        condense(
            links, drives, springs, table, co.numbers, g.active_region, turns.nodes, turns.node_first[group],
            turns.node_count[group], turns.start, q, qd, applied, wrenches, link_map, body,
        )  # fmt: skip
        for p in range(SPAN):
            turns.span[group, p] = body.whole[p]
    list_blocks(0, groups, turns, body)
    for j in range(len(wrenches.link)):  # in all clusters, now that there are all
        place_wrench(links, table, co.numbers, g.active_region, link_map, wrenches, j, body.wrenches)


@outlined
def plan_turn(links, drives, link_map, limits, reach, applied, still, stale, q, co, jwork, turns, g):
    """Mark the groups to be updated: those whose turn it is, and those that changed forces ask for, or all."""
    period, count = limits.period[0], turns.count[0]
    if g.counts[STALE] > 0:
        _refresh_columns(
            links, drives, link_map, co, limits.mass[0] > 0, g.cached, stale, reach, q, still, applied, jwork, g
        )
    for j in range(g.counts[EDITED]):
        turns.edited[j] = g.edited[j]
    turns.edits[0] = g.counts[EDITED]
    turn, every = -1, g.counts[ALL_DUE] > 0
    if every:
        g.counts[TURN], g.counts[UNTIL] = 0, period // count
    elif g.counts[UNTIL] <= 0:
        turn = g.counts[TURN]
        g.counts[TURN] = (turn + 1) % count
        g.counts[UNTIL] = ((turn + 2) * period) // count - ((turn + 1) * period) // count
    f, stamp = 0, g.counts[STAMP]
    for group in range(len(turns.quota)):
        own = group % count == turn
        due = every or own
        while f < len(g.wanted) and turns.group[f] == group:
            due = due or (g.counts[EARLY] == 0 and g.wanted[f] > 0)
            f += 1
        if own and limits.each[0] == 0 and limits.budget[0] >= 0:
            _trade(group, turns, g)
        if every:
            turns.check[group] = 1
        turns.due[group], turns.stamp[group] = due, stamp
        stamp += due


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
    """Update the trees of a group; see `update`."""
    table = co.table
    _limit_group(limits, group, turns)
    _start_group(group, turns)
    _take_group(table, wrenches, group, turns, g)
    for p in range(SPAN):
        body.whole[p] = turns.span[group, p]
    for j in range(len(wrenches.link)):
        transient_body.wrenches.link[j] = -1
    order_bodies(table, g.active_nodes, 0, g.counts[COUNT], link_map)
    lay_sweep(table, g.active_region, link_map.sorted, link_map.node, g.counts[COUNT], g.slot, g.joints)
    changed = update(
        links, drives, springs, roots, turns.limits, turns.start, turns.none, h, reach, applied,
        Wrenches(turns.link, wrenches.data), still, co, link_map, transient_map, jwork, work, spring_work, buffers,
        transient_body, transient_springs, g, body, q, qd, shown_q, shown_qd,
    )  # fmt: skip
    for p in range(SPAN):
        turns.span[group, p] = body.whole[p]
    _keep_group(group, changed, turns, g)


@inner
def _end_update(table, wrenches, known, g):
    """Store what the trees just updated know of forces."""
    remember_wrenches(table, wrenches, g, known)
    for f in range(len(g.due)):
        if g.due[f]:
            g.wanted[f] = 0


@outlined
def update_groups(
    # model
    links, drives, springs, roots,
    # in
    first, last, limits, h, reach, applied, wrenches, still, known,
    # scratch
    co, link_map, transient_map, jwork, work, spring_work, buffers, transient_body, transient_springs, turns,
    # out
    g, body, q, qd, shown_q, shown_qd,
):  # fmt: skip
    """Update the groups from `first` to `last` - 1 that are due, and list their blocks in `body`; see `update`."""
    for group in range(first, last):
        if turns.due[group]:
            _update_group(
                links, drives, springs, roots, group, limits, h, reach, applied, wrenches, still, co, link_map,
                transient_map, jwork, work, spring_work, buffers, transient_body, transient_springs, turns, g, body, q,
                qd, shown_q, shown_qd,
            )  # fmt: skip
            _end_update(co.table, wrenches, known, g)
    list_blocks(first, last, turns, body)


@outlined
def end_turn(table, h, turns, g, body):
    """Add up what the groups of a turn did, and list all groups as blocks."""
    groups = len(turns.quota)
    entered = left = visited = popped = joints = changed = 0
    error = removed = total = stopped = 0.0
    stamp = g.counts[STAMP]
    for group in range(groups):
        joints += turns.joints[group]
        error += max(turns.error[group], 0.0)
        total += turns.measured[group, GROUP_TOTAL]
        stopped += turns.measured[group, GROUP_VELOCITY_ERROR]
        if turns.due[group]:
            moved = turns.counted[group, GROUP_ENTERED] + turns.counted[group, GROUP_LEFT]
            stamp = turns.stamp[group] + 1  # the counts may be those of a group that was updated last
            entered += turns.counted[group, GROUP_ENTERED]
            left += turns.counted[group, GROUP_LEFT]
            visited += turns.counted[group, GROUP_VISITED]
            popped += turns.counted[group, GROUP_POPPED]
            removed += turns.measured[group, GROUP_REMOVED]
            changed += moved > 0
    g.counts[ENTERED], g.counts[LEFT], g.counts[VISITED], g.counts[POPPED] = entered, left, visited, popped
    g.counts[JOINTS], g.counts[STAMP] = joints, stamp
    g.numbers[ERROR], g.numbers[TOTAL], g.numbers[VELOCITY_ERROR], g.numbers[REMOVED] = error, total, stopped, removed
    _add_up(h, len(g.wanted), changed, g)
    kept = pushed = 0
    for j in range(turns.edits[0]):
        i = turns.edited[j]
        if not turns.due[turns.group[table[i, TREE_INDEX]]]:
            g.edited[kept] = i
            kept += 1
            pushed += g.edit[i] & VELOCITY == 0
    g.counts[EDITED], g.counts[PUSHED], turns.edits[0] = kept, pushed, 0
    waiting = False
    for f in range(len(g.wanted)):
        waiting = waiting or g.wanted[f] > 0
        g.counts[TREES] += turns.due[turns.group[f]]
    if not waiting:
        g.counts[EARLY] = -1
    g.counts[ALL_DUE] = g.counts[CHECK] = 0
    for group in range(groups):
        turns.due[group] = 0
    list_blocks(0, groups, turns, body)


@outlined
def update_all_trees(
    # model
    links, drives, springs, roots,
    # in
    limits, h, reach, applied, wrenches, still, known, stale,
    # scratch
    co, link_map, transient_map, jwork, work, spring_work, buffers, transient_body, transient_springs, turns,
    # out
    g, body, q, qd, shown_q, shown_qd,
):  # fmt: skip
    """Update all trees at once, which are a single group; see `update`."""
    if g.counts[STALE] > 0:
        _refresh_columns(
            links, drives, link_map, co, limits.mass[0] > 0, g.cached, stale, reach, q, still, applied, jwork, g
        )
    changed = update(
        links, drives, springs, roots, limits, turns.none, turns.none, h, reach, applied, wrenches, still, co, link_map,
        transient_map, jwork, work, spring_work, buffers, transient_body, transient_springs, g, body, q, qd, shown_q,
        shown_qd,
    )  # fmt: skip
    _add_up(h, len(roots), 1 if g.counts[ENTERED] + g.counts[LEFT] > 0 else 0, g)
    turns.changed[0] = changed
    for p in range(SPAN):
        turns.span[0, p] = body.whole[p]
    _end_update(co.table, wrenches, known, g)
    g.counts[TREES] += len(roots)
    g.counts[UNTIL], g.counts[ALL_DUE], g.counts[EARLY] = limits.period[0], 0, -1


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
