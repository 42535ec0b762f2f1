"""Forward dynamics by articulated bodies (Featherstone), world axes at each link's origin.

After `kinematics`, what is left is linear in qdd. From the leaves, with I = [J H; H^T M] and bias force p:

    U = I S      D = S^T U + armature      u = tau - S^T p
    Ia = I - U D^-1 U^T      pa = p + U D^-1 u           shifted by d and added to the parent
    back from the root:      qdd = D^-1 (u - U^T a')      a' = (parent's a' at this origin) + S qdd

Accelerations with qdd = 0 sit in p already, so a' is only the change by qdd and no Ia c product appears. Links with
several freedoms eliminate them one after the other: with D = L diag(pivot) L^T and Y = L^-1 U^T,
Ia = I - sum Y_k Y_k^T / pivot_k.

Shift by d of a force law F = H^T alpha + M a, N = J alpha + H a, to the origin o - d:

    H' = H + [d] M      J' = J - H [d] + [d] H'^T
"""

from __future__ import annotations

from limberjack._jit import inner, spliced
from limberjack.articulated.work import AC, AL, DI, UU, D, H, J, M, P, R, U
from limberjack.model.arrays import FIRST, LINK, LOADED
from limberjack.model.joints import HINGE, SLIDE
from limberjack.spatial.vectors import cross

__all__ = [
    "accelerations",
    "apply_inertia",
    "articulate",
    "load",
    "rigid",
    "shift",
    "solve_accelerations",
    "store",
    "total",
]

_NOTHING = (0.0,) * 27


@inner
def load(i, rows):
    """Return the inertia (J 6, H 9, M 6) and bias force (6) of row i."""
    return (
        rows[i, J], rows[i, J + 1], rows[i, J + 2], rows[i, J + 3], rows[i, J + 4], rows[i, J + 5],
        rows[i, H], rows[i, H + 1], rows[i, H + 2], rows[i, H + 3], rows[i, H + 4], rows[i, H + 5],
        rows[i, H + 6], rows[i, H + 7], rows[i, H + 8],
        rows[i, M], rows[i, M + 1], rows[i, M + 2], rows[i, M + 3], rows[i, M + 4], rows[i, M + 5],
        rows[i, P], rows[i, P + 1], rows[i, P + 2], rows[i, P + 3], rows[i, P + 4], rows[i, P + 5],
    )  # fmt: skip


@inner
def rigid(i, rows):
    """Return the inertia and bias force of row i as `kinematics` left it: H = [h], M = m 1."""
    hx, hy, hz, m = rows[i, H], rows[i, H + 1], rows[i, H + 2], rows[i, M]
    return (
        rows[i, J], rows[i, J + 1], rows[i, J + 2], rows[i, J + 3], rows[i, J + 4], rows[i, J + 5],
        0.0, -hz, hy, hz, 0.0, -hx, -hy, hx, 0.0,
        m, m, m, 0.0, 0.0, 0.0,
        rows[i, P], rows[i, P + 1], rows[i, P + 2], rows[i, P + 3], rows[i, P + 4], rows[i, P + 5],
    )  # fmt: skip


@inner
def _take_out(g, ux, uy, uz, vx, vy, vz, inverse, share):
    """Return g reduced by the direction with I S = (u; v): I - (u; v)(u; v)^T inverse, p + (u; v) share."""
    sx, sy, sz = ux * inverse, uy * inverse, uz * inverse
    tx, ty, tz = vx * inverse, vy * inverse, vz * inverse
    return (
        g[0] - ux * sx, g[1] - uy * sy, g[2] - uz * sz, g[3] - ux * sy, g[4] - ux * sz, g[5] - uy * sz,
        g[6] - ux * tx, g[7] - ux * ty, g[8] - ux * tz,
        g[9] - uy * tx, g[10] - uy * ty, g[11] - uy * tz,
        g[12] - uz * tx, g[13] - uz * ty, g[14] - uz * tz,
        g[15] - vx * tx, g[16] - vy * ty, g[17] - vz * tz, g[18] - vx * ty, g[19] - vx * tz, g[20] - vy * tz,
        g[21] + ux * share, g[22] + uy * share, g[23] + uz * share,
        g[24] + vx * share, g[25] + vy * share, g[26] + vz * share,
    )  # fmt: skip


