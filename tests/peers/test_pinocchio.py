"""Forward dynamics of every real robot against pinocchio."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest
from tests.peers.models import robots, tolerance

import limberjack as lj
from limberjack.model.model import Model
from limberjack.spatial.frames import matrix_from_quaternion

ROBOTS = robots()
STATES = 20


def _load(path: Path) -> tuple[Model, list[str]]:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        from limberjack.io.urdf import read

        model = read(path, repair=True, base="fixed", roots=[path.parents[2]], package_paths=[], meshes=False)
    return model, [str(w.message) for w in seen]


def _use_our_inertias(model: Model, peer: pin.Model) -> None:
    """Give pinocchio the link inertias of `model`: for files whose inertias were repaired."""
    a = model.arrays
    for j in range(1, peer.njoints):
        i = model.joint(peer.names[j]).index
        row = a.links.inertia[a.joint_link[i]]
        r, p = a.body_offset[i, :9].reshape(3, 3), a.body_offset[i, 9:]
        mass = max(row[9], 1e-300)
        c = row[6:9] / mass
        s = np.array([[0, -c[2], c[1]], [c[2], 0, -c[0]], [-c[1], c[0], 0]])
        central = row[[0, 3, 4, 3, 1, 5, 4, 5, 2]].reshape(3, 3) - mass * s @ s.T
        peer.inertias[j] = pin.Inertia(mass, r.T @ (c - p), r.T @ central @ r)


def _random_state(model: Model, peer: pin.Model, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return our q and pinocchio's for the same random pose; all joints have one freedom."""
    q, q_pin = np.zeros(model.nq), pin.neutral(peer)
    for j in range(1, peer.njoints):
        joint, info = peer.joints[j], model.joint(peer.names[j])
        assert info.nv == joint.nv == 1, info
        angle = rng.uniform(-2, 2)
        q[info.q_start] = angle
        q_pin[joint.idx_q : joint.idx_q + joint.nq] = [angle] if joint.nq == 1 else [np.cos(angle), np.sin(angle)]
    return q, q_pin


def _outer_forces(
    model: Model, peer: pin.Model, data: pin.Data, q: np.ndarray, q_pin: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, pin.StdVec_Force]:
    """Return random wrenches on the bodies below pinocchio's joints, in our form and in its own."""
    wrenches, forces = np.zeros((model.body_count, 6)), pin.StdVec_Force()
    positions, rotations = lj.forward_kinematics(model, q)
    pin.forwardKinematics(peer, data, q_pin)
    forces.append(pin.Force.Zero())
    for j in range(1, peer.njoints):
        b = model.joint(peer.names[j]).index
        torque, force = rng.normal(size=3), rng.normal(size=3) * 10
        wrenches[b] = [*torque, *force]
        place = data.oMi[j]
        com = positions[b] + matrix_from_quaternion(rotations[b]) @ model.arrays.body_com[b]
        at_joint = torque + np.cross(com - place.translation, force)
        forces.append(pin.Force(place.rotation.T @ force, place.rotation.T @ at_joint))
    return wrenches, forces


