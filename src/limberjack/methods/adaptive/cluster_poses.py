"""Poses of rigid clusters, and of links in them.

A cluster is named by its root, the link its active joint moves; its frame is that link's. The pose of a link in its
cluster changes only with the active region and with coordinates set from outside. So a report has the poses of all
clusters, and the poses of only those links that changed since the version the caller knows. It is computed from
coordinates and cluster roots alone, so that a viewer can do so on its own thread.
"""

from __future__ import annotations

from collections import deque
from itertools import count
from typing import NamedTuple

import numpy as np

from limberjack._jit import inner, kernel
from limberjack.model.arrays import SPAN
from limberjack.model.model import Model
from limberjack.reduced.assembly_tree import pose
from limberjack.reduced.joint_poses import composed, joint_pose, put_pose
from limberjack.reduced.work import new_work
from limberjack.spatial.quaternions import quaternion_from_matrix

__all__ = ["ClusterPoses", "Clusters", "OnLinks"]

# Versions are never used twice: a version of one simulation is not mistaken for one of another.
_versions = count(1)


class Clusters(NamedTuple):
    """The poses of k rigid clusters, and of m links in theirs."""

    version: int  # of the composition of the clusters, to be passed as `since` to the next report
    since: int  # the changes are complete since this version; -1 = all links are listed
    link_count: int  # of the model
    root: np.ndarray  # (k,) root link of each cluster
    positions: np.ndarray  # (k, 3) of their frames in the world [m]
    rotations: np.ndarray  # (k, 4)
    link: np.ndarray  # (m,) links whose poses or clusters changed
    cluster: np.ndarray  # (m,) root link of the cluster each is in, -1 = it rests in the world
    pose: np.ndarray  # (m, 7) pose there: position, quaternion


class OnLinks:
    """Index of objects by the link they are on.

    Args:
        link: (k,) the link of each, -1 = none.
        count: links there are.
    """

    def __init__(self, link: np.ndarray, count: int) -> None:
        self._order = np.argsort(link, kind="stable")
        self._first = np.searchsorted(link[self._order], np.arange(count + 1))

    def on(self, links: np.ndarray) -> np.ndarray:
        """Return the objects on these links."""
        begin, size = self._first[links], self._first[links + 1] - self._first[links]
        ends = np.cumsum(size)
        return self._order[np.repeat(begin - (ends - size), size) + np.arange(ends[-1] if len(ends) else 0)]


@inner
def _store_pose(a, k, r, x, y, z):
    """Write a pose as position and quaternion into row k of a."""
    a[k, 0], a[k, 1], a[k, 2] = x, y, z
    a[k, 3], a[k, 4], a[k, 5], a[k, 6] = quaternion_from_matrix(r)


@inner
def _changed(links, i, q, was, now, known):
    """Return whether link i became active or rigid, or rests at other coordinates than known; store its coordinates."""
    changed, resting = was[i] != now[i], now[i] == 0
    last = links.q_start[i + 1] if i + 1 < len(now) else len(q)
    for c in range(links.q_start[i], last):
        if resting and q[c] != known[c]:
            changed = True
        known[c] = q[c]
    return changed


@inner
def _place_subtree(links, i, end, q, still, work, stamp, was, now, placed, seen, changed, root, pose_in, link_pose):
    """Fill the poses of link i and those below up to `end`, but for unchanged clusters; return how many are filled."""
    j = i
    while j < end[i]:
        if j > i and was[j] and now[j]:
            j = end[j]  # a cluster of its own, before and after
            continue
        r, x, y, z = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0), 0.0, 0.0, 0.0
        root[j] = j
        if not now[j]:
            r, x, y, z = joint_pose(links, j, q, still, work)
            p = links.parent[j]
            root[j] = root[p] if p >= 0 else -1
            if p >= 0:
                a, ax, ay, az = pose(pose_in, 12 * p)
                r, x, y, z = composed(a, ax, ay, az, r, x, y, z)
        put_pose(pose_in, 12 * j, r, x, y, z)
        _store_pose(link_pose, j, r, x, y, z)
        seen[j] = stamp
        changed[placed] = j
        placed += 1
        j += 1
    return placed


