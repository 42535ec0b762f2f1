"""W, U and D of a joint from M: the small inverses of the merges, for one free direction and for several."""

from __future__ import annotations

from limberjack._jit import inner, outlined
from limberjack.articulated.parts import DD, FRAME_LOCKED, FRAME_PLUS, MM, OWN, SMALL, UU, VECTOR, WW
from limberjack.spatial.solves import invert_symmetric_5

__all__ = ["inverse", "solve_axis", "solve_frame"]


@inner
def solve_axis(z, i2, i3, i4, own, s, o):
    """Fill W, U and D of a joint with the one free direction z; i2, i3, i4 are its locked directions after 0 and 1.

    Returns:
        whether M is positive.
    """
    m0, m1, m2, m3, m4 = MM, MM + 8, MM + 8 * i2, MM + 8 * i3, MM + 8 * i4
    positive, w = invert_symmetric_5(
        (
            s[0, m0], s[0, m1], s[0, m1 + 1], s[0, m2], s[0, m2 + 1], s[0, m2 + i2],
            s[0, m3], s[0, m3 + 1], s[0, m3 + i2], s[0, m3 + i3],
            s[0, m4], s[0, m4 + 1], s[0, m4 + i2], s[0, m4 + i3], s[0, m4 + i4],
        )
    )  # fmt: skip
    k = MM + 8 * z
    n0, n1, n2, n3, n4 = s[0, k], s[0, k + 1], s[0, k + i2], s[0, k + i3], s[0, k + i4]
    u0 = -(n0 * w[0] + n1 * w[1] + n2 * w[3] + n3 * w[6] + n4 * w[10])
    u1 = -(n0 * w[1] + n1 * w[2] + n2 * w[4] + n3 * w[7] + n4 * w[11])
    u2 = -(n0 * w[3] + n1 * w[4] + n2 * w[5] + n3 * w[8] + n4 * w[12])
    u3 = -(n0 * w[6] + n1 * w[7] + n2 * w[8] + n3 * w[9] + n4 * w[13])
    u4 = -(n0 * w[10] + n1 * w[11] + n2 * w[12] + n3 * w[13] + n4 * w[14])
    d = s[0, k + z] + u0 * n0 + u1 * n1 + u2 * n2 + u3 * n3 + u4 * n4
    # W + U^T t U with t = r / (1 + D r); without own inertia row and column z are zero
    f = 1.0 / (1.0 + d * own)
    t = own * f
    p = o + WW
    q = p + 8
    s0, s1, s2, s3, s4 = t * u0, t * u1, t * u2, t * u3, t * u4
    s[0, p], s[0, p + 1], s[0, p + i2], s[0, p + i3], s[0, p + i4], s[0, p + z] = (
        w[0] + s0 * u0, w[1] + s0 * u1, w[3] + s0 * u2, w[6] + s0 * u3, w[10] + s0 * u4, s0,
    )  # fmt: skip
    s[0, q], s[0, q + 1], s[0, q + i2], s[0, q + i3], s[0, q + i4], s[0, q + z] = (
        w[1] + s1 * u0, w[2] + s1 * u1, w[4] + s1 * u2, w[7] + s1 * u3, w[11] + s1 * u4, s1,
    )  # fmt: skip
    q = p + 8 * i2
    s[0, q], s[0, q + 1], s[0, q + i2], s[0, q + i3], s[0, q + i4], s[0, q + z] = (
        w[3] + s2 * u0, w[4] + s2 * u1, w[5] + s2 * u2, w[8] + s2 * u3, w[12] + s2 * u4, s2,
    )  # fmt: skip
    q = p + 8 * i3
    s[0, q], s[0, q + 1], s[0, q + i2], s[0, q + i3], s[0, q + i4], s[0, q + z] = (
        w[6] + s3 * u0, w[7] + s3 * u1, w[8] + s3 * u2, w[9] + s3 * u3, w[13] + s3 * u4, s3,
    )  # fmt: skip
    q = p + 8 * i4
    s[0, q], s[0, q + 1], s[0, q + i2], s[0, q + i3], s[0, q + i4], s[0, q + z] = (
        w[10] + s4 * u0, w[11] + s4 * u1, w[12] + s4 * u2, w[13] + s4 * u3, w[14] + s4 * u4, s4,
    )  # fmt: skip
    q = p + 8 * z
    s[0, q], s[0, q + 1], s[0, q + i2], s[0, q + i3], s[0, q + i4], s[0, q + z] = s0, s1, s2, s3, s4, t
    q = o + UU
    s[0, q], s[0, q + 1], s[0, q + i2], s[0, q + i3], s[0, q + i4], s[0, q + z] = (
        f * u0, f * u1, f * u2, f * u3, f * u4, f,
    )  # fmt: skip
    s[0, o + DD] = f * d
    return positive


