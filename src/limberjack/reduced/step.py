"""Steps of trees in reduced coordinates: kinematics -> forces -> articulated bodies -> integrate.

| integrator | a step of h | order |
|---|---|---|
| euler | q += h qd, then qd += h qdd (the papers') | 1 |
| semi_implicit | qd += h qdd, then q += h qd | 1, energy bounded |
| implicit | joint and body springs, dampers and motors taken at the end of the step | 1, stable when stiff |
| rk4 | classical Runge-Kutta, quaternions in R^4 and normalised | 4 |
| momentum | rk4, then each free tree is corrected to the momentum and com of the outer forces (`momentum.py`) | 4 |
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from limberjack._jit import inner, kernel
from limberjack.errors import Status
from limberjack.model.arrays import BALL_DRIVE, COORDINATE, DOF, LINK, SCALAR_DRIVE, SPAN
from limberjack.reduced.aba import accelerations
from limberjack.reduced.drives import drive_forces
from limberjack.reduced.figure_lanes import lane_accelerations, lane_articulate, lane_kinematics, lane_wrenches
from limberjack.reduced.forces import apply_implicit_springs, apply_springs, apply_wrenches
from limberjack.reduced.integrate import add_stage, begin_stages, end_stages, explicit_step, stage_weight
from limberjack.reduced.kinematics import kinematics
from limberjack.reduced.momentum import add_outer_forces, restore_momentum, start_momentum_targets
from limberjack.reduced.work import LINKS, based, take_block
from limberjack.spatial.copies import HUGE

__all__ = ["Buffers", "INTEGRATORS", "dynamics", "finite_status", "new_buffers", "take_steps"]

INTEGRATORS = ("euler", "semi_implicit", "rk4", "implicit", "momentum")
EULER, SEMI_IMPLICIT, RK4, IMPLICIT, MOMENTUM = range(5)


class Buffers(NamedTuple):
    """Scratch of the integrators, shared by all spans (each uses its own part)."""

    qdd: np.ndarray  # (nv,)
    tau: np.ndarray  # (nv,) applied forces and drives
    added: np.ndarray  # (nv,)
    q_before: np.ndarray  # (nq,)
    qd_before: np.ndarray  # (nv,)
    q_stage: np.ndarray  # (nq,)
    qd_stage: np.ndarray  # (nv,)
    rates: np.ndarray  # (nq,)
    q_sum: np.ndarray  # (nq,)
    qd_sum: np.ndarray  # (nv,)


def new_buffers(nq: int, nv: int) -> Buffers:
    """Return buffers for nq coordinates and nv dofs."""
    return Buffers(*(np.zeros(nq if "q_" in name or name == "rates" else nv) for name in Buffers._fields))


@inner
def dynamics(links, drives, springs, span, h, q, qd, applied, wrenches, work, spring_work, driven, tau, added, qdd):
    """Fill qdd at (q, qd), implicit over h where h > 0; return 0 or the code of what failed."""
    kinematics(links, span, q, qd, work)
    apply_wrenches(span, wrenches, work.rows)
    if driven:
        drive_forces(drives, links.armature, span, h, q, qd, applied, tau, added)
    if len(springs.link) > 0 and h == 0.0:
        apply_springs(links, springs, span, qd, work, spring_work)
    status = accelerations(links, span, added, tau, work, qdd)
    if status == 0 and len(springs.link) > 0 and h > 0.0:
        status = apply_implicit_springs(links, springs, span, h, qd, work, spring_work, qdd)
    return status


@inner
def _figure_dynamics(links, drives, span, h, q, qd, applied, wrenches, work, driven, tau, added, qdd):
    """Do what `dynamics` does for four figures at a time, which no springs tie to anything."""
    lane_kinematics(links, span, q, qd, work)
    lane_wrenches(span, wrenches, 1.0, False, work)
    if driven:
        drive_forces(drives, links.armature, span, h, q, qd, applied, tau, added)
    status = lane_articulate(links, span, added, tau, work)
    if status == 0:
        lane_accelerations(links, span, work, qdd)
    return status


@inner
def _one_step(links, drives, springs, span, code, h, applied, wrenches, work, spring_work, b, targets, q, qd):
    """One step of the integrator `code`; return the status of the dynamics.

    All integrators share one loop over stages, so that the dynamics is compiled once.
    """
    many = code == RK4 or code == MOMENTUM
    keeping = len(targets.trees) > 0
    if keeping:
        start_momentum_targets(links, span, q, qd, work, targets)
    if many:
        begin_stages(span, q, qd, b)
    q_now, qd_now = (b.q_stage, b.qd_stage) if many else (q, qd)
    # Where no joint has a drive, applied forces and armature serve as they are.
    driven = span[SCALAR_DRIVE] < span[SCALAR_DRIVE + 1] or span[BALL_DRIVE] < span[BALL_DRIVE + 1]
    tau, added = (b.tau, b.added) if driven else (applied, links.armature)
    reach = h if code == IMPLICIT else 0.0
    for stage in range(4 if many else 1):
        if work.lanes.size[LINKS] > 0:
            status = _figure_dynamics(
                links, drives, span, reach, q_now, qd_now, applied, wrenches, work, driven, tau, added, b.qdd
            )
        else:
            status = dynamics(
                links, drives, springs, span, reach, q_now, qd_now, applied, wrenches, work, spring_work, driven, tau,
                added, b.qdd,
            )  # fmt: skip
        if status != 0:
            return status
        if not many:
            break
        if keeping:
            com_weight = 1.0 / 6.0 if stage < 3 else 0.0
            add_outer_forces(
                links, springs, span, b.q_stage, b.qd_stage, stage_weight(stage), com_weight, tau, wrenches, work,
                spring_work, targets,
            )  # fmt: skip
        add_stage(links, span, stage, h, q, qd, b)
    if many:
        end_stages(links, span, h, b, q, qd)
        if keeping:
            restore_momentum(links, span, h, work, targets, q, qd)
        return 0
    explicit_step(links, span, code == EULER, h, b.qdd, q, qd)
    return 0


@inner
def finite_status(span, qd):
    """Return 0 when the state in `span` is finite, else Status.NOT_FINITE + its first dof that is not.

    Coordinates follow velocities: finite ones stay finite as long as the velocities do.
    """
    bad = 0
    for v in range(span[DOF], span[DOF + 1]):
        bad += not abs(qd[v]) < HUGE
    if bad == 0:
        return 0
    first = span[DOF]
    while abs(qd[first]) < HUGE:
        first += 1
    return Status.NOT_FINITE + first


@inner
def _block_steps(
    links, drives, springs, span, code, n, substeps, h, applied, wrenches, work, spring_work, b, targets, q, qd
):
    """Take n steps with the trees in `span`; stop at the first that fails and restore the state before it."""
    q_before, qd_before = b.q_before, b.qd_before
    for step in range(n):
        for i in range(span[COORDINATE], span[COORDINATE + 1]):
            q_before[i] = q[i]
        for v in range(span[DOF], span[DOF + 1]):
            qd_before[v] = qd[v]
        status = 0
        for _ in range(substeps):
            status = _one_step(
                links, drives, springs, span, code, h, applied, wrenches, work, spring_work, b, targets, q, qd
            )
            if status != 0:
                break
        if status == 0:
            status = finite_status(span, qd)
        if status != 0:
            for i in range(span[COORDINATE], span[COORDINATE + 1]):
                q[i] = q_before[i]
            for v in range(span[DOF], span[DOF + 1]):
                qd[v] = qd_before[v]
            for k in range(len(targets.fresh)):
                targets.fresh[k] = 1
            return step, status
    return n, 0


@kernel
def take_steps(
    # model
    links, drives, springs,
    # in
    blocks, count, span, code, n, substeps, h, applied, wrenches, work, spring_work, b, targets,
    # out
    q, qd,
):  # fmt: skip
    """Take n steps of `substeps` times h with each of `count` blocks in turn.

    After a failure the blocks are at different steps.

    Returns:
        the fewest steps any block took, and 0; or Status.NO_INERTIA + dof, NOT_FINITE + dof or
        NO_SPRING_FORCES.
    """
    taken, status = n, 0
    for k in range(count):
        for c in range(SPAN):
            span[c] = blocks[k, c]
        take_block(k, work.lanes)
        own = based(work, span[LINK])
        done, failed = _block_steps(
            links, drives, springs, span, code, n, substeps, h, applied, wrenches, own, spring_work, b, targets, q, qd
        )
        if done < taken:
            taken, status = done, failed
    return taken, status
