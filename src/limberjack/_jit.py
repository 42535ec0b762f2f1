"""Kernels: how functions become machine code, and under which flags; `_cache.py` says where that code is kept.

`@kernel` compiles a function that Python calls, `@inner` and `@outlined` functions that only kernels call, inlined or
not. `entry` skips the type dispatch of a kernel, `call_address` calls a function known by its address from a kernel.

Flags, the same for all kernels:
- `error_model="numpy"`: no Python exceptions out of a division; kernels guard their divisors and return a status.
- `fastmath={"nsz"}`: the sign of zero may be dropped. `contract` (fused multiply-add) is left out: results would
  depend on whether the processor has FMA, and bit-equal states across machines are worth more than its gain.
  Nothing that reorders sums or assumes away NaN is ever allowed.
- `_nrt=False`: no reference counts. Kernels never allocate, and the caller keeps their arrays alive; counting each
  field of a tuple at each call cost a microsecond per step.

Numba's public interface does not reach far enough in eight respects. Each is a seam into its private parts, and
`NUMBA_RANGE` names the versions they are tested with. Elsewhere the package uses Numba's decorators and its extension
interface (`spatial/lanes.py`, `spatial/clock.py`, `constraints/jets.py`).

- Cache (`_cache.py`): Numba's looks at the file of the decorated function only.
- Code of functions that only kernels call (`_Part`): an inlined one is kept as LLVM code and compiled with its callers;
  an outlined one is compiled once, and its callers call that machine code. Numba would emit machine code for each alone
  and link, optimise, verify and store the code of its callees again in every caller.
- LLVM's work (`_Library`): Numba has it optimise each function, and the whole twice, at the highest level.
- Few passes (`_PASSES`): most of Numba's serve what kernels do not have.
- Slim lowering (`_lower.py`): Numba gives variables places in memory, passes arrays whole and tests a status after each
  call; a tuple of arrays it copies wherever it is passed; here it is passed by reference (`_tuples.py`).
- Shared flags (`_SharedFlags`): Numba copies the flags of a kernel and compares them value by value at each lookup of
  one of its own functions.
- Entry point (`entry`): dispatch over tuples of arrays costs about as much as 40 joints of work.
- Call by address (`call_address`): a new registered constraint must not recompile the kernels that evaluate it.
"""

from __future__ import annotations

import gc
import hashlib
import importlib
import operator
import pickle
import re
import zlib
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from types import BuiltinFunctionType
from typing import Any

import numba

# First version supported and first one that is not; the same as in pyproject.toml. Before 0.62 Numba cannot unify
# members of an IntEnum with integers, as kernels that return a status need.
NUMBA_RANGE = ((0, 62), (0, 69))


def require_numba(version: str) -> None:
    """Raise `UnsupportedVersion` unless Numba's `version` is in the range that this module is tested with."""
    low, high = NUMBA_RANGE
    if not low <= tuple(int(part) for part in re.findall(r"\d+", version)[:2]) < high:
        # Imported by name: an import line would make the errors part of every cache key.
        raise importlib.import_module("limberjack.errors").UnsupportedVersion(
            "numba", version, f">={low[0]}.{low[1]},<{high[0]}.{high[1]}"
        )


# Before the private parts: in another version they may be missing, and that error would say nothing.
require_numba(numba.__version__)

import llvmlite.binding as llvm
from llvmlite import ir
from numba import extending
from numba.core import ir as numba_ir
from numba.core import types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, Flags
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.consts import ConstantInference
from numba.core.errors import (
    ConstantInferenceError,
    NumbaWarning,
    TypingError,
    WarningsFixer,  # pyright: ignore[reportAttributeAccessIssue]
)
from numba.core.interpreter import Interpreter
from numba.core.ir_utils import build_definitions
from numba.core.lowering import Lower as PlainLower
from numba.core.registry import cpu_target
from numba.core.rewrites import rewrite_registry
from numba.core.ssa import reconstruct_ssa
from numba.core.transforms import canonicalize_cfg
from numba.core.typed_passes import (
    BaseNativeLowering,
    NoPythonBackend,
    NopythonTypeInference,
)
from numba.core.typeinfer import SetItemConstraint, TypeInferer
from numba.core.untyped_passes import (
    DeadBranchPrune,
    FixupArgs,
    GenericRewrites,
    IRProcessing,
    ReconstructSSA,
    RewriteSemanticConstants,
    TranslateByteCode,
)

