"""The register of scenes: complete, documented, typed errors, nothing built before it is asked for."""

from __future__ import annotations

import dataclasses
import inspect
import subprocess
import sys

import numpy as np
import pytest

from limberjack import scenes
from limberjack.errors import ModelError, UnknownName
from limberjack.model.model import Model

# Small enough to build in no time; every scene appears here.
SMALL = {
    "adaptive_crowd": {"figures": 2},
    "andrews_squeezer": {},
    "arch": {"stones": 5},
    "ball_grid": {"side": 3},
    "ball_tree": {"bodies": 7},
    "bar_between_disks": {},
    "baraff_contacts": {},
    "baraff_planar": {},
    "baraff_tree": {"bodies": 7, "loops": 3},
    "bead_on_circle": {},
    "box_pile": {"boxes": 4},
    "bricard": {},
    "bridge": {"planks": 2, "blocks": 1, "chains": 1},
    "card_house": {"storeys": 1},
    "chain_with_limits": {},
    "character": {},
    "column": {"boxes": 2},
    "conveyor": {"rollers": 3, "boxes": 1},
    "crowd": {"figures": 2},
    "differential": {},
    "dominoes": {"count": 3},
    "double_pendulum": {},
    "draggable_structure": {"rings": 2},
    "drum": {"boxes": 2},
    "faure_joints": {},
    "flyball_governor": {},
    "four_bar": {},
    "forest": {"trees": 2},
    "fridge_magnets": {"letters": 6},
    "gear_train": {},
    "humanoid": {},
    "joint_types": {},
    "kapla_tower": {"layers": 2},
    "knife_edge": {},
    "lifting_net": {"cells": 4, "blocks": 1},
    "long_chain": {"links": 100},
    "marionette": {},
    "mocap": {"figures": 2},
    "n_four_bar": {"loops": 2},
    "net": {"cells": 2},
    "newtons_cradle": {"balls": 3},
    "paper_pendulum": {"links": 10},
    "pendulum": {"links": 10},
    "planetary": {},
    "platform": {"boxes": 2},
    "pre_versus_post": {},
    "pyramid": {"base": 2},
    "ragdolls": {"figures": 2, "steps": 4},
    "random_tree": {"bodies": 5},
    "ring_of_figures": {"figures": 4},
    "rings": {"count": 2, "poles": 1},
    "rolling_disc": {},
    "scalable_puppet": {},
    "rope_field": {"ropes": 2, "links": 10},
    "shaken_plate": {"strings": 3},
    "simple_pendulum": {},
    "skeletons": {"figures": 1, "triangles": 1000},
    "slider_chain": {},
    "spring_pendulum": {},
    "stadium": {"figures": 2},
    "stairs": {"figures": 1, "links": 4, "steps": 3},
    "star": {"arms": 5},
    "steered_cart": {},
    "tank": {},
    "tethered_pendulum": {"links": 5},
    "tread": {"plates": 8},
}
METHODS = {"full", "adaptive", "multipliers", "displacements", "impulses"}


def test_every_scene_is_listed_and_public():
    """The names are sorted, and each is a public function of the room."""
    assert scenes.names() == sorted(SMALL)
    for name in scenes.names():
        assert name in scenes.__all__
        assert callable(getattr(scenes, name))


@pytest.mark.parametrize("name", sorted(SMALL))
def test_scene_builds_and_is_complete(name):
    """`get` gives the model of the scene's own function, and all that is needed to run and look at it."""
    scene = scenes.get(name, **SMALL[name])
    model = getattr(scenes, name)(**SMALL[name])
    assert isinstance(scene.model, Model)
    assert scene.name == name == scene.model.name
    assert scene.model.body_names == model.body_names
    np.testing.assert_array_equal(scene.model.q0, model.q0)
    assert getattr(scene.method, "name", scene.method) in METHODS
    assert 0.0 < scene.dt <= 1 / 60 and scene.seconds > 0.0
    assert scene.drive is None or callable(scene.drive)
    assert np.isfinite(scene.camera.position).all() and np.isfinite(scene.camera.target).all()
    assert np.linalg.norm(np.subtract(scene.camera.position, scene.camera.target)) > 0.25
    assert scene.description


