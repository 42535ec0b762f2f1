"""Contacts of bodies with joints, solved over the joints' direct solve; collisions of such bodies.

Each round sweeps the contacts, and then solves all joints. Many contacts of figures are swept over the responses of
whole figures (`contact/figure_sweeps.py`), and then contacts and joints nearly agree. Otherwise bodies respond alone: a
contact of a link knows the mass of this link only, while a net drawn taut behind it responds as if a hundred times
heavier. So the change of a round is taken for the negative gradient in a nonlinear conjugate gradient method
(Silcowitz, Niebe, Erleben 2010): impulses, and velocities with them, are extrapolated along the last direction by beta,
or not at all where changes grow:

    d = sweep and solve (j) - j,      beta = |d|^2 / |d_last|^2,      p = beta p_last + d,      j <- j + p

This serves velocities at the poses now (`post_stabilize.py`) as well as joints that close at the end of a step
(`pre_stabilize.py`). Impulses of limits and of dry friction in joints are part of j: their bounds apply to the sum over
all solves of a substep.

Collisions alternate likewise: a bob on a rod does not respond to a wall as a free one does, so the contacts of a pair
and the direct solve of all joints take turns until the contacts have their separation velocities.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from limberjack._jit import outlined
from limberjack.contact.figure_sweeps import (
    ALONE,
    FILLED,
    MASSES,
    Figures,
    add_changes,
    disagreement,
    gather_limits,
    gather_velocities,
    set_figure_masses,
    set_figures,
    set_limit_masses,
    swap_masses,
    sweep_figures,
)
from limberjack.contact.restitution import add_impulses, next_pair, set_separation, solve_pair
from limberjack.contact.sweeps import JN, JT, MN, N, S, overlap_bias, relative_velocity, sweep, warm_start
from limberjack.contact.warm_start import WarmStart, new_warm_start
from limberjack.maximal.rows import evaluate
from limberjack.methods.impulses.islands import (
    DAMPED,
    FIRM,
    GIVE,
    GLOBAL,
    KIND,
    RATE,
    SCALE,
    SWEEPS,
    WIDTH,
)
from limberjack.methods.impulses.joint_solve import LAST, SUM, copy_sums, extrapolate_sums, interpolate_sums, row_rates
from limberjack.methods.impulses.motion import SWEPT, fix_moved_bodies
from limberjack.methods.impulses.post_stabilize import (
    WITH_FRICTION,
    WITH_LIMITS,
    add,
    clear_sums,
    factor_rows,
    post_stabilize,
    set_rates,
    set_right_sides,
    solve_rows,
)
from limberjack.spatial.clock import ticks

__all__ = [
    "Rounds", "collide_with_joints", "new_rounds", "restore_impulses", "save_impulses", "solve_with_joints",
    "sum_impulses", "warm_start_with_joints",
]  # fmt: skip

# Rounds end when no contact would change a velocity by more than this: at the poses now, where bodies come to rest, and
# for joints at the end of a step [m/s].
_ENOUGH, _ENOUGH_AT_END = 1e-6, 1e-3
# More contacts than this, and those beside more joints than this, are swept over whole figures, in so many sweeps per
# round and one round for so many of the option; rounds end at this change of velocity [m/s].
_MANY, _MANY_JOINTS, _SWEEPS, _LARGE, _ENOUGH_AS_ONE = 64, 200, 4, 10, 1e-5
# Depenetration velocity: links turn fast, so that their overlaps recur in each substep and are removed sooner [m/s].
_DEPENETRATION = 0.3
# The most alternations of a pair of bodies, and solves in a substep; they end at this change of velocity [m/s].
_ALTERNATIONS, _SOLVES, _BALANCED = 80, 200, 1e-6


class Rounds(NamedTuple):
    """Impulses and velocities of the rounds; room for c contacts of n bodies."""

    last: np.ndarray  # (c, 4) impulses before a round
    direction: np.ndarray  # (c, 4) search direction of the impulses
    u_last: np.ndarray  # (6 n,)
    u_direction: np.ndarray  # (6 n,)
    start: np.ndarray  # (c, 4) impulses at the start of a piece
    total: np.ndarray  # (c, 4) impulses of the pieces done
    moves: np.ndarray  # (n,) 1 for bodies with joints, and those of their islands
    masses: np.ndarray  # (c, MASSES) effective masses over the figures
    figures: Figures
    before: WarmStart  # impulses of the step before
    sums: WarmStart  # impulses of this step so far, by the keys of the cache


def new_rounds(cache: WarmStart, figures: Figures) -> Rounds:
    """Return room for the bodies of figures and as many contacts as the cache has."""
    c, n = len(cache.impulse), len(figures.place)
    sums = new_warm_start(c)._replace(count=cache.count, name=cache.name)
    return Rounds(
        np.zeros((c, 4)), np.zeros((c, 4)), np.zeros(6 * n), np.zeros(6 * n), np.zeros((c, 4)), np.zeros((c, 4)),
        np.zeros(n, np.int64), np.zeros((c, MASSES)), figures, new_warm_start(c), sums,
    )  # fmt: skip


@outlined
def save_impulses(first, last, row, cache):
    """Save the impulses of contacts first .. last - 1."""
    for k in range(first, last):
        cache[k, 0], cache[k, 1], cache[k, 2], cache[k, 3] = row[k, JN], row[k, JT], row[k, JT + 1], row[k, JT + 2]


@outlined
def restore_impulses(first, last, cache, row):
    """Restore the impulses of contacts first .. last - 1."""
    for k in range(first, last):
        row[k, JN], row[k, JT], row[k, JT + 1], row[k, JT + 2] = cache[k, 0], cache[k, 1], cache[k, 2], cache[k, 3]


@outlined
def sum_impulses(first, last, row, total):
    """Add the impulses of contacts first .. last - 1 to the total, and clear them."""
    for k in range(first, last):
        total[k, 0] += row[k, JN]
        row[k, JN] = 0.0
        for c in range(3):
            total[k, 1 + c] += row[k, JT + c]
            row[k, JT + c] = 0.0


@outlined
def _changes(first, last, row, before):
    """Return the square of the change of all impulses, and the largest squared change of a contact's velocity."""
    square, most = 0.0, 0.0
    for k in range(first, last):
        n, x, y = row[k, JN] - before[k, 0], row[k, JT] - before[k, 1], row[k, JT + 1] - before[k, 2]
        z = row[k, JT + 2] - before[k, 3]
        own = (n * n + x * x + y * y + z * z) / row[k, MN]
        square += own
        most = max(most, own / row[k, MN])
    return square, most


