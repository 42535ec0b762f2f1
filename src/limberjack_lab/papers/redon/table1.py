"""Table 1: time per step of the pendulum of 300 links, by joints simulated and forces applied."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from limberjack_lab.bench import paper_grid
from limberjack_lab.bench.paper_grid import FORCES, JOINTS, Grid, paper_ratio
from limberjack_lab.bench.table import Table, Watch
from limberjack_lab.papers.pictures import plot

__all__ = ["TITLE", "draw", "fill"]

TITLE = "the pendulum of 300 links by joints simulated (N_A) and forces applied (N_F) (section 7.2)"
_QUICK = ((1, 20), (1, 50))


def fill(table: Table, quick: bool, watch: Watch) -> Grid:
    """Measure the table; see `FIGURES`."""
    chosen = _QUICK if quick else (FORCES, JOINTS)
    watch.begin(len(chosen[0]))
    grid = paper_grid.fill(table, 300, chosen, 0.2 if quick else 10.0, watch)
    better = min(grid.gain(n, b) / paper_ratio(n, b) for n in grid.forces for b in grid.joints)
    table.bar("our gain over our DCA / the paper's over its own, the smallest of the grid", better, 1.0)
    table.bar("gain over the DCA at N_A = 1, N_F = 1", grid.gain(1, 1), 100.0)
    slower = np.median([grid.gain(n, "full") for n in grid.forces])
    table.note("processor time of one thread, best of samples in turns; region updates, every 20 steps, included")
    table.note(f"joints exchanged per update: {min(grid.changes):.3g} to {max(grid.changes):.3g}, by cell")
    table.note(
        f"our DCA takes {slower:.3g} times as long as method full, the articulated-body algorithm; the paper puts "
        "this at about 3: the gain over full says more"
    )
    return grid


def draw(found: Grid, folder: Path) -> list[tuple[Path, str]]:
    """Draw the gain over the DCA against the joints simulated."""
    from matplotlib import colormaps

    path = folder / "redon-table1.png"
    labels = {"xlabel": "joints simulated", "ylabel": "DCA / adaptive, time per step", "yscale": "log"}
    title = "Pendulum of 300 links: times faster than the DCA (dashed: the paper's)"
    with plot(path, 8.0, 5.0, (0.1, 0.12, 0.87, 0.8), title=title, **labels) as axes:
        for k, n in enumerate(found.forces):
            color = colormaps["plasma"](0.85 * k / max(len(found.forces) - 1, 1))
            own = [found.gain(n, b) for b in found.joints]
            axes.plot(found.joints, own, "o-", color=color, linewidth=1.6, markersize=4, label=f"{n}")
            theirs = [paper_ratio(n, b) for b in found.joints]
            axes.plot(found.joints, theirs, linestyle=(0, (4, 3)), color=color, linewidth=1.0)
        axes.legend(title="forces", ncols=2)
    return [(path, "table 1: gain over the DCA, beside the paper's")]
