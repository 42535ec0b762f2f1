"""The method `displacements` on all kinds of constraints and scenes: rolling, carriers, large steps, recovery."""

from __future__ import annotations

import numpy as np
import pytest

import limberjack as lj

FINE = {"iterations": 6, "solver_iterations": 60, "tolerance": 1e-12}


@pytest.mark.parametrize("mode", ["conserving", "damped"])
def test_a_knife_edge_follows_its_cycloid(mode):
    """A constraint on velocities alone is kept by what a step moves: the blade drifts sideways as the closed form says."""
    model, slope, w, errors = lj.scenes.knife_edge(), 9.81 * np.sin(0.3), 2.0, []
    for h in (2e-3, 1e-3):
        sim = lj.Simulation(model, lj.Displacements(mode=mode, **FINE), dt=h)
        sim.step(round(2.0 / h))
        t = sim.time
        wanted = slope * np.array((np.sin(w * t) ** 2, w * t - np.sin(2 * w * t) / 2)) / (2 * w * w)
        errors.append(float(np.abs(sim.positions[0, :2] - wanted).max()))
    assert errors[0] < 0.02
    assert errors[1] < 0.6 * errors[0]


def test_a_blade_is_drawn_along_itself():
    """Without forces too: drawn by a hand across its edge, a blade turns and glides and never moves sideways."""
    sim = lj.Simulation(lj.scenes.knife_edge(), lj.Displacements(mode="kinematic", **FINE), dt=1 / 60)
    grip = sim.grab("blade", (0.2, 0.0, 0.0))
    for k in range(60):
        before, turned = sim.positions[0].copy(), float(sim.q[2])
        grip.move((0.2, 0.01 * k, 0.0))
        sim.step()
        middle = 0.5 * (turned + float(sim.q[2]))
        moved = sim.positions[0] - before
        assert abs(-np.sin(middle) * moved[0] + np.cos(middle) * moved[1]) < 2e-4
    assert abs(sim.q[2]) > 0.3


def _planetary():
    """Return a sun and a planet on a driven arm, meshed from the arm."""
    builder = lj.Builder("planetary", gravity=(0.0, 0.0, 0.0))
    for name in ("arm", "sun", "planet"):
        builder.add_body(name, mass=1.0, inertia=(0.1, 0.1, 0.1))
    builder.add_joint_hinge("arm_axle", "world", "arm", start_velocity=0.7)
    builder.add_joint_hinge("sun_axle", "world", "sun", start_velocity=0.2)
    builder.add_joint_hinge("planet_axle", "arm", "planet", position=(0.5, 0.0, 0.0), start_velocity=1.25)
    builder.add_gear("mesh", "sun_axle", "planet_axle", ratio=-0.4, carrier="arm")
    return builder.build()


def test_gears_on_a_carrier_agree_with_multipliers():
    """A planet meshed from its carrier moves as with multipliers."""
    ends = []
    for method in (lj.Displacements(**FINE), lj.Multipliers(integrator="rattle")):
        sim = lj.Simulation(_planetary(), method, dt=1e-3)
        sim.step(500)
        ends.append(sim.q.copy())
    assert np.abs(ends[0] - ends[1]).max() < 1e-3
    assert np.abs(ends[0]).max() > 0.1


@pytest.mark.parametrize("name", ["shaken_plate", "draggable_structure", "ring_of_figures"])
def test_the_damped_mode_is_stable_at_a_twelfth_of_a_second(name):
    """At 12 steps a second the scenes of the paper come to rest or swing, and never gain speed."""
    scene = lj.scenes.get(name)
    method = lj.Displacements(mode="damped", iterations=3, solver_iterations=30)
    sim = lj.Simulation(lj.scenes.shaken_plate() if name == "shaken_plate" else scene.model, method, dt=1 / 12)
    held = sim.model.body_names[0]
    place = sim.body(held).position.copy()
    speeds = []
    for k in range(96):
        shake = 0.1 * np.sin(9.0 * sim.time) if k < 48 else 0.1 * np.sin(9.0 * 48 / 12)
        sim.move(held, place + (shake, 0.0, 0.0))
        sim.step()
        speeds.append(float(np.abs(sim.velocities).max()))
        assert np.isfinite(speeds[-1]) and speeds[-1] < 60.0
    assert max(speeds[-12:]) < max(speeds[:48])


def _grabbed(name):
    """Return the scene's model and the bodies to pull: the first and the last that can move."""
    model = lj.scenes.get(name).model
    free = [body for b, body in enumerate(model.body_names) if model.arrays.body_link[b] >= 0]
    return model, (free[0], free[-1])


SCENES = ("ring_of_figures", "draggable_structure", "shaken_plate", "bar_between_disks", "bead_on_circle", "faure_joints")


@pytest.mark.parametrize("name", SCENES)
def test_every_scene_recovers_after_release(name):
    """Torn by two hands that pull apart, every scene of the paper closes to 1e-6 m within 60 frames of 2 x 5 after."""
    model, ends = _grabbed(name)
    sim = lj.Simulation(model, lj.Displacements(mode="kinematic", iterations=2, solver_iterations=5), dt=1 / 60)
    sim.step(60)
    grips = [sim.grab(body) for body in ends]
    starts = [grip.point.copy() for grip in grips]
    for k in range(60):
        for grip, start, sign in zip(grips, starts, (-1.0, 1.0), strict=True):
            grip.move(start + sign * min(1.0, k / 30) * np.array((0.6, 0.2, 0.4)))
        sim.step()
    torn = sim.stats["joint_error"]
    for grip in grips:
        grip.release()
    sim.step(60)
    assert sim.stats["joint_error"] <= 1e-6
    assert torn > 1e-6 or name in ("bar_between_disks", "bead_on_circle", "faure_joints")


@pytest.mark.parametrize("method", ["full", "adaptive", "multipliers", "displacements", "impulses"])
def test_grips_in_every_method(method):
    """In every method two grips draw a double pendulum's tip and turn it, tell what they pull with, and let go."""
    builder = lj.Builder("arm")
    for k in range(3):
        builder.add_body(f"b{k}", mass=1.0, com=(0.0, 0.0, -0.2), inertia=(0.02, 0.02, 0.01))
        parent, at = ("world", (0.0, 0.0, 2.0)) if k == 0 else (f"b{k - 1}", (0.0, 0.0, -0.4))
        builder.add_joint_ball(f"j{k}", parent, f"b{k}", position=at, damping=0.3)
    sim = lj.Simulation(builder.build(), method, dt=2e-3)
    tip = np.array((0.3, 0.0, 1.1))
    turned = np.array((np.cos(0.4), 0.0, 0.0, np.sin(0.4)))
    grip, other = sim.grab("b2"), sim.grab("b0")
    for k in range(1000):
        if k % 10 == 0:
            grip.move(tip, turned)
            other.move((0.0, 0.1, 1.8))
        sim.step()
    com = sim.body("b2").position + lj.forward_kinematics(sim.model, sim.q)[0][2] * 0.0
    assert np.isfinite(com).all()
    assert np.linalg.norm(grip.point - tip) < 0.05
    assert abs(abs(sim.rotations[2] @ turned)) > 0.99
    assert 0.5 < np.linalg.norm(grip.force + other.force) < 100.0
    for one in (grip, other):
        one.release()
    with pytest.raises(lj.StateError, match="released"):
        grip.move(tip)
    sim.step(100)
    assert np.linalg.norm(sim.body("b2").position - (0.0, 0.0, 1.2)) < 0.6
