"""Contacts four at a time: the sweeps of `sweeps.py` over bundles of pairs of bodies, lane by lane.

The contacts of two bodies with one normal are a manifold, of at most four points. A bundle is up to four manifolds that
share no body; its points are solved one after the other, those of the four manifolds at once. A manifold comes into the
first bundle with room after all bundles that hold one of its bodies, so that every body sees its contacts in the order
in which `sweeps.sweep` would solve them: the result is that of sweeping one contact after the other.

Bodies that nothing moves, static or led, are in as many manifolds as there are.

A point's row is written by lanes: column c of lane l is row[p, 4 c + l]. Sweeps over large piles wait for memory, so
levers and effective masses are stored in single precision, which moves the point where an impulse acts by 1e-8 of its
lever; velocities, impulses, normals, gaps and all arithmetic are in double precision. What only `update_and_relax`
reads lies in another array. Velocities and inverse inertias are copied to rows of eight numbers, which are transposed
as they are read; rows from n on stand for static bodies and for lanes without a manifold.

Many contacts are divided into strands for several threads (`team.py`): space is cut into slabs, and a strand holds the
contacts within some slabs, or those between some slabs and the next. Strands within slabs share no body: each is swept
by one thread. Those between slabs follow in the same way, then what is left. A strand keeps the order of the sweeps; it
has several slabs because their contacts fill each other's bundles. Strands follow from poses and contacts alone: any
number of threads gives the same result.

Contacts with restitution, and those of bodies that turn or move far in a substep, stay in the rows of `sweeps.py` and
are swept after the bundles.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from limberjack._jit import inner, outlined
from limberjack.contact import sweeps as one
from limberjack.contact.sweeps import (
    add_step_impulse,
    from_com,
    set_effective_masses,
    sweep,
    update_contacts,
    warm_start,
)
from limberjack.spatial.lanes import load4, splat, store4
from limberjack.spatial.packed import (
    any_above,
    choose,
    gather,
    larger,
    load4_single,
    root,
    scatter,
    smaller,
    store4_single,
)
from limberjack.spatial.threads import (
    COPY,
    FILL,
    PUSH,
    RELAX,
    RETURN,
    STORE,
    SWEEP,
    WARM,
    Team,
    new_team,
    next_piece,
    pieces_of,
    share,
)
from limberjack.spatial.vectors import cross, symmetric_times

__all__ = [
    "BODIES", "Bundles", "add_normal_impulses", "begin_bundles", "copy_bodies", "fill_bundles", "fill_strand",
    "list_contacts", "new_bundles", "pack_contacts", "pack_step_impulses", "push_strand", "relax_strand",
    "return_velocities", "set_motion", "store_impulses", "store_some", "sweep_bundles", "sweep_strand",
    "unpack_bundles", "unpack_fast", "update_and_relax", "update_loose", "warm_start_strand",
]  # fmt: skip

# Columns of a bundle: normal and two directions across it, friction, half where the second body is not static.
N, T1, T2, MU, HALF, _FRAME = 0, 3, 6, 9, 10, 11
# Columns of a point: gap, impulses along the three directions.
_S, _J, _ROW = 0, 1, 4
# Columns in single precision: levers, 1 / n.K n, 1 / k, the inverse of K across n (11, 12, 22), K n along the two
# directions across n.
_RA, _RB, _MN, _MT, _STICK, _KN, _LEVER = 0, 3, 6, 7, 8, 11, 13
# Columns of what is read once per substep: half the distance of the two points, impulses of the whole step.
_D, _STEP, _SLOW = 0, 3, 6
# Numbers of a body in the copies.
_WIDE = 8
# Manifolds of at most this many points share bundles, and those of more.
_FEW = 2
# From so many contacts on, so many slabs, strands within slabs, and strands between slabs; one more for the rest.
_MANY, _SLABS, _WITHIN, _BETWEEN = 1024, 8, 4, 2
_STRANDS = _WITHIN + _BETWEEN + 1
# Intervals of a coordinate that slabs are made of.
_INTERVALS = 512
# A height counts so much when the axis across the slabs is chosen: sweeps go from the ground up.
_UPRIGHT = 0.25
# Bodies and contacts of a piece of a task.
BODIES, CONTACTS = 128, 512
# Indices in `Bundles.count`; of strands those within slabs, 1 where nothing is divided.
BUNDLES, LOOSE, LISTED, STRANDS = range(4)


class Bundles(NamedTuple):
    """Bundles of contacts; room for c contacts of n bodies."""

    slot: np.ndarray  # (c,) 16 * bundle + 4 * lane + point of each contact, -1 where it is in no bundle
    packed: np.ndarray  # (n + 1,) 1 where the contacts of an island are in bundles or loose
    body: np.ndarray  # (c, 8) bodies a and b of the four manifolds, n + strand = static or none
    first: np.ndarray  # (c + 1,) first point of each bundle
    lanes: np.ndarray  # (c,) manifolds of each bundle
    frame: np.ndarray  # (c, 4 _FRAME)
    row: np.ndarray  # (c, 4 _ROW) points
    lever: np.ndarray  # (c, 4 _LEVER) of the same points, float32
    slow: np.ndarray  # (c, 4 _SLOW) of the same points
    velocity: np.ndarray  # (n + _STRANDS, 8) angular and linear
    response: np.ndarray  # (n + _STRANDS, 8) inverse inertia xx, yy, zz, inverse mass; xy, xz, yz
    motion: np.ndarray  # (n + _STRANDS, 8) rotation vector and displacement in a substep
    last: np.ndarray  # (n + 1,) last bundle of each body, -1 = none
    room: np.ndarray  # (2, c + 2) first bundle with room from each on, for manifolds of few points and of more
    loose: np.ndarray  # (c,) contacts that are swept one by one
    listed: np.ndarray  # (2, c) contacts that are to be packed, and by strand
    way: np.ndarray  # (c,) strand of each contact
    slab: np.ndarray  # (2, n + 1) slab of each body; of its strand between slabs the lower one, -1 = none
    strand: np.ndarray  # (2, _STRANDS + 1) first bundle of each strand, and first contact in the list
    tally: np.ndarray  # (_INTERVALS,) contacts, then slab
    lane: np.ndarray  # (_STRANDS, 8) scratch
    count: np.ndarray  # (4,) bundles, loose contacts, contacts to be packed, strands within slabs
    team: Team  # threads


def _aligned(rows: int, width: int, kind: Any = np.float64) -> np.ndarray:
    """Return zeros that start at a cache line."""
    whole = np.zeros(rows * width + 16, kind)
    start = -whole.ctypes.data % 64 // whole.itemsize
    return whole[start : start + rows * width].reshape(rows, width)


def new_bundles(n: int, capacity: int, team: Team | None = None) -> Bundles:
    """Return room for `capacity` contacts of n bodies; swept by a team of threads."""
    c, integers = capacity, np.int64
    return Bundles(
        slot=np.full(c, -1, integers), packed=np.zeros(n + 1, integers), body=np.zeros((c, 8), integers),
        first=np.zeros(c + 1, integers), lanes=np.zeros(c, integers), frame=_aligned(c, 4 * _FRAME),
        row=_aligned(c, 4 * _ROW), lever=_aligned(c, 4 * _LEVER, np.float32), slow=_aligned(c, 4 * _SLOW),
        velocity=_aligned(n + _STRANDS, _WIDE), response=_aligned(n + _STRANDS, _WIDE),
        motion=_aligned(n + _STRANDS, _WIDE),
        last=np.zeros(n + 1, integers), room=np.zeros((2, c + 2), integers), loose=np.zeros(c, integers),
        listed=np.zeros((2, c), integers), way=np.zeros(c, integers), slab=np.zeros((2, n + 1), integers),
        strand=np.zeros((2, _STRANDS + 1), integers), tally=np.zeros(_INTERVALS, integers),
        lane=_aligned(_STRANDS, 8), count=np.zeros(4, integers), team=team or new_team(),
    )  # fmt: skip


# Making bundles


@outlined
def begin_bundles(count, islands, bundles):
    """Empty the bundles, for `count` contacts of `islands` islands."""
    for k in range(count):
        bundles.slot[k] = -1
    for i in range(islands):
        bundles.packed[i] = 0
    for i in range(len(bundles.last)):
        bundles.last[i] = -1
    bundles.count[BUNDLES], bundles.count[LOOSE], bundles.count[LISTED] = 0, 0, 0
    bundles.room[0, 0], bundles.room[1, 0] = 0, 0


@inner
def _with_room(kind, i, room):
    """Return the first bundle with room from i on, halving the path to it."""
    while room[kind, i] != i:
        room[kind, i] = room[kind, room[kind, i]]
        i = room[kind, i]
    return i


@inner
def _next_bundle(kind, i, strand, bundles):
    """Return the first bundle with room from i on; a new one where there is none.

    Each strand has a row of its own for static bodies, since all its bundles write to it.
    """
    i, count, n = _with_room(kind, i, bundles.room), bundles.count[BUNDLES], len(bundles.last) - 1
    if i == count:
        for c in range(8):
            bundles.body[i, c] = n + strand
        bundles.lanes[i], bundles.first[i] = 0, 0
        for c in range(2):
            bundles.room[c, i + 1] = i + 1
        bundles.room[1 - kind, i] = i + 1
        bundles.count[BUNDLES] = count + 1
    return i


@outlined
def list_contacts(begin, end, order, contacts, bundles):
    """List the contacts begin .. end - 1 of an island to be packed, those with restitution to be loose."""
    for k in range(begin, end):
        if contacts.restitution[order[k]] > 0.0:
            bundles.loose[bundles.count[LOOSE]] = k
            bundles.count[LOOSE] += 1
        else:
            bundles.listed[0, bundles.count[LISTED]] = k
            bundles.count[LISTED] += 1


@inner
def _mover(k, link, led):
    """Return the first body of contact k that is not led."""
    return link[k, 1] if led[link[k, 0]] else link[k, 0]


@inner
def _interval(x, low, scale):
    t = (x - low) * scale
    return int(min(t, _INTERVALS - 1.0)) if t > 0.0 else 0


@outlined
def _set_slabs(gravity, link, led, pose, bundles):
    """Divide the bodies of the listed contacts by slabs of about as many contacts across their longest extent."""
    count, listed, slab, tally = bundles.count[LISTED], bundles.listed, bundles.slab, bundles.tally
    axis, low, widest, scale, steepest = 0, 0.0, -1.0, 0.0, 0
    for c in range(1, 3):
        if abs(gravity[c]) > abs(gravity[steepest]):
            steepest = c
    for c in range(3):
        least, most, i = math.inf, -math.inf, -1
        for t in range(count):
            j = _mover(listed[0, t], link, led)
            if j != i:
                least, most, i = min(least, pose[j, c]), max(most, pose[j, c]), j
        extent = (most - least) * (_UPRIGHT if c == steepest and gravity[c] != 0.0 else 1.0)
        if extent > widest:
            axis, low, widest, scale = c, least, extent, _INTERVALS / max(most - least, 1e-9)
    for t in range(_INTERVALS):
        tally[t] = 0
    for t in range(count):
        tally[_interval(pose[_mover(listed[0, t], link, led), axis], low, scale)] += 1
    before = 0
    for t in range(_INTERVALS):
        own = tally[t]
        tally[t] = (2 * before + own) * _SLABS // (2 * count)
        before += own
    for i in range(len(pose)):
        slab[0, i], slab[1, i] = tally[_interval(pose[i, axis], low, scale)], -1


@inner
def _strand_of(k, link, led, slab):
    """Return the strand of contact k."""
    i = _mover(k, link, led)
    j = link[k, 1]
    if j < 0 or led[j] or slab[0, i] == slab[0, j]:
        return slab[0, i] % _WITHIN
    low = min(slab[0, i], slab[0, j])
    if abs(slab[0, i] - slab[0, j]) > 1 or (slab[1, i] >= 0 and slab[1, i] != low) or (
        slab[1, j] >= 0 and slab[1, j] != low
    ):  # fmt: skip
        return _STRANDS - 1
    slab[1, i] = slab[1, j] = low
    return _WITHIN + low * _BETWEEN // (_SLABS - 1)


@outlined
def _divide(gravity, link, led, pose, bundles):
    """Sort the listed contacts by strand, otherwise in the order of the sweeps."""
    count, listed, start = bundles.count[LISTED], bundles.listed, bundles.strand
    bundles.count[STRANDS] = _WITHIN if count >= _MANY else 1
    for s in range(_STRANDS + 1):
        start[1, s] = 0
    if count >= _MANY:
        _set_slabs(gravity, link, led, pose, bundles)
    for t in range(count):
        s = _strand_of(listed[0, t], link, led, bundles.slab) if count >= _MANY else 0
        bundles.way[t] = s
        start[1, s + 1] += 1
    for s in range(_STRANDS):
        start[1, s + 1] += start[1, s]
    for t in range(count):
        s = bundles.way[t]
        listed[1, start[1, s]] = listed[0, t]
        start[1, s] += 1
    for s in range(_STRANDS, 0, -1):
        start[1, s] = start[1, s - 1]
    start[1, 0] = 0


@inner
def _end_of_manifold(t, last, listed, link, order, contacts):
    """Return the first contact in the list after t that is not of its manifold."""
    first, end, normal = listed[1, t], t + 1, contacts.normal
    k = order[first]
    while end < last and end - t < 4:
        next_one = listed[1, end]
        if link[next_one, 0] != link[first, 0] or link[next_one, 1] != link[first, 1]:
            break
        j = order[next_one]
        if (
            normal[j, 0] != normal[k, 0]
            or normal[j, 1] != normal[k, 1]
            or normal[j, 2] != normal[k, 2]
            or contacts.friction[j] != contacts.friction[k]
        ):
            break
        end += 1
    return end


@outlined
def pack_contacts(gravity, link, order, contacts, led, pose, bundles):
    """Assign the listed contacts to bundles, strand by strand; `fill_bundles` follows."""
    _divide(gravity, link, led, pose, bundles)
    last, listed, start = bundles.last, bundles.listed, bundles.strand
    for s in range(_STRANDS):
        begin = start[0, s] = bundles.count[BUNDLES]
        k = start[1, s]
        while k < start[1, s + 1]:
            after = _end_of_manifold(k, start[1, s + 1], listed, link, order, contacts)
            a, b = link[listed[1, k], 0], link[listed[1, k], 1]
            earliest = begin if led[a] else max(last[a] + 1, begin)
            if b >= 0 and not led[b]:
                earliest = max(earliest, last[b] + 1)
            kind = 0 if after - k <= _FEW else 1
            i = _next_bundle(kind, earliest, s, bundles)
            lane = bundles.lanes[i]
            bundles.body[i, lane] = a
            if b >= 0:
                bundles.body[i, 4 + lane] = b
            last[a] = max(last[a], i)
            if b >= 0:
                last[b] = max(last[b], i)
            for t in range(k, after):
                bundles.slot[listed[1, t]] = 16 * i + 4 * lane + t - k
            bundles.first[i] = max(bundles.first[i], after - k)
            bundles.lanes[i] = lane + 1
            if lane == 3:
                bundles.room[kind, i] = i + 1
            k = after
    start[0, _STRANDS] = bundles.count[BUNDLES]


@inner
def _set_lane(array, i, c, lane, x, y, z):
    array[i, 4 * c + lane], array[i, 4 * c + 4 + lane], array[i, 4 * c + 8 + lane] = x, y, z


@inner
def _set_frame(i, lane, k, static, contacts, frame):
    """Fill the frame of a manifold from its first contact k."""
    nx, ny, nz = contacts.normal[k, 0], contacts.normal[k, 1], contacts.normal[k, 2]
    if abs(nx) > 0.6:
        f = 1.0 / math.sqrt(nx * nx + nz * nz)
        sx, sy, sz = -f * nz, 0.0, f * nx
    else:
        f = 1.0 / math.sqrt(ny * ny + nz * nz)
        sx, sy, sz = 0.0, f * nz, -f * ny
    tx, ty, tz = cross(nx, ny, nz, sx, sy, sz)
    _set_lane(frame, i, N, lane, nx, ny, nz)
    _set_lane(frame, i, T1, lane, sx, sy, sz)
    _set_lane(frame, i, T2, lane, tx, ty, tz)
    frame[i, 4 * MU + lane] = contacts.friction[k]
    frame[i, 4 * HALF + lane] = 0.0 if static else 0.5


@inner
def _across(i, lane, x, y, z, frame):
    """Return the two components of a vector across the normal of a manifold."""
    s = x * frame[i, 4 * T1 + lane] + y * frame[i, 4 * T1 + 4 + lane] + z * frame[i, 4 * T1 + 8 + lane]
    t = x * frame[i, 4 * T2 + lane] + y * frame[i, 4 * T2 + 4 + lane] + z * frame[i, 4 * T2 + 8 + lane]
    return s, t


@inner
def _set_point(p, lane, i, k, a, b, contacts, found, pose, bundles):
    """Fill lane and point of contact k; see `sweeps.set_contact_rows` and `sweeps.update_contacts`."""
    out, lever, half = bundles.row, bundles.lever, -0.5 * contacts.depth[k]
    dx, dy, dz = half * contacts.normal[k, 0], half * contacts.normal[k, 1], half * contacts.normal[k, 2]
    x, y, z = contacts.point[k, 0], contacts.point[k, 1], contacts.point[k, 2]
    if b >= 0:
        _set_lane(bundles.slow, p, _D, lane, dx, dy, dz)
        if dx * dx + dy * dy + dz * dz <= one.FAR * one.FAR:
            # one point for both
            dx, dy, dz = 0.0, 0.0, 0.0
    rx, ry, rz = from_com(pose, a, x + dx, y + dy, z + dz)
    _set_lane(lever, p, _RA, lane, rx, ry, rz)
    rx, ry, rz = from_com(pose, b, x - dx, y - dy, z - dz)
    _set_lane(lever, p, _RB, lane, rx, ry, rz)
    jn, s, t = found[k, 0], 0.0, 0.0
    if jn > 0.0:
        s, t = _across(i, lane, found[k, 1], found[k, 2], found[k, 3], bundles.frame)
    _set_lane(out, p, _J, lane, jn, s, t)
    out[p, 4 * _S + lane] = 2.0 * half
    # manifolds of fewer points than the bundle leave this at 0
    lever[p, 4 * _MN + lane] = 1.0


@inner
def _place(k, bundles):
    """Return bundle, lane and point of contact k."""
    i = bundles.slot[k] >> 4
    return i, (bundles.slot[k] >> 2) & 3, bundles.first[i] + (bundles.slot[k] & 3)


@outlined
def fill_strand(s, link, order, contacts, found, pose, bundles):
    """Fill the bundles of a strand from the contacts that were assigned to them, with the impulses `found`."""
    first, begin, end = bundles.first, bundles.strand[0, s], bundles.strand[0, s + 1]
    for i in range(begin, end):
        for c in range(4 * _FRAME):
            bundles.frame[i, c] = 0.0
    for p in range(first[begin], first[end]):
        for c in range(4 * _ROW):
            bundles.row[p, c] = 0.0
        for c in range(4 * _LEVER):
            bundles.lever[p, c] = 0.0
        for c in range(4 * _SLOW):
            bundles.slow[p, c] = 0.0
    for t in range(bundles.strand[1, s], bundles.strand[1, s + 1]):
        k = bundles.listed[1, t]
        i, lane, p = _place(k, bundles)
        if p == first[i]:
            _set_frame(i, lane, order[k], link[k, 1] < 0, contacts, bundles.frame)
        _set_point(p, lane, i, order[k], link[k, 0], link[k, 1], contacts, found, pose, bundles)
    _set_masses(begin, end, bundles)


@outlined
def fill_bundles(link, order, contacts, found, pose, inverse, u, bundles):
    """Fill all bundles, and their masses."""
    first, point, team = bundles.first, 0, bundles.team
    for i in range(bundles.count[BUNDLES]):
        size = first[i]
        first[i] = point
        point += size
    first[bundles.count[BUNDLES]] = point
    if point > 0:
        _copy_bodies(inverse, u, bundles)
        s = share(FILL, 0, _STRANDS, team)
        while s >= 0:
            fill_strand(s, link, order, contacts, found, pose, bundles)
            s = next_piece(s, 0, _STRANDS, team)


@outlined
def pack_step_impulses(count, row, bundles):
    """Take the impulses of the whole step so far of the contacts 0 .. count - 1 from their rows."""
    slow, frame = bundles.slow, bundles.frame
    for k in range(count):
        if bundles.slot[k] >= 0:
            i, lane, p = _place(k, bundles)
            s, t = _across(i, lane, row[k, one.STEP_T], row[k, one.STEP_T + 1], row[k, one.STEP_T + 2], frame)
            _set_lane(slow, p, _STEP, lane, row[k, one.STEP_N], s, t)


# Bodies


@outlined
def copy_bodies(piece, inverse, u, bundles):
    """Copy inverse inertias and velocities of some of the bodies of the bundles."""
    response, velocity = bundles.response, bundles.velocity
    for i in range(BODIES * piece, min(BODIES * (piece + 1), len(bundles.last) - 1)):
        if bundles.last[i] >= 0:
            o = 6 * i
            response[i, 0], response[i, 1], response[i, 2] = inverse[i, 0], inverse[i, 1], inverse[i, 2]
            response[i, 3], response[i, 4], response[i, 5] = inverse[i, 6], inverse[i, 3], inverse[i, 4]
            response[i, 6] = inverse[i, 5]
            velocity[i, 0], velocity[i, 1], velocity[i, 2] = u[o], u[o + 1], u[o + 2]
            velocity[i, 4], velocity[i, 5], velocity[i, 6] = u[o + 3], u[o + 4], u[o + 5]


@outlined
def return_velocities(piece, led, u, bundles):
    """Copy the velocities of some of the bodies of the bundles back."""
    v = bundles.velocity
    for i in range(BODIES * piece, min(BODIES * (piece + 1), len(bundles.last) - 1)):
        if bundles.last[i] >= 0 and not led[i]:
            o = 6 * i
            u[o], u[o + 1], u[o + 2] = v[i, 0], v[i, 1], v[i, 2]
            u[o + 3], u[o + 4], u[o + 5] = v[i, 4], v[i, 5], v[i, 6]


@inner
def _copy_bodies(inverse, u, bundles):
    count, team = pieces_of(len(bundles.last) - 1, BODIES), bundles.team
    piece = share(COPY, 0, count, team)
    while piece >= 0:
        copy_bodies(piece, inverse, u, bundles)
        piece = next_piece(piece, 0, count, team)


@inner
def _return_velocities(led, u, bundles):
    count, team = pieces_of(len(bundles.last) - 1, BODIES), bundles.team
    piece = share(RETURN, 0, count, team)
    while piece >= 0:
        return_velocities(piece, led, u, bundles)
        piece = next_piece(piece, 0, count, team)


@outlined
def set_motion(first, last, h, before, pose, u, bundles):
    """Store how far bodies first .. last - 1 moved from the poses before, by h u; see `sweeps.update_contacts`."""
    out = bundles.motion
    if bundles.count[BUNDLES] > 0:
        for i in range(first, last):
            if bundles.last[i] >= 0:
                o = 6 * i
                out[i, 0], out[i, 1], out[i, 2] = h * u[o], h * u[o + 1], h * u[o + 2]
                for c in range(3):
                    out[i, 4 + c] = pose[i, c] - before[i, c]


@inner
def _bodies(side, i, body):
    """Return bodies a or b of the four manifolds of bundle i."""
    o = 4 * side
    return body[i, o], body[i, o + 1], body[i, o + 2], body[i, o + 3]


@inner
def _responses(g, response):
    """Return the six numbers of the inverse inertias of four bodies, and their inverse masses."""
    xx, yy, zz, m = gather(response, g[0], g[1], g[2], g[3], 0)
    xy, xz, yz, _ = gather(response, g[0], g[1], g[2], g[3], 4)
    return (xx, yy, zz, xy, xz, yz), m


@inner
def _vector(array, i, c):
    """Return column c .. c + 2 of row i: a vector of each lane."""
    return load4(array, i, 4 * c), load4(array, i, 4 * c + 4), load4(array, i, 4 * c + 8)


@inner
def _levers(array, i, c):
    """Return the same of an array of single precision."""
    return load4_single(array, i, 4 * c), load4_single(array, i, 4 * c + 4), load4_single(array, i, 4 * c + 8)


@inner
def _store_vector(array, i, c, v):
    store4(array, i, 4 * c, v[0])
    store4(array, i, 4 * c + 4, v[1])
    store4(array, i, 4 * c + 8, v[2])


@inner
def _store_levers(array, i, c, v):
    store4_single(array, i, 4 * c, v[0])
    store4_single(array, i, 4 * c + 4, v[1])
    store4_single(array, i, 4 * c + 8, v[2])


@inner
def _dot(a, b):
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


# Effective masses


@inner
def _response(inertia, m, r, p):
    """Return the velocity that the impulse p at the lever r gives to its point."""
    x, y, z = cross(r[0], r[1], r[2], p[0], p[1], p[2])
    x, y, z = symmetric_times(inertia, x, y, z)
    x, y, z = cross(x, y, z, r[0], r[1], r[2])
    return x + m * p[0], y + m * p[1], z + m * p[2]


@inner
def _pair_response(ia, ma, ra, ib, mb, rb, p):
    """Return K p."""
    x, y, z = _response(ia, ma, ra, p)
    dx, dy, dz = _response(ib, mb, rb, p)
    return x + dx, y + dy, z + dz


@outlined
def _set_masses(begin, end, bundles):
    """Fill the effective masses of all points of some bundles; 0 in lanes without a contact."""
    lever, zero, unit = bundles.lever, splat(0.0), splat(1.0)
    for i in range(begin, end):
        ia, ma = _responses(_bodies(0, i, bundles.body), bundles.response)
        ib, mb = _responses(_bodies(1, i, bundles.body), bundles.response)
        n, t1, t2 = _vector(bundles.frame, i, N), _vector(bundles.frame, i, T1), _vector(bundles.frame, i, T2)
        for p in range(bundles.first[i], bundles.first[i + 1]):
            ra, rb = _levers(lever, p, _RA), _levers(lever, p, _RB)
            k = _pair_response(ia, ma, ra, ib, mb, rb, n)
            kn, k1, k2 = _dot(k, n), _dot(k, t1), _dot(k, t2)
            k = _pair_response(ia, ma, ra, ib, mb, rb, t1)
            k11, k12 = _dot(k, t1), _dot(k, t2)
            k = _pair_response(ia, ma, ra, ib, mb, rb, t2)
            k22 = _dot(k, t2)
            half = 0.5 * (k11 - k22)
            most = 0.5 * (k11 + k22) + root(half * half + k12 * k12)
            det = k11 * k22 - k12 * k12
            there = load4_single(lever, p, 4 * _MN)
            f = choose(there, zero, unit / det, zero)
            store4_single(lever, p, 4 * _MN, choose(there, zero, unit / kn, zero))
            store4_single(lever, p, 4 * _MT, choose(there, zero, unit / most, zero))
            store4_single(lever, p, 4 * _STICK, f * k22)
            store4_single(lever, p, 4 * _STICK + 4, zero - f * k12)
            store4_single(lever, p, 4 * _STICK + 8, f * k11)
            store4_single(lever, p, 4 * _KN, k1)
            store4_single(lever, p, 4 * _KN + 4, k2)


# Sweeps


@inner
def _load_velocities(g, velocity):
    """Return the angular and linear velocities of four bodies."""
    wx, wy, wz, _ = gather(velocity, g[0], g[1], g[2], g[3], 0)
    vx, vy, vz, _ = gather(velocity, g[0], g[1], g[2], g[3], 4)
    return (wx, wy, wz), (vx, vy, vz)


@inner
def _store_velocities(g, w, v, velocity):
    zero = splat(0.0)
    scatter(velocity, g[0], g[1], g[2], g[3], 0, w[0], w[1], w[2], zero)
    scatter(velocity, g[0], g[1], g[2], g[3], 4, v[0], v[1], v[2], zero)


@inner
def _push(inertia, m, r, w, v, px, py, pz):
    """Return the velocities after the impulse p at the lever r."""
    x, y, z = cross(r[0], r[1], r[2], px, py, pz)
    x, y, z = symmetric_times(inertia, x, y, z)
    return (w[0] + x, w[1] + y, w[2] + z), (v[0] + m * px, v[1] + m * py, v[2] + m * pz)


@inner
def _point_velocity(w, v, r):
    x, y, z = cross(w[0], w[1], w[2], r[0], r[1], r[2])
    return v[0] + x, v[1] + y, v[2] + z


@outlined
def warm_start_strand(s, bundles):
    """Apply the impulses so far of a strand to the velocities, those of a manifold as one."""
    row, lever, frame, zero = bundles.row, bundles.lever, bundles.frame, splat(0.0)
    for i in range(bundles.strand[0, s], bundles.strand[0, s + 1]):
        n, t1, t2 = _vector(frame, i, N), _vector(frame, i, T1), _vector(frame, i, T2)
        x, y, z = zero, zero, zero
        ax, ay, az, bx, by, bz = zero, zero, zero, zero, zero, zero
        for p in range(bundles.first[i], bundles.first[i + 1]):
            jn, j1, j2 = _vector(row, p, _J)
            px = jn * n[0] + j1 * t1[0] + j2 * t2[0]
            py = jn * n[1] + j1 * t1[1] + j2 * t2[1]
            pz = jn * n[2] + j1 * t1[2] + j2 * t2[2]
            x, y, z = x + px, y + py, z + pz
            r = _levers(lever, p, _RA)
            cx, cy, cz = cross(r[0], r[1], r[2], px, py, pz)
            ax, ay, az = ax + cx, ay + cy, az + cz
            r = _levers(lever, p, _RB)
            cx, cy, cz = cross(r[0], r[1], r[2], px, py, pz)
            bx, by, bz = bx + cx, by + cy, bz + cz
        a, b = _bodies(0, i, bundles.body), _bodies(1, i, bundles.body)
        w, v = _load_velocities(a, bundles.velocity)
        inertia, m = _responses(a, bundles.response)
        cx, cy, cz = symmetric_times(inertia, ax, ay, az)
        w, v = (w[0] + cx, w[1] + cy, w[2] + cz), (v[0] + m * x, v[1] + m * y, v[2] + m * z)
        _store_velocities(a, w, v, bundles.velocity)
        w, v = _load_velocities(b, bundles.velocity)
        inertia, m = _responses(b, bundles.response)
        cx, cy, cz = symmetric_times(inertia, bx, by, bz)
        w, v = (w[0] - cx, w[1] - cy, w[2] - cz), (v[0] - m * x, v[1] - m * y, v[2] - m * z)
        _store_velocities(b, w, v, bundles.velocity)


@inner
def _project(row, lever, p, mu, gain, keep, bias, u, n, t1, t2):
    """Do one projected Gauss-Seidel update of point p at the velocity u; return the change of its impulse.

    Also returns the largest change of a component.
    """
    zero = splat(0.0)
    jn, j1, j2 = _vector(row, p, _J)
    after = larger(keep * jn - gain * (_dot(u, n) + bias), zero)
    d = after - jn
    u1 = _dot(u, t1) + d * load4_single(lever, p, 4 * _KN)
    u2 = _dot(u, t2) + d * load4_single(lever, p, 4 * _KN + 4)
    s12 = load4_single(lever, p, 4 * _STICK + 4)
    x1 = j1 - load4_single(lever, p, 4 * _STICK) * u1 - s12 * u2
    x2 = j2 - s12 * u1 - load4_single(lever, p, 4 * _STICK + 8) * u2
    most = mu * after
    square, bound = x1 * x1 + x2 * x2, most * most
    if any_above(square, bound):
        mt = load4_single(lever, p, 4 * _MT)
        y1, y2 = j1 - mt * u1, j2 - mt * u2
        slid = y1 * y1 + y2 * y2
        f = choose(slid, bound, most / root(slid), splat(1.0))
        x1, x2 = choose(square, bound, f * y1, x1), choose(square, bound, f * y2, x2)
    _store_vector(row, p, _J, (after, x1, x2))
    d1, d2 = x1 - j1, x2 - j2
    x = d * n[0] + d1 * t1[0] + d2 * t2[0]
    y = d * n[1] + d1 * t1[1] + d2 * t2[1]
    z = d * n[2] + d1 * t1[2] + d2 * t2[2]
    return x, y, z, larger(larger(d, 0.0 - d), larger(larger(d1, 0.0 - d1), larger(d2, 0.0 - d2)))


@outlined
def sweep_strand(s, bundles):
    """Sweep the bundles of a strand once, as `team.value` says; note if some velocity changed by more than `ENOUGH`."""
    row, lever, frame, value = bundles.row, bundles.lever, bundles.frame, bundles.team.value
    h, rate, slow, scale, give = value[0], value[1], value[2], value[3], value[4]
    zero, unit, deep = splat(0.0), splat(1.0), splat(-one.DEPENETRATION_MOST)
    least, soft, kept, changed = splat(-slow), splat(scale), splat(1.0 - give), 0.0
    for i in range(bundles.strand[0, s], bundles.strand[0, s + 1]):
        a, b = _bodies(0, i, bundles.body), _bodies(1, i, bundles.body)
        wa, va = _load_velocities(a, bundles.velocity)
        wb, vb = _load_velocities(b, bundles.velocity)
        ia, ma = _responses(a, bundles.response)
        ib, mb = _responses(b, bundles.response)
        n, t1, t2 = _vector(frame, i, N), _vector(frame, i, T1), _vector(frame, i, T2)
        mu = load4(frame, i, 4 * MU)
        for p in range(bundles.first[i], bundles.first[i + 1]):
            ra, rb = _levers(lever, p, _RA), _levers(lever, p, _RB)
            ux, uy, uz = _point_velocity(wa, va, ra)
            bx, by, bz = _point_velocity(wb, vb, rb)
            gap, mn = load4(row, p, 4 * _S), load4_single(lever, p, 4 * _MN)
            overlap = larger(rate * gap, smaller(larger(one.DEEP_RATE * gap, deep), least))
            bias = choose(gap, zero, (1.0 / h) * gap, overlap)
            gain, keep = choose(gap, zero, mn, soft * mn), choose(gap, zero, unit, kept)
            x, y, z, change = _project(
                row, lever, p, mu, gain, keep, bias, (ux - bx, uy - by, uz - bz), n, t1, t2
            )  # fmt: skip
            wa, va = _push(ia, ma, ra, wa, va, x, y, z)
            wb, vb = _push(ib, mb, rb, wb, vb, 0.0 - x, 0.0 - y, 0.0 - z)
            if any_above(change, one.ENOUGH * mn):
                changed = 1.0
        _store_velocities(a, wa, va, bundles.velocity)
        _store_velocities(b, wb, vb, bundles.velocity)
    bundles.team.found[s] = changed


@inner
def _phase(k, bundles):
    """Return first and last strand of those that share no body: within slabs, between two, and the last one."""
    if k == 0:
        return 0, bundles.count[STRANDS]
    first, last = (_WITHIN, _STRANDS - 1) if k == 1 else (_STRANDS - 1, _STRANDS)
    return first, last if bundles.strand[0, last] > bundles.strand[0, first] else first


@outlined
def _warm_start(bundles):
    for k in range(3):
        first, last = _phase(k, bundles)
        s = share(WARM, first, last, bundles.team)
        while s >= 0:
            warm_start_strand(s, bundles)
            s = next_piece(s, first, last, bundles.team)


@outlined
def _sweep(bundles):
    """Sweep all bundles once; return whether some velocity changed by more than `ENOUGH`."""
    changed = False
    for k in range(3):
        first, last = _phase(k, bundles)
        s = share(SWEEP, first, last, bundles.team)
        while s >= 0:
            sweep_strand(s, bundles)
            s = next_piece(s, first, last, bundles.team)
        for t in range(first, last):
            changed = changed or bundles.team.found[t] > 0.0
    return changed


@outlined
def sweep_bundles(times, link, inverse, led, h, rate, slow, scale, give, row, bundles, u):
    """Warm start, then sweep the bundles and the loose contacts `times` times or until no velocity changes any more.

    Arguments as of `sweeps.sweep`; led: (n,) bodies whose motion is prescribed.
    """
    loose, some, value = bundles.loose, bundles.count[LOOSE], bundles.team.value
    value[0], value[1], value[2], value[3], value[4] = h, rate, slow, scale, give
    for t in range(some):
        warm_start(loose[t], loose[t] + 1, link, inverse, row, u)
    _copy_bodies(inverse, u, bundles)
    _warm_start(bundles)
    for _ in range(times):
        changed = _sweep(bundles)
        if some > 0:
            _return_velocities(led, u, bundles)
            for t in range(some):
                sweep(loose[t], loose[t] + 1, 1, link, inverse, h, rate, slow, scale, give, row, u)
            _copy_bodies(inverse, u, bundles)
        elif not changed:
            break
    _return_velocities(led, u, bundles)


@outlined
def push_strand(s, bundles, bulk):
    """Sum up the normal impulses of a strand on bodies, which are then not free."""
    lane, frame, n = bundles.lane, bundles.frame, len(bundles.last) - 1
    for i in range(bundles.strand[0, s], bundles.strand[0, s + 1]):
        total = splat(0.0)
        for p in range(bundles.first[i], bundles.first[i + 1]):
            total = total + load4(bundles.row, p, 4 * _J)
        store4(lane, s, 0, total)
        for t in range(4):
            f = lane[s, t]
            if f > 0.0:
                for side in range(2):
                    j = bundles.body[i, 4 * side + t]
                    if j < n:
                        bulk.free[j] = 0
                        for c in range(3):
                            bulk.normal_impulse[j, c] += f * frame[i, 4 * (N + c) + t]
                    f = -f


@outlined
def add_normal_impulses(bundles, bulk):
    """Sum up the normal impulses on bodies, which are then not free; see `islands.add_impulses_and_mark_free`."""
    for k in range(3):
        first, last = _phase(k, bundles)
        s = share(PUSH, first, last, bundles.team)
        while s >= 0:
            push_strand(s, bundles, bulk)
            s = next_piece(s, first, last, bundles.team)


# After bodies have moved


@inner
def _update_point(p, half, ra, rb, across, along, row, lever, slow):
    """Update levers and gap of point p for the relative displacements; return the new levers and the gap."""
    s = load4(row, p, 4 * _S) + along
    far, zero = splat(one.FAR * one.FAR), splat(0.0)
    dx, dy, dz = _vector(slow, p, _D)
    # where the points were near, the levers are to the middle between them
    apart = dx * dx + dy * dy + dz * dz
    ox, oy, oz = choose(apart, far, zero, dx), choose(apart, far, zero, dy), choose(apart, far, zero, dz)
    dx, dy, dz = dx + half * across[0], dy + half * across[1], dz + half * across[2]
    _store_vector(slow, p, _D, (dx, dy, dz))
    apart = dx * dx + dy * dy + dz * dz
    ox, oy, oz = choose(apart, far, zero, dx) - ox, choose(apart, far, zero, dy) - oy, choose(apart, far, zero, dz) - oz
    ra, rb = (ra[0] - ox, ra[1] - oy, ra[2] - oz), (rb[0] + ox, rb[1] + oy, rb[2] + oz)
    _store_levers(lever, p, _RA, ra)
    _store_levers(lever, p, _RB, rb)
    store4(row, p, 4 * _S, s)
    return ra, rb, s


@outlined
def relax_strand(s, bundles):
    """Update the bundles of a strand after `set_motion` and sweep them once without push-out, as `team.value` says.

    Impulses add to those of the step.
    """
    h = bundles.team.value[0]
    row, lever, slow, frame, motion = bundles.row, bundles.lever, bundles.slow, bundles.frame, bundles.motion
    zero, unit = splat(0.0), splat(1.0)
    for i in range(bundles.strand[0, s], bundles.strand[0, s + 1]):
        a, b = _bodies(0, i, bundles.body), _bodies(1, i, bundles.body)
        wa, va = _load_velocities(a, bundles.velocity)
        wb, vb = _load_velocities(b, bundles.velocity)
        ta, da = _load_velocities(a, motion)
        tb, db = _load_velocities(b, motion)
        ia, ma = _responses(a, bundles.response)
        ib, mb = _responses(b, bundles.response)
        n, t1, t2 = _vector(frame, i, N), _vector(frame, i, T1), _vector(frame, i, T2)
        mu, half = load4(frame, i, 4 * MU), load4(frame, i, 4 * HALF)
        across = da[0] - db[0], da[1] - db[1], da[2] - db[2]
        for p in range(bundles.first[i], bundles.first[i + 1]):
            ra, rb = _levers(lever, p, _RA), _levers(lever, p, _RB)
            x, y, z = _point_velocity(ta, da, ra)
            bx, by, bz = _point_velocity(tb, db, rb)
            along = _dot((x - bx, y - by, z - bz), n)
            ra, rb, gap = _update_point(p, half, ra, rb, across, along, row, lever, slow)
            jn, j1, j2 = _vector(row, p, _J)
            x, y, z = _vector(slow, p, _STEP)
            _store_vector(slow, p, _STEP, (x + jn, y + j1, z + j2))
            ux, uy, uz = _point_velocity(wa, va, ra)
            bx, by, bz = _point_velocity(wb, vb, rb)
            # a gap that closes in the next substep is left to that
            mn = load4_single(lever, p, 4 * _MN)
            gain = choose(gap, zero, choose(jn, zero, mn, zero), mn)
            bias = choose(gap, zero, (1.0 / h) * gap, zero)
            x, y, z, _ = _project(row, lever, p, mu, gain, unit, bias, (ux - bx, uy - by, uz - bz), n, t1, t2)
            wa, va = _push(ia, ma, ra, wa, va, x, y, z)
            wb, vb = _push(ib, mb, rb, wb, vb, 0.0 - x, 0.0 - y, 0.0 - z)
        _store_velocities(a, wa, va, bundles.velocity)
        _store_velocities(b, wb, vb, bundles.velocity)


@outlined
def update_and_relax(link, inverse, led, h, row, bundles, u):
    """Update gaps and levers of the bundles and take the depenetration velocity out of these and the loose contacts."""
    _copy_bodies(inverse, u, bundles)
    bundles.team.value[0] = h
    for k in range(3):
        first, last = _phase(k, bundles)
        s = share(RELAX, first, last, bundles.team)
        while s >= 0:
            relax_strand(s, bundles)
            s = next_piece(s, first, last, bundles.team)
    _return_velocities(led, u, bundles)
    for t in range(bundles.count[LOOSE]):
        k = bundles.loose[t]
        sweep(k, k + 1, 1, link, inverse, h, 0.0, one.DEPENETRATION, 1.0, 0.0, row, u)


@outlined
def update_loose(link, h, before, pose, u, bundles, row):
    """Update the loose contacts as `sweeps.update_contacts` does."""
    for t in range(bundles.count[LOOSE]):
        update_contacts(bundles.loose[t], bundles.loose[t] + 1, link, h, before, pose, u, row)


# Back to rows


@inner
def _unpack(k, link, row, bundles):
    """Write contact k to its row, but for effective masses."""
    i, lane, p = _place(k, bundles)
    source, lever, slow, frame = bundles.row, bundles.lever, bundles.slow, bundles.frame
    square = 0.0
    for c in range(3):
        square += slow[p, 4 * (_D + c) + lane] * slow[p, 4 * (_D + c) + lane]
    near = 1.0 if link[k, 1] >= 0 and square <= one.FAR * one.FAR else 0.0
    for c in range(3):
        d = near * slow[p, 4 * (_D + c) + lane]
        row[k, one.RA + c], row[k, one.RB + c] = lever[p, 4 * (_RA + c) + lane], lever[p, 4 * (_RB + c) + lane]
        row[k, one.LA + c], row[k, one.LB + c] = row[k, one.RA + c] + d, row[k, one.RB + c] - d
        s, t = frame[i, 4 * (T1 + c) + lane], frame[i, 4 * (T2 + c) + lane]
        row[k, one.N + c] = frame[i, 4 * (N + c) + lane]
        row[k, one.JT + c] = s * source[p, 4 * _J + 4 + lane] + t * source[p, 4 * _J + 8 + lane]
        row[k, one.STEP_T + c] = s * slow[p, 4 * _STEP + 4 + lane] + t * slow[p, 4 * _STEP + 8 + lane]
    row[k, one.S], row[k, one.JN] = source[p, 4 * _S + lane], source[p, 4 * _J + lane]
    row[k, one.STEP_N], row[k, one.MU] = slow[p, 4 * _STEP + lane], frame[i, 4 * MU + lane]
    row[k, one.E], row[k, one.APPROACH] = 0.0, 0.0


@outlined
def store_some(piece, contacts, graph, sweeps, cache):
    """Store the impulses of some contacts under their keys."""
    row, bundles = sweeps.row, sweeps.bundles
    source, frame, impulse = bundles.row, bundles.frame, cache.impulse
    for t in range(CONTACTS * piece, min(CONTACTS * (piece + 1), contacts.count[0])):
        k = graph.order[t]
        cache.name[k, 0], cache.name[k, 1], cache.name[k, 2] = contacts.shape_a[k], contacts.shape_b[k], contacts.key[k]
        if bundles.slot[t] >= 0:
            i, lane, p = _place(t, bundles)
            s, r = source[p, 4 * _J + 4 + lane], source[p, 4 * _J + 8 + lane]
            impulse[k, 0] = source[p, 4 * _J + lane]
            for c in range(3):
                impulse[k, 1 + c] = s * frame[i, 4 * (T1 + c) + lane] + r * frame[i, 4 * (T2 + c) + lane]
        else:
            impulse[k, 0] = row[t, one.JN]
            for c in range(3):
                impulse[k, 1 + c] = row[t, one.JT + c]


@outlined
def store_impulses(contacts, graph, sweeps, cache):
    """Store the impulses of this step under the keys of their contacts."""
    count, team = pieces_of(contacts.count[0], CONTACTS), sweeps.bundles.team
    piece = share(STORE, 0, count, team)
    while piece >= 0:
        store_some(piece, contacts, graph, sweeps, cache)
        piece = next_piece(piece, 0, count, team)
    cache.count[0] = contacts.count[0]


@outlined
def unpack_bundles(count, link, row, bundles):
    """Write the contacts 0 .. count - 1 that are in bundles to their rows, for what reads these."""
    if bundles.count[BUNDLES] > 0:
        for k in range(count):
            if bundles.slot[k] >= 0:
                _unpack(k, link, row, bundles)


@outlined
def unpack_fast(count, link, fast, inverse, row, bundles):
    """Take the contacts 0 .. count - 1 of bodies that are marked as fast out of the bundles."""
    for k in range(count):
        if bundles.slot[k] >= 0 and (fast[link[k, 0]] != 0 or (link[k, 1] >= 0 and fast[link[k, 1]] != 0)):
            _unpack(k, link, row, bundles)
            add_step_impulse(k, row)
            set_effective_masses(k, k + 1, link, inverse, row)
            # no mass, no impulse: the lane has no effect
            _, lane, p = _place(k, bundles)
            bundles.slot[k] = -1
            for c in range(_ROW):
                bundles.row[p, 4 * c + lane] = 0.0
            for c in range(_LEVER):
                bundles.lever[p, 4 * c + lane] = 0.0
            bundles.loose[bundles.count[LOOSE]] = k
            bundles.count[LOOSE] += 1
