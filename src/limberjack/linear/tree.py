"""Linear-time factorisation of the saddle system of a forest of primary constraints, and solves with it.

    [ M  -J^T ] [ a   ]   [ F ]
    [-J  -C   ] [ lam ] = [ r ]        Baraff 1996, equation (8), with a compliance C and a and lam from one solve

Nodes are bodies and constraints in the order of `elimination.Tree`; B is the block of J between a node and its parent:

| symbol | meaning |
|---|---|
| D | pivot of a node: M or C, plus what its children add; of a constraint it is the pivot of the paper, negated |
| U d U^T | factor of D: U unit lower, d diagonal |
| W | U^-1 B, with B transposed such that the node's own index stands first |
| G | d^-1 W |
| y | forward-eliminated right side of a node |

    sparsefactor   D_parent += G^T W                                    (both signs of the paper's H cancel)
    sparsesolve    y = U^-1 x;  x_parent += G^T y of a body,  -= G^T y of a constraint
                   a = U^-T (d^-1 y + G lam_parent);  lam = -U^-T (d^-1 y + G a_parent)

The paper's L = D^-1 H is U^-T G: half a triangular solve less per node, and D is positive definite at every node. D of
a body is the articulated-body inertia of its subtree, about the body's own reference point.

The kernels of one node are written out for bodies of dimension 6 and 3, with loops for others: `factor_*` and
`add_to_parent_*` for `factor`, `forward_*` and `backward_*` for `solve`.

Reference: Baraff 1996, section 7.3 (sparsefactor, sparsesolve) and appendix A.
"""

from __future__ import annotations

from limberjack._jit import inner, kernel
from limberjack.linear.blocks import (
    backward,
    backward_3,
    backward_6,
    dot_3,
    dot_6,
    factor_3,
    factor_5,
    factor_6,
    factor_any,
    forward,
    forward_3,
    forward_6,
    load_3,
    load_6,
    lower_3,
    lower_5,
    lower_6,
    minus_6,
    rank_one_3,
    rank_one_6,
    scaled_6,
    square_lower_3,
    square_lower_6,
    store_3,
    store_6,
    store_lower_3,
    store_lower_5,
    store_lower_6,
    sum_6,
    sum_21,
)
from limberjack.linear.elimination import (
    BLOCK,
    BODY,
    BODY_3,
    BODY_6,
    CONSTRAINT_3,
    CONSTRAINT_6,
    DIM,
    FACTOR,
    FIRST,
    FORM,
    LEAF,
    SOURCE,
    UP_DIM,
    UP_FACTOR,
    UP_VECTOR,
    VECTOR,
)

__all__ = [
    "backward_body",
    "backward_body_3",
    "backward_body_6",
    "backward_rows",
    "backward_rows_3",
    "backward_rows_6",
    "factor",
    "factor_body",
    "factor_body_3",
    "factor_body_6",
    "factor_rows",
    "forward_body",
    "forward_body_3",
    "forward_body_6",
    "forward_rows",
    "forward_rows_3",
    "forward_rows_6",
    "add_to_parent",
    "add_to_parent_3",
    "add_to_parent_6",
    "residual",
    "solve",
]

# Pivots this small relative to their diagonal are rounding. A body's own mass bounds its pivot from below, at any mass
# ratio; rows of one constraint that depend on each other leave up to the condition number of D times the precision.
_BODY_FLOOR = 1e-14
_ROW_FLOOR = 1e-12


@inner
def factor_body_6(table, n, M, J, work):
    """Factor the pivot of a body of dimension 6 and add G^T W to that of its parent."""
    p, rows, block = table[n, FACTOR], table[n, UP_DIM], table[n, BLOCK]
    d = square_lower_6(M, table[n, SOURCE])
    if table[n, LEAF] == 0:
        d = sum_21(d, lower_6(work, p))
    positive, f = factor_6(d, _BODY_FLOOR)
    store_lower_6(work, p, f)
    up, first, g = table[n, UP_FACTOR], table[n, FIRST] == 1, p + 21
    for r in range(rows):
        w = forward_6(f, load_6(J, block + 6 * r))
        s = (w[0] * f[0], w[1] * f[2], w[2] * f[5], w[3] * f[9], w[4] * f[14], w[5] * f[20])
        for k in range(r):
            x = dot_6(w, load_6(work, g + 6 * k))
            work[up] = x if first else work[up] + x
            up += 1
        x = dot_6(w, s)
        work[up] = x if first else work[up] + x
        up += 1
        store_6(work, g + 6 * r, s)
    return positive


