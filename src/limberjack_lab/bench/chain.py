"""Table `chain`: forward dynamics and one step of a serial chain of hinges, from 10 links to 100,000."""

from __future__ import annotations

from typing import Any

import numpy as np

import limberjack as lj
from limberjack import scenes
from limberjack_lab.bench.clock import Best, Contender, race, repeated
from limberjack_lab.bench.peers import PinocchioTwin, mujoco_model, mujoco_state
from limberjack_lab.bench.table import MISSING, Part, Table, Watch, cell, columns, difference, peer, ratio

__all__ = ["SIZES", "TITLE", "fill"]

TITLE = "a chain of N hinges, axes y and x in turn, random small state"
SIZES = (10, 50, 300, 1000, 3000, 100_000)
QUICK_SIZES = (10, 50)
# Pinocchio's Data grows with the cube of nv (1.7 GB at 300), MuJoCo's time nearly so.
PEER_LIMIT = 300
# Short, so that a sample of many steps stays near the start whatever the length of the chain.
_DT = 1e-4

_COLUMNS = columns(
    "n: N; call: ours,|Python call [us]; step: ours, step|semi_implicit [us]; "
    "default: ours, step|variational [us]; step_joint: ours, step|per joint [ns]; "
    "pin: pinocchio|aba [us]; mujoco: MuJoCo|mj_forward [us]; pin_call: pin /|our call [x]; "
    "pin_step: pin /|our step [x]; mujoco_call: MuJoCo /|our call [x]; pin_gap: qdd: ours|and pin [rel]; "
    "mujoco_gap: qdd: ours|and MuJoCo [rel]; residual: inverse of|forward [rel]"
)


def _residual(model: lj.Model, q: np.ndarray, qd: np.ndarray, qdd: np.ndarray) -> float:
    """Return the joint forces that qdd leaves unexplained, per the largest at qdd = 0: a check at any size."""
    bias = lj.inverse_dynamics(model, q, qd, np.zeros(model.nv))
    return float(np.abs(lj.inverse_dynamics(model, q, qd, qdd)).max() / np.abs(bias).max())


def _ours(model: lj.Model, q: np.ndarray, qd: np.ndarray, qdd: np.ndarray, gaps: dict[str, float]) -> list[Contender]:
    plain, default = (
        lj.Simulation(model, method, dt=_DT, q=q, qd=qd) for method in (lj.Full(integrator="semi_implicit"), "full")
    )
    step = repeated("step", plain)
    plain.q, plain.qd = q, qd
    plain.step()
    gaps["step"] = difference((plain.qd - qd) / _DT, qdd)
    call = Contender("call", lambda: lj.forward_dynamics(model, q, qd))
    return [call, step, repeated("default", default, step.units)]


def _pinocchio(pin: Any, model: lj.Model, q: np.ndarray, qd: np.ndarray) -> tuple[Contender, np.ndarray]:
    call, qdd = PinocchioTwin(model).aba(q, qd)
    return Contender("pin", call), qdd


def _mujoco(mujoco: Any, model: lj.Model, q: np.ndarray, qd: np.ndarray) -> tuple[Contender, np.ndarray]:
    twin = mujoco_model(model, dt=_DT)
    data, _ = mujoco_state(mujoco, twin, q, qd)
    mujoco.mj_forward(twin, data)
    return Contender("mujoco", lambda: mujoco.mj_forward(twin, data)), data.qacc.copy()


def _enter(table: Table, row: dict[str, Any], times: dict[str, Best], gaps: dict[str, float]) -> None:
    """Write the times [us] and ratios of one size; a time whose answer is wrong is not quoted."""
    n = row["n"]
    for key, best in times.items():
        gap = gaps.get(key, gaps["residual"])
        row[key] = table.trust(f"{key} at N = {n:,}", gap, 1e6 * best.cpu)
    if isinstance(row["step"], float):
        row["step_joint"] = 1e3 * row["step"] / n
    row["pin_call"], row["pin_step"] = ratio(row.get("pin"), row["call"]), ratio(row.get("pin"), row["step"])
    row["mujoco_call"] = ratio(row.get("mujoco"), row["call"])


def _measure(table: Table, row: dict[str, Any], watch: Watch, peers: dict[str, Any], seconds: float) -> None:
    n = row["n"]
    watch(f"N = {n:,}: building", 1)
    model = scenes.long_chain(links=n, damping=0.0)
    rng = np.random.default_rng(0)
    q, qd = rng.uniform(-0.3, 0.3, n), rng.uniform(-0.2, 0.2, n)
    watch(f"N = {n:,}: compiling")
    qdd = lj.forward_dynamics(model, q, qd)
    gaps = {"residual": _residual(model, q, qd, qdd)}
    contenders = _ours(model, q, qd, qdd, gaps)
    for key, make in (("pin", _pinocchio), ("mujoco", _mujoco)):
        if peers[key] is None:
            row[key] = MISSING
        elif n <= PEER_LIMIT:
            watch(f"N = {n:,}: building for {key}")
            contender, theirs = make(peers[key], model, q, qd)
            contenders.append(contender)
            row[f"{key}_gap"] = gaps[key] = difference(theirs, qdd)
    row["residual"] = gaps["residual"]
    watch(f"N = {n:,}: measuring")
    _enter(table, row, race(contenders, seconds=seconds * len(contenders)), gaps)


def _bars(table: Table, part: Part) -> None:
    rows = part.rows
    growth = ratio(cell(rows, "step_joint", n=100_000), cell(rows, "step_joint", n=1000))
    table.bar("pin / our Python call at N = 300", cell(rows, "pin_call", n=300), 2.5)
    table.bar("pin / our whole step at N = 300, steps in one call", cell(rows, "pin_step", n=300), 3.0)
    table.bar("step, ns per joint at 100,000 over that at 1000", growth, 2.0, False)


def fill(table: Table, quick: bool, watch: Watch, sizes: tuple[int, ...] | None = None) -> None:
    """Measure the table; see `TABLES`."""
    sizes = sizes or (QUICK_SIZES if quick else SIZES)
    part = table.part("", *_COLUMNS)
    peers = {"pin": peer("pinocchio", table), "mujoco": peer("mujoco", table)}
    table.note(
        "one thread, processor time of that thread, best of samples taken in turns; peers are called from Python",
        "whole step: forward dynamics and integration, many steps in one call; pinocchio's aba has no integration",
        f"peers up to N = {PEER_LIMIT}: pinocchio's memory grows as N^3; MuJoCo's contacts are off",
        "rel: max |difference| / max |qdd|; inverse of forward: joint forces left by qdd / those at qdd = 0",
    )
    watch.begin(len(sizes))
    try:
        for n in sizes:
            _measure(table, part.add(n=n), watch, peers, 0.1 if quick else 1.0)
    finally:
        _bars(table, part)
