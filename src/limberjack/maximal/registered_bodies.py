"""Bodies of registered kinds: the functions of a kind compiled with exact derivatives, and the kernels that call them.

A body of a registered kind has up to twelve generalized coordinates y with rates u = y'. Its kind gives the position of
a point p of the body, X(p, y), and its kinetic energy T(y, u). From these follow

    point       X' = X_y u,   X'' = X_y u' + b,   b = d2/ds2 X(p, y + s u)
    mass        M = T_uu,     inertial force   f = T_y - T_uy u - V_y

Derivatives are taken by jets, which carry second derivatives along one path. A mixed derivative by x and y comes from
three paths, since along x and y together the second derivative is f_xx + 2 f_xy + f_yy. Kinetic energy is quadratic in
the rates: at unit vectors it gives the mass, M_ab = T(e_a + e_b) - T(e_a) - T(e_b).

Each body has a row of numbers:

| columns | content |
|---|---|
| Y, U | coordinates and rates |
| POINT | the point asked for, in the body |
| POINT_POSITION, POINT_VELOCITY, POINT_BIAS | its position, velocity, and b |
| POINT_GRADIENT | X_y, three numbers per coordinate |
| MASS, FORCE, ENERGY | M by rows of twelve, f without weight, V |
| COM, COM_VELOCITY, COM_GRADIENT | com, its velocity, and its derivatives, three per coordinate |
| FRAME, FRAME_RATE | derivatives of X by p at the body's origin, and their rates |
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numba
from numba import carray
from numba.core import types
from numba.extending import overload

from limberjack._jit import call_address, inner, outlined
from limberjack.constraints.jets import Jet, jet
from limberjack.constraints.registered_rows import compile_flags, compiled_address
from limberjack.model.registered import REGISTERED_BODY_KINDS, RegisteredBodyKind

__all__ = [
    "REGISTERED_WIDTH",
    "address_of_body",
    "set_registered_forces",
    "write_registered_mass",
    "move_registered",
    "set_registered_point",
    "add_registered_row",
    "set_registered",
]

MAX_COORDINATES = 12
Y, U, POINT, POINT_POSITION, POINT_VELOCITY, POINT_BIAS, POINT_GRADIENT = 0, 12, 24, 27, 30, 33, 36
MASS, FORCE, ENERGY, COM, COM_VELOCITY, COM_GRADIENT, FRAME, FRAME_RATE, REGISTERED_WIDTH = (
    72,
    216,
    228,
    229,
    232,
    235,
    271,
    280,
    290,
)
# Requests to a kind's function: a point, mass and forces with the com, the frame at the origin.
ASK_POINT, ASK_MASS, ASK_FRAME = 0.0, 1.0, 2.0


@inner
def _column(c):
    """Return the column of a pose that holds coordinate c; 3 to 6 hold the quaternion of other kinds."""
    return c if c < 3 else c + 4


@outlined
def set_registered_point(i, address, registered, data, px, py, pz):
    """Fill position, velocity, bias and gradient of the point p of body i, at the state set by `set_registered`."""
    registered[i, POINT], registered[i, POINT + 1], registered[i, POINT + 2] = px, py, pz
    call_address(address[i], ASK_POINT, registered, i, data, i, data.shape[1])


@outlined
def set_registered(i, dim, start, address, registered, data, pose, u, maps, ends):
    """Fill the row, ends and frame maps of body i at (pose, u)."""
    for c in range(dim):
        registered[i, Y + c], registered[i, U + c] = pose[i, _column(c)], u[start + c]
    call_address(address[i], ASK_MASS, registered, i, data, i, data.shape[1])
    call_address(address[i], ASK_FRAME, registered, i, data, i, data.shape[1])
    set_registered_point(i, address, registered, data, 0.0, 0.0, 0.0)
    for c in range(9):
        ends[i, c] = 1.0 if c % 4 == 0 else 0.0
        maps[i, c], maps[i, 9 + c], maps[i, 18 + c] = registered[i, FRAME + c], registered[i, FRAME_RATE + c], 0.0
    for c in range(3):
        ends[i, 9 + c], ends[i, 12 + c], ends[i, 15 + c] = (
            registered[i, POINT_POSITION + c],
            0.0,
            registered[i, POINT_VELOCITY + c],
        )


@inner
def write_registered_mass(i, dim, registered, o, m):
    """Write the mass block of body i into m[o:]."""
    for a in range(dim):
        for b in range(dim):
            m[o + a * dim + b] = registered[i, MASS + MAX_COORDINATES * a + b]


@inner
def set_registered_forces(i, dim, registered, mass, gravity, o, f):
    """Set f[o:] to the weight of body i with its inertial force and that of its potential."""
    for c in range(dim):
        k = COM_GRADIENT + 3 * c
        lift = gravity[0] * registered[i, k] + gravity[1] * registered[i, k + 1] + gravity[2] * registered[i, k + 2]
        f[o + c] = registered[i, FORCE + c] + mass * lift


@outlined
def add_registered_row(i, dim, address, registered, data, px, py, pz, fx, fy, fz, o, j):
    """Add the generalized force of f at the point p of body i to j[o:]."""
    set_registered_point(i, address, registered, data, px, py, pz)
    for c in range(dim):
        k = POINT_GRADIENT + 3 * c
        j[o + c] += fx * registered[i, k] + fy * registered[i, k + 1] + fz * registered[i, k + 2]


@inner
def move_registered(i, dim, o, h, u, pose):
    """Add h u to the coordinates of body i."""
    for c in range(dim):
        pose[i, _column(c)] += h * u[o + c]


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
        a, b = pair // MAX_COORDINATES, pair % MAX_COORDINATES
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
                o = POINT_GRADIENT + 3 * way
                s[o], s[o + 1], s[o + 2] = a.d, b.d, c.d
            else:
                s[POINT_POSITION], s[POINT_POSITION + 1], s[POINT_POSITION + 2] = a.v, b.v, c.v
                s[POINT_VELOCITY], s[POINT_VELOCITY + 1], s[POINT_VELOCITY + 2] = a.d, b.d, c.d
                s[POINT_BIAS], s[POINT_BIAS + 1], s[POINT_BIAS + 2] = a.e, b.e, c.e

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
            s[FRAME_RATE + k] = 0.5 * (b0.e - a0.e - m0.e)
            s[FRAME_RATE + 3 + k] = 0.5 * (b1.e - a1.e - m1.e)
            s[FRAME_RATE + 6 + k] = 0.5 * (b2.e - a2.e - m2.e)

    return at


def _mass_function(kinetic: Callable, potential: Callable, center: Callable, size: int) -> Callable:
    """Return the function that fills mass, forces and com."""
    coordinates, rates = _paths(size)
    units = _units(size)

    @numba.njit(**compile_flags())
    def at(s: Any, data: Any) -> None:
        here = coordinates(s, size + 1)
        for a in range(size):
            # along a + a the rate is 2: T is quadratic, so the second derivative is 8 T
            s[MASS + (MAX_COORDINATES + 1) * a] = (
                0.25 * _as_jet(kinetic(here, units(s, (MAX_COORDINATES + 1) * a), data)).e
            )
        for a in range(size):
            for b in range(a):
                both = _as_jet(kinetic(here, units(s, MAX_COORDINATES * a + b), data)).e
                m = 0.5 * (both - s[MASS + (MAX_COORDINATES + 1) * a] - s[MASS + (MAX_COORDINATES + 1) * b])
                s[MASS + MAX_COORDINATES * a + b], s[MASS + MAX_COORDINATES * b + a] = m, m
        still, moved = rates(s, size), coordinates(s, size)
        drift = _as_jet(kinetic(moved, still, data)).e
        for a in range(size):
            way = coordinates(s, a)
            force = _as_jet(kinetic(way, still, data)).d - _as_jet(potential(way, data)).d
            both = _as_jet(kinetic(moved, rates(s, a), data)).e
            s[FORCE + a] = force - 0.5 * (both - drift - s[MASS + (MAX_COORDINATES + 1) * a])
        s[ENERGY] = _as_jet(potential(here, data)).v
        for way in range(size + 1):
            x = center(coordinates(s, way), data)
            a, b, c = _as_jet(x[0]), _as_jet(x[1]), _as_jet(x[2])
            if way < size:
                o = COM_GRADIENT + 3 * way
                s[o], s[o + 1], s[o + 2] = a.d, b.d, c.d
            else:
                s[COM], s[COM + 1], s[COM + 2] = a.v, b.v, c.v
                s[COM_VELOCITY], s[COM_VELOCITY + 1], s[COM_VELOCITY + 2] = a.d, b.d, c.d

    return at


def address_of_body(name: str) -> int:
    """Return the address of the compiled functions of a registered body kind; raise if they cannot be compiled."""
    return _compiled(REGISTERED_BODY_KINDS[name])


@cache
def _compiled(kind: RegisteredBodyKind) -> int:
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
        s, data = carray(row, (REGISTERED_WIDTH,)), carray(numbers, (length,))
        if asked < 0.5:
            points(s, data)
        elif asked < 1.5:
            masses(s, data)
        else:
            frames(s, data)

    return compiled_address(fill, f'body kind "{kind.name}"')
