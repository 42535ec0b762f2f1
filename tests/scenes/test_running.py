"""Scenes run as they come: by their own method, at their own step, with their own drive."""

from __future__ import annotations

import numpy as np
import pytest
from tests.scenes.test_catalog import SMALL

import limberjack as lj
from limberjack import scenes
from limberjack.cli.commands import View


def run(scene: scenes.Scene, seconds: float) -> lj.Simulation:
    """Return the simulation of a scene after some time, driven sixty times a second."""
    sim = lj.Simulation(scene.model, scene.method, scene.dt)
    while sim.time < seconds:
        if scene.drive is not None:
            scene.drive(sim)
        sim.step(max(1, round(1.0 / (60.0 * scene.dt))))
    return sim


@pytest.mark.parametrize("name", sorted(SMALL))
def test_every_scene_runs_by_its_own_method(name):
    """Small, as the viewer shows it, a scene runs for a moment by the method it names, and nothing is left out."""
    scene = scenes.get_shown(name, **SMALL[name])
    sim = run(scene, min(0.1, scene.seconds))
    assert not sim.ignored and np.isfinite(sim.positions).all()


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(SMALL) - {"crowd", "adaptive_crowd", "long_chain", "rings"}))
def test_every_scene_is_worth_its_time(name):
    """At its full size, a scene lasts as long as it says it is worth watching, and nothing leaves the stage."""
    scene = scenes.get_shown(name)
    start = scene.model
    before = lj.forward_kinematics(start, start.q0)[0]
    after = run(scene, scene.seconds).positions
    size = float(np.ptp(before, axis=0).max()) + 1.0
    assert np.isfinite(after).all()
    assert np.linalg.norm(after.mean(axis=0) - before.mean(axis=0)) < 10.0 * size


def test_the_command_shows_what_can_be_looked_at():
    """`limberjack view humanoid` has contacts, unless the method asked for knows none or the user says otherwise."""
    assert "contacts" in View(target="humanoid").made()[0].model.features()
    assert not View(target="humanoid", method="divide_and_conquer").made()[0].model.features()
    assert not View(target="humanoid", set=("contacts=false",)).made()[0].model.features()
