"""From collision to collision: spheres, and boxes that do not turn, fly exactly until the next two meet.

Between collisions all bodies follow x + v t + g t^2 / 2; the earliest time at which two shapes touch is the root of a
polynomial of second order at most. There they bounce,

    j = -(1 + e) u_n / (1 / m_a + 1 / m_b),

and the search begins anew. Nothing is rounded to a step, so that collisions can be counted (Galperin's billiard).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from limberjack._jit import inner, kernel, outlined
from limberjack.methods.impulses.motion import turned
from limberjack.methods.impulses.steps import put_back, remember

__all__ = ["ASIDE", "EDGE", "ENDLESS", "FLAT", "ROUND", "RUBS", "SQUARE", "Meetings", "take_event_steps"]

# How two shapes meet: two spheres, anything on a plane, boxes or a sphere along the axes of a box.
ROUND, FLAT, SQUARE = range(3)
# Failures, to which four times the pair is added: friction would act; the line of the push misses a middle; a sphere
# comes to an edge; there is no end of collisions.
FAILED = -(2**45)
RUBS, ASIDE, EDGE, ENDLESS = range(4)
# Collisions allowed in one step.
MOST = 100_000
# What counts as 0 beside 1.
_TINY = 1e-9


class Meetings(NamedTuple):
    """Pairs of shapes that may meet; p of them, for as long as no box turns."""

    kind: np.ndarray  # (p,) ROUND, FLAT, SQUARE
    link: np.ndarray  # (p, 2) bodies a and b, -1 = static
    axes: np.ndarray  # (p, 9) axes of b in the world, one after the other; of a plane the last is its normal
    reach: np.ndarray  # (p, 3) distance of the middles at which they touch along each axis; one of spheres
    inner: np.ndarray  # (p, 3) half sizes of a box that a sphere meets, infinite otherwise
    place: np.ndarray  # (p, 3) middle of b where it is static
    friction: np.ndarray  # (p,)
    restitution: np.ndarray  # (p,)
    ball: np.ndarray  # (n,) 1 where a body is a sphere
    count: np.ndarray  # (1,) collisions so far


@inner
def _between(m, k, gravity, pose, u):
    """Return where a is from b, its velocity and its acceleration."""
    a, b = m.link[k, 0], m.link[k, 1]
    x, y, z = pose[a, 0], pose[a, 1], pose[a, 2]
    vx, vy, vz = u[6 * a + 3], u[6 * a + 4], u[6 * a + 5]
    if b >= 0:
        d = (x - pose[b, 0], y - pose[b, 1], z - pose[b, 2])
        return d, (vx - u[6 * b + 3], vy - u[6 * b + 4], vz - u[6 * b + 5]), (0.0, 0.0, 0.0)
    d = (x - m.place[k, 0], y - m.place[k, 1], z - m.place[k, 2])
    return d, (vx, vy, vz), (gravity[0], gravity[1], gravity[2])


@inner
def _dot(a, b):
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


@inner
def _axis(m, k, i):
    return m.axes[k, 3 * i], m.axes[k, 3 * i + 1], m.axes[k, 3 * i + 2]


@inner
def _arrival(s, v, a):
    """Return when a gap s that changes at v, and that at a, comes to 0 from above; infinite for never."""
    if s <= 0.0:
        if v < 0.0 or (v == 0.0 and a < 0.0):
            return 0.0
        return -2.0 * v / a if a < 0.0 else np.inf
    left = v * v - 2.0 * a * s
    if left < 0.0:
        return np.inf
    fast = math.sqrt(left) - v
    return 2.0 * s / fast if fast > 0.0 else np.inf


@inner
def _round_time(m, k, d, v):
    along, c = _dot(d, v), _dot(d, d) - m.reach[k, 0] * m.reach[k, 0]
    if along >= 0.0:
        return np.inf
    if c <= 0.0:
        return 0.0
    left = along * along - _dot(v, v) * c
    return c / (math.sqrt(left) - along) if left > 0.0 else np.inf


@outlined
def _square_time(m, k, d, v, a):
    """Return when the boxes of pair k touch and the axis they do it along."""
    best, at, least, flat = np.inf, -1, np.inf, -1
    for i in range(3):
        over = m.reach[k, i] - abs(_dot(_axis(m, k, i), d))
        if over < least:
            least, flat = over, i
    for i in range(3):
        axis = _axis(m, k, i)
        x, w, f = _dot(axis, d), _dot(axis, v), _dot(axis, a)
        for side in (1.0, -1.0):
            t = _arrival(side * x - m.reach[k, i], side * w, side * f)
            # a gap that is none, on the far side or of boxes beside each other, is no arrival
            if not t < best or side * x < -_TINY * m.reach[k, i] or (side * x < m.reach[k, i] and i != flat):
                continue
            meets = True
            for j in range(3):
                other = _axis(m, k, j)
                y = _dot(other, d) + t * (_dot(other, v) + 0.5 * t * _dot(other, a))
                meets = meets and (j == i or abs(y) < (1.0 - _TINY) * m.reach[k, j])
            if meets:
                best, at = t, i
    return best, at


@outlined
def _next(m, gravity, pose, u):
    """Return the time until the next collision, its pair and its axis."""
    best, pair, along = np.inf, -1, 2
    for k in range(len(m.kind)):
        d, v, a = _between(m, k, gravity, pose, u)
        axis = 2
        if m.kind[k] == ROUND:
            t = _round_time(m, k, d, v)
        elif m.kind[k] == FLAT:
            normal = _axis(m, k, 2)
            t = _arrival(_dot(normal, d) - m.reach[k, 2], _dot(normal, v), _dot(normal, a))
        else:
            t, axis = _square_time(m, k, d, v, a)
        if t < best:
            best, pair, along = t, k, axis
    return best, pair, along


@outlined
def _fly(t, gravity, ball, u, pose):
    """Let all bodies fly for t."""
    for i in range(len(ball)):
        o = 6 * i
        if ball[i]:
            pose[i, 3], pose[i, 4], pose[i, 5], pose[i, 6] = turned(t * u[o], t * u[o + 1], t * u[o + 2], pose, i)
        for c in range(3):
            pose[i, c] += t * (u[o + 3 + c] + 0.5 * t * gravity[c])
            u[o + 3 + c] += t * gravity[c]


@outlined
def _bounce(m, k, axis, gravity, mass, pose, u):
    """Let pair k bounce; return 0 or a failure."""
    a, b = m.link[k, 0], m.link[k, 1]
    d, v, _ = _between(m, k, gravity, pose, u)
    n = _axis(m, k, axis)
    if m.kind[k] == ROUND:
        f = 1.0 / math.sqrt(_dot(d, d))
        n = (f * d[0], f * d[1], f * d[2])
    elif _dot(n, d) < 0.0 and m.kind[k] == SQUARE:
        n = (-n[0], -n[1], -n[2])
    if m.kind[k] == SQUARE:
        for j in range(3):
            y = abs(_dot(_axis(m, k, j), d))
            if j != axis and y > m.inner[k, j]:
                return FAILED + 4 * k + EDGE
            if j != axis and b >= 0 and y > _TINY * m.reach[k, j]:
                return FAILED + 4 * k + ASIDE
    un = _dot(n, v)
    if m.friction[k] > 0.0:
        across = (v[0] - un * n[0], v[1] - un * n[1], v[2] - un * n[2])
        most = _dot(across, across)
        for i in (a, b):
            if i >= 0:
                most = max(most, u[6 * i] ** 2 + u[6 * i + 1] ** 2 + u[6 * i + 2] ** 2)
        if most > (_TINY * un) ** 2:
            return FAILED + 4 * k + RUBS
    push = -(1.0 + m.restitution[k]) * un / (1.0 / mass[a] + (1.0 / mass[b] if b >= 0 else 0.0))
    for c in range(3):
        u[6 * a + 3 + c] += push * n[c] / mass[a]
        if b >= 0:
            u[6 * b + 3 + c] -= push * n[c] / mass[b]
    m.count[0] += 1
    return 0


@kernel
def take_event_steps(
    # in
    n, dt, gravity, mass,
    # out
    m, s,
):  # fmt: skip
    """Take n steps dt from collision to collision; stop at the first that fails and put back the state before it.

    Args:
        n: steps.
        dt: step [s].
        gravity: (3,).
        mass: (n,) of the bodies.
        m: what may meet; its count goes on.
        s: the state.

    Returns:
        steps taken, and 0 or FAILED + 4 pair + reason.
    """
    for step in range(n):
        remember(s)
        left, before, status = dt, m.count[0], 0
        while status == 0:
            t, pair, axis = _next(m, gravity, s.pose, s.u)
            if not t <= left:
                _fly(left, gravity, m.ball, s.u, s.pose)
                break
            _fly(t, gravity, m.ball, s.u, s.pose)
            left -= t
            status = _bounce(m, pair, axis, gravity, mass, s.pose, s.u)
            if m.count[0] - before > MOST:
                status = FAILED + 4 * pair + ENDLESS
        if status != 0:
            put_back(s)
            m.count[0] = before
            return step, status
    return n, 0
