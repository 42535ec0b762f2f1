"""MJCF and URDF out: what is written means the same, here and to MuJoCo and Pinocchio."""

from __future__ import annotations

import mujoco
import numpy as np
import pinocchio as pin
import pytest

import limberjack as lj

RELATIVE = 1e-9


def states(model, rng, count=3):
    """Yield random states: coordinates off the start, and velocities."""
    for _ in range(count):
        yield lj.integrate(model, model.q0, 0.5 * rng.normal(size=model.nv)), rng.normal(size=model.nv)


def off(got, wanted):
    """Return the largest difference over the largest number wanted."""
    return float(np.abs(got - wanted).max() / np.abs(wanted).max())


def machine():
    """Return a tree with every kind of joint that MJCF has, frames that are nowhere simple, drives and starts."""
    b = lj.Builder("machine", gravity=(0.3, -0.2, -9.5))
    turned = {"rotation": (0.8, 0.4, -0.2, 0.4), "rotation_in_child": (0.5, -0.5, 0.1, 0.7)}
    placed = {"position": (0.1, 0.2, -0.3), "position_in_child": (-0.2, 0.05, 0.1), **turned}

    def body(name):
        b.add_body(name, mass=1.3, com=(0.02, -0.03, 0.05), inertia=(0.03, 0.04, 0.05, 0.002, -0.001, 0.003))
        return name

    b.add_joint_hinge("hinge", "world", body("a"), axis=(0, 0.6, 0.8), start=0.4, damping=0.3, armature=0.02,
                      stiffness=2.0, rest=0.7, limits=(-2, 2), **placed)  # fmt: skip
    b.add_joint_slide("slide", "a", body("b"), axis=(1, 0, 0), start=-0.2, **placed)
    b.add_joint_ball("ball", "b", body("c"), damping=0.1, start=(0.9, 0.1, -0.3, 0.3), **placed)
    b.add_joint_universal("universal", "c", body("d"), start=(0.3, -0.4), **placed)
    axes = [
        lj.Axis(name="first", axis=(1, 0, 0), position=(0.1, 0, 0), start=0.2, damping=0.4),
        lj.Axis(name="second", kind="slide", axis=(0, 0.6, 0.8), start=-0.1),
        lj.Axis(name="third", axis=(0, 0, 1), position=(0, 0.2, 0), start=0.5),
    ]
    b.add_joint_compound("compound", "d", body("e"), axes=axes, **placed)
    b.add_joint_cylindrical("cylindrical", "a", body("f"), start=(0.1, 0.3), **placed)
    b.add_joint_planar("planar", "world", body("g"), **placed)
    b.add_joint_fixed("fixed", "g", body("h"), **placed)
    b.add_joint_point_on_line("line", "h", body("i"), **placed)
    b.add_joint_free("free", "world", body("j"), start=(1, 2, 3, 0.8, 0.4, -0.2, 0.4))
    b.add_joint_hinge("last", "j", body("k"), **placed)
    b.add_joint_hinge("back", body("l"), "k", axis=(0, 1, 0), start=0.3, **placed)
    return b.build()


def test_mjcf_of_every_kind_is_the_same_model(tmp_path, rng):
    """Forward dynamics of what was written and read equal those of the model, and MuJoCo's of the same file."""
    model = machine()
    read = lj.load(lj.save(model, tmp_path / "machine.xml"))
    m = mujoco.MjModel.from_xml_path(str(tmp_path / "machine.xml"))
    assert (read.nq, read.nv, m.nq, m.nv) == (model.nq, model.nv) * 2
    data = mujoco.MjData(m)
    for q, qd in states(model, rng):
        wanted = lj.forward_dynamics(model, q, qd)
        assert off(lj.forward_dynamics(read, q, qd), wanted) < RELATIVE
        data.qpos[:], data.qvel[:] = q, qd
        mujoco.mj_forward(m, data)
        assert off(data.qacc_smooth, wanted) < RELATIVE
        where = lj.forward_kinematics(model, q)[0][model.body_index("k")]
        np.testing.assert_allclose(data.body("k").xpos, where, atol=1e-12)
    np.testing.assert_allclose(read.gravity, model.gravity)


def test_mjcf_keeps_the_start(tmp_path):
    """Starts of hinges and slides are the file's own; all of the start is the keyframe "start"."""
    model = machine()
    read = lj.load(lj.save(model, tmp_path / "machine.xml"))
    scalars = [model.joint(name).q_start for name in ("hinge", "slide", "first", "third", "back")]
    np.testing.assert_allclose(read.q0[scalars], model.q0[scalars], atol=1e-15)
    key = read.keyframes["start"]
    np.testing.assert_array_equal(key.q, model.q0)
    for a, b in zip(lj.forward_kinematics(model, model.q0), lj.forward_kinematics(read, key.q), strict=True):
        free = [model.body_index(name) for name in "abfgk"]  # bodies under balls have frames of their own in the file
        np.testing.assert_allclose(np.abs(b[free]), np.abs(a[free]), atol=1e-12)


