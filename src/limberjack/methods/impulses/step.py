"""Steps by impulses, in the order of Weinstein, Teran and Fedkiw (2006), section VI.

Contacts, islands and levels are found once per step (`islands.py`), and again where contacts of bodies with joints
slide or turn far (`redetect.py`). Then in each substep:

1. process collisions: restitution with the velocities before forces act (`contact/restitution.py`);
2. integrate velocities, with post-stabilisation (`post_stabilize.py`);
3. resolve contacts, from the ground up, with shock propagation in islands of unlike masses (`islands.py`); contacts of
   bodies with joints in turn with these (`joint_contacts.py`, or `levels.py` as in the paper);
4. pre-stabilisation, and integrate positions (`pre_stabilize.py`, `motion.py`), fast bodies only up to their contacts
   (`ccd.py`);
5. one more sweep that takes the depenetration velocity out again; post-stabilisation where joints are swept.

Two loops share these stages: `take_steps`, and `take_ball_joint_steps` for bodies that are free or on ball joints.
"""

from __future__ import annotations

from limberjack._jit import inner, kernel, outlined
from limberjack.contact.bundles import set_motion, store_impulses, unpack_bundles
from limberjack.contact.figure_sweeps import FILLED
from limberjack.contact.restitution import collide
from limberjack.contact.sleep import sleep_islands
from limberjack.contact.sweeps import (
    DEPENETRATION,
    add_step_impulses,
    sweep,
    update_contacts,
    warm_start,
)
from limberjack.errors import Status
from limberjack.maximal.bodies import POSE
from limberjack.maximal.forces import count_turns
from limberjack.methods.impulses.ball_joint_impulses import (
    post_stabilize_ball_joints,
    project_ball_joints,
    set_ball_joint_masses,
    sweep_ball_joints,
)
from limberjack.methods.impulses.ccd import ccd, update_ccd_contacts
from limberjack.methods.impulses.islands import (
    DAMPED,
    FIRM,
    GLOBAL,
    KIND,
    LEVELS,
    PATIENCE,
    RELAX,
    SLOW,
    SWEEPS,
    TOLERANCE,
    WIDTH,
    add_impulses_and_mark_free,
    detect_contacts,
    island_kind,
    relax_islands,
    solve_islands,
    sweep_kind,
    update_island_contacts,
)
from limberjack.methods.impulses.joint_contacts import collide_with_joints, solve_with_joints, warm_start_with_joints
from limberjack.methods.impulses.levels import solve_alternately, solve_by_levels
from limberjack.methods.impulses.motion import (
    ALL,
    JOINED,
    SWEPT,
    apply_forces,
    apply_grips,
    conserve_momentum,
    set_moved_velocities,
)
from limberjack.methods.impulses.post_stabilize import (
    integrate_velocities,
    lead_bodies,
    post_stabilize_after_move,
)
from limberjack.methods.impulses.pre_stabilize import (
    MOST_SUBSTEPS,
    begin_pull,
    copy_angles,
    lasting_pull,
    parts_of,
    pre_stabilize,
)
from limberjack.methods.impulses.redetect import redetect, restore_warm_start, stale, stale_free
from limberjack.methods.impulses.resistance import find_touching, resist
from limberjack.methods.impulses.team import move_all, settle_all
from limberjack.spatial.clock import ticks
from limberjack.spatial.copies import HUGE

__all__ = ["restore_state", "save_state", "set_inverses", "take_ball_joint_steps", "take_steps"]

# Sweeps over the pairs of bodies that collide.
COLLISION_SWEEPS = 5


@outlined
def _copy(source, target):
    for i in range(len(source)):
        for c in range(POSE):
            target[i, c] = source[i, c]


@outlined
def _copy_velocities(source, target):
    for k in range(len(source)):
        target[k] = source[k]


@outlined
def save_state(s):
    """Save the state before a step."""
    _copy(s.pose, s.before)
    _copy_velocities(s.u, s.u_before)


@outlined
def restore_state(s):
    """Restore the state before the step."""
    _copy(s.before, s.pose)
    _copy_velocities(s.u_before, s.u)


@outlined
def _check(u):
    """Return 0, or Status.NOT_FINITE + the first velocity that is not finite."""
    for k in range(len(u)):
        if not abs(u[k]) < HUGE:
            return Status.NOT_FINITE + k
    return 0


