"""Steps of `Multipliers` with contacts: foresee the step, find the forces of contacts, take the step with them.

    contacts (`collision/`) -> the step without contacts -> forces (`maximal/contacts.py`) -> the step

In the first-order world velocities do not last: the step without contacts comes first, and tells how far bodies move.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from limberjack._jit import inner, kernel, outlined
from limberjack.collision.detect import Contact, detect, grown, new_detector
from limberjack.collision.filters import with_apart
from limberjack.collision.shapes import shape_names
from limberjack.constraints.runtime import apart_bodies
from limberjack.errors import Status, UnsupportedByMethod
from limberjack.maximal.bodies import RIGID
from limberjack.maximal.contacts import contact_forces, contact_room, new_contact_rows
from limberjack.maximal.solve import PIECES, STIFFEST
from limberjack.methods.multipliers.method import MultipliersStepper
from limberjack.methods.multipliers.options import STABILIZATIONS, Multipliers
from limberjack.methods.multipliers.pieces import copy_state
from limberjack.methods.multipliers.rattle import take_rattle_steps
from limberjack.methods.multipliers.step import RATTLE, SAME_STIFFNESS, take_steps
from limberjack.methods.stepper import Forces
from limberjack.model.model import Model
from limberjack.reduced.forces import Wrenches
from limberjack.spatial.copies import copy

__all__ = ["ContactStepper", "take_contact_steps"]

# Gap up to which contacts are detected [m].
_MARGIN = 1e-3
# A step with contacts is divided into at most so many.
_MOST_PARTS = 64


class Saved(NamedTuple):
    """What a step changes: saved before the step without contacts."""

    pose: np.ndarray  # (n, POSE)
    u: np.ndarray  # (nu,)
    near: np.ndarray  # (t,)
    compound: np.ndarray  # (k, ROWS - COORDINATES)
    force: np.ndarray  # (nu,)
    q: np.ndarray  # (nq,)
    qd: np.ndarray  # (nv,)
    predicted: np.ndarray  # (nu,) velocities of the step without contacts
    reach: np.ndarray  # (n,) how far each body may move in the step [m]


@outlined
def _copy_state(to_saved, table, e, s, saved):
    """Save the state, or restore it: the force is that of these poses."""
    copy_state(to_saved, table, e, s, saved.pose, saved.u, saved.near, saved.compound)
    if to_saved:
        copy(s.force, saved.force)
        copy(s.q, saved.q)
        copy(s.qd, saved.qd)
    else:
        copy(saved.force, s.force)
        copy(saved.q, s.q)
        copy(saved.qd, s.qd)


@outlined
def _set_reach(extent, h, gravity, u, reach):
    """Fill how far each body may move within h."""
    for i in range(len(reach)):
        o = 6 * i
        turn = math.sqrt(u[o] * u[o] + u[o + 1] * u[o + 1] + u[o + 2] * u[o + 2])
        speed = math.sqrt(u[o + 3] * u[o + 3] + u[o + 4] * u[o + 4] + u[o + 5] * u[o + 5]) + extent[i] * turn
        reach[i] = h * speed + h * h * gravity


@inner
def _step(
    setup, tree, structure, springs, drives, armature, span, code, first_order, stabilization, driven, substeps, h,
    rate, tolerance, time, wrenches, applied, e, s, saddle,
):  # fmt: skip
    """Take one step with these wrenches; return a status."""
    if code == RATTLE:
        _, status = take_rattle_steps(
            setup, tree, structure, springs, drives, armature, span, driven, 1, substeps, h, tolerance, time, wrenches,
            applied, e, saddle, s,
        )  # fmt: skip
    else:
        _, status = take_steps(
            setup, tree, structure, springs, drives, armature, span, code, first_order, stabilization, driven, 1,
            substeps, h, rate, tolerance, time, wrenches, applied, e, saddle, s,
        )  # fmt: skip
    return status


@inner
def _contact_step(
    setup, tree, structure, springs, drives, armature, span, shapes, filters, extent, terms, code, first_order,
    stabilization, driven, dt, substeps, h, rate, tolerance, at, gravity, may_divide, wrenches, applied, e, saddle,
    broad, rows, with_contacts, saved, s, contacts, force, solved,
):  # fmt: skip
    """Take one step of dt with contacts, or a part of one; return a status, and pieces to divide it into, 1 = none.

    The forces of contacts are constant in a step. Where the step without them is taken in pieces, they are found for
    each: bodies that joints pull at hard would go on turning under forces of a pose that has passed.
    """
    solved[0] = 0
    if first_order:
        _copy_state(True, setup.table, e, s, saved)
        status = _step(
            setup, tree, structure, springs, drives, armature, span, code, first_order, stabilization, driven,
            substeps, h, rate, tolerance, at, wrenches, applied, e, s, saddle,
        )  # fmt: skip
        # before the move and its projection: they belong to the poses at which the contacts are
        copy(s.u_sum, saved.predicted)
        _copy_state(False, setup.table, e, s, saved)
        if status != 0:
            return status, 1
        _set_reach(extent, dt, 0.0, saved.predicted, saved.reach)
    else:
        _set_reach(extent, dt, gravity, s.u, saved.reach)
    status = detect(shapes, filters, s.pose, saved.reach, _MARGIN, broad, contacts)
    if status != 0:
        return status, 1
    if contacts.count[0] == 0:
        status = _step(
            setup, tree, structure, springs, drives, armature, span, code, first_order, stabilization, driven,
            substeps, h, rate, tolerance, at, wrenches, applied, e, s, saddle,
        )  # fmt: skip
        return status, 1
    if not contact_room(rows, contacts):
        return Status.MORE_CONTACTS + 0, 1
    if not first_order:
        _copy_state(True, setup.table, e, s, saved)
        status = _step(
            setup, tree, structure, springs, drives, armature, span, code, first_order, stabilization, driven,
            substeps, h, rate, tolerance, at, wrenches, applied, e, s, saddle,
        )  # fmt: skip
        copy(s.u, saved.predicted)
        _copy_state(False, setup.table, e, s, saved)
        if status != 0:
            return status, 1
        if may_divide and s.report[PIECES] > 1.0:
            return 0, int(s.report[PIECES])
    status = contact_forces(
        rows, contacts, terms, first_order, gravity, at, dt, e, s.u, saved.predicted, wrenches, s.stiffness,
        dt * s.report[STIFFEST] > 1.0, force, with_contacts,
    )  # fmt: skip
    if status == 0:
        # forces of the last step are not those of this one
        s.fresh[0] = SAME_STIFFNESS if first_order else 0
        status = _step(
            setup, tree, structure, springs, drives, armature, span, code, first_order, stabilization, driven,
            substeps, h, rate, tolerance, at, with_contacts, applied, e, s, saddle,
        )  # fmt: skip
        s.fresh[0] = 0
    if status == 0:
        solved[0] = contacts.count[0]
        if may_divide and not first_order and s.report[PIECES] > 1.0:
            return 0, int(s.report[PIECES])
    return status, 1


@kernel
def take_contact_steps(
    # model
    setup, tree, structure, springs, drives, armature, span, shapes, filters, extent, terms,
    # in
    code, first_order, stabilization, driven, n, dt, substeps, h, rate, tolerance, time, wrenches, applied, e, saddle,
    broad, rows, with_contacts, saved, begin,
    # out
    s, contacts, force, solved,
):  # fmt: skip
    """Take n steps with contacts; stop at the first that fails and restore the state before it.

    Args:
        setup, tree, structure, springs, drives, armature, span: as of `step.take_steps`.
        shapes, filters: of the model.
        extent: (n,) how far the shapes of each body reach from its com [m].
        terms: how many terms of rows come before those of contacts.
        code, first_order, stabilization, driven: as of `step.take_steps`.
        n: steps.
        dt: their length [s], `substeps` times h.
        substeps, h, rate, tolerance, time, wrenches, applied, e, saddle: as of `step.take_steps`.
        broad: work arrays of the detection.
        rows: work arrays of the contacts' forces.
        with_contacts: room for the wrenches, those of contacts included.
        saved, begin: room for a state each.
        s: the state.
        contacts: those of the last step.
        force: (room, 3) their forces.
        solved: (1,) how many of them were solved.

    Returns:
        steps taken, and a status as of `step.take_steps`, or Status.MORE_CONTACTS or POSE_NOT_FINITE.
    """
    g = setup.gravity
    gravity = math.sqrt(g[0] * g[0] + g[1] * g[1] + g[2] * g[2])
    for step in range(n):
        at, parts, part, status = time + step * dt, 1, 0, 0
        if not first_order:
            _copy_state(True, setup.table, e, s, begin)
        while part < parts and status == 0:
            status, pieces = _contact_step(
                setup, tree, structure, springs, drives, armature, span, shapes, filters, extent, terms, code,
                first_order, stabilization, driven, dt / parts, substeps, h / parts, rate, tolerance,
                at + part * (dt / parts), gravity, parts < _MOST_PARTS, wrenches, applied, e, saddle, broad, rows,
                with_contacts, saved, s, contacts, force, solved,
            )  # fmt: skip
            part += 1
            if pieces > 1 and status == 0:
                parts, part = min(parts * pieces, _MOST_PARTS), 0
                _copy_state(False, setup.table, e, s, begin)
        if status != 0:
            if not first_order:
                _copy_state(False, setup.table, e, s, begin)
            return step, status
    return n, 0


class ContactStepper(MultipliersStepper):
    """Takes the steps of `Multipliers` for models with contacts."""

    def __init__(self, model: Model, options: Multipliers, ignored: frozenset[str]) -> None:
        super().__init__(model, options, ignored)
        self._balls = None
        if (self.whole.bodies.kind != RIGID).any():
            raise UnsupportedByMethod(
                'method "multipliers" has contacts of rigid bodies only, and the model has others; to run without: '
                'ignore="contacts"'
            )
        self._detector = new_detector(model, self.whole.center)
        self._own_filters = self._detector.filters
        self._shape_names = shape_names(model, ())
        shapes = self._detector.shapes
        self._extent = np.zeros(len(self.whole.bodies.kind))
        for k, link in enumerate(shapes.link):
            if link >= 0 and np.isfinite(shapes.radius[k]):
                far = float(np.linalg.norm(shapes.offset[k, :3]) + shapes.radius[k])
                self._extent[link] = max(self._extent[link], far)
        moving = shapes.link >= 0
        self._has_friction = bool((shapes.friction[moving] > 0.0).any() and (shapes.friction > 0.0).sum() > 1)
        self._room_for_contacts, self._last = (8, 0), 1.0
        self._solved = np.zeros(1, np.int64)
        self._new_rows()

    def _new_rows(self) -> None:
        """Make the rows of contacts, with the room that is asked for, and what depends on it."""
        room, s = self._room_for_contacts, self._s
        self._rows = new_contact_rows(self._model, self.whole, s, self._setup.soft, room, friction=self._has_friction)
        self._force = np.zeros((sum(room), 3))
        arrays = (s.pose, s.u, s.near_before, s.compound_before, s.force, s.q, s.qd, s.u, s.pose[:, 0])
        self._saved, self._begun = (Saved(*(np.zeros(x.shape) for x in arrays)) for _ in range(2))
        first = int(self.whole.system.row_start[self._rows.limits[1]])
        self._terms = int(self.whole.table.term_start[first])

    def advance(self, n: int, dt: float, forces: Forces, time: float = 0.0) -> tuple[int, int]:
        """Take up to n steps; see `Stepper`."""
        self._begin(time)
        self._dt = dt
        drives, tau = self._all_drives(forces)
        driven = bool(len(drives.indices) or len(drives.ball_indices) or tau.any())
        options, taken, status = self._options, 0, 0
        how = (self._code, options.order == "first", STABILIZATIONS.index(options.stabilization), driven)
        own = forces.wrenches
        while taken < n or n == 0:
            d, room = self._detector, len(own.link) + 2 * len(self._force)
            more, status = take_contact_steps(
                self._setup, self._tree, self._structure, self._model.arrays.springs, drives, self._still,
                self._drive_span, d.shapes, d.filters, self._extent, self._terms, *how, n - taken, dt, self._substeps,
                dt / self._substeps, options.rate, options.tolerance, time + taken * dt, own, tau, self._e,
                self._saddle, d.broad, self._rows, Wrenches(np.zeros(room, np.int64), np.zeros((room, 9))),
                self._saved, self._begun, self._s, d.contacts, self._force, self._solved,
            )  # fmt: skip
            taken += int(more)
            if status == Status.MORE_CONTACTS:
                self._make_room()
            elif status == Status.MORE_ROWS:
                self._room *= 2
                self.new_saddle()
            elif status != 0 or n == 0:
                break
        self._time, self._read, self._last = time + taken * dt, False, dt
        return taken, int(status)

    def _make_room(self) -> None:
        """Have room for the contacts found."""
        contacts = self._detector.contacts
        if contacts.count[1] > len(contacts.depth) or self._detector.broad.count[0] > len(self._detector.broad.pairs):
            self._detector = grown(self._detector)
            return
        count = int(contacts.count[0])
        ground = int((contacts.link_b[:count] < 0).sum())
        old, need = self._room_for_contacts, (ground, count - ground)
        room = tuple(max(a, 2 * b if b > a else 0) for a, b in zip(old, need, strict=True))
        self._room_for_contacts = (room[0], room[1])
        self._new_rows()

    def rows_changed(self) -> None:
        """Make the rows of contacts anew, and let the bodies of joints made while running not collide."""
        apart = apart_bodies(self._attached)
        filters = with_apart(self._model, self._own_filters, self._detector.shapes, apart)
        self._detector = self._detector._replace(filters=filters)
        self._new_rows()

    def contacts(self) -> list[Contact]:
        """Return what touched, or was about to, at the start of the last step."""
        owner = {shape.name: shape.body for shape in self._model.shapes}
        found, out = self._detector.contacts, []
        for k, force in enumerate(self._force[: int(self._solved[0])]):
            names = self._shape_names[found.shape_a[k]], self._shape_names[found.shape_b[k]]
            bodies = owner[names[0]], owner[names[1]]
            geometry = found.point[k].copy(), found.normal[k].copy(), float(found.depth[k])
            out.append(Contact(bodies, names, *geometry, self._last * force, force.copy(), int(found.key[k])))
        return out

    def stats(self) -> dict[str, Any]:
        """Return what the step did, and contacts, sweeps over them and the deepest overlap at its start."""
        count = int(self._solved[0])
        depth = self._detector.contacts.depth[:count]
        return super().stats() | {
            "contacts": count,
            "sweeps": int(self._rows.report[0]),
            "penetration": float(max(depth.max(initial=0.0), 0.0)),
        }
