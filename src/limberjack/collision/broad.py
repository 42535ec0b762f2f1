"""Broad phase: which pairs of shapes come near each other, in linear time, without anything per pair in Python.

An item is what is binned: a moving link with all its shapes, or one static shape. Items stand in a hashed grid of
several levels, each cell twice as wide as those of the level below; an item is in the one cell that contains its
centre, on the finest level whose cells are no smaller than it. Items of similar size make one level: a uniform grid.
Planes are infinite and are compared with every item. Links of many shapes have one box around them all: their shapes
are placed only when something comes near it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from limberjack._jit import inner, outlined
from limberjack.collision.narrow import Scratch, new_scratch
from limberjack.collision.shapes import CAPSULE, CYLINDER, PLANE, SPHERE, Shapes
from limberjack.spatial.frames import matrix_from_quaternion
from limberjack.spatial.quaternions import quaternion_multiply, rotation_from_quaternion
from limberjack.spatial.threads import HELPERS, PAIR, PLACE, Team, new_team, next_piece, pieces_of, share
from limberjack.spatial.vectors import rotate

__all__ = [
    "AT", "Broad", "SIZE", "above", "allowed", "apart", "boxes_of", "find_pairs", "new_broad", "put_pair",
    "place_shape", "place_some", "room_for_points", "search_some",
]  # fmt: skip

# Columns of `frame`: nine numbers of the rotation, position, sizes.
AT, SIZE, FRAME = 9, 12, 16
LEVELS = 48
_FAR = 4.0e15  # cell numbers beyond this are not exact
# Links of this many shapes are bounded by one box.
_MANY = 4
# Shapes of a piece of a task; pieces into which the search for pairs is divided.
_SHAPES, _SEARCHES = 256, 16
# From so many items on, threads search for pairs together.
_MANY_ITEMS = 256
# Of so few items, all pairs are looked at: cells would cost more.
_FEW_ITEMS = 48


class Broad(NamedTuple):
    """Work arrays of detection: s shapes, m items, p planes, room for c pairs."""

    frame: np.ndarray  # (s, FRAME) shapes in the world
    bounds: np.ndarray  # (s, 6) box around each shape in the world, with half the margin and the reach
    reach: np.ndarray  # (s,) how far each shape may move in the coming step
    item_start: np.ndarray  # (m + 1,) shapes of each item
    item_shape: np.ndarray
    item_link: np.ndarray  # (m,) -1 = static
    item_part: np.ndarray  # (m,)
    item_bounds: np.ndarray  # (m, 6)
    item_box: np.ndarray  # (m, 6) centre and half edges, link axes, of the box around an item; -1 = its shapes' bounds
    ready: np.ndarray  # (m,) whether the shapes of an item are placed
    later: np.ndarray  # (s,) shapes that are placed with their item
    item_cell: np.ndarray  # (m, 4) cell and level
    planes: np.ndarray  # (p,) shapes that are planes
    level_used: np.ndarray  # (LEVELS,)
    bucket: np.ndarray  # (2^k + 1,) where the items of each bucket start in `order`
    order: np.ndarray  # (m,) items by bucket
    tally: np.ndarray  # (s + 1,) counts for sorting
    pairs: np.ndarray  # (c, 2) shapes a, b; sorted; a moves
    sorting: np.ndarray  # (c, 2)
    count: np.ndarray  # (2,) pairs found, also those there was no room for; items placed later
    scratch: Scratch  # of the narrow phase
    point: np.ndarray  # (2 c, 7) contact points of threads, by pair; no room with one thread
    key: np.ndarray  # (2 c,)
    number: np.ndarray  # (c,) points of each pair
    team: Team  # threads


def new_broad(shapes: Shapes, capacity: int, team: Team | None = None) -> Broad:
    """Return work arrays for `shapes` and room for `capacity` pairs, shared by a team of threads."""
    s, team = len(shapes.kind), team or new_team()
    return Broad(
        frame=np.zeros((s, FRAME)),
        bounds=np.zeros((s, 6)),
        reach=np.zeros(s),
        **_items(shapes),
        planes=np.flatnonzero(shapes.kind == PLANE),
        level_used=np.zeros(LEVELS, np.int64),
        tally=np.zeros(s + 1, np.int64),
        pairs=np.zeros((capacity, 2), np.int64),
        sorting=np.zeros((capacity, 2), np.int64),
        count=np.zeros(2, np.int64),
        scratch=new_scratch(),
        team=team,
        **room_for_points(capacity, team),
    )


def room_for_points(capacity: int, team: Team) -> dict[str, np.ndarray]:
    """Return room for the contact points of `capacity` pairs; none where no threads share them."""
    c = capacity if team.signal[HELPERS] else 0
    return {"point": np.zeros((2 * c, 7)), "key": np.zeros(2 * c, np.int64), "number": np.zeros(c, np.int64)}


def _items(shapes: Shapes) -> dict[str, np.ndarray]:
    """Return the items: the moving links with all their shapes, in order, then static shapes one by one."""
    solid = np.flatnonzero(shapes.kind != PLANE)
    order = solid[np.argsort(shapes.link[solid], kind="stable")]
    moving, still = order[shapes.link[order] >= 0], order[shapes.link[order] < 0]
    starts = np.flatnonzero(np.diff(shapes.link[moving], prepend=-1))
    start = np.concatenate([starts, len(moving) + np.arange(len(still) + 1)]).astype(np.int64)
    shape = np.concatenate([moving, still]).astype(np.int64)
    m, first = len(start) - 1, shape[start[:-1]]
    many = np.flatnonzero(np.diff(start[: len(starts) + 1]) >= _MANY)
    box, later = np.full((m, 6), -1.0), np.zeros(len(shapes.kind), np.uint8)
    if len(many):
        low, high = boxes_of(shapes)
        box[: len(starts), :3] = np.minimum.reduceat(low[moving], starts)
        box[: len(starts), 3:] = np.maximum.reduceat(high[moving], starts)
        box[:, :3], box[:, 3:] = 0.5 * (box[:, :3] + box[:, 3:]), 0.5 * (box[:, 3:] - box[:, :3])
        few = np.setdiff1d(np.arange(m), many)
        box[few] = -1.0
        later[shape] = np.repeat(box[:, 3] >= 0.0, np.diff(start))
    return {
        "item_start": start, "item_shape": shape, "item_link": shapes.link[first], "item_part": shapes.part[first],
        "item_bounds": np.zeros((m, 6)), "item_cell": np.zeros((m, 4), np.int64), "item_box": box,
        "ready": np.ones(m, np.int64), "later": later, "order": np.zeros(m, np.int64),
        "bucket": np.zeros((1 << max(2 * m, 4).bit_length()) + 1, np.int64),
    }  # fmt: skip


def boxes_of(shapes: Shapes) -> tuple[np.ndarray, np.ndarray]:
    """Return the lowest and highest corners (s, 3) of axis-aligned boxes around shapes in their links' frames."""
    half, long = shapes.size.copy(), (shapes.kind == CAPSULE) | (shapes.kind == CYLINDER)
    half[long] = np.stack([half[long, 0], half[long, 0], half[long, 1]], axis=1)
    half[shapes.kind == CAPSULE, 2] += half[shapes.kind == CAPSULE, 0]
    half[shapes.kind == SPHERE] = half[shapes.kind == SPHERE, :1]
    reach = np.einsum("kij,kj->ki", np.abs(matrix_from_quaternion(shapes.offset[:, 3:])), half)
    return shapes.offset[:, :3] - reach, shapes.offset[:, :3] + reach


