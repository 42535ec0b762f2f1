"""The paper's scenes run anew: time per frame, the share of the joints in it, errors, and a picture of each."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import limberjack as lj
from limberjack import scenes
from limberjack_lab.bench.free_bodies import FRAME, run_ours
from limberjack_lab.bench.table import Bar, Table, Watch, columns

__all__ = ["RUNS", "TITLE", "draw", "fill"]

TITLE = "scenes of articulated bodies among contacts, by impulses"
# Frames of a short run, of a quick one, and the most a full one takes [s].
_SHORT, _QUICK, _LONGEST = 60, 2, 10.0


class _Case(NamedTuple):
    scene: str
    options: dict[str, Any]
    small: dict[str, Any]  # of a quick look
    figure: str  # of the paper, or what it is


# In the order of the paper.
RUNS = (
    _Case("joint_types", {}, {}, "figure 9"),
    _Case("pre_versus_post", {}, {}, "figure 10"),
    _Case("fridge_magnets", {}, {"letters": 6}, "210 meshes"),
    _Case("net", {"blocks": 9}, {"cells": 2, "blocks": 1}, "15 x 15 cells, blocks"),
    _Case("bridge", {}, {"planks": 2}, "102 bodies"),
    _Case("bridge", {"blocks": 81}, {"planks": 2, "blocks": 1}, "81 pairs of blocks"),
    _Case("bridge", {"chains": 60}, {"planks": 2, "chains": 1}, "60 chains of 6 meshes"),
    _Case("tank", {}, {}, "treads and gears"),
    _Case("rings", {}, {"count": 2, "poles": 1}, "360 rings of 6 meshes"),
    _Case("skeletons", {}, {"figures": 1}, "20 figures of 21 meshes"),
    _Case("box_pile", {}, {"boxes": 5}, "500 boxes"),
    _Case("card_house", {}, {"storeys": 1}, "house of cards"),
    _Case("dominoes", {}, {"count": 3}, "30 dominoes"),
    _Case("arch", {}, {"stones": 5}, "15 stones"),
    _Case("kapla_tower", {}, {"layers": 2}, "102 planks"),
    _Case("newtons_cradle", {}, {}, "5 balls"),
)

_COLUMNS = columns(
    "scene: scene; what: what; bodies: bodies; joints: joints; contacts: contacts; frames: frames; "
    "seconds: frame [s]; share: of it|in joints [%]; gap: largest gap|of a joint [m]; depth: overlap|at the end [m]; "
    "energy: energy gained|or lost [J]; speed: fastest body|at the end [m/s]"
)


class Found(NamedTuple):
    """What the pictures need: the motion of each run and where to look from."""

    name: str
    what: str
    trajectory: lj.Trajectory
    camera: Any


def _run(table: Table, part: Any, case: _Case, quick: bool, full: bool) -> Found:
    scene = scenes.get(case.scene, **(case.small if quick else case.options))
    method = lj.Impulses() if scene.method == "impulses" else scene.method
    sim = lj.Simulation(scene.model, replace(method, sleeping=False), dt=scene.dt)
    row: dict[str, Any] = part.add(scene=case.scene, what=case.figure, bodies=sim.model.body_count)
    row["joints"] = sum(sim.model.joint_spec(name).kind != "free" for name in sim.model.joint_names)
    # no more frames than the scene is worth watching, or it leaves the picture
    frames = _QUICK if quick else round(min(scene.seconds, _LONGEST if full else _SHORT * FRAME) / FRAME)
    run = run_ours(sim, frames, drive=scene.drive, cap=np.inf)
    if run.lost:
        table.wrong.append(f"{case.scene}: {run.problem}")
    row |= {"frames": len(run.ms), "seconds": 1e-3 * run.mean, "gap": run.gap, "energy": run.energy}
    row |= {"contacts": run.contacts, "depth": run.penetration, "speed": float(run.speed.max())}
    if row["joints"] and any(run.joints_ms):
        row["share"] = 100.0 * sum(run.joints_ms) / sum(run.ms)
    moment = lj.Trajectory(sim.model, [sim.time], sim.q[None], sim.qd[None])
    return Found(case.scene, case.figure, moment, scene.camera)


def fill(table: Table, quick: bool, watch: Watch, full: bool = False) -> list[Found]:
    """Run the scenes, for a second each, or with `full` as long as each is worth watching, ten at most."""
    watch.begin(len(RUNS))
    part, found = table.part("each scene by its own method and step", *_COLUMNS), []
    for case in RUNS:
        watch(f"{case.scene}, {case.figure}", 1)
        found.append(_run(table, part, case, quick, full))
    gaps = [float(row["gap"]) for row in part.rows if row["gap"] is not None]
    table.bars.append(Bar("largest gap of a joint in any scene [m]", max(gaps), 1e-4, False))
    shares = [float(row["share"]) for row in part.rows if row.get("share") is not None]  # pyright: ignore
    table.bar(
        "share of the joints in the time, median of the scenes [%]", float(np.median(shares)), 5.0, False,
        "all joints of an island are closed at once, to rounding; the paper sweeps over them and leaves gaps",
    )  # fmt: skip
    table.note(
        "in joints: forces, joints solved with contacts, pre- and post-stabilization, counted inside the steps; all "
        "else is detection and contacts; the paper has about 5 %"
    )
    return found


def draw(found: list[Found], folder: Path) -> list[tuple[Path, str]]:
    """Paint the end of each run."""
    out = []
    for k, one in enumerate(found):
        path = folder / f"weinstein-{k + 1:02d}-{one.name}.png"
        one.trajectory.save(path, camera=one.camera)
        out.append((path, f"{one.name}: {one.what}, at the end"))
    return out
