"""Calls of functions known by their address only, from inside kernels."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import extending
from numba.core import types

__all__ = ["call_custom"]


def _call(typing: Any, address: Any, time: Any, state: Any, k: Any, data: Any, first: Any, count: Any) -> Any:
    """Call the compiled function at `address` with row k of `state` and `count` numbers from row `first` of `data`."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        double, whole = ir.DoubleType(), ir.IntType(64)
        kind = ir.FunctionType(ir.VoidType(), [double, double.as_pointer(), double.as_pointer(), whole])
        function = builder.inttoptr(args[0], kind.as_pointer())
        places = []
        for array, row in ((2, 3), (4, 5)):
            struct = context.make_array(signature.args[array])(context, builder, args[array])
            stride = builder.extract_value(struct.strides, 0)
            start = builder.add(builder.ptrtoint(struct.data, whole), builder.mul(args[row], stride))
            places.append(builder.inttoptr(start, double.as_pointer()))
        builder.call(function, [args[1], *places, args[6]])
        return context.get_dummy_value()

    kinds = (types.int64, types.float64, state, types.int64, data, types.int64, types.int64)
    return types.void(*kinds), code


# typed as anything: callers leave the first argument out
call_custom: Any = extending.intrinsic(_call)
