"""Velocity post-stabilisation: velocities projected onto the joints at given poses.

Weinstein, Teran and Fedkiw (2006), section V, project joint by joint with a 6 x 6 response that also transmits impulses
along free directions; here impulses act along the locked rows J only,

    J M^-1 J^T lam = -(J v + d phi / dt),   v <- v + M^-1 J^T lam,

for all joints by one direct solve, with limits and dry friction as bounds of the accumulated impulses. With
joints="sweeps" the joints are projected one after the other (`joint_newton.py`). `pre_stabilize.py` uses the same solve
for the errors at the end of a substep.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from limberjack._jit import outlined
from limberjack.errors import Status
from limberjack.linear.saddle import NO_ROOM, NO_SOLUTION, factor_saddle, list_active, solve_saddle
from limberjack.maximal.bodies import POSE
from limberjack.maximal.forces import forces
from limberjack.maximal.rows import evaluate, evaluate_predicted, remove_gyroscopic
from limberjack.maximal.soft_rows import CONSERVING, SoftRows, set_soft_compliance, set_soft_laws, switch_soft_rows
from limberjack.maximal.solve import ACTIVE_TOLERANCE, PROJECT, set_rhs
from limberjack.methods.impulses.islands import (
    FIRM,
    GLOBAL,
    GRADUAL,
    KIND,
    SWEEPS,
    WIDTH,
)
from limberjack.methods.impulses.joint_newton import post_stabilize_in_sweeps, time_rates
from limberjack.methods.impulses.joint_solve import (
    SUM,
    add_soft_sums,
    add_sums,
    list_friction,
    list_limits,
    row_rates,
    set_soft_sides,
)
from limberjack.methods.impulses.motion import LED_BY_ROWS, drift_body, fix_moved_bodies

__all__ = [
    "Rows", "UNBOUNDED", "WITH_FRICTION", "WITH_LIMITS", "add", "clear_sums", "factor_rows", "integrate_velocities",
    "lead_bodies", "post_stabilize", "post_stabilize_after_move", "set_rate_sides", "set_rates", "set_right_sides",
    "solve_rows",
]  # fmt: skip

# Impulses of the substep so far that the bounds of rows account for: none, those of limits, those of dry friction too.
UNBOUNDED, WITH_LIMITS, WITH_FRICTION = range(3)
# Newton steps of led bodies: they turn little within a substep.
_LEADS = 2
# Solves in which soft rows may enter or leave their bounds.
_SWITCHES = 4
# Limits nearer than a body falls within a substep are active from its start, as far as they are reached [m, rad].
_NEAR = 1e-4


class Rows(NamedTuple):
    """Work arrays of the joints' rows, and the joints with dry friction; r rows, p pairs of frames, n bodies."""

    target: np.ndarray  # (r,) rates by time alone, or right sides of the errors at the end of a step
    total: np.ndarray  # (r,) accumulated impulses
    force: np.ndarray  # (r,) forces of swept joints in the last step
    friction_rows: np.ndarray  # constraints along the coordinates of joints with dry friction
    most: np.ndarray  # their friction
    compound: np.ndarray  # (p,) the entry of each pair of frames among compound ones, -1 = none
    small: np.ndarray  # (16, 6) scratch of one joint
    inverse: np.ndarray  # (n, 7) inverse inertias of the bodies, 0 for those of infinite mass
    sums: np.ndarray  # (limits + soft rows + friction rows, 4) accumulated impulses, see `joint_solve.py`
    span: np.ndarray  # (1,) the substep that dry friction acts over [s]
    # (4,) squared frequency that substeps have to resolve, 0 = they do; last substep [s]; body; undivided substep [s]
    fastest: np.ndarray
    soft: SoftRows
    led_rows: np.ndarray  # rows that lead bodies: those of constraints on such a body alone


@outlined
def factor_rows(setup, tree, structure, rows, e, s, saddle):
    """Factor the rows of e; return 0 or Status.INFEASIBLE."""
    set_soft_compliance(rows.soft, saddle.c)
    failed = factor_saddle(setup.system, tree, structure, e.m, e.j, saddle)
    if failed != 0:
        s.report[3] = failed
        return Status.INFEASIBLE
    return 0


