"""External wrenches, and springs between bodies: explicit and implicit.

A spring between points x_a, x_b with length l, direction n and rate l' pulls with f = k (l - rest) + c l' along n.
Implicitly, over a step h, each of three rows, along n and two directions t across it, with the rate x' = J qd, the
stiffness k_i (k along n, f/l across where the spring is taut), damping c_i (c, 0) and s = h (h k_i + c_i), is

    mu = f_i + h k_i x' + s J qdd,      (1/s + J M^-1 J^T) mu = (f_i + h k_i x') / s + J qdd_0

where qdd_0 is the acceleration without springs and -J^T mu the force: compliant rows, stable at any stiffness.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from limberjack._jit import inner, outlined
from limberjack.errors import Status
from limberjack.model.arrays import DOF, LINK, Links, Springs
from limberjack.model.joints import HINGE, SLIDE
from limberjack.reduced.aba import solve_accelerations
from limberjack.reduced.jacobians import link_velocities
from limberjack.reduced.responses import path_dot, path_forward
from limberjack.reduced.work import BC, BL, UU, P, R
from limberjack.spatial.solves import factor_ldl, solve_ldl
from limberjack.spatial.vectors import cross

__all__ = [
    "SpringWork",
    "Wrenches",
    "apply_implicit_springs",
    "apply_springs",
    "apply_wrenches",
    "new_spring_work",
    "no_wrenches",
    "spring_lengths",
]


class Wrenches(NamedTuple):
    """Lasting wrenches: world force and torque at a point fixed to a link."""

    link: np.ndarray  # (k,)
    data: np.ndarray  # (k, 9) point in the link frame, force, torque in world axes


class SpringWork(NamedTuple):
    """Scratch of the springs; s springs."""

    velocities: np.ndarray  # (n, 6) of the links
    state: np.ndarray  # (s, 15) direction n, length, rate, lever at a, lever at b, force, velocity of b against a
    rows: np.ndarray  # (3 s, 5) direction, stiffness, rate of each row
    responses: np.ndarray  # (3 s, nv) rows y
    matrix: np.ndarray  # (3 s, 3 s)
    forces: np.ndarray  # (3 s,)


def no_wrenches() -> Wrenches:
    """Return an empty set of wrenches."""
    return Wrenches(np.zeros(0, np.int64), np.zeros((0, 9)))


def new_spring_work(links: Links, springs: Springs) -> SpringWork:
    """Return scratch for `springs` on `links`."""
    count, n, nv = len(springs.link), len(links.parent), len(links.armature)
    if count == 0:
        n = nv = 0
    wide = 3 * count
    return SpringWork(
        np.zeros((n, 6)), np.zeros((count, 15)), np.zeros((wide, 5)), np.zeros((wide, nv)), np.zeros((wide, wide)),
        np.zeros(wide),
    )  # fmt: skip


@inner
def apply_wrenches(
    # in
    span, wrenches,
    # out
    rows,
):  # fmt: skip
    """Subtract the wrenches on links in `span` from the bias forces of those links."""
    link, w = wrenches.link, wrenches.data
    for k in range(len(link)):
        i = link[k]
        if i < span[LINK] or i >= span[LINK + 1]:
            continue
        dx = rows[i, R] * w[k, 0] + rows[i, R + 4] * w[k, 1] + rows[i, R + 8] * w[k, 2]
        dy = rows[i, R + 1] * w[k, 0] + rows[i, R + 5] * w[k, 1] + rows[i, R + 9] * w[k, 2]
        dz = rows[i, R + 2] * w[k, 0] + rows[i, R + 6] * w[k, 1] + rows[i, R + 10] * w[k, 2]
        cx, cy, cz = cross(dx, dy, dz, w[k, 3], w[k, 4], w[k, 5])
        rows[i, P] -= w[k, 6] + cx
        rows[i, P + 1] -= w[k, 7] + cy
        rows[i, P + 2] -= w[k, 8] + cz
        rows[i, P + 4] -= w[k, 3]
        rows[i, P + 5] -= w[k, 4]
        rows[i, P + 6] -= w[k, 5]


@inner
def _end(i, x, y, z, rows, velocities):
    """Return lever, position and velocity of the point (x, y, z) of link i; of the world for i = -1."""
    if i < 0:
        return 0.0, 0.0, 0.0, x, y, z, 0.0, 0.0, 0.0
    dx = rows[i, R] * x + rows[i, R + 4] * y + rows[i, R + 8] * z
    dy = rows[i, R + 1] * x + rows[i, R + 5] * y + rows[i, R + 9] * z
    dz = rows[i, R + 2] * x + rows[i, R + 6] * y + rows[i, R + 10] * z
    cx, cy, cz = cross(velocities[i, 0], velocities[i, 1], velocities[i, 2], dx, dy, dz)
    vx, vy, vz = velocities[i, 3] + cx, velocities[i, 4] + cy, velocities[i, 5] + cz
    return dx, dy, dz, rows[i, R + 3] + dx, rows[i, R + 7] + dy, rows[i, R + 11] + dz, vx, vy, vz


@inner
def spring_lengths(
    # model
    links, springs,
    # in
    span, qd, work,
    # out
    spring_work,
):  # fmt: skip
    """Fill direction, length, rate, levers and explicit force of every spring."""
    link_velocities(links, span, qd, work, spring_work.velocities)
    rows, velocities, s = work.rows, spring_work.velocities, spring_work.state
    link, point, data = springs.link, springs.point, springs.data
    for j in range(len(link)):
        ax, ay, az, px, py, pz, ux, uy, uz = _end(link[j, 0], point[j, 0], point[j, 1], point[j, 2], rows, velocities)
        bx, by, bz, qx, qy, qz, vx, vy, vz = _end(link[j, 1], point[j, 3], point[j, 4], point[j, 5], rows, velocities)
        x, y, z = qx - px, qy - py, qz - pz
        length = math.sqrt(x * x + y * y + z * z)
        f = 1.0 / length if length > 1e-12 else 0.0
        x, y, z = f * x, f * y, f * z
        vx, vy, vz = vx - ux, vy - uy, vz - uz
        rate = x * vx + y * vy + z * vz
        s[j, 0], s[j, 1], s[j, 2], s[j, 3], s[j, 4] = x, y, z, length, rate
        s[j, 5], s[j, 6], s[j, 7], s[j, 8], s[j, 9], s[j, 10] = ax, ay, az, bx, by, bz
        s[j, 11] = data[j, 0] * (length - data[j, 2]) + data[j, 1] * rate
        s[j, 12], s[j, 13], s[j, 14] = vx, vy, vz


@inner
def _apply_end_force(i, lx, ly, lz, fx, fy, fz, rows):
    """Subtract the force f at lever l from the bias force of link i."""
    if i >= 0:
        cx, cy, cz = cross(lx, ly, lz, fx, fy, fz)
        rows[i, P] -= cx
        rows[i, P + 1] -= cy
        rows[i, P + 2] -= cz
        rows[i, P + 4] -= fx
        rows[i, P + 5] -= fy
        rows[i, P + 6] -= fz


@outlined
def apply_springs(
    # model
    links, springs,
    # in
    span, qd, work,
    # out
    spring_work,
):  # fmt: skip
    """Subtract the explicit forces of all springs from the bias forces of their links."""
    spring_lengths(links, springs, span, qd, work, spring_work)
    link, s, rows = springs.link, spring_work.state, work.rows
    for j in range(len(link)):
        fx, fy, fz = s[j, 11] * s[j, 0], s[j, 11] * s[j, 1], s[j, 11] * s[j, 2]
        _apply_end_force(link[j, 0], s[j, 5], s[j, 6], s[j, 7], fx, fy, fz, rows)
        _apply_end_force(link[j, 1], s[j, 8], s[j, 9], s[j, 10], -fx, -fy, -fz, rows)


@inner
def _end_acceleration(i, lx, ly, lz, nx, ny, nz, rows):
    """Return the acceleration by qdd along n of the point at lever l of link i."""
    if i < 0:
        return 0.0
    cx, cy, cz = cross(rows[i, BL], rows[i, BL + 1], rows[i, BL + 2], lx, ly, lz)
    return nx * (rows[i, BC] + cx) + ny * (rows[i, BC + 1] + cy) + nz * (rows[i, BC + 2] + cz)


@inner
def _set_rows(j, k, s, rows):
    """Fill the three rows of spring j with stiffness k: directions, stiffness and rates."""
    nx, ny, nz = s[j, 0], s[j, 1], s[j, 2]
    # transverse: the world axis furthest from n, made perpendicular, and the third direction
    ex = 1.0 if abs(nx) <= abs(ny) and abs(nx) <= abs(nz) else 0.0
    ey = 1.0 if ex == 0.0 and abs(ny) <= abs(nz) else 0.0
    ez = 1.0 - ex - ey
    tx, ty, tz = cross(nx, ny, nz, ex, ey, ez)
    size = math.sqrt(tx * tx + ty * ty + tz * tz)
    f = 1.0 / size if size > 0.0 else 0.0
    tx, ty, tz = f * tx, f * ty, f * tz
    ux, uy, uz = cross(nx, ny, nz, tx, ty, tz)
    taut = s[j, 11] / s[j, 3] if s[j, 11] > 0.0 and s[j, 3] > 1e-12 else 0.0
    i = 3 * j
    rows[i, 0], rows[i, 1], rows[i, 2], rows[i, 3] = nx, ny, nz, k
    rows[i + 1, 0], rows[i + 1, 1], rows[i + 1, 2], rows[i + 1, 3] = tx, ty, tz, taut
    rows[i + 2, 0], rows[i + 2, 1], rows[i + 2, 2], rows[i + 2, 3] = ux, uy, uz, taut
    for c in range(3):
        rows[i + c, 4] = rows[i + c, 0] * s[j, 12] + rows[i + c, 1] * s[j, 13] + rows[i + c, 2] * s[j, 14]


@inner
def _respond(links, link, j, i, span, work, spring_work):
    """Fill row y[i], of spring j."""
    s, d, y = spring_work.state, spring_work.rows, spring_work.responses
    for v in range(span[DOF], span[DOF + 1]):
        y[i, v] = 0.0
    for end in range(2):
        if link[j, end] >= 0:
            sign = 1.0 if end == 1 else -1.0
            fx, fy, fz = sign * d[i, 0], sign * d[i, 1], sign * d[i, 2]
            k = 5 + 3 * end
            nx, ny, nz = cross(s[j, k], s[j, k + 1], s[j, k + 2], fx, fy, fz)
            path_forward(links, link[j, end], nx, ny, nz, fx, fy, fz, -1, 0.0, work, i, y)


@inner
def _common_link(links, a, b):
    """Return the link where the paths of links a and b to the world join, -1 = the world."""
    # parents come before children
    while a != b:
        if a > b:
            a = links.parent[a]
        else:
            b = links.parent[b]
    return a


@outlined
def apply_implicit_springs(
    # model
    links, springs,
    # in
    span, h, qd, work,
    # out
    spring_work, qdd,
):  # fmt: skip
    """Correct qdd left by `accelerations` by all springs, implicit over a step h; return a status."""
    spring_lengths(links, springs, span, qd, work, spring_work)
    link, data, s, mu, a, y = (
        springs.link,
        springs.data,
        spring_work.state,
        spring_work.forces,
        spring_work.matrix,
        spring_work.responses,
    )
    rows, d, wide, common = work.rows, spring_work.rows, 3 * len(springs.link), -1
    for i in range(wide):
        j = i // 3
        along = i == 3 * j
        if along:
            _set_rows(j, data[j, 0], s, d)
            common = _common_link(links, link[j, 0], link[j, 1])
        stiff = h * (h * d[i, 3] + (data[j, 1] if along else 0.0))
        # a row without stiffness and damping has no force
        flex = 1.0 / stiff if stiff > 0.0 else 1e300
        mu[i] = 0.0
        for k in range(i):
            a[i, k] = 0.0
        if stiff > 0.0:
            _respond(links, link, j, i, span, work, spring_work)
            nx, ny, nz = d[i, 0], d[i, 1], d[i, 2]
            seen = _end_acceleration(link[j, 1], s[j, 8], s[j, 9], s[j, 10], nx, ny, nz, rows)
            seen -= _end_acceleration(link[j, 0], s[j, 5], s[j, 6], s[j, 7], nx, ny, nz, rows)
            mu[i] = ((s[j, 11] if along else 0.0) + h * d[i, 3] * d[i, 4]) * flex + seen
            for k in range(i + 1):
                if a[k, k] < 1e299 or k == i:
                    a[i, k] = path_dot(links, link[j, 0], -1, work, y, i, k) + path_dot(
                        links, link[j, 1], common, work, y, i, k
                    )
            a[i, i] += flex
        else:
            a[i, i] = flex
    if factor_ldl(wide, 0, 0.0, a) > 0:
        return Status.NO_SPRING_FORCES
    solve_ldl(wide, 0, a, mu)
    # -J^T mu enters where the forward elimination left the joint forces; then the outward pass once more
    v_start, kinds, dofs, rest = links.v_start, links.kind, links.dof, work.rest
    for k in range(span[LINK], span[LINK + 1]):
        for v in range(v_start[k], v_start[k] + dofs[k]):
            change = 0.0
            for i in range(wide):
                if mu[i] != 0.0:
                    change -= mu[i] * y[i, v]
            if kinds[k] == HINGE or kinds[k] == SLIDE:
                rows[k, UU] += change
            else:
                rest[v] += change
    solve_accelerations(links, span, work.subspace, work.reduced, work.pivot, work.rest, rows, qdd)
    return 0
