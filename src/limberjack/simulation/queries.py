"""Rays and distances in a pose of a model, without a simulation."""

# Values from users are checked whatever their annotations say.
# pyright: reportUnnecessaryIsInstance=false

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np

from limberjack.collision.rays import ray_hit
from limberjack.errors import StateError
from limberjack.model.model import Model
from limberjack.model.spec import WORLD, Shape
from limberjack.reduced.dynamics import array_of, forward_kinematics
from limberjack.spatial.frames import matrix_from_quaternion

__all__ = ["Distance", "RayHit", "distance", "ray_cast"]

# Most support points that are looked at, and the relative gap at which the closest points are taken as found.
_ROUNDS, _GAP = 200, 1e-12


class RayHit(NamedTuple):
    """What a ray hits first: body and shape by name, "world" for what is static, distance [m] and point (3,)."""

    body: str
    shape: str
    distance: float
    point: np.ndarray


class Distance(NamedTuple):
    """The distance of two bodies [m], 0 where they overlap, the closest points (3,) on each, and their shapes."""

    distance: float
    points: tuple[np.ndarray, np.ndarray]
    shapes: tuple[str, str]


class _Pose(NamedTuple):
    """A shape in the world."""

    shape: Shape
    rotation: np.ndarray
    position: np.ndarray


