"""Steps that would not close or not be stable are taken in pieces: stiff, thin and singular systems."""

from __future__ import annotations

import math

import numpy as np
import pytest

import limberjack as lj
from limberjack.errors import Status

INTEGRATORS = ["semi_implicit", "rk4", "rattle"]


def hanging(masses, length=0.2, *, axial=None, angle=1.2, twist=0.0):
    """Return rods on balls, hung from the world at an angle; `axial` is their inertia about their own axis."""
    builder = lj.Builder("rods")
    for k, mass in enumerate(masses):
        across, along = mass * length**2 / 12, 2e-4 * mass if axial is None else axial
        builder.add_body(f"rod{k}", mass=mass, com=(0, 0, -length / 2), inertia=(across, across, along))
        half = 0.5 * (angle if k == 0 else twist)
        start = (math.cos(half), 0, -math.sin(half), 0) if k == 0 else (math.cos(half), math.sin(half), 0, 0)
        above, at = ("world", 0.0) if k == 0 else (f"rod{k - 1}", -length)
        builder.add_joint_ball(f"ball{k}", above, f"rod{k}", position=(0, 0, at), start=start)
    return builder.build()


def run(model, method, dt, seconds):
    """Run a model; return the simulation, its largest gain of energy over its largest kinetic one, and the pieces."""
    sim = lj.Simulation(model, method, dt=dt)
    start, gain, kinetic, pieces = sim.energy().total, 0.0, 0.0, set()
    for _ in range(round(seconds / dt)):
        sim.step()
        energy = sim.energy()
        gain, kinetic = max(gain, energy.total - start), max(kinetic, energy.kinetic)
        pieces.add(sim.stats["pieces"])
    return sim, gain / kinetic, pieces


@pytest.mark.parametrize("integrator", INTEGRATORS)
@pytest.mark.parametrize("dt", [1e-3, 1 / 240, 1 / 60])
def test_a_heavy_ball_on_light_links_swings(integrator, dt):
    """Rods of 10 g with 100 kg at the end swing without gain of energy, at steps far longer than the rods allow."""
    sim, gain, pieces = run(hanging([0.01] * 9 + [100.0]), lj.Multipliers(integrator=integrator), dt, 0.5)
    assert gain < 2e-3
    assert sim.joint_error().metres < 1e-8
    assert dt < 2e-3 or min(pieces) > 1


def test_the_number_of_pieces_follows_from_the_tension():
    """A rod of mass m and length l under tension T has the squared frequency 12 T / (m l)."""
    model = hanging([0.01] * 5 + [50.0], angle=0.0)
    sim = lj.Simulation(model, "multipliers", dt=1e-2)
    sim.step()
    tension = 9.81 * (50.0 + 0.05)
    fast = math.sqrt(12 * tension / (0.01 * 0.2))
    assert sim.stats["pieces"] == 2 ** math.ceil(math.log2(1e-2 * fast / 2.0))
    assert sim._stepper._s.report[6] == pytest.approx(fast**2, rel=0.02)


@pytest.mark.parametrize(
    ("integrator", "twist", "dt"),
    [("semi_implicit", 0.3, 1 / 240), ("rk4", 0.3, 1e-3), ("rk4", 0.0, 1 / 240), ("rattle", 0.0, 1 / 240)],
)
def test_rods_without_axial_inertia_swing(integrator, twist, dt):
    """Rods of axial inertia 1e-9 kg m^2 keep their energy, in whole steps, in a plane and out of it."""
    model = hanging([0.1] * 8, axial=1e-9, twist=twist)
    sim, gain, pieces = run(model, lj.Multipliers(integrator=integrator), dt, 1.0)
    assert gain < 6e-3 and pieces == {1}
    assert sim.joint_error().metres < 1e-8


def four_bar(extra=0):
    """Return a square of four bars on hinges about y, one corner hung from the world, which folds flat as it falls."""
    builder = lj.Builder("square")
    corners = [np.array((math.cos(a), 0.0, math.sin(a))) for a in 0.5 * math.pi * np.arange(5)]
    for k in range(4):
        builder.add_body(f"bar{k}", mass=1.0, com=(corners[k + 1] - corners[k]) / 2, inertia=(0.1, 0.1, 0.1))
        at = corners[0] if k == 0 else corners[k] - corners[k - 1]
        builder.add_joint_hinge(f"pin{k}", "world" if k == 0 else f"bar{k - 1}", f"bar{k}", position=at, axis=(0, 1, 0))
    for k in range(1 + extra):
        builder.add_joint_hinge(
            f"close{k}", "world", "bar3", position=corners[0], position_in_child=corners[0] - corners[3], axis=(0, 1, 0)
        )
    return builder.build()


