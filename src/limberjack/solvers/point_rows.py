"""Rows of joints that hold two solids together at one point, packed: two levers and a small factor.

Three rows with directions T, orthonormal, and levers l from the com of each solid to the point are

    J = T [-l x, 1] on b, the same negated on a,   J u = T (v_b + w_b x l_b - v_a - w_a x l_a)

With G = K T (K as of `packed_rows`) a product needs G and the levers alone, 84 bytes where three rows on b and the gap
have 168: large nets are bound by what a processor reads. G is kept in single precision. That costs nothing of the
solution, since K is by definition what was kept, G T^T: any K near R^-1 is as good a preconditioner.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types

from limberjack._jit import inner, outlined
from limberjack.solvers.block_pivots import four, number, row_sums, set_four, spread
from limberjack.spatial.lanes import Lanes, add, cross4, dot4, intrinsic, lane, mul, pack, scale, sub

__all__ = ["ahead", "pack_point", "point_side", "pull_point", "push_point", "unpoint_side"]

_LANES = Lanes()
_SINGLES = ir.VectorType(ir.FloatType(), 4)
_DOUBLES = ir.VectorType(ir.DoubleType(), 4)
# How far directions may be from orthonormal, and rows from those of a point, beside 1 and the lever.
_ROUNDING = 1e-13
# How many constraints ahead of the wave levers and factors are asked for.
_AHEAD = 32
# Pivots outside are left to rows in double precision.
_LEAST, _MOST = 1e-30, 1e30


@intrinsic
def _singles(typing: Any, array: Any, k: Any) -> Any:
    """Return the numbers at places k .. k + 3 of an array in single precision."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        read = builder.load(builder.bitcast(builder.gep(data, [args[1]]), _SINGLES.as_pointer()), align=4)
        return builder.fpext(read, _DOUBLES)

    return _LANES(array, types.intp), code


@intrinsic
def ahead(typing: Any, array: Any, k: Any) -> Any:
    """Ask for the cache line of place k of an array, which is used soon and need not exist; changes no result."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        byte, index = ir.IntType(8).as_pointer(), ir.IntType(32)
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        kind = ir.FunctionType(ir.VoidType(), [byte, index, index, index])
        ask = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        place = builder.bitcast(builder.gep(data, [args[1]]), byte)
        builder.call(ask, [place, index(0), index(3), index(1)])  # to read, into all levels, data
        return context.get_dummy_value()

    return types.void(array, types.intp), code


@inner
def _direction(J, k):
    return pack(number(J, k + 3), number(J, k + 4), number(J, k + 5))


@inner
def _is_far(a, lever, t):
    """Return whether a row is not that of a point at the lever."""
    gap = sub(a, cross4(lever, t))
    return not dot4(gap, gap) <= _ROUNDING * _ROUNDING * (1.0 + dot4(lever, lever))


@outlined
def pack_point(J, k, rows, o, i, level, single):
    """Pack three rows at place k of J as those of a point if they are; return whether they are.

    Args:
        J: flat rows.
        k: the rows on solid b.
        rows: R^-1 J at place o; replaced by T there.
        o: place.
        i: the constraint's place in the list.
        level: (6 n + 4,) levers; l_b is filled.
        single: (9 n + 4,) G.
    """
    s, t, u = _direction(J, k), _direction(J, k + 6), _direction(J, k + 12)
    a, b, c = four(J, k), four(J, k + 6), four(J, k + 12)
    worst = max(abs(dot4(s, s) - 1.0), abs(dot4(t, t) - 1.0), abs(dot4(u, u) - 1.0))
    worst = max(worst, abs(dot4(s, t)), abs(dot4(s, u)), abs(dot4(t, u)))
    if not worst <= _ROUNDING:
        return False
    lever = scale(0.5, add(add(cross4(s, a), cross4(t, b)), cross4(u, c)))
    if _is_far(a, lever, s) or _is_far(b, lever, t) or _is_far(c, lever, u):
        return False
    for r in range(3):
        go = four(rows, o + 6 * r + 3)
        size = dot4(go, go)
        if not (size == 0.0 or _LEAST < size < _MOST):
            return False
        g = 9 * i + 3 * r
        single[g], single[g + 1], single[g + 2] = lane(go, 0), lane(go, 1), lane(go, 2)
    g = 6 * i
    level[g], level[g + 1], level[g + 2] = lane(lever, 0), lane(lever, 1), lane(lever, 2)
    for r in range(3):
        for d in range(3):
            rows[o + 3 * r + d] = J[k + 6 * r + 3 + d]
    return True


@inner
def point_side(rows, o, i, single, y, k):
    """Replace three numbers of y from place k on by K of them."""
    x = add(add(mul(four(rows, o), spread(y, k)), mul(four(rows, o + 3), spread(y, k + 1))),
            mul(four(rows, o + 6), spread(y, k + 2)))  # fmt: skip
    g = 9 * i
    y[k] = dot4(_singles(single, g), x)
    y[k + 1] = dot4(_singles(single, g + 3), x)
    y[k + 2] = dot4(_singles(single, g + 6), x)


@inner
def unpoint_side(rows, o, i, single, y, k):
    """Replace three numbers of y from place k on by K^T of them."""
    x = _force(single, i, y, k)
    y[k], y[k + 1], y[k + 2] = dot4(four(rows, o), x), dot4(four(rows, o + 3), x), dot4(four(rows, o + 6), x)


@inner
def _force(single, i, y, k):
    """Return the force of constraint i with multipliers at place k of y."""
    g = 9 * i
    return add(
        add(mul(_singles(single, g), spread(y, k)), mul(_singles(single, g + 3), spread(y, k + 1))),
        mul(_singles(single, g + 6), spread(y, k + 2)),
    )


@inner
def push_point(level, single, i, b, a, y, k, f):
    """Add the forces of constraint i on the solids at places b and a, a < 0 for none."""
    x = _force(single, i, y, k)
    ahead(level, 6 * (i + _AHEAD))
    ahead(single, 9 * (i + _AHEAD))
    set_four(f, b, add(four(f, b), cross4(four(level, 6 * i), x)))
    set_four(f, b + 4, add(four(f, b + 4), x))
    if a >= 0:
        set_four(f, a, sub(four(f, a), cross4(four(level, 6 * i + 3), x)))
        set_four(f, a + 4, sub(four(f, a + 4), x))


@inner
def pull_point(level, single, i, b, a, u, w, k):
    """Set three numbers of w from place k on to G times the gap that solids at places b and a open."""
    e = add(four(u, b + 4), cross4(four(u, b), four(level, 6 * i)))
    if a >= 0:
        e = sub(e, add(four(u, a + 4), cross4(four(u, a), four(level, 6 * i + 3))))
    g = 9 * i
    x, y, z = mul(_singles(single, g), e), mul(_singles(single, g + 3), e), mul(_singles(single, g + 6), e)
    set_four(w, k, row_sums(x, y, z))
