"""Continuous collision detection: fast bodies do not pass the contact planes of what they hit.

Contact rows are linear: a corner is kept from passing a plane, yet the body turns about it, at hundreds of radians per
second, until the rest of it has passed. So after a fast body has moved, its whole shape is compared with the plane of
each of its contacts. Where it would pass, both bodies make only the part of their motion up to contact and stop there
for the rest of the substep. Velocities are unchanged: momentum is conserved, and the new contact is solved in the next
substep.
"""

from __future__ import annotations

import math

from limberjack._jit import inner, outlined
from limberjack.collision.convex import local_support
from limberjack.collision.shapes import CAPSULE, HULL, MESH, PLANE, SPHERE
from limberjack.contact.bundles import BODIES, unpack_fast
from limberjack.contact.restitution import next_pair
from limberjack.contact.sweeps import JN, JT, LA, LB, RA, RB, N, S, set_effective_masses, update_contacts
from limberjack.methods.impulses.motion import turned, turned_freely
from limberjack.spatial.quaternions import quaternion_multiply, rotation_from_quaternion
from limberjack.spatial.threads import MARK, next_piece, pieces_of, share
from limberjack.spatial.vectors import cross, rotate, rotate_back

__all__ = ["ccd", "mark_fast", "update_ccd_contacts"]

# A shape may pass a plane by this much [m].
SLOP = 5e-4
# Bodies that move more than this part of their extent in a substep are fast; so are those that turn so far that a point
# leaves its tangent by SLOP, or by this much in the whole step, for which contacts were detected [m].
_WAY, _BENT = 0.25, 2e-3
TURNING, FAST = 1, 2
# The effective mass of a contact changes as a body turns, most for long and thin ones: by the square of the angle times
# the ratio of its moments of inertia. Relative changes up to this in a substep are neglected.
_MASS_CHANGE = 1.5e-3
# However near, a fast body may move this far in a substep [m]: it must not stand still for ever.
_LEAST = 2e-4
# The contact plane of a nonconvex mesh may cut its hull, as that of a peg in a ring: by more than this the hull is not
# compared with it [m].
_INSIDE = 5e-3
# Passes over the contacts, since a stopped body may be run into; bisections of a motion.
_PASSES, _HALVINGS = 4, 14


@outlined
def mark_fast(piece, before, bulk, u, pose):
    """Mark those of some bodies without joints that are fast or turning, and note the largest mark.

    The rotations of fast ones are stored. The length of a substep and how many there are stand in `team.value`.
    """
    h, substeps, most = bulk.team.value[0], bulk.team.value[1], 0
    nonconvex = min(SLOP, _BENT / (substeps * substeps))
    for i in range(BODIES * piece, min(BODIES * (piece + 1), len(bulk.mass))):
        bulk.fast[i] = 0
        bulk.part[i] = 1.0
        if bulk.asleep[i] or bulk.jointed[i] or bulk.led[i]:
            continue
        o, e = 6 * i, bulk.extent[i]
        wx, wy, wz = h * u[o], h * u[o + 1], h * u[o + 2]
        x, y, z = pose[i, 0] - before[i, 0], pose[i, 1] - before[i, 1], pose[i, 2] - before[i, 2]
        turn = wx * wx + wy * wy + wz * wz
        if turn * bulk.anisotropy[i] > _MASS_CHANGE:
            bulk.fast[i] = TURNING
        if 0.5 * e * turn > nonconvex or x * x + y * y + z * z > _WAY * _WAY * e * e:
            bulk.fast[i] = FAST
            bulk.turn[i, 0], bulk.turn[i, 1], bulk.turn[i, 2] = wx, wy, wz
        most = max(most, bulk.fast[i])
    bulk.team.found[piece] = most


@outlined
def _find_fast_bodies(h, substeps, before, bulk, u, pose):
    """Mark fast and turning bodies without joints; return the largest mark."""
    team, count, most = bulk.team, pieces_of(len(bulk.mass), BODIES), 0
    team.value[0], team.value[1] = h, substeps
    piece = share(MARK, 0, count, team)
    while piece >= 0:
        mark_fast(piece, before, bulk, u, pose)
        piece = next_piece(piece, 0, count, team)
    for k in range(count):
        most = max(most, int(team.found[k]))
    return most


