"""Assembly, dragging and shaking by displacements: times of the paper's scenes, SciPy's minres, and linear growth."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import limberjack as lj
from limberjack import scenes
from limberjack.constraints.system import System, new_system
from limberjack.linear.krylov import new_krylov, solve_krylov
from limberjack.linear.tree_preconditioner import new_tree_preconditioner, solve_tree_preconditioned
from limberjack.maximal.assemble import Assembler
from limberjack_lab.bench.clock import Contender, race
from limberjack_lab.bench.table import Bar, Column, Table, Watch, peer, ratio

__all__ = ["TITLE", "dragging", "fill", "flat_net", "shaking"]

TITLE = "assembly, dragging and shaking by linearised displacements (Faure 1998)"
_TOLERANCE = 1e-6
_SIZES, _QUICK_SIZES = (100, 400, 1600, 6400, 40_000), (100, 400)


def dragging(iterations: int, solver_iterations: int) -> tuple[lj.Simulation, Any]:
    """Return the structure of 56 solids with a grip that draws it aside, and the grip."""
    method = lj.Displacements(mode="kinematic", iterations=iterations, solver_iterations=solver_iterations)
    sim = lj.Simulation(scenes.draggable_structure(), method, dt=1 / 60)
    grip = sim.grab("rod6_3")
    return sim, grip


def shaking() -> Any:
    """Return the scene of the plate and its simulation."""
    scene = scenes.get("shaken_plate")
    return scene, lj.Simulation(scene.model, scene.method, dt=scene.dt)


def _frames(table: Table, seconds: float, watch: Watch) -> dict[str, float]:
    part = table.part(
        "the paper's scenes",
        Column("title", "scene"),
        Column("solids", "solids"),
        Column("rows", "constraints"),
        Column("iterations", "iterations"),
        Column("time", "time", "ms"),
        Column("rate", "rows x solver\niterations", "M/s"),
        Column("error", "error left", "m"),
        Column("paper", "the paper\n(SGI O2)", "ms"),
    )
    best: dict[str, float] = {}
    watch("assembly", 1)
    work = Assembler(scenes.ring_of_figures())
    start = work.pose.copy()

    def assembled() -> None:
        work.pose[:] = start
        work.work.krylov.recycled[:] = 0.0
        work.correct(6, 30)

    best["assembly"] = 1e3 * race([Contender("a", assembled)], seconds=seconds)["a"].cpu
    rows, inner = int(work.net.rows[0]), float(work.work.report[1])
    rate = 1e-3 * rows * inner / best["assembly"]
    part.add(
        title="ring of figures, assembled", solids=len(work.pose), rows=rows, iterations="6 x 30",
        time=best["assembly"], rate=rate, error=float(work.work.report[2]), paper=1000.0,
    )  # fmt: skip
    for outer, inner in ((2, 5), (3, 50)):
        watch(f"drag {outer} x {inner}", 1)
        sim, grip = dragging(outer, inner)
        sim.step(1)
        place, turn = grip.point.copy(), [0]

        def frame(
            sim: lj.Simulation = sim, grip: Any = grip, place: np.ndarray = place, turn: list[int] = turn
        ) -> None:
            # to and fro, so that no frame finds the structure closed
            turn[0] += 1
            grip.move(place + 0.5 * np.array((np.sin(0.1 * turn[0]), np.cos(0.07 * turn[0]) - 1.0, 0.0)))
            sim.step(1)

        key = f"drag {outer} x {inner}"
        best[key] = 1e3 * race([Contender("a", frame)], seconds=seconds)["a"].cpu
        rows = int(sim.stats["rows"])
        rate = 1e-3 * rows * sim.stats["solver_iterations"] / best[key]
        part.add(
            title="structure, dragged", solids=56, rows=rows, iterations=f"{outer} x {inner}", time=best[key],
            rate=rate, error=float(sim.stats["joint_error"]),
        )  # fmt: skip
    watch("plate", 1)
    scene, sim = shaking()

    def shake() -> None:
        scene.drive(sim)
        sim.step(1)

    best["plate"] = 1e3 * race([Contender("a", shake)], seconds=seconds)["a"].cpu
    part.add(
        title="plate, shaken", solids=28, rows=int(sim.stats["rows"]), iterations="1 x 15", time=best["plate"],
        rate=1e-3 * sim.stats["rows"] * 15 / best["plate"], error=float(sim.stats["joint_error"]), paper=1000.0 / 24,
    )  # fmt: skip
    return best


def _matrix(work: Assembler, sparse: Any) -> Any:
    """Return J M^-1 J^T of an assembler's rows as SciPy keeps it."""
    s, minv = work.net.system, work.work.minv
    rows, columns, values = [], [], []
    for c in range(len(s.row_start) - 1):
        for t in range(s.incidence_start[c], s.incidence_start[c + 1]):
            n = s.row_start[c + 1] - s.row_start[c]
            block = work.work.jacobian[s.block_start[t] : s.block_start[t + 1]]
            rows.append(np.repeat(np.arange(s.row_start[c], s.row_start[c + 1]), 6))
            columns.append(np.tile(np.arange(6 * s.incidence_body[t], 6 * s.incidence_body[t] + 6), n))
            values.append(block)
    shape = (int(s.row_start[-1]), 6 * len(work.pose))
    j = sparse.csr_matrix((np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))), shape)
    blocks = []
    for m in minv:
        full = np.zeros((6, 6))
        full[:3, :3], full[3:, 3:] = m[[0, 3, 4, 3, 1, 5, 4, 5, 2]].reshape(3, 3), m[6] * np.eye(3)
        blocks.append(full)
    return (j @ sparse.block_diag(blocks, format="csr") @ j.T).tocsr()


