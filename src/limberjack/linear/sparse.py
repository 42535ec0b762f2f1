"""Direct solution of constraint systems with many loops: block L D L^T of A = J M^-1 J^T + C.

The elimination order and the layout are found once (`structure.prepare`); the numeric passes run through flat lists:

    assemble  sums A into the layout of the factor, body by body; ball joints from their levers alone
    factor    per column: its diagonal block becomes L D L^T, its other blocks U = W L^T and then V = W D^-1; then it is
              eliminated from all later columns, A_ab -= V_a W_b^T
    solve     forward and backward substitution; `solve_factored` solves the saddle system with it

This is the scalar factorisation, grouped into blocks: inverses of whole diagonal blocks would be as fast, but lose
accuracy by the ratio of the longest to the shortest lever. Every block size takes the same path by registers of four;
columns whose blocks are all 3x3 (ball joints) have it written out, with the same bits. Rows that depend on others leave
pivots of rounding size: they are dropped inside their block and get multiplier 0, which still solves consistent
systems.

Inverse masses come in one of two forms, told apart by the number of axes:

- (nb, 7) rigid bodies: world inverse inertia xx yy zz xy xz yz and 1/m; zero for fixed ones;
- flat: the inverse of every body's block, row-major, at `mass_start`, for bodies of any dimension.

Multipliers and rows are indexed as in the `System`, whatever the elimination order.
"""

from __future__ import annotations

from limberjack._jit import inner, kernel
from limberjack.linear.block_pivots import (
    factor_3,
    factor_block,
    four,
    gather3,
    group,
    number,
    row_sums,
    set_four,
    set_group,
    spread,
    without_3,
)
from limberjack.spatial.lanes import add, column, cross4, lane, mul, pack, splat, sub

__all__ = [
    "add_forces",
    "assemble",
    "assemble_ball_joints",
    "divide_by_mass",
    "factor",
    "mass_times_row",
    "multiply_rows",
    "product",
    "refine",
    "rigid_response",
    "solve",
    "solve_factored",
    "solve_saddle",
]


@inner
def add_forces(
    system, row_start,  # model
    J, lam,  # in
    f,  # out
):  # fmt: skip
    """Add J^T lam to f. The rows of constraint i start at row_start[i] in lam."""
    for i in range(len(system.incidence_start) - 1):
        row = row_start[i]
        n = system.row_start[i + 1] - system.row_start[i]
        for t in range(system.incidence_start[i], system.incidence_start[i + 1]):
            b, k = system.incidence_body[t], system.block_start[t]
            to = system.body_start[b]
            dim = system.body_start[b + 1] - to
            if n == 3 and dim == 6:
                x, y, z = number(lam, row), number(lam, row + 1), number(lam, row + 2)
                a = add(mul(four(J, k), splat(x)), mul(four(J, k + 6), splat(y)))
                set_four(f, to, add(four(f, to), add(a, mul(four(J, k + 12), splat(z)))))
                for c in range(4, 6):
                    f[to + c] += number(J, k + c) * x + number(J, k + c + 6) * y + number(J, k + c + 12) * z
                continue
            for r in range(n):
                x = lam[row + r]
                for j in range(dim):
                    f[to + j] += J[k + r * dim + j] * x


@inner
def _row_times_six(J, k, a, b):
    """Return, in lanes to be summed, six numbers of J times (a_0 a_1 a_2 a_3 b_2 b_3); b_0 and b_1 are zero."""
    return add(mul(four(J, k), a), mul(four(J, k + 2), b))