@inner
def shift(g, dx, dy, dz):
    """Return the inertia and bias g, taken at o, at o - d."""
    h0, h1, h2, h3, h4, h5, h6, h7, h8 = g[6], g[7], g[8], g[9], g[10], g[11], g[12], g[13], g[14]
    mxx, myy, mzz, mxy, mxz, myz = g[15], g[16], g[17], g[18], g[19], g[20]
    # H' = H + [d] M
    k0 = h0 + dy * mxz - dz * mxy
    k1 = h1 + dy * myz - dz * myy
    k2 = h2 + dy * mzz - dz * myz
    k3 = h3 + dz * mxx - dx * mxz
    k4 = h4 + dz * mxy - dx * myz
    k5 = h5 + dz * mxz - dx * mzz
    k6 = h6 + dx * mxy - dy * mxx
    k7 = h7 + dx * myy - dy * mxy
    k8 = h8 + dx * myz - dy * mxz
    fx, fy, fz = g[24], g[25], g[26]
    return (
        # J' = J - H [d] + [d] H'^T
        g[0] - (h1 * dz - h2 * dy) + (dy * k2 - dz * k1),
        g[1] - (h5 * dx - h3 * dz) + (dz * k3 - dx * k5),
        g[2] - (h6 * dy - h7 * dx) + (dx * k7 - dy * k6),
        g[3] - (h2 * dx - h0 * dz) + (dy * k5 - dz * k4),
        g[4] - (h0 * dy - h1 * dx) + (dy * k8 - dz * k7),
        g[5] - (h3 * dy - h4 * dx) + (dz * k6 - dx * k8),
        k0, k1, k2, k3, k4, k5, k6, k7, k8,
        mxx, myy, mzz, mxy, mxz, myz,
        g[21] + dy * fz - dz * fy, g[22] + dz * fx - dx * fz, g[23] + dx * fy - dy * fx, fx, fy, fz,
    )  # fmt: skip


@inner
def total(a, b):
    """Return the inertia and bias a + b."""
    return (
        a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3], a[4] + b[4], a[5] + b[5],
        a[6] + b[6], a[7] + b[7], a[8] + b[8], a[9] + b[9], a[10] + b[10], a[11] + b[11],
        a[12] + b[12], a[13] + b[13], a[14] + b[14],
        a[15] + b[15], a[16] + b[16], a[17] + b[17], a[18] + b[18], a[19] + b[19], a[20] + b[20],
        a[21] + b[21], a[22] + b[22], a[23] + b[23], a[24] + b[24], a[25] + b[25], a[26] + b[26],
    )  # fmt: skip


@inner
def store(e, p, rows):
    """Put inertia and bias e into row p."""
    rows[p, J], rows[p, J + 1], rows[p, J + 2], rows[p, J + 3], rows[p, J + 4], rows[p, J + 5] = (
        e[0],
        e[1],
        e[2],
        e[3],
        e[4],
        e[5],
    )
    rows[p, H], rows[p, H + 1], rows[p, H + 2] = e[6], e[7], e[8]
    rows[p, H + 3], rows[p, H + 4], rows[p, H + 5] = e[9], e[10], e[11]
    rows[p, H + 6], rows[p, H + 7], rows[p, H + 8] = e[12], e[13], e[14]
    rows[p, M], rows[p, M + 1], rows[p, M + 2], rows[p, M + 3], rows[p, M + 4], rows[p, M + 5] = (
        e[15],
        e[16],
        e[17],
        e[18],
        e[19],
        e[20],
    )
    rows[p, P], rows[p, P + 1], rows[p, P + 2], rows[p, P + 3], rows[p, P + 4], rows[p, P + 5] = (
        e[21],
        e[22],
        e[23],
        e[24],
        e[25],
        e[26],
    )


@inner
def apply_inertia(g, sx, sy, sz, tx, ty, tz):
    """Return I (s; t)."""
    return (
        g[0] * sx + g[3] * sy + g[4] * sz + g[6] * tx + g[7] * ty + g[8] * tz,
        g[3] * sx + g[1] * sy + g[5] * sz + g[9] * tx + g[10] * ty + g[11] * tz,
        g[4] * sx + g[5] * sy + g[2] * sz + g[12] * tx + g[13] * ty + g[14] * tz,
        g[6] * sx + g[9] * sy + g[12] * sz + g[15] * tx + g[18] * ty + g[19] * tz,
        g[7] * sx + g[10] * sy + g[13] * sz + g[18] * tx + g[16] * ty + g[20] * tz,
        g[8] * sx + g[11] * sy + g[14] * sz + g[19] * tx + g[20] * ty + g[17] * tz,
    )


