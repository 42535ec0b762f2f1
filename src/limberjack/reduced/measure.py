"""Energy, momentum and velocities of a model in a state."""

from __future__ import annotations

import numpy as np

from limberjack._jit import inner, kernel
from limberjack.reduced.drives import spring_energy
from limberjack.reduced.jacobians import link_velocities
from limberjack.reduced.kinematics import kinematics
from limberjack.reduced.work import J, P, R, rotation
from limberjack.spatial.vectors import cross, rotate

__all__ = ["body_velocities", "energies", "joint_energy", "tree_momentum"]


@inner
def tree_momentum(
    # in
    first, last, rows, velocities,
):  # fmt: skip
    """Return mass, com and the linear and angular momentum (about the world origin) of links first .. last - 1.

    `rows` as `kinematics` left them, before any elimination.
    """
    mass = sx = sy = sz = px = py = pz = lx = ly = lz = 0.0
    for i in range(first, last):
        m = rows[i, P + 3]
        hx, hy, hz = rows[i, J + 3], rows[i, J + 7], rows[i, J + 11]
        ox, oy, oz = rows[i, R + 3], rows[i, R + 7], rows[i, R + 11]
        wx, wy, wz = velocities[i, 0], velocities[i, 1], velocities[i, 2]
        vx, vy, vz = velocities[i, 3], velocities[i, 4], velocities[i, 5]
        cx, cy, cz = cross(wx, wy, wz, hx, hy, hz)
        fx, fy, fz = m * vx + cx, m * vy + cy, m * vz + cz
        # about the link's origin: J w + h x v
        cx, cy, cz = cross(hx, hy, hz, vx, vy, vz)
        nx = rows[i, J] * wx + rows[i, J + 4] * wy + rows[i, J + 8] * wz + cx
        ny = rows[i, J + 4] * wx + rows[i, J + 5] * wy + rows[i, J + 9] * wz + cy
        nz = rows[i, J + 8] * wx + rows[i, J + 9] * wy + rows[i, J + 10] * wz + cz
        cx, cy, cz = cross(ox, oy, oz, fx, fy, fz)
        mass += m
        sx, sy, sz = sx + m * ox + hx, sy + m * oy + hy, sz + m * oz + hz
        px, py, pz = px + fx, py + fy, pz + fz
        lx, ly, lz = lx + nx + cx, ly + ny + cy, lz + nz + cz
    f = 1.0 / mass if mass > 0.0 else 0.0
    return mass, f * sx, f * sy, f * sz, px, py, pz, lx, ly, lz


@kernel
def energies(
    # model
    links, drives, springs,
    # in
    span, q, qd, work, velocities,
):  # fmt: skip
    """Return kinetic and potential energy [J] and the momentum (linear 3, angular about the origin 3).

    Armature counts as kinetic energy; gravity is zero at the world origin; joint springs, soft limits, the stiffness
    of motors and springs between bodies are potential.
    """
    kinematics(links, span, q, qd, work)
    link_velocities(links, span, qd, work, velocities)
    rows, armature, gravity = work.rows, links.armature, links.gravity
    kinetic = 0.0
    for i in range(len(links.parent)):
        wx, wy, wz = velocities[i, 0], velocities[i, 1], velocities[i, 2]
        vx, vy, vz = velocities[i, 3], velocities[i, 4], velocities[i, 5]
        nx = rows[i, J] * wx + rows[i, J + 4] * wy + rows[i, J + 8] * wz
        ny = rows[i, J + 4] * wx + rows[i, J + 5] * wy + rows[i, J + 9] * wz
        nz = rows[i, J + 8] * wx + rows[i, J + 9] * wy + rows[i, J + 10] * wz
        cx, cy, cz = cross(wx, wy, wz, rows[i, J + 3], rows[i, J + 7], rows[i, J + 11])
        square = vx * vx + vy * vy + vz * vz
        kinetic += 0.5 * (wx * nx + wy * ny + wz * nz + rows[i, P + 3] * square) + vx * cx + vy * cy + vz * cz
    for v in range(len(armature)):
        kinetic += 0.5 * armature[v] * qd[v] * qd[v]
    mass, x, y, z, px, py, pz, lx, ly, lz = tree_momentum(0, len(links.parent), rows, velocities)
    potential = -mass * (gravity[0] * x + gravity[1] * y + gravity[2] * z) + spring_energy(drives, q)
    link, point, data = springs.link, springs.point, springs.data
    for j in range(len(link)):
        ax, ay, az = _world_point(link[j, 0], point[j, 0], point[j, 1], point[j, 2], rows)
        bx, by, bz = _world_point(link[j, 1], point[j, 3], point[j, 4], point[j, 5], rows)
        stretch = np.sqrt((bx - ax) ** 2 + (by - ay) ** 2 + (bz - az) ** 2) - data[j, 2]
        potential += 0.5 * data[j, 0] * stretch * stretch
    return kinetic, potential, px, py, pz, lx, ly, lz


@kernel
def joint_energy(
    # model
    drives,
    # in
    q,
):  # fmt: skip
    """Return the energy stored in joint springs, soft limits and the stiffness of motors at q."""
    return spring_energy(drives, q)


@inner
def _world_point(i, x, y, z, rows):
    """Return the world position of the point (x, y, z) of link i, or of the world."""
    if i < 0:
        return x, y, z
    r = rotation(i, rows)
    dx, dy, dz = rotate(r, x, y, z)
    return rows[i, R + 3] + dx, rows[i, R + 7] + dy, rows[i, R + 11] + dz


@kernel
def body_velocities(
    # model
    links, body_link, body_offset, body_com,
    # in
    span, q, qd, work, velocities,
    # out
    out,
):  # fmt: skip
    """Fill the (n, 6) velocities of all bodies: angular, then linear of the com, world axes."""
    kinematics(links, span, q, qd, work)
    link_velocities(links, span, qd, work, velocities)
    rows, m = work.rows, body_offset
    for b in range(len(body_link)):
        i = body_link[b]
        if i < 0:
            for k in range(6):
                out[b, k] = 0.0
            continue
        x, y, z = body_com[b, 0], body_com[b, 1], body_com[b, 2]
        lx = m[b, 0] * x + m[b, 1] * y + m[b, 2] * z + m[b, 9]
        ly = m[b, 3] * x + m[b, 4] * y + m[b, 5] * z + m[b, 10]
        lz = m[b, 6] * x + m[b, 7] * y + m[b, 8] * z + m[b, 11]
        px, py, pz = _world_point(i, lx, ly, lz, rows)
        wx, wy, wz = velocities[i, 0], velocities[i, 1], velocities[i, 2]
        cx, cy, cz = cross(wx, wy, wz, px - rows[i, R + 3], py - rows[i, R + 7], pz - rows[i, R + 11])
        out[b, 0], out[b, 1], out[b, 2] = wx, wy, wz
        out[b, 3], out[b, 4], out[b, 5] = velocities[i, 3] + cx, velocities[i, 4] + cy, velocities[i, 5] + cz
