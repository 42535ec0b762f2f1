"""Table 1 of Redon, Galoppo and Lin 2005: time per step against the forces applied and the joints simulated.

The paper's numbers are milliseconds per step of a pendulum of 300 links on a 2.8 GHz Pentium. Measured here for the
table `adaptive` and for `papers redon/table1`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import limberjack as lj
from limberjack_lab.bench.clock import PERIOD, Segment, microseconds
from limberjack_lab.bench.table import Column, Table, Watch, ratio

__all__ = ["FORCES", "JOINTS", "PAPER_MS", "Grid", "fill", "paper_ratio", "pushed", "step_times"]

FORCES = (1, 5, 10, 20, 50, 250)
JOINTS = (1, 50, 100, 150, 200, 250)
# [forces][joints], the last column divide and conquer on all 300 [ms].
PAPER_MS = {
    1: (0.02, 0.51, 1.71, 2.97, 4.04, 5.40, 5.89),
    5: (0.07, 0.49, 1.54, 3.21, 4.34, 5.19, 5.89),
    10: (0.16, 0.73, 1.47, 3.03, 4.22, 5.16, 5.88),
    20: (0.40, 0.90, 1.60, 3.00, 4.72, 5.56, 5.90),
    50: (0.98, 1.40, 2.16, 3.58, 4.99, 5.59, 5.92),
    250: (1.83, 2.30, 2.97, 4.28, 5.43, 6.31, 6.04),
}
_SETTLE = 400


class Grid(NamedTuple):
    """Time of a step [us] by forces and by joints simulated, "dca" or "full"; and the joints an update exchanges."""

    forces: tuple[int, ...]
    joints: tuple[int, ...]
    us: dict[tuple[int, Any], float]
    changes: list[float]

    def gain(self, forces: int, joints: Any, over: str = "dca") -> float:
        """Return how many times faster a cell is than divide and conquer, or than method full."""
        return self.us[forces, over] / self.us[forces, joints]


def paper_ratio(forces: int, joints: int) -> float:
    """Return the paper's time of divide and conquer over that of adaptive dynamics."""
    times = PAPER_MS[forces]
    return times[-1] / times[JOINTS.index(joints)]


def pushed(links: int, method: Any, forces: int) -> lj.Simulation:
    """Return the paper's pendulum in motion, with `forces` sideways forces on links spread from the tip upwards."""
    scene = lj.scenes.get("paper_pendulum", links=links, start="random")
    sim = lj.Simulation(scene.model, method, scene.dt)
    rng = np.random.default_rng(forces)
    for k in np.linspace(links - 1, 0, max(forces, 1))[:forces].round().astype(int):
        sim.apply_wrench(scene.model.body_names[k], force=(float(rng.normal()), 0.0, 0.0))
    sim.step(_SETTLE)
    return sim


def step_times(sims: dict[Any, lj.Simulation], seconds: float, least: int = 200) -> dict[Any, float]:
    """Return the processor time of one step of each simulation [us], the least of samples of `least` steps or more."""
    runs = [Segment(sim, least=least).contender(str(key)) for key, sim in sims.items()]
    found = microseconds(runs, seconds / len(runs), rounds=3)
    return {key: found[str(key)] for key in sims}


def fill(table: Table, links: int, grid: tuple[tuple[int, ...], tuple[int, ...]], seconds: float, watch: Watch) -> Grid:
    """Measure the grid of forces and joints, `seconds` for each number of forces: times, and gains over both."""
    forces, joints = grid
    found = Grid(forces, joints, {}, [])
    first = Column("forces", "forces")
    times = table.part(
        f"Table 1 of Redon, Galoppo and Lin 2005: us per step, {links} links, by forces and joints simulated",
        first,
        *(Column(f"n{k}", f"{k}\nsimulated", "us") for k in joints),
        Column("dca", "divide and conquer,\nall joints", "us"),
        Column("full", "method full,\nall joints", "us"),
    )
    pairs = ((Column(f"n{k}", f"{k} simulated,\nours", "x"), Column(f"p{k}", "the\npaper's", "x")) for k in joints)
    ratios = table.part(
        "Table 1: time of divide and conquer over ours, and the paper's own",
        first,
        *(c for pair in pairs for c in pair),
    )
    for count in forces:
        watch(f"Table 1, {count} forces", 1)
        row: dict[str, Any] = times.add(forces=count)
        other: dict[str, Any] = ratios.add(forces=count)
        methods: dict[Any, Any] = {k: lj.Adaptive(budget=k, update_every=PERIOD) for k in joints}
        methods |= {"dca": lj.DivideAndConquer(), "full": lj.Full()}
        sims = {key: pushed(links, method, count) for key, method in methods.items()}
        for key, us in step_times(sims, seconds).items():
            found.us[count, key] = us
            row[f"n{key}" if key in joints else key] = us
        for k in joints:
            other[f"n{k}"], other[f"p{k}"] = ratio(row["dca"], row[f"n{k}"]), paper_ratio(count, k)
            found.changes.append(sims[k].stats["changes"] / max(sims[k].stats["updates"], 1))
    return found
