"""The key under which compiled kernels are kept."""

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

from limberjack import _jit


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


def test_old_folders_of_a_module_are_forgotten(tmp_path):
    """Of one module's folders the newest few stay; other modules keep theirs."""
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


_PARTS = """
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


def test_parts_of_kernels_are_kept_for_other_kernels(tmp_path):
    """What only kernels call is read back for another kernel, later and in another process."""
    script = tmp_path / "parts.py"
    script.write_text(_PARTS)
    environment = os.environ | {"LIMBERJACK_CACHE_DIR": str(tmp_path / "cache")}
    answers = [
        subprocess.run(
            [sys.executable, str(script), name], env=environment, capture_output=True, text=True, check=True
        ).stdout.split()
        for name in ("first", "second", "second")
    ]
    # the third finds its kernel whole and never asks for the parts
    assert answers == [["6.0", "0"], ["10.0", "1"], ["10.0", "0"]]


def test_a_part_is_not_made_machine_code():
    """A part is linked and left so: asked for its address it has none."""
    part = _jit.outlined(lambda x: x + 1.0)
    part.compile((numba.float64,))
    (compiled,) = part.overloads.values()
    assert compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name) == 0
    assert compiled.fndesc.llvm_func_name in compiled.library.get_llvm_str()
