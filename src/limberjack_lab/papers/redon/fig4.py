"""Figure 4: five links on slides, the second pushed; what is left of its acceleration when one joint is simulated.

Cutting the accelerations off after the first joint would move four links as if four times the force acted (b); they are
found anew for the body in which the other joints are held (c).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import limberjack as lj
from limberjack import scenes
from limberjack_lab.bench.table import Bar, Column, Table, Watch
from limberjack_lab.papers.pictures import ACCENT, COOL, INK, PALE, drawing

__all__ = ["TITLE", "accelerations", "draw", "fill"]

TITLE = "accelerations of five sliders in a row, the second pushed (section 5.3.2)"
_FORCE, _MASS = 3.0, 2.0
# Largest error of an acceleration, over force / mass.
_RIGHT = 1e-12


class _Case(NamedTuple):
    """A part of the figure: links' accelerations over force / mass, and what they should be."""

    title: str
    found: np.ndarray
    paper: tuple[float, ...]


def accelerations(method: Any) -> np.ndarray:
    """Return the links' accelerations along x, over force / mass, in the first step of `method`."""
    scene = scenes.get("slider_chain", force=_FORCE, mass=_MASS)
    sim = lj.Simulation(scene.model, scene.method if method is None else method, scene.dt)
    assert scene.drive is not None
    scene.drive(sim)
    sim.step()
    return sim.velocities[:, 3] / sim.dt / (_FORCE / _MASS)


def fill(table: Table, quick: bool, watch: Watch) -> list[_Case]:
    """Measure the figure; see `FIGURES`."""
    watch("compiling our kernels")
    whole = accelerations("full")
    # Joint j moves all links behind it: the accelerations cut off after J1 leave that joint's to all of them.
    cut = np.concatenate([[0.0], np.full(4, whole[1] - whole[0])])
    cases = [
        _Case("(a) all joints", whole, (0.0, 1.0, 0.0, 0.0, 0.0)),
        _Case("(b) J1 alone, cut off", cut, (0.0, 1.0, 1.0, 1.0, 1.0)),
        _Case("(c) J1 alone, found anew: ours", accelerations(None), (0.0, 0.25, 0.25, 0.25, 0.25)),
    ]
    links = (Column(f"l{k}", f"l{k}", "f / m") for k in range(1, 6))
    part = table.part("accelerations", Column("who", "joints simulated"), *links, Column("error", "off the paper's"))
    for case in cases:
        error = float(np.abs(case.found - case.paper).max())
        part.add(who=case.title, error=error, **{f"l{k + 1}": round(float(a), 12) for k, a in enumerate(case.found)})
        if not error <= _RIGHT:
            table.wrong.append(f"{case.title} is off by {error:.1e}")
    worst = max(float(row["error"]) for row in part.rows)  # pyright: ignore
    table.bars.append(Bar("largest error of an acceleration, over force / mass", worst, _RIGHT, False))
    table.note("(b) is not what is simulated: it shows why accelerations are found anew once the joints are chosen")
    return cases


def draw(found: list[_Case], folder: Path) -> list[tuple[Path, str]]:
    """Draw the three rows of sliders with their accelerations as arrows."""
    path = folder / "redon-fig4.png"
    with drawing(path, 8.0, 3.6) as figure:
        axes = figure.add_axes((0.01, 0.0, 0.98, 0.92), frameon=False)
        for row, case in enumerate(found):
            y = -1.3 * row
            axes.plot((-0.6, 5.6), (y - 0.31, y - 0.31), color=PALE, linewidth=1.0, zorder=0)
            for k, a in enumerate(case.found):
                axes.add_patch(_box(1.25 * k, y, COOL if k % 2 else ACCENT))
                axes.text(1.25 * k, y, f"$l_{k + 1}$", ha="center", va="center", color="white", fontsize=11)
                if abs(a) > 1e-9:
                    style = {"arrowstyle": "-|>", "color": INK, "linewidth": 1.8, "mutation_scale": 12}
                    tip = (1.25 * k + 0.95 * float(a), y + 0.46)
                    axes.annotate("", tip, (1.25 * k, y + 0.46), arrowprops=style)
            text = f"{case.title}\n$a_2$ = {case.found[1]:.3g} f/m"
            axes.text(5.75, y, text, va="center", fontsize=9)
        axes.set(title="The second of five sliders is pushed by f", xlim=(-0.7, 9.2), ylim=(-3.2, 0.9))
        axes.set(xticks=(), yticks=(), aspect="equal")
    return [(path, "figure 4: accelerations of sliders")]


def _box(x: float, y: float, color: str) -> Any:
    from matplotlib.patches import FancyBboxPatch

    return FancyBboxPatch((x - 0.3, y - 0.3), 0.6, 0.6, boxstyle="round,pad=0,rounding_size=0.06", color=color)
