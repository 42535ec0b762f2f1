"""Rows of compound joints: coordinates and locked directions, read off the relative pose of their frames.

With the motion subspace S = Q R of the axes at the coordinates nearest to the pose, and an orthonormal basis L of what
is left of the six directions, a relative twist t splits into qd = R^-1 Q^T t and L^T t. The former are the rows of
the coordinates, the latter the locked ones, whose error is L^T of the pose error that no coordinates can remove. Biases
are the velocity products: c = row (t'_0 - S' qd). On the manifold all is exact; off it the basis counts as constant.
"""

from __future__ import annotations

import math

import numpy as np

from limberjack._jit import call_address, inner, outlined
from limberjack.constraints.rows import (
    AXES_A,
    COORDINATES,
    GAP,
    PICKED,
    RATE,
    ROWS,
    TURN_A,
    TURN_B,
    relative_rotation,
    slide_bias,
)
from limberjack.model.joints import PUSH
from limberjack.spatial.quaternions import quaternion_log, quaternion_multiply
from limberjack.spatial.trig import sincos
from limberjack.spatial.vectors import cross

__all__ = ["new_scratch", "set_compound", "set_compounds"]

# Columns of S that are less than this far from the others get no row: a gimbal lock.
_FLAT = 1e-9
_NEWTON = 30


def new_scratch() -> np.ndarray:
    """Return the scratch of `set_compound`."""
    return np.zeros((_SIZE, 6))


# Rows of the scratch: columns of S (6), of Q (6) with the basis L after them, of R (6), and vectors.
_S, _Q, _R, _TURNED, _POINT, _ROW = 0, 6, 12, 18, 24, 30
_DRIFT, _STEP, _SPEED, _END, _ERROR, _SIZE = 36, 37, 38, 39, 40, 41


@inner
def _walk(first, count, kinds, data, k, state, w):
    """Fill the columns of S at the coordinates in the state; return the pose (quaternion, position) in axes of A."""
    a, b, c, d = 1.0, 0.0, 0.0, 0.0
    px = py = pz = 0.0
    for i in range(count):
        f = first + i
        q = state[k, COORDINATES + i]
        x, y, z = _turned(a, b, c, d, data[f, 0], data[f, 1], data[f, 2])
        w[_TURNED + i, 0], w[_TURNED + i, 1], w[_TURNED + i, 2] = x, y, z
        ox, oy, oz = _turned(a, b, c, d, data[f, 3], data[f, 4], data[f, 5])
        w[_POINT + i, 0], w[_POINT + i, 1], w[_POINT + i, 2] = px + ox, py + oy, pz + oz
        if kinds[f] == PUSH:
            px, py, pz = px + q * x, py + q * y, pz + q * z
        else:
            s, h = sincos(0.5 * q)
            a, b, c, d = quaternion_multiply((h, s * x, s * y, s * z), (a, b, c, d))
            nx, ny, nz = _turned(a, b, c, d, data[f, 3], data[f, 4], data[f, 5])
            px, py, pz = px + ox - nx, py + oy - ny, pz + oz - nz
    w[_END, 0], w[_END, 1], w[_END, 2] = px, py, pz
    for i in range(count):
        x, y, z = w[_TURNED + i, 0], w[_TURNED + i, 1], w[_TURNED + i, 2]
        if kinds[first + i] == PUSH:
            w[_S + i, 0] = w[_S + i, 1] = w[_S + i, 2] = 0.0
            w[_S + i, 3], w[_S + i, 4], w[_S + i, 5] = x, y, z
        else:
            w[_S + i, 0], w[_S + i, 1], w[_S + i, 2] = x, y, z
            w[_S + i, 3], w[_S + i, 4], w[_S + i, 5] = cross(
                x, y, z, px - w[_POINT + i, 0], py - w[_POINT + i, 1], pz - w[_POINT + i, 2]
            )
    return a, b, c, d, px, py, pz


