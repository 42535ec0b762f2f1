"""Convex hulls: against SciPy's, and what their bounds promise."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial import ConvexHull

from limberjack.spatial.hulls import MOST_VERTICES, TOLERANCE, convex_hull


def volume(hull):
    a, b, c = (hull.vertices[hull.faces[:, k]] for k in range(3))
    return float(np.einsum("ij,ij->", a, np.cross(b, c)) / 6.0)


def heights(hull, points):
    a, b, c = (hull.vertices[hull.faces[:, k]] for k in range(3))
    n = np.cross(b - a, c - a)
    n /= np.linalg.norm(n, axis=1, keepdims=True)
    return points @ n.T - np.einsum("ij,ij->i", n, a)


@pytest.mark.parametrize("count", [5, 30, 400, 5000])
@pytest.mark.parametrize("seed", range(3))
def test_hulls_are_those_of_scipy(count, seed):
    """Without bounds the hull has the volume and the vertices of Qhull's, and every face is outward."""
    points = np.random.default_rng(seed).normal(size=(count, 3)) * [1.0, 3.0, 0.2]
    hull, peer = convex_hull(points, most=10**6, tolerance=0.0), ConvexHull(points)
    assert volume(hull) == pytest.approx(peer.volume, rel=1e-12)
    assert len(hull.vertices) == len(peer.vertices)
    assert heights(hull, points).max() < 1e-12 * 3.0


@pytest.mark.parametrize("points", ["grid", "cylinder", "cube twice"])
def test_points_in_common_planes(points):
    """Points on the faces of their hull, and points given twice, add nothing to it."""
    grid = np.stack(np.meshgrid(*[np.linspace(0.0, 1.0, 6)] * 3), -1).reshape(-1, 3)
    angle = np.linspace(0.0, 2.0 * np.pi, 24, endpoint=False)
    round_ = np.concatenate([np.c_[np.cos(angle), np.sin(angle), 0 * angle + z] for z in (0.0, 1.0)])
    given = {"grid": grid, "cylinder": round_, "cube twice": np.concatenate([grid[[0, -1]], grid, grid])}[points]
    hull = convex_hull(given)
    assert volume(hull) == pytest.approx(ConvexHull(given).volume, rel=1e-12)
    assert len(hull.vertices) == {"grid": 8, "cylinder": 48, "cube twice": 8}[points]


def test_large_hulls_are_bounded():
    """A ball of 20,000 points has the largest number of vertices, lies inside of it, and says how much is outside."""
    points = np.random.default_rng(0).normal(size=(20_000, 3))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    hull = convex_hull(points)
    assert len(hull.vertices) == MOST_VERTICES
    assert np.abs(np.linalg.norm(hull.vertices, axis=1) - 1.0).max() < 1e-12
    assert hull.outside == pytest.approx(heights(hull, points).max(axis=1).max(), rel=1e-9)
    assert hull.outside < 0.05
    small = convex_hull(points[:60])
    assert small.outside <= TOLERANCE * 2.0


def test_flat_points_have_no_hull():
    """Points in one plane, on one line or too few of them have none."""
    square = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0.0]])
    assert convex_hull(square) is None
    assert convex_hull(np.outer(np.arange(9.0), [1, 2, 3])) is None
    assert convex_hull(square[:3]) is None
    assert convex_hull(np.concatenate([square, [[0.5, 0.5, 1e-3]]])) is not None
