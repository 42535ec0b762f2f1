"""Table `multipliers`: steps in maximal coordinates, against their size and against other solvers."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import limberjack as lj
from limberjack import errors, scenes
from limberjack_lab.bench import closed_trees
from limberjack_lab.bench.clock import Contender, microseconds
from limberjack_lab.bench.maximal import (
    EULER,
    PAPER_FACTORS,
    accelerations,
    elimination,
    on_one_thread,
    rows_of,
    step_of,
    stirred,
)
from limberjack_lab.bench.table import MISSING, Table, Watch, cell, columns, difference, ratio

__all__ = ["FULL", "QUICK", "SHAPES", "TITLE", "Extent", "fill", "hanging", "relative"]

TITLE = "accelerations by Lagrange multipliers in linear time (Baraff 1996), everything inside"

# The body above body i.
SHAPES: dict[str, Callable[[int], int]] = {
    "chain": lambda i: i - 1,
    "binary tree": lambda i: (i + 1) // 2 - 1,
    "star": lambda i: 0 if i else -1,
}


@dataclass(frozen=True)
class Extent:
    """How much is measured."""

    sizes: tuple[int, ...] = (100, 1000, 10_000, 100_000)  # bodies of chains, trees and stars
    growing: tuple[int, int] = (1000, 100_000)  # the two sizes between which the time per body is compared
    trees: tuple[int, ...] = (33, 127)  # bodies of the trees solved by others too
    bodies: int = 127  # of the tree with loops
    loops: tuple[int, ...] = (0, 1, 12, 48)  # how many of them
    run: float = 1.0  # how long joint errors are watched [s]
    seconds: float = 1.5  # per contender


FULL = Extent()
QUICK = Extent((100, 300), (100, 300), (7, 33), 31, (0, 1, 4), 0.05, 0.05)

_GROWTH_COLUMNS = columns(
    "shape: bodies on balls; n: bodies; rows: multipliers; step: one step [us]; step_body: one step,|per body [ns]; "
    "step_growth: per body, over|the least N compared [x]; gap: accelerations: ours and|reduced coordinates [rel]; "
    "prepare: preparing,|once [s]"
)
_SPARSE_COLUMNS = columns(
    "rows: multipliers; step: ours,|whole step [us]; schur: splu of|J M^-1 J^T [us]; "
    "saddle: splu of the|saddle system [us]; faster: best splu /|our step [x]; order: best order of columns; "
    "gap: accelerations:|ours and splu [rel]"
)
# What SuperLU is compared with: loops go into one block-sparse factorisation.
_SPARSE = lj.Multipliers(integrator="rattle", solver="sparse", tolerance=2e-7)


def hanging(shape: str, bodies: int) -> lj.Model:
    """Return bodies of 0.5 m and 1 kg that hang on ball joints, each from the one above it; nothing to draw."""
    builder = lj.Builder(shape)
    for i in range(bodies):
        above = SHAPES[shape](i)
        at = (0.05 if i % 2 else -0.05, 0.0, -0.5) if i else (0.0, 0.0, 0.0)
        builder.add_body(f"body{i}", mass=1.0, com=(0.0, 0.0, -0.25), inertia=(0.021, 0.021, 0.005))
        builder.add_joint_ball(f"ball{i}", "world" if above < 0 else f"body{above}", f"body{i}", position=at)
    return builder.build()


def relative(model: lj.Model, w: np.ndarray, a: np.ndarray) -> np.ndarray:
    """Return qdd (nv,) of ball joints whose frames stand along the world's axes, from the bodies' w and a (n, 3)."""
    parents = [model.body(name).parent for name in model.body_names]
    parent = np.array([-1 if name == "world" else model.body_index(name) for name in parents])
    above_w, above_a = (np.vstack([x, np.zeros(3)])[parent] for x in (w, a))
    return (a - above_a - np.cross(w, w - above_w)).ravel()


def _growth(table: Table, extent: Extent, watch: Watch) -> None:
    part = table.part("one acceleration solve and step: rows, factor, solve, explicit Euler", *_GROWTH_COLUMNS)
    for shape in SHAPES:
        for n in extent.sizes:
            watch(f"{shape} of {n:,} bodies", 1)
            row: dict[str, Any] = part.add(shape=shape, n=n, rows=3 * n)
            model = hanging(shape, n)
            qd = stirred(model)
            begin = time.perf_counter()
            run = step_of("step", model, EULER, qd)
            row["prepare"] = time.perf_counter() - begin
            w = lj.Simulation(model, qd=qd).velocities[:, :3]
            own = relative(model, w, accelerations(model, EULER, qd))
            row["gap"] = difference(own, lj.forward_dynamics(model, model.q0, qd))
            best = microseconds([run], extent.seconds)["step"]
            row["step"] = table.trust(f"{shape} of {n:,} bodies", row["gap"], best)
            if isinstance(row["step"], float):
                row["step_body"] = 1e3 * row["step"] / n
    low = {row["shape"]: row.get("step_body") for row in part.rows if row["n"] == extent.growing[0]}
    for row in part.rows:
        row["step_growth"] = ratio(row.get("step_body"), low.get(row["shape"]))
    for shape in SHAPES:
        value = cell(part.rows, "step_growth", shape=shape, n=FULL.growing[1])
        table.bar(f"{shape}: time per body, 100,000 bodies over 1000", value, 1.5, False)


def _splu(model: lj.Model, qd: np.ndarray, row: dict[str, Any], seconds: float) -> None:
    """Write the times of SuperLU by its best order of columns, and of our step."""
    sparse, linalg = on_one_thread("scipy.sparse"), on_one_thread("scipy.sparse.linalg")
    s = rows_of(model, sparse, qd)
    mass = sparse.block_diag(list(s.m), format="csc")
    # matrix, right side, and where lam stands in the solution
    systems = {
        "schur": (s.schur(sparse), s.side(), 0),
        "saddle": (sparse.bmat([[mass, -s.j.T], [-s.j, None]], format="csc"), np.concatenate([s.f, s.c]), len(s.f)),
    }
    own, gap, runs = accelerations(model, EULER, qd), 0.0, []
    for key, (matrix, side, at) in systems.items():
        for order in ("COLAMD", "MMD_AT_PLUS_A", "NATURAL"):
            # the Schur complement is positive definite and needs no pivots
            how = {"diag_pivot_thresh": 0.0, "options": {"SymmetricMode": True}} if key == "schur" else {}

            def run(matrix=matrix, side=side, order=order, how=how) -> np.ndarray:
                return linalg.splu(matrix, permc_spec=order, **how).solve(side)

            gap = max(gap, difference(s.accelerations(run()[at : at + len(s.c)])[:, :3], own))
            runs.append(Contender(f"{key} {order}", run))
    runs.append(step_of("step", model, _SPARSE, qd))
    best = microseconds(runs, 0.5 * seconds)
    row["step"], row["gap"] = best.pop("step"), gap
    for key in systems:
        row[key] = min(value for name, value in best.items() if name.startswith(key))
    row["order"] = min(best, key=lambda name: best[name])
    row["faster"] = ratio(min(row["schur"], row["saddle"]), row["step"])


def _sparse(table: Table, extent: Extent, watch: Watch) -> None:
    title = "factor and solve alone by SuperLU (scipy), of matrices built before, and our whole step"
    part = table.part(title, *_SPARSE_COLUMNS)
    for bodies in extent.trees:
        watch(f"SuperLU, {bodies} bodies", 1)
        model = scenes.baraff_tree(bodies=bodies)
        row: dict[str, Any] = part.add(rows=3 * bodies)
        try:
            _splu(model, stirred(model), row, extent.seconds)
        except errors.MissingExtra as error:
            row["schur"] = row["saddle"] = MISSING
            table.note(f"scipy: {MISSING} ({error})")
            continue
        table.trust(f"SuperLU, {row['rows']} multipliers", row["gap"], 0.0)
    table.bar("SuperLU / ours, 381 multipliers", cell(part.rows, "faster", rows=381), 5.0)


def fill(table: Table, quick: bool, watch: Watch, extent: Extent | None = None) -> None:
    """Measure the table; see `TABLES`."""
    extent = extent or (QUICK if quick else FULL)
    watch.begin(len(SHAPES) * len(extent.sizes) + 2 * len(extent.trees) + len(extent.loops))
    table.note(
        "one thread, processor time of that thread, best of samples taken in turns; many steps in one call",
        "a step is one solve, rows, factor and back substitution, and a move: its time bounds that of the solve",
        "the paper's systems of 99 multipliers have 3 contacts inside",
    )
    rows = elimination(table, extent.trees, max(extent.trees), extent.seconds, watch)
    for count, factor in PAPER_FACTORS.items():
        table.bar(f"all in one matrix / ours, {count} multipliers", cell(rows, "dense_ratio", rows=count), factor)
    table.bar("LAPACK / ours, 381 multipliers", cell(rows, "lapack_ratio", rows=381), 5.0)
    _sparse(table, extent, watch)
    closed_trees.fill(table, extent.bodies, extent.loops, extent.run, extent.seconds, watch)
    _growth(table, extent, watch)
