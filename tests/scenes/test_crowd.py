"""The crowd: the humanoid many times over, each under its own names and in its own pose."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import limberjack as lj
from limberjack.model.model import Model
from limberjack.model.spec import Spec
from limberjack.scenes.crowds import Push, graft


@pytest.fixture(scope="module")
def crowd():
    return lj.scenes.crowd(figures=3)


def test_counts(crowd):
    """n figures have n times the bodies, joints and freedoms of one; no name appears twice."""
    assert (crowd.body_count, crowd.joint_count, crowd.nv, crowd.nq) == (3 * 89, 3 * 89, 3 * 95, 3 * 96)
    kinds = Counter(joint.kind for joint in crowd.spec.joints)
    assert kinds == {"free": 3, "hinge": 3 * 87, "universal": 3}
    assert len(set(crowd.body_names)) == crowd.body_count
    assert len(set(crowd.joint_names)) == crowd.joint_count
    assert len({shape.name for shape in crowd.shapes}) == len(crowd.shapes)
    assert {"f000/pelvis", "f001/left_hand", "f002/head"} <= set(crowd.body_names)
    assert sum(crowd.body(name).mass for name in crowd.body_names) == pytest.approx(225.0, rel=1e-12)


def test_alike_figures_are_the_humanoid():
    """Without variation each figure is the humanoid, moved to its place."""
    one, many = lj.scenes.humanoid(), lj.scenes.crowd(figures=4, vary=0.0, spacing=3.0)
    roots = []
    for i in range(4):
        q = many.q0[96 * i : 96 * (i + 1)]
        np.testing.assert_array_equal(q[2:], one.q0[2:])
        roots.append(q[:2])
    np.testing.assert_allclose(roots, [(-1.5, -1.5), (-1.5, 1.5), (1.5, -1.5), (1.5, 1.5)])
    np.testing.assert_array_equal(many.arrays.body_inertia[:89], one.arrays.body_inertia)
    np.testing.assert_array_equal(many.arrays.body_inertia[-89:], one.arrays.body_inertia)


def test_poses_differ_inside_the_limits(crowd):
    """Figures stand differently, all within their limits, upright, and the same again for the same seed."""
    for joint in crowd.spec.joints:
        if joint.kind != "free":
            for angle, (low, high) in zip(crowd.q0[crowd.joint(joint.name).q], joint.limits, strict=True):
                assert low < angle < high, joint.name
    a, b = crowd.q0[7:96], crowd.q0[96 + 7 : 2 * 96]
    assert (a != b).all()
    np.testing.assert_array_equal(lj.scenes.crowd(figures=3).q0, crowd.q0)
    assert (lj.scenes.crowd(figures=3, seed=1).q0 != crowd.q0).any()


def test_contacts_keep_the_feet_down():
    """With contacts the legs stay straight, and each figure collides with the others but not with itself."""
    model = lj.scenes.crowd(figures=2, contacts=True)
    positions, _ = lj.forward_kinematics(model, model.q0)
    soles = [positions[model.body_index(f"f00{i}/{side}_talus")][2] for i in range(2) for side in ("left", "right")]
    np.testing.assert_allclose(soles, 0.039 * 1.75, atol=1e-12)
    groups = {shape.name.split("/")[0]: shape.group for shape in model.shapes if shape.body != "world"}
    assert groups == {"f000": 1, "f001": 2}
    assert sum(shape.kind == "plane" for shape in model.shapes) == 1
    assert set(model.features()) == {"contacts"}


def test_limits_may_be_left_out():
    """Without limits the figures still vary a little."""
    model = lj.scenes.crowd(figures=2, limits=None)
    away = np.abs(model.q0[7:96] - lj.scenes.humanoid().q0[7:])
    assert 0.1 < away.max() <= 0.3


def test_graft_renames_every_kind_of_record():
    """Two copies of a spec with joints, axes, gears, loops, springs, points and exclusions make one model."""
    b = lj.Builder("part")
    for name in ("base", "arm", "tip", "wheel"):
        b.add_body(name, mass=1.0, inertia=(0.1, 0.1, 0.1))
    b.add_joint_compound("stand", "world", "base", [lj.Axis(name="lift", kind="slide"), lj.Axis(name="yaw")])
    b.add_joint_hinge("elbow", "base", "arm")
    b.add_joint_hinge("wrist", "arm", "tip", position=(0.0, 0.0, 1.0))
    b.add_joint_hinge("axle", "base", "wheel")
    b.add_joint_gear("gear", "elbow", "axle", ratio=2.0, carrier="base")
    b.add_joint_gear("sync", "yaw", "wrist")
    b.add_joint_distance("rod", "base", "tip", length=1.0)
    b.add_spring("world", "tip", stiffness=1.0, name="tie")
    b.add_point("grip", "tip", (0.0, 0.0, 0.1))
    b.add_shape_sphere("arm", 0.1)
    b.add_shape_plane("world")
    b.exclude_collision("base", "tip")
    spec = b.build().spec
    both = Spec("both", spec.gravity)
    graft(both, spec, "a/")
    graft(both, spec, "b/")
    model = Model(both)
    assert model.body_count == 8 and model.nv == 2 * 5
    assert model.loop_names == tuple(p + n for p in ("a/", "b/") for n in ("gear", "sync", "rod"))
    assert model.joint("b/yaw").kind == "hinge"
    assert [(s.a, s.b) for s in model.springs] == [("world", "a/tip"), ("world", "b/tip")]
    assert [point.body for point in model.points] == ["a/tip", "b/tip"]
    assert both.excluded == [("a/base", "a/tip"), ("b/base", "b/tip")]
    assert [shape.body for shape in model.shapes] == ["a/arm", "b/arm"]
    assert model.joint_spec("b/gear").carrier == "b/base"


def test_push_begins_and_ends():
    """The drive pushes every figure once from the start, lets go once, and leaves other wrenches alone."""
    scene = lj.scenes.get("crowd", figures=2)
    assert isinstance(scene.drive, Push)
    for _ in range(2):  # the drive remembers nothing, so it serves any number of runs
        sim = lj.Simulation(scene.model, scene.method, scene.dt)
        sim.apply_wrench("f000/head", force=(0.0, 1.0, 0.0))
        for _ in range(3):
            scene.drive(sim)
            assert len(sim.forces.wrenches.link) == 3
        np.testing.assert_array_equal(sim.forces.wrenches.data[1:, 3:6], [scene.drive.force] * 2)
        sim.step(round(scene.drive.seconds / sim.dt))
        for _ in range(2):
            scene.drive(sim)
            np.testing.assert_array_equal(sim.forces.wrenches.data[:, 3:6], [(0.0, 1.0, 0.0)])


def test_push_is_right_after_going_back_and_on(tmp_path):
    """A run restored or resumed in the middle of the push ends in the same state as one that went through."""
    scene = lj.scenes.get("crowd", figures=2)

    def run(sim, frames):
        for _ in range(frames):
            scene.drive(sim)
            sim.step(20)
        return sim.state_hash()

    sim = lj.Simulation(scene.model, scene.method, scene.dt)
    run(sim, 4)
    middle, path = sim.snapshot(), sim.save(tmp_path / "middle.npz")
    whole = run(sim, 8)
    assert not len(sim.forces.wrenches.link)
    sim.restore(middle)
    assert run(sim, 8) == whole
    assert run(lj.resume(path), 8) == whole
