"""Where compiled kernels are kept: keys, locks between processes, and the kernels that come with the package."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections import namedtuple

import numba
import numpy as np
import pytest
from numba import typeof

from limberjack import _cache, _jit


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Return a folder that stands for the package: top imports middle imports bottom; aside imports nothing."""
    monkeypatch.setattr(_cache, "_PACKAGE", tmp_path)
    (tmp_path / "room").mkdir()
    (tmp_path / "__init__.py").write_text("from limberjack.room.aside import A\n")
    (tmp_path / "room" / "__init__.py").write_text("")
    (tmp_path / "top.py").write_text(
        "from limberjack import __version__\nfrom limberjack.room import (\n    middle,\n)\n"
    )
    (tmp_path / "room" / "middle.py").write_text("def late():\n    from limberjack.room.bottom import B\n")
    (tmp_path / "room" / "bottom.py").write_text("B = 1\n")
    (tmp_path / "room" / "aside.py").write_text("A = 1\n")
    return tmp_path


def _keys(package):
    caches = (_cache._modules, _cache._source, _cache._source_key)
    for function in caches:
        function.cache_clear()
    try:
        return {path.stem: _cache._source_key(path) for path in package.rglob("*.py") if path.stem != "__init__"}
    finally:
        for function in caches:
            function.cache_clear()


@pytest.mark.parametrize(
    ("edited", "changed"),
    [("bottom", {"top", "middle", "bottom"}), ("middle", {"top", "middle"}), ("top", {"top"}), ("aside", {"aside"})],
)
def test_an_edit_changes_the_key_of_all_that_import_it(package, edited, changed):
    """An edit gives another key to the file itself and to all that import it, near or far, and to nobody else."""
    before = _keys(package)
    (path,) = package.rglob(f"{edited}.py")
    path.write_text(path.read_text() + "C = 2\n")
    after = _keys(package)
    assert {name for name in before if before[name] != after[name]} == changed


def test_old_folders_of_a_module_are_removed(tmp_path):
    """Of one module's folders the newest few stay; those of other modules are left alone."""
    for k in range(6):
        (tmp_path / f"limberjack.a-{k}").mkdir()
    (tmp_path / "limberjack.ab-0").mkdir()
    _cache._remove_old(tmp_path, tmp_path / "limberjack.a-5")
    left = {path.name for path in tmp_path.iterdir()}
    assert {"limberjack.a-5", "limberjack.ab-0"} <= left and len(left) == 5


def test_fields_of_tuples_are_part_of_the_key():
    """Two tuples of one name and the same types in another order of fields, or nested so, have different keys."""
    a, b = (namedtuple("Pair", names) for names in (("x", "y"), ("y", "x")))
    one, two = (typeof(kind(np.zeros(1), np.zeros(1))) for kind in (a, b))
    assert _cache.layouts((one,)) == (("Pair", ("x", "y"), ()),) != _cache.layouts((two,))
    outer = namedtuple("Outer", "pair")
    nested = [typeof(outer(kind(np.zeros(1), np.zeros(1)))) for kind in (a, b)]
    assert _cache.layouts(nested[:1]) != _cache.layouts(nested[1:])


def test_an_index_that_names_a_lost_type_counts_as_empty(tmp_path, monkeypatch):
    """A cache that cannot be read because a module is gone is written anew, without an error."""

    @_jit.kernel
    def add(x):
        return x + 1

    index = add._cache._cache_file
    monkeypatch.setattr(index, "_index_path", str(tmp_path / "index"))
    with open(index._index_path, "wb") as file:
        pickle.dump(index._version, file)
        file.write(b"cno_such_module\nThing\n.")
    assert index._load_index() == {}


# -- kernels that come with the package ------------------------------------------------------------

_SHIPPED = """
import sys
from pathlib import Path
from limberjack import _cache
from limberjack import _jit
from limberjack._jit import inner, kernel, outlined

_jit._LARGE = 0  # `same` and `zero` become machine code of their own

@inner
def twice(x):
    return 2.0 * x

@outlined
def zero(x):
    return x - x

@outlined
def same(x):
    return x + zero(x)

@kernel
def thrice(x):
    return twice(x) + same(x)

@kernel
def further(x):
    return thrice(x) + 1.0

_cache.ARCHIVE = Path(sys.argv[2])
if sys.argv[1] == "write":
    thrice(2.0)
    made = _cache.made_here()._replace(**dict(word.split("=") for word in sys.argv[3:]))
    _cache.Archive.write(_cache.ARCHIVE, made, dict(thrice._cache.entries()))
else:
    compiled = [thrice(2.0), sum(thrice.stats.cache_misses.values())]
    print(*compiled, further(2.0), sum(further.stats.cache_misses.values()))
"""


def _shipped(tmp_path, action, *words, cpu=None):
    (tmp_path / "kernels.py").write_text(_SHIPPED)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_CPU")}
    environment["LIMBERJACK_CACHE_DIR"] = str(tmp_path / action)
    if cpu:
        environment |= {"NUMBA_CPU_NAME": cpu, "NUMBA_CPU_FEATURES": ""}
    line = [sys.executable, str(tmp_path / "kernels.py"), action, str(tmp_path / "kernels.zip"), *words]
    return subprocess.run(line, env=environment, capture_output=True, text=True, check=True)