from limberjack._cache import CacheImpl, KernelCache, atomic_file, cache_folder, read_file, release_lock
from limberjack._lower import Lower, call_directly, signature_of

__all__ = ["NUMBA_RANGE", "call_address", "entry", "inner", "kernel", "outlined", "require_numba"]

# While kernels compile, garbage is collected after so many new objects: some tens of megabytes.
_RARELY = 200_000
# From so many bytes of LLVM code on, a function that stays one is compiled once for all callers; smaller ones LLVM may
# still inline.
_LARGE = 6_000
_njit: Any = numba.njit  # takes more options than its annotations say
_FLAGS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": {"nsz"}, "_nrt": False}


def kernel(function: Callable) -> Any:
    """Return `function` as a compiled kernel: without the GIL, cached on disk, under the flags of this module."""
    dispatcher: Any = _njit(**_FLAGS, forceinline=False, no_cfunc_wrapper=True, pipeline_class=_KernelCompiler)(
        function
    )
    dispatcher._cache = _KernelCache(function)
    # For kernels that call it, it is a function to be linked; only what Python calls becomes machine code of its own.
    linked = outlined(function)
    dispatcher.get_call_template, dispatcher.get_overload = linked.get_call_template, linked.get_overload
    dispatcher.linked = linked
    return dispatcher


def inner(function: Callable) -> Any:
    """Return `function` as a kernel that only kernels call: inlined, without code that boxes results for Python."""
    return _link_only(function, inlined=True)


def outlined(function: Callable) -> Any:
    """Return `function` as a kernel that only kernels call and that stays a function: for large and rare work."""
    return _link_only(function, inlined=False)


def _link_only(function: Callable, inlined: bool) -> Any:
    dispatcher: Any = _njit(
        **_FLAGS,
        forceinline=inlined,
        no_cpython_wrapper=True,
        no_cfunc_wrapper=True,
        pipeline_class=_InlinedCompiler if inlined else _OutlinedCompiler,
    )(function)
    dispatcher._cache = _LinkOnlyCache(function)
    dispatcher.linked, add = dispatcher, dispatcher.add_overload

    def add_overload(compiled: Any) -> None:
        call_directly(dispatcher.targetctx, compiled)
        add(compiled)

    dispatcher.add_overload = add_overload
    return dispatcher


def entry(dispatcher: Any) -> Any:
    """Return the machine code of a kernel compiled for exactly one signature, callable without type dispatch.

    Nothing checks the types of its arguments: the caller must pass those of the signature.
    """
    (compiled,) = dispatcher.overloads.values()
    return compiled.entry_point


class _SharedFlags(Flags):
    """Flags whose copies, which are on Numba's stack while a kernel compiles, are one object for all kernels.

    Numba caches what it compiles of its own functions under these flags, and lets callees inherit some.
    """

    def copy(self) -> Flags:
        return _shared_flags()

    def __hash__(self) -> int:
        return 0  # Numba's hashes all values, at each lookup


@cache
def _shared_flags() -> Flags:
    flags: Any = Flags()
    cpu_target.options.parse_as_flags(flags, {**_FLAGS, "nopython": True, "forceinline": False})
    return _SharedFlags(flags)


class _SetItem(SetItemConstraint):
    """Types a store to an array; Numba looks for its signature anew each time, static indices or not."""

    def __call__(self, typeinfer: Any) -> None:
        parts = [typeinfer.typevars[one.name] for one in (self.target, self.index, self.value)]
        if all(one.defined for one in parts):
            args = tuple(one.getone() for one in parts)
            if isinstance(args[0], types.Array) and args[0].is_precise():
                self.signature = signature_of(typeinfer.context, _type_of(typeinfer.context, operator.setitem), args)
            else:
                super().__call__(typeinfer)


