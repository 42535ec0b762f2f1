"""A person in the loop: a hand tracker with a button, and steps as long as real time says."""

# Values from users are checked whatever their annotations say.
# pyright: reportUnnecessaryIsInstance=false

from __future__ import annotations

import time as clock
from typing import TYPE_CHECKING, Any

import numpy as np

from limberjack.errors import StateError
from limberjack.model.check import frame_rotation
from limberjack.model.spec import WORLD
from limberjack.reduced.dynamics import array_of
from limberjack.spatial.frames import matrix_from_quaternion, quaternion_from_matrix

if TYPE_CHECKING:
    from limberjack.simulation.simulation import Simulation

__all__ = ["Pace", "Tracker"]


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
        """Grab the first body its ray hits, each taken as the spheres around its shapes, or around its com."""
        model, best, found = self._sim.model, self._reach, None
        ray = turned[:, 0]
        for body, centre, radius in self._spheres():
            along = float(ray @ (centre - origin))
            off = float(np.linalg.norm(centre - origin - along * ray))
            if along >= -radius and off <= radius and along - radius < best:
                best, found = along - radius, (body, origin + max(along, 0.0) * ray)
        if found is None:
            return
        body, point = found
        b = model.body_index(body)
        own = matrix_from_quaternion(self._sim.rotations[b])
        self._grip = self._sim.grab(body, point)
        self._held = (turned.T @ (point - origin), turned.T @ own)

    def _spheres(self) -> list[tuple[str, np.ndarray, float]]:
        model, a = self._sim.model, self._sim.model.arrays
        positions, rotations = self._sim.positions, matrix_from_quaternion(self._sim.rotations)
        out: list[tuple[str, np.ndarray, float]] = []
        seen: set[int] = set()
        for shape in model.shapes:
            if shape.body == WORLD or int(a.body_link[model.body_index(shape.body)]) < 0:
                continue
            b = model.body_index(shape.body)
            seen.add(b)
            out.append((shape.body, positions[b] + rotations[b] @ np.array(shape.position), _radius(shape)))
        for b, name in enumerate(model.body_names):
            if b not in seen and int(a.body_link[b]) >= 0:
                out.append((name, positions[b] + rotations[b] @ a.body_com[b], 0.1))
        return out


def _radius(shape: Any) -> float:
    """Return the radius of a sphere around a shape."""
    size = shape.size
    if shape.kind == "box":
        return 0.5 * float(np.linalg.norm(size))
    if shape.kind in ("capsule", "cylinder"):
        return float(size[0]) + 0.5 * float(size[1])
    return float(size[0]) if len(size) else 0.1


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
