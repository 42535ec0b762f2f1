"""Table `adaptive`: few of many joints simulated, chosen anew while running, against engines that simulate all."""

from __future__ import annotations

import gc
import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

import limberjack as lj
from limberjack import errors, scenes
from limberjack_lab.bench import adaptive_peers, chains, driven, paper_grid
from limberjack_lab.bench.clock import (
    PERIOD,
    Contender,
    Segment,
    adaptive,
    microseconds,
    motion_error,
    race_sizes,
    resident_bytes,
    warmed,
)
from limberjack_lab.bench.peers import PinocchioTwin, bare
from limberjack_lab.bench.stability import energy_error
from limberjack_lab.bench.table import MISSING, Table, Watch, cell, columns, difference, peer, ratio

__all__ = ["FULL", "QUICK", "TITLE", "Extent", "fill"]

TITLE = "few of many joints simulated, chosen anew every 20 steps, everything inside"
# The timed stretch begins here, and motions are compared here [s].
_BEGIN, _COMPARED = 1.0, 5.0
# The same for the long chains and rods [steps], which take longer ones.
_WARM, _DT, _DAMPING = 1000, 1e-3, 10.0
_TIP_FORCE = (0.0, 0.0, 50.0)


@dataclass(frozen=True)
class Extent:
    """How much is measured."""

    links: int = 300  # of the pendulum
    budgets: tuple[int, ...] = (1, 5, 20, 50, 100)  # joints simulated, quiet
    churned: tuple[int, ...] = (5, 20, 50, 100)  # joints simulated, churn
    sizes: tuple[int, ...] = (300, 3000, 30_000, 300_000)  # links of the chains that must cost the same
    shaped: tuple[int, ...] = (300, 3000, 30_000)  # links of the chains with shapes that must
    size_budgets: tuple[int, ...] = (20, 5)  # joints simulated of those
    figures: int = 200  # of the crowds
    # forces and joints of the paper's table
    grid: tuple[tuple[int, ...], tuple[int, ...]] = (paper_grid.FORCES, paper_grid.JOINTS)
    rest: float = 8.0  # how long the ragdoll has lain on the ground [s]
    seconds: float = 1.5  # per contender


FULL = Extent()
QUICK = Extent(60, (1, 5, 20), (5, 20), (300, 3000), (300, 1000), (20, 5), 20, ((1, 10), (1, 50)), 0.3, 0.05)
# The one sweep without repetition first, then the default.
INTEGRATORS = ("projected", "variational")
# The promises: how many times faster the projected step is than pinocchio.aba on the whole pendulum of 300 links, and
# how much longer than it the default takes at most.
_PROMISED = {"1": 640.0, "1, force at the tip": 250.0, "5": 185.0, "20": 43.0, "50": 19.0, "100": 10.3}
_LONGER, _UPDATE_MICROSECONDS = 1.7, 30.0

_COLUMNS = columns(
    "budget: joints|simulated; integrator: integrator; active: at the|end; step: ours,|whole step [us]; "
    "pin: pinocchio aba,|all joints [us]; faster: pin /|ours [x]; full: method full,|same integrator [us]; "
    "gain: full /|ours [x]; ordinary: ours, step|between updates [us]; update: ours,|one update [us]; "
    "changes: joints changed|per update [joints]; share: region changed|per update [%]; "
    "error: distance from|the full motion [length]; rise: undamped:|most energy gained [%]; "
    "energy: undamped: energy|after 5 s, change [%]; finite: finite"
)
_SIZE_COLUMNS = columns(
    "n: N; budget: joints|simulated; quiet: pendulum,|whole step [us]; quiet_ratio: pendulum,|over least N [x]; "
    "churn: turning rod,|whole step [us]; churn_ratio: turning rod,|over least N [x]; "
    "share: rod: region|changed per update [%]; resident: memory taken|per link [bytes]; "
    "counted: memory counted|per link [bytes]; finite: finite"
)


class _Peer(NamedTuple):
    """Pinocchio on the whole pendulum: what to time, and its model."""

    contender: Contender | None
    twin: Any
    gap: float


def _pinocchio(table: Table, model: lj.Model) -> _Peer:
    """Return pinocchio's articulated body algorithm on the pendulum, without the dampers: they cost it nothing."""
    if peer("pinocchio", table) is None:
        return _Peer(None, None, 0.0)
    plain = bare(model)
    rng = np.random.default_rng(0)
    q, qd = rng.uniform(-0.3, 0.3, model.nq), rng.uniform(-0.2, 0.2, model.nv)
    twin = PinocchioTwin(plain)
    call, qdd = twin.aba(q, qd)
    return _Peer(Contender("pin", call), twin, difference(qdd, lj.forward_dynamics(plain, q, qd)))