class _Inferer(TypeInferer):
    """Infers types, those of Numba's functions once for all kernels, and only of what has new types to go by."""

    def resolve_call(self, fnty: Any, pos_args: tuple, kw_args: dict) -> Any:
        fnty = _type_of(self.context, fnty) or fnty  # operators come as themselves
        if kw_args or not isinstance(fnty, types.Function):
            return super().resolve_call(fnty, pos_args, kw_args)
        return signature_of(self.context, fnty, pos_args)

    def resolve_value_type(self, inst: Any, val: Any) -> Any:
        # Numba words an error before it looks there
        return _type_of(self.context, val) or super().resolve_value_type(inst, val)

    def typeof_setitem(self, inst: Any) -> None:
        self._store(inst, inst.index)

    def typeof_static_setitem(self, inst: Any) -> None:
        if inst.index_var is None:
            super().typeof_static_setitem(inst)
        else:
            self._store(inst, inst.index_var)

    def _store(self, inst: Any, index: Any) -> None:
        constraint = _SetItem(target=inst.target, index=index, value=inst.value, loc=inst.loc)
        self.constraints.append(constraint)
        self.calls.append((inst, constraint))

    def propagate(self, raise_errors: bool = True) -> Any:
        known: dict[Any, Any] = {}
        todo = [(constraint, _variables(constraint)) for constraint in self.constraints.constraints]
        failed, before = False, None
        while before != (before := [one.type for one in self.typevars.values()]):
            failed = False
            for constraint, names in todo:
                if constraint not in known or known[constraint] != self._types(names):
                    try:
                        constraint(self)
                        known[constraint] = self._types(names)
                    except TypingError:
                        failed = True
        # to be raised as Numba words it
        return super().propagate(raise_errors) if failed else None

    def _types(self, names: list[str]) -> list[Any]:
        return [self.typevars[name].type if name in self.typevars else None for name in names]


def _type_of(context: Any, function: Any) -> Any:
    """Return the type that Numba knows one of Python's own functions by, None of anything else."""
    return context._lookup_global(function) if isinstance(function, BuiltinFunctionType) else None


# Types that have been met: Numba would forget them after each function and make them anew.
_kept: dict[int, Any] = {}


def _variables(constraint: Any) -> list[str]:
    """Return the names of all variables that a constraint of types speaks of."""
    todo, found = list(vars(constraint).values()), []
    while todo:
        one = todo.pop()
        if isinstance(one, str):
            found.append(one)
        elif isinstance(one, numba_ir.Var):
            found.append(one.name)
        elif isinstance(one, (list, tuple)):
            todo.extend(one)
        elif isinstance(one, dict):
            todo.extend(one.values())
    return found


class _Interpreter(Interpreter):
    """Reads byte code; Numba also looks for what becomes of lists, dictionaries and `with`."""

    def post_process(self, peepholes: Any, func_ir: Any) -> Any:
        return func_ir


@register_pass(mutates_CFG=True, analysis_only=False)
class _Translation(TranslateByteCode):
    """The pass that reads byte code by `_Interpreter`."""

    _name = "limberjack_translation"

    def run_pass(self, state: Any) -> bool:
        state.func_ir = _Interpreter(state.func_id).interpret(state.bc)
        return True


@register_pass(mutates_CFG=True, analysis_only=False)
class _Blocks(IRProcessing):
    """The pass that joins blocks; Numba's also finds out where variables live, which is done again before lowering."""

    _name = "limberjack_blocks"

    def run_pass(self, state: Any) -> bool:
        state.func_ir.blocks = canonicalize_cfg(state.func_ir.blocks)
        return True


_NOT_CONSTANT = ConstantInferenceError("not constant")


class _Constants(ConstantInference):
    """Finds indices that are constant; of those that are not, Numba would print the lines of source each time."""

    def infer_constant(self, name: Any, loc: Any = None) -> Any:
        if name not in self._cache:
            try:
                self._cache[name] = True, self._do_infer(name)
            except (ConstantInferenceError, KeyError):
                self._cache[name] = False, None
        known, value = self._cache[name]
        if not known:
            raise _NOT_CONSTANT.with_traceback(None)
        return value

    def _do_infer(self, name: str) -> Any:
        definition = self._func_ir.get_definition(name)
        if isinstance(definition, numba_ir.Expr):
            return self._infer_expr(definition)
        return definition.infer_constant()

    def _fail(self, val: Any) -> Any:
        raise _NOT_CONSTANT.with_traceback(None)


