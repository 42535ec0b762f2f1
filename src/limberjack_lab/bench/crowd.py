"""Table `crowd`: one step of a crowd of people, each pushed on the chest, gravity on, no contact."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import limberjack as lj
from limberjack import scenes
from limberjack_lab.bench.clock import Best, Contender, race
from limberjack_lab.bench.peers import PinocchioTwin, bare, mujoco_model, rollout
from limberjack_lab.bench.table import MISSING, Table, Watch, columns, difference, peer, ratio

__all__ = ["TITLE", "Crowd", "fill"]

TITLE = "a crowd of people of 89 bodies and 95 dofs each, every chest pushed with 50 N"
FIGURES, QUICK_FIGURES = 200, 20
_DT = 1e-3
_CHEST, _PUSH = "thorax", np.array((50.0, 0.0, 0.0))
# MuJoCo's rollout steps one figure this often before it turns to the next: its best case, all data in the cache.
_ROLLOUT = 10

_COLUMNS = columns(
    "who: engine; threads: threads; forward: forward|dynamics [ms]; step: whole|step [ms]; "
    "forward_ratio: forward /|ours, 1 thread [x]; step_ratio: step /|ours, 1 thread [x]; gap: qdd and|ours [rel]; "
    "build: build [s]"
)


class Crowd:
    """The crowd's models and the state all engines start from.

    Joints are bare, without dampers and limits, since each engine has its own way with those.
    """

    def __init__(self, figures: int) -> None:
        self.figures = figures
        earth = (0.0, 0.0, -9.81)
        self.whole = bare(scenes.crowd(figures=figures, limits=None, gravity=earth))
        self.one = bare(scenes.crowd(figures=1, limits=None, gravity=earth))
        self.q = self.whole.q0.copy()
        self.qd = np.random.default_rng(0).uniform(-0.1, 0.1, self.whole.nv)
        self.chests = [i for i, name in enumerate(self.whole.body_names) if name.split("/")[-1] == _CHEST]
        self.wrenches = np.zeros((self.whole.body_count, 6))
        self.wrenches[self.chests, 3:] = _PUSH
        self.qdd = lj.forward_dynamics(self.whole, self.q, self.qd, wrenches=self.wrenches)

    def states(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return q and qd of each figure."""
        shape = (self.figures, -1)
        return list(zip(self.q.reshape(shape), self.qd.reshape(shape), strict=True))

    def push_forces(self, q: np.ndarray) -> np.ndarray:
        """Return the generalised forces (nv,) of one figure that act as the push on its chest."""
        chest = next(name for name in self.one.body_names if name.split("/")[-1] == _CHEST)
        return lj.jacobian(self.one, q, chest)[3:].T @ _PUSH


@dataclass
class _Entry:
    """A row to come: what to time, how far its answer is from ours, how long it took to build."""

    who: str
    threads: int = 1
    forward: Contender | None = None
    step: Contender | None = None
    gap: float = 0.0
    build: float | None = None


def _ours(crowd: Crowd, threads: int, units: int) -> _Entry:
    """Return our row; several `units` (steps a call) are like MuJoCo's rollout, one wakes a thread each step."""
    begin = time.perf_counter()
    sim = lj.Simulation(crowd.whole, lj.Full(threads=threads, integrator="semi_implicit"), dt=_DT)

    def restart() -> None:
        sim.q, sim.qd = crowd.q, crowd.qd

    for i in crowd.chests:
        sim.apply_wrench(crowd.whole.body_names[i], force=_PUSH)
    build = time.perf_counter() - begin
    restart()
    sim.step()
    gap = difference((sim.qd - crowd.qd) / _DT, crowd.qdd)
    step = Contender(_key(threads, units), lambda: sim.step(units), units=units, prepare=restart)
    if threads == units == 1:
        forward = Contender(
            "ours forward", lambda: lj.forward_dynamics(crowd.whole, crowd.q, crowd.qd, wrenches=crowd.wrenches)
        )
        return _Entry("Limberjack, one model of all", 1, forward, step, gap, build)
    who = f"Limberjack, Full(threads={threads}), {units} step{'s' * (units > 1)} a call"
    return _Entry(who, threads, None, step, gap, build)


