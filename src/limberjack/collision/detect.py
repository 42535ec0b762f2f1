"""Detection: from poses to contacts, in one call.

Broad phase (`broad.py`, `bvh.py`), then one routine per kind of pair (`primitives.py`, `manifolds.py`,
`mesh_contacts.py`), then contacts sorted by shapes and features. `Contacts` holds what was found, `Contact` is one of
them for users; `find_contacts` is the Python side of the kernels.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from limberjack._jit import inner, kernel, outlined
from limberjack.collision.broad import Broad, find_pairs, new_broad, room_for_points
from limberjack.collision.bvh import Bvh, find_bvh_pairs, no_bvh
from limberjack.collision.manifolds import convex_pair, plane_pair
from limberjack.collision.mesh_contacts import mesh_pair
from limberjack.collision.narrow import DEPTH, NORMAL
from limberjack.collision.primitives import box_box, segment_pair, sphere_box, sphere_cylinder
from limberjack.collision.shapes import (
    BOX,
    CAPSULE,
    CYLINDER,
    MESH,
    PLANE,
    SPHERE,
    Filters,
    Shapes,
    new_filters,
    new_shapes,
)
from limberjack.errors import StateError, Status
from limberjack.model.model import Model
from limberjack.spatial.threads import HELPERS, NARROW, WRITE, Team, next_piece, share

__all__ = [
    "Contact", "Contacts", "Detector", "detect", "find_contacts", "grown", "new_contacts",
    "narrow_some", "new_detector", "write_some",
]  # fmt: skip


# From so many pairs on, threads find contact points together, in so many pieces.
_MANY_PAIRS, _NARROWS = 256, 16

_NONE = np.zeros(3)
_NONE.setflags(write=False)


class Contact(NamedTuple):
    """A contact of two bodies, as of the last step.

    Attributes:
        bodies: names; "world" for static shapes.
        shapes: names of their shapes.
        position: (3,) between the surfaces, world axes [m].
        normal: (3,) unit, out of the second body into the first.
        depth: overlap, beyond the margin of the shapes [m]; negative = a gap.
        impulse: (3,) on the first body over the last step, friction included [N s].
        force: (3,) its mean [N].
        key: the features in contact; with the shapes' names it identifies the contact from step to step.
        torque: (3,) mean of torsional and rolling friction on the first body [N m].
    """

    bodies: tuple[str, str]
    shapes: tuple[str, str]
    position: np.ndarray
    normal: np.ndarray
    depth: float
    impulse: np.ndarray
    force: np.ndarray
    key: int
    torque: np.ndarray = _NONE


class Contacts(NamedTuple):
    """Contacts in flat arrays of one capacity; the first `count[0]` rows hold contacts.

    Rows are sorted by (shape_a, shape_b, key). `key` identifies the features in contact within the pair of shapes, so
    that (shape_a, shape_b, key) finds the same contact in the next step. Side a always moves.
    """

    count: np.ndarray  # (2,) number of contacts, capacity needed (larger than the capacity: grow and repeat)
    link_a: np.ndarray  # (n,)
    link_b: np.ndarray  # (n,) -1 = static
    shape_a: np.ndarray  # (n,)
    shape_b: np.ndarray  # (n,)
    key: np.ndarray  # (n,)
    point: np.ndarray  # (n, 3) world, midway between the two surfaces
    normal: np.ndarray  # (n, 3) world, unit, out of b into a
    depth: np.ndarray  # (n,) positive: overlap, beyond the shapes' margin; negative: gap
    friction: np.ndarray  # (n,) sqrt(mu_a mu_b)
    restitution: np.ndarray  # (n,) max(e_a, e_b)
    rolling: np.ndarray  # (n, 2) torsional and rolling friction, the larger of both shapes' [m]


def new_contacts(capacity: int) -> Contacts:
    """Return room for `capacity` contacts, holding none."""
    whole = [np.zeros(2, np.int64), *(np.zeros(capacity, np.int64) for _ in range(5))]
    real = [np.zeros((capacity, 3)), np.zeros((capacity, 3)), *(np.zeros(capacity) for _ in range(3))]
    return Contacts(*whole, *real, rolling=np.zeros((capacity, 2)))


@inner
def _pair_points(i, j, limit, kind, mesh, radius, meshes, frame, scratch):
    """Write the contact points of shapes i and j, kind[i] <= kind[j]; return their number."""
    first, second, n = kind[i], kind[j], -1
    if first == MESH or second == MESH:
        small = min(radius[i], radius[j])
        n = mesh_pair(i, j, first, second, mesh[i], mesh[j], limit, small, frame, meshes, scratch)
    elif first == BOX and second == BOX:
        n = box_box(i, j, limit, frame, scratch.points, scratch.keys, scratch.near, scratch.near_keys)
    elif second == PLANE:
        n = plane_pair(i, j, first, mesh[i], limit, frame, meshes, scratch)
    elif second <= CAPSULE:
        n = segment_pair(i, j, first, second, limit, frame, scratch.points, scratch.keys)
    elif first == SPHERE and second == BOX:
        n = sphere_box(i, j, limit, frame, scratch.points, scratch.keys)
    elif first == SPHERE and second == CYLINDER:
        n = sphere_cylinder(i, j, limit, frame, scratch.points, scratch.keys)
    if n < 0:
        n = convex_pair(i, j, first, second, mesh[i], mesh[j], limit, frame, meshes, scratch)
    return n


@inner
def _sort_points(n, points, keys):
    """Sort the n contact points of one pair by key and make equal keys differ."""
    for k in range(1, n):
        key, at = keys[k], k
        if key >= keys[k - 1]:
            continue
        x = (points[k, 0], points[k, 1], points[k, 2], points[k, 3], points[k, 4], points[k, 5], points[k, 6])
        while at > 0 and keys[at - 1] > key:
            keys[at] = keys[at - 1]
            for c in range(7):
                points[at, c] = points[at - 1, c]
            at -= 1
        keys[at] = key
        for c in range(7):
            points[at, c] = x[c]
    for k in range(1, n):
        if keys[k] <= keys[k - 1]:
            keys[k] = keys[k - 1] + 1


@inner
def _put_contacts(a, b, first, n, total, shapes, points, keys, contacts):
    """Write n points of shapes a and b, from the first on, as contacts while there is room; return their number."""
    if shapes.larger[a] + shapes.larger[b] > 0:
        friction = max(shapes.friction[a], shapes.friction[b])
    else:
        friction = math.sqrt(shapes.friction[a] * shapes.friction[b])
    restitution, margin = max(shapes.restitution[a], shapes.restitution[b]), shapes.margin[a] + shapes.margin[b]
    for k in range(first, first + n):
        at = total + k - first
        if at >= len(contacts.depth):
            break
        contacts.link_a[at], contacts.link_b[at] = shapes.link[a], shapes.link[b]
        contacts.shape_a[at], contacts.shape_b[at], contacts.key[at] = a, b, keys[k]
        for c in range(3):
            contacts.point[at, c] = points[k, c]
            contacts.normal[at, c] = points[k, NORMAL + c]
        contacts.depth[at] = points[k, DEPTH] + margin
        contacts.friction[at], contacts.restitution[at] = friction, restitution
        for c in range(2):
            contacts.rolling[at, c] = max(shapes.rolling[a, c], shapes.rolling[b, c])
    return total + n


@inner
def _find_points(p, margin, shapes, broad, scratch):
    """Write the contact points of pair p in the order of their keys, normals out of its second shape."""
    kind, a, b = shapes.kind, broad.pairs[p, 0], broad.pairs[p, 1]
    limit = margin + broad.reach[a] + broad.reach[b]
    i, j, swapped = a, b, kind[a] > kind[b]
    if swapped:
        i, j = b, a
    count = _pair_points(i, j, limit, kind, shapes.mesh, shapes.radius, shapes.meshes, broad.frame, scratch)
    if count > 0:
        _sort_points(count, scratch.points, scratch.keys)
        if swapped:
            for k in range(count):
                for c in range(NORMAL, NORMAL + 3):
                    scratch.points[k, c] = -scratch.points[k, c]
    return count


@outlined
def narrow_some(piece, shapes, broad, scratch):
    """Find the contact points of some pairs; note their number, -1 where there was no room for them.

    The number of pairs stands in `team.task[2]`, the margin in `team.value[0]`.
    """
    team, number, out = broad.team, broad.number, broad.point
    n, size = team.task[2], len(broad.point) // _NARROWS
    first, at, room = team.task[2] * piece // _NARROWS, size * piece, size * (piece + 1)
    for p in range(first, n * (piece + 1) // _NARROWS):
        number[p] = _find_points(p, team.value[0], shapes, broad, scratch)
        if at + number[p] > room:
            at = size * piece - 1
            break
        for k in range(number[p]):
            broad.key[at] = scratch.keys[k]
            for c in range(7):
                out[at, c] = scratch.points[k, c]
            at += 1
    team.found[piece] = at - size * piece


@outlined
def write_some(piece, shapes, broad, contacts):
    """Write the contacts of some pairs; how many are before each piece stands in `found`."""
    team, at = broad.team, len(broad.point) // _NARROWS * piece
    total = int(team.found[piece])
    for p in range(team.task[2] * piece // _NARROWS, team.task[2] * (piece + 1) // _NARROWS):
        if broad.number[p] > 0:
            a, b, count = broad.pairs[p, 0], broad.pairs[p, 1], broad.number[p]
            total = _put_contacts(a, b, at, count, total, shapes, broad.point, broad.key, contacts)
            at += count


@outlined
def _fill_together(shapes, margin, n, broad, contacts):
    """Fill the contacts of n pairs by several threads; return their number, -1 where there was no room on the way."""
    team, total = broad.team, 0
    team.task[2], team.value[0] = n, margin
    piece = share(NARROW, 0, _NARROWS, team)
    while piece >= 0:
        narrow_some(piece, shapes, broad, broad.scratch)
        piece = next_piece(piece, 0, _NARROWS, team)
    for k in range(_NARROWS):
        count = int(team.found[k])
        if count < 0:
            return -1
        team.found[k] = total
        total += count
    piece = share(WRITE, 0, _NARROWS, team)
    while piece >= 0:
        write_some(piece, shapes, broad, contacts)
        piece = next_piece(piece, 0, _NARROWS, team)
    return total


@inner
def _fill_contacts(shapes, margin, n, broad, contacts):
    """Fill the contacts of the n pairs found and return the status of `detect`."""
    contacts.count[0] = contacts.count[1] = 0
    if n < 0:
        return Status.POSE_NOT_FINITE
    if n > len(broad.pairs):
        contacts.count[1] = max(n, len(contacts.depth) + 1)
        return Status.MORE_CONTACTS
    total = -1
    if broad.team.signal[HELPERS] > 0 and n >= _MANY_PAIRS and len(broad.number) >= n:
        total = _fill_together(shapes, margin, n, broad, contacts)
    if total < 0:
        total = 0
        for p in range(n):
            count = _find_points(p, margin, shapes, broad, broad.scratch)
            if count > 0:
                a, b, points, keys = broad.pairs[p, 0], broad.pairs[p, 1], broad.scratch.points, broad.scratch.keys
                total = _put_contacts(a, b, 0, count, total, shapes, points, keys, contacts)
    contacts.count[0], contacts.count[1] = min(total, len(contacts.depth)), total
    return Status.MORE_CONTACTS if total > len(contacts.depth) else 0


@inner
def detect(
    # model
    shapes, filters,
    # in
    pose, reach, margin,
    # out
    broad, contacts,
):  # fmt: skip
    """Fill the contacts of all shapes and return 0, Status.MORE_CONTACTS (grow and repeat) or POSE_NOT_FINITE.

    Contacts whose gap is up to margin + reach of both shapes are reported, with negative depth; gaps count from the
    margins of the shapes.

    Args:
        shapes: of the model.
        filters: pairs that never collide.
        pose: (n_links, 7) the links' centres in the world and their quaternions.
        reach: (n_links,) how far each link may move in the coming step [m].
        margin: [m].
        broad: work arrays.
        contacts: what was found; `count[1]` is the room needed.
    """
    wide = margin + shapes.widest[0]
    n = find_pairs(shapes, filters, pose, reach, wide, broad)
    return _fill_contacts(shapes, wide, n, broad, contacts)


@kernel
def detect_once(
    # model
    shapes, filters,
    # in
    pose, reach, margin,
    # out
    bvh, broad, contacts,
):  # fmt: skip
    """Call `detect`; where there is a BVH, find the pairs in that, after `move_parts`."""
    wide = margin + shapes.widest[0]
    if len(bvh.top) > 0:
        n = find_bvh_pairs(shapes, filters, pose, reach, wide, bvh, broad)
    else:
        n = find_pairs(shapes, filters, pose, reach, wide, broad)
    return _fill_contacts(shapes, wide, n, broad, contacts)


class Detector(NamedTuple):
    """All that detection needs: shapes and filters of a model, work arrays, and room for contacts."""

    shapes: Shapes
    filters: Filters
    bvh: Bvh
    broad: Broad
    contacts: Contacts


def new_detector(
    model: Model, center: np.ndarray | None = None, ignored: tuple[str, ...] = (), team: Team | None = None
) -> Detector:
    """Return the detector of `model`, with room for a few contacts per shape.

    Args:
        model: the model.
        center: (n_links, 3) the point of each link's frame that poses refer to [m]; None = the frame's origin.
        ignored: names of shapes to leave out.
        team: threads that share the work; None = one.
    """
    shapes = new_shapes(model, center, ignored)
    room = 64 + 8 * len(shapes.kind)
    return Detector(shapes, new_filters(model, ignored), no_bvh(), new_broad(shapes, room, team), new_contacts(room))


def grown(detector: Detector) -> Detector:
    """Return the detector with the room that the last detection found missing, and half as much again."""
    contacts, broad = detector.contacts, detector.broad
    need = int(contacts.count[1] * 3 // 2 + 64)
    if need > len(contacts.depth):
        contacts = new_contacts(need)
    if broad.count[0] > len(broad.pairs):
        room = int(broad.count[0] * 3 // 2 + 64)
        broad = broad._replace(pairs=np.zeros((room, 2), np.int64), sorting=np.zeros((room, 2), np.int64))
        broad = broad._replace(**room_for_points(room, broad.team))
    return detector._replace(contacts=contacts, broad=broad)


def find_contacts(detector: Detector, pose: np.ndarray, reach: np.ndarray, margin: float = 0.0) -> Detector:
    """Find all contacts and return the detector that holds them: the same, or one with more room.

    Args:
        detector: of the model.
        pose: (n_links, 7) the links' centres in the world [m] and their quaternions.
        reach: (n_links,) how far each link may move in the coming step [m].
        margin: gap up to which contacts are reported besides [m].
    """
    count = int(detector.shapes.link.max(initial=-1)) + 1
    pose, reach = np.ascontiguousarray(pose, float), np.ascontiguousarray(reach, float)
    if pose.ndim != 2 or pose.shape[1] != 7 or len(pose) < count or reach.shape != (len(pose),):
        raise StateError(f"poses (n, 7) and reach (n,) of {count} links are needed, got {pose.shape} and {reach.shape}")
    status = detect_once(*detector[:2], pose, reach, float(margin), *detector[2:])
    while status == Status.MORE_CONTACTS:
        detector = grown(detector)
        status = detect_once(*detector[:2], pose, reach, float(margin), *detector[2:])
    if status == Status.POSE_NOT_FINITE:
        raise StateError("a pose, reach or margin is not finite")
    return detector
