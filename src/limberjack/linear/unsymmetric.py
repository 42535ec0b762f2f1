"""Auxiliary rows with forces along other directions: friction of a sliding contact, a motor that pushes sideways.

Forces K^T mu satisfy the rows J^a a + c^a = 0 of a forest:

    M a = F + J^T lam + K^T mu,    J a + C lam = -r,    J^a a = -c^a

With a_0 the accelerations without them and Mhat^-1 as in `auxiliary.py`, A mu = -(J^a a_0 + c^a), A = J^a Mhat^-1 K^T.
K differs from J^a, so A is not symmetric and products along paths do not apply: each column is a solve over all
bodies. Dependent rows and directions are found by the pivoting of the elimination.

Reference: Baraff 1996, section 8.2, steps 1 to 6; K there has the directions as columns.
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
    """The result of `solve_unsymmetric`."""

    a: np.ndarray  # (nu,) accelerations
    lam: np.ndarray  # (nr,) multipliers of the primary rows, 0 elsewhere
    mu: np.ndarray  # (k,) forces along K
    rank: int  # of A
    residual: float  # largest J^a a + c^a that no forces can remove


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
    # Section 8.2, step 3: columns of J^a Mhat^-1 K
    for i in range(k):
        for u in range(nu):
            force[u] = directions[i, u]
        solve(system, tree, work, force, zero, a, lam)
        for j in range(m):
            x = 0.0
            for u in range(nu):
                x += rows[j, u] * a[u]
            matrix[j, i] = x
    # steps 2 and 4: J^a v'_aux + c^a, and the multipliers of equation (12)
    solve(system, tree, work, F, r, a, lam)
    for j in range(m):
        x = bias[j]
        for u in range(nu):
            x += rows[j, u] * a[u]
        rhs[j] = -x
    rank = factor_general(m, k, tolerance, matrix, order[0], order[1], scales[0], scales[1])
    largest = solve_general(m, k, rank, matrix, order[0], order[1], rhs, mu, scratch)
    # step 5
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
    """Return accelerations, multipliers and forces along K that satisfy the rows J^a.

    Args:
        system: layout of the constraint system.
        tree: `order_of` this system.
        work: filled by `tree.factor`.
        F: (nu,) forces.
        r: (nr,) right side of the constraints.
        rows: (m, nu) J^a.
        bias: (m,) c^a.
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