@inner
def _extent(kind, r, sx, sy, sz):
    """Return the half edges of the axis-aligned box around a shape with rotation r."""
    if kind == SPHERE:
        return sx, sx, sx
    if kind == CAPSULE:
        return sx + sy * abs(r[2]), sx + sy * abs(r[5]), sx + sy * abs(r[8])
    if kind == CYLINDER:
        return (
            sx * math.sqrt(max(0.0, 1.0 - r[2] * r[2])) + sy * abs(r[2]),
            sx * math.sqrt(max(0.0, 1.0 - r[5] * r[5])) + sy * abs(r[5]),
            sx * math.sqrt(max(0.0, 1.0 - r[8] * r[8])) + sy * abs(r[8]),
        )
    return (
        abs(r[0]) * sx + abs(r[1]) * sy + abs(r[2]) * sz,
        abs(r[3]) * sx + abs(r[4]) * sy + abs(r[5]) * sz,
        abs(r[6]) * sx + abs(r[7]) * sy + abs(r[8]) * sz,
    )


@inner
def place_shape(shapes, pose, reach, margin, k, broad):
    """Fill frame, reach and bounds of shape k in the world; return a number that is finite if they are."""
    i, offset, frame, bounds = shapes.link[k], shapes.offset, broad.frame, broad.bounds
    x, y, z = offset[k, 0], offset[k, 1], offset[k, 2]
    turn = (offset[k, 3], offset[k, 4], offset[k, 5], offset[k, 6])
    pad = 0.5 * margin
    if i >= 0:
        own = (pose[i, 3], pose[i, 4], pose[i, 5], pose[i, 6])
        dx, dy, dz = rotate(rotation_from_quaternion(own[0], own[1], own[2], own[3]), x, y, z)
        x, y, z = pose[i, 0] + dx, pose[i, 1] + dy, pose[i, 2] + dz
        turn = quaternion_multiply(own, turn)
        pad += reach
    broad.reach[k] = reach
    r = rotation_from_quaternion(turn[0], turn[1], turn[2], turn[3])
    for c in range(9):
        frame[k, c] = r[c]
    sx, sy, sz = shapes.size[k, 0], shapes.size[k, 1], shapes.size[k, 2]
    frame[k, AT], frame[k, AT + 1], frame[k, AT + 2] = x, y, z
    frame[k, SIZE], frame[k, SIZE + 1], frame[k, SIZE + 2] = sx, sy, sz
    ex, ey, ez = _extent(shapes.kind[k], r, sx, sy, sz)
    ex, ey, ez = ex + pad, ey + pad, ez + pad
    bounds[k, 0], bounds[k, 1], bounds[k, 2] = x - ex, y - ey, z - ez
    bounds[k, 3], bounds[k, 4], bounds[k, 5] = x + ex, y + ey, z + ez
    return abs(x) + abs(y) + abs(z) + abs(ex + ey + ez)


