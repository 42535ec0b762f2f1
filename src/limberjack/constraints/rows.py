"""Error, row and bias of every constraint: defined once, one sign, exact off the manifold.

A pair is two frames, A on body a and B on body b (either may be the world). All rows are sums of elements of a pair,
each a function of the two frames' relative pose:

    phi = sum_k weight_k element_k - target,      phi' = J V,      phi'' = J V' + c

With the axes s_i of A and u_j of B, d = P_B - P_A, levers r from each body's reference point, and w the angular
velocities, an element is given by the wrench on b (n; f at P_B) that J^T means; on a acts the opposite wrench,
-(n + d x f) and -f at P_A, since a rigid motion of both bodies changes nothing.

| element | value | n | f | c |
|---|---|---|---|---|
| SLIDE i | s.d | 0 | s | s.z + 2 (wa x s).d' + (wa x (wa x s)).d, z = wb x (wb x rb) - wa x (wa x ra) |
| DOT i j | s.u | u x s | 0 | 2 (wa x s).(wb x u) + (wa x (wa x s)).u + s.(wb x (wb x u)) |
| LENGTH | abs(d) | 0 | d/abs(d) | f.z + (d'^2 - (f.d')^2) / abs(d) |
| ANGLE i | atan2(y, x) of sums of DOTs | (x n_y - y n_x) / (x^2 + y^2) | 0 | chain rule |
| SIDEWAYS j | 0 (velocity only, a = world) | 0 | u | (wb x u).v_B + u.(wb x (wb x rb)) |
| TURN j | 0 (velocity only) | u | 0 | -(wb x u).wa |
| COMPOUND i | coordinates, then locked directions, of a compound joint (`compound.py`) | | | |
| REGISTERED i | value i of a registered constraint kind (`registered.py`), which may depend on time | | | |

ANGLE 0 is the turn about z, y = s_y.u_x - s_x.u_y, x = s_x.u_x + s_y.u_y; 1 and 2 are the angles of a universal
joint about s_x, (s_z.u_y, s_y.u_y), and about u_y, (s_x.u_z, s_x.u_x).
Reference: Baraff 1996, sections 2 and 7, with the signs e = child against parent, J = [-parent | +child].
"""

from __future__ import annotations

import math

from limberjack._jit import inner, outlined
from limberjack.spatial.quaternions import quaternion_from_matrix
from limberjack.spatial.trig import atan2
from limberjack.spatial.vectors import cross

__all__ = [
    "ANGLE", "AXES_A", "AXES_B", "CENTRE", "COMPOUND", "COORDINATES", "REGISTERED", "DOT", "GAP", "LENGTH", "LEVER_A",
    "LEVER_B", "PAIR", "PICKED", "PLAIN", "RATE", "ROWS", "SIDEWAYS", "SLIDE", "TURN", "TURN_A", "TURN_B", "element",
    "relative_rotation", "row", "set_pair", "slide_bias",
]  # fmt: skip

SLIDE, DOT, LENGTH, ANGLE, SIDEWAYS, TURN, COMPOUND, REGISTERED = range(8)

# Columns of a pair's state: axes of A and B (three each), gap d, levers, angular velocities, d', z. Compound joints
# add coordinates, the unit vectors picked for the locked rows, and six rows of n, f, value and bias. Registered
# kinds add the same rows, and instead of the coordinates the partial derivatives by time.
AXES_A, AXES_B, GAP, LEVER_A, LEVER_B, TURN_A, TURN_B, RATE, CENTRE = 0, 9, 18, 21, 24, 27, 30, 33, 36
COORDINATES, PICKED, ROWS, PAIR = 40, 46, 52, 100
# The columns every pair has: a state is no wider where no joint is compound, since long chains are memory bound.
PLAIN = 40
_TURN = 2.0 * math.pi


