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
from typing import Any, NamedTuple

__all__ = ["Best", "Contender", "race", "until_long"]

# A sample shorter than this would measure the clock.
_SAMPLE_SECONDS = 2e-3


@dataclass
class Contender:
    """Something to time.

    Attributes:
        key: its name in the results.
        call: does the work.
        units: evaluations or steps in one call; times are per unit.
        prepare: called before each sample, not timed; brings back the state that `call` moves.
    """

    key: str
    call: Callable[[], Any]
    units: int = 1
    prepare: Callable[[], Any] | None = None


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
        calls[one.key] = max(1, round(_SAMPLE_SECONDS / max(_sample(one, 1)[1] * one.units, 1e-9)))
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