@register_pass(mutates_CFG=False, analysis_only=False)
class _Rewrites(GenericRewrites):
    """The pass that rewrites constant indices of tuples and constant powers, and no more."""

    _name = "limberjack_rewrites"

    def run_pass(self, state: Any) -> bool:
        code = state.func_ir
        code._consts = _Constants(code)
        for kind in rewrite_registry.rewrites["before-inference"]:
            rewrite, todo = kind(state), list(code.blocks)
            while todo:
                if rewrite.match(code, code.blocks[todo[-1]], state.typemap, state.calltypes):
                    code.blocks[todo[-1]] = rewrite.apply()
                else:
                    todo.pop()
        return True


@register_pass(mutates_CFG=False, analysis_only=False)
class _SingleAssignment(ReconstructSSA):
    """The pass that gives each assignment a variable of its own, and no more."""

    _name = "limberjack_assignments"

    def run_pass(self, state: Any) -> bool:
        state.func_ir = reconstruct_ssa(state.func_ir)
        state.func_ir._definitions = build_definitions(state.func_ir.blocks)
        return True


@register_pass(mutates_CFG=True, analysis_only=False)
class _TypeInference(NopythonTypeInference):
    """The pass that infers types by `_Inferer`."""

    _name = "limberjack_types"

    def run_pass(self, state: Any) -> bool:
        warnings = WarningsFixer(NumbaWarning)
        infer = _Inferer(state.typingctx, state.func_ir, warnings)
        calling = state.typingctx.callstack.register(state.targetctx.target, infer, state.func_ir.func_id, state.args)
        with calling, warnings:
            for k, (name, kind) in enumerate(zip(state.func_ir.arg_names, state.args, strict=True)):
                infer.seed_argument(name, k, kind)
            infer.build_constraint()
            infer.propagate()
            state.typemap, state.return_type, state.calltypes = infer.unify()
        _kept.update((id(kind), kind) for kind in state.typemap.values())
        return False


@register_pass(mutates_CFG=True, analysis_only=False)
class _SlimLowering(BaseNativeLowering):
    """The pass that lowers a kernel by `Lower`."""

    _name = "limberjack_lowering"

    @property
    def lowering_class(self) -> type[PlainLower]:
        return Lower


class _Passes(PassManager):
    """Runs passes as they are; Numba's also reports each, and analyses what a later pass analyses again."""

    def _runPass(self, index: int, pss: Any, internal_state: Any) -> None:
        pss.analysis = self._analysis
        pss.run_pass(internal_state)


class _Compiler(Compiler):
    """Compiles a function under the shared flags, by those of Numba's passes that a kernel can need."""

    _library: type[JITCodeLibrary]

    def __init__(
        self, typingctx: Any, targetctx: Any, library: Any, args: Any, return_type: Any, flags: Any, locals: Any
    ) -> None:
        super().__init__(typingctx, targetctx, library, args, return_type, _SharedFlags(flags), locals)

    def _compile_core(self) -> Any:
        if self.state.library is None:
            self.state.library = self._library(self.state.targetctx.codegen(), self.state.func_id.func_qualname)
            self.state.library.enable_object_caching()
        # Objects of the compiler live until it ends: collecting garbage among them took a seventh of the time.
        thresholds = gc.get_threshold()
        gc.set_threshold(max(thresholds[0], _RARELY) if thresholds[0] else 0, *thresholds[1:])
        try:
            return super()._compile_core()
        except BaseException:
            release_lock(self.state.func_id.func)
            raise
        finally:
            gc.set_threshold(*thresholds)

    def define_pipelines(self) -> list:
        passes = _Passes("limberjack")
        absent = any(isinstance(kind, types.NoneType) for kind in self.state.args)
        decided = absent or "ndim" in self.state.func_id.code.co_names
        for one in _PASSES:
            if decided or one not in _PRUNING:
                passes.add_pass(one, one.__name__)
        passes.finalize()
        return [passes]


