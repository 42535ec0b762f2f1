"""The kernel of method `adaptive`: region updates where they are due, and the ordinary steps between them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from limberjack._bound import arguments_of
from limberjack._jit import inner, kernel, outlined
from limberjack.methods.adaptive import layout as rg
from limberjack.methods.adaptive.coefficients import set_leaf_columns
from limberjack.methods.adaptive.hybrid_body import scatter_blocks, scatter_velocities
from limberjack.methods.adaptive.known_forces import take_joint_forces, take_wrenches
from limberjack.methods.adaptive.region_update import (
    apply_impulse,
    condense_groups,
    end_turn,
    list_blocks,
    plan_turn,
    refresh_stale_nodes,
    update_all_trees,
    update_groups,
)
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
    "AGAIN",
    "Arguments",
    "AssemblyBodies",
    "COUNT_ANEW",
    "END",
    "Engine",
    "IMPULSE",
    "JOINT_FORCES",
    "LEAVES",
    "PART",
    "PLAN",
    "PREPARE",
    "PROJECTED",
    "SCATTER",
    "UPDATE",
    "VARIATIONAL",
    "VELOCITIES",
    "WRENCH_LIST",
    "adaptive_steps",
    "count_steps",
    "keep_state",
    "lazy_work",
    "return_to_kept",
]

# Tasks of a call: coefficients of stale nodes, those of leaves, an update alone, q and qd of the hybrid body, qd from
# the momenta carried, changed joint forces, changed wrenches, an impulse.
PREPARE, LEAVES, UPDATE, SCATTER, VELOCITIES, JOINT_FORCES, WRENCH_LIST, IMPULSE = 1, 2, 4, 8, 16, 32, 64, 128
# Tasks of calls that share a turn: which groups are due; updates and steps of some groups; their steps again, fewer
# than at the last call; what was done.
PLAN, PART, AGAIN, END = 256, 512, 1024, 2048
# What the steps do is counted from here on.
COUNT_ANEW = 4096
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
    known: rg.KnownForces
    turns: rg.Turns


def lazy_work(links: Any, rows: int) -> Work:
    """Return work arrays that take no memory until they are used."""
    nv, nq = len(links.armature), len(links.armature) + len(links.quaternions)

    def six() -> np.ndarray:
        return np.zeros((nv, 6))

    return Work(np.zeros((rows, ROW)), np.zeros(nq), np.zeros(nq), six(), six(), six(), np.zeros(nv))


class Arguments(NamedTuple):
    """What the kernel takes at every call, see `adaptive_steps`."""

    links: Any
    drives: Any
    springs: Any
    wrenches: Any
    stale: np.ndarray
    engine: Engine
    transient_body: Any
    spring_work: Any
    transient_springs: Any
    body: Any
    q: np.ndarray
    qd: np.ndarray
    new_tau: np.ndarray  # the user's
    new_drives: Any


@kernel
def adaptive_steps(bound, n, code, substeps, h, stiff, new_wrenches, first, last, todo):
    """Do the tasks of `todo`, then take up to n steps.

    Args:
        bound: the model, forces, state and scratch, `Arguments`.
        new_wrenches: the user's, as are `new_tau` and `new_drives` of `Arguments`; those that differ are copied to
            e.tau, `drives` and `wrenches`, if `todo` has JOINT_FORCES, for the dofs from `first` to `last` - 1, and
            WRENCH_LIST.
        first: with IMPULSE the row of `wrenches` that holds it.
        first, last: with PART the groups from `first` to `last` - 1, the blocks of `body`.
        stale: (m,) nodes whose coefficients are computed again if `todo` has PREPARE; of leaves, if it has LEAVES.
        stiff: whether springs between bodies are implicit in the variational step.
        todo: with UPDATE no steps follow an update that is due; with SCATTER q and qd are filled for any n.

    Returns:
        the steps taken and 0, or a status, see `take_steps`; with n = 0 Status.NO_LINK_INERTIA + link or
        Status.NO_INERTIA + dof.
    """
    a = arguments_of(bound)
    links, drives, springs, wrenches, stale, e = a.links, a.drives, a.springs, a.wrenches, a.stale, a.engine
    transient_body, spring_work, transient_springs = a.transient_body, a.spring_work, a.transient_springs
    body, q, qd, g, taken = a.body, a.q, a.qd, e.regions, 0
    carrying = code >= VARIATIONAL
    if todo & COUNT_ANEW:
        for k in range(len(e.counts)):
            e.counts[k] = 0
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
        condense_groups(links, drives, springs, e.co, g, e.q, e.qd, e.tau, wrenches, e.link_map, e.turns, body)
        _restart_all(body, e)
    if todo & VELOCITIES:
        if e.current[0] == 0:
            _velocities(body, 0, body.count[0], e)
            e.current[0] = 1
        scatter_velocities(links, body, e.qd)
        scatter_velocities(links, body, qd)
    until = g.counts[rg.UNTIL] if len(e.turns.quota) == 1 else e.limits.period[0]
    if todo & JOINT_FORCES:
        take_joint_forces(
            links, e.co, e.link_map, first, last, a.new_tau, a.new_drives, until, h, reach, e.still, e.known, e.turns,
            stale, g, drives, e.tau, body, e.q,
        )  # fmt: skip
    if todo & WRENCH_LIST:
        take_wrenches(links, e.co, e.link_map, new_wrenches, until, h, e.known, g, wrenches, body)
    if todo & IMPULSE:
        apply_impulse(links, e.co, e.link_map, first, wrenches, g, e.work, spring_work, e.buffers, e.before_qd, body)
        _restart_all(body, e)
    if todo & PLAN:
        plan_turn(
            links, drives, e.link_map, e.limits, reach, e.tau, e.still, stale, e.q, e.co, e.joint_work, e.turns, g
        )  # fmt: skip
        return 0, 0
    if todo & PART:
        list_blocks(first, last, e.turns, body)
        _update_due(a, first, last, carrying, h, reach)
        return _steps_of(body, code, n, substeps, h, stiff, True, spring_work, e)
    if todo & AGAIN:
        if carrying:
            return_to_kept(body, body.count[0], e)
        else:
            _copy(body, e.before_q, e.before_qd, body.q, body.qd)
        return _steps_of(body, code, n, substeps, h, stiff, True, spring_work, e)
    if todo & END:
        end_turn(e.co.table, h, e.turns, g, body)
        return 0, 0
    while taken < n:
        while g.counts[rg.UNTIL] <= 0 or g.counts[rg.EARLY] == 0 or g.counts[rg.ALL_DUE]:
            groups = len(e.turns.quota)
            if groups > 1:
                plan_turn(
                    links, drives, e.link_map, e.limits, reach, e.tau, e.still, stale, e.q, e.co, e.joint_work, e.turns,
                    g,
                )  # fmt: skip
                _update_due(a, 0, groups, carrying, h, reach)
                end_turn(e.co.table, h, e.turns, g, body)
                continue
            if carrying and e.current[0] == 0:
                _velocities(body, 0, body.count[0], e)
                e.current[0] = 1
            update_all_trees(
                links, drives, springs, e.tree.roots, e.limits, h, reach, e.tau, wrenches, e.still, e.known, stale,
                e.co, e.link_map, e.transient_map, e.joint_work, e.work, spring_work, e.buffers, transient_body,
                transient_springs, e.turns, g, body, e.q, e.qd, q, qd,
            )  # fmt: skip
            _restart_changed(body, e, 0, 1)
        if todo & UPDATE:
            return 0, 0
        m = min(n - taken, g.counts[rg.UNTIL])
        if g.counts[rg.EARLY] > 0:
            m = min(m, g.counts[rg.EARLY])
        done, status = _steps_of(body, code, m, substeps, h, stiff, body.count[0] > 1, spring_work, e)
        taken += done
        count_steps(done, g)
        if status != 0:
            scatter_blocks(links, body, e.q, e.qd)
            scatter_blocks(links, body, q, qd)
            return taken, status
    if n > 0 or todo & SCATTER:
        scatter_blocks(links, body, e.q, e.qd)
        scatter_blocks(links, body, q, qd)
    return taken, 0


@inner
def _restart(body, e, block, last, group):
    """Take note that the clusters of a group move on from their q and qd."""
    clock, span = e.carried.clock, e.turns.span
    for k in range(block, last):
        # where contacts act the velocity is that of the last half step, and its length stays known
        for c in range(LAG):
            clock[k, c] = 0.0
    for k in range(3):  # not used by the next steps, but part of snapshots
        for v in range(span[group, DOF], span[group, DOF + 1]):
            e.carried.history[k, v] = 0.0
    set_turns(body.links, span[group, LINK], span[group, LINK + 1], e.variational.turns)


@outlined
def _restart_all(body, e):
    """Take note that the hybrid body is another one, and moves on from its q and qd."""
    e.current[0] = 1
    for group in range(len(e.turns.quota)):
        _restart(body, e, 0, len(e.carried.clock), group)


@outlined
def _restart_changed(body, e, first, last):
    """Take note of the groups from `first` to `last` - 1 whose joints an update has changed.

    Of several groups each is one block, the first of them block 0; a single one is all blocks.
    """
    for group in range(first, last):
        if e.turns.changed[group]:
            e.turns.changed[group] = 0
            if len(e.turns.quota) == 1:
                _restart(body, e, 0, len(e.carried.clock), 0)
            else:
                _restart(body, e, group - first, group - first + 1, group)


@outlined
def _velocities(body, first, last, e):
    """Fill qd of the hybrid body, the velocities at its q, for the blocks from `first` to `last` - 1."""
    external = External(body.drives, body.springs, False, body.tau, body.wrenches)
    velocities_at(body.links, external, body.blocks, first, last, e.span, e.variational, e.carried, body.q, body.qd)


@outlined
def _update_due(a, first, last, carrying, h, reach):
    """Update the groups from `first` to `last` - 1 that are due; their blocks are those of the body, from block 0 on.

    Forces that have changed since the last step are those of the whole interval about q: a motion that starts from
    the velocities at q goes on as if it had not been stopped.
    """
    e, body = a.engine, a.body
    if carrying and e.current[0] == 0:
        for group in range(first, last):
            if e.turns.due[group]:
                _velocities(body, group - first, group - first + 1, e)
    update_groups(
        a.links, a.drives, a.springs, e.tree.roots, first, last, e.limits, h, reach, e.tau, a.wrenches, e.still,
        e.known, e.co, e.link_map, e.transient_map, e.joint_work, e.work, a.spring_work, e.buffers, a.transient_body,
        a.transient_springs, e.turns, e.regions, body, e.q, e.qd, a.q, a.qd,
    )  # fmt: skip
    _restart_changed(body, e, first, last)


@outlined
def _steps_of(body, code, n, substeps, h, stiff, several, spring_work, e):
    """Take up to n steps of the hybrid body; after a failure those that every block can; return them and a status.

    Args:
        several: whether there may be others to go back with, blocks or threads: the state is copied first.
    """
    if code >= VARIATIONAL:
        return _carried_steps(body, code, n, h, stiff, e)
    return _explicit_steps(body, code, n, substeps, h / substeps, several, spring_work, e)


@outlined
def _explicit_steps(body, code, n, substeps, h, several, spring_work, e):
    """Take up to n steps by accelerations; after a failure those that every block can; return them and a status."""
    if several:
        _copy(body, body.q, body.qd, e.before_q, e.before_qd)
    status, wanted = 0, n
    for _ in range(2):
        done, failed = take_steps(
            body.links, body.drives, body.springs, body.blocks, body.count[0], e.span, code, wanted, substeps, h,
            body.tau, body.wrenches, e.step_work, spring_work, e.buffers, e.targets, body.q, body.qd,
        )  # fmt: skip
        if failed == 0:
            break
        status, wanted = failed, done
        if not several:
            break
        _copy(body, e.before_q, e.before_qd, body.q, body.qd)
    return wanted, status


@inner
def _copy_carried(body, clocks, source, target):
    """Copy what the hybrid body carries, with the first `clocks` clocks."""
    for j in range(body.count[0]):
        for k in range(body.blocks[j, LINK], body.blocks[j, LINK + 1]):
            for c in range(8):
                target.momentum[k, c] = source.momentum[k, c]
        for k in range(3):
            for v in range(body.blocks[j, DOF], body.blocks[j, DOF + 1]):
                target.history[k, v] = source.history[k, v]
    for j in range(clocks):
        for c in range(source.clock.shape[1]):
            target.clock[j, c] = source.clock[j, c]


@inner
def keep_state(body, clocks, e):
    """Keep what variational steps of the hybrid body change, for a return to it after a failure."""
    _copy(body, body.q, body.qd, e.before_q, e.before_qd)
    _copy_carried(body, clocks, e.carried, e.before_carried)


@inner
def return_to_kept(body, clocks, e):
    """Return to what `keep_state` kept."""
    _copy(body, e.before_q, e.before_qd, body.q, body.qd)
    _copy_carried(body, clocks, e.before_carried, e.carried)


@inner
def count_steps(done, g):
    """Count steps that were taken, and those until the next update."""
    g.counts[rg.UNTIL] -= done
    g.counts[rg.TAKEN] += done
    if g.counts[rg.EARLY] > 0:
        g.counts[rg.EARLY] -= done


@outlined
def _carried_steps(body, code, n, h, stiff, e):
    """Take up to n variational steps of the hybrid body; after a failure those before it; return them and a status."""
    iterations = ITERATIONS if code == VARIATIONAL else 0
    external = External(body.drives, body.springs, stiff, body.tau, body.wrenches)
    keep_state(body, body.count[0], e)
    status, wanted = 0, n
    for _ in range(2):
        done, failed = take_variational_steps(
            body.links, external, body.blocks, body.count[0], e.span, iterations, wanted, h, e.variational, e.carried,
            body.q, body.qd, e.counts,
        )  # fmt: skip
        if failed == 0:
            break
        status, wanted = failed, done
        return_to_kept(body, body.count[0], e)
    if wanted > 0:
        e.current[0] = 0
    return wanted, status


@inner
def _copy(body, q, qd, to_q, to_qd):
    """Copy the coordinates and velocities of the hybrid body."""
    for j in range(body.count[0]):
        for k in range(body.blocks[j, COORDINATE], body.blocks[j, COORDINATE + 1]):
            to_q[k] = q[k]
        for k in range(body.blocks[j, DOF], body.blocks[j, DOF + 1]):
            to_qd[k] = qd[k]
