"""Accelerations, forces, inertia, poses, velocities, energy and momentum of a model in a state."""

from __future__ import annotations

import math

import numpy as np

from limberjack._jit import inner, kernel
from limberjack.errors import Status
from limberjack.model.arrays import LINK, SPAN
from limberjack.reduced.aba import accelerations
from limberjack.reduced.crba import composite_inertia
from limberjack.reduced.drives import drive_forces, spring_energy
from limberjack.reduced.jacobians import link_velocities, point_jacobian
from limberjack.reduced.kinematics import body_poses, kinematics
from limberjack.reduced.rnea import inverse_forces
from limberjack.reduced.work import J, P, R, based, rotation
from limberjack.spatial.vectors import cross, rotate

__all__ = [
    "body_velocities",
    "energies",
    "joint_energy",
    "link_motion",
    "tree_accelerations",
    "tree_forces",
    "tree_inertia",
    "tree_jacobian",
    "tree_momentum",
    "tree_poses",
]


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


@inner
def link_motion(i, rows, velocities):
    """Return kinetic energy and linear momentum of link i, without armature, for `rows` as of `tree_momentum`."""
    wx, wy, wz = velocities[i, 0], velocities[i, 1], velocities[i, 2]
    vx, vy, vz = velocities[i, 3], velocities[i, 4], velocities[i, 5]
    nx = rows[i, J] * wx + rows[i, J + 4] * wy + rows[i, J + 8] * wz
    ny = rows[i, J + 4] * wx + rows[i, J + 5] * wy + rows[i, J + 9] * wz
    nz = rows[i, J + 8] * wx + rows[i, J + 9] * wy + rows[i, J + 10] * wz
    cx, cy, cz = cross(wx, wy, wz, rows[i, J + 3], rows[i, J + 7], rows[i, J + 11])
    m, square = rows[i, P + 3], vx * vx + vy * vy + vz * vz
    energy = 0.5 * (wx * nx + wy * ny + wz * nz + m * square) + vx * cx + vy * cy + vz * cz
    return energy, m * vx + cx, m * vy + cy, m * vz + cz


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
        kinetic += link_motion(i, rows, velocities)[0]
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


@inner
def _apply_wrenches(body_link, body_offset, body_com, begin, last, wrenches, rows):
    """Subtract wrenches (torque about the com, force; world axes) from the bias forces of links before `last`.

    Bodies come in the order of their trees: from body `begin` on; the body to begin with next time is returned.
    """
    b = begin - 1
    while b + 1 < len(wrenches) and body_link[b + 1] < last:
        b += 1
        i = body_link[b]
        if i < 0:
            continue
        x, y, z = body_com[b, 0], body_com[b, 1], body_com[b, 2]
        m = body_offset
        lx = m[b, 0] * x + m[b, 1] * y + m[b, 2] * z + m[b, 9]
        ly = m[b, 3] * x + m[b, 4] * y + m[b, 5] * z + m[b, 10]
        lz = m[b, 6] * x + m[b, 7] * y + m[b, 8] * z + m[b, 11]
        r = rotation(i, rows)
        dx, dy, dz = rotate(r, lx, ly, lz)
        fx, fy, fz = wrenches[b, 3], wrenches[b, 4], wrenches[b, 5]
        cx, cy, cz = cross(dx, dy, dz, fx, fy, fz)
        rows[i, P] -= wrenches[b, 0] + cx
        rows[i, P + 1] -= wrenches[b, 1] + cy
        rows[i, P + 2] -= wrenches[b, 2] + cz
        rows[i, P + 4] -= fx
        rows[i, P + 5] -= fy
        rows[i, P + 6] -= fz
    return b + 1


@inner
def _finite(x):
    """Return a status: whether every x is finite; a sum of squares may overflow for numbers that are."""
    bad = 0
    for i in range(len(x)):
        bad += not abs(x[i]) < math.inf
    return Status.NOT_FINITE + 0 if bad > 0 else 0


@kernel
def tree_accelerations(
    # model
    links, drives, body_link, body_offset, body_com,
    # in
    blocks, span, q, qd, applied, wrenches, work, tau, added,
    # out
    qdd,
):  # fmt: skip
    """Fill the accelerations qdd of all trees under drives, applied forces and wrenches; return a status."""
    # A block of trees after the other: its rows stay in the cache from pass to pass.
    body = 0
    for k in range(len(blocks)):
        for c in range(SPAN):
            span[c] = blocks[k, c]
        own = based(work, span[LINK])
        kinematics(links, span, q, qd, own)
        if len(wrenches) > 0:
            body = _apply_wrenches(body_link, body_offset, body_com, body, span[LINK + 1], wrenches, own.rows)
        drive_forces(drives, links.armature, span, 0.0, q, qd, applied, tau, added)
        status = accelerations(links, span, added, tau, own, qdd)
        if status != 0:
            return status
    return _finite(qdd)


@kernel
def tree_forces(
    # model
    links, drives, body_link, body_offset, body_com,
    # in
    span, q, qd, qdd, wrenches, work, rest, passive, added,
    # out
    tau,
):  # fmt: skip
    """Fill the joint forces tau that give qdd, drives and wrenches subtracted; return a status."""
    kinematics(links, span, q, qd, work)
    _apply_wrenches(body_link, body_offset, body_com, 0, span[LINK + 1], wrenches, work.rows)
    inverse_forces(links, qdd, work, tau)
    drive_forces(drives, links.armature, span, 0.0, q, qd, rest, passive, added)
    for v in range(len(tau)):
        tau[v] -= passive[v]
    return _finite(tau)


@kernel
def tree_poses(
    # model
    links, body_link, body_offset,
    # in
    span, q, rest, work,
    # out
    positions, rotations,
):  # fmt: skip
    """Fill the positions and rotations of all body frames."""
    kinematics(links, span, q, rest, work)
    body_poses(body_link, body_offset, work.rows, positions, rotations)


@kernel
def tree_inertia(
    # model
    links,
    # in
    span, q, rest, work,
    # out
    matrix,
):  # fmt: skip
    """Fill the joint-space inertia; `matrix` starts at 0."""
    kinematics(links, span, q, rest, work)
    composite_inertia(links, work, matrix)


@kernel
def tree_jacobian(
    # model
    links, body_link, body_offset,
    # in
    span, q, rest, body, point, in_world, work,
    # out
    matrix,
):  # fmt: skip
    """Fill the Jacobian of a point of a body, given in the world or in the body frame; `matrix` starts at 0."""
    kinematics(links, span, q, rest, work)
    i = body_link[body]
    if i < 0:
        return
    x, y, z = point[0], point[1], point[2]
    if not in_world:
        m, rows = body_offset, work.rows
        lx = m[body, 0] * x + m[body, 1] * y + m[body, 2] * z + m[body, 9]
        ly = m[body, 3] * x + m[body, 4] * y + m[body, 5] * z + m[body, 10]
        lz = m[body, 6] * x + m[body, 7] * y + m[body, 8] * z + m[body, 11]
        x = rows[i, R] * lx + rows[i, R + 4] * ly + rows[i, R + 8] * lz + rows[i, R + 3]
        y = rows[i, R + 1] * lx + rows[i, R + 5] * ly + rows[i, R + 9] * lz + rows[i, R + 7]
        z = rows[i, R + 2] * lx + rows[i, R + 6] * ly + rows[i, R + 10] * lz + rows[i, R + 11]
    point_jacobian(links, i, x, y, z, work, matrix)