# Not among them: what serves closures, comprehensions, `with`, `raise`, array expressions, literal arguments, functions
# inlined by Numba and listings of types. Kernels have none of these (`tools/kernel_lint.py`). Nor what finds out where
# variables live: without reference counts nothing is done where one ends.
_PASSES = (
    _Translation,
    FixupArgs,
    _Blocks,
    RewriteSemanticConstants,
    DeadBranchPrune,
    _Rewrites,
    _SingleAssignment,
    _TypeInference,
    _SlimLowering,
    NoPythonBackend,
)
# Branches on an argument that may be None, or on the dimensions of an array, are decided before types are inferred.
_PRUNING = (RewriteSemanticConstants, DeadBranchPrune)


# -- code ------------------------------------------------------------------------------------------


class _Part:
    """The code of one function, without that of its callees, which are parts of their own.

    Args:
        contents: an LLVM module, whose functions may be linked several times into one program, or machine code.
        callees: the parts that it calls; of machine code those that are machine code, too.
    """

    def __init__(self, contents: Any, callees: Iterable[_Part]) -> None:
        self.contents, self.callees = contents, tuple(dict.fromkeys(callees))
        self.file = ""  # in the folder of the cache, once it is there

    @property
    def compiled(self) -> bool:
        """Whether it is machine code."""
        return isinstance(self.contents, bytes)

    def save(self, folder: Path) -> str:
        """Write this part and its callees into a cache folder, unless they are in one; return the name of its file."""
        if not self.file:
            # Code of Numba's own functions goes where no edit removes it.
            callees = [callee.save(cache_folder() / f"numba-{numba.__version__}") for callee in self.callees]
            code = self.contents if self.compiled else self.contents.as_bitcode()
            contents = pickle.dumps((self.compiled, zlib.compress(code, 1), callees))
            folder.mkdir(mode=0o700, exist_ok=True)
            path = folder / f"{hashlib.sha256(contents).hexdigest()[:32]}.part"
            if not path.exists():
                atomic_file(path, contents)
            self.file = f"{folder.name}/{path.name}"
        return self.file

    @staticmethod
    @cache
    def load(file: str) -> _Part:
        """Return a part from the cache."""
        compiled, packed, callees = pickle.loads(read_file(file))
        code = zlib.decompress(packed)
        part = _Part(code if compiled else llvm.parse_bitcode(code), map(_Part.load, callees))
        part.file = file
        return part


def _part_of(library: Any) -> _Part:
    """Return the code of a library: of Numba's own functions, everything in one part."""
    if not hasattr(library, "part"):
        library.part = _Part(library._get_module_for_linking(), ())
    return library.part


def _reached(parts: Iterable[_Part]) -> list[_Part]:
    """Return parts and all that they call, each once, callers first: LLVM leaves out what nothing refers to yet."""
    done: dict[_Part, None] = {}
    todo: list[tuple[_Part, bool]] = [(part, False) for part in parts]
    while todo:
        part, left = todo.pop()
        if left:
            done[part] = None
        elif part not in done:
            todo.append((part, True))
            todo.extend((callee, False) for callee in part.callees)
    return list(reversed(done))


def _link(module: Any, parts: Iterable[_Part]) -> list[_Part]:
    """Link into `module` what its callees are in LLVM code; return the machine code that the whole calls."""
    code = []
    for part in _reached(parts):
        if part.compiled:
            code.append(part)
        else:
            module.link_in(part.contents, preserve=True)
    return code


# Machine code of parts that is in memory, by hash: what two processes have compiled may be the same.
_in_memory: set[bytes] = set()


def _load_code(codegen: Any, parts: Iterable[_Part]) -> None:
    """Load machine code into memory, where the engine finds it by the names of its functions."""
    for part in _reached(parts):
        digest = hashlib.sha256(part.contents).digest()
        if digest not in _in_memory:
            _in_memory.add(digest)
            codegen._engine._ee.add_object_file(llvm.ObjectFileRef.from_data(part.contents))


def _take_reloads(library: Any, callees: Iterable[Any]) -> None:
    """Take over what is to be initialised when code of callees is loaded again; Numba 0.62 knows no such thing."""
    if hasattr(library, "_reload_init"):
        for callee in callees:
            library._reload_init.update(callee._reload_init)


def _pass_builder(codegen: Any) -> Any:
    """Return what makes LLVM's passes for all code of kernels.

    Level 1 with vectorised loops: above it LLVM takes as long again, most of it in search of redundant loads, and no
    step became faster; kernels keep in locals what they use twice.
    """
    return codegen._pass_builder(opt=1, loop_vectorize=True, slp_vectorize=False)


