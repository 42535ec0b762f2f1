"""Weinstein's scenes anew: a table of all that the catalog has, and a picture each."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

import limberjack as lj
from limberjack import papers
from limberjack.bench.table import Table, Watch
from limberjack.papers.weinstein.loose import Loose, loosened


@pytest.mark.parametrize("name", ["scenes", "sweeps"])
def test_a_table_is_measured_and_drawn(name, tmp_path):
    """Each figure fills its table, loses nothing on the way and writes its pictures."""
    assert f"weinstein/{name}" in papers.chosen(["weinstein"])
    module = importlib.import_module(f"limberjack.papers.weinstein.{name}")
    table = Table(f"weinstein/{name}", module.TITLE, quick=True)
    with Watch("test") as watch:
        found = module.fill(table, True, watch)
    assert not table.wrong and all(bar.passed for bar in table.bars)
    assert table.parts[0].rows
    for path, what in module.draw(found[:2] if isinstance(found, list) else found, tmp_path):
        assert path.stat().st_size > 1000 and what


def test_bodies_without_joints_are_where_they_were():
    """Loose bodies begin where those of the simulation are and as fast; joined ones still pass through each other."""
    model = lj.scenes.bridge(planks=1, blocks=1)
    free = loosened(model)
    assert set(free.body_names) == set(model.body_names)
    assert {free.joint_spec(name).kind for name in free.joint_names} == {"free"}
    assert ("block0_0", "block0_1") in free.spec.excluded
    sim = lj.Simulation(model, "impulses", dt=1 / 240)
    sim.step(30)
    loose = Loose(sim, lj.Impulses(), 1 / 240)
    assert loose.spend(0) >= 0.0
    for name in model.body_names:
        ours, theirs = sim.body(name), loose.sim.body(name)
        assert np.allclose(ours.position, theirs.position, atol=1e-12)
        assert np.allclose(ours.velocity, theirs.velocity, atol=1e-9)