@inner
def inverse(n, s, a, d):
    """Set the n x n matrix at s[0, d:] to the inverse of that at s[0, a:], which is destroyed; rows are 6 apart.

    Returns:
        whether the matrix, of which the lower half is read, is positive.
    """
    for j in range(n):  # L D L^T
        t = s[0, a + 7 * j]
        for k in range(j):
            t -= s[0, a + 6 * j + k] * s[0, a + 6 * j + k] * s[0, a + 7 * k]
        if not t > 0.0:
            return False
        s[0, a + 7 * j] = t
        for i in range(j + 1, n):
            x = s[0, a + 6 * i + j]
            for k in range(j):
                x -= s[0, a + 6 * i + k] * s[0, a + 6 * j + k] * s[0, a + 7 * k]
            s[0, a + 6 * i + j] = x / t
    for q in range(n):
        for i in range(n):
            x = 1.0 if i == q else 0.0
            for k in range(i):
                x -= s[0, a + 6 * i + k] * s[0, d + 6 * k + q]
            s[0, d + 6 * i + q] = x
        for i in range(n):
            s[0, d + 6 * i + q] /= s[0, a + 7 * i]
        for i in range(n - 1, -1, -1):
            x = s[0, d + 6 * i + q]
            for k in range(i + 1, n):
                x -= s[0, a + 6 * k + i] * s[0, d + 6 * k + q]
            s[0, d + 6 * i + q] = x
    return True


@outlined
def solve_frame(c, j, d, own, v, s, o):
    """Fill W, U and D of a joint with d free directions, its frame at c[0, j:]; return whether M is positive."""
    locked, plus = j + FRAME_LOCKED, j + FRAME_PLUS
    a, b, x = SMALL, SMALL + 36, VECTOR
    n = 6 - d
    for i in range(n):  # T^T M T
        for k in range(i + 1):
            total = 0.0
            for p in range(6):
                inside = 0.0
                for q in range(6):
                    inside += s[0, MM + 8 * p + q] * c[0, locked + 6 * k + q]
                total += c[0, locked + 6 * i + p] * inside
            s[0, a + 6 * i + k] = total
    positive = inverse(n, s, a, b)
    for p in range(6):
        for q in range(6):
            total = 0.0
            for i in range(n):
                inside = 0.0
                for k in range(n):
                    inside += s[0, b + 6 * i + k] * c[0, locked + 6 * k + q]
                total += c[0, locked + 6 * i + p] * inside
            s[0, o + WW + 8 * p + q] = total
    for i in range(d):  # U = S^+ (1 - M W)
        for k in range(6):
            inside = 0.0
            for q in range(6):
                inside += c[0, plus + 6 * i + q] * s[0, MM + 8 * q + k]
            s[0, x + k] = inside
        for p in range(6):
            total = c[0, plus + 6 * i + p]
            for k in range(6):
                total -= s[0, x + k] * s[0, o + WW + 8 * k + p]
            s[0, o + UU + 8 * i + p] = total
    for i in range(d):  # D = U M S^+T
        for k in range(d):
            total = 0.0
            for p in range(6):
                inside = 0.0
                for q in range(6):
                    inside += s[0, MM + 8 * p + q] * c[0, plus + 6 * k + q]
                total += s[0, o + UU + 8 * i + p] * inside
            s[0, o + DD + 6 * i + k] = total
    some = False
    for i in range(d):
        some = some or own[v + i, OWN] != 0.0
    return (_add_own(d, own, v, s, o) and positive) if some else positive


@inner
def _add_own(d, own, v, s, o):
    """Let the joint's own inertia act on W, U and D; return whether D is positive."""
    a, b, c, x = SMALL, SMALL + 36, SMALL + 72, VECTOR
    for i in range(d):
        for k in range(i + 1):
            s[0, a + 6 * i + k] = s[0, o + DD + 6 * i + k]
    positive = inverse(d, s, a, b)  # b = N
    for i in range(d):
        for k in range(i + 1):
            s[0, a + 6 * i + k] = s[0, b + 6 * i + k] + (own[v + i, OWN] if i == k else 0.0)
    positive = inverse(d, s, a, c) and positive  # c = D'
    for i in range(d):
        for k in range(d):
            s[0, o + DD + 6 * i + k] = s[0, c + 6 * i + k]
    for i in range(d):  # a = D' N
        for k in range(d):
            total = 0.0
            for p in range(d):
                total += s[0, c + 6 * i + p] * s[0, b + 6 * p + k]
            s[0, a + 6 * i + k] = total
    for i in range(d):  # c = N - N D' N
        for k in range(d):
            total = s[0, b + 6 * i + k]
            for p in range(d):
                total -= s[0, b + 6 * i + p] * s[0, a + 6 * p + k]
            s[0, c + 6 * i + k] = total
    for p in range(6):
        for q in range(6):
            total = 0.0
            for i in range(d):
                for k in range(d):
                    total += s[0, o + UU + 8 * i + p] * s[0, c + 6 * i + k] * s[0, o + UU + 8 * k + q]
            s[0, o + WW + 8 * p + q] += total
    for p in range(6):
        for i in range(d):
            total = 0.0
            for k in range(d):
                total += s[0, a + 6 * i + k] * s[0, o + UU + 8 * k + p]
            s[0, x + i] = total
        for i in range(d):
            s[0, o + UU + 8 * i + p] = s[0, x + i]
    return positive