@inner
def multiply_rows(
    system, row_start,  # model
    J, u,  # in
    y,  # out
):  # fmt: skip
    """Set y to J u. The rows of constraint i start at row_start[i] in y."""
    last = sub(splat(1.0), pack(1.0, 1.0, 0.0))  # 0 0 1 1
    for i in range(len(system.incidence_start) - 1):
        row = row_start[i]
        n = system.row_start[i + 1] - system.row_start[i]
        if n != 3:
            _multiply_any(system, i, n, row, J, u, y)
            continue
        total = splat(0.0)
        for t in range(system.incidence_start[i], system.incidence_start[i + 1]):
            b, k = system.incidence_body[t], system.block_start[t]
            at = system.body_start[b]
            dim = system.body_start[b + 1] - at
            if dim == 6:
                head, tail = four(u, at), mul(four(u, at + 2), last)
                p, q = _row_times_six(J, k, head, tail), _row_times_six(J, k + 6, head, tail)
                s = _row_times_six(J, k + 12, head, tail)
                total = add(total, add(row_sums(p, q, s), column(p, q, s, 3)))
            else:
                for j in range(dim):
                    total = add(total, mul(gather3(J, k + j, dim), spread(u, at + j)))
        y[row] = lane(total, 0)
        y[row + 1] = lane(total, 1)
        y[row + 2] = lane(total, 2)


@inner
def _multiply_any(system, i, n, row, J, u, y):
    """Set the n rows of constraint i of J u."""
    for r in range(n):
        s = 0.0
        for t in range(system.incidence_start[i], system.incidence_start[i + 1]):
            b = system.incidence_body[t]
            at = system.body_start[b]
            dim = system.body_start[b + 1] - at
            k = system.block_start[t] + r * dim
            for j in range(dim):
                s += J[k + j] * u[at + j]
        y[row + r] = s


@inner
def divide_by_mass(
    system,  # model
    Minv, f,  # in
    u,  # out
):  # fmt: skip
    """Set u to M^-1 f."""
    for b in range(len(system.body_start) - 1):
        at = system.body_start[b]
        if Minv.ndim == 2:
            x, y, z = f[at], f[at + 1], f[at + 2]
            xx, yy, zz, xy, xz, yz = Minv[b, 0], Minv[b, 1], Minv[b, 2], Minv[b, 3], Minv[b, 4], Minv[b, 5]
            u[at] = xx * x + xy * y + xz * z
            u[at + 1] = xy * x + yy * y + yz * z
            u[at + 2] = xz * x + yz * y + zz * z
            for j in range(3, 6):
                u[at + j] = Minv[b, 6] * f[at + j]
        else:
            k, dim = system.mass_start[b], system.body_start[b + 1] - at
            for i in range(dim):
                s = 0.0
                for j in range(dim):
                    s += Minv[k + i * dim + j] * f[at + j]
                u[at + i] = s


@inner
def rigid_response(Minv, b, J, k):
    """Return the six rows of M^-1 J^T of three rows of J, at index k, on rigid body b, and their squares J M^-1 J^T."""
    x, y, z = gather3(J, k, 6), gather3(J, k + 1, 6), gather3(J, k + 2, 6)
    p, q, s = gather3(J, k + 3, 6), gather3(J, k + 4, 6), gather3(J, k + 5, 6)
    xx, yy, zz = splat(Minv[b, 0]), splat(Minv[b, 1]), splat(Minv[b, 2])
    xy, xz, yz, m = splat(Minv[b, 3]), splat(Minv[b, 4]), splat(Minv[b, 5]), splat(Minv[b, 6])
    u = add(add(mul(xx, x), mul(xy, y)), mul(xz, z))
    v = add(add(mul(xy, x), mul(yy, y)), mul(yz, z))
    w = add(add(mul(xz, x), mul(yz, y)), mul(zz, z))
    angular = add(add(mul(x, u), mul(y, v)), mul(z, w))
    linear = add(add(mul(p, p), mul(q, q)), mul(s, s))
    return (u, v, w, mul(m, p), mul(m, q), mul(m, s)), add(angular, mul(m, linear))