@outlined
def place_some(piece, shapes, pose, reach, broad):
    """Fill frames and bounds of some shapes; note a number that is finite if they are."""
    total, margin = 0.0, broad.team.value[0]
    for k in range(_SHAPES * piece, min(_SHAPES * (piece + 1), len(shapes.kind))):
        if broad.later[k] == 0:
            j = shapes.link[k]
            total += place_shape(shapes, pose, reach[j] if j >= 0 else 0.0, margin, k, broad)
    broad.team.found[piece % len(broad.team.found)] = total


@outlined
def _place_shapes(shapes, pose, reach, margin, broad):
    """Fill frames and bounds of all shapes, or the bounds of items placed later; return whether all are finite."""
    total, box, bounds, team = 0.0, broad.item_box, broad.item_bounds, broad.team
    count = pieces_of(len(shapes.kind), _SHAPES)
    team.value[0] = margin
    for first in range(0, count, len(team.found)):
        last = min(first + len(team.found), count)
        piece = share(PLACE, first, last, team)
        while piece >= 0:
            place_some(piece, shapes, pose, reach, broad)
            piece = next_piece(piece, first, last, team)
        for k in range(last - first):
            total += team.found[k]
    broad.count[1] = 0
    for i in range(len(box)):
        if box[i, 3] < 0.0:
            continue
        broad.count[1] += 1
        broad.ready[i], j = 0, broad.item_link[i]
        r = rotation_from_quaternion(pose[j, 3], pose[j, 4], pose[j, 5], pose[j, 6])
        pad = 0.5 * margin + reach[j]
        x, y, z = rotate(r, box[i, 0], box[i, 1], box[i, 2])
        x, y, z = pose[j, 0] + x, pose[j, 1] + y, pose[j, 2] + z
        ex = abs(r[0]) * box[i, 3] + abs(r[1]) * box[i, 4] + abs(r[2]) * box[i, 5] + pad
        ey = abs(r[3]) * box[i, 3] + abs(r[4]) * box[i, 4] + abs(r[5]) * box[i, 5] + pad
        ez = abs(r[6]) * box[i, 3] + abs(r[7]) * box[i, 4] + abs(r[8]) * box[i, 5] + pad
        bounds[i, 0], bounds[i, 1], bounds[i, 2] = x - ex, y - ey, z - ez
        bounds[i, 3], bounds[i, 4], bounds[i, 5] = x + ex, y + ey, z + ez
        total += abs(x) + abs(y) + abs(z) + abs(ex + ey + ez)
    return math.isfinite(total)


