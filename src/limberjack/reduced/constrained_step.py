"""Steps of trees with constraint rows: loops, limits, gears, velocity constraints and grips.

kinematics -> forces -> articulated bodies -> rows (`rows.py`) -> integrate -> project positions, then velocities.

All integrators of `step.py` but `momentum` are offered. The projection is a Newton iteration in the metric of the mass;
a row at velocity level only (no slip, carrier gears) is projected in velocity alone. Inequality rows enter the
accelerations while they are active, and the projections when a step would pass them: limits are satisfied exactly and
are inelastic, and their forces and impulses never pull.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from limberjack._jit import inner, kernel, outlined
from limberjack.constraints.rows import GAP, LEVER_A, LEVER_B, relative_rotation
from limberjack.constraints.table import DRIVE, EQUALITY, INEQUALITY
from limberjack.errors import Status
from limberjack.model.arrays import COORDINATE, DOF, LINK, SPAN
from limberjack.reduced.aba import accelerations, articulate, solve_accelerations
from limberjack.reduced.drives import ball_drive, drive_forces, scalar_drive
from limberjack.reduced.forces import apply_springs, apply_wrenches
from limberjack.reduced.integrate import add_stage, advance, begin_stages, end_stages, explicit_step
from limberjack.reduced.kinematics import kinematics
from limberjack.reduced.rows import (
    ACCELERATION,
    ACTIVE_GAP,
    AHEAD,
    GIVING,
    NO_ROOM,
    POSITION,
    ROW,
    ROW_END,
    SINGULAR,
    VELOCITY,
    apply_multipliers,
    evaluate_rows,
    forget,
    response_matrix,
    select_rows,
    solve_rows,
    takes_known,
)
from limberjack.reduced.step import EULER, IMPLICIT, RK4, finite_status
from limberjack.reduced.work import P, based
from limberjack.spatial.vectors import cross

__all__ = [
    "ACCELERATIONS",
    "LoopState",
    "constrain",
    "evaluate_soft_rows",
    "needs_projection",
    "new_loop_state",
    "part_left",
    "project_positions",
    "take_constrained_steps",
]

# Positions are projected until no row is off by more than this [m, rad], or until Newton's steps no longer help.
CLOSED = 1e-13
# A loop left open by more than this is an error [m, rad].
GAP_ALLOWED = 1e-8
# Near singular poses steps are damped, and converge slowly; the last ones are not, in case that is why none closed.
_MOST_ITERATIONS, _DAMPED = 230, 200
# In place of an integrator: no step, velocities are replaced by the accelerations.
ACCELERATIONS = 16


class LoopState(NamedTuple):
    """Coordinates, velocities, forces and drives of loop joints, which are not in q and qd."""

    q: np.ndarray
    qd: np.ndarray
    tau: np.ndarray  # applied by the user
    indices: np.ndarray  # (r, 2) of each DRIVE row: indices in q and qd
    scalar: np.ndarray  # (s, 12) as in `Drives`
    ball: np.ndarray  # (b, 18)


def new_loop_state(nq: int, nv: int, indices: Any, scalar: Any, ball: Any) -> LoopState:
    """Return the state of loop joints with nq coordinates and nv dofs."""
    return LoopState(
        np.zeros(nq), np.zeros(nv), np.zeros(nv),
        np.array(indices, np.int64).reshape(-1, 2), np.array(scalar, float).reshape(-1, 12),
        np.array(ball, float).reshape(-1, 18),
    )  # fmt: skip


@inner
def _apply_row_force(table, r, tau, state, wrench, rows):
    """Subtract the force tau along row r, of one pair, from the bias forces of its links."""
    k = table.row_pair[r, 0]
    fx, fy, fz = tau * wrench[r, 3], tau * wrench[r, 4], tau * wrench[r, 5]
    for end in range(2):
        i = table.pair_link[k, end]
        if i < 0:
            continue
        lever = LEVER_A if end == 0 else LEVER_B
        x, y, z = state[k, lever], state[k, lever + 1], state[k, lever + 2]
        sign = 1.0
        if end == 0:
            x, y, z, sign = x + state[k, GAP], y + state[k, GAP + 1], z + state[k, GAP + 2], -1.0
        cx, cy, cz = cross(x, y, z, fx, fy, fz)
        rows[i, P] -= sign * (tau * wrench[r, 0] + cx)
        rows[i, P + 1] -= sign * (tau * wrench[r, 1] + cy)
        rows[i, P + 2] -= sign * (tau * wrench[r, 2] + cz)
        rows[i, P + 4] -= sign * fx
        rows[i, P + 5] -= sign * fy
        rows[i, P + 6] -= sign * fz


@outlined
def evaluate_soft_rows(
    # model
    table, loop_state,
    # in
    k, h, soft, ahead, share, constraint, rows,
):  # fmt: skip
    """Evaluate force, stiffness and damping of the soft rows of block k; explicit forces of loop joints act at once.

    Args:
        table, loop_state: the rows and the loop joints.
        k: the block.
        h: time over which drives are implicit, 0 for none [s].
        soft: whether drives act as soft rows, or as explicit forces.
        ahead: whether forces are those of the values ahead, or of the values at the pose.
        share: of the forces that acts.
        constraint: `compliance` is filled.
        rows: of the work arrays.
    """
    values, compliance = constraint.values, constraint.compliance
    r = constraint.blocks[k, ROW]
    while r < constraint.blocks[k, ROW_END]:
        role = table.role[r]
        value = constraint.ahead[r] if ahead else values[r, 0]
        if role > INEQUALITY and role != DRIVE:
            compliance[r, 1], compliance[r, 2] = share * table.soft[r, 0], share * table.soft[r, 1]
            compliance[r, 0] = compliance[r, 1] * value + compliance[r, 2] * values[r, 1]
        if role != DRIVE:
            r += 1
            continue
        iq, iv, width = loop_state.indices[r, 0], loop_state.indices[r, 1], 1
        row = table.drive[r, 1]
        if table.speed[r] == 1:  # the first of the three rows of a ball
            width = 3
            w, x, y, z = relative_rotation(constraint.state, table.row_pair[r, 0])
            loop_state.q[iq], loop_state.q[iq + 1], loop_state.q[iq + 2], loop_state.q[iq + 3] = w, x, y, z
            for c in range(3):
                loop_state.qd[iv + c] = values[r + c, 1]
                compliance[r + c, 0], compliance[r + c, 1], compliance[r + c, 2] = 0.0, 0.0, 0.0
            if row >= 0:
                fx, fy, fz, bx, by, bz = ball_drive(row, loop_state.ball, h, loop_state.q, iq, loop_state.qd, iv)
                compliance[r, 0], compliance[r + 1, 0], compliance[r + 2, 0] = -fx, -fy, -fz
                # what the drive adds to the inertia, as damping over the step
                if h > 0.0:
                    compliance[r, 2], compliance[r + 1, 2], compliance[r + 2, 2] = bx / h, by / h, bz / h
        else:
            loop_state.q[iq], loop_state.qd[iv] = value, values[r, 1]
            compliance[r, 0], compliance[r, 1], compliance[r, 2] = 0.0, 0.0, 0.0
            if table.drive[r, 0] >= 0:
                f, stiff, damp = scalar_drive(
                    table.drive[r, 0], loop_state.scalar, 0.0 if ahead else h, loop_state.q[iq], loop_state.qd[iv]
                )
                compliance[r, 0], compliance[r, 1], compliance[r, 2] = -f, stiff, damp
        for c in range(width):
            force = loop_state.tau[iv + c]
            # a drive without stiffness and damping (its motor at its largest force) is an explicit force
            if not (soft and (compliance[r + c, 1] > 0.0 or compliance[r + c, 2] > 0.0)):
                force -= compliance[r + c, 0]
                compliance[r + c, 0], compliance[r + c, 1], compliance[r + c, 2] = 0.0, 0.0, 0.0
            for t in range(3):
                compliance[r + c, t] *= share
            if force != 0.0:
                _apply_row_force(table, r + c, share * force, constraint.state, constraint.wrench, rows)
        r += width


@inner
def constrain(links, table, span, k, mode, h, margin, soft, again, work, constraint, qdd):
    """Solve the rows of block k in `mode` on work left by `articulate`: fill qdd, or a correction; return a status.

    h is the step; of positions 1, or 0 for steps that are not damped near singular poses. With `again`, the pose and
    what `articulate` left are those of the last solve in this mode.
    """
    if not again:
        forget(constraint)
    count = select_rows(links, table, k, mode, h, margin, soft, work.rows, qdd, constraint)
    if count == NO_ROOM:
        return Status.MORE_ROWS
    if count == 0:
        if mode == GIVING:
            return 0
        if mode == VELOCITY or mode == POSITION:
            for v in range(span[DOF], span[DOF + 1]):
                qdd[v] = 0.0
        if mode == AHEAD:
            for r in range(constraint.blocks[k, ROW], constraint.blocks[k, ROW_END]):
                constraint.multipliers[r] = 0.0
        return 0
    damping = 0.0 if mode == VELOCITY or mode == GIVING else h * h
    if not takes_known(k, count, constraint):
        response_matrix(links, table, span, k, count, h, damping, work, constraint)
    status = solve_rows(count, constraint)
    if mode == ACCELERATION or mode == AHEAD:
        for r in range(constraint.blocks[k, ROW], constraint.blocks[k, ROW_END]):
            constraint.multipliers[r] = 0.0
        for j in range(count):
            constraint.multipliers[constraint.rows[j]] = constraint.force[j]
    apply_multipliers(links, span, count, mode == VELOCITY or mode == POSITION, constraint, work)
    solve_accelerations(links, span, work.subspace, work.reduced, work.pivot, work.rest, work.rows, qdd)
    return Status.INFEASIBLE if status != 0 else 0


@inner
def _dynamics(
    links, drives, springs, table, loop_state, span, k, h, time, reach, q, qd, applied, wrenches, work, spring_work,
    constraint, tau, added, qdd,
):  # fmt: skip
    """Fill qdd at (q, qd) with all rows of block k acting; return 0 or the code of what failed."""
    kinematics(links, span, q, qd, work)
    apply_wrenches(span, wrenches, work.rows)
    drive_forces(drives, links.armature, span, reach, q, qd, applied, tau, added)
    if len(springs.link) > 0 and reach == 0.0:
        apply_springs(links, springs, span, qd, work, spring_work)
    evaluate_rows(links, table, span, k, time, q, qd, work, constraint)
    evaluate_soft_rows(table, loop_state, k, reach, reach > 0.0, False, 1.0, constraint, work.rows)
    status = accelerations(links, span, added, tau, work, qdd)
    if status == 0:
        status = constrain(
            links, table, span, k, ACCELERATION, h, ACTIVE_GAP, reach > 0.0, False, work, constraint, qdd
        )
    return status


@inner
def _largest_error(table, k, constraint):
    """Return the largest error of a position row of block k, and the row."""
    values, worst, at = constraint.values, 0.0, -1
    for r in range(constraint.blocks[k, ROW], constraint.blocks[k, ROW_END]):
        role = table.role[r]
        if role > INEQUALITY or table.speed[r] == 1:
            continue
        size = abs(values[r, 0]) if role == EQUALITY or constraint.multipliers[r] > 0.0 else -values[r, 0]
        if not size <= worst:
            worst, at = size, r
    return worst, at


@outlined
def needs_projection(table, k, h, q, qd, constraint):
    """Return whether block k needs a projection after a step: for equalities, or inequalities it may have reached."""
    values = constraint.values
    for r in range(constraint.blocks[k, ROW], constraint.blocks[k, ROW_END]):
        role = table.role[r]
        if role == EQUALITY:
            return True
        if role == INEQUALITY:
            if table.row_pair[r, 0] < 0:
                value = -table.target[r, 0]
                rate = 0.0
                for c in range(2):
                    if table.indices[r, c] >= 0:
                        value += table.share[r, c] * q[table.indices[r, 2 + c]]
                        rate += table.share[r, c] * qd[table.indices[r, c]]
                pressed = constraint.multipliers[r] > 0.0
                if value < -CLOSED or (value <= ACTIVE_GAP and rate < 0.0) or (pressed and value > CLOSED):
                    return True
            elif constraint.multipliers[r] > 0.0 or values[r, 0] + 4.0 * h * min(values[r, 1], 0.0) < 0.02:
                # read from frames: whether the step has passed it is known only after the kinematics
                return True
    return False


@outlined
def project_positions(links, table, span, k, time, work, constraint, tau, q, qd):
    """Project q onto the rows of block k; return 0 or the code of what failed. qd is that of the rows evaluated."""
    status = 0
    correction = constraint.correction
    last = least = np.inf
    worst = 0.0
    constraint.report[SINGULAR] = 0.0
    for v in range(span[DOF], span[DOF + 1]):
        constraint.displaced[v] = 0.0
    for r in range(constraint.blocks[k, ROW], constraint.blocks[k, ROW_END]):
        if table.role[r] == INEQUALITY:
            constraint.entered[r] = False
    for iteration in range(_MOST_ITERATIONS):
        kinematics(links, span, q, qd, work)
        evaluate_rows(links, table, span, k, time, q, qd, work, constraint)
        worst, at = _largest_error(table, k, constraint)
        constraint.report[2] = iteration
        if worst < least or not worst < 1e100:
            least = worst
            constraint.report[3], constraint.report[4] = worst, at
        # closed, or as near as rounding allows: Newton's steps no longer halve the error
        if worst <= CLOSED or (worst < GAP_ALLOWED and worst > 0.5 * last) or not worst < 1e100:
            break
        last = worst
        status = articulate(
            links, span, links.armature, tau, work.subspace, work.rows, work.reduced, work.pivot, work.rest
        )
        if status == 0:
            margin = max(ACTIVE_GAP, 10.0 * worst)
            damped = 1.0 if iteration < _DAMPED else 0.0
            status = constrain(
                links, table, span, k, POSITION, damped, margin, False, False, work, constraint, correction
            )
        if status == Status.INFEASIBLE:
            status = Status.OPEN_LOOP
        if status != 0:
            break
        advance(links, span, 1.0, correction, q)
        for v in range(span[DOF], span[DOF + 1]):
            constraint.displaced[v] += correction[v]
    if status == 0 and not worst <= GAP_ALLOWED:
        status = Status.OPEN_LOOP
    return status


@outlined
def part_left(span, h, qd, constraint):
    """Return which part of the displacement h qd the projection has left, at most 1.

    In a singular pose rows stop motions that they have no impulse against, as a chain that is stretched out can sag no
    more: velocities are scaled by this part there, which makes no energy.
    """
    moved = left = 0.0
    for v in range(span[DOF], span[DOF + 1]):
        x = h * qd[v]
        moved += x * x
        left += (x + constraint.displaced[v]) ** 2
    return math.sqrt(left / moved) if left < moved else 1.0


@inner
def _project(links, table, span, k, h, time, work, constraint, tau, q, qd):
    """Project (q, qd) onto the rows of block k after a step h; return 0 or the code of what failed."""
    correction = constraint.correction
    status = project_positions(links, table, span, k, time, work, constraint, tau, q, qd)
    if status == 0 and constraint.report[SINGULAR] > 0.0:
        part = part_left(span, h, qd, constraint)
        for v in range(span[DOF], span[DOF + 1]):
            qd[v] *= part
        evaluate_rows(links, table, span, k, time, q, qd, work, constraint)
    if status == 0:
        status = articulate(
            links, span, links.armature, tau, work.subspace, work.rows, work.reduced, work.pivot, work.rest
        )
    if status == 0:
        status = constrain(links, table, span, k, VELOCITY, 0.0, ACTIVE_GAP, False, False, work, constraint, correction)
    if status == 0:
        for v in range(span[DOF], span[DOF + 1]):
            qd[v] += correction[v]
    return status


@inner
def _one_step(
    links, drives, springs, table, loop_state, span, k, code, h, time, applied, wrenches, work, spring_work, b,
    constraint, q, qd,
):  # fmt: skip
    """One step of the integrator `code` with the rows of block k; return a status."""
    many = code == RK4
    begin_stages(span, q, qd, b)
    for r in range(constraint.blocks[k, ROW], constraint.blocks[k, ROW_END]):
        constraint.multipliers[r] = 0.0
    reach = h if code == IMPLICIT else 0.0
    status = 0
    at = time
    for stage in range(4 if many else 1):
        status = _dynamics(
            links, drives, springs, table, loop_state, span, k, h, at, reach, b.q_stage, b.qd_stage, applied,
            wrenches, work, spring_work, constraint, b.tau, b.added, b.qdd,
        )  # fmt: skip
        if status != 0:
            return status
        if code == ACCELERATIONS:
            for v in range(span[DOF], span[DOF + 1]):
                qd[v] = b.qdd[v]
            return 0
        if many:
            at = time + add_stage(links, span, stage, h, q, qd, b)
    if many:
        end_stages(links, span, h, b, q, qd)
    else:
        explicit_step(links, span, code == EULER, h, b.qdd, q, qd)
    status = finite_status(span, qd)
    if status != 0:
        return status
    if needs_projection(table, k, h, q, qd, constraint):
        return _project(links, table, span, k, h, time + h, work, constraint, b.tau, q, qd)
    return 0


@inner
def _block_steps(
    links, drives, springs, table, loop_state, span, k, code, n, substeps, h, time, applied, wrenches, work,
    spring_work, b, constraint, q, qd,
):  # fmt: skip
    """Take n steps with block k; stop at the first that fails and restore the state before it."""
    q_before, qd_before = b.q_before, b.qd_before
    q0, q1, v0, v1 = span[COORDINATE], span[COORDINATE + 1], span[DOF], span[DOF + 1]
    for step in range(n):
        for i in range(q0, q1):
            q_before[i] = q[i]
        for v in range(v0, v1):
            qd_before[v] = qd[v]
        status = 0
        for s in range(substeps):
            at = time + (step * substeps + s) * h
            status = _one_step(
                links, drives, springs, table, loop_state, span, k, code, h, at, applied, wrenches, work, spring_work,
                b, constraint, q, qd,
            )  # fmt: skip
            if status != 0:
                break
        if status == 0:
            status = finite_status(span, qd)
        if status != 0:
            for i in range(q0, q1):
                q[i] = q_before[i]
            for v in range(v0, v1):
                qd[v] = qd_before[v]
            return step, status
    return n, 0


@kernel
def take_constrained_steps(
    # model
    links, drives, springs, table, loop_state,
    # in
    blocks, first, count, span, code, n, substeps, h, time, applied, wrenches, work, spring_work, b, constraint,
    # out
    q, qd,
):  # fmt: skip
    """Take n steps of `substeps` times h with the blocks `first` .. `count` - 1 in turn, rows included.

    After a failure the blocks are at different steps.

    Returns:
        the fewest steps any block took, and 0 or a status: those of `take_steps`, OPEN_LOOP, INFEASIBLE, MORE_ROWS;
        and the block it came from.
    """
    taken, status, where = n, 0, 0
    for k in range(first, count):
        for c in range(SPAN):
            span[c] = blocks[k, c]
        block_work = based(work, span[LINK])
        done, failed = _block_steps(
            links, drives, springs, table, loop_state, span, k, code, n, substeps, h, time, applied, wrenches,
            block_work, spring_work, b, constraint, q, qd,
        )  # fmt: skip
        if done < taken:
            taken, status, where = done, failed, k
    return taken, status, where