@kernel
def update_cluster_poses(
    # model
    links, end,
    # in
    q, still, work, roots, stamp,
    # out
    was, now, known, seen, changed, root, pose_in, link_pose, frames, world,
):  # fmt: skip
    """Fill the poses of links in clusters that changed since the last call, and the poses of all clusters.

    Args:
        end: (links,) one past the last link of the subtree of each.
        q: (nq,) coordinates.
        still, work: see `joint_pose`.
        roots: (n,) root links of the clusters, ascending.
        stamp: a number above all in `seen`.
        was, now: (links,) which links are active, at the last call and now.
        known: (nq,) coordinates at the last call.
        seen: (links,) stamp of the call that last placed a link.
        changed: (links,) the links placed by this call.
        root: (links,) root link of the cluster of each, -1 = the world.
        pose_in: (1, 12 links) pose of each in its cluster.
        link_pose: (links, 7) the same as position and quaternion.
        frames: (1, 12 links) poses of the clusters, by root link.
        world: (n, 7) the same as position and quaternion.

    Returns:
        how many links were placed.
    """
    placed = 0
    for i in range(len(now)):
        now[i] = 0
    for i in roots:
        now[i] = 1
    for i in range(len(now)):
        if _changed(links, i, q, was, now, known) and seen[i] < stamp:
            placed = _place_subtree(
                links, i, end, q, still, work, stamp, was, now, placed, seen, changed, root, pose_in, link_pose
            )
    for i in range(len(now)):
        was[i] = now[i]
    for k in range(len(roots)):
        i = roots[k]
        r, x, y, z = joint_pose(links, i, q, still, work)
        p = links.parent[i]
        if p >= 0:
            a, ax, ay, az = pose(pose_in, 12 * p)
            r, x, y, z = composed(a, ax, ay, az, r, x, y, z)
            if root[p] >= 0:
                a, ax, ay, az = pose(frames, 12 * root[p])
                r, x, y, z = composed(a, ax, ay, az, r, x, y, z)
        put_pose(frames, 12 * i, r, x, y, z)
        _store_pose(world, k, r, x, y, z)
    return placed


class ClusterPoses:
    """The poses of the links of `model` in their clusters, with a log of changes by version."""

    def __init__(self, model: Model) -> None:
        self._links = links = model.arrays.links
        n = len(links.parent)
        parent, end = links.parent.tolist(), list(range(1, n + 1))  # lists: ten times faster than arrays here
        for i in range(n - 1, -1, -1):
            if parent[i] >= 0 and end[i] > end[parent[i]]:
                end[parent[i]] = end[i]
        self._end = np.array(end, np.int64)
        self._still, self._work = np.zeros(model.nv), new_work(links, np.zeros((0, SPAN), np.int64))
        self._was, self._now, self._known = np.zeros(n, np.uint8), np.zeros(n, np.uint8), np.full(model.nq, np.nan)
        self._seen, self._changed, self._root = np.zeros(n, np.int64), np.zeros(n, np.int64), np.full(n, -1, np.int64)
        self._frames, self._pose_in, self._poses = np.zeros((1, 12 * n)), np.zeros((1, 12 * n)), np.zeros((n, 7))
        self.version, self._stamp = -1, 0
        self._log: deque[tuple[int, np.ndarray]] = deque()
        self._logged = 0

    def report(self, roots: np.ndarray, q: np.ndarray, since: int) -> Clusters:
        """Return the clusters, with the changes since version `since`.

        Args:
            roots: (n,) root links of the clusters.
            q: (nq,) coordinates.
            since: a version reported before; for any other all links are listed.
        """
        world, self._stamp = np.empty((len(roots), 7)), self._stamp + 1
        if not q.flags.writeable:
            q = q.copy()  # a read-only array would be another type to the kernel and compile it once more
        placed = update_cluster_poses(
            self._links, self._end, q, self._still, self._work, roots, self._stamp, self._was, self._now, self._known,
            self._seen, self._changed, self._root, self._pose_in, self._poses, self._frames, world,
        )  # fmt: skip
        if self.version < 0:
            self.version = self._oldest = next(_versions)
        elif placed:
            self.version = next(_versions)
            self._log_changes(self._changed[:placed].copy())
        known = since >= self._oldest
        link = self._since(since) if known else np.arange(len(self._end))
        return Clusters(
            self.version, since if known else -1, len(self._end), roots, world[:, :3], world[:, 3:], link,
            self._root[link], self._poses[link],
        )  # fmt: skip

    def _log_changes(self, changed: np.ndarray) -> None:
        """Log which links changed; drop the oldest entries once the log is longer than the model."""
        self._log.append((self.version, changed))
        self._logged += len(changed)
        while self._logged > len(self._end):
            self._oldest, old = self._log.popleft()
            self._logged -= len(old)

    def _since(self, version: int) -> np.ndarray:
        """Return the links that changed since a version, each once."""
        later: list[np.ndarray] = []
        for number, changed in reversed(self._log):  # a caller that reads every report needs the last entry alone
            if number <= version:
                break
            later.append(changed)
        if not later:
            return np.zeros(0, np.int64)
        return later[0] if len(later) == 1 else np.unique(np.concatenate(later))
