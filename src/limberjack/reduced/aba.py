"""Forward dynamics by the articulated-body algorithm (Featherstone 2008, table 7.1), world axes at each link's origin.

After `kinematics`, what is left is linear in qdd. From the leaves, with I = [J H; H^T M] and bias force p:

    U = I S      D = S^T U + armature      u = tau - S^T p
    Ia = I - U D^-1 U^T      pa = p + U D^-1 u           shifted by d and added to the parent
    back from the root:      qdd = D^-1 (u - U^T a')      a' = (parent's a' at this origin) + S qdd

Accelerations with qdd = 0 are in p already, so a' is only the change by qdd and no Ia c product appears. Links with
several dofs eliminate them one after the other: with D = L diag(pivot) L^T and Y = L^-1 U^T,
Ia = I - sum Y_k Y_k^T / pivot_k.

Shift by d of a force law F = H^T alpha + M a, N = J alpha + H a, to the origin o - d:

    H' = H + [d] M      J' = J - H [d] + [d] H'^T
"""

from __future__ import annotations

from limberjack._jit import inner, outlined
from limberjack.errors import Status
from limberjack.model.arrays import FIRST, LINK, LOADED
from limberjack.model.joints import HINGE, SLIDE
from limberjack.reduced.work import BC, BL, DI, UU, D, H, J, M, P, R, U, six
from limberjack.spatial.lanes import add, at, column, combine, cross4, dot4, lane, load4, mul, pack, scale, store4, sub

__all__ = [
    "accelerations",
    "apply_inertia",
    "articulate",
    "columns",
    "eliminate",
    "load",
    "rigid",
    "rigid_columns",
    "shift",
    "solve_accelerations",
    "solve_dofs",
    "store_columns",
    "substitute_dofs",
    "total",
]


@inner
def load(i, rows):
    """Return the inertia (J 6, H 9, M 6) and bias force (6) of row i as numbers."""
    j, m = six(i, J, rows), six(i, M, rows)
    return (
        j[0], j[1], j[2], j[3], j[4], j[5],
        rows[i, H], rows[i, H + 1], rows[i, H + 2], rows[i, H + 4], rows[i, H + 5], rows[i, H + 6],
        rows[i, H + 8], rows[i, H + 9], rows[i, H + 10],
        m[0], m[1], m[2], m[3], m[4], m[5],
        rows[i, P], rows[i, P + 1], rows[i, P + 2], rows[i, P + 4], rows[i, P + 5], rows[i, P + 6],
    )  # fmt: skip


@inner
def store(e, i, rows):
    """Put the numbers of an inertia and bias force into row i."""
    rows[i, J], rows[i, J + 1], rows[i, J + 2] = e[0], e[3], e[4]
    rows[i, J + 4], rows[i, J + 5], rows[i, J + 6] = e[3], e[1], e[5]
    rows[i, J + 8], rows[i, J + 9], rows[i, J + 10] = e[4], e[5], e[2]
    rows[i, H], rows[i, H + 1], rows[i, H + 2] = e[6], e[7], e[8]
    rows[i, H + 4], rows[i, H + 5], rows[i, H + 6] = e[9], e[10], e[11]
    rows[i, H + 8], rows[i, H + 9], rows[i, H + 10] = e[12], e[13], e[14]
    rows[i, M], rows[i, M + 1], rows[i, M + 2] = e[15], e[18], e[19]
    rows[i, M + 4], rows[i, M + 5], rows[i, M + 6] = e[18], e[16], e[20]
    rows[i, M + 8], rows[i, M + 9], rows[i, M + 10] = e[19], e[20], e[17]
    rows[i, P], rows[i, P + 1], rows[i, P + 2] = e[21], e[22], e[23]
    rows[i, P + 4], rows[i, P + 5], rows[i, P + 6] = e[24], e[25], e[26]


@inner
def columns(i, rows):
    """Return the inertia (columns of J, H^T and M) and bias force (torque, force) of row i as lanes."""
    return (
        load4(rows, i, J), load4(rows, i, J + 4), load4(rows, i, J + 8),
        load4(rows, i, H), load4(rows, i, H + 4), load4(rows, i, H + 8),
        load4(rows, i, M), load4(rows, i, M + 4), load4(rows, i, M + 8),
        load4(rows, i, P), load4(rows, i, P + 4),
    )  # fmt: skip


