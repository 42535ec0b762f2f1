"""Mode `kinematic` keeps limits whatever pulls: chains, figures, every joint kind, bodies held, snapshots."""

from __future__ import annotations

import numpy as np
import pytest

import limberjack as lj


def chain(bodies=8, most=0.4, start=0.0):
    """Return a chain on hinges that turn by at most `most`."""
    builder = lj.Builder("chain", gravity=(0.0, 0.0, 0.0))
    for k in range(bodies):
        builder.add_body(f"b{k}", mass=1.0, com=(0.25, 0.0, 0.0), inertia=(0.01, 0.03, 0.025))
        parent, at = ("world", (0.0, 0.0, 0.0)) if k == 0 else (f"b{k - 1}", (0.5, 0.0, 0.0))
        builder.add_joint_hinge(
            f"j{k}", parent, f"b{k}", axis=(0.0, 1.0, 0.0), position=at, limits=(-most, most), start=start
        )
    return builder.build()


def beyond(model, q):
    """Return by how much scalar coordinates are beyond their limits."""
    low, high = model.arrays.limits[-len(q) :].T
    return max(0.0, float((low - q).max()), float((q - high).max()))


def dragged(sim, grip, to, frames, scalars=slice(None)):
    """Draw the grip to a place; return how far beyond limits and how far open joints ever were."""
    start, worst, opened = grip.point.copy(), 0.0, 0.0
    for k in range(frames):
        grip.move(start + (np.asarray(to) - start) * min(1.0, 2.0 * (k + 1) / frames))
        sim.step()
        worst = max(worst, beyond(sim.model, sim.q[scalars]))
        opened = max(opened, sim.joint_error().metres)
    return worst, opened


def kinematic(model, iterations, solver_iterations):
    """Return a simulation that follows trackers."""
    method = lj.Displacements(mode="kinematic", iterations=iterations, solver_iterations=solver_iterations)
    return lj.Simulation(model, method, dt=1 / 60)


@pytest.mark.parametrize("to", [(10.0, 0.0, 3.0), (-5.0, 0.0, 6.0), (0.0, 0.0, 9.0)])
@pytest.mark.parametrize("iterations", [(2, 5), (3, 50)])
def test_a_chain_pulled_too_far_stays_within_its_limits(iterations, to):
    """Out of reach, hinges stop at their limits, joints stay closed to 5 cm, and close to 1e-6 m when let go."""
    sim = kinematic(chain(), *iterations)
    grip = sim.grab("b7")
    worst, opened = dragged(sim, grip, to, 80)
    assert worst < 1e-9
    assert opened < 0.05
    grip.release()
    sim.step(60)
    assert sim.stats["joint_error"] < 1e-6 and beyond(sim.model, sim.q) < 1e-9


def test_a_stretched_chain_points_at_the_hand():
    """Pulled beyond its reach a chain is straight and points where it is pulled to."""
    sim = kinematic(chain(), 3, 30)
    dragged(sim, sim.grab("b7", (4.0, 0.0, 0.0)), (10.0, 0.0, 3.0), 120)
    assert np.abs(sim.q[1:]).max() < 1e-3
    assert sim.q[0] == pytest.approx(-np.arctan2(3.0, 10.0), abs=1e-3)


def test_places_within_reach_are_reached():
    """From a bent start the end goes to a place where some hinges are at their limits, to 1e-6 m."""
    model = chain(start=0.1)
    wanted = np.array([0.4, 0.4, 0.1, 0.3, -0.1, 0.4, 0.2, 0.1])
    place = lj.forward_kinematics(model, wanted)[0][7]
    sim = kinematic(model, 2, 15)
    worst, _ = dragged(sim, sim.grab("b7", sim.positions[7]), place, 120)
    sim.step(60)
    assert worst < 1e-9
    assert np.linalg.norm(sim.positions[7] - place) < 1e-6 and sim.joint_error().metres < 1e-6


def test_a_figure_stays_within_its_limits():
    """A hand of the humanoid pulled out of reach, its feet fixed: no coordinate ever leaves its limits."""
    model = lj.scenes.humanoid(limits="hard")
    sim = kinematic(model, 2, 15)
    for name in model.body_names:
        if name.endswith("foot"):
            sim.grab(name)
    grip = sim.grab(next(name for name in model.body_names if name.endswith("hand")))
    worst, _ = dragged(sim, grip, grip.point + (0.0, 1.5, 2.0), 60, slice(7, None))
    assert worst < 1e-9


