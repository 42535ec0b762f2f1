"""Measured runs: a run with its energy and momentum monitored, and a summary of it.

Shared by the command `run` and the demonstration.
"""

from __future__ import annotations

import importlib
import inspect
import math
import time as clock
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from limberjack import _registry
from limberjack.model.model import Model
from limberjack.model.registered import RegisteredBody
from limberjack.model.spec import WORLD, Joint
from limberjack.simulation.simulation import Simulation
from limberjack.simulation.trajectory import Trajectory
from limberjack.viewer.colors import body_clusters
from limberjack.viewer.drawing import turned
from limberjack.viewer.history import measures

__all__ = ["Report", "is_lossless", "measured_run", "save_motion", "summary"]


@dataclass
class Report:
    """What a run did and how well: filled while it runs, so an interrupted one has it too.

    Attributes:
        model: the model.
        begin: step counter at the start.
        steps: steps taken.
        dt: time step [s].
        wall: time spent stepping and recording, without compiling and measuring [s].
        times: of the measures [s].
        kinetic: energy at each [J].
        potential: energy at each [J].
        momentum_drift: largest relative change of momentum that gravity does not explain; None where the
            model is connected to the world or an external force acts.
        clusters: per frame the rigid cluster of each body; empty in other methods than adaptive.
        measures: per frame, what pages plot.
    """

    model: Model
    begin: int
    dt: float
    steps: int = 0
    wall: float = 0.0
    times: list[float] = field(default_factory=list)
    kinetic: list[float] = field(default_factory=list)
    potential: list[float] = field(default_factory=list)
    momentum_drift: float | None = None
    clusters: list[np.ndarray] = field(default_factory=list)
    measures: list[dict[str, float]] = field(default_factory=list)

    def extras(self, frames: int) -> dict[str, Any]:
        """Return what a page shows with the motion of the run: rigid clusters of method adaptive, and plots.

        Args:
            frames: how many the motion has; an interrupted one may lack the last measures.
        """
        rows = self.measures[:frames] + [{}] * (frames - len(self.measures))
        names = list(dict.fromkeys(name for row in rows for name in row))
        plots = {name: np.array([row.get(name, math.nan) for row in rows]) for name in names}
        return {"clusters": np.array(self.clusters[:frames]) if len(self.clusters) >= frames else None, "plots": plots}

    @property
    def real_time_factor(self) -> float:
        """Simulated seconds per second."""
        return self.steps * self.dt / max(self.wall, 1e-9)

    @property
    def microseconds_per_step(self) -> float:
        """Time of one step [us]."""
        return 1e6 * self.wall / max(self.steps, 1)

    @property
    def nanoseconds_per_joint(self) -> float:
        """Time of one joint in one step [ns]."""
        return 1e3 * self.microseconds_per_step / max(self.model.joint_count, 1)

    @property
    def energy_drift(self) -> float:
        """The largest change of the total energy over the largest kinetic energy."""
        total = np.add(self.kinetic, self.potential)
        largest = max(self.kinetic, default=0.0)
        return float(np.abs(total - total[0]).max()) / largest if largest > 0.0 else 0.0


def is_lossless(model: Model) -> bool:
    """Return whether nothing in the model dissipates or adds energy."""

    def lossy(part: Any) -> bool:
        return any(np.any(x) for x in (part.damping, part.friction, part.limit_damping) if x is not None)

    parts: list[Any] = [*model.spec.joints, *(axis for joint in model.spec.joints for axis in joint.axes)]
    driven = any(_motors(part) for part in parts)
    return not driven and not any(map(lossy, parts)) and not any(spring.damping for spring in model.springs)


def _motors(part: Any) -> bool:
    return any(part.motor) if isinstance(part.motor, tuple) else part.motor is not None


def measured_run(
    sim: Simulation,
    seconds: float,
    *,
    rate: float = 60.0,
    progress: bool = False,
    drive: Callable[[Simulation], None] | None = None,
    report: Report | None = None,
    record: Path | None = None,
) -> Report:
    """Run `sim` for `seconds` with energy and momentum measured at each frame; the frames are in `sim.recorded`.

    Args:
        sim: the simulation.
        seconds: how long [s].
        rate: frames per second.
        progress: show a progress bar.
        drive: called before the run and after each frame.
        report: the report to fill; a new one when None.
        record: the recording (.ljr) to write while it goes on.
    """
    report = report or Report(sim.model, sim.steps, sim.dt)
    momentum = _MomentumWatch(sim) if drive is None and _floats(sim) else None
    mark, last = math.inf, [0, 0.0]

    def look(sim: Simulation) -> None:
        nonlocal mark
        report.wall += max(clock.perf_counter() - mark, 0.0)
        report.steps = sim.steps - report.begin
        energy = sim.energy()
        steps = report.steps - last[0]
        numbers = measures(sim, (report.wall - last[1]) / max(steps, 1))
        if not report.times:
            numbers.pop("time per step [ms]")  # no step was taken yet
        report.measures.append(numbers)
        last[:] = report.steps, report.wall
        if sim.method.name == "adaptive":
            report.clusters.append(body_clusters(sim.model, np.asarray(sim.active_links, bool)).astype(np.int32))
        report.times.append(sim.time)
        report.kinetic.append(energy.kinetic)
        report.potential.append(energy.potential)
        if momentum is not None:
            report.momentum_drift = momentum.look(sim, energy.kinetic)
        if drive is not None:
            drive(sim)
        mark = clock.perf_counter()

    if progress:
        importlib.import_module("rich.progress")  # before the run, which is timed
    look(sim)
    try:
        sim.run(seconds, progress=progress, rate=rate, callback=look, record=record)
    except BaseException:
        report.wall += clock.perf_counter() - mark
        report.steps = sim.steps - report.begin
        raise
    return report