@inner
def rigid_columns(i, rows):
    """Return what `columns` does for a row as `kinematics` left it: H = [h], M = m 1."""
    hx, hy, hz, m = rows[i, J + 3], rows[i, J + 7], rows[i, J + 11], rows[i, P + 3]
    return (
        load4(rows, i, J), load4(rows, i, J + 4), load4(rows, i, J + 8),
        pack(0.0, -hz, hy), pack(hz, 0.0, -hx), pack(-hy, hx, 0.0),
        pack(m, 0.0, 0.0), pack(0.0, m, 0.0), pack(0.0, 0.0, m),
        load4(rows, i, P), load4(rows, i, P + 4),
    )  # fmt: skip


@inner
def rigid(i, rows):
    """Return what `load` does for a row as `kinematics` left it."""
    j = six(i, J, rows)
    hx, hy, hz, m = rows[i, J + 3], rows[i, J + 7], rows[i, J + 11], rows[i, P + 3]
    return (
        j[0], j[1], j[2], j[3], j[4], j[5],
        0.0, -hz, hy, hz, 0.0, -hx, -hy, hx, 0.0,
        m, m, m, 0.0, 0.0, 0.0,
        rows[i, P], rows[i, P + 1], rows[i, P + 2], rows[i, P + 4], rows[i, P + 5], rows[i, P + 6],
    )  # fmt: skip


@inner
def store_columns(e, i, rows):
    """Put inertia and bias e into row i."""
    store4(rows, i, J, e[0])
    store4(rows, i, J + 4, e[1])
    store4(rows, i, J + 8, e[2])
    store4(rows, i, H, e[3])
    store4(rows, i, H + 4, e[4])
    store4(rows, i, H + 8, e[5])
    store4(rows, i, M, e[6])
    store4(rows, i, M + 4, e[7])
    store4(rows, i, M + 8, e[8])
    store4(rows, i, P, e[9])
    store4(rows, i, P + 4, e[10])


@inner
def total(a, b):
    """Return the inertia and bias a + b."""
    return (
        add(a[0], b[0]), add(a[1], b[1]), add(a[2], b[2]), add(a[3], b[3]), add(a[4], b[4]), add(a[5], b[5]),
        add(a[6], b[6]), add(a[7], b[7]), add(a[8], b[8]), add(a[9], b[9]), add(a[10], b[10]),
    )  # fmt: skip


@inner
def _reduced_columns(g, u, v, inverse, share):
    """Return g reduced by the direction with I S = (u; v): I - (u; v)(u; v)^T inverse, p + (u; v) share."""
    s, t = scale(inverse, u), scale(inverse, v)
    s0, s1, s2 = at(s, 0), at(s, 1), at(s, 2)
    return (
        sub(g[0], mul(u, s0)), sub(g[1], mul(u, s1)), sub(g[2], mul(u, s2)),
        sub(g[3], mul(v, s0)), sub(g[4], mul(v, s1)), sub(g[5], mul(v, s2)),
        sub(g[6], mul(v, at(t, 0))), sub(g[7], mul(v, at(t, 1))), sub(g[8], mul(v, at(t, 2))),
        add(g[9], scale(share, u)), add(g[10], scale(share, v)),
    )  # fmt: skip


@inner
def shift(g, d):
    """Return the inertia and bias g, taken at o, at o - d."""
    x, y, z = at(d, 0), at(d, 1), at(d, 2)
    # H'^T = H^T - M [d]
    h0 = add(sub(g[3], mul(g[7], z)), mul(g[8], y))
    h1 = sub(add(g[4], mul(g[6], z)), mul(g[8], x))
    h2 = add(sub(g[5], mul(g[6], y)), mul(g[7], x))
    # J' = J + [d] H'^T + ([d] H^T)^T
    e0, e1, e2 = cross4(d, g[3]), cross4(d, g[4]), cross4(d, g[5])
    return (
        add(add(g[0], cross4(d, h0)), column(e0, e1, e2, 0)),
        add(add(g[1], cross4(d, h1)), column(e0, e1, e2, 1)),
        add(add(g[2], cross4(d, h2)), column(e0, e1, e2, 2)),
        h0, h1, h2, g[6], g[7], g[8], add(g[9], cross4(d, g[10])), g[10],
    )  # fmt: skip


@inner
def _reduced(g, ux, uy, uz, vx, vy, vz, inverse, share):
    """Return the numbers g reduced by the direction with I S = (u; v), as `_reduced_columns`."""
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


