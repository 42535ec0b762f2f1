"""The humanoid: the counts of the paper, the numbers of the tables, a body that moves as a person's."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import limberjack as lj
from limberjack.scenes import humanoid_data as skeleton
from limberjack.scenes.figures import bodies_of, effective_inertias
from limberjack.scenes.humanoid_data import SEGMENTS
from limberjack.spatial.frames import matrix_from_quaternion, skew

MIRROR = np.diag([1.0, -1.0, 1.0])


@pytest.fixture(scope="module")
def model():
    return lj.scenes.humanoid()


def posed(model, **degrees):
    """Return positions of all bodies with the joints named set, all else in the zero pose."""
    q = np.zeros(model.nq)
    q[3] = 1.0
    for name, angle in degrees.items():
        q[model.joint(name).q] = np.radians(angle)
    positions, _ = lj.forward_kinematics(model, q)
    return dict(zip(model.body_names, positions, strict=True))


def extent(model, q):
    """Return the lowest and highest z of the shapes."""
    positions, rotations = lj.forward_kinematics(model, q)
    low, high = [], []
    for shape in model.shapes:
        if shape.kind == "plane":
            continue
        i = model.body_index(shape.body)
        r = matrix_from_quaternion(rotations[i])
        centre = positions[i] + r @ np.array(shape.position)
        along = (r @ matrix_from_quaternion(np.array(shape.rotation)))[:, 2]
        half = shape.size[0] + (0.5 * shape.size[1] * abs(along[2]) if shape.kind == "capsule" else 0.0)
        low.append(centre[2] - half)
        high.append(centre[2] + half)
    return min(low), max(high)


def test_counts(model):
    """A free base, 87 hinges and one universal joint: 89 bodies, 95 freedoms, all names different."""
    assert (model.body_count, model.joint_count, model.nv, model.nq) == (89, 89, 95, 96)
    assert Counter(joint.kind for joint in model.spec.joints) == {"free": 1, "hinge": 87, "universal": 1}
    assert len(set(model.body_names)) == len(set(model.joint_names)) == 89
    assert len({shape.name for shape in model.shapes}) == len(model.shapes)


def test_table_of_the_docstring_adds_up():
    """The hinges in the docstring's table are the 87 there are."""
    rows = [line.split("|")[1:-1] for line in lj.scenes.humanoid.__doc__.splitlines() if "|" in line]
    numbers = {row[0].strip(): int(row[2]) for row in rows if row[2].strip().isdigit()}
    assert numbers.pop("together") == 87 == sum(numbers.values())


def test_limbs_are_named(model):
    """What a user looks for is there, on both sides."""
    assert {"pelvis", "lumbar_lower", "thorax", "neck", "head"} <= set(model.body_names)
    limbs = (
        "clavicle",
        "upper_arm",
        "forearm",
        "hand",
        "thigh",
        "shank",
        "foot",
        "index_distal",
        "thumb_proximal",
    )
    for side in ("left_", "right_"):
        assert {side + limb for limb in limbs} <= set(model.body_names)
        for digit in ("thumb", "index", "middle", "ring", "little"):
            assert sum(name.startswith(side + digit) for name in model.body_names) == 3
        for toe in ("big_toe", "toe2", "toe3", "toe4", "toe5"):
            assert sum(name.startswith(side + toe) for name in model.body_names) == 2
        assert {side + joint for joint in ("knee", "elbow", "hip_flexion", "ankle")} <= set(model.joint_names)


@pytest.mark.parametrize(("height", "mass"), [(1.75, 75.0), (1.20, 23.0), (2.05, 131.7)])
def test_mass_and_height(height, mass):
    """The figure weighs what was asked for and is as tall, with its feet on the ground."""
    model = lj.scenes.humanoid(height=height, mass=mass)
    assert sum(model.body(name).mass for name in model.body_names) == pytest.approx(mass, rel=1e-12)
    low, high = extent(model, model.q0)
    assert low == pytest.approx(0.0, abs=1e-9)
    assert high == pytest.approx(height, rel=0.02)


