"""Rotations and frames in NumPy, batched: for building and reading models, where nothing is compiled.

A batch of rotations is (n, 3, 3), of quaternions (n, 4) as (w, x, y, z), of positions (n, 3).
"""

from __future__ import annotations

import numpy as np

__all__ = [
    "compose",
    "invert",
    "matrix_from_axis",
    "matrix_from_quaternion",
    "matrix_from_vector",
    "quaternion_from_matrix",
    "skew",
    "turn_z_to",
    "vector_from_matrix",
]


def skew(v: np.ndarray) -> np.ndarray:
    """Return the (..., 3, 3) matrices [v] with [v] x = v x x."""
    v = np.asarray(v, float)
    out = np.zeros((*v.shape[:-1], 3, 3))
    out[..., 0, 1], out[..., 0, 2], out[..., 1, 2] = -v[..., 2], v[..., 1], -v[..., 0]
    out[..., 1, 0], out[..., 2, 0], out[..., 2, 1] = v[..., 2], -v[..., 1], v[..., 0]
    return out


def matrix_from_quaternion(q: np.ndarray) -> np.ndarray:
    """Return the (..., 3, 3) rotations of the (..., 4) quaternions, normalised or not."""
    q = np.asarray(q, float)
    w, x, y, z = np.moveaxis(q, -1, 0)
    s = 2.0 / (w * w + x * x + y * y + z * z)
    out = np.empty((*q.shape[:-1], 3, 3))
    out[..., 0, 0] = 1 - s * (y * y + z * z)
    out[..., 0, 1] = s * (x * y - w * z)
    out[..., 0, 2] = s * (x * z + w * y)
    out[..., 1, 0] = s * (x * y + w * z)
    out[..., 1, 1] = 1 - s * (x * x + z * z)
    out[..., 1, 2] = s * (y * z - w * x)
    out[..., 2, 0] = s * (x * z - w * y)
    out[..., 2, 1] = s * (y * z + w * x)
    out[..., 2, 2] = 1 - s * (x * x + y * y)
    return out


def quaternion_from_matrix(r: np.ndarray) -> np.ndarray:
    """Return the (..., 4) quaternions with w >= 0 of the (..., 3, 3) rotations."""
    r = np.asarray(r, float)
    m = [r[..., i, j] for i in range(3) for j in range(3)]
    # Four candidates, each exact where its component is the largest.
    squares = np.stack(
        [1 + m[0] + m[4] + m[8], 1 + m[0] - m[4] - m[8], 1 - m[0] + m[4] - m[8], 1 - m[0] - m[4] + m[8]], -1
    )
    a, b, c = m[7] - m[5], m[2] - m[6], m[3] - m[1]
    d, e, f = m[1] + m[3], m[2] + m[6], m[5] + m[7]
    rows = np.stack(
        [
            np.stack([squares[..., 0], a, b, c], -1),
            np.stack([a, squares[..., 1], d, e], -1),
            np.stack([b, d, squares[..., 2], f], -1),
            np.stack([c, e, f, squares[..., 3]], -1),
        ],
        -2,
    )
    best = np.argmax(squares, -1)
    q = np.take_along_axis(rows, best[..., None, None], -2)[..., 0, :]
    q = q / np.linalg.norm(q, axis=-1, keepdims=True)
    return np.where(q[..., :1] < 0, -q, q)


def matrix_from_axis(axis: np.ndarray, angle: np.ndarray) -> np.ndarray:
    """Return the rotations by `angle` about the unit `axis` (Rodrigues)."""
    k = skew(axis)
    angle = np.asarray(angle, float)[..., None, None]
    return np.eye(3) + np.sin(angle) * k + (1 - np.cos(angle)) * (k @ k)


def matrix_from_vector(v: np.ndarray) -> np.ndarray:
    """Return the rotation of the rotation vector v, (3,)."""
    v = np.asarray(v, float)
    angle = float(np.linalg.norm(v))
    return np.eye(3) + skew(v) if angle < 1e-12 else matrix_from_axis(v / angle, np.array(angle))


def vector_from_matrix(r: np.ndarray) -> np.ndarray:
    """Return the rotation vector, of length at most pi, of the rotation r, (3, 3)."""
    q = quaternion_from_matrix(r)
    n = float(np.linalg.norm(q[1:]))
    return 2.0 * q[1:] if n < 1e-12 else 2.0 * np.arctan2(n, q[0]) / n * q[1:]


def turn_z_to(axis: np.ndarray) -> np.ndarray:
    """Return the smallest rotations (..., 3, 3) that take z to the unit `axis`; about x by pi for -z."""
    a = np.asarray(axis, float)
    x, y, z = np.moveaxis(a, -1, 0)
    side = x * x + y * y
    down = (z < 0) & (side == 0)
    # 1 / (1 + z), which cancels near -z; there 1 + z = side / (1 - z)
    f = np.where(z < 0, (1.0 - z) / np.where(side == 0, 1.0, side), 1.0 / np.where(z < 0, 1.0, 1.0 + z))
    out = np.empty((*a.shape[:-1], 3, 3))
    out[..., 0, 0], out[..., 0, 1], out[..., 0, 2] = 1 - x * x * f, -x * y * f, x
    out[..., 1, 0], out[..., 1, 1], out[..., 1, 2] = -x * y * f, 1 - y * y * f, y
    out[..., 2, 0], out[..., 2, 1], out[..., 2, 2] = -x, -y, z
    out[down] = np.diag([1.0, -1.0, -1.0])
    return out


def compose(r1: np.ndarray, p1: np.ndarray, r2: np.ndarray, p2: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the frames (R, p) = frame 1 followed by frame 2, batched."""
    return r1 @ r2, p1 + np.einsum("...ij,...j->...i", r1, p2)


def invert(r: np.ndarray, p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the inverse frames, batched."""
    rt = np.swapaxes(r, -1, -2)
    return rt, -np.einsum("...ij,...j->...i", rt, p)