def _left(matrix: Any, b: np.ndarray, x: np.ndarray) -> float:
    """Return |b - A x| beside |b|."""
    return float(np.linalg.norm(b - matrix @ x) / np.linalg.norm(b))


def _against_scipy(table: Table, seconds: float, watch: Watch) -> dict[str, float | None]:
    part = table.part(
        f"one solve of the ring's 758 rows to a residual of {_TOLERANCE:g}: SciPy's minres on the same matrix",
        Column("metric", "metric"),
        Column("iterations", "our\niterations"),
        Column("ours", "ours", "ms"),
        Column("left", "residual"),
        Column("tree_iterations", "over the tree,\niterations"),
        Column("tree", "over the\ntree", "ms"),
        Column("minres_iterations", "minres\niterations"),
        Column("minres", "minres", "ms"),
        Column("minres_left", "its residual"),
        Column("gain", "minres /\nour faster", "x"),
    )
    out: dict[str, float | None] = {}
    linalg, sparse = peer("scipy.sparse.linalg", table), peer("scipy.sparse", table)
    for metric in ("unit", "physical"):
        watch(f"minres, {metric}", 1)
        work = Assembler(scenes.ring_of_figures())
        work.correct(0, 0)
        b = -work.work.residual.copy()
        work.correct(1, 1, physical=metric == "physical")
        work.put(work.model.q0)
        work.correct(0, 0)
        w = work.work
        krylov = new_krylov(work.net.system, 0, work.net.pairs)
        lam, report, c = np.zeros(len(b)), np.zeros(3), np.zeros(len(b))

        held = np.arange(len(work.net.system.row_start) - 1) < work.net.ends[0]
        over = new_tree_preconditioner(work.net.system, np.ones(len(work.pose), bool), held, work.net.pairs)
        asks = {"ours": _TOLERANCE, "tree": _TOLERANCE}

        def solve(key: str, call: Any, own: Any, w: Any = w, lam: Any = lam, report: Any = report, c: Any = c,
                  b: Any = b, work: Any = work, asks: dict[str, float] = asks) -> None:  # fmt: skip
            call(work.net.system, w.minv, w.source, c, b, work.pose, 20_000, asks[key], own, lam, report)

        solvers = {"ours": partial(solve, "ours", solve_krylov, krylov)}
        solvers["tree"] = partial(solve, "tree", solve_tree_preconditioned, over)
        runs, row = [Contender(key, call) for key, call in solvers.items()], part.add(metric=metric)
        matrix = None if sparse is None else _matrix(work, sparse)
        for key, call in solvers.items():
            call()
            # each solver weighs residuals in its own way: all are told to go on until |b - A x| is small beside |b|
            while matrix is not None and _left(matrix, b, lam) > _TOLERANCE and asks[key] > 1e-15:
                asks[key] *= 0.5
                call()
            row["iterations" if key == "ours" else "tree_iterations"] = int(report[0])
            if key == "ours" and matrix is not None:
                row["left"] = _left(matrix, b, lam)
        if linalg is not None and matrix is not None:
            count, last = [0], _TOLERANCE

            def step(_: Any, count: list[int] = count) -> None:
                count[0] += 1

            asked, left = _TOLERANCE, 1.0
            while left > _TOLERANCE and asked > 1e-15:
                count[0] = 0
                x = linalg.minres(matrix, b, rtol=asked, maxiter=20_000, callback=step)[0]
                left = _left(matrix, b, x)
                last, asked = asked, 0.5 * asked
            row["minres_iterations"], row["minres_left"] = count[0], left
            runs.append(
                Contender("minres", lambda m=matrix, b=b, rtol=last: linalg.minres(m, b, rtol=rtol, maxiter=20_000))
            )
        best = race(runs, seconds=seconds)
        row["ours"], row["tree"] = 1e3 * best["ours"].cpu, 1e3 * best["tree"].cpu
        row["minres"] = 1e3 * best["minres"].cpu if "minres" in best else None
        out[metric] = row["gain"] = ratio(row["minres"], min(row["ours"], row["tree"]))
    return out


