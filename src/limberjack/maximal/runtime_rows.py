"""Joints, driven coordinates and grips that come and go in maximal coordinates.

Their rows follow the equalities of the model. When the set changes, tables and solver are set up again in Python; the
compiled steps know no difference. Everything follows from the list of joints, never from how it came about, so that
snapshots are exact.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from limberjack.constraints.runtime import (
    Driven,
    RuntimeJoint,
    is_closing,
    read_driven,
    read_runtime_joints,
    write_driven,
    write_runtime_joints,
)
from limberjack.constraints.table import DRIVE
from limberjack.errors import StateError, UnknownName
from limberjack.maximal.inserted_rows import (
    inserted_terms,
    set_targets,
    with_driven_rows,
    with_grips,
    with_runtime_joints,
)
from limberjack.maximal.rows import Maximal
from limberjack.maximal.solve import evaluate_state
from limberjack.maximal.state import MaximalState
from limberjack.model.kinematic import KINEMATIC
from limberjack.model.model import Model
from limberjack.model.spec import WORLD
from limberjack.reduced.constraint_set import Grip
from limberjack.spatial.frames import matrix_from_quaternion

__all__ = ["RuntimeRows"]

# Rows of a new joint open by less than this are closed at once [m, rad].
_CLOSED = 1e-9


class RuntimeRows(MaximalState):
    """Bodies with rows that come and go; methods add how they advance.

    Args:
        model: the model.
        whole: the same in maximal coordinates, without such rows.
        options: of `MaximalState`.
    """

    def __init__(self, model: Model, whole: Maximal, **options: Any) -> None:
        self._base: Maximal = whole
        self._attached: list[RuntimeJoint] = []
        self._driven: list[Driven] = []
        self._row_grips: list[Grip] = []  # grips that are rows
        self._options_of_solver = options
        super().__init__(model, whole, **options)

    # Frames

    def body_pose(self, body: str) -> tuple[np.ndarray, np.ndarray]:
        """Return rotation matrix and origin of a body's frame in the world, with what was written to q."""
        self._take_edits()
        if body == WORLD:
            return np.eye(3), np.zeros(3)
        a, i = self._model.arrays, self._model.body_index(body)
        link, turn, at = int(a.body_link[i]), a.body_offset[i, :9].reshape(3, 3), a.body_offset[i, 9:]
        if link < 0:
            return turn, at
        own = matrix_from_quaternion(self._s.pose[link, 3:7])
        return own @ turn, self._s.pose[link, :3] + own @ (at - self.whole.center[link])

    def _link_of(self, body: str) -> int:
        return -1 if body == WORLD else int(self._model.arrays.body_link[self._model.body_index(body)])

    # What comes and goes

    @property
    def attached_joints(self) -> tuple[str, ...]:
        """Names of the joints made while running, oldest first."""
        return tuple(one.joint.name for one in self._attached if one.joint.kind != KINEMATIC)

    def attach(self, joint: RuntimeJoint) -> Any:
        """Add a joint; see `Stepper`."""
        self._take_edits()
        self._time = joint.since
        self._change([*self._attached, joint])
        return self

    def _attached_named(self, name: str) -> RuntimeJoint:
        """Return the joint made while running with this name."""
        for one in self._attached:
            if one.joint.name == name:
                return one
        raise UnknownName("attached joint", name, f'model "{self._model.name}"', self.attached_joints)

    def index_attached(self, name: str) -> int:
        """Return the number of a joint made while running; see `Stepper`."""
        return self._attached.index(self._attached_named(name))

    def detach(self, name: str) -> Any:
        """Remove a joint made while running."""
        self._take_edits()
        gone = self._attached_named(name)
        self._change([one for one in self._attached if one is not gone])
        return self

    def drive(self, name: str, axis: int, rate: float | None, time: float) -> Any:
        """Prescribe the rate of a joint coordinate from its value now; None frees it."""
        self._refresh()
        self._take_edits()
        index, table = self._model.joint_names.index(name), self.whole.table
        rows = np.flatnonzero((table.role == DRIVE) & (table.speed == 0) & (table.joint == index))
        if not rows.size:
            raise StateError(f'joint "{name}" has no coordinate that can be driven')
        self._time = time
        self._driven = [one for one in self._driven if (one.joint, one.axis) != (index, axis)]
        if rate is not None:
            value = float(self._s.q[table.drive[int(rows[axis]), 0]])
            self._driven.append(Driven(index, axis, value - rate * time, rate))
        self._change(list(self._attached))
        return self

    def _change(self, attached: list[RuntimeJoint]) -> None:
        """Continue with other joints, and the driven coordinates and grips of now."""
        known = self._with_angles()
        attached = [known.get(one.joint.name, one) for one in attached]
        whole = with_runtime_joints(self._model, self._base, attached)
        driven = self._driven_rows()
        whole = with_driven_rows(self._model, whole, driven) if driven else whole
        self._without_grips = whole
        whole = with_grips(self._model, whole, self._row_grips) if self._row_grips else whole
        self._rebuild(self._base, whole, **self._solver())
        self._put_angles(attached)
        evaluate_state(self._setup, self._time, self._e, self._s)
        start = self.whole.system.row_start
        for k, one in enumerate(attached):
            if one.joint.name not in known:
                first, last = (int(start[self._base.equality_count + k + end]) for end in (0, 1))
                gap = tuple(map(float, self._e.values[first:last, 0]))
                wide = one.over > 0.0 and max(map(abs, gap)) > _CLOSED
                attached[k] = replace(one, gap=gap if wide else ())
        self._attached = attached
        set_targets(self._base, self.whole, attached, self._time, 0.0)
        self.rows_changed()
        self._read = False

    def _driven_rows(self) -> list[Driven]:
        """Return the driven coordinates that have rows of their own: all."""
        return self._driven

    def _solver(self) -> dict[str, Any]:
        """Return the options of `MaximalState` with which rows are set up again."""
        return self._options_of_solver

    def rows_changed(self) -> None:
        """Set up what depends on the rows."""

    # Targets

    @property
    def driven_rates(self) -> dict[str, float]:
        """Rates of the joints with driven coordinates, by name."""
        return {self._model.joint_names[one.joint]: one.rate for one in self._driven}

    @property
    def timed(self) -> bool:
        """Whether rows have targets that move in time."""
        return bool(self._driven) or any(is_closing(one, self._time, 0.0) for one in self._attached)

    def aim_rows(self, time: float, dt: float) -> None:
        """Set the targets of the rows for a step from `time` on."""
        set_targets(self._base, self.whole, self._attached, time, dt)

    # Angles

    def _terms_of_joints(self, count: int) -> list[slice]:
        """Return the terms of each of `count` joints made while running."""
        starts = self.whole.table.term_start[
            self.whole.system.row_start[self._base.equality_count : self._base.equality_count + count + 1]
        ]
        return [slice(first, last) for first, last in pairwise(starts.tolist())]

    def _with_angles(self) -> dict[str, RuntimeJoint]:
        """Return the joints made while running by name, with the angles they have now."""
        parts = self._terms_of_joints(len(self._attached))
        return {
            one.joint.name: replace(one, near=tuple(map(float, self._e.near[part])))
            for one, part in zip(self._attached, parts, strict=True)
        }

    def _put_angles(self, attached: list[RuntimeJoint]) -> None:
        driven = self._driven_rows()
        parts = self._terms_of_joints(len(attached) + len(driven))
        for one, part in zip(attached, parts, strict=False):
            self._e.near[part] = one.near if len(one.near) == part.stop - part.start else 0.0
        for one, part in zip(driven, parts[len(attached) :], strict=True):
            self._e.near[part] = one.start + one.rate * self._time

    # Snapshots

    def _more_of_rows(self) -> dict[str, Any]:
        """Return what is stored beside the joints made while running."""
        return {}

    def state_arrays(self) -> dict[str, np.ndarray]:
        """Return the state, the joints made while running and the driven coordinates."""
        out = super().state_arrays()
        out["near"] = np.delete(out["near"], np.r_[inserted_terms(self._base, self.whole)])
        attached = write_runtime_joints(list(self._with_angles().values()), self._more_of_rows())
        return out | {"list_attached": attached, "list_driven": write_driven(self._driven)}

    def take_rows(self, arrays: dict[str, np.ndarray], time: float) -> Any:
        """Have the joints and driven coordinates of `state_arrays`; see `Stepper`."""
        attached, _ = read_runtime_joints(self._model, arrays.get("list_attached", np.zeros(0, np.uint8)))
        driven = read_driven(self._model, arrays.get("list_driven", np.zeros((0, 4))))
        if [one.joint for one in attached] != [one.joint for one in self._attached] or driven != self._driven:
            self._refresh()
            q, qd = self._q.copy(), self._qd.copy()
            self._attached, self._driven, self._time = [], driven, time
            self._seen, self._read = (q, qd), True
            self._change(attached)
            self._q[:], self._qd[:] = q, qd
            self._seen, self._read = (q.copy(), qd.copy()), True
        self._attached = attached
        return self

    def set_state_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        """Set what `state_arrays` returned."""
        self._seen, self._read = (self._q.copy(), self._qd.copy()), True
        time = float(arrays["clock"])
        self.take_rows(arrays, time)
        own = inserted_terms(self._base, self.whole)
        near = np.insert(arrays["near"], own.start, np.zeros(own.stop - own.start))
        super().set_state_arrays({**arrays, "near": near})
        self._time = time
        self._put_angles(self._attached)
        # not the gaps of the poses before, which the joints were made at
        set_targets(self._base, self.whole, self._attached, time, 0.0)
