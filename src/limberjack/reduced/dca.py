"""Forward dynamics by divide and conquer (Featherstone 1999; Redon, Galoppo, Lin 2005, section 3).

`divide_and_conquer` merges the subassemblies of an assembly tree. Main pass, from the leaves to the roots: Phi and b of
every node. Back-substitution, from the roots: the forces on the handles of every node and the accelerations of all
joints. Both passes can go level by level, since nodes of one level are independent.

`sweep` solves a tree of subassemblies with one or two handles each, connected by joints, without an assembly tree over
them. From the leaves, a joint and all that it carries is merged into the subassembly it is attached to: eq. (2) with B
of one handle, and of A only the handles on which forces will still act; in chains handle 0 alone. That is the
articulated-body algorithm with inverse inertias, and 6 columns do where a merge of two subassemblies with two handles
needs 12. Back again, eqs. (4) and (5):

    lambda = E f + gamma        qdd = R - (U G^T) f        f the forces on the handles kept

Accelerations b are differences from those that all bodies have with qdd = 0 (`kinematics`), gravity included: beta then
needs no velocity-product terms, whatever the joint. The bias of a link is -Phi P, P the bias force of `kinematics`.
Symbols are those of `merges.py`, offsets those of `assembly_tree.py`.
"""

from __future__ import annotations

import numpy as np

from limberjack._jit import inner, outlined
from limberjack.errors import Status
from limberjack.model.joints import HINGE, SLIDE
from limberjack.reduced.assembly_tree import (
    CURRENT,
    DD,
    DOFS,
    FIRST_SIDE,
    FRAMES,
    HANDLES,
    JX,
    KIND,
    KT,
    LEAF,
    LEAF_IN,
    LEAF_KT,
    MM,
    NON_NEGATIVE,
    OWN,
    ROOM,
    SECOND_SIDE,
    SPARE,
    TAU,
    TT,
    UP,
    UU,
    WW,
    V,
    columns_offset,
    factor_offset,
    offset_of,
    row_length,
    transform_force,
    transform_motion,
    transform_motion_rows,
)
from limberjack.reduced.joint_poses import set_joint
from limberjack.reduced.merges import (
    back_substitute,
    factor_joint,
    joint_bias,
    merge_accelerations,
    merge_inertias,
    multiply_rows,
    solve_axis,
    solve_frame,
    weighted_rows,
)
from limberjack.reduced.work import P, rotation
from limberjack.spatial.lanes import add, load4, scale, store4, sub
from limberjack.spatial.solves import solve_symmetric_3
from limberjack.spatial.vectors import cross, rotate_back

__all__ = [
    "ABOVE",
    "BASE",
    "HANDLE",
    "JOINT",
    "LEFT",
    "PART",
    "SOURCE",
    "SWEEP",
    "WIDE",
    "divide_and_conquer",
    "rigid_inverse",
    "set_leaves",
    "sweep",
]

# Columns of the joints of a sweep, each after the one above it: node of the joint; subassembly (part) below it; node
# whose storage holds the coefficients of all that the joint carries; the joint above the part it is attached to (-1 =
# world); which handle of that part; node whose storage holds the coefficients of that part so far; whether both its
# handles are kept; joints left at handle 1 of its own part, used while the table is filled.
JOINT, PART, SOURCE, ABOVE, HANDLE, BASE, WIDE, LEFT, SWEEP = range(9)
# What a joint keeps for the way back, in the slots of factored joints: E (6 x 12), U G^T (6 x 12), gamma, R.
_E, _UG, _GAMMA, _RR = 0, 72, 144, 150


@inner
def com_inertia(g):
    """Return the com (3) and the inertia about it (6) of the ten numbers g of an inertia."""
    f = 1.0 / g[9]
    x, y, z = f * g[6], f * g[7], f * g[8]
    return (
        x, y, z,
        g[0] - g[9] * (y * y + z * z), g[1] - g[9] * (x * x + z * z), g[2] - g[9] * (x * x + y * y),
        g[3] + g[9] * x * y, g[4] + g[9] * x * z, g[5] + g[9] * y * z,
    )  # fmt: skip


