"""Forward kinematics: where every link is, how it turns, and how it would accelerate with qdd = 0.

For link i with parent p, d = o_i - o_p, in world axes:

   hinge    R = R_p T Rz(q)    w = w_p + z qd    alpha = alpha_p + w_p x z qd    a = a_p + alpha_p x d + w_p x (w_p x d)
   slide    d += z q           w = w_p           alpha = alpha_p                 a = ... + 2 w_p x z qd
   ball     R = R_p T R(q)     w = w_p + R qd    alpha = alpha_p + w_p x R qd    a as hinge
   general  the factors of the joint one after the other, each as above at its own point

Accelerations are classical ones of the origin, so linear velocities are never needed; gravity enters as the
acceleration -g of the world. The bias force of a link follows: with J, h = m c about its origin,

    N = h x a + J alpha + w x J w          F = m a + alpha x h + w x (w x h)
"""

from __future__ import annotations

from limberjack._jit import inner, outlined
from limberjack.articulated.work import AC, AL, D, H, J, M, O, P, R, W
from limberjack.model.arrays import COORDINATE, LINK
from limberjack.model.joints import BALL, FREE, HINGE, PUSH, SLIDE, SPIN, TURN
from limberjack.spatial.quaternions import quaternion_from_matrix, rotation_from_quaternion
from limberjack.spatial.trig import sincos_all
from limberjack.spatial.vectors import cross, multiply, rotate, rotate_symmetric, symmetric_times

__all__ = ["body_poses", "kinematics"]


@inner
def _axis_rotation(x, y, z, s, c):
    """Return the rotation about the unit axis (x, y, z) by the angle of sine s and cosine c."""
    t = 1.0 - c
    return (
        t * x * x + c, t * x * y - s * z, t * x * z + s * y,
        t * x * y + s * z, t * y * y + c, t * y * z - s * x,
        t * x * z - s * y, t * y * z + s * x, t * z * z + c,
    )  # fmt: skip


@inner
def _moved(ax, ay, az, lx, ly, lz, wx, wy, wz, dx, dy, dz):
    """Return the acceleration of a point at d from one with acceleration a, on a frame with (alpha, w)."""
    sx, sy, sz = cross(wx, wy, wz, dx, dy, dz)
    tx, ty, tz = cross(wx, wy, wz, sx, sy, sz)
    ux, uy, uz = cross(lx, ly, lz, dx, dy, dz)
    return ax + ux + tx, ay + uy + ty, az + uz + tz


