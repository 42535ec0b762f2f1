"""Joints one after the other, in one step of 1/60 s: the paper's own step."""

from __future__ import annotations

import numpy as np
import pytest

import limberjack as lj

SWEPT = lj.Impulses(joints="sweeps", substeps=1, sleeping=False)


@pytest.mark.parametrize(
    "name,options,seconds",
    [("long_chain", {"links": 30, "damping": 0.0}, 2.0), ("net", {"cells": 6}, 2.0), ("bridge", {}, 2.0)],
)
@pytest.mark.parametrize("joints", ["sweeps", "global"])
def test_joints_hold_at_one_step_per_frame(joints, name, options, seconds):
    """Chain, net and bridge stay together within 0.1 mm in single steps of 1/60 s, and neither gain energy nor tire."""
    sim = lj.Simulation(lj.scenes.get(name, **options).model, lj.Impulses(joints=joints, substeps=1), dt=1.0 / 60.0)
    start, kinetic, totals = sim.energy().total, 0.0, []
    for _ in range(round(60 * seconds)):
        sim.step(1)
        energy = sim.energy()
        kinetic = max(kinetic, energy.kinetic)
        totals.append(energy.total - start)
        assert sim.joint_error().metres < 1e-4
    assert max(totals) < 0.02 * kinetic + 0.1
    # taut strings end motions along them
    assert min(totals) > (-0.1 if joints == "sweeps" else -0.15) * kinetic - 0.1


def test_a_taut_bridge_neither_sags_nor_is_thrown():
    """A bridge that hangs still moves by less than a millimetre in four seconds of single steps of 1/60 s."""
    sim = lj.Simulation(lj.scenes.bridge(), SWEPT, dt=1.0 / 60.0)
    start = sim.positions
    sim.step(240)
    assert np.abs(sim.positions - start).max() < 1e-3


def test_forces_of_swept_joints_are_state():
    """A run resumed from a snapshot continues to the bit: the forces that sweeps start from are part of it."""
    sims = [lj.Simulation(lj.scenes.net(cells=3), SWEPT, dt=1.0 / 60.0) for _ in range(2)]
    sims[0].step(20)
    sims[1].restore(sims[0].snapshot())
    for sim in sims:
        sim.step(20)
    assert sims[0].state_hash() == sims[1].state_hash()
