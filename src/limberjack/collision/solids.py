"""Contacts of meshes that are not convex: features of each shape against the signed distance of the other.

Features are points and edges (see `surfaces.features_of`); points find what lies over faces, edges what lies across
edges: the lowest distance along them. Candidates fall into small cells, the deepest of each stays, and groups of
similar normals are thinned out to at most four spots each.

Keys: 2 f + s, feature f of the first (s = 0) or second shape (s = 1); edges of one feature that touch twice differ in
the bits above 2^32.
"""

from __future__ import annotations

import math

from limberjack._jit import inner, outlined
from limberjack.collision.broad import AT, SIZE
from limberjack.collision.fields import distance_from
from limberjack.collision.manifold import add_near, choose_near
from limberjack.collision.scratch import put_spot
from limberjack.collision.shapes import BOX, CAPSULE, CYLINDER, HULL, MESH, SPHERE

__all__ = ["solid_pair"]

# Cells along the largest extent of a pair in which one candidate is kept, groups of normals, and the cosine of a group.
_BINS, _GROUPS, _ALIKE = 24.0, 4, 0.9
_GOLDEN = 0.6180339887498949
_MOST_SAMPLES = 32
_USED = 7


@inner
def _to_local(k, frame, x, y, z):
    """Return a world vector in the axes of shape k."""
    return (
        frame[k, 0] * x + frame[k, 3] * y + frame[k, 6] * z,
        frame[k, 1] * x + frame[k, 4] * y + frame[k, 7] * z,
        frame[k, 2] * x + frame[k, 5] * y + frame[k, 8] * z,
    )


@inner
def _to_world(k, frame, x, y, z):
    """Return a vector of shape k's axes in the world."""
    return (
        frame[k, 0] * x + frame[k, 1] * y + frame[k, 2] * z,
        frame[k, 3] * x + frame[k, 4] * y + frame[k, 5] * z,
        frame[k, 6] * x + frame[k, 7] * y + frame[k, 8] * z,
    )


@outlined
def _keep(
    # in
    j, x, y, z, nx, ny, nz, gap, radius, key, sign, bin_size, frame,
    # out
    found, found_keys,
):  # fmt: skip
    """Enter a candidate into the table unless its cell has a deeper one; all vectors in the axes of shape j."""
    if nx == 0.0 and ny == 0.0 and nz == 0.0:
        return
    a, b, c = int(math.floor(x / bin_size)), int(math.floor(y / bin_size)), int(math.floor(z / bin_size))
    way = (1 if nx > 0.5 else (2 if nx < -0.5 else 0)) + 3 * (1 if ny > 0.5 else (2 if ny < -0.5 else 0))
    slot = (a * 73856093 ^ b * 19349663 ^ c * 83492791 ^ (2 * way + (1 if sign > 0.0 else 0)) * 25165843) & (
        len(found) - 1
    )
    if found[slot, _USED] != 0.0 and found[slot, 6] <= gap:
        return
    back = radius + 0.5 * gap
    px, py, pz = _to_world(j, frame, x - back * nx, y - back * ny, z - back * nz)
    nx, ny, nz = _to_world(j, frame, nx, ny, nz)
    found[slot, 0], found[slot, 1], found[slot, 2] = px + frame[j, AT], py + frame[j, AT + 1], pz + frame[j, AT + 2]
    found[slot, 3], found[slot, 4], found[slot, 5] = sign * nx, sign * ny, sign * nz
    found[slot, 6], found[slot, _USED] = gap, 1.0
    found_keys[slot] = key


@inner
def _on_edge(kind, j, mesh, x, y, z, ex, ey, ez, t, frame, meshes):
    value, _, _, _ = distance_from(kind, j, mesh, x + t * ex, y + t * ey, z + t * ez, frame, meshes)
    return value


