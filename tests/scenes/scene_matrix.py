"""Every scene of the catalogue by every method that can run it: what its energy and joints did."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np

import limberjack as lj
from limberjack import scenes
from limberjack.errors import EnergyWarning, LoopNotClosed, ModelError, UnsupportedByMethod
from limberjack.methods import Method, method_of

# Sizes at which 30 s of a scene are run: what makes the scene is there, and steps take microseconds.
SIZES: dict[str, dict[str, object]] = {
    "adaptive_crowd": {"figures": 2},
    "arch": {"stones": 5},
    "ball_grid": {"side": 4},
    "ball_tree": {"bodies": 31},
    "baraff_tree": {"bodies": 31, "loops": 3},
    "box_pile": {"boxes": 8},
    "bridge": {"planks": 2, "blocks": 1},
    "card_house": {"storeys": 1},
    "column": {"boxes": 3},
    "conveyor": {"rollers": 6, "boxes": 1},
    "crowd": {"figures": 2},
    "dominoes": {"count": 4},
    "draggable_structure": {"rings": 3},
    "drum": {"boxes": 4},
    "forest": {"trees": 2},
    "fridge_magnets": {"letters": 6},
    "kapla_tower": {"layers": 2},
    "lifting_net": {"cells": 4, "blocks": 1},
    "long_chain": {"links": 50},
    "mocap": {"figures": 1},
    "n_four_bar": {"loops": 4},
    "net": {"cells": 4},
    "paper_pendulum": {"links": 30},
    "pendulum": {"links": 20},
    "platform": {"boxes": 2},
    "pyramid": {"base": 3},
    "ragdolls": {"figures": 2, "steps": 4},
    "random_tree": {"bodies": 12},
    "ring_of_figures": {"figures": 6},
    "rings": {"count": 2, "poles": 1},
    "rope_field": {"ropes": 2, "links": 10},
    "shaken_plate": {"strings": 4},
    "skeletons": {"figures": 1, "triangles": 1000},
    "stadium": {"figures": 2},
    "stairs": {"figures": 1, "links": 6, "steps": 4},
    "star": {"arms": 10},
    "tethered_pendulum": {"links": 10},
    "tread": {"plates": 16},
}
METHODS = ("full", "adaptive", "multipliers", "displacements", "impulses")
# Methods that keep joints closed; the error of `displacements` depends on its iterations.
CLOSING = ("full", "adaptive", "multipliers", "impulses")
# Checks per second; most steps of a run, which scenes of finer steps end earlier by.
_RATE, _MOST = 30, 30_000


class Ran(NamedTuple):
    """What a run did."""

    allowed: float  # the rise of the energy that is allowed [J]
    gain: float  # the largest rise of the energy above that at the start [J]; nan where work is done on the scene
    open: float  # largest error of a joint [m]


# What a method refuses a scene with: features that it does not support, joints that have to be assembled first, and in
# `adaptive` a model without joints to choose from.
REFUSED = (LoopNotClosed, ModelError, UnsupportedByMethod)


def find_method(scene: scenes.Scene, name: str) -> Method | None:
    """Return the method called `name` for a scene, its own where it is of that name; None if it refuses the scene."""
    own = method_of(scene.method)
    method = own if own.name == name else method_of(name)
    try:
        lj.Simulation(scene.model, method, scene.dt).step(0)
    except REFUSED:
        return None
    return method


def cells() -> list[tuple[str, str]]:
    """Return all pairs of a scene and a method."""
    return [(name, method) for name in scenes.names() for method in METHODS]


def is_driven(scene: scenes.Scene) -> bool:
    """Return whether motors, a drive or prescribed motion do work on a scene."""
    return scene.drive is not None or "motors" in scene.model.features()


def run_cell(scene: scenes.Scene, method: Method, seconds: float) -> Ran:
    """Run a scene for some time at its own step; an `EnergyWarning` is an error.

    Allowed is a rise by 1 % of the largest energy that could have become motion, and of all bodies by 0.1 mm, since
    contacts yield and are pushed out again.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("error", EnergyWarning)
        sim = lj.Simulation(scene.model, method, scene.dt)
        steps = max(1, round(1.0 / (_RATE * scene.dt)))
        start = sim.energy()
        released, gain, error = start.kinetic, 0.0, 0.0
        for _ in range(max(1, round(min(seconds / scene.dt, _MOST) / steps))):
            if scene.drive is not None:
                scene.drive(sim)
            sim.step(steps)
            now = sim.energy()
            released = max(released, start.total - now.potential, now.kinetic)
            gain = max(gain, now.total - start.total)
            error = max(error, sim.joint_error().metres)
    assert np.isfinite(sim.positions).all()
    weight = float(scene.model.arrays.links.inertia[:, 9].sum() * np.linalg.norm(scene.model.gravity))
    return Ran(0.01 * released + 1e-4 * weight, float("nan") if is_driven(scene) else gain, error)


def check_cell(name: str, method: str, seconds: float) -> None:
    """Assert that a scene gains no energy and that its joints stay closed, or that the method refuses it by name."""
    scene = scenes.get(name, **SIZES.get(name, {}))
    chosen = find_method(scene, method)
    if chosen is None:
        return
    try:
        ran = run_cell(scene, chosen, seconds)
    except UnsupportedByMethod:
        # the scene's drive moves bodies or makes joints, which this method does not
        assert scene.drive is not None
        return
    assert not ran.gain > ran.allowed, f"gained {ran.gain:.3g} J, {ran.allowed:.3g} J allowed"
    if method in CLOSING:
        assert ran.open < 1e-3, f"a joint is open by {ran.open:.3g} m"
