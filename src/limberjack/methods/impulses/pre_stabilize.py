"""Pre-stabilisation: impulses that close the joints at the end of a substep, and the move there.

Weinstein, Teran and Fedkiw (2006), section IV, find impulses at the start for which the joints reach their target
states after integration, equation (4), joint by joint (`joint_newton.py`, used here with joints="sweeps"). Solved for
all joints at once, this is Newton's method with the rows of the start: f(j) = 0 with f the row values at the end,

    J M^-1 J^T dj = -f / h,   v <- v + M^-1 J^T dj,   and bodies are moved again by equation (1).

It conserves energy. Light bodies that spin fast turn too far within a substep for the iteration to converge; the
substep is then taken in pieces, halved until each converges, with the forces of the whole substep applied before. The
last resort, and the rule of joints="damped", is to project the poses onto the joints: always stable, but the velocities
become those of the displacement made, and energy is lost.

Where sweeps leave joints open, the substep is taken by all joints at once instead. Errors that were left at its start
are closed before, in the poses alone: a taut structure sags through small gaps, and lifting it within a substep would
throw it. Bodies on which joints pull hard swing like pendulums at h omega > 2 (`_fastest`), where impulses along the
rows of the start are unstable. Swept joints are projected then, along rows of the end; with joints="global" the next
step has shorter substeps (`parts_of`).
"""

from __future__ import annotations

import math

import numpy as np

from limberjack._jit import inner, outlined
from limberjack.constraints.rows import COORDINATES, GAP, LEVER_A, LEVER_B, PICKED, ROWS
from limberjack.contact.sweeps import update_contacts
from limberjack.errors import Status
from limberjack.linear.saddle import invalidate_responses
from limberjack.maximal.bodies import POSE, move_bodies
from limberjack.maximal.rows import evaluate, evaluate_predicted
from limberjack.maximal.solve import GAP_ALLOWED, worst_row
from limberjack.methods.impulses.islands import (
    AFTER,
    DAMPED,
    FIRM,
    GLOBAL,
    GRADUAL,
    HIGHEST,
    KIND,
    SAVED,
    SEARCH,
    SWEEPS,
    TOLERANCE,
    WIDTH,
)
from limberjack.methods.impulses.joint_contacts import restore_impulses, save_impulses, solve_with_joints, sum_impulses
from limberjack.methods.impulses.joint_newton import accelerate, sweep_joints, take_end_rows
from limberjack.methods.impulses.joint_solve import START, SUM, copy_sums
from limberjack.methods.impulses.motion import (
    drift_body,
    fix_moved_bodies,
    move,
    set_inverse,
    set_velocities_from_motion,
    six,
    turned_velocity,
)
from limberjack.methods.impulses.post_stabilize import (
    UNBOUNDED,
    WITH_FRICTION,
    WITH_LIMITS,
    add,
    clear_sums,
    factor_rows,
    set_rate_sides,
    set_rates,
    set_right_sides,
    solve_rows,
)
from limberjack.spatial.quaternions import rotation_from_quaternion
from limberjack.spatial.vectors import rotate_back, symmetric_times

__all__ = ["MOST_SUBSTEPS", "begin_pull", "copy_angles", "lasting_pull", "parts_of", "pre_stabilize"]