@inner
def factor_body_3(table, n, M, J, work):
    """Factor the pivot of a body of dimension 3 and add G^T W to that of its parent."""
    p, rows, block = table[n, FACTOR], table[n, UP_DIM], table[n, BLOCK]
    d = square_lower_3(M, table[n, SOURCE])
    if table[n, LEAF] == 0:
        d = sum_6(d, lower_3(work, p))
    positive, f = factor_3(d, _BODY_FLOOR)
    store_lower_3(work, p, f)
    up, first, g = table[n, UP_FACTOR], table[n, FIRST] == 1, p + 6
    for r in range(rows):
        w = forward_3(f, load_3(J, block + 3 * r))
        s = (w[0] * f[0], w[1] * f[2], w[2] * f[5])
        for k in range(r):
            x = dot_3(w, load_3(work, g + 3 * k))
            work[up] = x if first else work[up] + x
            up += 1
        x = dot_3(w, s)
        work[up] = x if first else work[up] + x
        up += 1
        store_3(work, g + 3 * r, s)
    return positive


@inner
def factor_body(table, n, M, J, work):
    """Factor the pivot of a body of any dimension and add G^T W to that of its parent."""
    # Bounds known to the compiler nearly halve the time at 7 and 9 (scaled bodies); at 12 they win nothing.
    dim = table[n, DIM]
    if dim == 9:
        return _factor_body(table, n, 9, M, J, work)
    if dim == 7:
        return _factor_body(table, n, 7, M, J, work)
    return _factor_body(table, n, dim, M, J, work)


