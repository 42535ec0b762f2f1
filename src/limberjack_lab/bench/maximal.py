"""Acceleration solves in maximal coordinates, by steps of method `multipliers` and by LAPACK and SuperLU.

A step of `EULER` is one solve, rows, factor, back substitution, and an explicit move of the bodies: the linear time of
Baraff 1996. `DENSE` takes all multipliers in one matrix, the cube of their number. LAPACK, SuperLU and minres get
matrices built here with NumPy:

    M a = F + J^T lam,  J a + c = 0   so that   J M^-1 J^T lam = -(c + J M^-1 F)
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import limberjack as lj
from limberjack import errors
from limberjack_lab.bench.clock import Contender, microseconds, repeated
from limberjack_lab.bench.frames import matrix_of
from limberjack_lab.bench.peers import joint_rotation
from limberjack_lab.bench.table import MISSING, Table, Watch, columns, difference, ratio

__all__ = [
    "DENSE",
    "EULER",
    "PAPER_FACTORS",
    "Rows",
    "accelerations",
    "elimination",
    "on_one_thread",
    "rows_of",
    "step_of",
    "stirred",
]

EULER = lj.Multipliers(integrator="euler", stabilization="none", solver="tree")
DENSE = replace(EULER, solver="dense")
# How many times faster than the elimination of all multipliers the paper's method is, by multipliers (section 9).
PAPER_FACTORS = {99: 2.0, 381: 40.0}
# Steps so short that a sample of many stays near the state it starts from [s].
_DT = 1e-4
_THREADS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")

_COLUMNS = columns(
    "rows: multipliers; step: linear time,|one step [us]; each: per|multiplier [ns]; "
    "dense: all in one|matrix, one step [us]; dense_ratio: one matrix /|linear [x]; paper: the paper's|ratio [x]; "
    "lapack: Cholesky alone,|LAPACK [us]; lapack_ratio: LAPACK /|linear [x]; gap: accelerations:|both ways [rel]"
)


def stirred(model: lj.Model) -> np.ndarray:
    """Return velocities (nv,) up to 1 rad/s, so that biases are not zero."""
    return np.random.default_rng(0).uniform(-1.0, 1.0, model.nv)


def accelerations(model: lj.Model, method: Any = EULER, qd: np.ndarray | None = None) -> np.ndarray:
    """Return the angular accelerations (n, 3) of all bodies at the start, world axes, by an explicit method."""
    sim = lj.Simulation(model, method, dt=_DT, qd=qd)
    before = sim.velocities[:, :3]
    sim.step()
    return (sim.velocities[:, :3] - before) / _DT


def step_of(key: str, model: lj.Model, method: lj.Multipliers, qd: np.ndarray | None = None) -> Contender:
    """Return steps at the start of a model, to be timed."""
    return repeated(key, lj.Simulation(model, method, dt=_DT, qd=qd))


@dataclass
class Rows:
    """The linear system of a model at its start, without limits and motors."""

    m: np.ndarray  # (n, 6, 6) mass blocks, about the com, world axes
    j: Any  # (rows, 6 n) Jacobian of the joints, scipy's CSC
    f: np.ndarray  # (6 n,) forces: weight and gyroscopic torques
    c: np.ndarray  # (rows,) biases; of ball joints only
    value: np.ndarray  # (rows,) gaps of the joints, 0 for rows of rotation

    def schur(self, sparse: Any) -> Any:
        """Return J M^-1 J^T, scipy's CSC."""
        return (self.j @ sparse.block_diag(list(np.linalg.inv(self.m)), format="csc") @ self.j.T).tocsc()

    def accelerations(self, lam: np.ndarray) -> np.ndarray:
        """Return M^-1 (F + J^T lam), (n, 6), angular first."""
        return np.linalg.solve(self.m, (self.f + self.j.T @ lam).reshape(-1, 6, 1))[..., 0]

    def side(self) -> np.ndarray:
        """Return the right side -(c + J M^-1 F) of the multipliers."""
        return -(self.c + self.j @ self.accelerations(np.zeros(len(self.c))).ravel())


