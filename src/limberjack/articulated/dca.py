"""Forward dynamics by divide and conquer (Featherstone 1999; Redon, Galoppo, Lin 2005, section 3).

Main pass, from the leaves of the assembly tree to its roots: Phi and b of every part. Back-substitution, from the
roots: the forces on the handles of every part and the accelerations of all joints. Both passes can go level by level,
since parts of one level know nothing of each other.

Accelerations b are differences from those that all bodies have with qdd = 0 (`kinematics`), gravity included: beta then
needs no terms of velocities, whatever the joint. The bias of a link is -Phi P, P the bias force `kinematics` leaves.
"""

from __future__ import annotations

from limberjack._jit import inner, outlined
from limberjack.articulated.joint_poses import set_joint
from limberjack.articulated.merges import back_substitute, bias, merge_accelerations, merge_inertias, open_joint
from limberjack.articulated.parts import FIRST_SIDE, HANDLES, LEAF, LEAF_IN, LEAF_KT, NOW, SECOND_SIDE, UP, V
from limberjack.articulated.work import P, rotation
from limberjack.spatial.solves import solve_symmetric_3
from limberjack.spatial.vectors import cross, rotate_back

__all__ = ["divide_and_conquer", "rigid_inverse", "set_leaves"]


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
    """Fill Phi (6 x 6, row length `row`, at c[0, o:]) of a rigid body with inertia g; return whether g is positive.

    With the com x and J about it: alpha = J^-1 (n - x x f), a = f / m + x x alpha.
    """
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
    """Fill Phi and the inertia of all leaves; return 0 or 1 + the first link whose inertia is not positive.

    Of a hub's pieces, each has its share of the inverse; the inertia kept for clusters is all with the first.
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
            bad = i + 1
        for k in range(10):
            c[0, b * LEAF + LEAF_IN + k] = g[i, k] if b < n else 0.0
    return bad


@inner
def _leaf_bias(tree, c, b, rows):
    """Set b of now of the leaf of body b from the bias force of its link: -Phi R^T P."""
    i, f, o = tree.body_link[b], tree.share[b], b * LEAF
    r = rotation(i, rows)
    n0, n1, n2 = rotate_back(r, -f * rows[i, P], -f * rows[i, P + 1], -f * rows[i, P + 2])
    f0, f1, f2 = rotate_back(r, -f * rows[i, P + 4], -f * rows[i, P + 5], -f * rows[i, P + 6])
    for k in range(6):
        p = o + 6 * k
        c[0, o + LEAF_KT + 6 * NOW + k] = (
            c[0, p] * n0 + c[0, p + 1] * n1 + c[0, p + 2] * n2 + c[0, p + 3] * f0 + c[0, p + 4] * f1 + c[0, p + 5] * f2
        )


@inner
def divide_and_conquer(links, tree, co, order, q, still, work, forces, qdd):
    """Fill qdd for rows left by `kinematics`, external forces taken off their P, and joint forces in co.own.

    Args:
        co: coefficients, with a slot per inner node.
        order: (nb,) inner nodes, children before parents: as they are numbered, or level by level.
        still: (nv,) zeros.
        forces: (1, 12 m) forces on the handles of all nodes.

    Returns:
        0 or 1 + the first freedom of a joint whose matrix is not positive.
    """
    table, c, own, s = co.table, co.numbers, co.own, co.scratch
    nb = len(table) // 2
    for b in range(nb):
        _leaf_bias(tree, c, b, work.rows)
    for k in range(nb):
        node = order[k]
        set_joint(links, table, c, s, node, q, still, work)
        slot = node - nb
        if not open_joint(table, c, own, s, node, slot):
            return 1 + table[node, V]
        bias(table, c, s, node, slot, 0.0, 0.0, 0.0)
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
