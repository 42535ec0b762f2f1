"""Sums the blocks of A = J M^-1 J^T + C into the layout of a factor, body by body.

`assemble` takes any rows. `assemble_balls` takes ball joints by their levers alone: a block of J is s [-(r x) | 1], r
from the center of mass to the joint and s = -1 or 1, so a block of A is s s' ((r x) I^-1 (r' x)^T + 1 / m), a third
of the products that rows take.
"""

from __future__ import annotations

from limberjack._jit import inner, kernel
from limberjack.solvers.block_pivots import group, set_group, spread
from limberjack.solvers.products import mass_times_row, rigid_response
from limberjack.spatial.lanes import add, cross4, mul, pack, splat, sub

__all__ = ["assemble", "assemble_balls"]


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
def _sum_3(g, k, place, J, response, values):
    """Add a product of touches, both of three rows on a rigid body, to its block of A."""
    to = place if place >= 0 else -1 - place
    source = place if place >= 0 else 0
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
def _sum_any(n, groups, dim, g, k, place, J, response, values):
    """Add a product of touches to its block of A: n columns of so many groups."""
    to = place if place >= 0 else -1 - place
    source = place if place >= 0 else 0
    for i in range(n):
        for v in range(groups):
            a = group(values, source + i * groups + v)
            for j in range(dim):
                a = add(a, mul(group(response, g + j * groups + v), spread(J, k + i * dim + j)))
            set_group(values, to + i * groups + v, a)


@inner
def _sum_body(system, structure, visited, Minv, J, work):
    """Add what one body contributes to A."""
    b, touch = structure.visit[visited], structure.touch
    for q in range(structure.visit_touch[visited], structure.visit_touch[visited + 1]):
        k, n, g, v = touch[q, 0], touch[q, 1], touch[q, 2], touch[q, 3]
        if Minv.ndim == 2 and n == 3:
            _respond_3(Minv, b, J, k, g, v, work.response, work.pivots)
        else:
            _respond_any(system, Minv, b, n, J, k, g, v, work.response, work.pivots)
    dim = system.body_start[b + 1] - system.body_start[b]
    for s in range(structure.visit_term[visited], structure.visit_term[visited + 1]):
        p, q, place = structure.term[s, 0], structure.term[s, 1], structure.term[s, 2]
        g, k, n = touch[p, 2], touch[q, 0], touch[q, 1]
        if dim == 6 and n == 3 and touch[p, 1] == 3:
            _sum_3(g, k, place, J, work.response, work.values)
        else:
            _sum_any(n, (touch[p, 1] + 3) >> 2, dim, g, k, place, J, work.response, work.values)


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
def _respond_ball(Minv, b, levers, t, g, v, response, pivots):
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
def assemble_balls(
    structure,  # model
    Minv, levers, C,  # in
    work,  # out
):  # fmt: skip
    """Fill work with A = J M^-1 J^T + C of rigid bodies on ball joints.

    Args:
        structure: of a system in which every constraint has three rows and every body six dimensions.
        Minv: (nb, 7) inverse masses.
        levers: (nt, 4) of each touch: r, world axes, and s. J = s [-(r x) | 1].
        C: (nr,) compliance.
        work: of this structure.
    """
    _begin(structure, work)
    touch, response, values = structure.touch, work.response, work.values
    ex, ey, ez = pack(1.0, 0.0, 0.0), pack(0.0, 1.0, 0.0), pack(0.0, 0.0, 1.0)
    for visited in range(len(structure.visit)):
        body = structure.visit[visited]
        for t in range(structure.visit_touch[visited], structure.visit_touch[visited + 1]):
            _respond_ball(Minv, body, levers, touch[t, 4], touch[t, 2], touch[t, 3], response, work.pivots)
        for n in range(structure.visit_term[visited], structure.visit_term[visited + 1]):
            g, h, place = touch[structure.term[n, 0], 2], touch[structure.term[n, 1], 2], structure.term[n, 2]
            to = place if place >= 0 else -1 - place
            source = place if place >= 0 else 0
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
