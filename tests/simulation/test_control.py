"""Controls: forces of actuators against MuJoCo's, resets, names, and what is refused."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
from tests.io.mjcf_help import nested, read

import limberjack as lj

TENDON = '<tendon><fixed name="t"><joint joint="j" coef=".7"/><joint joint="k" coef="-.4"/></fixed></tendon>'
TWO = nested('<joint name="j"/>', '<joint name="k" axis="1 0 0"/>')
ACTUATORS = {
    "motor": '<motor joint="j" gear="3" ctrlrange="-.5 .5"/>',
    "motor off zero": '<motor joint="j" ctrlrange=".5 .6"/>',
    "motor with a force range": '<motor joint="j" gear="-2" forcerange="-.3 .1"/>',
    "position": '<position joint="j" kp="5" kv="2"/>',
    "position with gear and force range": '<position joint="j" kp="5" gear="-3" forcerange="-2 2"/>',
    "one-sided range": '<position joint="j" kp="5" forcerange="-1 2"/>',
    "negative stiffness": '<position joint="j" kp="-1"/>',
    "velocity": '<velocity joint="j" kv="2" ctrlrange="-.2 .4"/>',
    "general": '<general joint="j" gainprm="4" biastype="affine" biasprm="2 -8 -1"/>',
    "two on one joint": '<position joint="j" kp="5"/><velocity joint="j" kv="2"/>',
    "two with force ranges": (
        '<position joint="j" kp="5" forcerange="-1 1"/><velocity joint="j" kv="2" forcerange="-1 0"/>'
    ),
    "position and motor": '<position joint="j" kp="5"/><motor joint="j"/>',
    "all joints": '<position joint="k" kp="5"/><motor joint="j"/><velocity joint="k"/>',
    "tendon motor": '<motor tendon="t" gear="2"/>',
    "tendon position": '<position tendon="t" kp="50" kv="3" forcerange="-4 3"/><position joint="j" kp="2"/>',
}  # fmt: skip


def joint_forces(sim):
    """Return the joint forces that the simulation applies at its state: those set, and those of the drives."""
    if sim._control.coupled:
        sim._control.update(sim)
    out, d = sim.forces.tau.copy(), sim.forces.drives
    for (iq, iv), row in zip(d.indices, d.scalar, strict=True):
        push = row[7] * (row[9] - sim.q[iq]) + row[8] * (row[10] - sim.qd[iv])
        out[iv] += np.clip(push, -row[11], row[11])
    return out


@pytest.mark.parametrize("kind", ACTUATORS)
@pytest.mark.parametrize("compound", [False, True])
def test_forces_of_actuators_are_those_of_mujoco(tmp_path, kind, compound):
    """At random states and controls, joint forces are MuJoCo's, and so are force, length and rate of each actuator."""
    world = nested('<joint name="j"/><joint name="k" axis="1 0 0"/>') if compound else TWO
    model, m = read(tmp_path, world, f"{TENDON}<actuator>{ACTUATORS[kind]}</actuator>")
    sim, data = lj.Simulation(model), mujoco.MjData(m)
    rng = np.random.default_rng(3)
    assert sim.control.shape == (m.nu,)
    for _ in range(20):
        sim.q, sim.qd, sim.control = rng.normal(size=2), rng.normal(size=2), rng.normal(size=m.nu)
        sim.tau = tau = rng.normal(size=2)
        data.qpos[:], data.qvel[:], data.ctrl[:] = sim.q, sim.qd, sim.control
        mujoco.mj_forward(m, data)
        assert joint_forces(sim) == pytest.approx(data.qfrc_actuator + tau, abs=1e-13)
        assert np.array_equal(sim.tau, tau)
        for i, name in enumerate(model.actuator_names):
            actuator = sim.actuator(name)
            assert actuator.force == pytest.approx(data.actuator_force[i], abs=1e-13)
            assert actuator.length == pytest.approx(data.actuator_length[i], abs=1e-13)
            assert actuator.rate == pytest.approx(data.actuator_velocity[i], abs=1e-13)


