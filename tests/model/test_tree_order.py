"""The spanning tree: order, bases, directions and loops. The order decides the places in q, so it is contract."""

from __future__ import annotations

import numpy as np
import pytest
from tests.naive.models import FREEDOMS, random_model

import limberjack as lj


def bodies(builder, names):
    """Add unit bodies."""
    for name in names:
        builder.add_body(name, mass=1.0, inertia=(0.1, 0.1, 0.1))
    return builder


def parents(model):
    """Return {body: (parent, joint)} of the tree."""
    return {name: (model.body(name).parent, model.body(name).joint) for name in model.body_names}


def test_bodies_are_numbered_depth_first():
    """Children stand right after their parent, in creation order, whatever order the joints came in."""
    builder = bodies(lj.Builder(), "abcdef")
    for parent, child in (("a", "e"), ("world", "a"), ("b", "c"), ("a", "b"), ("b", "d"), ("e", "f")):
        builder.add_joint_hinge(f"{parent}{child}", parent, child)
    model = builder.build()
    assert model.body_names == ("a", "b", "c", "d", "e", "f")
    assert model.joint_names == ("worlda", "ab", "bc", "bd", "ae", "ef")
    assert [model.joint(name).q_start for name in model.joint_names] == [0, 1, 2, 3, 4, 5]


def depth_first(model):
    """Return body names depth first, children in creation order: the rule, by recursion."""
    place = {body.name: i for i, body in enumerate(model.spec.bodies)}
    below = {name: [] for name in ("world", *model.body_names)}
    for name in model.body_names:
        below[model.body(name).parent].append(name)
    out = []

    def visit(name):
        for child in sorted(below[name], key=place.__getitem__):
            out.append(child)
            visit(child)

    visit("world")
    return tuple(out)


@pytest.mark.parametrize("seed", range(10))
def test_random_forests_keep_the_order(seed):
    """Order, places in q and qd, parents and names agree with the rule on any forest."""
    rng = np.random.default_rng([6, seed])
    model = random_model(rng, bodies=20, bases=3)
    assert model.body_names == depth_first(model)
    assert len(model.joint_names) == model.body_count == model.joint_count
    q = v = 0
    for name in model.body_names:
        joint = model.joint(model.body(name).joint)
        assert (joint.q_start, joint.v_start) == (q, v)
        count = len(joint.axis_names) if joint.kind == "compound" else FREEDOMS[joint.kind]
        assert joint.nv == count and joint.nq == count + (joint.kind in ("ball", "free") or "point" in joint.kind)
        q, v = q + joint.nq, v + joint.nv
        assert {name, model.body(name).parent} == {joint.parent, joint.child}
    assert (model.nq, model.nv) == (q, v) == (len(model.q0), len(model.qd0))


def test_a_body_without_a_joint_floats():
    """It gets a free joint named after it, from the world."""
    model = bodies(lj.Builder(), "ab").build()
    assert model.joint_names == ("a", "b")
    assert [model.joint(name).kind for name in "ab"] == ["free", "free"]
    assert (
        model.joint("b").parent == "world" and model.joint("b").q == slice(7, 14) and model.joint("b").v == slice(6, 12)
    )


def test_a_taken_name_is_not_taken_twice():
    """Where the body's name is a joint's already, its free joint gets another name."""
    builder = bodies(lj.Builder(), "ab")
    builder.add_joint_hinge("a", "a", "b")
    model = builder.build()
    assert model.joint("a").kind == "hinge"
    assert len(set(model.joint_names)) == 2 and model.joint(model.body("a").joint).kind == "free"


def test_a_floating_tree_hangs_on_its_root():
    """A tree not tied to the world floats by the body that is nobody's child, even if that was made last."""
    builder = bodies(lj.Builder(), "abc")
    builder.add_joint_hinge("cb", "c", "b")
    builder.add_joint_hinge("ba", "b", "a")
    model = builder.build()
    assert model.body_names == ("c", "b", "a")
    assert model.joint(model.body("c").joint).kind == "free" and model.joint("c").child == "c"


def test_a_second_parent_reverses_the_joint():
    """A joint to a body that has a parent already hangs its own parent below: the direction inside is reversed."""
    builder = bodies(lj.Builder(), "abc")
    builder.add_joint_hinge("ab", "a", "b")
    builder.add_joint_hinge("cb", "c", "b")
    model = builder.build()
    assert parents(model) == {"a": ("world", "a"), "b": ("a", "ab"), "c": ("b", "cb")}
    assert (model.joint("cb").parent, model.joint("cb").child) == ("c", "b")
    assert model.loop_names == ()


def test_the_world_joint_may_come_last_and_anywhere():
    """A joint from the world to the middle of a tree reverses what stood above that body."""
    builder = bodies(lj.Builder(), "abc")
    builder.add_joint_hinge("ab", "a", "b")
    builder.add_joint_slide("bc", "b", "c")
    builder.add_joint_ball("root", "world", "b")
    model = builder.build()
    assert parents(model) == {"b": ("world", "root"), "a": ("b", "ab"), "c": ("b", "bc")}
    assert model.body_names == ("b", "a", "c")