def _key(threads: int, units: int) -> str:
    return f"ours {threads} x {units}"


def _mujoco_whole(mujoco: Any, crowd: Crowd) -> _Entry:
    begin = time.perf_counter()
    model = mujoco_model(crowd.whole, dt=_DT)
    data = mujoco.MjData(model)
    build = time.perf_counter() - begin

    def restart() -> None:
        data.qpos[:], data.qvel[:] = crowd.q, crowd.qd

    restart()
    data.xfrc_applied[1 + np.array(crowd.chests), :3] = _PUSH
    mujoco.mj_forward(model, data)
    gap = difference(data.qacc, crowd.qdd)
    forward = Contender("mujoco whole forward", lambda: mujoco.mj_forward(model, data), prepare=restart)
    step = Contender("mujoco whole step", lambda: mujoco.mj_step(model, data), prepare=restart)
    return _Entry("MuJoCo, one model of all", 1, forward, step, gap, build)


def _mujoco_each(mujoco: Any, crowd: Crowd) -> list[_Entry]:
    begin = time.perf_counter()
    model, states = mujoco_model(crowd.one, dt=_DT), crowd.states()
    several = [mujoco.MjData(model) for _ in states]
    build = time.perf_counter() - begin
    chest = 1 + crowd.chests[0]

    def restart() -> None:
        for data, (q, qd) in zip(several, states, strict=True):
            data.qpos[:], data.qvel[:] = q, qd

    def each(function: Callable[[Any, Any], None]) -> Callable[[], None]:
        def call() -> None:
            for data in several:
                function(model, data)

        return call

    restart()
    for data in several:
        data.xfrc_applied[chest, :3] = _PUSH
    each(mujoco.mj_forward)()
    gap = difference(np.concatenate([data.qacc for data in several]), crowd.qdd)
    forward = Contender("mujoco each forward", each(mujoco.mj_forward), prepare=restart)
    step = Contender("mujoco each step", each(mujoco.mj_step), prepare=restart)
    loop = _Entry(f"MuJoCo, {crowd.figures} MjData in a Python loop", 1, forward, step, gap, build)
    return [loop, *(_rollout(mujoco, model, crowd, threads) for threads in (1, 2))]


def _rollout(mujoco: Any, model: Any, crowd: Crowd, threads: int) -> _Entry:
    push = np.zeros((model.nbody, 6))
    push[1 + crowd.chests[0], :3] = _PUSH
    q, qd = zip(*crowd.states(), strict=True)
    run, after = rollout(mujoco, model, np.array(q), np.array(qd), threads=threads, wrenches=push)
    gap = difference((after.ravel() - crowd.qd) / _DT, crowd.qdd)
    step = Contender(f"mujoco rollout {threads}", lambda: run(_ROLLOUT), units=_ROLLOUT)
    return _Entry(f"MuJoCo, rollout of {crowd.figures}, {_ROLLOUT} steps each", threads, None, step, gap)


def _pinocchio(pin: Any, crowd: Crowd) -> list[_Entry]:
    begin = time.perf_counter()
    twin, states = PinocchioTwin(crowd.one), crowd.states()
    model, data = twin.model, twin.model.createData()
    build = time.perf_counter() - begin
    inputs = [(twin.q(q), twin.v(q, qd), twin.v(q, crowd.push_forces(q))) for q, qd in states]

    def gap(columns: list[np.ndarray]) -> float:
        return difference(
            np.concatenate([twin.qdd(q, qd, a) for (q, qd), a in zip(states, columns, strict=True)]),
            crowd.qdd,
        )

    def forward() -> None:
        for q, v, tau in inputs:
            pin.aba(model, data, q, v, tau)

    def step() -> None:
        for q, v, tau in inputs:
            pin.integrate(model, q, _DT * (v + _DT * pin.aba(model, data, q, v, tau)))

    found = gap([pin.aba(model, data, *one).copy() for one in inputs])
    who = f"pinocchio, {crowd.figures} x aba (+ integrate) in a Python loop"
    out = [_Entry(who, 1, Contender("pin forward", forward), Contender("pin step", step), found, build)]
    for threads in (1, 2) if hasattr(pin, "abaInParallel") else ():
        q, qd = (np.array(x) for x in zip(*states, strict=True))
        call, a = twin.in_parallel(q, qd, np.array([crowd.push_forces(one) for one in q]), threads)
        call()
        both = Contender(f"pin parallel {threads}", call)
        out.append(_Entry("pinocchio, abaInParallel", threads, both, None, gap(list(a.T))))
    return out


