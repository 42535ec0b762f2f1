"""The options of joints: each checked and converted to one form, one value per dof."""

from __future__ import annotations

import math
from typing import Any

from limberjack.errors import ModelError, UnknownName
from limberjack.model import check
from limberjack.model.joints import KINDS, SPIN
from limberjack.model.spec import IDENTITY, ORIGIN, Z_AXIS, Axis, Joint, Motor

__all__ = ["checked_axes", "checked_joint"]

_PER_DOF = ("damping", "stiffness", "armature", "friction", "limit_stiffness", "limit_damping")


def checked_joint(
    kind: str, name: str, parent: str, child: str, *, position: Any = ORIGIN, rotation: Any = IDENTITY,
    position_in_child: Any = ORIGIN, rotation_in_child: Any = IDENTITY, axis: Any = Z_AXIS, axes: tuple[Axis, ...] = (),
    start: Any = None, start_velocity: Any = None, limits: Any = None, motor: Any = None, rest: Any = None,
    axis2: Any = None, pitch: float = 0.0, length: float = 0.0, rope: bool = False, cone: Any = None, twist: Any = None,
    **per_dof: Any,
) -> Joint:  # fmt: skip
    """Return the joint with every option checked; raise naming the first that is wrong."""
    what = f'of joint "{name}"'
    nq, nv = (len(axes), len(axes)) if kind == "compound" else (KINDS[kind].nq, KINDS[kind].nv)
    spins = _spins(kind)
    values: dict[str, Any] = {}
    for word in _PER_DOF:
        given = per_dof.get(word)
        if given is not None and not (check.is_number(given) and given == 0):
            values[word] = _spread(given, nv, f"{word} {what}")
    stiffness = values.get("stiffness")
    if stiffness and any(len(set(stiffness[v : v + 3])) > 1 for _, v in spins):
        raise ModelError(f"stiffness {what} must be the same about all axes of its ball")
    if len({one.name for one in axes}) < len(axes):
        raise ModelError(f'compound joint "{name}" has two axes of one name: {", ".join(one.name for one in axes)}')
    speed = None if start_velocity is None else _spread(start_velocity, nv, f"start_velocity {what}", low=None)
    return Joint(
        name, kind, parent, child,
        _position(position, f"position {what}"), _rotation(rotation, f"rotation {what}"),
        _position(position_in_child, f"position_in_child {what}"),
        _rotation(rotation_in_child, f"rotation_in_child {what}"),
        axis=Z_AXIS if axis is None or axis is Z_AXIS else check.unit(axis, f"axis {what}"),
        axis2=axis2, pitch=pitch, axes=axes, length=length, rope=rope,
        cone=None if cone is None else _cone(cone, f"cone {what}"), twist=check.limit(twist, f"twist {what}"),
        start=None if start is None else _coordinates(start, nq, spins, f"start {what}"),
        start_velocity=speed,
        rest=None if rest is None else _coordinates(rest, nq, spins, f"rest {what}"),
        limits=None if limits is None else _limits(limits, nv, spins, f"limits {what}"),
        motor=None if motor is None else _motors(motor, nv, spins, f"motor {what}"),
        **values,
    )  # fmt: skip


def checked_axes(joint: str, axes: Any) -> tuple[Axis, ...]:
    """Return the axes of a compound joint with every value checked."""
    given: tuple[Any, ...] = (axes,) if isinstance(axes, Axis) or not check.is_iterable(axes) else tuple(axes)
    if not 1 <= len(given) <= 6:
        raise ModelError(f'compound joint "{joint}" takes 1 to 6 axes, got {len(given)}')
    return tuple(_checked_axis(joint, axis) for axis in given)


def _checked_axis(joint: str, axis: Any) -> Axis:
    if not isinstance(axis, Axis):
        raise ModelError(f'compound joint "{joint}": axes are lj.Axis objects, got {axis!r}')
    if axis.kind not in ("hinge", "slide"):
        raise UnknownName("axis kind", axis.kind, f'compound joint "{joint}"', ("hinge", "slide"))
    what = f'of axis "{axis.name}"'
    return Axis(
        name=check.name(axis.name, "an axis' name"),
        kind=axis.kind,
        axis=check.unit(axis.axis, f"axis {what}"),
        position=check.vector(axis.position, 3, f"position {what}"),
        limits=check.limit(axis.limits, f"limits {what}"),
        limit_stiffness=None
        if axis.limit_stiffness is None
        else check.number(axis.limit_stiffness, f"limit_stiffness {what}", low=0.0),
        limit_damping=None
        if axis.limit_damping is None
        else check.number(axis.limit_damping, f"limit_damping {what}", low=0.0),
        damping=check.number(axis.damping, f"damping {what}", low=0.0),
        stiffness=check.number(axis.stiffness, f"stiffness {what}", low=0.0),
        rest=check.number(axis.rest, f"rest {what}"),
        armature=check.number(axis.armature, f"armature {what}", low=0.0),
        friction=check.number(axis.friction, f"friction {what}", low=0.0),
        motor=None if axis.motor is None else _motor(axis.motor, what, 1),
        start=check.number(axis.start, f"start {what}"),
        start_velocity=check.number(axis.start_velocity, f"start_velocity {what}"),
    )