@outlined
def solve_rows(setup, tree, structure, counted, exact, rows, e, s, saddle):
    """Solve for the impulses of the joints with the current factor and right sides; return a status.

    `counted`: UNBOUNDED for projections of poses, else WITH_LIMITS or WITH_FRICTION; `exact`: see `solve_saddle`.
    """
    counts, listed, start = setup.constraints, saddle.responses, setup.system.row_start
    set_soft_sides(setup, rows.soft, rows.sums, e.j, s.u, saddle)
    room = len(listed.constraint)
    if counted == UNBOUNDED:
        found = list_active(
            start, counts[0], counts[1], e.values, ACTIVE_TOLERANCE, True, saddle.auxiliary, room, s.last_force,
            listed.count, listed.constraint, saddle.low, saddle.high,
        )  # fmt: skip
    else:
        found = list_limits(
            start, counts[0], counts[1], e.values, _NEAR, saddle.r, saddle.auxiliary, room, rows.sums, s.last_force,
            listed.count, listed.constraint, saddle.low, saddle.high,
        )  # fmt: skip
    if found >= 0 and counted == WITH_FRICTION:
        found = list_friction(
            start, rows.friction_rows, rows.most, rows.span[0], e.values, found, room, rows.sums, listed.count,
            listed.constraint, saddle.low, saddle.high, saddle.r, saddle.c,
        )  # fmt: skip
    status = NO_ROOM
    if found >= 0:
        status = solve_saddle(setup.system, tree, structure, found, exact, e.m, e.j, saddle)
        if counted != UNBOUNDED and status == 0:
            add_sums(
                counts[0], counts[1], len(saddle.auxiliary), rows.friction_rows, found, listed.count, listed.constraint,
                saddle.force, rows.sums,
            )  # fmt: skip
            add_soft_sums(rows.soft, saddle.lam, rows.sums)
            for r in range(start[counts[0]]):
                rows.total[r] += saddle.lam[r]
    if status == NO_ROOM:
        return Status.MORE_ROWS
    return Status.INFEASIBLE if status == NO_SOLUTION else 0


@outlined
def add(a, u):
    """Add a to the velocities."""
    for k in range(len(u)):
        u[k] += a[k]


@outlined
def _clear(a):
    for k in range(len(a)):
        a[k] = 0.0


@outlined
def set_right_sides(setup, mode, scale, values, last_force, saddle):
    """Set the right sides to `scale` times the values (0) or rates (1) of rows, without other forces."""
    rows = setup.system.row_start[setup.constraints[1]]
    set_rhs(setup.table, rows, mode, 1.0, np.int64(PROJECT), 0.0, values, last_force, saddle.r, saddle.c)
    for r in range(rows):
        saddle.r[r] *= scale
    _clear(saddle.f)


@outlined
def set_rates(setup, rows, e, u):
    """Fill the rates of all constraint rows, and of those with dry friction, from the velocities."""
    row_rates(setup.system, 0, setup.constraints[1], e.j, u, e.values)
    for k in range(len(rows.friction_rows)):
        row_rates(setup.system, rows.friction_rows[k], rows.friction_rows[k] + 1, e.j, u, e.values)


@outlined
def clear_sums(limits, sums):
    """Clear the accumulated impulses of the first rows with bounds."""
    for i in range(limits):
        sums[i, SUM] = 0.0


@outlined
def set_rate_sides(setup, h, e, s, saddle):
    """Set the right sides to the rates of rows; limits that are not reached yet may be reached at the end of h."""
    set_right_sides(setup, np.int64(1), 1.0, e.values, s.last_force, saddle)
    for c in range(setup.constraints[0], setup.constraints[1]):
        r = setup.system.row_start[c]
        saddle.r[r] += max(e.values[r, 0], 0.0) / h


