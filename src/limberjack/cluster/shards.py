"""`crowd`: a crowd in shards, each a crowd of its own, simulated in chunks of time on the workers of a cluster."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from limberjack.cluster.plan import Plan, planned
from limberjack.cluster.records import Sweep
from limberjack.cluster.sweep import evaluate
from limberjack.cluster.workers import Task
from limberjack.crowd.crowd import Crowd
from limberjack.errors import StateError
from limberjack.simulation.snapshots import Snapshot

__all__ = ["crowd"]

_CLOCK = ("steps", "base_steps", "base_time", "dt")
_STATE = "state_"


def crowd(
    make: Callable[..., Crowd],
    figures: int,
    seconds: float,
    folder: str | Path,
    address: str | None = None,
    *,
    shard: int = 100,
    chunk: float = 1.0,
    drive: Callable[[Crowd], None] | None = None,
    measure: Callable[[Crowd], Mapping[str, Any]] | None = None,
    workers: int | None = None,
    seed: int = 0,
    resume: bool = True,
    progress: bool = False,
) -> Sweep:
    """Simulate a crowd in shards that do not touch each other; return what was measured, one row per shard and chunk.

    A task is one chunk of time of one shard: the state at the end of the chunk before goes in, the state at the end of
    its own comes out, both on the disk of the caller. So a task whose worker was lost is repeated elsewhere, and the
    same call continues what was interrupted; results are the same bits with any number of workers, and in one process.

    Args:
        make: of (first, count) or (first, count, seed): returns the crowd of the figures from number `first` on.
        figures: how many in all.
        seconds: how long [s].
        folder: where the results go, as of `sweep`.
        address: of a scheduler of dask.distributed; a cluster of processes on this machine when None.
        shard: figures of a shard; a multiple of four keeps figures together that are stepped together, so that shards
            of method `full` move as they would in one crowd, bit for bit.
        chunk: time of a task [s].
        drive: called with the crowd before each of its steps.
        measure: called with the crowd at the end of each chunk; returns what is stored, numbers or arrays. None stores
            the energies [J] and the positions of the first bodies.
        workers, seed, resume, progress: as of `sweep`; all chunks of a shard have the same seed.

    Raises:
        ClusterLost, FileError: as of `sweep`.
    """
    plan = _planned(make, figures, seconds, shard, chunk, seed, (drive, measure))
    function = _Chunk(make, drive, measure, float(chunk))
    shards = -(-int(figures) // int(shard))
    return evaluate(
        function, plan, folder, lambda out: _Ready(out, shards, _seeded(make)), address=address, workers=workers,
        resume=resume, progress=progress,
    )  # fmt: skip


def _planned(make: Any, figures: Any, seconds: Any, shard: Any, chunk: Any, seed: Any, calls: tuple[Any, ...]) -> Plan:
    for name, value in (("figures", figures), ("shard", shard)):
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
            raise StateError(f"{name} must be a whole number >= 1, got {value!r}")
    for name, value in (("seconds", seconds), ("chunk", chunk)):
        if not isinstance(value, (int, float)) or not 0.0 < value < np.inf:
            raise StateError(f"{name} must be a number > 0 [s], got {value!r}")
    chunks = max(1, round(seconds / chunk))
    if abs(chunks * chunk - seconds) > 1e-9 * seconds:
        raise StateError(f"seconds must be a multiple of chunk, got {seconds!r} and {chunk!r}")
    parts = [{"first": i, "count": min(shard, figures - i)} for i in range(0, figures, shard)]
    plan = planned(make, parts, seed, 1)
    source = hashlib.sha256(plan.source.encode())
    for call in calls:
        source.update(b"" if call is None else planned(call, [{"crowd": 0}], 0, 1).source.encode())
    runs = tuple({**part, "chunk": k, "seconds": float(chunk)} for k in range(chunks) for part in plan.parameters)
    return replace(plan, parameters=runs, source=source.hexdigest())


def _seeded(make: Callable[..., Any]) -> bool:
    return "seed" in inspect.signature(make).parameters


class _Ready:
    """The tasks that can be done now: each waits for the state at the end of the chunk before.

    Iteration ends where none is ready, and goes on when one has become so.
    """

    def __init__(self, out: Sweep, shards: int, seeded: bool) -> None:
        self._out, self._shards, self._seeded = out, shards, seeded
        self._left = list(out.left)

    def __iter__(self) -> _Ready:
        return self

    def __next__(self) -> Task:
        done = set(self._out.done)
        for k, run in enumerate(self._left):
            if run < self._shards or run - self._shards in done:
                del self._left[k]
                return Task(run, self._arguments(run))
        raise StopIteration

    def _arguments(self, run: int) -> dict[str, Any]:
        part = self._out.plan.parameters[run]
        out = {"first": part["first"], "count": part["count"]}
        if self._seeded:
            out["seed"] = self._out.plan.seed_of(run % self._shards)
        before = self._out.result(run - self._shards) if run >= self._shards else {}
        state = {name.removeprefix(_STATE): array for name, array in before.items() if name.startswith(_STATE)}
        return {"part": out, "state": state}


class _Chunk:
    """What a worker does: one chunk of time of one shard."""

    def __init__(self, make: Any, drive: Any, measure: Any, seconds: float) -> None:
        self.make, self.drive, self.measure, self.seconds = make, drive, measure, seconds

    def __call__(self, part: dict[str, Any], state: dict[str, np.ndarray]) -> dict[str, Any]:
        """Return what was measured and the state at the end."""
        figures: Any = self.make(**part)
        if not isinstance(figures, Crowd) or len(figures) != part["count"]:
            raise StateError(f"make must return a lj.Crowd of {part['count']} figures, got {figures!r}")
        if figures.paced:
            raise StateError("a crowd that follows the clock differs from run to run: give budget or budgets")
        sim, members = figures.sim, figures.figures
        if state:
            clock = {name: state[name].item() for name in _CLOCK}
            sim.restore(Snapshot(**clock, arrays={_name(k): v for k, v in state.items() if k not in _CLOCK}))
        steps = round(self.seconds / sim.dt)
        if abs(steps * sim.dt - self.seconds) > 1e-9 * self.seconds:
            raise StateError(f"chunk must be a multiple of the crowd's dt, got {self.seconds} and {sim.dt} s")
        if self.drive is None:
            figures.step(steps)
        else:
            for _ in range(steps):
                self.drive(figures)
                figures.step(1)
        if figures.figures is not members:
            raise StateError("figures cannot enter or leave a shard while it is simulated")
        end = sim.snapshot()
        measured = self.measure(figures) if self.measure else _measured(figures)
        out = {"time": sim.time, **measured, "state_hash": sim.state_hash()}
        out |= {_STATE + name: getattr(end, name) for name in _CLOCK}
        return out | {_STATE + _word(name): array for name, array in end.arrays.items()}


def _word(name: str) -> str:
    """Return the name of an array as one word."""
    return name.replace(".", "__")


def _name(word: str) -> str:
    return word.replace("__", ".")


def _measured(figures: Crowd) -> dict[str, Any]:
    energy, positions = figures.sim.energy(), figures.sim.positions
    roots = np.array([positions[bodies.start] for bodies in figures.figures.bodies])
    return {"kinetic": energy.kinetic, "potential": energy.potential, "positions": roots}
