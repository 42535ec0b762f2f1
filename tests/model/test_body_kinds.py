"""Bodies that are planar, points, scalable or affine; ball limits; no slip: what they are in a model."""

from __future__ import annotations

import math

import numpy as np
import pytest

import limberjack as lj
from limberjack.model.body_kinds import BODY_KINDS, BodyKind, register_body_kind

SOLID = {"mass": 1.0, "inertia": (1.0, 1.0, 1.0)}


def test_a_planar_body_has_three_dofs():
    """Without a joint it gets a planar joint about z named after it, at its start place."""
    build = lj.Builder()
    build.add_body_planar("disc", mass=2, inertia=0.3, com=(0.1, 0.2), position=(1, 2), angle=-2.5)
    model = build.build()
    joint = model.joint("disc")
    assert (joint.kind, joint.parent, joint.nv, model.nq) == ("planar", "world", 3, 3)
    np.testing.assert_allclose(model.q0, (1, 2, -2.5), rtol=0, atol=1e-15)
    assert model.features() == {}
    info = model.body("disc")
    np.testing.assert_array_equal(info.com, (0.1, 0.2, 0))
    assert info.mass == 2.0 and info.inertia[2, 2] == 0.3
    assert model.spec.bodies[0].body_kind == "planar"


@pytest.mark.parametrize("angle", [0.0, 1.0, -3.0, 3.5, 100.0])
def test_the_angle_of_a_planar_body_is_its_turn(angle):
    """The start pose turns x of the body by the angle about z, whatever number of turns it holds."""
    build = lj.Builder()
    build.add_body_planar("disc", mass=1, inertia=1, angle=angle)
    _, rotations = lj.forward_kinematics(build.build(), build.build().q0)
    w, x, y, z = rotations[0]
    assert x == y == 0.0
    assert math.remainder(2 * math.atan2(z, w) - angle, 2 * math.pi) == pytest.approx(0.0, abs=1e-13)


def test_planar_bodies_move_by_the_laws_of_the_plane():
    """The mass matrix of two pinned planar bodies is that of the plane: mass, mass, and inertia about the normal."""
    build = lj.Builder(gravity=(0, -9.81, 0))
    build.add_body_planar("a", mass=2, inertia=0.3)
    model = build.build()
    np.testing.assert_allclose(lj.mass_matrix(model, model.q0), np.diag([2, 2, 0.3]), atol=1e-15)
    build.add_body_planar("b", mass=1, inertia=0.1, com=(0.5, 0))
    build.add_joint_hinge("pin", "a", "b", position=(1, 0, 0), start=0.4)
    model = build.build()
    assert model.joint_names == ("a", "pin") and model.nv == 4
    # 1/2 m_b |v_a + d/dt (pin + arm)|^2 + ..., written out
    c, s = math.cos(0.4), math.sin(0.4)
    jacobian = np.array([[1, 0, -0.5 * s, -0.5 * s], [0, 1, 1 + 0.5 * c, 0.5 * c], [0, 0, 1, 1]])
    expected = np.diag([2, 2, 0.3, 0.0]) + jacobian.T @ np.diag([1, 1, 0.1]) @ jacobian
    np.testing.assert_allclose(lj.mass_matrix(model, model.q0), expected, atol=1e-14)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("hinge", {"axis": (0, 1, 0)}),
        ("hinge", {"rotation": (math.sqrt(0.5), math.sqrt(0.5), 0, 0)}),
        ("hinge", {"rotation_in_child": (math.sqrt(0.5), math.sqrt(0.5), 0, 0)}),
        ("slide", {"axis": (1, 0, 0.1)}),
        ("planar", {"axis": (1, 0, 0)}),
        ("ball", {}),
        ("universal", {}),
        ("free", {}),
    ],
)
def test_joints_that_leave_the_plane_are_refused(kind, options):
    """A joint that could take a planar body out of its plane is refused by name."""
    build = lj.Builder()
    build.add_body_planar("disc", mass=1, inertia=1)
    build.add_joint(kind, "j", "world", "disc", **options)
    with pytest.raises(lj.ModelError, match='joint "j": body "disc" is planar.*hinges about z'):
        build.build()


