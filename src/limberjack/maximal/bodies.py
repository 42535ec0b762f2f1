"""Bodies in maximal coordinates: poses, mass blocks, inertial forces and Jacobian blocks, for every body kind.

A point p of a body, from its com in body axes, is at x + G p and moves with the body's velocity u:

| kind | u | G | mass block |
|---|---|---|---|
| RIGID | w, v | R | R I R^T, m |
| PLANAR | v_x, v_y, w_z | R | m, I_zz |
| PARTICLE | v | 1 | m |
| SCALABLE | w, v, s' | s R | s^2 R I R^T, m, tr Q |
| SCALABLE_AXES | w, v, s' (3) | R S, S = diag s | R (tr(S Q S) - S Q S) R^T, m, diag Q, and R K between w and s' |
| AFFINE | v, A' (9, by rows) | A | m, Q for each row of A |
| REGISTERED_BODY | rates of up to 12 coordinates | (`registered_bodies.py`) | T_uu |

Q is the second moment of the mass about the com, I = tr(Q) - Q. The acceleration of a point without u' is
(W^2 G + 2 W R S') p with W = [w]; minus its integral over the mass against each column of the point's Jacobian is the
inertial force on u. World axes throughout.

A free body turns over a step h by the midpoint rule, t = h I(exp(t/2) R)^-1 L, which conserves its angular momentum L
(`midpoint_rotation`).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from limberjack._jit import inner, outlined
from limberjack.constraints.rows import CENTRE, GAP, LEVER_A, LEVER_B, RATE
from limberjack.maximal.registered_bodies import (
    POINT_BIAS,
    POINT_POSITION,
    POINT_VELOCITY,
    add_registered_row,
    move_registered,
    set_registered,
    set_registered_forces,
    set_registered_point,
    write_registered_mass,
)
from limberjack.spatial.quaternions import quaternion_exp, quaternion_multiply, rotation_from_quaternion
from limberjack.spatial.solves import solve_symmetric_3
from limberjack.spatial.vectors import cross, rotate, rotate_back, rotate_symmetric, symmetric_times

__all__ = [
    "AFFINE",
    "Bodies",
    "REGISTERED_BODY",
    "PARTICLE",
    "PLANAR",
    "POSE",
    "RIGID",
    "SCALABLE",
    "SCALABLE_AXES",
    "SHAPE",
    "ROTATION",
    "add_geometric_inertia",
    "add_row",
    "body_point",
    "move_bodies",
    "normalize_poses",
    "pose_rates",
    "set_ends",
    "set_masses",
    "set_scalable_pair",
    "set_inertial_forces",
    "midpoint_newton",
    "midpoint_rotation",
    "rotated",
    "world_inertia",
]

RIGID, PLANAR, PARTICLE, SCALABLE, SCALABLE_AXES, AFFINE, REGISTERED_BODY = range(7)
# Columns of a pose: position of the com, quaternion, scales or the map A.
POSITION, ROTATION, SHAPE, POSE = 0, 3, 7, 16
# Columns of `maps`: G, its rate, and the acceleration of points without u'.
_G, _RATE, _BIAS = 0, 9, 18


class Bodies(NamedTuple):
    """The bodies of a model in maximal coordinates; n bodies."""

    kind: np.ndarray  # (n,)
    start: np.ndarray  # (n + 1,) first velocity of each
    block: np.ndarray  # (n + 1,) first entry of each mass block
    mass: np.ndarray  # (n,)
    inertia: np.ndarray  # (n, 6) about the com, body axes: xx, yy, zz, xy, xz, yz
    moment: np.ndarray  # (n, 6) second moment Q, likewise
    scale_spring: np.ndarray  # (n, 4) stiffness of the scales, and their rest values
    maps: np.ndarray  # (n, 27) of bodies that are not rigid: G, G', (W^2 G + 2 W R S')
    address: np.ndarray  # (n,) functions of registered kinds; this and the next two are empty without any
    registered: np.ndarray  # (n, REGISTERED_WIDTH) what they fill
    data: np.ndarray  # (n, d) the numbers they are given


@inner
def _matrix(maps, i, o):
    return (
        maps[i, o], maps[i, o + 1], maps[i, o + 2], maps[i, o + 3], maps[i, o + 4], maps[i, o + 5], maps[i, o + 6],
        maps[i, o + 7], maps[i, o + 8],
    )  # fmt: skip


@inner
def _set_maps(i, kind, bodies, pose, ends, u):
    """Fill G, G' and the bias map of a body that is not rigid."""
    maps, o = bodies.maps, bodies.start[i]
    if kind == AFFINE:
        for c in range(9):
            maps[i, _G + c], maps[i, _RATE + c], maps[i, _BIAS + c] = pose[i, SHAPE + c], u[o + 3 + c], 0.0
        return
    wx, wy, wz = ends[i, 12], ends[i, 13], ends[i, 14]
    for k in range(3):
        at = 0 if kind == SCALABLE else k
        s, rate = pose[i, SHAPE + at], u[o + 6 + at]
        x, y, z = ends[i, k], ends[i, 3 + k], ends[i, 6 + k]
        cx, cy, cz = cross(wx, wy, wz, x, y, z)
        ax, ay, az = s * cx + 2.0 * rate * x, s * cy + 2.0 * rate * y, s * cz + 2.0 * rate * z
        ax, ay, az = cross(wx, wy, wz, ax, ay, az)
        maps[i, _G + k], maps[i, _G + 3 + k], maps[i, _G + 6 + k] = s * x, s * y, s * z
        maps[i, _RATE + k] = s * cx + rate * x
        maps[i, _RATE + 3 + k] = s * cy + rate * y
        maps[i, _RATE + 6 + k] = s * cz + rate * z
        maps[i, _BIAS + k], maps[i, _BIAS + 3 + k], maps[i, _BIAS + 6 + k] = ax, ay, az


