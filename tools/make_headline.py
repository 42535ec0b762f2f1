"""Draw a budget at work, still and moving, and measure the table of error against cost.

Usage: python tools/make_headline.py [picture] [film] [table]     (default: all; pictures need the extra "plot")

The picture is docs/images/budget.png: people hung up by a hand and pendulums of 300 links, each after the same
time, simulated with few, more and all of their joints; what moves as one has one colour. The film, the moving picture
of the README, is docs/images/budgets.gif: the same in motion. The table goes
between the lines `<!-- budget:start -->` and `<!-- budget:end -->` of docs/level_of_detail.md and
docs/methods/adaptive.md. The same sources give the same picture; times are those of this machine.
"""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import limberjack as lj
from limberjack.cli.demo import canvas
from limberjack.viewer.camera import Eye
from limberjack.viewer.colors import body_values, part_colors
from limberjack.viewer.drawing import PALETTE, Drawing
from limberjack.viewer.picture import Painter
from limberjack_lab.bench.clock import Segment, microseconds
from limberjack_lab.bench.table import machine
from limberjack_lab.papers.pictures import chain_corners
from make_images import image, save_gif

ROOT = Path(__file__).parent.parent
PICTURE, FILM = (ROOT / "docs" / "images" / name for name in ("budget.png", "budgets.gif"))
# The film opens the README: it must load at once.
LARGEST = {PICTURE: 250_000, FILM: 900_000}
PAGES = (ROOT / "docs" / "level_of_detail.md", ROOT / "docs" / "methods" / "adaptive.md")
START, END = "<!-- budget:start -->\n", "<!-- budget:end -->\n"
# Joints simulated, None = all by method full.
FIGURES, PENDULUMS, MEASURED = (3, 10, 30, None), (5, 20, 100, None), (1, 5, 20, 50, 100)
_INK, _PALE = "#22303c", "#aab3ba"
_BOLD: dict[str, Any] = {"ha": "center", "weight": "bold", "color": _INK}
_HUNG, _SWUNG = 0.5, 4.0  # moments of the picture [s]
_SECONDS, _RATE = 5.0, 30.0  # how long errors are looked at [s], and how often [1/s]
_LINKS, _DT = 300, 2.5e-4
# Size of the picture and of its painted part [pixels]; the camera of the latter [m, rad], and people as far apart as
# their captions [m].
_WIDE, _HIGH, _PAINTED = 1560, 980, 530
_FAR, _ASIDE, _ANGLE = 9.0, 0.7, 0.35
_APART = 0.24 * _WIDE / _PAINTED * 2.0 * _FAR * np.tan(0.5 * _ANGLE)
# The film: its size and frames; people in real time, pendulums three times as fast.
_FILM_SIZE, _FRAMES, _FILM_RATE, _FASTER = (720, 452), 60, 15, 3.0


def _method(budget: int | None) -> Any:
    return "full" if budget is None else lj.Adaptive(budget=budget)


def _clusters(sim: lj.Simulation) -> np.ndarray:
    """Return the root of each body's rigid cluster."""
    values = body_values(sim, "rigid cluster")
    assert values is not None
    return values


def hung(budget: int | None, seconds: float | None = None) -> lj.Simulation:
    """Return a person who was let go a moment ago and hangs by the right hand."""
    sim = lj.Simulation(lj.scenes.humanoid(limits="soft", contacts=False), _method(budget), dt=1e-3)
    pose = {"right_shoulder_flexion": 2.7, "left_shoulder_flexion": 0.9, "left_hip_flexion": 1.0, "left_knee": 0.9}
    for name, angle in (pose | {"right_hip_flexion": -0.2, "right_knee": 0.3}).items():
        sim.joint(name).q = angle
    q = sim.q.copy()
    q[:3] += np.array((0.0, 0.0, 2.45)) - sim.body("right_hand").position
    sim.q = q
    sim.grab("right_hand")
    sim.step(round((_HUNG if seconds is None else seconds) / sim.dt))
    return sim


@cache
def _hall(count: int, width: int, height: int) -> tuple[Drawing, Painter]:
    """Return the drawing and the painter of so many people."""
    drawing = Drawing(lj.scenes.crowd(figures=count, vary=0.0))
    return drawing, Painter(drawing, width, height, smooth=3)


