"""The twin itself, against what can be worked out by hand: what it says must not rest on the package."""

from __future__ import annotations

import numpy as np
import pytest
from tests.naive import rotations as rot
from tests.naive.models import quaternion, random_model, random_state
from tests.naive.twin import Twin

import limberjack as lj


def test_rotations_agree_with_one_another(rng):
    """A turn about an axis, its rotation vector and its quaternion are one rotation, and z_to is the shortest."""
    for _ in range(20):
        axis, angle = rng.normal(size=3), rng.uniform(-3, 3)
        axis /= np.linalg.norm(axis)
        q = np.r_[np.cos(angle / 2), np.sin(angle / 2) * axis]
        assert np.allclose(rot.about(axis, angle), rot.matrix(q), atol=1e-14)
        assert np.allclose(rot.from_vector(angle * axis), rot.matrix(q), atol=1e-14)
        assert np.allclose(rot.logarithm(q), angle * axis, atol=1e-14)
        assert np.allclose(rot.exponential(angle * axis), q, atol=1e-14)
        p = quaternion(rng)
        assert np.allclose(rot.matrix(rot.multiply(p, q)), rot.matrix(p) @ rot.matrix(q), atol=1e-14)
        r = rot.z_to(axis)
        assert np.allclose(r[:, 2], axis, atol=1e-14)
        assert np.trace(r) == pytest.approx(1 + 2 * axis[2], abs=1e-13)


def double_pendulum():
    """Return two uniform rods of lengths 1 and 0.8 m and masses 2 and 1 kg that swing in the x-z plane."""
    builder = lj.Builder(gravity=(0, 0, -9.81))
    builder.add_body("a", mass=2.0, com=(0, 0, -0.5), inertia=(2 / 12, 2 / 12, 0))
    builder.add_body("b", mass=1.0, com=(0, 0, -0.4), inertia=(0.64 / 12, 0.64 / 12, 0))
    builder.add_joint_hinge("a", "world", "a", axis=(0, -1, 0))
    builder.add_joint_hinge("b", "a", "b", axis=(0, -1, 0), position=(0, 0, -1))
    return builder.build()


def test_twin_gives_lagranges_equations_of_a_double_pendulum(rng):
    """M and the accelerations of two rods are those of Lagrange's equations in absolute angles t1, t2."""
    model = double_pendulum()
    for _ in range(5):
        q, qd = random_state(rng, model, 2.0)
        t1, t2, w1, w2 = q[0], q[0] + q[1], qd[0], qd[0] + qd[1]
        i1, i2, couple = 2 / 3 + 1.0, 0.64 / 3, 1.0 * 1.0 * 0.4
        mass = np.array([[i1, couple * np.cos(t1 - t2)], [couple * np.cos(t1 - t2), i2]])
        force = -np.array(
            [
                couple * np.sin(t1 - t2) * w2**2 + 9.81 * (2 * 0.5 + 1.0) * np.sin(t1),
                -couple * np.sin(t1 - t2) * w1**2 + 9.81 * 0.4 * np.sin(t2),
            ]
        )
        a1, a2 = np.linalg.solve(mass, force)
        to_absolute = np.array([[1.0, 0.0], [1.0, 1.0]])
        assert np.allclose(Twin(model).mass_matrix(q), to_absolute.T @ mass @ to_absolute, rtol=1e-13)
        assert np.allclose(Twin(model).forward(q, qd), [a1, a2 - a1], rtol=1e-12)


def test_series_are_derivatives_of_the_poses(rng):
    """Velocities and accelerations of the bodies are the differences of poses along the motion q(t)."""
    model = random_model(rng, bodies=9)
    twin = Twin(model)
    q, qd = random_state(rng, model)
    h = 1e-4
    (p0, r0), (p1, r1) = twin.poses(twin.moved(q, qd, -h)), twin.poses(twin.moved(q, qd, h))
    p, r = twin.poses(q)
    for i, (turned, com, w, v, alpha, a) in enumerate(twin.motions(q, qd, np.zeros(model.nv))):
        c = np.array(twin.bodies[model.body_names[i]].com)
        before, after = p0[i] + r0[i] @ c, p1[i] + r1[i] @ c
        assert np.allclose((after - before) / (2 * h), v, atol=1e-6)
        assert np.allclose((after + before - 2 * com) / h**2, a, atol=1e-5)
        assert np.allclose(rot.from_cross_matrix((r1[i] - r0[i]) / (2 * h) @ r[i].T), w, atol=1e-6)
        second = (r1[i] + r0[i] - 2 * turned) / h**2
        assert np.allclose(rot.from_cross_matrix(second @ turned.T), alpha, atol=1e-5)


def test_power_is_the_change_of_energy(rng):
    """Along the twin's accelerations energy grows by what joint forces and wrenches put in, less what dampers take."""
    for _ in range(3):
        model = random_model(rng, bodies=7)
        twin = Twin(model)
        q, qd = random_state(rng, model)
        tau, wrenches = rng.normal(size=model.nv), rng.normal(size=(model.body_count, 6))
        qdd, h = twin.forward(q, qd, tau, wrenches), 1e-5
        # q moves by qd + h qdd / 2 on average over the step
        before = sum(twin.energy(twin.moved(q, qd - h * qdd / 2, -h), qd - h * qdd))
        after = sum(twin.energy(twin.moved(q, qd + h * qdd / 2, h), qd + h * qdd))
        power = tau @ qd - twin._per_freedom("damping") @ qd**2
        for i, (_, _, w, v, _, _) in enumerate(twin.motions(q, qd, 0 * qd)):
            power += wrenches[i, :3] @ w + wrenches[i, 3:] @ v
        assert (after - before) / (2 * h) == pytest.approx(power, rel=1e-6, abs=1e-6)


def test_random_models_hold_everything(rng):
    """The generator makes every kind, both directions, several bases, free and merged bodies."""
    kinds, reversed_joints, bases, merged = set(), 0, set(), 0
    for _ in range(20):
        model = random_model(rng, bodies=10, bases=int(rng.integers(1, 4)))
        for name in model.body_names:
            info = model.body(name)
            kinds.add(model.joint(info.joint).kind)
            reversed_joints += model.joint(info.joint).child != name
            merged += model.joint(info.joint).kind == "fixed"
        bases.add(sum(model.body(name).parent == "world" for name in model.body_names))
    assert kinds == {
        "hinge", "slide", "ball", "free", "fixed", "universal", "cylindrical", "planar", "screw", "point_on_line",
        "point_on_plane", "compound",
    }  # fmt: skip
    assert reversed_joints > 20 and merged > 5 and {1, 2, 3} <= bases
