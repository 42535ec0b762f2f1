"""What the functions of registered body kinds give, by jets: exact derivatives of places and of kinetic energy.

A jet carries second derivatives along one path. A mixed derivative by x and y comes from three paths, since along
x and y together the second derivative is f_xx + 2 f_xy + f_yy. Kinetic energy is quadratic in the rates: with those set
to unit vectors it gives the mass, M_ab = T(e_a + e_b) - T(e_a) - T(e_b).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numba
from numba import carray
from numba.core import types
from numba.extending import overload

from limberjack.constraints.custom import compile_flags, compiled_address
from limberjack.constraints.jets import Jet, jet
from limberjack.constraints.own_bodies import (
    BEND,
    CENTER,
    DRIFT,
    ENERGY,
    FORCE,
    FRAME,
    LIFT,
    MASS,
    MOST,
    OWN_WIDTH,
    PLACE,
    POINT,
    SLOPES,
    SPEED,
    TURNING,
    U,
    Y,
)
from limberjack.model.own_bodies import OWN_KINDS, OwnKind

__all__ = ["address_of_body"]


def _as_jet(x: Any) -> Any:
    """Return a number or jet as a jet; a name for compiled code, which `_make_jet` gives it."""
    return x


@overload(_as_jet, strict=False)
def _make_jet(x: Any) -> Any:
    """A constant of the user's is a jet without derivatives."""
    if isinstance(x, Jet):
        return lambda x: x
    return (lambda x: jet(float(x), 0.0, 0.0)) if isinstance(x, types.Number | types.Boolean) else None


def _jets(size: int, one: Callable) -> Callable:
    """Return a function of (s, way) that gives a tuple of jets one(s, c, way), c < size."""
    entries = "".join(f"one(s, {c}, way), " for c in range(size))
    # the length of a tuple is part of its type: written out, it is one function; built up, one for each length
    return numba.njit(**compile_flags())(eval(f"lambda s, way: ({entries})", {"one": one}))


def _paths(size: int) -> tuple[Callable, Callable]:
    """Return functions that give coordinates and rates as jets along a way.

    Ways 0 .. size - 1 go along a coordinate, `size` as the body moves, beyond that nowhere.
    """

    @numba.njit(**compile_flags())
    def coordinate(s: Any, c: Any, way: Any) -> Any:
        return jet(s[Y + c], 1.0 if way == c else (s[U + c] if way == size else 0.0), 0.0)

    @numba.njit(**compile_flags())
    def rate(s: Any, c: Any, way: Any) -> Any:
        # way a goes along rate a, at the rates of the body
        return jet(s[U + c], 1.0 if way == c else 0.0, 0.0)

    return _jets(size, coordinate), _jets(size, rate)


def _units(size: int) -> Callable:
    """Return the function that gives rates along a + b from rest as jets; the second derivative is twice T."""

    @numba.njit(**compile_flags())
    def unit(s: Any, c: Any, pair: Any) -> Any:
        a, b = pair // MOST, pair % MOST
        return jet(0.0, (1.0 if c == a else 0.0) + (1.0 if c == b else 0.0), 0.0)

    return _jets(size, unit)


def _point_function(place: Callable, size: int) -> Callable:
    """Return the function that fills place, speed, bias and slopes of the point asked for."""
    coordinates, _ = _paths(size)

    @numba.njit(**compile_flags())
    def at(s: Any, data: Any) -> None:
        p = jet(s[POINT], 0.0, 0.0), jet(s[POINT + 1], 0.0, 0.0), jet(s[POINT + 2], 0.0, 0.0)
        for way in range(size + 1):
            x = place(p, coordinates(s, way), data)
            a, b, c = _as_jet(x[0]), _as_jet(x[1]), _as_jet(x[2])
            if way < size:
                o = SLOPES + 3 * way
                s[o], s[o + 1], s[o + 2] = a.d, b.d, c.d
            else:
                s[PLACE], s[PLACE + 1], s[PLACE + 2] = a.v, b.v, c.v
                s[SPEED], s[SPEED + 1], s[SPEED + 2] = a.d, b.d, c.d
                s[BEND], s[BEND + 1], s[BEND + 2] = a.e, b.e, c.e

    return at