@inner
def _pose_after(i, part, before, pose, bulk):
    """Return position and quaternion of body i after a part of its motion."""
    if part == 1.0:
        return pose[i, 0], pose[i, 1], pose[i, 2], pose[i, 3], pose[i, 4], pose[i, 5], pose[i, 6]
    x = before[i, 0] + part * (pose[i, 0] - before[i, 0])
    y = before[i, 1] + part * (pose[i, 1] - before[i, 1])
    z = before[i, 2] + part * (pose[i, 2] - before[i, 2])
    tx, ty, tz = part * bulk.turn[i, 0], part * bulk.turn[i, 1], part * bulk.turn[i, 2]
    if bulk.round[i]:
        a, b, c, d = turned(tx, ty, tz, before, i)
    else:
        a, b, c, d = turned_freely(i, tx, ty, tz, before, bulk)
    return x, y, z, a, b, c, d


@outlined
def _support_point(k, shapes, a, b, c, d, nx, ny, nz):
    """Return the point of shape k furthest along n from the com of its body, which is turned to (a, b, c, d)."""
    offset, kind = shapes.offset, shapes.kind[k]
    x, y, z = rotate(rotation_from_quaternion(a, b, c, d), offset[k, 0], offset[k, 1], offset[k, 2])
    a, b, c, d = quaternion_multiply((a, b, c, d), (offset[k, 3], offset[k, 4], offset[k, 5], offset[k, 6]))
    r = rotation_from_quaternion(a, b, c, d)
    lx, ly, lz = rotate_back(r, nx, ny, nz)
    first, last = 0, 0
    if kind == HULL or kind == MESH:
        m = shapes.mesh[k]
        first, last = shapes.meshes.mesh_vertex[m], shapes.meshes.mesh_vertex[m + 1]
    lx, ly, lz = local_support(
        kind, shapes.size[k, 0], shapes.size[k, 1], shapes.size[k, 2], lx, ly, lz, shapes.meshes.vertices, first, last
    )
    lx, ly, lz = rotate(r, lx, ly, lz)
    f = shapes.size[k, 0] if kind == SPHERE or kind == CAPSULE else 0.0
    return x + lx + f * nx, y + ly + f * ny, z + lz + f * nz


@outlined
def _separation(k, shape_a, shape_b, part_a, part_b, shapes, link, row, before, pose, bulk):
    """Return the separation of the shapes of contact k along its normal after parts of their motions."""
    a, b = link[k, 0], link[k, 1]
    nx, ny, nz = row[k, N], row[k, N + 1], row[k, N + 2]
    x, y, z, qw, qx, qy, qz = _pose_after(a, part_a, before, pose, bulk)
    lx, ly, lz = _support_point(shape_a, shapes, qw, qx, qy, qz, -nx, -ny, -nz)
    x, y, z = x + lx, y + ly, z + lz
    if b >= 0:
        bx, by, bz, qw, qx, qy, qz = _pose_after(b, part_b, before, pose, bulk)
        lx, ly, lz = _support_point(shape_b, shapes, qw, qx, qy, qz, nx, ny, nz)
        x, y, z = x - bx - lx, y - by - ly, z - bz - lz
    else:
        x, y, z = x - row[k, LB], y - row[k, LB + 1], z - row[k, LB + 2]
    return x * nx + y * ny + z * nz


@inner
def _com_height(k, part, link, row, before, pose):
    """Return the height of the com of body a above the plane of contact k, whose other body is static."""
    a, out = link[k, 0], 0.0
    for c in range(3):
        out += row[k, N + c] * (before[a, c] + part * (pose[a, c] - before[a, c]) - row[k, LB + c])
    return out


@inner
def _clear_of_plane(k, shape, shapes, link, row, pose):
    """Return whether the bounding sphere of the shape of body a is above the plane of contact k with a static body."""
    offset = shapes.offset
    far = shapes.radius[shape] + abs(offset[shape, 0]) + abs(offset[shape, 1]) + abs(offset[shape, 2])
    return link[k, 1] < 0 and _com_height(k, 1.0, link, row, pose, pose) > far


