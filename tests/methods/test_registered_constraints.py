"""Registered constraint kinds in simulations: surfaces, tangency, driven joints and trackers, one-sided rows."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.constraints.registered_constraints import registered, tangent, torus  # noqa: F401

import limberjack as lj

METHODS = {"multipliers": lj.Multipliers(integrator="rk4"), "full": lj.Full(integrator="rk4")}


def bead():
    """Return a bead on a torus, with a swing to it."""
    builder = lj.Builder("bead")
    builder.add_particle("bead", mass=0.3, position=(0.8, 0.0, 0.0))
    builder.add_constraint("torus", "on", "world", "bead", data=(0.6, 0.2))
    return builder.build()


def test_a_bead_stays_on_an_implicit_surface():
    """A point on a torus keeps to it and keeps its energy, on the same path in reduced and in maximal coordinates."""
    places = []
    for method in METHODS.values():
        sim = lj.Simulation(bead(), method, dt=1e-3, qd=[0.0, 1.0, 0.5])
        before = sim.energy().total
        sim.step(1000)
        position = sim.positions[0]
        across = math.hypot(position[0], position[1]) - 0.6
        assert abs(across**2 + position[2] ** 2 - 0.04) < 1e-12
        assert sim.energy().total == pytest.approx(before, abs=1e-8)
        places.append(position)
    np.testing.assert_allclose(places[0], places[1], atol=1e-9)


def eggs():
    """Return two free ellipsoids that touch, turning about each other."""
    builder = lj.Builder("eggs", gravity=(0, 0, 0))
    axes = ((0.5, 0.4, 0.3), (0.3, 0.35, 0.2))
    for name, (a, b, c), x in (("first", axes[0], 0.0), ("second", axes[1], 0.8)):
        inertia = (0.2 * (b * b + c * c), 0.2 * (a * a + c * c), 0.2 * (a * a + b * b))
        builder.add_body(name, mass=1.0, inertia=inertia, position=(x, 0.0, 0.0))
    builder.add_constraint("tangent", "touch", "first", "second", data=(*axes[0], *axes[1], 150, 0.9))
    return builder.build()


@pytest.mark.parametrize("method", METHODS)
def test_two_surfaces_stay_in_touch(method):
    """Two smooth bodies in tangency slide and turn on each other: gap, energy and both momenta are kept."""
    velocity = [0, 0, 0, 0.0, 0.6, 0.3, 0, 0.2, -0.4, 0.5, 0.0, 0.0]
    sim = lj.Simulation(eggs(), METHODS[method], dt=2e-3, qd=velocity)
    energy, momentum = sim.energy().total, np.concatenate(sim.momentum())
    sim.step(100)
    a, b = (np.array(lj_matrix(q)) for q in sim.rotations)
    place = a.T @ (sim.positions[1] - sim.positions[0])
    data = np.array((0.5, 0.4, 0.3, 0.3, 0.35, 0.2, 150, 0.9))
    assert abs(tangent(tuple(place), tuple(map(tuple, a.T @ b)), 0.0, data)) < 1e-10
    assert sim.energy().total == pytest.approx(energy, rel=1e-7)
    np.testing.assert_allclose(np.concatenate(sim.momentum()), momentum, atol=1e-9)
    assert np.abs(sim.positions[1] - [0.8, 0, 0]).max() > 0.01


def lj_matrix(q):
    """Return the rotation matrix of a quaternion."""
    w, x, y, z = q
    return [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]


@pytest.mark.parametrize("method", ["multipliers", "rattle", "full"])
def test_a_driven_hinge_follows_its_function_of_time(method):
    """A hinge held at 0.7 sin(1.3 t) has that angle at every step, and the torque that inertia asks for."""
    builder = lj.Builder("driven", gravity=(0, 0, 0))
    builder.add_body("arm", mass=1.0, com=(0.5, 0, 0), inertia=(0.01, 0.1, 0.1))
    builder.add_joint_hinge("hinge", "world", "arm", axis=(0, 0, 1))
    builder.add_constraint("turned", "drive", "world", "arm", data=(0.7, 1.3))
    how = METHODS.get(method, lj.Multipliers(integrator="rattle"))
    sim = lj.Simulation(builder.build(), how, dt=1e-3, qd=[0.7 * 1.3])
    for _ in range(4):
        sim.step(250)
        assert sim.q[0] == pytest.approx(0.7 * math.sin(1.3 * sim.time), abs=1e-10)
    assert sim.qd[0] == pytest.approx(0.91 * math.cos(1.3 * sim.time), abs=1e-9)


def test_a_tracker_leads_a_chain_along_a_circle():
    """The end of a chain held to a moving point is there at every step, with the point's velocity."""
    builder = lj.Builder("led")
    builder.add_body("one", mass=1.0, com=(0, 0, -0.5), inertia=(0.1, 0.1, 0.01), position=(0.4, 0.0, 0.0))
    builder.add_body("two", mass=1.0, com=(0, 0, -0.5), inertia=(0.1, 0.1, 0.01))
    builder.add_joint_ball("between", "one", "two", position=(0, 0, -1))
    builder.add_constraint("tracked", "lead", "world", "one", data=(0.4, 0.8))
    model = builder.build()
    for method in METHODS.values():
        sim = lj.Simulation(model, method, dt=1e-3, qd=[0, 0.32, 0, *(0,) * 6])
        sim.step(500)
        where = 0.4 * np.array([math.cos(0.8 * sim.time), math.sin(0.8 * sim.time), 0.0])
        np.testing.assert_allclose(sim.positions[0], where, atol=1e-10)
        np.testing.assert_allclose(sim.qd[:3], [-0.8 * where[1], 0.8 * where[0], 0.0], atol=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_a_one_sided_kind_pushes_and_never_pulls(method):
    """A bead falls freely onto a bowl, then slides in it and never passes through; thrown up, it leaves it."""
    builder = lj.Builder("bowl")
    builder.add_particle("bead", mass=0.3, position=(0.3, 0.0, 0.1))
    builder.add_constraint("above", "bowl", "world", "bead", data=(0.5,))
    sim = lj.Simulation(builder.build(), METHODS[method], dt=1e-3)
    sim.step(100)
    assert sim.positions[0, 2] == pytest.approx(0.1 - 0.5 * 9.81 * 0.01, abs=1e-9)
    for _ in range(40):
        sim.step(10)
        x, y, z = sim.positions[0]
        assert z - 0.5 * (x * x + y * y) > -1e-9
    assert abs(z - 0.5 * (x * x + y * y)) < 1e-7
    sim.qd = [0.0, 0.0, 2.0]
    sim.step(100)
    assert sim.positions[0, 2] - z > 0.1


def test_methods_without_them_say_so():
    """Methods whose rows are their own refuse a registered kind by name."""
    with pytest.raises(lj.UnsupportedByMethod, match='joint "on".*: full, adaptive, multipliers, impulses'):
        lj.Simulation(bead(), "displacements", dt=1e-3)


def test_impulses_hold_them_too():
    """A rod hung on a torus swings in `impulses` as in `full`, nearer with a smaller step, and stays on the torus."""
    builder, errors = lj.Builder("hung"), []
    builder.add_body("rod", mass=1.0, com=(0, 0, -0.3), inertia=(0.05, 0.05, 0.01), position=(0.8, 0, 0))
    builder.add_constraint("torus", "on", "world", "rod", data=(0.6, 0.2))
    start = [0, 0.5, 0, 1.0, 0, 0.3]
    exact = lj.Simulation(builder.build(), METHODS["full"], dt=1e-3, qd=start)
    exact.step(300)
    for dt in (2e-3, 1e-3):
        sim = lj.Simulation(builder.build(), "impulses", dt=dt, qd=start)
        sim.step(round(0.3 / dt))
        errors.append(np.abs(sim.q - exact.q).max())
        assert abs(torus(tuple(sim.positions[0]), None, 0.0, (0.6, 0.2))) < 1e-7
    assert errors[1] < 5e-3 and errors[1] < 0.6 * errors[0]


def test_a_surface_holds_a_body_at_a_point_beside_its_middle():
    """A rigid body hung by one of its points on a torus swings with the energy it began with."""
    builder = lj.Builder("hung")
    builder.add_body("rod", mass=1.0, com=(0, 0, -0.3), inertia=(0.05, 0.05, 0.01), position=(0.8, 0, 0))
    builder.add_constraint("torus", "on", "world", "rod", data=(0.6, 0.2))
    sims = [lj.Simulation(builder.build(), m, dt=1e-3, qd=[0, 0.5, 0, 1.0, 0, 0.3]) for m in METHODS.values()]
    for sim in sims:
        before = sim.energy().total
        sim.step(300)
        assert sim.energy().total == pytest.approx(before, abs=1e-8)
        assert abs(torus(tuple(sim.positions[0]), None, 0.0, (0.6, 0.2))) < 1e-12
    np.testing.assert_allclose(sims[0].q, sims[1].q, atol=1e-8)


def test_adaptive_holds_them_too():
    """A chain with its end on a torus, all joints active, moves in `adaptive` as in `full`, and stays there."""
    builder = lj.Builder("chain")
    for k in range(4):
        builder.add_body(f"link{k}", mass=0.5, com=(0.1, 0, 0), inertia=(0.001, 0.004, 0.004))
        above, place = ("world", (0, 0, 0)) if k == 0 else (f"link{k - 1}", (0.2, 0, 0))
        builder.add_joint_ball(f"joint{k}", above, f"link{k}", position=place)
    builder.add_constraint("torus", "end", "world", "link3", data=(0.6, 0.2), position_in_child=(0.2, 0, 0))
    sims = [lj.Simulation(builder.build(), method, dt=1e-3) for method in (lj.Adaptive(budget=4), lj.Full())]
    for sim in sims:
        sim.step(50)
        end = sim.positions[3] + np.array(lj_matrix(sim.rotations[3])) @ (0.2, 0, 0)
        assert abs(torus(tuple(end), None, 0.0, (0.6, 0.2))) < 1e-10
    np.testing.assert_allclose(sims[0].q, sims[1].q, atol=1e-8)
