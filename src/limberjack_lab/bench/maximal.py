"""Acceleration solves in maximal coordinates, by steps of method `multipliers` and by LAPACK and SuperLU.

A step of `EULER` is one solve, rows, factor, back substitution, and an explicit move of the bodies: the linear time of
Baraff 1996. `DENSE` takes all multipliers in one matrix, the cube of their number. LAPACK and SuperLU get the matrices
of bodies on ball joints, built here with NumPy:

    M a = F + J^T lam,  J a + c = 0   so that   J M^-1 J^T lam = -(c + J M^-1 F)
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import limberjack as lj
from limberjack import errors
from limberjack_lab.bench.clock import Contender, race, until_long
from limberjack_lab.bench.frames import matrix_of, rotate
from limberjack_lab.bench.free_bodies import Bodies
from limberjack_lab.bench.table import MISSING, Column, Table, Watch, difference, ratio

__all__ = [
    "DENSE",
    "EULER",
    "PAPER_FACTORS",
    "Solve",
    "accelerations",
    "elimination",
    "matrices",
    "on_one_thread",
    "step_of",
    "stirred",
]

EULER = lj.Multipliers(integrator="euler", stabilization="none", solver="tree")
DENSE = replace(EULER, solver="dense")
# How many times faster than the elimination of all multipliers the paper's method is, by multipliers (section 9).
PAPER_FACTORS = {99: 2.0, 381: 40.0}
# Steps so short that a sample of many stays at the state it starts from [s].
_DT = 1e-6
_THREADS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")

_COLUMNS = (
    Column("rows", "multipliers"),
    Column("step", "linear time,\none step", "us"),
    Column("each", "per\nmultiplier", "ns"),
    Column("dense", "all in one\nmatrix, one step", "us"),
    Column("dense_ratio", "one matrix /\nlinear", "x"),
    Column("paper", "the paper's\nratio", "x"),
    Column("lapack", "Cholesky alone,\nLAPACK", "us"),
    Column("lapack_ratio", "LAPACK /\nlinear", "x"),
    Column("gap", "accelerations:\nboth ways", "rel"),
)


def stirred(model: lj.Model) -> np.ndarray:
    """Return velocities (nv,) up to 1 rad/s, so that biases are not zero."""
    return np.random.default_rng(0).uniform(-1.0, 1.0, model.nv)


def _started(model: lj.Model, method: lj.Multipliers, qd: np.ndarray | None) -> lj.Simulation:
    return lj.Simulation(model, method, dt=_DT, qd=model.qd0 if qd is None else qd)


def accelerations(model: lj.Model, method: lj.Multipliers = EULER, qd: np.ndarray | None = None) -> np.ndarray:
    """Return the accelerations (n, 6) of all bodies at the start, angular first, com, world axes."""
    sim = _started(model, method, qd)
    before = sim.velocities
    sim.step()
    return (sim.velocities - before) / _DT


def step_of(key: str, model: lj.Model, method: lj.Multipliers, qd: np.ndarray | None = None) -> Contender:
    """Return steps at the start of a model, to be timed."""
    sim = _started(model, method, qd)
    start = sim.snapshot()
    n = until_long(sim.step)

    def restart() -> None:
        sim.restore(start)
        sim.step()  # renews what a restored state lacks

    return Contender(key, lambda: sim.step(n), units=n, prepare=restart)


# Matrices


@dataclass
class Solve:
    """Mass blocks (n, 6, 6), Jacobian (rows, 6 n) in CSC, forces (6 n,) and biases (rows,) of bodies on ball joints."""

    m: np.ndarray
    j: Any
    f: np.ndarray
    c: np.ndarray

    def accelerations(self, lam: np.ndarray) -> np.ndarray:
        """Return M^-1 (F + J^T lam), (n, 6)."""
        return np.linalg.solve(self.m, (self.f + self.j.T @ lam).reshape(-1, 6, 1))[..., 0]


def _skew(v: np.ndarray) -> np.ndarray:
    out = np.zeros((len(v), 3, 3))
    out[:, 0, 1], out[:, 0, 2], out[:, 1, 2] = -v[:, 2], v[:, 1], -v[:, 0]
    return out - out.transpose(0, 2, 1)


def matrices(model: lj.Model, qd: np.ndarray, sparse: Any) -> Solve:
    """Return the system of a model of bodies on ball joints at its start; `sparse` is scipy.sparse."""
    bodies = Bodies(model, reorder=False)
    n, ends = len(bodies.names), bodies.ends
    w = _started(model, EULER, qd).velocities[:, :3]
    turn = matrix_of(bodies.rotations)
    inertia = turn @ np.array([spec.inertia for spec in bodies.specs]) @ turn.transpose(0, 2, 1)
    m = np.zeros((n, 6, 6))
    m[:, :3, :3] = inertia
    m[:, 3:, 3:] = np.array([spec.mass for spec in bodies.specs])[:, None, None] * np.eye(3)
    f = np.zeros((n, 6))
    f[:, :3] = -np.cross(w, np.einsum("nij,nj->ni", inertia, w))
    f[:, 3:] = m[:, 3:, 3:] @ model.gravity
    c = np.zeros((len(ends), 3))
    blocks: list[Any] = []
    for k, sign in ((0, -1.0), (1, 1.0)):  # child relative to parent
        on = np.flatnonzero(ends[:, k] >= 0)
        body = ends[on, k]
        lever = rotate(bodies.rotations[body], bodies.points[on, k])
        c[on] += sign * np.cross(w[body], np.cross(w[body], lever))
        block = sign * np.concatenate([-_skew(lever), np.broadcast_to(np.eye(3), (len(on), 3, 3))], axis=2)
        rows = np.broadcast_to(3 * on[:, None, None] + np.arange(3)[:, None], block.shape)
        columns = np.broadcast_to(6 * body[:, None, None] + np.arange(6), block.shape)
        blocks.append((block.ravel(), rows.ravel(), columns.ravel()))
    values, rows, columns = (np.concatenate(part) for part in zip(*blocks, strict=True))
    j = sparse.csc_matrix((values, (rows, columns)), shape=(3 * len(ends), 6 * n))
    return Solve(m, j, f.ravel(), c.ravel())


def on_one_thread(module: str) -> Any:
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


def _lapack(model: lj.Model, qd: np.ndarray) -> tuple[Contender, np.ndarray] | None:
    """Return LAPACK's Cholesky solve of the matrix formed before and its accelerations; None without scipy."""
    try:
        lapack, sparse = on_one_thread("scipy.linalg.lapack"), on_one_thread("scipy.sparse")
    except errors.MissingExtra:
        return None
    system = matrices(model, qd, sparse)
    inverse = sparse.block_diag(list(np.linalg.inv(system.m)), format="csc")
    matrix = np.asfortranarray((system.j @ inverse @ system.j.T).toarray())
    side = -(system.c + system.j @ (inverse @ system.f))
    found = system.accelerations(lapack.dposv(matrix, side)[1])
    return Contender("lapack", lambda: lapack.dposv(matrix, side)), found