def test_tendon_springs_are_those_of_mujoco(tmp_path):
    """Springs and dampers of fixed tendons act as MuJoCo's, within the interval of no force too."""
    spring = TENDON.replace('name="t"', 'name="t" stiffness="30" damping="2" springlength="-.2 .3"')
    model, m = read(tmp_path, TWO, spring)
    sim, data = lj.Simulation(model), mujoco.MjData(m)
    rng = np.random.default_rng(4)
    for _ in range(20):
        sim.q, sim.qd = rng.normal(size=2), rng.normal(size=2)
        data.qpos[:], data.qvel[:] = sim.q, sim.qd
        mujoco.mj_forward(m, data)
        assert joint_forces(sim) == pytest.approx(data.qfrc_passive, abs=1e-13)


def stiff_arm(kp, coupled=False):
    b = lj.Builder("arm")
    for i in range(3):
        b.add_body(f"b{i}", mass=0.5, com=(0, 0, -0.1), inertia=(2e-3, 2e-3, 1e-4))
        b.add_joint_hinge(
            f"j{i}", f"b{i - 1}" if i else "world", f"b{i}", axis=(0, 1, 0), position=(0, 0, -0.2 * bool(i))
        )
    if coupled:
        b.add_actuator("pull", {"j0": 1.0, "j1": -0.5, "j2": 0.7}, kind="position", kp=kp, kd=kp / 50)
    else:
        for i in range(3):
            b.add_actuator(f"a{i}", f"j{i}", kind="position", kp=kp, kd=kp / 50)
    return b.build()


@pytest.mark.parametrize("coupled", [False, True])
@pytest.mark.parametrize("dt", [1e-3, 1 / 240, 1 / 60])
def test_stiff_position_actuators_do_not_diverge(coupled, dt):
    """Position actuators stiffer than an explicit step of this size allows by far hold their target at rest."""
    model = stiff_arm(2e4, coupled)
    sim = lj.Simulation(model, dt=dt)
    sim.q = [0.3, -0.2, 0.4]
    sim.control = [0.1] * len(model.actuators)
    sim.step(round(10.0 / dt) if coupled else round(2.0 / dt))
    target = (
        sim.actuator("pull").length if coupled else np.array([sim.actuator(n).length for n in model.actuator_names])
    )
    assert np.abs(np.asarray(target) - 0.1).max() < 1e-3
    assert np.isfinite(sim.q).all() and np.abs(sim.qd).max() < (5.0 if coupled else 1e-3)


def test_controls_by_name_and_what_is_refused():
    """Controls are set all at once or by name; wrong counts, names and numbers are refused and change nothing."""
    model = stiff_arm(10.0)
    sim = lj.Simulation(model)
    sim.control = {"a1": 0.4}
    assert sim.control.tolist() == [0.0, 0.4, 0.0] and sim.actuator("a1").control == 0.4
    sim.actuator("a2").control = -1
    assert sim.control.tolist() == [0.0, 0.4, -1.0]
    with pytest.raises(lj.StateError, match="control"):
        sim.control = [1.0, 2.0]
    with pytest.raises(lj.StateError, match=r'control\[1\] of actuator "a1" must be finite'):
        sim.control = np.array([0.0, np.nan, 0.0])
    with pytest.raises(lj.UnknownName, match='no actuator "b1" in model "arm"'):
        sim.control = {"b1": 1.0}
    with pytest.raises(lj.UnknownName, match="a0, a1, a2"):
        sim.actuator("a9")
    assert sim.control.tolist() == [0.0, 0.4, -1.0]
    with pytest.raises(AttributeError, match="control"):
        sim.ctrl = [0.0, 0.0, 0.0]
    with pytest.raises(ValueError):
        sim.control[0] = 1.0


def test_a_snapshot_brings_controls_back():
    """A restored simulation goes on bit for bit, with the controls and joint forces of then."""
    sim = lj.Simulation(stiff_arm(50.0))
    sim.control, sim.tau = [0.3, 0.0, -0.2], [0.1, 0.2, 0.3]
    sim.step(10)
    mark = sim.snapshot()
    sim.step(30)
    end = sim.state_hash()
    sim.control, sim.tau = [1.0, 1.0, 1.0], [0.0, 0.0, 0.0]
    sim.step(5)
    sim.restore(mark)
    assert sim.control.tolist() == [0.3, 0.0, -0.2] and sim.tau.tolist() == [0.1, 0.2, 0.3]
    sim.step(30)
    assert sim.state_hash() == end