@inner
def _eliminate(g, first, dof, added, tau, subspace, reduced, pivot, rest):
    """Eliminate the freedoms of a link with inertia and bias g one by one.

    The k-th direction acts on the inertia already reduced by those before it, which is the row Y_k of L^-1 U^T.

    Returns:
        0 or the code of the freedom whose pivot is not positive (see `articulate`), and g reduced.
    """
    for a in range(dof):
        k = first + a
        sx, sy, sz = subspace[k, 0], subspace[k, 1], subspace[k, 2]
        tx, ty, tz = subspace[k, 3], subspace[k, 4], subspace[k, 5]
        ux, uy, uz, vx, vy, vz = apply_inertia(g, sx, sy, sz, tx, ty, tz)
        d = sx * ux + sy * uy + sz * uz + tx * vx + ty * vy + tz * vz + added[k]
        if not d > 0.0:
            return k + 1 if d == d else -1 - k, g
        inverse = 1.0 / d
        u = tau[k] - (sx * g[21] + sy * g[22] + sz * g[23] + tx * g[24] + ty * g[25] + tz * g[26])
        pivot[k, a] = inverse
        rest[k] = u
        reduced[k, 0], reduced[k, 1], reduced[k, 2] = ux, uy, uz
        reduced[k, 3], reduced[k, 4], reduced[k, 5] = vx, vy, vz
        # L below the pivot: how much a later direction sees of this one
        for b in range(a + 1, dof):
            m = first + b
            pivot[m, a] = inverse * (
                subspace[m, 0] * ux + subspace[m, 1] * uy + subspace[m, 2] * uz
                + subspace[m, 3] * vx + subspace[m, 4] * vy + subspace[m, 5] * vz
            )  # fmt: skip
        g = _take_out(g, ux, uy, uz, vx, vy, vz, inverse, u * inverse)
    return 0, g


@inner
def articulate(
    # model
    links,
    # in
    span, added, tau, subspace,
    # out
    rows, reduced, pivot, rest,
):  # fmt: skip
    """Eliminate all links from the leaves to the roots.

    Args:
        links: the tree.
        span: which part of it.
        added: (nv,) armature, and what an implicit integrator adds to the joint-space diagonal.
        tau: (nv,) joint forces.
        subspace: S of links with several freedoms.
        rows: filled by `kinematics`; J, H, M, P become articulated ones, U, DI, UU are written.
        reduced, pivot, rest: the eliminated freedoms of links that are neither hinge nor slide.

    Returns:
        0; 1 + a freedom that has no inertia to act on; or -1 - a freedom where the numbers have run away.
    """
    parent, kinds, v_start, dofs, roles = links.parent, links.kind, links.v_start, links.dof, links.role
    # Depth first, most links are the parent of the next: what the next adds is then carried over, not stored and read.
    carried = False
    carry = _NOTHING
    for i in range(span[LINK + 1] - 1, span[LINK] - 1, -1):
        p = parent[i]
        kind = kinds[i]
        iv = v_start[i]
        role = roles[i]
        g = load(i, rows) if role & LOADED else rigid(i, rows)
        if carried:
            g = total(g, carry)
        if kind == HINGE or kind == SLIDE:
            zx, zy, zz = rows[i, R + 2], rows[i, R + 5], rows[i, R + 8]
            if kind == HINGE:
                ux = g[0] * zx + g[3] * zy + g[4] * zz
                uy = g[3] * zx + g[1] * zy + g[5] * zz
                uz = g[4] * zx + g[5] * zy + g[2] * zz
                vx = g[6] * zx + g[9] * zy + g[12] * zz
                vy = g[7] * zx + g[10] * zy + g[13] * zz
                vz = g[8] * zx + g[11] * zy + g[14] * zz
                d = zx * ux + zy * uy + zz * uz + added[iv]
                u = tau[iv] - (zx * g[21] + zy * g[22] + zz * g[23])
            else:
                ux = g[6] * zx + g[7] * zy + g[8] * zz
                uy = g[9] * zx + g[10] * zy + g[11] * zz
                uz = g[12] * zx + g[13] * zy + g[14] * zz
                vx = g[15] * zx + g[18] * zy + g[19] * zz
                vy = g[18] * zx + g[16] * zy + g[20] * zz
                vz = g[19] * zx + g[20] * zy + g[17] * zz
                d = zx * vx + zy * vy + zz * vz + added[iv]
                u = tau[iv] - (zx * g[24] + zy * g[25] + zz * g[26])
            if not d > 0.0:
                return iv + 1 if d == d else -1 - iv
            inverse = 1.0 / d
            rows[i, U], rows[i, U + 1], rows[i, U + 2] = ux, uy, uz
            rows[i, U + 3], rows[i, U + 4], rows[i, U + 5] = vx, vy, vz
            rows[i, DI] = inverse
            rows[i, UU] = u
            if p >= 0:
                g = _take_out(g, ux, uy, uz, vx, vy, vz, inverse, u * inverse)
        else:
            failed, g = _eliminate(g, iv, dofs[i], added, tau, subspace, reduced, pivot, rest)
            if failed != 0:
                return failed
        carried = p == i - 1
        if p >= 0:
            carry = shift(g, rows[i, D], rows[i, D + 1], rows[i, D + 2])
            if not carried:
                e = rigid(p, rows) if role & FIRST else load(p, rows)
                store(total(e, carry), p, rows)
        else:
            carried = False
    return 0