@outlined
def _shorten_motion(k, shape_a, shape_b, shapes, link, row, before, bulk, pose):
    """Shorten the motions of the bodies of contact k so that they end in contact; return whether that was needed."""
    a, b = link[k, 0], link[k, 1]
    if shapes.kind[shape_a] == PLANE or (b >= 0 and shapes.kind[shape_b] == PLANE):
        return False
    if _clear_of_plane(k, shape_a, shapes, link, row, pose) and bulk.part[a] == 1.0:
        return False
    part_a, part_b = bulk.part[a], bulk.part[b] if b >= 0 else 1.0
    start = _separation(k, shape_a, shape_b, 0.0, 0.0, shapes, link, row, before, pose, bulk)
    least, whole = min(-SLOP, start), True
    nonconvex = shapes.kind[shape_a] == MESH or (b >= 0 and shapes.kind[shape_b] == MESH)
    if nonconvex and start < min(row[k, S], 0.0) - _INSIDE:
        if b >= 0 or _com_height(k, 0.0, link, row, before, pose) <= 0.0:
            return False
        whole, least = False, 0.0
    low, high, f = 0.0, 1.0, 1.0
    for _ in range(_HALVINGS):
        fa = f * part_a if bulk.fast[a] == FAST else part_a
        fb = f * part_b if b >= 0 and bulk.fast[b] == FAST else part_b
        if whole:
            now = _separation(k, shape_a, shape_b, fa, fb, shapes, link, row, before, pose, bulk)
        else:
            now = _com_height(k, fa, link, row, before, pose)
        if now >= least:
            if f == 1.0:
                return False
            low = f
        else:
            high = f
        f = 0.5 * (low + high)
    if bulk.fast[a] == FAST:
        bulk.part[a] *= low
    if b >= 0 and bulk.fast[b] == FAST:
        bulk.part[b] *= low
    return True


@inner
def _motion_class(k, link, bulk):
    """Return the larger of the marks of the bodies of contact k."""
    return max(bulk.fast[link[k, 0]], bulk.fast[link[k, 1]] if link[k, 1] >= 0 else 0)


@inner
def _place_stopped(before, bulk, pose):
    """Set the poses of stopped bodies."""
    for i in range(len(bulk.mass)):
        if bulk.part[i] < 1.0:
            x, y, z = pose[i, 0] - before[i, 0], pose[i, 1] - before[i, 1], pose[i, 2] - before[i, 2]
            tx, ty, tz = bulk.turn[i, 0], bulk.turn[i, 1], bulk.turn[i, 2]
            way = math.sqrt(x * x + y * y + z * z) + bulk.extent[i] * math.sqrt(tx * tx + ty * ty + tz * tz)
            bulk.part[i] = min(max(bulk.part[i], _LEAST / way), 1.0)
            x, y, z, a, b, c, d = _pose_after(i, bulk.part[i], before, pose, bulk)
            pose[i, 0], pose[i, 1], pose[i, 2] = x, y, z
            pose[i, 3], pose[i, 4], pose[i, 5], pose[i, 6] = a, b, c, d


@inner
def _turn_missed(i, part, h, u, x, y, z, nx, ny, nz):
    """Return the displacement along n of the point with lever (x, y, z) of body i in the part of h it does not turn."""
    x, y, z = cross(u[6 * i], u[6 * i + 1], u[6 * i + 2], x, y, z)
    return (1.0 - part) * h * (x * nx + y * ny + z * nz)


@outlined
def ccd(last, h, substeps, before, shapes, contacts, order, sweeps, bulk, u, pose):
    """Stop fast bodies at the planes of contacts 0 .. last - 1; return whether any is fast or turning.

    Gaps are set so that `update_contacts` arrives at those of the stopped bodies, whose contacts are in no bundle.
    """
    link, row = sweeps.link, sweeps.row
    most = _find_fast_bodies(h, substeps, before, bulk, u, pose) if last > 0 else 0
    if most > 0:
        unpack_fast(last, link, bulk.fast, bulk.inverse, row, sweeps.bundles)
    if most < FAST:
        return most > 0
    stopped = False
    for _ in range(_PASSES):
        more = False
        for k in range(last):
            if _motion_class(k, link, bulk) == FAST:
                t = order[k]
                a, b = contacts.shape_a[t], contacts.shape_b[t]
                if _shorten_motion(k, a, b, shapes, link, row, before, bulk, pose):
                    more = True
        if not more:
            break
        stopped = True
    if stopped:
        _place_stopped(before, bulk, pose)
        for k in range(last):
            if _motion_class(k, link, bulk) == FAST:
                a, b = link[k, 0], link[k, 1]
                nx, ny, nz = row[k, N], row[k, N + 1], row[k, N + 2]
                x, y, z = row[k, RA], row[k, RA + 1], row[k, RA + 2]
                row[k, S] -= _turn_missed(a, bulk.part[a], h, u, x, y, z, nx, ny, nz)
                if b >= 0:
                    x, y, z = row[k, RB], row[k, RB + 1], row[k, RB + 2]
                    row[k, S] += _turn_missed(b, bulk.part[b], h, u, x, y, z, nx, ny, nz)
    return True


