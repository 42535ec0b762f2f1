"""Conjugate residuals on A = J M^-1 J^T + C, of which only products are formed, with a block-Jacobi preconditioner.

A is symmetric positive semidefinite. Conjugate gradients diverge when b is not in its range, as when two trackers pull
further than a figure reaches; conjugate residuals decrease the residual in every iteration and end at a least-squares
solution. The preconditioner P = K^T K, inverses of the diagonal blocks of A times weights, is part of the packed rows:
all vectors are those of K A K^T y = K b (`packed_rows.py`), in which |r|^2 is r^T P r of the original system.

    r = b, w = A r, beta = 0
    repeat  q = w + beta q,  p = r + beta p,  alpha = r . w / q . q,  y += alpha p,  r -= alpha q,  w = A r
            beta = the new r . w over the old

One iteration is a single pass over rows and vectors (`krylov_product.py`): alpha is known before q is, from

    q . q = w . w + 2 beta w . q + beta^2 q . q,  with the w and q of the pass before on the right

Iterations end when |r| is small relative to |b|; when A r is small relative to r, so that no step reduces r: the system
is inconsistent, y is a least-squares solution and the caller reports the residual; when rounding stops the descent; or
at the cap.

Solutions can be recycled for the next solves. They span V, made such that B = A V has orthonormal columns. The residual
is first reduced along B; then all directions are kept orthogonal to it, q^T B = 0: with d = B^T w, w loses B d and p
loses V d, the latter accumulated and subtracted at the end. Cut off after five iterations again and again, on a system
that hardly changes, the residual falls as if the iterations had gone on, where restarts without recycling stagnate.

Rows without effect, as between two fixed bodies, and rows of a constraint that depend on its others get multiplier 0.

Reference: Faure 1998, section 3.3, equation (13), A lam = b, there solved by biconjugate gradients (section 3.4).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from limberjack._jit import inner, kernel, outlined
from limberjack.constraints.system import System
from limberjack.linear.block_pivots import four, set_four
from limberjack.linear.krylov_product import (
    ALL_VECTORS,
    NO_UPDATE,
    RESIDUAL_ONLY,
    multiply,
    multiply_schur,
    update_vectors,
)
from limberjack.linear.packed_rows import Packed, new_packed, pack_rhs, pack_rows, unpack
from limberjack.spatial.lanes import add, lane, mul, splat

__all__ = [
    "CAPPED", "CONVERGED", "FAILED", "LEAST_SQUARES", "STALLED", "Krylov", "iterate", "new_krylov", "solve_krylov",
    "start_solve",
]  # fmt: skip

CONVERGED, CAPPED, LEAST_SQUARES, STALLED, FAILED = 0, 1, 2, 3, -1
# |A r| relative to |r| below which the residual counts as least-squares; A has eigenvalues of order 1.
_FLAT = 1e-9


class Krylov(NamedTuple):
    """The rows and vectors of one system; never shared between threads. Vectors are packed and padded by four."""

    packed: Packed
    y: np.ndarray  # solution
    r: np.ndarray  # residual
    w: np.ndarray  # A r
    p: np.ndarray  # direction
    q: np.ndarray  # A p
    weight: np.ndarray  # (nc,) relative weight of the residual of each constraint
    recycled: np.ndarray  # (k * nr,) solutions of earlier solves, the newest first, in the order of lam
    v: np.ndarray  # (k * (nr + 4),) V, the same as a basis
    b: np.ndarray  # (k * (nr + 4),) B = A V, orthonormal; columns of 0 where there is none
    d: np.ndarray  # (3, k) B^T w; what is subtracted from p and y along V


def new_krylov(system: System, recycle: int = 0, pairs: np.ndarray | None = None) -> Krylov:
    """Return the arrays that solve one system.

    Args:
        system: constraints on solids of six displacements.
        recycle: number of solutions recycled in later solves.
        pairs: (nc,) which constraints act with opposite wrenches at one point, or on one solid; None for none.
    """
    nc, nr = len(system.row_start) - 1, int(system.row_start[-1])
    v, b = (np.zeros(recycle * (nr + 4)) for _ in range(2))
    packed, (y, r, w, p, q) = new_packed(system, pairs)
    return Krylov(packed, y, r, w, p, q, np.ones(nc), np.zeros(recycle * nr), v, b, np.zeros((3, recycle)))


@inner
def _dot(x, y, o, rows):
    """Return x . y for the part of y from index o on."""
    s = splat(0.0)
    for g in range(0, rows, 4):
        s = add(s, mul(four(x, g), four(y, o + g)))
    return (lane(s, 0) + lane(s, 1)) + (lane(s, 2) + lane(s, 3))


@inner
def _add_scaled(alpha, x, o, y, rows):
    """Add alpha times the part of x from index o on to y."""
    a = splat(alpha)
    for g in range(0, rows, 4):
        set_four(y, g, add(four(y, g), mul(a, four(x, o + g))))


@outlined
def _recycle(system, C, work, rows):
    """Make a basis of the recycled solutions for this matrix, and reduce the residual along it."""
    packed, p, q, width = work.packed, work.p, work.q, len(work.y)
    for k in range(work.d.shape[1]):
        for i in range(rows, rows + 4):
            p[i] = 0.0
        for i in range(packed.count[0]):
            c, o = packed.listed[i], packed.first[i]
            at = k * (width - 4) + system.row_start[c]
            for j in range(packed.first[i + 1] - o):
                p[o + j] = work.recycled[at + j]
        _, _, before, _, _ = multiply(system, C, NO_UPDATE, 0.0, 0.0, 0.0, 0.0, packed, work.y, p, q, work.w, work.w)
        for j in range(k):
            x = -_dot(q, work.b, j * width, rows)
            _add_scaled(x, work.v, j * width, p, rows)
            _add_scaled(x, work.b, j * width, q, rows)
        size = _dot(q, q, 0, rows)
        # a column that depends on those before it is 0
        scale = 1.0 / np.sqrt(size) if size > 1e-10 * before else 0.0
        for i in range(rows + 4):
            work.v[k * width + i], work.b[k * width + i] = scale * p[i], scale * q[i]
        x = _dot(work.r, work.b, k * width, rows)
        _add_scaled(x, work.v, k * width, work.y, rows)
        _add_scaled(-x, work.b, k * width, work.r, rows)


@inner
def _project_out(work, w, rows):
    """Subtract the part of w along B, stored in d; return its square."""
    square, width = 0.0, len(work.y)
    for k in range(work.d.shape[1]):
        x = _dot(w, work.b, k * width, rows)
        work.d[0, k] = x
        square += x * x
    for k in range(work.d.shape[1]):
        _add_scaled(-work.d[0, k], work.b, k * width, w, rows)
    return square


@inner
def _product(system, C, preconditioner, update, alpha, beta, last_alpha, last_beta, work):
    """Update the vectors and set w to A r, or to S r over a tree; return r . w, r . r, w . w, w . q and q . q."""
    packed, y, r, w, p, q = work.packed, work.y, work.r, work.w, work.p, work.q
    if preconditioner is None:
        return multiply(system, C, update, alpha, beta, last_alpha, last_beta, packed, y, r, w, p, q)
    else:  # noqa: RET505 - of two branches under `is None` only the one that applies is compiled
        return multiply_schur(
            system, preconditioner, C, update, alpha, beta, last_alpha, last_beta, packed, y, r, w, p, q
        )


@inner
def start_solve(work):
    """Clear the accumulators of a solve; return the number of active rows."""
    rows = work.packed.first[work.packed.count[0]]
    for k in range(rows, rows + 4):
        work.r[k] = 0.0
    for k in range(rows + 4):
        work.y[k] = 0.0
    for k in range(work.d.shape[1]):
        work.d[1, k] = work.d[2, k] = 0.0
    return rows


@outlined
def _finish(update, alpha, beta, sign, work, rows):
    """Add sign alpha p to y, p of the last step made or yet to be made, and subtract the part along V."""
    y, r, p, q, width = work.y, work.r, work.p, work.q, len(work.y)
    a, b, s = splat(alpha), splat(beta), splat(sign * alpha)
    for g in range(0, rows, 4):
        own = four(p, g)
        if update == RESIDUAL_ONLY:
            own = add(add(four(r, g), mul(a, four(q, g))), mul(b, own))
        set_four(y, g, add(four(y, g), mul(s, own)))
    for k in range(work.d.shape[1]):
        _add_scaled(-work.d[2, k], work.v, k * width, y, rows)


@inner
def iterate(system, C, tolerance, cap, preconditioner, work, rows):
    """Run conjugate residuals from b in work.r; return the status, the number of iterations, |r|^2 and |b|^2."""
    r, p, q, d = work.r, work.p, work.q, work.d
    rhs_square = _dot(r, r, 0, rows)
    target_square = tolerance * tolerance * rhs_square
    if not np.isfinite(rhs_square) or rhs_square == 0.0:
        return (CONVERGED if rhs_square == 0.0 else FAILED), 0, rhs_square, rhs_square
    _recycle(system, C, work, rows)
    for k in range(rows + 4):
        p[k] = q[k] = 0.0
    rho, square, size, w_dot_q, curvature = _product(system, C, preconditioner, NO_UPDATE, 0.0, 0.0, 0.0, 0.0, work)
    size -= _project_out(work, work.w, rows)
    alpha = beta = last_alpha = last_beta = 0.0
    status, count, update, taken = CAPPED, 0, ALL_VECTORS, 0.0
    while True:
        if square <= target_square:
            status = CONVERGED
            break
        if not size > _FLAT * _FLAT * square:
            status = LEAST_SQUARES
            break
        if count == cap:
            break
        curvature = size + 2.0 * beta * w_dot_q + beta * beta * curvature
        if not (rho > 0.0 and curvature > 0.0 and rho < np.inf):
            status = STALLED
            break
        alpha, update = rho / curvature, (RESIDUAL_ONLY if update == ALL_VECTORS else ALL_VECTORS)
        for k in range(d.shape[1]):
            d[1, k] = d[0, k] + beta * d[1, k]
            d[2, k] += alpha * d[1, k]
        before, old = square, rho
        if count == cap - 1:
            # no product is needed after the last direction
            update_vectors(update, alpha, beta, last_alpha, last_beta, 0, rows, work.y, r, work.w, p, q)
            square = _dot(r, r, 0, rows)
            size = square
        else:
            rho, square, size, w_dot_q, curvature = _product(
                system, C, preconditioner, update, alpha, beta, last_alpha, last_beta, work
            )
            size -= _project_out(work, work.w, rows)
        if not square <= before:
            status, square = STALLED, before  # rounding: the step that increased the residual is undone
            taken = -1.0 if update == ALL_VECTORS else 0.0
            for k in range(d.shape[1]):
                d[2, k] -= alpha * d[1, k]
            break
        last_alpha, last_beta, beta = alpha, beta, rho / old
        taken = 1.0 if update == RESIDUAL_ONLY else 0.0
        count += 1
    _finish(update, last_alpha if taken > 0.0 else alpha, last_beta if taken > 0.0 else beta, taken, work, rows)
    return status, count, square, rhs_square


@outlined
def _store_solution(system, work):
    """Store the solution in y for later solves, in place of the oldest."""
    packed, nr = work.packed, len(work.y) - 4
    for k in range(len(work.recycled) - 1, nr - 1, -1):
        work.recycled[k] = work.recycled[k - nr]
    for k in range(nr):
        work.recycled[k] = 0.0
    for i in range(packed.count[0]):
        at, o = system.row_start[packed.listed[i]], packed.first[i]
        for j in range(packed.first[i + 1] - o):
            work.recycled[at + j] = work.y[o + j]


@kernel
def solve_krylov(
    # model
    system,
    # in
    Minv, J, C, b, center, cap, tolerance,
    # out
    work, lam, report,
):  # fmt: skip
    """Fill lam with a solution of A lam = b, or with a least-squares solution where there is none.

    Args:
        system: incidences of constraints and solids.
        Minv: (nb, 7) world inverse inertia xx yy zz xy xz yz and 1/m of the solids; 0 for fixed ones.
        J: flat rows.
        C: (nr,) compliance.
        b: (nr,) right-hand side.
        center: (nb, 3 or more) com of the solids; read for constraints that are pairs.
        cap: maximum of iterations.
        tolerance: |b - A lam| relative to |b| at which iterations end, both in the norm of P.
        work: of this system.
        lam: (nr,) multipliers.
        report: (3,) iterations, |b - A lam| and the same relative to |b|, both in the norm of P.

    Returns:
        CONVERGED, CAPPED, LEAST_SQUARES (no smaller residual exists), STALLED (rounding allows no smaller one) or
        FAILED (numbers are not finite; lam is 0).
    """
    status, count, square, rhs_square = FAILED, 0, np.inf, np.inf
    if pack_rows(system, Minv, J, C, center, work.weight, work.packed) == 0:
        rows = start_solve(work)
        pack_rhs(system, work.packed, b, work.r)
        status, count, square, rhs_square = iterate(system, C, tolerance, cap, None, work, rows)
    if status == FAILED or not np.isfinite(square):
        for r in range(len(lam)):
            lam[r] = 0.0
        report[0], report[1], report[2] = 0.0, np.inf, np.inf
        return FAILED
    if len(work.recycled) > 0:
        _store_solution(system, work)
    unpack(system, work.packed, work.y, lam)
    report[0], report[1] = count, np.sqrt(square)
    report[2] = np.sqrt(square / rhs_square) if rhs_square > 0.0 else 0.0
    return status
