"""Distance and penetration of two convex shapes by their support points: GJK and the expanding polytope.

`closest_points` (Gilbert, Johnson, Keerthi) gives the closest points of two shapes that are apart. `overlap_depth` (van
den Bergen) gives the penetration depth of two that overlap: a polytope inside their Minkowski difference is expanded,
one support point at a time, where it is nearest to the origin, until that face lies on the surface of the difference;
its distance is the depth, its normal the direction of separation.

Spheres and capsules take part as their cores, a point and a segment, whose radius is added afterwards. All coordinates
are relative to the centre of the first shape. `corners` holds the simplex or polytope: rows of a - b, a and b.
"""

from __future__ import annotations

import math

from limberjack._jit import inner, outlined
from limberjack.collision.broad import AT, SIZE
from limberjack.collision.narrow import to_shape, to_world
from limberjack.collision.shapes import BOX, CAPSULE, CYLINDER, SPHERE
from limberjack.spatial.vectors import cross

__all__ = ["FAR", "OVERLAP", "SEPARATED", "add_support", "closest_points", "local_support", "overlap_depth", "support"]

FAR, SEPARATED, OVERLAP = 0, 1, 2
# Support points added to the polytope at most; distance of a face without area.
_ROUNDS = 64
_NEVER = 1e300


@inner
def local_support(kind, sx, sy, sz, x, y, z, vertices, first, last):
    """Return the point of a shape furthest along (x, y, z), in its own axes."""
    if kind == SPHERE:
        return 0.0, 0.0, 0.0
    if kind == CAPSULE:
        return 0.0, 0.0, math.copysign(sy, z)
    if kind == BOX:
        return math.copysign(sx, x), math.copysign(sy, y), math.copysign(sz, z)
    if kind == CYLINDER:
        across = math.sqrt(x * x + y * y)
        f = sx / across if across > 0.0 else 0.0
        return f * x, f * y, math.copysign(sy, z)
    best, most = first, -1e300
    for k in range(first, last):
        along = x * vertices[k, 0] + y * vertices[k, 1] + z * vertices[k, 2]
        if along > most:
            best, most = k, along
    return vertices[best, 0], vertices[best, 1], vertices[best, 2]


@inner
def support(k, kind, shrink, frame, x, y, z, vertices, first, last):
    """Return the point of the core of shape k furthest along (x, y, z): relative to its centre, world axes.

    Boxes and cylinders are made smaller by `shrink` all around.
    """
    lx, ly, lz = to_shape(k, frame, x, y, z)
    less = shrink if kind == BOX or kind == CYLINDER else 0.0
    lx, ly, lz = local_support(
        kind, frame[k, SIZE] - less, frame[k, SIZE + 1] - less, frame[k, SIZE + 2] - less, lx, ly, lz, vertices, first,
        last,
    )  # fmt: skip
    return to_world(k, frame, lx, ly, lz)


@outlined
def add_support(
    # in
    i, j, kind_i, kind_j, shrink, frame, vertices, ranges, x, y, z, n,
    # out
    corners,
):  # fmt: skip
    """Write corner n: the support point of i along (x, y, z) minus that of j against it; return its height.

    `ranges` holds the first and last vertex of both shapes, where they are hulls.
    """
    ax, ay, az = support(i, kind_i, shrink, frame, x, y, z, vertices, ranges[0], ranges[1])
    bx, by, bz = support(j, kind_j, shrink, frame, -x, -y, -z, vertices, ranges[2], ranges[3])
    bx, by, bz = (
        bx + frame[j, AT] - frame[i, AT],
        by + frame[j, AT + 1] - frame[i, AT + 1],
        bz + frame[j, AT + 2] - frame[i, AT + 2],
    )
    corners[n, 0], corners[n, 1], corners[n, 2] = ax - bx, ay - by, az - bz
    corners[n, 3], corners[n, 4], corners[n, 5] = ax, ay, az
    corners[n, 6], corners[n, 7], corners[n, 8] = bx, by, bz
    return (ax - bx) * x + (ay - by) * y + (az - bz) * z


@inner
def _get(corners, k):
    return corners[k, 0], corners[k, 1], corners[k, 2]


@inner
def _dot(a, b):
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


@inner
def _minus(a, b):
    return a[0] - b[0], a[1] - b[1], a[2] - b[2]


