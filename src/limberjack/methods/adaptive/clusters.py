"""Rigid clusters as one thing each: where they are now, and which links they are made of.

A cluster is named by its first link, the one its active joint moves; its frame is that link's. What a link's place in
its cluster is, changes only with the active region and with coordinates set from outside. So a report has the poses of
all clusters, which costs what the active joints cost, and the places of those links only that are news to whoever asks.
"""

from __future__ import annotations

from collections import deque
from itertools import count
from typing import Any, NamedTuple

import numpy as np

from limberjack._jit import inner, kernel
from limberjack.articulated.joint_poses import composed, joint_pose, put_pose
from limberjack.articulated.parts import pose
from limberjack.model.arrays import LINK
from limberjack.model.model import Model
from limberjack.spatial.quaternions import quaternion_from_matrix

__all__ = ["ClusterPlaces", "Clusters", "OnLinks"]

# Versions are never used twice: what is known of one simulation is not taken for knowledge of another.
_versions = count(1)


class Clusters(NamedTuple):
    """Where k rigid clusters are, and the places of m links in theirs."""

    version: int  # of the make-up of the clusters, to be asked for news with
    since: int  # the news are complete for who knows this version; -1 = for anybody
    link_count: int  # of the model
    head: np.ndarray  # (k,) first link of each cluster
    positions: np.ndarray  # (k, 3) of their frames in the world [m]
    rotations: np.ndarray  # (k, 4)
    link: np.ndarray  # (m,) links whose places are news
    cluster: np.ndarray  # (m,) first link of the cluster each is in, -1 = it rests in the world
    place: np.ndarray  # (m, 7) pose there: position, quaternion


class OnLinks:
    """Which of many things, each on one link, are on given links.

    Args:
        link: (k,) the link of each, -1 = none.
        count: links there are.
    """

    def __init__(self, link: np.ndarray, count: int) -> None:
        self._order = np.argsort(link, kind="stable")
        self._first = np.searchsorted(link[self._order], np.arange(count + 1))

    def on(self, links: np.ndarray) -> np.ndarray:
        """Return the things on these links."""
        begin, size = self._first[links], self._first[links + 1] - self._first[links]
        ends = np.cumsum(size)
        return self._order[np.repeat(begin - (ends - size), size) + np.arange(ends[-1] if len(ends) else 0)]


@inner
def _put_seven(a, k, r, x, y, z):
    """Write a pose as position and quaternion into row k of a."""
    a[k, 0], a[k, 1], a[k, 2] = x, y, z
    a[k, 3], a[k, 4], a[k, 5], a[k, 6] = quaternion_from_matrix(r)


@kernel
def place_clusters(
    # model
    links, ends,
    # in
    n, hybrid, hybrid_q, q, still, work, changed, was, now, stamp,
    # out
    seen, frames, news, head, pose_in, place, world,
):  # fmt: skip
    """Find the poses of the n clusters of a hybrid body, and where links are in those that changed.

    Args:
        ends: (links,) one past the last link of the branch that begins at each.
        n: clusters.
        hybrid, hybrid_q: links and coordinates of the hybrid body.
        q: (nq,) coordinates of the model, right for links that are not active.
        still, work: see `joint_pose`.
        changed: (m,) links that became active or ceased to be, ascending.
        was, now: (links,) which links are active, then and now.
        stamp: a number above all in `seen`.
        seen: (links,) stamp of the call that last placed a link.
        frames: (1, 12 links) scratch, poses of the clusters.
        news: (links,) the links placed by this call.
        head: (links,) first link of the cluster of each, -1 = the world.
        pose_in: (1, 12 links) pose of each in its cluster.
        place: (links, 7) the same as position and quaternion.
        world: (n, 7) poses of the clusters.

    Returns:
        how many links were placed.
    """
    for k in range(n):
        r, x, y, z = joint_pose(hybrid, k, hybrid_q, still, work)
        p = hybrid.parent[k]
        if p >= 0:
            a, ax, ay, az = pose(frames, 12 * p)
            r, x, y, z = composed(a, ax, ay, az, r, x, y, z)
        put_pose(frames, 12 * k, r, x, y, z)
        _put_seven(world, k, r, x, y, z)
    placed = 0
    for c in range(len(changed)):
        i = changed[c]
        j = i if seen[i] < stamp else ends[i]
        while j < ends[i]:
            if j > i and was[j] and now[j]:
                j = ends[j]  # a cluster of its own, before and after
                continue
            r, x, y, z = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0), 0.0, 0.0, 0.0
            head[j] = j
            if not now[j]:
                r, x, y, z = joint_pose(links, j, q, still, work)
                p = links.parent[j]
                head[j] = head[p] if p >= 0 else -1
                if p >= 0:
                    a, ax, ay, az = pose(pose_in, 12 * p)
                    r, x, y, z = composed(a, ax, ay, az, r, x, y, z)
            put_pose(pose_in, 12 * j, r, x, y, z)
            _put_seven(place, j, r, x, y, z)
            seen[j] = stamp
            news[placed] = j
            placed += 1
            j += 1
    return placed


