"""Conjugate residuals with a block-Jacobi preconditioner on A = J M^-1 J^T + C, of which only products are formed.

A is symmetric and positive semidefinite. Conjugate gradients diverge when b is not in its range, as when two hands pull
further than a figure reaches; conjugate residuals make the residual smaller in every iteration and end at the least
one. P, the inverses of the diagonal blocks of A, weighs the residual: least means least r^T P r, each constraint
measured by how hard it is to move alone.

    r = b - A x, z = P r, p = z
    repeat  alpha = z^T A z / |A p|_P^2,  x += alpha p,  r -= alpha A p
            beta = the new z^T A z over the old,  p = z + beta p

Iterations end when |r| is small beside |b|; or when A r is small beside r, so that no step makes r smaller: the system
is inconsistent, x is a least-squares solution and the residual is the caller's to show; or when rounding stops the
descent; or at the cap.

Rows without effect, as between two held bodies, and rows of a constraint that follow from its others are left out of
P: they get multiplier 0, or keep the one they came with.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from limberjack._jit import inner, kernel
from limberjack.constraints.system import System
from limberjack.solvers.blocks import factor_block
from limberjack.solvers.products import mass_times_row, product

__all__ = ["CAPPED", "CONVERGED", "FAILED", "LEAST_SQUARES", "STALLED", "Krylov", "new_krylov", "solve_krylov"]

CONVERGED, CAPPED, LEAST_SQUARES, STALLED, FAILED = 0, 1, 2, 3, -1
# |A r|_P beside |r|_P from which the residual counts as the least; P A has eigenvalues of order 1.
_FLAT = 1e-9


class Krylov(NamedTuple):
    """The preconditioner and vectors of one system; never shared between threads."""

    place: np.ndarray  # (nc + 1,) int64 groups of each constraint's block
    vector: np.ndarray  # (nc + 1,) int64 groups of each constraint's rows in padded vectors
    values: np.ndarray  # (groups, 4) factors of the diagonal blocks of A
    pivots: np.ndarray  # (groups, 4) their inverse pivots
    turns: np.ndarray  # (groups, 4) int64 the order of rows
    small: np.ndarray  # (13, 12) one block
    r: np.ndarray  # (nr,) residual
    z: np.ndarray  # (nr,) P r
    w: np.ndarray  # (nr,) A z
    s: np.ndarray  # (nr,) P w
    p: np.ndarray  # (nr,) direction
    q: np.ndarray  # (nr,) A p
    t: np.ndarray  # (nr,) P q
    f: np.ndarray  # (nu,) force-like
    u: np.ndarray  # (nu,) velocity-like


def new_krylov(system: System) -> Krylov:
    """Return the arrays that solve one system."""
    rows = np.diff(system.row_start)
    groups = (rows + 3) // 4
    place, vector = (np.concatenate([[0], np.cumsum(n)]).astype(np.int64) for n in (rows * groups, groups))
    nr, nu = int(system.row_start[-1]), int(system.body_start[-1])
    return Krylov(
        place,
        vector,
        np.zeros((int(place[-1]), 4)),
        np.zeros((int(vector[-1]), 4)),
        np.zeros((int(vector[-1]), 4), np.int64),
        np.zeros((13, 12)),
        *(np.zeros(nr) for _ in range(7)),
        *(np.zeros(nu) for _ in range(2)),
    )


@inner
def _precondition(system, Minv, J, C, work):
    """Set the factors of A's diagonal blocks; return 0, or -1 - i for a constraint whose numbers are not finite."""
    for g in range(len(work.values)):
        for k in range(4):
            work.values[g, k] = 0.0
    for i in range(len(system.touch_start) - 1):
        first, g, v = system.row_start[i], work.place[i], work.vector[i]
        n = system.row_start[i + 1] - first
        groups = (n + 3) >> 2
        for t in range(system.touch_start[i], system.touch_start[i + 1]):
            b, block = system.touch_body[t], system.block_start[t]
            dim = system.body_start[b + 1] - system.body_start[b]
            for column in range(n):
                for c in range(dim):
                    m = mass_times_row(system, Minv, b, c, J, block + column * dim)
                    for row in range(n):
                        work.values[g + column * groups + (row >> 2), row & 3] += m * J[block + row * dim + c]
        for row in range(n):
            work.values[g + row * groups + (row >> 2), row & 3] += C[first + row]
            work.pivots[v + (row >> 2), row & 3] = work.values[g + row * groups + (row >> 2), row & 3]
        if factor_block(n, g, v, work.values, work.pivots, work.turns, work.small) < 0:
            return -1 - i
    return 0