@outlined
def set_ends(
    # model
    bodies,
    # in
    pose, u,
    # out
    ends,
):  # fmt: skip
    """Fill rotation, position, angular velocity and velocity of the com of every body."""
    kinds, start = bodies.kind, bodies.start
    for i in range(len(kinds)):
        kind, o = kinds[i], start[i]
        if kind == REGISTERED_BODY:
            set_registered(
                i, start[i + 1] - o, o, bodies.address, bodies.registered, bodies.data, pose, u, bodies.maps, ends
            )
            continue
        if kind == AFFINE:
            r = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0)
        else:
            t = ROTATION
            r = rotation_from_quaternion(pose[i, t], pose[i, t + 1], pose[i, t + 2], pose[i, t + 3])
        ends[i, 0], ends[i, 1], ends[i, 2], ends[i, 3], ends[i, 4] = r[0], r[1], r[2], r[3], r[4]
        ends[i, 5], ends[i, 6], ends[i, 7], ends[i, 8] = r[5], r[6], r[7], r[8]
        ends[i, 9], ends[i, 10], ends[i, 11] = pose[i, 0], pose[i, 1], pose[i, 2]
        if kind == RIGID or kind == SCALABLE or kind == SCALABLE_AXES:
            for c in range(6):
                ends[i, 12 + c] = u[o + c]
        elif kind == PLANAR:
            ends[i, 12], ends[i, 13], ends[i, 14] = 0.0, 0.0, u[o + 2]
            ends[i, 15], ends[i, 16], ends[i, 17] = u[o], u[o + 1], 0.0
        else:
            ends[i, 12], ends[i, 13], ends[i, 14] = 0.0, 0.0, 0.0
            ends[i, 15], ends[i, 16], ends[i, 17] = u[o], u[o + 1], u[o + 2]
        if kind >= SCALABLE:
            _set_maps(i, kind, bodies, pose, ends, u)


@inner
def _scaled_moment(i, kind, bodies, pose):
    """Return S Q S of a scalable body (xx, yy, zz, xy, xz, yz)."""
    q = bodies.moment
    a = pose[i, SHAPE]
    b, c = (a, a) if kind == SCALABLE else (pose[i, SHAPE + 1], pose[i, SHAPE + 2])
    return a * a * q[i, 0], b * b * q[i, 1], c * c * q[i, 2], a * b * q[i, 3], a * c * q[i, 4], b * c * q[i, 5]


@inner
def _rotation(ends, i):
    return (
        ends[i, 0], ends[i, 1], ends[i, 2], ends[i, 3], ends[i, 4], ends[i, 5], ends[i, 6], ends[i, 7], ends[i, 8],
    )  # fmt: skip


