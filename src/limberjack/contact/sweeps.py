"""Contacts by projected Gauss-Seidel: accumulated impulses, a circular friction cone, soft or hard contacts.

A contact acts on body a along n, out of body b, with j_n >= 0, and across n with a vector |j_t| <= mu j_n:

    u = v_a + w_a x r_a - v_b - w_b x r_b,      K = sum (1/m + [r]^T I^-1 [r])
    j_n <- max(0, j_n - scale (u.n + bias) / n.K n - give j_n)
    j_t <- j_t - K_t^-1 u_t where that sticks, else clamp(j_t - u_t / k), k the larger eigenvalue of K across n

j_t is a vector in the world rather than a pair of numbers, and one k serves all directions of sliding: friction then is
opposite to sliding whatever the shape of the bodies. Impulses start from those of the last step. A gap s > 0 lets the
contact act no sooner than it closes (bias s / h); an overlap is removed at `rate`, hard, or as by a spring and damper
(scale, give), soft, whose velocity a final sweep without bias takes out again.

Shock propagation (Guendelman, Bridson, Fedkiw 2003; Weinstein, Teran, Fedkiw 2006, section VI): level by level from the
ground up, the lower body of each contact has infinite mass. Here the impulses withheld from the lower bodies are
applied afterwards, level by level from the top, so that momentum is conserved and the impulses of all levels are
consistent when the next step starts from them.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from limberjack._jit import inner, outlined
from limberjack.spatial.lanes import prefetch
from limberjack.spatial.vectors import cross, symmetric_times

__all__ = [
    "APPROACH", "DEEP_RATE", "DEFERRED", "DEPENETRATION", "DEPENETRATION_MOST", "E", "ENOUGH", "FAR", "JN", "JT",
    "KN", "LA", "LB", "MN", "MT", "MU", "N", "RA", "RB", "ROW", "S", "SEPARATION", "STEP_N", "STEP_T", "STICK",
    "Sweeps", "across", "add_step_impulse", "add_step_impulses", "apply_impulse", "clamp_length", "from_com",
    "new_sweeps", "overlap_bias", "point_velocity", "prefetch_row", "project", "relative_velocity",
    "set_contact_rows", "set_effective_masses", "set_links", "set_masses", "shock_propagation", "sweep",
    "update_contacts", "warm_start",
]  # fmt: skip

# Columns of a contact's row: normal, levers, K n, 1 / n.K n, 1 / k, friction, gap, impulses, the inverse of K
# across n (xx, yy, zz, xy, xz, yz), restitution, acceleration of the approach, impulses of the whole step, the
# contact points relative to the coms at detection, impulses deferred for the lower body, and the separation velocity.
N, RA, RB, KN, MN, MT, MU, S, JN, JT, STICK, E, APPROACH, STEP_N, STEP_T, LA, LB, DEFERRED, SEPARATION, ROW = (
    0, 3, 6, 9, 12, 13, 14, 15, 16, 17, 20, 26, 27, 28, 29, 32, 35, 38, 41, 42,
)  # fmt: skip
# Depenetration: the rate of deep overlaps, the velocity of shallow ones, and the largest velocity [1/s, m/s, m/s].
DEEP_RATE, DEPENETRATION, DEPENETRATION_MOST = 10.0, 0.05, 0.5
# Contacts farther apart than twice this act on each body at its own surface [m].
FAR = 0.02
# Sweeps stop when no contact changes a velocity by more than this [m/s].
ENOUGH = 1e-9
# Rows are prefetched so many contacts ahead: those of large piles do not stay in the cache from sweep to sweep.
_AHEAD = 8


class Sweeps(NamedTuple):
    """Rows of contacts in the order of the sweeps; room for c."""

    link: np.ndarray  # (c, 2) bodies a and b, -1 = static
    level: np.ndarray  # (c,) of the higher body
    row: np.ndarray  # (c, ROW)
    restitution_count: np.ndarray  # (1,) how many have restitution
    bundles: Any  # `bundles.Bundles`: those that are solved four at a time


def new_sweeps(capacity: int, bundles: Any) -> Sweeps:
    """Return room for `capacity` contacts; the bundles have as much."""
    link, level = np.zeros((capacity, 2), np.int64), np.zeros(capacity, np.int64)
    return Sweeps(link, level, np.zeros((capacity, ROW)), np.zeros(1, np.int64), bundles)


@inner
def from_com(pose, i, x, y, z):
    """Return the point (x, y, z) of the world relative to the com of body i; itself for the ground."""
    if i < 0:
        return x, y, z
    return x - pose[i, 0], y - pose[i, 1], z - pose[i, 2]


@outlined
def set_links(count, contacts, graph, sweeps):
    """Fill bodies and levels of all contacts in the order of the sweeps; none has a row yet."""
    sweeps.restitution_count[0] = 0
    for t in range(count):
        k = graph.order[t]
        a, b = contacts.link_a[k], contacts.link_b[k]
        sweeps.link[t, 0], sweeps.link[t, 1] = a, b
        sweeps.level[t] = graph.level[a] if b < 0 else max(graph.level[a], graph.level[b])


@outlined
def set_contact_rows(first, last, contacts, graph, cache, gravity, led, pose, sweeps):
    """Fill the rows of contacts first .. last - 1 in the order of the sweeps, but for masses and levers."""
    row = sweeps.row
    for t in range(first, last):
        k = graph.order[t]
        a, b = sweeps.link[t, 0], sweeps.link[t, 1]
        low = min(graph.level[a], graph.level[b]) if b >= 0 else 0
        nx, ny, nz = contacts.normal[k, 0], contacts.normal[k, 1], contacts.normal[k, 2]
        half = -0.5 * contacts.depth[k]
        x, y, z = contacts.point[k, 0], contacts.point[k, 1], contacts.point[k, 2]
        row[t, N], row[t, N + 1], row[t, N + 2] = nx, ny, nz
        row[t, LA], row[t, LA + 1], row[t, LA + 2] = from_com(pose, a, x + half * nx, y + half * ny, z + half * nz)
        row[t, LB], row[t, LB + 1], row[t, LB + 2] = from_com(pose, b, x - half * nx, y - half * ny, z - half * nz)
        row[t, S], row[t, MU], row[t, E] = 2.0 * half, contacts.friction[k], contacts.restitution[k]
        if row[t, E] > 0.0:
            sweeps.restitution_count[0] += 1
        row[t, JN] = cache.found[k, 0]
        row[t, JT], row[t, JT + 1], row[t, JT + 2] = cache.found[k, 1], cache.found[k, 2], cache.found[k, 3]
        row[t, STEP_N], row[t, STEP_T], row[t, STEP_T + 1], row[t, STEP_T + 2] = 0.0, 0.0, 0.0, 0.0
        # two falling bodies approach each other without acceleration
        pull = -(gravity[0] * nx + gravity[1] * ny + gravity[2] * nz)
        grounded = b < 0 or led[a] != 0 or led[b] != 0
        row[t, APPROACH] = max(pull, 0.0) if sweeps.level[t] > low + 1 or grounded else 0.0


@inner
def prefetch_row(k, last, row):
    """Prefetch the row of a contact some rows after k, if there is one; changes no result."""
    t = k + _AHEAD
    if t < last:
        prefetch(row, t, 0)
        prefetch(row, t, 8)
        prefetch(row, t, 16)
        prefetch(row, t, 24)
        prefetch(row, t, 32)


@inner
def point_velocity(u, i, x, y, z):
    """Return the velocity of the point with lever (x, y, z) of body i."""
    o = 6 * i
    wx, wy, wz = u[o], u[o + 1], u[o + 2]
    return u[o + 3] + wy * z - wz * y, u[o + 4] + wz * x - wx * z, u[o + 5] + wx * y - wy * x


@inner
def _inverse(inertia, i):
    return (inertia[i, 0], inertia[i, 1], inertia[i, 2], inertia[i, 3], inertia[i, 4], inertia[i, 5])


@inner
def apply_impulse(u, i, inverse, x, y, z, px, py, pz):
    """Apply the impulse p to body i with lever (x, y, z)."""
    o, f = 6 * i, inverse[i, 6]
    # Weinstein et al. 2006, equation (2): v + p / m, w + I^-1 (r x p)
    ax, ay, az = symmetric_times(_inverse(inverse, i), y * pz - z * py, z * px - x * pz, x * py - y * px)
    u[o] += ax
    u[o + 1] += ay
    u[o + 2] += az
    u[o + 3] += f * px
    u[o + 4] += f * py
    u[o + 5] += f * pz


@inner
def _response(inverse, i, x, y, z, px, py, pz):
    """Return the velocity that the impulse p at the point with lever (x, y, z) of body i gives to this point."""
    f = inverse[i, 6]
    ax, ay, az = symmetric_times(_inverse(inverse, i), y * pz - z * py, z * px - x * pz, x * py - y * px)
    return f * px + ay * z - az * y, f * py + az * x - ax * z, f * pz + ax * y - ay * x


@inner
def _pair_response(link, inverse, row, k, px, py, pz):
    """Return K p of contact k."""
    a, b = link[k, 0], link[k, 1]
    x, y, z = _response(inverse, a, row[k, RA], row[k, RA + 1], row[k, RA + 2], px, py, pz)
    if b >= 0:
        bx, by, bz = _response(inverse, b, row[k, RB], row[k, RB + 1], row[k, RB + 2], px, py, pz)
        x, y, z = x + bx, y + by, z + bz
    return x, y, z


@outlined
def update_contacts(
    # in
    first, last, link, h, before, pose, u,
    # out
    row,
):  # fmt: skip
    """Fill levers and gaps of contacts first .. last - 1 after bodies moved from the poses before by h u.

    Levers do not turn with the bodies: the contact of a rolling ball stays at its lowest point. Contacts with small
    gaps act on both bodies at one point, which conserves angular momentum.
    """
    for k in range(first, last):
        prefetch_row(k, last, row)
        a, b = link[k, 0], link[k, 1]
        nx, ny, nz = row[k, N], row[k, N + 1], row[k, N + 2]
        wx, wy, wz = cross(u[6 * a], u[6 * a + 1], u[6 * a + 2], row[k, RA], row[k, RA + 1], row[k, RA + 2])
        x = pose[a, 0] - before[a, 0] + h * wx
        y = pose[a, 1] - before[a, 1] + h * wy
        z = pose[a, 2] - before[a, 2] + h * wz
        dx, dy, dz = 0.0, 0.0, 0.0
        if b >= 0:
            wx, wy, wz = cross(u[6 * b], u[6 * b + 1], u[6 * b + 2], row[k, RB], row[k, RB + 1], row[k, RB + 2])
            x -= pose[b, 0] - before[b, 0] + h * wx
            y -= pose[b, 1] - before[b, 1] + h * wy
            z -= pose[b, 2] - before[b, 2] + h * wz
            dx = 0.5 * (pose[a, 0] + row[k, LA] - pose[b, 0] - row[k, LB])
            dy = 0.5 * (pose[a, 1] + row[k, LA + 1] - pose[b, 1] - row[k, LB + 1])
            dz = 0.5 * (pose[a, 2] + row[k, LA + 2] - pose[b, 2] - row[k, LB + 2])
            if dx * dx + dy * dy + dz * dz > FAR * FAR:
                dx, dy, dz = 0.0, 0.0, 0.0
        row[k, S] += x * nx + y * ny + z * nz
        row[k, RA], row[k, RA + 1], row[k, RA + 2] = row[k, LA] - dx, row[k, LA + 1] - dy, row[k, LA + 2] - dz
        row[k, RB], row[k, RB + 1], row[k, RB + 2] = row[k, LB] + dx, row[k, LB + 1] + dy, row[k, LB + 2] + dz


@inner
def across(nx, ny, nz):
    """Return two unit vectors across n, and across each other."""
    if abs(nx) > 0.6:
        f = 1.0 / math.sqrt(nx * nx + nz * nz)
        s = (-f * nz, 0.0, f * nx)
    else:
        f = 1.0 / math.sqrt(ny * ny + nz * nz)
        s = (0.0, f * nz, -f * ny)
    return s, cross(nx, ny, nz, s[0], s[1], s[2])


@inner
def set_masses(row, k, s, t, kn, ks, kt):
    """Fill the effective masses of contact k from K n, K s and K t, with s and t across n."""
    sx, sy, sz = s
    tx, ty, tz = t
    row[k, KN], row[k, KN + 1], row[k, KN + 2] = kn
    row[k, MN] = 1.0 / (kn[0] * row[k, N] + kn[1] * row[k, N + 1] + kn[2] * row[k, N + 2])
    ss, st = ks[0] * sx + ks[1] * sy + ks[2] * sz, ks[0] * tx + ks[1] * ty + ks[2] * tz
    tt = kt[0] * tx + kt[1] * ty + kt[2] * tz
    half = 0.5 * (ss - tt)
    row[k, MT] = 1.0 / (0.5 * (ss + tt) + math.sqrt(half * half + st * st))
    f = 1.0 / (ss * tt - st * st)
    ss, tt, st = f * tt, f * ss, -f * st
    row[k, STICK] = ss * sx * sx + tt * tx * tx + 2.0 * st * sx * tx
    row[k, STICK + 1] = ss * sy * sy + tt * ty * ty + 2.0 * st * sy * ty
    row[k, STICK + 2] = ss * sz * sz + tt * tz * tz + 2.0 * st * sz * tz
    row[k, STICK + 3] = ss * sx * sy + tt * tx * ty + st * (sx * ty + sy * tx)
    row[k, STICK + 4] = ss * sx * sz + tt * tx * tz + st * (sx * tz + sz * tx)
    row[k, STICK + 5] = ss * sy * sz + tt * ty * tz + st * (sy * tz + sz * ty)


@outlined
def set_effective_masses(
    # in
    first, last, link, inverse,
    # out
    row,
):  # fmt: skip
    """Fill the effective masses of contacts first .. last - 1: K n, 1 / n.K n, 1 / k and the inverse of K across n."""
    for k in range(first, last):
        nx, ny, nz = row[k, N], row[k, N + 1], row[k, N + 2]
        kn = _pair_response(link, inverse, row, k, nx, ny, nz)
        s, t = across(nx, ny, nz)
        ks = _pair_response(link, inverse, row, k, s[0], s[1], s[2])
        kt = _pair_response(link, inverse, row, k, t[0], t[1], t[2])
        set_masses(row, k, s, t, kn, ks, kt)


@outlined
def warm_start(
    # in
    first, last, link, inverse,
    # out
    row, u,
):  # fmt: skip
    """Apply the impulses of the last step to the velocities, tangential ones turned with the normals."""
    for k in range(first, last):
        prefetch_row(k, last, row)
        jn = row[k, JN]
        if jn <= 0.0:
            row[k, JT], row[k, JT + 1], row[k, JT + 2] = 0.0, 0.0, 0.0
            continue
        nx, ny, nz = row[k, N], row[k, N + 1], row[k, N + 2]
        x, y, z = row[k, JT], row[k, JT + 1], row[k, JT + 2]
        along = x * nx + y * ny + z * nz
        x, y, z = x - along * nx, y - along * ny, z - along * nz
        row[k, JT], row[k, JT + 1], row[k, JT + 2] = x, y, z
        x, y, z = x + jn * nx, y + jn * ny, z + jn * nz
        a, b = link[k, 0], link[k, 1]
        apply_impulse(u, a, inverse, row[k, RA], row[k, RA + 1], row[k, RA + 2], x, y, z)
        if b >= 0:
            apply_impulse(u, b, inverse, row[k, RB], row[k, RB + 1], row[k, RB + 2], -x, -y, -z)


@inner
def relative_velocity(link, row, k, u):
    """Return the velocity of a relative to b at contact k."""
    a, b = link[k, 0], link[k, 1]
    x, y, z = point_velocity(u, a, row[k, RA], row[k, RA + 1], row[k, RA + 2])
    if b >= 0:
        bx, by, bz = point_velocity(u, b, row[k, RB], row[k, RB + 1], row[k, RB + 2])
        x, y, z = x - bx, y - by, z - bz
    return x, y, z


@inner
def clamp_length(x, y, z, most):
    """Return the vector, no longer than `most`."""
    square = x * x + y * y + z * z
    if square > most * most:
        f = most / math.sqrt(square)
        return f * x, f * y, f * z
    return x, y, z


@inner
def overlap_bias(s, h, rate, slow):
    """Return the velocity bias of a contact: a gap s that may close, or an overlap to be removed."""
    return s / h if s > 0.0 else max(rate * s, min(max(DEEP_RATE * s, -DEPENETRATION_MOST), -slow))


@inner
def project(row, k, ux, uy, uz, kx, ky, kz, mn, h, rate, slow, scale, give):
    """Do one projected Gauss-Seidel update of contact k at the velocity u; return the change of its impulse."""
    nx, ny, nz = row[k, N], row[k, N + 1], row[k, N + 2]
    un = ux * nx + uy * ny + uz * nz
    s, before = row[k, S], row[k, JN]
    un += overlap_bias(s, h, rate, slow)
    after = before - mn * un if s > 0.0 else before - mn * scale * un - give * before
    after = max(after, 0.0)
    d = after - before
    row[k, JN] = after
    x, y, z = row[k, JT], row[k, JT + 1], row[k, JT + 2]
    most = row[k, MU] * after
    if most == 0.0 and x == 0.0 and y == 0.0 and z == 0.0:
        return d * nx, d * ny, d * nz
    ux, uy, uz = ux + d * kx, uy + d * ky, uz + d * kz
    own = (
        row[k, STICK], row[k, STICK + 1], row[k, STICK + 2], row[k, STICK + 3], row[k, STICK + 4], row[k, STICK + 5],
    )  # fmt: skip
    tx, ty, tz = symmetric_times(own, ux, uy, uz)
    tx, ty, tz = x - tx, y - ty, z - tz
    if tx * tx + ty * ty + tz * tz > most * most:
        un = ux * nx + uy * ny + uz * nz
        mt = row[k, MT]
        tx, ty, tz = clamp_length(x - mt * (ux - un * nx), y - mt * (uy - un * ny), z - mt * (uz - un * nz), most)
    row[k, JT], row[k, JT + 1], row[k, JT + 2] = tx, ty, tz
    return d * nx + tx - x, d * ny + ty - y, d * nz + tz - z


@outlined
def sweep(
    # in
    first, last, times, link, inverse, h, rate, slow, scale, give,
    # out
    row, u,
):  # fmt: skip
    """Sweep contacts first .. last - 1 in order, `times` times or until no velocity changes any more.

    Overlaps are removed at `rate`, but no faster than `slow` unless they are deep. With rate 0 contacts without an
    impulse are left out: a gap that closes in the next step is left to that step.
    """
    for _ in range(times):
        most = 0.0
        for k in range(first, last):
            prefetch_row(k, last, row)
            if rate == 0.0 and row[k, JN] == 0.0 and row[k, S] > 0.0:
                continue
            ux, uy, uz = relative_velocity(link, row, k, u)
            x, y, z = project(
                row, k, ux, uy, uz, row[k, KN], row[k, KN + 1], row[k, KN + 2], row[k, MN], h, rate, slow, scale, give
            )
            if x != 0.0 or y != 0.0 or z != 0.0:
                a, b = link[k, 0], link[k, 1]
                apply_impulse(u, a, inverse, row[k, RA], row[k, RA + 1], row[k, RA + 2], x, y, z)
                if b >= 0:
                    apply_impulse(u, b, inverse, row[k, RB], row[k, RB + 1], row[k, RB + 2], -x, -y, -z)
                most = max(most, (abs(x) + abs(y) + abs(z)) / row[k, MN])
        if most < ENOUGH:
            break


@outlined
def _shock_level(begin, end, times, link, inverse, height, h, rate, row, u):
    """Sweep the contacts of one level; the lower body of each has infinite mass, its impulse is deferred."""
    for _ in range(times):
        most = 0.0
        for k in range(begin, end):
            a, b = link[k, 0], link[k, 1]
            moves_a = b < 0 or height[a] >= height[b]
            moves_b = b >= 0 and height[b] >= height[a]
            nx, ny, nz = row[k, N], row[k, N + 1], row[k, N + 2]
            kx, ky, kz = 0.0, 0.0, 0.0
            if moves_a:
                kx, ky, kz = _response(inverse, a, row[k, RA], row[k, RA + 1], row[k, RA + 2], nx, ny, nz)
            if moves_b:
                x, y, z = _response(inverse, b, row[k, RB], row[k, RB + 1], row[k, RB + 2], nx, ny, nz)
                kx, ky, kz = kx + x, ky + y, kz + z
            mn = 1.0 / (kx * nx + ky * ny + kz * nz)
            ux, uy, uz = relative_velocity(link, row, k, u)
            x, y, z = project(row, k, ux, uy, uz, kx, ky, kz, mn, h, rate, DEPENETRATION, 1.0, 0.0)
            if moves_a:
                apply_impulse(u, a, inverse, row[k, RA], row[k, RA + 1], row[k, RA + 2], x, y, z)
            if moves_b:
                apply_impulse(u, b, inverse, row[k, RB], row[k, RB + 1], row[k, RB + 2], -x, -y, -z)
            if not (moves_a and (moves_b or b < 0)):
                row[k, DEFERRED] += x
                row[k, DEFERRED + 1] += y
                row[k, DEFERRED + 2] += z
            most = max(most, (abs(x) + abs(y) + abs(z)) / mn)
        if most < ENOUGH:
            break


@inner
def _apply_deferred(begin, end, link, inverse, height, row, u):
    """Apply the deferred impulses to the lower bodies of one level."""
    for k in range(begin, end):
        a, b = link[k, 0], link[k, 1]
        x, y, z = row[k, DEFERRED], row[k, DEFERRED + 1], row[k, DEFERRED + 2]
        if b >= 0 and (x != 0.0 or y != 0.0 or z != 0.0):
            if height[a] < height[b]:
                apply_impulse(u, a, inverse, row[k, RA], row[k, RA + 1], row[k, RA + 2], x, y, z)
            else:
                apply_impulse(u, b, inverse, row[k, RB], row[k, RB + 1], row[k, RB + 2], -x, -y, -z)
        row[k, DEFERRED], row[k, DEFERRED + 1], row[k, DEFERRED + 2] = 0.0, 0.0, 0.0


@outlined
def shock_propagation(
    # in
    first, last, times, link, level, inverse, height, h, rate,
    # out
    row, u,
):  # fmt: skip
    """Sweep contacts first .. last - 1 level by level, upwards, then downwards with the deferred impulses applied.

    Args:
        first, last: contacts, sorted by level.
        times: most sweeps per level and direction.
        link, level: of the contacts.
        inverse: (n, 7) inverse inertias and masses of the bodies.
        height: (n,) level of each body; of two bodies on one level both move.
        h: step [s].
        rate: of depenetration [1/s].
        row, u: contacts and velocities.
    """
    for k in range(first, last):
        row[k, DEFERRED], row[k, DEFERRED + 1], row[k, DEFERRED + 2] = 0.0, 0.0, 0.0
    begin = first
    while begin < last:
        end = begin
        while end < last and level[end] == level[begin]:
            end += 1
        _shock_level(begin, end, times, link, inverse, height, h, rate, row, u)
        begin = end
    end = last
    while end > first:
        begin = end - 1
        while begin > first and level[begin - 1] == level[begin]:
            begin -= 1
        if end < last:
            _shock_level(begin, end, times, link, inverse, height, h, rate, row, u)
        _apply_deferred(begin, end, link, inverse, height, row, u)
        end = begin


@inner
def add_step_impulse(k, row):
    """Add the impulses of contact k to those of the whole step."""
    row[k, STEP_N] += row[k, JN]
    row[k, STEP_T] += row[k, JT]
    row[k, STEP_T + 1] += row[k, JT + 1]
    row[k, STEP_T + 2] += row[k, JT + 2]


@outlined
def add_step_impulses(first, last, row):
    """Add the impulses of contacts to those of the whole step."""
    for k in range(first, last):
        prefetch_row(k, last, row)
        add_step_impulse(k, row)
