"""Contacts of spheres and capsules with each other, and of spheres with boxes and cylinders.

A capsule is a segment with a radius and a sphere is a segment without length, so one routine serves their pairs.
"""

from __future__ import annotations

import math

from limberjack._jit import inner, outlined
from limberjack.collision.axes import to_shape, to_world
from limberjack.collision.broad import AT, SIZE
from limberjack.collision.scratch import put_spot
from limberjack.collision.shapes import SPHERE

__all__ = ["closest_on_segments", "segment_pair", "sphere_box", "sphere_cylinder"]

# Sine of the angle below which two segments count as parallel: they then touch along a line, by its two ends.
_PARALLEL = 0.02


@inner
def _clamp(x, low, high):
    return min(max(x, low), high)


@inner
def closest_on_segments(dx, dy, dz, ux, uy, uz, h, vx, vy, vz, k):
    """Return the places s, t of the closest points of the segments s u, |s| <= h and d + t v, |t| <= k.

    u and v are unit vectors; d leads from the middle of the first to the middle of the second.
    """
    b = ux * vx + uy * vy + uz * vz
    du, dv = dx * ux + dy * uy + dz * uz, dx * vx + dy * vy + dz * vz
    square = 1.0 - b * b
    s = 0.0
    if square > 1e-12:
        s = _clamp((du - b * dv) / square, -h, h)
    t = _clamp(b * s - dv, -k, k)
    s = _clamp(b * t + du, -h, h)
    return s, t


@inner
def _between(dx, dy, dz, ux, uy, uz, s, vx, vy, vz, t):
    """Return the vector from d + t v to s u, and its length."""
    x, y, z = s * ux - dx - t * vx, s * uy - dy - t * vy, s * uz - dz - t * vz
    return x, y, z, math.sqrt(x * x + y * y + z * z)


@inner
def _side(ux, uy, uz, vx, vy, vz):
    """Return a unit vector across both u and v, or across u where they are parallel."""
    x, y, z = uy * vz - uz * vy, uz * vx - ux * vz, ux * vy - uy * vx
    n = math.sqrt(x * x + y * y + z * z)
    if n < 1e-9:
        if abs(ux) < 0.6:
            x, y, z = 0.0, uz, -uy
        else:
            x, y, z = -uz, 0.0, ux
        n = math.sqrt(x * x + y * y + z * z)
    return x / n, y / n, z / n


@outlined
def segment_pair(
    # in
    i, j, kind_i, kind_j, limit, frame,
    # out
    spots, keys,
):  # fmt: skip
    """Write the contacts of two shapes among spheres and capsules; return their number (two when parallel)."""
    dx, dy, dz = frame[j, AT] - frame[i, AT], frame[j, AT + 1] - frame[i, AT + 1], frame[j, AT + 2] - frame[i, AT + 2]
    ri, hi, rj, hj = frame[i, SIZE], frame[i, SIZE + 1], frame[j, SIZE], frame[j, SIZE + 1]
    ux, uy, uz = frame[i, 2], frame[i, 5], frame[i, 8]
    vx, vy, vz = frame[j, 2], frame[j, 5], frame[j, 8]
    if kind_i == SPHERE:
        hi = 0.0
    if kind_j == SPHERE:
        hj = 0.0
    s, t = closest_on_segments(dx, dy, dz, ux, uy, uz, hi, vx, vy, vz, hj)
    x, y, z, distance = _between(dx, dy, dz, ux, uy, uz, s, vx, vy, vz, t)
    if distance - ri - rj > limit:
        return 0
    if distance > 1e-12 * (ri + rj):
        x, y, z = x / distance, y / distance, z / distance
    else:
        x, y, z = _side(ux, uy, uz, vx, vy, vz)
    count = 0
    b = ux * vx + uy * vy + uz * vz
    along = x * ux + y * uy + z * uz
    if hi > 0.0 and hj > 0.0 and 1.0 - b * b < _PARALLEL * _PARALLEL and along * along < _PARALLEL * _PARALLEL:
        # Both ends of the stretch of the first segment that lies beside the second.
        middle, half = dx * ux + dy * uy + dz * uz, hj * abs(b)
        low, high = max(-hi, middle - half), min(hi, middle + half)
        if high - low > 1e-3 * min(hi, hj):
            for end in range(2):
                s = low if end == 0 else high
                t = _clamp((s - middle) * b, -hj, hj)
                px, py, pz, distance = _between(dx, dy, dz, ux, uy, uz, s, vx, vy, vz, t)
                if distance - ri - rj > limit:
                    continue
                nx, ny, nz = x, y, z
                if distance > 1e-12 * (ri + rj):
                    nx, ny, nz = px / distance, py / distance, pz / distance
                count = _put(i, s, ri, rj, distance, ux, uy, uz, nx, ny, nz, 1 + end, count, frame, spots, keys)
            return count
    return _put(i, s, ri, rj, distance, ux, uy, uz, x, y, z, 0, count, frame, spots, keys)


