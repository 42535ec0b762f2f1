"""Where compiled kernels are found: the user's cache, then the kernels that came with the package.

- Source cache (`_Locator`): Numba's disk cache looks at the file of the decorated function only; after an edit in a
  callee of another file the caller would return the old result. Here a hash of all sources names the folder.
- Locks (`_begin`, `_end`): a process that needs what another one is compiling waits for it.
- Ready-made kernels (`Archive`): the wheel for a platform contains the machine code of every kernel that Python calls,
  for a processor that most machines of the platform can stand in for. It is read after the user's own cache.

This file changes no code that is made, so it is no part of the keys.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import pickle
import re
import shutil
import stat
import struct
import sys
import tempfile
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import llvmlite.binding as llvm
import numba
from numba.core import types
from numba.core.caching import (  # pyright: ignore[reportPrivateImportUsage]
    CompileResultCacheImpl,
    FunctionCache,
    IndexDataCacheFile,
    _CacheLocator,
)

try:
    import fcntl
except ImportError:  # Windows: two processes may compile the same kernel
    fcntl = None

__all__ = [
    "ARCHIVE",
    "Archive",
    "CacheImpl",
    "KernelCache",
    "atomic_file",
    "cache_folder",
    "layouts",
    "read_file",
    "release_lock",
]

_PACKAGE = Path(__file__).parent
# The kernels that came with the package; in a source tree and in the wheel for all platforms there are none.
ARCHIVE = _PACKAGE / "kernels.zip"
# Counted up when what is stored of a kernel changes: this file is no part of the keys.
_FORMAT = 2
_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+limberjack([\w.]*)[ \t]+import[ \t]+(\([^)]*\)|[^\n]*)|import[ \t]+limberjack([\w.]*))", re.M
)
_FOLDERS_PER_MODULE = 4


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
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"kernels" * 10_000)  # a full disk still has room for names
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
    named.discard("._cache")
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
    digest = hashlib.sha256(f"{_FORMAT} {numba.__version__} {config.BOUNDSCHECK}".encode())
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
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:  # the disk has become full, or the folder was taken away
            _tell_unkept(error)
            return Path(tempfile.mkdtemp(prefix="limberjack-"))
        _remove_old(cache_folder(), folder)
    return folder


_told: set[str] = set()


def _tell_unkept(error: OSError) -> None:
    """Warn, once for each reason, that kernels are compiled but not kept."""
    folder, reason = cache_folder(), str(error.strerror or error)
    if reason in _told:
        return
    _told.add(reason)
    text = f"compiled kernels cannot be kept in {folder}: {reason}; the next process compiles them again"
    warnings.warn(f"{text}. LIMBERJACK_CACHE_DIR chooses another folder", RuntimeWarning, stacklevel=2)


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


class CacheImpl(CompileResultCacheImpl):
    """What is stored of a compiled function: not the listing of its types, a fifth of all that Numba stores."""

    _locator_classes = [_Locator]

    def reduce(self, cres: Any) -> tuple:
        """Return what is stored of a compiled function."""
        return super().reduce(cres._replace(type_annotation=""))


class _Index(IndexDataCacheFile):
    """The index of a function's cache; unreadable counts as empty: a caller's types may be gone."""

    def _load_index(self) -> dict:
        try:
            return super()._load_index()
        except (ImportError, AttributeError):
            return {}


def layouts(kinds: Any) -> tuple:
    """Return the fields of all named tuples among types, in their order, also of those inside others."""
    return tuple(
        (kind.instance_class.__name__, kind.fields, layouts(kind.types))
        for kind in kinds
        if isinstance(kind, (types.NamedTuple, types.NamedUniTuple))
    )


class KernelCache(FunctionCache):
    """A function's cache, whose keys include the fields of the tuples it takes.

    A function reads fields by their index, and need not import the file that defines the tuple.
    """

    _impl_class: type[CacheImpl] = CacheImpl

    def __init__(self, py_func: Callable) -> None:
        super().__init__(py_func)
        self._cache_file.__class__ = _Index

    def _index_key(self, sig: Any, codegen: Any) -> tuple:
        return (*super()._index_key(sig, codegen), layouts(getattr(sig, "args", sig)))

    def _load_overload(self, sig: Any, target_context: Any) -> Any:
        found = self._load(sig, target_context)
        if found is None and acquire_lock(self._py_func):
            found = self._load(sig, target_context)  # another process may have compiled it meanwhile
            if found is not None:
                release_lock(self._py_func)
        return found

    def _load(self, sig: Any, target_context: Any) -> Any:
        """Return a function from the user's cache, or else from the kernels that came with the package."""
        try:
            found = super()._load_overload(sig, target_context)
        except FileNotFoundError:
            found = None  # a part of it has been removed
        shipped = None if found is not None else _shipped()
        payload = None if shipped is None else shipped.read(self.name(sig))
        return found if payload is None else self._impl.rebuild(target_context, payload)

    def _save_overload(self, sig: Any, data: Any) -> None:
        try:
            super()._save_overload(sig, data)
        except OSError as error:  # the kernel is compiled, whether or not it can be kept
            _tell_unkept(error)
        finally:
            release_lock(self._py_func)

    def name(self, sig: Any) -> str:
        """Return the name of a compiled function in an archive: a hash of its sources and of the types it takes."""
        args, source = getattr(sig, "args", sig), self._impl.locator.get_source_stamp()
        text = f"{self._impl.filename_base} {source} {args} {layouts(args)}"
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def entries(self) -> Iterable[tuple[str, bytes]]:
        """Yield the name in an archive and the contents of every signature in the user's cache, and of what it calls.

        What is stored of a kernel begins with its library, which ends with the files of the machine code that it calls;
        such a file ends with those of its callees (`_jit.py`).
        """
        for key, file in self._cache_file._load_index().items():
            contents = Path(self._cache_path, file).read_bytes()
            yield self.name(key[0]), contents
            todo = list(pickle.loads(contents)[0][2][-1])
            for part in todo:
                contents = read_file(part)
                yield Path(part).name, contents
                todo.extend(callee for callee in pickle.loads(contents)[-1] if callee not in todo)


