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
from numpy.typing import ArrayLike

from limberjack._registry import lookup
from limberjack.errors import ModelError
from limberjack.model import check
from limberjack.model.spec import IDENTITY, ORIGIN, WORLD, Shape, Spec
from limberjack.spatial.frames import matrix_from_quaternion, skew
from limberjack.spatial.hulls import convex_hull

__all__ = ["DENSITY", "ShapeBuilder", "body_from_shapes", "mesh_mass", "shape_mass"]

DENSITY = 1000.0
_LENGTHS = ("torsional_friction", "rolling_friction", "margin")


class ShapeBuilder:
    """The part of `Builder` that adds shapes."""

    _spec: Spec
    _shapes: set[str]
    _meshes: dict[bytes, tuple[np.ndarray, np.ndarray]]

    if TYPE_CHECKING:

        def _body(self, name: str) -> str: ...

    def add_shape_sphere(
        self, body: str, radius: float, *,
        position: ArrayLike = ORIGIN, rotation: ArrayLike = IDENTITY, friction: float = 0.5, restitution: float = 0.0,
        density: float | None = None, color: ArrayLike | None = None, collide: bool = True, group: int = 0,
        name: str | None = None, friction_rule: str = "mean", torsional_friction: float = 0.0,
        rolling_friction: float = 0.0, margin: float = 0.0,
    ) -> str:  # fmt: skip
        """Add a sphere and return its name.

        Args:
            body: "world" is static.
            radius: [m].
            position, rotation: shape frame in the body: origin [m], and quaternion (w, x, y, z) or 3x3 rotation.
            friction: coefficient; of two shapes the geometric mean counts, see `friction_rule`.
            restitution: 0 to 1; of two shapes the larger counts.
            density: for bodies whose mass comes from their shapes; None is 1000 [kg/m^3].
            color: (r, g, b) or (r, g, b, a), each 0 to 1; None leaves it to the viewer.
            collide: False only shows the shape.
            group: shapes of one group other than 0 do not collide with each other.
            name: unique name; made from the body and the kind when None.
            friction_rule: "mean": of two shapes the geometric mean counts; "max": the larger, if either says so.
            torsional_friction, rolling_friction: largest torque about the normal, and across it, per normal force;
                of two shapes the larger counts [m].
            margin: two shapes are in contact at a gap of the sum of their margins [m].
        """
        return self._add_shape("sphere", (radius,), locals())

    def add_shape_box(
        self, body: str, size: ArrayLike, *,
        position: ArrayLike = ORIGIN, rotation: ArrayLike = IDENTITY, friction: float = 0.5, restitution: float = 0.0,
        density: float | None = None, color: ArrayLike | None = None, collide: bool = True, group: int = 0,
        name: str | None = None, friction_rule: str = "mean", torsional_friction: float = 0.0,
        rolling_friction: float = 0.0, margin: float = 0.0,
    ) -> str:  # fmt: skip
        """Add a box and return its name.

        Args:
            body: "world" is static.
            size: full edge lengths (x, y, z) [m].
            position, rotation: shape frame in the body: origin [m], and quaternion (w, x, y, z) or 3x3 rotation.
            friction: coefficient; of two shapes the geometric mean counts, see `friction_rule`.
            restitution: 0 to 1; of two shapes the larger counts.
            density: for bodies whose mass comes from their shapes; None is 1000 [kg/m^3].
            color: (r, g, b) or (r, g, b, a), each 0 to 1; None leaves it to the viewer.
            collide: False only shows the shape.
            group: shapes of one group other than 0 do not collide with each other.
            name: unique name; made from the body and the kind when None.
            friction_rule: "mean": of two shapes the geometric mean counts; "max": the larger, if either says so.
            torsional_friction, rolling_friction: largest torque about the normal, and across it, per normal force;
                of two shapes the larger counts [m].
            margin: two shapes are in contact at a gap of the sum of their margins [m].
        """
        return self._add_shape("box", check.vector(size, 3, f'size of a box on body "{body}"'), locals())

    def add_shape_capsule(
        self, body: str, radius: float, length: float, *,
        position: ArrayLike = ORIGIN, rotation: ArrayLike = IDENTITY, friction: float = 0.5, restitution: float = 0.0,
        density: float | None = None, color: ArrayLike | None = None, collide: bool = True, group: int = 0,
        name: str | None = None, friction_rule: str = "mean", torsional_friction: float = 0.0,
        rolling_friction: float = 0.0, margin: float = 0.0,
    ) -> str:  # fmt: skip
        """Add a capsule along z and return its name.

        Args:
            body: "world" is static.
            radius: [m].
            length: without the caps [m].
            position, rotation: shape frame in the body: origin [m], and quaternion (w, x, y, z) or 3x3 rotation.
            friction: coefficient; of two shapes the geometric mean counts, see `friction_rule`.
            restitution: 0 to 1; of two shapes the larger counts.
            density: for bodies whose mass comes from their shapes; None is 1000 [kg/m^3].
            color: (r, g, b) or (r, g, b, a), each 0 to 1; None leaves it to the viewer.
            collide: False only shows the shape.
            group: shapes of one group other than 0 do not collide with each other.
            name: unique name; made from the body and the kind when None.
            friction_rule: "mean": of two shapes the geometric mean counts; "max": the larger, if either says so.
            torsional_friction, rolling_friction: largest torque about the normal, and across it, per normal force;
                of two shapes the larger counts [m].
            margin: two shapes are in contact at a gap of the sum of their margins [m].
        """
        return self._add_shape("capsule", (radius, length), locals())

    def add_shape_cylinder(
        self, body: str, radius: float, length: float, *,
        position: ArrayLike = ORIGIN, rotation: ArrayLike = IDENTITY, friction: float = 0.5, restitution: float = 0.0,
        density: float | None = None, color: ArrayLike | None = None, collide: bool = True, group: int = 0,
        name: str | None = None, friction_rule: str = "mean", torsional_friction: float = 0.0,
        rolling_friction: float = 0.0, margin: float = 0.0,
    ) -> str:  # fmt: skip
        """Add a cylinder along z and return its name.

        Args:
            body: "world" is static.
            radius: [m].
            length: [m].
            position, rotation: shape frame in the body: origin [m], and quaternion (w, x, y, z) or 3x3 rotation.
            friction: coefficient; of two shapes the geometric mean counts, see `friction_rule`.
            restitution: 0 to 1; of two shapes the larger counts.
            density: for bodies whose mass comes from their shapes; None is 1000 [kg/m^3].
            color: (r, g, b) or (r, g, b, a), each 0 to 1; None leaves it to the viewer.
            collide: False only shows the shape.
            group: shapes of one group other than 0 do not collide with each other.
            name: unique name; made from the body and the kind when None.
            friction_rule: "mean": of two shapes the geometric mean counts; "max": the larger, if either says so.
            torsional_friction, rolling_friction: largest torque about the normal, and across it, per normal force;
                of two shapes the larger counts [m].
            margin: two shapes are in contact at a gap of the sum of their margins [m].
        """
        return self._add_shape("cylinder", (radius, length), locals())

    def add_shape_plane(
        self, body: str = WORLD, *,
        position: ArrayLike = ORIGIN, rotation: ArrayLike = IDENTITY, friction: float = 0.5, restitution: float = 0.0,
        density: float | None = None, color: ArrayLike | None = None, collide: bool = True, group: int = 0,
        name: str | None = None, friction_rule: str = "mean", torsional_friction: float = 0.0,
        rolling_friction: float = 0.0, margin: float = 0.0,
    ) -> str:  # fmt: skip
        """Add an infinite plane and return its name: z is up, all below is solid.

        Args:
            body: "world" is static.
            position, rotation: shape frame in the body: origin [m], and quaternion (w, x, y, z) or 3x3 rotation.
            friction: coefficient; of two shapes the geometric mean counts, see `friction_rule`.
            restitution: 0 to 1; of two shapes the larger counts.
            density: for bodies whose mass comes from their shapes; None is 1000 [kg/m^3].
            color: (r, g, b) or (r, g, b, a), each 0 to 1; None leaves it to the viewer.
            collide: False only shows the shape.
            group: shapes of one group other than 0 do not collide with each other.
            name: unique name; made from the body and the kind when None.
            friction_rule: "mean": of two shapes the geometric mean counts; "max": the larger, if either says so.
            torsional_friction, rolling_friction: largest torque about the normal, and across it, per normal force;
                of two shapes the larger counts [m].
            margin: two shapes are in contact at a gap of the sum of their margins [m].
        """
        return self._add_shape("plane", (), locals())

    def add_shape_mesh(
        self, body: str, path: str | PathLike[str] | ArrayLike | None = None, faces: ArrayLike | None = None, *,
        vertices: ArrayLike | None = None, scale: float = 1.0, position: ArrayLike = ORIGIN,
        rotation: ArrayLike = IDENTITY, friction: float = 0.5, restitution: float = 0.0, density: float | None = None,
        color: ArrayLike | None = None, collide: bool = True, group: int = 0, name: str | None = None,
        hull: bool = False, friction_rule: str = "mean", torsional_friction: float = 0.0, rolling_friction: float = 0.0,
        margin: float = 0.0,
    ) -> str:  # fmt: skip
        """Add a triangle mesh, closed unless it collides as its hull, and return its name.

        Args:
            body: "world" is static.
            path: a file (.obj, .stl, ...), or the vertices.
            faces: (m, 3) indices of the vertices of each triangle.
            vertices: (n, 3) [m].
            scale: factor on the vertices.
            position, rotation: shape frame in the body: origin [m], and quaternion (w, x, y, z) or 3x3 rotation.
            friction: coefficient; of two shapes the geometric mean counts, see `friction_rule`.
            restitution: 0 to 1; of two shapes the larger counts.
            density: for bodies whose mass comes from their shapes; None is 1000 [kg/m^3].
            color: (r, g, b) or (r, g, b, a), each 0 to 1; None leaves it to the viewer.
            collide: False only shows the shape.
            group: shapes of one group other than 0 do not collide with each other.
            name: unique name; made from the body and the kind when None.
            friction_rule: "mean": of two shapes the geometric mean counts; "max": the larger, if either says so.
            torsional_friction, rolling_friction: largest torque about the normal, and across it, per normal force;
                of two shapes the larger counts [m].
            margin: two shapes are in contact at a gap of the sum of their margins [m].
            hull: it collides as its convex hull, of at most 128 vertices; such a mesh may be open.
        """
        options = locals()
        if path is not None and vertices is None and not isinstance(path, (str, PathLike)):
            path, vertices = None, path
        if (path is None) == (vertices is None) or (path is not None and faces is not None):
            raise ModelError(f'mesh on body "{body}": give a path, or vertices and faces')
        given: tuple[Any, Any] = vertices, faces
        if isinstance(path, (str, PathLike)):
            given = lookup("mesh reader", Path(path))(Path(path))
        scale = check.number(scale, f'scale of a mesh on body "{body}"', positive=True)
        mesh = _shared_mesh(*given, scale, f'mesh on body "{body}"', self._meshes)
        if hull and collide and convex_hull(mesh[0][np.unique(mesh[1])]) is None:
            raise ModelError(f'mesh on body "{body}" is flat: it has no convex hull to collide with')
        return self._add_shape("mesh", (1.0,), options, (*mesh, bool(hull)))

    def _add_shape(
        self, kind: str, size: tuple[float, ...], given: dict[str, Any], mesh: tuple[Any, ...] = (None, None)
    ) -> str:
        """Add a shape from the arguments of the method that was called, and return its name."""
        body = self._body(given["body"])
        name = given["name"] or f"{body}:{kind}{len(self._spec.shapes)}"
        if name in self._shapes:
            raise ModelError(f'shape "{name}" exists already')
        what = f'of shape "{name}"'
        low = 0.0 if kind == "capsule" else None
        checked = tuple(
            check.number(x, f"size {what}", positive=not (low == 0.0 and i == 1), low=low) for i, x in enumerate(size)
        )
        restitution, density, group = given["restitution"], given["density"], given["group"]
        if check.number(restitution, f"restitution {what}", low=0.0) > 1.0:
            raise ModelError(f"restitution {what} must be <= 1, got {restitution!r}")
        if given["friction_rule"] not in ("mean", "max"):
            raise ModelError(f'friction_rule {what} must be "mean" or "max", got {given["friction_rule"]!r}')
        if not isinstance(group, (int, np.integer)):
            raise ModelError(f"group {what} must be a whole number, got {group!r}")
        self._spec.shapes.append(
            Shape(
                check.name(name, "a shape's name"), body, kind, checked,
                check.vector(given["position"], 3, f"position {what}"),
                check.frame_rotation(given["rotation"], f"rotation {what}"),
                check.number(given["friction"], f"friction {what}", low=0.0), float(restitution),
                None if density is None else check.number(density, f"density {what}", low=0.0),
                check.color(given["color"], f"color {what}"), bool(given["collide"]), int(given["group"]), *mesh,
                friction_rule=given["friction_rule"],
                **{word: check.number(given[word], f"{word} {what}", low=0.0) for word in _LENGTHS},
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
    """Return (volume, centroid, inertia about it per unit density) in the shape's frame."""
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
