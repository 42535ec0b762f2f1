"""Rows and biases of registered constraint kinds: the exact derivatives of their functions, by jets.

With the relative pose (x, R) in the axes of A, its velocity x' and angular velocity w, and phi(x, R, t):

    f_k = d phi by x_k,   n_k = d phi by a rotation about axis k,   phi' = n.w + f.x' + phi_t
    c = f.(z - 2 wa x d' + wa x (wa x d)) - n.(wa x wb) + h,   h = d2/ds2 phi(x + s x', exp(s w) R, t + s)

in world axes: eight evaluations of phi on jets give all of them. A kind's function is compiled once and called by its
address; no kernel is recompiled for it.

A function of velocities g = n(x, R).w + f(x, R).x' - b is the rate of such a row itself: n and f are its values at unit
velocities, and h is its first derivative along the motion at constant w and x'. A constraint over two pairs of frames
is a row on each of them, whose states are neighbours: value, time derivative and h stand in the first.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numba
from numba import carray
from numba.core import types
from numba.core.errors import NumbaError

from limberjack._jit import inner
from limberjack.constraints.black_box import header_of, projection_address
from limberjack.constraints.jets import jet
from limberjack.constraints.rows import AXES_A, AXES_B, CENTRE, COORDINATES, GAP, PAIR, RATE, ROWS, TURN_A, TURN_B
from limberjack.errors import ModelError
from limberjack.model.registered import CONSTRAINT_KINDS, ConstraintKind, locks_of
from limberjack.model.spec import Joint

__all__ = ["address_of", "compile_flags", "compiled_address", "registered_kind"]

_POINTER = types.CPointer(types.float64)
_SIGNATURE = types.void(types.float64, _POINTER, _POINTER, types.int64)
_FLAGS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": {"nsz"}}
# compiled functions must outlive the kernels that call them
_ALIVE: list[Any] = []


@inner
def _cross(a, i, b, j):
    """Return the cross product of three numbers of a from i on and three of b from j on."""
    return (
        a[i + 1] * b[j + 2] - a[i + 2] * b[j + 1],
        a[i + 2] * b[j] - a[i] * b[j + 2],
        a[i] * b[j + 1] - a[i + 1] * b[j],
    )


@inner
def _along(s, axis, v):
    """Return the component of v along axis `axis` of frame A."""
    o = AXES_A + 3 * axis
    return s[o] * v[0] + s[o + 1] * v[1] + s[o + 2] * v[2]


@inner
def _speeds(s):
    """Return the relative velocity and angular velocity in the axes of A."""
    turned = _cross(s, TURN_A, s, GAP)
    v = (s[RATE] - turned[0], s[RATE + 1] - turned[1], s[RATE + 2] - turned[2])
    w = (s[TURN_B] - s[TURN_A], s[TURN_B + 1] - s[TURN_A + 1], s[TURN_B + 2] - s[TURN_A + 2])
    return (_along(s, 0, v), _along(s, 1, v), _along(s, 2, v)), (_along(s, 0, w), _along(s, 1, w), _along(s, 2, w))


@inner
def _path(s, k, time):
    """Return position, rotation and time as jets along direction k.

    0 to 2 are rotations, 3 to 5 translations, 6 is time, 7 the motion.
    """
    v, w = _speeds(s)
    rate = 1.0 if k >= 6 else 0.0
    if k < 7:
        w = (1.0 if k == 0 else 0.0, 1.0 if k == 1 else 0.0, 1.0 if k == 2 else 0.0)
        v = (1.0 if k == 3 else 0.0, 1.0 if k == 4 else 0.0, 1.0 if k == 5 else 0.0)
    d = (s[GAP], s[GAP + 1], s[GAP + 2])
    x = (jet(_along(s, 0, d), v[0], 0.0), jet(_along(s, 1, d), v[1], 0.0), jet(_along(s, 2, d), v[2], 0.0))
    c0, c1, c2 = _column(s, 0, w), _column(s, 1, w), _column(s, 2, w)
    rows = (c0[0], c1[0], c2[0]), (c0[1], c1[1], c2[1]), (c0[2], c1[2], c2[2])
    return x, rows, jet(time, rate, 0.0)


@inner
def _column(s, j, w):
    """Return axis j of B in the axes of A as jets of exp(s w)."""
    o = AXES_B + 3 * j
    u = (s[o], s[o + 1], s[o + 2])
    u = (_along(s, 0, u), _along(s, 1, u), _along(s, 2, u))
    d = _cross(w, 0, u, 0)
    e = _cross(w, 0, d, 0)
    return jet(u[0], d[0], e[0]), jet(u[1], d[1], e[1]), jet(u[2], d[2], e[2])


@inner
def _finish(s, i):
    """Turn n and f of row i from the axes of A into those of the world and complete its bias."""
    o = ROWS + 8 * i
    for part in (o, o + 3):
        a, b, c = s[part], s[part + 1], s[part + 2]
        for k in range(3):
            s[part + k] = a * s[AXES_A + k] + b * s[AXES_A + 3 + k] + c * s[AXES_A + 6 + k]
    turned = _cross(s, TURN_A, s, RATE)
    once = _cross(s, TURN_A, s, GAP)
    twice = _cross(s, TURN_A, once, 0)
    both = _cross(s, TURN_A, s, TURN_B)
    for k in range(3):
        s[o + 7] += s[o + 3 + k] * (s[CENTRE + k] - 2.0 * turned[k] + twice[k]) - s[o + k] * both[k]


class Registered(NamedTuple):
    """A constraint's registered kind, for its rows."""

    rows: int
    one_sided: bool
    address: int
    data: tuple[float, ...]
    velocity: bool = False
    second: Any = None  # a joint between the frames of the second pair, if there is one