def test_joints_in_the_plane_are_taken():
    """Pins, slides along the plane, planar joints, compounds of these, rods and knife edges stay in it."""
    build = lj.Builder()
    for name in "abcdef":
        build.add_body_planar(name, mass=1, inertia=1)
    build.add_joint_hinge("pin", "world", "a", axis=(0, 0, -1))
    build.add_joint_slide("slot", "a", "b", axis=(1, 1, 0))
    build.add_joint_planar("plane", "b", "c")
    axes = [lj.Axis(name="x", kind="slide", axis=(1, 0, 0)), lj.Axis(name="turn")]
    build.add_joint_compound("both", "c", "d", axes)
    build.add_joint_fixed("bolt", "d", "e")
    build.add_joint_distance("rod", "e", "f", length=1)
    build.add_no_slip("edge", "f", direction=(0, 1, 0))
    assert build.build().nv == 1 + 1 + 3 + 2 + 0 + 3


def test_a_particle_has_three_slides():
    """It moves in x, y, z by names of its own, weighs the same each way, and falls like a stone."""
    build = lj.Builder()
    build.add_particle("m", mass=2.5, position=(1, 2, 3))
    build.add_shape_sphere("m", 0.2, collide=False)
    model = build.build()
    assert model.joint("m").kind == "compound" and model.joint("m").axis_names == ("m:x", "m:y", "m:z")
    np.testing.assert_array_equal(model.q0, (1, 2, 3))
    np.testing.assert_allclose(lj.mass_matrix(model, model.q0), 2.5 * np.eye(3), atol=1e-15)
    np.testing.assert_allclose(lj.forward_dynamics(model, model.q0, model.qd0), (0, 0, -9.81), atol=1e-14)
    assert model.features() == {} and not model.body("m").inertia.any()


def test_names_of_a_particles_slides_give_way():
    """Where a joint is called like one of the slides already, the particle's joint takes another name."""
    build = lj.Builder()
    build.add_particle("m", mass=1)
    build.add_body("a", **SOLID)
    build.add_joint_hinge("m:y", "world", "a")
    model = build.build()
    assert model.joint("m:y").kind == "hinge"
    assert model.joint("m:free").axis_names == ("m:free:x", "m:free:y", "m:free:z")


@pytest.mark.parametrize("kind", ["ball", "point_on_line", "point_on_plane"])
def test_ball_joints_tie_particles_as_loops(kind):
    """A joint that leaves a particle to turn stands with the loops, from either side; the particle keeps its slides."""
    for parent, child in (("a", "m"), ("m", "a")):
        build = lj.Builder()
        build.add_particle("m", mass=1, position=(0, 0, 1))
        build.add_body("a", **SOLID, position=(0, 0, 1))
        build.add_joint(kind, "tie", parent, child)
        model = build.build()
        assert model.loop_names == ("tie",) and model.nv == 9
        sim = lj.Simulation(model, ignore=("loops",))
        assert sim.joint_error().metres == 0.0


def test_a_particle_on_a_hinge_is_a_point_mass():
    """A tree joint with an inertia to act on carries a particle: a simple pendulum of length 1."""
    build = lj.Builder()
    build.add_particle("bob", mass=3)
    build.add_joint_hinge("h", "world", "bob", axis=(0, 1, 0), position_in_child=(0, 0, 1), start=math.pi / 2)
    model = build.build()
    assert lj.forward_dynamics(model, model.q0, model.qd0)[0] == pytest.approx(-9.81, rel=1e-14)


def test_scalable_bodies_keep_what_was_said():
    """Scales, their stiffness and rest are in the record; the unscaled body needs no numbers."""
    build = lj.Builder()
    build.add_body_scalable("one", **SOLID, scale=2, scale_stiffness=5)
    build.add_body_scalable("three", **SOLID, per_axis=True, scale=(1, 2, 3), scale_rest=2)
    build.add_body_affine("nine", **SOLID, deformation=2 * np.eye(3), stiffness=7)
    build.add_body_scalable("plain", **SOLID)
    model = build.build()
    one, three, nine, plain = model.spec.bodies
    assert (one.body_kind, one.scale, one.scale_stiffness, one.scale_rest) == ("scalable", (2.0,), 5.0, None)
    assert (three.body_kind, three.scale, three.scale_rest) == ("scalable_axes", (1.0, 2.0, 3.0), (2.0,) * 3)
    assert (nine.body_kind, nine.scale_stiffness) == ("affine", 7.0)
    assert nine.scale == (2.0, 0.0, 0.0, 0.0, 2.0, 0.0, 0.0, 0.0, 2.0)
    assert plain.scale is None and plain.scale_rest is None
    assert model.features() == {"bodies": 'body "one" is scalable'}
    assert {joint.kind for joint in map(model.joint, model.joint_names)} == {"free"}


