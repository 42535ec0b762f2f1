"""`assemble`: close the joints of a model from any start; `pose`: coordinates that bring points to their targets."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from limberjack.articulated.dynamics import array_of, forward_kinematics, jacobian
from limberjack.assembling.assembler import CLAMP, Assembler, Target, checked_targets, read_coordinates
from limberjack.constraints.maximal import new_maximal
from limberjack.errors import Diverged, StateError, UnknownName
from limberjack.model.model import Model
from limberjack.spatial.frames import matrix_from_quaternion, vector_from_matrix

__all__ = ["METRICS", "Assembly", "assemble", "pose", "with_start"]

METRICS = ("unit", "physical")
# After so many iterations a pose is brought back within the limits, and goes on from there.
_ROUND = 12
# From nearer than this a few iterations of Newton's method on the coordinates end it [m, rad].
_NEAR, _NEWTON = 0.1, 40


@dataclass(frozen=True)
class Assembly:
    """Where an assembly ended.

    Attributes:
        q: (nq,) coordinates of the tree's joints, read off the poses.
        positions: (body_count, 3) of the body frames [m].
        rotations: (body_count, 4) quaternions, body to world.
        residuals: the largest error of each joint [m, rad]; of a limit, by how much it is passed.
        targets: how far each target is missed [m, rad].
        iterations: assembly iterations taken.
        solver_iterations: solver iterations in all of them.
        error: the largest of all errors.
        open: joints whose error exceeds the tolerance.
        closed: whether every joint and target holds.
    """

    q: np.ndarray
    positions: np.ndarray
    rotations: np.ndarray
    residuals: dict[str, float]
    targets: dict[str, float]
    iterations: int
    solver_iterations: int
    error: float
    open: tuple[str, ...]
    closed: bool

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"open at {', '.join(self.open) or 'targets'}"
        return f"Assembly({state}, error {self.error:.3g} after {self.iterations} iterations)"


def assemble(
    model: Model,
    q: Any = None,
    pins: Any = (),
    *,
    poses: Any = None,
    iterations: int = 30,
    solver_iterations: int = 300,
    tolerance: float = 1e-9,
    metric: str = "unit",
    clamp: float = CLAMP,
    limits: bool = True,
) -> Assembly:
    """Close all joints and loops of a model from any start, and say which cannot be closed.

    Every body moves by itself, under joints, limits and pins alike, as little as possible in the metric.

    Args:
        model: the model.
        q: (nq,) coordinates to start from; `model.q0` when None.
        pins: names of bodies that stay where they start; or {body or point: None (stays), position (3,), or
            (position, rotation)}.
        poses: body frames to start from instead: (positions (body_count, 3), rotations (body_count, 4)).
        iterations: most assembly iterations.
        solver_iterations: most solver iterations in each.
        tolerance: largest error of a joint that is closed [m, rad].
        metric: "unit", every body alike: geometry alone decides; or "physical", heavy bodies move less.
        clamp: largest rotation of a body in one iteration [rad].
        limits: whether joint limits hold.
    """
    _check(iterations, solver_iterations, tolerance, clamp)
    if metric not in METRICS:
        raise UnknownName("metric", metric, "lj.assemble", METRICS)
    if metric == "physical":
        new_maximal(model, frozenset())  # which names a body without mass
    targets, still = checked_targets(model, pins, "pins")
    start = model.q0 if q is None else array_of(q, (model.nq,), "q", model)
    work = Assembler(model, start, targets, still, limits=limits)
    if poses is not None:
        work.put_bodies(*_checked_poses(model, poses))
    status = work.settle(iterations, solver_iterations, tolerance=tolerance, physical=metric == "physical", clamp=clamp)
    if status:
        raise Diverged(f'the assembly of model "{model.name}" is no longer finite', "", 0, 0.0)
    positions, rotations = work.bodies()
    return _result(model, work, positions, rotations, read_coordinates(model, positions, rotations, start), tolerance)


def with_start(model: Model, q: np.ndarray) -> Model:
    """Return the model with coordinates q as its start."""
    joints, bodies, given = [], list(model.spec.bodies), {joint.name for joint in model.spec.joints}
    place = {name: model.joint(name) for name in model.joint_names}
    for joint in model.spec.joints:
        info = place[joint.name]
        own = tuple(float(x) for x in q[info.q]) if not info.is_loop else ()
        if joint.axes and own:
            axes = tuple(replace(axis, start=x) for axis, x in zip(joint.axes, own, strict=True))
            joint = replace(joint, axes=axes)
        elif own:
            joint = replace(joint, start=own)
        joints.append(joint)
    for i, body in enumerate(bodies):
        info = place[model.body(body.name).joint]
        if info.name not in given and info.nq:
            own = tuple(float(x) for x in q[info.q])
            turned = own[3:] if len(own) == 7 else body.rotation
            bodies[i] = replace(body, position=own[:3], rotation=turned)
    return Model(replace(model.spec, joints=joints, bodies=bodies))


def pose(
    model: Model,
    targets: Any,
    q: Any = None,
    *,
    pins: Any = (),
    tolerance: float = 1e-7,
    iterations: int = 400,
    solver_iterations: int = 300,
    tries: int = 4,
) -> Assembly:
    """Return coordinates within the limits that bring points and bodies where they are wanted, or as near as found.

    Inverse kinematics: the targets are trackers, the assembly follows them. Where it gets stuck it starts anew from
    other coordinates, the same ones in every run.

    Args:
        model: the model.
        targets: {body or point: position (3,), or (position, rotation)}.
        q: (nq,) coordinates to start from; `model.q0` when None.
        pins: bodies that stay, or further targets, as in `assemble`.
        tolerance: error of a target that is reached [m, rad].
        iterations: most assembly iterations.
        solver_iterations: most solver iterations in each.
        tries: starts that are tried.
    """
    _check(iterations, solver_iterations, tolerance, CLAMP)
    if not isinstance(tries, int) or tries < 1:
        raise StateError(f"tries must be a whole number >= 1, got {tries!r}")
    wanted, still = checked_targets(model, targets, "targets")
    also, more = checked_targets(model, pins, "pins")
    wanted, still = wanted + also, still + more
    start = model.q0 if q is None else array_of(q, (model.nq,), "q", model)
    draw, best = np.random.default_rng(0), None
    for attempt in range(tries):
        if attempt:
            start = _elsewhere(model, start, draw)
        found = _follow(model, start, wanted, still, tolerance, iterations // tries + 1, solver_iterations)
        if best is None or found.error < best.error:
            best = found
        if best.closed:
            break
    assert best is not None
    return best


def _follow(
    model: Model, start: np.ndarray, wanted: list[Target], still: list[int], tolerance: float, most: int, inner: int
) -> Assembly:
    """Follow the targets from one start; end with coordinates inside the limits."""
    work, q, best = Assembler(model, start, wanted, still), start, None
    count = total = stuck = 0
    while count < most:
        work.put(q)
        work.settle(min(_ROUND, most - count), inner, tolerance=0.01 * tolerance, solver_tolerance=1e-6)
        count, total = count + max(1, int(work.work.report[0])), total + int(work.work.report[1])
        # joints stay closed and within their limits whatever the targets ask: what has to give way are the targets
        q = _inside(model, read_coordinates(model, *work.bodies(), q))
        if not (model.loop_names or still):
            q = _polished(model, wanted, q, tolerance)
        positions, rotations = forward_kinematics(model, q)
        work.put(q)
        work.correct(0, 0)
        work.work.report[:2] = count, total
        found = _result(model, work, positions, rotations, q, tolerance)
        stuck = stuck + 1 if best is not None and found.error > 0.9 * best.error else 0
        if best is None or found.error < best.error:
            best = found
        if best.closed or stuck == 3:
            break
    assert best is not None
    return best


def _polished(model: Model, wanted: list[Target], q: np.ndarray, tolerance: float) -> np.ndarray:
    """Return q with its scalar coordinates moved within the limits so that near targets are met: damped Newton."""
    low, high = _bounds(model)
    runs = [(int(v) + i, int(p) + i) for v, p, n in model.arrays.links.runs for i in range(int(n))]
    v, place = (
        (np.array(column, np.int64) for column in zip(*runs, strict=True)) if runs else (np.zeros(0, np.int64),) * 2
    )
    error = _misses(model, wanted, q)
    for _ in range(_NEWTON):
        size = float(np.abs(error).max(initial=0.0))
        if size <= 1e-3 * tolerance or size > _NEAR or not v.size:
            break
        rows = np.vstack([_target_rows(model, target, q)[:, v] for target in wanted])
        free, new = np.ones(len(v), bool), q
        for _ in range(4):
            own = rows[:, free]
            step = own.T @ np.linalg.solve(own @ own.T + 1e-9 * np.eye(len(own)), -error)
            new = q.copy()
            new[place[free]] += step
            out = (new[place] < low[place]) | (new[place] > high[place])
            if not out.any():
                break
            # those at their limits stay there, the rest tries once more
            new = np.clip(new, low, high)
            free &= ~out
        changed = _misses(model, wanted, new)
        if not np.abs(changed).max() < size:
            break
        q, error = new, changed
    return q


def _misses(model: Model, wanted: list[Target], q: np.ndarray) -> np.ndarray:
    """Return how far all targets are missed, world axes: places, and rotation vectors where rotations are wanted."""
    positions, rotations = forward_kinematics(model, q)
    out = []
    for target in wanted:
        r = matrix_from_quaternion(rotations[target.body])
        out.append(positions[target.body] + r @ target.place - target.to)
        if target.rotation is not None:
            out.append(vector_from_matrix(r @ matrix_from_quaternion(target.rotation).T))
    return np.concatenate(out) if out else np.zeros(0)


def _target_rows(model: Model, target: Target, q: np.ndarray) -> np.ndarray:
    """Return the rows of a target by the velocities: of its point, and of its body's turning where wanted."""
    positions, rotations = forward_kinematics(model, q)
    point = positions[target.body] + matrix_from_quaternion(rotations[target.body]) @ target.place
    rows = jacobian(model, q, model.body_names[target.body], point)
    return rows[3:] if target.rotation is None else np.vstack([rows[3:], rows[:3]])


