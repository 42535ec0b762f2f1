"""`Grips`: the grips of users who drag bodies in the browser.

Pointer events come twenty times a second at most, and unevenly; the grip follows a smoothed target, moved before each
batch of steps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from limberjack.errors import LimberjackError, StateError, UnsupportedByMethod
from limberjack.reduced.forces import Wrenches
from limberjack.simulation.simulation import Simulation
from limberjack.spatial.frames import matrix_from_quaternion
from limberjack.viewer.runner import Runner

__all__ = ["Grips", "Pull", "SoftGrip"]

# A pull for methods without grips: a force on a point of a body, set before every batch of steps.
#
#     F = m (w^2 e - 2 w v) + I        I' = m w^3 e / 2
#
# with the point's distance e to its target and velocity v, the body's mass m and the frequency w; the integral I grows
# until it balances the weight of what is attached to the body. A grip, which is solved with the joints, is stiffer and
# is used wherever the method has one.

# Slow enough for forces that are constant over a batch [rad/s].
_PACE = 15.0
# The largest force, as a multiple of the weight of the model under earth's gravity.
_STRENGTH = 50.0


class SoftGrip:
    """Pulls a point of a body to a target by a force; same interface as `GripHandle`.

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
        self._link_point = a.body_offset[self._b, :9].reshape(3, 3) @ self._local + a.body_offset[self._b, 9:]
        self._mass = max(float(a.body_mass[self._b]), 1e-9)
        self._most = _STRENGTH * 9.81 * float(a.body_mass.sum())
        self.target, self.force = self.point, np.zeros(3)
        self._held, self._then = np.zeros(3), sim.time

    @property
    def point(self) -> np.ndarray:
        """(3,) where the point is now, in the world [m]."""
        return self._sim.positions[self._b] + matrix_from_quaternion(self._sim.rotations[self._b]) @ self._local

    def move(self, to: Any, rotation: Any = None) -> None:
        """Set the target of the point; a force cannot control the body's rotation."""
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
        """Replace the force among the wrenches, or remove it (None)."""
        w = self._sim.forces.wrenches
        others = ~((w.link == self._link) & (w.data[:, :3] == self._link_point).all(axis=1))
        link, data = w.link[others], w.data[others]
        if force is not None:
            row = np.concatenate([self._link_point, force, np.zeros(3)])
            link, data = np.append(link, self._link).astype(w.link.dtype), np.vstack([data, row])
        self._sim.forces.wrenches = Wrenches(link, data)
        self._sim.touch()

    def release(self) -> None:
        """Remove the force."""
        self._set(None)


# Time constant of the smoothing: about the gap between two events [s].
_EASE = 0.04


@dataclass
class _Hold:
    grip: Any  # a GripHandle, or a SoftGrip where the method has none
    sim: Simulation
    goal: np.ndarray  # position of the pointer
    eased: np.ndarray  # the same, smoothed
    at: np.ndarray  # the grip's target: the same, within the leash
    rotation: np.ndarray | None = None
    turns: bool = False


@dataclass(frozen=True)
class Pull:
    """A grip as displayed: its point, its target, the force [N]."""

    name: str
    body: str
    point: np.ndarray
    target: np.ndarray
    force: np.ndarray


class Grips:
    """Grips on bodies of the runner's simulation, by name.

    The simulation is accessed on the runner's thread only; events leave commands.

    Args:
        runner: the runner of the simulation.

    Attributes:
        leash: largest distance between the target of a grip and its point [m]. A larger one would only increase the
            force, and light limbs would diverge at usual time steps.
    """

    def __init__(self, runner: Runner) -> None:
        self._runner, self.leash = runner, 0.1
        self._holds: dict[str, _Hold] = {}
        runner.before_batch.append(self._ease)
        runner.watchers["pulls"] = self._pulls

    def grab(self, name: str, body: str, point: Any, rotation: Any = None, run: int | None = None) -> None:
        """Grip a point of a body, given in the world; a grip of that name is released first.

        Args:
            name: of the grip.
            body: name of the body.
            point: (3,) [m]; None = the com.
            rotation: quaternion to turn the body to, or None.
            run: which of the simulations side by side; None = the one that commands act on.
        """
        grabbed = None if point is None else np.array(point, float)

        def take(sim: Simulation) -> None:
            self._drop(name)
            try:
                grip: Any = sim.grab(body, grabbed)
            except UnsupportedByMethod:
                grip = SoftGrip(sim, body, grabbed)
            hold = _Hold(grip, sim, grip.target, grip.target, grip.target)
            self._holds[name] = hold
            if rotation is not None:
                grip.move(hold.at, np.array(rotation, float))
                hold.rotation = np.array(rotation, float)  # where the method can control rotations
                hold.turns = True

        if run is None:
            self._runner.order(take)
        else:
            self._runner.order_with(run, take)

    def move(self, name: str, to: Any, rotation: Any = None) -> None:
        """Set the target position of a grip and, if given, the target rotation of its body."""
        goal = np.array(to, float)
        turn = None if rotation is None else np.array(rotation, float)
        if goal.shape != (3,) or not np.isfinite(goal).all():
            return

        def follow(sim: Simulation) -> None:
            hold = self._holds.get(name)
            if hold is not None and self._alive(hold):
                hold.goal = goal
                if turn is not None and hold.turns:
                    hold.rotation = turn
                if not self._runner.playing:
                    hold.eased = goal
                    self._shift(hold, goal)

        self._runner.order(follow)

    def release(self, name: str) -> None:
        """Release the grip of that name, if there is one."""
        self._runner.order(lambda sim: self._drop(name))

    def release_all(self) -> None:
        """Release all grips."""

        def drop(sim: Simulation) -> None:
            for name in list(self._holds):
                self._drop(name)

        self._runner.order(drop)

    def _alive(self, hold: _Hold) -> bool:
        return any(run.sim is hold.sim for run in self._runner.runs)

    def _drop(self, name: str) -> None:
        hold = self._holds.pop(name, None)
        if hold is not None and self._alive(hold):
            hold.grip.release()

    def _shift(self, hold: _Hold, to: np.ndarray) -> None:
        way = to - hold.grip.point
        length = float(np.linalg.norm(way))
        to = to if length <= self.leash else hold.grip.point + way * (self.leash / length)
        if hold.rotation is not None or not np.array_equal(to, hold.at):
            hold.at = to
            hold.grip.move(to, hold.rotation)

    def _ease(self, sim: Simulation, passed: float) -> None:
        share = 1.0 - math.exp(-passed / _EASE)
        for name, hold in list(self._holds.items()):
            if not self._alive(hold):
                del self._holds[name]
                continue
            near = float(np.abs(hold.goal - hold.eased).max()) < 1e-9
            hold.eased = hold.goal if near else hold.eased + share * (hold.goal - hold.eased)
            self._shift(hold, hold.eased)
            if isinstance(hold.grip, SoftGrip):
                hold.grip.act()

    def _pulls(self, sim: Simulation) -> list[Pull]:
        pulls = []
        for name, hold in self._holds.items():
            if self._alive(hold) and hold.sim is sim:
                try:
                    force = np.array(hold.grip.force, float)
                except LimberjackError:
                    force = np.zeros(3)
                pulls.append(Pull(name, hold.grip.body, np.array(hold.grip.point), hold.eased.copy(), force))
        return pulls
