"""The records of one model, renamed and moved, for use in another."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from limberjack.errors import ModelError
from limberjack.model.registered import RegisteredConstraint
from limberjack.model.spec import (
    IDENTITY,
    ORIGIN,
    WORLD,
    Actuator,
    Body,
    Joint,
    Motor,
    Sensor,
    Shape,
    Spec,
    Spring,
    Transmission,
    Vector,
)
from limberjack.spatial.frames import matrix_from_quaternion

__all__ = ["append", "placed"]

# What a free joint has along the axes of the world.
_WORLD_AXES = ("damping", "friction", "armature", "stiffness", "limit_stiffness", "limit_damping")


class _Frame:
    """Where the world of one model lies in that of another."""

    def __init__(self, position: Vector, rotation: Vector) -> None:
        self.position, self.rotation = np.array(position), np.array(rotation)
        self._matrix = matrix_from_quaternion(self.rotation)
        self.turned, self.moved = tuple(rotation) != IDENTITY, tuple(position) != ORIGIN

    def point(self, x: Any) -> Vector:
        """Return a point of the world of the model."""
        if not (self.turned or self.moved):
            return tuple(x)
        return tuple((self.position + self._matrix @ np.array(x)).tolist())

    def direction(self, x: Any) -> Vector:
        """Return a direction of the world of the model."""
        return tuple((self._matrix @ np.array(x)).tolist()) if self.turned else tuple(x)

    def turn(self, q: Any) -> Vector:
        """Return a quaternion to the world of the model."""
        if not self.turned:
            return tuple(q)
        a, b = self.rotation, np.array(q)
        v = a[0] * b[1:] + b[0] * a[1:] + np.cross(a[1:], b[1:])
        return (float(a[0] * b[0] - a[1:] @ b[1:]), *v.tolist())


def append(into: Spec, spec: Spec) -> None:
    """Add all records of `spec` to `into`."""
    into.bodies += spec.bodies
    into.joints += spec.joints
    into.shapes += spec.shapes
    into.springs += spec.springs
    into.points += spec.points
    into.excluded += spec.excluded
    into.excluded_shapes += spec.excluded_shapes
    into.actuators += spec.actuators
    into.tendons += spec.tendons
    into.sensors += spec.sensors


def placed(
    spec: Spec, prefix: str, position: Vector = ORIGIN, rotation: Vector = IDENTITY, *, first_group: int = 0
) -> Spec:
    """Return the records of a model with `prefix` before all names, its world moved to a frame.

    Args:
        spec: the records.
        prefix: of all names but that of the world.
        position, rotation: where the origin of its world comes to be [m], and how it is turned.
        first_group: added to the groups of its shapes, so that they are not those of another model.
    """
    frame = _Frame(position, rotation)

    def named(name: str) -> str:
        return name if name == WORLD else prefix + name

    out = Spec(spec.name, spec.gravity, spec.merge_fixed)
    placed_by_joint = {j.child for j in spec.joints if j.kind != "gear" and (j.kind != "free" or j.start is not None)}
    out.bodies = [_body(body, prefix, frame, body.name not in placed_by_joint) for body in spec.bodies]
    out.joints = [_joint(joint, prefix, frame) for joint in spec.joints]
    out.shapes = [_shape(shape, prefix, frame, first_group) for shape in spec.shapes]
    out.springs = [_spring(spring, prefix, frame) for spring in spec.springs]
    out.points = [
        replace(
            point, name=prefix + point.name, body=named(point.body),
            position=frame.point(point.position) if point.body == WORLD else point.position,
            rotation=frame.turn(point.rotation) if point.body == WORLD else point.rotation,
        )
        for point in spec.points
    ]  # fmt: skip
    out.excluded = [(named(a), named(b)) for a, b in spec.excluded]
    out.excluded_shapes = [(prefix + a, prefix + b) for a, b in spec.excluded_shapes]
    out.actuators = [_actuator(actuator, prefix) for actuator in spec.actuators]
    out.tendons = [
        replace(tendon, name=prefix + tendon.name, transmission=_transmission(tendon.transmission, prefix))
        for tendon in spec.tendons
    ]
    out.sensors = [_sensor(sensor, prefix) for sensor in spec.sensors]
    return out


def _transmission(transmission: Transmission, prefix: str) -> Transmission:
    return tuple((prefix + joint, dof, coefficient) for joint, dof, coefficient in transmission)


def _actuator(actuator: Actuator, prefix: str) -> Actuator:
    point = actuator.point and prefix + actuator.point
    transmission = _transmission(actuator.transmission, prefix)
    return replace(actuator, name=prefix + actuator.name, transmission=transmission, point=point)


def _sensor(sensor: Sensor, prefix: str) -> Sensor:
    of, relative = (name if name in ("", WORLD) else prefix + name for name in (sensor.of, sensor.relative_to))
    return replace(sensor, name=prefix + sensor.name, of=of, relative_to=relative)


def _body(body: Body, prefix: str, frame: _Frame, loose: bool) -> Body:
    """Return a body; one that no joint gives a pose starts in the origin of its world unless it has one of its own."""
    given = loose and (frame.turned or frame.moved)
    start, turn = (ORIGIN, IDENTITY) if given else (None, None)
    position = None if (at := body.position or start) is None else frame.point(at)
    rotation = None if (at := body.rotation or turn) is None else frame.turn(at)
    return replace(body, name=prefix + body.name, position=position, rotation=rotation)


def _joint(joint: Joint, prefix: str, frame: _Frame) -> Joint:
    ends: dict[str, Any] = {
        "name": prefix + joint.name,
        "axes": tuple(replace(axis, name=prefix + axis.name) for axis in joint.axes),
    }
    # the second pair is that of constraints
    for end in ("parent", "child", "carrier", "second_parent", "second_child"):
        name = getattr(joint, end, None)
        if name is not None:
            ends[end] = name if name == WORLD else prefix + name
    if joint.kind == "free":
        ends |= _free(joint, frame)
    elif joint.parent == WORLD and joint.kind not in ("gear", "no_slip"):
        ends |= {"position": frame.point(joint.position), "rotation": frame.turn(joint.rotation)}
    if isinstance(joint, RegisteredConstraint) and joint.second_parent == WORLD:
        ends["second_position"] = frame.point(joint.second_position)
        ends["second_rotation"] = frame.turn(joint.second_rotation)
    return replace(joint, **ends)


def _free(joint: Joint, frame: _Frame) -> dict[str, Any]:
    """Return what of a free joint, whose coordinates are those of the world, is different in another world."""
    if not (frame.turned or frame.moved):
        return {}
    _check_free(joint, frame)
    out: dict[str, Any] = {}
    for word in ("start", "rest"):
        value = getattr(joint, word)
        if value is not None:
            out[word] = (*frame.point(value[:3]), *frame.turn(value[3:]))
    if joint.rest is None and any(joint.stiffness or ()):
        out["rest"] = (*frame.point(ORIGIN), *frame.turn(IDENTITY))
    if joint.start_velocity is not None:
        out["start_velocity"] = (*frame.direction(joint.start_velocity[:3]), *joint.start_velocity[3:])
    if joint.limits is not None:
        shift = [
            limit and (limit[0] + x, limit[1] + x) for limit, x in zip(joint.limits[:3], frame.position, strict=True)
        ]
        out["limits"] = (*shift, *joint.limits[3:])
    if joint.motor is not None:
        out["motor"] = _free_motors(joint.motor, frame)
    return out


def _check_free(joint: Joint, frame: _Frame) -> None:
    """Refuse a rotation of what a free joint has along the axes of the world and not alike in all directions."""
    if not frame.turned:
        return
    uneven = [word for word in _WORLD_AXES if len(set((getattr(joint, word) or ())[:3])) > 1]
    motors = {motor and (motor.kp, motor.kd, motor.max) for motor in (joint.motor or ())[:3]}
    limited = any(joint.limits[:3]) if joint.limits else False
    held = any(joint.limits[3:]) if joint.limits else False
    if uneven or len(motors) > 1 or limited or held:
        what = ", ".join(uneven + ["motor"] * (len(motors) > 1) + ["limits"] * (limited or held))
        raise ModelError(f'free joint "{joint.name}" has {what} along world axes: its model can be moved, not rotated')


def _free_motors(motors: tuple[Motor | None, ...], frame: _Frame) -> tuple[Motor | None, ...]:
    out = list(motors)
    pushes = [motor for motor in motors[:3] if motor is not None]
    if len(pushes) == 3:
        target = frame.point([_first(motor.target) for motor in pushes])
        velocity = frame.direction([motor.velocity for motor in pushes])
        for k, motor in enumerate(pushes):
            out[k] = replace(motor, target=float(target[k]), velocity=float(velocity[k]))
    else:  # not rotated, see _check_free
        for k, motor in enumerate(motors[:3]):
            if motor is not None:
                out[k] = replace(motor, target=_first(motor.target) + float(frame.position[k]))
    turn = motors[3]
    if turn is not None:
        own = turn.target if isinstance(turn.target, tuple) else IDENTITY
        out[3] = replace(turn, target=frame.turn(own))
    return tuple(out)


def _first(target: float | Vector) -> float:
    return float(target[0]) if isinstance(target, tuple) else float(target)


def _shape(shape: Shape, prefix: str, frame: _Frame, first_group: int) -> Shape:
    own: dict[str, Any] = {"name": prefix + shape.name, "group": shape.group + first_group if shape.group else 0}
    if shape.body == WORLD:
        own |= {"position": frame.point(shape.position), "rotation": frame.turn(shape.rotation)}
    else:
        own["body"] = prefix + shape.body
    return replace(shape, **own)


def _spring(spring: Spring, prefix: str, frame: _Frame) -> Spring:
    own: dict[str, Any] = {"name": prefix + spring.name}
    for end, at in (("a", "at_a"), ("b", "at_b")):
        if getattr(spring, end) == WORLD:
            own[at] = frame.point(getattr(spring, at))
        else:
            own[end] = prefix + getattr(spring, end)
    return replace(spring, **own)