@pytest.mark.parametrize("extra", [0, 3])
def test_rattle_passes_the_flat_pose_of_a_four_bar(extra):
    """A square that folds flat, where its loop loses rank, goes on with its energy, with a repeated closure too."""
    sim = lj.Simulation(four_bar(extra), lj.Multipliers(integrator="rattle"), dt=1e-3)
    start = sim.energy().total
    sim.step(1500)
    assert sim.energy().total == pytest.approx(start, abs=1e-3 * sim.energy().kinetic)
    assert sim.joint_error().metres < 1e-8


@pytest.mark.parametrize("kind", ["hinge", "ball"])
@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_a_straight_chain_pinned_at_both_ends_stays(integrator, kind):
    """A chain as long as the distance of its pins cannot move: it stays to what gaps of 1e-8 m allow, and at rest."""
    builder = lj.Builder("straight")
    axis = {"axis": (0, 1, 0)} if kind == "hinge" else {}
    for k in range(10):
        builder.add_body(f"link{k}", mass=0.1, com=(0.05, 0, 0), inertia=(1e-5, 1e-4, 1e-4))
        above, at = ("world", 0.0) if k == 0 else (f"link{k - 1}", 0.1)
        builder.add_joint(kind, f"pin{k}", above, f"link{k}", position=(at, 0, 0), **axis)
    builder.add_joint(kind, "end", "world", "link9", position=(1, 0, 0), position_in_child=(0.1, 0, 0), **axis)
    sim = lj.Simulation(builder.build(), lj.Multipliers(integrator=integrator), dt=1e-3)
    sim.step(300)
    assert np.abs(sim.positions[:, 2]).max() < 3e-4
    # falling freely for this time it would have 43 J
    assert sim.energy().kinetic < 0.02
    assert sim.joint_error().metres < 2e-8


@pytest.mark.parametrize("integrator", ["semi_implicit", "rattle"])
def test_a_rope_swings_through_cracks(integrator):
    """A rope let go from the horizontal, whose end cracks like a whip, goes on without gain of energy."""
    model = hanging([0.05] * 30, 0.1, angle=1.5)
    _, gain, pieces = run(model, lj.Multipliers(integrator=integrator), 1 / 240, 2.0)
    assert gain < 5e-3
    assert integrator == "semi_implicit" or max(pieces) > 1


def test_pieces_do_not_depend_on_how_steps_are_grouped():
    """Steps in pieces give the same bits in one call and in many, and after a snapshot."""
    model, method = hanging([0.01] * 5 + [50.0]), lj.Multipliers(integrator="rattle")
    whole, single = (lj.Simulation(model, method, dt=1 / 240) for _ in range(2))
    whole.step(40)
    for k in range(40):
        single.step()
        if k == 20:
            single.restore(single.snapshot())
    assert whole.state_hash() == single.state_hash()


def test_whole_steps_are_reported_as_one_piece():
    """A slow pendulum takes whole steps."""
    for integrator in INTEGRATORS:
        sim = lj.Simulation(lj.scenes.pendulum(links=5), lj.Multipliers(integrator=integrator), dt=1e-3)
        sim.step(100)
        assert sim.stats["pieces"] == 1 and not sim.stats["by_velocities"]


def test_errors_say_what_is_wrong():
    """Where nothing closes, the message names joint and gap, and the forces, the rank or the speed behind it."""
    sim = lj.Simulation(hanging([0.01] * 5 + [50.0], angle=0.0), "multipliers", dt=1e-2)
    sim.step()
    error, joint, text = sim._stepper.explain(Status.OPEN_LOOP, "step 2")
    assert error is lj.LoopNotClosed and joint in text
    assert 'body "rod' in text and "rad/s" in text and "dt" in text
    slow = lj.Simulation(four_bar(), "multipliers", dt=1e-3)
    slow.step()
    assert "2 of 5 rows of loops are independent" in slow._stepper.explain(Status.OPEN_LOOP, "step 2")[2]
    slow._stepper._s.report[3] = 1
    assert 'body "bar' in slow._stepper.explain(Status.INFEASIBLE, "step 2")[2]
