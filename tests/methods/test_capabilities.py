"""What a method honours: the generated matrix against what a simulation does with a model that has one feature."""

from __future__ import annotations

import ast
import dataclasses

import pytest
from tests.model.test_model import FEATURES as BUILDERS
from tests.model.test_model import PLAIN, pair

import limberjack as lj
from limberjack.methods import FEATURES, METHODS


def model_with(feature):
    """Return a model that has the feature named and no other, and an example it should name."""
    if feature == "contacts":
        builder = lj.Builder()
        for name in "ab":
            builder.add_body(name, **PLAIN)
            builder.add_shape_sphere(name, 0.1, name=f"ball {name}")
        builder.add_body("tail", **PLAIN)
        builder.add_joint_hinge("wag", "a", "tail")
        return builder.build(), '"ball a"'
    builder, example = BUILDERS[feature][0]
    return builder.build(), example


def test_the_matrix_covers_all_methods_and_features():
    """Rows are the methods there are, columns the features a model can have."""
    table = lj.capabilities()
    assert list(table) == list(METHODS)
    for row in table.values():
        assert list(row) == list(FEATURES) and all(type(value) is bool for value in row.values())


@pytest.mark.parametrize("feature", FEATURES)
@pytest.mark.parametrize("method", METHODS)
def test_the_matrix_is_what_happens(method, feature):
    """A feature marked as honoured runs; another raises UnsupportedByMethod that names it, and runs when ignored."""
    model, example = model_with(feature)
    assert set(model.features()) == {feature}
    if lj.capabilities()[method][feature]:
        lj.Simulation(model, method).step(2)
        return
    with pytest.raises(lj.UnsupportedByMethod) as caught:
        lj.Simulation(model, method)
    text = str(caught.value)
    for part in (f'"{method}"', f"({feature}:", example, FEATURES[feature], f"ignore=('{feature}',)"):
        assert part in text, text
    for ignored in ((feature,), [feature], feature, tuple(FEATURES)):
        lj.Simulation(model, method, ignore=ignored).step(2)
    other = next(word for word in FEATURES if word != feature)
    with pytest.raises(lj.UnsupportedByMethod):
        lj.Simulation(model, method, ignore=other)


def test_all_missing_features_are_named_at_once():
    """A model with several of them gets them all in one message, ready to be ignored together."""
    builder = pair(limits=(-1, 1), friction=0.1)
    builder.add_joint_gear("g", "h", "k")
    with pytest.raises(lj.UnsupportedByMethod, match="gears.*limits.*friction") as caught:
        lj.Simulation(builder.build(), "divide_and_conquer")
    named = str(caught.value).split("ignore=")[1]
    lj.Simulation(builder.build(), "divide_and_conquer", ignore=ast.literal_eval(named)).step()


def test_ignored_features_do_not_act():
    """Limits that are ignored let the joint pass; ignored friction does not brake."""
    builder = lj.Builder(gravity=(0, 0, 0))
    builder.add_body("a", **PLAIN)
    builder.add_joint_hinge("h", "world", "a", limits=(-0.1, 0.1), friction=5.0)
    sim = lj.Simulation(builder.build(), ignore=("limits", "friction"), qd=[1.0])
    sim.step(1000)
    assert sim.joint("h").q == pytest.approx(1.0) and sim.joint("h").qd == 1.0


@pytest.mark.parametrize("ignore", ["limit", ("limits", "everything"), [3], 5])
def test_unknown_features_are_refused(ignore):
    """A word that is no feature raises an error of the package, with the choices where it is a word."""
    with pytest.raises(lj.LimberjackError):
        lj.Simulation(pair().build(), ignore=ignore)


def test_methods_by_name_and_by_object():
    """A method is a name or an object; unknown names come with the choices, other things are refused."""
    model = pair().build()
    assert lj.Simulation(model, "full").method == lj.Full()
    assert lj.Simulation(model, lj.Full(integrator="rk4")).method.integrator == "rk4"
    with pytest.raises(lj.UnknownName, match='no method "fulll" in Limberjack; methods are .*full'):
        lj.Simulation(model, "fulll")
    for bad in (lj.Full, 3, None, object()):
        with pytest.raises(lj.StateError, match="method must be"):
            lj.Simulation(model, bad)


def test_options_are_frozen_and_checked():
    """Options cannot be changed; unknown integrators and wrong counts are refused."""
    method = lj.Full()
    with pytest.raises(dataclasses.FrozenInstanceError):
        method.integrator = "rk4"
    with pytest.raises(lj.UnknownName, match='no integrator "rk5".*euler.*rk4'):
        lj.Full(integrator="rk5")
    for word in ("substeps", "threads"):
        for bad in (0, -1, 1.5, "2", 10**9):
            with pytest.raises(lj.StateError, match=f"{word} must be a whole number"):
                lj.Full(**{word: bad})
    with pytest.raises(TypeError):
        lj.Full("rk4")


def test_stats_say_what_a_step_does():
    """Links visited, evaluations and substeps of each integrator."""
    model = pair().build()
    for integrator, evaluations in (("euler", 1), ("semi_implicit", 1), ("implicit", 1), ("rk4", 8), ("momentum", 8)):
        stats = lj.Simulation(model, lj.Full(integrator=integrator)).stats
        assert stats["nodes"] == 2 and stats["evaluations"] == evaluations
    assert lj.Simulation(model, lj.Full(integrator="rk4", substeps=1)).stats["evaluations"] == 4
