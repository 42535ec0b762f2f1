"""Registered kinds: constraints by a function, joints by a projection, bodies by their energy.

A registered constraint is a joint kind without dofs that is never in the tree, like a distance. Of a function of the
relative pose of two frames, its rows and biases are exact derivatives (`constraints/registered_rows.py`). Of a
black-box joint only a projection is known, from any state to the nearest allowed one; its rows are finite differences
(`constraints/black_box.py`). There a state is the position x (3) and the quaternion q (w, x, y, z) of the child's frame
in the parent's, and its error against a target is six numbers, the rotation vector log(q q_target^-1), then
x - x_target, in the axes of the parent's frame. Along locked directions every state is projected; along others only
states beyond a limit are.

A registered body is given by the positions of its points and its kinetic energy as functions of generalized
coordinates, and is for methods in maximal coordinates (`maximal/registered_bodies.py`).
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from limberjack.errors import ModelError, UnknownName
from limberjack.model import body_kinds as bodies
from limberjack.model import check
from limberjack.model.joint_options import checked_joint
from limberjack.model.joints import KINDS, Kind
from limberjack.model.spec import IDENTITY, ORIGIN, WORLD, Body, Joint, Spec
from limberjack.spatial.frames import matrix_from_quaternion

__all__ = [
    "CONSTRAINT_KINDS",
    "ConstraintBuilder",
    "ConstraintKind",
    "Locks",
    "ONE_SIDED",
    "REGISTERED_BODY_KINDS",
    "RegisteredBody",
    "RegisteredBodyBuilder",
    "RegisteredBodyKind",
    "RegisteredConstraint",
    "STEP",
    "arguments",
    "black_box_joints",
    "locks_of",
    "register_body_kind",
    "register_constraint",
    "register_joint",
    "registered_joints",
    "unsymmetric_joints",
]

MAX_ROWS = 6
MAX_COORDINATES = 12
# Suffix of the limits of a black-box joint, after the joint's name and its kind's.
LIMITS = ":limits"

# Step of finite differences of a projection [m, rad].
STEP = 1e-5
# A direction is locked where at least this part of a small displacement along it is projected away, and stopped by a
# limit where displacements to its two sides differ by this part.
_LOCKED, ONE_SIDED = 1e-2, 0.05
# An allowed state must be projected to itself, within this [m, rad].
_FIXED_POINT = 1e-9
_SAMPLES = 25
_SCALES = (0.0, 0.1, 0.5, 2.0, 30.0)


@dataclass(frozen=True, slots=True)
class ConstraintKind:
    """A constraint kind: its function, how many values it returns, and whether they are constrained to = 0 or >= 0.

    Of a black box (`project`) the function is a projection; 0 rows means as many as it locks. `directions` are those
    given by the user, orthonormal. `forces` returns the directions of constraint forces that differ from the rows. With
    `velocity` the function is one of velocities, A u - b, and constrains them alone; `pairs` is how many pairs of
    frames it is a function of.
    """

    name: str
    function: Callable[..., Any]
    rows: int
    one_sided: bool
    project: bool = False
    directions: tuple[tuple[float, ...], ...] | None = None
    limited: bool | None = None
    forces: Callable[..., Any] | None = None
    velocity: bool = False
    pairs: int = 1


@dataclass(frozen=True, slots=True)
class RegisteredConstraint(Joint):
    """A constraint of a registered kind, with the numbers passed to its function, and its second pair of frames."""

    data: tuple[float, ...] = ()
    second_parent: str | None = None
    second_child: str | None = None
    second_position: tuple[float, ...] = ORIGIN
    second_rotation: tuple[float, ...] = IDENTITY
    second_position_in_child: tuple[float, ...] = ORIGIN
    second_rotation_in_child: tuple[float, ...] = IDENTITY


@dataclass(frozen=True, slots=True)
class RegisteredBodyKind:
    """A registered body kind: how many coordinates it has, and its functions."""

    name: str
    size: int
    place: Callable[..., Any]
    kinetic: Callable[..., Any]
    potential: Callable[..., Any] | None
    center: Callable[..., Any] | None


@dataclass(frozen=True, slots=True)
class RegisteredBody(Body):
    """A body of a registered kind; `scale` is its start coordinates, `rates` their rates, `data` its numbers."""

    rates: tuple[float, ...] = ()
    data: tuple[float, ...] = ()


CONSTRAINT_KINDS: dict[str, ConstraintKind] = {}
REGISTERED_BODY_KINDS: dict[str, RegisteredBodyKind] = {}


def register_constraint(
    name: str,
    function: Callable[..., Any],
    *,
    rows: int = 1,
    one_sided: bool = False,
    forces: Callable[..., Any] | None = None,
    velocity: bool = False,
    pairs: int = 1,
) -> None:
    """Register a constraint kind for `Builder.add_constraint`; raise if the name is taken.

    The function defines the constraint completely: it is compiled, and its rows and biases are its exact derivatives.
    It is called as

        function(position, rotation, time, data)

    with the position (3) of the child's frame from the parent's and the rotation (3 rows of 3), both in the axes of
    the parent's frame, the time [s], and the numbers given to `add_constraint`. It returns one value, or a tuple of
    `rows` values, made by + - * /, whole powers, `abs`, comparisons and `sqrt`, `sin`, `cos`, `atan2` of `math`; loops
    and other functions compiled by `numba.njit` may be used. A constraint of velocities, A(q) u = b, is

        function(position, rotation, velocity, angular_velocity, time, data)

    with the velocity (3) and angular velocity (3) of the child's frame relative to the parent's, in the axes of the
    parent's. It returns A u - b, linear in both. With `pairs=2` position, rotation and velocities are tuples of two: of
    two children from the same parent, or of two parents and two children.

    Args:
        name: of the kind.
        function: the value constrained to 0 [m, rad, or any unit].
        rows: how many values it returns, 1 to 6.
        one_sided: whether values are constrained to >= 0 instead, by forces that push and never pull.
        forces: directions of the constraint forces where they are not those of the rows: friction of a sliding point, a
            motor with a side force. Called in Python as forces(position, rotation, velocity, angular_velocity, time,
            data), with the velocity (3) and angular velocity (3) of the child's frame relative to the parent's in the
            axes of the parent's, it returns six numbers for each value: torque and force on the child at its frame's
            origin, in the same axes.
        velocity: whether the function is one of velocities, which alone are constrained (nonholonomic).
        pairs: 2 for a constraint over three or four bodies.
    """
    _require_new(name, function)
    if velocity and (one_sided or forces is not None):
        raise ModelError(f'constraint kind "{name}": a constraint of velocities has neither one_sided nor forces')
    if pairs not in (1, 2) or (pairs == 2 and forces is not None):
        raise ModelError(
            f'constraint kind "{name}": pairs must be 1, or 2 without forces along other directions, got {pairs!r}'
        )
    if forces is not None and (not callable(forces) or one_sided):
        raise ModelError(
            f'constraint kind "{name}": forces must be callable, and one_sided false, since forces along other '
            f"directions may not exist that only push; got {forces!r}"
        )
    if type(rows) is not int or not 1 <= rows <= MAX_ROWS:
        raise ModelError(f'constraint kind "{name}": rows must be 1 to {MAX_ROWS}, got {rows!r}')
    CONSTRAINT_KINDS[name] = ConstraintKind(
        name, function, rows, bool(one_sided), forces=forces, velocity=bool(velocity), pairs=pairs
    )
    KINDS[name] = Kind(name, (), (False,) * 6, coupled="registered", tree=False)


def register_joint(name: str, project: Callable[..., Any], *, locked: Any = None, limited: bool | None = None) -> None:
    """Register a joint kind for `Builder.add_constraint`, given by a projection; raise if the name is taken.

    The projection returns the allowed state nearest to a given one, and defines the joint completely. It is called as

        project(x, q)    or    project(x, q, data)

    with the position x (3) and the unit quaternion q (w, x, y, z) of the child's frame in the parent's, and the numbers
    given to `add_constraint`, and returns such a pair. Allowed states must be returned unchanged. A function under
    `numba.njit` is called as compiled code; any other as Python, from within the steps.

    Args:
        name: of the kind.
        project: the projection.
        locked: directions along which every state is projected, each six numbers: rotation about and translation along
            the axes of the parent's frame. None computes them by finite differences of `project`, in every step.
        limited: whether there are also limits, on one side; None determines it from some states.
    """
    _require_new(name, project)
    directions = _checked_directions(name, locked)
    given = None if directions is None else tuple(tuple(map(float, row)) for row in directions)
    for suffix in ("", LIMITS):
        kind = ConstraintKind(name + suffix, project, len(given or ()), suffix == LIMITS, True, given, limited)
        CONSTRAINT_KINDS[kind.name] = kind
        KINDS[kind.name] = Kind(kind.name, (), (False,) * 6, coupled="registered", tree=False)


def _require_new(name: str, function: Any) -> None:
    check.name(name, "a constraint kind's name")
    if name in KINDS:
        raise ModelError(f'constraint kind "{name}" exists already')
    if not callable(function):
        raise ModelError(f'constraint kind "{name}": its function must be callable, got {function!r}')


def _checked_directions(name: str, locked: Any) -> np.ndarray | None:
    """Return directions given by the user as orthonormal rows (k, 6); None stays None."""
    if locked is None:
        return None
    given = np.asarray(locked, float)
    if given.ndim != 2 or given.shape[1] != 6 or not 1 <= len(given) <= 6 or not np.isfinite(given).all():
        raise ModelError(
            f'joint kind "{name}": locked must be 1 to 6 directions of six numbers, rotation about and translation '
            f"along the axes of the parent's frame, got {locked!r}"
        )
    across, size, rows = np.linalg.svd(given, full_matrices=False)
    if size[-1] < 1e-9 * size[0]:
        raise ModelError(f'joint kind "{name}": the locked directions depend on each other')
    # the nearest orthonormal rows: unit vectors along axes stay unchanged
    return across @ rows


def register_body_kind(
    name: str,
    *,
    size: int,
    place: Callable[..., Any],
    kinetic: Callable[..., Any],
    potential: Callable[..., Any] | None = None,
    center: Callable[..., Any] | None = None,
) -> None:
    """Register a body kind for `Builder.add_body_registered`; raise if the name is taken.

    A body is given by the positions of its points and its kinetic energy, as functions of `size` generalized
    coordinates. The functions are compiled; masses, inertial forces and rows of joints are their exact derivatives:

        place(point, coordinates, data) -> (x, y, z) in the world of a point (3) of the body [m]
        kinetic(coordinates, rates, data) -> energy, quadratic in the rates of the coordinates [J]
        potential(coordinates, data) -> energy stored in the body, without that of its weight [J]
        center(coordinates, data) -> (x, y, z) of the centre of mass in the world [m]

    with the numbers `data` given to `add_body_registered`. They may use + - * /, whole powers, `abs`, comparisons and
    `sqrt`, `sin`, `cos`, `atan2` of `math`, loops, and other functions compiled by `numba.njit`.

    Args:
        name: of the kind.
        size: how many coordinates it has, 1 to 12.
        place: see above.
        kinetic: see above; its second derivatives by the rates are the mass block and must be positive definite.
        potential: see above; None is none.
        center: see above; None is the position of the body's origin.
    """
    if type(size) is not int or not 1 <= size <= MAX_COORDINATES:
        raise ModelError(f'body kind "{name}": size must be 1 to {MAX_COORDINATES}, got {size!r}')
    functions = {"place": place, "kinetic": kinetic, "potential": potential, "center": center}
    for word, function in functions.items():
        if not callable(function) and (function is not None or word in ("place", "kinetic")):
            raise ModelError(f'body kind "{name}": {word} must be a function, got {function!r}')
    bodies.register_body_kind(bodies.BodyKind(name, size, size))
    REGISTERED_BODY_KINDS[name] = RegisteredBodyKind(name, size, place, kinetic, potential, center)


def registered_joints(spec: Spec) -> list[RegisteredConstraint]:
    """Return the constraints of registered kinds."""
    return [joint for joint in spec.joints if isinstance(joint, RegisteredConstraint)]


def black_box_joints(spec: Spec) -> list[RegisteredConstraint]:
    """Return the joints registered by a projection: the accelerations of their rows are not known."""
    return [joint for joint in registered_joints(spec) if CONSTRAINT_KINDS[joint.kind].project]


def unsymmetric_joints(spec: Spec) -> list[RegisteredConstraint]:
    """Return the constraints whose forces do not act along their rows: their system is unsymmetric."""
    return [joint for joint in registered_joints(spec) if CONSTRAINT_KINDS[joint.kind].forces is not None]


def _require_linear(kind: ConstraintKind, name: str, data: tuple[float, ...]) -> None:
    """Refuse a function of velocities that is not linear in them, at some states."""
    rng, plain = np.random.default_rng(0), getattr(kind.function, "py_func", kind.function)
    for _ in range(3):
        poses = [(rng.normal(size=3), matrix_from_quaternion(_rotation(rng.normal(size=3)))) for _ in range(kind.pairs)]
        speeds = [(rng.normal(size=3), rng.normal(size=3)) for _ in range(kind.pairs)]
        found: list[np.ndarray] = []
        for scale in (0.0, 1.0, 2.0):
            parts = [
                tuple(x.tolist() for x, _ in poses), tuple(r.tolist() for _, r in poses),
                tuple((scale * v).tolist() for v, _ in speeds), tuple((scale * w).tolist() for _, w in speeds),
            ]  # fmt: skip
            arguments_ = parts if kind.pairs == 2 else [part[0] for part in parts]
            try:
                found.append(np.atleast_1d(np.array(plain(*arguments_, 0.3, np.array(data)), float)))
            except Exception as error:
                raise ModelError(f'the function of constraint kind "{kind.name}" failed: {error!r}') from error
        if found[0].shape != (kind.rows,):
            raise ModelError(
                f'constraint kind "{kind.name}" must return {kind.rows} values, got {found[0].size} ("{name}")'
            )
        if np.abs(found[2] - 2.0 * found[1] + found[0]).max() > 1e-9 * (1.0 + np.abs(np.array(found)).max()):
            raise ModelError(f'constraint kind "{kind.name}": its function is not linear in the velocities ("{name}")')


class ConstraintBuilder:
    """The part of `Builder` that adds constraints of registered kinds."""

    _spec: Spec
    _joints: dict[str, str]

    def add_constraint(
        self, kind: str, name: str, parent: str, child: str, *, data: ArrayLike = (), position: ArrayLike = ORIGIN,
        rotation: ArrayLike = IDENTITY, position_in_child: ArrayLike = ORIGIN, rotation_in_child: ArrayLike = IDENTITY,
        second_child: str | None = None, second_parent: str | None = None, second_position: ArrayLike = ORIGIN,
        second_rotation: ArrayLike = IDENTITY, second_position_in_child: ArrayLike = ORIGIN,
        second_rotation_in_child: ArrayLike = IDENTITY,
    ) -> str:  # fmt: skip
        """Add a constraint of a registered kind between frames of two bodies, or of more, and return its name.

        It is listed with the loop joints and has no coordinates. Limits of a black-box joint are listed as
        "NAME:limits".

        Args:
            kind: a name given to `register_constraint` or `register_joint`.
            name: unique name.
            parent, child: bodies; the parent may be "world".
            data: numbers passed to the kind's function.
            position, rotation: frame in the parent: origin [m], and quaternion (w, x, y, z) or 3x3 rotation.
            position_in_child, rotation_in_child: frame in the child, likewise.
            second_child, second_parent: bodies of the second pair of frames, of kinds with `pairs=2`; the parent is
                that of the first pair when None.
            second_position, second_rotation, second_position_in_child, second_rotation_in_child: frames of the second
                pair.
        """
        frames = {
            "position": position, "rotation": rotation, "position_in_child": position_in_child,
            "rotation_in_child": rotation_in_child,
        }  # fmt: skip
        if second_child is not None or second_parent is not None:
            frames |= {
                "second_child": second_child, "second_parent": second_parent or parent,
                "second_position": second_position, "second_rotation": second_rotation,
                "second_position_in_child": second_position_in_child,
                "second_rotation_in_child": second_rotation_in_child,
            }  # fmt: skip
        registered = CONSTRAINT_KINDS.get(kind)
        if registered is None or not registered.project or registered.one_sided:
            return self._put_constraint(kind, name, parent, child, data, frames)
        numbers = tuple(np.asarray(data, float).ravel().tolist())
        locks = locks_of(kind, registered.function, numbers, registered.rows, registered.limited)
        names = [
            self._put_constraint(kind + part, name + part, parent, child, data, frames)
            for part, there in (("", locks.rows > 0), (LIMITS, locks.limited))
            if there
        ]
        return names[0]

    def _put_constraint(
        self, kind: str, name: str, parent: str, child: str, data: ArrayLike, frames: dict[str, Any]
    ) -> str:
        """Add one constraint, without limits, and return its name."""
        if kind not in CONSTRAINT_KINDS:
            raise UnknownName("constraint kind", kind, "register_constraint", CONSTRAINT_KINDS)
        check.name(name, "a joint's name")
        if name in self._joints:
            raise ModelError(f'joint "{name}" exists already')
        known = {body.name for body in self._spec.bodies}
        for body in (parent, child):
            if body not in known and not (body == WORLD and body is parent):
                raise UnknownName("body", body, f'constraint "{name}"', (WORLD, *known))
        if parent == child:
            raise ModelError(f'constraint "{name}" joins "{parent}" to itself')
        numbers = check.numbers(data, f'data of constraint "{name}"')
        registered, second = CONSTRAINT_KINDS[kind], self._second_pair(kind, name, frames)
        plain = checked_joint(kind, name, parent, child, **frames)
        ends = (plain.position, plain.rotation, plain.position_in_child, plain.rotation_in_child)
        if registered.velocity:
            _require_linear(registered, name, numbers)
        self._joints[name] = kind
        self._spec.joints.append(RegisteredConstraint(name, kind, parent, child, *ends, data=numbers, **second))
        return name

    def _second_pair(self, kind: str, name: str, frames: dict[str, Any]) -> dict[str, Any]:
        """Return the fields of the second pair of frames, taken out of `frames`; none of kinds with one pair."""
        own = {word: frames.pop(word) for word in list(frames) if word.startswith("second_")}
        if not own or own["second_child"] is None:
            if own or CONSTRAINT_KINDS[kind].pairs == 2:
                raise ModelError(f'constraint "{name}" of kind "{kind}" has two pairs of frames; give second_child')
            return {}
        if CONSTRAINT_KINDS[kind].pairs != 2:
            raise ModelError(f'constraint "{name}": kind "{kind}" has one pair of frames; leave second_child out')
        known = {body.name for body in self._spec.bodies}
        parent, child = own["second_parent"], own["second_child"]
        for body in (parent, child):
            if body not in known and not (body == WORLD and body is parent):
                raise UnknownName("body", body, f'constraint "{name}"', (WORLD, *known))
        if parent == child:
            raise ModelError(f'constraint "{name}" joins "{parent}" to itself')
        words = ("position", "rotation", "position_in_child", "rotation_in_child")
        plain = checked_joint(kind, name, parent, child, **{word: own[f"second_{word}"] for word in words})
        return {"second_parent": parent, "second_child": child} | {
            f"second_{word}": getattr(plain, word) for word in words
        }


class RegisteredBodyBuilder:
    """The part of `Builder` that adds bodies of registered kinds."""

    _spec: Spec
    _bodies: dict[str, int]

    def add_body_registered(
        self, kind: str, name: str, *, mass: float, coordinates: ArrayLike, rates: ArrayLike | None = None,
        data: ArrayLike = (),
    ) -> str:  # fmt: skip
        """Add a body of a registered kind and return its name.

        Its pose follows from its coordinates alone. Joints act on its points: ball, distance and, with the other body
        as parent, point_on_line and point_on_plane.

        Args:
            kind: a name given to `register_body_kind`.
            name: unique name.
            mass: for its weight [kg].
            coordinates: at the start, as many as the kind has.
            rates: of the coordinates at the start; None is zero.
            data: numbers passed to the kind's functions.
        """
        if kind not in REGISTERED_BODY_KINDS:
            raise UnknownName("body kind", kind, "register_body_kind", REGISTERED_BODY_KINDS)
        check.name(name, "a body's name")
        if name == WORLD or name in self._bodies:
            raise ModelError(f'body "{name}" exists already')
        size = REGISTERED_BODY_KINDS[kind].size
        mass = check.number(mass, f'mass of body "{name}"', positive=True)
        start = check.vector(coordinates, size, f'coordinates of body "{name}"')
        speed = (0.0,) * size if rates is None else check.vector(rates, size, f'rates of body "{name}"')
        numbers = check.numbers(data, f'data of body "{name}"')
        # a model requires an inertia of every body that rotates; this one's dynamics follow from its kinetic energy
        still, inertia = (0.0, 0.0, 0.0), (mass, mass, mass, 0.0, 0.0, 0.0)
        self._bodies[name] = len(self._spec.bodies)
        self._spec.bodies.append(
            RegisteredBody(name, mass, still, inertia, None, None, kind, start, rates=speed, data=numbers)
        )
        return name

    def add_body_own(
        self, kind: str, name: str, *, mass: float, coordinates: ArrayLike, rates: ArrayLike | None = None,
        data: ArrayLike = (),
    ) -> str:  # fmt: skip
        """Add a body of a registered kind: the former name of `add_body_registered`.

        Args:
            kind: the registered kind.
            name: unique name.
            mass: [kg].
            coordinates: at the start.
            rates: of the coordinates at the start; None = 0.
            data: numbers that the functions of the kind get.
        """
        return self.add_body_registered(kind, name, mass=mass, coordinates=coordinates, rates=rates, data=data)


class Locks(NamedTuple):
    """How many directions a projection locks, and whether it has limits besides."""

    rows: int
    limited: bool


@cache
def locks_of(name: str, project: Callable[..., Any], data: tuple[float, ...], rows: int, limited: bool | None) -> Locks:
    """Return what a projection locks, from samples of it; raise if it is no projection.

    Args:
        name: of its kind.
        project: the projection.
        data: numbers of the joint.
        rows: locked directions; 0 = unknown.
        limited: whether there are limits; None = unknown.
    """
    box, rng = _Box(name, project, data), np.random.default_rng(0)
    found, stopped, failures = 6, False, 0
    for k in range(_SAMPLES):
        wide = _SCALES[k % len(_SCALES)]
        state = wide * rng.normal(size=3), _rotation(np.clip(wide * rng.normal(size=3), -1.7, 1.7))
        try:
            target = box.target(*state)
        except ModelError:
            # a few states may have no nearest one, as the centre of a circle
            failures += 1
            if failures == _SAMPLES:
                raise
            continue
        if np.abs(_error(target, box.target(*target))).max() > _FIXED_POINT:
            raise ModelError(
                f'project of joint kind "{name}" moves the state it returned: at x = {target[0]}, q = {target[1]}'
            )
        slopes, one_sided = box.slopes(target)
        found, stopped = min(found, int((np.linalg.svd(slopes)[1] > _LOCKED).sum())), stopped or one_sided
    locks = Locks(rows or found, stopped if limited is None else limited)
    if locks == Locks(0, False):
        raise ModelError(f'project of joint kind "{name}" constrains nothing: it returns the states it is given')
    return locks


def arguments(project: Callable[..., Any]) -> int:
    """Return how many arguments a projection takes: 2, (x, q), or 3, the numbers of its joint too."""
    plain = getattr(project, "py_func", project)
    try:
        kinds = [one.kind for one in inspect.signature(plain).parameters.values()]
    except (TypeError, ValueError):
        return 2
    return 3 if len(kinds) > 2 else 2


class _Box:
    """A projection called with arrays, its results checked."""

    def __init__(self, name: str, project: Callable[..., Any], data: tuple[float, ...]) -> None:
        plain: Callable[..., Any] = getattr(project, "py_func", project)
        self._name, self._project = name, plain
        self._more = (np.array(data),) if arguments(project) == 3 else ()

    def target(self, x: np.ndarray, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        try:
            position, turn = self._project(tuple(map(float, x)), tuple(map(float, q)), *self._more)
            xt, qt = np.array(position, float), np.array(turn, float)
        except Exception as error:
            raise ModelError(f'project of joint kind "{self._name}" failed at x = {x}, q = {q}: {error!r}') from error
        if xt.shape != (3,) or qt.shape != (4,) or not (np.isfinite(xt).all() and abs(qt @ qt - 1.0) < 1e-6):
            raise ModelError(
                f'project of joint kind "{self._name}" must return a position (3) and a unit quaternion (4), got '
                f"{position!r} and {turn!r}"
            )
        return xt, qt

    def slopes(self, base: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, bool]:
        """Return the part of small displacements that is projected away, (6, 6), and whether a limit is there."""
        out, limited = np.zeros((6, 6)), False
        for k in range(6):
            ways: list[np.ndarray] = []
            for sign in (1.0, -1.0):
                v = np.zeros(6)
                v[k] = sign * STEP
                state = base[0] + v[3:], _multiply(_rotation(v[:3]), base[1])
                ways.append(sign * _error(state, self.target(*state)) / STEP)
            sizes = [float(np.linalg.norm(way)) for way in ways]
            # a limit projects displacements to one side only
            one_sided = abs(sizes[0] - sizes[1]) > ONE_SIDED
            out[:, k] = ways[int(np.argmin(sizes))] if one_sided else 0.5 * (ways[0] + ways[1])
            limited = limited or one_sided
        return out, limited


def _multiply(a: Any, b: Any) -> np.ndarray:
    w = a[0] * b[0] - a[1] * b[1] - a[2] * b[2] - a[3] * b[3]
    return np.array([w, *(a[0] * np.array(b[1:]) + b[0] * np.array(a[1:]) + np.cross(a[1:], b[1:]))])


def _rotation(v: np.ndarray) -> np.ndarray:
    angle = math.sqrt(v @ v)
    return np.array([math.cos(0.5 * angle), *(0.5 * np.sinc(0.5 * angle / math.pi) * v)])


def _error(state: tuple[np.ndarray, np.ndarray], target: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Return the error of a state against its target: rotation vector, then translation."""
    (x, q), (xt, qt) = state, target
    d = _multiply(q, (qt[0], *(-qt[1:])))
    d = -d if d[0] < 0.0 else d
    size = math.sqrt(d[1:] @ d[1:])
    turn = d[1:] * (2.0 * math.atan2(size, d[0]) / size) if size > 0.0 else np.zeros(3)
    return np.concatenate([turn, x - xt])
