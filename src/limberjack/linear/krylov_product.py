"""Products with packed rows: one pass over the constraints that updates the vectors of an iteration along the way.

The pass goes over chunks of constraints. Of each chunk the vectors are updated and the forces J^T r are added to the
solids; solids that have all their forces respond with M^-1; constraints whose solids have all responded get their part
of the product, while rows and vectors are still in cache. An iteration of conjugate residuals reads and writes
everything once. `multiply` forms K A K^T r, `multiply_schur` the product with S, the matrix of loops over a factored
tree (`tree_preconditioner.py`). Symbols as in `packed_rows.py`.
"""

from __future__ import annotations

from limberjack._jit import inner, outlined
from limberjack.linear.block_pivots import four, row_sums, set_four, spread
from limberjack.linear.packed_rows import CHUNK, PAIR, POINT, add_point_forces, prefetch, set_point_rates
from limberjack.linear.tree import solve
from limberjack.spatial.lanes import add, cross4, lane, mul, splat, sub

__all__ = [
    "ALL_VECTORS",
    "RESIDUAL_ONLY",
    "NO_UPDATE",
    "multiply",
    "multiply_schur",
    "set_rates",
    "add_forces",
    "update_vectors",
]

# Updates of the vectors in a pass: none; q and r alone, y and p being left to the next pass; all, for both passes.
NO_UPDATE, RESIDUAL_ONLY, ALL_VECTORS = range(3)
# How many rows ahead vectors are prefetched: between two chunks the processor would not predict them.
_AHEAD = 256


@inner
def _wrench(rows, o, n, y, k):
    """Return the wrench of n rows at index o with multipliers at index k of y."""
    angular = linear = splat(0.0)
    for i in range(n):
        x = spread(y, k + i)
        angular, linear = add(angular, mul(four(rows, o), x)), add(linear, mul(four(rows, o + 3), x))
        o += 6
    return angular, linear


@inner
def _add(f, b, angular, linear):
    """Add a wrench to the forces at index b."""
    set_four(f, b, add(four(f, b), angular))
    set_four(f, b + 4, add(four(f, b + 4), linear))


@inner
def _respond(m, b, o, f):
    """Replace the forces at index o by M^-1 of them, row b of m."""
    x, y, z, s = f[o], f[o + 1], f[o + 2], m[b, 6]
    f[o] = m[b, 0] * x + m[b, 3] * y + m[b, 4] * z
    f[o + 1] = m[b, 3] * x + m[b, 1] * y + m[b, 5] * z
    f[o + 2] = m[b, 4] * x + m[b, 5] * y + m[b, 2] * z
    f[o + 4], f[o + 5], f[o + 6] = s * f[o + 4], s * f[o + 5], s * f[o + 6]


@outlined
def _add_wide_forces(system, packed, i, y):
    """Add the forces of a constraint with separate rows for each body."""
    c, k = packed.listed[i], packed.first[i]
    n = packed.first[i + 1] - k
    for t in range(system.incidence_start[c], system.incidence_start[c + 1]):
        angular, linear = _wrench(packed.wide, system.block_start[t], n, y, k)
        _add(packed.f, 8 * packed.slot[system.incidence_body[t]], angular, linear)


@inner
def add_forces(system, packed, begin, end, y):
    """Add the forces of constraints begin .. end with multipliers y."""
    f, ends = packed.f, packed.ends
    for i in range(begin, end):
        k, b, a = packed.first[i], ends[i, 0], ends[i, 1]
        if packed.form[i] == POINT:
            add_point_forces(packed.levers, packed.single, i, 8 * b, 8 * a, y, k, f)
            continue
        if packed.form[i] != PAIR:
            _add_wide_forces(system, packed, i, y)
            continue
        angular, linear = _wrench(packed.rows, 6 * k, packed.first[i + 1] - k, y, k)
        _add(f, 8 * b, angular, linear)
        if a >= 0:
            angular = add(angular, cross4(four(packed.levers, 6 * i), linear))
            set_four(f, 8 * a, sub(four(f, 8 * a), angular))
            set_four(f, 8 * a + 4, sub(four(f, 8 * a + 4), linear))


