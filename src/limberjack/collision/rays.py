"""Where rays enter shapes, in NumPy: for picking and sensors, where nothing is compiled."""

from __future__ import annotations

import numpy as np

from limberjack.model.spec import Shape
from limberjack.spatial.frames import matrix_from_quaternion

__all__ = ["ray_hit", "sphere_hit"]


def ray_hit(shape: Shape, origin: np.ndarray, along: np.ndarray) -> float:
    """Return how far along a ray a shape is hit, 0 from within, infinite where it is not.

    Args:
        shape: the shape.
        origin: (3,) start of the ray in the body frame [m].
        along: (3,) its unit direction.
    """
    own = matrix_from_quaternion(np.array(shape.rotation))
    start, ray = own.T @ (origin - np.array(shape.position)), own.T @ along
    if shape.kind == "plane":
        return _slab_hits(start[2:], ray[2:], np.array([[-np.inf, 0.0]]))
    if shape.kind == "box":
        half = 0.5 * np.array(shape.size)
        return _slab_hits(start, ray, np.column_stack([-half, half]))
    if shape.kind == "sphere":
        return sphere_hit(start, ray, float(shape.size[0]))
    if shape.kind in ("capsule", "cylinder"):
        radius, half = float(shape.size[0]), 0.5 * float(shape.size[1])
        hit = _cylinder_hit(start, ray, radius, half)
        if shape.kind == "capsule":
            ends = [sphere_hit(start - (0.0, 0.0, z), ray, radius) for z in (-half, half)]
            hit = min(hit, *ends)
        return hit
    return _mesh_hit(np.asarray(shape.vertices, float), np.asarray(shape.faces, np.int64), start, ray)


def _slab_hits(start: np.ndarray, ray: np.ndarray, slabs: np.ndarray) -> float:
    """Return where a ray enters the intersection of slabs along the axes."""
    near, far = 0.0, np.inf
    for x, v, (low, high) in zip(start, ray, slabs, strict=True):
        if abs(v) < 1e-15:
            if not low <= x <= high:
                return np.inf
            continue
        ends = sorted(((low - x) / v, (high - x) / v))
        near, far = max(near, ends[0]), min(far, ends[1])
    return near if near <= far else np.inf


def sphere_hit(start: np.ndarray, ray: np.ndarray, radius: float) -> float:
    """Return where a ray enters a sphere around the origin."""
    along = float(start @ ray)
    inside = along * along - float(start @ start) + radius * radius
    if inside < 0.0 or -along + np.sqrt(inside) < 0.0:
        return np.inf
    return max(0.0, -along - float(np.sqrt(inside)))


def _cylinder_hit(start: np.ndarray, ray: np.ndarray, radius: float, half: float) -> float:
    """Return where a ray enters a cylinder along z."""
    a, b = float(ray[:2] @ ray[:2]), float(start[:2] @ ray[:2])
    c = float(start[:2] @ start[:2]) - radius * radius
    near, far = 0.0, np.inf
    if a < 1e-15:
        if c > 0.0:
            return np.inf
    else:
        inside = b * b - a * c
        if inside < 0.0:
            return np.inf
        near, far = max(0.0, (-b - np.sqrt(inside)) / a), (-b + np.sqrt(inside)) / a
    flat = _slab_hits(start[2:], ray[2:], np.array([[-half, half]]))
    if not np.isfinite(flat):
        return np.inf
    leaves = np.inf if abs(ray[2]) < 1e-15 else max((-half - start[2]) / ray[2], (half - start[2]) / ray[2])
    near, far = max(near, flat), min(far, leaves)
    return near if near <= far else np.inf


def _mesh_hit(vertices: np.ndarray, faces: np.ndarray, start: np.ndarray, ray: np.ndarray) -> float:
    """Return where a ray first meets a triangle of a mesh."""
    if not len(faces):
        return np.inf
    a = vertices[faces[:, 0]]
    u, v = vertices[faces[:, 1]] - a, vertices[faces[:, 2]] - a
    normal, offset = np.cross(u, v), start - a
    facing = -(normal @ ray)
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.einsum("ni,ni->n", offset, normal) / facing
        turned = np.cross(offset, ray)
        x, y = np.einsum("ni,ni->n", v, turned) / facing, -np.einsum("ni,ni->n", u, turned) / facing
    hit = (np.abs(facing) > 1e-15) & (t >= 0.0) & (x >= 0.0) & (y >= 0.0) & (x + y <= 1.0)
    return float(t[hit].min(initial=np.inf))
