"""Planetary gears, treads, and machines of velocity constraints: rows on three bodies, many loops, redundant ones."""

from __future__ import annotations

import math

import numpy as np
import pytest

import limberjack as lj


@pytest.mark.parametrize("method", ["multipliers", "full"])
def test_planetary_gears_obey_willis(method):
    """Under a torque on the sun and another on the ring all speeds stay tied by Willis' equation and by the teeth."""
    model = lj.scenes.planetary(planets=3, sun=0.1, planet=0.07)
    sim = lj.Simulation(model, method, dt=1e-3)
    sim.apply_wrench("sun", torque=(0, 0, 2.0))
    sim.apply_wrench("ring", torque=(0, 0, -0.5))
    sim.step(300)
    sun, ring, carrier = (float(sim.joint(f"{name}_axle").qd) for name in ("sun", "ring", "carrier"))
    assert abs(ring) > 0.1
    assert 0.1 * sun + 0.24 * ring == pytest.approx(0.34 * carrier, abs=1e-10)
    for k in range(3):
        own = float(sim.joint(f"planet{k}_axle").qd)
        assert 0.07 * own == pytest.approx(-0.1 * (sun - carrier), abs=1e-10)
        assert 0.07 * own == pytest.approx(0.24 * (ring - carrier), abs=1e-10)


def test_planetary_gears_accelerate_by_their_reflected_inertia():
    """With the ring free the sun's acceleration is that of the two freedoms' own mass matrix."""
    model = lj.scenes.planetary(planets=3, sun=0.1, planet=0.07, speed=0.0)
    sims = [lj.Simulation(model, method, dt=1e-4) for method in ("multipliers", "full")]
    # planet k turns by w_c (1 + r_s / r_p) - w_s r_s / r_p and goes round with the carrier
    m, r = 50.0 * 0.07**2, np.array([-0.1 / 0.07, 1 + 0.1 / 0.07])
    ring = np.array([-0.1, 0.34]) / 0.24
    inertia = np.diag([0.5 * 50.0 * 0.1**2 * 0.1**2, 0.3 * 0.17**2 + 3 * m * 0.17**2])
    inertia += 3 * 0.5 * m * 0.07**2 * np.outer(r, r) + 1.0 * 0.24**2 * np.outer(ring, ring)
    expected = np.linalg.solve(inertia, [2.0, 0.0])
    for sim in sims:
        sim.apply_wrench("sun", torque=(0, 0, 2.0))
        sim.step()
        got = [float(sim.joint(f"{name}_axle").qd) / 1e-4 for name in ("sun", "carrier")]
        np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_a_tread_tumbles_for_seconds():
    """By its own method a tread of 40 plates goes through poses where joints begin and cease to follow from others."""
    scene = lj.scenes.get("tread")
    sim = lj.Simulation(scene.model, scene.method, scene.dt)
    before = sim.energy().total
    for _ in range(4):
        sim.step(1000)
        assert sim.joint_error().metres < 1e-10
        assert sim.energy().total == pytest.approx(before, abs=0.1)


def test_a_tread_holds_together():
    """A closed tread falls with all its loops closed to 1e-10 m, alike in maximal and in reduced coordinates."""
    model = lj.scenes.tread(plates=10)
    assert len(model.loop_names) == 9 + 2
    sims = [lj.Simulation(model, m(integrator="rk4"), dt=1e-3) for m in (lj.Multipliers, lj.Full)]
    for sim in sims:
        before = sim.energy().total
        sim.step(100)
        assert sim.joint_error().metres < 1e-10
        assert sim.energy().total == pytest.approx(before, abs=1e-6)
    assert np.abs(sims[0].positions - sims[1].positions).max() < 1e-8
    assert sims[0].positions[5, 2] < lj.Simulation(model, "full").positions[5, 2] - 1e-3


@pytest.mark.parametrize("method", ["full", "multipliers", "impulses"])
def test_a_rolling_disc_rolls_in_a_circle(method):
    """The scene's disc keeps its tilt and its energy, and its axis turns at the rate asked for."""
    sim = lj.Simulation(lj.scenes.rolling_disc(tilt=1.0, precession=2.0), method, dt=1e-3)
    start = sim.energy().total
    sim.step(1000)
    w, x, y, z = sim.q[3:]
    axis = (2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x * x + y * y))
    assert math.acos(axis[2]) == pytest.approx(1.0, abs=0.02)
    assert abs(math.remainder(math.atan2(axis[1], axis[0]) - 2.0, 2 * math.pi)) < 0.05
    assert sim.energy().total == pytest.approx(start, rel=5e-3)
    with pytest.raises(lj.errors.ModelError, match="tilt must be"):
        lj.scenes.rolling_disc(tilt=2.0)


@pytest.mark.parametrize("method", ["full", "adaptive", "multipliers", "impulses"])
def test_a_steered_cart_stays_on_its_circle(method):
    """The scene's cart drives about (0, wheelbase / tan(steer)) at constant speed, in `adaptive` too."""
    sim = lj.Simulation(lj.scenes.steered_cart(), method, dt=1e-3)
    radius = 1.2 / math.tan(0.4)
    sim.step(2000)
    assert math.hypot(sim.q[0], sim.q[1] - radius) == pytest.approx(radius, rel=2e-3)
    assert math.hypot(sim.qd[0], sim.qd[1]) == pytest.approx(2.0, rel=2e-3)


@pytest.mark.parametrize("method", ["full", "adaptive", "multipliers", "impulses"])
def test_the_brake_of_a_differential_slows_one_wheel(method):
    """With s = sum of the rates: 2 c = l + r, and both wheels get the same torque, so that only the brake differs."""
    model = lj.scenes.differential()
    sim = lj.Simulation(model, lj.Adaptive(budget=3) if method == "adaptive" else method, dt=1e-3)
    sim.step(1500)
    carrier, left, right = sim.qd
    # 0.5 c' = -2 t, 0.2 l' = t - 0.05 l, 0.2 r' = t with 2 c = l + r: a linear system of l and r
    force = np.array([[0.2, 0.0], [0.0, 0.2]]) + 0.5 * 0.5 * 0.5 * np.ones((2, 2))
    rates, modes = np.linalg.eig(-np.linalg.solve(force, np.diag([0.05, 0.0])))
    expected = modes @ (np.exp(1.5 * rates) * np.linalg.solve(modes, [6.0, 6.0]))
    np.testing.assert_allclose([left, right], expected, rtol=2e-3)
    assert left + right == pytest.approx(2 * carrier, abs=1e-3)
