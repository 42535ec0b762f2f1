"""Impulses from collision to collision: counts, times and energies that follow from closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest

import limberjack as lj


def billiard(ratio, shape, **material):
    """Return two bodies in a line before a wall, the outer one `ratio` times as heavy; no gravity."""
    builder = lj.Builder("billiard", gravity=(0, 0, 0))
    builder.add_shape_box("world", (1.0, 4.0, 4.0), position=(-0.5, 0.0, 0.0), **material)
    for name, mass, x in (("small", 1.0, 1.0), ("large", ratio, 3.0)):
        builder.add_body(name, mass=mass, inertia=(0.1 * mass,) * 3, position=(x, 0.0, 0.0))
        if shape == "sphere":
            builder.add_shape_sphere(name, 0.2, **material)
        else:
            builder.add_shape_box(name, (0.4, 0.5, 0.6), **material)
    return builder.build()


def running(model, **options):
    return lj.Simulation(model, lj.Impulses(events=True), **({"dt": 0.05} | options))


@pytest.mark.parametrize("shape", ["sphere", "box"])
@pytest.mark.parametrize("digits,count", [(0, 3), (1, 31), (2, 314), (3, 3141)])
def test_galperins_billiard_counts_pi(shape, digits, count):
    """A ball of 100^k times the mass sent at one before a wall collides as often as pi has it to k digits."""
    sim = running(billiard(100.0**digits, shape, restitution=1.0), qd=[0.0] * 6 + [-1.0] + [0.0] * 5)
    energy = sim.energy().total
    sim.step(200)
    assert sim.stats["collisions"] == count
    assert sim.energy().total == pytest.approx(energy, rel=1e-12)
    # they part for good
    assert sim.qd[6] >= sim.qd[0] >= 0.0


@pytest.mark.parametrize("dt", [1 / 240, 0.037])
def test_a_ball_bounces_exactly(dt):
    """Height and speed of a bouncing ball are those of its parabolas after any number of bounces, whatever the step."""
    builder = lj.Builder("ball")
    builder.add_shape_plane("world", friction=0.0)
    builder.add_body("ball", mass=2.0, inertia=(0.01,) * 3, position=(0.0, 0.0, 1.1))
    builder.add_shape_sphere("ball", 0.1, restitution=0.9, friction=0.0)
    sim = running(builder.build(), dt=dt, qd=[0.3, 0, 0, 0, 0, 2.0])
    sim.step(round(2.0 / dt))
    fall, speed, bounces = math.sqrt(2.0 / 9.81), math.sqrt(2.0 * 9.81), 1
    left, speed = sim.time - fall, 0.9 * speed
    while left > 2.0 * speed / 9.81:
        left, speed, bounces = left - 2.0 * speed / 9.81, 0.9 * speed, bounces + 1
    assert sim.stats["collisions"] == bounces > 1
    assert sim.positions[0, 2] == pytest.approx(0.1 + speed * left - 0.5 * 9.81 * left**2, abs=1e-12)
    assert sim.positions[0, 0] == pytest.approx(0.3 * sim.time, abs=1e-12)


def test_glancing_spheres_keep_momentum_and_energy():
    """Spheres that collide obliquely conserve momentum and energy to rounding."""
    rng = np.random.default_rng(2)
    builder = lj.Builder("gas", gravity=(0, 0, 0))
    builder.add_shape_box("world", (0.1, 0.1, 0.1), position=(50.0, 0.0, 0.0))
    for k in range(8):
        place = ((k % 2) * 0.5, (k // 2 % 2) * 0.5, (k // 4) * 0.5)
        builder.add_body(f"b{k}", mass=1.0 + k, inertia=(0.01,) * 3, position=place)
        builder.add_shape_sphere(f"b{k}", 0.1, restitution=1.0, friction=0.0)
    sim = running(builder.build(), qd=rng.normal(size=48))
    sim.qd = np.where(np.arange(48) % 6 < 3, -2.0 * np.repeat(sim.positions - 0.25, 2, axis=0).reshape(-1) + 0.1, 0.0)
    before, energy = sim.momentum(), sim.energy().total
    sim.step(40)
    after = sim.momentum()
    assert sim.stats["collisions"] > 4
    assert np.abs(after.linear - before.linear).max() < 1e-12
    assert np.abs(after.angular - before.angular).max() < 1e-12
    assert sim.energy().total == pytest.approx(energy, rel=1e-12)


def test_snapshots_keep_the_count():
    """A restored simulation goes on with state and count, bit for bit."""
    sim = running(billiard(1e4, "sphere", restitution=1.0), qd=[0.0] * 6 + [-1.0] + [0.0] * 5)
    sim.step(30)
    before = sim.snapshot()
    sim.step(70)
    there = sim.state_hash(), sim.stats["collisions"]
    sim.restore(before)
    sim.step(70)
    assert (sim.state_hash(), sim.stats["collisions"]) == there


def test_what_cannot_be_is_refused():
    """Joints, other shapes, friction, turning, eccentric or unaligned boxes, edges and rest are refused by name."""
    with pytest.raises(lj.UnsupportedByMethod, match='joint "'):
        running(lj.scenes.newtons_cradle())
    builder = lj.Builder("capsule")
    builder.add_body("a", mass=1.0, inertia=(0.1,) * 3)
    builder.add_shape_capsule("a", 0.1, 0.5)
    with pytest.raises(lj.UnsupportedByMethod, match="spheres, boxes and static planes"):
        running(builder.build())
    model = billiard(1.0, "box", restitution=1.0)
    with pytest.raises(lj.StateError, match='body "large" turns'):
        running(model, qd=[0.0] * 11 + [1.0]).step()
    with pytest.raises(lj.StateError, match="not aligned"):
        running(model, q=[*model.q0[:10], math.cos(0.1), 0.0, 0.0, math.sin(0.1)]).step()
    toward = [0.0] * 6 + [-1.0] + [0.0] * 5
    with pytest.raises(lj.StateError, match="off centre"):
        running(model, q=[*model.q0[:8], 0.1, *model.q0[9:]], qd=toward).step(100)
    with pytest.raises(lj.StateError, match="friction"):
        running(model, qd=[-1.0, 0.5, *[0.0] * 10]).step(100)
    balls = billiard(1.0, "sphere", restitution=1.0, friction=0.0)
    with pytest.raises(lj.StateError, match="edge"):
        running(balls, q=[1.0, 2.1, *balls.q0[2:]], qd=[-1.0, *[0.0] * 11]).step(100)
    resting = lj.Builder("resting")
    resting.add_shape_plane("world")
    resting.add_body("ball", mass=1.0, inertia=(0.1,) * 3, position=(0, 0, 1.0))
    resting.add_shape_sphere("ball", 0.1, restitution=0.5)
    with pytest.raises(lj.Diverged, match="come to rest"):
        running(resting.build()).step(100)
