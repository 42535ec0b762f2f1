"""Bodies: how they are added to a builder, and what a body may be besides rigid.

| kind | velocity | dimension |
|---|---|---|
| rigid | angular, linear | 6 |
| planar | x, y, turn about z of the world | 3 |
| particle | linear | 3 |
| scalable | angular, linear, one scale | 7 |
| scalable_axes | angular, linear, a scale along each body axis | 9 |
| affine | linear, the nine numbers of the map from body to world axes | 12 |

Planar bodies and particles without a parent get a joint to the world that suits their kind, so that reduced coordinates
describe them too. The last three, and registered kinds, are for methods in maximal coordinates.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from limberjack.errors import ModelError, UnknownName
from limberjack.model import check
from limberjack.model.spec import IDENTITY, ORIGIN, WORLD, Body, Joint, Spec
from limberjack.spatial.frames import matrix_from_quaternion

__all__ = ["BODY_KINDS", "BodyBuilder", "BodyKind", "check_planes", "register_body_kind"]

_UNIT = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0)
# Beyond this a direction does not count as normal to a plane, or as in it.
_SLANT = 1e-9


@dataclass(frozen=True, slots=True)
class BodyKind:
    """A body kind: the dimension of its velocity, how many numbers its scale has, whether it can be in a tree."""

    name: str
    dimension: int
    scales: int = 0
    tree: bool = False


BODY_KINDS: dict[str, BodyKind] = {
    kind.name: kind
    for kind in (
        BodyKind("rigid", 6, tree=True),
        BodyKind("planar", 3, tree=True),
        BodyKind("particle", 3, tree=True),
        BodyKind("scalable", 7, 1),
        BodyKind("scalable_axes", 9, 3),
        BodyKind("affine", 12, 9),
    )
}


def register_body_kind(kind: BodyKind) -> None:
    """Add a body kind for `add_body(..., body_kind=kind.name)`; raise if the name is taken.

    Args:
        kind: its name, the dimension of its velocity (1 to 12) and how many numbers its `scale` has.
    """
    check.name(kind.name, "a body kind's name")
    if kind.name in BODY_KINDS:
        raise ModelError(f'body kind "{kind.name}" exists already')
    if type(kind.dimension) is not int or not 1 <= kind.dimension <= 12:
        raise ModelError(f'body kind "{kind.name}": its dimension must be 1 to 12, got {kind.dimension!r}')
    BODY_KINDS[kind.name] = kind


class BodyBuilder:
    """The part of `Builder` that adds bodies."""

    _spec: Spec
    _bodies: dict[str, int]

    def _add_body(
        self, name: str, *, mass: float | None = None, com: ArrayLike = ORIGIN, inertia: ArrayLike | None = None,
        position: ArrayLike | None = None, rotation: ArrayLike | None = None, body_kind: str = "rigid",
        scale: ArrayLike | None = None, scale_stiffness: float = 0.0, scale_rest: ArrayLike | None = None,
        gravity_compensation: float = 0.0,
    ) -> str:  # fmt: skip
        """Add a body that no prescribed motion moves and return its name; arguments as of `Builder.add_body`."""
        check.name(name, "a body's name")
        if name == WORLD or name in self._bodies:
            raise ModelError(f'body "{name}" exists already')
        center = ORIGIN if com is ORIGIN else check.vector(com, 3, f'com of body "{name}"')
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
        if body_kind == "rigid" and scale is None and scale_rest is None and scale_stiffness == 0.0:
            body = Body(name, mass, center, inertia, position, rotation)
        else:
            scales = _checked_scales(name, body_kind, scale, scale_stiffness, scale_rest)
            body = Body(name, mass, center, inertia, position, rotation, body_kind, *scales)
            _check_kind(body)
        if gravity_compensation:
            part = check.number(gravity_compensation, f'gravity_compensation of body "{name}"')
            body = replace(body, gravity_compensation=part)
        self._bodies[name] = len(self._spec.bodies)
        self._spec.bodies.append(body)
        return name

    def add_body_planar(
        self,
        name: str,
        *,
        mass: float,
        inertia: float,
        com: ArrayLike = (0.0, 0.0),
        position: ArrayLike | None = None,
        angle: float = 0.0,
    ) -> str:
        """Add a body that moves in the x-y plane of the world and return its name.

        Without another joint it gets a `planar` joint to the world, named after it: three dofs. Pins between
        planar bodies are hinges about z.

        Args:
            name: unique name.
            mass: [kg].
            inertia: about the normal of the plane through the com [kg m^2].
            com: centre of mass in the body frame (x, y) [m].
            position: start position of the body frame (x, y), for a body without a joint to a parent [m].
            angle: start angle from the world's x axis to the body's, likewise; whole turns are not counted [rad].
        """
        about = check.number(inertia, f'inertia of body "{name}"', low=0.0)
        origin = None if position is None else (*check.vector(position, 2, f'position of body "{name}"'), 0.0)
        half = 0.5 * check.number(angle, f'angle of body "{name}"')
        return self._add_body(
            name,
            mass=mass,
            com=(*check.vector(com, 2, f'com of body "{name}"'), 0.0),
            # A body in the plane never turns about x or y; equal moments are the ones that suit any inertia about z.
            inertia=(about, about, about),
            position=origin,
            rotation=None if half == 0.0 else (math.cos(half), 0.0, 0.0, math.sin(half)),
            body_kind="planar",
        )

    def add_particle(self, name: str, *, mass: float, position: ArrayLike | None = None) -> str:
        """Add a point mass that does not turn and return its name.

        Without another joint it gets a compound joint to the world, named after it, of three slides "NAME:x",
        "NAME:y" and "NAME:z". A ball joint on a particle is a loop joint: it connects points.

        Args:
            name: unique name.
            mass: [kg].
            position: start position, for a particle without a joint to a parent [m].
        """
        mass = check.number(mass, f'mass of body "{name}"', positive=True)
        return self._add_body(name, mass=mass, position=position, body_kind="particle")

    def add_body_scalable(
        self, name: str, *, mass: float, com: ArrayLike = ORIGIN, inertia: ArrayLike, position: ArrayLike | None = None,
        rotation: ArrayLike | None = None, per_axis: bool = False, scale: ArrayLike = 1.0,
        scale_stiffness: float = 0.0, scale_rest: ArrayLike = 1.0,
    ) -> str:  # fmt: skip
        """Add a body that can also grow and shrink about its com, mass unchanged, and return its name.

        A point p of the unscaled body is at com + scale (p - com) in the body frame.

        Args:
            name: unique name.
            mass: [kg].
            com: centre of mass in the body frame [m].
            inertia: of the unscaled body about the com, as in `add_body` [kg m^2].
            position: start position of the body frame, for a body without a joint to a parent [m].
            rotation: start rotation (w, x, y, z), likewise.
            per_axis: a scale along each body axis instead of one for all.
            scale: at the start; with `per_axis` one number or three.
            scale_stiffness: energy is half of it times (scale - scale_rest)^2 [N m].
            scale_rest: scale without force, likewise.
        """
        size = 3 if per_axis else 1
        return self._add_body(
            name, mass=mass, com=com, inertia=inertia, position=position, rotation=rotation,
            body_kind="scalable_axes" if per_axis else "scalable",
            scale=_spread(scale, size), scale_stiffness=scale_stiffness, scale_rest=_spread(scale_rest, size),
        )  # fmt: skip

    def add_body_affine(
        self, name: str, *, mass: float, com: ArrayLike = ORIGIN, inertia: ArrayLike, position: ArrayLike | None = None,
        rotation: ArrayLike | None = None, deformation: ArrayLike | None = None, stiffness: float = 0.0,
    ) -> str:  # fmt: skip
        """Add a body that stretches and shears as a whole and return its name.

        Its twelve dofs are the com and the matrix A = R F from body to world axes; a point p of the undeformed
        body is at com + A (p - com).

        Args:
            name: unique name.
            mass: [kg].
            com: centre of mass in the body frame [m].
            inertia: of the undeformed body about the com, as in `add_body` [kg m^2].
            position: start position of the body frame, for a body without a joint to a parent [m].
            rotation: start rotation R (w, x, y, z), likewise.
            deformation: F at the start, 3x3; None is none.
            stiffness: energy is an eighth of it times |A^T A - 1|^2, which is invariant under rotations [N m].
        """
        if deformation is not None:
            try:
                deformation = np.asarray(deformation, float).reshape(9).tolist()
            except (TypeError, ValueError):
                raise ModelError(f'deformation of body "{name}" must be 3x3 numbers, got {deformation!r}') from None
        return self._add_body(
            name, mass=mass, com=com, inertia=inertia, position=position, rotation=rotation, body_kind="affine",
            scale=deformation, scale_stiffness=stiffness,
        )  # fmt: skip


def _spread(value: Any, size: int) -> Any:
    return (value,) * size if check.is_number(value) else value


def _checked_scales(name: str, kind: str, scale: Any, stiffness: Any, rest: Any) -> tuple[Any, ...]:
    """Return the scale, its stiffness and its rest of a body of the kind named, in one form."""
    if kind not in BODY_KINDS:
        raise UnknownName("body kind", kind, f'body "{name}"', BODY_KINDS)
    size = BODY_KINDS[kind].scales
    out: list[tuple[float, ...] | None] = []
    for word, value in (("scale", scale), ("scale_rest", rest)):
        if value is not None and size == 0:
            raise ModelError(f'body "{name}" is {kind}: it has no {word}')
        numbers = None if value is None else check.vector(value, size, f'{word} of body "{name}"')
        if numbers and kind in ("scalable", "scalable_axes") and min(numbers) <= 0.0:
            raise ModelError(f'{word} of body "{name}" must be > 0, got {value!r}')
        if numbers and kind == "affine" and not np.linalg.det(np.reshape(numbers, (3, 3))) > 0.0:
            raise ModelError(f'deformation of body "{name}" must have a determinant > 0, got {value!r}')
        # The unscaled body is stored as None, however it was given.
        plain = _UNIT if size == 9 else (1.0,) * size
        out.append(None if kind in _SCALED and numbers == plain else numbers)
    stiffness = check.number(stiffness, f'scale_stiffness of body "{name}"', low=0.0)
    if stiffness and size == 0:
        raise ModelError(f'body "{name}" is {kind}: it has no scale_stiffness')
    return out[0], stiffness, out[1]


_SCALED = ("scalable", "scalable_axes", "affine")


def _check_kind(body: Body) -> None:
    """Raise if a body has properties that its kind does not have."""
    what = f'body "{body.name}" is {body.body_kind}'
    if body.body_kind == "planar":
        turn = body.rotation or IDENTITY
        flat = body.com[2] == 0.0 and (body.position or ORIGIN)[2] == 0.0 and turn[1] == turn[2] == 0.0
        if not flat or (body.inertia is not None and any(body.inertia[4:])):
            raise ModelError(f"{what}: its com, position, rotation and inertia must lie in the x-y plane")
    elif body.body_kind == "particle":
        if body.rotation is not None or body.inertia is not None or body.com != ORIGIN or not body.mass:
            raise ModelError(f"{what}: it has a mass and a position, no com, inertia or rotation")
    elif body.body_kind in _SCALED:
        if not body.mass or body.inertia is None:
            raise ModelError(f"{what}: give mass and inertia")
        a, b, c = (float(x) for x in check.principal_moments(body.inertia))
        # What resists stretching is the matrix of second moments: (a + b - c) / 2 along the axis of c.
        if not a + b > c * (1.0 + 1e-9) and body.body_kind != "scalable":
            raise ModelError(
                f"{what}: it must be extended along all axes, a + b > c; principal moments {a:.6g}, {b:.6g}, {c:.6g}"
            )
        if not a > 0.0:
            raise ModelError(f"{what}: its inertia must be positive, got principal moments {a:.6g}, {b:.6g}, {c:.6g}")


def check_planes(spec: Spec) -> None:
    """Raise where a joint would turn or move a planar body out of its plane."""
    flat = {body.name for body in spec.bodies if body.body_kind == "planar"}
    if not flat:
        return
    for joint in spec.joints:
        ends = (joint.parent, joint.rotation), (joint.child, joint.rotation_in_child)
        planar = next((body for body, _ in ends if body in flat), None)
        if planar is None or joint.kind in ("gear", "distance", "no_slip", "fixed"):
            continue
        # The world lies in the plane too; a body in space may leave it.
        if not all(_stays(joint, rotation) for body, rotation in ends if body in flat or body == WORLD):
            raise ModelError(
                f'joint "{joint.name}": body "{planar}" is planar, and this {joint.kind} joint would take it out of '
                "its plane; pins are hinges about z"
            )


def _stays(joint: Joint, rotation: tuple[float, ...]) -> bool:
    """Return whether the motions of `joint` turn about z and slide along x and y of a body with its frame so turned."""
    motions = [("hinge" if joint.kind == "planar" else joint.kind, joint.axis)]
    if joint.kind == "compound":
        motions = [(axis.kind, axis.axis) for axis in joint.axes]
    for kind, axis in motions:
        x, y, z = matrix_from_quaternion(np.array(rotation)) @ np.array(axis)
        if kind not in ("hinge", "slide") or (max(abs(x), abs(y)) if kind == "hinge" else abs(z)) > _SLANT:
            return False
    return True
