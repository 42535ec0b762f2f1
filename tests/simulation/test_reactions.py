"""Forces of joints, limits and constraints: closed forms, equilibrium, inverse dynamics, MuJoCo, method by method."""

from __future__ import annotations

import math

import mujoco
import numpy as np
import pytest

import limberjack as lj

METHODS = ["full", "adaptive", "multipliers", "displacements", "impulses"]
TREES = [*METHODS, "divide_and_conquer"]
G = 9.81


def pendulum() -> lj.Model:
    """Return a rod of 2 kg that swings about y, its com 0.7 m below."""
    builder = lj.Builder("pendulum")
    builder.add_body("rod", mass=2.0, com=(0, 0, -0.7), inertia=(0.05, 0.06, 0.01))
    builder.add_joint_hinge("h", "world", "rod", axis=(0, 1, 0), start=0.6, start_velocity=1.5)
    return builder.build()


@pytest.mark.parametrize("method", TREES)
def test_tension_of_a_pendulum(method):
    """Along the rod m g cos + m w^2 l, across it m g sin - m l alpha: the mean of both ends of the step."""
    sim = lj.Simulation(pendulum(), method, dt=1e-3)
    sim.step(200)
    found, expected = sim.joint("h").reaction, np.zeros(3)
    for _ in range(2):
        q, w = float(sim.q[0]), float(sim.qd[0])
        com = -0.7 * np.array((math.sin(q), 0, math.cos(q)))
        turning = -2 * G * 0.7 * math.sin(q) / (0.06 + 2 * 0.49)
        tension = 2 * G * math.cos(q) + 2 * 0.7 * w**2
        across = 2 * np.cross((0, turning, 0), com) + 2 * G * np.array((0, 0, 1))
        along = -com / 0.7
        expected += 0.5 * (tension * along + across - (across @ along) * along)
        sim.step()
    np.testing.assert_allclose(found.force, expected, atol=(2e-5 if method in ("full", "adaptive") else 5e-3))
    assert np.abs(found.torque).max() < 2e-3


def arm() -> lj.Model:
    """Return an arm of three hinges about different axes, a body welded to its end, a motor at the elbow."""
    builder = lj.Builder("arm")
    axes = ((0, 0, 1), (0, 1, 0), (1, 0, 0))
    for k in range(3):
        builder.add_body(f"b{k}", mass=1.0 + k, com=(0.2, 0.05, 0.1), inertia=(0.02, 0.03, 0.04))
        place = (0, 0, 0) if k == 0 else (0.4, 0, 0.1)
        options = {"motor": lj.Motor(kp=30.0, kd=1.0, target=0.4), "damping": 0.2} if k == 1 else {}
        parent = "world" if k == 0 else f"b{k - 1}"
        builder.add_joint_hinge(f"j{k}", parent, f"b{k}", position=place, axis=axes[k], start=0.3 * k, **options)
    builder.add_body("tool", mass=0.5, com=(0.1, 0, 0), inertia=(0.01, 0.01, 0.01))
    builder.add_joint_fixed("weld", "b2", "tool", position=(0.3, 0, 0))
    return builder.build()


@pytest.mark.parametrize("method", TREES)
def test_an_arm_that_is_held(method):
    """Held by joint forces, torques along the hinges are those of inverse dynamics; the root carries the weight."""
    model = arm()
    sim = lj.Simulation(model, method, dt=1e-3)
    still = np.zeros(model.nv)
    q = np.array([0.2, 0.4, 0.7])
    sim.q = q
    sim.tau = lj.inverse_dynamics(model, q, still, still)  # the motor is at its target
    along = [sim.joint(f"j{k}").reaction_in_joint.torque[2] for k in range(3)]
    np.testing.assert_allclose(along, sim.tau, atol=1e-6)
    np.testing.assert_allclose(sim.joint("j0").reaction.force, (0, 0, 6.5 * G), atol=1e-6)
    tool = sim.joint("weld").reaction
    np.testing.assert_allclose(tool.force, (0, 0, 0.5 * G), atol=1e-6)
    assert sim.reactions.shape == (4, 6)
    np.testing.assert_array_equal(sim.reactions[3], np.concatenate([tool.torque, tool.force]))