@inner
def _segment_weights(a, b):
    """Return the weights of the point of segment ab closest to the origin."""
    d = _minus(b, a)
    square = _dot(d, d)
    if square <= 0.0:
        return 1.0, 0.0
    t = min(max(-_dot(a, d) / square, 0.0), 1.0)
    return 1.0 - t, t


@outlined
def _triangle_weights(a, b, c):
    """Return the weights of the point of triangle abc closest to the origin (Ericson, closest point on a triangle)."""
    ab, ac = _minus(b, a), _minus(c, a)
    d1, d2 = -_dot(ab, a), -_dot(ac, a)
    if d1 <= 0.0 and d2 <= 0.0:
        return 1.0, 0.0, 0.0
    d3, d4 = -_dot(ab, b), -_dot(ac, b)
    if d3 >= 0.0 and d4 <= d3:
        return 0.0, 1.0, 0.0
    vc = d1 * d4 - d3 * d2
    if vc <= 0.0 and d1 >= 0.0 and d3 <= 0.0:
        t = d1 / (d1 - d3)
        return 1.0 - t, t, 0.0
    d5, d6 = -_dot(ab, c), -_dot(ac, c)
    if d6 >= 0.0 and d5 <= d6:
        return 0.0, 0.0, 1.0
    vb = d5 * d2 - d1 * d6
    if vb <= 0.0 and d2 >= 0.0 and d6 <= 0.0:
        t = d2 / (d2 - d6)
        return 1.0 - t, 0.0, t
    va = d3 * d6 - d5 * d4
    if va <= 0.0 and d4 - d3 >= 0.0 and d5 - d6 >= 0.0:
        t = (d4 - d3) / ((d4 - d3) + (d5 - d6))
        return 0.0, 1.0 - t, t
    total = va + vb + vc
    if total <= 0.0:
        return 1.0, 0.0, 0.0
    return va / total, vb / total, vc / total


@inner
def _outside(a, b, c, d):
    """Return whether the origin is on the other side of the plane abc than d, or in it."""
    x, y, z = cross(b[0] - a[0], b[1] - a[1], b[2] - a[2], c[0] - a[0], c[1] - a[1], c[2] - a[2])
    of_origin = -(x * a[0] + y * a[1] + z * a[2])
    of_other = x * (d[0] - a[0]) + y * (d[1] - a[1]) + z * (d[2] - a[2])
    return of_origin * of_other <= 0.0


@inner
def _tetrahedron_weights(a, b, c, d):
    """Return the weights of the point of a tetrahedron closest to the origin; all positive where it is inside."""
    best, inside = 1e300, True
    w = (0.25, 0.25, 0.25, 0.25)
    for face in range(4):
        # The faces abc, acd, adb, bdc, each with its opposite corner.
        p, q, r, s = a, b, c, d
        if face == 1:
            p, q, r, s = a, c, d, b
        elif face == 2:
            p, q, r, s = a, d, b, c
        elif face == 3:
            p, q, r, s = b, d, c, a
        if not _outside(p, q, r, s):
            continue
        inside = False
        f, g, h = _triangle_weights(p, q, r)
        x, y, z = f * p[0] + g * q[0] + h * r[0], f * p[1] + g * q[1] + h * r[1], f * p[2] + g * q[2] + h * r[2]
        square = x * x + y * y + z * z
        if square < best:
            best = square
            if face == 0:
                w = (f, g, h, 0.0)
            elif face == 1:
                w = (f, 0.0, g, h)
            elif face == 2:
                w = (f, h, 0.0, g)
            else:
                w = (0.0, f, h, g)
    return inside, w


@outlined
def _closest_weights(n, corners):
    """Return whether the origin is inside the simplex of n corners, and the weights of its point closest to it."""
    a = _get(corners, 0)
    if n == 1:
        return False, (1.0, 0.0, 0.0, 0.0)
    b = _get(corners, 1)
    if n == 2:
        f, g = _segment_weights(a, b)
        return False, (f, g, 0.0, 0.0)
    c = _get(corners, 2)
    if n == 3:
        f, g, h = _triangle_weights(a, b, c)
        return False, (f, g, h, 0.0)
    return _tetrahedron_weights(a, b, c, _get(corners, 3))


