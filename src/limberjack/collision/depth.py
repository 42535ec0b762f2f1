"""How deep two convex shapes overlap: the expanding polytope (van den Bergen).

A polytope inside the difference of the two shapes grows, one support at a time, where it is nearest to the origin,
until that face lies on the surface of the difference: its distance is the depth, its normal the way out.
"""

from __future__ import annotations

import math

from limberjack._jit import inner, outlined
from limberjack.collision.convex import _get, _triangle_weights, add_support
from limberjack.spatial.vectors import cross

__all__ = ["overlap_depth"]

_ROUNDS = 64
_NEVER = 1e300


@inner
def _span(a, b):
    return b[0] - a[0], b[1] - a[1], b[2] - a[2]


@inner
def _volume(corners):
    """Return six times the volume of the first four corners, with its sign."""
    a, b, c, d = _get(corners, 0), _get(corners, 1), _get(corners, 2), _get(corners, 3)
    e, f, g = _span(a, b), _span(a, c), _span(a, d)
    x, y, z = cross(e[0], e[1], e[2], f[0], f[1], f[2])
    return x * g[0] + y * g[1] + z * g[2]


@inner
def _size(corners, n):
    """Return the squared length, area or volume, by powers of length, that corner n adds to a simplex of n corners."""
    a, b = _get(corners, 0), _get(corners, 1)
    e = _span(a, b)
    if n == 1:
        return math.sqrt(e[0] * e[0] + e[1] * e[1] + e[2] * e[2])
    f = _span(a, _get(corners, 2))
    x, y, z = cross(e[0], e[1], e[2], f[0], f[1], f[2])
    if n == 2:
        return math.sqrt(x * x + y * y + z * z)
    return abs(_volume(corners))


