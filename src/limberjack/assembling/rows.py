"""Errors and rows of displacement constraints, good however far a joint is open.

Translations, couplings and limits are those of `constraints.rows`. Rotations are rotation vectors, since sines have a
second zero at half a turn. With A, B the frames of a joint, z the axis it turns about, rel = A^T B:

    not turning:  e = log(rel),                          e' = (1 - [e]/2 + g [e]^2) w,      g = (1 - t/2 cot t/2) / t^2
    hinge:        e = log(swing), rel = swing twist(z),  e' = the rows of m m^T + k c c^T - t c z^T times w

in the axes of A, with w the angular velocity of B against A, t = abs(e), m = e/t, c = m x z, k = t cot t. Beyond one
radian the rows of a hinge are the axes x and y of A, as the paper has them: the exact ones grow without bound.
Projecting the rotation vector itself on the locked axes, as printed, is wrong by its whole length at a twist of 2 rad.

Reference: Faure 1998, sections 3.1 and 3.2.
"""

from __future__ import annotations

import math

from limberjack._jit import inner, outlined
from limberjack.assembling.net import PLACE, SOFT, TARGET, TURNED, TURNS
from limberjack.constraints.bodies import PARTICLE, PLANAR, SCALABLE
from limberjack.constraints.maximal import evaluate_rows
from limberjack.constraints.rows import AXES_A, relative_rotation
from limberjack.spatial.quaternions import quaternion_log, quaternion_multiply
from limberjack.spatial.trig import atan2, sincos

__all__ = ["look", "worst_error"]

_FAR = 1.0


@inner
def _swing(w, x, y, z):
    """Return the swing vector (x, y) of a rotation, its turn about z taken off."""
    n = math.sqrt(w * w + z * z)
    if n > 1e-12:
        # rel times the conjugate of its twist
        x, y = (x * w - y * z) / n, (y * w + x * z) / n
    s = math.sqrt(x * x + y * y)
    f = 2.0 * atan2(s, n) / s if s > 1e-9 else 2.0
    return f * x, f * y


@inner
def _swing_rows(x, y):
    """Return the two rows (six numbers, axes of A) of a swing vector by the relative angular velocity."""
    square = x * x + y * y
    if square > _FAR * _FAR:
        return 1.0, 0.0, 0.0, 0.0, 1.0, 0.0
    if square < 1e-4:
        g = -1.0 / 3.0 - square * (1.0 / 45.0 + square * (2.0 / 945.0))
    else:
        t = math.sqrt(square)
        s, c = sincos(t)
        g = (t * c / s - 1.0) / square
    return 1.0 + g * y * y, -g * x * y, -y, -g * x * y, 1.0 + g * x * x, x


@inner
def _whole_rows(x, y, z):
    """Return the three rows (nine numbers) of a rotation vector by the angular velocity on its left."""
    square = x * x + y * y + z * z
    if square < 1e-4:
        g = 1.0 / 12.0 + square * (1.0 / 720.0 + square / 30240.0)
    else:
        h = 0.5 * math.sqrt(square)
        s, c = sincos(h)
        g = (1.0 - h * c / s) / square
    return (
        1.0 - g * (y * y + z * z), g * x * y + 0.5 * z, g * x * z - 0.5 * y,
        g * x * y - 0.5 * z, 1.0 - g * (x * x + z * z), g * y * z + 0.5 * x,
        g * x * z + 0.5 * y, g * y * z - 0.5 * x, 1.0 - g * (x * x + y * y),
    )  # fmt: skip


@inner
def _line(a, i):
    """Return row i of nine numbers."""
    if i == 0:
        return a[0], a[1], a[2]
    if i == 1:
        return a[3], a[4], a[5]
    return a[6], a[7], a[8]


@inner
def _put_torque(kind, sign, x, y, z, o, j):
    """Write the row of a torque on a solid at place o of J."""
    for c in range(6):
        j[o + c] = 0.0
    if kind != PLANAR:
        j[o], j[o + 1] = sign * x, sign * y
    j[o + 2] = sign * z


