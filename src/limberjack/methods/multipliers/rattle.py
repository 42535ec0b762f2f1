"""RATTLE: half of the forces, impulses along J of the start that close the joints at the end, half of the forces.

A body of angular momentum L turns over a step h by t with t = h I(exp(t/2) R)^-1 L, so that L of a free body is
conserved. Rows and factor at the new poses serve the velocities of this step and the impulses of the next: one
factorisation per step; two while a grip pulls, by an implicit impulse at the end of each step.
"""

from __future__ import annotations

import numpy as np

from limberjack._jit import inner, kernel, outlined
from limberjack.constraints.rows import COORDINATES, ROWS
from limberjack.constraints.table import SPRING
from limberjack.errors import Status
from limberjack.linear.saddle import factor_saddle
from limberjack.maximal.bodies import PARTICLE, PLANAR, POSE, RIGID, ROTATION, midpoint_rotation, rotated, world_inertia
from limberjack.maximal.forces import count_turns, forces
from limberjack.maximal.rows import evaluate, evaluate_predicted, remove_gyroscopic
from limberjack.maximal.solve import (
    ACTIVE_TOLERANCE,
    GAP_ALLOWED,
    MAX_ITERATIONS,
    PROJECT,
    factor_and_solve,
    finite_status,
    set_rhs,
    solve_with_factor,
    worst_row,
)
from limberjack.methods.multipliers.pieces import (
    CONSERVING,
    copy_state,
    next_attempt,
    note_attempt,
    pieces_needed,
    set_stiffness,
    velocity_step,
)
from limberjack.spatial.solves import solve_symmetric_3

__all__ = ["take_rattle_steps"]

# Corrections that stall above this are not stopped by rounding: the rows have lost rank [m, rad].
_STALLED = 1e-10


@outlined
def _free_flight(bodies, h, momentum, before, pose):
    """Move the poses in `before` by h with the momenta, into `pose`."""
    kinds, start, t = bodies.kind, bodies.start, ROTATION
    for i in range(len(kinds)):
        kind, o = kinds[i], start[i]
        linear = o + 3 if kind == RIGID else o
        f = h / bodies.mass[i]
        pose[i, 0] = before[i, 0] + f * momentum[linear]
        pose[i, 1] = before[i, 1] + f * momentum[linear + 1]
        pose[i, 2] = before[i, 2] + (0.0 if kind == PLANAR else f * momentum[linear + 2])
        if kind == PARTICLE:
            continue
        orientation = before[i, t], before[i, t + 1], before[i, t + 2], before[i, t + 3]
        if kind == RIGID:
            x, y, z = midpoint_rotation(
                bodies.inertia, i, h, orientation, momentum[o], momentum[o + 1], momentum[o + 2]
            )
        else:
            x, y, z = 0.0, 0.0, h * momentum[o + 2] / bodies.inertia[i, 2]
        pose[i, t], pose[i, t + 1], pose[i, t + 2], pose[i, t + 3] = rotated(orientation, x, y, z)


@outlined
def _add_momentum(bodies, m, a, momentum):
    """Add M a to the momenta."""
    kinds, start, block = bodies.kind, bodies.start, bodies.block
    for i in range(len(kinds)):
        o, d, k = start[i], start[i + 1] - start[i], block[i]
        for r in range(d):
            for c in range(d):
                momentum[o + r] += m[k + r * d + c] * a[o + c]


@outlined
def _velocities(bodies, pose, ends, momentum, u):
    """Fill u from the momenta at the poses of `ends`."""
    kinds, start = bodies.kind, bodies.start
    for i in range(len(kinds)):
        kind, o, f = kinds[i], start[i], 1.0 / bodies.mass[i]
        if kind == RIGID:
            g = world_inertia(i, kind, bodies, pose, ends)
            _, u[o], u[o + 1], u[o + 2] = solve_symmetric_3(g, momentum[o], momentum[o + 1], momentum[o + 2])
            u[o + 3], u[o + 4], u[o + 5] = f * momentum[o + 3], f * momentum[o + 4], f * momentum[o + 5]
        else:
            u[o], u[o + 1] = f * momentum[o], f * momentum[o + 1]
            u[o + 2] = momentum[o + 2] / bodies.inertia[i, 2] if kind == PLANAR else f * momentum[o + 2]


