"""Contacts of `displacements`: resting, sliding, cones, figures dragged over the ground and against walls."""

from __future__ import annotations

import numpy as np
import pytest

import limberjack as lj

DYNAMIC = ("conserving", "damped")


def box(friction=0.5, **options):
    """Return a cube of 0.2 m and 2 kg over a floor."""
    builder = lj.Builder("box", gravity=options.pop("gravity", (0.0, 0.0, -9.81)))
    builder.add_body("box", mass=2.0, inertia=(0.0133, 0.0133, 0.0133), **options)
    builder.add_shape_box("box", size=(0.2, 0.2, 0.2), friction=friction)
    builder.add_shape_plane("world", friction=friction)
    return builder.build()


@pytest.mark.parametrize("mode", DYNAMIC)
@pytest.mark.parametrize("rate", [60, 240])
def test_a_box_falls_and_rests(mode, rate):
    """Dropped on an edge a box comes to rest on a face: contact forces are its weight, energy never rises."""
    model = box(position=(0.0, 0.0, 0.4), rotation=(np.cos(0.2), np.sin(0.2), 0.0, 0.0))
    sim = lj.Simulation(model, lj.Displacements(mode=mode), dt=1 / rate)
    last = sim.energy().total
    for _ in range(20):
        sim.step(rate // 10)
        assert sim.energy().total < last + 1e-3
        last = sim.energy().total
    assert sim.positions[0, 2] == pytest.approx(0.1, abs=2e-4)
    assert np.abs(sim.velocities).max() < 1e-9
    force = sum(contact.force for contact in sim.contacts())
    assert np.abs(force - (0.0, 0.0, 2.0 * 9.81)).max() < 1e-6
    assert all(contact.bodies == ("box", "world") for contact in sim.contacts())


@pytest.mark.parametrize("mode", DYNAMIC)
@pytest.mark.parametrize("direction", [0.0, 0.6])
def test_a_sliding_box_stops_where_friction_says(mode, direction):
    """At 2 m/s in any direction a box slides v^2 / (2 mu g), straight on."""
    sim = lj.Simulation(box(position=(0.0, 0.0, 0.1)), lj.Displacements(mode=mode), dt=1 / 240)
    ahead = np.array((np.cos(direction), np.sin(direction), 0.0))
    qd = np.zeros(6)
    qd[:3] = 2.0 * ahead
    sim.qd = qd
    sim.step(360)
    assert sim.positions[0] @ ahead == pytest.approx(2.0**2 / (2 * 0.5 * 9.81), rel=0.01)
    assert abs(sim.positions[0] @ (-ahead[1], ahead[0], 0.0)) < 2e-3


@pytest.mark.parametrize("mode", DYNAMIC)
def test_the_cone_decides_what_slides(mode):
    """On a slope of 0.4 (gravity tilted) a box stays for mu = 0.45 and accelerates by g (sin - mu cos) for 0.3."""
    g = 9.81 / np.hypot(1.0, 0.4)
    for mu, rate in ((0.45, 0.0), (0.3, 0.1 * g)):
        model = box(mu, position=(0.0, 0.0, 0.1), gravity=(0.4 * g, 0.0, -g))
        sim = lj.Simulation(model, lj.Displacements(mode=mode), dt=1 / 240)
        sim.step(240)
        assert sim.positions[0, 0] == pytest.approx(0.5 * rate, abs=0.02 * rate + 1e-4)


@pytest.mark.parametrize("mode", DYNAMIC)
def test_boxes_stack(mode):
    """Three cubes on each other rest; forces between bodies carry those above."""
    builder = lj.Builder("stack")
    for k in range(3):
        builder.add_body(f"box{k}", mass=1.0, inertia=(0.0067,) * 3, position=(0.0, 0.0, 0.1 + 0.2 * k))
        builder.add_shape_box(f"box{k}", size=(0.2, 0.2, 0.2))
    builder.add_shape_plane("world")
    sim = lj.Simulation(builder.build(), lj.Displacements(mode=mode), dt=1 / 120)
    sim.step(240)
    assert np.abs(sim.positions[:, 2] - (0.1, 0.3, 0.5)).max() < 1e-3
    between = [contact.force[2] for contact in sim.contacts() if contact.bodies == ("box1", "box0")]
    between += [-contact.force[2] for contact in sim.contacts() if contact.bodies == ("box0", "box1")]
    assert abs(sum(between)) == pytest.approx(2.0 * 9.81, rel=1e-2)


@pytest.mark.parametrize("mode", DYNAMIC)
def test_a_figure_falls_and_is_dragged_over_the_ground(mode):
    """The humanoid falls, loses energy, and follows a hand over the ground: nothing sinks in, joints hold."""
    sim = lj.Simulation(lj.scenes.humanoid(contacts=True), lj.Displacements(mode=mode), dt=1 / 120)
    start = sim.energy().total
    for _ in range(8):
        sim.step(24)
        assert sim.energy().total < start + 1.0 and sim.joint_error().metres < 0.01
    grip = sim.grab("right_hand")
    point = grip.point.copy()
    for k in range(120):
        t = (k + 1) / 120
        grip.move(point + (0.5 * t, 0.0, 0.2 * t))
        sim.step()
    assert max((contact.depth for contact in sim.contacts()), default=0.0) < 5e-3
    assert sim.joint_error().metres < 0.02
    assert sim.body("right_hand").position[0] > point[0] + 0.3


@pytest.mark.parametrize("mode", ["conserving", "damped", "kinematic"])
def test_a_chain_dragged_against_a_wall_stays_on_its_side(mode):
    """Drawn through a wall at x = 1, a chain of spheres lies against it."""
    builder = lj.Builder("links", gravity=(0.0, 0.0, 0.0))
    for k in range(4):
        builder.add_body(f"link{k}", mass=0.5, inertia=(0.002,) * 3, position=(0.25 * k, 0.0, 0.0))
        builder.add_shape_sphere(f"link{k}", radius=0.08)
        if k:
            half = {"position": (0.125, 0.0, 0.0), "position_in_child": (-0.125, 0.0, 0.0)}
            builder.add_joint_ball(f"joint{k}", f"link{k - 1}", f"link{k}", **half)
    builder.add_shape_box("world", size=(0.2, 4.0, 4.0), position=(1.1, 0.0, 0.0))
    sim = lj.Simulation(builder.build(), lj.Displacements(mode=mode), dt=1 / 60)
    grip = sim.grab("link3")
    start = grip.point.copy()
    for k in range(120):
        grip.move(start + (0.6 * min(1.0, (k + 1) / 60), 0.0, 0.1))
        sim.step()
        assert sim.positions[:, 0].max() < 1.0 - 0.08 + 0.02
    assert sim.positions[3, 0] > 0.9


def test_meshes_that_jam_on_a_wall_are_not_thrown():
    """Letters that slide down a wall onto each other, contacts depending on each other, gain no energy."""
    sim = lj.Simulation(lj.scenes.fridge_magnets(letters=6), "displacements", dt=1 / 240)
    start, gain = sim.energy().total, 0.0
    for _ in range(12):
        sim.step(6)
        gain = max(gain, sim.energy().total - start)
    assert gain < 1e-6


def test_snapshots_with_contacts_are_exact():
    """Restored in the middle of a slide, the next steps have the same bits; looking changes nothing."""
    for mode in DYNAMIC:
        sim = lj.Simulation(box(position=(0.0, 0.0, 0.12)), lj.Displacements(mode=mode), dt=1 / 120)
        sim.qd = np.array((1.0, 0.3, 0.0, 0.0, 0.0, 2.0))
        sim.step(20)
        moment = sim.snapshot()
        sim.step(20)
        end = sim.state_hash()
        sim.restore(moment)
        assert np.isfinite(sim.qd).all() and len(sim.contacts()) >= 0
        sim.step(20)
        assert sim.state_hash() == end


@pytest.mark.parametrize("mode", DYNAMIC)
def test_a_ball_bounces_to_the_height_restitution_says(mode):
    """Dropped from 1 m with restitution 0.7 a ball rises to 0.49 m, and no higher the second time than 0.24 m."""
    builder = lj.Builder("ball")
    builder.add_body("ball", mass=1.0, inertia=(0.004, 0.004, 0.004), position=(0.0, 0.0, 1.1))
    builder.add_shape_sphere("ball", radius=0.1, restitution=0.7)
    builder.add_shape_plane("world")
    sim, heights = lj.Simulation(builder.build(), lj.Displacements(mode=mode), dt=1 / 1000), []
    for _ in range(1600):
        sim.step()
        heights.append(float(sim.positions[0, 2]) - 0.1)
    fall = np.sqrt(2.0 / 9.81)
    first = max(heights[int(1010 * fall) : int(1000 * 2.4 * fall)])
    assert first == pytest.approx(0.49, abs=0.01)
    second = max(heights[int(1000 * 2.45 * fall) : int(1000 * 3.3 * fall)])
    assert second == pytest.approx(0.2401, abs=0.01)


def test_boxes_at_rest_do_not_fall_where_their_velocities_are_read():
    """The energy read of a pyramid at rest never rises by what falling for half a step would be."""
    sim = lj.Simulation(lj.scenes.pyramid(base=3), "displacements", dt=1 / 60)
    start = sim.energy().total
    for _ in range(120):
        sim.step()
        assert sim.energy().total - start < 0.05 and sim.energy().kinetic < 0.5