@outlined
def _make_ready(shapes, pose, reach, margin, broad, i):
    """Place the shapes of item i."""
    broad.ready[i] = 1
    for s in range(broad.item_start[i], broad.item_start[i + 1]):
        place_shape(shapes, pose, reach[broad.item_link[i]], margin, broad.item_shape[s], broad)


@inner
def _edge(bounds, i):
    """Return the longest edge of box i."""
    return max(bounds[i, 3] - bounds[i, 0], bounds[i, 4] - bounds[i, 1], bounds[i, 5] - bounds[i, 2])


@inner
def _bound_items(
    # in
    item_start, item_shape, item_box, bounds,
    # out
    item_bounds,
):  # fmt: skip
    """Fill the boxes around items; return the largest edge of any, and the largest up to twice the smallest.

    The latter makes the finest cells: items of almost one size share one level.
    """
    small, large, common = np.inf, 0.0, 0.0
    for i in range(len(item_bounds)):
        if item_box[i, 3] < 0.0:
            k = item_shape[item_start[i]]
            ax, ay, az = bounds[k, 0], bounds[k, 1], bounds[k, 2]
            bx, by, bz = bounds[k, 3], bounds[k, 4], bounds[k, 5]
            for s in range(item_start[i] + 1, item_start[i + 1]):
                k = item_shape[s]
                ax, ay, az = min(ax, bounds[k, 0]), min(ay, bounds[k, 1]), min(az, bounds[k, 2])
                bx, by, bz = max(bx, bounds[k, 3]), max(by, bounds[k, 4]), max(bz, bounds[k, 5])
            item_bounds[i, 0], item_bounds[i, 1], item_bounds[i, 2] = ax, ay, az
            item_bounds[i, 3], item_bounds[i, 4], item_bounds[i, 5] = bx, by, bz
        edge = _edge(item_bounds, i)
        small, large = min(small, edge), max(large, edge)
    for i in range(len(item_bounds)):
        edge = _edge(item_bounds, i)
        if edge <= 2.0 * small:
            common = max(common, edge)
    return large, common


@inner
def _bucket_of(x, y, z, level, mask):
    """Return the bucket of a cell; cells above each other are in buckets that follow each other."""
    return ((x * 73856093 ^ y * 19349663 ^ level * 25165843) + z) & mask


@inner
def _cell_of(x, inverse):
    """Return the number of the cell of width 1 / inverse that contains the coordinate."""
    return np.int64(math.floor(min(max(x * inverse, -_FAR), _FAR)))


@outlined
def _fill_grid(
    # in
    item_start, item_shape, item_box, bounds,
    # out
    item_bounds, item_cell, level_used, bucket, order,
):  # fmt: skip
    """Put every item into its cell; return the width of the finest cells."""
    large, common = _bound_items(item_start, item_shape, item_box, bounds, item_bounds)
    base = max(common, 1e-9 * large) * (1.0 + 1e-9)
    for k in range(LEVELS):
        level_used[k] = 0
    for k in range(len(bucket)):
        bucket[k] = 0
    mask = len(bucket) - 2
    for i in range(len(item_cell)):
        ax, ay, az = item_bounds[i, 0], item_bounds[i, 1], item_bounds[i, 2]
        bx, by, bz = item_bounds[i, 3], item_bounds[i, 4], item_bounds[i, 5]
        edge, width, level = max(bx - ax, by - ay, bz - az), base, 0
        while width < edge and level < LEVELS - 1:
            width, level = 2.0 * width, level + 1
        level_used[level] = 1
        inverse = 1.0 / width
        x, y, z = (
            _cell_of(0.5 * (ax + bx), inverse),
            _cell_of(0.5 * (ay + by), inverse),
            _cell_of(0.5 * (az + bz), inverse),
        )
        item_cell[i, 0], item_cell[i, 1], item_cell[i, 2], item_cell[i, 3] = x, y, z, level
        bucket[_bucket_of(x, y, z, level, mask) + 1] += 1
    for k in range(1, len(bucket)):
        bucket[k] += bucket[k - 1]
    # Filling from behind moves each start back to where its bucket begins, and keeps the order of items.
    for i in range(len(item_cell) - 1, -1, -1):
        k = _bucket_of(item_cell[i, 0], item_cell[i, 1], item_cell[i, 2], item_cell[i, 3], mask) + 1
        bucket[k] -= 1
        order[bucket[k]] = i
    for k in range(len(bucket) - 1):
        bucket[k] = bucket[k + 1]
    bucket[len(bucket) - 1] = len(order)
    return base


