"""Contact manifolds of convex shapes: the feature of each that faces the other, one clipped by the other, and reduced.

A feature is a face (three corners or more, with a normal), a line (two corners) or a point. Coordinates are relative to
the centre of the first shape of the pair. Corners have tags that identify them within their shape. The corners that
remain after clipping are candidates; `choose_near` chooses a few of them that span the contact. A row of candidates
holds two coordinates in the plane of contact, the gap, and whether it was chosen.
"""

from __future__ import annotations

import math

import numpy as np

from limberjack._jit import inner, outlined
from limberjack.collision.broad import AT, SIZE
from limberjack.collision.convex import FAR, OVERLAP, SEPARATED, add_support, closest_points, overlap_depth, support
from limberjack.collision.narrow import MOST, put_point, to_shape, to_world
from limberjack.collision.shapes import BOX, CAPSULE, CYLINDER, HULL, SPHERE

__all__ = ["add_near", "choose_near", "convex_pair", "plane_pair"]

# Directions of the plane in which the outermost candidates are chosen: oblique, so that rectangles have no ties.
_TILT = 0.8
_HALF_ROOT = math.sqrt(0.5)
# A round face is represented by this many points of its rim.
_RIM_COUNT = 12
_RIM = np.array(
    [[math.cos(2 * math.pi * k / _RIM_COUNT), math.sin(2 * math.pi * k / _RIM_COUNT)] for k in range(_RIM_COUNT)]
)
# Cosine between normal and axis above which the feature of a cylinder is its face, and below which its side line.
_FACE, _LINE = 0.98, 0.2
# Cosine between the normal of a contact and that of a face above which they are the same.
_ALIGNED = 0.99999
# Cosine above which two lines are parallel.
_PARALLEL = 0.9998
_SLACK = 1e-3
# Part of the half width by which shapes are shrunk to find the normal of an overlap with a round side.
_SHRINK = 0.2
# Keys: the only contact, the first end of a line, the deepest point, corners, cuts of edges.
_SINGLE, _ENDS, _EXTRA, _CORNERS, _CUTS = 0, 1, 3, 16, 4096


@inner
def add_near(n, u, v, gap, key, near, near_keys):
    """Write candidate n: its coordinates in the plane of contact, gap and key; return n + 1."""
    if n >= len(near):
        return n
    near[n, 0], near[n, 1], near[n, 2], near[n, 3] = u, v, gap, 0.0
    near_keys[n] = key
    return n + 1


@inner
def _score(k, near, u, v, steep):
    return u * near[k, 0] + v * near[k, 1] - steep * near[k, 2]


@outlined
def choose_near(n, most, slack, steep, near):
    """Mark with 1 in the last column at most 4 or 8 of the n candidates, as `most` says; return the number marked.

    The outermost in as many directions that are fixed in the plane, so that a resting contact keeps its points, and the
    deepest where it is deeper than those by more than slack. A candidate counts as `steep` times its gap less far out:
    the outermost candidates of a round body have gaps.
    """
    if n <= most:
        for k in range(n):
            near[k, 3] = 1.0
        return n
    u, v, count, deepest_chosen = 1.0, _TILT, 0, 0
    for _ in range(most):
        best = 0
        for k in range(1, n):
            if _score(k, near, u, v, steep) > _score(best, near, u, v, steep) + 1e-9 * slack:
                best = k
        if near[best, 3] == 0.0:
            near[best, 3] = 1.0
            count += 1
        u, v = (-v, u) if most == 4 else (_HALF_ROOT * (u - v), _HALF_ROOT * (u + v))
    deepest = 0
    for k in range(n):
        if near[k, 2] < near[deepest, 2]:
            deepest = k
        if near[k, 3] == 1.0 and (near[deepest_chosen, 3] == 0.0 or near[k, 2] < near[deepest_chosen, 2]):
            deepest_chosen = k
    if near[deepest, 3] == 0.0 and near[deepest, 2] < near[deepest_chosen, 2] - slack:
        if count == most:
            nearest, least = 0, 1e300
            for k in range(n):
                if near[k, 3] == 1.0:
                    square = (near[k, 0] - near[deepest, 0]) ** 2 + (near[k, 1] - near[deepest, 1]) ** 2
                    if square < least:
                        nearest, least = k, square
            near[nearest, 3] = 0.0
            count -= 1
        near[deepest, 3] = 1.0
        count += 1
    return count