def flat_net(bodies: int) -> tuple[System, np.ndarray, np.ndarray, np.ndarray]:
    """Return a square net of bodies on balls, its inverse masses, rows and places."""
    side = max(2, round(bodies**0.5))
    n = side * side
    place = np.array([(k % side, k // side, 0.1 * np.sin(k)) for k in range(n)])
    right = [(k, k + 1) for k in range(n) if (k + 1) % side]
    up = [(k, k + side) for k in range(n - side)]
    pairs = [(0,), *right, *up]
    system = new_system(np.full(n, 6), np.full(len(pairs), 3), [list(pair) for pair in pairs])
    j = np.zeros((int(system.incidence_start[-1]), 3, 6))
    sign = np.ones(len(j))
    at = np.concatenate([place[list(pair)].mean(0)[None].repeat(len(pair), 0) for pair in pairs])
    sign[system.incidence_start[:-1]] = -1.0
    lever = at - place[system.incidence_body]
    j[:, 0, 1], j[:, 0, 2], j[:, 1, 0] = lever[:, 2], -lever[:, 1], -lever[:, 2]
    j[:, 1, 2], j[:, 2, 0], j[:, 2, 1] = lever[:, 0], lever[:, 1], -lever[:, 0]
    j[:, :, 3:] = np.eye(3)
    minv = np.zeros((n, 7))
    minv[:, :3], minv[:, 6] = 4.0, 1.0
    return system, minv, (sign[:, None, None] * j).ravel(), place


def _iteration_time(net: tuple[System, np.ndarray, np.ndarray, np.ndarray], seconds: float) -> float:
    """Return the time of a solver iteration per row [s]."""
    system, minv, j, place = net
    rows = int(system.row_start[-1])
    pairs = np.ones(len(system.row_start) - 1, bool)
    work, lam, report, c = new_krylov(system, 0, pairs), np.zeros(rows), np.zeros(3), np.zeros(rows)
    b = np.random.default_rng(0).normal(size=rows)
    # samples of large nets are kept short: the longer, the surer another process comes between
    more = max(25, min(50, 2_000_000 // rows))

    def solve(cap: int) -> None:
        solve_krylov(system, minv, j, c, b, place, cap, 1e-30, work, lam, report)

    runs = [Contender(str(cap), partial(solve, cap)) for cap in (10, 10 + more)]
    few, many = (best.cpu for best in race(runs, seconds=seconds, rounds=12).values())
    return (many - few) / (more * rows)  # the difference is iterations alone


def _growth(table: Table, sizes: tuple[int, ...], seconds: float, watch: Watch) -> float:
    part = table.part(
        "square nets of bodies on balls: time of a solver iteration per row",
        Column("bodies", "bodies"),
        Column("rows", "rows"),
        Column("each", "per iteration\nand row", "ns"),
    )
    found = []
    for bodies in sizes:
        watch(f"net of {bodies}", 1)
        net = flat_net(bodies)
        found.append(1e9 * _iteration_time(net, seconds))
        part.add(bodies=len(net[1]), rows=int(net[0].row_start[-1]), each=found[-1])
    return max(found) / min(found)


def fill(table: Table, quick: bool, watch: Watch) -> None:
    """Measure the table; see `bench.DESCRIPTIONS`."""
    sizes, seconds = (_QUICK_SIZES, 0.02) if quick else (_SIZES, 1.0)
    watch.begin(6 + len(sizes))
    best = _frames(table, seconds, watch)
    gains = _against_scipy(table, seconds, watch)
    growth = _growth(table, sizes, seconds, watch)
    if not quick:
        table.bars.append(Bar("assembly of 758 constraints, 6 x 30 [ms]", best["assembly"], 10.0, False))
        table.bars.append(Bar("frame of the structure at 2 x 5 [ms]", best["drag 2 x 5"], 0.3, False))
        table.bars.append(Bar("frame of the plate at 1 x 15 [ms]", best["plate"], 0.2, False))
        table.bars.append(Bar("minres / ours, unit metric", gains["unit"], 20.0))
        table.bars.append(Bar("minres / ours, physical metric", gains["physical"], 20.0))
        table.bars.append(Bar("largest / least time per iteration and row", growth, 1.5, False))
    table.note("frames are whole calls from Python: the tracker moved, one step, what happened read")
    table.note("ours has a block-Jacobi preconditioner, set up within the time; minres has none")
    table.note("over the tree is what `assemble` takes where loops are few, as in the ring")
