"""Figure 6: interactive dynamics, a plate shaken by a tracker at 1 x 15 iterations per frame."""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

from limberjack_lab.bench.displacements import shaking
from limberjack_lab.bench.table import Table, Watch
from limberjack_lab.papers.pictures import ACCENT, COOL, plot

__all__ = ["TITLE", "draw", "fill"]

TITLE = "a plate shaken at 1 x 15 iterations per frame"


class _Shake(NamedTuple):
    errors: list[float]
    times: list[float]  # [ms]


def fill(table: Table, quick: bool, watch: Watch) -> _Shake:
    """Shake the plate for some seconds at 60 frames each."""
    frames = 60 if quick else 600
    watch.begin(1)
    watch("plate", 1)
    scene, sim = shaking()
    scene.drive(sim)
    sim.step()
    found = _Shake([], [])
    for _ in range(frames):
        begin = time.perf_counter()
        scene.drive(sim)
        sim.step()
        found.times.append(1e3 * (time.perf_counter() - begin))
        found.errors.append(float(sim.stats["joint_error"]))
    part = table.part(
        "28 solids, 108 constraints",
        "frames: frames; worst: worst error [m]; time: frame,|median [ms]; paper: the paper|(SGI O2) [ms]",
    )
    middle = sorted(found.times)[frames // 2]
    part.add(frames=frames, worst=max(found.errors), time=middle, paper=1000.0 / 24)
    table.bar("frames per second at 1 x 15 iterations, without drawing", 1e3 / middle, 24.0)
    table.note("the paper: 12 frames per second, half of it rendering; ours draws nothing")
    return found


def draw(found: _Shake, folder: Path) -> list[tuple[Path, str]]:
    """Draw errors and times over the frames."""
    path = folder / "faure-fig6.png"
    labels = {"title": "Plate, 1 x 15 iterations per frame", "xlabel": "frame", "ylabel": "largest error [m]"}
    with plot(path, 7.0, 4.5, (0.12, 0.12, 0.76, 0.78), **labels) as axes:
        axes.semilogy(found.errors, color=COOL, linewidth=1.2)
        other = axes.twinx()
        other.plot(found.times, color=ACCENT, linewidth=0.6)
        other.set(ylabel="time of a frame [ms]")
    return [(path, "figure 6: errors and times of the shaken plate")]