@inner
def _put_corner(slot, n, k, frame, ox, oy, oz, x, y, z, tag, polygons, tags):
    """Write corner n of a feature, given in shape k's axes; return n + 1."""
    wx, wy, wz = to_world(k, frame, x, y, z)
    polygons[slot, n, 0], polygons[slot, n, 1], polygons[slot, n, 2] = wx + ox, wy + oy, wz + oz
    tags[slot, n] = tag
    return n + 1


@inner
def _box_feature(slot, k, frame, ox, oy, oz, dx, dy, dz, polygons, tags):
    """Write the face of a box that faces most along (dx, dy, dz) of its own axes; return its corners and normal."""
    l = 0
    size = (abs(dx), abs(dy), abs(dz))
    if size[1] > size[0]:
        l = 1
    if size[2] > size[l]:
        l = 2
    d = (dx, dy, dz)
    side = 1.0 if d[l] > 0.0 else -1.0
    for corner in range(4):
        s = 1.0 if corner == 0 or corner == 3 else -1.0
        t = 1.0 if corner < 2 else -1.0
        if l == 0:
            x, y, z = side, s, t
        elif l == 1:
            x, y, z = t, side, s
        else:
            x, y, z = s, t, side
        tag = (1 if x > 0.0 else 0) + (2 if y > 0.0 else 0) + (4 if z > 0.0 else 0)
        _put_corner(
            slot, corner, k, frame, ox, oy, oz, x * frame[k, SIZE], y * frame[k, SIZE + 1], z * frame[k, SIZE + 2], tag,
            polygons, tags,
        )  # fmt: skip
    nx, ny, nz = side * frame[k, l], side * frame[k, 3 + l], side * frame[k, 6 + l]
    return 4, nx, ny, nz


@inner
def _cylinder_feature(slot, k, frame, ox, oy, oz, dx, dy, dz, polygons, tags):
    """Write the feature of a cylinder along (dx, dy, dz) of its own axes: its face, a side line or a rim point."""
    r, h = frame[k, SIZE], frame[k, SIZE + 1]
    side = 1.0 if dz > 0.0 else -1.0
    if abs(dz) > _FACE:
        for c in range(_RIM_COUNT):
            tag = c if side > 0.0 else c + _RIM_COUNT
            _put_corner(slot, c, k, frame, ox, oy, oz, r * _RIM[c, 0], r * _RIM[c, 1], side * h, tag, polygons, tags)
        return _RIM_COUNT, side * frame[k, 2], side * frame[k, 5], side * frame[k, 8]
    f = r / math.sqrt(dx * dx + dy * dy)
    if abs(dz) < _LINE:
        _put_corner(slot, 0, k, frame, ox, oy, oz, f * dx, f * dy, -h, 30, polygons, tags)
        _put_corner(slot, 1, k, frame, ox, oy, oz, f * dx, f * dy, h, 31, polygons, tags)
        return 2, 0.0, 0.0, 0.0
    _put_corner(slot, 0, k, frame, ox, oy, oz, f * dx, f * dy, side * h, 32, polygons, tags)
    return 1, 0.0, 0.0, 0.0