@inner
def world_inertia(i, kind, bodies, pose, ends):
    """Return the inertia about the com in world axes of a body that turns."""
    if kind >= SCALABLE:
        xx, yy, zz, xy, xz, yz = _scaled_moment(i, kind, bodies, pose)
        own = (yy + zz, xx + zz, xx + yy, -xy, -xz, -yz)
    else:
        g = bodies.inertia
        own = (g[i, 0], g[i, 1], g[i, 2], g[i, 3], g[i, 4], g[i, 5])
    return rotate_symmetric(_rotation(ends, i), own)


@inner
def _coupling(i, bodies, pose, ends, k):
    """Return column k of R K, the angular momentum by the rate of scale k of a body scaled per axis."""
    q = bodies.moment
    a, b, c = pose[i, SHAPE], pose[i, SHAPE + 1], pose[i, SHAPE + 2]
    if k == 0:
        x, y, z = 0.0, c * q[i, 4], -b * q[i, 3]
    elif k == 1:
        x, y, z = -c * q[i, 5], 0.0, a * q[i, 3]
    else:
        x, y, z = b * q[i, 5], -a * q[i, 4], 0.0
    return (
        ends[i, 0] * x + ends[i, 1] * y + ends[i, 2] * z,
        ends[i, 3] * x + ends[i, 4] * y + ends[i, 5] * z,
        ends[i, 6] * x + ends[i, 7] * y + ends[i, 8] * z,
    )


@outlined
def set_masses(
    # model
    bodies,
    # in
    pose, ends,
    # out
    m,
):  # fmt: skip
    """Fill the mass block of every body, row-major."""
    kinds, start, block = bodies.kind, bodies.start, bodies.block
    for i in range(len(kinds)):
        kind, o, d = kinds[i], block[i], start[i + 1] - start[i]
        if kind == REGISTERED_BODY:
            write_registered_mass(i, d, bodies.registered, o, m)
            continue
        for c in range(d * d):
            m[o + c] = 0.0
        if kind == PLANAR or kind == PARTICLE:
            m[o], m[o + 4] = bodies.mass[i], bodies.mass[i]
            m[o + 8] = bodies.inertia[i, 2] if kind == PLANAR else bodies.mass[i]
            continue
        if kind == AFFINE:
            q = bodies.moment
            for c in range(3):
                m[o + c * 13] = bodies.mass[i]
                j = o + (3 + 3 * c) * 13
                m[j], m[j + 13], m[j + 26] = q[i, 0], q[i, 1], q[i, 2]
                m[j + 1], m[j + 2], m[j + 14] = q[i, 3], q[i, 4], q[i, 5]
                m[j + 12], m[j + 24], m[j + 25] = q[i, 3], q[i, 4], q[i, 5]
            continue
        xx, yy, zz, xy, xz, yz = world_inertia(i, kind, bodies, pose, ends)
        m[o], m[o + d + 1], m[o + 2 * d + 2] = xx, yy, zz
        m[o + 1], m[o + 2], m[o + d + 2] = xy, xz, yz
        m[o + d], m[o + 2 * d], m[o + 2 * d + 1] = xy, xz, yz
        for c in range(3):
            m[o + (3 + c) * (d + 1)] = bodies.mass[i]
        if kind == SCALABLE:
            m[o + 48] = bodies.moment[i, 0] + bodies.moment[i, 1] + bodies.moment[i, 2]
        elif kind == SCALABLE_AXES:
            for k in range(3):
                m[o + (6 + k) * 10] = bodies.moment[i, k]
                x, y, z = _coupling(i, bodies, pose, ends, k)
                m[o + 6 + k], m[o + 15 + k], m[o + 24 + k] = x, y, z
                m[o + (6 + k) * 9], m[o + (6 + k) * 9 + 1], m[o + (6 + k) * 9 + 2] = x, y, z


