"""Motions with known answers: pendulums, spinning tops, falling bodies."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.special import ellipk
from tests.methods.scenes import floating, started
from tests.naive.rotations import about, matrix, multiply

import limberjack as lj

G = 9.81


def pendulum(start):
    """Return a point mass on a massless bar of 1 m, swinging in x-y under -y, `start` from hanging."""
    builder = lj.Builder(gravity=(0, -G, 0))
    builder.add_body("bob", mass=1.0, com=(0, -1, 0))
    builder.add_joint_hinge("pivot", "world", "bob", start=start)
    builder.add_point("tip", "bob", (0, -1, 0))
    return builder.build()


def exact_place(t):
    """Return (x, y) of the pendulum that starts from rest at (-1, 0), by elliptic functions with 50 digits."""
    with mpmath.workdps(50):
        k = mpmath.sqrt(mpmath.mpf(1) / 2)
        phase = mpmath.sqrt(mpmath.mpf("9.81")) * mpmath.mpf(t) + mpmath.ellipk(k**2)
        angle = -2 * mpmath.asin(k * mpmath.ellipfun("sn", phase, m=k**2))
        return np.array([float(mpmath.sin(angle)), float(-mpmath.cos(angle))])


def test_the_closed_form_is_the_published_one():
    """The closed form gives the published values of the benchmark, and its period."""
    assert exact_place(1) == pytest.approx([0.9862917511318753, -0.1650108531255412], abs=1e-15)
    assert exact_place(10) == pytest.approx([-0.2750874625761169, -0.9614192050991251], abs=1e-15)
    assert 4 * ellipk(0.5) / np.sqrt(G) == pytest.approx(2.36784194757623745, rel=1e-15)


@pytest.mark.parametrize(
    ("integrator", "seconds", "bound"),
    [
        ("rk4", 1, 1e-11),
        ("rk4", 10, 1e-9),
        ("semi_implicit", 10, 2e-2),
        pytest.param("rk4", 2000, 1e-9, marks=pytest.mark.slow),
    ],
)
def test_simple_pendulum(integrator, seconds, bound):
    """Benchmark A01: the bob is where the closed form says, after 10 s and after 2000 s, at steps of 1 ms."""
    sim = lj.Simulation(pendulum(-np.pi / 2), lj.Full(integrator=integrator), dt=1e-3)
    sim.step(1000 * seconds)
    assert sim.time == seconds
    assert np.abs(sim.point("tip").position[:2] - exact_place(seconds)).max() < bound


@pytest.mark.parametrize("amplitude", [0.1, 1.0, 2.0, 3.0, 3.1])
def test_period_of_a_pendulum(amplitude):
    """After one period, 4 K(sin(amplitude / 2)) sqrt(l / g), the pendulum is back at rest where it began."""
    period = 4 * ellipk(np.sin(amplitude / 2) ** 2) / np.sqrt(G)
    steps = 4000
    sim = lj.Simulation(pendulum(amplitude), lj.Full(integrator="rk4"), dt=period / steps)
    sim.step(steps // 2)
    assert sim.joint("pivot").q == pytest.approx(-amplitude, abs=1e-9)
    sim.step(steps // 2)
    assert sim.joint("pivot").q == pytest.approx(amplitude, abs=1e-9) and abs(sim.joint("pivot").qd) < 1e-8


def test_angles_count_turns():
    """A pendulum going over the top keeps counting: q grows beyond a turn, sine and cosine unharmed."""
    sim = lj.Simulation(pendulum(0.0), lj.Full(integrator="rk4"), dt=1e-3, qd=[20.0])
    before = sim.energy().total
    sim.step(3000)
    assert sim.joint("pivot").q > 6 * np.pi
    assert sim.energy().total == pytest.approx(before, rel=1e-9)


def test_semi_implicit_keeps_energy_bounded():
    """Over many swings the energy of semi_implicit comes and goes and does not drift; that of euler grows."""
    sim = lj.Simulation(pendulum(2.0), "full", dt=2e-3)
    energies = []
    for _ in range(200):
        sim.step(500)
        energies.append(sim.energy().total)
    first, last = np.array(energies[:100]), np.array(energies[100:])
    assert np.ptp(energies) < 0.3
    assert abs(first.mean() - last.mean()) < 0.01
    rough = lj.Simulation(pendulum(2.0), lj.Full(integrator="euler"), dt=2e-3)
    rough.step(5000)
    assert rough.energy().total > energies[0] + 1.0


def test_energy_of_free_trees():
    """rk4 keeps the energy of a falling, tumbling tree with every kind of joint."""
    sim = started(floating(gravity=(0, 0, -G)), "rk4", 1e-3)
    before = sim.energy().total
    sim.step(1000)
    assert sim.energy().total == pytest.approx(before, rel=1e-9)


MOMENTS = np.array([0.1, 0.2, 0.25])


def top(spin):
    """Return a free asymmetric body in space and its start velocity."""
    builder = lj.Builder(gravity=(0, 0, 0))
    builder.add_body("top", mass=1.0, inertia=MOMENTS)
    return builder.build(), np.r_[0.0, 0.0, 0.0, spin]


@pytest.mark.parametrize("integrator", ["rk4", "momentum"])
def test_spin_about_the_middle_axis_flips(integrator):
    """Dzhanibekov: a body spun about its middle axis turns over with the period of the elliptic functions."""
    spin = np.array([0.01, 5.0, 0.02])
    double_energy, square = MOMENTS @ spin**2, (MOMENTS**2) @ spin**2
    low, middle, high = MOMENTS
    if square > double_energy * middle:
        rate = np.sqrt((high - middle) * (square - double_energy * low) / MOMENTS.prod())
        k2 = (middle - low) * (double_energy * high - square) / ((high - middle) * (square - double_energy * low))
    else:
        rate = np.sqrt((middle - low) * (double_energy * high - square) / MOMENTS.prod())
        k2 = (high - middle) * (square - double_energy * low) / ((middle - low) * (double_energy * high - square))
    period = 4 * ellipk(k2) / rate
    steps = 20_000
    model, qd = top(spin)
    sim = lj.Simulation(model, lj.Full(integrator=integrator), dt=period / steps, qd=qd)
    energy, momentum = sim.energy().total, sim.momentum().angular
    sim.step(steps // 2)
    assert sim.qd[4] == pytest.approx(-5.0, abs=1e-6)
    sim.step(steps // 2)
    assert np.abs(sim.qd[3:] - spin).max() < 1e-6
    assert sim.energy().total == pytest.approx(energy, rel=1e-11)
    assert np.abs(sim.momentum().angular - momentum).max() < 1e-10


def test_a_tumbling_body_follows_eulers_equations():
    """Attitude and spin of a free body are those of Euler's equations solved to 1e-13 by another code."""
    spin = np.array([0.3, 5.0, -0.2])

    def rates(_, y):
        w = y[4:]
        return np.r_[multiply(y[:4], np.r_[0.0, w]) / 2, np.cross(MOMENTS * w, w) / MOMENTS]

    wanted = solve_ivp(rates, (0, 5), np.r_[1.0, 0, 0, 0, spin], method="DOP853", rtol=1e-13, atol=1e-13).y[:, -1]
    model, qd = top(spin)
    sim = lj.Simulation(model, lj.Full(integrator="rk4"), dt=1e-3, qd=qd)
    sim.step(5000)
    assert np.abs(sim.qd[3:] - wanted[4:]).max() < 1e-9
    assert np.abs(matrix(sim.rotations[0]) - matrix(wanted[:4])).max() < 1e-9