@inner
def _hull_feature(slot, k, mesh, frame, ox, oy, oz, dx, dy, dz, meshes, polygons, tags):
    """Write the face of a hull that faces most along (dx, dy, dz) of its own axes; return its corners and normal."""
    start, corner, normal, vertices = (
        meshes.polygon_start,
        meshes.polygon_corner,
        meshes.polygon_normal,
        meshes.vertices,
    )
    best, most = meshes.mesh_polygon[mesh], -2.0
    for p in range(meshes.mesh_polygon[mesh], meshes.mesh_polygon[mesh + 1]):
        along = dx * normal[p, 0] + dy * normal[p, 1] + dz * normal[p, 2]
        if along > most:
            best, most = p, along
    n = min(start[best + 1] - start[best], 24)
    for c in range(n):
        v = corner[start[best] + c]
        tag = v - meshes.mesh_vertex[mesh]
        _put_corner(slot, c, k, frame, ox, oy, oz, vertices[v, 0], vertices[v, 1], vertices[v, 2], tag, polygons, tags)
    nx, ny, nz = to_world(k, frame, normal[best, 0], normal[best, 1], normal[best, 2])
    return n, nx, ny, nz


@outlined
def _feature(
    # in
    slot, k, kind, mesh, frame, ox, oy, oz, x, y, z, meshes,
    # out
    polygons, tags,
):  # fmt: skip
    """Write the feature of shape k that faces along the world vector (x, y, z); return its corners and its normal.

    The shape's centre is at (ox, oy, oz). Lines and points have no normal.
    """
    dx, dy, dz = to_shape(k, frame, x, y, z)
    if kind == BOX:
        return _box_feature(slot, k, frame, ox, oy, oz, dx, dy, dz, polygons, tags)
    if kind == CYLINDER:
        return _cylinder_feature(slot, k, frame, ox, oy, oz, dx, dy, dz, polygons, tags)
    if kind == HULL:
        return _hull_feature(slot, k, mesh, frame, ox, oy, oz, dx, dy, dz, meshes, polygons, tags)
    if kind == CAPSULE:
        _put_corner(slot, 0, k, frame, ox, oy, oz, 0.0, 0.0, -frame[k, SIZE + 1], 0, polygons, tags)
        _put_corner(slot, 1, k, frame, ox, oy, oz, 0.0, 0.0, frame[k, SIZE + 1], 1, polygons, tags)
        return 2, 0.0, 0.0, 0.0
    _put_corner(slot, 0, k, frame, ox, oy, oz, 0.0, 0.0, 0.0, 0, polygons, tags)
    return 1, 0.0, 0.0, 0.0


@inner
def _radius(kind, k, frame):
    """Return the radius around a core."""
    return frame[k, SIZE] if kind == SPHERE or kind == CAPSULE else 0.0


@inner
def _side_plane(slot, n, e, nx, ny, nz, cx, cy, cz, polygons):
    """Return the plane (outward normal, height) through edge e of a face with centre c, perpendicular to the face."""
    f = (e + 1) % n
    px, py, pz = polygons[slot, e, 0], polygons[slot, e, 1], polygons[slot, e, 2]
    ex, ey, ez = polygons[slot, f, 0] - px, polygons[slot, f, 1] - py, polygons[slot, f, 2] - pz
    x, y, z = ey * nz - ez * ny, ez * nx - ex * nz, ex * ny - ey * nx
    length = math.sqrt(x * x + y * y + z * z)
    length = length if length > 0.0 else 1.0
    if x * (cx - px) + y * (cy - py) + z * (cz - pz) > 0.0:
        length = -length
    x, y, z = x / length, y / length, z / length
    return x, y, z, x * px + y * py + z * pz


@inner
def _height(slot, k, x, y, z, polygons):
    return x * polygons[slot, k, 0] + y * polygons[slot, k, 1] + z * polygons[slot, k, 2]


@inner
def _copy_corner(source, k, target, n, polygons, tags):
    if n < polygons.shape[1]:
        for c in range(3):
            polygons[target, n, c] = polygons[source, k, c]
        tags[target, n] = tags[source, k]
        return n + 1
    return n


