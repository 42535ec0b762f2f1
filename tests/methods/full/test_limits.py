"""Limits and ropes in `full`: exact under load, inelastic, released without a pull."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.naive import rotations as rot

import limberjack as lj

INTEGRATORS = ["rk4", "semi_implicit", "euler", "implicit"]


def bob(kind, **options):
    """Return a rod of 1 m, 1 kg on a joint to the world, along x at 0; gravity turns a hinge about y up."""
    builder = lj.Builder()
    builder.add_body("bob", mass=1.0, com=(0.5, 0, 0), inertia=(0.01, 1 / 12, 1 / 12))
    if kind != "ball":
        options["axis"] = (0, 1, 0) if kind == "hinge" else (0, 0, 1)
    getattr(builder, f"add_joint_{kind}")("j", "world", "bob", **options)
    return builder.build()


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_a_hinge_stops_holds_and_lets_go(integrator):
    """A falling rod stops at its limit within 1e-9, stays under load, and leaves as free motion when turned back."""
    sim = lj.Simulation(bob("hinge", limits=(-0.4, 0.4)), lj.Full(integrator=integrator))
    worst = 0.0
    for _ in range(60):
        sim.step(10)
        worst = max(worst, sim.q[0] - 0.4)
    assert worst < 1e-9 and sim.q[0] == pytest.approx(0.4, abs=1e-9) and abs(sim.qd[0]) < 1e-9
    sim.step(400)
    assert abs(sim.q[0] - 0.4) < 1e-9 and abs(sim.qd[0]) < 1e-9
    sim.tau = [-9.81]
    sim.step(1)
    torque = 9.81 * 0.5 * math.cos(0.4) - 9.81
    assert sim.qd[0] == pytest.approx(torque / (1 / 3) * sim.dt, rel=1e-2)
    sim.step(100)
    assert sim.q[0] < 0.4 - 0.02


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_a_slide_stops_at_both_ends(integrator):
    """A body that falls along a slide lies on the lower end; pushed up it stops at the upper."""
    sim = lj.Simulation(bob("slide", limits=(-0.1, 0.2)), lj.Full(integrator=integrator))
    sim.step(500)
    assert sim.q[0] == pytest.approx(-0.1, abs=1e-9) and abs(sim.qd[0]) < 1e-9
    sim.tau = [30.0]
    worst = 0.0
    for _ in range(50):
        sim.step(10)
        worst = max(worst, sim.q[0] - 0.2)
    assert worst < 1e-9 and sim.q[0] == pytest.approx(0.2, abs=1e-9)


@pytest.mark.filterwarnings("ignore::limberjack.errors.EnergyWarning")  # semi_implicit gains at the largest angle
@pytest.mark.parametrize("kind", ["angle", "cone", "twist"])
@pytest.mark.parametrize("integrator", ["rk4", "semi_implicit"])
def test_limits_of_a_ball_hold(kind, integrator):
    """Whirled about, a ball joint stays within its largest angle, cone or twist to 1e-8, and reaches it."""
    options = {"angle": {"limits": (0, 0.6)}, "cone": {"cone": 0.6}, "twist": {"twist": (-0.3, 0.6)}}[kind]
    model = bob("ball", **options)
    sim = lj.Simulation(model, lj.Full(integrator=integrator))
    seen = []
    for k in range(100):
        if k % 25 == 0:
            sim.qd = (-1) ** (k // 25) * np.array([2.0, 1.0, 9.0])
        sim.step(10)
        r = rot.matrix(sim.q)
        seen.append({
            "angle": 2 * math.acos(min(1.0, abs(sim.q[0]))),
            "cone": math.acos(min(1.0, r[2, 2])),
            "twist": math.atan2(r[1, 0] - r[0, 1], r[0, 0] + r[1, 1]),
        }[kind])  # fmt: skip
    assert 0.599 < max(seen) < 0.6 + 1e-8
    if kind == "twist":
        assert -0.3 - 1e-8 < min(seen) < -0.299


def roped(rope):
    """Return a body that starts 0.6 m below and beside its hook, on a rope or rod of 1 m or of 0.6 m."""
    builder = lj.Builder()
    builder.add_body("bob", mass=1.0, inertia=(0.01, 0.01, 0.01), position=(0.48, 0, -0.36))
    builder.add_joint_distance("tie", "world", "bob", length=1.0 if rope else 0.6, rope=rope)
    return builder.build()


@pytest.mark.parametrize("integrator", ["rk4", "semi_implicit"])
def test_a_rope_is_free_until_it_is_taut(integrator):
    """Slack, the body falls freely; taut, it keeps the rope's length, and energy only leaves, at the jerk."""
    sim = lj.Simulation(roped(True), lj.Full(integrator=integrator))
    first = sim.energy().total
    sim.step(200)
    order = 1e-12 if integrator == "rk4" else 2e-3
    np.testing.assert_allclose(sim.q[:3], (0.48, 0, -0.36 - 9.81 * 0.2**2 / 2), atol=order)
    longest, lengths = 0.0, []
    for _ in range(300):
        sim.step(5)
        lengths.append(np.linalg.norm(sim.q[:3]))
        longest = max(longest, lengths[-1])
        assert sim.energy().total < first + (1e-9 if integrator == "rk4" else 0.05)
    assert abs(longest - 1.0) < 1e-9 and sim.joint_error().metres < 1e-9
    assert sim.energy().total < first - 0.1