@inner
def mass_times_row(system, Minv, b, c, J, row):
    """Return component c of M^-1 of body b times the row of J that starts at index `row`."""
    s = 0.0
    if Minv.ndim == 2:
        if c > 2:
            return Minv[b, 6] * J[row + c]
        # xx yy zz xy xz yz: row c and column j are at 2 + c + j, unless they are the same
        for j in range(3):
            s += Minv[b, c if j == c else 2 + c + j] * J[row + j]
    else:
        dim = system.body_start[b + 1] - system.body_start[b]
        for j in range(dim):
            s += Minv[system.mass_start[b] + c * dim + j] * J[row + j]
    return s


@kernel
def product(
    system, row_start,  # model
    Minv, J, C, lam,  # in
    f, u,  # work
    y,  # out
):  # fmt: skip
    """Set y to (J M^-1 J^T + C) lam. The rows of constraint i start at row_start[i] in lam and y, not in C."""
    for j in range(len(f)):
        f[j] = 0.0
    add_forces(system, row_start, J, lam, f)
    divide_by_mass(system, Minv, f, u)
    multiply_rows(system, row_start, J, u, y)
    for i in range(len(row_start) - 1):
        first = system.row_start[i]
        for r in range(system.row_start[i + 1] - first):
            y[row_start[i] + r] += C[first + r] * lam[row_start[i] + r]
    return 0


@inner
def _respond_3(Minv, b, J, k, g, v, response, pivots):
    """Set M^-1 J^T of three rows on a rigid body; add their part of A's diagonal."""
    w, squares = rigid_response(Minv, b, J, k)
    set_group(response, g, w[0])
    set_group(response, g + 1, w[1])
    set_group(response, g + 2, w[2])
    set_group(response, g + 3, w[3])
    set_group(response, g + 4, w[4])
    set_group(response, g + 5, w[5])
    set_group(pivots, v, add(group(pivots, v), squares))


@inner
def _respond_any(system, Minv, b, n, J, k, g, v, response, pivots):
    """Set M^-1 J^T of n rows on a body; add their part of A's diagonal."""
    groups, dim = (n + 3) >> 2, system.body_start[b + 1] - system.body_start[b]
    for r in range(n):
        d = 0.0
        row = k + r * dim
        for c in range(dim):
            s = mass_times_row(system, Minv, b, c, J, row)
            response[g + c * groups + (r >> 2), r & 3] = s
            d += s * J[row + c]
        pivots[v + (r >> 2), r & 3] += d


@inner
def _sum_3(g, k, target_block, J, response, values):
    """Add a product of incidences, both of three rows on a rigid body, to its block of A."""
    to = target_block if target_block >= 0 else -1 - target_block
    source = target_block if target_block >= 0 else 0
    a, b, c = group(values, source), group(values, source + 1), group(values, source + 2)
    for j in range(6):
        w = group(response, g + j)
        a = add(a, mul(w, spread(J, k + j)))
        b = add(b, mul(w, spread(J, k + 6 + j)))
        c = add(c, mul(w, spread(J, k + 12 + j)))
    set_group(values, to, a)
    set_group(values, to + 1, b)
    set_group(values, to + 2, c)


@inner
def _sum_any(n, groups, dim, g, k, target_block, J, response, values):
    """Add a product of incidences to its block of A: n columns of so many groups."""
    to = target_block if target_block >= 0 else -1 - target_block
    source = target_block if target_block >= 0 else 0
    for i in range(n):
        for v in range(groups):
            a = group(values, source + i * groups + v)
            for j in range(dim):
                a = add(a, mul(group(response, g + j * groups + v), spread(J, k + i * dim + j)))
            set_group(values, to + i * groups + v, a)


