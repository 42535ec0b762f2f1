"""One mechanism described in several ways moves in one way: reversed joints, merged bodies, other joint kinds."""

from __future__ import annotations

import numpy as np
import pytest
from tests.naive.models import KINDS, add_body, add_joint, inertia, quaternion, random_model, random_state
from tests.naive.rotations import conjugate, matrix

import limberjack as lj


def floating_chain(rng, kinds, base):
    """Return a chain of bodies a0 - a1 - ... whose free joint stands on body `base`; all else comes from `rng`."""
    builder = lj.Builder(gravity=(1.0, 2.0, -9.0))
    for k in range(len(kinds) + 1):
        add_body(builder, rng, f"a{k}")
    for k, kind in enumerate(kinds):
        add_joint(builder, rng, kind, f"j{k}", f"a{k}", f"a{k + 1}")
    builder.add_joint_free("free", "world", f"a{base}")
    return builder.build()


def on_base(sim, model):
    """Return (q, qd) of `model` for the state of `sim`: same joints, the base read off its body."""
    q, qd = model.q0.copy(), model.qd0.copy()
    for name in model.joint_names:
        if name != "free":
            to, at = model.joint(name), sim.model.joint(name)
            q[to.q], qd[to.v] = sim.q[at.q], sim.qd[at.v]
    body = model.joint("free").child
    i = sim.model.body_index(body)
    w, v = np.split(sim.velocities[i], 2)
    r = matrix(sim.rotations[i])
    place = model.joint("free")
    q[place.q] = np.r_[sim.positions[i], sim.rotations[i]]
    qd[place.v] = np.r_[v - np.cross(w, r @ model.body(body).com), r.T @ w]
    return q, qd


def joints_of(model, vector):
    """Return the entries of `vector` by joint, without the base."""
    return np.concatenate([vector[model.joint(name).v] for name in sorted(model.joint_names) if name != "free"])


@pytest.mark.parametrize("kinds", [*((kind,) for kind in KINDS), ("ball", "screw", "compound", "universal", "planar")])
def test_the_choice_of_base_changes_nothing(kinds):
    """A floating chain based at its first or its last body, all joints then reversed, accelerates and moves alike."""
    forward = floating_chain(np.random.default_rng(11), kinds, 0)
    backward = floating_chain(np.random.default_rng(11), kinds, len(kinds))
    assert [forward.joint(f"j{k}").child for k in range(len(kinds))] == [f"a{k + 1}" for k in range(len(kinds))]
    assert backward.body(f"a{0}").parent == "a1" and forward.body("a1").parent == "a0"
    rng = np.random.default_rng(12)
    q, qd = random_state(rng, forward)
    one = lj.Simulation(forward, lj.Full(integrator="rk4"), q=q, qd=qd)
    two = lj.Simulation(backward, lj.Full(integrator="rk4"))
    two.q, two.qd = on_base(one, backward)
    found = joints_of(backward, lj.forward_dynamics(backward, two.q, two.qd))
    wanted = joints_of(forward, lj.forward_dynamics(forward, one.q, one.qd))
    assert np.abs(found - wanted).max(initial=0.0) < 1e-9 * (1 + np.abs(wanted).max(initial=0.0))
    assert two.energy().total == pytest.approx(one.energy().total, rel=1e-11)
    assert np.allclose(two.momentum().angular, one.momentum().angular, rtol=1e-10, atol=1e-11)
    for sim in (one, two):
        sim.step(100)
    for name in forward.body_names:
        assert np.allclose(one.body(name).position, two.body(name).position, atol=1e-8)


def swapped_pair(rng, kind, swapped):
    """Return a hanging body with a second one on a joint, whose two bodies are named the other way round if asked."""
    builder = lj.Builder()
    for name in "ab":
        add_body(builder, rng, name)
    builder.add_joint_hinge("base", "world", "a", axis=(1, 2, 3), position=(0.1, 0.2, 0.3))
    at_a = {"position": rng.normal(size=3), "rotation": quaternion(rng)}
    at_b = {"position": rng.normal(size=3), "rotation": quaternion(rng)}
    outer, inner = (at_b, at_a) if swapped else (at_a, at_b)
    options = {"axis": rng.normal(size=3), "damping": 0.3, "armature": 0.1, "stiffness": 2.0}
    if kind == "screw":
        options["pitch"] = 0.2
    builder.add_joint(
        kind, "j", *("ba" if swapped else "ab"), position=outer["position"], rotation=outer["rotation"],
        position_in_child=inner["position"], rotation_in_child=inner["rotation"], **options,
    )  # fmt: skip
    return builder.build()


@pytest.mark.parametrize("kind", ["hinge", "slide", "screw", "cylindrical"])
def test_swapped_bodies_negate_the_coordinate(kind):
    """Parent and child swapped on a joint with axes: q, qd, tau and qdd change sign, the motion stays."""
    plain, swapped = (swapped_pair(np.random.default_rng(5), kind, s) for s in (False, True))
    assert swapped.body("b").parent == "a" and swapped.joint("j").child == "a"
    rng = np.random.default_rng(6)
    q, qd = random_state(rng, plain)
    tau = rng.normal(size=plain.nv)
    sign = np.r_[1.0, -np.ones(plain.nv - 1)]
    found = lj.forward_dynamics(swapped, sign * q, sign * qd, sign * tau)
    assert np.allclose(sign * found, lj.forward_dynamics(plain, q, qd, tau), rtol=1e-11, atol=1e-11)
    assert np.allclose(lj.forward_kinematics(swapped, sign * q)[0], lj.forward_kinematics(plain, q)[0], atol=1e-13)


