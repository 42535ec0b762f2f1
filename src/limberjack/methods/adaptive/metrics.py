"""The metrics: weights of joints, and the velocity metric of the masses.

The joint metrics are sums of qdd^T A qdd and qd^T V qd over the joints (Redon, Galoppo, Lin 2005, section 5.2) with the
weights of the options. The velocity metric that goes with the mass metric is the kinetic energy a node would lose if it
became rigid by itself, in free flight, twice:

    V(C) = 2 T - h^T I^-1 h        T kinetic energy, h momentum, I inertia of C as one rigid body

T, h and I are sums over the rigid nodes of C, all about the base of the tree. With the com and the inertia J about it,
h^T I^-1 h = p^2 / m + L . J^-1 L. A node on a joint with the world would lose all: V = 2 T.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from limberjack._jit import inner, outlined
from limberjack.errors import StateError, UnknownName
from limberjack.methods.adaptive.poses import cluster_pose
from limberjack.model.joints import FREE
from limberjack.model.model import Model
from limberjack.reduced.assembly_tree import FIRST_SIDE, KIND, SECOND_SIDE, TOP, TREE_INDEX, UP
from limberjack.reduced.dca import com_inertia
from limberjack.reduced.jacobians import link_velocities
from limberjack.reduced.joint_poses import composed, inertia_of, inertia_row, moved_inertia
from limberjack.reduced.work import R, rotation
from limberjack.spatial.solves import solve_symmetric_3
from limberjack.spatial.vectors import cross

__all__ = ["functions_of", "mass_velocity_metric", "weight_rows"]


def functions_of(weights: Any) -> dict[str, Callable[[Any], Any]]:
    """Return those of the weights that are functions of the joint's position."""
    return {name: w for name, w in weights.items() if callable(w)} if isinstance(weights, Mapping) else {}


def _matrix(value: Any, d: int, what: str) -> np.ndarray:
    """Return a weight as a symmetric positive definite (d, d) matrix."""
    try:
        array = np.asarray(value, float)
    except (TypeError, ValueError):
        raise StateError(f"{what} must be a number or a {d}x{d} matrix, got {value!r}") from None
    if array.ndim == 0:
        array = array * np.eye(d)
    if array.shape != (d, d):
        raise StateError(f"{what} must be a number or a {d}x{d} matrix, got shape {array.shape}")
    if not np.isfinite(array).all():
        raise StateError(f"{what} must be finite, got {value!r}")
    if np.abs(array - array.T).max() > 1e-12 * np.abs(array).max() or np.linalg.eigvalsh(array)[0] <= 0.0:
        raise StateError(f"{what} must be symmetric and positive definite, got {value!r}")
    return array


def weight_rows(model: Model, weights: Any, what: str, q: np.ndarray, only: set[str] | None = None) -> np.ndarray:
    """Return (nv, 6) rows of the weight matrices of all joints; of free joints to the world zero.

    Args:
        model: the model.
        weights: a number for all, or {joint: number, matrix or function of its q}.
        what: the option's name, for errors.
        q: (nq,) where functions are evaluated.
        only: names of joints; the rows of others stay zero.
    """
    links = model.arrays.links
    rows = np.zeros((model.nv, 6))
    given = weights if isinstance(weights, Mapping) else {}
    if not isinstance(weights, Mapping):
        _matrix(weights, 1, what)
    for name in given:
        if name not in model.joint_names:
            raise UnknownName("joint", str(name), f'model "{model.name}"', model.joint_names)
    if only is None:
        scalar = 1.0 if isinstance(weights, Mapping) else float(weights)
        counted = np.repeat(links.kind != FREE, links.dof)
        first = np.repeat(links.v_start, links.dof)
        rows[np.arange(model.nv), np.arange(model.nv) - first] = scalar * counted
    for name, weight in given.items():
        info = model.joint(name)
        if info.is_loop or info.nv == 0 or (only is not None and name not in only):
            continue
        if info.kind == "free":
            raise StateError(f'{what} of joint "{name}": free joints to the world are always simulated and have none')
        coordinates = q[info.q]
        value = (
            weight(float(coordinates[0]) if coordinates.size == 1 else coordinates.copy())
            if callable(weight)
            else weight
        )
        v = info.v_start
        rows[v : v + info.nv, : info.nv] = _matrix(value, info.nv, f'{what} of joint "{name}"')
    return rows