@pytest.mark.parametrize("name", sorted(SMALL))
def test_every_option_is_documented(name):
    """The docstring of a scene's function names each of its options; all have defaults and go by name, but a clip."""
    make = getattr(scenes, name)
    text = inspect.getdoc(make)
    for option, parameter in inspect.signature(make).parameters.items():
        assert f"{option}:" in text, f"{name}: option {option} is not documented"
        assert parameter.kind is inspect.Parameter.KEYWORD_ONLY or option == "clip"
        assert parameter.default is not inspect.Parameter.empty


def test_describe_lists_options_without_building(monkeypatch):
    """The list needs no model: it works where building one fails."""

    def refuse(*_):
        raise AssertionError("a model was built")

    monkeypatch.setattr(Model, "__init__", refuse)
    rows = {row.name: row for row in scenes.describe()}
    assert sorted(rows) == scenes.names()
    assert rows["pendulum"].options["links"] == 300
    for name, description, options in rows.values():
        assert description.endswith(".")
        assert options == {k: p.default for k, p in inspect.signature(getattr(scenes, name)).parameters.items()}


def test_unknown_scene_names_the_choices():
    """A wrong name is answered with those like it and with the names there are."""
    with pytest.raises(UnknownName, match="pendulun.*did you mean pendulum.*adaptive_crowd.*bricard"):
        scenes.get("pendulun")


@pytest.mark.parametrize("name", sorted(SMALL))
def test_unknown_option_names_the_options(name):
    """A wrong option is a model error that lists the right ones, by either way in."""
    first = next(iter(inspect.signature(getattr(scenes, name)).parameters))
    for make in (lambda: scenes.get(name, colour="red"), lambda: getattr(scenes, name)(colour="red")):
        with pytest.raises(ModelError, match=f'no option "colour" in scene "{name}".*{first}'):
            make()


