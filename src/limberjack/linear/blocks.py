"""Small symmetric blocks factored as U diag(d) U^T, U unit lower: dimensions 3 and 6 written out, loops for others.

A lower half is stored by rows: entry (i, j) at i (i + 1) / 2 + j. A factor has the same layout, with the inverses of d
on the diagonal. A pivot counts as positive when it is more than `floor` times the diagonal entry it came from: that
ratio does not depend on units, and where it is near rounding the rows depend on each other.

The written-out forms take and return tuples: loops of known length over arrays run 3 to 5 times slower.
"""

from __future__ import annotations

from limberjack._jit import inner

__all__ = [
    "backward",
    "backward_3",
    "backward_6",
    "dot_3",
    "dot_6",
    "factor_3",
    "factor_5",
    "factor_6",
    "factor_any",
    "forward",
    "forward_3",
    "forward_6",
    "load_3",
    "load_6",
    "lower_3",
    "lower_5",
    "lower_6",
    "minus_6",
    "rank_one_3",
    "rank_one_6",
    "scaled_6",
    "square_lower_3",
    "square_lower_6",
    "store_3",
    "store_6",
    "store_lower_3",
    "store_lower_5",
    "store_lower_6",
    "sum_21",
    "sum_6",
]


@inner
def load_6(x, p):
    """Return x[p .. p + 5]."""
    return x[p], x[p + 1], x[p + 2], x[p + 3], x[p + 4], x[p + 5]


@inner
def store_6(x, p, v):
    """Set x[p .. p + 5]."""
    x[p], x[p + 1], x[p + 2], x[p + 3], x[p + 4], x[p + 5] = v


@inner
def dot_6(a, b):
    """Return a . b, summed in pairs: half the latency of a sum in order."""
    return (a[0] * b[0] + a[1] * b[1]) + (a[2] * b[2] + a[3] * b[3]) + (a[4] * b[4] + a[5] * b[5])


@inner
def minus_6(a, l, b):
    """Return a - l b."""
    return a[0] - l * b[0], a[1] - l * b[1], a[2] - l * b[2], a[3] - l * b[3], a[4] - l * b[4], a[5] - l * b[5]


@inner
def scaled_6(a, s):
    """Return a s."""
    return a[0] * s, a[1] * s, a[2] * s, a[3] * s, a[4] * s, a[5] * s


@inner
def lower_6(x, p):
    """Return the 21 numbers of a lower half that start at x[p]."""
    return (
        x[p], x[p + 1], x[p + 2], x[p + 3], x[p + 4], x[p + 5], x[p + 6],
        x[p + 7], x[p + 8], x[p + 9], x[p + 10], x[p + 11], x[p + 12], x[p + 13],
        x[p + 14], x[p + 15], x[p + 16], x[p + 17], x[p + 18], x[p + 19], x[p + 20],
    )  # fmt: skip


@inner
def square_lower_6(x, p):
    """Return the lower half of the 6 x 6 block, by rows, that starts at x[p]."""
    return (
        x[p], x[p + 6], x[p + 7], x[p + 12], x[p + 13], x[p + 14], x[p + 18],
        x[p + 19], x[p + 20], x[p + 21], x[p + 24], x[p + 25], x[p + 26], x[p + 27],
        x[p + 28], x[p + 30], x[p + 31], x[p + 32], x[p + 33], x[p + 34], x[p + 35],
    )  # fmt: skip


@inner
def store_lower_6(x, p, a):
    """Set the 21 numbers of a lower half that start at x[p]."""
    x[p], x[p + 1], x[p + 2], x[p + 3], x[p + 4], x[p + 5], x[p + 6] = a[0], a[1], a[2], a[3], a[4], a[5], a[6]
    x[p + 7], x[p + 8], x[p + 9], x[p + 10], x[p + 11], x[p + 12] = a[7], a[8], a[9], a[10], a[11], a[12]
    x[p + 13], x[p + 14], x[p + 15], x[p + 16], x[p + 17], x[p + 18] = a[13], a[14], a[15], a[16], a[17], a[18]
    x[p + 19], x[p + 20] = a[19], a[20]