@inner
def _rates(rows, o, n, angular, linear, w, k):
    """Set n numbers of w from index k on to the rows at index o times a motion."""
    i = 0
    while i + 3 <= n:
        x = add(mul(four(rows, o), angular), mul(four(rows, o + 3), linear))
        y = add(mul(four(rows, o + 6), angular), mul(four(rows, o + 9), linear))
        z = add(mul(four(rows, o + 12), angular), mul(four(rows, o + 15), linear))
        set_four(w, k + i, row_sums(x, y, z))
        i += 3
        o += 18
    while i < n:
        x = add(mul(four(rows, o), angular), mul(four(rows, o + 3), linear))
        w[k + i] = (lane(x, 0) + lane(x, 1)) + lane(x, 2)
        i += 1
        o += 6


@outlined
def _set_wide_rates(system, packed, i, u, w):
    """Set the rates of a constraint with separate rows for each body."""
    c, k = packed.listed[i], packed.first[i]
    n = packed.first[i + 1] - k
    for r in range(n):
        w[k + r] = 0.0
    for t in range(system.incidence_start[c], system.incidence_start[c + 1]):
        b, o = 8 * packed.slot[system.incidence_body[t]], system.block_start[t]
        angular, linear = four(u, b), four(u, b + 4)
        for r in range(n):
            x = add(mul(four(packed.wide, o), angular), mul(four(packed.wide, o + 3), linear))
            w[k + r] += (lane(x, 0) + lane(x, 1)) + lane(x, 2)
            o += 6


@outlined
def _add_compliance(system, packed, i, C, y, w):
    """Add K C K^T y of a compliant constraint to w."""
    c, k, small = packed.listed[i], packed.first[i], packed.small
    n, at, root = packed.first[i + 1] - k, packed.factor_start[c], packed.root[c]
    column = 12
    for r in range(n):
        small[column, r] = y[k + r]
    for r in range(n - 1, -1, -1):
        x = small[column, r]
        for s in range(r + 1, n):
            x -= packed.factor[at + ((s * (s + 1)) >> 1) + r] * small[column, s]
        small[column, r] = x * packed.factor[at + ((r * (r + 3)) >> 1)]
    for r in range(n):
        x = root * root * C[system.row_start[c] + r] * small[column, r]
        for s in range(r):
            x -= packed.factor[at] * small[column, s]
            at += 1
        small[column, r] = x * packed.factor[at]
        at += 1
        w[k + r] += small[column, r]


@inner
def set_rates(system, packed, C, begin, end, y, w):
    """Set the rows of constraints begin .. end of w to K (J u + C K^T y), u the response of the solids."""
    u = packed.f
    for i in range(begin, end):
        k, b, a = packed.first[i], packed.ends[i, 0], packed.ends[i, 1]
        if packed.form[i] == POINT:
            set_point_rates(packed.levers, packed.single, i, 8 * b, 8 * a, u, w, k)
            continue
        if packed.form[i] != PAIR:
            _set_wide_rates(system, packed, i, u, w)
        else:
            angular, linear = four(u, 8 * b), four(u, 8 * b + 4)
            if a >= 0:
                other = four(u, 8 * a)
                angular, linear = sub(angular, other), sub(linear, four(u, 8 * a + 4))
                linear = sub(linear, cross4(other, four(packed.levers, 6 * i)))
            _rates(packed.rows, 6 * k, packed.first[i + 1] - k, angular, linear, w, k)
        if packed.compliant[i] == 1:
            _add_compliance(system, packed, i, C, y, w)


@inner
def _sum(x):
    return (lane(x, 0) + lane(x, 1)) + (lane(x, 2) + lane(x, 3))


@outlined
def update_vectors(
    # in
    update, alpha, beta, last_alpha, last_beta, begin, end,
    # out
    y, r, w, p, q,
):  # fmt: skip
    """Set q to w + beta q and subtract alpha q from r, from index `begin` to `end`; return q . q.

    p = r + beta p and y + alpha p are formed in every second iteration only, for this and the last one: the residual
    before the last is r + last_alpha q.
    """
    a, b, c, d, s = splat(alpha), splat(beta), splat(last_alpha), splat(last_beta), splat(0.0)
    for g in range(begin, end, 4):
        if g & 4 == 0:
            prefetch(r, g + _AHEAD)
            prefetch(q, g + _AHEAD)
            prefetch(w, g + _AHEAD)
            if update == ALL_VECTORS:
                prefetch(p, g + _AHEAD)
                prefetch(y, g + _AHEAD)
        own, old = four(r, g), four(q, g)
        if update == ALL_VECTORS:
            before = add(add(own, mul(c, old)), mul(d, four(p, g)))
            now = add(own, mul(b, before))
            set_four(p, g, now)
            set_four(y, g, add(add(four(y, g), mul(c, before)), mul(a, now)))
        new = add(four(w, g), mul(b, old))
        set_four(q, g, new)
        set_four(r, g, sub(own, mul(a, new)))
        s = add(s, mul(new, new))
    return _sum(s)


