"""The joint-space inertia by the composite-rigid-body algorithm (Featherstone 2008, table 6.2).

Composite inertias are summed to the root; the force I S of each dof is then transformed up the path to the root,
and H[a, v] = S_a^T (that force at the origin of a's link).
"""

from __future__ import annotations

from limberjack._jit import inner
from limberjack.reduced.aba import apply_inertia, columns, load, rigid_columns, shift, store_columns, total
from limberjack.reduced.rnea import direction
from limberjack.reduced.work import D
from limberjack.spatial.lanes import load4
from limberjack.spatial.vectors import cross

__all__ = ["composite_inertia"]


@inner
def composite_inertia(
    # model
    links,
    # in
    work,
    # out
    matrix,
):  # fmt: skip
    """Fill the (nv, nv) joint-space inertia, armature included, for work left by `kinematics`; `matrix` starts at 0."""
    parent, kinds, v_start, dofs, armature = links.parent, links.kind, links.v_start, links.dof, links.armature
    rows, subspace = work.rows, work.subspace
    for i in range(len(parent)):
        store_columns(rigid_columns(i, rows), i, rows)
    for i in range(len(parent) - 1, -1, -1):
        g = load(i, rows)
        if parent[i] >= 0:
            up = shift(columns(i, rows), load4(rows, i, D))
            store_columns(total(columns(parent[i], rows), up), parent[i], rows)
        first, last = v_start[i], v_start[i] + dofs[i]
        for v in range(first, last):
            sx, sy, sz, tx, ty, tz = direction(kinds[i], i, v, rows, subspace)
            nx, ny, nz, fx, fy, fz = apply_inertia(g, sx, sy, sz, tx, ty, tz)
            a = i
            while a >= 0:
                for b in range(v_start[a], v_start[a] + dofs[a]):
                    sx, sy, sz, tx, ty, tz = direction(kinds[a], a, b, rows, subspace)
                    entry = sx * nx + sy * ny + sz * nz + tx * fx + ty * fy + tz * fz
                    matrix[b, v] = entry
                    matrix[v, b] = entry
                cx, cy, cz = cross(rows[a, D], rows[a, D + 1], rows[a, D + 2], fx, fy, fz)
                nx, ny, nz = nx + cx, ny + cy, nz + cz
                a = parent[a]
        for v in range(first, last):
            matrix[v, v] += armature[v]