@outlined
def _all_asleep(asleep):
    for i in range(len(asleep)):
        if not asleep[i]:
            return False
    return len(asleep) > 0


@inner
def _finish(how, dt, contacts, cache, graph, sweeps, bulk, u):
    """Store the impulses of the contacts for the next warm start, and put islands at rest to sleep."""
    store_impulses(contacts, graph, sweeps, cache)
    sleep_islands(dt, how[SLOW], how[PATIENCE], graph, bulk, u)


@outlined
def _relax(how, h, count, together, graph, sweeps, bulk, u):
    """Take the depenetration velocity out of all bodies, islands with joints included."""
    islands = graph.count[0] - 1 if together else graph.count[0]
    relax_islands(islands, how, h, graph, sweeps, bulk, u)
    if together:
        first, times = (
            graph.island[islands],
            int(how[KIND + WIDTH * min(island_kind(islands, how, graph.facts), FIRM) + RELAX]),
        )
        sweep(first, count, times, sweeps.link, bulk.inverse, h, 0.0, DEPENETRATION, 1.0, 0.0, sweeps.row, u)


@inner
def _count_joint_ticks(begin, swept, spent):
    """Count the time since `begin` as that of the joints, minus that of contact sweeps since `swept` was read."""
    spent[JOINED] += ticks() - begin - (spent[SWEPT] - swept)


@outlined
def _solve_ball_joint_islands(structure, how, h, count, graph, sweeps, bulk, balls, factored, s):
    """Sweep the contacts of all islands with joints, in turn with the ball joints; return a status."""
    last = graph.count[0] - 1
    first, kind = graph.island[last], min(island_kind(last, how, graph.facts), FIRM)
    if first == count:
        return 0
    warm_start(first, count, sweeps.link, bulk.inverse, sweeps.row, s.u)
    begin, swept = ticks(), bulk.spent[SWEPT]
    status = post_stabilize_ball_joints(structure, s.pose, bulk, balls, factored, s.u, s.report)
    set_ball_joint_masses(s.pose, bulk, balls)
    for _ in range(int(how[KIND + WIDTH * kind + SWEEPS])):
        sweep_ball_joints(balls, bulk, s.u)
        start = ticks()
        sweep_kind(FIRM, first, count, 1, how, h, sweeps.link, bulk.inverse, sweeps.row, s.u)
        bulk.spent[SWEPT] += ticks() - start
    _count_joint_ticks(begin, swept, bulk.spent)
    return status


@outlined
def _ball_joint_substep(
    setup, structure, shapes, how, substeps, h, wrenches, grip_link, grips, contacts, cache, together, graph, sweeps,
    bulk, resistance, balls, factored, s,
):  # fmt: skip
    """Take one substep h of bodies that are free or on ball joints; return a status."""
    count = contacts.count[0]
    set_moved_velocities(bulk, s.u)
    resist(h, count, shapes, contacts, cache.found, graph.root, bulk.asleep, bulk.inverse, s.pose, resistance, s.u)
    if sweeps.restitution_count[0] > 0:
        collide(0, count, COLLISION_SWEEPS, sweeps.link, bulk.inverse, h, sweeps.row, s.u)
    _copy_velocities(s.u, s.u_stage)
    apply_grips(h, grip_link, grips, s.pose, bulk, s.u)
    apply_forces(setup.gravity, wrenches, setup.center, h, s.pose, bulk, s.u)
    status, islands = 0, graph.count[0] - 1 if together else graph.count[0]
    solve_islands(islands, how, h, graph, sweeps, bulk, s.momentum, s.u)
    if together:
        status = _solve_ball_joint_islands(structure, how, h, count, graph, sweeps, bulk, balls, factored, s)
    add_impulses_and_mark_free(islands, count, graph, sweeps, bulk)
    move_all(h, setup.gravity, bulk, s)
    if status == 0 and len(balls.link) > 0:
        begin = ticks()
        status = project_ball_joints(
            structure, h, how[TOLERANCE], s.stage, not together, bulk, balls, factored, s.pose, s.u, s.report
        )
        _count_joint_ticks(begin, bulk.spent[SWEPT], bulk.spent)
    first, order = graph.island[islands], graph.order
    add_step_impulses(first, count, sweeps.row)
    fast = ccd(first, h, substeps, s.stage, shapes, contacts, order, sweeps, bulk, s.u, s.pose)
    update_island_contacts(islands, h, s.stage, s.pose, graph, sweeps, s.u)
    update_contacts(first, count, sweeps.link, h, s.stage, s.pose, s.u, sweeps.row)
    settle_all(h, bulk, sweeps.bundles, s)
    if fast:
        update_ccd_contacts(first, h, shapes, contacts, order, sweeps, bulk, s.pose, s.u)
    _relax(how, h, count, together, graph, sweeps, bulk, s.u)
    return status