def test_bodies_that_are_held_stay():
    """With a body in the middle held by null mass, others are drawn too far: it stays where it is, limits hold.

    One limit between it and the world has no side that could move and keep the rest: a row alone holds that.
    """
    sim = kinematic(chain(), 2, 10)
    place, turn = sim.body("b4").position.copy(), sim.body("b4").rotation.copy()
    sim.move("b4", place, turn)
    first, last = sim.grab("b1"), sim.grab("b7")
    for k in range(60):
        first.move((-0.02 * k, 0.0, 0.05 * k))
        last.move((4.0 + 0.05 * k, 0.0, -0.1 * k))
        sim.step()
        past = np.abs(sim.q) - 0.4
        assert (past > 1e-9).sum() <= 1 and past.max() < 0.05
        assert past[4:].max() < 1e-9
    first.release()
    last.release()
    sim.step(30)
    assert np.abs(sim.body("b4").position - place).max() < 1e-6
    assert np.abs(sim.body("b4").rotation - turn).max() < 1e-6


@pytest.mark.parametrize("kind", ["slide", "cylindrical", "planar", "universal", "screw", "compound"])
def test_every_kind_keeps_its_limits(kind):
    """Joints with one, two and three coordinates stop at their limits, whichever way they are drawn and turned."""
    builder = lj.Builder(kind, gravity=(0.0, 0.0, 0.0))
    counts = {"slide": 1, "screw": 1, "cylindrical": 2, "universal": 2, "planar": 3, "compound": 2}
    for name, parent in (("a", "world"), ("b", "a")):
        builder.add_body(name, mass=1.0, com=(0.2, 0.0, 0.0), inertia=(0.02, 0.03, 0.025))
        at = (0.0, 0.0, 0.0) if parent == "world" else (0.4, 0.0, 0.0)
        if kind == "compound":
            axes = [
                lj.Axis(name=f"{name}_turn", axis=(0.0, 1.0, 0.0), limits=(-0.3, 0.4)),
                lj.Axis(name=f"{name}_slide", kind="slide", axis=(1.0, 0.0, 0.0), limits=(-0.1, 0.2)),
            ]
            builder.add_joint_compound(f"to_{name}", parent, name, axes, position=at)
            continue
        limits = (-0.3, 0.4) if counts[kind] == 1 else ((-0.3, 0.4),) * counts[kind]
        own = {"pitch": 0.1} if kind == "screw" else {}
        builder.add_joint(kind, f"to_{name}", parent, name, position=at, limits=limits, **own)
    model = builder.build()
    sim = kinematic(model, 2, 20)
    grip = sim.grab("b", (0.6, 0.05, 0.1))
    for to in ((2.0, 1.0, 1.5), (-2.0, -1.0, 0.5), (0.5, 1.0, -2.0)):
        worst, opened = dragged(sim, grip, to, 40)
        assert worst < 1e-9
        assert opened < 0.1


def test_a_cone_is_kept():
    """A ball joint within a cone, drawn far to the side, stays within the cone."""
    builder = lj.Builder("cone", gravity=(0.0, 0.0, 0.0))
    builder.add_body("bar", mass=1.0, com=(0.0, 0.0, 0.5), inertia=(0.1, 0.1, 0.01))
    builder.add_joint_ball("neck", "world", "bar", cone=0.5)
    sim = kinematic(builder.build(), 2, 15)
    grip = sim.grab("bar", (0.0, 0.0, 1.0))
    for k in range(60):
        grip.move((0.05 * k, 0.02 * k, 1.0 - 0.03 * k))
        sim.step()
        w, x, y, z = sim.rotations[0]
        assert np.arccos(1.0 - 2.0 * (x * x + y * y)) < 0.5 + 1e-7
    assert np.arccos(1.0 - 2.0 * (x * x + y * y)) > 0.49


def test_snapshots_are_exact_at_limits():
    """Restored in the middle of a drag at the limits, the next steps have the same bits."""
    sim = kinematic(chain(), 2, 5)
    grip = sim.grab("b7")
    dragged(sim, grip, (1.0, 0.0, 3.0), 30)
    before = sim.snapshot()
    sim.step(10)
    end = sim.state_hash()
    sim.restore(before)
    sim.step(10)
    assert sim.state_hash() == end