@outlined
def integrate_velocities(
    # model
    setup, tree, structure, springs, explicit, drives, armature, span,
    # in
    driven, how, h, time, all_rows, wrenches, applied, rows, bulk,
    # out
    e, s, saddle,
):  # fmt: skip
    """Integrate the velocities over h and post-stabilise them, in one solve; return a status.

    Args:
        setup, tree, structure: constants of the model, and the solver.
        springs, explicit: springs and drives whose forces are those at the start.
        drives: all drives, for the soft rows.
        armature, span: see `maximal/forces.py`.
        driven: whether any joint has a force along its coordinates.
        how, h, time: numbers of the options, the substep and its start [s].
        all_rows: how many rows are evaluated.
        wrenches, applied: forces of the user.
        rows, bulk: joints and bodies.
        e, s, saddle: rows, state and factor.
    """
    evaluate(
        setup.bodies, setup.system, setup.table, setup.row_block, setup.scalable_pairs, time, all_rows, s.pose, s.u, e
    )
    forces(setup, springs, explicit, armature, span, driven, False, wrenches, applied, s.pose, e, s, s.force)
    remove_gyroscopic(setup.bodies, e.ends, s.pose, s.force)
    for i in range(len(bulk.asleep)):
        if bulk.asleep[i]:
            for c in range(6):
                s.force[6 * i + c] = 0.0
    fix_moved_bodies(setup.system.mass_start, bulk, e.m, s.force)
    _clear(s.last_force)
    _clear(rows.total)
    _clear(rows.target)
    status = 0
    if how[GLOBAL] > 0.0:
        rows.span[0] = h
        clear_sums(len(rows.sums), rows.sums)
        set_rate_sides(setup, h, e, s, saddle)
        set_soft_laws(setup, drives, h, CONSERVING, rows.soft, e, s)
        for k in range(len(s.u)):
            saddle.f[k] = h * s.force[k]
        status = factor_rows(setup, tree, structure, rows, e, s, saddle)
        if status == 0:
            status = solve_rows(setup, tree, structure, WITH_FRICTION, True, rows, e, s, saddle)
        if status == 0:
            add(saddle.a, s.u)
            if switch_soft_rows(setup, rows.soft, e, s.u):
                status = factor_rows(setup, tree, structure, rows, e, s, saddle)
                if status == 0:
                    status = post_stabilize(setup, tree, structure, WITH_FRICTION, h, rows, e, s, saddle)
    else:
        time_rates(setup, e, s.u, rows.target)
        _accelerate_freely(h, s.force, bulk, s.u)
        post_stabilize_in_sweeps(
            setup, int(how[KIND + WIDTH * FIRM + SWEEPS]), how[GRADUAL] > 0.0, ACTIVE_TOLERANCE, h, rows, bulk, e,
            saddle.a, saddle.response, saddle.r, saddle.lam, s.u,
        )  # fmt: skip
        _clear(rows.total)
    return status


@outlined
def lead_bodies(setup, tree, structure, h, time, rows, bulk, e, s, saddle):
    """Give the bodies that rows lead the velocities with which these close at the end of h; return a status.

    Contacts see them: with the velocities at the start, what lies on a body would lag behind its acceleration.
    """
    status = 0
    for _ in range(_LEADS):
        for i in range(len(bulk.led)):
            if bulk.led[i] == LED_BY_ROWS:
                drift_body(i, h, s.pose, bulk, s.u, s.stage)
            else:
                for c in range(POSE):
                    s.stage[i, c] = s.pose[i, c]
        evaluate_predicted(setup, time + h, s.stage, s.u, s.predicted)
        set_rates(setup, rows, e, s.u)
        set_rate_sides(setup, h, e, s, saddle)
        for k in range(len(rows.led_rows)):
            saddle.r[rows.led_rows[k]] = s.predicted.values[rows.led_rows[k], 0] / h
        status = solve_rows(setup, tree, structure, WITH_FRICTION, True, rows, e, s, saddle)
        if status != 0:
            break
        add(saddle.a, s.u)
    return status


@outlined
def _accelerate_freely(h, force, bulk, u):
    """Apply the forces over h to each body as if it were free."""
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
def post_stabilize_after_move(setup, how, time, all_rows, rows, bulk, e, s, saddle):
    """Post-stabilise the velocities at the poses at the end of a step, joint after joint (sections V and VI)."""
    evaluate(
        setup.bodies, setup.system, setup.table, setup.row_block, setup.scalable_pairs, time, all_rows, s.pose, s.u, e
    )
    _clear(rows.total)
    time_rates(setup, e, s.u, rows.target)
    post_stabilize_in_sweeps(
        setup, int(how[KIND + WIDTH * FIRM + SWEEPS]), how[GRADUAL] > 0.0, ACTIVE_TOLERANCE, 0.0, rows, bulk, e,
        saddle.a, saddle.response, saddle.r, saddle.lam, s.u,
    )  # fmt: skip


@outlined
def post_stabilize(setup, tree, structure, counted, h, rows, e, s, saddle):
    """Project the velocities onto the joints with the current rows and factor (section V); return a status.

    `counted`: see `solve_rows`; h: see `set_rate_sides`.
    """
    status = 0
    for _ in range(_SWITCHES):
        set_rates(setup, rows, e, s.u)
        set_rate_sides(setup, h, e, s, saddle)
        status = solve_rows(setup, tree, structure, counted, False, rows, e, s, saddle)
        if status != 0:
            break
        add(saddle.a, s.u)
        if not switch_soft_rows(setup, rows.soft, e, s.u):
            break
        status = factor_rows(setup, tree, structure, rows, e, s, saddle)
        if status != 0:
            break
    return status
