"""Joints made and removed while a simulation runs: the handle, and what `Simulation.attach` works out."""

# The files of this room are one class seen from several sides: they share its private members.
# pyright: reportPrivateUsage=false, reportUnnecessaryIsInstance=false

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from limberjack.constraints.runtime import RuntimeJoint, new_runtime_joint
from limberjack.errors import LoopNotClosed, StateError, UnknownName
from limberjack.methods import Stepper, require_verb
from limberjack.model import check
from limberjack.model.proximity import KINDS_ATTACHED, Proximity
from limberjack.model.spec import WORLD
from limberjack.simulation.reactions import Reaction, joint_forces
from limberjack.spatial.frames import matrix_from_quaternion

if TYPE_CHECKING:
    from limberjack.simulation.simulation import Simulation

__all__ = ["Attachment", "add_rule", "attach", "detach", "remove_rule"]


# Joints that are open by more than this must be given the time in which they are closed [m].
_FARTHEST = 1e-2
# Kinds along which points may be apart.
_LOOSE = ("slide", "cylindrical", "planar", "screw", "point_on_line", "point_on_plane")


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
    def reaction(self) -> Reaction:
        """Force and torque of the joint on the second body, at the joint, world axes; see `Simulation.reactions`."""
        if not self.held:
            raise StateError(f'joint "{self.name}" was removed')
        found = joint_forces(self._sim).attached[self._sim._stepper.index_attached(self.name)]
        return Reaction(found[3:].copy(), found[:3].copy())

    @property
    def held(self) -> bool:
        """Whether the joint still exists."""
        return self.name in self._sim.attached

    def release(self) -> None:
        """Remove the joint; releasing twice does nothing."""
        if self.held:
            self._sim.detach(self)


def _stepper(sim: Simulation, verb: str = "attach") -> Stepper:
    require_verb(sim.method, verb)
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
    links = [-1 if body == WORLD else int(model.arrays.body_link[model.body_index(body)]) for body in (a, b)]
    if links[0] == links[1]:
        raise StateError(f'bodies "{a}" and "{b}" move as one already and cannot be attached')
    if name in sim.attached or name in model.joint_names:
        raise StateError(f'there is a joint "{name}" already')
    if point is not None and (at_a is not None or at_b is not None):
        raise StateError("give the joint by point, or by at_a and at_b, not both")
    points = _points(sim, (a, b), point, [at_a, at_b])
    own = _sizes(sim, kind, (a, b), points, length, pitch)
    over = check.number(over, "over", low=0.0)
    apart = _gap(sim, (a, b), points)
    gap = abs(apart - own.get("length", 0.0)) if kind == "distance" else 0.0 if kind in _LOOSE else apart
    if over == 0.0 and gap > _FARTHEST:
        raise LoopNotClosed(
            f'joint "{name}": gap {gap:.3g} m > {_FARTHEST:g} m; give the time in which it is closed, over > 0'
        )
    turns = _pose(sim, a)[0], _pose(sim, b)[0]
    joint = new_runtime_joint(name, kind, (a, b), (points[0], points[1]), check.unit(axis, "axis"), turns, **own)
    sim._stepper = stepper.attach(RuntimeJoint(joint, since=sim.time, over=over, collide=bool(collide)))
    sim._measures.poses = None
    sim._watch.attach(sim, gap, over)
    return Attachment(sim, name, kind, (a, b))


def detach(sim: Simulation, joint: Attachment | str) -> None:
    """Remove a joint made while running."""
    name = joint.name if isinstance(joint, Attachment) else joint
    stepper = _stepper(sim)
    if name not in sim.attached:
        raise UnknownName("attached joint", name, f'model "{sim.model.name}"', sim.attached)
    sim._stepper = stepper.detach(name)
    sim._measures.poses = None


def _pose(sim: Simulation, body: str) -> tuple[np.ndarray, np.ndarray]:
    """Return rotation matrix and origin of a body's frame in the world."""
    if body == WORLD:
        return np.eye(3), np.zeros(3)
    found = sim._stepper.body_pose(body)
    if found is not None:
        return found
    b = sim.model.body_index(body)
    return matrix_from_quaternion(sim.rotations[b]), sim.positions[b]


def add_rule(sim: Simulation, rule: Proximity) -> None:
    """Attach and detach joints by a rule."""
    stepper = _stepper(sim, "rules")
    if not isinstance(rule, Proximity):
        raise StateError(f"rule must be a lj.Proximity, got {type(rule).__name__}")
    stepper.add_rule(rule)


def remove_rule(sim: Simulation, rule: Proximity) -> None:
    """Drop a rule and detach the joints it made."""
    _stepper(sim, "rules").remove_rule(rule)
    sim._measures.poses = None


def _points(sim: Simulation, bodies: tuple[str, str], point: Any, given: list[Any]) -> list[np.ndarray]:
    """Return the points of a joint in the frames of its two bodies."""
    frames = [_pose(sim, body) for body in bodies]
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
    turn, origin = _pose(sim, body)
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
        turn, origin = _pose(sim, body)
        ends.append(origin + turn @ point)
    return float(np.linalg.norm(ends[1] - ends[0]))


def _new_name(sim: Simulation, a: str, b: str) -> str:
    names, k = {*sim.attached, *sim.model.joint_names}, 1
    while f"{a} {b} {k}" in names:
        k += 1
    return f"{a} {b} {k}"