# Newton steps of the joints, along rows of the start and along rows of the end.
NEWTON, NEWTON_PROJECTION = 12, 40
# A joint with a larger error than this after all of them is a failure [m, rad].
OPEN = 1e-3
# With joints swept by the schedule, a larger error than this [m, rad].
_LOST = 0.5
# Swept joints are closed together where a larger error is left than this [m, rad]. Sweeps end early where they would
# leave more, judged from so many of them on.
_LEFT, _JUDGED = 1e-5, 5
# The largest square of h omega at which such steps are stable; parts of a substep have at most the next, and so many
# are the most: near the limit motions of finite size still gain energy.
_FASTEST, _RESOLVED, _MOST_PARTS = 4.0, 1.0, 64
# A step that would be divided into more substeps than this fails: it would take seconds.
MOST_SUBSTEPS = 512
# The part of its error that a swept joint loses in a visit, but for the last one.
_NEARLY = 0.9999
# The shortest piece of a substep is this part of it.
PIECES = 32
# The first Newton steps need not halve the error.
_PATIENT = 2
# Contacts are solved with the joints in so many Newton steps: later corrections move bodies by little.
_WITH_CONTACTS = 2
# Impulses of a piece may change the rotation of a body within it by this much [rad]; along rows that are off by more
# they would add energy. Projections of the poses turn bodies by no more at a time: in a nearly straight chain a small
# gap calls for large rotations.
_TURN = 0.2
# Impulses along the rows of the start add kinetic energy, which post-stabilisation along the rows of the end takes out
# again. The sum over an island of each body's gain times its relative gain may be this part of the island's energy:
# beyond, as in a chain that snaps straight, less is taken out than was added. The velocity is a floor [m/s].
_ADDED, _STILL = 1.5e-3, 1e-3


@outlined
def copy_angles(compound, e, predicted):
    """Let the search for angles at predicted poses start from the current ones."""
    for t in range(len(e.near)):
        predicted.near[t] = e.near[t]
    for t in range(len(compound)):
        for c in range(COORDINATES, ROWS):
            predicted.state[compound[t, 0], c] = e.state[compound[t, 0], c]
        if compound[t, 2] < 0:
            # black-box joints keep the row directions of the start
            predicted.state[compound[t, 0], PICKED] = 1.0


@inner
def _take_angles(e, predicted):
    for t in range(len(e.near)):
        e.near[t] = predicted.near[t]


@outlined
def _drift(h, before, moves, bulk, u, pose):
    """Move the marked bodies by h u from the poses before (equation (1))."""
    for i in range(len(bulk.mass)):
        if moves[i] and not bulk.asleep[i]:
            drift_body(i, h, before, bulk, u, pose)


@outlined
def _advance_start(moves, bulk, u, pose, before):
    """Let a piece start from the poses where the last one ended, angular momenta conserved."""
    for i in range(len(bulk.mass)):
        if moves[i] and not bulk.asleep[i]:
            o = 6 * i
            if not bulk.round[i]:
                u[o], u[o + 1], u[o + 2] = turned_velocity(
                    i, bulk, before, pose[i, 3], pose[i, 4], pose[i, 5], pose[i, 6], u[o], u[o + 1], u[o + 2]
                )
            set_inverse(i, pose, bulk)
            for c in range(POSE):
                before[i, c] = pose[i, c]


@outlined
def _copy(source, target):
    for k in range(len(source)):
        target[k] = source[k]


@outlined
def _copy_poses(source, moves, target):
    """Copy the poses of the marked bodies."""
    for i in range(len(source)):
        if moves[i]:
            for c in range(POSE):
                target[i, c] = source[i, c]


@outlined
def _turned_too_far(h, bulk, before, u):
    """Return whether impulses have changed the rotation of some body in h by too much."""
    most = (_TURN / h) * (_TURN / h)
    for i in range(len(bulk.mass)):
        if bulk.jointed[i]:
            o = 6 * i
            x, y, z = u[o] - before[o], u[o + 1] - before[o + 1], u[o + 2] - before[o + 2]
            if not x * x + y * y + z * z <= most:
                return True
    return False