@inner
def _end(k, o, frame, body, ends, lever, turn, axes, state):
    """Fill axes, lever and angular velocity of one end of pair k; return position, velocity, centripetal part."""
    if body < 0:
        for c in range(3):
            state[k, axes + c] = frame[k, o + 3 * c]
            state[k, axes + 3 + c] = frame[k, o + 3 * c + 1]
            state[k, axes + 6 + c] = frame[k, o + 3 * c + 2]
            state[k, lever + c] = 0.0
            state[k, turn + c] = 0.0
        return frame[k, o + 9], frame[k, o + 10], frame[k, o + 11], 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for c in range(3):
        a, b, g = ends[body, 3 * c], ends[body, 3 * c + 1], ends[body, 3 * c + 2]
        for j in range(3):
            state[k, axes + 3 * j + c] = a * frame[k, o + j] + b * frame[k, o + 3 + j] + g * frame[k, o + 6 + j]
        state[k, lever + c] = a * frame[k, o + 9] + b * frame[k, o + 10] + g * frame[k, o + 11]
        state[k, turn + c] = ends[body, 12 + c]
    rx, ry, rz = state[k, lever], state[k, lever + 1], state[k, lever + 2]
    wx, wy, wz = ends[body, 12], ends[body, 13], ends[body, 14]
    cx, cy, cz = cross(wx, wy, wz, rx, ry, rz)
    zx, zy, zz = cross(wx, wy, wz, cx, cy, cz)
    return (
        ends[body, 9] + rx, ends[body, 10] + ry, ends[body, 11] + rz,
        ends[body, 15] + cx, ends[body, 16] + cy, ends[body, 17] + cz, zx, zy, zz,
    )  # fmt: skip


@inner
def set_pair(
    # in
    k, link, frame, ends,
    # out
    state,
):  # fmt: skip
    """Fill the state of pair k.

    Args:
        k: the pair.
        link: (p, 2) bodies a and b, -1 = the world.
        frame: (p, 24) frame A in body a (rotation by rows, position from the reference point), then B in b.
        ends: (n, 18) of each body: rotation by rows, position, angular velocity, velocity of the reference point.
        state: (p, PAIR).
    """
    ax, ay, az, ux, uy, uz, dx, dy, dz = _end(k, 0, frame, link[k, 0], ends, LEVER_A, TURN_A, AXES_A, state)
    bx, by, bz, vx, vy, vz, ex, ey, ez = _end(k, 12, frame, link[k, 1], ends, LEVER_B, TURN_B, AXES_B, state)
    state[k, GAP], state[k, GAP + 1], state[k, GAP + 2] = bx - ax, by - ay, bz - az
    state[k, RATE], state[k, RATE + 1], state[k, RATE + 2] = vx - ux, vy - uy, vz - uz
    state[k, CENTRE], state[k, CENTRE + 1], state[k, CENTRE + 2] = ex - dx, ey - dy, ez - dz


@inner
def _three(state, k, o):
    return state[k, o], state[k, o + 1], state[k, o + 2]


@inner
def _slide(state, k, i):
    sx, sy, sz = _three(state, k, AXES_A + 3 * i)
    dx, dy, dz = _three(state, k, GAP)
    wx, wy, wz = _three(state, k, TURN_A)
    rx, ry, rz = _three(state, k, RATE)
    zx, zy, zz = _three(state, k, CENTRE)
    tx, ty, tz = cross(wx, wy, wz, sx, sy, sz)
    qx, qy, qz = cross(wx, wy, wz, tx, ty, tz)
    value = sx * dx + sy * dy + sz * dz
    rate = sx * rx + sy * ry + sz * rz + (tx * dx + ty * dy + tz * dz)
    bias = sx * zx + sy * zy + sz * zz + 2.0 * (tx * rx + ty * ry + tz * rz) + (qx * dx + qy * dy + qz * dz)
    return value, rate, bias, 0.0, 0.0, 0.0, sx, sy, sz


@inner
def slide_bias(state, k, i):
    """Return the bias of the element SLIDE i."""
    return _slide(state, k, i)[2]


