"""How bodies move: forces and grips on velocities, positions and orientations, conserved angular momentum.

Positions and orientations follow equation (1) of Weinstein, Teran and Fedkiw (2006), section III, x + h v and
q^(h w) q, refined for free bodies: these follow their parabolas exactly, and turn with the mean of the angular
velocities before and after. A body conserves its angular momentum while it turns (the paper evolves L = I w), so that
after each move w <- I(R')^-1 I(R) w.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from limberjack._jit import inner, outlined
from limberjack.spatial.quaternions import quaternion_exp, quaternion_log, quaternion_multiply, rotation_from_quaternion
from limberjack.spatial.solves import solve_symmetric_3
from limberjack.spatial.threads import Team
from limberjack.spatial.vectors import cross, rotate, rotate_back, rotate_symmetric, symmetric_times

__all__ = [
    "Bulk", "FREE", "LED_BY_ROWS", "MOVED", "apply_forces", "apply_grips", "conserve_momentum", "drift_body",
    "fix_moved_bodies", "move", "move_bodies", "point_inverse_mass", "set_inverse", "set_moved_velocities", "set_reach",
    "set_velocities_from_motion", "six", "turned", "turned_freely", "turned_velocity",
]  # fmt: skip

# Columns of a grip: point relative to the com in body axes, target, stiffness, damping, largest force, force of the
# last step, lever of its torques (0 where the rotation is free), target quaternion of the body.
GRIP_POINT, GRIP_TARGET, GRIP_SOFT, GRIP_IMPULSE, GRIP_LEVER, GRIP_TURN, GRIP = 0, 3, 6, 9, 12, 13, 17

# Bodies without joints turn in pieces of at most this [rad], up to so many.
_PIECE, _MOST_PIECES = 0.2, 32

# How the motion of a body is prescribed: not at all, by its rows, by `Simulation.move`.
FREE, LED_BY_ROWS, MOVED = range(3)

# Inertia of moved bodies in the joints' solve, over their own. Joints that forbid the motion still win.
_HEAVY = 1e8

# Indices in `Bulk.spent`.
ALL, JOINED, SWEPT = range(3)


class Bulk(NamedTuple):
    """Inertias, marks and work arrays of n bodies."""

    inertia: np.ndarray  # (n, 6) about the com, body axes
    own: np.ndarray  # (n, 6) its inverse
    mass: np.ndarray  # (n,)
    inverse: np.ndarray  # (n, 7) inverse inertia in world axes, inverse mass
    extent: np.ndarray  # (n,) radius of its shapes about the com [m]
    round: np.ndarray  # (n,) 1 where all moments of inertia are equal
    jointed: np.ndarray  # (n,) 1 where the body has a joint or spring
    free: np.ndarray  # (n,) 1 where it has neither joint nor contact impulse
    normal_impulse: np.ndarray  # (n, 3) sum of the impulses of its contacts along their normals
    asleep: np.ndarray  # (n,) 1 where it sleeps
    calm: np.ndarray  # (n,) how long it has been slow [s]
    reach: np.ndarray  # (n,) how far its points may move in a step [m]
    moving: np.ndarray  # (n,) scratch of islands, at their roots
    pull: np.ndarray  # (n,) square of the frequency at which its joints turn it, times the time, in a substep so far
    pulled: np.ndarray  # (n,) the same of the substep before
    anisotropy: np.ndarray  # (n,) by how much its largest moment of inertia over the smallest exceeds one
    fast: np.ndarray  # (n,) TURNING or FAST in a substep, see `ccd.py`, else 0
    part: np.ndarray  # (n,) part of the motion of a substep that it makes
    turn: np.ndarray  # (n, 3) angular velocity of a fast body times the substep [rad]
    led: np.ndarray  # (n,) FREE, LED_BY_ROWS or MOVED; led bodies have infinite mass in contacts
    led_count: np.ndarray  # (1,) how many are
    prescribed: np.ndarray  # (n, 6) velocities of moved bodies
    carried: np.ndarray  # (n,) 1 in islands that touch a moving led body
    spent: np.ndarray  # (3,) ticks of the last steps: all, of joints, and of contact sweeps within those of joints
    team: Team  # threads


@inner
def six(table, i):
    """Return the first six numbers of row i."""
    return (table[i, 0], table[i, 1], table[i, 2], table[i, 3], table[i, 4], table[i, 5])


@inner
def point_inverse_mass(inverse, i, x, y, z):
    """Return the six numbers of K = 1 / m + [r]^T I^-1 [r], the response to impulses at the point r from the com."""
    a = six(inverse, i)
    # column by column
    px, py, pz = symmetric_times(a, 0.0, z, -y)
    k0x, k0y, k0z = cross(px, py, pz, x, y, z)
    px, py, pz = symmetric_times(a, -z, 0.0, x)
    _, k1y, k1z = cross(px, py, pz, x, y, z)
    px, py, pz = symmetric_times(a, y, -x, 0.0)
    _, _, k2z = cross(px, py, pz, x, y, z)
    m = inverse[i, 6]
    return k0x + m, k1y + m, k2z + m, k0y, k0z, k1z


@outlined
def set_reach(gravity, dt, u, bulk):
    """Fill how far the points of each body may move within dt."""
    g = math.sqrt(gravity[0] * gravity[0] + gravity[1] * gravity[1] + gravity[2] * gravity[2])
    for i in range(len(bulk.mass)):
        o = 6 * i
        w = math.sqrt(u[o] * u[o] + u[o + 1] * u[o + 1] + u[o + 2] * u[o + 2])
        v = math.sqrt(u[o + 3] * u[o + 3] + u[o + 4] * u[o + 4] + u[o + 5] * u[o + 5])
        turned = bulk.extent[i] * min(w * dt, 2.0)
        bulk.reach[i] = 0.0 if bulk.asleep[i] else v * dt + turned + g * dt * dt


@outlined
def apply_forces(gravity, wrenches, center, h, pose, bulk, u):
    """Apply gravity and wrenches over h to the bodies that are awake."""
    for i in range(len(bulk.mass)):
        if not bulk.asleep[i] and bulk.led[i] != MOVED:
            o = 6 * i
            u[o + 3] += h * gravity[0]
            u[o + 4] += h * gravity[1]
            u[o + 5] += h * gravity[2]
    d = wrenches.data
    for k in range(len(wrenches.link)):
        i = wrenches.link[k]
        if bulk.led[i] == MOVED:
            continue
        o, f = 6 * i, h / bulk.mass[i]
        r = rotation_from_quaternion(pose[i, 3], pose[i, 4], pose[i, 5], pose[i, 6])
        x, y, z = rotate(r, d[k, 0] - center[i, 0], d[k, 1] - center[i, 1], d[k, 2] - center[i, 2])
        x, y, z = cross(x, y, z, d[k, 3], d[k, 4], d[k, 5])
        x, y, z = symmetric_times(six(bulk.inverse, i), h * (x + d[k, 6]), h * (y + d[k, 7]), h * (z + d[k, 8]))
        u[o] += x
        u[o + 1] += y
        u[o + 2] += z
        u[o + 3] += f * d[k, 3]
        u[o + 4] += f * d[k, 4]
        u[o + 5] += f * d[k, 5]


@inner
def _apply_grip_angular_impulse(h, i, t, grips, bulk, pose, u):
    """Apply the angular impulse of a grip, by a spring and damper like those of its point."""
    lever, soft, turn = grips[t, GRIP_LEVER], GRIP_SOFT, GRIP_TURN
    k, c, most = lever * lever * grips[t, soft], lever * lever * grips[t, soft + 1], h * lever * grips[t, soft + 2]
    back = grips[t, turn], -grips[t, turn + 1], -grips[t, turn + 2], -grips[t, turn + 3]
    w, x, y, z = quaternion_multiply((pose[i, 3], pose[i, 4], pose[i, 5], pose[i, 6]), back)
    x, y, z = quaternion_log(w, x, y, z)
    o, stiff, a = 6 * i, c + h * k, six(bulk.inverse, i)
    f, give = k / stiff, 1.0 / (h * stiff)
    _, x, y, z = solve_symmetric_3(
        (a[0] + give, a[1] + give, a[2] + give, a[3], a[4], a[5]), -u[o] - f * x, -u[o + 1] - f * y, -u[o + 2] - f * z
    )
    x, y, z = min(max(x, -most), most), min(max(y, -most), most), min(max(z, -most), most)
    x, y, z = symmetric_times(a, x, y, z)
    u[o] += x
    u[o + 1] += y
    u[o + 2] += z


@outlined
def apply_grips(h, grip_link, grips, pose, bulk, u):
    """Apply the impulses of grips: springs and dampers to their targets, implicit in h, bounded by a largest force.

    The impulse p of a grip solves v + K p = -(k e + p / h) / (c + h k) with the velocity v and the error e of its
    point. Those with a target rotation do the same with angular velocity, inverse inertia and rotation error.
    """
    for t in range(len(grip_link)):
        i = grip_link[t]
        o = 6 * i
        r = rotation_from_quaternion(pose[i, 3], pose[i, 4], pose[i, 5], pose[i, 6])
        x, y, z = rotate(r, grips[t, 0], grips[t, 1], grips[t, 2])
        stiff, most = grips[t, GRIP_SOFT + 1] + h * grips[t, GRIP_SOFT], h * grips[t, GRIP_SOFT + 2]
        wx, wy, wz = cross(u[o], u[o + 1], u[o + 2], x, y, z)
        f, m = grips[t, GRIP_SOFT] / stiff, bulk.inverse[i, 6]
        sx = -(u[o + 3] + wx + f * (pose[i, 0] + x - grips[t, GRIP_TARGET]))
        sy = -(u[o + 4] + wy + f * (pose[i, 1] + y - grips[t, GRIP_TARGET + 1]))
        sz = -(u[o + 5] + wz + f * (pose[i, 2] + z - grips[t, GRIP_TARGET + 2]))
        a, give = six(bulk.inverse, i), 1.0 / (h * stiff)
        k = point_inverse_mass(bulk.inverse, i, x, y, z)
        _, px, py, pz = solve_symmetric_3((k[0] + give, k[1] + give, k[2] + give, k[3], k[4], k[5]), sx, sy, sz)
        px, py, pz = min(max(px, -most), most), min(max(py, -most), most), min(max(pz, -most), most)
        grips[t, GRIP_IMPULSE], grips[t, GRIP_IMPULSE + 1], grips[t, GRIP_IMPULSE + 2] = px / h, py / h, pz / h
        qx, qy, qz = cross(x, y, z, px, py, pz)
        qx, qy, qz = symmetric_times(a, qx, qy, qz)
        u[o] += qx
        u[o + 1] += qy
        u[o + 2] += qz
        u[o + 3] += m * px
        u[o + 4] += m * py
        u[o + 5] += m * pz
        if grips[t, GRIP_LEVER] > 0.0:
            _apply_grip_angular_impulse(h, i, t, grips, bulk, pose, u)


@inner
def turned(x, y, z, pose, i):
    """Return the quaternion of body i turned by the rotation vector (x, y, z)."""
    w, a, b, c = quaternion_multiply(quaternion_exp(x, y, z), (pose[i, 3], pose[i, 4], pose[i, 5], pose[i, 6]))
    f = 1.0 / math.sqrt(w * w + a * a + b * b + c * c)
    return f * w, f * a, f * b, f * c


@inner
def turned_velocity(i, bulk, before, w, x, y, z, wx, wy, wz):
    """Return the angular velocity of body i after it has turned from its pose before to (w, x, y, z)."""
    r = rotation_from_quaternion(before[i, 3], before[i, 4], before[i, 5], before[i, 6])
    wx, wy, wz = rotate_back(r, wx, wy, wz)
    wx, wy, wz = symmetric_times(six(bulk.inertia, i), wx, wy, wz)
    wx, wy, wz = rotate(r, wx, wy, wz)
    r = rotation_from_quaternion(w, x, y, z)
    wx, wy, wz = rotate_back(r, wx, wy, wz)
    wx, wy, wz = symmetric_times(six(bulk.own, i), wx, wy, wz)
    return rotate(r, wx, wy, wz)


@inner
def _spin(i, bulk, a, b, c, d, x, y, z):
    """Return the rotation vector of body i at the quaternion (a, b, c, d) for angular momentum times time (x, y, z)."""
    r = rotation_from_quaternion(a, b, c, d)
    x, y, z = rotate_back(r, x, y, z)
    x, y, z = symmetric_times(six(bulk.own, i), x, y, z)
    return rotate(r, x, y, z)


@outlined
def turned_freely(i, x, y, z, before, bulk):
    """Return the quaternion of free body i after a rotation with the initial rotation vector (x, y, z).

    Large rotations are taken in pieces, each by the mean of the velocities before and after: a single one could end
    where the same angular momentum has many times the energy. Still larger ones are about the angular momentum, which
    conserves both; the phase within the rotation no longer matters then.
    """
    w, a, b, c = before[i, 3], before[i, 4], before[i, 5], before[i, 6]
    r = rotation_from_quaternion(w, a, b, c)
    lx, ly, lz = rotate_back(r, x, y, z)
    lx, ly, lz = symmetric_times(six(bulk.inertia, i), lx, ly, lz)
    lx, ly, lz = rotate(r, lx, ly, lz)
    turn = math.sqrt(x * x + y * y + z * z)
    if turn > _MOST_PIECES * _PIECE:
        f = (x * lx + y * ly + z * lz) / (lx * lx + ly * ly + lz * lz)
        return turned(f * lx, f * ly, f * lz, before, i)
    pieces = int(turn / _PIECE) + 1
    f = 1.0 / pieces
    lx, ly, lz = f * lx, f * ly, f * lz
    for _ in range(pieces):
        x, y, z = _spin(i, bulk, w, a, b, c, lx, ly, lz)
        p = quaternion_multiply(quaternion_exp(x, y, z), (w, a, b, c))
        tx, ty, tz = _spin(i, bulk, p[0], p[1], p[2], p[3], lx, ly, lz)
        x, y, z = 0.5 * (x + tx), 0.5 * (y + ty), 0.5 * (z + tz)
        w, a, b, c = quaternion_multiply(quaternion_exp(x, y, z), (w, a, b, c))
        f = 1.0 / math.sqrt(w * w + a * a + b * b + c * c)
        w, a, b, c = f * w, f * a, f * b, f * c
    return w, a, b, c


@inner
def drift_body(i, h, before, bulk, u, pose):
    """Move body i, which has joints, by h u from its pose before (equation (1)).

    It turns by the mean of its angular velocities before and after: without that, tumbling bodies gain energy.
    """
    o = 6 * i
    wx, wy, wz = u[o], u[o + 1], u[o + 2]
    for c in range(3):
        pose[i, c] = before[i, c] + h * u[o + 3 + c]
    if not bulk.round[i] and h * h * (wx * wx + wy * wy + wz * wz) > 1e-8:
        a, b, c, d = turned(h * wx, h * wy, h * wz, before, i)
        x, y, z = turned_velocity(i, bulk, before, a, b, c, d, wx, wy, wz)
        wx, wy, wz = 0.5 * (wx + x), 0.5 * (wy + y), 0.5 * (wz + z)
    pose[i, 3], pose[i, 4], pose[i, 5], pose[i, 6] = turned(h * wx, h * wy, h * wz, before, i)


@outlined
def move(h, gravity, before, u_before, bulk, u, pose):
    """Move all bodies that are awake; see `move_bodies`."""
    move_bodies(0, len(bulk.mass), h, gravity, before, u_before, bulk, u, pose)


@outlined
def move_bodies(first, last, h, gravity, before, u_before, bulk, u, pose):
    """Move the awake ones of bodies first .. last - 1 by h from the poses before; free ones along their parabolas.

    Bodies that slide or roll move with the mean of their velocities before and after, across the impulse of their
    contacts; the velocity that friction and slopes can change in a step tells sliding from impact. Those that led
    bodies carry move with the velocity after, as these do, or they would lag behind.
    """
    f, push = 0.5 * h * h, bulk.normal_impulse
    most = 4.0 * h * h * (gravity[0] * gravity[0] + gravity[1] * gravity[1] + gravity[2] * gravity[2])
    for i in range(first, last):
        if bulk.asleep[i]:
            continue
        o = 6 * i
        wx, wy, wz = u[o], u[o + 1], u[o + 2]
        x, y, z = before[i, 0] + h * u[o + 3], before[i, 1] + h * u[o + 4], before[i, 2] + h * u[o + 5]
        if bulk.free[i]:
            x, y, z = x - f * gravity[0], y - f * gravity[1], z - f * gravity[2]
        elif not bulk.jointed[i] and not bulk.carried[i] and most > 0.0:
            dx, dy, dz = u[o + 3] - u_before[o + 3], u[o + 4] - u_before[o + 4], u[o + 5] - u_before[o + 5]
            square = push[i, 0] * push[i, 0] + push[i, 1] * push[i, 1] + push[i, 2] * push[i, 2]
            if square > 0.0:
                along = (dx * push[i, 0] + dy * push[i, 1] + dz * push[i, 2]) / square
                dx, dy, dz = dx - along * push[i, 0], dy - along * push[i, 1], dz - along * push[i, 2]
            if dx * dx + dy * dy + dz * dz < most:
                x, y, z = x - 0.5 * h * dx, y - 0.5 * h * dy, z - 0.5 * h * dz
        pose[i, 0], pose[i, 1], pose[i, 2] = x, y, z
        turn = h * h * (wx * wx + wy * wy + wz * wz)
        if turn > _PIECE * _PIECE and not bulk.round[i] and not bulk.jointed[i]:
            pose[i, 3], pose[i, 4], pose[i, 5], pose[i, 6] = turned_freely(i, h * wx, h * wy, h * wz, before, bulk)
            continue
        if turn > 1e-8 and not bulk.round[i] and not bulk.jointed[i]:
            # the mean of the velocities before and after the turn
            a, b, c, d = turned(h * wx, h * wy, h * wz, before, i)
            x, y, z = turned_velocity(i, bulk, before, a, b, c, d, wx, wy, wz)
            wx, wy, wz = 0.5 * (wx + x), 0.5 * (wy + y), 0.5 * (wz + z)
        pose[i, 3], pose[i, 4], pose[i, 5], pose[i, 6] = turned(h * wx, h * wy, h * wz, before, i)


@inner
def set_inverse(i, pose, bulk):
    """Fill the inverse inertia of body i in world axes; none of led bodies."""
    if bulk.led[i]:
        for c in range(7):
            bulk.inverse[i, c] = 0.0
        return
    k = rotate_symmetric(rotation_from_quaternion(pose[i, 3], pose[i, 4], pose[i, 5], pose[i, 6]), six(bulk.own, i))
    bulk.inverse[i, 0], bulk.inverse[i, 1], bulk.inverse[i, 2] = k[0], k[1], k[2]
    bulk.inverse[i, 3], bulk.inverse[i, 4], bulk.inverse[i, 5] = k[3], k[4], k[5]
    bulk.inverse[i, 6] = 1.0 / bulk.mass[i]


@outlined
def set_moved_velocities(bulk, u):
    """Give the moved bodies the velocities that are prescribed."""
    if bulk.led_count[0] > 0:
        for i in range(len(bulk.led)):
            if bulk.led[i] == MOVED:
                for c in range(6):
                    u[6 * i + c] = bulk.prescribed[i, c]


@outlined
def fix_moved_bodies(mass_start, bulk, m, force):
    """Make the mass blocks of moved bodies huge, and leave out the forces on them."""
    if bulk.led_count[0] > 0:
        for i in range(len(bulk.led)):
            if bulk.led[i] == MOVED:
                for c in range(mass_start[i], mass_start[i + 1]):
                    m[c] *= _HEAVY
                for c in range(6 * i, 6 * i + 6):
                    force[c] = 0.0


@outlined
def conserve_momentum(first, last, before, pose, bulk, u):
    """Conserve the angular momenta of bodies first .. last - 1, turned from the poses before.

    Their inverse inertias at the new poses are filled.
    """
    for i in range(first, last):
        if bulk.asleep[i]:
            continue
        o = 6 * i
        w, x, y, z = pose[i, 3], pose[i, 4], pose[i, 5], pose[i, 6]
        if not bulk.round[i] and not bulk.led[i]:
            u[o], u[o + 1], u[o + 2] = turned_velocity(i, bulk, before, w, x, y, z, u[o], u[o + 1], u[o + 2])
        set_inverse(i, pose, bulk)


@outlined
def set_velocities_from_motion(h, before, pose, bulk, u):
    """Set the velocities of bodies with joints to those of their displacement from the poses before in h."""
    f = 1.0 / h
    for i in range(len(bulk.mass)):
        if bulk.jointed[i] and not bulk.asleep[i]:
            o = 6 * i
            back = (before[i, 3], -before[i, 4], -before[i, 5], -before[i, 6])
            w, x, y, z = quaternion_multiply((pose[i, 3], pose[i, 4], pose[i, 5], pose[i, 6]), back)
            x, y, z = quaternion_log(w, x, y, z)
            u[o], u[o + 1], u[o + 2] = f * x, f * y, f * z
            for c in range(3):
                u[o + 3 + c] = f * (pose[i, c] - before[i, c])
