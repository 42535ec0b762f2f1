"""Dynamics for control: derivatives against finite differences, momentum and inertia against their definitions."""

from __future__ import annotations

import numpy as np
import pytest
from tests.naive.models import random_model, random_state

import limberjack as lj
from limberjack.errors import StateError
from limberjack.spatial.frames import matrix_from_quaternion


def reversed_model() -> lj.Model:
    """Return a model whose joints are given from the child to the parent, those with balls and slides included."""
    b = lj.Builder("reversed")
    for name in "abcd":
        b.add_body(name, mass=1.3, com=(0.1, 0.05, -0.2), inertia=(0.3, 0.2, 0.25))
    b.add_joint_hinge("h", "world", "a", axis=(0, 1, 0))
    b.add_joint_ball(
        "back", "b", "a", position=(0.2, 0.1, 0.3), stiffness=4.0, rest=(0.8, 0.6, 0, 0), damping=(1, 2, 3)
    )
    b.add_joint_point_on_plane("pp", "c", "b", position=(0.2, 0.1, 0.3))
    b.add_joint_ball("on", "c", "d", position=(0, 0, 0.4))
    return b.build()


def central(model, function, q, h=1e-6):
    """Return the derivative of a function of q along each velocity, by central differences."""
    columns = [
        function(lj.integrate(model, q, h * e)) - function(lj.integrate(model, q, -h * e)) for e in np.eye(model.nv)
    ]
    return np.stack(columns, axis=-1) / (2 * h)


def models():
    """Return random models with every joint kind, and one with reversed joints."""
    return [*(random_model(np.random.default_rng(k), bodies=9) for k in range(6)), reversed_model()]


@pytest.mark.parametrize("k", range(7))
def test_derivatives_of_inverse_dynamics(k, rng):
    """Derivatives with respect to q, qd and qdd equal central differences, for all joint kinds."""
    model = models()[k]
    q, qd = random_state(rng, model)
    qdd = rng.normal(size=model.nv)
    found = lj.inverse_dynamics_derivatives(model, q, qd, qdd)
    dq = central(model, lambda x: lj.inverse_dynamics(model, x, qd, qdd), q)
    h = 1e-3  # tau is quadratic in qd: the difference is exact
    dqd = np.stack(
        [
            lj.inverse_dynamics(model, q, qd + h * e, qdd) - lj.inverse_dynamics(model, q, qd - h * e, qdd)
            for e in np.eye(model.nv)
        ],
        axis=-1,
    ) / (2 * h)
    np.testing.assert_allclose(found.dq, dq, atol=1e-7 * np.abs(dq).max())
    np.testing.assert_allclose(found.dqd, dqd, atol=1e-9 * np.abs(dqd).max())
    np.testing.assert_allclose(found.dqdd, lj.mass_matrix(model, q), atol=1e-11 * np.abs(found.dqdd).max())


@pytest.mark.parametrize("k", [0, 3, 6])
def test_derivatives_of_forward_dynamics(k, rng):
    """d qdd/dq, d qdd/dqd and d qdd/dtau equal central differences of the accelerations of the tree."""
    from limberjack.reduced.dynamics import forward_dynamics

    model = models()[k]
    q, qd = random_state(rng, model)
    tau = rng.normal(size=model.nv)
    found = lj.forward_dynamics_derivatives(model, q, qd, tau)
    dq = central(model, lambda x: forward_dynamics(model, x, qd, tau), q)
    np.testing.assert_allclose(found.dq, dq, atol=1e-6 * np.abs(dq).max())
    h = 1e-5
    for word, at in (("dqd", 0), ("dtau", 1)):
        columns = []
        for e in h * np.eye(model.nv):
            pairs = [(qd + s * e, tau) if at == 0 else (qd, tau + s * e) for s in (1, -1)]
            columns.append((forward_dynamics(model, q, *pairs[0]) - forward_dynamics(model, q, *pairs[1])) / (2 * h))
        numeric = np.stack(columns, axis=-1)
        np.testing.assert_allclose(getattr(found, word), numeric, atol=1e-6 * np.abs(numeric).max())


def test_bias_forces_are_the_forces_without_acceleration(rng):
    """M qdd + bias = tau."""
    model = models()[0]
    q, qd = random_state(rng, model)
    qdd = rng.normal(size=model.nv)
    tau = lj.mass_matrix(model, q) @ qdd + lj.bias_forces(model, q, qd)
    np.testing.assert_allclose(tau, lj.inverse_dynamics(model, q, qd, qdd), rtol=1e-9, atol=1e-9)


