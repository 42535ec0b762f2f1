"""Figure 3: hands and feet of figures of different sizes are bound, 758 scalar constraints in 6 x 30 iterations."""

from __future__ import annotations

from pathlib import Path

import limberjack as lj
from limberjack_lab.bench.clock import race
from limberjack_lab.bench.displacements import assembly
from limberjack_lab.bench.table import Bar, Column, Table, Watch
from limberjack_lab.papers.pictures import ACCENT, COOL, curves

__all__ = ["TITLE", "draw", "fill"]

TITLE = "assembly of a ring of figures, 758 constraints"
_SHOWN = (0, 1, 2, 4, 6, 9, 12)


def fill(table: Table, quick: bool, watch: Watch) -> dict[str, list[float]]:
    """Assemble the ring in both metrics; return the error after each iteration."""
    watch.begin(2)
    part = table.part(
        "error left after so many assembly iterations of 30 solver iterations each",
        Column("metric", "metric"),
        *(Column(f"e{k}", f"{k}", "m") for k in _SHOWN),
        Column("time", "6 x 30", "ms"),
        Column("paper", "the paper\n(SGI O2)", "ms"),
    )
    found: dict[str, list[float]] = {}
    ring = lj.scenes.ring_of_figures(assembled=False)
    for metric in ("unit", "physical"):
        watch(metric, 1)
        found[metric] = [lj.Simulation(ring, "displacements").joint_error().metres]
        for k in range(1, max(_SHOWN) + 1):
            found[metric].append(lj.assemble(ring, iterations=k, solver_iterations=30, metric=metric).error)
        part.add(metric=metric, paper=1000.0, **{f"e{k}": found[metric][k] for k in _SHOWN})
    step = assembly(ring, 6, 30)[1]
    part.rows[0]["time"] = 1e3 * race([step], seconds=0.02 if quick else 1.0)[step.key].cpu
    table.bars.append(Bar("error after 6 x 30 iterations, unit metric [m]", found["unit"][6], 1e-6, False))
    table.bar("time of 6 x 30 iterations [ms]", part.rows[0]["time"], 1000.0, False)
    table.note('the paper says "less than one second"; its metric is that of the masses, "unit" has all bodies alike')
    return found


def draw(found: dict[str, list[float]], folder: Path) -> list[tuple[Path, str]]:
    """Draw the error over the iterations."""
    path, lines = folder / "faure-fig3.png", {f"{metric} metric": errors for metric, errors in found.items()}
    labels = {"title": "Ring of figures, 758 constraints", "xlabel": "assembly iterations of 30"}
    curves(path, lines, (f"o- {COOL}", f"o- {ACCENT}"), 6, ylabel="largest error [m]", **labels)
    return [(path, "figure 3: error of the assembly")]
