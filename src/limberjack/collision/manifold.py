"""From many candidates of a flat contact to a few spots that span it."""

from __future__ import annotations

import math

from limberjack._jit import inner, outlined

__all__ = ["add_near", "choose_near"]

# Directions of the plane in which the outermost candidates are kept: askew, so that upright rectangles have no ties.
_TILT = 0.8
_HALF_ROOT = math.sqrt(0.5)


@inner
def add_near(n, u, v, gap, key, near, near_keys):
    """Write candidate n: its coordinates in the plane of contact, gap and key; return n + 1."""
    if n >= len(near):
        return n
    near[n, 0], near[n, 1], near[n, 2], near[n, 3] = u, v, gap, 0.0
    near_keys[n] = key
    return n + 1


@inner
def _score(k, near, u, v, steep):
    return u * near[k, 0] + v * near[k, 1] - steep * near[k, 2]


@outlined
def choose_near(n, most, slack, steep, near):
    """Mark with 1 in the last column at most 4 or 8 of the n candidates, as `most` says; return the number marked.

    The outermost in as many directions that are fixed in the plane, so that a resting contact keeps its spots, and the
    deepest where it is deeper than those by more than slack. A candidate that lies further out counts for `steep` times
    its gap less: of a round body the outermost ones that are near enough do not touch.
    """
    if n <= most:
        for k in range(n):
            near[k, 3] = 1.0
        return n
    u, v, count, held = 1.0, _TILT, 0, 0
    for _ in range(most):
        best = 0
        for k in range(1, n):
            if _score(k, near, u, v, steep) > _score(best, near, u, v, steep) + 1e-9 * slack:
                best = k
        if near[best, 3] == 0.0:
            near[best, 3] = 1.0
            count += 1
        u, v = (-v, u) if most == 4 else (_HALF_ROOT * (u - v), _HALF_ROOT * (u + v))
    deepest = 0
    for k in range(n):
        if near[k, 2] < near[deepest, 2]:
            deepest = k
        if near[k, 3] == 1.0 and (near[held, 3] == 0.0 or near[k, 2] < near[held, 2]):
            held = k
    if near[deepest, 3] == 0.0 and near[deepest, 2] < near[held, 2] - slack:
        if count == most:
            nearest, least = 0, 1e300
            for k in range(n):
                if near[k, 3] == 1.0:
                    square = (near[k, 0] - near[deepest, 0]) ** 2 + (near[k, 1] - near[deepest, 1]) ** 2
                    if square < least:
                        nearest, least = k, square
            near[nearest, 3] = 0.0
            count -= 1
        near[deepest, 3] = 1.0
        count += 1
    return count