def _result(
    model: Model, work: Assembler, positions: np.ndarray, rotations: np.ndarray, q: np.ndarray, tolerance: float
) -> Assembly:
    residuals = work.residuals()
    missed = {target.name: _missed(target, positions, rotations) for target in work.targets}
    error = max([*residuals.values(), *missed.values()], default=0.0)
    report = work.work.report
    loose = tuple(name for name, size in residuals.items() if not size <= tolerance)
    return Assembly(
        q, positions, rotations, residuals, missed, int(report[0]), int(report[1]), error, loose, error <= tolerance
    )


def _missed(target: Target, positions: np.ndarray, rotations: np.ndarray) -> float:
    r = matrix_from_quaternion(rotations[target.body])
    gap = float(np.linalg.norm(positions[target.body] + r @ target.place - target.to))
    if target.rotation is None:
        return gap
    turned = vector_from_matrix(matrix_from_quaternion(target.rotation).T @ r)
    return max(gap, float(np.linalg.norm(turned)))


def _inside(model: Model, q: np.ndarray) -> np.ndarray:
    """Return q with scalar coordinates cut at their limits."""
    low, high = _bounds(model)
    return np.clip(q, low, high)


def _bounds(model: Model) -> tuple[np.ndarray, np.ndarray]:
    """Return (nq,) lower and upper limits of the scalar coordinates; infinite where there is none."""
    low, high = np.full(model.nq, -np.inf), np.full(model.nq, np.inf)
    for v, q, length in model.arrays.links.runs:
        low[q : q + length], high[q : q + length] = model.arrays.limits[v : v + length].T
    return np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)