def robot():
    """Return a loop with control: actuators, a tendon, a gear, sensors, points, shapes that do not collide."""
    b = lj.Builder("robot")
    for name in ("base", "left", "right", "tip"):
        b.add_body(name, mass=1.0, com=(0, 0, -0.2), inertia=(0.02, 0.03, 0.01))
    b.add_joint_slide("rail", "world", "base", axis=(1, 0, 0), friction=0.2)
    b.add_joint_hinge("l", "base", "left", axis=(0, 1, 0), position=(-0.2, 0, 0))
    b.add_joint_hinge("r", "base", "right", axis=(0, 1, 0), position=(0.2, 0, 0), start=0.1)
    b.add_joint_ball("t", "left", "tip", position=(0, 0, -0.4))
    b.add_joint_ball("closing", "right", "tip", position=(0, 0, -0.4), position_in_child=(0.4, 0, 0))
    b.add_joint_gear("gear", "r", "rail", ratio=0.5, offset=0.1)
    b.add_spring("world", "tip", at_a=(0, 0, -1), stiffness=40.0, damping=1.0, rest=0.2, name="cord")
    b.add_point("nose", "tip", (0, 0, -0.1))
    b.add_actuator("push", "rail", control_range=(-1, 1), gear=3.0)
    b.add_tendon("both", [("l", 0, 1.0), ("r", 0, -2.0)], stiffness=5.0, damping=0.1)
    b.add_sensor("angle", "joint_position", of="l", on="joint")
    b.add_sensor("where", "frame_position", of="nose", on="point")
    b.add_shape_capsule("left", 0.03, 0.3, position=(0, 0, -0.2), color=(1, 0, 0), group=1)
    b.add_shape_box("tip", (0.1, 0.2, 0.05), collide=False)
    b.add_shape_plane(position=(0, 0, -2))
    b.add_shape_mesh("right", vertices=[(0, 0, 0), (0.1, 0, 0), (0, 0.1, 0), (0, 0, 0.1)],
                     faces=[(0, 2, 1), (0, 1, 3), (1, 2, 3), (0, 3, 2)])  # fmt: skip
    b.exclude_collision("left", "right")
    return b.build()


def test_mjcf_has_control_loops_and_shapes(tmp_path):
    """What moves, closes, senses and collides is in the file, by the same names."""
    model = robot()
    path = lj.save(model, tmp_path / "robot.xml")
    with pytest.warns(lj.ModelWarning, match="closing: open by up to"):
        read = lj.load(path)
    assert read.actuator_names == model.actuator_names
    assert read.sensor_names == model.sensor_names
    assert set(read.loop_names) == set(model.loop_names)
    kinds = [{(shape.name, shape.kind, shape.collide) for shape in one.shapes} for one in (model, read)]
    assert kinds[0] == kinds[1]
    assert {frozenset(pair) for pair in read.spec.excluded} == {frozenset(("left", "right"))}
    assert [spring.stiffness for spring in read.springs] == [40.0]
    assert [tendon.transmission for tendon in read.tendons] == [tendon.transmission for tendon in model.tendons]
    push, again = model.actuators[0], read.actuators[0]
    assert (again.transmission, again.gain, again.control_range) == (push.transmission, push.gain, push.control_range)


def test_a_motor_pulls_the_same_in_mjcf(tmp_path):
    """A motor written as an actuator gives the acceleration it gave."""
    b = lj.Builder("arm")
    b.add_body("arm", mass=1.0, com=(0, 0, -0.2), inertia=(0.02, 0.03, 0.01))
    b.add_joint_hinge("shoulder", "world", "arm", axis=(0, 1, 0), motor=lj.Motor(kp=30, kd=2, target=0.4, velocity=0.1))
    model = b.build()
    lj.save(model, tmp_path / "arm.xml")
    m = mujoco.MjModel.from_xml_path(str(tmp_path / "arm.xml"))
    data = mujoco.MjData(m)
    data.qpos[:], data.qvel[:] = 0.2, -0.5
    mujoco.mj_forward(m, data)
    tau = [30 * (0.4 - 0.2) + 2 * (0.1 + 0.5)]
    np.testing.assert_allclose(data.qacc_smooth, lj.forward_dynamics(model, [0.2], [-0.5], tau), rtol=1e-12)


