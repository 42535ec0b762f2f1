"""The one `@kernel` decorator: compiled, without the GIL, cached on disk under a key of all kernel sources.

Numba's own disk cache looks at the file of the decorated function only: after an edit in a callee of another
file the caller keeps returning the old result. Here the cache folder is named by a hash of every source file
that can hold a kernel, so an edit anywhere gives a new folder and never a stale result.

Flags, decided once for all kernels:
- `error_model="numpy"`: no Python exceptions out of a division; kernels guard their divisors and return a status.
- `fastmath={"nsz"}`: the sign of zero may be dropped. `contract` (fused multiply-add) is left out: results would
  depend on whether the processor has FMA, and bit-equal states across machines are worth more than its gain.
  Nothing that reorders sums or assumes away NaN is ever allowed.
- `_nrt=False`: no reference counts. Kernels never allocate, and their arrays are kept alive by the caller; counting
  each field of a tuple at each call cost a microsecond per step.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import CompileResultCacheImpl, FunctionCache, _CacheLocator  # pyright: ignore[reportPrivateImportUsage]

__all__ = ["cache_folder", "entry", "inner", "kernel", "outlined", "spliced"]

_PACKAGE = Path(__file__).parent
# Rooms that hold no kernels: an edit there must not cost anybody a recompilation.
_WITHOUT_KERNELS = {
    "io", "papers", "scenes", "viewer", "__init__.py", "__main__.py", "cli.py", "demo.py", "errors.py", "runs.py",
    "terminal.py", "warmup.py",
}  # fmt: skip
_KEPT_FOLDERS = 4
_FLAGS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": {"nsz"}, "_nrt": False}


@lru_cache(maxsize=1)
def _source_key() -> str:
    """Return the hash of all sources that can hold kernels, and of the switches that change the code made."""
    digest = hashlib.sha256()
    for path in sorted(_PACKAGE.rglob("*.py")):
        relative, text = path.relative_to(_PACKAGE), path.read_bytes()
        if relative.parts[0] in _WITHOUT_KERNELS or (relative.parts[0] == "bench" and b"limberjack._jit" not in text):
            continue
        digest.update(relative.as_posix().encode() + b"\0" + text + b"\0")
    config: Any = numba.config
    digest.update(f"{numba.__version__} {config.BOUNDSCHECK}".encode())
    return digest.hexdigest()[:20]


def _usable(folder: Path) -> bool:
    """Return whether `folder` can be made and written, and belongs to this user alone (it holds code to load)."""
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


def _forget_old(base: Path, current: Path) -> None:
    """Remove all but the newest few cache folders beside `current`."""
    folders = [entry for entry in base.iterdir() if entry.is_dir() and entry != current]
    folders.sort(key=lambda entry: entry.stat().st_mtime, reverse=True)
    for old in folders[_KEPT_FOLDERS - 1 :]:
        shutil.rmtree(old, ignore_errors=True)


@lru_cache(maxsize=1)
def cache_folder() -> Path:
    """Return the folder compiled kernels are kept in: the user's cache, or a private temporary one."""
    chosen = os.environ.get("LIMBERJACK_CACHE_DIR")
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    for base in [Path(chosen)] if chosen else [home / "limberjack" / "kernels"]:
        folder = base / _source_key()
        if _usable(folder):
            _forget_old(base, folder)
            return folder
    user = os.getuid() if hasattr(os, "getuid") else "user"
    folder = Path(tempfile.gettempdir()) / f"limberjack-{user}" / _source_key()
    if _usable(folder.parent) and _usable(folder):
        return folder
    return Path(tempfile.mkdtemp(prefix="limberjack-"))


class _Locator(_CacheLocator):
    """Puts each function's cache files into `cache_folder()`, named by module, function and line."""

    def __init__(self, py_func: Callable) -> None:
        self._name = f"{py_func.__module__}-{py_func.__code__.co_firstlineno}"

    def get_cache_path(self) -> str:
        return str(cache_folder())

    def get_source_stamp(self) -> str:
        return _source_key()

    def get_disambiguator(self) -> str:
        return self._name

    @classmethod
    def from_function(cls, py_func: Callable, py_file: str) -> _Locator:
        return cls(py_func)


class _CacheImpl(CompileResultCacheImpl):
    _locator_classes = [_Locator]


class _Cache(FunctionCache):
    _impl_class = _CacheImpl


def _compiled(function: Callable, **flags: Any) -> Any:
    dispatcher: Any = numba.njit(**_FLAGS, **flags)(function)
    dispatcher._cache = _Cache(function)
    return dispatcher


def kernel(function: Callable) -> Any:
    """Return `function` as a compiled kernel: no GIL, own disk cache, the flags of this module."""
    return _compiled(function)


def inner(function: Callable) -> Any:
    """Return `function` as a kernel that only kernels call: inlined, without code that boxes results for Python."""
    return _compiled(function, no_cpython_wrapper=True, no_cfunc_wrapper=True, forceinline=True)


def outlined(function: Callable) -> Any:
    """Return `function` as a kernel that only kernels call and that stays a function: for large and rare work."""
    return _compiled(function, no_cpython_wrapper=True, no_cfunc_wrapper=True)


def spliced(function: Callable) -> Any:
    """Return `function` as a kernel that is written into its callers before they compile.

    For thin functions around large ones: as `inner` they would compile all of it once more each.
    """
    return numba.njit(inline="always", **_FLAGS)(function)


def entry(dispatcher: Any) -> Any:
    """Return the machine code of a kernel compiled for exactly one signature, callable without type dispatch.

    Dispatch over tuples of arrays costs about as much as 40 joints of work. The caller vouches for the types.
    """
    (compiled,) = dispatcher.overloads.values()
    return compiled.entry_point