@inner
def rigid_inverse(g, row, c, o):
    """Fill Phi (6 x 6, row length `row`, at c[0, o:]) of a rigid body with inertia g; return whether g is positive."""
    # Equation (3): Phi = I^-1; with the com x and J about it, alpha = J^-1 (n - x x f), a = f / m + x x alpha
    e = com_inertia(g)
    x, y, z = e[0], e[1], e[2]
    j = (e[3], e[4], e[5], e[6], e[7], e[8])
    positive = g[9] > 0.0
    for k in range(6):
        nx = ny = nz = fx = fy = fz = 0.0
        if k == 0:
            nx = 1.0
        elif k == 1:
            ny = 1.0
        elif k == 2:
            nz = 1.0
        elif k == 3:
            fx = 1.0
        elif k == 4:
            fy = 1.0
        else:
            fz = 1.0
        tx, ty, tz = cross(x, y, z, fx, fy, fz)
        ok, ax, ay, az = solve_symmetric_3(j, nx - tx, ny - ty, nz - tz)
        positive = positive and ok
        tx, ty, tz = cross(x, y, z, ax, ay, az)
        f = 1.0 / g[9]
        c[0, o + k], c[0, o + row + k], c[0, o + 2 * row + k] = ax, ay, az
        c[0, o + 3 * row + k] = f * fx + tx
        c[0, o + 4 * row + k] = f * fy + ty
        c[0, o + 5 * row + k] = f * fz + tz
    return positive


@outlined
def set_leaves(links, tree, c):
    """Fill Phi and the inertia of all leaves; return 0 or Status.NO_LINK_INERTIA + link.

    Each piece of a hub has its share of the inverse; the inertia used for clusters is stored with the first piece.
    """
    g = links.inertia
    n = len(links.parent)
    bad = 0
    for b in range(len(tree.body_link)):
        i, f = tree.body_link[b], tree.share[b]
        e = (
            f * g[i, 0], f * g[i, 1], f * g[i, 2], f * g[i, 3], f * g[i, 4], f * g[i, 5],
            f * g[i, 6], f * g[i, 7], f * g[i, 8], f * g[i, 9],
        )  # fmt: skip
        if not rigid_inverse(e, 6, c, b * LEAF) and bad == 0:
            bad = Status.NO_LINK_INERTIA + i
        for k in range(10):
            c[0, b * LEAF + LEAF_IN + k] = g[i, k] if b < n else 0.0
    return bad


@inner
def _leaf_bias(tree, c, b, rows):
    """Set the current b of the leaf of body b from the bias force of its link."""
    i, f, o = tree.body_link[b], tree.share[b], b * LEAF
    r = rotation(i, rows)
    n0, n1, n2 = rotate_back(r, -f * rows[i, P], -f * rows[i, P + 1], -f * rows[i, P + 2])
    f0, f1, f2 = rotate_back(r, -f * rows[i, P + 4], -f * rows[i, P + 5], -f * rows[i, P + 6])
    # Equation (3): b = Phi (f - v x* I v) = -Phi R^T P
    for k in range(6):
        p = o + 6 * k
        c[0, o + LEAF_KT + 6 * CURRENT + k] = (
            c[0, p] * n0 + c[0, p + 1] * n1 + c[0, p + 2] * n2 + c[0, p + 3] * f0 + c[0, p + 4] * f1 + c[0, p + 5] * f2
        )