@inner
def _listed(start, other, i, j):
    """Return whether j stands in the list of i."""
    if i < 0:
        return False
    for k in range(start[i], start[i + 1]):
        if other[k] == j:
            return True
    return False


@inner
def apart(bounds, i, others, j):
    """Return whether box i and box j of others do not overlap."""
    return (
        bounds[i, 0] > others[j, 3] or others[j, 0] > bounds[i, 3]
        or bounds[i, 1] > others[j, 4] or others[j, 1] > bounds[i, 4]
        or bounds[i, 2] > others[j, 5] or others[j, 2] > bounds[i, 5]
    )  # fmt: skip


@inner
def above(frame, bounds, plane, pad, k):
    """Return whether box k of `bounds` is clear of the plane of shape `plane` by more than pad."""
    nx, ny, nz = frame[plane, 2], frame[plane, 5], frame[plane, 8]
    middle = (
        nx * (0.5 * (bounds[k, 0] + bounds[k, 3]) - frame[plane, AT])
        + ny * (0.5 * (bounds[k, 1] + bounds[k, 4]) - frame[plane, AT + 1])
        + nz * (0.5 * (bounds[k, 2] + bounds[k, 5]) - frame[plane, AT + 2])
    )
    half = (
        abs(nx) * (bounds[k, 3] - bounds[k, 0])
        + abs(ny) * (bounds[k, 4] - bounds[k, 1])
        + abs(nz) * (bounds[k, 5] - bounds[k, 2])
    )
    return middle - 0.5 * half > pad


@inner
def allowed(shapes, filters, a, b):
    """Return whether groups and names let shapes a and b collide."""
    if shapes.group[a] != 0 and shapes.group[a] == shapes.group[b]:
        return False
    if _listed(filters.shape_start, filters.shape_apart, a, b):
        return False
    return not _listed(filters.apart_start, filters.apart, shapes.body[a] + 1, shapes.body[b] + 1)


@inner
def put_pair(shapes, a, b, n, last, pairs):
    """Write the pair in its order as row n, if that is before `last`, and return n + 1."""
    if shapes.link[a] < 0 or (a > b and shapes.link[b] >= 0):
        a, b = b, a
    if n < last:
        pairs[n, 0], pairs[n, 1] = a, b
    return n + 1


@inner
def _pair_items(shapes, filters, pose, reach, margin, broad, i, j, n, last, out):
    """Write the pairs of shapes of items i and j that come near each other, from row n on; return the row after."""
    if broad.item_link[i] < 0 and broad.item_link[j] < 0:
        return n
    if apart(broad.item_bounds, i, broad.item_bounds, j):
        return n
    if _listed(filters.joined_start, filters.joined, broad.item_part[i], broad.item_part[j]):
        return n
    if broad.ready[i] == 0:
        _make_ready(shapes, pose, reach, margin, broad, i)
    if broad.ready[j] == 0:
        _make_ready(shapes, pose, reach, margin, broad, j)
    for s in range(broad.item_start[i], broad.item_start[i + 1]):
        a = broad.item_shape[s]
        if apart(broad.bounds, a, broad.item_bounds, j):
            continue
        for t in range(broad.item_start[j], broad.item_start[j + 1]):
            b = broad.item_shape[t]
            if not apart(broad.bounds, a, broad.bounds, b) and allowed(shapes, filters, a, b):
                n = put_pair(shapes, a, b, n, last, out)
    return n


