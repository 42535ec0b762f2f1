"""Table `accuracy`: the integrators on problems whose answers are known, MuJoCo's beside them.

Pendulum A01 of the IFToMM library: a point mass of 1 kg on a massless bar of 1 m, released at rest from the horizontal.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import limberjack as lj
from limberjack import errors, scenes
from limberjack_lab.bench.laws import fill_laws
from limberjack_lab.bench.mechanisms import A01, fill_mechanisms
from limberjack_lab.bench.peers import MujocoRun, mujoco_model
from limberjack_lab.bench.table import MISSING, Bar, Column, Table, Watch, peer
from limberjack_lab.papers.pictures import plot

__all__ = ["INTEGRATORS", "TITLE", "fill", "fill_orders", "measured_order"]

TITLE = "integrators on problems with known answers, dt 1 ms"
_DT = 1e-3
_MUJOCO_INTEGRATORS = ("Euler", "implicit", "RK4")
# Steps per call: a second or two, so that Ctrl-C is heard.
_CHUNK = 200_000


# Of `lj.Full`.
INTEGRATORS = ("euler", "semi_implicit", "rk4", "implicit", "momentum", "variational", "projected")
PICTURE = "integrator_orders.png"
_STEPS = (50, 100, 200, 400, 800)
# Errors below this are rounding and say nothing of the order.
_ROUNDING = 1e-11


def _reached(sim: Any, steps: int) -> bool:
    """Go on to a number of steps since the start; return whether the state is not lost."""
    try:
        while sim.steps < steps:
            sim.step(min(_CHUNK, steps - sim.steps))
    except errors.Diverged:
        return False
    return True


def _runs(model: lj.Model, mujoco: Any, own: tuple[str, ...] = INTEGRATORS) -> Iterator[tuple[str, Any]]:
    """Yield the names of all engines and integrators, each with its simulation at the start."""
    for word in own:
        if word == "rk4":  # at the cost of MuJoCo's: four evaluations per step
            yield "Limberjack rk4, 1 substep", lj.Simulation(model, lj.Full(integrator="rk4", substeps=1), dt=_DT)
        yield f"Limberjack {word}", lj.Simulation(model, lj.Full(integrator=word), dt=_DT)
    for word in _MUJOCO_INTEGRATORS if mujoco is not None else ():
        twin = mujoco_model(model, dt=_DT, integrator=word)
        yield f"MuJoCo {word}", MujocoRun(mujoco, twin, model.q0, model.qd0)


def _fill_pendulum(table: Table, mujoco: Any, watch: Watch, times: tuple[int, ...]) -> None:
    columns = (Column(f"t{t}", f"t = {t} s", "m") for t in times)
    part = table.part("A01 pendulum: distance from the exact place", Column("who", "integrator"), *columns)
    exact = {one.time: one.value for one in scenes.REFERENCES if one.scene == "simple_pendulum"} | A01
    for name, sim in _runs(scenes.simple_pendulum(), mujoco):
        row = part.add(who=name)
        for t in times:
            watch(f"A01, {name}, t = {t} s")
            row[f"t{t}"] = "lost"
            if _reached(sim, round(t / _DT)):
                # q = 0 at x = -1: the place is (-cos q, -sin q)
                x, y = exact[t]
                row[f"t{t}"] = math.hypot(-math.cos(sim.q[0]) - x, -math.sin(sim.q[0]) - y)


def _fill_energy(table: Table, mujoco: Any, watch: Watch, seconds: int) -> None:
    model = scenes.double_pendulum()
    title = f"double pendulum from the horizontal: |E - E0| / (E0 - E at rest) over {seconds} s"
    part = table.part(title, "who: integrator; largest: largest [rel]; end: at the end [rel]")
    meter = lj.Simulation(model, dt=_DT)
    start = meter.energy().total
    meter.q = np.zeros(model.nq)
    scale = start - meter.energy().total
    for name, sim in _runs(model, mujoco):
        watch(f"energy, {name}")
        row, largest = part.add(who=name), 0.0
        for sample in range(1, 10 * seconds + 1):
            if not _reached(sim, round(0.1 * sample / _DT)):
                row |= {"largest": "lost", "end": "lost"}
                break
            meter.q, meter.qd = sim.q, sim.qd
            gap = abs(meter.energy().total - start) / scale
            largest = max(largest, gap)
            row |= {"largest": largest, "end": gap}


def _fill_momentum(table: Table, mujoco: Any, watch: Watch, steps: int) -> None:
    model = scenes.random_tree(bodies=12, kinds=("hinge", "ball"), gravity=(0.0, 0.0, 0.0))
    title = f"a tree of {model.body_count} bodies afloat: drift of its momentum over {steps:,} steps"
    part = table.part(title, "who: integrator; linear: linear [rel]; angular: angular [rel]")
    meter = lj.Simulation(model, dt=_DT)
    start = meter.momentum()
    kept: float | None = None
    for name, sim in _runs(model, mujoco, ("semi_implicit", "rk4", "momentum")):
        watch(f"momentum, {name}")
        row = part.add(who=name, linear="lost", angular="lost")
        if _reached(sim, steps):
            meter.q, meter.qd = sim.q, sim.qd
            pairs = zip(meter.momentum(), start, strict=True)
            drifts = [float(np.linalg.norm(now - old) / np.linalg.norm(old)) for now, old in pairs]
            row |= {"linear": drifts[0], "angular": drifts[1]}
            kept = max(drifts) if name == "Limberjack momentum" else kept
    table.bars.append(Bar(f"drift of the integrator momentum over {steps:,} steps", kept, 1e-12, False))


def _positions(model: lj.Model, integrator: str, steps: int) -> np.ndarray:
    """Return where all bodies are after one second."""
    sim = lj.Simulation(model, lj.Full(integrator=integrator, substeps=1), dt=1.0 / steps)
    sim.step(steps)
    return lj.forward_kinematics(model, sim.q)[0]


def measured_order(steps: tuple[int, ...], found: list[float]) -> float:
    """Return the slope of log error over log step, of the errors that stand above rounding."""
    points = [(-math.log(n), math.log(error)) for n, error in zip(steps, found, strict=True) if error > _ROUNDING]
    x, y = np.array(points).T
    return float(np.polyfit(x, y, 1)[0])


def _plot(found: dict[str, list[float]], path: Path) -> Path:
    """Draw errors against steps; return the picture's path."""
    steps = np.array([1.0 / n for n in _STEPS])
    path.parent.mkdir(parents=True, exist_ok=True)
    labels = {"xlabel": "time step [ms]", "ylabel": "largest error of a body's place after 1 s [m]"}
    with plot(path, 6.4, 4.4, (0.12, 0.12, 0.85, 0.85), **labels) as axes:
        for order, word in ((1, "semi_implicit"), (4, "rk4")):
            line = 0.3 * found[word][0] * (steps / steps[0]) ** order
            axes.loglog(steps, line, color="0.7", linestyle="--", linewidth=1)
            axes.annotate(f"order {order}", (steps[1], 0.5 * line[1]), color="0.5", fontsize=8, va="top")
        # Integrators of one order nearly coincide: markers of falling size keep all of them in sight.
        for (word, values), marker, size in zip(found.items(), "osD^vPX", (11, 8, 8, 5, 5, 7, 5), strict=True):
            axes.loglog(steps, values, marker=marker, markersize=size, linewidth=1, label=word, alpha=0.85)
        axes.set_xticks(steps, [f"{1000 * step:g}" for step in steps])
        axes.minorticks_off()
        axes.legend(loc=(0.03, 0.27))
    return path


