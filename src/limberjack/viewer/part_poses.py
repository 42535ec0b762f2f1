"""`Composed`: poses of the parts of a drawing, from those of all bodies or of rigid clusters."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from limberjack._jit import inner, kernel
from limberjack.methods.adaptive.cluster_poses import ClusterPoses, OnLinks
from limberjack.spatial.frames import quaternion_from_matrix

if TYPE_CHECKING:
    from limberjack.viewer.drawing import Drawing

__all__ = ["Composed", "Shown", "place_parts", "show_parts"]

# Poses of parts: from their body to the world.

# Positions that have diverged are cut here, so that they stay finite in single precision.
_FAR = 1e30


@inner
def _carried(k, body, position, rotation, positions, rotations):
    """Return position (3) and rotation (4) of part k in the world."""
    i = body[k]
    x, y, z = position[k, 0], position[k, 1], position[k, 2]
    a, b, c, d = rotation[k, 0], rotation[k, 1], rotation[k, 2], rotation[k, 3]
    if i < 0:
        return x, y, z, a, b, c, d
    s, p, q, r = rotations[i, 0], rotations[i, 1], rotations[i, 2], rotations[i, 3]
    u, v, w = 2.0 * (q * z - r * y), 2.0 * (r * x - p * z), 2.0 * (p * y - q * x)
    return (
        positions[i, 0] + x + s * u + q * w - r * v,
        positions[i, 1] + y + s * v + r * u - p * w,
        positions[i, 2] + z + s * w + p * v - q * u,
        s * a - p * b - q * c - r * d,
        s * b + p * a + q * d - r * c,
        s * c - p * d + q * a + r * b,
        s * d + p * c - q * b + r * a,
    )


@kernel
def place_parts(
    # in
    body, position, rotation, positions, rotations,
    # out
    at, turn,
):  # fmt: skip
    """Write the poses of all parts in the world.

    Args:
        body: (parts,) which body a part is on; below 0 the world.
        position: (parts, 3) on the body.
        rotation: (parts, 4) on the body.
        positions: (bodies, 3).
        rotations: (bodies, 4).
        at: (parts, 3).
        turn: (parts, 4).
    """
    for k in range(body.shape[0]):
        x, y, z, a, b, c, d = _carried(k, body, position, rotation, positions, rotations)
        at[k, 0], at[k, 1], at[k, 2] = x, y, z
        turn[k, 0], turn[k, 1], turn[k, 2], turn[k, 3] = a, b, c, d


@kernel
def show_parts(
    # in
    body, position, rotation, positions, rotations, moving,
    # out
    at, turn, middle,
):  # fmt: skip
    """Write the poses of all parts for display, and the centre of those that move.

    Args:
        body, position, rotation, positions, rotations: as in `place_parts`.
        moving: (parts,) whether a part counts for the centre.
        at: (parts, 3), single precision, no number beyond 1e30.
        turn: (parts, 4), alike.
        middle: (3,).
    """
    sx, sy, sz, count = 0.0, 0.0, 0.0, 0
    for k in range(body.shape[0]):
        x, y, z, a, b, c, d = _carried(k, body, position, rotation, positions, rotations)
        if moving[k]:
            sx, sy, sz, count = sx + x, sy + y, sz + z, count + 1
        at[k, 0], at[k, 1], at[k, 2] = min(max(x, -_FAR), _FAR), min(max(y, -_FAR), _FAR), min(max(z, -_FAR), _FAR)
        turn[k, 0], turn[k, 1] = min(max(a, -_FAR), _FAR), min(max(b, -_FAR), _FAR)
        turn[k, 2], turn[k, 3] = min(max(c, -_FAR), _FAR), min(max(d, -_FAR), _FAR)
    share = 1.0 / max(1, count)
    middle[0], middle[1], middle[2] = share * sx, share * sy, share * sz


class Shown(NamedTuple):
    """What a frame needs, in single precision except for the centre."""

    positions: np.ndarray  # (parts, 3)
    rotations: np.ndarray  # (parts, 4)
    ends: np.ndarray  # (strings, 2, 3)
    middle: np.ndarray  # (3,) of the parts that move


class Composed:
    """The parts and ends of strings of `drawing`, each on the body and in the cluster it moves with."""

    def __init__(self, drawing: Drawing) -> None:
        self._drawing = drawing
        a, parts, strings = drawing.model.arrays, drawing.parts, drawing.strings
        still = np.tile((1.0, 0.0, 0.0, 0.0), (2 * len(strings.a), 1))
        self._count = len(parts.body)
        self._body = np.concatenate([parts.body, strings.a, strings.b]).astype(np.int64)
        self._place_on_body = (
            np.concatenate([parts.position, strings.at_a, strings.at_b]),
            np.concatenate([parts.rotation, still]),
        )
        self._moving = np.zeros(len(self._body), bool)
        self._moving[: self._count] = parts.body >= 0
        self._link = np.append(a.body_link, -1)[self._body].astype(np.int64)
        self._cluster_poses: ClusterPoses | None = None

    def by_bodies(self, positions: np.ndarray, rotations: np.ndarray) -> Shown:
        """Return what is displayed with the bodies at these poses."""
        return self._show(self._body, *self._place_on_body, positions, rotations)

    def by_clusters(self, cluster_roots: np.ndarray, q: np.ndarray) -> Shown:
        """Return what is displayed with these coordinates; only parts whose pose in a cluster changed are updated.

        Args:
            cluster_roots: (k,) root links of the clusters.
            q: (nq,) coordinates.
        """
        if self._cluster_poses is None:
            self._begin()
        assert self._cluster_poses is not None
        clusters = self._cluster_poses.report(cluster_roots, q, self._version)
        self._version = clusters.version
        for table, rows in zip(self._in_cluster, (clusters.pose[:, :3], clusters.pose[:, 3:]), strict=True):
            table[clusters.link] = rows
        self._head[clusters.link] = clusters.cluster
        which = self._on_links.on(clusters.link)
        if len(which):
            link = self._link[which]
            at, turn = _placed(link, self._on_link[0][which], self._on_link[1][which], *self._in_cluster)
            self._on_cluster[0][which], self._on_cluster[1][which] = at, turn
            self._cluster[which] = self._head[link]
        self._frames[0][cluster_roots], self._frames[1][cluster_roots] = clusters.positions, clusters.rotations
        return self._show(self._cluster, *self._on_cluster, *self._frames)

    def _begin(self) -> None:
        """Reset what is known of the clusters."""
        model = self._drawing.model
        n, offset = len(model.arrays.links.parent), model.arrays.body_offset
        turns = quaternion_from_matrix(offset[:, :9].reshape(-1, 3, 3))
        self._cluster_poses, self._version = ClusterPoses(model), -1
        self._on_link = _placed(self._body, *self._place_on_body, np.ascontiguousarray(offset[:, 9:]), turns)
        self._on_links = OnLinks(self._link, n)
        # poses of links in their clusters, and of clusters by their roots
        self._in_cluster = np.zeros((n, 3)), np.zeros((n, 4))
        self._frames = np.zeros((n, 3)), np.zeros((n, 4))
        self._head = np.full(n + 1, -1, np.int64)
        self._cluster = np.full(len(self._body), -1, np.int64)
        self._on_cluster = self._on_link[0].copy(), self._on_link[1].copy()

    def _show(
        self,
        frame: np.ndarray,
        position: np.ndarray,
        rotation: np.ndarray,
        positions: np.ndarray,
        rotations: np.ndarray,
    ) -> Shown:
        k = self._count
        at, turn = np.empty((len(frame), 3), np.float32), np.empty((len(frame), 4), np.float32)
        middle = np.empty(3)
        show_parts(frame, position, rotation, positions, rotations, self._moving, at, turn, middle)
        return Shown(at[:k], turn[:k], at[k:].reshape(2, -1, 3).transpose(1, 0, 2), middle)


def _placed(
    frame: np.ndarray, position: np.ndarray, rotation: np.ndarray, positions: np.ndarray, rotations: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return poses given in frames as poses in the outer frame; frame -1 is the outer one."""
    at, turn = np.empty((len(frame), 3)), np.empty((len(frame), 4))
    place_parts(frame, position, rotation, positions, rotations, at, turn)
    return at, turn
