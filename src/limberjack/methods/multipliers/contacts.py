"""Steps of `Multipliers` with contacts: foresee the step, find the forces of contacts, take the step with them.

    contacts (`collision/`) -> the step without contacts -> forces (`maximal/contacts.py`) -> the step

Each of these is a compiled call of its own: a step with contacts takes about half a millisecond more.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from limberjack.collision.detect import Contact, find_contacts, new_detector
from limberjack.collision.shapes import shape_names
from limberjack.constraints.rows import COORDINATES, ROWS
from limberjack.errors import StateError, Status, UnsupportedByMethod
from limberjack.maximal.bodies import RIGID
from limberjack.maximal.contacts import ContactRows
from limberjack.methods.multipliers.method import MultipliersStepper
from limberjack.methods.multipliers.options import Multipliers
from limberjack.methods.stepper import Forces
from limberjack.model.model import Model

__all__ = ["ContactStepper"]

# Gap up to which contacts are detected [m].
_MARGIN = 1e-3


class ContactStepper(MultipliersStepper):
    """Takes the steps of `Multipliers` for models with contacts."""

    def __init__(self, model: Model, options: Multipliers, ignored: frozenset[str]) -> None:
        if options.order == "first":
            raise StateError('order "first" has no contacts; use order "second", or ignore="contacts"')
        super().__init__(model, options, ignored)
        self._balls = None
        if (self.whole.bodies.kind != RIGID).any():
            raise UnsupportedByMethod(
                'method "multipliers" has contacts of rigid bodies only, and the model has others; to run without: '
                'ignore="contacts"'
            )
        self._detector = new_detector(model, self.whole.center)
        self._shape_names = shape_names(model, ())
        shapes = self._detector.shapes
        self._extent = np.zeros(len(self.whole.bodies.kind))
        for k, link in enumerate(shapes.link):
            if link >= 0 and np.isfinite(shapes.radius[k]):
                far = float(np.linalg.norm(shapes.offset[k, :3]) + shapes.radius[k])
                self._extent[link] = max(self._extent[link], far)
        moving = shapes.link >= 0
        self._has_friction = bool((shapes.friction[moving] > 0.0).any() and (shapes.friction > 0.0).sum() > 1)
        self._rows: ContactRows | None = None
        self._forces, self._last = np.zeros((0, 3)), 1.0

    def advance(self, n: int, dt: float, forces: Forces, time: float = 0.0) -> tuple[int, int]:
        """Take up to n steps; see `Stepper`."""
        self._take_edits()
        for step in range(n):
            status = self._one(dt, forces, time + step * dt)
            if status != 0:
                return step, status
            self._last = dt
        return n, 0

    def _one(self, dt: float, forces: Forces, time: float) -> int:
        """Take one step; return a status."""
        u = self._s.u.reshape(-1, 6)
        gravity = float(np.sqrt((self._setup.gravity**2).sum()))
        speed = np.sqrt((u[:, 3:] ** 2).sum(axis=1)) + self._extent * np.sqrt((u[:, :3] ** 2).sum(axis=1))
        reach = dt * speed + dt * dt * gravity
        self._detector = find_contacts(self._detector, self._s.pose[:, :7], reach, _MARGIN)
        contacts = self._detector.contacts
        count = int(contacts.count[0])
        self._forces = np.zeros((count, 3))
        if count == 0:
            return super().advance(1, dt, forces, time)[1]
        before = self._saved_state()
        status = super().advance(1, dt, forces, time)[1]
        predicted = self._s.u.copy()
        self._restore(before)
        if status != 0:
            return status
        self._make_room(contacts)
        found = self._rows.forces(contacts, self._e, self._s.u, predicted, time, dt, forces.wrenches)  # pyright: ignore[reportOptionalMemberAccess]
        if found is None:
            return Status.INFEASIBLE
        self._forces, wrenches = found
        # forces of the last step are not those of this one
        self._s.fresh[0] = 0
        with_contacts = Forces(forces.tau, forces.drives, wrenches)
        status = super().advance(1, dt, with_contacts, time)[1]
        self._s.fresh[0] = 0
        return status

    def _make_room(self, contacts: Any) -> None:
        """Have rows for all contacts."""
        count = int(contacts.count[0])
        ground = int((contacts.link_b[:count] < 0).sum())
        need = (ground, count - ground)
        if self._rows is None or self._rows.room[0] < need[0] or self._rows.room[1] < need[1]:
            old = (8, 0) if self._rows is None else self._rows.room
            room = tuple(max(a, 2 * b if b > a else 0) for a, b in zip(old, need, strict=True))
            self._rows = ContactRows(self._model, self.whole, self._s, (room[0], room[1]), friction=self._has_friction)

    def _saved_state(self) -> tuple[np.ndarray, ...]:
        """Return what a step changes."""
        s, pairs = self._s, self.whole.table.compound[:, 0]
        saved = (s.pose, s.u, self._e.near, self._e.state[pairs, COORDINATES:ROWS], s.fresh, s.force, s.q, s.qd)
        return tuple(one.copy() for one in saved)

    def _restore(self, saved: tuple[np.ndarray, ...]) -> None:
        s, pairs = self._s, self.whole.table.compound[:, 0]
        s.pose[:], s.u[:], self._e.near[:] = saved[:3]
        self._e.state[pairs, COORDINATES:ROWS] = saved[3]
        # rows and factor belong to the poses of the step foreseen: the force alone is of those put back
        s.fresh[:], s.force[:], s.q[:], s.qd[:] = 0, saved[5], saved[6], saved[7]

    def _regrip(self, grips: list[Any]) -> None:
        super()._regrip(grips)
        self._rows = None

    def contacts(self) -> list[Contact]:
        """Return what touched, or was about to, at the start of the last step."""
        owner = {shape.name: shape.body for shape in self._model.shapes}
        found, out = self._detector.contacts, []
        for k, force in enumerate(self._forces):
            names = self._shape_names[found.shape_a[k]], self._shape_names[found.shape_b[k]]
            bodies = owner[names[0]], owner[names[1]]
            geometry = found.point[k].copy(), found.normal[k].copy(), float(found.depth[k])
            out.append(Contact(bodies, names, *geometry, self._last * force, force.copy(), int(found.key[k])))
        return out

    def stats(self) -> dict[str, Any]:
        """Return what the step did, and contacts, sweeps over them and the deepest overlap at its start."""
        depth = self._detector.contacts.depth[: len(self._forces)]
        return super().stats() | {
            "contacts": len(self._forces),
            "sweeps": 0 if self._rows is None else self._rows.sweeps,
            "penetration": float(max(depth.max(initial=0.0), 0.0)),
        }
