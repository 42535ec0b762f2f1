"""Compiled kernels: what becomes of functions that only kernels call, and the versions of Numba they compile with."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

import numba
import numpy as np
import pytest

import limberjack as lj
from limberjack import _jit

ROOT = Path(__file__).parents[1]


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


def _part(function):
    function.compile((numba.float64,))
    (compiled,) = function.overloads.values()
    assert compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name) == 0
    return compiled.library.part


def test_inlined_and_small_kernels_are_not_compiled_alone():
    """A kernel that only kernels call stays LLVM code if it is inlined or small: LLVM may inline it."""
    assert not _part(_jit.outlined(lambda x: x + 1.0)).compiled
    assert not _part(_jit.inner(lambda x: x + 1.0)).compiled


def test_large_outlined_kernels_are_compiled_once(monkeypatch):
    """Two kernels call one piece of machine code of a function that stays one; inlined callees are in that code."""
    monkeypatch.setattr(_jit, "_LARGE", 0)
    inlined = _jit.inner(lambda x: 3.0 * x)

    @_jit.outlined
    def large(x):
        return inlined(x) + 1.0

    @_jit.kernel
    def one(x):
        return large(x)

    @_jit.kernel
    def other(x):
        return 2.0 * large(x)

    before = len(_jit._in_memory)
    assert (one(2.0), other(2.0)) == (7.0, 14.0)
    part = _part(large)
    assert part.compiled and not part.callees and len(_jit._in_memory) == before + 1
    for kernel in (one, other):
        (compiled,) = kernel.overloads.values()
        assert compiled.library.code == [part]


def _elements(x, y, mask, counts, k, out):
    out[0] = x[k] + x[-1] + x[-k]
    out[1] = y[k, -1] - y[-1, k]
    y[k, 0] = k  # a number of another type
    y[-2, -1] += 0.5
    counts[k] = 7.9
    counts[0] -= 300 * k
    mask[k] = not mask[k]
    out[2] = mask[-1] + counts[k] + counts[0]
    out[3] = x[np.uint8(k)] * y[np.int32(k), k]
    out[4] = k % 3 + k // 2 - (k > 0) + (k << 3) + k**2 + x[0] ** 2 / k
    x[k] = out[4]


@pytest.mark.parametrize("order", ["C", "F", "strided"])
def test_elements_are_those_of_numpy(order):
    """Elements of arrays of any layout and kind, and operators on numbers, are what they are in Python."""

    def arrays():
        x, y = np.arange(1.0, 9.0), np.arange(20.0).reshape(4, 5)
        if order == "F":
            y = np.asfortranarray(y)
        if order == "strided":
            x, y = np.arange(1.0, 17.0)[::2], np.arange(80.0).reshape(8, 10)[::2, ::2]
        return x, y, np.array([True, False, True]), np.arange(3, dtype=np.int64)

    here, there = arrays(), arrays()
    out = np.zeros((2, 5))
    _elements(*here, 2, out[0])
    _jit.kernel(_elements)(*there, 2, out[1])
    for a, b in zip((*here, out[0]), (*there, out[1]), strict=True):
        np.testing.assert_array_equal(a, b)


@_jit.inner
def _turned(a, b):
    return b, a - b


@_jit.outlined
def _run(first, last):
    return range(first, last)


def _ways(x, n, turned, run):
    total, last, found = 0.0, 0.0, -1
    for i in range(n, -n, -3):  # downwards, by steps that do not end at the end
        if i % 2:
            last = x[i] * i
            continue
        for j in range(i, n, 2):
            if x[j] > 5.0:
                found = j
                break
        else:
            total += 1.0
        total += last
    step = n - 1
    for i in range(0, 3 * n, step):
        total, last = last, total + i
    a, b = 1.0, 2.0
    for k in run(n - 2, n):
        a, b = turned(a, b)
        if k == n - 1:
            late = a  # known on one way only
        pair = (a, b, x[k])
        total += pair[0] * pair[-1]
    k = 0
    while True:
        k += 1
        if x[k] > 3.0:
            break
    total += late + k + len(x) + x.shape[0]
    for value in x:
        total += value
    for value in (a, b):
        total *= value
    return total, found, i


_ways_compiled = _jit.outlined(_ways)


def _plain_turned(a, b):
    return b, a - b


def test_variables_and_loops_are_those_of_python():
    """Variables that depend on the way taken, swaps, ranges of any step and tuples are what they are in Python."""
    kernel = _jit.kernel(lambda x, n: _ways_compiled(x, n, _turned, _run))
    x = np.arange(9.0)
    assert kernel(x, 7) == _ways(x, 7, _plain_turned, range)


@_jit.outlined
def _sum_of(x, y, z, pair):
    total = 0.0
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            total += x[i, j] * y[i, j] * pair[0] + z[j] * pair[1]
    return total, x.size + len(z)


def test_arrays_of_any_layout_are_passed():
    """An array keeps its lengths and strides from kernel to kernel, whatever its layout."""
    kernel = _jit.kernel(lambda x, y, z: _sum_of(x, y, z, (2.0, 3)))
    x = np.arange(12.0).reshape(3, 4)
    y, z = np.asfortranarray(x + 1.0), np.arange(8.0)[::2]
    assert kernel(x, y, z) == ((2.0 * x * y + 3.0 * z).sum(), 16)


_CALLED = """
from limberjack._jit import kernel

@kernel
def callee(x):
    return 2.0 * x

@kernel
def caller(x):
    return callee(x) + 1.0

print(callee(2.0), caller(2.0), len(callee.overloads))
"""


def test_a_kernel_is_called_by_python_and_by_kernels(tmp_path):
    """A kernel that Python has called is linked into another kernel, also where both come from the cache."""
    script = tmp_path / "kernels.py"
    script.write_text(_CALLED)
    environment = os.environ | {"LIMBERJACK_CACHE_DIR": str(tmp_path / "cache")}
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, str(script)], env=environment, capture_output=True, text=True, check=True
        )
        assert done.stdout.split() == ["4.0", "5.0", "1"]


def test_types_decide_branches():
    """A branch on an argument that is None, or on dimensions, is decided before types are inferred."""

    @_jit.kernel
    def size(x):
        if x is None:
            return 0
        return len(x)

    @_jit.kernel
    def corner(x):
        if x.ndim == 2:
            return x[0, 0]
        return x[0]

    assert size(None) == 0 and size((1.0, 2.0)) == 2
    assert corner(np.ones(1)) == corner(np.ones((1, 1))) == 1.0


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
