"""Auxiliary rows whose forces act along other directions: friction of a sliding contact, a motor that pushes aside.

Forces K^T mu hold the rows Ja a + c = 0 of a forest:

    M a = F + J^T lam + K^T mu,    J a + C lam = -r,    Ja a = -c

With a_0 the accelerations without them and Mhat^-1 as in `paths`, A mu = -(Ja a_0 + c), A = Ja Mhat^-1 K^T. K does work
that J does not, A is not symmetric, and products along paths would not do: a column is a solve over all bodies. Rows
and forces that depend on each other are found by the order of the elimination.

Baraff 1996, section 8, steps 1 to 6.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from limberjack._jit import kernel
from limberjack.constraints.system import System
from limberjack.errors import StateError
from limberjack.linear.dense import factor_general, solve_general
from limberjack.linear.elimination import Tree
from limberjack.linear.tree import solve

__all__ = ["UnsymmetricSolution", "solve_unsymmetric"]

_TOLERANCE = 1e-11


class UnsymmetricSolution(NamedTuple):
    """What `solve_unsymmetric` finds."""

    a: np.ndarray  # (nu,) accelerations
    lam: np.ndarray  # (nr,) multipliers of the primary rows, 0 elsewhere
    mu: np.ndarray  # (k,) forces along K
    rank: int  # of A
    residual: float  # largest Ja a + c that no forces can remove


@kernel
def _solve(
    # model
    system, tree,
    # in
    tolerance, work, F, r, rows, bias, directions,
    # out
    zero, matrix, order, scales, rhs, scratch, force, a, lam, mu,
):  # fmt: skip
    """Fill a, lam and mu; return the rank of A and the largest residual."""
    m, k = len(rows), len(directions)
    nu = len(F)
    for i in range(k):
        for u in range(nu):
            force[u] = directions[i, u]
        solve(system, tree, work, force, zero, a, lam)
        for j in range(m):
            x = 0.0
            for u in range(nu):
                x += rows[j, u] * a[u]
            matrix[j, i] = x
    solve(system, tree, work, F, r, a, lam)
    for j in range(m):
        x = bias[j]
        for u in range(nu):
            x += rows[j, u] * a[u]
        rhs[j] = -x
    rank = factor_general(m, k, tolerance, matrix, order[0], order[1], scales[0], scales[1])
    largest = solve_general(m, k, rank, matrix, order[0], order[1], rhs, mu, scratch)
    for u in range(nu):
        x = F[u]
        for i in range(k):
            x += directions[i, u] * mu[i]
        force[u] = x
    solve(system, tree, work, force, r, a, lam)
    return rank, largest


def solve_unsymmetric(
    system: System,
    tree: Tree,
    work: np.ndarray,
    F: np.ndarray,
    r: np.ndarray,
    rows: np.ndarray,
    bias: np.ndarray,
    directions: np.ndarray,
) -> UnsymmetricSolution:
    """Return accelerations, multipliers and forces along K that hold the rows Ja.

    Args:
        system: the layout.
        tree: its `order_of`.
        work: as `tree.factor` left it.
        F: (nu,) forces.
        r: (nr,) right side of the constraints.
        rows: (m, nu) Ja.
        bias: (m,) c.
        directions: (k, nu) K, a force per row.
    """
    rows, directions = np.ascontiguousarray(rows, float), np.ascontiguousarray(directions, float)
    nu, m, k = len(F), len(rows), len(directions)
    if rows.shape != (m, nu) or directions.shape != (k, nu) or bias.shape != (m,):
        raise StateError(
            f"rows, bias and forces have shapes {rows.shape}, {bias.shape} and {directions.shape}; there are {nu} "
            "velocities"
        )
    most = max(m, k, 1)
    order, scales = (np.zeros(most, np.int64), np.zeros(most, np.int64)), (np.zeros(most), np.zeros(most))
    a, lam, mu = np.zeros(nu), np.zeros(len(r)), np.zeros(k)
    rank, largest = _solve(
        system, tree, _TOLERANCE, work, F, r, rows, bias, directions, np.zeros(len(r)), np.zeros((m, k)), order, scales,
        np.zeros(m), np.zeros(most), np.zeros(nu), a, lam, mu,
    )  # fmt: skip
    return UnsymmetricSolution(a, lam, mu, int(rank), float(largest))