@inner
def _general(
    # model
    factor_kind, factor_place, factor_data,
    # in
    first, last, q, qd, sines, cosines, r, ox, oy, oz, wx, wy, wz, lx, ly, lz, ax, ay, az,
    # out
    subspace,
):  # fmt: skip
    """Walk the factors of a link from its joint frame (r, o) with the parent's motion there; fill its columns of S.

    Returns:
        rotation, origin, angular velocity, angular and linear acceleration of the link.
    """
    for f in range(first, last):
        kind = factor_kind[f]
        fq, fv = factor_place[f, 0], factor_place[f, 1]
        if kind == TURN or kind == PUSH:
            bx, by, bz = factor_data[f, 0], factor_data[f, 1], factor_data[f, 2]
            zx, zy, zz = rotate(r, bx, by, bz)
            speed = qd[fv]
            if kind == PUSH:
                dx, dy, dz = zx * q[fq], zy * q[fq], zz * q[fq]
                ax, ay, az = _moved(ax, ay, az, lx, ly, lz, wx, wy, wz, dx, dy, dz)
                ox, oy, oz = ox + dx, oy + dy, oz + dz
                cx, cy, cz = cross(wx, wy, wz, zx, zy, zz)
                ax, ay, az = ax + 2.0 * speed * cx, ay + 2.0 * speed * cy, az + 2.0 * speed * cz
                subspace[fv, 0] = subspace[fv, 1] = subspace[fv, 2] = 0.0
                subspace[fv, 3], subspace[fv, 4], subspace[fv, 5] = zx, zy, zz
            else:
                px, py, pz = factor_data[f, 3], factor_data[f, 4], factor_data[f, 5]
                pitch = factor_data[f, 6]
                s, c = sines[fq], cosines[fq]
                # the point on the axis, where both frames agree
                hx, hy, hz = rotate(r, px, py, pz)
                ax, ay, az = _moved(ax, ay, az, lx, ly, lz, wx, wy, wz, hx, hy, hz)
                ox, oy, oz = ox + hx, oy + hy, oz + hz
                cx, cy, cz = cross(wx, wy, wz, zx, zy, zz)
                if pitch != 0.0:
                    dx, dy, dz = zx * pitch * q[fq], zy * pitch * q[fq], zz * pitch * q[fq]
                    ax, ay, az = _moved(ax, ay, az, lx, ly, lz, wx, wy, wz, dx, dy, dz)
                    ox, oy, oz = ox + dx, oy + dy, oz + dz
                    rate = 2.0 * speed * pitch
                    ax, ay, az = ax + rate * cx, ay + rate * cy, az + rate * cz
                lx, ly, lz = lx + speed * cx, ly + speed * cy, lz + speed * cz
                wx, wy, wz = wx + speed * zx, wy + speed * zy, wz + speed * zz
                r = multiply(r, _axis_rotation(bx, by, bz, s, c))
                # S is completed at the link's origin below; until then it holds direction and point
                subspace[fv, 0], subspace[fv, 1], subspace[fv, 2] = zx, zy, zz
                subspace[fv, 3], subspace[fv, 4], subspace[fv, 5] = ox, oy, oz
                hx, hy, hz = rotate(r, -px, -py, -pz)
                ax, ay, az = _moved(ax, ay, az, lx, ly, lz, wx, wy, wz, hx, hy, hz)
                ox, oy, oz = ox + hx, oy + hy, oz + hz
        else:
            m = rotation_from_quaternion(q[fq], q[fq + 1], q[fq + 2], q[fq + 3])
            if kind == SPIN:
                r = multiply(r, m)
                b = r
            else:
                b = (-r[0], -r[1], -r[2], -r[3], -r[4], -r[5], -r[6], -r[7], -r[8])
                r = multiply(r, (m[0], m[3], m[6], m[1], m[4], m[7], m[2], m[5], m[8]))
            ux, uy, uz = rotate(b, qd[fv], qd[fv + 1], qd[fv + 2])
            cx, cy, cz = cross(wx, wy, wz, ux, uy, uz)
            lx, ly, lz = lx + cx, ly + cy, lz + cz
            wx, wy, wz = wx + ux, wy + uy, wz + uz
            subspace[fv, 0], subspace[fv, 1], subspace[fv, 2] = b[0], b[3], b[6]
            subspace[fv + 1, 0], subspace[fv + 1, 1], subspace[fv + 1, 2] = b[1], b[4], b[7]
            subspace[fv + 2, 0], subspace[fv + 2, 1], subspace[fv + 2, 2] = b[2], b[5], b[8]
            for k in range(3):
                subspace[fv + k, 3], subspace[fv + k, 4], subspace[fv + k, 5] = ox, oy, oz
    for f in range(first, last):
        kind = factor_kind[f]
        if kind != PUSH:
            fv = factor_place[f, 1]
            pitch = factor_data[f, 6]
            for k in range(1 if kind == TURN else 3):
                v = fv + k
                zx, zy, zz = subspace[v, 0], subspace[v, 1], subspace[v, 2]
                cx, cy, cz = cross(zx, zy, zz, ox - subspace[v, 3], oy - subspace[v, 4], oz - subspace[v, 5])
                subspace[v, 3], subspace[v, 4], subspace[v, 5] = (
                    cx + pitch * zx,
                    cy + pitch * zy,
                    cz + pitch * zz,
                )
    return r, ox, oy, oz, wx, wy, wz, lx, ly, lz, ax, ay, az


@inner
def _parent_motion(p, gx, gy, gz, rows):
    """Return rotation, position, angular velocity and accelerations of link p, or of the world for p = -1."""
    if p < 0:
        return (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0), 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, gx, gy, gz
    r = (
        rows[p, R], rows[p, R + 1], rows[p, R + 2], rows[p, R + 3], rows[p, R + 4], rows[p, R + 5],
        rows[p, R + 6], rows[p, R + 7], rows[p, R + 8],
    )  # fmt: skip
    return (
        r, rows[p, O], rows[p, O + 1], rows[p, O + 2], rows[p, W], rows[p, W + 1], rows[p, W + 2],
        rows[p, AL], rows[p, AL + 1], rows[p, AL + 2], rows[p, AC], rows[p, AC + 1], rows[p, AC + 2],
    )  # fmt: skip


