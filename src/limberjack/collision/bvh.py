"""Broad phase over bounding volume hierarchies: boxes of rigid parts are descended only where something is near.

A tree is cut into rigid *parts*, each on one link: a node of a part has a box in its own frame, which is constant while
the part is rigid, and the pose of its second child in that frame. The nodes above the parts join parts that move
relative to each other. Pairs of nodes are descended at once where their boxes in the world overlap. Nodes that no
descent reaches cost nothing: their poses are not computed, and nothing of them is cleared.

    leaf        a link with its shapes, or one static shape
    part        top node of a rigid subtree, on a link, or static (link -1)
    joining     nodes above parts: moving joints, then pairs of trees

The pose of a node on its link is computed when it is first reached after the parts have changed; its box in the world,
when it is first reached in a step. The pairs are those that comparing all shapes would find, in the same order.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from limberjack._jit import inner, outlined
from limberjack.collision.broad import above, allowed, apart, boxes_of, place_shape, put_pair
from limberjack.collision.shapes import PLANE, Shapes
from limberjack.spatial.quaternions import quaternion_from_matrix, quaternion_multiply, rotation_from_quaternion
from limberjack.spatial.vectors import cross, multiply, rotate

__all__ = ["Bvh", "find_bvh_pairs", "merge_boxes", "move_parts", "new_bvh", "no_bvh", "with_parts"]

# Columns of `mark`: round in which a node was placed on its link, step in which its box in the world was found, round
# in which it was the top of a part, and of which.
KNOWN, SEEN, IS_TOP, PART, MARKS = range(5)
# Indices of `stamp`: round of parts, step, root of all trees, -1 = there is none.
ROUND, STEP, ROOT = range(3)
# Columns of `parts`: pose of the top on its link, pose of the link in the world, its rotation and displacement in the
# coming step, how far its shapes move (negative: computed for each), and how far they fall.
ON, AT, TURN, MOVE, REACH, FALL, NUMBERS = 0, 12, 24, 27, 30, 31, 32
# Shapes within a box of half diagonal d: their distance from its centre and their radius are no more than sqrt(2) d.
_AROUND = 1.5
# Part of all distances by which round-off may move a box.
_SLACK = 1e-9


class Bvh(NamedTuple):
    """Bounding volume hierarchies of m nodes over s shapes, cut into t parts."""

    child: np.ndarray  # (m, 2) the first -1 where there is none; leaves: start in `shape`, -1 - number of shapes
    pose: np.ndarray  # (m, 12) of the second child in the node's frame, which is that of its first child
    box: np.ndarray  # (m, 6) centre and half edges, node's axes; negative: empty
    shape: np.ndarray  # shapes by leaves
    shape_offset: np.ndarray  # (s, 7) of shapes on their leaves
    top: np.ndarray  # (t, 2) node and link of each part
    parts: np.ndarray  # (t, NUMBERS)
    joining: np.ndarray  # nodes above parts, lower ones first
    where: np.ndarray  # (m, 12) poses of nodes on the links of their parts
    inside: np.ndarray  # (m, 6) boxes there
    bounds: np.ndarray  # (m, 6) and in the world, with half the margin and the reach
    mark: np.ndarray  # (m, MARKS)
    placed: np.ndarray  # (s, 2) round and step in which a shape was placed on its link and in the world
    stamp: np.ndarray  # (3,)
    stack: np.ndarray  # (k, 4) pairs of nodes still to visit, and their parts, -1 = joining


def no_bvh() -> Bvh:
    """Return an empty BVH: pairs are then found by `find_pairs`."""
    none, whole = np.zeros((0, 12)), np.zeros((0, 2), np.int64)
    return Bvh(
        whole, none, np.zeros((0, 6)), np.zeros(0, np.int64), np.zeros((0, 7)), whole, np.zeros((0, NUMBERS)),
        np.zeros(0, np.int64), none, np.zeros((0, 6)), np.zeros((0, 6)), np.zeros((0, MARKS), np.int64), whole,
        np.zeros(3, np.int64), np.zeros((0, 4), np.int64),
    )  # fmt: skip


def new_bvh(shapes: Shapes, first: np.ndarray, second: np.ndarray, roots: np.ndarray, depth: int) -> Bvh:
    """Return the trees over the links of `shapes`, over static shapes, and the nodes that join them; no parts yet.

    Boxes of leaves are filled, those of inner nodes and poses are not.

    Args:
        shapes: with the links that the leaves are; node i < number of leaves is link i, where there is one.
        first, second: (m,) children of inner nodes; -1 at leaves, and the first of roots.
        roots: (trees,) nodes.
        depth: of the deepest node.
    """
    m, s = len(first), len(shapes.kind)
    solid = np.flatnonzero(shapes.kind != PLANE)
    still, moving = solid[shapes.link[solid] < 0], solid[shapes.link[solid] >= 0]
    moving = moving[np.argsort(shapes.link[moving], kind="stable")]
    k = len(still)
    above_all = len(roots) + (k > 0)
    size = m + max(2 * k - 1, 0) + max(above_all - 1, 0)
    child, box = np.full((size, 2), -1, np.int64), np.full((size, 6), -1.0)
    child[:m, 0], child[:m, 1] = first, second
    low, high = boxes_of(shapes)
    leaves = np.flatnonzero(second < 0)
    start, end = np.searchsorted(shapes.link[moving], leaves), np.searchsorted(shapes.link[moving], leaves + 1)
    child[leaves] = np.stack([start, -1 - (end - start)], axis=1)
    for leaf, i, j in zip(leaves[end > start], start[end > start], end[end > start], strict=True):
        box[leaf] = _around(low[moving[i:j]].min(axis=0), high[moving[i:j]].max(axis=0))
    tops, at = list(roots), m
    if k:
        at = _build_static(still, len(moving), low, high, at, child, box)
        tops.insert(0, m)
    while len(tops) > 1:
        pairs = len(tops) // 2
        new = at + np.arange(pairs)
        child[new, 0], child[new, 1], at = tops[0 : 2 * pairs : 2], tops[1 : 2 * pairs : 2], at + pairs
        tops = [*new, *tops[2 * pairs :]]
    pose = np.zeros((size, 12))
    pose[m:, [0, 4, 8]] = 1.0  # static shapes all have the world's frame
    stamp = np.array([0, 0, tops[0] if tops else -1], np.int64)
    deep = depth + 2 * int(k + 1).bit_length() + 2 * int(above_all + 1).bit_length() + 8
    return no_bvh()._replace(
        child=child, pose=pose, box=box, shape=np.concatenate([moving, still]),
        shape_offset=shapes.offset.copy(), where=np.zeros((size, 12)), inside=np.zeros((size, 6)),
        bounds=np.zeros((size, 6)), mark=np.full((size, MARKS), -1, np.int64),
        placed=np.full((s, 2), -1, np.int64), stamp=stamp,
        stack=np.zeros((4 * deep, 4), np.int64), joining=np.arange(m + max(2 * k - 1, 0), size),
    )  # fmt: skip


def _around(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    return np.concatenate([0.5 * (low + high), 0.5 * (high - low)])


def _build_static(
    still: np.ndarray, start: int, low: np.ndarray, high: np.ndarray, at: int, child: np.ndarray, box: np.ndarray
) -> int:
    """Build the tree over static shapes, halved across their longest extent, from node `at` on; return the next node.

    `still` is sorted in the order of the leaves, which begin at `start` in `shape`.
    """
    middle = 0.5 * (low + high)
    todo, node = [(0, len(still), at)], at + 1
    while todo:
        i, j, here = todo.pop()
        box[here] = _around(low[still[i:j]].min(axis=0), high[still[i:j]].max(axis=0))
        if j - i == 1:
            child[here] = start + i, -2
            continue
        axis = int(np.argmax(np.ptp(middle[still[i:j]], axis=0)))
        still[i:j] = still[i:j][np.argsort(middle[still[i:j], axis], kind="stable")]
        child[here], half = (node, node + 1), (i + j) // 2
        todo += [(i, half, node), (half, j, node + 1)]
        node += 2
    return node


def with_parts(
    bvh: Bvh, node: np.ndarray, link: np.ndarray, on: np.ndarray, joining: np.ndarray, fixed: np.ndarray
) -> Bvh:
    """Return the trees cut into other parts.

    Args:
        bvh: the trees.
        node, link, on: (t,), (t,), (t, 12) tops of the parts, their links (-1 = static), and their poses on these.
        joining: nodes above them, lower ones first.
        fixed: further nodes that are static parts, with the world's frame for their own.
    """
    t = len(node)
    top = np.full((t + len(fixed), 2), -1, np.int64)
    top[:t, 0], top[:t, 1], top[t:, 0] = node, link, fixed
    parts = np.zeros((len(top), NUMBERS))
    parts[:, [ON, ON + 4, ON + 8, AT, AT + 4, AT + 8]] = 1.0
    parts[:t, ON : ON + 12] = on
    bvh.stamp[ROUND] += 1
    bvh.mark[top[:, 0], IS_TOP], bvh.mark[top[:, 0], PART] = bvh.stamp[ROUND], np.arange(len(top))
    return bvh._replace(top=top, parts=parts, joining=joining)


@inner
def _box_in(box, node, r, x, y, z):
    """Return centre and half edges of a node's box in a frame in which the node has the pose (r, x, y, z)."""
    mx, my, mz = rotate(r, box[node, 0], box[node, 1], box[node, 2])
    hx, hy, hz = box[node, 3], box[node, 4], box[node, 5]
    return (
        x + mx, y + my, z + mz,
        abs(r[0]) * hx + abs(r[1]) * hy + abs(r[2]) * hz,
        abs(r[3]) * hx + abs(r[4]) * hy + abs(r[5]) * hz,
        abs(r[6]) * hx + abs(r[7]) * hy + abs(r[8]) * hz,
    )  # fmt: skip


