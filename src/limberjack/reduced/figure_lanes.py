"""The passes of the tree algorithms over four identical figures at a time, one in each lane of a register.

A block of four trees with the same links, in a row among the links, is stepped as one: a number of a row of `work.py`
is here a register with that number of each figure. Every operation is the one of `kinematics.py`, `aba.py` and
`variational.py`, in the same order, so that results are the same bits. Model data is read once for all four, and
nothing is lost on the fourth number of 3-vectors; a link costs half or less of what it does alone.

Links on joints other than hinges, a root mostly, go through the functions for one link, figure by figure, by way of
the rows of `Work`. What is per dof (forces of joints, velocities, coordinates) is not touched here: it lies in the
same arrays as ever.
"""

from __future__ import annotations

from limberjack._jit import inner, outlined
from limberjack.errors import Status
from limberjack.model.arrays import COORDINATE, FIRST, LINK, LOADED
from limberjack.model.joints import FREE, HINGE
from limberjack.reduced import work as row
from limberjack.reduced.aba import eliminate, solve_dofs, substitute_dofs
from limberjack.reduced.kinematics import other_link, other_pose
from limberjack.reduced.work import DOFS, LANE_COLUMNS, LINKS
from limberjack.spatial.lanes import four, lane, set_four, splat
from limberjack.spatial.packed import any_above, choose, gather, quad, scatter
from limberjack.spatial.trig import sincos_all
from limberjack.spatial.vectors import cross

__all__ = [
    "lane_accelerations",
    "lane_articulate",
    "lane_begin",
    "lane_carry",
    "lane_joint_impulses",
    "lane_kinematics",
    "lane_outgoing",
    "lane_pivots",
    "lane_substitute",
    "lane_wrenches",
]

# Columns of a link, each of four numbers; see `work.py`. J, H, M by columns (H: those of H^T) without padding.
W, AL, R, O, D, J, P, MC, H, M = 0, 3, 6, 15, 18, 21, 30, 36, 39, 48
# Known part of the bias force; axes and origin ahead, displacement of the origin (`variational.py`).
KNOWN, AHEAD, AHEAD_O, MOVED = 0, 57, 66, 69
AC = AHEAD
# Once J and P are not needed.
U, DI, UU, BL, BC = 21, 27, 28, 30, 33
# See `variational.NO_TORQUE`.
NO_TORQUE = 1e-24


@inner
def _three(rows, k):
    return four(rows, k), four(rows, k + 1), four(rows, k + 2)


@inner
def _set_three(rows, k, a):
    set_four(rows, k, a[0])
    set_four(rows, k + 1, a[1])
    set_four(rows, k + 2, a[2])


@inner
def _plus(a, b):
    return a[0] + b[0], a[1] + b[1], a[2] + b[2]


@inner
def _minus(a, b):
    return a[0] - b[0], a[1] - b[1], a[2] - b[2]


@inner
def _times(s, a):
    return s * a[0], s * a[1], s * a[2]


@inner
def _cross(a, b):
    return cross(a[0], a[1], a[2], b[0], b[1], b[2])


@inner
def _dot(a, b):
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


@inner
def _sum(p, x, q, y, r, z):
    """Return p x + q y + r z."""
    return p * x[0] + q * y[0] + r * z[0], p * x[1] + q * y[1] + r * z[1], p * x[2] + q * y[2] + r * z[2]


@inner
def _of_figures(array, k, stride):
    """Return array[k] of the first figure and those of the others, `stride` apart."""
    return quad(array[k], array[k + stride], array[k + 2 * stride], array[k + 3 * stride])


@inner
def _to_figures(array, k, stride, x):
    array[k], array[k + stride] = lane(x, 0), lane(x, 1)
    array[k + 2 * stride], array[k + 3 * stride] = lane(x, 2), lane(x, 3)


@inner
def _placed(links, g, n, k):
    """Return number k of the placement of a root in each figure: they stand in different places."""
    t = links.placement
    return quad(t[g, k], t[g + n, k], t[g + 2 * n, k], t[g + 3 * n, k])


@inner
def _hinge_pose(links, g, n, p, sine, cosine, rows, c, o):
    """Return axes, origin and offset from the parent of a link on a hinge; its parent's are in columns c and o."""
    t = links.placement
    if p >= 0:
        b = p * LANE_COLUMNS
        x, y, z, origin = _three(rows, b + c), _three(rows, b + c + 3), _three(rows, b + c + 6), _three(rows, b + o)
        d = _sum(t[g, 9], x, t[g, 10], y, t[g, 11], z)
        e = _sum(t[g, 0], x, t[g, 3], y, t[g, 6], z)
        f = _sum(t[g, 1], x, t[g, 4], y, t[g, 7], z)
        z = _sum(t[g, 2], x, t[g, 5], y, t[g, 8], z)
        origin = _plus(origin, d)
    else:
        origin = d = _placed(links, g, n, 9), _placed(links, g, n, 10), _placed(links, g, n, 11)
        e = _placed(links, g, n, 0), _placed(links, g, n, 3), _placed(links, g, n, 6)
        f = _placed(links, g, n, 1), _placed(links, g, n, 4), _placed(links, g, n, 7)
        z = _placed(links, g, n, 2), _placed(links, g, n, 5), _placed(links, g, n, 8)
    x = _plus(_times(cosine, e), _times(sine, f))
    y = _minus(_times(cosine, f), _times(sine, e))
    return x, y, z, origin, d


