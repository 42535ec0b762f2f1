"""Shapes: how they are added to a builder, and the mass they give a body.

`size` by kind: sphere (radius,), box (x, y, z edges), capsule and cylinder (radius, length along z without caps),
plane (), mesh (scale,).
"""

from __future__ import annotations

import hashlib
import math
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from limberjack._registry import lookup
from limberjack.errors import ModelError
from limberjack.model import check
from limberjack.model.spec import WORLD, Shape, Spec
from limberjack.spatial.frames import matrix_from_quaternion, skew

__all__ = ["DENSITY", "ShapeBuilder", "body_from_shapes", "mesh_mass", "shape_mass"]

DENSITY = 1000.0


class ShapeBuilder:
    """The shape half of `Builder`.

    Every `add_shape_*` takes the body ("world" = static) and the common keywords: position, rotation (in the body
    frame), friction = 0.5, restitution = 0, density = None (1000 kg/m^3 where the body's mass comes from its shapes),
    color = (r, g, b, a), collide = True, group = 0 (shapes of one nonzero group do not collide), name. All return the
    shape's name.
    """

    _spec: Spec
    _shapes: set[str]
    _meshes: dict[bytes, tuple[np.ndarray, np.ndarray]]

    if TYPE_CHECKING:

        def _body(self, name: str) -> str: ...

    def add_shape_sphere(self, body: str, radius: float, **options: Any) -> str:
        """Add a sphere of `radius` [m]."""
        return self._add_shape("sphere", body, (radius,), **options)

    def add_shape_box(self, body: str, size: Any, **options: Any) -> str:
        """Add a box with full edge lengths `size` [m]."""
        return self._add_shape("box", body, check.vector(size, 3, f'size of a box on body "{body}"'), **options)

    def add_shape_capsule(self, body: str, radius: float, length: float, **options: Any) -> str:
        """Add a capsule along z: `length` without the caps [m]."""
        return self._add_shape("capsule", body, (radius, length), **options)

    def add_shape_cylinder(self, body: str, radius: float, length: float, **options: Any) -> str:
        """Add a cylinder along z [m]."""
        return self._add_shape("cylinder", body, (radius, length), **options)

    def add_shape_plane(self, body: str = WORLD, **options: Any) -> str:
        """Add an endless plane, z up; all below is solid."""
        return self._add_shape("plane", body, (), **options)

    def add_shape_mesh(
        self,
        body: str,
        path: Any = None,
        faces: Any = None,
        *,
        vertices: Any = None,
        scale: float = 1.0,
        **options: Any,
    ) -> str:
        """Add a closed triangle mesh, from a file (.obj, .stl) or from vertices (n, 3) and faces (m, 3).

        Vertices may take the place of the path.
        """
        if path is not None and vertices is None and not isinstance(path, (str, PathLike)):
            path, vertices = None, path
        if (path is None) == (vertices is None) or (path is not None and faces is not None):
            raise ModelError(f'mesh on body "{body}": give a path, or vertices and faces')
        if path is not None:
            vertices, faces = lookup("mesh reader", Path(path))(Path(path))
        scale = check.number(scale, f'scale of a mesh on body "{body}"', positive=True)
        vertices, faces = _shared_mesh(vertices, faces, scale, f'mesh on body "{body}"', self._meshes)
        return self._add_shape("mesh", body, (1.0,), vertices=vertices, faces=faces, **options)

    def _add_shape(
        self, kind: str, body: str, size: tuple[float, ...], *, position: Any = (0.0, 0.0, 0.0),
        rotation: Any = (1.0, 0.0, 0.0, 0.0), friction: float = 0.5, restitution: float = 0.0,
        density: float | None = None, color: Any = None, collide: bool = True, group: int = 0,
        name: str | None = None, vertices: Any = None, faces: Any = None,
    ) -> str:  # fmt: skip
        self._body(body)
        name = name or f"{body}:{kind}{len(self._spec.shapes)}"
        if name in self._shapes:
            raise ModelError(f'shape "{name}" exists already')
        what = f'of shape "{name}"'
        low = 0.0 if kind in ("capsule",) else None
        checked = tuple(
            check.number(x, f"size {what}", positive=not (low == 0.0 and i == 1), low=low) for i, x in enumerate(size)
        )
        bounce = check.number(restitution, f"restitution {what}", low=0.0)
        if bounce > 1.0:
            raise ModelError(f"restitution {what} must be <= 1, got {restitution!r}")
        if not isinstance(group, (int, np.integer)):
            raise ModelError(f"group {what} must be a whole number, got {group!r}")
        self._spec.shapes.append(
            Shape(
                check.name(name, "a shape's name"), body, kind, checked,
                check.vector(position, 3, f"position {what}"), check.frame_rotation(rotation, f"rotation {what}"),
                check.number(friction, f"friction {what}", low=0.0), bounce,
                None if density is None else check.number(density, f"density {what}", low=0.0),
                check.color(color, f"color {what}"), bool(collide), int(group), vertices, faces,
            )
        )  # fmt: skip
        self._shapes.add(name)
        return name


