"""The colliding shapes of a model in flat arrays (`Shapes`, `Meshes`), and the pairs that never collide (`Filters`).

Shapes stand in the frames of links, since bodies on fixed joints move as one. `size` by kind: sphere (radius, 0, 0),
capsule and cylinder (radius, half length along z, 0), box (half edges), hull and mesh (half edges of the box around
them, whose centre is the origin of their frame), plane (0, 0, 0).

Each mesh is stored once however many shapes have it, in coordinates relative to the centre of the box around it. Its
features, where contact can begin, stand in blocks of neighbours with a bounding sphere each, and blocks in clusters,
so that most of them are never visited.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from limberjack.collision.mesh_sdf import depenetration_spheres, grid_of
from limberjack.collision.surfaces import Surface, closed_surface, features_of, polygons_of
from limberjack.errors import ModelError, UnknownName
from limberjack.model.model import Model
from limberjack.model.spec import WORLD, Shape
from limberjack.spatial.frames import matrix_from_quaternion, quaternion_from_matrix
from limberjack.spatial.hulls import convex_hull

__all__ = [
    "BOX", "CAPSULE", "CYLINDER", "Filters", "HULL", "MESH", "MeshMaker", "Meshes", "PLANE", "SPHERE", "Shapes",
    "new_filters", "new_shapes", "shape_names",
]  # fmt: skip

# In the order in which a pair's routine takes them: the first of a pair has the smaller number.
SPHERE, CAPSULE, BOX, CYLINDER, HULL, MESH, PLANE = range(7)
_KINDS = {"sphere": SPHERE, "capsule": CAPSULE, "box": BOX, "cylinder": CYLINDER, "plane": PLANE}
# Joints whose bodies are not held beside each other: such bodies may collide.
_LOOSE = ("gear", "distance", "no_slip", "free")
# Most features of a block, and blocks of a cluster.
_BLOCK, _CLUSTER = 8, 8
# Cells of the grid up to which an edge is short: the grid blurs the distance more than it curves between the ends.
_SHORT = 1.5


class Meshes(NamedTuple):
    """Hulls and meshes, one after the other; m meshes, p polygons, k spheres, f features in b blocks in c clusters."""

    vertices: np.ndarray  # (v, 3)
    mesh_vertex: np.ndarray  # (m + 1,) vertices of each mesh
    mesh_polygon: np.ndarray  # (m + 1,) polygons of each hull; meshes that are no hulls have none
    polygon_start: np.ndarray  # (p + 1,) corners of each polygon
    polygon_corner: np.ndarray  # vertices around each polygon
    polygon_normal: np.ndarray  # (p, 3)
    polygon_height: np.ndarray  # (p,) along its normal
    feature: np.ndarray  # (f, 6) midpoint and half edge
    mesh_cluster: np.ndarray  # (m + 1,) clusters of each mesh
    cluster_block: np.ndarray  # (c + 1,) blocks of each cluster
    cluster_sphere: np.ndarray  # (c, 4) centre and radius
    block_feature: np.ndarray  # (b + 1,) features of each block
    block_sphere: np.ndarray  # (b, 4) centre and radius
    mesh_sphere: np.ndarray  # (m + 1,) depenetration spheres of each mesh
    sphere: np.ndarray  # (k, 4) centre and radius, the largest first
    grid_start: np.ndarray  # (m,) where the distances of each mesh begin
    grid_shape: np.ndarray  # (m, 3) nodes along each axis; zero for hulls
    grid_frame: np.ndarray  # (m, 4) first node and step
    grid: np.ndarray  # float32, all distances


# Number of a mesh, whether it is convex, its centre, half edges and radius.
_Stored = tuple[int, bool, np.ndarray, np.ndarray, float]


class MeshMaker:
    """Gathers the meshes of a model."""

    def __init__(self) -> None:
        self._known: dict[bytes, _Stored] = {}
        # the arrays are held: no other array can come to have their ids
        self._same: dict[tuple[int, int, bool], tuple[object, object, _Stored]] = {}
        self._vertices: list[np.ndarray] = [np.zeros((0, 3))]
        self._polygons: list[np.ndarray] = []
        self._polygon_normals: list[np.ndarray] = [np.zeros((0, 3))]
        self._polygon_heights: list[np.ndarray] = [np.zeros(0)]
        self._features: list[np.ndarray] = [np.zeros((0, 6))]
        self._blocks: list[int] = [0]
        self._clusters: list[int] = [0]
        self._spheres: list[np.ndarray] = []
        self._cluster_spheres: list[np.ndarray] = []
        self._grids: list[np.ndarray] = [np.zeros(0, np.float32)]
        self._grid_rows: list[tuple[int, tuple[int, ...], tuple[float, ...]]] = []
        self._depenetration: list[np.ndarray] = [np.zeros((0, 4))]
        self._starts = {"vertex": [0], "polygon": [0], "cluster": [0], "sphere": [0]}

    def add(self, vertices: object, faces: object, name: str, hull: bool = False) -> _Stored:
        """Add a mesh, if it is new; return its number, whether it is convex, its centre, half edges and radius.

        Args:
            vertices: (n, 3) [m].
            faces: (m, 3).
            name: what errors and warnings call it.
            hull: its convex hull is meant.
        """
        same = self._same.get((id(vertices), id(faces), hull))
        if same is not None:
            return same[2]
        points, triangles = np.ascontiguousarray(vertices, float), np.ascontiguousarray(faces, np.int64)
        key = hashlib.sha256(points.tobytes() + b"|" + triangles.tobytes() + b"hull" * hull).digest()
        if key not in self._known:
            surface = _hull(points, triangles, name) if hull else closed_surface(points, triangles, name)
            low, high = surface.vertices.min(axis=0), surface.vertices.max(axis=0)
            middle = 0.5 * (low + high)
            surface = Surface(surface.vertices - middle, surface.faces, surface.convex)
            radius = float(np.linalg.norm(surface.vertices, axis=1).max())
            self._known[key] = len(self._known), surface.convex, middle, 0.5 * (high - low), radius
            self._put(surface)
        self._same[id(vertices), id(faces), hull] = vertices, faces, self._known[key]
        return self._known[key]

    def _put(self, surface: Surface) -> None:
        first = self._starts["vertex"][-1]
        self._vertices.append(surface.vertices)
        start, short = sum(len(grid) for grid in self._grids), 0.0
        if surface.convex:
            polygons, normals = polygons_of(surface)
            self._polygons += [polygon + first for polygon in polygons]
            self._polygon_normals.append(normals)
            heights = [(surface.vertices[k] @ n).max() for k, n in zip(polygons, normals, strict=True)]
            self._polygon_heights.append(np.array(heights))
            self._grid_rows.append((start, (0, 0, 0), (0.0, 0.0, 0.0, 1.0)))
        else:
            grid = grid_of(surface)
            short = _SHORT * grid.step
            self._depenetration.append(depenetration_spheres(grid))
            self._grids.append(grid.values.reshape(-1))
            self._grid_rows.append((start, grid.values.shape, (*grid.origin.tolist(), grid.step)))
        self._put_features(features_of(surface, short))
        self._starts["vertex"].append(first + len(surface.vertices))
        self._starts["polygon"].append(len(self._polygons))
        self._starts["cluster"].append(len(self._cluster_spheres))
        self._starts["sphere"].append(sum(len(spheres) for spheres in self._depenetration))

    def _put_features(self, rows: np.ndarray) -> None:
        """Put features into blocks of neighbours: cut in half across the longest side until they are small."""
        todo, blocks = [np.arange(len(rows))], []
        while todo:
            members = todo.pop()
            if len(members) <= _BLOCK:
                blocks.append(members)
                continue
            axis = int(np.ptp(rows[members, :3], axis=0).argmax())
            members = members[np.argsort(rows[members, axis], kind="stable")]
            todo += [members[len(members) // 2 :], members[: len(members) // 2]]
        ends = np.stack([rows[:, :3] - rows[:, 3:], rows[:, :3] + rows[:, 3:]], 1)
        for members in blocks:
            self._spheres.append(_sphere(ends[members].reshape(-1, 3)))
            self._features.append(rows[members])
            self._blocks.append(self._blocks[-1] + len(members))
        for first in range(0, len(blocks), _CLUSTER):
            few = blocks[first : first + _CLUSTER]
            self._cluster_spheres.append(_sphere(ends[np.concatenate(few)].reshape(-1, 3)))
            self._clusters.append(self._clusters[-1] + len(few))

    def arrays(self) -> Meshes:
        """Return all that was added."""
        lengths = [len(polygon) for polygon in self._polygons]
        return Meshes(
            vertices=np.concatenate(self._vertices),
            mesh_vertex=np.array(self._starts["vertex"], np.int64),
            mesh_polygon=np.array(self._starts["polygon"], np.int64),
            polygon_start=np.cumsum([0, *lengths]).astype(np.int64),
            polygon_corner=np.concatenate([np.zeros(0, np.int64), *self._polygons]),
            polygon_normal=np.concatenate(self._polygon_normals),
            polygon_height=np.concatenate(self._polygon_heights),
            feature=np.concatenate(self._features),
            mesh_cluster=np.array(self._starts["cluster"], np.int64),
            cluster_block=np.array(self._clusters, np.int64),
            cluster_sphere=np.array(self._cluster_spheres, float).reshape(-1, 4),
            block_feature=np.array(self._blocks, np.int64),
            block_sphere=np.array(self._spheres, float).reshape(-1, 4),
            mesh_sphere=np.array(self._starts["sphere"], np.int64),
            sphere=np.concatenate(self._depenetration),
            grid_start=np.array([row[0] for row in self._grid_rows], np.int64),
            grid_shape=np.array([row[1] for row in self._grid_rows], np.int64).reshape(-1, 3),
            grid_frame=np.array([row[2] for row in self._grid_rows], float).reshape(-1, 4),
            grid=np.concatenate(self._grids),
        )


def _hull(points: np.ndarray, triangles: np.ndarray, name: str) -> Surface:
    """Return the convex hull of a mesh."""
    hull = convex_hull(points[np.unique(triangles)])
    if hull is None:
        raise ModelError(f'mesh "{name}" is flat: it has no convex hull to collide with')
    return Surface(hull.vertices, hull.faces, True)


def _sphere(points: np.ndarray) -> np.ndarray:
    """Return centre and radius of a sphere around points."""
    middle = 0.5 * (points.min(axis=0) + points.max(axis=0))
    return np.append(middle, np.linalg.norm(points - middle, axis=1).max())


class Shapes(NamedTuple):
    """One row per colliding shape; s shapes."""

    kind: np.ndarray  # (s,) SPHERE .. PLANE
    link: np.ndarray  # (s,) -1 = static
    body: np.ndarray  # (s,) -1 = the world itself
    part: np.ndarray  # (s,) link or group of fixed bodies, the partners of joints; see `new_filters`
    group: np.ndarray  # (s,) shapes of one nonzero group do not collide
    offset: np.ndarray  # (s, 7) position from the link's centre and quaternion, link axes; static: world
    size: np.ndarray  # (s, 3)
    radius: np.ndarray  # (s,) of the sphere around the shape's own origin; infinite for planes
    friction: np.ndarray  # (s,)
    larger: np.ndarray  # (s,) 1: of two shapes the larger friction counts, not the geometric mean
    restitution: np.ndarray  # (s,)
    rolling: np.ndarray  # (s, 2) torsional and rolling friction [m]
    margin: np.ndarray  # (s,) gap at which it is in contact [m]
    widest: np.ndarray  # (1,) the largest sum of two of these
    mesh: np.ndarray  # (s,) row of `meshes`, -1 = none
    meshes: Meshes


class Filters(NamedTuple):
    """Pairs that do not collide, as sorted neighbour lists; both directions of every pair are listed."""

    joined_start: np.ndarray  # (parts + 1,)
    joined: np.ndarray  # parts joined by a joint
    apart_start: np.ndarray  # (bodies + 2,) by body + 1, so that the world has a entry
    apart: np.ndarray  # bodies + 1 that were excluded by name
    shape_start: np.ndarray  # (shapes + 1,)
    shape_apart: np.ndarray  # shapes that were excluded by name


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
    """Return the part of each body, the partner of joints: its link, or the group of bodies it is fixed to.

    Bodies that are fixed to the world all have link -1, yet an arm hinged to one of them must still collide with the
    others: each such group of bodies is a part of its own, numbered after the links. The world is none.
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
    offsets, size, radius = np.zeros((n, 7)), np.zeros((n, 3)), np.zeros(n)
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
            whole["mesh"][k], convex, middle, size[k], radius[k] = maker.add(
                shape.vertices, shape.faces, shape.name, shape.hull
            )
            whole["kind"][k], at = HULL if convex else MESH, at + turn @ middle
        else:
            whole["kind"][k], size[k], radius[k] = _sized(shape)
        whole["link"][k], whole["body"][k], whole["part"][k], whole["group"][k] = link, body, part, shape.group
        offsets[k, :3], offsets[k, 3:] = at, quaternion_from_matrix(turn)
    friction = np.array([shape.friction for shape in solid], float)
    larger = np.array([shape.friction_rule == "max" for shape in solid], np.int64)
    restitution = np.array([shape.restitution for shape in solid], float)
    rolling = np.array([(shape.torsional_friction, shape.rolling_friction) for shape in solid], float).reshape(-1, 2)
    margin = np.array([shape.margin for shape in solid], float)
    return Shapes(
        **whole, offset=offsets, size=size, radius=radius, friction=friction, larger=larger, restitution=restitution,
        rolling=rolling, margin=margin, widest=np.array([2.0 * margin.max(initial=0.0)]), meshes=maker.arrays(),
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


def new_filters(model: Model, ignored: Collection[str] = ()) -> Filters:
    """Return the pairs of `model` that never collide: bodies joined by a joint, and those excluded by name.

    The world is no partner of joints, or nothing hinged to it could lie on the ground.

    Args:
        model: the model.
        ignored: names of shapes that are left out.
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
        *_excluded_shapes(model, ignored),
    )


def _excluded_shapes(model: Model, ignored: Collection[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return the shapes that are excluded for each shape, as lists of neighbours."""
    index = {name: i for i, name in enumerate(shape_names(model, ignored))}
    known = [(index[a], index[b]) for a, b in model.spec.excluded_shapes if a in index and b in index]
    return _neighbours({pair for i, j in known for pair in ((i, j), (j, i))}, len(index))


def _neighbours(pairs: set[tuple[int, int]], count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return (start, other) of the sorted pairs (i, other) with i < count."""
    table = np.array(sorted(pairs), np.int64).reshape(-1, 2)
    return np.searchsorted(table[:, 0], np.arange(count + 1)).astype(np.int64), np.ascontiguousarray(table[:, 1])
