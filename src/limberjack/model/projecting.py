"""Joints of the user's own, given by a black box: the allowed state nearest to a given one.

A state is the position x (3) and the quaternion q (w, x, y, z) of the child's frame in the parent's. What a state is
off by is a vector of six: the turn log(q q_target^-1), then x - x_target, in the axes of the parent's frame. Along
locked directions every state is brought back; along others only states beyond a limit are.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from limberjack.errors import ModelError

__all__ = ["ONE_SIDED", "STEP", "Locks", "arguments", "checked_directions", "locks_of"]

# Step of differences [m, rad].
STEP = 1e-5
# A direction is locked where at least this part of a small move along it is taken back, and stopped by a limit where
# moves to its two sides differ by this part.
_LOCKED, ONE_SIDED = 1e-2, 0.05
# An allowed state must stay where it is, this near [m, rad].
_STAYS = 1e-9
_PROBES = 25
_WIDE = (0.0, 0.1, 0.5, 2.0, 30.0)


class Locks(NamedTuple):
    """What a black box holds: how many directions it locks, and whether it has limits besides."""

    rows: int
    limited: bool


def arguments(project: Callable) -> int:
    """Return whether a black box takes (x, q), 2, or the numbers of its joint too, 3."""
    plain = getattr(project, "py_func", project)
    try:
        kinds = [one.kind for one in inspect.signature(plain).parameters.values()]
    except (TypeError, ValueError):
        return 2
    return 3 if len(kinds) > 2 else 2


def checked_directions(name: str, locked: Any) -> np.ndarray | None:
    """Return directions given by the user as orthonormal rows (k, 6); None stays None."""
    if locked is None:
        return None
    given = np.asarray(locked, float)
    if given.ndim != 2 or given.shape[1] != 6 or not 1 <= len(given) <= 6 or not np.isfinite(given).all():
        raise ModelError(
            f'joint kind "{name}": locked must be 1 to 6 directions of six numbers, the turn about and the move along '
            f"the axes of the parent's frame, got {locked!r}"
        )
    across, size, rows = np.linalg.svd(given, full_matrices=False)
    if size[-1] < 1e-9 * size[0]:
        raise ModelError(f'joint kind "{name}": the locked directions depend on each other')
    # the nearest orthonormal rows: unit vectors along axes stay what they are
    return across @ rows


def _multiply(a: Any, b: Any) -> np.ndarray:
    w = a[0] * b[0] - a[1] * b[1] - a[2] * b[2] - a[3] * b[3]
    return np.array([w, *(a[0] * np.array(b[1:]) + b[0] * np.array(a[1:]) + np.cross(a[1:], b[1:]))])


def _turn(v: np.ndarray) -> np.ndarray:
    angle = math.sqrt(v @ v)
    return np.array([math.cos(0.5 * angle), *(0.5 * np.sinc(0.5 * angle / math.pi) * v)])


def _off(state: tuple[np.ndarray, np.ndarray], target: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Return what a state is off its target by, six numbers."""
    (x, q), (xt, qt) = state, target
    d = _multiply(q, (qt[0], *(-qt[1:])))
    d = -d if d[0] < 0.0 else d
    size = math.sqrt(d[1:] @ d[1:])
    turn = d[1:] * (2.0 * math.atan2(size, d[0]) / size) if size > 0.0 else np.zeros(3)
    return np.concatenate([turn, x - xt])


class _Box:
    """A black box called with arrays, its answers checked."""

    def __init__(self, name: str, project: Callable, data: tuple[float, ...]) -> None:
        plain: Callable[..., Any] = getattr(project, "py_func", project)
        self._name, self._project = name, plain
        self._more = (np.array(data),) if arguments(project) == 3 else ()

    def target(self, x: np.ndarray, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        try:
            place, turn = self._project(tuple(map(float, x)), tuple(map(float, q)), *self._more)
            xt, qt = np.array(place, float), np.array(turn, float)
        except Exception as error:
            raise ModelError(f'project of joint kind "{self._name}" failed at x = {x}, q = {q}: {error!r}') from error
        if xt.shape != (3,) or qt.shape != (4,) or not (np.isfinite(xt).all() and abs(qt @ qt - 1.0) < 1e-6):
            raise ModelError(
                f'project of joint kind "{self._name}" must return a position (3) and a unit quaternion (4), got '
                f"{place!r} and {turn!r}"
            )
        return xt, qt

    def slopes(self, base: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, bool]:
        """Return how much of small moves from an allowed state is taken back, (6, 6), and whether a limit is there."""
        out, limited = np.zeros((6, 6)), False
        for k in range(6):
            ways = []
            for sign in (1.0, -1.0):
                v = np.zeros(6)
                v[k] = sign * STEP
                state = base[0] + v[3:], _multiply(_turn(v[:3]), base[1])
                ways.append(sign * _off(state, self.target(*state)) / STEP)
            sizes = [float(np.linalg.norm(way)) for way in ways]
            # a limit takes back moves to one side only
            one_sided = abs(sizes[0] - sizes[1]) > ONE_SIDED
            out[:, k] = ways[int(np.argmin(sizes))] if one_sided else 0.5 * (ways[0] + ways[1])
            limited = limited or one_sided
        return out, limited


@cache
def locks_of(name: str, project: Callable, data: tuple[float, ...], rows: int, limited: bool | None) -> Locks:
    """Return what a black box holds, by looking at it at some states; raise if it is no projection.

    Args:
        name: of its kind.
        project: the black box.
        data: numbers of the joint.
        rows: locked directions; 0 = find out.
        limited: whether there are limits; None = find out.
    """
    box, rng = _Box(name, project, data), np.random.default_rng(0)
    found, stopped, failures = 6, False, []
    for k in range(_PROBES):
        wide = _WIDE[k % len(_WIDE)]
        state = wide * rng.normal(size=3), _turn(np.clip(wide * rng.normal(size=3), -1.7, 1.7))
        try:
            target = box.target(*state)
        except ModelError as error:
            # some states may have no nearest one, as the middle of a circle; all cannot
            failures.append(error)
            if len(failures) == _PROBES:
                raise
            continue
        if np.abs(_off(target, box.target(*target))).max() > _STAYS:
            raise ModelError(
                f'project of joint kind "{name}" moves the state it returned: at x = {target[0]}, q = {target[1]}'
            )
        slopes, one_sided = box.slopes(target)
        found, stopped = min(found, int((np.linalg.svd(slopes)[1] > _LOCKED).sum())), stopped or one_sided
    locks = Locks(rows or found, stopped if limited is None else limited)
    if locks == Locks(0, False):
        raise ModelError(f'project of joint kind "{name}" holds nothing: it returns the states it is given')
    return locks