@inner
def solve_accelerations(
    # model
    links,
    # in
    span, subspace, reduced, pivot, rest,
    # out
    rows, qdd,
):  # fmt: skip
    """Fill qdd from the roots to the leaves; AL and AC become the changes of acceleration by qdd."""
    parent, kinds, v_start, dofs = links.parent, links.kind, links.v_start, links.dof
    lx = ly = lz = ax = ay = az = 0.0
    for i in range(span[LINK], span[LINK + 1]):
        p = parent[i]
        kind = kinds[i]
        iv = v_start[i]
        if p < 0:
            lx = ly = lz = ax = ay = az = 0.0
        elif p != i - 1:
            lx, ly, lz = rows[p, AL], rows[p, AL + 1], rows[p, AL + 2]
            ax, ay, az = rows[p, AC], rows[p, AC + 1], rows[p, AC + 2]
        cx, cy, cz = cross(lx, ly, lz, rows[i, D], rows[i, D + 1], rows[i, D + 2])
        ax, ay, az = ax + cx, ay + cy, az + cz
        if kind == HINGE or kind == SLIDE:
            seen = (
                rows[i, U] * lx + rows[i, U + 1] * ly + rows[i, U + 2] * lz
                + rows[i, U + 3] * ax + rows[i, U + 4] * ay + rows[i, U + 5] * az
            )  # fmt: skip
            x = (rows[i, UU] - seen) * rows[i, DI]
            qdd[iv] = x
            zx, zy, zz = rows[i, R + 2] * x, rows[i, R + 5] * x, rows[i, R + 8] * x
            if kind == HINGE:
                lx, ly, lz = lx + zx, ly + zy, lz + zz
            else:
                ax, ay, az = ax + zx, ay + zy, az + zz
        else:
            dof = dofs[i]
            for a in range(dof):
                k = iv + a
                seen = (
                    reduced[k, 0] * lx + reduced[k, 1] * ly + reduced[k, 2] * lz
                    + reduced[k, 3] * ax + reduced[k, 4] * ay + reduced[k, 5] * az
                )  # fmt: skip
                qdd[k] = (rest[k] - seen) * pivot[k, a]
            for a in range(dof - 1, -1, -1):
                k = iv + a
                x = qdd[k]
                for b in range(a + 1, dof):
                    x -= pivot[iv + b, a] * qdd[iv + b]
                qdd[k] = x
            for a in range(dof):
                k = iv + a
                x = qdd[k]
                lx, ly, lz = lx + subspace[k, 0] * x, ly + subspace[k, 1] * x, lz + subspace[k, 2] * x
                ax, ay, az = ax + subspace[k, 3] * x, ay + subspace[k, 4] * x, az + subspace[k, 5] * x
        rows[i, AL], rows[i, AL + 1], rows[i, AL + 2] = lx, ly, lz
        rows[i, AC], rows[i, AC + 1], rows[i, AC + 2] = ax, ay, az


@spliced
def accelerations(
    # model
    links,
    # in
    span, added, tau, work,
    # out
    qdd,
):  # fmt: skip
    """Fill qdd for work left by `kinematics`, external forces taken off its P; return what `articulate` does."""
    failed = articulate(links, span, added, tau, work.subspace, work.rows, work.reduced, work.pivot, work.rest)
    if failed == 0:
        solve_accelerations(links, span, work.subspace, work.reduced, work.pivot, work.rest, work.rows, qdd)
    return failed
