"""Planetary gears and treads: rows on three bodies, many loops, redundant ones among them."""

from __future__ import annotations

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
