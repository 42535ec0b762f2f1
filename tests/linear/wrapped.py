"""Kernels that only kernels call, wrapped so that tests can: arrays in, arrays out, nothing of the caller changed.

The compiled part of each only hands on its arguments: arrays made inside would take seconds more to compile.
"""

from __future__ import annotations

import numba
import numpy as np

from limberjack.linear import dense, lcp

_factor_psd, _solve_psd = dense.factor_psd, dense.solve_psd
_factor_general, _solve_general = dense.factor_general, dense.solve_general
_eliminate, _add, _remove, _solve_active = lcp.eliminate_row, lcp.add_row, lcp.remove_row, lcp.solve_active

_jit = numba.njit(_nrt=False)


@_jit
def _factor(n, tolerance, a, order, diagonal):
    return _factor_psd(n, tolerance, a, order, diagonal)


@_jit
def _solve(n, rank, a, order, b, x):
    return _solve_psd(n, rank, a, order, b, x)


@_jit
def _general(m, n, tolerance, a, rows, columns, row_scale, column_scale, b, x, work):
    rank = _factor_general(m, n, tolerance, a, rows, columns, row_scale, column_scale)
    return rank, _solve_general(m, n, rank, a, rows, columns, b, x, work)


@_jit
def _activate(a, moves, factor, active, index, row, move):
    k = 0
    for i in moves:
        if i >= 0:
            s = _eliminate(k, i, a, active, factor, row, move)
            k = _add(k, i, s, active, index, factor, row)
        else:
            k = _remove(k, index[-1 - i], active, index, factor, row)
    return k


@_jit
def _solve_set(k, factor, x):
    _solve_active(k, factor, x)


def _integers(n):
    return np.zeros(n, np.int64)


def factor_psd(n, tolerance, a):
    """Return (rank, factor, order, diagonal)."""
    a, order, diagonal = a.copy(), _integers(len(a)), np.zeros(len(a))
    return _factor(n, tolerance, a, order, diagonal), a, order, diagonal


def solve_psd(n, rank, a, order, b):
    """Return (largest fault, x, b - A x)."""
    b, x = b.copy(), np.full(len(b), np.nan)
    return _solve(n, rank, a, order, b, x), x, b


def solve_general(m, n, tolerance, a, b):
    """Return (rank, rows, columns, largest fault, x, b - A x)."""
    b, x, rows, columns = b.copy(), np.full(n, np.nan), _integers(m), _integers(n)
    rank, worst = _general(
        m, n, tolerance, a.copy(), rows, columns, np.zeros(m), np.zeros(n), b, x, np.zeros(m)
    )  # fmt: skip
    return rank, rows, columns, worst, x, b


def activate_and_solve(a, moves, b):
    """Return the active rows after moves (row i joins: i, leaves: -1 - i), their indices, and A_CC^-1 b of them."""
    n = len(a)
    factor, active, index = np.zeros((n, n)), _integers(n), np.full(n, -1)
    k = _activate(a, moves, factor, active, index, np.zeros(n), np.zeros(n))
    x = b[active[:k]]
    _solve_set(k, factor, x)
    return active[:k], index, x
