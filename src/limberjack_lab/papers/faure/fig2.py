"""Figure 2: the ends of a bar are brought to the centres of two disks, one assembly iteration after the other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import limberjack as lj
from limberjack_lab.bench.frames import rotate
from limberjack_lab.bench.table import Bar, Column, Table, Watch
from limberjack_lab.papers.pictures import ACCENT, COOL, INK, PALE, drawing

__all__ = ["TITLE", "draw", "fill"]

TITLE = "assembly of a bar between two disks, iteration by iteration"
_SHOWN = (0, 1, 2, 3, 4, 6)


def fill(table: Table, quick: bool, watch: Watch) -> list[Any]:
    """Assemble the bar in ever more iterations; return the poses after each."""
    watch("bar", 1)
    model, found, errors = lj.scenes.bar_between_disks(), [], []
    start = lj.Simulation(model, "displacements")
    for k in _SHOWN:
        if k:
            done = lj.assemble(model, iterations=k, solver_iterations=30)
            found.append((k, done.positions, done.rotations))
            errors.append(done.error)
        else:
            found.append((k, start.positions.copy(), start.rotations.copy()))
            errors.append(start.joint_error().metres)
    part = table.part("error left after so many iterations", *(Column(f"e{k}", f"{k}", "m") for k in _SHOWN))
    part.add(**{f"e{k}": error for k, error in zip(_SHOWN, errors, strict=True)})
    table.bars.append(Bar(f"error after {_SHOWN[-1]} iterations [m]", errors[-1], 1e-9, False))
    table.note('the paper: "the convergence of the algorithm is fast", and rotations are cut off at 0.8 rad here too')
    return found


def draw(found: list[Any], folder: Path) -> list[tuple[Path, str]]:
    """Draw bar and disks after each iteration."""
    path = folder / "faure-fig2.png"
    with drawing(path, 9.0, 3.0) as figure:
        axes = figure.add_axes((0.01, 0.0, 0.98, 0.9), frameon=False)
        for column, (k, positions, rotations) in enumerate(found):
            at = np.array([2.4 * column, 0.0])
            for i in range(2):
                centre = positions[i, [0, 2]] + at
                angle = np.linspace(0.0, 2.0 * np.pi, 40)
                axes.plot(*(centre[:, None] + 0.2 * np.array([np.cos(angle), np.sin(angle)])), color=COOL)
                axes.plot(*centre, ".", color=INK, markersize=4)
            tip = positions[2] + rotate(rotations[2:3], np.array([[1.0, 0.0, 0.0]]))[0]
            ends = np.array([positions[2], tip])[:, [0, 2]] + at
            axes.plot(ends[:, 0], ends[:, 1], color=ACCENT, linewidth=2.2)
            axes.text(at[0], -0.75, f"{k} iterations", ha="center", fontsize=8, color=PALE)
        axes.set(title="A bar between two disks", aspect="equal", xticks=(), yticks=(), ylim=(-0.9, 1.3))
    return [(path, "figure 2: convergence of the assembly")]
