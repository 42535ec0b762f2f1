"""The kernel of method `adaptive`: region updates where they are due, and the ordinary steps between them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from limberjack._jit import inner, kernel, outlined
from limberjack.methods.adaptive import layout as rg
from limberjack.methods.adaptive.coefficients import set_leaf_columns
from limberjack.methods.adaptive.hybrid_body import condense, scatter, scatter_velocities
from limberjack.methods.adaptive.poses import lay_sweep
from limberjack.methods.adaptive.region_update import refresh_stale_nodes, update
from limberjack.model.arrays import COORDINATE, DOF, LINK
from limberjack.reduced.dca import set_leaves
from limberjack.reduced.step import IMPLICIT, INTEGRATORS, take_steps
from limberjack.reduced.variational import (
    ITERATIONS,
    LAG,
    Carried,
    External,
    VariationalWork,
    set_turns,
    take_variational_steps,
    velocities_at,
)
from limberjack.reduced.work import ROW, Work

__all__ = [
    "AssemblyBodies",
    "Engine",
    "LEAVES",
    "PREPARE",
    "PROJECTED",
    "SCATTER",
    "UPDATE",
    "VARIATIONAL",
    "VELOCITIES",
    "adaptive_steps",
    "lazy_work",
]

# Tasks of a call: coefficients of stale nodes, those of leaves, an update alone, q and qd of the hybrid body, and qd
# from the momenta carried.
PREPARE, LEAVES, UPDATE, SCATTER, VELOCITIES = 1, 2, 4, 8, 16
# Codes of integrators, after those of `reduced/step.py`.
VARIATIONAL, PROJECTED = len(INTEGRATORS), len(INTEGRATORS) + 1


class AssemblyBodies(NamedTuple):
    """The bodies of the assembly tree, beside the table of its nodes."""

    body_link: np.ndarray
    share: np.ndarray
    roots: np.ndarray


class Engine(NamedTuple):
    """State and scratch of the kernels, beside model and forces."""

    tree: AssemblyBodies
    co: Any
    link_map: Any
    transient_map: Any
    still: np.ndarray
    joint_work: Work
    work: Work
    step_work: Work
    buffers: Any
    targets: Any
    span: np.ndarray
    limits: rg.Limits
    regions: rg.Regions
    before_q: np.ndarray
    before_qd: np.ndarray
    q: np.ndarray
    qd: np.ndarray
    tau: np.ndarray
    variational: VariationalWork
    carried: Carried  # by clusters
    before_carried: Carried
    counts: np.ndarray  # (COUNTS,) of the variational step
    current: np.ndarray  # (1,) whether qd of the hybrid body is the velocity at its q


def lazy_work(links: Any, rows: int) -> Work:
    """Return work arrays that take no memory until they are used."""
    nv, nq = len(links.armature), len(links.armature) + len(links.quaternions)

    def six() -> np.ndarray:
        return np.zeros((nv, 6))

    return Work(np.zeros((rows, ROW)), np.zeros(nq), np.zeros(nq), six(), six(), six(), np.zeros(nv))


@kernel
def adaptive_steps(
    # model
    links, drives, springs,
    # in
    n, code, substeps, h, stiff, wrenches, stale, todo, e, transient_body, spring_work, transient_springs,
    # out
    body, q, qd,
):  # fmt: skip
    """Do the tasks of `todo`, then take up to n steps.

    Args:
        stale: (m,) nodes whose coefficients are computed again if `todo` has PREPARE; of leaves, if it has LEAVES.
        stiff: whether springs between bodies are implicit in the variational step.
        todo: with UPDATE no steps follow an update that is due; with SCATTER q and qd are filled for any n.

    Returns:
        the steps taken and 0, or a status, see `take_steps`; with n = 0 Status.NO_LINK_INERTIA + link or
        Status.NO_INERTIA + dof.
    """
    g, taken = e.regions, 0
    carrying = code >= VARIATIONAL
    reach = h if code == IMPLICIT or carrying else 0.0
    if e.limits.horizon[rg.HORIZON] > 0.0:
        # accelerations that are taken for motions ahead: springs and dampers end them on the way
        reach = max(reach, 2.0 * e.limits.horizon[rg.AHEAD])
    if todo & LEAVES:
        bad = set_leaves(links, e.tree, e.co.numbers)
        if bad > 0:
            return 0, bad
        set_leaf_columns(links, e.tree, e.co.numbers)
    if todo & PREPARE:
        g.counts[rg.LAST_TRANSIENT] = 0
        mass = e.limits.mass[0] > 0
        bad = refresh_stale_nodes(
            links, drives, e.link_map, e.co, mass, g.cached, stale, reach, e.q, e.still, e.tau, e.joint_work
        )
        if bad > 0:
            return 0, bad
        condense(
            links, drives, springs, e.co.table, e.co.numbers, g.active_region, g.active_nodes, g.counts[rg.COUNT], e.q,
            e.qd, e.tau, wrenches, e.link_map, body,
        )  # fmt: skip
        lay_sweep(e.co.table, g.active_region, e.link_map.sorted, e.link_map.node, g.counts[rg.COUNT], g.slot, g.joints)
        _start(body, e)
    if todo & VELOCITIES:
        _velocities(body, e)
        scatter_velocities(links, body, e.qd)
        scatter_velocities(links, body, qd)
    while taken < n:
        if g.counts[rg.UNTIL] <= 0:
            if carrying:
                _velocities(body, e)
            edited, changed = g.counts[rg.EDITED], g.counts[rg.CHANGED]
            update(
                links, drives, springs, e.tree.roots, e.limits, h, reach, e.tau, wrenches, e.still, e.co, e.link_map,
                e.transient_map, e.joint_work, e.work, spring_work, e.buffers, transient_body, transient_springs, g,
                body, e.q, e.qd, q, qd,
            )  # fmt: skip
            if edited > 0 or g.counts[rg.CHANGED] != changed:
                _start(body, e)
            g.counts[rg.UNTIL] = e.limits.period[0]
        if todo & UPDATE:
            return 0, 0
        m = min(n - taken, g.counts[rg.UNTIL])
        if carrying:
            done, status = _carried_steps(body, code, m, h, stiff, e)
            taken += done
            g.counts[rg.UNTIL] -= done
            g.counts[rg.SINCE] += done
            if status != 0:
                scatter(links, body, e.q, e.qd)
                scatter(links, body, q, qd)
                return taken, status
            continue
        several = body.count[0] > 1
        if several:
            _copy(body, body.q, body.qd, e.before_q, e.before_qd)
        done, status = take_steps(
            body.links, body.drives, body.springs, body.blocks, body.count[0], e.span, code, m, substeps, h / substeps,
            body.tau, body.wrenches, e.step_work, spring_work, e.buffers, e.targets, body.q, body.qd,
        )  # fmt: skip
        if status != 0 and several:
            # One block failed: restore all and take the steps that every block can.
            _copy(body, e.before_q, e.before_qd, body.q, body.qd)
            take_steps(
                body.links, body.drives, body.springs, body.blocks, body.count[0], e.span, code, done, substeps,
                h / substeps, body.tau, body.wrenches, e.step_work, spring_work, e.buffers, e.targets, body.q, body.qd,
            )  # fmt: skip
        taken += done
        g.counts[rg.UNTIL] -= done
        g.counts[rg.SINCE] += done
        if status != 0:
            scatter(links, body, e.q, e.qd)
            scatter(links, body, q, qd)
            return taken, status
    if n > 0 or todo & SCATTER:
        scatter(links, body, e.q, e.qd)
        scatter(links, body, q, qd)
    return taken, 0


@inner
def _start(body, e):
    """Take note that the hybrid body is another one, and moves on from its q and qd."""
    e.current[0] = 1
    clock = e.carried.clock
    for k in range(len(clock)):
        # where contacts act the velocity is that of the last half step, and its length stays known
        for c in range(LAG):
            clock[k, c] = 0.0
    set_turns(body.links, body.whole[LINK], body.whole[LINK + 1], e.variational.turns)


@outlined
def _velocities(body, e):
    """Fill qd of the hybrid body, the velocities at its q."""
    if e.current[0] == 0:
        external = External(body.drives, body.springs, False, body.tau, body.wrenches)
        velocities_at(
            body.links, external, body.blocks, body.count[0], e.span, e.variational, e.carried, body.q, body.qd
        )
        e.current[0] = 1


@inner
def _copy_carried(body, source, target):
    """Copy what the hybrid body carries."""
    for k in range(body.whole[LINK + 1]):
        for c in range(8):
            target.momentum[k, c] = source.momentum[k, c]
    for k in range(3):
        for v in range(body.whole[DOF + 1]):
            target.history[k, v] = source.history[k, v]
    for k in range(body.count[0]):
        for c in range(source.clock.shape[1]):
            target.clock[k, c] = source.clock[k, c]


@inner
def _carried_steps(body, code, n, h, stiff, e):
    """Take up to n variational steps of the hybrid body; after a failure those before it; return them and a status."""
    iterations = ITERATIONS if code == VARIATIONAL else 0
    external = External(body.drives, body.springs, stiff, body.tau, body.wrenches)
    _copy(body, body.q, body.qd, e.before_q, e.before_qd)
    _copy_carried(body, e.carried, e.before_carried)
    status, wanted = 0, n
    for _ in range(2):
        done, failed = take_variational_steps(
            body.links, external, body.blocks, body.count[0], e.span, iterations, wanted, h, e.variational, e.carried,
            body.q, body.qd, e.counts,
        )  # fmt: skip
        if failed == 0:
            break
        status, wanted = failed, done
        _copy(body, e.before_q, e.before_qd, body.q, body.qd)
        _copy_carried(body, e.before_carried, e.carried)
    if wanted > 0:
        e.current[0] = 0
    return wanted, status


@inner
def _copy(body, q, qd, to_q, to_qd):
    """Copy the coordinates and velocities of the hybrid body."""
    for k in range(body.whole[COORDINATE + 1]):
        to_q[k] = q[k]
    for k in range(body.whole[DOF + 1]):
        to_qd[k] = qd[k]