def _directions(joint: Any, parent: np.ndarray, child: np.ndarray) -> np.ndarray:
    """Return (k, 3) the axes, world, about which a joint with frames `parent` and `child` does not let bodies turn."""
    if joint.kind == "ball":
        return np.zeros((0, 3))
    if joint.kind == "hinge":
        return parent[:, :2].T
    if joint.kind == "universal":
        return np.cross(parent[:, 0], child[:, 1])[None]
    if joint.kind == "fixed":
        return np.eye(3)
    raise errors.ModelError(
        f'joint "{joint.name}" is {joint.kind}; there are rows of ball, hinge, universal and fixed only'
    )


def rows_of(model: lj.Model, sparse: Any, qd: np.ndarray | None = None) -> Rows:
    """Return the system of a model of balls, hinges, universal and fixed joints; `sparse` is scipy.sparse."""
    positions, rotations = lj.forward_kinematics(model, model.q0)
    turn, bodies = matrix_of(rotations), [model.body(name) for name in model.body_names]
    w = np.zeros_like(positions) if qd is None else lj.Simulation(model, qd=qd).velocities[:, :3]
    arm = [r @ body.com for r, body in zip(turn, bodies, strict=True)]
    m, f = np.zeros((len(bodies), 6, 6)), np.zeros((len(bodies), 6))
    for i, body in enumerate(bodies):
        m[i, :3, :3], m[i, 3:, 3:] = turn[i] @ body.inertia @ turn[i].T, body.mass * np.eye(3)
        f[i] = *-np.cross(w[i], m[i, :3, :3] @ w[i]), *(body.mass * model.gravity)
    blocks, c, value = [], [], []
    for joint in (model.joint_spec(name) for name in model.joint_names):
        if joint.kind == "free":
            continue
        own, ends = joint_rotation(joint), []
        for name, at, rotation in (
            (joint.parent, joint.position, joint.rotation),
            (joint.child, joint.position_in_child, joint.rotation_in_child),
        ):
            b = -1 if name == "world" else model.body_index(name)
            r, p = (np.eye(3), np.zeros(3)) if b < 0 else (turn[b], positions[b])
            ends.append((b, p + r @ np.array(at), r @ matrix_of(np.array(rotation)) @ own))
        about = _directions(joint, ends[0][2], ends[1][2])
        bias = np.zeros(3)
        line = [None] * len(bodies)
        for sign, (b, point, _) in zip((-1.0, 1.0), ends, strict=True):  # child relative to parent
            if b >= 0:
                lever = point - positions[b] - arm[b]
                bias += sign * np.cross(w[b], np.cross(w[b], lever))
                turns = np.hstack([about, np.zeros_like(about)])
                line[b] = sign * np.vstack([np.hstack([np.cross(lever, np.eye(3)), np.eye(3)]), turns])  # pyright: ignore
        blocks.append(line)
        c += [*bias, *np.zeros(len(about))]
        value += [*(ends[1][1] - ends[0][1]), *np.zeros(len(about))]
    return Rows(m, sparse.bmat(blocks, format="csc"), f.ravel(), np.array(c), np.array(value))


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
    system = rows_of(model, sparse, qd)
    matrix, side = np.asfortranarray(system.schur(sparse).toarray()), system.side()
    found = system.accelerations(lapack.dposv(matrix, side)[1])[:, :3]
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
        best = microseconds(runs, seconds)
        row["step"] = table.trust(f"{rows} multipliers", row.get("gap", 0.0), best["step"])
        row["each"] = 1e3 * best["step"] / rows
        row["dense"] = best.get("dense")
        if lapack is not None:
            row["lapack"] = table.trust("LAPACK", difference(lapack[1], own), best["lapack"])
        row["dense_ratio"], row["lapack_ratio"] = (ratio(row.get(key), row["step"]) for key in ("dense", "lapack"))
    table.note("the step in one matrix is called from Python, 0.2 ms of it; LAPACK: dposv of a matrix formed before")
    return part.rows
