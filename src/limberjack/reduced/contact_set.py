"""`ContactSet`: the Python side of `contacts.py`, shared by the methods in reduced coordinates.

It has the shapes of a model on the links of some trees (the model's own, or clusters of them), the contacts found and
what they pushed with.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from limberjack._jit import entry
from limberjack.collision.bvh import Bvh
from limberjack.collision.detect import Contact, grown, new_contacts, new_detector
from limberjack.collision.filters import with_apart
from limberjack.collision.shapes import Filters, Shapes, shape_names
from limberjack.contact.warm_start import new_warm_start
from limberjack.errors import Status
from limberjack.model.arrays import Drives, Links
from limberjack.model.model import Model
from limberjack.reduced.contacts import ContactState, PathRows, new_contact_state, new_path_rows, take_contact_steps
from limberjack.reduced.forces import Wrenches, no_wrenches
from limberjack.reduced.variational_rows import ContactSearch

__all__ = ["ContactSet", "extents_of"]

# Gap up to which contacts are detected [m].
_MARGIN = 1e-3
# Contacts there is room for at first.
_ROOM = 64


def extents_of(shapes: Shapes, n: int) -> np.ndarray:
    """Return how far shapes reach from the origin of each of n links [m]; planes are left out."""
    extent = np.zeros(n)
    on = np.flatnonzero((shapes.link >= 0) & np.isfinite(shapes.radius))
    far = np.sqrt(np.square(shapes.offset[on, :3]).sum(axis=1)) + shapes.radius[on]
    np.maximum.at(extent, shapes.link[on], far)
    return extent


class ContactSet:
    """The contacts and dry friction of a model's trees.

    Args:
        model: the model.
        ignored: features to leave out.

    Attributes:
        detector: shapes, filters and contacts.
        state: state and work arrays on the trees last set.
        warm_start: the impulses of the last step by contact.
        last_step: length of the last step [s].
        impact_speed, impact_after, impact_shapes, impact_links: of `take_contact_steps`; impacts end steps once set.
    """

    def __init__(self, model: Model, ignored: frozenset[str]) -> None:
        apart = tuple(shape.name for shape in model.shapes if shape.collide) if "contacts" in ignored else ()
        self._names = shape_names(model, apart)
        self._owner = {shape.name: shape.body for shape in model.shapes}
        # little room, made larger when it is needed: a step looks at all of it
        self.detector = new_detector(model, None, apart)._replace(contacts=new_contacts(_ROOM))
        self._model, self.filters = model, self.detector.filters
        self.warm_start = new_warm_start(_ROOM, rolling=True)
        dry = model.arrays.friction
        self.friction = np.zeros_like(dry) if "friction" in ignored else dry
        self._room, self.last_step = (256, 4096), 1.0
        self._packed: PathRows | None = None
        self._call: Any = take_contact_steps
        self._acting: Wrenches = no_wrenches()  # of the user, then of contacts
        self.impact_speed, self.impact_after, self.impact_shapes, self.impact_links = (
            np.inf,
            0,
            np.zeros(0, np.uint8),
            np.zeros(0, np.uint8),
        )
        self.state: ContactState

    def set_trees(self, links: Links, drives: Drives, friction: np.ndarray, extent: np.ndarray | None = None) -> None:
        """Take the trees that the shapes are on.

        Args:
            links, drives: the trees.
            friction: (nv,) dry friction of their dofs [N, N m].
            extent: (n,) how far shapes reach from each link's origin [m]; None = found from the shapes.
        """
        n, nv = len(links.parent), len(links.armature)
        if extent is None:
            extent = extents_of(self.detector.shapes, n)
        if self._packed is None:
            self._packed = new_path_rows(n, nv, *self._room)
        sized = {"seen": np.zeros(n, np.int64), "dense": np.zeros((nv, 4)), "inverse": np.zeros(nv), "z": np.zeros(nv)}
        self._packed = self._packed._replace(**sized)
        self.state = new_contact_state(links, drives, friction, extent, self._packed)

    def keep_apart(self, bodies: list[tuple[str, str]]) -> None:
        """Let pairs of bodies not collide, beside those that never do."""
        filters = with_apart(self._model, self.filters, self.detector.shapes, bodies)
        self.detector = self.detector._replace(filters=filters)

    def set_bvh(self, bvh: Bvh, filters: Filters) -> None:
        """Look for contacts in branches from now on, whose links are those of the trees; `lay` follows.

        Args:
            branches: over the shapes.
            filters: what does not collide; links without a joint between them may have bodies with one.
        """
        self.detector = self.detector._replace(bvh=bvh, filters=filters)

    def take(
        self, links: Links, drives: Drives, springs: Any, constraint_set: Any, constraint: Any, table: Any,
        blocks: np.ndarray, span: np.ndarray, code: int, n: int, substeps: int, dt: float, time: float, tau: np.ndarray,
        wrenches: Wrenches, work: Any, pull: Any, buffers: Any, q: np.ndarray, qd: np.ndarray,
    ) -> tuple[int, int]:  # fmt: skip
        """Take up to n steps; return the steps taken and 0 or a status, see `take_contact_steps`."""
        taken, given = 0, len(wrenches.link)
        while True:
            d = self.detector
            room = given + 2 * len(d.contacts.depth)
            if len(self._acting.link) != room:
                self._acting = Wrenches(np.full(room, -1, np.int64), np.zeros((room, 9)))
            self._acting.link[:given], self._acting.data[:given] = wrenches.link, wrenches.data
            more, status = self._call(
                links, drives, springs, table, constraint_set.own, d.shapes, d.filters, blocks, span, code, n - taken,
                substeps, dt / substeps, time + taken * dt, _MARGIN, self.impact_speed, self.impact_after - taken,
                self.impact_shapes, self.impact_links, tau, given, work, pull, buffers, constraint, d.bvh, d.broad,
                d.contacts, self.warm_start, self.state, self._acting, q, qd,
            )  # fmt: skip
            if self._call is take_contact_steps:
                self._call = entry(take_contact_steps)
            taken += int(more)
            if status != Status.MORE_CONTACTS:
                break
            self.grow()
        if taken:
            self.last_step = dt
        return taken, int(status)

    def search(self) -> ContactSearch:
        """Return what the variational step finds contacts with."""
        d = self.detector
        return ContactSearch(
            d.shapes, d.filters, d.bvh, d.broad, d.contacts, self.warm_start, self.state, _MARGIN,
            float(self.impact_speed), self.impact_shapes, self.impact_links,
        )  # fmt: skip

    def grow(self) -> None:
        """Make room for more contacts, of which the last step found too many."""
        if self.detector.contacts.count[1] > len(self.detector.contacts.depth):
            warm_start, count = self.warm_start, int(self.warm_start.count[0])
            self.detector = grown(self.detector)
            self.warm_start = new_warm_start(len(self.detector.contacts.depth), rolling=True)
            self.warm_start.count[0] = count
            self.warm_start.name[:count], self.warm_start.impulse[:count] = (
                warm_start.name[:count],
                warm_start.impulse[:count],
            )
            return
        packed = self.state.packed
        self._room = 2 * len(packed.kind), max(2 * len(packed.column), int(packed.report[3]))
        self._packed = new_path_rows(len(packed.seen), len(packed.z), *self._room)
        self.state = self.state._replace(packed=self._packed)

    def forces(self) -> np.ndarray:
        """Return the forces (c, 3) of the contacts of the last step on their first bodies [N]."""
        count = int(self.warm_start.count[0])
        normal = self.detector.contacts.normal[:count]
        return self.warm_start.impulse[:count, :1] * normal + self.warm_start.impulse[:count, 1:4]

    def torques(self) -> np.ndarray:
        """Return the torques (c, 3) of torsional and rolling friction in the last step on their first bodies [N m]."""
        return self.warm_start.impulse[: int(self.warm_start.count[0]), 4:]

    def contacts(self) -> list[Contact]:
        """Return the contacts, gaps up to the margin included, at the start of the last step."""
        found, out = self.detector.contacts, []
        for k, (force, torque) in enumerate(zip(self.forces(), self.torques(), strict=True)):
            names = self._names[self.warm_start.name[k, 0]], self._names[self.warm_start.name[k, 1]]
            out.append(
                Contact(
                    (self._owner[names[0]], self._owner[names[1]]), names, found.point[k].copy(),
                    found.normal[k].copy(), float(found.depth[k]), self.last_step * force, force,
                    int(self.warm_start.name[k, 2]), torque.copy(),
                )
            )  # fmt: skip
        return out

    def state_arrays(self) -> dict[str, np.ndarray]:
        """Return the forces of contacts by name, and those of dry friction."""
        count = int(self.warm_start.count[0])
        return {
            "list_contacts": self.warm_start.name[:count].copy(),
            "list_impulses": self.warm_start.impulse[:count, :4].copy(),
            "list_torques": self.torques().copy(),
            "dry_friction": self.state.dry.copy(),
        }

    def set_state_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        """Set what `state_arrays` returned."""
        self.state.dry[:] = arrays["dry_friction"]
        count = len(arrays["list_contacts"])
        while count > len(self.warm_start.impulse):
            self.detector.contacts.count[1] = count
            self.grow()
        self.warm_start.count[0] = count
        self.warm_start.name[:count], self.warm_start.impulse[:count, :4] = (
            arrays["list_contacts"],
            arrays["list_impulses"],
        )
        self.warm_start.impulse[:count, 4:] = arrays["list_torques"]

    def stats(self) -> dict[str, Any]:
        """Return contacts, sweeps and the last change of velocity they made, and the deepest overlap."""
        report = self.state.packed.report
        depth = self.detector.contacts.depth[: int(self.warm_start.count[0])]
        return {
            "contacts": int(self.warm_start.count[0]),
            "sweeps": int(report[1]),
            "change": float(report[2]),
            "penetration": float(max(depth.max(initial=0.0), 0.0)),
        }