def _frame_function(place: Callable, size: int) -> Callable:
    """Return the function that fills the derivatives by the point at the origin, and their rates."""
    coordinates, _ = _paths(size)

    @numba.njit(**compile_flags())
    def at(s: Any, data: Any) -> None:
        zero = jet(0.0, 0.0, 0.0)
        moved = place((zero, zero, zero), coordinates(s, size), data)
        m0, m1, m2 = _as_jet(moved[0]), _as_jet(moved[1]), _as_jet(moved[2])
        for k in range(3):
            p = jet(0.0, 1.0 if k == 0 else 0.0, 0.0), jet(0.0, 1.0 if k == 1 else 0.0, 0.0)
            q = jet(0.0, 1.0 if k == 2 else 0.0, 0.0)
            along = place((p[0], p[1], q), coordinates(s, size + 1), data)
            both = place((p[0], p[1], q), coordinates(s, size), data)
            a0, a1, a2 = _as_jet(along[0]), _as_jet(along[1]), _as_jet(along[2])
            b0, b1, b2 = _as_jet(both[0]), _as_jet(both[1]), _as_jet(both[2])
            s[FRAME + k], s[FRAME + 3 + k], s[FRAME + 6 + k] = a0.d, a1.d, a2.d
            s[TURNING + k] = 0.5 * (b0.e - a0.e - m0.e)
            s[TURNING + 3 + k] = 0.5 * (b1.e - a1.e - m1.e)
            s[TURNING + 6 + k] = 0.5 * (b2.e - a2.e - m2.e)

    return at


def _mass_function(kinetic: Callable, potential: Callable, center: Callable, size: int) -> Callable:
    """Return the function that fills mass, forces and com."""
    coordinates, rates = _paths(size)
    units = _units(size)

    @numba.njit(**compile_flags())
    def at(s: Any, data: Any) -> None:
        here = coordinates(s, size + 1)
        for a in range(size):
            # along a + a the rate is 2: T is quadratic, so that 8 T stand there
            s[MASS + (MOST + 1) * a] = 0.25 * _as_jet(kinetic(here, units(s, (MOST + 1) * a), data)).e
        for a in range(size):
            for b in range(a):
                both = _as_jet(kinetic(here, units(s, MOST * a + b), data)).e
                m = 0.5 * (both - s[MASS + (MOST + 1) * a] - s[MASS + (MOST + 1) * b])
                s[MASS + MOST * a + b], s[MASS + MOST * b + a] = m, m
        still, moved = rates(s, size), coordinates(s, size)
        drift = _as_jet(kinetic(moved, still, data)).e
        for a in range(size):
            way = coordinates(s, a)
            force = _as_jet(kinetic(way, still, data)).d - _as_jet(potential(way, data)).d
            both = _as_jet(kinetic(moved, rates(s, a), data)).e
            s[FORCE + a] = force - 0.5 * (both - drift - s[MASS + (MOST + 1) * a])
        s[ENERGY] = _as_jet(potential(here, data)).v
        for way in range(size + 1):
            x = center(coordinates(s, way), data)
            a, b, c = _as_jet(x[0]), _as_jet(x[1]), _as_jet(x[2])
            if way < size:
                o = LIFT + 3 * way
                s[o], s[o + 1], s[o + 2] = a.d, b.d, c.d
            else:
                s[CENTER], s[CENTER + 1], s[CENTER + 2] = a.v, b.v, c.v
                s[DRIFT], s[DRIFT + 1], s[DRIFT + 2] = a.d, b.d, c.d

    return at


def address_of_body(name: str) -> int:
    """Return the address of the compiled functions of a registered body kind; raise if they cannot be compiled."""
    return _compiled(OWN_KINDS[name])


@cache
def _compiled(kind: OwnKind) -> int:
    """Return the address of what a kind's functions are compiled to, once for each."""
    flags = compile_flags()
    place, kinetic = numba.njit(**flags)(kind.place), numba.njit(**flags)(kind.kinetic)
    potential = numba.njit(**flags)(kind.potential or (lambda coordinates, data: 0.0))

    def at_origin(coordinates: Any, data: Any) -> Any:
        return place((0.0, 0.0, 0.0), coordinates, data)

    center = numba.njit(**flags)(kind.center or at_origin)
    points, frames = _point_function(place, kind.size), _frame_function(place, kind.size)
    masses = _mass_function(kinetic, potential, center, kind.size)

    def fill(asked: float, row: Any, numbers: Any, length: int) -> None:
        s, data = carray(row, (OWN_WIDTH,)), carray(numbers, (length,))
        if asked < 0.5:
            points(s, data)
        elif asked < 1.5:
            masses(s, data)
        else:
            frames(s, data)

    return compiled_address(fill, f'body kind "{kind.name}"')