def test_a_swapped_ball_turns_back():
    """Parent and child swapped on a ball: the quaternion is the conjugate, the velocity that of the other body."""
    plain, swapped = (swapped_pair(np.random.default_rng(8), "ball", s) for s in (False, True))
    rng = np.random.default_rng(9)
    q, qd = random_state(rng, plain)
    r = matrix(q[1:])
    other_q, other_qd = np.r_[q[0], conjugate(q[1:])], np.r_[qd[0], -r @ qd[1:]]
    wanted, found = lj.forward_dynamics(plain, q, qd), lj.forward_dynamics(swapped, other_q, other_qd)
    # w' = -R w, so its derivative is -R (wd + w x w) = -R wd
    assert np.allclose(found, np.r_[wanted[0], -r @ wanted[1:]], rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("seed", range(4))
def test_merging_fixed_joints_changes_nothing(seed):
    """Bodies on fixed joints, merged or as joints without dofs, give one M, one qdd, one set of poses."""
    kinds = ("fixed", "hinge", "fixed", "ball", "fixed", "compound")
    pair = [
        random_model(np.random.default_rng([4, seed]), bodies=9, kinds=kinds, merge_fixed=flag)
        for flag in (True, False)
    ]
    merged, unmerged = pair
    assert len(merged.arrays.links.parent) < len(unmerged.arrays.links.parent) == merged.body_count
    assert (merged.nq, merged.nv, merged.body_names) == (unmerged.nq, unmerged.nv, unmerged.body_names)
    rng = np.random.default_rng(seed)
    q, qd = random_state(rng, merged)
    tau, wrenches = rng.normal(size=merged.nv), rng.normal(size=(merged.body_count, 6))
    for function, arguments in (
        (lj.forward_dynamics, (q, qd, tau, wrenches)),
        (lj.inverse_dynamics, (q, qd, tau, wrenches)),
        (lj.mass_matrix, (q,)),
    ):
        a, b = (function(model, *arguments) for model in pair)
        assert np.abs(a - b).max() < 1e-10 * np.abs(a).max()
    for a, b in zip(*(lj.forward_kinematics(model, q) for model in pair), strict=True):
        assert np.abs(a - b).max() < 1e-12 * (1 + np.abs(a).max())


def test_a_compound_is_its_parts(rng):
    """Hinges and slides on massless carriers are the compound joint that has them as axes."""
    mass, com, moment = 2.0, (0.1, -0.2, 0.3), inertia(rng, 2.0)
    ways = [(kind, rng.normal(size=3), rng.normal(size=3)) for kind in ("hinge", "slide", "hinge", "hinge")]
    whole = lj.Builder()
    whole.add_body("end", mass=mass, com=com, inertia=moment)
    axes = [lj.Axis(name=f"x{k}", kind=kind, axis=tuple(a), position=tuple(p)) for k, (kind, a, p) in enumerate(ways)]
    whole.add_joint_compound("c", "world", "end", axes)
    parts = lj.Builder()
    above = "world"
    for k, (kind, axis, point) in enumerate(ways):
        last = k == len(ways) - 1
        name = parts.add_body("end", mass=mass, com=com, inertia=moment) if last else parts.add_body(f"carrier{k}")
        parts.add_joint(kind, f"x{k}", above, name, axis=axis, position=point, position_in_child=point)
        above = name
    whole, parts = whole.build(), parts.build()
    q, qd = random_state(rng, whole)
    tau = rng.normal(size=4)
    a, b = lj.forward_dynamics(whole, q, qd, tau), lj.forward_dynamics(parts, q, qd, tau)
    assert np.abs(a - b).max() < 1e-10 * np.abs(a).max()


def test_a_point_on_a_plane_is_two_slides_and_a_ball(rng):
    """point_on_plane and two slides with a ball on massless carriers give the same accelerations."""
    mass, com, moment = 1.5, (0.3, 0.1, 0.2), inertia(rng, 1.5)
    one, many = lj.Builder(), lj.Builder()
    one.add_body("end", mass=mass, com=com, inertia=moment)
    one.add_joint_point_on_plane("p", "world", "end")
    for name in ("x", "y"):
        many.add_body(name)
    many.add_body("end", mass=mass, com=com, inertia=moment)
    many.add_joint_slide("sx", "world", "x", axis=(1, 0, 0))
    many.add_joint_slide("sy", "x", "y", axis=(0, 1, 0))
    many.add_joint_ball("b", "y", "end")
    one, many = one.build(), many.build()
    q, qd = random_state(rng, one)
    a, b = lj.forward_dynamics(one, q, qd), lj.forward_dynamics(many, q, qd)
    assert np.abs(a - b).max() < 1e-10 * np.abs(a).max()


def test_moving_the_world_moves_all(rng):
    """A model set elsewhere, turned, with gravity turned alike, has the same joint accelerations."""
    rotation, shift = quaternion(rng), rng.normal(size=3)
    models = []
    for turned in (False, True):
        own = np.random.default_rng(3)
        gravity = np.array([0.5, 1.0, -9.0])
        builder = lj.Builder(gravity=matrix(rotation) @ gravity if turned else gravity)
        for name in "abc":
            add_body(builder, own, name)
        place = {"position": shift, "rotation": rotation} if turned else {}
        builder.add_joint_hinge("h", "world", "a", axis=(1, 1, 1), **place)
        add_joint(builder, own, "ball", "s", "a", "b")
        add_joint(builder, own, "planar", "p", "b", "c")
        models.append(builder.build())
    q, qd = random_state(rng, models[0])
    a, b = (lj.forward_dynamics(model, q, qd) for model in models)
    assert np.abs(a - b).max() < 1e-11 * np.abs(a).max()