def test_a_moving_arm_agrees_with_inverse_dynamics():
    """With motor, damping and speed, torques along the hinges are those of inverse dynamics at the accelerations."""
    model = arm()
    sim = lj.Simulation(model, "full", dt=1e-4)
    sim.qd = [1.0, -2.0, 3.0]
    sim.step(300)
    along = np.array([sim.joint(f"j{k}").reaction_in_joint.torque[2] for k in range(3)])
    q, qd = sim.q.copy(), sim.qd.copy()
    sim.step()
    middle = 0.5 * (qd + sim.qd)
    needed = lj.inverse_dynamics(model, 0.5 * (q + sim.q), middle, (sim.qd - qd) / sim.dt)
    damping = np.array([0.0, 0.2, 0.0]) * middle
    np.testing.assert_allclose(along, needed - damping, rtol=1e-5, atol=1e-5)


XML = """
<mujoco><option gravity="0 0 -9.81" timestep="1e-4" integrator="Euler"/><compiler angle="radian"/>
<worldbody>
  <body name="a" pos="0 0 1"><inertial pos="0.1 0 0" mass="2" diaginertia="0.03 0.04 0.05"/>
    <joint name="ja" type="hinge" axis="0 1 0"/>
    <body name="b" pos="0.4 0 0"><inertial pos="0.2 0.1 0" mass="1.5" diaginertia="0.02 0.03 0.03"/>
      <joint name="jb" type="ball"/>
      <body name="c" pos="0.3 0.1 0"><inertial pos="0.1 0 0.1" mass="1" diaginertia="0.02 0.02 0.01"/>
        <joint name="jc" type="slide" axis="1 0 0"/></body></body>
    <body name="d" pos="0 0.2 -0.2"><inertial pos="0 0 -0.2" mass="0.7" diaginertia="0.01 0.02 0.01"/>
      <joint name="jd" type="hinge" axis="1 0 0"/></body></body>
</worldbody></mujoco>"""


def test_reactions_equal_those_of_mujoco(tmp_path, rng):
    """Forces and torques between bodies are MuJoCo's cfrc_int to 1e-3 at a step of 0.1 ms, with joint forces acting."""
    path = tmp_path / "tree.xml"
    path.write_text(XML)
    model, peer = lj.load(path), mujoco.MjModel.from_xml_path(str(path))
    data = mujoco.MjData(peer)
    data.qpos[:] = peer.qpos0
    mujoco.mj_integratePos(peer, data.qpos, rng.normal(size=peer.nv), 0.5)
    data.qvel[:] = rng.normal(size=peer.nv)
    data.qfrc_applied[:] = rng.normal(size=peer.nv)
    mujoco.mj_forward(peer, data)
    mujoco.mj_rnePostConstraint(peer, data)
    sim = lj.Simulation(model, "full", dt=1e-4, q=data.qpos.copy(), qd=data.qvel.copy())
    sim.tau = data.qfrc_applied.copy()
    scale = np.abs(data.cfrc_int[1:, 3:]).max()
    for name in ("a", "b", "c", "d"):
        i = mujoco.mj_name2id(peer, mujoco.mjtObj.mjOBJ_BODY, name)
        found = sim.joint(f"j{name}").reaction
        torque, force = data.cfrc_int[i, :3], data.cfrc_int[i, 3:]
        # MuJoCo's torque is about the com of the whole tree, this one about the joint
        about = data.subtree_com[peer.body_rootid[i]]
        joint = data.xpos[i] if name != "c" else sim.positions[model.body_index("c")]
        np.testing.assert_allclose(found.force, force, atol=1e-3 * scale)
        np.testing.assert_allclose(found.torque, torque + np.cross(about - joint, force), atol=1e-3 * scale)