@inner
def _pose_at(a, k, o):
    """Return the rotation and position from column o of row k."""
    r = a[k, o], a[k, o + 1], a[k, o + 2], a[k, o + 3], a[k, o + 4], a[k, o + 5], a[k, o + 6], a[k, o + 7], a[k, o + 8]
    return r, a[k, o + 9], a[k, o + 10], a[k, o + 11]


@inner
def merge_boxes(node, bvh):
    """Fill the box of an inner node from those of its children and the pose of the second."""
    box, a, b = bvh.box, bvh.child[node, 0], bvh.child[node, 1]
    full = a >= 0 and box[a, 3] >= 0.0
    if box[b, 3] >= 0.0:
        r, x, y, z = _pose_at(bvh.pose, node, 0)
        e = _box_in(box, b, r, x, y, z)
        for c in range(3):
            low, high = e[c] - e[3 + c], e[c] + e[3 + c]
            if full:
                low, high = min(low, box[a, c] - box[a, 3 + c]), max(high, box[a, c] + box[a, 3 + c])
            box[node, c], box[node, 3 + c] = 0.5 * (low + high), 0.5 * (high - low)
    else:
        for c in range(6):
            box[node, c] = box[a, c] if full else -1.0


@outlined
def move_parts(pose, speeds, reach, h, fall, bvh):
    """Fill the poses, motions and reach of the parts' links for the coming step.

    Args:
        pose, speeds, reach: (n, 7), (n, 6), (n,) of links.
        h: length of the step [s].
        fall: how far a body falls in it [m].
        bvh: the trees.
    """
    for t in range(len(bvh.top)):
        node, i, p = bvh.top[t, 0], bvh.top[t, 1], bvh.parts
        if i < 0:
            continue
        r = rotation_from_quaternion(pose[i, 3], pose[i, 4], pose[i, 5], pose[i, 6])
        for c in range(9):
            p[t, AT + c] = r[c]
        for c in range(3):
            p[t, AT + 9 + c], p[t, TURN + c], p[t, MOVE + c] = pose[i, c], h * speeds[i, c], h * speeds[i, 3 + c]
        p[t, REACH], p[t, FALL] = reach[i] if bvh.child[node, 1] < 0 else -1.0, fall


