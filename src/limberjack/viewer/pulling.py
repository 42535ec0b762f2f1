"""A pull for methods that know no grips: a force on a point of a body, set anew before every batch of steps.

    F = m (w^2 e - 2 w v) + I        I' = m w^3 e / 2

with the point's way e to its target and velocity v, the body's mass m and the pace w; I grows until the weight of what
hangs on the body is carried. A grip, which is solved with the joints, is stiffer and is used wherever there is one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from limberjack.errors import StateError
from limberjack.forces import Wrenches
from limberjack.simulation import Simulation
from limberjack.spatial.frames import matrix_from_quaternion

__all__ = ["SoftGrip"]

# Slow enough for forces that stay the same for the length of a batch [rad/s].
_PACE = 15.0
# The largest force, as a multiple of the weight of the model under earth's gravity.
_STRENGTH = 50.0


class SoftGrip:
    """Draws a point of a body to a place by a force; has the face of `GripHandle`.

    Args:
        sim: the simulation.
        body: name of the body.
        point: (3,) the point, in the world now and fixed to the body from then on; None = the com.
    """

    def __init__(self, sim: Simulation, body: str, point: Any = None) -> None:
        a = sim.model.arrays
        self._sim, self.body, self._b = sim, body, sim.model.body_index(body)
        self._link = int(a.body_link[self._b])
        if self._link < 0:
            raise StateError(f'body "{body}" is fixed to the world and cannot be pulled')
        r = matrix_from_quaternion(sim.rotations[self._b])
        self._local = (
            a.body_com[self._b].copy() if point is None else r.T @ (np.asarray(point) - sim.positions[self._b])
        )
        self._place = a.body_offset[self._b, :9].reshape(3, 3) @ self._local + a.body_offset[self._b, 9:]
        self._mass = max(float(a.body_mass[self._b]), 1e-9)
        self._most = _STRENGTH * 9.81 * float(a.body_mass.sum())
        self.target, self.force = self.point, np.zeros(3)
        self._held, self._then = np.zeros(3), sim.time

    @property
    def point(self) -> np.ndarray:
        """(3,) where the point is now, in the world [m]."""
        return self._sim.positions[self._b] + matrix_from_quaternion(self._sim.rotations[self._b]) @ self._local

    def move(self, to: Any, rotation: Any = None) -> None:
        """Draw the point to another place; a force cannot turn the body to a rotation."""
        self.target = np.array(to, float)

    def act(self) -> None:
        """Set the force for the steps to come."""
        sim = self._sim
        passed, self._then = max(0.0, sim.time - self._then), sim.time
        spin, velocity = np.split(sim.velocities[self._b], 2)
        turn = matrix_from_quaternion(sim.rotations[self._b])
        velocity = velocity + np.cross(spin, turn @ (self._local - sim.model.arrays.body_com[self._b]))
        way = self.target - self.point
        self._held = self._bounded(self._held + 0.5 * self._mass * _PACE**3 * passed * way)
        self.force = self._bounded(self._mass * (_PACE**2 * way - 2.0 * _PACE * velocity) + self._held)
        self._set(self.force)

    def _bounded(self, force: np.ndarray) -> np.ndarray:
        return force * min(1.0, self._most / max(float(np.linalg.norm(force)), 1e-300))

    def _set(self, force: np.ndarray | None) -> None:
        """Put the force among the wrenches in place of the one of before, or take it away (None)."""
        w = self._sim.forces.wrenches
        others = ~((w.link == self._link) & (w.data[:, :3] == self._place).all(axis=1))
        link, data = w.link[others], w.data[others]
        if force is not None:
            row = np.concatenate([self._place, force, np.zeros(3)])
            link, data = np.append(link, self._link).astype(w.link.dtype), np.vstack([data, row])
        self._sim.forces.wrenches = Wrenches(link, data)
        self._sim.touch()

    def release(self) -> None:
        """Let go."""
        self._set(None)
