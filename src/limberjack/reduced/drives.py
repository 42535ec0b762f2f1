"""Forces in joints: dampers, springs, soft limits and PD motors, explicit or linearly implicit.

With K = -d tau/dq and B = -d tau/dqd, the force at the end of a step h is tau - h K qd - (h B + h^2 K) qdd, so

    tau <- tau - h K qd          added <- armature + h B + h^2 K

and the ABA solves the implicit step. h = 0 gives the explicit force.
"""

from __future__ import annotations

import math

import numpy as np

from limberjack._jit import inner, outlined
from limberjack.model.arrays import BALL_DRIVE, DOF, SCALAR_DRIVE, Drives
from limberjack.spatial.quaternions import quaternion_log, quaternion_multiply

__all__ = ["aim_drives", "ball_drive", "ball_law", "drive_forces", "scalar_drive", "spring_energy"]

# Columns of motors in the rows of drives.
_KP, _KD, _TARGET, _VELOCITY = 7, 8, 9, 10
_BALL_KP, _BALL_KD, _BALL_TARGET = 11, 12, 13
_FOUR, _THREE = np.arange(4), np.arange(3)


@inner
def scalar_drive(row, d, h, q, qd):
    """Return (tau, K, B) of scalar drive `row` at (q, qd); limits and motors are evaluated where the step leads."""
    k, b = d[row, 1], d[row, 0]
    tau = -k * (q - d[row, 2]) - b * qd
    ahead = q + h * qd
    if d[row, 5] > 0.0 and (ahead < d[row, 3] or ahead > d[row, 4]):
        edge = d[row, 3] if ahead < d[row, 3] else d[row, 4]
        push = -d[row, 5] * (q - edge) - d[row, 6] * qd
        # an explicit force never pulls back into the limit
        if h > 0.0 or (push > 0.0) == (q < edge):
            tau += push
            k += d[row, 5]
            b += d[row, 6]
    if d[row, 7] > 0.0 or d[row, 8] > 0.0:
        push = d[row, 7] * (d[row, 9] - q) + d[row, 8] * (d[row, 10] - qd)
        most = d[row, 11]
        if abs(push) < most:
            k += d[row, 7]
            b += d[row, 8]
            tau += push
        else:
            tau += math.copysign(most, push)
    return tau, k, b


@inner
def _turned_from(q, at, d, row, column):
    """Return the rotation vector from the quaternion in d[row, column:] to the one at q[at:], in the child's axes."""
    w, x, y, z = quaternion_multiply(
        (d[row, column], -d[row, column + 1], -d[row, column + 2], -d[row, column + 3]),
        (q[at], q[at + 1], q[at + 2], q[at + 3]),
    )
    return quaternion_log(w, x, y, z)


@inner
def ball_drive(row, d, h, q, iq, qd, iv):
    """Return the force of ball drive `row` (3) and what it adds to the joint's own inertia (3)."""
    x, y, z, k, bx, by, bz = ball_law(row, d, q, iq, qd, iv)
    return (
        x - h * k * qd[iv], y - h * k * qd[iv + 1], z - h * k * qd[iv + 2],
        h * bx + h * h * k, h * by + h * h * k, h * bz + h * h * k,
    )  # fmt: skip


@outlined
def ball_law(row, d, q, iq, qd, iv):
    """Return the force (3) of ball drive `row` at (q, qd), its stiffness K and its damping B about the axes (3)."""
    wx, wy, wz = qd[iv], qd[iv + 1], qd[iv + 2]
    k, b = d[row, 3], 0.0
    x = y = z = 0.0
    if k > 0.0:
        ex, ey, ez = _turned_from(q, iq, d, row, 4)
        x, y, z = -k * ex, -k * ey, -k * ez
    if d[row, 9] > 0.0:
        ex, ey, ez = quaternion_log(q[iq], q[iq + 1], q[iq + 2], q[iq + 3])
        angle = math.sqrt(ex * ex + ey * ey + ez * ez)
        if angle > d[row, 8] and angle > 0.0:
            out = (ex * wx + ey * wy + ez * wz) / angle
            push = -d[row, 9] * (angle - d[row, 8]) - d[row, 10] * out
            if push < 0.0:
                f = push / angle
                x, y, z = x + f * ex, y + f * ey, z + f * ez
                k += d[row, 9]
                b += d[row, 10]
    if d[row, 11] > 0.0 or d[row, 12] > 0.0:
        ex, ey, ez = _turned_from(q, iq, d, row, 13)
        mx = -d[row, 11] * ex - d[row, 12] * wx
        my = -d[row, 11] * ey - d[row, 12] * wy
        mz = -d[row, 11] * ez - d[row, 12] * wz
        size = math.sqrt(mx * mx + my * my + mz * mz)
        f = 1.0
        if size < d[row, 17]:
            k += d[row, 11]
            b += d[row, 12]
        else:
            f = d[row, 17] / size
        x, y, z = x + f * mx, y + f * my, z + f * mz
    return (
        x - d[row, 0] * wx, y - d[row, 1] * wy, z - d[row, 2] * wz,
        k, b + d[row, 0], b + d[row, 1], b + d[row, 2],
    )  # fmt: skip


