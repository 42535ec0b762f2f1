"""How fast a contact leaves after a step in which it bounces."""

from __future__ import annotations

import math

from limberjack._jit import inner

__all__ = ["rebound"]


@inner
def rebound(e, before, free, gap, h):
    """Return the speed after a semi-implicit step in which a contact over a gap bounces; < 0 where it rises no more.

    Such steps, v <- v - a h, z <- z + h v, keep v^2 / 2 + a z - a h v / 2, not the energy: this is what the bounce
    leaves e^2 of, so that free flights before and after reach heights of this ratio, whatever the step.

    Args:
        e: restitution.
        before, free: the rate of the contact at the start, < 0, and at the end if nothing touched.
        gap: at the start, < 0 where they overlap.
        h: step [s].
    """
    pull, gap = max(before - free, 0.0), max(gap, 0.0)
    fall = 2.0 * pull * gap / h
    square = 0.25 * pull * pull - fall + e * e * (before * before + fall - pull * before)
    return (math.sqrt(square) if square > 0.0 else 0.0) - 0.5 * pull
