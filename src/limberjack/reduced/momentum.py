"""Momentum of free trees as separate state, so that no integrator drifts from it.

Each free tree has a target com c, linear momentum p and angular momentum L about the world origin beside q and qd.
Over a step h with outer force F and torque T (gravity, wrenches, springs, forces on the base) by the stage weights of
rk4:

    p+ = p + h F      L+ = L + h T      c+ = c + h/(6m) (p_1 + 2 p_2 + 2 p_3 + p_4)

and only the base is corrected to match: o += c+ - c(q),  w += I_c^-1 (L+ - c+ x p+ - L_c(q, qd)),  v by the rest of p+.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from limberjack._jit import inner, outlined
from limberjack.model.arrays import LINK, Links
from limberjack.model.joints import FREE
from limberjack.reduced.jacobians import link_velocities
from limberjack.reduced.kinematics import kinematics
from limberjack.reduced.measure import tree_momentum
from limberjack.reduced.work import J, P, R, rotation
from limberjack.spatial.solves import solve_symmetric_3
from limberjack.spatial.vectors import cross, rotate_back

__all__ = ["MomentumTargets", "add_outer_forces", "new_momentum_targets", "restore_momentum", "start_momentum_targets"]


class MomentumTargets(NamedTuple):
    """Target momenta of the free trees of a span, and scratch; k trees."""

    trees: np.ndarray  # (k, 2) links first .. last - 1
    target: np.ndarray  # (k, 9) com, linear and angular momentum
    outer: np.ndarray  # (k, 9) stage sums: F, T, and F weighted for the com
    fresh: np.ndarray  # (k,) 1 where the target is to be computed from the state
    velocities: np.ndarray  # (n, 6) of the links


def new_momentum_targets(links: Links, span: np.ndarray, wanted: bool) -> MomentumTargets:
    """Return the momentum targets of the free trees in `span`; of none when not `wanted`."""
    first, last = int(span[LINK]), int(span[LINK + 1])
    roots = first + np.flatnonzero(links.parent[first:last] < 0)
    ends = np.append(roots[1:], last)
    trees = np.stack([roots, ends], axis=1)[links.kind[roots] == FREE] if wanted and len(roots) else np.zeros((0, 2))
    k, n = len(trees), len(links.parent) if wanted else 0
    return MomentumTargets(
        np.ascontiguousarray(trees, np.int64),
        np.zeros((k, 9)),
        np.zeros((k, 9)),
        np.ones(k, np.int64),
        np.zeros((n, 6)),
    )


@inner
def _inside(link, span):
    """Return whether `link` belongs to `span`."""
    return span[LINK] <= link and link < span[LINK + 1]


@inner
def _outer_forces(links, springs, i, last, tau, wrenches, rows, spring_work):
    """Return force and torque about the origin that gravity, wrenches, springs and base forces give a free tree."""
    fx = fy = fz = tx = ty = tz = 0.0
    gx, gy, gz = links.gravity[0], links.gravity[1], links.gravity[2]
    for k in range(i, last):
        m = rows[k, P + 3]
        cx, cy, cz = (
            m * rows[k, R + 3] + rows[k, J + 3],
            m * rows[k, R + 7] + rows[k, J + 7],
            m * rows[k, R + 11] + rows[k, J + 11],
        )
        ux, uy, uz = cross(cx, cy, cz, gx, gy, gz)
        fx, fy, fz = fx + m * gx, fy + m * gy, fz + m * gz
        tx, ty, tz = tx + ux, ty + uy, tz + uz
    for k in range(len(wrenches.link)):
        j = wrenches.link[k]
        if i <= j and j < last:
            w = wrenches.data
            px = rows[j, R + 3] + rows[j, R] * w[k, 0] + rows[j, R + 4] * w[k, 1] + rows[j, R + 8] * w[k, 2]
            py = rows[j, R + 7] + rows[j, R + 1] * w[k, 0] + rows[j, R + 5] * w[k, 1] + rows[j, R + 9] * w[k, 2]
            pz = rows[j, R + 11] + rows[j, R + 2] * w[k, 0] + rows[j, R + 6] * w[k, 1] + rows[j, R + 10] * w[k, 2]
            ux, uy, uz = cross(px, py, pz, w[k, 3], w[k, 4], w[k, 5])
            fx, fy, fz = fx + w[k, 3], fy + w[k, 4], fz + w[k, 5]
            tx, ty, tz = tx + ux + w[k, 6], ty + uy + w[k, 7], tz + uz + w[k, 8]
    for k in range(len(springs.link)):
        for end in range(2):
            j = springs.link[k, end]
            if i <= j and j < last:
                s = spring_work.state
                f = s[k, 11] if end == 0 else -s[k, 11]
                ex, ey, ez = f * s[k, 0], f * s[k, 1], f * s[k, 2]
                c = 5 + 3 * end
                ux, uy, uz = cross(
                    rows[j, R + 3] + s[k, c],
                    rows[j, R + 7] + s[k, c + 1],
                    rows[j, R + 11] + s[k, c + 2],
                    ex,
                    ey,
                    ez,
                )
                fx, fy, fz = fx + ex, fy + ey, fz + ez
                tx, ty, tz = tx + ux, ty + uy, tz + uz
    # forces on the dofs of the base: linear in world axes at its origin, angular in its axes
    v = links.v_start[i]
    ux, uy, uz = cross(rows[i, R + 3], rows[i, R + 7], rows[i, R + 11], tau[v], tau[v + 1], tau[v + 2])
    ex = rows[i, R] * tau[v + 3] + rows[i, R + 4] * tau[v + 4] + rows[i, R + 8] * tau[v + 5]
    ey = rows[i, R + 1] * tau[v + 3] + rows[i, R + 5] * tau[v + 4] + rows[i, R + 9] * tau[v + 5]
    ez = rows[i, R + 2] * tau[v + 3] + rows[i, R + 6] * tau[v + 4] + rows[i, R + 10] * tau[v + 5]
    return fx + tau[v], fy + tau[v + 1], fz + tau[v + 2], tx + ux + ex, ty + uy + ey, tz + uz + ez


@outlined
def add_outer_forces(links, springs, span, q, qd, weight, com_weight, tau, wrenches, work, spring_work, b):
    """Add the outer forces on every free tree at a stage; kinematics again: the elimination overwrote its rows."""
    kinematics(links, span, q, qd, work)
    for k in range(len(b.trees)):
        if not _inside(b.trees[k, 0], span):
            continue
        fx, fy, fz, tx, ty, tz = _outer_forces(
            links, springs, b.trees[k, 0], b.trees[k, 1], tau, wrenches, work.rows, spring_work
        )
        p = b.outer
        p[k, 0], p[k, 1], p[k, 2] = p[k, 0] + weight * fx, p[k, 1] + weight * fy, p[k, 2] + weight * fz
        p[k, 3], p[k, 4], p[k, 5] = p[k, 3] + weight * tx, p[k, 4] + weight * ty, p[k, 5] + weight * tz
        p[k, 6], p[k, 7], p[k, 8] = (
            p[k, 6] + com_weight * fx,
            p[k, 7] + com_weight * fy,
            p[k, 8] + com_weight * fz,
        )


@outlined
def start_momentum_targets(links, span, q, qd, work, b):
    """Begin a step: compute the targets from the state where it was set from outside, and clear the force sums."""
    outer, target, fresh = b.outer, b.target, b.fresh
    anew = False
    for k in range(len(b.trees)):
        if _inside(b.trees[k, 0], span):
            anew = anew or fresh[k] == 1
            for c in range(9):
                outer[k, c] = 0.0
    if not anew:
        return
    kinematics(links, span, q, qd, work)
    link_velocities(links, span, qd, work, b.velocities)
    for k in range(len(b.trees)):
        if fresh[k] == 0 or not _inside(b.trees[k, 0], span):
            continue
        fresh[k] = 0
        _, cx, cy, cz, px, py, pz, lx, ly, lz = tree_momentum(b.trees[k, 0], b.trees[k, 1], work.rows, b.velocities)
        target[k, 0], target[k, 1], target[k, 2], target[k, 3], target[k, 4], target[k, 5] = cx, cy, cz, px, py, pz
        target[k, 6], target[k, 7], target[k, 8] = lx, ly, lz


@outlined
def restore_momentum(links, span, h, work, b, q, qd):
    """Advance the targets by the outer forces and correct the base of every free tree to them."""
    kinematics(links, span, q, qd, work)
    link_velocities(links, span, qd, work, b.velocities)
    rows = work.rows
    for k in range(len(b.trees)):
        if not _inside(b.trees[k, 0], span):
            continue
        i, last = b.trees[k, 0], b.trees[k, 1]
        mass, cx, cy, cz, px, py, pz, lx, ly, lz = tree_momentum(i, last, rows, b.velocities)
        a, p = b.target, b.outer
        for c in range(3):
            # c+ = c + h p/m + h^2/(6m) (F_1 + F_2 + F_3): the stage momenta of rk4, summed
            a[k, c] += (h * a[k, 3 + c] + h * h * p[k, 6 + c]) / mass
            a[k, 3 + c] += h * p[k, c]
            a[k, 6 + c] += h * p[k, 3 + c]
        # inertia about the com, momentum about it
        xx = yy = zz = xy = xz = yz = 0.0
        for j in range(i, last):
            m = rows[j, P + 3]
            hx, hy, hz = rows[j, J + 3], rows[j, J + 7], rows[j, J + 11]
            dx, dy, dz = rows[j, R + 3] - cx, rows[j, R + 7] - cy, rows[j, R + 11] - cz
            # J at o moved to the com: J + (|d|^2 m + 2 h.d) 1 - m d d^T - h d^T - d h^T
            s = m * (dx * dx + dy * dy + dz * dz) + 2.0 * (hx * dx + hy * dy + hz * dz)
            xx += rows[j, J] + s - m * dx * dx - 2.0 * hx * dx
            yy += rows[j, J + 5] + s - m * dy * dy - 2.0 * hy * dy
            zz += rows[j, J + 10] + s - m * dz * dz - 2.0 * hz * dz
            xy += rows[j, J + 4] - m * dx * dy - hx * dy - hy * dx
            xz += rows[j, J + 8] - m * dx * dz - hx * dz - hz * dx
            yz += rows[j, J + 9] - m * dy * dz - hy * dz - hz * dy
        ux, uy, uz = cross(cx, cy, cz, px, py, pz)
        ex, ey, ez = cross(a[k, 0], a[k, 1], a[k, 2], a[k, 3], a[k, 4], a[k, 5])
        good, wx, wy, wz = solve_symmetric_3(
            (xx, yy, zz, xy, xz, yz),
            a[k, 6] - ex - (lx - ux),
            a[k, 7] - ey - (ly - uy),
            a[k, 8] - ez - (lz - uz),
        )
        if not good:
            wx = wy = wz = 0.0
        rx, ry, rz = cross(wx, wy, wz, cx - rows[i, R + 3], cy - rows[i, R + 7], cz - rows[i, R + 11])
        iq, iv = links.q_start[i], links.v_start[i]
        q[iq], q[iq + 1], q[iq + 2] = q[iq] + a[k, 0] - cx, q[iq + 1] + a[k, 1] - cy, q[iq + 2] + a[k, 2] - cz
        qd[iv] += (a[k, 3] - px) / mass - rx
        qd[iv + 1] += (a[k, 4] - py) / mass - ry
        qd[iv + 2] += (a[k, 5] - pz) / mass - rz
        r = rotation(i, rows)
        wx, wy, wz = rotate_back(r, wx, wy, wz)
        qd[iv + 3], qd[iv + 4], qd[iv + 5] = qd[iv + 3] + wx, qd[iv + 4] + wy, qd[iv + 5] + wz
