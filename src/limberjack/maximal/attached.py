"""Joints made while a model runs, in maximal coordinates: their rows, and gaps that close in a given time."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from limberjack.constraints.maximal import Maximal
from limberjack.constraints.table import Pairs, Row, joint_rows
from limberjack.errors import StateError
from limberjack.maximal.inserting import inserted
from limberjack.model.model import Model
from limberjack.model.proximity import KINDS_ATTACHED
from limberjack.model.spec import Joint

__all__ = ["Attached", "read_attached", "set_targets", "with_attached", "write_attached"]


@dataclass(frozen=True)
class Attached:
    """A joint made while running.

    Attributes:
        joint: as in a model.
        gap: how far each of its rows was open at the time `since`; closed evenly within `over` seconds.
        since: [s].
        over: [s].
        collide: whether its two bodies collide.
        made_by: the rule that made it, -1 for none, and its two points there.
        near: angles of its terms, turns counted.
    """

    joint: Joint
    gap: tuple[float, ...] = ()
    since: float = 0.0
    over: float = 0.0
    collide: bool = False
    made_by: tuple[int, int, int] = (-1, -1, -1)
    near: tuple[float, ...] = ()


def with_attached(model: Model, base: Maximal, attached: list[Attached]) -> Maximal:
    """Return a model in maximal coordinates with rows for joints made while running after its own."""
    pairs, groups = Pairs(model), []
    for k, one in enumerate(attached):
        pair = pairs.joint(one.joint)
        for end, link in enumerate(pairs.link[pair]):
            if link >= 0:
                pairs.frame[pair][12 * end + 9 : 12 * end + 12] -= base.center[link]
        index = model.joint_count + len(model.springs) + k
        rows = joint_rows(one.joint)
        groups.append([Row(index, [(pair, t) for t in terms], target=(value, 0.0)) for terms, value in rows])
    return inserted(base, pairs, groups, [one.joint.name for one in attached])


def set_targets(base: Maximal, whole: Maximal, attached: list[Attached], time: float, dt: float) -> float:
    """Aim at what is left of gaps that are being closed; return the time at which the next one is closed, or inf."""
    at, first_end = base.held, np.inf
    for k, one in enumerate(attached):
        first, target = int(whole.system.row_start[at + k]), whole.table.target
        end, rows = one.since + one.over, joint_rows(one.joint)
        closing = len(one.gap) > 0 and end - time > 0.5 * dt
        if closing:
            first_end = min(first_end, end)
        for i, (_, value) in enumerate(rows):
            rate = -one.gap[i] / one.over if closing else 0.0
            target[first + i] = (value - rate * end, rate)
    return first_end


def write_attached(attached: list[Attached], more: dict[str, Any]) -> np.ndarray:
    """Return joints made while running, and what else is told, as bytes that keep every bit."""
    out = []
    for one in attached:
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


def read_attached(model: Model, data: np.ndarray) -> tuple[list[Attached], dict[str, Any]]:
    """Return what `write_attached` was given; refuse what does not fit the model."""
    if not len(data):
        return [], {}
    try:
        told = json.loads(np.ascontiguousarray(data).tobytes())
        attached = [_attached(model, one) for one in told.pop("joints")]
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise StateError(f"the joints made while running cannot be read: {error}") from None
    return attached, told


def _attached(model: Model, one: dict[str, Any]) -> Attached:
    frames, gap, times, near = ([float.fromhex(x) for x in part] for part in one["numbers"])
    if one["kind"] not in KINDS_ATTACHED or len(frames) != 16 or len(times) != 2:
        raise ValueError(f'"{one["name"]}" is no such joint')
    if not np.isfinite([*frames, *gap, *times, *near]).all():
        raise ValueError(f'"{one["name"]}" has a number that is not finite')
    parent, child = (str(name) for name in one["bodies"])
    for name in (parent, child):
        if name != "world":
            model.body_index(name)
    joint = Joint(
        str(one["name"]), one["kind"], parent, child, tuple(frames[:3]), tuple(frames[3:7]), tuple(frames[7:10]),
        tuple(frames[10:14]), pitch=frames[14], length=frames[15],
    )  # fmt: skip
    if joint.kind == "universal":
        joint = replace(joint, axis=(1.0, 0.0, 0.0), axis2=(0.0, 1.0, 0.0))
    if len(gap) not in (0, len(joint_rows(joint))):
        raise ValueError(f'"{joint.name}" has {len(gap)} gaps')
    rule, point, other = map(int, one["made_by"])
    return Attached(joint, tuple(gap), times[0], times[1], bool(one["collide"]), (rule, point, other), tuple(near))