@inner
def _cut(source, k, l, hk, hl, edge, target, n, polygons, tags):
    """Write the point where edge kl crosses the plane that k and l are hk and hl above."""
    if n >= polygons.shape[1]:
        return n
    t = hk / (hk - hl)
    for c in range(3):
        polygons[target, n, c] = polygons[source, k, c] + t * (polygons[source, l, c] - polygons[source, k, c])
    low, high = min(tags[source, k], tags[source, l]), max(tags[source, k], tags[source, l])
    tags[target, n] = _CUTS + (low * 911 + high * 8191 + edge * 131 + 7) % 1000003
    return n + 1


@outlined
def _clip(
    # in
    n, m, nx, ny, nz, slack,
    # out
    polygons, tags,
):  # fmt: skip
    """Clip the feature of m corners in slot 1 by the sides of the face of n corners in slot 0; return slot and size.

    The slot of the result is 1 or 2. The sides are moved out by slack.
    """
    cx = cy = cz = 0.0
    for k in range(n):
        cx, cy, cz = cx + polygons[0, k, 0], cy + polygons[0, k, 1], cz + polygons[0, k, 2]
    cx, cy, cz = cx / n, cy / n, cz / n
    source = 1
    for e in range(n):
        x, y, z, h = _side_plane(0, n, e, nx, ny, nz, cx, cy, cz, polygons)
        h += slack
        target, count = 3 - source, 0
        for k in range(m):
            hk = _height(source, k, x, y, z, polygons) - h
            if hk <= 0.0:
                count = _copy_corner(source, k, target, count, polygons, tags)
            if m == 2 and k == 1:
                continue  # a line has one edge
            l = (k + 1) % m
            hl = _height(source, l, x, y, z, polygons) - h
            if (hk <= 0.0) != (hl <= 0.0) and m > 1:
                count = _cut(source, k, l, hk, hl, e, target, count, polygons, tags)
        source, m = target, count
        if m == 0:
            break
    return source, m


@inner
def _tangent(k, frame, nx, ny, nz):
    """Return a unit vector perpendicular to n that moves with the axes of shape k."""
    c = 0 if abs(frame[k, 0] * nx + frame[k, 3] * ny + frame[k, 6] * nz) < 0.8 else 1
    x, y, z = frame[k, c], frame[k, 3 + c], frame[k, 6 + c]
    d = x * nx + y * ny + z * nz
    x, y, z = x - d * nx, y - d * ny, z - d * nz
    length = math.sqrt(x * x + y * y + z * z)
    return x / length, y / length, z / length


@outlined
def _put_plane(
    # in
    slot, m, owner, px, py, pz, nx, ny, nz, radius, limit, slack, ex, ey, ez, best, ox, oy, oz, sign, frame,
    polygons, tags,
    # out
    near, near_keys, points, keys,
):  # fmt: skip
    """Write contact points of the m corners in a slot over the plane through p with normal n; return their number.

    The corners have `radius` around them. e is the deepest point with its gap `best`, included where no corner is as
    deep. Points are moved by o into the world and their normal is sign n.
    """
    ux, uy, uz = _tangent(owner, frame, nx, ny, nz)
    vx, vy, vz = ny * uz - nz * uy, nz * ux - nx * uz, nx * uy - ny * ux
    n, least = 0, 1e300
    for k in range(m):
        x, y, z = polygons[slot, k, 0] - px, polygons[slot, k, 1] - py, polygons[slot, k, 2] - pz
        gap = nx * x + ny * y + nz * z - radius
        least = min(least, gap)
        if gap <= limit:
            n = add_near(
                n, ux * x + uy * y + uz * z, vx * x + vy * y + vz * z, gap, _CORNERS + tags[slot, k], near, near_keys
            )
    if best < least - 1e-3 * slack and best <= limit:
        x, y, z = ex - px, ey - py, ez - pz
        n = add_near(n, ux * x + uy * y + uz * z, vx * x + vy * y + vz * z, best, _EXTRA, near, near_keys)
    choose_near(n, MOST, slack, 0.0, near)
    count = 0
    for k in range(n):
        if near[k, 3] == 1.0:
            u, v, h = near[k, 0], near[k, 1], 0.5 * near[k, 2]
            count = put_point(
                count, ox + px + u * ux + v * vx + h * nx, oy + py + u * uy + v * vy + h * ny,
                oz + pz + u * uz + v * vz + h * nz, sign * nx, sign * ny, sign * nz, -near[k, 2], near_keys[k],
                points, keys,
            )  # fmt: skip
    return count


