"""How the statements of a kernel become LLVM code.

Numba's `Lower` serves all of Python: it gives most variables a place in memory, passes an array as the seven or nine
numbers that describe it, returns a status with the result of every call and tests it after each, and turns a loop over
a range into an iterator object. LLVM removes all of that again, but only after it has been built, printed and read.
Here

- a variable that is assigned once is a value, one that depends on the way taken a phi node of LLVM;
- arrays, tuples and ranges are described by Python objects (`ArrayView` of `_tuples.py`, `_Items`, `_Range`): of an
  array only what is used is loaded, and a tuple that is taken apart again is never built;
- functions that only kernels call take an array as its address and lengths, and return their result (`declare`,
  `call`): kernels raise nothing, so there is no status;
- functions, modules and the like are no values, and numbers of modules are numbers.

With Numba's setting that checks indices, which raises, calls are those of Numba.
"""

from __future__ import annotations

import hashlib
import operator
import re
from collections.abc import Iterable, Sequence
from typing import Any

import numba
from llvmlite import ir
from numba.core import cgutils, types
from numba.core import ir as numba_ir
from numba.core.analysis import compute_cfg_from_blocks
from numba.core.base import OverloadSelector
from numba.core.callconv import CPUCallConv
from numba.core.cpu import CPUContext
from numba.core.lowering import Lower as PlainLower
from numba.np.arrayobj import load_item, store_item

from limberjack._tuples import ArrayView, by_reference, element, fill, member

__all__ = ["Lower", "call_directly", "signature_of"]

_LENGTH = ir.IntType(64)
_numbers: Any = (types.Number, types.Boolean)
# Whether functions return their results and no status; not where indices are checked.
_DIRECT: bool = not numba.config.BOUNDSCHECK  # pyright: ignore[reportAttributeAccessIssue]

# Signatures of Numba's functions for the types of their arguments: Numba looks for them anew at each operator.
_signatures: dict[tuple, Any] = {}


def signature_of(context: Any, function: types.Function, args: tuple) -> Any:
    """Return the signature of one of Numba's functions for arguments of these types."""
    found = _signatures.get((function, args))
    if found is None:
        found = _signatures[function, args] = context.resolve_function_type(function, args, {})
    return found


# -- values ----------------------------------------------------------------------------------------


class _Items:
    """A tuple whose items are values already; it is built where something needs it whole.

    Args:
        lower: what lowers the function.
        kind: its Numba type.
        items: values of its types.
    """

    def __init__(self, lower: Lower, kind: Any, items: Sequence[Any]) -> None:
        self._lower, self._kind, self.items = lower, kind, items

    def whole(self) -> Any:
        """Return the tuple."""
        lower, items = self._lower, [whole(item) for item in self.items]
        if isinstance(self._kind, types.Pair):
            pair = lower.context.make_helper(lower.builder, self._kind)
            pair.first, pair.second = items
            return pair._getvalue()
        return lower.context.make_tuple(lower.builder, self._kind, items)


class _Range:
    """A range of integers: its bounds, its step, and where its iterator stands, once there is one."""

    def __init__(self, lower: Lower, kind: Any, start: Any, stop: Any, step: Any) -> None:
        self._lower, self.kind, self.start, self.stop, self.step = lower, kind, start, stop, step
        self.at: Any = None

    def whole(self) -> Any:
        """Return the range, no iterator, as Numba has it."""
        state = self._lower.context.make_helper(self._lower.builder, self.kind)
        state.start, state.stop, state.step = self.start, self.stop, self.step
        return state._getvalue()


def whole(value: Any) -> Any:
    """Return the LLVM value of what stands for one."""
    return value.whole() if isinstance(value, (ArrayView, _Items, _Range)) else value


# -- calls -----------------------------------------------------------------------------------------


