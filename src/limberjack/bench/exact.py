"""Motions known in closed form.

Pendulum A01 of the IFToMM library: with k = sin(90 deg / 2), w = sqrt(g / l) and the quarter period K(k) / w its angle
theta from hanging follows

    sin(theta / 2) = k sn(w t + K, k)
"""

from __future__ import annotations

import math

__all__ = ["exact_pendulum"]


def _means(k: float) -> list[tuple[float, float]]:
    """Return the arithmetic means a and halved gaps c of the arithmetic-geometric mean of 1 and sqrt(1 - k^2)."""
    a, b, c = 1.0, math.sqrt(1.0 - k * k), k
    out = [(a, c)]
    while abs(c) > 1e-17:
        a, b, c = 0.5 * (a + b), math.sqrt(a * b), 0.5 * (a - b)
        out.append((a, c))
        if len(out) > 20:
            break
    return out


def _sn(u: float, k: float) -> float:
    """Return Jacobi's elliptic sine by descending Landen steps."""
    means = _means(k)
    angle = 2.0 ** (len(means) - 1) * means[-1][0] * u
    for a, c in reversed(means[1:]):
        angle = 0.5 * (angle + math.asin(c / a * math.sin(angle)))
    return math.sin(angle)


def exact_pendulum(t: float) -> tuple[float, float]:
    """Return where the mass of A01 is at time t, (x, y) [m]."""
    k, w = math.sqrt(0.5), math.sqrt(9.81)
    quarter = 0.5 * math.pi / _means(k)[-1][0]
    u = math.fmod(w * t, 4.0 * quarter)
    theta = -2.0 * math.asin(k * _sn(u + quarter, k))
    return math.sin(theta), -math.cos(theta)