@outlined
def _enter(
    # in
    kind, j, mesh, x, y, z, ex, ey, ez, t, radius, limit, key, sign, bin_size, frame, meshes,
    # out
    found, found_keys,
):  # fmt: skip
    """Enter the contact at place t of an edge, if it is near enough and not at an end."""
    x, y, z = x + t * ex, y + t * ey, z + t * ez
    value, nx, ny, nz = distance_from(kind, j, mesh, x, y, z, frame, meshes)
    if abs(t) > 0.999 or value - radius > limit:
        return
    # Across the edge: along it nothing is pressed, and a grid blurs the gradient there.
    along = (nx * ex + ny * ey + nz * ez) / (ex * ex + ey * ey + ez * ez)
    nx, ny, nz = nx - along * ex, ny - along * ey, nz - along * ez
    length = math.sqrt(nx * nx + ny * ny + nz * nz)
    if length > 0.1:
        _keep(
            j, x, y, z, nx / length, ny / length, nz / length, value - radius, radius, key, sign, bin_size, frame,
            found, found_keys,
        )  # fmt: skip


@inner
def _visit_short(
    kind, j, mesh, x, y, z, ex, ey, ez, half, value, radius, limit, key, sign, bin_size, frame, meshes, found,
    found_keys,
):  # fmt: skip
    """Enter the contact of an edge shorter than a cell, by the parabola through its ends and its middle."""
    before = _on_edge(kind, j, mesh, x, y, z, ex, ey, ez, -1.0, frame, meshes)
    after = _on_edge(kind, j, mesh, x, y, z, ex, ey, ez, 1.0, frame, meshes)
    bend = before - 2.0 * value + after
    if bend > 1e-3 * half and abs(before - after) < 1.8 * bend:
        _enter(
            kind, j, mesh, x, y, z, ex, ey, ez, 0.5 * (before - after) / bend, radius, limit, key, sign, bin_size,
            frame, meshes, found, found_keys,
        )  # fmt: skip


@outlined
def _visit(
    # in
    kind, j, mesh, x, y, z, ex, ey, ez, radius, limit, spacing, key, sign, bin_size, frame, meshes,
    # out
    found, found_keys,
):  # fmt: skip
    """Enter the contacts of one feature, in shape j's axes, with the distance of shape j.

    Of an edge, the lowest places between its ends; the ends are features of their own.
    """
    half = math.sqrt(ex * ex + ey * ey + ez * ez)
    value, nx, ny, nz = distance_from(kind, j, mesh, x, y, z, frame, meshes)
    if value - half - radius > limit:
        return
    if half == 0.0:
        _keep(j, x, y, z, nx, ny, nz, value - radius, radius, key, sign, bin_size, frame, found, found_keys)
        return
    if 2.0 * half <= spacing:
        _visit_short(
            kind, j, mesh, x, y, z, ex, ey, ez, half, value, radius, limit, key, sign, bin_size, frame, meshes, found,
            found_keys,
        )  # fmt: skip
        return
    samples = min(max(int(2.0 * half / spacing) + 2, 4), _MOST_SAMPLES)
    step = 2.0 / samples
    before = 1e300
    here = _on_edge(kind, j, mesh, x, y, z, ex, ey, ez, -1.0, frame, meshes)
    for s in range(samples + 1):
        after = 1e300
        if s < samples:
            after = _on_edge(kind, j, mesh, x, y, z, ex, ey, ez, -1.0 + step * (s + 1), frame, meshes)
        if here <= before and here < after and here - radius <= limit + step * half:
            low, high = max(-1.0, -1.0 + step * (s - 1)), min(1.0, -1.0 + step * (s + 1))
            a, b = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
            fa = _on_edge(kind, j, mesh, x, y, z, ex, ey, ez, a, frame, meshes)
            fb = _on_edge(kind, j, mesh, x, y, z, ex, ey, ez, b, frame, meshes)
            for _ in range(16):
                if fa < fb:
                    high, b, fb = b, a, fa
                    a = high - _GOLDEN * (high - low)
                    fa = _on_edge(kind, j, mesh, x, y, z, ex, ey, ez, a, frame, meshes)
                else:
                    low, a, fa = a, b, fb
                    b = low + _GOLDEN * (high - low)
                    fb = _on_edge(kind, j, mesh, x, y, z, ex, ey, ez, b, frame, meshes)
            _enter(
                kind, j, mesh, x, y, z, ex, ey, ez, 0.5 * (low + high), radius, limit, key + (s << 33), sign, bin_size,
                frame, meshes, found, found_keys,
            )  # fmt: skip
        before, here = here, after


