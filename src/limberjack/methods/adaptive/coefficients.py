"""Linear coefficients of rigid nodes as functions of their angular velocity, in place of the tensors of eq. (9).

Inside a rigid node all bodies share one rigid motion. A uniform translation changes nothing (Galilean invariance), so
with classical accelerations everything depends on the angular velocity w of handle 0 alone, in its axes:

    b = K m      p = P m      eta = m^T E m      m = (w_x^2, w_y^2, w_z^2, w_y w_z, w_x w_z, w_x w_y, 1)

The last column holds the effect of constant joint forces (springs, motors, applied forces: q of a rigid joint does not
change). K, P and E are merged by eqs. (2) and (8), or by the mass metric of `metric_merges.py`, for seven columns at a
time. Merging A and B at joint i,

    beta = X K_a + cent - K_0 R6         cent m = (0; w x (w x d)), d from p to i
    R6: squares and products of w at handle 0 -> those at link i

A leaf with angular velocity w and no forces has alpha = -J^-1 (w x J w) about its com x, a = x x alpha - w x (w x x).

The paper's tensors B, P, E (theorems 3 and 4) hold the same with thirteen times the numbers. Symbols are those of
`merges.py` and `metric_merges.py`. Redon, Galoppo, Lin 2005, section 6.2.
"""

from __future__ import annotations

import numpy as np

from limberjack._jit import inner, outlined
from limberjack.reduced.assembly_tree import (
    CURRENT,
    DD,
    DOFS,
    EC,
    ETA,
    FIRST_SIDE,
    FORCE,
    GT,
    HANDLES,
    HT,
    JX,
    KEEP,
    KEEP_A,
    KEEP_B,
    KEEP_JOINT,
    KT,
    LEAF,
    LEAF_KT,
    PSI0,
    PT,
    ROOM,
    SECOND_SIDE,
    SLOT,
    TT,
    UG,
    UU,
    WEIGHT,
    WW,
    V,
    columns_offset,
    factor_offset,
    offset_of,
    row_length,
    transform_motion,
)
from limberjack.reduced.dca import com_inertia
from limberjack.reduced.joint_poses import child_pose, handle_pose, merge_rigidly, set_joint
from limberjack.reduced.merges import factor_joint, merge_inertias
from limberjack.reduced.metric_merges import joint_metric_matrices, merge_mass_metric, merge_metric
from limberjack.spatial.lanes import add, lane, load4, scale, store4, sub
from limberjack.spatial.solves import solve_symmetric_3
from limberjack.spatial.vectors import cross, rotate, rotate_back

__all__ = ["evaluate_coefficients", "rigid_coefficients", "set_leaf_columns"]

# Offsets in the scratch: R6 (6 x 6), K and P of B rotated (7 x 12), gamma, pi, Z (7 x 8), R, A R (7 x 8),
# centripetal part (6 x 3), Psi0 gamma (7 x 8).
R6, KB, PB, GAM, PI, ZZ, RC, AR, CENT, PG = (
    ROOM, ROOM + 36, ROOM + 128, ROOM + 220, ROOM + 276, ROOM + 332, ROOM + 388, ROOM + 444, ROOM + 500, ROOM + 520,
)  # fmt: skip


@inner
def lower_index(i, k):
    """Return the index of (i, k), k <= i, in the lower half of a symmetric matrix."""
    return i * (i + 1) // 2 + k


@inner
def monomials(x, y, z):
    """Return the squares and products (xx, yy, zz, yz, xz, xy)."""
    return x * x, y * y, z * z, y * z, x * z, x * y


@inner
def _product_coefficients(ux, uy, uz, vx, vy, vz):
    """Return the six coefficients of (u . w)(v . w) on the monomials of w."""
    return ux * vx, uy * vy, uz * vz, uy * vz + uz * vy, ux * vz + uz * vx, ux * vy + uy * vx