@outlined
def _extrapolate(first, last, part, row, u, rounds):
    """Extrapolate impulses and velocities along the last direction by a part of it; store the new direction."""
    before, direction, u_last, u_direction = rounds.last, rounds.direction, rounds.u_last, rounds.u_direction
    for k in range(first, last):
        for c in range(4):
            at = JN if c == 0 else JT + c - 1
            further = part * direction[k, c]
            direction[k, c] = further + row[k, at] - before[k, c]
            row[k, at] += further
    for k in range(len(u)):
        further = part * u_direction[k]
        u_direction[k] = further + u[k] - u_last[k]
        u[k] += further


@outlined
def _set_end_rates(setup, h, rows, e, s, saddle):
    """Set the target rates with which the joints close at the end of h, linearised at the velocities now."""
    set_right_sides(setup, np.int64(0), 1.0 / h, s.predicted.values, s.last_force, saddle)
    row_rates(setup.system, 0, setup.constraints[1], e.j, s.u, e.values)
    for r in range(setup.system.row_start[setup.constraints[1]]):
        rows.target[r] = saddle.r[r] - e.values[r, 1]
        e.values[r, 0] = s.predicted.values[r, 0]


@outlined
def _solve_end_rates(setup, tree, structure, rows, e, s, saddle):
    """Solve for the target rates of the joints with the current factor; return a status."""
    set_rates(setup, rows, e, s.u)
    for r in range(setup.system.row_start[setup.constraints[1]]):
        saddle.r[r] = rows.target[r] + e.values[r, 1]
    for k in range(len(saddle.f)):
        saddle.f[k] = 0.0
    status = solve_rows(setup, tree, structure, WITH_FRICTION, False, rows, e, s, saddle)
    if status == 0:
        add(saddle.a, s.u)
    return status