def read_file(name: str) -> bytes:
    """Return the contents of a file of the user's cache, or else of the kernels that came with the package."""
    try:
        return (cache_folder() / name).read_bytes()
    except FileNotFoundError:
        shipped = _shipped()
        contents = None if shipped is None else shipped.contents(Path(name).name)
        if contents is None:
            raise
        return contents


def atomic_file(path: Path, contents: bytes) -> None:
    """Write a file that other processes see either whole or not at all."""
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        try:
            file.write(contents)
            file.close()
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise


# -- locks -----------------------------------------------------------------------------------------

# Lines of functions that this process is compiling, by the open file of locks of their module.
_held: dict[int, set[int]] = {}


@cache
def _lock_file(folder: Path) -> int:
    return os.open(folder / "locks", os.O_RDWR | os.O_CREAT, 0o600)


def acquire_lock(function: Callable) -> bool:
    """Wait until no other process compiles `function`; return whether the lock is new to this process.

    A lock is one byte of the file of locks of a module, numbered by line; the system gives it back when a process
    ends, however it ends. Functions are locked callers first, so that no two processes wait for each other.
    """
    if fcntl is None:
        return False
    try:
        file, line = _lock_of(function)
        if line in _held.setdefault(file, set()):
            return False
        fcntl.lockf(file, fcntl.LOCK_EX, 1, line)
    except OSError:  # a file system without locks, or a cache that was removed: compiled twice at worst
        return False
    _held[file].add(line)
    return True


def release_lock(function: Callable) -> None:
    """Let other processes compile or load `function`, if this one has locked it."""
    if fcntl is None or not any(_held.values()):
        return
    try:
        file, line = _lock_of(function)
    except OSError:
        return  # it could not be locked
    if line in _held.get(file, ()):
        _held[file].discard(line)
        fcntl.lockf(file, fcntl.LOCK_UN, 1, line)