@inner
def divide_and_conquer(links, tree, co, order, q, still, work, forces, qdd):
    """Fill qdd for rows left by `kinematics`, external forces subtracted from their P, and joint forces in co.own.

    Args:
        co: coefficients, with a slot per inner node.
        order: (nb,) inner nodes, children before parents: as they are numbered, or level by level.
        still: (nv,) zeros.
        forces: (1, 12 m) forces on the handles of all nodes.

    Returns:
        0 or 1 + the first dof of a joint whose matrix is not positive.
    """
    table, c, own, s = co.table, co.numbers, co.own, co.scratch
    nb = len(table) // 2
    for b in range(nb):
        _leaf_bias(tree, c, b, work.rows)
    for k in range(nb):
        node = order[k]
        set_joint(links, table, c, s, node, q, still, work)
        slot = node - nb
        if not factor_joint(table, c, own, s, node, slot):
            return Status.NO_INERTIA + table[node, V]
        joint_bias(table, c, s, node, slot, 0.0, 0.0, 0.0)
        if table[node, HANDLES] > 0:
            merge_inertias(table, c, s, node, slot)
            merge_accelerations(table, c, s, node, slot)
    for k in range(nb - 1, -1, -1):
        node = order[k]
        if table[node, UP] < 0:
            for p in range(12):
                forces[0, 12 * node + p] = 0.0
        first, second = table[node, FIRST_SIDE], table[node, SECOND_SIDE]
        back_substitute(table, c, s, node, node - nb, forces, 12 * node, 12 * first, 12 * second, qdd)
    return 0


@inner
def _set_matrix(c, p, low, row, s, y):
    """Fill the half of M that `solve_axis` reads: X Y^T + Phi_00 for six rows Y = X Phi_aa at s[0, y:], 12 apart."""
    r0, r1, r2 = transform_motion(c, p, s, y), transform_motion(c, p, s, y + 12), transform_motion(c, p, s, y + 24)
    r3, r4, r5 = transform_motion(c, p, s, y + 36), transform_motion(c, p, s, y + 48), transform_motion(c, p, s, y + 60)
    m, k = MM, low
    s[0, m] = r0[0] + c[0, k]
    m, k = MM + 8, low + row
    s[0, m], s[0, m + 1] = r1[0] + c[0, k], r1[1] + c[0, k + 1]
    m, k = MM + 16, low + 2 * row
    s[0, m], s[0, m + 1], s[0, m + 2] = r2[0] + c[0, k], r2[1] + c[0, k + 1], r2[2] + c[0, k + 2]
    m, k = MM + 24, low + 3 * row
    x = r3[2] + c[0, k + 2]
    s[0, m], s[0, m + 1], s[0, m + 2], s[0, m + 3] = r3[0] + c[0, k], r3[1] + c[0, k + 1], x, r3[3] + c[0, k + 3]
    s[0, MM + 19] = x
    m, k = MM + 32, low + 4 * row
    x = r4[2] + c[0, k + 2]
    s[0, m], s[0, m + 1], s[0, m + 2], s[0, m + 3] = r4[0] + c[0, k], r4[1] + c[0, k + 1], x, r4[3] + c[0, k + 3]
    s[0, m + 4] = r4[4] + c[0, k + 4]
    s[0, MM + 20] = x
    m, k = MM + 40, low + 5 * row
    x = r5[2] + c[0, k + 2]
    s[0, m], s[0, m + 1], s[0, m + 2], s[0, m + 3] = r5[0] + c[0, k], r5[1] + c[0, k + 1], x, r5[3] + c[0, k + 3]
    s[0, m + 4], s[0, m + 5] = r5[4] + c[0, k + 4], r5[5] + c[0, k + 5]
    s[0, MM + 21] = x


