"""Grips: a point of a body pulled to a target while a simulation runs."""

# The files of this room are one class seen from several sides: they share its private members.
# pyright: reportPrivateUsage=false, reportUnnecessaryIsInstance=false

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import numpy as np

from limberjack.errors import StateError
from limberjack.methods import require_verb
from limberjack.model.check import frame_rotation
from limberjack.reduced.constraint_set import Grip
from limberjack.reduced.dynamics import array_of
from limberjack.simulation.external_forces import three_numbers
from limberjack.spatial.frames import matrix_from_quaternion

if TYPE_CHECKING:
    from limberjack.simulation.simulation import Simulation

__all__ = ["GripHandle"]

# Writes a target; an assignment of NumPy takes three times as long.
_THREE = struct.Struct("3d")
# Frequency of a grip: its point reaches the target in about a fifth of a second [rad/s].
_PACE = 30.0
# The largest force, as a multiple of the weight of the figure under earth's gravity.
_STRENGTH = 50.0


class GripHandle:
    """A point of a body pulled to a target: critically damped, implicit, with a largest force.

    Args:
        sim: the simulation.
        body: name of the body.
        point: (3,) the point, in the world now and fixed to the body from then on; None = the com.
        strength: largest force along each axis [N]; None = 50 times the weight of the body's figure.
    """

    def __init__(self, sim: Simulation, body: str, point: Any = None, *, strength: float | None = None) -> None:
        model, a = sim.model, sim.model.arrays
        b = model.body_index(body)
        if int(a.body_link[b]) < 0:
            raise StateError(f'body "{body}" is fixed to the world and cannot be grabbed')
        rotation, position = matrix_from_quaternion(sim.rotations[b]), sim.positions[b]
        local = a.body_com[b] if point is None else rotation.T @ (array_of(point, (3,), "point", model) - position)
        link_point = a.body_offset[b, :9].reshape(3, 3) @ local + a.body_offset[b, 9:]
        mass = _figure_mass(sim, int(a.body_link[b]))
        if strength is not None and not (isinstance(strength, (int, float)) and 0.0 < strength < np.inf):
            raise StateError(f"strength must be a number > 0, got {strength!r}")
        most = _STRENGTH * 9.81 * mass if strength is None else float(strength)
        self._sim, self.body, self._local = sim, body, local
        self._grip: Grip | None = Grip(
            int(a.body_link[b]),
            link_point,
            position + rotation @ local,
            None,
            mass * _PACE**2,
            2.0 * mass * _PACE,
            most,
            body=b,
        )
        require_verb(sim.method, "grab")
        sim.touch()
        sim._stepper = sim._stepper.grab(self._grip)
        sim._watch.forget()

    @classmethod
    def of(cls, sim: Simulation, grip: Grip) -> GripHandle:
        """Return a handle of a grip that `sim` has."""
        handle, offset = cls.__new__(cls), sim.model.arrays.body_offset[grip.body]
        handle._sim, handle.body, handle._grip = sim, sim.model.body_names[grip.body], grip
        handle._local = offset[:9].reshape(3, 3).T @ (grip.point - offset[9:])
        return handle

    def _held(self) -> Grip:
        if self._grip is None or not any(grip is self._grip for grip in self._sim._stepper.held_grips()):
            raise StateError(f'the grip on body "{self.body}" was released; `sim.grips` has those that act')
        return self._grip

    @property
    def point(self) -> np.ndarray:
        """(3,) where the point is now, in the world [m]."""
        b = self._sim.model.body_index(self.body)
        return self._sim.positions[b] + matrix_from_quaternion(self._sim.rotations[b]) @ self._local

    @property
    def target(self) -> np.ndarray:
        """(3,) its target [m]."""
        return self._held().target.copy()

    @property
    def force(self) -> np.ndarray:
        """(3,) the force of the last step, world axes [N]."""
        return self._sim._stepper.grip_force(self._held())

    def move(self, to: Any, rotation: Any = None) -> None:
        """Set the target of the point and, if given, a rotation (w, x, y, z) of the body."""
        grip, model = self._held(), self._sim.model
        x, y, z = three_numbers(to, "to", model)
        u, v, w = grip.target.tolist()
        way = abs(x - u) + abs(y - v) + abs(z - w)
        target: Any = grip.target
        _THREE.pack_into(target, 0, x, y, z)
        before = grip.rotation
        if rotation is not None:
            offset = model.arrays.body_offset[model.body_index(self.body), :9].reshape(3, 3)
            # the grip turns the link's frame, the user the body's
            grip.rotation = matrix_from_quaternion(np.array(frame_rotation(rotation, "rotation"))) @ offset.T
            cosine = -1.0 if before is None else 0.5 * float((before * grip.rotation).sum()) - 0.5
            way += 3.0 * grip.lever * float(np.arccos(np.clip(cosine, -1.0, 1.0)))
        # the largest force along each axis over the way of the target
        self._sim._watch.give(grip.most * way)
        if rotation is not None and before is None:
            self._sim._stepper.reset_grips()
            self._sim.touch()
        else:
            self._sim._stepper.move_grip(grip)

    def release(self) -> None:
        """Remove the grip; releasing twice does nothing."""
        if self._grip is not None and any(grip is self._grip for grip in self._sim._stepper.held_grips()):
            self._sim._stepper = self._sim._stepper.release(self._grip)
            self._sim.touch()
            self._sim._watch.forget()
        self._grip = None


def _figure_mass(sim: Simulation, link: int) -> float:
    """Return the mass of the tree a link belongs to."""
    links = sim.model.arrays.links
    roots = np.append(np.flatnonzero(links.parent < 0), len(links.parent))
    k = int(np.searchsorted(roots, link, side="right")) - 1
    return float(links.inertia[roots[k] : roots[k + 1], 9].sum())