@pytest.mark.parametrize("path", ROBOTS, ids=lambda p: f"{p.parent.parent.name}/{p.name}")
def test_forward_dynamics_equals_pinocchio(path: Path) -> None:
    """At 20 random states with random torques and wrenches, qdd equals pinocchio.aba to 1e-9 relative."""
    if path.name == "ur3.urdf":
        with pytest.raises(lj.FileError, match="no link"):
            _load(path)
        return
    model, notes = _load(path)
    peer = pin.buildModelFromUrdf(str(path))
    if any("inertia" in note or "mass" in note for note in notes):
        _use_our_inertias(model, peer)
    data = peer.createData()
    rng = np.random.default_rng(7)
    damping = np.zeros(model.nv)
    damping[model.arrays.drives.indices[:, 1]] = model.arrays.drives.scalar[:, 0]
    ours_of = np.array([model.joint(peer.names[j]).v_start for j in range(1, peer.njoints)], int)
    theirs = np.array([peer.joints[j].idx_v for j in range(1, peer.njoints)], int)
    assert model.nv == peer.nv
    if model.nv == 0:
        assert lj.forward_dynamics(model, [], []).shape == (0,)
        return
    for _ in range(STATES):
        q, q_pin = _random_state(model, peer, rng)
        qd, tau = rng.normal(size=model.nv), rng.normal(size=model.nv) * 5
        wrenches, forces = _outer_forces(model, peer, data, q, q_pin, rng)
        qdd = lj.forward_dynamics(model, q, qd, tau, wrenches)
        qd_pin, tau_pin, reference = np.zeros(model.nv), np.zeros(model.nv), np.zeros(model.nv)
        qd_pin[theirs] = qd[ours_of]
        tau_pin[theirs] = (tau - damping * qd)[ours_of]
        reference[ours_of] = pin.aba(peer, data, q_pin, qd_pin, tau_pin, forces)[theirs]
        assert np.abs(qdd - reference).max() <= tolerance(model, q) * np.abs(reference).max()
        back = lj.inverse_dynamics(model, q, qd, qdd, wrenches)
        # Rounding of qdd, seen through the inertia, is what the way back can lose.
        scale = np.abs(lj.mass_matrix(model, q)) @ np.abs(qdd)
        assert np.abs(back - tau).max() <= 1e-9 * scale.max()


@pytest.mark.parametrize("path", ROBOTS, ids=lambda p: f"{p.parent.parent.name}/{p.name}")
def test_derivatives_and_momentum_equal_pinocchio(path: Path) -> None:
    """d tau/dq, d tau/dqd, the mass matrix, com and centroidal momentum are pinocchio's, at 3 random states."""
    if path.name == "ur3.urdf":  # refused, see above
        return
    model, notes = _load(path)
    peer = pin.buildModelFromUrdf(str(path))
    if any("inertia" in note or "mass" in note for note in notes):
        _use_our_inertias(model, peer)
    data, rng = peer.createData(), np.random.default_rng(3)
    damping = np.zeros(model.nv)
    damping[model.arrays.drives.indices[:, 1]] = model.arrays.drives.scalar[:, 0]
    ours_of = np.array([model.joint(peer.names[j]).v_start for j in range(1, peer.njoints)], int)
    theirs = np.array([peer.joints[j].idx_v for j in range(1, peer.njoints)], int)
    if model.nv == 0:
        assert lj.inverse_dynamics_derivatives(model, [], [], []).dq.shape == (0, 0)
        return
    for _ in range(3):
        q, q_pin = _random_state(model, peer, rng)
        qd, qdd = rng.normal(size=model.nv), rng.normal(size=model.nv)
        qd_pin, qdd_pin = np.zeros(model.nv), np.zeros(model.nv)
        qd_pin[theirs], qdd_pin[theirs] = qd[ours_of], qdd[ours_of]
        found = lj.inverse_dynamics_derivatives(model, q, qd, qdd)
        pin.computeRNEADerivatives(peer, data, q_pin, qd_pin, qdd_pin)
        mass = np.triu(data.M) + np.triu(data.M, 1).T
        for ours, reference, extra in (
            (found.dq, data.dtau_dq, 0.0), (found.dqd, data.dtau_dv, np.diag(damping)), (found.dqdd, mass, 0.0),
        ):  # fmt: skip
            peers = np.zeros_like(ours)
            peers[np.ix_(ours_of, ours_of)] = reference[np.ix_(theirs, theirs)]
            peers += extra
            assert np.abs(ours - peers).max() <= 1e-9 * max(1.0, np.abs(peers).max())
        pin.computeCentroidalMomentum(peer, data, q_pin, qd_pin)
        momentum, com = lj.centroidal_momentum(model, q, qd).momentum, lj.center_of_mass(model, q)
        reference = np.concatenate([data.hg.angular, data.hg.linear])
        np.testing.assert_allclose(momentum, reference, atol=1e-9 * max(1.0, np.abs(reference).max()))
        np.testing.assert_allclose(com.position, data.com[0], atol=1e-9)