def _passed_types(context: Any, kind: Any) -> list:
    """Return the LLVM types of the numbers and addresses by which a value is passed."""
    if isinstance(kind, types.Array):
        count = kind.ndim if kind.layout == "C" else 2 * kind.ndim
        return [context.get_data_type(kind.dtype).as_pointer()] + [_LENGTH] * count
    return list(_packer(context, kind).argument_types)


def _passed(context: Any, builder: Any, kind: Any, value: Any) -> Iterable[Any]:
    """Return the numbers and addresses by which a value is passed."""
    if isinstance(kind, types.Array):
        view = value if isinstance(value, ArrayView) else ArrayView.of(context, builder, kind, value)
        return [view.data, *view.shape, *(view.strides or ())]
    if isinstance(value, _Items) and not isinstance(kind, types.Pair):
        return [
            x for one, item in zip(kind.types, value.items, strict=True) for x in _flat(context, builder, one, item)
        ]
    return _packer(context, kind).as_arguments(builder, [whole(value)])


def _flat(context: Any, builder: Any, kind: Any, value: Any) -> Iterable[Any]:
    """Return the numbers of an item of a tuple: an array within one is passed as Numba passes it."""
    return _packer(context, kind).as_arguments(builder, [whole(value)])


_packers: dict[Any, Any] = {}


def _packer(context: Any, kind: Any) -> Any:
    if kind not in _packers:
        _packers[kind] = context.get_arg_packer((kind,))
    return _packers[kind]


def _declare(context: Any, module: Any, function: Any) -> Any:
    """Return a function that only kernels call, declared in an LLVM module."""
    found = module.globals.get(function.mangled_name)
    if found is not None:
        return found
    kind = function.restype
    result = ir.VoidType() if kind == types.none else context.data_model_manager[kind].get_return_type()
    arguments = [one for kind in function.argtypes for one in _passed_types(context, kind)]
    declared = ir.Function(module, ir.FunctionType(result, arguments), function.mangled_name)
    declared.attributes.add("nounwind")
    if function.inline:
        declared.attributes.add("alwaysinline")
    return declared


def _call(context: Any, builder: Any, function: Any, values: Sequence[Any]) -> Any:
    """Call a function that only kernels call."""
    passed: list[Any] = []
    for kind, value in zip(function.argtypes, values, strict=True):
        passed.extend(_passed(context, builder, kind, value))
    result = builder.call(_declare(context, builder.module, function), passed)
    if function.restype == types.none:
        return context.get_dummy_value()
    return context.get_returned_value(builder, function.restype, result)


def call_directly(context: Any, compiled: Any) -> None:
    """Have all code that Numba compiles call a function that only kernels call as `_call` does."""
    if not _DIRECT:
        return

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _call(context, builder, compiled.fndesc, args)

    code.libs = (compiled.library,)
    chosen = OverloadSelector()
    chosen.append(code, compiled.fndesc.argtypes)
    context._defns[compiled.entry_point] = chosen


class _CallConv(CPUCallConv):
    """Numba's conventions, except that a function that only kernels call can raise nothing: it would stop there."""

    def _return_errcode_raw(self, builder: Any, code: Any) -> None:
        if hasattr(builder.function, "direct"):
            trap = cgutils.get_or_insert_function(builder.module, ir.FunctionType(ir.VoidType(), ()), "llvm.trap")
            builder.call(trap, ())
            builder.unreachable()
        else:
            super()._return_errcode_raw(builder, code)

    def return_user_exc(self, builder: Any, *args: Any, **options: Any) -> None:
        if hasattr(builder.function, "direct"):
            self._return_errcode_raw(builder, 1)
        else:
            super().return_user_exc(builder, *args, **options)

    def return_status_propagate(self, builder: Any, status: Any) -> None:
        if hasattr(builder.function, "direct"):
            self._return_errcode_raw(builder, 1)
        else:
            super().return_status_propagate(builder, status)


class _Context(CPUContext):
    """Numba's target with these conventions."""

    @property
    def call_conv(self) -> Any:
        return _CallConv(self)


# -- statements ------------------------------------------------------------------------------------


