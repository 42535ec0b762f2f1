"""`Drawing`: the visible parts of a model - meshes on bodies, strings between them, the ground.

A body without shapes is drawn as bones from its joint to the joints of its children.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from limberjack.model.model import Model
from limberjack.model.spec import WORLD, Shape
from limberjack.spatial.frames import matrix_from_quaternion
from limberjack.viewer import geometry
from limberjack.viewer.geometry import Geometry
from limberjack.viewer.part_poses import place_parts

__all__ = ["PALETTE", "Drawing", "Ground", "Parts", "Strings", "arrows", "multiplied", "string_poses", "turned"]

PALETTE = (
    (0.91, 0.45, 0.29), (0.25, 0.49, 0.67), (0.36, 0.62, 0.45), (0.93, 0.69, 0.25), (0.56, 0.41, 0.65),
    (0.30, 0.66, 0.68), (0.80, 0.36, 0.42), (0.55, 0.57, 0.60),
)  # fmt: skip
_STRING = (0.35, 0.37, 0.40)
_COLLISION = (0.20, 0.66, 0.42)
# What is less opaque is glass.
_OPAQUE = 0.5
# Segments around: for single models, and for crowds.
_DETAIL, _CROWD_DETAIL, _CROWD = 24, 10, 2000


class Ground(NamedTuple):
    """The ground: a point of it, its unit normal, its colour."""

    point: np.ndarray
    normal: np.ndarray
    color: tuple[float, float, float]


class Parts(NamedTuple):
    """All parts, sorted by geometry: which geometry and body (-1 = world), pose on the body, scale, colour 0..1."""

    geometry: np.ndarray
    body: np.ndarray
    position: np.ndarray
    rotation: np.ndarray
    scale: np.ndarray
    color: np.ndarray


class Strings(NamedTuple):
    """Springs, ropes and rods: the bodies at their ends (-1 = world) and the points there."""

    a: np.ndarray
    b: np.ndarray
    at_a: np.ndarray
    at_b: np.ndarray


class Drawing:
    """The visible parts of `model`.

    Args:
        model: the model.
        detail: segments around round parts; None = by the number of bodies.
        merge: capsules whose lengths differ by at most this share are drawn by one mesh, stretched to fit; 0 = never.
        collision: whether collision shapes of bodies that have visual shapes as well are parts, too.
        glass: whether shapes that one can see through are parts: not for pictures without transparency, in which they
            would hide what is behind them.

    Attributes:
        model: the model.
        geometries: meshes, each used by one or more parts.
        groups: of each mesh, whether its parts are "visual" or "collision" shapes.
        opacities: of each mesh, 0 .. 1.
        parts: their geometry, body and pose.
        strings: springs, ropes and rods between two bodies.
        string_width: radius of a string [m].
        grounds: endless planes.
        size: a typical size of a part [m].
    """

    def __init__(
        self, model: Model, detail: int | None = None, merge: float = 0.0, *,
        collision: bool = False, glass: bool = True,
    ) -> None:  # fmt: skip
        self.model, self._merge, self._collision, self._glass = model, merge, collision, glass
        self.geometries: list[Geometry] = []
        self.groups: list[str] = []
        self.opacities: list[float] = []
        self.grounds: list[Ground] = []
        self._detail = detail or (_CROWD_DETAIL if model.body_count > _CROWD else _DETAIL)
        self._known: dict[Any, int] = {}
        self._rows: list[tuple[Any, ...]] = []
        self._index = {WORLD: -1} | {name: i for i, name in enumerate(model.body_names)}
        self._add_shapes()
        self._add_bones()
        self.parts = self._sorted()
        self.strings = self._strings()
        self.size = float(np.median(self.extents)) if len(self.extents) else 1.0
        self.string_width = 0.06 * self.size

    @cached_property
    def extents(self) -> np.ndarray:
        """(parts,) radius of the ball around each part's own origin [m]."""
        reach = np.array([np.linalg.norm(g.vertices, axis=1).max(initial=0.0) for g in self.geometries])
        if not len(reach):
            return np.zeros(0)
        exact = np.zeros(len(self.parts.geometry))
        for k, g in enumerate(self.geometries):
            rows = np.flatnonzero(self.parts.geometry == k)
            scales, where = np.unique(self.parts.scale[rows], axis=0, return_inverse=True)
            sizes = [np.linalg.norm(g.vertices * s, axis=1).max(initial=0.0) for s in scales]
            exact[rows] = np.array(sizes)[where.ravel()]
        return exact

    def part_poses(self, positions: np.ndarray, rotations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return positions (parts, 3) and rotations (parts, 4) of all parts for poses of the bodies."""
        p = self.parts
        at, turn = np.empty((len(p.body), 3)), np.empty((len(p.body), 4))
        # copies, since a read-only array is another type and would compile the kernel again
        positions, rotations = np.array(positions, float), np.array(rotations, float)
        place_parts(p.body, p.position, p.rotation, positions, rotations, at, turn)
        return at, turn

    def string_ends(self, positions: np.ndarray, rotations: np.ndarray) -> np.ndarray:
        """Return the two ends (strings, 2, 3) of every string in the world."""
        s = self.strings
        at = np.concatenate([positions, np.zeros((1, 3))])
        turn = np.concatenate([rotations, [[1.0, 0.0, 0.0, 0.0]]])
        return np.stack(
            [at[s.a] + turned(turn[s.a], s.at_a), at[s.b] + turned(turn[s.b], s.at_b)],
            axis=1,
        )

    def thickened(self, pixel: np.ndarray | float, limit: float = np.inf) -> np.ndarray:
        """Return the scales (parts, 3) at which no part is thinner than a pixel.

        Args:
            pixel: size of a pixel at each part [m].
            limit: largest width, as a share of the part's own size.
        """
        half = self.half_widths
        least = np.minimum(np.broadcast_to(pixel, len(half))[:, None], limit * half.max(axis=1, initial=0.0)[:, None])
        return self.parts.scale * np.maximum(1.0, least / np.maximum(half, 1e-12))

    @cached_property
    def half_widths(self) -> np.ndarray:
        """(parts, 3) how far each part reaches along its own axes."""
        reach = np.array([np.abs(g.vertices).max(axis=0, initial=0.0) for g in self.geometries]).reshape(-1, 3)
        return reach[self.parts.geometry] * self.parts.scale

    # Construction

    def _add_shapes(self) -> None:
        shown = {shape.body for shape in self.model.shapes if not shape.collide}
        for shape in self.model.shapes:
            # files give bodies a detailed visual shape and a plain collision shape without colour
            group = "collision" if shape.collide and shape.color is None and shape.body in shown else "visual"
            if shape.kind == "plane":
                self._add_plane(shape)
            elif group == "visual" or self._collision:
                self._add_shape(shape, group)

    def _add_plane(self, shape: Shape) -> None:
        color = (0.82, 0.82, 0.80) if shape.color is None else shape.color[:3]
        normal = matrix_from_quaternion(np.array(shape.rotation))[:, 2]
        if shape.body == WORLD:
            self.grounds.append(Ground(np.array(shape.position), normal, (color[0], color[1], color[2])))

    def _add_shape(self, shape: Shape, group: str) -> None:
        body, size = self._index[shape.body], shape.size
        own = _COLLISION if group == "collision" else self._own_color(body)
        color = shape.color if shape.color is not None else (*own, 1.0)
        opacity = float(color[3]) if len(color) == 4 else 1.0
        if opacity == 0.0 or (opacity < _OPAQUE and not self._glass):
            return
        key: Any = shape.kind
        scale = (1.0, 1.0, 1.0)
        if shape.kind == "sphere":
            scale = (size[0],) * 3
        elif shape.kind == "box":
            scale = size
        elif shape.kind == "cylinder":
            scale = (size[0], size[0], size[1])
        elif shape.kind == "capsule":
            usual, stretch = self._usual(size[1] / size[0])
            key, scale = ("capsule", usual), (size[0], size[0], size[0] * stretch)
        else:
            key = ("mesh", id(shape.vertices), id(shape.faces))
        self._add(self._geometry(key, shape, group, opacity), body, shape.position, shape.rotation, scale, color)

    def _usual(self, length: float) -> tuple[float, float]:
        """Return the length, in radii, of the capsule that stands for one of `length`, and how far it is stretched."""
        if self._merge <= 0.0:
            return length, 1.0
        step = math.log1p(self._merge)
        usual = max(0.0, math.exp(round(math.log(length + 2.0) / step) * step) - 2.0)
        return usual, (length + 2.0) / (usual + 2.0)

    def _add(self, geometry: int, body: int, position: Any, rotation: Any, scale: Any, color: Any) -> None:
        self._rows.append((geometry, body, tuple(position), tuple(rotation), tuple(scale), tuple(color)[:3]))

    def _geometry(self, key: Any, shape: Shape | None = None, group: str = "visual", opacity: float = 1.0) -> int:
        own = key, group, opacity
        if own not in self._known:
            if key == "sphere":
                made = geometry.sphere(self._detail)
            elif key == "box":
                made = geometry.box()
            elif key == "cylinder":
                made = geometry.cylinder(2 * self._detail)
            elif key[0] == "capsule":
                made = geometry.capsule(1.0, key[1], self._detail)
            else:
                assert shape is not None
                made = geometry.flat(np.asarray(shape.vertices), np.asarray(shape.faces))
            self._known[own] = len(self.geometries)
            self.geometries.append(made)
            self.groups.append(group)
            self.opacities.append(opacity)
        return self._known[own]

    def _own_color(self, body: int) -> tuple[float, float, float]:
        return PALETTE[body % len(PALETTE)]

    def _add_bones(self) -> None:
        """Draw bodies without visible shapes as bones from joint to joint."""
        model = self.model
        dressed = {row[1] for row in self._rows}
        bare = [i for i in range(model.body_count) if i not in dressed]
        if not bare:
            return
        begins: dict[int, np.ndarray] = {}
        ends: dict[int, list[np.ndarray]] = {i: [] for i in bare}
        for name in model.joint_names:
            joint = model.joint_spec(name)
            for body, point in ((joint.child, joint.position_in_child), (joint.parent, joint.position)):
                i = self._index.get(body, -1)
                if i in ends and len(point) == 3:
                    ends[i].append(np.array(point, float))
            child = self._index.get(joint.child, -1)
            if child in ends and len(joint.position_in_child) == 3:
                begins.setdefault(child, np.array(joint.position_in_child, float))
        reach = [np.linalg.norm(e - begins.get(i, np.zeros(3))) for i in bare for e in ends[i]]
        lengths = [r for r in reach if r > 0.0]
        usual = float(np.median(lengths)) if lengths else 0.2
        for i in bare:
            begin, com = begins.get(i, np.zeros(3)), model.arrays.body_com[i]
            targets = [e for e in ends[i] if np.linalg.norm(e - begin) > 1e-9 * usual]
            if not targets and np.linalg.norm(com - begin) > 1e-6 * usual:
                targets = [begin + 2.0 * (com - begin)]
            for end in targets:
                self._add_bone(i, begin, end)
            if not targets:
                self._add(self._geometry("sphere"), i, com, (1, 0, 0, 0), (0.12 * usual,) * 3, self._own_color(i))

    def _add_bone(self, body: int, begin: np.ndarray, end: np.ndarray) -> None:
        length = float(np.linalg.norm(end - begin))
        rotation = _along((end - begin) / length)
        key = ("capsule", 10.0)
        width = length / 12.0  # ten radii of tube and one for each cap
        self._add(self._geometry(key), body, 0.5 * (begin + end), rotation, (width,) * 3, self._own_color(body))

    def _sorted(self) -> Parts:
        rows = sorted(self._rows, key=lambda row: row[0])
        if not rows:
            none = np.zeros(0, np.int64)
            return Parts(none, none.copy(), np.zeros((0, 3)), np.zeros((0, 4)), np.zeros((0, 3)), np.zeros((0, 3)))
        columns = list(zip(*rows, strict=True))
        return Parts(np.array(columns[0]), np.array(columns[1]), *(np.array(column, float) for column in columns[2:]))

    def _strings(self) -> Strings:
        model = self.model
        rows = [(s.a, s.b, s.at_a, s.at_b) for s in model.springs]
        for name in model.loop_names:
            joint = model.joint_spec(name)
            if joint.kind == "distance":
                rows.append((joint.parent, joint.child, joint.position, joint.position_in_child))
        a = np.array([self._index[row[0]] for row in rows], np.int64)
        b = np.array([self._index[row[1]] for row in rows], np.int64)
        points = [np.array([row[k] for row in rows], float).reshape(-1, 3) for k in (2, 3)]
        return Strings(a, b, *points)

    @property
    def string_color(self) -> tuple[float, float, float]:
        """The colour of strings."""
        return _STRING


def _along(direction: np.ndarray) -> np.ndarray:
    """Return a rotation of z to the unit vector `direction`."""
    x, y, z = direction
    if z < -0.999999:
        return np.array([0.0, 1.0, 0.0, 0.0])
    quaternion = np.array([1.0 + z, -y, x, 0.0])
    return quaternion / math.sqrt(float(quaternion @ quaternion))


def string_poses(ends: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return centres (..., 3), rotations (..., 4) of z along them, and lengths (...) of strings with these ends."""
    middle, way = 0.5 * (ends[..., 0, :] + ends[..., 1, :]), ends[..., 1, :] - ends[..., 0, :]
    length = np.linalg.norm(way, axis=-1)
    z = way / np.maximum(length, 1e-12)[..., None]
    rotation = np.stack([1.0 + z[..., 2], -z[..., 1], z[..., 0], np.zeros_like(length)], axis=-1)
    rotation[z[..., 2] < -0.999999] = (0.0, 1.0, 0.0, 0.0)
    return middle, rotation / np.linalg.norm(rotation, axis=-1, keepdims=True), length


def turned(rotations: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Return vectors (..., 3) rotated by quaternions (..., 4)."""
    w, u = rotations[..., :1], rotations[..., 1:]
    across = 2.0 * np.cross(u, vectors)
    return vectors + w * across + np.cross(u, across)


def arrows(points: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Return line segments (3 k, 2, 3), shafts first, then heads, of arrows of these vectors (k, 3) at these points."""
    tips, length = points + vectors, np.linalg.norm(vectors, axis=1, keepdims=True)
    upright = np.abs(vectors[:, 2:]) > 0.9 * length
    side = np.cross(vectors, np.where(upright, (1.0, 0.0, 0.0), (0.0, 0.0, 1.0)))
    size = np.linalg.norm(side, axis=1, keepdims=True)
    side *= 0.12 * length / np.where(size > 0.0, size, 1.0)
    back = tips - 0.2 * vectors
    return np.concatenate([np.stack([a, tips], axis=1) for a in (points, back + side, back - side)])


def multiplied(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the products (..., 4) of quaternions."""
    aw, ax, ay, az = np.moveaxis(a, -1, 0)
    bw, bx, by, bz = np.moveaxis(b, -1, 0)
    return np.stack(
        [
            aw * bw - ax * bx - ay * by - az * bz,
            aw * bx + ax * bw + ay * bz - az * by,
            aw * by - ax * bz + ay * bw + az * bx,
            aw * bz + ax * by - ay * bx + az * bw,
        ],
        axis=-1,
    )