def _poses(model: Model, q: Any) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return rotation and position of every body, and of the world."""
    positions, rotations = forward_kinematics(model, q)
    turned = matrix_from_quaternion(rotations)
    out = {name: (turned[i], positions[i]) for i, name in enumerate(model.body_names)}
    out[WORLD] = (np.eye(3), np.zeros(3))
    return out


def ray_cast(
    model: Model, q: Any, origin: Any, direction: Any, *, reach: float = np.inf, ignore: Any = (), visual: bool = False
) -> RayHit | None:
    """Return the first shape that a ray hits, or None; from within a shape its distance is 0.

    Args:
        model: the model.
        q: (nq,) coordinates.
        origin: (3,) start of the ray in the world [m].
        direction: (3,) of any length.
        reach: how far the ray goes [m].
        ignore: names of bodies that it passes through, such as that of the sensor.
        visual: whether shapes that do not collide are hit too.
    """
    origin, along = (array_of(x, (3,), word, model) for x, word in ((origin, "origin"), (direction, "direction")))
    length = float(np.linalg.norm(along))
    if length == 0.0:
        raise StateError("direction of a ray must not be 0")
    passed = {ignore} if isinstance(ignore, str) else set(ignore)
    for name in passed - {WORLD}:
        model.body_index(name)
    poses, best = _poses(model, q), None
    for shape in model.shapes:
        if shape.body in passed or not (visual or shape.collide):
            continue
        r, p = poses[shape.body]
        far = ray_hit(shape, r.T @ (origin - p), r.T @ (along / length))
        if far <= reach and np.isfinite(far) and (best is None or far < best.distance):
            best = RayHit(shape.body, shape.name, float(far), origin + far * along / length)
    return best


def distance(model: Model, q: Any, first: str, second: str) -> Distance:
    """Return the distance of the shapes of two bodies that collide; meshes count as their convex hulls.

    Args:
        model: the model.
        q: (nq,) coordinates.
        first, second: bodies, one of them may be "world".
    """
    poses = _poses(model, q)
    sides: list[list[_Pose]] = []
    for name in (first, second):
        if name != WORLD:
            model.body_index(name)
        r, p = poses[name]
        own = [shape for shape in model.shapes if shape.body == name and shape.collide]
        if not own:
            raise StateError(f'body "{name}" has no shape that collides')
        sides.append(
            [_Pose(s, r @ matrix_from_quaternion(np.array(s.rotation)), p + r @ np.array(s.position)) for s in own]
        )
    found = [_between(a, b) for a, b in itertools.product(*sides)]
    return min(found, key=lambda one: one.distance)


def _between(a: _Pose, b: _Pose) -> Distance:
    """Return the distance of two shapes."""
    names = (a.shape.name, b.shape.name)
    if a.shape.kind == "plane" or b.shape.kind == "plane":
        return _from_plane(a, b, names)
    x, y = _closest(a, b)
    gap = y - x
    length = float(np.linalg.norm(gap))
    ra, rb = _radius(a.shape), _radius(b.shape)
    if length <= ra + rb or length == 0.0:
        middle = x if length == 0.0 else x + gap * min(ra / length, 1.0)
        return Distance(0.0, (middle, middle.copy()), names)
    unit = gap / length
    return Distance(length - ra - rb, (x + ra * unit, y - rb * unit), names)


def _from_plane(a: _Pose, b: _Pose, names: tuple[str, str]) -> Distance:
    """Return the distance of a shape from a plane."""
    swapped = a.shape.kind != "plane"
    plane, other = (b, a) if swapped else (a, b)
    if other.shape.kind == "plane":
        raise StateError(f'shapes "{names[0]}" and "{names[1]}" are planes: they have no distance')
    normal = plane.rotation[:, 2]
    low = _support(other, -normal) - _radius(other.shape) * normal
    height = float(normal @ (low - plane.position))
    foot = low - height * normal
    points = (low, foot) if swapped else (foot, low)
    return Distance(max(height, 0.0), points, names)


def _radius(shape: Shape) -> float:
    """Return by how much a shape is larger than its core, a point or a segment."""
    return float(shape.size[0]) if shape.kind in ("sphere", "capsule") else 0.0


def _support(pose: _Pose, direction: np.ndarray) -> np.ndarray:
    """Return the point of the core of a shape furthest along a direction."""
    x, shape = pose.rotation.T @ direction, pose.shape
    if shape.kind == "sphere":
        local = np.zeros(3)
    elif shape.kind == "capsule":
        local = np.array([0.0, 0.0, np.copysign(0.5 * shape.size[1], x[2])])
    elif shape.kind == "box":
        local = np.copysign(0.5 * np.array(shape.size), x)
    elif shape.kind == "cylinder":
        across = float(np.hypot(x[0], x[1]))
        f = shape.size[0] / across if across > 0.0 else 0.0
        local = np.array([f * x[0], f * x[1], np.copysign(0.5 * shape.size[1], x[2])])
    else:
        vertices = np.asarray(shape.vertices, float)
        local = vertices[int(np.argmax(vertices @ x))]
    return pose.position + pose.rotation @ local


def _closest(a: _Pose, b: _Pose) -> tuple[np.ndarray, np.ndarray]:
    """Return the closest points of two cores; the same point where they overlap (Gilbert, Johnson, Keerthi 1988)."""
    corners = np.zeros((0, 3, 3))  # rows: difference, point of a, point of b
    direction = a.position - b.position
    direction = direction if direction.any() else np.array([1.0, 0.0, 0.0])
    weights, nearest = np.zeros(0), np.full(3, np.inf)
    for _ in range(_ROUNDS):
        x, y = _support(a, -direction), _support(b, direction)
        new = np.stack([x - y, x, y])
        size = float(np.abs(corners).max(initial=0.0)) + float(np.abs(new).max()) + 1e-300
        if len(corners) and direction @ direction - direction @ new[0] <= _GAP * size * size:
            break
        if len(corners) and (np.abs(corners[:, 0] - new[0]).max(axis=1) <= 1e-14 * size).any():
            break
        corners = np.concatenate([corners, new[None]])
        weights, kept = _nearest_weights(corners[:, 0])
        corners = corners[kept]
        nearest = weights @ corners[:, 0]
        if len(corners) == 4 or float(nearest @ nearest) <= (1e-12 * size) ** 2:
            break
        direction = nearest
    return weights @ corners[:, 1], weights @ corners[:, 2]


def _nearest_weights(points: np.ndarray) -> tuple[np.ndarray, list[int]]:
    """Return the weights of the point nearest to the origin of the simplex of up to four points, and which it needs."""
    best, found = np.inf, (np.ones(1), [0])
    for count in range(1, len(points) + 1):
        for kept in itertools.combinations(range(len(points)), count):
            p = points[list(kept)]
            edges = p[1:] - p[0]
            solved = np.zeros(0)
            if count > 1:
                solved = np.asarray(np.linalg.pinv(edges @ edges.T, rcond=1e-14) @ (-edges @ p[0]), float)
            weights = np.concatenate([[1.0 - float(np.sum(solved))], solved])
            if weights.min() < -1e-12:
                continue
            near = weights @ p
            if near @ near < best * (1.0 - 1e-12):
                best, found = float(near @ near), (weights, list(kept))
    return found
