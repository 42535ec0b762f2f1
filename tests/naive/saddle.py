"""The saddle system of bodies and constraints, written out dense, and random systems to try solvers on.

[ M  -J^T ] [ a   ]   [ F ]
[-J  -C   ] [ lam ] = [ r ]
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from limberjack.constraints.system import System


class Values(NamedTuple):
    """The numbers of a system, flat as `System` says."""

    M: np.ndarray
    J: np.ndarray
    C: np.ndarray
    F: np.ndarray
    r: np.ndarray


def starts(sizes):
    """Return where blocks of these sizes start, and the end of the last."""
    return np.concatenate([[0], np.cumsum(np.asarray(sizes, dtype=np.int64))]).astype(np.int64)


def system_of(dims, rows, touches):
    """Return the layout of bodies of these dimensions and constraints of so many rows on these bodies each."""
    flat = np.array([body for bodies in touches for body in bodies], dtype=np.int64)
    blocks = [m * dims[body] for m, bodies in zip(rows, touches, strict=True) for body in bodies]
    counts = [len(bodies) for bodies in touches]
    return System(starts(dims), starts(np.asarray(dims) ** 2), starts(rows), starts(counts), flat, starts(blocks))


def random_rows(rng, rows, dim):
    """Return a random block with orthonormal rows, or columns where there are fewer: as far from singular as can be."""
    wide = np.linalg.qr(rng.normal(size=(max(rows, dim), min(rows, dim))))[0]
    return wide.T if rows <= dim else wide


def random_values(rng, system, compliance=0.0):
    """Return random values: SPD masses, full J, and compliances up to `compliance` on about half of the rows."""
    dims, rows = np.diff(system.body_start), np.diff(system.row_start)
    owner = np.repeat(np.arange(len(rows)), np.diff(system.incidence_start))
    blocks = []
    for dim in dims:
        a = rng.normal(size=(dim, dim))
        blocks.append((a @ a.T / dim + np.eye(dim)).ravel())
    nu, nr = int(system.body_start[-1]), int(system.row_start[-1])
    soft = compliance * rng.uniform(size=nr) * (rng.uniform(size=nr) < 0.5)
    J = [random_rows(rng, rows[c], dims[b]).ravel() for c, b in zip(owner, system.incidence_body, strict=True)]
    return Values(np.concatenate(blocks), np.concatenate(J), soft, rng.normal(size=nu), rng.normal(size=nr))


def dense_mass(system, M):
    """Return M (nu, nu)."""
    nu = int(system.body_start[-1])
    full = np.zeros((nu, nu))
    for b in range(len(system.body_start) - 1):
        v, end = system.body_start[b : b + 2]
        full[v:end, v:end] = M[system.mass_start[b] : system.mass_start[b + 1]].reshape(end - v, end - v)
    return full


def dense_rows(system, J):
    """Return J (nr, nu)."""
    full = np.zeros((int(system.row_start[-1]), int(system.body_start[-1])))
    for c in range(len(system.row_start) - 1):
        row, row_end = system.row_start[c : c + 2]
        for t in range(system.incidence_start[c], system.incidence_start[c + 1]):
            v, end = system.body_start[system.incidence_body[t] : system.incidence_body[t] + 2]
            block = J[system.block_start[t] : system.block_start[t + 1]]
            full[row:row_end, v:end] += block.reshape(row_end - row, end - v)
    return full


def rows_of(system, constraints):
    """Return the rows of these constraints, in their order."""
    parts = [np.arange(system.row_start[c], system.row_start[c + 1]) for c in constraints]
    return np.concatenate(parts).astype(int) if parts else np.zeros(0, dtype=int)


def saddle(system, values, constraints):
    """Return the dense matrix of the system with these constraints alone."""
    keep = rows_of(system, constraints)
    M, J = dense_mass(system, values.M), dense_rows(system, values.J)[keep]
    return np.block([[M, -J.T], [-J, -np.diag(values.C[keep])]])


def solve_dense(system, values, constraints):
    """Return (a, lam) with these constraints alone; lam by their rows."""
    keep, nu = rows_of(system, constraints), int(system.body_start[-1])
    x = np.linalg.solve(saddle(system, values, constraints), np.concatenate([values.F, values.r[keep]]))
    return x[:nu], x[nu:]


def forest_by_sets(system, allowed=None):
    """Return which constraints are primary, by merging sets of bodies; the ground is one more member of them."""
    dims, rows = np.diff(system.body_start), np.diff(system.row_start)
    sets = [{b} for b in range(len(dims))] + [{"ground"}]
    primary = np.zeros(len(rows), dtype=bool)
    for c in range(len(rows)):
        bodies = [int(b) for b in system.incidence_body[system.incidence_start[c] : system.incidence_start[c + 1]]]
        sizes = [int(dims[b]) for b in bodies]
        room = sum(sizes) - (max(sizes, default=0) if len(bodies) > 1 else 0)
        members = bodies + ["ground"] if len(bodies) == 1 else bodies
        own = [next(i for i, x in enumerate(sets) if b in x) for b in members]
        if not bodies or len(set(own)) < len(own) or rows[c] > room or (allowed is not None and not allowed[c]):
            continue
        primary[c] = True
        joined = set().union(*(sets[i] for i in own))
        sets = [x for i, x in enumerate(sets) if i not in own] + [joined]
    return primary


def random_system(rng, bodies, extra, dims=tuple(range(1, 13))):
    """Return a random layout: constraints of up to three bodies and six rows, most of them a forest, `extra` not."""
    sizes = rng.choice(dims, size=bodies)
    touches = []
    for b in range(1, bodies):
        if rng.uniform() < 0.9:
            # A third body closes a cycle with what came before, unless it comes later.
            more = [b + 1] if b + 1 < bodies and rng.uniform() < 0.2 else []
            touches.append(list(rng.permutation([int(rng.integers(b)), b, *more])))
    touches += [[int(b)] for b in rng.choice(bodies, size=max(1, bodies // 8), replace=False)]
    for _ in range(extra):
        touches.append([int(b) for b in rng.choice(bodies, size=rng.integers(1, 4), replace=False)])
    touches = [touches[i] for i in rng.permutation(len(touches))]
    rows = []
    for bodies_of in touches:
        mine = [int(sizes[b]) for b in bodies_of]
        room = sum(mine) - (max(mine) if len(mine) > 1 else 0)
        rows.append(int(rng.integers(1, min(room, 6) + 1)))
    return system_of([int(x) for x in sizes], rows, touches)