@inner
def _add_scale_forces(i, kind, bodies, pose, ends, o, f):
    """Subtract the inertial force of a scalable body from f, and add the springs of its scales."""
    q, maps = bodies.moment, bodies.maps
    # B Q with B the bias map: its product with G^T gives the torque, with R the forces on the scales
    qm = (q[i, 0], q[i, 3], q[i, 4], q[i, 3], q[i, 1], q[i, 5], q[i, 4], q[i, 5], q[i, 2])
    b = _matrix(maps, i, _BIAS)
    g = _matrix(maps, i, _G)
    x10 = x01 = x20 = x02 = x21 = x12 = 0.0
    total = 0.0
    for k in range(3):
        t0 = b[0] * qm[k] + b[1] * qm[3 + k] + b[2] * qm[6 + k]
        t1 = b[3] * qm[k] + b[4] * qm[3 + k] + b[5] * qm[6 + k]
        t2 = b[6] * qm[k] + b[7] * qm[3 + k] + b[8] * qm[6 + k]
        x10, x01 = x10 + t1 * g[k], x01 + t0 * g[3 + k]
        x20, x02 = x20 + t2 * g[k], x02 + t0 * g[6 + k]
        x21, x12 = x21 + t2 * g[3 + k], x12 + t1 * g[6 + k]
        own = t0 * ends[i, k] + t1 * ends[i, 3 + k] + t2 * ends[i, 6 + k]
        if kind == SCALABLE_AXES:
            f[o + 6 + k] -= own + bodies.scale_spring[i, 0] * (pose[i, SHAPE + k] - bodies.scale_spring[i, 1 + k])
        total += own
    if kind == SCALABLE:
        f[o + 6] -= total + bodies.scale_spring[i, 0] * (pose[i, SHAPE] - bodies.scale_spring[i, 1])
    f[o] -= x21 - x12
    f[o + 1] -= x02 - x20
    f[o + 2] -= x10 - x01


@outlined
def _add_affine_elasticity(i, k, pose, o, f):
    """Subtract k A (A^T A - 1) from f: the force of the energy k/4 |A^T A - 1|^2."""
    for c in range(3):
        for d in range(3):
            square = -1.0 if c == d else 0.0
            for j in range(3):
                square += pose[i, SHAPE + 3 * j + c] * pose[i, SHAPE + 3 * j + d]
            for j in range(3):
                f[o + 3 * j + d] -= k * pose[i, SHAPE + 3 * j + c] * square


@outlined
def set_inertial_forces(
    # model
    bodies,
    # in
    gravity, pose, ends,
    # out
    f,
):  # fmt: skip
    """Set f to gravity, gyroscopic and other inertial forces, and the springs of scalable and affine bodies."""
    kinds, start = bodies.kind, bodies.start
    for i in range(len(kinds)):
        kind, o, m = kinds[i], start[i], bodies.mass[i]
        if kind == RIGID or kind == SCALABLE or kind == SCALABLE_AXES:
            f[o + 3], f[o + 4], f[o + 5] = m * gravity[0], m * gravity[1], m * gravity[2]
            if kind == RIGID:
                wx, wy, wz = ends[i, 12], ends[i, 13], ends[i, 14]
                lx, ly, lz = symmetric_times(world_inertia(i, kind, bodies, pose, ends), wx, wy, wz)
                x, y, z = cross(wx, wy, wz, lx, ly, lz)
                f[o], f[o + 1], f[o + 2] = -x, -y, -z
            else:
                for c in range(3):
                    f[o + c] = 0.0
                for c in range(6, start[i + 1] - o):
                    f[o + c] = 0.0
                _add_scale_forces(i, kind, bodies, pose, ends, o, f)
        elif kind == PLANAR:
            f[o], f[o + 1], f[o + 2] = m * gravity[0], m * gravity[1], 0.0
        elif kind == REGISTERED_BODY:
            set_registered_forces(i, start[i + 1] - o, bodies.registered, m, gravity, o, f)
        else:
            f[o], f[o + 1], f[o + 2] = m * gravity[0], m * gravity[1], m * gravity[2]
            if kind == AFFINE:
                for c in range(9):
                    f[o + 3 + c] = 0.0
                if bodies.scale_spring[i, 0] > 0.0:
                    _add_affine_elasticity(i, 0.5 * bodies.scale_spring[i, 0], pose, o + 3, f)


@inner
def _mapped(maps, i, o, x, y, z):
    return (
        maps[i, o] * x + maps[i, o + 1] * y + maps[i, o + 2] * z,
        maps[i, o + 3] * x + maps[i, o + 4] * y + maps[i, o + 5] * z,
        maps[i, o + 6] * x + maps[i, o + 7] * y + maps[i, o + 8] * z,
    )


