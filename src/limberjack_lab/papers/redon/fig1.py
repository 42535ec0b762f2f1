"""Figure 1: a crowd pushed away from the camera, simulated the more coarsely the farther it is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import limberjack as lj
from limberjack import scenes
from limberjack_lab.bench.paper_grid import step_times
from limberjack_lab.bench.table import Table, Watch, ratio

__all__ = ["TITLE", "Crowd", "draw", "fill"]

TITLE = "a crowd of people of 89 bodies each, pushed; joints simulated fall with the distance to the camera"
FIGURES, QUICK_FIGURES = 200, 6
_SECONDS, _QUICK_SECONDS = 1.0, 0.1
_FRAMES = 3
# Pixels from top to bottom and opening of the picture in which errors are measured.
_PIXELS, _ANGLE = 1080, 0.9
_RINGS = 4
# Colours of the figures of which least and most joints are simulated.
_FEW, _MANY = np.array((0.20, 0.25, 0.45)), np.array((0.98, 0.85, 0.25))


class Crowd(NamedTuple):
    """What was found."""

    scene: scenes.Scene  # the crowd
    times: list[float]  # of the pictures [s]
    q: np.ndarray  # (times, nq) coordinates at those times
    budgets: np.ndarray  # (times, figures) joints simulated


def _run(scene: scenes.Scene, method: Any, times: list[float]) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray]:
    """Return the simulation after the last of `times`, and positions, coordinates and budgets at all of them."""
    sim = lj.Simulation(scene.model, method, scene.dt)
    positions, q, budgets, every = [], [], [], 10
    assert scene.drive is not None
    for until in times:
        while sim.steps < round(until / scene.dt):
            scene.drive(sim)
            sim.step(min(every, round(until / scene.dt) - sim.steps))
        positions.append(sim.positions)
        q.append(sim.q)
        budgets.append(getattr(sim.method, "budget", 0))
    return sim, np.array(positions), np.array(q), np.array(budgets)


def fill(table: Table, quick: bool, watch: Watch) -> Crowd:
    """Measure the figure; see `FIGURES`."""
    count, seconds = (QUICK_FIGURES, _QUICK_SECONDS) if quick else (FIGURES, _SECONDS)
    watch.begin(6)
    watch(f"building {count} people", 1)
    scene = scenes.get("adaptive_crowd", figures=count)
    times = [seconds * k / (_FRAMES - 1) for k in range(_FRAMES)]
    sims, positions, q, budgets = {}, {}, {}, {}
    for word, method in (("adaptive", scene.method), ("full", lj.Full(integrator="implicit"))):
        watch(f"{word}, {seconds:g} s", 1)
        sims[word], positions[word], q[word], budgets[word] = _run(scene, method, times)
    # The DCA takes explicit steps, which must be short here; its time per step does not depend on their length.
    watch("DCA", 1)
    sims["DCA"] = lj.Simulation(scene.model, lj.DivideAndConquer(), 0.05 * scene.dt)
    watch("measuring", 1)
    _times(table, sims, scene.model, quick)
    watch("measuring errors", 1)
    _errors(table, scene, budgets["adaptive"], positions)
    table.note(f"motors on all joints; pushed at the start, measured after {seconds:g} s")
    table.note("implicit steps of 1 ms; the DCA has explicit ones only")
    return Crowd(scene, times, q["adaptive"], budgets["adaptive"])


def _times(table: Table, sims: dict[str, lj.Simulation], model: lj.Model, quick: bool) -> None:
    part = table.part(
        f"{model.body_count:,} bodies, {model.nv:,} dofs",
        "who: method; joints: joints|simulated; ms: one step [ms]; gain: DCA / this [x]; against_full: full / this [x]",
    )
    cells = {word: 1e-3 * us for word, us in step_times(sims, 0.5 if quick else 20.0, least=20).items()}
    for word, sim in sims.items():
        joints = sim.stats.get("active_joints", model.joint_count - _free_joints(model))
        part.add(
            who=word, joints=int(joints), ms=cells[word], gain=ratio(cells["DCA"], cells[word]),
            against_full=ratio(cells["full"], cells[word]),
        )  # fmt: skip
    table.bar("full / adaptive, time per step", ratio(cells["full"], cells["adaptive"]), 2.0)
    table.note("processor time of one thread, best of samples taken in turns; updates of the region included")


def _free_joints(model: lj.Model) -> int:
    return sum(model.joint(name).kind == "free" for name in model.joint_names)


def _errors(table: Table, scene: scenes.Scene, budgets: np.ndarray, positions: dict[str, np.ndarray]) -> None:
    """Add how far bodies are from where the full run has them, in metres and in the picture, by distance."""
    part = table.part(
        "from the nearest to the farthest: distance of bodies from the full run at the end, mean by mass",
        "ring: people; distance: distance|at the start [m]; first: joints|at the start; budget: joints|at the end; "
        "travel: bodies moved|by [m]; error: mean error [m]; pixels: mean error in|a 1080p picture [pixels]",
    )
    count = budgets.shape[1]
    eye = np.array(scene.camera.position)
    moments = (("full", 0), ("full", -1), ("adaptive", -1))
    begin, right, own = (positions[word][k].reshape(count, -1, 3) for word, k in moments)
    mass = np.array([scene.model.body(name).mass for name in scene.model.body_names[: right.shape[1]]])
    distance = np.linalg.norm(begin.mean(axis=1) - eye, axis=1)
    error = np.average(np.linalg.norm(own - right, axis=2), axis=1, weights=mass)
    travel = np.average(np.linalg.norm(right - begin, axis=2), axis=1, weights=mass)
    pixels = error / np.linalg.norm(right.mean(axis=1) - eye, axis=1) * _PIXELS / (2 * np.tan(_ANGLE / 2))
    for who in np.array_split(np.argsort(distance, kind="stable"), min(_RINGS, count)):
        cells = {"distance": distance, "first": budgets[0], "budget": budgets[-1]}
        cells |= {"travel": travel, "error": error, "pixels": pixels}
        part.add(ring=len(who), **{word: float(values[who].mean()) for word, values in cells.items()})


def _painted(model: lj.Model, budgets: np.ndarray, most: int) -> lj.Model:
    """Return the crowd with its figures coloured by how many of their joints are simulated: bright = `most`."""
    share = np.sqrt(budgets / max(most, 1))
    colors = np.array([_FEW + (_MANY - _FEW) * x for x in share])
    each = model.body_count // len(budgets)

    def painted(shape: Any) -> Any:
        if shape.body == "world":
            return shape
        return replace(shape, color=(*map(float, colors[model.body_index(shape.body) // each]), 1.0))

    return lj.Model(replace(model.spec, shapes=[painted(shape) for shape in model.shapes]))


def draw(found: Crowd, folder: Path) -> list[tuple[Path, str]]:
    """Paint the crowd at its moments, from the scene's camera."""
    plain, out, total = found.scene.model, [], found.scene.model.joint_count - _free_joints(found.scene.model)
    for k, moment in enumerate(found.times):
        model = _painted(plain, found.budgets[k], int(found.budgets.max()))
        motion = lj.Trajectory(model, found.times[k : k + 1], found.q[k : k + 1], np.zeros((1, model.nv)))
        path = folder / f"redon-fig1-{k + 1}.png"
        motion.save(path, time=moment, camera=found.scene.camera, width=1280, height=560)
        out.append((path, f"figure 1: {int(found.budgets[k].sum()):,} of {total:,} joints simulated, {moment:g} s"))
    return out
