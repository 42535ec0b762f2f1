"""`History`: what a simulation did until now, as far as memory allows: to scrub through, continue from and save."""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple

import numpy as np

from limberjack.simulation.simulation import Simulation, Snapshot
from limberjack.simulation.trajectory import Trajectory
from limberjack.viewer.colors import body_clusters

__all__ = ["History", "Moment", "continue_from", "error_in", "measures", "missed", "trajectory_of"]

# Memory of one history [bytes], and its longest [frames]: half an hour.
_ROOM = 256 * 1024 * 1024
_LONGEST = 108_000
# The energy of larger models is left out of the measures: it would cost as much as some steps [bodies].
_LARGE = 2000
# Time after which errors are given where the method judges accelerations [s].
_HORIZON = 0.5


class Moment(NamedTuple):
    """One recorded state; `active` says per link whether its joint was simulated, None in other methods."""

    time: float
    steps: int
    q: np.ndarray
    qd: np.ndarray
    active: np.ndarray | None
    numbers: dict[str, float]


def measures(sim: Simulation, step_seconds: float) -> dict[str, float]:
    """Return what plots show of a simulation now.

    Args:
        sim: the simulation.
        step_seconds: what one of its steps takes [s].
    """
    found = {"time per step [ms]": 1e3 * step_seconds}
    if sim.method.name == "adaptive":
        found["active joints"] = float(sim.stats["active_joints"])
        unit, error = missed(sim)
        found[f"error [{unit}]"] = error
    if sim.model.body_count <= _LARGE:
        found["energy [J]"] = float(sim.energy().total)
    if sim.model.loop_names:
        found["joint error [m]"] = float(sim.joint_error().metres)
    return found


def missed(sim: Simulation) -> tuple[str, float]:
    """Return by how much rigid joints of method adaptive will be off after its horizon: the unit, and the error in it.

    The estimate is the sum of (2 d / H^2)^2, d what is missed by then: metres, weighted by mass, of which the root mean
    square is returned; radians in the metric of joints, likewise; pixels of the image with a view, the root of the sum.
    """
    method, model = sim.method, sim.model
    horizon = getattr(method, "horizon_used", 0.0) or _HORIZON
    if getattr(method, "view", None) is not None:
        unit, share = "px", 1.0
    elif getattr(method, "metric", "mass") == "joints":
        unit, share = "rad", float(max(1, model.nv))
    else:
        unit, share = "m", float(model.arrays.body_mass[model.arrays.body_link >= 0].sum()) or 1.0
    return unit, 0.5 * horizon**2 * float(np.sqrt(max(0.0, sim.stats["error_estimate"]) / share))


def error_in(numbers: dict[str, float]) -> tuple[str, float] | None:
    """Return unit and error among what was measured, or None: the method simulates all joints."""
    return next(((name[7:-1], x) for name, x in numbers.items() if name.startswith("error [")), None)


class History:
    """The newest moments of one simulation, at most as many as memory allows; the times increase."""

    def __init__(self) -> None:
        self._moments: deque[Moment] = deque(maxlen=_LONGEST)
        self._bytes = 0
        self._mark: float | None = None

    def __len__(self) -> int:
        return len(self._moments)

    def __getitem__(self, k: int) -> Moment:
        return self._moments[k]

    def add(self, sim: Simulation, step_seconds: float) -> None:
        """Record the state of now; moments that lie ahead of it, after a reset, are dropped."""
        adaptive = sim.method.name == "adaptive"
        active = np.array(sim.active_links, bool) if adaptive else None
        row = Moment(sim.time, sim.steps, sim.q, sim.qd, active, measures(sim, step_seconds))
        self.drop_from(row.time)
        self._moments.append(row)
        self._bytes += _size(row)
        while self._bytes > _ROOM and len(self._moments) > 2:
            self._bytes -= _size(self._moments.popleft())

    def drop_from(self, time: float) -> None:
        """Drop the moments at `time` and later [s]."""
        while self._moments and self._moments[-1].time >= time:
            self._bytes -= _size(self._moments.pop())

    def clear(self) -> None:
        """Drop everything."""
        self._moments.clear()
        self._bytes, self._mark = 0, None

    # Recordings: from a mark to now

    def mark(self, time: float) -> None:
        """Begin a recording at `time` [s]."""
        self._mark = time

    def unmark(self) -> list[Moment]:
        """End the recording and return its moments; without one none."""
        mark, self._mark = self._mark, None
        return [] if mark is None else [row for row in self._moments if row.time >= mark]

    @property
    def marked(self) -> int:
        """Moments of the recording under way; 0 without one."""
        mark = self._mark
        return 0 if mark is None else sum(row.time >= mark for row in tuple(self._moments))

    def moments(self) -> list[Moment]:
        """Return all moments, oldest first."""
        return list(self._moments)


def _size(row: Moment) -> int:
    return row.q.nbytes + row.qd.nbytes + (0 if row.active is None else row.active.nbytes) + 256


def trajectory_of(sim: Simulation, moments: list[Moment]) -> tuple[Trajectory, dict[str, Any]]:
    """Return moments as a trajectory, and what a page shows with it: clusters and plots.

    Args:
        sim: whose model moved.
        moments: at least one.
    """
    times, _, q, qd, *_ = zip(*moments, strict=True)
    trajectory = Trajectory(sim.model, np.array(times), np.array(q), np.array(qd))
    clusters = None
    if any(row.active is not None for row in moments):
        everything = np.ones(len(sim.model.arrays.links.parent), bool)
        clusters = np.array(
            [body_clusters(sim.model, everything if row.active is None else row.active) for row in moments]
        )
    names = list(dict.fromkeys(name for row in moments for name in row.numbers))
    plots = {name: np.array([row.numbers.get(name, np.nan) for row in moments]) for name in names}
    return trajectory, {"clusters": clusters, "plots": plots}


def continue_from(sim: Simulation, moment: Moment) -> None:
    """Set clock and state of a simulation to those of a moment; contacts start without a warm start."""
    sim.q, sim.qd = moment.q, moment.qd
    arrays = sim.snapshot().arrays
    sim.restore(Snapshot(moment.steps, moment.steps, moment.time, sim.dt, arrays))
    sim.touch()