@outlined
def _gained_energy(root, pose, bulk, before, u):
    """Return whether impulses have added too large a part of its kinetic energy to some island (by `root`).

    Led bodies have infinite mass and belong to no island, here and in `_limit_energy`.
    """
    gain = bulk.moving
    for i in range(len(gain)):
        gain[i] = 0.0
    for i in range(len(gain)):
        if bulk.jointed[i] and not bulk.asleep[i] and not bulk.led[i]:
            o, m = 6 * i, bulk.mass[i]
            r = rotation_from_quaternion(pose[i, 3], pose[i, 4], pose[i, 5], pose[i, 6])
            x, y, z = rotate_back(r, before[o], before[o + 1], before[o + 2])
            px, py, pz = symmetric_times(six(bulk.inertia, i), x, y, z)
            own = px * x + py * y + pz * z
            x, y, z = rotate_back(r, u[o] - before[o], u[o + 1] - before[o + 1], u[o + 2] - before[o + 2])
            px, py, pz = symmetric_times(six(bulk.inertia, i), x, y, z)
            added = px * x + py * y + pz * z
            for c in range(o + 3, o + 6):
                own += m * before[c] * before[c]
                added += m * (u[c] - before[c]) * (u[c] - before[c])
            own += m * _STILL * _STILL
            gain[root[i]] += added * added / (own + added) - _ADDED * own
    for i in range(len(gain)):
        if gain[i] > 0.0:
            return True
    return False


@outlined
def _limit_energy(root, pose, bulk, before, sums, u):
    """Take back as much of the change of the velocities of each island (by `root`) as adds kinetic energy to it.

    `sums` is scratch, (6 n,).
    """
    for k in range(len(sums)):
        sums[k] = 0.0
    for i in range(len(root)):
        if bulk.jointed[i] and not bulk.asleep[i] and not bulk.led[i]:
            o, m, at = 6 * i, bulk.mass[i], 6 * root[i]
            r = rotation_from_quaternion(pose[i, 3], pose[i, 4], pose[i, 5], pose[i, 6])
            bx, by, bz = rotate_back(r, before[o], before[o + 1], before[o + 2])
            x, y, z = rotate_back(r, u[o] - before[o], u[o + 1] - before[o + 1], u[o + 2] - before[o + 2])
            px, py, pz = symmetric_times(six(bulk.inertia, i), x, y, z)
            sums[at] += px * bx + py * by + pz * bz
            sums[at + 1] += px * x + py * y + pz * z
            for c in range(o + 3, o + 6):
                sums[at] += m * (u[c] - before[c]) * before[c]
                sums[at + 1] += m * (u[c] - before[c]) * (u[c] - before[c])
    for i in range(len(root)):
        along, square = sums[6 * root[i]], sums[6 * root[i] + 1]
        if bulk.jointed[i] and not bulk.led[i] and 2.0 * along + square > 0.0:
            part = max(-2.0 * along / square, 0.0)
            for c in range(6 * i, 6 * i + 6):
                u[c] = before[c] + part * (u[c] - before[c])


@outlined
def _step_length(a):
    """Return the largest step along the corrections a that turns no body too far."""
    most = 0.0
    for k in range(0, len(a), 6):
        most = max(most, a[k] * a[k] + a[k + 1] * a[k + 1] + a[k + 2] * a[k + 2])
    return _TURN / math.sqrt(most) if most > _TURN * _TURN else 1.0


@outlined
def _close_poses(setup, tree, structure, how, time, all_rows, rows, bulk, e, s, saddle):
    """Project the poses onto the joints by Newton's method, rows evaluated anew each time; return a status."""
    last, status = np.inf, 0
    acted, rows.soft.acting[0] = rows.soft.acting[0], 0
    for iteration in range(NEWTON_PROJECTION):
        evaluate(
            setup.bodies,
            setup.system,
            setup.table,
            setup.row_block,
            setup.scalable_pairs,
            time,
            all_rows,
            s.pose,
            s.u,
            e,
        )
        fix_moved_bodies(setup.system.mass_start, bulk, e.m, s.force)
        worst, at = worst_row(setup, e, s)
        s.report[0], s.report[1], s.report[2] = iteration, worst, at
        if worst <= how[TOLERANCE] or (worst < GAP_ALLOWED and worst > 0.5 * last) or not worst < 1e100:
            break
        last = worst
        set_right_sides(setup, np.int64(0), 1.0, e.values, s.last_force, saddle)
        status = factor_rows(setup, tree, structure, rows, e, s, saddle)
        if status == 0:
            status = solve_rows(setup, tree, structure, UNBOUNDED, True, rows, e, s, saddle)
        if status != 0:
            break
        move_bodies(setup.bodies, _step_length(saddle.a), saddle.a, s.pose)
    rows.soft.acting[0] = acted
    if status == Status.INFEASIBLE or not s.report[1] <= OPEN:
        return Status.OPEN_LOOP
    return status