@cache
def _machine(codegen: Any) -> Any:
    """Return what turns outlined functions into machine code; above level 1 it takes a fourth longer, for the same."""
    options: dict[str, Any] = {"opt": 1}
    codegen._customize_tm_options(options)
    return llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(**options)


class _Library(JITCodeLibrary):
    """The code of a function of the package, by the passes above; Numba's look for reference counts, too."""

    only_linked = True  # or called by Python

    def _optimize_functions(self, ll_module: Any) -> None:
        """Leave that to the optimisation of what is linked."""
        ll_module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        """Optimise what is linked, once."""
        builder = _pass_builder(self._codegen)
        builder.getModulePassManager().run(self._final_module, builder)


class _KernelLibrary(_Library):
    """The code of a kernel: what it calls is linked into it once or called; what is kept is the machine code."""

    only_linked = False
    code: list[_Part]

    def finalize(self) -> None:
        """Link, optimise and compile."""
        libraries = dict.fromkeys(self._linking_libraries)
        _take_reloads(self, libraries)
        self.code = _link(self._final_module, map(_part_of, libraries))
        _load_code(self._codegen, self.code)
        self._linking_libraries = []
        super().finalize()

    def serialize_using_object_code(self) -> tuple:
        """Return the machine code, the names it defines, and the files of the parts that it calls."""
        module = self._final_module
        names = [one.name for kind in (module.functions, module.global_variables) for one in kind]
        defined = [name for name in names if self._codegen._engine.is_symbol_defined(name)]
        files = [part.file for part in self.code]
        return self.name, "object", (zlib.compress(self._get_compiled_object(), 1), defined, files)

    @classmethod
    def _unserialize(cls, codegen: Any, state: tuple) -> _KernelLibrary:
        name, _, (code, defined, files) = state
        library = cls(codegen, name)
        library.enable_object_caching()
        library._set_compiled_object(zlib.decompress(code))
        library.code = [_Part.load(file) for file in files]
        _load_code(codegen, library.code)
        library._finalize_final_module()
        codegen._engine._defined_symbols.update(defined)
        return library


class _UnlinkedCodegen:
    """The code generator of code without an address yet, where no environment can be set."""

    def __init__(self, codegen: Any) -> None:
        self._codegen = codegen

    def __getattr__(self, name: str) -> Any:
        return getattr(self._codegen, name)

    def set_env(self, name: str, environment: Any) -> None:
        pass


class _InlinedLibrary(_Library):
    """The code of a function that only kernels call: a part, optimised and compiled with those it is linked into."""

    part: _Part
    _inlined = True

    @property
    def codegen(self) -> Any:
        return _UnlinkedCodegen(self._codegen)

    def _optimize_functions(self, ll_module: Any) -> None:
        """Shorten functions before they are linked into others."""
        super()._optimize_functions(ll_module)
        if self._inlined:
            builder = _pass_builder(self._codegen)
            passes = builder.getFunctionPassManager()
            for function in ll_module.functions:
                if not function.is_declaration:
                    passes.run(function, builder)

    def finalize(self) -> None:
        """Make a part of it."""
        self._raise_if_finalized()
        libraries = dict.fromkeys(self._linking_libraries)
        self._finalize_dynamic_globals()
        _take_reloads(self, libraries)
        for library in libraries:
            self._dynamic_globals += library._dynamic_globals
        self.part = self._made(map(_part_of, libraries))
        self._finalized = True

    def _made(self, callees: Iterable[_Part]) -> _Part:
        self._repeatable()
        return _Part(self._final_module, callees)

    def _repeatable(self) -> None:
        """Let its code be linked several times into one program."""
        for function in self._final_module.functions:
            if not function.is_declaration and function.linkage == llvm.Linkage.external:
                function.linkage = "linkonce_odr"

    def _get_module_for_linking(self) -> Any:
        """Return its code with that of its callees, for functions that are no kernels."""
        self._ensure_finalized()
        if self._shared_module is None:
            if self.part.compiled:
                self._shared_module, linked = type(self)(self._codegen, self.name)._final_module, [self.part]
            else:  # linked into an empty module it would be left out: nothing there refers to it
                self._shared_module, linked = self.part.contents.clone(), self.part.callees
            _load_code(self._codegen, _link(self._shared_module, linked))
        return self._shared_module

    def get_pointer_to_function(self, name: str) -> int:
        return 0

    def serialize_using_object_code(self) -> tuple:
        """Return its name and that of its part in the cache."""
        return self.name, "part", self.part.file

    @classmethod
    def _unserialize(cls, codegen: Any, state: tuple) -> _InlinedLibrary:
        name, _, file = state
        library = cls(codegen, name)
        library.part = _Part.load(file)
        library._finalized = True
        return library