def test_reset():
    """A reset simulation is a new one bit for bit; keyframes bring state and control, a seed the same noise."""
    b = lj.Builder.from_spec(stiff_arm(50.0).spec)
    b.add_keyframe("bent", [0.1, 0.2, 0.3], [0.0, 0.0, 1.0], [0.1, 0.2, 0.3])
    b.set_timestep(0.004)
    model = b.build()
    fresh, sim = lj.Simulation(model), lj.Simulation(model)
    assert sim.dt == 0.004
    sim.control = [1.0, 0.0, 0.0]
    sim.apply_wrench("b2", force=(1, 0, 0))
    sim.step(20)
    sim.reset()
    assert sim.time == 0.0 and sim.state_hash() == fresh.state_hash()
    sim.reset("bent")
    assert sim.q.tolist() == [0.1, 0.2, 0.3] and sim.qd[2] == 1.0 and sim.control.tolist() == [0.1, 0.2, 0.3]
    sim.reset("bent", seed=7)
    first = sim.q
    assert 0.0 < np.abs(first - [0.1, 0.2, 0.3]).max() <= 0.01
    sim.reset("bent", seed=7)
    assert np.array_equal(sim.q, first)
    sim.reset("bent", seed=8)
    assert not np.array_equal(sim.q, first)
    with pytest.raises(lj.UnknownName, match='no keyframe "home"'):
        sim.reset("home")


def test_gravity_compensation_carries_the_weight(tmp_path):
    """A compensated body does not fall, after wrenches were cleared too; half compensated it falls half as fast."""
    geom = '<geom size=".1" pos=".2 0 0" contype="0" conaffinity="0"/>'
    body = f'<body name="{{}}" gravcomp="{{}}"><freejoint/>{geom}</body>'
    model, _ = read(tmp_path, body.format("all", 1) + body.format("half", 0.5))
    sim = lj.Simulation(model)
    sim.clear_wrenches()
    sim.step(500)
    assert np.abs(sim.positions[0]).max() < 1e-12
    assert sim.positions[1, 2] == pytest.approx(-0.25 * 9.81 * sim.time**2, rel=1e-9)


def test_a_point_actuator_pushes_along_its_body(tmp_path):
    """A thruster at a site pushes along the axes of the site as the body turns: on a free spinner, MuJoCo's motion."""
    world = (
        '<body name="ship"><freejoint/><geom type="box" size=".2 .1 .05" contype="0" conaffinity="0"/>'
        '<site name="jet" pos="-.1 .05 0" euler="0 30 20"/></body>'
    )
    rest = '<option gravity="0 0 0" timestep=".0005" integrator="RK4"/>'
    rest += '<actuator><general site="jet" gear="1 0 .2 0 .1 0" ctrlrange="0 20"/></actuator>'
    model, m = read(tmp_path, world, rest)
    sim, data = lj.Simulation(model), mujoco.MjData(m)
    sim.control = data.ctrl[:] = [15.0]
    for _ in range(1000):
        mujoco.mj_step(m, data)
    sim.step(1000)
    assert np.abs(data.qvel).max() > 0.3
    assert sim.q == pytest.approx(data.qpos, abs=2e-3 * np.abs(data.qpos).max())


def test_a_cord_between_two_sites_is_a_spring_and_a_rope(tmp_path):
    """A spatial tendon between two sites pulls as MuJoCo's spring, and its largest length is that of a rope."""
    none = 'contype="0" conaffinity="0"'
    world = (
        f'<body name="a" pos=".1 0 2"><joint name="j" axis="0 1 0"/><geom size=".1" pos=".3 0 0" {none}/>'
        f'<site name="s" pos=".2 0 .1"/></body><site name="u" pos="0 .2 1"/>'
    )
    cord = '<tendon><spatial name="t" stiffness="40" damping="1" springlength=".5"{}>{}</spatial></tendon>'
    ends = '<site site="s"/><site site="u"/>'
    model, m = read(tmp_path, world, '<option timestep=".0002" integrator="RK4"/>' + cord.format("", ends))
    sim, data = lj.Simulation(model), mujoco.MjData(m)
    for _ in range(2000):
        mujoco.mj_step(m, data)
    sim.step(2000)
    assert abs(data.qpos[0]) > 0.1 and sim.q == pytest.approx(data.qpos, abs=1e-5)
    model, _ = read(tmp_path, world, cord.format(' range="0 1.2"', ends))
    sim = lj.Simulation(model)
    assert model.joint_spec("t").rope and model.joint_spec("t").length == 1.2
    sim.step(500)
    reach = np.linalg.norm(sim.point("s").position - sim.point("u").position)
    assert reach < 1.2 + 1e-6
