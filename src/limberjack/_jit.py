"""Kernels: how functions become machine code, under which flags, and where that code is cached.

`@kernel` compiles a function that Python calls, `@inner` and `@outlined` functions that only kernels call, inlined or
not. `entry` skips the type dispatch of a kernel, `call_address` calls a function known by its address from a kernel.

Flags, the same for all kernels:
- `error_model="numpy"`: no Python exceptions out of a division; kernels guard their divisors and return a status.
- `fastmath={"nsz"}`: the sign of zero may be dropped. `contract` (fused multiply-add) is left out: results would
  depend on whether the processor has FMA, and bit-equal states across machines are worth more than its gain.
  Nothing that reorders sums or assumes away NaN is ever allowed.
- `_nrt=False`: no reference counts. Kernels never allocate, and the caller keeps their arrays alive; counting each
  field of a tuple at each call cost a microsecond per step.

Numba's public interface does not reach far enough in six respects. Each is a seam into its private parts, and
`NUMBA_RANGE` names the versions they are tested with. Elsewhere the package uses Numba's decorators and its extension
interface (`spatial/lanes.py`, `spatial/clock.py`, `constraints/jets.py`).

- Source cache (`_Cache`, `_Locator`): Numba's disk cache looks at the file of the decorated function only; after an
  edit in a callee of another file the caller would return the old result. Here a hash of all sources names the folder.
- Link-only code (`_LinkOnlyLibrary`): a function that only kernels call is linked into those and compiled with them;
  Numba would also optimise it and emit machine code for it alone.
- Slim lowering (`_Lower`): Numba loads and clears a variable's old value for reference counts, which kernels do not
  have, and copies a tuple of arrays wherever it is passed; here it is passed by reference (`_tuples.py`).
- Shared flags (`_SharedFlags`): Numba copies the flags of a kernel and compares them value by value at each lookup of
  one of its own functions.
- Entry point (`entry`): dispatch over tuples of arrays costs about as much as 40 joints of work.
- Call by address (`call_address`): a new registered constraint must not recompile the kernels that evaluate it.
"""

from __future__ import annotations

import gc
import hashlib
import importlib
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
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
from numba.core import types
from numba.core.caching import (  # pyright: ignore[reportPrivateImportUsage]
    CompileResultCacheImpl,
    FunctionCache,
    IndexDataCacheFile,
    _CacheLocator,
)
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, Flags
from numba.core.compiler_machinery import register_pass
from numba.core.lowering import Lower
from numba.core.registry import cpu_target
from numba.core.typed_passes import BaseNativeLowering, NativeLowering

from limberjack._tuples import by_reference, fill, member

__all__ = ["NUMBA_RANGE", "cache_folder", "call_address", "entry", "inner", "kernel", "outlined", "require_numba"]

_PACKAGE = Path(__file__).parent
_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+limberjack([\w.]*)[ \t]+import[ \t]+(\([^)]*\)|[^\n]*)|import[ \t]+limberjack([\w.]*))", re.M
)
_FOLDERS_PER_MODULE = 4
# While kernels compile, garbage is collected after so many new objects: some tens of megabytes.
_RARELY = 200_000
_njit: Any = numba.njit  # takes more options than its annotations say
_FLAGS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": {"nsz"}, "_nrt": False}


def kernel(function: Callable) -> Any:
    """Return `function` as a compiled kernel: without the GIL, cached on disk, under the flags of this module."""
    dispatcher: Any = _njit(**_FLAGS, forceinline=False, no_cfunc_wrapper=True, pipeline_class=_Compiler)(function)
    dispatcher._cache = _Cache(function)
    return dispatcher


def inner(function: Callable) -> Any:
    """Return `function` as a kernel that only kernels call: inlined, without code that boxes results for Python."""
    return _link_only(function, inlined=True)


def outlined(function: Callable) -> Any:
    """Return `function` as a kernel that only kernels call and that stays a function: for large and rare work."""
    return _link_only(function, inlined=False)


def _link_only(function: Callable, inlined: bool) -> Any:
    dispatcher: Any = _njit(
        **_FLAGS, forceinline=inlined, no_cpython_wrapper=True, no_cfunc_wrapper=True, pipeline_class=_LinkOnlyCompiler
    )(function)
    dispatcher._cache = _LinkOnlyCache(function)
    return dispatcher


def entry(dispatcher: Any) -> Any:
    """Return the machine code of a kernel compiled for exactly one signature, callable without type dispatch.

    Nothing checks the types of its arguments: the caller must pass those of the signature.
    """
    (compiled,) = dispatcher.overloads.values()
    return compiled.entry_point


@cache
def cache_folder() -> Path:
    """Return the folder of compiled kernels: in the user's cache, or a private temporary one."""
    chosen = os.environ.get("LIMBERJACK_CACHE_DIR")
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    base = Path(chosen) if chosen else home / "limberjack" / "kernels"
    if _usable(base):
        return base
    user = os.getuid() if hasattr(os, "getuid") else "user"
    folder = Path(tempfile.gettempdir()) / f"limberjack-{user}"
    return folder if _usable(folder) else Path(tempfile.mkdtemp(prefix="limberjack-"))


