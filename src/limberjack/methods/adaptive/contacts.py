"""Contacts and dry friction on the hybrid body: a rigid cluster collides as one body.

The assembly tree is a bounding volume hierarchy. Each rigid node has the box around its shapes, in the frame of its
first body; an update computes boxes again only for joints that became rigid since the last, lower ones first, and for
what was set from outside. The nodes of the rigid front are the parts of `collision/bvh.py`, each on its cluster: the
broad phase descends from their boxes only where something is near, and the pose of a shape in its cluster is computed
when a descent first reaches it.

Steps are those of `reduced/contacts.py`, with clusters for links: contacts act on the articulated inertias of the
clusters. An impact on a cluster of several links ends the steps before it: an update with the force of the impact comes
first, so that the step of the impact has the joints that it activated.

The region update knows contacts, rows and dry friction as forces, like wrenches. Those of the last step would be the
wrong ones: they hold clusters, and would throw up a toe that is pressed on the ground were its joint free. So a step of
the whole model is solved at the state of the update, for its forces only (`FreeStep`): accelerations that belong to
them are those of `full`. Where that step would cost more than the steps since the last one, the last forces are taken.

A figure that lies still sleeps: it is neither updated nor stepped until something changes or comes near. Trees in
contact with each other, or tied by rows, sleep and wake together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from limberjack._bound import Bound
from limberjack._jit import kernel
from limberjack.collision.bvh import Bvh, merge_boxes, new_bvh, with_parts
from limberjack.collision.detect import Contact
from limberjack.collision.shapes import PLANE, Filters, Shapes
from limberjack.constraints.rows import GAP
from limberjack.constraints.runtime import apart_bodies
from limberjack.errors import StateError, Status
from limberjack.methods.adaptive import layout as rg
from limberjack.methods.adaptive.method import in_use
from limberjack.methods.adaptive.options import Adaptive
from limberjack.methods.adaptive.poses import put_pose_row
from limberjack.methods.adaptive.rows import ConstrainedAdaptiveStepper
from limberjack.methods.adaptive.step import JOINT_FORCES, SCATTER, VARIATIONAL, WRENCH_LIST
from limberjack.methods.stepper import Forces
from limberjack.model.arrays import COORDINATE, DOF, LINK, whole_span
from limberjack.model.joints import FREE
from limberjack.model.model import Model
from limberjack.reduced.assembly_tree import Assembly
from limberjack.reduced.bound_steps import contact_arguments, contact_steps, passing_motion
from limberjack.reduced.constraint_set import ConstraintSet, Grip
from limberjack.reduced.contact_set import ContactSet, extents_of
from limberjack.reduced.forces import Wrenches, new_spring_work, no_wrenches
from limberjack.reduced.jacobians import link_velocities
from limberjack.reduced.joint_poses import child_pose
from limberjack.reduced.kinematics import kinematics
from limberjack.reduced.measure import link_motion
from limberjack.reduced.step import RK4
from limberjack.reduced.variational import COUNTS, ITERATIONS, LAG, External, lag_of, new_carried, new_variational_work
from limberjack.reduced.variational_rows import RowSet
from limberjack.spatial.frames import matrix_from_quaternion, quaternion_from_matrix

__all__ = ["Boxes", "ContactAdaptiveStepper"]

_SAME = np.array([1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0])


@kernel
def fit_boxes(
    # model
    table,
    # in
    numbers, nodes,
    # out
    bvh,
):  # fmt: skip
    """Fill the poses of second sides, and the boxes, of inner nodes in ascending order."""
    for k in range(len(nodes)):
        node = nodes[k]
        r, x, y, z = child_pose(table, numbers, node)
        put_pose_row(bvh.pose, node, r, x, y, z)
        merge_boxes(node, bvh)


class Boxes:
    """Boxes of all rigid parts of an assembly tree.

    Args:
        shapes: on the links of the model.
        tree: the assembly tree.
        links: of the model.
        extent: (n,) how far shapes reach from each link's origin [m].

    Attributes:
        branches: the boxes, cut into the rigid parts last laid out.
        extent: (k,) of clusters of one link.
        several: (k + 1,) which clusters have several links; the first is the world.
    """

    def __init__(self, shapes: Shapes, tree: Assembly, links: Any, extent: np.ndarray) -> None:
        depth = int(tree.depth.max(initial=0)) + 2
        self.bvh: Bvh = new_bvh(shapes, tree.first, tree.second, tree.roots, depth)
        self._tree, self._links, self._own_extent = tree, links, extent
        self._figures = self.bvh.joining  # nodes above those of figures and static shapes
        still = bool(((shapes.kind != PLANE) & (shapes.link < 0)).any())
        self._fixed = np.array([len(tree.first)] if still else [], np.int64)
        inner = np.arange(len(tree.body_link), len(tree.first))
        # joints that always move never have boxes
        base = tree.roots[links.kind[tree.joint[tree.roots]] == FREE]
        self._old = np.setdiff1d(inner, base)  # nodes whose boxes are not known, unless they are active
        self.extent, self.several = np.zeros(0), np.ones(1, np.uint8)

    def invalidate(self, nodes: np.ndarray) -> None:
        """Take note that the coefficients of these nodes were found again."""
        nodes = nodes[nodes >= len(self._tree.body_link)]
        self._old = np.union1d(self._old, nodes) if len(nodes) else self._old

    def lay(self, table: np.ndarray, numbers: np.ndarray, nodes: np.ndarray, active: np.ndarray, link_map: Any) -> None:
        """Cut the tree into the rigid parts that hang below the active nodes.

        Args:
            table, numbers: of the assembly tree, see `Coefficients`.
            nodes: the active nodes, ascending.
            active: (m,) flags of the same.
            link_map: the clusters of the tops of rigid parts.
        """
        rest = self._old[active[self._old] == 0]
        fit_boxes(table, numbers, rest, self.bvh)
        self._old = nodes.copy()  # what rests of these at the next call has moved until then
        sides = self.bvh.child[nodes].ravel()
        sides = sides[sides >= 0]
        roots = self._tree.roots
        resting = roots[active[roots] == 0]
        rigid_front = sides[active[sides] == 0]
        n, top = len(self._links.parent), self._tree.top[rigid_front]
        on = np.broadcast_to(_SAME, (len(rigid_front) + len(resting), 12)).copy()
        piece = np.flatnonzero(top >= n)
        on[piece] = link_map.pose[top[piece] - n]
        link = link_map.cluster[top]
        part, cluster = np.append(rigid_front, resting), np.append(link, np.full(len(resting), -1, np.int64))
        joining = np.append(nodes, self._figures)
        self.bvh = with_parts(self.bvh, part, cluster, on, joining, self._fixed)
        count = int(link.max(initial=-1)) + 1
        self.extent, self.several = np.zeros(count), np.zeros(count + 1, np.uint8)
        alone = top < n
        self.extent[link[alone]] = self._own_extent[top[alone]]
        self.several[link[rigid_front >= len(self._tree.body_link)] + 1] = 1
        self.several[0] = 1


@kernel
def _motion_of_trees(
    # model
    links,
    # in
    span, tree, q, qd, work, velocities,
    # out
    motion,
):  # fmt: skip
    """Fill kinetic energy and linear momentum of each tree, four columns.

    `tree` has the tree of each link, `work` and `velocities` are scratch.
    """
    kinematics(links, span, q, qd, work)
    link_velocities(links, span, qd, work, velocities)
    for t in range(len(motion)):
        for c in range(4):
            motion[t, c] = 0.0
    for i in range(len(links.parent)):
        own, px, py, pz = link_motion(i, work.rows, velocities)
        for v in range(links.v_start[i], links.v_start[i] + links.dof[i]):
            own += 0.5 * links.armature[v] * qd[v] * qd[v]
        t = tree[i]
        motion[t, 0], motion[t, 1] = motion[t, 0] + own, motion[t, 1] + px
        motion[t, 2], motion[t, 3] = motion[t, 2] + py, motion[t, 3] + pz


class FreeStep:
    """One step of a model with all its joints free, taken for the forces of its contacts, rows and dry friction.

    Args:
        model: the model.
        ignored: features left out.
        constraint_set: its rows.
        trees: (n,) the tree of each link.

    Attributes:
        contact_set: the contacts of the last of these steps, for the warm start.
        wrenches: their forces on links.
        friction: (nv,) forces of dry friction.
        accelerations: (trees,) squared accelerations in that step, times masses.
        fall: (trees,) accelerations of the centers of mass in that step.
    """

    def __init__(
        self, model: Model, ignored: frozenset[str], constraint_set: ConstraintSet, trees: np.ndarray, count: int
    ) -> None:
        a = model.arrays
        self._model, self._constraint_set, self._tree = model, constraint_set, trees
        self.contact_set = ContactSet(model, ignored)
        self.contact_set.set_trees(a.links, a.drives, self.contact_set.friction)
        work = self.contact_set.state.work
        self._work = new_variational_work(a.links, work, new_spring_work(a.links, a.springs), True)
        self._whole, self._counts = whole_span(a.links, a.drives), np.zeros(COUNTS, np.int64)
        self._q, self._qd = np.zeros(model.nq), np.zeros(model.nv)
        self.wrenches, self.friction = no_wrenches(), np.zeros(model.nv)
        self._motion, self.accelerations, self.fall = np.zeros((count, 4)), np.zeros(count), np.zeros(count)
        self._mass = np.bincount(trees, a.links.inertia[:, 9], count)

    def take(
        self, external: External, dt: float, time: float, q: np.ndarray, qd: np.ndarray, more_rows: Callable[[], None]
    ) -> bool:
        """Take the step from (q, qd), which stay; return whether it succeeded.

        qd is taken as the velocity of the last half step, as it is where contacts act: forces then act for all of dt.

        Args:
            external: forces on the model.
            dt, time: length and start of the step.
            q, qd: the state.
            more_rows: makes room for rows.
        """
        a, c, contact_set = self._model.arrays, self._constraint_set, self.contact_set
        blocks = c.spans
        carried = new_carried(a.links, len(blocks))
        while True:
            self._q[:], self._qd[:] = q, qd
            carried.clock[:] = 0.0
            carried.clock[:, LAG] = dt
            motion = passing_motion(
                a.links, external, blocks, blocks[0].copy(), self._work, carried, self._q, self._qd, self._counts
            )
            arguments = contact_arguments(motion, RowSet(c.table, c.own, c.constraint), contact_set.search())
            taken, status = contact_steps(
                Bound(arguments), external.wrenches, external.stiff, ITERATIONS, 1, dt, time, 0, False
            )
            if status == Status.MORE_CONTACTS:
                contact_set.grow()
            elif status == Status.MORE_ROWS:
                more_rows()
            else:
                break
        if not taken:
            return False
        contact_set.last_step = dt
        self.wrenches = self._contact_wrenches()
        self.friction[:] = contact_set.state.applied - external.applied
        work, velocities = contact_set.state.work, contact_set.state.velocities
        np.subtract(carried.history[0], qd, out=self._qd)
        _motion_of_trees(a.links, self._whole, self._tree, q, self._qd, work, velocities, self._motion)
        self.accelerations[:] = 2.0 / dt**2 * self._motion[:, 0]
        self.fall[:] = np.linalg.norm(self._motion[:, 1:], axis=1) / (dt * self._mass)
        return True

    def _contact_wrenches(self) -> Wrenches:
        contact_set, count = self.contact_set, int(self.contact_set.warm_start.count[0])
        forces, found, pose = contact_set.forces(), contact_set.detector.contacts, contact_set.state.pose
        links, rows, push = [], [], forces.any(axis=1)
        for link, sign in ((found.link_a[:count], 1.0), (found.link_b[:count], -1.0)):
            on = np.flatnonzero((link >= 0) & push)
            i = link[on]
            point = np.einsum("kji,kj->ki", matrix_from_quaternion(pose[i, 3:]), found.point[on] - pose[i, :3])
            links.append(i)
            rows.append(np.concatenate([point, sign * forces[on], sign * contact_set.torques()[on]], axis=1))
        return Wrenches(np.concatenate(links), np.concatenate(rows))


# Contacts that take out more velocity than this in a step, and than gravity adds in so many, are impacts [m/s].
_IMPACT, _STEPS = 0.5, 10.0
# A tree is still while the root of the mean square of its velocities, by mass, is below _SLOW, and quiet below _QUIET
# [m/s]. It sleeps when it has been still for _PATIENCE [s] and its accelerations with all joints free would not make it
# faster in that time. It also sleeps when it has been quiet for _TRIED and still for _PAUSE [s]: then it has
# accelerations that no choice of joints within the budget has turned into more than creeping. But not if its center of
# mass would fall with _FALL of gravity or more: budgets below the depth of the assembly tree may hold a figure upright.
# After it has been still for _STUCK [s] it sleeps in any case: what is left to try does not lead out of its pose.
_SLOW, _QUIET, _PATIENCE, _TRIED, _PAUSE, _FALL, _STUCK = 5e-3, 2e-2, 0.5, 1.0, 0.1, 0.4, 4.0
# Steps until the next update while all trees sleep.
_NEVER = 1 << 40
# Updates solve a step of the whole model: where more than half of the joints are active, and little is left to choose,
# they come less often, by a factor of at most this.
_RARER = 4


class ContactAdaptiveStepper(ConstrainedAdaptiveStepper):
    """The running side of `Adaptive` for models with contacts or dry friction in joints."""

    # Forces with all joints free hold for longer than those of the last step.
    _periods_ahead = 4

    def __init__(self, model: Model, options: Adaptive, constraint_set: ConstraintSet, ignored: frozenset[str]) -> None:
        self._contact_set = ContactSet(model, ignored)
        d = self._contact_set.detector
        self._own_shapes = d.shapes._replace(link=d.shapes.link.copy(), offset=d.shapes.offset.copy())
        self._filters = _by_bodies(d.filters, d.shapes, model.body_count)
        self._planes = np.flatnonzero((d.shapes.kind == PLANE) & (d.shapes.link >= 0))
        self._boxes: Boxes | None = None
        self._impact_shapes = (d.shapes.link >= 0).astype(np.uint8)  # shapes whose impacts end the steps
        self._friction_forces = np.zeros(model.nv)
        self._dry = np.zeros(model.nv)  # forces of dry friction when the joints last moved: the next step starts there
        self._moved = np.zeros(0, np.int64)  # dofs of the model that the hybrid body has, by its own
        self._known_wrenches: Wrenches | None = None
        self._impact: Wrenches | None = None
        self._contact_set.set_trees(model.arrays.links, model.arrays.drives, self._contact_set.friction)
        super().__init__(model, options, constraint_set)
        n = len(model.arrays.links.parent)
        trees, tree_index = len(self.assembly.roots), np.ascontiguousarray(self.assembly.tree_index[:n])
        self._free_step = FreeStep(model, ignored, constraint_set, tree_index, trees)
        self._work_done = n  # clusters stepped since the last free step
        self._free_known = False  # whether the last update knew forces with all joints free
        self._edited = False  # whether it came because something was set: joints became active that do not move yet
        self._tree_mass = np.bincount(tree_index, model.arrays.links.inertia[:, 9], trees)
        # which trees sleep, which rest without sleeping, and how long they have been still and quiet [s]
        self._asleep, self._at_rest = np.zeros(trees, bool), np.zeros(trees, bool)
        self._calm, self._quiet = np.zeros(trees), np.zeros(trees)
        self._motion, self._kinetic = np.zeros((trees, 4)), np.zeros(trees)  # when last measured, after so many steps
        self._measured = 0
        self._to_wake: np.ndarray | None = None

    # Sleep

    def advance(self, n: int, dt: float, forces: Forces, time: float = 0.0) -> tuple[int, int]:
        """Take up to n steps; see `Stepper`. While all trees sleep nothing is computed."""
        if self._todo and self._quiet.any():
            self._wake(self._pushed_trees(forces))
        if n > 0 and self._asleep.all():
            counts = self._engine.regions.counts
            if self._dirty:  # the state of a snapshot
                self._take_edits(dt, forces)
                self._table = None
            if self._todo:
                self._advance(0, dt, self._force_tasks(forces), forces)
            self._engine.counts[:] = 0
            counts[rg.UNTIL] -= n
            counts[rg.TAKEN] += n
            self._time = time + n * dt
            return n, 0
        return super().advance(n, dt, forces, time)

    def _pushed_trees(self, forces: Forces) -> np.ndarray:
        """Return the trees on which the user's forces differ from those that act."""
        e, tree, found = self._engine, self.assembly.tree_index, []
        if self._todo & JOINT_FORCES:
            owner, part = e.known.owner, slice(self._first, self._last)
            found.append(owner[part][forces.tau[part] != e.tau[part]])
            for indices, name in ((self._drives.indices, "scalar"), (self._drives.ball_indices, "ball")):
                differs = (getattr(forces.drives, name) != getattr(self._drives, name)).any(axis=1)
                found.append(owner[indices[differs, 1]])
        if self._todo & WRENCH_LIST:
            new, old = forces.wrenches, in_use(self._wrenches)
            k = min(len(new.link), len(old.link))
            same = (new.link[:k] == old.link[:k]) & (new.data[:k] == old.data[:k]).all(axis=1)
            found += [new.link[:k][~same], old.link[:k][~same], new.link[k:], old.link[k:]]
        return np.unique(tree[np.concatenate(found).astype(np.int64)])

    def _wake(self, trees: Any) -> None:
        """Wake trees with their islands; the next step begins with an update if one of them slept or rested."""
        if self._asleep[trees].any() or self._at_rest[trees].any():
            island = self._islands()
            trees = np.isin(island, island[trees])
            self._asleep[trees] = self._at_rest[trees] = False
            counts = self._engine.regions.counts
            counts[rg.UNTIL], counts[rg.CHECK] = 0, 1
            self._mark_sleepers()
        self._calm[trees] = self._quiet[trees] = 0.0

    def _mark_sleepers(self) -> None:
        """Tell the steps which trees of clusters sleep."""
        if self._table is not None:
            state = self._contact_set.state
            state.asleep[:] = self._asleep[self.assembly.tree_index[self._body.link[state.trees[:, LINK]]]]

    def _islands(self) -> np.ndarray:
        """Return the first tree of each tree's island: those in contact with each other or tied by rows."""
        tree, island = self.assembly.tree_index, np.arange(len(self._asleep))

        def root(i: int) -> int:
            while island[i] != i:
                i = int(island[i])
            return i

        def join(i: int, j: int) -> None:
            i, j = root(i), root(j)
            island[max(i, j)] = min(i, j)

        for span in self.constraint_set.spans:
            for i in range(int(tree[span[LINK]]), int(tree[span[LINK + 1] - 1])):
                join(i, i + 1)
        for a, b in self._contact_links():
            if a >= 0 and b >= 0:
                join(int(tree[a]), int(tree[b]))
        return np.array([root(i) for i in range(len(island))], np.int64)

    def _contact_links(self) -> np.ndarray:
        """Return the links (c, 2) of the contacts of the last step, -1 = world."""
        warm_start = self._contact_set.warm_start
        return self._own_shapes.link[warm_start.name[: int(warm_start.count[0]), :2]]

    def _restless(self) -> bool:
        """Return whether rows have targets that move, or forces that nobody tells of."""
        table = self.constraint_set.table
        return bool(table.target[:, 1].any() or len(table.compound) or self.constraint_set.pushed)

    def _measure_calm(self, dt: float) -> None:
        """Measure for how long trees have been still."""
        e, body, state = self._engine, self._body, self._contact_set.state
        self._derive_velocities()
        counts, tree = e.regions.counts, self.assembly.tree_index
        of_cluster = np.ascontiguousarray(tree[body.link[: len(self._links.parent)]])
        _motion_of_trees(
            self._links, state.whole, of_cluster, body.q, body.qd, e.step_work, state.velocities, self._motion
        )
        self._kinetic[:] = self._motion[:, 0]
        elapsed = dt * int(counts[rg.TAKEN] - self._measured)
        self._measured = int(counts[rg.TAKEN])
        for times, speed in ((self._calm, _SLOW), (self._quiet, _QUIET)):
            times[:] = np.where(2.0 * self._kinetic < speed**2 * self._tree_mass, times + elapsed, 0.0)
        self._at_rest &= self._calm > 0.0

    def _let_rest(self, dt: float) -> None:
        """Let islands in contact with something rest that have been still for long enough."""
        tried, still = (self._quiet >= _TRIED) & (self._calm >= _PAUSE), self._calm >= _PATIENCE
        if not (tried | still).any() or self._restless():
            return
        least = _SLOW / _PATIENCE
        if int(self._engine.regions.counts[rg.JOINTS]) == self._joints:
            balanced = still  # nothing is rigid: what is still has no accelerations
        elif self._free_known:
            balanced = self._free_step.accelerations < least**2 * self._tree_mass
            tried &= self._free_step.fall < max(_FALL * float(np.linalg.norm(self._model.gravity)), least)
        else:
            return
        ready = tried | (balanced & still) | (self._calm >= _STUCK)
        island, links = self._islands(), self._contact_links()
        all_ready, touched = np.ones(len(ready), bool), np.zeros(len(ready), bool)
        np.logical_and.at(all_ready, island, ready)
        touched[island[self.assembly.tree_index[links[links >= 0]]]] = True
        new = (all_ready & touched)[island] & ~self._asleep
        if not self._options.sleeping:
            self._at_rest |= new
        elif new.any() and (self._code >= VARIATIONAL or (new | self._asleep).all()):
            self._fall_asleep(new, dt)  # steps of other integrators are those of all trees

    def _fall_asleep(self, new: np.ndarray, dt: float) -> None:
        """Stop trees and let them sleep; what their joints have missed is forgotten."""
        e, body, tree, g = self._engine, self._body, self.assembly.tree_index, self._engine.regions
        self._asleep |= new
        g.numbers[rg.REMOVED_ALL] += self._kinetic[new].sum()
        for k, span in enumerate(self._spans):
            if span[LINK] < span[LINK + 1] and new[tree[body.link[span[LINK]]]]:
                body.qd[span[DOF] : span[DOF + 1]] = 0.0
                e.carried.clock[k] = 0.0
                e.carried.clock[k, LAG] = dt
        of_node = new[self.assembly.tree_index]
        g.held[of_node], g.credit[of_node], g.trust[of_node, rg.EXPECTED] = 0, 0.0, 0.0
        if self._asleep.all():
            g.counts[rg.UNTIL] = _NEVER
        self._mark_sleepers()
        self._advance(0, dt, SCATTER)

    def _update(self, dt: float) -> None:
        """Let the region change where it is due and something moves; see `ConstrainedAdaptiveStepper`."""
        counts = self._engine.regions.counts
        if self._asleep.all():
            counts[rg.UNTIL] = _NEVER
        edited = counts[rg.EARLY] == 0 or counts[rg.ALL_DUE] or counts[rg.EDITED] or counts[rg.CHECK]
        self._edited = bool(edited)
        if edited or not self._due():
            if edited:
                self._calm[~self._asleep] = self._quiet[~self._asleep] = 0.0
                self._measured = int(counts[rg.TAKEN])
            super()._update(dt)
            return
        if self._table is None:
            self._map_to_clusters()
        self._measure_calm(dt)
        if self._at_rest.any() and (self._at_rest | self._asleep).all():
            counts[rg.UNTIL] = self._options.update_every
            return
        rarer = self._rarer()
        if int(counts[rg.JOINTS]) == self._joints and rarer > 1 and not self._over_budget():
            counts[rg.UNTIL] = rarer * self._options.update_every  # nothing can become rigid
        else:
            super()._update(dt)
            counts[rg.UNTIL] *= self._rarer()
        self._let_rest(dt)

    def _rarer(self) -> int:
        """Return how many times as many steps as `update_every` says are between two updates.

        With a budget alone, 2 and more where more than half of the joints are active. Tolerances need every update.
        """
        rigid = self._joints - int(self._engine.regions.counts[rg.JOINTS])
        if 2 * rigid >= self._joints or self._engine.limits.tolerance[0] >= 0.0:
            return 1
        return max(self._joints // max(rigid, self._joints // _RARER, 1), 2)

    @property
    def _trims(self) -> bool:
        """Whether steps are those of other kernels: they are."""
        return True

    def _map_to_clusters(self) -> None:
        """Bring forces, rows and shapes to the clusters as they are now."""
        self._known_wrenches = self._contact_wrenches()  # by clusters that may be no more
        super()._map_to_clusters()
        links, own = self._model.arrays.links, self._links
        size = np.diff(np.append(own.v_start, len(own.armature)))
        self._moved = np.repeat(links.v_start[self._body.link[: len(size)]] - own.v_start, size) + np.arange(size.sum())
        e, contact_set = self._engine, self._contact_set
        if self._boxes is None:
            links = self._model.arrays.links
            extent = extents_of(self._own_shapes, len(links.parent))
            self._boxes = Boxes(self._own_shapes, self.assembly, links, extent)
        nodes = e.regions.active_nodes[: e.regions.counts[rg.COUNT]]
        self._boxes.lay(e.co.table, e.co.numbers, nodes, e.regions.active_region, e.link_map)
        contact_set.set_bvh(self._boxes.bvh, self._filters)
        self._move_planes()
        contact_set.impact_shapes, contact_set.impact_links = self._impact_shapes, self._boxes.several
        friction = contact_set.friction[self._moved]
        extent = np.zeros(len(self._links.parent))
        extent[: len(self._boxes.extent)] = self._boxes.extent
        contact_set.set_trees(self._links, self._cut_drives, friction, extent)
        contact_set.state.dry[: len(self._moved)] = self._dry[self._moved]
        self._mark_sleepers()

    def _move_planes(self) -> None:
        """Find the poses of planes on links in their clusters: they have no box."""
        if not len(self._planes):
            return
        shapes, own = self._contact_set.detector.shapes, self._own_shapes
        cluster, pose = self._located(np.ascontiguousarray(own.link[self._planes]))
        turn = pose[:, :9].reshape(-1, 3, 3)
        shapes.link[self._planes] = cluster
        shapes.offset[self._planes, :3] = pose[:, 9:] + np.einsum("kij,kj->ki", turn, own.offset[self._planes, :3])
        turned = quaternion_from_matrix(turn @ matrix_from_quaternion(own.offset[self._planes, 3:]))
        alone = (pose[:, :9] == np.eye(3).ravel()).all(axis=1)[:, None]  # as in the model, to the last bit
        shapes.offset[self._planes, 3:] = np.where(alone, own.offset[self._planes, 3:], turned)

    def _prepare(self, leaves: bool) -> None:
        """Find the coefficients of stale nodes again, and the hybrid body."""
        if self._boxes is not None:
            self._boxes.invalidate(np.flatnonzero(self._stale))
        super()._prepare(leaves)

    def _take_trimmed(self, n: int, dt: float, time: float) -> tuple[int, int]:
        """Take n steps of the hybrid body, or those before an impact, whose force enters the update that follows."""
        if n > 0 and self._asleep.all():
            return n, 0
        start, contact_set = self._state(), self._contact_set
        contact_set.impact_speed = max(_IMPACT, _STEPS * dt * float(np.linalg.norm(self._model.gravity)))
        self._impact = self._to_wake = None
        taken, status = super()._take_trimmed(n, dt, time)
        self._work_done += taken * len(self._links.parent)
        contact_set.impact_after = max(contact_set.impact_after - taken, 0)
        impact, self._impact = self._impact, None
        if status or impact is None:
            return taken, status
        if self._code < VARIATIONAL:  # else the steps before the impact have been taken again already
            self._restore(start)
            contact_set.impact_speed = np.inf
            if taken:
                self._take_all(taken, dt, time)
        self._known_wrenches = impact
        # where little is left to open, the next impacts wait for half a period
        contact_set.impact_after = max(self._options.update_every // 2, 1) if self._rarer() > 1 else 1
        if self._to_wake is not None:
            self._wake(self._to_wake)
        self._engine.regions.counts[rg.UNTIL] = taken
        return taken, 0

    def _take_all(self, n: int, dt: float, time: float) -> tuple[int, int]:
        """Take n steps with contacts; after a failure blocks may be at different steps."""
        body, e, whole = self._body, self._engine, self._body.whole
        nv, nq = int(whole[DOF + 1]), int(whole[COORDINATE + 1])
        tau = body.tau[:nv]
        if self._code >= VARIATIONAL:
            contact_set = self._contact_set
            external = self._external(dt)._replace(applied=tau)
            motion = passing_motion(
                self._links, external, self._spans, e.span, e.variational, e.carried, body.q[:nq], body.qd[:nv],
                e.counts,
            )  # fmt: skip
            arguments = contact_arguments(motion, self._row_set(), contact_set.search())
            taken, status = self._done(
                contact_steps(
                    Bound(arguments), external.wrenches, external.stiff, self._iterations(), n, dt, time,
                    contact_set.impact_after, False,
                )
            )  # fmt: skip
            if taken:
                contact_set.last_step = dt
        else:
            taken, status = self._explicit_steps(n, dt, time, tau)
        if status == Status.IMPACT:
            self._known_wrenches = None
            self._impact, status = self._contact_wrenches(), 0
            self._to_wake = self._trees_in_contact() if self._asleep.any() else None
        if taken:
            self._known_wrenches = None
            if self._contact_set.friction.any():
                self._friction_forces[:] = 0.0
                self._friction_forces[self._moved] = self._contact_set.state.applied - tau
                self._dry[self._moved] = self._contact_set.state.dry
        return taken, status

    def _trees_in_contact(self) -> np.ndarray:
        """Return the trees of contacts between one that sleeps and one that is awake."""
        found, links = self._contact_set.detector.contacts, self._body.link[: len(self._links.parent)]
        pairs = np.stack([found.link_a, found.link_b], axis=1)[: int(found.count[0])]
        trees = self.assembly.tree_index[links[pairs[(pairs >= 0).all(axis=1)]]]
        return np.unique(trees[self._asleep[trees[:, 0]] != self._asleep[trees[:, 1]]])

    def _make_room(self, status: int) -> None:
        if status == Status.MORE_CONTACTS:
            self._contact_set.grow()
        super()._make_room(status)

    def _explicit_steps(self, n: int, dt: float, time: float, tau: np.ndarray) -> tuple[int, int]:
        """Take n steps with contacts by another integrator than the variational one."""
        body, e = self._body, self._engine
        nv, nq = int(body.whole[DOF + 1]), int(body.whole[COORDINATE + 1])
        return self._contact_set.take(
            self._links, self._cut_drives, body.springs, self.constraint_set, self._constraint, self._table,
            self._spans, e.span, self._code, n, 2 if self._code == RK4 else 1, dt, time, tau, self._cluster_wrenches,
            e.step_work, self._pull, e.buffers, body.q[:nq], body.qd[:nv],
        )  # fmt: skip

    def _state(self) -> dict[str, np.ndarray]:
        """Return what steps change of the hybrid body, its rows and contacts."""
        constraint = self.constraint_set.constraint
        rows = {"multipliers": constraint.multipliers.copy(), "wrench": constraint.wrench.copy()}
        return (
            super()._state()
            | rows
            | {"gap": constraint.state[:, GAP : GAP + 3].copy()}
            | self._contact_set.state_arrays()
        )

    def _restore(self, start: dict[str, np.ndarray]) -> None:
        """Return to what `_state` gave."""
        super()._restore(start)
        constraint = self.constraint_set.constraint
        constraint.multipliers[:], constraint.wrench[:] = start["multipliers"], start["wrench"]
        constraint.state[:, GAP : GAP + 3] = start["gap"]
        self._contact_set.set_state_arrays(start)

    # Contacts as known forces

    def _contact_wrenches(self) -> Wrenches:
        """Return the forces of the contacts of the last step as wrenches on the links of the model."""
        if self._known_wrenches is not None:
            return self._known_wrenches
        m, count = self._contact_set, int(self._contact_set.warm_start.count[0])
        forces, found = m.forces(), m.detector.contacts
        if not forces.any():
            self._known_wrenches = no_wrenches()
            return self._known_wrenches
        links, rows = [], []
        for end, sign in ((0, 1.0), (1, -1.0)):
            shape = m.warm_start.name[:count, end]
            on = np.flatnonzero((self._own_shapes.link[shape] >= 0) & forces.any(axis=1))
            link, cluster, point = self._own_shapes.link[shape[on]], m.detector.shapes.link[shape[on]], found.point[on]
            frame = np.vstack([m.state.pose, [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]])[cluster]
            inside = m.detector.bvh.where[link]
            for turn, at in (
                (matrix_from_quaternion(frame[:, 3:]), frame[:, :3]), (inside[:, :9].reshape(-1, 3, 3), inside[:, 9:]),
            ):  # fmt: skip
                point = np.einsum("kji,kj->ki", turn, point - at)
            links.append(link)
            rows.append(np.concatenate([point, sign * forces[on], sign * m.torques()[on]], axis=1))
        self._known_wrenches = Wrenches(np.concatenate(links), np.concatenate(rows))
        return self._known_wrenches

    def _take_free_step(self) -> bool:
        """Find the forces of contacts and rows with all joints free; return whether they are known.

        They are not where no joint is rigid, or where the free step would cost more than the steps since the last one.
        """
        e, model, dt = self._engine, self._model, self._dt
        if int(e.regions.counts[rg.JOINTS]) == self._joints or self._work_done < len(model.arrays.links.parent):
            return False
        self._work_done = 0
        self._advance(0, dt, SCATTER)
        external = External(self._drives, model.arrays.springs, self._stiff_at(dt), e.tau, in_use(self._wrenches))
        return self._free_step.take(external, dt, self._time, e.q, e.qd, self._grow_rows)

    def _with_row_wrenches(self, wrenches: Wrenches) -> Wrenches:
        """Return the wrenches with those of rows and contacts added: with all joints free, or of the last step."""
        names = ("multipliers", "wrench", "near", "state", "report")
        before = [getattr(self.constraint_set.constraint, name).copy() for name in names]
        self._free_known = self._take_free_step()
        self._engine.regions.counts[rg.FREE_CONTACTS] = self._free_known and not self._edited
        if not self._free_known:
            self._set_constraint(names, before)
        out = super()._with_row_wrenches(wrenches)
        self._set_constraint(names, before)
        contact_wrenches = self._free_step.wrenches if self._free_known else self._contact_wrenches()
        if not len(contact_wrenches.link):
            return out
        return Wrenches(
            np.concatenate([out.link, contact_wrenches.link]), np.concatenate([out.data, contact_wrenches.data])
        )

    def _row_joint_forces(self) -> np.ndarray:
        """Return the joint forces of rows on coordinates and of dry friction, as `_with_row_wrenches` found them."""
        return super()._row_joint_forces() + (self._free_step.friction if self._free_known else self._friction_forces)

    def _set_constraint(self, names: tuple[str, ...], values: list[np.ndarray]) -> None:
        for name, value in zip(names, values, strict=True):
            getattr(self.constraint_set.constraint, name)[:] = value

    # What wakes

    def invalidate(self) -> None:
        """Compare what users see with the engine's own at the next step: something was set."""
        self._wake(slice(None))
        super().invalidate()

    def apply_impulse(self, link: int, point: np.ndarray, impulse: np.ndarray, angular_impulse: np.ndarray) -> None:
        """Change velocities at once by an impulse; see `Stepper`."""
        self._wake(np.array([self.assembly.tree_index[link]]))
        super().apply_impulse(link, point, impulse, angular_impulse)

    def _set_up(self, change: Callable[[], Any]) -> None:
        """Change the list of rows and set up what depends on it; all trees wake."""
        self._wake(slice(None))
        super()._set_up(change)

    def _targets_changed(self) -> None:
        """Place the rows again; all trees wake."""
        self._wake(slice(None))
        super()._targets_changed()

    def _apart(self) -> None:
        """Let the bodies of joints made while running not collide."""
        pairs = apart_bodies(self.constraint_set.attached)
        free, d = self._free_step.contact_set, self._contact_set.detector
        free.keep_apart(pairs)
        self._filters = _by_bodies(free.detector.filters, d.shapes, self._model.body_count)
        self._table = None

    def move_grip(self, grip: Grip) -> None:
        """Take the target of a grip, which has changed."""
        self._wake(np.array([self.assembly.tree_index[grip.link]]))
        super().move_grip(grip)

    def loop_forces(self, name: str) -> np.ndarray:
        """Return the forces applied to a loop joint, to be written."""
        self._wake(slice(None))
        return super().loop_forces(name)

    def tune(self, options: Adaptive) -> None:
        """Take other options while running; the next step begins with an update."""
        super().tune(options)
        self._wake(slice(None))

    def velocity_lag(self) -> np.ndarray | None:
        """Return half of the last substep for trees that contacts act on, else 0; see `Stepper`."""
        links = len(self._model.arrays.links.parent)
        return lag_of(self.constraint_set.spans, self._engine.carried.clock, links)

    def contacts(self) -> list[Contact]:
        """Return the contacts, gaps up to the margin included, at the start of the last step."""
        return self._contact_set.contacts()

    # Memory

    def state_arrays(self) -> dict[str, np.ndarray]:
        """Return what `ConstrainedAdaptiveStepper` does, and the forces of contacts and dry friction."""
        wrenches, own = self._contact_wrenches(), self._contact_set.state_arrays()
        own["dry_friction"] = self._dry.copy()
        return super().state_arrays() | own | {
            "list_push_link": wrenches.link.copy(), "list_push_data": wrenches.data.copy(),
            "rub": self._friction_forces.copy(),
            **{f"{k}_free": v for k, v in self._free_step.contact_set.state_arrays().items()},
            "asleep": self._asleep.astype(np.uint8), "at_rest": self._at_rest.astype(np.uint8),
            "calm": self._calm.copy(), "quiet": self._quiet.copy(),
            "work_done": np.array(
                [
                    self._work_done,
                    self._engine.regions.counts[rg.TAKEN] - self._measured,
                    self._contact_set.impact_after,
                ]
            ),
        }  # fmt: skip

    def set_state_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        """Set what `state_arrays` returned."""
        super().set_state_arrays(arrays)
        self._dry[:] = arrays["dry_friction"]
        own = self._dry[self._moved] if len(self._moved) else self._dry
        self._contact_set.set_state_arrays(arrays | {"dry_friction": own})
        self._known_wrenches = Wrenches(arrays["list_push_link"].copy(), arrays["list_push_data"].copy())
        self._friction_forces[:] = arrays["rub"]
        self._free_step.contact_set.set_state_arrays(
            {k.removesuffix("_free"): v for k, v in arrays.items() if k.endswith("_free")}
        )
        self._asleep[:], self._at_rest[:] = arrays["asleep"], arrays["at_rest"]
        self._calm[:], self._quiet[:] = arrays["calm"], arrays["quiet"]
        self._work_done = int(arrays["work_done"][0])
        self._measured = int(self._engine.regions.counts[rg.TAKEN] - arrays["work_done"][1])
        self._contact_set.impact_after = int(arrays["work_done"][2])

    def _check_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        """Refuse what could lead a kernel astray."""
        links, n = arrays["list_push_link"], len(self._model.arrays.links.parent)
        shapes = len(self._own_shapes.kind)
        fits = ((links >= 0) & (links < n)).all() and arrays["list_push_data"].shape == (len(links), 9)
        for end in ("", "_free"):
            names = arrays[f"list_contacts{end}"]
            fits = fits and names.shape[1:] == (3,) and ((names[:, :2] >= 0) & (names[:, :2] < shapes)).all()
            fits = fits and arrays[f"list_impulses{end}"].shape == (len(names), 4)
            fits = fits and arrays[f"list_torques{end}"].shape == (len(names), 3)
        if not (fits and np.isfinite([arrays["calm"], arrays["quiet"]]).all()):
            raise StateError(f'the contacts of this snapshot do not fit model "{self._model.name}"')
        super()._check_arrays(arrays)

    def stats(self) -> dict[str, Any]:
        """Return what `ConstrainedAdaptiveStepper` does, what contacts did, and how many trees sleep."""
        return super().stats() | self._contact_set.stats() | {"asleep": int(self._asleep.sum())}


def _by_bodies(filters: Filters, shapes: Shapes, bodies: int) -> Filters:
    """Return filters that name bodies only: clusters without a joint between them may have links with one."""
    pairs = {(b, int(c)) for b in range(bodies + 1) for c in filters.apart[slice(*filters.apart_start[b : b + 2])]}
    of_part: dict[int, set[int]] = {}
    for body, part in zip(shapes.body, shapes.part, strict=True):
        if part >= 0:
            of_part.setdefault(int(part), set()).add(int(body) + 1)
    for part, own in of_part.items():
        for other in filters.joined[slice(*filters.joined_start[part : part + 2])]:
            pairs |= {(b, c) for b in own for c in of_part.get(int(other), ())}
    table = np.array(sorted(pairs), np.int64).reshape(-1, 2)
    start = np.searchsorted(table[:, 0], np.arange(bodies + 2)).astype(np.int64)
    none = np.zeros(0, np.int64)
    table = np.ascontiguousarray(table[:, 1])
    return filters._replace(
        joined_start=np.zeros_like(filters.joined_start), joined=none, apart_start=start, apart=table
    )
