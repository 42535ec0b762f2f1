"""External forces: on rigid nodes at updates, and as they change between updates.

At an update the force update region reaches from the links that forces act on up to the rigid front. Its coefficients
follow from eqs. (2) and (8), bottom up, in place of the stored columns.

Between updates a changed force acts from the next step on, as a force on the hybrid body. Where it acts within a rigid
node nothing else happens at once: the constant columns above a rigid joint are computed again by the next update, which
includes them in the accelerations that it chooses by. That update comes before its time if the change would by then
have made too large a velocity, and then activates the nodes above the links concerned.

Redon, Galoppo, Lin 2005, sections 4.1 and 6.2.
"""

from __future__ import annotations

import math

from limberjack._jit import inner, outlined
from limberjack.methods.adaptive.coefficients import evaluate_coefficients
from limberjack.methods.adaptive.free_accelerations import (
    factor_rigid_node,
    merge_mass_metrics,
    rigid_front_motion,
    side_angular_velocities,
)
from limberjack.methods.adaptive.hybrid_body import place_wrench
from limberjack.methods.adaptive.layout import (
    EARLY,
    EDITED,
    EPOCH,
    FORCE,
    JOINT_FORCE,
    LAST_TRANSIENT,
    PUSHED,
    SLIGHT_FORCE,
    STALE,
    STAMP,
    VISITED,
    WRENCHES,
)
from limberjack.methods.adaptive.poses import locate, sort_nodes
from limberjack.model.arrays import BALL_DRIVE, SCALAR_DRIVE
from limberjack.model.joints import HINGE, SLIDE
from limberjack.reduced.assembly_tree import (
    APPLIED,
    CURRENT,
    FACTOR_PSI0,
    FACTOR_TT,
    FIRST_SIDE,
    LEAF,
    LEAF_KT,
    OWN,
    SECOND_SIDE,
    TAU,
    TREE_INDEX,
    UP,
    factor_offset,
)
from limberjack.reduced.dca import com_inertia
from limberjack.reduced.drives import ball_drive, scalar_drive
from limberjack.reduced.forces import spring_lengths
from limberjack.reduced.merges import merge_accelerations
from limberjack.reduced.metric_merges import joint_metric_matrices, merge_metric_vectors
from limberjack.reduced.work import rotation
from limberjack.spatial.vectors import cross, multiply, rotate_back

__all__ = [
    "collect_forces",
    "merge_force_paths",
    "remember_wrenches",
    "resting_joint_forces",
    "take_joint_forces",
    "take_wrenches",
]

# A change of force waits for the next update unless it would by then make a larger velocity than this, were its link
# free, and a larger one than gravity makes in so many steps [m/s].
_SPEED, _STEPS = 0.5, 10.0


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


@outlined
def collect_forces(links, springs, table, c, link_map, body, wrenches, work, spring_work, g):
    """Collect forces on leaves, the rigid nodes they act within and their angular velocities; return their number."""
    rows, count = work.rows, 0
    w = wrenches.data
    for j in range(len(wrenches.link)):
        if wrenches.link[j] >= 0:
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


@outlined
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


@outlined
def resting_joint_forces(links, drives, link_map, i, h, q, still, applied, own):
    """Fill the joint forces and own inertias of link i at rest: constant while its joint is rigid."""
    for v in range(links.v_start[i], links.v_start[i] + links.dof[i]):
        own[v, TAU], own[v, OWN], own[v, APPLIED] = applied[v], links.armature[v], applied[v]
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


# Between updates


@inner
def _edit(i, what, g):
    """Note an edit of link i for the next update of its tree."""
    if g.edit[i] == 0:
        g.edited[g.counts[EDITED]] = i
        g.counts[EDITED] += 1
        g.counts[PUSHED] += 1
    g.edit[i] |= what


@inner
def _ask_for_update(links, table, i, acceleration, until, h, g):
    """Let the tree of link i be updated before its time, if `acceleration` would make too large a velocity by then.

    Args:
        until: steps until the next update.

    Returns:
        what the edit is: FORCE then, else SLIGHT_FORCE.
    """
    x, y, z = links.gravity[0], links.gravity[1], links.gravity[2]
    most = max(_SPEED, _STEPS * h * math.sqrt(x * x + y * y + z * z))
    if acceleration * h * until <= most:
        return SLIGHT_FORCE
    steps = int(most / (acceleration * h))
    g.counts[EARLY] = steps if g.counts[EARLY] < 0 else min(g.counts[EARLY], steps)
    g.wanted[table[i, TREE_INDEX]] = 1
    return FORCE


