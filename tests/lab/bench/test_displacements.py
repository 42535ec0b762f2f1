"""The table of displacements: filled small, with right answers and every bar in place."""

from __future__ import annotations

import numpy as np

from limberjack_lab.bench import displacements
from limberjack_lab.bench.table import Table, Watch


def test_the_quick_table_is_filled():
    """Scenes have the paper's counts, both solvers reach the residual asked for, nets have their rows."""
    table = Table("displacements", displacements.TITLE, quick=True)
    with Watch("test") as watch:
        displacements.fill(table, True, watch)
    assert not table.wrong
    frames, solves, nets = (part.rows for part in table.parts)
    assert [(row["solids"], row["rows"]) for row in frames] == [(210, 758), (56, 261), (56, 261), (28, 108)]
    assert frames[0]["error"] <= 1e-6
    for row in solves:
        assert row["left"] <= 1e-6 and row["ours"] > 0 and row["tree"] > 0
        assert row["tree_iterations"] < row["iterations"] < row["minres_iterations"]
    assert [row["rows"] for row in nets] == [3 * (1 + 2 * 10 * 9), 3 * (1 + 2 * 20 * 19)]


def test_a_flat_net_is_at_rest_under_common_motion():
    """Rows of the net ignore motions of all its bodies as one, but for the row that ties it to the ground."""
    system, _, j, _ = displacements.flat_net(25)
    u = np.tile((0.0, 0.0, 0.0, 1.0, 2.0, 3.0), 25)
    for c in range(1, len(system.row_start) - 1):
        total = np.zeros(3)
        for t in range(system.incidence_start[c], system.incidence_start[c + 1]):
            block = j[system.block_start[t] : system.block_start[t + 1]].reshape(3, 6)
            total += block @ u[6 * system.incidence_body[t] : 6 * system.incidence_body[t] + 6]
        assert np.abs(total).max() < 1e-14
