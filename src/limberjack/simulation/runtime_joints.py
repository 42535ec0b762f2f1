"""The half of `Simulation` that makes joints and lets them go while running."""

from __future__ import annotations

from typing import Any

import numpy as np

from limberjack.errors import StateError, UnknownName, UnsupportedByMethod
from limberjack.model import check
from limberjack.model.proximity import KINDS_ATTACHED, Proximity
from limberjack.model.spec import WORLD
from limberjack.simulation.pushed import Pushed

__all__ = ["Attaching", "Attachment"]


class Attachment:
    """A joint made by `sim.attach`.

    Attributes:
        name: of the joint.
        kind: of the joint.
        bodies: names of the two bodies.
    """

    def __init__(self, sim: Attaching, name: str, kind: str, bodies: tuple[str, str]) -> None:
        self._sim, self.name, self.kind, self.bodies = sim, name, kind, bodies

    def __repr__(self) -> str:
        return f'Attachment("{self.name}", {self.kind}, {self.bodies[0]} - {self.bodies[1]})'

    @property
    def held(self) -> bool:
        """Whether the joint still holds."""
        return self.name in self._sim.attached

    def release(self) -> None:
        """Let go; releasing twice does nothing."""
        if self.held:
            self._sim.detach(self)


class Attaching(Pushed):
    """Joints that come and go, by hand and by rules."""

    @property
    def attached(self) -> tuple[str, ...]:
        """Names of the joints made while running, in the order in which they were made."""
        return tuple(one.joint.name for one in getattr(self._stepper, "attached", ()))

    @property
    def rules(self) -> tuple[Proximity, ...]:
        """The rules that make joints and let them go."""
        return tuple(getattr(self._stepper, "rules", ()))

    def _attaching(self) -> Any:
        """Return the stepper if it can make joints, or raise naming the methods that can."""
        if not hasattr(self._stepper, "attach"):
            text = f'method "{self.method.name}" makes no joints while running. Methods that do: impulses'
            raise UnsupportedByMethod(text)
        return self._stepper

    def attach(
        self,
        a: str,
        b: str,
        kind: str = "fixed",
        *,
        name: str | None = None,
        point: Any = None,
        axis: Any = (0.0, 0.0, 1.0),
        at_a: Any = None,
        at_b: Any = None,
        length: float | None = None,
        pitch: float | None = None,
        over: float = 0.1,
        collide: bool = False,
    ) -> Attachment:
        """Make a joint between two bodies as they stand now, and return it; `sim.detach` lets it go.

        The joint's axes are those of the world at the call. Points that do not meet are drawn together.

        Args:
            a, b: the bodies; one may be "world".
            kind: of the joint.
            name: of the joint; None makes one up.
            point: (3,) where the joint is, in the world now; None = the com of b.
            axis: (3,) its main axis, in the world now.
            at_a, at_b: (3,) the joint's places in the frames of the bodies instead; one of them alone is enough.
            length: of a distance joint [m]; None = that of now.
            pitch: of a screw [m/rad].
            over: time in which a gap between at_a and at_b is closed [s].
            collide: whether the two bodies collide while they are attached.
        """
        stepper, model = self._attaching(), self.model
        if kind not in KINDS_ATTACHED:
            raise UnknownName("joint kind", kind, "what can be attached", KINDS_ATTACHED)
        for body in (a, b):
            if body != WORLD:
                model.body_index(body)
        name = self._new_name(a, b) if name is None else check.name(name, "attached joint")
        if name in self.attached or name in model.joint_names:
            raise StateError(f'there is a joint "{name}" already')
        stepper.heed()
        if point is not None and (at_a is not None or at_b is not None):
            raise StateError("give the place of the joint by point, or by at_a and at_b, not both")
        places = self._joint_places((a, b), point, [at_a, at_b])
        own = self._joint_sizes(kind, (a, b), places, length, pitch)
        joint = stepper.new_joint(name, kind, (a, b), tuple(places), check.unit(axis, "axis"), **own)
        stepper.attach(joint, self.time, check.number(over, "over", low=0.0), collide=bool(collide))
        self._poses = None
        return Attachment(self, name, kind, (a, b))

    def _joint_places(self, bodies: tuple[str, str], point: Any, given: list[Any]) -> list[np.ndarray]:
        """Return the places of a joint in the frames of its two bodies."""
        stepper = self._attaching()
        frames = [stepper.body_frame(body) for body in bodies]
        places = [None if at is None else np.array(check.vector(at, 3, "place of the joint")) for at in given]
        if places[0] is None and places[1] is None:
            k = 0 if bodies[1] == WORLD else 1
            places[k] = self._point_in(bodies[k], point)
        for k in (0, 1):
            other = places[1 - k]
            if places[k] is None and other is not None:
                (turn, origin), (from_turn, from_origin) = frames[k], frames[1 - k]
                places[k] = turn.T @ (from_origin + from_turn @ other - origin)
        return [at for at in places if at is not None]

    def _joint_sizes(
        self, kind: str, bodies: tuple[str, str], places: list[np.ndarray], length: Any, pitch: Any
    ) -> dict[str, float]:
        """Return the length of a distance joint or the pitch of a screw; refuse them on other kinds."""
        for word, value, owner in (("length", length, "distance"), ("pitch", pitch, "screw")):
            if value is not None and kind != owner:
                raise StateError(f"a {kind} joint has no {word}; {owner} joints have")
        if kind == "screw":
            return {"pitch": check.number(pitch, "pitch of the screw")}
        if kind != "distance":
            return {}
        ends = []
        for body, place in zip(bodies, places, strict=True):
            turn, origin = self._attaching().body_frame(body)
            ends.append(origin + turn @ place)
        now = float(np.linalg.norm(ends[1] - ends[0])) if length is None else length
        return {"length": check.number(now, "length of the distance joint", positive=True)}

    def detach(self, joint: Attachment | str) -> None:
        """Let a joint made while running go.

        Args:
            joint: what `sim.attach` returned, or the name.
        """
        self._attaching().detach(joint.name if isinstance(joint, Attachment) else joint)
        self._poses = None

    def add_rule(self, rule: Proximity) -> None:
        """Let a rule make joints and let them go from now on; it is part of snapshots and saved files."""
        stepper = self._attaching()
        if not isinstance(rule, Proximity):
            raise StateError(f"rule must be a lj.Proximity, got {type(rule).__name__}")
        stepper.add_rule(rule)

    def remove_rule(self, rule: Proximity) -> None:
        """Forget a rule and let go what it joined."""
        self._attaching().remove_rule(rule)
        self._poses = None

    def _new_name(self, a: str, b: str) -> str:
        names, k = {*self.attached, *self.model.joint_names}, 1
        while f"{a} {b} {k}" in names:
            k += 1
        return f"{a} {b} {k}"

    def _point_in(self, body: str, point: Any) -> np.ndarray:
        """Return a point of the world, or a body's com for None, in the body's frame."""
        if point is None:
            return self.model.arrays.body_com[self.model.body_index(body)]
        turn, origin = self._attaching().body_frame(body)
        return turn.T @ (np.array(check.vector(point, 3, "point")) - origin)
