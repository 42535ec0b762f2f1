"""Inverse kinematics by weighted tasks: positions, rotations, center of mass and posture, within the limits of joints.

Least squares over all tasks by Levenberg and Marquardt's method; each step satisfies the limits exactly (an active set
of coordinates at their limits). Tasks that cannot all be met are weighed against each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from limberjack.errors import StateError, UnknownName
from limberjack.model.model import Model
from limberjack.reduced.control_dynamics import center_of_mass, difference, integrate, jacobian
from limberjack.reduced.dynamics import array_of, forward_kinematics
from limberjack.spatial.frames import matrix_from_quaternion, vector_from_matrix

__all__ = ["Tasks", "checked_tasks", "weighted_pose"]

# Weight of the posture unless one is given: what the other tasks leave open, it decides.
_POSTURE = 1e-4
# A step ends the search when it moves no coordinate further than this [m, rad].
_STILL = 1e-11
_COM, _POSE = "center_of_mass", "posture"


class Tasks(NamedTuple):
    """What a pose is to satisfy, with weights by the square of the error.

    Attributes:
        goals: points and bodies; `Target` of `assemble.py`.
        weights: of each, per m^2 and rad^2.
        com: (3,) where the center of mass is to be [m], None for anywhere; NaN along axes that do not count.
        com_weight: per m^2.
        posture: (nq,) coordinates to be near to, None for none.
        posture_weight: per rad^2 or m^2.
    """

    goals: list[Any]
    weights: list[tuple[float, float]]
    com: np.ndarray | None
    com_weight: float
    posture: np.ndarray | None
    posture_weight: float


def checked_tasks(model: Model, goals: list[Any], com: Any, posture: Any, weights: Any) -> Tasks:
    """Return tasks, checked.

    Args:
        model: the model.
        goals: points and bodies.
        com: (3,) or None; None along axes that do not count.
        posture: (nq,) or None.
        weights: {name of a target, "center_of_mass" or "posture": weight, or (of the position, of the rotation)}.
    """
    if not isinstance(weights, Mapping):
        raise StateError(f"weights must say for each task what it weighs, got {weights!r}")
    given: dict[str, Any] = dict(weights)  # pyright: ignore[reportUnknownArgumentType]
    names = [*(goal.name for goal in goals), _COM, _POSE]
    for name in given:
        if name not in names:
            raise UnknownName("task", name, "weights", names)
    pairs = [_weights(given.get(goal.name, 1.0), goal.name) for goal in goals]
    if com is not None:
        numbers = list(com)
        com = array_of([0.0 if x is None else x for x in numbers], (3,), _COM, model)
        com[[x is None for x in numbers]] = np.nan
    place = None if posture is None else array_of(posture, (model.nq,), _POSE, model)
    single = [_weights(given.get(name, usual), name)[0] for name, usual in ((_COM, 1.0), (_POSE, _POSTURE))]
    return Tasks(goals, pairs, com, single[0], place, single[1])


def _weights(value: Any, name: str) -> tuple[float, float]:
    try:
        pair = np.broadcast_to(np.asarray(value, float), (2,))
    except (TypeError, ValueError):
        pair = np.array([np.nan, np.nan])
    if not (np.isfinite(pair).all() and (pair >= 0.0).all()):
        raise StateError(f'weight of task "{name}" must be a number >= 0, or two of position and rotation: {value!r}')
    return float(pair[0]), float(pair[1])


def _inverse_jacobian(e: np.ndarray) -> np.ndarray:
    """Return how a rotation vector e changes per rotation applied after it, about the world's axes."""
    angle = float(np.linalg.norm(e))
    cross = np.cross(np.eye(3), e).T  # so that cross @ x is the cross product of e and x
    if angle < 1e-4:
        factor = 1.0 / 12.0
    else:
        factor = 1.0 / angle**2 - (1.0 + np.cos(angle)) / (2.0 * angle * np.sin(angle))
    return np.eye(3) - 0.5 * cross + factor * cross @ cross


