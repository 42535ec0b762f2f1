"""Four doubles at a time: a small Numba type over LLVM's vectors.

It is used in two ways. As a 3-vector, or a column of a 3x3 matrix, a value is (x, y, z) and a fourth lane of padding
that nothing may depend on: `load4`, `pack`, `cross4`, `dot4`, `combine`. As one number of each of four bodies it takes
+ - *, so that functions written for one body, `vectors.cross` or a whole Newton step, are functions of four at once:
`four` and `set_four` read and write row k of an array (rows, 4).

Every operation is the same on each lane, in the order written: results are the same bits whether the processor has wide
registers or not. Compilers do not find this form by themselves in code on scalars.
"""

from __future__ import annotations

import operator
from typing import Any

from llvmlite import ir
from numba import extending
from numba.core import cgutils, types
from numba.core.typing.templates import AbstractTemplate, infer_global
from numba.extending import lower_builtin, models, register_model

from limberjack._jit import inner

__all__ = [
    "Lanes",
    "add",
    "at",
    "column",
    "combine",
    "cross4",
    "dot4",
    "four",
    "from_row",
    "intrinsic",
    "lane",
    "load4",
    "mul",
    "pack",
    "prefetch",
    "rotate_left",
    "scale",
    "set_four",
    "splat",
    "store4",
    "sub",
]


def intrinsic(function: Any = None, **options: Any) -> Any:
    """Return `function` as a Numba intrinsic, typed as anything: callers leave its first argument out."""
    return extending.intrinsic(function, **options) if function else extending.intrinsic(**options)


_VECTOR = ir.VectorType(ir.DoubleType(), 4)
_INDEX = ir.IntType(32)
_OPERATORS = {operator.add: "fadd", operator.sub: "fsub", operator.mul: "fmul"}


class Lanes(types.Type):
    """The type of four doubles in one register."""

    def __init__(self) -> None:
        super().__init__(name="Lanes")


_LANES = Lanes()


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _VECTOR)


def _shuffled(builder: Any, value: Any, order: tuple[int, ...]) -> Any:
    mask = ir.Constant(ir.VectorType(_INDEX, 4), [ir.Constant(_INDEX, k) for k in order])
    return builder.shuffle_vector(value, ir.Constant(_VECTOR, ir.Undefined), mask)


def _splatted(builder: Any, value: Any) -> Any:
    first = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), value, ir.Constant(_INDEX, 0))
    return _shuffled(builder, first, (0, 0, 0, 0))


def _address(context: Any, builder: Any, kind: Any, array: Any, i: Any, k: Any) -> Any:
    """Return the address of array[i, k] of a C-ordered array, as one of four doubles."""
    struct = context.make_array(kind)(context, builder, array)
    width = cgutils.unpack_tuple(builder, struct.shape)[1]
    offset = builder.add(builder.mul(i, width), k)
    return builder.bitcast(builder.gep(struct.data, [offset]), _VECTOR.as_pointer())


@intrinsic
def load4(typing: Any, array: Any, i: Any, k: Any) -> Any:
    """Return array[i, k .. k + 3]."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        address = _address(context, builder, signature.args[0], *args)
        return builder.load(address, align=8)

    return _LANES(array, types.intp, types.intp), code


@intrinsic
def store4(typing: Any, array: Any, i: Any, k: Any, value: Any) -> Any:
    """Set array[i, k .. k + 3]."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store(args[3], _address(context, builder, signature.args[0], *args[:3]), align=8)
        return context.get_dummy_value()

    return types.void(array, types.intp, types.intp, _LANES), code


@intrinsic(prefer_literal=False)
def prefetch(typing: Any, array: Any, i: Any, k: Any) -> Any:
    """Prefetch the cache line of array[i, k], which is used soon; changes no result."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        byte = ir.IntType(8).as_pointer()
        address = builder.bitcast(_address(context, builder, signature.args[0], *args), byte)
        kind = ir.FunctionType(ir.VoidType(), [byte, _INDEX, _INDEX, _INDEX])
        fetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(fetch, [address, _INDEX(0), _INDEX(3), _INDEX(1)])  # to read, into all levels, data
        return context.get_dummy_value()

    return types.void(array, types.intp, types.intp), code


@intrinsic
def from_row(typing: Any, array: Any, first: Any) -> Any:
    """Return `array` as if `first` rows, never accessed, came before it: its row 0 is row `first` of the result."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = signature.args[0]
        old = context.make_array(kind)(context, builder, args[0])
        rows, width = cgutils.unpack_tuple(builder, old.shape)
        new = context.make_array(kind)(context, builder)
        back = builder.neg(builder.mul(args[1], width))
        shape = cgutils.pack_array(builder, [builder.add(rows, args[1]), width])
        new.data, new.shape, new.strides = builder.gep(old.data, [back]), shape, old.strides
        new.itemsize, new.nitems, new.meminfo, new.parent = old.itemsize, old.nitems, old.meminfo, old.parent
        return new._getvalue()

    return array(array, types.intp), code