@inner
def _factor(table, c, own, s, joints, j, handle, blocks):
    """Fill G^T (at TT) and W, U, D (in the slot at ROOM) of joint j."""
    nb = len(table) // 2
    node, source, base = joints[j, JOINT], joints[j, SOURCE], joints[j, BASE]
    low, row, p = offset_of(source, nb), row_length(source, nb), offset_of(node, nb) + JX
    if joints[j, ABOVE] >= 0:
        step = row_length(base, nb)
        wide = 3 if handle > 0 else blocks
        transform_motion_rows(c, p, c, offset_of(base, nb) + 6 * handle * step, step, wide, s, TT, 12)
        _set_matrix(c, p, low, row, s, TT + 6 * handle)
    else:
        for k in range(6):
            for q in range(6):
                s[0, MM + 8 * k + q] = c[0, low + row * k + q]
    kind, v = table[node, KIND], table[node, V] & NON_NEGATIVE
    if kind == HINGE:
        solve_axis(2, 3, 4, 5, own[v, OWN], s, ROOM)
    elif kind == SLIDE:
        solve_axis(5, 2, 3, 4, own[v, OWN], s, ROOM)
    else:
        for k in range(6):
            for q in range(k):
                s[0, MM + 8 * q + k] = s[0, MM + 8 * k + q]
        solve_frame(c, table[node, FRAMES], table[node, DOFS], own, v, s, np.int64(ROOM))  # typed: compiled once


@inner
def _bias(table, c, own, s, joints, j, o, handle):
    """Fill gamma and R of joint j in its slot at o."""
    nb = len(table) // 2
    node, source, base = joints[j, JOINT], joints[j, SOURCE], joints[j, BASE]
    # Equation (2): beta = X b_a - b_0, gamma = W beta + U^T Q; (8): R = D Q - U beta
    k = columns_offset(source, nb) + CURRENT * row_length(source, nb)
    b0, b1, b2, b3, b4, b5 = -c[0, k], -c[0, k + 1], -c[0, k + 2], -c[0, k + 3], -c[0, k + 4], -c[0, k + 5]
    if joints[j, ABOVE] >= 0:
        x = transform_motion(
            c, offset_of(node, nb) + JX, c, columns_offset(base, nb) + CURRENT * row_length(base, nb) + 6 * handle
        )
        b0, b1, b2, b3, b4, b5 = b0 + x[0], b1 + x[1], b2 + x[2], b3 + x[3], b4 + x[4], b5 + x[5]
    for k in range(6):
        w = ROOM + WW + 8 * k
        s[0, o + _GAMMA + k] = (
            s[0, w] * b0 + s[0, w + 1] * b1 + s[0, w + 2] * b2 + s[0, w + 3] * b3 + s[0, w + 4] * b4 + s[0, w + 5] * b5
        )
    v, d = table[node, V] & NON_NEGATIVE, table[node, DOFS]
    for a in range(d):
        u, q = ROOM + UU + 8 * a, own[v + a, TAU]
        total = -(
            s[0, u] * b0 + s[0, u + 1] * b1 + s[0, u + 2] * b2 + s[0, u + 3] * b3 + s[0, u + 4] * b4 + s[0, u + 5] * b5
        )
        for k in range(d):
            total += s[0, ROOM + DD + 6 * a + k] * own[v + k, TAU]
        s[0, o + _RR + a] = total
        for k in range(6):
            s[0, o + _GAMMA + k] += s[0, u + k] * q


@inner
def _merge(table, c, s, joints, j, o, rows, blocks):
    """Fill E and U G^T of joint j in its slot at o, and Phi and b of the part it is attached to, all below merged."""
    nb = len(table) // 2
    base, into = joints[j, BASE], offset_of(joints[joints[j, ABOVE], JOINT], nb)
    at, step = offset_of(base, nb), row_length(base, nb)
    # Equation (2): Phi of C = Phi_A - G E, E = W G^T
    multiply_rows(s, ROOM + WW, TT, o + _E, blocks)
    for a in range(table[joints[j, JOINT], DOFS]):
        weighted_rows(s, ROOM + UU + 8 * a, TT, o + _UG + 12 * a, blocks)
    for b in range(blocks):
        k = o + _E + 4 * b
        e0, e1, e2 = load4(s, 0, k), load4(s, 0, k + 12), load4(s, 0, k + 24)
        e3, e4, e5 = load4(s, 0, k + 36), load4(s, 0, k + 48), load4(s, 0, k + 60)
        for i in range(rows):
            k = TT + i
            t = add(add(scale(s[0, k], e0), scale(s[0, k + 12], e1)), scale(s[0, k + 24], e2))
            t = add(add(add(t, scale(s[0, k + 36], e3)), scale(s[0, k + 48], e4)), scale(s[0, k + 60], e5))
            store4(c, 0, into + 12 * i + 4 * b, sub(load4(c, 0, at + step * i + 4 * b), t))
    # Equation (2): b of C = b_A - G gamma
    weighted_rows(s, o + _GAMMA, TT, SPARE, blocks)
    at, into = columns_offset(base, nb) + CURRENT * step, into + KT + 12 * CURRENT
    for q in range(rows):
        c[0, into + q] = c[0, at + q] - s[0, SPARE + q]


