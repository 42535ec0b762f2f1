"""Merges of two subassemblies at a joint: inverse inertias, bias accelerations and back-substitution of the DCA.

A subassembly C responds to forces f on its handles with accelerations of the handles and of its joints:

    a = Phi f + b            sum over the joints inside of qdd^T A qdd = f^T Psi f + f^T p + eta       (1), (7)

Handles are links; everything of a handle is in the axes of its link, at the link's origin. Accelerations are classical.
A joint i joins handle a of A (its parent link p) with handle 0 of B (link i). X takes motions from p to i, K are the
handles that C keeps. The blocks of the paper for the connecting handles are Phi_aa of A (its Phi_2) and Phi_00 of B
(its Phi_1); Phi of C stacks the kept handles, so that its Phi_1, Phi_12 and Phi_2 are blocks of one 12 x 12 matrix.

| symbol | formula | equation |
|---|---|---|
| M | X Phi_aa X^T + Phi_00, the inverse of the paper's V | (2) |
| W | T (T^T M T)^-1 T^T, T the locked directions of the joint: the inverse is of 5x5 at a hinge | (2) |
| U, D | S^+ (1 - M W), S^+ (M - M W M) S^+T, both reduced by the joint's own inertia; D = (S^T V S)^-1 | (2), (8) |
| G^T | (X Phi_aK of A, -Phi_0K of B); E = W G^T | (2) |
| beta, gamma, R | X b_a - b_0, W beta + U^T Q, D Q - U beta | (2), (8) |
| Phi, b of C | diag(Phi_A, Phi_B) - G E, (b_A, b_B) - G gamma | (2) |
| y, qdd | G^T f, R - U y | (4) |
| lambda | W y + gamma: -X^T lambda on A's handle a, +lambda on B's handle 0 | (5) |

The joint's own inertia r (armature, implicit terms) adds to S^T M^-1 S: with N = D^-1, D' = (N + r)^-1, U' = D' N U,
W' = W + U^T (N - N D' N) U. It is no part of the paper.

To *factor* a joint is to compute its G^T, W, U and D, which depend on positions alone. Offsets are those of
`assembly_tree.py`. Featherstone 1999; Redon, Galoppo, Lin 2005, section 3: the equation numbers are theirs.
"""

from __future__ import annotations

from limberjack._jit import inner, outlined
from limberjack.model.joints import HINGE, SLIDE
from limberjack.reduced.assembly_tree import (
    BETA,
    CURRENT,
    DD,
    DOFS,
    ET,
    FIRST_SIDE,
    FORCE,
    FRAME_LOCKED,
    FRAME_PLUS,
    FRAMES,
    GAMMA,
    GT,
    HANDLES,
    JX,
    KEEP,
    KEEP_A,
    KEEP_B,
    KEEP_JOINT,
    KIND,
    KT,
    LEAF,
    LEAF_KT,
    MM,
    NON_NEGATIVE,
    OWN,
    PHI,
    RR,
    SECOND_SIDE,
    SLOT,
    SMALL,
    SPARE,
    TAU,
    TRANSPOSED,
    UU,
    VECTOR,
    WW,
    V,
    columns_offset,
    current_offset,
    factor_offset,
    offset_of,
    row_length,
    transform_force,
    transform_motion,
    transform_motion_rows,
)
from limberjack.spatial.lanes import add, load4, scale, store4, sub
from limberjack.spatial.solves import invert_symmetric_5

__all__ = [
    "back_substitute",
    "factor_joint",
    "inverse",
    "joint_bias",
    "merge_accelerations",
    "merge_inertias",
    "solve_axis",
    "solve_frame",
]


