"""What a method honours: the generated matrix against what a simulation does with a model that has one feature."""

from __future__ import annotations

import ast
import dataclasses

import numpy as np
import pytest
from tests.model.test_model import FEATURES as BUILDERS
from tests.model.test_model import PLAIN, pair

import limberjack as lj
from limberjack.methods import FEATURES, METHODS, VERBS, Stepper


def model_with(feature):
    """Return a model that has the feature named and none that it does not imply, and an example it should name."""
    if feature in ("contacts", "rolling"):
        builder, own = lj.Builder(), {"rolling_friction": 0.01} if feature == "rolling" else {}
        for name in "ab":
            builder.add_body(name, **PLAIN)
            builder.add_shape_sphere(name, 0.1, name=f"ball {name}", **own)
        builder.add_body("tail", **PLAIN)
        builder.add_joint_hinge("wag", "a", "tail")
        return builder.build(), '"ball a"'
    builder, example = BUILDERS[feature][0]
    return builder.build(), example


def test_the_matrix_covers_all_methods_features_and_verbs():
    """Rows are the methods there are, columns the features a model can have, then the verbs of a simulation."""
    table = lj.capabilities()
    assert list(table) == list(METHODS)
    for row in table.values():
        assert list(row) == [*FEATURES, *VERBS] and all(type(value) is bool for value in row.values())
    for word in (*FEATURES, *VERBS):
        assert any(row[word] for row in table.values()), f"no method can {word}"


@pytest.mark.parametrize("feature", FEATURES)
@pytest.mark.parametrize("method", METHODS)
def test_the_matrix_is_what_happens(method, feature):
    """A feature marked as honoured runs; another raises UnsupportedByMethod that names it, and runs when ignored."""
    model, example = model_with(feature)
    features = model.features()
    assert set(features) == ({"contacts", "rolling"} if feature == "rolling" else {feature})
    refused = tuple(word for word in features if not lj.capabilities()[method][word])
    if feature not in refused:
        lj.Simulation(model, method).step(2)
        return
    with pytest.raises(lj.UnsupportedByMethod) as caught:
        lj.Simulation(model, method)
    text = str(caught.value)
    for part in (f'"{method}"', f"{feature}:", example, FEATURES[feature], f"ignore={refused}"):
        assert part in text, text
    assert f"{feature}: {' '.join(able(feature))}." in text
    for ignored in (refused, list(refused), tuple(FEATURES), *([feature] if len(refused) == 1 else [])):
        lj.Simulation(model, method, ignore=ignored).step(2)
    other = next(word for word in FEATURES if word not in features)
    with pytest.raises(lj.UnsupportedByMethod):
        lj.Simulation(model, method, ignore=other)


def able(word):
    """Return the methods that can."""
    return [name for name, row in lj.capabilities().items() if row[word]]


def swing(method):
    """Return a simulation of two hinged bodies, at rest in free fall from the horizontal."""
    builder = lj.Builder("swing")
    for name, above in (("a", "world"), ("b", "a")):
        builder.add_body(name, mass=1.0, com=(0.5, 0, 0), inertia=(0.1, 0.1, 0.1))
        builder.add_joint_hinge(f"hinge {name}", above, name, axis=(0, 1, 0), position=(float(name == "b"), 0, 0))
        builder.add_point(f"tip {name}", name, (1.0, 0.0, 0.0))
    return lj.Simulation(builder.build(), method, dt=1e-3)


def grab(sim):
    """Pull the tip up; it falls less than without."""
    free = swing(sim.method)
    free.step(100)
    with_grip = sim.grab("b")
    with_grip.move(with_grip.point + (0, 0, 0.5))
    sim.step(100)
    assert sim.positions[1][2] > free.positions[1][2] + 0.05 and with_grip.force[2] > 0.0
    with_grip.release()
    sim.step()


def move(sim):
    """Prescribe the pose of a body: it is there, as soon as the joints are closed."""
    place = (np.cos(0.1), 0.0, -np.sin(0.1))  # where its hinge can be
    sim.move("b", place)
    sim.step(20)
    assert np.abs(sim.body("b").position - place).max() < 1e-9
    sim.move("b", None)
    sim.step()