@inner
def _sum_body(system, structure, visited, Minv, J, work):
    """Add the contribution of one body to A."""
    b, incidence = structure.visit[visited], structure.incidence
    for q in range(structure.visit_incidence[visited], structure.visit_incidence[visited + 1]):
        k, n, g, v = incidence[q, 0], incidence[q, 1], incidence[q, 2], incidence[q, 3]
        if Minv.ndim == 2 and n == 3:
            _respond_3(Minv, b, J, k, g, v, work.response, work.pivots)
        else:
            _respond_any(system, Minv, b, n, J, k, g, v, work.response, work.pivots)
    dim = system.body_start[b + 1] - system.body_start[b]
    for s in range(structure.visit_term[visited], structure.visit_term[visited + 1]):
        p, q, target_block = structure.term[s, 0], structure.term[s, 1], structure.term[s, 2]
        g, k, n = incidence[p, 2], incidence[q, 0], incidence[q, 1]
        if dim == 6 and n == 3 and incidence[p, 1] == 3:
            _sum_3(g, k, target_block, J, work.response, work.values)
        else:
            _sum_any(n, (incidence[p, 1] + 3) >> 2, dim, g, k, target_block, J, work.response, work.values)


@inner
def _begin(structure, work):
    """Clear the diagonal, and the blocks that no body adds to."""
    zero = splat(0.0)
    for v in range(len(work.pivots)):
        set_group(work.pivots, v, zero)
    for e in range(len(structure.empty)):
        block = structure.empty[e]
        for g in range(structure.block[block], structure.block[block + 1]):
            set_group(work.values, g, zero)


@inner
def _add_compliance(structure, C, work):
    """Add C to the diagonal."""
    for k in range(len(structure.order)):
        n, row = structure.rows[k], structure.first_row[k]
        for i in range(n):
            c = C[row + i]
            if c != 0.0:
                groups = (n + 3) >> 2
                work.values[structure.block[structure.column[k]] + i * groups + (i >> 2), i & 3] += c
                work.pivots[structure.vector[k] + (i >> 2), i & 3] += c


@kernel
def assemble(
    system, structure,  # model
    Minv, J, C,  # in
    work,  # out
):  # fmt: skip
    """Fill work with A = J M^-1 J^T + C."""
    _begin(structure, work)
    for visited in range(len(structure.visit)):
        _sum_body(system, structure, visited, Minv, J, work)
    _add_compliance(structure, C, work)
    return 0


@inner
def _respond_ball_joint(Minv, b, levers, t, g, v, response, pivots):
    """Set the columns of s (r x) I^-1, s r and s / m of one ball joint on a body; add its part of A's diagonal."""
    xx, yy, zz, xy, xz, yz, m = Minv[b, 0], Minv[b, 1], Minv[b, 2], Minv[b, 3], Minv[b, 4], Minv[b, 5], Minv[b, 6]
    x, y, z, sign = levers[t, 0], levers[t, 1], levers[t, 2], levers[t, 3]
    r = mul(splat(sign), pack(x, y, z))
    set_group(response, g, cross4(r, pack(xx, xy, xz)))
    set_group(response, g + 1, cross4(r, pack(xy, yy, yz)))
    set_group(response, g + 2, cross4(r, pack(xz, yz, zz)))
    set_group(response, g + 3, r)
    set_group(response, g + 4, splat(sign))
    set_group(response, g + 5, splat(sign * m))
    squares = pack(
        yy * z * z + zz * y * y - 2.0 * yz * y * z + m,
        xx * z * z + zz * x * x - 2.0 * xz * x * z + m,
        xx * y * y + yy * x * x - 2.0 * xy * x * y + m,
    )
    set_group(pivots, v, add(group(pivots, v), squares))