@inner
def _turning_response(c, i):
    """Return the middle one of the angular accelerations of the free link i under unit torques about its axes."""
    o = i * LEAF
    x, y, z = c[0, o], c[0, o + 7], c[0, o + 14]
    return max(min(x, y), min(max(x, y), z))


@inner
def _joint_response(links, c, i):
    """Return the acceleration of the free link i, at its radius of gyration, under a unit force of its joint."""
    m, kind = links.inertia[i, 9], links.kind[i]
    if kind == SLIDE:
        return 1.0 / m
    return math.sqrt((c[0, i * LEAF + 14] if kind == HINGE else _turning_response(c, i)) / m)


@inner
def _copy_row(source, row, wide, target, at):
    for k in range(wide):
        target[at, k] = source[row, k]


@inner
def _differs(a, b, row, wide):
    """Return whether a row differs in two tables."""
    for k in range(wide):
        if a[row, k] != b[row, k]:
            return True
    return False


@inner
def _take_dof(link_map, v, new_tau, new_drives, drives, tau):
    """Take the applied force and the drives of dof v; return whether they changed."""
    changed = False
    if new_tau[v] != tau[v]:
        tau[v] = new_tau[v]
        changed = True
    row = link_map.scalar[v]
    if row >= 0 and _differs(new_drives.scalar, drives.scalar, row, 12):
        _copy_row(new_drives.scalar, row, 12, drives.scalar, row)
        changed = True
    row = link_map.ball[v]
    if row >= 0 and _differs(new_drives.ball, drives.ball, row, 18):
        _copy_row(new_drives.ball, row, 18, drives.ball, row)
        changed = True
    return changed


@inner
def _drive_row(place, low, high, v):
    """Return the row of the drive of dof v, between `low` and `high` - 1 in ascending order."""
    while high - low > 1:
        middle = (low + high) // 2
        if place[middle, 1] <= v:
            low = middle
        else:
            high = middle
    return low


@inner
def _set_active_joint(links, drives, link_map, i, tau, span, group, body):
    """Set applied forces and drives of the active joint of link i in the hybrid body; span[group] holds them."""
    v, iv = links.v_start[i], body.links.v_start[link_map.cluster[i]]
    for a in range(links.dof[i]):
        body.tau[iv + a] = tau[v + a]
        row = link_map.scalar[v + a]
        if row >= 0:
            at = _drive_row(body.drives.indices, span[group, SCALAR_DRIVE], span[group, SCALAR_DRIVE + 1], iv + a)
            _copy_row(drives.scalar, row, 12, body.drives.scalar, at)
        row = link_map.ball[v + a]
        if row >= 0:
            at = _drive_row(body.drives.ball_indices, span[group, BALL_DRIVE], span[group, BALL_DRIVE + 1], iv + a)
            _copy_row(drives.ball, row, 18, body.drives.ball, at)


@outlined
def _set_rigid_joint(links, drives, co, link_map, i, until, h, reach, still, known, stale, g, tau, q):
    """Take the changed forces of the rigid joint of link i: the columns above it are computed by the next update."""
    first, last = links.v_start[i], links.v_start[i] + links.dof[i]
    own, table = co.own, co.table
    if g.edit[i] & JOINT_FORCE == 0:
        for v in range(first, last):
            known.joint[v] = own[v, TAU]
    resting_joint_forces(links, drives, link_map, i, reach, q, still, tau, own)
    change = 0.0
    for v in range(first, last):
        change = max(change, abs(own[v, TAU] - known.joint[v]))
    node = link_map.node[i]
    while node >= 0 and not g.active_region[node] and not stale[node]:
        stale[node] = 1
        g.stale_nodes[g.counts[STALE]] = node
        g.counts[STALE] += 1
        node = table[node, UP]
    what = _ask_for_update(links, table, i, change * _joint_response(links, co.numbers, i), until, h, g)
    _edit(i, what | JOINT_FORCE, g)


@outlined
def take_joint_forces(
    # model
    links, co, link_map,
    # in
    first, last, new_tau, new_drives, until, h, reach, still, known, turns,
    # out
    stale, g, drives, tau, body, q,
):  # fmt: skip
    """Take the applied forces and drives of the dofs from `first` to `last` - 1 that have changed.

    Args:
        new_tau, new_drives: the user's; `tau` and `drives` are the engine's.
        until: steps until the next update.
        reach: h where drives are implicit, else 0.
    """
    v = first
    while v < last:
        i = known.owner[v]
        v, end, changed = links.v_start[i], links.v_start[i] + links.dof[i], False
        while v < end:
            changed = _take_dof(link_map, v, new_tau, new_drives, drives, tau) or changed
            v += 1
        if not changed:
            continue
        g.counts[LAST_TRANSIENT] = 0
        if not g.active_region[link_map.node[i]]:
            _set_rigid_joint(links, drives, co, link_map, i, until, h, reach, still, known, stale, g, tau, q)
            continue
        _set_active_joint(links, drives, link_map, i, tau, turns.span, turns.group[co.table[i, TREE_INDEX]], body)
        if not g.active_region[co.table[i, UP]]:
            _edit(i, SLIGHT_FORCE, g)