@inner
def _count_own(kind):
    """Return how many features a primitive has."""
    if kind == SPHERE:
        return 1
    if kind == CAPSULE:
        return 3
    return 20 if kind == BOX else 27


@inner
def _own_feature(kind, f, sx, sy, sz, dx, dy):
    """Return feature f of a primitive: middle and half edge, in its own axes.

    Cylinders have twelve points of each rim, then those that look most along (dx, dy), and the line between them.
    """
    if kind == SPHERE:
        return 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    if kind == CAPSULE:
        if f == 2:
            return 0.0, 0.0, 0.0, 0.0, 0.0, sy
        return 0.0, 0.0, (sy if f == 1 else -sy), 0.0, 0.0, 0.0
    if kind == BOX:
        if f < 8:
            return (sx if f & 1 else -sx), (sy if f & 2 else -sy), (sz if f & 4 else -sz), 0.0, 0.0, 0.0
        e = f - 8
        axis, a, b = e // 4, (1.0 if e & 1 else -1.0), (1.0 if e & 2 else -1.0)
        if axis == 0:
            return 0.0, a * sy, b * sz, sx, 0.0, 0.0
        if axis == 1:
            return a * sx, 0.0, b * sz, 0.0, sy, 0.0
        return a * sx, b * sy, 0.0, 0.0, 0.0, sz
    if f < 24:
        # Multiples of thirty degrees, from the two numbers that they are made of.
        k = f % 12
        c, s = _CLOCK[k], _CLOCK[(k + 9) % 12]
        return sx * c, sx * s, (sy if f < 12 else -sy), 0.0, 0.0, 0.0
    if f == 26:
        return sx * dx, sx * dy, 0.0, 0.0, 0.0, sy
    return sx * dx, sx * dy, (sy if f == 24 else -sy), 0.0, 0.0, 0.0


_HALF_ROOT = math.sqrt(0.75)
_CLOCK = (1.0, _HALF_ROOT, 0.5, 0.0, -0.5, -_HALF_ROOT, -1.0, -_HALF_ROOT, -0.5, 0.0, 0.5, _HALF_ROOT)


@outlined
def _scan(
    # in
    i, j, kind_i, kind_j, mesh_i, mesh_j, limit, sign, bin_size, frame, meshes,
    # out
    found, found_keys,
):  # fmt: skip
    """Enter the contacts of all features of shape i with the distance of shape j."""
    ox, oy, oz = _to_local(
        j, frame, frame[i, AT] - frame[j, AT], frame[i, AT + 1] - frame[j, AT + 1], frame[i, AT + 2] - frame[j, AT + 2]
    )
    # The axes of i in those of j.
    ax, ay, az = _to_local(j, frame, frame[i, 0], frame[i, 3], frame[i, 6])
    bx, by, bz = _to_local(j, frame, frame[i, 1], frame[i, 4], frame[i, 7])
    cx, cy, cz = _to_local(j, frame, frame[i, 2], frame[i, 5], frame[i, 8])
    spacing = meshes.grid_frame[mesh_j, 3] if kind_j == MESH else 1e300
    side = 0 if sign > 0.0 else 1
    radius = frame[i, SIZE] if kind_i <= CAPSULE else 0.0
    own = kind_i != HULL and kind_i != MESH
    first = 0 if own else meshes.mesh_block[mesh_i]
    last = 1 if own else meshes.mesh_block[mesh_i + 1]
    dx, dy = 1.0, 0.0
    if kind_i == CYLINDER:
        # Which way the rim comes closest: against the gradient in the middle.
        _, nx, ny, nz = distance_from(kind_j, j, mesh_j, ox, oy, oz, frame, meshes)
        u, v = ax * nx + ay * ny + az * nz, bx * nx + by * ny + bz * nz
        length = math.sqrt(u * u + v * v)
        if length > 1e-6:
            dx, dy = -u / length, -v / length
    for block in range(first, last):
        begin, end = 0, _count_own(kind_i)
        if not own:
            x, y, z = meshes.block_sphere[block, 0], meshes.block_sphere[block, 1], meshes.block_sphere[block, 2]
            px, py, pz = ox + ax * x + bx * y + cx * z, oy + ay * x + by * y + cy * z, oz + az * x + bz * y + cz * z
            value, _, _, _ = distance_from(kind_j, j, mesh_j, px, py, pz, frame, meshes)
            if value - meshes.block_sphere[block, 3] > limit:
                continue
            begin, end = meshes.block_feature[block], meshes.block_feature[block + 1]
        for f in range(begin, end):
            if own:
                x, y, z, u, v, w = _own_feature(
                    kind_i, f, frame[i, SIZE], frame[i, SIZE + 1], frame[i, SIZE + 2], dx, dy
                )
            else:
                x, y, z = meshes.feature[f, 0], meshes.feature[f, 1], meshes.feature[f, 2]
                u, v, w = meshes.feature[f, 3], meshes.feature[f, 4], meshes.feature[f, 5]
            _visit(
                kind_j, j, mesh_j, ox + ax * x + bx * y + cx * z, oy + ay * x + by * y + cy * z,
                oz + az * x + bz * y + cz * z, ax * u + bx * v + cx * w, ay * u + by * v + cy * w,
                az * u + bz * v + cz * w, radius, limit, spacing, 2 * (f - begin + 64 * (block - first)) + side, sign,
                bin_size, frame, meshes, found, found_keys,
            )  # fmt: skip