@inner
def solve_axis(z, i2, i3, i4, own, s, o):
    """Fill W, U and D of a joint from M, for one free direction z; i2, i3, i4 are its locked ones after 0 and 1.

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
    # U of eq. (8): S^+ (1 - M W); it is 1 along z
    u0 = -(n0 * w[0] + n1 * w[1] + n2 * w[3] + n3 * w[6] + n4 * w[10])
    u1 = -(n0 * w[1] + n1 * w[2] + n2 * w[4] + n3 * w[7] + n4 * w[11])
    u2 = -(n0 * w[3] + n1 * w[4] + n2 * w[5] + n3 * w[8] + n4 * w[12])
    u3 = -(n0 * w[6] + n1 * w[7] + n2 * w[8] + n3 * w[9] + n4 * w[13])
    u4 = -(n0 * w[10] + n1 * w[11] + n2 * w[12] + n3 * w[13] + n4 * w[14])
    # D of eq. (2): S^+ (M - M W M) S^+T
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
    # W of eq. (2): T (T^T M T)^-1 T^T
    for i in range(n):
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
    # U of eq. (8): S^+ (1 - M W)
    for i in range(d):
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
    # D of eq. (2): U M S^+T
    for i in range(d):
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
    return (_add_joint_inertia(d, own, v, s, o) and positive) if some else positive


@inner
def _add_joint_inertia(d, own, v, s, o):
    """Add the joint's own inertia to W, U and D; return whether D is positive."""
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


@inner
def joint_matrices(c, o, step, row, leaf, lower, j, slot, keep, s, m, d):
    """Fill G^T (6 x 12, at s[0, d:]) and M (6 x 8, at s[0, m:]) of a joint from the matrices of A and B.

    Args:
        c: all coefficients.
        o, step, leaf: offset and row length of the matrix of A, and whether A is a leaf.
        lower, row: offset and row length of the matrix of B.
        j: offset of the pose of i in p.
        slot, keep: the joint's parent among A's handles, what handle 1 of the node is.
        s, m, d: scratch, offsets of M and G^T.
    """
    # G^T of eq. (2): X Phi_aK of A, -Phi_0K of B
    transform_motion_rows(c, j, c, o + 6 * slot * step, step, 2 if leaf else 3, s, d, 12)
    # M, whose inverse is V of eq. (2): X Phi_aa X^T + Phi_00
    at = d + 6 * slot
    for k in range(6):
        for i in range(6):
            s[0, TRANSPOSED + 8 * i + k] = s[0, at + 12 * k + i]
    transform_motion_rows(c, j, s, TRANSPOSED, 8, 2, s, m, 8)
    for k in range(6):
        for i in range(6):
            s[0, m + 8 * k + i] += c[0, lower + row * k + i]
    if keep != KEEP_A:
        at = lower + (6 if keep == KEEP_B else 0)
        sign = -1.0 if keep == KEEP_JOINT or keep == KEEP_B else 0.0
        for k in range(6):
            for i in range(6):
                s[0, d + 12 * k + 6 + i] = sign * c[0, at + row * k + i]


@outlined
def factor_joint(table, c, own, s, node, slot):
    """Fill G^T, W, U, D and the joint force of the joint of `node` in `slot`; M stays in the scratch.

    Returns:
        whether M is positive.
    """
    nb = len(table) // 2
    first, second = table[node, FIRST_SIDE], table[node, SECOND_SIDE]
    o = factor_offset(slot)
    lower, row = offset_of(second, nb), row_length(second, nb)
    if first >= 0:
        joint_matrices(
            c, offset_of(first, nb), row_length(first, nb), row, first < nb, lower, offset_of(node, nb) + JX,
            table[node, SLOT], table[node, KEEP], s, MM, o + GT,
        )  # fmt: skip
    else:
        for k in range(6):
            for q in range(6):
                s[0, MM + 8 * k + q] = c[0, lower + row * k + q]
    kind, v = table[node, KIND], table[node, V]
    if kind == HINGE or kind == SLIDE:
        s[0, o + FORCE] = own[v, TAU]
        if kind == HINGE:
            return solve_axis(2, 3, 4, 5, own[v, OWN], s, o)
        return solve_axis(5, 2, 3, 4, own[v, OWN], s, o)
    for k in range(table[node, DOFS]):
        s[0, o + FORCE + k] = own[v + k, TAU]
    return solve_frame(c, table[node, FRAMES], table[node, DOFS], own, v, s, o)


