"""Contacts of meshes that are not convex: features of each shape against the signed distance of the other.

1. Features are points and edges (see `surfaces.features_of`); points find contacts over faces, edges those across
   edges, at the lowest distance along them. Features stand in blocks, blocks in clusters, each with a bounding sphere:
   what lies in a sphere that is too far away is skipped, and of a block that is far away relative to its size only the
   nearest feature is visited.
2. Each contact of a feature is a candidate, a row of `found`: point, normal, gap, whether it belongs to a group yet.
   While a shape is scanned the points are those of the features in the axes of the other shape; `place_candidates`
   makes them points midway between the surfaces, in the world. Of close neighbours the deepest stays.
3. Deep overlaps: the surface of a thin body deep inside another is nearer to the far side of that than to the one it
   entered by, so that two crossing rods would be drawn through each other. Depenetration spheres inside each mesh
   (see `mesh_sdf.depenetration_spheres`) are on the entry side until half of both rods has passed. Where spheres are
   inside the other shape they decide the one direction out for the pair, since contacts that push different ways would
   hold the shapes together, and they replace the candidates of the surfaces around them.
4. Candidates are grouped by their normals, and a few contact points are chosen in each group.

Keys: 2 f + s, feature f of the first (s = 0) or second shape (s = 1); two contacts of one edge differ in the bits above
2^32; depenetration spheres start at 2^40.
"""

from __future__ import annotations

import math

from limberjack._jit import inner, outlined
from limberjack.collision.broad import AT, SIZE
from limberjack.collision.distance_fields import distance_from, least_distance
from limberjack.collision.manifolds import add_near, choose_near
from limberjack.collision.narrow import DEPTH, put_point, to_shape, to_world
from limberjack.collision.shapes import BOX, CAPSULE, CYLINDER, HULL, MESH, PLANE, SPHERE
from limberjack.spatial.vectors import rotate, rotate_back

__all__ = ["GAP", "GROUPED", "add_candidate", "depenetrate", "place_candidates", "mesh_pair", "reduce_candidates"]

# Columns of a candidate.
GAP, GROUPED = 6, 7
# Candidates among which neighbours are searched: features stand in the order of their blocks.
_LOOK = 12
# Groups of normals, the cosine of a group, and that of neighbours.
_GROUPS, _ALIKE, _SAME = 4, 0.9, 0.7
# Points of a group: with four, facets that support a curved surface would be left out, and it would rock for ever.
_MOST = 8
# Weight of a gap when the outermost candidates of a group are chosen. Parts of the radius of the smaller shape: gap
# from which one candidate of a group is enough, and weight of the difference between the normals of groups.
_STEEP, _WIDE, _SPREAD = 16.0, 0.25, 0.02
# Overlaps of less than this part of the smallest depenetration sphere are not deep.
_SHALLOW = 0.25
# A sphere is inside when its centre is outside by less than this part of its radius: by then surfaces are on the side
# they came from again.
_INSIDE = 0.5
# A sphere replaces the surfaces around it up to so many times its radius.
_AROUND = 2.0
# Where the directions out of all spheres add up to less than this part, the direction between the centres is added.
_UNDECIDED = 0.3
_SPHERE_KEY = 1 << 40
# Parts of the largest extent of a pair that are so small that one candidate stands for each.
_PARTS = 24.0
# A block is far away beyond so many times its radius, an edge beyond so many times its half length.
_FAR, _FAR_EDGE = 3.0, 4.0
# Parts of a block's radius: by which a feature may be higher than the lowest and still be chosen (see `choose_near`),
# and by which the curvature of a distance may bring it closer than its gradient says.
_OUTWEIGHED, _BENT = 0.16, 0.25
_GOLDEN = 0.6180339887498949
_MOST_SAMPLES = 32
_HALF_ROOT = math.sqrt(0.75)
_RIM_COSINES = (1.0, _HALF_ROOT, 0.5, 0.0, -0.5, -_HALF_ROOT, -1.0, -_HALF_ROOT, -0.5, 0.0, 0.5, _HALF_ROOT)


