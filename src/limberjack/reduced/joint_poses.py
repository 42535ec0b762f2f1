"""Poses of links in their parents, motion subspaces of joints, and rigid merges, from joint coordinates alone.

Nothing here depends on world poses: the same coordinates give the same bits.
"""

from __future__ import annotations

import math

from limberjack._jit import inner, outlined
from limberjack.model.joints import BALL, FREE, HINGE, SLIDE
from limberjack.reduced.assembly_tree import (
    CHILD,
    DOFS,
    FIRST_SIDE,
    FRAME_LOCKED,
    FRAME_PLUS,
    FRAME_S,
    FRAMES,
    HX,
    IN,
    JX,
    KEEP,
    KEEP_A,
    KEEP_B,
    KEEP_JOINT,
    KIND,
    LEAF,
    LEAF_IN,
    SECOND_SIDE,
    SLOT,
    SMALL,
    V,
    offset_of,
    pose,
)
from limberjack.reduced.kinematics import walk_factors
from limberjack.reduced.merges import inverse
from limberjack.spatial.quaternions import rotation_from_quaternion
from limberjack.spatial.trig import sincos
from limberjack.spatial.vectors import multiply, rotate, rotate_back, rotate_symmetric

__all__ = [
    "child_pose",
    "composed",
    "handle_pose",
    "inertia_of",
    "inertia_row",
    "joint_pose",
    "merge_rigidly",
    "moved_inertia",
    "set_joint",
]


@inner
def _placement(links, i):
    """Return the nine numbers of the rotation of the joint frame of link i in the parent link."""
    t = links.placement
    return t[i, 0], t[i, 1], t[i, 2], t[i, 3], t[i, 4], t[i, 5], t[i, 6], t[i, 7], t[i, 8]


@outlined
def _other_pose(links, i, q, still, work):
    """Return the pose of link i, on neither hinge nor slide, in its parent; fill its S there if it is general."""
    t, kind, k = links.placement, links.kind[i], links.q_start[i]
    r = _placement(links, i)
    x, y, z = t[i, 9], t[i, 10], t[i, 11]
    if kind == BALL or kind == FREE:
        if kind == FREE:
            x, y, z = q[k], q[k + 1], q[k + 2]
            k += 3
        return multiply(r, rotation_from_quaternion(q[k], q[k + 1], q[k + 2], q[k + 3])), x, y, z
    for f in range(links.factor_start[i], links.factor_start[i + 1]):
        at = links.factor_indices[f, 0]
        work.sines[at], work.cosines[at] = sincos(q[at])
    out = walk_factors(
        links.factor_kind, links.factor_indices, links.factor_data, links.factor_start[i], links.factor_start[i + 1],
        q, still, work.sines, work.cosines, r, x, y, z, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, work.subspace,
    )  # fmt: skip
    return out[0], out[1], out[2], out[3]


@inner
def _hinge_pose(t, i, x):
    """Return the pose of link i, placed by row i of t and turned by x about its z."""
    s, c = sincos(x)
    r = (
        c * t[i, 0] + s * t[i, 1], c * t[i, 1] - s * t[i, 0], t[i, 2],
        c * t[i, 3] + s * t[i, 4], c * t[i, 4] - s * t[i, 3], t[i, 5],
        c * t[i, 6] + s * t[i, 7], c * t[i, 7] - s * t[i, 6], t[i, 8],
    )  # fmt: skip
    return r, t[i, 9], t[i, 10], t[i, 11]


@inner
def joint_pose(links, i, q, still, work):
    """Return rotation (9) and position (3) of link i in its parent link.

    Args:
        still: (nv,) zeros.
        work: its sines, cosines and subspace are used for general joints.
    """
    t, kind = links.placement, links.kind[i]
    if kind == HINGE:
        return _hinge_pose(t, i, q[links.q_start[i]])
    if kind == SLIDE:
        x = q[links.q_start[i]]
        return _placement(links, i), t[i, 9] + x * t[i, 2], t[i, 10] + x * t[i, 5], t[i, 11] + x * t[i, 8]
    return _other_pose(links, i, q, still, work)