@kernel
def assemble_ball_joints(
    structure,  # model
    Minv, levers, C,  # in
    work,  # out
):  # fmt: skip
    """Fill work with A = J M^-1 J^T + C of rigid bodies on ball joints.

    Args:
        structure: of a system in which every constraint has three rows and every body six dimensions.
        Minv: (nb, 7) inverse masses.
        levers: (nt, 4) of each incidence: r from the com to the joint, world axes, and s = -1 or 1. J = s [-(r x) | 1],
            so a block of A is s s' ((r x) I^-1 (r' x)^T + 1 / m), a third of the products that rows take.
        C: (nr,) compliance.
        work: of this structure.
    """
    _begin(structure, work)
    incidence, response, values = structure.incidence, work.response, work.values
    ex, ey, ez = pack(1.0, 0.0, 0.0), pack(0.0, 1.0, 0.0), pack(0.0, 0.0, 1.0)
    for visited in range(len(structure.visit)):
        body = structure.visit[visited]
        for t in range(structure.visit_incidence[visited], structure.visit_incidence[visited + 1]):
            _respond_ball_joint(
                Minv, body, levers, incidence[t, 4], incidence[t, 2], incidence[t, 3], response, work.pivots
            )
        for n in range(structure.visit_term[visited], structure.visit_term[visited + 1]):
            g, h, target_block = (
                incidence[structure.term[n, 0], 2],
                incidence[structure.term[n, 1], 2],
                structure.term[n, 2],
            )
            to = target_block if target_block >= 0 else -1 - target_block
            source = target_block if target_block >= 0 else 0
            a, b, c = group(response, g), group(response, g + 1), group(response, g + 2)
            x, y, z = spread(response, 4 * h + 12), spread(response, 4 * h + 13), spread(response, 4 * h + 14)
            m = mul(group(response, g + 4), group(response, h + 5))
            p = add(group(values, source), add(sub(mul(y, c), mul(z, b)), mul(m, ex)))
            q = add(group(values, source + 1), add(sub(mul(z, a), mul(x, c)), mul(m, ey)))
            s = add(group(values, source + 2), add(sub(mul(x, b), mul(y, a)), mul(m, ez)))
            set_group(values, to, p)
            set_group(values, to + 1, q)
            set_group(values, to + 2, s)
    _add_compliance(structure, C, work)
    return 0


@inner
def _factor_pivot_3(g, v, work):
    """Replace a 3x3 diagonal block by its factor; return the number of dropped rows, -1 if it is not finite."""
    a, b, c = group(work.values, g), group(work.values, g + 1), group(work.values, g + 2)
    o = group(work.pivots, v)
    clear, l10, l20, l21, i0, i1, i2 = factor_3(
        (lane(a, 0), lane(b, 1), lane(c, 2), lane(a, 1), lane(a, 2), lane(b, 2)), lane(o, 0), lane(o, 1), lane(o, 2)
    )
    if not clear:
        return factor_block(3, g, v, work.values, work.pivots, work.pivot_order, work.small)
    set_group(work.values, g, pack(0.0, l10, l20))
    set_group(work.values, g + 1, pack(0.0, 0.0, l21))
    set_group(work.pivots, v, pack(i0, i1, i2))
    work.pivot_order[v, 0] = -1
    return 0


@inner
def _divide_3(g, v, end, values, pivots, undivided):
    """Divide a column of 3x3 blocks by its pivots: U = W L^T, then W D^-1; keep W."""
    l10, l20, l21 = spread(values, 4 * g + 1), spread(values, 4 * g + 2), spread(values, 4 * g + 6)
    i0, i1, i2 = spread(pivots, 4 * v), spread(pivots, 4 * v + 1), spread(pivots, 4 * v + 2)
    for to in range(g + 3, end, 3):
        a = group(values, to)
        b = sub(group(values, to + 1), mul(a, l10))
        c = sub(sub(group(values, to + 2), mul(a, l20)), mul(b, l21))
        set_group(undivided, to - g, a)
        set_group(undivided, to - g + 1, b)
        set_group(undivided, to - g + 2, c)
        set_group(values, to, mul(a, i0))
        set_group(values, to + 1, mul(b, i1))
        set_group(values, to + 2, mul(c, i2))


