"""Compiled loops over one acceleration solve, by the methods that are compared: linear time, and the cube of the rows.

| step | linear (Baraff 1996) | dense |
|---|---|---|
| rows | J, its bias and M at a state | the same |
| factor | the forest, `solvers/tree.py` | A = J M^-1 J^T, then A = U^T d U |
| solve | a and lam, auxiliary rows anticipated | A lam = -(r + J M^-1 F), then a |

The dense one is what the paper compares with, an elimination of all multipliers at once: plain loops, half of the
symmetric matrix, rows of memory read in order.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from limberjack._jit import inner, kernel, outlined
from limberjack.collision.detect import find_contacts, new_detector
from limberjack.constraints.system import System
from limberjack.constraints.table import DRIVE
from limberjack.linear.saddle import factor_saddle, first_constraints, list_active, new_saddle, solve_saddle
from limberjack.maximal.bodies import RIGID, take_inertia
from limberjack.maximal.contacts import put_contacts
from limberjack.maximal.inserted_rows import with_slots
from limberjack.maximal.rows import Maximal, evaluate, new_evaluation
from limberjack.maximal.solve import TOUCH, Setup
from limberjack.methods.multipliers.options import Multipliers
from limberjack.model.model import Model

__all__ = ["FACTOR", "ROWS", "SOLVE", "Dense", "Solve"]

# Gap up to which shapes touch [m].
_NEAR = 1e-9
# What a loop repeats.
ROWS, FACTOR, SOLVE = 1, 2, 4


@kernel
def repeat_solves(
    # model
    setup, tree, structure,
    # in
    what, n, pose, u, force, pressed, e,
    # out
    saddle,
):  # fmt: skip
    """Repeat the steps named by `what` n times over; return the status of the last."""
    start, counts, listed = setup.system.row_start, setup.constraints, saddle.responses
    rows = start[counts[1]]
    status = 0
    for _ in range(n):
        if what & ROWS:
            evaluate(setup.bodies, setup.system, setup.table, setup.touch, setup.soft, 0.0, rows, pose, u, e)
            take_inertia(setup.bodies, setup.gravity, pose, e.ends, force)
            for r in range(rows):
                saddle.r[r] = e.values[r, 2]
        if what & FACTOR:
            status = factor_saddle(setup.system, tree, structure, e.m, e.j, saddle)
        if what & SOLVE:
            for k in range(len(force)):
                saddle.f[k] = force[k]
            acting = list_active(
                start, counts[0], counts[1], e.values, TOUCH, False, saddle.auxiliary, len(listed.constraint), pressed,
                listed.count, listed.constraint, saddle.low, saddle.high,
            )  # fmt: skip
            status = acting
            if acting >= 0:
                status = solve_saddle(setup.system, tree, structure, acting, True, e.m, e.j, saddle)
    return status


class Dense(NamedTuple):
    """Scratch of the dense elimination; nr rows, nu velocities."""

    incidence_start: np.ndarray  # (nb + 1,) the touches of each body
    touch: np.ndarray  # (nt,)
    constraint: np.ndarray  # (nt,) of each touch
    root: np.ndarray  # flat Cholesky factors R of the mass blocks, M = R R^T
    bent: np.ndarray  # flat J R^-T
    pushed: np.ndarray  # (nu,) R^-1 F
    matrix: np.ndarray  # (nr, nr) upper half
    lam: np.ndarray  # (nr,)
    a: np.ndarray  # (nu,)


def new_dense(system: System) -> Dense:
    """Return scratch for `system`."""
    order = np.argsort(system.incidence_body, kind="stable")
    counts = np.bincount(system.incidence_body, minlength=len(system.body_start) - 1)
    constraint = np.repeat(np.arange(len(system.row_start) - 1), np.diff(system.incidence_start))
    nr, nu = int(system.row_start[-1]), int(system.body_start[-1])
    return Dense(
        np.concatenate([[0], np.cumsum(counts)]), order, constraint, np.zeros(int(system.mass_start[-1])),
        np.zeros(int(system.block_start[-1])), np.zeros(nu), np.zeros((nr, nr)), np.zeros(nr), np.zeros(nu),
    )  # fmt: skip


@inner
def _root(o, dim, m, root):
    """Fill the Cholesky factor of one mass block."""
    for i in range(dim):
        for k in range(i + 1):
            x = m[o + i * dim + k]
            for p in range(k):
                x -= root[o + i * dim + p] * root[o + k * dim + p]
            root[o + i * dim + k] = np.sqrt(x) if i == k else x / root[o + k * dim + k]


@inner
def _divide(o, dim, root, source, p, target):
    """Set target[p:] to R^-1 source[p:]."""
    for i in range(dim):
        x = source[p + i]
        for k in range(i):
            x -= root[o + i * dim + k] * target[p + k]
        target[p + i] = x / root[o + i * dim + i]


@outlined
def _form(system, m, j, force, r, d):
    """Fill the matrix J M^-1 J^T and the right side -(r + J M^-1 F), into lam."""
    nr, rows = len(d.lam), system.row_start
    for i in range(nr):
        d.lam[i] = -r[i]
        for k in range(i, nr):
            d.matrix[i, k] = 0.0
    for b in range(len(system.body_start) - 1):
        o, v = system.mass_start[b], system.body_start[b]
        dim = system.body_start[b + 1] - v
        _root(o, dim, m, d.root)
        _divide(o, dim, d.root, force, v, d.pushed)
        for x in range(d.incidence_start[b], d.incidence_start[b + 1]):
            t = d.touch[x]
            c, at = d.constraint[t], system.block_start[t]
            for i in range(rows[c + 1] - rows[c]):
                _divide(o, dim, d.root, j, at + i * dim, d.bent)
                for p in range(dim):
                    d.lam[rows[c] + i] -= d.bent[at + i * dim + p] * d.pushed[v + p]
            for y in range(d.incidence_start[b], x + 1):
                # touches stand in the order of their constraints: this one's rows are the columns
                _pair(d.touch[y], t, dim, system, d)


@inner
def _pair(s, t, dim, system, d):
    """Add what two constraints on one body have to do with each other."""
    rows, first, second = system.row_start, d.constraint[s], d.constraint[t]
    for i in range(rows[first + 1] - rows[first]):
        for k in range(rows[second + 1] - rows[second]):
            x = 0.0
            for p in range(dim):
                x += d.bent[system.block_start[s] + i * dim + p] * d.bent[system.block_start[t] + k * dim + p]
            d.matrix[rows[first] + i, rows[second] + k] += x


@outlined
def _eliminate(matrix, x):
    """Eliminate the upper half in place and solve for x; return 0, or 1 + the row without a pivot."""
    n = len(x)
    for k in range(n):
        pivot = matrix[k, k]
        if not pivot > 0.0:
            return 1 + k
        for i in range(k + 1, n):
            f = matrix[k, i] / pivot
            x[i] -= f * x[k]
            for p in range(i, n):
                matrix[i, p] -= f * matrix[k, p]
    for k in range(n - 1, -1, -1):
        s = x[k]
        for p in range(k + 1, n):
            s -= matrix[k, p] * x[p]
        x[k] = s / matrix[k, k]
    return 0


@outlined
def _accelerate(system, d):
    """Fill a = M^-1 (F + J^T lam)."""
    for k in range(len(d.a)):
        d.a[k] = d.pushed[k]
    for t in range(len(d.constraint)):
        c, b, at = d.constraint[t], system.incidence_body[t], system.block_start[t]
        v = system.body_start[b]
        dim = system.body_start[b + 1] - v
        for i in range(system.row_start[c], system.row_start[c + 1]):
            for p in range(dim):
                d.a[v + p] += d.bent[at] * d.lam[i]
                at += 1
    for b in range(len(system.body_start) - 1):
        o, v = system.mass_start[b], system.body_start[b]
        dim = system.body_start[b + 1] - v
        for i in range(dim - 1, -1, -1):
            x = d.a[v + i]
            for p in range(i + 1, dim):
                x -= d.root[o + p * dim + i] * d.a[v + p]
            d.a[v + i] = x / d.root[o + i * dim + i]


@kernel
def repeat_dense(
    # model
    system,
    # in
    eliminated, n, m, j, force, r,
    # out
    d,
):  # fmt: skip
    """Form the matrix n times over, eliminate it if asked to, and solve; return the status of the last."""
    status = 0
    for _ in range(n):
        _form(system, m, j, force, r, d)
        if eliminated:
            status = _eliminate(d.matrix, d.lam)
            _accelerate(system, d)
    return status


@kernel
def spread(
    # model
    system,
    # out
    d,
):  # fmt: skip
    """Fill the accelerations from multipliers that somebody else has found."""
    _accelerate(system, d)
    return 0


def _touching(model: Model, whole: Maximal, at: int, pose: np.ndarray) -> Maximal:
    """Return `whole` with a row before its constraint `at` for each contact of its shapes at the poses."""
    still = np.zeros(len(whole.bodies.kind))
    found = find_contacts(new_detector(model, whole.center), pose[:, :7], still, _NEAR).contacts
    ground = int((found.link_b[: found.count[0]] < 0).sum())
    out = with_slots(model, whole, at, ground, int(found.count[0]) - ground, 1)
    put_contacts(out, at, ground, found, pose, np.zeros(int(found.count[0]), np.int64))
    return out


class Solve:
    """One acceleration solve of a model at a state, again and again.

    Args:
        model: without springs and drives.
        sparse: whether the sparse solver takes all constraints, or the tree with anticipation of loops.
        qd: (nv,) velocities; those of the start without.
        contacts: whether shapes that touch at the start give rows on one side, without friction.
    """

    def __init__(
        self, model: Model, *, sparse: bool = False, qd: np.ndarray | None = None, contacts: bool = False
    ) -> None:
        stepper = Multipliers(solver="sparse" if sparse else "tree").stepper(model, frozenset({"contacts"}))
        if qd is not None:
            stepper.qd[:] = qd
            stepper.changed()
        start, whole = stepper.memory(), stepper.whole
        self._pose, self._u = start["pose"], start["u"]
        reads = int((whole.table.role == DRIVE).sum())
        if contacts:
            whole = _touching(model, whole, len(whole.names) - reads, self._pose)
        counts = np.array([whole.held, len(whole.names) - reads, len(whole.names)], np.int64)
        self._setup = Setup(
            whole.bodies, whole.system, whole.table, whole.touch, whole.soft, whole.center, counts,
            model.arrays.links.gravity,
        )  # fmt: skip
        self.system = first_constraints(whole.system, whole.held)
        self.evaluation = new_evaluation(whole)
        self._tree, self._structure, self.saddle = new_saddle(
            whole.system, whole.held, loops=sparse, rigid=bool((whole.bodies.kind == RIGID).all())
        )
        self.force = np.zeros(int(whole.system.body_start[-1]))
        self._pressed = np.zeros(int(whole.system.row_start[-1]))
        self.bodies, self.rows = len(whole.bodies.kind), int(self.system.row_start[-1])
        self.dense: Dense | None = None

    def __call__(self, n: int, what: int = ROWS | FACTOR | SOLVE) -> int:
        """Solve n times, or repeat parts of a solve; a and lam are in `saddle`."""
        return repeat_solves(
            self._setup, self._tree, self._structure, what, n, self._pose, self._u, self.force, self._pressed,
            self.evaluation, self.saddle,
        )  # fmt: skip

    def by_elimination(self, n: int, *, eliminated: bool = True) -> int:
        """Solve n times by dense elimination from the rows at hand, or form its matrix only; a and lam in `dense`."""
        if self.dense is None:
            self.dense = new_dense(self.system)
        e = self.evaluation
        return repeat_dense(self.system, eliminated, n, e.m, e.j, self.force, self.saddle.r, self.dense)

    def spread(self) -> None:
        """Fill the accelerations of `dense` from its multipliers."""
        spread(self.system, self.dense)
