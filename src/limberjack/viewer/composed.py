"""`Composed`: where the parts of a drawing are, from the poses of rigid clusters instead of those of all bodies."""

from __future__ import annotations

import numpy as np

from limberjack.methods.adaptive.clusters import Clusters, OnLinks
from limberjack.render.drawing import Drawing
from limberjack.render.places import place_parts
from limberjack.spatial.frames import quaternion_from_matrix

__all__ = ["Composed"]


class Composed:
    """The parts and ends of strings of `drawing`, each in the cluster it moves with.

    Attributes:
        version: of the clusters known, to be asked for news with; -1 = none.
    """

    def __init__(self, drawing: Drawing) -> None:
        a, parts, strings = drawing.model.arrays, drawing.parts, drawing.strings
        n, still = len(a.links.parent), np.tile((1.0, 0.0, 0.0, 0.0), (2 * len(strings.a), 1))
        self.version, self._parts, self._count = -1, len(parts.body), n
        body = np.concatenate([parts.body, strings.a, strings.b]).astype(np.int64)
        position = np.concatenate([parts.position, strings.at_a, strings.at_b])
        rotation = np.concatenate([parts.rotation, still])
        offset = a.body_offset
        turns = quaternion_from_matrix(offset[:, :9].reshape(-1, 3, 3))
        self._on_link = _placed(body, position, rotation, np.ascontiguousarray(offset[:, 9:]), turns)
        self._link = np.append(a.body_link, -1)[body].astype(np.int64)
        self._on_links = OnLinks(self._link, n)
        # poses of links in their clusters, and of clusters by their first links
        self._in_cluster = np.zeros((n, 3)), np.zeros((n, 4))
        self._frames = np.zeros((n, 3)), np.zeros((n, 4))
        self._head = np.full(n + 1, -1, np.int64)
        self._cluster = np.full(len(body), -1, np.int64)
        self._place = self._on_link[0].copy(), self._on_link[1].copy()

    def take(self, clusters: Clusters) -> bool:
        """Take the clusters of now; return whether they could be: news of changes unknown are left."""
        if clusters.link_count != self._count or clusters.since > self.version:
            return False
        for table, rows in zip(self._in_cluster, (clusters.place[:, :3], clusters.place[:, 3:]), strict=True):
            table[clusters.link] = rows
        self._head[clusters.link] = clusters.cluster
        which = self._on_links.on(clusters.link)
        if len(which):
            link = self._link[which]
            at, turn = _placed(link, self._on_link[0][which], self._on_link[1][which], *self._in_cluster)
            self._place[0][which], self._place[1][which] = at, turn
            self._cluster[which] = self._head[link]
        self._frames[0][clusters.head], self._frames[1][clusters.head] = clusters.positions, clusters.rotations
        self.version = clusters.version
        return True

    def poses(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return positions (parts, 3) and rotations (parts, 4) of all parts, and the ends (strings, 2, 3)."""
        at, turn = _placed(self._cluster, *self._place, *self._frames)
        k = self._parts
        return at[:k], turn[:k], at[k:].reshape(2, -1, 3).transpose(1, 0, 2)


def _placed(
    frame: np.ndarray, position: np.ndarray, rotation: np.ndarray, positions: np.ndarray, rotations: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return poses given in frames where those frames are given; frame -1 is the outer one."""
    at, turn = np.empty((len(frame), 3)), np.empty((len(frame), 4))
    place_parts(frame, position, rotation, positions, rotations, at, turn)
    return at, turn
