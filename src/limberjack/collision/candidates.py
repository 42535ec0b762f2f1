"""Candidates of contacts between meshes: gathered one by one, neighbours thinned out, a few spots chosen in the end.

A row of `found`: point, normal, gap, whether it belongs to a group yet. While a shape is scanned points are features
and stand in the axes of the other shape; `place_found` makes them points midway between the surfaces, in the world.
"""

from __future__ import annotations

import math

from limberjack._jit import inner, outlined
from limberjack.collision.axes import to_world
from limberjack.collision.broad import AT
from limberjack.collision.manifold import add_near, choose_near
from limberjack.collision.scratch import DEPTH, put_spot

__all__ = ["GAP", "GROUPED", "add_found", "place_found", "thin_out"]

GAP, GROUPED = 6, 7
# Candidates among which neighbours are looked for: features stand in the order of their blocks.
_LOOK = 12
# Groups of normals, the cosine of a group, and that of neighbours.
_GROUPS, _ALIKE, _SAME = 4, 0.9, 0.7
# Spots of a group: with four, facets of a curved surface that carry it would be left out, and it would rock for ever.
_MOST = 8
# What a gap counts when the outermost candidates of a group are chosen. Parts of the radius of the smaller shape: how
# wide a gap is when one candidate of a group is enough, and what it is worth that groups look different ways.
_STEEP, _WIDE, _SPREAD = 16.0, 0.25, 0.02


@outlined
def add_found(
    # in
    n, first, x, y, z, nx, ny, nz, gap, key, apart,
    # out
    found, found_keys,
):  # fmt: skip
    """Enter a candidate unless one nearby is deeper; return the number of candidates.

    Args:
        n: candidates so far, of which those from `first` on are of the same shape.
        first: see n.
        x, y, z: the feature, in the axes of the shape whose distance was measured.
        nx, ny, nz: unit gradient of the distance there; zero: no candidate.
        gap: distance less the radius around the feature.
        key: of the feature.
        apart: distance up to which one candidate stands for its neighbours.
        found, found_keys: the candidates.
    """
    if nx == 0.0 and ny == 0.0 and nz == 0.0:
        return n
    at = n
    for k in range(n - 1, max(first, n - _LOOK) - 1, -1):
        dx, dy, dz = x - found[k, 0], y - found[k, 1], z - found[k, 2]
        if dx * dx + dy * dy + dz * dz < apart * apart:
            if nx * found[k, 3] + ny * found[k, 4] + nz * found[k, 5] > _SAME:
                if found[k, GAP] <= gap:
                    return n
                at = k
                break
    if at == len(found):
        # No room: of this shape's the one with the widest gap goes.
        at = first
        for k in range(first, n):
            if found[k, GAP] > found[at, GAP]:
                at = k
        if at == n or found[at, GAP] <= gap:
            return n
    found[at, 0], found[at, 1], found[at, 2] = x, y, z
    found[at, 3], found[at, 4], found[at, 5] = nx, ny, nz
    found[at, GAP], found[at, GROUPED] = gap, 0.0
    found_keys[at] = key
    return n + 1 if at == n else n


@outlined
def place_found(
    # in
    first, n, j, radius, sign, frame,
    # out
    found,
):  # fmt: skip
    """Take the candidates first .. n from the axes of shape j into the world, midway between the surfaces.

    Args:
        first, n: which.
        j: shape whose distance was measured.
        radius: around the features.
        sign: 1 or -1, for the normal out of the second shape of the pair.
        frame: of all shapes.
        found: the candidates.
    """
    for k in range(first, n):
        nx, ny, nz = found[k, 3], found[k, 4], found[k, 5]
        back = radius + 0.5 * found[k, GAP]
        x, y, z = to_world(j, frame, found[k, 0] - back * nx, found[k, 1] - back * ny, found[k, 2] - back * nz)
        found[k, 0], found[k, 1], found[k, 2] = x + frame[j, AT], y + frame[j, AT + 1], z + frame[j, AT + 2]
        x, y, z = to_world(j, frame, nx, ny, nz)
        found[k, 3], found[k, 4], found[k, 5] = sign * x, sign * y, sign * z


@inner
def _gather(seed, total, found, near, near_keys):
    """Put all candidates with about the normal of the seed into `near`; return their number."""
    nx, ny, nz = found[seed, 3], found[seed, 4], found[seed, 5]
    x, y, z = (0.0, nz, -ny) if abs(nx) < 0.6 else (-nz, 0.0, nx)
    length = math.sqrt(x * x + y * y + z * z)
    ux, uy, uz = x / length, y / length, z / length
    vx, vy, vz = ny * uz - nz * uy, nz * ux - nx * uz, nx * uy - ny * ux
    n = 0
    for k in range(total):
        if found[k, GROUPED] == 0.0 and nx * found[k, 3] + ny * found[k, 4] + nz * found[k, 5] > _ALIKE:
            x, y, z = found[k, 0], found[k, 1], found[k, 2]
            found[k, GROUPED] = 1.0
            n = add_near(n, ux * x + uy * y + uz * z, vx * x + vy * y + vz * z, found[k, GAP], k, near, near_keys)
    return n


@inner
def _next_seed(total, spread, seeds, found):
    """Return the candidate a new group begins with, -1 = none is left: a deep one that looks another way than seeds.

    A ball in a ring touches it all around; the deepest alone might all be on one side.
    """
    best, least = -1, 1e300
    for k in range(total):
        if found[k, GROUPED] == 0.0:
            alike = -1.0
            for s in seeds:
                if s >= 0:
                    cosine = found[s, 3] * found[k, 3] + found[s, 4] * found[k, 4] + found[s, 5] * found[k, 5]
                    alike = max(alike, cosine)
            score = found[k, GAP] + spread * alike
            if score < least:
                best, least = k, score
    return best


@outlined
def thin_out(
    # in
    total, radius,
    # out
    found, found_keys, near, near_keys, spots, keys,
):  # fmt: skip
    """Write at most eight spots of each of a few groups of candidates with similar normals; return their number.

    `radius` is that of the smaller shape.
    """
    count, slack, beside, seeds = 0, 1e-5 * radius, 0.02 * radius, (-1, -1, -1)
    for _ in range(_GROUPS):
        seed = _next_seed(total, _SPREAD * radius, seeds, found)
        if seed < 0:
            break
        seeds = (seed, seeds[0], seeds[1])
        n = _gather(seed, total, found, near, near_keys)
        wide = found[seed, GAP] > _WIDE * radius
        if not wide:
            choose_near(n, _MOST, slack, _STEEP, near)
        start = count
        for s in range(n):
            k, at = near_keys[s], count
            # Features of both shapes often name one place: the first named stays, unless the other is deeper.
            new = k == seed if wide else near[s, 3] == 1.0
            for other in range(start, count):
                x, y, z = found[k, 0] - spots[other, 0], found[k, 1] - spots[other, 1], found[k, 2] - spots[other, 2]
                if x * x + y * y + z * z <= beside * beside:
                    new, at = new and -found[k, GAP] > spots[other, DEPTH] + slack, other
            if new:
                end = put_spot(
                    at, found[k, 0], found[k, 1], found[k, 2], found[k, 3], found[k, 4], found[k, 5], -found[k, GAP],
                    found_keys[k], spots, keys,
                )  # fmt: skip
                count = max(count, end)
    return count
