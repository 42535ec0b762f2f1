"""Grips in the method `multipliers`: they draw points, respect limits and loops, tell their force, and let go."""

from __future__ import annotations

import numpy as np
import pytest

import limberjack as lj


@pytest.mark.parametrize("integrator", ["semi_implicit", "euler", "implicit", "rk4", "rattle"])
def test_a_grip_draws_a_chain(integrator):
    """A point of a hanging chain is drawn aside and held; released, the chain swings back; the state is kept."""
    model = lj.scenes.pendulum(links=4)
    sim = lj.Simulation(model, lj.Multipliers(integrator=integrator), dt=1e-3)
    sim.step(50)
    q = sim.q
    end = model.body_names[-1]
    grip = sim.grab(end)
    assert np.abs(sim.q - q).max() < 1e-12
    aim = grip.point + (-0.6, 0.0, 0.3)
    grip.move(aim)
    sim.step(1500)
    assert np.abs(grip.point - aim).max() < 0.02
    assert np.linalg.norm(grip.force) > 0.1
    assert sim.stats["joint_error"] < 1e-10
    grip.release()
    before = sim.energy().total
    sim.step(200)
    assert abs(sim.energy().total - before) < 0.05 * abs(before) + 0.05


def test_several_grips_agree_with_full():
    """Two grips, one with a rotation, bring a free body to the same rest as in `full`, carrying its weight."""
    ends = []
    for method in ("multipliers", "full"):
        builder = lj.Builder("bob")
        builder.add_body("bob", mass=2.0, com=(0.05, 0.0, 0.0), inertia=(0.1, 0.1, 0.1))
        sim = lj.Simulation(builder.build(), method, dt=1e-3)
        one, two = sim.grab("bob", (0.1, 0.0, 0.0)), sim.grab("bob", (-0.1, 0.0, 0.0))
        one.move((0.4, 0.2, 0.3))
        two.move((0.2, 0.2, 0.3))
        sim.step(2000)
        assert abs(one.force[2] + two.force[2] - 2.0 * 9.81) < 1e-3
        ends.append(sim.positions)
        two.release()
        one.move((0.0, 0.0, 0.0), (0.8, 0.0, 0.0, 0.6))
        sim.step(3000)
        assert abs(abs(sim.rotations[0] @ (0.8, 0.0, 0.0, 0.6)) - 1.0) < 0.01
    assert np.abs(ends[0] - ends[1]).max() < 1e-4


def test_loops_and_limits_stay_with_a_grip():
    """A four-bar is drawn along with its loop closed to rounding."""
    sim = lj.Simulation(lj.scenes.four_bar(), "multipliers", dt=1e-3)
    body = sim.model.body_names[0]
    grip = sim.grab(body)
    grip.move(grip.point + (0.05, -0.05, 0.0))
    for _ in range(10):
        sim.step(50)
        assert sim.joint_error().metres < 1e-9
    grip.release()
    sim.step(10)


@pytest.mark.parametrize("solver", ["auto", "tree"])
def test_rattle_draws_a_net_of_balls(solver):
    """Grips act in the step of bodies on balls too; after the release it goes on as if it had begun there."""
    model = lj.scenes.baraff_tree(bodies=7)
    sim = lj.Simulation(model, lj.Multipliers(integrator="rattle", solver=solver), dt=1e-3)
    sim.step(20)
    grip = sim.grab(model.body_names[-1])
    aim = grip.point + (0.1, 0.05, 0.2)
    grip.move(aim)
    sim.step(3000)
    assert np.abs(grip.point - aim).max() < 0.05
    assert sim.joint_error()[0] < 1e-8
    grip.release()
    other = lj.Simulation(model, lj.Multipliers(integrator="rattle", solver=solver), dt=1e-3, q=sim.q, qd=sim.qd)
    before = sim.energy().total
    sim.step(200)
    other.step(200)
    assert np.abs(sim.positions - other.positions).max() < 1e-7
    assert abs(sim.energy().total - before) < 1e-3 * abs(before)


def test_a_grip_is_held_by_rattle_as_by_others():
    """At rest a grip carries the weight: the same stretch, to the order of the step, as in `semi_implicit`."""
    found = []
    for integrator in ("semi_implicit", "rattle"):
        builder = lj.Builder("bob")
        builder.add_body("bob", mass=2.0, inertia=(0.1, 0.1, 0.1))
        sim = lj.Simulation(builder.build(), lj.Multipliers(integrator=integrator), dt=1e-3)
        grip = sim.grab("bob", (0.0, 0.0, 0.0))
        sim.step(4000)
        assert grip.force[2] == pytest.approx(2.0 * 9.81, rel=1e-3)
        found.append(sim.positions[0, 2])
    assert found[0] < -1e-3 and found[0] == pytest.approx(found[1], rel=5e-2)
