"""Rotations in NumPy: quaternions (w, x, y, z) and matrices, one or many at a time."""

from __future__ import annotations

import numpy as np

__all__ = ["matrix_of", "rotate", "z_to"]


def matrix_of(q: np.ndarray) -> np.ndarray:
    """Return the (..., 3, 3) rotations of the (..., 4) unit quaternions."""
    w, x, y, z = np.moveaxis(np.asarray(q, float), -1, 0)
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return np.moveaxis(np.array(rows), (0, 1), (-2, -1))


def rotate(q: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Return the vectors (n, 3) rotated by the quaternions (n, 4)."""
    return np.einsum("nij,nj->ni", matrix_of(q), vectors)


def z_to(axis: np.ndarray) -> np.ndarray:
    """Return the smallest rotation (3, 3) that takes z to the unit `axis`; about x by pi for -z."""
    x, y, z = (float(a) for a in axis)
    if x == y == 0.0:
        return np.diag([1.0, 1.0, 1.0] if z > 0 else [1.0, -1.0, -1.0])
    f = (1.0 - z) / (x * x + y * y)
    return np.array([[1 - x * x * f, -x * y * f, x], [-x * y * f, 1 - y * y * f, y], [-x, -y, z]])
