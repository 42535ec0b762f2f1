"""Numbers with their first two derivatives along a path: what turns a value into its rows and bias, exactly.

A jet is (v, d, e): a value, its first and its second derivative by one parameter. Functions written for floats compile
for jets as they stand: + - * /, whole powers, `abs`, comparisons (of the values), and `sqrt`, `sin`, `cos`, `atan2` of
`math`. Sine and cosine are those of `spatial.trig`: the same bits everywhere.

    (a b)'' = a'' b + 2 a' b' + a b'',     g(a)'' = g''(a) a'^2 + g'(a) a''
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from numba import extending
from numba.core import cgutils, types
from numba.extending import make_attribute_wrapper, models, overload, register_model

from limberjack.spatial.trig import atan2 as our_atan2
from limberjack.spatial.trig import sincos

__all__ = ["Jet", "jet"]


class Jet(types.Type):
    """The type of a jet."""

    def __init__(self) -> None:
        super().__init__(name="Jet")


_JET = Jet()


@register_model(Jet)
class _JetModel(models.StructModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, [(name, types.float64) for name in "vde"])


for _name in "vde":
    make_attribute_wrapper(Jet, _name, _name)


def _make(typing: Any, v: Any, d: Any, e: Any) -> Any:
    """Return the jet (v, d, e)."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        out = cgutils.create_struct_proxy(_JET)(context, builder)
        out.v, out.d, out.e = args
        return out._getvalue()

    return _JET(types.float64, types.float64, types.float64), code


# typed as anything: callers leave the first argument out
jet: Any = extending.intrinsic(_make)


def _overload(function: Callable) -> Callable:
    """Return the decorator of an implementation for jets, whose annotations need not be those of its parts."""
    return overload(function, strict=False)


def _is_jet(kind: Any) -> bool:
    return isinstance(kind, Jet)


def _two(jets: Callable, left: Callable, right: Callable) -> Callable:
    """Return an overload of an operator for two jets, a jet and a number, a number and a jet."""

    def choose(a: Any, b: Any) -> Any:
        if _is_jet(a) and _is_jet(b):
            return jets
        if _is_jet(a) and isinstance(b, types.Number):
            return left
        if isinstance(a, types.Number) and _is_jet(b):
            return right
        return None

    return choose


def _divide(a: Any, b: Any) -> Any:
    # q b = a, differentiated twice
    f = 1.0 / b.v
    q = a.v * f
    d = (a.d - q * b.d) * f
    return jet(q, d, (a.e - 2.0 * d * b.d - q * b.e) * f)


def _divide_number(a: Any, b: Any) -> Any:
    f = 1.0 / b.v
    q = a * f
    d = -q * b.d * f
    return jet(q, d, -(2.0 * d * b.d + q * b.e) * f)


_add = _two(
    lambda a, b: jet(a.v + b.v, a.d + b.d, a.e + b.e),
    lambda a, b: jet(a.v + b, a.d, a.e),
    lambda a, b: jet(a + b.v, b.d, b.e),
)
_subtract = _two(
    lambda a, b: jet(a.v - b.v, a.d - b.d, a.e - b.e),
    lambda a, b: jet(a.v - b, a.d, a.e),
    lambda a, b: jet(a - b.v, -b.d, -b.e),
)
_multiply = _two(
    lambda a, b: jet(a.v * b.v, a.d * b.v + a.v * b.d, a.e * b.v + 2.0 * a.d * b.d + a.v * b.e),
    lambda a, b: jet(a.v * b, a.d * b, a.e * b),
    lambda a, b: jet(a * b.v, a * b.d, a * b.e),
)
_over = _two(_divide, lambda a, b: jet(a.v / b, a.d / b, a.e / b), _divide_number)
for _whole, _in_place, _way in (
    (operator.add, operator.iadd, _add),
    (operator.sub, operator.isub, _subtract),
    (operator.mul, operator.imul, _multiply),
    (operator.truediv, operator.itruediv, _over),
):
    _overload(_whole)(_way)
    _overload(_in_place)(_way)
for _compare, _jets, _left, _right in (
    (operator.lt, lambda a, b: a.v < b.v, lambda a, b: a.v < b, lambda a, b: a < b.v),
    (operator.le, lambda a, b: a.v <= b.v, lambda a, b: a.v <= b, lambda a, b: a <= b.v),
    (operator.gt, lambda a, b: a.v > b.v, lambda a, b: a.v > b, lambda a, b: a > b.v),
    (operator.ge, lambda a, b: a.v >= b.v, lambda a, b: a.v >= b, lambda a, b: a >= b.v),
):
    _overload(_compare)(_two(_jets, _left, _right))


@_overload(operator.neg)
def _negative(a: Any) -> Any:
    return (lambda a: jet(-a.v, -a.d, -a.e)) if _is_jet(a) else None


@_overload(operator.pos)
def _positive(a: Any) -> Any:
    return (lambda a: a) if _is_jet(a) else None


@_overload(abs)
def _size(a: Any) -> Any:
    return (lambda a: jet(-a.v, -a.d, -a.e) if a.v < 0.0 else a) if _is_jet(a) else None


@_overload(operator.pow)
def _power(a: Any, b: Any) -> Any:
    if not (_is_jet(a) and isinstance(b, types.Integer)):
        return None

    def power(a: Any, b: Any) -> Any:
        out = jet(1.0, 0.0, 0.0)
        for _ in range(abs(b)):
            out = out * a
        return out if b >= 0 else 1.0 / out

    return power


@_overload(math.sqrt)
def _root(a: Any) -> Any:
    if not _is_jet(a):
        return None

    def root(a: Any) -> Any:
        v = math.sqrt(a.v)
        f = 0.5 / v
        d = a.d * f
        return jet(v, d, a.e * f - d * d / v)

    return root


@_overload(math.sin)
def _sine(a: Any) -> Any:
    if not _is_jet(a):
        return None

    def sine(a: Any) -> Any:
        s, c = sincos(a.v)
        return jet(s, c * a.d, c * a.e - s * a.d * a.d)

    return sine


@_overload(math.cos)
def _cosine(a: Any) -> Any:
    if not _is_jet(a):
        return None

    def cosine(a: Any) -> Any:
        s, c = sincos(a.v)
        return jet(c, -s * a.d, -s * a.e - c * a.d * a.d)

    return cosine


@_overload(math.atan2)
def _angle(y: Any, x: Any) -> Any:
    if not (_is_jet(y) and _is_jet(x)):
        return None

    def angle(y: Any, x: Any) -> Any:
        f = 1.0 / (x.v * x.v + y.v * y.v)
        d = (x.v * y.d - y.v * x.d) * f
        change = 2.0 * (x.v * x.d + y.v * y.d)
        return jet(our_atan2(y.v, x.v), d, (x.v * y.e - y.v * x.e - d * change) * f)

    return angle
