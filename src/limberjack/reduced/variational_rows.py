"""The variational step of trees with constraint rows, contacts and dry friction.

The balance of `variational.py` gets the impulses of rows and contacts at the pose q,

    J(q)^T (p(q -> q') - p(q" -> q) - w f(q)) = h (G^T lam + C^T mu)

with lam such that equality rows hold at q' (SHAKE; loops close, limits are not passed), rows at velocity level hold for
the mean of the half-step velocities before and after, and soft rows have the force of the pose they lead to. Contacts
mu push, stay within their friction cones and see the half-step velocity. Each iteration is that of the tree, with the
factor made once:

    correction without contacts -> rows (`rows.py`) -> contact impulses by sweeps (`contacts.py`) -> rows again

Positions that the iterations leave open are projected, and overlap of contacts is pushed out; momenta are not touched
by either, so that no energy is made. Where contacts act, trees are
stepped together: a substep is that of all.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from limberjack._jit import inner, outlined
from limberjack.collision.bvh import move_parts
from limberjack.collision.detect import detect_once
from limberjack.constraints.table import DRIVE, EQUALITY, GRIP, INEQUALITY, Table
from limberjack.contact.warm_start import match_contacts, store_matched
from limberjack.errors import Status
from limberjack.model.arrays import COORDINATE, DOF, LINK, SPAN
from limberjack.model.joints import HINGE, SLIDE
from limberjack.reduced.aba import articulate, solve_accelerations
from limberjack.reduced.constrained_step import (
    LoopState,
    constrain,
    evaluate_soft_rows,
    needs_projection,
    part_left,
    project_positions,
)
from limberjack.reduced.contacts import (
    CONTACT,
    CONVERGED,
    DRY_FRICTION,
    EQUALITY_ROW,
    FREE_VELOCITY,
    INEQUALITY_ROW,
    PUSH_OUT_LEAST,
    ROLLING,
    TARGET,
    collect_blocks,
    fall_of,
    has_impact,
    mark_trees,
    projected_gauss_seidel,
    push_out_speed,
    release_rows,
    set_poses,
    take_normal_alone,
    wakes,
    work_of_contacts,
    write_torque,
)
from limberjack.reduced.integrate import advance
from limberjack.reduced.jacobians import link_velocities
from limberjack.reduced.kinematics import kinematics
from limberjack.reduced.rows import (
    ACTIVE_GAP,
    AHEAD,
    GIVING,
    PAIR_END,
    PAIR_START,
    ROW,
    ROW_END,
    SINGULAR,
    VELOCITY,
    ConstraintState,
    evaluate_rows_at,
)
from limberjack.reduced.variational import (
    ENOUGH,
    HALVED,
    HALVINGS,
    KNOWN_STEPS,
    LAG,
    LENGTH,
    LOST,
    NOW,
    PROJECTED,
    SUBSTEPS,
    SWEEPS,
    TIME_HALVINGS,
    TRIED_ERROR,
    UNKNOWN,
    based_work,
    correct,
    eliminate,
    extrapolate,
    finish,
    first_diverged,
    incoming,
    joint_impulses,
    known_bias,
    known_forces,
    largest_correction,
    moving_energy,
    predict,
    pull,
    pull_is_due,
    pull_substeps,
    start,
    static_pull,
    stiffer,
    substeps_of,
    take_time_error,
    time_error,
    time_substeps,
    too_far,
)
from limberjack.reduced.work import DI, UU

__all__ = [
    "ContactSearch",
    "RowSet",
    "constrained_velocities_at",
    "take_variational_contact_steps",
    "take_variational_row_steps",
]

# Iterations go on while rows are open by more than this before the correction [m, rad]; with the correction, what is
# left is smaller by the square of the step.
OPEN = 1e-9
# In substeps shorter than this [s] less of what rows are open by may become velocities: they would add up.
RESOLVED = 1e-3
# Limits and ropes close by velocities where these are less than this [m/s, rad/s].
CLOSING = 1e-2
# More iterations than this are allowed where rows are open.
ROW_ITERATIONS = 12
# Rows at velocity level turn the rate they had in the last half step round to this part, limits at most: a little is
# lost of what violates them.
REFLECTED = 0.98
# A step in which more substeps than this were halved goes on in projected ones: light links that are pulled hard would
# take hundreds, and gain energy from what is left open in each.
MOST_HALVED = 32
# A substep in which rows add more than this part of the kinetic energy is halved: along rows that turn far within it.
GAINED = 1e-3
# Impulses of contacts of trees with rows may add this part of what they take to the energy.
GAINED_BY_CONTACTS = 0.03
# Of the trees involved in contacts, those that contacts or dry friction act on.
ACTING = 2


class RowSet(NamedTuple):
    """The constraint rows of trees, and their state."""

    table: Table
    loops: LoopState
    constraint: ConstraintState


@inner
def _set_span(blocks, k, span):
    for c in range(SPAN):
        span[c] = blocks[k, c]


@inner
def _has_rows(rows, k):
    return rows.constraint.blocks[k, ROW_END] > rows.constraint.blocks[k, ROW]


@inner
def _gives(rows, k):
    """Return whether block k has grips or drives of loop joints."""
    for r in range(rows.constraint.blocks[k, ROW], rows.constraint.blocks[k, ROW_END]):
        if rows.table.role[r] == GRIP or rows.table.role[r] == DRIVE:
            return True
    return False


@inner
def _clear_velocities(span, velocities):
    for i in range(span[LINK], span[LINK + 1]):
        for c in range(6):
            velocities[i, c] = 0.0


@outlined
def _evaluate(links, rows, span, k, time, h, projected, share, w, q):
    """Fill values at the pose and ahead, rates at w.qd, and the forces of soft rows of block k.

    Returns:
        how far equality rows are open ahead, and inequality rows violated.
    """
    table, constraint, values = rows.table, rows.constraint, rows.constraint.values
    first, end = constraint.blocks[k, ROW], constraint.blocks[k, ROW_END]
    paired = constraint.blocks[k, PAIR_END] > constraint.blocks[k, PAIR_START]
    velocities, shorter = constraint.velocities, min(1.0, h / RESOLVED)
    if not projected:
        if paired:
            _clear_velocities(span, velocities)
        evaluate_rows_at(table, k, time + h, w.q, w.qd, w.ahead, velocities, constraint)
        for r in range(first, end):
            if table.speed[r] == 0:
                constraint.ahead[r] = values[r, 0]
    if paired:
        link_velocities(links, span, w.qd, w.work, velocities)
    evaluate_rows_at(table, k, time, q, w.qd, w.work.rows, velocities, constraint)
    gap = 0.0
    for r in range(first, end):
        role, value = table.role[r], values[r, 0]
        if role > INEQUALITY or table.speed[r] == 1:
            if projected and table.speed[r] == 0:
                constraint.ahead[r] = value - h * table.target[r, 1]
            continue
        if projected:  # at velocities of zero nothing moves but the targets
            constraint.ahead[r] = value - h * table.target[r, 1]
        both = role == EQUALITY or constraint.multipliers[r] > 0.0
        size = abs(constraint.ahead[r]) if both else -constraint.ahead[r]
        gap = gap if size <= gap else size
        # What a loop is open by already is left to the projection: near a singular pose it takes any velocity to close.
        # So is what a limit or a rope is violated by, unless it closes slowly: short substeps would make a blow of it.
        if role == EQUALITY and abs(value) > OPEN * shorter * shorter:
            constraint.ahead[r] -= value
        elif role == INEQUALITY and value < -CLOSING * h:
            constraint.ahead[r] -= value
    evaluate_soft_rows(table, rows.loops, k, h, True, True, share, constraint, w.work.rows)
    return gap


@outlined
def _last_rates(links, rows, span, k, time, reflected, last, w, q):
    """Fill the rates that rows of block k had last; of inequality rows and those at velocity level what is left."""
    table, constraint = rows.table, rows.constraint
    some = paired = False
    for r in range(constraint.blocks[k, ROW], constraint.blocks[k, ROW_END]):
        constraint.reflected[r] = 0.0
        if table.role[r] == INEQUALITY or table.role[r] == EQUALITY:
            some = True
            paired = paired or table.row_pair[r, 0] >= 0
    if not (some and reflected > 0.0):
        return
    if paired:
        link_velocities(links, span, last, w.work, constraint.velocities)
        evaluate_rows_at(table, k, time, q, last, w.work.rows, constraint.velocities, constraint)
    for r in range(constraint.blocks[k, ROW], constraint.blocks[k, ROW_END]):
        if table.role[r] <= INEQUALITY:
            rate = constraint.values[r, 1]
            if table.row_pair[r, 0] < 0:
                rate = -table.target[r, 1]
                for c in range(2):
                    if table.indices[r, c] >= 0:
                        rate += table.share[r, c] * last[table.indices[r, c]]
            constraint.reflected[r] = rate if table.role[r] == EQUALITY and table.speed[r] == 0 else reflected * rate


@outlined
def _gains(links, rows, span, k, h, w):
    """Return whether equality rows of block k add energy in a substep h.

    A row of force lam does the work h lam (rate before + rate after) / 2 at the pose, which vanishes where it turns
    steadily: SHAKE is symmetric. Where a chain snaps straight, or light links turn far in a substep, it does not.
    """
    table, constraint, velocities = rows.table, rows.constraint, rows.constraint.velocities
    work = left = 0.0
    for r in range(constraint.blocks[k, ROW], constraint.blocks[k, ROW_END]):
        if table.role[r] == EQUALITY and table.speed[r] == 0:
            work += 0.5 * h * constraint.multipliers[r] * (constraint.reflected[r] + constraint.values[r, 1])
            left += OPEN * abs(constraint.multipliers[r])
    if not work > left:
        return False
    link_velocities(links, span, w.qd, w.work, velocities)
    return work > left + GAINED * moving_energy(links, span, velocities, w)


@inner
def _save_left(links, span, w):
    """Keep the joint forces that the elimination left."""
    work = w.work
    for i in range(span[LINK], span[LINK + 1]):
        one = links.kind[i] == HINGE or links.kind[i] == SLIDE
        for v in range(links.v_start[i], links.v_start[i] + links.dof[i]):
            w.left[v] = work.rows[i, UU] if one else work.rest[v]


@inner
def _load_left(links, span, w):
    """Put back the joint forces that the elimination left, with what was added to them."""
    work = w.work
    for i in range(span[LINK], span[LINK + 1]):
        if links.kind[i] == HINGE or links.kind[i] == SLIDE:
            work.rows[i, UU] = w.left[links.v_start[i]]
        else:
            for v in range(links.v_start[i], links.v_start[i] + links.dof[i]):
                work.rest[v] = w.left[v]


@inner
def _solve_free(links, rows, span, k, factored, h, soft, keep, w):
    """Fill w.qdd, with the rows of block k, for the bias forces and joint forces at hand; return a status."""
    work = w.work
    status = eliminate(links, span, factored, w)
    if status != 0:
        return status
    if keep:
        _save_left(links, span, w)
    solve_accelerations(links, span, work.subspace, work.reduced, work.pivot, work.rest, work.rows, w.qdd)
    if _has_rows(rows, k):
        return constrain(links, rows.table, span, k, AHEAD, h, ACTIVE_GAP, soft, factored, work, rows.constraint, w.qdd)
    return 0


@outlined
def _iterate(links, external, rows, keep, span, k, factored, projected, h, clock, carried, time, w, q):
    """Fill w.qdd, the correction of w.qd without contacts; return a status and how far rows are open ahead."""
    duration, last = 0.5 * (h + clock[LENGTH]), carried.history[0]
    if projected:
        known_bias(links, external, span, h, duration, 0.5, last, w, q)
    else:
        predict(links, external, span, h, duration, last, w, q)
        if factored and stiffer(links, span, w):
            factored = False
            known_forces(links, external, span, h, duration, clock, carried, w, q)
            predict(links, external, span, h, duration, last, w, q)
    gap = 0.0
    if _has_rows(rows, k):
        gap = _evaluate(links, rows, span, k, time, h, projected, duration / h, w, q)
    return _solve_free(links, rows, span, k, factored, h, external.stiff, keep, w), gap


class ContactSearch(NamedTuple):
    """What contacts are found with, where they are put, and when impacts end the steps."""

    shapes: object
    filters: object
    bvh: object
    broad: object
    contacts: object
    warm_start: object
    state: object
    margin: float  # gap up to which contacts are detected [m]
    impact_speed: float  # a step in which a contact removes more speed is not taken, and ends the steps [m/s]
    impact_shapes: np.ndarray  # (s,) 1 for the shapes it applies to; none if it is empty
    impact_links: np.ndarray  # (n + 1,) 1 for the links it applies to; the first is the world


@outlined
def _detect(links, blocks, constraint, h, velocity, w, contact):
    """Find the contacts at the poses of the rows; return 0 or a status."""
    t = contact.state
    set_poses(links, h, False, w.work.rows, w.work.subspace, velocity, t)
    if len(contact.bvh.top) > 0:
        move_parts(t.pose, t.velocities, t.reach, h, fall_of(h, links.gravity), contact.bvh)
    found = detect_once(
        contact.shapes, contact.filters, t.pose, t.reach, contact.margin, contact.bvh, contact.broad, contact.contacts
    )
    if found == Status.MORE_CONTACTS:
        return Status.MORE_CONTACTS
    if found == Status.POSE_NOT_FINITE:
        return Status.NOT_FINITE
    match_contacts(contact.contacts, contact.warm_start)
    mark_trees(links, blocks, constraint, contact.contacts, t)
    return 0


@outlined
def _fill_inverses(links, span, w, state):
    """Fill 1 / D of the dofs of the trees that contacts act on, and clear their part of z."""
    packed, work = state.packed, w.work
    for t in range(len(state.trees)):
        if state.involved[t] == 0:
            continue
        _set_span(state.trees, t, span)
        for i in range(span[LINK], span[LINK + 1]):
            one = links.kind[i] == HINGE or links.kind[i] == SLIDE
            for c in range(links.dof[i]):
                v = links.v_start[i] + c
                packed.inverse[v] = work.rows[i, DI] if one else work.pivot[v, c]
                packed.z[v] = 0.0


@outlined
def _store_forces(count, h, applied, contacts, found, state):
    """Store the forces of contacts, joint forces with those of dry friction, and the trees that they act on."""
    p = state.packed
    f = 1.0 / h
    for t in range(len(state.involved)):
        state.involved[t] = min(state.involved[t], 1)
    for v in range(len(state.applied)):
        state.applied[v] = applied[v]
    for k in range(count):
        if p.kind[k] == DRY_FRICTION:
            state.applied[p.source[k]] += f * p.lam[k, 0]
            state.dry[p.source[k]] = f * p.lam[k, 0]
            state.involved[state.tree_of_dof[p.source[k]]] = ACTING
        if p.kind[k] == CONTACT:
            c, a, s, t = p.source[k], p.axes, p.lam[k, 1], p.lam[k, 2]
            found[c, 0] = f * p.lam[k, 0]
            for x in range(3):
                found[c, 1 + x] = f * (s * a[k, 3 + x] + t * a[k, 6 + x])
            write_torque(k, count, f, found, p)
            if p.lam[k, 0] > 0.0:
                state.involved[state.tree[contacts.link_a[c]]] = ACTING
                if contacts.link_b[c] >= 0:
                    state.involved[state.tree[contacts.link_b[c]]] = ACTING


@outlined
def _solve_contacts(links, external, rows, blocks, span, h, w, contact):
    """Find the impulses of contacts and dry friction, and w.qdd with them; return a status."""
    t, p = contact.state, contact.state.packed
    for v in range(len(t.free_velocity)):
        t.free_velocity[v] = w.qd[v] + h * w.qdd[v]
    _fill_inverses(links, span, w, t)
    count = collect_blocks(
        links, rows.table, blocks, h, False, contact.contacts, contact.warm_start.found, rows.constraint, w.work, t
    )
    if count == Status.MORE_CONTACTS:
        return Status.MORE_CONTACTS
    release_rows(count, h, rows.constraint, p)
    projected_gauss_seidel(count, CONVERGED, p)
    status = _apply_contacts(links, external, rows, blocks, span, count, h, 1.0, w, contact)
    if status == 0 and _has_row_blocks(count, p):
        part = _part_without_gain(links, blocks, span, count, h, w, contact)
        if part < 1.0:
            status = _apply_contacts(links, external, rows, blocks, span, count, h, part - 1.0, w, contact)
            for k in range(count):
                for c in range(3):
                    p.lam[k, c] *= part
    _store_forces(count, h, external.applied, contact.contacts, contact.warm_start.found, t)
    return status


@inner
def _has_row_blocks(count, packed):
    for k in range(count):
        if packed.kind[k] == EQUALITY_ROW or packed.kind[k] == INEQUALITY_ROW:
            return True
    return False


@outlined
def _apply_contacts(links, external, rows, blocks, span, count, h, share, w, contact):
    """Add a share of the impulses of contacts and dry friction to the forces left; fill w.qdd; return a status."""
    t, p, work = contact.state, contact.state.packed, w.work
    f = share / h
    for k in range(count):
        if p.kind[k] == CONTACT or p.kind[k] == ROLLING or p.kind[k] == DRY_FRICTION:
            for j in range(p.start[k], p.start[k + 1]):
                w.left[p.column[j]] += f * (p.y[j, 0] * p.lam[k, 0] + p.y[j, 1] * p.lam[k, 1] + p.y[j, 2] * p.lam[k, 2])
    for k in range(len(blocks)):
        if _touched(blocks, k, 1, t):
            _set_span(blocks, k, span)
            _load_left(links, span, w)
            solve_accelerations(links, span, work.subspace, work.reduced, work.pivot, work.rest, work.rows, w.qdd)
            if _has_rows(rows, k):
                status = constrain(
                    links, rows.table, span, k, AHEAD, h, ACTIVE_GAP, external.stiff, True, work, rows.constraint, w.qdd
                )
                if status != 0:
                    return status
    return 0


@outlined
def _fill_velocities(links, blocks, span, qd, w, state):
    """Fill w.velocities of the links of blocks that contacts act on."""
    for k in range(len(blocks)):
        if _touched(blocks, k, 1, state):
            _set_span(blocks, k, span)
            link_velocities(links, span, qd, w.work, w.velocities)


@outlined
def _part_without_gain(links, blocks, span, count, h, w, contact):
    """Return the part of the impulses of contacts that takes most energy, where all of them would add some, else 1.

    The rows of a step are solved with those of contacts by sweeps, and once more exactly with their impulses: where
    sweeps do not settle, as near singular poses of loops, the two differ, and contacts throw what they should stop.
    What bodies that are led do is not their work.
    """
    t, change = contact.state, contact.state.qd
    _fill_velocities(links, blocks, span, t.free_velocity, w, t)
    slope = work_of_contacts(count, contact.contacts, t.free_velocity, w.velocities, t)
    for v in range(len(change)):
        change[v] = w.qd[v] + h * w.qdd[v]
    _fill_velocities(links, blocks, span, change, w, t)
    square = 0.5 * (work_of_contacts(count, contact.contacts, change, w.velocities, t) - slope)
    if not slope + square > GAINED_BY_CONTACTS * abs(slope) or not square > 0.0:
        return 1.0
    return min(max(-0.5 * slope / square, 0.0), 1.0)


@outlined
def _push_out(links, blocks, span, h, w, contact, q):
    """Move q so that overlap becomes less; return whether anything moved. Momenta are not touched: no energy is made.

    The rows and the factor are those of the last iteration of a substep h, and its impulses are no longer needed. What
    q was before is left in w.q.
    """
    t, p, depth = contact.state, contact.state.packed, contact.contacts.depth
    count, some = int(p.report[0]), False
    for k in range(count):
        some = some or (p.kind[k] == CONTACT and push_out_speed(depth[p.source[k]]) > PUSH_OUT_LEAST)
    if not some:
        return False
    # along normals and rows alone: friction would bear nothing
    m, f, sweeps, change = 0, p.coefficients, p.report[1], p.report[2]
    for i in range(count):
        k = p.order[i]
        p.lam[k, 0] = p.lam[k, 1] = p.lam[k, 2] = 0.0
        if p.kind[k] == DRY_FRICTION or p.kind[k] == ROLLING:
            continue
        if p.kind[k] == CONTACT:
            take_normal_alone(k, depth[p.source[k]], p)
        else:
            f[k, FREE_VELOCITY] = f[k, TARGET] = 0.0
        p.order[m] = k
        m += 1
    for j in range(p.start[count]):
        p.z[p.column[j]] = 0.0
    projected_gauss_seidel(m, PUSH_OUT_LEAST, p)
    p.report[1], p.report[2] = sweeps, change
    for v in range(len(t.free_velocity)):
        w.left[v] = 0.0
    for i in range(m):
        k = p.order[i]
        for j in range(p.start[k], p.start[k + 1]):
            w.left[p.column[j]] += p.y[j, 0] * p.lam[k, 0]
    work = w.work
    for k in range(len(blocks)):
        _set_span(blocks, k, span)
        for c in range(span[COORDINATE], span[COORDINATE + 1]):
            w.q[c] = q[c]
        if _touched(blocks, k, 1, t):
            _load_left(links, span, w)
            solve_accelerations(links, span, work.subspace, work.reduced, work.pivot, work.rest, work.rows, w.qdd)
            advance(links, span, h, w.qdd, q)
    return True


@outlined
def _impact(contact):
    """Return whether the contacts just solved stop more than the speed of an impact."""
    packed = contact.state.packed
    return has_impact(
        int(packed.report[0]), contact.impact_speed, contact.impact_shapes, contact.impact_links, contact.contacts,
        packed,
    )  # fmt: skip


@inner
def _touched(blocks, k, least, state):
    """Return whether a tree of block k is involved in contacts at least that much."""
    if blocks[k, LINK] == blocks[k, LINK + 1]:
        return False
    for t in range(state.tree[blocks[k, LINK]], state.tree[blocks[k, LINK + 1] - 1] + 1):
        if state.involved[t] >= least:
            return True
    return False


@inner
def _set_forces(rows, k, share):
    """Make the multipliers of rows, of which `share` acted in a substep, their forces."""
    if share != 1.0:
        for r in range(rows.constraint.blocks[k, ROW], rows.constraint.blocks[k, ROW_END]):
            rows.constraint.multipliers[r] /= share


@inner
def _asleep(blocks, k, state):
    """Return whether the trees of block k sleep: all of them do, or none."""
    return blocks[k, LINK] < blocks[k, LINK + 1] and state.asleep[state.tree[blocks[k, LINK]]] != 0


@inner
def _pressed(rows, k):
    """Return whether an inequality row of block k pressed."""
    for r in range(rows.constraint.blocks[k, ROW], rows.constraint.blocks[k, ROW_END]):
        if rows.table.role[r] == INEQUALITY and rows.constraint.multipliers[r] > 0.0:
            return True
    return False


@inner
def _substep(
    links, external, rows, contact, blocks, first, end, span, iterations, h, time, impacts, carried, work, q, counts
):  # fmt: skip
    """Find the velocities of a substep of at most h of the blocks first .. end - 1.

    Returns:
        a status, the length of the substep, whether it was projected, and how far rows are open.
    """
    gap = 0.0
    acting = False
    for halving in range(HALVINGS + 1):
        projected = iterations == 0 or halving == HALVINGS
        for k in range(first, end):
            if contact is not None and _asleep(blocks, k, contact.state):
                continue
            _set_span(blocks, k, span)
            w, clock = based_work(work, span[LINK] if contact is None else 0), carried.clock[k]
            known_forces(links, external, span, h, 0.5 * (h + clock[LENGTH]), clock, carried, w, q)
            if projected:
                for v in range(span[DOF], span[DOF + 1]):
                    w.qd[v] = 0.0
            else:
                extrapolate(span, clock, clock[NOW] + 0.5 * h, carried.history, w.qd)
            for r in range(rows.constraint.blocks[k, ROW], rows.constraint.blocks[k, ROW_END]):
                rows.constraint.multipliers[r] = 0.0
            rows.constraint.report[SINGULAR] = 0.0
            if _has_rows(rows, k):
                # where a motion starts, the velocity is that at the pose already
                reflected = 0.0 if projected or clock[LENGTH] == 0.0 else REFLECTED
                _last_rates(links, rows, span, k, time, reflected, carried.history[0], w, q)
        if contact is not None and halving == 0:
            status = _detect(links, blocks, rows.constraint, h, carried.history[0], work, contact)
            if status == 0 and wakes(contact.contacts, contact.state):
                status = Status.IMPACT
            if status != 0:
                return status, h, False, gap
            acting = contact.contacts.count[0] > 0 or len(contact.state.friction_dofs) > 0
        change = before = 0.0
        status, settled = 0, False
        for j in range(1 if projected else ROW_ITERATIONS):
            open_before, gap = gap, 0.0
            for k in range(first, end):
                if contact is not None and _asleep(blocks, k, contact.state):
                    continue
                _set_span(blocks, k, span)
                w, clock = based_work(work, span[LINK] if contact is None else 0), carried.clock[k]
                failed, opened = _iterate(
                    links, external, rows, contact is not None, span, k, j > 0, projected, h, clock, carried, time, w,
                    q,
                )  # fmt: skip
                status = status if failed == 0 else failed
                gap = gap if opened <= gap else opened
                if j == 0 and w.time_tolerance[0] > 0.0 and not projected:
                    change = largest_correction(span, h, w)
                    clock[TRIED_ERROR] = time_error(links, span, h, change, clock, w)
            counts[SWEEPS] += 1
            if contact is not None:
                if status == 0 and acting:
                    status = _solve_contacts(links, external, rows, blocks, span, h, work, contact)
                    if status == 0 and j == 0 and impacts and _impact(contact):
                        return Status.IMPACT, h, False, gap
            if status != 0:
                break
            change = 0.0
            for k in range(first, end):
                if contact is not None and _asleep(blocks, k, contact.state):
                    continue
                _set_span(blocks, k, span)
                one = correct(span, h, work)
                change = change if one <= change else one
            if change < ENOUGH:
                # rows that no longer close by half are left to the projection
                if gap < OPEN or (j > 1 and gap > 0.5 * open_before):
                    settled = True
                    break
            elif j + 1 >= iterations or (j > 0 and not change < 0.5 * before and not change < LOST):
                if not (change < LOST and j + 1 < ROW_ITERATIONS and gap >= OPEN):
                    settled = gap < OPEN
                    break
            before = change
        if status != 0 and (status != Status.INFEASIBLE or projected):
            return status, h, projected, gap
        if projected:
            counts[PROJECTED] += 1
            return 0, h, True, gap
        far = False
        if halving < TIME_HALVINGS:
            far = not settled
            for k in range(first, end):
                far = far or too_far(h, carried.clock[k], work)
        for k in range(first, end):
            if status != 0 or far or (contact is not None and _asleep(blocks, k, contact.state)):
                continue
            if _has_rows(rows, k) and carried.clock[k, LENGTH] > 0.0:
                _set_span(blocks, k, span)
                far = _gains(links, rows, span, k, h, based_work(work, span[LINK] if contact is None else 0))
        if status == 0 and change < LOST and not far:
            return 0, h, False, gap
        counts[HALVED] += 1
        h *= 0.5
    return 0, h, True, gap


@outlined
def _pull(links, rows, span, k, step, h, projected, clock, w):
    """Take note of the fastest swing of the links of block k in the last substep h of a step; see `pull`.

    What rows exert on links is not borne by their joints. Contacts are left out: they press. Forces that have no bound,
    in singular poses, are left to the projection.
    """
    if rows.constraint.report[SINGULAR] > 0.0:
        return
    joint_impulses(links, span, h, projected, w)
    table, constraint, duration = rows.table, rows.constraint, 0.5 * (h + clock[LENGTH])
    for r in range(constraint.blocks[k, ROW], constraint.blocks[k, ROW_END]):
        for slot in range(2):
            pair = table.row_pair[r, slot]
            if pair < 0:
                continue
            for end in range(2):
                i = table.pair_link[pair, end]
                if i >= 0:
                    f = duration * constraint.multipliers[r] * (-1.0 if end == 0 else 1.0)
                    for c in range(3):
                        w.velocities[i, c] -= f * constraint.wrench[r, 6 * slot + 3 + c]
    pull(links, span, step, duration, clock, w)


@inner
def _project_rows(links, rows, span, k, h, time, w, carried, q):
    """Close what a substep has left open of the rows of block k; return a status."""
    constraint, velocity = rows.constraint, carried.history[0]
    status = project_positions(links, rows.table, span, k, time, w.work, constraint, w.tau, q, velocity)
    if status == 0 and constraint.report[SINGULAR] > 0.0:
        part = part_left(span, h, velocity, constraint)
        for v in range(span[DOF], span[DOF + 1]):
            velocity[v] *= part
        for i in range(span[LINK], span[LINK + 1]):
            for c in range(8):
                carried.momentum[i, c] *= part
        carried.clock[k, KNOWN_STEPS] = 1.0
    return status


@inner
def _step(
    links, external, rows, contact, blocks, first, end, span, iterations, h, time, impacts, carried, work, q, qd, counts
):  # fmt: skip
    """One step of h of the blocks first .. end - 1, in substeps; return a status.

    After IMPACT and MORE_CONTACTS in its first substep nothing has changed.
    """
    for k in range(first, end):
        if contact is not None and _asleep(blocks, k, contact.state):
            continue
        if carried.clock[k, KNOWN_STEPS] == 0.0:
            _set_span(blocks, k, span)
            w = based_work(work, span[LINK] if contact is None else 0)
            start(links, span, h, carried.clock[k], carried, w, q, qd)
            static_pull(links, external, span, carried.clock[k], w)
    left, halved, due = h, counts[HALVED], False
    for k in range(first, end):
        if pull_is_due(carried.clock[k]):
            due = True
    while True:
        if counts[HALVED] - halved > MOST_HALVED:
            iterations = 0
        substeps = 1
        for k in range(first, end):
            if contact is not None and _asleep(blocks, k, contact.state):
                continue
            _set_span(blocks, k, span)
            substeps = max(substeps, substeps_of(span, left, work, carried.history[0]))
            substeps = max(substeps, time_substeps(h, left, carried.clock[k], work))
            substeps = max(substeps, pull_substeps(left, carried.clock[k]))
            carried.clock[k, TRIED_ERROR] = UNKNOWN
        status, taken, projected, gap = _substep(
            links, external, rows, contact, blocks, first, end, span, iterations, left / substeps, time + h - left,
            impacts and left == h, carried, work, q, counts,
        )  # fmt: skip
        if status != 0:
            return status
        for k in range(first, end):
            if contact is not None and _asleep(blocks, k, contact.state):
                continue
            _set_span(blocks, k, span)
            v = first_diverged(span, work.qd)
            if v >= 0:
                return Status.NOT_FINITE + v
        for k in range(first, end):
            if contact is not None and _asleep(blocks, k, contact.state):
                continue
            _set_span(blocks, k, span)
            w, clock = based_work(work, span[LINK] if contact is None else 0), carried.clock[k]
            take_time_error(clock, w)
            _set_forces(rows, k, 0.5 * (taken + clock[LENGTH]) / taken)
            if due:
                _pull(links, rows, span, k, h, taken, projected, clock, w)
            finish(links, span, taken, projected, clock, w, carried, q)
        pushed = False
        if contact is not None:
            if contact.contacts.count[0] > 0:
                pushed = _push_out(links, blocks, span, taken, work, contact, q)
        for k in range(first, end):
            if contact is not None and _asleep(blocks, k, contact.state):
                continue
            _set_span(blocks, k, span)
            w, clock = based_work(work, span[LINK] if contact is None else 0), carried.clock[k]
            touched = False
            if contact is not None and _touched(blocks, k, ACTING, contact.state):
                clock[LAG] = taken
                touched = True
            if _has_rows(rows, k):
                if touched or _pressed(rows, k):
                    clock[KNOWN_STEPS] = 1.0
                rows.constraint.report[2], rows.constraint.report[3] = 0.0, 0.0
                moved = (projected or pushed) and needs_projection(rows.table, k, taken, q, work.qd, rows.constraint)
                if moved or gap >= OPEN:
                    for attempt in range(2):
                        status = _project_rows(links, rows, span, k, taken, time + h - left + taken, w, carried, q)
                        if status == 0 or not pushed or attempt == 1:
                            break
                        # pushed out so far that no pose near by satisfies the rows: the overlap stays for now
                        for c in range(span[COORDINATE], span[COORDINATE + 1]):
                            q[c] = work.q[c]
                    if status != 0:
                        return status
            elif touched:
                clock[KNOWN_STEPS] = 1.0
        if contact is not None:
            store_matched(contact.contacts, contact.warm_start)
        counts[SUBSTEPS] += 1
        if taken == left:
            return 0
        left -= taken


@outlined
def take_variational_row_steps(
    # model
    links,
    # in
    external, rows, blocks, span, iterations, n, h, time, work,
    # out
    carried, q, qd, counts,
):  # fmt: skip
    """Take n steps of h with each block in turn, rows included; see `take_variational_steps`.

    Returns:
        the fewest steps any block took, and 0 or a status: those of `take_variational_steps`, OPEN_LOOP, INFEASIBLE or
        MORE_ROWS.
    """
    taken, status = n, 0
    for k in range(len(blocks)):
        done, failed = n, 0
        for step in range(n):
            failed = _step(
                links, external, rows, None, blocks, k, k + 1, span, iterations, h, time + step * h, False, carried,
                work, q, qd, counts,
            )  # fmt: skip
            if failed != 0:
                done = step
                break
        if done < taken:
            taken, status = done, failed
    return taken, status


@outlined
def take_variational_contact_steps(
    # model
    links,
    # in
    external, rows, contact, blocks, span, iterations, n, h, time, impact_after, work,
    # out
    carried, q, qd, counts,
):  # fmt: skip
    """Take n steps of h with all blocks together, contacts and dry friction included.

    Args:
        links, external, rows, blocks, span, iterations, n, h, time, carried, q, qd, counts: of
            `take_variational_row_steps`.
        contact: what contacts are found with.
        impact_after: number of steps in which impacts are ignored.
        work: scratch with rows for all links.

    Returns:
        the steps taken, and 0 or a status: those of `take_variational_row_steps`, MORE_CONTACTS, or IMPACT: the warm
        start then has the impulses of the step that was not taken. A contact of a tree that is awake with one that
        sleeps is an impact, too.
    """
    for k in range(len(blocks)):
        if _asleep(blocks, k, contact.state):  # its poses, for the contacts of others
            _set_span(blocks, k, span)
            kinematics(links, span, q, qd, work.work)
    for step in range(n):
        impacts = len(contact.impact_shapes) > 0 and step >= impact_after
        status = _step(
            links, external, rows, contact, blocks, 0, len(blocks), span, iterations, h, time + step * h, impacts,
            carried, work, q, qd, counts,
        )  # fmt: skip
        if status == Status.IMPACT:
            store_matched(contact.contacts, contact.warm_start)
        if status != 0:
            return step, status
    return n, 0


@outlined
def constrained_velocities_at(
    # model
    links,
    # in
    external, rows, blocks, span, time, whole, work, carried, q,
    # out
    qd,
):  # fmt: skip
    """Fill the velocities at q, which satisfy the rows; return a status. Where a motion starts at q, qd stays.

    With `whole`, `work` has rows for all links.
    """
    for k in range(len(blocks)):
        clock = carried.clock[k]
        h = clock[LENGTH]
        if clock[KNOWN_STEPS] == 0.0 or h == 0.0:
            continue
        _set_span(blocks, k, span)
        w = based_work(work, 0 if whole else span[LINK])
        near = w.work
        incoming(links, external, span, clock, carried, w, q)
        giving = clock[LAG] == 0.0 and _gives(rows, k)
        if giving:
            # grips and drives have half of their impulse at the pose, as springs have; w.qd is zero here
            _clear_velocities(span, rows.constraint.velocities)
            evaluate_rows_at(rows.table, k, time, q, w.qd, near.rows, rows.constraint.velocities, rows.constraint)
            evaluate_soft_rows(rows.table, rows.loops, k, h, True, False, 0.5, rows.constraint, near.rows)
        status = articulate(links, span, w.added, w.tau, near.subspace, near.rows, near.reduced, near.pivot, near.rest)
        if status != 0:
            return status
        solve_accelerations(links, span, near.subspace, near.reduced, near.pivot, near.rest, near.rows, w.qdd)
        if giving:
            status = constrain(
                links, rows.table, span, k, GIVING, h, ACTIVE_GAP, True, False, near, rows.constraint, w.qdd
            )
            if status != 0:
                return status
        for v in range(span[DOF], span[DOF + 1]):
            w.qd[v] = h * w.qdd[v]
        if _has_rows(rows, k):
            constraint = rows.constraint
            link_velocities(links, span, w.qd, near, constraint.velocities)
            evaluate_rows_at(rows.table, k, time, q, w.qd, near.rows, constraint.velocities, constraint)
            correction = constraint.correction
            status = constrain(
                links, rows.table, span, k, VELOCITY, 0.0, ACTIVE_GAP, False, False, near, constraint, correction
            )
            if status != 0:
                return status
            for v in range(span[DOF], span[DOF + 1]):
                w.qd[v] += correction[v]
        for v in range(span[DOF], span[DOF + 1]):
            qd[v] = w.qd[v]
    return 0
