"""Inertia in place of the stiffness that constraint forces have, since they turn with the bodies they act on."""

from __future__ import annotations

from limberjack._jit import outlined
from limberjack.maximal.bodies import PLANAR, RIGID

__all__ = ["add_inertia"]


@outlined
def add_inertia(bodies, scale, k, m):
    """Multiply the inertias of rigid and planar bodies by 1 + scale k."""
    for i in range(len(k)):
        o, f = bodies.block[i], 1.0 + scale * k[i]
        if bodies.kind[i] == RIGID:
            for r in range(3):
                for c in range(3):
                    m[o + 6 * r + c] *= f
        elif bodies.kind[i] == PLANAR:
            m[o + 8] *= f