def _compare(
    table: Table, row: dict[str, Any], segment: Segment, other: _Peer, seconds: float, full: Segment | None = None
) -> None:
    """Time a segment, the steps between its updates, method `full` and the peer in turns, and write the times [us]."""
    budget = segment.sim.method.budget
    row["changes"], row["active"] = segment.changes(), segment.sim.stats["active_joints"]
    row["share"] = 100.0 * row["changes"] / (2 * budget)
    ordinary = segment.ordinary()
    contenders = [segment.contender("step"), ordinary.contender("ordinary")]
    contenders += [other.contender] if other.contender is not None else []
    contenders += [full.contender("full")] if full is not None else []
    times = microseconds(contenders, seconds)
    row["step"], row["ordinary"] = times["step"], times["ordinary"]
    row["update"] = PERIOD * (row["step"] - row["ordinary"])
    row["pin"] = MISSING if other.contender is None else table.trust("pin", other.gap, times["pin"])
    row["full"] = times.get("full")
    row["faster"], row["gain"] = ratio(row["pin"], row["step"]), ratio(row["full"], row["step"])
    row["finite"] = "yes" if segment.finite() and ordinary.finite() else "NO"


@contextmanager
def _guarded(table: Table, row: dict[str, Any], what: str) -> Iterator[None]:
    """Measure a row; a motion that ends in infinities is a wrong answer, and its time is not quoted."""
    try:
        yield
    except errors.Diverged as error:
        row["finite"] = "NO"
        table.wrong.append(f"{what}: {error}")
    if row.get("finite") == "NO":
        for key in ("step", "ordinary", "update", "faster", "gain"):
            row.pop(key, None)