@outlined
def eliminate(i, first, dof, added, tau, subspace, rows, reduced, pivot, rest):
    """Eliminate the dofs of link i one by one, in its row.

    The k-th direction acts on the inertia already reduced by those before it, which is the row Y_k of L^-1 U^T.

    Returns:
        0 or the code of the dof whose pivot is not positive, see `articulate`.
    """
    g = load(i, rows)
    for a in range(dof):
        k = first + a
        sx, sy, sz = subspace[k, 0], subspace[k, 1], subspace[k, 2]
        tx, ty, tz = subspace[k, 3], subspace[k, 4], subspace[k, 5]
        ux, uy, uz, vx, vy, vz = apply_inertia(g, sx, sy, sz, tx, ty, tz)
        d = sx * ux + sy * uy + sz * uz + tx * vx + ty * vy + tz * vz + added[k]
        if not d > 0.0:
            return (Status.NO_INERTIA if d == d else Status.NOT_FINITE) + k
        inverse = 1.0 / d
        u = tau[k] - (sx * g[21] + sy * g[22] + sz * g[23] + tx * g[24] + ty * g[25] + tz * g[26])
        pivot[k, a] = inverse
        rest[k] = u
        reduced[k, 0], reduced[k, 1], reduced[k, 2] = ux, uy, uz
        reduced[k, 3], reduced[k, 4], reduced[k, 5] = vx, vy, vz
        # L below the pivot: the coupling of a later direction with this one
        for b in range(a + 1, dof):
            m = first + b
            pivot[m, a] = inverse * (
                subspace[m, 0] * ux + subspace[m, 1] * uy + subspace[m, 2] * uz
                + subspace[m, 3] * vx + subspace[m, 4] * vy + subspace[m, 5] * vz
            )  # fmt: skip
        g = _reduced(g, ux, uy, uz, vx, vy, vz, inverse, u * inverse)
    store(g, i, rows)
    return 0