class ClusterPlaces:
    """Keeps where the links of `model` are in their clusters, and who knows what of it."""

    def __init__(self, model: Model) -> None:
        self._model, links = model, model.arrays.links
        n = len(links.parent)
        self._ends = np.arange(1, n + 1)
        for i in range(n - 1, -1, -1):
            if links.parent[i] >= 0:
                self._ends[links.parent[i]] = max(self._ends[links.parent[i]], self._ends[i])
        self._was, self._now = np.zeros(n, np.uint8), np.zeros(n, np.uint8)
        self._seen, self._news, self._head = np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n, np.int64)
        self._frames, self._pose_in, self._place = np.zeros((1, 12 * n)), np.zeros((1, 12 * n)), np.zeros((n, 7))
        self.forget()

    def forget(self) -> None:
        """Take note that coordinates were set: all links are placed again by the next report."""
        self._heads: np.ndarray | None = None
        self._log: deque[tuple[int, np.ndarray]] = deque()
        self._logged = 0

    def report(self, body: Any, engine: Any, since: int) -> Clusters:
        """Return the clusters of a hybrid body, with what is news since version `since`.

        Args:
            body: the hybrid body.
            engine: coordinates of the model and scratch.
            since: a version that was reported before; any other makes everything news.
        """
        n, links = int(body.whole[LINK + 1]), self._model.arrays.links
        heads, whole = body.link[:n].copy(), self._heads is None
        if self._heads is None:
            self._was[:] = self._now[:] = 0
            self._now[heads] = 1
            changed = np.flatnonzero(links.parent < 0)
        else:
            changed = np.setxor1d(self._heads, heads, assume_unique=True)
            self._now[changed] ^= 1
        if whole or len(changed):
            self.version = next(_versions)
        world = np.empty((n, 7))
        placed = place_clusters(
            links, self._ends, n, body.links, body.q, engine.q, engine.still, engine.joint_work, changed, self._was,
            self._now, self.version, self._seen, self._frames, self._news, self._head, self._pose_in, self._place,
            world,
        )  # fmt: skip
        self._heads = heads
        if whole:
            self._was[:], self._oldest = self._now, self.version
        elif len(changed):
            self._was[changed] = self._now[changed]
            self._note(self._news[:placed].copy())
        known = since >= self._oldest
        link = self._since(since) if known else np.arange(len(links.parent))
        return Clusters(
            self.version, since if known else -1, len(links.parent), heads, world[:, :3].copy(), world[:, 3:].copy(),
            link, self._head[link], self._place[link],
        )  # fmt: skip

    def _note(self, news: np.ndarray) -> None:
        """Write down which links were placed; what is as long as the model is forgotten."""
        self._log.append((self.version, news))
        self._logged += len(news)
        while self._logged > len(self._ends):
            self._oldest, old = self._log.popleft()
            self._logged -= len(old)

    def _since(self, version: int) -> np.ndarray:
        """Return the links placed since a version, each once."""
        later = [news for number, news in self._log if number > version]
        if not later:
            return np.zeros(0, np.int64)
        return later[0] if len(later) == 1 else np.unique(np.concatenate(later))