@inner
def multiply_rows(s, o, p, d, blocks):
    """Set six rows at d to W x, for W (6 x 8) at o and six rows x at p; rows are 12 long."""
    for b in range(blocks):
        k = p + 4 * b
        x0, x1, x2 = load4(s, 0, k), load4(s, 0, k + 12), load4(s, 0, k + 24)
        x3, x4, x5 = load4(s, 0, k + 36), load4(s, 0, k + 48), load4(s, 0, k + 60)
        for r in range(6):
            q = o + 8 * r
            t = add(add(scale(s[0, q], x0), scale(s[0, q + 1], x1)), scale(s[0, q + 2], x2))
            t = add(add(add(t, scale(s[0, q + 3], x3)), scale(s[0, q + 4], x4)), scale(s[0, q + 5], x5))
            store4(s, 0, d + 12 * r + 4 * b, t)


@inner
def subtract_products(s, p, q, rows, blocks, c, o):
    """Subtract G E, of six rows each at p and q, from the matrix at c[0, o:], row length 12."""
    for b in range(blocks):
        k = q + 4 * b
        e0, e1, e2 = load4(s, 0, k), load4(s, 0, k + 12), load4(s, 0, k + 24)
        e3, e4, e5 = load4(s, 0, k + 36), load4(s, 0, k + 48), load4(s, 0, k + 60)
        for i in range(rows):
            j = p + i
            t = add(add(scale(s[0, j], e0), scale(s[0, j + 12], e1)), scale(s[0, j + 24], e2))
            t = add(add(add(t, scale(s[0, j + 36], e3)), scale(s[0, j + 48], e4)), scale(s[0, j + 60], e5))
            k = o + 12 * i + 4 * b
            store4(c, 0, k, sub(load4(c, 0, k), t))


@inner
def weighted_rows(s, x, g, d, blocks):
    """Set the row at d to the sum of six rows at g, 12 apart, weighted by the six numbers at x."""
    for b in range(blocks):
        k = g + 4 * b
        t = add(scale(s[0, x], load4(s, 0, k)), scale(s[0, x + 1], load4(s, 0, k + 12)))
        t = add(add(t, scale(s[0, x + 2], load4(s, 0, k + 24))), scale(s[0, x + 3], load4(s, 0, k + 36)))
        t = add(add(t, scale(s[0, x + 4], load4(s, 0, k + 48))), scale(s[0, x + 5], load4(s, 0, k + 60)))
        store4(s, 0, d + 4 * b, t)


@inner
def _copy_block(c, o, row, d, i, j, rows, columns):
    """Copy a block of a matrix at o to (i, j) of the one at d, row length 12."""
    for k in range(rows):
        for q in range(columns):
            c[0, d + 12 * (i + k) + j + q] = c[0, o + row * k + q]


@inner
def set_block_diagonal(table, c, node, shift):
    """Set the matrix of `node` at `shift` (PHI or PSI) to diag(that of A, that of B) for the handles it keeps."""
    nb = len(table) // 2
    first, second, keep = table[node, FIRST_SIDE], table[node, SECOND_SIDE], table[node, KEEP]
    d = offset_of(node, nb) + shift
    if keep == KEEP_A:
        _copy_block(c, offset_of(first, nb) + shift, 12, d, 0, 0, 12, 12)
        return
    # leaves have no Psi: it is zero
    if shift == PHI or first >= nb:
        _copy_block(c, offset_of(first, nb) + shift, row_length(first, nb), d, 0, 0, 6, 6)
    else:
        for k in range(6):
            for q in range(6):
                c[0, d + 12 * k + q] = 0.0
    if keep == KEEP_JOINT or keep == KEEP_B:
        for k in range(6):
            for q in range(6):
                c[0, d + 12 * k + 6 + q] = 0.0
                c[0, d + 12 * (6 + k) + q] = 0.0
                c[0, d + 12 * (6 + k) + 6 + q] = 0.0
        if shift == PHI or second >= nb:
            row = row_length(second, nb)
            o = offset_of(second, nb) + shift + (6 * row + 6 if keep == KEEP_B else 0)
            _copy_block(c, o, row, d, 6, 6, 6, 6)