def test_centroidal_momentum_is_that_of_the_bodies(rng):
    """Momentum about the com, the com and its velocity are the sums over the bodies."""
    model = models()[1]
    q, qd = random_state(rng, model)
    sim = lj.Simulation(model, "full", q=q, qd=qd, ignore=("loops", "limits", "contacts", "friction", "gears"))
    a, moving = model.arrays, model.arrays.body_link >= 0
    r = matrix_from_quaternion(sim.rotations)
    mass, centers = np.where(moving, a.body_mass, 0.0), sim.positions + np.einsum("bij,bj->bi", r, a.body_com)
    com = mass @ centers / mass.sum()
    w, v = sim.velocities[:, :3], sim.velocities[:, 3:]
    inertia = np.stack([model.body(name).inertia for name in model.body_names]) * moving[:, None, None]
    spin = np.einsum("bij,bjk,blk,bl->bi", r, inertia, r, w)
    angular = (spin + mass[:, None] * np.cross(centers - com, v)).sum(axis=0)
    found, center = lj.centroidal_momentum(model, q, qd), lj.center_of_mass(model, q)
    np.testing.assert_allclose(found.momentum, [*angular, *(mass @ v)], atol=1e-9)
    np.testing.assert_allclose(found.matrix @ qd, found.momentum)
    np.testing.assert_allclose(center.position, com, atol=1e-12)
    np.testing.assert_allclose(center.jacobian @ qd, mass @ v / mass.sum(), atol=1e-9)
    assert center.mass == pytest.approx(mass.sum())


def test_batches_of_jacobians_are_single_ones(rng):
    """n states and k bodies in one call give what n k calls give; points in body frames are those in the world."""
    model = models()[2]
    states = np.stack([random_state(rng, model)[0] for _ in range(4)])
    names = list(model.body_names[2:5])
    points = rng.normal(size=(3, 3))
    world = lj.jacobian(model, states, names, points)
    assert world.shape == (4, 3, 6, model.nv)
    local = lj.jacobian(model, states, names, points, local=True)
    for n, q in enumerate(states):
        p, r = lj.forward_kinematics(model, q)
        for k, name in enumerate(names):
            np.testing.assert_array_equal(world[n, k], lj.jacobian(model, q, name, points[k]))
            i = model.body_index(name)
            at = p[i] + matrix_from_quaternion(r[i]) @ points[k]
            np.testing.assert_allclose(local[n, k], lj.jacobian(model, q, name, at), atol=1e-12)
    np.testing.assert_array_equal(lj.jacobian(model, states, names[0])[2], lj.jacobian(model, states[2], names[0]))
    assert lj.jacobian(model, states[0], names).shape == (3, 6, model.nv)
    with pytest.raises(StateError, match="point must have shape"):
        lj.jacobian(model, states, names, points[:2])


def test_operational_inertia_is_force_per_acceleration(rng):
    """A force on a point of a chain at rest, without gravity, accelerates it by the inverse of that inertia."""
    b = lj.Builder("arm", gravity=(0, 0, 0))
    parent = "world"
    for k in range(7):
        b.add_body(f"l{k}", mass=1.0 + k, com=(0, 0, 0.2), inertia=(0.05, 0.05, 0.01))
        b.add_joint_hinge(
            f"j{k}", parent, f"l{k}", axis=((0, 0, 1), (0, 1, 0))[k % 2], position=(0, 0, 0.4 if k else 0)
        )
        parent = f"l{k}"
    model = b.build()
    q = rng.uniform(-1, 1, 7)
    wrenches = np.zeros((7, 6))
    wrenches[-1] = rng.normal(size=6)
    qdd = lj.forward_dynamics(model, q, np.zeros(7), wrenches=wrenches)
    acceleration = lj.jacobian(model, q, "l6") @ qdd
    np.testing.assert_allclose(
        lj.operational_inertia(model, q, "l6") @ acceleration, wrenches[-1], rtol=1e-6, atol=1e-8
    )
    assert lj.operational_inertia(model, q, ["l3", "l6"], linear=True).shape == (6, 6)


def test_integrate_and_difference_are_inverse(rng):
    """A motion along velocities and back again; velocities of a simulation lead along it."""
    model = models()[4]
    q, qd = random_state(rng, model)
    step = 0.3 * qd / np.abs(qd).max()
    np.testing.assert_allclose(lj.difference(model, q, lj.integrate(model, q, step)), step, atol=1e-10)
    p0, p1 = (lj.forward_kinematics(model, lj.integrate(model, q, s * 1e-6 * qd))[0] for s in (-1, 1))
    for i, name in enumerate(model.body_names):
        rate = (lj.jacobian(model, q, name, lj.forward_kinematics(model, q)[0][i]) @ qd)[3:]
        np.testing.assert_allclose((p1[i] - p0[i]) / 2e-6, rate, atol=1e-6)


def test_wrong_shapes_are_named():
    """Arrays of the wrong shape raise StateError with the name and the shapes."""
    model = lj.scenes.double_pendulum()
    with pytest.raises(StateError, match="qdd must have shape"):
        lj.inverse_dynamics_derivatives(model, model.q0, model.qd0, [0.0])
    with pytest.raises(StateError, match="q must have shape"):
        lj.center_of_mass(model, [0.0])
    with pytest.raises(StateError, match="motion"):
        lj.integrate(model, model.q0, [0.0])
