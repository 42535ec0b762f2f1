"""Direct solution of constraint systems with many loops: block L D L^T of A = J M^-1 J^T + C.

The order of elimination and all places were found once (`structure.prepare`); the numeric passes run through flat
lists. A column's diagonal block becomes L D L^T, its other blocks U = W L^T and then V = W D^-1, and right after that
the column is taken from all later ones: A_ab -= V_a W_b^T. This is the scalar factorisation, grouped: inverses of
whole diagonal blocks would be as fast, and lose what is lost between the longest and the shortest lever.

Every size of block takes the same path by registers of four; columns whose blocks are all 3x3 (ball joints) have it
written out, and the factor has the same bits. Rows that follow from others leave pivots of rounding size:
they are dropped inside their block and get multiplier 0, which solves consistent systems all the same.

A rigid body's inverse mass is seven numbers, (nb, 7); other bodies pass the inverses of their blocks, flat: see
`products`. Places of multipliers and rows are those of the `System`, whatever the order of elimination.
"""

from __future__ import annotations

from limberjack._jit import inner, kernel
from limberjack.solvers.assembly import assemble
from limberjack.solvers.block_pivots import (
    factor_3,
    factor_block,
    gather3,
    group,
    row_sums,
    set_group,
    spread,
    without_3,
)
from limberjack.solvers.products import add_forces, divide_by_mass, multiply_rows, product
from limberjack.spatial.lanes import add, lane, mul, pack, splat, sub

__all__ = ["factor", "refine", "solve", "solve_factored", "solve_saddle"]


@inner
def _factor_pivot_3(g, v, work):
    """Replace a 3x3 diagonal block by its factor; return the number of dropped rows, -1 if it is not finite."""
    a, b, c = group(work.values, g), group(work.values, g + 1), group(work.values, g + 2)
    o = group(work.pivots, v)
    clear, l10, l20, l21, i0, i1, i2 = factor_3(
        (lane(a, 0), lane(b, 1), lane(c, 2), lane(a, 1), lane(a, 2), lane(b, 2)), lane(o, 0), lane(o, 1), lane(o, 2)
    )
    if not clear:
        return factor_block(3, g, v, work.values, work.pivots, work.turns, work.small)
    set_group(work.values, g, pack(0.0, l10, l20))
    set_group(work.values, g + 1, pack(0.0, 0.0, l21))
    set_group(work.pivots, v, pack(i0, i1, i2))
    work.turns[v, 0] = -1
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
    """Take the products of a column of 3x3 blocks from later columns; return the place in the list of targets."""
    for second in range(g + 3, end, 3):
        o = 4 * (second - g)
        w00, w10, w20 = spread(undivided, o), spread(undivided, o + 1), spread(undivided, o + 2)
        w01, w11, w21 = spread(undivided, o + 4), spread(undivided, o + 5), spread(undivided, o + 6)
        w02, w12, w22 = spread(undivided, o + 8), spread(undivided, o + 9), spread(undivided, o + 10)
        for first in range(second, end, 3):
            a, b, c = group(values, first), group(values, first + 1), group(values, first + 2)
            place = target[u]
            u += 1
            to = place if place >= 0 else -1 - place
            source = place if place >= 0 else 0
            set_group(values, to, without_3(group(values, source), a, b, c, w00, w01, w02))
            set_group(values, to + 1, without_3(group(values, source + 1), a, b, c, w10, w11, w12))
            set_group(values, to + 2, without_3(group(values, source + 2), a, b, c, w20, w21, w22))
    return u


@inner
def _divide_any(structure, k, values, pivots, turns, undivided):
    """Divide a column by its pivots: U = W L^T, then W D^-1; keep W."""
    n, v, g = structure.rows[k], structure.vector[k], structure.block[structure.column[k]]
    own = (n + 3) >> 2
    for block in range(structure.column[k] + 1, structure.column[k + 1]):
        groups = (structure.rows[structure.block_row[block]] + 3) >> 2
        to = structure.block[block]
        for w in range(groups):
            for s in range(n):
                p = _turn(s, v, turns)
                a = group(values, to + p * groups + w)
                for e in range(s):
                    q = _turn(e, v, turns)
                    l = spread(values, 4 * (g + q * own) + p)
                    a = sub(a, mul(group(undivided, to - g + q * groups + w), l))
                set_group(undivided, to - g + p * groups + w, a)
                set_group(values, to + p * groups + w, mul(a, spread(pivots, 4 * v + p)))


