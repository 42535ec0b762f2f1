"""Signed distances from triangle meshes, the slow way: every triangle, and the solid angles they fill."""

from __future__ import annotations

import numpy as np


def mesh_distance(points, vertices, faces):
    """Return the signed distances (n,) of points from a closed mesh, negative inside."""
    best, angle = np.full(len(points), np.inf), np.zeros(len(points))
    for a, b, c in np.asarray(vertices)[np.asarray(faces)]:
        best = np.minimum(best, _triangle_distance(points, a, b, c))
        angle += _solid_angle(points, a, b, c)
    return np.where(angle > 2 * np.pi, -best, best)


def _triangle_distance(points, a, b, c):
    normal = np.cross(b - a, c - a)
    normal /= np.linalg.norm(normal)
    over = (points - a) @ normal
    foot = points - over[:, None] * normal
    inside = np.ones(len(points), bool)
    edges = np.full(len(points), np.inf)
    for p, q in ((a, b), (b, c), (c, a)):
        inside &= np.cross(q - p, foot - p) @ normal >= 0
        t = np.clip((points - p) @ (q - p) / ((q - p) @ (q - p)), 0, 1)
        edges = np.minimum(edges, np.linalg.norm(points - p - t[:, None] * (q - p), axis=1))
    return np.where(inside, np.abs(over), edges)


def _solid_angle(points, a, b, c):
    """Return the solid angle of a triangle seen from points, positive from behind (van Oosterom and Strackee)."""
    u, v, w = a - points, b - points, c - points
    x, y, z = (np.linalg.norm(side, axis=1) for side in (u, v, w))
    triple = np.einsum("ij,ij->i", u, np.cross(v, w))
    rest = x * y * z + (u * v).sum(1) * z + (v * w).sum(1) * x + (w * u).sum(1) * y
    return 2 * np.arctan2(triple, rest)


def prism(outline, height):
    """Return (vertices, faces) of an upright prism over a star-shaped outline (n, 2), seen from its first corner."""
    n = len(outline)
    vertices = np.array([(x, y, z) for z in (-height / 2, height / 2) for x, y in outline])
    sides = [face for k in range(n) for face in ((k, (k + 1) % n, n + k), ((k + 1) % n, n + (k + 1) % n, n + k))]
    caps = [face for k in range(1, n - 1) for face in ((0, k + 1, k), (n, n + k, n + k + 1))]
    return vertices, np.array(sides + caps)


def box(x, y, z):
    """Return (vertices, faces) of a box with these edges."""
    return prism([(-x / 2, -y / 2), (x / 2, -y / 2), (x / 2, y / 2), (-x / 2, y / 2)], z)


def angle_iron():
    """Return (vertices, faces) of an L-shaped bar of legs 1, thickness 0.3 and length 1."""
    return prism([(0.3, 0.3), (0.3, 1), (0, 1), (0, 0), (1, 0), (1, 0.3)], 1.0)


def torus(major=1.0, minor=0.25, around=24, across=12):
    """Return (vertices, faces) of a torus about z."""
    vertices, faces = [], []
    for i in range(around):
        for j in range(across):
            s, t = 2 * np.pi * i / around, 2 * np.pi * j / across
            r = major + minor * np.cos(t)
            vertices.append((r * np.cos(s), r * np.sin(s), minor * np.sin(t)))
            a, b = i * across + j, i * across + (j + 1) % across
            c, d = (i + 1) % around * across + j, (i + 1) % around * across + (j + 1) % across
            faces += [(a, c, b), (b, c, d)]
    return np.array(vertices), np.array(faces)