@inner
def _turned(a, b, c, d, x, y, z):
    """Return the vector (x, y, z) turned by the quaternion."""
    ux, uy, uz = cross(b, c, d, x, y, z)
    vx, vy, vz = cross(b, c, d, ux, uy, uz)
    return x + 2.0 * (a * ux + vx), y + 2.0 * (a * uy + vy), z + 2.0 * (a * uz + vz)


@inner
def _dot6(w, i, j):
    return (
        w[i, 0] * w[j, 0] + w[i, 1] * w[j, 1] + w[i, 2] * w[j, 2]
        + w[i, 3] * w[j, 3] + w[i, 4] * w[j, 4] + w[i, 5] * w[j, 5]
    )  # fmt: skip


@inner
def _orthonormal(count, w):
    """Fill Q and R of S = Q R by Gram-Schmidt, twice over; a column that depends on those before it becomes 0."""
    for i in range(count):
        size = math.sqrt(_dot6(w, _S + i, _S + i))
        for c in range(6):
            w[_Q + i, c] = w[_S + i, c]
            w[_R + i, c] = 0.0
        for _ in range(2):
            for j in range(i):
                f = _dot6(w, _Q + j, _Q + i)
                w[_R + j, i] += f
                for c in range(6):
                    w[_Q + i, c] -= f * w[_Q + j, c]
        left = math.sqrt(_dot6(w, _Q + i, _Q + i))
        fine = left > _FLAT * size
        w[_R + i, i] = left if fine else 0.0
        for c in range(6):
            w[_Q + i, c] = w[_Q + i, c] / left if fine else 0.0


@inner
def _complete(count, k, state, w):
    """Fill the basis L after Q, from the unit vectors picked before while they stay independent."""
    for i in range(count, 6):
        picked = int(state[k, PICKED + i]) - 1
        for attempt in range(2):
            best, at = -1.0, picked
            if attempt == 1 or picked < 0:
                for c in range(6):
                    left = 1.0
                    for j in range(i):
                        left -= w[_Q + j, c] * w[_Q + j, c]
                    if left > best + 1e-9:
                        best, at = left, c
            for c in range(6):
                w[_Q + i, c] = 1.0 if c == at else 0.0
            for _ in range(2):
                for j in range(i):
                    f = _dot6(w, _Q + j, _Q + i)
                    for c in range(6):
                        w[_Q + i, c] -= f * w[_Q + j, c]
            left = math.sqrt(_dot6(w, _Q + i, _Q + i))
            if left > 0.1 or attempt == 1 or picked < 0:
                state[k, PICKED + i] = at + 1
                for c in range(6):
                    w[_Q + i, c] /= left
                break


@inner
def _fit(first, count, kinds, data, k, state, w):
    """Find the coordinates nearest to the pose of pair k; leave in _STEP the pose error that remains."""
    a, b, c, d = relative_rotation(state, k)
    x = y = z = 0.0
    gx, gy, gz = state[k, GAP], state[k, GAP + 1], state[k, GAP + 2]
    for i in range(3):
        o = AXES_A + 3 * i
        seen = state[k, o] * gx + state[k, o + 1] * gy + state[k, o + 2] * gz
        if i == 0:
            x = seen
        elif i == 1:
            y = seen
        else:
            z = seen
    for _ in range(_NEWTON):
        qa, qb, qc, qd, px, py, pz = _walk(first, count, kinds, data, k, state, w)
        ew, ex, ey, ez = quaternion_multiply((a, b, c, d), (qa, -qb, -qc, -qd))
        if ew < 0.0:
            ew, ex, ey, ez = -ew, -ex, -ey, -ez
        w[_STEP, 0], w[_STEP, 1], w[_STEP, 2] = quaternion_log(ew, ex, ey, ez)
        w[_STEP, 3], w[_STEP, 4], w[_STEP, 5] = x - px, y - py, z - pz
        _orthonormal(count, w)
        worst = 0.0
        for i in range(count - 1, -1, -1):
            change = _dot6(w, _Q + i, _STEP)
            for j in range(i + 1, count):
                change -= w[_R + i, j] * w[_DRIFT, j]
            change = change / w[_R + i, i] if w[_R + i, i] > 0.0 else 0.0
            w[_DRIFT, i] = change
            worst = max(worst, abs(change))
        if worst < 1e-13:
            break
        for i in range(count):
            state[k, COORDINATES + i] += w[_DRIFT, i]


