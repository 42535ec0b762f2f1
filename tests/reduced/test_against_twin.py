"""The tree algorithms against their naive twin: dense matrices built from the spec."""

from __future__ import annotations

import numpy as np
import pytest
from tests.naive import rotations as rot
from tests.naive.models import KINDS, add_body, axes, frames, random_model, random_state
from tests.naive.twin import Twin

import limberjack as lj

TOLERANCE = 1e-9


def gap(found, wanted):
    """Return max|difference| / max|reference|."""
    return np.abs(found - wanted).max(initial=0.0) / max(np.abs(wanted).max(initial=0.0), 1e-300)


def compare(model, rng, size=1.0):
    """Assert that every public function of the tree gives the twin's numbers at a random state."""
    twin = Twin(model)
    q, qd = random_state(rng, model, size)
    tau, wrenches = rng.normal(size=model.nv), rng.normal(size=(model.body_count, 6))
    positions, rotations = lj.forward_kinematics(model, q)
    wanted_positions, wanted_rotations = twin.poses(q)
    assert gap(positions, wanted_positions) < TOLERANCE
    assert gap(np.array([rot.matrix(r) for r in rotations]), wanted_rotations) < TOLERANCE
    jacobians = twin.jacobians(q)
    for i, name in enumerate(model.body_names):
        assert gap(lj.jacobian(model, q, name), jacobians[i]) < TOLERANCE
    assert gap(lj.mass_matrix(model, q), twin.mass_matrix(q, jacobians)) < TOLERANCE
    qdd = lj.forward_dynamics(model, q, qd, tau, wrenches)
    assert gap(qdd, twin.forward(q, qd, tau, wrenches)) < TOLERANCE
    forces = twin.bias(q, qd, wrenches, jacobians) - twin.passive(q, qd)
    assert gap(lj.inverse_dynamics(model, q, qd, np.zeros(model.nv), wrenches), forces) < TOLERANCE


@pytest.mark.parametrize("seed", range(25))
def test_random_forests(seed):
    """Any forest of any joints, in any direction, gives the twin's poses, Jacobians, masses, forces, accelerations."""
    rng = np.random.default_rng([1, seed])
    model = random_model(
        rng, bodies=int(rng.integers(1, 11)), bases=int(rng.integers(1, 4)), merge_fixed=bool(seed % 2)
    )
    compare(model, rng)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000))
def test_many_random_forests(seed):
    """As above, over a thousand models and velocities up to 10."""
    rng = np.random.default_rng([2, seed])
    model = random_model(
        rng, bodies=int(rng.integers(1, 16)), bases=int(rng.integers(1, 5)), merge_fixed=bool(seed % 2)
    )
    compare(model, rng, 10.0 if seed % 3 == 0 else 1.0)


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_alone(kind, rng):
    """Each kind by itself, as base, in a chain and reversed, gives the twin's numbers: a fault names its kind."""
    for _ in range(2):
        compare(random_model(rng, bodies=4, kinds=(kind,), bases=1), rng)


def test_free_bodies(rng):
    """Floating parts, with and without a free joint of their own, give the twin's numbers."""
    for bases in (1, 3):
        builder = lj.Builder()
        for k in range(bases):
            builder.add_body(f"b{k}", mass=2.0, com=(0.1, 0.2, -0.1), inertia=(0.3, 0.2, 0.25))
        builder.add_joint_free("held", "world", "b0", damping=[0.1, 0.2, 0.3, 0.4, 0.5, 0.6], armature=0.05)
        compare(builder.build(), rng)


@pytest.mark.parametrize("count", [5, 6])
def test_compound_with_many_axes(count, rng):
    """A compound joint with five and six axes through different points gives the twin's numbers."""
    builder = lj.Builder()
    add_body(builder, rng, "a")
    add_body(builder, rng, "b")
    builder.add_joint_hinge("h", "world", "a", axis=(0, 1, 0))
    builder.add_joint_compound("c", "a", "b", axes(rng, "c", count), **frames(rng))
    compare(builder.build(), rng)


def test_large_angles_and_speeds(rng):
    """Angles of many turns and fast motion change nothing: relative errors stay as small."""
    model = random_model(rng, bodies=8, kinds=("hinge", "ball", "universal"), bases=1, passive=False)
    compare(model, rng, 300.0)


def test_massless_carriers_and_point_masses():
    """Links without mass or without inertia are exact where the joint-space inertia is positive."""
    builder = lj.Builder()
    builder.add_body("carrier")
    builder.add_body("bob", mass=2.0, com=(0, 0, -1.0))
    builder.add_joint_hinge("x", "world", "carrier", axis=(1, 0, 0))
    builder.add_joint_hinge("y", "carrier", "bob", axis=(0, 1, 0), position=(0, 0, -0.2))
    compare(builder.build(), np.random.default_rng(7))


def test_energy_and_momentum(rng):
    """Energy and momentum of a simulation are the twin's sums over bodies; armature counts as kinetic energy."""
    for passive in (True, False):
        model = random_model(rng, bodies=8, passive=passive)
        twin = Twin(model)
        q, qd = random_state(rng, model)
        sim = lj.Simulation(model, q=q, qd=qd)
        kinetic, potential = twin.energy(q, qd)
        linear, angular = twin.momentum(q, qd)
        assert sim.energy().kinetic == pytest.approx(kinetic, rel=1e-11)
        assert sim.energy().potential == pytest.approx(potential, rel=1e-10, abs=1e-10)
        assert sim.energy().total == sim.energy().kinetic + sim.energy().potential
        assert gap(sim.momentum().linear, linear) < 1e-11
        assert gap(sim.momentum().angular, angular) < 1e-11
        velocities = np.array([np.r_[w, v] for _, _, w, v, _, _ in twin.motions(q, qd, 0 * qd)])
        assert gap(sim.velocities, velocities) < 1e-11
