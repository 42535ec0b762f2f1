"""Direct solution of constraint systems with many loops: block L D L^T of A = J M^-1 J^T + C.

The order of elimination and all places were found once (`structure.prepare`); the numeric passes run through flat
lists. With U the column of A that elimination has left, D its diagonal block and L = U D^-1, the column is taken from
all later ones, A_ab -= L_a U_b^T, right after it is divided.

Every size of block takes the same path by registers of four; columns whose blocks are all 3x3 (ball joints) have it
written out, with the same operations in the same order. Rows that follow from others leave pivots of rounding size:
they are dropped inside their block and get multiplier 0, which solves consistent systems all the same.

A rigid body's inverse mass is seven numbers, (nb, 7); other bodies pass the inverses of their blocks, flat: see
`products`. Places of multipliers and rows are those of the `System`, whatever the order of elimination.
"""

from __future__ import annotations

from limberjack._jit import inner, kernel
from limberjack.solvers.blocks import (
    columns_times,
    divided_3,
    gather3,
    group,
    invert_3,
    invert_block,
    row_sums,
    set_group,
    spread,
)
from limberjack.solvers.products import add_forces, divide_by_mass, multiply_rows, product
from limberjack.spatial.lanes import add, at, lane, mul, pack, splat, sub

__all__ = ["assemble", "factor", "refine", "solve", "solve_factored", "solve_saddle"]


@inner
def _respond_3(Minv, b, J, k, g, response):
    """Set M^-1 J^T of three rows on a rigid body."""
    x, y, z = gather3(J, k, 6), gather3(J, k + 1, 6), gather3(J, k + 2, 6)
    xx, yy, zz, xy, xz, yz, m = Minv[b, 0], Minv[b, 1], Minv[b, 2], Minv[b, 3], Minv[b, 4], Minv[b, 5], Minv[b, 6]
    set_group(response, g, add(add(mul(splat(xx), x), mul(splat(xy), y)), mul(splat(xz), z)))
    set_group(response, g + 1, add(add(mul(splat(xy), x), mul(splat(yy), y)), mul(splat(yz), z)))
    set_group(response, g + 2, add(add(mul(splat(xz), x), mul(splat(yz), y)), mul(splat(zz), z)))
    for c in range(3, 6):
        set_group(response, g + c, mul(splat(m), gather3(J, k + c, 6)))


@inner
def _respond_rigid(Minv, b, n, J, k, g, response):
    """Set M^-1 J^T of n rows on a rigid body."""
    groups = (n + 3) >> 2
    xx, yy, zz, xy, xz, yz, m = Minv[b, 0], Minv[b, 1], Minv[b, 2], Minv[b, 3], Minv[b, 4], Minv[b, 5], Minv[b, 6]
    for r in range(n):
        x, y, z = J[k + 6 * r], J[k + 6 * r + 1], J[k + 6 * r + 2]
        row, place = g + (r >> 2), r & 3
        response[row, place] = xx * x + xy * y + xz * z
        response[row + groups, place] = xy * x + yy * y + yz * z
        response[row + 2 * groups, place] = xz * x + yz * y + zz * z
        for c in range(3, 6):
            response[row + c * groups, place] = m * J[k + 6 * r + c]


@inner
def _respond_flat(Minv, m, dim, n, J, k, g, response):
    """Set M^-1 J^T of n rows on a body with any mass matrix."""
    groups = (n + 3) >> 2
    for c in range(dim):
        for r in range(n):
            s = 0.0
            for j in range(dim):
                s += Minv[m + c * dim + j] * J[k + r * dim + j]
            response[g + c * groups + (r >> 2), r & 3] = s


@inner
def _respond(system, structure, Minv, J, response):
    """Set M^-1 J^T of all touches."""
    for i in range(len(system.touch_start) - 1):
        n = system.row_start[i + 1] - system.row_start[i]
        for t in range(system.touch_start[i], system.touch_start[i + 1]):
            b, k, g = system.touch_body[t], system.block_start[t], structure.response[t]
            if Minv.ndim == 2:
                if n == 3:
                    _respond_3(Minv, b, J, k, g, response)
                else:
                    _respond_rigid(Minv, b, n, J, k, g, response)
            else:
                dim = system.body_start[b + 1] - system.body_start[b]
                _respond_flat(Minv, system.mass_start[b], dim, n, J, k, g, response)