@inner
def _store_6(t, s, o):
    s[0, o], s[0, o + 1], s[0, o + 2], s[0, o + 3], s[0, o + 4], s[0, o + 5] = t[0], t[1], t[2], t[3], t[4], t[5]


@inner
def _rotate_monomials(r, s, o):
    """Fill R6 (6 x 6 at s[0, o:]): monomials of R^T w from those of w."""
    _store_6(_product_coefficients(r[0], r[3], r[6], r[0], r[3], r[6]), s, o)
    _store_6(_product_coefficients(r[1], r[4], r[7], r[1], r[4], r[7]), s, o + 6)
    _store_6(_product_coefficients(r[2], r[5], r[8], r[2], r[5], r[8]), s, o + 12)
    _store_6(_product_coefficients(r[1], r[4], r[7], r[2], r[5], r[8]), s, o + 18)
    _store_6(_product_coefficients(r[0], r[3], r[6], r[2], r[5], r[8]), s, o + 24)
    _store_6(_product_coefficients(r[0], r[3], r[6], r[1], r[4], r[7]), s, o + 30)


@inner
def _centripetal(x, y, z, k):
    """Return column k of w x (w x d), d = (x, y, z), on the monomials of w."""
    if k == 0:
        return 0.0, -y, -z
    if k == 1:
        return -x, 0.0, -z
    if k == 2:
        return -x, -y, 0.0
    if k == 3:
        return 0.0, z, y
    if k == 4:
        return z, 0.0, x
    return y, x, 0.0


@inner
def _gyroscopic(j, k):
    """Return column k of w x J w on the monomials of w, for the six numbers j of J."""
    xx, yy, zz, xy, xz, yz = j
    if k == 0:
        return 0.0, -xz, xy
    if k == 1:
        return yz, 0.0, -xy
    if k == 2:
        return -yz, xz, 0.0
    if k == 3:
        return zz - yy, xy, -xz
    if k == 4:
        return -xy, xx - zz, yz
    return xz, -yz, yy - xx


@outlined
def set_leaf_columns(links, tree, c):
    """Fill the columns of b of all leaves."""
    g = links.inertia
    for b in range(len(tree.body_link)):
        i = tree.body_link[b]
        x, y, z, xx, yy, zz, xy, xz, yz = com_inertia(
            (g[i, 0], g[i, 1], g[i, 2], g[i, 3], g[i, 4], g[i, 5], g[i, 6], g[i, 7], g[i, 8], g[i, 9])
        )
        j = (xx, yy, zz, xy, xz, yz)
        # Equation (3): b = -I^-1 (v x* I v), as columns on the monomials of w
        for k in range(6):
            tx, ty, tz = _gyroscopic(j, k)
            _, ax, ay, az = solve_symmetric_3(j, -tx, -ty, -tz)
            lx, ly, lz = cross(x, y, z, ax, ay, az)
            tx, ty, tz = _centripetal(x, y, z, k)
            _store_6((ax, ay, az, lx - tx, ly - ty, lz - tz), c, b * LEAF + LEAF_KT + 6 * k)
        _store_6((0.0, 0.0, 0.0, 0.0, 0.0, 0.0), c, b * LEAF + LEAF_KT + 36)


@inner
def _rotate_columns(c, o, row, blocks, s, d):
    """Set 7 rows of s at d, 12 apart, to the columns at c[0, o:], `row` apart, on the monomials at handle 0 of C."""
    for b in range(blocks):
        k = o + 4 * b
        x0, x1, x2 = load4(c, 0, k), load4(c, 0, k + row), load4(c, 0, k + 2 * row)
        x3, x4, x5 = load4(c, 0, k + 3 * row), load4(c, 0, k + 4 * row), load4(c, 0, k + 5 * row)
        for q in range(6):
            f = add(add(scale(s[0, R6 + q], x0), scale(s[0, R6 + 6 + q], x1)), scale(s[0, R6 + 12 + q], x2))
            f = add(
                add(add(f, scale(s[0, R6 + 18 + q], x3)), scale(s[0, R6 + 24 + q], x4)), scale(s[0, R6 + 30 + q], x5)
            )
            store4(s, 0, d + 12 * q + 4 * b, f)
        store4(s, 0, d + 72 + 4 * b, load4(c, 0, k + 6 * row))