@inner
def _add_rigid_part(links, table, c, shares, link_map, part, rx, ry, rz, rows, velocities, sums, node):
    """Add inertia, momentum and energy of the rigid node `part` about the point r to those of `node`."""
    top = table[part, TOP]
    k = link_map.cluster[top]
    a, ax, ay, az = cluster_pose(links, link_map, top)
    ox, oy, oz = rows[k, R + 3] - rx, rows[k, R + 7] - ry, rows[k, R + 11] - rz
    r, x, y, z = composed(rotation(k, rows), ox, oy, oz, a, ax, ay, az)
    e = inertia_row(shares, part) if len(shares) > 0 else inertia_of(part, len(table) // 2, c)
    g = moved_inertia(e, r, x, y, z)
    wx, wy, wz = velocities[k, 0], velocities[k, 1], velocities[k, 2]
    tx, ty, tz = cross(wx, wy, wz, ox, oy, oz)
    vx, vy, vz = velocities[k, 3] - tx, velocities[k, 4] - ty, velocities[k, 5] - tz
    m, hx, hy, hz = g[9], g[6], g[7], g[8]
    tx, ty, tz = cross(wx, wy, wz, hx, hy, hz)
    px, py, pz = m * vx + tx, m * vy + ty, m * vz + tz
    tx, ty, tz = cross(hx, hy, hz, vx, vy, vz)
    lx = g[0] * wx + g[3] * wy + g[4] * wz + tx
    ly = g[3] * wx + g[1] * wy + g[5] * wz + ty
    lz = g[4] * wx + g[5] * wy + g[2] * wz + tz
    for j in range(10):
        sums[node, j] += g[j]
    sums[node, 10] += lx
    sums[node, 11] += ly
    sums[node, 12] += lz
    sums[node, 13] += px
    sums[node, 14] += py
    sums[node, 15] += pz
    sums[node, 16] += wx * lx + wy * ly + wz * lz + vx * px + vy * py + vz * pz


@inner
def _energy_lost(s, node):
    """Return 2 T - h^T I^-1 h of the sums of `node`."""
    g = (
        s[node, 0], s[node, 1], s[node, 2], s[node, 3], s[node, 4], s[node, 5],
        s[node, 6], s[node, 7], s[node, 8], s[node, 9],
    )  # fmt: skip
    x, y, z, xx, yy, zz, xy, xz, yz = com_inertia(g)
    px, py, pz = s[node, 13], s[node, 14], s[node, 15]
    tx, ty, tz = cross(x, y, z, px, py, pz)
    lx, ly, lz = s[node, 10] - tx, s[node, 11] - ty, s[node, 12] - tz
    _, ax, ay, az = solve_symmetric_3((xx, yy, zz, xy, xz, yz), lx, ly, lz)
    return s[node, 16] - (px * px + py * py + pz * pz) / g[9] - (lx * ax + ly * ay + lz * az)


@outlined
def mass_velocity_metric(links, table, c, shares, link_map, roots, count, body, qd, work, g):
    """Fill the velocity metric of the `count` transient nodes, which move with qd (of the transient `body`)."""
    link_velocities(body.links, body.whole, qd, work, g.velocities)
    rows = work.rows
    for j in range(count):
        node = g.transient_nodes[j]
        k = link_map.cluster[table[roots[table[node, TREE_INDEX]], TOP]]
        rx, ry, rz = rows[k, R + 3], rows[k, R + 7], rows[k, R + 11]
        for p in range(17):
            g.sums[node, p] = 0.0
        for side in range(2):
            part = table[node, FIRST_SIDE] if side == 0 else table[node, SECOND_SIDE]
            if part < 0:
                continue
            if g.transient_region[part]:
                for p in range(17):
                    g.sums[node, p] += g.sums[part, p]
            else:
                _add_rigid_part(links, table, c, shares, link_map, part, rx, ry, rz, rows, g.velocities, g.sums, node)
        hung = table[node, UP] < 0 and table[node, KIND] != FREE
        g.velocity_metric[node] = max(g.sums[node, 16] if hung else _energy_lost(g.sums, node), 0.0)