def registered_kind(joint: Any) -> Registered:
    """Return the registered kind of a constraint, compiled."""
    kind = CONSTRAINT_KINDS[joint.kind]
    if kind.project:
        rows = 1 if kind.one_sided else locks_of(kind.name, kind.function, joint.data, kind.rows, kind.limited).rows
        return Registered(rows, kind.one_sided, projection_address(kind), header_of(kind, rows) + joint.data)
    second = None
    if kind.pairs == 2:
        own = (joint.second_position, joint.second_rotation)
        own += (joint.second_position_in_child, joint.second_rotation_in_child)
        second = Joint(joint.name, kind.name, joint.second_parent, joint.second_child, *own)
    return Registered(kind.rows, kind.one_sided, address_of(kind.name), joint.data, kind.velocity, second)


def compile_flags() -> dict[str, Any]:
    """Return the Numba options that registered functions are compiled with."""
    return dict(_FLAGS)


def compiled_address(fill: Callable, what: str) -> int:
    """Return the address of `fill`, compiled; raise, naming `what`, if it cannot be.

    Args:
        fill: takes (time, pointer to the numbers it fills, pointer to the numbers it reads, how many those are).
        what: its name in the message.
    """
    try:
        compiled: Any = numba.cfunc(_SIGNATURE, **_FLAGS)(fill)
    except NumbaError as error:
        lines = [line for line in str(error).splitlines() if line.strip()]
        raise ModelError(f"{what} does not compile: {' | '.join(lines[:4])}") from None
    _ALIVE.append(compiled)
    return int(compiled.address)


@cache
def address_of(name: str) -> int:
    """Return the address of the compiled function of a registered kind; raise if it cannot be compiled."""
    kind = CONSTRAINT_KINDS[name]
    if kind.velocity or kind.pairs == 2:
        return compiled_address(_general(kind), f'the function of constraint kind "{name}"')
    function, count = numba.njit(**_FLAGS)(kind.function), kind.rows
    single = count == 1

    @numba.njit(**_FLAGS)
    def one(x, r, t, data):
        return (function(x, r, t, data),)

    whole = one if single else function

    def fill(time: float, state: Any, data: Any, length: int) -> None:
        s, numbers = carray(state, (PAIR,)), carray(data, (length,))
        for k in range(8):
            x, r, t = _path(s, k, time)
            values = whole(x, r, t, numbers)
            for i in range(count):
                o = ROWS + 8 * i
                if k < 6:
                    s[o + k] = values[i].d
                elif k == 6:
                    # the partial derivative by time
                    s[COORDINATES + i] = values[i].d
                else:
                    s[o + 6], s[o + 7] = values[i].v, values[i].e
        for i in range(count):
            _finish(s, i)

    return compiled_address(fill, f'the function of constraint kind "{name}"')


@inner
def _still():
    return jet(0.0, 0.0, 0.0), jet(0.0, 0.0, 0.0), jet(0.0, 0.0, 0.0)


@inner
def _unit(k):
    """Return direction k as velocity and angular velocity: 0 to 2 are rotations, 3 to 5 translations."""
    one = (jet(1.0 if k == 3 else 0.0, 0.0, 0.0), jet(1.0 if k == 4 else 0.0, 0.0, 0.0))
    two = (jet(1.0 if k == 0 else 0.0, 0.0, 0.0), jet(1.0 if k == 1 else 0.0, 0.0, 0.0))
    v = (one[0], one[1], jet(1.0 if k == 5 else 0.0, 0.0, 0.0))
    return v, (two[0], two[1], jet(1.0 if k == 2 else 0.0, 0.0, 0.0))


