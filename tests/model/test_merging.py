"""Several models in one: everything of each is carried over, renamed and moved."""

from __future__ import annotations

import numpy as np
import pytest

import limberjack as lj
from limberjack.errors import ModelError
from limberjack.model.merging import placed
from limberjack.spatial.frames import matrix_from_quaternion

AT, TURNED = (1.0, -2.0, 0.5), (np.cos(0.4), 0.0, 0.0, np.sin(0.4))  # about the vertical: gravity stays
R = matrix_from_quaternion(np.array(TURNED))


def four_bar(crank: float) -> tuple[float, float, float]:
    """Return the angles of a closed four-bar with sides 0.3, 0.5, 0.4 and a base of 0.9."""
    away = 0.9 - 0.3 * np.exp(-1j * crank)  # from the crank's end to the base, in the plane of x and z
    distance = abs(away)
    lift = np.arccos((0.5**2 + distance**2 - 0.4**2) / (2 * 0.5 * distance))
    coupler = -np.angle(away) + lift  # rotations about y turn x to -z
    rocker = -np.angle(away - 0.5 * np.exp(-1j * coupler))
    return crank, float(coupler - crank), float(rocker - coupler)


def machine() -> lj.Model:
    """Return a model with one of everything: a free figure, a four-bar, springs, a gear, motors, shapes."""
    b = lj.Builder("machine")
    for name in ("torso", "arm", "crank", "coupler", "rocker", "wheel", "loose"):
        b.add_body(name, mass=1.0, com=(0.05, 0.0, 0.1), inertia=(0.02, 0.03, 0.01))
    motor = lj.Motor(kp=40.0, kd=2.0, target=(0.8, 0.0, 0.6, 0.0))
    b.add_joint_free(
        "root", "world", "torso", start=(0.1, 0.2, 1.5, 0.6, 0.8, 0, 0), start_velocity=(1, 2, 0, 0.3, 0, 0.5)
    )
    b.add_joint_ball("shoulder", "torso", "arm", position=(0, 0, 0.3), motor=motor, damping=0.1)
    crank, coupler, rocker = four_bar(0.3)
    b.add_joint_hinge("a", "world", "crank", axis=(0, 1, 0), limits=(-1.0, 2.0), start=crank)
    b.add_joint_hinge("b", "crank", "coupler", axis=(0, 1, 0), position=(0.3, 0, 0), friction=0.02, start=coupler)
    b.add_joint_hinge("c", "coupler", "rocker", axis=(0, 1, 0), position=(0.5, 0, 0), start=rocker)
    b.add_joint_hinge("d", "world", "rocker", axis=(0, 1, 0), position=(0.9, 0, 0), position_in_child=(0.4, 0, 0))
    axes = [lj.Axis(name="roll", stiffness=2.0), lj.Axis(name="reach", kind="slide", axis=(1, 0, 0))]
    b.add_joint_compound("mount", "world", "wheel", axes, position=(0, 1, 0), rotation=(0.8, 0, 0.6, 0))
    b.add_gear("gear", "roll", "a", ratio=2.0)
    b.add_spring("torso", "world", at_b=(0, 0, 3), stiffness=100.0, damping=1.0, rest=1.0)
    b.add_point("tip", "arm", (0, 0, 0.4))
    b.add_point("mark", "world", (1, 1, 0))
    b.add_shape_capsule("torso", 0.1, 0.3, group=1)
    b.add_shape_sphere("arm", 0.1, group=1)
    b.add_shape_box("crank", (0.1, 0.1, 0.3), friction=0.3, restitution=0.2)
    b.add_shape_box("world", (1, 1, 0.1), position=(0, 0, -0.1), name="table")
    b.exclude_collision("crank", "torso")
    return b.build()


def pair() -> tuple[lj.Model, lj.Model]:
    """Return the machine, and a model of two of them."""
    one = machine()
    b = lj.Builder("two")
    b.add_model(one, "left")
    b.add_model(one, "right", position=AT, rotation=TURNED)
    return one, b.build()