@outlined
def add_candidate(
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
def place_candidates(
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
def _group(seed, total, found, near, near_keys):
    """Fill `near` with all candidates with about the normal of the seed; return their number."""
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
    """Return the candidate that starts a new group, -1 = none is left: a deep one with a normal unlike the seeds'.

    A ball in a ring has contacts all around; the deepest alone might all be on one side.
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
def reduce_candidates(
    # in
    total, radius,
    # out
    found, found_keys, near, near_keys, points, keys,
):  # fmt: skip
    """Write at most eight contact points of each of a few groups of similar normals; return their number.

    `radius` is that of the smaller shape.
    """
    count, slack, beside, seeds = 0, 1e-5 * radius, 0.02 * radius, (-1, -1, -1)
    for _ in range(_GROUPS):
        seed = _next_seed(total, _SPREAD * radius, seeds, found)
        if seed < 0:
            break
        seeds = (seed, seeds[0], seeds[1])
        n = _group(seed, total, found, near, near_keys)
        wide = found[seed, GAP] > _WIDE * radius
        if not wide:
            choose_near(n, _MOST, slack, _STEEP, near)
        start = count
        for s in range(n):
            k, at = near_keys[s], count
            # Features of both shapes often give one point: the first stays, unless the other is deeper.
            new = k == seed if wide else near[s, 3] == 1.0
            for other in range(start, count):
                x, y, z = found[k, 0] - points[other, 0], found[k, 1] - points[other, 1], found[k, 2] - points[other, 2]
                if x * x + y * y + z * z <= beside * beside:
                    new, at = new and -found[k, GAP] > points[other, DEPTH] + slack, other
            if new:
                end = put_point(
                    at, found[k, 0], found[k, 1], found[k, 2], found[k, 3], found[k, 4], found[k, 5], -found[k, GAP],
                    found_keys[k], points, keys,
                )  # fmt: skip
                count = max(count, end)
    return count


@inner
def _smallest_sphere(kind, mesh, mesh_sphere, sphere):
    """Return the radius of the smallest depenetration sphere of a mesh; infinite for other shapes."""
    return sphere[mesh_sphere[mesh + 1] - 1, 3] if kind == MESH and mesh_sphere[mesh + 1] > mesh_sphere[mesh] else 1e300


@outlined
def _enter_spheres(
    # in
    n, i, j, kind_j, mesh_i, mesh_j, side, frame, meshes,
    # out
    found, found_keys,
):  # fmt: skip
    """Add the spheres of mesh i that are inside shape j, with their directions out; return the number of candidates."""
    sphere, first = meshes.sphere, meshes.mesh_sphere[mesh_i]
    sign = 1.0 if side == 0 else -1.0
    for c in range(first, meshes.mesh_sphere[mesh_i + 1]):
        x, y, z = to_world(i, frame, sphere[c, 0], sphere[c, 1], sphere[c, 2])
        x, y, z = x + frame[i, AT], y + frame[i, AT + 1], z + frame[i, AT + 2]
        lx, ly, lz = to_shape(j, frame, x - frame[j, AT], y - frame[j, AT + 1], z - frame[j, AT + 2])
        value, nx, ny, nz = distance_from(kind_j, j, mesh_j, lx, ly, lz, frame, meshes)
        if value < _INSIDE * sphere[c, 3] and n < len(found):
            nx, ny, nz = to_world(j, frame, sign * nx, sign * ny, sign * nz)
            found[n, 0], found[n, 1], found[n, 2] = x, y, z
            found[n, 3], found[n, 4], found[n, 5] = nx, ny, nz
            found[n, GAP], found[n, GROUPED] = value - sphere[c, 3], sphere[c, 3]
            found_keys[n] = _SPHERE_KEY + 2 * (c - first) + side
            n += 1
    return n


@inner
def _exit_direction(first, n, i, j, frame, found):
    """Return the unit direction out for all spheres first .. n: the mean of theirs, weighted by depth."""
    x = y = z = total = 0.0
    for k in range(first, n):
        x, y, z = x - found[k, GAP] * found[k, 3], y - found[k, GAP] * found[k, 4], z - found[k, GAP] * found[k, 5]
        total -= found[k, GAP]
    length = math.sqrt(x * x + y * y + z * z)
    if length < _UNDECIDED * total:
        dx, dy = frame[i, AT] - frame[j, AT], frame[i, AT + 1] - frame[j, AT + 1]
        dz = frame[i, AT + 2] - frame[j, AT + 2]
        f = math.sqrt(dx * dx + dy * dy + dz * dz)
        if f > 0.0:
            f = (_UNDECIDED * total - length) / f
            x, y, z = x + f * dx, y + f * dy, z + f * dz
        length = math.sqrt(x * x + y * y + z * z)
    if length <= 1e-9 * total:
        return 0.0, 0.0, 1.0
    return x / length, y / length, z / length


@inner
def _is_near(k, first, last, found):
    """Return whether a sphere replaces candidate k."""
    for c in range(first, last):
        x, y, z = found[k, 0] - found[c, 0], found[k, 1] - found[c, 1], found[k, 2] - found[c, 2]
        reach = _AROUND * found[c, GROUPED]
        if x * x + y * y + z * z < reach * reach:
            return True
    return False


@outlined
def depenetrate(
    # in
    n, i, j, kind_i, kind_j, mesh_i, mesh_j, frame, meshes,
    # out
    found, found_keys,
):  # fmt: skip
    """Replace surface candidates by depenetration spheres where shapes i and j overlap deeply; return the candidates.

    Args:
        n: candidates of the surfaces, in the world.
        i, j, kind_i, kind_j, mesh_i, mesh_j: the shapes; normals point out of j into i.
        frame, meshes: of all shapes.
        found, found_keys: the candidates.
    """
    least = 0.0
    for k in range(n):
        least = min(least, found[k, GAP])
    small = min(
        _smallest_sphere(kind_i, mesh_i, meshes.mesh_sphere, meshes.sphere),
        _smallest_sphere(kind_j, mesh_j, meshes.mesh_sphere, meshes.sphere),
    )
    deep = -_SHALLOW * small
    if least > deep:
        return n
    last = n
    if kind_i == MESH:
        last = _enter_spheres(last, i, j, kind_j, mesh_i, mesh_j, 0, frame, meshes, found, found_keys)
    if kind_j == MESH:
        last = _enter_spheres(last, j, i, kind_i, mesh_j, mesh_i, 1, frame, meshes, found, found_keys)
    if last == n:
        return n
    nx, ny, nz = _exit_direction(n, last, i, j, frame, found)
    for k in range(n):
        against = nx * found[k, 3] + ny * found[k, 4] + nz * found[k, 5] < 0.0
        if found[k, GAP] < 0.0 and ((against and found[k, GAP] < deep) or _is_near(k, n, last, found)):
            found[k, GROUPED] = 1.0
    for c in range(n, last):
        found[c, 3], found[c, 4], found[c, 5] = nx, ny, nz
        found[c, GROUPED] = 0.0
    return last


@outlined
def _on_edge(kind, j, mesh, x, y, z, ex, ey, ez, t, frame, meshes):
    """Return the distance at parameter t of an edge, -1 .. 1."""
    return least_distance(kind, j, mesh, x + t * ex, y + t * ey, z + t * ez, False, frame, meshes)


@outlined
def _enter(
    # in
    n, first, kind, j, mesh, x, y, z, ex, ey, ez, t, radius, limit, key, apart, frame, meshes,
    # out
    found, found_keys,
):  # fmt: skip
    """Add the contact at parameter t of an edge, if it is near enough and not at an end; return the candidates."""
    x, y, z = x + t * ex, y + t * ey, z + t * ez
    value, nx, ny, nz = distance_from(kind, j, mesh, x, y, z, frame, meshes)
    if abs(t) > 0.999 or value - radius > limit:
        return n
    # Perpendicular to the edge, along which no contact force acts and a grid blurs the gradient.
    along = (nx * ex + ny * ey + nz * ez) / (ex * ex + ey * ey + ez * ez)
    nx, ny, nz = nx - along * ex, ny - along * ey, nz - along * ez
    length = math.sqrt(nx * nx + ny * ny + nz * nz)
    if length > 0.1:
        n = add_candidate(
            n, first, x, y, z, nx / length, ny / length, nz / length, value - radius, key, apart, found, found_keys
        )
    return n


@inner
def _lowest(kind, j, mesh, x, y, z, ex, ey, ez, low, high, frame, meshes):
    """Return the parameter of the lowest distance on a part of an edge, by golden section search."""
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
    return 0.5 * (low + high)


@outlined
def _visit_edge(
    # in
    n, first, kind, j, mesh, x, y, z, ex, ey, ez, value, radius, limit, spacing, key, apart, frame, meshes,
    # out
    found, found_keys,
):  # fmt: skip
    """Add the local minima of the distance on an edge between its ends, which are features themselves.

    `value` is the distance in its middle. Returns the number of candidates.
    """
    half = math.sqrt(ex * ex + ey * ey + ez * ez)
    if 2.0 * half <= spacing:
        # Shorter than a cell: the parabola through its ends and its middle.
        before = _on_edge(kind, j, mesh, x, y, z, ex, ey, ez, -1.0, frame, meshes)
        after = _on_edge(kind, j, mesh, x, y, z, ex, ey, ez, 1.0, frame, meshes)
        bend = before - 2.0 * value + after
        if bend > 1e-3 * half and abs(before - after) < 1.8 * bend:
            n = _enter(
                n, first, kind, j, mesh, x, y, z, ex, ey, ez, 0.5 * (before - after) / bend, radius, limit, key, apart,
                frame, meshes, found, found_keys,
            )  # fmt: skip
        return n
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
            t = _lowest(kind, j, mesh, x, y, z, ex, ey, ez, low, high, frame, meshes)
            n = _enter(
                n, first, kind, j, mesh, x, y, z, ex, ey, ez, t, radius, limit, key + (s << 33), apart, frame,
                meshes, found, found_keys,
            )  # fmt: skip
        before, here = here, after
    return n


@inner
def _feature_count(kind):
    """Return how many features a primitive has."""
    if kind == SPHERE:
        return 1
    if kind == CAPSULE:
        return 3
    return 20 if kind == BOX else 27


@inner
def _primitive_feature(kind, f, sx, sy, sz, dx, dy):
    """Return feature f of a primitive: midpoint and half edge, in its own axes.

    Cylinders have twelve points of each rim, then those furthest along (dx, dy), and the line between them.
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
        # Multiples of thirty degrees.
        k = f % 12
        c, s = _RIM_COSINES[k], _RIM_COSINES[(k + 9) % 12]
        return sx * c, sx * s, (sy if f < 12 else -sy), 0.0, 0.0, 0.0
    if f == 26:
        return sx * dx, sx * dy, 0.0, 0.0, 0.0, sy
    return sx * dx, sx * dy, (sy if f == 24 else -sy), 0.0, 0.0, 0.0


@inner
def _rim(kind, j, mesh, ox, oy, oz, turn, frame, meshes):
    """Return the direction in which the rim of a cylinder with centre o comes closest: against the gradient there."""
    _, nx, ny, nz = distance_from(kind, j, mesh, ox, oy, oz, frame, meshes)
    u, v = turn[0] * nx + turn[3] * ny + turn[6] * nz, turn[1] * nx + turn[4] * ny + turn[7] * nz
    length = math.sqrt(u * u + v * v)
    if length <= 1e-6:
        return 1.0, 0.0
    return -u / length, -v / length


@inner
def _visit_feature(
    n, first, kind, j, mesh, ox, oy, oz, turn, point, radius, limit, spacing, key, apart, frame, meshes, found,
    found_keys,
):  # fmt: skip
    """Add the contacts of one feature of a shape at o with the rotation `turn`; return the number of candidates."""
    x, y, z = rotate(turn, point[0], point[1], point[2])
    x, y, z = ox + x, oy + y, oz + z
    if point[3] == 0.0 and point[4] == 0.0 and point[5] == 0.0:
        value, nx, ny, nz = distance_from(kind, j, mesh, x, y, z, frame, meshes)
        if value - radius <= limit:
            n = add_candidate(n, first, x, y, z, nx, ny, nz, value - radius, key, apart, found, found_keys)
        return n
    half = math.sqrt(point[3] * point[3] + point[4] * point[4] + point[5] * point[5])
    value = least_distance(kind, j, mesh, x, y, z, False, frame, meshes) - radius
    if value - half <= limit and value <= _FAR_EDGE * half:
        ex, ey, ez = rotate(turn, point[3], point[4], point[5])
        n = _visit_edge(
            n, first, kind, j, mesh, x, y, z, ex, ey, ez, value + radius, radius, limit, spacing, key, apart, frame,
            meshes, found, found_keys,
        )  # fmt: skip
    return n


@inner
def _height(row, f, ax, ay, az):
    """Return how high the lowest end of feature f is along a direction."""
    return ax * row[f, 0] + ay * row[f, 1] + az * row[f, 2] - abs(ax * row[f, 3] + ay * row[f, 4] + az * row[f, 5])


@inner
def _is_point(row, f):
    return row[f, 3] == 0.0 and row[f, 4] == 0.0 and row[f, 5] == 0.0


@inner
def _feature(row, f):
    return row[f, 0], row[f, 1], row[f, 2], row[f, 3], row[f, 4], row[f, 5]


@inner
def _visit_block(
    n, first, block, start, side, kind, j, mesh, ox, oy, oz, x, y, z, turn, limit, spacing, apart, frame,
    meshes, found, found_keys,
):  # fmt: skip
    """Add the contacts of the features of a block around (x, y, z); return the number of candidates.

    Their heights are estimated by the gradient at the centre. Those that are too far away, or that would not be chosen
    beside the lowest of the block, are skipped; of a block that is far away relative to its size all but the lowest, a
    point if it has any: an edge is as low as its lower end.
    """
    begin, end, size = meshes.block_feature[block], meshes.block_feature[block + 1], meshes.block_sphere[block, 3]
    value, nx, ny, nz = distance_from(kind, j, mesh, x, y, z, frame, meshes)
    ax, ay, az = rotate_back(turn, nx, ny, nz)
    row, least, point = meshes.feature, 1e300, 1e300
    for f in range(begin, end):
        height = _height(row, f, ax, ay, az)
        least = min(least, height)
        if _is_point(row, f):
            point = min(point, height)
    # The height of the centre is that of its distance; a plane's distance has no curvature.
    sphere = meshes.block_sphere
    most = ax * sphere[block, 0] + ay * sphere[block, 1] + az * sphere[block, 2] - value + limit
    if kind != PLANE:
        most += _BENT * size
    above = 0.0 if value > _FAR * size else _OUTWEIGHED * size
    pointed = above == 0.0 and point < 1e300
    most = min(most, point if pointed else least + above)
    for f in range(begin, end):
        if _height(row, f, ax, ay, az) <= most and (not pointed or _is_point(row, f)):
            n = _visit_feature(
                n, first, kind, j, mesh, ox, oy, oz, turn, _feature(row, f), 0.0, limit, spacing,
                2 * (f - start) + side, apart, frame, meshes, found, found_keys,
            )  # fmt: skip
            if above == 0.0:
                break
    return n


@inner
def _clear_of(spheres, b, kind, j, mesh, ox, oy, oz, turn, limit, rough, frame, meshes):
    """Return whether sphere b is further than limit from shape j, and its centre in the axes of j."""
    x, y, z = rotate(turn, spheres[b, 0], spheres[b, 1], spheres[b, 2])
    x, y, z = ox + x, oy + y, oz + z
    value = least_distance(kind, j, mesh, x, y, z, rough, frame, meshes)
    return value - spheres[b, 3] > limit, x, y, z


@outlined
def _scan(
    # in
    n, i, j, kind_i, kind_j, mesh_i, mesh_j, limit, sign, apart, frame, meshes,
    # out
    found, found_keys,
):  # fmt: skip
    """Add the contacts of all features of shape i with the distance of shape j; return the number of candidates."""
    ox, oy, oz = to_shape(
        j, frame, frame[i, AT] - frame[j, AT], frame[i, AT + 1] - frame[j, AT + 1], frame[i, AT + 2] - frame[j, AT + 2]
    )
    # The axes of i in those of j.
    ax, ay, az = to_shape(j, frame, frame[i, 0], frame[i, 3], frame[i, 6])
    bx, by, bz = to_shape(j, frame, frame[i, 1], frame[i, 4], frame[i, 7])
    cx, cy, cz = to_shape(j, frame, frame[i, 2], frame[i, 5], frame[i, 8])
    turn = (ax, bx, cx, ay, by, cy, az, bz, cz)
    spacing = meshes.grid_frame[mesh_j, 3] if kind_j == MESH else 1e300
    side, first = 0 if sign > 0.0 else 1, n
    if kind_i != HULL and kind_i != MESH:
        radius = frame[i, SIZE] if kind_i <= CAPSULE else 0.0
        dx, dy = 1.0, 0.0
        if kind_i == CYLINDER:
            dx, dy = _rim(kind_j, j, mesh_j, ox, oy, oz, turn, frame, meshes)
        for f in range(_feature_count(kind_i)):
            point = _primitive_feature(kind_i, f, frame[i, SIZE], frame[i, SIZE + 1], frame[i, SIZE + 2], dx, dy)
            n = _visit_feature(
                n, first, kind_j, j, mesh_j, ox, oy, oz, turn, point, radius, limit, spacing, 2 * f + side, apart,
                frame, meshes, found, found_keys,
            )  # fmt: skip
        place_candidates(first, n, j, radius, sign, frame, found)
        return n
    start = meshes.block_feature[meshes.cluster_block[meshes.mesh_cluster[mesh_i]]]
    for cluster in range(meshes.mesh_cluster[mesh_i], meshes.mesh_cluster[mesh_i + 1]):
        clear, _, _, _ = _clear_of(
            meshes.cluster_sphere, cluster, kind_j, j, mesh_j, ox, oy, oz, turn, limit, True, frame, meshes
        )
        if clear:
            continue
        for block in range(meshes.cluster_block[cluster], meshes.cluster_block[cluster + 1]):
            clear, x, y, z = _clear_of(
                meshes.block_sphere, block, kind_j, j, mesh_j, ox, oy, oz, turn, limit, False, frame, meshes
            )
            if not clear:
                n = _visit_block(
                    n, first, block, start, side, kind_j, j, mesh_j, ox, oy, oz, x, y, z, turn, limit,
                    spacing, apart, frame, meshes, found, found_keys,
                )  # fmt: skip
    place_candidates(first, n, j, 0.0, sign, frame, found)
    return n


@outlined
def mesh_pair(
    # in
    i, j, kind_i, kind_j, mesh_i, mesh_j, limit, radius, frame, meshes,
    # out
    scratch,
):  # fmt: skip
    """Write the contacts of two shapes of which one at least is a mesh that is not convex; return their number.

    `radius` is that of the smaller one. Planes have no features and endless reach: kind_j alone may be one.
    """
    found, found_keys, apart = scratch.found, scratch.found_keys, 2.0 * radius / _PARTS
    n = _scan(0, i, j, kind_i, kind_j, mesh_i, mesh_j, limit, 1.0, apart, frame, meshes, found, found_keys)
    if kind_j <= MESH:
        n = _scan(n, j, i, kind_j, kind_i, mesh_j, mesh_i, limit, -1.0, apart, frame, meshes, found, found_keys)
    if n == 0:
        return 0
    if kind_j <= MESH:
        n = depenetrate(n, i, j, kind_i, kind_j, mesh_i, mesh_j, frame, meshes, found, found_keys)
    return reduce_candidates(
        n, radius, found, found_keys, scratch.near, scratch.near_keys, scratch.points, scratch.keys
    )
