"""The declarative record of a model: plain frozen data, exactly as the user or a file gave it.

`Builder` fills it, `Model` is compiled from it, the native JSON format stores it without loss.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf

__all__ = [
    "Axis", "Body", "IDENTITY", "Joint", "Motor", "ORIGIN", "Point", "Shape", "Spec", "Spring", "WORLD", "Z_AXIS",
]  # fmt: skip

WORLD = "world"
ORIGIN = (0.0, 0.0, 0.0)
# The quaternion of no rotation.
IDENTITY = (1.0, 0.0, 0.0, 0.0)
Z_AXIS = (0.0, 0.0, 1.0)
Vector = tuple[float, ...]
Limit = tuple[float, float] | None


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
    """One named hinge or slide axis of a compound joint; `axis` and `position` in the joint frame."""

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
    """A collision or display shape fixed to a body; `size` by kind (see `Builder.add_shape_*`)."""

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
    """A named point fixed to a body, in its frame."""

    name: str
    body: str
    position: Vector


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