@inner
def _nearest_contact(begin, end, row):
    best = begin
    for k in range(begin + 1, end):
        if row[k, S] < row[best, S]:
            best = k
    return best


@inner
def _spin_changed(i, h, bulk, u):
    """Return whether the angular velocity of fast body i has changed since it moved."""
    if i < 0 or bulk.fast[i] != FAST:
        return False
    x, y, z = h * u[6 * i] - bulk.turn[i, 0], h * u[6 * i + 1] - bulk.turn[i, 1], h * u[6 * i + 2] - bulk.turn[i, 2]
    return bulk.extent[i] * bulk.extent[i] * (x * x + y * y + z * z) > SLOP * SLOP


@inner
def _clear_impulses(k, row):
    row[k, JN], row[k, JT], row[k, JT + 1], row[k, JT + 2] = 0.0, 0.0, 0.0, 0.0


@outlined
def _redetect_nearest(begin, end, shapes, contacts, order, link, bulk, pose, u, row):
    """Move the nearest contact of two bodies to their nearest points now; none acts before this gap is closed."""
    k = _nearest_contact(begin, end, row)
    t, a, b = order[k], link[k, 0], link[k, 1]
    i, j = contacts.shape_a[t], contacts.shape_b[t]
    if shapes.kind[i] == PLANE or (b >= 0 and shapes.kind[j] == PLANE):
        return
    s = _separation(k, i, j, 1.0, 1.0, shapes, link, row, pose, pose, bulk)
    nonconvex = shapes.kind[i] == MESH or (b >= 0 and shapes.kind[j] == MESH)
    if abs(s - row[k, S]) <= SLOP or (nonconvex and s < min(row[k, S], 0.0) - _INSIDE):
        return
    nx, ny, nz = row[k, N], row[k, N + 1], row[k, N + 2]
    x, y, z = _support_point(i, shapes, pose[a, 3], pose[a, 4], pose[a, 5], pose[a, 6], -nx, -ny, -nz)
    row[k, LA], row[k, LA + 1], row[k, LA + 2] = x, y, z
    x, y, z = x + pose[a, 0] - s * nx, y + pose[a, 1] - s * ny, z + pose[a, 2] - s * nz
    if b >= 0:
        x, y, z = x - pose[b, 0], y - pose[b, 1], z - pose[b, 2]
    row[k, LB], row[k, LB + 1], row[k, LB + 2], row[k, S] = x, y, z, s
    # its impulse belongs to another point
    _clear_impulses(k, row)
    update_contacts(k, k + 1, link, 0.0, pose, pose, u, row)
    for t in range(begin, end):
        if contacts.shape_a[order[t]] == i and contacts.shape_b[order[t]] == j:
            row[t, S] = max(row[t, S], s)


@outlined
def update_ccd_contacts(last, h, shapes, contacts, order, sweeps, bulk, pose, u):
    """Update the contacts of fast and turning bodies after these have moved: effective masses and points.

    Masses of the pose before would let impulses grow from sweep to sweep; impulses taken back from a body whose spin
    has changed since would add energy.
    """
    link, row, begin = sweeps.link, sweeps.row, 0
    while begin < last:
        end = next_pair(begin, last, link)
        speed = _motion_class(begin, link, bulk)
        if speed == FAST:
            if _spin_changed(link[begin, 0], h, bulk, u) or _spin_changed(link[begin, 1], h, bulk, u):
                for k in range(begin, end):
                    _clear_impulses(k, row)
            _redetect_nearest(begin, end, shapes, contacts, order, link, bulk, pose, u, row)
        if speed > 0:
            set_effective_masses(begin, end, link, bulk.inverse, row)
        begin = end
