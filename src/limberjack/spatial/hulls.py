"""Convex hulls of points: quickhull, the farthest point first, up to a largest number of vertices.

Barber, Dobkin and Huhdanpaa, "The quickhull algorithm for convex hulls" (1996), with one change: the next point is the
farthest of all from the hull so far, not of one facet. A hull that is stopped early is the inner one that leaves the
least outside among those this greedy order makes, and how far points lie outside is known.
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import numpy as np

__all__ = ["FLAT", "MOST_VERTICES", "TOLERANCE", "Hull", "convex_hull"]

# Vertices of a hull at most, and the part of the largest extent that points may lie outside of it.
MOST_VERTICES, TOLERANCE = 128, 1e-4
# Part of the largest extent below which points are in one plane, and have no hull.
FLAT = 1e-6
_KEPT = 512


class Hull(NamedTuple):
    """A convex hull.

    Attributes:
        vertices: (n, 3).
        faces: (m, 3) triangles, outward.
        outside: how far the farthest point given lies outside of it [m].
    """

    vertices: np.ndarray
    faces: np.ndarray
    outside: float


_known: dict[bytes, Hull | None] = {}


def convex_hull(points: np.ndarray, most: int = MOST_VERTICES, tolerance: float = TOLERANCE) -> Hull | None:
    """Return the convex hull of points (n, 3), or None where they are in one plane.

    Args:
        points: (n, 3), finite.
        most: vertices of the hull at most; the farthest points are taken.
        tolerance: points no farther outside than this part of the largest extent are left outside.
    """
    points = np.ascontiguousarray(points, float)
    key = hashlib.sha256(points.tobytes() + repr((most, tolerance)).encode()).digest()
    if key not in _known:
        while len(_known) >= _KEPT:
            _known.pop(next(iter(_known)))
        _known[key] = _quickhull(np.unique(points, axis=0), most, tolerance)
    return _known[key]


def _quickhull(points: np.ndarray, most: int, tolerance: float) -> Hull | None:
    first = _tetrahedron(points)
    if first is None:
        return None
    size = float(np.ptp(points, axis=0).max())
    # Rounding of a height over a plane; a point that sees a facet by less does not see it.
    least = 1e-12 * size
    faces = np.array([[0, 1, 2], [0, 3, 1], [1, 3, 2], [2, 3, 0]])
    faces = np.array(first)[faces]
    normals, heights = _planes(points, faces)
    above = points @ normals.T - heights
    facet = above.argmax(axis=1)
    height = above[np.arange(len(points)), facet]
    height[list(first)] = 0.0
    count = 4
    while count < most:
        apex = int(height.argmax())
        if height[apex] <= max(tolerance * size, least):
            break
        seen = points[apex] @ normals.T - heights > least
        rim = _horizon(faces[seen])
        if rim is None:
            break
        new = np.c_[rim, np.full(len(rim), apex)]
        new_normals, new_heights = _planes(points, new)
        # Points above a facet that goes are looked at again: above a new facet, or inside.
        number = np.cumsum(~seen) - 1
        lost = seen[facet] & (height > 0.0)
        facet = np.where(seen[facet], 0, number[facet])
        kept = int((~seen).sum())
        faces = np.concatenate([faces[~seen], new])
        normals = np.concatenate([normals[~seen], new_normals])
        heights = np.concatenate([heights[~seen], new_heights])
        again = np.flatnonzero(lost)
        above = points[again] @ new_normals.T - new_heights
        best = above.argmax(axis=1)
        facet[again], height[again] = kept + best, above[np.arange(len(again)), best]
        height[apex] = 0.0
        count += 1
    outside = max(0.0, float((points @ normals.T - heights).max()))
    used, faces = np.unique(faces, return_inverse=True)
    return Hull(points[used], np.ascontiguousarray(faces.reshape(-1, 3)), outside)


def _tetrahedron(points: np.ndarray) -> tuple[int, int, int, int] | None:
    """Return four points far apart, the fourth below the triangle of the others, or None where all are in one plane."""
    if len(points) < 4:
        return None
    size = float(np.ptp(points, axis=0).max())
    axis = int(np.ptp(points, axis=0).argmax())
    a, b = int(points[:, axis].argmin()), int(points[:, axis].argmax())
    along = points[b] - points[a]
    along = along / max(float(np.linalg.norm(along)), 1e-300)
    off = points - points[a]
    off = off - np.outer(off @ along, along)
    far = np.einsum("ij,ij->i", off, off)
    c = int(far.argmax())
    normal = np.cross(points[b] - points[a], points[c] - points[a])
    length = float(np.linalg.norm(normal))
    if far[c] <= (FLAT * size) ** 2 or length == 0.0:
        return None
    over = (points - points[a]) @ (normal / length)
    d = int(np.abs(over).argmax())
    if abs(over[d]) <= FLAT * size:
        return None
    return (a, b, c, d) if over[d] < 0.0 else (a, c, b, d)


def _planes(points: np.ndarray, faces: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the unit normals (m, 3) of faces and the heights (m,) of their planes along them."""
    a, b, c = (points[faces[:, k]] for k in range(3))
    n = np.cross(b - a, c - a)
    n = n / np.maximum(np.linalg.norm(n, axis=1, keepdims=True), 1e-300)
    return n, np.einsum("ij,ij->i", n, (a + b + c) / 3.0)


def _horizon(faces: np.ndarray) -> np.ndarray | None:
    """Return the sides (k, 2) around a patch of faces, in their direction; None where they are not one ring."""
    sides = faces[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2).tolist()
    inside = {(a, b) for a, b in sides}
    rim = [(a, b) for a, b in sides if (b, a) not in inside]
    follow = dict(rim)
    if len(follow) != len(rim) or not rim:
        return None
    at, steps = rim[0][0], 0
    while steps < len(rim):
        at, steps = follow.get(at, -1), steps + 1
        if at == rim[0][0] or at < 0:
            break
    return np.array(rim) if at == rim[0][0] and steps == len(rim) else None
