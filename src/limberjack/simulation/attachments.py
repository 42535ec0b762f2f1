"""Joints made and removed while a simulation runs: the handle, and what `Simulation.attach` works out."""

# The files of this room are one class seen from several sides: they share its private members.
# pyright: reportPrivateUsage=false, reportUnnecessaryIsInstance=false

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from limberjack.errors import StateError, UnknownName
from limberjack.methods import Stepper, require_verb
from limberjack.model import check
from limberjack.model.proximity import KINDS_ATTACHED, Proximity
from limberjack.model.spec import WORLD

if TYPE_CHECKING:
    from limberjack.simulation.simulation import Simulation

__all__ = ["Attachment", "add_rule", "attach", "detach", "remove_rule"]


class Attachment:
    """A joint made by `sim.attach`.

    Attributes:
        name: of the joint.
        kind: of the joint.
        bodies: names of the two bodies.
    """

    def __init__(self, sim: Simulation, name: str, kind: str, bodies: tuple[str, str]) -> None:
        self._sim, self.name, self.kind, self.bodies = sim, name, kind, bodies

    def __repr__(self) -> str:
        return f'Attachment("{self.name}", {self.kind}, {self.bodies[0]} - {self.bodies[1]})'

    @property
    def held(self) -> bool:
        """Whether the joint still exists."""
        return self.name in self._sim.attached

    def release(self) -> None:
        """Remove the joint; releasing twice does nothing."""
        if self.held:
            self._sim.detach(self)


def _stepper(sim: Simulation) -> Stepper:
    require_verb(sim.method, "attach")
    return sim._stepper


def attach(
    sim: Simulation, a: str, b: str, kind: str, name: str | None, point: Any, axis: Any, at_a: Any, at_b: Any,
    length: float | None, pitch: float | None, over: float, collide: bool,
) -> Attachment:  # fmt: skip
    """Make a joint; see `Simulation.attach`."""
    stepper, model = _stepper(sim), sim.model
    if kind not in KINDS_ATTACHED:
        raise UnknownName("joint kind", kind, "what can be attached", KINDS_ATTACHED)
    for body in (a, b):
        if body != WORLD:
            model.body_index(body)
    name = _new_name(sim, a, b) if name is None else check.name(name, "attached joint")
    if name in sim.attached or name in model.joint_names:
        raise StateError(f'there is a joint "{name}" already')
    if point is not None and (at_a is not None or at_b is not None):
        raise StateError("give the joint by point, or by at_a and at_b, not both")
    points = _points(sim, (a, b), point, [at_a, at_b])
    own = _sizes(sim, kind, (a, b), points, length, pitch)
    gap = _gap(sim, (a, b), points)
    joint = stepper.new_joint(name, kind, (a, b), (points[0], points[1]), check.unit(axis, "axis"), **own)
    stepper.attach(joint, sim.time, check.number(over, "over", low=0.0), collide=bool(collide))
    sim._measures.poses = None
    sim._watch.attach(sim, gap, over)
    return Attachment(sim, name, kind, (a, b))


def detach(sim: Simulation, joint: Attachment | str) -> None:
    """Remove a joint made while running."""
    _stepper(sim).detach(joint.name if isinstance(joint, Attachment) else joint)
    sim._measures.poses = None


def add_rule(sim: Simulation, rule: Proximity) -> None:
    """Attach and detach joints by a rule."""
    stepper = _stepper(sim)
    if not isinstance(rule, Proximity):
        raise StateError(f"rule must be a lj.Proximity, got {type(rule).__name__}")
    stepper.add_rule(rule)


def remove_rule(sim: Simulation, rule: Proximity) -> None:
    """Drop a rule and detach the joints it made."""
    _stepper(sim).remove_rule(rule)
    sim._measures.poses = None


def _points(sim: Simulation, bodies: tuple[str, str], point: Any, given: list[Any]) -> list[np.ndarray]:
    """Return the points of a joint in the frames of its two bodies."""
    frames = [sim._stepper.body_pose(body) for body in bodies]
    points = [None if at is None else np.array(check.vector(at, 3, "point of the joint")) for at in given]
    if points[0] is None and points[1] is None:
        k = 0 if bodies[1] == WORLD else 1
        points[k] = _point_in(sim, bodies[k], point)
    for k in (0, 1):
        other = points[1 - k]
        if points[k] is None and other is not None:
            (turn, origin), (from_turn, from_origin) = frames[k], frames[1 - k]
            points[k] = turn.T @ (from_origin + from_turn @ other - origin)
    return [at for at in points if at is not None]


def _point_in(sim: Simulation, body: str, point: Any) -> np.ndarray:
    """Return a point of the world, or a body's com for None, in the body's frame."""
    if point is None:
        return sim.model.arrays.body_com[sim.model.body_index(body)]
    turn, origin = sim._stepper.body_pose(body)
    return turn.T @ (np.array(check.vector(point, 3, "point")) - origin)


def _sizes(
    sim: Simulation, kind: str, bodies: tuple[str, str], points: list[np.ndarray], length: Any, pitch: Any
) -> dict[str, float]:
    """Return the length of a distance joint or the pitch of a screw; refuse them on other kinds."""
    for word, value, owner in (("length", length, "distance"), ("pitch", pitch, "screw")):
        if value is not None and kind != owner:
            raise StateError(f"a {kind} joint has no {word}; {owner} joints have")
    if kind == "screw":
        return {"pitch": check.number(pitch, "pitch of the screw")}
    if kind != "distance":
        return {}
    now = _gap(sim, bodies, points) if length is None else length
    return {"length": check.number(now, "length of the distance joint", positive=True)}


def _gap(sim: Simulation, bodies: tuple[str, str], points: list[np.ndarray]) -> float:
    """Return the distance between a point of each of two bodies [m]."""
    ends: list[np.ndarray] = []
    for body, point in zip(bodies, points, strict=True):
        turn, origin = sim._stepper.body_pose(body)
        ends.append(origin + turn @ point)
    return float(np.linalg.norm(ends[1] - ends[0]))


def _new_name(sim: Simulation, a: str, b: str) -> str:
    names, k = {*sim.attached, *sim.model.joint_names}, 1
    while f"{a} {b} {k}" in names:
        k += 1
    return f"{a} {b} {k}"