@outlined
def _project_poses(setup, tree, structure, how, h, time, all_rows, rows, bulk, e, s, saddle):
    """Project the poses onto the joints; velocities become those of the displacement made in h from `pose_sum`."""
    status = _close_poses(setup, tree, structure, how, time, all_rows, rows, bulk, e, s, saddle)
    set_velocities_from_motion(h, s.pose_sum, s.pose, bulk, s.u)
    return status


@outlined
def _correct(setup, tree, structure, counted, h, rows, e, s, saddle):
    """Do one Newton step: add the impulses along the rows of e for the errors at the end of h; return a status."""
    # section IV: (df/dj) dj = -f, with df/dj of the poses now for all joints at once
    set_right_sides(setup, np.int64(0), 1.0 / h, s.predicted.values, s.last_force, saddle)
    for r in range(setup.system.row_start[setup.constraints[1]]):
        e.values[r, 0] = s.predicted.values[r, 0]
    if counted == WITH_FRICTION:
        set_rates(setup, rows, e, s.u)
    status = solve_rows(setup, tree, structure, counted, True, rows, e, s, saddle)
    if status == 0:
        add(saddle.a, s.u)
    return status


@outlined
def _newton(setup, tree, structure, how, h, time, first, count, root, rows, sweeps, rounds, bulk, e, s, saddle):
    """Find the impulses along the rows of e that close the joints at the end of h from the poses `pose_sum`.

    Returns:
        a status, Status.NOT_CONVERGED where the errors do not shrink.
    """
    copy_angles(setup.table.compound, e, s.predicted)
    last, patient = np.inf, _WITH_CONTACTS + 1 if first < count else _PATIENT
    for iteration in range(NEWTON):
        _drift(h, s.pose_sum, bulk.jointed, bulk, s.u, s.pose)
        evaluate_predicted(setup, time, s.pose, s.u, s.predicted)
        worst, at = worst_row(setup, s.predicted, s)
        s.report[0], s.report[1], s.report[2] = iteration, worst, at
        if worst <= how[TOLERANCE] or (worst < GAP_ALLOWED and worst > 0.5 * last):
            aside = _turned_too_far(h, bulk, s.u_sum, s.u) or _gained_energy(root, s.pose_sum, bulk, s.u_sum, s.u)
            return Status.NOT_CONVERGED if aside else 0
        if not worst < (2.0 if iteration < patient else 0.5) * last:
            return Status.NOT_CONVERGED
        last = worst
        if len(setup.table.compound) > 0:
            take_end_rows(setup, s.predicted, e)
            invalidate_responses(saddle)
        if first < count and iteration < _WITH_CONTACTS:
            status = solve_with_joints(
                setup, tree, structure, first, count, True, how, h, rows, sweeps, bulk, rounds, e, s, saddle
            )
        else:
            status = _correct(
                setup, tree, structure, WITH_FRICTION if first < count else WITH_LIMITS, h, rows, e, s, saddle
            )
        if status != 0:
            return Status.NOT_CONVERGED if status == Status.INFEASIBLE else status
    return Status.NOT_CONVERGED