def test_segments_are_those_of_the_tables():
    """The bodies of a segment together have its mass, centre of mass and inertia."""
    bodies = bodies_of(1.0, 1.0)
    for name, table in SEGMENTS.items():
        for side, flip in (("", np.eye(3)), ("left_", np.eye(3)), ("right_", MIRROR)):
            own = [lump.body for lump in skeleton.lumps() if lump.segment == side + name]
            if not own:
                continue
            mass = sum(bodies[body][0] for body in own)
            com = sum(bodies[body][0] * bodies[body][1] for body in own) / mass
            inertia = np.zeros((3, 3))
            for body in own:
                m, c, i = bodies[body]
                s = skew(c - com)
                inertia += i + m * s @ s.T
            assert mass == pytest.approx(table.mass, rel=1e-12)
            np.testing.assert_allclose(com, flip @ table.com, atol=1e-12)
            np.testing.assert_allclose(inertia, table.mass * np.diag(np.square(table.gyration)), atol=1e-12)
    assert sum(
        table.mass * (2 if name in skeleton.SIDE_SEGMENTS else 1) for name, table in SEGMENTS.items()
    ) == pytest.approx(1.0, rel=1e-12)


def test_centre_of_mass_is_where_a_persons_is(model):
    """Standing, the centre of mass is at 54 to 59 per cent of the height, between heels and toes."""
    positions, rotations = lj.forward_kinematics(model, model.q0)
    centre = np.zeros(3)
    for name, p, r in zip(model.body_names, positions, rotations, strict=True):
        body = model.body(name)
        centre += body.mass * (p + matrix_from_quaternion(r) @ body.com) / 75.0
    assert 0.54 < centre[2] / 1.75 < 0.59
    assert abs(centre[1]) < 1e-12
    assert -0.04 < centre[0] / 1.75 < 0.08


def test_proportions(model):
    """Lengths of the limbs per height lie where Drillis and Contini have them."""
    at = posed(model)
    height = 1.75
    for upper, lower, share in (
        ("left_upper_arm", "left_forearm", 0.186),
        ("left_forearm", "left_hand", 0.146),
        ("left_thigh", "left_shank", 0.245),
        ("left_shank", "left_talus", 0.246),
    ):
        assert np.linalg.norm(at[upper] - at[lower]) / height == pytest.approx(share, abs=1e-9)
    assert 0.20 < (at["left_shoulder"] - at["right_shoulder"])[1] / height < 0.26
    assert 0.09 < (at["left_hip"] - at["right_hip"])[1] / height < 0.12
    assert at["left_middle_distal"][2] < at["left_thigh"][2] - 0.1


def test_left_and_right_are_mirror_images(model):
    """Masses are equal, centres, inertias and ranges mirrored, for every body of a side."""
    for name in model.body_names:
        if not name.startswith("left_"):
            continue
        left, right = model.body(name), model.body("right_" + name[5:])
        assert left.mass == right.mass
        np.testing.assert_allclose(left.com, MIRROR @ right.com, atol=1e-15)
        np.testing.assert_allclose(left.inertia, MIRROR @ right.inertia @ MIRROR, rtol=1e-9, atol=1e-18)
        a, b = model.joint_spec(left.joint), model.joint_spec(right.joint)
        assert a.limits == b.limits and a.start == b.start
        np.testing.assert_allclose(a.limit_stiffness, b.limit_stiffness, rtol=0.5)


def test_same_angle_is_same_motion_on_both_sides(model):
    """Angles exchanged between the sides, and those of the trunk turned over, give the mirrored pose."""
    rng = np.random.default_rng(3)
    one, other = {}, {}
    for name in model.joint_names[1:]:
        if name.startswith("left_"):
            one[name], one["right_" + name[5:]] = rng.uniform(-30, 30, 2)
            other[name], other["right_" + name[5:]] = one["right_" + name[5:]], one[name]
    for name in ("lumbar_bend", "lumbar_twist", "thoracic_twist", "head_turn"):
        one[name] = rng.uniform(-20, 20)
        other[name] = -one[name]
    here, there = posed(model, **one), posed(model, **other)
    for name, place in here.items():
        twin = "right_" + name[5:] if name.startswith("left_") else name.replace("right_", "left_")
        np.testing.assert_allclose(place, MIRROR @ there[twin], atol=1e-12)