@inner
def _reach_of(t, x, y, z, radius, parts):
    """Return how far a sphere at (x, y, z) on the link of part t moves in the coming step."""
    if parts[t, REACH] >= 0.0:
        return parts[t, REACH]
    r, _, _, _ = _pose_at(parts, t, AT)
    x, y, z = rotate(r, x, y, z)
    wx, wy, wz = parts[t, TURN], parts[t, TURN + 1], parts[t, TURN + 2]
    x, y, z = cross(wx, wy, wz, x, y, z)
    x, y, z = parts[t, MOVE] + x, parts[t, MOVE + 1] + y, parts[t, MOVE + 2] + z
    return math.sqrt(x * x + y * y + z * z) + math.sqrt(wx * wx + wy * wy + wz * wz) * radius + parts[t, FALL]


@inner
def _place_on_link(node, r, x, y, z, bvh):
    """Fill the pose and the box of a node on its link."""
    where, inside = bvh.where, bvh.inside
    for c in range(9):
        where[node, c] = r[c]
    where[node, 9], where[node, 10], where[node, 11] = x, y, z
    e = _box_in(bvh.box, node, r, x, y, z)
    for c in range(6):
        inside[node, c] = e[c]
    if bvh.box[node, 3] < 0.0:
        inside[node, 3] = -1.0
    bvh.mark[node, KNOWN] = bvh.stamp[ROUND]