def _pendulums(table: Table, extent: Extent, other: _Peer, watch: Watch) -> None:
    scene = scenes.get("paper_pendulum", links=extent.links)
    model, dt = scene.model, scene.dt
    reach = float(extent.links)  # links of 1 m
    part = table.part(f"damped pendulum of {extent.links} links, from the horizontal, dt {1e3 * dt:g} ms", *_COLUMNS)
    undamped = scenes.paper_pendulum(links=extent.links, damping=0.0)
    steps, begin = round(_COMPARED / dt), round(_BEGIN / dt)
    references: dict[bool, np.ndarray] = {}
    cases = [(budget, tip) for budget in extent.budgets for tip in ((False, True) if budget == 1 else (False,))]
    for integrator, (budget, tip) in itertools.product(INTEGRATORS, cases):
        what = f"{budget}{', force at the tip' if tip else ''}"
        watch(f"pendulum, {what}, {integrator}", 1)
        push = (model.body_names[-1], _TIP_FORCE) if tip else None
        method = lj.Adaptive(budget=budget, update_every=PERIOD, integrator=integrator)
        row: dict[str, Any] = part.add(budget=what, integrator=integrator)
        with _guarded(table, row, f"pendulum, {what}, {integrator}"):
            if tip not in references:
                references[tip] = warmed(model, "full", dt, steps, push).positions
            row["error"] = motion_error(warmed(model, method, dt, steps, push), references[tip], reach)
            if not tip:
                found = energy_error(lj.Simulation(undamped, method, dt), PERIOD, steps // PERIOD)
                row["rise"], row["energy"] = (100.0 * x for x in found)
            full = Segment(warmed(model, lj.Full(integrator=integrator), dt, begin, push), least=200)
            _compare(table, row, Segment(warmed(model, method, dt, begin, push)), other, extent.seconds, full)
    projected, default = ([row for row in part.rows if row["integrator"] == word] for word in INTEGRATORS)
    for budget, limit in _PROMISED.items():
        found = cell(projected, "faster", budget=budget)
        table.bar(f"pin / our projected step, {budget} of 300 joints", found, limit)
        longer = ratio(cell(default, "step", budget=budget), cell(projected, "step", budget=budget))
        table.bar(f"our default step / projected, {budget} of 300 joints", longer, _LONGER, False)
    update = cell(projected, "update", budget="20")
    table.bar("one update, 20 of 300 joints, us", update, _UPDATE_MICROSECONDS, False)


def _churns(table: Table, extent: Extent, other: _Peer, watch: Watch) -> None:
    title = f"churn: a turning rod of {extent.links} links whose region changes at every update, dt {chains.DT:g} s"
    without = ("integrator", "full", "gain", "error", "rise", "energy")
    part = table.part(title, *(column for column in _COLUMNS if column.key not in without))
    for budget in extent.churned:
        watch(f"churn, {budget} joints", 1)
        row: dict[str, Any] = part.add(budget=str(budget))
        with _guarded(table, row, f"churn, {budget} joints"):
            sim = adaptive(chains.turning_rod(extent.links, budget), budget, chains.DT, _WARM)
            _compare(table, row, Segment(sim), other, extent.seconds)
    shares = [float(row["share"] or 0.0) for row in part.rows if "share" in row]
    table.bar("region changed per update under churn, least, %", min(shares, default=None), 10.0)


def _long(model: lj.Model, budget: int, memory: dict[str, Any] | None) -> Segment:
    """Return the segment of a long pendulum that falls from the horizontal, and write what it takes into `memory`."""
    gc.collect()
    before = resident_bytes()
    sim = adaptive(model, budget, _DT, 0)
    q = np.zeros(model.nq)
    q[0] = -0.5 * np.pi
    sim.q = q
    sim.step(_WARM)
    after = resident_bytes()
    if memory is not None:
        memory["counted"] = sim.stats["bytes"] / model.body_count
        if before is not None and after is not None:
            memory["resident"] = (after - before) / model.body_count
    return Segment(sim, least=5000)


def _sizes(table: Table, extent: Extent, watch: Watch) -> None:
    part = table.part("the same number of joints simulated of ever more links", *_SIZE_COLUMNS)
    rows: dict[int, dict[int, Any]] = {
        budget: {n: part.add(n=n, budget=budget) for n in extent.sizes} for budget in extent.size_budgets
    }
    watch(f"building chains of up to {max(extent.sizes):,} links")
    # The biggest first: the figure of its memory is right only while nothing else has been freed. Axes alternate: parts
    # of a very long flat chain resist all turns out of its plane, and round-off takes them for parts without inertia.
    options: dict[str, Any] = {"damping": _DAMPING, "spatial": True, "bend": 0.0}
    models = {n: scenes.long_chain(links=n, **options) for n in sorted(extent.sizes, reverse=True)}
    first = rows[extent.size_budgets[0]][max(extent.sizes)]

    def pendulum(n: int, budget: int) -> Segment:
        return _long(models[n], budget, first if rows[budget][n] is first else None)

    def rod(n: int, budget: int) -> Segment:
        models.clear()
        segment = Segment(adaptive(chains.turning_rod(n, budget), budget, chains.DT, _WARM), least=5000, again=False)
        rows[budget][n]["share"] = 100.0 * segment.changes() / (2 * budget)
        return segment

    for key, what, make in (("quiet", "long pendulums", pendulum), ("churn", "turning rods", rod)):
        for budget, some in rows.items():
            watch(f"{what}, {budget} joints", 1)
            try:
                race_sizes(some, {n: make(n, budget) for n in sorted(some, reverse=True)}, key, extent.seconds)
            except errors.Diverged as error:
                table.wrong.append(f"{key}, {', '.join(f'{n:,}' for n in some)} links: {error}")
            times = [row[key] for row in some.values() if key in row]
            spread = max(times) / min(times) if len(times) == len(FULL.sizes) else None
            table.bar(f"step, {budget} joints, {what} of 300 to 300,000 links: most / least", spread, 2.0, False)
    table.bar("memory per link, bytes", first.get("resident"), 6000.0, False)


def fill(table: Table, quick: bool, watch: Watch, extent: Extent | None = None) -> None:
    """Measure the table; see `TABLES`."""
    extent = extent or (QUICK if quick else FULL)
    rows = len(chains.KINDS) + len(extent.budgets) + len(extent.churned) + 2 * len(extent.size_budgets)
    watch.begin(11 + rows + len(extent.grid[0]))
    table.note(
        "one thread, processor time of that thread, best of samples taken in turns; at least 1000 steps a call",
        "whole step: integration, queue, rigidification and the region update every 20 steps, all inside",
        "one update: 20 x (whole step - step between updates)",
        "region changed: half of the joints that enter and leave, over the joints simulated",
        "memory taken: growth of the resident set; counted: all arrays of the region and its coefficients",
    )
    watch("building for pinocchio", 1)
    other = _pinocchio(table, scenes.paper_pendulum(links=extent.links))
    _pendulums(table, extent, other, watch)
    _churns(table, extent, other, watch)
    _sizes(table, extent, watch)
    driven.fill(table, extent.links, extent.figures, extent.rest, extent.seconds, watch)
    chains.fill(table, extent.shaped, extent.seconds, watch)
    adaptive_peers.fill(table, extent.figures, extent.links, other.twin, extent.seconds, watch)
    paper_grid.fill(table, extent.links, extent.grid, extent.seconds, watch)
