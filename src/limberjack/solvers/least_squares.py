"""Least squares of systems of any shape and rank, on top of the pivoted factors of `dense`.

L and U of `factor_general` have full rank and, but for the scale of the rows of U, no small angles between their
columns and rows; normal equations of them lose little (Peters and Wilkinson 1970), those of A half of the digits.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from limberjack._jit import inner, outlined
from limberjack.solvers.dense import factor_general, factor_psd, solve_psd

__all__ = ["Squares", "least_squares", "new_squares"]


class Squares(NamedTuple):
    """The arrays `least_squares` works in."""

    rows: np.ndarray  # (m,) int64
    columns: np.ndarray  # (n,) int64
    row_scale: np.ndarray  # (m,)
    column_scale: np.ndarray  # (n,)
    gram: np.ndarray  # (min(m, n), min(m, n)) products of the columns of L, then of the rows of U
    order: np.ndarray  # (min(m, n),) int64
    diagonal: np.ndarray  # (min(m, n),)
    side: np.ndarray  # (min(m, n),)
    middle: np.ndarray  # (min(m, n),)


def new_squares(m: int, n: int) -> Squares:
    """Return arrays for `least_squares` of up to m rows and n columns."""
    r = max(1, min(m, n))
    return Squares(
        rows=np.zeros(m, np.int64),
        columns=np.zeros(n, np.int64),
        row_scale=np.zeros(m),
        column_scale=np.zeros(n),
        gram=np.zeros((r, r)),
        order=np.zeros(r, np.int64),
        diagonal=np.zeros(r),
        side=np.zeros(r),
        middle=np.zeros(r),
    )


@inner
def _left(m, rank, a, b, squares):
    """Fill squares.middle with the y of the least |L y - b|."""
    gram, side, rows = squares.gram, squares.side, squares.rows
    for j in range(rank):
        side[j] = 0.0
        for k in range(j + 1):
            gram[j, k] = 0.0
    for i in range(m):
        right = b[rows[i]]
        for j in range(min(i + 1, rank)):
            l = a[i, j] if j < i else 1.0
            side[j] += l * right
            for k in range(j):
                gram[j, k] += l * a[i, k]
            gram[j, j] += l * l
    kept = factor_psd(rank, 0.0, gram, squares.order, squares.diagonal)
    solve_psd(rank, kept, gram, squares.order, side, squares.middle)


@inner
def _right(n, rank, a, squares, x):
    """Fill x with the shortest solution of U x = y for the y in squares.middle.

    With rows of U divided by their pivots: those are far from parallel even where U is nearly singular.
    """
    gram, side, middle, columns = squares.gram, squares.side, squares.middle, squares.columns
    for i in range(rank):
        inv = 1.0 / a[i, i]
        side[i] = middle[i] * inv
        for k in range(i + 1):
            s = 0.0
            for j in range(i, n):
                s += a[i, j] * a[k, j]
            gram[i, k] = s * inv / a[k, k]
    kept = factor_psd(rank, 0.0, gram, squares.order, squares.diagonal)
    solve_psd(rank, kept, gram, squares.order, side, middle)
    for j in range(n):
        s = 0.0
        for k in range(min(j + 1, rank)):
            s += a[k, j] / a[k, k] * middle[k]
        x[columns[j]] = s


@outlined
def least_squares(
    # in
    m,
    n,
    tolerance,
    # out
    a,
    b,
    x,
    squares,
):  # fmt: skip
    """Fill x with the shortest of the vectors with the least |A x - b|, A of any shape and rank; return the rank.

    Args:
        m: rows.
        n: columns.
        tolerance: that of `factor_general`.
        a: (>= m, >= n) overwritten by its factor.
        b: (>= m,) right side; replaced by b - A x.
        x: (>= n,) the solution.
        squares: work arrays.
    """
    rank = factor_general(
        m, n, tolerance, a, squares.rows, squares.columns, squares.row_scale, squares.column_scale
    )  # fmt: skip
    _left(m, rank, a, b, squares)
    _right(n, rank, a, squares, x)
    for k in range(rank):
        s = 0.0
        for j in range(k, n):
            s += a[k, j] * x[squares.columns[j]]
        squares.side[k] = s
    for i in range(m):
        s = squares.side[i] if i < rank else 0.0
        for k in range(min(i, rank)):
            s += a[i, k] * squares.side[k]
        b[squares.rows[i]] -= s
    return rank
