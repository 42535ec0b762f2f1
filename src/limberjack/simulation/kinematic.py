"""Kinematic bodies of a simulation: the motion that `Simulation.move` prescribes, written to their constraint rows."""

# The files of this room are one class seen from several sides: they share its private members.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from limberjack.errors import StateError
from limberjack.methods import Stepper
from limberjack.model.check import frame_rotation
from limberjack.model.kinematic import ANGULAR, KINEMATIC, NUMBERS, PLACE, SINCE, TURN, VELOCITY, kinematic_name
from limberjack.model.model import Model
from limberjack.reduced.dynamics import array_of
from limberjack.spatial.frames import matrix_from_quaternion, quaternion_from_matrix

if TYPE_CHECKING:
    from limberjack.simulation.simulation import Simulation

__all__ = ["KinematicBodies"]


class KinematicBodies:
    """The motions of the kinematic bodies of a model.

    Attributes:
        data: (k, NUMBERS) what the rows of each are evaluated with, see `model/kinematic.py`.
        arriving: (k,) 1 where the body is where it is to be after one step, and stops there.
    """

    __slots__ = ("_bodies", "_joints", "arriving", "data")

    def __init__(self, model: Model) -> None:
        found = [model.joint_spec(name) for name in model.loop_names if model.joint_spec(name).kind == KINEMATIC]
        self._bodies = {spec.child: k for k, spec in enumerate(found)}
        self._joints = [model.joint_names.index(spec.name) for spec in found]
        data: list[Any] = [getattr(spec, "data", ()) for spec in found]
        self.data = np.array(data, float).reshape(-1, NUMBERS)
        self.arriving = np.zeros(len(found))

    def __contains__(self, body: str) -> bool:
        return body in self._bodies

    def __len__(self) -> int:
        return len(self._bodies)

    def _pose(self, k: int, time: float) -> tuple[np.ndarray, np.ndarray]:
        """Return position and quaternion that a body is to have."""
        d, t = self.data[k], time - self.data[k, SINCE]
        place = d[PLACE:TURN] + t * d[VELOCITY:ANGULAR]
        return place, _turned(t * d[ANGULAR:SINCE], d[TURN:VELOCITY])

    def _start(self, k: int, time: float) -> np.ndarray:
        """Let a motion begin now, where the last one has led; return its numbers."""
        place, turn = self._pose(k, time)
        d = self.data[k]
        d[PLACE:TURN], d[TURN:VELOCITY], d[VELOCITY:SINCE], d[SINCE] = place, turn, 0.0, time
        self.arriving[k] = 0.0
        return d

    def move_at(self, sim: Simulation, body: str, velocity: Any, angular_velocity: Any) -> None:
        """Prescribe the velocity of a body from now on."""
        linear = array_of(velocity, (3,), "velocity", sim.model)
        angular = array_of(angular_velocity, (3,), "angular_velocity", sim.model)
        d = self._start(self._bodies[body], sim.time)
        d[VELOCITY:ANGULAR], d[ANGULAR:SINCE] = linear, angular
        self._announce(sim, body)

    def move_to(self, sim: Simulation, body: str, position: Any, rotation: Any) -> None:
        """Let a body be at a pose after the next step, with the velocity of that way, and stay there."""
        if position is None:
            raise StateError(f'body "{body}" is kinematic and cannot be freed; give a position or a velocity')
        place, k = array_of(position, (3,), "position", sim.model), self._bodies[body]
        d = self._start(k, sim.time)
        d[VELOCITY:ANGULAR] = (place - d[PLACE:TURN]) / sim.dt
        if rotation is not None:
            d[ANGULAR:SINCE] = _turn_between(d[TURN:VELOCITY], np.array(frame_rotation(rotation, "rotation"))) / sim.dt
        self.arriving[k] = 1.0
        self._announce(sim, body)

    def _announce(self, sim: Simulation, body: str) -> None:
        """Tell the energy watch how fast the body is."""
        d = self.data[self._bodies[body]]
        speed = float(np.linalg.norm(d[VELOCITY:ANGULAR]) + np.linalg.norm(d[ANGULAR:SINCE]))
        sim._watch.drive(sim, kinematic_name(body), speed)
        sim.touch()

    def stop_arrived(self, time: float) -> None:
        """Stop the bodies that have made the way to their poses."""
        for k in np.flatnonzero(self.arriving):
            self._start(int(k), time)

    def apply(self, stepper: Stepper) -> None:
        """Write the motions to the tables of constraint rows."""
        for table in stepper.constraint_tables():
            for k, joint in enumerate(self._joints):
                for row in np.flatnonzero(table.joint == joint)[:1]:
                    entry = int(np.flatnonzero(table.compound[:, 0] == table.row_pair[row, 0])[0])
                    first = int(table.compound[entry, 1])
                    table.factor_data[first : first + 2] = self.data[k].reshape(2, 7)


def _turned(turn: np.ndarray, quaternion: np.ndarray) -> np.ndarray:
    """Return a quaternion turned by a rotation vector (3,) of the world."""
    angle = float(np.linalg.norm(turn))
    w = np.cos(0.5 * angle)
    v = turn * (np.sin(0.5 * angle) / angle if angle > 0.0 else 0.5)
    s, u = quaternion[0], quaternion[1:]
    out = np.concatenate([[w * s - v @ u], w * u + s * v + np.cross(v, u)])
    return out / np.linalg.norm(out)


def _turn_between(start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Return the rotation vector (3,) in the world from one quaternion to another, of at most half a turn."""
    r = matrix_from_quaternion(end) @ matrix_from_quaternion(start).T
    q = np.array(quaternion_from_matrix(r))
    q = q if q[0] >= 0.0 else -q
    size = float(np.linalg.norm(q[1:]))
    return q[1:] * (2.0 * np.arctan2(size, q[0]) / size if size > 1e-12 else 2.0)
