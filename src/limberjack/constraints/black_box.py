"""Rows of black-box joints: the error of their state along locked directions, and beyond limits.

With the state s = (x, q) of a joint, its target T = project(s) and the error e = s - T, six numbers
(`model/registered.py`): of a small displacement d from an allowed state, D d is projected away, with D = 1 - dP/ds. The
null space of D is the tangent space of the allowed states, so an orthonormal basis B of its rows spans the locked
directions, and the constraint is

    phi = B e,    phi' = B (w, x')

since B D = B. B is computed at the start of a step and reused for the states that the step tries. Limits use the part
of e outside the locked directions: phi = -abs(e - B^T B e), one-sided, or 1 where that part is zero.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numba import carray
from numba.core import types
from numba.core.dispatcher import Dispatcher
from numba.core.errors import NumbaError

from limberjack._jit import inner
from limberjack.constraints.rows import AXES_A, COORDINATES, GAP, PAIR, PICKED, ROWS, relative_rotation
from limberjack.errors import ModelError, StateError
from limberjack.model.registered import ONE_SIDED, STEP, arguments
from limberjack.spatial.quaternions import quaternion_exp, quaternion_log, quaternion_multiply

__all__ = ["header_of", "projection_address", "raise_failed"]

_POINTER = types.CPointer(types.float64)
_SIGNATURE = types.void(types.float64, _POINTER, _POINTER, types.int64)
_FLAGS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": {"nsz"}}
# Layout of the numbers before those of the joint: the basis by rows, how many rows, and whether the user gave it.
_BASIS, _COUNT, _GIVEN, _HEADER = 0, 36, 37, 38
# An error beyond limits smaller than this is rounding, or within the tolerance of limits [m, rad].
_TOLERANCE = 1e-9


def header_of(kind: Any, rows: int) -> tuple[float, ...]:
    """Return the numbers stored before those of a joint: its basis, filled where the user gave it."""
    out = np.zeros(_HEADER)
    if kind.directions is not None:
        given = np.array(kind.directions)
        out[: given.size], out[_COUNT], out[_GIVEN] = given.ravel(), len(given), 1.0
    else:
        # for limits, finite differences say how many directions are locked
        out[_COUNT] = -1.0 if kind.one_sided else rows
    return tuple(out.tolist())


@inner
def _error(x, q, target):
    """Return the error of the state (x, q) against its target: rotation vector, then translation."""
    xt, qt = target
    w, a, b, c = quaternion_multiply(q, (qt[0], -qt[1], -qt[2], -qt[3]))
    if w < 0.0:
        w, a, b, c = -w, -a, -b, -c
    a, b, c = quaternion_log(w, a, b, c)
    return a, b, c, x[0] - xt[0], x[1] - xt[1], x[2] - xt[2]


@inner
def _norm(a):
    return math.sqrt(a[0] * a[0] + a[1] * a[1] + a[2] * a[2] + a[3] * a[3] + a[4] * a[4] + a[5] * a[5])


@inner
def _orthonormal(d, count, numbers):
    """Put an orthonormal basis of the rows of d (6, 6) into the numbers, the largest first; return how many."""
    found = 0
    while found < 6 and (found < count or count < 0):
        best, at = 0.0, -1
        for i in range(6):
            size = 0.0
            for c in range(6):
                size += d[i, c] * d[i, c]
            if size > best * (1.0 + 1e-9):
                best, at = size, i
        if at < 0 or (count < 0 and best < 1e-4):
            break
        f, o = 1.0 / math.sqrt(best), _BASIS + 6 * found
        for c in range(6):
            numbers[o + c] = f * d[at, c]
        for _ in range(2):
            for i in range(6):
                along = 0.0
                for c in range(6):
                    along += numbers[o + c] * d[i, c]
                for c in range(6):
                    d[i, c] -= along * numbers[o + c]
        found += 1
    return found


@inner
def _put(s, i, n, f, value):
    """Write row i from its parts in the axes of A."""
    o = ROWS + 8 * i
    for k in range(3):
        s[0, o + k] = n[0] * s[0, AXES_A + k] + n[1] * s[0, AXES_A + 3 + k] + n[2] * s[0, AXES_A + 6 + k]
        s[0, o + 3 + k] = f[0] * s[0, AXES_A + k] + f[1] * s[0, AXES_A + 3 + k] + f[2] * s[0, AXES_A + 6 + k]
    s[0, o + 6], s[0, o + 7], s[0, COORDINATES + i] = value, 0.0, 0.0


@inner
def _along_axes(s):
    """Return the gap in the axes of A."""
    out = (0.0, 0.0, 0.0)
    for k in range(3):
        o = AXES_A + 3 * k
        seen = s[0, o] * s[0, GAP] + s[0, o + 1] * s[0, GAP + 1] + s[0, o + 2] * s[0, GAP + 2]
        out = (seen if k == 0 else out[0], seen if k == 1 else out[1], seen if k == 2 else out[2])
    return out


@inner
def _put_equalities(s, numbers, rows, e):
    """Write the equality rows, along the basis."""
    for i in range(rows):
        b = _BASIS + 6 * i
        value = 0.0
        for c in range(6):
            value += numbers[b + c] * e[c]
        n, f = (numbers[b], numbers[b + 1], numbers[b + 2]), (numbers[b + 3], numbers[b + 4], numbers[b + 5])
        _put(s, i, n, f, value)


@inner
def _put_inequality(s, numbers, rows, e):
    """Write the inequality row, along the part of the error outside the basis."""
    for i in range(rows):
        b, along = _BASIS + 6 * i, 0.0
        for c in range(6):
            along += numbers[b + c] * e[c]
        e = (
            e[0] - along * numbers[b], e[1] - along * numbers[b + 1], e[2] - along * numbers[b + 2],
            e[3] - along * numbers[b + 3], e[4] - along * numbers[b + 4], e[5] - along * numbers[b + 5],
        )  # fmt: skip
    size = _norm(e)
    if size <= _TOLERANCE:
        zero = (0.0, 0.0, 0.0)
        _put(s, 0, zero, zero, 1.0)
    else:
        k = -1.0 / size
        _put(s, 0, (k * e[0], k * e[1], k * e[2]), (k * e[3], k * e[4], k * e[5]), -size)


def _filler(call: Any, one_sided: bool) -> Any:
    """Return the function that fills the rows of a joint, for `call(x, q, numbers) -> (x, q)`."""

    @numba.njit(**_FLAGS)
    def choose(target, numbers, d):
        xt, qt = target
        for k in range(6):
            m = STEP
            move = (m if k == 3 else 0.0, m if k == 4 else 0.0, m if k == 5 else 0.0)
            turn = (m if k == 0 else 0.0, m if k == 1 else 0.0, m if k == 2 else 0.0)
            x, q = (xt[0] + move[0], xt[1] + move[1], xt[2] + move[2]), quaternion_multiply(quaternion_exp(*turn), qt)
            plus = _error(x, q, call(x, q, numbers))
            x = (xt[0] - move[0], xt[1] - move[1], xt[2] - move[2])
            q = quaternion_multiply(quaternion_exp(-turn[0], -turn[1], -turn[2]), qt)
            minus = _error(x, q, call(x, q, numbers))
            p, n = _norm(plus), _norm(minus)
            a, b = 0.5, -0.5
            if abs(p - n) > ONE_SIDED * STEP:
                # a limit projects displacements to one side only
                a, b = (1.0, 0.0) if p < n else (0.0, -1.0)
            for c in range(6):
                d[c, k] = (a * plus[c] + b * minus[c]) / STEP
        return _orthonormal(d, int(numbers[_COUNT]), numbers)

    def fill(time: float, state: Any, data: Any, length: int) -> None:
        s, numbers = carray(state, (1, PAIR)), carray(data, (length,))
        x, q = _along_axes(s), relative_rotation(s, 0)
        target = call(x, q, numbers)
        rows = int(numbers[_COUNT])
        if numbers[_GIVEN] == 0.0 and (one_sided or s[0, PICKED] == 0.0):
            rows = choose(target, numbers, np.empty((6, 6)))
        e = _error(x, q, target)
        if one_sided:
            _put_inequality(s, numbers, rows, e)
        else:
            for i in range(rows, int(numbers[_COUNT])):
                _put(s, i, (0.0, 0.0, 0.0), (0.0, 0.0, 0.0), math.nan)
            _put_equalities(s, numbers, rows, e)

    return fill


def _compiled_call(project: Any) -> Any:
    """Return `call` of a function under njit."""
    if arguments(project) == 2:

        @numba.njit(**_FLAGS)
        def call(x, q, numbers):
            position, rotation = project(x, q)
            return (position[0], position[1], position[2]), (rotation[0], rotation[1], rotation[2], rotation[3])

    else:

        @numba.njit(**_FLAGS)
        def call(x, q, numbers):
            position, rotation = project(x, q, numbers[_HEADER:])
            return (position[0], position[1], position[2]), (rotation[0], rotation[1], rotation[2], rotation[3])

    return call


# Exceptions raised by Python functions within steps: the kind's name and the exception.
_FAILED: list[tuple[str, BaseException]] = []


def _python_call(name: str, project: Callable) -> Any:
    """Return `call` of a Python function, reached through a C callback that takes the GIL."""
    double = ctypes.POINTER(ctypes.c_double)
    takes_data = arguments(project) == 3

    def answer(pose: Any, data: Any, length: int) -> None:
        try:
            x, q = tuple(pose[0:3]), tuple(pose[3:7])
            extra = (np.array(data[_HEADER:length]),) if takes_data else ()
            position, rotation = project(x, q, *extra)
            numbers = [*map(float, position), *map(float, rotation)]
            if len(numbers) != 7:
                raise ValueError(f"a position (3) and a quaternion (4) are needed, got {position!r} and {rotation!r}")
        # any exception: none may propagate through C, so it is stored and raised by `raise_failed` after the step
        except BaseException as error:
            _FAILED.append((name, error))
            numbers = [math.nan] * 7
        for k in range(7):
            pose[k] = numbers[k]

    reached = ctypes.CFUNCTYPE(None, double, double, ctypes.c_int64)(answer)
    _ALIVE.append(reached)
    untyped: Any = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(
        ctypes.cast(reached, ctypes.c_void_p).value or 0
    )
    _ALIVE.append(untyped)

    @numba.njit(**_FLAGS)
    def call(x, q, numbers):
        pose = np.array((x[0], x[1], x[2], q[0], q[1], q[2], q[3]))
        untyped(pose.ctypes, numbers.ctypes, len(numbers))
        return (pose[0], pose[1], pose[2]), (pose[3], pose[4], pose[5], pose[6])

    return call


def raise_failed() -> None:
    """Raise the first exception that a black box raised within the last steps, if any."""
    if _FAILED:
        name, error = _FAILED[0]
        _FAILED.clear()
        if not isinstance(error, Exception):
            raise error
        raise StateError(f'project of joint kind "{name}" raised {error!r}') from error


def projection_address(kind: Any) -> int:
    """Return the address of the compiled function that fills the rows of a black-box kind."""
    if kind not in _ADDRESSES:
        compiled = isinstance(kind.function, Dispatcher)
        call = _compiled_call(kind.function) if compiled else _python_call(kind.name, kind.function)
        try:
            made: Any = numba.cfunc(_SIGNATURE, **_FLAGS)(_filler(call, kind.one_sided))
        except NumbaError as error:
            lines = [line for line in str(error).splitlines() if line.strip()]
            raise ModelError(f'project of joint kind "{kind.name}" does not compile: {" | ".join(lines[:4])}') from None
        _ALIVE.append(made)
        _ADDRESSES[kind] = int(made.address)
    return _ADDRESSES[kind]


_ADDRESSES: dict[Any, int] = {}
# callbacks must outlive the kernels that call them
_ALIVE: list[Any] = []
