"""The table of displacements: filled small, with right answers and every bar in place."""

from __future__ import annotations

import numpy as np

import limberjack as lj
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
        assert row["minres_left"] <= 1e-6 and 0 < row["solve"] < row["step"] < row["minres"]
        assert row["iterations"] < row["minres_iterations"]
    assert [row["rows"] for row in nets] == [3 * (1 + 2 * 10 * 9), 3 * (1 + 2 * 20 * 19)]


def test_the_net_is_closed_and_has_its_rows():
    """Every loop of the net is closed at the start, and it has a row of three for each pair of neighbours."""
    sim = lj.Simulation(displacements.net(5), "displacements")
    assert sim.joint_error().metres < 1e-14 and sim.stats["rows"] == 3 * (1 + 2 * 5 * 4)


def test_the_unit_metric_is_that_of_the_geometry():
    """All bodies weigh 1 kg; the inertia of a rod with joints at its ends is 1.6 times its half length, squared."""
    builder = lj.Builder("rods")
    for name, above, at in (("upper", "world", (0, 0, 0)), ("lower", "upper", (0, 0, -1))):
        builder.add_body(name, mass=7.0, com=(0, 0, -0.5), inertia=(1, 2, 3))
        builder.add_joint_ball(f"{name}_end", above, name, position=at)
    model = displacements.unit_metric(builder.build())
    assert [model.body(name).mass for name in model.body_names] == [1.0, 1.0]
    np.testing.assert_allclose(model.body("upper").inertia, 0.64 * np.eye(3))
