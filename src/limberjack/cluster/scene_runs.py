"""The run that `limberjack sweep` repeats: one scene or model file, simulated for a while and measured."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from limberjack import scenes
from limberjack.errors import UnknownName
from limberjack.io import load
from limberjack.methods import method_of
from limberjack.simulation.simulation import Simulation

__all__ = ["OPTION", "OWN", "scene_run"]

# Parameters that begin so are options of the method.
OPTION = "option."
# Parameters of every run.
OWN = ("method", "dt", "seconds", "scatter")


def scene_run(target: str, seed: int, **parameters: Any) -> dict[str, Any]:
    """Simulate a scene or a file and return its end, its energies [J] and the largest errors of its joints [m, rad].

    Args:
        target: name of a scene, or a model file that the worker can read.
        seed: of the random start, and of the scene if it has an option of that name.
        parameters: `method`, `dt` [s], `seconds` [s], `scatter` (standard deviation of random start velocities
            [m/s, rad/s]), options of the method as "option.NAME", and options of the scene.
    """
    own = {name: parameters.pop(name) for name in OWN if name in parameters}
    options = {name.removeprefix(OPTION): parameters.pop(name) for name in list(parameters) if name.startswith(OPTION)}
    scene = _scene(target, seed, parameters)
    method = method_of(own.get("method") or scene.method)
    known = [item.name for item in fields(method)]
    for name in options:
        if name not in known:
            raise UnknownName("option", name, f'method "{method.name}"', known)
    random = np.random.default_rng(seed)
    velocities = scene.model.qd0 + own.get("scatter", 0.0) * random.normal(size=scene.model.nv)
    sim = Simulation(scene.model, replace(method, **options), own.get("dt") or scene.dt, qd=velocities)
    if scene.drive is not None:
        scene.drive(sim)
    start = sim.energy()
    if scene.drive is not None:
        scene.drive(sim)
    sim.run(own.get("seconds") or scene.seconds, callback=scene.drive)
    end, error = sim.energy(), sim.joint_error()
    return {
        "steps": sim.steps,
        "kinetic": end.kinetic,
        "potential": end.potential,
        "energy_change": end.total - start.total,
        "joint_gap": error[0],
        "joint_angle": error[1],
        "state_hash": sim.state_hash(),
        "q": sim.q,
        "qd": sim.qd,
    }


def _scene(target: str, seed: int, options: dict[str, Any]) -> scenes.Scene:
    """Return the scene with its options and, where it takes one, the seed."""
    if target in scenes.names():
        known = next(info.options for info in scenes.describe() if info.name == target)
        seeded = {"seed": seed % 2**31} if "seed" in known and "seed" not in options else {}
        return scenes.get(target, **options, **seeded)
    for name in options:
        raise UnknownName("parameter", name, f'a sweep over the file "{target}"', (*OWN, OPTION + "NAME"))
    model = load(Path(target))
    return scenes.Scene(model.name, model)
