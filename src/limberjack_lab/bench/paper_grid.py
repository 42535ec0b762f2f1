"""The paper's Table 1: time against the number of forces and of joints simulated, as a ratio to divide and conquer.

Redon, Galoppo and Lin 2005, Table 1: a pendulum of 300 links, a 2.8 GHz Pentium, milliseconds per step.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from limberjack import scenes
from limberjack.methods.adaptive.options import Adaptive
from limberjack.methods.divide_and_conquer import DivideAndConquer
from limberjack.simulation.simulation import Simulation
from limberjack_lab.bench.clock import race
from limberjack_lab.bench.courses import PERIOD, Course
from limberjack_lab.bench.table import Column, Table, Watch, ratio

__all__ = ["FORCES", "JOINTS", "PAPER_MS", "fill"]

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


def paper_ratio(forces: int, joints: int) -> float:
    """Return the paper's time of divide and conquer over that of adaptive dynamics."""
    times = PAPER_MS[forces]
    return times[-1] / times[JOINTS.index(joints)]


def _pushed(links: int, method: Any, forces: int) -> Simulation:
    """Return the paper's pendulum in motion, with `forces` sideways forces on links spread from the tip upwards."""
    scene = scenes.get("paper_pendulum", links=links, start="random")
    sim = Simulation(scene.model, method, scene.dt)
    rng = np.random.default_rng(forces)
    for k in np.linspace(links - 1, 0, max(forces, 1))[:forces].round().astype(int):
        sim.apply_wrench(scene.model.body_names[k], force=(float(rng.normal()), 0.0, 0.0))
    sim.step(_SETTLE)
    return sim


def fill(table: Table, links: int, grid: tuple[tuple[int, ...], tuple[int, ...]], seconds: float, watch: Watch) -> None:
    """Measure the grid of forces and joints: times, and ratios beside the paper's."""
    forces, joints = grid
    times = table.part(
        f"Table 1 of Redon, Galoppo and Lin 2005: us per step, {links} links, by forces and joints simulated",
        Column("forces", "forces"),
        *(Column(f"n{k}", f"{k}\nsimulated", "us") for k in joints),
        Column("dca", "divide and conquer,\nall joints", "us"),
    )
    ratios = table.part(
        "Table 1: time of divide and conquer over ours, and the paper's own",
        Column("forces", "forces"),
        *(
            c
            for k in joints
            for c in (Column(f"n{k}", f"{k} simulated,\nours", "x"), Column(f"p{k}", "the\npaper's", "x"))
        ),
    )
    for count in forces:
        watch(f"Table 1, {count} forces", 1)
        row: dict[str, Any] = times.add(forces=count)
        other: dict[str, Any] = ratios.add(forces=count)
        methods: dict[str, Any] = {f"n{k}": Adaptive(budget=k, update_every=PERIOD) for k in joints}
        methods["dca"] = DivideAndConquer()
        sims = {key: _pushed(links, method, count) for key, method in methods.items()}
        best = race([Course(sim, least=200).contender(key) for key, sim in sims.items()], seconds=seconds)
        for key, one in best.items():
            row[key] = 1e6 * one.cpu
        for k in joints:
            other[f"n{k}"], other[f"p{k}"] = ratio(row["dca"], row[f"n{k}"]), paper_ratio(count, k)
