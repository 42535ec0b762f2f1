"""Bodies whose motion is prescribed, by rows, by `Simulation.move` and by `Simulation.drive`: what they carry."""

from __future__ import annotations

import math

import numpy as np
import pytest

import limberjack as lj

STEPS = (1e-3, 1.0 / 240.0, 1.0 / 60.0)


def led(position, rotation, time, data):
    """Let a plate swing along x by 0.5 m, with at most 1 m/s^2."""
    return (
        position[0] - 0.25 * (1.0 - math.cos(2.0 * time)), position[1], position[2] - 0.5,
        rotation[2][1], rotation[0][2], rotation[1][0],
    )  # fmt: skip


@pytest.fixture(autouse=True, scope="module")
def swinging():
    """Register the kind of this file."""
    lj.register_constraint("swinging plate", led, rows=6)


def platform(count=1, *, by_rows=False):
    """Return boxes, one on the other, on a plate."""
    builder = lj.Builder("platform")
    builder.add_body("plate", mass=5.0, inertia=(0.5,) * 3, position=(0.0, 0.0, 0.5))
    builder.add_shape_box("plate", (2.0, 1.0, 0.1), friction=0.9)
    for k in range(count):
        builder.add_body(f"box{k}", mass=5.0, inertia=(0.034,) * 3, position=(0.0, 0.0, 0.65 + 0.2 * k))
        builder.add_shape_box(f"box{k}", (0.2,) * 3, friction=0.9)
    if by_rows:
        builder.add_constraint("swinging plate", "lead", "world", "plate")
        # `adaptive` needs a joint to choose
        builder.add_body("bob", mass=1.0, inertia=(0.1,) * 3, com=(0.0, 0.0, -0.5))
        builder.add_joint_hinge("far off", "world", "bob", axis=(0.0, 1.0, 0.0), position=(9.0, 9.0, 9.0))
    return builder.build()


@pytest.mark.parametrize("dt", STEPS)
@pytest.mark.parametrize("method", ["impulses", "full", "adaptive"])
def test_a_led_platform_carries_by_friction(method, dt):
    """Boxes on a plate led by a registered constraint do not slip below the limit of friction."""
    sim = lj.Simulation(platform(1 if method != "impulses" else 3, by_rows=True), method, dt=dt)
    off = 0.0
    for _ in range(90):
        sim.step(round(1.0 / 30.0 / dt))
        off = max(off, float(np.abs(sim.positions[1:-1, 0] - sim.positions[0, 0]).max()))
    assert off < 5e-4
    assert abs(sim.positions[0, 0] - 0.25 * (1.0 - math.cos(2.0 * sim.time))) < 1e-6


@pytest.mark.parametrize("dt", STEPS)
def test_a_moved_platform_carries_by_friction(dt):
    """Boxes on a plate that calls move go along with it, and a plate that is too fast leaves them behind."""
    for pace, carried in ((2.0, True), (8.0, False)):
        sim = lj.Simulation(platform(3), "impulses", dt=dt)
        slip = 0.0
        for k in range(round(2.0 / dt)):
            x = 0.25 * (1.0 - math.cos(pace * (k + 1) * dt))
            sim.move("plate", (x, 0.0, 0.5))
            sim.step()
            assert sim.positions[0] == pytest.approx([x, 0.0, 0.5], abs=1e-9)
            slip = max(slip, float(np.abs(sim.positions[1:, 0] - x).max()))
        assert slip < 1e-3 if carried else slip > 0.05


def test_a_moved_body_lifts_and_is_freed():
    """A plate moved upwards lifts what lies on it at its own pace; freed, both fall."""
    sim = lj.Simulation(platform(2), "impulses", dt=1.0 / 240.0)
    for k in range(240):
        sim.move("plate", (0.0, 0.0, 0.5 + 0.002 * (k + 1)), (math.cos(0.001 * k), 0.0, 0.0, math.sin(0.001 * k)))
        sim.step()
    assert sim.positions[:, 2] == pytest.approx([0.98, 1.13, 1.33], abs=1e-3)
    assert sim.velocities[:, 5] == pytest.approx([0.48] * 3, abs=1e-6)
    # the boxes turn with it
    assert sim.rotations[2] == pytest.approx([math.cos(0.239), 0.0, 0.0, math.sin(0.239)], abs=2e-3)
    sim.move("plate", sim.positions[0])
    sim.step(240)
    assert sim.velocities[:, 5] == pytest.approx([0.0] * 3, abs=1e-6) and sim.positions[0, 2] == pytest.approx(0.98)
    sim.move("plate", None)
    sim.step(48)
    assert sim.positions[0, 2] == pytest.approx(0.98 - 0.5 * 9.81 * 0.04, abs=3e-3)


