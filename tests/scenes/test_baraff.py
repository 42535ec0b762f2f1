"""Baraff's timed systems: multipliers as the paper counts them, closed loops, contacts that touch."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from tests.scenes.loop_help import ignoring, loop_rows

import limberjack as lj
from limberjack.spatial.frames import matrix_from_quaternion


def kinds(model):
    """Return how many joints of each kind there are."""
    return Counter(model.joint(name).kind for name in model.joint_names)


def test_planar_system_has_108_multipliers():
    """54 pins of two multipliers each, all in the tree of 55 floating bodies."""
    model = lj.scenes.baraff_planar()
    assert model.body_count == 55 and kinds(model) == Counter({"hinge": 54, "planar": 1})
    assert model.loop_names == () and model.nv == 3 * 55 - 108
    assert {body.body_kind for body in model.spec.bodies} == {"planar"}


def test_planar_rings_have_96_and_12_multipliers():
    """48 pins in the tree of 49 bodies and 6 that close loops: 54 pins all told, closed to rounding."""
    model = lj.scenes.baraff_planar(rings=True)
    assert model.body_count == 49 and kinds(model) == Counter({"hinge": 54, "planar": 1})
    assert len(model.loop_names) == 6 and model.nv == 3 * 49 - 96
    error = ignoring(model).joint_error()
    assert error.metres < 1e-12 and error.radians < 1e-12
    _, rows = loop_rows(model, model.q0)
    assert np.linalg.matrix_rank(rows, tol=1e-9) == 12
    np.testing.assert_allclose(rows @ model.qd0, 0.0, atol=1e-12)


def test_rings_lie_in_a_row():
    """The corner of each ring from which the next one hangs lies along +x: no two rings overlap."""
    model = lj.scenes.baraff_planar(rings=True)
    sim = ignoring(model)
    starts = np.array([sim.body(f"ring{k}_link0").position for k in range(6)])
    wide = 0.5 / np.sin(np.pi / 8)
    np.testing.assert_allclose(starts, np.outer(np.arange(6), (wide, 0, 0)), atol=1e-14)


def test_contact_system_has_96_multipliers_and_three_contacts():
    """33 bodies on 32 balls; the three feet touch the ground without a gap, and nothing else can touch."""
    model = lj.scenes.baraff_contacts()
    assert model.body_count == 33 and kinds(model) == Counter({"ball": 32, "free": 1})
    assert list(model.features()) == ["contacts"]
    solid = {shape.name: shape for shape in model.shapes if shape.collide}
    assert sorted(solid) == ["foot0", "foot1", "foot2", "ground"]
    assert all(shape.friction == 0.0 for shape in solid.values())
    sim = ignoring(model)
    for k in range(3):
        foot = solid[f"foot{k}"]
        r = matrix_from_quaternion(sim.body(foot.body).rotation)
        assert (sim.body(foot.body).position + r @ foot.position)[2] == pytest.approx(foot.size[0], abs=1e-14)


@pytest.mark.parametrize("loops", [0, 1, 12, 48])
def test_tree_has_381_multipliers_and_three_for_each_loop(loops):
    """127 balls in the tree, the root on the ground; each loop is a ball halfway between the centres of two leaves."""
    model = lj.scenes.baraff_tree(loops=loops)
    assert model.body_count == 127 and kinds(model) == Counter({"ball": 127 + loops})
    assert model.nv == 381 and len(model.loop_names) == loops
    sim = ignoring(model)
    assert sim.joint_error().metres < 1e-12
    for name in model.loop_names:
        joint = model.joint_spec(name)
        ends = [sim.body(body).position + (0, 0, -0.25) for body in (joint.parent, joint.child)]
        place = sim.body(joint.parent).position + joint.position
        np.testing.assert_allclose(place, np.mean(ends, axis=0), atol=1e-14)
        assert all(int(body[4:]) >= 63 for body in (joint.parent, joint.child))


def test_no_two_loops_of_the_tree_join_the_same_leaves():
    """Up to one loop for each leaf, all pairs differ, and the order of leaves is the same every time."""
    a, b = lj.scenes.baraff_tree(loops=64), lj.scenes.baraff_tree(loops=12)
    pairs = [frozenset((a.joint_spec(n).parent, a.joint_spec(n).child)) for n in a.loop_names]
    assert len(set(pairs)) == 64
    assert [frozenset((b.joint_spec(n).parent, b.joint_spec(n).child)) for n in b.loop_names] == pairs[:12]


def test_brothers_of_the_tree_hang_side_by_side():
    """A body hangs from the lower end of the one above, 0.15 lengths to either side, x and y in turn."""
    model = lj.scenes.baraff_tree(bodies=7, length=2.0, stir=0.5)
    places = lj.forward_kinematics(model, model.q0)[0]
    where = {name: places[i].tolist() for i, name in enumerate(model.body_names)}
    assert where["body1"] == pytest.approx([0.3, 0, -2]) and where["body2"] == pytest.approx([-0.3, 0, -2])
    assert where["body3"] == pytest.approx([0.3, 0.3, -4]) and where["body4"] == pytest.approx([0.3, -0.3, -4])
    assert 0.0 < np.abs(model.qd0).max() <= 0.5


def test_star_spreads_its_arms():
    """A free hub and as many balls as arms, all places apart, the centre of all near the hub's."""
    model = lj.scenes.star(arms=50)
    assert kinds(model) == Counter({"free": 1, "ball": 50}) and model.body("hub").mass == 10.0
    places = np.array([joint.position for joint in model.spec.joints])
    radius = 0.1 * np.sqrt(5)
    np.testing.assert_allclose(np.linalg.norm(places, axis=1), radius, rtol=1e-14)
    gaps = np.linalg.norm(places[:, None] - places[None], axis=2) + np.eye(50)
    assert gaps.min() > 0.2 * radius and np.linalg.norm(places.mean(axis=0)) < 0.05 * radius