@inner
def _dot(state, k, i, j):
    """Return value, rate, bias and n of the element DOT i j."""
    sx, sy, sz = _three(state, k, AXES_A + 3 * i)
    ux, uy, uz = _three(state, k, AXES_B + 3 * j)
    ax, ay, az = _three(state, k, TURN_A)
    bx, by, bz = _three(state, k, TURN_B)
    tx, ty, tz = cross(ax, ay, az, sx, sy, sz)
    qx, qy, qz = cross(ax, ay, az, tx, ty, tz)
    vx, vy, vz = cross(bx, by, bz, ux, uy, uz)
    zx, zy, zz = cross(bx, by, bz, vx, vy, vz)
    nx, ny, nz = cross(ux, uy, uz, sx, sy, sz)
    value = sx * ux + sy * uy + sz * uz
    rate = nx * (bx - ax) + ny * (by - ay) + nz * (bz - az)
    bias = 2.0 * (tx * vx + ty * vy + tz * vz) + (qx * ux + qy * uy + qz * uz) + (sx * zx + sy * zy + sz * zz)
    return value, rate, bias, nx, ny, nz


@inner
def _angle(state, k, i):
    """Return value, rate, bias and n of the angle i, atan2(y, x)."""
    if i == 0:
        y, yd, yc, y0, y1, y2 = _dot(state, k, 1, 0)
        a, ad, ac, a0, a1, a2 = _dot(state, k, 0, 1)
        y, yd, yc, y0, y1, y2 = y - a, yd - ad, yc - ac, y0 - a0, y1 - a1, y2 - a2
        x, xd, xc, x0, x1, x2 = _dot(state, k, 0, 0)
        a, ad, ac, a0, a1, a2 = _dot(state, k, 1, 1)
        x, xd, xc, x0, x1, x2 = x + a, xd + ad, xc + ac, x0 + a0, x1 + a1, x2 + a2
    elif i == 1:
        y, yd, yc, y0, y1, y2 = _dot(state, k, 2, 1)
        x, xd, xc, x0, x1, x2 = _dot(state, k, 1, 1)
    else:
        y, yd, yc, y0, y1, y2 = _dot(state, k, 0, 2)
        x, xd, xc, x0, x1, x2 = _dot(state, k, 0, 0)
    size = x * x + y * y
    f = 1.0 / size if size > 1e-300 else 0.0
    rate = f * (x * yd - y * xd)
    bias = f * (x * yc - y * xc) - 2.0 * f * (x * xd + y * yd) * rate
    return atan2(y, x), rate, bias, f * (x * y0 - y * x0), f * (x * y1 - y * x1), f * (x * y2 - y * x2)


@outlined
def element(state, k, code, i, j):
    """Return value, rate, bias, n (3) and f (3) of an element of pair k."""
    if code == SLIDE:
        return _slide(state, k, i)
    if code == DOT:
        value, rate, bias, nx, ny, nz = _dot(state, k, i, j)
        return value, rate, bias, nx, ny, nz, 0.0, 0.0, 0.0
    if code == ANGLE:
        value, rate, bias, nx, ny, nz = _angle(state, k, i)
        return value, rate, bias, nx, ny, nz, 0.0, 0.0, 0.0
    rx, ry, rz = _three(state, k, RATE)
    if code >= COMPOUND:
        o = ROWS + 8 * i
        nx, ny, nz = _three(state, k, o)
        fx, fy, fz = _three(state, k, o + 3)
        wx, wy, wz = _three(state, k, TURN_A)
        bx, by, bz = _three(state, k, TURN_B)
        dx, dy, dz = _three(state, k, GAP)
        cx, cy, cz = cross(wx, wy, wz, dx, dy, dz)
        rate = nx * (bx - wx) + ny * (by - wy) + nz * (bz - wz)
        rate += fx * (rx - cx) + fy * (ry - cy) + fz * (rz - cz)
        if code == REGISTERED:
            rate += state[k, COORDINATES + i]
        return state[k, o + 6], rate, state[k, o + 7], nx, ny, nz, fx, fy, fz
    zx, zy, zz = _three(state, k, CENTRE)
    if code == LENGTH:
        dx, dy, dz = _three(state, k, GAP)
        length = math.sqrt(dx * dx + dy * dy + dz * dz)
        f = 1.0 / length if length > 1e-150 else 0.0
        # at length 0 every direction is a valid row; z is taken
        fx, fy, fz = (f * dx, f * dy, f * dz) if f > 0.0 else (0.0, 0.0, 1.0)
        rate = fx * rx + fy * ry + fz * rz
        bias = fx * zx + fy * zy + fz * zz + f * ((rx * rx + ry * ry + rz * rz) - rate * rate)
        return length, rate, bias, 0.0, 0.0, 0.0, fx, fy, fz
    ux, uy, uz = _three(state, k, AXES_B + 3 * j)
    bx, by, bz = _three(state, k, TURN_B)
    tx, ty, tz = cross(bx, by, bz, ux, uy, uz)
    if code == SIDEWAYS:
        rate = ux * rx + uy * ry + uz * rz
        bias = tx * rx + ty * ry + tz * rz + (ux * zx + uy * zy + uz * zz)
        return 0.0, rate, bias, 0.0, 0.0, 0.0, ux, uy, uz
    ax, ay, az = _three(state, k, TURN_A)
    rate = ux * (bx - ax) + uy * (by - ay) + uz * (bz - az)
    return 0.0, rate, -(tx * ax + ty * ay + tz * az), ux, uy, uz, 0.0, 0.0, 0.0


