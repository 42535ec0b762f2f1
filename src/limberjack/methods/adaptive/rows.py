"""Loops, limits, gears and grips on the hybrid body: rows of the model, transformed to the clusters at every update.

After an update every pair of frames is transformed to its clusters, rows within one cluster and those of rigid joints
are dropped, and steps are those of `reduced/constrained_step.py` on the hybrid body. The update itself includes the
rows by their last multipliers, as forces on links and joints. Velocities that rigidification leaves across a loop are
projected by the first step.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from limberjack._bound import Bound, arguments_of
from limberjack._jit import entry, inner, kernel
from limberjack.constraints.row_forces import RowForces
from limberjack.constraints.rows import COORDINATES, GAP, ROWS
from limberjack.constraints.table import EQUALITY, INEQUALITY, ROTOR, SPRING, Table
from limberjack.errors import BudgetWarning, LimberjackError, StateError, Status
from limberjack.methods.adaptive import layout as rg
from limberjack.methods.adaptive.hybrid_body import HybridBody, scatter_blocks, trimmed
from limberjack.methods.adaptive.method import AdaptiveStepper, in_use, room_for
from limberjack.methods.adaptive.options import Adaptive
from limberjack.methods.adaptive.poses import locate
from limberjack.methods.adaptive.step import (
    SCATTER,
    UPDATE,
    VARIATIONAL,
    VELOCITIES,
    WRENCH_LIST,
    Engine,
    count_steps,
    keep_state,
    return_to_kept,
)
from limberjack.methods.row_verbs import WithRows
from limberjack.methods.stepper import Forces, Stepper
from limberjack.model.arrays import (
    BALL_DRIVE,
    COORDINATE,
    DOF,
    LINK,
    QUATERNION,
    RUN,
    SCALAR_DRIVE,
    Links,
)
from limberjack.model.joints import FREE
from limberjack.model.model import Model
from limberjack.reduced.assembly_tree import APPLIED
from limberjack.reduced.bound_steps import passing_motion, row_velocities
from limberjack.reduced.constrained_step import ACCELERATIONS, take_constrained_steps
from limberjack.reduced.constraint_set import ConstraintSet, Grip
from limberjack.reduced.forces import Wrenches, no_wrenches
from limberjack.reduced.joint_poses import composed
from limberjack.reduced.rows import LINK_END, LINK_START, PAIR_END, PAIR_START
from limberjack.reduced.step import RK4
from limberjack.reduced.variational import COUNTS, ITERATIONS, LAG, External
from limberjack.reduced.variational_rows import RowSet, constrained_velocities_at, take_variational_row_steps
from limberjack.spatial.vectors import cross

__all__ = ["ConstrainedAdaptiveStepper"]


class RowArguments(NamedTuple):
    """What the kernels of rows on clusters take at every call."""

    links: Links  # of the model
    engine: Engine
    body: HybridBody
    clusters: Links  # of the body, with runs of dofs that end where blocks do
    table: Table  # on the links of the model
    rows: RowSet  # on the clusters
    blocks: np.ndarray  # (k, SPAN) trees of the model that rows connect
    spans: np.ndarray  # (k, SPAN) the same of the hybrid body
    seen: np.ndarray  # (n + 1,) scratch, marks of clusters and the last mark used
    before_near: np.ndarray
    before_compounds: np.ndarray
    q: np.ndarray
    qd: np.ndarray


@inner
def _place_spans(links, blocks, body, clusters, spans):
    """Fill the spans of blocks in the hybrid body, and its runs of dofs, cut where blocks begin."""
    whole, own, runs, new = body.whole, body.links, body.links.runs, clusters.runs
    k, spin, scalar = whole[LINK], whole[QUATERNION], whole[SCALAR_DRIVE]
    ball, run, end = whole[BALL_DRIVE], whole[RUN], 0
    v, q = whole[DOF], whole[COORDINATE]
    for b in range(len(blocks)):
        s = spans[b]
        s[LINK], s[DOF], s[COORDINATE], s[QUATERNION] = k, v, q, spin
        s[SCALAR_DRIVE], s[BALL_DRIVE], s[RUN] = scalar, ball, end
        while k < whole[LINK + 1] and body.link[k] < blocks[b, LINK + 1]:
            k += 1
        v = own.v_start[k] if k < whole[LINK + 1] else whole[DOF + 1]
        q = own.q_start[k] if k < whole[LINK + 1] else whole[COORDINATE + 1]
        while spin < whole[QUATERNION + 1] and own.quaternions[spin, 1] < v:
            spin += 1
        while scalar < whole[SCALAR_DRIVE + 1] and body.drives.indices[scalar, 1] < v:
            scalar += 1
        while ball < whole[BALL_DRIVE + 1] and body.drives.ball_indices[ball, 1] < v:
            ball += 1
        while run < whole[RUN + 1] and runs[run, 0] < v:
            first, last = max(runs[run, 0], s[DOF]), min(runs[run, 0] + runs[run, 2], v)
            new[end, 0], new[end, 1], new[end, 2] = first, runs[run, 1] + first - runs[run, 0], last - first
            end += 1
            if runs[run, 0] + runs[run, 2] > v:
                break
            run += 1
        s[LINK + 1], s[DOF + 1], s[COORDINATE + 1], s[QUATERNION + 1] = k, v, q, spin
        s[SCALAR_DRIVE + 1], s[BALL_DRIVE + 1], s[RUN + 1] = scalar, ball, end


@inner
def _place_pairs(links, e, table, placed):
    """Fill the frames of pairs in their clusters."""
    for p in range(len(table.pair_link)):
        for end in range(2):
            i, o, f, new = table.pair_link[p, end], 12 * end, table.pair_frame, placed.pair_frame
            if i < 0:
                placed.pair_link[p, end] = -1
                for c in range(12):
                    new[p, o + c] = f[p, o + c]
                continue
            k, r, x, y, z = locate(links, e.co.table, e.co.numbers, e.regions.active_region, e.link_map, i)
            turn = (
                f[p, o], f[p, o + 1], f[p, o + 2], f[p, o + 3], f[p, o + 4], f[p, o + 5], f[p, o + 6], f[p, o + 7],
                f[p, o + 8],
            )  # fmt: skip
            r, x, y, z = composed(r, x, y, z, turn, f[p, o + 9], f[p, o + 10], f[p, o + 11])
            placed.pair_link[p, end] = k
            for c in range(9):
                new[p, o + c] = r[c]
            new[p, o + 9], new[p, o + 10], new[p, o + 11] = x, y, z


@inner
def _place_row(links, e, body, table, r, placed):
    """Fill row r on the clusters.

    Equalities, limits and rotors between parts of one cluster, or on joints at rest, become springs without stiffness.
    Rows that give way stay: what they pull with moves nothing now, and updates know it.
    """
    acts, target = False, table.target[r, 0]
    for c in range(2):
        v, share = table.indices[r, c], table.share[r, c]
        placed.indices[r, c] = placed.indices[r, 2 + c] = -1
        placed.share[r, c] = share
        if v < 0:
            continue
        i, at = e.known.owner[v], table.indices[r, 2 + c]
        if e.regions.active_region[e.link_map.node[i]]:
            k = e.link_map.cluster[i]
            placed.indices[r, c] = body.links.v_start[k] + v - links.v_start[i]
            placed.indices[r, 2 + c] = body.links.q_start[k] + at - links.q_start[i]
            acts = acts or share != 0.0
        else:
            target -= share * e.q[at]
            placed.share[r, c] = 0.0
    for slot in range(2):
        p = table.row_pair[r, slot]
        acts = acts or (p >= 0 and placed.pair_link[p, 0] != placed.pair_link[p, 1])
    placed.target[r, 0], placed.target[r, 1] = target, table.target[r, 1]
    role = table.role[r]
    acts = acts or not (role <= INEQUALITY or role == ROTOR)
    placed.role[r] = role if acts else SPRING
    for c in range(3):
        placed.soft[r, c] = table.soft[r, c] if acts else 0.0


@inner
def _place_path(e, body, table, r, placed, seen, path, stop):
    """Fill the clusters at which the paths of row r to the world begin, and where each joins an earlier one."""
    count = 0
    for c in range(4):
        path[r, c] = stop[r, c] = -1
    for j in range(6):
        i = -1
        if j < 4:
            p = table.row_pair[r, j // 2]
            if p >= 0:
                i = placed.pair_link[p, j % 2]
        elif placed.indices[r, j - 4] >= 0:
            i = e.link_map.cluster[e.known.owner[table.indices[r, j - 4]]]
        known = i < 0
        for c in range(count):
            known = known or path[r, c] == i
        if not known and count < 4:
            path[r, count] = i
            count += 1
    if count > 1:
        n = len(seen) - 1
        seen[n] += 1
        for c in range(count):
            i = path[r, c]
            while i >= 0 and seen[i] != seen[n]:
                seen[i] = seen[n]
                i = body.links.parent[i]
            stop[r, c] = i


@kernel
def _place_rows(bound):
    """Transform rows and lasting forces to the clusters as they are now."""
    a = arguments_of(bound)
    links, e, body, table, placed, constraint = a.links, a.engine, a.body, a.table, a.rows.table, a.rows.constraint
    _place_spans(links, a.blocks, body, a.clusters, a.spans)
    _place_pairs(links, e, table, placed)
    for r in range(len(table.joint)):
        _place_row(links, e, body, table, r, placed)
        _place_path(e, body, table, r, placed, a.seen, constraint.path, constraint.stop)
    at, n, blocks = 0, len(a.seen) - 1, constraint.blocks
    for b in range(len(blocks)):
        blocks[b, LINK_START] = at
        a.seen[n] += 1
        for p in range(blocks[b, PAIR_START], blocks[b, PAIR_END]):
            for end in range(2):
                i = placed.pair_link[p, end]
                if i >= 0 and a.seen[i] != a.seen[n]:
                    a.seen[i] = a.seen[n]
                    constraint.pair_links[at] = i
                    at += 1
        blocks[b, LINK_END] = at
    # the update had the forces of rows among the known ones
    for k in range(body.whole[LINK], body.whole[LINK + 1]):
        i = body.link[k]
        for c in range(links.dof[i]):
            body.tau[body.links.v_start[k] + c] = e.tau[links.v_start[i] + c]
    for j in range(len(body.wrenches.link)):
        if e.regions.counts[rg.WRENCHES] <= j:
            body.wrenches.link[j] = -1


@kernel
def _row_steps(bound, n, iterations, h, stiff, time):
    """Take up to n variational steps of the hybrid body with its rows, and fill q of all joints.

    Returns:
        the steps that every block could take, and 0 or a status; with Status.MORE_ROWS nothing has changed.
    """
    a = arguments_of(bound)
    e, body, constraint, pairs, near = a.engine, a.body, a.rows.constraint, a.table.compound, a.before_near
    external = External(body.drives, body.springs, stiff, body.tau, body.wrenches)
    for k in range(len(near)):
        near[k] = constraint.near[k]
    for k in range(len(pairs)):
        for c in range(ROWS - COORDINATES):
            a.before_compounds[k, c] = constraint.state[pairs[k, 0], COORDINATES + c]
    keep_state(body, len(a.spans), e)
    status, wanted = 0, n
    for _ in range(2):
        done, failed = take_variational_row_steps(
            a.clusters, external, a.rows, a.spans, e.span, iterations, wanted, h, time, e.variational, e.carried,
            body.q, body.qd, e.counts,
        )  # fmt: skip
        if failed == 0:
            break
        # One block failed: all go back and take the steps that every block can.
        status, wanted = failed, 0 if failed == Status.MORE_ROWS else done
        for k in range(len(near)):
            constraint.near[k] = near[k]
        for k in range(len(pairs)):
            for c in range(ROWS - COORDINATES):
                constraint.state[pairs[k, 0], COORDINATES + c] = a.before_compounds[k, c]
        return_to_kept(body, len(a.spans), e)
    if wanted > 0:
        e.current[0] = 0
        count_steps(wanted, e.regions)
    scatter_blocks(a.links, body, e.q, e.qd)
    scatter_blocks(a.links, body, a.q, a.qd)
    return wanted, status


@kernel
def _row_velocities(bound, stiff, time):
    """Fill qd of the hybrid body, the velocities at its q, which satisfy the rows; return a status."""
    a = arguments_of(bound)
    e, body = a.engine, a.body
    external = External(body.drives, body.springs, stiff, body.tau, body.wrenches)
    return constrained_velocities_at(
        a.clusters, external, a.rows, a.spans, e.span, time, False, e.variational, e.carried, body.q, body.qd
    )


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


def prescribed_links(links: Links, constraint_set: ConstraintSet) -> list[np.ndarray]:
    """Return the links of joints that must be active because rows prescribe their motion, row by row.

    Driven coordinates are, and joints of which a gap is being closed, or that a led body moves, unless the body is on
    a free base: the tree can move with it as it is.
    """
    table, rows, parent = constraint_set.table, constraint_set, links.parent
    moving = (links.dof > 0) & (links.kind != FREE)
    owner, out = np.repeat(np.arange(len(parent)), links.dof), dict[bytes, np.ndarray]()
    for r in rows.prescribed_rows():
        path = {int(owner[v]) for v in table.indices[r, :2] if v >= 0}
        for pair in table.row_pair[r][table.row_pair[r] >= 0]:
            a, b = (int(i) for i in table.pair_link[pair])
            while a != b:
                path.add(max(a, b))
                a, b = min(a, b), int(parent[max(a, b)])
        on = np.array(sorted(path), np.int64)
        if not (links.kind[on] == FREE).any() and moving[on].any():
            out[on.tobytes()] = on[moving[on]]
    return list(out.values())


class ConstrainedAdaptiveStepper(WithRows, AdaptiveStepper):
    """The running side of `Adaptive` for models with rows beside their tree."""

    # Rows enter the accelerations by their last forces: as predictions these hold for a step and not for longer.
    _periods_ahead = 0

    def __init__(
        self, model: Model, options: Adaptive, constraint_set: ConstraintSet, without: AdaptiveStepper | None = None
    ) -> None:
        self.constraint_set, self._without = constraint_set, without
        super().__init__(model, options)
        self._steps: Any = take_constrained_steps
        sums: Any = self._engine.counts
        self._sums = memoryview(sums)
        self._row_calls: list[Any] = [None] * 3  # compiled: place rows, take steps, derive velocities
        self._row_wrenches, self._row_tau = no_wrenches(), np.zeros(model.nv)  # forces of rows in the last step
        self._pair_forces, self._find_row_forces = np.zeros((0, 6)), _row_forces
        self._warned, self._time = False, 0.0
        self._seen = np.zeros(len(model.arrays.links.parent) + 1, np.int64)
        self._row_runs = np.zeros_like(self._body.links.runs)
        self._prepare_rows()

    def _loops(self) -> list[np.ndarray]:
        """Return the links of joints that loops, gears and velocity constraints connect, group by group."""
        return loop_groups(self._model.arrays.links, self.constraint_set.table)

    def _set_groups(self) -> None:
        """Take the groups of joints that are active together, or always, as the rows are now; an update comes next."""
        groups, node_of = self._loops(), self.assembly.node_of
        always = prescribed_links(self._model.arrays.links, self.constraint_set)
        every = [*always, *groups]  # in this order: a group that shares a joint with one that is active is completed
        regions = self._engine.regions._replace(
            loop_start=np.cumsum([0, *(len(group) for group in every)]).astype(np.int64),
            loop_nodes=node_of[np.concatenate([np.zeros(0, np.int64), *every])].astype(np.int64),
            loop_always=np.repeat(np.array([1, 0], np.uint8), (len(always), len(groups))),
        )
        self._engine = self._engine._replace(regions=regions)
        counts = regions.counts
        counts[rg.UNTIL], counts[rg.CHECK], counts[rg.LAST_TRANSIENT] = 0, 1, 0
        self._ready = None

    def _prepare_rows(self) -> None:
        """Take what stays of the rows while clusters change."""
        table, constraint, n = self.constraint_set.table, self.constraint_set.constraint, len(self._seen) - 1
        changing = ("pair_link", "pair_frame", "indices", "share", "target", "role", "soft")
        self._placed = table._replace(**{name: getattr(table, name).copy() for name in changing})
        self._spans = np.zeros_like(self.constraint_set.spans)
        self._constraint = constraint._replace(
            blocks=constraint.blocks.copy(), pair_links=np.zeros(2 * len(table.pair_link), np.int64),
            path=np.full((len(table.joint), 4), -1, np.int64), stop=np.full((len(table.joint), 4), -1, np.int64),
        )  # fmt: skip
        self._seen[:n] = self._seen[n]
        self._table: Table | None = None  # the rows on the clusters, None = to be placed
        self._row_bound: Bound | None = None

        self._ready = None

    # Stepping

    def advance_in_one_call(self, n: int, dt: float, forces: Forces, time: float) -> tuple[int, int] | None:
        """Take up to n steps by one compiled call, if nothing but targets of grips was set and no update is due."""
        ready, bound, counts = self._ready, self._row_bound, self._counter
        if (
            ready is None or ready[0] != dt or self._dirty or self._todo or self._table is None or bound is None
            or not 0 < n <= counts[rg.UNTIL] or 0 <= counts[rg.EARLY] < n or counts[rg.ALL_DUE]
            or self._row_calls[1] is None
        ):  # fmt: skip
            return None
        for k in range(COUNTS):
            self._sums[k] = 0
        taken, status = self._row_calls[1](bound, n, ready[2], dt, ready[3], time)
        if status == Status.MORE_ROWS:
            return None
        self._time = time + taken * dt
        return (taken, self._explained(status)) if status else (taken, 0)

    def _steps_of(self, n: int, dt: float, forces: Forces, time: float) -> tuple[int, int]:
        """Take up to n steps at the tolerance as it is."""
        if self._dirty or dt != self._dt or self._fresh:
            self._take_edits(dt, forces)
            self._table = None
        self._engine.counts[:] = 0
        if self._todo:
            todo = self._force_tasks(forces)
            self._advance(0, dt, todo, forces)
            if todo & WRENCH_LIST and self._table is not None:
                self._place_forces()
        if n == 0:
            # nothing moves and no update is taken, but all is compiled
            self._map_to_clusters()
            self._take(0, dt, time)
            self._table = None
        counts, taken, self._time = self._engine.regions.counts, 0, time
        while taken < n:
            if self._due() or self._table is None:
                self._update(dt)
            m, early = min(n - taken, max(int(counts[rg.UNTIL]), 1)), int(counts[rg.EARLY])
            done, status = self._take(min(m, early) if early > 0 else m, dt, time + taken * dt)
            taken += done
            self._time = time + taken * dt
            if status:
                return taken, status
        if n > 0 and not self._trims and self._options.milliseconds is None:
            self._ready = dt, 0, self._iterations(), self._stiff_at(dt), forces.tau, forces.drives
        return taken, 0

    def _most_blocks(self) -> int:
        """Return how many blocks of trees rows do not connect."""
        return len(self.constraint_set.spans)

    def _most_turns(self) -> int:
        """Return 1: rows are brought to the clusters of all trees after an update."""
        return 1

    def _due(self) -> bool:
        """Return whether an update comes before the next step."""
        counts = self._engine.regions.counts
        return bool(counts[rg.UNTIL] <= 0 or counts[rg.EARLY] == 0 or counts[rg.ALL_DUE])

    def _update(self, dt: float) -> None:
        """Let the region change where it is due, the rows acting by their last forces, and place them in clusters."""
        counts, mapped = self._engine.regions.counts, self._table is not None
        if self._due():
            self._derive_velocities()
            if self._functions:
                self._fill_weights(self._functions)
            mapped, changes = mapped and counts[rg.EDITED] == 0, int(counts[rg.CHANGED])
            own, tau = int(np.count_nonzero(self._wrenches.link >= 0)), self._engine.tau.copy()
            self._add_wrenches(own, self._with_row_wrenches(in_use(self._wrenches)))
            self._engine.tau[:] += self._row_joint_forces()
            counts[rg.LAST_TRANSIENT] = 0  # the forces of rows are other ones than at the last update
            self._advance(1, dt, UPDATE)
            self._wrenches.link[own:] = -1
            self._engine.tau[:] = tau
            mapped = mapped and counts[rg.CHANGED] == changes
            if not self._warned and self._over_budget() > 0:
                self._warned = True
                warnings.warn(self._budget_message(), BudgetWarning, stacklevel=2)
        # the forces of rows were among those of the hybrid body
        if mapped:
            self._call_rows(0)
            if self._trims:  # runs of dofs are other ones in links that are cut to what is in use
                self._spans[:] = trimmed(self._body, self.constraint_set.spans)[2]
        else:
            self._map_to_clusters()

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
        active = int(region.counts[rg.JOINTS])
        text = f"{active} joints are active, {self._over_budget()} more than the budget: "
        if not loops:
            return text + "they are led, driven or drawn together, and their motion cannot be left out"
        largest = max(loops, key=len)
        return (
            f"{text}those of a loop move together or not at all, and {len(largest)} joints, "
            f'"{largest[0]}" among them, are one group'
        )

    def _add_wrenches(self, own: int, wrenches: Wrenches) -> None:
        """Let all but the first `own` of `wrenches` act beside the user's for an update."""
        count = len(wrenches.link)
        if count > len(self._wrenches.link):
            self._reserve_wrenches(2 * count)
        self._wrenches.link[own:count], self._wrenches.data[own:count] = wrenches.link[own:], wrenches.data[own:]

    def _map_to_clusters(self) -> None:
        """Bring forces and rows to the clusters as they are now."""
        self._call_rows(0)
        self._table = self._placed
        if self._trims:
            self._links, self._cut_drives, self._spans[:] = trimmed(self._body, self.constraint_set.spans)
            self._place_forces()

    @property
    def _trims(self) -> bool:
        """Whether steps are those of other kernels, which take the clusters in use alone."""
        return self._code < VARIATIONAL

    def _place_forces(self) -> None:
        """Bring the lasting wrenches to the clusters for other kernels."""
        if self._trims:
            self._cluster_wrenches = self._placed_wrenches(self._wrenches)

    def _call_rows(self, which: int, *numbers: Any) -> Any:
        """Call one of the kernels of rows on clusters: 0 places them, 1 takes steps, 2 derives velocities."""
        bound = self._row_bound
        if bound is None or not (
            bound.arguments.engine is self._engine and bound.arguments.body is self._body
            and bound.arguments.rows.constraint is self._constraint and bound.arguments.q is self.q
        ):  # fmt: skip
            a, table, constraint = self._model.arrays, self.constraint_set.table, self._constraint
            clusters = self._body.links._replace(runs=self._row_runs)
            bound = self._row_bound = Bound(
                RowArguments(
                    a.links, self._engine, self._body, clusters, table,
                    RowSet(self._placed, self.constraint_set.own, constraint), self.constraint_set.spans, self._spans,
                    self._seen, constraint.near.copy(), np.zeros((len(table.compound), ROWS - COORDINATES)), self.q,
                    self._qd,
                )
            )  # fmt: skip
        kernel = (_place_rows, _row_steps, _row_velocities)[which]
        if not kernel.overloads:
            return kernel(bound, *numbers)
        # each by itself: models with contacts use the first alone, and finding the types of `bound` takes milliseconds
        if self._row_calls[which] is None:
            self._row_calls[which] = entry(kernel)
        return self._row_calls[which](bound, *numbers)

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

    def _take(self, n: int, dt: float, time: float) -> tuple[int, int]:
        """Take n steps of the hybrid body with its rows, and count them."""
        if not self._trims:
            stiff = self._stiff_at(dt)
            taken, status = self._call_rows(1, n, self._iterations(), dt, stiff, time)
            while status == Status.MORE_ROWS:
                self._grow_rows()
                taken, status = self._call_rows(1, n, self._iterations(), dt, stiff, time)
            return taken, self._explained(int(status))
        taken, status = self._take_trimmed(n, dt, time)
        counts = self._engine.regions.counts
        counts[rg.UNTIL] -= taken
        counts[rg.TAKEN] += taken
        if counts[rg.EARLY] > 0:
            counts[rg.EARLY] -= taken
        self._advance(0, dt, SCATTER)
        return taken, status

    def _take_trimmed(self, n: int, dt: float, time: float) -> tuple[int, int]:
        """Take n steps of the hybrid body by other kernels."""
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
        return taken, self._explained(int(status))

    def _explained(self, status: int) -> int:
        """Return a status with its dof, if it has one and no row, replaced by that of the model."""
        if status and self.constraint_set.explain(status, "") is None:
            return self._model_status(status)
        return status

    def _take_all(self, n: int, dt: float, time: float) -> tuple[int, int]:
        """Take n steps with every block; after a failure they may be at different steps."""
        body, e, substeps = self._body, self._engine, 2 if self._code == RK4 else 1
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
        return External(
            self._cut_drives, self._body.springs, self._stiff_at(dt), self._body.tau, self._cluster_wrenches
        )

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

    def _derive_velocities(self) -> None:
        """Fill qd of the hybrid body."""
        e, body = self._engine, self._body
        if e.current[0] != 0 or self._table is None:
            return
        status = int(Status.MORE_ROWS)
        while status == Status.MORE_ROWS:
            if self._trims:
                external = self._external(self._dt)
                motion = passing_motion(
                    self._links, external, self._spans, e.span, e.variational, e.carried, body.q, body.qd, e.counts
                )
                arguments = Bound(motion), Bound(self._row_set())
                status = row_velocities(*arguments, external.stiff, external.wrenches, self._time, False)
            else:
                status = self._call_rows(2, self._stiff_at(self._dt), self._time)
            if status == Status.MORE_ROWS:
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
        self._ready = None
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
        self._find_row_forces(
            table, constraint.multipliers, constraint.wrench, constraint.state, wrenches, self._pair_forces,
            self._row_wrenches, self._row_tau,
        )  # fmt: skip
        if self._find_row_forces is _row_forces:
            self._find_row_forces = entry(_row_forces)
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
        links, drives, spans = trimmed(body, self.constraint_set.spans)
        equalities = table._replace(role=role.astype(table.role.dtype), soft=soft)
        for wrenches in (self._placed_wrenches(own), no_wrenches()):
            take_constrained_steps(
                links, drives, body.springs, equalities, self.constraint_set.own, spans, 0, len(spans), e.span,
                ACCELERATIONS, 1, 1, 1e-3, 0.0, body.tau, wrenches, e.step_work, self._pull, e.buffers,
                self._constraint, body.q, body.qd,
            )  # fmt: skip
            found.append(body.qd[:nv].copy())
            self._restore(state)
        body.qd[:nv] = before + (found[0] - found[1])
        # it has acted: the update may have brought it to the clusters as a force
        self._wrenches.link[k] = -1
        self._place_forces()
        e.carried.clock[:, :LAG] = 0.0
        e.current[0] = 1
        self._advance(0, dt, SCATTER)

    def _set_up(self, change: Callable[[], Any]) -> None:
        """Change the list of rows and set up what depends on it; the next step begins with an update."""
        self._restart()
        change()
        self.constraint_set.build()
        self._prepare_rows()
        self._set_groups()

    def _settled(self) -> Stepper:
        """Return the stepper without rows that was there before, once the last is gone."""
        if self._without is None or self.constraint_set.changes:
            return self
        if self._without._options != self._options:
            self._without.tune(self._options)
        self._without.take_over(self)
        return self._without

    def _targets_changed(self) -> None:
        """Place the rows again, and let go of joints that were active because a gap was being closed."""
        self._set_groups()
        self._table = None

    def move_grip(self, grip: Grip) -> None:
        """Take the target of a grip, which has changed: its frame in the world is the same for clusters."""
        self.constraint_set.move_grip(grip)
        if self._table is not None:
            self.constraint_set.aim(grip, self._table)

    def constraint_tables(self) -> tuple[Table, ...]:
        """Return the table of the rows; those on clusters share its numbers."""
        return (self.constraint_set.table,)

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
            **self.constraint_set.runtime_arrays(), **self._resting_arrays(),
        }  # fmt: skip

    def _resting_arrays(self) -> dict[str, np.ndarray]:
        """Return the joint forces that coefficients of rigid joints were found with, where they are not those of now.

        The forces of rows on joints, as of limits, are known while an update lasts, and stay in what it finds.
        """
        e = self._engine
        known = e.co.own[:, APPLIED]
        differs = (known != e.tau) & ~self.active_links()[e.known.owner] & (not self._fresh)
        dofs = np.flatnonzero(differs)
        return {"list_resting": dofs, "list_resting_force": known[dofs]}

    def _prepare_from(self, arrays: dict[str, np.ndarray]) -> None:
        """Find all coefficients again, with the joint forces that they were found with."""
        e = self._engine
        if "list_resting" in arrays:
            e.tau[arrays["list_resting"]] = arrays["list_resting_force"]
        super()._prepare_from(arrays)
        e.tau[:] = arrays["tau"]

    def _check_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        """Refuse what could lead a kernel astray."""
        super()._check_arrays(arrays)
        dofs = arrays.get("list_resting", np.zeros(0, np.int64))
        forces = arrays.get("list_resting_force", np.zeros(0))
        if not (((dofs >= 0) & (dofs < self._model.nv)).all() and forces.shape == dofs.shape and dofs.ndim == 1):
            raise StateError(f'the joint forces of this snapshot do not fit model "{self._model.name}"')

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

    def row_forces(self, exerted: np.ndarray, forces: Forces) -> RowForces:
        """Return the forces of the rows in the last step; of those inside one cluster none."""
        return self.constraint_set.row_forces()

    def stats(self) -> dict[str, Any]:
        """Return what `AdaptiveStepper` does, and what the rows did."""
        report = self.constraint_set.constraint.report
        return super().stats() | {
            "over_budget": self._over_budget(), "rows": int(report[0]), "rank": int(report[1]),
            "projection_iterations": int(report[2]),
            "joint_error": float(report[3]),
        }  # fmt: skip