@intrinsic
def splat(typing: Any, x: Any) -> Any:
    """Return (x, x, x, x)."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _splatted(builder, args[0])

    return _LANES(types.float64), code


@intrinsic
def pack(typing: Any, x: Any, y: Any, z: Any) -> Any:
    """Return (x, y, z, 0)."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        out = ir.Constant(_VECTOR, [0.0, 0.0, 0.0, 0.0])
        for k in range(3):
            out = builder.insert_element(out, args[k], ir.Constant(_INDEX, k))
        return out

    return _LANES(types.float64, types.float64, types.float64), code


def _elementwise(name: str, doc: str) -> Any:
    def make(typing: Any, a: Any, b: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return getattr(builder, name)(args[0], args[1])

        return _LANES(_LANES, _LANES), code

    make.__doc__ = doc
    return intrinsic(make)


add = _elementwise("fadd", "Return a + b.")
sub = _elementwise("fsub", "Return a - b.")
mul = _elementwise("fmul", "Return a b, lane by lane.")


@intrinsic
def rotate_left(typing: Any, a: Any) -> Any:
    """Return (y, z, x)."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _shuffled(builder, args[0], (1, 2, 0, 3))

    return _LANES(_LANES), code


@intrinsic(prefer_literal=True)
def lane(typing: Any, a: Any, k: Any) -> Any:
    """Return component k, a literal, as a number."""
    which = k.literal_value

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.extract_element(args[0], ir.Constant(_INDEX, which))

    return types.float64(_LANES, k), code


@intrinsic(prefer_literal=True)
def at(typing: Any, a: Any, k: Any) -> Any:
    """Return component k, a literal, in all lanes."""
    which = k.literal_value

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _shuffled(builder, args[0], (which,) * 4)

    return _LANES(_LANES, k), code


@intrinsic(prefer_literal=True)
def column(typing: Any, a: Any, b: Any, c: Any, k: Any) -> Any:
    """Return (a_k, b_k, c_k) for a literal k: a column of the matrix with rows a, b, c."""
    which = k.literal_value

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        def blend(x: Any, y: Any, order: tuple[int, ...]) -> Any:
            mask = ir.Constant(ir.VectorType(_INDEX, 4), [ir.Constant(_INDEX, j) for j in order])
            return builder.shuffle_vector(x, y, mask)

        first = blend(args[0], args[1], (which, 4 + which, 4 + which, 4 + which))
        # the last lane is padding
        return blend(first, blend(args[2], args[2], (which, 3, 3, 3)), (0, 1, 4, 5))

    return _LANES(_LANES, _LANES, _LANES, k), code


@inner
def scale(x, a):
    """Return x a for a number x."""
    return mul(splat(x), a)


@inner
def cross4(a, b):
    """Return a x b."""
    return rotate_left(sub(mul(a, rotate_left(b)), mul(rotate_left(a), b)))


@inner
def dot4(a, b):
    """Return a . b as a number."""
    c = mul(a, b)
    return (lane(c, 0) + lane(c, 1)) + lane(c, 2)


@inner
def combine(a, b, c, x):
    """Return a x_0 + b x_1 + c x_2: the matrix with columns a, b, c times x."""
    return add(add(mul(a, at(x, 0)), mul(b, at(x, 1))), mul(c, at(x, 2)))


def _overload_operator(symbol: Any, instruction: str) -> None:
    """Define an operator for lanes on either side or on both."""

    class LanesOperator(AbstractTemplate):
        def generic(self, args: Any, kws: Any) -> Any:
            lanes = next((kind for kind in args if isinstance(kind, Lanes)), None)
            if lanes is None or len(args) != 2 or not all(isinstance(kind, (Lanes, types.Float)) for kind in args):
                return None
            return lanes(*args)

    register: Any = infer_global(symbol)
    register(LanesOperator)

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        a, b = (
            value if isinstance(kind, Lanes) else _splatted(builder, value)
            for kind, value in zip(signature.args, args, strict=True)
        )
        return getattr(builder, instruction)(a, b)

    for kinds in ((Lanes, Lanes), (Lanes, types.Float), (types.Float, Lanes)):
        lower_builtin(symbol, *kinds)(code)


for _operator, _instruction in _OPERATORS.items():
    _overload_operator(_operator, _instruction)


def _row(context: Any, builder: Any, kind: Any, array: Any, k: Any) -> Any:
    """Return the address of row k of an array (rows, 4); its width is known, so that addresses need no product."""
    data = context.make_array(kind)(context, builder, array).data
    return builder.gep(builder.bitcast(data, _VECTOR.as_pointer()), [k])


@intrinsic
def four(typing: Any, array: Any, k: Any) -> Any:
    """Return the four numbers of row k of an array (rows, 4)."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(_row(context, builder, signature.args[0], *args), align=8)

    return _LANES(array, types.intp), code


@intrinsic
def set_four(typing: Any, array: Any, k: Any, value: Any) -> Any:
    """Set the four numbers of row k of an array (rows, 4)."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store(args[2], _row(context, builder, signature.args[0], *args[:2]), align=8)
        return context.get_dummy_value()

    return types.void(array, types.intp, _LANES), code