@inner
def _factor_body(table, n, dim, M, J, work):
    p, rows, source = table[n, FACTOR], table[n, UP_DIM], table[n, SOURCE]
    leaf, at = table[n, LEAF] == 1, p
    for i in range(dim):
        for j in range(i + 1):
            x = M[source + i * dim + j]
            work[at] = x if leaf else work[at] + x
            at += 1
    positive = factor_any(dim, _BODY_FLOOR, work, p)
    up, first, block = table[n, UP_FACTOR], table[n, FIRST] == 1, table[n, BLOCK]
    for r in range(rows):
        row = at + r * dim
        for i in range(dim):
            work[row + i] = J[block + r * dim + i]
        forward(dim, work, p, work, row)
        for k in range(r):
            x = 0.0
            for i in range(dim):
                x += work[row + i] * work[at + k * dim + i]
            work[up] = x if first else work[up] + x
            up += 1
        x = 0.0
        for i in range(dim):
            s = work[row + i] * work[p + i * (i + 3) // 2]
            x += work[row + i] * s
            work[row + i] = s
        work[up] = x if first else work[up] + x
        up += 1
    return positive


@inner
def factor_rows(table, n, C, work):
    """Factor the pivot of a constraint."""
    p, rows, source = table[n, FACTOR], table[n, DIM], table[n, SOURCE]
    for i in range(rows):
        work[p + i * (i + 3) // 2] += C[source + i]
    if rows == 3:
        positive, f = factor_3(lower_3(work, p), _ROW_FLOOR)
        store_lower_3(work, p, f)
    elif rows == 5:
        positive, g = factor_5(lower_5(work, p), _ROW_FLOOR)
        store_lower_5(work, p, g)
    elif rows == 6:
        positive, h = factor_6(lower_6(work, p), _ROW_FLOOR)
        store_lower_6(work, p, h)
    elif rows == 2:
        positive = factor_any(2, _ROW_FLOOR, work, p)
    else:
        positive = factor_any(rows, _ROW_FLOOR, work, p)
    return positive


@inner
def add_to_parent_6(table, n, J, work):
    """Add G^T W of a constraint to the pivot of its parent, a body of dimension 6."""
    # Bounds known to the compiler: its unrolled loops equal sums written out.
    rows = table[n, DIM]
    if rows == 3:
        _add_rows_to_parent_6(table, n, 3, J, work)
    else:
        _add_rows_to_parent_6(table, n, rows, J, work)


@inner
def _add_rows_to_parent_6(table, n, rows, J, work):
    p, block, up = table[n, FACTOR], table[n, BLOCK], table[n, UP_FACTOR]
    d = (0.0,) * 21
    if table[n, FIRST] == 0:
        d = lower_6(work, up)
    g, at = p + rows * (rows + 1) // 2, p
    for r in range(rows):
        w = load_6(J, block + 6 * r)
        for k in range(r):
            w = minus_6(w, work[at + k], load_6(work, g + 6 * k))
        at += r + 1
        store_6(work, g + 6 * r, w)
    for r in range(rows):
        w = load_6(work, g + 6 * r)
        s = scaled_6(w, work[p + r * (r + 3) // 2])
        store_6(work, g + 6 * r, s)
        d = rank_one_6(d, s, w)
    store_lower_6(work, up, d)


@inner
def add_to_parent_3(table, n, J, work):
    """Add G^T W of a constraint to the pivot of its parent, a body of dimension 3."""
    p, rows, block, up = table[n, FACTOR], table[n, DIM], table[n, BLOCK], table[n, UP_FACTOR]
    d = (0.0,) * 6
    if table[n, FIRST] == 0:
        d = lower_3(work, up)
    g, at = p + rows * (rows + 1) // 2, p
    for r in range(rows):
        w = load_3(J, block + 3 * r)
        for k in range(r):
            l, v = work[at + k], load_3(work, g + 3 * k)
            w = (w[0] - l * v[0], w[1] - l * v[1], w[2] - l * v[2])
        at += r + 1
        store_3(work, g + 3 * r, w)
    for r in range(rows):
        w, i = load_3(work, g + 3 * r), work[p + r * (r + 3) // 2]
        s = (w[0] * i, w[1] * i, w[2] * i)
        store_3(work, g + 3 * r, s)
        d = rank_one_3(d, s, w)
    store_lower_3(work, up, d)


@inner
def add_to_parent(table, n, J, work):
    """Add G^T W of a constraint to the pivot of its parent of any dimension; does nothing at a root."""
    dim = table[n, UP_DIM]
    if dim == 9:
        _add_to_parent(table, n, 9, J, work)
    elif dim == 7:
        _add_to_parent(table, n, 7, J, work)
    else:
        _add_to_parent(table, n, dim, J, work)


@inner
def _add_to_parent(table, n, dim, J, work):
    p, rows, block, up = table[n, FACTOR], table[n, DIM], table[n, BLOCK], table[n, UP_FACTOR]
    g, at = p + rows * (rows + 1) // 2, p
    if table[n, FIRST] == 1:
        for i in range(dim * (dim + 1) // 2):
            work[up + i] = 0.0
    for r in range(rows):
        row = g + r * dim
        for i in range(dim):
            work[row + i] = J[block + r * dim + i]
        for k in range(r):
            l = work[at + k]
            for i in range(dim):
                work[row + i] -= l * work[g + k * dim + i]
        at += r + 1
    for r in range(rows):
        row, inverse, to = g + r * dim, work[p + r * (r + 3) // 2], up
        for i in range(dim):
            s = work[row + i] * inverse
            for j in range(i + 1):
                work[to] += s * work[row + j]
                to += 1
        for i in range(dim):
            work[row + i] *= inverse


@inner
def forward_body_6(table, n, work, F, r, a, lam):
    """Replace the part of a body of dimension 6 by y and add G^T y to that of its parent."""
    p, v, up = table[n, FACTOR], table[n, VECTOR], table[n, UP_VECTOR]
    x = load_6(F, v) if table[n, LEAF] == 1 else load_6(a, v)
    y = forward_6(lower_6(work, p), x)
    store_6(a, v, y)
    first = table[n, FIRST] == 1
    for k in range(table[n, UP_DIM]):
        x = r[up + k] if first else lam[up + k]
        lam[up + k] = x + dot_6(load_6(work, p + 21 + 6 * k), y)


@inner
def forward_body_3(table, n, work, F, r, a, lam):
    """Replace the part of a body of dimension 3 by y and add G^T y to that of its parent."""
    p, v, up = table[n, FACTOR], table[n, VECTOR], table[n, UP_VECTOR]
    x = load_3(F, v) if table[n, LEAF] == 1 else load_3(a, v)
    y = forward_3(lower_3(work, p), x)
    store_3(a, v, y)
    first = table[n, FIRST] == 1
    for k in range(table[n, UP_DIM]):
        x = r[up + k] if first else lam[up + k]
        lam[up + k] = x + dot_3(load_3(work, p + 6 + 3 * k), y)


@inner
def forward_body(table, n, work, F, r, a, lam):
    """Replace the part of a body of any dimension by y and add G^T y to that of its parent."""
    p, v, up, dim = table[n, FACTOR], table[n, VECTOR], table[n, UP_VECTOR], table[n, DIM]
    if table[n, LEAF] == 1:
        for i in range(dim):
            a[v + i] = F[v + i]
    forward(dim, work, p, a, v)
    first, g = table[n, FIRST] == 1, p + dim * (dim + 1) // 2
    for k in range(table[n, UP_DIM]):
        x = r[up + k] if first else lam[up + k]
        for i in range(dim):
            x += work[g + k * dim + i] * a[v + i]
        lam[up + k] = x


@inner
def _forward_own(p, v, rows, work, lam):
    """Replace the part of a constraint by U^-1 of it."""
    if rows == 3:
        store_3(lam, v, forward_3(lower_3(work, p), load_3(lam, v)))
    elif rows == 5:
        forward(5, work, p, lam, v)
    elif rows == 2:
        forward(2, work, p, lam, v)
    else:
        forward(rows, work, p, lam, v)


@inner
def forward_rows_6(table, n, work, F, a, lam):
    """Replace the part of a constraint by y and take G^T y from that of its parent, a body of dimension 6."""
    p, v, up, rows = table[n, FACTOR], table[n, VECTOR], table[n, UP_VECTOR], table[n, DIM]
    _forward_own(p, v, rows, work, lam)
    x = load_6(F, up) if table[n, FIRST] == 1 else load_6(a, up)
    g = p + rows * (rows + 1) // 2
    for k in range(rows):
        x = minus_6(x, lam[v + k], load_6(work, g + 6 * k))
    store_6(a, up, x)


@inner
def forward_rows_3(table, n, work, F, a, lam):
    """Replace the part of a constraint by y and take G^T y from that of its parent, a body of dimension 3."""
    p, v, up, rows = table[n, FACTOR], table[n, VECTOR], table[n, UP_VECTOR], table[n, DIM]
    _forward_own(p, v, rows, work, lam)
    x = load_3(F, up) if table[n, FIRST] == 1 else load_3(a, up)
    g = p + rows * (rows + 1) // 2
    for k in range(rows):
        y, w = lam[v + k], load_3(work, g + 3 * k)
        x = (x[0] - y * w[0], x[1] - y * w[1], x[2] - y * w[2])
    store_3(a, up, x)


@inner
def forward_rows(table, n, work, F, a, lam):
    """Replace the part of a constraint by y and take G^T y from that of its parent, a body of any dimension."""
    p, v, up, rows, dim = table[n, FACTOR], table[n, VECTOR], table[n, UP_VECTOR], table[n, DIM], table[n, UP_DIM]
    _forward_own(p, v, rows, work, lam)
    if table[n, FIRST] == 1:
        for i in range(dim):
            a[up + i] = F[up + i]
    g = p + rows * (rows + 1) // 2
    for k in range(rows):
        for i in range(dim):
            a[up + i] -= lam[v + k] * work[g + k * dim + i]


@inner
def backward_body_6(table, n, work, a, lam):
    """Replace y of a body of dimension 6 by its acceleration."""
    p, v, up = table[n, FACTOR], table[n, VECTOR], table[n, UP_VECTOR]
    f, y = lower_6(work, p), load_6(a, v)
    x = (y[0] * f[0], y[1] * f[2], y[2] * f[5], y[3] * f[9], y[4] * f[14], y[5] * f[20])
    for k in range(table[n, UP_DIM]):
        x = minus_6(x, -lam[up + k], load_6(work, p + 21 + 6 * k))
    store_6(a, v, backward_6(f, x))


@inner
def backward_body_3(table, n, work, a, lam):
    """Replace y of a body of dimension 3 by its acceleration."""
    p, v, up = table[n, FACTOR], table[n, VECTOR], table[n, UP_VECTOR]
    f, y = lower_3(work, p), load_3(a, v)
    x = (y[0] * f[0], y[1] * f[2], y[2] * f[5])
    for k in range(table[n, UP_DIM]):
        s, w = lam[up + k], load_3(work, p + 6 + 3 * k)
        x = (x[0] + s * w[0], x[1] + s * w[1], x[2] + s * w[2])
    store_3(a, v, backward_3(f, x))


@inner
def backward_body(table, n, work, a, lam):
    """Replace y of a body of any dimension by its acceleration."""
    p, v, up, dim = table[n, FACTOR], table[n, VECTOR], table[n, UP_VECTOR], table[n, DIM]
    g = p + dim * (dim + 1) // 2
    for i in range(dim):
        a[v + i] *= work[p + i * (i + 3) // 2]
    for k in range(table[n, UP_DIM]):
        s = lam[up + k]
        for i in range(dim):
            a[v + i] += s * work[g + k * dim + i]
    backward(dim, work, p, a, v)


@inner
def _backward_own(p, v, rows, work, lam):
    """Replace the part of a constraint by U^-T of it."""
    if rows == 3:
        store_3(lam, v, backward_3(lower_3(work, p), load_3(lam, v)))
    elif rows == 5:
        backward(5, work, p, lam, v)
    elif rows == 2:
        backward(2, work, p, lam, v)
    else:
        backward(rows, work, p, lam, v)


@inner
def backward_rows_6(table, n, work, a, lam):
    """Replace y of a constraint below a body of dimension 6 by its multipliers."""
    p, v, rows = table[n, FACTOR], table[n, VECTOR], table[n, DIM]
    x, g = load_6(a, table[n, UP_VECTOR]), p + rows * (rows + 1) // 2
    for k in range(rows):
        lam[v + k] = -lam[v + k] * work[p + k * (k + 3) // 2] - dot_6(x, load_6(work, g + 6 * k))
    _backward_own(p, v, rows, work, lam)


@inner
def backward_rows_3(table, n, work, a, lam):
    """Replace y of a constraint below a body of dimension 3 by its multipliers."""
    p, v, rows = table[n, FACTOR], table[n, VECTOR], table[n, DIM]
    x, g = load_3(a, table[n, UP_VECTOR]), p + rows * (rows + 1) // 2
    for k in range(rows):
        lam[v + k] = -lam[v + k] * work[p + k * (k + 3) // 2] - dot_3(x, load_3(work, g + 3 * k))
    _backward_own(p, v, rows, work, lam)


@inner
def backward_rows(table, n, work, a, lam):
    """Replace y of a constraint below a body of any dimension by its multipliers."""
    p, v, up, rows, dim = table[n, FACTOR], table[n, VECTOR], table[n, UP_VECTOR], table[n, DIM], table[n, UP_DIM]
    g = p + rows * (rows + 1) // 2
    for k in range(rows):
        x = -lam[v + k] * work[p + k * (k + 3) // 2]
        for i in range(dim):
            x -= a[up + i] * work[g + k * dim + i]
        lam[v + k] = x
    _backward_own(p, v, rows, work, lam)


@kernel
def factor(
    # model
    system, tree,
    # in
    M, J, C,
    # out
    work,
):  # fmt: skip
    """Factor the saddle system into `work`; return 0, or 1 + the node whose pivot is not positive definite.

    A body fails when its block of M does, a constraint when its rows depend on each other.

    Args:
        system: layout of the constraint system.
        tree: `order_of` this system.
        M: flat blocks of the bodies; the lower halves are read.
        J: flat blocks of all constraints.
        C: (nr,) compliance of the rows, not negative.
        work: of `new_work(tree)`.
    """
    table = tree.table
    # Section 7.3, sparsefactor: H_ii -= H_ki^T H_kk H_ki over the children k, H_i,par = H_ii^-1 H_i,par
    for n in range(len(table)):
        form = table[n, FORM]
        if form == BODY_6:
            positive = factor_body_6(table, n, M, J, work)
        elif form == BODY_3:
            positive = factor_body_3(table, n, M, J, work)
        elif form == BODY:
            positive = factor_body(table, n, M, J, work)
        else:
            positive = factor_rows(table, n, C, work)
            if form == CONSTRAINT_6:
                add_to_parent_6(table, n, J, work)
            elif form == CONSTRAINT_3:
                add_to_parent_3(table, n, J, work)
            else:
                add_to_parent(table, n, J, work)
        if not positive:
            return 1 + n
    return 0


@kernel
def solve(
    # model
    system, tree,
    # in
    work, F, r,
    # out
    a, lam,
):  # fmt: skip
    """Fill a (nu,) and the primary rows of lam (nr,) from a factor; other rows of lam are not changed.

    Args:
        system: layout of the constraint system.
        tree: `order_of` this system.
        work: filled by `factor`.
        F: (nu,) right side of the bodies; may be `a` itself.
        r: (nr,) right side of the constraints; may be `lam` itself.
    """
    table = tree.table
    # Section 7.3, sparsesolve: x_i = z_i - H_ji^T x_j over the children j
    for n in range(len(table)):
        form = table[n, FORM]
        if form == BODY_6:
            forward_body_6(table, n, work, F, r, a, lam)
        elif form == BODY_3:
            forward_body_3(table, n, work, F, r, a, lam)
        elif form == BODY:
            forward_body(table, n, work, F, r, a, lam)
        elif form == CONSTRAINT_6:
            forward_rows_6(table, n, work, F, a, lam)
        elif form == CONSTRAINT_3:
            forward_rows_3(table, n, work, F, a, lam)
        else:
            forward_rows(table, n, work, F, a, lam)
    # Section 7.3, sparsesolve: x_i = H_ii^-1 x_i - H_i,par x_par
    for n in range(len(table) - 1, -1, -1):
        form = table[n, FORM]
        if form == BODY_6:
            backward_body_6(table, n, work, a, lam)
        elif form == BODY_3:
            backward_body_3(table, n, work, a, lam)
        elif form == BODY:
            backward_body(table, n, work, a, lam)
        elif form == CONSTRAINT_6:
            backward_rows_6(table, n, work, a, lam)
        elif form == CONSTRAINT_3:
            backward_rows_3(table, n, work, a, lam)
        else:
            backward_rows(table, n, work, a, lam)
    return 0


@kernel
def residual(
    # model
    system,
    # in
    M, J, C, F, r, a, lam,
    # out
    body_error, row_error,
):  # fmt: skip
    """Fill (F + J^T lam - M a, r + J a + C lam) over all constraints: the residual of a and lam."""
    for b in range(len(system.body_start) - 1):
        v, m = system.body_start[b], system.mass_start[b]
        dim = system.body_start[b + 1] - v
        for i in range(dim):
            x = F[v + i]
            for j in range(dim):
                x -= M[m + i * dim + j] * a[v + j]
            body_error[v + i] = x
    for c in range(len(system.row_start) - 1):
        v = system.row_start[c]
        rows = system.row_start[c + 1] - v
        for k in range(rows):
            row_error[v + k] = r[v + k] + C[v + k] * lam[v + k]
        for t in range(system.incidence_start[c], system.incidence_start[c + 1]):
            at, body = system.block_start[t], system.incidence_body[t]
            begin = system.body_start[body]
            for k in range(rows):
                x = row_error[v + k]
                for i in range(system.body_start[body + 1] - begin):
                    x += J[at] * a[begin + i]
                    body_error[begin + i] += J[at] * lam[v + k]
                    at += 1
                row_error[v + k] = x
    return 0