@inner
def _put(i, s, ri, rj, distance, ux, uy, uz, nx, ny, nz, key, n, frame, spots, keys):
    """Write the spot at place s of segment i; the other segment lies `distance` away against the normal."""
    back = 0.5 * (distance + ri - rj)
    return put_spot(
        n, frame[i, AT] + s * ux - back * nx, frame[i, AT + 1] + s * uy - back * ny,
        frame[i, AT + 2] + s * uz - back * nz, nx, ny, nz, ri + rj - distance, key, spots, keys,
    )  # fmt: skip


@inner
def _put_sphere(i, j, nx, ny, nz, distance, frame, spots, keys):
    """Write the spot of sphere i, whose middle is `distance` outside shape j along a normal in that shape's axes."""
    wx, wy, wz = to_world(j, frame, nx, ny, nz)
    radius = frame[i, SIZE]
    back = 0.5 * (distance + radius)
    return put_spot(
        0, frame[i, AT] - back * wx, frame[i, AT + 1] - back * wy, frame[i, AT + 2] - back * wz, wx, wy, wz,
        radius - distance, 0, spots, keys,
    )  # fmt: skip


@inner
def _from(i, j, frame):
    """Return the middle of shape i in the axes of shape j."""
    dx, dy, dz = frame[i, AT] - frame[j, AT], frame[i, AT + 1] - frame[j, AT + 1], frame[i, AT + 2] - frame[j, AT + 2]
    return to_shape(j, frame, dx, dy, dz)


@outlined
def sphere_box(
    # in
    i, j, limit, frame,
    # out
    spots, keys,
):  # fmt: skip
    """Write the contact of sphere i with box j; return 1, or 0 when they are further apart than the limit."""
    x, y, z = _from(i, j, frame)
    hx, hy, hz, radius = frame[j, SIZE], frame[j, SIZE + 1], frame[j, SIZE + 2], frame[i, SIZE]
    nx, ny, nz = x - _clamp(x, -hx, hx), y - _clamp(y, -hy, hy), z - _clamp(z, -hz, hz)
    distance = math.sqrt(nx * nx + ny * ny + nz * nz)
    if distance - radius > limit:
        return 0
    if distance > 1e-12 * radius:
        nx, ny, nz = nx / distance, ny / distance, nz / distance
    else:
        # The middle is inside: out through the nearest face.
        fx, fy, fz = abs(x) - hx, abs(y) - hy, abs(z) - hz
        nx = ny = nz = 0.0
        distance = max(fx, fy, fz)
        if fx == distance:
            nx = math.copysign(1.0, x)
        elif fy == distance:
            ny = math.copysign(1.0, y)
        else:
            nz = math.copysign(1.0, z)
    return _put_sphere(i, j, nx, ny, nz, distance, frame, spots, keys)


@outlined
def sphere_cylinder(
    # in
    i, j, limit, frame,
    # out
    spots, keys,
):  # fmt: skip
    """Write the contact of sphere i with cylinder j; return 1, or 0 when they are further apart than the limit."""
    x, y, z = _from(i, j, frame)
    across = math.sqrt(x * x + y * y)
    side, end = across - frame[j, SIZE], abs(z) - frame[j, SIZE + 1]
    ux, uy = (x / across, y / across) if across > 1e-12 * frame[j, SIZE] else (1.0, 0.0)
    uz = math.copysign(1.0, z)
    if side > 0.0 and end > 0.0:
        distance = math.sqrt(side * side + end * end)
        ux, uy, uz = ux * side / distance, uy * side / distance, uz * end / distance
    elif side > end:
        distance, uz = side, 0.0
    else:
        distance, ux, uy = end, 0.0, 0.0
    if distance - frame[i, SIZE] > limit:
        return 0
    return _put_sphere(i, j, ux, uy, uz, distance, frame, spots, keys)