@inner
def _sum_3(structure, system, s, J, work):
    """Set a 3x3 block of A between rigid bodies."""
    a, b, c = splat(0.0), splat(0.0), splat(0.0)
    for p in range(structure.sum_start[s], structure.sum_start[s + 1]):
        g, k = structure.response[structure.sum_row[p]], system.block_start[structure.sum_column[p]]
        for j in range(6):
            w = group(work.response, g + j)
            a = add(a, mul(w, spread(J, k + j)))
            b = add(b, mul(w, spread(J, k + 6 + j)))
            c = add(c, mul(w, spread(J, k + 12 + j)))
    g = structure.block[structure.sum_block[s]]
    set_group(work.values, g, a)
    set_group(work.values, g + 1, b)
    set_group(work.values, g + 2, c)


@inner
def _sum_any(structure, system, s, n, groups, J, work):
    """Set a block of A with n columns of so many groups."""
    to = structure.block[structure.sum_block[s]]
    for i in range(n):
        for v in range(groups):
            a = splat(0.0)
            for p in range(structure.sum_start[s], structure.sum_start[s + 1]):
                t = structure.sum_column[p]
                g = structure.response[structure.sum_row[p]] + v
                dim = (system.block_start[t + 1] - system.block_start[t]) // n
                k = system.block_start[t] + i * dim
                for j in range(dim):
                    a = add(a, mul(group(work.response, g + j * groups), spread(J, k + j)))
            set_group(work.values, to + i * groups + v, a)


@kernel
def assemble(
    system, structure,  # model
    Minv, J, C,  # in
    work,  # out
):  # fmt: skip
    """Fill work with A = J M^-1 J^T + C."""
    _respond(system, structure, Minv, J, work.response)
    zero = splat(0.0)
    for f in range(len(structure.filled)):
        block = structure.filled[f]
        for g in range(structure.block[block], structure.block[block + 1]):
            set_group(work.values, g, zero)
    s, count = 0, len(structure.sum_block)
    for k in range(len(structure.order)):
        n = structure.rows[k]
        while s < count and structure.sum_block[s] < structure.column[k + 1]:
            rows = structure.rows[structure.block_row[structure.sum_block[s]]]
            if Minv.ndim == 2 and n == 3 and rows == 3:
                _sum_3(structure, system, s, J, work)
            else:
                _sum_any(structure, system, s, n, (rows + 3) >> 2, J, work)
            s += 1
        g, v, groups = structure.block[structure.column[k]], structure.vector[k], (n + 3) >> 2
        row = system.row_start[structure.order[k]]
        for i in range(n):
            d = work.values[g + i * groups + (i >> 2), i & 3] + C[row + i]
            work.values[g + i * groups + (i >> 2), i & 3] = d
            work.diagonal[v + (i >> 2), i & 3] = d
    return 0


@inner
def _invert_pivot_3(g, v, work):
    """Replace a 3x3 diagonal block by its inverse; return the number of dropped rows, -1 if it is not finite."""
    a, b, c = group(work.values, g), group(work.values, g + 1), group(work.values, g + 2)
    o = group(work.diagonal, v)
    clear, i = invert_3(
        (lane(a, 0), lane(b, 1), lane(c, 2), lane(a, 1), lane(a, 2), lane(b, 2)), lane(o, 0), lane(o, 1), lane(o, 2)
    )
    if not clear:
        return invert_block(3, g, work.diagonal, v, work.values, work.small)
    set_group(work.values, g, pack(i[0], i[3], i[4]))
    set_group(work.values, g + 1, pack(i[3], i[1], i[5]))
    set_group(work.values, g + 2, pack(i[4], i[5], i[2]))
    return 0


@inner
def _divide_3(g, end, values, old):
    """Divide a column of 3x3 blocks by its pivot; keep what it was."""
    i00, i10, i20 = spread(values, 4 * g), spread(values, 4 * g + 1), spread(values, 4 * g + 2)
    i11, i21, i22 = spread(values, 4 * g + 5), spread(values, 4 * g + 6), spread(values, 4 * g + 10)
    for at_ in range(g + 3, end, 3):
        a, b, c = group(values, at_), group(values, at_ + 1), group(values, at_ + 2)
        set_group(old, at_ - g, a)
        set_group(old, at_ - g + 1, b)
        set_group(old, at_ - g + 2, c)
        set_group(values, at_, add(add(mul(a, i00), mul(b, i10)), mul(c, i20)))
        set_group(values, at_ + 1, add(add(mul(a, i10), mul(b, i11)), mul(c, i21)))
        set_group(values, at_ + 2, add(add(mul(a, i20), mul(b, i21)), mul(c, i22)))