@outlined
def _post_stabilize_anew(setup, tree, structure, h, time, all_rows, rows, bulk, e, s, saddle):
    """Post-stabilise the velocities with rows and factor of the poses now (section V); return a status."""
    evaluate(
        setup.bodies, setup.system, setup.table, setup.row_block, setup.scalable_pairs, time, all_rows, s.pose, s.u, e
    )
    fix_moved_bodies(setup.system.mass_start, bulk, e.m, s.force)
    clear_sums(setup.constraints[1] - setup.constraints[0], rows.sums)
    set_rate_sides(setup, h, e, s, saddle)
    status = factor_rows(setup, tree, structure, rows, e, s, saddle)
    if status == 0:
        status = solve_rows(setup, tree, structure, WITH_FRICTION, True, rows, e, s, saddle)
    if status == 0:
        add(saddle.a, s.u)
    return status


@outlined
def _begin_piece(
    setup, tree, structure, how, h, time, first, count, all_rows, rows, sweeps, rounds, bulk, e, s, saddle
):
    """Prepare a piece h that starts where the last one ended; return a status."""
    _advance_start(rounds.moves, bulk, s.u, s.pose, s.pose_sum)
    status = _post_stabilize_anew(setup, tree, structure, h, time, all_rows, rows, bulk, e, s, saddle)
    if status == 0 and first < count:
        status = solve_with_joints(
            setup, tree, structure, first, count, False, how, h, rows, sweeps, bulk, rounds, e, s, saddle
        )
        save_impulses(first, count, sweeps.row, rounds.start)
    copy_sums(SUM, START, rows.sums)
    _copy(s.u, s.u_sum)
    return status


@outlined
def _pre_stabilize_in_pieces(
    setup, tree, structure, how, h, time, first, count, all_rows, root, rows, sweeps, rounds, bulk, e, s, saddle
):
    """Take a substep in pieces in each of which the joints close; return a status."""
    done, piece, part = 0, PIECES // 2, h / PIECES
    _copy(s.u_sum, s.u)
    restore_impulses(first, count, rounds.start, sweeps.row)
    copy_sums(START, SUM, rows.sums)
    while done < PIECES:
        status = _newton(
            setup, tree, structure, how, piece * part, time + (done + piece) * part, first, count, root, rows, sweeps,
            rounds, bulk, e, s, saddle,
        )  # fmt: skip
        if status == Status.NOT_CONVERGED:
            _copy(s.u_sum, s.u)
            restore_impulses(first, count, rounds.start, sweeps.row)
            copy_sums(START, SUM, rows.sums)
            if piece > 1:
                piece //= 2
                continue
            _drift(piece * part, s.pose_sum, rounds.moves, bulk, s.u, s.pose)
            status = _project_poses(
                setup, tree, structure, how, piece * part, time + (done + piece) * part, all_rows, rows, bulk, e, s,
                saddle,
            )  # fmt: skip
            _limit_energy(root, s.pose_sum, bulk, s.u_sum, saddle.a, s.u)
        else:
            if first < count:
                _drift(piece * part, s.pose_sum, rounds.moves, bulk, s.u, s.pose)
            _take_angles(e, s.predicted)
        if status != 0:
            return status
        done += piece
        update_contacts(first, count, sweeps.link, piece * part, s.pose_sum, s.pose, s.u, sweeps.row)
        sum_impulses(first, count, sweeps.row, rounds.total)
        if done < PIECES:
            status = _begin_piece(
                setup, tree, structure, how, piece * part, time + done * part, first, count, all_rows, rows, sweeps,
                rounds, bulk, e, s, saddle,
            )  # fmt: skip
            if status != 0:
                return status
    restore_impulses(first, count, rounds.total, sweeps.row)
    return 0