def drive(sim):
    """Prescribe the rate of a hinge: its angle follows."""
    sim.drive("hinge b", 2.0)
    sim.step(100)
    assert sim.joint("hinge b").q == pytest.approx(0.2, abs=1e-3)
    sim.drive("hinge b", None)
    sim.step()


def attach(sim):
    """A weld made while running keeps the angle between two bodies; detached, they move again."""
    joint = sim.attach("a", "b", "fixed")
    assert sim.attached == (joint.name,)
    sim.step(50)
    assert sim.joint("hinge b").q == pytest.approx(0.0, abs=1e-3)
    sim.detach(joint)
    assert sim.attached == ()
    sim.step()


def rules(sim):
    """A rule joins two points that are near each other."""
    rule = lj.Proximity(points=("tip a",), others=("tip b",), distance=5.0, snap=False, every=1)
    sim.add_rule(rule)
    assert sim.rules == (rule,)
    sim.step(2)
    assert len(sim.attached) == 1
    sim.remove_rule(rule)
    assert sim.attached == ()


def impulse(sim):
    """A force of 30 N for 0.1 s at once: velocities change now, positions do not."""
    before = sim.q
    sim.apply_impulse("b", impulse=(0, 0, 3.0))
    assert np.abs(sim.qd).max() > 1.0 and np.array_equal(sim.q, before)
    sim.step()


def tune(sim):
    """Options change while running."""
    options = {
        "adaptive": {"budget": 1}, "displacements": {"iterations": 3}, "full": {"integrator": "projected"},
        "multipliers": {"tolerance": 1e-12},
    }.get(sim.method.name, {})  # fmt: skip
    sim.step()
    sim.tune(**options)
    sim.step()
    assert all(getattr(sim.method, word) == value for word, value in options.items())


def reactions(sim):
    """The joint at the world carries the weight, before any step."""
    first = sim.model.body_names[0]
    name = next(one for one in sim.model.joint_names if sim.model.joint_spec(one).child == first)
    assert np.linalg.norm(sim.joint(name).reaction.force) > 1.0


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("method", METHODS)
def test_the_verbs_are_what_happens(method, verb):
    """A verb marked as possible acts; another raises UnsupportedByMethod that names it and the methods that can."""
    sim, act = swing(method), {"grab": grab, "move": move, "drive": drive, "attach": attach, "rules": rules}
    act |= {"impulse": impulse, "tune": tune, "reactions": reactions}
    if lj.capabilities()[method][verb]:
        act[verb](sim)
        return
    before = sim.state_hash()
    with pytest.raises(lj.UnsupportedByMethod) as caught:
        act[verb](sim)
    text = str(caught.value)
    assert f'method "{method}"' in text and f'"{verb}"' in text
    assert text.endswith(f"Methods that can: {', '.join(able(verb))}")
    if verb != "tune":
        assert sim.state_hash() == before


def test_a_stepper_refuses_what_it_does_not_implement():
    """The defaults of `Stepper` refuse every verb with the methods that can, and know nothing of the rest."""

    class Still(Stepper):
        def advance(self, n, dt, forces, time=0.0):
            return n, 0

    still = Still()
    calls = {
        "grab": [still.grab, still.release, still.move_grip, still.grip_force],
        "reactions": [lambda _: still.row_forces(None, None)],
        "impulse": [lambda _: still.apply_impulse(0, None, None, None)],
        "move": [lambda _: still.move(0, None, None)],
        "drive": [lambda _: still.drive("j", 0, None, 0.0)],
        "tune": [still.tune],
        "attach": [still.attach, still.detach, still.index_attached],
        "rules": [still.add_rule, still.remove_rule],
    }
    assert set(calls) == set(VERBS)
    for verb, each in calls.items():
        for call in each:
            with pytest.raises(lj.UnsupportedByMethod, match=f'Still.*"{verb}".*{", ".join(able(verb))}$'):
                call(None)
    assert still.contacts() == [] and still.stats() == {} and still.state_arrays() == {}
    assert still.attached_joints == () and still.rules == () and still.active_links() is None
    with pytest.raises(lj.UnsupportedByMethod, match='loop joint "l"'):
        still.loop_forces("l")


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
    assert sim.joint("h").q == pytest.approx(1.0, abs=1e-6) and sim.joint("h").qd == pytest.approx(1.0)


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
