"""A person in the loop: a hand tracker with a button, and steps as long as real time says."""

# Values from users are checked whatever their annotations say.
# pyright: reportUnnecessaryIsInstance=false

from __future__ import annotations

import time as clock
from typing import TYPE_CHECKING, Any

import numpy as np

from limberjack.collision.rays import ray_hit, sphere_hit
from limberjack.errors import StateError
from limberjack.model.check import frame_rotation
from limberjack.reduced.dynamics import array_of
from limberjack.spatial.frames import matrix_from_quaternion, quaternion_from_matrix

if TYPE_CHECKING:
    from limberjack.simulation.simulation import Simulation

__all__ = ["Pace", "Tracker"]

# Radius of what a tracker hits of a body without shapes [m].
_SMALL = 0.1


class Tracker:
    """A hand tracker with a button: pressed, it grabs the body it points at and moves it along.

    Only poses are read, never their differences: noise is not amplified.

    Args:
        sim: the simulation.
        reach: how far it reaches along its x axis [m].
        turning: whether the body turns with the tracker.
    """

    def __init__(self, sim: Simulation, *, reach: float = 10.0, turning: bool = True) -> None:
        if not (isinstance(reach, (int, float)) and 0.0 < reach < np.inf):
            raise StateError(f"reach must be a number > 0, got {reach!r}")
        self._sim, self._reach, self._turning = sim, float(reach), turning
        self._grip: Any = None
        self._held: tuple[np.ndarray, np.ndarray] | None = None  # point and rotation of the body in the tracker's frame

    @property
    def body(self) -> str | None:
        """The body it has caught, or None."""
        return None if self._grip is None else self._grip.body

    @property
    def force(self) -> np.ndarray:
        """(3,) what it pulled with in the last step, world axes [N]."""
        return np.zeros(3) if self._grip is None else self._grip.force

    def update(self, position: Any, rotation: Any = (1.0, 0.0, 0.0, 0.0), *, pressed: bool) -> None:
        """Take where the tracker is and whether its button is down.

        Args:
            position: (3,) in the world [m].
            rotation: (w, x, y, z) or a matrix; its x axis points.
            pressed: the button.
        """
        origin = array_of(position, (3,), "position", self._sim.model)
        turned = matrix_from_quaternion(np.array(frame_rotation(rotation, "rotation")))
        if not pressed:
            if self._grip is not None:
                self._grip.release()
            self._grip = self._held = None
            return
        if self._grip is None:
            self._catch(origin, turned)
        if self._grip is not None and self._held is not None:
            point, own = self._held
            aim = quaternion_from_matrix(turned @ own) if self._turning else None
            self._grip.move(origin + turned @ point, aim)

    def _catch(self, origin: np.ndarray, turned: np.ndarray) -> None:
        """Grab the first body whose shape its ray hits; a body without shapes is a small sphere around its com."""
        model, ray = self._sim.model, turned[:, 0]
        positions, rotations = self._sim.positions, matrix_from_quaternion(self._sim.rotations)
        best, found = self._reach, -1
        shaped = {shape.body for shape in model.shapes}
        for b, name in enumerate(model.body_names):
            if int(model.arrays.body_link[b]) < 0:
                continue
            # the ray in the frame of the body
            start, along = rotations[b].T @ (origin - positions[b]), rotations[b].T @ ray
            hits = [ray_hit(shape, start, along) for shape in model.shapes if shape.body == name]
            if name not in shaped:
                hits = [sphere_hit(start - model.arrays.body_com[b], along, _SMALL)]
            nearest = min(hits, default=np.inf)
            if nearest < best:
                best, found = nearest, b
        if found < 0:
            return
        point = origin + best * ray
        self._grip = self._sim.grab(model.body_names[found], point)
        self._held = (turned.T @ (point - origin), turned.T @ rotations[found])


class Pace:
    """Steps as long as the time since the last one: the simulation keeps up with the clock on the wall.

    What the clock said is kept in `taken`, so that a replay is exact.

    Args:
        sim: the simulation.
        longest: steps are never longer [s]; time is lost instead.
    """

    def __init__(self, sim: Simulation, *, longest: float = 1 / 12) -> None:
        if not (isinstance(longest, (int, float)) and 0.0 < longest <= 1.0):
            raise StateError(f"longest must be a number > 0 and <= 1 s, got {longest!r}")
        self._sim, self._longest, self._last = sim, float(longest), clock.perf_counter()
        self.taken: list[float] = []

    def step(self) -> float:
        """Take one step that lasts as long as it was since the last; return its length [s]."""
        now = clock.perf_counter()
        dt = min(max(now - self._last, 1e-6), self._longest)
        self._last = now
        self._sim.dt = dt
        self._sim.step()
        self.taken.append(dt)
        return dt