@inner
def _thin_out(slack, found, found_keys, near, near_keys, spots, keys):
    """Write at most four spots of each of a few groups of candidates with similar normals; return their number."""
    count = 0
    for _ in range(_GROUPS):
        seed = -1
        for k in range(len(found)):
            if found[k, _USED] == 1.0 and (seed < 0 or found[k, 6] < found[seed, 6]):
                seed = k
        if seed < 0:
            break
        nx, ny, nz = found[seed, 3], found[seed, 4], found[seed, 5]
        x, y, z = (0.0, nz, -ny) if abs(nx) < 0.6 else (-nz, 0.0, nx)
        length = math.sqrt(x * x + y * y + z * z)
        ux, uy, uz = x / length, y / length, z / length
        vx, vy, vz = ny * uz - nz * uy, nz * ux - nx * uz, nx * uy - ny * ux
        n = 0
        for k in range(len(found)):
            if found[k, _USED] == 1.0 and nx * found[k, 3] + ny * found[k, 4] + nz * found[k, 5] > _ALIKE:
                x, y, z = found[k, 0], found[k, 1], found[k, 2]
                found[k, _USED] = 2.0
                n = add_near(n, ux * x + uy * y + uz * z, vx * x + vy * y + vz * z, found[k, 6], k, near, near_keys)
        choose_near(n, slack, near)
        start = count
        for s in range(n):
            k = near_keys[s]
            # Features of both shapes often name one place: the first named stays.
            new = near[s, 3] == 1.0
            for other in range(start, count):
                x, y, z = found[k, 0] - spots[other, 0], found[k, 1] - spots[other, 1], found[k, 2] - spots[other, 2]
                new = new and x * x + y * y + z * z > 400.0 * slack * slack
            if new:
                count = put_spot(
                    count, found[k, 0], found[k, 1], found[k, 2], found[k, 3], found[k, 4], found[k, 5], -found[k, 6],
                    found_keys[k], spots, keys,
                )  # fmt: skip
    return count


@outlined
def solid_pair(
    # in
    i, j, kind_i, kind_j, mesh_i, mesh_j, limit, radius, frame, meshes,
    # out
    scratch,
):  # fmt: skip
    """Write the contacts of two shapes of which one at least is a mesh that is not convex; return their number.

    `radius` is that of the smaller one. Planes have no features and endless reach: kind_j alone may be one.
    """
    found, found_keys = scratch.found, scratch.found_keys
    for k in range(len(found)):
        found[k, _USED] = 0.0
    bin_size = 2.0 * radius / _BINS
    _scan(i, j, kind_i, kind_j, mesh_i, mesh_j, limit, 1.0, bin_size, frame, meshes, found, found_keys)
    if kind_j <= MESH:
        _scan(j, i, kind_j, kind_i, mesh_j, mesh_i, limit, -1.0, bin_size, frame, meshes, found, found_keys)
    return _thin_out(1e-3 * radius, found, found_keys, scratch.near, scratch.near_keys, scratch.spots, scratch.keys)