@inner
def sum_21(a, b):
    """Return a + b for the numbers of two lower halves."""
    return (
        a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3], a[4] + b[4], a[5] + b[5], a[6] + b[6],
        a[7] + b[7], a[8] + b[8], a[9] + b[9], a[10] + b[10], a[11] + b[11], a[12] + b[12], a[13] + b[13],
        a[14] + b[14], a[15] + b[15], a[16] + b[16], a[17] + b[17], a[18] + b[18], a[19] + b[19], a[20] + b[20],
    )  # fmt: skip


@inner
def rank_one_6(a, g, w):
    """Return the lower half of A + g w^T, for g along w."""
    return (
        a[0] + g[0] * w[0],
        a[1] + g[1] * w[0], a[2] + g[1] * w[1],
        a[3] + g[2] * w[0], a[4] + g[2] * w[1], a[5] + g[2] * w[2],
        a[6] + g[3] * w[0], a[7] + g[3] * w[1], a[8] + g[3] * w[2], a[9] + g[3] * w[3],
        a[10] + g[4] * w[0], a[11] + g[4] * w[1], a[12] + g[4] * w[2], a[13] + g[4] * w[3], a[14] + g[4] * w[4],
        a[15] + g[5] * w[0], a[16] + g[5] * w[1], a[17] + g[5] * w[2], a[18] + g[5] * w[3], a[19] + g[5] * w[4],
        a[20] + g[5] * w[5],
    )  # fmt: skip


@inner
def lower_5(x, p):
    """Return the 15 numbers of a lower half that start at x[p]."""
    return (
        x[p], x[p + 1], x[p + 2], x[p + 3], x[p + 4], x[p + 5], x[p + 6], x[p + 7],
        x[p + 8], x[p + 9], x[p + 10], x[p + 11], x[p + 12], x[p + 13], x[p + 14],
    )  # fmt: skip


@inner
def store_lower_5(x, p, a):
    """Set the 15 numbers of a lower half that start at x[p]."""
    x[p], x[p + 1], x[p + 2], x[p + 3], x[p + 4], x[p + 5], x[p + 6] = a[0], a[1], a[2], a[3], a[4], a[5], a[6]
    x[p + 7], x[p + 8], x[p + 9], x[p + 10], x[p + 11], x[p + 12] = a[7], a[8], a[9], a[10], a[11], a[12]
    x[p + 13], x[p + 14] = a[13], a[14]


@inner
def factor_5(a, floor):
    """Return (positive, the 15 numbers of the factor) of a lower half."""
    d0 = a[0]
    i0 = 1.0 / d0
    t10, t20, t30, t40 = a[1], a[3], a[6], a[10]
    l10, l20, l30, l40 = t10 * i0, t20 * i0, t30 * i0, t40 * i0
    d1 = a[2] - l10 * t10
    i1 = 1.0 / d1
    t21 = a[4] - l20 * t10
    t31 = a[7] - l30 * t10
    t41 = a[11] - l40 * t10
    l21, l31, l41 = t21 * i1, t31 * i1, t41 * i1
    d2 = a[5] - l20 * t20 - l21 * t21
    i2 = 1.0 / d2
    t32 = a[8] - l30 * t20 - l31 * t21
    t42 = a[12] - l40 * t20 - l41 * t21
    l32, l42 = t32 * i2, t42 * i2
    d3 = a[9] - l30 * t30 - l31 * t31 - l32 * t32
    i3 = 1.0 / d3
    t43 = a[13] - l40 * t30 - l41 * t31 - l42 * t32
    l43 = t43 * i3
    d4 = a[14] - l40 * t40 - l41 * t41 - l42 * t42 - l43 * t43
    i4 = 1.0 / d4
    positive = d0 > 0.0 and d1 > floor * a[2] and d2 > floor * a[5] and d3 > floor * a[9] and d4 > floor * a[14]
    return positive, (i0, l10, i1, l20, l21, i2, l30, l31, l32, i3, l40, l41, l42, l43, i4)