@inner
def _finish(i, g, r, px, py, pz, dx, dy, dz, wx, wy, wz, lx, ly, lz, ax, ay, az, rows):
    """Write row i: its motion, its inertia in world axes and its bias force."""
    hx, hy, hz = rotate(r, g[i, 6], g[i, 7], g[i, 8])
    m = g[i, 9]
    k = rotate_symmetric(r, (g[i, 0], g[i, 1], g[i, 2], g[i, 3], g[i, 4], g[i, 5]))
    # N = h x a + J alpha + w x J w
    ux, uy, uz = symmetric_times(k, wx, wy, wz)
    cx, cy, cz = cross(wx, wy, wz, ux, uy, uz)
    ux, uy, uz = symmetric_times(k, lx, ly, lz)
    ex, ey, ez = cross(hx, hy, hz, ax, ay, az)
    nx, ny, nz = ex + ux + cx, ey + uy + cy, ez + uz + cz
    # F = m a + alpha x h + w x (w x h)
    fx, fy, fz = _moved(m * ax, m * ay, m * az, lx, ly, lz, wx, wy, wz, hx, hy, hz)
    rows[i, R], rows[i, R + 1], rows[i, R + 2] = r[0], r[1], r[2]
    rows[i, R + 3], rows[i, R + 4], rows[i, R + 5] = r[3], r[4], r[5]
    rows[i, R + 6], rows[i, R + 7], rows[i, R + 8] = r[6], r[7], r[8]
    rows[i, O], rows[i, O + 1], rows[i, O + 2] = px + dx, py + dy, pz + dz
    rows[i, D], rows[i, D + 1], rows[i, D + 2] = dx, dy, dz
    rows[i, W], rows[i, W + 1], rows[i, W + 2] = wx, wy, wz
    rows[i, AL], rows[i, AL + 1], rows[i, AL + 2] = lx, ly, lz
    rows[i, AC], rows[i, AC + 1], rows[i, AC + 2] = ax, ay, az
    rows[i, J], rows[i, J + 1], rows[i, J + 2] = k[0], k[1], k[2]
    rows[i, J + 3], rows[i, J + 4], rows[i, J + 5] = k[3], k[4], k[5]
    rows[i, H], rows[i, H + 1], rows[i, H + 2] = hx, hy, hz
    rows[i, M] = m
    rows[i, P], rows[i, P + 1], rows[i, P + 2] = nx, ny, nz
    rows[i, P + 3], rows[i, P + 4], rows[i, P + 5] = fx, fy, fz


@outlined
def _other_link(links, i, q, qd, work):
    """Fill the row of a link that is not on a hinge, and its columns of S; kept out of the loop over hinges."""
    rows, subspace, sines, cosines = work.rows, work.subspace, work.sines, work.cosines
    t, kind, iq, iv = links.placement, links.kind[i], links.q_start[i], links.v_start[i]
    r, px, py, pz, wx, wy, wz, lx, ly, lz, ax, ay, az = _parent_motion(
        links.parent[i], -links.gravity[0], -links.gravity[1], -links.gravity[2], rows
    )
    dx, dy, dz = rotate(r, t[i, 9], t[i, 10], t[i, 11])
    r = multiply(r, (t[i, 0], t[i, 1], t[i, 2], t[i, 3], t[i, 4], t[i, 5], t[i, 6], t[i, 7], t[i, 8]))
    if kind == SLIDE:
        zx, zy, zz, speed = r[2], r[5], r[8], 2.0 * qd[iv]
        dx, dy, dz = dx + zx * q[iq], dy + zy * q[iq], dz + zz * q[iq]
        ax, ay, az = _moved(ax, ay, az, lx, ly, lz, wx, wy, wz, dx, dy, dz)
        cx, cy, cz = cross(wx, wy, wz, zx, zy, zz)
        ax, ay, az = ax + speed * cx, ay + speed * cy, az + speed * cz
    elif kind == BALL or kind == FREE:
        j = iq
        jv = iv
        if kind == FREE:
            dx, dy, dz = q[iq], q[iq + 1], q[iq + 2]
            j = iq + 3
            jv = iv + 3
        else:
            ax, ay, az = _moved(ax, ay, az, lx, ly, lz, wx, wy, wz, dx, dy, dz)
        r = multiply(r, rotation_from_quaternion(q[j], q[j + 1], q[j + 2], q[j + 3]))
        ux, uy, uz = rotate(r, qd[jv], qd[jv + 1], qd[jv + 2])
        cx, cy, cz = cross(wx, wy, wz, ux, uy, uz)
        lx, ly, lz = lx + cx, ly + cy, lz + cz
        wx, wy, wz = wx + ux, wy + uy, wz + uz
        subspace[jv, 0], subspace[jv, 1], subspace[jv, 2] = r[0], r[3], r[6]
        subspace[jv + 1, 0], subspace[jv + 1, 1], subspace[jv + 1, 2] = r[1], r[4], r[7]
        subspace[jv + 2, 0], subspace[jv + 2, 1], subspace[jv + 2, 2] = r[2], r[5], r[8]
        for k in range(3):
            subspace[jv + k, 3] = subspace[jv + k, 4] = subspace[jv + k, 5] = 0.0
            if kind == FREE:
                for c in range(6):
                    subspace[iv + k, c] = 0.0
                subspace[iv + k, 3 + k] = 1.0
    else:
        ax, ay, az = _moved(ax, ay, az, lx, ly, lz, wx, wy, wz, dx, dy, dz)
        r, dx, dy, dz, wx, wy, wz, lx, ly, lz, ax, ay, az = _general(
            links.factor_kind, links.factor_place, links.factor_data, links.factor_start[i], links.factor_start[i + 1],
            q, qd, sines, cosines, r, dx, dy, dz, wx, wy, wz, lx, ly, lz, ax, ay, az, subspace,
        )  # fmt: skip
    _finish(i, links.inertia, r, px, py, pz, dx, dy, dz, wx, wy, wz, lx, ly, lz, ax, ay, az, rows)


