"""The sweep of region updates: accelerations of the whole body, whatever part of it is active."""

from __future__ import annotations

import numpy as np
import pytest
from tests.methods.adaptive.adaptive_scenes import chain, star
from tests.naive.models import random_model, random_state

import limberjack as lj
from limberjack.methods.adaptive import layout


def swept(model, budget, rng, push=True):
    """Return a simulation after an update that changed nothing, the state it was made at and its wrenches."""
    q, qd = random_state(rng, model)
    method = lj.Adaptive(budget=budget, update_every=1, integrator="semi_implicit", metric="joints")
    sim = lj.Simulation(model, method, dt=1e-5, q=q, qd=qd)
    wrenches = np.zeros((model.body_count, 6))
    if push:
        wrenches[-1, 3:] = rng.normal(size=3) * 10
        sim.apply_wrench(model.body_names[-1], force=wrenches[-1, 3:])
    sim.step(2)
    sim.tune(update_budget=0)  # nothing new is opened from here on
    sim.step()
    q, qd = sim.q, sim.qd
    sim.step()
    return sim, q, qd, wrenches


def check(model, sim, q, qd, wrenches):
    """Compare accelerations of active joints and the metric of all with those of `full`."""
    wanted = lj.forward_dynamics(model, q, qd, wrenches=wrenches)
    size = np.abs(wanted).max()
    links = model.arrays.links
    active = np.repeat(sim._stepper.active_links(), links.dof)
    assert np.abs(sim._stepper._engine.regions.qdd - wanted)[active].max(initial=0.0) < 1e-8 * size
    counted = np.repeat(links.kind != lj.model.joints.FREE, links.dof)
    assert sim.stats["acceleration_metric"] == pytest.approx((wanted[counted] ** 2).sum(), rel=1e-8)
    return int(active.sum())


@pytest.mark.parametrize("seed", range(12))
def test_active_joints_of_forests_accelerate_as_all_were_free(seed):
    """In random forests of all joints under a force, a few joints active: qdd and the metric are those of all."""
    rng = np.random.default_rng(seed)
    model = random_model(rng, bodies=14, bases=1 + seed % 3, merge_fixed=bool(seed % 2))
    assert check(model, *swept(model, 1 + seed % 6, rng)) > 0


@pytest.mark.parametrize("budget", [1, 7, 20])
def test_several_joints_on_one_handle(budget):
    """A hub with many arms, cut into pieces, has several active joints on the handles of one part."""
    rng = np.random.default_rng(budget)
    model = star(rng)
    assert check(model, *swept(model, budget, rng)) > budget


def test_many_figures_are_swept_a_few_at_a_time():
    """With more active joints than one sweep takes, of chains side by side, nothing changes."""
    rng, builder = np.random.default_rng(0), lj.Builder("curtain")
    for k in range(9):
        above = "world"
        for i in range(12):
            name = f"b{k}.{i}"
            builder.add_body(name, mass=1.0 + 0.1 * i, com=(0, 0, -0.15), inertia=(0.02, 0.022, 0.005))
            axis = ((0, 1, 0), (1, 0, 0))[(k + i) % 2]
            builder.add_joint_hinge(f"j{k}.{i}", above, name, position=(0, 0.5 * k if i == 0 else 0, -0.3), axis=axis)
            above = name
    model = builder.build()
    assert check(model, *swept(model, 80, rng)) == 80


def test_a_transient_body_that_is_kept_is_the_one_that_would_be_made():
    """Built at each update or reused while its joints are the same, the transient body leads to the same bits."""
    method = lj.Adaptive(budget=6, update_every=2, metric="joints")
    sims = [lj.Simulation(chain(30, damping=0.05), method, dt=1e-3) for _ in range(2)]
    counts, same = sims[0]._stepper._engine.regions.counts, 0
    before = sims[1]._stepper._engine.regions.last_transient.copy()
    for _ in range(150):
        counts[layout.LAST_TRANSIENT] = 0
        for sim in sims:
            sim.step(2)
        after = sims[1]._stepper._engine.regions.last_transient.copy()
        same += bool((before == after).all())
        before = after
        assert sims[0].state_hash() == sims[1].state_hash()
        assert sims[0].stats["active_joints"] == sims[1].stats["active_joints"]
    assert 20 < same < 150
