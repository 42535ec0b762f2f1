"""3-vectors, rotations and symmetric 3x3 matrices as tuple-valued kernels.

A rotation is nine numbers by rows; a symmetric matrix six: xx, yy, zz, xy, xz, yz.
"""

from __future__ import annotations

from limberjack._jit import inner

__all__ = ["cross", "multiply", "rotate", "rotate_back", "rotate_symmetric", "symmetric_times"]


@inner
def cross(ax, ay, az, bx, by, bz):
    """Return a x b."""
    return ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx


@inner
def rotate(r, x, y, z):
    """Return R x for the nine numbers r of R."""
    return (
        r[0] * x + r[1] * y + r[2] * z,
        r[3] * x + r[4] * y + r[5] * z,
        r[6] * x + r[7] * y + r[8] * z,
    )


@inner
def rotate_back(r, x, y, z):
    """Return R^T x."""
    return (
        r[0] * x + r[3] * y + r[6] * z,
        r[1] * x + r[4] * y + r[7] * z,
        r[2] * x + r[5] * y + r[8] * z,
    )


@inner
def multiply(a, b):
    """Return the nine numbers of A B."""
    return (
        a[0] * b[0] + a[1] * b[3] + a[2] * b[6],
        a[0] * b[1] + a[1] * b[4] + a[2] * b[7],
        a[0] * b[2] + a[1] * b[5] + a[2] * b[8],
        a[3] * b[0] + a[4] * b[3] + a[5] * b[6],
        a[3] * b[1] + a[4] * b[4] + a[5] * b[7],
        a[3] * b[2] + a[4] * b[5] + a[5] * b[8],
        a[6] * b[0] + a[7] * b[3] + a[8] * b[6],
        a[6] * b[1] + a[7] * b[4] + a[8] * b[7],
        a[6] * b[2] + a[7] * b[5] + a[8] * b[8],
    )


@inner
def symmetric_times(s, x, y, z):
    """Return S x for the six numbers s of a symmetric S."""
    return (
        s[0] * x + s[3] * y + s[4] * z,
        s[3] * x + s[1] * y + s[5] * z,
        s[4] * x + s[5] * y + s[2] * z,
    )


@inner
def rotate_symmetric(r, s):
    """Return the six numbers of R S R^T."""
    a0, a1, a2 = symmetric_times(s, r[0], r[1], r[2])
    b0, b1, b2 = symmetric_times(s, r[3], r[4], r[5])
    c0, c1, c2 = symmetric_times(s, r[6], r[7], r[8])
    return (
        r[0] * a0 + r[1] * a1 + r[2] * a2,
        r[3] * b0 + r[4] * b1 + r[5] * b2,
        r[6] * c0 + r[7] * c1 + r[8] * c2,
        r[3] * a0 + r[4] * a1 + r[5] * a2,
        r[6] * a0 + r[7] * a1 + r[8] * a2,
        r[6] * b0 + r[7] * b1 + r[8] * b2,
    )