@inner
def _copy_rows(native, kinds, system, c, i, source, j):
    """Copy the rows of the model's constraint c to constraint i, widened to six displacements per solid."""
    n = native.row_start[c + 1] - native.row_start[c]
    for t in range(native.touch_start[c + 1] - native.touch_start[c]):
        body = native.touch_body[native.touch_start[c] + t]
        k, o = native.block_start[native.touch_start[c] + t], system.block_start[system.touch_start[i] + t]
        dim, kind = native.body_start[body + 1] - native.body_start[body], kinds[body]
        for _ in range(n):
            if dim == 6 or kind == SCALABLE or kind == SCALABLE + 1:
                for d in range(6):
                    j[o + d] = source[k + d]
            else:
                j[o], j[o + 1], j[o + 2] = 0.0, 0.0, 0.0
                j[o + 3], j[o + 4], j[o + 5] = source[k], source[k + 1], source[k + 2]
                if kind == PLANAR:
                    j[o + 2], j[o + 5] = source[k + 2], 0.0
            k += dim
            o += 6


@outlined
def _turn_joints(links, kinds, turning, blocks, state, value, j):
    """Replace the rotation errors of joints by rotation vectors, and their rows if `blocks`."""
    for t in range(len(turning)):
        r, k, count = turning[t, 0], turning[t, 1], turning[t, 2]
        qw, qx, qy, qz = relative_rotation(state, k)
        z = 0.0
        if count == 2:
            x, y = _swing(qw, qx, qy, qz)
        else:
            x, y, z = quaternion_log(qw, qx, qy, qz)
            value[r + 2] = z
        value[r], value[r + 1] = x, y
        if not blocks:
            continue
        if count == 2:
            a = _swing_rows(x, y)
            rows = (a[0], a[1], a[2], a[3], a[4], a[5], 0.0, 0.0, 0.0)
        else:
            rows = _whole_rows(x, y, z)
        for i in range(count):
            g, o = _line(rows, i), AXES_A
            nx = g[0] * state[k, o] + g[1] * state[k, o + 3] + g[2] * state[k, o + 6]
            ny = g[0] * state[k, o + 1] + g[1] * state[k, o + 4] + g[2] * state[k, o + 7]
            nz = g[0] * state[k, o + 2] + g[1] * state[k, o + 5] + g[2] * state[k, o + 8]
            if turning[t, 3] >= 0:
                _put_torque(kinds[links[k, 1]], 1.0, nx, ny, nz, turning[t, 3] + 6 * i, j)
            if turning[t, 4] >= 0:
                _put_torque(kinds[links[k, 0]], -1.0, nx, ny, nz, turning[t, 4] + 6 * i, j)


@outlined
def _track(row, block, kinds, maps, ends, blocks, pose, held, track, value, j):
    """Fill errors and rows of the trackers, which begin at `row` and at `block` of J."""
    for t in range(len(held)):
        i, r, o = held[t], row + 6 * t, block + 36 * t
        for k in range(6):
            value[r + k] = 0.0
        if blocks:
            for k in range(36):
                j[o + k] = 0.0
        if i < 0:
            continue
        px, py, pz = track[t, PLACE], track[t, PLACE + 1], track[t, PLACE + 2]
        m = maps if kinds[i] >= SCALABLE else ends
        lx = m[i, 0] * px + m[i, 1] * py + m[i, 2] * pz
        ly = m[i, 3] * px + m[i, 4] * py + m[i, 5] * pz
        lz = m[i, 6] * px + m[i, 7] * py + m[i, 8] * pz
        value[r] = pose[i, 0] + lx - track[t, TARGET]
        value[r + 1] = pose[i, 1] + ly - track[t, TARGET + 1]
        value[r + 2] = pose[i, 2] + lz - track[t, TARGET + 2]
        x = y = z = 0.0
        turns = track[t, TURNS] > 0.0 and kinds[i] != PARTICLE
        if turns:
            aim = (track[t, TURNED], -track[t, TURNED + 1], -track[t, TURNED + 2], -track[t, TURNED + 3])
            qw, qx, qy, qz = quaternion_multiply((pose[i, 3], pose[i, 4], pose[i, 5], pose[i, 6]), aim)
            x, y, z = quaternion_log(qw, qx, qy, qz)
            value[r + 3], value[r + 4], value[r + 5] = x, y, z
        if not blocks:
            continue
        j[o + 3], j[o + 10], j[o + 17] = 1.0, 1.0, 1.0
        if kinds[i] != PARTICLE:
            # lever x axis for each of the three axes
            j[o + 1], j[o + 2] = lz, -ly
            j[o + 6], j[o + 8] = -lz, lx
            j[o + 12], j[o + 13] = ly, -lx
        if turns:
            a = _whole_rows(x, y, z)
            for k in range(3):
                b = _line(a, k)
                _put_torque(kinds[i], 1.0, b[0], b[1], b[2], o + 18 + 6 * k, j)