def _names_used(statement: Any) -> list[str]:
    """Return the names of the variables that a statement reads."""
    todo, found = [statement.value if isinstance(statement, numba_ir.Assign) else statement], []
    while todo:
        one = todo.pop()
        if isinstance(one, numba_ir.Var):
            found.append(one.name)
        elif isinstance(one, numba_ir.Expr):
            todo.extend(one._kws.values())
        elif isinstance(one, (list, tuple)):
            todo.extend(one)
        elif isinstance(one, numba_ir.Stmt):
            todo.extend(one.__dict__.values())
    return found


def _phi(statement: Any) -> Any:
    """Return the phi expression that a statement assigns, or None."""
    value = statement.value if isinstance(statement, numba_ir.Assign) else None
    return value if isinstance(value, numba_ir.Expr) and value.op == "phi" else None


def _lasting(blocks: dict, order: list, dominators: dict) -> set[str]:
    """Return the variables that are values: assigned once, on every way to where they are read."""
    places: dict[str, Any] = {}
    lost: set[str] = set()
    reads: list[tuple[str, Any]] = []
    for label in order:
        known: set[str] = set()
        for statement in blocks[label].body:
            phi = _phi(statement)
            if phi is not None:
                pairs = zip(phi.incoming_values, phi.incoming_blocks, strict=True)
                # read at the ends of the blocks that lead here
                reads.extend((one.name, (block,)) for one, block in pairs if isinstance(one, numba_ir.Var))
            else:
                reads.extend((name, label) for name in _names_used(statement) if name not in known)
            if isinstance(statement, numba_ir.Assign):
                name = statement.target.name
                if name in places:
                    lost.add(name)
                places[name] = label
                known.add(name)
    for name, where in reads:
        place = places.get(name)
        if isinstance(where, tuple):
            reached = place in dominators.get(where[0], ())
        else:
            reached = place != where and place in dominators[where]
        if not reached:
            lost.add(name)
    return set(places) - lost


# Operators on two numbers of one type, by Numba's type: what LLVM calls them.
_FLOATS = {
    operator.add: "fadd", operator.sub: "fsub", operator.mul: "fmul", operator.truediv: "fdiv",
    operator.iadd: "fadd", operator.isub: "fsub", operator.imul: "fmul", operator.itruediv: "fdiv",
}  # fmt: skip
_INTEGERS = {
    operator.add: "add", operator.sub: "sub", operator.mul: "mul",
    operator.iadd: "add", operator.isub: "sub", operator.imul: "mul",
}  # fmt: skip
_COMPARISONS = {
    operator.lt: "<", operator.le: "<=", operator.gt: ">", operator.ge: ">=", operator.eq: "==", operator.ne: "!=",
}  # fmt: skip
# What integers that are not negative stay so by.
_GROWING = ("add", "mul")


def _short(function: str, name: str) -> str:
    """Return a short name for the symbol of a function."""
    readable = re.sub(r"\W", "_", function)
    return f"_ZN{readable}_{hashlib.sha256(name.encode()).hexdigest()[:16]}"