class _OutlinedLibrary(_InlinedLibrary):
    """The code of a function that stays one: compiled once for all its callers, unless LLVM might inline it."""

    _inlined = False

    def _made(self, callees: Iterable[_Part]) -> _Part:
        code = _link(self._final_module, callees)
        self._optimize_final_module()
        self._final_module.verify()
        if len(self._final_module.as_bitcode()) > _LARGE:
            return _Part(_machine(self._codegen).emit_object(self._final_module), code)
        self._repeatable()
        return _Part(self._final_module, code)


class _KernelCompiler(_Compiler):
    """Compiles a kernel."""

    _library = _KernelLibrary


class _InlinedCompiler(_Compiler):
    """Compiles a function that becomes part of the kernels that call it."""

    _library = _InlinedLibrary


class _OutlinedCompiler(_Compiler):
    """Compiles a function that stays one."""

    _library = _OutlinedLibrary


class _LibraryContext:
    """A target context that reads libraries back as one of the classes above."""

    def __init__(self, context: Any, library: Any) -> None:
        self._context, self._library = context, library

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def codegen(self) -> Any:
        return self

    def unserialize_library(self, state: tuple) -> Any:
        return self._library._unserialize(self._context.codegen(), state)


class _KernelCacheImpl(CacheImpl):
    """Stores kernels as machine code."""

    _library: Any = _KernelLibrary

    def reduce(self, cres: Any) -> tuple:
        for part in cres.library.code:
            part.save(Path(self.locator.get_cache_path()))
        return super().reduce(cres)

    def rebuild(self, target_context: Any, payload: tuple) -> Any:
        compiled = super().rebuild(_LibraryContext(target_context, self._library), payload)
        return compiled._replace(target_context=target_context, typing_context=target_context.typing_context)


class _LinkOnlyCacheImpl(_KernelCacheImpl):
    """Stores functions that only kernels call as parts."""

    _library = _InlinedLibrary

    def get_filename_base(self, fullname: str, abiflags: str) -> str:
        return super().get_filename_base(fullname, abiflags) + ".linked"

    def reduce(self, cres: Any) -> tuple:
        cres.library.part.save(Path(self.locator.get_cache_path()))
        return CacheImpl.reduce(self, cres)


class _KernelCache(KernelCache):
    """The cache of a kernel."""

    _impl_class = _KernelCacheImpl


class _LinkOnlyCache(KernelCache):
    """The cache of a function that only kernels call."""

    _impl_class = _LinkOnlyCacheImpl


def _call(typing: Any, address: Any, time: Any, state: Any, k: Any, data: Any, first: Any, count: Any) -> Any:
    """Call the compiled function at `address` with row k of `state` and `count` numbers from row `first` of `data`."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        double, whole = ir.DoubleType(), ir.IntType(64)
        kind = ir.FunctionType(ir.VoidType(), [double, double.as_pointer(), double.as_pointer(), whole])
        function = builder.inttoptr(args[0], kind.as_pointer())
        rows = []
        for array, row in ((2, 3), (4, 5)):
            struct = context.make_array(signature.args[array])(context, builder, args[array])
            stride = builder.extract_value(struct.strides, 0)
            start = builder.add(builder.ptrtoint(struct.data, whole), builder.mul(args[row], stride))
            rows.append(builder.inttoptr(start, double.as_pointer()))
        builder.call(function, [args[1], *rows, args[6]])
        return context.get_dummy_value()

    kinds = (types.int64, types.float64, state, types.int64, data, types.int64, types.int64)
    return types.void(*kinds), code


# Annotated as anything: callers leave the first argument out.
call_address: Any = extending.intrinsic(_call)
