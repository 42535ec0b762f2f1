"""Small dense symmetric solves on rows of caller-owned arrays: LDL^T without pivoting, no allocation."""

from __future__ import annotations

from limberjack._jit import inner

__all__ = ["factor_ldl", "invert_symmetric_5", "solve_ldl", "solve_symmetric_3"]


@inner
def factor_ldl(n, first, floor, a):
    """Factor the symmetric n x n block of `a` that starts at row `first`, column 0, in place.

    Args:
        n: size.
        first: row of `a` the block starts at.
        floor: a pivot at or below this is a failure.
        a: block rows with the lower half filled; unit L is left below the diagonal, D on it.

    Returns:
        0, or 1 + the row whose pivot failed.
    """
    for j in range(n):
        d = a[first + j, j]
        for k in range(j):
            d -= a[first + j, k] * a[first + j, k] * a[first + k, k]
        if not d > floor:
            return j + 1
        a[first + j, j] = d
        inv = 1.0 / d
        for i in range(j + 1, n):
            s = a[first + i, j]
            for k in range(j):
                s -= a[first + i, k] * a[first + j, k] * a[first + k, k]
            a[first + i, j] = s * inv
    return 0


@inner
def solve_ldl(n, first, a, x):
    """Replace x by A^-1 x for the factor that `factor_ldl` left at row `first` of `a`."""
    for i in range(n):
        s = x[i]
        for k in range(i):
            s -= a[first + i, k] * x[k]
        x[i] = s
    for i in range(n):
        x[i] = x[i] / a[first + i, i]
    for i in range(n - 1, -1, -1):
        s = x[i]
        for k in range(i + 1, n):
            s -= a[first + k, i] * x[k]
        x[i] = s


@inner
def solve_symmetric_3(s, x, y, z):
    """Return (positive, S^-1 v) for the six numbers s of a symmetric S; positive is False when S is not SPD."""
    d0 = s[0]
    i0 = 1.0 / d0
    l1, l2 = s[3] * i0, s[4] * i0
    d1 = s[1] - l1 * s[3]
    i1 = 1.0 / d1
    t = s[5] - l2 * s[3]
    l3 = t * i1
    d2 = s[2] - l2 * s[4] - l3 * t
    i2 = 1.0 / d2
    y1 = y - l1 * x
    z1 = z - l2 * x - l3 * y1
    rz = z1 * i2
    ry = y1 * i1 - l3 * rz
    rx = x * i0 - l1 * ry - l2 * rz
    return d0 > 0.0 and d1 > 0.0 and d2 > 0.0, rx, ry, rz


@inner
def invert_symmetric_5(a):
    """Return (positive, the 15 numbers of A^-1) for the lower half of a symmetric A, by rows.

    By L D L^T and the inverse of L, written out; cofactors are as fast and lose five digits at mass ratios of 1e6.
    """
    a00, a10, a11, a20, a21, a22, a30, a31 = a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7]
    a32, a33, a40, a41, a42, a43, a44 = a[8], a[9], a[10], a[11], a[12], a[13], a[14]
    d0 = a00
    i0 = 1.0 / d0
    t10 = a10
    l10 = t10 * i0
    t20 = a20
    l20 = t20 * i0
    t30 = a30
    l30 = t30 * i0
    t40 = a40
    l40 = t40 * i0
    d1 = a11 - l10 * t10
    i1 = 1.0 / d1
    t21 = a21 - l20 * t10
    l21 = t21 * i1
    t31 = a31 - l30 * t10
    l31 = t31 * i1
    t41 = a41 - l40 * t10
    l41 = t41 * i1
    d2 = a22 - l20 * t20 - l21 * t21
    i2 = 1.0 / d2
    t32 = a32 - l30 * t20 - l31 * t21
    l32 = t32 * i2
    t42 = a42 - l40 * t20 - l41 * t21
    l42 = t42 * i2
    d3 = a33 - l30 * t30 - l31 * t31 - l32 * t32
    i3 = 1.0 / d3
    t43 = a43 - l40 * t30 - l41 * t31 - l42 * t32
    l43 = t43 * i3
    d4 = a44 - l40 * t40 - l41 * t41 - l42 * t42 - l43 * t43
    i4 = 1.0 / d4
    k10 = -l10
    k20 = -l20 - l21 * k10
    k30 = -l30 - l31 * k10 - l32 * k20
    k40 = -l40 - l41 * k10 - l42 * k20 - l43 * k30
    k21 = -l21
    k31 = -l31 - l32 * k21
    k41 = -l41 - l42 * k21 - l43 * k31
    k32 = -l32
    k42 = -l42 - l43 * k32
    k43 = -l43
    g10 = i1 * k10
    g20 = i2 * k20
    g30 = i3 * k30
    g40 = i4 * k40
    g21 = i2 * k21
    g31 = i3 * k31
    g41 = i4 * k41
    g32 = i3 * k32
    g42 = i4 * k42
    g43 = i4 * k43
    w00 = i0 + k10 * g10 + k20 * g20 + k30 * g30 + k40 * g40
    w10 = g10 + k21 * g20 + k31 * g30 + k41 * g40
    w11 = i1 + k21 * g21 + k31 * g31 + k41 * g41
    w20 = g20 + k32 * g30 + k42 * g40
    w21 = g21 + k32 * g31 + k42 * g41
    w22 = i2 + k32 * g32 + k42 * g42
    w30 = g30 + k43 * g40
    w31 = g31 + k43 * g41
    w32 = g32 + k43 * g42
    w33 = i3 + k43 * g43
    w40 = g40
    w41 = g41
    w42 = g42
    w43 = g43
    w44 = i4
    positive = d0 > 0.0 and d1 > 0.0 and d2 > 0.0 and d3 > 0.0 and d4 > 0.0
    return positive, (w00, w10, w11, w20, w21, w22, w30, w31, w32, w33, w40, w41, w42, w43, w44)
