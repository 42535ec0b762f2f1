"""Triangle meshes as solids: checked, repaired where that is unambiguous, and their polygons and features.

A closed surface has every edge used as often in one direction as in the other. Holes are refused, since inside and
outside are then undefined, but for very small ones, which are filled. Faces with the wrong orientation are flipped.
Repairs come with a warning.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

from limberjack.errors import ModelError, ModelWarning

__all__ = ["Surface", "closed_surface"]

# Sine of the angle between two faces below which they are one flat face; at sharper convex edges contact can begin.
_FLAT, _SHARP = 1e-4, 0.3
_MOST_CORNERS = 24
# Part of the largest extent up to which a hole is a flaw and is filled: a cup's opening is none.
_SMALL_HOLE = 0.05


@dataclass(frozen=True)
class Surface:
    """A closed mesh: welded vertices (n, 3), outward faces (m, 3), and whether it is convex."""

    vertices: np.ndarray
    faces: np.ndarray
    convex: bool


def closed_surface(vertices: np.ndarray, faces: np.ndarray, name: str) -> Surface:
    """Return the mesh as a closed surface with outward faces.

    Args:
        vertices: (n, 3) [m].
        faces: (m, 3) vertices of each triangle.
        name: what errors and warnings call it.

    Raises:
        ModelError: it has open edges, or no volume.
    """
    points, triangles = _welded(np.asarray(vertices, float), np.asarray(faces, np.int64))
    if len(triangles) == 0:
        raise ModelError(f'mesh "{name}" has no face with an area')
    triangles, filled = _filled(points, triangles)
    if filled:
        warnings.warn(f'mesh "{name}": {filled} small holes were filled', ModelWarning, 2)
    triangles, turned = _turned(triangles, name)
    if turned:
        warnings.warn(
            f'mesh "{name}": {turned} of {len(triangles)} faces had the wrong orientation; flipped', ModelWarning, 2
        )
    a, b, c = (points[triangles[:, k]] for k in range(3))
    volume = np.einsum("ij,ij->", a - points[0], np.cross(b - points[0], c - points[0])) / 6.0
    size = np.ptp(points, axis=0).max()
    if abs(volume) < 1e-9 * size**3:
        raise ModelError(f'mesh "{name}" encloses no volume ({volume:.3g} m^3): it cannot collide')
    if volume < 0.0:
        warnings.warn(f'mesh "{name}": all {len(triangles)} faces were oriented inward; flipped', ModelWarning, 2)
        triangles = triangles[:, ::-1]
    used, triangles = np.unique(triangles, return_inverse=True)
    points, triangles = points[used], triangles.reshape(-1, 3)
    return Surface(points, np.ascontiguousarray(triangles), _convex(points, triangles))


def _welded(points: np.ndarray, triangles: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the mesh with coincident vertices merged, and without faces that have no area."""
    size = np.ptp(points, axis=0).max()
    _, first, of = np.unique(np.round(points / (1e-9 * size + 1e-300)), axis=0, return_index=True, return_inverse=True)
    triangles = of.reshape(-1)[triangles]
    points = points[first]
    a, b, c = (triangles[:, k] for k in range(3))
    return points, triangles[(a != b) & (b != c) & (c != a)]