@outlined
def plane_pair(
    # in
    i, j, kind, mesh, limit, frame, meshes,
    # out
    scratch,
):  # fmt: skip
    """Write the contacts of convex shape i with plane j; return their number."""
    nx, ny, nz = frame[j, 2], frame[j, 5], frame[j, 8]
    ox, oy, oz = frame[i, AT], frame[i, AT + 1], frame[i, AT + 2]
    px, py, pz = frame[j, AT] - ox, frame[j, AT + 1] - oy, frame[j, AT + 2] - oz
    m, _, _, _ = _feature(1, i, kind, mesh, frame, 0.0, 0.0, 0.0, -nx, -ny, -nz, meshes, scratch.polygons, scratch.tags)
    radius = _radius(kind, i, frame)
    ex, ey, ez, best = 0.0, 0.0, 0.0, 1e300
    if kind == CYLINDER or kind == HULL:
        first, last = _range(meshes, mesh)
        ex, ey, ez = support(i, kind, 0.0, frame, -nx, -ny, -nz, meshes.vertices, first, last)
        best = nx * (ex - px) + ny * (ey - py) + nz * (ez - pz)
        slack = _SLACK * max(frame[i, SIZE], frame[i, SIZE + 1])
    else:
        slack = _SLACK * (frame[i, SIZE] + frame[i, SIZE + 1])
    return _put_plane(
        1, m, j, px, py, pz, nx, ny, nz, radius, limit, slack, ex, ey, ez, best, ox, oy, oz, 1.0, frame,
        scratch.polygons, scratch.tags, scratch.near, scratch.near_keys, scratch.points, scratch.keys,
    )  # fmt: skip


@inner
def _range(meshes, mesh):
    """Return the first and last vertex of a mesh; of none for other shapes."""
    if mesh < 0:
        return 0, 0
    return meshes.mesh_vertex[mesh], meshes.mesh_vertex[mesh + 1]


@outlined
def _line_pair(nx, ny, nz, gap, ri, ox, oy, oz, polygons, points, keys):
    """Write the two ends of the stretch where two parallel lines, in slots 0 and 1, lie side by side, or none."""
    ux, uy, uz = (
        polygons[0, 1, 0] - polygons[0, 0, 0],
        polygons[0, 1, 1] - polygons[0, 0, 1],
        polygons[0, 1, 2] - polygons[0, 0, 2],
    )
    vx, vy, vz = (
        polygons[1, 1, 0] - polygons[1, 0, 0],
        polygons[1, 1, 1] - polygons[1, 0, 1],
        polygons[1, 1, 2] - polygons[1, 0, 2],
    )
    u, v = math.sqrt(ux * ux + uy * uy + uz * uz), math.sqrt(vx * vx + vy * vy + vz * vz)
    if u <= 0.0 or v <= 0.0 or abs(ux * vx + uy * vy + uz * vz) < _PARALLEL * u * v:
        return 0
    ux, uy, uz = ux / u, uy / u, uz / u
    px, py, pz = polygons[0, 0, 0], polygons[0, 0, 1], polygons[0, 0, 2]
    a = ux * (polygons[1, 0, 0] - px) + uy * (polygons[1, 0, 1] - py) + uz * (polygons[1, 0, 2] - pz)
    b = ux * (polygons[1, 1, 0] - px) + uy * (polygons[1, 1, 1] - py) + uz * (polygons[1, 1, 2] - pz)
    low, high = max(0.0, min(a, b)), min(u, max(a, b))
    if high - low < _SLACK * min(u, v):
        return 0
    back = ri + 0.5 * gap
    px, py, pz = ox + px - back * nx, oy + py - back * ny, oz + pz - back * nz
    put_point(0, px + low * ux, py + low * uy, pz + low * uz, nx, ny, nz, -gap, _ENDS, points, keys)
    return put_point(1, px + high * ux, py + high * uy, pz + high * uz, nx, ny, nz, -gap, _ENDS + 1, points, keys)