def _elsewhere(model: Model, q: np.ndarray, draw: np.random.Generator) -> np.ndarray:
    """Return other coordinates within the limits: bounded ones anywhere, the rest as they are."""
    low, high = _bounds(model)
    bounded = np.isfinite(low) & np.isfinite(high)
    out = q.copy()
    out[bounded] = draw.uniform(low[bounded], high[bounded])
    return out


def _checked_poses(model: Model, poses: Any) -> tuple[np.ndarray, np.ndarray]:
    try:
        positions, rotations = poses
    except (TypeError, ValueError):
        raise StateError("poses must be (positions, rotations) of all bodies") from None
    positions = array_of(positions, (model.body_count, 3), "positions", model)
    rotations = array_of(rotations, (model.body_count, 4), "rotations", model)
    lengths = np.linalg.norm(rotations, axis=1)
    if (np.abs(lengths - 1.0) > 1e-3).any():
        b = int(np.argmax(np.abs(lengths - 1.0)))
        name = model.body_names[b]
        raise StateError(f'rotation of body "{name}" must be a unit quaternion, its length is {lengths[b]:.6g}')
    return positions, rotations / lengths[:, None]


def _check(iterations: Any, solver_iterations: Any, tolerance: Any, clamp: Any) -> None:
    for word, value in (("iterations", iterations), ("solver_iterations", solver_iterations)):
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
            raise StateError(f"{word} must be a whole number >= 1, got {value!r}")
    for word, value in (("tolerance", tolerance), ("clamp", clamp)):
        if not isinstance(value, (int, float)) or not 0.0 < value < np.inf:
            raise StateError(f"{word} must be a number > 0, got {value!r}")
