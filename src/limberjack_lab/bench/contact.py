"""Table `contact`: nets, piles of boxes and rings by impulses, whole runs frame by frame, beside peers."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import limberjack as lj
from limberjack import scenes
from limberjack_lab.bench.free_bodies import FRAME, Bodies, Run, run_mujoco, run_ours, run_pybullet, run_rapier
from limberjack_lab.bench.ragdolls import ragdolls
from limberjack_lab.bench.table import Part, Table, Watch, columns, peer, ratio

__all__ = ["TITLE", "Sizes", "fill"]

TITLE = "nets, piles of boxes and rings: whole runs by impulses, time per frame of 1/60 s"

# What ours is run with; sleeping is off unless said.
_AWAKE = lj.Impulses(sleeping=False)
# Joints closed to 0.1 mm; in one the tolerance is of each row, and the gap of three.
_TIGHT = lj.Impulses(sleeping=False, tolerance=5.7e-5)
_DAMPED = lj.Impulses(sleeping=False, tolerance=1e-4, joints="damped", substeps=1)
# A peer's net counts when its joints are this well closed [m], as its best setting does.
_PEER_GAP = 3.6e-3


class Sizes(NamedTuple):
    """How large and long the runs are."""

    cells: int = 15
    net_frames: int = 60
    few: int = 500
    many: int = 2000
    seeds: tuple[int, ...] = (0, 1, 2)
    box_frames: int = 240
    rings: int = 360
    ring_frames: int = 300
    mesh_frames: int = 60
    growth: tuple[int, ...] = (500, 2000, 8000, 20_000)
    growth_frames: int = 40
    pyramid: int = 100
    pyramid_frames: int = 60
    side: int = 30
    figures: int = 50
    figure_frames: int = 300
    cap: float = 300.0  # most seconds of a run


_QUICK = Sizes(3, 6, 10, 20, (0,), 6, 2, 6, 3, (20, 40), 4, 6, 6, 4, 2, 6, 10.0)


def _mean(run: Run) -> float | str:
    """Return the mean time of a frame [ms]; a word in its place keeps runs that did not end out of the bars."""
    return "lost" if run.lost else f"{run.mean:.3g}, cut short" if run.short else run.mean


def _net(table: Table, sizes: Sizes, peers: dict[str, Any], watch: Watch) -> None:
    part = table.part(
        f"net of {sizes.cells} x {sizes.cells} cells, {sizes.net_frames} frames",
        "who: by; ms: frame [ms]; gap: largest gap|of a joint [mm]; energy: energy gained|or lost [J]; "
        "share: of what the|fall releases [%]; quarter: away from the|reference, 1/4 [m]; "
        "half: 1/2 of the run [m]; end: end [m]",
    )
    model, frames = scenes.net(cells=sizes.cells), sizes.net_frames
    keep = (frames // 4 - 1, frames // 2 - 1, frames - 1)
    bodies = Bodies(model)
    watch("net, reference", 1)
    reference = lj.Multipliers(integrator="rattle", solver="sparse")
    exact = run_ours(lj.Simulation(model, reference, dt=1.0 / 3840.0), frames, keep=keep)

    def enter(who: str, run: Run) -> dict[str, Any]:
        row: dict[str, Any] = part.add(who=who, ms=_mean(run), gap=1e3 * run.gap)
        row["energy"] = run.energy
        if run.energy is not None:
            row["share"] = 100.0 * run.energy / max(exact.released, 1e-12)
        for key, a, b in zip(("quarter", "half", "end"), run.positions, exact.positions, strict=False):
            row[key] = float(np.sqrt(np.square(a - b).sum(axis=1).mean()))
        return row

    enter("reference: multipliers, rattle, dt 1/3840", exact)
    ours = []
    for who, method, dt in (
        ("impulses, 1/60 in 8 substeps", _TIGHT, FRAME),
        ("impulses, damped, 1/240", _DAMPED, 1.0 / 240.0),
        ("multipliers, rattle, 1/960", replace(reference, tolerance=5e-5), FRAME / 16),
    ):
        watch(who, 1)
        ours.append(enter(who, run_ours(lj.Simulation(model, method, dt=dt), frames, keep=keep, cap=sizes.cap)))
    others = []
    for dt in (1.0 / 240.0, 1.0 / 960.0):
        watch(f"net, peers, {dt:.4f} s", 1)
        for name, runner in peers.items():
            run = runner(bodies, dt, frames, keep=keep, cap=sizes.cap)
            others.append(enter(f"{name}, 1/{round(1 / dt)}", run))
    best, close = _least(others, _PEER_GAP), 1.001e-4
    text = "net: best peer within 3.6 mm / ours"
    table.bar(f"{text} within 0.1 mm and 5 % of the energy", ratio(best, _least(ours, close, 5.0)), 8.0)
    table.bar(f"{text} damped within 0.1 mm", ratio(best, _least(ours, close)), 20.0)


def _least(rows: list[dict[str, Any]], gap: float, share: float = np.inf) -> float | None:
    """Return the least time of rows that keep joints and energy [ms]."""
    kept = [
        row["ms"] for row in rows
        if isinstance(row["ms"], float) and row["gap"] <= 1e3 * gap and abs(row.get("share") or 0.0) <= share
    ]  # fmt: skip
    return min(kept, default=None)


_BOXES = columns(
    "case: boxes; who: by; ms: frame,|mean [ms]; last: last 10 [ms]; speed: fastest box|at the end [m/s]; "
    "depth: deepest overlap|at the end [mm]; contacts: contacts; asleep: asleep"
)


def _enter(part: Part, case: str, who: str, run: Run) -> dict[str, Any]:
    return part.add(
        case=case, who=who, ms=_mean(run), last=run.last,
        speed=float(run.speed.max(initial=0.0)), depth=1e3 * run.penetration, contacts=run.contacts, asleep=run.asleep,
    )  # fmt: skip


def _boxes(table: Table, sizes: Sizes, peers: dict[str, Any], watch: Watch) -> None:
    part = table.part(f"columns of boxes of 20 cm that fall and settle, {sizes.box_frames} frames", *_BOXES)
    for count, seeds in ((sizes.few, sizes.seeds[:1]), (sizes.many, sizes.seeds)):
        own, times = [], {}
        for seed in seeds:
            watch(f"{count} boxes, seed {seed}", 1)
            sim = lj.Simulation(scenes.box_pile(boxes=count, seed=seed), _AWAKE, dt=FRAME)
            run = run_ours(sim, sizes.box_frames, cap=sizes.cap)
            own.append(_enter(part, f"{count}, seed {seed}", "impulses, 1/60", run))
        bodies = Bodies(scenes.box_pile(boxes=count, seed=seeds[0]))
        for name, runner in peers.items():
            watch(f"{count} boxes, {name}")
            run = runner(bodies, 1.0 / 240.0, sizes.box_frames, cap=sizes.cap)
            row = _enter(part, f"{count}, seed {seeds[0]}", f"{name}, 1/240", run)
            if isinstance(row["ms"], float):
                times[name] = row["ms"]
        _box_bars(table, count == sizes.few, count, own, times)


def _box_bars(table: Table, few: bool, count: int, own: list, times: dict[str, float]) -> None:
    whole = all(isinstance(row["ms"], float) for row in own)
    slowest, speed, depth = (max(row[key] for row in own) if whole else None for key in ("ms", "speed", "depth"))
    who, best = ("MuJoCo", times.get("MuJoCo")) if few else ("faster peer", min(times.values(), default=None))
    fast, deep, gain = (1e-4, 0.5, 3.5) if few else (1e-3, 1.0, 7.0)
    table.bar(f"{count} boxes: {who} / ours", ratio(best, slowest), gain)
    table.bar(f"{count} boxes: end speed [m/s]", speed, fast, False)
    table.bar(f"{count} boxes: end overlap [mm]", depth, deep, False)


def _asleep(table: Table, sizes: Sizes, watch: Watch) -> None:
    part = table.part(f"{sizes.few} boxes that may sleep, {sizes.box_frames} frames", *_BOXES)
    watch("asleep", 1)
    model = scenes.box_pile(boxes=sizes.few)
    run = run_ours(lj.Simulation(model, lj.Impulses(), dt=FRAME), sizes.box_frames)
    own = _enter(part, str(sizes.few), "impulses, 1/60", run)
    value, mujoco = None, peer("mujoco", table)
    if mujoco is not None and hasattr(mujoco.mjtEnableBit, "mjENBL_SLEEP"):
        run = run_mujoco(mujoco, Bodies(model), 1.0 / 240.0, sizes.box_frames, sleep=True, cap=sizes.cap)
        other = _enter(part, str(sizes.few), "MuJoCo, sleep, 1/240", run)
        value = ratio(own["last"], other["last"]) if isinstance(other["ms"], float) else None
    table.bar("asleep: ours / MuJoCo's sleeping cost, last 10 frames", value, 1.0, False)


def _rings(table: Table, sizes: Sizes, peers: dict[str, Any], watch: Watch) -> None:
    part = table.part(
        f"{sizes.rings} rings of six links on poles, {sizes.ring_frames} frames",
        "who: by; ms: frame,|mean [ms]; last: last 10 [ms]; gap: largest gap|of a joint [mm]; "
        "middle: speed at the|end, median [mm/s]; most: 99 % [mm/s]; fastest: fastest [mm/s]; "
        "depth: deepest overlap|at the end [mm]; contacts: contacts",
    )

    def enter(who: str, run: Run) -> dict[str, Any]:
        middle, most, fastest = (1e3 * float(np.quantile(run.speed, q)) for q in (0.5, 0.99, 1.0))
        return part.add(
            who=who, ms=_mean(run), last=run.last, gap=1e3 * run.gap, middle=middle, most=most,
            fastest=fastest, depth=1e3 * run.penetration, contacts=run.contacts,
        )  # fmt: skip

    watch("rings", 1)
    model = scenes.rings(count=sizes.rings, links="capsules")
    method = lj.Impulses(sleeping=False, tolerance=5e-4, joints="damped", soft_sweeps=2)
    run = run_ours(lj.Simulation(model, method, dt=FRAME), sizes.ring_frames, cap=sizes.cap)
    own = enter("impulses, capsules, 1/60", run)
    watch("rings of meshes", 1)
    sim = lj.Simulation(scenes.rings(count=sizes.rings), method, dt=1.0 / 240.0)
    run = run_ours(sim, sizes.mesh_frames, cap=sizes.cap)
    enter(f"impulses, meshes of 1320 triangles, 1/240, {sizes.mesh_frames} frames", run)
    bodies, last = Bodies(model), []
    for name, runner in peers.items():
        watch(f"rings, {name}")
        run = runner(bodies, 1.0 / 240.0, sizes.ring_frames, cap=sizes.cap)
        row = enter(f"{name}, capsules, 1/240", run)
        if not (run.lost or run.short):
            last.append(row["last"])
    best = ratio(min(last, default=None), own["ms"])
    for text, value, limit, at_least in (
        ("rings: best peer's last 10 frames / ours", best, 12.0, True),
        ("rings: largest gap of a joint [mm]", own["gap"], 0.501, False),
        ("rings: end overlap [mm]", own["depth"], 1.0, False),
        ("rings: median speed at the end [mm/s]", own["middle"], 3.0, False),
        ("rings: 99 % of speeds at the end [mm/s]", own["most"], 40.0, False),
    ):
        table.bar(text, value if isinstance(own["ms"], float) else None, limit, at_least)


def _growth(table: Table, sizes: Sizes, watch: Watch) -> None:
    part = table.part(
        "columns of ten boxes, growing: the last ten frames, the better of two runs",
        "boxes: boxes; contacts: contacts; ms: frame [ms]; each: per contact [us]",
    )
    for count in sizes.growth:
        watch(f"{count} boxes, growth", 1)
        model = scenes.box_pile(boxes=count, layers=10)
        # the better of two: large piles feel what else the machine does
        run = min(
            (run_ours(lj.Simulation(model, _AWAKE, dt=FRAME), sizes.growth_frames, cap=sizes.cap) for _ in range(2)),
            key=lambda one: one.last,
        )
        part.add(boxes=count, contacts=run.contacts, ms=run.last, each=1e3 * run.last / max(run.contacts, 1))
    each = [float(row["each"] or 0.0) for row in part.rows]
    table.bar("largest / least time per contact, 500 to 20,000 boxes", max(each) / min(each), 1.5, False)


def _games(table: Table, sizes: Sizes, peers: dict[str, Any], rapier: Any, watch: Watch) -> None:
    """Measure scenes of engines for games beside rapier3d, with gap, overlap and energy of every run."""
    part = table.part(
        "scenes of engines for games, frames of 1/60 s, sleeping off",
        "case: scene; who: by; ms: frame,|mean [ms]; last: last 10 [ms]; gap: largest gap|of a joint [mm]; "
        "depth: deepest overlap|at the end [mm]; speed: fastest body|at the end [m/s]; "
        "energy: energy gained|or lost [kJ]",
    )
    cases = (
        (f"{sizes.few} boxes", scenes.box_pile(boxes=sizes.few), sizes.box_frames, (1.7, 1.0)),
        (f"{sizes.many} boxes", scenes.box_pile(boxes=sizes.many), sizes.box_frames, (1.7, 1.0)),
        (f"pyramid of {sizes.pyramid} rows", scenes.pyramid(base=sizes.pyramid), sizes.pyramid_frames, (1.7, 1.0)),
        (
            f"grid of {sizes.side} x {sizes.side} balls",
            scenes.ball_grid(side=sizes.side),
            sizes.pyramid_frames,
            (None, 2.0),
        ),
        (f"heap of {sizes.figures} ragdolls", ragdolls(sizes.figures), sizes.figure_frames, (None, 2.5)),
    )
    for case, model, frames, limits in cases:
        watch(case, 1)
        bodies, times = Bodies(model), {}
        rows = [(f"impulses, {word}", lj.Impulses(sleeping=False, accuracy=word)) for word in ("default", "game")]
        runs = [(who, run_ours(lj.Simulation(model, method, dt=FRAME), frames, cap=sizes.cap)) for who, method in rows]
        if rapier is not None:
            runs.append(("rapier3d, 1/60", run_rapier(rapier, bodies, FRAME, frames, cap=sizes.cap)))
        # the others take minutes for thousands of bodies, and get no hinges
        for name, runner in peers.items() if case in (cases[0][0], cases[3][0]) else ():
            runs.append((f"{name}, 1/240", runner(bodies, 1.0 / 240.0, frames, cap=sizes.cap)))
        for who, run in runs:
            row = part.add(
                case=case, who=who, ms=_mean(run), last=run.last, gap=1e3 * run.gap, depth=1e3 * run.penetration,
                speed=float(run.speed.max(initial=0.0)), energy=None if run.energy is None else 1e-3 * run.energy,
            )  # fmt: skip
            times[who] = row["ms"]
        other = times.get("rapier3d, 1/60")
        for word, limit in zip(("default", "game"), limits, strict=True):
            if limit is not None:
                value = ratio(times[f"impulses, {word}"], other)
                table.bar(f"{case}: ours, {word} / rapier3d", value, limit, False)


def _threads(table: Table, sizes: Sizes, watch: Watch) -> None:
    """Measure the wall time of frames of piles on one thread and on two, in turns."""
    part = table.part(
        "piles on two threads, wall time of the fastest frame",
        "case: scene; one: one|thread [ms]; two: two|threads [ms]; ratio: one / two; same: same bits",
    )
    cases = (
        (f"{sizes.few} boxes", scenes.box_pile(boxes=sizes.few), sizes.box_frames // 2),
        (f"{sizes.many} boxes", scenes.box_pile(boxes=sizes.many), sizes.box_frames // 2),
        (f"pyramid of {sizes.pyramid} rows", scenes.pyramid(base=sizes.pyramid), 2),
    )
    for case, model, before in cases:
        watch(f"{case}, threads", 1)
        sims = [lj.Simulation(model, replace(_AWAKE, threads=n), dt=FRAME) for n in (1, 2)]
        times: list[list[float]] = [[], []]
        for sim in sims:
            sim.step(before)
        for _ in range(sizes.pyramid_frames):
            for sim, own in zip(sims, times, strict=True):
                begin = time.perf_counter()
                sim.step(1)
                own.append(1e3 * (time.perf_counter() - begin))
        one, two = (min(own) for own in times)
        same = sims[0].state_hash() == sims[1].state_hash()
        part.add(case=case, one=one, two=two, ratio=one / two, same="yes" if same else "no")
        if (os.cpu_count() or 1) > 1:
            table.bar(f"{case}: one thread / two", one / two, 1.6)


def fill(table: Table, quick: bool, watch: Watch) -> None:
    """Measure the table; see `bench.DESCRIPTIONS`."""
    sizes = _QUICK if quick else Sizes()
    watch.begin(19 + len(sizes.seeds) + len(sizes.growth))
    known = {"MuJoCo": (peer("mujoco", table), run_mujoco), "PyBullet": (peer("pybullet", table), run_pybullet)}
    peers = {name: partial(runner, module) for name, (module, runner) in known.items() if module is not None}
    _net(table, sizes, peers, watch)
    _boxes(table, sizes, peers, watch)
    _asleep(table, sizes, watch)
    _rings(table, sizes, peers, watch)
    _growth(table, sizes, watch)
    _games(table, sizes, peers, peer("rapier3d", table), watch)
    _threads(table, sizes, watch)
    table.note(
        "times are of this thread's processor unless said",
        "peers take steps of 1/240 s, or as said; ours detects once a frame",
        "rapier3d: one thread, its defaults; overlaps of its poses are found by our detection",
        "MuJoCo: Newton, solref (2 dt, 1) for joints and contacts; PyBullet: maximal coordinates, 50 iterations",
        "energy: of the net at the end less at the start; the reference is another method with a step of 1/3840 s",
    )
