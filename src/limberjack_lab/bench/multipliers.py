"""Table `multipliers`: one acceleration solve in maximal coordinates, against its size and against other solvers."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from limberjack import errors, scenes
from limberjack.linear.tree import residual
from limberjack.model.builder import Builder
from limberjack.model.model import Model
from limberjack.model.spec import WORLD
from limberjack_lab.bench import closed_trees
from limberjack_lab.bench.chain import difference
from limberjack_lab.bench.clock import Contender, race, until_long
from limberjack_lab.bench.elimination import FACTOR, ROWS, SOLVE, Solve
from limberjack_lab.bench.table import MISSING, Bar, Column, Table, Watch, ratio

__all__ = ["FULL", "PAPER_FACTORS", "QUICK", "SHAPES", "TITLE", "Extent", "fill", "hung", "left_over", "timed"]

TITLE = "accelerations by Lagrange multipliers in linear time (Baraff 1996), everything inside"
# How many times faster than the elimination of all multipliers the paper's method is, by multipliers (section 9).
PAPER_FACTORS = {99: 2.0, 381: 40.0}
# Turning speeds of all balls at the start are drawn up to this, so that biases are not zero [rad/s].
_STIR = 1.0

# The body above body i.
SHAPES: dict[str, Callable[[int], int]] = {
    "chain": lambda i: i - 1,
    "binary tree": lambda i: (i + 1) // 2 - 1,
    "star": lambda i: 0 if i else -1,
}


@dataclass(frozen=True)
class Extent:
    """How much is measured.

    Attributes:
        sizes: bodies of chains, trees and stars.
        growing: the two sizes between which the time per body is compared.
        trees: bodies of the trees solved by others too.
        bodies: of the tree with loops.
        loops: how many of them.
        run: how long joint errors are watched [s].
        seconds: per contender.
    """

    sizes: tuple[int, ...] = (100, 1000, 10_000, 100_000)
    growing: tuple[int, int] = (1000, 100_000)
    trees: tuple[int, ...] = (33, 127)
    bodies: int = 127
    loops: tuple[int, ...] = (0, 1, 12, 48)
    run: float = 1.0
    seconds: float = 1.5


FULL = Extent()
QUICK = Extent((100, 300), (100, 300), (7, 33), 31, (0, 1, 4), 0.05, 0.05)

_GROWTH_COLUMNS = (
    Column("shape", "bodies on balls"),
    Column("n", "bodies"),
    Column("rows", "multipliers"),
    Column("us", "one solve", "us"),
    Column("body", "one solve,\nper body", "ns"),
    Column("rows_ns", "rows,\nper body", "ns"),
    Column("factor_ns", "factor,\nper body", "ns"),
    Column("solve_ns", "solve,\nper body", "ns"),
    Column("share", "factor /\nsolve", "x"),
    Column("growth", "per body, over\nthe least N compared", "x"),
    Column("left", "left of the\nright side", "rel"),
    Column("prepare", "preparing,\nonce", "s"),
)
_DENSE_COLUMNS = (
    Column("rows", "multipliers"),
    Column("ours", "ours", "us"),
    Column("plain", "elimination of all,\nplain loops", "us"),
    Column("plain_ratio", "plain /\nours", "x"),
    Column("paper", "the paper's\nratio", "x"),
    Column("lapack", "Cholesky,\nLAPACK", "us"),
    Column("lapack_ratio", "LAPACK /\nours", "x"),
    Column("gap", "ours and\nplain", "rel"),
)
_SPARSE_COLUMNS = (
    Column("rows", "multipliers"),
    Column("ours", "ours", "us"),
    Column("schur", "splu of\nJ M^-1 J^T", "us"),
    Column("saddle", "splu of the\nsaddle system", "us"),
    Column("faster", "best splu /\nours", "x"),
    Column("order", "best order of columns"),
    Column("gap", "ours and\nsplu", "rel"),
)


def hung(shape: str, bodies: int) -> Model:
    """Return bodies of 0.5 m and 1 kg that hang on balls, each from the one above it; nothing to draw."""
    builder = Builder(shape)
    for i in range(bodies):
        above = SHAPES[shape](i)
        at = (0.05 if i % 2 else -0.05, 0.0, -0.5) if i else (0.0, 0.0, 0.0)
        builder.add_body(f"body{i}", mass=1.0, com=(0.0, 0.0, -0.25), inertia=(0.021, 0.021, 0.005))
        builder.add_joint_ball(f"ball{i}", WORLD if above < 0 else f"body{above}", f"body{i}", position=at)
    return builder.build()


def _stirred(model: Model, **options: Any) -> Solve:
    return Solve(model, qd=np.random.default_rng(0).uniform(-_STIR, _STIR, model.nv), **options)


def left_over(solve: Solve) -> float:
    """Return how much of the right sides a solution leaves, each over the largest of its terms."""
    e, s, system = solve.evaluation, solve.saddle, solve.system
    nr = solve.rows
    bodies, rows, none = np.zeros(len(s.a)), np.zeros(nr), np.zeros(nr)
    residual(system, e.m, e.j, none, solve.force, s.r[:nr], s.a, s.lam[:nr], bodies, rows)
    size = max(np.abs(s.lam[:nr]).max(), np.abs(solve.force).max())
    return float(max(np.abs(bodies).max() / size, np.abs(rows).max() / np.abs(s.a).max()))


def timed(solve: Solve, seconds: float) -> dict[str, float]:
    """Return the processor time of a whole solve and of its parts, "all", "rows", "factor" and "solve" [s]."""
    parts = {"all": ROWS | FACTOR | SOLVE, "rows": ROWS, "factor": FACTOR, "solve": SOLVE}
    n = until_long(solve)
    contenders = [
        Contender(key, lambda what=what: solve(n, what), units=n, prepare=lambda: solve(1))
        for key, what in parts.items()
    ]
    return {key: best.cpu for key, best in race(contenders, seconds=seconds).items()}


def _growth(table: Table, extent: Extent, watch: Watch) -> list[dict[str, Any]]:
    part = table.part("one acceleration solve: rows, factor, solve", *_GROWTH_COLUMNS)
    for shape in SHAPES:
        for n in extent.sizes:
            watch(f"{shape} of {n:,} bodies", 1)
            row: dict[str, Any] = part.add(shape=shape, n=n)
            begin = time.perf_counter()
            solve = _stirred(hung(shape, n))
            row["prepare"] = time.perf_counter() - begin
            solve(1)
            row["rows"], row["left"] = solve.rows, left_over(solve)
            best = timed(solve, 2 * extent.seconds)
            row["us"] = table.trust(f"{shape} of {n:,} bodies", row["left"], 1e6 * best["all"])
            if isinstance(row["us"], float):
                row["body"] = 1e3 * row["us"] / n
                row |= {f"{key}_ns": 1e9 * best[key] / n for key in ("rows", "factor", "solve")}
                row["share"] = ratio(best["factor"], best["solve"])
    low = {row["shape"]: row.get("body") for row in part.rows if row["n"] == extent.growing[0]}
    for row in part.rows:
        row["growth"] = ratio(row.get("body"), low.get(row["shape"]))
    return part.rows


# Dense

_THREADS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")


def _on_one_thread(module: str) -> Any:
    """Return a module of scipy whose LAPACK keeps to one thread: it reads how many to take when it is first loaded."""
    before = {word: os.environ.get(word) for word in _THREADS}
    os.environ.update(dict.fromkeys(_THREADS, "1"))
    try:
        return errors.require(module, extra="bench")
    finally:
        for word, value in before.items():
            if value is None:
                del os.environ[word]
            else:
                os.environ[word] = value


def _by_lapack(solve: Solve) -> Callable[[], Any] | None:
    """Return the solve by LAPACK's Cholesky factorisation of the matrix our kernel forms, or None without scipy."""
    try:
        lapack = _on_one_thread("scipy.linalg.lapack")
    except errors.MissingExtra:
        return None

    def run() -> None:
        solve.by_elimination(1, eliminated=False)
        dense = solve.dense
        assert dense is not None
        # the upper half by rows is the lower half by columns, as LAPACK has them: nothing is copied
        lapack.dposv(dense.matrix.T, dense.lam, lower=1, overwrite_a=1, overwrite_b=1)
        solve.spread()

    return run