@inner
def _update_3(g, end, u, target, values, undivided):
    """Subtract the products of a column of 3x3 blocks from later columns; return the index in the list of targets."""
    for second in range(g + 3, end, 3):
        o = 4 * (second - g)
        w00, w10, w20 = spread(undivided, o), spread(undivided, o + 1), spread(undivided, o + 2)
        w01, w11, w21 = spread(undivided, o + 4), spread(undivided, o + 5), spread(undivided, o + 6)
        w02, w12, w22 = spread(undivided, o + 8), spread(undivided, o + 9), spread(undivided, o + 10)
        for first in range(second, end, 3):
            a, b, c = group(values, first), group(values, first + 1), group(values, first + 2)
            target_block = target[u]
            u += 1
            to = target_block if target_block >= 0 else -1 - target_block
            source = target_block if target_block >= 0 else 0
            set_group(values, to, without_3(group(values, source), a, b, c, w00, w01, w02))
            set_group(values, to + 1, without_3(group(values, source + 1), a, b, c, w10, w11, w12))
            set_group(values, to + 2, without_3(group(values, source + 2), a, b, c, w20, w21, w22))
    return u


@inner
def _divide_any(structure, k, values, pivots, pivot_order, undivided):
    """Divide a column by its pivots: U = W L^T, then W D^-1; keep W."""
    n, v, g = structure.rows[k], structure.vector[k], structure.block[structure.column[k]]
    own = (n + 3) >> 2
    for block in range(structure.column[k] + 1, structure.column[k + 1]):
        groups = (structure.rows[structure.block_row[block]] + 3) >> 2
        to = structure.block[block]
        for w in range(groups):
            for s in range(n):
                p = _pivot_row(s, v, pivot_order)
                a = group(values, to + p * groups + w)
                for e in range(s):
                    q = _pivot_row(e, v, pivot_order)
                    l = spread(values, 4 * (g + q * own) + p)
                    a = sub(a, mul(group(undivided, to - g + q * groups + w), l))
                set_group(undivided, to - g + p * groups + w, a)
                set_group(values, to + p * groups + w, mul(a, spread(pivots, 4 * v + p)))


@inner
def _pivot_row(s, v, pivot_order):
    """Return the row of a constraint that is eliminated as its s-th."""
    return s if pivot_order[v, 0] < 0 else pivot_order[v + (s >> 2), s & 3]


@inner
def _update_any(structure, k, u, values, undivided):
    """Subtract the products of a column from later columns; return the index in the list of targets."""
    n, g = structure.rows[k], structure.block[structure.column[k]]
    for second in range(structure.column[k] + 1, structure.column[k + 1]):
        columns = structure.rows[structure.block_row[second]]
        wide = (columns + 3) >> 2
        o = structure.block[second] - g
        for first in range(second, structure.column[k + 1]):
            groups = (structure.rows[structure.block_row[first]] + 3) >> 2
            a, target_block = structure.block[first], structure.target[u]
            u += 1
            to = target_block if target_block >= 0 else -1 - target_block
            source = target_block if target_block >= 0 else 0
            for j in range(columns):
                for v in range(groups):
                    s = group(values, source + j * groups + v)
                    for i in range(n):
                        s = sub(s, mul(group(values, a + i * groups + v), spread(undivided, 4 * (o + i * wide) + j)))
                    set_group(values, to + j * groups + v, s)
    return u


@kernel
def factor(
    structure,  # model
    work,  # out
):  # fmt: skip
    """Replace A in work by its factor.

    Returns:
        The number of rows dropped as dependent on others; they are the first in `work.dropped`. A negative status
        -1 - i says that numbers at constraint i are not finite.
    """
    u, count = 0, 0
    values, pivots, undivided = work.values, work.pivots, work.undivided
    for k in range(len(structure.order)):
        n, g, v = structure.rows[k], structure.block[structure.column[k]], structure.vector[k]
        if n == 3:
            dropped = _factor_pivot_3(g, v, work)
        else:
            dropped = factor_block(n, g, v, values, pivots, work.pivot_order, work.small)
        if dropped < 0:
            return -1 - structure.order[k]
        for s in range(n - dropped, n):
            work.dropped[count] = structure.first_row[k] + _pivot_row(s, v, work.pivot_order)
            count += 1
        if structure.only_3x3[k] == 1 and work.pivot_order[v, 0] < 0:
            end = structure.block[structure.column[k + 1]]
            _divide_3(g, v, end, values, pivots, undivided)
            u = _update_3(g, end, u, structure.target, values, undivided)
        else:
            _divide_any(structure, k, values, pivots, work.pivot_order, undivided)
            u = _update_any(structure, k, u, values, undivided)
    return count