def _entries(table: Table, crowd: Crowd, watch: Watch) -> list[_Entry]:
    watch("compiling our kernels", 1)
    out = [_ours(crowd, threads, units) for units in (1, _ROLLOUT) for threads in (1, 2)]
    pin, mujoco = peer("pinocchio", table), peer("mujoco", table)
    watch("building for pinocchio", 1)
    out += [_Entry(f"pinocchio: {MISSING}")] if pin is None else _pinocchio(pin, crowd)
    watch("building for MuJoCo, figure by figure", 1)
    out += [_Entry(f"MuJoCo: {MISSING}")] if mujoco is None else _mujoco_each(mujoco, crowd)
    if mujoco is not None:
        watch(
            f"MuJoCo compiles one model of {crowd.whole.body_count:,} bodies (200 figures take about a minute)",
            1,
        )
        out.insert(4, _mujoco_whole(mujoco, crowd))
    return out


def _enter(table: Table, rows: list[dict[str, Any]], entries: list[_Entry], times: dict[str, Best]) -> None:
    """Write times [ms] and ratios; processor time on one thread, wall time on several."""
    for row, entry in zip(rows, entries, strict=True):
        for word in ("forward", "step"):
            contender: Contender | None = getattr(entry, word)
            if contender is not None:
                best = times[contender.key]
                row[word] = table.trust(entry.who, entry.gap, 1e3 * (best.cpu if entry.threads == 1 else best.wall))
        row["forward_ratio"] = ratio(row.get("forward"), rows[0].get("forward"))
        row["step_ratio"] = ratio(row.get("step"), rows[0].get("step"))


def _bars(table: Table, rows: list[dict[str, Any]], scaling: float | None) -> None:
    def best(word: str) -> float | None:
        theirs = [
            row[word]
            for row in rows
            if row["threads"] == 1 and not row["who"].startswith("Limberjack") and isinstance(row.get(word), float)
        ]
        return min(theirs, default=None)

    table.bar(f"best peer's step on one thread / ours, {FIGURES} figures", best("step_ratio"), 2.5)
    table.bar(f"best peer's forward dynamics on one thread / ours, {FIGURES} figures", best("forward_ratio"), 2.5)
    text = f"our step on one thread / on two, wall time, {_ROLLOUT} steps a call, {FIGURES} figures"
    table.bar(text, scaling, 1.8)


def fill(table: Table, quick: bool, watch: Watch, figures: int | None = None) -> None:
    """Measure the table; see `TABLES`."""
    figures = figures or (QUICK_FIGURES if quick else FIGURES)
    watch.begin(5)
    watch(f"building {figures} figures", 1)
    crowd = Crowd(figures)
    model: lj.Model = crowd.whole
    part = table.part(f"{figures} figures: {model.body_count:,} bodies, {model.nv:,} dofs", *_COLUMNS)
    table.note("one thread: processor time; two threads: wall time; best of samples taken in turns; dt 1 ms")
    table.note(
        "joints without dampers and limits everywhere; pinocchio takes the push as joint forces, which costs it nothing"
    )
    table.note("pinocchio's step is aba and integrate; MuJoCo's is mj_step with its Euler integrator, contacts off")
    scaling = None
    try:
        entries = _entries(table, crowd, watch)
        for e in entries:
            part.add(who=e.who, threads=e.threads, gap=e.gap if e.forward or e.step else None, build=e.build)
        watch("measuring")
        contenders = [one for entry in entries for one in (entry.forward, entry.step) if one is not None]
        times = race(contenders, seconds=1.0 if quick else 20.0, rounds=5)
        _enter(table, part.rows, entries, times)
        scaling = ratio(times[_key(1, _ROLLOUT)].wall, times[_key(2, _ROLLOUT)].wall)
    finally:
        _bars(table, part.rows, scaling)
