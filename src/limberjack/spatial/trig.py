"""Sine, cosine and arc tangent as kernels, free of the C library: the same bits on every machine, and faster.

Reduction: k = round(2 x / pi), r = x - k pi/2 in pieces of pi/2 short enough that k times a piece is exact
(Cody and Waite) up to |k| = 2^19; above, with error-free products (Dekker), to |x| = 2^50. Then minimax polynomials on
[-pi/4, pi/4]. Absolute error below 2.3e-16 for |x| <= 1e6; beyond, the rounding of x itself is larger.
"""

from __future__ import annotations

from limberjack._jit import inner, kernel

__all__ = ["atan2", "sincos", "sincos_all"]

_TWO_OVER_PI = 0.6366197723675814
# pi/2 in three pieces of 33, 33 and 53 bits ...
_PIO2_1 = 1.57079632673412561417e00
_PIO2_2 = 6.07710050630396597660e-11
_PIO2_3 = 2.02226624879595063154e-21
# ... and in two of 53.
_PIO2_HI = 1.5707963267948966
_PIO2_LO = 6.123233995736766e-17
_SHORT = 524288.0  # 2^19
_LONG = 1125899906842624.0  # 2^50
_SPLIT = 134217729.0  # 2^27 + 1
_ROUND = 6755399441055744.0  # 1.5 * 2^52: adding and taking it away rounds to the nearest whole number


@inner
def _two_product(a, b):
    """Return (p, e) with p = fl(a b) and p + e = a b exactly."""
    p = a * b
    t = _SPLIT * a
    a_hi = t - (t - a)
    a_lo = a - a_hi
    t = _SPLIT * b
    b_hi = t - (t - b)
    b_lo = b - b_hi
    return p, ((a_hi * b_hi - p) + a_hi * b_lo + a_lo * b_hi) + a_lo * b_lo


@inner
def _reduce_large(x):
    """Return (r, quadrant) with x = r + quadrant pi/2 modulo 2 pi, |r| small, for |x| beyond the short pieces."""
    k = (x * _TWO_OVER_PI + _ROUND) - _ROUND
    p, e = _two_product(k, _PIO2_HI)
    r = ((x - p) - e) - k * _PIO2_LO
    return r, k - 4.0 * (((0.25 * k - 0.375) + _ROUND) - _ROUND)


@inner
def _sincos_short(x):
    """Return (sin x, cos x) for |x| <= 2^19, without branches, in Estrin's order: short chains of dependence."""
    k = (x * _TWO_OVER_PI + _ROUND) - _ROUND
    r = ((x - k * _PIO2_1) - k * _PIO2_2) - k * _PIO2_3
    z = r * r
    z2 = z * z
    z4 = z2 * z2
    s = (
        (-1.66666666666666324348e-01 + z * 8.33333333332248946124e-03)
        + z2 * (-1.98412698298579493134e-04 + z * 2.75573137070700676789e-06)
    ) + z4 * (-2.50507602534068634195e-08 + z * 1.58969099521155010221e-10)
    s = r + (r * z) * s
    c = (
        (4.16666666666666019037e-02 - z * 1.38888888888741095749e-03)
        + z2 * (2.48015872894767294178e-05 - z * 2.75573143513906633035e-07)
    ) + z4 * (2.08757232129817482790e-09 - z * 1.13596475577881948265e-11)
    half = 0.5 * z
    w = 1.0 - half
    c = w + (((1.0 - w) - half) + z2 * c)
    turn = k - 4.0 * (((0.25 * k - 0.375) + _ROUND) - _ROUND)
    odd = turn == 1.0 or turn == 3.0
    a = c if odd else s
    b = s if odd else c
    return -a if turn >= 2.0 else a, -b if turn == 1.0 or turn == 2.0 else b


@inner
def sincos(x):
    """Return (sin x, cos x)."""
    if abs(x) <= _SHORT:
        return _sincos_short(x)
    if not abs(x) <= _LONG:
        # neighbouring numbers are further apart than a turn: any angle will do; NaN and infinity stay NaN
        return x - x, (x - x) + 1.0
    r, quadrant = _reduce_large(x)
    s, c = _sincos_short(r)
    if quadrant == 1.0:
        return c, -s
    if quadrant == 2.0:
        return -s, -c
    if quadrant == 3.0:
        return -c, s
    return s, c


@kernel
def sincos_all(
    # in
    first, last, x,
    # out
    sines, cosines,
):  # fmt: skip
    """Fill sine and cosine of x[first] .. x[last - 1]; several at a time, since nothing in the loop branches."""
    long = 0
    for i in range(first, last):
        sines[i], cosines[i] = _sincos_short(x[i])
        long += abs(x[i]) > _SHORT
    if long > 0:
        for i in range(first, last):
            if abs(x[i]) > _SHORT:
                sines[i], cosines[i] = sincos(x[i])


@inner
def _atan_small(x):
    """Return arctan x for |x| <= 0.66 by its rational minimax form."""
    z = x * x
    p = (
        ((-8.750608600031904122785e-1 * z - 1.615753718733365076637e1) * z - 7.500855792314704667340e1) * z
        - 1.228866684490136173410e2
    ) * z - 6.485021904942025371773e1
    q = (
        (((z + 2.485846490142306297962e1) * z + 1.650270098316988542046e2) * z + 4.328810604912902668951e2) * z
        + 4.853903996359136964868e2
    ) * z + 1.945506571482613964425e2
    return x + x * z * p / q


@inner
def atan2(y, x):
    """Return the angle of the point (x, y) in (-pi, pi]; 0 at the origin."""
    ax = abs(x)
    ay = abs(y)
    if ax == 0.0 and ay == 0.0:
        return 0.0
    # Work in the octant where the quotient is at most 1, and turn by pi/4 where it is large.
    big = max(ax, ay)
    small = min(ax, ay)
    t = small / big
    if t > 0.41421356237309503:
        a = 0.78539816339744830962 + _atan_small((small - big) / (small + big))
    else:
        a = _atan_small(t)
    if ay > ax:
        a = _PIO2_HI - a
    if x < 0.0:
        a = 3.141592653589793 - a
    return a if y >= 0.0 else -a
