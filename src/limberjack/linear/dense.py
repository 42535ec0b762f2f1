"""Dense systems of any rank: pivoted L D L^T for symmetric matrices, pivoted L U for others.

Constraint matrices are often singular: a loop of hinges that lies in a plane repeats rows, four legs share a floor. All
kernels here find the rank, keep the most independent rows, and report the residuals of the redundant ones. They work on
the leading n x n (or m x n) part of caller-owned arrays, which may be larger, and never allocate.

The tolerance is relative and does not depend on the scale of rows. In a symmetric A each row counts by its own
diagonal: what is left of a_ii after elimination is a_ii sin^2, with the sine of the angle between row i and the span of
the rows kept, in the norm in which A is a Gram matrix (J M^-1 J^T). A row is redundant when sin^2 is at most
`tolerance`. Rounding leaves about n * 1e-16 there, sums over long chains of bodies some 1e-13; `TOLERANCE` is above
both, and treats rows as parallel that are within 3e-6 rad. In other matrices rows and then columns count by their
largest entry.

A symmetric factor in `a`, by pivots (pivot k is row order[k]):

| part of `a` | holds |
|---|---|
| below the diagonal, columns < rank | L, with ones on its diagonal that are not stored |
| diagonal, rows < rank | D |
| above the diagonal, rows < rank | D L^T, so that every loop runs along a row |
| rows and columns >= rank | rounding |

Indices are unsigned inside the row loops: for a signed one the compiler has to allow for an index counted from the end,
and then takes one number at a time, at a quarter of the speed. Sums keep their order, so results are the same on every
machine.
"""

from __future__ import annotations

import numpy as np

from limberjack._jit import inner, outlined

__all__ = [
    "TOLERANCE",
    "add_to",
    "dot",
    "factor_general",
    "factor_psd",
    "solve_general",
    "solve_psd",
    "subtract_row",
]

TOLERANCE = 1e-11


@inner
def dot(count, i, a, x):
    """Return the sum of a[i, j] x[j] for j < count, in four independent sums."""
    row, one, two, three = np.uint64(i), np.uint64(1), np.uint64(2), np.uint64(3)
    end, whole = np.uint64(count), np.uint64(count - count % 4)
    s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
    for j in range(np.uint64(0), whole, np.uint64(4)):
        s0 += a[row, j] * x[j]
        s1 += a[row, j + one] * x[j + one]
        s2 += a[row, j + two] * x[j + two]
        s3 += a[row, j + three] * x[j + three]
    for j in range(whole, end):
        s0 += a[row, j] * x[j]
    return (s0 + s1) + (s2 + s3)


@inner
def add_to(x, first, end, t, i, a):
    """Add t a[i, j] to x[j] for first <= j < end."""
    row, start = np.uint64(i), np.uint64(first)
    for j in range(np.uint64(max(end - first, 0))):
        x[start + j] += t * a[row, start + j]


@inner
def subtract_row(i, first, end, t, k, a):
    """Subtract t a[k, j] from a[i, j] for first <= j < end."""
    row, other, start = np.uint64(i), np.uint64(k), np.uint64(first)
    for j in range(np.uint64(max(end - first, 0))):
        a[row, start + j] -= t * a[other, start + j]


@inner
def _swap(n, k, p, a):
    """Exchange rows and columns k < p of a symmetric matrix of which k pivots are done."""
    for j in range(k):
        a[k, j], a[p, j] = a[p, j], a[k, j]
        a[j, k], a[j, p] = a[j, p], a[j, k]
    a[k, k], a[p, p] = a[p, p], a[k, k]
    for j in range(k + 1, p):
        a[j, k], a[p, j] = a[p, j], a[j, k]
    for i in range(p + 1, n):
        a[i, k], a[i, p] = a[i, p], a[i, k]


@inner
def _eliminate(n, k, a):
    """Eliminate pivot k from the rows after it."""
    inv = 1.0 / a[k, k]
    for i in range(k + 1, n):
        a[k, i] = a[i, k]
        a[i, k] = a[i, k] * inv
    for i in range(k + 1, n):
        subtract_row(i, k + 1, i + 1, a[i, k], k, a)


@inner
def _forward(first, end, n, a, x):
    """Replace x by L^-1 x for pivots first..end; entries from end on become the residual of the pivots."""
    for k in range(first, end):
        add_to(x, k + 1, n, -x[k] / a[k, k], k, a)


@inner
def _backward(first, end, a, x):
    """Replace x by L^-T D^-1 x for pivots first..end."""
    for k in range(first, end):
        x[k] = x[k] / a[k, k]
    for k in range(end - 1, first, -1):
        add_to(x, first, k, -x[k], k, a)


@outlined
def factor_psd(
    # in
    n,
    tolerance,
    # out
    a,
    order,
    diagonal,
):  # fmt: skip
    """Factor a symmetric positive semidefinite matrix in place, the most independent row first; return its rank.

    Args:
        n: size.
        tolerance: a row is redundant when at most this part of its diagonal is left.
        a: (>= n, >= n) its lower half is read, the whole square is overwritten.
        order: (>= n,) int64 rows by pivot: order[:rank] are kept, order[rank:] are redundant.
        diagonal: (>= n,) the diagonal of A as it was.
    """
    for i in range(n):
        order[i] = i
        diagonal[i] = a[i, i]
    for k in range(n):
        best, p = tolerance, -1
        for i in range(k, n):
            whole = diagonal[order[i]]
            part = a[i, i] / whole if whole > 0.0 else 0.0
            if part > best or (p >= 0 and part == best and order[i] < order[p]):
                best, p = part, i
        if p < 0:
            return k
        if p > k:
            _swap(n, k, p, a)
            order[k], order[p] = order[p], order[k]
        _eliminate(n, k, a)
    return n