@pytest.mark.parametrize("integrator", ["rk4", "semi_implicit"])
def test_a_taut_rope_is_a_rod(integrator):
    """A body that swings below its hook on a taut rope moves as on a rod, bit for bit or to rounding."""
    ends = []
    for rope in (True, False):
        builder = lj.Builder()
        builder.add_body("bob", mass=1.0, inertia=(0.01, 0.01, 0.01), position=(0.6, 0, -0.8))
        builder.add_joint_distance("tie", "world", "bob", length=1.0, rope=rope)
        sim = lj.Simulation(builder.build(), lj.Full(integrator=integrator))
        sim.step(1000)
        ends.append(sim.q)
    np.testing.assert_allclose(*ends, atol=1e-9)


@pytest.mark.parametrize("integrator", ["rk4", "semi_implicit"])
def test_many_limits_act_at_once(integrator):
    """A chain of 40 links that barely bends reaches more limits at once than there was room for; all are satisfied."""
    model = lj.scenes.chain_with_limits(links=40, length=0.05, mass=0.1, limit=0.01, damping=0.001)
    sim = lj.Simulation(model, lj.Full(integrator=integrator), dt=1e-3)
    most, worst = 0, 0.0
    for _ in range(100):
        sim.step(5)
        most, worst = max(most, sim.stats["rows"]), max(worst, np.abs(sim.q[1:]).max() - 0.01)
    assert most > 16 and worst < 1e-9


def test_limits_of_a_loop_joint_hold():
    """The pin that closes a four-bar stops at its own limit, as if the mechanism had been cut elsewhere."""
    ends = []
    for cut in ("C", "D"):
        builder = lj.Builder()
        for name in ("crank", "coupler", "rocker"):
            builder.add_body(name, mass=1.0, com=(0.5, 0, 0), inertia=(0.01, 0.1, 0.1))
        turn = {"axis": (0, 1, 0)}
        builder.add_joint_hinge("A", "world", "crank", start=-1.0, **turn)
        builder.add_joint_hinge("B", "crank", "coupler", position=(1, 0, 0), start=1.0, **turn)
        pin = {"position": (1.2, 0, 0), "position_in_child": (1, 0, 0), "limits": (-1.4, -0.8)}
        places = {"C": ("coupler", pin), "D": ("world", {"position": (1.2, 0, 0)})}
        for name in ("D", "C") if cut == "C" else ("C", "D"):
            parent, options = places[name]
            builder.add_joint_hinge(name, parent, "rocker", **options, **turn)
        sim = lj.Simulation(builder.build(), lj.Full(integrator="rk4"), q=[-1.0, 1.0, -1.0])
        assert sim.model.loop_names == (cut,)
        sim.tau = np.array([-12.0, 0.0, 0.0])
        seen = []
        for _ in range(100):
            sim.step(10)
            seen.append(sim.joint("C").q)
        ends.append(seen)
        assert min(seen) == pytest.approx(-1.4, abs=1e-8) or max(seen) == pytest.approx(-0.8, abs=1e-8)
    np.testing.assert_allclose(*ends, atol=1e-6)