def test_first_come_stays_and_later_joints_close_loops():
    """A joint between bodies already connected is a loop joint: last in joint_names, without entries in q."""
    builder = bodies(lj.Builder(), "abc")
    builder.add_joint_hinge("wa", "world", "a")
    builder.add_joint_hinge("ab", "a", "b")
    builder.add_joint_ball("loop", "b", "a")
    builder.add_joint_hinge("bc", "b", "c")
    builder.add_joint_hinge("ground", "world", "c")
    model = builder.build()
    assert model.joint_names == ("wa", "ab", "bc", "loop", "ground")
    assert model.loop_names == ("loop", "ground") and (model.nq, model.nv) == (3, 3)
    info = model.joint("loop")
    assert info.is_loop and (info.nq, info.nv, info.kind) == (0, 0, "ball") and not model.joint("bc").is_loop
    assert model.joint_count == 5 and model.body_count == 3


def test_distances_and_gears_never_carry_the_tree():
    """They stand among the loop joints even where they are all that ties two bodies."""
    builder = bodies(lj.Builder(), "ab")
    builder.add_joint_distance("rod", "a", "b", length=1.0)
    builder.add_joint_hinge("h", "world", "a")
    builder.add_joint_hinge("k", "world", "b")
    builder.add_joint_gear("gear", "h", "k", ratio=2.0)
    model = builder.build()
    assert model.joint_names == ("h", "k", "rod", "gear") and model.loop_names == ("rod", "gear")


def test_several_bases_stand_one_after_the_other():
    """Trees follow each other in the order of their base bodies' creation."""
    builder = bodies(lj.Builder(), "abcd")
    builder.add_joint_hinge("d", "world", "d")
    builder.add_joint_hinge("ca", "c", "a")
    builder.add_joint_hinge("b", "world", "b")
    assert builder.build().body_names == ("b", "c", "a", "d")


def test_a_free_joint_of_a_grounded_body_is_refused():
    """A body tied to the world cannot float: the message names the joint and the body."""
    builder = bodies(lj.Builder(), "ab")
    builder.add_joint_hinge("h", "world", "a")
    builder.add_joint_hinge("ab", "a", "b")
    builder.add_joint_free("f", "world", "b")
    with pytest.raises(lj.ModelError, match='"f".*"b" is connected to the world already'):
        builder.build()


def test_names_of_dofs():
    """dof_name gives the joint, or the axis of a compound joint, that a dof belongs to; fixed joints have none."""
    builder = bodies(lj.Builder(), "abcd")
    builder.add_joint_ball("ball", "world", "a")
    builder.add_joint_fixed("weld", "a", "b")
    builder.add_joint_compound("pair", "b", "c", [lj.Axis(name="x"), lj.Axis(name="y", axis=(0, 1, 0))])
    builder.add_joint_hinge("h", "c", "d")
    model = builder.build()
    assert [model.dof_name(v) for v in range(model.nv)] == ["ball"] * 3 + ["x", "y", "h"]


@pytest.mark.parametrize("count", [2_000, pytest.param(100_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("shape", ["chain", "star", "free"])
def test_large_models_build(count, shape):
    """A chain, a star and a heap of very many bodies build: nothing recurses over the tree."""
    builder = lj.Builder()
    for k in range(count):
        builder.add_body(f"b{k}", mass=1.0, inertia=(0.1, 0.1, 0.1))
        if shape != "free":
            above = "world" if k == 0 else f"b{k - 1}" if shape == "chain" else "b0"
            builder.add_joint_hinge(f"j{k}", above, f"b{k}", position=(0.1, 0, 0), axis=(0, 1, 0))
    model = builder.build()
    assert model.body_count == count and model.nv == count * (6 if shape == "free" else 1)
    assert model.body_names == tuple(f"b{k}" for k in range(count))
    qdd = lj.forward_dynamics(model, model.q0, model.qd0)
    assert np.isfinite(qdd).all()
    if shape == "free":
        assert np.abs(qdd.reshape(-1, 6) - [0, 0, -9.81, 0, 0, 0]).max() < 1e-12


def test_a_chain_made_from_its_end_builds():
    """Two thousand joints, each reversed, build as well: the walk follows them without recursion."""
    builder = lj.Builder()
    count = 2_000
    for k in range(count):
        builder.add_body(f"b{k}", mass=1.0, inertia=(0.1, 0.1, 0.1))
        if k:
            builder.add_joint_hinge(f"j{k}", f"b{k}", f"b{k - 1}")
    builder.add_joint_hinge("root", "world", "b0")
    model = builder.build()
    assert model.body(f"b{count - 1}").parent == f"b{count - 2}" and model.loop_names == ()
