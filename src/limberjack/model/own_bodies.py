"""Body kinds of the user's own: where the points of a body are, and its kinetic energy, by generalized coordinates.

Bodies of registered kinds are moved by methods that work on bodies; what they need of a kind follows from its
functions, see `constraints/own_kinds.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from limberjack.errors import ModelError, UnknownName
from limberjack.model import bodies, check
from limberjack.model.spec import WORLD, Body, Spec

__all__ = ["OWN_KINDS", "OwnBody", "OwnBodyBuilder", "OwnKind", "register_body_kind"]

MOST_COORDINATES = 12


@dataclass(frozen=True, slots=True)
class OwnKind:
    """A registered body kind: how many coordinates it has, and its functions."""

    name: str
    size: int
    place: Callable
    kinetic: Callable
    potential: Callable | None
    center: Callable | None


OWN_KINDS: dict[str, OwnKind] = {}


@dataclass(frozen=True, slots=True)
class OwnBody(Body):
    """A body of a registered kind: its coordinates at the start are its `scale`, their rates and its numbers here."""

    rates: tuple[float, ...] = ()
    data: tuple[float, ...] = ()


def register_body_kind(
    name: str,
    *,
    size: int,
    place: Callable,
    kinetic: Callable,
    potential: Callable | None = None,
    center: Callable | None = None,
) -> None:
    """Let `Builder.add_body_own` make bodies of a new kind; raise if the name is taken.

    A body is whatever can tell where its points are and what its kinetic energy is, by `size` generalized coordinates.
    The functions are compiled; masses, forces of inertia, and rows of joints are their exact derivatives:

        place(point, coordinates, data) -> (x, y, z) in the world of a point (3) of the body [m]
        kinetic(coordinates, rates, data) -> energy, quadratic in the rates of the coordinates [J]
        potential(coordinates, data) -> energy stored in the body, without that of its weight [J]
        center(coordinates, data) -> (x, y, z) of the centre of mass in the world [m]

    with the numbers `data` given to `add_body_own`. They may use + - * /, whole powers, `abs`, comparisons and `sqrt`,
    `sin`, `cos`, `atan2` of `math`, loops, and other functions compiled by `numba.njit`.

    Args:
        name: of the kind.
        size: how many coordinates it has, 1 to 12.
        place: see above.
        kinetic: see above; its second derivatives by the rates are the mass block and must be positive definite.
        potential: see above; none without.
        center: see above; without, the place of the body's origin.
    """
    if type(size) is not int or not 1 <= size <= MOST_COORDINATES:
        raise ModelError(f'body kind "{name}": size must be 1 to {MOST_COORDINATES}, got {size!r}')
    functions = {"place": place, "kinetic": kinetic, "potential": potential, "center": center}
    for word, function in functions.items():
        if not callable(function) and (function is not None or word in ("place", "kinetic")):
            raise ModelError(f'body kind "{name}": {word} must be a function, got {function!r}')
    bodies.register_body_kind(bodies.BodyKind(name, size, size))
    OWN_KINDS[name] = OwnKind(name, size, place, kinetic, potential, center)


class OwnBodyBuilder:
    """The part of `Builder` that makes bodies of registered kinds."""

    _spec: Spec
    _bodies: dict[str, int]

    def add_body_own(
        self, kind: str, name: str, *, mass: float, coordinates: Any, rates: Any = None, data: Any = ()
    ) -> str:
        """Add a body of a registered kind and return its name.

        Where it is follows from its coordinates alone. Joints tie its points: ball, distance and, with the other body
        as parent, point_on_line and point_on_plane.

        Args:
            kind: a name given to `register_body_kind`.
            name: unique name.
            mass: what its weight acts on [kg].
            coordinates: at the start, as many as the kind has.
            rates: of the coordinates at the start; zero without.
            data: numbers handed to the kind's functions.
        """
        if kind not in OWN_KINDS:
            raise UnknownName("body kind", kind, "register_body_kind", OWN_KINDS)
        check.name(name, "a body's name")
        if name == WORLD or name in self._bodies:
            raise ModelError(f'body "{name}" exists already')
        size = OWN_KINDS[kind].size
        mass = check.number(mass, f'mass of body "{name}"', positive=True)
        start = check.vector(coordinates, size, f'coordinates of body "{name}"')
        speed = (0.0,) * size if rates is None else check.vector(rates, size, f'rates of body "{name}"')
        numbers = np.asarray(data, float)
        if numbers.ndim != 1 or not np.isfinite(numbers).all():
            raise ModelError(f'data of body "{name}" must be a list of finite numbers, got {data!r}')
        # the model asks every body that turns for an inertia; what moves this one is its kinetic energy
        still, inertia = (0.0, 0.0, 0.0), (mass, mass, mass, 0.0, 0.0, 0.0)
        self._bodies[name] = len(self._spec.bodies)
        self._spec.bodies.append(
            OwnBody(name, mass, still, inertia, None, None, kind, start, rates=speed, data=tuple(numbers.tolist()))
        )
        return name