@pytest.mark.parametrize(("per_axis", "kind"), [(False, "scalable"), (True, "scalable_axes")])
def test_puppet_is_made_of_scalable_parts(per_axis, kind):
    """All parts but the torso can change their size; joints meet at the unscaled start, left like right."""
    model = lj.scenes.scalable_puppet(per_axis=per_axis)
    found = Counter(body.body_kind for body in model.spec.bodies)
    assert found == Counter({"rigid": 1, kind: 9}) and list(model.features()) == ["bodies"]
    assert kinds(model) == Counter({"ball": 10}) and model.nv == 30
    sim = ignoring(model)
    assert sim.body("head").position == pytest.approx((0, 0, -0.25))
    for part in ("upper_arm", "forearm", "thigh", "shin"):
        left, right = sim.body(f"{part}_left").position, sim.body(f"{part}_right").position
        np.testing.assert_allclose(left, right * (1, -1, 1), atol=1e-15)


@pytest.mark.parametrize("per_axis", [False, True])
def test_puppet_keeps_its_energy(per_axis):
    """By the scene's own method an undamped puppet has after ten seconds the energy it started with."""
    staged = lj.scenes.get("scalable_puppet", per_axis=per_axis)
    sim = lj.Simulation(staged.model, staged.method, staged.dt)
    start = sim.energy().total
    sim.step(10_000)
    assert sim.energy().kinetic > 10.0
    assert abs(sim.energy().total - start) < 0.01


@pytest.mark.slow
@pytest.mark.parametrize("per_axis", [False, True])
def test_no_part_of_the_puppet_shrinks_to_a_point(per_axis):
    """For a minute all scales stay above a fifth, and the energy is kept."""
    staged = lj.scenes.get("scalable_puppet", per_axis=per_axis)
    sim = lj.Simulation(staged.model, staged.method, staged.dt)
    start, least = sim.energy().total, 1.0
    parts = [body.name for body in staged.model.spec.bodies if body.body_kind != "rigid"]
    for _ in range(600):
        sim.step(100)
        least = min(least, *(sim.body(name).coordinates.min() for name in parts))
    assert least > 0.2
    assert abs(sim.energy().total - start) < 0.01
