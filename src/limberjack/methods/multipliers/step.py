"""Steps of bodies under constraints: rows -> factor -> solve primary -> solve auxiliary -> integrate -> project.

| integrator | a step of h | order |
|---|---|---|
| euler | x += h u, then u += h a | 1 |
| semi_implicit | u += h a, then x += h u; stiff springs, dampers and motors as below | 1, energy bounded |
| implicit | springs, dampers and motors taken at the end of the step | 1, damps |
| rk4 | classical Runge-Kutta, quaternions in R^4 and normalised | 4 |

`rattle.py` has the integrator of that name. In semi-implicit and implicit steps springs, dampers, motors, soft
limits and grips are compliant rows of the same solve (`maximal/soft_rows.py`), stable at any stiffness; in the others
they are forces at the start of a stage.

Where poses and velocities are projected after a semi-implicit step, constraints get half of the bias acceleration that
keeps bodies on curved paths: x + h u then lies on the path to h^3, and the velocity rotated into it keeps its length.
With the whole of it, each step of a pendulum that turns by the angle w would gain w^2 of its kinetic energy.

Reference: Baraff 1996, section 4.2, equation (5), for the rows, and section 8.2 for the steps of a solve.
"""

from __future__ import annotations

import numpy as np

from limberjack._jit import inner, kernel, outlined
from limberjack.errors import Status
from limberjack.maximal.bodies import POSE, add_geometric_inertia, move_bodies, normalize_poses, pose_rates
from limberjack.maximal.forces import count_turns, forces
from limberjack.maximal.rows import evaluate
from limberjack.maximal.soft_rows import AT_END, CONSERVING, add_soft_forces, set_soft_laws, switch_soft_rows
from limberjack.maximal.solve import (
    ACTIVE_TOLERANCE,
    FIRST_ORDER,
    MIDWAY,
    PROJECT,
    STIFFEST,
    factor_and_solve,
    finite_status,
    project,
)
from limberjack.methods.multipliers.pieces import (
    DISSIPATIVE,
    SWITCHES,
    copy_state,
    next_attempt,
    note_attempt,
    note_forces,
    pieces_needed,
    set_stiffness,
    velocity_step,
)

__all__ = ["take_steps"]

EULER, SEMI_IMPLICIT, RK4, IMPLICIT, RATTLE = range(5)
# Value of `State.fresh` where a step of first order goes on with the `stiffness` of the one before.
SAME_STIFFNESS = 3


@inner
def _accelerate(
    setup, tree, structure, springs, drives, armature, span, driven, implicit, stabilization, h, rate, time, rows,
    wrenches, applied, pose, u, e, s, saddle,
):  # fmt: skip
    """Fill saddle.a with the accelerations at (pose, u)."""
    # J and c of equation (5), F_ext of equation (6)
    evaluate(setup.bodies, setup.system, setup.table, setup.row_block, setup.scalable_pairs, time, rows, pose, u, e)
    is_soft = len(setup.soft.row) > 0
    forces(setup, springs, drives, armature, span, driven, is_soft, wrenches, applied, pose, e, s, saddle.f)
    if is_soft:
        set_soft_laws(setup, drives, h, AT_END if implicit else CONSERVING, setup.soft, e, s)
    status = 0
    for _ in range(SWITCHES):
        status = factor_and_solve(
            setup, tree, structure, np.int64(2), h, stabilization, rate, ACTIVE_TOLERANCE, False, e, s, saddle
        )
        if status != 0 or not is_soft:
            break
        for k in range(len(u)):
            s.momentum[k] = u[k] + h * saddle.a[k]
        if not switch_soft_rows(setup, setup.soft, e, s.momentum):
            break
    if is_soft and driven and status == 0:
        add_soft_forces(setup.table, setup.soft, saddle.lam, s.tau)
    start, counts = setup.system.row_start, setup.constraints
    note_forces(start[counts[0]], saddle.lam, s)
    stiffest = 0.0
    if stabilization == FIRST_ORDER and status == 0:
        # with contacts, the inertia of the step without them: their forces were found with it
        stiffest = s.report[STIFFEST] if s.fresh[0] == SAME_STIFFNESS else set_stiffness(setup, 1.0, e, s)
    if h * stiffest > 1.0:
        add_geometric_inertia(setup.bodies, h, s.stiffness, e.m)
        forces(setup, springs, drives, armature, span, driven, is_soft, wrenches, applied, pose, e, s, saddle.f)
        status = factor_and_solve(
            setup, tree, structure, np.int64(2), h, stabilization, rate, ACTIVE_TOLERANCE, False, e, s, saddle
        )
    for r in range(start[counts[0]], start[counts[1]]):
        s.last_force[r] = saddle.lam[r]
    return status


