"""Contacts as displacement constraints: a gap that must not close and two directions without slip, within a cone.

Contacts are detected at the poses at the start of a step, those that may close within it included, and occupy slots of
the net: of one body first, then of two. Until the next step a contact is a point fixed in each of its bodies and a
plane through them. Its gap is the first row, its slip since the start of the step the others.

A contact that overlaps at the start of a step gets no velocity from that: the motion leaves the overlap as it is, and
the second correction removes what exceeds the slop. One that closes fast within the step, with restitution e, opens by
e v h instead, v the speed at which it closes: the velocity of that displacement is e v.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from limberjack._jit import inner, kernel, outlined
from limberjack.collision.broad import Broad
from limberjack.collision.bvh import Bvh
from limberjack.collision.detect import Contacts, Detector, detect_once
from limberjack.collision.shapes import Filters, Shapes
from limberjack.errors import Status
from limberjack.spatial.quaternions import rotation_from_quaternion
from limberjack.spatial.vectors import cross, rotate_back

__all__ = [
    "CONTACT", "MARGIN", "SLOP", "Search", "evaluate_contacts", "find_slots", "leave_overlaps", "new_search", "touches",
    "write_slots",
]  # fmt: skip

# Columns of a contact: its point in both bodies, from the com in body axes, or in the world; normal, directions; gap;
# by how much restitution opens it within the step.
POINT_A, POINT_B, AXES, GAP, BOUNCE, CONTACT = 0, 3, 6, 15, 16, 17
# Overlap that is left as it is, and gap up to which contacts are detected besides those of the motion [m].
SLOP, MARGIN = 1e-4, 1e-3
# Slower impacts have no restitution, as a multiple of the speed that gravity gives in a step.
_SLOWEST = 2.0


class Search(NamedTuple):
    """What finds contacts; n bodies."""

    shapes: Shapes
    filters: Filters
    bvh: Bvh
    broad: Broad
    contacts: Contacts
    extent: np.ndarray  # (n,) how far shapes reach from the com [m]
    pose: np.ndarray  # (n, 7)
    reach: np.ndarray  # (n,)


def new_search(detector: Detector, n: int) -> Search:
    """Return the search of n bodies with a detector."""
    shapes, extent = detector.shapes, np.zeros(n)
    on = np.flatnonzero((shapes.link >= 0) & np.isfinite(shapes.radius))
    far = np.sqrt(np.square(shapes.offset[on, :3]).sum(axis=1)) + shapes.radius[on]
    np.maximum.at(extent, shapes.link[on], far)
    return Search(*detector, extent, np.zeros((n, 7)), np.zeros(n))


@inner
def _local(pose, i, x, y, z):
    """Return a point of the world in body i, from its com."""
    r = rotation_from_quaternion(pose[i, 3], pose[i, 4], pose[i, 5], pose[i, 6])
    return rotate_back(r, x - pose[i, 0], y - pose[i, 1], z - pose[i, 2])


@inner
def _point_speed(pose, speeds, i, x, y, z, nx, ny, nz):
    """Return the velocity along n of the point (x, y, z) of the world, fixed in body i."""
    o = 6 * i
    vx, vy, vz = cross(speeds[o], speeds[o + 1], speeds[o + 2], x - pose[i, 0], y - pose[i, 1], z - pose[i, 2])
    return nx * (vx + speeds[o + 3]) + ny * (vy + speeds[o + 4]) + nz * (vz + speeds[o + 5])


@inner
def _set_bounce(k, c, h, slowest, contacts, pose, speeds, data):
    """Set by how much restitution opens the contact within the step."""
    a, b, p, n = contacts.link_a[c], contacts.link_b[c], contacts.point, contacts.normal
    v = _point_speed(pose, speeds, a, p[c, 0], p[c, 1], p[c, 2], n[c, 0], n[c, 1], n[c, 2])
    if b >= 0:
        v -= _point_speed(pose, speeds, b, p[c, 0], p[c, 1], p[c, 2], n[c, 0], n[c, 1], n[c, 2])
    closes = v < -slowest and h * v < contacts.depth[c]
    data[k, BOUNCE] = -h * contacts.restitution[c] * v if closes else 0.0


@inner
def _write(k, c, contacts, pose, contact_link, data):
    """Write contact c into slot k."""
    a, b = contacts.link_a[c], contacts.link_b[c]
    x, y, z = contacts.point[c, 0], contacts.point[c, 1], contacts.point[c, 2]
    contact_link[k, 0], contact_link[k, 1], contact_link[k, 2] = a, b, c
    data[k, 0], data[k, 1], data[k, 2] = _local(pose, a, x, y, z)
    data[k, 3], data[k, 4], data[k, 5] = x, y, z
    if b >= 0:
        data[k, 3], data[k, 4], data[k, 5] = _local(pose, b, x, y, z)
    nx, ny, nz = contacts.normal[c, 0], contacts.normal[c, 1], contacts.normal[c, 2]
    x, y, z = (-ny, nx, 0.0) if abs(nz) < 0.7 else (0.0, -nz, ny)
    f = 1.0 / math.sqrt(x * x + y * y + z * z)
    x, y, z = f * x, f * y, f * z
    data[k, 6], data[k, 7], data[k, 8] = nx, ny, nz
    data[k, 9], data[k, 10], data[k, 11] = x, y, z
    data[k, 12], data[k, 13], data[k, 14] = cross(nx, ny, nz, x, y, z)
    data[k, GAP] = -contacts.depth[c]


@kernel
def write_slots(
    # in
    first, alone, contacts, pose,
    # out
    system, contact_link, data,
):  # fmt: skip
    """Write the contacts found at `pose` into slots, all of which they fit into: `alone` of one body, then of two.

    Args:
        first: the constraint of the first slot.
        alone: slots of one body.
        contacts: of a detection.
        pose: (n, POSE).
        system: the constraints; bodies of slots are written.
        contact_link, data: see `find_slots`.
    """
    for k in range(len(contact_link)):
        contact_link[k, 0] = contact_link[k, 1] = contact_link[k, 2] = -1
    one, two = 0, alone
    for c in range(contacts.count[0]):
        k = one if contacts.link_b[c] < 0 else two
        one, two = (one + 1, two) if contacts.link_b[c] < 0 else (one, two + 1)
        _write(k, c, contacts, pose, contact_link, data)
        t = system.incidence_start[first + k]
        system.incidence_body[t] = contacts.link_a[c]
        if contacts.link_b[c] >= 0:
            system.incidence_body[t + 1] = contacts.link_b[c]


@outlined
def find_slots(
    # model
    gravity, system, first, search,
    # in
    h, pose, speeds,
    # out
    contact_link, data, friction, slides,
):  # fmt: skip
    """Find the contacts at `pose` and write them into slots; return 0, Status.MORE_CONTACTS or Status.NOT_FINITE.

    Args:
        gravity: (3,).
        system: the constraints; bodies of slots are written.
        first: the constraint of the first slot.
        search: of the model.
        h: the step [s].
        pose, speeds: (n, POSE) and (6 n,) of the bodies.
        contact_link: (k, 3) bodies of slots, the second -1 for the world, and the contact; all -1 for none. The first
            `k - moving` slots have one body.
        data: (k, CONTACT).
        friction: (k,).
        slides: (k,) which slip.
    """
    count = len(contact_link)
    fall = h * h * math.sqrt(gravity[0] * gravity[0] + gravity[1] * gravity[1] + gravity[2] * gravity[2])
    for i in range(len(pose)):
        for c in range(7):
            search.pose[i, c] = pose[i, c]
        o = 6 * i
        turn = math.sqrt(speeds[o] * speeds[o] + speeds[o + 1] * speeds[o + 1] + speeds[o + 2] * speeds[o + 2])
        move = math.sqrt(speeds[o + 3] * speeds[o + 3] + speeds[o + 4] * speeds[o + 4] + speeds[o + 5] * speeds[o + 5])
        search.reach[i] = h * (move + search.extent[i] * turn) + fall
    for k in range(count):
        contact_link[k, 0] = contact_link[k, 1] = contact_link[k, 2] = -1
        slides[k] = 0
    found = detect_once(
        search.shapes, search.filters, search.pose, search.reach, MARGIN, search.bvh, search.broad, search.contacts
    )
    if found == Status.MORE_CONTACTS:
        return Status.MORE_CONTACTS
    if found == Status.POSE_NOT_FINITE:
        return Status.NOT_FINITE
    contacts, moving = search.contacts, 0
    while (
        moving < count
        and system.incidence_start[first + count - moving] - system.incidence_start[first + count - moving - 1] == 2
    ):
        moving += 1
    one, two = 0, count - moving
    for c in range(contacts.count[0]):
        if contacts.link_b[c] < 0:
            k = one
            one += 1
        else:
            k = two
            two += 1
        if one > count - moving or two > count:
            return Status.MORE_CONTACTS
        _write(k, c, contacts, pose, contact_link, data)
        _set_bounce(k, c, h, _SLOWEST * fall / h if h > 0.0 else 0.0, contacts, pose, speeds, data)
        t = system.incidence_start[first + k]
        system.incidence_body[t] = contacts.link_a[c]
        if contacts.link_b[c] >= 0:
            system.incidence_body[t + 1] = contacts.link_b[c]
        friction[k] = contacts.friction[c]
        slides[k] = 1 if contacts.friction[c] == 0.0 else 0
    return 0


@inner
def _world_point(ends, i, x, y, z):
    """Return a point of body i in the world."""
    return (
        ends[i, 9] + ends[i, 0] * x + ends[i, 1] * y + ends[i, 2] * z,
        ends[i, 10] + ends[i, 3] * x + ends[i, 4] * y + ends[i, 5] * z,
        ends[i, 11] + ends[i, 6] * x + ends[i, 7] * y + ends[i, 8] * z,
    )


@outlined
def evaluate_contacts(
    # model
    system, first,
    # in
    blocks, contact_link, data, ends,
    # out
    residual, j,
):  # fmt: skip
    """Fill gap and slip of all slots, 1 and 0 of empty ones, and their rows if `blocks`.

    Args:
        system: the constraints.
        first: that of the first slot.
        blocks: whether to fill rows.
        contact_link, data: of `find_slots`.
        ends: (n, 18) of the bodies.
        residual, j: of all rows.
    """
    for k in range(len(contact_link)):
        r, t = system.row_start[first + k], system.incidence_start[first + k]
        a, b = contact_link[k, 0], contact_link[k, 1]
        if a < 0:
            residual[r], residual[r + 1], residual[r + 2] = 1.0, 0.0, 0.0
            for o in range(system.block_start[t], system.block_start[system.incidence_start[first + k + 1]]):
                j[o] = 0.0
            continue
        px, py, pz = _world_point(ends, a, data[k, 0], data[k, 1], data[k, 2])
        x, y, z = data[k, 3], data[k, 4], data[k, 5]
        if b >= 0:
            x, y, z = _world_point(ends, b, x, y, z)
        x, y, z = px - x, py - y, pz - z
        for d in range(3):
            o = AXES + 3 * d
            nx, ny, nz = data[k, o], data[k, o + 1], data[k, o + 2]
            residual[r + d] = nx * x + ny * y + nz * z + (data[k, GAP] if d == 0 else 0.0)
            if not blocks:
                continue
            # both act at the point of a: opposite wrenches at one point
            for end in range(2 if b >= 0 else 1):
                i, sign = (a, 1.0) if end == 0 else (b, -1.0)
                lx, ly, lz = cross(px - ends[i, 9], py - ends[i, 10], pz - ends[i, 11], nx, ny, nz)
                at = system.block_start[t + end] + 6 * d
                j[at], j[at + 1], j[at + 2] = sign * lx, sign * ly, sign * lz
                j[at + 3], j[at + 4], j[at + 5] = sign * nx, sign * ny, sign * nz


@inner
def touches(contact_link):
    """Return whether any slot has a contact."""
    for k in range(len(contact_link)):
        if contact_link[k, 0] >= 0:
            return True
    return False


@outlined
def leave_overlaps(rows, data, residual, open):
    """Let the motion leave the overlaps of contacts as they are, or open them where they bounce."""
    for k in range(len(data)):
        r = rows + 3 * k
        open[r] = residual[r] + data[k, BOUNCE] if data[k, BOUNCE] > 0.0 else min(residual[r], 0.0)
        open[r + 1] = open[r + 2] = 0.0
