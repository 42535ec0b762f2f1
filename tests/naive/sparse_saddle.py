"""The constraint system as dense matrices: what every solver of it must agree with."""

from __future__ import annotations

import numpy as np


def dense_rows(system, J):
    """Return J (nr, nu) with every block in its place."""
    out = np.zeros((system.row_start[-1], system.body_start[-1]))
    for i in range(len(system.row_start) - 1):
        rows = slice(system.row_start[i], system.row_start[i + 1])
        for t in range(system.incidence_start[i], system.incidence_start[i + 1]):
            b = system.incidence_body[t]
            block = J[system.block_start[t] : system.block_start[t + 1]]
            out[rows, system.body_start[b] : system.body_start[b + 1]] = block.reshape(rows.stop - rows.start, -1)
    return out


def dense_inverse_mass(system, Minv):
    """Return M^-1 (nu, nu) of flat blocks, or of the seven numbers of rigid bodies."""
    out = np.zeros((system.body_start[-1],) * 2)
    for b in range(len(system.body_start) - 1):
        at, end = system.body_start[b], system.body_start[b + 1]
        if Minv.ndim == 2:
            xx, yy, zz, xy, xz, yz, m = Minv[b]
            out[at : at + 3, at : at + 3] = [[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]
            out[at + 3 : end, at + 3 : end] = m * np.eye(3)
        else:
            block = Minv[system.mass_start[b] : system.mass_start[b + 1]]
            out[at:end, at:end] = block.reshape(end - at, end - at)
    return out


def dense_matrix(system, Minv, J, C):
    """Return A = J M^-1 J^T + C."""
    rows = dense_rows(system, J)
    return rows @ dense_inverse_mass(system, Minv) @ rows.T + np.diag(C)


def solve_saddle(system, Minv, J, C, F, r):
    """Return a and lam of [M -J^T; -J -C] [a; lam] = [F; r], of least |lam| where lam is not unique."""
    rows, inverse = dense_rows(system, J), dense_inverse_mass(system, Minv)
    A = dense_matrix(system, Minv, J, C)
    lam = np.linalg.lstsq(A, -r - rows @ (inverse @ F), rcond=1e-11)[0]
    return inverse @ (F + rows.T @ lam), lam


def least_squares(system, Minv, J, C, b):
    """Return lam with the least (b - A lam)^T P (b - A lam), P the inverses of A's diagonal blocks."""
    A = dense_matrix(system, Minv, J, C)
    root = np.zeros_like(A)
    for i in range(len(system.row_start) - 1):
        s = slice(system.row_start[i], system.row_start[i + 1])
        root[s, s] = np.linalg.cholesky(np.linalg.inv(A[s, s])).T
    return np.linalg.lstsq(root @ A, root @ b, rcond=1e-11)[0]


def eliminated(system, order):
    """Return the set of later neighbours of each eliminated constraint, and the number of pairs of neighbours in A."""
    nc = len(system.incidence_start) - 1
    start, body = system.incidence_start, system.incidence_body
    bodies = [set(body[start[i] : start[i + 1]].tolist()) for i in range(nc)]
    near = [{j for j in range(nc) if j != i and bodies[i] & bodies[j]} for i in range(nc)]
    pairs = sum(len(n) for n in near) // 2
    later = []
    for i in order:
        later.append(set(near[i]))
        for j in near[i]:
            near[j] |= near[i] - {j}
            near[j].discard(i)
    return later, pairs
