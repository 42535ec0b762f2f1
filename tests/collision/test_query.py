"""Contacts at given poses, without a simulation."""

from __future__ import annotations

import numpy as np
import pytest

import limberjack as lj


def _model() -> lj.Model:
    builder = lj.Builder("two spheres and a box on a plane")
    builder.add_shape_plane()
    for name in ("a", "b"):
        builder.add_body(name, mass=1.0, inertia=(1, 1, 1))
        builder.add_shape_sphere(name, 0.5)
    builder.add_body("arm", mass=1.0, com=(0, 0, 0.1), inertia=(1, 1, 1))
    builder.add_joint_hinge("shoulder", "world", "arm", axis=(0, 1, 0), position=(5, 0, 1), position_in_child=(0, 0, 1))
    builder.add_body("hand", mass=1.0, inertia=(1, 1, 1))
    builder.add_joint_fixed("wrist", "arm", "hand", position=(0, 0, -0.4))
    builder.add_shape_box("hand", (0.2, 0.2, 0.2))
    return builder.build()


def _poses(model, **places):
    positions, rotations = (x.copy() for x in lj.forward_kinematics(model, model.q0))
    for name, place in places.items():
        positions[model.body_index(name)] = place
    return positions, rotations


def test_spheres_that_overlap_are_found():
    """Two spheres and the ground: bodies, depth, point and normal are those of the geometry."""
    model = _model()
    query = lj.CollisionQuery(model)
    assert query.find(*_poses(model, a=(0, 0, 0.4), b=(0.8, 0, 3.0), hand=(9, 9, 9), arm=(9, 9, 9))) == 1
    assert query.bodies.tolist() == [[model.body_index("a"), -1]]
    np.testing.assert_allclose(query.depths, [0.1], atol=1e-12)
    np.testing.assert_allclose(query.normals, [(0, 0, 1)], atol=1e-12)
    assert query.find(*_poses(model, a=(0, 0, 2), b=(0.8, 0, 2))) >= 1
    both = {model.body_index("a"), model.body_index("b")}
    (k,) = [k for k, pair in enumerate(query.bodies.tolist()) if set(pair) == both]
    assert query.depths[k] == pytest.approx(0.2) and query.points[k] == pytest.approx((0.4, 0, 2))


def test_the_margin_reports_gaps():
    """Shapes apart by less than the margin are reported with a negative depth, others are not."""
    model = _model()
    poses = _poses(model, a=(0, 0, 0.51), b=(4, 4, 4), hand=(9, 9, 9), arm=(9, 9, 9))
    assert lj.CollisionQuery(model).find(*poses) == 0
    query = lj.CollisionQuery(model, margin=0.02)
    assert query.find(*poses) == 1 and query.depths[0] == pytest.approx(-0.01)


def test_a_body_on_a_fixed_joint_is_where_its_link_is():
    """The box of the hand, which moves with the arm, touches the ground with its four lower corners."""
    model = _model()
    positions, rotations = _poses(model, a=(0, 0, 4), b=(4, 4, 4))
    positions[[model.body_index("arm"), model.body_index("hand")]] = (5, 0, 0.49), (5, 0, 0.09)
    query = lj.CollisionQuery(model)
    assert query.find(positions, rotations) == 4
    np.testing.assert_allclose(query.depths, 0.01, atol=1e-9)
    assert set(query.bodies[:, 0]) == {model.body_index("hand")}


def test_contacts_are_those_of_a_simulation():
    """At the poses of a settled pile the query finds the bodies that the method holds apart."""
    sim = lj.Simulation(lj.scenes.box_pile(boxes=5), "impulses", dt=1 / 60)
    sim.step(30)
    query = lj.CollisionQuery(sim.model, margin=1e-2)
    query.find(sim.positions, sim.rotations)
    names = (*sim.model.body_names, "world")
    found = {frozenset((names[a], names[b])) for a, b in query.bodies.tolist()}
    assert {frozenset(contact.bodies) for contact in sim.contacts()} <= found


@pytest.mark.parametrize("shape", [(3, 3), (4, 2)])
def test_wrong_poses_are_refused(shape):
    """Arrays of another shape are refused with the number of bodies."""
    with pytest.raises(lj.StateError, match="4 bodies"):
        lj.CollisionQuery(_model()).find(np.zeros(shape), np.zeros((4, 4)))
    with pytest.raises(lj.StateError, match="margin"):
        lj.CollisionQuery(_model(), margin=-1.0)