def test_shipped_kernels_are_not_compiled(tmp_path):
    """A kernel in the archive is run and not compiled; one that calls it and is not there is compiled from sources."""
    _shipped(tmp_path, "write", cpu=_cache.TARGET)
    done = _shipped(tmp_path, "read")
    assert done.stdout.split() == ["6.0", "0", "7.0", "1"] and not done.stderr
    parts = [name for name in _cache.Archive(tmp_path / "kernels.zip").all() if name.endswith(".part")]
    assert len(parts) == 2  # the machine code that the kernel calls, near and far


def test_shipped_kernels_that_do_not_fit_are_compiled_with_one_line(tmp_path):
    """With kernels made by another Numba everything is compiled, and one line says why."""
    _shipped(tmp_path, "write", "numba=0.62.9")
    done = _shipped(tmp_path, "read")
    assert done.stdout.split() == ["6.0", "1", "7.0", "1"]
    (line,) = done.stderr.splitlines()
    assert "made with Numba 0.62.9" in line and numba.__version__ in line and "compiling" in line


def test_a_processor_that_was_chosen_gets_code_of_its_own(tmp_path):
    """Where the user names a processor for Numba, the kernels of the package are left aside without a word."""
    _shipped(tmp_path, "write")
    done = _shipped(tmp_path, "read", cpu="generic")
    assert done.stdout.split() == ["6.0", "1", "7.0", "1"] and not done.stderr


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"numba": "0.1"}, "made with Numba 0.1"),
        ({"python": "cpython-399"}, "made for cpython-399"),
        ({"triple": "sparc-sun-solaris"}, "made for sparc-sun-solaris"),
        ({"features": ["sse2", "abacus"]}, "the processor lacks abacus"),
    ],
)
def test_what_does_not_fit_is_named(other, words):
    """Another Numba, Python, system or an older processor each is a reason; what is made here has none."""
    made = _cache.made_here()._replace(features=[])
    assert _cache.misfit(made) == "" and words in _cache.misfit(made._replace(**other))


def test_an_archive_has_the_same_bytes_for_the_same_kernels(tmp_path):
    """Neither the order of its kernels nor the time of writing changes an archive."""
    made = _cache.made_here()
    for name, kernels in (("a", {"x": b"1", "y": b"2"}), ("b", {"y": b"2", "x": b"1"})):
        _cache.Archive.write(tmp_path / name, made, kernels)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert _cache.Archive(tmp_path / "a").all() == {"x": b"1", "y": b"2"}


# -- locks -----------------------------------------------------------------------------------------

_WAITING = """
import sys
from limberjack import _cache
from limberjack._jit import kernel

@kernel
def twice(x):
    return 2.0 * x

if sys.argv[1] == "first":
    _cache.acquire_lock(twice.py_func)
    print("locked", flush=True)
    sys.stdin.readline()
print(twice(2.0), sum(twice.stats.cache_misses.values()), flush=True)
"""


@pytest.fixture
def waiting(tmp_path):
    """Return two processes: the first compiles a kernel when it is told to, the second needs the same."""
    (tmp_path / "kernels.py").write_text(_WAITING)
    environment = os.environ | {"LIMBERJACK_CACHE_DIR": str(tmp_path / "cache")}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": environment}
    first = subprocess.Popen([sys.executable, str(tmp_path / "kernels.py"), "first"], **pipes)
    assert first.stdout.readline() == "locked\n"
    second = subprocess.Popen([sys.executable, str(tmp_path / "kernels.py"), "second"], **pipes)
    with pytest.raises(subprocess.TimeoutExpired):
        second.wait(4.0)
    yield first, second
    for process in (first, second):
        process.kill()
        process.communicate()


@pytest.mark.skipif(_cache.fcntl is None, reason="no locks on this system")
def test_a_second_process_waits_for_the_first(waiting):
    """A process that needs what another is compiling waits for it and compiles nothing."""
    first, second = waiting
    assert first.communicate("go\n", timeout=60.0)[0] == "4.0 1\n"
    assert second.communicate(timeout=60.0)[0] == "4.0 0\n"


@pytest.mark.skipif(_cache.fcntl is None, reason="no locks on this system")
def test_a_process_that_is_killed_holds_up_nobody(waiting):
    """When the process that was compiling is killed, the one that waited for it compiles."""
    first, second = waiting
    first.kill()
    assert second.communicate(timeout=60.0)[0] == "4.0 1\n"


# -- disks that are full ---------------------------------------------------------------------------

_FULL = """
import resource, sys, warnings
from limberjack import _cache
from limberjack._jit import kernel

def limit(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

if sys.argv[1] == "before":
    limit(100)
_cache.cache_folder()
limit(100)

@kernel
def twice(x):
    return 2.0 * x

@kernel
def thrice(x):
    return 3.0 * x

with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    print(twice(2.0), thrice(2.0), len(told), told[0].message if told else "")
"""


@pytest.mark.skipif(_cache.fcntl is None, reason="no limits on this system")
@pytest.mark.parametrize("when", ["before", "while it compiles"])
def test_kernels_run_where_they_cannot_be_kept(tmp_path, when):
    """Where nothing more can be written, kernels are compiled and run, one warning says why, and no scraps are left."""
    (tmp_path / "kernels.py").write_text(_FULL)
    environment = os.environ | {"LIMBERJACK_CACHE_DIR": str(tmp_path / "cache"), "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-B", str(tmp_path / "kernels.py"), when]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("4.0 6.0 1 compiled kernels cannot be kept in ")
    assert not [path for path in (tmp_path / "cache").rglob("tmp*") if path.is_file()]