class Lower(PlainLower):
    """Lowers a kernel.

    Elements of arrays and operators on numbers are lowered directly: Numba copies the array into memory, looks for an
    implementation that takes constants as such, and for the type of the result once more.
    """

    def __init__(self, context: Any, library: Any, function: Any, code: Any, metadata: Any = None) -> None:
        self._direct = _DIRECT and library.only_linked
        # Names spell the types of all arguments; LLVM would print and read them at each call.
        function.mangled_name, function.env_name = (
            _short(function.qualname, name) for name in (function.mangled_name, function.env_name)
        )
        super().__init__(context, library, function, code, metadata)
        self.context.__class__ = _Context

    def init(self) -> None:
        graph = compute_cfg_from_blocks(self.blocks)
        order = [label for label in graph.topo_order() if label in self.blocks]
        self.blocks = {label: self.blocks[label] for label in order}
        self._lasts = _lasting(self.blocks, order, graph.dominators())
        self._values: dict[str, Any] = {}
        self._tails: dict[Any, Any] = {}
        self._phis: list[tuple[Any, Any, Any]] = []
        self._natural: set[int] = set()  # integers that are not negative
        self._singly_assigned_vars, self._blk_local_varmap = set(), {}

    # functions

    def emit_environment_object(self) -> None:
        if not self._direct:
            super().emit_environment_object()

    def setup_function(self, fndesc: Any) -> None:
        if not self._direct:
            super().setup_function(fndesc)
            return
        self.function = _declare(self.context, self.module, fndesc)
        self.function.direct = True
        self.entry_block = self.function.append_basic_block("entry")
        self.builder = ir.IRBuilder(self.entry_block)
        self.call_helper = self.call_conv.init_call_helper(self.builder)

    def extract_function_arguments(self) -> Any:
        if not self._direct:
            values = zip(self.fndesc.argtypes, super().extract_function_arguments(), strict=True)
            self.fnargs = [
                ArrayView.of(self.context, self.builder, kind, value) if isinstance(kind, types.Array) else value
                for kind, value in values
            ]
            return self.fnargs
        self.fnargs, passed = [], list(self.function.args)
        for kind in self.fndesc.argtypes:
            count = len(_passed_types(self.context, kind))
            own, passed = passed[:count], passed[count:]
            if isinstance(kind, types.Array):
                strides = None if kind.layout == "C" else own[1 + kind.ndim :]
                value: Any = ArrayView(self.context, self.builder, kind, own[0], own[1 : 1 + kind.ndim], strides)
            else:
                (value,) = _packer(self.context, kind).from_arguments(self.builder, own)
            self.fnargs.append(value)
        return self.fnargs

    def lower_function_body(self) -> Any:
        for label in self.blocks:
            self.blkmap[label] = self.function.append_basic_block(f"B{label}")
        self.pre_lower()
        entry = self.builder.basic_block
        for label, block in self.blocks.items():
            self.builder.position_at_end(self.blkmap[label])
            self.lower_block(block)
            self._tails[label] = self.builder.basic_block
        for phi, expression, kind in self._phis:
            self._connect(phi, expression, kind)
        self.post_lower()
        return entry

    def lower_block(self, block: Any) -> None:
        try:
            nodes = []
            for statement in block.body:
                phi = _phi(statement)
                if phi is not None:  # these come first in LLVM's blocks
                    name = statement.target.name
                    nodes.append((name, self.builder.phi(self.context.get_value_type(self.typeof(name)))))
                    self._phis.append((nodes[-1][1], phi, self.typeof(name)))
            for name, node in nodes:
                self.storevar(node, name)
            for statement in block.body:
                if _phi(statement) is None:
                    self.loc = statement.loc
                    self.lower_inst(statement)
        except Exception as error:
            error.add_note(f"lowering {self.fndesc.qualname}, {self.loc}")
            raise

    def _connect(self, phi: Any, expression: Any, kind: Any) -> None:
        """Tell a phi node where its values come from."""
        for value, label in zip(expression.incoming_values, expression.incoming_blocks, strict=True):
            tail = self._tails.get(label)
            if tail is None:  # no way leads there
                continue
            if isinstance(value, numba_ir.Var):
                self.builder.position_before(tail.terminator)
                found = self.context.cast(self.builder, self.loadvar(value.name), self.typeof(value.name), kind)
            else:
                found = ir.Constant(phi.type, None)
            phi.add_incoming(found, tail)

    # variables

    def alloca_lltype(self, name: str, lltype: Any, datamodel: Any = None) -> Any:
        # Numba has LLVM parse a module to tell how large it is, for debuggers.
        return cgutils.alloca_once(self.builder, lltype, name=name)

    def storevar(self, value: Any, name: str, argidx: int | None = None) -> None:
        if name in self._lasts:
            self._values[name] = value
        else:
            self._alloca_var(name, self.typeof(name))
            self.builder.store(whole(value), self.getvar(name))

    def loadvar(self, name: str) -> Any:
        return whole(self._value(name))

    def _value(self, name: str) -> Any:
        """Return a variable's value, or what stands for it."""
        return self._values[name] if name in self._values else self.builder.load(self.getvar(name))

    def _cast(self, name: str, kind: Any) -> Any:
        """Return a variable's value, or what stands for it, as a value of a type."""
        own = self.typeof(name)
        if own == kind:
            return self._value(name)
        return self.context.cast(self.builder, self.loadvar(name), own, kind)

    # statements

    def lower_inst(self, inst: Any) -> None:
        if isinstance(inst, numba_ir.Assign):
            self.storevar(self.lower_assign(self.typeof(inst.target.name), inst), inst.target.name)
        elif isinstance(inst, numba_ir.Branch):
            if inst.truebr == inst.falsebr:
                self.builder.branch(self.blkmap[inst.truebr])
            else:
                chosen = self._cast(inst.cond.name, types.boolean)
                self.builder.cbranch(chosen, self.blkmap[inst.truebr], self.blkmap[inst.falsebr])
        elif isinstance(inst, numba_ir.Jump):
            self.builder.branch(self.blkmap[inst.target])
        elif isinstance(inst, numba_ir.Return) and self._direct:
            kind = self.fndesc.restype
            if kind == types.none:
                self.builder.ret_void()
            else:
                value = whole(self._cast(inst.value.name, kind))
                self.builder.ret(self.context.get_return_value(self.builder, kind, value))
        elif isinstance(inst, numba_ir.SetItem):
            self.lower_setitem(inst.target, inst.index, inst.value, self.fndesc.calltypes[inst])
        elif isinstance(inst, numba_ir.StaticSetItem) and isinstance(self.typeof(inst.target.name), types.Array):
            self.lower_setitem(inst.target, inst.index_var, inst.value, self.fndesc.calltypes[inst])
        else:
            super().lower_inst(inst)

    def lower_assign(self, ty: Any, inst: Any) -> Any:
        value = inst.value
        if isinstance(value, numba_ir.Var):
            return self._cast(value.name, ty)
        if isinstance(value, numba_ir.Arg):
            own = self.typeof("arg." + value.name)
            if own == ty:
                return self.fnargs[value.index]
            return self.context.cast(self.builder, whole(self.fnargs[value.index]), own, ty)
        if isinstance(value, (numba_ir.Global, numba_ir.FreeVar)) and isinstance(
            ty, (types.Dispatcher, types.Module, types.Function, types.NamedTupleClass)
        ):
            return self.context.get_dummy_value()
        return super().lower_assign(ty, inst)

    # expressions

    def lower_expr(self, resty: Any, expr: Any) -> Any:
        op = expr.op
        if op in ("getattr", "static_getitem"):
            found = self._part(resty, expr)
            if found is not None:
                return found
        elif op == "build_tuple":
            items = [self._cast(one.name, kind) for one, kind in zip(expr.items, resty, strict=True)]
            return _Items(self, resty, items)
        elif op in ("pair_first", "pair_second", "exhaust_iter", "getiter", "iternext"):
            value, kind = self._value(expr.value.name), self.typeof(expr.value.name)
            if op == "getiter" and isinstance(kind, types.RangeType) and not isinstance(value, _Range):
                value = _Range(self, kind, *(self.builder.extract_value(value, k) for k in range(3)))
            if isinstance(value, _Range):
                return self._begun(value) if op == "getiter" else self._next(resty, value)
            if isinstance(value, _Items) and op == "exhaust_iter":
                return value
            if isinstance(value, _Items) and op in ("pair_first", "pair_second"):
                return value.items[op == "pair_second"]
        return super().lower_expr(resty, expr)

    def _part(self, resty: Any, expr: Any) -> Any:
        """Return a member of a tuple, the shape or an element of an array, or None if it is something else."""
        kind: Any = self.typeof(expr.value.name)
        name = expr.value.name
        attribute = expr.op == "getattr"
        if isinstance(kind, types.BaseTuple):
            if attribute and not isinstance(kind, (types.NamedTuple, types.NamedUniTuple)):
                return None
            members: Any = kind
            k = members.fields.index(expr.attr) if attribute else expr.index
            if not isinstance(k, int):
                return None
            if by_reference(kind):
                value = member(self.context, self.builder, kind, self.loadvar(name), k)
            else:
                value = self._value(name)
                value = (
                    value.items[k] if isinstance(value, _Items) else self.builder.extract_value(value, k % len(kind))
                )
            if members.types[k] == resty:
                return value
            return self.context.cast(self.builder, whole(value), members.types[k], resty)
        if isinstance(kind, types.Array):
            if not attribute:
                return self.lower_getitem(resty, expr, expr.value, expr.index_var, self.fndesc.calltypes[expr])
            if expr.attr == "shape":
                view = self._view(name)
                self._natural.update(map(id, view.shape))
                return _Items(self, resty, view.shape)
        return None

    def _view(self, name: str) -> ArrayView:
        value = self._value(name)
        if not isinstance(value, ArrayView):
            value = ArrayView.of(self.context, self.builder, self.typeof(name), value)
        return value

    def _begun(self, value: _Range) -> _Range:
        """Return an iterator over a range."""
        begun = _Range(self, value.kind, value.start, value.stop, value.step)
        begun.at = cgutils.alloca_once(self.builder, value.start.type)
        self.builder.store(value.start, begun.at)
        return begun

    def _next(self, resty: Any, value: _Range) -> Any:
        """Return the integer at which an iterator stands, and whether it is within the range; move on."""
        builder, step = self.builder, value.step
        compare = builder.icmp_signed if value.kind.dtype.signed else builder.icmp_unsigned
        at = builder.load(value.at)
        if isinstance(step, ir.Constant):
            within = compare("<" if step.constant > 0 else ">", at, value.stop)
            if step.constant > 0 and self._not_negative(value.start):
                self._natural.add(id(at))
        else:
            up = compare(">", step, step.type(0))
            within = builder.select(up, compare("<", at, value.stop), compare(">", at, value.stop))
        builder.store(builder.add(at, step), value.at)
        return _Items(self, resty, [at, within])

    def _not_negative(self, value: Any) -> bool:
        return value.constant >= 0 if isinstance(value, ir.Constant) else id(value) in self._natural

    def lower_binop(self, resty: Any, expr: Any, op: Any) -> Any:
        signature = self.fndesc.calltypes[expr]
        kinds = signature.args
        numbers = all(isinstance(kind, _numbers) for kind in kinds)
        if not numbers or op in (operator.pow, operator.ipow):  # powers have code of their own for constants
            return super().lower_binop(resty, expr, op)
        a, b = (self._cast(one.name, kind) for one, kind in zip((expr.lhs, expr.rhs), kinds, strict=True))
        builder, result = self.builder, signature.return_type
        floats, integers = kinds == (types.float64,) * 2, kinds == (types.int64,) * 2
        if floats and op in _FLOATS and result == types.float64:
            value = getattr(builder, _FLOATS[op])(a, b)
        elif integers and op in _INTEGERS and result == types.int64:
            value = getattr(builder, _INTEGERS[op])(a, b, flags=["nsw"])
            if _INTEGERS[op] in _GROWING and self._not_negative(a) and self._not_negative(b):
                self._natural.add(id(value))
        elif floats and op in _COMPARISONS and result == types.boolean:
            compare = builder.fcmp_unordered if op is operator.ne else builder.fcmp_ordered
            value = compare(_COMPARISONS[op], a, b)
        elif integers and op in _COMPARISONS and result == types.boolean:
            value = builder.icmp_signed(_COMPARISONS[op], a, b)
        else:
            function = self.context.typing_context.resolve_value_type(op)
            found = signature_of(self.context.typing_context, function, kinds)
            value = self.context.get_function(function, found)(builder, [a, b])
        return value if result == resty else self.context.cast(builder, value, result, resty)

    def lower_getitem(self, resty: Any, expr: Any, value: Any, index: Any, signature: Any) -> Any:
        array, place = self.typeof(value.name), self._element(value, index)
        if place is None:
            return super().lower_getitem(resty, expr, value, index, signature)
        item = load_item(self.context, self.builder, array, place)
        return self.context.cast(self.builder, item, array.dtype, resty)

    def lower_setitem(self, target_var: Any, index_var: Any, value_var: Any, signature: Any) -> Any:
        array, kind = self.typeof(target_var.name), self.typeof(value_var.name)
        place = self._element(target_var, index_var) if isinstance(kind, _numbers) else None
        if place is None:
            return super().lower_setitem(target_var, index_var, value_var, signature)
        value = self.context.cast(self.builder, self.loadvar(value_var.name), kind, array.dtype)
        store_item(self.context, self.builder, array, value, place)
        return None

    def _element(self, array: Any, index: Any) -> Any:
        """Return the address of one element of an array, or None if it is no array or no element is meant.

        None, too, where indices are to be checked, which Numba's own code does.
        """
        kind: Any = self.typeof(array.name)
        what: Any = self.typeof(index.name)
        kinds = getattr(what, "types", (what,))
        plain = isinstance(kind, types.Array) and len(kinds) == kind.ndim > 0 and isinstance(kind.dtype, _numbers)
        if not (_DIRECT and plain and all(isinstance(one, types.Integer) for one in kinds)):
            return None
        value = self._value(index.name)
        if isinstance(value, _Items):
            values = value.items
        elif isinstance(what, types.BaseTuple):
            values = [self.builder.extract_value(value, k) for k in range(len(kinds))]
        else:
            values = [value]
        view = self._view(array.name)
        indices = []
        for k, (one, kind) in enumerate(zip(values, kinds, strict=True)):
            at = one if kind == types.intp else self.context.cast(self.builder, one, kind, types.intp)
            if not (self._not_negative(at) or self._not_negative(one) or not kind.signed):
                size = view.shape[k]
                at = self.builder.select(self.builder.icmp_signed("<", at, at.type(0)), self.builder.add(at, size), at)
            indices.append(at)
        return element(self.builder, view, indices)

    # calls

    def _lower_call_normal(self, fnty: Any, expr: Any, signature: Any) -> Any:
        kind, args, positional = signature.return_type, expr.args, not (expr.kws or expr.vararg)
        if isinstance(fnty, types.Dispatcher):
            linked = getattr(fnty.dispatcher, "linked", None)
            if _DIRECT and linked is not None and positional and len(args) == len(signature.args):
                compiled = linked.overloads[tuple(signature.args)]
                self.library.add_linking_library(compiled.library)
                values = [self._cast(one.name, own) for one, own in zip(args, signature.args, strict=True)]
                return _call(self.context, self.builder, compiled.fndesc, values)
        elif isinstance(fnty, types.NamedTupleClass):
            if positional:
                values = [self._cast(one.name, own) for one, own in zip(args, kind.types, strict=True)]
                if by_reference(kind):
                    return fill(self.context, self.builder, kind, values)
                return _Items(self, kind, values)
        elif isinstance(fnty, types.Function) and positional:
            if fnty.typing_key is range:
                values = [self._cast(one.name, own) for one, own in zip(args, signature.args, strict=True)]
                zero, one = (ir.Constant(self.context.get_value_type(kind.dtype), k) for k in (0, 1))
                start, stop, step = values if len(values) == 3 else [*([zero, *values][-2:]), one]
                return _Range(self, kind, start, stop, step)
            if fnty.typing_key is len and isinstance(signature.args[0], types.Array):
                size = self._view(args[0].name).shape[0]
                self._natural.add(id(size))
                return size
        return super()._lower_call_normal(fnty, expr, signature)