@inner
def _bound_node(node, t, margin, bvh):
    """Fill the box in the world of a node of part t."""
    bvh.mark[node, SEEN] = bvh.stamp[STEP]
    e, out, parts = bvh.inside, bvh.bounds, bvh.parts
    if e[node, 3] < 0.0:
        for c in range(3):
            out[node, c], out[node, 3 + c] = np.inf, -np.inf
        return
    r, x, y, z = _pose_at(parts, t, AT)
    b = _box_in(e, node, r, x, y, z)
    d = math.sqrt(e[node, 3] * e[node, 3] + e[node, 4] * e[node, 4] + e[node, 5] * e[node, 5])
    pad = 0.5 * margin + _reach_of(t, e[node, 0], e[node, 1], e[node, 2], _AROUND * d, parts)
    far = abs(e[node, 0]) + abs(e[node, 1]) + abs(e[node, 2])
    pad += _SLACK * (d + pad + far + abs(b[0]) + abs(b[1]) + abs(b[2]))
    for c in range(3):
        out[node, c], out[node, 3 + c] = b[c] - b[3 + c] - pad, b[c] + b[3 + c] + pad


@inner
def _side(node, t, side, margin, bvh):
    """Return one child of a node of part t, -1 = joining, and the child's part; its box in the world is filled."""
    c, mark = bvh.child[node, side], bvh.mark
    if c < 0:
        return c, t
    if t < 0:
        return c, (mark[c, PART] if mark[c, IS_TOP] == bvh.stamp[ROUND] else -1)
    if mark[c, KNOWN] != bvh.stamp[ROUND]:
        r, x, y, z = _pose_at(bvh.where, node, 0)
        if side == 1:
            b, bx, by, bz = _pose_at(bvh.pose, node, 0)
            dx, dy, dz = rotate(r, bx, by, bz)
            r, x, y, z = multiply(r, b), x + dx, y + dy, z + dz
        _place_on_link(c, r, x, y, z, bvh)
    if mark[c, SEEN] != bvh.stamp[STEP]:
        _bound_node(c, t, margin, bvh)
    return c, t


