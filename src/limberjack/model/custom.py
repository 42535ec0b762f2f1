"""Constraint kinds of the user's own: a function of the relative pose of two frames and of time.

A registered kind is a joint kind without freedoms that never carries the tree, like a distance. Its rows and their
biases follow from the function; see `constraints/custom.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from limberjack.errors import ModelError, UnknownName, UnsupportedByMethod
from limberjack.model import check
from limberjack.model.joints import KINDS, Kind
from limberjack.model.options import checked_joint
from limberjack.model.projecting import checked_directions, locks_of
from limberjack.model.spec import WORLD, Joint, Spec

__all__ = [
    "CONSTRAINT_KINDS",
    "ConstraintBuilder",
    "ConstraintKind",
    "CustomJoint",
    "refuse_constraints",
    "refuse_projected",
    "refuse_slanted",
    "register_constraint",
    "register_joint",
    "slanted_joints",
]

MOST_ROWS = 6
# What the limits of a black-box joint are called after its name and its kind's.
LIMITS = ":limits"


@dataclass(frozen=True, slots=True)
class ConstraintKind:
    """A constraint kind: its function, how many values it returns, and whether they are held at 0 or above 0.

    A black box (`project`) has a projection for its function; 0 rows are as many as that locks. `directions` are those
    given by the user, orthonormal. `forces` says along what forces act that do not act along the rows.
    """

    name: str
    function: Callable
    rows: int
    one_sided: bool
    project: bool = False
    directions: tuple[tuple[float, ...], ...] | None = None
    limited: bool | None = None
    forces: Callable | None = None


CONSTRAINT_KINDS: dict[str, ConstraintKind] = {}


@dataclass(frozen=True, slots=True)
class CustomJoint(Joint):
    """A constraint of a registered kind, with the numbers its function is given."""

    data: tuple[float, ...] = ()


def register_constraint(
    name: str, function: Callable, *, rows: int = 1, one_sided: bool = False, forces: Callable | None = None
) -> None:
    """Let `Builder.add_constraint` make constraints of a new kind; raise if the name is taken.

    The function says what is held, and is all there is to write: it is compiled, and its rows and biases are its exact
    derivatives. It is called as

        function(position, rotation, time, data)

    with the position (3) of the child's frame from the parent's and the rotation (3 rows of 3), both in the axes of
    the parent's frame, the time [s], and the numbers given to `add_constraint`. It returns one value, or a tuple of
    `rows` values, made by + - * /, whole powers, `abs`, comparisons and `sqrt`, `sin`, `cos`, `atan2` of `math`; loops
    and other functions compiled by `numba.njit` may be used.

    Args:
        name: of the kind.
        function: the value held at 0 [m, rad, or any unit].
        rows: how many values it returns, 1 to 6.
        one_sided: whether values are kept at 0 or above, by forces that push and never pull.
        forces: along what the forces act that hold the values, where that is not along the rows: friction of a sliding
            point, a motor that pushes aside. Called in Python as forces(position, rotation, velocity, turning, time,
            data), with the velocity (3) and angular velocity (3) of the child's frame against the parent's in the axes
            of the parent's, it returns six numbers for each value: torque and force on the child at its frame's origin,
            in the same axes.
    """
    _require_new(name, function)
    if forces is not None and (not callable(forces) or one_sided):
        raise ModelError(
            f'constraint kind "{name}": forces must be callable, and one_sided false, since forces along other '
            f"directions may not exist that only push; got {forces!r}"
        )
    if type(rows) is not int or not 1 <= rows <= MOST_ROWS:
        raise ModelError(f'constraint kind "{name}": rows must be 1 to {MOST_ROWS}, got {rows!r}')
    CONSTRAINT_KINDS[name] = ConstraintKind(name, function, rows, bool(one_sided), forces=forces)
    KINDS[name] = Kind(name, (), (False,) * 6, coupled="registered", tree=False)


def _require_new(name: str, function: Any) -> None:
    check.name(name, "a constraint kind's name")
    if name in KINDS:
        raise ModelError(f'constraint kind "{name}" exists already')
    if not callable(function):
        raise ModelError(f'constraint kind "{name}": its function must be callable, got {function!r}')


def register_joint(name: str, project: Callable, *, locked: Any = None, limited: bool | None = None) -> None:
    """Let `Builder.add_constraint` make joints of a new kind, given by a black box; raise if the name is taken.

    The box is asked for the allowed state nearest to a given one, and is all there is to write. It is called as

        project(x, q)    or    project(x, q, data)

    with the position x (3) and the unit quaternion q (w, x, y, z) of the child's frame in the parent's, and the numbers
    given to `add_constraint`, and returns such a pair. States that are allowed must come back as they are. A function
    under `numba.njit` is called as compiled; any other as Python, from within the steps.

    Args:
        name: of the kind.
        project: the black box.
        locked: directions along which every state is brought back, each six numbers: the turn about and the move along
            the axes of the parent's frame. None finds them by finite differences of `project`, at every step anew.
        limited: whether states are also stopped at limits, on one side; None finds out by looking at some states.
    """
    _require_new(name, project)
    directions = checked_directions(name, locked)
    given = None if directions is None else tuple(map(tuple, directions.tolist()))
    for suffix in ("", LIMITS):
        kind = ConstraintKind(name + suffix, project, len(given or ()), suffix == LIMITS, True, given, limited)
        CONSTRAINT_KINDS[kind.name] = kind
        KINDS[kind.name] = Kind(kind.name, (), (False,) * 6, coupled="registered", tree=False)


def refuse_constraints(spec: Spec, method: str) -> None:
    """Raise if a model has constraints of registered kinds, for a method that has rows of its own."""
    for joint in spec.joints:
        if isinstance(joint, CustomJoint):
            raise UnsupportedByMethod(
                f'method "{method}" knows no registered kinds: constraint "{joint.name}" is of kind "{joint.kind}". '
                "Methods that do: full, adaptive, multipliers, impulses"
            )


def refuse_projected(spec: Spec, method: str) -> None:
    """Raise if a model has black-box joints, for a method that asks for accelerations of its rows."""
    for joint in spec.joints:
        if isinstance(joint, CustomJoint) and CONSTRAINT_KINDS[joint.kind].project:
            raise UnsupportedByMethod(
                f'method "{method}" knows no black-box joints: joint "{joint.name}" is of kind "{joint.kind}". '
                "Methods that do: impulses"
            )


def slanted_joints(spec: Spec) -> list[CustomJoint]:
    """Return the constraints whose forces act along other directions than their rows."""
    customs = [joint for joint in spec.joints if isinstance(joint, CustomJoint)]
    return [joint for joint in customs if CONSTRAINT_KINDS[joint.kind].forces is not None]


def refuse_slanted(spec: Spec, method: str) -> None:
    """Raise if a model has constraints with forces of their own, for a method whose forces act along the rows."""
    for joint in slanted_joints(spec):
        raise UnsupportedByMethod(
            f'method "{method}" lets forces act along rows only: constraint "{joint.name}" of kind "{joint.kind}" has '
            "forces of its own. Methods that can: multipliers"
        )


class ConstraintBuilder:
    """The constraint half of `Builder`."""

    _spec: Spec
    _joints: dict[str, str]

    def add_constraint(self, kind: str, name: str, parent: str, child: str, *, data: Any = (), **frames: Any) -> str:
        """Add a constraint of a registered kind between frames of two bodies and return its name.

        It stands with the loop joints and has no coordinates. Limits of a black-box joint stand beside it as
        "NAME:limits".

        Args:
            kind: a name given to `register_constraint` or `register_joint`.
            name: unique name.
            parent, child: bodies; the parent may be "world".
            data: numbers handed to the kind's function.
            frames: position, rotation, position_in_child, rotation_in_child.
        """
        own = CONSTRAINT_KINDS.get(kind)
        if own is None or not own.project or own.one_sided:
            return self._put_constraint(kind, name, parent, child, data, frames)
        numbers = tuple(np.asarray(data, float).ravel().tolist())
        locks = locks_of(kind, own.function, numbers, own.rows, own.limited)
        names = [
            self._put_constraint(kind + part, name + part, parent, child, data, frames)
            for part, there in (("", locks.rows > 0), (LIMITS, locks.limited))
            if there
        ]
        return names[0]

    def _put_constraint(self, kind: str, name: str, parent: str, child: str, data: Any, frames: dict[str, Any]) -> str:
        """Add one constraint, alone, and return its name."""
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
        for word in frames:
            if word not in ("position", "rotation", "position_in_child", "rotation_in_child"):
                raise UnknownName("option", word, f'constraint "{name}"', ("data", "position", "rotation",
                    "position_in_child", "rotation_in_child"))  # fmt: skip
        numbers = np.asarray(data, float)
        if numbers.ndim != 1 or not np.isfinite(numbers).all():
            raise ModelError(f'data of constraint "{name}" must be a list of finite numbers, got {data!r}')
        plain = checked_joint(kind, name, parent, child, **frames)
        ends = (plain.position, plain.rotation, plain.position_in_child, plain.rotation_in_child)
        self._joints[name] = kind
        self._spec.joints.append(CustomJoint(name, kind, parent, child, *ends, data=tuple(numbers.tolist())))
        return name