@inner
def body_point(bodies, i, px, py, pz, ends):
    """Return lever, velocity and bias of the point p of a body that is not rigid, the first two from its com."""
    if bodies.kind[i] == REGISTERED_BODY:
        own = bodies.registered
        set_registered_point(i, bodies.address, own, bodies.data, px, py, pz)
        return (
            own[i, POINT_POSITION] - ends[i, 9], own[i, POINT_POSITION + 1] - ends[i, 10],
            own[i, POINT_POSITION + 2] - ends[i, 11], own[i, POINT_VELOCITY] - ends[i, 15],
            own[i, POINT_VELOCITY + 1] - ends[i, 16], own[i, POINT_VELOCITY + 2] - ends[i, 17], own[i, POINT_BIAS],
            own[i, POINT_BIAS + 1], own[i, POINT_BIAS + 2],
        )  # fmt: skip
    gx, gy, gz = _mapped(bodies.maps, i, _G, px, py, pz)
    vx, vy, vz = _mapped(bodies.maps, i, _RATE, px, py, pz)
    bx, by, bz = _mapped(bodies.maps, i, _BIAS, px, py, pz)
    return gx, gy, gz, vx, vy, vz, bx, by, bz


@inner
def set_scalable_pair(
    # in
    k, link, frame, bodies, ends,
    # out
    state,
):  # fmt: skip
    """Correct lever, gap, its rate and z of pair k, filled by `set_pair`, for ends on bodies that are not rigid."""
    for end in range(2):
        i = link[k, end]
        if i < 0 or bodies.kind[i] < SCALABLE:
            continue
        sign = -1.0 if end == 0 else 1.0
        lever, o = (LEVER_A, 9) if end == 0 else (LEVER_B, 21)
        px, py, pz = frame[k, o], frame[k, o + 1], frame[k, o + 2]
        lx, ly, lz = state[k, lever], state[k, lever + 1], state[k, lever + 2]
        wx, wy, wz = ends[i, 12], ends[i, 13], ends[i, 14]
        cx, cy, cz = cross(wx, wy, wz, lx, ly, lz)
        ax, ay, az = cross(wx, wy, wz, cx, cy, cz)
        gx, gy, gz, vx, vy, vz, bx, by, bz = body_point(bodies, i, px, py, pz, ends)
        state[k, lever], state[k, lever + 1], state[k, lever + 2] = gx, gy, gz
        state[k, GAP] += sign * (gx - lx)
        state[k, GAP + 1] += sign * (gy - ly)
        state[k, GAP + 2] += sign * (gz - lz)
        state[k, RATE] += sign * (vx - cx)
        state[k, RATE + 1] += sign * (vy - cy)
        state[k, RATE + 2] += sign * (vz - cz)
        state[k, CENTRE] += sign * (bx - ax)
        state[k, CENTRE + 1] += sign * (by - ay)
        state[k, CENTRE + 2] += sign * (bz - az)


@inner
def add_row(bodies, i, ends, px, py, pz, nx, ny, nz, fx, fy, fz, o, j):
    """Add to j[o:] the row of a torque n about the com, lever included, with a force f at the body's point p.

    Args:
        bodies: the bodies.
        i: the body.
        ends: of all bodies.
        px, py, pz: the point in body axes.
        nx, ny, nz: torque about the com, lever included.
        fx, fy, fz: force.
        o: index in j.
        j: flat rows.
    """
    kind = bodies.kind[i]
    if kind == RIGID or kind == SCALABLE or kind == SCALABLE_AXES:
        j[o] += nx
        j[o + 1] += ny
        j[o + 2] += nz
        j[o + 3] += fx
        j[o + 4] += fy
        j[o + 5] += fz
        if kind != RIGID:
            x = px * (fx * ends[i, 0] + fy * ends[i, 3] + fz * ends[i, 6])
            y = py * (fx * ends[i, 1] + fy * ends[i, 4] + fz * ends[i, 7])
            z = pz * (fx * ends[i, 2] + fy * ends[i, 5] + fz * ends[i, 8])
            if kind == SCALABLE:
                j[o + 6] += x + y + z
            else:
                j[o + 6] += x
                j[o + 7] += y
                j[o + 8] += z
    elif kind == PLANAR:
        j[o] += fx
        j[o + 1] += fy
        j[o + 2] += nz
    elif kind == REGISTERED_BODY:
        dim = bodies.start[i + 1] - bodies.start[i]
        add_registered_row(i, dim, bodies.address, bodies.registered, bodies.data, px, py, pz, fx, fy, fz, o, j)
    else:
        j[o], j[o + 1], j[o + 2] = j[o] + fx, j[o + 1] + fy, j[o + 2] + fz
        if kind == AFFINE:
            j[o + 3] += fx * px
            j[o + 4] += fx * py
            j[o + 5] += fx * pz
            j[o + 6] += fy * px
            j[o + 7] += fy * py
            j[o + 8] += fy * pz
            j[o + 9] += fz * px
            j[o + 10] += fz * py
            j[o + 11] += fz * pz


