"""`compare`: one model run by several methods, with trajectories, energies and costs side by side."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, cast

import numpy as np

from limberjack.errors import Diverged, StateError, require
from limberjack.methods import METHODS, capabilities, method_of
from limberjack.model.model import Model
from limberjack.simulation.recorder import Bar
from limberjack.simulation.simulation import Simulation
from limberjack.simulation.trajectory import Trajectory

__all__ = ["Comparison", "compare"]


@dataclass(frozen=True)
class Comparison:
    """What `compare` measured, by the label of each method.

    Attributes:
        model: the model.
        dt: time step [s].
        trajectories: the recorded motion of each.
        kinetic, potential: energies at each frame [J].
        step_us: processor time of one step of the same run without recording [us].
        joint_error: largest gap at the end [m], and angle [rad].
        failures: what went wrong with those that did not reach the end.
    """

    model: Model
    dt: float
    trajectories: dict[str, Trajectory] = field(default_factory=dict[str, Trajectory])
    kinetic: dict[str, np.ndarray] = field(default_factory=dict[str, np.ndarray])
    potential: dict[str, np.ndarray] = field(default_factory=dict[str, np.ndarray])
    step_us: dict[str, float] = field(default_factory=dict[str, float])
    joint_error: dict[str, tuple[float, float]] = field(default_factory=dict[str, tuple[float, float]])
    failures: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def labels(self) -> list[str]:
        """The labels of the methods, in order; the first is what the others are compared with."""
        return list(self.trajectories)

    def distances(self) -> dict[str, np.ndarray]:
        """Return, per method and frame, the mean distance of the bodies from where the first method has them [m]."""
        first = next(iter(self.trajectories.values()))
        out: dict[str, np.ndarray] = {}
        for label, motion in self.trajectories.items():
            count = min(len(first), len(motion))
            apart = motion.positions[:count] - first.positions[:count]
            out[label] = np.linalg.norm(apart, axis=2).mean(axis=1)
        return out

    def table(self) -> str:
        """Return a table as text: cost, energy change, distance from the first, gap of joints."""
        heads = ("method", "us/step", "energy change", "distance m", "joint gap m", "")
        distances = self.distances()
        rows: list[tuple[str, ...]] = [heads]
        for label in self.labels:
            total = self.kinetic[label] + self.potential[label]
            scale = max(float(self.kinetic[label].max()), 1e-300)
            change = f"{float(np.abs(total - total[0]).max()) / scale:.1e}"
            gap = f"{self.joint_error[label][0]:.1e}" if label in self.joint_error else "-"
            apart = "-" if label == self.labels[0] else f"{distances[label][-1]:.2e}"
            note = self.failures.get(label, "")
            rows.append((label, f"{self.step_us[label]:.1f}", change, apart, gap, note.partition(";")[0]))
        widths = [max(len(row[k]) for row in rows) for k in range(len(heads) - 1)]
        return "\n".join(
            "  ".join(cell.ljust(width) if k == 0 else cell.rjust(width) for k, (cell, width) in
                      enumerate(zip(row, widths, strict=False))) + (f"  {row[-1]}" if row[-1] else "")
            for row in rows
        )  # fmt: skip

    def __str__(self) -> str:
        return self.table()

    def plot(self, path: str | Path | None = None) -> Any:
        """Draw the path of a body, distance, energy and cost, and return the Matplotlib figure.

        The body is the one that moves farthest; its path is seen from the side where it is longest.

        Args:
            path: where the figure is saved, e.g. "methods.png"; None does not save it. Needs the extra `plot`.
        """
        require("matplotlib", extra="plot")
        from matplotlib.figure import Figure

        figure: Any = Figure(figsize=(15.0, 3.6), layout="constrained")
        paths, apart, energy, cost = figure.subplots(1, 4)
        extents = np.ptp(next(iter(self.trajectories.values())).positions, axis=0)
        body = int(np.argmax(np.linalg.norm(extents, axis=1)))
        side = int(np.argmax(extents[body, :2]))
        for label, distance in self.distances().items():
            times, places = self.trajectories[label].times, self.trajectories[label].positions[:, body]
            paths.plot(places[:, side], places[:, 2], label=label)
            if label != self.labels[0]:
                apart.plot(times[: len(distance)], distance, label=label)
            energy.plot(times, self.kinetic[label] + self.potential[label], label=label)
        paths.set(
            xlabel=f"{'xy'[side]} [m]", ylabel="z [m]", title=f"path of {self.model.body_names[body]}", aspect="equal"
        )
        paths.set_adjustable("datalim")
        apart.set(xlabel="time [s]", ylabel="m", title=f"mean distance from {self.labels[0]}")
        energy.set(xlabel="time [s]", ylabel="J", title="energy")
        cost.barh(self.labels[::-1], [self.step_us[label] for label in self.labels[::-1]])
        cost.set(xlabel="us", title="processor time of a step")
        energy.legend(fontsize="small")
        if path is not None:
            figure.savefig(path)
        return figure


def compare(
    model: Model,
    methods: Iterable[Any] | Mapping[str, Any] | None = None,
    *,
    seconds: float = 1.0,
    dt: float | None = None,
    rate: float = 60.0,
    ignore: Iterable[str] = (),
    progress: bool = False,
) -> Comparison:
    """Return trajectories, energies and costs of one model run by several methods from the same start.

    Args:
        model: the model.
        methods: names and method objects, or a mapping from labels to them; None runs every method that supports the
            model. The first is what the others are compared with.
        seconds: how long each is run [s].
        dt: time step [s]; None takes that of the model, or 1 ms.
        rate: frames per second of the recordings.
        ignore: features of the model to leave out in all of them, e.g. ("limits",).
        progress: show a progress bar.
    """
    ignore = (ignore,) if isinstance(ignore, str) else tuple(ignore)
    chosen = _labelled(model, methods, ignore)
    out: Comparison | None = None
    with Bar(progress, len(chosen), "comparing") as tick:
        for label, method in chosen.items():
            first, timed, sim = (Simulation(model, method, dt, ignore=ignore) for _ in range(3))
            first.step(1)  # compiles
            out = out or Comparison(model, sim.dt)
            _record(sim, label, seconds, rate, out)
            out.step_us[label] = _cost(timed, max(1, sim.steps))
            tick(1)
    assert out is not None
    return out


def _record(sim: Simulation, label: str, seconds: float, rate: float, out: Comparison) -> None:
    """Run one simulation; what it did until it failed counts."""
    energies = [sim.energy()]
    try:
        sim.run(seconds, rate=rate, callback=lambda sim: energies.append(sim.energy()))
    except Diverged as error:
        out.failures[label] = str(error)
    motion = sim.recorded
    assert motion is not None
    out.trajectories[label] = motion
    found = energies[: len(motion)]
    out.kinetic[label] = np.array([energy.kinetic for energy in found])
    out.potential[label] = np.array([energy.potential for energy in found])
    gap, angle = sim.joint_error()
    out.joint_error[label] = float(gap), float(angle)


def _cost(sim: Simulation, steps: int) -> float:
    """Return the processor time of a step [us], all taken in one call: recording and measuring cost, too."""
    begin = time.thread_time()
    with suppress(Diverged):
        sim.step(steps)
    return 1e6 * (time.thread_time() - begin) / max(sim.steps, 1)


def _labelled(
    model: Model, methods: Iterable[Any] | Mapping[str, Any] | None, ignore: tuple[str, ...]
) -> dict[str, Any]:
    """Return the methods by their labels; options tell apart what has the same name."""
    if isinstance(methods, (str, bytes)) or not (methods is None or hasattr(methods, "__iter__")):
        raise StateError(f"methods must be several, like ('full', 'impulses'), got {methods!r}")
    if isinstance(methods, Mapping):
        given = cast("Mapping[str, Any]", methods)
        chosen = {str(label): method_of(method) for label, method in given.items()}
    elif methods is None:
        needed = set(model.features()) - set(ignore)
        able = capabilities()
        chosen = {name: method_of(name) for name in METHODS if all(able[name][word] for word in needed)}
    else:
        listed = [method_of(method) for method in methods]
        names = [method.name for method in listed]
        labels = [m.name if names.count(m.name) == 1 else _described(m) for m in listed]
        if len(set(labels)) < len(labels):
            raise StateError(f"methods are listed twice: {', '.join(labels)}; give them labels, like {{'a': ...}}")
        chosen = dict(zip(labels, listed, strict=True))
    if not chosen:
        raise StateError(f"no method to compare: none given, or none supports all of {', '.join(model.features())}")
    return chosen


def _described(method: Any) -> str:
    """Return a method's name with the options that are not at their defaults."""
    plain = type(method)()
    differing = (item.name for item in fields(method) if getattr(method, item.name) != getattr(plain, item.name))
    return f"{method.name}({', '.join(f'{name}={getattr(method, name)}' for name in differing)})"
