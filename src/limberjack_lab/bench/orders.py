"""Measured orders of the integrators: the error after one second against the step, as a table and as a picture."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import numpy as np

import limberjack as lj
from limberjack import scenes
from limberjack_lab.bench.table import Column, Table, Watch

__all__ = ["INTEGRATORS", "fill_orders", "measured_order"]

# Of `lj.Full`.
INTEGRATORS = ("euler", "semi_implicit", "rk4", "implicit", "momentum")
PICTURE = "integrator_orders.png"
_STEPS = (50, 100, 200, 400, 800)
# Errors below this are rounding and say nothing of the order.
_ROUNDING = 1e-11


def _places(model: lj.Model, integrator: str, steps: int) -> np.ndarray:
    """Return where all bodies are after one second."""
    sim = lj.Simulation(model, lj.Full(integrator=integrator, substeps=1), dt=1.0 / steps)
    sim.step(steps)
    return lj.forward_kinematics(model, sim.q)[0]


def measured_order(steps: tuple[int, ...], errors: list[float]) -> float:
    """Return the slope of log error over log step, of the errors that stand above rounding."""
    points = [(-math.log(n), math.log(error)) for n, error in zip(steps, errors, strict=True) if error > _ROUNDING]
    x, y = np.array(points).T
    return float(np.polyfit(x, y, 1)[0])


def _plot(errors: dict[str, list[float]], folder: Path) -> Path:
    """Draw errors against steps; return the picture's path."""
    errors.require("matplotlib", extra="plot").use("Agg")
    plots: Any = errors.require("matplotlib.pyplot", extra="plot")
    figure, axes = plots.subplots(figsize=(6.4, 4.4))
    steps = np.array([1.0 / n for n in _STEPS])
    for order in (1, 4):
        line = 0.3 * errors["rk4" if order == 4 else "semi_implicit"][0] * (steps / steps[0]) ** order
        axes.loglog(steps, line, color="0.7", linestyle="--", linewidth=1)
        axes.annotate(f"order {order}", (steps[1], 0.5 * line[1]), color="0.5", fontsize=8, va="top")
    # Integrators of one order nearly coincide: markers of falling size keep all of them in sight.
    for (word, values), marker, size in zip(errors.items(), "osD^v", (11, 8, 8, 5, 5), strict=True):
        axes.loglog(steps, values, marker=marker, markersize=size, linewidth=1, label=word, alpha=0.85)
    axes.set_xticks(steps, [f"{1000 * step:g}" for step in steps])
    axes.minorticks_off()
    axes.set(xlabel="time step [ms]", ylabel="largest error of a body's place after 1 s [m]")
    axes.grid(True, which="major", alpha=0.3)
    axes.legend(frameon=False, loc="center right")
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / PICTURE, dpi=150, bbox_inches="tight")
    plots.close(figure)
    return folder / PICTURE


def fill_orders(table: Table, watch: Watch) -> None:
    """Add the errors and orders of all integrators; draw them into the folder named by LIMBERJACK_PLOTS, if any."""
    model = scenes.random_tree(bodies=6, kinds=("hinge", "ball"), damping=0.02)
    columns = (Column(f"n{n}", f"h = {1000 / n:g} ms", "m") for n in _STEPS)
    title = f"a falling tree of {model.body_count} bodies: largest error of a place after 1 s, one substep"
    part = table.part(title, Column("who", "integrator"), *columns, Column("order", "order"))
    watch("orders, reference")
    reference = _places(model, "rk4", 16 * _STEPS[-1])
    found: dict[str, list[float]] = {}
    for word in INTEGRATORS:
        row, own = part.add(who=word), []
        for n in _STEPS:
            watch(f"orders, {word}, {n} steps")
            own.append(float(np.linalg.norm(_places(model, word, n) - reference, axis=1).max()))
            row[f"n{n}"] = own[-1]
        row["order"] = measured_order(_STEPS, own)
        found[word] = own
    folder = os.environ.get("LIMBERJACK_PLOTS")
    if folder:
        table.note(f"picture: {_plot(found, Path(folder))}")