def painted(sims: list[lj.Simulation], width: int, height: int) -> np.ndarray:
    """Return an image (height, width, 3) of people side by side, rigid clusters coloured."""
    drawing, painter = _hall(len(sims), width, height)
    values = np.concatenate([_clusters(sim) for sim in sims])
    painter.colors[: len(drawing.parts.color)] = part_colors(drawing, "rigid cluster", values, 1.0)
    # beside the middle of the world, where the tiles of the ground meet
    places = _ASIDE + _APART * (np.arange(len(sims)) - 0.5 * (len(sims) - 1))
    positions = np.vstack([sim.positions + (0.0, y, 0.0) for sim, y in zip(sims, places, strict=True)])
    eye = Eye(np.array((_FAR, _ASIDE, 1.9)), np.array((0.0, _ASIDE, 1.17)), _ANGLE)
    return painter.paint(positions, np.vstack([sim.rotations for sim in sims]), eye)


def swung(budget: int | None, seconds: float = _SWUNG) -> lj.Simulation:
    """Return a damped pendulum that starts as a curve, after some time."""
    sim = lj.Simulation(lj.scenes.paper_pendulum(links=_LINKS, start="random"), _method(budget), dt=_DT)
    sim.step(round(seconds / _DT))
    return sim


def _caption(budget: int | None, all_joints: int) -> str:
    return f"all {all_joints} joints" if budget is None else f"{budget} of {all_joints} joints"


def _pendulum(axes: Any, sim: lj.Simulation, full: np.ndarray) -> None:
    """Draw a pendulum, rigid clusters coloured, over where it is with all joints."""
    from matplotlib.collections import LineCollection

    corners = chain_corners(sim.model, sim.q)
    roots = _clusters(sim)
    order = np.searchsorted(np.unique(roots), roots)
    axes.plot(*full.T, color=_PALE, linewidth=1.4, zorder=1)
    pieces = np.stack([corners[:-1], corners[1:]], axis=1)
    axes.add_collection(
        LineCollection(list(pieces), colors=np.array(PALETTE)[order % 7], linewidths=3.2, capstyle="round")
    )
    axes.plot(*corners[0], "o", color=_INK, markersize=5, zorder=3)


def _compose(figure: Any, people: list[lj.Simulation], chains: list[lj.Simulation], box: Any, letters: int) -> None:
    """Draw people above and pendulums below, with captions.

    Args:
        figure: of the size of the picture.
        people: the figures.
        chains: the pendulums, the last one with all joints.
        box: smallest and largest corner (2, 2) that the pendulums are shown in.
        letters: size of the captions.
    """
    width, height = (round(figure.dpi * inch) for inch in figure.get_size_inches())
    low, high = box
    full = chain_corners(chains[-1].model, chains[-1].q)
    painting = round(height * _PAINTED / _HIGH)
    figure.add_axes((0.0, 1.0 - painting / height, 1.0, painting / height), frameon=False).imshow(
        painted(people, width, painting), aspect="auto"
    )
    bold = _BOLD | {"fontsize": letters}
    for k in range(4):
        at = 0.14 + 0.24 * k
        figure.text(at, 0.435, _caption(FIGURES[k], people[k].model.joint_count - 1), **bold)
        figure.text(at, 0.028, _caption(PENDULUMS[k], _LINKS), **bold)
        axes = figure.add_axes((at - 0.12, 0.07, 0.24, 0.32), frameon=False, aspect="equal")
        _pendulum(axes, chains[k], full)
        axes.set(xlim=(low[0] - 15, high[0] + 15), ylim=(low[1] - 15, high[1] + 8))
    for axes in figure.axes:
        axes.set(xticks=(), yticks=())
    text = "what moves as one rigid body has one colour; grey: the pendulum with all joints"
    figure.text(0.5, 0.404, text, ha="center", fontsize=letters - 2, style="italic", color="#5d6a74")


def draw() -> None:
    """Write the picture."""
    people, chains = [hung(budget) for budget in FIGURES], [swung(budget) for budget in PENDULUMS]
    full = chain_corners(chains[-1].model, chains[-1].q)
    with canvas(_WIDE / 130, _HIGH / 130, 130) as figure:
        _compose(figure, people, chains, (full.min(axis=0), full.max(axis=0)), 12)
        figure.savefig(PICTURE, format="png", pil_kwargs={"optimize": True})