@inner
def _update_3(g, end, u, target, values, old):
    """Take the products of a column of 3x3 blocks from later columns; return the place in the list of targets."""
    for second in range(g + 3, end, 3):
        o = 4 * (second - g)
        u00, u10, u20 = spread(old, o), spread(old, o + 1), spread(old, o + 2)
        u01, u11, u21 = spread(old, o + 4), spread(old, o + 5), spread(old, o + 6)
        u02, u12, u22 = spread(old, o + 8), spread(old, o + 9), spread(old, o + 10)
        for first in range(second, end, 3):
            a, b, c = group(values, first), group(values, first + 1), group(values, first + 2)
            to = target[u]
            u += 1
            set_group(values, to, divided_3(group(values, to), a, b, c, u00, u01, u02))
            set_group(values, to + 1, divided_3(group(values, to + 1), a, b, c, u10, u11, u12))
            set_group(values, to + 2, divided_3(group(values, to + 2), a, b, c, u20, u21, u22))
    return u


@inner
def _divide_any(g, n, structure, k, values, old):
    """Divide a column by its pivot; keep what it was."""
    own = (n + 3) >> 2
    for block in range(structure.column[k] + 1, structure.column[k + 1]):
        groups = (structure.rows[structure.block_row[block]] + 3) >> 2
        to = structure.block[block]
        for m in range(n * groups):
            set_group(old, to - g + m, group(values, to + m))
        for i in range(n):
            for v in range(groups):
                s = mul(group(old, to - g + v), spread(values, 4 * (g + i * own)))
                for p in range(1, n):
                    s = add(s, mul(group(old, to - g + p * groups + v), spread(values, 4 * (g + i * own) + p)))
                set_group(values, to + i * groups + v, s)


@inner
def _update_any(g, n, structure, k, u, values, old):
    """Take the products of a column from later columns; return the place in the list of targets."""
    for second in range(structure.column[k] + 1, structure.column[k + 1]):
        columns = structure.rows[structure.block_row[second]]
        wide = (columns + 3) >> 2
        o = structure.block[second] - g
        for first in range(second, structure.column[k + 1]):
            groups = (structure.rows[structure.block_row[first]] + 3) >> 2
            a, to = structure.block[first], structure.target[u]
            u += 1
            for j in range(columns):
                for v in range(groups):
                    s = group(values, to + j * groups + v)
                    for i in range(n):
                        s = sub(s, mul(group(values, a + i * groups + v), spread(old, 4 * (o + i * wide) + j)))
                    set_group(values, to + j * groups + v, s)
    return u


@kernel
def factor(
    structure,  # model
    work,  # out
):  # fmt: skip
    """Replace A in work by its factor.

    Returns:
        How many rows were dropped as following from others; they stand first in `work.dropped`. A negative status
        -1 - i says that numbers at constraint i are not finite.
    """
    u, count = 0, 0
    values, old = work.values, work.old
    for k in range(len(structure.order)):
        n, g, v = structure.rows[k], structure.block[structure.column[k]], structure.vector[k]
        if n == 3:
            lost = _invert_pivot_3(g, v, work)
        else:
            lost = invert_block(n, g, work.diagonal, v, values, work.small)
        if lost != 0:
            if lost < 0:
                return -1 - structure.order[k]
            for i in range(n):
                if work.small[12, i] == 0.0:
                    work.dropped[count] = structure.first_row[k] + i
                    count += 1
        end = structure.block[structure.column[k + 1]]
        if structure.plain[k] == 1:
            _divide_3(g, end, values, old)
            u = _update_3(g, end, u, structure.target, values, old)
        else:
            _divide_any(g, n, structure, k, values, old)
            u = _update_any(g, n, structure, k, u, values, old)
    return count


@inner
def _forward_any(structure, k, x, values):
    """Take column k times its part of x from the later parts."""
    n, v = structure.rows[k], 4 * structure.vector[k]
    for block in range(structure.column[k] + 1, structure.column[k + 1]):
        r = structure.block_row[block]
        groups, g = (structure.rows[r] + 3) >> 2, structure.block[block]
        for w in range(groups):
            s = group(x, structure.vector[r] + w)
            for i in range(n):
                s = sub(s, mul(group(values, g + i * groups + w), spread(x, v + i)))
            set_group(x, structure.vector[r] + w, s)