def _position(value: Any, what: str) -> tuple[float, ...]:
    return ORIGIN if value is None or value is ORIGIN else check.vector(value, 3, what)


def _rotation(value: Any, what: str) -> tuple[float, ...]:
    return IDENTITY if value is None or value is IDENTITY else check.frame_rotation(value, what)


def _spins(kind: str) -> list[tuple[int, int]]:
    """Return the indices (in q, in qd) of the balls of a kind."""
    out: list[tuple[int, int]] = []
    q = v = 0
    for motion, _ in KINDS[kind].motions:
        if motion == SPIN:
            out.append((q, v))
        q, v = (q + 4, v + 3) if motion == SPIN else (q + 1, v + 1)
    return out


def _spread(value: Any, size: int, what: str, low: float | None = 0.0) -> tuple[float, ...]:
    """Return one value per dof from a scalar or a sequence."""
    if check.is_number(value):
        return (check.number(value, what, low=low),) * size
    return check.vector(value, size, what, low=low)


def _coordinates(value: Any, nq: int, spins: list[tuple[int, int]], what: str) -> tuple[float, ...]:
    """Return nq coordinates, quaternions normalised."""
    out = list(check.vector((value,) if check.is_number(value) else value, nq, what))
    for q, _ in spins:
        out[q : q + 4] = check.frame_rotation(out[q : q + 4], what)
    return tuple(out)


def _limits(value: Any, nv: int, spins: list[tuple[int, int]], what: str) -> tuple[Any, ...]:
    """Return one pair or None per dof; a ball has one pair (0, largest angle), at its first dof."""
    slots = [v for v in range(nv) if not any(s < v < s + 3 for _, s in spins)]
    pairs: list[Any] = list(value) if check.is_iterable(value) else []
    if len(pairs) == 2 and not any(check.is_iterable(x) or x is None for x in pairs):
        pairs = [tuple(pairs)] * len(slots)
    if len(pairs) != len(slots):
        raise ModelError(f"{what}: {len(slots)} pairs (low, high) are needed, got {value!r}")
    out: list[Any] = [None] * nv
    for slot, pair in zip(slots, pairs, strict=True):
        out[slot] = check.limit(pair, what)
        if out[slot] is not None and any(slot == s for _, s in spins) and out[slot][0] != 0.0:
            raise ModelError(f"{what}: a ball's limits are (0, largest angle), got {pair!r}")
    return tuple(out)


def _cone(value: Any, what: str) -> float:
    """Return the largest swing of a ball; half a turn or more would be no limit, or one without a direction."""
    out = check.number(value, what, positive=True)
    if out >= math.pi:
        raise ModelError(f"{what} must be < pi, got {value!r}")
    return out


def _motor(motor: Any, what: str, size: int) -> Motor:
    if not isinstance(motor, Motor):
        raise ModelError(f"{what} must be a lj.Motor, got {motor!r}")
    for word in ("kp", "kd"):
        check.number(getattr(motor, word), f"{word} of the {what}", low=0.0)
    check.number(motor.max, f"max of the {what}", low=0.0, infinite=True)
    check.number(motor.velocity, f"velocity of the {what}")
    if size == 4 and (motor.velocity != 0 or (check.is_number(motor.target) and motor.target != 0)):
        raise ModelError(f"{what} turns a ball: its target is a quaternion and it has no velocity, got {motor!r}")
    if size == 4 and not check.is_number(motor.target):
        target: Any = check.frame_rotation(motor.target, f"target of the {what}")
    else:
        target = check.number(motor.target, f"target of the {what}")
    kp, kd, most, velocity = (float(x) for x in (motor.kp, motor.kd, motor.max, motor.velocity))
    return Motor(kp=kp, kd=kd, target=target, max=most, velocity=velocity)


def _motors(value: Any, nv: int, spins: list[tuple[int, int]], what: str) -> tuple[Motor | None, ...]:
    """Return one motor or None per dof; a ball's is at its first dof."""
    slots = [v for v in range(nv) if not any(s < v < s + 3 for _, s in spins)]
    given: list[Any] = list(value) if check.is_iterable(value) else [value] * len(slots)
    if len(given) != len(slots):
        raise ModelError(f"{what}: {len(slots)} motors are needed, got {len(given)}")
    out: list[Motor | None] = [None] * nv
    for slot, motor in zip(slots, given, strict=True):
        if motor is not None:
            out[slot] = _motor(motor, what, 4 if any(slot == s for _, s in spins) else 1)
    return tuple(out)