def _shared_mesh(
    vertices: Any, faces: Any, scale: float, what: str, known: dict[bytes, tuple[np.ndarray, np.ndarray]]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the scaled mesh as read-only arrays, those of `known` where the same has been given before.

    Refuses wrong shapes, NaN and faces out of range.
    """
    try:
        points, triangles = np.ascontiguousarray(vertices, float), np.ascontiguousarray(faces, np.int64)
    except (TypeError, ValueError):
        raise ModelError(f"{what}: vertices are (n, 3) numbers and faces (m, 3) indices") from None
    if points.ndim != 2 or points.shape[1:] != (3,) or triangles.ndim != 2 or triangles.shape[1:] != (3,):
        raise ModelError(
            f"{what}: vertices (n, 3) and faces (m, 3) are needed, got {points.shape} and {triangles.shape}"
        )
    digest = hashlib.sha256(f"{scale!r} {len(points)}".encode())
    for array in (points, triangles):
        digest.update(array.data if array.size else b"")
    key = digest.digest()
    if key in known:
        return known[key]
    if not np.isfinite(points).all():
        raise ModelError(f"{what}: vertices must be finite")
    if len(triangles) == 0 or triangles.min() < 0 or triangles.max() >= len(points):
        raise ModelError(f"{what}: faces must name vertices 0..{len(points) - 1}")
    points, triangles = points * scale, triangles.copy()
    points.setflags(write=False)
    triangles.setflags(write=False)
    known[key] = points, triangles
    return points, triangles


def mesh_mass(vertices: np.ndarray, faces: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """Return (volume, centroid, inertia about the centroid per unit density) of a closed mesh, by signed tetrahedra."""
    a, b, c = (vertices[faces[:, k]] for k in range(3))
    six_volumes = np.einsum("ij,ij->i", a, np.cross(b, c))
    volume = float(six_volumes.sum() / 6.0)
    if abs(volume) < 1e-300:
        return 0.0, vertices.mean(axis=0), np.zeros((3, 3))
    total = a + b + c
    first = (six_volumes[:, None] * total).sum(axis=0) / 24.0
    second = np.zeros((3, 3))
    for x in (a, b, c, total):
        second += np.einsum("i,ij,ik->jk", six_volumes, x, x)
    second /= 120.0
    centroid = first / volume
    second = (second - volume * np.outer(centroid, centroid)) * math.copysign(1.0, volume)
    return abs(volume), centroid, np.trace(second) * np.eye(3) - second


def shape_mass(shape: Shape) -> tuple[float, np.ndarray, np.ndarray]:
    """Return (volume, centroid, inertia about it per unit density) in the shape's own frame."""
    size, zero = shape.size, np.zeros(3)
    if shape.kind == "sphere":
        volume = 4.0 / 3.0 * math.pi * size[0] ** 3
        return volume, zero, np.eye(3) * (0.4 * volume * size[0] ** 2)
    if shape.kind == "box":
        x, y, z = size
        return x * y * z, zero, np.diag([y * y + z * z, x * x + z * z, x * x + y * y]) * (x * y * z / 12.0)
    if shape.kind == "cylinder":
        r, h = size
        volume = math.pi * r * r * h
        side = volume * (3 * r * r + h * h) / 12.0
        return volume, zero, np.diag([side, side, 0.5 * volume * r * r])
    if shape.kind == "capsule":
        r, h = size
        tube, ball = math.pi * r * r * h, 4.0 / 3.0 * math.pi * r**3
        side = tube * (3 * r * r + h * h) / 12.0 + ball * (0.4 * r * r + 0.25 * h * h + 0.375 * h * r)
        return tube + ball, zero, np.diag([side, side, 0.5 * tube * r * r + 0.4 * ball * r * r])
    if shape.kind == "mesh":
        return mesh_mass(np.asarray(shape.vertices), np.asarray(shape.faces))
    return 0.0, zero, np.zeros((3, 3))


def body_from_shapes(shapes: list[Shape], mass: float | None) -> tuple[float, np.ndarray, np.ndarray]:
    """Return (mass, com, inertia about it) of a body made of its shapes, scaled to `mass` where one is given."""
    total, first, about_origin = 0.0, np.zeros(3), np.zeros((3, 3))
    for shape in shapes:
        volume, centroid, inertia = shape_mass(shape)
        density = DENSITY if shape.density is None else shape.density
        r = matrix_from_quaternion(np.array(shape.rotation))
        at = np.array(shape.position) + r @ centroid
        total += density * volume
        first += density * volume * at
        about_origin += density * (r @ inertia @ r.T + volume * skew(at) @ skew(at).T)
    if total == 0.0:
        return mass or 0.0, np.zeros(3), np.zeros((3, 3))
    com = first / total
    inertia = about_origin - total * skew(com) @ skew(com).T
    scale = 1.0 if mass is None else mass / total
    return total * scale, com, inertia * scale
