"""Figure 5: interactive positioning, low precision while dragging, recovered after."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from limberjack_lab.bench.clock import race
from limberjack_lab.bench.displacements import drag, dragging
from limberjack_lab.bench.table import Bar, Table, Watch
from limberjack_lab.papers.pictures import ACCENT, COOL, curves

__all__ = ["TITLE", "draw", "fill"]

TITLE = "a structure of 56 solids dragged at 2 x 5 and at 3 x 50 iterations"
_FRAMES = 60


class _Drag(NamedTuple):
    errors: list[float]
    frame: float


def _drag(outer: int, inner: int, seconds: float) -> _Drag:
    """Drag for 60 frames, release, and go on for 60; return the error of each frame and the time of one [s]."""
    sim, grip = dragging(outer, inner)
    start, errors = grip.point.copy(), []
    for k in range(2 * _FRAMES):
        t = k / _FRAMES
        if k == _FRAMES:
            grip.release()
        elif k < _FRAMES:
            grip.move(start + np.array((0.8 * np.sin(3.0 * t), 0.4 * (1.0 - np.cos(3.0 * t)), 0.4 * t)))
        sim.step()
        errors.append(float(sim.stats["joint_error"]))
    return _Drag(errors, race([drag(outer, inner)[1]], seconds=seconds)["drag"].cpu)


def fill(table: Table, quick: bool, watch: Watch) -> dict[str, _Drag]:
    """Drag at both precisions."""
    watch.begin(2)
    part = table.part(
        "60 frames of dragging, 60 after the release",
        "iterations: iterations; worst: worst error,|dragging [m]; end: error 60 frames|after [m]; time: frame [ms]",
    )
    found = {}
    for outer, inner in ((2, 5), (3, 50)):
        watch(f"{outer} x {inner}", 1)
        drag = found[f"{outer} x {inner}"] = _drag(outer, inner, 0.02 if quick else 1.0)
        worst, end = max(drag.errors[:_FRAMES]), drag.errors[-1]
        part.add(iterations=f"{outer} x {inner}", worst=worst, end=end, time=1e3 * drag.frame)
        table.bars.append(Bar(f"error 60 frames after, {outer} x {inner} [m]", end, 1e-6, False))
    table.note("errors while dragging include the distance of the tracker")
    return found


def draw(found: dict[str, _Drag], folder: Path) -> list[tuple[Path, str]]:
    """Draw the error over the frames."""
    path = folder / "faure-fig5.png"
    lines = {f"{name}: {1e3 * drag.frame:.2f} ms": drag.errors for name, drag in found.items()}
    labels = {"title": "56 solids, 261 constraints, released at frame 60", "ylabel": "largest error [m]"}
    curves(path, lines, (f"- {ACCENT}", f"- {COOL}"), _FRAMES, xlabel="frame", **labels)
    return [(path, "figure 5: error while dragging and after")]
