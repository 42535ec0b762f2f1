"""Loops, limits, gears and grips on the hybrid body: rows of the model, transformed to the clusters at every update.

After an update every pair of frames is transformed to its clusters, rows within one cluster and those of rigid joints
are dropped, and steps are those of `reduced/constrained_step.py` on the hybrid body. The update itself includes the
rows by their last multipliers, as forces on links and joints. Velocities that rigidification leaves across a loop are
projected by the first step.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from limberjack._jit import entry, kernel
from limberjack.constraints.rows import COORDINATES, GAP, ROWS
from limberjack.constraints.table import EQUALITY, SPRING, Table
from limberjack.errors import BudgetWarning, LimberjackError, Status
from limberjack.methods.adaptive import layout as rg
from limberjack.methods.adaptive.hybrid_body import trimmed
from limberjack.methods.adaptive.method import AdaptiveStepper, in_use, room_for, with_wrenches
from limberjack.methods.adaptive.options import Adaptive
from limberjack.methods.adaptive.poses import locate
from limberjack.methods.adaptive.step import SCATTER, UPDATE, VARIATIONAL, VELOCITIES, WRENCH_LIST
from limberjack.methods.momentum_steppers import stiff_springs
from limberjack.methods.stepper import Forces, Stepper
from limberjack.model.arrays import COORDINATE, DOF, Links
from limberjack.model.joints import FREE
from limberjack.model.model import Model
from limberjack.reduced.constrained_step import ACCELERATIONS, take_constrained_steps
from limberjack.reduced.constraint_set import ConstraintSet, Grip
from limberjack.reduced.forces import Wrenches, no_wrenches
from limberjack.reduced.rows import LINK_END, LINK_START, PAIR_END, PAIR_START, paths
from limberjack.reduced.step import RK4
from limberjack.reduced.variational import ITERATIONS, LAG, External
from limberjack.reduced.variational_rows import RowSet, constrained_velocities_at, take_variational_row_steps
from limberjack.spatial.frames import compose
from limberjack.spatial.vectors import cross

__all__ = ["ConstrainedAdaptiveStepper"]


@kernel
def _locate_all(
    # model
    links, table, numbers,
    # in
    active, link_map, which,
    # out
    cluster, pose,
):  # fmt: skip
    """Fill the cluster of each link in `which`, and its pose (rotation by rows, position) there."""
    for k in range(len(which)):
        cluster[k], r, x, y, z = locate(links, table, numbers, active, link_map, which[k])
        for c in range(9):
            pose[k, c] = r[c]
        pose[k, 9], pose[k, 10], pose[k, 11] = x, y, z


@kernel
def _row_forces(
    # in
    table, multipliers, wrench, state, own,
    # out
    total, out, joint,
):  # fmt: skip
    """Fill the forces of all rows in the last step: wrenches on links, after those of `own`, and joint forces.

    Args:
        own: the lasting wrenches.
        total: (pairs, 6) scratch, the wrench of each pair.
        out: wrenches, with room for both.
        joint: (nv,) joint forces.
    """
    for p in range(len(total)):
        for k in range(6):
            total[p, k] = 0.0
    for v in range(len(joint)):
        joint[v] = 0.0
    for slot in range(2):
        for r in range(len(multipliers)):
            p = table.row_pair[r, slot]
            if p >= 0:
                for k in range(6):
                    total[p, k] += wrench[r, 6 * slot + k] * multipliers[r]
            if table.indices[r, slot] >= 0:
                joint[table.indices[r, slot]] += table.share[r, slot] * multipliers[r]
    count = len(own.link)
    for j in range(count):
        out.link[j] = own.link[j]
        for k in range(9):
            out.data[j, k] = own.data[j, k]
    for end in range(2):
        sign = -1.0 if end == 0 else 1.0
        for p in range(len(total)):
            if table.pair_link[p, end] < 0:
                continue
            fx, fy, fz = total[p, 3], total[p, 4], total[p, 5]
            x, y, z = total[p, 0], total[p, 1], total[p, 2]
            if end == 0:
                dx, dy, dz = cross(state[p, GAP], state[p, GAP + 1], state[p, GAP + 2], fx, fy, fz)
                x, y, z = x + dx, y + dy, z + dz
            out.link[count] = table.pair_link[p, end]
            for k in range(3):
                out.data[count, k] = table.pair_frame[p, 12 * end + 9 + k]
            out.data[count, 3], out.data[count, 4], out.data[count, 5] = sign * fx, sign * fy, sign * fz
            out.data[count, 6], out.data[count, 7], out.data[count, 8] = sign * x, sign * y, sign * z
            count += 1


def _ranges(start: np.ndarray, own: np.ndarray, total: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the indices in the model of `total` numbers, in ranges that begin there at `start` and here at `own`."""
    size = np.diff(np.append(own, total))
    return np.repeat(start - own, size) + np.arange(total), np.arange(total)


