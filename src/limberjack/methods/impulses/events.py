"""Event-driven steps: spheres, and boxes that do not turn, move exactly from collision to collision.

Between collisions all bodies follow x + v t + g t^2 / 2; the earliest time at which two shapes touch is the root of a
polynomial of second order at most. The colliding pair gets the impulse

    j = -(1 + e) u_n / (1 / m_a + 1 / m_b),

and the search begins anew. Nothing is rounded to a step, so that collisions can be counted (Galperin's billiard).

`take_event_steps` is the kernel; `Billiard` checks a model for it and prepares its pairs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from limberjack._jit import inner, kernel, outlined
from limberjack.collision.shapes import BOX, PLANE, SPHERE, Filters, Shapes
from limberjack.errors import Diverged, LimberjackError, StateError, Status, UnsupportedByMethod
from limberjack.maximal.rows import Maximal
from limberjack.methods.impulses.motion import turned
from limberjack.methods.impulses.step import restore_state, save_state
from limberjack.model.model import Model
from limberjack.spatial.frames import matrix_from_quaternion

__all__ = [
    "Billiard", "CollisionPairs", "EDGE", "ENDLESS", "FLAT", "FRICTION", "OFF_CENTER", "ROUND", "SQUARE",
    "take_event_steps",
]  # fmt: skip

# Kinds of pairs: two spheres, anything on a plane, boxes or a sphere along the axes of a box.
ROUND, FLAT, SQUARE = range(3)
# Reasons of Status.EVENT_REFUSED, to which four times the pair is added: friction would act; the normal misses the
# centre of a box; a sphere hits an edge; collisions accumulate without end.
FRICTION, OFF_CENTER, EDGE, ENDLESS = range(4)
# Collisions allowed in one step.
MAX_COLLISIONS = 100_000
# Relative tolerance of zero.
_TINY = 1e-9


class CollisionPairs(NamedTuple):
    """Pairs of shapes that may collide; p of them, for as long as no box turns."""

    kind: np.ndarray  # (p,) ROUND, FLAT, SQUARE
    link: np.ndarray  # (p, 2) bodies a and b, -1 = static
    axes: np.ndarray  # (p, 9) axes of b in the world, one after the other; of a plane the last is its normal
    reach: np.ndarray  # (p, 3) distance of the centres at contact along each axis; the first alone for two spheres
    inner: np.ndarray  # (p, 3) half edges of a box that a sphere may hit, infinite otherwise
    center: np.ndarray  # (p, 3) centre of b where it is static
    friction: np.ndarray  # (p,)
    restitution: np.ndarray  # (p,)
    ball: np.ndarray  # (n,) 1 where a body is a sphere
    count: np.ndarray  # (1,) collisions so far


@inner
def _relative_motion(m, k, gravity, pose, u):
    """Return position, velocity and acceleration of a relative to b."""
    a, b = m.link[k, 0], m.link[k, 1]
    x, y, z = pose[a, 0], pose[a, 1], pose[a, 2]
    vx, vy, vz = u[6 * a + 3], u[6 * a + 4], u[6 * a + 5]
    if b >= 0:
        d = (x - pose[b, 0], y - pose[b, 1], z - pose[b, 2])
        return d, (vx - u[6 * b + 3], vy - u[6 * b + 4], vz - u[6 * b + 5]), (0.0, 0.0, 0.0)
    d = (x - m.center[k, 0], y - m.center[k, 1], z - m.center[k, 2])
    return d, (vx, vy, vz), (gravity[0], gravity[1], gravity[2])


@inner
def _dot(a, b):
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


@inner
def _axis(m, k, i):
    return m.axes[k, 3 * i], m.axes[k, 3 * i + 1], m.axes[k, 3 * i + 2]


@inner
def _closing_time(s, v, a):
    """Return when a gap s with rate v and acceleration a closes; infinite for never."""
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
    """Return when the boxes of pair k touch, and along which axis."""
    best, at, least, flat = np.inf, -1, np.inf, -1
    for i in range(3):
        over = m.reach[k, i] - abs(_dot(_axis(m, k, i), d))
        if over < least:
            least, flat = over, i
    for i in range(3):
        axis = _axis(m, k, i)
        x, w, f = _dot(axis, d), _dot(axis, v), _dot(axis, a)
        for side in (1.0, -1.0):
            t = _closing_time(side * x - m.reach[k, i], side * w, side * f)
            # overlaps on the far side, or of boxes side by side, do not close
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
def _next_collision(m, gravity, pose, u):
    """Return the time until the next collision, its pair and its axis."""
    best, pair, along = np.inf, -1, 2
    for k in range(len(m.kind)):
        d, v, a = _relative_motion(m, k, gravity, pose, u)
        axis = 2
        if m.kind[k] == ROUND:
            t = _round_time(m, k, d, v)
        elif m.kind[k] == FLAT:
            normal = _axis(m, k, 2)
            t = _closing_time(_dot(normal, d) - m.reach[k, 2], _dot(normal, v), _dot(normal, a))
        else:
            t, axis = _square_time(m, k, d, v, a)
        if t < best:
            best, pair, along = t, k, axis
    return best, pair, along


@outlined
def _move_freely(t, gravity, ball, u, pose):
    """Move all bodies freely for t."""
    for i in range(len(ball)):
        o = 6 * i
        if ball[i]:
            pose[i, 3], pose[i, 4], pose[i, 5], pose[i, 6] = turned(t * u[o], t * u[o + 1], t * u[o + 2], pose, i)
        for c in range(3):
            pose[i, c] += t * (u[o + 3 + c] + 0.5 * t * gravity[c])
            u[o + 3 + c] += t * gravity[c]


@outlined
def _collide(m, k, axis, gravity, mass, pose, u):
    """Apply the collision impulse of pair k; return 0 or a failure."""
    a, b = m.link[k, 0], m.link[k, 1]
    d, v, _ = _relative_motion(m, k, gravity, pose, u)
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
                return Status.EVENT_REFUSED + 4 * k + EDGE
            if j != axis and b >= 0 and y > _TINY * m.reach[k, j]:
                return Status.EVENT_REFUSED + 4 * k + OFF_CENTER
    un = _dot(n, v)
    if m.friction[k] > 0.0:
        across = (v[0] - un * n[0], v[1] - un * n[1], v[2] - un * n[2])
        most = _dot(across, across)
        for i in (a, b):
            if i >= 0:
                most = max(most, u[6 * i] ** 2 + u[6 * i + 1] ** 2 + u[6 * i + 2] ** 2)
        if most > (_TINY * un) ** 2:
            return Status.EVENT_REFUSED + 4 * k + FRICTION
    impulse = -(1.0 + m.restitution[k]) * un / (1.0 / mass[a] + (1.0 / mass[b] if b >= 0 else 0.0))
    for c in range(3):
        u[6 * a + 3 + c] += impulse * n[c] / mass[a]
        if b >= 0:
            u[6 * b + 3 + c] -= impulse * n[c] / mass[b]
    m.count[0] += 1
    return 0


@kernel
def take_event_steps(
    # in
    n, dt, gravity, mass,
    # out
    m, s,
):  # fmt: skip
    """Take n steps dt from collision to collision; stop at the first that fails and restore the state before it.

    Args:
        n: steps.
        dt: step [s].
        gravity: (3,).
        mass: (n,) of the bodies.
        m: pairs that may collide; its count goes on.
        s: the state.

    Returns:
        steps taken, and 0 or Status.EVENT_REFUSED + 4 pair + reason.
    """
    for step in range(n):
        save_state(s)
        left, before, status = dt, m.count[0], 0
        while status == 0:
            t, pair, axis = _next_collision(m, gravity, s.pose, s.u)
            if not t <= left:
                _move_freely(left, gravity, m.ball, s.u, s.pose)
                break
            _move_freely(t, gravity, m.ball, s.u, s.pose)
            left -= t
            status = _collide(m, pair, axis, gravity, mass, s.pose, s.u)
            if m.count[0] - before > MAX_COLLISIONS:
                status = Status.EVENT_REFUSED + 4 * pair + ENDLESS
        if status != 0:
            restore_state(s)
            m.count[0] = before
            return step, status
    return n, 0


_NAMES = {SPHERE: "sphere", BOX: "box", PLANE: "plane"}
_WHY = 'method "impulses" with events=True'


class Billiard:
    """The colliding shapes of a model, prepared for event-driven steps; raises where these are not possible.

    Args:
        model: the model.
        whole: the model in maximal coordinates.
        shapes: its colliding shapes.
        filters: pairs that do not collide.
        names: of the shapes.
    """

    def __init__(self, model: Model, whole: Maximal, shapes: Shapes, filters: Filters, names: Sequence[str]) -> None:
        if whole.names:
            raise UnsupportedByMethod(f'{_WHY} does not support joints; there is joint "{whole.names[0]}"')
        if model.springs:
            raise UnsupportedByMethod(f'{_WHY} does not support springs; there is "{model.springs[0].name}"')
        self._names, self._shapes, n = names, shapes, len(whole.bodies.kind)
        self._body = [model.body_names[int(np.flatnonzero(model.arrays.body_link == i)[0])] for i in range(n)]
        gravity = bool(np.any(np.array(model.gravity) != 0.0))
        owner: dict[int, int] = {}
        for k in range(len(shapes.kind)):
            self._check(k, gravity)
            link = int(shapes.link[k])
            if link >= 0 and link in owner:
                raise UnsupportedByMethod(
                    f'{_WHY} needs one shape per body; "{self._body[link]}" has "{names[owner[link]]}" and "{names[k]}"'
                )
            owner[link] = k
        self._pairs = [(a, b) for a in range(len(shapes.kind)) for b in range(a) if self._may_collide(filters, a, b)]
        p, ball = len(self._pairs), np.zeros(n, np.int64)
        for link, k in owner.items():
            if link >= 0:
                ball[link] = shapes.kind[k] == SPHERE
        self.collision_pairs = CollisionPairs(
            np.zeros(p, np.int64), np.zeros((p, 2), np.int64), np.zeros((p, 9)), np.zeros((p, 3)), np.zeros((p, 3)),
            np.zeros((p, 3)), np.zeros(p), np.zeros(p), ball, np.zeros(1, np.int64),
        )  # fmt: skip

    def _check(self, k: int, gravity: bool) -> None:
        kind, link, name = int(self._shapes.kind[k]), int(self._shapes.link[k]), self._names[k]
        if kind not in _NAMES or (kind == PLANE and link >= 0):
            raise UnsupportedByMethod(f'{_WHY} supports spheres, boxes and static planes; shape "{name}" is another')
        if link >= 0 and np.abs(self._shapes.offset[k, :3]).max() > 1e-12:
            raise UnsupportedByMethod(f'{_WHY} needs shapes centred at the com; "{name}" is not')
        if kind == SPHERE and link < 0 and gravity:
            raise UnsupportedByMethod(f'{_WHY} supports no static sphere under gravity; "{name}" is one')

    def _may_collide(self, filters: Filters, a: int, b: int) -> bool:
        s = self._shapes
        if s.link[a] < 0 and s.link[b] < 0 or (s.group[a] != 0 and s.group[a] == s.group[b]):
            return False
        first, last = filters.apart_start[s.body[a] + 1], filters.apart_start[s.body[a] + 2]
        return int(s.body[b]) + 1 not in filters.apart[first:last].tolist()

    def prepare(self, pose: np.ndarray, u: np.ndarray, forces: Any, grips: Sequence[Any]) -> None:
        """Prepare for steps from a state; raise where a box turns, a force acts or boxes are not aligned."""
        if len(forces.wrenches.link) or forces.tau.any() or grips:
            raise StateError(f"{_WHY} supports no force but gravity; clear wrenches, forces and grips")
        s, m = self._shapes, self.collision_pairs
        for i in np.flatnonzero(m.ball == 0):
            if np.abs(u[6 * i : 6 * i + 3]).max() > 1e-12:
                raise StateError(f'{_WHY} does not support turning boxes; body "{self._body[i]}" turns')
        turns = [matrix_from_quaternion(s.offset[k, 3:]) for k in range(len(s.kind))]
        for k, link in enumerate(s.link):
            if link >= 0:
                turns[k] = matrix_from_quaternion(pose[link, 3:7]) @ turns[k]
        for p, (a, b) in enumerate(self._pairs):
            if s.link[a] < 0:
                a, b = b, a
            m.link[p] = s.link[a], s.link[b]
            m.center[p] = s.offset[b, :3] if s.link[b] < 0 else 0.0
            largest = max(s.friction[a], s.friction[b])
            m.friction[p] = largest if s.larger[a] or s.larger[b] else np.sqrt(s.friction[a] * s.friction[b])
            m.restitution[p] = max(s.restitution[a], s.restitution[b])
            self._set_pair(p, a, b, turns)

    def _set_pair(self, p: int, a: int, b: int, turns: list[np.ndarray]) -> None:
        """Fill kind, axes and reach of pair p."""
        s, m = self._shapes, self.collision_pairs
        kinds, m.inner[p] = (int(s.kind[a]), int(s.kind[b])), np.inf
        square = b if kinds[1] != SPHERE else a
        m.axes[p] = turns[square].T.ravel()
        if kinds == (SPHERE, SPHERE):
            m.kind[p], m.reach[p] = ROUND, s.size[a, 0] + s.size[b, 0]
        elif kinds[1] == PLANE:
            m.kind[p] = FLAT
            m.reach[p] = s.size[a, 0] if kinds[0] == SPHERE else np.abs(turns[b].T @ turns[a]) @ s.size[a]
        elif SPHERE in kinds:
            m.kind[p], m.inner[p] = SQUARE, s.size[square]
            m.reach[p] = s.size[square] + s.size[b if square == a else a, 0]
        else:
            between = turns[b].T @ turns[a]
            if np.abs(between * (1.0 - np.abs(between))).max() > 1e-12:
                raise StateError(
                    f'{_WHY} needs boxes with parallel faces; "{self._names[a]}" and "{self._names[b]}" are not aligned'
                )
            m.kind[p], m.reach[p] = SQUARE, np.abs(np.round(between)) @ s.size[a] + s.size[b]

    def explain(self, status: int, where: str) -> tuple[type[LimberjackError], str, str] | None:
        """Return (error, joint, message) of a failure, None where it is none of these."""
        kind, index = Status.of(status)
        if kind != Status.EVENT_REFUSED:
            return None
        pair, reason = divmod(index, 4)
        both = " and ".join(f'"{self._names[k]}"' for k in self._pairs[pair])
        if reason == FRICTION:
            return StateError, "", f"{_WHY} does not support friction; {both} slide on each other at {where}"
        if reason == OFF_CENTER:
            return StateError, "", f"{_WHY} supports central collisions of boxes; {both} collide off centre at {where}"
        if reason == EDGE:
            return StateError, "", f"{_WHY} does not support edges; of {both} one hits an edge at {where}"
        return (
            Diverged,
            "",
            f"{both} collide more than {MAX_COLLISIONS} times within a step at {where}: they come to rest",
        )
