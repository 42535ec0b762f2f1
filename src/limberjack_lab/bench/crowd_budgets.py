"""Parts of table `crowd`: a share of the joints, a time to hold, and what a figure costs."""

from __future__ import annotations

import gc
import time
from typing import Any

import numpy as np

import limberjack as lj
from limberjack import scenes
from limberjack_lab.bench.clock import Contender, race, repeated, resident_bytes
from limberjack_lab.bench.table import Table, Watch, ratio
from limberjack_lab.bench.viewer import pictures_shown

__all__ = ["costs", "hold", "large", "shares"]

_SHARES = (1.0, 0.5, 0.25, 0.1, 0.05, 0.01)
_BARS = {0.1: 25.0, 0.01: 80.0}
_STEPS = 20
# Frames of each load, of which the first are not counted: the budget is on its way.
_FRAMES, _SETTLING, _LOADS = 120, 40, (1, 3, 1)
_FRAME = 16.6
# The large crowd: its people, and steps of 1/120 s in a frame of a film.
_MANY, _STEPS_PER_FRAME = 5000, 4


def _method(crowd: Any, share: float, threads: int) -> Any:
    joints = 88 * crowd.figures
    return lj.Full(threads=threads) if share == 1.0 else lj.Adaptive(budget=round(share * joints), threads=threads)


def shares(table: Table, crowd: Any, peer_ms: float | None, quick: bool, watch: Watch) -> None:
    """Measure the crowd at shares of its joints against the best peer's step on one thread, and how far it is off.

    Args:
        table: to add a part to.
        crowd: the crowd of the table.
        peer_ms: the best peer's step of the whole crowd on one thread [ms].
        quick: whether times are short.
        watch: shows progress.
    """
    part = table.part(
        "the same crowd, a share of its joints simulated",
        "share: joints [%]; one: step, 1|thread [ms]; two: step, 2|threads [ms]; one_ratio: best peer /|1 thread [x]; "
        "two_ratio: best peer /|2 threads [x]; error: bodies off full|after 1 s, median [mm]",
    )
    table.note(
        "shares: variational step, changes of the joints included; the best peer's step is that on one thread",
        "every chest is pushed, so that no tree of MuJoCo's would sleep",
    )
    contenders, ends = list[Contender](), dict[float, np.ndarray]()
    for share in _SHARES:
        watch(f"{share:.0%} of the joints", 1)
        far = crowd.pushed(_method(crowd, share, 2), crowd.figures, crowd.qd)
        far.step(100 if quick else 1000)
        ends[share] = far.positions
        for threads in (1, 2):
            sim = crowd.pushed(_method(crowd, share, threads), crowd.figures, crowd.qd)
            sim.step(3 * _STEPS)
            contenders.append(repeated(f"{share} x {threads}", sim, _STEPS))
    times = race(contenders, seconds=1.0 if quick else 20.0, rounds=5)
    for share in _SHARES:
        one, two = 1e3 * times[f"{share} x 1"].cpu, 1e3 * times[f"{share} x 2"].wall
        off = float(np.median(np.linalg.norm(ends[share] - ends[1.0], axis=1)))
        part.add(
            share=100.0 * share, one=one, two=two, one_ratio=ratio(peer_ms, one), two_ratio=ratio(peer_ms, two),
            error=1e3 * off,
        )  # fmt: skip
        if share in _BARS:
            text = f"best peer's step on one thread / ours at {share:.0%} of the joints on two"
            table.bar(text, part.rows[-1]["two_ratio"], _BARS[share])


def hold(table: Table, quick: bool, watch: Watch) -> None:
    """Measure how well a crowd holds the time of a frame while steps per frame, the load, change threefold."""
    figures, frames = (8, 12) if quick else (100, _FRAMES)
    settling = frames // 3
    watch(f"holding {_FRAME} ms", 1)
    part = table.part(
        f"{figures} people under milliseconds={_FRAME}, steps per frame changing threefold",
        "steps: steps per|frame; median: median|frame [ms]; largest: largest|frame [ms]; budget: joints at|the end",
    )
    crowd = lj.Crowd(scenes.humanoid(), figures, milliseconds=_FRAME, dt=1 / 240)
    crowd.reset(seed=1)
    for load in _LOADS:
        spent = list[float]()
        for _ in range(frames):
            begin = time.perf_counter()
            crowd.step(4 * load)
            spent.append(1e3 * (time.perf_counter() - begin))
        settled = spent[settling:]
        budget: Any = crowd.budget
        part.add(steps=4 * load, median=float(np.median(settled)), largest=max(settled), budget=budget)
    medians: list[Any] = [row["median"] for row in part.rows]
    largest: list[Any] = [row["largest"] for row in part.rows]
    table.bar(
        f"median frame off {_FRAME} ms, largest of three loads [part]",
        max(abs(one / _FRAME - 1.0) for one in medians), 0.1, at_least=False,
        reason="a crowd that needs less than its time even with all joints does not fill it",
    )  # fmt: skip
    table.bar(f"largest frame / {_FRAME} ms", max(largest) / _FRAME, 2.0, at_least=False)