def film() -> None:
    """Write the moving picture: from the moment that all let go."""
    people, chains = [hung(budget, 0.0) for budget in FIGURES], [swung(budget, 0.0) for budget in PENDULUMS]
    images = []
    for k in range(_FRAMES):
        for sim in people if k else ():
            sim.step(round(1.0 / (_FILM_RATE * sim.dt)))
        for sim in chains if k else ():
            sim.step(round(_FASTER / (_FILM_RATE * _DT)))
        with canvas(_FILM_SIZE[0] / 100, _FILM_SIZE[1] / 100, 100) as figure:
            _compose(figure, people, chains, ((-0.78 * _LINKS, -0.9 * _LINKS), (0.72 * _LINKS, 0.0)), 9)
            images.append(image(figure))
    save_gif(FILM, images, round(1000 / _FILM_RATE))


class Row(NamedTuple):
    """What a budget costs and misses."""

    budget: int | None  # joints; None = all by method full
    error: float  # mean distance of the links from where `full` has them [m]
    share: float  # the same over the mean distance they travel
    us: float  # one step


def measured(budgets: tuple[int, ...] = MEASURED, seconds: float = _SECONDS, each: float = 2.0) -> list[Row]:
    """Return a row for each budget and one for all joints; each is timed for `each` seconds."""
    rows, sims = [], {budget: swung(budget, 0.0) for budget in (None, *budgets)}
    motions = {budget: sim.run(seconds, rate=_RATE).positions for budget, sim in sims.items()}
    full = motions[None]
    way = np.linalg.norm(full - full[0], axis=2).mean()
    runs = [Segment(swung(budget, 0.2 * seconds)).contender(str(budget)) for budget in sims]
    times = microseconds(runs, each)
    for budget in (*budgets, None):
        error = float(np.linalg.norm(motions[budget] - full, axis=2).mean())
        rows.append(Row(budget, error, error / way, times[str(budget)]))
    return rows


def table(rows: list[Row]) -> str:
    """Return the table of the documentation."""
    heads = (f"joints of {_LINKS} simulated", "error: mean distance from `full`", "of the way travelled", "one step")
    lines = [f"| {' | '.join(heads)} | faster |", "| ---: | ---: | ---: | ---: | ---: |"]
    all_joints = rows[-1].us
    for budget, error, share, us in rows[:-1]:
        lines.append(f"| {budget} | {error:.2g} m | {100 * share:.2g} % | {us:.3g} us | {all_joints / us:.3g}x |")
    lines.append(f"| all, `full` | - | - | {all_joints:.3g} us | 1x |")
    here = machine()
    foot = (
        f"A damped pendulum of {_LINKS} links of 1 m, over {_SECONDS:g} s in steps of {1e3 * _DT:g} ms with the "
        "default integrator; the time includes choosing the joints anew every 20 steps. "
        f"One thread; {here['processor']}, Python {here['python']}, Numba {here['numba']}. "
        "Picture and table: `make headline`."
    )
    return "\n".join([*lines, "", foot]) + "\n"


def fill(rows: list[Row], path: Path) -> None:
    """Put the table between the markers of a page."""
    before, start, rest = path.read_text(encoding="utf-8").partition(START)
    _, end, after = rest.partition(END)
    if not start or not end:
        raise SystemExit(f"{path} has no lines {START.strip()} and {END.strip()}")
    path.write_text(f"{before}{START}{table(rows)}{END}{after}", encoding="utf-8")


def main(words: list[str]) -> int:
    """Draw and measure; return 1 when the picture has become too large, 2 for words that are unknown."""
    unknown = set(words) - {"picture", "film", "table"}
    if unknown:
        print(f"no {', '.join(sorted(unknown))}; there are picture, film and table", file=sys.stderr)
        return 2
    if not words or "table" in words:
        rows = measured()
        for page in PAGES:
            fill(rows, page)
    status = 0
    for word, path, make in (("picture", PICTURE, draw), ("film", FILM, film)):
        if words and word not in words:
            continue
        make()
        size = path.stat().st_size
        print(f"{path}: {size / 1000:.0f} kB")
        if size > LARGEST[path]:
            print(f"{path.name} is larger than {LARGEST[path] / 1000:.0f} kB", file=sys.stderr)
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