@inner
def _solve_columns(table, c, s, node, slot):
    """Fill gamma and R of all seven columns; the rotated K of B is in the scratch."""
    o, nb = factor_offset(slot), len(table) // 2
    first, d = table[node, FIRST_SIDE], table[node, DOFS]
    j = offset_of(node, nb) + JX
    row = row_length(first, nb)
    upper = columns_offset(first, nb) + 6 * table[node, SLOT]
    # Equations (2) and (8) by columns: beta = X K_a + cent - K_0 R6, gamma = W beta + U^T Q, R = D Q - U beta
    for q in range(7):
        a = transform_motion(c, j, c, upper + row * q)
        k = KB + 12 * q
        b0, b1, b2 = a[0] - s[0, k], a[1] - s[0, k + 1], a[2] - s[0, k + 2]
        b3, b4, b5 = a[3] - s[0, k + 3], a[4] - s[0, k + 4], a[5] - s[0, k + 5]
        if q < 6:
            k = CENT + 3 * q
            b3, b4, b5 = b3 + s[0, k], b4 + s[0, k + 1], b5 + s[0, k + 2]
        _store_6((b0, b1, b2, b3, b4, b5), s, ZZ + 8 * q)
        w = o + WW
        for h in range(2):
            # W is symmetric: its rows are its columns
            f = add(add(scale(b0, load4(s, 0, w)), scale(b1, load4(s, 0, w + 8))), scale(b2, load4(s, 0, w + 16)))
            f = add(
                add(add(f, scale(b3, load4(s, 0, w + 24))), scale(b4, load4(s, 0, w + 32))),
                scale(b5, load4(s, 0, w + 40)),
            )
            store4(s, 0, GAM + 8 * q + 4 * h, f)
            w += 4
        for a in range(d):
            u = o + UU + 8 * a
            s[0, RC + 8 * q + a] = -(
                s[0, u] * b0 + s[0, u + 1] * b1 + s[0, u + 2] * b2
                + s[0, u + 3] * b3 + s[0, u + 4] * b4 + s[0, u + 5] * b5
            )  # fmt: skip
    for a in range(d):
        for k in range(d):
            s[0, RC + 48 + a] += s[0, o + DD + 6 * a + k] * s[0, o + FORCE + k]
        for k in range(6):
            s[0, GAM + 48 + k] += s[0, o + UU + 8 * a + k] * s[0, o + FORCE + a]


@inner
def _start_columns(table, c, s, node, shift, lower):
    """Set the columns of `node` at `shift` (KT or PT) to those of the handles it keeps; B's are at s[0, lower:]."""
    nb = len(table) // 2
    first, keep = table[node, FIRST_SIDE], table[node, KEEP]
    d = offset_of(node, nb) + shift
    o, row = (columns_offset(first, nb), row_length(first, nb)) if shift == KT else (offset_of(first, nb) + PT, 12)
    # leaves have no P
    here = shift == KT or first >= nb
    below_here = shift == KT or table[node, SECOND_SIDE] >= nb
    for q in range(7):
        for k in range(6):
            c[0, d + 12 * q + k] = c[0, o + row * q + k] if here else 0.0
        if keep == KEEP_A:
            for k in range(6):
                c[0, d + 12 * q + 6 + k] = c[0, o + row * q + 6 + k] if here else 0.0
        elif keep == KEEP_JOINT or keep == KEEP_B:
            at = lower + 12 * q + (6 if keep == KEEP_B else 0)
            for k in range(6):
                c[0, d + 12 * q + 6 + k] = s[0, at + k] if below_here else 0.0