def _dense_gap(solve: Solve) -> float:
    assert solve.dense is not None
    return difference(solve.dense.a, solve.saddle.a)


def _dense(table: Table, extent: Extent, watch: Watch) -> list[dict[str, Any]]:
    title = "the same accelerations by elimination of all multipliers at once; rows, J M^-1 J^T and the rest inside"
    part = table.part(title, *_DENSE_COLUMNS)
    for bodies in extent.trees:
        watch(f"elimination, {bodies} bodies", 1)
        solve = _stirred(scenes.baraff_tree(bodies=bodies))
        row: dict[str, Any] = part.add(rows=solve.rows, paper=PAPER_FACTORS.get(solve.rows))
        solve(1)
        solve.by_elimination(1)
        row["gap"] = _dense_gap(solve)
        n = until_long(solve)
        contenders = [
            Contender("ours", lambda solve=solve, n=n: solve(n), units=n),
            Contender("rows", lambda solve=solve, n=n: solve(n, ROWS), units=n),
            Contender("plain", lambda solve=solve: solve.by_elimination(1)),
        ]
        lapack, row["lapack"] = _by_lapack(solve), MISSING
        if lapack is not None:
            lapack()
            gap = _dense_gap(solve)
            contenders.append(Contender("lapack", lapack))
        best = {key: 1e6 * one.cpu for key, one in race(contenders, seconds=len(contenders) * extent.seconds).items()}
        row["ours"] = table.trust(f"{solve.rows} multipliers", row["gap"], best["ours"])
        row["plain"] = best["plain"] + best["rows"]
        if lapack is not None:
            row["lapack"] = table.trust("LAPACK", gap, best["lapack"] + best["rows"])
        row["plain_ratio"] = ratio(row["plain"], row["ours"])
        row["lapack_ratio"] = ratio(row["lapack"], row["ours"])
    return part.rows