STOP = """
<mujoco><option gravity="0 0 -9.81" timestep="1e-3"/><compiler angle="radian"/>
<worldbody><body name="rod"><inertial pos="0.5 0 0" mass="1.3" diaginertia="0.01 0.1 0.1"/>
  <joint name="j" type="hinge" axis="0 1 0" limited="true" range="-0.3 0.5" solreflimit="0.02 1" damping="0.1"/>
</body></worldbody></mujoco>"""


def test_the_force_of_a_limit_equals_that_of_mujoco(tmp_path):
    """A rod at rest on its limit is held by MuJoCo's qfrc_constraint, whose limit is a little soft, to 1 %."""
    path = tmp_path / "stop.xml"
    path.write_text(STOP)
    model, peer = lj.load(path), mujoco.MjModel.from_xml_path(str(path))
    data = mujoco.MjData(peer)
    for _ in range(3000):
        mujoco.mj_step(peer, data)
    sim = lj.Simulation(model, "full", dt=1e-3)
    sim.step(3000)
    assert sim.joint("j").limit_force == pytest.approx(float(data.qfrc_constraint[0]), rel=0.01)


LOOPS = ["full", "adaptive", "multipliers", "impulses", "displacements"]


def linkage() -> lj.Model:
    """Return a crank, a coupler on ball joints and a rocker, whose axes are askew: all reactions are determined."""
    builder = lj.Builder("linkage")
    builder.add_body("crank", mass=1.0, com=(0.2, 0, 0), inertia=(0.01, 0.03, 0.03))
    builder.add_joint_hinge("A", "world", "crank", axis=(0, 1, 0.2), start_velocity=3.0)
    builder.add_body("coupler", mass=0.7, com=(0.5, 0, 0), inertia=(0.01, 0.06, 0.06))
    builder.add_joint_ball("B", "crank", "coupler", position=(0.4, 0, 0))
    builder.add_body("rocker", mass=1.5, com=(0, 0, 0.3), inertia=(0.05, 0.05, 0.01))
    builder.add_joint_hinge("D", "world", "rocker", position=(1.4, 0, -0.6), axis=(0, 1, 0))
    builder.add_joint_ball("C", "coupler", "rocker", position=(1.0, 0, 0), position_in_child=(0, 0, 0.6))
    return builder.build()


@pytest.mark.parametrize("method", LOOPS)
def test_loops_method_against_method(method):
    """The reactions of all joints of a linkage, also of the one that closes it, are those of `full` at rk4."""
    model = linkage()
    assert model.loop_names == ("C",)
    exact = lj.Simulation(model, lj.Full(integrator="rk4"), dt=1e-4)
    sim = lj.Simulation(model, lj.Adaptive(budget=3) if method == "adaptive" else method, dt=1e-4)
    for one in (exact, sim):
        one.step(500)
    wanted, found = exact.reactions, sim.reactions
    size = np.abs(wanted).max()
    np.testing.assert_allclose(found, wanted, atol=0.01 * size)
    assert size > 1.0 and sim.joint("C").multipliers.size == 3


@pytest.mark.parametrize("method", ["full", "adaptive", "multipliers", "impulses"])
def test_contacts_and_reactions_balance(method):
    """Of a table on the ground, contacts carry the weight: nothing is left for the free joint of its root."""
    builder = lj.Builder("table")
    builder.add_shape_plane("world")
    builder.add_body("top", mass=4.0, inertia=(0.2, 0.2, 0.3), position=(0, 0, 0.5))
    for k, (x, y) in enumerate(((1, 1), (1, -1), (-1, 1), (-1, -1))):
        builder.add_body(f"leg{k}", mass=1.0, inertia=(0.02, 0.02, 0.005))
        builder.add_joint_hinge(
            f"j{k}", "top", f"leg{k}", position=(0.4 * x, 0.3 * y, 0), position_in_child=(0, 0, 0.25), axis=(0, 1, 0),
            stiffness=400.0, damping=20.0,
        )  # fmt: skip
        builder.add_shape_sphere(f"leg{k}", 0.05, position=(0, 0, -0.2))
    sim = lj.Simulation(builder.build(), method, dt=1e-3)
    for _ in range(4):
        sim.step(250)
        assert np.abs(sim.reactions[0]).max() < 0.02 * 8 * G
    # four legs: how they share the weight is not determined
    shares = [sim.joint(f"j{k}").reaction.force[2] for k in range(4)]
    assert sum(shares) == pytest.approx(-4 * G, rel=0.02) and max(shares) < -0.5 * G