@outlined
def multiply(
    # model
    system,
    # in
    C, update, alpha, beta, last_alpha, last_beta,
    # out
    packed, y, r, w, p, q,
):  # fmt: skip
    """Update the vectors, set w to K A K^T r, and return r . w, r . r, w . w, w . q and q . q."""
    f, count, first = packed.f, packed.count[0], packed.first
    rho, square, size, w_dot_q, curvature = splat(0.0), splat(0.0), splat(0.0), splat(0.0), 0.0
    pulled = summed = opened = responded = updated = chunk = 0
    rows = first[count]
    for k in range(rows, rows + 4):
        r[k] = w[k] = q[k] = 0.0
    for begin in range(0, count, CHUNK):
        end, open_end = min(begin + CHUNK, count), packed.plan[chunk, 0]
        if update != NO_UPDATE:
            # beyond the last row too: the rates of a row may be written there
            until = (first[end] + 4) & -4
            curvature += update_vectors(update, alpha, beta, last_alpha, last_beta, updated, until, y, r, w, p, q)
            updated = until
        for k in range(opened, open_end):
            o = 8 * packed.opened[k]
            set_four(f, o, splat(0.0))
            set_four(f, o + 4, splat(0.0))
        add_forces(system, packed, begin, end, r)
        for k in range(responded, packed.plan[chunk, 1]):
            _respond(packed.inverse, k, 8 * packed.slot[packed.done[k]], f)
        ready = packed.plan[chunk, 2]
        set_rates(system, packed, C, pulled, ready, r, w)
        opened, responded, pulled = open_end, packed.plan[chunk, 1], ready
        chunk += 1
        if pulled == count:
            for k in range(rows, rows + 4):
                w[k] = 0.0
        rhs_square = first[pulled] - 3 if pulled < count else rows
        while summed < rhs_square:
            own, new = four(r, summed), four(w, summed)
            rho, square, size = add(rho, mul(own, new)), add(square, mul(own, own)), add(size, mul(new, new))
            w_dot_q = add(w_dot_q, mul(new, four(q, summed)))
            summed += 4
    return _sum(rho), _sum(square), _sum(size), _sum(w_dot_q), curvature


@outlined
def multiply_schur(
    # model
    system,
    # in
    preconditioner, C, update, alpha, beta, last_alpha, last_beta,
    # out
    packed, y, r, w, p, q,
):  # fmt: skip
    """Update the vectors, set w to K S K^T r, and return r . w, r . r, w . w, w . q and q . q.

    S = J N J^T + C, N the response of the solids with the constraints of a factored tree in place.
    """
    f, count, force, displacement = packed.f, packed.count[0], preconditioner.force, preconditioner.displacement
    rows = packed.first[count]
    for k in range(len(f)):
        f[k] = 0.0
    curvature = 0.0
    if update != NO_UPDATE:
        curvature = update_vectors(update, alpha, beta, last_alpha, last_beta, 0, rows, y, r, w, p, q)
    add_forces(system, packed, 0, count, r)
    for b in range(len(f) >> 3):
        for i in range(3):
            force[6 * b + i] = preconditioner.free[b] * f[8 * b + i]
            force[6 * b + 3 + i] = preconditioner.free[b] * f[8 * b + 4 + i]
    solve(
        preconditioner.bare,
        preconditioner.tree,
        preconditioner.factor,
        force,
        preconditioner.zero_rhs,
        displacement,
        preconditioner.tree_lam,
    )
    for b in range(len(f) >> 3):
        for i in range(3):
            f[8 * b + i], f[8 * b + 4 + i] = displacement[6 * b + i], displacement[6 * b + 3 + i]
    set_rates(system, packed, C, 0, count, r, w)
    rho = square = size = w_dot_q = 0.0
    for k in range(rows):
        rho, square, size = rho + r[k] * w[k], square + r[k] * r[k], size + w[k] * w[k]
        w_dot_q += w[k] * q[k]
    for k in range(rows, rows + 4):
        r[k] = w[k] = q[k] = 0.0
    return rho, square, size, w_dot_q, curvature
