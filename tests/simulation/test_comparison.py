"""lj.compare: one model by several methods, side by side."""

from __future__ import annotations

import numpy as np
import pytest

import limberjack as lj


@pytest.fixture(scope="module")
def found():
    """Return a comparison of integrators on a pendulum of two links."""
    methods = (lj.Full(integrator="rk4"), lj.Full(), lj.Full(integrator="projected"))
    return lj.compare(lj.scenes.double_pendulum(), methods, seconds=0.5, dt=1e-3)


def test_trajectories_are_those_of_simulations(found):
    """Each motion is what a simulation alone gives, with the energies of its frames."""
    sim = lj.Simulation(lj.scenes.double_pendulum(), lj.Full(integrator="rk4"), dt=1e-3)
    alone = sim.run(0.5)
    label = found.labels[0]
    np.testing.assert_array_equal(found.trajectories[label].q, alone.q)
    total = found.kinetic[label] + found.potential[label]
    assert len(total) == len(alone) and total[-1] == pytest.approx(sim.energy().total, rel=1e-12)


def test_labels_tell_options_apart(found):
    """Methods of one name are told apart by the options that differ from the defaults."""
    assert found.labels == ["full(integrator=rk4)", "full()", "full(integrator=projected)"]


def test_the_first_is_the_reference(found):
    """Distances are from the first; the method of second order stays nearer to it than that of first."""
    apart = found.distances()
    assert not apart[found.labels[0]].any()
    assert 0.0 < apart["full()"][-1] < apart["full(integrator=projected)"][-1]


def test_table_and_plot(found, tmp_path):
    """The table has a row per method with its cost; the figure is saved where it is told to."""
    lines = str(found).splitlines()
    assert len(lines) == 4 and all(cost > 0.0 for cost in found.step_us.values())
    figure = found.plot(tmp_path / "methods.png")
    assert len(figure.axes) == 4 and (tmp_path / "methods.png").stat().st_size > 5000


def test_without_methods_those_that_can(monkeypatch):
    """Without a choice every method that supports the model runs it; what diverges is told and keeps its motion."""
    model = lj.scenes.double_pendulum()
    able = [name for name, row in lj.capabilities().items() if all(row[word] for word in model.features())]
    chosen = lj.simulation.comparison._labelled(model, None, ())
    assert list(chosen) == able and len(able) >= 5


def test_what_diverges_is_told():
    """A method that leaves the finite numbers has its reason in the table and the frames until then."""
    b = lj.Builder("stiff")
    b.add_body("bob", mass=1.0, inertia=(0.1, 0.1, 0.1))
    b.add_joint_slide("spring", "world", "bob", axis=(1, 0, 0), stiffness=1e8, start=0.1)
    found = lj.compare(b.build(), {"exploding": lj.Full(integrator="euler")}, seconds=1.0, dt=0.01)
    assert "exploding" in found.failures and 0 < len(found.trajectories["exploding"]) < 61
    assert found.failures["exploding"].partition(";")[0] in str(found)


@pytest.mark.parametrize(
    ("methods", "message"),
    [
        ("full", "methods must be several"),
        ((), "no method to compare"),
        (("full", "full"), "listed twice"),
        (7, "several"),
    ],
)
def test_bad_choices_are_refused(methods, message):
    """One name, none, the same twice: an error that says what to give."""
    with pytest.raises(lj.StateError, match=message):
        lj.compare(lj.scenes.double_pendulum(), methods)
