"""Part of table `adaptive`: what changes at every step, a crowd and a ragdoll that lies still, beside method `full`."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import sin
from typing import Any

import numpy as np

import limberjack as lj
from limberjack import scenes
from limberjack_lab.bench.clock import PERIOD, Contender, microseconds, motion_error
from limberjack_lab.bench.crowd import DT, Crowd
from limberjack_lab.bench.table import Part, Table, Watch, columns, ratio

__all__ = ["fill", "step_profile"]

_ACTIVE = 20
# Steps before anything is timed, and in the profile of steps: whole update periods.
_WARM, _STRETCH = 400, 5 * PERIOD
# Forces, targets and grips swing to and fro at this rate [rad/s].
_RATE = 40.0
_COLUMNS = columns(
    "case: case; active: joints|simulated; full: full [us]; ours: ours [us]; gain: full /|ours [x]; "
    "longest: ours, longest /|median step [x]; error: distance|from full [m]; "
    "full_speed: full: largest|velocity [rad/s, m/s]; speed: ours: largest|velocity [rad/s, m/s]"
)
_Drive = Callable[[lj.Simulation], None]


def step_profile(sim: lj.Simulation, drive: _Drive, rounds: int = 4) -> np.ndarray:
    """Return the time of each step of a stretch from the present state [s], the least of some rounds."""
    start, best = sim.snapshot(), np.full(_STRETCH, np.inf)
    for _ in range(rounds):
        sim.restore(start)
        sim.step()  # renews what a restored state lacks
        for k in range(_STRETCH):
            drive(sim)
            begin = time.thread_time()
            sim.step()
            best[k] = min(best[k], time.thread_time() - begin)
    return best


def _row(part: Part, case: str, sims: list[lj.Simulation], driven: Callable[[Any], _Drive], seconds: float) -> Any:
    """Time the steps of `full` and ours, compare where they are after as many steps; return the gain."""
    full, ours = sims
    drives = [driven(sim) for sim in sims]

    def stretch(sim: lj.Simulation, drive: _Drive, steps: int) -> None:
        for _ in range(steps):
            drive(sim)
            sim.step()

    for sim, drive in zip(sims, drives, strict=True):
        stretch(sim, drive, _WARM)
    row: dict[str, Any] = part.add(case=case, active=ours.stats["active_joints"])
    row["error"] = motion_error(ours, full.positions, 1.0)
    row["full_speed"], row["speed"] = (float(np.abs(sim.qd).max()) for sim in sims)
    # so many that the caches, which the other simulation has filled, do not matter
    steps = _STRETCH * min(10, max(1, 3000 // full.model.body_count))
    runs = [Contender("full", lambda: stretch(full, drives[0], steps), steps)]
    row |= microseconds([*runs, Contender("ours", lambda: stretch(ours, drives[1], steps), steps)], seconds)
    times = step_profile(ours, drives[1])
    row["longest"], row["gain"] = float(times.max() / np.median(times)), ratio(row["full"], row["ours"])
    return row["gain"]


def _forced(sim: lj.Simulation, body: int = -1) -> _Drive:
    name = sim.model.body_names[body]

    def drive(sim: lj.Simulation) -> None:
        sim.clear_wrenches()
        sim.apply_wrench(name, force=(10.0 * sin(_RATE * sim.time), 0.0, 0.0))

    return drive


def _gripped(sim: lj.Simulation) -> _Drive:
    grip = sim.grab(sim.model.body_names[-1])
    start = grip.point.copy()
    return lambda sim: grip.move(start + 0.1 * sin(_RATE * sim.time))


def _targeted(sim: lj.Simulation) -> _Drive:
    joint = sim.joint(sim.model.joint_names[sim.model.joint_count // 2])
    start = float(joint.q)
    return lambda sim: setattr(joint, "target", start + 0.1 * sin(_RATE * sim.time))


def _motorized(model: lj.Model) -> lj.Model:
    """Return a chain with a motor at its middle joint."""
    middle = model.joint_names[model.joint_count // 2]
    motor = lj.Motor(kp=1e4, kd=1e3, target=float(model.q0[model.joint(middle).q_start]))
    joints = [replace(joint, motor=(motor,)) if joint.name == middle else joint for joint in model.spec.joints]
    return lj.Model(replace(model.spec, joints=joints))


def fill(table: Table, links: int, figures: int, rest: float, seconds: float, watch: Watch) -> None:
    """Measure a pendulum, a crowd, and a ragdoll `rest` seconds after it was dropped."""
    part = table.part("a call from Python for each step, beside method full in the same loop", *_COLUMNS)
    table.note(
        f"longest / median: of {_STRETCH} steps, each the least of four rounds from the same state",
        f"distance from full: mean over the bodies after {_WARM} steps; ragdolls fall and lie each in its own way",
    )

    def pair(model: lj.Model, budget: int | None, dt: float, qd: np.ndarray | None = None) -> list[lj.Simulation]:
        return [lj.Simulation(model, method, dt, qd=qd) for method in ("full", lj.Adaptive(budget=budget))]

    scene = scenes.get("paper_pendulum", links=links, start="random")
    for word, model, driven in (
        ("a force at the tip", scene.model, _forced),
        ("a motor's target", _motorized(scene.model), _targeted),
        ("a grip at the tip", scene.model, _gripped),
    ):
        watch(f"{word} changed at every step", 1)
        case = f"{min(_ACTIVE, links)} of {links} links: {word} changed at every step"
        gain = _row(part, case, pair(model, min(_ACTIVE, links), scene.dt), driven, seconds)
        table.bar(f"full / ours, {case}", gain, 8.0)
    case = f"{figures} figures, 10 % of the joints: a force changed at every step"
    watch(case, 1)
    crowd = Crowd(figures, gravity=0.0)
    sims = pair(crowd.whole, figures * (crowd.one.joint_count - 1) // 10, DT, crowd.qd)
    table.bar(f"full / ours, {case}", _row(part, case, sims, partial(_forced, body=crowd.chests[0]), seconds), 5.0)
    table.bar(f"longest / median step, {figures} figures", part.rows[-1]["longest"], 2.5, False)
    watch("a ragdoll that lies still", 1)
    sims = pair(scenes.humanoid(contacts=True, limits="soft"), None, 1e-3)
    for sim in sims:
        sim.step(round(rest / sim.dt))
    gain = _row(part, f"humanoid on the ground, {rest:g} s after its fall", sims, lambda sim: lambda sim: None, seconds)
    table.bar("ours / full, humanoid that lies on the ground", ratio(1.0, gain), 0.5, False)
