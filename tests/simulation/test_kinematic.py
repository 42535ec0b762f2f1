"""Kinematic bodies: prescribed motion in every method that takes constraints, and what they carry."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest

import limberjack as lj
from limberjack import scenes

METHODS = ("impulses", "full", "adaptive", "multipliers")


def belt():
    """Return a kinematic plate with a box on it, and a pendulum far off for `adaptive` to choose."""
    builder = lj.Builder("belt")
    builder.add_body("plate", position=(0.0, 0.0, 0.5), kinematic=True)
    builder.add_shape_box("plate", (4.0, 1.0, 0.1), friction=0.8)
    builder.add_body("box", mass=5.0, inertia=(0.034,) * 3, position=(0.0, 0.0, 0.65))
    builder.add_shape_box("box", (0.2,) * 3, friction=0.8)
    builder.add_body("bob", mass=1.0, inertia=(0.1,) * 3, com=(0.0, 0.0, -0.5))
    builder.add_joint_hinge("far off", "world", "bob", axis=(0.0, 1.0, 0.0), position=(9.0, 9.0, 9.0))
    return builder.build()


@pytest.mark.parametrize("method", METHODS)
def test_a_plate_at_a_velocity_carries_by_friction(method):
    """The plate is where its velocity leads, whatever lies on it; the box slides by v^2 / (2 mu g), then goes along."""
    sim = lj.Simulation(belt(), method, dt=1.0 / 240.0)
    sim.step(24)
    assert sim.positions[0] == pytest.approx([0.0, 0.0, 0.5], abs=1e-6)
    sim.move("plate", velocity=(0.5, 0.0, 0.0))
    sim.step(240)
    assert sim.positions[0] == pytest.approx([0.5, 0.0, 0.5], abs=1e-6)
    assert sim.velocities[1, 3] == pytest.approx(0.5, abs=2e-3)
    assert sim.positions[1, 0] == pytest.approx(0.5 - 0.25 / (2.0 * 0.8 * 9.81), abs=2e-3)


def test_a_plate_turns_about_its_frame_and_goes_to_poses():
    """An angular velocity turns it for as long as it lasts; a pose is reached after one step, and kept."""
    sim = lj.Simulation(belt(), "impulses", dt=1.0 / 240.0)
    sim.move("plate", angular_velocity=(0.0, 0.0, 1.0))
    sim.step(480)
    assert sim.rotations[0] == pytest.approx([math.cos(1.0), 0.0, 0.0, math.sin(1.0)], abs=1e-6)
    assert sim.velocities[1, 2] == pytest.approx(1.0, abs=1e-3)
    sim.move("plate", (0.001, 0.002, 0.5), (math.cos(1.01), 0.0, 0.0, math.sin(1.01)))
    sim.step()
    for _ in range(2):
        assert sim.positions[0] == pytest.approx([0.001, 0.002, 0.5], abs=1e-6)
        assert sim.rotations[0] == pytest.approx([math.cos(1.01), 0.0, 0.0, math.sin(1.01)], abs=1e-6)
        sim.step(20)
    assert np.abs(sim.velocities[0]).max() < 1e-6


def test_snapshots_keep_the_motion():
    """A run continues from a snapshot by the same bits, also after another motion was prescribed."""
    sim = lj.Simulation(belt(), "impulses", dt=1.0 / 240.0)

    def steps(n):
        # one per call: the time of a step within a call is a sum
        for _ in range(n):
            sim.step()

    sim.move("plate", velocity=(0.3, 0.0, 0.1), angular_velocity=(0.0, 0.0, 0.5))
    steps(30)
    kept = sim.snapshot()
    steps(30)
    end = sim.state_hash()
    sim.move("plate", velocity=(-1.0, 0.0, 0.0))
    steps(10)
    sim.restore(kept)
    steps(30)
    assert sim.state_hash() == end


def test_models_with_kinematic_bodies_are_written_and_read(tmp_path):
    """The native format keeps that a body is kinematic."""
    path = tmp_path / "belt.json"
    lj.save(belt(), path)
    # another process has not met kinematic bodies yet
    code = f"import limberjack as lj; lj.Simulation(lj.load({str(path)!r})).move('plate', velocity=(1, 0, 0))"
    subprocess.run([sys.executable, "-c", code], check=True)
    sim = lj.Simulation(lj.load(path), "impulses", dt=1.0 / 240.0)
    sim.move("plate", velocity=(0.0, 0.2, 0.0))
    sim.step(120)
    assert sim.positions[0, 1] == pytest.approx(0.1, abs=1e-6)


def test_a_drum_turns_its_boxes_over():
    """Boxes in a turning drum are lifted and stay inside; the drum turns at its rate and no box sinks into it."""
    scene = scenes.get("drum", boxes=60)
    assert scene.drive is not None
    sim = lj.Simulation(scene.model, "impulses", dt=scene.dt)
    scene.drive(sim)
    query, high = lj.CollisionQuery(scene.model), 0.0
    for _ in range(50):
        sim.step(24)
        query.find(sim.positions, sim.rotations)
        assert query.depths.max(initial=0.0) < 5e-3
        high = max(high, sim.positions[1:, 2].max())
        reach = np.hypot(sim.positions[1:, 0], sim.positions[1:, 2] - 2.5)
        assert reach.max() < 2.05
    assert high > 2.5
    assert sim.velocities[0, 1] == pytest.approx(0.8, abs=1e-6)


def test_rollers_carry_boxes_on():
    """Boxes on rollers of 4 rad/s and 10 cm reach 0.4 m/s, all at the same height."""
    scene = scenes.get("conveyor", rollers=16, boxes=2)
    assert scene.drive is not None
    sim = lj.Simulation(scene.model, "impulses", dt=1.0 / 240.0)
    scene.drive(sim)
    sim.step(360)
    assert sim.velocities[16:, 3] == pytest.approx([0.4, 0.4], abs=0.02)
    assert sim.positions[16:, 2] == pytest.approx([0.75, 0.75], abs=5e-3)


def test_what_cannot_be_moved_is_named():
    """Kinematic bodies are never free, and move to a pose or at a velocity; words name both."""
    sim = lj.Simulation(belt(), "impulses", dt=1.0 / 240.0)
    with pytest.raises(lj.StateError, match='"plate" is kinematic'):
        sim.move("plate", None)
    with pytest.raises(lj.StateError, match="not both"):
        sim.move("plate", (0.0, 0.0, 0.0), velocity=(1.0, 0.0, 0.0))
    with pytest.raises(lj.ModelError, match="kinematic"):
        lj.Builder("x").add_body("a", kinematic=1)
    with pytest.raises(lj.ModelError, match="rigid"):
        lj.Builder("x").add_body("a", mass=1.0, body_kind="particle", kinematic=True)
    with pytest.raises(lj.UnsupportedByMethod, match="kinematic"):
        lj.Simulation(belt(), "displacements")
