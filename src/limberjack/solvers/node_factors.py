"""One node of the factorisation: its pivot, and what it adds to that of its parent. Symbols as in `tree`."""

from __future__ import annotations

from limberjack._jit import inner
from limberjack.solvers.blocks import (
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
from limberjack.solvers.elimination import (
    BLOCK,
    DIM,
    FIRST,
    LEAF,
    PLACE,
    SOURCE,
    UP_DIM,
    UP_PLACE,
)

__all__ = ["factor_body", "factor_body_3", "factor_body_6", "factor_rows", "push", "push_3", "push_6"]

# Pivots this small against their diagonal are rounding. A body's own mass bounds its pivot from below, at any ratio of
# masses; rows of one constraint that depend on each other leave up to the condition of D times the precision.
_BODY_FLOOR = 1e-14
_ROW_FLOOR = 1e-12


@inner
def factor_body_6(table, n, M, J, work):
    """Factor the pivot of a body of dimension 6 and add G^T W to that of its parent."""
    p, rows, block = table[n, PLACE], table[n, UP_DIM], table[n, BLOCK]
    d = square_lower_6(M, table[n, SOURCE])
    if table[n, LEAF] == 0:
        d = sum_21(d, lower_6(work, p))
    fine, f = factor_6(d, _BODY_FLOOR)
    store_lower_6(work, p, f)
    up, first, g = table[n, UP_PLACE], table[n, FIRST] == 1, p + 21
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
    return fine


@inner
def factor_body_3(table, n, M, J, work):
    """Factor the pivot of a body of dimension 3 and add G^T W to that of its parent."""
    p, rows, block = table[n, PLACE], table[n, UP_DIM], table[n, BLOCK]
    d = square_lower_3(M, table[n, SOURCE])
    if table[n, LEAF] == 0:
        d = sum_6(d, lower_3(work, p))
    fine, f = factor_3(d, _BODY_FLOOR)
    store_lower_3(work, p, f)
    up, first, g = table[n, UP_PLACE], table[n, FIRST] == 1, p + 6
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
    return fine


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
    p, rows, source = table[n, PLACE], table[n, UP_DIM], table[n, SOURCE]
    leaf, at = table[n, LEAF] == 1, p
    for i in range(dim):
        for j in range(i + 1):
            x = M[source + i * dim + j]
            work[at] = x if leaf else work[at] + x
            at += 1
    fine = factor_any(dim, _BODY_FLOOR, work, p)
    up, first, block = table[n, UP_PLACE], table[n, FIRST] == 1, table[n, BLOCK]
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
    return fine


@inner
def factor_rows(table, n, C, work):
    """Factor the pivot of a constraint."""
    p, rows, source = table[n, PLACE], table[n, DIM], table[n, SOURCE]
    for i in range(rows):
        work[p + i * (i + 3) // 2] += C[source + i]
    if rows == 3:
        fine, f = factor_3(lower_3(work, p), _ROW_FLOOR)
        store_lower_3(work, p, f)
    elif rows == 5:
        fine, g = factor_5(lower_5(work, p), _ROW_FLOOR)
        store_lower_5(work, p, g)
    elif rows == 6:
        fine, h = factor_6(lower_6(work, p), _ROW_FLOOR)
        store_lower_6(work, p, h)
    elif rows == 2:
        fine = factor_any(2, _ROW_FLOOR, work, p)
    else:
        fine = factor_any(rows, _ROW_FLOOR, work, p)
    return fine


@inner
def push_6(table, n, J, work):
    """Add G^T W of a constraint to the pivot of its parent, a body of dimension 6."""
    # Bounds known to the compiler: its unrolled loops equal sums written out.
    rows = table[n, DIM]
    if rows == 3:
        _push_rows_6(table, n, 3, J, work)
    else:
        _push_rows_6(table, n, rows, J, work)


@inner
def _push_rows_6(table, n, rows, J, work):
    p, block, up = table[n, PLACE], table[n, BLOCK], table[n, UP_PLACE]
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
def push_3(table, n, J, work):
    """Add G^T W of a constraint to the pivot of its parent, a body of dimension 3."""
    p, rows, block, up = table[n, PLACE], table[n, DIM], table[n, BLOCK], table[n, UP_PLACE]
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
def push(table, n, J, work):
    """Add G^T W of a constraint to the pivot of its parent of any dimension; of a root, which has none, nothing."""
    dim = table[n, UP_DIM]
    if dim == 9:
        _push(table, n, 9, J, work)
    elif dim == 7:
        _push(table, n, 7, J, work)
    else:
        _push(table, n, dim, J, work)


@inner
def _push(table, n, dim, J, work):
    p, rows, block, up = table[n, PLACE], table[n, DIM], table[n, BLOCK], table[n, UP_PLACE]
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
