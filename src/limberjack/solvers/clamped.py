"""The factor of a growing and shrinking set of rows: L D L^T of A_CC, with rows added and taken out one at a time.

C is the set of clamped rows, in the order in which they came. Adding a row is one substitution; taking one out is a
change of rank one of the rows after it (Gill, Golub, Murray and Saunders 1974, method C1, which adds a positive term
and is stable without pivoting). Both cost O(k^2), where a new factor costs O(k^3).

| symbol | array | meaning |
|---|---|---|
| C | members | the k clamped rows |
| L, D | factor | unit L below the diagonal, D on it |
| y | row | L^-1 A_Cd for a row d outside |
| v | move | A_CC^-1 A_Cd |
| s | returned | what is left of A_dd: A_dd - A_dC v |
"""

from __future__ import annotations

from limberjack._jit import inner, outlined
from limberjack.solvers.strides import add_to, dot

__all__ = ["add_row", "depends", "meet_row", "solve_clamped", "take_out"]


@inner
def _back(k, factor, x):
    """Replace x by L^-T x."""
    for i in range(k - 1, 0, -1):
        add_to(x, 0, i, -x[i], i, factor)


@outlined
def solve_clamped(k, factor, x):
    """Replace x, by place in C, by A_CC^-1 x."""
    for i in range(1, k):
        x[i] -= dot(i, i, factor, x)
    for i in range(k):
        x[i] = x[i] / factor[i, i]
    _back(k, factor, x)


@outlined
def meet_row(k, d, a, members, factor, row, move):
    """Fill row and move for a row d outside of C; return what is left of its diagonal, s."""
    s = a[d, d]
    for i in range(k):
        y = a[d, members[i]] - dot(i, i, factor, row)
        row[i] = y
        move[i] = y / factor[i, i]
        s -= y * move[i]
    _back(k, factor, move)
    return s


@inner
def depends(k, d, s, tolerance, a, members, move):
    """Return whether row d follows from C: whether changes of `tolerance` in the entries of A could make s zero.

    A change of relative size e in all entries, by the diagonals, changes s by up to e (A_dd + sum of A_ii v_i^2).
    """
    size = a[d, d]
    for i in range(k):
        size += a[members[i], members[i]] * move[i] * move[i]
    return not s > tolerance * size


@outlined
def add_row(k, d, s, members, place, factor, row):
    """Add the row d that `meet_row` was last called for; return the new k."""
    for i in range(k):
        factor[k, i] = row[i] / factor[i, i]
    factor[k, k] = s
    members[k] = d
    place[d] = k
    return k + 1


@outlined
def take_out(k, p, members, place, factor, row):
    """Take the row at place p out of C; return the new k. `row` is overwritten."""
    place[members[p]] = -1
    alpha = factor[p, p]
    for i in range(p + 1, k):
        row[i] = factor[i, p]
    for j in range(p + 1, k):
        v = row[j]
        before = factor[j, j]
        after = before + alpha * v * v
        beta = v * alpha / after
        alpha *= before / after
        factor[j, j] = after
        for i in range(j + 1, k):
            row[i] -= v * factor[i, j]
            factor[i, j] += beta * row[i]
    for i in range(p + 1, k):
        for j in range(p):
            factor[i - 1, j] = factor[i, j]
        for j in range(p, i):
            factor[i - 1, j] = factor[i, j + 1]
        members[i - 1] = members[i]
        place[members[i]] = i - 1
    return k - 1