@inner
def _backward_any(structure, k, x, values):
    """Replace part k of x by D^-1 x less the products of its column with the later parts."""
    n, v, g = structure.rows[k], structure.vector[k], structure.block[structure.column[k]]
    own = (n + 3) >> 2
    a, b, c = splat(0.0), splat(0.0), splat(0.0)
    for i in range(n):
        s = spread(x, 4 * v + i)
        a = add(a, mul(group(values, g + i * own), s))
        if own > 1:
            b = add(b, mul(group(values, g + i * own + 1), s))
        if own > 2:
            c = add(c, mul(group(values, g + i * own + 2), s))
    set_group(x, v, a)
    if own > 1:
        set_group(x, v + 1, b)
    if own > 2:
        set_group(x, v + 2, c)
    for block in range(structure.column[k] + 1, structure.column[k + 1]):
        r = structure.block_row[block]
        rows, w = structure.rows[r], structure.vector[r]
        groups, g = (rows + 3) >> 2, structure.block[block]
        for i in range(n):
            s = 0.0
            for j in range(rows):
                s += values[g + i * groups + (j >> 2), j & 3] * x[w + (j >> 2), j & 3]
            x[v + (i >> 2), i & 3] -= s


@kernel
def solve(
    structure, work,  # model
    b,  # in
    lam,  # out
):  # fmt: skip
    """Fill lam with the solution of A lam = b, by the factor in work; dropped rows get 0. b may be lam."""
    x, values = work.x, work.values
    nc = len(structure.order)
    for k in range(nc):
        n, v, row = structure.rows[k], structure.vector[k], structure.first_row[k]
        for i in range(n):
            x[v + (i >> 2), i & 3] = b[row + i]
    for k in range(nc):
        if structure.plain[k] == 1:
            y = group(x, structure.vector[k])
            s0, s1, s2 = at(y, 0), at(y, 1), at(y, 2)
            g = structure.block[structure.column[k]]
            for block in range(structure.column[k] + 1, structure.column[k + 1]):
                g += 3
                w = structure.vector[structure.block_row[block]]
                a, c, d = group(values, g), group(values, g + 1), group(values, g + 2)
                set_group(x, w, divided_3(group(x, w), a, c, d, s0, s1, s2))
        else:
            _forward_any(structure, k, x, values)
    for k in range(nc - 1, -1, -1):
        if structure.plain[k] == 1:
            g, v = structure.block[structure.column[k]], structure.vector[k]
            y = columns_times(group(values, g), group(values, g + 1), group(values, g + 2), group(x, v))
            s0, s1, s2 = splat(0.0), splat(0.0), splat(0.0)
            for block in range(structure.column[k] + 1, structure.column[k + 1]):
                g += 3
                z = group(x, structure.vector[structure.block_row[block]])
                s0 = add(s0, mul(group(values, g), z))
                s1 = add(s1, mul(group(values, g + 1), z))
                s2 = add(s2, mul(group(values, g + 2), z))
            set_group(x, v, sub(y, row_sums(s0, s1, s2)))
        else:
            _backward_any(structure, k, x, values)
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
    """Add to lam what the factor in work makes of the residual b - A lam; work.residual is that before."""
    product(system, Minv, J, C, lam, work.f, work.u, work.residual)
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
    """Fill a and lam of [M -J^T; -J -C] [a; lam] = [F; r] by the factor in work, refined so many times."""
    divide_by_mass(system, Minv, F, work.u)
    multiply_rows(system, J, work.u, work.b)
    for i in range(len(lam)):
        work.b[i] = -r[i] - work.b[i]
    solve(structure, work, work.b, lam)
    for _ in range(refinements):
        refine(system, structure, Minv, J, C, work.b, work, lam)
    for j in range(len(a)):
        work.f[j] = F[j]
    add_forces(system, J, lam, work.f)
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
        The status of `factor`; a and lam are left alone when it is negative.
    """
    assemble(system, structure, Minv, J, C, work)
    status = factor(structure, work)
    if status >= 0:
        solve_factored(system, structure, Minv, J, C, F, r, 1 if status > 0 else 0, work, a, lam)
    return status
