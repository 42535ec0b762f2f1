"""Poses of links and rigid nodes in their clusters, and the order of active joints in a sweep."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from limberjack._jit import inner, outlined
from limberjack.model.model import Model
from limberjack.reduced.assembly_tree import FIRST_SIDE, KEEP, KEEP_A, KEEP_JOINT, SECOND_SIDE, SLOT, TOP, UP, Assembly
from limberjack.reduced.dca import ABOVE, BASE, HANDLE, JOINT, LEFT, PART, SOURCE, WIDE
from limberjack.reduced.joint_poses import child_pose, composed

__all__ = [
    "LinkMap",
    "cluster_pose",
    "lay_sweep",
    "locate",
    "new_link_map",
    "put_pose_row",
    "rigid_front_node",
    "sort_nodes",
]


class LinkMap(NamedTuple):
    """The cluster of each link, and the rows of its drives in the model."""

    rank: np.ndarray  # (nb,) bodies depth first
    node: np.ndarray  # (nb,) inner node of the joint above each body
    cluster: np.ndarray  # (nb,) cluster of a body that is the top of a rigid node
    pose: np.ndarray  # (nb - n, 12) pose in its cluster of a piece of a hub that is one
    scalar: np.ndarray  # (nv,) row of the scalar drive of a dof, -1 = none
    ball: np.ndarray  # (nv,) row of the ball drive that begins there, -1 = none
    sorted: np.ndarray  # (nb,) nodes while they are sorted
    spare: np.ndarray  # (nb,)


def new_link_map(model: Model, tree: Assembly) -> LinkMap:
    """Return the link map of `model`, no cluster filled."""
    a, n, nb = model.arrays, len(model.arrays.links.parent), len(tree.body_link)
    # A piece of a hub comes just before its first child.
    key = np.arange(nb, dtype=float)
    arms = np.flatnonzero(tree.body_parent[:n] >= n)
    key[tree.body_parent[arms][::-1]] = arms[::-1] - 0.5
    rank = np.empty(nb, np.int64)
    rank[np.argsort(key, kind="stable")] = np.arange(nb)
    scalar, ball = np.full(model.nv, -1, np.int64), np.full(model.nv, -1, np.int64)
    scalar[a.drives.indices[:, 1]] = np.arange(len(a.drives.indices))
    ball[a.drives.ball_indices[:, 1]] = np.arange(len(a.drives.ball_indices))
    none = np.zeros(nb, np.int64)
    return LinkMap(rank, tree.node_of, none, np.zeros((nb - n, 12)), scalar, ball, none.copy(), none.copy())


@inner
def _key(key, node):
    return key[node] if len(key) > 0 else node


@inner
def sort_nodes(n, key, nodes, spare):
    """Sort nodes[: n] by key[node], by their numbers if there are no keys; a sorted list takes n comparisons."""
    width = 1  # runs of doubled length are merged
    while width < n:
        low = 0
        while low + width < n:
            middle = low + width
            high = min(middle + width, n)
            if _key(key, nodes[middle - 1]) > _key(key, nodes[middle]):
                for k in range(low, high):
                    spare[k] = nodes[k]
                i, j = low, middle
                for k in range(low, high):
                    if i < middle and (j >= high or _key(key, spare[i]) <= _key(key, spare[j])):
                        nodes[k] = spare[i]
                        i += 1
                    else:
                        nodes[k] = spare[j]
                        j += 1
            low = high
        width *= 2


@inner
def rigid_front_node(table, active_region, node, slot):
    """Return (node, handle): the node of the rigid front that holds handle `slot` of `node`, and its handle there."""
    while active_region[node]:
        if slot == 0:
            node = table[node, FIRST_SIDE]
        else:
            keep = table[node, KEEP]
            node = table[node, FIRST_SIDE] if keep == KEEP_A else table[node, SECOND_SIDE]
            slot = 0 if keep == KEEP_JOINT else 1
    return node, slot


@outlined
def lay_sweep(table, active_region, order, node_of, count, index, joints):
    """Fill the table of a sweep over the `count` active joints above the bodies in `order`, depth first.

    Args:
        index: (m,) scratch, rows of the table by node.
        joints: (nb, SWEEP) see `dca.py`.
    """
    for j in range(count):
        node = node_of[order[j]]
        part, _ = rigid_front_node(table, active_region, table[node, SECOND_SIDE], 0)
        index[node] = j
        joints[j, JOINT], joints[j, PART], joints[j, SOURCE], joints[j, LEFT] = node, part, part, 0
        joints[j, ABOVE], joints[j, HANDLE], joints[j, BASE], joints[j, WIDE] = -1, 0, part, 0
        if table[node, FIRST_SIDE] >= 0:
            over, handle = rigid_front_node(table, active_region, table[node, FIRST_SIDE], table[node, SLOT])
            k = index[node_of[table[over, TOP]]]
            joints[j, ABOVE], joints[j, HANDLE] = k, handle
            joints[k, LEFT] += handle
    for j in range(count - 1, -1, -1):
        k = joints[j, ABOVE]
        if k >= 0:
            joints[k, LEFT] -= joints[j, HANDLE]
            joints[j, BASE], joints[j, WIDE] = joints[k, SOURCE], joints[k, LEFT] > 0
            joints[k, SOURCE] = joints[k, JOINT]


@inner
def cluster_pose(links, link_map, body):
    """Return the pose in its cluster of the top of a rigid node."""
    n = len(links.parent)
    if body < n:
        return (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0), 0.0, 0.0, 0.0
    p, k = link_map.pose, body - n
    r = (p[k, 0], p[k, 1], p[k, 2], p[k, 3], p[k, 4], p[k, 5], p[k, 6], p[k, 7], p[k, 8])
    return r, p[k, 9], p[k, 10], p[k, 11]


@inner
def put_pose_row(a, k, r, x, y, z):
    """Write a pose into row k of a."""
    a[k, 0], a[k, 1], a[k, 2], a[k, 3], a[k, 4], a[k, 5] = r[0], r[1], r[2], r[3], r[4], r[5]
    a[k, 6], a[k, 7], a[k, 8], a[k, 9], a[k, 10], a[k, 11] = r[6], r[7], r[8], x, y, z


@inner
def locate(links, table, c, active_region, link_map, link):
    """Return (cluster, rotation, position): the pose of a link in its cluster; of cluster -1, in the world."""
    r, x, y, z = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0), 0.0, 0.0, 0.0
    node = link
    up = table[node, UP]
    while up >= 0 and not active_region[up]:
        if table[up, SECOND_SIDE] == node:
            a, ax, ay, az = child_pose(table, c, up)
            r, x, y, z = composed(a, ax, ay, az, r, x, y, z)
        node = up
        up = table[node, UP]
    if up < 0:
        return -1, r, x, y, z
    top = table[node, TOP]
    if top >= len(links.parent):
        a, ax, ay, az = cluster_pose(links, link_map, top)
        r, x, y, z = composed(a, ax, ay, az, r, x, y, z)
    return link_map.cluster[top], r, x, y, z