def _edges(triangles: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (edges (e, 2) low vertex first, edge of each side (3 m,), +1 or -1 for the direction of each side)."""
    sides = triangles[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2)
    sign = np.where(sides[:, 0] < sides[:, 1], 1, -1)
    edges, of = np.unique(np.sort(sides, axis=1), axis=0, return_inverse=True)
    return edges, of.reshape(-1), sign


def _filled(points: np.ndarray, triangles: np.ndarray) -> tuple[np.ndarray, int]:
    """Return the faces with small holes filled by fans, and how many; all holes or none."""
    edges, of, sign = _edges(triangles)
    single = np.flatnonzero(np.bincount(of, minlength=len(edges))[of] == 1)
    follow: dict[int, int] = {}
    for k in single.tolist():
        # The new face runs along the open side in the other direction.
        low, high = edges[of[k]].tolist()
        start, end = (high, low) if sign[k] > 0 else (low, high)
        if start in follow:
            return triangles, 0
        follow[start] = end
    fans: list[tuple[int, int, int]] = []
    size, holes = np.ptp(points, axis=0).max(), 0
    while follow:
        at, end = follow.popitem()
        loop = [at]
        while end != at:
            loop.append(end)
            if end not in follow:
                return triangles, 0
            end = follow.pop(end)
        if np.ptp(points[loop], axis=0).max() > _SMALL_HOLE * size:
            return triangles, 0
        fans += [(loop[0], loop[k], loop[k + 1]) for k in range(1, len(loop) - 1)]
        holes += 1
    return (np.concatenate([triangles, np.array(fans, np.int64)]), holes) if fans else (triangles, 0)


def _turned(triangles: np.ndarray, name: str) -> tuple[np.ndarray, int]:
    """Return the faces flipped to agree with their neighbours, and how many had to be."""
    edges, of, sign = _edges(triangles)
    balance = np.bincount(of, sign, len(edges))
    if not balance.any():
        return triangles, 0
    uses = np.bincount(of, minlength=len(edges))
    open_edges = int((uses % 2 == 1).sum())
    if open_edges:
        raise ModelError(
            f'mesh "{name}" is not closed: {open_edges} of {len(edges)} edges are open; close it, or give its shape '
            "collide=False"
        )
    if (uses != 2).any():
        raise ModelError(
            f'mesh "{name}": faces have different orientations and {int((uses > 2).sum())} edges more than two faces: '
            "its inside is undefined"
        )
    flip = _agreement(len(triangles), of, sign)
    triangles = np.where(flip[:, None], triangles[:, ::-1], triangles)
    _, of, sign = _edges(triangles)
    if np.bincount(of, sign).any():
        raise ModelError(f'mesh "{name}" has one side only, like a Moebius strip: its inside is undefined')
    return triangles, int(min(flip.sum(), (~flip).sum()))


def _agreement(count: int, of: np.ndarray, sign: np.ndarray) -> np.ndarray:
    """Return which faces must be flipped so that neighbours agree; the first face of each part stays."""
    order = np.argsort(of, kind="stable")
    one, two = order[0::2], order[1::2]
    face_a, face_b, same = one // 3, two // 3, sign[one] == sign[two]
    neighbours: list[list[tuple[int, bool]]] = [[] for _ in range(count)]
    for a, b, wrong in zip(face_a.tolist(), face_b.tolist(), same.tolist(), strict=True):
        neighbours[a].append((b, wrong))
        neighbours[b].append((a, wrong))
    flip, seen = np.zeros(count, bool), np.zeros(count, bool)
    for start in range(count):
        if seen[start]:
            continue
        seen[start], todo = True, [start]
        while todo:
            face = todo.pop()
            for other, wrong in neighbours[face]:
                if not seen[other]:
                    seen[other], flip[other] = True, flip[face] ^ wrong
                    todo.append(other)
    return flip


def normals_of(points: np.ndarray, triangles: np.ndarray) -> np.ndarray:
    """Return the (m, 3) unit normals of the faces."""
    a, b, c = (points[triangles[:, k]] for k in range(3))
    n = np.cross(b - a, c - a)
    return n / np.maximum(np.linalg.norm(n, axis=1, keepdims=True), 1e-300)


def edge_angles(points: np.ndarray, triangles: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the edges (e, 2), their two faces (e, 2) and the sine of the angle between these, negative where hollow.

    Edges with more than two faces count as sharp.
    """
    edges, of, _ = _edges(triangles)
    order = np.argsort(of, kind="stable")
    start = np.searchsorted(of[order], np.arange(len(edges)))
    face = np.stack([order[start], order[start + 1]], 1) // 3
    n = normals_of(points, triangles)
    across = np.linalg.norm(np.cross(n[face[:, 0]], n[face[:, 1]]), axis=1)
    # A sharp fold has a small sine too: behind a right angle it counts as a right angle.
    across = np.where(np.einsum("ij,ij->i", n[face[:, 0]], n[face[:, 1]]) < 0.0, 1.0, across)
    tip = triangles[face[:, 1]].sum(axis=1) - edges.sum(axis=1)
    height = np.einsum("ij,ij->i", n[face[:, 0]], points[tip] - points[edges[:, 0]])
    angle = np.where(height <= 0.0, across, -across)
    angle[np.bincount(of, minlength=len(edges)) > 2] = 1.0
    return edges, face, angle


def _convex(points: np.ndarray, triangles: np.ndarray) -> bool:
    """Return whether a closed surface is convex: one part without handles, no hollow edge."""
    edges, face, angle = edge_angles(points, triangles)
    if len(points) - len(edges) + len(triangles) != 2 or (angle < -_FLAT).any():
        return False
    # Counting alone would take a torus beside a sphere for a sphere.
    label = np.arange(len(triangles))
    for _ in range(len(triangles)):
        least = np.minimum(label[face[:, 0]], label[face[:, 1]])
        before = label.copy()
        np.minimum.at(label, face[:, 0], least)
        np.minimum.at(label, face[:, 1], least)
        label = label[label]
        if (label == before).all():
            break
    return bool((label == 0).all())


def polygons_of(surface: Surface) -> tuple[list[np.ndarray], np.ndarray]:
    """Return the flat faces of a convex surface: vertices around each, and their normals (p, 3)."""
    points, triangles = surface.vertices, surface.faces
    n, area = normals_of(points, triangles), _areas(points, triangles)
    edges, face, angle = edge_angles(points, triangles)
    parent = np.arange(len(triangles))

    def root(k: int) -> int:
        while parent[k] != k:
            parent[k] = parent[parent[k]]
            k = int(parent[k])
        return k

    for (a, b), flat in zip(face.tolist(), (np.abs(angle) < _FLAT).tolist(), strict=True):
        if flat:
            parent[root(a)] = root(b)
    groups: dict[int, list[int]] = {}
    for k in range(len(triangles)):
        groups.setdefault(root(k), []).append(k)
    polygons, normals = [], []
    for members in groups.values():
        normal = (area[members, None] * n[members]).sum(axis=0)
        polygons.append(_outline(triangles[members]))
        normals.append(normal / np.linalg.norm(normal))
    return polygons, np.array(normals)


def _areas(points: np.ndarray, triangles: np.ndarray) -> np.ndarray:
    a, b, c = (points[triangles[:, k]] for k in range(3))
    return np.linalg.norm(np.cross(b - a, c - a), axis=1)


def _outline(triangles: np.ndarray) -> np.ndarray:
    """Return the vertices around a flat patch of triangles, at most as many as a feature holds."""
    sides = [tuple(side) for side in triangles[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2).tolist()]
    inside = set(sides)
    follow = {a: b for a, b in sides if (b, a) not in inside}
    at = min(follow)
    out = []
    while at in follow:
        out.append(at)
        at = follow.pop(at)
    if len(out) > _MOST_CORNERS:
        out = [out[k * len(out) // _MOST_CORNERS] for k in range(_MOST_CORNERS)]
    return np.array(out, np.int64)


def features_of(surface: Surface, short: float = 0.0) -> np.ndarray:
    """Return where contact can begin: rows of a midpoint and a half edge (n, 6); a vertex has a half edge of zero.

    At concave and flat edges, and vertices without any other, contact never begins.

    Args:
        surface: the mesh.
        short: length up to which edges are left out, since their ends suffice [m].
    """
    points = surface.vertices
    edges, _, angle = edge_angles(points, surface.faces)
    corners = np.unique(edges[angle > _FLAT])
    long = np.linalg.norm(points[edges[:, 1]] - points[edges[:, 0]], axis=1) > short
    sharp = edges[(angle > _SHARP) & long]
    half = 0.5 * (points[sharp[:, 1]] - points[sharp[:, 0]])
    rows = np.zeros((len(corners) + len(sharp), 6))
    rows[: len(corners), :3] = points[corners]
    rows[len(corners) :, :3], rows[len(corners) :, 3:] = points[sharp[:, 0]] + half, half
    return rows