@pytest.mark.parametrize("precession", [0.8, 2.0])
def test_steady_precession_of_a_heavy_top(precession):
    """A top spun with I1 W^2 cos t - I3 w3 W + m g l = 0 keeps its tilt and turns about the vertical with W."""
    mass, length, tilt = 1.2, 0.3, 0.7
    across, along = 0.02, 0.01
    pivot = across + mass * length**2
    spin = (pivot * precession**2 * np.cos(tilt) + mass * G * length) / (along * precession)
    builder = lj.Builder()
    builder.add_body("top", mass=mass, com=(0, 0, length), inertia=(across, across, along))
    builder.add_joint_ball("foot", "world", "top")
    r = about([1, 0, 0], tilt)
    own = np.array([0, 0, spin - precession * np.cos(tilt)])
    sim = lj.Simulation(builder.build(), lj.Full(integrator="rk4", substeps=20), dt=1e-3)
    sim.q = [np.cos(tilt / 2), np.sin(tilt / 2), 0, 0]
    sim.qd = r.T @ [0, 0, precession] + own
    for k in range(1, 5):
        sim.step(250)
        axis = matrix(sim.rotations[0])[:, 2]
        wanted = about([0, 0, 1], precession * 0.25 * k) @ r[:, 2]
        assert np.abs(axis - wanted).max() < 1e-7


