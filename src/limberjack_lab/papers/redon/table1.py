"""Table 1: milliseconds per step of the pendulum of 300 links, by joints simulated and forces applied."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from limberjack import scenes
from limberjack.methods import Adaptive, DivideAndConquer, Full
from limberjack.simulation.simulation import Simulation
from limberjack_lab.bench.clock import Contender, race
from limberjack_lab.bench.paper_grid import JOINTS, PAPER_MS, paper_ratio
from limberjack_lab.bench.table import Bar, Column, Table, Watch, ratio
from limberjack_lab.papers.pictures import drawing

__all__ = ["PAPER_MS", "TITLE", "Grid", "draw", "fill", "milliseconds", "pushed"]

TITLE = "the pendulum of 300 links by joints simulated (N_A) and forces applied (N_F) (section 7.2)"
LINKS = 300
_QUICK_JOINTS, _QUICK_FORCES = (1, 50), (1, 20)
_SETTLE, _EVERY = 400, 20
# A step with few joints takes less time than the call that starts it: many are taken in one.
_FEW, _STEPS_FEW, _STEPS_MANY = 50, 2000, 200


class Grid(NamedTuple):
    """Milliseconds per step: of adaptive by (N_F, N_A), of the DCA and of method full by N_F."""

    forces: tuple[int, ...]
    joints: tuple[int, ...]
    adaptive: dict[tuple[int, int], float]
    dca: dict[int, float]
    full: dict[int, float]


def pushed(method: Any, forces: int, links: int = LINKS) -> Simulation:
    """Return the pendulum in motion, with lasting sideways forces on so many links, spread from the tip upwards."""
    scene = scenes.get("paper_pendulum", links=links, start="random")
    sim = Simulation(scene.model, method, scene.dt)
    rng = np.random.default_rng(forces)
    for k in np.linspace(links - 1, 0, max(forces, 1))[:forces].round().astype(int):
        sim.apply_wrench(f"link{k}", force=(float(rng.normal()), 0.0, 0.0))
    sim.step(_SETTLE)
    return sim


def milliseconds(sims: dict[Any, Simulation], seconds: float) -> dict[Any, float]:
    """Return the processor time of one step of each simulation [ms], the least of samples taken in turns.

    Args:
        sims: in motion; each sample begins where they are now.
        seconds: how long to measure, all together.
    """

    def contender(key: Any, sim: Simulation) -> Contender:
        start = sim.snapshot()
        few = sim.stats.get("active_joints", sim.model.joint_count) <= _FEW
        steps = _STEPS_FEW if few else _STEPS_MANY

        def restart() -> None:
            sim.restore(start)
            sim.step(_EVERY)  # coefficients that going back has thrown away

        return Contender(str(key), lambda: sim.step(steps), units=steps, prepare=restart)

    found = race([contender(key, sim) for key, sim in sims.items()], seconds=seconds, rounds=3)
    return {key: 1e3 * found[str(key)].cpu for key in sims}


def _measure(
    forces: tuple[int, ...], joints: tuple[int, ...], seconds: float, watch: Watch
) -> tuple[Grid, list[float]]:
    """Return the grid, and per cell the joints that an update exchanges."""
    sims: dict[Any, Simulation] = {}
    methods: dict[Any, Any] = {b: Adaptive(budget=b, update_every=_EVERY) for b in joints}
    methods |= {"DCA": DivideAndConquer(), "full": Full()}
    watch.begin(len(forces) * len(methods) + 1)
    for n in forces:
        for word, method in methods.items():
            watch(f"preparing N_F = {n}, {word}", 1)
            sims[n, word] = pushed(method, n)
    watch("measuring", 1)
    cells = milliseconds(sims, seconds)
    changes = [
        sim.stats["changes"] / max(sim.stats["updates"], 1) for sim in sims.values() if sim.method.name == "adaptive"
    ]
    grid = Grid(
        forces, joints, {(n, b): cells[n, b] for n in forces for b in joints}, {n: cells[n, "DCA"] for n in forces},
        {n: cells[n, "full"] for n in forces},
    )  # fmt: skip
    return grid, changes


def fill(table: Table, quick: bool, watch: Watch) -> Grid:
    """Measure the table; see `FIGURES`."""
    forces = _QUICK_FORCES if quick else tuple(PAPER_MS)
    joints = _QUICK_JOINTS if quick else JOINTS
    grid, changes = _measure(forces, joints, 0.5 if quick else 60.0, watch)
    first = Column("forces", "N_F")
    budgets = tuple(Column(f"a{b}", f"N_A = {b}", "ms") for b in joints)
    whole = Column("dca", "DCA", "ms"), Column("full", "full", "ms")
    part = table.part("ours: time per step", first, *budgets, *whole)
    for n in forces:
        part.add(forces=n, dca=grid.dca[n], full=grid.full[n], **{f"a{b}": grid.adaptive[n, b] for b in joints})
    _add_gains(table, grid, quick)
    part = table.part("times faster than method full", first, *(column._replace(unit="x") for column in budgets))
    for n in forces:
        part.add(forces=n, **{f"a{b}": ratio(grid.full[n], grid.adaptive[n, b]) for b in joints})
    slower = np.median([grid.dca[n] / grid.full[n] for n in forces])
    table.note("processor time of one thread, best of samples in turns; region updates, every 20 steps, included")
    table.note(f"joints exchanged per update: {min(changes):.3g} to {max(changes):.3g}, by cell")
    table.note(
        f"our DCA takes {slower:.3g} times as long as method full, the articulated-body algorithm; the paper puts "
        "this at about 3: the gain over full says more"
    )
    return grid


def _add_gains(table: Table, grid: Grid, quick: bool) -> None:
    """Add how much faster than the DCA each cell is, ours beside the paper's."""
    columns = (Column(f"{who}{b}", f"N_A = {b}\n{who}", "x") for b in grid.joints for who in ("ours", "paper"))
    part = table.part("times faster than the DCA", Column("forces", "N_F"), *columns)
    better = []
    for n in grid.forces:
        row = part.add(forces=n)
        for b in grid.joints:
            own, theirs = grid.dca[n] / grid.adaptive[n, b], paper_ratio(n, b)
            row[f"ours{b}"], row[f"paper{b}"] = own, theirs
            better.append(own / theirs)
    if not quick:
        table.bars += [
            Bar("our gain over our DCA / the paper's over its own, the smallest of the grid", min(better), 1.0),
            Bar("gain over the DCA at N_A = 1, N_F = 1", grid.dca[1] / grid.adaptive[1, 1], 100.0),
        ]


def draw(found: Grid, folder: Path) -> list[tuple[Path, str]]:
    """Draw the gain over the DCA against the joints simulated."""
    from matplotlib import colormaps

    path = folder / "redon-table1.png"
    with drawing(path, 8.0, 5.0) as figure:
        axes = figure.add_axes((0.1, 0.12, 0.87, 0.8))
        for k, n in enumerate(found.forces):
            color = colormaps["plasma"](0.85 * k / max(len(found.forces) - 1, 1))
            own = [found.dca[n] / found.adaptive[n, b] for b in found.joints]
            axes.plot(found.joints, own, "o-", color=color, linewidth=1.6, markersize=4, label=f"{n}")
            theirs = [paper_ratio(n, b) for b in found.joints]
            axes.plot(found.joints, theirs, linestyle=(0, (4, 3)), color=color, linewidth=1.0)
        axes.set(title="Pendulum of 300 links: times faster than the DCA (dashed: the paper's)", yscale="log")
        axes.set(xlabel="joints simulated", ylabel="DCA / adaptive, time per step")
        axes.legend(title="forces", ncols=2)
    return [(path, "table 1: gain over the DCA, beside the paper's")]
