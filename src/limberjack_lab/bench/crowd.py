"""Table `crowd`: one step of a crowd of people, each pushed on the chest, gravity on, no contact."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

import limberjack as lj
from limberjack import scenes
from limberjack_lab.bench.clock import Best, Contender, race, repeated
from limberjack_lab.bench.crowd_budgets import costs, hold, large, shares
from limberjack_lab.bench.peers import PinocchioTwin, bare, mujoco_model, mujoco_state, rollout
from limberjack_lab.bench.table import MISSING, Table, Watch, columns, difference, peer, ratio

__all__ = ["DT", "PUSH", "ROLLOUT", "TITLE", "Crowd", "fill"]

TITLE = "a crowd of people of 89 bodies and 95 dofs each, every chest pushed with 50 N"
FIGURES, QUICK_FIGURES = 200, 20
DT = 1e-3
_CHEST, PUSH = "thorax", np.array((50.0, 0.0, 0.0))
# MuJoCo's rollout steps one figure this often before it turns to the next: its best case, all data in the cache.
ROLLOUT = 10

_COLUMNS = columns(
    "who: engine; threads: threads; forward: forward|dynamics [ms]; step: whole|step [ms]; "
    "forward_ratio: forward /|ours, 1 thread [x]; step_ratio: step /|ours, 1 thread [x]; gap: qdd and|ours [rel]; "
    "build: build [s]"
)


class Crowd:
    """The crowd's models and the state all engines start from.

    Joints are bare, without dampers and limits, since each engine has its own way with those.
    """

    def __init__(self, figures: int, gravity: float = -9.81) -> None:
        self.figures = figures
        options: dict[str, Any] = {"limits": None, "gravity": (0.0, 0.0, gravity)}
        self.whole = bare(scenes.crowd(figures=figures, **options))
        self.one = bare(scenes.crowd(figures=1, vary=0.0, **options))
        self.q = self.whole.q0.copy()
        self.qd = np.random.default_rng(0).uniform(-0.1, 0.1, self.whole.nv)
        # (figures, nq) and (figures, nv) of each figure
        self.states = self.q.reshape(figures, -1), self.qd.reshape(figures, -1)
        self.chests = [i for i, name in enumerate(self.whole.body_names) if name.split("/")[-1] == _CHEST]
        self.wrenches = np.zeros((self.whole.body_count, 6))
        self.wrenches[self.chests, 3:] = PUSH

    @cached_property
    def qdd(self) -> np.ndarray:
        """The accelerations of the crowd that is pushed (nv,)."""
        return lj.forward_dynamics(self.whole, self.q, self.qd, wrenches=self.wrenches)

    def pushed(self, method: Any, figures: int, qd: np.ndarray | None = None) -> lj.Simulation:
        """Return a simulation at the start, with the chests of the first `figures` pushed."""
        sim = lj.Simulation(self.whole, method, dt=DT, qd=qd)
        for i in self.chests[:figures]:
            sim.apply_wrench(self.whole.body_names[i], force=PUSH)
        return sim

    def push_forces(self, q: np.ndarray) -> np.ndarray:
        """Return the generalised forces (nv,) of one figure that act as the push on its chest."""
        chest = next(name for name in self.one.body_names if name.split("/")[-1] == _CHEST)
        return lj.jacobian(self.one, q, chest)[3:].T @ PUSH


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
    sim = crowd.pushed(lj.Full(threads=threads, integrator="semi_implicit"), crowd.figures, crowd.qd)
    build = time.perf_counter() - begin
    step = repeated(_key(threads, units), sim, units)
    sim.step()
    gap = difference((sim.qd - crowd.qd) / DT, crowd.qdd)
    if threads == units == 1:
        forward = Contender(
            "ours forward", lambda: lj.forward_dynamics(crowd.whole, crowd.q, crowd.qd, wrenches=crowd.wrenches)
        )
        return _Entry("Limberjack, one model of all", 1, forward, step, gap, build)
    who = f"Limberjack, Full(threads={threads}), {units} step{'s' * (units > 1)} a call"
    return _Entry(who, threads, None, step, gap, build)


def _key(threads: int, units: int) -> str:
    return f"ours {threads} x {units}"


def _mujoco_whole(mujoco: Any, crowd: Crowd) -> list[_Entry]:
    begin = time.perf_counter()
    model = mujoco_model(crowd.whole, dt=DT)
    data, restart = mujoco_state(mujoco, model, crowd.q, crowd.qd)
    build, flags = time.perf_counter() - begin, model.opt.enableflags
    data.xfrc_applied[1 + np.array(crowd.chests), :3] = PUSH
    mujoco.mj_forward(model, data)
    gap = difference(data.qacc, crowd.qdd)

    def restarted(more: int) -> Callable[[], None]:
        def call() -> None:
            model.opt.enableflags = flags | more
            restart()

        return call

    def step() -> None:
        mujoco.mj_step(model, data)

    forward = Contender("mujoco whole forward", lambda: mujoco.mj_forward(model, data), prepare=restarted(0))
    plain = Contender("mujoco whole step", step, prepare=restarted(0))
    out = [_Entry("MuJoCo, one model of all", 1, forward, plain, gap, build)]
    sleep = getattr(mujoco.mjtEnableBit, "mjENBL_SLEEP", None)
    if sleep is not None:
        sleepy = Contender("mujoco whole sleep", step, prepare=restarted(int(sleep)))
        out.append(_Entry("MuJoCo, one model of all, trees may sleep", 1, None, sleepy, gap))
    return out


def _mujoco_each(mujoco: Any, crowd: Crowd) -> list[_Entry]:
    begin = time.perf_counter()
    model = mujoco_model(crowd.one, dt=DT)
    several = [mujoco_state(mujoco, model, q, qd) for q, qd in zip(*crowd.states, strict=True)]
    build = time.perf_counter() - begin

    def restart() -> None:
        for _, again in several:
            again()

    def each(function: Callable[[Any, Any], None]) -> Callable[[], None]:
        def call() -> None:
            for data, _ in several:
                function(model, data)

        return call

    for data, _ in several:
        data.xfrc_applied[1 + crowd.chests[0], :3] = PUSH
    each(mujoco.mj_forward)()
    gap = difference(np.concatenate([data.qacc for data, _ in several]), crowd.qdd)
    forward = Contender("mujoco each forward", each(mujoco.mj_forward), prepare=restart)
    step = Contender("mujoco each step", each(mujoco.mj_step), prepare=restart)
    loop = _Entry(f"MuJoCo, {crowd.figures} MjData in a Python loop", 1, forward, step, gap, build)
    return [loop, *(_rollout(mujoco, model, crowd, threads) for threads in (1, 2))]


def _rollout(mujoco: Any, model: Any, crowd: Crowd, threads: int) -> _Entry:
    push = np.zeros((model.nbody, 6))
    push[1 + crowd.chests[0], :3] = PUSH
    run, after = rollout(mujoco, model, *crowd.states, threads=threads, wrenches=push)
    gap = difference((after.ravel() - crowd.qd) / DT, crowd.qdd)
    step = Contender(f"mujoco rollout {threads}", lambda: run(ROLLOUT), units=ROLLOUT)
    return _Entry(f"MuJoCo, rollout of {crowd.figures}, {ROLLOUT} steps each", threads, None, step, gap)


def _pinocchio(pin: Any, crowd: Crowd) -> list[_Entry]:
    begin = time.perf_counter()
    twin = PinocchioTwin(crowd.one)
    model, data = twin.model, twin.model.createData()
    build = time.perf_counter() - begin
    push = np.array([crowd.push_forces(q) for q in crowd.states[0]])
    inputs = [(twin.q(q), twin.v(q, qd), twin.v(q, tau)) for q, qd, tau in zip(*crowd.states, push, strict=True)]

    def gap(columns: list[np.ndarray]) -> float:
        ours = [twin.qdd(q, qd, a) for q, qd, a in zip(*crowd.states, columns, strict=True)]
        return difference(np.concatenate(ours), crowd.qdd)

    def forward() -> None:
        for q, v, tau in inputs:
            pin.aba(model, data, q, v, tau)

    def step() -> None:
        for q, v, tau in inputs:
            pin.integrate(model, q, DT * (v + DT * pin.aba(model, data, q, v, tau)))

    found = gap([pin.aba(model, data, *one).copy() for one in inputs])
    who = f"pinocchio, {crowd.figures} x aba (+ integrate) in a Python loop"
    out = [_Entry(who, 1, Contender("pin forward", forward), Contender("pin step", step), found, build)]
    for threads in (1, 2) if hasattr(pin, "abaInParallel") else ():
        call, a = twin.in_parallel(*crowd.states, push, threads)
        call()
        both = Contender(f"pin parallel {threads}", call)
        out.append(_Entry("pinocchio, abaInParallel", threads, both, None, gap(list(a.T))))
    return out


def _entries(table: Table, crowd: Crowd, watch: Watch) -> list[_Entry]:
    watch("compiling our kernels", 1)
    out = [_ours(crowd, threads, units) for units in (1, ROLLOUT) for threads in (1, 2)]
    pin, mujoco = peer("pinocchio", table), peer("mujoco", table)
    watch("building for pinocchio", 1)
    out += [_Entry(f"pinocchio: {MISSING}")] if pin is None else _pinocchio(pin, crowd)
    watch("building for MuJoCo, figure by figure", 1)
    out += [_Entry(f"MuJoCo: {MISSING}")] if mujoco is None else _mujoco_each(mujoco, crowd)
    if mujoco is not None:
        watch(f"MuJoCo compiles one model of {crowd.whole.body_count:,} bodies (200 figures take about a minute)", 1)
        out[4:4] = _mujoco_whole(mujoco, crowd)
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


def _best_peer(rows: list[dict[str, Any]], word: str) -> float | None:
    """Return the least number of peers on one thread."""
    theirs = (row for row in rows if row["threads"] == 1 and not row["who"].startswith("Limberjack"))
    return min((row[word] for row in theirs if isinstance(row.get(word), float)), default=None)


def _bars(table: Table, rows: list[dict[str, Any]], two: float, scaling: float | None) -> None:
    steps, forwards = _best_peer(rows, "step_ratio"), _best_peer(rows, "forward_ratio")
    table.bar(f"best peer's step on one thread / ours, {FIGURES} figures", steps, 5.0)
    table.bar(
        f"best peer's step on one thread / ours on two, {FIGURES} figures", ratio(_best_peer(rows, "step"), two), 9.0
    )
    table.bar(f"best peer's forward dynamics on one thread / ours, {FIGURES} figures", forwards, 2.5)
    text = f"our step on one thread / on two, wall time, {ROLLOUT} steps a call, {FIGURES} figures"
    table.bar(text, scaling, 1.8)


def fill(table: Table, quick: bool, watch: Watch, figures: int | None = None) -> None:
    """Measure the table; see `TABLES`."""
    figures = figures or (QUICK_FIGURES if quick else FIGURES)
    watch.begin(19)
    watch(f"building {figures} figures", 1)
    crowd = Crowd(figures)
    model: lj.Model = crowd.whole
    part = table.part(f"{figures} figures: {model.body_count:,} bodies, {model.nv:,} dofs", *_COLUMNS)
    table.note(
        "one thread: processor time; two threads: wall time; best of samples taken in turns; dt 1 ms",
        "joints without dampers and limits; pinocchio takes the push as joint forces, which costs it nothing",
        "pinocchio's step is aba and integrate; MuJoCo's is mj_step with its Euler integrator, contacts off",
    )
    entries = _entries(table, crowd, watch)
    for e in entries:
        part.add(who=e.who, threads=e.threads, gap=e.gap if e.forward or e.step else None, build=e.build)
    watch("measuring")
    contenders = [one for entry in entries for one in (entry.forward, entry.step) if one is not None]
    times = race(contenders, seconds=1.0 if quick else 20.0, rounds=5)
    _enter(table, part.rows, entries, times)
    one, two = times[_key(1, ROLLOUT)].wall, times[_key(2, ROLLOUT)].wall
    _bars(table, part.rows, 1e3 * two, ratio(one, two))
    shares(table, crowd, _best_peer(part.rows, "step"), quick, watch)
    hold(table, quick, watch)
    costs(table, quick, watch)
    large(table, quick, watch)
