"""Responses of a tree to a force at one point: sparse, along the path to the world only.

After `articulate`, the forward elimination of a force f on link i is nonzero on the path from i to the root:

    y_v = S_v^T f        f <- f - U_v y_v / D_v        then f is shifted to the parent

and the response of point j to a force at point i is A_ij = sum_v y_i[v] y_j[v] / D_v over the common path.
"""

from __future__ import annotations

from limberjack._jit import inner
from limberjack.model.joints import HINGE, SLIDE
from limberjack.reduced.rnea import direction
from limberjack.reduced.work import DI, D, U
from limberjack.spatial.vectors import cross

__all__ = ["path_dot", "path_forward"]


@inner
def path_forward(
    # model
    links,
    # in
    link, nx, ny, nz, fx, fy, fz, own, share, work, row,
    # out
    y,
):  # fmt: skip
    """Add the forward elimination of a force (torque at the link's origin, force) on `link` to y[row].

    With own >= 0, a dof of `link`, a joint force `share` on it is included.
    """
    parent, kinds, v_start, dofs = links.parent, links.kind, links.v_start, links.dof
    rows, subspace, reduced, pivot = work.rows, work.subspace, work.reduced, work.pivot
    i = link
    while i >= 0:
        first = v_start[i]
        seen = 0.0
        for a in range(dofs[i]):
            v = first + a
            sx, sy, sz, tx, ty, tz = direction(kinds[i], i, v, rows, subspace)
            seen = sx * nx + sy * ny + sz * nz + tx * fx + ty * fy + tz * fz
            if v == own:
                seen += share
            y[row, v] += seen
            if kinds[i] != HINGE and kinds[i] != SLIDE:
                s = seen * pivot[v, a]
                nx, ny, nz = nx - reduced[v, 0] * s, ny - reduced[v, 1] * s, nz - reduced[v, 2] * s
                fx, fy, fz = fx - reduced[v, 3] * s, fy - reduced[v, 4] * s, fz - reduced[v, 5] * s
        cx, cy, cz = cross(rows[i, D], rows[i, D + 1], rows[i, D + 2], fx, fy, fz)
        nx, ny, nz = nx + cx, ny + cy, nz + cz
        if kinds[i] == HINGE or kinds[i] == SLIDE:
            # U is about the parent's origin: subtracted after the shift
            s = seen * rows[i, DI]
            nx, ny, nz = nx - rows[i, U] * s, ny - rows[i, U + 1] * s, nz - rows[i, U + 2] * s
            fx, fy, fz = fx - rows[i, U + 4] * s, fy - rows[i, U + 5] * s, fz - rows[i, U + 6] * s
        i = parent[i]


@inner
def path_dot(
    # model
    links,
    # in
    link, stop, work, y, i, j,
):  # fmt: skip
    """Return sum of y[i] y[j] / D over the path from `link` up to but without link `stop`."""
    parent, kinds, v_start, dofs = links.parent, links.kind, links.v_start, links.dof
    rows, pivot = work.rows, work.pivot
    out = 0.0
    a = link
    while a != stop:
        for k in range(dofs[a]):
            v = v_start[a] + k
            inverse = rows[a, DI] if kinds[a] == HINGE or kinds[a] == SLIDE else pivot[v, k]
            out += y[i, v] * y[j, v] * inverse
        a = parent[a]
    return out
