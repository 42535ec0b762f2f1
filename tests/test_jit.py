"""Compiled kernels: the keys of their cache, what is cached of them, and the versions of Numba they compile with."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import venv
from collections import namedtuple
from pathlib import Path

import numba
import numpy as np
import pytest
from numba import typeof

import limberjack as lj
from limberjack import _jit

ROOT = Path(__file__).parents[1]


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Return a folder that stands for the package: top imports middle imports bottom; aside imports nothing."""
    monkeypatch.setattr(_jit, "_PACKAGE", tmp_path)
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
    caches = (_jit._modules, _jit._source, _jit._source_key)
    for function in caches:
        function.cache_clear()
    try:
        return {path.stem: _jit._source_key(path) for path in package.rglob("*.py") if path.stem != "__init__"}
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
    _jit._remove_old(tmp_path, tmp_path / "limberjack.a-5")
    left = {path.name for path in tmp_path.iterdir()}
    assert {"limberjack.a-5", "limberjack.ab-0"} <= left and len(left) == 5


def test_fields_of_tuples_are_part_of_the_key():
    """Two tuples of one name and the same types in another order of fields, or nested so, have different keys."""
    a, b = (namedtuple("Pair", names) for names in (("x", "y"), ("y", "x")))
    one, two = (typeof(kind(np.zeros(1), np.zeros(1))) for kind in (a, b))
    assert _jit._layouts((one,)) == (("Pair", ("x", "y"), ()),) != _jit._layouts((two,))
    outer = namedtuple("Outer", "pair")
    nested = [typeof(outer(kind(np.zeros(1), np.zeros(1)))) for kind in (a, b)]
    assert _jit._layouts(nested[:1]) != _jit._layouts(nested[1:])


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


_LINK_ONLY = """
import sys
from limberjack._jit import inner, kernel, outlined

@inner
def twice(x):
    return 2.0 * x

@outlined
def thrice(x):
    return twice(x) + x

@kernel
def first(x):
    return thrice(x)

@kernel
def second(x):
    return thrice(x) + twice(x)

print(globals()[sys.argv[1]](2.0), sum(thrice.stats.cache_hits.values()))
"""


def test_link_only_kernels_are_cached_for_other_kernels(tmp_path):
    """A kernel that only kernels call is read from the cache for another kernel, in another process."""
    script = tmp_path / "kernels.py"
    script.write_text(_LINK_ONLY)
    environment = os.environ | {"LIMBERJACK_CACHE_DIR": str(tmp_path / "cache")}
    answers = [
        subprocess.run(
            [sys.executable, str(script), name], env=environment, capture_output=True, text=True, check=True
        ).stdout.split()
        for name in ("first", "second", "second")
    ]
    # the third finds its kernel whole and never needs the others
    assert answers == [["6.0", "0"], ["10.0", "1"], ["10.0", "0"]]


def test_link_only_kernels_are_not_compiled_alone():
    """A kernel that only kernels call stays LLVM code: it has no address."""
    kernel = _jit.outlined(lambda x: x + 1.0)
    kernel.compile((numba.float64,))
    (compiled,) = kernel.overloads.values()
    assert compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name) == 0
    assert compiled.fndesc.llvm_func_name in compiled.library.get_llvm_str()


def _versions(low, high):
    return [f"{major}.{minor}.1" for (major, minor) in (low, (high[0], high[1] - 1))]


@pytest.mark.parametrize("version", _versions(*_jit.NUMBA_RANGE) + [numba.__version__, "0.62.0rc1", "0.63.2+local"])
def test_versions_in_range_are_accepted(version):
    """The first and the last minor version of the range, and the one installed, are accepted."""
    _jit.require_numba(version)


@pytest.mark.parametrize("version", ["0.61.2", "0.69.0", "1.0.0", "0.9.0"])
def test_other_versions_are_refused(version):
    """A version outside the range raises one typed error that names it, the range and the remedy."""
    with pytest.raises(lj.errors.UnsupportedVersion) as caught:
        _jit.require_numba(version)
    text = str(caught.value)
    assert f"numba {version} is installed" in text and 'pip install "numba>=0.62,<0.69"' in text
    assert isinstance(caught.value, ImportError) and caught.value.version == version


def test_an_unsupported_version_stops_the_first_kernel():
    """With another Numba the package imports and builds models; the first kernel raises UnsupportedVersion alone."""
    code = (
        "import numba; numba.__version__ = '0.99.0'\n"
        "import limberjack as lj; model = lj.scenes.pendulum(links=2)\n"
        "try: lj.Simulation(model, 'full').step(1)\n"
        "except lj.errors.UnsupportedVersion as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("numba 0.99.0 is installed") and not done.stderr


def test_the_range_is_the_projects():
    """pyproject.toml states the range that is checked."""
    (low, high) = (f"{major}.{minor}" for major, minor in _jit.NUMBA_RANGE)
    assert f'"numba>={low},<{high}"' in (ROOT / "pyproject.toml").read_text()


# The first Numba there is for a Python, where that is later than the start of the range.
_FIRST = {(3, 14): "0.63"}
_PENDULUM = """
import numba
import limberjack as lj
sim = lj.Simulation(lj.scenes.pendulum(links=5), "full")
sim.step(100)
print(numba.__version__, sim.state_hash())
"""


@pytest.mark.slow
@pytest.mark.parametrize("end", ["oldest", "newest"])
def test_both_ends_of_the_range_give_the_same_bits(tmp_path, end):
    """Installed beside the oldest and the newest Numba of the range, a pendulum has the state it has here."""
    (low, high) = (f"{major}.{minor}" for major, minor in _jit.NUMBA_RANGE)
    low = _FIRST.get(sys.version_info[:2], low)
    wanted = f"numba=={low}.*" if end == "oldest" else f"numba<{high}"
    venv.create(tmp_path / "venv", with_pip=True)
    binaries = tmp_path / "venv" / ("Scripts" if os.name == "nt" else "bin")
    subprocess.run(
        [binaries / "python", "-m", "pip", "install", "--quiet", "--upgrade", ROOT, wanted], check=True, timeout=900
    )
    # Away from the checkout: the installed package is meant, not the sources beside it.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment["LIMBERJACK_CACHE_DIR"] = str(tmp_path / "cache")
    run = {"cwd": tmp_path, "env": environment, "capture_output": True, "text": True, "check": True, "timeout": 900}
    there = subprocess.run([binaries / "python", "-c", _PENDULUM], **run).stdout.split()
    here = subprocess.run([sys.executable, "-c", _PENDULUM], **run).stdout.split()
    assert there[1] == here[1] and (end == "newest" or there[0].startswith(f"{low}."))
    typed = "import pathlib, limberjack; print((pathlib.Path(limberjack.__file__).parent / 'py.typed').is_file())"
    assert subprocess.run([binaries / "python", "-c", typed], **run).stdout.strip() == "True"