@inner
def _pair_planes(shapes, filters, pose, reach, margin, broad, begin, end, n, last, out):
    """Write the pairs of planes with shapes of items begin .. end - 1 that come near them; return the row after."""
    for p in range(len(broad.planes)):
        plane = broad.planes[p]
        link, part = shapes.link[plane], shapes.part[plane]
        pad = 0.5 * margin
        if link >= 0:
            pad += reach[link]
        for i in range(begin, end):
            if broad.item_link[i] == link or above(broad.frame, broad.item_bounds, plane, pad, i):
                continue
            if _listed(filters.joined_start, filters.joined, part, broad.item_part[i]):
                continue
            if broad.ready[i] == 0:
                _make_ready(shapes, pose, reach, margin, broad, i)
            for s in range(broad.item_start[i], broad.item_start[i + 1]):
                a = broad.item_shape[s]
                if not above(broad.frame, broad.bounds, plane, pad, a) and allowed(shapes, filters, a, plane):
                    n = put_pair(shapes, a, plane, n, last, out)
    return n


@inner
def _search_column(shapes, filters, pose, reach, margin, broad, i, x, y, low, high, level, n, last_row, out):
    """Pair item i with all items of the cells low .. high above each other; in its own cell with those after it."""
    cell, bucket, order, mask = broad.item_cell, broad.bucket, broad.order, len(broad.bucket) - 2
    first, last = _bucket_of(x, y, low, level, mask), _bucket_of(x, y, high, level, mask)
    if high - low >= mask:
        first, last = 0, mask
    own = level == cell[i, 3] and x == cell[i, 0] and y == cell[i, 1]
    # where the buckets begin anew in between, two runs of them
    for run in range(1 if first <= last else 2):
        begin, end = bucket[first], bucket[last + 1]
        if first > last:
            begin, end = (begin, bucket[mask + 1]) if run == 0 else (0, end)
        for s in range(begin, end):
            j = order[s]
            z = cell[j, 2]
            if cell[j, 0] != x or cell[j, 1] != y or z < low or z > high or cell[j, 3] != level:
                continue
            if own and j <= i and z == cell[i, 2]:
                continue
            n = _pair_items(shapes, filters, pose, reach, margin, broad, i, j, n, last_row, out)
    return n


@inner
def _pair_grid(shapes, filters, pose, reach, margin, broad, base, begin, end, n, last, out):
    """Write the pairs of items begin .. end - 1 with those that come near them, from row n on; return the row after."""
    cell, box = broad.item_cell, broad.item_bounds
    for i in range(begin, end):
        level = cell[i, 3]
        # Half of the neighbours: the other half find this item.
        for column in range(5):
            x, y = (cell[i, 0], cell[i, 1] + column) if column < 2 else (cell[i, 0] + 1, cell[i, 1] + column - 3)
            low = cell[i, 2] - min(column, 1)
            n = _search_column(
                shapes, filters, pose, reach, margin, broad, i, x, y, low, cell[i, 2] + 1, level, n, last, out
            )  # fmt: skip
    coarsest, width = 0, base
    for k in range(LEVELS):
        if broad.level_used[k] != 0:
            coarsest = k
    for k in range(1, coarsest + 1):
        width *= 2.0
        if broad.level_used[k] == 0:
            continue
        inverse, half = 1.0 / width, 0.5 * width
        for i in range(begin, end):
            if cell[i, 3] >= k:
                continue
            for x in range(_cell_of(box[i, 0] - half, inverse), _cell_of(box[i, 3] + half, inverse) + 1):
                for y in range(_cell_of(box[i, 1] - half, inverse), _cell_of(box[i, 4] + half, inverse) + 1):
                    low, high = _cell_of(box[i, 2] - half, inverse), _cell_of(box[i, 5] + half, inverse)
                    n = _search_column(
                        shapes, filters, pose, reach, margin, broad, i, x, y, low, high, k, n, last, out
                    )  # fmt: skip
    return n


