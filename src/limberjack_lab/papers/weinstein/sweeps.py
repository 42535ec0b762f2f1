"""The paper's comparison of 5, 9 and 15 sweeps over the joints, beside all joints at once."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import limberjack as lj
from limberjack import scenes
from limberjack_lab.bench.free_bodies import FRAME, run_ours
from limberjack_lab.bench.table import Bar, Table, Watch
from limberjack_lab.papers.pictures import ACCENT, COOL, INK, PALE, curves

__all__ = ["TITLE", "draw", "fill"]

TITLE = "joints swept 5, 9 and 15 times per substep, and all at once"
_FRAMES = 60


def fill(table: Table, quick: bool, watch: Watch) -> dict[str, list[float]]:
    """Run bridge and net by sweeps and at once."""
    part = table.part(
        f"{_FRAMES} frames of 8 substeps",
        "scene: scene; sweeps: joints; frames: frames; time: frame [ms]; worst: largest gap|of a joint [m]; "
        "end: at the end [m]",
    )
    frames = 3 if quick else _FRAMES
    models = {
        "bridge": scenes.bridge(planks=2 if quick else 14),
        "net": scenes.net(cells=2 if quick else 15),
    }
    ways = {f"{n} sweeps": lj.Impulses(joints="sweeps", sweeps=n, sleeping=False) for n in (5, 9, 15)}
    ways["at once"] = lj.Impulses(sleeping=False)
    watch.begin(len(models) * len(ways))
    found: dict[str, list[float]] = {}
    for scene, model in models.items():
        for way, method in ways.items():
            watch(f"{scene}, {way}", 1)
            run = run_ours(lj.Simulation(model, method, dt=FRAME), frames, cap=np.inf)
            gaps = found[f"{scene}, {way}"] = run.gaps[: -1 if run.lost else None]
            end = gaps[-1] if gaps else None
            part.add(scene=scene, sweeps=way, frames=len(gaps), time=run.mean, worst=max(gaps, default=None), end=end)
    worst = max(max(errors, default=np.inf) for name, errors in found.items() if name.endswith("at once"))
    table.bars.append(Bar("largest gap, all joints at once [m]", worst, 1e-6, False))
    swept = max(max(errors, default=np.inf) for name, errors in found.items() if name.endswith("15 sweeps"))
    table.bar(
        "gap after 15 sweeps, largest of bridge and net [m]", swept, 1e-3, False,
        "an impulse crosses one joint per visit: nets and long chains need as many sweeps as joints in a row",
    )  # fmt: skip
    table.note("few sweeps do not bound the error of long chains and nets: more of them shrink it slowly")
    return found


def draw(found: dict[str, list[float]], folder: Path) -> list[tuple[Path, str]]:
    """Draw the errors over the frames."""
    path = folder / "weinstein-sweeps.png"
    styles = [f"{line} {color}" for line in ("-", "--") for color in (ACCENT, COOL, PALE, INK)]
    labels = {"title": "Joints by sweeps and at once", "xlabel": "frame", "ylabel": "largest gap of a joint [m]"}
    curves(path, found, styles, 0, **labels)
    return [(path, "gaps of joints by 5, 9 and 15 sweeps, and at once")]