@outlined
def _pre_stabilize_together(
    setup, tree, structure, how, h, time, count, all_rows, graph, rows, sweeps, rounds, bulk, e, s, saddle
):
    """Close the joints by all at once at the end of a substep whose joints sweeps leave open; return a status.

    Contacts keep the impulses that they have. `pose_sum` becomes the poses at the start with joints closed.
    """
    _copy(s.u_sum, s.u)
    _copy_poses(s.pose_sum, bulk.jointed, s.pose)
    status = _close_poses(setup, tree, structure, how, time - h, all_rows, rows, bulk, e, s, saddle)
    if status != 0:
        return status
    _advance_start(bulk.jointed, bulk, s.u, s.pose, s.pose_sum)
    # dry friction has acted in the sweeps
    rows.span[0] = 0.0
    clear_sums(len(rows.sums), rows.sums)
    status = _post_stabilize_anew(setup, tree, structure, h, time - h, all_rows, rows, bulk, e, s, saddle)
    if status != 0:
        return status
    _copy(s.u, s.u_sum)
    copy_sums(SUM, START, rows.sums)
    status = _newton(
        setup, tree, structure, how, h, time, count, count, graph.root, rows, sweeps, rounds, bulk, e, s, saddle
    )
    if status != Status.NOT_CONVERGED:
        _take_angles(e, s.predicted)
        return status
    _mark_moving(-1, graph.body, bulk, rounds.moves)
    return _pre_stabilize_in_pieces(
        setup, tree, structure, how, h, time - h, count, count, all_rows, graph.root, rows, sweeps, rounds, bulk, e, s,
        saddle,
    )  # fmt: skip


