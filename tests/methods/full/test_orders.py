"""The order of every integrator, measured: the error of a nonlinear scene with ball joints as the step is halved."""

from __future__ import annotations

import numpy as np
import pytest
from tests.methods.scenes import floating, hanging, started, tied

SCENES = {
    "hanging": hanging,
    "tied": lambda: tied(stiffness=40.0, damping=0.5),
    "floating": lambda: floating(bodies=4, gravity=(0, 1, -9)),
}
ORDERS = {"euler": 1, "semi_implicit": 1, "rk4": 4, "implicit": 1, "momentum": 4}
SECONDS = 0.25


def state(model, integrator, steps):
    """Return the poses after SECONDS in so many steps, pushed by a wrench at a body-fixed point."""
    sim = started(model, integrator, SECONDS / steps, substeps=1)
    sim.apply_wrench(model.body_names[-1], force=(1, 2, 3), torque=(0.1, 0, 0.2), point=sim.positions[-1] + 0.3)
    sim.step(steps)
    return np.concatenate([sim.positions.ravel(), sim.velocities.ravel()])


@pytest.fixture(scope="module")
def exact():
    """The end of every scene, by steps so small that only rounding is left."""
    return {name: state(make(), "rk4", 4000) for name, make in SCENES.items()}


@pytest.mark.parametrize("scene", SCENES)
@pytest.mark.parametrize("integrator", ORDERS)
def test_order(integrator, scene, exact):
    """Halving the step divides the error by 2^order, within 0.2 of the order."""
    order = ORDERS[integrator]
    counts = (400, 800, 1600) if order == 1 else (25, 50, 100)
    model = SCENES[scene]()
    errors = [np.abs(state(model, integrator, n) - exact[scene]).max() for n in counts]
    found = np.log2(np.array(errors[:-1]) / errors[1:])
    assert abs(found[-1] - order) < 0.2, (errors, found)
    assert errors[-1] < errors[0]


def test_substeps_are_smaller_steps():
    """Two substeps of a step are two steps of half of it, to the bit."""
    model = hanging()
    for integrator in ORDERS:
        one, two = started(model, integrator, 4e-3, substeps=2), started(model, integrator, 2e-3, substeps=1)
        one.step(50)
        two.step(100)
        assert (one.q == two.q).all() and (one.qd == two.qd).all()
