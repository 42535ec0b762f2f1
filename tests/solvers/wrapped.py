"""Kernels that only kernels call, wrapped so that tests can: arrays in, arrays out, nothing of the caller changed."""

from __future__ import annotations

import numba
import numpy as np

from limberjack.solvers import clamped, dense
from limberjack.solvers import least_squares as squares_room

_factor_psd, _solve_psd, _null_psd = dense.factor_psd, dense.solve_psd, dense.null_psd
_spread_psd, _balance_psd = dense.spread_psd, dense.balance_psd
_factor_general, _solve_general = dense.factor_general, dense.solve_general
_least_squares = squares_room.least_squares
_meet, _add, _take_out, _solve_clamped = clamped.meet_row, clamped.add_row, clamped.take_out, clamped.solve_clamped


@numba.njit
def factor_psd(n, tolerance, a):
    """Return (rank, factor, order, diagonal)."""
    a = a.copy()
    order, diagonal = np.zeros(len(a), np.int64), np.zeros(len(a))
    rank = _factor_psd(n, tolerance, a, order, diagonal)
    return rank, a, order, diagonal


@numba.njit
def solve_psd(n, rank, a, order, b):
    """Return (largest fault, x, b - A x)."""
    b, x = b.copy(), np.full(len(b), np.nan)
    worst = _solve_psd(n, rank, a, order, b, x)
    return worst, x, b


@numba.njit
def fit_psd(n, tolerance, a, weight, b):
    """Return (x, largest change of b, largest fault afterwards): the whole chain of a least-squares solution."""
    a, b = a.copy(), b.copy()
    order, diagonal, work, x = np.zeros(n, np.int64), np.zeros(n), np.zeros(n), np.zeros(n)
    rank = _factor_psd(n, tolerance, a, order, diagonal)
    _null_psd(n, rank, weight, order, a)
    change = _balance_psd(n, rank, weight, a, order, b, work)
    worst = _solve_psd(n, rank, a, order, b, x)
    _spread_psd(n, rank, weight, a, order, x, work)
    return x, change, worst


@numba.njit
def solve_general(m, n, tolerance, a, b):
    """Return (rank, rows, columns, largest fault, x, b - A x)."""
    a, b = a.copy(), b.copy()
    rows, columns = np.zeros(m, np.int64), np.zeros(n, np.int64)
    rank = _factor_general(m, n, tolerance, a, rows, columns, np.zeros(m), np.zeros(n))
    x = np.full(n, np.nan)
    worst = _solve_general(m, n, rank, a, rows, columns, b, x, np.zeros(m))
    return rank, rows, columns, worst, x, b


@numba.njit
def least_squares(m, n, tolerance, a, b, squares):
    """Return (rank, x, b - A x)."""
    a, b, x = a.copy(), b.copy(), np.full(n, np.nan)
    rank = _least_squares(m, n, tolerance, a, b, x, squares)
    return rank, x, b


@numba.njit
def clamp_and_solve(a, moves, b):
    """Return the rows clamped after moves (row i joins: i, leaves: -1 - i), and A_CC^-1 b of them."""
    n = len(a)
    factor, members, place = np.zeros((n, n)), np.zeros(n, np.int64), np.full(n, -1)
    row, move = np.zeros(n), np.zeros(n)
    k = 0
    for i in moves:
        if i >= 0:
            s = _meet(k, i, a, members, factor, row, move)
            k = _add(k, i, s, members, place, factor, row)
        else:
            k = _take_out(k, place[-1 - i], members, place, factor, row)
    x = b[members[:k]]
    _solve_clamped(k, factor, x)
    for p in range(k):
        if place[members[p]] != p:
            return members[:0], x
    return members[:k], x