@pytest.mark.parametrize(
    ("joint", "body", "direction"),
    [
        ("lumbar_flexion", "head", (1, 0, 0)),
        ("thoracic_flexion", "head", (1, 0, 0)),
        ("left_clavicle_elevation", "left_shoulder", (0, 0, 1)),
        ("left_clavicle_protraction", "left_shoulder", (1, 0, 0)),
        ("left_shoulder_flexion", "left_forearm", (1, 0, 0)),
        ("left_shoulder_abduction", "left_forearm", (0, 1, 0)),
        ("left_elbow", "left_hand", (1, 0, 0)),
        ("left_pronation", "left_thumb_distal", (0, -1, 0)),
        ("left_wrist_flexion", "left_middle_distal", (0, -1, 0)),
        ("left_wrist_deviation", "left_middle_distal", (1, 0, 0)),
        ("left_index_mcp", "left_index_distal", (0, -1, 0)),
        ("left_thumb_cmc", "left_thumb_distal", (0, -1, 0)),
        ("left_hip_flexion", "left_shank", (1, 0, 0)),
        ("left_hip_abduction", "left_shank", (0, 1, 0)),
        ("left_hip_rotation", "left_big_toe_distal", (0, -1, 0)),
        ("left_knee", "left_talus", (-1, 0, 0)),
        ("left_ankle", "left_big_toe_distal", (0, 0, 1)),
        ("left_subtalar", "left_big_toe_distal", (0, -1, 0)),
        ("left_big_toe_mtp", "left_big_toe_distal", (0, 0, -1)),
    ],
)
def test_positive_angles_are_the_motions_named(model, joint, body, direction):
    """Ten degrees of each motion take its end the anatomical way, mostly along the direction told."""
    moved = posed(model, **{joint: 10.0})[body] - posed(model)[body]
    assert moved @ np.array(direction) > 0.5 * np.linalg.norm(moved) > 1e-4


def test_start_is_inside_all_limits(model):
    """Standing at ease, every joint is strictly within its range; all but the base have one."""
    limited = 0
    for joint in model.spec.joints[1:]:
        info = model.joint(joint.name)
        for angle, (low, high) in zip(model.q0[info.q], joint.limits, strict=True):
            assert low < angle < high, joint.name
            assert -np.pi < low and high < np.pi
            limited += 1
    assert limited == 89


def test_kinds_of_limits(model):
    """Soft limits are springs, hard ones a feature a method must honour, None leaves them out."""
    assert model.features() == {}
    assert (model.arrays.drives.scalar[:, 5] > 0).all() and len(model.arrays.drives.scalar) == 89
    hard = lj.scenes.humanoid(limits="hard")
    assert set(hard.features()) == {"limits"}
    assert np.isfinite(hard.arrays.limits[6:]).all()
    free = lj.scenes.humanoid(limits=None)
    assert not np.isfinite(free.arrays.limits).any()
    assert all(joint.limits is None for joint in free.spec.joints)


def test_contacts_switch_the_shapes(model):
    """With contacts figure and ground can touch, without them nothing can; every body can be seen."""
    assert not any(shape.collide for shape in model.shapes)
    solid = lj.scenes.humanoid(contacts=True)
    assert all(shape.collide for shape in solid.shapes)
    assert set(solid.features()) == {"contacts"}
    assert {shape.body for shape in model.shapes} == {"world", *model.body_names}
    assert all(shape.color for shape in model.shapes)


