"""What the builder refuses: every bad number, name and shape, by the name of the thing and its value."""

from __future__ import annotations

import math

import numpy as np
import pytest

import limberjack as lj

SOLID = {"mass": 1.0, "inertia": (1.0, 1.0, 1.0)}


def builder():
    """Return a builder with two bodies and two hinges."""
    out = lj.Builder("rig")
    for name in ("a", "b", "c"):
        out.add_body(name, **SOLID)
    out.add_joint_hinge("h", "world", "a")
    out.add_joint_hinge("k", "a", "b")
    return out


def joint(kind, **options):
    """Return a call that adds a joint of the kind named."""
    return lambda: builder().add_joint(kind, "j", "b", "c", **options)


def compound(**options):
    """Return a call that adds a compound joint with one axis."""
    return lambda: builder().add_joint_compound("j", "b", "c", [lj.Axis(name="x", **options)])


def shape(kind, *size, **options):
    """Return a call that adds a shape."""
    return lambda: getattr(builder(), f"add_shape_{kind}")("a", *size, name="s", **options)


def mesh(vertices, faces=((0, 1, 2),), **options):
    """Return a call that adds a mesh."""
    return lambda: builder().add_shape_mesh("a", vertices=vertices, faces=faces, **options)


NUMBERS = {
    "gravity": lambda x: lj.Builder(gravity=(0, x, 0)),
    "mass": lambda x: builder().add_body("d", mass=x),
    "com": lambda x: builder().add_body("d", mass=1, com=(x, 0, 0)),
    "inertia": lambda x: builder().add_body("d", mass=1, inertia=(1, x, 1)),
    "inertia 6": lambda x: builder().add_body("d", mass=1, inertia=(1, 1, 1, 0, x, 0)),
    "inertia 3x3": lambda x: builder().add_body("d", mass=1, inertia=[[1, 0, 0], [0, 1, 0], [0, 0, x]]),
    "position": lambda x: builder().add_body("d", mass=1, position=(0, 0, x)),
    "rotation": lambda x: builder().add_body("d", mass=1, rotation=(1, 0, 0, x)),
    "point": lambda x: builder().add_point("p", "a", (x, 0, 0)),
    "joint position": lambda x: joint("hinge", position=(x, 0, 0))(),
    "joint rotation": lambda x: joint("hinge", rotation=(x, 0, 0, 0))(),
    "joint rotation matrix": lambda x: joint("hinge", rotation=[[1, 0, 0], [0, 1, 0], [0, 0, x]])(),
    "position_in_child": lambda x: joint("hinge", position_in_child=(0, x, 0))(),
    "rotation_in_child": lambda x: joint("hinge", rotation_in_child=(0, x, 0, 0))(),
    "axis": lambda x: joint("hinge", axis=(0, x, 1))(),
    "axis2": lambda x: joint("universal", axis2=(0, x, 0))(),
    "pitch": lambda x: joint("screw", pitch=x)(),
    "start": lambda x: joint("planar", start=(0, x, 0))(),
    "start_velocity": lambda x: joint("ball", start_velocity=(0, x, 0))(),
    "damping": lambda x: joint("hinge", damping=x)(),
    "damping of one": lambda x: joint("universal", damping=(1, x))(),
    "stiffness": lambda x: joint("hinge", stiffness=x)(),
    "rest": lambda x: joint("hinge", rest=x)(),
    "armature": lambda x: joint("hinge", armature=x)(),
    "friction": lambda x: joint("hinge", friction=x)(),
    "limit_stiffness": lambda x: joint("hinge", limits=(-1, 1), limit_stiffness=x)(),
    "limit_damping": lambda x: joint("hinge", limits=(-1, 1), limit_stiffness=1, limit_damping=x)(),
    "kp": lambda x: joint("hinge", motor=lj.Motor(kp=x))(),
    "kd": lambda x: joint("hinge", motor=lj.Motor(kd=x))(),
    "target": lambda x: joint("hinge", motor=lj.Motor(kp=1, target=x))(),
    "ball target": lambda x: joint("ball", motor=lj.Motor(kp=1, target=(x, 0, 0, 0)))(),
    "velocity": lambda x: joint("hinge", motor=lj.Motor(kd=1, velocity=x))(),
    "axis of a compound": lambda x: compound(axis=(0, 0, x))(),
    "position of an axis": lambda x: compound(position=(0, 0, x))(),
    "damping of an axis": lambda x: compound(damping=x)(),
    "stiffness of an axis": lambda x: compound(stiffness=x)(),
    "rest of an axis": lambda x: compound(rest=x)(),
    "armature of an axis": lambda x: compound(armature=x)(),
    "friction of an axis": lambda x: compound(friction=x)(),
    "start of an axis": lambda x: compound(start=x)(),
    "start_velocity of an axis": lambda x: compound(start_velocity=x)(),
    "motor of an axis": lambda x: compound(motor=lj.Motor(kp=x))(),
    "distance": lambda x: builder().add_joint_distance("j", "b", "c", length=x),
    "ratio": lambda x: builder().add_joint_gear("g", "h", "k", ratio=x),
    "offset": lambda x: builder().add_joint_gear("g", "h", "k", offset=x),
    "spring": lambda x: builder().add_spring("a", "b", stiffness=x),
    "spring damping": lambda x: builder().add_spring("a", "b", stiffness=1, damping=x),
    "spring rest": lambda x: builder().add_spring("a", "b", stiffness=1, rest=x),
    "at_a": lambda x: builder().add_spring("a", "b", stiffness=1, at_a=(x, 0, 0)),
    "at_b": lambda x: builder().add_spring("a", "world", stiffness=1, at_b=(x, 0, 0)),
    "radius": lambda x: shape("sphere", x)(),
    "size": lambda x: shape("box", (1, 1, x))(),
    "length": lambda x: shape("capsule", 1, x)(),
    "cylinder": lambda x: shape("cylinder", x, 1)(),
    "shape position": lambda x: shape("sphere", 1, position=(0, 0, x))(),
    "shape rotation": lambda x: shape("sphere", 1, rotation=(1, 0, 0, x))(),
    "shape friction": lambda x: shape("sphere", 1, friction=x)(),
    "restitution": lambda x: shape("sphere", 1, restitution=x)(),
    "density": lambda x: shape("sphere", 1, density=x)(),
    "color": lambda x: shape("sphere", 1, color=(0, 0, x))(),
    "vertices": lambda x: mesh([(0, 0, 0), (1, 0, 0), (0, x, 0)])(),
    "scale": lambda x: mesh([(0, 0, 0), (1, 0, 0), (0, 1, 0)], scale=x)(),
}


