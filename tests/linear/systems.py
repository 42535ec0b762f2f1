"""Constraint systems for tests of solvers: graphs of incidences, and numbers for them."""

from __future__ import annotations

import numpy as np

from limberjack.constraints.system import System


def _sums(counts):
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def system_of(incidences, rows, dims):
    """Return the system of constraints on these bodies, with so many rows, on bodies of these dimensions."""
    dims, rows = np.array(dims, np.int64), np.array(rows, np.int64)
    counts = [len(t) for t in incidences]
    body = np.array([b for t in incidences for b in t], np.int64)
    owner = np.repeat(np.arange(len(incidences)), counts)
    return System(_sums(dims), _sums(dims**2), _sums(rows), _sums(counts), body, _sums(rows[owner] * dims[body]))


def tree(n, rng):
    """Return the incidences of a random tree of n bodies whose first is grounded."""
    return [[0]] + [[int(rng.integers(0, i)), i] for i in range(1, n)]


def chain(n):
    """Return the incidences of a chain of n bodies whose first is grounded."""
    return [[0]] + [[i - 1, i] for i in range(1, n)]


def loops(n, extra, rng):
    """Return the incidences of a random tree with constraints between random bodies added."""
    return tree(n, rng) + [sorted(rng.choice(n, 2, replace=False).tolist()) for _ in range(extra)]


def grid(n):
    """Return the incidences of n x n bodies, each tied to the next in both directions, one of them grounded."""
    at = np.arange(n * n).reshape(n, n)
    pairs = np.concatenate(
        [np.stack([at[:-1].ravel(), at[1:].ravel()], 1), np.stack([at[:, :-1].ravel(), at[:, 1:].ravel()], 1)]
    )
    return [[0], *pairs.tolist()]


def net(n):
    """Return incidences and positions of a net: (n + 1)^2 nodes and rods between them on balls, four corners fixed."""
    positions, incidences, node = [], [], {}
    for i in range(n + 1):
        for j in range(n + 1):
            node[i, j] = -1 if i in (0, n) and j in (0, n) else len(positions)
            if node[i, j] >= 0:
                positions.append((i, j))
    for i in range(n + 1):
        for j in range(n + 1):
            for di, dj in ((1, 0), (0, 1)):
                if i + di <= n and j + dj <= n:
                    rod = len(positions)
                    positions.append((i + di / 2, j + dj / 2))
                    incidences += [
                        [b for b in (node[i, j], rod) if b >= 0],
                        [b for b in (rod, node[i + di, j + dj]) if b >= 0],
                    ]
    return incidences, np.array(positions, float)


def spd(n, rng):
    """Return a random symmetric positive definite matrix with moderate condition."""
    q, _ = np.linalg.qr(rng.normal(size=(n, n)))
    return q @ np.diag(rng.uniform(0.3, 3.0, n)) @ q.T


def flat_numbers(system, rng):
    """Return flat inverse masses and random rows."""
    inverse = np.concatenate([spd(d, rng).ravel() for d in np.diff(system.body_start)])
    return inverse, rng.normal(size=system.block_start[-1])


def rigid_numbers(system, rng):
    """Return (nb, 7) inverse masses and random rows."""
    nb = len(system.body_start) - 1
    inverse = np.empty((nb, 7))
    for b in range(nb):
        k = spd(3, rng)
        inverse[b] = k[0, 0], k[1, 1], k[2, 2], k[0, 1], k[0, 2], k[1, 2], rng.uniform(0.3, 3.0)
    return inverse, rng.normal(size=system.block_start[-1])


def skew(r):
    """Return the matrix of r x."""
    return np.array([[0.0, -r[2], r[1]], [r[2], 0.0, -r[0]], [-r[1], r[0], 0.0]])


def joint_rows(incidences, kinds, points, centers):
    """Return flat rows of ball ("ball") and hinge (an axis) joints at world points; + on the last body."""
    out = []
    for bodies, kind, point in zip(incidences, kinds, points, strict=True):
        for k, b in enumerate(bodies):
            block = np.hstack([-skew(point - centers[b]), np.eye(3)])
            if not isinstance(kind, str):
                turns = np.linalg.svd(np.array(kind)[None])[2][1:]  # two directions across the axis
                block = np.vstack([block, np.hstack([turns, np.zeros((2, 3))])])
            out.append((block if k == len(bodies) - 1 else -block).ravel())
    return np.concatenate(out)
