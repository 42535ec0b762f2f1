"""Jacobians of points, and the velocities of links: S of every joint on the path to the world, moved to the point."""

from __future__ import annotations

from limberjack._jit import inner
from limberjack.model.arrays import LINK
from limberjack.reduced.rnea import direction
from limberjack.reduced.work import D, R
from limberjack.spatial.vectors import cross

__all__ = ["link_velocities", "point_jacobian"]


@inner
def point_jacobian(
    # model
    links,
    # in
    link, x, y, z, work,
    # out
    matrix,
):  # fmt: skip
    """Fill the (6, nv) Jacobian (angular; linear) of the point (x, y, z) of `link`; `matrix` starts at 0."""
    parent, kinds, v_start, dofs = links.parent, links.kind, links.v_start, links.dof
    rows, subspace = work.rows, work.subspace
    a = link
    while a >= 0:
        dx, dy, dz = x - rows[a, R + 3], y - rows[a, R + 7], z - rows[a, R + 11]
        for v in range(v_start[a], v_start[a] + dofs[a]):
            sx, sy, sz, tx, ty, tz = direction(kinds[a], a, v, rows, subspace)
            cx, cy, cz = cross(sx, sy, sz, dx, dy, dz)
            matrix[0, v], matrix[1, v], matrix[2, v] = sx, sy, sz
            matrix[3, v], matrix[4, v], matrix[5, v] = tx + cx, ty + cy, tz + cz
        a = parent[a]


@inner
def link_velocities(
    # model
    links,
    # in
    span, qd, work,
    # out
    velocities,
):  # fmt: skip
    """Fill the (n, 6) velocities of the links in `span` (angular; linear of the origin), world axes."""
    parent, kinds, v_start, dofs = links.parent, links.kind, links.v_start, links.dof
    rows, subspace = work.rows, work.subspace
    for i in range(span[LINK], span[LINK + 1]):
        p = parent[i]
        wx = wy = wz = vx = vy = vz = 0.0
        if p >= 0:
            wx, wy, wz = velocities[p, 0], velocities[p, 1], velocities[p, 2]
            cx, cy, cz = cross(wx, wy, wz, rows[i, D], rows[i, D + 1], rows[i, D + 2])
            vx, vy, vz = velocities[p, 3] + cx, velocities[p, 4] + cy, velocities[p, 5] + cz
        for v in range(v_start[i], v_start[i] + dofs[i]):
            sx, sy, sz, tx, ty, tz = direction(kinds[i], i, v, rows, subspace)
            wx, wy, wz = wx + sx * qd[v], wy + sy * qd[v], wz + sz * qd[v]
            vx, vy, vz = vx + tx * qd[v], vy + ty * qd[v], vz + tz * qd[v]
        velocities[i, 0], velocities[i, 1], velocities[i, 2] = wx, wy, wz
        velocities[i, 3], velocities[i, 4], velocities[i, 5] = vx, vy, vz