@inner
def kinematics(
    # model
    links,
    # in
    span, q, qd,
    # out
    work,
):  # fmt: skip
    """Fill R, O, D, W, AL, AC, J, H, M and P of the rows in `span`, and S of links that are neither hinge nor slide."""
    rows, sines, cosines = work.rows, work.sines, work.cosines
    sincos_all(span[COORDINATE], span[COORDINATE + 1], q, sines, cosines)
    parent, kinds, q_start, v_start = links.parent, links.kind, links.q_start, links.v_start
    t, g = links.placement, links.inertia
    gx, gy, gz = -links.gravity[0], -links.gravity[1], -links.gravity[2]
    for i in range(span[LINK], span[LINK + 1]):
        if kinds[i] != HINGE:
            _other_link(links, i, q, qd, work)
            continue
        iq, iv = q_start[i], v_start[i]
        r, px, py, pz, wx, wy, wz, lx, ly, lz, ax, ay, az = _parent_motion(parent[i], gx, gy, gz, rows)
        dx, dy, dz = rotate(r, t[i, 9], t[i, 10], t[i, 11])
        r = multiply(r, (t[i, 0], t[i, 1], t[i, 2], t[i, 3], t[i, 4], t[i, 5], t[i, 6], t[i, 7], t[i, 8]))
        ax, ay, az = _moved(ax, ay, az, lx, ly, lz, wx, wy, wz, dx, dy, dz)
        s, c = sines[iq], cosines[iq]
        zx, zy, zz, speed = r[2], r[5], r[8], qd[iv]
        cx, cy, cz = cross(wx, wy, wz, zx, zy, zz)
        lx, ly, lz = lx + speed * cx, ly + speed * cy, lz + speed * cz
        wx, wy, wz = wx + speed * zx, wy + speed * zy, wz + speed * zz
        r = (
            c * r[0] + s * r[1], c * r[1] - s * r[0], zx,
            c * r[3] + s * r[4], c * r[4] - s * r[3], zy,
            c * r[6] + s * r[7], c * r[7] - s * r[6], zz,
        )  # fmt: skip
        _finish(i, g, r, px, py, pz, dx, dy, dz, wx, wy, wz, lx, ly, lz, ax, ay, az, rows)


@inner
def body_poses(
    # model
    body_link, body_offset,
    # in
    rows,
    # out
    positions, rotations,
):  # fmt: skip
    """Fill the world positions (n, 3) and quaternions (n, 4) of all body frames."""
    for b in range(len(body_link)):
        i = body_link[b]
        r = (
            body_offset[b, 0], body_offset[b, 1], body_offset[b, 2], body_offset[b, 3], body_offset[b, 4],
            body_offset[b, 5], body_offset[b, 6], body_offset[b, 7], body_offset[b, 8],
        )  # fmt: skip
        x, y, z = body_offset[b, 9], body_offset[b, 10], body_offset[b, 11]
        if i >= 0:
            m = (
                rows[i, R], rows[i, R + 1], rows[i, R + 2], rows[i, R + 3], rows[i, R + 4], rows[i, R + 5],
                rows[i, R + 6], rows[i, R + 7], rows[i, R + 8],
            )  # fmt: skip
            r = multiply(m, r)
            x, y, z = rotate(m, x, y, z)
            x, y, z = x + rows[i, O], y + rows[i, O + 1], z + rows[i, O + 2]
        positions[b, 0], positions[b, 1], positions[b, 2] = x, y, z
        rotations[b, 0], rotations[b, 1], rotations[b, 2], rotations[b, 3] = quaternion_from_matrix(r)
