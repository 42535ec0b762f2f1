"""Conjugate residuals with a block-Jacobi preconditioner on A = J M^-1 J^T + C, of which only products are formed.

A is symmetric and positive semidefinite. Conjugate gradients diverge when b is not in its range, as when two hands pull
further than a figure reaches; conjugate residuals make the residual smaller in every iteration and end at the least
one. P, the inverses of the diagonal blocks of A, weighs the residual: least means least r^T P r, each constraint
measured by how hard it is to move alone, times its weight.

    r = b - A x, z = P r, p = z
    repeat  alpha = z^T A z / |A p|_P^2,  x += alpha p,  r -= alpha A p
            beta = the new z^T A z over the old,  p = z + beta p

Iterations end when |r| is small beside |b|; or when A r is small beside r, so that no step makes r smaller: the system
is inconsistent, x is a least-squares solution and the residual is the caller's to show; or when rounding stops the
descent; or at the cap.

A solve may keep its solutions for the next ones: those are then searched together with the new directions, which are
kept apart from them, q^T P A v = 0. Cut off after five iterations again and again, on a system that hardly changes, the
residual falls as if the iterations had gone on, where plain restarts creep.

Rows without effect, as between two held bodies, and rows of a constraint that follow from its others are left out of
P: they get multiplier 0, or keep the one they came with.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from limberjack._jit import inner, kernel, outlined
from limberjack.constraints.system import System
from limberjack.solvers.block_pivots import factor_3, factor_block, group, set_group, spread
from limberjack.solvers.products import mass_times_row, product, rigid_response
from limberjack.spatial.lanes import add, lane, mul, pack, splat

__all__ = ["CAPPED", "CONVERGED", "FAILED", "LEAST_SQUARES", "STALLED", "Krylov", "new_krylov", "solve_krylov"]

CONVERGED, CAPPED, LEAST_SQUARES, STALLED, FAILED = 0, 1, 2, 3, -1
# |A r|_P beside |r|_P from which the residual counts as the least; P A has eigenvalues of order 1.
_FLAT = 1e-9


class Krylov(NamedTuple):
    """The preconditioner and vectors of one system; never shared between threads. Rows are padded to groups of four."""

    block: np.ndarray  # (nc + 1,) int64 groups of each constraint's block
    vector: np.ndarray  # (nc + 1,) int64 groups of each constraint's rows in padded vectors
    place: np.ndarray  # (nc + 1,) int64 their first places
    inverses: np.ndarray  # (groups, 4) of the diagonal blocks of A: P
    pivots: np.ndarray  # (groups, 4) inverse pivots
    turns: np.ndarray  # (groups, 4) int64 the order of rows
    small: np.ndarray  # (13, 12) one block
    columns: np.ndarray  # (12, 12) its inverse
    x: np.ndarray  # (groups * 4,) multipliers
    r: np.ndarray  # (groups * 4,) residual
    z: np.ndarray  # (groups * 4,) P r
    w: np.ndarray  # (groups * 4,) A z
    s: np.ndarray  # (groups * 4,) P w
    p: np.ndarray  # (groups * 4,) direction
    q: np.ndarray  # (groups * 4,) A p
    t: np.ndarray  # (groups * 4,) P q
    f: np.ndarray  # (nu,) force-like
    u: np.ndarray  # (nu,) velocity-like
    weight: np.ndarray  # (nc,) how much the residual of each constraint counts beside the others
    kept: np.ndarray  # (k * groups * 4,) solutions of the solves before, the newest first
    basis: np.ndarray  # (k * groups * 4,) the same made orthogonal: v
    basis_q: np.ndarray  # (k * groups * 4,) A v
    basis_t: np.ndarray  # (k * groups * 4,) P A v
    sizes: np.ndarray  # (k,) v^T A P A v, 0 where there is none


def new_krylov(system: System, keep: int = 0) -> Krylov:
    """Return the arrays that solve one system, keeping `keep` solutions for the next solves."""
    rows = np.diff(system.row_start)
    groups = (rows + 3) // 4
    block, vector = (np.concatenate([[0], np.cumsum(n)]).astype(np.int64) for n in (rows * groups, groups))
    nu, padded = int(system.body_start[-1]), int(vector[-1])
    vectors = (np.zeros(4 * padded) for _ in range(8))
    speeds = (np.zeros(nu) for _ in range(2))
    kept = (np.zeros(keep * 4 * padded) for _ in range(4))
    inverses, pivots, turns = np.zeros((int(block[-1]), 4)), np.zeros((padded, 4)), np.zeros((padded, 4), np.int64)
    small, columns = np.zeros((13, 12)), np.zeros((12, 12))
    first = (block, vector, 4 * vector, inverses, pivots, turns, small, columns)
    return Krylov._make([*first, *vectors, *speeds, np.ones(len(rows)), *kept, np.zeros(keep)])


@inner
def _six(w, J, k):
    """Return the sum of six vectors times the six numbers of J at place k."""
    angular = add(add(mul(w[0], spread(J, k)), mul(w[1], spread(J, k + 1))), mul(w[2], spread(J, k + 2)))
    linear = add(add(mul(w[3], spread(J, k + 3)), mul(w[4], spread(J, k + 4))), mul(w[5], spread(J, k + 5)))
    return add(angular, linear)


@inner
def _sum_3(system, Minv, i, J, C, work):
    """Set the diagonal block of a constraint with three rows on rigid bodies."""
    row, g = system.row_start[i], work.block[i]
    a, b = pack(C[row], 0.0, 0.0), pack(0.0, C[row + 1], 0.0)
    c = pack(0.0, 0.0, C[row + 2])
    for t in range(system.touch_start[i], system.touch_start[i + 1]):
        k = system.block_start[t]
        w, _ = rigid_response(Minv, system.touch_body[t], J, k)
        a, b, c = add(a, _six(w, J, k)), add(b, _six(w, J, k + 6)), add(c, _six(w, J, k + 12))
    set_group(work.inverses, g, a)
    set_group(work.inverses, g + 1, b)
    set_group(work.inverses, g + 2, c)


@inner
def _sum_any(system, Minv, i, J, C, work):
    """Set the diagonal block of a constraint."""
    first, g = system.row_start[i], work.block[i]
    n = system.row_start[i + 1] - first
    groups = (n + 3) >> 2
    for k in range(g, g + n * groups):
        set_group(work.inverses, k, splat(0.0))
    for t in range(system.touch_start[i], system.touch_start[i + 1]):
        b, block = system.touch_body[t], system.block_start[t]
        dim = system.body_start[b + 1] - system.body_start[b]
        for column in range(n):
            for c in range(dim):
                m = mass_times_row(system, Minv, b, c, J, block + column * dim)
                for row in range(n):
                    work.inverses[g + column * groups + (row >> 2), row & 3] += m * J[block + row * dim + c]
    for row in range(n):
        work.inverses[g + row * groups + (row >> 2), row & 3] += C[first + row]


@outlined
def _invert(n, g, v, inverses, pivots, turns, small, columns):
    """Replace a diagonal block by its inverse, zero where rows are dropped; return -1 if it is not finite."""
    groups = (n + 3) >> 2
    for i in range(n):
        pivots[v + (i >> 2), i & 3] = inverses[g + i * groups + (i >> 2), i & 3]
    if factor_block(n, g, v, inverses, pivots, turns, small) < 0:
        return -1
    for c in range(n):
        for s in range(n):
            a = turns[v + (s >> 2), s & 3]
            d = 1.0 if a == c else 0.0
            for e in range(s):
                b = turns[v + (e >> 2), e & 3]
                d -= inverses[g + b * groups + (a >> 2), a & 3] * columns[c, b]
            columns[c, a] = d
        for s in range(n - 1, -1, -1):
            a = turns[v + (s >> 2), s & 3]
            d = columns[c, a] * pivots[v + (a >> 2), a & 3]
            for e in range(s + 1, n):
                b = turns[v + (e >> 2), e & 3]
                d -= inverses[g + a * groups + (b >> 2), b & 3] * columns[c, b]
            columns[c, a] = d
    for c in range(n):
        for a in range(n):
            # symmetric to the bit: conjugate residuals rest on it
            inverses[g + c * groups + (a >> 2), a & 3] = 0.5 * (columns[c, a] + columns[a, c])
    return 0


@inner
def _weigh(n, g, weight, P):
    """Multiply the block at group g by its weight."""
    if weight != 1.0:
        for k in range(g, g + n * ((n + 3) >> 2)):
            set_group(P, k, mul(group(P, k), splat(weight)))


@inner
def _precondition(system, Minv, J, C, work):
    """Set P; return 0, or -1 - i for a constraint whose numbers are not finite."""
    P = work.inverses
    for i in range(len(system.touch_start) - 1):
        g, v, n = work.block[i], work.vector[i], system.row_start[i + 1] - system.row_start[i]
        if Minv.ndim == 2 and n == 3:
            _sum_3(system, Minv, i, J, C, work)
            a, b, c = group(P, g), group(P, g + 1), group(P, g + 2)
            d = lane(a, 0), lane(b, 1), lane(c, 2), lane(a, 1), lane(a, 2), lane(b, 2)
            clear, l10, l20, l21, i0, i1, i2 = factor_3(d, d[0], d[1], d[2])
            if clear:
                k20 = l10 * l21 - l20
                y10, y20, y21 = -l10 * i1 - l21 * k20 * i2, k20 * i2, -l21 * i2
                set_group(P, g, pack(i0 + l10 * l10 * i1 + k20 * y20, y10, y20))
                set_group(P, g + 1, pack(y10, i1 - l21 * y21, y21))
                set_group(P, g + 2, pack(y20, y21, i2))
                _weigh(n, g, work.weight[i], P)
                continue
        else:
            _sum_any(system, Minv, i, J, C, work)
        if _invert(n, g, v, P, work.pivots, work.turns, work.small, work.columns) < 0:
            return -1 - i
        _weigh(n, g, work.weight[i], P)
    return 0


@inner
def _apply(system, work, x, y):
    """Set y to P x."""
    P = work.inverses
    for i in range(len(system.touch_start) - 1):
        g, v, n = work.block[i], work.vector[i], system.row_start[i + 1] - system.row_start[i]
        if n == 3:
            a = add(mul(group(P, g), spread(x, 4 * v)), mul(group(P, g + 1), spread(x, 4 * v + 1)))
            set_group(y, v, add(a, mul(group(P, g + 2), spread(x, 4 * v + 2))))
            continue
        groups = (n + 3) >> 2
        for w in range(groups):
            a = splat(0.0)
            for k in range(n):
                a = add(a, mul(group(P, g + k * groups + w), spread(x, 4 * v + k)))
            set_group(y, v + w, a)


@inner
def _dot(x, y):
    """Return x . y of padded vectors, as four sums that are added at the end."""
    s = splat(0.0)
    for g in range(len(x) >> 2):
        s = add(s, mul(group(x, g), group(y, g)))
    return (lane(s, 0) + lane(s, 1)) + (lane(s, 2) + lane(s, 3))


@inner
def _advance(alpha, x, y):
    """Add alpha x to y."""
    a = splat(alpha)
    for g in range(len(x) >> 2):
        set_group(y, g, add(group(y, g), mul(a, group(x, g))))


@inner
def _turn(beta, x, y):
    """Replace y by x + beta y."""
    b = splat(beta)
    for g in range(len(x) >> 2):
        set_group(y, g, add(group(x, g), mul(b, group(y, g))))


@inner
def _dot_at(x, y, o):
    """Return x . y for the part of y that begins at group o."""
    s = splat(0.0)
    for g in range(len(x) >> 2):
        s = add(s, mul(group(x, g), group(y, o + g)))
    return (lane(s, 0) + lane(s, 1)) + (lane(s, 2) + lane(s, 3))


@inner
def _advance_at(alpha, x, o, y):
    """Add alpha times the part of x that begins at group o to y."""
    a = splat(alpha)
    for g in range(len(y) >> 2):
        set_group(y, g, add(group(y, g), mul(a, group(x, o + g))))


@inner
def _part(work):
    """Make p, with q and t, orthogonal to the basis of kept solutions."""
    groups = len(work.p) >> 2
    for k in range(len(work.sizes)):
        if work.sizes[k] > 0.0:
            c = -_dot_at(work.q, work.basis_t, k * groups) / work.sizes[k]
            _advance_at(c, work.basis, k * groups, work.p)
            _advance_at(c, work.basis_q, k * groups, work.q)
            _advance_at(c, work.basis_t, k * groups, work.t)


@outlined
def _recycle(system, Minv, J, C, work):
    """Make a basis of the kept solutions for this matrix, and take the residual down along it."""
    p, q, t, groups = work.p, work.q, work.t, len(work.p) >> 2
    for k in range(len(work.sizes)):
        work.sizes[k] = 0.0
    for k in range(len(work.sizes)):
        for g in range(groups):
            set_group(p, g, group(work.kept, k * groups + g))
        if not _dot(p, p) > 0.0:
            continue
        product(system, work.place, Minv, J, C, p, work.f, work.u, q)
        _apply(system, work, q, t)
        before = _dot(q, t)
        _part(work)
        size = _dot(q, t)
        if not size > 1e-10 * before:
            continue  # it adds nothing to those before it
        work.sizes[k] = size
        for g in range(groups):
            set_group(work.basis, k * groups + g, group(p, g))
            set_group(work.basis_q, k * groups + g, group(q, g))
            set_group(work.basis_t, k * groups + g, group(t, g))
        alpha = _dot(work.r, t) / size
        _advance(alpha, p, work.x)
        _advance(-alpha, q, work.r)


@outlined
def _keep(work):
    """Keep the solution in x for the next solves, in place of the oldest."""
    groups = len(work.x) >> 2
    for k in range(len(work.sizes) - 1, 0, -1):
        for g in range(groups):
            set_group(work.kept, k * groups + g, group(work.kept, (k - 1) * groups + g))
    for g in range(groups):
        set_group(work.kept, g, group(work.x, g))


@inner
def _iterate(system, Minv, J, C, goal, cap, work):
    """Run conjugate residuals from the residual in work.r; return the status and the number of iterations."""
    r, z, w, s, p, q, t = work.r, work.z, work.w, work.s, work.p, work.q, work.t
    if len(work.sizes) > 0:
        _recycle(system, Minv, J, C, work)
    _apply(system, work, r, z)
    product(system, work.place, Minv, J, C, z, work.f, work.u, w)
    _apply(system, work, w, s)
    _turn(0.0, z, p)
    _turn(0.0, w, q)
    _turn(0.0, s, t)
    _part(work)
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
        _advance(alpha, p, work.x)
        _advance(-alpha, q, r)
        _advance(-alpha, t, z)
        before, size = size, _dot(r, z)
        if not size <= before:
            _advance(-alpha, p, work.x)  # rounding has the last word: undo the step that made things worse
            return STALLED, iteration
        product(system, work.place, Minv, J, C, z, work.f, work.u, w)
        _apply(system, work, w, s)
        new = _dot(z, w)
        beta = new / rho
        rho = new
        _turn(beta, z, p)
        _turn(beta, w, q)
        _turn(beta, s, t)
        _part(work)
    return (CONVERGED if _dot(r, r) <= goal else CAPPED), cap


@inner
def _copy_padded(system, place, x, y):
    """Set the padded y to x."""
    for i in range(len(place) - 1):
        first = system.row_start[i]
        for r in range(system.row_start[i + 1] - first):
            y[place[i] + r] = x[first + r]


@inner
def _measure(system, Minv, J, C, b, work):
    """Set work.r to b - A x; return its square."""
    product(system, work.place, Minv, J, C, work.x, work.f, work.u, work.w)
    _copy_padded(system, work.place, b, work.r)
    _advance(-1.0, work.w, work.r)
    return _dot(work.r, work.r)


@inner
def _clear(x):
    """Set x to 0."""
    for i in range(len(x)):
        x[i] = 0.0


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
    for v in (work.x, work.r, work.z, work.w, work.s, work.p, work.q, work.t):
        _clear(v)
    if warm != 0:
        _copy_padded(system, work.place, lam, work.x)
    status, count, size = FAILED, 0, 0.0
    for i in range(len(b)):
        size += b[i] * b[i]
    if _precondition(system, Minv, J, C, work) == 0:
        square = _measure(system, Minv, J, C, b, work)
        if np.isfinite(square) and np.isfinite(size):
            status, count = _iterate(system, Minv, J, C, tolerance * tolerance * size, cap, work)
    if status == FAILED:
        _clear(lam)
        report[0], report[1], report[2] = 0.0, np.inf, np.inf
        return FAILED
    left = np.sqrt(_measure(system, Minv, J, C, b, work))
    for i in range(len(work.place) - 1):
        for r in range(system.row_start[i + 1] - system.row_start[i]):
            lam[system.row_start[i] + r] = work.x[work.place[i] + r]
    if len(work.sizes) > 0:
        _keep(work)
    report[0], report[1] = count, left
    report[2] = left / np.sqrt(size) if size > 0.0 else 0.0
    if status == STALLED and left <= tolerance * np.sqrt(size):
        return CONVERGED
    return status