@pytest.mark.parametrize(
    ("add", "message"),
    [
        (lambda b: b.add_body("x", **SOLID, body_kind="soft"), 'no body kind "soft" in body "x".*affine.*planar'),
        (lambda b: b.add_body("x", **SOLID, scale=(2,)), "rigid: it has no scale"),
        (lambda b: b.add_body("x", **SOLID, scale_stiffness=2), "rigid: it has no scale_stiffness"),
        (lambda b: b.add_body_scalable("x", **SOLID, scale=0), "scale of body .* must be > 0"),
        (lambda b: b.add_body_scalable("x", **SOLID, scale=(1, 2, 3)), "must be 1 numbers"),
        (lambda b: b.add_body_scalable("x", **SOLID, per_axis=True, scale_rest=(1, 2)), "must be 3 numbers"),
        (lambda b: b.add_body_scalable("x", **SOLID, scale_stiffness=-1), "scale_stiffness .* must be >= 0"),
        (lambda b: b.add_body_scalable("x", mass=0, inertia=(0, 0, 0)), "give mass and inertia"),
        (lambda b: b.add_body_scalable("x", mass=1, inertia=(0, 1, 1)), "inertia must be positive"),
        (lambda b: b.add_body_scalable("x", mass=1, inertia=(1, 1, 2), per_axis=True), "extended along all axes"),
        (lambda b: b.add_body_affine("x", mass=1, inertia=(1, 1, 2)), "extended along all axes"),
        (lambda b: b.add_body_affine("x", **SOLID, deformation=-np.eye(3)), "determinant > 0"),
        (lambda b: b.add_body_affine("x", **SOLID, deformation=(1, 2)), "must be 3x3 numbers"),
        (lambda b: b.add_body_planar("x", mass=1, inertia=-1), "inertia of body .* must be >= 0"),
        (lambda b: b.add_body_planar("x", mass=1, inertia=1, com=(1, 2, 3)), "must be 2 numbers"),
        (lambda b: b.add_body_planar("x", mass=1, inertia=1, angle=math.nan), "angle .* must be finite"),
        (lambda b: b.add_body("x", **SOLID, com=(0, 0, 1), body_kind="planar"), "must lie in the x-y plane"),
        (lambda b: b.add_particle("x", mass=0), "mass .* must be > 0"),
        (lambda b: b.add_body("x", **SOLID, body_kind="particle"), "no com, inertia or rotation"),
    ],
)
def test_wrong_bodies_are_refused(add, message):
    """What a kind has not, and numbers it cannot have, are refused, and the builder stays as it was."""
    build = lj.Builder()
    with pytest.raises(lj.ModelError, match=message):
        add(build)
    assert build.build().body_count == 0


def test_a_thin_plate_can_scale_as_a_whole():
    """One scale for all axes asks only for an inertia, not for extension along each axis."""
    build = lj.Builder()
    build.add_body_scalable("plate", mass=1, inertia=(1, 1, 2))
    assert build.build().body_count == 1


def test_body_kinds_can_be_registered(monkeypatch):
    """A registered kind is a kind like the others: bodies of it are features; names and sizes are checked."""
    monkeypatch.setattr("limberjack.model.body_kinds.BODY_KINDS", dict(BODY_KINDS))
    monkeypatch.setattr("limberjack.model.model.BODY_KINDS", dict(BODY_KINDS) | {"jelly": BodyKind("jelly", 8, 2)})
    register_body_kind(BodyKind("jelly", 8, 2))
    build = lj.Builder()
    build.add_body("x", **SOLID, body_kind="jelly", scale=(0.5, -1))
    model = build.build()
    assert model.spec.bodies[0].scale == (0.5, -1.0) and model.features()["bodies"] == 'body "x" is jelly'
    with pytest.raises(lj.ModelError, match='body kind "jelly" exists already'):
        register_body_kind(BodyKind("jelly", 3))
    for bad in (0, 13, 2.0):
        with pytest.raises(lj.ModelError, match="dimension must be 1 to 12"):
            register_body_kind(BodyKind("other", bad))


