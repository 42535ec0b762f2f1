"""The closest points of two convex shapes by their supports (Gilbert, Johnson, Keerthi), and how deep they overlap.

Spheres and capsules take part as their cores, a point and a segment, whose radius is added afterwards. All coordinates
are relative to the middle of the first shape. `corners` holds the simplex or polytope: rows of a - b, a and b.
"""

from __future__ import annotations

import math

from limberjack._jit import inner, outlined
from limberjack.collision.axes import to_shape, to_world
from limberjack.collision.broad import AT, SIZE
from limberjack.collision.shapes import BOX, CAPSULE, CYLINDER, SPHERE
from limberjack.spatial.vectors import cross

__all__ = ["FAR", "OVERLAP", "TOUCH", "add_support", "closest_points", "local_support", "support"]

FAR, TOUCH, OVERLAP = 0, 1, 2


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
    """Return the point of the core of shape k furthest along (x, y, z): from its middle, world axes.

    Boxes and cylinders are made smaller by `shrink` all around.
    """
    lx, ly, lz = to_shape(k, frame, x, y, z)
    less = shrink if kind == BOX or kind == CYLINDER else 0.0
    lx, ly, lz = local_support(
        kind,
        frame[k, SIZE] - less,
        frame[k, SIZE + 1] - less,
        frame[k, SIZE + 2] - less,
        lx,
        ly,
        lz,
        vertices,
        first,
        last,
    )
    return to_world(k, frame, lx, ly, lz)


@outlined
def add_support(
    # in
    i, j, kind_i, kind_j, shrink, frame, vertices, ranges, x, y, z, n,
    # out
    corners,
):  # fmt: skip
    """Write corner n: the point of i furthest along (x, y, z) minus that of j furthest against it; return its height.

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
def _weigh(n, corners):
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
    """Keep the corners of the simplex that carry its point closest to the origin; return (n, that point and two more).

    n is -1 when the origin is inside. Returned are a - b, and the points a and b of the two shapes.
    """
    inside, w = _weigh(n, corners)
    kept = -1 if inside else 0
    x = y = z = 0.0
    for k in range(n):
        if w[k] > 0.0 and not inside:
            x, y, z = x + w[k] * corners[k, 0], y + w[k] * corners[k, 1], z + w[k] * corners[k, 2]
            if kept != k:
                for c in range(9):
                    corners[kept, c] = corners[k, c]
            kept += 1
    return kept, x, y, z


@inner
def _points(n, corners):
    """Return the points of both shapes that the simplex's closest point to the origin is the difference of."""
    _, w = _weigh(n, corners)
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

    TOUCH: result holds the unit normal out of j into i (3), the distance, the point on i and the point on j. FAR: they
    are further apart than the limit. OVERLAP: they overlap, or are too close to tell the normal.
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
            break  # the simplex is too flat to tell more
        x, y, z = u, v, w
    distance = math.sqrt(x * x + y * y + z * z)
    ax, ay, az, bx, by, bz = _points(n, corners)
    result[0], result[1], result[2], result[3] = x / distance, y / distance, z / distance, distance
    result[4], result[5], result[6] = ax, ay, az
    result[7], result[8], result[9] = bx, by, bz
    return TOUCH, n
