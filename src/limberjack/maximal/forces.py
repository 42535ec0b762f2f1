"""Forces on bodies in maximal coordinates: gravity, inertia, wrenches, springs, and drives along joint coordinates."""

from __future__ import annotations

import math

import numpy as np

from limberjack._jit import inner, kernel, outlined
from limberjack.constraints.rows import ANGLE, element, relative_rotation
from limberjack.maximal.bodies import ROTATION, SCALABLE, add_row, body_point, set_inertial_forces
from limberjack.reduced.drives import drive_forces
from limberjack.spatial.quaternions import quaternion_from_matrix, quaternion_multiply
from limberjack.spatial.vectors import cross

__all__ = ["count_turns", "forces", "match_signs", "read_coordinates"]


@inner
def _add_wrench(bodies, center, i, ends, px, py, pz, nx, ny, nz, fx, fy, fz, f):
    """Add the force and torque at the point p of the link frame of body i to the forces."""
    px, py, pz = px - center[i, 0], py - center[i, 1], pz - center[i, 2]
    if bodies.kind[i] < SCALABLE:
        lx = ends[i, 0] * px + ends[i, 1] * py + ends[i, 2] * pz
        ly = ends[i, 3] * px + ends[i, 4] * py + ends[i, 5] * pz
        lz = ends[i, 6] * px + ends[i, 7] * py + ends[i, 8] * pz
    else:
        lx, ly, lz, _, _, _, _, _, _ = body_point(bodies, i, px, py, pz, ends)
    cx, cy, cz = cross(lx, ly, lz, fx, fy, fz)
    add_row(bodies, i, ends, px, py, pz, nx + cx, ny + cy, nz + cz, fx, fy, fz, bodies.start[i], f)


@inner
def _frame_orientation(f, k, o, i, pose):
    """Return the quaternion in the world of the frame at column o of pair k, fixed in body i, -1 = the world."""
    r = f[k, o], f[k, o + 1], f[k, o + 2], f[k, o + 3], f[k, o + 4], f[k, o + 5], f[k, o + 6], f[k, o + 7], f[k, o + 8]
    rotation, t = quaternion_from_matrix(r), ROTATION
    if i >= 0:
        rotation = quaternion_multiply((pose[i, t], pose[i, t + 1], pose[i, t + 2], pose[i, t + 3]), rotation)
    return rotation


@inner
def _relative_orientation(table, k, pose):
    """Return the quaternion of frame B in frame A of pair k from those of their bodies: it is continuous in time."""
    f = table.pair_frame
    w, x, y, z = _frame_orientation(f, k, 0, table.pair_link[k, 0], pose)
    return quaternion_multiply((w, -x, -y, -z), _frame_orientation(f, k, 12, table.pair_link[k, 1], pose))


@kernel
def match_signs(
    # model
    setup,
    # in
    nq, q,
    # out
    pose,
):  # fmt: skip
    """Choose the signs of quaternions of bodies on ball joints for which `read_coordinates` gives those in q (nq,)."""
    table, start = setup.table, setup.system.row_start
    r, last = start[setup.constraints[1]], start[setup.constraints[2]]
    while r < last:
        at, ball = table.drive[r, 0], table.speed[r] == 1
        if ball and at < nq:
            k = table.row_pair[r, 0]
            w, x, y, z = _relative_orientation(table, k, pose)
            i = table.pair_link[k, 1]
            if i >= 0 and w * q[at] + x * q[at + 1] + y * q[at + 2] + z * q[at + 3] < 0.0:
                for c in range(ROTATION, ROTATION + 4):
                    pose[i, c] = -pose[i, c]
        r += 3 if ball else 1


@outlined
def read_coordinates(
    # model
    setup,
    # in
    pose, e,
    # out
    q, qd,
):  # fmt: skip
    """Fill q and qd of the joints that have rows for them from the values of those rows.

    The sign of a ball joint's quaternion follows from those of its bodies, whenever it is read.
    """
    table, start = setup.table, setup.system.row_start
    r, last = start[setup.constraints[1]], start[setup.constraints[2]]
    while r < last:
        iq, iv = table.drive[r, 0], table.drive[r, 1]
        if table.speed[r] == 1:
            w, x, y, z = relative_rotation(e.state, table.row_pair[r, 0])
            a, b, c, d = _relative_orientation(table, table.row_pair[r, 0], pose)
            sign = -1.0 if w * a + x * b + y * c + z * d < 0.0 else 1.0
            q[iq], q[iq + 1], q[iq + 2], q[iq + 3] = sign * w, sign * x, sign * y, sign * z
            for k in range(3):
                qd[iv + k] = e.values[r + k, 1]
            r += 3
        else:
            q[iq], qd[iv] = e.values[r, 0], e.values[r, 1]
            r += 1


@outlined
def count_turns(
    # model
    setup,
    # out
    e,
):  # fmt: skip
    """Unwrap the angles of joints whose rows are not evaluated in a step without drives."""
    table, start = setup.table, setup.system.row_start
    for r in range(start[setup.constraints[1]], start[setup.constraints[2]]):
        t = table.term_start[r]
        if table.terms[t, 0] == ANGLE:
            x = element(e.state, table.terms[t, 1], ANGLE, table.terms[t, 2], table.terms[t, 3])[0]
            e.near[t] = x + 2.0 * math.pi * math.floor((e.near[t] - x) / (2.0 * math.pi) + 0.5)


