"""Unit quaternions (w, x, y, z), body to world, as tuple-valued kernels."""

from __future__ import annotations

import math

from limberjack._jit import inner, outlined
from limberjack.spatial.trig import atan2, sincos

__all__ = [
    "quaternion_exp",
    "quaternion_from_matrix",
    "quaternion_log",
    "quaternion_multiply",
    "rotation_from_quaternion",
]


@inner
def quaternion_multiply(a, b):
    """Return a b."""
    return (
        a[0] * b[0] - a[1] * b[1] - a[2] * b[2] - a[3] * b[3],
        a[0] * b[1] + a[1] * b[0] + a[2] * b[3] - a[3] * b[2],
        a[0] * b[2] - a[1] * b[3] + a[2] * b[0] + a[3] * b[1],
        a[0] * b[3] + a[1] * b[2] - a[2] * b[1] + a[3] * b[0],
    )


@inner
def rotation_from_quaternion(w, x, y, z):
    """Return the nine numbers of the rotation; the quaternion need not be normalised."""
    s = 2.0 / (w * w + x * x + y * y + z * z)
    xx, yy, zz = s * x * x, s * y * y, s * z * z
    xy, xz, yz = s * x * y, s * x * z, s * y * z
    wx, wy, wz = s * w * x, s * w * y, s * w * z
    return 1.0 - yy - zz, xy - wz, xz + wy, xy + wz, 1.0 - xx - zz, yz - wx, xz - wy, yz + wx, 1.0 - xx - yy


@inner
def quaternion_from_matrix(r):
    """Return the quaternion of the rotation with nine numbers r, by its largest component (Shepperd)."""
    trace = r[0] + r[4] + r[8]
    if trace > 0.0:
        s = math.sqrt(trace + 1.0)
        h = 0.5 / s
        return 0.5 * s, (r[7] - r[5]) * h, (r[2] - r[6]) * h, (r[3] - r[1]) * h
    if r[0] >= r[4] and r[0] >= r[8]:
        s = math.sqrt(1.0 + r[0] - r[4] - r[8])
        h = 0.5 / s
        return (r[7] - r[5]) * h, 0.5 * s, (r[1] + r[3]) * h, (r[2] + r[6]) * h
    if r[4] >= r[8]:
        s = math.sqrt(1.0 + r[4] - r[0] - r[8])
        h = 0.5 / s
        return (r[2] - r[6]) * h, (r[1] + r[3]) * h, 0.5 * s, (r[5] + r[7]) * h
    s = math.sqrt(1.0 + r[8] - r[0] - r[4])
    h = 0.5 / s
    return (r[3] - r[1]) * h, (r[2] + r[6]) * h, (r[5] + r[7]) * h, 0.5 * s


@outlined
def quaternion_exp(x, y, z):
    """Return the quaternion of the rotation vector (x, y, z)."""
    t2 = 0.25 * (x * x + y * y + z * z)
    if t2 < 1e-8:
        # sin(t)/t and cos(t) by their series: exact to rounding here
        f = 0.5 * (1.0 - t2 * (1.0 / 6.0 - t2 / 120.0))
        return 1.0 - t2 * (0.5 - t2 / 24.0), f * x, f * y, f * z
    t = math.sqrt(t2)
    s, c = sincos(t)
    f = 0.5 * s / t
    return c, f * x, f * y, f * z


@inner
def quaternion_log(w, x, y, z):
    """Return the rotation vector, of length at most pi, of the quaternion (w, x, y, z)."""
    if w < 0.0:
        w, x, y, z = -w, -x, -y, -z
    n = math.sqrt(x * x + y * y + z * z)
    if n < 1e-9 * w:
        f = 2.0 / w
    else:
        f = 2.0 * atan2(n, w) / n
    return f * x, f * y, f * z