@inner
def _apply(system, work, x, y):
    """y = P x."""
    for i in range(len(system.touch_start) - 1):
        first, g, v = system.row_start[i], work.place[i], work.vector[i]
        n = system.row_start[i + 1] - first
        groups = (n + 3) >> 2
        for s in range(n):
            a = work.turns[v + (s >> 2), s & 3]
            d = x[first + a]
            for e in range(s):
                b = work.turns[v + (e >> 2), e & 3]
                d -= work.values[g + b * groups + (a >> 2), a & 3] * y[first + b]
            y[first + a] = d
        for a in range(n):
            y[first + a] *= work.pivots[v + (a >> 2), a & 3]
        for s in range(n - 2, -1, -1):
            a = work.turns[v + (s >> 2), s & 3]
            d = y[first + a]
            for e in range(s + 1, n):
                b = work.turns[v + (e >> 2), e & 3]
                d -= work.values[g + a * groups + (b >> 2), b & 3] * y[first + b]
            y[first + a] = d


@inner
def _dot(x, y):
    """Return x . y."""
    s = 0.0
    for i in range(len(x)):
        s += x[i] * y[i]
    return s


@inner
def _iterate(system, Minv, J, C, goal, cap, work, lam):
    """Run conjugate residuals from the residual in work.r; return the status and the number of iterations."""
    r, z, w, s, p, q, t = work.r, work.z, work.w, work.s, work.p, work.q, work.t
    nr = len(lam)
    _apply(system, work, r, z)
    product(system, Minv, J, C, z, work.f, work.u, w)
    _apply(system, work, w, s)
    for i in range(nr):
        p[i], q[i], t[i] = z[i], w[i], s[i]
    size, rho = _dot(r, z), _dot(z, w)
    for iteration in range(cap):
        if _dot(r, r) <= goal:
            return CONVERGED, iteration
        if not _dot(w, s) > _FLAT * _FLAT * size:
            return LEAST_SQUARES, iteration
        bend = _dot(q, t)
        if not (rho > 0.0 and bend > 0.0):
            return STALLED, iteration
        alpha = rho / bend
        for i in range(nr):
            lam[i] += alpha * p[i]
            r[i] -= alpha * q[i]
            z[i] -= alpha * t[i]
        before, size = size, _dot(r, z)
        if not size <= before:
            # Rounding has the last word: undo the step that made things worse.
            for i in range(nr):
                lam[i] -= alpha * p[i]
            return STALLED, iteration
        product(system, Minv, J, C, z, work.f, work.u, w)
        _apply(system, work, w, s)
        new = _dot(z, w)
        beta = new / rho
        rho = new
        for i in range(nr):
            p[i] = z[i] + beta * p[i]
            q[i] = w[i] + beta * q[i]
            t[i] = s[i] + beta * t[i]
    return (CONVERGED if _dot(r, r) <= goal else CAPPED), cap


@inner
def _measure(system, Minv, J, C, b, lam, work):
    """Set work.r to b - A lam; return its square."""
    product(system, Minv, J, C, lam, work.f, work.u, work.r)
    for i in range(len(lam)):
        work.r[i] = b[i] - work.r[i]
    return _dot(work.r, work.r)


@kernel
def solve_krylov(
    system,  # model
    Minv, J, C, b,  # in
    warm, cap, tolerance,  # in
    work,  # work
    lam, report,  # out
):  # fmt: skip
    """Fill lam with a solution of A lam = b, or with a least-squares solution where there is none.

    Args:
        system: which constraint touches which body.
        Minv: inverse masses, (nb, 7) of rigid bodies or flat.
        J: flat rows.
        C: (nr,) compliance.
        b: (nr,) right-hand side.
        warm: 1 starts from lam as it is, 0 from zero.
        cap: most iterations.
        tolerance: |b - A lam| beside |b| that is small enough.
        work: of this system.
        lam: (nr,) multipliers.
        report: (3,) iterations, |b - A lam| measured at the end, and the same beside |b|.

    Returns:
        CONVERGED, CAPPED, LEAST_SQUARES (the residual is the least there is), STALLED (rounding allows no smaller
        one) or FAILED (numbers are not finite; lam is 0).
    """
    if warm == 0:
        for i in range(len(lam)):
            lam[i] = 0.0
    status, count = FAILED, 0
    size = _dot(b, b)
    if _precondition(system, Minv, J, C, work) == 0:
        square = _measure(system, Minv, J, C, b, lam, work)
        if np.isfinite(square) and np.isfinite(size):
            status, count = _iterate(system, Minv, J, C, tolerance * tolerance * size, cap, work, lam)
    if status == FAILED:
        for i in range(len(lam)):
            lam[i] = 0.0
        size = np.inf
    left = np.sqrt(_measure(system, Minv, J, C, b, lam, work))
    report[0], report[1] = count, left
    report[2] = left / np.sqrt(size) if size > 0.0 else 0.0
    if status == STALLED and left <= tolerance * np.sqrt(size):
        return CONVERGED
    return status
