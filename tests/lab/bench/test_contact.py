"""The table of contact: filled small, with every bar in place, and the peers' bodies where ours are."""

from __future__ import annotations

import numpy as np
import pytest

import limberjack as lj
from limberjack import scenes
from limberjack_lab.bench import contact
from limberjack_lab.bench.free_bodies import Bodies, run_mujoco, run_ours, run_rapier, to_free_mjcf
from limberjack_lab.bench.table import Table, Watch


def test_the_quick_table_is_filled():
    """Every grid has rows of ours with joints closed and nothing lost; bars are there but not measured."""
    table = Table("contact", contact.TITLE, quick=True)
    with Watch("test") as watch:
        contact.fill(table, True, watch)
    assert not table.wrong
    nets, boxes, asleep, rings, growth, games, threads = (part.rows for part in table.parts)
    for row in (*nets, *boxes, *asleep, *rings, *growth, *games):
        assert isinstance(row["ms"], float) and row["ms"] > 0.0, row
    assert all(row["same"] == "yes" for row in threads)
    for row in nets:
        if row["who"].startswith("impulses"):
            assert row["gap"] <= 0.1 and row["end"] < 1e-2
    for row in games:
        assert row["gap"] >= 0.0 and row["depth"] is not None
        if row["who"].startswith("impulses"):
            assert row["gap"] <= 1.0 and row["energy"] <= 1e-3
    assert len(table.bars) >= 20 and all(bar.passed is None for bar in table.bars)


def test_peers_get_the_same_bodies():
    """A small net falls in MuJoCo as it does by impulses, and its joints are where ours are."""
    mujoco = pytest.importorskip("mujoco")
    model = scenes.net(cells=2)
    bodies = Bodies(model)
    assert len(bodies.ends) == 24 and bodies.fixed.sum() == 4
    assert bodies.gap(bodies.positions, bodies.rotations) < 1e-12
    theirs = run_mujoco(mujoco, bodies, 1 / 960, 12, keep=(11,))
    ours = run_ours(lj.Simulation(model, "impulses", dt=1 / 960), 12, keep=(11,))
    assert theirs.gap < 1e-3 and ours.gap < 1e-7
    fallen = np.linalg.norm(bodies.positions - ours.positions[0], axis=1).max()
    assert fallen > 0.05 and np.abs(theirs.positions[0] - ours.positions[0]).max() < 0.02 * fallen


def test_rapier_gets_the_same_bodies():
    """Boxes dropped in rapier3d are where ours are, and its overlap is what our detection finds at its poses."""
    rapier = pytest.importorskip("rapier3d")
    model = scenes.box_pile(boxes=8)
    bodies = Bodies(model)
    theirs = run_rapier(rapier, bodies, 1 / 240, 4, keep=(3,))
    ours = run_ours(lj.Simulation(model, "impulses", dt=1 / 240), 4, keep=(3,))
    fallen = np.linalg.norm(bodies.positions[bodies.index] - ours.positions[0], axis=1).max()
    assert fallen > 0.005 and np.abs(theirs.positions[0] - ours.positions[0]).max() < 0.1 * fallen
    assert theirs.energy == pytest.approx(0.0, abs=0.1 * 8 * 4.0 * 9.81 * fallen)
    lifted = bodies.positions + (0.0, 0.0, -0.013)
    assert bodies.overlap(lifted, bodies.rotations) == pytest.approx(0.003, abs=1e-9)


def test_other_joints_are_refused():
    """A hinge is no ball: engines of free bodies do not get it in silence."""
    with pytest.raises(lj.ModelError, match="hinge"):
        to_free_mjcf(Bodies(scenes.pendulum(links=3)), 1 / 240)
