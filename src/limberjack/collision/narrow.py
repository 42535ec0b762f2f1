"""What the routines of the narrow phase share: work arrays, contact points, vectors in the axes of a shape.

A routine of a pair of shapes (i, j) writes contact points, rows of the point midway between the surfaces (3), the unit
normal out of j into i (3) and the depth, with a key for each; it returns their number. The rotation of a shape stands
in the first nine columns of its row in `frame`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from limberjack._jit import inner

__all__ = ["DEPTH", "MOST", "NORMAL", "Scratch", "new_scratch", "put_point", "to_shape", "to_world"]

# Columns of a contact point.
NORMAL, DEPTH = 3, 6
# Contacts that a flat contact of two convex shapes is reduced to.
MOST = 4
_POINTS, _CORNERS, _FACES, _FOUND, _NEAR = 64, 160, 400, 512, 512


class Scratch(NamedTuple):
    """Work arrays of one pair."""

    points: np.ndarray  # (64, 7)
    keys: np.ndarray  # (64,)
    near: np.ndarray  # (512, 4) candidates of a manifold: two coordinates in the plane, gap, taken or not
    near_keys: np.ndarray  # (512,)
    polygons: np.ndarray  # (3, 64, 3) features of both shapes, and room for clipping
    tags: np.ndarray  # (3, 64)
    corners: np.ndarray  # (160, 9) of a simplex or polytope: a - b, a, b
    faces: np.ndarray  # (400, 3) of the polytope
    planes: np.ndarray  # (400, 4) of its faces: normal, distance; negative distance = removed
    rim: np.ndarray  # (400, 2) edges around a hole in the polytope
    found: np.ndarray  # (512, 8) candidates of meshes: point, normal, gap, grouped or not
    found_keys: np.ndarray  # (512,)
    result: np.ndarray  # (10,) normal, distance, closest points of both shapes


def new_scratch() -> Scratch:
    """Return the work arrays of one thread."""
    return Scratch(
        np.zeros((_POINTS, 7)), np.zeros(_POINTS, np.int64), np.zeros((_NEAR, 4)), np.zeros(_NEAR, np.int64),
        np.zeros((3, _POINTS, 3)), np.zeros((3, _POINTS), np.int64), np.zeros((_CORNERS, 9)),
        np.zeros((_FACES, 3), np.int64), np.zeros((_FACES, 4)), np.zeros((_FACES, 2), np.int64),
        np.zeros((_FOUND, 8)), np.zeros(_FOUND, np.int64), np.zeros(10),
    )  # fmt: skip


@inner
def to_world(k, frame, x, y, z):
    """Return a vector of shape k's axes in the world."""
    return (
        frame[k, 0] * x + frame[k, 1] * y + frame[k, 2] * z,
        frame[k, 3] * x + frame[k, 4] * y + frame[k, 5] * z,
        frame[k, 6] * x + frame[k, 7] * y + frame[k, 8] * z,
    )


@inner
def to_shape(k, frame, x, y, z):
    """Return a vector of the world in the axes of shape k."""
    return (
        frame[k, 0] * x + frame[k, 3] * y + frame[k, 6] * z,
        frame[k, 1] * x + frame[k, 4] * y + frame[k, 7] * z,
        frame[k, 2] * x + frame[k, 5] * y + frame[k, 8] * z,
    )


@inner
def put_point(n, x, y, z, nx, ny, nz, depth, key, points, keys):
    """Write contact point n and return n + 1."""
    points[n, 0], points[n, 1], points[n, 2] = x, y, z
    points[n, 3], points[n, 4], points[n, 5], points[n, 6] = nx, ny, nz, depth
    keys[n] = key
    return n + 1
