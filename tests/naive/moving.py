"""Frames that move in a known way, and derivatives by differences: what rows of constraints are checked against."""

from __future__ import annotations

import numpy as np
from tests.naive import rotations as rot
from tests.naive.models import quaternion

STEP = 1e-3


class Mover:
    """A frame on a smooth path: pose at any time, velocity and acceleration at time 0, world axes."""

    def __init__(self, rng, still=False):
        on = 0.0 if still else 1.0
        self.r, self.p = rot.matrix(quaternion(rng)), rng.uniform(-1, 1, 3)
        self.w, self.v, self.dw, self.dv = on * rng.uniform(-1, 1, (4, 3))

    def at(self, t):
        """Return (R, p) at time t; angular velocity w and acceleration dw at 0, since the vector's own turn is none."""
        turn = rot.from_vector(self.w * t + 0.5 * self.dw * t * t)
        return turn @ self.r, self.p + self.v * t + 0.5 * self.dv * t * t


def rate(function, h=STEP):
    """Return the derivative of function(t) at 0, of fourth order."""
    return (8 * (function(h) - function(-h)) - (function(2 * h) - function(-2 * h))) / (12 * h)


def second(function, h=STEP):
    """Return the second derivative of function(t) at 0, of fourth order."""
    near, far = function(h) + function(-h), function(2 * h) + function(-2 * h)
    return (16 * near - far - 30 * function(0.0)) / (12 * h * h)


def element(code, i, j, a, b):
    """Return the value of an element between frames a and b, each (R, p) in the world."""
    (ra, pa), (rb, pb) = a, b
    turn, d = ra.T @ rb, pb - pa
    if code == 0:
        return ra[:, i] @ d
    if code == 1:
        return turn[i, j]
    if code == 2:
        return np.linalg.norm(d)
    if code == 3:
        y, x = [
            (turn[1, 0] - turn[0, 1], turn[0, 0] + turn[1, 1]), (turn[2, 1], turn[1, 1]), (turn[0, 2], turn[0, 0]),
        ][i]  # fmt: skip
        return np.arctan2(y, x)
    raise ValueError(f"element {code} has no value")