@inner
def relative_rotation(state, k):
    """Return the quaternion of frame B in frame A of pair k."""
    a, b, s = AXES_A, AXES_B, state
    r = (
        s[k, a] * s[k, b] + s[k, a + 1] * s[k, b + 1] + s[k, a + 2] * s[k, b + 2],
        s[k, a] * s[k, b + 3] + s[k, a + 1] * s[k, b + 4] + s[k, a + 2] * s[k, b + 5],
        s[k, a] * s[k, b + 6] + s[k, a + 1] * s[k, b + 7] + s[k, a + 2] * s[k, b + 8],
        s[k, a + 3] * s[k, b] + s[k, a + 4] * s[k, b + 1] + s[k, a + 5] * s[k, b + 2],
        s[k, a + 3] * s[k, b + 3] + s[k, a + 4] * s[k, b + 4] + s[k, a + 5] * s[k, b + 5],
        s[k, a + 3] * s[k, b + 6] + s[k, a + 4] * s[k, b + 7] + s[k, a + 5] * s[k, b + 8],
        s[k, a + 6] * s[k, b] + s[k, a + 7] * s[k, b + 1] + s[k, a + 8] * s[k, b + 2],
        s[k, a + 6] * s[k, b + 3] + s[k, a + 7] * s[k, b + 4] + s[k, a + 8] * s[k, b + 5],
        s[k, a + 6] * s[k, b + 6] + s[k, a + 7] * s[k, b + 7] + s[k, a + 8] * s[k, b + 8],
    )
    return quaternion_from_matrix(r)


@inner
def row(
    # model
    table,
    # in
    r, time, state,
    # out
    near, wrench, values,
):  # fmt: skip
    """Fill the wrenches (r, 12) of row r, on b of its first and of its second pair, and (value, rate, bias).

    Angles count turns: each is taken nearest to `near`, its previous value.
    """
    start, terms, weights, pairs = table.term_start, table.terms, table.weights, table.row_pair
    for c in range(12):
        wrench[r, c] = 0.0
    value = -(table.target[r, 0] + table.target[r, 1] * time)
    rate = -table.target[r, 1]
    bias = 0.0
    for t in range(start[r], start[r + 1]):
        w = weights[t]
        k = terms[t, 1]
        o = 0 if k == pairs[r, 0] else 6
        x, xd, xc, nx, ny, nz, fx, fy, fz = element(state, k, terms[t, 0], terms[t, 2], terms[t, 3])
        if terms[t, 0] == ANGLE:
            x += _TURN * math.floor((near[t] - x) / _TURN + 0.5)
            near[t] = x
        value, rate, bias = value + w * x, rate + w * xd, bias + w * xc
        wrench[r, o] += w * nx
        wrench[r, o + 1] += w * ny
        wrench[r, o + 2] += w * nz
        wrench[r, o + 3] += w * fx
        wrench[r, o + 4] += w * fy
        wrench[r, o + 5] += w * fz
    values[r, 0], values[r, 1], values[r, 2] = value, rate, bias