# Sparse


def _matrices(solve: Solve, sparse: Any) -> dict[str, tuple[Any, np.ndarray, int]]:
    """Return, of J M^-1 J^T and of the saddle system: matrix, right side, and where lam stands in the solution."""
    e, s, system = solve.evaluation, solve.saddle, solve.system
    nr, nu, dim = solve.rows, len(s.a), 6
    blocks = e.m.reshape(-1, dim, dim)
    mass = sparse.block_diag(list(blocks), format="csc")
    inverse = sparse.block_diag(list(np.linalg.inv(blocks)), format="csc")
    touches = np.repeat(np.arange(len(system.row_start) - 1), np.diff(system.incidence_start))
    height = np.diff(system.row_start)[touches]
    place = np.concatenate([np.add.outer(np.arange(h) + system.row_start[c], np.zeros(dim, int)).ravel()
                            for c, h in zip(touches, height, strict=True)])  # fmt: skip
    column = np.concatenate([np.tile(np.arange(dim) + system.body_start[b], h)
                             for b, h in zip(system.incidence_body, height, strict=True)])  # fmt: skip
    j = sparse.csc_matrix((e.j[: system.block_start[-1]], (place, column)), shape=(nr, nu))
    r = s.r[:nr]
    return {
        "schur": ((j @ inverse @ j.T).tocsc(), -(r + j @ (inverse @ solve.force)), 0),
        "saddle": (sparse.bmat([[mass, -j.T], [-j, None]], format="csc"), np.concatenate([solve.force, r]), nu),
    }


