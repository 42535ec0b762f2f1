"""Small dense symmetric solves on rows of caller-owned arrays: LDL^T without pivoting, no allocation."""

from __future__ import annotations

from limberjack._jit import inner

__all__ = ["factor_ldl", "solve_ldl", "solve_symmetric_3"]


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
