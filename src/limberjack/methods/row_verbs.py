"""Grips, runtime joints, led bodies and driven coordinates in reduced coordinates: rows that come and go.

A stepper without rows lets one with rows take over while there are any (`WithoutRows`); one with rows sets them up
again in Python when the set changes (`WithRows`). The compiled steps know no difference.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from limberjack.constraints.runtime import Driven, RuntimeJoint, gaps_of
from limberjack.methods.stepper import Stepper
from limberjack.model.kinematic import KINEMATIC
from limberjack.model.model import Model
from limberjack.model.spec import WORLD
from limberjack.reduced.constraint_set import ConstraintSet, Grip
from limberjack.reduced.dynamics import forward_kinematics
from limberjack.spatial.frames import matrix_from_quaternion

__all__ = ["WithRows", "WithoutRows"]

# Rows of a new joint open by less than this are closed at once [m].
_CLOSED = 1e-9


class WithoutRows(Stepper):
    """A stepper without rows: one that has them takes over with the first."""

    @abstractmethod
    def _with_rows(self) -> WithRows:
        """Return a stepper with rows in the same state."""

    def grab(self, grip: Grip) -> Stepper:
        """Add a grip; see `Stepper`."""
        return self._with_rows().grab(grip)

    def attach(self, joint: RuntimeJoint) -> Stepper:
        """Add a joint; see `Stepper`."""
        return self._with_rows().attach(joint)

    def drive(self, name: str, axis: int, rate: float | None, time: float) -> Stepper:
        """Prescribe the rate of a joint coordinate; see `Stepper`."""
        return self if rate is None else self._with_rows().drive(name, axis, rate, time)

    def detach(self, name: str) -> Stepper:
        """Refuse: there are no joints made while running."""
        return self._with_rows().detach(name)

    def take_rows(self, arrays: dict[str, np.ndarray], time: float) -> Stepper:
        """Have the joints and driven coordinates of a snapshot; see `Stepper`."""
        if "list_attached" in arrays or "list_driven" in arrays:
            return self._with_rows().take_rows(arrays, time)
        return self


class WithRows(Stepper):
    """A stepper of trees with constraint rows.

    Attributes:
        constraint_set: its rows.
    """

    _model: Model
    constraint_set: ConstraintSet

    @abstractmethod
    def _set_up(self, change: Callable[[], Any]) -> None:
        """Change the list of rows and set up what depends on it."""

    def _settled(self) -> Stepper:
        """Return the stepper to go on with after rows have gone: this one, or one without rows."""
        return self

    def _apart(self) -> None:
        """Let the bodies of joints made while running not collide."""

    # Grips

    def held_grips(self) -> Sequence[Grip]:
        """Return the grips."""
        return self.constraint_set.grips

    def grip_wrench(self, grip: Grip) -> np.ndarray | None:
        """Return None: grips are rows."""
        return None

    def grip_force(self, grip: Grip) -> np.ndarray:
        """Return the force (3,) of a grip in the last step, world axes [N]."""
        return self.constraint_set.grip_force(grip)

    def grab(self, grip: Grip) -> Stepper:
        """Add a grip; see `Stepper`."""
        self._set_up(lambda: self.constraint_set.grips.append(grip))
        return self

    def release(self, grip: Grip) -> Stepper:
        """Remove a grip; see `Stepper`."""
        self._set_up(lambda: self.constraint_set.grips.remove(grip))
        return self._settled()

    def reset_grips(self) -> None:
        """Set up the rows of all grips again."""
        self._set_up(lambda: None)

    # Joints and driven coordinates

    @property
    def attached_joints(self) -> tuple[str, ...]:
        """Names of the joints made while running, oldest first."""
        return tuple(one.joint.name for one in self.constraint_set.attached if one.joint.kind != KINEMATIC)

    def attach(self, joint: RuntimeJoint) -> Stepper:
        """Add a joint; see `Stepper`."""
        if joint.over > 0.0:
            gap = gaps_of(joint.joint, (self._pose(joint.joint.parent), self._pose(joint.joint.child)))
            if np.abs(gap).max(initial=0.0) > _CLOSED:
                joint = replace(joint, gap=tuple(gap.tolist()))
        self._set_up(lambda: self.constraint_set.attached.append(joint))
        self._apart()
        self.aim_rows(joint.since, 0.0)
        return self

    def index_attached(self, name: str) -> int:
        """Return the number of a joint made while running; see `Stepper`."""
        return self.constraint_set.attached.index(self.constraint_set.attached_named(name))

    def detach(self, name: str) -> Stepper:
        """Remove a joint made while running; see `Stepper`."""
        gone = self.constraint_set.attached_named(name)
        self._set_up(lambda: self.constraint_set.attached.remove(gone))
        self._apart()
        return self._settled()

    def drive(self, name: str, axis: int, rate: float | None, time: float) -> Stepper:
        """Prescribe the rate of a joint coordinate; see `Stepper`."""
        rows = self.constraint_set
        index = self._model.joint_names.index(name)
        kept = [one for one in rows.driven if (one.joint, one.axis) != (index, axis)]
        if rate is not None:
            kept.append(Driven(index, axis, self._coordinate(name, axis) - rate * time, rate))

        def change() -> None:
            rows.driven = kept

        self._set_up(change)
        return self._settled()

    @property
    def driven_rates(self) -> dict[str, float]:
        """Rates of the joints with driven coordinates, by name."""
        return {self._model.joint_names[one.joint]: one.rate for one in self.constraint_set.driven}

    def _coordinate(self, name: str, axis: int) -> float:
        """Return the value of a joint coordinate."""
        info = self._model.joint(name)
        if not info.is_loop:
            return float(self.q[info.q_start + axis])
        return self.constraint_set.loop_coordinate(
            self._model.joint_spec(name), axis, self._pose(info.parent), self._pose(info.child)
        )

    def _pose(self, body: str) -> tuple[np.ndarray, np.ndarray]:
        """Return rotation matrix and origin of a body's frame in the world."""
        if body == WORLD:
            return np.eye(3), np.zeros(3)
        positions, turns = forward_kinematics(self._model, self.q)
        b = self._model.body_index(body)
        return matrix_from_quaternion(turns[b]), positions[b]

    @property
    def timed(self) -> bool:
        """Whether rows have targets that move in time."""
        return self.constraint_set.is_timed(self._aimed)

    _aimed = -np.inf

    def aim_rows(self, time: float, dt: float) -> None:
        """Set the targets of joints that are being closed for a step from `time` on."""
        self._aimed = time
        if self.constraint_set.aim_attached(time, dt):
            self._targets_changed()

    def _targets_changed(self) -> None:
        """Take note that targets of rows are other ones."""

    def take_rows(self, arrays: dict[str, np.ndarray], time: float) -> Stepper:
        """Have the joints and driven coordinates of a snapshot; see `Stepper`."""
        rows = self.constraint_set
        attached, driven = rows.runtime_from(arrays)
        if attached != rows.attached or driven != rows.driven:

            def change() -> None:
                rows.attached, rows.driven = attached, driven

            self._set_up(change)
            self._apart()
        self.aim_rows(time, 0.0)
        return self._settled()