def test_a_body_falls_as_galileo_says():
    """A thrown body's com draws its parabola, spinning or not, whatever its frame."""
    builder = lj.Builder()
    builder.add_body("stone", mass=2.0, com=(0.1, 0.2, 0.3), inertia=(0.1, 0.2, 0.25), position=(1, 2, 3))
    sim = lj.Simulation(builder.build(), lj.Full(integrator="rk4"), dt=1e-3, qd=[1, 2, 8, 0.5, 3, -1])
    com, velocity = sim.positions[0] + [0.1, 0.2, 0.3], sim.velocities[0, 3:]
    sim.step(1000)
    now = sim.positions[0] + matrix(sim.rotations[0]) @ [0.1, 0.2, 0.3]
    assert now == pytest.approx(com + velocity + [0, 0, -G / 2], abs=1e-9)
    assert sim.velocities[0, 3:] == pytest.approx(velocity + [0, 0, -G], abs=1e-9)


def test_a_screw_turns_weight_into_spin():
    """A nut on a vertical screw falls with m g p / (I + m p^2) per turn of a radian."""
    builder = lj.Builder()
    builder.add_body("nut", mass=2.0, inertia=(0.2, 0.2, 0.3))
    builder.add_joint_screw("s", "world", "nut", pitch=0.5)
    sim = lj.Simulation(builder.build(), lj.Full(integrator="rk4"), dt=1e-3)
    sim.step(1000)
    rate = -2.0 * G * 0.5 / (0.3 + 2.0 * 0.25)
    assert sim.joint("s").qd == pytest.approx(rate, rel=1e-12)
    assert sim.positions[0, 2] == pytest.approx(0.5 * rate / 2, rel=1e-11)


def test_armature_slows_a_joint():
    """A rotor of inertia a adds to the joint's: qdd = tau / (I + a)."""
    builder = lj.Builder(gravity=(0, 0, 0))
    builder.add_body("arm", mass=1.0, inertia=(1.0, 1.0, 2.0))
    builder.add_joint_hinge("h", "world", "arm", armature=3.0)
    sim = lj.Simulation(builder.build(), dt=1e-3)
    sim.joint("h").tau = 10.0
    sim.step(100)
    assert sim.joint("h").qd == pytest.approx(10.0 / 5.0 * 0.1, rel=1e-12)


def test_a_damped_oscillator():
    """A slide on a spring with a damper follows exp(-d t) cos(w t)."""
    builder = lj.Builder(gravity=(0, 0, 0))
    builder.add_body("m", mass=2.0)
    builder.add_joint_slide("s", "world", "m", stiffness=50.0, damping=1.5, rest=0.2, start=1.2)
    sim = lj.Simulation(builder.build(), lj.Full(integrator="rk4"), dt=1e-3)
    decay = 1.5 / 4
    rate = np.sqrt(25 - decay**2)
    for _ in range(4):
        sim.step(500)
        t = sim.time
        wanted = 0.2 + np.exp(-decay * t) * (np.cos(rate * t) + decay / rate * np.sin(rate * t))
        assert sim.joint("s").q == pytest.approx(wanted, abs=1e-11)
