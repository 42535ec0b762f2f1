"""Joints of all islands met at once: velocities at the poses now, then the poses a step leads to."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from limberjack._jit import outlined
from limberjack.constraints.bodies import move_bodies
from limberjack.constraints.maximal import evaluate
from limberjack.constraints.rows import COORDINATES, ROWS
from limberjack.maximal.loads import forces
from limberjack.maximal.meeting import GAP_ALLOWED, MORE_ROOM, OPEN_LOOP, PROJECT, STUCK, TOUCH, set_sides, worst_row
from limberjack.maximal.predictions import look_there, put_back_gyro
from limberjack.methods.impulses.islands import GLOBAL, KIND, SWEEPS, TOLERANCE, WIDTH, sweep_kind
from limberjack.methods.impulses.joints import list_rubbing, row_rates, set_aims, sweep_rows, weigh_rows
from limberjack.methods.impulses.motion import move
from limberjack.solvers.saddle import NO_ROOM, REFUSED, factor_saddle, list_touching, solve_saddle

__all__ = ["Rows", "close", "hold", "meet_together", "pull_joints"]

# Newton steps of the joints, along rows of the start and along rows of the end.
NEWTON, NEWTON_THERE = 12, 40
# Bodies are turned by at most this much at a time where poses are brought onto the joints [rad]: a chain pulled nearly
# straight answers a small gap with huge turns.
TURN = 0.2
# Closing the joints may make the bodies this many times as lively; bodies at rest count as moving this fast [m/s].
WILD, STIR = 4.0, 0.1
# A joint open by more than this after all of them is an error [m, rad].
OPEN = 1e-3


class Rows(NamedTuple):
    """Rows of joints while they are swept, and joints with dry friction."""

    weight: np.ndarray  # (r,) 1 / (J M^-1 J^T)
    aim: np.ndarray  # (r,)
    total: np.ndarray  # (r,) impulses
    rubbing: np.ndarray  # constraints along the coordinates of joints with dry friction
    most: np.ndarray  # their friction


@outlined
def _factor(setup, tree, structure, e, s, saddle):
    """Factor the rows of e; return 0 or STUCK."""
    failed = factor_saddle(setup.system, tree, structure, e.m, e.j, saddle)
    if failed != 0:
        s.report[3] = failed
        return STUCK
    return 0


@outlined
def _solve(setup, tree, structure, positions, h, rows, e, s, saddle):
    """Solve for the joints with the factor at hand, right sides set; h > 0 lets dry friction act over it."""
    counts, listed = setup.constraints, saddle.responses
    room = len(listed.constraint)
    found = list_touching(
        setup.system.row_start, counts[0], counts[1], e.values, TOUCH, positions, saddle.always, room, s.pressed,
        listed.count, listed.constraint, saddle.low, saddle.high,
    )  # fmt: skip
    if found >= 0 and h > 0.0:
        found = list_rubbing(
            setup.system.row_start, rows.rubbing, rows.most, h, e.values, found, room, listed.count, listed.constraint,
            saddle.low, saddle.high, saddle.r, saddle.c,
        )  # fmt: skip
    status = NO_ROOM
    if found >= 0:
        status = solve_saddle(setup.system, tree, structure, found, e.m, e.j, saddle)
    if status == NO_ROOM:
        return MORE_ROOM
    return STUCK if status == REFUSED else 0


@outlined
def _add(a, u):
    for k in range(len(u)):
        u[k] += a[k]


@outlined
def _clear(a):
    for k in range(len(a)):
        a[k] = 0.0


@outlined
def _aim_there(setup, mode, scale, values, pressed, saddle):
    """Set the right sides to `scale` times the values (0) or rates (1) of rows; no force acts besides."""
    rows = setup.system.row_start[setup.constraints[1]]
    set_sides(setup.table, rows, mode, 1.0, np.int64(PROJECT), 0.0, values, pressed, saddle.r, saddle.c)
    for r in range(rows):
        saddle.r[r] *= scale
    _clear(saddle.f)


@outlined
def pull_joints(
    # model
    setup, tree, structure, springs, drives, armature, span,
    # in
    driven, how, h, time, all_rows, wrenches, applied, rows, bulk,
    # out
    e, s, saddle,
):  # fmt: skip
    """Let all forces act for h, and bring the velocities onto the joints; return a status."""
    evaluate(setup.bodies, setup.system, setup.table, setup.touch, setup.soft, time, all_rows, s.pose, s.u, e)
    forces(setup, springs, drives, armature, span, driven, False, wrenches, applied, s.pose, e, s, s.force)
    put_back_gyro(setup.bodies, e.ends, s.pose, s.force)
    for i in range(len(bulk.asleep)):
        if bulk.asleep[i]:
            for c in range(6):
                s.force[6 * i + c] = 0.0
    _clear(s.pressed)
    _clear(rows.total)
    _clear(rows.aim)
    status = 0
    if how[GLOBAL] > 0.0:
        _aim_there(setup, np.int64(1), 1.0, e.values, s.pressed, saddle)
        for k in range(len(s.u)):
            saddle.f[k] = h * s.force[k]
        status = _factor(setup, tree, structure, e, s, saddle)
        if status == 0:
            status = _solve(setup, tree, structure, False, h, rows, e, s, saddle)
        if status == 0:
            _add(saddle.a, s.u)
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
def meet_together(first, last, kind, how, h, setup, sweeps, rows, bulk, e, u):
    """Sweep the contacts of all islands with joints, and the joints after them, in turn."""
    counts = setup.constraints
    for _ in range(int(how[KIND + WIDTH * kind + SWEEPS])):
        sweep_kind(kind, first, last, 1, how, h, sweeps.link, bulk.inverse, sweeps.row, u)
        sweep_rows(
            setup.system, counts[0], counts[1], 1, e.j, bulk.inverse, rows.weight, rows.aim, e.values, TOUCH,
            rows.total, u,
        )  # fmt: skip


@outlined
def hold(setup, tree, structure, rows, e, s, saddle):
    """Bring the velocities onto the joints again, with the factor at hand; return a status."""
    row_rates(setup.system, setup.constraints[1], e.j, s.u, e.values)
    _aim_there(setup, np.int64(1), 1.0, e.values, s.pressed, saddle)
    status = _solve(setup, tree, structure, False, 0.0, rows, e, s, saddle)
    if status == 0:
        _add(saddle.a, s.u)
    return status


@outlined
def _copy_angles(compound, e, there):
    """Let the search for angles at predicted poses begin at those now."""
    for t in range(len(e.near)):
        there.near[t] = e.near[t]
    for t in range(len(compound)):
        for c in range(COORDINATES, ROWS):
            there.state[compound[t, 0], c] = e.state[compound[t, 0], c]


@outlined
def _careful(a):
    """Return the part of the corrections a of rigid bodies that turns none of them too far."""
    most = 0.0
    for k in range(0, len(a), 6):
        most = max(most, a[k] * a[k] + a[k + 1] * a[k + 1] + a[k + 2] * a[k + 2])
    return TURN / math.sqrt(most) if most > TURN * TURN else 1.0


@outlined
def _bring(setup, tree, structure, how, time, all_rows, rows, e, s, saddle):
    """Bring the poses onto the joints as they are, the directions taken anew each time; return a status."""
    last, status = np.inf, 0
    for iteration in range(NEWTON_THERE):
        evaluate(setup.bodies, setup.system, setup.table, setup.touch, setup.soft, time, all_rows, s.pose, s.u, e)
        worst, at = worst_row(setup, e, s)
        s.report[0], s.report[1], s.report[2] = iteration, worst, at
        if worst <= how[TOLERANCE] or (worst < GAP_ALLOWED and worst > 0.5 * last) or not worst < 1e100:
            break
        last = worst
        _aim_there(setup, np.int64(0), 1.0, e.values, s.pressed, saddle)
        status = _factor(setup, tree, structure, e, s, saddle)
        if status == 0:
            status = _solve(setup, tree, structure, True, 0.0, rows, e, s, saddle)
        if status != 0:
            break
        move_bodies(setup.bodies, _careful(saddle.a), saddle.a, s.pose)
    if status == STUCK or not s.report[1] <= OPEN:
        return OPEN_LOOP
    return status


@outlined
def _liveliness(bulk, u):
    """Return about twice the kinetic energy that bodies have, a little of it for those at rest; NaN as infinite."""
    out, inverse = 0.0, bulk.inverse
    for i in range(len(bulk.mass)):
        o, spin = 6 * i, inverse[i, 0] + inverse[i, 1] + inverse[i, 2]
        w = u[o] * u[o] + u[o + 1] * u[o + 1] + u[o + 2] * u[o + 2]
        v = u[o + 3] * u[o + 3] + u[o + 4] * u[o + 4] + u[o + 5] * u[o + 5]
        out += bulk.mass[i] * (v + STIR * STIR)
        if spin > 0.0:
            out += 3.0 * w / spin
    return out if out < np.inf else np.inf


@outlined
def close(setup, tree, structure, how, h, time, all_rows, rows, bulk, e, s, saddle):
    """Add impulses until the joints close where the step leads, and move there; return a status."""
    held, counts = setup.system.row_start[setup.constraints[1]], setup.constraints
    _copy_angles(setup.table.compound, e, s.there)
    worst, last, status = 0.0, np.inf, 0
    _clear(s.u_sum)
    _add(s.u, s.u_sum)
    for iteration in range(NEWTON):
        move(h, setup.gravity, s.stage, s.u_stage, bulk, s.u, s.pose)
        look_there(setup, time + h, s.pose, s.u, s.there)
        worst, at = worst_row(setup, s.there, s)
        s.report[0], s.report[1], s.report[2] = iteration, worst, at
        if worst <= how[TOLERANCE] or (worst < GAP_ALLOWED and worst > 0.5 * last) or not worst < 4.0 * last:
            break
        last = worst
        if how[GLOBAL] > 0.0:
            _aim_there(setup, np.int64(0), 1.0 / h, s.there.values, s.pressed, saddle)
            for r in range(held):
                e.values[r, 0] = s.there.values[r, 0]
            status = _solve(setup, tree, structure, True, 0.0, rows, e, s, saddle)
            if status != 0:
                break
            _add(saddle.a, s.u)
        else:
            row_rates(setup.system, counts[1], e.j, s.u, e.values)
            set_aims(held, h, setup.table, e.values, s.there.values, rows.aim)
            for r in range(held):
                e.values[r, 0] = s.there.values[r, 0]
            _clear(rows.total)
            sweep_rows(
                setup.system, counts[0], counts[1], 1, e.j, bulk.inverse, rows.weight, rows.aim, e.values, TOUCH,
                rows.total, s.u,
            )  # fmt: skip
    wild = _liveliness(bulk, s.u) > WILD * _liveliness(bulk, s.u_sum)
    failed = status != 0 or not worst <= max(how[TOLERANCE], GAP_ALLOWED)
    if how[GLOBAL] > 0.0 and status != MORE_ROOM and (failed or wild):
        # impulses along the rows of the start cannot close the joints, or would do so by throwing bodies about
        if wild or not worst < 0.1:
            _clear(s.u)
            _add(s.u_sum, s.u)
            move(h, setup.gravity, s.stage, s.u_stage, bulk, s.u, s.pose)
        status = _bring(setup, tree, structure, how, time + h, all_rows, rows, e, s, saddle)
    else:
        for t in range(len(e.near)):
            e.near[t] = s.there.near[t]
    return status
