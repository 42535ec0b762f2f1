"""Contacts in `multipliers`: unilateral, complementary, with friction in a cone, joints and loops kept."""

from __future__ import annotations

import math

import numpy as np
import pytest

import limberjack as lj


def ball(*, friction=0.0, restitution=0.0, height=0.6, shape="sphere"):
    """Return a ball or a box above the ground."""
    builder = lj.Builder("ball")
    builder.add_body("ball", mass=2.0, inertia=(0.2, 0.2, 0.2), position=(0, 0, height))
    if shape == "sphere":
        builder.add_shape_sphere("ball", 0.5, friction=friction, restitution=restitution)
    else:
        builder.add_shape_box("ball", (1.0, 1.0, 0.2), friction=friction, restitution=restitution)
    builder.add_shape_plane("world", friction=friction)
    return builder.build()


@pytest.mark.parametrize("integrator", ["semi_implicit", "rk4", "rattle"])
def test_a_ball_lands_and_rests(integrator):
    """A ball falls freely, stops on the ground, and is then borne by its weight to rounding; no contact pulls."""
    sim = lj.Simulation(ball(), lj.Multipliers(integrator=integrator), dt=2e-3)
    for _ in range(10):
        sim.step(12)
        assert all(contact.force @ contact.normal >= 0.0 for contact in sim.contacts())
    # a constant force over the step of impact stops the ball lower by half of its way in it: that is pushed out later
    assert sim.positions[0, 2] == pytest.approx(0.5, abs=1e-12 if integrator == "semi_implicit" else 1e-3)
    sim.step(400)
    assert sim.positions[0, 2] == pytest.approx(0.5, abs=1.1e-4)
    assert sim.contacts()[0].force == pytest.approx([0, 0, 2.0 * 9.81], abs=1e-3)


def test_contacts_push_only_where_they_touch():
    """Force and gap are complementary for a box tipped over an edge: one side bears it, the other is up."""
    model = ball(shape="box", height=0.1)
    sim = lj.Simulation(model, "multipliers", dt=2e-3)
    sim.apply_wrench("ball", torque=(0.0, 15.0, 0.0))
    sim.step(20)
    pressing = [c for c in sim.contacts() if c.force[2] > 1e-9]
    assert len(pressing) == 2
    assert all(c.position[0] > 0.4 and c.depth > -1e-4 for c in pressing)
    assert all(c.force[2] == 0.0 for c in sim.contacts() if c.position[0] < 0.0)


def test_a_ball_bounces_by_its_restitution():
    """A ball dropped with restitution 0.5 comes back with half its speed."""
    sim = lj.Simulation(ball(restitution=0.5, height=1.0), "multipliers", dt=1e-3)
    down = 0.0
    while sim.velocities[0, 5] <= 0.0:
        down = sim.velocities[0, 5]
        sim.step()
    assert sim.velocities[0, 5] == pytest.approx(-0.5 * down, rel=0.01)


@pytest.mark.parametrize("friction", [0.2, 0.8])
def test_a_box_slides_or_sticks_by_the_cone(friction):
    """On ground that slants by 0.4 rad a box stays with mu above the tangent, and slides as Coulomb says with less."""
    slant, g = 0.4, 9.81
    builder = lj.Builder("slope", gravity=(g * math.sin(slant), 0, -g * math.cos(slant)))
    builder.add_body("box", mass=2.0, inertia=(0.2, 0.2, 0.2), position=(0, 0, 0.1))
    builder.add_shape_box("box", (1.0, 1.0, 0.2), friction=friction)
    builder.add_shape_plane("world", friction=friction)
    sim = lj.Simulation(builder.build(), "multipliers", dt=2e-3)
    sim.step(100)
    slides = max(0.0, g * (math.sin(slant) - friction * math.cos(slant)))
    assert sim.velocities[0, 3] == pytest.approx(slides * sim.time, abs=1e-6)
    assert abs(sim.velocities[0, 4:]).max() < 1e-6
    assert sim.stats["penetration"] < 2e-4


def test_the_papers_figure_stands_on_its_feet():
    """96 multipliers of joints and three frictionless contacts: forces and motion as in reduced coordinates."""
    model = lj.scenes.baraff_contacts()
    sim, other = (
        lj.Simulation(model, method, dt=5e-4) for method in ("multipliers", lj.Full(integrator="semi_implicit"))
    )
    sim.step(80)
    other.step(80)
    assert len(sim.contacts()) == len(other.contacts()) == 3
    for mine, full in zip(sim.contacts(), other.contacts(), strict=True):
        np.testing.assert_allclose(mine.force, full.force, rtol=2e-3)
        assert mine.force[:2] == pytest.approx([0.0, 0.0])
    np.testing.assert_allclose(sim.positions, other.positions, atol=2e-5)
    assert sim.joint_error().metres < 1e-12


def loop(friction):
    """Return a square of four hinged bars that falls on a corner."""
    builder = lj.Builder("square")
    for k in range(4):
        builder.add_body(f"bar{k}", mass=0.5, com=(0.5, 0, 0), inertia=(0.001, 0.05, 0.05), position=(0, 0, 0.52))
        builder.add_shape_capsule(
            f"bar{k}", 0.02, 0.9, position=(0.5, 0, 0), rotation=(math.sqrt(0.5), 0, math.sqrt(0.5), 0),
            friction=friction,
        )  # fmt: skip
    builder.add_joint_free("base", "world", "bar0", start=(0, 0, 0.03, math.cos(0.2), 0, -math.sin(0.2), 0))
    for k in range(4):
        options = {"start": -math.pi / 2} if k < 3 else {}
        builder.add_joint_hinge(
            f"hinge{k}", f"bar{k}", f"bar{(k + 1) % 4}", axis=(0, 1, 0), position=(1, 0, 0), **options
        )
    builder.add_shape_plane("world", friction=friction)
    return builder.build()


@pytest.mark.parametrize("friction", [0.0, 0.6])
def test_loops_stay_closed_on_the_ground(friction):
    """A closed square of bars that lands keeps its loop and does not sink in, with friction and without."""
    sim = lj.Simulation(loop(friction), "multipliers", dt=2e-3)
    touched = 0
    for _ in range(10):
        sim.step(10)
        touched += len([c for c in sim.contacts() if c.force[2] > 0.0])
        assert sim.joint_error().metres < 1e-10
        assert sim.stats["penetration"] < 2e-3
    assert touched > 0


def test_snapshots_and_repeats_give_the_same_bits():
    """A step with contacts depends on the state alone: from a snapshot it goes the same way."""
    sim = lj.Simulation(loop(0.6), "multipliers", dt=2e-3)
    sim.step(30)
    start = sim.snapshot()
    sim.step(20)
    first = sim.state_hash()
    sim.restore(start)
    sim.step(20)
    assert sim.state_hash() == first


def test_what_cannot_touch_is_refused():
    """Bodies that are not rigid refuse contacts by name."""
    builder = lj.Builder("drop")
    builder.add_particle("bead", mass=1.0, position=(0, 0, 1))
    builder.add_shape_sphere("bead", 0.1)
    builder.add_shape_plane("world")
    with pytest.raises(lj.UnsupportedByMethod, match="contacts of rigid bodies only"):
        lj.Simulation(builder.build(), "multipliers", dt=1e-3)
