"""`Builder`: bodies, joints, shapes, springs and points in, one frozen `Model` out."""

from __future__ import annotations

from typing import Any

from limberjack.errors import ModelError, UnknownName
from limberjack.model import check
from limberjack.model.joints import KINDS, SPIN
from limberjack.model.model import Model
from limberjack.model.shapes import ShapeBuilder
from limberjack.model.spec import WORLD, Axis, Body, Joint, Motor, Point, Spec, Spring

__all__ = ["Builder"]

_ORIGIN = (0.0, 0.0, 0.0)
_NO_TURN = (1.0, 0.0, 0.0, 0.0)
_Z = (0.0, 0.0, 1.0)


class Builder(ShapeBuilder):
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
        return builder

    def add_body(
        self,
        name: str,
        *,
        mass: float | None = None,
        com: Any = _ORIGIN,
        inertia: Any = None,
        position: Any = None,
        rotation: Any = None,
    ) -> str:
        """Add a rigid body and return its name.

        Args:
            name: unique name; "world" is the ground and taken.
            mass: [kg]; None takes mass, com and inertia from the body's shapes and their densities.
            com: centre of mass in the body frame [m].
            inertia: about the com in body axes: 3 (diagonal), 6 (xx, yy, zz, xy, xz, yz) or 3x3 numbers [kg m^2];
                None with a mass is taken from the shapes scaled to that mass, or a point mass without shapes.
            position: start position of the body frame in the world, for a body without a joint to a parent [m].
            rotation: start rotation (w, x, y, z), likewise.
        """
        check.name(name, "a body's name")
        if name == WORLD or name in self._bodies:
            raise ModelError(f'body "{name}" exists already')
        com = com if com is _ORIGIN else check.vector(com, 3, f'com of body "{name}"')
        if mass is not None:
            mass = check.number(mass, f'mass of body "{name}"', low=0.0)
        if inertia is not None:
            if mass is None:
                raise ModelError(f'body "{name}" has an inertia but no mass')
            inertia = check.inertia_six(inertia, f'inertia of body "{name}"')
            problem = check.inertia_problem(mass, inertia)
            if problem:
                raise ModelError(f'body "{name}": {problem}')
        if position is not None:
            position = check.vector(position, 3, f'position of body "{name}"')
        if rotation is not None:
            rotation = check.frame_rotation(rotation, f'rotation of body "{name}"')
        self._bodies[name] = len(self._spec.bodies)
        self._spec.bodies.append(Body(name, mass, com, inertia, position, rotation))
        return name

    def add_point(self, name: str, body: str, position: Any) -> str:
        """Add a named point fixed to `body` at `position` in its frame and return its name."""
        self._unique(name, "point")
        self._spec.points.append(
            Point(name, self._body(body), check.vector(position, 3, f'position of point "{name}"'))
        )
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
        self._spec.springs.append(
            Spring(
                name, a, b,
                check.vector(at_a, 3, f'at_a of spring "{name}"'), check.vector(at_b, 3, f'at_b of spring "{name}"'),
                check.number(stiffness, f'stiffness of spring "{name}"', low=0.0),
                check.number(damping, f'damping of spring "{name}"', low=0.0),
                check.number(rest, f'rest of spring "{name}"', low=0.0),
            )
        )  # fmt: skip
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
        """Add a joint that turns about a point; q is a quaternion, qd the angular velocity in the child's axes."""
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
        axes = tuple(axes)
        if not 1 <= len(axes) <= 6:
            raise ModelError(f'compound joint "{name}" takes 1 to 6 axes, got {len(axes)}')
        return self._add(
            "compound", name, parent, child, axes=tuple(self._axis(name, axis) for axis in axes), **options
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
        self._named.add(name)

    def _joint_name(self, name: str) -> None:
        check.name(name, "a joint's name")
        if name in self._joints:
            raise ModelError(f'joint "{name}" exists already')

    def _axis(self, joint: str, axis: Any) -> Axis:
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

    def _add(
        self, kind: str, name: str, parent: str, child: str, *, position: Any = None, rotation: Any = None,
        position_in_child: Any = None, rotation_in_child: Any = None, axis: Any = None, axes: tuple[Axis, ...] = (),
        start: Any = None, start_velocity: Any = None, limits: Any = None, motor: Any = None, rest: Any = None,
        axis2: Any = None, pitch: float = 0.0, length: float = 0.0, rope: bool = False, **per_freedom: Any,
    ) -> str:  # fmt: skip
        self._joint_name(name)
        if self._body(parent) == self._body(child):
            raise ModelError(f'joint "{name}" joins "{parent}" to itself')
        if child == WORLD:
            raise ModelError(f'joint "{name}": the world cannot be a child; swap parent and child')
        what = f'of joint "{name}"'
        nq, nv = (len(axes), len(axes)) if kind == "compound" else (KINDS[kind].nq, KINDS[kind].nv)
        spins = [place for motion, place in _places(kind) if motion == SPIN]
        values: dict[str, Any] = {}
        for word in ("damping", "stiffness", "armature", "friction", "limit_stiffness", "limit_damping"):
            given = per_freedom.pop(word, None)
            if given is not None and not (isinstance(given, (int, float)) and given == 0):
                values[word] = _spread(given, nv, f"{word} {what}")
        if per_freedom:
            raise UnknownName("option", next(iter(per_freedom)), f'{kind} joint "{name}"', _OPTIONS)
        if kind in ("compound", "fixed", "distance") and (
            values or limits is not None or motor is not None or rest is not None or start is not None
        ):
            raise ModelError(
                f'{kind} joint "{name}" has no freedoms of its own'
                if kind != "compound"
                else f'compound joint "{name}": give {", ".join(values) or "these options"} on its axes'
            )
        stiffness = values.get("stiffness")
        if stiffness and any(len(set(stiffness[v : v + 3])) > 1 for _, v in spins):
            raise ModelError(f"stiffness {what} must be the same about all axes of its ball")
        for one in axes:
            if one.name != name:
                self._joint_name(one.name)
        if len({one.name for one in axes}) < len(axes):
            raise ModelError(f'compound joint "{name}" has two axes of one name: {", ".join(one.name for one in axes)}')
        place, turn = _frame(position, rotation, "position", "rotation", what)
        place_c, turn_c = _frame(position_in_child, rotation_in_child, "position_in_child", "rotation_in_child", what)
        joint = Joint(
            name, kind, parent, child, place, turn, place_c, turn_c,
            axis=_Z if axis is None else check.unit(axis, f"axis {what}"),
            axis2=axis2, pitch=pitch, axes=axes, length=length, rope=rope,
            start=None if start is None else _coordinates(start, nq, spins, f"start {what}"),
            start_velocity=(
                None if start_velocity is None else _spread(start_velocity, nv, f"start_velocity {what}", low=None)
            ),
            rest=None if rest is None else _coordinates(rest, nq, spins, f"rest {what}"),
            limits=None if limits is None else _limits(limits, nv, spins, f"limits {what}"),
            motor=None if motor is None else _motors(motor, nv, spins, f"motor {what}"),
            **values,
        )  # fmt: skip
        # Only now, with every value checked, does the builder change.
        self._joints[name] = kind
        self._joints.update((one.name, "axis") for one in axes)
        self._spec.joints.append(joint)
        return name


_OPTIONS = (
    "position", "rotation", "position_in_child", "rotation_in_child", "axis", "start", "start_velocity", "limits",
    "limit_stiffness", "limit_damping", "damping", "stiffness", "rest", "armature", "friction", "motor",
)  # fmt: skip


def _frame(
    position: Any, rotation: Any, word: str, turn: str, what: str
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the checked position and rotation of a joint frame."""
    place = _ORIGIN if position is None else check.vector(position, 3, f"{word} {what}")
    return place, _NO_TURN if rotation is None else check.frame_rotation(rotation, f"{turn} {what}")


def _places(kind: str) -> list[tuple[int, tuple[int, int]]]:
    """Return (factor kind, (q, v) place) for the factors of a plain kind."""
    out, q, v = [], 0, 0
    for motion, _ in KINDS[kind].motions:
        out.append((motion, (q, v)))
        q, v = (q + 4, v + 3) if motion == SPIN else (q + 1, v + 1)
    return out


def _spread(value: Any, size: int, what: str, low: float | None = 0.0) -> tuple[float, ...]:
    """Return one value per freedom from a scalar or a sequence."""
    if isinstance(value, (int, float)):
        return (check.number(value, what, low=low),) * size
    return check.vector(value, size, what, low=low)


def _coordinates(value: Any, nq: int, spins: list[tuple[int, int]], what: str) -> tuple[float, ...]:
    """Return nq coordinates, quaternions normalised."""
    out = list(check.vector((value,) if isinstance(value, (int, float)) else value, nq, what))
    for q, _ in spins:
        out[q : q + 4] = check.frame_rotation(out[q : q + 4], what)
    return tuple(out)


def _limits(value: Any, nv: int, spins: list[tuple[int, int]], what: str) -> tuple[Any, ...]:
    """Return one pair or None per freedom; a ball has one pair (0, largest angle) at its first place."""
    slots = [v for v in range(nv) if not any(s < v < s + 3 for _, s in spins)]
    pairs = list(value)
    if len(pairs) == 2 and not any(isinstance(x, (tuple, list)) or x is None for x in pairs):
        pairs = [tuple(pairs)] * len(slots)
    if len(pairs) != len(slots):
        raise ModelError(f"{what}: {len(slots)} pairs (low, high) are needed, got {value!r}")
    out: list[Any] = [None] * nv
    for slot, pair in zip(slots, pairs, strict=True):
        out[slot] = check.limit(pair, what)
        if out[slot] is not None and any(slot == s for _, s in spins) and out[slot][0] != 0.0:
            raise ModelError(f"{what}: a ball's limits are (0, largest angle), got {pair!r}")
    return tuple(out)


def _motor(motor: Any, what: str, size: int) -> Motor:
    if not isinstance(motor, Motor):
        raise ModelError(f"{what} must be a lj.Motor, got {motor!r}")
    for word in ("kp", "kd"):
        check.number(getattr(motor, word), f"{word} of the {what}", low=0.0)
    check.number(motor.max, f"max of the {what}", low=0.0, infinite=True)
    check.number(motor.velocity, f"velocity of the {what}")
    if size == 4 and not isinstance(motor.target, (int, float)):
        target: Any = check.frame_rotation(motor.target, f"target of the {what}")
    else:
        target = check.number(motor.target, f"target of the {what}")
    kp, kd, most, velocity = (float(x) for x in (motor.kp, motor.kd, motor.max, motor.velocity))
    return Motor(kp=kp, kd=kd, target=target, max=most, velocity=velocity)


def _motors(value: Any, nv: int, spins: list[tuple[int, int]], what: str) -> tuple[Motor | None, ...]:
    """Return one motor or None per freedom; a ball's stands at its first place."""
    slots = [v for v in range(nv) if not any(s < v < s + 3 for _, s in spins)]
    given = [value] * len(slots) if isinstance(value, Motor) else list(value)
    if len(given) != len(slots):
        raise ModelError(f"{what}: {len(slots)} motors are needed, got {len(given)}")
    out: list[Motor | None] = [None] * nv
    for slot, motor in zip(slots, given, strict=True):
        if motor is not None:
            out[slot] = _motor(motor, what, 4 if any(slot == s for _, s in spins) else 1)
    return tuple(out)
