"""Merges of the acceleration metrics of two subassemblies: weighted joint accelerations, eq. (8), or the mass metric.

| symbol | formula |
|---|---|
| T^T, Psi0, pi | as G^T, M, beta of `merges.py`, of Psi and p in place of Phi and b |
| Psi of C | diag(Psi_A, Psi_B) + (U G^T)^T A (U G^T) + H^T E - E^T T^T, H = Psi0 E - T^T |
| Z | 2 U^T A R + W (pi - 2 Psi0 gamma) |
| p of C | (p_A, p_B) - G Z - 2 T gamma |
| eta of C | eta_A + eta_B + R^T A R + gamma^T (Psi0 gamma - pi) |

The mass metric is the squared distance, in the norm of the inertias, of the bodies' accelerations from those of the
nearest rigid body; it is not in the paper. It has the same form f^T Psi f + f^T p + e, with Psi = Phi - Phi_r and
p = 2 (b - b_r), where r marks the subassembly as one rigid body. A weld merges those:

| symbol | formula |
|---|---|
| M_r, G_r, beta_r, V_r | M - Psi0, G - T, beta - pi / 2, M_r^-1 |
| Psi of C | diag(Psi_A, Psi_B) - G E + G_r V_r G_r^T |
| p of C | (p_A, p_B) - 2 G gamma + 2 G_r V_r beta_r |
| e of C | e_A + e_B - beta . gamma + Q . R + beta_r . V_r beta_r |

Other symbols are those of `merges.py`, offsets those of `assembly_tree.py`. Redon, Galoppo, Lin 2005, theorem 2.
"""

from __future__ import annotations

from limberjack._jit import outlined
from limberjack.reduced.assembly_tree import (
    AG,
    BETA,
    DOFS,
    ET,
    ETA,
    FIRST_SIDE,
    FORCE,
    GAMMA,
    GT,
    HANDLES,
    HT,
    JX,
    KEEP,
    KEEP_A,
    KEEP_B,
    KEEP_JOINT,
    MM,
    PSI,
    PSI0,
    PT,
    RR,
    SECOND_SIDE,
    SLOT,
    SMALL,
    SPARE,
    TRANSPOSED,
    TT,
    UG,
    UU,
    WEIGHT,
    WW,
    V,
    current_offset,
    eta_of,
    factor_offset,
    offset_of,
    transform_motion,
    transform_motion_rows,
)
from limberjack.reduced.merges import (
    copy_kept_values,
    inverse,
    joint_matrices,
    multiply_rows,
    set_block_diagonal,
    subtract_products,
    weighted_rows,
)
from limberjack.spatial.lanes import add, load4, scale, store4, sub

__all__ = [
    "joint_metric_matrices",
    "merge_mass_metric",
    "merge_mass_metric_vectors",
    "merge_metric",
    "merge_metric_vectors",
]


@outlined
def joint_metric_matrices(table, c, s, node, t, p):
    """Fill T^T at s[0, t:] and Psi0 at s[0, p:] of the joint of `node`; return whether they are other than zero."""
    nb = len(table) // 2
    first, second = table[node, FIRST_SIDE], table[node, SECOND_SIDE]
    if first < nb and second < nb:
        return False
    keep, j = table[node, KEEP], offset_of(node, nb) + JX
    lower = offset_of(second, nb) + PSI
    if first >= nb and second >= nb:
        joint_matrices(c, offset_of(first, nb) + PSI, 12, 12, False, lower, j, table[node, SLOT], keep, s, p, t)
    elif second >= nb:  # A is a leaf or the world: its Psi is zero
        for k in range(6):
            for q in range(6):
                s[0, p + 8 * k + q] = c[0, lower + 12 * k + q]
                s[0, t + 12 * k + q] = 0.0
                s[0, t + 12 * k + 6 + q] = (
                    -c[0, lower + 12 * k + (6 if keep == KEEP_B else 0) + q]
                    if keep == KEEP_JOINT or keep == KEEP_B
                    else 0.0
                )
    else:
        slot = table[node, SLOT]
        transform_motion_rows(c, j, c, offset_of(first, nb) + PSI + 72 * slot, 12, 3, s, t, 12)
        for k in range(6):
            for q in range(6):
                s[0, TRANSPOSED + 8 * q + k] = s[0, t + 12 * k + 6 * slot + q]
        transform_motion_rows(c, j, s, TRANSPOSED, 8, 2, s, p, 8)
        if keep != KEEP_A:
            for k in range(6):
                for q in range(6):
                    s[0, t + 12 * k + 6 + q] = 0.0
    return True