def test_a_moved_body_leads_its_joints():
    """A chain that hangs from a moved body follows it, its joints closed, the body where it is to be."""
    builder = lj.Builder("chain")
    builder.add_body("handle", mass=1.0, inertia=(0.01,) * 3, position=(0.0, 0.0, 2.0))
    for k in range(8):
        builder.add_body(f"link{k}", mass=0.2, inertia=(1e-3,) * 3)
        builder.add_joint_ball(
            f"j{k}", f"link{k - 1}" if k else "handle", f"link{k}", position=(0.0, 0.0, -0.1 if k else 0.0),
            position_in_child=(0.0, 0.0, 0.1),
        )  # fmt: skip
    for joints in ("global", "damped"):
        sim = lj.Simulation(builder.build(), lj.Impulses(joints=joints), dt=1.0 / 120.0)
        for k in range(240):
            place = (0.5 * math.sin(0.02 * k), 0.0, 2.0)
            sim.move("handle", place)
            sim.step()
            assert sim.positions[0] == pytest.approx(place, abs=1e-6)
        assert sim.joint_error().metres < 1e-6
        kept = sim.snapshot()
        sim.step(20)
        end = sim.state_hash()
        sim.restore(kept)
        sim.step(20)
        assert sim.state_hash() == end


def test_a_driven_drum_turns_and_carries():
    """A turntable driven at a rate turns by it, and a box goes round, after it has slid by v^2 / (2 mu g)."""
    builder = lj.Builder("table")
    builder.add_body("table", mass=2.0, inertia=(0.1, 0.1, 0.2), position=(0.0, 0.0, 0.5))
    builder.add_joint_hinge("axle", "world", "table", axis=(0.0, 0.0, 1.0), position=(0.0, 0.0, 0.5))
    builder.add_shape_box("table", (1.0, 1.0, 0.1), friction=0.8)
    builder.add_body("box", mass=1.0, inertia=(0.004,) * 3, position=(0.3, 0.0, 0.62))
    builder.add_shape_box("box", (0.14,) * 3, friction=0.8)
    sim = lj.Simulation(builder.build(), "impulses", dt=1.0 / 240.0)
    sim.step(24)
    sim.drive("axle", 2.0)
    sim.step(480)
    assert sim.joint("axle").q == pytest.approx(4.0, abs=1e-6)
    angle = math.atan2(sim.positions[1, 1], sim.positions[1, 0]) % (2.0 * math.pi)
    assert angle == pytest.approx(4.0 - 0.6**2 / (2.0 * 0.8 * 9.81) / 0.3, abs=0.01)
    assert np.hypot(*sim.positions[1, :2]) == pytest.approx(0.3, abs=0.01)
    kept = sim.snapshot()
    sim.step(24)
    end = sim.state_hash()
    sim.restore(kept)
    sim.step(24)
    assert sim.state_hash() == end
    sim.drive("axle", None)
    sim.step(24)
    assert sim.qd[0] == pytest.approx(2.0, rel=0.02)


def test_sleepers_wake_when_their_platform_moves():
    """Boxes that sleep on a plate at rest wake and go along when it moves, even slowly."""
    sim = lj.Simulation(platform(2), "impulses", dt=1.0 / 240.0)
    sim.move("plate", (0.0, 0.0, 0.5))
    sim.step(480)
    assert sim.stats["asleep"] == 2
    for k in range(240):
        sim.move("plate", (1e-5 * (k + 1), 0.0, 0.5))
        sim.step()
    assert sim.positions[1:, 0] == pytest.approx([2.4e-3] * 2, abs=5e-5)


def test_options_are_tuned_while_running():
    """Options of contacts change while running; how joints are solved does not."""
    sim = lj.Simulation(platform(1), "impulses", dt=1.0 / 240.0)
    sim.tune(substeps=7, sweeps=5)
    sim.step()
    assert sim.stats["substeps"] == 7
    with pytest.raises(lj.StateError, match="joints.*'global'"):
        sim.tune(joints="damped")