@inner
def _sort_by(column, n, source, tally, target):
    """Copy the n pairs of source to target in the order of one column, equal ones as they stand."""
    for k in range(len(tally)):
        tally[k] = 0
    for k in range(n):
        tally[source[k, column]] += 1
    total = 0
    for k in range(len(tally)):
        count = tally[k]
        tally[k] = total
        total += count
    for k in range(n):
        at = tally[source[k, column]]
        tally[source[k, column]] = at + 1
        target[at, 0], target[at, 1] = source[k, 0], source[k, 1]


@outlined
def search_some(piece, shapes, filters, pose, reach, broad):
    """Write the pairs that some of the items make into their part of `sorting`; note how many there are."""
    margin, base, items, room = broad.team.value[0], broad.team.value[1], len(broad.item_link), len(broad.sorting)
    begin, end = items * piece // _SEARCHES, items * (piece + 1) // _SEARCHES
    first, last = room * piece // _SEARCHES, room * (piece + 1) // _SEARCHES
    n = _pair_planes(shapes, filters, pose, reach, margin, broad, begin, end, first, last, broad.sorting)
    n = _pair_grid(shapes, filters, pose, reach, margin, broad, base, begin, end, n, last, broad.sorting)
    broad.team.found[piece] = n - first


@outlined
def _search_together(shapes, filters, pose, reach, margin, base, broad):
    """Write all pairs that come near each other, in no order; return their number, or -1 if some part had no room."""
    team, room, n = broad.team, len(broad.sorting), 0
    team.value[0], team.value[1] = margin, base
    piece = share(PAIR, 0, _SEARCHES, team)
    while piece >= 0:
        search_some(piece, shapes, filters, pose, reach, broad)
        piece = next_piece(piece, 0, _SEARCHES, team)
    for k in range(_SEARCHES):
        first, count = room * k // _SEARCHES, int(team.found[k])
        if first + count > room * (k + 1) // _SEARCHES:
            return -1
        for p in range(first, first + count):
            broad.pairs[n, 0], broad.pairs[n, 1] = broad.sorting[p, 0], broad.sorting[p, 1]
            n += 1
    return n


@outlined
def _find_near(shapes, filters, pose, reach, margin, base, broad):
    """Write all pairs that come near each other, sorted by their shapes a, then b; return their number."""
    items, n = len(broad.item_link), -1
    # items placed when something comes near them are placed by one thread
    if broad.team.signal[HELPERS] > 0 and items >= _MANY_ITEMS and broad.count[1] == 0:
        n = _search_together(shapes, filters, pose, reach, margin, base, broad)
    if n < 0:
        n = _pair_planes(shapes, filters, pose, reach, margin, broad, 0, items, 0, len(broad.pairs), broad.pairs)
        if items <= _FEW_ITEMS:
            for i in range(items):
                for j in range(i + 1, items):
                    n = _pair_items(shapes, filters, pose, reach, margin, broad, i, j, n, len(broad.pairs), broad.pairs)
        else:
            n = _pair_grid(
                shapes, filters, pose, reach, margin, broad, base, 0, items, n, len(broad.pairs), broad.pairs
            )  # fmt: skip
    broad.count[0] = n
    if n <= len(broad.pairs):
        _sort_by(1, n, broad.pairs, broad.tally, broad.sorting)
        _sort_by(0, n, broad.sorting, broad.tally, broad.pairs)
    return n


@inner
def find_pairs(
    # model
    shapes, filters,
    # in
    pose, reach, margin,
    # out
    broad,
):  # fmt: skip
    """Place all shapes and fill the sorted pairs that may collide; return their number, or -1 for a nonfinite pose.

    A number beyond the room for pairs means that some were left out.
    """
    if not _place_shapes(shapes, pose, reach, margin, broad):
        n = -1
    else:
        base = 0.0
        if len(broad.item_link) <= _FEW_ITEMS:
            _bound_items(broad.item_start, broad.item_shape, broad.item_box, broad.bounds, broad.item_bounds)
        else:
            base = _fill_grid(
                broad.item_start, broad.item_shape, broad.item_box, broad.bounds, broad.item_bounds, broad.item_cell,
                broad.level_used, broad.bucket, broad.order,
            )  # fmt: skip
        n = _find_near(shapes, filters, pose, reach, margin, base, broad)
    return n