@outlined
def _roll(system, i, start, pose, j, value):
    """Set the errors of constraint i to its rows times the displacements since `start`."""
    first = system.row_start[i]
    for r in range(first, system.row_start[i + 1]):
        value[r] = 0.0
    for t in range(system.touch_start[i], system.touch_start[i + 1]):
        b, o = system.touch_body[t], system.block_start[t]
        dx, dy, dz = pose[b, 0] - start[b, 0], pose[b, 1] - start[b, 1], pose[b, 2] - start[b, 2]
        back = (start[b, 3], -start[b, 4], -start[b, 5], -start[b, 6])
        w, x, y, z = quaternion_multiply((pose[b, 3], pose[b, 4], pose[b, 5], pose[b, 6]), back)
        x, y, z = quaternion_log(w, x, y, z)
        for r in range(first, system.row_start[i + 1]):
            value[r] += j[o] * x + j[o + 1] * y + j[o + 2] * z + j[o + 3] * dx + j[o + 4] * dy + j[o + 5] * dz
            o += 6


@outlined
def look(
    # model
    setup, net,
    # in
    time, every, blocks, pose, u,
    # out
    e, w,
):  # fmt: skip
    """Fill the errors of all constraints at `pose`, and their rows if `blocks`.

    The error of a row that holds velocities only is what it has let through since the start of the step; where there
    are no steps it is left out.

    Args:
        setup: the model in maximal coordinates.
        net: its constraints.
        time: of driven coordinates [s].
        every: whether the rows that read coordinates are wanted in `e` too.
        blocks: whether rows are wanted.
        pose: (n, POSE).
        u: velocities, for the ends in `e`; errors do not depend on them.
        e: evaluation of the model's own rows.
        w: work.
    """
    table, native, bodies, system = setup.table, setup.system, setup.bodies, net.system
    rows = net.rows[1]
    if every or len(net.driven) > 0:
        rows = native.row_start[len(native.row_start) - 1]
    evaluate_rows(bodies, native, table, setup.touch, setup.soft, time, rows, pose, u, e)
    for r in range(net.rows[1]):
        w.value[r] = e.values[r, 0] if table.speed[r] == 0 else 0.0
    for i in range(net.ends[2]):
        drives = i >= net.ends[1]
        c = net.driven[i - net.ends[1]] if drives else i
        if drives:
            d = i - net.ends[1]
            w.value[system.row_start[i]] = e.values[native.row_start[c], 0] - (w.aim[d, 0] + w.aim[d, 1] * time)
            w.on[i] = 1
        if blocks:
            _copy_rows(native, bodies.kind, system, c, i, e.j, w.source)
        if not drives and table.speed[native.row_start[c]] == 1:
            w.on[i] = 1 if len(w.start) > 0 else 0
            if len(w.start) > 0:
                _roll(system, i, w.start, pose, w.source, w.value)
    _turn_joints(table.pair_link, bodies.kind, net.turning, blocks, e.state, w.value, w.source)
    if len(w.held) > 0:
        first = net.ends[2]
        for t in range(len(w.held)):
            w.on[first + t] = 1 if w.held[t] >= 0 else 0
        _track(
            net.rows[2], system.block_start[system.touch_start[first]], bodies.kind, bodies.maps, e.ends, blocks, pose,
            w.held, w.track, w.value, w.source,
        )  # fmt: skip


@outlined
def worst_error(
    # in
    rows, value, track,
):  # fmt: skip
    """Return the largest error, its row and the root of the sum of squares; one-sided rows count where violated."""
    worst, at, square = 0.0, -1, 0.0
    for r in range(len(value)):
        v = value[r]
        if rows[0] <= r < rows[1]:
            v = 0.0 if v >= 0.0 else -v
        elif r >= rows[2] and track[(r - rows[2]) // 6, SOFT] > 0.0:
            continue  # a tracker that gives way is no error
        v = abs(v)
        square += v * v
        if not v <= worst:
            worst, at = v, r
    return worst, at, math.sqrt(square)
