"""The first-order world, f = m v: grips, contacts, limits and loops, at any step."""

from __future__ import annotations

import numpy as np
import pytest

import limberjack as lj

FIRST = lj.Multipliers(order="first")


@pytest.mark.parametrize("dt", [1e-4, 1e-3, 1e-2, 1 / 60, 0.1, 1.0])
def test_grips_settle_at_any_step(dt):
    """A free body reaches the target of a grip from one side; the step only says how fast."""
    builder = lj.Builder(gravity=(0, 0, 0))
    builder.add_body("a", mass=2.0, inertia=(1, 1, 1))
    sim = lj.Simulation(builder.build(), FIRST, dt=dt)
    grip = sim.grab("a", (0, 0, 0))
    grip.move((0.4, 0, 0))
    before = 0.0
    for _ in range(20):
        sim.step()
        x = float(sim.body("a").position[0])
        assert before <= x <= 0.4 + 1e-12
        before = x
    # stiffness over mass and damping of the grip: 900 / 61
    assert 0.4 - x == pytest.approx(0.4 * (1 + dt * 900 / (1 + 60)) ** -20, rel=0.2, abs=1e-9) or dt > 0.01
    sim.step(int(1.0 / dt) + 20)
    assert sim.body("a").position == pytest.approx([0.4, 0, 0], abs=1e-4)
    assert grip.force == pytest.approx([0, 0, 0], abs=0.2)


@pytest.mark.parametrize("dt", [1e-3, 1e-2, 0.1])
def test_a_gripped_chain_settles(dt):
    """A hanging chain whose end is drawn aside comes to rest there, at the same pose for every step."""
    sim = lj.Simulation(lj.scenes.pendulum(links=10, length=0.1), FIRST, dt=dt)
    sim.step(int(1.0 / dt))
    sim.grab("link9", sim.body("link9").position).move((0.5, 0, -0.4))
    sim.step(int(20.0 / dt))
    rest = sim.positions.copy()
    assert rest[9] == pytest.approx([0.4981, 0, -0.4035], abs=2e-3)
    sim.step(10)
    np.testing.assert_allclose(sim.positions, rest, atol=1e-6)


@pytest.mark.parametrize("friction", [0.0, 0.5])
def test_a_body_drawn_into_a_wall_stops_there(friction):
    """A box drawn through a wall stops at it, pressed by the grip's force, and slides along a smooth one."""
    builder = lj.Builder(gravity=(0, 0, 0))
    builder.add_body("box", mass=1.0, inertia=(0.1, 0.1, 0.1))
    builder.add_shape_box("box", (0.2, 0.2, 0.2), friction=friction)
    builder.add_shape_box("world", (0.2, 4, 4), position=(1.1, 0, 0), friction=friction)
    sim = lj.Simulation(builder.build(), FIRST, dt=1e-2)
    grip = sim.grab("box", (0, 0, 0))
    grip.move((1.05, 0.5, 0))
    sim.step(400)
    x, y, _ = sim.body("box").position
    assert x == pytest.approx(0.9, abs=5e-4)
    force = sum(contact.force for contact in sim.contacts())
    assert -force == pytest.approx(grip.force, rel=1e-2, abs=0.5) and grip.force[0] > 100.0
    # the grip's force, 900 N/m times the way left, slides the box until it lies in the cone
    assert 0.5 - friction * (1.05 - x) - 2e-3 < y < (0.501 if friction == 0.0 else 0.49)


def test_a_loop_is_drawn_together_against_an_obstacle():
    """A four-bar drawn onto a block rests on it, its loop closed: assembly against obstacles."""
    builder = lj.Builder(gravity=(0, 0, 0))
    for name, at, child in (("a", (0, 0, 0), (0, 0, 0)), ("b", (1, 0, 0), (0, 0, 0))):
        builder.add_body(name, mass=1.0, com=(0, 0, 0.5), inertia=(0.1, 0.1, 0.1))
        builder.add_joint_hinge(f"pin_{name}", "world", name, position=at, position_in_child=child, axis=(0, 1, 0))
    builder.add_body("c", mass=1.0, com=(0.5, 0, 0), inertia=(0.1, 0.1, 0.1))
    builder.add_joint_hinge("left", "a", "c", position=(0, 0, 1), axis=(0, 1, 0))
    builder.add_joint_hinge("right", "b", "c", position=(0, 0, 1), position_in_child=(1, 0, 0), axis=(0, 1, 0))
    builder.add_shape_sphere("c", 0.1, position=(1.0, 0, 0), friction=0.0)
    builder.add_shape_box("world", (0.2, 1, 4), position=(1.5, 0, 0), friction=0.0)
    sim = lj.Simulation(builder.build(), FIRST, dt=1e-2)
    sim.grab("c", sim.body("c").position).move((1.0, 0, 0.2))
    sim.step(300)
    assert sim.joint_error().metres < 1e-8
    # the sphere at the right corner touches the block at x = 1.4
    assert sim.joint("pin_a").q == pytest.approx(np.arcsin(0.3), abs=2e-3)
    assert sim.contacts()[0].force[0] < -10.0


@pytest.mark.parametrize("dt", [1e-3, 1e-2])
def test_limits_stop_what_is_drawn(dt):
    """A hinge drawn beyond its limit stops at it."""
    builder = lj.Builder(gravity=(0, 0, 0))
    builder.add_body("arm", mass=1.0, com=(0.5, 0, 0), inertia=(0.1, 0.1, 0.1))
    builder.add_joint_hinge("pin", "world", "arm", axis=(0, 0, 1), limits=(-0.5, 0.5))
    sim = lj.Simulation(builder.build(), FIRST, dt=dt)
    sim.grab("arm", (1, 0, 0)).move((0, 1, 0))
    sim.step(int(2.0 / dt))
    assert sim.joint("pin").q == pytest.approx(0.5, abs=1e-8)