def _usable(folder: Path) -> bool:
    """Return whether `folder` can be made and written, and belongs to this user alone (code is loaded from it)."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if hasattr(os, "getuid"):
            info = folder.stat()
            if info.st_uid != os.getuid() or info.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                return False
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


@cache
def _modules() -> dict[str, Path]:
    """Return the file of every module of the package, by dotted name after `limberjack`."""
    found = {}
    for path in _PACKAGE.rglob("*.py"):
        parts = path.relative_to(_PACKAGE).with_suffix("").parts
        found["".join(f".{part}" for part in parts if part != "__init__")] = path
    return found


@cache
def _source(path: Path) -> tuple[bytes, tuple[Path, ...]]:
    """Return the hash of a file and the files of the package that its import lines name."""
    text, named = path.read_bytes(), set()
    for module, names, plain in _IMPORT.findall(text.decode()):
        # The package's `__init__` names everything, lazily: only the names imported from it count.
        named.update(
            [f"{module}.{name}" for name in re.findall(r"\w+", names)], [module or plain] if module or plain else []
        )
    files = _modules()
    return hashlib.sha256(text).digest(), tuple(files[name] for name in sorted(named) if name in files)


@cache
def _source_key(path: Path) -> str:
    """Return the hash of a file, of all it imports from the package, and of the settings that change the code made."""
    reached, found = [path], {path}
    for file in reached:
        new = [other for other in _source(file)[1] if other not in found]
        found.update(new)
        reached.extend(new)
    config: Any = numba.config
    digest = hashlib.sha256(f"{numba.__version__} {config.BOUNDSCHECK}".encode())
    for name, contents in sorted((file.name, _source(file)[0]) for file in reached):
        digest.update(name.encode() + contents)
    return digest.hexdigest()[:20]


@cache
def _module_folder(module: str, path: Path) -> Path:
    """Return the folder of one module's kernels, named by the hash of their sources.

    An edit gives new folders to the file and to all that import it, near or far, and leaves the rest compiled.
    """
    folder = cache_folder() / f"{module}-{_source_key(path)}"
    if not folder.is_dir():
        folder.mkdir(mode=0o700, exist_ok=True)
        _remove_old(cache_folder(), folder)
    return folder


def _remove_old(base: Path, current: Path) -> None:
    """Remove all but the newest few cache folders of the same module as `current`."""
    module = current.name.rpartition("-")[0]
    folders = [entry for entry in base.glob(f"{module}-*") if entry.is_dir() and entry != current]
    folders.sort(key=lambda entry: entry.stat().st_mtime, reverse=True)
    for old in folders[_FOLDERS_PER_MODULE - 1 :]:
        shutil.rmtree(old, ignore_errors=True)


class _Locator(_CacheLocator):
    """Puts each function's cache files into the folder of its module, named by function and line."""

    def __init__(self, py_func: Callable) -> None:
        self._module, self._py_file = py_func.__module__, py_func.__code__.co_filename  # Numba's warnings name the file
        self._file = Path(self._py_file)
        self._line = str(py_func.__code__.co_firstlineno)

    def get_cache_path(self) -> str:
        return str(_module_folder(self._module, self._file))

    def get_source_stamp(self) -> str:
        return _source_key(self._file)

    def get_disambiguator(self) -> str:
        return self._line

    @classmethod
    def from_function(cls, py_func: Callable, py_file: str) -> _Locator:
        return cls(py_func)


class _CacheImpl(CompileResultCacheImpl):
    _locator_classes = [_Locator]


class _Index(IndexDataCacheFile):
    """The index of a function's cache; unreadable counts as empty: a caller's types may be gone."""

    def _load_index(self) -> dict:
        try:
            return super()._load_index()
        except (ImportError, AttributeError):
            return {}


def _layouts(kinds: Any) -> tuple:
    """Return the fields of all named tuples among types, in their order, also of those inside others."""
    return tuple(
        (kind.instance_class.__name__, kind.fields, _layouts(kind.types))
        for kind in kinds
        if isinstance(kind, (types.NamedTuple, types.NamedUniTuple))
    )


class _Cache(FunctionCache):
    """A function's cache, whose keys include the fields of the tuples it takes.

    A function reads fields by their index, and need not import the file that defines the tuple.
    """

    _impl_class: type[_CacheImpl] = _CacheImpl

    def __init__(self, py_func: Callable) -> None:
        super().__init__(py_func)
        self._cache_file.__class__ = _Index

    def _index_key(self, sig: Any, codegen: Any) -> tuple:
        return (*super()._index_key(sig, codegen), _layouts(getattr(sig, "args", sig)))


class _SharedFlags(Flags):
    """Flags whose copies, which are on Numba's stack while a kernel compiles, are one object for all kernels.

    Numba caches what it compiles of its own functions under these flags, and lets callees inherit some.
    """

    def copy(self) -> Flags:
        return _shared_flags()


@cache
def _shared_flags() -> Flags:
    flags: Any = Flags()
    cpu_target.options.parse_as_flags(flags, {**_FLAGS, "nopython": True, "forceinline": False})
    return _SharedFlags(flags)


