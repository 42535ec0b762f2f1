"""Contacts of pairs with closed forms: spheres and capsules, spheres with boxes and cylinders, two boxes.

A capsule is a segment with a radius and a sphere is a segment without length, so one routine serves their pairs.

Two boxes: the separating axis, then the incident face clipped by the reference face. Of the fifteen axes (three face
normals each, nine cross products of edges) that of greatest separation is the normal. A face of the first box is
preferred to one of the second, and faces to edges, by a slack: resting boxes then keep their reference, and their
contacts keep their keys.

Keys of two boxes: face contacts 32 (36 f + i) + k with reference face f (first box 0-5, second 6-11), incident face i
and feature k: corner of the incident face 0-3, its edge e across side s of the reference 4 + 4 e + s, corner of the
reference 20.. Edge contacts 2^15 + 16 (3 a + b) + signs.
"""

from __future__ import annotations

import math

from limberjack._jit import inner, outlined
from limberjack.collision.broad import AT, SIZE
from limberjack.collision.manifolds import add_near, choose_near
from limberjack.collision.narrow import MOST, put_point, to_shape, to_world
from limberjack.collision.shapes import SPHERE

__all__ = ["box_box", "closest_on_segments", "segment_pair", "sphere_box", "sphere_cylinder"]

# Sine of the angle below which two segments are parallel: they have two contacts then, at both ends of the overlap.
_PARALLEL = 0.02
# Part of a box's smallest half edge that preferences between axes are worth, and that corners may overhang uncut.
_SLACK = 2e-3
# Square of the cosine between an edge's normal and that of a face that may stand for it; cosine of parallel faces.
_ALIKE, _PARALLEL_FACES = 0.99, 0.9998


@inner
def _clamp(x, low, high):
    return min(max(x, low), high)


@inner
def closest_on_segments(dx, dy, dz, ux, uy, uz, h, vx, vy, vz, k):
    """Return the parameters s, t of the closest points of the segments s u, |s| <= h and d + t v, |t| <= k.

    u and v are unit vectors; d is the vector from the middle of the first to that of the second.
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
    points, keys,
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
        # Both ends of the part of the first segment that overlaps the second.
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
                count = _put(i, s, ri, rj, distance, ux, uy, uz, nx, ny, nz, 1 + end, count, frame, points, keys)
            return count
    return _put(i, s, ri, rj, distance, ux, uy, uz, x, y, z, 0, count, frame, points, keys)


@inner
def _put(i, s, ri, rj, distance, ux, uy, uz, nx, ny, nz, key, n, frame, points, keys):
    """Write the contact point at parameter s of segment i; the other segment is `distance` away against the normal."""
    back = 0.5 * (distance + ri - rj)
    return put_point(
        n, frame[i, AT] + s * ux - back * nx, frame[i, AT + 1] + s * uy - back * ny,
        frame[i, AT + 2] + s * uz - back * nz, nx, ny, nz, ri + rj - distance, key, points, keys,
    )  # fmt: skip


@inner
def _put_sphere(i, j, nx, ny, nz, distance, frame, points, keys):
    """Write the contact of sphere i, whose centre is `distance` outside shape j along a normal in that shape's axes."""
    wx, wy, wz = to_world(j, frame, nx, ny, nz)
    radius = frame[i, SIZE]
    back = 0.5 * (distance + radius)
    return put_point(
        0, frame[i, AT] - back * wx, frame[i, AT + 1] - back * wy, frame[i, AT + 2] - back * wz, wx, wy, wz,
        radius - distance, 0, points, keys,
    )  # fmt: skip


@inner
def _from(i, j, frame):
    """Return the centre of shape i in the axes of shape j."""
    dx, dy, dz = frame[i, AT] - frame[j, AT], frame[i, AT + 1] - frame[j, AT + 1], frame[i, AT + 2] - frame[j, AT + 2]
    return to_shape(j, frame, dx, dy, dz)


