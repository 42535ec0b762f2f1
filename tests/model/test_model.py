"""The finished model: frozen, its names and infos, what it has that a method must honour."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from tests.model.test_builder_refuses import builder
from tests.naive.models import random_model

import limberjack as lj


def test_a_model_is_frozen():
    """Attributes cannot be set or removed and its arrays are read-only."""
    model = builder().build()
    for name in ("name", "nq", "gravity", "something_new"):
        with pytest.raises(AttributeError):
            setattr(model, name, 1)
    with pytest.raises(AttributeError):
        del model.name
    for array in (model.q0, model.qd0, model.gravity):
        with pytest.raises(ValueError, match="read-only"):
            array[:1] = 1.0
    for names in (model.body_names, model.joint_names, model.shapes, model.springs, model.points):
        assert isinstance(names, tuple)


def test_infos_are_copies():
    """Changing what body() returned changes nothing in the model."""
    model = builder().build()
    model.body("a").com[:] = 7
    model.body("a").inertia[:] = 7
    assert (model.body("a").com == 0).all() and (model.body("a").inertia == np.eye(3)).all()


def test_a_builder_may_go_on_after_build():
    """What is added after build() is in the next model only."""
    build = builder()
    first = build.build()
    build.add_body("late", mass=1, inertia=(1, 1, 1))
    build.add_joint_hinge("last", "a", "late")
    assert "late" not in first.body_names and len(first.spec.bodies) == 3
    assert "late" in build.build().body_names


def test_arguments_are_copied():
    """A list changed after the call does not reach the model."""
    build, place, inertia = lj.Builder(), [1.0, 2.0, 3.0], np.diag([1.0, 2.0, 3.0])
    build.add_body("a", mass=1, com=place, inertia=inertia)
    place[0], inertia[0, 0] = 9.0, 9.0
    found = build.build().body("a")
    assert found.com.tolist() == [1, 2, 3] and found.inertia[0, 0] == 1


@pytest.mark.parametrize("seed", range(4))
def test_a_spec_makes_the_same_model_again(seed):
    """Builder.from_spec(model.spec).build() is the same model to the last bit."""
    model = random_model(np.random.default_rng([8, seed]), bodies=12)
    again = lj.Builder.from_spec(model.spec).build()
    assert again.body_names == model.body_names and again.joint_names == model.joint_names
    for field, array in model.arrays.links._asdict().items():
        assert np.array_equal(array, getattr(again.arrays.links, field)), field
    for field, array in model.arrays.drives._asdict().items():
        assert np.array_equal(array, getattr(again.arrays.drives, field)), field


def test_from_spec_goes_on_with_the_names():
    """A builder from a spec knows its names: duplicates are refused, additions work, the spec stays as it was."""
    build = builder()
    build.add_point("p", "a", (0, 0, 1))
    build.add_joint_compound("c", "b", "c", [lj.Axis(name="x")])
    model = build.build()
    again = lj.Builder.from_spec(model.spec)
    for call in (
        lambda: again.add_body("a"),
        lambda: again.add_joint_hinge("h", "b", "c"),
        lambda: again.add_joint_hinge("x", "b", "c"),
        lambda: again.add_point("p", "b", (0, 0, 0)),
    ):
        with pytest.raises(lj.ModelError):
            call()
    again.add_body("d", mass=1, inertia=(1, 1, 1))
    assert len(model.spec.bodies) == 3


def test_infos_say_what_was_built():
    """body() and joint() give index, parents, masses and places; unknown names come with the choices."""
    model = builder().build()
    b = model.body("b")
    assert (b.name, b.index, b.mass, b.parent, b.joint) == ("b", 1, 1.0, "a", "k")
    k = model.joint("k")
    assert (k.name, k.kind, k.parent, k.child, k.q, k.v, k.index) == (
        "k",
        "hinge",
        "a",
        "b",
        slice(1, 2),
        slice(1, 2),
        1,
    )
    assert model.body("a").parent == "world" and model.body_index("c") == 2
    with pytest.raises(lj.UnknownName, match='no joint "z" in model "rig"; joints are c, h, k'):
        model.joint("z")
    with pytest.raises(lj.UnknownName, match='no body "z" in model "rig"; bodies are a, b, c'):
        model.body("z")
    assert repr(model) == 'Model("rig": 3 bodies, 3 joints, nq 9, nv 8)'


def test_copies_work():
    """deepcopy of a model moves as the model does."""
    model = builder().build()
    again = copy.deepcopy(model)
    assert (lj.forward_dynamics(again, again.q0, again.qd0) == lj.forward_dynamics(model, model.q0, model.qd0)).all()


def test_gravity_defaults_to_the_earths():
    """Gravity is (0, 0, -9.81) unless told."""
    assert lj.Builder().build().gravity.tolist() == [0, 0, -9.81]
    assert lj.Builder(gravity=(1, 2, 3)).build().gravity.tolist() == [1, 2, 3]


PLAIN = {"mass": 1.0, "inertia": (1, 1, 1)}


def pair(first=None, second=None, **joint):
    """Return a builder with a body on a hinge and one on it; options go to the second joint."""
    build = lj.Builder()
    build.add_body("a", **PLAIN)
    build.add_body("b", **PLAIN)
    build.add_joint_hinge("h", "world", "a")
    build.add_joint_hinge("k", "a", "b", **joint)
    return build


def with_loop(build):
    build.add_joint_ball("l", "world", "b")
    return build


def with_rod(build):
    build.add_joint_distance("l", "world", "b", length=1)
    return build


def with_gear(build):
    build.add_joint_gear("l", "h", "k")
    return build


def with_spring(build):
    build.add_spring("a", "world", stiffness=1, name="s")
    return build


def with_edge(build):
    build.add_no_slip("l", "b", direction=(0, 1, 0))
    return build


def with_scale(build):
    build.add_body_scalable("grows", mass=1, inertia=(1, 1, 1))
    build.add_joint_hinge("i", "b", "grows")
    return build


def with_swing(**limits):
    build = pair()
    build.add_body("c", **PLAIN)
    build.add_joint_ball("s", "b", "c", **limits)
    return build


FEATURES = {
    "loops": [(with_loop(pair()), '"l"'), (with_rod(pair()), '"l"')],
    "gears": [(with_gear(pair()), '"l"')],
    "limits": [(pair(limits=(-1, 1)), '"k"'), (pair(limits=(-np.inf, 1)), '"k"')],
    "velocity": [(with_edge(pair()), '"l"')],
    "bodies": [(with_scale(pair()), 'body "grows" is scalable')],
    "friction": [(pair(friction=0.1), '"k"')],
    "armature": [(pair(armature=0.1), '"k"')],
    "springs": [(with_spring(pair()), '"s"')],
    "motors": [(pair(motor=lj.Motor(kp=1)), '"k"'), (pair(motor=lj.Motor(kd=1)), '"k"')],
}


FEATURES["limits"] += [(with_swing(cone=1), '"s"'), (with_swing(twist=(-1, 1)), '"s"')]


@pytest.mark.parametrize("feature", FEATURES)
def test_features_are_found_one_by_one(feature):
    """A model with one feature reports that one, with an example by name."""
    for build, name in FEATURES[feature]:
        found = build.build().features()
        assert set(found) == {feature} and name in found[feature]


def test_plain_models_have_no_features():
    """Damping, joint springs, soft limits and motors without gain ask nothing special of a method."""
    soft = {"limits": (-1, 1), "limit_stiffness": 10, "limit_damping": 1}
    assert pair(damping=1, stiffness=1, rest=0.1, **soft).build().features() == {}
    assert pair(motor=lj.Motor()).build().features() == {}


def test_features_of_axes_and_balls_are_found():
    """Limits, friction, armature and motors on compound axes and balls count too, named by axis or joint."""
    build = lj.Builder()
    for name in "ab":
        build.add_body(name, **PLAIN)
    axes = [
        lj.Axis(name="x"),
        lj.Axis(name="y", axis=(1, 0, 0), limits=(0, 1), friction=1, armature=1, motor=lj.Motor(kp=1)),
    ]
    build.add_joint_compound("c", "world", "a", axes)
    build.add_joint_ball("s", "a", "b")
    found = build.build().features()
    assert set(found) == {"limits", "friction", "armature", "motors"} and all('"y"' in text for text in found.values())
    build = lj.Builder()
    build.add_body("a", **PLAIN)
    build.add_joint_ball("s", "world", "a", limits=(0, 1), friction=1, armature=1, motor=lj.Motor(kp=1))
    assert set(build.build().features()) == {"limits", "friction", "armature", "motors"}


def balls(*, joint=None, exclude=False, groups=(0, 0), collide=True, world=False):
    """Return the features of two spheres, free or joined, or of one above the ground."""
    build = lj.Builder()
    build.add_body("a")
    build.add_shape_sphere("a", 0.1, name="one", group=groups[0])
    other = "world"
    if not world:
        other = build.add_body("b")
        if joint:
            build.add_joint(joint, "j", "a", "b", position=(1, 0, 0))
    build.add_shape_sphere(other, 0.1, name="two", group=groups[1], collide=collide)
    if exclude:
        build.exclude_collision("a", other)
    return build.build().features()


def test_shapes_that_can_touch_are_contacts():
    """Two free bodies, or a free body and the ground, can touch; the message names the shapes."""
    for found in (balls(), balls(world=True), balls(groups=(1, 2)), balls(groups=(0, 1))):
        assert set(found) == {"contacts"} and '"one"' in found["contacts"] and '"two"' in found["contacts"]


def test_a_body_above_a_floor_can_touch_it():
    """The free joint of a body does not count as joining it to the world."""
    for named in (False, True):
        build = lj.Builder()
        build.add_body("ball", position=(0, 0, 1))
        build.add_shape_sphere("ball", 0.1)
        if named:
            build.add_joint_free("f", "world", "ball")
        build.add_shape_plane()
        assert "contacts" in build.build().features()


def test_shapes_that_cannot_touch_are_none():
    """Directly joined bodies, excluded pairs, one group, one link, and shapes for display only do not collide."""
    for found in (
        balls(joint="hinge"), balls(joint="fixed"), balls(exclude=True), balls(exclude=True, world=True),
        balls(groups=(3, 3)), balls(collide=False),
    ):  # fmt: skip
        assert found == {}


def test_grandchildren_can_touch():
    """Bodies two joints apart are not directly joined, so they can touch."""
    build = lj.Builder()
    for k, name in enumerate("abc"):
        build.add_body(name)
        build.add_shape_sphere(name, 0.1)
        build.add_joint_hinge(f"j{k}", "abc"[k - 1] if k else "world", name, position=(1, 0, 0))
    found = build.build().features()
    assert "contacts" in found and "a:sphere" in found["contacts"] and "c:sphere" in found["contacts"]