@outlined
def _place_reached(shapes, pose, margin, leaf, t, k, bvh, broad):
    """Place shape k of a leaf of part t on its link and in the world, unless it has been placed."""
    b, offset = bvh, shapes.offset
    if b.placed[k, 1] == b.stamp[STEP]:
        return
    if b.placed[k, 0] != b.stamp[ROUND]:
        r, x, y, z = _pose_at(b.where, leaf, 0)
        dx, dy, dz = rotate(r, b.shape_offset[k, 0], b.shape_offset[k, 1], b.shape_offset[k, 2])
        offset[k, 0], offset[k, 1], offset[k, 2] = x + dx, y + dy, z + dz
        own = b.shape_offset[k, 3], b.shape_offset[k, 4], b.shape_offset[k, 5], b.shape_offset[k, 6]
        offset[k, 3], offset[k, 4], offset[k, 5], offset[k, 6] = quaternion_multiply(quaternion_from_matrix(r), own)
        shapes.link[k] = b.top[t, 1]
    b.placed[k, 0], b.placed[k, 1] = b.stamp[ROUND], b.stamp[STEP]
    reach = _reach_of(t, offset[k, 0], offset[k, 1], offset[k, 2], shapes.radius[k], b.parts)
    place_shape(shapes, pose, reach, margin, k, broad)


@outlined
def _pair_leaves(shapes, filters, pose, margin, i, t, j, u, n, bvh, broad):
    """Write the pairs of shapes of leaves i and j, of parts t and u, that come near; return the number of pairs."""
    b, child = bvh, bvh.child
    for s in range(child[i, 0], child[i, 0] - 1 - child[i, 1]):
        for r in range(child[j, 0], child[j, 0] - 1 - child[j, 1]):
            k, l = b.shape[s], b.shape[r]  # noqa: E741
            if not allowed(shapes, filters, k, l):
                continue
            _place_reached(shapes, pose, margin, i, t, k, b, broad)
            _place_reached(shapes, pose, margin, j, u, l, b, broad)
            if not apart(broad.bounds, k, broad.bounds, l):
                n = put_pair(shapes, k, l, n, len(broad.pairs), broad.pairs)
    return n


@inner
def _push(size, i, t, j, u, bvh):
    """Put two nodes on the stack unless they are apart or of one link; return its size."""
    if i < 0 or j < 0:
        return size
    if i != j and apart(bvh.bounds, i, bvh.bounds, j):
        return size
    if t >= 0 and u >= 0 and bvh.top[t, 1] == bvh.top[u, 1]:
        return size
    k = bvh.stack
    k[size, 0], k[size, 1], k[size, 2], k[size, 3] = i, t, j, u
    return size + 1


@inner
def _width(bounds, i):
    return max(bounds[i, 3] - bounds[i, 0], bounds[i, 4] - bounds[i, 1], bounds[i, 5] - bounds[i, 2])


@outlined
def _traverse(shapes, filters, pose, margin, n, bvh, broad):
    """Write the pairs of shapes of different parts that come near each other; return the number of pairs."""
    b, child, root = bvh, bvh.child, bvh.stamp[ROOT]
    size = 0
    if root >= 0:
        t = b.mark[root, PART] if b.mark[root, IS_TOP] == b.stamp[ROUND] else -1
        size = _push(0, root, t, root, t, b)
    while size > 0:
        size -= 1
        i, t, j, u = b.stack[size, 0], b.stack[size, 1], b.stack[size, 2], b.stack[size, 3]
        if i == j:
            c, v = _side(i, t, 0, margin, b)
            d, w = _side(i, t, 1, margin, b)
            size = _push(size, c, v, c, v, b)
            size = _push(size, d, w, d, w, b)
            size = _push(size, c, v, d, w, b)
            continue
        first, second = t < 0 or child[i, 1] >= 0, u < 0 or child[j, 1] >= 0
        if not first and not second:
            n = _pair_leaves(shapes, filters, pose, margin, i, t, j, u, n, b, broad)
        elif not second or (first and _width(b.bounds, i) >= _width(b.bounds, j)):
            for side in range(2):
                c, v = _side(i, t, side, margin, b)
                size = _push(size, c, v, j, u, b)
        else:
            for side in range(2):
                c, v = _side(j, u, side, margin, b)
                size = _push(size, i, t, c, v, b)
    return n