@kernel
def take_ball_joint_steps(
    # model
    setup, structure, shapes, filters,
    # in
    how, n, substeps, h, up, wrenches, grip_link, grips, broad,
    # out
    contacts, cache, graph, sweeps, rounds, bulk, resistance, balls, factored, s,
):  # fmt: skip
    """Take n steps of `substeps` times h of bodies that are free or on ball joints; see `take_steps`.

    Args:
        structure, balls, factored: the ball joints and their solver; poses are projected onto the joints, damped.
    """
    began = ticks()
    for step in range(n):
        if _all_asleep(bulk.asleep):
            continue
        save_state(s)
        set_moved_velocities(bulk, s.u)
        status, together = detect_contacts(
            setup, shapes, filters, how, h * substeps, up, broad, contacts, cache, graph, sweeps, bulk, s
        )
        if status == 0:
            find_touching(contacts.count[0], contacts, cache.found, graph.root, resistance)
        fresh, redetected = 0, False
        for sub in range(substeps):
            left = h * (substeps - sub)
            if status == 0 and sub > fresh and stale_free((sub - fresh) * h, left, shapes, contacts, bulk, s.pose, s.u):
                status, together = redetect(
                    setup, shapes, filters, how, left, up, broad, redetected, contacts, cache, graph, sweeps, rounds,
                    bulk, s,
                )  # fmt: skip
                if status == 0:
                    find_touching(contacts.count[0], contacts, cache.found, graph.root, resistance)
                fresh, redetected = sub, True
            if status == 0:
                status = _ball_joint_substep(
                    setup, structure, shapes, how, substeps, h, wrenches, grip_link, grips, contacts, cache, together,
                    graph, sweeps, bulk, resistance, balls, factored, s,
                )  # fmt: skip
        if status == 0:
            status = _check(s.u)
        if status != 0:
            restore_state(s)
            if redetected:
                restore_warm_start(rounds, cache)
            return step, status
        _finish(how, h * substeps, contacts, cache, graph, sweeps, bulk, s.u)
    bulk.spent[ALL] += ticks() - began
    return n, 0


@outlined
def _solve_contacts(
    setup, tree, structure, how, h, time, count, together, rows, graph, sweeps, rounds, bulk, e, s, saddle
):
    """Solve all contacts, those of bodies with joints together with the joints; return a status."""
    islands = graph.count[0] - 1 if together else graph.count[0]
    solve_islands(islands, how, h, graph, sweeps, bulk, s.momentum, s.u)
    first = graph.island[islands]
    if not together or first == count:
        return 0
    # island by island, shock propagation leaves joints out; `solve_by_levels` includes them
    kind = min(island_kind(islands, how, graph.facts), FIRM)
    begin, swept, status = ticks(), bulk.spent[SWEPT], 0
    if how[GLOBAL] > 0.0:
        status = warm_start_with_joints(
            setup, tree, structure, first, count, how, h, rows, sweeps, bulk, rounds, e, s, saddle
        )
        if status == 0:
            status = solve_with_joints(
                setup, tree, structure, first, count, False, how, h, rows, sweeps, bulk, rounds, e, s, saddle
            )
    else:
        copy_angles(setup.table.compound, e, s.predicted)
        if how[LEVELS] > 0.0:
            solve_by_levels(first, count, kind, how, h, time, setup, graph.level, sweeps, rows, bulk, e, s)
        else:
            solve_alternately(first, count, kind, how, h, time, setup, graph.level, sweeps, rows, bulk, e, s)
    _count_joint_ticks(begin, swept, bulk.spent)
    return status