@outlined
def solve_psd(
    # in
    n,
    rank,
    a,
    order,
    # out
    b,
    x,
):  # fmt: skip
    """Fill x with a solution of A x = b in which redundant rows have x = 0; return the largest |b - A x|.

    Args:
        n: size.
        rank: what `factor_psd` returned.
        a: its factor.
        order: its order of rows.
        b: (>= n,) right side; replaced by b - A x: 0 in the rows kept, the inconsistency in the redundant ones.
        x: (>= n,) the solution.
    """
    for i in range(n):
        x[i] = b[order[i]]
    _forward(0, rank, n, a, x)
    _backward(0, rank, a, x)
    for i in range(n):
        b[order[i]] = x[i]
    worst = 0.0
    for k in range(rank):
        row = order[k]
        x[row], b[row] = b[row], 0.0
    for k in range(rank, n):
        row = order[k]
        x[row] = 0.0
        # Written so that a NaN is not lost.
        if not abs(b[row]) <= worst:
            worst = abs(b[row])
    return worst


@inner
def _scales(m, n, a, row_scale, column_scale):
    """Fill the factors that make the largest entry of each row, and then of each column, 1; of zero ones 0."""
    for i in range(m):
        most = 0.0
        for j in range(n):
            most = max(most, abs(a[i, j]))
        row_scale[i] = 1.0 / most if most > 0.0 else 0.0
    for j in range(n):
        most = 0.0
        for i in range(m):
            most = max(most, abs(a[i, j]) * row_scale[i])
        column_scale[j] = 1.0 / most if most > 0.0 else 0.0


@outlined
def factor_general(
    # in
    m,
    n,
    tolerance,
    # out
    a,
    rows,
    columns,
    row_scale,
    column_scale,
):  # fmt: skip
    """Factor an m x n matrix in place into L U, the largest scaled entry first; return its rank.

    Args:
        m: rows.
        n: columns.
        tolerance: rows are redundant when no entry above this is left, in units of the largest of its row and column.
        a: (>= m, >= n) overwritten: below the diagonal L, whose diagonal of ones is not stored; U on and above it.
        rows: (>= m,) int64 rows by pivot: rows[:rank] are kept, rows[rank:] are redundant.
        columns: (>= n,) int64 columns by pivot: those from `rank` on get 0 in `solve_general`.
        row_scale: (>= m,) scale of the rows by which pivots are chosen.
        column_scale: (>= n,) scale of the columns by which pivots are chosen.
    """
    for i in range(m):
        rows[i] = i
    for j in range(n):
        columns[j] = j
    _scales(m, n, a, row_scale, column_scale)
    for k in range(min(m, n)):
        best, p, q = tolerance, -1, -1
        for i in range(k, m):
            scale = row_scale[rows[i]]
            for j in range(k, n):
                entry = abs(a[i, j]) * scale * column_scale[columns[j]]
                if entry > best:
                    best, p, q = entry, i, j
        if p < 0:
            return k
        if p > k:
            rows[k], rows[p] = rows[p], rows[k]
            for j in range(n):
                a[k, j], a[p, j] = a[p, j], a[k, j]
        if q > k:
            columns[k], columns[q] = columns[q], columns[k]
            for i in range(m):
                a[i, k], a[i, q] = a[i, q], a[i, k]
        inv = 1.0 / a[k, k]
        for i in range(k + 1, m):
            a[i, k] *= inv
            subtract_row(i, k + 1, n, a[i, k], k, a)
    return min(m, n)


@outlined
def solve_general(
    # in
    m,
    n,
    rank,
    a,
    rows,
    columns,
    # out
    b,
    x,
    work,
):  # fmt: skip
    """Fill x with a solution of A x = b in which redundant columns have x = 0; return the largest |b - A x|.

    Args:
        m: rows.
        n: columns.
        rank: what `factor_general` returned.
        a: its factor.
        rows: its order of rows.
        columns: its order of columns.
        b: (>= m,) right side; replaced by b - A x: 0 in the rows kept, the inconsistency in the redundant ones.
        x: (>= n,) the solution.
        work: (>= m,) overwritten.
    """
    for i in range(m):
        work[i] = b[rows[i]] - dot(min(i, rank), i, a, work)
    worst = 0.0
    for i in range(m):
        left = work[i] if i >= rank else 0.0
        b[rows[i]] = left
        if not abs(left) <= worst:
            worst = abs(left)
    for k in range(rank - 1, -1, -1):
        s = work[k]
        for j in range(k + 1, rank):
            s -= a[k, j] * work[j]
        work[k] = s / a[k, k]
    for j in range(n):
        x[columns[j]] = work[j] if j < rank else 0.0
    return worst
