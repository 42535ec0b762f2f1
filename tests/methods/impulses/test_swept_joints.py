"""Joints one after the other, in one step of 1/60 s: the paper's own step."""

from __future__ import annotations

import pytest

import limberjack as lj


@pytest.mark.parametrize("name,options,seconds", [("long_chain", {"links": 30}, 2.0), ("net", {"cells": 6}, 1.5)])
def test_swept_joints_hold_at_one_step_per_frame(name, options, seconds):
    """Chains and nets stay together within 2 mm in single steps of 1/60 s, and gain no energy."""
    model = lj.scenes.get(name, **options).model
    sim = lj.Simulation(model, lj.Impulses(joints="sweeps", substeps=1), dt=1.0 / 60.0)
    sim.step(1)
    start, kinetic = sim.energy().total, 0.0
    for _ in range(round(60 * seconds) - 1):
        sim.step(1)
        energy = sim.energy()
        kinetic = max(kinetic, energy.kinetic)
        assert sim.joint_error().metres < 2e-3
        assert energy.total < start + 0.02 * kinetic + 1e-6