@inner
def _twist(k, state, w):
    """Put the relative twist, in the axes of A, into _STEP."""
    wx, wy, wz = state[k, TURN_A], state[k, TURN_A + 1], state[k, TURN_A + 2]
    tx, ty, tz = state[k, TURN_B] - wx, state[k, TURN_B + 1] - wy, state[k, TURN_B + 2] - wz
    cx, cy, cz = cross(wx, wy, wz, state[k, GAP], state[k, GAP + 1], state[k, GAP + 2])
    vx, vy, vz = state[k, RATE] - cx, state[k, RATE + 1] - cy, state[k, RATE + 2] - cz
    for i in range(3):
        o = AXES_A + 3 * i
        w[_STEP, i] = state[k, o] * tx + state[k, o + 1] * ty + state[k, o + 2] * tz
        w[_STEP, 3 + i] = state[k, o] * vx + state[k, o + 1] * vy + state[k, o + 2] * vz


@inner
def _products(first, count, kinds, k, state, w):
    """Put S' qd into _DRIFT, with qd from the twist in _STEP."""
    speeds = _SPEED
    for i in range(count - 1, -1, -1):
        speed = _dot6(w, _Q + i, _STEP)
        for j in range(i + 1, count):
            speed -= w[_R + i, j] * w[speeds, j]
        w[speeds, i] = speed / w[_R + i, i] if w[_R + i, i] > 0.0 else 0.0
    # the child's origin moves with all axes; the point of an axis with those before it
    vx = vy = vz = 0.0
    for i in range(count):
        u = w[speeds, i]
        vx, vy, vz = vx + u * w[_S + i, 3], vy + u * w[_S + i, 4], vz + u * w[_S + i, 5]
    for c in range(6):
        w[_DRIFT, c] = 0.0
    ox = oy = oz = 0.0
    for i in range(count):
        u = w[speeds, i]
        x, y, z = w[_TURNED + i, 0], w[_TURNED + i, 1], w[_TURNED + i, 2]
        dx, dy, dz = cross(ox, oy, oz, x, y, z)
        if kinds[first + i] == PUSH:
            w[_DRIFT, 3] += u * dx
            w[_DRIFT, 4] += u * dy
            w[_DRIFT, 5] += u * dz
            continue
        # velocity of the axis' point: of the axes before it, gathered at that point
        px, py, pz = w[_POINT + i, 0], w[_POINT + i, 1], w[_POINT + i, 2]
        bx = by = bz = 0.0
        for j in range(i):
            t = w[speeds, j]
            if kinds[first + j] == PUSH:
                bx, by, bz = bx + t * w[_TURNED + j, 0], by + t * w[_TURNED + j, 1], bz + t * w[_TURNED + j, 2]
            else:
                cx, cy, cz = cross(
                    w[_TURNED + j, 0], w[_TURNED + j, 1], w[_TURNED + j, 2],
                    px - w[_POINT + j, 0], py - w[_POINT + j, 1], pz - w[_POINT + j, 2],
                )  # fmt: skip
                bx, by, bz = bx + t * cx, by + t * cy, bz + t * cz
        # the end of the lever, from S: its column is w x (end - point)
        rx, ry, rz = w[_END, 0] - px, w[_END, 1] - py, w[_END, 2] - pz
        ax, ay, az = cross(dx, dy, dz, rx, ry, rz)
        cx, cy, cz = cross(x, y, z, vx - bx, vy - by, vz - bz)
        w[_DRIFT, 0] += u * dx
        w[_DRIFT, 1] += u * dy
        w[_DRIFT, 2] += u * dz
        w[_DRIFT, 3] += u * (ax + cx)
        w[_DRIFT, 4] += u * (ay + cy)
        w[_DRIFT, 5] += u * (az + cz)
        ox, oy, oz = ox + u * x, oy + u * y, oz + u * z


