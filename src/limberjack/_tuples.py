"""Named tuples of arrays in kernels: passed and kept by reference.

Numba represents a tuple by the values of all its members, and passes each of them as an argument of its own: an array
of one dimension is seven numbers, the tuples of method `adaptive` are more than two thousand. Every call of a function
that is not inlined then copies them, which took longer than most such functions, and every copy is code that LLVM has
to optimise.

Here a named tuple of the package that holds arrays is the address of its members in memory. Reading a field loads what
that field is, of an array only what is used (`ArrayView`); a tuple within a tuple is an address again. A call passes
one number per tuple. Tuples never change, so their members are read by loads that LLVM may move and merge freely
(`invariant.load`). That is only true after a tuple has been filled: its address passes through an empty piece of
assembly, before which LLVM cannot move a load.

Tuples without arrays, those of other packages and plain tuples are what Numba makes of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from llvmlite import ir
from numba import extending
from numba.core import boxing, cgutils, datamodel, types
from numba.core.datamodel.models import DataModel, TupleModel, UniTupleModel
from numba.core.pythonapi import NativeValue, unbox

__all__ = ["ArrayView", "by_reference", "element", "fill", "member", "memory_type"]

_ZERO = ir.Constant(ir.IntType(32), 0)


def by_reference(kind: Any) -> bool:
    """Return whether values of a type are addresses: named tuples of the package that hold arrays."""
    return (
        isinstance(kind, (types.NamedTuple, types.NamedUniTuple))
        and kind.instance_class.__module__.partition(".")[0].startswith("limberjack")
        and any(isinstance(one, types.Array) or by_reference(one) for one in kind.types)
    )


def memory_type(manager: Any, kind: Any) -> ir.Type:
    """Return the LLVM type of a value in the memory of a tuple: tuples within tuples lie there whole."""
    if by_reference(kind):
        return ir.LiteralStructType([memory_type(manager, one) for one in kind.types])
    return manager[kind].get_value_type()


class _Reference(DataModel):
    """The data model of a tuple by reference: an address, except as a returned value."""

    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind)
        self._memory = memory_type(manager, kind)

    def get_value_type(self) -> ir.Type:
        return self._memory.as_pointer()

    def get_data_type(self) -> ir.Type:
        return self._memory

    get_return_type = get_data_type

    def as_data(self, builder: Any, value: Any) -> Any:
        return builder.load(value)

    def from_data(self, builder: Any, value: Any) -> Any:
        space = cgutils.alloca_once(builder, self._memory)
        builder.store(value, space)
        return _settled(builder, space)

    # The memory of the function that filled a tuple ends with it: a returned tuple is copied.
    as_return, from_return = as_data, from_data

    def as_argument(self, builder: Any, value: Any) -> Any:
        return value

    def from_argument(self, builder: Any, value: Any) -> Any:
        return value


def _settled(builder: Any, space: Any) -> Any:
    """Return the address of a tuple that has been filled; loads by it stay behind the stores before this."""
    kind = ir.FunctionType(space.type, [space.type])
    return builder.asm(kind, "", "=r,0,~{memory}", [space], True)


def _loaded(builder: Any, address: Any) -> Any:
    """Load a value that never changes, number by number: LLVM forgets what it is told of loads of structures."""
    kind = address.type.pointee
    if isinstance(kind, (ir.LiteralStructType, ir.ArrayType)):
        value = ir.Constant(kind, ir.Undefined)
        for k in range(len(kind)):
            part = builder.gep(address, [_ZERO, ir.Constant(ir.IntType(32), k)], inbounds=True)
            value = builder.insert_value(value, _loaded(builder, part), [k])
        return value
    value = builder.load(address)
    value.set_metadata("invariant.load", builder.module.add_metadata([]))
    return value


_sizes: dict[ir.Type, int] = {}


def _size(context: Any, kind: ir.Type) -> int:
    """Return the size of values of an LLVM type in memory; LLVM tells by having a program read."""
    if kind not in _sizes:
        _sizes[kind] = context.get_abi_sizeof(kind)
    return _sizes[kind]


class _Place:
    """Where a builder stands: after the last instruction of a block, so far."""

    def __init__(self, builder: Any) -> None:
        self._block = builder.basic_block
        self._last = self._block.instructions[-1] if self._block.instructions else None

    @contextmanager
    def after(self, builder: Any) -> Iterator[None]:
        """Let a builder insert instructions there within the block of this context."""
        block, at = builder.basic_block, builder._anchor
        count = len(block.instructions)
        if self._last is None:
            builder.position_at_start(self._block)
        else:
            builder.position_after(self._last)
        yield
        if builder._anchor:
            self._last = self._block.instructions[builder._anchor - 1]  # what is inserted next may need it
        builder._block = block
        builder._anchor = at + len(block.instructions) - count if block is self._block else at


class ArrayView:
    """An array in a kernel: of what describes it, only what is used is loaded or computed, and no more than once.

    Args:
        context: Numba's target.
        builder: stands where the array is defined.
        kind: its Numba type.
        data: the address of its elements, or what loads it.
        shape: its lengths, or what loads them.
        strides: its strides in bytes, or what loads them; None for a contiguous array, which needs none.
    """

    def __init__(self, context: Any, builder: Any, kind: Any, data: Any, shape: Any, strides: Any) -> None:
        self._context, self._builder, self.kind = context, builder, kind
        self._data, self._shape, self._strides = data, shape, strides
        self._place = _Place(builder)

    @classmethod
    def of(cls, context: Any, builder: Any, kind: Any, value: Any) -> ArrayView:
        """Return the view of an array that is an LLVM value."""
        fields = context.data_model_manager[kind]._fields
        data, shape, strides = (
            builder.extract_value(value, fields.index(name)) for name in ("data", "shape", "strides")
        )
        parts = [[builder.extract_value(one, k) for k in range(kind.ndim)] for one in (shape, strides)]
        return cls(context, builder, kind, data, parts[0], None if kind.layout == "C" else parts[1])

    @classmethod
    def at(cls, context: Any, builder: Any, kind: Any, address: Any) -> ArrayView:
        """Return the view of an array that lies in the memory of a tuple."""
        fields = context.data_model_manager[kind]._fields

        def part(name: str, *indices: int) -> Any:
            path = [_ZERO, *(ir.Constant(ir.IntType(32), k) for k in (fields.index(name), *indices))]
            return _loaded(builder, builder.gep(address, path, inbounds=True))

        def all_of(name: str) -> Any:
            return lambda: [part(name, k) for k in range(kind.ndim)]

        strides = None if kind.layout == "C" else all_of("strides")
        return cls(context, builder, kind, lambda: part("data"), all_of("shape"), strides)

    def _found(self, name: str) -> Any:
        value = getattr(self, name)
        if callable(value):
            with self._place.after(self._builder):
                value = value()
            setattr(self, name, value)
        return value

    @property
    def data(self) -> Any:
        """The address of its first element."""
        return self._found("_data")

    @property
    def shape(self) -> list:
        """Its lengths."""
        return self._found("_shape")

    @property
    def strides(self) -> list | None:
        """Its strides in bytes, None if it is contiguous."""
        return self._found("_strides")

    @property
    def itemsize(self) -> Any:
        """The size of its elements in bytes."""
        return self._context.get_constant(
            types.intp, _size(self._context, self._context.get_data_type(self.kind.dtype))
        )

    def whole(self) -> Any:
        """Return the array as Numba has it."""
        builder, data, shape, strides = self._builder, self.data, self.shape, self.strides
        if strides is None:
            strides = [self.itemsize]
            for length in reversed(shape[1:]):
                strides.insert(0, builder.mul(strides[0], length))
        count = self._context.get_constant(types.intp, 1)
        for length in shape:
            count = builder.mul(count, length)
        array = ir.Constant(self._context.get_value_type(self.kind), ir.Undefined)
        parts = {"nitems": count, "itemsize": self.itemsize, "data": data, "shape": shape, "strides": strides}
        for k, field in enumerate(self._context.data_model_manager[self.kind]._fields):
            part = parts.get(field)
            if isinstance(part, list):
                for j in range(self.kind.ndim):
                    array = builder.insert_value(array, part[j], [k, j])
            elif part is not None:
                array = builder.insert_value(array, part, k)
        return array

    def store(self, address: Any) -> None:
        """Write it into the memory of a tuple, but for what nothing reads there."""
        builder, fields = self._builder, self._context.data_model_manager[self.kind]._fields
        parts: list[Any] = [("data", (), self.data)]
        for name in ("shape", "strides"):
            parts.extend((name, (k,), one) for k, one in enumerate(getattr(self, name) or ()))
        for name, indices, value in parts:
            path = [_ZERO, *(ir.Constant(ir.IntType(32), k) for k in (fields.index(name), *indices))]
            builder.store(value, builder.gep(address, path, inbounds=True))


def element(builder: Any, array: ArrayView, indices: list) -> Any:
    """Return the address of one element of an array; no index is negative."""
    if array.strides is None:
        offset = indices[0]
        for index, size in zip(indices[1:], array.shape[1:], strict=True):
            offset = builder.add(builder.mul(offset, size), index)
        return builder.gep(array.data, [offset])
    offset = None
    for index, stride in zip(indices, array.strides, strict=True):
        step = builder.mul(index, stride)
        offset = step if offset is None else builder.add(offset, step)
    return cgutils.pointer_add(builder, array.data, offset)


def member(context: Any, builder: Any, kind: Any, address: Any, k: int) -> Any:
    """Return member k of the tuple of type `kind` at `address`; of an array, the view."""
    part = builder.gep(address, [_ZERO, ir.Constant(ir.IntType(32), k)], inbounds=True)
    if by_reference(kind.types[k]):
        return part
    if isinstance(kind.types[k], types.Array):
        return ArrayView.at(context, builder, kind.types[k], part)
    return _loaded(builder, part)


def fill(context: Any, builder: Any, kind: Any, values: Any) -> Any:
    """Return the address of a new tuple of type `kind` with the members `values`."""
    space = cgutils.alloca_once(builder, memory_type(context.data_model_manager, kind))
    for k, (one, value) in enumerate(zip(kind.types, values, strict=True)):
        part = builder.gep(space, [_ZERO, ir.Constant(ir.IntType(32), k)], inbounds=True)
        if by_reference(one):
            size = _size(context, part.type.pointee)
            cgutils.raw_memcpy(builder, part, value, ir.Constant(ir.IntType(64), size), 1)
        elif isinstance(one, types.Array):
            (value if isinstance(value, ArrayView) else ArrayView.of(context, builder, one, value)).store(part)
        else:
            builder.store(value, part)
    return _settled(builder, space)


def _field(context: Any, builder: Any, kind: Any, value: Any, name: str) -> Any:
    """Return a field of a named tuple, in any function that Numba compiles."""
    k = kind.fields.index(name)
    if not by_reference(kind):
        return builder.extract_value(value, k)
    found = member(context, builder, kind, value, k)
    return found.whole() if isinstance(found, ArrayView) else found


for _kind in (types.NamedTuple, types.NamedUniTuple):
    extending.lower_getattr_generic(_kind)(_field)


def _model(plain: Any) -> Any:
    return lambda manager, kind: (_Reference if by_reference(kind) else plain)(manager, kind)


datamodel.register_default(types.NamedTuple)(_model(TupleModel))
datamodel.register_default(types.NamedUniTuple)(_model(UniTupleModel))


def _unbox(kind: Any, value: Any, c: Any) -> Any:
    """Unbox a named tuple: its type has been checked, so its length and the types of its members are known."""
    if not by_reference(kind):
        return _unbox_plain(kind, value, c)
    space, cleanups = cgutils.alloca_once(c.builder, memory_type(c.context.data_model_manager, kind)), []
    failed = _unbox_members(kind, value, c, space, cleanups)
    with c.builder.if_then(failed, likely=False):
        c.pyapi.err_set_string("PyExc_TypeError", f"a member of {kind.instance_class.__name__} is no array or number")

    def cleanup() -> None:
        for one in reversed(cleanups):
            one()

    return NativeValue(_settled(c.builder, space), failed, cleanup)


def _unbox_members(kind: Any, value: Any, c: Any, space: Any, cleanups: list) -> Any:
    """Unbox the members of a tuple where they lie in memory; return whether one failed.

    Numba's code for each array, with a copy and a branch, took as long to compile as a whole step.
    """
    adapt = c.pyapi.nrt_adapt_ndarray_from_python if c.context.enable_nrt else c.pyapi.numba_array_adaptor
    failed = cgutils.false_bit
    for k, one in enumerate(kind.types):
        item = c.pyapi.tuple_getitem(value, k)
        part = c.builder.gep(space, [_ZERO, ir.Constant(ir.IntType(32), k)], inbounds=True)
        if by_reference(one):
            wrong = _unbox_members(one, item, c, part, cleanups)
        elif isinstance(one, types.Array):
            wrong = cgutils.is_not_null(c.builder, adapt(item, c.builder.bitcast(part, c.pyapi.voidptr)))
        else:
            native = c.unbox(one, item)
            c.builder.store(native.value, part)
            wrong = native.is_error
            if native.cleanup is not None:
                cleanups.append(native.cleanup)
        failed = c.builder.or_(failed, wrong)
    return failed


_unbox_plain: Any = boxing.unbox_tuple
for _kind in (types.NamedTuple, types.NamedUniTuple):
    unbox(_kind)(_unbox)
