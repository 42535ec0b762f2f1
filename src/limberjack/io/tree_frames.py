"""The tree of a model as files with one frame per body describe it: shared by the MJCF and URDF writers.

A joint moves by T(q) = A F_1 ... F_n B^-1, with A and B the joint frame in the parent and in the child. A format that
has fewer frames gets body frames of its own: `shift` is the file's frame of a body in the model's. Coordinates are
never changed: the same q is the same pose.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from limberjack.errors import FileError
from limberjack.model.compile import Property, joint_frames, properties_of
from limberjack.model.joints import SPIN, SPIN_BACK, Factor, factors_of, reverse
from limberjack.model.model import Model
from limberjack.model.registered import RegisteredConstraint
from limberjack.model.spec import WORLD, Joint
from limberjack.spatial.frames import compose, invert, matrix_from_quaternion

__all__ = ["Frame", "TreeBody", "inertia_in", "refuse", "tree_bodies"]

Frame = tuple[np.ndarray, np.ndarray]
_HERE: Frame = (np.eye(3), np.zeros(3))


@dataclass(frozen=True)
class TreeBody:
    """One body and the joint above it.

    Attributes:
        name, parent: of the body and of the one above it, "world" for the ground.
        joint: the record of the joint above.
        factors: its elementary motions, in order, in the joint frame.
        properties: limits, springs and the like of each factor that has any, by its index in the joint's dofs.
        above: the joint frame in the parent, in the file's frame of that body.
        below: the joint frame in this body, in the file's frame of it.
        shift: the file's frame of this body in the model's.
    """

    name: str
    parent: str
    joint: Joint
    factors: tuple[Factor, ...]
    properties: dict[int, Property]
    above: Frame
    below: Frame
    shift: Frame


def refuse(model: Model, path: str | Path, loops: Iterable[str], form: str) -> None:
    """Refuse bodies that are not rigid and joints outside the tree whose kind is not among `loops`."""
    for body in model.spec.bodies:
        if body.body_kind != "rigid":
            raise FileError(path, f'body "{body.name}" is of kind "{body.body_kind}"; {form} has rigid bodies only')
    for name in model.joint_names:
        joint = model.joint_spec(name)
        if isinstance(joint, RegisteredConstraint):
            raise FileError(path, f'"{name}" is a constraint of kind "{joint.kind}", which {form} does not have')
        if model.joint(name).is_loop and joint.kind not in loops:
            known = ", ".join(loops) or "none"
            raise FileError(path, f'loop joint "{name}" is of kind "{joint.kind}"; loop joints of {form}: {known}')


def tree_bodies(model: Model, path: str | Path, *, one_frame: bool) -> list[TreeBody]:
    """Return the bodies in tree order.

    Args:
        model: the model.
        path: the file, for errors.
        one_frame: whether the joint frame is the body's own, as in URDF; else bodies keep their frames except under
            balls, whose quaternion is one of the body's frame in MJCF.
    """
    shifts: dict[str, Frame] = {WORLD: _HERE}
    out: list[TreeBody] = []
    for name in model.body_names:
        info = model.body(name)
        joint = model.joint_spec(info.joint)
        back = joint.child != name
        factors = _factors(joint, back, path)
        above, below, factors = _unturned(joint, factors, back)
        shifts[name] = shift = _shift(joint, factors, below, one_frame)
        above = compose(*invert(*shifts[info.parent]), *above)
        turn = np.eye(3) if shift[0] is below[0] else shift[0].T @ below[0]  # exactly: readers compare axes
        below = turn, shift[0].T @ (below[1] - shift[1])
        known = {own.v: own for own in properties_of(joint)}
        out.append(TreeBody(name, info.parent, joint, factors, known, above, below, shift))
    return out


def _shift(joint: Joint, factors: tuple[Factor, ...], below: Frame, one_frame: bool) -> Frame:
    """Return the file's frame of a body in the model's."""
    if joint.kind == "free":
        return _HERE
    if one_frame:
        return below
    return (below[0], np.zeros(3)) if any(f.kind == SPIN for f in factors) else _HERE


def _factors(joint: Joint, back: bool, path: str | Path) -> tuple[Factor, ...]:
    factors = factors_of(joint)
    if joint.pitch:
        raise FileError(path, f'joint "{joint.name}" is a screw, for which the format has no joint')
    if back and (len(factors) > 1 or any(f.kind in (SPIN, SPIN_BACK) for f in factors)):
        raise FileError(
            path,
            f'joint "{joint.name}" is in the tree from its child to its parent, and the format has no joint for the '
            f"reverse of a {joint.kind}; swap parent and child",
        )
    return reverse(factors) if back else factors


def _unturned(joint: Joint, factors: tuple[Factor, ...], back: bool) -> tuple[Frame, Frame, tuple[Factor, ...]]:
    """Return the joint frame in the body above and below, and the factors in it.

    The frames are as the model gives them where the main axis can be written; a ball's are turned with it.
    """
    r_a, p_a, r_b, p_b = joint_frames(joint)
    if not any(f.kind == SPIN for f in factors):
        plain = matrix_from_quaternion(np.array(joint.rotation))
        turn = plain.T @ r_a
        r_a, r_b = plain, matrix_from_quaternion(np.array(joint.rotation_in_child))
        factors = tuple(f._replace(axis=_row(turn @ f.axis), point=_row(turn @ f.point)) for f in factors)
    parent, child = (r_a, p_a), (r_b, p_b)
    return (child, parent, factors) if back else (parent, child, factors)


def _row(vector: np.ndarray) -> tuple[float, ...]:
    """Return a vector as numbers, rounding of exact axes removed."""
    near = np.round(vector)
    return tuple(np.where(np.abs(vector - near) < 1e-15, near, vector).tolist())


def inertia_in(model: Model, body: TreeBody) -> tuple[float, np.ndarray, np.ndarray]:
    """Return mass, com and inertia (3, 3) about it of a body, in the file's frame."""
    info = model.body(body.name)
    r, p = body.shift
    return info.mass, r.T @ (info.com - p), r.T @ info.inertia @ r
