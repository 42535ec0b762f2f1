"""Small blocks in groups of four numbers: loads and stores of groups, and L D L^T of a diagonal block.

A block holds the columns of its matrix one after the other, each padded to whole groups. Group g of an array is its
indices 4 g .. 4 g + 3, whatever its shape; arrays are C-ordered and indices are never negative.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types

from limberjack._jit import inner, outlined
from limberjack.spatial.lanes import Lanes, add, column, intrinsic, mul, sub

__all__ = [
    "factor_3",
    "factor_block",
    "four",
    "gather3",
    "group",
    "number",
    "row_sums",
    "set_four",
    "set_group",
    "spread",
    "without_3",
]

_LANES = Lanes()
_VECTOR = ir.VectorType(ir.DoubleType(), 4)
_INDEX = ir.IntType(32)

# A pivot at or below this part of A's own diagonal is rounding: its row depends on the others.
_DEPENDENT = 1e-11
# Below this part the order of pivots is chosen before the row is judged.
_CLEAR = 1e-6


def _group_address(context: Any, builder: Any, kind: Any, array: Any, g: Any) -> Any:
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [builder.mul(g, ir.Constant(g.type, 4))]), _VECTOR.as_pointer())


@intrinsic
def group(typing: Any, array: Any, g: Any) -> Any:
    """Return group g of an array."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(_group_address(context, builder, signature.args[0], *args), align=8)

    return _LANES(array, types.intp), code


@intrinsic
def set_group(typing: Any, array: Any, g: Any, value: Any) -> Any:
    """Set group g of an array."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store(args[2], _group_address(context, builder, signature.args[0], *args[:2]), align=8)
        return context.get_dummy_value()

    return types.void(array, types.intp, _LANES), code


@intrinsic
def four(typing: Any, array: Any, k: Any) -> Any:
    """Return the numbers at indices k .. k + 3 of an array."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        return builder.load(builder.bitcast(builder.gep(data, [args[1]]), _VECTOR.as_pointer()), align=8)

    return _LANES(array, types.intp), code


@intrinsic
def set_four(typing: Any, array: Any, k: Any, value: Any) -> Any:
    """Set the numbers at indices k .. k + 3 of an array."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        builder.store(args[2], builder.bitcast(builder.gep(data, [args[1]]), _VECTOR.as_pointer()), align=8)
        return context.get_dummy_value()

    return types.void(array, types.intp, _LANES), code


@intrinsic
def number(typing: Any, array: Any, k: Any) -> Any:
    """Return the number at index k of an array."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        return builder.load(builder.gep(data, [args[1]]))

    return types.float64(array, types.intp), code


@intrinsic
def spread(typing: Any, array: Any, k: Any) -> Any:
    """Return the number at index k of an array in all four lanes."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        number = builder.load(builder.gep(data, [args[1]]))
        undefined = ir.Constant(_VECTOR, ir.Undefined)
        first = builder.insert_element(undefined, number, ir.Constant(_INDEX, 0))
        return builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(_INDEX, 4), [0, 0, 0, 0]))

    return _LANES(array, types.intp), code


@intrinsic
def gather3(typing: Any, array: Any, k: Any, step: Any) -> Any:
    """Return the numbers at indices k, k + step and k + 2 step of an array, and 0."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        index, out = args[1], ir.Constant(_VECTOR, [0.0, 0.0, 0.0, 0.0])
        for j in range(3):
            out = builder.insert_element(out, builder.load(builder.gep(data, [index])), ir.Constant(_INDEX, j))
            index = builder.add(index, args[2])
        return out

    return _LANES(array, types.intp, types.intp), code


@inner
def without_3(y, a, b, c, s0, s1, s2):
    """Return y - a s0 - b s1 - c s2, lane by lane."""
    return sub(sub(sub(y, mul(a, s0)), mul(b, s1)), mul(c, s2))


@inner
def row_sums(a, b, c):
    """Return the sums of the first three lanes of a, b and c, as a vector."""
    return add(add(column(a, b, c, 0), column(a, b, c, 1)), column(a, b, c, 2))


@inner
def factor_3(d, o0, o1, o2):
    """Return (clear, l10, l20, l21, inverse pivots) of L D L^T for the numbers 00 11 22 10 20 21 of a symmetric block.

    clear is False when a pivot is so small relative to o, the diagonal of A, that rows may depend on others.
    """
    i0 = 1.0 / d[0]
    l10, l20 = d[3] * i0, d[4] * i0
    d1 = d[1] - l10 * d[3]
    i1 = 1.0 / d1
    t = d[5] - l20 * d[3]
    l21 = t * i1
    d2 = d[2] - l20 * d[4] - l21 * t
    clear = d[0] > _CLEAR * o0 and d1 > _CLEAR * o1 and d2 > _CLEAR * o2
    return clear, l10, l20, l21, i0, i1, 1.0 / d2


@outlined
def factor_block(n, g, v, values, pivots, pivot_order, small):
    """Replace a symmetric block by the unit lower half of its pivoted L D L^T; return the number of dropped rows.

    The row with the largest pivot relative to A's own diagonal is next. When only pivots of rounding size are left,
    their rows depend on the others: their inverse pivots and columns become zero, and with them their multipliers.

    Args:
        n: rows.
        g: first group of the block in `values`; L of row i and column j replaces the block's element.
        v: first group of the block's rows in padded vectors.
        values: blocks.
        pivots: padded vector with the diagonal of A; replaced by the inverse pivots.
        pivot_order: padded vector for the order of the rows.
        small: (13, 12) scratch.

    Returns:
        The number of dropped rows, the last of `pivot_order`; -1 if a number is not finite.
    """
    groups = (n + 3) >> 2
    for i in range(n):
        small[12, i] = 0.0
        for j in range(n):
            small[j, i] = values[g + i * groups + (j >> 2), j & 3]
            values[g + i * groups + (j >> 2), j & 3] = 0.0
            if not np.isfinite(small[j, i]):
                return -1
    rank = 0
    while rank < n:
        best, p = 0.0, -1
        for i in range(n):
            d, scale = small[i, i], pivots[v + (i >> 2), i & 3]
            if small[12, i] == 0.0 and d > _DEPENDENT * scale and d > best * scale:
                best, p = d / scale, i
        if p < 0:
            break
        small[12, p] = 1.0
        pivot_order[v + (rank >> 2), rank & 3] = p
        rank += 1
        inverse = 1.0 / small[p, p]
        for i in range(n):
            if small[12, i] == 0.0:
                l = small[i, p] * inverse
                values[g + p * groups + (i >> 2), i & 3] = l
                for j in range(n):
                    small[i, j] -= l * small[p, j]
        pivots[v + (p >> 2), p & 3] = inverse
    last = rank
    for i in range(n):
        if small[12, i] == 0.0:
            pivots[v + (i >> 2), i & 3] = 0.0
            pivot_order[v + (last >> 2), last & 3] = i
            last += 1
    return n - rank
