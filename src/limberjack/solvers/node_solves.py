"""One node of the forward and of the backward pass of a solve. Symbols as in `tree`."""

from __future__ import annotations

from limberjack._jit import inner
from limberjack.solvers.blocks import (
    backward,
    backward_3,
    backward_6,
    dot_3,
    dot_6,
    forward,
    forward_3,
    forward_6,
    load_3,
    load_6,
    lower_3,
    lower_6,
    minus_6,
    store_3,
    store_6,
)
from limberjack.solvers.elimination import (
    DIM,
    FIRST,
    LEAF,
    PLACE,
    UP_DIM,
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
    "forward_body",
    "forward_body_3",
    "forward_body_6",
    "forward_rows",
    "forward_rows_3",
    "forward_rows_6",
]


@inner
def forward_body_6(table, n, work, F, r, a, lam):
    """Replace the part of a body of dimension 6 by y and add G^T y to that of its parent."""
    p, v, up = table[n, PLACE], table[n, VECTOR], table[n, UP_VECTOR]
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
    p, v, up = table[n, PLACE], table[n, VECTOR], table[n, UP_VECTOR]
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
    p, v, up, dim = table[n, PLACE], table[n, VECTOR], table[n, UP_VECTOR], table[n, DIM]
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
    p, v, up, rows = table[n, PLACE], table[n, VECTOR], table[n, UP_VECTOR], table[n, DIM]
    _forward_own(p, v, rows, work, lam)
    x = load_6(F, up) if table[n, FIRST] == 1 else load_6(a, up)
    g = p + rows * (rows + 1) // 2
    for k in range(rows):
        x = minus_6(x, lam[v + k], load_6(work, g + 6 * k))
    store_6(a, up, x)


@inner
def forward_rows_3(table, n, work, F, a, lam):
    """Replace the part of a constraint by y and take G^T y from that of its parent, a body of dimension 3."""
    p, v, up, rows = table[n, PLACE], table[n, VECTOR], table[n, UP_VECTOR], table[n, DIM]
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
    p, v, up, rows, dim = table[n, PLACE], table[n, VECTOR], table[n, UP_VECTOR], table[n, DIM], table[n, UP_DIM]
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
    p, v, up = table[n, PLACE], table[n, VECTOR], table[n, UP_VECTOR]
    f, y = lower_6(work, p), load_6(a, v)
    x = (y[0] * f[0], y[1] * f[2], y[2] * f[5], y[3] * f[9], y[4] * f[14], y[5] * f[20])
    for k in range(table[n, UP_DIM]):
        x = minus_6(x, -lam[up + k], load_6(work, p + 21 + 6 * k))
    store_6(a, v, backward_6(f, x))


@inner
def backward_body_3(table, n, work, a, lam):
    """Replace y of a body of dimension 3 by its acceleration."""
    p, v, up = table[n, PLACE], table[n, VECTOR], table[n, UP_VECTOR]
    f, y = lower_3(work, p), load_3(a, v)
    x = (y[0] * f[0], y[1] * f[2], y[2] * f[5])
    for k in range(table[n, UP_DIM]):
        s, w = lam[up + k], load_3(work, p + 6 + 3 * k)
        x = (x[0] + s * w[0], x[1] + s * w[1], x[2] + s * w[2])
    store_3(a, v, backward_3(f, x))


@inner
def backward_body(table, n, work, a, lam):
    """Replace y of a body of any dimension by its acceleration."""
    p, v, up, dim = table[n, PLACE], table[n, VECTOR], table[n, UP_VECTOR], table[n, DIM]
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
    p, v, rows = table[n, PLACE], table[n, VECTOR], table[n, DIM]
    x, g = load_6(a, table[n, UP_VECTOR]), p + rows * (rows + 1) // 2
    for k in range(rows):
        lam[v + k] = -lam[v + k] * work[p + k * (k + 3) // 2] - dot_6(x, load_6(work, g + 6 * k))
    _backward_own(p, v, rows, work, lam)


@inner
def backward_rows_3(table, n, work, a, lam):
    """Replace y of a constraint below a body of dimension 3 by its multipliers."""
    p, v, rows = table[n, PLACE], table[n, VECTOR], table[n, DIM]
    x, g = load_3(a, table[n, UP_VECTOR]), p + rows * (rows + 1) // 2
    for k in range(rows):
        lam[v + k] = -lam[v + k] * work[p + k * (k + 3) // 2] - dot_3(x, load_3(work, g + 3 * k))
    _backward_own(p, v, rows, work, lam)


@inner
def backward_rows(table, n, work, a, lam):
    """Replace y of a constraint below a body of any dimension by its multipliers."""
    p, v, up, rows, dim = table[n, PLACE], table[n, VECTOR], table[n, UP_VECTOR], table[n, DIM], table[n, UP_DIM]
    g = p + rows * (rows + 1) // 2
    for k in range(rows):
        x = -lam[v + k] * work[p + k * (k + 3) // 2]
        for i in range(dim):
            x -= a[up + i] * work[g + k * dim + i]
        lam[v + k] = x
    _backward_own(p, v, rows, work, lam)
