"""Motions known in closed form, or of so few dofs that a page of formulas and many small steps give all digits.

Pendulum A01 of the IFToMM library: with k = sin(90 deg / 2), w = sqrt(g / l) and the quarter period K(k) / w its angle
theta from hanging follows

    sin(theta / 2) = k sn(w t + K, k)

All cranks of A02 turn together: one dof. The governor A05 keeps its angular momentum and has two, the angle of its
rods below the horizontal and the height of its slider.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

__all__ = ["exact_four_bars", "exact_governor", "exact_pendulum"]

_G = 9.81
_Rates = Callable[[tuple[float, ...]], tuple[float, ...]]


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


def _follow(rates: _Rates, state: tuple[float, ...], t: float, h: float) -> tuple[float, ...]:
    """Return the state after t by steps of about h of the classical Runge-Kutta formula."""
    n = max(1, round(t / h))
    h = t / n
    for _ in range(n):
        a = rates(state)
        b = rates(tuple(x + 0.5 * h * r for x, r in zip(state, a, strict=True)))
        c = rates(tuple(x + 0.5 * h * r for x, r in zip(state, b, strict=True)))
        d = rates(tuple(x + h * r for x, r in zip(state, c, strict=True)))
        state = tuple(
            x + h / 6.0 * (p + 2.0 * q + 2.0 * r + s) for x, p, q, r, s in zip(state, a, b, c, d, strict=True)
        )
    return state


@cache
def exact_four_bars(t: float, loops: int = 40) -> tuple[float, float]:
    """Return where B0 of A02 is at time t, (x, y) [m]: cranks of 1 m about their ends, couplers that only shift."""
    inertia, weight = (loops + 1) / 3.0 + loops, _G * ((loops + 1) / 2.0 + loops)

    def rates(state: tuple[float, ...]) -> tuple[float, ...]:
        return state[1], -weight / inertia * math.cos(state[0])

    angle, _ = _follow(rates, (0.5 * math.pi, -1.0), t, 2e-4)
    return math.cos(angle), math.sin(angle)


@cache
def exact_governor(t: float) -> tuple[float]:
    """Return the height of the slider of A05 at time t [m]."""
    arm, rod, ball, slider, k, c, rest = 0.05, 0.3, 5.0, 3.0, 8e5, 4e4, 0.5
    along, across = rod * 2e-4 / 12.0, rod * (1.0 + 1e-4) / 12.0
    swing = across + 0.25 * rod + ball
    still = rod * 2e-4 / 12.0 + slider * 0.02 / 12.0

    def about_shaft(low: float) -> tuple[float, float]:
        """Return the inertia about the shaft, and its derivative by the angle of the rods."""
        co, si = math.cos(low), math.sin(low)
        own = along * si * si + across * co * co
        middle, end = arm + 0.5 * co, arm + co
        slope = 2.0 * (along - across) * co * si - rod * middle * si - 2.0 * ball * end * si
        return still + 2.0 * (own + rod * middle * middle + ball * end * end), 2.0 * slope

    start = math.radians(30.0)
    momentum = 2.0 * math.pi * about_shaft(start)[0]

    def rates(state: tuple[float, ...]) -> tuple[float, ...]:
        low, s, turning, rising = state
        co, si = math.cos(low), math.sin(low)
        x, z = 0.5 * co, 1.0 - 0.5 * si - s
        length = math.sqrt(x * x + z * z)
        by_angle, by_height = (-0.5 * si * x - 0.5 * co * z) / length, -z / length
        pull = k * (length - rest) + c * (by_angle * turning + by_height * rising)
        inertia, slope = about_shaft(low)
        spin = momentum / inertia
        torque = 0.25 * slope * spin * spin + _G * co * (0.5 * rod + ball) - pull * by_angle
        return turning, rising, torque / swing, -_G - 2.0 * pull * by_height / slider

    return (_follow(rates, (start, 0.5, 0.0, 0.0), t, 5e-5)[1],)
