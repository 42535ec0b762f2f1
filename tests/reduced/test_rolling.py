"""Torsional and rolling friction, and margins of contacts, in the methods that know them: against closed forms."""

from __future__ import annotations

import numpy as np
import pytest

import limberjack as lj

RADIUS, G = 0.1, 9.81
METHODS = {"variational": lj.Full(), "semi_implicit": lj.Full(integrator="semi_implicit")}


def ball(slope=0.0, torsional=0.0, rolling=0.0, margin=0.0):
    """Return a ball of 1 kg on a plane that slopes towards x."""
    turn = (np.cos(slope / 2), 0.0, np.sin(slope / 2), 0.0)
    b = lj.Builder("ball")
    b.add_shape_plane("world", rotation=turn, friction=1.0)
    up = (RADIUS + margin) * np.array([np.sin(slope), 0.0, np.cos(slope)])
    b.add_body("ball", mass=1.0, inertia=[0.4 * RADIUS**2] * 3, position=up)
    lengths = {"torsional_friction": torsional, "rolling_friction": rolling, "margin": margin}
    b.add_shape_sphere("ball", RADIUS, friction=1.0, **lengths)
    return b.build()


@pytest.mark.parametrize("method", METHODS)
def test_a_ball_rolls_to_a_stop(method):
    """Rolling friction c slows a rolling ball by c g / (1.4 r), and then it lies still."""
    c, speed = 0.01, 0.5
    sim = lj.Simulation(ball(rolling=c), METHODS[method], dt=1 / 480)
    sim.qd = [speed, 0.0, 0.0, 0.0, speed / RADIUS, 0.0]
    slowing = c * G / (1.4 * RADIUS)
    sim.step(120)
    # velocities under contacts are those of the last half step
    assert sim.qd[0] == pytest.approx(speed - slowing * sim.time, abs=slowing * sim.dt)
    contact = next(contact for contact in sim.contacts())
    assert contact.torque == pytest.approx([0.0, -c * G, 0.0], rel=1e-3, abs=1e-6)
    sim.step(480)
    assert np.abs(sim.qd).max() < 1e-9


@pytest.mark.parametrize("method", METHODS)
def test_a_ball_stops_spinning(method):
    """Torsional friction c slows a spinning ball by c m g / I, and leaves its rolling alone."""
    c, spin = 0.02, 20.0
    sim = lj.Simulation(ball(torsional=c), METHODS[method], dt=1 / 480)
    sim.qd = [0.3, 0.0, 0.0, 0.0, 3.0, spin]
    sim.step(48)
    slowing = c * G / (0.4 * RADIUS**2)
    assert sim.velocities[0, 2] == pytest.approx(spin - slowing * sim.time, abs=slowing * sim.dt)
    assert sim.qd[0] == pytest.approx(0.3, rel=1e-3)
    sim.step(960)
    assert abs(sim.velocities[0, 2]) < 1e-9


@pytest.mark.parametrize(("part", "rolls"), [(0.9, False), (1.1, True)])
def test_a_ball_stays_on_a_slope_up_to_the_angle_of_rolling_friction(part, rolls):
    """It rolls where the slope is steeper than rolling friction / radius."""
    c = 0.01
    sim = lj.Simulation(ball(slope=float(np.arctan(part * c / RADIUS)), rolling=c), dt=1 / 240)
    sim.step(240)
    assert (np.abs(sim.qd).max() > 1e-3) == rolls


def test_energy_never_rises_with_rolling_friction():
    """A ball thrown with spin on a plane with all three kinds of friction loses energy until it lies still."""
    sim = lj.Simulation(ball(torsional=0.01, rolling=0.005), dt=1 / 240)
    sim.qd = [1.0, -0.5, 0.5, 10.0, -5.0, 20.0]
    before = sim.energy().total
    for _ in range(40):
        sim.step(60)
        now = sim.energy().total
        assert now <= before + 1e-9
        before = now
    assert np.abs(sim.qd).max() < 1e-6


def test_adaptive_steps_with_all_joints_roll_as_full_does():
    """Two balls on a hinge roll to a stop, and `adaptive` with all joints has the states of `full`."""
    b = lj.Builder("pair")
    b.add_shape_plane("world", friction=1.0)
    for k in range(2):
        b.add_body(f"b{k}", mass=1.0, inertia=[0.4 * RADIUS**2] * 3, position=(0.3 * k, 0, RADIUS))
        b.add_shape_sphere(f"b{k}", RADIUS, friction=1.0, torsional_friction=0.01, rolling_friction=0.01)
    b.add_joint_hinge("h", "b0", "b1", axis=(0, 1, 0), position=(0.3, 0, 0))
    model, states = b.build(), []
    for method in (lj.Full(), lj.Adaptive(budget=1)):
        sim = lj.Simulation(model, method, dt=1 / 240)
        sim.qd = [0.0, 0.5, 0.0, -5.0, 0.0, 0.0, 0.0]
        sim.step(60)
        states.append(sim.q)
    assert states[0] == pytest.approx(states[1], abs=1e-6)
    assert 0.0 < states[0][1] < 0.5 * sim.time


def test_methods_without_rolling_friction_say_so():
    """They refuse the model by name, unless told to leave it out."""
    with pytest.raises(lj.UnsupportedByMethod, match="rolling"):
        lj.Simulation(ball(rolling=0.01), "impulses", dt=1 / 240)
    lj.Simulation(ball(rolling=0.01), "impulses", dt=1 / 240, ignore=("rolling",)).step(2)


@pytest.mark.parametrize("method", ["full", "impulses", "multipliers", "displacements"])
def test_shapes_rest_at_their_margin(method):
    """A ball with a margin of 2 cm stays 2 cm above the plane."""
    sim = lj.Simulation(ball(margin=0.02), method, dt=1 / 240)
    sim.step(240)
    assert sim.positions[0, 2] == pytest.approx(RADIUS + 0.02, abs=1e-3)
    assert len(sim.contacts()) == 1


def test_a_snapshot_has_the_torques():
    """A state with rolling friction continues bit for bit."""
    sim = lj.Simulation(ball(torsional=0.02, rolling=0.01), dt=1 / 240)
    sim.qd = [0.5, 0.0, 0.0, 0.0, 5.0, 9.0]
    sim.step(20)
    saved = sim.snapshot()
    sim.step(20)
    expected = sim.state_hash()
    sim.restore(saved)
    sim.step(20)
    assert sim.state_hash() == expected
