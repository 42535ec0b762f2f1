"""The declarative record of a model: plain frozen data, exactly as the user or a file gave it.

`Builder` fills it, `Model` is compiled from it, the native JSON format stores it without loss.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf

__all__ = [
    "Actuator", "Axis", "Body", "IDENTITY", "Joint", "Keyframe", "Motor", "ORIGIN", "Point", "Sensor", "Shape", "Spec",
    "Spring", "Tendon", "WORLD", "Z_AXIS",
]  # fmt: skip

WORLD = "world"
ORIGIN = (0.0, 0.0, 0.0)
# The quaternion of no rotation.
IDENTITY = (1.0, 0.0, 0.0, 0.0)
Z_AXIS = (0.0, 0.0, 1.0)
Vector = tuple[float, ...]
Limit = tuple[float, float] | None
# How a scalar moves with joints: (joint or compound axis, dof of it, coefficient) of each.
Transmission = tuple[tuple[str, int, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Motor:
    """A PD motor: tau = kp (target - q) + kd (velocity - qd), cut at +-max.

    Attributes:
        kp: stiffness [N m / rad or N / m].
        kd: damping [N m s / rad or N s / m].
        target: desired coordinate; for a ball joint a quaternion (w, x, y, z).
        max: largest force [N m or N].
        velocity: desired velocity [rad/s or m/s].
    """

    kp: float = 0.0
    kd: float = 0.0
    target: float | Vector = 0.0
    max: float = inf
    velocity: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One named hinge or slide axis of a compound joint; `axis` and `position` in the joint frame.

    Args:
        name: unique among joints and axes.
        kind: "hinge" or "slide".
        axis: (3,) direction, in the joint frame.
        position: (3,) a point of a hinge's axis, in the joint frame [m].
        limits: (low, high), or None [rad or m].
        limit_stiffness: of soft limits [N m/rad or N/m]; None = hard.
        limit_damping: of soft limits [N m s/rad or N s/m].
        damping: [N m s/rad or N s/m].
        stiffness: of a spring [N m/rad or N/m].
        rest: coordinate at which the spring is at rest [rad or m].
        armature: inertia of a rotor behind its gear [kg m^2 or kg].
        friction: dry friction [N m or N].
        motor: drives the axis to a target.
        start: coordinate at the start [rad or m].
        start_velocity: [rad/s or m/s].
    """

    name: str
    kind: str = "hinge"
    axis: Vector = (0.0, 0.0, 1.0)
    position: Vector = (0.0, 0.0, 0.0)
    limits: Limit = None
    limit_stiffness: float | None = None
    limit_damping: float | None = None
    damping: float = 0.0
    stiffness: float = 0.0
    rest: float = 0.0
    armature: float = 0.0
    friction: float = 0.0
    motor: Motor | None = None
    start: float = 0.0
    start_velocity: float = 0.0


@dataclass(frozen=True, slots=True)
class Body:
    """A body: mass [kg], com [m] and inertia about the com (xx, yy, zz, xy, xz, yz) in body axes.

    `body_kind` is one of `model.body_kinds.BODY_KINDS`. A body that can change its size has `scale` at the start
    (1, 3 or, row by row, 9 numbers; None = unscaled), the stiffness against `scale_rest` [N m], and that rest.
    `gravity_compensation` is the part of its weight that a force at its com carries.
    """

    name: str
    mass: float | None
    com: Vector
    inertia: Vector | None
    position: Vector | None
    rotation: Vector | None
    body_kind: str = "rigid"
    scale: Vector | None = None
    scale_stiffness: float = 0.0
    scale_rest: Vector | None = None
    gravity_compensation: float = 0.0


@dataclass(frozen=True, slots=True)
class Joint:
    """A joint of any kind, with its frame in both bodies and its properties per dof."""

    name: str
    kind: str
    parent: str
    child: str
    position: Vector
    rotation: Vector
    position_in_child: Vector
    rotation_in_child: Vector
    axis: Vector = (0.0, 0.0, 1.0)
    axis2: Vector | None = None
    pitch: float = 0.0
    axes: tuple[Axis, ...] = ()
    start: Vector | None = None
    start_velocity: Vector | None = None
    limits: tuple[Limit, ...] | None = None
    limit_stiffness: Vector | None = None
    limit_damping: Vector | None = None
    damping: Vector | None = None
    stiffness: Vector | None = None
    rest: Vector | None = None
    armature: Vector | None = None
    friction: Vector | None = None
    motor: tuple[Motor | None, ...] | None = None
    length: float = 0.0
    rope: bool = False
    ratio: float = 1.0
    offset: float = 0.0
    carrier: str | None = None
    cone: float | None = None
    twist: Limit = None


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """A collision or display shape fixed to a body; `size` by kind (see `Builder.add_shape_*`).

    A mesh with `hull` collides as its convex hull. `friction_rule` "mean": of two shapes the geometric mean of the
    friction counts; "max" of either: the larger. Torsional and rolling friction are lengths: their torque is at most
    that times the normal force; of two shapes the larger counts. Two shapes are in contact at the sum of their margins.
    """

    name: str
    body: str
    kind: str
    size: Vector
    position: Vector
    rotation: Vector
    friction: float
    restitution: float
    density: float | None
    color: Vector | None
    collide: bool
    group: int
    vertices: object = None
    faces: object = None
    hull: bool = False
    friction_rule: str = "mean"
    torsional_friction: float = 0.0
    rolling_friction: float = 0.0
    margin: float = 0.0