@inner
def _resolve(table, c, s, joints, j, o, f, qdd):
    """Fill qdd of joint j and the forces it passes on to the parts below and above it."""
    above, node = joints[j, ABOVE], joints[j, JOINT]
    v, d, k = table[node, V] & NON_NEGATIVE, table[node, DOFS], o + _GAMMA
    # Equations (4), (5): qdd = R - (U G^T) f, lambda = E f + gamma
    n0, n1, n2, f0, f1, f2 = s[0, k], s[0, k + 1], s[0, k + 2], s[0, k + 3], s[0, k + 4], s[0, k + 5]
    for a in range(d):
        qdd[v + a] = s[0, o + _RR + a]
    if above >= 0:
        at = 12 * joints[above, PART] & NON_NEGATIVE
        for q in range(12 if joints[j, WIDE] > 0 else 6):
            x, k = f[0, at + q], o + _E + q
            n0, n1, n2 = n0 + s[0, k] * x, n1 + s[0, k + 12] * x, n2 + s[0, k + 24] * x
            f0, f1, f2 = f0 + s[0, k + 36] * x, f1 + s[0, k + 48] * x, f2 + s[0, k + 60] * x
            for a in range(d):
                qdd[v + a] -= s[0, o + _UG + 12 * a + q] * x
        x0, x1, x2, y0, y1, y2 = transform_force(c, offset_of(node, len(table) // 2) + JX, n0, n1, n2, f0, f1, f2)
        k = at + 6 * (joints[j, HANDLE] & 1)
        f[0, k], f[0, k + 1], f[0, k + 2] = f[0, k] - x0, f[0, k + 1] - x1, f[0, k + 2] - x2
        f[0, k + 3], f[0, k + 4], f[0, k + 5] = f[0, k + 3] - y0, f[0, k + 4] - y1, f[0, k + 5] - y2
    k = 12 * joints[j, PART] & NON_NEGATIVE
    f[0, k], f[0, k + 1], f[0, k + 2], f[0, k + 3], f[0, k + 4], f[0, k + 5] = n0, n1, n2, f0, f1, f2
    for q in range(6, 12):
        f[0, k + q] = 0.0


@outlined
def sweep(table, c, own, s, joints, begin, end, slot, f, qdd):
    """Fill qdd of joints and the forces f on the handles of the parts below them, from the current b of those parts.

    Args:
        table, c, own, s: see `Coefficients`; the storage of the joints' own nodes is used for what is merged.
        joints: (.., SWEEP) see above.
        begin, end: the rows of whole trees.
        slot: the first of as many slots of factored joints.
        f: (1, all) forces on handles, 12 per node; only those on the parts are written.
        qdd: (nv,) those of these joints are written.
    """
    for j in range(end - 1, begin - 1, -1):
        handle, wide = joints[j, HANDLE] & 1, joints[j, WIDE] > 0
        o = factor_offset(slot + j - begin)
        rows, blocks = (12, 3) if wide else (6, 2)
        _factor(table, c, own, s, joints, j, handle, blocks)
        _bias(table, c, own, s, joints, j, o, handle)
        if joints[j, ABOVE] >= 0:
            _merge(table, c, s, joints, j, o, rows, blocks)
    for j in range(begin, end):
        _resolve(table, c, s, joints, j, factor_offset(slot + j - begin), f, qdd)