@outlined
def sphere_box(
    # in
    i, j, limit, frame,
    # out
    points, keys,
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
        # The centre is inside: out through the nearest face.
        fx, fy, fz = abs(x) - hx, abs(y) - hy, abs(z) - hz
        nx = ny = nz = 0.0
        distance = max(fx, fy, fz)
        if fx == distance:
            nx = math.copysign(1.0, x)
        elif fy == distance:
            ny = math.copysign(1.0, y)
        else:
            nz = math.copysign(1.0, z)
    return _put_sphere(i, j, nx, ny, nz, distance, frame, points, keys)


@outlined
def sphere_cylinder(
    # in
    i, j, limit, frame,
    # out
    points, keys,
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
    return _put_sphere(i, j, ux, uy, uz, distance, frame, points, keys)


@inner
def _column(frame, i, k):
    """Return axis k of shape i in the world."""
    return frame[i, k], frame[i, 3 + k], frame[i, 6 + k]


@inner
def _dot(a, b):
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


@inner
def _axis(best, code, separation, new):
    """Return the better of two (separation, code)."""
    if separation > best:
        best, code = separation, new
    return best, code


@inner
def _edge_axis(best, code, t1, t2, c1, c2, reach_a, reach_b, square, new):
    """Return the better of the best edge axis so far and the next, whose length is sqrt(square)."""
    # Parallel edges have no such axis.
    separation = (abs(t2 * c1 - t1 * c2) - reach_a - reach_b) / math.sqrt(max(square, 1e-8))
    if square > 1e-8 and separation > best:
        best, code = separation, new
    return best, code


@inner
def _best_edges(t, c, m, a, b):
    """Return the greatest separation along a cross product of edges, and its number 3 k + l.

    c holds the dot products of the axes by rows of the first box, m their magnitudes, t the vector between the centres
    in the first box's axes, a and b the half edges.
    """
    best, code = -1e300, 0
    for k in range(3):
        k1, k2 = (k + 1) % 3, (k + 2) % 3
        for l in range(3):
            l1, l2 = (l + 1) % 3, (l + 2) % 3
            best, code = _edge_axis(
                best, code, t[k1], t[k2], c[3 * k1 + l], c[3 * k2 + l], a[k1] * m[3 * k2 + l] + a[k2] * m[3 * k1 + l],
                b[l1] * m[3 * k + l2] + b[l2] * m[3 * k + l1], 1.0 - c[3 * k + l] * c[3 * k + l], 3 * k + l,
            )  # fmt: skip
    return best, code


@inner
def _alike(code, k, l, m):
    """Return whether the cross product of edges k and l points nearly along the normal of face `code`.

    The separation of nearly parallel faces that overlap in a corner only is misleading, since it includes what lies
    beyond the overlap: boxes that rest so would change from edges to faces and back as they rock.
    """
    length = 1.0 - m[3 * k + l] * m[3 * k + l]
    if code < 3:
        along = m[3 * (3 - code - k) + l] if code != k else 0.0
    else:
        along = m[3 * k + 6 - code - l] if code - 3 != l else 0.0
    return along * along > _ALIKE * length


@inner
def _least_gap(n, near):
    """Return the gap of the deepest of n candidates."""
    least = 1e300
    for s in range(n):
        least = min(least, near[s, 2])
    return least


@outlined
def box_box(
    # in
    i, j, limit, frame,
    # out
    points, keys, near, near_keys,
):  # fmt: skip
    """Write the contacts of boxes i and j; return their number, or -1 where their closest points are needed."""
    a0, a1, a2 = _column(frame, i, 0), _column(frame, i, 1), _column(frame, i, 2)
    b0, b1, b2 = _column(frame, j, 0), _column(frame, j, 1), _column(frame, j, 2)
    d = (frame[j, AT] - frame[i, AT], frame[j, AT + 1] - frame[i, AT + 1], frame[j, AT + 2] - frame[i, AT + 2])
    a = (frame[i, SIZE], frame[i, SIZE + 1], frame[i, SIZE + 2])
    b = (frame[j, SIZE], frame[j, SIZE + 1], frame[j, SIZE + 2])
    t = (_dot(d, a0), _dot(d, a1), _dot(d, a2))
    c = (
        _dot(a0, b0), _dot(a0, b1), _dot(a0, b2), _dot(a1, b0), _dot(a1, b1), _dot(a1, b2),
        _dot(a2, b0), _dot(a2, b1), _dot(a2, b2),
    )  # fmt: skip
    m = (
        abs(c[0]), abs(c[1]), abs(c[2]), abs(c[3]), abs(c[4]), abs(c[5]), abs(c[6]), abs(c[7]), abs(c[8])
    )  # fmt: skip
    slack = _SLACK * min(a[0], a[1], a[2], b[0], b[1], b[2])
    face = abs(t[0]) - a[0] - b[0] * m[0] - b[1] * m[1] - b[2] * m[2]
    face, code = _axis(face, 0, abs(t[1]) - a[1] - b[0] * m[3] - b[1] * m[4] - b[2] * m[5], 1)
    face, code = _axis(face, code, abs(t[2]) - a[2] - b[0] * m[6] - b[1] * m[7] - b[2] * m[8], 2)
    if face > limit:
        return 0
    w = (_dot(d, b0), _dot(d, b1), _dot(d, b2))
    other = abs(w[0]) - b[0] - a[0] * m[0] - a[1] * m[3] - a[2] * m[6]
    other, turned = _axis(other, 3, abs(w[1]) - b[1] - a[0] * m[1] - a[1] * m[4] - a[2] * m[7], 4)
    other, turned = _axis(other, turned, abs(w[2]) - b[2] - a[0] * m[2] - a[1] * m[5] - a[2] * m[8], 5)
    if other > limit:
        return 0
    if other > face + slack:
        face = other
        # Of two nearly parallel faces in contact either serves as the reference, and the choice must not change as
        # boxes rock. Along a much larger face a fast body moves too far for that within a step.
        if (
            other > slack
            or m[3 * code + turned - 3] < _PARALLEL_FACES
            or max(b[0], b[1], b[2]) > 2.0 * max(a[0], a[1], a[2])
        ):
            code = turned
    edge, which = _best_edges(t, c, m, a, b)
    if edge > limit:
        return 0
    crossed = edge > face + slack
    if crossed and (edge > slack or not _alike(code, which // 3, which % 3, m)):
        return _edge_contact(i, j, which // 3, which % 3, edge, slack, d, frame, points, keys)
    r, o, sign, kind = i, j, -1.0, 0
    if code < 3:
        side = 1.0 if t[code] > 0.0 else -1.0
    else:
        code -= 3
        side = -1.0 if w[code] > 0.0 else 1.0
        r, o, sign, kind = j, i, 1.0, 6
    n = _clip_faces(r, o, code, side, limit, slack, frame, near, near_keys)
    if crossed:
        least = _least_gap(n, near)
        if abs(least - edge) > slack:
            return _edge_contact(i, j, which // 3, which % 3, edge, slack, d, frame, points, keys)
        face = edge
    return _put_faces(n, r, code, side, sign, kind, face, slack, frame, near, near_keys, points, keys)


@outlined
def _edge_contact(i, j, k, l, separation, slack, d, frame, points, keys):
    """Write the contact of an edge along axis k of box i with one along axis l of box j; return 1.

    -1: the boxes are apart and the edges pass each other beyond their ends.
    """
    ux, uy, uz = _column(frame, i, k)
    vx, vy, vz = _column(frame, j, l)
    nx, ny, nz = uy * vz - uz * vy, uz * vx - ux * vz, ux * vy - uy * vx
    length = math.sqrt(nx * nx + ny * ny + nz * nz)
    if nx * d[0] + ny * d[1] + nz * d[2] > 0.0:
        length = -length
    nx, ny, nz = nx / length, ny / length, nz / length
    # From the centre of box i to the middle of its edge, then to that of the edge of box j.
    ex = ey = ez = 0.0
    px, py, pz = frame[i, AT], frame[i, AT + 1], frame[i, AT + 2]
    signs = 0
    for step in range(1, 3):
        x, y, z = _column(frame, i, (k + step) % 3)
        size = frame[i, SIZE + (k + step) % 3]
        if x * nx + y * ny + z * nz > 0.0:
            size = -size
            signs += step
        px, py, pz = px + size * x, py + size * y, pz + size * z
        x, y, z = _column(frame, j, (l + step) % 3)
        size = frame[j, SIZE + (l + step) % 3]
        if x * nx + y * ny + z * nz < 0.0:
            size = -size
            signs += 4 * step
        ex, ey, ez = ex + size * x, ey + size * y, ez + size * z
    ex, ey, ez = ex + frame[j, AT] - px, ey + frame[j, AT + 1] - py, ez + frame[j, AT + 2] - pz
    h, g = frame[i, SIZE + k] + slack, frame[j, SIZE + l] + slack
    b = ux * vx + uy * vy + uz * vz
    eu, ev = ex * ux + ey * uy + ez * uz, ex * vx + ey * vy + ez * vz
    s, t = (eu - b * ev) / (1.0 - b * b), (b * eu - ev) / (1.0 - b * b)
    if separation > 0.0 and (abs(s) > h or abs(t) > g):
        return -1
    s = min(max(s, -h), h)
    back = 0.5 * separation
    return put_point(
        0, px + s * ux - back * nx, py + s * uy - back * ny, pz + s * uz - back * nz, nx, ny, nz, -separation,
        32768 + 16 * (3 * k + l) + signs, points, keys,
    )  # fmt: skip


@outlined
def _clip_faces(
    # in
    r, o, k, side, limit, slack, frame,
    # out
    near, near_keys,
):  # fmt: skip
    """Write the candidates of the face of box o incident on face k of box r; return their number.

    Coordinates u, v, w run along axes k + 1, k + 2 and k of the reference box, w outward from the face: w is the gap.
    """
    k1, k2 = (k + 1) % 3, (k + 2) % 3
    hu, hv = frame[r, SIZE + k1] + slack, frame[r, SIZE + k2] + slack
    nx, ny, nz = _column(frame, r, k)
    nx, ny, nz = side * nx, side * ny, side * nz
    f = to_shape(o, frame, nx, ny, nz)
    l = 0
    if abs(f[1]) > abs(f[0]):
        l = 1
    if abs(f[2]) > abs(f[l]):
        l = 2
    facing = -1.0 if f[l] > 0.0 else 1.0
    l1, l2 = (l + 1) % 3, (l + 2) % 3
    gx, gy, gz = _column(frame, o, l)
    size = facing * frame[o, SIZE + l]
    middle = to_shape(
        r, frame, frame[o, AT] + size * gx - frame[r, AT], frame[o, AT + 1] + size * gy - frame[r, AT + 1],
        frame[o, AT + 2] + size * gz - frame[r, AT + 2],
    )  # fmt: skip
    x, y, z = _column(frame, o, l1)
    p, h = to_shape(r, frame, x, y, z), frame[o, SIZE + l1]
    x, y, z = _column(frame, o, l2)
    q, g = to_shape(r, frame, x, y, z), frame[o, SIZE + l2]
    cu, cv, cw = middle[k1], middle[k2], side * middle[k] - frame[r, SIZE + k]
    pu, pv, pw = h * p[k1], h * p[k2], side * h * p[k]
    qu, qv, qw = g * q[k1], g * q[k2], side * g * q[k]
    base = 32 * (2 * l + (1 if facing > 0.0 else 0))
    n = 0
    for corner in range(4):
        # Corners in turn: ++, -+, --, +-; each edge leads to the next.
        s = 1.0 if corner == 0 or corner == 3 else -1.0
        t = 1.0 if corner < 2 else -1.0
        u, v, w = cu + s * pu + t * qu, cv + s * pv + t * qv, cw + s * pw + t * qw
        if abs(u) <= hu and abs(v) <= hv and w <= limit:
            n = add_near(n, u, v, w, base + corner, near, near_keys)
        if corner % 2 == 0:
            eu, ev, ew = -2.0 * s * pu, -2.0 * s * pv, -2.0 * s * pw
        else:
            eu, ev, ew = -2.0 * t * qu, -2.0 * t * qv, -2.0 * t * qw
        enter, leave, first, last = 0.0, 1.0, -1, -1
        for way in range(4):
            # Sides in turn: u <= hu, u >= -hu, v <= hv, v >= -hv.
            sign = 1.0 if way % 2 == 0 else -1.0
            speed = sign * (eu if way < 2 else ev)
            room = (hu - sign * u) if way < 2 else (hv - sign * v)
            if speed > 1e-12 * (hu + hv):
                if room < leave * speed:
                    leave, last = room / speed, way
            elif speed < -1e-12 * (hu + hv):
                if room < enter * speed:
                    enter, first = room / speed, way
            elif room < 0.0:
                enter = 2.0
        if enter <= leave:
            if first >= 0 and w + enter * ew <= limit:
                n = add_near(
                    n, u + enter * eu, v + enter * ev, w + enter * ew, base + 4 + 4 * corner + first, near, near_keys
                )
            if last >= 0 and w + leave * ew <= limit:
                n = add_near(
                    n, u + leave * eu, v + leave * ev, w + leave * ew, base + 4 + 4 * corner + last, near, near_keys
                )
    # Corners of the reference face over the incident one: where its plane is, seen along w.
    area = pu * qv - pv * qu
    if abs(area) > 1e-9 * hu * hv:
        for corner in range(4):
            u, v = hu if corner == 0 or corner == 3 else -hu, hv if corner < 2 else -hv
            s, t = ((u - cu) * qv - (v - cv) * qu) / area, (pu * (v - cv) - pv * (u - cu)) / area
            # Inside with the slack: nearer to an incident edge, that edge crosses the sides and has the contact.
            if abs(s) < 1.0 and abs(t) < 1.0:
                u, v = u - math.copysign(slack, u), v - math.copysign(slack, v)
                s, t = ((u - cu) * qv - (v - cv) * qu) / area, (pu * (v - cv) - pv * (u - cu)) / area
                if cw + s * pw + t * qw <= limit:
                    n = add_near(n, u, v, cw + s * pw + t * qw, base + 20 + corner, near, near_keys)
    return n


@outlined
def _put_faces(n, r, k, side, sign, kind, separation, slack, frame, near, near_keys, points, keys):
    """Write the chosen candidates as contact points; return their number.

    -1: the boxes are apart and their closest points are not over the reference face.
    """
    if _least_gap(n, near) > max(0.0, separation + slack):
        return -1
    choose_near(n, MOST, slack, 0.0, near)
    k1, k2 = (k + 1) % 3, (k + 2) % 3
    nx, ny, nz = _column(frame, r, k)
    nx, ny, nz = side * nx, side * ny, side * nz
    ux, uy, uz = _column(frame, r, k1)
    vx, vy, vz = _column(frame, r, k2)
    high = frame[r, SIZE + k]
    base = 32 * 6 * (kind + 2 * k + (1 if side > 0.0 else 0))
    count = 0
    for s in range(n):
        if near[s, 3] == 1.0:
            u, v, w = near[s, 0], near[s, 1], near[s, 2]
            h = high + 0.5 * w
            count = put_point(
                count, frame[r, AT] + u * ux + v * vx + h * nx, frame[r, AT + 1] + u * uy + v * vy + h * ny,
                frame[r, AT + 2] + u * uz + v * vz + h * nz, sign * nx, sign * ny, sign * nz, -w,
                base + near_keys[s], points, keys,
            )  # fmt: skip
    return count