@inner
def _subtract_rows(s, o, factor, p, blocks, c, d):
    """Subtract factor x g from seven rows of c at d, 12 apart: x (7 x 8) at s[0, o:], g of six rows at p."""
    for b in range(blocks):
        k = p + 4 * b
        g0, g1, g2 = load4(s, 0, k), load4(s, 0, k + 12), load4(s, 0, k + 24)
        g3, g4, g5 = load4(s, 0, k + 36), load4(s, 0, k + 48), load4(s, 0, k + 60)
        for q in range(7):
            j = o + 8 * q
            f = add(add(scale(s[0, j], g0), scale(s[0, j + 1], g1)), scale(s[0, j + 2], g2))
            f = add(add(add(f, scale(s[0, j + 3], g3)), scale(s[0, j + 4], g4)), scale(s[0, j + 5], g5))
            k = d + 12 * q + 4 * b
            store4(c, 0, k, sub(load4(c, 0, k), scale(factor, f)))


@inner
def _weight_columns(table, c, own, s, node, o, blocks, some):
    """Complete P and begin E of `node` for the joint metric; its P is begun and pi filled."""
    nb = len(table) // 2
    d, v = table[node, DOFS], table[node, V]
    for q in range(7):
        for k in range(d):
            total = 0.0
            for p in range(d):
                total += own[v + k, WEIGHT + p] * s[0, RC + 8 * q + p]
            s[0, AR + 8 * q + k] = total
        for k in range(6):
            total = 0.0
            if some:
                for p in range(6):
                    total += s[0, PSI0 + 8 * k + p] * s[0, GAM + 8 * q + p]
            s[0, PG + 8 * q + k] = total
        # Equation (8): Z = 2 U^T A R + W (pi - 2 Psi0 gamma)
        for k in range(6):
            total = 0.0
            for p in range(6):
                total += s[0, o + WW + 8 * k + p] * (s[0, PI + 8 * q + p] - 2.0 * s[0, PG + 8 * q + p])
            for p in range(d):
                total += 2.0 * s[0, o + UU + 8 * p + k] * s[0, AR + 8 * q + p]
            s[0, ZZ + 8 * q + k] = total
    # Equation (8): P of C = (P_A, P_B) - G Z - 2 T gamma
    _subtract_rows(s, ZZ, 1.0, o + GT, blocks, c, offset_of(node, nb) + PT)
    if some:
        _subtract_rows(s, GAM, 2.0, TT, blocks, c, offset_of(node, nb) + PT)
    # Equation (8): E of C = E_A + E_B + R^T A R + gamma^T (Psi0 gamma - pi), made symmetric
    at = offset_of(node, nb) + EC
    for i in range(7):
        for k in range(i + 1):
            total = 0.0
            for a in range(d):
                total += s[0, RC + 8 * i + a] * s[0, AR + 8 * k + a]
            if some:
                for a in range(6):
                    total += s[0, GAM + 8 * i + a] * s[0, PG + 8 * k + a]
                    total -= 0.5 * (
                        s[0, GAM + 8 * i + a] * s[0, PI + 8 * k + a] + s[0, GAM + 8 * k + a] * s[0, PI + 8 * i + a]
                    )
            c[0, at + lower_index(i, k)] = total