@inner
def _constant_speeds(s):
    """Return relative velocity and angular velocity as jets that stay as they are."""
    v, w = _speeds(s)
    return (
        (jet(v[0], 0.0, 0.0), jet(v[1], 0.0, 0.0), jet(v[2], 0.0, 0.0)),
        (jet(w[0], 0.0, 0.0), jet(w[1], 0.0, 0.0), jet(w[2], 0.0, 0.0)),
    )


def _uniform(kind: ConstraintKind) -> Any:
    """Return the function of a kind, compiled, as one of two pairs and velocities that returns a tuple."""
    function, two = numba.njit(**_FLAGS)(kind.function), kind.pairs == 2
    if kind.velocity and two:

        @numba.njit(**_FLAGS)
        def plain(x, r, v, w, x2, r2, v2, w2, t, data):
            return function((x, x2), (r, r2), (v, v2), (w, w2), t, data)

    elif kind.velocity:

        @numba.njit(**_FLAGS)
        def plain(x, r, v, w, x2, r2, v2, w2, t, data):
            return function(x, r, v, w, t, data)

    else:

        @numba.njit(**_FLAGS)
        def plain(x, r, v, w, x2, r2, v2, w2, t, data):
            return function((x, x2), (r, r2), t, data)

    if kind.rows > 1:
        return plain

    @numba.njit(**_FLAGS)
    def one(x, r, v, w, x2, r2, v2, w2, t, data):
        return (plain(x, r, v, w, x2, r2, v2, w2, t, data),)

    return one


def _general(kind: ConstraintKind) -> Callable:
    """Return the function that fills the rows of a kind of velocities, or of one over two pairs of frames."""
    value, count, pairs = _uniform(kind), kind.rows, kind.pairs

    def of_velocities(time: float, state: Any, data: Any, length: int) -> None:
        s, numbers = carray(state, (pairs * PAIR,)), carray(data, (length,))
        a, b = s[:PAIR], s[(pairs - 1) * PAIR :]
        x, r, t = _path(a, -1, time)
        x2, r2, _ = _path(b, -1, time)
        still = _still()
        known = value(x, r, still, still, x2, r2, still, still, t, numbers)
        for k in range(6):
            v, w = _unit(k)
            found = value(x, r, v, w, x2, r2, still, still, t, numbers)
            for i in range(count):
                a[ROWS + 8 * i + k] = found[i].v - known[i].v
            if pairs == 2:
                found = value(x, r, still, still, x2, r2, v, w, t, numbers)
                for i in range(count):
                    b[ROWS + 8 * i + k] = found[i].v - known[i].v
        x, r, t = _path(a, 7, time)
        x2, r2, _ = _path(b, 7, time)
        v, w = _constant_speeds(a)
        v2, w2 = _constant_speeds(b)
        found = value(x, r, v, w, x2, r2, v2, w2, t, numbers)
        for i in range(count):
            b[COORDINATES + i] = b[ROWS + 8 * i + 6] = b[ROWS + 8 * i + 7] = 0.0
            a[COORDINATES + i], a[ROWS + 8 * i + 6], a[ROWS + 8 * i + 7] = known[i].v, 0.0, found[i].d
        for i in range(count):
            _finish(a, i)
            if pairs == 2:
                _finish(b, i)

    def of_positions(time: float, state: Any, data: Any, length: int) -> None:
        s, numbers = carray(state, (2 * PAIR,)), carray(data, (length,))
        a, b, still = s[:PAIR], s[PAIR:], _still()
        for k in range(14):
            first = k if k < 8 else -1
            x, r, t = _path(a, first, time)
            x2, r2, _ = _path(b, k if 6 <= k < 8 else k - 8, time)
            found = value(x, r, still, still, x2, r2, still, still, t, numbers)
            for i in range(count):
                o = ROWS + 8 * i
                if k < 6:
                    a[o + k] = found[i].d
                elif k == 6:
                    a[COORDINATES + i], b[COORDINATES + i] = found[i].d, 0.0
                elif k == 7:
                    a[o + 6], a[o + 7], b[o + 6], b[o + 7] = found[i].v, found[i].e, 0.0, 0.0
                else:
                    b[o + k - 8] = found[i].d
        for i in range(count):
            _finish(a, i)
            _finish(b, i)

    return of_velocities if kind.velocity else of_positions
