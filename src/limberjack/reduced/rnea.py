"""Inverse dynamics by the recursive Newton-Euler algorithm (Featherstone 2008, table 5.1).

`kinematics` has left bias forces p for qdd = 0. Outward, a' = (parent's a' at this origin) + S qdd and p += I a';
inward, tau = S^T p + armature qdd and the parent's p += p shifted.
"""

from __future__ import annotations

from limberjack._jit import inner
from limberjack.model.joints import HINGE, SLIDE
from limberjack.reduced.aba import apply_inertia, rigid
from limberjack.reduced.work import AC, AL, D, P, R
from limberjack.spatial.vectors import cross

__all__ = ["direction", "inverse_forces"]


@inner
def direction(kind, i, v, rows, subspace):
    """Return the column of S of dof v of link i, at the link's origin."""
    if kind == HINGE:
        return rows[i, R + 8], rows[i, R + 9], rows[i, R + 10], 0.0, 0.0, 0.0
    if kind == SLIDE:
        return 0.0, 0.0, 0.0, rows[i, R + 8], rows[i, R + 9], rows[i, R + 10]
    return subspace[v, 0], subspace[v, 1], subspace[v, 2], subspace[v, 3], subspace[v, 4], subspace[v, 5]


@inner
def inverse_forces(
    # model
    links,
    # in
    qdd, work,
    # out
    tau,
):  # fmt: skip
    """Fill tau for work left by `kinematics` external forces subtracted from P; without springs and dampers."""
    parent, kinds, v_start, dofs, armature = links.parent, links.kind, links.v_start, links.dof, links.armature
    rows, subspace = work.rows, work.subspace
    for i in range(len(parent)):
        p = parent[i]
        lx = ly = lz = ax = ay = az = 0.0
        if p >= 0:
            lx, ly, lz = rows[p, AL], rows[p, AL + 1], rows[p, AL + 2]
            cx, cy, cz = cross(lx, ly, lz, rows[i, D], rows[i, D + 1], rows[i, D + 2])
            ax, ay, az = rows[p, AC] + cx, rows[p, AC + 1] + cy, rows[p, AC + 2] + cz
        for v in range(v_start[i], v_start[i] + dofs[i]):
            sx, sy, sz, tx, ty, tz = direction(kinds[i], i, v, rows, subspace)
            lx, ly, lz = lx + sx * qdd[v], ly + sy * qdd[v], lz + sz * qdd[v]
            ax, ay, az = ax + tx * qdd[v], ay + ty * qdd[v], az + tz * qdd[v]
        nx, ny, nz, fx, fy, fz = apply_inertia(rigid(i, rows), lx, ly, lz, ax, ay, az)
        rows[i, P], rows[i, P + 1], rows[i, P + 2] = rows[i, P] + nx, rows[i, P + 1] + ny, rows[i, P + 2] + nz
        rows[i, P + 4], rows[i, P + 5], rows[i, P + 6] = (
            rows[i, P + 4] + fx,
            rows[i, P + 5] + fy,
            rows[i, P + 6] + fz,
        )
        rows[i, AL], rows[i, AL + 1], rows[i, AL + 2] = lx, ly, lz
        rows[i, AC], rows[i, AC + 1], rows[i, AC + 2] = ax, ay, az
    for i in range(len(parent) - 1, -1, -1):
        nx, ny, nz = rows[i, P], rows[i, P + 1], rows[i, P + 2]
        fx, fy, fz = rows[i, P + 4], rows[i, P + 5], rows[i, P + 6]
        for v in range(v_start[i], v_start[i] + dofs[i]):
            sx, sy, sz, tx, ty, tz = direction(kinds[i], i, v, rows, subspace)
            tau[v] = sx * nx + sy * ny + sz * nz + tx * fx + ty * fy + tz * fz + armature[v] * qdd[v]
        p = parent[i]
        if p >= 0:
            cx, cy, cz = cross(rows[i, D], rows[i, D + 1], rows[i, D + 2], fx, fy, fz)
            rows[p, P], rows[p, P + 1], rows[p, P + 2] = (
                rows[p, P] + nx + cx,
                rows[p, P + 1] + ny + cy,
                rows[p, P + 2] + nz + cz,
            )
            rows[p, P + 4], rows[p, P + 5], rows[p, P + 6] = (
                rows[p, P + 4] + fx,
                rows[p, P + 5] + fy,
                rows[p, P + 6] + fz,
            )
