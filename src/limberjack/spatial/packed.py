"""Choices, quotients and roots of four doubles at a time, and four rows of an array as lanes.

Together with `lanes.py`: a value is one number of each of four bodies or contacts. A branch becomes `choose`, which
computes both sides; `any_above` is the branch for what is rare in all four.
"""

from __future__ import annotations

import operator
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.typing.templates import AbstractTemplate, infer_global
from numba.extending import lower_builtin

from limberjack._jit import inner
from limberjack.spatial.lanes import Lanes, intrinsic, load4, store4

__all__ = [
    "any_above", "choose", "gather", "larger", "load4_single", "quad", "root", "scatter", "smaller", "store4_single",
    "transpose",
]  # fmt: skip

_LANES = Lanes()
_VECTOR = ir.VectorType(ir.DoubleType(), 4)
_INDEX = ir.IntType(32)
_FOUR = types.UniTuple(_LANES, 4)
_SINGLES = ir.VectorType(ir.FloatType(), 4)


class _Quotient(AbstractTemplate):
    def generic(self, args: Any, kws: Any) -> Any:
        if len(args) == 2 and all(isinstance(kind, Lanes) for kind in args):
            return args[0](*args)
        return None


_register: Any = infer_global(operator.truediv)
_register(_Quotient)


@lower_builtin(operator.truediv, Lanes, Lanes)
def _divide(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return builder.fdiv(args[0], args[1])


@intrinsic
def choose(typing: Any, a: Any, b: Any, x: Any, y: Any) -> Any:
    """Return x where a > b, else y."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.select(builder.fcmp_ordered(">", args[0], args[1]), args[2], args[3])

    return _LANES(_LANES, _LANES, _LANES, _LANES), code


@inner
def larger(a, b):
    """Return the larger of a and b."""
    return choose(a, b, a, b)


@inner
def smaller(a, b):
    """Return the smaller of a and b."""
    return choose(a, b, b, a)


@intrinsic
def any_above(typing: Any, a: Any, b: Any) -> Any:
    """Return whether a > b in any lane."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        bits = builder.bitcast(builder.fcmp_ordered(">", args[0], args[1]), ir.IntType(4))
        return builder.icmp_unsigned("!=", bits, ir.IntType(4)(0))

    return types.boolean(_LANES, _LANES), code


@intrinsic
def quad(typing: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
    """Return (a, b, c, d)."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        out = ir.Constant(_VECTOR, ir.Undefined)
        for k in range(4):
            out = builder.insert_element(out, args[k], ir.Constant(_INDEX, k))
        return out

    return _LANES(*(types.float64,) * 4), code


@intrinsic
def root(typing: Any, a: Any) -> Any:
    """Return the square root."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(_VECTOR, [_VECTOR])
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, "llvm.sqrt.v4f64"), [args[0]])

    return _LANES(_LANES), code


@intrinsic
def transpose(typing: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
    """Return the columns of the matrix with rows a, b, c, d."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        def blend(x: Any, y: Any, order: tuple[int, ...]) -> Any:
            mask = ir.Constant(ir.VectorType(_INDEX, 4), [ir.Constant(_INDEX, k) for k in order])
            return builder.shuffle_vector(x, y, mask)

        ab, cd = ((blend(x, y, (0, 4, 2, 6)), blend(x, y, (1, 5, 3, 7))) for x, y in (args[:2], args[2:]))
        low, high = (0, 1, 4, 5), (2, 3, 6, 7)
        out = [blend(ab[k], cd[k], order) for order in (low, high) for k in range(2)]
        return context.make_tuple(builder, _FOUR, out)

    return _FOUR(_LANES, _LANES, _LANES, _LANES), code


def _singles(context: Any, builder: Any, kind: Any, array: Any, i: Any, k: Any) -> Any:
    """Return the address of array[i, k] of a C-ordered array of single precision, as one of four numbers."""
    struct = context.make_array(kind)(context, builder, array)
    width = cgutils.unpack_tuple(builder, struct.shape)[1]
    return builder.bitcast(builder.gep(struct.data, [builder.add(builder.mul(i, width), k)]), _SINGLES.as_pointer())


@intrinsic
def load4_single(typing: Any, array: Any, i: Any, k: Any) -> Any:
    """Return array[i, k .. k + 3] of an array of single precision."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.fpext(builder.load(_singles(context, builder, signature.args[0], *args), align=4), _VECTOR)

    return _LANES(array, types.intp, types.intp), code


@intrinsic
def store4_single(typing: Any, array: Any, i: Any, k: Any, value: Any) -> Any:
    """Set array[i, k .. k + 3] of an array of single precision, rounded."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        address = _singles(context, builder, signature.args[0], *args[:3])
        builder.store(builder.fptrunc(args[3], _SINGLES), address, align=4)
        return context.get_dummy_value()

    return types.void(array, types.intp, types.intp, _LANES), code


@inner
def gather(array, i, j, k, m, c):
    """Return columns c .. c + 3 of rows i, j, k, m as four lanes each."""
    return transpose(load4(array, i, c), load4(array, j, c), load4(array, k, c), load4(array, m, c))


@inner
def scatter(array, i, j, k, m, c, a, b, d, e):
    """Set columns c .. c + 3 of rows i, j, k, m from four lanes each."""
    p, q, r, s = transpose(a, b, d, e)
    store4(array, i, c, p)
    store4(array, j, c, q)
    store4(array, k, c, r)
    store4(array, m, c, s)