@inner
def _along(i, j, kind_i, kind_j, frame, vertices, ranges, corners, result):
    """Replace the distance in `result` by that along its normal, and the points by two that are so far apart."""
    x, y, z = result[0], result[1], result[2]
    distance = -add_support(i, j, kind_i, kind_j, 0.0, frame, vertices, ranges, -x, -y, -z, 0, corners)
    result[3] = distance
    for c in range(3):
        middle, half = 0.5 * (result[4 + c] + result[7 + c]), 0.5 * distance * result[c]
        result[4 + c], result[7 + c] = middle + half, middle - half


@inner
def _nearest(i, j, kind_i, kind_j, limit, scale, frame, meshes, ranges, scratch):
    """Fill `result` with normal, distance and closest points of the cores; return whether they are within limit."""
    corners, result, vertices = scratch.corners, scratch.result, meshes.vertices
    status, n = closest_points(i, j, kind_i, kind_j, limit, scale, 0.0, frame, vertices, ranges, corners, result)
    if status == OVERLAP and (kind_i == CYLINDER or kind_j == CYLINDER):
        # Against round sides the polytope needs many facets. Where the overlap is not deep, shrunken shapes are apart:
        # they give the normal, and the shapes themselves the depth along it.
        shrink = _SHRINK * min(_thinness(i, kind_i, frame), _thinness(j, kind_j, frame))
        status, n = closest_points(i, j, kind_i, kind_j, limit, scale, shrink, frame, vertices, ranges, corners, result)
        both = shrink if kind_i < BOX or kind_j < BOX or kind_j == HULL else 2.0 * shrink
        between = result[3]
        if status == SEPARATED:
            _along(i, j, kind_i, kind_j, frame, vertices, ranges, corners, result)
        # Faces and round sides recede by exactly `shrink`; edges do not, and their normal may have turned.
        if status != SEPARATED or abs(between - result[3] - both) > 1e-7 * scale:
            status, n = closest_points(
                i, j, kind_i, kind_j, limit, scale, 0.0, frame, vertices, ranges, corners, result
            )
    if status == OVERLAP and not overlap_depth(
        i, j, kind_i, kind_j, n, scale, frame, vertices, ranges, corners, scratch.faces, scratch.planes, scratch.rim,
        result,
    ):  # fmt: skip
        # Two cores without volume in one plane: separated along the line between the centres.
        x, y, z = frame[i, AT] - frame[j, AT], frame[i, AT + 1] - frame[j, AT + 1], frame[i, AT + 2] - frame[j, AT + 2]
        length = math.sqrt(x * x + y * y + z * z)
        if length < 1e-12 * scale:
            x, y, z, length = 0.0, 0.0, 1.0, 1.0
        result[0], result[1], result[2], result[3] = x / length, y / length, z / length, 0.0
        for k in range(4, 10):
            result[k] = corners[0, k - 1]
    return status != FAR and result[3] <= limit


@inner
def _thinness(k, kind, frame):
    """Return the half width of a shape where it is thinnest."""
    if kind == CYLINDER:
        return min(frame[k, SIZE], frame[k, SIZE + 1])
    if kind == BOX:
        return min(frame[k, SIZE], frame[k, SIZE + 1], frame[k, SIZE + 2])
    return 1e300