def _splu(solve: Solve, row: dict[str, Any], seconds: float) -> None:
    """Write the times of SuperLU by its best order of columns."""
    sparse, linalg = _on_one_thread("scipy.sparse"), _on_one_thread("scipy.sparse.linalg")
    lam, gap, runs = solve.saddle.lam[: solve.rows], 0.0, []
    for key, (matrix, side, at) in _matrices(solve, sparse).items():
        for order in ("COLAMD", "MMD_AT_PLUS_A", "NATURAL"):
            # the Schur complement is positive definite and needs no pivots
            how = {"diag_pivot_thresh": 0.0, "options": {"SymmetricMode": True}} if key == "schur" else {}

            def run(matrix=matrix, side=side, order=order, how=how) -> np.ndarray:
                return linalg.splu(matrix, permc_spec=order, **how).solve(side)

            gap = max(gap, difference(run()[at : at + solve.rows], lam))
            runs.append(Contender(f"{key} {order}", run))
    n = until_long(solve)
    runs.append(Contender("ours", lambda: solve(n, FACTOR | SOLVE), units=n))
    best = {key: 1e6 * one.cpu for key, one in race(runs, seconds=len(runs) * 0.5 * seconds).items()}
    row["ours"], row["gap"] = best.pop("ours"), gap
    for key in ("schur", "saddle"):
        row[key] = min(value for name, value in best.items() if name.startswith(key))
    row["order"] = min(best, key=lambda name: best[name])
    row["faster"] = ratio(min(row["schur"], row["saddle"]), row["ours"])


def _sparse(table: Table, extent: Extent, watch: Watch) -> list[dict[str, Any]]:
    part = table.part("factor and solve alone, of matrices built before, by SuperLU (scipy)", *_SPARSE_COLUMNS)
    for bodies in extent.trees:
        watch(f"SuperLU, {bodies} bodies", 1)
        solve = _stirred(scenes.baraff_tree(bodies=bodies))
        solve(1)
        row: dict[str, Any] = part.add(rows=solve.rows)
        try:
            _splu(solve, row, extent.seconds)
        except errors.MissingExtra as error:
            row["schur"] = row["saddle"] = MISSING
            table.note(f"scipy: {MISSING} ({error})")
            continue
        table.trust(f"SuperLU, {solve.rows} multipliers", row["gap"], 0.0)
    return part.rows


def _bars(
    table: Table,
    extent: Extent,
    growth: list[dict[str, Any]],
    dense: list[dict[str, Any]],
    sparse: list[dict[str, Any]],
) -> None:
    whole = extent.growing == FULL.growing and extent.trees == FULL.trees

    def cell(among: list[dict[str, Any]], key: str, **where: Any) -> float | None:
        found = [row.get(key) for row in among if all(row.get(word) == value for word, value in where.items())]
        return found[0] if whole and found and isinstance(found[0], float) else None

    for shape in SHAPES:
        value = cell(growth, "growth", shape=shape, n=FULL.growing[1])
        table.bars.append(Bar(f"{shape}: time per body, 100,000 bodies over 1000", value, 1.5, False))
    table.bars += [
        Bar("elimination of all / ours, 99 multipliers", cell(dense, "plain_ratio", rows=99), PAPER_FACTORS[99]),
        Bar("elimination of all / ours, 381 multipliers", cell(dense, "plain_ratio", rows=381), PAPER_FACTORS[381]),
        Bar("LAPACK / ours, 381 multipliers", cell(dense, "lapack_ratio", rows=381), 5.0),
        Bar("SuperLU / ours, 381 multipliers", cell(sparse, "faster", rows=381), 5.0),
    ]


def fill(table: Table, quick: bool, watch: Watch, extent: Extent | None = None) -> None:
    """Measure the table; see `TABLES`."""
    extent = extent or (QUICK if quick else FULL)
    watch.begin(len(SHAPES) * len(extent.sizes) + 2 * len(extent.trees) + len(extent.loops))
    table.note("one thread, processor time of that thread, best of samples taken in turns; compiled loops")
    table.note("parts of a solve are repeated alone, on warm caches: their sum is less than the whole of large systems")
    table.note("the paper's factor costs about 4 times its solve; its systems of 99 multipliers have 3 contacts inside")
    table.note("LAPACK: dposv, its matrix formed by our kernel, on one thread unless scipy was loaded before")
    growth: list[dict[str, Any]] = []
    dense: list[dict[str, Any]] = []
    sparse: list[dict[str, Any]] = []
    try:
        dense = _dense(table, extent, watch)
        sparse = _sparse(table, extent, watch)
        closed_trees.fill(table, extent.bodies, extent.loops, extent.run, extent.seconds, watch)
        growth = _growth(table, extent, watch)
    finally:
        _bars(table, extent, growth, dense, sparse)
