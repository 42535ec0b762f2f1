"""The tank and the body between two joined ones: what contact and joints that come and go must bring about."""

from __future__ import annotations

import math

import numpy as np
import pytest

import limberjack as lj
from limberjack.spatial.frames import matrix_from_quaternion


def driven(course, seconds, lift=0.0):
    """Return the tank after some seconds of a course, from a place in the air if asked for."""
    scene = lj.scenes.get("tank", course=course)
    sim = lj.Simulation(scene.model, scene.method, dt=scene.dt)
    if lift:
        q = np.array(sim.q)
        for name in ("hull", "left_link0", "right_link0"):
            q[scene.model.joint(name).q_start + 2] += lift
        sim.q = q
    scene.drive(sim)
    for _ in range(round(60 * seconds)):
        sim.step(4)
        scene.drive(sim)
    return sim


def heading(sim):
    """Return by how much the hull is turned about the vertical."""
    w, x, y, z = sim.body("hull").rotation
    return math.atan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z))


def loosest(sim):
    """Return the largest distance of a link's middle from the nearest axle or from the hull's middle line [m]."""
    out = 0.0
    for side in ("left", "right"):
        axles = np.array([sim.body(f"{side}_{end}").position for end in ("back", "middle", "front")])
        links = np.array([sim.body(f"{side}_link{k}").position for k in range(34)])
        out = max(out, np.linalg.norm(links[:, None] - axles[None], axis=2).min(axis=1).max())
    return float(out)


def test_the_treads_are_tied_to_nothing():
    """Two rings of 34 links hinged to each other alone: 68 pins, and no joint from a link to anything else."""
    model = lj.scenes.tank()
    links = [name for name in model.body_names if "_link" in name]
    assert len(links) == 68 and model.body_count == 77
    ends = [{j.parent, j.child} for j in model.spec.joints if j.kind != "free"]
    assert sum(pair <= set(links) for pair in ends) == 68
    assert not any(len(pair & set(links)) == 1 for pair in ends)


def test_the_tank_goes_as_far_as_its_treads():
    """Driving straight, the hull goes within 5 % as far as gears turn links by; joints stay closed, treads stay on."""
    sim = driven("forward", 1.5)
    gear = np.mean([sim.joint(f"{side}_{end}_axle").q for side in ("left", "right") for end in ("front", "back")])
    ran = gear * 12 * 0.12 / (2.0 * math.pi)
    moved = sim.body("hull").position - np.array([0.66, 0.0, 0.0])
    assert ran > 0.7 and moved[0] == pytest.approx(ran, rel=0.05)
    assert abs(moved[1]) < 0.02 and abs(heading(sim)) < 0.02
    assert max(sim.joint_error()) < 1e-7 and loosest(sim) < 0.5
    assert 8 <= len(sim.attached) <= 24


def test_the_tank_turns_in_place():
    """With its treads running against each other the tank turns, and its middle stays where it is."""
    sim = driven("turn", 1.5)
    assert heading(sim) > 0.6
    assert np.abs(sim.body("hull").position[:2] - [0.66, 0.0]).max() < 0.05
    assert max(sim.joint_error()) < 1e-7 and loosest(sim) < 0.5


def spin(sim):
    """Return the angular momentum about the centre of mass."""
    model, turns = sim.model, np.array([matrix_from_quaternion(q) for q in sim.rotations])
    mass = np.array([body.mass for body in sorted(model.spec.bodies, key=lambda b: model.body_index(b.name))])
    at = sim.positions + np.einsum("nij,nj->ni", turns, model.arrays.body_com)
    momentum = sim.momentum()
    return momentum.angular - np.cross((mass[:, None] * at).sum(axis=0) / mass.sum(), momentum.linear)


def test_the_tank_turns_against_its_treads_in_the_air():
    """In free fall treads that speed up forward turn the hull backward: the angular momentum stays nothing."""
    sim = driven("forward", 0.9, lift=6.0)
    hull, gear = sim.body("hull").velocity, sim.body("left_front").velocity
    assert gear[1] > 0.5 and hull[1] < -0.2
    assert np.abs(spin(sim)).max() < 1e-3 * 60.0
    assert sim.body("hull").position[2] > 1.0


@pytest.mark.slow
def test_the_tank_drives_off_a_ledge():
    """Down a ledge of 2.5 m the treads stay on their gears and the joints closed, in the fall and after it."""
    sim = driven("ledge", 3.5)
    assert sim.body("hull").position[2] < 1.0
    assert max(sim.joint_error()) < 1e-6 and loosest(sim) < 0.6


def before_and_after(**options):
    """Return how far the ball is before the hinge of the two bars after each step, and the simulation."""
    scene = lj.scenes.get("pre_versus_post")
    sim = lj.Simulation(scene.model, scene.method, dt=scene.dt, **options)
    ahead = []
    for _ in range(12):
        sim.step(1)
        w, _, y, _ = sim.body("upper").rotation
        hinge = sim.body("upper").position - 0.25 * np.array([2 * w * y, 0.0, 1 - 2 * y * y])
        ahead.append(sim.body("ball").position[0] - hinge[0])
    return ahead, sim


def test_a_body_between_joined_ones_is_pushed_aside():
    """Bars that go from one side of a ball to the other in a step push it ahead; without contacts it is passed."""
    ahead, sim = before_and_after()
    assert min(ahead) > 0.05
    assert max(sim.joint_error()) < 1e-7
    assert sim.momentum().linear == pytest.approx([60.0, 0.0, 0.0], abs=1e-6)
    assert before_and_after(ignore=("contacts",))[0][0] < 0.0


def test_the_net_lifts_its_boxes():
    """The corners of the net arrive where they are moved to, with all boxes above the ground and joints closed."""
    scene = lj.scenes.get("lifting_net")
    sim = lj.Simulation(scene.model, scene.method, dt=scene.dt)
    for _ in range(round(3.5 / scene.dt)):
        scene.drive(sim)
        sim.step()
    assert sim.body("knot0_0").position[2] == pytest.approx(0.08 - 0.035 + 1.2, abs=1e-6)
    for k in range(5):
        assert sim.body(f"block{k}").position[2] > 0.15
    assert sim.joint_error().metres < 1e-6


def test_corners_that_have_swung_are_caught():
    """The corners of the net are led from the second step on, when they have velocities that led bodies must lose."""
    scene = lj.scenes.get("lifting_net", blocks=0)
    sim = lj.Simulation(scene.model, scene.method, dt=scene.dt)
    sim.run(10 * scene.dt, callback=scene.drive)
    assert sim.joint_error().metres < 1e-6
    for i, j in ((0, 0), (0, 8), (8, 0), (8, 8)):
        assert sim.body(f"knot{i}_{j}").position[2] == pytest.approx(0.08 - 0.035, abs=1e-6)