@inner
def _one_step(
    setup, tree, structure, springs, drives, armature, span, code, first_order, stabilization, guarded, driven, h, rate,
    tolerance, time, wrenches, applied, e, s, saddle,
):  # fmt: skip
    """Take one step of h; return a status, where `guarded` NOT_CONVERGED + pieces if it would not be stable."""
    bodies, nu, n = setup.bodies, len(s.u), len(s.pose)
    start = setup.system.row_start
    rows = start[setup.constraints[2]] if driven else start[setup.constraints[1]]
    multistage = code == RK4
    bias = stabilization
    if first_order:
        bias = np.int64(FIRST_ORDER)
    elif stabilization == PROJECT and (code == SEMI_IMPLICIT or code == IMPLICIT):
        bias = np.int64(MIDWAY)
    start_pose, start_u = s.stage, s.u_stage
    for i in range(n):
        for c in range(POSE):
            start_pose[i, c] = s.pose[i, c]
            s.pose_sum[i, c] = 0.0
    for k in range(nu):
        if first_order:
            s.u[k] = 0.0
        start_u[k] = s.u[k]
        s.u_sum[k] = 0.0
    for r in range(len(s.last_force)):
        s.last_force[r] = 0.0
    has_loops = tree is None or len(saddle.auxiliary) > 0
    stages = 4 if multistage else 1
    at, status = time, 0
    for stage in range(stages):
        status = _accelerate(
            setup, tree, structure, springs, drives, armature, span, driven, code == IMPLICIT, bias, h, rate, at, rows,
            wrenches, applied, s.pose, s.u, e, s, saddle,
        )  # fmt: skip
        if status != 0:
            return status
        if guarded and stage == 0:
            pieces = pieces_needed(h, set_stiffness(setup, 1.0, e, s), DISSIPATIVE)
            if pieces > 1:
                return Status.NOT_CONVERGED + pieces
        if multistage:
            pose_rates(bodies, s.pose, s.u, s.rates)
        at = _next_stage(
            stage, stages, h, time, saddle.a, start_pose, start_u, s.rates, s.pose, s.pose_sum, s.u, s.u_sum
        )
        if multistage:
            # stages of a tree may have open joints, of loops not: near poses where they lose rank, the forces that
            # close errors of h^2 are amplified without bound
            if stage == 3 or (has_loops and stabilization == PROJECT):
                normalize_poses(s.pose)
        else:
            if first_order:
                for k in range(nu):
                    s.u[k] = s.u_sum[k]
            move_bodies(bodies, h, start_u if code == EULER and not first_order else s.u, s.pose)
        if stage == stages - 1:
            status = finite_status(s.u)
            if status != 0:
                return status
        if stabilization == PROJECT and (has_loops or stage == stages - 1):
            status = project(setup, tree, structure, at, tolerance, rows, e, s, saddle)
            if status != 0:
                return status
            if stage < stages - 1:
                for r in range(len(s.last_force)):
                    s.last_force[r] = max(s.last_force[r], 0.0)
    return 0


