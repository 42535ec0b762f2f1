"""Limits of balls, hinges and universal joints create no energy: alone, and in figures that fall down stairs."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import limberjack as lj
from limberjack.scenes.figures import figure

METHODS = ["full", "adaptive"]
STEPS = [1 / 1000, 1 / 240, 1 / 60]
LIMITS = {
    "cone": {"cone": 1.6},
    "narrow cone": {"cone": 0.5},
    "twist": {"twist": (-0.5, 0.7)},
    "cone and twist": {"cone": 1.2, "twist": (-0.3, 0.3)},
    "angle": {"limits": (0, 0.8)},
}


def arm(**limits) -> lj.Model:
    """Return a chest and an arm, ten times as hard to swing as to twist, on a ball joint; no gravity."""
    builder = lj.Builder("arm", gravity=(0, 0, 0))
    builder.add_body("chest", mass=20, inertia=(0.3, 0.3, 0.15))
    builder.add_body("arm", mass=2.2, inertia=(0.02, 0.02, 0.002))
    builder.add_joint_ball("j", "chest", "arm", position=(0, 0.2, 0.2), position_in_child=(0, 0, 0.15), **limits)
    return builder.build()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", LIMITS)
def test_limits_of_a_ball_create_no_energy(kind, method):
    """Thrown with any spin, an arm gains less than 0.1 % of its energy in 10 s, also where twist is not defined."""
    model = arm(**LIMITS[kind])
    for dt in STEPS:
        for seed in range(8 if dt > 1e-3 else 3):
            sim = lj.Simulation(model, method, dt=dt, energy_watch=False)
            sim.qd = 3 * np.random.default_rng(seed).normal(size=model.nv) * np.repeat([0, 1], [3, 6])
            start = sim.energy().total
            for _ in range(20):
                sim.step(round(0.5 / dt))
                assert sim.energy().total < 1.001 * start


@pytest.mark.parametrize("method", METHODS)
def test_a_start_beyond_a_limit_gains_nothing(method):
    """A hinge that starts half a radian beyond its limit is brought back without a velocity."""
    builder = lj.Builder("beyond", gravity=(0, 0, 0))
    builder.add_body("rod", mass=1.0, inertia=(0.1, 0.1, 0.1))
    builder.add_joint_hinge("j", "world", "rod", limits=(-0.2, 0.2), start=0.7)
    sim = lj.Simulation(builder.build(), method, dt=1e-3)
    sim.step(10)
    assert sim.q[0] == pytest.approx(0.2, abs=1e-9) and sim.energy().kinetic < 1e-12


def ragdoll(seed: int) -> lj.Builder:
    """Return ten bodies on random joints with random limits, above stairs."""
    rng = np.random.default_rng(seed)
    builder = lj.Builder(f"ragdoll {seed}")
    builder.add_body("b0", mass=8, inertia=(0.12, 0.1, 0.08), position=(0.2, 0, 3.0))
    builder.add_shape_capsule("b0", 0.1, 0.3, group=1)
    for k in range(1, 10):
        length, mass, parent = rng.uniform(0.15, 0.35), rng.uniform(0.5, 4), f"b{rng.integers(0, k)}"
        across = mass * (length**2 / 12 + 0.05**2 / 4)
        builder.add_body(f"b{k}", mass=mass, inertia=(across, across, mass * 0.05**2 / 2 + 1e-4))
        builder.add_shape_capsule(f"b{k}", 0.05, length, group=1)
        place = {"position": 0.12 * rng.normal(size=3), "position_in_child": (0, 0, length / 2)}
        low, high = -rng.uniform(0.1, 1.4, 2), rng.uniform(0.1, 1.4, 2)
        kind = rng.choice(["ball", "ball", "hinge", "universal"])
        own = {
            "ball": {"cone": rng.uniform(0.3, 2.4), "twist": (low[0], high[0])},
            "hinge": {"axis": (1, 0, 0), "limits": (low[0], high[0])},
            "universal": {"limits": list(zip(low, high, strict=True))},
        }[kind]
        builder.add_joint(kind, f"j{k}", parent, f"b{k}", **place, **own)
    return builder


def person() -> lj.Builder:
    """Return a person with hard limits, above stairs."""
    return figure("person", contacts=True, limits="hard", height=1.75, mass=75, gravity=(0, 0, -9.81), lift=2.2)


def most_gained(builder: lj.Builder, method: str, dt: float, seed: int, seconds: float) -> tuple[float, float]:
    """Return the largest rise of energy after its lowest value so far, and the energy released.

    A rise of half the work of gravity in a step is none: where contacts act, velocities are those of half a step
    before.
    """
    for k in range(8):
        builder.add_shape_box("world", (0.4, 4, 2 - 0.25 * k), position=(0.4 * k + 0.2, 0, 1 - 0.125 * k))
    sim, rng = lj.Simulation(builder.build(), method, dt=dt), np.random.default_rng(100 + seed)
    qd = np.zeros(sim.model.nv)
    qd[:6] = [*rng.uniform((1, -1, -1), (3, 1, 1)), *rng.normal(0, 4, 3)]
    sim.qd = qd
    start = lowest = sim.energy().total
    most = 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(200):
            sim.step(round(seconds / dt / 200))
            now, shift = sim.energy().total, 0.5 * dt * 9.81 * abs(sim.momentum().linear[2])
            lowest = min(lowest, now)
            most = max(most, now - lowest - shift)
    return most, start - lowest


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dt", [1 / 240, 1 / 60])
def test_ragdolls_on_stairs_gain_nothing(method, dt):
    """Random ragdolls thrown onto stairs never gain 1 % of the energy released in 10 s, and nothing warns."""
    for seed in range(4):
        most, released = most_gained(ragdoll(seed), method, dt, seed, 10.0)
        assert released > 100 and most < 0.01 * released


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dt", STEPS)
def test_many_ragdolls_on_stairs_gain_nothing(method, dt):
    """The same of more ragdolls, and with steps of a millisecond."""
    for seed in range(4, 12):
        most, released = most_gained(ragdoll(seed), method, dt, seed, 10.0)
        assert released > 100 and most < 0.01 * released


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dt", STEPS)
def test_a_person_on_stairs_gains_nothing(method, dt):
    """A person with hard limits thrown down stairs never gains 1 % of the energy released in 10 s."""
    for seed in range(2):
        most, released = most_gained(person(), method, dt, seed, 10.0)
        assert released > 1000 and most < 0.01 * released