@outlined
def _set_frame(c, o, r, d, v, subspace, s):
    """Fill the frame at c[0, o:] from S in the parent's axes: S, S^+ and the locked directions, in link axes."""
    a, b = SMALL, SMALL + 36
    for k in range(d):
        at = o + FRAME_S + 6 * k
        c[0, at], c[0, at + 1], c[0, at + 2] = rotate_back(
            r, subspace[v + k, 0], subspace[v + k, 1], subspace[v + k, 2]
        )
        c[0, at + 3], c[0, at + 4], c[0, at + 5] = rotate_back(
            r, subspace[v + k, 3], subspace[v + k, 4], subspace[v + k, 5]
        )
    for i in range(d):  # S^+ = (S^T S)^-1 S^T
        for k in range(i + 1):
            total = 0.0
            for p in range(6):
                total += c[0, o + FRAME_S + 6 * i + p] * c[0, o + FRAME_S + 6 * k + p]
            s[0, a + 6 * i + k] = total
    inverse(d, s, a, b)
    for p in range(6):
        for i in range(d):
            total = 0.0
            for k in range(d):
                total += s[0, b + 6 * i + k] * c[0, o + FRAME_S + 6 * k + p]
            c[0, o + FRAME_PLUS + 6 * i + p] = total
    # locked directions: of the axes the one with the largest part outside S and the directions found so far
    for p in range(6):
        for k in range(6):
            total = 1.0 if p == k else 0.0
            for i in range(d):
                total -= c[0, o + FRAME_S + 6 * i + p] * c[0, o + FRAME_PLUS + 6 * i + k]
            s[0, a + 6 * p + k] = total  # rows: the axes' parts outside S
    for n in range(6 - d):
        best, size = 0, -1.0
        for p in range(6):
            total = 0.0
            for k in range(6):
                total += s[0, a + 6 * p + k] * s[0, a + 6 * p + k]
            if total > size:
                best, size = p, total
        f = 1.0 / math.sqrt(size)
        at = o + FRAME_LOCKED + 6 * n
        for k in range(6):
            c[0, at + k] = f * s[0, a + 6 * best + k]
        for p in range(6):
            total = 0.0
            for k in range(6):
                total += s[0, a + 6 * p + k] * c[0, at + k]
            for k in range(6):
                s[0, a + 6 * p + k] -= total * c[0, at + k]


@inner
def put_pose(c, o, r, x, y, z):
    """Write a pose at c[0, o:]."""
    c[0, o], c[0, o + 1], c[0, o + 2], c[0, o + 3], c[0, o + 4], c[0, o + 5] = r[0], r[1], r[2], r[3], r[4], r[5]
    c[0, o + 6], c[0, o + 7], c[0, o + 8], c[0, o + 9], c[0, o + 10], c[0, o + 11] = r[6], r[7], r[8], x, y, z


@outlined
def _set_other_joint(links, table, c, s, node, q, still, work):
    """Do what `set_joint` does for a joint that is no hinge."""
    b, nb = table[node, CHILD], len(table) // 2
    o = offset_of(node, nb) + JX
    if b >= len(links.parent):
        for k in range(12):
            c[0, o + k] = 1.0 if k == 0 or k == 4 or k == 8 else 0.0
        return
    r, x, y, z = joint_pose(links, b, q, still, work)
    put_pose(c, o, r, x, y, z)
    kind = table[node, KIND]
    if kind > BALL:
        v = table[node, V]
        if kind == FREE:
            for k in range(3):
                for p in range(6):
                    work.subspace[v + k, p] = 1.0 if p == 3 + k else 0.0
                    work.subspace[v + 3 + k, p] = 0.0
                work.subspace[v + 3 + k, 0] = r[k]
                work.subspace[v + 3 + k, 1] = r[3 + k]
                work.subspace[v + 3 + k, 2] = r[6 + k]
        _set_frame(c, table[node, FRAMES], r, table[node, DOFS], v, work.subspace, s)