# Places where None stands for "not given".
OPTIONAL = {
    "mass",
    "density",
    "damping",
    "stiffness",
    "rest",
    "armature",
    "friction",
    "limit_stiffness",
    "limit_damping",
}


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, "words", None, (1, 2, 3, 4, 5)], ids=str)
@pytest.mark.parametrize("what", NUMBERS)
def test_every_number_is_checked(what, bad):
    """NaN, infinity, text, nothing and sequences are refused with ModelError in every place a number is wanted."""
    if bad is None and what in OPTIONAL:
        NUMBERS[what](bad)
        return
    with pytest.raises(lj.ModelError) as caught:
        NUMBERS[what](bad)
    assert '"' in str(caught.value) or "gravity" in str(caught.value)


@pytest.mark.parametrize(
    "call",
    [
        lambda: builder().add_body("d", mass=-1),
        joint("hinge", damping=-1),
        joint("universal", damping=(1, -1)),
        joint("hinge", stiffness=-1),
        joint("hinge", armature=-1),
        joint("hinge", friction=-1),
        joint("hinge", limits=(-1, 1), limit_stiffness=-1),
        joint("hinge", motor=lj.Motor(kp=-1)),
        joint("hinge", motor=lj.Motor(kd=-1)),
        joint("hinge", motor=lj.Motor(kp=1, max=-1)),
        joint("hinge", motor=lj.Motor(kp=1, max=math.nan)),
        compound(damping=-1),
        compound(armature=-1),
        lambda: builder().add_spring("a", "b", stiffness=-1),
        lambda: builder().add_spring("a", "b", stiffness=1, damping=-1),
        lambda: builder().add_spring("a", "b", stiffness=1, rest=-1),
        lambda: builder().add_joint_distance("j", "b", "c", length=0),
        shape("sphere", 0),
        shape("sphere", -1),
        shape("box", (1, 0, 1)),
        shape("cylinder", 1, 0),
        shape("capsule", 0, 1),
        shape("capsule", 1, -1),
        shape("sphere", 1, friction=-0.1),
        shape("sphere", 1, restitution=1.1),
        shape("sphere", 1, density=-1),
        shape("sphere", 1, color=(0, 0, 2)),
        shape("sphere", 1, color=(0, 0)),
        shape("sphere", 1, group="red"),
        mesh([(0, 0, 0), (1, 0, 0), (0, 1, 0)], faces=((0, 1, 3),)),
        mesh([(0, 0, 0), (1, 0, 0), (0, 1, 0)], faces=((0, -1, 2),)),
        mesh([(0, 0), (1, 0), (0, 1)]),
        mesh([(0, 0, 0)], faces=()),
        lambda: builder().add_shape_mesh("a"),
    ],
)
def test_what_cannot_be_is_refused(call):
    """Negative masses, stiffnesses and sizes, colors out of range and broken meshes raise ModelError."""
    with pytest.raises(lj.ModelError):
        call()


@pytest.mark.parametrize("axis", [(0, 0, 0), (0, 0, 1e-13), (0, 0), (0, 0, 0, 1)])
def test_zero_axes_are_refused(axis):
    """An axis without a direction, or of the wrong size, is refused and the joint named."""
    for call in (joint("hinge", axis=axis), joint("universal", axis=axis), compound(axis=axis)):
        with pytest.raises(lj.ModelError, match='axis of (joint "j"|axis "x")'):
            call()