def large(table: Table, quick: bool, watch: Watch) -> None:
    """Measure a stadium of people, 2 % of whose joints move: a step, a frame, memory, and pictures while it runs."""
    figures, frames = (20, 5) if quick else (_MANY, 60)
    watch(f"{figures:,} people", 1)
    part = table.part(
        f"scene stadium: {figures:,} people, {89 * figures:,} bodies, 2 % of the joints, two threads, wall time",
        "build: build [s]; memory: memory per|figure [kB]; step: step,|median [ms]; worst: step,|largest [ms]; "
        "frame: frame of 4|steps, median [ms]; pictures: pictures|shown [1/s]",
    )
    gc.collect()
    memory, begin = resident_bytes() or 0, time.perf_counter()
    scene = scenes.get("stadium", figures=figures)
    sim = lj.Simulation(scene.model, scene.method, dt=scene.dt)
    build = time.perf_counter() - begin

    drive: Any = scene.drive

    def spent(steps: int) -> float:
        begin = time.perf_counter()
        drive(sim)
        sim.step(steps)
        return 1e3 * (time.perf_counter() - begin)

    for _ in range(frames):
        spent(1)
    memory = (resident_bytes() or 0) - memory
    steps = [spent(1) for _ in range(_STEPS_PER_FRAME * frames)]
    whole = [spent(_STEPS_PER_FRAME) for _ in range(frames)]
    shown = pictures_shown(scene, 30.0, 1.0 if quick else 5.0, table)
    part.add(
        build=build, memory=1e-3 * memory / figures, step=float(np.median(steps)), worst=max(steps),
        frame=float(np.median(whole)), pictures=shown,
    )  # fmt: skip
    table.bar(f"a step of {figures:,} people, median [ms]", part.rows[-1]["step"], 33.0, at_least=False)
    table.bar(f"memory per figure of {figures:,} [kB]", part.rows[-1]["memory"], 500.0, at_least=False)
    table.bar(f"pictures per second of {figures:,} people, one page open", shown, 20.0)
    table.note(
        "pictures: those that the server makes while the scene runs in real time, as far as it can, in its thread"
    )


def costs(table: Table, quick: bool, watch: Watch) -> None:
    """Measure what a figure costs: to build, in memory, to step, and as the state that a shard sends."""
    few, many = (4, 12) if quick else (100, 400)
    part = table.part(
        f"what a figure of 89 bodies costs, from {few} to {many} figures",
        "method: method; build: build [ms]; memory: memory [kB]; memory_joint: memory per|joint [kB]; "
        "active: step per|active joint [ns]; state: state [kB]",
    )
    figure = scenes.humanoid()
    for name, share in (("full", None), ("adaptive, 2 %", 0.02), ("adaptive, 10 %", 0.1)):
        watch(f"what figures cost: {name}", 1)
        seen = list[tuple[float, ...]]()
        for count in (few, few, many):  # the first loads the kernels, and is not counted
            gc.collect()
            memory, begin = resident_bytes() or 0, time.process_time()
            crowd = lj.Crowd(figure, count, budget=share, dt=1 / 120, threads=1)
            build = time.process_time() - begin
            crowd.reset(seed=1)
            crowd.step(20)
            memory = (resident_bytes() or 0) - memory
            best = min(_step_seconds(crowd) for _ in range(5))
            state = crowd.q.nbytes + crowd.qd.nbytes
            active = 88 * count if share is None else round(share * 88 * count)
            seen.append((build, memory, best, state, active))
            del crowd
        build, memory, best, state, active = (b - a for a, b in zip(*seen[1:], strict=True))
        per = 1.0 / (many - few)
        part.add(
            method=name, build=1e3 * build * per, memory=1e-3 * memory * per, memory_joint=1e-3 * memory * per / 88,
            active=1e9 * best / active, state=1e-3 * state * per,
        )  # fmt: skip
    table.note(
        "costs are differences between two sizes, over their figures: what the library itself needs is not there"
    )


def _step_seconds(crowd: lj.Crowd) -> float:
    begin = time.thread_time()
    crowd.step(20)
    return (time.thread_time() - begin) / 20
