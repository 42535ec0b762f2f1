"""`Meshes`: hulls and meshes of a model in flat arrays, each once however many shapes have it.

Coordinates are relative to the middle of the box around the mesh. Features, where contact can begin, stand in blocks of
neighbours with a sphere around each, and blocks in clusters, so that most of them are never looked at.
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import numpy as np

from limberjack.collision.grids import cores_of, grid_of
from limberjack.collision.surfaces import Surface, closed_surface, features_of, polygons_of

__all__ = ["MeshMaker", "Meshes"]

# Most features of a block, and blocks of a cluster.
_BLOCK, _CLUSTER = 8, 8
# Cells of the grid up to which an edge is short: between its ends the distance bends no more than the grid blurs it.
_SHORT = 1.5


class Meshes(NamedTuple):
    """Hulls and meshes, one after the other; m meshes, p polygons, k cores, f features in b blocks in c clusters."""

    vertices: np.ndarray  # (v, 3)
    mesh_vertex: np.ndarray  # (m + 1,) vertices of each mesh
    mesh_polygon: np.ndarray  # (m + 1,) polygons of each hull; meshes that are no hulls have none
    polygon_start: np.ndarray  # (p + 1,) corners of each polygon
    polygon_corner: np.ndarray  # vertices around each polygon
    polygon_normal: np.ndarray  # (p, 3)
    polygon_height: np.ndarray  # (p,) along its normal
    feature: np.ndarray  # (f, 6) middle and half edge
    mesh_cluster: np.ndarray  # (m + 1,) clusters of each mesh
    cluster_block: np.ndarray  # (c + 1,) blocks of each cluster
    cluster_sphere: np.ndarray  # (c, 4) middle and radius
    block_feature: np.ndarray  # (b + 1,) features of each block
    block_sphere: np.ndarray  # (b, 4) middle and radius
    mesh_core: np.ndarray  # (m + 1,) cores of each mesh
    core: np.ndarray  # (k, 4) spheres inside: middle and radius, the largest first
    grid_start: np.ndarray  # (m,) where the distances of each mesh begin
    grid_shape: np.ndarray  # (m, 3) nodes along each axis; zero for hulls
    grid_frame: np.ndarray  # (m, 4) first node and step
    grid: np.ndarray  # float32, all distances


class MeshMaker:
    """Gathers the meshes of a model."""

    def __init__(self) -> None:
        self._known: dict[bytes, tuple[int, bool, np.ndarray, np.ndarray, float]] = {}
        # what was given, kept: no other array can come to have its id
        self._same: dict[tuple[int, int], tuple[object, object, tuple[int, bool, np.ndarray, np.ndarray, float]]] = {}
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
        self._cores: list[np.ndarray] = [np.zeros((0, 4))]
        self._starts = {"vertex": [0], "polygon": [0], "cluster": [0], "core": [0]}

    def add(self, vertices: object, faces: object, name: str) -> tuple[int, bool, np.ndarray, np.ndarray, float]:
        """Add a mesh, if it is new; return its number, whether it is convex, its middle, half edges and radius.

        Args:
            vertices: (n, 3) [m].
            faces: (m, 3).
            name: what errors and warnings call it.
        """
        same = self._same.get((id(vertices), id(faces)))
        if same is not None:
            return same[2]
        points, triangles = np.ascontiguousarray(vertices, float), np.ascontiguousarray(faces, np.int64)
        key = hashlib.sha256(points.tobytes() + b"|" + triangles.tobytes()).digest()
        if key not in self._known:
            surface = closed_surface(points, triangles, name)
            low, high = surface.vertices.min(axis=0), surface.vertices.max(axis=0)
            middle = 0.5 * (low + high)
            surface = Surface(surface.vertices - middle, surface.faces, surface.convex)
            radius = float(np.linalg.norm(surface.vertices, axis=1).max())
            self._known[key] = len(self._known), surface.convex, middle, 0.5 * (high - low), radius
            self._put(surface)
        self._same[id(vertices), id(faces)] = vertices, faces, self._known[key]
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
            self._cores.append(cores_of(grid))
            self._grids.append(grid.values.reshape(-1))
            self._grid_rows.append((start, grid.values.shape, (*grid.origin.tolist(), grid.step)))
        self._put_features(features_of(surface, short))
        self._starts["vertex"].append(first + len(surface.vertices))
        self._starts["polygon"].append(len(self._polygons))
        self._starts["cluster"].append(len(self._cluster_spheres))
        self._starts["core"].append(sum(len(cores) for cores in self._cores))

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
            mesh_core=np.array(self._starts["core"], np.int64),
            core=np.concatenate(self._cores),
            grid_start=np.array([row[0] for row in self._grid_rows], np.int64),
            grid_shape=np.array([row[1] for row in self._grid_rows], np.int64).reshape(-1, 3),
            grid_frame=np.array([row[2] for row in self._grid_rows], float).reshape(-1, 4),
            grid=np.concatenate(self._grids),
        )


def _sphere(points: np.ndarray) -> np.ndarray:
    """Return middle and radius of a sphere around points."""
    middle = 0.5 * (points.min(axis=0) + points.max(axis=0))
    return np.append(middle, np.linalg.norm(points - middle, axis=1).max())