def _floats(sim: Simulation) -> bool:
    """Return whether gravity is the only external force: nothing is connected to or driven from the world."""
    model = sim.model
    held = any(joint.kind != "free" or _pulls(joint) for joint in model.spec.joints if joint.parent == WORLD)
    # the plane supports them; what registered kinds are connected to is not known
    held = held or any(body.body_kind == "planar" or isinstance(body, RegisteredBody) for body in model.spec.bodies)
    tied = any(WORLD in (spring.a, spring.b) for spring in model.springs)
    return bool(model.nv) and not (held or tied or sim.tau.any() or len(sim.forces.wrenches.link))


def _pulls(joint: Joint) -> bool:
    numbers = (joint.damping, joint.stiffness, joint.friction)
    return any(np.any(x) for x in numbers if x is not None) or _motors(joint)


class _MomentumWatch:
    """Follows linear momentum, less what gravity adds, and angular momentum about the com."""

    def __init__(self, sim: Simulation) -> None:
        a = sim.model.arrays
        self._mass = np.where(a.body_link >= 0, a.body_mass, 0.0)
        self._total = float(self._mass.sum())
        self._begin, self._linear, self._angular = sim.time, *self._read(sim)
        self._worst = np.zeros(2)
        self._scale = 0.0

    def _read(self, sim: Simulation) -> tuple[np.ndarray, np.ndarray]:
        centers = sim.positions + turned(sim.rotations, sim.model.arrays.body_com)
        centre = self._mass @ centers / max(self._total, 1e-300)
        self._size = float(np.sqrt(self._mass @ ((centers - centre) ** 2).sum(axis=1) / max(self._total, 1e-300)))
        linear, angular = sim.momentum()
        return linear, angular - np.cross(centre, linear)

    def look(self, sim: Simulation, kinetic: float) -> float:
        """Return the largest relative drift so far; the scale is the momentum of the kinetic energy."""
        linear, angular = self._read(sim)
        pull = (sim.time - self._begin) * self._total * sim.model.gravity
        errors = np.array([np.linalg.norm(linear - self._linear - pull), np.linalg.norm(angular - self._angular)])
        self._worst = np.maximum(self._worst, errors / (1.0, max(self._size, 1e-300)))
        self._scale = max(self._scale, float(np.sqrt(2.0 * kinetic * self._total)))
        return float(self._worst.max() / self._scale) if self._scale > 0.0 else 0.0


def save_motion(
    trajectory: Trajectory, path: Path, camera: Any = None, *, progress: bool = False, **extras: Any
) -> Path:
    """Write a trajectory, with camera, progress bar, clusters, plots and motions beside it where the writer takes them.

    Args:
        trajectory: the motion.
        path: the file.
        camera: (position, target), or None.
        progress: show a progress bar.
        extras: further options of the writer of pages.

    Returns:
        the path.
    """
    known = inspect.signature(_registry.lookup("trajectory writer", path)).parameters
    options = {"camera": camera, "progress": progress, **extras}
    return trajectory.save(path, **{name: value for name, value in options.items() if name in known})


def summary(sim: Simulation, report: Report, *, driven: bool) -> dict[str, str]:
    """Return the summary of a run, a line per quantity.

    Args:
        sim: the simulation after the run.
        report: what was measured.
        driven: whether a drive acted on the model.
    """
    model, drift = sim.model, report.momentum_drift
    pushed = driven or bool(sim.tau.any()) or len(sim.forces.wrenches.link) > 0
    loses = pushed or not is_lossless(model)
    held = "not measured: connected to the world, or an external force acts"
    return {
        "model": f"{model.name}: {model.body_count} bodies, {model.joint_count} joints, {model.nv} dofs (nv)",
        "method": _described(sim.method),
        "steps": f"{report.steps} of {report.dt:g} s, to t = {sim.time:.6g} s",
        "wall time": f"{report.wall:.3g} s, recording included",
        "real-time factor": f"{report.real_time_factor:.1f}",
        "time per step": f"{report.microseconds_per_step:.1f} us",
        "time per joint and step": f"{report.nanoseconds_per_joint:.0f} ns",
        "energy change" if loses else "energy drift": f"{report.energy_drift:.1e} of the largest kinetic energy"
        + ("; there are dampers, motors or external forces" if loses else ""),
        "momentum drift": held if drift is None else f"{drift:.1e}",
    }


def _described(method: Any) -> str:
    options = ((item.name, getattr(method, item.name)) for item in fields(method))
    return f"{method.name} ({', '.join(f'{name}={value}' for name, value in options if value is not None)})"