def test_names_and_counts():
    """All names have the prefix; there is twice as much of everything."""
    one, two = pair()
    assert set(two.body_names) == {f"{side}/{name}" for side in ("left", "right") for name in one.body_names}
    assert set(two.joint_names) == {f"{side}/{name}" for side in ("left", "right") for name in one.joint_names}
    assert two.loop_names == tuple(f"{side}/{name}" for side in ("left", "right") for name in one.loop_names)
    for word in ("shapes", "springs", "points"):
        assert len(getattr(two, word)) == 2 * len(getattr(one, word))
    assert len(two.spec.excluded) == 2 and set(two.features()) == set(one.features()) | {"contacts"}
    assert (two.nq, two.nv) == (2 * one.nq, 2 * one.nv)


def test_a_moved_model_is_the_model_moved():
    """Start poses of bodies, static shapes and points are those of the model, moved and rotated."""
    one, two = pair()
    p, r = lj.forward_kinematics(one, one.q0)
    p2, r2 = lj.forward_kinematics(two, two.q0)
    for i, name in enumerate(one.body_names):
        k, m = two.body_index(f"left/{name}"), two.body_index(f"right/{name}")
        np.testing.assert_array_equal(p2[k], p[i])
        np.testing.assert_allclose(p2[m], np.array(AT) + R @ p[i], atol=1e-12)
        np.testing.assert_allclose(matrix_from_quaternion(r2[m]), R @ matrix_from_quaternion(r[i]), atol=1e-12)
    table = next(shape for shape in two.shapes if shape.name == "right/table")
    np.testing.assert_allclose(table.position, np.array(AT) + R @ [0, 0, -0.1])
    mark = next(point for point in two.points if point.name == "right/mark")
    np.testing.assert_allclose(mark.position, np.array(AT) + R @ [1, 1, 0])


def test_groups_of_shapes_stay_apart():
    """Shapes of one group of a model do not collide with each other, but with those of its twin."""
    _, two = pair()
    groups = {shape.name: shape.group for shape in two.shapes if shape.body.endswith(("torso", "arm"))}
    assert len(set(groups.values())) == 2 and 0 not in groups.values()


def test_both_move_as_one_alone():
    """Loops, gears, limits, motors, friction and springs act as in the model alone: its motion, moved and rotated."""
    one, two = pair()
    ignore = ("contacts",)
    alone, both = (lj.Simulation(model, "full", 1e-3, ignore=ignore) for model in (one, two))
    alone.step(200)
    both.step(200)
    for i, name in enumerate(one.body_names):
        k, m = two.body_index(f"left/{name}"), two.body_index(f"right/{name}")
        np.testing.assert_allclose(both.positions[k], alone.positions[i], atol=1e-6)
        np.testing.assert_allclose(both.positions[m], np.array(AT) + R @ alone.positions[i], atol=1e-6)


def test_the_whole_is_saved_without_loss(tmp_path):
    """A model of models goes to a file and back, and is built again from its records."""
    _, two = pair()
    lj.save(two, tmp_path / "two.json")
    again = lj.load(tmp_path / "two.json")
    assert again.spec.joints == two.spec.joints and again.spec.bodies == two.spec.bodies
    np.testing.assert_array_equal(again.q0, two.q0)
    np.testing.assert_array_equal(again.arrays.links.placement, two.arrays.links.placement)
    np.testing.assert_array_equal(again.arrays.drives.ball, two.arrays.drives.ball)


def test_models_and_parts_of_ones_own_mix():
    """What is added afterwards can name bodies of the models, and models can be nested."""
    rope = lj.scenes.pendulum(links=3)
    b = lj.Builder("scene")
    b.add_model(rope, "rope", position=(0, 0, 2))
    b.add_body("ball", mass=1.0, inertia=(0.1, 0.1, 0.1))
    last = f"rope/{rope.body_names[-1]}"
    b.add_joint_ball("knot", last, "ball")
    outer = lj.Builder("outer")
    outer.add_model(b.build(), "inner")
    model = outer.build()
    assert model.body("inner/ball").parent == f"inner/{last}"


def test_wrong_models_are_refused():
    """A name used twice, no model, and world-axes properties that cannot be rotated are named."""
    b = lj.Builder("two")
    b.add_model(machine(), "left")
    with pytest.raises(ModelError, match='"left" cannot be added: a body "left/'):
        b.add_model(machine(), "left")
    with pytest.raises(ModelError, match="takes a lj.Model, got str"):
        b.add_model("robot.urdf", "x")
    free = lj.Builder("free")
    free.add_body("ball", mass=1.0, inertia=(1, 1, 1))
    free.add_joint_free("root", "world", "ball", damping=(1, 2, 3, 0, 0, 0))
    with pytest.raises(ModelError, match='free joint "root" has damping along world axes'):
        b.add_model(free.build(), "free", rotation=TURNED)
    b.add_model(free.build(), "free", position=AT)