@inner
def _put(i, at, value, still, k, state, w):
    """Write row i of the pair from the six numbers in scratch row `at`, axes of A, with its value and bias."""
    o = ROWS + 8 * i
    wx, wy, wz = state[k, TURN_A], state[k, TURN_A + 1], state[k, TURN_A + 2]
    tx, ty, tz = state[k, TURN_B] - wx, state[k, TURN_B + 1] - wy, state[k, TURN_B + 2] - wz
    nx = ny = nz = fx = fy = fz = 0.0
    bias = -still
    for c in range(3):
        a = AXES_A + 3 * c
        x, y, z = state[k, a], state[k, a + 1], state[k, a + 2]
        n, f = w[at, c], w[at, 3 + c]
        nx, ny, nz = nx + n * x, ny + n * y, nz + n * z
        fx, fy, fz = fx + f * x, fy + f * y, fz + f * z
        # the axes of A turn: d/dt of s.(wb - wa) and of s.d without accelerations
        sx, sy, sz = cross(wx, wy, wz, x, y, z)
        bias += n * (sx * tx + sy * ty + sz * tz) + f * slide_bias(state, k, c)
    state[k, o], state[k, o + 1], state[k, o + 2] = nx, ny, nz
    state[k, o + 3], state[k, o + 4], state[k, o + 5] = fx, fy, fz
    state[k, o + 6], state[k, o + 7] = value, bias


@outlined
def set_compound(
    # model
    first, count, kinds, data,
    # in
    time, k, w,
    # out
    state,
):  # fmt: skip
    """Fill the six rows of pair k, a compound joint of `count` axes: its coordinates, then its locked directions.

    For a registered constraint kind, fill the rows of its function.

    Args:
        first: its first factor; for a registered kind the address of its function, followed by how many numbers it
            takes.
        count: its axes, 1 to 6; -1 for a registered kind.
        kinds: (f,) of all factors.
        data: (f, 7) axis, point and pitch of all factors, or the numbers of a registered kind.
        time: [s].
        k: the pair, as `set_pair` left it.
        w: of `new_scratch`.
        state: (p, PAIR); its coordinates are the start of the search.
    """
    if count < 0:
        call_address(kinds[first], time, state, k, data, first, kinds[first + 1])
        return
    _fit(first, count, kinds, data, k, state, w)
    for c in range(6):
        w[_ERROR, c] = w[_STEP, c]
    _complete(count, k, state, w)
    _twist(k, state, w)
    _products(first, count, kinds, k, state, w)
    # coordinates: rows of R^-1 Q^T, from the last
    for i in range(count - 1, -1, -1):
        at = _ROW + i
        f = 1.0 / w[_R + i, i] if w[_R + i, i] > 0.0 else 0.0
        for c in range(6):
            seen = w[_Q + i, c]
            for j in range(i + 1, count):
                seen -= w[_R + i, j] * w[_ROW + j, c]
            w[at, c] = f * seen
        _put(i, at, state[k, COORDINATES + i], _dot6(w, at, _DRIFT), k, state, w)
    for i in range(count, 6):
        _put(i, _Q + i, _dot6(w, _Q + i, _ERROR), _dot6(w, _Q + i, _DRIFT), k, state, w)


@inner
def set_compounds(
    # model
    compound, kinds, data,
    # in
    time, w,
    # out
    state,
):  # fmt: skip
    """Fill the rows of all compound joints and registered kinds, after `set_pair`."""
    for c in range(len(compound)):
        set_compound(compound[c, 1], compound[c, 2], kinds, data, time, compound[c, 0], w, state)
