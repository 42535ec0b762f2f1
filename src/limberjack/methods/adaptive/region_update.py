"""The region update: which joints are simulated from now on.

    touched      joints above links that were touched from outside are opened: they may move
    forces       wrenches and springs on links, in their axes, and the parts they act within (`pushes.py`)
    convert      accelerations of the whole body as if all its joints were free, and the metric of every part of the
                 front (`conversion.py`)
    choose       from the roots down, largest acceleration metric first, until the budget or the tolerance is reached
                 (`choices.py`)
    transient    accelerations of the body with old and chosen joints free
    velocities   velocities after the next step, their metric, and the same choice among those: the new active region
    rigidify     joints that leave it are stopped by impulses (`rigidify.py`); their parts get columns again

Each stage touches active nodes, their sides, the nodes opened and those above forces: nothing is done for all.

Redon, Galoppo, Lin 2005, sections 5 and 6.
"""

from __future__ import annotations

from limberjack._jit import inner, outlined
from limberjack.methods.adaptive.choose import choose_accelerations, choose_velocities
from limberjack.methods.adaptive.coefficients import hold
from limberjack.methods.adaptive.free_accelerations import AHEAD, SWEPT, convert
from limberjack.methods.adaptive.hybrid_body import condense, gather, scatter
from limberjack.methods.adaptive.known_forces import climb, gather_forces
from limberjack.methods.adaptive.layout import (
    CHANGED,
    CHECK,
    COUNT,
    ENTERED,
    EPOCH,
    JOINTS,
    KEPT,
    LEFT,
    MOST_KEPT,
    POPPED,
    REMOVED,
    REMOVED_ALL,
    SLOTS,
    SPEED_ERROR,
    STAMP,
    TOUCHED,
    TRIED,
    TURNOVER,
    VISITED,
)
from limberjack.methods.adaptive.poses import lay_sweep, sort_nodes
from limberjack.methods.adaptive.rigidify import rigidify
from limberjack.model.arrays import BALL_DRIVE, DOF, LINK, SCALAR_DRIVE
from limberjack.reduced.assembly_tree import CHILD, DOFS, OWN, TAU, UP, V
from limberjack.reduced.drives import ball_drive, drive_forces, scalar_drive
from limberjack.reduced.kinematics import kinematics
from limberjack.reduced.step import dynamics
from limberjack.spatial.lanes import prefetch

__all__ = ["hold_all", "update"]


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


@inner
def _hold_node(links, drives, places, co, mass, kept, node, h, q, still, applied, work):
    """Fill the forces and coefficients of a node whose joint is held."""
    i = co.table[node, CHILD]
    kept[node, 1] = kept[node, 2] = -1
    if i < len(links.parent):
        held_forces(links, drives, places, i, h, q, still, applied, co.own)
    return hold(links, co.table, co.numbers, co.shares, co.own, co.scratch, node, q, still, work, mass)


@inner
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
def body_kinematics(body, work):
    """Fill the rows of the hybrid body."""
    kinematics(body.links, body.whole, body.q, body.qd, work)


@inner
def body_dynamics(body, h, work, pull, b):
    """Fill b.qdd, the accelerations of the hybrid body, implicit over h where h > 0; return its status."""
    span = body.whole
    driven = span[SCALAR_DRIVE + 1] > 0 or span[BALL_DRIVE + 1] > 0
    tau, added = (b.tau, b.added) if driven else (body.tau, body.links.armature)
    return dynamics(
        body.links, body.drives, body.springs, span, h, body.q, body.qd, body.tau, body.wrenches, work, pull, driven,
        tau, added, b.qdd,
    )  # fmt: skip


@inner
def _own_forces(links, body, h, b, own):
    """Find the joint forces and own inertias of active joints for the coefficients."""
    span = body.whole
    drive_forces(body.drives, body.links.armature, span, h, body.q, body.qd, body.tau, b.tau, b.added)
    n = span[LINK + 1]
    for k in range(n):
        if n > SWEPT:
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
        climb(co, mass, gather_forces(links, springs, table, c, places, body, wrenches, work, pull, g), g)
    convert(links, co, mass, places, roots, q, still, jwork, work.rows, g)
    old = g.counts[COUNT]
    for j in range(old):
        g.trial[j] = g.nodes[j]
        g.transient[g.nodes[j]] = 1
    new = choose_accelerations(links, co, places, roots, limits, work.rows, g)
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
    g.counts[JOINTS] = choose_velocities(
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
        removed = rigidify(links, places.node, trial, g.transient, g.span, work, g.velocities, g.momenta, buffers, qd)
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