@kernel
def take_steps(
    # model
    setup, tree, structure, springs, explicit, drives, armature, span, shapes, filters,
    # in
    how, driven, n, substeps, longest, time, up, wrenches, applied, grip_link, grips, rows, broad,
    # out
    contacts, cache, graph, sweeps, rounds, bulk, resistance, e, saddle, s,
):  # fmt: skip
    """Take n steps of `substeps` times `longest`; stop at the first that fails and restore the state before it.

    Args:
        setup: constants of the model.
        tree, structure: of the direct solver; one of them is None.
        springs, explicit: springs and drives of the model that are not soft rows.
        drives: all drives.
        armature: (nv,) zeros.
        span: the whole model.
        shapes, filters: of detection.
        how: numbers of the method's options, see `islands.py`.
        driven: whether any joint has a force along its coordinates.
        n: steps.
        substeps: per step; contacts are detected once per step.
        longest: length of a substep [s], divided where joints pull hard.
        time: at the start [s].
        up: (3,) against gravity.
        wrenches: lasting wrenches.
        applied: (nv,) joint forces.
        grip_link, grips: links and rows of the grips, see `motion.py`.
        rows, broad: scratch of joints and of detection.
        contacts, kept, graph, sweeps: contacts of the last step.
        rounds: scratch of contacts solved with joints.
        bulk: the bodies; asleep and calm are state.
        resistance: to turning, of bodies in contact.
        e, saddle: scratch of the rows.
        s: the state.

    Returns:
        steps taken, and 0, Status.NOT_FINITE + velocity, or Status.OPEN_LOOP, INFEASIBLE, MORE_ROWS,
        MORE_CONTACTS, POSE_NOT_FINITE, or NOT_CONVERGED where joints ask for too many substeps.
    """
    began, row_start = ticks(), setup.system.row_start
    all_rows = row_start[setup.constraints[2 if driven or len(rows.friction_rows) > 0 else 1]]
    plain = not driven and len(rows.friction_rows) + len(springs.link) + len(rows.soft.row) + len(rows.led_rows) == 0
    for step in range(n):
        if _all_asleep(bulk.asleep):
            continue
        save_state(s)
        set_moved_velocities(bulk, s.u)
        status, together = detect_contacts(
            setup, shapes, filters, how, longest * substeps, up, broad, contacts, cache, graph, sweeps, bulk, s
        )
        count = contacts.count[0]
        if status == 0:
            find_touching(count, contacts, cache.found, graph.root, resistance)
        fresh, redetected, fastest = 0, False, rows.fastest[0]
        rounds.figures.count[FILLED] = 0
        parts = parts_of(longest, fastest)
        if status == 0 and parts > 1 and parts * substeps > MOST_SUBSTEPS:
            status = Status.NOT_CONVERGED + 0
        last, h, rows.fastest[0] = parts * substeps, longest / parts, 0.0
        rows.fastest[1], rows.fastest[3] = h, longest
        begin_pull(substeps, bulk)
        for sub in range(last):
            if status != 0:
                break
            if sub > fresh and (how[GLOBAL] > 0.0 or not together):
                since, left, old = (sub - fresh) * h, (last - sub) * h, False
                if together:
                    old = stale(graph.island[graph.count[0] - 1], count, since, sweeps.link, sweeps.row, s.u)
                if old or stale_free(since, left, shapes, contacts, bulk, s.pose, s.u):
                    status, together = redetect(
                        setup, shapes, filters, how, left, up, broad, redetected, contacts, cache, graph, sweeps,
                        rounds, bulk, s,
                    )  # fmt: skip
                    fresh, redetected, count = sub, True, contacts.count[0]
                    rounds.figures.count[FILLED] = 0
                    if status != 0:
                        break
                    find_touching(count, contacts, cache.found, graph.root, resistance)
            at = time + (step * last + sub) * h
            set_moved_velocities(bulk, s.u)
            resist(
                h, count, shapes, contacts, cache.found, graph.root, bulk.asleep, bulk.inverse, s.pose, resistance, s.u
            )
            # section VI: process collisions (and velocity post-stabilization)
            first_jointed = graph.island[graph.count[0] - 1] if together and how[GLOBAL] > 0.0 else count
            if sweeps.restitution_count[0] > 0:
                collide(0, first_jointed, COLLISION_SWEEPS, sweeps.link, bulk.inverse, h, sweeps.row, s.u)
            if first_jointed < count and sweeps.restitution_count[0] > 0:
                status = collide_with_joints(
                    setup, tree, structure, first_jointed, count, COLLISION_SWEEPS, h, at, all_rows, rows, sweeps, bulk,
                    e, s, saddle,
                )  # fmt: skip
                if status != 0:
                    break
            # section VI: integrate velocities (and velocity post-stabilization)
            _copy_velocities(s.u, s.u_stage)
            apply_grips(h, grip_link, grips, s.pose, bulk, s.u)
            if together and how[GLOBAL] == 0.0:
                # the joints are then solved with the impulses of the contacts applied
                warm_start(graph.island[graph.count[0] - 1], count, sweeps.link, bulk.inverse, sweeps.row, s.u)
            if how[GLOBAL] == DAMPED and plain and count == 0:
                apply_forces(setup.gravity, wrenches, setup.center, h, s.pose, bulk, s.u)
            else:
                start = ticks()
                status = integrate_velocities(
                    setup, tree, structure, springs, explicit, drives, armature, span, driven, how, h, at, all_rows,
                    wrenches, applied, rows, bulk, e, s, saddle,
                )  # fmt: skip
                if status == 0 and len(rows.led_rows) > 0:
                    copy_angles(setup.table.compound, e, s.predicted)
                    status = lead_bodies(setup, tree, structure, h, at, rows, bulk, e, s, saddle)
                _count_joint_ticks(start, bulk.spent[SWEPT], bulk.spent)
            # section VI: resolve contacts and articulation pre-stabilization
            if status == 0:
                status = _solve_contacts(
                    setup, tree, structure, how, h, at, count, together, rows, graph, sweeps, rounds, bulk, e, s, saddle
                )
            if status == 0:
                islands = graph.count[0] - 1 if together else graph.count[0]
                first = graph.island[islands]
                add_impulses_and_mark_free(islands, count, graph, sweeps, bulk)
                _copy(s.pose, s.stage)
                start, swept = ticks(), bulk.spent[SWEPT]
                status = pre_stabilize(
                    setup, tree, structure, how, h, at, first, count, all_rows, graph, rows, sweeps, rounds, bulk, e,
                    s, saddle,
                )  # fmt: skip
                _count_joint_ticks(start, swept, bulk.spent)
                if (sub + 1) % parts == 0:
                    square, body = lasting_pull(longest, bulk)
                    if square > rows.fastest[0]:
                        rows.fastest[0], rows.fastest[2] = square, body
            # section VI: integrate positions (and velocity post-stabilization)
            if status == 0:
                add_step_impulses(first, count, sweeps.row)
                fast = ccd(first, h, last, s.stage, shapes, contacts, graph.order, sweeps, bulk, s.u, s.pose)
                update_island_contacts(islands, h, s.stage, s.pose, graph, sweeps, s.u)
                set_motion(0, len(bulk.mass), h, s.stage, s.pose, s.u, sweeps.bundles)
                conserve_momentum(0, len(bulk.mass), s.pose_sum, s.pose, bulk, s.u)
                if fast:
                    update_ccd_contacts(first, h, shapes, contacts, graph.order, sweeps, bulk, s.pose, s.u)
                _relax(how, h, count, together, graph, sweeps, bulk, s.u)
                if how[GLOBAL] == 0.0:
                    start = ticks()
                    post_stabilize_after_move(setup, how, at + h, all_rows, rows, bulk, e, s, saddle)
                    _count_joint_ticks(start, bulk.spent[SWEPT], bulk.spent)
        if status == 0:
            status = _check(s.u)
        if status != 0:
            restore_state(s)
            rows.fastest[0] = fastest
            if redetected:
                restore_warm_start(rounds, cache)
            return step, status
        if parts_of(longest, rows.fastest[0]) == 1:
            rows.fastest[0] = 0.0
        if not driven:
            count_turns(setup, e)
        _finish(how, longest * substeps, contacts, cache, graph, sweeps, bulk, s.u)
    bulk.spent[ALL] += ticks() - began
    return n, 0


@kernel
def set_rows(
    # in
    count,
    # out
    sweeps,
):
    """Write the contacts that are in bundles to their rows."""
    unpack_bundles(count, sweeps.link, sweeps.row, sweeps.bundles)


@kernel
def set_inverses(
    # in
    pose, u,
    # out
    bulk,
):  # fmt: skip
    """Fill the inverse inertias of all bodies at their poses."""
    conserve_momentum(0, len(bulk.mass), pose, pose, bulk, u)