def elimination(table: Table, trees: tuple[int, ...], most: int, seconds: float, watch: Watch) -> list[dict[str, Any]]:
    """Add the binary trees of so many bodies: linear time, and up to `most` bodies all multipliers at once."""
    part = table.part("binary trees of bodies on ball joints: one acceleration solve and step", *_COLUMNS)
    for bodies in trees:
        watch(f"elimination, {bodies} bodies", 1)
        model = lj.scenes.baraff_tree(bodies=bodies)
        qd, rows = stirred(model), 3 * bodies
        row: dict[str, Any] = part.add(rows=rows, paper=PAPER_FACTORS.get(rows))
        runs, own, lapack = [step_of("step", model, EULER, qd)], accelerations(model, EULER, qd), None
        if bodies <= most:
            row["gap"] = difference(own, accelerations(model, DENSE, qd))
            runs.append(step_of("dense", model, DENSE, qd))
            lapack, row["lapack"] = _lapack(model, qd), MISSING
            if lapack is not None:
                runs.append(lapack[0])
        best = {key: 1e6 * one.cpu for key, one in race(runs, seconds=seconds * len(runs)).items()}
        row["step"] = table.trust(f"{rows} multipliers", row.get("gap", 0.0), best["step"])
        row["each"] = 1e3 * best["step"] / rows
        row["dense"] = best.get("dense")
        if lapack is not None:
            row["lapack"] = table.trust("LAPACK", difference(lapack[1], own), best["lapack"])
        row["dense_ratio"], row["lapack_ratio"] = (ratio(row.get(key), row["step"]) for key in ("dense", "lapack"))
    table.note("the step in one matrix is called from Python, 0.2 ms of it; LAPACK: dposv of a matrix formed before")
    return part.rows