@inner
def _rattle(
    setup, tree, structure, springs, drives, armature, span, driven, h, time, tolerance, rows, wrenches, applied, e, s,
    saddle,
):  # fmt: skip
    """Take one RATTLE step; rows and factor belong to the new poses afterwards."""
    bodies, nu, n = setup.bodies, len(s.u), len(s.pose)
    active_rows = setup.system.row_start[setup.constraints[1]]
    if s.fresh[0] != 1:
        evaluate(bodies, setup.system, setup.table, setup.row_block, setup.scalable_pairs, time, rows, s.pose, s.u, e)
        if s.fresh[0] == 0:
            forces(setup, springs, drives, armature, span, driven, h < 0.0, wrenches, applied, s.pose, e, s, s.force)
            remove_gyroscopic(bodies, e.ends, s.pose, s.force)
        set_rhs(
            setup.table, active_rows, np.int64(0), h, np.int64(PROJECT), 0.0, e.values, s.last_force, saddle.r, saddle.c
        )
        failed = factor_saddle(setup.system, tree, structure, e.m, e.j, saddle)
        if failed != 0:
            s.report[3] = failed
            return Status.INFEASIBLE
    for r in range(len(s.last_force)):
        s.last_force[r] = 0.0
        s.constraint_force[r] = 0.0
    for i in range(n):
        for c in range(POSE):
            s.stage[i, c] = s.pose[i, c]
    for k in range(nu):
        s.momentum[k] = 0.5 * h * s.force[k]
    _add_momentum(bodies, e.m, s.u, s.momentum)
    status, worst, last = 0, 0.0, np.inf
    for t in range(len(e.near)):
        s.predicted.near[t] = e.near[t]
    compound = setup.table.compound
    for t in range(len(compound)):
        for c in range(COORDINATES, ROWS):
            s.predicted.state[compound[t, 0], c] = e.state[compound[t, 0], c]
    for iteration in range(MAX_ITERATIONS):
        _free_flight(bodies, h, s.momentum, s.stage, s.pose)
        evaluate_predicted(setup, time + h, s.pose, s.u, s.predicted)
        worst, at = worst_row(setup, s.predicted, s)
        s.report[0], s.report[1], s.report[2] = iteration, worst, at
        if worst <= tolerance or (worst < GAP_ALLOWED and worst > 0.5 * last) or not worst < 1e100:
            break
        last = worst
        for k in range(nu):
            saddle.f[k] = 0.0
        values = s.predicted.values
        set_rhs(
            setup.table, active_rows, np.int64(0), h, np.int64(PROJECT), 0.0, values, s.last_force, saddle.r, saddle.c
        )
        for r in range(len(saddle.r)):
            saddle.r[r] /= h
        for r in range(len(e.values)):
            e.values[r, 0] = s.predicted.values[r, 0]
        status = solve_with_factor(setup, tree, structure, np.int64(0), ACTIVE_TOLERANCE, e, s, saddle)
        if status != 0:
            return Status.OPEN_LOOP if status == Status.INFEASIBLE else status
        _add_momentum(bodies, e.m, saddle.a, s.momentum)
        for r in range(len(s.constraint_force)):
            s.constraint_force[r] += saddle.lam[r]
    if not worst <= max(_STALLED, tolerance):
        return Status.OPEN_LOOP
    pieces = pieces_needed(h, set_stiffness(setup, 1.0 / h, e, s), CONSERVING)
    if pieces > 1:
        return Status.NOT_CONVERGED + pieces
    # velocities: half of the forces at the new poses, then projected onto the constraints
    for t in range(len(e.near)):
        e.near[t] = s.predicted.near[t]
    _velocities(bodies, s.pose, s.predicted.ends, s.momentum, s.u)
    evaluate(bodies, setup.system, setup.table, setup.row_block, setup.scalable_pairs, time + h, rows, s.pose, s.u, e)
    forces(setup, springs, drives, armature, span, driven, h < 0.0, wrenches, applied, s.pose, e, s, s.force)
    remove_gyroscopic(bodies, e.ends, s.pose, s.force)
    for k in range(nu):
        saddle.f[k] = 0.5 * h * s.force[k]
    # grips act here, implicitly over the whole step
    status = factor_and_solve(
        setup, tree, structure, np.int64(1), h, np.int64(PROJECT), 0.0, ACTIVE_TOLERANCE, False, e, s, saddle
    )
    for k in range(nu):
        s.u[k] += saddle.a[k]
    return status


@inner
def _take_pieces(
    setup, tree, structure, springs, drives, armature, span, driven, pieces, by_velocities, first, substeps, h,
    tolerance, time, rows, done, wrenches, applied, e, s, saddle,
):  # fmt: skip
    """Take `substeps` steps of h, each in pieces, the first of them step number `first`; return a status."""
    for piece in range(pieces * substeps):
        at = time + (first + piece / pieces) * h
        if by_velocities:
            status = velocity_step(
                setup, tree, structure, springs, drives, armature, span, driven, h / pieces, at, tolerance, rows,
                wrenches, applied, e, s, saddle,
            )  # fmt: skip
        else:
            status = _rattle(
                setup, tree, structure, springs, drives, armature, span, driven, h / pieces, at, tolerance, rows,
                wrenches, applied, e, s, saddle,
            )  # fmt: skip
        s.fresh[0] = done if status == 0 and not by_velocities else 0
        if status != 0:
            return status
    return finite_status(s.u)


@kernel
def take_rattle_steps(
    # model
    setup, tree, structure, springs, drives, armature, span,
    # in
    driven, n, substeps, h, tolerance, time, wrenches, applied, e, saddle,
    # out
    s,
):  # fmt: skip
    """Take n steps of `substeps` times h; arguments and result as of `step.take_steps`."""
    start = setup.system.row_start
    rows = start[setup.constraints[2]] if driven else start[setup.constraints[1]]
    # with grips the factor of the velocities has compliance where that of the poses must not
    done = 1
    for r in range(start[setup.constraints[0]]):
        if setup.table.role[r] == SPRING:
            done = 2
    for step in range(n):
        copy_state(True, setup.table, e, s, s.before, s.u_before, s.near_before, s.compound_before)
        pieces, by_velocities = 1, False
        while True:
            status = _take_pieces(
                setup, tree, structure, springs, drives, armature, span, driven, pieces, by_velocities, step * substeps,
                substeps, h, tolerance, time, rows, done, wrenches, applied, e, s, saddle,
            )  # fmt: skip
            note_attempt(pieces, by_velocities, s.report)
            if status == 0:
                break
            copy_state(False, setup.table, e, s, s.before, s.u_before, s.near_before, s.compound_before)
            pieces, by_velocities = next_attempt(status, pieces, by_velocities, len(springs.link))
            if pieces == 0:
                return step, status
        if not driven:
            count_turns(setup, e)
    return n, 0