def _lock_of(function: Callable) -> tuple[int, int]:
    code = function.__code__
    return _lock_file(_module_folder(function.__module__, Path(code.co_filename))), code.co_firstlineno


# -- kernels that came with the package ------------------------------------------------------------

# What x86-64-v3 has over the first processors of its kind, in LLVM's words: 2013 and later, by Intel and AMD.
TARGET = "x86-64-v3"
FEATURES = [
    *("sse3", "ssse3", "sse4.1", "sse4.2", "avx", "avx2", "bmi", "bmi2", "cx16"),
    *("f16c", "fma", "lzcnt", "movbe", "popcnt", "sahf", "xsave"),
]


class _Made(NamedTuple):
    """What kernels in an archive were made for."""

    numba: str
    python: str
    triple: str
    features: list[str]


def made_here() -> _Made:
    """Return what kernels made by this process for the portable target are made for."""
    return _Made(numba.__version__, sys.implementation.cache_tag, llvm.get_process_triple(), FEATURES)


class Archive:
    """Kernels in one file, by name."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with zipfile.ZipFile(path) as archive:
            self._files = {file.filename: file for file in archive.infolist()}
            self.made = _Made(**json.loads(archive.read("made.json")))

    def read(self, name: str) -> Any:
        """Return what is stored of a compiled function, or None."""
        contents = self.contents(name)
        return None if contents is None else pickle.loads(contents)

    def contents(self, name: str) -> bytes | None:
        """Return the bytes stored under a name, or None."""
        found = self._files.get(name)
        if found is None:
            return None
        # Opened anew: processes forked from this one would share the place in an open file. Read by hand: `zipfile`
        # reads the names of all files each time it opens one.
        with self._path.open("rb") as file:
            file.seek(found.header_offset + 26)
            name_size, extra_size = struct.unpack("<HH", file.read(4))
            file.seek(name_size + extra_size, os.SEEK_CUR)
            return zlib.decompress(file.read(found.compress_size), -zlib.MAX_WBITS)

    def all(self) -> dict[str, bytes]:
        """Return all that is stored, by name."""
        with zipfile.ZipFile(self._path) as archive:
            return {name: archive.read(name) for name in sorted(self._files) if name != "made.json"}

    @staticmethod
    def write(path: Path, made: _Made, kernels: dict[str, bytes]) -> None:
        """Write an archive, of the same bytes for the same kernels."""
        files = {"made.json": json.dumps(made._asdict()).encode()}
        files |= {name: kernels[name] for name in sorted(kernels)}
        with zipfile.ZipFile(path, "w") as archive:
            for name, contents in files.items():
                archive.writestr(zipfile.ZipInfo(name), contents, zipfile.ZIP_DEFLATED, 9)


def misfit(made: _Made) -> str:
    """Return why kernels made so cannot run here, in a few words; empty if they can."""
    if made.numba != numba.__version__:
        return f"they were made with Numba {made.numba}, here is {numba.__version__}"
    if made.python != sys.implementation.cache_tag:
        return f"they were made for {made.python}, this is {sys.implementation.cache_tag}"
    if made.triple != llvm.get_process_triple():
        return f"they were made for {made.triple}, this is {llvm.get_process_triple()}"
    have = llvm.get_host_cpu_features()
    missing = [name for name in made.features if not have.get(name)]
    return f"the processor lacks {', '.join(missing)}" if missing else ""


@cache
def _shipped() -> Archive | None:
    """Return the kernels that came with the package, if there are any and they can run here."""
    config: Any = numba.config
    if not ARCHIVE.exists() or config.CPU_NAME is not None or config.CPU_FEATURES is not None:
        return None  # none, or the user asks for code for another processor
    archive = Archive(ARCHIVE)
    reason = misfit(archive.made)
    if reason:
        # Printed in one line, unless the program configures logging.
        logging.getLogger("limberjack").warning("the kernels of this wheel are not used: %s; compiling instead", reason)
    return None if reason else archive