@outlined
def _descent(first, last, h, rate, scale, give, link, row, u):
    """Return j.(J u + bias) of the contacts' impulses j, and the part of j.A j that is due to their compliance."""
    along, square = 0.0, 0.0
    for k in range(first, last):
        jn = row[k, JN]
        if jn > 0.0:
            x, y, z = relative_velocity(link, row, k, u)
            s = row[k, S]
            along += row[k, JT] * x + row[k, JT + 1] * y + row[k, JT + 2] * z
            along += jn * (
                x * row[k, N] + y * row[k, N + 1] + z * row[k, N + 2] + overlap_bias(s, h, rate, _DEPENETRATION)
            )
            if s <= 0.0:
                square += give / (scale * row[k, MN]) * jn * jn
    return along, square


@outlined
def warm_start_with_joints(setup, tree, structure, first, last, how, h, rows, sweeps, bulk, rounds, e, s, saddle):
    """Warm start contacts first .. last - 1 by a line search, with the joints' response; return a status.

    The impulses j of contacts with velocities b minimise j.b + j.A j / 2. Those of the last substep are a good start
    while little changes. Those of bodies that jam each other, or have just been hit, are large and no longer fit: the
    minimum along them is at a part of them, or at none.
    """
    o, row, link = KIND + WIDTH * FIRM, sweeps.row, sweeps.link
    rate, scale, give = how[o + RATE], how[o + SCALE], how[o + GIVE]
    for i in range(len(s.u)):
        rounds.u_last[i] = s.u[i]
    copy_sums(SUM, LAST, rows.sums)
    warm_start(first, last, link, bulk.inverse, row, s.u)
    status = post_stabilize(setup, tree, structure, WITH_FRICTION, h, rows, e, s, saddle)
    if status != 0:
        return status
    before, square = _descent(first, last, h, rate, scale, give, link, row, rounds.u_last)
    after, _ = _descent(first, last, h, rate, scale, give, link, row, s.u)
    part = -before / max(after - before + square, 1e-300)
    if part < 1.0:
        part = max(part, 0.0)
        for k in range(first, last):
            row[k, JN], row[k, JT] = part * row[k, JN], part * row[k, JT]
            row[k, JT + 1], row[k, JT + 2] = part * row[k, JT + 1], part * row[k, JT + 2]
        for i in range(len(s.u)):
            s.u[i] = rounds.u_last[i] + part * (s.u[i] - rounds.u_last[i])
        interpolate_sums(part, rows.sums)
    return 0


