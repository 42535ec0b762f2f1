"""Actuators with dynamics: activations against MuJoCo's, in snapshots, keyframes and files."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
from tests.io.mjcf_help import nested, read

import limberjack as lj

ACTUATORS = {
    "integrator": 'dyntype="integrator" gainprm="3" actlimited="true" actrange="-.3 .4"',
    "filter": 'dyntype="filter" dynprm=".05" gainprm="3" ctrlrange="-.5 .5" ctrllimited="true"',
    "exact_filter": 'dyntype="filterexact" dynprm=".05" gainprm="30" biastype="affine" biasprm="0 -30 -2"',
}
WORLD = nested('<joint name="j"/>')


@pytest.mark.parametrize("kind", ACTUATORS)
def test_activations_are_those_of_mujoco(tmp_path, kind):
    """With the same controls, changing each step, activations are equal, and forces at the same state."""
    model, m = read(tmp_path, WORLD, f'<actuator><general name="a" joint="j" {ACTUATORS[kind]}/></actuator>')
    sim, data = lj.Simulation(model), mujoco.MjData(m)
    rng = np.random.default_rng(1)
    for _ in range(200):
        sim.control = data.ctrl[:] = rng.normal(size=1)
        sim.step()
        mujoco.mj_step(m, data)
        assert sim.actuator("a").activation == pytest.approx(data.act[0], abs=1e-12)
        data.qpos[:], data.qvel[:] = sim.q, sim.qd
        mujoco.mj_forward(m, data)
        assert sim.actuator("a").force == pytest.approx(data.actuator_force[0], abs=1e-12)
    assert model.actuators[0].dynamics == kind


def test_a_filter_reaches_its_control(tmp_path):
    """A motor behind a filter holds 63 % of its control after the time constant, in one call of many steps."""
    b = lj.Builder("arm")
    b.add_body("rod", mass=1.0, com=(0, 0, -0.3), inertia=(0.03, 0.03, 1e-3))
    b.add_joint_hinge("j", "world", "rod", axis=(0, 1, 0))
    b.add_actuator("a", "j", dynamics="exact_filter", time_constant=0.5)
    b.add_keyframe("ready", q=[0.0], qd=[0.0], control=[1.0], activation=[0.25])
    sim = lj.Simulation(b.build(), dt=1e-3)
    sim.control = [2.0]
    sim.step(500)
    assert sim.actuator("a").activation == pytest.approx(2.0 * (1.0 - np.exp(-1.0)), rel=1e-12)
    assert sim.control == [2.0]
    saved = sim.snapshot()
    sim.step(100)
    expected = sim.state_hash()
    sim.restore(saved)
    sim.step(100)
    assert sim.state_hash() == expected
    sim.reset("ready")
    assert sim.actuator("a").activation == 0.25 and sim.control == [1.0]
    sim.reset()
    assert sim.actuator("a").activation == 0.0
    path = tmp_path / "arm.json"
    lj.save(sim.model, path)
    assert lj.load(path).actuators == sim.model.actuators


def test_dynamics_are_checked():
    """Unknown dynamics and filters without a time constant are refused."""
    b = lj.Builder("arm")
    b.add_body("rod", mass=1.0, inertia=(0.03, 0.03, 1e-3))
    b.add_joint_hinge("j", "world", "rod")
    with pytest.raises(lj.UnknownName, match="dynamics"):
        b.add_actuator("a", "j", dynamics="muscle")
    with pytest.raises(lj.ModelError, match="time_constant"):
        b.add_actuator("a", "j", dynamics="filter")
