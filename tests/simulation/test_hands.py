"""Hands hold and drag a figure of 75 kg by any of its bodies, down to those of a few grams, at ordinary steps."""

import warnings

import numpy as np
import pytest

import limberjack as lj

DT = 1.0 / 240.0
LIGHT = ["left_index_distal", "left_little_distal", "right_middle_distal", "right_little_distal"]


def pull(model, method, body, speed):
    """Return the largest speed of a body [m/s] and how far the held point ends from the hand [m], after a second.

    The hand moves on a circle of half a metre at `speed`.
    """
    sim = lj.Simulation(model, method, dt=DT)
    grip, fastest = sim.grab(body), 0.0
    start = grip.point
    for k in range(240):
        angle = speed * sim.time / 0.5
        grip.move(start + 0.5 * np.array([np.sin(angle), 1.0 - np.cos(angle), 0.0]))
        sim.step()
        if k % 40 == 39:
            fastest = max(fastest, float(np.linalg.norm(sim.velocities[:, 3:], axis=1).max()))
    return fastest, float(np.linalg.norm(grip.point - grip.target))


def check(model, method, bodies, speeds):
    """Assert that the figure follows, that nothing flies about, and that the energy watch has nothing to say."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", lj.errors.EnergyWarning)
        for body in bodies:
            for speed in speeds:
                fastest, gap = pull(model, method, body, speed)
                assert fastest < max(60.0, 6.0 * speed), (body, speed)  # limbs whip round
                assert gap < 0.5 + 0.05 * speed, (body, speed)


@pytest.mark.parametrize("method", [lj.Full(), lj.Adaptive()], ids=["full", "adaptive"])
def test_hands_hold_and_drag_light_and_heavy_bodies(method):
    """The bodies that are hardest to hold, and some others."""
    model = lj.scenes.humanoid()
    check(model, method, [*LIGHT, "head", "pelvis"], (0.0, 1.0, 6.0))


@pytest.mark.slow
@pytest.mark.parametrize("budget", [None, 5, 10, 18, 40])
def test_hands_hold_and_drag_every_body(budget):
    """All 89 bodies of the humanoid, at rest and at a walk, a run and a throw."""
    model = lj.scenes.humanoid()
    method = lj.Full() if budget is None else lj.Adaptive(budget=budget)
    check(model, method, model.body_names, (0.0, 1.0, 6.0, 20.0))
