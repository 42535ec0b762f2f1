"""The pendulums: sizes, start poses and the closed form of the simplest."""

from __future__ import annotations

import numpy as np
import pytest

import limberjack as lj


def test_pendulum_of_the_paper():
    """300 hinges about y, 300 freedoms, gravity alone."""
    model = lj.scenes.pendulum()
    assert (model.body_count, model.nq, model.nv) == (300, 300, 300)
    assert {joint.kind for joint in model.spec.joints} == {"hinge"}
    assert {joint.axis for joint in model.spec.joints} == {(0.0, 1.0, 0.0)}
    assert model.features() == {}
    np.testing.assert_array_equal(model.qd0, 0.0)


def test_horizontal_start_lies_along_x():
    """Link i of a horizontal pendulum starts i lengths along +x."""
    model = lj.scenes.pendulum(links=20, length=0.3)
    positions, _ = lj.forward_kinematics(model, model.q0)
    expected = np.zeros((20, 3))
    expected[:, 0] = 0.3 * np.arange(20)
    np.testing.assert_allclose(positions, expected, atol=1e-12)


def test_hanging_start_is_at_rest():
    """A hanging pendulum does not accelerate."""
    model = lj.scenes.pendulum(links=20, start="hanging")
    np.testing.assert_allclose(lj.forward_dynamics(model, model.q0, model.qd0), 0.0, atol=1e-9)


def test_random_start_follows_the_seed():
    """The random start is the same for the same seed, another for another, and within its bounds."""
    a, b, c = (lj.scenes.pendulum(links=50, start="random", seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(a.q0, b.q0)
    np.testing.assert_array_equal(a.qd0, b.qd0)
    assert (a.q0 != c.q0).all()
    assert np.abs(a.q0).max() <= 0.3 and 0.0 < np.abs(a.qd0).max() <= 0.2


def test_spatial_pendulum_turns_about_two_axes():
    """Hinge axes alternate between y and x."""
    model = lj.scenes.pendulum(links=4, spatial=True)
    assert [joint.axis.index(1.0) for joint in model.spec.joints] == [1, 0, 1, 0]


def test_one_link_falls_as_a_rod():
    """A rod released level turns by m g l / 2 over its inertia about the hinge."""
    length, mass, radius = 0.8, 2.0, 0.03
    model = lj.scenes.pendulum(links=1, length=length, mass=mass, radius=radius)
    about_hinge = mass * (3 * radius**2 + length**2) / 12 + mass * length**2 / 4
    qdd = lj.forward_dynamics(model, model.q0, model.qd0)
    assert qdd[0] == pytest.approx(mass * 9.81 * length / 2 / about_hinge, rel=1e-12)


def test_damping_is_per_hinge():
    """The damping option slows every hinge in proportion to its speed."""
    model = lj.scenes.pendulum(links=5, damping=0.25, start="hanging", gravity=(0, 0, 0))
    np.testing.assert_array_equal(model.arrays.drives.scalar[:, 0], 0.25)


def test_double_pendulum_energy_of_the_start():
    """The two rods hang level at the start: both centres at the height of the hinge."""
    model = lj.scenes.double_pendulum(lengths=(1.0, 0.5), masses=(1.0, 3.0))
    positions, _ = lj.forward_kinematics(model, model.q0)
    np.testing.assert_allclose(positions, [(0, 0, 0), (1.0, 0, 0)], atol=1e-12)
    assert [model.body(name).mass for name in model.body_names] == [1.0, 3.0]


def test_tether_is_level_and_stretched():
    """The spring pulls the tied link sideways, and only that."""
    model = lj.scenes.tethered_pendulum(links=30)
    (spring,) = model.springs
    assert (spring.a, spring.b) == ("world", "link20")
    positions, _ = lj.forward_kinematics(model, model.q0)
    pull = np.array(spring.at_a) - (positions[20] + np.array(spring.at_b))
    np.testing.assert_allclose(pull, (1.5, 0.0, 0.0), atol=1e-12)


def test_long_chain_is_one_chain():
    """Each link hangs on the one before; no shapes unless asked for."""
    model = lj.scenes.long_chain(links=500)
    assert [joint.parent for joint in model.spec.joints] == ["world", *(f"link{i}" for i in range(499))]
    assert model.shapes == ()
    assert len(lj.scenes.long_chain(links=500, shapes=True).shapes) == 500
    assert np.abs(model.q0).max() == pytest.approx(0.1)


@pytest.mark.parametrize("name", ["double_pendulum", "long_chain", "pendulum", "tethered_pendulum"])
def test_chains_run_by_a_fourth_order_integrator(name):
    """The scene, not the model, brings the method: Runge-Kutta with one substep."""
    options = {} if name == "double_pendulum" else {"links": 4}
    assert lj.scenes.get(name, **options).method == lj.Full(integrator="rk4", substeps=1)


def test_the_whipping_pendulum_keeps_its_energy():
    """The scene of 300 links, run as it says for its 10 seconds, keeps its energy to 1e-5 of the largest kinetic."""
    scene = lj.scenes.get("pendulum")
    sim = lj.Simulation(scene.model, scene.method, scene.dt)
    start, kinetic, drift = sim.energy().total, 0.0, 0.0
    for _ in range(100):
        sim.step(round(scene.seconds / scene.dt) // 100)
        energy = sim.energy()
        kinetic, drift = max(kinetic, energy.kinetic), max(drift, abs(energy.total - start))
    assert drift < 1e-5 * kinetic
