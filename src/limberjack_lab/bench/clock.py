"""Timing side by side: contenders take turns, and the best sample of each counts.

Taking turns lets a drift of the machine (heat, other users) hit all alike; the minimum is the sample least disturbed.
Time on the processor of the calling thread is for work on one thread, wall time for work on several.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import limberjack as lj

__all__ = [
    "PERIOD",
    "Best",
    "Contender",
    "Segment",
    "adaptive",
    "microseconds",
    "motion_error",
    "race",
    "race_sizes",
    "repeated",
    "resident_bytes",
    "until_long",
    "warmed",
]

# A sample shorter than this would measure the clock.
_SAMPLE_SECONDS = 2e-3
# Steps between two choices of the joints that are simulated: the paper's.
PERIOD = 20
# A run without updates: no sample is this long.
_NEVER = 10**6


@dataclass
class Contender:
    """Something to time."""

    key: str  # its name in the results
    call: Callable[[], Any]  # does the work
    units: int = 1  # evaluations or steps in one call; times are per unit
    # called before each sample, not timed; brings back the state that `call` moves
    prepare: Callable[[], Any] | None = None
    once: bool = False  # one call per sample: each needs `prepare` before it


class Best(NamedTuple):
    """The least time per unit [s]: of the calling thread's processor, and on the wall."""

    cpu: float
    wall: float


def _sample(contender: Contender, calls: int) -> tuple[float, float]:
    if contender.prepare is not None:
        contender.prepare()
    call = contender.call
    wall, cpu = time.perf_counter(), time.thread_time()
    for _ in repeat(None, calls):
        call()
    cpu, wall = time.thread_time() - cpu, time.perf_counter() - wall
    return cpu / (calls * contender.units), wall / (calls * contender.units)


def until_long(call: Callable[[int], Any], start: int = 1) -> int:
    """Return how many units `call(n)` should do for one sample to be long enough to time."""
    n = start
    call(n)  # may compile
    while True:
        begin = time.perf_counter()
        call(n)
        spent = time.perf_counter() - begin
        if spent >= 0.5 * _SAMPLE_SECONDS:
            return max(1, round(n * _SAMPLE_SECONDS / spent)) if spent < _SAMPLE_SECONDS else n
        n *= 2


def race(contenders: list[Contender], *, seconds: float, rounds: int = 5) -> dict[str, Best]:
    """Return the best times of all contenders, sampled in turns.

    Args:
        contenders: who takes part; each is called once before anything is timed.
        seconds: how long to go on, all together.
        rounds: turns that are taken at least.
    """
    calls: dict[str, int] = {}
    for one in contenders:
        _sample(one, 1)
        many = max(1, round(_SAMPLE_SECONDS / max(_sample(one, 1)[1] * one.units, 1e-9)))
        calls[one.key] = 1 if one.once else many
    best = {one.key: Best(float("inf"), float("inf")) for one in contenders}
    collecting = gc.isenabled()
    gc.disable()
    try:
        end, turn = time.perf_counter() + seconds, 0
        while turn < rounds or time.perf_counter() < end:
            for one in contenders:
                best[one.key] = Best(*map(min, best[one.key], _sample(one, calls[one.key])))
            turn += 1
    finally:
        if collecting:
            gc.enable()
    return best


def microseconds(contenders: list[Contender], seconds: float, rounds: int = 5) -> dict[str, float]:
    """Return the least processor time per unit of each contender [us], sampled in turns, `seconds` for each."""
    found = race(contenders, seconds=seconds * len(contenders), rounds=rounds)
    return {key: 1e6 * best.cpu for key, best in found.items()}


def repeated(key: str, sim: lj.Simulation, steps: int = 0) -> Contender:
    """Return steps of a simulation from the state it is in now; without a number as many as a sample needs."""
    start = sim.snapshot()
    n = steps or until_long(sim.step)

    def restart() -> None:
        sim.restore(start)
        sim.step()  # renews what a restored state lacks

    return Contender(key, lambda: sim.step(n), units=n, prepare=restart)


class Segment:
    """A simulation timed over one segment of its motion, of whole update periods.

    Args:
        sim: the simulation, at the state the segment begins with.
        least: least number of steps; a call from Python costs as much as some steps of a small region.
        again: whether each sample goes back to the start; without, the motion must not diverge however long it runs.
    """

    def __init__(self, sim: lj.Simulation, *, least: int = 1000, again: bool = True) -> None:
        self.sim, self._again = sim, again
        self._start = sim.snapshot() if again else None
        self.steps = -(-until_long(sim.step, least) // PERIOD) * PERIOD
        self.restart()

    def restart(self) -> None:
        """Go back to the start and take one step, which renews what a restored state lacks."""
        if self._start is not None:
            self.sim.restore(self._start)
            self.sim.step()

    def contender(self, key: str) -> Contender:
        """Return what to time: the steps of the segment."""
        return Contender(key, lambda: self.sim.step(self.steps), units=self.steps, prepare=self.restart)

    def changes(self) -> float:
        """Return the joints that entered or left the region per update, over one segment."""
        self.restart()
        before = self.sim.stats
        self.sim.step(self.steps)
        after = self.sim.stats
        return (after["changes"] - before["changes"]) / max(1, after["updates"] - before["updates"])

    def finite(self) -> bool:
        """Return whether the state is made of finite numbers."""
        return bool(np.isfinite(self.sim.q).all() and np.isfinite(self.sim.qd).all())

    def ordinary(self) -> Segment:
        """Return the segment of the steps between updates: the same region, never chosen again."""
        sim = lj.Simulation(self.sim.model, self.sim.method, dt=self.sim.dt)
        self.restart()
        sim.restore(self.sim.snapshot())
        sim.tune(update_every=_NEVER)
        sim.step()
        return Segment(sim, least=self.steps, again=self._again)


def race_sizes(rows: dict[int, dict[str, Any]], segments: dict[int, Segment], key: str, seconds: float) -> None:
    """Time segments of all sizes in turns; write times [us], ratios to the least size, and whether all is finite."""
    times = microseconds([segment.contender(str(n)) for n, segment in segments.items()], seconds)
    for n, row in rows.items():
        row[key], row[f"{key}_ratio"] = times[str(n)], times[str(n)] / times[str(min(rows))]
        row["finite"] = "yes" if segments[n].finite() and row.get("finite") != "NO" else "NO"


def adaptive(model: lj.Model, budget: int, dt: float, warm: int) -> lj.Simulation:
    """Return a simulation of `budget` joints after `warm` steps."""
    return warmed(model, lj.Adaptive(budget=budget, update_every=PERIOD), dt, warm)


def warmed(model: lj.Model, method: Any, dt: float, warm: int, push: tuple[str, Any] | None = None) -> lj.Simulation:
    """Return a simulation by any method after `warm` steps; `push` is a body and the force on it [N]."""
    sim = lj.Simulation(model, method, dt=dt)
    if push is not None:
        sim.apply_wrench(push[0], force=push[1])
    sim.step(warm)
    return sim


def motion_error(sim: lj.Simulation, reference: np.ndarray, size: float) -> float:
    """Return the mean distance of the bodies from where they are in `reference` (body_count, 3), per `size` [m]."""
    return float(np.linalg.norm(sim.positions - reference, axis=1).mean() / size)


def resident_bytes() -> int | None:
    """Return the memory this process holds now, where the system tells."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return None
    import resource

    return pages * resource.getpagesize()
