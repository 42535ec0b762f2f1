"""Figure 5: the motion of a pendulum of 300 links, simplified step by step, and how far it strays from the full one."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import limberjack as lj
from limberjack import scenes
from limberjack_lab.bench.paper_grid import pushed, step_times
from limberjack_lab.bench.table import Table, Watch
from limberjack_lab.papers.pictures import ACCENT, COOL, INK, PALE, chain_corners, drawing, link_length

__all__ = ["TITLE", "Study", "draw", "fill", "study"]

TITLE = "the motion of a pendulum of 300 links with 100, 50, 20, 5 and 1 joints simulated (section 7.1)"
BUDGETS = (100, 50, 20, 5, 1)
# Milliseconds per step the paper gives; it has no picture with 5 joints.
PAPER_MS = {300: 5.0, 100: 1.7, 50: 0.7, 20: 0.25, 1: 0.02}
_STATES, _SECONDS = 20, 10.0
_QUICK_STATES, _QUICK_SECONDS = 2, 0.5
_SHOWN = 9


class Study(NamedTuple):
    """What was found."""

    model: lj.Model  # the pendulum
    times: np.ndarray  # of the frames [s]
    errors: dict[int, np.ndarray]  # per budget the (states, frames) mean distance of the links from the full run [m]
    travel: np.ndarray  # (states, frames) mean distance of the links from their start in the full run [m]
    motions: dict[int, np.ndarray]  # of the first state, per budget and for all joints, the frames' q


def study(states: int, seconds: float, links: int, budgets: tuple[int, ...], watch: Watch) -> Study:
    """Run the full and the simplified pendulums from so many random states."""
    errors: dict[int, list[np.ndarray]] = {budget: [] for budget in budgets}
    motions: dict[int, np.ndarray] = {}
    travel = []
    watch.begin(states * (1 + len(budgets)))
    for seed in range(states):
        scene = scenes.get("paper_pendulum", links=links, start="random", seed=seed)
        watch(f"state {seed + 1} of {states}, all joints", 1)
        whole = lj.Simulation(scene.model, lj.Full(), scene.dt).run(seconds, rate=30.0)
        travel.append(np.linalg.norm(whole.positions - whole.positions[0], axis=2).mean(axis=1))
        kept = {links: whole.q}
        for budget in budgets:
            watch(f"state {seed + 1} of {states}, {budget} joints", 1)
            method = lj.Adaptive(budget=budget, metric="joints")
            motion = lj.Simulation(scene.model, method, scene.dt).run(seconds, rate=30.0)
            errors[budget].append(np.linalg.norm(motion.positions - whole.positions, axis=2).mean(axis=1))
            kept[budget] = motion.q
        motions = motions or kept
    found = {budget: np.array(rows) for budget, rows in errors.items()}
    return Study(scene.model, whole.times, found, np.array(travel), motions)


def fill(table: Table, quick: bool, watch: Watch) -> Study:
    """Measure the figure; see `FIGURES`."""
    states, seconds = (_QUICK_STATES, _QUICK_SECONDS) if quick else (_STATES, _SECONDS)
    links = 60 if quick else 300
    found = study(states, seconds, links, tuple(b for b in BUDGETS if b < links), watch)
    watch("measuring")
    methods: dict[Any, Any] = {"DCA": lj.DivideAndConquer(), "full": lj.Full()}
    methods |= {budget: lj.Adaptive(budget=budget, metric="joints") for budget in found.errors}
    sims = {key: pushed(links, method, 0) for key, method in methods.items()}
    times = {key: 1e-3 * us for key, us in step_times(sims, 0.5 if quick else 15.0).items()}
    part = table.part(
        f"mean distance of the links from the full run over {seconds:g} s, {states} random states",
        "joints: joints simulated; median: median [m]; low: lower|quartile [m]; high: upper|quartile [m]; "
        "share: median share|of the motion [%]; ms: ours [ms/step]; gain: DCA / ours [x]; "
        "paper_ms: paper [ms/step]; paper_gain: DCA /|the paper's [x]",
    )
    travelled = found.travel.mean(axis=1)
    part.add(joints=f"all {links}, by the DCA", ms=times["DCA"], gain=1.0, paper_ms=PAPER_MS.get(links))
    part.add(joints=f"all {links}, method full", ms=times["full"], gain=times["DCA"] / times["full"])
    medians = []
    for budget, rows in found.errors.items():
        error = rows.mean(axis=1)
        medians.append(float(np.median(error)))
        part.add(
            joints=f"{budget}", median=medians[-1], low=float(np.quantile(error, 0.25)),
            high=float(np.quantile(error, 0.75)), share=100.0 * float(np.median(error / travelled)),
            ms=times[budget], gain=times["DCA"] / times[budget], paper_ms=PAPER_MS.get(budget),
            paper_gain=PAPER_MS[300] / PAPER_MS[budget] if budget in PAPER_MS else None,
        )  # fmt: skip
    growing = min(b / a for a, b in zip(medians[:-1], medians[1:], strict=True))
    table.bar("median error of a budget / of the next larger one, the smallest", growing, 1.0)
    table.note(f"mean distance the links travel: {np.median(travelled):.3g} m, median over the states")
    table.note("the full run is that of method full; the region is updated every 20 steps of 0.25 ms")
    return found


def draw(found: Study, folder: Path) -> list[tuple[Path, str]]:
    """Draw the same moments of all motions in rows, and the errors over time."""
    strobe, growth = folder / "redon-fig5.png", folder / "redon-fig5-error.png"
    _draw_rows(found, strobe)
    with drawing(growth, 8.0, 4.6) as figure:
        axes = figure.add_axes((0.1, 0.2, 0.87, 0.71))
        axes.plot(found.times, np.median(found.travel, axis=0), color=PALE, linestyle=(0, (4, 3)), label="travelled")
        for k, (budget, rows) in enumerate(found.errors.items()):
            color = _shade(k, len(found.errors))
            axes.plot(found.times, np.median(rows, axis=0), color=color, linewidth=1.8, label=f"{budget} joints")
            low, high = np.quantile(rows, (0.25, 0.75), axis=0)
            axes.fill_between(found.times, low, high, color=color, alpha=0.15, linewidth=0)
        title = f"Mean distance of the links from the full run, {len(found.travel)} states: median and quartiles"
        axes.set(title=title, xlabel="time [s]", ylabel="[m]", yscale="log")
        axes.set_ylim(bottom=1e-5 * float(found.travel.max()))
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=6, fontsize=8.5)
    return [(strobe, "figure 5: the motions, simplified"), (growth, "figure 5: how far they stray")]


def _shade(k: int, count: int) -> Any:
    from matplotlib import colormaps

    return colormaps["plasma"](0.85 * k / max(count - 1, 1))


def _draw_rows(found: Study, path: Path) -> None:
    frames = np.linspace(0, len(found.times) - 1, _SHOWN).round().astype(int)
    reach = found.model.body_count * link_length(found.model)
    wide, high = 1.05 * (_SHOWN - 1) + 2.2, 1.12 * len(found.motions) + 0.25
    with drawing(path, 13.0, 13.0 * high / wide) as figure:
        axes = figure.add_axes((0.0, 0.0, 1.0, 1.0), frameon=False)
        for row, (joints, motion) in enumerate(found.motions.items()):
            y = -1.12 * reach * row
            for column, k in enumerate(frames):
                shift = np.array((1.05 * reach * column, y))
                if row:
                    full = next(iter(found.motions.values()))
                    axes.plot(*(chain_corners(found.model, full[k]) + shift).T, color=PALE, linewidth=0.8)
                color = COOL if row == 0 else ACCENT
                axes.plot(*(chain_corners(found.model, motion[k]) + shift).T, color=color, linewidth=1.4)
                axes.plot(*shift, "o", color=INK, markersize=2.5)
                if row == 0:
                    axes.text(shift[0], 0.08 * reach, f"{found.times[k]:.1f} s", ha="center", fontsize=8)
            axes.text(-1.0 * reach, y - 0.45 * reach, f"{joints}", fontsize=15, ha="center", weight="bold")
            axes.text(-1.0 * reach, y - 0.6 * reach, "joints", fontsize=8, ha="center")
        axes.set(xlim=(-1.3 * reach, (wide - 1.3) * reach), ylim=((0.2 - high) * reach, 0.2 * reach))
        axes.set(xticks=(), yticks=())
