"""Assembly, dragging and shaking by displacements: times of the paper's scenes, SciPy's minres, and linear growth."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

import limberjack as lj
from limberjack import scenes
from limberjack_lab.bench.clock import Contender, race
from limberjack_lab.bench.maximal import rows_of
from limberjack_lab.bench.table import Table, Watch, peer, ratio

__all__ = ["TITLE", "assembly", "drag", "dragging", "fill", "net", "shaking", "unit_metric"]

TITLE = "assembly, dragging and shaking by linearised displacements (Faure 1998)"
_TOLERANCE = 1e-6
# Larger nets are built for minutes.
_SIZES, _QUICK_SIZES = (100, 400, 1600, 6400), (100, 400)
_FRAME = 1.0 / 60.0


def unit_metric(model: lj.Model) -> lj.Model:
    """Return the model with the weights that mode "kinematic" moves bodies by: 1 kg, and k^2 about the com.

    k is 1.6 times the reach of a body's joints from its com.
    """
    reach: dict[str, float] = {}
    for joint in (model.joint_spec(name) for name in model.joint_names):
        for body, at in ((joint.parent, joint.position), (joint.child, joint.position_in_child)):
            if body != "world" and joint.kind != "free":
                far = float(np.linalg.norm(np.array(at) - model.body(body).com))
                reach[body] = max(reach.get(body, 0.0), far)
    weights = {name: (1.6 * far) ** 2 for name, far in reach.items()}
    bodies = [
        replace(body, mass=1.0, inertia=(*(weights[body.name],) * 3, 0.0, 0.0, 0.0)) for body in model.spec.bodies
    ]
    return lj.Model(replace(model.spec, bodies=bodies))


def assembly(
    model: lj.Model, iterations: int, solver_iterations: int, mode: str = "kinematic", tolerance: float = 1e-10
) -> tuple[lj.Simulation, Contender]:
    """Return a simulation and its first step, which closes the open joints of the model."""
    method = lj.Displacements(
        mode=mode, iterations=iterations, solver_iterations=solver_iterations, solver_tolerance=tolerance
    )
    sim = lj.Simulation(model, method, dt=_FRAME)
    start = sim.snapshot()
    return sim, Contender("assembly", sim.step, prepare=lambda: sim.restore(start), once=True)


def _open_ring() -> lj.Model:
    return scenes.ring_of_figures(assembled=False)


def dragging(iterations: int, solver_iterations: int) -> tuple[lj.Simulation, Any]:
    """Return the structure of 56 solids with a grip that draws it aside, and the grip."""
    method = lj.Displacements(mode="kinematic", iterations=iterations, solver_iterations=solver_iterations)
    sim = lj.Simulation(scenes.draggable_structure(), method, dt=_FRAME)
    return sim, sim.grab("rod6_3")


def drag(iterations: int, solver_iterations: int) -> tuple[lj.Simulation, Contender]:
    """Return the dragged structure and a frame of it."""
    sim, grip = dragging(iterations, solver_iterations)
    sim.step(1)
    start, turn = grip.point.copy(), iter(range(10**9))

    def frame() -> None:
        # to and fro, so that no frame finds the structure closed
        k = next(turn)
        grip.move(start + 0.5 * np.array((np.sin(0.1 * k), np.cos(0.07 * k) - 1.0, 0.0)))
        sim.step(1)

    return sim, Contender("drag", frame)


def shaking() -> Any:
    """Return the scene of the plate and its simulation."""
    scene = scenes.get("shaken_plate")
    return scene, lj.Simulation(scene.model, scene.method, dt=scene.dt)


def _shake() -> tuple[lj.Simulation, Contender]:
    scene, sim = shaking()

    def frame() -> None:
        scene.drive(sim)
        sim.step(1)

    return sim, Contender("shake", frame)


def _frames(table: Table, seconds: float, watch: Watch) -> dict[str, float]:
    part = table.part(
        "the paper's scenes",
        "title: scene; solids: solids; rows: constraints; iterations: iterations; time: time [ms]; "
        "rate: rows x solver|iterations [M/s]; error: error left [m]; paper: the paper|(SGI O2) [ms]",
    )
    best: dict[str, float] = {}
    for title, iterations, make, paper in (
        ("ring of figures, assembled", "6 x 30", lambda: assembly(_open_ring(), 6, 30), 1000.0),
        ("structure, dragged", "2 x 5", lambda: drag(2, 5), None),
        ("structure, dragged", "3 x 50", lambda: drag(3, 50), None),
        ("plate, shaken", "1 x 15", _shake, 1000.0 / 24),
    ):
        watch(f"{title}, {iterations}", 1)
        sim, frame = make()
        ms = best[f"{title}, {iterations}"] = 1e3 * race([frame], seconds=seconds)[frame.key].cpu
        stats = sim.stats
        part.add(
            title=title, solids=stats["bodies"], rows=stats["rows"], iterations=iterations, time=ms,
            rate=1e-3 * stats["rows"] * stats["solver_iterations"] / ms, error=float(stats["joint_error"]), paper=paper,
        )  # fmt: skip
    return best


def _minres(linalg: Any, matrix: Any, b: np.ndarray, rtol: float) -> tuple[int, float]:
    """Return the iterations of minres and the residual |b - A x| / |b| it ends with."""
    count = [0]

    def step(_: Any) -> None:
        count[0] += 1

    x = linalg.minres(matrix, b, rtol=rtol, maxiter=20_000, callback=step)[0]
    return count[0], float(np.linalg.norm(b - matrix @ x) / np.linalg.norm(b))


def _against_scipy(table: Table, seconds: float, watch: Watch) -> dict[str, float | None]:
    part = table.part(
        f"the ring's 758 rows, linearised once, solved to a residual of {_TOLERANCE:g}; SciPy's minres on their matrix",
        "metric: metric; iterations: our|iterations; step: ours,|whole step [ms]; "
        "solve: of it solver|iterations [ms]; minres_iterations: minres|iterations; minres: minres [ms]; "
        "minres_left: its residual; gain: minres /|our iterations [x]",
    )
    out: dict[str, float | None] = {}
    linalg, sparse = peer("scipy.sparse.linalg", table), peer("scipy.sparse", table)
    ring = _open_ring()
    for metric, mode, model in (("unit", "kinematic", unit_metric(ring)), ("physical", "damped", ring)):
        watch(f"minres, {metric}", 1)
        sim, step = assembly(ring, 1, 20_000, mode, _TOLERANCE)
        sim.step()
        count = int(sim.stats["solver_iterations"])
        one = replace(assembly(ring, 1, 1, mode, _TOLERANCE)[1], key="one")
        runs, row = [step, one], part.add(metric=metric, iterations=count)
        if linalg is not None and sparse is not None:
            system = rows_of(model, sparse)
            matrix, b, asked = system.schur(sparse).tocsr(), -system.value, _TOLERANCE
            row["minres_iterations"], row["minres_left"] = _minres(linalg, matrix, b, asked)
            # minres weighs residuals in its own way: it goes on until |b - A x| is small beside |b|
            while row["minres_left"] > _TOLERANCE and asked > 1e-15:
                asked *= 0.5
                row["minres_iterations"], row["minres_left"] = _minres(linalg, matrix, b, asked)
            call = partial(linalg.minres, matrix, b, rtol=asked, maxiter=20_000)
            runs.append(Contender("minres", call))
        best = {key: 1e3 * one.cpu for key, one in race(runs, seconds=seconds).items()}
        row["step"], row["minres"] = best["assembly"], best.get("minres")
        row["solve"] = (best["assembly"] - best["one"]) * count / (count - 1)
        out[metric] = row["gain"] = ratio(row["minres"], row["solve"])
    return out


def net(side: int) -> lj.Model:
    """Return a square net of side x side bodies on ball joints, one corner fixed to the world."""
    builder, n = lj.Builder("square net"), side * side
    at = np.array([(k % side, k // side, 0.1 * np.sin(k)) for k in range(n)])
    for k in range(n):
        builder.add_body(f"b{k}", mass=1.0, inertia=(0.25, 0.25, 0.25))
    builder.add_joint_ball("corner", "world", "b0", position=at[0])
    # along the first column, then along each row: a tree; all other joints close loops
    column = [(k, k + side) for k in range(0, n - side, side)]
    rows = [(k, k + 1) for k in range(n) if (k + 1) % side]
    loops = [(k, k + side) for k in range(n - side) if k % side]
    for a, b in (*column, *rows, *loops):
        half = 0.5 * (at[b] - at[a])
        builder.add_joint_ball(f"j{a}_{b}", f"b{a}", f"b{b}", position=half, position_in_child=-half)
    return builder.build()


def _iteration_time(model: lj.Model, rows: int, seconds: float) -> float:
    """Return the time of a solver iteration per row [s], in steps of a net that falls."""
    # samples of large nets are kept short: the longer, the surer another process comes between
    more, runs = max(25, min(50, 2_000_000 // rows)), []
    for cap in (10, 10 + more):
        method = lj.Displacements(
            mode="damped", iterations=1, solver_iterations=cap, tolerance=1e-300, solver_tolerance=1e-300
        )
        sim = lj.Simulation(model, method, dt=_FRAME)
        start = sim.snapshot()
        runs.append(Contender(str(cap), sim.step, prepare=partial(sim.restore, start)))
    few, many = (best.cpu for best in race(runs, seconds=seconds, rounds=12).values())
    return (many - few) / (more * rows)  # the difference is iterations alone


def _growth(table: Table, sizes: tuple[int, ...], seconds: float, watch: Watch) -> float:
    part = table.part(
        "square nets of bodies on balls: time of a solver iteration per row",
        "bodies: bodies; rows: rows; each: per iteration|and row [ns]",
    )
    found = []
    for bodies in sizes:
        watch(f"net of {bodies}", 1)
        side = round(bodies**0.5)
        rows = 3 * (1 + 2 * side * (side - 1))
        found.append(1e9 * _iteration_time(net(side), rows, seconds))
        part.add(bodies=side * side, rows=rows, each=found[-1])
    return max(found) / min(found)


def fill(table: Table, quick: bool, watch: Watch) -> None:
    """Measure the table; see `bench.DESCRIPTIONS`."""
    sizes, seconds = (_QUICK_SIZES, 0.02) if quick else (_SIZES, 1.0)
    watch.begin(6 + len(sizes))
    best = _frames(table, seconds, watch)
    gains = _against_scipy(table, seconds, watch)
    growth = _growth(table, sizes, seconds, watch)
    ring, structure, _, plate = best.values()
    table.bar("assembly of 758 constraints, 6 x 30 [ms]", ring, 10.0, False)
    table.bar("frame of the structure at 2 x 5 [ms]", structure, 0.3, False)
    table.bar("frame of the plate at 1 x 15 [ms]", plate, 0.2, False)
    table.bar("minres / ours, physical metric", gains["physical"], 20.0)
    table.bar("largest / least time per iteration and row", growth, 1.5, False)
    table.note(
        "frames are whole calls from Python: the tracker moved, one step, what happened read",
        "whole step: rows, preconditioner, solve, move; iterations: what it takes more than a step with only one",
        "unit metric: mode kinematic, all bodies alike; physical: mode damped, by mass; minres has no preconditioner",
    )
