"""The start state: joints' start and start_velocity, and bodies' start poses."""

from __future__ import annotations

import numpy as np
import pytest
from tests.naive.models import KINDS, add_body, add_joint, quaternion, random_state
from tests.naive.rotations import matrix

import limberjack as lj


def test_nothing_given_is_the_identity():
    """Without a start every coordinate is 0 and every quaternion (1, 0, 0, 0)."""
    rng = np.random.default_rng(1)
    for kind in KINDS:
        builder = lj.Builder()
        add_body(builder, rng, "a")
        add_joint(builder, rng, kind, "j", "world", "a")
        model = builder.build()
        place = model.joint("j")
        spins = place.nq - place.nv
        wanted = [0.0] * (place.nq - 4 * spins) + [1.0, 0.0, 0.0, 0.0] * spins
        assert model.q0.tolist() == wanted and not model.qd0.any()


def test_joints_start_where_told():
    """start and start_velocity fill the joint's places in q0 and qd0; scalars spread over velocities."""
    builder = lj.Builder()
    for name in "abc":
        builder.add_body(name, mass=1.0, inertia=(1, 1, 1))
    builder.add_joint_planar("p", "world", "a", start=(1, 2, 3), start_velocity=(4, 5, 6))
    builder.add_joint_ball("s", "a", "b", start=(0, 1, 0, 0), start_velocity=0.5)
    axes = [lj.Axis(name="x", start=0.1, start_velocity=0.2), lj.Axis(name="y", axis=(1, 0, 0), start=0.3)]
    builder.add_joint_compound("c", "b", "c", axes)
    model = builder.build()
    assert model.q0.tolist() == [1, 2, 3, 0, 1, 0, 0, 0.1, 0.3]
    assert model.qd0.tolist() == [4, 5, 6, 0.5, 0.5, 0.5, 0.2, 0.0]


def test_free_bodies_start_at_their_pose():
    """position and rotation of a body without a joint, or on a free joint, are its start."""
    turned = [0.5, 0.5, 0.5, 0.5]
    for joint in (False, True):
        builder = lj.Builder()
        builder.add_body("a", mass=1.0, inertia=(1, 1, 1), position=(1, 2, 3), rotation=turned)
        if joint:
            builder.add_joint_free("a", "world", "a", start_velocity=(1, 2, 3, 4, 5, 6))
        model = builder.build()
        assert model.q0.tolist() == [1, 2, 3, *turned]
        assert model.qd0.tolist() == ([1, 2, 3, 4, 5, 6] if joint else [0] * 6)


def test_a_free_joints_start_wins():
    """start= of a free joint stands before the pose of its body."""
    builder = lj.Builder()
    builder.add_body("a", mass=1.0, inertia=(1, 1, 1), position=(1, 2, 3))
    builder.add_joint_free("f", "world", "a", start=(4, 5, 6, 1, 0, 0, 0))
    assert builder.build().q0.tolist() == [4, 5, 6, 1, 0, 0, 0]


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_poses_of_jointed_bodies_give_their_coordinates(kind, backwards):
    """A start pose the joint can take fills q0: the body stands there, for joints in either direction."""
    rng = np.random.default_rng([9, KINDS.index(kind), backwards])
    ends = ("b", "a") if backwards else ("a", "b")

    def build(**pose):
        own = np.random.default_rng(17)
        builder = lj.Builder()
        add_body(builder, own, "a")
        add_body(builder, own, "b", **pose)
        builder.add_joint_hinge("base", "world", "a", axis=(0, 1, 0), start=0.4)
        add_joint(builder, own, kind, "j", *ends)
        return builder.build()

    model = build()
    assert model.body("b").parent == "a"
    q, _ = random_state(rng, model, 0.3)
    q[0] = 0.4
    positions, rotations = lj.forward_kinematics(model, q)
    posed = build(position=positions[1], rotation=rotations[1])
    found_positions, found_rotations = lj.forward_kinematics(posed, posed.q0)
    assert np.abs(found_positions - positions).max() < 1e-9
    assert abs(abs(found_rotations[1] @ rotations[1]) - 1) < 1e-12


def test_a_pose_the_joint_cannot_take_is_refused():
    """The message names the body, the joint and the gap."""
    builder = lj.Builder()
    builder.add_body("arm", mass=1.0, inertia=(1, 1, 1), position=(0.0, 0.0, 0.25))
    builder.add_joint_hinge("pivot", "world", "arm")
    with pytest.raises(lj.ModelError, match='"arm".*off by 0.25.*"pivot"'):
        builder.build()


def test_chains_of_poses():
    """Poses given for several bodies of a chain are reached one after the other."""
    builder = lj.Builder()
    rng = np.random.default_rng(3)
    first, second = quaternion(rng), quaternion(rng)
    builder.add_body("a", mass=1.0, inertia=(1, 1, 1), rotation=first)
    builder.add_body("b", mass=1.0, inertia=(1, 1, 1), position=matrix(first) @ [0, 0, 1.0], rotation=second)
    builder.add_joint_ball("s", "world", "a")
    builder.add_joint_ball("t", "a", "b", position=(0, 0, 1))
    model = builder.build()
    _, rotations = lj.forward_kinematics(model, model.q0)
    assert abs(abs(rotations[0] @ first) - 1) < 1e-14 and abs(abs(rotations[1] @ second) - 1) < 1e-14


def test_starts_are_normalised_or_refused():
    """A start quaternion within 1e-3 of unit length is normalised, another refused."""

    def build(start):
        builder = lj.Builder()
        builder.add_body("a", mass=1.0, inertia=(1, 1, 1))
        builder.add_joint_ball("s", "world", "a", start=start)
        return builder.build().q0

    assert np.linalg.norm(build((1.0005, 0, 0, 0))) == 1.0
    with pytest.raises(lj.ModelError, match='start of joint "s" must be a unit quaternion.*length 1.1'):
        build((1.1, 0, 0, 0))
