"""Figure 1: a crowd pushed away from the camera, simulated the more coarsely the farther it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import limberjack as lj
from limberjack import scenes
from limberjack_lab.bench.clock import Contender, race
from limberjack_lab.bench.frames import rotate
from limberjack_lab.bench.table import Bar, Column, Table, Watch, ratio
from limberjack_lab.papers.pictures import drawing

__all__ = ["TITLE", "Crowd", "draw", "fill"]

TITLE = "a crowd of people of 89 bodies each, pushed; joints simulated fall with the distance to the camera"
FIGURES, QUICK_FIGURES = 200, 6
_SECONDS, _QUICK_SECONDS = 1.0, 0.1
_FRAMES = 3
# Pixels from top to bottom and opening of the picture in which errors are measured.
_PIXELS, _ANGLE = 1080, 0.9
_RINGS = 4


class Crowd(NamedTuple):
    """What was found.

    Attributes:
        scene: the crowd.
        times: of the pictures [s].
        poses: positions (bodies, 3) and rotations (bodies, 4) at those times.
        budgets: joints simulated, per figure.
    """

    scene: scenes.Scene
    times: list[float]
    poses: list[tuple[np.ndarray, np.ndarray]]
    budgets: np.ndarray


def _run(
    scene: scenes.Scene, method: Any, times: list[float]
) -> tuple[lj.Simulation, list[tuple[np.ndarray, np.ndarray]]]:
    """Return the simulation after the last of `times`, and its poses at all of them."""
    sim = lj.Simulation(scene.model, method, scene.dt)
    poses, every = [], 10
    assert scene.drive is not None
    for until in times:
        while sim.steps < round(until / scene.dt):
            scene.drive(sim)
            sim.step(min(every, round(until / scene.dt) - sim.steps))
        poses.append((sim.positions, sim.rotations))
    return sim, poses


def fill(table: Table, quick: bool, watch: Watch) -> Crowd:
    """Measure the figure; see `FIGURES`."""
    count, seconds = (QUICK_FIGURES, _QUICK_SECONDS) if quick else (FIGURES, _SECONDS)
    watch.begin(6)
    watch(f"building {count} people", 1)
    scene = scenes.get("adaptive_crowd", figures=count)
    times = [seconds * k / (_FRAMES - 1) for k in range(_FRAMES)]
    sims, poses = {}, {}
    for word, method in (("adaptive", scene.method), ("full", lj.Full(integrator="implicit"))):
        watch(f"{word}, {seconds:g} s", 1)
        sims[word], poses[word] = _run(scene, method, times)
    # The DCA takes explicit steps, which must be short here; its time per step does not depend on their length.
    watch("DCA", 1)
    sims["DCA"] = lj.Simulation(scene.model, lj.DivideAndConquer(), 0.05 * scene.dt)
    watch("measuring", 1)
    _times(table, sims, scene.model, quick)
    watch("measuring errors", 1)
    budgets = np.array(scene.method.budget)
    _errors(table, scene, budgets, poses)
    table.note(f"motors on all joints; pushed at the start, measured after {seconds:g} s")
    table.note("implicit steps of 1 ms; the DCA has explicit ones only")
    return Crowd(scene, times, poses["adaptive"], budgets)


def _times(table: Table, sims: dict[str, lj.Simulation], model: lj.Model, quick: bool) -> None:
    part = table.part(
        f"{model.body_count:,} bodies, {model.nv:,} freedoms",
        Column("who", "method"),
        Column("joints", "joints\nsimulated"),
        Column("ms", "one step", "ms"),
        Column("gain", "DCA / this", "x"),
        Column("against_full", "full / this", "x"),
    )

    def contender(word: str, sim: lj.Simulation) -> Contender:
        start, steps = sim.snapshot(), 20

        def restart() -> None:
            sim.restore(start)
            sim.step(steps)  # coefficients that going back has thrown away

        return Contender(word, lambda: sim.step(steps), units=steps, prepare=restart)

    found = race([contender(word, sim) for word, sim in sims.items()], seconds=0.5 if quick else 20.0, rounds=3)
    cells = {word: 1e3 * found[word].cpu for word in sims}
    for word, sim in sims.items():
        joints = sim.stats.get("active_joints", model.joint_count - _free_joints(model))
        part.add(
            who=word, joints=int(joints), ms=cells[word], gain=ratio(cells["DCA"], cells[word]),
            against_full=ratio(cells["full"], cells[word]),
        )  # fmt: skip
    if not quick:
        table.bars.append(Bar("full / adaptive, time per step", ratio(cells["full"], cells["adaptive"]), 2.0))
    table.note("processor time of one thread, best of samples taken in turns; updates of the region included")


def _free_joints(model: lj.Model) -> int:
    return sum(model.joint(name).kind == "free" for name in model.joint_names)


def _errors(table: Table, scene: scenes.Scene, budgets: np.ndarray, poses: dict[str, Any]) -> None:
    """Add how far bodies are from where the full run has them, in metres and in the picture, by distance."""
    part = table.part(
        "from the nearest to the farthest: distance of bodies from the full run at the end, mean by mass",
        Column("ring", "people"),
        Column("distance", "mean distance\nto the camera", "m"),
        Column("budget", "mean joints\nsimulated"),
        Column("travel", "bodies moved\nby", "m"),
        Column("error", "mean error", "m"),
        Column("pixels", "mean error in\na 1080p picture", "pixels"),
    )
    count = len(budgets)
    eye = np.array(scene.camera.position)
    moments = (("full", 0), ("full", -1), ("adaptive", -1))
    begin, right, own = (poses[word][k][0].reshape(count, -1, 3) for word, k in moments)
    mass = np.array([scene.model.body(name).mass for name in scene.model.body_names[: right.shape[1]]])
    distance = np.linalg.norm(begin.mean(axis=1) - eye, axis=1)
    error = np.average(np.linalg.norm(own - right, axis=2), axis=1, weights=mass)
    travel = np.average(np.linalg.norm(right - begin, axis=2), axis=1, weights=mass)
    pixels = error / np.linalg.norm(right.mean(axis=1) - eye, axis=1) * _PIXELS / (2 * np.tan(_ANGLE / 2))
    for who in np.array_split(np.argsort(distance, kind="stable"), min(_RINGS, count)):
        cells = {"distance": distance, "budget": budgets, "travel": travel, "error": error, "pixels": pixels}
        part.add(ring=len(who), **{word: float(values[who].mean()) for word, values in cells.items()})


def _projected(points: np.ndarray, camera: scenes.Camera) -> tuple[np.ndarray, np.ndarray]:
    """Return (n, 2) places in a picture of height 1 about its middle, and (n,) depths [m]."""
    eye, target = np.array(camera.position), np.array(camera.target)
    ahead = (target - eye) / np.linalg.norm(target - eye)
    right = np.cross(ahead, (0.0, 0.0, 1.0))
    right /= np.linalg.norm(right)
    up = np.cross(right, ahead)
    local = points - eye
    depth = local @ ahead
    focal = 0.5 / np.tan(_ANGLE / 2)
    return focal * np.stack([local @ right, local @ up], axis=1) / depth[:, None], depth


def _draw_crowd(axes: Any, found: Crowd, frame: int, inches: float) -> None:
    """Draw the limbs as round lines, the nearest last, the colour telling how many joints are simulated."""
    from matplotlib import colormaps
    from matplotlib.collections import LineCollection

    model, count = found.scene.model, len(found.budgets)
    shapes = [shape for shape in model.shapes if shape.kind in ("capsule", "sphere") and shape.body != "world"]
    body = np.array([model.body_index(shape.body) for shape in shapes])
    positions, rotations = found.poses[frame]
    places, turns = positions[body], rotations[body]
    centre = places + rotate(turns, np.array([shape.position for shape in shapes]))
    half = np.array([[0.0, 0.0, shape.size[1] / 2 if shape.kind == "capsule" else 1e-4] for shape in shapes])
    along = rotate(turns, rotate(np.array([shape.rotation for shape in shapes]), half))
    a, _ = _projected(centre - along, found.scene.camera)
    b, _ = _projected(centre + along, found.scene.camera)
    _, depth = _projected(centre, found.scene.camera)
    shown = depth > 0.5
    focal = 0.5 / np.tan(_ANGLE / 2)
    widths = 72.0 * inches * 2 * np.array([shape.size[0] for shape in shapes]) * focal / np.maximum(depth, 0.5)
    share = found.budgets[body // (model.body_count // count)] / max(found.budgets.max(), 1)
    colors = colormaps["viridis"](0.1 + 0.85 * np.sqrt(share))
    order = np.argsort(-depth, kind="stable")
    order = order[shown[order]]
    segments = np.stack([a, b], axis=1)[order]
    for color, extra in ((0.35 * colors[order] + (0.0, 0.0, 0.0, 0.65), 0.7), (colors[order], 0.0)):
        axes.add_collection(
            LineCollection(list(segments), linewidths=widths[order] + extra, colors=color, capstyle="round")
        )


def draw(found: Crowd, folder: Path) -> list[tuple[Path, str]]:
    """Draw the crowd at its moments, side by side, from the scene's camera."""
    path = folder / "redon-fig1.png"
    width, height, low, high = 4.8, 2.7, -0.36, 0.2  # inches of a panel, and the part of the picture that it shows
    inches, share = height / (high - low), 1.0 / len(found.times)
    with drawing(path, width * len(found.times), height + 0.6) as figure:
        for k, moment in enumerate(found.times):
            axes = figure.add_axes((k * share + 0.006, 0.0, share - 0.012, height / (height + 0.6)), frameon=False)
            _draw_crowd(axes, found, k, inches)
            half = 0.5 * (1.0 - 0.012 / share) * width / inches
            axes.set(xlim=(-half, half), ylim=(low, high), xticks=(), yticks=())
            axes.set_title(f" {moment:.1f} s", fontsize=10)
        total = found.scene.model.joint_count - len(found.budgets)
        text = f"{len(found.budgets)} people, {int(found.budgets.sum()):,} of {total:,} joints simulated; bright: many"
        figure.text(0.5, 0.98, text, ha="center", va="top", fontsize=11, weight="bold")
    return [(path, "figure 1: the crowd, coloured by joints simulated")]