@inner
def _mass_columns(table, c, s, node, o, blocks):
    """Complete P and begin E of `node` for the mass metric, as `merge_mass_metric_vectors`, after V_r and G_r^T."""
    nb, d = len(table) // 2, table[node, DOFS]
    for q in range(7):
        for k in range(6):  # beta_r, in place of pi
            s[0, PI + 8 * q + k] = s[0, ZZ + 8 * q + k] - 0.5 * s[0, PI + 8 * q + k]
        for k in range(6):
            total = 0.0
            for p in range(6):
                total += s[0, UG + 8 * k + p] * s[0, PI + 8 * q + p]
            s[0, PG + 8 * q + k] = total
    _subtract_rows(s, GAM, 2.0, o + GT, blocks, c, offset_of(node, nb) + PT)
    _subtract_rows(s, PG, -2.0, HT, blocks, c, offset_of(node, nb) + PT)
    at = offset_of(node, nb) + EC
    for i in range(7):
        for k in range(i + 1):
            total = 0.0
            for a in range(6):
                total += s[0, PI + 8 * i + a] * s[0, PG + 8 * k + a]
                total -= 0.5 * (
                    s[0, ZZ + 8 * i + a] * s[0, GAM + 8 * k + a] + s[0, ZZ + 8 * k + a] * s[0, GAM + 8 * i + a]
                )
            if i == 6:
                for a in range(d):
                    total += (1.0 if k == 6 else 0.5) * s[0, o + FORCE + a] * s[0, RC + 8 * k + a]
            c[0, at + lower_index(i, k)] = total


@inner
def _add_side_eta(table, c, s, node):
    """Add E of the sides to that of `node`."""
    nb = len(table) // 2
    first, second = table[node, FIRST_SIDE], table[node, SECOND_SIDE]
    at = offset_of(node, nb) + EC
    if first >= nb:
        for i in range(7):
            for k in range(i + 1):
                c[0, at + lower_index(i, k)] += c[0, offset_of(first, nb) + EC + lower_index(i, k)]
    if second >= nb:
        o = offset_of(second, nb) + EC
        for k in range(7):  # E R6, in place of pi
            for q in range(6):
                total = 0.0
                for a in range(6):
                    total += c[0, o + lower_index(max(k, a), min(k, a))] * s[0, R6 + 6 * a + q]
                s[0, PI + 8 * k + q] = total
            s[0, PI + 8 * k + 6] = c[0, o + lower_index(6, k)]
        for i in range(7):
            for k in range(i + 1):
                total = s[0, PI + 48 + k]
                if i < 6:
                    total = 0.0
                    for a in range(6):
                        total += s[0, R6 + 6 * a + i] * s[0, PI + 8 * a + k]
                c[0, at + lower_index(i, k)] += total


@outlined
def _columns(table, c, own, s, node, slot, some, mass):
    """Fill the columns K, P, E of `node`, not a root, from its factored joint and its sides, which are rigid."""
    o, nb = factor_offset(slot), len(table) // 2
    first, second = table[node, FIRST_SIDE], table[node, SECOND_SIDE]
    j = offset_of(node, nb) + JX
    blocks = 2 if table[node, HANDLES] == 1 else 3
    r, _, _, _ = child_pose(table, c, node)
    _rotate_monomials(r, s, R6)
    a, _, _, _ = handle_pose(table, c, first, table[node, SLOT])
    x, y1, z = rotate(a, c[0, j + 9], c[0, j + 10], c[0, j + 11])
    for q in range(6):
        tx, ty, tz = _centripetal(x, y1, z, q)
        s[0, CENT + 3 * q], s[0, CENT + 3 * q + 1], s[0, CENT + 3 * q + 2] = rotate_back(r, tx, ty, tz)
    _rotate_columns(c, columns_offset(second, nb), row_length(second, nb), 2 if second < nb else 3, s, KB)
    if second >= nb:
        _rotate_columns(c, offset_of(second, nb) + PT, 12, 3, s, PB)
    _solve_columns(table, c, s, node, slot)
    # Equation (2): K of C = (K_A, K_B) - G gamma
    _start_columns(table, c, s, node, KT, KB)
    _subtract_rows(s, GAM, 1.0, o + GT, blocks, c, offset_of(node, nb) + KT)
    for q in range(7):  # pi
        for k in range(6):
            s[0, PI + 8 * q + k] = -s[0, PB + 12 * q + k] if second >= nb else 0.0
        if first >= nb:
            e = transform_motion(c, j, c, offset_of(first, nb) + PT + 12 * q + 6 * table[node, SLOT])
            k = PI + 8 * q
            s[0, k], s[0, k + 1], s[0, k + 2] = s[0, k] + e[0], s[0, k + 1] + e[1], s[0, k + 2] + e[2]
            s[0, k + 3], s[0, k + 4], s[0, k + 5] = s[0, k + 3] + e[3], s[0, k + 4] + e[4], s[0, k + 5] + e[5]
    _start_columns(table, c, s, node, PT, PB)
    if mass:
        _mass_columns(table, c, s, node, o, blocks)
    else:
        _weight_columns(table, c, own, s, node, o, blocks, some)
    _add_side_eta(table, c, s, node)


