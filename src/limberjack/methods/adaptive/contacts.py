"""Contacts and dry friction on the hybrid body: a rigid cluster collides as one body.

The assembly tree is a bounding volume hierarchy. Each rigid node has the box around its shapes, in the frame of its
first body; an update computes boxes again only for joints that became rigid since the last, lower ones first, and for
what was set from outside. The nodes of the rigid front are the parts of `collision/bvh.py`, each on its cluster: the
broad phase descends from their boxes only where something is near, and the pose of a shape in its cluster is computed
when a descent first reaches it.

Steps are those of `reduced/contacts.py`, with clusters for links: contacts act on the articulated inertias of the
clusters. The region update includes contacts and dry friction by their last forces, like wrenches. An impact on a
cluster of several links ends the steps before it: an update with the force of the impact comes first, so that the step
of the impact has the joints that it activated.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from limberjack._jit import kernel
from limberjack.collision.bvh import Bvh, merge_boxes, new_bvh, with_parts
from limberjack.collision.detect import Contact
from limberjack.collision.shapes import PLANE, Filters, Shapes
from limberjack.constraints.rows import GAP
from limberjack.errors import StateError, Status
from limberjack.methods.adaptive import layout as rg
from limberjack.methods.adaptive.options import Adaptive
from limberjack.methods.adaptive.poses import put_pose_row
from limberjack.methods.adaptive.rows import ConstrainedAdaptiveStepper
from limberjack.methods.adaptive.step import VARIATIONAL
from limberjack.model.arrays import COORDINATE, DOF
from limberjack.model.joints import FREE
from limberjack.model.model import Model
from limberjack.reduced.assembly_tree import Assembly
from limberjack.reduced.constraint_set import ConstraintSet
from limberjack.reduced.contact_set import ContactSet, extents_of
from limberjack.reduced.forces import Wrenches, no_wrenches
from limberjack.reduced.joint_poses import child_pose
from limberjack.reduced.step import RK4
from limberjack.reduced.variational_rows import take_variational_contact_steps
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


# Contacts that take out more velocity than this in a step, and than gravity adds in so many, are impacts [m/s].
_IMPACT, _STEPS = 0.5, 10.0


class ContactAdaptiveStepper(ConstrainedAdaptiveStepper):
    """The running side of `Adaptive` for models with contacts or dry friction in joints."""

    def __init__(self, model: Model, options: Adaptive, constraint_set: ConstraintSet, ignored: frozenset[str]) -> None:
        self._contact_set = ContactSet(model, ignored)
        d = self._contact_set.detector
        self._own_shapes = d.shapes._replace(link=d.shapes.link.copy(), offset=d.shapes.offset.copy())
        self._filters = _by_bodies(d.filters, d.shapes, model.body_count)
        self._planes = np.flatnonzero((d.shapes.kind == PLANE) & (d.shapes.link >= 0))
        self._boxes: Boxes | None = None
        self._impact_shapes = (d.shapes.link >= 0).astype(np.uint8)  # shapes whose impacts end the steps
        self._friction_forces = np.zeros(model.nv)
        self._moved = np.zeros(0, np.int64)  # dofs of the model that the hybrid body has, by its own
        self._known_wrenches: Wrenches | None = None
        self._impact: Wrenches | None = None
        self._contact_set.set_trees(model.arrays.links, model.arrays.drives, self._contact_set.friction)
        super().__init__(model, options, constraint_set)

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
        start, contact_set = self._state(), self._contact_set
        contact_set.impact_speed = max(_IMPACT, _STEPS * dt * float(np.linalg.norm(self._model.gravity)))
        self._impact = None
        taken, status = super()._take_trimmed(n, dt, time)
        contact_set.impact_after = 0
        impact, self._impact = self._impact, None
        if status or impact is None:
            return taken, status
        self._restore(start)
        if taken:
            contact_set.impact_speed = np.inf
            self._take_all(taken, dt, time)
        self._known_wrenches, contact_set.impact_after = impact, 1
        self._engine.regions.counts[rg.UNTIL] = taken
        return taken, 0

    def _take_all(self, n: int, dt: float, time: float) -> tuple[int, int]:
        """Take n steps with contacts; after a failure blocks may be at different steps."""
        body, e, whole = self._body, self._engine, self._body.whole
        nv, nq = int(whole[DOF + 1]), int(whole[COORDINATE + 1])
        tau = body.tau[:nv]
        if self._code >= VARIATIONAL:
            contact_set = self._contact_set
            taken, status = self._done(
                take_variational_contact_steps(
                    self._links, self._external(dt)._replace(applied=tau), self._row_set(), contact_set.search(),
                    self._spans, e.span, self._iterations(), n, dt, time, contact_set.impact_after, e.variational,
                    e.carried, body.q[:nq], body.qd[:nv], e.counts,
                )
            )  # fmt: skip
            if taken:
                contact_set.last_step = dt
        else:
            taken, status = self._explicit_steps(n, dt, time, tau)
        if status == Status.IMPACT:
            self._known_wrenches = None
            self._impact, status = self._contact_wrenches(), 0
        if taken:
            self._known_wrenches = None
            if self._contact_set.friction.any():
                self._friction_forces[:] = 0.0
                self._friction_forces[self._moved] = self._contact_set.state.applied - tau
        return taken, status

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
            rows.append(np.concatenate([point, sign * forces[on], np.zeros((len(on), 3))], axis=1))
        self._known_wrenches = Wrenches(np.concatenate(links), np.concatenate(rows))
        return self._known_wrenches

    def _with_row_wrenches(self, wrenches: Wrenches) -> Wrenches:
        """Return the wrenches with those of rows and contacts in the last step added."""
        out, contact_wrenches = super()._with_row_wrenches(wrenches), self._contact_wrenches()
        if not len(contact_wrenches.link):
            return out
        return Wrenches(
            np.concatenate([out.link, contact_wrenches.link]), np.concatenate([out.data, contact_wrenches.data])
        )

    def _row_joint_forces(self) -> np.ndarray:
        """Return the joint forces of rows on coordinates and of dry friction in the last step."""
        return super()._row_joint_forces() + self._friction_forces

    def contacts(self) -> list[Contact]:
        """Return the contacts, gaps up to the margin included, at the start of the last step."""
        return self._contact_set.contacts()

    # Memory

    def state_arrays(self) -> dict[str, np.ndarray]:
        """Return what `ConstrainedAdaptiveStepper` does, and the forces of contacts and dry friction."""
        wrenches = self._contact_wrenches()
        return super().state_arrays() | self._contact_set.state_arrays() | {
            "list_push_link": wrenches.link.copy(), "list_push_data": wrenches.data.copy(),
            "rub": self._friction_forces.copy(),
        }  # fmt: skip

    def set_state_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        """Set what `state_arrays` returned."""
        super().set_state_arrays(arrays)
        self._contact_set.set_state_arrays(arrays)
        self._known_wrenches = Wrenches(arrays["list_push_link"].copy(), arrays["list_push_data"].copy())
        self._friction_forces[:] = arrays["rub"]

    def _check_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        """Refuse what could lead a kernel astray."""
        links, n = arrays["list_push_link"], len(self._model.arrays.links.parent)
        names, shapes = arrays["list_contacts"], len(self._own_shapes.kind)
        if not (
            ((links >= 0) & (links < n)).all() and arrays["list_push_data"].shape == (len(links), 9)
            and names.shape[1:] == (3,) and ((names[:, :2] >= 0) & (names[:, :2] < shapes)).all()
            and arrays["list_impulses"].shape == (len(names), 4)
        ):  # fmt: skip
            raise StateError(f'the contacts of this snapshot do not fit model "{self._model.name}"')
        super()._check_arrays(arrays)

    def stats(self) -> dict[str, Any]:
        """Return what `ConstrainedAdaptiveStepper` does, and what contacts did."""
        return super().stats() | self._contact_set.stats()


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
    return Filters(np.zeros_like(filters.joined_start), none, start, np.ascontiguousarray(table[:, 1]))