@pytest.mark.parametrize("method", METHODS)
def test_limits_push_back(method):
    """A rod that rests on its limit is held by the torque of its weight, one within its limits by none."""
    builder = lj.Builder("stop")
    for k, limits in enumerate(((-0.4, 0.4), (-3.0, 3.0))):
        builder.add_body(f"rod{k}", mass=1.0, com=(0.5, 0, 0), inertia=(0.01, 1 / 12, 1 / 12))
        builder.add_joint_hinge(
            f"j{k}", "world", f"rod{k}", position=(0, k, 0), axis=(0, 1, 0), limits=limits, start=0.39
        )
    # joints that rest are rigid in method adaptive, and need no limit, where they are not in the budget
    sim = lj.Simulation(builder.build(), lj.Adaptive(budget=2) if method == "adaptive" else method, dt=1e-3)
    sim.step(300)
    assert sim.joint("j0").limit_force == pytest.approx(-G * 0.5 * math.cos(0.4), rel=0.01)
    assert sim.joint("j1").limit_force == 0.0
    assert sim.joint("j0").reaction_in_joint.torque[2] == pytest.approx(sim.joint("j0").limit_force, rel=0.01)


@pytest.mark.parametrize("method", ["full", "adaptive", "multipliers", "impulses"])
def test_cones_push_back(method):
    """The torque of a cone limit on a rod that rests on it is that of its weight, in the child's axes."""
    builder = lj.Builder("cone")
    builder.add_body("rod", mass=1.0, com=(0, 0, 0.5), inertia=(1 / 12, 1 / 12, 0.01))
    builder.add_joint_ball("j", "world", "rod", cone=0.5, start=(math.cos(0.24), math.sin(0.24), 0, 0), damping=0.05)
    sim = lj.Simulation(builder.build(), method, dt=1e-3)
    sim.step(1500)
    torque = sim.joint("j").limit_force
    assert np.linalg.norm(torque) == pytest.approx(G * 0.5 * math.sin(0.5), rel=0.01)


def test_reactions_inside_rigid_clusters():
    """A chain that swings with one joint simulated: every joint carries the weight and the inertia of what is below."""
    model = lj.scenes.pendulum(links=12)
    sim = lj.Simulation(model, lj.Adaptive(budget=1), dt=1e-3)
    sim.step(100)
    found, mass = sim.reactions, model.arrays.body_mass
    before = sim.velocities
    sim.step()
    change = (sim.velocities[:, 3:] - before[:, 3:]) / sim.dt - np.array(model.gravity)
    assert len(sim.active_joints) <= 2
    below = np.cumsum((mass[:, None] * change)[::-1], axis=0)[::-1]
    np.testing.assert_allclose(found[: len(mass), 3:], below, atol=1e-9 * np.abs(below).max())


def test_forces_from_outside_are_not_reactions():
    """A weight on a slide carries what wrenches, springs and grips leave to it."""
    builder = lj.Builder("weight")
    builder.add_body("weight", mass=2.0, inertia=(0.1, 0.1, 0.1))
    builder.add_joint_hinge("j", "world", "weight", axis=(0, 0, 1))
    builder.add_spring("world", "weight", at_a=(0, 0, 1), stiffness=7.0, rest=0.5)
    for method in METHODS:
        sim = lj.Simulation(builder.build(), method, dt=1e-3)
        sim.apply_wrench("weight", force=(3.0, 0, 0))
        grip = sim.grab("weight")
        grip.move((0.0, 0.001, 0.0))
        sim.step(600)
        pull = grip.force
        found = sim.joint("j").reaction.force
        assert abs(pull[1]) > 0.1, method
        np.testing.assert_allclose(found, (-3.0, -pull[1], 2 * G - 3.5 - pull[2]), atol=0.02)


