"""Derivatives of inverse dynamics with respect to q and qd, and the momentum matrix, from one pass over the tree.

All 6-vectors are at the world origin, world axes. With J_v the column of dof v (a motion), V_i and A_i velocity and
acceleration of link i, gravity included, and F_i = I_i A_i + V_i x* I_i V_i, a motion of dof v turns all columns that
follow it, dJ_w/dq_v = J_v x J_w, and the bodies beyond it. Then

    dF_i/dq_v  = J_v x* F_i + I_i eta_v + B_i xi_v       xi_v   = b_v x J_v      eta_v = a_v x J_v + b_v x xi_v
    dF_i/dqd_v = I_i zeta_v + B_i J_v                     zeta_v = (b_v + c_v) x J_v
    B_i x      = V_i x* I_i x - I_i (V_i x x) + x x* I_i V_i

where b_v and a_v are velocity and acceleration of what does not follow dof v, c_v the velocity of what precedes it. For
a hinge or slide both are what is before it. The columns of a ball, in the axes of its child, follow each other; those
of a ball seen from its child do not. For u beyond v the product with J_u needs the composites at u, and the term of F
cancels against that of dJ_u; for u before v the composites at v (Singh, Russo, Wensing 2022; Carpentier, Mansard 2018).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from limberjack._jit import inner, kernel
from limberjack.model.arrays import Links
from limberjack.model.joints import BALL, FREE, GENERAL, SPIN, SPIN_BACK
from limberjack.reduced.jacobians import point_jacobian
from limberjack.reduced.kinematics import kinematics
from limberjack.reduced.rnea import direction
from limberjack.reduced.work import J, P, R

__all__ = [
    "Derivatives", "body_jacobians", "force_derivatives", "momentum_matrix", "new_derivatives", "order_of",
]  # fmt: skip

PLAIN, FORWARD, BACK = 0, 1, 2


class Derivatives(NamedTuple):
    """Scratch of the derivatives; n links, nv dofs."""

    columns: np.ndarray  # (nv, 6) J
    xi: np.ndarray  # (nv, 6)
    eta: np.ndarray  # (nv, 6)
    zeta: np.ndarray  # (nv, 6)
    inertia: np.ndarray  # (n, 6, 6) of the links, then composite
    bias: np.ndarray  # (n, 6, 6) B, likewise
    force: np.ndarray  # (n, 6) F, likewise
    velocity: np.ndarray  # (n, 6)
    acceleration: np.ndarray  # (n, 6)
    vectors: np.ndarray  # (8, 6)


def new_derivatives(links: Links) -> Derivatives:
    """Return scratch for `links`."""
    n, nv = len(links.parent), len(links.armature)
    return Derivatives(
        np.zeros((nv, 6)), np.zeros((nv, 6)), np.zeros((nv, 6)), np.zeros((nv, 6)), np.zeros((n, 6, 6)),
        np.zeros((n, 6, 6)), np.zeros((n, 6)), np.zeros((n, 6)), np.zeros((n, 6)), np.zeros((8, 6)),
    )  # fmt: skip


def order_of(links: Links) -> np.ndarray:
    """Return (nv, 4): role of each dof, first dof of its ball, which dof has this place on the path, place of the dof.

    The role is PLAIN, FORWARD or BACK. The joint of a link that is reversed has its last factor first.
    """
    out = np.zeros((len(links.armature), 4), np.int64)
    out[:, 1] = out[:, 2] = np.arange(len(out))
    for i, kind in enumerate(links.kind):
        found: list[tuple[int, int, int]] = []
        if kind in (BALL, FREE):
            found = [(int(links.v_start[i]) + (3 if kind == FREE else 0), FORWARD, 3)]
        elif kind == GENERAL:
            for f in range(int(links.factor_start[i]), int(links.factor_start[i + 1])):
                role = {SPIN: FORWARD, SPIN_BACK: BACK}.get(int(links.factor_kind[f]), PLAIN)
                found.append((int(links.factor_indices[f, 1]), role, 1 if role == PLAIN else 3))
            sequence = [v + k for v, _, size in found for k in range(size)]
            out[links.v_start[i] : links.v_start[i] + len(sequence), 2] = sequence
        for v, role, size in found:
            out[v : v + size, 0], out[v : v + size, 1] = role, v
    out[out[:, 2], 3] = np.arange(len(out))
    return out


@inner
def _motion_cross(
    # in
    a, i, b, j,
    # out
    out, k,
):  # fmt: skip
    """Set row k of `out` to (row i of a) x (row j of b), of motions."""
    wx, wy, wz, vx, vy, vz = a[i, 0], a[i, 1], a[i, 2], a[i, 3], a[i, 4], a[i, 5]
    sx, sy, sz, tx, ty, tz = b[j, 0], b[j, 1], b[j, 2], b[j, 3], b[j, 4], b[j, 5]
    out[k, 0], out[k, 1], out[k, 2] = wy * sz - wz * sy, wz * sx - wx * sz, wx * sy - wy * sx
    out[k, 3] = wy * tz - wz * ty + vy * sz - vz * sy
    out[k, 4] = wz * tx - wx * tz + vz * sx - vx * sz
    out[k, 5] = wx * ty - wy * tx + vx * sy - vy * sx


@inner
def _add_force_cross(
    # in
    a, i, b, j,
    # out
    out, k,
):  # fmt: skip
    """Add (motion in row i of a) x* (force in row j of b) to row k of `out`."""
    wx, wy, wz, vx, vy, vz = a[i, 0], a[i, 1], a[i, 2], a[i, 3], a[i, 4], a[i, 5]
    nx, ny, nz, fx, fy, fz = b[j, 0], b[j, 1], b[j, 2], b[j, 3], b[j, 4], b[j, 5]
    out[k, 0] += wy * nz - wz * ny + vy * fz - vz * fy
    out[k, 1] += wz * nx - wx * nz + vz * fx - vx * fz
    out[k, 2] += wx * ny - wy * nx + vx * fy - vy * fx
    out[k, 3] += wy * fz - wz * fy
    out[k, 4] += wz * fx - wx * fz
    out[k, 5] += wx * fy - wy * fx


@inner
def _fill_columns(
    # model
    links,
    # in
    work,
    # out
    columns,
):  # fmt: skip
    """Fill the columns of all dofs at the world origin."""
    rows = work.rows
    for i in range(len(links.parent)):
        x, y, z = rows[i, R + 3], rows[i, R + 7], rows[i, R + 11]
        for v in range(links.v_start[i], links.v_start[i] + links.dof[i]):
            sx, sy, sz, tx, ty, tz = direction(links.kind[i], i, v, rows, work.subspace)
            columns[v, 0], columns[v, 1], columns[v, 2] = sx, sy, sz
            columns[v, 3], columns[v, 4], columns[v, 5] = (
                tx + y * sz - z * sy,
                ty + z * sx - x * sz,
                tz + x * sy - y * sx,
            )


@inner
def _fill_inertia(
    # in
    i, rows,
    # out
    inertia,
):  # fmt: skip
    """Fill the 6x6 inertia of link i at the world origin."""
    m, x, y, z = rows[i, P + 3], rows[i, R + 3], rows[i, R + 7], rows[i, R + 11]
    a, b, c = rows[i, J + 3], rows[i, J + 7], rows[i, J + 11]
    # J about the link's origin, and what the shift adds: 2 (h.p) + m p.p on the diagonal, -(h p^T + p h^T + m p p^T)
    trace = 2.0 * (a * x + b * y + c * z) + m * (x * x + y * y + z * z)
    xx = rows[i, J] + trace - 2.0 * a * x - m * x * x
    yy = rows[i, J + 5] + trace - 2.0 * b * y - m * y * y
    zz = rows[i, J + 10] + trace - 2.0 * c * z - m * z * z
    xy = rows[i, J + 4] - a * y - b * x - m * x * y
    xz = rows[i, J + 8] - a * z - c * x - m * x * z
    yz = rows[i, J + 9] - b * z - c * y - m * y * z
    hx, hy, hz = a + m * x, b + m * y, c + m * z
    for r in range(6):
        for s in range(6):
            inertia[i, r, s] = 0.0
    inertia[i, 0, 0], inertia[i, 1, 1], inertia[i, 2, 2] = xx, yy, zz
    inertia[i, 0, 1], inertia[i, 1, 0] = xy, xy
    inertia[i, 0, 2], inertia[i, 2, 0] = xz, xz
    inertia[i, 1, 2], inertia[i, 2, 1] = yz, yz
    inertia[i, 0, 4], inertia[i, 4, 0], inertia[i, 1, 3], inertia[i, 3, 1] = -hz, -hz, hz, hz
    inertia[i, 0, 5], inertia[i, 5, 0], inertia[i, 2, 3], inertia[i, 3, 2] = hy, hy, -hy, -hy
    inertia[i, 1, 5], inertia[i, 5, 1], inertia[i, 2, 4], inertia[i, 4, 2] = -hx, -hx, hx, hx
    inertia[i, 3, 3], inertia[i, 4, 4], inertia[i, 5, 5] = m, m, m


@inner
def _times(
    # in
    matrix, i, vector, j,
    # out
    out, k,
):  # fmt: skip
    """Set row k of `out` to matrix i times row j of `vector`."""
    for r in range(6):
        total = 0.0
        for s in range(6):
            total += matrix[i, r, s] * vector[j, s]
        out[k, r] = total


@inner
def _fill_bias(
    # in
    i, inertia, velocity, momentum,
    # out
    vectors, bias,
):  # fmt: skip
    """Fill B of link i column by column; `momentum` is row 0 of `vectors`, I V."""
    for s in range(6):
        for r in range(6):
            vectors[1, r] = 1.0 if r == s else 0.0
            vectors[2, r] = inertia[i, r, s]
            vectors[4, r] = 0.0
        _motion_cross(velocity, i, vectors, 1, vectors, 3)
        _times(inertia, i, vectors, 3, vectors, 5)
        _add_force_cross(velocity, i, vectors, 2, vectors, 4)
        _add_force_cross(vectors, 1, vectors, momentum, vectors, 4)
        for r in range(6):
            bias[i, r, s] = vectors[4, r] - vectors[5, r]


@inner
def _outward(
    # model
    links, order,
    # in
    i, qd, qdd,
    # out
    s,
):  # fmt: skip
    """Fill velocity and acceleration of link i and the vectors of its dofs."""
    columns, velocity, acceleration, vectors = s.columns, s.velocity, s.acceleration, s.vectors
    p, first, last = links.parent[i], links.v_start[i], links.v_start[i] + links.dof[i]
    for r in range(6):
        velocity[i, r] = velocity[p, r] if p >= 0 else 0.0
        acceleration[i, r] = acceleration[p, r] if p >= 0 else (-links.gravity[r - 3] if r >= 3 else 0.0)
    k = first
    while k < last:
        v = order[k, 2]
        end = v + 3 if order[v, 0] != PLAIN else v + 1
        # rows 0, 1: velocity and acceleration before the group; 2, 3: beyond it
        for r in range(6):
            vectors[0, r], vectors[1, r] = velocity[i, r], acceleration[i, r]
            vectors[2, r], vectors[3, r] = velocity[i, r], acceleration[i, r]
        for w in range(v, end):
            for r in range(6):
                vectors[2, r] += columns[w, r] * qd[w]
        precedes = 2 if order[v, 0] == FORWARD else 0
        for w in range(v, end):
            _motion_cross(vectors, precedes, columns, w, vectors, 4)
            for r in range(6):
                vectors[3, r] += columns[w, r] * qdd[w] + vectors[4, r] * qd[w]
        base = 2 if order[v, 0] == BACK else 0
        for w in range(v, end):
            _motion_cross(vectors, base, columns, w, s.xi, w)
            _motion_cross(vectors, precedes, columns, w, s.zeta, w)
            _motion_cross(vectors, base + 1, columns, w, s.eta, w)
            _motion_cross(vectors, base, s.xi, w, vectors, 4)
            for r in range(6):
                s.eta[w, r] += vectors[4, r]
                s.zeta[w, r] += s.xi[w, r]
        for r in range(6):
            velocity[i, r], acceleration[i, r] = vectors[2, r], vectors[3, r]
        k += end - v


@inner
def _fill_composites(
    # model
    links, order,
    # in
    qd, qdd, work,
    # out
    s,
):  # fmt: skip
    """Fill columns, vectors of dofs, and the composite inertias, B and forces of all links."""
    _fill_columns(links, work, s.columns)
    for i in range(len(links.parent)):
        _outward(links, order, i, qd, qdd, s)
        _fill_inertia(i, work.rows, s.inertia)
        _times(s.inertia, i, s.velocity, i, s.vectors, 0)
        _times(s.inertia, i, s.acceleration, i, s.force, i)
        _add_force_cross(s.velocity, i, s.vectors, 0, s.force, i)
        _fill_bias(i, s.inertia, s.velocity, 0, s.vectors, s.bias)
    for i in range(len(links.parent) - 1, -1, -1):
        p = links.parent[i]
        if p >= 0:
            for r in range(6):
                s.force[p, r] += s.force[i, r]
                for c in range(6):
                    s.inertia[p, r, c] += s.inertia[i, r, c]
                    s.bias[p, r, c] += s.bias[i, r, c]


@inner
def _dot(columns, u, vectors, k):
    """Return the product of a column and row k of `vectors`."""
    total = 0.0
    for r in range(6):
        total += columns[u, r] * vectors[k, r]
    return total


@inner
def _own_columns(
    # model
    links, order,
    # in
    i, v, s,
    # out
    dq, dqd, mass,
):  # fmt: skip
    """Fill the entries of column v, a dof of link i, in the rows of the dofs of i and of all before it."""
    vectors, columns = s.vectors, s.columns
    # rows 0: I eta + B xi, 1: that and J x* F, 2: I zeta + B J, 3: I J
    _times(s.inertia, i, s.eta, v, vectors, 0)
    _times(s.bias, i, s.xi, v, vectors, 4)
    _times(s.inertia, i, s.zeta, v, vectors, 2)
    _times(s.bias, i, columns, v, vectors, 5)
    _times(s.inertia, i, columns, v, vectors, 3)
    for r in range(6):
        vectors[0, r] += vectors[4, r]
        vectors[1, r] = vectors[0, r]
        vectors[2, r] += vectors[5, r]
    _add_force_cross(columns, v, s.force, i, vectors, 1)
    a = i
    while a >= 0:
        for u in range(links.v_start[a], links.v_start[a] + links.dof[a]):
            # the columns of one ball follow each other, or none of them does
            follows = a == i and (order[u, 3] > order[v, 3] if order[u, 1] != order[v, 1] else order[v, 0] == FORWARD)
            dq[u, v] = _dot(columns, u, vectors, 0 if follows else 1)
            dqd[u, v] = _dot(columns, u, vectors, 2)
            mass[u, v] = _dot(columns, u, vectors, 3)
        a = links.parent[a]


@inner
def _later_rows(
    # model
    links,
    # in
    i, u, s,
    # out
    dq, dqd, mass,
):  # fmt: skip
    """Fill the entries of row u, a dof of link i, in the columns of the dofs of the links before i."""
    vectors, columns = s.vectors, s.columns
    # rows 0, 1: I J_u and B^T J_u
    for r in range(6):
        total, turned = 0.0, 0.0
        for c in range(6):
            total += s.inertia[i, c, r] * columns[u, c]
            turned += s.bias[i, c, r] * columns[u, c]
        vectors[0, r], vectors[1, r] = total, turned
    a = links.parent[i]
    while a >= 0:
        for v in range(links.v_start[a], links.v_start[a] + links.dof[a]):
            dq[u, v] = _dot(s.eta, v, vectors, 0) + _dot(s.xi, v, vectors, 1)
            dqd[u, v] = _dot(s.zeta, v, vectors, 0) + _dot(columns, v, vectors, 1)
            mass[u, v] = _dot(columns, v, vectors, 0)
        a = links.parent[a]


@kernel
def force_derivatives(
    # model
    links, order,
    # in
    span, q, qd, qdd, work, s,
    # out
    dq, dqd, mass,
):  # fmt: skip
    """Fill d tau/dq, d tau/dqd and the joint-space inertia, armature included; all start at 0."""
    kinematics(links, span, q, qd, work)
    _fill_composites(links, order, qd, qdd, work, s)
    for i in range(len(links.parent)):
        for v in range(links.v_start[i], links.v_start[i] + links.dof[i]):
            _own_columns(links, order, i, v, s, dq, dqd, mass)
            _later_rows(links, i, v, s, dq, dqd, mass)
    for v in range(len(links.armature)):
        mass[v, v] += links.armature[v]


@kernel
def momentum_matrix(
    # model
    links,
    # in
    span, q, rest, work, s,
    # out
    matrix, center,
):  # fmt: skip
    """Fill the (6, nv) matrix of the momentum about the com and, in `center`, the com and the mass."""
    kinematics(links, span, q, rest, work)
    _fill_columns(links, work, s.columns)
    inertia, vectors = s.inertia, s.vectors
    n = len(links.parent)
    for i in range(n):
        _fill_inertia(i, work.rows, inertia)
    center[0] = center[1] = center[2] = center[3] = 0.0
    for i in range(n - 1, -1, -1):
        p = links.parent[i]
        if p >= 0:
            for r in range(6):
                for c in range(6):
                    inertia[p, r, c] += inertia[i, r, c]
        else:
            center[0] += inertia[i, 2, 4]
            center[1] += inertia[i, 0, 5]
            center[2] += inertia[i, 1, 3]
            center[3] += inertia[i, 3, 3]
    if center[3] > 0.0:
        for r in range(3):
            center[r] /= center[3]
    x, y, z = center[0], center[1], center[2]
    for i in range(n):
        for v in range(links.v_start[i], links.v_start[i] + links.dof[i]):
            _times(inertia, i, s.columns, v, vectors, 0)
            fx, fy, fz = vectors[0, 3], vectors[0, 4], vectors[0, 5]
            matrix[0, v] = vectors[0, 0] - y * fz + z * fy
            matrix[1, v] = vectors[0, 1] - z * fx + x * fz
            matrix[2, v] = vectors[0, 2] - x * fy + y * fx
            matrix[3, v], matrix[4, v], matrix[5, v] = fx, fy, fz


@inner
def _body_point(
    # model
    body_offset,
    # in
    i, b, px, py, pz, rows,
):  # fmt: skip
    """Return a point of body b of link i, given in the body frame, in the world."""
    m = body_offset
    lx = m[b, 0] * px + m[b, 1] * py + m[b, 2] * pz + m[b, 9]
    ly = m[b, 3] * px + m[b, 4] * py + m[b, 5] * pz + m[b, 10]
    lz = m[b, 6] * px + m[b, 7] * py + m[b, 8] * pz + m[b, 11]
    return (
        rows[i, R] * lx + rows[i, R + 4] * ly + rows[i, R + 8] * lz + rows[i, R + 3],
        rows[i, R + 1] * lx + rows[i, R + 5] * ly + rows[i, R + 9] * lz + rows[i, R + 7],
        rows[i, R + 2] * lx + rows[i, R + 6] * ly + rows[i, R + 10] * lz + rows[i, R + 11],
    )


@kernel
def body_jacobians(
    # model
    links, body_link, body_offset,
    # in
    span, states, rest, bodies, points, in_world, q, matrix, work,
    # out
    matrices,
):  # fmt: skip
    """Fill the Jacobians (states, bodies, 6, nv) of points of bodies, given in the world or in the body frames."""
    nv = len(links.armature)
    for k in range(len(states)):
        for c in range(len(q)):
            q[c] = states[k, c]
        kinematics(links, span, q, rest, work)
        for j in range(len(bodies)):
            i = body_link[bodies[j]]
            x, y, z = points[k, j, 0], points[k, j, 1], points[k, j, 2]
            if i >= 0 and not in_world:
                x, y, z = _body_point(body_offset, i, bodies[j], x, y, z, work.rows)
            for r in range(6):
                for v in range(nv):
                    matrix[r, v] = 0.0
            if i >= 0:
                point_jacobian(links, i, x, y, z, work, matrix)
            for r in range(6):
                for v in range(nv):
                    matrices[k, j, r, v] = matrix[r, v]
