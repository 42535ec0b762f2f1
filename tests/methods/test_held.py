"""Loops, limits, gears and grips on a tree in `full`: accelerations, laws, and what holds while it runs."""

from __future__ import annotations

import numpy as np
import pytest
from tests.naive.looped import LOOPS, closed, looped_accelerations, read_accelerations

import limberjack as lj


def relative(got, wanted):
    """Return the largest difference over the largest value."""
    return np.abs(got - wanted).max() / max(np.abs(wanted).max(), 1e-300)


@pytest.mark.parametrize("kind", LOOPS)
def test_accelerations_are_those_of_the_dense_system(rng, kind):
    """A random chain closed by any joint accelerates under random forces as the dense saddle system says."""
    for parent in ("world", "b1"):
        model, q, qd = closed(rng, kind, parent=parent)
        sim = lj.Simulation(model, lj.Full(integrator="euler"), q=q, qd=qd)
        sim.tau = rng.uniform(-3, 3, model.nv)
        wanted = looped_accelerations(model, q, qd, sim.tau)
        assert relative(read_accelerations(sim), wanted) < 1e-8


@pytest.mark.parametrize("kind", LOOPS)
@pytest.mark.parametrize("integrator", ["rk4", "semi_implicit"])
def test_loops_stay_closed(rng, kind, integrator):
    """A random closed chain falls and turns for a while with every loop closed to 1e-10; rk4 keeps its energy."""
    model, q, qd = closed(rng, kind)
    sim = lj.Simulation(model, lj.Full(integrator=integrator), dt=1e-3, q=q, qd=qd)
    first, worst = sim.energy(), 0.0
    scale = max(abs(first.total), first.kinetic, 1.0)
    for _ in range(20):
        sim.step(25)
        worst = max(worst, *sim.joint_error())
        if integrator == "rk4":
            assert abs(sim.energy().total - first.total) < 1e-6 * scale
    assert worst < 1e-10
