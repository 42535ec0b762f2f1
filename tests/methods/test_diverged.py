"""A step that cannot be taken: the error names joint, step and time, and the last good state stays."""

from __future__ import annotations

import numpy as np
import pytest
from tests.methods.scenes import INTEGRATORS

import limberjack as lj

PLAIN = {"mass": 1.0, "inertia": (1.0, 1.0, 1.0)}
EXPLICIT = [name for name in INTEGRATORS if name != "implicit"]


def runaway(count=3):
    """Return joints of which the second has a spring far too stiff for the step."""
    builder = lj.Builder(gravity=(0, 0, 0))
    for k in range(count):
        builder.add_body(f"b{k}", **PLAIN)
        builder.add_joint_hinge(f"j{k}", "world", f"b{k}", stiffness=1e9 if k == 1 else 1.0, start=1e-3)
    return builder.build()


@pytest.mark.parametrize("integrator", EXPLICIT)
@pytest.mark.parametrize("threads", [1, 2])
def test_the_last_good_state_is_kept(integrator, threads):
    """Diverged names joint, body, step and time; q, qd and the clock are those of the last good step."""
    model = runaway()
    # the energy watch would stop at the first step
    sim = lj.Simulation(model, lj.Full(integrator=integrator, threads=threads), dt=1e-2, energy_watch=False)
    with pytest.raises(lj.Diverged, match='joint "j1" of body "b1"') as caught:
        sim.step(100_000)
    error = caught.value
    assert (
        error.joint == "j1"
        and error.step == sim.steps > 0
        and error.time == sim.time == pytest.approx(sim.steps * 1e-2)
    )
    assert f"step {sim.steps + 1}" in str(error)
    assert np.isfinite(sim.q).all() and np.isfinite(sim.qd).all()
    again = lj.Simulation(model, lj.Full(integrator=integrator), dt=1e-2, energy_watch=False)
    again.step(sim.steps)
    assert (again.q == sim.q).all() and (again.qd == sim.qd).all()


def test_one_may_go_on():
    """After the error the simulation runs on: with the cause removed, or raising the same error again."""
    sim = lj.Simulation(runaway(), lj.Full(integrator="semi_implicit"), dt=1e-2)
    for _ in range(2):
        with pytest.raises(lj.Diverged):
            sim.step(100_000)
    steps = sim.steps
    sim.q, sim.qd, sim.dt = [1e-3, 0.0, 1e-3], [0.0] * 3, 1e-6
    sim.step(100)
    assert sim.steps == steps + 100 and np.isfinite(sim.q).all()


def test_blocks_of_many_trees_stop_together():
    """Of hundreds of trees one fails: all stand at the same step, as if each had been stepped to it."""
    model = runaway(400)
    sim = lj.Simulation(model, lj.Full(integrator="semi_implicit"), dt=1e-2)
    with pytest.raises(lj.Diverged, match='"j1"'):
        sim.step(100_000)
    again = lj.Simulation(model, lj.Full(integrator="semi_implicit"), dt=1e-2)
    again.step(sim.steps)
    assert (again.q == sim.q).all() and (again.qd == sim.qd).all()


def test_the_joint_that_failed_is_named():
    """The joint whose velocity runs away is named, not the first one."""
    builder = lj.Builder(gravity=(0, 0, 0))
    for name in "abc":
        builder.add_body(name, **PLAIN)
    sim = lj.Simulation(builder.build(), dt=1.0)
    sim.apply_wrench("b", force=(1e150, 0, 0))
    with pytest.raises(lj.Diverged) as caught:
        sim.step(20)
    assert caught.value.joint == "b"


def test_a_joint_without_inertia_is_named():
    """Running into a pose where a joint moves no mass raises Diverged with its name and keeps the state."""
    builder = lj.Builder(gravity=(0, 0, 0))
    builder.add_body("carrier")
    builder.add_body("bob", mass=1.0, com=(1, 0, 0))
    builder.add_joint_hinge("x", "world", "carrier", axis=(1, 0, 0))
    builder.add_joint_hinge("y", "carrier", "bob", axis=(0, 1, 0))
    sim = lj.Simulation(builder.build(), dt=1e-3)
    with pytest.raises(lj.Diverged, match='joint "x" of body "carrier" has no inertia to act on') as caught:
        sim.step(10)
    assert caught.value.joint == "x" and sim.steps == 0 and (sim.q == 0).all()


def test_a_run_that_diverges_keeps_its_record():
    """run() raises too, and what was recorded until then is in sim.recorded."""
    sim = lj.Simulation(runaway(), lj.Full(integrator="semi_implicit"), dt=1e-2)
    with pytest.raises(lj.Diverged):
        sim.run(1000.0)
    assert sim.recorded is not None and len(sim.recorded) >= 1
    assert sim.recorded.times[-1] <= sim.time and np.isfinite(sim.recorded.q).all()


def test_huge_but_finite_states_work():
    """Positions far away and fast spins are no error as long as their squares are finite."""
    builder = lj.Builder(gravity=(0, 0, 0))
    builder.add_body("a", **PLAIN)
    sim = lj.Simulation(builder.build(), dt=1e-3)
    sim.q, sim.qd = [1e100, 0, 0, 1, 0, 0, 0], [1e100, 0, 0, 1e3, 0, 0]
    sim.step(10)
    assert np.isfinite(sim.q).all()