@inner
def _forward_3(structure, k, x, values):
    """Solve with L of a column of 3x3 blocks: its own part of x, then its products with the later parts."""
    g, v = structure.block[structure.column[k]], structure.vector[k]
    y = group(x, v)
    a, b = group(values, g), group(values, g + 1)
    x0 = lane(y, 0)
    x1 = lane(y, 1) - lane(a, 1) * x0
    x2 = lane(y, 2) - lane(a, 2) * x0 - lane(b, 2) * x1
    set_group(x, v, pack(x0, x1, x2))
    s0, s1, s2 = splat(x0), splat(x1), splat(x2)
    for block in range(structure.column[k] + 1, structure.column[k + 1]):
        g += 3
        w = structure.vector[structure.block_row[block]]
        set_group(
            x, w, without_3(group(x, w), group(values, g), group(values, g + 1), group(values, g + 2), s0, s1, s2)
        )


@inner
def _backward_3(structure, k, x, values, pivots):
    """Solve with D and L^T of a column of 3x3 blocks."""
    g, v = structure.block[structure.column[k]], structure.vector[k]
    a, b, at = group(values, g), group(values, g + 1), g
    s0, s1, s2 = splat(0.0), splat(0.0), splat(0.0)
    for block in range(structure.column[k] + 1, structure.column[k + 1]):
        at += 3
        z = group(x, structure.vector[structure.block_row[block]])
        s0 = add(s0, mul(group(values, at), z))
        s1 = add(s1, mul(group(values, at + 1), z))
        s2 = add(s2, mul(group(values, at + 2), z))
    y = sub(mul(group(x, v), group(pivots, v)), row_sums(s0, s1, s2))
    x2 = lane(y, 2)
    x1 = lane(y, 1) - lane(b, 2) * x2
    x0 = lane(y, 0) - lane(a, 1) * x1 - lane(a, 2) * x2
    set_group(x, v, pack(x0, x1, x2))


@inner
def _forward_any(structure, k, x, values, pivot_order):
    """Solve with L of column k: its own part of x, then its products with the later parts."""
    n, v, g = structure.rows[k], structure.vector[k], structure.block[structure.column[k]]
    own = (n + 3) >> 2
    for s in range(n):
        p = _pivot_row(s, v, pivot_order)
        for e in range(s):
            q = _pivot_row(e, v, pivot_order)
            x[v + (p >> 2), p & 3] -= values[g + q * own + (p >> 2), p & 3] * x[v + (q >> 2), q & 3]
    for block in range(structure.column[k] + 1, structure.column[k + 1]):
        r = structure.block_row[block]
        groups, g = (structure.rows[r] + 3) >> 2, structure.block[block]
        for w in range(groups):
            a = group(x, structure.vector[r] + w)
            for i in range(n):
                a = sub(a, mul(group(values, g + i * groups + w), spread(x, 4 * v + i)))
            set_group(x, structure.vector[r] + w, a)


@inner
def _backward_any(structure, k, x, values, pivots, pivot_order):
    """Solve with D and L^T of column k."""
    n, v, g = structure.rows[k], structure.vector[k], structure.block[structure.column[k]]
    own = (n + 3) >> 2
    for i in range(n):
        x[v + (i >> 2), i & 3] *= pivots[v + (i >> 2), i & 3]
    for block in range(structure.column[k] + 1, structure.column[k + 1]):
        r = structure.block_row[block]
        rows, w = structure.rows[r], structure.vector[r]
        groups, to = (rows + 3) >> 2, structure.block[block]
        for i in range(n):
            s = 0.0
            for j in range(rows):
                s += values[to + i * groups + (j >> 2), j & 3] * x[w + (j >> 2), j & 3]
            x[v + (i >> 2), i & 3] -= s
    for s in range(n - 2, -1, -1):
        p = _pivot_row(s, v, pivot_order)
        for e in range(s + 1, n):
            q = _pivot_row(e, v, pivot_order)
            x[v + (p >> 2), p & 3] -= values[g + p * own + (q >> 2), q & 3] * x[v + (q >> 2), q & 3]