def test_options_go_by_name_only():
    """A bare value is refused with the names of the options."""
    with pytest.raises(ModelError, match="by name.*links"):
        scenes.pendulum(300)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("pendulum", {"links": 0}, "links must be >= 1"),
        ("pendulum", {"links": 2.5}, "links must be a whole number"),
        ("pendulum", {"links": True}, "links must be a whole number"),
        ("pendulum", {"links": "many"}, "links must be a number"),
        ("pendulum", {"length": -1.0}, "length must be > 0"),
        ("pendulum", {"mass": float("nan")}, "mass must be finite"),
        ("pendulum", {"damping": -1.0}, "damping must be >= 0"),
        ("pendulum", {"start": "upwards"}, "hanging, horizontal, random"),
        ("pendulum", {"spatial": "no"}, "spatial must be True or False"),
        ("pendulum", {"gravity": (0, 0)}, "gravity must be 3 numbers"),
        ("double_pendulum", {"lengths": (1.0,)}, "lengths must be 2 numbers"),
        ("tethered_pendulum", {"links": 5, "tied": 5}, "tied must be < links = 5"),
        ("long_chain", {"links": -1}, "links must be >= 1"),
        ("random_tree", {"bodies": 0}, "bodies must be >= 1"),
        ("random_tree", {"kinds": "rope"}, 'no joint kind "rope".*ball.*universal'),
        ("random_tree", {"kinds": ("hinge", "free")}, 'no joint kind "free"'),
        ("random_tree", {"kinds": ()}, "at least one joint kind"),
        ("ball_tree", {"bodies": 0}, "bodies must be >= 1"),
        ("simple_pendulum", {"bar": "rope"}, "hinge, rod"),
        ("simple_pendulum", {"length": 0.0}, "length must be > 0"),
        ("four_bar", {"lengths": (1, 2, 3)}, "lengths must be 4 numbers"),
        ("four_bar", {"lengths": (5, 1, 1, 1)}, "do not close at angle 1"),
        ("n_four_bar", {"loops": 0}, "loops must be >= 1"),
        ("andrews_squeezer", {"torque": "strong"}, "torque must be a number"),
        ("flyball_governor", {"stiffness": -1.0}, "stiffness .* must be >= 0"),
        ("chain_with_limits", {"limit": -0.1}, "limit must be >= 0"),
        ("gear_train", {"wheels": 1}, "wheels must be >= 2"),
        ("gear_train", {"weight": -1.0}, "weight must be >= 0"),
        ("knife_edge", {"speed": 0.0}, "speed must be > 0"),
        ("baraff_planar", {"rings": 6}, "rings must be True or False"),
        ("baraff_contacts", {"friction": -1.0}, "friction must be >= 0"),
        ("baraff_tree", {"loops": 65}, "loops must be <= 64 for 127 bodies"),
        ("baraff_tree", {"bodies": 3, "loops": 2}, "loops must be <= 1 for 3 bodies"),
        ("baraff_tree", {"loops": 2, "stir": 1.0}, "stir must be 0 with loops"),
        ("star", {"arms": 0}, "arms must be >= 1"),
        ("scalable_puppet", {"stiffness": -1.0}, "stiffness must be >= 0"),
        ("humanoid", {"height": 0.0}, "height must be > 0"),
        ("humanoid", {"mass": -75.0}, "mass must be > 0"),
        ("humanoid", {"limits": "rubber"}, 'no kind of limits "rubber".*hard, soft'),
        ("humanoid", {"contacts": "yes"}, "contacts must be True or False"),
        ("humanoid", {"limit_frequency": 0.0}, "limit_frequency must be > 0"),
        ("marionette", {"stretch": 0.0}, "stretch must be > 0"),
        ("crowd", {"figures": 0}, "figures must be >= 1"),
        ("crowd", {"figures": 1, "vary": 1.5}, "vary must be <= 1"),
        ("crowd", {"figures": 1, "spacing": 0.0}, "spacing must be > 0"),
        ("adaptive_crowd", {"figures": 0}, "figures must be >= 1"),
        ("adaptive_crowd", {"figures": 1, "budget": -1}, "budget must be >= 0"),
        ("adaptive_crowd", {"figures": 1, "least": 0.5}, "least must be a whole number"),
        ("adaptive_crowd", {"figures": 1, "tone": -1.0}, "tone must be >= 0"),
        ("character", {"budget": "many"}, "budget must be a number"),
        ("character", {"push": float("inf")}, "push must be finite"),
        ("character", {"height": 0.0}, "height must be > 0"),
        ("paper_pendulum", {"links": 0}, "links must be >= 1"),
        ("paper_pendulum", {"damping": -1.0}, "damping must be >= 0"),
        ("paper_pendulum", {"start": "hanging"}, "horizontal, random"),
        ("paper_pendulum", {"budget": 2.5}, "budget must be a whole number"),
        ("slider_chain", {"links": 1}, "links must be >= 2"),
        ("slider_chain", {"pushed": 6}, "pushed must be <= links = 5"),
        ("slider_chain", {"force": float("nan")}, "force must be finite"),
        ("spring_pendulum", {"links": 5}, "tied must be <= links = 5"),
        ("spring_pendulum", {"anchor": (1.0, 2.0)}, "anchor must be 3 numbers"),
        ("spring_pendulum", {"stiffness": -1.0}, "stiffness must be >= 0"),
    ],
)
def test_bad_values_are_typed_errors(name, options, message):
    """A value that cannot be is a model error that says what it must be."""
    with pytest.raises(ModelError, match=message):
        scenes.get(name, **options)


def test_numbers_may_come_as_text():
    """A command line hands numbers over as text; model and staging read them alike."""
    scene = scenes.get("pendulum", links="20", length="0.5")
    assert scene.model.body_count == 20
    assert scene.camera == scenes.get("pendulum", links=20, length=0.5).camera


def test_scene_is_frozen():
    """A scene does not change."""
    scene = scenes.get("double_pendulum")
    with pytest.raises(dataclasses.FrozenInstanceError):
        scene.dt = 1.0


def test_no_compiler_needed():
    """Listing and building scenes loads no Numba."""
    code = "import sys, limberjack.scenes as s; s.describe(); s.humanoid(); sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