@outlined
def merge_metric(table, c, own, s, node, slot, some):
    """Fill Psi of `node`, not a root, after `merge_inertias` and `joint_metric_matrices`, which returned `some`."""
    o, count = factor_offset(slot), table[node, HANDLES]
    blocks = 2 if count == 1 else 3
    d, v, rows = table[node, DOFS], table[node, V], 6 * count
    psi = offset_of(node, len(table) // 2) + PSI
    set_block_diagonal(table, c, node, PSI)
    # Equation (8): Psi of C = diag(Psi_A, Psi_B) + (U G^T)^T A (U G^T) + H^T E - E^T T^T
    for a in range(d):
        weighted_rows(s, o + UU + 8 * a, o + GT, UG + 12 * a, blocks)
    for a in range(d):
        for b in range(blocks):
            t = scale(own[v + a, WEIGHT], load4(s, 0, UG + 4 * b))
            for k in range(1, d):
                t = add(t, scale(own[v + a, WEIGHT + k], load4(s, 0, UG + 12 * k + 4 * b)))
            store4(s, 0, AG + 12 * a + 4 * b, t)
    for p in range(rows):
        for a in range(d):
            f = s[0, AG + 12 * a + p]
            for b in range(blocks):
                k = psi + 12 * p + 4 * b
                store4(c, 0, k, add(load4(c, 0, k), scale(f, load4(s, 0, UG + 12 * a + 4 * b))))
    if some:
        multiply_rows(s, PSI0, ET, HT, blocks)
        for k in range(6):
            for b in range(blocks):
                # -H, since products are subtracted
                h = HT + 12 * k + 4 * b
                store4(s, 0, h, sub(load4(s, 0, TT + 12 * k + 4 * b), load4(s, 0, h)))
        subtract_products(s, HT, ET, rows, blocks, c, psi)
        subtract_products(s, ET, TT, rows, blocks, c, psi)


@outlined
def merge_metric_vectors(table, c, own, s, node, slot, some, tt, psi0):
    """Set the current p and eta of `node` after `joint_bias`; of a root, eta alone.

    Args:
        table, c, own, s, node, slot: the joint and its slot.
        some, tt, psi0: what `joint_metric_matrices` returned, and the offsets of its T^T and Psi0.
    """
    o, nb = factor_offset(slot), len(table) // 2
    first, second, d, v = table[node, FIRST_SIDE], table[node, SECOND_SIDE], table[node, DOFS], table[node, V]
    eta = eta_of(second, nb, c) + (eta_of(first, nb, c) if first >= 0 else 0.0)
    # Equation (8): eta of C = eta_A + eta_B + R^T A R + gamma^T (Psi0 gamma - pi); x = 2 A R, z = pi - 2 Psi0 gamma
    x, z = SPARE, SPARE + 8
    for a in range(d):
        total = 0.0
        for k in range(d):
            total += own[v + a, WEIGHT + k] * s[0, o + RR + k]
        s[0, x + a] = 2.0 * total
        eta += total * s[0, o + RR + a]
    for k in range(6):
        s[0, z + k] = 0.0
    if some:
        p0 = p1 = p2 = p3 = p4 = p5 = 0.0
        if second >= nb:
            k = current_offset(second, nb, PT)
            p0, p1, p2, p3, p4, p5 = -c[0, k], -c[0, k + 1], -c[0, k + 2], -c[0, k + 3], -c[0, k + 4], -c[0, k + 5]
        if first >= nb:
            a = transform_motion(c, offset_of(node, nb) + JX, c, current_offset(first, nb, PT) + 6 * table[node, SLOT])
            p0, p1, p2, p3, p4, p5 = p0 + a[0], p1 + a[1], p2 + a[2], p3 + a[3], p4 + a[4], p5 + a[5]
        s[0, z], s[0, z + 1], s[0, z + 2], s[0, z + 3], s[0, z + 4], s[0, z + 5] = p0, p1, p2, p3, p4, p5
        for k in range(6):
            total = 0.0
            for q in range(6):
                total += s[0, psi0 + 8 * k + q] * s[0, o + GAMMA + q]
            eta += s[0, o + GAMMA + k] * (total - s[0, z + k])
            s[0, z + k] -= 2.0 * total
    c[0, offset_of(node, nb) + ETA] = eta
    if table[node, HANDLES] == 0:
        return
    # Equation (8): Z = 2 U^T A R + W (pi - 2 Psi0 gamma)
    g = SPARE + 16
    for k in range(6):
        total = 0.0
        for q in range(6):
            total += s[0, o + WW + 8 * k + q] * s[0, z + q]
        for a in range(d):
            total += s[0, o + UU + 8 * a + k] * s[0, x + a]
        s[0, g + k] = total
    # Equation (8): p of C = (p_A, p_B) - G Z - 2 T gamma
    copy_kept_values(table, c, node, PT)
    at = current_offset(node, nb, PT)
    blocks = 2 if table[node, HANDLES] == 1 else 3
    weighted_rows(s, g, o + GT, SPARE + 24, blocks)
    for q in range(6 * table[node, HANDLES]):
        c[0, at + q] -= s[0, SPARE + 24 + q]
    if some:
        weighted_rows(s, o + GAMMA, tt, SPARE + 24, blocks)
        for q in range(6 * table[node, HANDLES]):
            c[0, at + q] -= 2.0 * s[0, SPARE + 24 + q]


@outlined
def merge_mass_metric(table, c, s, node, slot, some):
    """Fill V_r and G_r^T of the joint of `node` and, unless it is a root, its Psi, after `joint_metric_matrices`.

    V_r stays psi UG, G_r^T psi HT.
    """
    o, count = factor_offset(slot), table[node, HANDLES]
    for k in range(6):
        for q in range(6):
            s[0, SMALL + 6 * k + q] = s[0, MM + 8 * k + q] - (s[0, PSI0 + 8 * k + q] if some else 0.0)
    inverse(6, s, SMALL, SMALL + 36)
    for k in range(6):
        for q in range(6):
            s[0, UG + 8 * k + q] = s[0, SMALL + 36 + 6 * k + q]
    if count == 0:
        return
    blocks = 2 if count == 1 else 3
    for k in range(6):
        for q in range(12):
            s[0, HT + 12 * k + q] = s[0, o + GT + 12 * k + q] - (s[0, TT + 12 * k + q] if some else 0.0)
    multiply_rows(s, UG, HT, AG, blocks)
    for k in range(6):
        for b in range(blocks):
            h = AG + 12 * k + 4 * b
            store4(s, 0, h, scale(-1.0, load4(s, 0, h)))
    psi = offset_of(node, len(table) // 2) + PSI
    multiply_rows(s, o + WW, o + GT, ET, blocks)
    set_block_diagonal(table, c, node, PSI)
    subtract_products(s, o + GT, ET, 6 * count, blocks, c, psi)
    subtract_products(s, HT, AG, 6 * count, blocks, c, psi)


@outlined
def merge_mass_metric_vectors(table, c, s, node, slot, some):
    """Set the current p and e of `node` for the mass metric, after `joint_bias` and `merge_mass_metric`."""
    o, nb = factor_offset(slot), len(table) // 2
    first, second = table[node, FIRST_SIDE], table[node, SECOND_SIDE]
    eta = eta_of(second, nb, c) + (eta_of(first, nb, c) if first >= 0 else 0.0)
    beta_r, g = SPARE, SPARE + 8
    for k in range(6):
        s[0, beta_r + k] = s[0, o + BETA + k]
        eta -= s[0, o + BETA + k] * s[0, o + GAMMA + k]
    for a in range(table[node, DOFS]):
        eta += s[0, o + FORCE + a] * s[0, o + RR + a]
    if some:
        if second >= nb:
            k = current_offset(second, nb, PT)
            for q in range(6):
                s[0, beta_r + q] += 0.5 * c[0, k + q]
        if first >= nb:
            a = transform_motion(c, offset_of(node, nb) + JX, c, current_offset(first, nb, PT) + 6 * table[node, SLOT])
            s[0, beta_r] -= 0.5 * a[0]
            s[0, beta_r + 1] -= 0.5 * a[1]
            s[0, beta_r + 2] -= 0.5 * a[2]
            s[0, beta_r + 3] -= 0.5 * a[3]
            s[0, beta_r + 4] -= 0.5 * a[4]
            s[0, beta_r + 5] -= 0.5 * a[5]
    for k in range(6):
        total = 0.0
        for q in range(6):
            total += s[0, UG + 8 * k + q] * s[0, beta_r + q]
        s[0, g + k] = total
        eta += total * s[0, beta_r + k]
    c[0, offset_of(node, nb) + ETA] = eta
    if table[node, HANDLES] == 0:
        return
    copy_kept_values(table, c, node, PT)
    at = current_offset(node, nb, PT)
    for q in range(6 * table[node, HANDLES]):
        total = 0.0
        for k in range(6):
            total += s[0, o + GT + 12 * k + q] * s[0, o + GAMMA + k] - s[0, HT + 12 * k + q] * s[0, g + k]
        c[0, at + q] -= 2.0 * total
