from __future__ import annotations

import numpy as np
import pytest
from tests.naive import models

import limberjack as lj


def accelerations(model, method, q, qd, tau, push):
    """Return qdd of one tiny explicit Euler step."""
    sim = lj.Simulation(model, method, dt=2.0**-20, q=q, qd=qd, ignore=tuple(model.features()))
    sim.tau = tau
    sim.apply_wrench(model.body_names[-1], force=push, torque=-push)
    sim.step()
    return (sim.qd - qd) / sim.dt


@pytest.mark.parametrize("seed", range(12))
def test_it_moves_as_full_does(seed):
    """On random forests of all joint kinds with springs, rotors and pushes, accelerations are those of `full`."""
    rng = np.random.default_rng(seed)
    model = models.random_model(rng, bodies=int(rng.integers(2, 20)))
    q, qd = models.random_state(rng, model)
    tau, push = rng.normal(size=model.nv), rng.normal(size=3)
    ours = accelerations(model, lj.DivideAndConquer(integrator="euler"), q, qd, tau, push)
    full = accelerations(model, lj.Full(integrator="euler"), q, qd, tau, push)
    np.testing.assert_allclose(ours, full, rtol=0, atol=2e-9 * max(np.abs(full).max(), 1.0))


def test_many_steps_stay_with_full():
    """A chain of 300 links and a star with a hub in pieces go where `full` takes them."""
    star = lj.Builder("star")
    star.add_body("hub", mass=2.0, inertia=(1.0, 1.0, 1.0))
    rng = np.random.default_rng(1)
    for k in range(30):
        star.add_body(f"arm{k}", mass=1.0, com=(0.3, 0.0, 0.0), inertia=(0.1, 0.1, 0.1))
        star.add_joint_hinge(f"joint{k}", "hub", f"arm{k}", axis=rng.normal(size=3), position=rng.normal(size=3))
    for model in (lj.scenes.pendulum(links=300), star.build()):
        sims = [
            lj.Simulation(model, method, dt=1e-4)
            for method in (lj.Full(integrator="semi_implicit"), "divide_and_conquer")
        ]
        for sim in sims:
            sim.step(50)
        np.testing.assert_allclose(sims[1].q, sims[0].q, rtol=0, atol=1e-11)


def test_levels_give_the_same_bits():
    """Merging level by level changes the order of the parts, not their numbers."""
    model = lj.scenes.random_tree(bodies=40)
    sims = [lj.Simulation(model, lj.DivideAndConquer(levels=levels), dt=1e-3) for levels in (False, True)]
    for sim in sims:
        sim.step(20)
    assert (sims[0].q == sims[1].q).all() and (sims[0].qd == sims[1].qd).all()
    assert sims[1].stats["nodes"] == 2 * len(sims[1]._stepper.assembly.body_link)


def test_springs_between_bodies_act():
    """Springs pull as in `full`."""
    model = lj.scenes.tethered_pendulum()
    sims = [
        lj.Simulation(model, method, dt=1e-4) for method in (lj.Full(integrator="semi_implicit"), lj.DivideAndConquer())
    ]
    for sim in sims:
        sim.step(100)
    np.testing.assert_allclose(sims[1].q, sims[0].q, rtol=0, atol=1e-11)


def test_what_it_cannot_do_is_refused():
    """Bodies without inertia about an axis and unknown integrators are refused by name."""
    builder = lj.Builder("thin")
    builder.add_body("rod", mass=1.0, com=(0, 0, -1), inertia=(0.1, 0.1, 0.0))
    builder.add_joint_hinge("pin", "world", "rod", axis=(0, 1, 0))
    with pytest.raises(lj.UnsupportedByMethod, match="rod"):
        lj.Simulation(builder.build(), "divide_and_conquer")
    with pytest.raises(lj.UnknownName, match="rk4"):
        lj.DivideAndConquer(integrator="rk4")


def test_a_run_that_diverges_keeps_the_state_before():
    """A velocity that overflows raises Diverged, and the state is the one before that step."""
    model = lj.scenes.pendulum(links=3)
    sim = lj.Simulation(model, "divide_and_conquer", dt=1.0, qd=[1e100, -1e100, 1e100])
    with pytest.raises(lj.Diverged):
        sim.step(100)
    assert np.isfinite(sim.q).all() and np.isfinite(sim.qd).all()
