"""The signed distance of two convex shapes, the slow way: the greatest separation over all directions."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize


def support(kind, size, direction):
    """Return how far a shape at the origin reaches along each of the (n, 3) directions."""
    d = np.atleast_2d(direction)
    if kind == "sphere":
        return size[0] * np.linalg.norm(d, axis=1)
    if kind == "capsule":
        return size[0] * np.linalg.norm(d, axis=1) + 0.5 * size[1] * np.abs(d[:, 2])
    if kind == "cylinder":
        return size[0] * np.linalg.norm(d[:, :2], axis=1) + 0.5 * size[1] * np.abs(d[:, 2])
    if kind == "box":
        return 0.5 * np.abs(d) @ np.array(size)
    return (d @ np.asarray(size).T).max(axis=1)  # a hull: its vertices


def directions(count=4000):
    """Return unit vectors spread over the sphere."""
    k = np.arange(count) + 0.5
    z, angle = 1 - 2 * k / count, np.pi * (1 + 5**0.5) * k
    across = np.sqrt(1 - z * z)
    return np.stack([across * np.cos(angle), across * np.sin(angle), z], 1)


def separation(a, b, n):
    """Return by how much direction n (out of b into a) separates the shapes (kind, size, rotation, position)."""
    n = np.atleast_2d(n)
    reach_a, reach_b = (support(kind, size, s * n @ turn) for s, (kind, size, turn, _) in ((-1, a), (1, b)))
    return n @ (a[3] - b[3]) - reach_a - reach_b


def signed_distance(a, b):
    """Return the distance of two shapes, negative by the depth where they overlap; good to about 1e-6."""
    n = directions()
    value = separation(a, b, n)
    best = -np.inf
    for start in n[np.argsort(value)[-6:]]:

        def lost(x):
            return -separation(a, b, x / np.linalg.norm(x))[0]

        found = minimize(lost, start, method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12, "maxiter": 800})
        best = max(best, -found.fun)
    return best
