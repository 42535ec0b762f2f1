"""`Builder`: bodies, joints, shapes, springs and points in, one frozen `Model` out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from limberjack.errors import ModelError, UnknownName
from limberjack.model import check
from limberjack.model.body_kinds import BodyBuilder
from limberjack.model.joint_options import checked_axis, checked_joint
from limberjack.model.joints import KINDS
from limberjack.model.model import Model
from limberjack.model.registered import ConstraintBuilder, RegisteredBodyBuilder
from limberjack.model.shape_kinds import ShapeBuilder
from limberjack.model.spec import WORLD, Axis, Joint, Point, Spec, Spring

__all__ = ["Builder"]

_ORIGIN = (0.0, 0.0, 0.0)
_NO_TURN = (1.0, 0.0, 0.0, 0.0)
_Z = (0.0, 0.0, 1.0)


class Builder(BodyBuilder, RegisteredBodyBuilder, ShapeBuilder, ConstraintBuilder):
    """Collects a model piece by piece; `build()` checks the whole and returns it.

    Args:
        name: name of the model.
        gravity: acceleration of gravity, world axes [m/s^2].
    """

    def __init__(self, name: str = "model", *, gravity: Any = (0.0, 0.0, -9.81)) -> None:
        self._spec = Spec(check.name(name, "the model's name"), check.vector(gravity, 3, "gravity"))
        self._bodies: dict[str, int] = {}
        self._joints: dict[str, str] = {}
        self._named: set[str] = set()
        self._shapes: set[str] = set()
        self._meshes: dict[bytes, tuple[np.ndarray, np.ndarray]] = {}

    @classmethod
    def from_spec(cls, spec: Spec) -> Builder:
        """Return a builder that continues from `spec` (which is copied)."""
        builder = cls(spec.name, gravity=spec.gravity)
        builder._spec = Spec(
            spec.name, spec.gravity, spec.merge_fixed, list(spec.bodies), list(spec.joints), list(spec.shapes),
            list(spec.springs), list(spec.points), list(spec.excluded),
        )  # fmt: skip
        builder._bodies = {body.name: i for i, body in enumerate(spec.bodies)}
        for joint in spec.joints:
            builder._joints[joint.name] = joint.kind
            builder._joints.update((axis.name, "axis") for axis in joint.axes)
        builder._named = {x.name for x in (*spec.springs, *spec.points)}
        builder._shapes = {shape.name for shape in spec.shapes}
        return builder

    def add_point(self, name: str, body: str, position: Any) -> str:
        """Add a named point fixed to `body` at `position` in its frame and return its name."""
        self._unique(name, "point")
        point = Point(name, self._body(body), check.vector(position, 3, f'position of point "{name}"'))
        self._named.add(name)
        self._spec.points.append(point)
        return name

    def add_spring(
        self, a: str, b: str, *, at_a: Any = _ORIGIN, at_b: Any = _ORIGIN, stiffness: float, damping: float = 0.0,
        rest: float = 0.0, name: str | None = None,
    ) -> str:  # fmt: skip
        """Add a spring with damper between two body points and return its name.

        Args:
            a, b: bodies; one of them may be "world".
            at_a, at_b: attachment points in the body frames (world frame for the world) [m].
            stiffness: [N/m].
            damping: along the line of the spring [N s/m].
            rest: length without force [m].
            name: unique name; made from the bodies when None.
        """
        name = name or f"spring{len(self._spec.springs)}:{a}-{b}"
        self._unique(name, "spring")
        if self._body(a) == self._body(b):
            raise ModelError(f'spring "{name}" joins "{a}" to itself')
        spring = Spring(
            name, a, b,
            check.vector(at_a, 3, f'at_a of spring "{name}"'), check.vector(at_b, 3, f'at_b of spring "{name}"'),
            check.number(stiffness, f'stiffness of spring "{name}"', low=0.0),
            check.number(damping, f'damping of spring "{name}"', low=0.0),
            check.number(rest, f'rest of spring "{name}"', low=0.0),
        )  # fmt: skip
        self._named.add(name)
        self._spec.springs.append(spring)
        return name

    def add_joint(self, kind: str, name: str, parent: str, child: str, **options: Any) -> str:
        """Add a joint of the kind named; see the `add_joint_*` functions."""
        if kind not in KINDS:
            raise UnknownName("joint kind", kind, "Limberjack", KINDS)
        return getattr(self, f"add_joint_{kind}")(name, parent, child, **options)

    def add_joint_hinge(self, name: str, parent: str, child: str, **options: Any) -> str:
        """Add a joint that turns about `axis`; q is the angle and counts turns."""
        return self._add("hinge", name, parent, child, **options)

    def add_joint_slide(self, name: str, parent: str, child: str, **options: Any) -> str:
        """Add a joint that slides along `axis`; q is the distance [m]."""
        return self._add("slide", name, parent, child, **options)

    def add_joint_ball(self, name: str, parent: str, child: str, **options: Any) -> str:
        """Add a joint that turns about a point; q is a quaternion, qd the angular velocity in the child's axes.

        Besides `limits=(0, largest angle)` it takes `cone`, the largest angle between the z axes of the two joint
        frames [rad], and `twist=(low, high)`, the turn about z that is left when the swing of z is taken away [rad].
        """
        return self._add("ball", name, parent, child, **options)

    def add_joint_free(self, name: str, parent: str, child: str, **options: Any) -> str:
        """Let `child` move freely in the world; q = (position, quaternion), qd = (velocity, angular in body axes)."""
        if parent != WORLD:
            raise ModelError(f'free joint "{name}": its parent is the world, got "{parent}"')
        for word in ("position", "rotation", "position_in_child", "rotation_in_child", "axis"):
            if options.get(word) is not None:
                raise ModelError(f'free joint "{name}" has no {word}; use start=(position, quaternion)')
        return self._add("free", name, parent, child, **options)

    def add_joint_fixed(self, name: str, parent: str, child: str, **options: Any) -> str:
        """Fix `child` to `parent`; the bodies stay listed and move as one."""
        return self._add("fixed", name, parent, child, **options)

    def add_joint_universal(
        self,
        name: str,
        parent: str,
        child: str,
        *,
        axis: Any = (1.0, 0.0, 0.0),
        axis2: Any = (0.0, 1.0, 0.0),
        **options: Any,
    ) -> str:
        """Add a joint that turns about `axis` of the parent, then `axis2` of the child; they are perpendicular."""
        axis, axis2 = (
            check.unit(axis, f'axis of joint "{name}"'),
            check.unit(axis2, f'axis2 of joint "{name}"'),
        )
        if abs(sum(x * y for x, y in zip(axis, axis2, strict=True))) > 1e-6:
            raise ModelError(
                f'universal joint "{name}": axes must be perpendicular, got {axis} and {axis2}; use a compound joint'
            )
        return self._add("universal", name, parent, child, axis=axis, axis2=axis2, **options)

    def add_joint_cylindrical(self, name: str, parent: str, child: str, **options: Any) -> str:
        """Add a joint that slides along and turns about `axis`; q = (distance, angle)."""
        return self._add("cylindrical", name, parent, child, **options)

    def add_joint_planar(self, name: str, parent: str, child: str, **options: Any) -> str:
        """Add a joint that moves in the plane normal to `axis`; q = (x, y in the parent's joint frame, angle)."""
        return self._add("planar", name, parent, child, **options)

    def add_joint_screw(self, name: str, parent: str, child: str, *, pitch: float, **options: Any) -> str:
        """Add a joint that turns about `axis` and moves `pitch` [m/rad] along it; q is the angle."""
        return self._add("screw", name, parent, child, pitch=check.number(pitch, f'pitch of joint "{name}"'), **options)

    def add_joint_point_on_line(self, name: str, parent: str, child: str, **options: Any) -> str:
        """Keep a point of the child on the line along `axis` of the parent; q = (s, quaternion)."""
        return self._add("point_on_line", name, parent, child, **options)

    def add_joint_point_on_plane(self, name: str, parent: str, child: str, **options: Any) -> str:
        """Keep a point of the child on the plane normal to `axis` of the parent; q = (x, y, quaternion)."""
        return self._add("point_on_plane", name, parent, child, **options)

    def add_joint_compound(self, name: str, parent: str, child: str, axes: Any, **options: Any) -> str:
        """Add up to six named hinge and slide axes in order between two bodies; no bodies are put between them.

        Args:
            name: unique name of the joint.
            parent, child: the bodies.
            axes: `lj.Axis` objects; each is addressed by its own name.
            options: position, rotation, position_in_child, rotation_in_child.
        """
        axes = (axes,) if isinstance(axes, Axis) or not isinstance(axes, Iterable) else tuple(axes)
        if not 1 <= len(axes) <= 6:
            raise ModelError(f'compound joint "{name}" takes 1 to 6 axes, got {len(axes)}')
        return self._add(
            "compound", name, parent, child, axes=tuple(checked_axis(name, axis) for axis in axes), **options
        )

    def add_joint_distance(
        self, name: str, parent: str, child: str, *, length: float, rope: bool = False, position: Any = _ORIGIN,
        position_in_child: Any = _ORIGIN,
    ) -> str:  # fmt: skip
        """Keep two points at a distance: a rod, or with `rope` at most that distance. It never carries the tree."""
        length = check.number(length, f'length of joint "{name}"', positive=True)
        return self._add(
            "distance",
            name,
            parent,
            child,
            position=position,
            position_in_child=position_in_child,
            length=length,
            rope=bool(rope),
        )

    def add_joint_gear(
        self,
        name: str,
        joint_a: str,
        joint_b: str,
        *,
        ratio: float = 1.0,
        offset: float = 0.0,
        carrier: str | None = None,
    ) -> str:
        """Couple two one-freedom joints (or compound axes): q_a = ratio q_b + offset.

        Args:
            name: unique name.
            joint_a, joint_b: names of joints or compound axes.
            ratio: q_a per q_b.
            offset: [rad or m].
            carrier: body whose motion the two turns are measured from; None when they share their parent.
        """
        self._joint_name(name)
        for other in (joint_a, joint_b):
            kind = self._joints.get(other)
            if kind is None:
                raise UnknownName("joint", other, f'gear "{name}"', self._joints)
            if kind not in ("hinge", "slide", "screw", "axis"):
                raise ModelError(
                    f'gear "{name}": joint "{other}" is a {kind}; a gear couples hinge, slide, screw or compound axes'
                )
        if carrier is not None:
            self._body(carrier)
        ratio = check.number(ratio, f'ratio of gear "{name}"')
        offset = check.number(offset, f'offset of gear "{name}"')
        frame = (_ORIGIN, _NO_TURN, _ORIGIN, _NO_TURN)
        self._joints[name] = "gear"
        self._spec.joints.append(
            Joint(name, "gear", joint_a, joint_b, *frame, carrier=carrier, ratio=ratio, offset=offset)
        )
        return name

    def add_gear(
        self,
        name: str,
        joint_a: str,
        joint_b: str,
        *,
        ratio: float = 1.0,
        offset: float = 0.0,
        carrier: str | None = None,
    ) -> str:
        """Couple two one-freedom joints: the short name of `add_joint_gear`."""
        return self.add_joint_gear(name, joint_a, joint_b, ratio=ratio, offset=offset, carrier=carrier)

    def add_joint_no_slip(
        self, name: str, parent: str, child: str, *, axis: Any, position_in_child: Any = _ORIGIN
    ) -> str:
        """Keep a point of `child` from moving along `axis` of the child; the parent is the world. See `add_no_slip`."""
        if parent != WORLD:
            raise ModelError(f'no_slip "{name}": its parent is the world, got "{parent}"')
        return self._add("no_slip", name, parent, child, axis=axis, position_in_child=position_in_child)

    def add_no_slip(self, name: str, body: str, *, direction: Any, position: Any = _ORIGIN) -> str:
        """Keep a point of a body from moving sideways: a knife edge, a skate, a wheel that does not slip.

        The velocity of the point along `direction` is zero, its position is free. It has no coordinates and stands
        with the loop joints.

        Args:
            name: unique name.
            body: the body.
            direction: in which the point does not move, in the body frame.
            position: the point, in the body frame [m].
        """
        return self.add_joint_no_slip(name, WORLD, body, axis=direction, position_in_child=position)

    def exclude_collision(self, body_a: str, body_b: str) -> None:
        """Let two bodies pass through each other."""
        self._spec.excluded.append((self._body(body_a), self._body(body_b)))

    def build(self, *, merge_fixed: bool = True) -> Model:
        """Return the checked model.

        Args:
            merge_fixed: True moves bodies on fixed joints as one; False keeps each fixed joint as a joint without
                freedoms, a real constraint for the methods that work on bodies.
        """
        spec = Builder.from_spec(self._spec)._spec
        spec.merge_fixed = merge_fixed
        return Model(spec)

    def _body(self, name: str) -> str:
        if name != WORLD and name not in self._bodies:
            raise UnknownName("body", name, f'model "{self._spec.name}"', (WORLD, *self._bodies))
        return name

    def _unique(self, name: str, what: str) -> None:
        check.name(name, f"a {what}'s name")
        if name in self._named:
            raise ModelError(f'a point or spring "{name}" exists already')

    def _joint_name(self, name: str) -> None:
        check.name(name, "a joint's name")
        if name in self._joints:
            raise ModelError(f'joint "{name}" exists already')

    def _add(self, kind: str, name: str, parent: str, child: str, **options: Any) -> str:
        self._joint_name(name)
        if self._body(parent) == self._body(child):
            raise ModelError(f'joint "{name}" joins "{parent}" to itself')
        if child == WORLD:
            raise ModelError(f'joint "{name}": the world cannot be a child; swap parent and child')
        joint = checked_joint(kind, name, parent, child, **options)
        for axis in joint.axes:
            if axis.name != name:
                self._joint_name(axis.name)
        # Only now, with every value checked, does the builder change.
        self._joints[name] = kind
        self._joints.update((axis.name, "axis") for axis in joint.axes)
        self._spec.joints.append(joint)
        return name
