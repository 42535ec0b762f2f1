"""`Builder`: bodies, joints, shapes, springs and points in, one frozen `Model` out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from limberjack.errors import ModelError, UnknownName
from limberjack.model import check
from limberjack.model.actuators import ControlBuilder
from limberjack.model.body_kinds import BodyBuilder
from limberjack.model.joint_options import checked_axes, checked_joint
from limberjack.model.joints import KINDS
from limberjack.model.keywords import checked_keywords
from limberjack.model.kinematic import kinematic_name, register_kinematic
from limberjack.model.merging import append, placed
from limberjack.model.model import Model
from limberjack.model.registered import CONSTRAINT_KINDS, ConstraintBuilder, RegisteredBodyBuilder
from limberjack.model.shape_kinds import ShapeBuilder
from limberjack.model.spec import IDENTITY, ORIGIN, WORLD, Z_AXIS, Axis, Joint, Motor, Point, Spec, Spring

__all__ = ["Builder"]

# One value or one per dof; pairs (low, high), None where there is no limit; one motor or one per dof.
Limits = ArrayLike | Sequence[tuple[float, float] | None]
Motors = Motor | Sequence[Motor | None]
# Mass and moments of inertia of kinematic bodies without any [kg, kg m^2].
_HEAVY = 1000.0
_POSITIONAL = ("self", "kind", "name", "parent", "child")


@checked_keywords
class Builder(BodyBuilder, RegisteredBodyBuilder, ShapeBuilder, ConstraintBuilder, ControlBuilder):
    """Collects a model piece by piece; `build()` checks the whole and returns it.

    Args:
        name: name of the model.
        gravity: acceleration of gravity, world axes [m/s^2].
    """

    def __init__(self, name: str = "model", *, gravity: ArrayLike = (0.0, 0.0, -9.81)) -> None:
        self._spec = Spec(check.name(name, "the model's name"), check.vector(gravity, 3, "gravity"))
        self._bodies: dict[str, int] = {}
        self._joints: dict[str, str] = {}
        self._named: set[str] = set()
        self._shapes: set[str] = set()
        self._meshes: dict[bytes, tuple[np.ndarray, np.ndarray]] = {}

    def add_body(
        self, name: str, *, mass: float | None = None, com: ArrayLike = ORIGIN, inertia: ArrayLike | None = None,
        position: ArrayLike | None = None, rotation: ArrayLike | None = None, body_kind: str = "rigid",
        scale: ArrayLike | None = None, scale_stiffness: float = 0.0, scale_rest: ArrayLike | None = None,
        gravity_compensation: float = 0.0, kinematic: bool = False,
    ) -> str:  # fmt: skip
        """Add a body, rigid unless `body_kind` says otherwise, and return its name.

        Args:
            name: unique name; "world" is the ground and taken.
            mass: [kg]; None takes mass, com and inertia from the body's shapes and their densities.
            com: centre of mass in the body frame [m].
            inertia: about the com in body axes: 3 (diagonal), 6 (xx, yy, zz, xy, xz, yz) or 3x3 numbers [kg m^2];
                None with a mass is taken from the shapes scaled to that mass, or a point mass without shapes.
            position: start position of the body frame in the world, for a body without a joint to a parent [m].
            rotation: start rotation (w, x, y, z), likewise.
            body_kind: "rigid"; the functions `add_body_planar`, `add_particle`, `add_body_scalable` and
                `add_body_affine` give the other kinds; or a name given to `register_body_kind`.
            scale: start values of the scales of a kind that has any; None is the unscaled body.
            scale_stiffness: of the scales, against `scale_rest` [N m].
            scale_rest: scales without force; None is the unscaled body.
            gravity_compensation: part of its weight that a force at its com carries.
            kinematic: whether its motion is prescribed, by `Simulation.move`, whatever acts on it: a platform, a belt,
                a drum. It has no joint to a parent and stands still until it is moved. Its mass changes nothing that
                others feel; None is a ton.
        """
        if kinematic is not True and kinematic is not False:
            raise ModelError(f'kinematic of body "{name}" must be True or False, got {kinematic!r}')
        if kinematic and body_kind != "rigid":
            raise ModelError(f'body "{name}" is of kind "{body_kind}"; only rigid bodies can be kinematic')
        if kinematic and mass is None:
            mass, inertia = _HEAVY, (_HEAVY,) * 3
        self._add_body(
            name, mass=mass, com=com, inertia=inertia, position=position, rotation=rotation, body_kind=body_kind,
            scale=scale, scale_stiffness=scale_stiffness, scale_rest=scale_rest,
            gravity_compensation=gravity_compensation,
        )  # fmt: skip
        if kinematic:
            body = self._spec.bodies[-1]
            motion = (*(body.position or ORIGIN), *(body.rotation or IDENTITY), *(0.0,) * 7)
            self.add_constraint(register_kinematic(), kinematic_name(name), WORLD, name, data=motion)
        return name

    @classmethod
    def from_spec(cls, spec: Spec) -> Builder:
        """Return a builder that continues from `spec` (which is copied).

        Args:
            spec: what a model was built from: `model.spec`.
        """
        builder = cls(spec.name, gravity=spec.gravity)
        builder._spec = spec.copy()
        builder._bodies = {body.name: i for i, body in enumerate(spec.bodies)}
        for joint in spec.joints:
            builder._joints[joint.name] = joint.kind
            builder._joints.update((axis.name, "axis") for axis in joint.axes)
        builder._named = {x.name for x in (*spec.springs, *spec.points)}
        builder._shapes = {shape.name for shape in spec.shapes}
        return builder

    def add_point(self, name: str, body: str, position: ArrayLike, *, rotation: ArrayLike = IDENTITY) -> str:
        """Add a named point fixed to `body` and return its name.

        Args:
            name: unique name.
            body: the body; "world" is the ground.
            position: in the body frame [m].
            rotation: its axes in the body frame, in which sensors measure: quaternion (w, x, y, z) or 3x3 rotation.
        """
        self._unique(name, "point")
        place = check.vector(position, 3, f'position of point "{name}"')
        point = Point(name, self._body(body), place, check.frame_rotation(rotation, f'rotation of point "{name}"'))
        self._named.add(name)
        self._spec.points.append(point)
        return name

    def add_spring(
        self, a: str, b: str, *, at_a: ArrayLike = ORIGIN, at_b: ArrayLike = ORIGIN, stiffness: float,
        damping: float = 0.0, rest: float = 0.0, name: str | None = None,
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

    def add_joint(
        self, kind: str, name: str, parent: str, child: str, *, position: ArrayLike | None = None,
        rotation: ArrayLike | None = None, position_in_child: ArrayLike | None = None,
        rotation_in_child: ArrayLike | None = None, axis: ArrayLike | None = None, start: ArrayLike | None = None,
        start_velocity: ArrayLike | None = None, limits: Limits | None = None, limit_stiffness: ArrayLike | None = None,
        limit_damping: ArrayLike | None = None, damping: ArrayLike | None = None, stiffness: ArrayLike | None = None,
        rest: ArrayLike | None = None, armature: ArrayLike | None = None, friction: ArrayLike | None = None,
        motor: Motors | None = None, axis2: ArrayLike | None = None, axes: Axis | Iterable[Axis] | None = None,
        pitch: float | None = None, cone: float | None = None, twist: tuple[float, float] | None = None,
        length: float | None = None, rope: bool | None = None, ratio: float | None = None, offset: float | None = None,
        carrier: str | None = None,
    ) -> str:  # fmt: skip
        """Add a joint of the kind named and return its name: `add_joint("hinge", ...)` is `add_joint_hinge(...)`.

        Args:
            kind: "hinge", "slide", "ball", "free", "fixed", "universal", "cylindrical", "planar", "screw",
                "point_on_line", "point_on_plane", "compound", "distance", "gear" or "no_slip".
            name: unique name.
            parent, child: bodies; of a gear the two joints.
            position, rotation, position_in_child, rotation_in_child, axis, start, start_velocity, limits,
                limit_stiffness, limit_damping, damping, stiffness, rest, armature, friction, motor, axis2, axes, pitch,
                cone, twist, length, rope, ratio, offset, carrier: those of `add_joint_KIND`, with its units; None is
                the default of the kind.
        """
        given = {word: value for word, value in locals().items() if value is not None and word not in _POSITIONAL}
        add = getattr(self, f"add_joint_{kind}", None)
        if add is None:
            raise UnknownName(
                "joint kind", kind, "Limberjack", [name for name in KINDS if name not in CONSTRAINT_KINDS]
            )
        return add(name, parent, child, **given)

    def add_joint_hinge(
        self, name: str, parent: str, child: str, *, position: ArrayLike = ORIGIN, rotation: ArrayLike = IDENTITY,
        position_in_child: ArrayLike = ORIGIN, rotation_in_child: ArrayLike = IDENTITY, axis: ArrayLike = Z_AXIS,
        start: ArrayLike | None = None, start_velocity: ArrayLike | None = None, limits: Limits | None = None,
        limit_stiffness: ArrayLike | None = None, limit_damping: ArrayLike | None = None, damping: ArrayLike = 0.0,
        stiffness: ArrayLike = 0.0, rest: ArrayLike | None = None, armature: ArrayLike = 0.0, friction: ArrayLike = 0.0,
        motor: Motors | None = None,
    ) -> str:  # fmt: skip
        """Add a joint that rotates about `axis` and return its name; q is the angle [rad] and counts turns.

        Args:
            name: unique name.
            parent, child: bodies; the parent may be "world".
            position, rotation: joint frame in the parent: origin [m], and quaternion (w, x, y, z) or 3x3 rotation.
            position_in_child, rotation_in_child: joint frame in the child, likewise; at q = 0 the two coincide.
            axis: in the joint frame.
            start, start_velocity: angle and its rate at the start [rad, rad/s].
            limits: (low, high) [rad]; None is none.
            limit_stiffness, limit_damping: springs and dampers instead of hard stops [N m/rad, N m s/rad].
            damping: viscous friction [N m s/rad].
            stiffness, rest: spring towards the coordinates `rest`, q = 0 if None [N m/rad, rad].
            armature: rotor inertia, added to the diagonal of the mass matrix [kg m^2].
            friction: dry friction, its largest force [N m].
            motor: PD motor, `lj.Motor`.
        """
        return self._add("hinge", locals())

    def add_joint_slide(
        self, name: str, parent: str, child: str, *, position: ArrayLike = ORIGIN, rotation: ArrayLike = IDENTITY,
        position_in_child: ArrayLike = ORIGIN, rotation_in_child: ArrayLike = IDENTITY, axis: ArrayLike = Z_AXIS,
        start: ArrayLike | None = None, start_velocity: ArrayLike | None = None, limits: Limits | None = None,
        limit_stiffness: ArrayLike | None = None, limit_damping: ArrayLike | None = None, damping: ArrayLike = 0.0,
        stiffness: ArrayLike = 0.0, rest: ArrayLike | None = None, armature: ArrayLike = 0.0, friction: ArrayLike = 0.0,
        motor: Motors | None = None,
    ) -> str:  # fmt: skip
        """Add a joint that translates along `axis` and return its name; q is the distance [m].

        Args:
            name: unique name.
            parent, child: bodies; the parent may be "world".
            position, rotation: joint frame in the parent: origin [m], and quaternion (w, x, y, z) or 3x3 rotation.
            position_in_child, rotation_in_child: joint frame in the child, likewise; at q = 0 the two coincide.
            axis: in the joint frame.
            start, start_velocity: distance and its rate at the start [m, m/s].
            limits: (low, high) [m]; None is none.
            limit_stiffness, limit_damping: springs and dampers instead of hard stops [N/m, N s/m].
            damping: viscous friction [N s/m].
            stiffness, rest: spring towards the coordinates `rest`, q = 0 if None [N/m, m].
            armature: rotor inertia, added to the diagonal of the mass matrix [kg].
            friction: dry friction, its largest force [N].
            motor: PD motor, `lj.Motor`.
        """
        return self._add("slide", locals())

    def add_joint_ball(
        self, name: str, parent: str, child: str, *, position: ArrayLike = ORIGIN, rotation: ArrayLike = IDENTITY,
        position_in_child: ArrayLike = ORIGIN, rotation_in_child: ArrayLike = IDENTITY, axis: ArrayLike = Z_AXIS,
        start: ArrayLike | None = None, start_velocity: ArrayLike | None = None, limits: Limits | None = None,
        limit_stiffness: ArrayLike | None = None, limit_damping: ArrayLike | None = None, damping: ArrayLike = 0.0,
        stiffness: ArrayLike = 0.0, rest: ArrayLike | None = None, armature: ArrayLike = 0.0, friction: ArrayLike = 0.0,
        motor: Motors | None = None, cone: float | None = None, twist: tuple[float, float] | None = None,
    ) -> str:  # fmt: skip
        """Add a joint that rotates about a point and return its name.

        q is the quaternion of the child in the parent, qd the angular velocity in the child's axes.

        Args:
            name: unique name.
            parent, child: bodies; the parent may be "world".
            position, rotation: joint frame in the parent: origin [m], and quaternion (w, x, y, z) or 3x3 rotation.
            position_in_child, rotation_in_child: joint frame in the child, likewise; at q = 0 the two coincide.
            axis: in the joint frame: the axis of `cone` and `twist`.
            start, start_velocity: quaternion and angular velocity at the start [rad/s].
            limits: (0, largest angle) of the rotation [rad]; None is none.
            limit_stiffness, limit_damping: springs and dampers instead of hard stops [N m/rad, N m s/rad].
            damping: viscous friction, one value or one per axis of the child [N m s/rad].
            stiffness, rest: spring towards the coordinates `rest`, q = 0 if None [N m/rad, quaternion].
            armature: rotor inertia, added to the diagonal of the mass matrix, one value or one per axis [kg m^2].
            friction: dry friction, its largest force, one value or one per axis [N m].
            motor: PD motor, `lj.Motor` whose target is a quaternion.
            cone: largest angle between the axes of the two joint frames [rad].
            twist: (low, high) of the rotation about the axis that is left when its swing is taken away [rad].
        """
        return self._add("ball", locals())

    def add_joint_free(
        self, name: str, parent: str, child: str, *, start: ArrayLike | None = None,
        start_velocity: ArrayLike | None = None, limits: Limits | None = None, limit_stiffness: ArrayLike | None = None,
        limit_damping: ArrayLike | None = None, damping: ArrayLike = 0.0, stiffness: ArrayLike = 0.0,
        rest: ArrayLike | None = None, armature: ArrayLike = 0.0, friction: ArrayLike = 0.0,
        motor: Motors | None = None,
    ) -> str:  # fmt: skip
        """Add a joint that leaves `child` free in the world and return its name.

        q = (position, quaternion) of the body frame, qd = (velocity in world axes, angular velocity in body axes).

        Args:
            name: unique name.
            parent: "world".
            child: the body.
            start, start_velocity: (position, quaternion) and (velocity, angular velocity in body axes) at the start [m,
                m/s, rad/s]; None is the pose given to `add_body`, at rest.
            limits: one pair (low, high) per translation [m], then (0, largest angle) of the rotation [rad]; None for
                none.
            limit_stiffness, limit_damping: springs and dampers instead of hard stops [N m/rad or N/m, N m s/rad or N
                s/m].
            damping: viscous friction, one value or one per dof [N m s/rad or N s/m].
            stiffness, rest: spring towards the coordinates `rest`, q = 0 if None [N m/rad or N/m, rad or m].
            armature: rotor inertia, added to the diagonal of the mass matrix [kg m^2 or kg].
            friction: dry friction, its largest force [N m or N].
            motor: PD motor, one `lj.Motor` for all dofs or one per dof.
        """
        if parent != WORLD:
            raise ModelError(f'free joint "{name}": its parent is the world, got "{parent}"')
        return self._add("free", locals())

    def add_joint_fixed(
        self, name: str, parent: str, child: str, *, position: ArrayLike = ORIGIN, rotation: ArrayLike = IDENTITY,
        position_in_child: ArrayLike = ORIGIN, rotation_in_child: ArrayLike = IDENTITY, axis: ArrayLike = Z_AXIS,
    ) -> str:  # fmt: skip
        """Fix `child` to `parent` and return the joint's name; the bodies stay listed and move as one.

        Args:
            name: unique name.
            parent, child: bodies; the parent may be "world".
            position, rotation: joint frame in the parent: origin [m], and quaternion (w, x, y, z) or 3x3 rotation.
            position_in_child, rotation_in_child: joint frame in the child, likewise; at q = 0 the two coincide.
            axis: no effect; every joint kind has one.
        """
        return self._add("fixed", locals())

    def add_joint_universal(
        self, name: str, parent: str, child: str, *, position: ArrayLike = ORIGIN, rotation: ArrayLike = IDENTITY,
        position_in_child: ArrayLike = ORIGIN, rotation_in_child: ArrayLike = IDENTITY,
        axis: ArrayLike = (1.0, 0.0, 0.0), axis2: ArrayLike = (0.0, 1.0, 0.0), start: ArrayLike | None = None,
        start_velocity: ArrayLike | None = None, limits: Limits | None = None, limit_stiffness: ArrayLike | None = None,
        limit_damping: ArrayLike | None = None, damping: ArrayLike = 0.0, stiffness: ArrayLike = 0.0,
        rest: ArrayLike | None = None, armature: ArrayLike = 0.0, friction: ArrayLike = 0.0,
        motor: Motors | None = None,
    ) -> str:  # fmt: skip
        """Add a joint that rotates about `axis` of the parent, then about `axis2` of the child; return its name.

        Args:
            name: unique name.
            parent, child: bodies; the parent may be "world".
            position, rotation: joint frame in the parent: origin [m], and quaternion (w, x, y, z) or 3x3 rotation.
            position_in_child, rotation_in_child: joint frame in the child, likewise; at q = 0 the two coincide.
            axis, axis2: in the joint frame, perpendicular.
            start, start_velocity: the two angles and their rates at the start [rad, rad/s].
            limits: one pair (low, high) for both angles or one per angle, None for none [rad].
            limit_stiffness, limit_damping: springs and dampers instead of hard stops [N m/rad, N m s/rad].
            damping: viscous friction, one value or one per angle [N m s/rad].
            stiffness, rest: spring towards the coordinates `rest`, q = 0 if None [N m/rad, rad].
            armature: rotor inertia, added to the diagonal of the mass matrix [kg m^2].
            friction: dry friction, its largest force [N m].
            motor: PD motor, one `lj.Motor` for both angles or one per angle.
        """
        axis = check.unit(axis, f'axis of joint "{name}"')
        axis2 = check.unit(axis2, f'axis2 of joint "{name}"')
        if abs(sum(x * y for x, y in zip(axis, axis2, strict=True))) > 1e-6:
            raise ModelError(
                f'universal joint "{name}": axes must be perpendicular, got {axis} and {axis2}; use a compound joint'
            )
        return self._add("universal", locals())

    def add_joint_cylindrical(
        self, name: str, parent: str, child: str, *, position: ArrayLike = ORIGIN, rotation: ArrayLike = IDENTITY,
        position_in_child: ArrayLike = ORIGIN, rotation_in_child: ArrayLike = IDENTITY, axis: ArrayLike = Z_AXIS,
        start: ArrayLike | None = None, start_velocity: ArrayLike | None = None, limits: Limits | None = None,
        limit_stiffness: ArrayLike | None = None, limit_damping: ArrayLike | None = None, damping: ArrayLike = 0.0,
        stiffness: ArrayLike = 0.0, rest: ArrayLike | None = None, armature: ArrayLike = 0.0, friction: ArrayLike = 0.0,
        motor: Motors | None = None,
    ) -> str:  # fmt: skip
        """Add a joint that translates along and rotates about `axis`; return its name. q = (distance, angle).

        Args:
            name: unique name.
            parent, child: bodies; the parent may be "world".
            position, rotation: joint frame in the parent: origin [m], and quaternion (w, x, y, z) or 3x3 rotation.
            position_in_child, rotation_in_child: joint frame in the child, likewise; at q = 0 the two coincide.
            axis: in the joint frame.
            start, start_velocity: (distance, angle) and their rates at the start [m, rad, m/s, rad/s].
            limits: one pair (low, high) for all dofs or one per dof, None for none [rad or m].
            limit_stiffness, limit_damping: springs and dampers instead of hard stops [N m/rad or N/m, N m s/rad or N
                s/m].
            damping: viscous friction, one value or one per dof [N m s/rad or N s/m].
            stiffness, rest: spring towards the coordinates `rest`, q = 0 if None [N m/rad or N/m, rad or m].
            armature: rotor inertia, added to the diagonal of the mass matrix [kg m^2 or kg].
            friction: dry friction, its largest force [N m or N].
            motor: PD motor, one `lj.Motor` for all dofs or one per dof.
        """
        return self._add("cylindrical", locals())

    def add_joint_planar(
        self, name: str, parent: str, child: str, *, position: ArrayLike = ORIGIN, rotation: ArrayLike = IDENTITY,
        position_in_child: ArrayLike = ORIGIN, rotation_in_child: ArrayLike = IDENTITY, axis: ArrayLike = Z_AXIS,
        start: ArrayLike | None = None, start_velocity: ArrayLike | None = None, limits: Limits | None = None,
        limit_stiffness: ArrayLike | None = None, limit_damping: ArrayLike | None = None, damping: ArrayLike = 0.0,
        stiffness: ArrayLike = 0.0, rest: ArrayLike | None = None, armature: ArrayLike = 0.0, friction: ArrayLike = 0.0,
        motor: Motors | None = None,
    ) -> str:  # fmt: skip
        """Add a joint that moves in the plane normal to `axis` and return its name.

        q = (x, y, angle), x and y in the parent's joint frame; the angle counts turns.

        Args:
            name: unique name.
            parent, child: bodies; the parent may be "world".
            position, rotation: joint frame in the parent: origin [m], and quaternion (w, x, y, z) or 3x3 rotation.
            position_in_child, rotation_in_child: joint frame in the child, likewise; at q = 0 the two coincide.
            axis: in the joint frame.
            start, start_velocity: (x, y, angle) and their rates at the start [m, rad, m/s, rad/s].
            limits: one pair (low, high) for all dofs or one per dof, None for none [rad or m].
            limit_stiffness, limit_damping: springs and dampers instead of hard stops [N m/rad or N/m, N m s/rad or N
                s/m].
            damping: viscous friction, one value or one per dof [N m s/rad or N s/m].
            stiffness, rest: spring towards the coordinates `rest`, q = 0 if None [N m/rad or N/m, rad or m].
            armature: rotor inertia, added to the diagonal of the mass matrix [kg m^2 or kg].
            friction: dry friction, its largest force [N m or N].
            motor: PD motor, one `lj.Motor` for all dofs or one per dof.
        """
        return self._add("planar", locals())

    def add_joint_screw(
        self, name: str, parent: str, child: str, *, pitch: float, position: ArrayLike = ORIGIN,
        rotation: ArrayLike = IDENTITY, position_in_child: ArrayLike = ORIGIN, rotation_in_child: ArrayLike = IDENTITY,
        axis: ArrayLike = Z_AXIS, start: ArrayLike | None = None, start_velocity: ArrayLike | None = None,
        limits: Limits | None = None, limit_stiffness: ArrayLike | None = None, limit_damping: ArrayLike | None = None,
        damping: ArrayLike = 0.0, stiffness: ArrayLike = 0.0, rest: ArrayLike | None = None, armature: ArrayLike = 0.0,
        friction: ArrayLike = 0.0, motor: Motors | None = None,
    ) -> str:  # fmt: skip
        """Add a joint that rotates about `axis` and translates `pitch` along it; return its name. q is the angle.

        Args:
            name: unique name.
            parent, child: bodies; the parent may be "world".
            pitch: [m/rad].
            position, rotation: joint frame in the parent: origin [m], and quaternion (w, x, y, z) or 3x3 rotation.
            position_in_child, rotation_in_child: joint frame in the child, likewise; at q = 0 the two coincide.
            axis: in the joint frame.
            start, start_velocity: angle and its rate at the start [rad, rad/s].
            limits: (low, high) [rad]; None is none.
            limit_stiffness, limit_damping: springs and dampers instead of hard stops [N m/rad, N m s/rad].
            damping: viscous friction [N m s/rad].
            stiffness, rest: spring towards the coordinates `rest`, q = 0 if None [N m/rad, rad].
            armature: rotor inertia, added to the diagonal of the mass matrix [kg m^2].
            friction: dry friction, its largest force [N m].
            motor: PD motor, `lj.Motor`.
        """
        pitch = check.number(pitch, f'pitch of joint "{name}"')
        return self._add("screw", locals())

    def add_joint_point_on_line(
        self, name: str, parent: str, child: str, *, position: ArrayLike = ORIGIN, rotation: ArrayLike = IDENTITY,
        position_in_child: ArrayLike = ORIGIN, rotation_in_child: ArrayLike = IDENTITY, axis: ArrayLike = Z_AXIS,
        start: ArrayLike | None = None, start_velocity: ArrayLike | None = None, limits: Limits | None = None,
        limit_stiffness: ArrayLike | None = None, limit_damping: ArrayLike | None = None, damping: ArrayLike = 0.0,
        stiffness: ArrayLike = 0.0, rest: ArrayLike | None = None, armature: ArrayLike = 0.0, friction: ArrayLike = 0.0,
        motor: Motors | None = None,
    ) -> str:  # fmt: skip
        """Keep a point of the child on the line along `axis` of the parent and return the joint's name.

        q = (s, quaternion), qd = (rate of s, angular velocity in the child's axes).

        Args:
            name: unique name.
            parent, child: bodies; the parent may be "world".
            position, rotation: joint frame in the parent: origin [m], and quaternion (w, x, y, z) or 3x3 rotation.
            position_in_child, rotation_in_child: joint frame in the child, likewise; at q = 0 the two coincide.
            axis: in the joint frame.
            start, start_velocity: (s, quaternion) and (rate of s, angular velocity) at the start [m, m/s, rad/s].
            limits: one pair (low, high) per translation [m], then (0, largest angle) of the rotation [rad]; None for
                none.
            limit_stiffness, limit_damping: springs and dampers instead of hard stops [N m/rad or N/m, N m s/rad or N
                s/m].
            damping: viscous friction, one value or one per dof [N m s/rad or N s/m].
            stiffness, rest: spring towards the coordinates `rest`, q = 0 if None [N m/rad or N/m, rad or m].
            armature: rotor inertia, added to the diagonal of the mass matrix [kg m^2 or kg].
            friction: dry friction, its largest force [N m or N].
            motor: PD motor, one `lj.Motor` for all dofs or one per dof.
        """
        return self._add("point_on_line", locals())

    def add_joint_point_on_plane(
        self, name: str, parent: str, child: str, *, position: ArrayLike = ORIGIN, rotation: ArrayLike = IDENTITY,
        position_in_child: ArrayLike = ORIGIN, rotation_in_child: ArrayLike = IDENTITY, axis: ArrayLike = Z_AXIS,
        start: ArrayLike | None = None, start_velocity: ArrayLike | None = None, limits: Limits | None = None,
        limit_stiffness: ArrayLike | None = None, limit_damping: ArrayLike | None = None, damping: ArrayLike = 0.0,
        stiffness: ArrayLike = 0.0, rest: ArrayLike | None = None, armature: ArrayLike = 0.0, friction: ArrayLike = 0.0,
        motor: Motors | None = None,
    ) -> str:  # fmt: skip
        """Keep a point of the child on the plane normal to `axis` of the parent and return the joint's name.

        q = (x, y, quaternion), qd = (rates of x and y, angular velocity in the child's axes).

        Args:
            name: unique name.
            parent, child: bodies; the parent may be "world".
            position, rotation: joint frame in the parent: origin [m], and quaternion (w, x, y, z) or 3x3 rotation.
            position_in_child, rotation_in_child: joint frame in the child, likewise; at q = 0 the two coincide.
            axis: in the joint frame.
            start, start_velocity: (x, y, quaternion) and (rates of x and y, angular velocity) at the start [m, m/s,
                rad/s].
            limits: one pair (low, high) per translation [m], then (0, largest angle) of the rotation [rad]; None for
                none.
            limit_stiffness, limit_damping: springs and dampers instead of hard stops [N m/rad or N/m, N m s/rad or N
                s/m].
            damping: viscous friction, one value or one per dof [N m s/rad or N s/m].
            stiffness, rest: spring towards the coordinates `rest`, q = 0 if None [N m/rad or N/m, rad or m].
            armature: rotor inertia, added to the diagonal of the mass matrix [kg m^2 or kg].
            friction: dry friction, its largest force [N m or N].
            motor: PD motor, one `lj.Motor` for all dofs or one per dof.
        """
        return self._add("point_on_plane", locals())

    def add_joint_compound(
        self, name: str, parent: str, child: str, axes: Axis | Iterable[Axis], *, position: ArrayLike = ORIGIN,
        rotation: ArrayLike = IDENTITY, position_in_child: ArrayLike = ORIGIN, rotation_in_child: ArrayLike = IDENTITY,
        axis: ArrayLike = Z_AXIS,
    ) -> str:  # fmt: skip
        """Add up to six named hinge and slide axes in order between two bodies; return the joint's name.

        No bodies are put between the axes.

        Args:
            name: unique name.
            parent, child: bodies; the parent may be "world".
            axes: `lj.Axis` objects, each addressed by its name; limits, damping and motors are given on them.
            position, rotation: joint frame in the parent: origin [m], and quaternion (w, x, y, z) or 3x3 rotation.
            position_in_child, rotation_in_child: joint frame in the child, likewise; at q = 0 the two coincide.
            axis: direction in the joint frame that is z for the axes.
        """
        axes = checked_axes(name, axes)
        return self._add("compound", locals())

    def add_joint_distance(
        self, name: str, parent: str, child: str, *, length: float, rope: bool = False, position: ArrayLike = ORIGIN,
        position_in_child: ArrayLike = ORIGIN,
    ) -> str:  # fmt: skip
        """Keep two points at a distance and return the joint's name; it is never in the tree.

        Args:
            name: unique name.
            parent, child: bodies; the parent may be "world".
            length: [m].
            rope: True keeps them at most at that distance; False is a rod.
            position, position_in_child: the points in the two bodies [m].
        """
        length, rope = check.number(length, f'length of joint "{name}"', positive=True), bool(rope)
        return self._add("distance", locals())

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
        """Couple two one-dof joints (or compound axes): q_a = ratio q_b + offset.

        Args:
            name: unique name.
            joint_a, joint_b: names of joints or compound axes.
            ratio: q_a per q_b.
            offset: [rad or m].
            carrier: body relative to which the two rotations are measured; None when they share their parent.
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
        frame = (ORIGIN, IDENTITY, ORIGIN, IDENTITY)
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
        """Couple two one-dof joints: the short name of `add_joint_gear`.

        Args:
            name: unique name.
            joint_a: the joint that is driven.
            joint_b: the joint that drives it.
            ratio: q_a = ratio * q_b + offset.
            offset: of the coordinate of `joint_a` [rad or m].
            carrier: body relative to which the two rotations are measured; None when they share their parent.
        """
        return self.add_joint_gear(name, joint_a, joint_b, ratio=ratio, offset=offset, carrier=carrier)

    def add_joint_no_slip(
        self, name: str, parent: str, child: str, *, axis: ArrayLike, position_in_child: ArrayLike = ORIGIN
    ) -> str:
        """Keep a point of `child` from moving along `axis` of the child; the parent is the world. See `add_no_slip`.

        Args:
            name: unique name.
            parent: "world".
            child: the body that does not slip.
            axis: (3,) direction without motion, in the child.
            position_in_child: (3,) the point, in the child [m].
        """
        if parent != WORLD:
            raise ModelError(f'no_slip "{name}": its parent is the world, got "{parent}"')
        return self._add("no_slip", locals())

    def add_no_slip(self, name: str, body: str, *, direction: ArrayLike, position: ArrayLike = ORIGIN) -> str:
        """Keep a point of a body from moving sideways: a knife edge, a skate, a wheel that does not slip.

        The velocity of the point along `direction` is zero, its position is free. It has no coordinates and is listed
        with the loop joints.

        Args:
            name: unique name.
            body: the body.
            direction: in which the point does not move, in the body frame.
            position: the point, in the body frame [m].
        """
        return self.add_joint_no_slip(name, WORLD, body, axis=direction, position_in_child=position)

    def add_model(
        self, model: Model, name: str, *, position: ArrayLike = ORIGIN, rotation: ArrayLike = IDENTITY
    ) -> str:
        """Add everything of a model, its names after `name` and a slash, and return that name.

        Bodies, joints, loops, couplings, shapes (those of its world too), limits, motors, springs, points, actuators,
        tendons, sensors and excluded contacts are carried over; its gravity, its time step and its keyframes, states of
        a whole model, are not. Groups of shapes stay its own. Free joints start moved and rotated, everything that is
        fixed to its world is fixed to the world here.

        Args:
            model: the model.
            name: unique name.
            position: where the origin of its world comes to be [m].
            rotation: how its world is turned, quaternion (w, x, y, z) or 3x3 rotation.
        """
        if not isinstance(model, Model):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ModelError(f"add_model takes a lj.Model, got {type(model).__name__}; lj.load gives one")
        check.name(name, "a model's name")
        what = f'model "{name}"'
        at, turned = (
            check.vector(position, 3, f"position of {what}"),
            check.frame_rotation(rotation, f"rotation of {what}"),
        )
        groups = max((shape.group for shape in self._spec.shapes), default=0)
        own = placed(model.spec, f"{name}/", at, turned, first_group=groups)
        axes = {axis.name for joint in own.joints for axis in joint.axes}
        for kind, names, taken in (
            ("body", {body.name for body in own.bodies}, self._bodies.keys()),
            ("joint", {joint.name for joint in own.joints} | axes, self._joints.keys()),
            ("point or spring", {x.name for x in (*own.springs, *own.points)}, self._named),
            ("shape", {shape.name for shape in own.shapes}, self._shapes),
        ):
            both = sorted(names & set(taken))
            if both:
                raise ModelError(f'{what} cannot be added: a {kind} "{both[0]}" exists already')
        append(self._spec, own)
        other = Builder.from_spec(self._spec)
        self._bodies, self._joints, self._named, self._shapes = (
            other._bodies,
            other._joints,
            other._named,
            other._shapes,
        )
        return name

    def exclude_collision(self, body_a: str, body_b: str) -> None:
        """Exclude contacts between two bodies.

        Args:
            body_a: name of one body.
            body_b: name of the other.
        """
        self._spec.excluded.append((self._body(body_a), self._body(body_b)))

    @property
    def excluded(self) -> tuple[tuple[str, str], ...]:
        """Pairs of bodies between which contacts are excluded."""
        return tuple(self._spec.excluded)

    def exclude_shapes(self, shape_a: str, shape_b: str) -> None:
        """Exclude contacts between two shapes.

        Args:
            shape_a: name of one shape.
            shape_b: name of the other.
        """
        for name in (shape_a, shape_b):
            if name not in self._shapes:
                raise UnknownName("shape", name, f'model "{self._spec.name}"', self._shapes)
        self._spec.excluded_shapes.append((shape_a, shape_b))

    def build(self, *, merge_fixed: bool = True) -> Model:
        """Return the checked model.

        Args:
            merge_fixed: True moves bodies on fixed joints as one; False keeps each fixed joint as a joint without
                dofs, a constraint for the methods in maximal coordinates.
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

    def _add(self, kind: str, given: dict[str, Any]) -> str:
        """Add a joint from the arguments of the method that was called, and return its name."""
        name, parent, child = given["name"], given["parent"], given["child"]
        self._joint_name(name)
        if self._body(parent) == self._body(child):
            raise ModelError(f'joint "{name}" joins "{parent}" to itself')
        if child == WORLD:
            raise ModelError(f'joint "{name}": the world cannot be a child; swap parent and child')
        joint = checked_joint(kind, **{word: value for word, value in given.items() if word != "self"})
        for axis in joint.axes:
            if axis.name != name:
                self._joint_name(axis.name)
        # Only now, with every value checked, does the builder change.
        self._joints[name] = kind
        self._joints.update((axis.name, "axis") for axis in joint.axes)
        self._spec.joints.append(joint)
        return name