@dataclass(frozen=True, slots=True)
class Spring:
    """A spring with damper between two body points (`at_a`, `at_b` in body frames; "world" = ground)."""

    name: str
    a: str
    b: str
    at_a: Vector
    at_b: Vector
    stiffness: float
    damping: float
    rest: float


@dataclass(frozen=True, slots=True)
class Point:
    """A named point fixed to a body, in its frame, with axes of its own for sensors and actuators."""

    name: str
    body: str
    position: Vector
    rotation: Vector = IDENTITY


@dataclass(frozen=True, slots=True, kw_only=True)
class Actuator:
    """A force that one control sets: f = gain u + bias[0] + bias[1] length + bias[2] rate, cut to `force_range`.

    Length and rate are those of the transmission, the sum of coefficient times coordinate; each dof of it gets its
    coefficient times f. With a `point`, f times `wrench` acts on that point's body, in the point's axes.

    Attributes:
        transmission: what it drives; empty for one at a point.
        gain: force per control.
        bias: force at no control, per length and per rate.
        control_range: to which the control is cut.
        force_range: to which f is cut.
        joint_force_range: to which the force on a dof of the transmission is cut, None for no cut.
        point: where a wrench acts, "" for none.
        wrench: (6,) torque, then force, per f in the axes of the point.
        dynamics: of the activation w that acts in place of the control: "" for none, "integrator": dw/dt = u, "filter"
            or "exact_filter": dw/dt = (u - w) / `time_constant`, by steps of Euler's or exactly.
        activation_range: to which w is cut.
    """

    name: str
    transmission: Transmission = ()
    gain: float = 1.0
    bias: Vector = (0.0, 0.0, 0.0)
    control_range: Limit = None
    force_range: Limit = None
    joint_force_range: Limit = None
    point: str = ""
    wrench: Vector = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    dynamics: str = ""
    time_constant: float = 0.0
    activation_range: Limit = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tendon:
    """A length that is the sum of coefficient times coordinate, with a spring and a damper.

    The spring acts outside of `rest`, an interval.
    """

    name: str
    transmission: Transmission
    stiffness: float = 0.0
    damping: float = 0.0
    rest: tuple[float, float] = (0.0, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sensor:
    """A measurement of `kind` (see `Builder.add_sensor`) on what is called `of`.

    Attributes:
        of: name of the joint, body, com of a body, point, shape, actuator or tendon.
        on: which of these it is: "joint", "body", "com", "point", "shape", "actuator", "tendon" or "model".
        relative_to: name of the frame in whose axes, and from whose origin, it is measured; "" for the world.
        relative_on: which kind of frame that is.
        cutoff: values are cut to +- cutoff, 0 for no cut.
        data: numbers of the kind, see `Builder.add_sensor`.
    """

    name: str
    kind: str
    of: str = ""
    on: str = "model"
    relative_to: str = ""
    relative_on: str = ""
    cutoff: float = 0.0
    data: Vector = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Keyframe:
    """A named state: coordinates, velocities, controls, and activations of the actuators that have them."""

    name: str
    q: Vector
    qd: Vector
    control: Vector = ()
    activation: Vector = ()


@dataclass(slots=True)
class Spec:
    """Everything a model is built from, in creation order."""

    name: str
    gravity: Vector
    merge_fixed: bool = True
    bodies: list[Body] = field(default_factory=list[Body])
    joints: list[Joint] = field(default_factory=list[Joint])
    shapes: list[Shape] = field(default_factory=list[Shape])
    springs: list[Spring] = field(default_factory=list[Spring])
    points: list[Point] = field(default_factory=list[Point])
    excluded: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    excluded_shapes: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    actuators: list[Actuator] = field(default_factory=list[Actuator])
    tendons: list[Tendon] = field(default_factory=list[Tendon])
    sensors: list[Sensor] = field(default_factory=list[Sensor])
    keyframes: list[Keyframe] = field(default_factory=list[Keyframe])
    timestep: float | None = None

    def copy(self) -> Spec:
        """Return a copy whose lists are its own."""
        lists = (list(getattr(self, name)) for name in _LISTS)
        out = Spec(self.name, self.gravity, self.merge_fixed, **dict(zip(_LISTS, lists, strict=True)))
        out.timestep = self.timestep
        return out


_LISTS = (
    "bodies", "joints", "shapes", "springs", "points", "excluded", "excluded_shapes", "actuators", "tendons",
    "sensors", "keyframes",
)  # fmt: skip
