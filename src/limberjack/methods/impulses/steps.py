"""Steps by impulses, in the order of Weinstein, Teran and Fedkiw (2006).

1. find contacts once, islands and levels; then in each substep
2. collide: bounce with the velocities before forces;
3. forces, and velocities onto the joints (post-stabilisation);
4. contacts by sweeps from the ground up, joints with them, shock propagation in hard islands;
5. impulses that close the joints where the step leads (pre-stabilisation); move;
6. in soft islands sweep once more without the push that undoes overlaps.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from limberjack._jit import kernel, outlined, spliced
from limberjack.collision.detect import FULL, detect
from limberjack.constraints.bodies import POSE
from limberjack.constraints.maximal import evaluate
from limberjack.constraints.rows import COORDINATES, ROWS
from limberjack.maximal.loads import count_turns, forces
from limberjack.maximal.meeting import (
    GAP_ALLOWED,
    HUGE,
    MORE_ROOM,
    OPEN_LOOP,
    PROJECT,
    STUCK,
    TOUCH,
    project,
    set_sides,
    worst_row,
)
from limberjack.maximal.predictions import look_there, put_back_gyro
from limberjack.methods.impulses.joints import list_rubbing, row_rates, set_aims, sweep_rows, weigh_rows
from limberjack.methods.impulses.motion import carry, kick, move, pull_grips, set_reach
from limberjack.methods.impulses.touching import find_again, gather, keep, rest, wake
from limberjack.solvers.contact_graph import find_islands, find_levels, sort_contacts
from limberjack.solvers.saddle import NO_ROOM, REFUSED, factor_saddle, list_touching, solve_saddle
from limberjack.solvers.sweeps import ACROSS, JN, JT, PUSHED, collide, follow, set_masses, shock, sweep, warm_start

__all__ = ["MORE_CONTACTS", "NOT_FINITE", "Rows", "set_inverses", "take_steps"]

MORE_CONTACTS, NOT_FINITE = -(2**43), -(2**44)
# Contacts closer than this are looked for and count as carrying [m].
MARGIN = 1e-3
BOUNCES = 5
# Newton steps of the joints; sweeps of contacts and joints between two of their solves.
NEWTON, ROUNDS = 12, 2
# Places in `how`.
SWEEPS, SHOCK, SOFT_SWEEPS, RELAX, RATE, SOFT_RATE, SCALE, GIVE, TOLERANCE, GLOBAL, SLOW, PATIENCE, SMALL, RATIO = range(14)


class Rows(NamedTuple):
    """Rows of joints while they are swept, and joints with dry friction."""

    weight: np.ndarray  # (r,) 1 / (J M^-1 J^T)
    aim: np.ndarray  # (r,)
    total: np.ndarray  # (r,) impulses
    rubbing: np.ndarray  # constraints along the coordinates of joints with dry friction
    most: np.ndarray  # their friction


@outlined
def _refresh_touch(first, last, link, row, bulk):
    """Add up the impulses of contacts, and note which bodies they push."""
    for k in range(first, last):
        jn = row[k, JN]
        row[k, PUSHED] += jn
        row[k, ACROSS] += row[k, JT]
        row[k, ACROSS + 1] += row[k, JT + 1]
        row[k, ACROSS + 2] += row[k, JT + 2]
        if jn > 0.0:
            bulk.free[link[k, 0]] = 0
            if link[k, 1] >= 0:
                bulk.free[link[k, 1]] = 0


@outlined
def _is_hard(i, how, facts):
    """Return whether island i is to be met hard: few contacts, unlike masses, or one tall column."""
    lone = facts[i, 2] >= 5.0 and facts[i, 0] < 3.0 * facts[i, 2]
    return facts[i, 1] <= how[SMALL] or facts[i, 3] > how[RATIO] or lone


@outlined
def _meet_islands(last, how, h, graph, sweeps, bulk, u):
    """Sweep the contacts of islands without joints, one island after the other."""
    link, level, row, inverse = sweeps.link, sweeps.level, sweeps.row, bulk.inverse
    for i in range(last):
        begin, end = graph.island[i], graph.island[i + 1]
        if bulk.asleep[link[begin, 0]]:
            continue
        warm_start(begin, end, link, inverse, row, u)
        if _is_hard(i, how, graph.facts):
            sweep(begin, end, int(how[SWEEPS]), link, inverse, h, how[RATE], 1.0, 0.0, row, u)
            if how[SHOCK] > 0.0:
                shock(begin, end, int(how[SHOCK]), link, level, inverse, graph.level, h, how[RATE], row, u)
        else:
            sweep(
                begin, end, int(how[SOFT_SWEEPS]), link, inverse, h, how[SOFT_RATE], how[SCALE], how[GIVE], row, u
            )


@outlined
def _relax_islands(last, how, h, graph, sweeps, bulk, u):
    """Take the push that undoes overlaps out of the velocities of soft islands."""
    for i in range(last):
        begin, end = graph.island[i], graph.island[i + 1]
        if not bulk.asleep[sweeps.link[begin, 0]] and not _is_hard(i, how, graph.facts):
            sweep(begin, end, int(how[RELAX]), sweeps.link, bulk.inverse, h, 0.0, 1.0, 0.0, sweeps.row, u)


@spliced
def _solve_joints(setup, tree, structure, positions, h, rows, e, s, saddle):
    """Solve for the joints with the factor at hand, right sides set; add what they change to the velocities."""
    counts, listed = setup.constraints, saddle.responses
    room = len(listed.constraint)
    found = list_touching(
        setup.system.row_start, counts[0], counts[1], e.values, TOUCH, positions, saddle.always, room, s.pressed,
        listed.count, listed.constraint, saddle.low, saddle.high,
    )  # fmt: skip
    if found >= 0 and not positions:
        found = list_rubbing(
            setup.system.row_start, rows.rubbing, rows.most, h, e.values, found, room, listed.count, listed.constraint,
            saddle.low, saddle.high, saddle.r, saddle.c,
        )  # fmt: skip
    status = NO_ROOM
    if found >= 0:
        status = solve_saddle(setup.system, tree, structure, found, e.m, e.j, saddle)
    if status == NO_ROOM:
        return MORE_ROOM
    if status == REFUSED:
        return STUCK
    for k in range(len(s.u)):
        s.u[k] += saddle.a[k]
    return 0


@outlined
def _copy_angles(compound, e, there):
    """Let the search for angles at predicted poses begin at those now."""
    for t in range(len(e.near)):
        there.near[t] = e.near[t]
    for t in range(len(compound)):
        for c in range(COORDINATES, ROWS):
            there.state[compound[t, 0], c] = e.state[compound[t, 0], c]


@spliced
def _hold(setup, tree, structure, h, rows, e, s, saddle):
    """Meet the velocities of all joints with the factor at hand."""
    row_rates(setup.system, setup.constraints[1], e.j, s.u, e.values)
    held = setup.system.row_start[setup.constraints[1]]
    for k in range(len(s.u)):
        saddle.f[k] = 0.0
    set_sides(setup.table, held, np.int64(1), h, np.int64(PROJECT), 0.0, e.values, s.pressed, saddle.r, saddle.c)
    # friction has acted already
    return _solve_joints(setup, tree, structure, True, h, rows, e, s, saddle)


@spliced
def _close(setup, tree, structure, how, h, time, rows, bulk, all_rows, e, s, saddle):
    """Add impulses until the joints close where the step leads, and move there; return a status."""
    bodies, held = setup.bodies, setup.system.row_start[setup.constraints[1]]
    counts = setup.constraints
    _copy_angles(setup.table.compound, e, s.there)
    worst, last, status = 0.0, np.inf, 0
    for iteration in range(NEWTON):
        move(h, setup.gravity, s.stage, bulk, s.u, s.pose)
        look_there(setup, time + h, s.pose, s.u, s.there)
        worst, at = worst_row(setup, s.there, s)
        s.report[0], s.report[1], s.report[2] = iteration, worst, at
        if worst <= how[TOLERANCE] or (worst < GAP_ALLOWED and worst > 0.5 * last) or not worst < 4.0 * last:
            break
        last = worst
        if how[GLOBAL] > 0.0:
            set_sides(
                setup.table, held, np.int64(0), h, np.int64(PROJECT), 0.0, s.there.values, s.pressed, saddle.r, saddle.c
            )
            for r in range(len(saddle.r)):
                saddle.r[r] /= h
            for k in range(len(s.u)):
                saddle.f[k] = 0.0
            for r in range(held):
                e.values[r, 0] = s.there.values[r, 0]
            status = _solve_joints(setup, tree, structure, True, h, rows, e, s, saddle)
            if status != 0:
                break
        else:
            row_rates(setup.system, counts[1], e.j, s.u, e.values)
            set_aims(held, h, setup.table, e.values, s.there.values, rows.aim)
            for r in range(held):
                e.values[r, 0] = s.there.values[r, 0]
                rows.total[r] = 0.0
            sweep_rows(
                setup.system, counts[0], counts[1], 1, e.j, bulk.inverse, rows.weight, rows.aim, e.values, TOUCH,
                rows.total, s.u,
            )  # fmt: skip
    if how[GLOBAL] > 0.0 and status != MORE_ROOM and (status != 0 or not worst <= max(how[TOLERANCE], GAP_ALLOWED)):
        # impulses along the rows of the start cannot close the joints: the poses are brought onto them as they are
        status = project(setup, tree, structure, time + h, how[TOLERANCE], all_rows, e, s, saddle)
        if status == OPEN_LOOP and s.report[1] <= 1e-3:
            status = 0
    for t in range(len(e.near)):
        e.near[t] = s.there.near[t]
    return status


@spliced
def _pull_joints(
    setup, tree, structure, springs, drives, armature, span, driven, how, h, time, all_rows, wrenches, applied, rows,
    bulk, e, s, saddle,
):  # fmt: skip
    """Let all forces act for h, and bring the velocities onto the joints; return a status."""
    bodies = setup.bodies
    evaluate(bodies, setup.system, setup.table, setup.touch, setup.soft, time, all_rows, s.pose, s.u, e)
    forces(setup, springs, drives, armature, span, driven, False, wrenches, applied, s.pose, e, s, s.force)
    put_back_gyro(bodies, e.ends, s.pose, s.force)
    for i in range(len(bulk.asleep)):
        if bulk.asleep[i]:
            for c in range(6):
                s.force[6 * i + c] = 0.0
    for k in range(len(s.u)):
        saddle.f[k] = h * s.force[k]
    held = setup.system.row_start[setup.constraints[1]]
    for r in range(len(s.pressed)):
        s.pressed[r] = 0.0
        rows.total[r] = 0.0
        rows.aim[r] = 0.0
    status = 0
    if how[GLOBAL] > 0.0:
        set_sides(setup.table, held, np.int64(1), h, np.int64(PROJECT), 0.0, e.values, s.pressed, saddle.r, saddle.c)
        failed = factor_saddle(setup.system, tree, structure, e.m, e.j, saddle)
        if failed != 0:
            s.report[3] = failed
            return STUCK
        status = _solve_joints(setup, tree, structure, False, h, rows, e, s, saddle)
    else:
        _push_alone(h, s.force, bulk, s.u)
    weigh_rows(setup.system, setup.constraints[1], e.j, bulk.inverse, rows.weight)
    return status


@outlined
def _push_alone(h, force, bulk, u):
    """Let the forces act for h on each body as if nothing held it."""
    inverse = bulk.inverse
    for i in range(len(bulk.mass)):
        o, f = 6 * i, h * inverse[i, 6]
        x, y, z = h * force[o], h * force[o + 1], h * force[o + 2]
        u[o] += inverse[i, 0] * x + inverse[i, 3] * y + inverse[i, 4] * z
        u[o + 1] += inverse[i, 3] * x + inverse[i, 1] * y + inverse[i, 5] * z
        u[o + 2] += inverse[i, 4] * x + inverse[i, 5] * y + inverse[i, 2] * z
        u[o + 3] += f * force[o + 3]
        u[o + 4] += f * force[o + 4]
        u[o + 5] += f * force[o + 5]


@outlined
def _meet_together(begin, end, times, hard, how, h, setup, graph, sweeps, rows, bulk, e, u):
    """Sweep the contacts of all islands with joints, and the joints after them, in turn."""
    system, counts = setup.system, setup.constraints
    rate, scale, give = (how[RATE], 1.0, 0.0) if hard else (how[SOFT_RATE], how[SCALE], how[GIVE])
    for _ in range(times):
        sweep(begin, end, 1, sweeps.link, bulk.inverse, h, rate, scale, give, sweeps.row, u)
        sweep_rows(
            system, counts[0], counts[1], 1, e.j, bulk.inverse, rows.weight, rows.aim, e.values, TOUCH, rows.total, u
        )


@spliced
def _substep(
    setup, tree, structure, springs, drives, armature, span, driven, complex_, how, h, time, all_rows, wrenches, applied,
    grip_link, grips, count, together, rows, graph, sweeps, bulk, e, s, saddle,
):  # fmt: skip
    """Take one substep h; return a status."""
    n = len(s.pose)
    islands = graph.count[0] - 1 if together else graph.count[0]
    first = graph.island[islands] if together else count
    bounces = collide(0, count, BOUNCES, sweeps.link, bulk.inverse, h, sweeps.row, s.u)
    s.report[3] = bounces
    pull_grips(h, grip_link, grips, s.pose, bulk, s.u)
    status = 0
    if complex_:
        status = _pull_joints(
            setup, tree, structure, springs, drives, armature, span, driven, how, h, time, all_rows, wrenches, applied,
            rows, bulk, e, s, saddle,
        )  # fmt: skip
        if status != 0:
            return status
    else:
        kick(setup.gravity, wrenches, setup.center, h, s.pose, bulk, s.u)
    _meet_islands(islands, how, h, graph, sweeps, bulk, s.u)
    hard = together and _is_hard(islands, how, graph.facts)
    if first < count:
        warm_start(first, count, sweeps.link, bulk.inverse, sweeps.row, s.u)
        times = int(how[SWEEPS]) if hard else int(how[SOFT_SWEEPS])
        for turn in range(ROUNDS if how[GLOBAL] > 0.0 else 1):
            _meet_together(first, count, times, hard, how, h, setup, graph, sweeps, rows, bulk, e, s.u)
            if how[GLOBAL] > 0.0:
                status = _hold(setup, tree, structure, h, rows, e, s, saddle)
                if status != 0:
                    return status
    for i in range(n):
        bulk.free[i] = 0 if bulk.jointed[i] else 1
    _refresh_touch(0, count, sweeps.link, sweeps.row, bulk)
    for i in range(n):
        for c in range(POSE):
            s.stage[i, c] = s.pose[i, c]
    if complex_:
        status = _close(setup, tree, structure, how, h, time, rows, bulk, all_rows, e, s, saddle)
        if status != 0:
            return status
    else:
        move(h, setup.gravity, s.stage, bulk, s.u, s.pose)
    carry(s.stage, s.pose, bulk, s.u)
    follow(0, count, sweeps.link, s.pose, sweeps.row)
    _relax_islands(islands, how, h, graph, sweeps, bulk, s.u)
    if first < count and not hard:
        sweep(first, count, int(how[RELAX]), sweeps.link, bulk.inverse, h, 0.0, 1.0, 0.0, sweeps.row, s.u)
    return status


@spliced
def _find(setup, shapes, filters, how, dt, up, broad, scratch, contacts, kept, graph, sweeps, bulk, s):
    """Find contacts, islands and levels and order them; return a status and whether the last island has joints."""
    set_reach(setup.gravity, dt, s.u, bulk)
    status = 0
    together = False
    if len(shapes.kind) > 1:
        found = detect(shapes, filters, s.pose, bulk.reach, MARGIN, broad, scratch, contacts)
        if found == FULL or contacts.count[0] > len(graph.order):
            status = MORE_CONTACTS
        elif found != 0:
            status = NOT_FINITE
    if status == 0:
        count = contacts.count[0]
        system = setup.system
        find_islands(
            count, contacts.link_a, contacts.link_b, system.touch_start, system.touch_body, setup.constraints[0],
            graph.root,
        )  # fmt: skip
        wake(graph.root, bulk)
        find_again(contacts, kept)
        find_levels(
            count, contacts.link_a, contacts.link_b, contacts.normal, contacts.depth, -MARGIN, up, graph
        )
        together = sort_contacts(count, contacts.link_a, contacts.link_b, bulk.mass, bulk.jointed, graph)
        gather(contacts, graph, kept, setup.gravity, s.pose, sweeps)
        follow(0, count, sweeps.link, s.pose, sweeps.row)
        set_masses(0, count, sweeps.link, bulk.inverse, sweeps.row)
    return status, together


@outlined
def _all_asleep(asleep):
    for i in range(len(asleep)):
        if not asleep[i]:
            return False
    return len(asleep) > 0


@kernel
def take_steps(
    # model
    setup, tree, structure, springs, drives, armature, span, shapes, filters,
    # in
    how, driven, complex_, n, substeps, h, time, up, wrenches, applied, grip_link, grips, rows, broad, scratch,
    # out
    contacts, kept, graph, sweeps, bulk, e, saddle, s,
):  # fmt: skip
    """Take n steps of `substeps` times h; stop at the first that fails and put back the state before it.

    Args:
        setup: what stays.
        tree, structure: of the direct solver; one of them is None.
        springs, drives: of the model.
        armature: (nv,) zeros.
        span: the whole model.
        shapes, filters: what can touch.
        how: numbers of the method's options.
        driven: whether any joint has a force along its coordinates.
        complex_: whether joints or springs act at all.
        n: steps.
        substeps: per step; contacts are looked for once per step.
        h: length of a substep [s].
        time: at the start [s].
        up: (3,) against gravity.
        wrenches: lasting wrenches.
        applied: (nv,) joint forces.
        grip_link, grips: what is gripped.
        rows, broad, scratch: scratch of joints and of detection.
        contacts, kept, graph, sweeps: contacts of the last step.
        bulk: the bodies; asleep and calm are state.
        e, saddle: scratch of the rows.
        s: the state.

    Returns:
        steps taken, and 0, -1 - k for a velocity k that is not finite, or OPEN_LOOP, STUCK, MORE_ROOM, MORE_CONTACTS,
        NOT_FINITE.
    """
    start = setup.system.row_start
    all_rows = start[setup.constraints[2]] if driven or len(rows.rubbing) > 0 else start[setup.constraints[1]]
    for step in range(n):
        if _all_asleep(bulk.asleep):
            continue
        for i in range(len(s.pose)):
            for c in range(POSE):
                s.before[i, c] = s.pose[i, c]
        for k in range(len(s.u)):
            s.u_before[k] = s.u[k]
        status, together = _find(
            setup, shapes, filters, how, h * substeps, up, broad, scratch, contacts, kept, graph, sweeps, bulk, s
        )
        count = contacts.count[0]
        if status == 0:
            for sub in range(substeps):
                at = time + (step * substeps + sub) * h
                status = _substep(
                    setup, tree, structure, springs, drives, armature, span, driven, complex_, how, h, at, all_rows,
                    wrenches, applied, grip_link, grips, count, together, rows, graph, sweeps, bulk, e, s, saddle,
                )  # fmt: skip
                if status != 0:
                    break
        for k in range(len(s.u)):
            if status == 0 and not abs(s.u[k]) < HUGE:
                status = -1 - k
        if status != 0:
            for i in range(len(s.pose)):
                for c in range(POSE):
                    s.pose[i, c] = s.before[i, c]
            for k in range(len(s.u)):
                s.u[k] = s.u_before[k]
            return step, status
        keep(contacts, graph, sweeps, kept)
        if complex_ and not driven:
            count_turns(setup, e)
        if how[PATIENCE] > 0.0:
            rest(h * substeps, how[SLOW], how[PATIENCE], graph, bulk, s.u)
    return n, 0


@kernel
def set_inverses(
    # in
    pose, u,
    # out
    bulk,
):  # fmt: skip
    """Fill the inverse inertias of all bodies at their poses."""
    carry(pose, pose, bulk, u)
