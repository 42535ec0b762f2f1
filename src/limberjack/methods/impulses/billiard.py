"""What may meet from collision to collision (`events.py`): checked, and prepared for the kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from limberjack.collision.shapes import BOX, PLANE, SPHERE, Filters, Shapes
from limberjack.constraints.maximal import Maximal
from limberjack.errors import Diverged, LimberjackError, StateError, UnsupportedByMethod
from limberjack.methods.impulses.events import ASIDE, EDGE, FAILED, FLAT, MOST, ROUND, RUBS, SQUARE, Meetings
from limberjack.model.model import Model
from limberjack.spatial.frames import matrix_from_quaternion

__all__ = ["Billiard"]

_NAMES = {SPHERE: "sphere", BOX: "box", PLANE: "plane"}
_WHY = 'method "impulses" with events=True'


class Billiard:
    """The shapes of a model that fly from collision to collision; raises where that cannot be.

    Args:
        model: the model.
        whole: the model in maximal coordinates.
        shapes: its colliding shapes.
        filters: pairs that do not collide.
        names: of the shapes.
    """

    def __init__(self, model: Model, whole: Maximal, shapes: Shapes, filters: Filters, names: Sequence[str]) -> None:
        if whole.names:
            raise UnsupportedByMethod(f'{_WHY} moves bodies without joints; there is joint "{whole.names[0]}"')
        if model.springs:
            raise UnsupportedByMethod(f'{_WHY} knows no springs; there is "{model.springs[0].name}"')
        self._names, self._shapes, n = names, shapes, len(whole.bodies.kind)
        self._body = [model.body_names[int(np.flatnonzero(model.arrays.body_link == i)[0])] for i in range(n)]
        gravity = bool(np.any(np.array(model.gravity) != 0.0))
        owner: dict[int, int] = {}
        for k in range(len(shapes.kind)):
            self._check(k, gravity)
            link = int(shapes.link[k])
            if link >= 0 and link in owner:
                raise UnsupportedByMethod(
                    f'{_WHY} takes one shape per body; "{self._body[link]}" has "{names[owner[link]]}" and "{names[k]}"'
                )
            owner[link] = k
        self._pairs = [(a, b) for a in range(len(shapes.kind)) for b in range(a) if self._meets(filters, a, b)]
        p, ball = len(self._pairs), np.zeros(n, np.int64)
        for link, k in owner.items():
            if link >= 0:
                ball[link] = shapes.kind[k] == SPHERE
        self.meetings = Meetings(
            np.zeros(p, np.int64), np.zeros((p, 2), np.int64), np.zeros((p, 9)), np.zeros((p, 3)), np.zeros((p, 3)),
            np.zeros((p, 3)), np.zeros(p), np.zeros(p), ball, np.zeros(1, np.int64),
        )  # fmt: skip

    def _check(self, k: int, gravity: bool) -> None:
        kind, link, name = int(self._shapes.kind[k]), int(self._shapes.link[k]), self._names[k]
        if kind not in _NAMES or (kind == PLANE and link >= 0):
            raise UnsupportedByMethod(f'{_WHY} takes spheres, boxes and resting planes; shape "{name}" is another')
        if link >= 0 and np.abs(self._shapes.place[k, :3]).max() > 1e-12:
            raise UnsupportedByMethod(f'{_WHY} takes shapes about the com; "{name}" is beside it')
        if kind == SPHERE and link < 0 and gravity:
            raise UnsupportedByMethod(f'{_WHY} takes no resting sphere under gravity; "{name}" is one')

    def _meets(self, filters: Filters, a: int, b: int) -> bool:
        s = self._shapes
        if s.link[a] < 0 and s.link[b] < 0 or (s.group[a] != 0 and s.group[a] == s.group[b]):
            return False
        first, last = filters.apart_start[s.body[a] + 1], filters.apart_start[s.body[a] + 2]
        return int(s.body[b]) + 1 not in filters.apart[first:last].tolist()

    def aim(self, pose: np.ndarray, u: np.ndarray, forces: Any, grips: Sequence[Any]) -> None:
        """Prepare for steps from a state; raise where something turns, pulls or stands askew."""
        if len(forces.wrenches.link) or forces.tau.any() or grips:
            raise StateError(f"{_WHY} knows gravity alone; clear wrenches, forces and grips")
        s, m = self._shapes, self.meetings
        for i in np.flatnonzero(m.ball == 0):
            if np.abs(u[6 * i : 6 * i + 3]).max() > 1e-12:
                raise StateError(f'{_WHY} lets no box turn; body "{self._body[i]}" does')
        turns = [matrix_from_quaternion(s.place[k, 3:]) for k in range(len(s.kind))]
        for k, link in enumerate(s.link):
            if link >= 0:
                turns[k] = matrix_from_quaternion(pose[link, 3:7]) @ turns[k]
        for p, (a, b) in enumerate(self._pairs):
            if s.link[a] < 0:
                a, b = b, a
            m.link[p] = s.link[a], s.link[b]
            m.place[p] = s.place[b, :3] if s.link[b] < 0 else 0.0
            m.friction[p] = np.sqrt(s.friction[a] * s.friction[b])
            m.restitution[p] = max(s.restitution[a], s.restitution[b])
            self._set_pair(p, a, b, turns)

    def _set_pair(self, p: int, a: int, b: int, turns: list[np.ndarray]) -> None:
        """Fill kind, axes and reach of pair p."""
        s, m = self._shapes, self.meetings
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
                    f'{_WHY} takes boxes with parallel faces; "{self._names[a]}" and "{self._names[b]}" stand askew'
                )
            m.kind[p], m.reach[p] = SQUARE, np.abs(np.round(between)) @ s.size[a] + s.size[b]

    def explain(self, status: int, where: str) -> tuple[type[LimberjackError], str, str] | None:
        """Return (error, joint, message) of a failure, None where it is none of these."""
        pair, reason = divmod(status - FAILED, 4)
        if not 0 <= pair < len(self._pairs):
            return None
        both = " and ".join(f'"{self._names[k]}"' for k in self._pairs[pair])
        if reason == RUBS:
            return StateError, "", f"{_WHY} knows no friction; {both} rub at {where}"
        if reason == ASIDE:
            return StateError, "", f"{_WHY} takes boxes that meet in a line; {both} meet aside at {where}"
        if reason == EDGE:
            return StateError, "", f"{_WHY} knows no edges; of {both} one comes to an edge at {where}"
        return Diverged, "", f"{both} collide more than {MOST} times within a step at {where}: they come to rest"