@outlined
def _fastest(setup, force, e, bulk):
    """Return the square of the highest frequency at which forces of the joints turn a body, and the body.

    A force F at r from the com turns a body back with the stiffness |F| |r|; the square of the frequency is at most the
    sum of these over the joints, times the mean inverse inertia across r.
    """
    square, table, start = bulk.moving, setup.table, setup.system.row_start
    for i in range(len(square)):
        square[i] = 0.0
    for c in range(setup.constraints[0]):
        first = start[c]
        for column in range(4):
            if setup.row_block[first, column] < 0:
                continue
            p, end = table.row_pair[first, column // 2], column % 2
            i, lever = table.pair_link[p, 1 - end], LEVER_B if end == 0 else LEVER_A
            x, y, z = e.state[p, lever], e.state[p, lever + 1], e.state[p, lever + 2]
            if end == 1:
                x, y, z = x + e.state[p, GAP], y + e.state[p, GAP + 1], z + e.state[p, GAP + 2]
            fx = fy = fz = 0.0
            for r in range(first, start[c + 1]):
                o = setup.row_block[r, column] + 3
                fx, fy, fz = fx + force[r] * e.j[o], fy + force[r] * e.j[o + 1], fz + force[r] * e.j[o + 2]
            length = math.sqrt(x * x + y * y + z * z)
            if length > 0.0:
                k = six(bulk.inverse, i)
                ax, ay, az = symmetric_times(k, x, y, z)
                across = k[0] + k[1] + k[2] - (ax * x + ay * y + az * z) / (length * length)
                square[i] += 0.5 * across * length * math.sqrt(fx * fx + fy * fy + fz * fz)
    most, at = 0.0, 0
    for i in range(len(square)):
        if square[i] > most:
            most, at = square[i], i
    return most, at


@outlined
def begin_pull(substeps, bulk):
    """Prepare `lasting_pull` for a step of so many substeps; a single one has none to be compared with."""
    for i in range(len(bulk.pull)):
        bulk.pull[i], bulk.pulled[i] = 0.0, 0.0 if substeps > 1 else np.inf


@outlined
def lasting_pull(longest, bulk):
    """Return the square of the highest frequency at which joints turn a body in this and the last substep, and which.

    An impact pulls in one substep only, the harder the shorter this is: dividing it would resolve nothing. `pull` has
    the sum of the parts of the substep, whose length undivided is `longest`, of single substeps the most; it is
    cleared.
    """
    most, at = 0.0, 0
    for i in range(len(bulk.pull)):
        lasting = min(bulk.pull[i], bulk.pulled[i])
        if lasting > most:
            most, at = lasting, i
        bulk.pull[i], bulk.pulled[i] = 0.0, bulk.pull[i]
    return most / longest, at


@inner
def parts_of(h, fastest):
    """Return into how many parts a substep h is divided such that it resolves the square of a frequency."""
    square = h * h * fastest
    return 1 if not square > _FASTEST else min(int(math.ceil(math.sqrt(square / _RESOLVED))), _MOST_PARTS)


@inner
def _hopeless(first, worst, done, times):
    """Return whether the error, that shrank from `first` to `worst` in `done` sweeps, will be left too large by all."""
    left, rate = worst, worst / first if first > 0.0 else 0.0
    for _ in range(done, times, done):
        left *= rate
    return left > _LEFT


@outlined
def _sweep_to_end(setup, how, h, time, times, graph, rows, bulk, e, s, saddle):
    """Sweep over the joints until they are closed at the end of the substep, at most so many times."""
    last, direction, plain = saddle.a, saddle.response, how[GRADUAL] == 0.0 and times > 1
    square, before, first = -1.0, np.inf, 0.0
    for k in range(times):
        eps = (k + 1.0) / times if how[GRADUAL] > 0.0 else 1.0 if k == times - 1 else _NEARLY
        if plain and k % 2 == 0:
            _copy(s.u, last)
        worst = sweep_joints(
            setup, plain and k % 2 == 1, -1, HIGHEST, graph.level, eps, how[SEARCH], how[TOLERANCE], h, time,
            s.pose_sum, rows.compound, bulk, e, s.predicted, s.pose, rows.total, rows.small, s.u,
        )  # fmt: skip
        first = max(first, worst)
        if worst <= how[TOLERANCE] or (how[GRADUAL] <= 0.0 and k >= _JUDGED and _hopeless(first, worst, k, times)):
            break
        if k % 2 == 0:
            # extrapolated too far: begin anew
            square, before = square if worst < before else -1.0, worst
        if plain and k % 2 == 1 and k < times - 2 and not _any_limit(setup, rows.total):
            square, _ = accelerate(square, bulk, last, s.u, direction)


@outlined
def _pre_stabilize_swept(
    setup, tree, structure, how, h, time, count, all_rows, graph, rows, sweeps, rounds, bulk, e, s, saddle
):
    """Close the joints at the end of the substep one after the other, and move there; return a status.

    With contacts, joints were swept with these; what is left is the optional final sweep over joints alone of section
    VI, after which the velocities saved before it may be restored.
    """
    times = int(how[KIND + WIDTH * FIRM + SWEEPS])
    if how[GRADUAL] <= 0.0 and h * h * _fastest(setup, rows.force, e, bulk)[0] > _FASTEST:
        return _project_poses(setup, tree, structure, how, h, time, all_rows, rows, bulk, e, s, saddle)
    if count == 0:
        copy_angles(setup.table.compound, e, s.predicted)
    elif how[AFTER] == 0.0:
        times = 0
    else:
        times = 1
    _sweep_to_end(setup, how, h, time, times, graph, rows, bulk, e, s, saddle)
    _drift(h, s.pose_sum, bulk.jointed, bulk, s.u, s.pose)
    evaluate_predicted(setup, time, s.pose, s.u, s.predicted)
    worst, at = worst_row(setup, s.predicted, s)
    aside = _turned_too_far(h, bulk, s.u_sum, s.u) or _gained_energy(graph.root, s.pose_sum, bulk, s.u_sum, s.u)
    if how[GRADUAL] <= 0.0 and (not worst <= (_LEFT if count == 0 else OPEN) or aside):
        _copy(s.u, s.momentum)
        status = _pre_stabilize_together(
            setup, tree, structure, how, h, time, count, all_rows, graph, rows, sweeps, rounds, bulk, e, s, saddle
        )
        if status == 0 or (count > 0 and how[AFTER] == SAVED):
            return status
        if not worst <= OPEN:
            s.report[0], s.report[1], s.report[2] = times, worst, at
            return Status.OPEN_LOOP
        # what the sweeps have found after all
        _copy_poses(s.stage, bulk.jointed, s.pose_sum)
        _copy(s.momentum, s.u)
        _drift(h, s.pose_sum, bulk.jointed, bulk, s.u, s.pose)
        evaluate_predicted(setup, time, s.pose, s.u, s.predicted)
    s.report[0], s.report[1], s.report[2] = times, worst, at
    if not worst <= _LOST:
        return Status.OPEN_LOOP
    if count > 0 and how[AFTER] == SAVED:
        _copy(s.u_sum, s.u)
    _take_angles(e, s.predicted)
    return 0


@outlined
def _any_limit(setup, total):
    """Return whether any limit has an impulse."""
    for c in range(setup.constraints[0], setup.constraints[1]):
        if total[setup.system.row_start[c]] != 0.0:
            return True
    return False


@outlined
def _mark_moving(island, body, bulk, moves):
    """Mark the bodies with joints, and those of an island."""
    for i in range(len(moves)):
        moves[i] = 1 if bulk.jointed[i] or (island >= 0 and body[i] == island) else 0


@outlined
def pre_stabilize(
    setup, tree, structure, how, h, time, first, count, all_rows, graph, rows, sweeps, rounds, bulk, e, s, saddle
):
    """Apply the impulses that close the joints at the end of the substep, and move there; return a status.

    `pose_sum` becomes the poses at which the final velocities have their angular momenta.
    """
    for i in range(len(s.stage)):
        for c in range(POSE):
            s.pose_sum[i, c] = s.stage[i, c]
    _copy(s.u, s.u_sum)
    save_impulses(first, count, sweeps.row, rounds.start)
    copy_sums(SUM, START, rows.sums)
    move(h, setup.gravity, s.stage, s.u_stage, bulk, s.u, s.pose)
    if how[GLOBAL] == DAMPED or how[GLOBAL] == 0.0:
        status = 0
        if how[GLOBAL] == DAMPED:
            status = _project_poses(setup, tree, structure, how, h, time + h, all_rows, rows, bulk, e, s, saddle)
        else:
            status = _pre_stabilize_swept(
                setup, tree, structure, how, h, time + h, count - first, all_rows, graph, rows, sweeps, rounds, bulk, e,
                s, saddle,
            )  # fmt: skip
        update_contacts(first, count, sweeps.link, h, s.stage, s.pose, s.u, sweeps.row)
        return status
    _fastest(setup, rows.total, e, bulk)
    for i in range(len(bulk.pull)):
        if bulk.pulled[i] == np.inf:  # single substeps resolve what pulls hardest in one of their parts
            bulk.pull[i] = max(bulk.pull[i], bulk.moving[i] * rows.fastest[3] / h)
        else:
            bulk.pull[i] += bulk.moving[i]
    status = _newton(
        setup, tree, structure, how, h, time + h, first, count, graph.root, rows, sweeps, rounds, bulk, e, s, saddle
    )
    if status != Status.NOT_CONVERGED:
        _take_angles(e, s.predicted)
        if first < count:
            move(h, setup.gravity, s.stage, s.u_stage, bulk, s.u, s.pose)
            _drift(h, s.pose_sum, bulk.jointed, bulk, s.u, s.pose)
            update_contacts(first, count, sweeps.link, h, s.stage, s.pose, s.u, sweeps.row)
        return status
    for k in range(first, count):
        for c in range(4):
            rounds.total[k, c] = 0.0
    _mark_moving(graph.count[0] - 1 if first < count else -1, graph.body, bulk, rounds.moves)
    return _pre_stabilize_in_pieces(
        setup, tree, structure, how, h, time, first, count, all_rows, graph.root, rows, sweeps, rounds, bulk, e, s,
        saddle,
    )  # fmt: skip