class _Lower(Lower):
    """Lowers functions without reference counts: variables are stored as they are, tuples of arrays by reference."""

    def delvar(self, name: str) -> None:
        if name not in self._blk_local_varmap:
            self._singly_assigned_vars.discard(name)

    def storevar(self, value: Any, name: str, argidx: int | None = None) -> None:
        self._alloca_var(name, self.typeof(name))
        if name in self._singly_assigned_vars:
            self._blk_local_varmap[name] = value
        else:
            self.builder.store(value, self.getvar(name))

    def lower_expr(self, resty: Any, expr: Any) -> Any:
        if expr.op in ("getattr", "static_getitem"):
            kind = self.typeof(expr.value.name)
            if by_reference(kind):
                k = kind.fields.index(expr.attr) if expr.op == "getattr" else expr.index
                value = member(self.context, self.builder, kind, self.loadvar(expr.value.name), k)
                return self.context.cast(self.builder, value, kind.types[k], resty)
        return super().lower_expr(resty, expr)

    def _lower_call_normal(self, fnty: Any, expr: Any, signature: Any) -> Any:
        kind = signature.return_type
        if not (isinstance(fnty, types.NamedTupleClass) and by_reference(kind)):
            return super()._lower_call_normal(fnty, expr, signature)
        values = self.fold_call_args(fnty, signature, expr.args, expr.vararg, expr.kws)
        casts = zip(values, signature.args, kind.types, strict=True)
        return fill(self.context, self.builder, kind, [self.context.cast(self.builder, *one) for one in casts])


@register_pass(mutates_CFG=True, analysis_only=False)
class _SlimLowering(BaseNativeLowering):
    """The pass that lowers a kernel by `_Lower`."""

    _name = "limberjack_lowering"

    @property
    def lowering_class(self) -> type[Lower]:
        return _Lower


class _Compiler(Compiler):
    """Compiles a kernel under the shared flags, by the slim lowering."""

    def __init__(
        self, typingctx: Any, targetctx: Any, library: Any, args: Any, return_type: Any, flags: Any, locals: Any
    ) -> None:
        super().__init__(typingctx, targetctx, library, args, return_type, _SharedFlags(flags), locals)

    def _compile_core(self) -> Any:
        # Objects of the compiler live until it ends: collecting garbage among them took a seventh of the time.
        thresholds = gc.get_threshold()
        gc.set_threshold(max(thresholds[0], _RARELY) if thresholds[0] else 0, *thresholds[1:])
        try:
            return super()._compile_core()
        finally:
            gc.set_threshold(*thresholds)

    def define_pipelines(self) -> list:
        (passes,) = super().define_pipelines()
        passes.passes = [
            (_SlimLowering, text) if kind is NativeLowering else (kind, text) for kind, text in passes.passes
        ]
        passes.finalize()
        return [passes]


class _UnlinkedCodegen:
    """The code generator of code without an address yet, where no environment can be set."""

    def __init__(self, codegen: Any) -> None:
        self._codegen = codegen

    def __getattr__(self, name: str) -> Any:
        return getattr(self._codegen, name)

    def set_env(self, name: str, environment: Any) -> None:
        pass


class _LinkOnlyLibrary(JITCodeLibrary):
    """The code of a kernel that only kernels call: kept as LLVM bitcode, optimised and compiled with its callers."""

    @property
    def codegen(self) -> Any:
        return _UnlinkedCodegen(self._codegen)

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        return 0

    def serialize_using_object_code(self) -> tuple:
        return self.serialize_using_bitcode()

    @classmethod
    def _unserialize(cls, codegen: Any, state: tuple) -> _LinkOnlyLibrary:
        name, _, bitcode = state
        library = cls(codegen, name)
        library._final_module = llvm.parse_bitcode(bitcode)
        library._finalize_final_module()
        return library


class _LinkOnlyCompiler(_Compiler):
    """Compiles a kernel that only kernels call into a `_LinkOnlyLibrary`."""

    def _compile_core(self) -> Any:
        if self.state.library is None:
            library = _LinkOnlyLibrary(self.state.targetctx.codegen(), self.state.func_id.func_qualname)
            library.enable_object_caching()
            self.state.library = library
        return super()._compile_core()


class _LinkOnlyContext:
    """A target context that reads libraries back as `_LinkOnlyLibrary`."""

    def __init__(self, context: Any) -> None:
        self._context = context

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def codegen(self) -> Any:
        return self

    def unserialize_library(self, state: tuple) -> _LinkOnlyLibrary:
        return _LinkOnlyLibrary._unserialize(self._context.codegen(), state)


class _LinkOnlyCacheImpl(_CacheImpl):
    """Reads kernels that only kernels call from the cache."""

    def rebuild(self, target_context: Any, payload: tuple) -> Any:
        compiled = super().rebuild(_LinkOnlyContext(target_context), payload)
        return compiled._replace(target_context=target_context, typing_context=target_context.typing_context)


class _LinkOnlyCache(_Cache):
    """The cache of a kernel that only kernels call."""

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