@inner
def _turn(s, v, turns):
    """Return which row of a constraint is eliminated as its s-th."""
    return s if turns[v, 0] < 0 else turns[v + (s >> 2), s & 3]


@inner
def _update_any(structure, k, u, values, undivided):
    """Take the products of a column from later columns; return the place in the list of targets."""
    n, g = structure.rows[k], structure.block[structure.column[k]]
    for second in range(structure.column[k] + 1, structure.column[k + 1]):
        columns = structure.rows[structure.block_row[second]]
        wide = (columns + 3) >> 2
        o = structure.block[second] - g
        for first in range(second, structure.column[k + 1]):
            groups = (structure.rows[structure.block_row[first]] + 3) >> 2
            a, place = structure.block[first], structure.target[u]
            u += 1
            to = place if place >= 0 else -1 - place
            source = place if place >= 0 else 0
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
        How many rows were dropped as following from others; they stand first in `work.dropped`. A negative status
        -1 - i says that numbers at constraint i are not finite.
    """
    u, count = 0, 0
    values, pivots, undivided = work.values, work.pivots, work.undivided
    for k in range(len(structure.order)):
        n, g, v = structure.rows[k], structure.block[structure.column[k]], structure.vector[k]
        if n == 3:
            lost = _factor_pivot_3(g, v, work)
        else:
            lost = factor_block(n, g, v, values, pivots, work.turns, work.small)
        if lost < 0:
            return -1 - structure.order[k]
        for s in range(n - lost, n):
            work.dropped[count] = structure.first_row[k] + _turn(s, v, work.turns)
            count += 1
        if structure.plain[k] == 1 and work.turns[v, 0] < 0:
            end = structure.block[structure.column[k + 1]]
            _divide_3(g, v, end, values, pivots, undivided)
            u = _update_3(g, end, u, structure.target, values, undivided)
        else:
            _divide_any(structure, k, values, pivots, work.turns, undivided)
            u = _update_any(structure, k, u, values, undivided)
    return count


@inner
def _forward_3(structure, k, x, values):
    """Solve with L of a column of 3x3 blocks: its own part of x, then what it takes from the later parts."""
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
def _forward_any(structure, k, x, values, turns):
    """Solve with L of column k: its own part of x, then what it takes from the later parts."""
    n, v, g = structure.rows[k], structure.vector[k], structure.block[structure.column[k]]
    own = (n + 3) >> 2
    for s in range(n):
        p = _turn(s, v, turns)
        for e in range(s):
            q = _turn(e, v, turns)
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
def _backward_any(structure, k, x, values, pivots, turns):
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
        p = _turn(s, v, turns)
        for e in range(s + 1, n):
            q = _turn(e, v, turns)
            x[v + (p >> 2), p & 3] -= values[g + p * own + (q >> 2), q & 3] * x[v + (q >> 2), q & 3]


@kernel
def solve(
    structure, work,  # model
    b,  # in
    lam,  # out
):  # fmt: skip
    """Fill lam with the solution of A lam = b, by the factor in work; dropped rows get 0. b may be lam."""
    x, values, pivots, turns = work.x, work.values, work.pivots, work.turns
    nc = len(structure.order)
    for k in range(nc):
        n, v, row = structure.rows[k], structure.vector[k], structure.first_row[k]
        if n == 3:
            set_group(x, v, gather3(b, row, 1))
            continue
        for i in range(n):
            x[v + (i >> 2), i & 3] = b[row + i]
    for k in range(nc):
        if structure.plain[k] == 1 and turns[structure.vector[k], 0] < 0:
            _forward_3(structure, k, x, values)
        else:
            _forward_any(structure, k, x, values, turns)
    for k in range(nc - 1, -1, -1):
        if structure.plain[k] == 1 and turns[structure.vector[k], 0] < 0:
            _backward_3(structure, k, x, values, pivots)
        else:
            _backward_any(structure, k, x, values, pivots, turns)
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
    """Fill a and lam of [M -J^T; -J -C] [a; lam] = [F; r] by the factor in work, refined so many times."""
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
        The status of `factor`; a and lam are left alone when it is negative.
    """
    assemble(system, structure, Minv, J, C, work)
    status = factor(structure, work)
    if status >= 0:
        solve_factored(system, structure, Minv, J, C, F, r, 1 if status > 0 else 0, work, a, lam)
    return status