def test_gears_and_constraints_have_multipliers():
    """A gear between two rods in balance transmits their torques; a bead on a ring presses with its weight."""

    def on_ring(position, rotation, time, data):
        return position[0] * position[0] + position[2] * position[2] - data[0] * data[0], position[1]

    if "reaction_ring" not in lj.model.registered.CONSTRAINT_KINDS:
        lj.register_constraint("reaction_ring", on_ring, rows=2)
    for method in ("full", "multipliers", "impulses"):
        builder = lj.Builder("pair")
        for k in range(2):
            builder.add_body(f"rod{k}", mass=1.0 + k, com=(0.5, 0, 0), inertia=(0.01, 0.1, 0.1))
            builder.add_joint_hinge(f"j{k}", "world", f"rod{k}", position=(0, k, 0), axis=(0, 1, 0))
        builder.add_gear("gear", "j0", "j1", ratio=-2.0)
        builder.add_body("bead", mass=0.3, inertia=(0.01, 0.01, 0.01), position=(0, 5, -2))
        builder.add_constraint("reaction_ring", "ring", "world", "bead", data=(2.0,), position=(0, 5, 0))
        sim = lj.Simulation(builder.build(), method, dt=1e-3)
        gear = sim.joint("gear").multipliers
        # I0 a0 = m0 g l + lam, I1 a1 = m1 g l - ratio lam with a0 = ratio a1
        i0, i1, t0, t1 = 0.1 + 0.25, 0.1 + 0.5, 0.5 * G, 1.0 * G
        a1 = (t1 + -2.0 * t0) / (i1 + 4.0 * i0)
        assert gear[0] == pytest.approx(i0 * -2.0 * a1 - t0, rel=1e-3), method
        assert sim.joint("ring").multipliers[0] * 2 * -2.0 == pytest.approx(0.3 * G, rel=1e-3), method
        assert sim.joint("ring").reaction.force[2] == pytest.approx(0.3 * G, rel=1e-3)


@pytest.mark.parametrize("method", METHODS)
def test_reading_reactions_changes_nothing(method):
    """Forces read after every step: states, contacts and snapshots have the same bits as without."""
    builder = lj.Builder("chain")
    builder.add_shape_plane("world", collide=method != "displacements")
    for k in range(4):
        builder.add_body(f"b{k}", mass=1.0, inertia=(0.01, 0.01, 0.01))
        parent = "world" if k == 0 else f"b{k - 1}"
        place = (0, 0, 0.3) if k == 0 else (0.2, 0, 0)
        builder.add_joint_hinge(
            f"j{k}", parent, f"b{k}", position=place, position_in_child=(-0.2, 0, 0), axis=(0, 1, 0), limits=(-2, 2)
        )
        builder.add_shape_sphere(f"b{k}", 0.05, group=1, collide=method != "displacements")
    sims = [lj.Simulation(builder.build(), method, dt=2e-3) for _ in range(2)]
    for k in range(150):
        for sim in sims:
            sim.step()
        if k % 5 == 0:
            shown = sims[0].contacts()
            assert np.isfinite(sims[0].reactions).all()
            again = sims[0].contacts()
            assert [c.key for c in shown] == [c.key for c in again]
            assert all(np.array_equal(a.force, b.force) for a, b in zip(shown, again, strict=True))
        assert sims[0].state_hash() == sims[1].state_hash()


def test_a_method_without_reactions_refuses():
    """The error of a method of a user's own names the methods that can; bodies that change size are refused by name."""
    from limberjack.methods.stepper import Stepper

    class Still(Stepper):
        def advance(self, n, dt, forces, time=0.0):
            return n, 0

    with pytest.raises(lj.UnsupportedByMethod, match="full.*impulses"):
        Still().row_forces(np.zeros((0, 6)), None)
    assert all(row["reactions"] for row in lj.capabilities().values())
    with pytest.raises(lj.StateError, match="keep their size"):
        _ = lj.Simulation(lj.scenes.scalable_puppet(), "multipliers").reactions