@inner
def rigid_coefficients(links, table, c, shares, own, s, node, q, still, work, mass):
    """Fill all coefficients of the rigid `node` from those of its sides, which are rigid.

    At a root only the joint's pose: its coefficients are computed at each update.

    Returns:
        whether the matrix of the joint is positive.
    """
    set_joint(links, table, c, s, node, q, still, work)
    positive = True
    if table[node, HANDLES] > 0:
        slot = np.int64(0)  # typed, as other numbers below: a literal would be another signature to compile
        merge_rigidly(table, c, shares, node)
        positive = factor_joint(table, c, own, s, node, slot)
        merge_inertias(table, c, s, node, slot)
        some = joint_metric_matrices(table, c, s, node, np.int64(TT), np.int64(PSI0))
        if mass:
            merge_mass_metric(table, c, s, node, slot, some)
        else:
            merge_metric(table, c, own, s, node, slot, some)
        _columns(table, c, own, s, node, slot, some, mass)
    return positive


@outlined
def evaluate_coefficients(table, c, node, x, y, z):
    """Set the current b, p and eta of a rigid node for the angular velocity (x, y, z) of its handle 0, in its axes."""
    nb = len(table) // 2
    m0, m1, m2, m3, m4, m5 = monomials(x, y, z)
    row, o = row_length(node, nb), columns_offset(node, nb)
    inside = node >= nb
    for b in range(3 if inside else 2):
        k = o + 4 * b
        f = add(add(scale(m0, load4(c, 0, k)), scale(m1, load4(c, 0, k + row))), scale(m2, load4(c, 0, k + 2 * row)))
        f = add(
            add(add(f, scale(m3, load4(c, 0, k + 3 * row))), scale(m4, load4(c, 0, k + 4 * row))),
            add(scale(m5, load4(c, 0, k + 5 * row)), load4(c, 0, k + 6 * row)),
        )
        if inside or b == 0:
            store4(c, 0, k + CURRENT * row, f)
        else:
            # a leaf's row ends after two of these
            c[0, k + CURRENT * row] = lane(f, 0)
            c[0, k + CURRENT * row + 1] = lane(f, 1)
    if inside:
        o = offset_of(node, nb) + PT
        for b in range(3):
            k = o + 4 * b
            f = add(add(scale(m0, load4(c, 0, k)), scale(m1, load4(c, 0, k + 12))), scale(m2, load4(c, 0, k + 24)))
            f = add(
                add(add(f, scale(m3, load4(c, 0, k + 36))), scale(m4, load4(c, 0, k + 48))),
                add(scale(m5, load4(c, 0, k + 60)), load4(c, 0, k + 72)),
            )
            store4(c, 0, k + 12 * CURRENT, f)
        e = offset_of(node, nb) + EC
        m = (m0, m1, m2, m3, m4, m5, 1.0)
        total = 0.0
        for i in range(7):
            row_sum = 0.0  # by rows: a single sum would be one long chain of dependent additions
            for k in range(i):
                row_sum += m[k] * c[0, e + lower_index(i, k)]
            total += m[i] * (2.0 * row_sum + m[i] * c[0, e + lower_index(i, i)])
        c[0, offset_of(node, nb) + ETA] = total