@inner
def drive_forces(
    # model
    drives, armature,
    # in
    span, h, q, qd, applied,
    # out
    tau, added,
):  # fmt: skip
    """Fill tau = applied forces + drives and added = armature + implicit terms of the drives, for a step h."""
    for v in range(span[DOF], span[DOF + 1]):
        tau[v] = applied[v]
        added[v] = armature[v]
    indices, scalar = drives.indices, drives.scalar
    for row in range(span[SCALAR_DRIVE], span[SCALAR_DRIVE + 1]):
        iq, iv = indices[row, 0], indices[row, 1]
        f, k, b = scalar_drive(row, scalar, h, q[iq], qd[iv])
        tau[iv] += f - h * k * qd[iv]
        added[iv] += h * b + h * h * k
    indices, scalar = drives.ball_indices, drives.ball
    for row in range(span[BALL_DRIVE], span[BALL_DRIVE + 1]):
        iv = indices[row, 1]
        x, y, z, fx, fy, fz = ball_drive(row, scalar, h, q, indices[row, 0], qd, iv)
        tau[iv] += x
        tau[iv + 1] += y
        tau[iv + 2] += z
        added[iv] += fx
        added[iv + 1] += fy
        added[iv + 2] += fz


@inner
def spring_energy(
    # model
    drives,
    # in
    q,
):  # fmt: skip
    """Return the energy stored in joint springs, soft limits and the stiffness of motors."""
    total = 0.0
    indices, d = drives.indices, drives.scalar
    for row in range(len(indices)):
        x = q[indices[row, 0]]
        total += 0.5 * d[row, 1] * (x - d[row, 2]) ** 2
        if d[row, 5] > 0.0:
            over = max(d[row, 3] - x, x - d[row, 4], 0.0)
            total += 0.5 * d[row, 5] * over * over
        if d[row, 7] > 0.0:
            total += 0.5 * d[row, 7] * (x - d[row, 9]) ** 2
    indices, d = drives.ball_indices, drives.ball
    for row in range(len(indices)):
        iq = indices[row, 0]
        if d[row, 3] > 0.0:
            x, y, z = _turned_from(q, iq, d, row, 4)
            total += 0.5 * d[row, 3] * (x * x + y * y + z * z)
        if d[row, 9] > 0.0:
            x, y, z = quaternion_log(q[iq], q[iq + 1], q[iq + 2], q[iq + 3])
            over = max(math.sqrt(x * x + y * y + z * z) - d[row, 8], 0.0)
            total += 0.5 * d[row, 9] * over * over
        if d[row, 11] > 0.0:
            x, y, z = _turned_from(q, iq, d, row, 13)
            total += 0.5 * d[row, 11] * (x * x + y * y + z * z)
    return total


def aim_drives(drives: Drives, q: np.ndarray, qd: np.ndarray) -> None:
    """Write the targets of all motors; as `Simulation.set_targets` does."""
    scalar, ball = drives.scalar, drives.ball
    if len(scalar):
        driven = (scalar[:, _KP] > 0.0) | (scalar[:, _KD] > 0.0)
        scalar[driven, _TARGET] = q[drives.indices[driven, 0]]
        scalar[driven, _VELOCITY] = qd[drives.indices[driven, 1]]
    if len(ball):
        kp = ball[:, _BALL_KP]
        lead = ball[:, _BALL_KD] / np.where(kp > 0.0, kp, np.inf)
        columns = drives.ball_indices[:, :1] + _FOUR
        turn = qd[drives.ball_indices[:, 1:] + _THREE] * lead[:, None]
        ball[:, _BALL_TARGET : _BALL_TARGET + 4] = _ahead(q[columns], turn)


def _ahead(q: np.ndarray, turn: np.ndarray) -> np.ndarray:
    """Return the unit quaternions of q (n, 4) followed by the rotation vectors `turn` (n, 3) in their own axes."""
    angle = np.sqrt(np.einsum("ni,ni->n", turn, turn))
    safe = np.maximum(angle, 1e-12)
    x, y, z = np.sin(0.5 * safe) / safe * turn.T
    c = np.cos(0.5 * angle)
    a, b, d, e = (q / np.linalg.norm(q, axis=1, keepdims=True)).T
    out = np.empty((len(q), 4))
    out[:, 0] = a * c - b * x - d * y - e * z
    out[:, 1] = a * x + b * c + d * z - e * y
    out[:, 2] = a * y - b * z + d * c + e * x
    out[:, 3] = a * z + b * y - d * x + e * c
    return out
