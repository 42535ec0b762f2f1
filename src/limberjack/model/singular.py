"""Which massless links a tree can carry: the joint-space inertia must be positive at a generic pose.

Plain NumPy, run only for models that have a link without full inertia. The pose is a fixed generic one, so that a
joint that fails here fails everywhere, and a special start pose (a point mass right on its axis) does not.
"""

from __future__ import annotations

import numpy as np

from limberjack.model import joints as jt
from limberjack.model.arrays import Links
from limberjack.spatial import frames

__all__ = ["has_thin_links", "singular_link"]

_TOLERANCE = 1e-12


def has_thin_links(links: Links) -> bool:
    """Return whether any link lacks mass or the inertia of an extended body."""
    mass, h = links.inertia[:, 9], links.inertia[:, 6:9]
    if (mass <= 0).any():
        return True
    c = h / mass[:, None]
    s = frames.skew(c)
    central = links.inertia[:, [0, 3, 4, 3, 1, 5, 4, 5, 2]].reshape(-1, 3, 3) - mass[:, None, None] * (
        s @ np.swapaxes(s, 1, 2)
    )
    scale = np.maximum(np.trace(central, axis1=1, axis2=2), 1e-300)
    return bool((np.linalg.eigvalsh(central)[:, 0] <= 1e-9 * scale).any())


def _factors(links: Links, i: int) -> tuple[jt.Factor, ...]:
    q0, v0 = int(links.q_start[i]), int(links.v_start[i])
    plain = {jt.HINGE: "hinge", jt.SLIDE: "slide", jt.BALL: "ball", jt.FREE: "free"}.get(int(links.kind[i]))
    if plain:
        place, out = [0, 0], []
        for kind, axis in jt.KINDS[plain].motions:
            out.append(jt.Factor(kind, axis, (0.0, 0.0, 0.0), 0.0, place[0], place[1]))
            place = [place[0] + (4 if kind == jt.SPIN else 1), place[1] + (3 if kind == jt.SPIN else 1)]
        return tuple(out)
    return tuple(
        jt.Factor(
            int(links.factor_kind[k]), tuple(links.factor_data[k, :3]), tuple(links.factor_data[k, 3:6]),
            float(links.factor_data[k, 6]), int(links.factor_place[k, 0]) - q0, int(links.factor_place[k, 1]) - v0,
        )
        for k in range(links.factor_start[i], links.factor_start[i + 1])
    )  # fmt: skip


def singular_link(links: Links, nq: int) -> int:
    """Return the first link (from the leaves) whose joint has no inertia to act on, or -1."""
    n = len(links.parent)
    rng = np.random.default_rng(2005)
    q = rng.uniform(0.3, 0.9, nq)
    for place, _ in links.quaternions:
        q[place : place + 4] /= np.linalg.norm(q[place : place + 4])
    inertia = np.zeros((n, 6, 6))
    placed, subspace = [], []
    for i in range(n):
        row = links.inertia[i]
        hx = frames.skew(row[6:9])
        inertia[i, :3, :3] = row[[0, 3, 4, 3, 1, 5, 4, 5, 2]].reshape(3, 3)
        inertia[i, :3, 3:], inertia[i, 3:, :3], inertia[i, 3:, 3:] = hx, hx.T, row[9] * np.eye(3)
        factors = _factors(links, i)
        own = q[links.q_start[i] : links.q_start[i] + 7]
        base = (links.placement[i, :9].reshape(3, 3), links.placement[i, 9:])
        r, p = jt.transform(factors, own)
        s = jt.motion_subspace(factors, own)
        turn = np.kron(np.eye(2), r.T)
        placed.append(frames.compose(*base, r, p))
        subspace.append(turn @ s)
    for i in range(n - 1, -1, -1):
        s, full = subspace[i], inertia[i]
        u = full @ s
        d = s.T @ u + np.diag(links.armature[links.v_start[i] : links.v_start[i] + s.shape[1]])
        if s.shape[1]:
            scale = max(np.abs(full).max(), 1e-300)
            if not np.isfinite(d).all() or np.linalg.eigvalsh(d)[0] <= _TOLERANCE * scale or np.abs(d).max() == 0.0:
                return i
            full = full - u @ np.linalg.solve(d, u.T)
        if links.parent[i] >= 0:
            r, p = placed[i]
            x = np.zeros((6, 6))
            x[:3, :3] = x[3:, 3:] = r.T
            x[3:, :3] = -r.T @ frames.skew(p)
            inertia[links.parent[i]] += x.T @ full @ x
    return -1
