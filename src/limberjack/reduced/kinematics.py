"""Forward kinematics: poses, angular velocities, accelerations with qdd = 0, and bias forces of all links.

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
from limberjack.model.arrays import COORDINATE, LINK
from limberjack.model.joints import BALL, FREE, HINGE, PUSH, SLIDE, SPIN, TURN
from limberjack.reduced.work import AC, AL, D, J, P, R, W, rotation
from limberjack.spatial.lanes import add, at, combine, cross4, lane, load4, mul, pack, scale, store4, sub
from limberjack.spatial.quaternions import quaternion_from_matrix, rotation_from_quaternion
from limberjack.spatial.trig import sincos_all
from limberjack.spatial.vectors import cross, multiply, rotate

__all__ = ["body_poses", "kinematics", "other_link", "other_pose", "walk_factors"]


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
def walk_factors(
    # model
    factor_kind, factor_indices, factor_data,
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
        fq, fv = factor_indices[f, 0], factor_indices[f, 1]
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
            fv = factor_indices[f, 1]
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
    return (
        rotation(p, rows), rows[p, R + 3], rows[p, R + 7], rows[p, R + 11], rows[p, W], rows[p, W + 1], rows[p, W + 2],
        rows[p, AL], rows[p, AL + 1], rows[p, AL + 2], rows[p, AC], rows[p, AC + 1], rows[p, AC + 2],
    )  # fmt: skip


@inner
def _finish(i, g, x, y, z, ox, oy, oz, d, w, l, a, rows):
    """Write row i from its axes x, y, z and its motion: with them its inertia in world axes and its bias force."""
    h = add(add(scale(g[i, 6], x), scale(g[i, 7], y)), scale(g[i, 8], z))
    m = g[i, 9]
    # J = R S R^T by columns
    s0 = add(add(scale(g[i, 0], x), scale(g[i, 3], y)), scale(g[i, 4], z))
    s1 = add(add(scale(g[i, 3], x), scale(g[i, 1], y)), scale(g[i, 5], z))
    s2 = add(add(scale(g[i, 4], x), scale(g[i, 5], y)), scale(g[i, 2], z))
    j0 = add(add(mul(s0, at(x, 0)), mul(s1, at(y, 0))), mul(s2, at(z, 0)))
    j1 = add(add(mul(s0, at(x, 1)), mul(s1, at(y, 1))), mul(s2, at(z, 1)))
    j2 = add(add(mul(s0, at(x, 2)), mul(s1, at(y, 2))), mul(s2, at(z, 2)))
    # N = h x a + J alpha + w x J w          F = m a + alpha x h + w x (w x h)
    n = add(add(cross4(h, a), combine(j0, j1, j2, l)), cross4(w, combine(j0, j1, j2, w)))
    f = add(add(scale(m, a), cross4(l, h)), cross4(w, cross4(w, h)))
    store4(rows, i, R, x)
    store4(rows, i, R + 4, y)
    store4(rows, i, R + 8, z)
    rows[i, R + 3], rows[i, R + 7], rows[i, R + 11] = ox + lane(d, 0), oy + lane(d, 1), oz + lane(d, 2)
    store4(rows, i, D, d)
    store4(rows, i, W, w)
    store4(rows, i, AL, l)
    store4(rows, i, AC, a)
    store4(rows, i, J, j0)
    store4(rows, i, J + 4, j1)
    store4(rows, i, J + 8, j2)
    rows[i, J + 3], rows[i, J + 7], rows[i, J + 11] = lane(h, 0), lane(h, 1), lane(h, 2)
    store4(rows, i, P, n)
    store4(rows, i, P + 4, f)
    rows[i, P + 3] = m


@outlined
def other_link(links, i, q, qd, work):
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
        r, dx, dy, dz, wx, wy, wz, lx, ly, lz, ax, ay, az = walk_factors(
            links.factor_kind, links.factor_indices, links.factor_data, links.factor_start[i],
            links.factor_start[i + 1], q, qd, sines, cosines,
            r, dx, dy, dz, wx, wy, wz, lx, ly, lz, ax, ay, az, subspace,
        )  # fmt: skip
    _finish(
        i, links.inertia, pack(r[0], r[3], r[6]), pack(r[1], r[4], r[7]), pack(r[2], r[5], r[8]), px, py, pz,
        pack(dx, dy, dz), pack(wx, wy, wz), pack(lx, ly, lz), pack(ax, ay, az), rows,
    )  # fmt: skip


@outlined
def other_pose(links, i, q, still, sines, cosines, rows, c, subspace):
    """Fill the pose of a link that is not on a hinge in columns c .. of its row, and its columns of S.

    Returns:
        the offset of its origin from its parent's.
    """
    t, kind, iq, iv, p = links.placement, links.kind[i], links.q_start[i], links.v_start[i], links.parent[i]
    r, px, py, pz = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0), 0.0, 0.0, 0.0
    if p >= 0:
        r = (
            rows[p, c], rows[p, c + 4], rows[p, c + 8], rows[p, c + 1], rows[p, c + 5], rows[p, c + 9],
            rows[p, c + 2], rows[p, c + 6], rows[p, c + 10],
        )  # fmt: skip
        px, py, pz = rows[p, c + 3], rows[p, c + 7], rows[p, c + 11]
    dx, dy, dz = rotate(r, t[i, 9], t[i, 10], t[i, 11])
    r = multiply(r, (t[i, 0], t[i, 1], t[i, 2], t[i, 3], t[i, 4], t[i, 5], t[i, 6], t[i, 7], t[i, 8]))
    if kind == SLIDE:
        dx, dy, dz = dx + r[2] * q[iq], dy + r[5] * q[iq], dz + r[8] * q[iq]
    elif kind == BALL or kind == FREE:
        j, jv = iq, iv
        if kind == FREE:
            dx, dy, dz = q[iq], q[iq + 1], q[iq + 2]
            j, jv = iq + 3, iv + 3
        r = multiply(r, rotation_from_quaternion(q[j], q[j + 1], q[j + 2], q[j + 3]))
        for k in range(3):
            for v in range(6):
                subspace[jv + k, v] = 0.0
                if kind == FREE:
                    subspace[iv + k, v] = 0.0
            if kind == FREE:
                subspace[iv + k, 3 + k] = 1.0
        subspace[jv, 0], subspace[jv, 1], subspace[jv, 2] = r[0], r[3], r[6]
        subspace[jv + 1, 0], subspace[jv + 1, 1], subspace[jv + 1, 2] = r[1], r[4], r[7]
        subspace[jv + 2, 0], subspace[jv + 2, 1], subspace[jv + 2, 2] = r[2], r[5], r[8]
    else:
        r, dx, dy, dz, _, _, _, _, _, _, _, _, _ = walk_factors(
            links.factor_kind, links.factor_indices, links.factor_data, links.factor_start[i],
            links.factor_start[i + 1], q, still, sines, cosines,
            r, dx, dy, dz, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, subspace,
        )  # fmt: skip
    rows[i, c], rows[i, c + 1], rows[i, c + 2], rows[i, c + 3] = r[0], r[3], r[6], px + dx
    rows[i, c + 4], rows[i, c + 5], rows[i, c + 6], rows[i, c + 7] = r[1], r[4], r[7], py + dy
    rows[i, c + 8], rows[i, c + 9], rows[i, c + 10], rows[i, c + 11] = r[2], r[5], r[8], pz + dz
    return dx, dy, dz


@outlined
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
    t, g, gravity = links.placement, links.inertia, links.gravity
    for i in range(span[LINK], span[LINK + 1]):
        if kinds[i] != HINGE:
            other_link(links, i, q, qd, work)
            continue
        p = parent[i]
        if p >= 0:
            x, y, z = load4(rows, p, R), load4(rows, p, R + 4), load4(rows, p, R + 8)
            w, ox, oy, oz = load4(rows, p, W), rows[p, R + 3], rows[p, R + 7], rows[p, R + 11]
            l, a = load4(rows, p, AL), load4(rows, p, AC)  # noqa: E741
        else:
            x, y, z = pack(1.0, 0.0, 0.0), pack(0.0, 1.0, 0.0), pack(0.0, 0.0, 1.0)
            w, l = pack(0.0, 0.0, 0.0), pack(0.0, 0.0, 0.0)  # noqa: E741
            ox = oy = oz = 0.0
            a = pack(-gravity[0], -gravity[1], -gravity[2])
        d = add(add(scale(t[i, 9], x), scale(t[i, 10], y)), scale(t[i, 11], z))
        e = add(add(scale(t[i, 0], x), scale(t[i, 3], y)), scale(t[i, 6], z))
        f = add(add(scale(t[i, 1], x), scale(t[i, 4], y)), scale(t[i, 7], z))
        z = add(add(scale(t[i, 2], x), scale(t[i, 5], y)), scale(t[i, 8], z))
        a = add(add(a, cross4(l, d)), cross4(w, cross4(w, d)))
        s, c = sines[q_start[i]], cosines[q_start[i]]
        x, y = add(scale(c, e), scale(s, f)), sub(scale(c, f), scale(s, e))
        turning = scale(qd[v_start[i]], z)
        l = add(l, cross4(w, turning))  # noqa: E741
        w = add(w, turning)
        _finish(i, g, x, y, z, ox, oy, oz, d, w, l, a, rows)


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
            m = rotation(i, rows)
            r = multiply(m, r)
            x, y, z = rotate(m, x, y, z)
            x, y, z = x + rows[i, R + 3], y + rows[i, R + 7], z + rows[i, R + 11]
        positions[b, 0], positions[b, 1], positions[b, 2] = x, y, z
        rotations[b, 0], rotations[b, 1], rotations[b, 2], rotations[b, 3] = quaternion_from_matrix(r)
