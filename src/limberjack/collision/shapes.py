"""The colliding shapes of a model as flat arrays, and the pairs that never collide.

Shapes stand in the frames of links, since bodies on fixed joints move as one. `size` by kind: sphere (radius, 0, 0),
capsule and cylinder (radius, half length along z, 0), box (half edges), hull and mesh (half edges of the box around
them, whose middle is the origin of their frame), plane (0, 0, 0).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from limberjack.collision.meshes import Meshes, MeshMaker
from limberjack.errors import UnknownName
from limberjack.model.model import Model
from limberjack.model.spec import WORLD, Shape
from limberjack.spatial.frames import matrix_from_quaternion, quaternion_from_matrix

__all__ = [
    "BOX", "CAPSULE", "CYLINDER", "HULL", "MESH", "PLANE", "SPHERE", "Filters", "Shapes", "new_filters",
    "new_shapes", "shape_names",
]  # fmt: skip

# In the order in which a pair's routine takes them: the first of a pair has the smaller number.
SPHERE, CAPSULE, BOX, CYLINDER, HULL, MESH, PLANE = range(7)
_KINDS = {"sphere": SPHERE, "capsule": CAPSULE, "box": BOX, "cylinder": CYLINDER, "plane": PLANE}

# Joints that tie two bodies without holding them beside each other: such bodies may collide.
_LOOSE = ("gear", "distance", "no_slip", "free")


class Shapes(NamedTuple):
    """One row per colliding shape; s shapes."""

    kind: np.ndarray  # (s,) SPHERE .. PLANE
    link: np.ndarray  # (s,) -1 = static
    body: np.ndarray  # (s,) -1 = the world itself
    part: np.ndarray  # (s,) what joints tie together; see `new_filters`
    group: np.ndarray  # (s,) shapes of one nonzero group do not collide
    place: np.ndarray  # (s, 7) position from the link's centre and quaternion, link axes; static: world
    size: np.ndarray  # (s, 3)
    radius: np.ndarray  # (s,) of the sphere around the shape's own origin; infinite for planes
    friction: np.ndarray  # (s,)
    restitution: np.ndarray  # (s,)
    mesh: np.ndarray  # (s,) row of `meshes`, -1 = none
    meshes: Meshes


class Filters(NamedTuple):
    """Pairs that do not collide, as sorted neighbour lists; both directions of every pair are listed."""

    joined_start: np.ndarray  # (parts + 1,)
    joined: np.ndarray  # parts tied by a joint
    apart_start: np.ndarray  # (bodies + 2,) by body + 1, so that the world has a place
    apart: np.ndarray  # bodies + 1 that were excluded by name


def _colliding(model: Model, ignored: Collection[str]) -> list[Shape]:
    names = {shape.name for shape in model.shapes}
    for name in ignored:
        if name not in names:
            raise UnknownName("shape", name, f'model "{model.name}"', names)
    return [shape for shape in model.shapes if shape.collide and shape.name not in ignored]


def shape_names(model: Model, ignored: Collection[str] = ()) -> list[str]:
    """Return the names of the colliding shapes, in the order of the rows of `new_shapes`."""
    return [shape.name for shape in _colliding(model, ignored)]


def _parts(model: Model) -> np.ndarray:
    """Return what each body belongs to when joints tie things: its link, or the group of bodies it is fixed with.

    Bodies that are fixed to the world, near or far, all have link -1, yet an arm hinged to one of them must still
    meet the others: each such group of bodies is a part of its own, numbered after the links. The world is none.
    """
    link = model.arrays.body_link
    part = np.array(link, np.int64)
    new = len(model.arrays.links.parent)
    for i in np.flatnonzero(link < 0):
        above = model.body(model.body_names[i]).parent
        if above == WORLD:
            part[i], new = new, new + 1
        else:
            part[i] = part[model.body_index(above)]
    return part


def new_shapes(model: Model, center: np.ndarray | None = None, ignored: Collection[str] = ()) -> Shapes:
    """Return the colliding shapes of `model`.

    Args:
        model: the model.
        center: (n_links, 3) the point of each link's frame that poses refer to [m]; None = the frame's origin.
        ignored: names of shapes to leave out.
    """
    solid = _colliding(model, ignored)
    n = len(solid)
    a, parts, maker = model.arrays, _parts(model), MeshMaker()
    whole = {name: np.zeros(n, np.int64) for name in ("kind", "link", "body", "part", "group", "mesh")}
    place, size, radius = np.zeros((n, 7)), np.zeros((n, 3)), np.zeros(n)
    for k, shape in enumerate(solid):
        turn, at = matrix_from_quaternion(np.array(shape.rotation)), np.array(shape.position)
        body = link = part = -1
        if shape.body != WORLD:
            body = model.body_index(shape.body)
            link, part, offset = int(a.body_link[body]), int(parts[body]), a.body_offset[body]
            frame = offset[:9].reshape(3, 3)
            turn, at = frame @ turn, frame @ at + offset[9:]
            if link >= 0 and center is not None:
                at = at - center[link]
        whole["mesh"][k] = -1
        if shape.kind == "mesh":
            whole["mesh"][k], convex, middle, size[k], radius[k] = maker.add(shape.vertices, shape.faces, shape.name)
            whole["kind"][k], at = HULL if convex else MESH, at + turn @ middle
        else:
            whole["kind"][k], size[k], radius[k] = _sized(shape)
        whole["link"][k], whole["body"][k], whole["part"][k], whole["group"][k] = link, body, part, shape.group
        place[k, :3], place[k, 3:] = at, quaternion_from_matrix(turn)
    friction = np.array([shape.friction for shape in solid], float)
    restitution = np.array([shape.restitution for shape in solid], float)
    return Shapes(
        **whole, place=place, size=size, radius=radius, friction=friction, restitution=restitution,
        meshes=maker.arrays(),
    )  # fmt: skip


def _sized(shape: Shape) -> tuple[int, tuple[float, float, float], float]:
    """Return the kind, the sizes and the radius of the sphere around a primitive shape."""
    size = shape.size
    if shape.kind == "sphere":
        return SPHERE, (size[0], 0.0, 0.0), size[0]
    if shape.kind == "box":
        half = (0.5 * size[0], 0.5 * size[1], 0.5 * size[2])
        return BOX, half, float(np.linalg.norm(half))
    if shape.kind == "plane":
        return PLANE, (0.0, 0.0, 0.0), np.inf
    radius, half = size[0], 0.5 * size[1]
    around = radius + half if shape.kind == "capsule" else float(np.hypot(radius, half))
    return _KINDS[shape.kind], (radius, half, 0.0), around


def new_filters(model: Model) -> Filters:
    """Return the pairs of `model` that never collide: bodies tied by a joint, and those excluded by name.

    The world is no partner of joints, or nothing hinged to it could lie on the ground.
    """
    parts = _parts(model)
    joined = set()
    for name in model.joint_names:
        joint = model.joint_spec(name)
        if joint.kind not in _LOOSE and WORLD not in (joint.parent, joint.child):
            pair = parts[model.body_index(joint.parent)], parts[model.body_index(joint.child)]
            joined |= {(int(pair[0]), int(pair[1])), (int(pair[1]), int(pair[0]))}
    apart = set()
    for a, b in model.spec.excluded:
        i, j = (0 if name == WORLD else model.body_index(name) + 1 for name in (a, b))
        apart |= {(i, j), (j, i)}
    return Filters(
        *_neighbours(joined, max(parts.max(initial=-1) + 1, len(model.arrays.links.parent))),
        *_neighbours(apart, model.body_count + 1),
    )


def _neighbours(pairs: set[tuple[int, int]], count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return (start, other) of the sorted pairs (i, other) with i < count."""
    table = np.array(sorted(pairs), np.int64).reshape(-1, 2)
    return np.searchsorted(table[:, 0], np.arange(count + 1)).astype(np.int64), np.ascontiguousarray(table[:, 1])