@inner
def _export(rows, k, count, f, out, g, c):
    """Copy `count` columns from k of figure f to a row of one link, three of them to four."""
    for j in range(count):
        out[g, c + 4 * (j // 3) + j % 3] = rows[k + j, f]


@inner
def _import(given, g, c, count, rows, k, f):
    """Copy what `_export` would write back."""
    for j in range(count):
        rows[k + j, f] = given[g, c + 4 * (j // 3) + j % 3]


@inner
def _export_pose(rows, b, c, o, f, out, g, oc):
    """Copy axes and origin of figure f to the row of a link, the origin in the fourth numbers."""
    _export(rows, b + c, 9, f, out, g, oc)
    for j in range(3):
        out[g, oc + 4 * j + 3] = rows[b + o + j, f]


@inner
def _import_pose(given, g, ic, rows, b, c, o, f):
    _import(given, g, ic, 9, rows, b + c, f)
    for j in range(3):
        rows[b + o + j, f] = given[g, ic + 4 * j + 3]


@outlined
def _other_poses(links, i, first, n, q, still, sines, cosines, rows, c, o, d, poses, pc, subspace):
    """Fill axes, origin and offset (columns c, o, d) of a link that is not on a hinge, figure by figure."""
    for f in range(4):
        g = first + f * n + i
        p = links.parent[g]
        if p >= 0:
            _export_pose(rows, (p - first - f * n) * LANE_COLUMNS, c, o, f, poses, p, pc)
        dx, dy, dz = other_pose(links, g, q, still, sines, cosines, poses, pc, subspace)
        b = i * LANE_COLUMNS
        _import_pose(poses, g, pc, rows, b, c, o, f)
        rows[b + d, f], rows[b + d + 1, f], rows[b + d + 2, f] = dx, dy, dz


@inner
def _inertia(g, k, x, y, z):
    """Return the columns of J = R S R^T and m c of link k, whose inertia is row k of g."""
    s = _sum(g[k, 0], x, g[k, 3], y, g[k, 4], z)
    t = _sum(g[k, 3], x, g[k, 1], y, g[k, 5], z)
    u = _sum(g[k, 4], x, g[k, 5], y, g[k, 2], z)
    return (
        _sum(x[0], s, y[0], t, z[0], u), _sum(x[1], s, y[1], t, z[1], u), _sum(x[2], s, y[2], t, z[2], u),
        _sum(g[k, 6], x, g[k, 7], y, g[k, 8], z),
    )  # fmt: skip


@outlined
def lane_kinematics(links, span, q, qd, work):
    """Do what `kinematics` does."""
    rows, n, first = work.lanes.rows, work.lanes.size[LINKS], span[LINK]
    nv, nq = work.lanes.size[DOFS], work.lanes.size[DOFS + 1]
    sincos_all(span[COORDINATE], span[COORDINATE + 1], q, work.sines, work.cosines)
    g, gravity = links.inertia, links.gravity
    zero = splat(0.0)
    for i in range(n):
        k, b = first + i, i * LANE_COLUMNS
        if links.kind[k] != HINGE:
            _other_kinematics(links, i, first, n, q, qd, work)
            continue
        p = links.parent[k] - first if links.parent[k] >= 0 else -1
        at_q, at_v = links.q_start[k], links.v_start[k]
        sine, cosine = _of_figures(work.sines, at_q, nq), _of_figures(work.cosines, at_q, nq)
        x, y, z, origin, d = _hinge_pose(links, k, n, p, sine, cosine, rows, R, O)
        if p >= 0:
            c = p * LANE_COLUMNS
            w, l, a = _three(rows, c + W), _three(rows, c + AL), _three(rows, c + AC)
        else:
            w = l = (zero, zero, zero)
            a = (splat(-gravity[0]), splat(-gravity[1]), splat(-gravity[2]))
        a = _plus(_plus(a, _cross(l, d)), _cross(w, _cross(w, d)))
        turning = _times(_of_figures(qd, at_v, nv), z)
        l = _plus(l, _cross(w, turning))
        w = _plus(w, turning)
        u, v, s, h = _inertia(g, k, x, y, z)
        # N = h x a + J alpha + w x J w          F = m a + alpha x h + w x (w x h)
        torque = _plus(_plus(_cross(h, a), _sum(l[0], u, l[1], v, l[2], s)), _cross(w, _sum(w[0], u, w[1], v, w[2], s)))
        force = _plus(_plus(_times(g[k, 9], a), _cross(l, h)), _cross(w, _cross(w, h)))
        _set_pose(rows, b, x, y, z, origin, d)
        _set_three(rows, b + W, w)
        _set_three(rows, b + AL, l)
        _set_three(rows, b + AC, a)
        _set_rigid(rows, b, u, v, s, h)
        _set_three(rows, b + P, torque)
        _set_three(rows, b + P + 3, force)


@inner
def _set_pose(rows, b, x, y, z, origin, d):
    _set_three(rows, b + R, x)
    _set_three(rows, b + R + 3, y)
    _set_three(rows, b + R + 6, z)
    _set_three(rows, b + O, origin)
    _set_three(rows, b + D, d)


@inner
def _set_rigid(rows, b, u, v, s, h):
    _set_three(rows, b + J, u)
    _set_three(rows, b + J + 3, v)
    _set_three(rows, b + J + 6, s)
    _set_three(rows, b + MC, h)


@outlined
def _other_kinematics(links, i, first, n, q, qd, work):
    """Fill the row of a link that is not on a hinge, figure by figure."""
    rows, given = work.lanes.rows, work.rows
    b = i * LANE_COLUMNS
    for f in range(4):
        g = first + f * n + i
        p = links.parent[g]
        if p >= 0:
            c = (p - first - f * n) * LANE_COLUMNS
            _export_pose(rows, c, R, O, f, given, p, row.R)
            _export(rows, c + W, 6, f, given, p, row.W)
            _export(rows, c + AC, 3, f, given, p, row.AC)
        other_link(links, g, q, qd, work)
        _import_pose(given, g, row.R, rows, b, R, O, f)
        _import(given, g, row.D, 3, rows, b + D, f)
        _import(given, g, row.W, 6, rows, b + W, f)
        _import(given, g, row.AC, 3, rows, b + AC, f)
        _import(given, g, row.J, 9, rows, b + J, f)
        _import(given, g, row.P, 6, rows, b + P, f)
        for j in range(3):
            rows[b + MC + j, f] = given[g, row.J + 4 * j + 3]


@outlined
def lane_wrenches(span, wrenches, share, known, work):
    """Take `share` of the wrenches off the bias forces P, with `known` off what is known of them too."""
    link, w, rows, n = wrenches.link, wrenches.data, work.lanes.rows, work.lanes.size[LINKS]
    for k in range(len(link)):
        if span[LINK] <= link[k] < span[LINK + 1]:
            f, i = (link[k] - span[LINK]) // n, (link[k] - span[LINK]) % n
            b = i * LANE_COLUMNS
            for c in range(3):
                # (d x F)_c with d = R p
                e, g = (c + 1) % 3, (c + 2) % 3
                de = w[k, 0] * rows[b + R + e, f] + w[k, 1] * rows[b + R + 3 + e, f] + w[k, 2] * rows[b + R + 6 + e, f]
                dg = w[k, 0] * rows[b + R + g, f] + w[k, 1] * rows[b + R + 3 + g, f] + w[k, 2] * rows[b + R + 6 + g, f]
                lever = de * w[k, 3 + g] - dg * w[k, 3 + e]
                torque, force = share * (w[k, 6 + c] + lever), share * w[k, 3 + c]
                rows[b + P + c, f] -= torque
                rows[b + P + 3 + c, f] -= force
                if known:
                    rows[b + KNOWN + c, f] -= torque
                    rows[b + KNOWN + 3 + c, f] -= force


@inner
def _loaded(rows, b):
    """Return inertia (columns of J, H^T, M) and bias of a link that others were added to."""
    return (
        _three(rows, b + J), _three(rows, b + J + 3), _three(rows, b + J + 6),
        _three(rows, b + H), _three(rows, b + H + 3), _three(rows, b + H + 6),
        _three(rows, b + M), _three(rows, b + M + 3), _three(rows, b + M + 6),
        _three(rows, b + P), _three(rows, b + P + 3),
    )  # fmt: skip


@inner
def _rigid(rows, b, m):
    """Return what `_loaded` does for a link alone: H = [h], M = m 1."""
    h, zero, mass = _three(rows, b + MC), splat(0.0), splat(m)
    return (
        _three(rows, b + J), _three(rows, b + J + 3), _three(rows, b + J + 6),
        (zero, zero - h[2], h[1]), (h[2], zero, zero - h[0]), (zero - h[1], h[0], zero),
        (mass, zero, zero), (zero, mass, zero), (zero, zero, mass),
        _three(rows, b + P), _three(rows, b + P + 3),
    )  # fmt: skip


@inner
def _total(a, b):
    return (
        _plus(a[0], b[0]), _plus(a[1], b[1]), _plus(a[2], b[2]), _plus(a[3], b[3]), _plus(a[4], b[4]),
        _plus(a[5], b[5]), _plus(a[6], b[6]), _plus(a[7], b[7]), _plus(a[8], b[8]), _plus(a[9], b[9]),
        _plus(a[10], b[10]),
    )  # fmt: skip


@inner
def _set_loaded(rows, b, g):
    _set_three(rows, b + J, g[0])
    _set_three(rows, b + J + 3, g[1])
    _set_three(rows, b + J + 6, g[2])
    _set_three(rows, b + H, g[3])
    _set_three(rows, b + H + 3, g[4])
    _set_three(rows, b + H + 6, g[5])
    _set_three(rows, b + M, g[6])
    _set_three(rows, b + M + 3, g[7])
    _set_three(rows, b + M + 6, g[8])
    _set_three(rows, b + P, g[9])
    _set_three(rows, b + P + 3, g[10])


@inner
def _shifted(g, d):
    """Return the inertia and bias g, taken at o, at o - d; see `aba.shift`."""
    h0 = _plus(_minus(g[3], _times(d[2], g[7])), _times(d[1], g[8]))
    h1 = _minus(_plus(g[4], _times(d[2], g[6])), _times(d[0], g[8]))
    h2 = _plus(_minus(g[5], _times(d[1], g[6])), _times(d[0], g[7]))
    e0, e1, e2 = _cross(d, g[3]), _cross(d, g[4]), _cross(d, g[5])
    return (
        _plus(_plus(g[0], _cross(d, h0)), (e0[0], e1[0], e2[0])),
        _plus(_plus(g[1], _cross(d, h1)), (e0[1], e1[1], e2[1])),
        _plus(_plus(g[2], _cross(d, h2)), (e0[2], e1[2], e2[2])),
        h0, h1, h2, g[6], g[7], g[8], _plus(g[9], _cross(d, g[10])), g[10],
    )  # fmt: skip


@inner
def _reduced(g, u, v, inverse, share):
    """Return g reduced by the direction with I S = (u; v); see `aba._reduced_columns`."""
    s, t = _times(inverse, u), _times(inverse, v)
    return (
        _minus(g[0], _times(s[0], u)), _minus(g[1], _times(s[1], u)), _minus(g[2], _times(s[2], u)),
        _minus(g[3], _times(s[0], v)), _minus(g[4], _times(s[1], v)), _minus(g[5], _times(s[2], v)),
        _minus(g[6], _times(t[0], v)), _minus(g[7], _times(t[1], v)), _minus(g[8], _times(t[2], v)),
        _plus(g[9], _times(share, u)), _plus(g[10], _times(share, v)),
    )  # fmt: skip


@outlined
def _other_elimination(links, i, first, n, added, tau, work):
    """Eliminate the dofs of a link that is not on a hinge, figure by figure, in its columns; return a status."""
    rows, given = work.lanes.rows, work.rows
    b = i * LANE_COLUMNS
    for f in range(4):
        g = first + f * n + i
        _export(rows, b + J, 9, f, given, g, row.J)
        _export(rows, b + H, 9, f, given, g, row.H)
        _export(rows, b + M, 9, f, given, g, row.M)
        _export(rows, b + P, 6, f, given, g, row.P)
        status = eliminate(
            g, links.v_start[g], links.dof[g], added, tau, work.subspace, given, work.reduced, work.pivot, work.rest
        )
        if status != 0:
            return status
        _import(given, g, row.J, 9, rows, b + J, f)
        _import(given, g, row.H, 9, rows, b + H, f)
        _import(given, g, row.M, 9, rows, b + M, f)
        _import(given, g, row.P, 6, rows, b + P, f)
    return 0


@outlined
def lane_articulate(links, span, added, tau, work):
    """Do what `aba.articulate` does."""
    rows, n, nv, first = work.lanes.rows, work.lanes.size[LINKS], work.lanes.size[DOFS], span[LINK]
    zero, one = splat(0.0), splat(1.0)
    none = (zero, zero, zero)
    carry = (none, none, none, none, none, none, none, none, none, none, none)
    carried = False
    for i in range(n - 1, -1, -1):
        k, b = first + i, i * LANE_COLUMNS
        p = links.parent[k] - first if links.parent[k] >= 0 else -1
        g = _loaded(rows, b) if links.role[k] & LOADED else _rigid(rows, b, links.inertia[k, 9])
        if carried:
            g = _total(g, carry)
        offset = _three(rows, b + D)
        if links.kind[k] == HINGE:
            iv = links.v_start[k]
            z = _three(rows, b + R + 6)
            u, v = _sum(z[0], g[0], z[1], g[1], z[2], g[2]), _sum(z[0], g[3], z[1], g[4], z[2], g[5])
            d = _dot(z, u) + _of_figures(added, iv, nv)
            force = _of_figures(tau, iv, nv) - _dot(z, g[9])
            if any_above(choose(d, zero, zero, one), zero):
                return _no_inertia(rows, b, iv, nv, d)
            inverse = one / d
            u = _plus(u, _cross(offset, v))
            _set_three(rows, b + U, u)
            _set_three(rows, b + U + 3, v)
            set_four(rows, b + DI, inverse)
            set_four(rows, b + UU, force)
            g = _reduced(_shifted(g, offset), u, v, inverse, force * inverse)
        else:
            _set_loaded(rows, b, g)
            status = _other_elimination(links, i, first, n, added, tau, work)
            if status != 0:
                return status
            g = _shifted(_loaded(rows, b), offset)
        carried = p == i - 1 and p >= 0
        carry = g
        if p >= 0 and not carried:
            c = p * LANE_COLUMNS
            e = _rigid(rows, c, links.inertia[first + p, 9]) if links.role[k] & FIRST else _loaded(rows, c)
            _set_loaded(rows, c, _total(e, g))
    return 0


@outlined
def _no_inertia(rows, b, iv, nv, d):
    """Return the status of the first figure, from the last, whose pivot d is not positive."""
    set_four(rows, b + DI, d)
    for f in range(3, -1, -1):
        pivot = rows[b + DI, f]
        if not pivot > 0.0:
            return (Status.NO_INERTIA if pivot == pivot else Status.NOT_FINITE) + iv + f * nv
    return 0


@outlined
def _other_solution(links, i, first, n, work, qdd):
    rows, given = work.lanes.rows, work.rows
    b = i * LANE_COLUMNS
    for f in range(4):
        g = first + f * n + i
        _export(rows, b + BL, 3, f, given, g, row.BL)
        _export(rows, b + BC, 3, f, given, g, row.BC)
        solve_dofs(g, links.v_start[g], links.dof[g], work.subspace, work.reduced, work.pivot, work.rest, given, qdd)
        _import(given, g, row.BL, 3, rows, b + BL, f)
        _import(given, g, row.BC, 3, rows, b + BC, f)


@outlined
def lane_accelerations(links, span, work, qdd):
    """Do what `aba.solve_accelerations` does."""
    rows, n, nv, first = work.lanes.rows, work.lanes.size[LINKS], work.lanes.size[DOFS], span[LINK]
    zero = splat(0.0)
    l = a = (zero, zero, zero)
    for i in range(n):
        k, b = first + i, i * LANE_COLUMNS
        p = links.parent[k] - first if links.parent[k] >= 0 else -1
        if p < 0:
            l = a = (zero, zero, zero)
        elif p != i - 1:
            l, a = _three(rows, p * LANE_COLUMNS + BL), _three(rows, p * LANE_COLUMNS + BC)
        if links.kind[k] == HINGE:
            c = _plus(_times_each(_three(rows, b + U), l), _times_each(_three(rows, b + U + 3), a))
            a = _plus(a, _cross(l, _three(rows, b + D)))
            x = (four(rows, b + UU) - ((c[0] + c[1]) + c[2])) * four(rows, b + DI)
            _to_figures(qdd, links.v_start[k], nv, x)
            l = _plus(l, _times(x, _three(rows, b + R + 6)))
            _set_three(rows, b + BL, l)
            _set_three(rows, b + BC, a)
        else:
            a = _plus(a, _cross(l, _three(rows, b + D)))
            _set_three(rows, b + BL, l)
            _set_three(rows, b + BC, a)
            _other_solution(links, i, first, n, work, qdd)
            l, a = _three(rows, b + BL), _three(rows, b + BC)


@inner
def _times_each(a, b):
    return a[0] * b[0], a[1] * b[1], a[2] * b[2]


@outlined
def _other_substitution(links, i, first, n, tau, work):
    rows, given = work.lanes.rows, work.rows
    b = i * LANE_COLUMNS
    for f in range(4):
        g = first + f * n + i
        _export(rows, b + P, 6, f, given, g, row.P)
        substitute_dofs(
            g, links.v_start[g], links.dof[g], tau, work.subspace, work.reduced, work.pivot, work.rest, given
        )
        _import(given, g, row.P, 6, rows, b + P, f)


@outlined
def lane_substitute(links, span, tau, work):
    """Do what `variational.substitute` does."""
    rows, n, nv, first = work.lanes.rows, work.lanes.size[LINKS], work.lanes.size[DOFS], span[LINK]
    for i in range(n - 1, -1, -1):
        k, b = first + i, i * LANE_COLUMNS
        if links.kind[k] == HINGE:
            torque, force, d = _three(rows, b + P), _three(rows, b + P + 3), _three(rows, b + D)
            rest = _of_figures(tau, links.v_start[k], nv) - _dot(_three(rows, b + R + 6), torque)
            set_four(rows, b + UU, rest)
            s = rest * four(rows, b + DI)
            torque = _plus(_plus(torque, _cross(d, force)), _times(s, _three(rows, b + U)))
            force = _plus(force, _times(s, _three(rows, b + U + 3)))
        else:
            _other_substitution(links, i, first, n, tau, work)
            torque, force, d = _three(rows, b + P), _three(rows, b + P + 3), _three(rows, b + D)
            torque = _plus(torque, _cross(d, force))
        if links.parent[k] >= 0:
            c = (links.parent[k] - first) * LANE_COLUMNS
            _set_three(rows, c + P, _plus(_three(rows, c + P), torque))
            _set_three(rows, c + P + 3, _plus(_three(rows, c + P + 3), force))


# -- the variational step --------------------------------------------------------------------------


@inner
def _momentum(g, k, x, y, z, dx, dy, dz, e):
    """Return torque and force of the momentum of link k; see `variational._momentum`."""
    half, xy, xz, yz = 0.5 * (g[k, 0] + g[k, 1] + g[k, 2]), -g[k, 3], -g[k, 4], -g[k, 5]
    a, b = _sum(half - g[k, 0], x, xy, y, xz, z), _sum(xy, x, half - g[k, 1], y, yz, z)
    c, h = _sum(xz, x, yz, y, half - g[k, 2], z), _sum(g[k, 6], x, g[k, 7], y, g[k, 8], z)
    torque = _plus(_plus(_cross(h, e), _cross(a, dx)), _plus(_cross(b, dy), _cross(c, dz)))
    force = _plus(_plus(_times(g[k, 9], e), _times(g[k, 6], dx)), _plus(_times(g[k, 7], dy), _times(g[k, 8], dz)))
    return torque, force


@inner
def _com(g, k, x, y, z):
    m = g[k, 9]
    s = 1.0 / m if m > 0.0 else 0.0
    return _sum(s * g[k, 6], x, s * g[k, 7], y, s * g[k, 8], z)


@inner
def _carry_link(links, k, b, n, h, projected, rows, momentum):
    """Fill what link k of each figure carries from a substep h; see `variational._carry_link`."""
    g, per = links.inertia, 1.0 / h
    x, y, z = _three(rows, b + R), _three(rows, b + R + 3), _three(rows, b + R + 6)
    spin, e = _times(h, _three(rows, b + BL)), _times(h, _three(rows, b + BC))
    if projected:
        first = _dot(x, spin), _dot(y, spin), _dot(z, spin)
        second = _plus(e, _cross(spin, _com(g, k, x, y, z)))
    else:
        e = _plus(e, _times(per, _three(rows, b + MOVED)))
        dx = _plus(_cross(spin, x), _times(per, _minus(_three(rows, b + AHEAD), x)))
        dy = _plus(_cross(spin, y), _times(per, _minus(_three(rows, b + AHEAD + 3), y)))
        dz = _plus(_cross(spin, z), _times(per, _minus(_three(rows, b + AHEAD + 6), z)))
        torque, second = _momentum(g, k, x, y, z, dx, dy, dz, e)
        first = _minus(torque, _cross(_com(g, k, x, y, z), second))
    zero = splat(0.0)
    scatter(momentum, k, k + n, k + 2 * n, k + 3 * n, 0, first[0], first[1], first[2], zero)
    scatter(momentum, k, k + n, k + 2 * n, k + 3 * n, 4, second[0], second[1], second[2], zero)


@outlined
def lane_carry(links, span, h, projected, w, momentum):
    """Fill what the links carry from a substep h, still in the rows."""
    lanes = w.work.lanes
    for i in range(lanes.size[LINKS]):
        _carry_link(links, span[LINK] + i, i * LANE_COLUMNS, lanes.size[LINKS], h, projected, lanes.rows, momentum)


@inner
def _turned(g, k, x, y, z, h, w):
    """Return the angular momentum after the link's own torque has acted for h; see `variational._turned`."""
    m, cx, cy, cz = g[k, 9], g[k, 6], g[k, 7], g[k, 8]
    s = 1.0 / m if m > 0.0 else 0.0
    xx, yy, zz = g[k, 0] - s * (cy * cy + cz * cz), g[k, 1] - s * (cx * cx + cz * cz), g[k, 2] - s * (cx * cx + cy * cy)
    xy, xz, yz = g[k, 3] + s * cx * cy, g[k, 4] + s * cx * cz, g[k, 5] + s * cy * cz
    wx, wy, wz = w
    lx, ly, lz = xx * wx + xy * wy + xz * wz, xy * wx + yy * wy + yz * wz, xz * wx + yz * wy + zz * wz
    tx, ty, tz = h * (wy * lz - wz * ly), h * (wz * lx - wx * lz), h * (wx * ly - wy * lx)
    zero = splat(0.0)
    torque, size = tx * tx + ty * ty + tz * tz, NO_TORQUE * (lx * lx + ly * ly + lz * lz)
    if any_above(torque, size):
        # rows of I + h ([w] I - [I w])
        a = xx + h * (wy * xz - wz * xy), xy + h * (wy * yz - wz * yy + lz), xz + h * (wy * zz - wz * yz - ly)
        b = xy + h * (wz * xx - wx * xz - lz), yy + h * (wz * xy - wx * yz), yz + h * (wz * xz - wx * zz + lx)
        c = xz + h * (wx * xy - wy * xx + ly), yz + h * (wx * yy - wy * xy - lx), zz + h * (wx * yz - wy * xz)
        p, q, r = b[1] * c[2] - b[2] * c[1], b[2] * c[0] - b[0] * c[2], b[0] * c[1] - b[1] * c[0]
        det = a[0] * p + a[1] * q + a[2] * r
        length = _size(a[0]) + _size(b[1]) + _size(c[2])
        inverse = splat(1.0) / det
        dx = inverse * (p * tx + (a[2] * c[1] - a[1] * c[2]) * ty + (a[1] * b[2] - a[2] * b[1]) * tz)
        dy = inverse * (q * tx + (a[0] * c[2] - a[2] * c[0]) * ty + (a[2] * b[0] - a[0] * b[2]) * tz)
        dz = inverse * (r * tx + (a[1] * c[0] - a[0] * c[1]) * ty + (a[0] * b[1] - a[1] * b[0]) * tz)
        vx, vy, vz = wx - dx, wy - dy, wz - dz
        kx, ky, kz = xx * vx + xy * vy + xz * vz, xy * vx + yy * vy + yz * vz, xz * vx + yz * vy + zz * vz
        # where it has a solution, a torque, and the energy falls
        good = choose(_size(det), 1e-12 * length * length * length, torque, zero)
        before, after = lx * wx + ly * wy + lz * wz, kx * vx + ky * vy + kz * vz
        good = choose(after, before, zero, good)
        lx = choose(good, size, kx, lx)
        ly = choose(good, size, ky, ly)
        lz = choose(good, size, kz, lz)
    return _sum(lx, x, ly, y, lz, z)


@inner
def _size(a):
    zero = splat(0.0)
    return choose(zero, a, zero - a, a)


@inner
def _incoming(g, k, n, x, y, z, h, turning, momentum):
    """Return the momentum that link k of each figure brings to its pose, about its origin."""
    l0, l1, l2, _ = gather(momentum, k, k + n, k + 2 * n, k + 3 * n, 0)
    p0, p1, p2, _ = gather(momentum, k, k + n, k + 2 * n, k + 3 * n, 4)
    l, p, m = (l0, l1, l2), (p0, p1, p2), g[k, 9]
    if turning > 0.0:
        return _plus(_turned(g, k, x, y, z, turning, l), _cross(h, p)), _times(m, p)
    return _plus(l, _cross(_times(1.0 / m if m > 0.0 else 0.0, h), p)), p


@inner
def _displace(links, i, k, n, nv, nq, h, d, w):
    """Return the axes of link k ahead, at w.q, and the displacement of its origin; fill them."""
    rows = w.work.lanes.rows
    b, p = i * LANE_COLUMNS, links.parent[k] - (k - i) if links.parent[k] >= 0 else -1
    if links.kind[k] == HINGE:
        at_q = links.q_start[k]
        sine, cosine = _of_figures(w.sines, at_q, nq), _of_figures(w.cosines, at_q, nq)
        x, y, z, origin, ahead = _hinge_pose(links, k, n, p, sine, cosine, rows, AHEAD, AHEAD_O)
        _set_three(rows, b + AHEAD, x)
        _set_three(rows, b + AHEAD + 3, y)
        _set_three(rows, b + AHEAD + 6, z)
        _set_three(rows, b + AHEAD_O, origin)
        e = _minus(ahead, d)
    else:
        _other_poses(
            links, i, k - i, n, w.q, w.zeros, w.sines, w.cosines, rows, AHEAD, AHEAD_O, MOVED, w.ahead, w.column,
            w.subspace,
        )  # fmt: skip
        x, y, z = _three(rows, b + AHEAD), _three(rows, b + AHEAD + 3), _three(rows, b + AHEAD + 6)
        if links.kind[k] == FREE:
            v = links.v_start[k]
            e = _of_figures(w.qd, v, nv), _of_figures(w.qd, v + 1, nv), _of_figures(w.qd, v + 2, nv)
            e = _times(h, e)
        else:
            e = _minus(_three(rows, b + MOVED), d)
    if p >= 0:
        e = _plus(e, _three(rows, p * LANE_COLUMNS + MOVED))
    _set_three(rows, b + MOVED, e)
    return x, y, z, e


@outlined
def lane_begin(links, span, h, duration, turning, pending, projected, carried, w, q):
    """Do what `variational._begin_ahead` does, or where `projected`, what `_begin_projected` does."""
    work, momentum, g = w.work, carried.momentum, links.inertia
    rows, n, first = work.lanes.rows, work.lanes.size[LINKS], span[LINK]
    nv, nq = work.lanes.size[DOFS], work.lanes.size[DOFS + 1]
    gravity = links.gravity[0], links.gravity[1], links.gravity[2]
    sincos_all(span[COORDINATE], span[COORDINATE + 1], q, work.sines, work.cosines)
    if not projected:
        sincos_all(span[COORDINATE], span[COORDINATE + 1], w.q, w.sines, w.cosines)
    per = 1.0 / (h * h)
    for i in range(n):
        k, b = first + i, i * LANE_COLUMNS
        if pending > 0.0:
            _carry_link(links, k, b, n, pending, turning > 0.0, rows, momentum)
        if links.kind[k] == HINGE:
            p, at_q = links.parent[k] - first if links.parent[k] >= 0 else -1, links.q_start[k]
            sine, cosine = _of_figures(work.sines, at_q, nq), _of_figures(work.cosines, at_q, nq)
            x, y, z, origin, d = _hinge_pose(links, k, n, p, sine, cosine, rows, R, O)
            _set_pose(rows, b, x, y, z, origin, d)
        else:
            _other_poses(
                links, i, first, n, q, w.zeros, work.sines, work.cosines, rows, R, O, D, work.rows, row.R,
                work.subspace,
            )  # fmt: skip
            x, y, z, d = _three(rows, b + R), _three(rows, b + R + 3), _three(rows, b + R + 6), _three(rows, b + D)
        u, v, s, hx = _inertia(g, k, x, y, z)
        _set_rigid(rows, b, u, v, s, hx)
        torque, force = _incoming(g, k, n, x, y, z, hx, turning, momentum)
        known_n = _minus(_cross(hx, _times(-duration / h, gravity)), _times(1.0 / h, torque))
        known_f = _minus(_times(-g[k, 9] * duration / h, gravity), _times(1.0 / h, force))
        _set_three(rows, b + KNOWN, known_n)
        _set_three(rows, b + KNOWN + 3, known_f)
        if not projected:
            ax, ay, az, e = _displace(links, i, k, n, nv, nq, h, d, w)
            torque, force = _momentum(g, k, x, y, z, _minus(ax, x), _minus(ay, y), _minus(az, z), e)
            known_n, known_f = _plus(known_n, _times(per, torque)), _plus(known_f, _times(per, force))
        _set_three(rows, b + P, known_n)
        _set_three(rows, b + P + 3, known_f)


@outlined
def lane_outgoing(links, span, h, w):
    """Do what `variational.outgoing` does."""
    rows, n, first, g = w.work.lanes.rows, w.work.lanes.size[LINKS], span[LINK], links.inertia
    nv, nq = w.work.lanes.size[DOFS], w.work.lanes.size[DOFS + 1]
    sincos_all(span[COORDINATE], span[COORDINATE + 1], w.q, w.sines, w.cosines)
    per = 1.0 / (h * h)
    for i in range(n):
        k, b = first + i, i * LANE_COLUMNS
        x, y, z = _three(rows, b + R), _three(rows, b + R + 3), _three(rows, b + R + 6)
        ax, ay, az, e = _displace(links, i, k, n, nv, nq, h, _three(rows, b + D), w)
        torque, force = _momentum(g, k, x, y, z, _minus(ax, x), _minus(ay, y), _minus(az, z), e)
        _set_three(rows, b + P, _plus(_three(rows, b + KNOWN), _times(per, torque)))
        _set_three(rows, b + P + 3, _plus(_three(rows, b + KNOWN + 3), _times(per, force)))


@outlined
def lane_pivots(span, work):
    """Copy 1 / (S^T U) of hinges to the rows of the links."""
    n = work.lanes.size[LINKS]
    for i in range(n):
        for f in range(4):
            work.rows[span[LINK] + f * n + i, row.DI] = work.lanes.rows[i * LANE_COLUMNS + DI, f]


@outlined
def lane_joint_impulses(links, span, h, projected, w):
    """Do what `variational.joint_impulses` does, and copy axes, origins and offsets to the rows of the links."""
    g, own, rows, n, per = links.inertia, w.velocities, w.work.lanes.rows, w.work.lanes.size[LINKS], 1.0 / h
    zero = splat(0.0)
    for i in range(n):
        k, b = span[LINK] + i, i * LANE_COLUMNS
        x, y, z = _three(rows, b + R), _three(rows, b + R + 3), _three(rows, b + R + 6)
        spin, e = _times(h, _three(rows, b + BL)), _times(h, _three(rows, b + BC))
        f = _times(g[k, 9], _plus(e, _cross(spin, _com(g, k, x, y, z))))
        if not projected:
            dx, dy = _minus(_three(rows, b + AHEAD), x), _minus(_three(rows, b + AHEAD + 3), y)
            dz = _minus(_three(rows, b + AHEAD + 6), z)
            f = _plus(f, _times(per * g[k, 9], _three(rows, b + MOVED)))
            f = _plus(f, _times(per, _sum(g[k, 6], dx, g[k, 7], dy, g[k, 8], dz)))
        f = _plus(f, _times(h, _three(rows, b + KNOWN + 3)))
        m2, m3 = k + 2 * n, k + 3 * n
        scatter(own, k, k + n, m2, m3, 0, f[0], f[1], f[2], zero)
        scatter(own, k, k + n, m2, m3, 4, zero, zero, zero, zero)
        o, d, out = _three(rows, b + O), _three(rows, b + D), w.work.rows
        scatter(out, k, k + n, m2, m3, row.R, x[0], x[1], x[2], o[0])
        scatter(out, k, k + n, m2, m3, row.R + 4, y[0], y[1], y[2], o[1])
        scatter(out, k, k + n, m2, m3, row.R + 8, z[0], z[1], z[2], o[2])
        scatter(out, k, k + n, m2, m3, row.D, d[0], d[1], d[2], zero)