def _evaluate(model: Model, tasks: Tasks, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return weighted errors of all tasks and their Jacobian by velocities."""
    positions, rotations = forward_kinematics(model, q)
    errors: list[np.ndarray] = []
    rows: list[np.ndarray] = []

    def add(error: np.ndarray, row: np.ndarray, weight: float) -> None:
        errors.append(np.sqrt(weight) * error)
        rows.append(np.sqrt(weight) * row)

    for goal, (at, turned) in zip(tasks.goals, tasks.weights, strict=True):
        r = matrix_from_quaternion(rotations[goal.body])
        point = positions[goal.body] + r @ goal.point
        moves = jacobian(model, q, model.body_names[goal.body], point)
        add(point - goal.to, moves[3:], at)
        if goal.rotation is not None:
            error = vector_from_matrix(r @ matrix_from_quaternion(goal.rotation).T)
            add(error, _inverse_jacobian(error) @ moves[:3], turned)
    if tasks.com is not None:
        found, counts = center_of_mass(model, q), ~np.isnan(tasks.com)
        add((found.position - tasks.com)[counts], found.jacobian[counts], tasks.com_weight)
    if tasks.posture is not None:
        away, own = difference(model, tasks.posture, q), np.eye(model.nv)
        for _, v in model.arrays.links.quaternions.tolist():
            own[v : v + 3, v : v + 3] = _inverse_jacobian(-away[v : v + 3])
        add(away, own, tasks.posture_weight)
    return np.concatenate([np.zeros(0), *errors]), np.vstack([np.zeros((0, model.nv)), *rows])


def _bounded_step(matrix: np.ndarray, slope: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return the step that minimises slope x + x matrix x / 2 within low <= x <= high, by an active set."""
    x, free = np.zeros(len(slope)), np.ones(len(slope), bool)
    for _ in range(3 * len(slope) + 1):
        trial = x.copy()
        own = np.ix_(free, free)
        trial[free] = np.linalg.solve(matrix[own], -(slope + matrix @ np.where(free, 0.0, x))[free])
        way = trial - x
        with np.errstate(divide="ignore", invalid="ignore"):
            room = np.where(way > 0.0, (high - x) / way, np.where(way < 0.0, (low - x) / way, np.inf))
        room[~free] = np.inf
        k = int(np.argmin(room))
        if room[k] < 1.0:
            x = x + max(0.0, room[k]) * way
            x[k] = high[k] if way[k] > 0.0 else low[k]
            free[k] = False
            continue
        x, pull = trial, slope + matrix @ trial
        # a coordinate at a limit is let go where the limit holds it back
        held = ~free & (((x >= high) & (pull > 0.0)) | ((x <= low) & (pull < 0.0))) & (low < high)
        if not held.any():
            break
        free[int(np.argmax(np.where(held, np.abs(pull), 0.0)))] = True
    return np.clip(x, low, high)


def weighted_pose(
    model: Model, tasks: Tasks, start: np.ndarray, bounds: tuple[np.ndarray, np.ndarray], iterations: int
) -> tuple[np.ndarray, int]:
    """Return coordinates within bounds at a least sum of squared errors near `start`, and the iterations taken."""
    below, above = np.full(model.nv, -np.inf), np.full(model.nv, np.inf)
    q, damping = np.clip(start, *bounds), 1e-6
    error, rows = _evaluate(model, tasks, q)
    for count in range(iterations):
        for v, at, n in model.arrays.links.runs.tolist():
            below[v : v + n] = bounds[0][at : at + n] - q[at : at + n]
            above[v : v + n] = bounds[1][at : at + n] - q[at : at + n]
        matrix, slope = rows.T @ rows, rows.T @ error
        scale = max(1e-12, float(np.diag(matrix).max(initial=0.0)))
        step = _bounded_step(matrix + damping * scale * np.eye(model.nv), slope, below, above)
        if float(np.abs(step).max(initial=0.0)) < _STILL:
            return q, count
        moved = np.array(integrate(model, q, step))
        moved = np.clip(moved, *bounds)
        changed, new_rows = _evaluate(model, tasks, moved)
        if changed @ changed < error @ error:
            q, error, rows, damping = moved, changed, new_rows, max(1e-14, 0.1 * damping)
        elif damping > 1e8:
            return q, count
        else:
            damping *= 10.0
    return q, iterations
