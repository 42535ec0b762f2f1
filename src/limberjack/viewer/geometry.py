"""Triangles: the meshes of spheres, boxes, capsules, cylinders and closed surfaces, with a normal at every corner."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

__all__ = ["Geometry", "box", "capsule", "cylinder", "flat", "sphere"]


class Geometry(NamedTuple):
    """A triangle mesh: vertices (n, 3) [m], unit normals (n, 3) out of the body, faces (m, 3) counter-clockwise."""

    vertices: np.ndarray
    normals: np.ndarray
    faces: np.ndarray


def sphere(detail: int) -> Geometry:
    """Return the unit sphere with `detail` corners around its waist."""
    return capsule(1.0, 0.0, detail)


def box() -> Geometry:
    """Return the cube of edge 1 around the origin."""
    vertices, normals, faces = [], [], []
    for axis in range(3):
        for side in (-1.0, 1.0):
            normal = np.zeros(3)
            normal[axis] = side
            u, v = np.roll(np.eye(3)[0], axis + 1), np.roll(np.eye(3)[0], axis + 2)
            start = len(vertices)
            for a, b in ((-1, -1), (1, -1), (1, 1), (-1, 1)):
                vertices.append(0.5 * (normal + a * u + b * v))
                normals.append(normal)
            corners = [0, 1, 2, 0, 2, 3] if side > 0 else [0, 2, 1, 0, 3, 2]
            faces += [start + k for k in corners]
    return Geometry(np.array(vertices), np.array(normals), np.array(faces, np.int32).reshape(-1, 3))


def capsule(radius: float, length: float, detail: int) -> Geometry:
    """Return a capsule along z: a tube of `length` with half spheres at its ends."""
    rings = max(2, detail // 4)
    angles = np.linspace(-0.5 * math.pi, 0.5 * math.pi, 2 * rings + 1)
    if length > 0.0:  # the waist twice: once at either end of the tube
        angles = np.insert(angles, rings, 0.0)
    lift = np.where(np.arange(len(angles)) > rings, 0.5, -0.5) if length > 0.0 else np.zeros(len(angles))
    around = np.arange(detail) * (2.0 * math.pi / detail)
    normals = np.empty((len(angles), detail, 3))
    normals[..., 0] = np.outer(np.cos(angles), np.cos(around))
    normals[..., 1] = np.outer(np.cos(angles), np.sin(around))
    normals[..., 2] = np.sin(angles)[:, None]
    vertices = radius * normals
    vertices[..., 2] += (lift * length)[:, None]
    return _wrapped(vertices, normals)


def _wrapped(vertices: np.ndarray, normals: np.ndarray) -> Geometry:
    """Return the surface over a grid of rings, whose first and last are points."""
    rings, detail = vertices.shape[:2]
    faces = []
    for i in range(rings - 1):
        for j in range(detail):
            k = (j + 1) % detail
            a, b, c, d = i * detail + j, i * detail + k, (i + 1) * detail + k, (i + 1) * detail + j
            if i > 0:
                faces.append((a, b, c))
            if i < rings - 2:
                faces.append((a, c, d))
    return Geometry(vertices.reshape(-1, 3), normals.reshape(-1, 3), np.array(faces, np.int32))


def cylinder(detail: int) -> Geometry:
    """Return the cylinder of radius 1 and length 1 along z."""
    around = np.arange(detail) * (2.0 * math.pi / detail)
    rim = np.stack([np.cos(around), np.sin(around), np.zeros(detail)], axis=1)
    up = np.array([0.0, 0.0, 1.0])
    vertices = np.concatenate([rim - 0.5 * up, rim + 0.5 * up] * 2)
    normals = np.concatenate([rim, rim, np.tile(-up, (detail, 1)), np.tile(up, (detail, 1))])
    faces = []
    for j in range(detail):
        k = (j + 1) % detail
        faces += [(j, k, detail + k), (j, detail + k, detail + j)]
    for j in range(1, detail - 1):
        faces += [(2 * detail, 2 * detail + j + 1, 2 * detail + j), (3 * detail, 3 * detail + j, 3 * detail + j + 1)]
    return Geometry(vertices, normals, np.array(faces, np.int32))


def flat(vertices: np.ndarray, faces: np.ndarray) -> Geometry:
    """Return a closed surface with edges: each triangle has corners and a normal of its own."""
    corners = np.asarray(vertices, float)[np.asarray(faces)]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    lengths = np.linalg.norm(normals, axis=1)
    real = lengths > 0.0
    corners, normals = corners[real], normals[real] / lengths[real, None]
    count = 3 * len(corners)
    return Geometry(
        corners.reshape(-1, 3), np.repeat(normals, 3, axis=0), np.arange(count, dtype=np.int32).reshape(-1, 3)
    )
