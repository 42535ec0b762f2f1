"""The running side of `Adaptive`: one compiled call per `advance`, with region updates inside.

    every `update_every` steps:  a region update (`region_update.py`)
    ordinary steps:              those of `reduced/step.py`, on the hybrid body

q and qd that users see are copies of the engine's own: what they differ in was set from outside. The coefficients of
nodes with such joints are then computed again, and the next step begins with an update that activates the nodes above.
Forces that were set are compared and taken by the kernel, which needs no update for it (`known_forces.py`).
Before the stepper stand the functions that derive limits and assembly tree from options.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from limberjack._bound import Bound
from limberjack._jit import entry
from limberjack.constraints.row_forces import RowForces, no_row_forces
from limberjack.errors import LimberjackError, ModelError, StateError, Status, UnsupportedByMethod
from limberjack.methods.adaptive import layout as rg
from limberjack.methods.adaptive.cluster_poses import ClusterPoses, Clusters
from limberjack.methods.adaptive.hybrid_body import HybridBody, new_hybrid_body
from limberjack.methods.adaptive.metrics import functions_of, weight_rows
from limberjack.methods.adaptive.options import Adaptive
from limberjack.methods.adaptive.poses import new_link_map
from limberjack.methods.adaptive.step import (
    AGAIN,
    COUNT_ANEW,
    END,
    IMPULSE,
    JOINT_FORCES,
    LEAVES,
    PART,
    PLAN,
    PREPARE,
    SCATTER,
    UPDATE,
    VARIATIONAL,
    VELOCITIES,
    WRENCH_LIST,
    Arguments,
    AssemblyBodies,
    Engine,
    adaptive_steps,
    lazy_work,
)
from limberjack.methods.adaptive.view_metric import PERIOD, levers, view_numbers
from limberjack.methods.momentum_steppers import spring_rates, stiff_springs
from limberjack.methods.row_verbs import WithoutRows
from limberjack.methods.stepper import Forces
from limberjack.model.arrays import DOF, LINK, SPAN, Drives, Links, drive_arrays, drives_from
from limberjack.model.joints import FREE
from limberjack.model.model import Model
from limberjack.reduced.assembly_tree import DOFS, KIND, TREE_COLUMNS, WEIGHT, Assembly, new_assembly, new_coefficients
from limberjack.reduced.constraint_set import ConstraintSet
from limberjack.reduced.forces import Wrenches, new_spring_work, no_wrenches
from limberjack.reduced.momentum import new_momentum_targets
from limberjack.reduced.step import IMPLICIT, INTEGRATORS, RK4, new_buffers
from limberjack.reduced.variational import (
    COUNTS,
    LENGTH,
    TIME_ERROR,
    Carried,
    new_carried,
    new_variational_work,
)

__all__ = ["AdaptiveStepper", "in_use", "limits_of", "room_for", "tree_options"]

# Accelerations that count as rest [m/s^2].
_REST = 1e-3
# The tolerance is widened by no more than this, and narrowed where steps take less than this part of their time.
_WIDEST, _SLACK = 1e12, 0.7
# The part of missed motion that is credited with a budget alone.
_CREDIT = 0.01
# Joints of the budget per joint that competes with the active ones, and the fewest of those: 5 of the 20 most promising
# of a chain give the same error and two thirds of the cost of an update.
_LOOKED, _LEAST_LOOKED = 4, 5
# The largest weight of a joint in the assembly tree.
_FINEST = 64.0


def _names(options: Adaptive) -> list[str]:
    return [item.name for item in fields(options)]


def _share(budget: int, figures: int) -> int:
    """Return how many joints of a common budget each figure takes first, if it moves: half of the budget is shared."""
    return max(budget // (2 * figures), 1) if 1 < figures <= budget else 0


def room_for(wrenches: Wrenches, count: int) -> Wrenches:
    """Return wrenches followed by room for more, `count` in all; the link of those that do not act is -1."""
    k = min(len(wrenches.link), count)
    out = Wrenches(np.full(count, -1, np.int64), np.zeros((count, 9)))
    out.link[:k], out.data[:k] = wrenches.link[:k], wrenches.data[:k]
    return out


def in_use(wrenches: Wrenches) -> Wrenches:
    """Return a copy of the wrenches without the room after them."""
    k = int(np.count_nonzero(wrenches.link >= 0))
    return Wrenches(wrenches.link[:k].copy(), wrenches.data[:k].copy())


def limits_of(model: Model, tree: Assembly, options: Adaptive, joints: int, levers: Any) -> rg.Limits:
    """Return when choices end, checked against the model; for `levers` see `view_metric.py`."""
    figures = len(tree.roots)
    budget, opened = options.budget, options.update_budget
    if budget is None and options.tolerance is None and options.view is None:
        budget = max(1, round(0.2 * joints))
    each = isinstance(budget, Sequence)
    if isinstance(budget, Sequence):
        if len(budget) != figures:
            raise StateError(
                f'budget must have one number per figure of model "{model.name}", {figures}; got {len(budget)}'
            )
        whole = np.array(budget, np.int64)
    else:
        whole = np.full(figures, -1 if budget is None else min(budget, joints), np.int64)
    looked = whole.copy() if opened is None else np.full(figures, opened, np.int64)
    alone = options.tolerance is None and options.view is None and not options.error_bounded
    refill = opened is None and budget is not None and alone and options.horizon_used > 0.0
    if refill:
        looked = np.maximum((looked + _LOOKED - 1) // _LOOKED, np.minimum(looked, _LEAST_LOOKED))
    # Of the velocities, without a tolerance of their own: in pixels the same, else by the period, which `dt` decides.
    # With a horizon it is a quarter of that in length: joints that stop are not active again before about two horizons.
    horizon = options.horizon_used
    of_joints = options.joint_tolerance
    tolerance = np.array([-1.0 if of_joints is None else of_joints, -1.0])
    if options.view is not None and options.tolerance is None:
        tolerance[0] = options.view.tolerance**2
    if options.velocity_tolerance is not None:
        tolerance[1] = options.velocity_tolerance
    elif options.view is not None:
        tolerance[1] = tolerance[0] / (16 if horizon > 0.0 else 1)
    elif of_joints is not None and horizon > 0.0:
        tolerance[1] = of_joints * (horizon / 2) ** 2 / 16
    # What accelerates by less than this is at rest, unless all joints are asked for.
    some = budget is not None and int(whole.sum() if each else whole[0]) < joints
    rest = _REST**2 * model.arrays.links.inertia[:, 9].sum() / figures if some and options.by_mass else 0.0
    return rg.Limits(
        whole, looked, np.array([int(refill)], np.int64), tolerance, np.array([options.update_every], np.int64),
        np.array([int(each)], np.int64), np.array([int(options.error_bounded)], np.int64),
        np.array([int(options.by_mass)], np.int64),
        np.array([_share(int(whole[0]), figures) if horizon and not each else 0], np.int64),
        np.array([horizon, rest if horizon > 0.0 else 0.0, 0.0, 1.0 if tolerance[0] >= 0.0 else _CREDIT, 1.0]),
        view_numbers(options.view),
        *levers,
    )  # fmt: skip


def tree_options(model: Model, options: Adaptive) -> dict[str, Any]:
    """Return the weights or priorities the assembly tree is cut by."""
    a = model.arrays
    n = len(a.links.parent)
    if callable(options.tree):
        order = list(options.tree(model))
        priority = np.full(n, len(order), np.int64)
        for k, name in enumerate(order):
            info = model.joint(name)
            if not info.is_loop and info.nv > 0:
                priority[a.joint_link[model.joint_names.index(name)]] = k
        return {"priority": priority}
    weight = _joint_weights(a.links) if options.tree == "masses" else np.ones(n)
    if options.tree == "forces":
        ends = a.springs.link[a.springs.link >= 0]
        named = np.array([a.body_link[model.body_index(name)] for name in options.force_bodies], np.int64)
        acted_on = np.unique(np.concatenate([ends, named[named >= 0]])).astype(np.int64)
        weight[acted_on] = n * weight.max()
    return {"weight": weight}


def _joint_weights(links: Links) -> np.ndarray:
    """Return per link the weight of its joint for `tree="masses"`: the fourth root of the mass that it moves.

    That is what it carries, reduced by what it moves against if that is free. The mass itself makes the tree of a chain
    twice as deep; errors of small budgets are least with its fourth root to its square root.
    """
    n, parent = len(links.parent), links.parent.tolist()
    carried, base = links.inertia[:, 9].tolist(), list(range(n))
    for i in range(n - 1, -1, -1):
        if parent[i] >= 0:
            carried[parent[i]] += carried[i]
    for i in range(n):
        if parent[i] >= 0:
            base[i] = base[parent[i]]
    moved, bases = np.array(carried), np.flatnonzero(links.parent < 0)
    moved *= 1.0 - np.where(links.kind[base] == FREE, moved / moved[base], 0.0)
    # trees are runs of links, the base first; a lone free body moves against nothing
    most = np.maximum.reduceat(moved, bases)
    moved[bases] = np.where(most > 0.0, most, 1.0)
    # whole numbers: their sums are exact, and equal ones are equal
    return np.maximum(np.rint(_FINEST * np.sqrt(np.sqrt(moved / moved[base]))), 1.0)


def _fits(arrays: dict[str, np.ndarray], carried: Carried) -> bool:
    """Return whether what was carried has the columns it must have, and not too many rows."""
    return all(
        arrays[name].shape[1:] == room.shape[1:] and len(arrays[name]) <= len(room)
        for name, room in (
            ("list_momentum", carried.momentum), ("list_history", carried.history.T), ("list_clock", carried.clock),
        )
    )  # fmt: skip


class _Part(NamedTuple):
    """Groups of trees that one thread updates and steps, with lists and scratch of its own."""

    first: int  # its groups
    last: int
    engine: Engine
    body: HybridBody
    trial: HybridBody


class AdaptiveStepper(WithoutRows):
    """The running side of `Adaptive`."""

    in_one_call = True
    # How many update periods ahead velocities are taken with a budget alone.
    _periods_ahead = 4

    def __init__(self, model: Model, options: Adaptive, ignored: frozenset[str] = frozenset()) -> None:
        a = model.arrays
        links, n = a.links, len(a.links.parent)
        self._model, self._options, self._ignored = model, options, ignored
        counted = (links.dof > 0) & (links.kind != FREE)
        if not counted.any():
            raise ModelError(f'model "{model.name}" has no joints to choose from: method "adaptive" needs at least one')
        self._joints = int(counted.sum())
        self.assembly = new_assembly(links, **tree_options(model, options))
        self.q, self._qd = model.q0.copy(), model.qd0.copy()
        tree, nv = self.assembly, model.nv
        link_map, nb = new_link_map(model, tree), len(tree.body_link)
        transient_map = link_map._replace(cluster=link_map.cluster.copy(), pose=link_map.pose.copy())
        co = new_coefficients(links, tree, nb + min(nb, rg.MOST_CACHED))
        self._code = (*INTEGRATORS, "variational", "projected").index(options.integrator)
        self._spring_rates, self._stiff = spring_rates(model), (-1.0, False)  # and whether they are implicit, by dt
        step_work = lazy_work(links, n)
        springs = new_spring_work(links, a.springs)
        limits = limits_of(model, tree, options, self._joints, levers(model, tree))
        of_trees = np.bincount(tree.tree_index[:n][counted], minlength=len(tree.roots))
        self._engine = Engine(
            AssemblyBodies(tree.body_link, tree.share, tree.roots), co, link_map, transient_map, np.zeros(nv),
            lazy_work(links, 0), lazy_work(links, n), step_work, new_buffers(model.nq, nv),
            new_momentum_targets(links, np.zeros(SPAN, np.int64), False), np.zeros(SPAN, np.int64),
            limits, rg.new_regions(tree, n, nv, co.own.shape[1] - WEIGHT, self._loops()), np.zeros(model.nq),
            np.zeros(nv), self.q.copy(), self._qd.copy(), np.zeros(nv),
            new_variational_work(links, step_work, springs, True),
            new_carried(links, len(tree.roots)), new_carried(links, len(tree.roots)), np.zeros(COUNTS, np.int64),
            np.ones(1, np.int64), rg.KnownForces(np.zeros(nv), *no_wrenches(), np.repeat(np.arange(n), links.dof)),
            rg.new_turns(model, tree, of_trees, limits, self._most_turns()),
        )  # fmt: skip
        # the table holds the tree: its own arrays are views of that from here on
        columns = {name: co.table[:, k] for k, name in enumerate(TREE_COLUMNS)}
        self.assembly = tree._replace(**columns)
        self._drives = Drives(*(array.copy() for array in a.drives))
        self._wrenches: Wrenches = no_wrenches()
        self._call: Any = adaptive_steps
        self._bound: Bound | None = None
        # dt, room for wrenches, substeps, whether springs are implicit, and the user's joint forces and drives, while
        # nothing but forces is set; None = look
        self._ready: tuple[float, int, int, bool, np.ndarray, Drives] | None = None
        self._given: tuple[np.ndarray, Drives] | None = None
        counts: Any = self._engine.regions.counts
        self._counter = memoryview(counts)  # of which numbers are read three times as fast
        self._body, self._trial = new_hybrid_body(model, 0), new_hybrid_body(model, 0)
        self._pull, self._aside = springs, new_spring_work(links, a.springs)
        self._dirty, self._dt = True, 0.0
        self._cluster_poses: ClusterPoses | None = None
        self._todo, self._first, self._last = 0, 0, 0  # forces that may have changed, and of which dofs
        self._stale = np.zeros(2 * len(tree.body_link), np.uint8)
        self._widened, self._spent, self._timed = 1.0, 0.0, 0  # the tolerance, and seconds of the last steps
        self._set_time_tolerance()
        self._fill_weights(None)
        self._start_region(np.zeros(len(self._stale), bool))
        self._fresh = True
        groups = len(self._engine.turns.quota)
        ends = np.linspace(0, groups, min(options.threads, groups) + 1).astype(int)
        self._parts = [self._new_part(*ends[k : k + 2].tolist()) for k in range(len(ends) - 1)] if len(ends) > 2 else []
        self._pool = ThreadPoolExecutor(len(self._parts) - 1) if self._parts else None
        self._part_bounds: list[Bound] = []

    def _most_turns(self) -> int:
        """Return the largest number of groups of trees that are updated in turns."""
        o = self._options
        speeds = o.weights if o.velocity_weights is None else o.velocity_weights
        if len(self._model.arrays.springs.link) or functions_of(o.weights) or functions_of(speeds):
            return 1  # springs connect trees; functions are evaluated for all joints before an update
        return o.update_every

    def _loops(self) -> list[np.ndarray]:
        """Return groups of links whose joints are active together or not at all: none without rows."""
        return []

    @property
    def qd(self) -> np.ndarray:  # pyright: ignore[reportIncompatibleVariableOverride]
        """(nv,) velocities at q."""
        if self._engine.current[0] == 0:
            self._advance(0, self._dt, VELOCITIES)
        return self._qd

    def carried_velocities(self) -> np.ndarray:
        """Return the velocities of the hybrid body; see `Stepper`."""
        return self._body.qd[self._in_blocks(DOF)]

    @property
    def active(self) -> np.ndarray:
        """(m,) whether each node of the assembly tree is in the active region."""
        return self._engine.regions.active_region.astype(bool)

    def active_links(self) -> np.ndarray:
        """Return, per link, whether its joint is simulated now."""
        n = len(self._model.arrays.links.parent)
        return self._engine.regions.active_region[self.assembly.node_of[:n]].astype(bool)

    def cluster_roots(self) -> np.ndarray | None:
        """Return the first link of each rigid cluster; None while something set from outside waits for a step."""
        return None if self._dirty or self._fresh else self._cluster_roots()

    def clusters(self, since: int = -1) -> Clusters | None:
        """Return where the rigid clusters are and what of their make-up is news since version `since`.

        None while something set from outside waits for the next step.
        """
        return None if self._dirty or self._fresh else self._report(self.q, since)

    def _cluster_roots(self) -> np.ndarray:
        blocks = self._body.blocks[: int(self._body.count[0]), LINK : LINK + 2]
        return np.concatenate([np.zeros(0, np.int64), *(self._body.link[first:last] for first, last in blocks)])

    def _report(self, q: np.ndarray, since: int) -> Clusters:
        """Return the clusters of the hybrid body as it is; of `q` the coordinates of active links may be old."""
        if self._cluster_poses is None:
            self._cluster_poses = ClusterPoses(self._model)
        return self._cluster_poses.report(self._cluster_roots(), q, since)

    def advance(self, n: int, dt: float, forces: Forces, time: float = 0.0) -> tuple[int, int]:
        """Take up to n steps; see `Stepper`."""
        found = self.advance_in_one_call(n, dt, forces, time)
        if found is not None:
            return found
        if self._options.milliseconds is None or n == 0:
            return self._steps_of(n, dt, forces, time)
        taken, period = 0, self._options.update_every
        while taken < n:
            begin = perf_counter()
            done, status = self._steps_of(min(n - taken, period - self._timed), dt, forces, time + taken * dt)
            self._spent += perf_counter() - begin
            taken, self._timed = taken + done, self._timed + done
            if status:
                return taken, status
            if self._timed >= period:
                self._keep_time(self._options.milliseconds)
        return taken, 0

    def advance_in_one_call(self, n: int, dt: float, forces: Forces, time: float) -> tuple[int, int] | None:
        """Take up to n steps by one compiled call, if nothing but forces was set; see `Stepper`."""
        # a call from Python for each step: every function on the way costs as much as a joint of the step
        ready = self._ready
        if (
            ready is None or ready[0] != dt or self._dirty or n <= 0
            or forces.tau is not ready[4] or forces.drives is not ready[5]
        ):  # fmt: skip
            return None
        todo, wrenches = self._todo, forces.wrenches
        if todo & WRENCH_LIST and len(wrenches.link) > ready[1]:
            return None
        taken, status = self._call(
            self._bound, n, self._code, ready[2], dt, ready[3], wrenches, self._first, self._last, todo | COUNT_ANEW
        )
        self._todo = 0  # not before: the call may have been interrupted, and forces that were taken are not taken again
        return (taken, self._model_status(status)) if status else (taken, 0)

    def steps_counted(self) -> int:
        """Return the number of steps that compiled calls have taken; see `Stepper`."""
        return self._counter[rg.TAKEN]

    def _keep_time(self, milliseconds: float) -> None:
        """Widen the tolerance if the last steps took longer than they may, narrow it if they took much less."""
        mean = 1000.0 * self._spent / self._timed
        before, self._spent, self._timed = self._widened, 0.0, 0
        if mean > milliseconds:
            # errors in time grow with the fourth power of the substep: steps twice as cheap are sixteen times wider
            self._widened = min(before * min(mean / milliseconds, 2.0) ** 4, _WIDEST)
        elif mean < _SLACK * milliseconds:
            self._widened = max(before / 2.0, 1.0)
        if self._widened != before:
            self._engine.limits.tolerance[:] *= self._widened / before
            self._set_time_tolerance()

    def _set_time_tolerance(self) -> None:
        """Set what each block of trees may be wrong by in time: an equal part of the tolerance."""
        given = (self._options.joint_tolerance or 0.0) if self._options.dt == "auto" else 0.0
        self._engine.variational.time_tolerance[0] = self._widened * given / max(self._most_blocks(), 1)

    def _most_blocks(self) -> int:
        """Return how many blocks the hybrid body is stepped in, at most."""
        groups = len(self._engine.turns.quota)
        return groups if groups > 1 else len(self._engine.tree.roots)

    def _steps_of(self, n: int, dt: float, forces: Forces, time: float) -> tuple[int, int]:
        """Take up to n steps at the tolerance as it is."""
        if self._dirty or dt != self._dt or self._fresh:
            self._take_edits(dt, forces)
        if not self._functions:
            found = self._advance(n, dt, self._force_tasks(forces) | COUNT_ANEW, forces)
            if not self._parts and self._options.milliseconds is None:
                code = 2 if self._code == RK4 else 1
                self._ready = dt, len(self._wrenches.link), code, self._stiff_at(dt), forces.tau, forces.drives
            return found
        self._engine.counts[:] = 0
        if self._todo:
            self._advance(0, dt, self._force_tasks(forces), forces)
        taken = 0
        while taken < n:  # weights that depend on positions are found again between updates
            if self._engine.regions.counts[rg.UNTIL] <= 0:
                self._fill_weights(self._functions)
            m = min(n - taken, max(1, int(self._engine.regions.counts[rg.UNTIL]) or self._options.update_every))
            done, status = self._advance(m, dt)
            taken += done
            if status:
                return taken, status
        return taken, 0

    def _force_tasks(self, forces: Forces) -> int:
        """Return the tasks of a call that takes the forces that may have changed, and make room for their wrenches."""
        todo, self._todo = self._todo, 0
        if todo & WRENCH_LIST and len(forces.wrenches.link) > len(self._wrenches.link):
            self._reserve_wrenches(2 * len(forces.wrenches.link) + 2)
        return todo

    def _reserve_wrenches(self, count: int) -> None:
        """Make room for `count` wrenches."""
        self._ready = None
        known, turns = self._engine.known, self._engine.turns
        self._wrenches = room_for(self._wrenches, count)
        self._body = self._body._replace(wrenches=room_for(self._body.wrenches, count))
        self._trial = self._trial._replace(wrenches=room_for(no_wrenches(), count))
        self._engine.regions.counts[rg.LAST_TRANSIENT] = 0
        before = room_for(Wrenches(known.link, known.data), count)
        self._engine = self._engine._replace(
            known=known._replace(link=before.link, data=before.data),
            turns=turns._replace(link=np.full(count, -1, np.int64)),
        )

    def _advance(self, n: int, dt: float, todo: int = 0, forces: Forces | None = None) -> tuple[int, int]:
        if self._parts and n > 0:
            return self._advance_parts(n, dt, todo, forces)
        if forces is not None:
            self._given = forces.tau, forces.drives
        taken, status = self._call(
            self._arguments(), n, self._code, 2 if self._code == RK4 else 1, dt, self._stiff_at(dt),
            self._wrenches if forces is None else forces.wrenches, self._first, self._last, todo,
        )  # fmt: skip
        if self._call is adaptive_steps:
            self._call = entry(adaptive_steps)
        if status and n == 0:
            raise self._preparation_error(status)
        return taken, self._model_status(status) if status else 0

    def _stiff_at(self, dt: float) -> bool:
        """Return whether springs between bodies are implicit in steps of dt."""
        if dt != self._stiff[0]:
            self._stiff = dt, stiff_springs(self._spring_rates, dt)
        return self._stiff[1]

    # Threads

    def _new_part(self, first: int, last: int) -> _Part:
        """Return what a thread needs for the groups from `first` to `last` - 1: the same nodes, joints and clusters."""
        e, links = self._engine, self._model.arrays.links
        n, nv = len(links.parent), self._model.nv

        def integers(*shape: int) -> np.ndarray:
            return np.zeros(shape, np.int64)

        def own(link_map: Any) -> Any:
            return link_map._replace(sorted=link_map.sorted.copy(), spare=link_map.spare.copy())

        step_work, other = lazy_work(links, n), own(e.transient_map)
        variational = new_variational_work(links, step_work, self._pull, True)
        engine = e._replace(
            co=e.co._replace(scratch=np.zeros(e.co.scratch.shape)), link_map=own(e.link_map),
            transient_map=other._replace(cluster=other.cluster.copy(), pose=other.pose.copy()),
            joint_work=lazy_work(links, 0), work=lazy_work(links, n), step_work=step_work,
            buffers=new_buffers(self._model.nq, nv), span=integers(SPAN), regions=rg.own_regions(e.regions),
            variational=variational._replace(
                turns=e.variational.turns, time_tolerance=e.variational.time_tolerance
            ),
            carried=e.carried._replace(clock=e.carried.clock[first:last]),
            before_carried=e.before_carried._replace(clock=e.before_carried.clock[first:last]),
            counts=integers(COUNTS), current=np.ones(1, np.int64),
            turns=e.turns._replace(limits=rg.own_limits(e.limits), start=integers(SPAN)),
        )  # fmt: skip
        body = self._body._replace(whole=integers(SPAN), blocks=integers(*self._body.blocks.shape), count=integers(1))
        return _Part(first, last, engine, body, new_hybrid_body(self._model, 0))

    def _bind_parts(self) -> None:
        """Store the arguments of the parts anew if others took the place of what they share."""
        e, a = self._engine, self._model.arrays
        if self._part_bounds:
            b = self._part_bounds[0].arguments
            if b.wrenches is self._wrenches and b.drives is self._drives and b.engine.known is e.known:
                return
        count, bounds = len(self._wrenches.link), []
        for part in self._parts:
            turns = part.engine.turns._replace(link=np.full(count, -1, np.int64))
            trial = part.trial._replace(wrenches=room_for(no_wrenches(), count))
            arguments = Arguments(
                a.links, self._drives, a.springs, self._wrenches, self._stale,
                part.engine._replace(known=e.known, turns=turns), trial, self._pull,
                self._aside, part.body._replace(wrenches=self._body.wrenches), self.q, self._qd, e.tau, self._drives,
            )  # fmt: skip
            bounds.append(Bound(arguments))
        self._part_bounds = bounds

    def _advance_parts(self, n: int, dt: float, todo: int, forces: Forces | None) -> tuple[int, int]:
        """Do what `_advance` does on several threads, turn by turn."""
        if todo & ~UPDATE:
            self._advance(0, dt, todo & ~UPDATE, forces)
        self._bind_parts()
        e, counts, taken, status = self._engine, self._engine.regions.counts, 0, 0
        for part in self._parts:
            part.engine.counts[:] = 0
        while taken < n and status == 0:
            due = bool(counts[rg.UNTIL] <= 0 or counts[rg.EARLY] == 0 or counts[rg.ALL_DUE])
            if todo & UPDATE and not due:
                return 0, 0
            if due:
                self._advance(0, dt, PLAN)
            m = 0 if todo & UPDATE else min(n - taken, max(int(counts[rg.UNTIL]), 0))
            if counts[rg.EARLY] > 0:
                m = min(m, int(counts[rg.EARLY]))
            done, status = self._run_parts(m, dt)
            if due:
                self._advance(0, dt, END)
            taken += done
            counts[rg.UNTIL] -= done
            counts[rg.TAKEN] += done
            if counts[rg.EARLY] > 0:
                counts[rg.EARLY] -= done
        for part in self._parts:
            e.counts[:] += part.engine.counts
        self._advance(0, dt, SCATTER)
        return taken, self._model_status(status) if status else 0

    def _run_parts(self, m: int, dt: float) -> tuple[int, int]:
        """Take the updates that are planned and up to m steps, those that every tree can; return them and a status."""
        assert self._pool is not None
        e, parts, ways = self._engine, self._parts, range(len(self._parts))
        for part in parts:
            part.engine.regions.counts[rg.TAKEN] = e.regions.counts[rg.TAKEN]
            part.engine.current[0] = e.current[0]
        others = [self._pool.submit(self._run_part, k, m, dt, PART) for k in ways[1:]]
        found = [self._run_part(0, m, dt, PART), *(other.result() for other in others)]
        done, status = min(found)
        for k in ways:
            if found[k][0] > done:  # others failed before
                self._run_part(k, done, dt, AGAIN)
        if done > 0 and self._code >= VARIATIONAL:
            e.current[0] = 0
        return done, status

    def _run_part(self, k: int, m: int, dt: float, task: int) -> tuple[int, int]:
        part = self._parts[k]
        return self._call(
            self._part_bounds[k], m, self._code, 2 if self._code == RK4 else 1, dt, self._stiff_at(dt),
            self._wrenches, part.first, part.last, task,
        )  # fmt: skip

    def _arguments(self) -> Bound:
        """Return the arguments of the kernel, stored anew if one of them is another object than at the last call."""
        tau, drives = (self._engine.tau, self._drives) if self._given is None else self._given
        if self._bound is not None:
            b = self._bound.arguments
            if (
                b.wrenches is self._wrenches and b.body is self._body and b.engine is self._engine
                and b.transient_body is self._trial and b.drives is self._drives and b.q is self.q
                and b.new_tau is tau and b.new_drives is drives
            ):  # fmt: skip
                return self._bound
        a = self._model.arrays
        self._bound = Bound(
            Arguments(
                a.links, self._drives, a.springs, self._wrenches, self._stale, self._engine, self._trial, self._pull,
                self._aside, self._body, self.q, self._qd, tau, drives,
            )
        )  # fmt: skip
        return self._bound

    def _preparation_error(self, status: int) -> LimberjackError:
        """Return the error of a model that has no coefficients in this state."""
        kind, what = Status.of(status)
        if kind == Status.NO_LINK_INERTIA:
            body = self._model.body_names[int(np.flatnonzero(self._model.arrays.body_link == what)[0])]
            return UnsupportedByMethod(
                f'method "adaptive" needs bodies with mass and inertia about every axis; body "{body}" has none about '
                "some. Methods that can: full"
            )
        return StateError(f'joint "{self._model.dof_name(what)}" has no inertia to act on in this state')

    def _model_status(self, status: int) -> int:
        """Return a status with its dof of the hybrid body replaced by that of the model."""
        kind, v = Status.of(status)
        if kind not in (Status.NO_INERTIA, Status.NOT_FINITE):
            return status
        out, links = self._body.links, self._model.arrays.links
        for span in self._body.blocks[: int(self._body.count[0])]:
            if span[DOF] <= v < span[DOF + 1]:
                own = out.v_start[span[LINK] : span[LINK + 1]]
                k = int(span[LINK]) + int(np.searchsorted(own, v, side="right")) - 1
                return kind + int(links.v_start[self._body.link[k]] + v - out.v_start[k])
        return kind + v

    # What users change

    def invalidate(self) -> None:
        """Compare what users see with the engine's own at the next step: something was set."""
        self._dirty = True

    def joint_forces_changed(self, first: int, last: int) -> None:
        """Compare the joint forces of dofs at the next step; see `Stepper`."""
        if self._todo & JOINT_FORCES:
            first, last = min(first, self._first), max(last, self._last)
        self._todo |= JOINT_FORCES
        self._first, self._last = first, last

    def wrenches_changed(self) -> None:
        """Compare the wrenches at the next step; see `Stepper`."""
        self._todo |= WRENCH_LIST

    def _take_edits(self, dt: float, forces: Forces) -> None:
        """Compare q and qd that users see with the engine's own and bring the regions up to date; mark all forces."""
        e, tree, qd = self._engine, self.assembly, self.qd
        links, n, g = self._model.arrays.links, len(self._model.arrays.links.parent), self._engine.regions
        active, of_dof = self.active_links(), self._engine.known.owner
        of_q = np.repeat(np.arange(n), np.diff(np.append(links.q_start, len(self.q))))
        moved = np.unique(of_q[self.q != e.q])
        sped = np.unique(of_dof[qd != e.qd])
        e.q[:], e.qd[:] = self.q, qd
        implicit = self._code == IMPLICIT or self._code >= VARIATIONAL or self._options.horizon_used > 0.0
        whole = self._fresh or (implicit and dt != self._dt)
        if self._fresh or dt != self._dt:
            self._set_period(dt)
        self._dt = dt
        self._dirty = False
        self._todo, self._first, self._last = JOINT_FORCES | WRENCH_LIST, 0, self._model.nv
        touched = sped[(self.qd_of(sped) != 0.0) & ~active[sped]]
        if not (whole or len(moved) or len(sped)):
            return
        self._mark_stale(moved, active)
        if self._functions and (len(moved) or self._fresh):
            self._fill_weights(None)
        if len(moved):  # missed motions were measured with another shape of the rigid parts
            e.regions.held[:] = 0
        if whole:
            self._stale[len(tree.body_link) :] = 1 - g.active_region[len(tree.body_link) :]
        if self._fresh:
            self._fresh = False
            moving = np.flatnonzero((self.qd_of(np.arange(n)) != 0.0) & ~active)
            touched = np.union1d(self._take_first_forces(forces), moving)
            self._prepare(leaves=True)
        else:
            self._prepare(leaves=False)
        self._edit(touched)
        if whole:
            g.counts[rg.ALL_DUE] = 1
        g.wanted[tree.tree_index[np.concatenate([moved, sped])]] = 1
        g.counts[rg.EARLY] = 0

    def _edit(self, which: np.ndarray) -> None:
        """Let the next update activate the nodes above the links `which`."""
        g = self._engine.regions
        known = g.edited[: g.counts[rg.EDITED]]
        g.counts[rg.PUSHED] -= np.count_nonzero(np.isin(which, known) & (g.edit[which] & rg.VELOCITY == 0))
        touched = np.union1d(known, which)
        g.edited[: len(touched)] = touched
        g.counts[rg.EDITED] = len(touched)
        g.edit[which] |= rg.VELOCITY

    def _take_first_forces(self, forces: Forces) -> np.ndarray:
        """Take all forces before the first coefficients are computed; return the links that they act on."""
        e, found = self._engine, []
        of_dof = e.known.owner
        found.append(of_dof[forces.tau != e.tau])
        for indices, name in ((self._drives.indices, "scalar"), (self._drives.ball_indices, "ball")):
            differs = (getattr(forces.drives, name) != getattr(self._drives, name)).any(axis=1)
            found.append(of_dof[indices[differs, 1]])
            getattr(self._drives, name)[:] = getattr(forces.drives, name)
        e.tau[:] = forces.tau
        k = len(forces.wrenches.link)
        if k > len(self._wrenches.link):
            self._reserve_wrenches(k)
        self._wrenches.link[:], self._wrenches.link[:k] = -1, forces.wrenches.link
        self._wrenches.data[:k] = forces.wrenches.data
        e.regions.counts[rg.WRENCHES] = k
        return np.unique(np.concatenate([*found, forces.wrenches.link]))

    def _set_period(self, dt: float) -> None:
        """Set what depends on the time between two updates."""
        o, limits = self._options, self._engine.limits
        period = o.update_every * dt
        limits.camera[PERIOD] = period
        limits.horizon[rg.AHEAD] = 0.5 * o.horizon_used
        if limits.tolerance[0] < 0.0:
            limits.horizon[rg.AHEAD] = min(0.5 * o.horizon_used, max(self._periods_ahead * period, dt))
        limits.horizon[rg.DOUBLING] = (
            len(self._engine.turns.quota) * max(round(0.5 * o.horizon_used / period), 1) if period > 0.0 else 1
        )
        if o.velocity_tolerance is None and o.view is None and o.joint_tolerance is not None and not o.horizon_used:
            limits.tolerance[1] = self._widened * o.joint_tolerance * period * period

    def qd_of(self, which: np.ndarray) -> np.ndarray:
        """Return, per link of `which`, the largest of its velocities."""
        links = self._model.arrays.links
        sizes = np.zeros(len(links.parent))
        np.maximum.at(sizes, np.repeat(np.arange(len(links.parent)), links.dof), np.abs(self.qd))
        return sizes[which]

    def _mark_stale(self, which: np.ndarray, active: np.ndarray) -> None:
        """Mark the rigid nodes whose coefficients depend on the inactive joints of links `which`."""
        tree, region = self.assembly, self._engine.regions.active_region
        for i in which:
            if active[i]:
                continue
            node = int(tree.node_of[i])
            while node >= 0 and not region[node] and not self._stale[node]:
                self._stale[node] = 1
                node = int(tree.parent[node])

    def _prepare(self, leaves: bool) -> None:
        """Find the coefficients of stale nodes again, and the hybrid body."""
        self._advance(0, self._dt, PREPARE | (LEAVES if leaves else 0))

    def _start_region(self, active: np.ndarray) -> None:
        """Set the active region: the nodes marked, and the free joints to the world."""
        g, tree = self._engine.regions, self.assembly
        kinds = self._model.arrays.links.kind
        bases = tree.roots[kinds[tree.joint[tree.roots]] == FREE]
        active = active.copy()
        active[bases] = True
        g.active_region[:] = active
        nodes = np.flatnonzero(active)
        g.active_nodes[: len(nodes)] = nodes
        g.counts[rg.COUNT] = len(nodes)
        links = self._model.arrays.links
        body = tree.joint[nodes]
        real = body[body < len(links.parent)]
        g.counts[rg.JOINTS] = int(((links.dof[real] > 0) & (links.kind[real] != FREE)).sum())
        counted = (self._engine.co.table[nodes, DOFS] > 0) & (self._engine.co.table[nodes, KIND] != FREE)
        rg.set_active_nodes(self._engine.turns, tree, nodes, counted)

    # Impulses, grips and options

    def apply_impulse(self, link: int, point: np.ndarray, impulse: np.ndarray, angular_impulse: np.ndarray) -> None:
        """Change velocities at once by an impulse on the clusters; see `Stepper`.

        An update comes first that knows the impulse as a force over one step, so that joints near it are active.
        """
        e, g, dt = self._engine, self._engine.regions, self._dt
        k = int(g.counts[rg.WRENCHES])
        if k >= len(self._wrenches.link):
            self._reserve_wrenches(2 * k + 2)
            e = self._engine
        self._wrenches.link[k] = link
        self._wrenches.data[k] = np.concatenate([point, impulse / dt, angular_impulse / dt])
        self._edit(np.array([link]))
        g.wanted[self.assembly.tree_index[link]], g.counts[rg.EARLY] = 1, 0
        self._update_now(dt)
        self._wrenches.data[k, 3:] = np.concatenate([impulse, angular_impulse])
        self._respond(k, dt)
        self._wrenches.link[k] = e.known.link[k] = -1

    def _update_now(self, dt: float) -> None:
        """Take the update that is due."""
        self._advance(1, dt, UPDATE)

    def _respond(self, k: int, dt: float) -> None:
        """Change the velocities of the clusters by the impulse that stands in row k of the wrenches."""
        self._first = k
        self._advance(0, dt, IMPULSE | SCATTER)

    def _with_rows(self) -> Any:
        """Return a stepper with rows in the same state."""
        from limberjack.methods.adaptive.rows import ConstrainedAdaptiveStepper  # which derives from this class

        constraint_set = ConstraintSet(self._model, self._ignored, implicit=self._options.integrator == "implicit")
        stepper = ConstrainedAdaptiveStepper(self._model, self._options, constraint_set, without=self)
        stepper.take_over(self)
        return stepper

    def take_over(self, other: AdaptiveStepper) -> None:
        """Go on from the state of another stepper of the same model."""
        self.q[:], self._qd[:] = other.q, other.qd
        self.set_state_arrays(other.state_arrays())
        self._engine.carried.clock[:] = 0.0

    def tune(self, options: Adaptive) -> None:
        """Take other options while running; the next step begins with an update.

        Only cameras, and budgets where trees are updated in turns, wait for the updates to come.
        """
        old = self._options
        fixed = [(o.tree, o.integrator, o.metric, o.threads, tuple(o.force_bodies)) for o in (options, old)]
        if fixed[0] != fixed[1]:
            raise StateError("tree, force_bodies, metric, integrator and threads cannot be changed while running")
        engine = self._engine
        limits = limits_of(self._model, self.assembly, options, self._joints, engine.limits[-3:])
        weights = (options.weights, options.velocity_weights) != (old.weights, old.velocity_weights)
        if weights:
            for what in ("weights", "velocity_weights"):
                weight_rows(self._model, getattr(options, what) or 1.0, what, self.q)
        self._options, self._widened, self._ready = options, 1.0, None
        self._set_time_tolerance()
        weights = weights or options.by_mass != old.by_mass
        ahead = float(engine.limits.horizon[rg.AHEAD])
        turns = engine.turns
        fewer = np.ones(len(limits.budget), bool)
        if limits.each[0] and engine.limits.each[0]:
            fewer = limits.budget < engine.limits.budget
        elif limits.budget[0] != engine.limits.budget[0]:
            # quotas that groups have traded stay in proportion
            turns.quota[:] = rg.quotas(int(limits.budget[0]), turns.quota if turns.quota.any() else turns.share)
            engine.regions.counts[rg.SPARE_JOINTS] = 0
        for array, new in zip(engine.limits, limits, strict=True):
            if array is not new:
                array[:] = new
        self._set_period(self._dt)
        weights = weights or ahead != engine.limits.horizon[rg.AHEAD]  # drives are implicit over it
        if options.horizon_used != old.horizon_used or weights:
            engine.regions.held[:] = 0
            engine.regions.credit[:] = 0.0
        if weights:
            self._fill_weights(None)
            nb = len(self.assembly.body_link)
            self._stale[nb:] = 1 - self._engine.regions.active_region[nb:]
            if not self._fresh:
                self._prepare(leaves=False)
        counts = engine.regions.counts
        counts[rg.CHECK] = turns.check[turns.group[fewer]] = 1
        # A camera that moves has its effect at the next update, a budget where trees are updated in turns at that of
        # each tree: at every frame an update of all would cost more than the steps.
        values = ((name, getattr(options, name), getattr(old, name)) for name in _names(options))
        changed = {name for name, new, before in values if new is not before and new != before}
        waiting = {"view"} if options.view is not None and old.view is not None else set[str]()
        if len(turns.quota) > 1 and isinstance(options.budget, Sequence) == isinstance(old.budget, Sequence):
            waiting.add("budget")
        if not waiting or changed - waiting:
            counts[rg.ALL_DUE] = 1

    def _fill_weights(self, only: Any) -> None:
        """Fill the weights of all joints, or of the joints named in `only`."""
        o, co, g = self._options, self._engine.co, self._engine.regions
        speeds = o.weights if o.velocity_weights is None else o.velocity_weights
        self._functions = functions_of(o.weights) | functions_of(speeds)
        if only is None:
            wide = g.velocity_weight.shape[1]
            co.own[:, WEIGHT:] = weight_rows(self._model, o.weights, "weights", self.q)[:, :wide]
            g.velocity_weight[:] = weight_rows(self._model, speeds, "velocity_weights", self.q)[:, :wide]
            return
        active = self.active_links()
        names = {name for name in only if active[self._model.arrays.joint_link[self._model.joint_names.index(name)]]}
        for what, weights, rows in (
            ("weights", o.weights, co.own[:, WEIGHT:]),
            ("velocity_weights", speeds, g.velocity_weight),
        ):
            new = weight_rows(self._model, weights, what, self.q, only=names)
            for name in names & set(functions_of(weights)):
                v = self._model.joint(name).v
                rows[v] = new[v, : rows.shape[1]]

    # Memory

    def state_arrays(self) -> dict[str, np.ndarray]:
        """Return the active region, the time to its next update, and what was last known of q, qd and forces."""
        e, g = self._engine, self._engine.regions
        held, tried = np.flatnonzero(g.held), np.unique(np.flatnonzero(g.trust) // rg.TRUST)
        since = np.where(g.trust[tried, :2] > 0.0, g.counts[rg.STAMP] - g.tried[tried], 0)
        changed = e.known.joint * (g.edit[e.known.owner] & rg.JOINT_FORCE > 0)
        return {
            "active": g.active_region.copy(), "until": g.counts[[rg.UNTIL]].copy(),
            "check": g.counts[[rg.CHECK]].copy(), "touched": g.edit.copy(),
            "since": g.counts[rg.TAKEN] - g.updated, "list_held": held, "list_missed": g.missed[held, : rg.MISSED_FX],
            "credit": g.credit.copy(), "list_tried": tried, "list_trust": g.trust[tried], "list_tried_since": since,
            "early": g.counts[[rg.EARLY, rg.ALL_DUE, rg.TURN, rg.SPARE_JOINTS]].copy(), "wanted": g.wanted.copy(),
            "quota": e.turns.quota.copy(), "left_out": e.turns.error.copy(), "changed": changed,
            "turn_check": e.turns.check.copy(),
            "fresh": np.array([self._fresh], np.uint8), "widened": np.array([self._widened]),
            "dt": np.array([self._dt]), "q": e.q.copy(), "qd": e.qd.copy(), "tau": e.tau.copy(),
            "weight": e.co.own[:, WEIGHT:].copy(), "velocity_weight": g.velocity_weight.copy(),
            **drive_arrays(self._drives),
            **{f"wrenches.{k}": v for k, v in in_use(self._wrenches)._asdict().items()},
            **{f"known_wrenches.{k}": v for k, v in self._known_list()._asdict().items()},
            **self._carried_arrays(),
        }  # fmt: skip

    def _known_list(self) -> Wrenches:
        """Return the wrenches that the last update knew; those on trees not updated since may be at any index."""
        known, k = self._engine.known, len(self._engine.known.link)
        while k > 0 and known.link[k - 1] < 0:
            k -= 1
        data = known.data[:k].copy()
        data[known.link[:k] < 0] = 0.0
        return Wrenches(known.link[:k].copy(), data)

    def _carried_arrays(self) -> dict[str, np.ndarray]:
        """Return what the clusters carry from step to step."""
        if self._code < VARIATIONAL:
            return {}
        carried = self._engine.carried
        return {
            "list_momentum": carried.momentum[self._in_blocks(LINK)].copy(),
            "list_history": carried.history[:, self._in_blocks(DOF)].T.copy(),
            "list_clock": carried.clock[: self._blocks_used()].copy(),
        }

    def _set_carried_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        """Set what `_carried_arrays` returned, for the hybrid body of that time."""
        if self._code < VARIATIONAL or "list_clock" not in arrays:
            return
        carried = self._engine.carried
        for name, target, column in (
            ("list_momentum", carried.momentum, LINK),
            ("list_history", carried.history.T, DOF),
        ):
            where, k = self._in_blocks(column), len(arrays[name])
            if isinstance(where, slice):
                target[:k] = arrays[name]
            else:
                target[where[:k]] = arrays[name][: len(where)]
        carried.clock[: len(arrays["list_clock"])] = arrays["list_clock"]

    def _in_blocks(self, column: int) -> Any:
        """Return which of the hybrid body's clusters (LINK) or dofs (DOF) are in use: a slice, or indices of groups."""
        if len(self._engine.turns.quota) == 1:
            return slice(0, int(self._body.whole[column + 1]))
        blocks = self._body.blocks[: int(self._body.count[0]), column : column + 2]
        return np.concatenate([np.arange(0), *(np.arange(first, last) for first, last in blocks)])

    def _blocks_used(self) -> int:
        return int(self._body.count[0])

    def set_state_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        """Set what `state_arrays` returned; all coefficients are computed again, from the same numbers."""
        e, g = self._engine, self._engine.regions
        self._check_arrays(arrays)
        self._ready = None
        self._dt = float(arrays["dt"][0])
        e.limits.tolerance[:] *= float(arrays["widened"][0]) / self._widened
        self._widened, self._spent, self._timed = float(arrays["widened"][0]), 0.0, 0
        self._set_time_tolerance()
        self._set_period(self._dt)
        e.q[:], e.qd[:], e.tau[:] = arrays["q"], arrays["qd"], arrays["tau"]
        e.co.own[:, WEIGHT:], g.velocity_weight[:] = arrays["weight"], arrays["velocity_weight"]
        self._drives = drives_from(arrays)
        acting = Wrenches(*(arrays[f"wrenches.{k}"] for k in Wrenches._fields))
        before = Wrenches(*(arrays[f"known_wrenches.{k}"] for k in Wrenches._fields))
        self._reserve_wrenches(max(len(acting.link), len(before.link)))
        e = self._engine
        for own, new in ((self._wrenches, acting), (e.known, before)):
            own.link[:], own.link[: len(new.link)], own.data[: len(new.link)] = -1, new.link, new.data
        g.counts[rg.WRENCHES] = len(acting.link)
        for regions in (g, *(part.engine.regions for part in self._parts)):
            regions.counts[rg.EPOCH] += 1
        g.counts[rg.CHECK] = arrays["check"][0]
        g.updated[:] = g.counts[rg.TAKEN] - arrays["since"]
        g.held[:] = 0
        g.held[arrays["list_held"]] = 1
        g.missed[arrays["list_held"], : rg.MISSED_FX] = arrays["list_missed"]
        g.credit[:] = arrays["credit"]
        tried = arrays["list_tried"]
        g.trust[:] = 0.0
        g.trust[tried], g.tried[tried] = arrays["list_trust"], g.counts[rg.STAMP] - arrays["list_tried_since"]
        g.counts[[rg.EARLY, rg.ALL_DUE, rg.TURN, rg.SPARE_JOINTS]] = arrays["early"]
        g.wanted[:] = arrays["wanted"]
        if len(arrays["quota"]) == len(e.turns.quota):
            e.turns.quota[:], e.turns.error[:] = arrays["quota"], arrays["left_out"]
            e.turns.check[:] = arrays["turn_check"]
        else:  # of a stepper without rows, whose trees took turns
            g.counts[[rg.TURN, rg.SPARE_JOINTS]], g.counts[rg.ALL_DUE] = 0, 1
        e.known.joint[:], g.edit[:] = arrays["changed"], arrays["touched"]
        self._start_region(arrays["active"].astype(bool))
        touched = np.flatnonzero(g.edit)
        g.edited[: len(touched)] = touched
        g.counts[rg.PUSHED] = np.count_nonzero(g.edit[touched] & rg.VELOCITY == 0)
        g.counts[rg.EDITED], g.counts[rg.UNTIL], g.counts[rg.STALE] = len(touched), arrays["until"][0], 0
        self._fresh, self._dirty = bool(arrays["fresh"][0]), True
        if not self._fresh:
            nb = len(self.assembly.body_link)
            self._stale[:] = 0
            self._stale[nb:] = 1 - g.active_region[nb:]
            self._prepare_from(arrays)
            self._mark_old_columns(touched)
            self._set_carried_arrays(arrays)

    def _prepare_from(self, arrays: dict[str, np.ndarray]) -> None:
        """Find all coefficients again, with the joint forces that they were found with."""
        self._prepare(leaves=True)

    def _mark_old_columns(self, touched: np.ndarray) -> None:
        """Let the next update find the coefficients above rigid joints whose forces have changed since the last."""
        g, parent = self._engine.regions, self.assembly.parent
        for i in touched[g.edit[touched] & rg.JOINT_FORCE > 0]:
            node = int(self.assembly.node_of[i])
            while node >= 0 and not g.active_region[node] and not self._stale[node]:
                self._stale[node] = 1
                g.stale_nodes[g.counts[rg.STALE]] = node
                g.counts[rg.STALE] += 1
                node = int(parent[node])

    def _check_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        """Refuse regions and indices that would lead a kernel out of its arrays: files may contain anything."""
        tree, active = self.assembly, arrays["active"]
        nb, n = len(tree.body_link), len(self._model.arrays.links.parent)
        inside = np.flatnonzero(active)
        up = tree.parent[inside]
        wrenches, before, early = arrays["wrenches.link"], arrays["known_wrenches.link"], arrays["early"]
        fits = (
            1.0 <= float(arrays["widened"][0]) <= _WIDEST
            and (inside >= nb).all() and active[up[up >= 0]].all() and 0.0 <= float(arrays["dt"][0]) <= 1.0
            and ((wrenches >= 0) & (wrenches < n)).all() and arrays["wrenches.data"].shape == (len(wrenches), 9)
            and all(((arrays[key] >= nb) & (arrays[key] < 2 * nb)).all() for key in ("list_held", "list_tried"))
            and arrays["list_missed"].shape == (len(arrays["list_held"]), rg.MISSED_FX)
            and arrays["list_trust"].shape == (len(arrays["list_tried"]), rg.TRUST)
            and arrays["list_tried_since"].shape == (len(arrays["list_tried"]), 2)
            and np.array_equal(arrays["drives.place"], self._drives.indices)
            and (self._code < VARIATIONAL or _fits(arrays, self._engine.carried))
            and np.array_equal(arrays["drives.ball_place"], self._drives.ball_indices)
            and ((before >= -1) & (before < n)).all() and arrays["known_wrenches.data"].shape == (len(before), 9)
            and 0 <= early[2] < len(arrays["quota"]) and (arrays["quota"] >= 0).all() and early[3] >= 0
        )  # fmt: skip
        if not fits:
            raise StateError(f'the active region of this snapshot does not fit model "{self._model.name}"')

    def _time_stats(self) -> dict[str, float]:
        """Return the error in time of accelerations, squared, and the tolerance of it and of joints together."""
        o = self._options
        if o.dt != "auto" or o.tolerance is None:
            return {}
        clock = self._engine.carried.clock[: self._blocks_used()]
        return {
            "time_error": float((clock[:, TIME_ERROR] * clock[:, LENGTH] ** 4).sum()),
            "tolerance": o.tolerance * self._widened,
        }

    def row_forces(self, exerted: np.ndarray, forces: Forces) -> RowForces:
        """Return no forces: a tree has no rows."""
        return no_row_forces()

    def stats(self) -> dict[str, Any]:
        """Return what the last step and the last region update did."""
        g, c, x = self._engine.regions, self._engine.regions.counts, self._engine.regions.numbers
        words = ("substeps", "evaluations", "halved", "projected") if self._code >= VARIATIONAL else ()
        return dict(zip(words, map(int, self._engine.counts), strict=False)) | {
            "nodes": len(self._cluster_roots()),
            "active_joints": int(c[rg.JOINTS]),
            "joints": self._joints,
            "updates": int(c[rg.STAMP]),
            "trees_updated": int(c[rg.TREES]),
            "nodes_refreshed": int(c[rg.REFRESHED]),
            "update_nodes": int(c[rg.VISITED]),
            "queue_pops": int(c[rg.POPPED]),
            "entered": int(c[rg.ENTERED]),
            "left": int(c[rg.LEFT]),
            "changes": int(c[rg.TURNOVER]),
            "error_estimate": float(x[rg.ERROR]),
            "acceleration_metric": float(x[rg.TOTAL]),
            "velocity_error": float(x[rg.VELOCITY_ERROR]),
            **self._time_stats(),
            "changes_per_second": float(x[rg.CHANGE_RATE]),
            "energy_removed": float(x[rg.REMOVED]),
            "energy_removed_total": float(x[rg.REMOVED_ALL]),
            "threads": max(len(self._parts), 1),
            "depth": int(self.assembly.depth.max(initial=0)),
            "bytes": sum(array.nbytes for part in (g, self._engine.co) for array in part),
        }
