"""Models with ball joints only in the method impulses, joints="damped", with and without contacts."""

from __future__ import annotations

import numpy as np
import pytest

import limberjack as lj


def rope(links=6, *, shapes=False, height=2.0):
    """Return a rope of rods on ball joints, held at one end."""
    builder, above = lj.Builder("rope"), "world"
    for k in range(links):
        name = f"rod{k}"
        builder.add_body(name, mass=0.5, com=(0.1, 0.0, 0.0), inertia=(1e-4, 2e-3, 2e-3))
        position = (0.0, 0.0, height) if k == 0 else (0.2, 0.0, 0.0)
        builder.add_joint_ball(f"b{k}", above, name, position=position)
        if shapes:
            builder.add_shape_capsule(name, 0.03, 0.14, position=(0.1, 0, 0), rotation=(0.5**0.5, 0, 0.5**0.5, 0))
        above = name
    return builder


def test_levers_and_rows_agree():
    """A rope moves the same by its levers as by the general rows that it takes beside a hinge."""
    builder = rope()
    models = [builder.build()]
    builder.add_body("door", mass=1.0, inertia=(0.1, 0.1, 0.1))
    builder.add_joint_hinge("hinge", "world", "door", axis=(0, 0, 1), position=(5.0, 0.0, 0.0))
    models.append(builder.build())
    sims = [lj.Simulation(model, lj.Impulses(joints="damped", tolerance=1e-9), dt=1.0 / 240.0) for model in models]
    n = models[0].nv
    for sim, model in zip(sims, models, strict=True):
        start = np.zeros(model.nv)
        start[:n] = np.linspace(-1.0, 1.0, n)
        sim.qd = start
        sim.step(60)
    assert np.abs(sims[0].positions - sims[1].positions[:6]).max() < 1e-5
    assert np.abs(sims[0].velocities - sims[1].velocities[:6]).max() < 1e-3


def test_a_net_keeps_its_joints_within_the_tolerance():
    """A falling net with loops stays closed to the tolerance asked for, loses energy and gains none."""
    sim = lj.Simulation(
        lj.scenes.net(cells=4), lj.Impulses(joints="damped", tolerance=1e-4, substeps=1), dt=1.0 / 240.0
    )
    energy = sim.energy().total
    for _ in range(60):
        sim.step(2)
        assert sim.joint_error().metres <= 1e-4
        assert sim.energy().total <= energy + 1e-9
        energy = sim.energy().total


def test_momentum_stays():
    """Bodies on ball joints in free flight conserve linear and angular momentum."""
    builder = lj.Builder("floating", gravity=(0, 0, 0))
    for k in range(4):
        builder.add_body(f"a{k}", mass=1.0 + k, inertia=(0.01, 0.02, 0.03), position=(0.3 * k, 0.0, 0.0))
        if k:
            builder.add_joint_ball(
                f"b{k}", f"a{k - 1}", f"a{k}", position=(0.15, 0, 0), position_in_child=(-0.15, 0, 0)
            )
    model = builder.build()
    rng = np.random.default_rng(2)
    sim = lj.Simulation(model, lj.Impulses(joints="damped", tolerance=1e-12), dt=1e-3, qd=rng.normal(size=model.nv))
    before = sim.momentum()
    sim.step(200)
    after = sim.momentum()
    assert np.allclose(after.linear, before.linear, atol=1e-11)
    # velocities are what moved in a step: angular momentum is kept to its length
    assert np.allclose(after.angular, before.angular, atol=1e-3 * np.linalg.norm(before.angular))


@pytest.mark.parametrize("joints", ["damped", "global"])
def test_ropes_come_to_rest_on_the_ground(joints):
    """Ropes of light links dropped on the ground and each other lie still, closed, and hardly sunk in."""
    builder = lj.Builder("ropes")
    builder.add_shape_plane("world", friction=0.6)
    for r in range(4):
        for k in range(6):
            name = f"r{r}_{k}"
            place = (0.2 * k - 0.5, 0.05 * r, 0.1 + 0.12 * r) if r % 2 else (0.05 * r, 0.2 * k - 0.5, 0.1 + 0.12 * r)
            turn = (0.5**0.5, 0, 0.5**0.5, 0) if r % 2 else (0.5**0.5, -(0.5**0.5), 0, 0)
            builder.add_body(name, mass=0.2, inertia=(6e-4, 6e-4, 1e-4), position=place, rotation=turn)
            builder.add_shape_capsule(name, 0.03, 0.12, friction=0.6)
            if k:
                builder.add_joint_ball(
                    f"j{r}_{k}", f"r{r}_{k - 1}", name, position=(0, 0, 0.1), position_in_child=(0, 0, -0.1)
                )
    sim = lj.Simulation(builder.build(), lj.Impulses(joints=joints, tolerance=1e-4, sleeping=False), dt=1.0 / 60.0)
    for _ in range(180):
        sim.step(1)
        assert sim.joint_error().metres < 2e-4
    assert sim.stats["penetration"] < 1e-3
    assert np.quantile(np.linalg.norm(sim.velocities[:, 3:], axis=1), 0.9) < 5e-3
    assert sim.positions[:, 2].min() > 0.028


def test_bodies_on_ball_joints_sleep_and_wake():
    """A rope at rest on the ground falls asleep, and wakes where a ball hits it."""
    builder = rope(4, shapes=True, height=0.03)
    builder.add_shape_plane("world")
    builder.add_body("ball", mass=1.0, inertia=(4e-3, 4e-3, 4e-3), position=(0.5, 0.0, 6.0))
    builder.add_shape_sphere("ball", 0.1)
    sim = lj.Simulation(builder.build(), lj.Impulses(joints="damped", tolerance=1e-5), dt=1.0 / 60.0)
    sim.step(62)
    assert sim.stats["asleep"] == 4
    sim.step(20)
    assert sim.stats["asleep"] == 0
    assert sim.joint_error().metres <= 2e-5


def test_ball_joints_made_while_running_join_the_others():
    """A joint attached while a rope swings closes its gap and then holds as the others do."""
    sim = lj.Simulation(rope(5).build(), lj.Impulses(joints="damped", tolerance=1e-8), dt=1.0 / 240.0)
    sim.step(20)
    peg = np.array(sim.positions[4]) + (0.0, 0.0, 0.05)
    sim.attach("world", "rod4", "ball", at_a=peg, at_b=(0.0, 0.0, 0.0), over=0.1)
    sim.step(12)
    assert 0.005 < np.linalg.norm(sim.positions[4] - peg) < 0.045
    sim.step(60)
    assert np.linalg.norm(sim.positions[4] - peg) < 1e-6