@inner
def _same_place(a, i, b, j):
    """Return whether wrench i of `a` acts at the point of wrench j of `b`."""
    return (
        a.link[i] == b.link[j] and a.data[i, 0] == b.data[j, 0] and a.data[i, 1] == b.data[j, 1]
        and a.data[i, 2] == b.data[j, 2]
    )  # fmt: skip


@inner
def _find(a, i, b, count):
    """Return the index among the first `count` wrenches of `b` of one at the point of wrench i of `a`, -1 = none."""
    if i < count and _same_place(a, i, b, i):
        return i
    for j in range(count):
        if _same_place(a, i, b, j):
            return j
    return -1


@inner
def _wrench_acceleration(links, c, a, i, known, j):
    """Return about how fast the change from wrench j of `known`, -1 = none, to wrench i of `a` moves its free link."""
    w, old, link = a.data, known.data, a.link[i]
    g = links.inertia
    x, y, z, _, _, _, _, _, _ = com_inertia(
        (g[link, 0], g[link, 1], g[link, 2], g[link, 3], g[link, 4], g[link, 5], g[link, 6], g[link, 7], g[link, 8],
         g[link, 9])
    )  # fmt: skip
    force = torque = 0.0
    for k in range(3):
        f, t = w[i, 3 + k], w[i, 6 + k]
        if j >= 0:
            f, t = f - old[j, 3 + k], t - old[j, 6 + k]
        force += f * f
        torque += t * t
    x, y, z = w[i, 0] - x, w[i, 1] - y, w[i, 2] - z
    force = math.sqrt(force)
    torque = math.sqrt(torque) + force * math.sqrt(x * x + y * y + z * z)
    return force / g[link, 9] + torque * math.sqrt(_turning_response(c, link) / g[link, 9])


@inner
def _wrench_changed(links, table, c, a, i, known, until, h, g):
    """Note that wrench i of `a` has changed, if it acts within a rigid node."""
    link = a.link[i]
    if link < 0 or g.active_region[table[link, UP]]:
        return
    j = _find(a, i, known, len(known.link))
    _edit(link, _ask_for_update(links, table, link, _wrench_acceleration(links, c, a, i, known, j), until, h, g), g)


@outlined
def take_wrenches(
    # model
    links, co, link_map,
    # in
    new, until, h, known,
    # out
    g, wrenches, body,
):  # fmt: skip
    """Take the wrenches that have changed.

    Args:
        new: the user's; `wrenches` are the engine's, with room for as many.
        until: steps until the next update.
    """
    table, c, count = co.table, co.numbers, len(new.link)
    for j in range(max(count, g.counts[WRENCHES])):
        if j < count and new.link[j] == wrenches.link[j] and not _differs(new.data, wrenches.data, j, 9):
            continue
        g.counts[LAST_TRANSIENT] = 0
        stays = j < count and _same_place(new, j, wrenches, j)
        if not stays and wrenches.link[j] >= 0 and _find(wrenches, j, new, count) < 0:
            for k in range(3, 9):  # it is gone
                wrenches.data[j, k] = 0.0
            _wrench_changed(links, table, c, wrenches, j, known, until, h, g)
        wrenches.link[j] = new.link[j] if j < count else -1
        if j < count:
            _copy_row(new.data, j, 9, wrenches.data, j)
            _wrench_changed(links, table, c, wrenches, j, known, until, h, g)
        if stays:
            for k in range(3, 9):
                body.wrenches.data[j, k] = wrenches.data[j, k]
        else:
            place_wrench(links, table, c, g.active_region, link_map, wrenches, j, body.wrenches)
    g.counts[WRENCHES] = count


@inner
def remember_wrenches(table, wrenches, g, known):
    """Store the wrenches on the trees just updated as those that the update knew."""
    for j in range(len(known.link)):
        new, old = wrenches.link[j], known.link[j]
        if (new >= 0 and g.due[table[new, TREE_INDEX]]) or (old >= 0 and g.due[table[old, TREE_INDEX]]):
            known.link[j] = new
            _copy_row(wrenches.data, j, 9, known.data, j)