@outlined
def _next_stage(stage, stages, h, time, a, start_pose, start_u, rates, pose, pose_sum, u, u_sum):
    """Advance to the next stage, after the last one to the end of the step; return its time.

    Poses are advanced here only when there are several stages.
    """
    last = stage == stages - 1
    multistage = stages > 1
    weight = (1.0 if stage == 0 or last else 2.0) / 6.0 if multistage else 1.0
    offset = 0.5 * h if stage < 2 and not last else h
    if multistage:
        for i in range(len(pose)):
            for c in range(POSE):
                pose_sum[i, c] += weight * rates[i, c]
                pose[i, c] = start_pose[i, c] + offset * (pose_sum[i, c] if last else rates[i, c])
    for k in range(len(u)):
        u_sum[k] += weight * a[k]
        u[k] = start_u[k] + offset * (u_sum[k] if last else a[k])
    return time + offset


@inner
def _take_pieces(
    setup, tree, structure, springs, drives, armature, span, code, first_order, stabilization, guarded, driven, pieces,
    by_velocities, first, substeps, h, rate, tolerance, time, wrenches, applied, e, s, saddle,
):  # fmt: skip
    """Take `substeps` steps of h, each in pieces, the first of them step number `first`; return a status."""
    start = setup.system.row_start
    rows = start[setup.constraints[2]] if driven else start[setup.constraints[1]]
    for piece in range(pieces * substeps):
        at = time + (first + piece / pieces) * h
        if by_velocities:
            status = velocity_step(
                setup, tree, structure, springs, drives, armature, span, driven, h / pieces, at, tolerance,
                rows, wrenches, applied, e, s, saddle,
            )  # fmt: skip
        else:
            status = _one_step(
                setup, tree, structure, springs, drives, armature, span, code, first_order, stabilization, guarded,
                driven, h / pieces, rate, tolerance, at, wrenches, applied, e, s, saddle,
            )  # fmt: skip
        s.fresh[0] = 1 if status == 0 else 0
        if status != 0:
            return status
    return finite_status(s.u)


@kernel
def take_steps(
    # model
    setup, tree, structure, springs, drives, armature, span,
    # in
    code, first_order, stabilization, driven, n, substeps, h, rate, tolerance, time, wrenches, applied, e, saddle,
    # out
    s,
):  # fmt: skip
    """Take n steps of `substeps` times h; stop at the first that fails and restore the state before it.

    Args:
        setup: the model in maximal coordinates.
        tree, structure: of the direct solver; one of them is None.
        springs, drives: of the model.
        armature: (nv,) zeros.
        span: the whole model.
        code: the integrator.
        first_order: whether forces give velocities, f = m v.
        stabilization: PROJECT, BAUMGARTE or NO_STABILIZATION.
        driven: whether any joint has a force along its coordinates.
        n: steps.
        substeps: integrator steps per step.
        h: its length [s].
        rate: of Baumgarte's terms [1/s].
        tolerance: error at which projections end.
        time: at the start [s].
        wrenches: lasting wrenches.
        applied: (nv,) joint forces.
        e, saddle: scratch.
        s: the state.

    Returns:
        steps taken, and 0, Status.NOT_FINITE + velocity, Status.OPEN_LOOP, INFEASIBLE, MORE_ROWS or NOT_CONVERGED.
    """
    guarded = stabilization == PROJECT and code != EULER and not first_order
    for step in range(n):
        copy_state(True, setup.table, e, s, s.before, s.u_before, s.near_before, s.compound_before)
        pieces, by_velocities = 1, False
        while True:
            status = _take_pieces(
                setup, tree, structure, springs, drives, armature, span, code, first_order, stabilization, guarded,
                driven, pieces, by_velocities, step * substeps, substeps, h, rate, tolerance, time, wrenches, applied,
                e, s, saddle,
            )  # fmt: skip
            note_attempt(pieces, by_velocities, s.report)
            if status == 0:
                break
            copy_state(False, setup.table, e, s, s.before, s.u_before, s.near_before, s.compound_before)
            if stabilization != PROJECT:
                return step, status
            pieces, by_velocities = next_attempt(status, pieces, by_velocities, len(springs.link))
            if pieces == 0 or (first_order and by_velocities):
                return step, status
        if not driven:
            count_turns(setup, e)
    return n, 0
