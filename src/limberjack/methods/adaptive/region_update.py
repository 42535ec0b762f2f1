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

Redon, Galoppo, Lin 2005, sections 5 and 6.
"""

from __future__ import annotations

from limberjack._jit import inner, outlined
from limberjack.errors import Status
from limberjack.methods.adaptive.choose import acceleration_update_region, new_active_region
from limberjack.methods.adaptive.coefficients import rigid_coefficients
from limberjack.methods.adaptive.free_accelerations import AHEAD, BATCH, free_accelerations
from limberjack.methods.adaptive.hybrid_body import condense, gather, scatter
from limberjack.methods.adaptive.known_forces import collect_forces, merge_force_paths
from limberjack.methods.adaptive.layout import (
    CACHED,
    CHANGE_RATE,
    CHANGED,
    CHECK,
    COUNT,
    EDITED,
    ENTERED,
    EPOCH,
    EXPECTED,
    HORIZON,
    JOINTS,
    LAST_TRANSIENT,
    LEFT,
    MOST_CACHED,
    POPPED,
    REMOVED,
    REMOVED_ALL,
    SINCE,
    SLOTS,
    STAMP,
    TURNOVER,
    VELOCITY_ERROR,
    VISITED,
)
from limberjack.methods.adaptive.missed import accumulate_missed, pass_on_missed
from limberjack.methods.adaptive.poses import lay_sweep, sort_nodes
from limberjack.methods.adaptive.rigidify import rigidify
from limberjack.model.arrays import BALL_DRIVE, DOF, LINK, SCALAR_DRIVE
from limberjack.reduced.assembly_tree import CHILD, DOFS, OWN, TAU, UP, V
from limberjack.reduced.drives import ball_drive, drive_forces, scalar_drive
from limberjack.reduced.kinematics import kinematics
from limberjack.reduced.step import dynamics
from limberjack.spatial.lanes import prefetch

__all__ = ["refresh_stale_nodes", "update"]

# The rate of changes is a mean over about this time [s].
RATE_TIME = 1.0


@outlined
def resting_joint_forces(links, drives, link_map, i, h, q, still, applied, own):
    """Fill the joint forces and own inertias of link i at rest: constant while its joint is rigid."""
    for v in range(links.v_start[i], links.v_start[i] + links.dof[i]):
        own[v, TAU], own[v, OWN] = applied[v], links.armature[v]
    for v in range(links.v_start[i], links.v_start[i] + links.dof[i]):
        row = link_map.scalar[v]
        if row >= 0:
            f, k, b = scalar_drive(row, drives.scalar, h, q[drives.indices[row, 0]], 0.0)
            own[v, TAU] += f
            own[v, OWN] += h * b + h * h * k
        row = link_map.ball[v]
        if row >= 0:
            x, y, z, fx, fy, fz = ball_drive(row, drives.ball, h, q, drives.ball_indices[row, 0], still, v)
            own[v, TAU] += x
            own[v + 1, TAU] += y
            own[v + 2, TAU] += z
            own[v, OWN] += fx
            own[v + 1, OWN] += fy
            own[v + 2, OWN] += fz


@inner
def _make_rigid(links, drives, link_map, co, mass, cached, node, h, q, still, applied, work):
    """Fill the joint forces and coefficients of a rigid node; return whether the matrix of its joint is positive."""
    i = co.table[node, CHILD]
    cached[node, 1] = cached[node, 2] = -1
    if i < len(links.parent):
        resting_joint_forces(links, drives, link_map, i, h, q, still, applied, co.own)
    return rigid_coefficients(links, co.table, co.numbers, co.shares, co.own, co.scratch, node, q, still, work, mass)


@inner
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


@inner
def _activate_edited(table, g):
    """Make the nodes above links edited from outside active."""
    count = g.counts[COUNT]
    for j in range(g.counts[EDITED]):
        node = table[g.edited[j], UP]
        while node >= 0 and not g.active_region[node]:
            g.active_region[node] = 1
            g.held[node] = 0
            g.credit[node] = g.trust[node, EXPECTED] = 0.0
            g.active_nodes[count] = node
            count += 1
            node = table[node, UP]
    g.counts[EDITED] = 0
    g.counts[CHECK] = 1
    g.counts[COUNT] = count
    sort_nodes(count, g.no_keys, g.active_nodes, g.queue)


@inner
def _same_transient(count, g):
    """Return whether the transient region is that of the last update, and store it.

    Its body is then the same, but for q and qd: active regions are subsets of it, so nothing below it has moved.
    """
    same = g.counts[LAST_TRANSIENT] == count
    for j in range(count):
        same = same and g.last_transient[j] == g.transient_nodes[j]
        g.last_transient[j] = g.transient_nodes[j]
    g.counts[LAST_TRANSIENT] = count
    return same


@inner
def body_kinematics(body, work):
    """Fill the rows of the hybrid body."""
    kinematics(body.links, body.whole, body.q, body.qd, work)


@inner
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
    for k in range(n):
        if n > BATCH:
            prefetch(own, links.v_start[body.link[min(k + 2 * AHEAD, n - 1)]], 0)
        v, iv = links.v_start[body.link[k]], body.links.v_start[k]
        for a in range(body.links.dof[k]):
            own[v + a, TAU], own[v + a, OWN] = b.tau[iv + a], b.added[iv + a]


@inner
def update(
    # model
    links, drives, springs, roots,
    # in
    limits, h, reach, applied, wrenches, still,
    # scratch
    co, link_map, transient_map, jwork, work, spring_work, buffers, transient_body, transient_springs,
    # out
    g, body, q, qd, shown_q, shown_qd,
):  # fmt: skip
    """Choose a new active region; `body`, q and qd are its hybrid body and state afterwards.

    Args:
        limits: when the choices end.
        h: time step; velocities are measured after it.
        reach: time over which drives are implicit: h or more, 0 = they are explicit.
        applied, wrenches: forces on dofs and links.
        link_map, transient_map: where links are in `body` and in `transient_body`.
        transient_body, transient_springs: the transient hybrid body, and the scratch of its springs.
        shown_q, shown_qd: copies of q and qd for the user, updated for joints that leave the region.
    """
    table, c, mass, horizon = co.table, co.numbers, limits.mass[0] > 0, limits.horizon[HORIZON]
    elapsed = h * g.counts[SINCE]
    g.counts[SINCE] = 0
    fading = max(1.0 - elapsed / RATE_TIME, 0.0)
    g.numbers[CHANGE_RATE] *= fading
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
            at,
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
            count,
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
        links, drives, springs, table, c, g.active_region, g.active_nodes, at, q, qd, applied, wrenches, link_map, body
    )
    lay_sweep(table, g.active_region, link_map.sorted, link_map.node, at, g.slot, g.joints)