def test_free_joints_with_motors_are_moved():
    """A free body on a motor towards a pose is drawn to that pose, moved and rotated."""
    b = lj.Builder("free", gravity=(0, 0, 0))
    b.add_body("ball", mass=1.0, inertia=(1, 1, 1))
    motors = [lj.Motor(kp=100.0, kd=20.0, target=x) for x in (0.3, 0.1, 0.2)]
    b.add_joint_free("root", "world", "ball", motor=[*motors, lj.Motor(kp=100.0, kd=20.0, target=(0.6, 0.8, 0, 0))])
    outer = lj.Builder("outer", gravity=(0, 0, 0))
    outer.add_model(b.build(), "it", position=AT, rotation=TURNED)
    sim = lj.Simulation(outer.build(), "full", 1e-3)
    np.testing.assert_allclose(sim.positions[0], AT)
    sim.step(3000)
    np.testing.assert_allclose(sim.positions[0], np.array(AT) + R @ [0.3, 0.1, 0.2], atol=1e-5)
    expected = R @ matrix_from_quaternion(np.array((0.6, 0.8, 0, 0)))
    np.testing.assert_allclose(matrix_from_quaternion(sim.rotations[0]), expected, atol=1e-5)


def test_nothing_changes_without_a_move():
    """At the origin the records are the same to the last bit, but for the names."""
    spec = machine().spec
    again = placed(spec, "")
    assert again.joints == spec.joints and again.bodies == spec.bodies and again.springs == spec.springs
    assert again.points == spec.points and again.excluded == spec.excluded


def actuated() -> lj.Model:
    """Return an arm with a servo, a motor on a tendon, a thruster at a point, and sensors."""
    b = lj.Builder("arm")
    b.add_body("upper", mass=1.0, com=(0.2, 0, 0), inertia=(0.01, 0.02, 0.02))
    b.add_body("lower", mass=0.5, com=(0.2, 0, 0), inertia=(0.01, 0.02, 0.02))
    b.add_joint_hinge("shoulder", "world", "upper", axis=(0, 1, 0))
    b.add_joint_hinge("elbow", "upper", "lower", axis=(0, 1, 0), position=(0.4, 0, 0))
    b.add_point("tip", "lower", (0.4, 0, 0))
    b.add_actuator("servo", "shoulder", kind="position", kp=30.0, kd=3.0)
    b.add_tendon("cable", {"shoulder": 0.5, "elbow": -0.2}, stiffness=4.0)
    b.add_actuator("jet", point="tip", wrench=(0, 0, 0, 0, 0, 1.0))
    b.add_sensor("height", "frame_position", "tip", on="point")
    b.add_sensor("pull", "tendon_position", "cable", on="tendon")
    return b.build()


def test_actuators_tendons_and_sensors_are_carried():
    """Each of two copies moves under its controls, and measures, as one alone."""
    one = actuated()
    b = lj.Builder("two", gravity=one.gravity)
    b.add_model(one, "left")
    b.add_model(one, "right", position=(0.0, 2.0, 0.0))
    two = b.build()
    assert two.actuator_names == ("left/servo", "left/jet", "right/servo", "right/jet")
    both = lj.Simulation(two, "full", dt=1e-3)
    both.control = {"left/servo": 0.4, "left/jet": 3.0, "right/servo": -0.7}
    both.step(200)
    for side, control in (("left", {"servo": 0.4, "jet": 3.0}), ("right", {"servo": -0.7})):
        alone = lj.Simulation(one, "full", dt=1e-3)
        alone.control = control
        alone.step(200)
        for joint in ("shoulder", "elbow"):
            assert np.allclose(both.joint(f"{side}/{joint}").q, alone.joint(joint).q, rtol=0, atol=1e-12)
        assert abs(both.sensor(f"{side}/pull") - alone.sensor("pull")) < 1e-12
        shift = (0.0, 2.0 * (side == "right"), 0.0)
        assert np.allclose(both.sensor(f"{side}/height"), alone.sensor("height") + shift, rtol=0, atol=1e-12)