@inner
def _try_direction(corners, n, k):
    """Return the k-th direction in which a simplex of n corners may grow to one of more dimensions; zero: no more."""
    if n == 1:
        sign = 1.0 if k % 2 == 0 else -1.0
        return (sign if k // 2 == 0 else 0.0), (sign if k // 2 == 1 else 0.0), (sign if k // 2 == 2 else 0.0)
    a = _get(corners, 0)
    e = _span(a, _get(corners, 1))
    sign = 1.0 if k % 2 == 0 else -1.0
    if n == 2:
        if abs(e[0]) <= abs(e[1]) and abs(e[0]) <= abs(e[2]):
            x, y, z = 0.0, e[2], -e[1]
        elif abs(e[1]) <= abs(e[2]):
            x, y, z = -e[2], 0.0, e[0]
        else:
            x, y, z = e[1], -e[0], 0.0
        if k // 2 == 1:
            x, y, z = cross(e[0], e[1], e[2], x, y, z)
        elif k // 2 == 2:
            return 0.0, 0.0, 0.0
        return sign * x, sign * y, sign * z
    if k // 2 > 0:
        return 0.0, 0.0, 0.0
    f = _span(a, _get(corners, 2))
    x, y, z = cross(e[0], e[1], e[2], f[0], f[1], f[2])
    return sign * x, sign * y, sign * z


@inner
def _tetrahedron(i, j, kind_i, kind_j, frame, vertices, ranges, n, scale, corners):
    """Grow a simplex around the origin to a tetrahedron; return whether that was possible."""
    if n == 4 and abs(_volume(corners)) < 1e-13 * scale * scale * scale:
        n = 3
    while n >= 2 and n < 4 and _size(corners, n - 1) < (1e-9 * scale if n == 2 else 1e-11 * scale * scale):
        n -= 1
    while n < 4:
        grown = False
        for k in range(6):
            x, y, z = _try_direction(corners, n, k)
            length = math.sqrt(x * x + y * y + z * z)
            if length == 0.0:
                break
            add_support(
                i, j, kind_i, kind_j, 0.0, frame, vertices, ranges, x / length, y / length, z / length, n, corners
            )
            least = 1e-9 * scale if n == 1 else (1e-10 * scale * scale if n == 2 else 1e-12 * scale * scale * scale)
            if _size(corners, n) > least:
                grown = True
                break
        if not grown:
            break
        n += 1
    return n == 4


@inner
def _put_face(f, a, b, c, corners, faces, planes):
    """Write face f = abc with its plane; one without area is never the nearest."""
    faces[f, 0], faces[f, 1], faces[f, 2] = a, b, c
    p = _get(corners, a)
    e, g = _span(p, _get(corners, b)), _span(p, _get(corners, c))
    x, y, z = cross(e[0], e[1], e[2], g[0], g[1], g[2])
    length = math.sqrt(x * x + y * y + z * z)
    least = 1e-14 * (e[0] * e[0] + e[1] * e[1] + e[2] * e[2] + g[0] * g[0] + g[1] * g[1] + g[2] * g[2])
    if length <= least:
        planes[f, 0], planes[f, 1], planes[f, 2], planes[f, 3] = 0.0, 0.0, 0.0, _NEVER
        return
    x, y, z = x / length, y / length, z / length
    planes[f, 0], planes[f, 1], planes[f, 2] = x, y, z
    planes[f, 3] = x * p[0] + y * p[1] + z * p[2]


@inner
def _open(apex, count, least, corners, faces, planes, rim):
    """Remove the faces that corner `apex` sees; return the number of faces left and of edges around the hole."""
    x, y, z = _get(corners, apex)
    edges, f = 0, 0
    while f < count:
        p = _get(corners, faces[f, 0])
        height = planes[f, 0] * (x - p[0]) + planes[f, 1] * (y - p[1]) + planes[f, 2] * (z - p[2])
        if height <= least:
            f += 1
            continue
        for k in range(3):
            a, b = faces[f, k], faces[f, (k + 1) % 3]
            shared = -1
            for e in range(edges):
                if rim[e, 0] == b and rim[e, 1] == a:
                    shared = e
                    break
            if shared >= 0:
                edges -= 1
                rim[shared, 0], rim[shared, 1] = rim[edges, 0], rim[edges, 1]
            elif edges < len(rim):
                rim[edges, 0], rim[edges, 1] = a, b
                edges += 1
        count -= 1
        for k in range(3):
            faces[f, k] = faces[count, k]
            planes[f, k] = planes[count, k]
        planes[f, 3] = planes[count, 3]
    return count, edges


@outlined
def overlap_depth(
    # in
    i, j, kind_i, kind_j, n, scale, frame, vertices, ranges,
    # out
    corners, faces, planes, rim, result,
):  # fmt: skip
    """Fill `result` as `closest_points` does, with the depth as a negative distance; return whether it was found.

    The first n corners are a simplex around the origin.
    """
    if not _tetrahedron(i, j, kind_i, kind_j, frame, vertices, ranges, n, scale, corners):
        return False
    # Faces 012, 023, 031, 132, turned so that their normals look outward.
    turned = 1 if _volume(corners) < 0.0 else 0
    for f in range(4):
        a, b, c = (1 if f == 3 else 0), (3 if f >= 2 else f + 1), (2 if f == 0 or f == 3 else (3 if f == 1 else 1))
        _put_face(f, a, b if turned else c, c if turned else b, corners, faces, planes)
    count, total, best = 4, 4, 0
    for _ in range(_ROUNDS):
        best = 0
        for f in range(1, count):
            if planes[f, 3] < planes[best, 3]:
                best = f
        if total == len(corners):
            break
        x, y, z, distance = planes[best, 0], planes[best, 1], planes[best, 2], planes[best, 3]
        height = add_support(i, j, kind_i, kind_j, 0.0, frame, vertices, ranges, x, y, z, total, corners)
        if height - distance <= 1e-10 * scale:
            break
        left, edges = _open(total, count, 1e-13 * scale, corners, faces, planes, rim)
        if left == count or left + edges > len(faces):
            break
        count = left
        for e in range(edges):
            _put_face(count, rim[e, 0], rim[e, 1], total, corners, faces, planes)
            count += 1
        total += 1
    best = 0
    for f in range(1, count):
        if planes[f, 3] < planes[best, 3]:
            best = f
    if planes[best, 3] == _NEVER:
        return False
    a, b, c = faces[best, 0], faces[best, 1], faces[best, 2]
    u, v, w = _triangle_weights(_get(corners, a), _get(corners, b), _get(corners, c))
    result[0], result[1], result[2], result[3] = -planes[best, 0], -planes[best, 1], -planes[best, 2], -planes[best, 3]
    for k in range(6):
        result[4 + k] = u * corners[a, 3 + k] + v * corners[b, 3 + k] + w * corners[c, 3 + k]
    return True
