"""Bodies that are led: the motion that `Simulation.move` prescribes, written to their constraint rows."""

# The files of this room are one class seen from several sides: they share its private members.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from limberjack.constraints.runtime import RuntimeJoint, leading_joint
from limberjack.errors import StateError
from limberjack.methods import Stepper, require_verb
from limberjack.model.check import frame_rotation
from limberjack.model.kinematic import ANGULAR, KINEMATIC, NUMBERS, PLACE, SINCE, TURN, VELOCITY, kinematic_name
from limberjack.model.model import Model
from limberjack.reduced.dynamics import array_of
from limberjack.simulation import external_forces
from limberjack.spatial.frames import matrix_from_quaternion, quaternion_from_matrix

if TYPE_CHECKING:
    from limberjack.simulation.simulation import Simulation

__all__ = ["KinematicBodies"]

_LINEAR, _ANGULAR = slice(VELOCITY, ANGULAR), slice(ANGULAR, SINCE)


class KinematicBodies:
    """The motions of bodies that are led: kinematic ones of the model, then others, while `Simulation.move` leads them.

    A body is led by a constraint to the world whose numbers say where it is to be, in methods that prescribe poses by
    these themselves, from step to step.

    Attributes:
        data: (k, NUMBERS) what the rows of each are evaluated with, see `model/kinematic.py`.
        arriving: (k,) 1 where the body is where it is to be after one step, and stops there.
    """

    __slots__ = ("_bodies", "_own", "arriving", "data")

    def __init__(self, model: Model) -> None:
        found = [model.joint_spec(name) for name in model.loop_names if model.joint_spec(name).kind == KINEMATIC]
        self._own = len(found)  # those of the model
        self._bodies = [spec.child for spec in found]
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

    # Bodies that are not kinematic

    def _lead(self, sim: Simulation, body: str) -> None:
        """Lead a body from its pose now on."""
        require_verb(sim.method, "move")
        b = sim.model.body_index(body)
        if int(sim.model.arrays.body_link[b]) < 0:
            raise StateError(f'body "{body}" is fixed to the world and cannot be moved')
        row = np.zeros((1, NUMBERS))
        row[0, PLACE:TURN], row[0, TURN:VELOCITY], row[0, SINCE] = sim.positions[b], sim.rotations[b], sim.time
        stepper = sim._stepper
        if not stepper.prescribes_poses:
            sim._stepper = stepper.attach(RuntimeJoint(leading_joint(body, row[0]), since=sim.time, collide=True))
        self._bodies.append(body)
        self.data, self.arriving = np.concatenate([self.data, row]), np.append(self.arriving, 0.0)

    def free(self, sim: Simulation, body: str) -> None:
        """Let a body move as forces say again, if it is led."""
        k = self._bodies.index(body) if body in self._bodies else -1
        if 0 <= k < self._own:
            raise StateError(f'body "{body}" is kinematic and cannot be freed; give a position or a velocity')
        if sim._stepper.prescribes_poses:
            external_forces.move(sim, body, None, None)
            sim._watch.move(sim, body, None, None)
        if k < 0:
            return
        if not sim._stepper.prescribes_poses:
            sim._stepper = sim._stepper.detach(kinematic_name(body))
        del self._bodies[k]
        self.data, self.arriving = np.delete(self.data, k, axis=0), np.delete(self.arriving, k)
        sim._watch.drive(sim, kinematic_name(body), None)
        sim.touch()

    def move_at(self, sim: Simulation, body: str, velocity: Any, angular_velocity: Any) -> None:
        """Prescribe the velocity of a body from now on."""
        linear = array_of(velocity, (3,), "velocity", sim.model)
        angular = array_of(angular_velocity, (3,), "angular_velocity", sim.model)
        if body not in self:
            self._lead(sim, body)
        d = self._start(self._bodies.index(body), sim.time)
        d[VELOCITY:ANGULAR], d[ANGULAR:SINCE] = linear, angular
        self._announce(sim, body)

    def move_to(self, sim: Simulation, body: str, position: Any, rotation: Any) -> None:
        """Let a body be at a pose after the next step, with the velocity of that way, and stay there."""
        place = array_of(position, (3,), "position", sim.model)
        turn = None if rotation is None else np.array(frame_rotation(rotation, "rotation"))
        if body not in self:
            self._lead(sim, body)
        k = self._bodies.index(body)
        d = self._start(k, sim.time)
        d[VELOCITY:ANGULAR] = (place - d[PLACE:TURN]) / sim.dt
        if turn is not None:
            d[ANGULAR:SINCE] = _turn_between(d[TURN:VELOCITY], turn) / sim.dt
        self.arriving[k] = 1.0
        self._announce(sim, body)

    def _announce(self, sim: Simulation, body: str) -> None:
        """Tell the energy watch how fast the body is."""
        name = kinematic_name(body)
        sim._watch.drive(sim, name, self.speeds()[name])
        sim.touch()

    def speeds(self) -> dict[str, float]:
        """Return how fast each body is led, by the name of its constraint."""
        linear, angular = (np.linalg.norm(self.data[:, part], axis=1) for part in (_LINEAR, _ANGULAR))
        names = (kinematic_name(body) for body in self._bodies)
        return dict(zip(names, (linear + angular).tolist(), strict=True))

    def stop_arrived(self, time: float) -> None:
        """Stop the bodies that have made the way to their poses."""
        for k in np.flatnonzero(self.arriving):
            self._start(int(k), time)

    def place(self, sim: Simulation) -> None:
        """Prescribe the poses after the next step, in methods that do so without rows."""
        for k in range(self._own, len(self)):
            external_forces.move(sim, self._bodies[k], *self._pose(k, sim.time + sim.dt))

    def apply(self, sim: Simulation) -> None:
        """Write the motions to the rows of the bodies."""
        stepper, model = sim._stepper, sim.model
        if not self._bodies:
            return
        for table in stepper.constraint_tables():
            for k, joint in enumerate(self._indices(model, stepper)):
                for row in np.flatnonzero(table.joint == joint)[:1]:
                    entry = int(np.flatnonzero(table.compound[:, 0] == table.row_pair[row, 0])[0])
                    first = int(table.compound[entry, 1])
                    table.factor_data[first : first + 2] = self.data[k].reshape(2, 7)

    def _indices(self, model: Model, stepper: Stepper) -> list[int]:
        """Return the index by which rows name the constraint of each body."""
        out = [model.joint_names.index(kinematic_name(body)) for body in self._bodies[: self._own]]
        if not stepper.prescribes_poses:
            first = model.joint_count + len(model.springs)
            out += [first + stepper.index_attached(kinematic_name(body)) for body in self._bodies[self._own :]]
        return out

    # Snapshots

    def arrays(self, model: Model) -> dict[str, np.ndarray]:
        """Return the motions, nothing where there are none."""
        out: dict[str, np.ndarray] = {}
        if self._own:
            out |= {"kinematic": self.data[: self._own].copy(), "arriving": self.arriving[: self._own].copy()}
        if len(self) > self._own:
            bodies = np.array([[model.body_index(body)] for body in self._bodies[self._own :]], float)
            out["list_led"] = np.concatenate([bodies, self.arriving[self._own :, None], self.data[self._own :]], axis=1)
        return out

    def restore(self, model: Model, arrays: dict[str, np.ndarray]) -> None:
        """Have the motions of `arrays`."""
        led = arrays.get("list_led", np.zeros((0, 2 + NUMBERS)))
        fits = led.ndim == 2 and led.shape[1] == 2 + NUMBERS and np.isfinite(led).all()
        if not fits or ((led[:, 0] < 0) | (led[:, 0] >= model.body_count)).any():
            raise StateError(f'the moved bodies of this snapshot do not fit model "{model.name}"')
        own = arrays.get("kinematic", np.zeros((0, NUMBERS))), arrays.get("arriving", np.zeros(0))
        self._bodies = self._bodies[: self._own] + [model.body_names[int(b)] for b in led[:, 0]]
        self.data, self.arriving = np.concatenate([own[0], led[:, 2:]]), np.append(own[1], led[:, 1])


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