@inner
def factor_6(a, floor):
    """Return (positive, the 21 numbers of the factor) of a lower half."""
    d0 = a[0]
    i0 = 1.0 / d0
    t10, t20, t30, t40, t50 = a[1], a[3], a[6], a[10], a[15]
    l10, l20, l30, l40, l50 = t10 * i0, t20 * i0, t30 * i0, t40 * i0, t50 * i0
    d1 = a[2] - l10 * t10
    i1 = 1.0 / d1
    t21 = a[4] - l20 * t10
    t31 = a[7] - l30 * t10
    t41 = a[11] - l40 * t10
    t51 = a[16] - l50 * t10
    l21, l31, l41, l51 = t21 * i1, t31 * i1, t41 * i1, t51 * i1
    d2 = a[5] - l20 * t20 - l21 * t21
    i2 = 1.0 / d2
    t32 = a[8] - l30 * t20 - l31 * t21
    t42 = a[12] - l40 * t20 - l41 * t21
    t52 = a[17] - l50 * t20 - l51 * t21
    l32, l42, l52 = t32 * i2, t42 * i2, t52 * i2
    d3 = a[9] - l30 * t30 - l31 * t31 - l32 * t32
    i3 = 1.0 / d3
    t43 = a[13] - l40 * t30 - l41 * t31 - l42 * t32
    t53 = a[18] - l50 * t30 - l51 * t31 - l52 * t32
    l43, l53 = t43 * i3, t53 * i3
    d4 = a[14] - l40 * t40 - l41 * t41 - l42 * t42 - l43 * t43
    i4 = 1.0 / d4
    t54 = a[19] - l50 * t40 - l51 * t41 - l52 * t42 - l53 * t43
    l54 = t54 * i4
    d5 = a[20] - l50 * t50 - l51 * t51 - l52 * t52 - l53 * t53 - l54 * t54
    i5 = 1.0 / d5
    positive = d0 > 0.0 and d1 > floor * a[2] and d2 > floor * a[5]
    positive = positive and d3 > floor * a[9] and d4 > floor * a[14] and d5 > floor * a[20]
    f = (
        i0, l10, i1, l20, l21, i2, l30, l31, l32, i3, l40, l41, l42, l43, i4, l50, l51, l52, l53, l54, i5,
    )  # fmt: skip
    return positive, f


@inner
def forward_6(f, x):
    """Return U^-1 x for the 21 numbers of a factor."""
    y0 = x[0]
    y1 = x[1] - f[1] * y0
    y2 = x[2] - f[3] * y0 - f[4] * y1
    y3 = x[3] - f[6] * y0 - f[7] * y1 - f[8] * y2
    y4 = x[4] - f[10] * y0 - f[11] * y1 - f[12] * y2 - f[13] * y3
    y5 = x[5] - f[15] * y0 - f[16] * y1 - f[17] * y2 - f[18] * y3 - f[19] * y4
    return y0, y1, y2, y3, y4, y5


@inner
def backward_6(f, x):
    """Return U^-T x for the 21 numbers of a factor."""
    y5 = x[5]
    y4 = x[4] - f[19] * y5
    y3 = x[3] - f[18] * y5 - f[13] * y4
    y2 = x[2] - f[17] * y5 - f[12] * y4 - f[8] * y3
    y1 = x[1] - f[16] * y5 - f[11] * y4 - f[7] * y3 - f[4] * y2
    y0 = x[0] - f[15] * y5 - f[10] * y4 - f[6] * y3 - f[3] * y2 - f[1] * y1
    return y0, y1, y2, y3, y4, y5