@outlined
def solve_with_joints(setup, tree, structure, first, last, at_end, how, h, rows, sweeps, bulk, rounds, e, s, saddle):
    """Solve the contacts first .. last - 1, those of islands with joints, and all joints; return a status.

    Args:
        setup, tree, structure: constants of the model, and the solver.
        first, last: contacts.
        at_end: whether the joints are to close at the end of h (`s.predicted` evaluated at the velocities now), in half
            as many rounds; else velocities are solved at the poses now.
        how, h: numbers of the options, and the step [s].
        rows, e, saddle: the joints and their factor.
        sweeps, bulk, rounds, s: contacts, bodies, scratch and state.
    """
    o, row, figures = KIND + WIDTH * FIRM, sweeps.row, rounds.figures
    times, enough, status, square = int(how[o + SWEEPS]), _ENOUGH, 0, 0.0
    if at_end:
        times, enough = (times + 1) // 2, _ENOUGH_AT_END
        _set_end_rates(setup, h, rows, e, s, saddle)
    as_one = last - first > _MANY or setup.constraints[0] > _MANY_JOINTS
    # damped steps take the responses at the poses of the detection: the joints' solve is of the poses now
    if as_one and not at_end and (how[GLOBAL] != DAMPED or figures.count[FILLED] == 0):
        set_figures(
            setup.system, tree, saddle.work, first, last, setup.constraints, sweeps.link, e.values, bulk.inverse,
            saddle.components, figures,
        )  # fmt: skip
        set_figure_masses(first, last, sweeps.link, bulk.inverse, row, figures, rounds.masses)
    as_one = as_one and figures.count[ALONE] == 0
    if as_one:
        times, enough = (times + _LARGE - 1) // _LARGE, max(enough, _ENOUGH_AS_ONE)
        swap_masses(first, last, row, rounds.masses)
        # at the end of a step rows and responses are still those of its start, but for these
        if not at_end or how[GLOBAL] == DAMPED or len(setup.table.compound) > 0:
            set_limit_masses(setup.system, e.j, figures)
    left = 0.0
    for k in range(times):
        save_impulses(first, last, row, rounds.last)
        copy_sums(SUM, LAST, rows.sums)
        for i in range(len(s.u)):
            rounds.u_last[i] = s.u[i]
        begin = ticks()
        if as_one:
            gather_velocities(k > 0, enough, s.u, figures)
            gather_limits(setup.system, setup.constraints[0], h, at_end, e.values, rows.target, rows.sums, figures)
            left = sweep_figures(
                setup.system, first, last, _SWEEPS, enough, sweeps.link, h, how[o + RATE], _DEPENETRATION,
                how[o + SCALE], how[o + GIVE], e.j, figures, row,
            )  # fmt: skip
            add_changes(first, last, sweeps.link, bulk.inverse, rounds.last, row, s.u)
        else:
            sweep(
                first, last, 1, sweeps.link, bulk.inverse, h, how[o + RATE], _DEPENETRATION, how[o + SCALE],
                how[o + GIVE], row, s.u,
            )  # fmt: skip
        bulk.spent[SWEPT] += ticks() - begin
        if at_end:
            status = _solve_end_rates(setup, tree, structure, rows, e, s, saddle)
        else:
            status = post_stabilize(setup, tree, structure, WITH_FRICTION, h, rows, e, s, saddle)
        before = square
        square, most = _changes(first, last, row, rounds.last)
        if status != 0 or k == times - 1 or most <= enough * enough:
            break
        if as_one and left <= enough and disagreement(first, last, sweeps.link, row, s.u, figures) <= enough:
            break
        part = square / before if k > 0 and square < before else 0.0
        _extrapolate(first, last, part, row, s.u, rounds)
        extrapolate_sums(part, rows.sums)
    if as_one:
        swap_masses(first, last, row, rounds.masses)
    return status


@outlined
def _alternate(begin, end, most, h, setup, tree, structure, rows, sweeps, bulk, e, s, saddle):
    """Solve the collision of two bodies in turn with the joints; return a status and the number of solves."""
    status, solves = 0, 0
    for _ in range(_ALTERNATIONS):
        changed = solve_pair(begin, end, sweeps.link, bulk.inverse, sweeps.row, s.u)
        if changed <= _BALANCED or solves >= most:
            break
        status = post_stabilize(setup, tree, structure, WITH_LIMITS, h, rows, e, s, saddle)
        solves += 1
        if status != 0:
            break
    add_impulses(begin, end, sweeps.row)
    return status, solves


@outlined
def collide_with_joints(
    # model
    setup, tree, structure,
    # in
    first, last, times, h, time, all_rows, rows, sweeps, bulk,
    # out
    e, s, saddle,
):  # fmt: skip
    """Apply the collision impulses of contacts first .. last - 1 of bodies with joints, pair by pair; return a status.

    Args:
        setup, tree, structure: constants of the model, and the solver.
        first, last: contacts.
        times: sweeps over the pairs.
        h, time: the substep and its start [s].
        all_rows, rows: of the joints.
        sweeps, bulk: contacts and bodies.
        e, s, saddle: rows, state and factor; e and the factor are of the poses now if any contact collided.
    """
    link, row, status, left, ready = sweeps.link, sweeps.row, 0, _SOLVES, False
    for _ in range(times):
        hits, begin = 0, first
        while begin < last:
            end = next_pair(begin, last, link)
            found = set_separation(begin, end, link, h, row, s.u)
            if found > 0:
                if not ready:
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
                    for r in range(len(s.last_force)):
                        s.last_force[r] = 0.0
                    clear_sums(len(rows.sums), rows.sums)
                    rows.soft.acting[0] = 0
                    status = factor_rows(setup, tree, structure, rows, e, s, saddle)
                    ready = True
                if status == 0:
                    status, solves = _alternate(
                        begin, end, left, h, setup, tree, structure, rows, sweeps, bulk, e, s, saddle
                    )
                    left -= solves
                if status != 0:
                    return status
            hits += found
            begin = end
        if hits == 0:
            break
    return status