@inner
def _reduce(n, corners):
    """Reduce the simplex to the corners with weights in its point closest to the origin; return (n, that point).

    n is -1 when the origin is inside.
    """
    inside, w = _closest_weights(n, corners)
    remaining = -1 if inside else 0
    x = y = z = 0.0
    for k in range(n):
        if w[k] > 0.0 and not inside:
            x, y, z = x + w[k] * corners[k, 0], y + w[k] * corners[k, 1], z + w[k] * corners[k, 2]
            if remaining != k:
                for c in range(9):
                    corners[remaining, c] = corners[k, c]
            remaining += 1
    return remaining, x, y, z


@inner
def _points(n, corners):
    """Return the points of both shapes whose difference is the point of the simplex closest to the origin."""
    _, w = _closest_weights(n, corners)
    ax = ay = az = bx = by = bz = 0.0
    for k in range(n):
        ax, ay, az = ax + w[k] * corners[k, 3], ay + w[k] * corners[k, 4], az + w[k] * corners[k, 5]
        bx, by, bz = bx + w[k] * corners[k, 6], by + w[k] * corners[k, 7], bz + w[k] * corners[k, 8]
    return ax, ay, az, bx, by, bz


@inner
def _known(n, tiny, corners):
    """Return whether corner n is one of the n before it."""
    for k in range(n):
        x, y, z = corners[k, 0] - corners[n, 0], corners[k, 1] - corners[n, 1], corners[k, 2] - corners[n, 2]
        if x * x + y * y + z * z < 1e-6 * tiny * tiny:
            return True
    return False


@outlined
def closest_points(
    # in
    i, j, kind_i, kind_j, limit, scale, shrink, frame, vertices, ranges,
    # out
    corners, result,
):  # fmt: skip
    """Find the closest points of two cores; return (status, corners of the last simplex).

    SEPARATED: result holds the unit normal out of j into i (3), the distance, the point on i and the point on j. FAR:
    they are further apart than the limit. OVERLAP: they overlap, or are too close for a normal.
    """
    x, y, z = frame[i, AT] - frame[j, AT], frame[i, AT + 1] - frame[j, AT + 1], frame[i, AT + 2] - frame[j, AT + 2]
    if x * x + y * y + z * z < 1e-24 * scale * scale:
        x, y, z = scale, 0.0, 0.0
    n = 0
    tiny = 1e-10 * scale
    for turn in range(64):
        square = x * x + y * y + z * z
        if square < tiny * tiny:
            return OVERLAP, n
        height = -add_support(i, j, kind_i, kind_j, shrink, frame, vertices, ranges, -x, -y, -z, n, corners)
        if height > 0.0 and height * height > limit * limit * square and limit >= 0.0:
            return FAR, n
        # Converged: no point lies further, to rounding, or the furthest is a corner already.
        if n > 0 and square - height <= 1e-13 * square + 4e-15 * scale * math.sqrt(square):
            break
        if n > 0 and _known(n, tiny, corners):
            break
        n, u, v, w = _reduce(n + 1, corners)
        if n < 0:
            return OVERLAP, 4
        if u * u + v * v + w * w >= square and turn > 0:
            break  # the simplex is too flat for further progress
        x, y, z = u, v, w
    distance = math.sqrt(x * x + y * y + z * z)
    ax, ay, az, bx, by, bz = _points(n, corners)
    result[0], result[1], result[2], result[3] = x / distance, y / distance, z / distance, distance
    result[4], result[5], result[6] = ax, ay, az
    result[7], result[8], result[9] = bx, by, bz
    return SEPARATED, n


@inner
def _volume(corners):
    """Return six times the volume of the first four corners, with its sign."""
    a, b, c, d = _get(corners, 0), _get(corners, 1), _get(corners, 2), _get(corners, 3)
    e, f, g = _minus(b, a), _minus(c, a), _minus(d, a)
    x, y, z = cross(e[0], e[1], e[2], f[0], f[1], f[2])
    return x * g[0] + y * g[1] + z * g[2]


@inner
def _size(corners, n):
    """Return the squared length, area or volume, by powers of length, that corner n adds to a simplex of n corners."""
    a, b = _get(corners, 0), _get(corners, 1)
    e = _minus(b, a)
    if n == 1:
        return math.sqrt(e[0] * e[0] + e[1] * e[1] + e[2] * e[2])
    f = _minus(_get(corners, 2), a)
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
    e = _minus(_get(corners, 1), a)
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
    f = _minus(_get(corners, 2), a)
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
    e, g = _minus(_get(corners, b), p), _minus(_get(corners, c), p)
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
    # Faces 012, 023, 031, 132, ordered so that their normals point outward.
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