@outlined
def convex_pair(
    # in
    i, j, kind_i, kind_j, mesh_i, mesh_j, limit, frame, meshes,
    # out
    scratch,
):  # fmt: skip
    """Write the contacts of two convex shapes; return their number."""
    first_i, last_i = _range(meshes, mesh_i)
    first_j, last_j = _range(meshes, mesh_j)
    ri, rj = _radius(kind_i, i, frame), _radius(kind_j, j, frame)
    size_i = frame[i, SIZE] + frame[i, SIZE + 1] + frame[i, SIZE + 2]
    size_j = frame[j, SIZE] + frame[j, SIZE + 1] + frame[j, SIZE + 2]
    ranges = (first_i, last_i, first_j, last_j)
    if not _nearest(i, j, kind_i, kind_j, limit + ri + rj, size_i + size_j, frame, meshes, ranges, scratch):
        return 0
    polygons, tags, r = scratch.polygons, scratch.tags, scratch.result
    nx, ny, nz, gap = r[0], r[1], r[2], r[3] - ri - rj
    slack = _SLACK * min(size_i, size_j)
    ox, oy, oz = frame[i, AT], frame[i, AT + 1], frame[i, AT + 2]
    dx, dy, dz = frame[j, AT] - ox, frame[j, AT + 1] - oy, frame[j, AT + 2] - oz
    m, fx, fy, fz = _feature(0, i, kind_i, mesh_i, frame, 0.0, 0.0, 0.0, -nx, -ny, -nz, meshes, polygons, tags)
    n, gx, gy, gz = _feature(1, j, kind_j, mesh_j, frame, dx, dy, dz, nx, ny, nz, meshes, polygons, tags)
    facing_i, facing_j = -(fx * nx + fy * ny + fz * nz), gx * nx + gy * ny + gz * nz
    count = 0
    if max(facing_i, facing_j) > _ALIGNED:
        # The closest point as found, for where it is deeper than any corner: on the shape that is not the reference.
        if facing_j > facing_i + 1e-7:
            _swap_features(max(m, n), polygons, tags)
            m, n = n, m
            slot, n = _clip(m, n, gx, gy, gz, slack, polygons, tags)
            count = _put_plane(
                slot, n, j, polygons[0, 0, 0], polygons[0, 0, 1], polygons[0, 0, 2], gx, gy, gz, ri, limit, slack,
                r[4], r[5], r[6], gap, ox, oy, oz, 1.0, frame, polygons, tags, scratch.near, scratch.near_keys,
                scratch.points, scratch.keys,
            )  # fmt: skip
        else:
            slot, n = _clip(m, n, fx, fy, fz, slack, polygons, tags)
            count = _put_plane(
                slot, n, i, polygons[0, 0, 0], polygons[0, 0, 1], polygons[0, 0, 2], fx, fy, fz, rj, limit, slack,
                r[7], r[8], r[9], gap, ox, oy, oz, -1.0, frame, polygons, tags, scratch.near, scratch.near_keys,
                scratch.points, scratch.keys,
            )  # fmt: skip
    elif m == 2 and n == 2:
        count = _line_pair(nx, ny, nz, gap, ri, ox, oy, oz, polygons, scratch.points, scratch.keys)
    if count > 0:
        return count
    back = 0.5 * (ri - rj)
    return put_point(
        0, ox + 0.5 * (r[4] + r[7]) - back * nx, oy + 0.5 * (r[5] + r[8]) - back * ny,
        oz + 0.5 * (r[6] + r[9]) - back * nz, nx, ny, nz, -gap, _SINGLE, scratch.points, scratch.keys,
    )  # fmt: skip


@inner
def _swap_features(n, polygons, tags):
    """Exchange the features in slots 0 and 1, of at most n corners."""
    for k in range(n):
        for c in range(3):
            polygons[0, k, c], polygons[1, k, c] = polygons[1, k, c], polygons[0, k, c]
        tags[0, k], tags[1, k] = tags[1, k], tags[0, k]