def fill_orders(table: Table, watch: Watch) -> None:
    """Add the errors and orders of all integrators; draw them into the folder named by LIMBERJACK_PLOTS, if any."""
    model = scenes.random_tree(bodies=6, kinds=("hinge", "ball"), damping=0.02)
    columns = (Column(f"n{n}", f"h = {1000 / n:g} ms", "m") for n in _STEPS)
    title = f"a falling tree of {model.body_count} bodies: largest error of a place after 1 s, one substep"
    part = table.part(title, Column("who", "integrator"), *columns, Column("order", "order"))
    watch("orders, reference")
    reference = _positions(model, "rk4", 16 * _STEPS[-1])
    found: dict[str, list[float]] = {}
    for word in INTEGRATORS:
        row, own = part.add(who=word), []
        for n in _STEPS:
            watch(f"orders, {word}, {n} steps")
            own.append(float(np.linalg.norm(_positions(model, word, n) - reference, axis=1).max()))
            row[f"n{n}"] = own[-1]
        row["order"] = measured_order(_STEPS, own)
        found[word] = own
    folder = os.environ.get("LIMBERJACK_PLOTS")
    if folder:
        table.note(f"picture: {_plot(found, Path(folder) / PICTURE)}")


def fill(table: Table, quick: bool, watch: Watch) -> None:
    """Measure the table; see `TABLES`."""
    mujoco = peer("mujoco", table)
    if mujoco is None:
        table.note(f"rows of MuJoCo: {MISSING}")
    table.note(
        "rk4 and momentum take two substeps per step by default; all energies and momenta are read by one meter",
        "A01 in MuJoCo: the point mass has an inertia of 1e-14 kg m^2, the least it takes",
    )
    _fill_pendulum(table, mujoco, watch, (1, 10, 100) if quick else (1, 10, 100, 2000))
    _fill_energy(table, mujoco, watch, 10 if quick else 100)
    _fill_momentum(table, mujoco, watch, 1000 if quick else 100_000)
    fill_mechanisms(table, quick, watch)
    fill_laws(table, quick, watch)
    fill_orders(table, watch)
