"""Constraint rows of bodies in maximal coordinates: right sides, one saddle solve, and projection onto the constraints.

`factor_and_solve` serves three modes with the same rows: displacements that close values (0), changes of velocity that
cancel rates (1), and accelerations (2). `project` brings poses and velocities back onto the constraints after a step.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from limberjack._jit import inner, kernel, outlined
from limberjack.constraints.system import System
from limberjack.constraints.table import INEQUALITY, ROTOR, SPRING, Table
from limberjack.errors import Status
from limberjack.linear.saddle import NO_ROOM, NO_SOLUTION, factor_saddle, list_active, row_mobility, solve_saddle
from limberjack.maximal.bodies import Bodies, move_bodies
from limberjack.maximal.forces import read_coordinates
from limberjack.maximal.rows import Evaluation, evaluate
from limberjack.maximal.soft_rows import SoftRows, set_soft_rhs
from limberjack.spatial.copies import HUGE

__all__ = [
    "ACTIVE_TOLERANCE", "BAUMGARTE", "BY_VELOCITIES", "FIRST_ORDER", "GAP_ALLOWED", "MAX_ITERATIONS", "MIDWAY",
    "NO_STABILIZATION", "PIECES", "PROJECT", "REPORT", "STIFFEST", "STIFFEST_BODY", "Setup", "State", "evaluate_state",
    "factor_and_solve", "finite_status", "project", "set_rhs", "solve_with_factor", "worst_row",
]  # fmt: skip

# Stabilisation: by projection, by Baumgarte's terms, none; by projection after semi-implicit steps; forces give
# velocities, not accelerations.
PROJECT, BAUMGARTE, NO_STABILIZATION, MIDWAY, FIRST_ORDER = range(5)
# An inequality row is active up to this value [m, rad]; a projection may leave an error of the next.
ACTIVE_TOLERANCE = 1e-10
GAP_ALLOWED = 1e-8
MAX_ITERATIONS = 30
# Columns of `State.report`: iterations of the projection, remaining error, its row, node of a failed pivot; pieces of
# the last step, whether it was taken by velocities alone, the largest `stiffness`, its body.
REPORT = 8
PIECES, BY_VELOCITIES, STIFFEST, STIFFEST_BODY = 4, 5, 6, 7
# Compliance of loop rows in projections of small errors, relative to the mobility of the row.
_SOFT = 1e-9


class Setup(NamedTuple):
    """The model in maximal coordinates, constant while the bodies move."""

    bodies: Bodies
    system: System
    table: Table
    row_block: np.ndarray
    scalable_pairs: np.ndarray
    center: np.ndarray  # (n, 3)
    constraints: np.ndarray  # (3,) number of equalities; of equalities and inequalities; of all
    gravity: np.ndarray  # (3,)
    free_joints: np.ndarray  # (k, 2) link and first velocity of the bodies on free joints
    soft: SoftRows  # springs, dampers, motors and grips that are rows, with laws set by the method


class State(NamedTuple):
    """Poses, velocities and scratch of the integrators; n bodies, nu velocities."""

    pose: np.ndarray  # (n, POSE)
    u: np.ndarray  # (nu,)
    q: np.ndarray  # (nq,) coordinates read off the poses
    qd: np.ndarray  # (nv,)
    tau: np.ndarray  # (nv,)
    added: np.ndarray  # (nv,)
    stage: np.ndarray  # (n, POSE)
    u_stage: np.ndarray  # (nu,)
    rates: np.ndarray  # (n, POSE)
    pose_sum: np.ndarray  # (n, POSE)
    u_sum: np.ndarray  # (nu,)
    before: np.ndarray  # (n, POSE)
    u_before: np.ndarray  # (nu,)
    near_before: np.ndarray  # (t,) angles, unwrapped
    compound_before: np.ndarray  # (k, ROWS - COORDINATES) coordinates of compound joints
    momentum: np.ndarray  # (nu,)
    force: np.ndarray  # (nu,) without the constraints
    predicted: Evaluation  # at the poses that a step predicts
    fresh: np.ndarray  # (1,) 1 where rows, factor and force belong to the current poses, 2 where the force alone does
    last_force: np.ndarray  # (r,) forces of inequality rows in the last stage, -1 for rows active in a projection
    constraint_force: np.ndarray  # (r,) forces of the constraint rows over the last step
    stiffness: np.ndarray  # (n,) bound on the squared frequency of each body under them [1/s^2]
    lever_mobility: np.ndarray  # (p, 2) |[r x] I^-1| of the levers r of each pair on its bodies; see `lever_mobility`
    report: np.ndarray  # (8,) see `REPORT`


@outlined
def set_rhs(table, rows, mode, h, stabilization, rate, values, last_force, rhs, compliance):
    """Fill the right sides r of all constraint rows, and the compliance of springs over a step h.

    In mode 1 springs act with their impulse over h, taken implicitly; with none where h is 0. MIDWAY halves the
    bias: see `methods/multipliers/step.py`. With FIRST_ORDER the accelerations of mode 2 are velocities, of bodies that
    are at rest otherwise: rows have their rates by time alone, and springs act by the force they end the step with.
    """
    for r in range(rows):
        first_order = mode == 2 and stabilization == FIRST_ORDER
        value = values[r, 1] if first_order else values[r, mode]
        if mode == 2 and stabilization == MIDWAY:
            value *= 0.5
        if mode == 2 and stabilization == BAUMGARTE and table.speed[r] == 0:
            value += 2.0 * rate * values[r, 1] + rate * rate * values[r, 0]
        if mode == 2 and stabilization == BAUMGARTE and table.speed[r] == 1:
            value += rate * values[r, 1]
        if mode == 2 and table.role[r] == INEQUALITY and last_force[r] == 0.0 and values[r, 1] > 0.0:
            # its separation speed reduces the acceleration that would bring it back within the step
            value += values[r, 1] / h
        compliance[r] = 0.0
        if mode == 0 and table.speed[r] == 1:
            value = 0.0
        if table.role[r] == SPRING:
            k, c = table.soft[r, 0], table.soft[r, 1]
            stiff = h * k + c if first_order else h * (h * k + c)
            # projections take no time, so springs do not act in them: the compliance is unbounded
            acts = mode != 0 and stiff > 0.0
            compliance[r] = 1.0 / stiff if acts else 1e12
            value = 0.0
            if acts and first_order:
                value = values[r, 1] + k * values[r, 0] / stiff
            elif acts and mode == 2:
                value = values[r, 2] + (k * values[r, 0] + (c + h * k) * values[r, 1]) / stiff
            elif acts:
                value = values[r, 1] + h * k * values[r, 0] / stiff
        if table.role[r] == ROTOR:
            # its inertia resists changes of velocity in every mode
            compliance[r] = table.soft[r, 0]
            value = values[r, 2] if mode == 2 and not first_order else 0.0
        rhs[r] = value


@outlined
def _add_loop_compliance(system, every, equalities, auxiliary, m, j, compliance):
    """Add a little compliance to the rows of loops: of all equality constraints where `every`, else of `auxiliary`."""
    for i in range(equalities if every else len(auxiliary)):
        c = i if every else auxiliary[i]
        for k in range(system.row_start[c + 1] - system.row_start[c]):
            r = system.row_start[c] + k
            if compliance[r] == 0.0:
                compliance[r] = _SOFT * row_mobility(system, c, k, m, j)


@inner
def factor_and_solve(setup, tree, structure, mode, h, stabilization, rate, active_tolerance, soft, e, s, saddle):
    """Factor and solve for saddle.f and the rows of e in a mode: values (0), rates (1), accelerations (2).

    Inequality rows with values up to `active_tolerance` are active. `soft`: near a pose where loops lose rank,
    directions that they hardly constrain are left as they are, since closing them to the last bit would amplify
    rounding.
    """
    rows = setup.system.row_start[setup.constraints[1]]
    set_rhs(setup.table, rows, mode, h, stabilization, rate, e.values, s.last_force, saddle.r, saddle.c)
    if len(setup.soft.row) > 0:
        set_soft_rhs(setup.soft, mode, h, e.values, saddle.r, saddle.c)
    if soft:
        _add_loop_compliance(setup.system, tree is None, setup.constraints[0], saddle.auxiliary, e.m, e.j, saddle.c)
    status = factor_saddle(setup.system, tree, structure, e.m, e.j, saddle)
    listed, rank = saddle.report[0], saddle.report[1]
    if status != 0:
        s.report[3] = status
        status = Status.INFEASIBLE
    else:
        status = solve_with_factor(setup, tree, structure, mode, active_tolerance, e, s, saddle)
    if soft:
        # compliant rows are all independent: the rank reported is that of the accelerations
        saddle.report[0], saddle.report[1] = listed, rank
    return status


@inner
def solve_with_factor(setup, tree, structure, mode, active_tolerance, e, s, saddle):
    """Solve with the current factor and right sides; return a status."""
    counts, listed = setup.constraints, saddle.responses
    rows = list_active(
        setup.system.row_start, counts[0], counts[1], e.values, active_tolerance, mode == 0, saddle.auxiliary,
        len(listed.constraint), s.last_force, listed.count, listed.constraint, saddle.low, saddle.high,
    )  # fmt: skip
    status = NO_ROOM
    if rows != NO_ROOM:
        status = solve_saddle(setup.system, tree, structure, rows, True, e.m, e.j, saddle)
    if status == NO_ROOM:
        status = Status.MORE_ROWS
    elif status == NO_SOLUTION:
        status = Status.INFEASIBLE
    return status


@inner
def worst_row(setup, e, s):
    """Return the largest position error of the constraint rows, and the row."""
    start, counts = setup.system.row_start, setup.constraints
    return _worst(start[counts[0]], start[counts[1]], setup.table.speed, setup.table.role, e.values, s.last_force)


@outlined
def _worst(equalities, rows, speed, role, values, last_force):
    worst, at = 0.0, -1
    for r in range(rows):
        if speed[r] == 1 or role[r] == SPRING:
            continue
        size = abs(values[r, 0]) if r < equalities or last_force[r] > 0.0 else -values[r, 0]
        if not size <= worst:
            worst, at = size, r
    return worst, at


@outlined
def _any_active(first, last, values):
    """Return whether anything needs projecting: an equality row, or an active inequality row."""
    if first > 0:
        return True
    for r in range(first, last):
        if values[r, 0] <= ACTIVE_TOLERANCE:
            return True
    return False


@inner
def project(setup, tree, structure, time, tolerance, rows, e, s, saddle):
    """Bring poses and velocities onto the constraints; rows and factor belong to the new poses afterwards."""
    nu = len(s.u)
    last, least, worst, status = np.inf, np.inf, 0.0, 0
    bodies = setup.bodies
    for iteration in range(MAX_ITERATIONS):
        evaluate(bodies, setup.system, setup.table, setup.row_block, setup.scalable_pairs, time, rows, s.pose, s.u, e)
        worst, at = worst_row(setup, e, s)
        s.report[0] = iteration
        if worst < least or not worst < 1e100:
            least = worst
            s.report[1], s.report[2] = worst, at
        if worst <= tolerance or (worst < GAP_ALLOWED and worst > 0.5 * last) or not worst < 1e100:
            break
        last = worst
        for k in range(nu):
            saddle.f[k] = 0.0
        active_tolerance, soft = max(ACTIVE_TOLERANCE, 10.0 * worst), worst < GAP_ALLOWED
        status = factor_and_solve(
            setup, tree, structure, np.int64(0), 0.0, np.int64(PROJECT), 0.0, active_tolerance, soft, e, s, saddle
        )
        if status != 0:
            break
        move_bodies(bodies, 1.0, saddle.a, s.pose)
    if status == Status.INFEASIBLE or (status == 0 and not worst <= GAP_ALLOWED):
        return Status.OPEN_LOOP
    start, counts = setup.system.row_start, setup.constraints
    if status == 0 and _any_active(start[counts[0]], start[counts[1]], e.values):
        for k in range(nu):
            saddle.f[k] = 0.0
        status = factor_and_solve(
            setup, tree, structure, np.int64(1), 0.0, np.int64(PROJECT), 0.0, ACTIVE_TOLERANCE, True, e, s, saddle
        )
        if status == 0:
            for k in range(nu):
                s.u[k] += saddle.a[k]
    return status


@kernel
def evaluate_state(
    # model
    setup,
    # in
    time,
    # out
    e, s,
):  # fmt: skip
    """Evaluate all rows at the current state, those of coordinates included, and fill q and qd of their joints."""
    rows = setup.system.row_start[setup.constraints[2]]
    evaluate(setup.bodies, setup.system, setup.table, setup.row_block, setup.scalable_pairs, time, rows, s.pose, s.u, e)
    read_coordinates(setup, s.pose, e, s.q, s.qd)
    worst, at = worst_row(setup, e, s)
    s.report[1], s.report[2] = worst, at


@outlined
def finite_status(u):
    """Return 0, or Status.NOT_FINITE + the first velocity that is not finite."""
    for k in range(len(u)):
        if not abs(u[k]) < HUGE:
            return Status.NOT_FINITE + k
    return 0
