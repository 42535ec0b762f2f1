"""All rows in one dense matrix, A = J M^-1 J^T + C: the O(n^3) way, for comparison and for small systems.

Rank-revealing where rows are held, complementary where some act on one side.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from limberjack._jit import kernel
from limberjack.solvers.dense import TOLERANCE, factor_psd, solve_psd
from limberjack.solvers.lcp import Workspace, new_workspace, solve_lcp

__all__ = ["AllRows", "new_all_rows", "solve_all_rows"]


class AllRows(NamedTuple):
    """Room for n rows on nu velocities."""

    matrix: np.ndarray  # (n, n)
    factor: np.ndarray  # (n, n)
    order: np.ndarray  # (n,)
    left: np.ndarray  # (n,)
    answer: np.ndarray  # (nu,)
    guess: np.ndarray  # (n,) int8
    high: np.ndarray  # (n,)
    lcp: Workspace


def new_all_rows(n: int, nu: int) -> AllRows:
    """Return room for n rows on nu velocities."""
    return AllRows(
        np.zeros((n, n)), np.zeros((n, n)), np.zeros(n, np.int64), np.zeros(n), np.zeros(nu), np.zeros(n, np.int8),
        np.full(n, np.inf), new_workspace(n),
    )  # fmt: skip


@kernel
def solve_all_rows(
    # in
    rows, start, in_j, in_u, first, dimension, place, inverse, j, give, side, low,
    # work
    work,
    # out
    force,
):  # fmt: skip
    """Fill the forces of the listed rows with A f + side = 0, or complementary above `low`; return rank and status.

    Args:
        rows: (n,) the rows listed.
        start: (r + 1,) where the numbers of each row begin in the next two.
        in_j, in_u: their places in J and in velocities.
        first, dimension: (nu,) of each velocity, the first velocity of its body and how many there are.
        place: (nu,) of each velocity, the place of its row in the flat inverse masses.
        inverse: flat inverse mass blocks.
        j: flat J.
        give: (r,) compliance.
        side: (n,) right sides of the listed rows.
        low: (n,) lower bounds, -inf for rows that are held.
        work: room.
        force: (n,) the solution.
    """
    n, matrix, answer, bounded = len(rows), work.matrix, work.answer, False
    for i in range(n):
        r = rows[i]
        for k in range(len(answer)):
            answer[k] = 0.0
        for t in range(start[r], start[r + 1]):
            u = in_u[t]
            for c in range(dimension[u]):
                answer[first[u] + c] += inverse[place[u] + c] * j[in_j[t]]
        for k in range(i + 1):
            total = 0.0
            for t in range(start[rows[k]], start[rows[k] + 1]):
                total += j[in_j[t]] * answer[in_u[t]]
            matrix[i, k] = total
            matrix[k, i] = total
        matrix[i, i] += give[r]
        bounded = bounded or low[i] > -np.inf
        work.guess[i] = 0
    if bounded:
        return n, solve_lcp(n, TOLERANCE, matrix, side, low, work.high, work.lcp, work.guess, force, work.left)
    for i in range(n):
        for k in range(i + 1):
            work.factor[i, k] = matrix[i, k]
    rank = factor_psd(n, TOLERANCE, work.factor, work.order, work.left)
    for i in range(n):
        work.left[i] = -side[i]
    solve_psd(n, rank, work.factor, work.order, work.left, force)
    return rank, 0