@outlined
def pose_rates(
    # model
    bodies,
    # in
    pose, u,
    # out
    rates,
):  # fmt: skip
    """Fill the time derivative of every pose, quaternions in R^4."""
    kinds, start = bodies.kind, bodies.start
    for i in range(len(kinds)):
        kind, o = kinds[i], start[i]
        for c in range(POSE):
            rates[i, c] = 0.0
        if kind == REGISTERED_BODY:
            move_registered(i, start[i + 1] - o, o, 1.0, u, rates)
            continue
        turning = kind == RIGID or kind == SCALABLE or kind == SCALABLE_AXES
        linear = o + 3 if turning else o
        rates[i, 0], rates[i, 1] = u[linear], u[linear + 1]
        if kind != PLANAR:
            rates[i, 2] = u[linear + 2]
        if turning or kind == PLANAR:
            t = ROTATION
            half = (0.0, 0.5 * u[o], 0.5 * u[o + 1], 0.5 * u[o + 2]) if turning else (0.0, 0.0, 0.0, 0.5 * u[o + 2])
            w, x, y, z = quaternion_multiply(half, (pose[i, t], pose[i, t + 1], pose[i, t + 2], pose[i, t + 3]))
            rates[i, t], rates[i, t + 1], rates[i, t + 2], rates[i, t + 3] = w, x, y, z
        first = o + 6 if turning else o + 3
        for c in range(first, start[i + 1]):
            rates[i, SHAPE + c - first] = u[c]


@inner
def normalize_poses(pose):
    """Normalise all quaternions."""
    t = ROTATION
    for i in range(len(pose)):
        w, x, y, z = pose[i, t], pose[i, t + 1], pose[i, t + 2], pose[i, t + 3]
        f = 1.0 / math.sqrt(w * w + x * x + y * y + z * z)
        pose[i, t], pose[i, t + 1], pose[i, t + 2], pose[i, t + 3] = f * w, f * x, f * y, f * z


@outlined
def add_geometric_inertia(bodies, scale, k, m):
    """Multiply the inertias of rigid and planar bodies by 1 + scale k.

    In place of the stiffness that constraint forces have, since they turn with the bodies they act on.
    """
    for i in range(len(k)):
        o, f = bodies.block[i], 1.0 + scale * k[i]
        if bodies.kind[i] == RIGID:
            for r in range(3):
                for c in range(3):
                    m[o + 6 * r + c] *= f
        elif bodies.kind[i] == PLANAR:
            m[o + 8] *= f


@outlined
def move_bodies(
    # model
    bodies,
    # in
    h, u,
    # out
    pose,
):  # fmt: skip
    """Move every pose by h u: positions and scales add, quaternions are rotated and normalised."""
    kinds, start = bodies.kind, bodies.start
    for i in range(len(kinds)):
        kind, o = kinds[i], start[i]
        if kind == REGISTERED_BODY:
            move_registered(i, start[i + 1] - o, o, h, u, pose)
            continue
        turning = kind == RIGID or kind == SCALABLE or kind == SCALABLE_AXES
        linear = o + 3 if turning else o
        pose[i, 0] += h * u[linear]
        pose[i, 1] += h * u[linear + 1]
        if kind != PLANAR:
            pose[i, 2] += h * u[linear + 2]
        if turning or kind == PLANAR:
            if turning:
                step = quaternion_exp(h * u[o], h * u[o + 1], h * u[o + 2])
            else:
                step = quaternion_exp(0.0, 0.0, h * u[o + 2])
            t = ROTATION
            w, x, y, z = quaternion_multiply(step, (pose[i, t], pose[i, t + 1], pose[i, t + 2], pose[i, t + 3]))
            f = 1.0 / math.sqrt(w * w + x * x + y * y + z * z)
            pose[i, t], pose[i, t + 1], pose[i, t + 2], pose[i, t + 3] = f * w, f * x, f * y, f * z
        first = o + 6 if turning else o + 3
        for c in range(first, start[i + 1]):
            pose[i, SHAPE + c - first] += h * u[c]