def test_the_figure_that_is_shown_stays_on_the_ground():
    """Whoever looks on for seconds sees the figure lie on the ground, in every method that knows contacts."""
    for method in (None, lj.Adaptive(budget=10), lj.Displacements()):
        scene = lj.scenes.get_shown("humanoid", method)
        sim = lj.Simulation(scene.model, scene.method if method is None else method, scene.dt)
        sim.step(3000)
        assert sim.positions[:, 2].min() > -0.01 and sim.positions[:, 2].max() < 1.5 and sim.contacts()
    assert not lj.scenes.get_shown("humanoid", lj.DivideAndConquer()).model.features()
    assert not lj.scenes.get_shown("humanoid", contacts=False).model.features()


def test_no_body_is_massless_or_needle_thin(model):
    """Bodies between axes of a joint have a real share: well-shaped inertias, a well-scaled mass matrix."""
    for name in model.body_names:
        body = model.body(name)
        small, _, large = np.linalg.eigvalsh(body.inertia)
        assert body.mass > 1e-5 * 75.0
        assert small > 0.02 * large > 0.0
    matrix = lj.mass_matrix(model, model.q0)
    scale = 1.0 / np.sqrt(np.diag(matrix))
    assert np.linalg.cond(matrix * np.outer(scale, scale)) < 1e4


def test_felt_inertias_against_the_mass_matrix(model):
    """The inertia a joint feels is that of the mass matrix in the zero pose, or less in another."""
    felt = effective_inertias(skeleton.bones(), bodies_of(1.75, 75.0), 1.75)
    q = np.zeros(96)
    q[3] = 1.0
    loose = 1.0 / np.diag(np.linalg.inv(lj.mass_matrix(model, q)))
    for name, least in felt.items():
        zero = loose[model.joint(model.body(name).joint).v]
        assert (least <= zero * (1 + 1e-9)).all() and (least > 0.02 * zero).all(), name


def test_limits_suit_explicit_steps_of_a_millisecond(model):
    """With all joints at their limits, no mode is stiffer or more damped than an explicit step can bear."""
    indices, rows = model.arrays.drives.indices, model.arrays.drives.scalar
    stiffness, damping = np.zeros(model.nv), np.zeros(model.nv)
    stiffness[indices[:, 1]], damping[indices[:, 1]] = rows[:, 5], rows[:, 0] + rows[:, 6]
    rng = np.random.default_rng(5)
    for k in range(20):
        share = rng.uniform(size=len(rows)) if k % 2 else rng.integers(0, 2, len(rows))
        q = model.q0.copy()
        q[indices[:, 0]] = rows[:, 3] + share * (rows[:, 4] - rows[:, 3])
        inverse = np.linalg.inv(lj.mass_matrix(model, q))
        for gains, bound in ((stiffness, 400.0**2), (damping, 900.0)):
            root = np.sqrt(gains)
            assert np.linalg.eigvalsh(inverse * np.outer(root, root))[-1] < bound


def test_falls_freely_as_one(model):
    """At rest in the air the figure falls with g and no joint moves: gravity alone bends nothing."""
    qdd = lj.forward_dynamics(model, model.q0, np.zeros(model.nv))
    np.testing.assert_allclose(qdd[:6], (0, 0, -9.81, 0, 0, 0), atol=1e-9)
    np.testing.assert_allclose(qdd[6:], 0.0, atol=1e-7)


def test_marionette_strings_carry_the_weight():
    """Stretched by the length asked for, the strings together carry the figure's weight."""
    model = lj.scenes.marionette(stretch=0.2)
    assert len(model.springs) == 5
    assert sum(0.2 * spring.stiffness for spring in model.springs) == pytest.approx(75.0 * 9.81, rel=1e-12)
    assert all(spring.a == "world" and spring.at_a[2] > 1.75 for spring in model.springs)


def test_scene_chooses_a_method_that_can():
    """The method of the scene follows what the figure has."""
    method = {
        key: lj.scenes.get("humanoid", **options).method
        for key, options in {
            "plain": {},
            "contacts": {"contacts": True},
            "hard": {"limits": "hard"},
        }.items()
    }
    assert method == {"plain": "full", "contacts": "full", "hard": "multipliers"}