@outlined
def _add_drive_forces(setup, drives, armature, span, applied, pose, e, s, f):
    """Add drive forces and applied forces of joints, along the rows of their coordinates.

    Where drives are soft rows, only the applied forces are added.
    """
    table, system = setup.table, setup.system
    read_coordinates(setup, pose, e, s.q, s.qd)
    if len(setup.soft.row) > 0:
        for v in range(len(applied)):
            s.tau[v] = applied[v]
    else:
        drive_forces(drives, armature, span, 0.0, s.q, s.qd, applied, s.tau, s.added)
    for c in range(setup.constraints[1], setup.constraints[2]):
        r = system.row_start[c]
        tau = s.tau[table.drive[r, 1]]
        if tau != 0.0:
            for t in range(system.incidence_start[c], system.incidence_start[c + 1]):
                body, o = system.incidence_body[t], system.block_start[t]
                begin = system.body_start[body]
                for k in range(system.body_start[body + 1] - begin):
                    f[begin + k] += tau * e.j[o + k]


@outlined
def _add_free_joint_forces(setup, e, s, f):
    """Add the forces along the coordinates of free joints: at the origin, world axes, and a torque in body axes."""
    free, tau, ends = setup.free_joints, s.tau, e.ends
    for k in range(len(free)):
        i, v = free[k, 0], free[k, 1]
        x, y, z = tau[v + 3], tau[v + 4], tau[v + 5]
        nx = ends[i, 0] * x + ends[i, 1] * y + ends[i, 2] * z
        ny = ends[i, 3] * x + ends[i, 4] * y + ends[i, 5] * z
        nz = ends[i, 6] * x + ends[i, 7] * y + ends[i, 8] * z
        fx, fy, fz = tau[v], tau[v + 1], tau[v + 2]
        _add_wrench(setup.bodies, setup.center, i, ends, 0.0, 0.0, 0.0, nx, ny, nz, fx, fy, fz, f)


@inner
def _spring_end(setup, i, x, y, z, ends):
    """Return position and velocity of the point (x, y, z) of the link frame of body i; of the world for i = -1."""
    if i < 0:
        return x, y, z, 0.0, 0.0, 0.0
    bodies, center = setup.bodies, setup.center
    x, y, z = x - center[i, 0], y - center[i, 1], z - center[i, 2]
    if bodies.kind[i] < SCALABLE:
        lx = ends[i, 0] * x + ends[i, 1] * y + ends[i, 2] * z
        ly = ends[i, 3] * x + ends[i, 4] * y + ends[i, 5] * z
        lz = ends[i, 6] * x + ends[i, 7] * y + ends[i, 8] * z
        vx, vy, vz = cross(ends[i, 12], ends[i, 13], ends[i, 14], lx, ly, lz)
    else:
        lx, ly, lz, vx, vy, vz, _, _, _ = body_point(bodies, i, x, y, z, ends)
    return (
        ends[i, 9] + lx, ends[i, 10] + ly, ends[i, 11] + lz, ends[i, 15] + vx, ends[i, 16] + vy, ends[i, 17] + vz,
    )  # fmt: skip


@outlined
def _add_spring_forces(setup, springs, ends, f):
    """Add the forces of all springs at the current state."""
    link, p, data = springs.link, springs.point, springs.data
    for k in range(len(link)):
        a, b = link[k, 0], link[k, 1]
        ax, ay, az, ux, uy, uz = _spring_end(setup, a, p[k, 0], p[k, 1], p[k, 2], ends)
        bx, by, bz, vx, vy, vz = _spring_end(setup, b, p[k, 3], p[k, 4], p[k, 5], ends)
        x, y, z = bx - ax, by - ay, bz - az
        length = np.sqrt(x * x + y * y + z * z)
        if not length > 1e-12:
            continue
        x, y, z = x / length, y / length, z / length
        rate = x * (vx - ux) + y * (vy - uy) + z * (vz - uz)
        pull = data[k, 0] * (length - data[k, 2]) + data[k, 1] * rate
        x, y, z = pull * x, pull * y, pull * z
        if a >= 0:
            _add_wrench(setup.bodies, setup.center, a, ends, p[k, 0], p[k, 1], p[k, 2], 0.0, 0.0, 0.0, x, y, z, f)
        if b >= 0:
            _add_wrench(setup.bodies, setup.center, b, ends, p[k, 3], p[k, 4], p[k, 5], 0.0, 0.0, 0.0, -x, -y, -z, f)


@outlined
def forces(setup, springs, drives, armature, span, driven, implicit, wrenches, applied, pose, e, s, f):
    """Set f to all forces but those of constraints."""
    set_inertial_forces(setup.bodies, setup.gravity, pose, e.ends, f)
    w = wrenches.data
    for k in range(len(wrenches.link)):
        i = wrenches.link[k]
        _add_wrench(
            setup.bodies, setup.center, i, e.ends, w[k, 0], w[k, 1], w[k, 2], w[k, 6], w[k, 7], w[k, 8],
            w[k, 3], w[k, 4], w[k, 5], f,
        )  # fmt: skip
    if len(springs.link) > 0 and not implicit:
        _add_spring_forces(setup, springs, e.ends, f)
    if driven:
        _add_drive_forces(setup, drives, armature, span, applied, pose, e, s, f)
        _add_free_joint_forces(setup, e, s, f)
