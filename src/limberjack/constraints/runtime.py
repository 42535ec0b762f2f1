"""Joints and driven coordinates that come and go while a simulation runs, the same in both engines.

A joint made while running is an equality constraint between two frames, like one that closes a loop. A body that is
led is one on a kinematic constraint to the world, whose numbers say where it is to be (`model/kinematic.py`). A driven
coordinate is a row with a target that moves at a constant rate.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from limberjack.constraints.rows import LENGTH, SLIDE
from limberjack.constraints.table import coordinate_terms, joint_rows
from limberjack.errors import StateError
from limberjack.model.compile import joint_frames
from limberjack.model.kinematic import KINEMATIC, NUMBERS, kinematic_name, register_kinematic
from limberjack.model.model import Model
from limberjack.model.proximity import KINDS_ATTACHED
from limberjack.model.registered import RegisteredConstraint
from limberjack.model.spec import IDENTITY, ORIGIN, WORLD, Joint
from limberjack.spatial.frames import quaternion_from_matrix, turn_z_to

__all__ = [
    "Driven", "RuntimeJoint", "apart_bodies", "gaps_of", "is_closing", "leading_joint", "new_runtime_joint",
    "read_driven", "read_runtime_joints", "row_targets", "write_driven", "write_runtime_joints",
]  # fmt: skip


@dataclass(frozen=True)
class RuntimeJoint:
    """A joint made while running.

    Attributes:
        joint: as in a model.
        gap: error of each of its rows at the time `since`; closed at a constant rate within `over` seconds.
        since: [s].
        over: [s].
        collide: whether its two bodies collide.
        made_by: the rule that made it, -1 for none, and its two points there.
        near: angles of its terms, unwrapped.
    """

    joint: Joint
    gap: tuple[float, ...] = ()
    since: float = 0.0
    over: float = 0.0
    collide: bool = False
    made_by: tuple[int, int, int] = (-1, -1, -1)
    near: tuple[float, ...] = ()


@dataclass(frozen=True)
class Driven:
    """A coordinate of a joint that changes at a given rate.

    Attributes:
        joint: index of the joint.
        axis: of the joint, among its scalar coordinates.
        start: value at the time 0 [rad or m].
        rate: [rad/s or m/s].
    """

    joint: int
    axis: int
    start: float
    rate: float


def new_runtime_joint(
    name: str, kind: str, bodies: tuple[str, str], points: tuple[Any, Any], axis: Any, turns: tuple[Any, Any],
    **own: float,
) -> Joint:  # fmt: skip
    """Return a joint between points of two bodies, its axes those of the world as the bodies stand now.

    Args:
        name, kind: of the joint.
        bodies: parent and child.
        points: (3,) points in the frames of the two bodies [m].
        axis: (3,) main axis in the world.
        turns: rotation matrices of the two bodies.
        own: pitch or length.
    """
    turn, frames = turn_z_to(np.array(axis, float).reshape(1, 3))[0], []
    for at, point in zip(turns, points, strict=True):
        frames += [tuple(map(float, point)), tuple(map(float, quaternion_from_matrix(at.T @ turn)))]
    joint = Joint(name, kind, *bodies, *frames, **own)
    # x and y of its frame are the axes of a universal joint
    return replace(joint, axis=(1.0, 0.0, 0.0), axis2=(0.0, 1.0, 0.0)) if kind == "universal" else joint


def leading_joint(body: str, data: Iterable[float] = (0.0,) * NUMBERS) -> Joint:
    """Return the constraint that leads a body, with the numbers of its motion."""
    return RegisteredConstraint(
        kinematic_name(body), register_kinematic(), WORLD, body, ORIGIN, IDENTITY, ORIGIN, IDENTITY,
        data=tuple(map(float, data)),
    )  # fmt: skip


def apart_bodies(joints: Iterable[RuntimeJoint]) -> list[tuple[str, str]]:
    """Return the pairs of bodies that do not collide because of joints between them."""
    kinds = ("distance", KINEMATIC)
    ends = [(one.joint.parent, one.joint.child) for one in joints if not one.collide and one.joint.kind not in kinds]
    return [pair for pair in ends if WORLD not in pair]


def gaps_of(joint: Joint, poses: tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """Return by how much each row of a joint is off whose axes coincide: only its points may be apart.

    Args:
        joint: of `new_runtime_joint`.
        poses: rotation matrix and origin of the two bodies' frames in the world.
    """
    r_p, p_p, _, p_c = joint_frames(joint)
    (turn, origin), (other_turn, other) = poses
    gap = r_p.T @ turn.T @ (other + other_turn @ p_c - origin - turn @ p_p)
    out: list[float] = []
    for terms, value in joint_rows(joint):
        seen = sum(weight * gap[axis] for code, axis, _, weight in terms if code == SLIDE)
        out.append(float(np.linalg.norm(gap) - value if terms[0][0] == LENGTH else seen))
    return np.array(out)


def is_closing(one: RuntimeJoint, time: float, dt: float) -> bool:
    """Return whether the gap of a joint is still being closed in a step from `time` on."""
    return len(one.gap) > 0 and one.since + one.over - time > 0.5 * dt


def row_targets(one: RuntimeJoint, closing: bool) -> np.ndarray:
    """Return the targets (rows, 2) of the rows of a joint, value at the time 0 and rate."""
    if one.joint.kind == KINEMATIC:
        return np.zeros((len(joint_rows(one.joint)), 2))
    out = []
    for i, (_, value) in enumerate(joint_rows(one.joint)):
        rate = -one.gap[i] / one.over if closing else 0.0
        out.append((value - rate * (one.since + one.over), rate))
    return np.array(out).reshape(-1, 2)


def write_runtime_joints(joints: list[RuntimeJoint], more: dict[str, Any]) -> np.ndarray:
    """Return runtime joints and `more` as bytes that keep every bit."""
    out = []
    for one in joints:
        j = one.joint
        out.append({
            "name": j.name, "kind": j.kind, "bodies": [j.parent, j.child],
            "collide": one.collide, "made_by": one.made_by,
            "numbers": [
                _hex((*j.position, *j.rotation, *j.position_in_child, *j.rotation_in_child, j.pitch, j.length)),
                _hex(one.gap), _hex((one.since, one.over)), _hex(one.near),
            ],
        })  # fmt: skip
    text = json.dumps({"joints": out, **more}) if out or any(more.values()) else ""
    return np.frombuffer(text.encode(), np.uint8).copy()


def _hex(values: Any) -> list[str]:
    return [float(value).hex() for value in values]


def read_runtime_joints(model: Model, data: np.ndarray) -> tuple[list[RuntimeJoint], dict[str, Any]]:
    """Return the arguments of `write_runtime_joints`; raise where they do not fit the model."""
    if not len(data):
        return [], {}
    try:
        content = json.loads(np.ascontiguousarray(data).tobytes())
        joints = [_runtime_joint(model, one) for one in content.pop("joints")]
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise StateError(f"the joints made while running cannot be read: {error}") from None
    return joints, content


def _runtime_joint(model: Model, one: dict[str, Any]) -> RuntimeJoint:
    frames, gap, times, near = ([float.fromhex(x) for x in part] for part in one["numbers"])
    led = one["kind"] == KINEMATIC
    if not (led or one["kind"] in KINDS_ATTACHED) or len(frames) != 16 or len(times) != 2:
        raise ValueError(f'"{one["name"]}" is no such joint')
    if not np.isfinite([*frames, *gap, *times, *near]).all():
        raise ValueError(f'"{one["name"]}" has a number that is not finite')
    parent, child = (str(name) for name in one["bodies"])
    for name in (parent, child):
        if name != "world":
            model.body_index(name)
    if led:
        return RuntimeJoint(leading_joint(child), since=times[0], collide=True)
    joint = Joint(
        str(one["name"]), one["kind"], parent, child, tuple(frames[:3]), tuple(frames[3:7]), tuple(frames[7:10]),
        tuple(frames[10:14]), pitch=frames[14], length=frames[15],
    )  # fmt: skip
    if joint.kind == "universal":
        joint = replace(joint, axis=(1.0, 0.0, 0.0), axis2=(0.0, 1.0, 0.0))
    if len(gap) not in (0, len(joint_rows(joint))):
        raise ValueError(f'"{joint.name}" has {len(gap)} gaps')
    rule, point, other = map(int, one["made_by"])
    return RuntimeJoint(joint, tuple(gap), times[0], times[1], bool(one["collide"]), (rule, point, other), tuple(near))


def write_driven(driven: list[Driven]) -> np.ndarray:
    """Return driven coordinates as numbers (n, 4)."""
    return np.array([(one.joint, one.axis, one.start, one.rate) for one in driven], float).reshape(-1, 4)


def read_driven(model: Model, rows: np.ndarray) -> list[Driven]:
    """Return driven coordinates from their numbers; raise where they do not fit the model."""
    fits = rows.ndim == 2 and rows.shape[1] == 4 and np.isfinite(rows).all()
    if not fits or ((rows[:, 0] < 0) | (rows[:, 0] >= model.joint_count) | (rows[:, 1] < 0)).any():
        raise StateError(f'the driven coordinates do not fit model "{model.name}"')
    out = [Driven(int(j), int(axis), float(x), float(v)) for j, axis, x, v in rows]
    for one in out:
        if one.axis >= len(coordinate_terms(model.joint_spec(model.joint_names[one.joint]))):
            raise StateError(f'the driven coordinates do not fit model "{model.name}"')
    return out