@outlined
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
        subspace: S of links with several dofs.
        rows: filled by `kinematics`; J, H, M, P become articulated ones, U, DI, UU are written.
        reduced, pivot, rest: the eliminated dofs of links that are neither hinge nor slide.

    Returns:
        0, Status.NO_INERTIA + dof or Status.NOT_FINITE + dof.
    """
    parent, kinds, v_start, dofs, roles = links.parent, links.kind, links.v_start, links.dof, links.role
    # Depth first, most links are the parent of the next: what the next adds then stays in registers.
    carried = False
    none = pack(0.0, 0.0, 0.0)
    carry = (none, none, none, none, none, none, none, none, none, none, none)
    for i in range(span[LINK + 1] - 1, span[LINK] - 1, -1):
        p = parent[i]
        kind = kinds[i]
        iv = v_start[i]
        role = roles[i]
        g = columns(i, rows) if role & LOADED else rigid_columns(i, rows)
        if carried:
            g = total(g, carry)
        if kind == HINGE or kind == SLIDE:
            z = load4(rows, i, R + 8)
            if kind == HINGE:
                u, v = combine(g[0], g[1], g[2], z), combine(g[3], g[4], g[5], z)
                d = dot4(z, u) + added[iv]
                force = tau[iv] - dot4(z, g[9])
            else:
                u = pack(dot4(g[3], z), dot4(g[4], z), dot4(g[5], z))
                v = combine(g[6], g[7], g[8], z)
                d = dot4(z, v) + added[iv]
                force = tau[iv] - dot4(z, g[10])
            if not d > 0.0:
                return (Status.NO_INERTIA if d == d else Status.NOT_FINITE) + iv
            inverse = 1.0 / d
            # Shifted before the direction is eliminated: the shift does not wait for the division.
            offset = load4(rows, i, D)
            u = add(u, cross4(offset, v))
            store4(rows, i, U, u)
            store4(rows, i, U + 4, v)
            rows[i, DI] = inverse
            rows[i, UU] = force
            g = _reduced_columns(shift(g, offset), u, v, inverse, force * inverse)
        else:
            store_columns(g, i, rows)
            failed = eliminate(i, iv, dofs[i], added, tau, subspace, rows, reduced, pivot, rest)
            if failed != 0:
                return failed
            g = shift(columns(i, rows), load4(rows, i, D))
        carried = p == i - 1 and p >= 0
        carry = g
        if p >= 0 and not carried:
            e = rigid_columns(p, rows) if role & FIRST else columns(p, rows)
            store_columns(total(e, g), p, rows)
    return 0


@outlined
def solve_dofs(i, iv, dof, subspace, reduced, pivot, rest, rows, qdd):
    """Fill qdd of the dofs of link i, whose BL and BC hold the acceleration by its parent; complete BL and BC."""
    lx, ly, lz = rows[i, BL], rows[i, BL + 1], rows[i, BL + 2]
    ax, ay, az = rows[i, BC], rows[i, BC + 1], rows[i, BC + 2]
    for a in range(dof):
        k = iv + a
        seen = (
            reduced[k, 0] * lx + reduced[k, 1] * ly + reduced[k, 2] * lz
            + reduced[k, 3] * ax + reduced[k, 4] * ay + reduced[k, 5] * az
        )  # fmt: skip
        qdd[k] = (rest[k] - seen) * pivot[k, a]
    for a in range(dof - 1, -1, -1):
        x = qdd[iv + a]
        for b in range(a + 1, dof):
            x -= pivot[iv + b, a] * qdd[iv + b]
        qdd[iv + a] = x
    for a in range(dof):
        k = iv + a
        x = qdd[k]
        lx, ly, lz = lx + subspace[k, 0] * x, ly + subspace[k, 1] * x, lz + subspace[k, 2] * x
        ax, ay, az = ax + subspace[k, 3] * x, ay + subspace[k, 4] * x, az + subspace[k, 5] * x
    rows[i, BL], rows[i, BL + 1], rows[i, BL + 2] = lx, ly, lz
    rows[i, BC], rows[i, BC + 1], rows[i, BC + 2] = ax, ay, az


@outlined
def substitute_dofs(i, iv, dof, tau, subspace, reduced, pivot, rest, rows):
    """Take bias force P of link i through the elimination of its dofs; see `eliminate`."""
    n0, n1, n2 = rows[i, P], rows[i, P + 1], rows[i, P + 2]
    f0, f1, f2 = rows[i, P + 4], rows[i, P + 5], rows[i, P + 6]
    for a in range(dof):
        k = iv + a
        u = tau[k] - (
            subspace[k, 0] * n0 + subspace[k, 1] * n1 + subspace[k, 2] * n2
            + subspace[k, 3] * f0 + subspace[k, 4] * f1 + subspace[k, 5] * f2
        )  # fmt: skip
        rest[k] = u
        s = u * pivot[k, a]
        n0, n1, n2 = n0 + s * reduced[k, 0], n1 + s * reduced[k, 1], n2 + s * reduced[k, 2]
        f0, f1, f2 = f0 + s * reduced[k, 3], f1 + s * reduced[k, 4], f2 + s * reduced[k, 5]
    rows[i, P], rows[i, P + 1], rows[i, P + 2] = n0, n1, n2
    rows[i, P + 4], rows[i, P + 5], rows[i, P + 6] = f0, f1, f2


@inner
def solve_accelerations(
    # model
    links,
    # in
    span, subspace, reduced, pivot, rest,
    # out
    rows, qdd,
):  # fmt: skip
    """Fill qdd from the roots to the leaves; BL and BC become the changes of acceleration by qdd."""
    parent, kinds, v_start, dofs = links.parent, links.kind, links.v_start, links.dof
    l = a = pack(0.0, 0.0, 0.0)  # noqa: E741
    for i in range(span[LINK], span[LINK + 1]):
        p = parent[i]
        kind = kinds[i]
        iv = v_start[i]
        if p < 0:
            l = a = pack(0.0, 0.0, 0.0)  # noqa: E741
        elif p != i - 1:
            l, a = load4(rows, p, BL), load4(rows, p, BC)  # noqa: E741
        # U is about the parent's origin, so qdd needs the parent's a' there
        c = add(mul(load4(rows, i, U), l), mul(load4(rows, i, U + 4), a))
        a = add(a, cross4(l, load4(rows, i, D)))
        if kind == HINGE or kind == SLIDE:
            x = (rows[i, UU] - ((lane(c, 0) + lane(c, 1)) + lane(c, 2))) * rows[i, DI]
            qdd[iv] = x
            z = scale(x, load4(rows, i, R + 8))
            if kind == HINGE:
                l = add(l, z)  # noqa: E741
            else:
                a = add(a, z)
        else:
            store4(rows, i, BL, l)
            store4(rows, i, BC, a)
            solve_dofs(i, iv, dofs[i], subspace, reduced, pivot, rest, rows, qdd)
            l, a = load4(rows, i, BL), load4(rows, i, BC)  # noqa: E741
        store4(rows, i, BL, l)
        store4(rows, i, BC, a)


@inner
def accelerations(
    # model
    links,
    # in
    span, added, tau, work,
    # out
    qdd,
):  # fmt: skip
    """Fill qdd for work left by `kinematics`, external forces subtracted from its P; return what `articulate` does."""
    failed = articulate(links, span, added, tau, work.subspace, work.rows, work.reduced, work.pivot, work.rest)
    if failed == 0:
        solve_accelerations(links, span, work.subspace, work.reduced, work.pivot, work.rest, work.rows, qdd)
    return failed