@kernel
def solve(
    structure, work,  # model
    b,  # in
    lam,  # out
):  # fmt: skip
    """Fill lam with the solution of A lam = b, by the factor in work; dropped rows get 0. b may be lam."""
    x, values, pivots, pivot_order = work.x, work.values, work.pivots, work.pivot_order
    nc = len(structure.order)
    for k in range(nc):
        n, v, row = structure.rows[k], structure.vector[k], structure.first_row[k]
        if n == 3:
            set_group(x, v, gather3(b, row, 1))
            continue
        for i in range(n):
            x[v + (i >> 2), i & 3] = b[row + i]
    for k in range(nc):
        if structure.only_3x3[k] == 1 and pivot_order[structure.vector[k], 0] < 0:
            _forward_3(structure, k, x, values)
        else:
            _forward_any(structure, k, x, values, pivot_order)
    for k in range(nc - 1, -1, -1):
        if structure.only_3x3[k] == 1 and pivot_order[structure.vector[k], 0] < 0:
            _backward_3(structure, k, x, values, pivots)
        else:
            _backward_any(structure, k, x, values, pivots, pivot_order)
    for k in range(nc):
        n, v, row = structure.rows[k], structure.vector[k], structure.first_row[k]
        for i in range(n):
            lam[row + i] = x[v + (i >> 2), i & 3]
    return 0


@kernel
def refine(
    system, structure,  # model
    Minv, J, C, b,  # in
    work,  # work
    lam,  # out
):  # fmt: skip
    """Add the correction of the residual b - A lam by the factor in work to lam; work.residual is that before."""
    product(system, system.row_start, Minv, J, C, lam, work.f, work.u, work.residual)
    for r in range(len(lam)):
        work.residual[r] = b[r] - work.residual[r]
    solve(structure, work, work.residual, work.correction)
    for r in range(len(lam)):
        lam[r] += work.correction[r]
    return 0


@kernel
def solve_factored(
    system, structure,  # model
    Minv, J, C, F, r,  # in
    refinements, work,  # work
    a, lam,  # out
):  # fmt: skip
    """Fill a and lam of [M -J^T; -J -C] [a; lam] = [F; r] by the factor in work, with `refinements`."""
    divide_by_mass(system, Minv, F, work.u)
    multiply_rows(system, system.row_start, J, work.u, work.b)
    for i in range(len(lam)):
        work.b[i] = -r[i] - work.b[i]
    solve(structure, work, work.b, lam)
    for _ in range(refinements):
        refine(system, structure, Minv, J, C, work.b, work, lam)
    for j in range(len(a)):
        work.f[j] = F[j]
    add_forces(system, system.row_start, J, lam, work.f)
    divide_by_mass(system, Minv, work.f, a)
    return 0


@kernel
def solve_saddle(
    system, structure,  # model
    Minv, J, C, F, r,  # in
    work,  # work
    a, lam,  # out
):  # fmt: skip
    """Fill a and lam of [M -J^T; -J -C] [a; lam] = [F; r].

    Where rows were dropped the solution is refined once: near-dependent rows amplify rounding.

    Returns:
        The status of `factor`; a and lam are not changed when it is negative.
    """
    assemble(system, structure, Minv, J, C, work)
    status = factor(structure, work)
    if status >= 0:
        solve_factored(system, structure, Minv, J, C, F, r, 1 if status > 0 else 0, work, a, lam)
    return status