def loop_groups(links: Links, table: Table) -> list[np.ndarray]:
    """Return groups of links whose joints equality rows connect; rows that share a joint are one group.

    A loop that is open at one joint cannot be held: its joints move together or not at all.
    """
    owner, parent = np.repeat(np.arange(len(links.parent)), links.dof), links.parent
    group = np.arange(len(parent))

    def root(i: int) -> int:
        while group[i] != i:
            i = group[i]
        return i

    for r in np.flatnonzero(table.role == EQUALITY):
        cycle = [int(owner[v]) for v in table.indices[r, :2] if v >= 0]
        for pair in table.row_pair[r][table.row_pair[r] >= 0]:
            a, b = (int(i) for i in table.pair_link[pair])
            while a != b:  # parents come before children
                cycle.append(max(a, b))
                a, b = min(a, b), int(parent[max(a, b)])
        for i in cycle[1:]:
            group[root(i)] = root(cycle[0])
    roots = np.array([root(i) for i in range(len(parent))], np.int64)
    moving = (links.dof > 0) & (links.kind != FREE)
    groups = [np.flatnonzero((roots == k) & moving) for k in np.unique(roots)]
    return [one for one in groups if len(one) > 1]


class ConstrainedAdaptiveStepper(AdaptiveStepper):
    """The running side of `Adaptive` for models with rows beside their tree."""

    # Rows enter the accelerations by their last forces: as predictions these hold for a step and not for longer.
    _periods_ahead = 0

    def __init__(self, model: Model, options: Adaptive, constraint_set: ConstraintSet) -> None:
        self.constraint_set = constraint_set
        super().__init__(model, options)
        self._steps: Any = take_constrained_steps
        self._row_wrenches, self._row_tau = no_wrenches(), np.zeros(model.nv)  # forces of rows in the last step
        self._pair_forces = np.zeros((0, 6))
        # dofs and coordinates of the hybrid body by those of the model, -1 = none, and those of the model that have one
        self._dof, self._coordinate = np.full(model.nv, -1, np.int64), np.full(model.nq + 1, -1, np.int64)
        self._moved = self._shifted = np.zeros(0, np.int64)
        self._warned = False
        self._prepare_rows()

    def _loops(self) -> list[np.ndarray]:
        """Return the links of joints that loops, gears and velocity constraints connect, group by group."""
        return loop_groups(self._model.arrays.links, self.constraint_set.table)

    def _prepare_rows(self) -> None:
        """Take what stays of the rows while clusters change."""
        table = self.constraint_set.table
        self._ends = np.unique(table.pair_link[table.pair_link >= 0])
        self._end_index = np.full(len(self._model.arrays.links.parent), -1, np.int64)
        self._end_index[self._ends] = np.arange(len(self._ends))
        self._owner = np.repeat(np.arange(len(self._model.arrays.links.parent)), self._model.arrays.links.dof)
        self._table: Table | None = None

    # Stepping

    def advance(self, n: int, dt: float, forces: Forces, time: float = 0.0) -> tuple[int, int]:
        """Take up to n steps; see `Stepper`."""
        if self._dirty or dt != self._dt or self._fresh:
            self._take_edits(dt, forces)
            self._table = None
        self._engine.counts[:] = 0
        if self._todo:
            self._derive_velocities()  # under the forces that acted; an update may follow
            todo = self._force_tasks(forces)
            self._advance(0, dt, todo, forces)
            if todo & WRENCH_LIST and self._table is not None:
                self._cluster_wrenches = self._placed_wrenches(self._wrenches)
        if n == 0:
            # nothing moves and no update is taken, but all is compiled
            self._map_to_clusters(self._wrenches, self._engine.tau.copy())
            self._take(0, dt, time)
            self._table = None
        counts, taken, self._time = self._engine.regions.counts, 0, time
        while taken < n:
            if self._due() or self._table is None:
                self._update(dt)
            m = int(min(n - taken, max(counts[rg.UNTIL], 1)))
            if counts[rg.EARLY] > 0:
                m = min(m, int(counts[rg.EARLY]))
            done, status = self._take(m, dt, time + taken * dt)
            taken += done
            self._time = time + taken * dt
            counts[rg.UNTIL] -= done
            counts[rg.TAKEN] += done
            if counts[rg.EARLY] > 0:
                counts[rg.EARLY] -= done
            if status:
                self._advance(0, dt, SCATTER)
                return taken, status
        if n > 0:
            self._advance(0, dt, SCATTER)
        return taken, 0

    def _most_turns(self) -> int:
        """Return 1: rows are brought to the clusters of all trees after an update."""
        return 1

    def _due(self) -> bool:
        """Return whether an update comes before the next step."""
        counts = self._engine.regions.counts
        return bool(counts[rg.UNTIL] <= 0 or counts[rg.EARLY] == 0 or counts[rg.ALL_DUE])

    def _update(self, dt: float) -> None:
        """Let the region change where it is due, the rows acting by their last forces, and place them in clusters."""
        own, tau, counts = self._wrenches, self._engine.tau.copy(), self._engine.regions.counts
        mapped = self._table is not None
        if self._due():
            self._derive_velocities()
            if self._functions:
                self._fill_weights(self._functions)
            mapped, changes = mapped and counts[rg.EDITED] == 0, int(counts[rg.CHANGED])
            self._wrenches = self._with_row_wrenches(own)
            self._engine.tau[:] += self._row_joint_forces()
            size = len(self._wrenches.link)
            if len(self._body.wrenches.link) != size:
                self._body, self._trial = with_wrenches(self._body, size), with_wrenches(self._trial, size)
            counts[rg.LAST_TRANSIENT] = 0  # the forces of rows are other ones than at the last update
            self._advance(1, dt, UPDATE)
            self._wrenches = own
            self._engine.tau[:] = tau
            mapped = mapped and counts[rg.CHANGED] == changes
            if not self._warned and self._over_budget() > 0:
                self._warned = True
                warnings.warn(self._budget_message(), BudgetWarning, stacklevel=2)
        if not mapped:
            self._map_to_clusters(own, tau)

    def _over_budget(self) -> int:
        """Return how many joints are active beyond the budget, because those of a loop are so together."""
        limits, counts = self._engine.limits, self._engine.regions.counts
        budget = int(limits.budget.sum() if limits.each[0] else limits.budget[0]) if len(limits.budget) else -1
        return max(int(counts[rg.JOINTS]) - budget, 0) if budget >= 0 else 0

    def _budget_message(self) -> str:
        model, region = self._model, self._engine.regions
        names = {int(i): name for name, i in zip(model.joint_names, model.arrays.joint_link, strict=False)}
        nodes = self.assembly.node_of[: len(model.arrays.links.parent)]
        loops = [
            [names[i] for i in group if i in names]
            for group in self._loops()
            if region.active_region[nodes[group]].all()
        ]
        largest, active = max(loops, key=len, default=[""]), int(region.counts[rg.JOINTS])
        return (
            f"{active} joints are active, {self._over_budget()} more than the budget: those of a loop move together or "
            f'not at all, and {len(largest)} joints, "{largest[0]}" among them, are one group'
        )

    def _map_to_clusters(self, wrenches: Wrenches, tau: np.ndarray) -> None:
        """Bring forces and rows to the clusters as they are now."""
        body = self._body
        self._links, self._cut_drives, self._spans = trimmed(body, self.constraint_set.spans)
        n = len(self._links.parent)
        cluster, pose = self._located(self._ends)
        self._cluster_wrenches = self._placed_wrenches(wrenches)
        links, out = self._model.arrays.links, self._links
        # dofs of the hybrid body, by those of the model
        dof, coordinate = self._dof, self._coordinate
        dof[self._moved], coordinate[self._shifted] = -1, -1
        self._moved, new_indices = _ranges(links.v_start[body.link[:n]], out.v_start, len(out.armature))
        dof[self._moved] = new_indices
        self._shifted, new_indices = _ranges(links.q_start[body.link[:n]], out.q_start, int(body.whole[COORDINATE + 1]))
        coordinate[self._shifted] = new_indices
        body.tau[dof[self._moved]] = tau[self._moved]
        self._table = self._placed_table(cluster, pose, dof, coordinate)
        path, stop = paths(out, self._table, n)
        constraint, blocks, pair_links = (
            self.constraint_set.constraint,
            self.constraint_set.constraint.blocks.copy(),
            [np.zeros(0, np.int64)],
        )
        at = 0
        for k in range(len(blocks)):
            ends = self._table.pair_link[blocks[k, PAIR_START] : blocks[k, PAIR_END]]
            if len(ends):
                pair_links.append(np.unique(ends[ends >= 0]))
            blocks[k, LINK_START], at = at, at + (len(pair_links[-1]) if len(ends) else 0)
            blocks[k, LINK_END] = at
        self._constraint = constraint._replace(
            blocks=blocks, pair_links=np.concatenate(pair_links), path=path, stop=stop
        )

    def _located(self, which: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the clusters (k,) of links, and their poses (k, 12) there."""
        e, cluster, pose = self._engine, np.zeros(len(which), np.int64), np.zeros((len(which), 12))
        links = self._model.arrays.links
        _locate_all(links, e.co.table, e.co.numbers, e.regions.active_region, e.link_map, which, cluster, pose)
        return cluster, pose

    def _placed_wrenches(self, wrenches: Wrenches) -> Wrenches:
        """Return the lasting wrenches with their points in clusters; those on what rests are left out."""
        wrenches = in_use(wrenches)
        cluster, pose = self._located(wrenches.link)
        data = wrenches.data
        data[:, :3] = np.einsum("kij,kj->ki", pose[:, :9].reshape(-1, 3, 3), data[:, :3]) + pose[:, 9:]
        moving = cluster >= 0
        return Wrenches(np.ascontiguousarray(cluster[moving]), np.ascontiguousarray(data[moving]))

    def _placed_table(self, cluster: np.ndarray, pose: np.ndarray, dof: np.ndarray, coordinate: np.ndarray) -> Table:
        """Return the table of rows on the hybrid body; rows that cannot act become springs without stiffness."""
        table = self.constraint_set.table
        link, frame = table.pair_link.copy(), table.pair_frame.copy()
        for k in range(len(link)):
            for end in range(2):
                if link[k, end] >= 0:
                    at, o = self._end_index[link[k, end]], 12 * end
                    r, p = compose(
                        pose[at, :9].reshape(3, 3), pose[at, 9:], frame[k, o : o + 9].reshape(3, 3),
                        frame[k, o + 9 : o + 12],
                    )  # fmt: skip
                    link[k, end], frame[k, o : o + 9], frame[k, o + 9 : o + 12] = cluster[at], r.ravel(), p
        indices, share, target = table.indices.copy(), table.share.copy(), table.target.copy()
        for c in range(2):
            on = np.flatnonzero(indices[:, c] >= 0)
            still = on[dof[table.indices[on, c]] < 0]
            target[still, 0] -= share[still, c] * self._engine.q[table.indices[still, 2 + c]]
            share[still, c] = 0.0
            indices[on, c], indices[on, 2 + c] = dof[table.indices[on, c]], coordinate[table.indices[on, 2 + c]]
        acts = np.zeros(len(table.joint), bool)
        for slot in range(2):
            used = np.flatnonzero(table.row_pair[:, slot] >= 0)
            ends = link[table.row_pair[used, slot]]
            acts[used] |= ends[:, 0] != ends[:, 1]
        acts |= (share != 0.0).any(axis=1)
        role, soft = table.role.copy(), table.soft.copy()
        role[~acts], soft[~acts] = SPRING, 0.0
        return table._replace(
            pair_link=link, pair_frame=frame, indices=indices, share=share, target=target, role=role, soft=soft
        )

    def _take(self, n: int, dt: float, time: float) -> tuple[int, int]:
        """Take n steps of the hybrid body with its rows."""
        start = self._state()
        taken, status = self._take_all(n, dt, time)
        while status in (Status.MORE_ROWS, Status.MORE_CONTACTS):
            self._restore(start)
            self._make_room(status)
            taken, status = self._take_all(n, dt, time)
        if taken < n and (len(self._spans) > 1 or self._code >= VARIATIONAL):
            # One block failed: all go back and take the steps that every block can.
            self._restore(start)
            self._take_all(taken, dt, time)
        if status and self.constraint_set.explain(int(status), "") is None:
            status = self._model_status(int(status))
        return taken, int(status)

    def _take_all(self, n: int, dt: float, time: float) -> tuple[int, int]:
        """Take n steps with every block; after a failure they may be at different steps."""
        body, e, substeps = self._body, self._engine, 2 if self._code == RK4 else 1
        if self._code >= VARIATIONAL:
            return self._done(
                take_variational_row_steps(
                    self._links, self._external(dt), self._row_set(), self._spans, e.span, self._iterations(), n, dt,
                    time, e.variational, e.carried, body.q, body.qd, e.counts,
                )
            )  # fmt: skip
        taken, status, _ = self._steps(
            self._links, self._cut_drives, body.springs, self._table, self.constraint_set.own, self._spans, 0,
            len(self._spans), e.span, self._code, n, substeps, dt / substeps, time, body.tau, self._cluster_wrenches,
            e.step_work, self._pull, e.buffers, self._constraint, body.q, body.qd,
        )  # fmt: skip
        if self._steps is take_constrained_steps and len(take_constrained_steps.overloads) == 1:
            self._steps = entry(take_constrained_steps)
        return int(taken), int(status)

    def _iterations(self) -> int:
        return ITERATIONS if self._code == VARIATIONAL else 0

    def _external(self, dt: float) -> External:
        body = self._body
        stiff = stiff_springs(self._spring_rates, dt)
        return External(self._cut_drives, body.springs, stiff, body.tau, self._cluster_wrenches)

    def _row_set(self) -> RowSet:
        assert self._table is not None
        return RowSet(self._table, self.constraint_set.own, self._constraint)

    def _done(self, result: tuple[int, int]) -> tuple[int, int]:
        """Take note that the momenta are ahead of the velocities."""
        if result[0] > 0:
            self._engine.current[0] = 0
        return int(result[0]), int(result[1])

    @property
    def qd(self) -> np.ndarray:
        """(nv,) velocities at q."""
        if self._engine.current[0] == 0:
            self._derive_velocities()
            self._advance(0, self._dt, VELOCITIES)
        return self._qd

    def _derive_velocities(self, whole: bool = False) -> None:
        """Fill qd of the hybrid body; with `whole`, in work arrays for all clusters."""
        e, body = self._engine, self._body
        if e.current[0] != 0 or self._table is None:
            return
        while (
            constrained_velocities_at(
                self._links, self._external(self._dt), self._row_set(), self._spans, e.span, self._time, whole,
                e.variational, e.carried, body.q, body.qd,
            ) == Status.MORE_ROWS
        ):  # fmt: skip
            self._grow_rows()
        e.current[0] = 1

    def _make_room(self, status: int) -> None:
        """Grow what a status says is too small."""
        if status == Status.MORE_ROWS:
            self._grow_rows()

    def _grow_rows(self) -> None:
        """Make room for more rows at once."""
        current = {name: getattr(self._constraint, name) for name in ("blocks", "pair_links", "path", "stop")}
        self.constraint_set.grow()
        self._constraint = self.constraint_set.constraint._replace(**current)

    def _state(self) -> dict[str, np.ndarray]:
        """Return what steps change of the hybrid body and its rows."""
        constraint, nv, nq = self._constraint, int(self._body.whole[DOF + 1]), int(self._body.whole[COORDINATE + 1])
        return {
            "q": self._body.q[:nq].copy(), "qd": self._body.qd[:nv].copy(), "near": constraint.near.copy(),
            "compounds": constraint.state[self.constraint_set.table.compound[:, 0], COORDINATES:ROWS],
            "current": self._engine.current.copy(),
        } | self._carried_arrays()  # fmt: skip

    def _restore(self, start: dict[str, np.ndarray]) -> None:
        """Return to what `_state` gave."""
        constraint = self._constraint
        self._body.q[: len(start["q"])], self._body.qd[: len(start["qd"])] = start["q"], start["qd"]
        constraint.near[:] = start["near"]
        constraint.state[self.constraint_set.table.compound[:, 0], COORDINATES:ROWS] = start["compounds"]
        self._engine.current[:] = start["current"]
        self._set_carried_arrays(start)

    def _blocks_used(self) -> int:
        return len(self.constraint_set.spans)

    # Rows as known forces

    def _row_joint_forces(self) -> np.ndarray:
        """Return the joint forces of rows on coordinates in the last step, as `_with_row_wrenches` found them."""
        return self._row_tau

    def _with_row_wrenches(self, wrenches: Wrenches) -> Wrenches:
        """Return the wrenches with those of the rows between frames in the last step added."""
        table, constraint = self.constraint_set.table, self.constraint_set.constraint
        size = len(wrenches.link) + int(np.count_nonzero(table.pair_link >= 0))
        if len(self._row_wrenches.link) != size:
            self._row_wrenches = room_for(no_wrenches(), size)
        if len(self._pair_forces) != len(table.pair_link):
            self._pair_forces = np.zeros((len(table.pair_link), 6))
        _row_forces(
            table, constraint.multipliers, constraint.wrench, constraint.state, wrenches, self._pair_forces,
            self._row_wrenches, self._row_tau,
        )  # fmt: skip
        return self._row_wrenches

    # Impulses, grips, forces and snapshots

    def _update_now(self, dt: float) -> None:
        """Take the update that is due, and bring the rows to its clusters."""
        self._update(dt)

    def _respond(self, k: int, dt: float) -> None:
        """Change the velocities of the clusters by the impulse in row k of the wrenches, loops and gears satisfied.

        Accelerations with all equality rows acting are linear in forces: the change is the difference of those with and
        without it. Limits and grips act in the step that follows.
        """
        body, table, nv = self._body, self._table, int(self._body.whole[DOF + 1])
        assert table is not None
        fixed = table.role == EQUALITY
        role, soft = np.where(fixed, table.role, SPRING), np.where(fixed[:, None], table.soft, 0.0)
        own, before = Wrenches(self._wrenches.link[k : k + 1], self._wrenches.data[k : k + 1]), body.qd[:nv].copy()
        state, e, found = self._state(), self._engine, []
        equalities = table._replace(role=role.astype(table.role.dtype), soft=soft)
        for wrenches in (self._placed_wrenches(own), no_wrenches()):
            take_constrained_steps(
                self._links, self._cut_drives, body.springs, equalities, self.constraint_set.own, self._spans, 0,
                len(self._spans), e.span, ACCELERATIONS, 1, 1, 1e-3, 0.0, body.tau, wrenches, e.step_work, self._pull,
                e.buffers, self._constraint, body.q, body.qd,
            )  # fmt: skip
            found.append(body.qd[:nv].copy())
            self._restore(state)
        body.qd[:nv] = before + (found[0] - found[1])
        e.carried.clock[:, :LAG] = 0.0
        e.current[0] = 1
        self._advance(0, dt, SCATTER)

    def grab(self, grip: Grip) -> Stepper:
        """Add a grip; see `Stepper`."""
        self._restart()
        self.constraint_set.grips.append(grip)
        self.reset_grips()
        return self

    def release(self, grip: Grip) -> Stepper:
        """Remove a grip."""
        self._restart()
        self.constraint_set.grips.remove(grip)
        self.reset_grips()
        return self

    def move_grip(self, grip: Grip) -> None:
        """Take the target of a grip, which has changed: its frame in the world is the same for clusters."""
        self.constraint_set.move_grip(grip)
        if self._table is not None:
            pair = self.constraint_set.grip_pair(grip)
            self._table.pair_frame[pair, :12] = self.constraint_set.table.pair_frame[pair, :12]

    def grip_force(self, grip: Grip) -> np.ndarray:
        """Return the force (3,) of a grip in the last step, world axes [N]."""
        return self.constraint_set.grip_force(grip)

    def reset_grips(self) -> None:
        """Set up the rows of all grips again; the next step begins with an update."""
        self._restart()
        self.constraint_set.build()
        self._prepare_rows()
        self._engine.regions.counts[rg.UNTIL], self._engine.regions.counts[rg.CHECK] = 0, 1

    def invalidate(self) -> None:
        """Compare what users see with the engine's own at the next step, and place the rows again."""
        super().invalidate()
        self._table = None

    def _restart(self) -> None:
        """Move on from the velocities at the poses: blocks may become other ones."""
        self.qd  # noqa: B018 - reading derives them
        self._engine.carried.clock[:] = 0.0

    def loop_forces(self, name: str) -> np.ndarray:
        """Return the forces applied to a loop joint, to be written."""
        if name not in self.constraint_set.pushed:
            self._restart()
        forces, new = self.constraint_set.push(name)
        if new:
            self._prepare_rows()
        return forces

    def explain(self, status: int, where: str) -> tuple[type[LimberjackError], str, str] | None:
        """Return (error, joint, message) of a failure the rows caused, else None."""
        return self.constraint_set.explain(status, where)

    def state_arrays(self) -> dict[str, np.ndarray]:
        """Return what `AdaptiveStepper` does, and the rows' last forces and turns."""
        constraint = self.constraint_set.constraint
        return super().state_arrays() | {
            "near": constraint.near.copy(), "multipliers": constraint.multipliers.copy(),
            "wrench": constraint.wrench.copy(),
            "gap": constraint.state[:, GAP : GAP + 3].copy(), "own_tau": self.constraint_set.own.tau.copy(),
            "compounds": constraint.state[self.constraint_set.table.compound[:, 0], COORDINATES:ROWS],
        }  # fmt: skip

    def set_state_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        """Set what `state_arrays` returned."""
        super().set_state_arrays(arrays)
        self._table = None
        if "near" not in arrays:  # of a stepper without rows
            return
        constraint = self.constraint_set.constraint
        constraint.near[:], constraint.multipliers[:], constraint.wrench[:] = (
            arrays["near"],
            arrays["multipliers"],
            arrays["wrench"],
        )
        constraint.state[:, GAP : GAP + 3] = arrays["gap"]
        constraint.state[self.constraint_set.table.compound[:, 0], COORDINATES:ROWS] = arrays["compounds"]
        self.constraint_set.own.tau[:] = arrays["own_tau"]

    def take_over(self, other: AdaptiveStepper) -> None:
        """Go on from the state of another stepper of the same model."""
        self.q[:], self._qd[:] = other.q, other.qd
        self.set_state_arrays(other.state_arrays())
        self._engine.carried.clock[:] = 0.0

    def stats(self) -> dict[str, Any]:
        """Return what `AdaptiveStepper` does, and what the rows did."""
        report = self.constraint_set.constraint.report
        return super().stats() | {
            "over_budget": self._over_budget(), "rows": int(report[0]), "rank": int(report[1]),
            "projection_iterations": int(report[2]),
            "joint_error": float(report[3]),
        }  # fmt: skip