def test_balls_take_cone_and_twist():
    """Cone and twist stand in the joint's record beside the limit of the whole angle; open ends are None."""
    build = lj.Builder()
    build.add_body("a", **SOLID)
    build.add_joint_ball("j", "world", "a", limits=(0, 2), cone=0.5, twist=(-1, 2))
    build.add_body("b", **SOLID)
    build.add_joint_ball("k", "a", "b", twist=(-math.inf, math.inf))
    model = build.build()
    joint = model.joint_spec("j")
    assert (joint.cone, joint.twist, joint.limits[0]) == (0.5, (-1.0, 2.0), (0.0, 2.0))
    assert model.joint_spec("k").twist is None
    assert model.features() == {"limits": 'joint "j"'}


@pytest.mark.parametrize("value", [0, -1, math.pi, 4, math.nan, "wide", (0, 1)])
def test_wrong_cones_are_refused(value):
    """A cone is an angle between 0 and pi, both excluded."""
    build = lj.Builder()
    build.add_body("a", **SOLID)
    with pytest.raises(lj.ModelError, match='cone of joint "j"'):
        build.add_joint_ball("j", "world", "a", cone=value)


@pytest.mark.parametrize("value", [(1, 0), 1, (0, math.nan), (1, 2, 3)])
def test_wrong_twists_are_refused(value):
    """A twist is a pair with low <= high."""
    build = lj.Builder()
    build.add_body("a", **SOLID)
    with pytest.raises(lj.ModelError, match='twist of joint "j"'):
        build.add_joint_ball("j", "world", "a", twist=value)


@pytest.mark.parametrize("option", [{"cone": 1.0}, {"twist": (0, 1)}])
def test_only_balls_have_cones(option):
    """Other kinds refuse cone and twist by name."""
    build = lj.Builder()
    build.add_body("a", **SOLID)
    with pytest.raises(lj.ModelError, match=f'hinge joint "j" has no {next(iter(option))}'):
        build.add_joint_hinge("j", "world", "a", **option)


def test_no_slip_has_no_coordinates():
    """It stands after the tree joints, holds its point and unit direction, and opens no gap."""
    build = lj.Builder()
    build.add_body("skate", **SOLID)
    build.add_no_slip("edge", "skate", direction=(0, 3, 4), position=(0.1, 0, 0))
    model = build.build()
    info, joint = model.joint("edge"), model.joint_spec("edge")
    assert model.joint_names == ("skate", "edge") and info.is_loop and info.nv == 0 and model.nv == 6
    assert joint.axis == (0.0, 0.6, 0.8) and joint.position_in_child == (0.1, 0.0, 0.0)
    assert model.features() == {"velocity": 'joint "edge"'}
    sim = lj.Simulation(model, ignore=("velocity",))
    assert sim.joint_error() == (0.0, 0.0) and sim.joint("edge").q.size == 0


def test_no_slip_is_against_the_ground():
    """A body to slip on other than the world, a zero direction and an unknown body are refused."""
    build = lj.Builder()
    build.add_body("a", **SOLID)
    build.add_body("b", **SOLID)
    with pytest.raises(lj.ModelError, match='no_slip "e": its parent is the world'):
        build.add_joint_no_slip("e", "a", "b", axis=(1, 0, 0))
    with pytest.raises(lj.ModelError, match='axis of joint "e" must not be zero'):
        build.add_no_slip("e", "a", direction=(0, 0, 0))
    with pytest.raises(lj.UnknownName, match='no body "c"'):
        build.add_no_slip("e", "c", direction=(1, 0, 0))


def test_add_gear_is_the_gear_joint():
    """The short name makes the same record."""
    specs = []
    for word in ("add_gear", "add_joint_gear"):
        build = lj.Builder()
        build.add_body("a", **SOLID)
        build.add_body("b", **SOLID)
        build.add_joint_hinge("h", "world", "a")
        build.add_joint_hinge("k", "a", "b")
        getattr(build, word)("g", "h", "k", ratio=-2, offset=0.5, carrier="a")
        specs.append(build.build().joint_spec("g"))
    assert specs[0] == specs[1] and specs[0].ratio == -2.0