def arm(free=False):
    """Return a tree of the kinds that URDF has, the joint frames away from the bodies' own."""
    b = lj.Builder("arm")
    placed = {"position": (0.1, 0.2, -0.3), "rotation": (0.8, 0.4, -0.2, 0.4), "position_in_child": (-0.2, 0.05, 0.1),
              "rotation_in_child": (0.5, -0.5, 0.1, 0.7)}  # fmt: skip
    for name in ("a", "b", "c", "d"):
        b.add_body(name, mass=1.3, com=(0.02, -0.03, 0.05), inertia=(0.03, 0.04, 0.05, 0.002, -0.001, 0.003))
    if free:
        b.add_joint_free("base", "world", "a")
    else:
        b.add_joint_hinge("base", "world", "a", axis=(0, 0.6, 0.8), limits=(-3, 3), **placed)
    b.add_joint_slide("slide", "a", "b", axis=(1, 0, 0), damping=0.2, limits=(-1, 1), **placed)
    b.add_joint_fixed("fixed", "b", "c", **placed)
    b.add_joint_hinge("wrist", "c", "d", axis=(0, 1, 0), limits=(-1, 2), **placed)
    b.add_joint_gear("coupled", "wrist", "slide", ratio=0.7, offset=0.1)
    b.add_shape_capsule("b", 0.03, 0.3, position=(0, 0, -0.2), color=(1, 0, 0))
    return b.build()


@pytest.mark.parametrize("free", [False, True])
def test_urdf_is_the_same_model(free, tmp_path, rng):
    """Forward dynamics of what was written and read equal those of the model, and Pinocchio's of the same file."""
    model = arm(free)
    path = lj.save(model, tmp_path / "arm.urdf")
    read = lj.load(path, base="free" if free else "fixed")
    root = [pin.JointModelFreeFlyer()] if free else []
    m = pin.buildModelFromUrdf(str(path), *root)
    data = m.createData()
    assert (read.nq, read.nv, m.nq) == (model.nq, model.nv, model.nq)
    for q, qd in states(model, rng):
        wanted = lj.forward_dynamics(model, q, qd)
        assert off(lj.forward_dynamics(read, q, qd), wanted) < RELATIVE
        theirs, theirs_qd, tau = q.copy(), qd.copy(), -0.2 * qd * (np.arange(model.nv) == model.joint("slide").v_start)
        if free:  # theirs: quaternion (x, y, z, w), velocity of the base in its own axes
            theirs[3:7] = np.roll(q[3:7], -1)
            turn = pin.Quaternion(theirs[3:7]).toRotationMatrix()
            theirs_qd[:3] = turn.T @ qd[:3]
        got = np.array(pin.aba(m, data, theirs, theirs_qd, tau))
        if free:
            got[:3] = turn @ (got[:3] + np.cross(theirs_qd[3:6], theirs_qd[:3]))
        assert off(got, wanted) < RELATIVE
    assert read.joint_spec("wrist:mimic").ratio == 0.7
    assert [shape.kind for shape in read.shapes] == ["capsule"] * 2  # what collides is shown, too


def test_urdf_meshes_go_beside_the_file(tmp_path):
    """A mesh is written as .obj and comes back with its vertices."""
    b = lj.Builder("stone")
    b.add_body("stone", mass=1.0, inertia=(1, 1, 1))
    corners = np.array([(0, 0, 0), (0.1, 0, 0), (0, 0.1, 0), (0, 0, 0.1)])
    b.add_shape_mesh("stone", vertices=corners, faces=[(0, 2, 1), (0, 1, 3), (1, 2, 3), (0, 3, 2)])
    path = lj.save(b.build(), tmp_path / "stone.urdf")
    (mesh,) = tmp_path.glob("*.obj")
    read = lj.load(path, base="free")
    assert mesh.name in path.read_text()
    np.testing.assert_array_equal(np.unique(read.shapes[0].vertices, axis=0), np.unique(corners, axis=0))


def test_what_a_format_cannot_say_is_named(tmp_path):
    """What is left out is warned of by name; what would change the mechanism is refused by name."""
    with pytest.warns(lj.ModelWarning, match=r"armature of joints is left out: shoulder"):
        b = lj.Builder("arm")
        b.add_body("arm", mass=1.0, inertia=(1, 1, 1))
        b.add_joint_hinge("shoulder", "world", "arm", armature=0.1)
        lj.save(b.build(), tmp_path / "arm.urdf")
    with pytest.raises(lj.FileError, match='joint "universal" is of kind "universal"; URDF has'):
        lj.save(machine(), tmp_path / "machine.urdf")
    with pytest.raises(lj.FileError, match='loop joint "closing" is of kind "ball"'):
        lj.save(robot(), tmp_path / "robot.urdf")
    with pytest.raises(lj.FileError, match='is of kind "planar"; MJCF has rigid bodies only'):
        lj.save(lj.scenes.four_bar(), tmp_path / "bars.xml")
    assert not (tmp_path / "machine.urdf").exists() and not (tmp_path / "bars.xml").exists()


@pytest.mark.parametrize("name", ["humanoid", "ball_tree", "joint_types", "chain_with_limits"])
def test_scenes_go_through_mjcf(name, tmp_path, rng):
    """Scenes written as MJCF have the forward dynamics they had."""
    model = lj.scenes.get(name).model
    with pytest.warns() if name == "humanoid" else np.errstate():
        read = lj.load(lj.save(model, tmp_path / "scene.xml"))
    for q, qd in states(model, rng, 1):
        assert off(lj.forward_dynamics(read, q, qd), lj.forward_dynamics(model, q, qd)) < RELATIVE