@outlined
def midpoint_newton(own, lx, ly, lz, x, y, z):
    """Return the rotation vector t with I t = exp(-t/2) l in body axes, by Newton's method from a guess (x, y, z).

    The Jacobian is I - [k], k = exp(-t/2) l / 2, without what is of second order in t. Its inverse for a symmetric I,

        (I - [k])^-1 e = (I^-1 e + (k (k.e) + (I k) x e) / det I) / (1 + k.I k / det I),

    is exact for any k: bodies with hardly any inertia about one axis turn about it by any small change of k.
    """
    xx, yy, zz, xy, xz, yz = own
    det = xx * (yy * zz - yz * yz) - xy * (xy * zz - yz * xz) + xz * (xy * yz - yy * xz)
    s, least = 1.0 / det, np.inf
    for _ in range(40):
        w, a, b, c = quaternion_exp(-0.5 * x, -0.5 * y, -0.5 * z)
        ux, uy, uz = cross(a, b, c, lx, ly, lz)
        vx, vy, vz = cross(a, b, c, ux, uy, uz)
        kx, ky, kz = lx + 2.0 * (w * ux + vx), ly + 2.0 * (w * uy + vy), lz + 2.0 * (w * uz + vz)
        ex, ey, ez = symmetric_times(own, x, y, z)
        ex, ey, ez = kx - ex, ky - ey, kz - ez
        kx, ky, kz = 0.5 * kx, 0.5 * ky, 0.5 * kz
        _, dx, dy, dz = solve_symmetric_3(own, ex, ey, ez)
        px, py, pz = symmetric_times(own, kx, ky, kz)
        along, f = s * (kx * ex + ky * ey + kz * ez), 1.0 / (1.0 + s * (kx * px + ky * py + kz * pz))
        cx, cy, cz = cross(px, py, pz, ex, ey, ez)
        dx, dy, dz = f * (dx + along * kx + s * cx), f * (dy + along * ky + s * cy), f * (dz + along * kz + s * cz)
        change = abs(dx) + abs(dy) + abs(dz)
        x, y, z = x + dx, y + dy, z + dz
        if change < 1e-15 or (change < 1e-6 and not change < 0.5 * least):
            break
        least = change
    return x, y, z


@inner
def midpoint_rotation(inertia, i, h, orientation, lx, ly, lz):
    """Return the rotation vector of body i over h with angular momentum L.

    In body axes, L = R^T L_world, it is the fixed point t = h I^-1 exp(-t/2) L: the midpoint rule, since exp(t/2) t =
    t.

    Args:
        inertia: (bodies, 6) about the com in body axes.
        i: the body.
        h: step [s].
        orientation: its quaternion.
        lx, ly, lz: angular momentum in world axes.
    """
    own = (inertia[i, 0], inertia[i, 1], inertia[i, 2], inertia[i, 3], inertia[i, 4], inertia[i, 5])
    r = rotation_from_quaternion(orientation[0], orientation[1], orientation[2], orientation[3])
    lx, ly, lz = rotate_back(r, h * lx, h * ly, h * lz)
    _, x, y, z = solve_symmetric_3(own, lx, ly, lz)
    change = 0.0
    for _ in range(20):
        w, a, b, c = quaternion_exp(-0.5 * x, -0.5 * y, -0.5 * z)
        ux, uy, uz = cross(a, b, c, lx, ly, lz)
        vx, vy, vz = cross(a, b, c, ux, uy, uz)
        _, wx, wy, wz = solve_symmetric_3(
            own, lx + 2.0 * (w * ux + vx), ly + 2.0 * (w * uy + vy), lz + 2.0 * (w * uz + vz)
        )
        change = abs(wx - x) + abs(wy - y) + abs(wz - z)
        x, y, z = wx, wy, wz
        if change < 1e-15:
            break
    if not change < 1e-9:
        # thin bodies: h |L| beyond the least moment of inertia
        _, x, y, z = solve_symmetric_3(own, lx, ly, lz)
        x, y, z = midpoint_newton(own, lx, ly, lz, x, y, z)
    return rotate(r, x, y, z)


@inner
def rotated(orientation, x, y, z):
    """Return the quaternion `orientation` turned by a rotation vector in world axes, of length 1."""
    w, a, b, c = quaternion_multiply(quaternion_exp(x, y, z), orientation)
    f = 1.0 / math.sqrt(w * w + a * a + b * b + c * c)
    return f * w, f * a, f * b, f * c
