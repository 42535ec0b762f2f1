from __future__ import annotations

import mujoco
import numpy as np
import pinocchio as pin
import pytest

import limberjack as lj
from limberjack_lab.bench.peers import PinocchioTwin, bare, mujoco_model, to_mjcf

KINDS = ("hinge", "slide", "ball", "universal", "compound", "cylindrical", "planar", "fixed")


def _gap(value, reference):
    return np.abs(value - reference).max() / np.abs(reference).max()


def _state(model, seed=0):
    rng = np.random.default_rng(seed)
    return np.array(model.q0), model.qd0 + rng.uniform(-0.5, 0.5, model.nv), rng.uniform(-1.0, 1.0, model.nv)


def _mujoco_qdd(model, q, qd, tau):
    twin = mujoco_model(model)
    data = mujoco.MjData(twin)
    data.qpos[:], data.qvel[:], data.qfrc_applied[:] = q, qd, tau
    mujoco.mj_forward(twin, data)
    return data.qacc


def _pinocchio_qdd(model, q, qd, tau):
    twin = PinocchioTwin(model)
    a = pin.aba(twin.model, twin.model.createData(), twin.q(q), twin.v(q, qd), twin.v(q, tau))
    return twin.qdd(q, qd, a)


@pytest.mark.parametrize("peer", [_mujoco_qdd, _pinocchio_qdd])
def test_the_humanoid_accelerates_alike_in_both_peers(peer):
    """Converted models give our accelerations: masses, joints and coordinates are the same."""
    model = lj.scenes.humanoid(limits=None, damping=0.0)
    q, qd, tau = _state(model)
    assert (model.body_count, model.nv) == (89, 95)
    assert _gap(peer(model, q, qd, tau), lj.forward_dynamics(model, q, qd, tau)) < 1e-9


@pytest.mark.parametrize("peer", [_mujoco_qdd, _pinocchio_qdd])
@pytest.mark.parametrize("seed", range(4))
def test_random_trees_accelerate_alike_in_both_peers(peer, seed):
    """Every kind the converters accept, with frames turned at random, gives our accelerations."""
    model = lj.scenes.random_tree(bodies=20, seed=seed, kinds=KINDS, floating=seed % 2 == 0)
    q, qd, tau = _state(model, seed)
    assert _gap(peer(model, q, qd, tau), lj.forward_dynamics(model, q, qd, tau)) < 1e-9


@pytest.mark.parametrize("peer", [_mujoco_qdd, _pinocchio_qdd])
def test_armature_is_carried_over(peer):
    """Rotor inertia of hinges and slides acts in the peers as in ours."""
    builder = lj.Builder("arm")
    builder.add_body("upper", mass=1.0, com=(0, 0, -0.5), inertia=(0.1, 0.1, 0.01))
    builder.add_body("lower", mass=0.5, com=(0.1, 0, -0.5), inertia=(0.05, 0.05, 0.01))
    builder.add_joint_hinge("shoulder", "world", "upper", axis=(0, 1, 0), armature=0.3, start=0.4)
    builder.add_joint_slide("tube", "upper", "lower", position=(0, 0, -1), armature=0.7, start=0.1)
    model = builder.build()
    q, qd, tau = _state(model)
    assert _gap(peer(model, q, qd, tau), lj.forward_dynamics(model, q, qd, tau)) < 1e-12


def test_a_point_mass_gets_the_least_inertia_mujoco_takes():
    """MuJoCo's pendulum with a point mass accelerates as the exact one, to rounding."""
    model = lj.scenes.simple_pendulum()
    assert _mujoco_qdd(model, np.zeros(1), np.zeros(1), np.zeros(1)) == pytest.approx([9.81], rel=1e-12)


def test_bare_models_keep_bodies_and_lose_drives():
    """`bare` takes dampers, springs, limits and motors away and nothing else."""
    full = lj.scenes.humanoid(limits="soft")
    model = bare(full)
    assert len(full.arrays.drives.indices) == 89 and len(model.arrays.drives.indices) == 0
    assert model.body_names == full.body_names
    np.testing.assert_array_equal(model.q0, full.q0)
    np.testing.assert_array_equal(model.arrays.links.inertia, full.arrays.links.inertia)


@pytest.mark.parametrize(
    ("model", "word"),
    [
        (lambda: lj.scenes.humanoid(limits="soft"), "damper"),
        (lambda: lj.scenes.humanoid(limits="hard", damping=0.0), "limits"),
        (lambda: lj.scenes.tethered_pendulum(damping=0.0), "springs"),
        (lambda: lj.scenes.random_tree(bodies=4, kinds="screw"), "row of hinges"),
        (lambda: lj.scenes.random_tree(bodies=4, kinds="point_on_line"), "row of hinges"),
    ],
)
def test_what_the_peers_would_treat_otherwise_is_refused(model, word):
    """A model that is not the same thing in all engines is refused by name."""
    with pytest.raises(lj.ModelError, match=word):
        to_mjcf(model())


def test_a_deep_chain_closes_all_its_elements():
    """The text of a chain is well formed however deep, and MuJoCo counts all its links."""
    assert mujoco_model(lj.scenes.long_chain(links=200, damping=0.0)).nv == 200
