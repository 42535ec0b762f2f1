"""Small blocks in groups of four numbers: loads and stores of groups, and the inverse of a diagonal block.

A block holds the columns of its matrix one after the other, each padded to whole groups. Group g of an array is its
places 4 g .. 4 g + 3, whatever its shape; arrays are C-ordered and places are never negative.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types

from limberjack._jit import inner, outlined
from limberjack.spatial.lanes import Lanes, add, at, column, intrinsic, mul, sub

__all__ = [
    "columns_times",
    "divided_3",
    "gather3",
    "group",
    "invert_3",
    "invert_block",
    "row_sums",
    "set_group",
    "spread",
]

_LANES = Lanes()
_VECTOR = ir.VectorType(ir.DoubleType(), 4)
_INDEX = ir.IntType(32)

# A pivot at or below this part of A's own diagonal is rounding: its row follows from the others.
_DEPENDENT = 1e-11
# Below this part the order of pivots is chosen before the row is judged.
_CLEAR = 1e-8


def _group_place(context: Any, builder: Any, kind: Any, array: Any, g: Any) -> Any:
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [builder.mul(g, ir.Constant(g.type, 4))]), _VECTOR.as_pointer())


@intrinsic
def group(typing: Any, array: Any, g: Any) -> Any:
    """Return group g of an array."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(_group_place(context, builder, signature.args[0], *args), align=8)

    return _LANES(array, types.intp), code


@intrinsic
def set_group(typing: Any, array: Any, g: Any, value: Any) -> Any:
    """Set group g of an array."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store(args[2], _group_place(context, builder, signature.args[0], *args[:2]), align=8)
        return context.get_dummy_value()

    return types.void(array, types.intp, _LANES), code


@intrinsic
def spread(typing: Any, array: Any, k: Any) -> Any:
    """Return the number at place k of an array in all four lanes."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        number = builder.load(builder.gep(data, [args[1]]))
        undefined = ir.Constant(_VECTOR, ir.Undefined)
        first = builder.insert_element(undefined, number, ir.Constant(_INDEX, 0))
        return builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(_INDEX, 4), [0, 0, 0, 0]))

    return _LANES(array, types.intp), code


@intrinsic
def gather3(typing: Any, array: Any, k: Any, step: Any) -> Any:
    """Return the numbers at places k, k + step and k + 2 step of an array, and 0."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        place, out = args[1], ir.Constant(_VECTOR, [0.0, 0.0, 0.0, 0.0])
        for j in range(3):
            out = builder.insert_element(out, builder.load(builder.gep(data, [place])), ir.Constant(_INDEX, j))
            place = builder.add(place, args[2])
        return out

    return _LANES(array, types.intp, types.intp), code


@inner
def columns_times(a, b, c, x):
    """Return the matrix with columns a, b, c times x."""
    return add(add(mul(a, at(x, 0)), mul(b, at(x, 1))), mul(c, at(x, 2)))


@inner
def divided_3(y, a, b, c, s0, s1, s2):
    """Return y - a s0 - b s1 - c s2, lane by lane."""
    return sub(sub(sub(y, mul(a, s0)), mul(b, s1)), mul(c, s2))


@inner
def row_sums(a, b, c):
    """Return the sums of the first three lanes of a, b and c, as a vector."""
    return add(add(column(a, b, c, 0), column(a, b, c, 1)), column(a, b, c, 2))


@inner
def invert_3(d, o0, o1, o2):
    """Return (clear, the six numbers 00 11 22 10 20 21 of D^-1) for the same numbers of a symmetric D.

    clear is False when a pivot is so small beside o, the diagonal before elimination, that rows may be dependent.
    """
    i0 = 1.0 / d[0]
    l1, l2 = d[3] * i0, d[4] * i0
    d1 = d[1] - l1 * d[3]
    i1 = 1.0 / d1
    t = d[5] - l2 * d[3]
    l3 = t * i1
    d2 = d[2] - l2 * d[4] - l3 * t
    i2 = 1.0 / d2
    clear = d[0] > _CLEAR * o0 and d1 > _CLEAR * o1 and d2 > _CLEAR * o2
    k = l1 * l3 - l2
    g21 = -l3 * i2
    g20 = k * i2
    g10 = -l1 * i1
    return clear, (i0 - l1 * g10 + k * g20, i1 - l3 * g21, i2, g10 - l3 * g20, g20, g21)


@outlined
def invert_block(n, g, diagonal, v, values, small):
    """Replace a symmetric block by its inverse, or by that of the rows that do not follow from others.

    The row with the largest pivot beside A's own diagonal is exchanged next. Rows and columns left over at the end
    become zero: a generalised inverse that gives the dropped rows no multiplier.

    Args:
        n: rows.
        g: first group of the block in `values`.
        diagonal: padded vector with the diagonal of A.
        v: first group of the block's rows in it.
        values: blocks.
        small: (13, 12) scratch; row 12 tells afterwards which rows were kept (1) and which dropped (0).

    Returns:
        How many rows were dropped; -1 if a number is not finite.
    """
    groups = (n + 3) >> 2
    for i in range(n):
        small[12, i] = 0.0
        for j in range(n):
            small[j, i] = values[g + i * groups + (j >> 2), j & 3]
            if not np.isfinite(small[j, i]):
                return -1
    kept = 0
    while kept < n:
        best, p = 0.0, -1
        for i in range(n):
            scale = diagonal[v + (i >> 2), i & 3]
            if small[12, i] == 0.0 and small[i, i] > _DEPENDENT * scale and small[i, i] > best * scale:
                best, p = small[i, i] / scale, i
        if p < 0:
            break
        small[12, p] = 1.0
        kept += 1
        inverse = 1.0 / small[p, p]
        for i in range(n):
            if i == p:
                continue
            factor = small[i, p] * inverse
            for j in range(n):
                if j != p:
                    small[i, j] -= factor * small[p, j]
            small[i, p] = factor
        for j in range(n):
            small[p, j] *= -inverse
        small[p, p] = inverse
    for i in range(n):
        for j in range(n):
            both = small[12, i] * small[12, j]
            # The exchange keeps the kept block symmetric up to rounding: its mean is.
            values[g + i * groups + (j >> 2), j & 3] = 0.5 * (small[j, i] + small[i, j]) if both > 0.0 else 0.0
    return n - kept
