"""The running side of `Adaptive`: one compiled call per `advance`, with region updates inside.

    every `update_every` steps:  a region update (`region_update.py`)
    ordinary steps:              those of `reduced/step.py`, on the hybrid body

q and qd that users see are copies of the engine's own: what they differ in was set from outside. The coefficients of
nodes with such joints are then computed again, and the next step begins with an update that activates the nodes above.
Before the stepper stand the functions that derive limits, assembly tree and changed wrenches from options and forces.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from limberjack._jit import entry
from limberjack.errors import LimberjackError, ModelError, StateError, Status, UnsupportedByMethod
from limberjack.methods.adaptive import layout as rg
from limberjack.methods.adaptive.cluster_poses import ClusterPoses, Clusters
from limberjack.methods.adaptive.hybrid_body import HybridBody, new_hybrid_body
from limberjack.methods.adaptive.metrics import functions_of, weight_rows
from limberjack.methods.adaptive.options import Adaptive
from limberjack.methods.adaptive.poses import new_link_map
from limberjack.methods.adaptive.step import (
    LEAVES,
    PREPARE,
    VARIATIONAL,
    VELOCITIES,
    AssemblyBodies,
    Engine,
    adaptive_steps,
    lazy_work,
)
from limberjack.methods.adaptive.view_metric import PERIOD, levers, view_numbers
from limberjack.methods.momentum_steppers import spring_rates, stiff_springs
from limberjack.methods.stepper import Forces, Stepper
from limberjack.model.arrays import DOF, LINK, SPAN, Drives, drive_arrays, drives_from
from limberjack.model.joints import FREE
from limberjack.model.model import Model
from limberjack.reduced.assembly_tree import TREE_COLUMNS, WEIGHT, Assembly, new_assembly, new_coefficients
from limberjack.reduced.constraint_set import ConstraintSet, Grip
from limberjack.reduced.forces import Wrenches, new_spring_work, no_wrenches
from limberjack.reduced.momentum import new_momentum_targets
from limberjack.reduced.step import IMPLICIT, INTEGRATORS, RK4, new_buffers
from limberjack.reduced.variational import COUNTS, Carried, new_carried, new_variational_work

__all__ = ["AdaptiveStepper", "limits_of", "tree_options", "with_wrenches", "wrench_links"]


def with_wrenches(body: HybridBody, count: int) -> HybridBody:
    """Return a hybrid body with room for `count` wrenches."""
    return body._replace(wrenches=Wrenches(np.zeros(count, np.int64), np.zeros((count, 9))))


def wrench_links(old: Wrenches, new: Wrenches) -> np.ndarray:
    """Return the links on which wrenches differ."""
    if len(old.link) == len(new.link) and (old.link == new.link).all() and (old.data == new.data).all():
        return np.zeros(0, np.int64)
    before = {(int(i), row.tobytes()) for i, row in zip(old.link, old.data, strict=True)}
    after = {(int(i), row.tobytes()) for i, row in zip(new.link, new.data, strict=True)}
    return np.array(sorted({i for i, _ in before ^ after}), np.int64)


def limits_of(model: Model, tree: Assembly, options: Adaptive, joints: int) -> rg.Limits:
    """Return when choices end, checked against the model."""
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
    # Of the velocities, without a tolerance of their own: in pixels the same, else by the period, which `dt` decides.
    tolerance = np.array([-1.0 if options.tolerance is None else options.tolerance, -1.0])
    if options.view is not None and options.tolerance is None:
        tolerance[0] = options.view.tolerance**2
    if options.velocity_tolerance is not None:
        tolerance[1] = options.velocity_tolerance
    elif options.view is not None:
        tolerance[1] = tolerance[0]
    return rg.Limits(
        whole, looked, tolerance, np.array([options.update_every], np.int64), np.array([int(each)], np.int64),
        np.array([int(options.error_bounded)], np.int64), np.array([int(options.metric == "mass")], np.int64),
        view_numbers(options.view), *_levers(model, tree, options),
    )  # fmt: skip


def _levers(model: Model, tree: Assembly, options: Adaptive) -> tuple[np.ndarray, np.ndarray]:
    return levers(model, tree) if options.view is not None else (np.zeros(len(tree.parent)), np.zeros(len(tree.parent)))


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
    if options.tree == "forces":
        weight = np.ones(n)
        ends = a.springs.link[a.springs.link >= 0]
        named = np.array([a.body_link[model.body_index(name)] for name in options.force_bodies], np.int64)
        acted_on = np.unique(np.concatenate([ends, named[named >= 0]])).astype(np.int64)
        weight[acted_on] = n
        return {"weight": weight}
    return {}


def _fits(arrays: dict[str, np.ndarray], carried: Carried) -> bool:
    """Return whether what was carried has the columns it must have, and not too many rows."""
    return all(
        arrays[name].shape[1:] == room.shape[1:] and len(arrays[name]) <= len(room)
        for name, room in (
            ("list_momentum", carried.momentum), ("list_history", carried.history.T), ("list_clock", carried.clock),
        )
    )  # fmt: skip


class AdaptiveStepper(Stepper):
    """The running side of `Adaptive`."""

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
        self._spring_rates = spring_rates(model)
        step_work = lazy_work(links, n)
        springs = new_spring_work(links, a.springs)
        self._engine = Engine(
            AssemblyBodies(tree.body_link, tree.share, tree.roots), co, link_map, transient_map, np.zeros(nv),
            lazy_work(links, 0), lazy_work(links, n), step_work, new_buffers(model.nq, nv),
            new_momentum_targets(links, np.zeros(SPAN, np.int64), False), np.zeros(SPAN, np.int64),
            limits_of(model, tree, options, self._joints),
            rg.new_regions(tree, n, nv, co.own.shape[1] - WEIGHT), np.zeros(model.nq), np.zeros(nv), self.q.copy(),
            self._qd.copy(), np.zeros(nv), new_variational_work(links, step_work, springs, True),
            new_carried(links, len(tree.roots)), new_carried(links, len(tree.roots)), np.zeros(COUNTS, np.int64),
            np.ones(1, np.int64),
        )  # fmt: skip
        # the table holds the tree: its own arrays are views of that from here on
        columns = {name: co.table[:, k] for k, name in enumerate(TREE_COLUMNS)}
        self.assembly = tree._replace(**columns)
        self._drives = Drives(*(array.copy() for array in a.drives))
        self._wrenches: Wrenches = no_wrenches()
        self._call: Any = adaptive_steps
        self._body, self._trial = new_hybrid_body(model, 0), new_hybrid_body(model, 0)
        self._pull, self._aside = springs, new_spring_work(links, a.springs)
        self._dirty, self._dt = True, 0.0
        self._cluster_poses: ClusterPoses | None = None
        self._stale = np.zeros(2 * len(tree.body_link), np.uint8)
        self._fill_weights(None)
        self._start_region(np.zeros(len(self._stale), bool))
        self._fresh = True

    @property
    def qd(self) -> np.ndarray:  # pyright: ignore[reportIncompatibleVariableOverride]
        """(nv,) velocities at q."""
        if self._engine.current[0] == 0:
            self._advance(0, self._dt, VELOCITIES)
        return self._qd

    def carried_velocities(self) -> np.ndarray:
        """Return the velocities of the hybrid body; see `Stepper`."""
        return self._body.qd[: int(self._body.whole[DOF + 1])]

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
        return self._body.link[: int(self._body.whole[LINK + 1])].copy()

    def _report(self, q: np.ndarray, since: int) -> Clusters:
        """Return the clusters of the hybrid body as it is; of `q` the coordinates of active links may be old."""
        if self._cluster_poses is None:
            self._cluster_poses = ClusterPoses(self._model)
        return self._cluster_poses.report(self._cluster_roots(), q, since)

    def advance(self, n: int, dt: float, forces: Forces, time: float = 0.0) -> tuple[int, int]:
        """Take up to n steps; see `Stepper`."""
        if self._dirty or dt != self._dt or self._fresh:
            self._take_edits(dt, forces)
        self._engine.counts[:] = 0
        if not self._functions:
            return self._advance(n, dt)
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

    def _advance(self, n: int, dt: float, todo: int = 0) -> tuple[int, int]:
        a, e = self._model.arrays, self._engine
        taken, status = self._call(
            a.links, self._drives, a.springs, n, self._code, 2 if self._code == RK4 else 1, dt,
            stiff_springs(self._spring_rates, dt), self._wrenches, self._stale, todo, e, self._trial, self._pull,
            self._aside, self._body, self.q, self._qd,
        )  # fmt: skip
        if self._call is adaptive_steps:
            self._call = entry(adaptive_steps)
        if status and n == 0:
            raise self._preparation_error(status)
        return taken, self._model_status(status) if status else 0

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
        n = int(self._body.whole[LINK + 1])
        k = int(np.searchsorted(out.v_start[:n], v, side="right")) - 1
        v = int(links.v_start[self._body.link[k]] + v - out.v_start[k]) if n else v
        return kind + v

    # What users change

    def invalidate(self) -> None:
        """Compare what users see with the engine's own at the next step: something was set."""
        self._dirty = True

    def _take_edits(self, dt: float, forces: Forces) -> None:
        """Compare what users see with the engine's own and bring the regions up to date."""
        e, tree, qd = self._engine, self.assembly, self.qd
        links, n = self._model.arrays.links, len(self._model.arrays.links.parent)
        active = self.active_links()
        of_dof = np.repeat(np.arange(n), links.dof)
        of_q = np.repeat(np.arange(n), np.diff(np.append(links.q_start, len(self.q))))
        moved = np.unique(of_q[self.q != e.q])
        sped = np.unique(of_dof[qd != e.qd])
        pushed = [of_dof[forces.tau != e.tau]]
        for indices, name in ((self._drives.indices, "scalar"), (self._drives.ball_indices, "ball")):
            differs = (getattr(forces.drives, name) != getattr(self._drives, name)).any(axis=1)
            pushed.append(of_dof[indices[differs, 1]])
            getattr(self._drives, name)[:] = getattr(forces.drives, name)
        driven = np.unique(np.concatenate(pushed))
        pulled = wrench_links(self._wrenches, forces.wrenches)
        e.q[:], e.qd[:], e.tau[:] = self.q, qd, forces.tau
        implicit = self._code == IMPLICIT or self._code >= VARIATIONAL
        whole = self._fresh or (implicit and dt != self._dt)
        if self._fresh or dt != self._dt:
            self._set_period(dt)
        self._dt = dt
        self._dirty = False
        touched = np.unique(np.concatenate([sped[(self.qd_of(sped) != 0.0) & ~active[sped]], driven, pulled]))
        if not (whole or len(moved) or len(sped) or len(touched)):
            return
        if len(forces.wrenches.link) != len(self._wrenches.link):
            self._body = with_wrenches(self._body, len(forces.wrenches.link))
            self._trial = with_wrenches(self._trial, len(forces.wrenches.link))
        self._wrenches = Wrenches(*(array.copy() for array in forces.wrenches))
        self._mark_stale(np.concatenate([moved, driven]), active)
        if self._functions and (len(moved) or self._fresh):
            self._fill_weights(None)
        if whole:
            self._stale[len(tree.body_link) :] = 1 - e.regions.active_region[len(tree.body_link) :]
        if self._fresh:
            self._fresh = False
            touched = np.union1d(touched, np.flatnonzero((self.qd_of(np.arange(n)) != 0.0) & ~active))
            self._prepare(leaves=True)
        else:
            self._prepare(leaves=False)
        g = e.regions
        kept = g.edited[: g.counts[rg.EDITED]]
        touched = np.union1d(kept, touched)
        g.edited[: len(touched)] = touched
        g.counts[rg.EDITED] = len(touched)
        g.counts[rg.UNTIL] = 0

    def _set_period(self, dt: float) -> None:
        """Set what depends on the time between two updates."""
        o, limits = self._options, self._engine.limits
        period = o.update_every * dt
        limits.camera[PERIOD] = period
        if o.velocity_tolerance is None and o.view is None and o.tolerance is not None:
            limits.tolerance[1] = o.tolerance * period * period

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

    # Grips and options

    def grab(self, grip: Grip) -> Stepper:
        """Add a grip; see `Stepper`: a stepper with rows takes over."""
        from limberjack.methods.adaptive.rows import ConstrainedAdaptiveStepper  # which derives from this class

        constraint_set = ConstraintSet(self._model, self._ignored, implicit=self._options.integrator == "implicit")
        stepper = ConstrainedAdaptiveStepper(self._model, self._options, constraint_set)
        stepper.take_over(self)
        return stepper.grab(grip)

    def tune(self, options: Adaptive) -> None:
        """Take other options while running; the next step begins with an update."""
        old = self._options
        if (options.tree, options.integrator, options.metric) != (old.tree, old.integrator, old.metric) or tuple(
            options.force_bodies
        ) != tuple(old.force_bodies):
            raise StateError("tree, force_bodies, metric and integrator cannot be changed while running")
        limits = limits_of(self._model, self.assembly, options, self._joints)
        weights = (options.weights, options.velocity_weights) != (old.weights, old.velocity_weights)
        if weights:
            for what in ("weights", "velocity_weights"):
                weight_rows(self._model, getattr(options, what) or 1.0, what, self.q)
        self._options = options
        for array, new in zip(self._engine.limits, limits, strict=True):
            array[:] = new
        self._set_period(self._dt)
        if weights:
            self._fill_weights(None)
            nb = len(self.assembly.body_link)
            self._stale[nb:] = 1 - self._engine.regions.active_region[nb:]
            if not self._fresh:
                self._prepare(leaves=False)
        self._engine.regions.counts[rg.UNTIL], self._engine.regions.counts[rg.CHECK] = 0, 1

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
        touched = np.zeros(len(g.edited), np.uint8)
        touched[g.edited[: g.counts[rg.EDITED]]] = 1
        return {
            "active": g.active_region.copy(), "until": g.counts[[rg.UNTIL]].copy(),
            "check": g.counts[[rg.CHECK]].copy(), "touched": touched,
            "fresh": np.array([self._fresh], np.uint8),
            "dt": np.array([self._dt]), "q": e.q.copy(), "qd": e.qd.copy(), "tau": e.tau.copy(),
            "weight": e.co.own[:, WEIGHT:].copy(), "velocity_weight": g.velocity_weight.copy(),
            **drive_arrays(self._drives),
            **{f"wrenches.{k}": v.copy() for k, v in self._wrenches._asdict().items()},
            **self._carried_arrays(),
        }  # fmt: skip

    def _carried_arrays(self) -> dict[str, np.ndarray]:
        """Return what the clusters carry from step to step."""
        if self._code < VARIATIONAL:
            return {}
        carried, whole = self._engine.carried, self._body.whole
        return {
            "list_momentum": carried.momentum[: whole[LINK + 1]].copy(),
            "list_history": carried.history[:, : whole[DOF + 1]].T.copy(),
            "list_clock": carried.clock[: self._blocks_used()].copy(),
        }

    def _set_carried_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        """Set what `_carried_arrays` returned, for the hybrid body of that time."""
        if self._code < VARIATIONAL or "list_clock" not in arrays:
            return
        carried = self._engine.carried
        for name, target in (
            ("list_momentum", carried.momentum), ("list_history", carried.history.T), ("list_clock", carried.clock),
        ):  # fmt: skip
            target[: len(arrays[name])] = arrays[name]

    def _blocks_used(self) -> int:
        return int(self._body.count[0])

    def set_state_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        """Set what `state_arrays` returned; all coefficients are computed again, from the same numbers."""
        e, g = self._engine, self._engine.regions
        self._check_arrays(arrays)
        self._dt = float(arrays["dt"][0])
        e.q[:], e.qd[:], e.tau[:] = arrays["q"], arrays["qd"], arrays["tau"]
        e.co.own[:, WEIGHT:], g.velocity_weight[:] = arrays["weight"], arrays["velocity_weight"]
        self._drives = drives_from(arrays)
        self._wrenches = Wrenches(*(arrays[f"wrenches.{k}"].copy() for k in Wrenches._fields))
        self._body = with_wrenches(self._body, len(self._wrenches.link))
        self._trial = with_wrenches(self._trial, len(self._wrenches.link))
        g.counts[rg.EPOCH] += 1
        g.counts[rg.CHECK] = arrays["check"][0]
        self._start_region(arrays["active"].astype(bool))
        touched = np.flatnonzero(arrays["touched"])
        g.edited[: len(touched)] = touched
        g.counts[rg.EDITED], g.counts[rg.UNTIL] = len(touched), arrays["until"][0]
        self._fresh, self._dirty = bool(arrays["fresh"][0]), True
        if not self._fresh:
            nb = len(self.assembly.body_link)
            self._stale[nb:] = 1 - g.active_region[nb:]
            self._prepare(leaves=True)
            self._set_carried_arrays(arrays)

    def _check_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        """Refuse regions and indices that would lead a kernel out of its arrays: files may contain anything."""
        tree, active = self.assembly, arrays["active"]
        nb, n = len(tree.body_link), len(self._model.arrays.links.parent)
        inside = np.flatnonzero(active)
        up = tree.parent[inside]
        wrenches = arrays["wrenches.link"]
        fits = (
            (inside >= nb).all() and active[up[up >= 0]].all() and 0.0 <= float(arrays["dt"][0]) <= 1.0
            and ((wrenches >= 0) & (wrenches < n)).all() and arrays["wrenches.data"].shape == (len(wrenches), 9)
            and np.array_equal(arrays["drives.place"], self._drives.indices)
            and (self._code < VARIATIONAL or _fits(arrays, self._engine.carried))
            and np.array_equal(arrays["drives.ball_place"], self._drives.ball_indices)
        )  # fmt: skip
        if not fits:
            raise StateError(f'the active region of this snapshot does not fit model "{self._model.name}"')

    def stats(self) -> dict[str, Any]:
        """Return what the last step and the last region update did."""
        g, c, x = self._engine.regions, self._engine.regions.counts, self._engine.regions.numbers
        words = ("substeps", "evaluations", "halved", "projected") if self._code >= VARIATIONAL else ()
        return dict(zip(words, map(int, self._engine.counts), strict=False)) | {
            "nodes": int(self._body.whole[LINK + 1]),
            "active_joints": int(c[rg.JOINTS]),
            "joints": self._joints,
            "updates": int(c[rg.STAMP]),
            "update_nodes": int(c[rg.VISITED]),
            "queue_pops": int(c[rg.POPPED]),
            "entered": int(c[rg.ENTERED]),
            "left": int(c[rg.LEFT]),
            "changes": int(c[rg.TURNOVER]),
            "error_estimate": float(x[rg.ERROR]),
            "acceleration_metric": float(x[rg.TOTAL]),
            "velocity_error": float(x[rg.VELOCITY_ERROR]),
            "energy_removed": float(x[rg.REMOVED]),
            "energy_removed_total": float(x[rg.REMOVED_ALL]),
            "depth": int(self.assembly.depth.max(initial=0)),
            "bytes": sum(array.nbytes for part in (g, self._engine.co) for array in part),
        }
