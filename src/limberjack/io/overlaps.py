"""Which shapes of a robot overlap at its start: URDF names no pairs of links that may.

A shape is the convex hull of points, with a radius: a capsule two points, a box its corners, a cylinder two circles of
corners. The distance of two is that of their difference from the origin (Gilbert, Johnson and Keerthi, 1988), in NumPy:
loading compiles nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from limberjack.spatial.frames import matrix_from_quaternion
from limberjack.spatial.hulls import convex_hull

__all__ = ["Core", "core_of", "overlap"]

_ROUND = 16
_ITERATIONS = 40
_SUBSETS = [list(subset) for size in (1, 2, 3, 4) for subset in combinations(range(4), size)]


class Core(NamedTuple):
    """A convex shape: the hull of points (n, 3), and everything within the radius of it."""

    points: np.ndarray
    radius: float


def core_of(kind: str, options: dict[str, Any], rotation: np.ndarray, position: np.ndarray) -> Core | None:
    """Return a shape in the frame that `rotation` and `position` lead to; None for one without an extent.

    Args:
        kind: of the shape.
        options: arguments of `Builder.add_shape_KIND`.
        rotation, position: of the shape's body.
    """
    turn = rotation @ matrix_from_quaternion(np.array(options["rotation"]))
    place = rotation @ np.array(options["position"]) + position
    radius = 0.0
    if kind == "mesh":
        hull = convex_hull(np.asarray(options["vertices"])[np.unique(options["faces"])])
        if hull is None:
            return None
        points = hull.vertices
    elif kind == "box":
        signs = np.stack(np.meshgrid(*[(-0.5, 0.5)] * 3), -1).reshape(-1, 3)
        points = signs * np.array(options["size"])
    elif kind == "cylinder":
        angle = np.arange(_ROUND) * (2.0 * np.pi / _ROUND)
        circle = np.c_[np.cos(angle), np.sin(angle)] * options["radius"]
        ends = (np.c_[circle, np.full(_ROUND, s * options["length"])] for s in (-0.5, 0.5))
        points = np.concatenate(list(ends))
    else:
        radius = float(options["radius"])
        half = 0.5 * float(options.get("length", 0.0))
        points = np.array([[0.0, 0.0, -half], [0.0, 0.0, half]])
    return Core(points @ turn.T + place, radius)


def overlap(a: Core, b: Core) -> bool:
    """Return whether two shapes overlap."""
    reach = a.radius + b.radius
    low, high = a.points.min(axis=0) - reach, a.points.max(axis=0) + reach
    if (b.points.min(axis=0) > high).any() or (b.points.max(axis=0) < low).any():
        return False
    simplex = [a.points[0] - b.points[0]]
    near = simplex[0]
    for _ in range(_ITERATIONS):
        length = float(np.linalg.norm(near))
        if length <= max(reach, 1e-12):
            return True
        corner = a.points[int((a.points @ near).argmin())] - b.points[int((b.points @ near).argmax())]
        ahead = float(corner @ near) / length
        if ahead > reach:
            return False
        if length - ahead <= 1e-9 * length:
            return length < reach
        near, simplex = _nearest([*simplex, corner])
    return float(np.linalg.norm(near)) < reach


def _nearest(corners: Sequence[np.ndarray]) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return the point of a simplex nearest to the origin, and the corners it is made of."""
    best: tuple[float, np.ndarray, list[np.ndarray]] | None = None
    for subset in _SUBSETS:
        if subset[-1] >= len(corners):
            continue
        own = [corners[k] for k in subset]
        base = own[0]
        weights = np.zeros(0)
        if len(own) > 1:
            edges = np.array(own[1:]) - base
            weights = np.linalg.lstsq(edges @ edges.T, -edges @ base, rcond=None)[0]
            if (weights < 0.0).any() or weights.sum() > 1.0:
                continue
            point = base + weights @ edges
        else:
            point = base
        size = float(point @ point)
        if best is None or size < best[0] - 1e-18:
            best = size, point, own
    assert best is not None
    return best[1], best[2]