@pytest.mark.parametrize("size", [1e-9, 0.1, 3.0, 1e100, 1e200])
def test_axes_of_any_length_are_normalised(size):
    """A long or short axis is the unit axis."""
    build = builder()
    build.add_joint_hinge("j", "b", "c", axis=(0, 3 * size, 4 * size))
    assert build.build().joint_spec("j").axis == pytest.approx((0, 0.6, 0.8), rel=1e-15)


def test_quaternions_are_normalised_or_refused():
    """Within 1e-3 of unit length a rotation is normalised; beyond, refused with its length."""
    build = builder()
    build.add_joint_hinge("j", "b", "c", rotation=(0.9995, 0, 0, 0))
    assert build.build().joint_spec("j").rotation == (1, 0, 0, 0)
    for bad, length in (((1.01, 0, 0, 0), "1.01"), ((0, 0, 0, 0), "0"), ((1, 1, 1, 1), "2")):
        with pytest.raises(lj.ModelError, match=f'rotation of joint "i" must be a unit quaternion.*length {length}'):
            builder().add_joint_hinge("i", "b", "c", rotation=bad)


def test_rotations_may_be_matrices():
    """A 3x3 rotation stands for its quaternion; reflections and skewed matrices are refused."""
    for matrix in ([[0, -1, 0], [1, 0, 0], [0, 0, 1]], np.array([[0.0, -1, 0], [1, 0, 0], [0, 0, 1]])):
        build = builder()
        build.add_joint_hinge("j", "b", "c", rotation=matrix)
        assert build.build().joint_spec("j").rotation == pytest.approx((math.sqrt(0.5), 0, 0, math.sqrt(0.5)))
    for bad in (np.diag([1.0, 1.0, -1.0]), np.ones((3, 3)), 2 * np.eye(3), np.zeros((3, 3))):
        with pytest.raises(lj.ModelError, match='rotation of joint "j" must be a rotation matrix'):
            joint("hinge", rotation=bad)()


@pytest.mark.parametrize(
    ("inertia", "text"),
    [
        ((1, 1, 3), "triangle.*principal moments 1, 1, 3"),
        ((-1, 1, 1), "not positive semidefinite.*principal moments -1, 1, 1"),
        ((2, 2, 1, 3, 0, 0), "not positive semidefinite.*principal moments -1, 1, 5"),
        ([[2, 0, 0], [0, 1, 0], [0, 0, 4]], "triangle.*principal moments 1, 2, 4"),
    ],
)
def test_broken_inertias_print_their_principal_moments(inertia, text):
    """An inertia no body can have is refused with its principal moments and the body's name."""
    with pytest.raises(lj.ModelError, match=f'body "d".*{text}'):
        builder().add_body("d", mass=1, inertia=inertia)


@pytest.mark.parametrize(
    "inertia", [(1, 2), (1, 2, 3, 4), np.ones((2, 2)), np.ones((3, 3, 3)), [[1, 2, 0], [0, 5, 0], [0, 0, 5]]]
)
def test_inertias_of_wrong_form_are_refused(inertia):
    """3, 6 or 3x3 symmetric numbers, nothing else."""
    with pytest.raises(lj.ModelError, match='inertia of body "d"'):
        builder().add_body("d", mass=1, inertia=inertia)


def test_inertia_needs_mass():
    """An inertia without a mass, or with mass 0, is refused."""
    for options in ({}, {"mass": 0}):
        with pytest.raises(lj.ModelError, match='body "d"'):
            builder().add_body("d", inertia=(1, 1, 1), **options)


def test_inertia_forms_are_one():
    """Diagonal, six numbers and matrix give the same body; a flat body, a + b = c, is fine."""
    build = lj.Builder()
    build.add_body("x", mass=1, inertia=(1, 2, 3))
    build.add_body("y", mass=1, inertia=(1, 2, 3, 0, 0, 0))
    build.add_body("z", mass=1, inertia=np.diag([1, 2, 3]))
    model = build.build()
    for name in "xyz":
        assert (model.body(name).inertia == np.diag([1, 2, 3])).all()
    build = lj.Builder()
    build.add_body("s", mass=1, inertia=(2, 3, 4, 0.1, 0.2, 0.3))
    assert (build.build().body("s").inertia == [[2, 0.1, 0.2], [0.1, 3, 0.3], [0.2, 0.3, 4]]).all()


@pytest.mark.parametrize("place", [1e150, 1e308])
def test_numbers_whose_products_overflow_are_refused_by_body(place):
    """A finite number too large to be squared is refused with the name of the body, whatever uses it later."""
    builder = lj.Builder("far")
    builder.add_body("near", mass=1.0, inertia=(0.0, 0.0, 0.0))
    builder.add_joint_hinge("pin", "world", "near", position_in_child=(place, 0.0, 0.0))
    with pytest.raises(lj.LimberjackError, match='"near".*too large'):
        builder.build()