@inner
def load_3(x, p):
    """Return x[p .. p + 2]."""
    return x[p], x[p + 1], x[p + 2]


@inner
def store_3(x, p, v):
    """Set x[p .. p + 2]."""
    x[p], x[p + 1], x[p + 2] = v


@inner
def dot_3(a, b):
    """Return a . b."""
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


@inner
def lower_3(x, p):
    """Return the 6 numbers of a lower half that start at x[p]."""
    return load_6(x, p)


@inner
def square_lower_3(x, p):
    """Return the lower half of the 3 x 3 block, by rows, that starts at x[p]."""
    return x[p], x[p + 3], x[p + 4], x[p + 6], x[p + 7], x[p + 8]


@inner
def store_lower_3(x, p, a):
    """Set the 6 numbers of a lower half that start at x[p]."""
    store_6(x, p, a)


@inner
def sum_6(a, b):
    """Return a + b."""
    return a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3], a[4] + b[4], a[5] + b[5]


@inner
def rank_one_3(a, g, w):
    """Return the lower half of A + g w^T, for g along w."""
    return (
        a[0] + g[0] * w[0],
        a[1] + g[1] * w[0], a[2] + g[1] * w[1],
        a[3] + g[2] * w[0], a[4] + g[2] * w[1], a[5] + g[2] * w[2],
    )  # fmt: skip


@inner
def factor_3(a, floor):
    """Return (positive, the 6 numbers of the factor) of a lower half."""
    d0 = a[0]
    i0 = 1.0 / d0
    l10, l20 = a[1] * i0, a[3] * i0
    d1 = a[2] - l10 * a[1]
    i1 = 1.0 / d1
    t21 = a[4] - l20 * a[1]
    l21 = t21 * i1
    d2 = a[5] - l20 * a[3] - l21 * t21
    i2 = 1.0 / d2
    positive = d0 > 0.0 and d1 > floor * a[2] and d2 > floor * a[5]
    return positive, (i0, l10, i1, l20, l21, i2)


@inner
def forward_3(f, x):
    """Return U^-1 x for the 6 numbers of a factor."""
    y1 = x[1] - f[1] * x[0]
    return x[0], y1, x[2] - f[3] * x[0] - f[4] * y1


@inner
def backward_3(f, x):
    """Return U^-T x for the 6 numbers of a factor."""
    y1 = x[1] - f[4] * x[2]
    return x[0] - f[3] * x[2] - f[1] * y1, y1, x[2]


@inner
def factor_any(n, floor, x, p):
    """Factor in place the lower half of n rows that starts at x[p]; return whether all pivots are positive."""
    for i in range(n):
        at = p + i * (i + 1) // 2
        diagonal = x[at + i]
        d = diagonal
        # Row i holds t = l d until its own pivot is known.
        for j in range(i):
            up = p + j * (j + 1) // 2
            t = x[at + j]
            for k in range(j):
                t -= x[up + k] * x[at + k]
            x[at + j] = t
        for j in range(i):
            t = x[at + j]
            l = t * x[p + j * (j + 3) // 2]
            d -= l * t
            x[at + j] = l
        if not (d > 0.0 and d > floor * diagonal):
            return False
        x[at + i] = 1.0 / d
    return True


@inner
def forward(n, f, p, x, v):
    """Replace x[v .. v + n - 1] by U^-1 x for the factor of n rows that starts at f[p]."""
    for i in range(1, n):
        at = p + i * (i + 1) // 2
        s = x[v + i]
        for k in range(i):
            s -= f[at + k] * x[v + k]
        x[v + i] = s


@inner
def backward(n, f, p, x, v):
    """Replace x[v .. v + n - 1] by U^-T x for the factor of n rows that starts at f[p]."""
    for i in range(n - 1, 0, -1):
        at = p + i * (i + 1) // 2
        s = x[v + i]
        for k in range(i):
            x[v + k] -= f[at + k] * s