@outlined
def merge_inertias(table, c, s, node, slot):
    """Fill Phi of `node`, not a root, from its factored joint; E stays in the scratch."""
    o = factor_offset(slot)
    count = table[node, HANDLES]
    blocks = 2 if count == 1 else 3
    # Equation (2): Phi of C = diag(Phi_A, Phi_B) - G E, E = W G^T
    multiply_rows(s, o + WW, o + GT, ET, blocks)
    set_block_diagonal(table, c, node, PHI)
    phi = offset_of(node, len(table) // 2) + PHI
    subtract_products(s, o + GT, ET, 6 * count, blocks, c, phi)


@outlined
def joint_bias(table, c, s, node, slot, x, y, z):
    """Fill gamma and R of the factored joint of `node` from the current b of its sides; x, y, z add to beta."""
    o = factor_offset(slot)
    nb = len(table) // 2
    first, second, dof = table[node, FIRST_SIDE], table[node, SECOND_SIDE], table[node, DOFS]
    # Equation (2): beta = X b_a - b_0 + (the relative acceleration with qdd = 0)
    k = columns_offset(second, nb) + CURRENT * row_length(second, nb)
    b0, b1, b2, b3, b4, b5 = -c[0, k], -c[0, k + 1], -c[0, k + 2], -c[0, k + 3], -c[0, k + 4], -c[0, k + 5]
    if first >= 0:
        k = columns_offset(first, nb) + CURRENT * row_length(first, nb) + 6 * table[node, SLOT]
        a = transform_motion(c, offset_of(node, nb) + JX, c, k)
        b0, b1, b2 = b0 + a[0], b1 + a[1], b2 + a[2]
        b3, b4, b5 = b3 + a[3] + x, b4 + a[4] + y, b5 + a[5] + z
    beta, gamma = o + BETA, o + GAMMA
    s[0, beta], s[0, beta + 1], s[0, beta + 2] = b0, b1, b2
    s[0, beta + 3], s[0, beta + 4], s[0, beta + 5] = b3, b4, b5
    # Equation (2): gamma = W beta + U^T Q
    for k in range(6):
        w = o + WW + 8 * k
        s[0, gamma + k] = (
            s[0, w] * b0 + s[0, w + 1] * b1 + s[0, w + 2] * b2 + s[0, w + 3] * b3 + s[0, w + 4] * b4 + s[0, w + 5] * b5
        )
    # Equation (8): R = D Q - U beta
    for a in range(dof):
        u = o + UU + 8 * a
        q = s[0, o + FORCE + a]
        total = -(
            s[0, u] * b0 + s[0, u + 1] * b1 + s[0, u + 2] * b2 + s[0, u + 3] * b3 + s[0, u + 4] * b4 + s[0, u + 5] * b5
        )
        for k in range(dof):
            total += s[0, o + DD + 6 * a + k] * s[0, o + FORCE + k]
        s[0, o + RR + a] = total
        for k in range(6):
            s[0, gamma + k] += s[0, u + k] * q


@inner
def copy_kept_values(table, c, node, shift):
    """Set the current b (KT) or p (PT) of `node` to those of the handles it keeps."""
    nb = len(table) // 2
    first, second, keep = table[node, FIRST_SIDE], table[node, SECOND_SIDE], table[node, KEEP]
    d = current_offset(node, nb, shift)
    for side in range(2):
        side_node = first if side == 0 or keep == KEEP_A else second
        at = 0 if side == 0 or keep == KEEP_JOINT else 6
        here = side == 0 or keep != 0
        if side_node < nb:
            k = side_node * LEAF + LEAF_KT + 6 * CURRENT
            here = here and shift == KT
        else:
            k = current_offset(side_node, nb, shift) + at
        for q in range(6):
            c[0, d + 6 * side + q] = c[0, k + q] if here else 0.0


@outlined
def merge_accelerations(table, c, s, node, slot):
    """Set the current b of `node`, not a root, from gamma."""
    o = factor_offset(slot)
    # Equation (2): b of C = (b_A, b_B) - G gamma
    copy_kept_values(table, c, node, KT)
    d = current_offset(node, len(table) // 2, KT)
    blocks = 2 if table[node, HANDLES] == 1 else 3
    weighted_rows(s, o + GAMMA, o + GT, SPARE + 24, blocks)
    for q in range(6 * table[node, HANDLES]):
        c[0, d + q] -= s[0, SPARE + 24 + q]


@outlined
def back_substitute(table, c, s, node, slot, f, o_node, o_first, o_second, qdd):
    """Fill qdd of the factored joint of `node` and the forces on the handles of its sides from those on its own.

    Args:
        f: (1, all) forces on handles, 12 per node.
        o_node, o_first, o_second: offsets in f of the forces on the node and on its sides A and B.
        qdd: (nv,) of all dofs; those of this joint are written.
    """
    o, nb = factor_offset(slot), len(table) // 2
    o_node, o_first, o_second = o_node & NON_NEGATIVE, o_first & NON_NEGATIVE, o_second & NON_NEGATIVE
    keep, count = table[node, KEEP], table[node, HANDLES]
    y0 = y1 = y2 = y3 = y4 = y5 = 0.0
    for q in range(6 * count):
        x, k = f[0, o_node + q], o + GT + q
        y0, y1, y2 = y0 + s[0, k] * x, y1 + s[0, k + 12] * x, y2 + s[0, k + 24] * x
        y3, y4, y5 = y3 + s[0, k + 36] * x, y4 + s[0, k + 48] * x, y5 + s[0, k + 60] * x
    # Equation (4): qdd = R - U y, y = G^T f
    for a in range(table[node, DOFS]):
        u = o + UU + 8 * a
        qdd[table[node, V] + a] = s[0, o + RR + a] - (
            s[0, u] * y0 + s[0, u + 1] * y1 + s[0, u + 2] * y2 + s[0, u + 3] * y3 + s[0, u + 4] * y4 + s[0, u + 5] * y5
        )
    for k in range(6):
        f[0, o_second + k] = 0.0
        f[0, o_second + 6 + k] = f[0, o_node + 6 + k] if keep == KEEP_B else 0.0
    if keep == KEEP_JOINT:
        for k in range(6):
            f[0, o_second + k] = f[0, o_node + 6 + k]
    # Equation (5): lambda = W y + gamma
    w = o + WW
    n0 = s[0, w] * y0 + s[0, w + 1] * y1 + s[0, w + 2] * y2 + s[0, w + 3] * y3 + s[0, w + 4] * y4 + s[0, w + 5] * y5
    w += 8
    n1 = s[0, w] * y0 + s[0, w + 1] * y1 + s[0, w + 2] * y2 + s[0, w + 3] * y3 + s[0, w + 4] * y4 + s[0, w + 5] * y5
    w += 8
    n2 = s[0, w] * y0 + s[0, w + 1] * y1 + s[0, w + 2] * y2 + s[0, w + 3] * y3 + s[0, w + 4] * y4 + s[0, w + 5] * y5
    w += 8
    f0 = s[0, w] * y0 + s[0, w + 1] * y1 + s[0, w + 2] * y2 + s[0, w + 3] * y3 + s[0, w + 4] * y4 + s[0, w + 5] * y5
    w += 8
    f1 = s[0, w] * y0 + s[0, w + 1] * y1 + s[0, w + 2] * y2 + s[0, w + 3] * y3 + s[0, w + 4] * y4 + s[0, w + 5] * y5
    w += 8
    f2 = s[0, w] * y0 + s[0, w + 1] * y1 + s[0, w + 2] * y2 + s[0, w + 3] * y3 + s[0, w + 4] * y4 + s[0, w + 5] * y5
    gamma = o + GAMMA
    n0, n1, n2 = n0 + s[0, gamma], n1 + s[0, gamma + 1], n2 + s[0, gamma + 2]
    f0, f1, f2 = f0 + s[0, gamma + 3], f1 + s[0, gamma + 4], f2 + s[0, gamma + 5]
    f[0, o_second] += n0
    f[0, o_second + 1] += n1
    f[0, o_second + 2] += n2
    f[0, o_second + 3] += f0
    f[0, o_second + 4] += f1
    f[0, o_second + 5] += f2
    if table[node, FIRST_SIDE] >= 0:
        for k in range(6):
            f[0, o_first + k] = f[0, o_node + k]
            f[0, o_first + 6 + k] = f[0, o_node + 6 + k] if keep == KEEP_A else 0.0
        n0, n1, n2, f0, f1, f2 = transform_force(c, offset_of(node, nb) + JX, n0, n1, n2, f0, f1, f2)
        k = o_first + 6 * table[node, SLOT]
        f[0, k] -= n0
        f[0, k + 1] -= n1
        f[0, k + 2] -= n2
        f[0, k + 3] -= f0
        f[0, k + 4] -= f1
        f[0, k + 5] -= f2