@outlined
def _traverse_plane(shapes, filters, pose, reach, margin, plane, n, bvh, broad):
    """Write the pairs of a plane with shapes that come near it; return the number of pairs."""
    b, link, far = bvh, shapes.link[plane], 0.0
    if link >= 0:
        far = reach[link]
    place_shape(shapes, pose, far, margin, plane, broad)
    pad = 0.5 * margin + far
    for t in range(len(b.top)):
        if b.top[t, 1] == link:
            continue
        b.stack[0, 0], size = b.top[t, 0], 1
        while size > 0:
            size -= 1
            i = b.stack[size, 0]
            if b.bounds[i, 0] > b.bounds[i, 3] or above(broad.frame, b.bounds, plane, pad, i):
                continue
            if b.child[i, 1] >= 0:
                for side in range(2):
                    c, _ = _side(i, t, side, margin, b)
                    if c >= 0:
                        b.stack[size, 0] = c
                        size += 1
                continue
            for s in range(b.child[i, 0], b.child[i, 0] - 1 - b.child[i, 1]):
                k = b.shape[s]
                if allowed(shapes, filters, k, plane):
                    _place_reached(shapes, pose, margin, i, t, k, b, broad)
                    if not above(broad.frame, broad.bounds, plane, pad, k):
                        n = put_pair(shapes, k, plane, n, len(broad.pairs), broad.pairs)
    return n


@inner
def _before(a, i, j):
    return a[i, 0] < a[j, 0] or (a[i, 0] == a[j, 0] and a[i, 1] <= a[j, 1])


@outlined
def _sort_pairs(n, pairs, spare):
    """Sort the first n pairs; runs of doubled length are merged."""
    width = 1
    while width < n:
        low = 0
        while low + width < n:
            middle, high = low + width, min(low + 2 * width, n)
            if not _before(pairs, middle - 1, middle):
                for k in range(low, high):
                    spare[k, 0], spare[k, 1] = pairs[k, 0], pairs[k, 1]
                i, j = low, middle
                for k in range(low, high):
                    if i < middle and (j >= high or _before(spare, i, j)):
                        pairs[k, 0], pairs[k, 1] = spare[i, 0], spare[i, 1]
                        i += 1
                    else:
                        pairs[k, 0], pairs[k, 1] = spare[j, 0], spare[j, 1]
                        j += 1
            low = high
        width *= 2


@outlined
def _bound_parts(margin, bvh):
    """Fill the boxes in the world of the tops of parts and the nodes above; return whether all poses are finite."""
    b, total = bvh, 0.0
    b.stamp[STEP] += 1
    for t in range(len(b.top)):
        node = b.top[t, 0]
        if b.mark[node, KNOWN] != b.stamp[ROUND]:
            r, x, y, z = _pose_at(b.parts, t, ON)
            _place_on_link(node, r, x, y, z, b)
        _bound_node(node, t, margin, b)
        for c in range(AT, NUMBERS):
            total += abs(b.parts[t, c])
    for k in range(len(b.joining)):
        node = b.joining[k]
        i, j = b.child[node, 0], b.child[node, 1]
        for c in range(3):
            low, high = b.bounds[j, c], b.bounds[j, 3 + c]
            if i >= 0:
                low, high = min(low, b.bounds[i, c]), max(high, b.bounds[i, 3 + c])
            b.bounds[node, c], b.bounds[node, 3 + c] = low, high
    return math.isfinite(total)


@outlined
def find_bvh_pairs(
    # model
    shapes, filters,
    # in
    pose, reach, margin,
    # out
    bvh, broad,
):  # fmt: skip
    """Fill the sorted pairs that may collide; return their number, or -1 when a pose is not finite.

    Links, local poses and frames of the shapes reached are filled; other shapes may have old ones. `move_parts` comes
    before.
    """
    if not _bound_parts(margin, bvh):
        return -1
    n = 0
    for p in range(len(broad.planes)):
        n = _traverse_plane(shapes, filters, pose, reach, margin, broad.planes[p], n, bvh, broad)
    n = _traverse(shapes, filters, pose, margin, n, bvh, broad)
    broad.count[0] = n
    if n <= len(broad.pairs):
        _sort_pairs(n, broad.pairs, broad.sorting)
    return n