@inner
def set_joint(links, table, c, s, node, q, still, work):
    """Fill the pose of the joint of `node` and, where they change with q, its free and locked directions."""
    if table[node, KIND] == HINGE:
        i = table[node, CHILD]
        r, x, y, z = _hinge_pose(links.placement, i, q[links.q_start[i]])
        put_pose(c, offset_of(node, len(table) // 2) + JX, r, x, y, z)
    else:
        _set_other_joint(links, table, c, s, node, q, still, work)


@inner
def inertia_of(node, nb, c):
    """Return the ten numbers of the inertia of a node about its handle 0."""
    o = node * LEAF + LEAF_IN if node < nb else offset_of(node, nb) + IN
    return (
        c[0, o], c[0, o + 1], c[0, o + 2], c[0, o + 3], c[0, o + 4], c[0, o + 5],
        c[0, o + 6], c[0, o + 7], c[0, o + 8], c[0, o + 9],
    )  # fmt: skip


@inner
def inertia_row(a, k):
    """Return the ten numbers of row k."""
    return a[k, 0], a[k, 1], a[k, 2], a[k, 3], a[k, 4], a[k, 5], a[k, 6], a[k, 7], a[k, 8], a[k, 9]


@inner
def moved_inertia(g, r, x, y, z):
    """Return the inertia g of a frame with pose (r, x, y, z), about the origin of the frame the pose is given in."""
    j = rotate_symmetric(r, (g[0], g[1], g[2], g[3], g[4], g[5]))
    hx, hy, hz = rotate(r, g[6], g[7], g[8])
    m = g[9]
    # J' = J + 2 (d . h) 1 - d h^T - h d^T + m (d^2 1 - d d^T)
    sx, sy, sz = hx + 0.5 * m * x, hy + 0.5 * m * y, hz + 0.5 * m * z
    t = 2.0 * (x * sx + y * sy + z * sz)
    return (
        j[0] + t - 2.0 * x * sx, j[1] + t - 2.0 * y * sy, j[2] + t - 2.0 * z * sz,
        j[3] - x * sy - y * sx, j[4] - x * sz - z * sx, j[5] - y * sz - z * sy,
        hx + m * x, hy + m * y, hz + m * z, m,
    )  # fmt: skip


@inner
def handle_pose(table, c, node, slot):
    """Return the pose of handle `slot` of `node` in its handle 0."""
    if slot == 0:
        return (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0), 0.0, 0.0, 0.0
    return pose(c, offset_of(node, len(table) // 2) + HX)


@inner
def composed(a, ax, ay, az, b, bx, by, bz):
    """Return the pose a b: b is given in the frame of a."""
    x, y, z = rotate(a, bx, by, bz)
    return multiply(a, b), ax + x, ay + y, az + z


@inner
def child_pose(table, c, node):
    """Return the pose of the child link of the joint of `node` in handle 0 of `node`; at roots, in the world."""
    r, x, y, z = pose(c, offset_of(node, len(table) // 2) + JX)
    if table[node, SLOT] == 0:
        return r, x, y, z
    a, ax, ay, az = handle_pose(table, c, table[node, FIRST_SIDE], 1)
    return composed(a, ax, ay, az, r, x, y, z)


@outlined
def merge_rigidly(table, c, shares, node):
    """Fill the pose of handle 1 and the inertia of `node`, its joint locked, from those of its sides."""
    nb = len(table) // 2
    first, second, keep = table[node, FIRST_SIDE], table[node, SECOND_SIDE], table[node, KEEP]
    r, x, y, z = child_pose(table, c, node)
    o = offset_of(node, nb)
    h, hx, hy, hz = r, x, y, z
    if keep == KEEP_A:
        h, hx, hy, hz = handle_pose(table, c, first, 1)
    elif keep == KEEP_B:
        b, bx, by, bz = handle_pose(table, c, second, 1)
        h, hx, hy, hz = composed(r, x, y, z, b, bx, by, bz)
    if keep == KEEP_A or keep == KEEP_B or keep == KEEP_JOINT:
        at = o + HX
        put_pose(c, at, h, hx, hy, hz)
    if first >= 0:
        # Equation (6), with inertias in place of their inverses: I of C = I_A + X^T I_B X
        g = moved_inertia(inertia_of(second, nb, c), r, x, y, z)
        e = inertia_of(first, nb, c)
        at = o + IN
        c[0, at], c[0, at + 1], c[0, at + 2], c[0, at + 3] = e[0] + g[0], e[1] + g[1], e[2] + g[2], e[3] + g[3]
        c[0, at + 4], c[0, at + 5], c[0, at + 6], c[0, at + 7] = e[4] + g[4], e[5] + g[5], e[6] + g[6], e[7] + g[7]
        c[0, at + 8], c[0, at + 9] = e[8] + g[8], e[9] + g[9]
        if len(shares) > 0:
            g = moved_inertia(inertia_row(shares, second), r, x, y, z)
            for k in range(10):
                shares[node, k] = shares[first, k] + g[k]
