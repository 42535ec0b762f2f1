"""Arguments of a kernel that stay the same from call to call, unboxed once.

Numba unboxes every array of a call anew, some 20 ns each: for the 250 arrays of method `adaptive` three times as long
as a step of twenty joints. `Bound` stores the unboxed arguments; a kernel takes it and reads them by `arguments_of`.
"""

from __future__ import annotations

import hashlib
from typing import Any, ClassVar

import numba
import numpy as np
from llvmlite import ir
from numba import extending, types
from numba.core import cgutils
from numba.core.registry import cpu_target
from numba.extending import NativeValue, models

from limberjack._cache import layouts
from limberjack._jit import kernel
from limberjack._tuples import memory_type

__all__ = ["Bound", "arguments_of"]

_extending: Any = extending  # takes more than its annotations say


class BoundType(types.Type):
    """The type of arguments stored in memory; its name, part of the keys of kernels, hashes their types and fields."""

    def __init__(self, kind: Any) -> None:
        self.kind = kind
        text = f"{kind} {layouts((kind,))}"
        super().__init__(name=f"Bound({hashlib.sha256(text.encode()).hexdigest()[:20]})")


class Bound:
    """Arguments of a kernel, unboxed and stored.

    Args:
        arguments: a named tuple of arrays and named tuples; none of its arrays may be resized.
    """

    __slots__ = ("_memory", "address", "arguments")

    # by class of the arguments, of which all have one type: how many numbers they take, what stores them, their type
    _stores: ClassVar[dict[type, tuple[int, Any, BoundType]]] = {}

    def __init__(self, arguments: Any) -> None:
        self.arguments = arguments  # which keeps the arrays alive
        known = Bound._stores.get(type(arguments))
        if known is None:
            context: Any = cpu_target.target_context
            kind = numba.typeof(arguments)
            size = context.get_abi_sizeof(memory_type(context.data_model_manager, kind)) // 8 + 1
            _store_arguments(arguments, np.zeros(size))
            store = _store_arguments.overloads[(kind, numba.typeof(np.zeros(size)))].entry_point
            known = size, store, BoundType(kind)
            Bound._stores[type(arguments)] = known
        self._memory = np.zeros(known[0])
        known[1](arguments, self._memory)
        self.address = self._memory.ctypes.data

    @property
    def kind(self) -> BoundType:
        """Its type in kernels."""
        return Bound._stores[type(self.arguments)][2]


@_extending.typeof_impl.register(Bound)
def _typeof(value: Any, _: Any) -> BoundType:
    return value.kind


_extending.register_model(BoundType)(models.OpaqueModel)


@_extending.unbox(BoundType)
def _unbox(kind: Any, value: Any, c: Any) -> NativeValue:
    address = c.pyapi.object_getattr_string(value, "address")
    number = c.pyapi.long_as_longlong(address)
    c.pyapi.decref(address)
    return NativeValue(c.builder.inttoptr(number, ir.IntType(8).as_pointer()))


def _load(typing: Any, bound: Any) -> Any:
    """Return the arguments stored in `bound`."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], context.get_value_type(bound.kind))

    return bound.kind(bound), code


def _write(typing: Any, arguments: Any, memory: Any) -> Any:
    """Write the arguments into an array of numbers."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array = context.make_array(memory)(context, builder, args[1])
        size = context.get_abi_sizeof(args[0].type.pointee)
        cgutils.raw_memcpy(builder, array.data, args[0], ir.Constant(ir.IntType(64), size), 1)
        return context.get_dummy_value()

    return types.void(arguments, memory), code


# Annotated as anything: callers leave the first argument out.
arguments_of: Any = _extending.intrinsic(_load)
_write_arguments: Any = _extending.intrinsic(_write)


@kernel
def _store_arguments(arguments, memory):
    """Store the unboxed arguments in `memory`."""
    _write_arguments(arguments, memory)
