"""Random scenes, saved at a random step in the middle of things and resumed in another process.

python -m tests.simulation.resume_anywhere FILE...      # resumes each file, steps it on and prints its hash
"""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
from tests.random_scenes import METHODS, draw

import limberjack as lj


class Saved(NamedTuple):
    """A file, how many steps follow, and the hash after them in the process that saved it."""

    seed: int
    method: str
    path: Path
    more: int
    end: str


def advance(sim: lj.Simulation, steps: int) -> str:
    """Take steps one by one; return the hash at the end, or at the step that failed, and why it did."""
    try:
        sim.step(steps)
    except lj.LimberjackError as error:
        return f"{sim.steps} {type(error).__name__}"
    return sim.state_hash()


def save_somewhere(seed: int, folder: Path, most: int = 25) -> Saved | None:
    """Save a random scene after a run with grips, forces, budgets and joints on the way; None where it failed."""
    rng, method = np.random.default_rng([seed, 7]), METHODS[seed % len(METHODS)]
    scene = draw(seed, most, 1 / 60)
    options = {"adaptive": lj.Adaptive(budget=int(rng.integers(1, 6)))}
    try:
        sim = lj.Simulation(scene.model, options.get(method, method), scene.dt, energy_watch=False)
        sim.step(int(rng.integers(0, 40)))
        _disturb(sim, rng)
        sim.step(int(rng.integers(0, 40)))
    except lj.LimberjackError:
        return None
    path = sim.save(folder / f"{seed}.npz")
    more = int(rng.integers(1, 40))
    return Saved(seed, method, path, more, advance(sim, more))


def _disturb(sim: lj.Simulation, rng: np.random.Generator) -> None:
    model, method = sim.model, sim.method.name
    bodies = [str(name) for name in rng.permutation(model.body_names)]
    able = lj.capabilities()[method]
    if rng.random() < 0.5:
        sim.apply_wrench(bodies[0], force=rng.normal(size=3), torque=rng.normal(size=3), point=sim.positions[0])
    if rng.random() < 0.5:
        sim.tau = rng.normal(size=model.nv)
    if rng.random() < 0.6:
        grip = sim.grab(bodies[0])
        sim.step(int(rng.integers(0, 5)))
        grip.move(sim.body(bodies[0]).position + rng.normal(0.0, 0.1, 3))
    if rng.random() < 0.3:
        sim.dt = sim.dt * float(rng.uniform(0.5, 1.0))
    if method == "adaptive" and rng.random() < 0.5:
        sim.tune(budget=int(rng.integers(1, 8)))
    if able.get("attach") and len(bodies) > 1 and rng.random() < 0.5:
        sim.attach(bodies[0], bodies[1], "ball")


def resumed_elsewhere(saved: list[Saved]) -> list[str]:
    """Return the hashes that a new process ends in."""
    words = [f"{one.path}:{one.more}" for one in saved]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p), "PYTHONHASHSEED": "77"}
    command = [sys.executable, "-m", "tests.simulation.resume_anywhere", *words]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, env=environment, cwd=root, capture_output=True, text=True, timeout=3600)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()


if __name__ == "__main__":
    for word in sys.argv[1:]:
        file, _, count = word.rpartition(":")
        with warnings.catch_warnings():
            warnings.simplefilter("error", lj.ModelWarning)
            again = lj.resume(file)
        again.energy_watch = False
        print(advance(again, int(count)), flush=True)
