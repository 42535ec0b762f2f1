"""Closed triangle meshes of scenes: tori and spheroids from grids of points, and extruded outlines."""

from __future__ import annotations

import numpy as np

__all__ = ["closed_net", "thickened"]


def closed_net(m: int, n: int, *, ring: bool) -> np.ndarray:
    """Return the faces of a grid of m rows of n points: closed to a torus, or by two poles stored after the grid."""
    i, j = np.meshgrid(np.arange(m if ring else m - 1), np.arange(n), indexing="ij")
    a, b = i * n + j, i * n + (j + 1) % n
    c, d = (i + 1) % m * n + j, (i + 1) % m * n + (j + 1) % n
    faces = [np.column_stack([a.ravel(), b.ravel(), d.ravel()]), np.column_stack([a.ravel(), d.ravel(), c.ravel()])]
    if not ring:
        k = np.arange(n)
        low, high = np.full(n, m * n), np.full(n, m * n + 1)
        faces += [np.column_stack([low, (k + 1) % n, k])]
        faces += [np.column_stack([high, (m - 1) * n + k, (m - 1) * n + (k + 1) % n])]
    return np.vstack(faces)


def thickened(outline: np.ndarray, deep: float, bevel: float) -> tuple[np.ndarray, np.ndarray]:
    """Return vertices and faces of a flat outline in the x-y plane, given a thickness along z and slanted sides.

    Args:
        outline: (n, 2) corners, counter-clockwise; holes are reached along a cut and traversed clockwise.
        deep: the thickness [m].
        bevel: by how much the outline is larger in the middle than in front and behind [m].
    """
    outline = np.asarray(outline, float)
    flat, at = np.unique(outline, axis=0, return_inverse=True)
    cap = at.reshape(-1)[_cut_to_ears(outline)]
    sides = cap[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2)
    known = {tuple(side) for side in sides.tolist()}
    rim = np.array([side for side in sides.tolist() if (side[1], side[0]) not in known])
    small, n = flat + bevel * _inward(flat, rim), len(flat)
    layers = [np.column_stack([p, np.full(n, z)]) for p, z in ((small, -0.5 * deep), (flat, 0.0), (small, 0.5 * deep))]
    a, b = rim[:, 0], rim[:, 1]
    walls = [np.column_stack(t) for k in (0, n) for t in ((a + k, b + k, b + k + n), (a + k, b + k + n, a + k + n))]
    points, faces = np.vstack(layers), np.vstack([cap[:, ::-1], cap + 2 * n, *walls])
    # only the rim has a layer in the middle
    used, faces = np.unique(faces, return_inverse=True)
    return points[used], faces.reshape(-1, 3)


def _inward(flat: np.ndarray, rim: np.ndarray) -> np.ndarray:
    """Return the displacement of each corner when all edges move inward by one."""
    along = flat[rim[:, 1]] - flat[rim[:, 0]]
    normal = np.column_stack([-along[:, 1], along[:, 0]]) / np.linalg.norm(along, axis=1, keepdims=True)
    before, after = np.zeros_like(flat), np.zeros_like(flat)
    before[rim[:, 1]], after[rim[:, 0]] = normal, normal
    return (before + after) / np.maximum(1.0 + np.einsum("ij,ij->i", before, after), 0.2)[:, None]


def _cut_to_ears(outline: np.ndarray) -> np.ndarray:
    """Return triangles (m, 3) of a simple outline, by ear clipping."""
    left, out = list(range(len(outline))), []

    def area(p: np.ndarray, q: np.ndarray, r: np.ndarray) -> float:
        return float((q[0] - p[0]) * (r[1] - p[1]) - (q[1] - p[1]) * (r[0] - p[0]))

    def ear(k: int) -> bool:
        three = [outline[left[(k + d) % len(left)]] for d in (-1, 0, 1)]
        if area(*three) <= 0.0:
            return False
        for other in left:
            p = outline[other]
            if any((p == q).all() for q in three):
                continue
            if all(area(three[i], three[(i + 1) % 3], p) >= 0.0 for i in range(3)):
                return False
        return True

    while len(left) > 2:
        k = next((k for k in range(len(left)) if ear(k)), None)
        if k is None:
            break
        out.append((left[k - 1], left[k], left[(k + 1) % len(left)]))
        del left[k]
    return np.array(out, np.int64)
