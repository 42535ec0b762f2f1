"""The wheel with compiled kernels: what is in it, and that nothing is compiled where it is installed."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import numba
import pytest

import limberjack as lj
import make_wheel

ROOT = Path(__file__).parents[2]

_METADATA = "Metadata-Version: 2.4\nName: limberjack\nVersion: 1.0\nRequires-Dist: numba<0.69,>=0.62\n"
_WHEEL = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


@pytest.fixture
def plain(tmp_path):
    """Return a small wheel for all platforms."""
    path = tmp_path / "limberjack-1.0-py3-none-any.whl"
    info = "limberjack-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("limberjack/__init__.py", "")
        wheel.writestr(f"{info}/METADATA", _METADATA)
        wheel.writestr(f"{info}/WHEEL", _WHEEL)
        wheel.writestr(f"{info}/RECORD", "")
    (tmp_path / "kernels.zip").write_bytes(b"kernels")
    return path


def test_the_wheel_names_what_it_was_made_for(plain):
    """Its tag is this Python and platform, it depends on this Numba exactly, and its record lists every file."""
    path = make_wheel.add_kernels(plain, plain.with_name("kernels.zip"))
    tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
    assert path.name.startswith(f"limberjack-1.0-{tag}-{tag}-") and plain.exists()
    with zipfile.ZipFile(path) as wheel:
        files = {name: wheel.read(name) for name in wheel.namelist()}
    assert f"Requires-Dist: numba=={numba.__version__}\n" in files["limberjack-1.0.dist-info/METADATA"].decode()
    about = files["limberjack-1.0.dist-info/WHEEL"].decode()
    assert f"Tag: {path.stem.partition('1.0-')[2]}\n" in about and "Root-Is-Purelib: false\n" in about
    assert files["limberjack/kernels.zip"] == b"kernels"
    rows = {name: (digest, size) for name, digest, size in csv.reader(io.StringIO(_record(files)))}
    assert rows.keys() == files.keys()
    for name, (digest, size) in rows.items():
        if digest:
            want = base64.urlsafe_b64encode(hashlib.sha256(files[name]).digest()).rstrip(b"=").decode()
            assert digest == f"sha256={want}" and int(size) == len(files[name])


def _record(files):
    return files["limberjack-1.0.dist-info/RECORD"].decode()


def test_the_wheel_has_the_same_bytes_twice(plain):
    """Made again from the same parts, it is the same file."""
    archive = plain.with_name("kernels.zip")
    first = make_wheel.add_kernels(plain, archive).read_bytes()
    assert make_wheel.add_kernels(plain, archive).read_bytes() == first


def test_kernels_of_the_package_are_found():
    """The kernels that are packed are those that Python calls, of every method."""
    names = {f"{one.py_func.__module__}.{one.py_func.__qualname__}" for one in make_wheel._kernels()}
    assert {"limberjack.reduced.step.take_steps", "limberjack.methods.impulses.step.take_steps"} <= names
    assert "limberjack.spatial.vectors.cross" not in names


_FIRST_STEPS = """
import json, sys, time
from numba.core import event
import limberjack as lj

class Count(event.Listener):
    seen = 0
    def on_start(self, event):
        Count.seen += 1
    def on_end(self, event):
        pass

result = {}
with event.install_listener("numba:compile", Count()):
    for name in sys.argv[1:]:
        sim = lj.Simulation(lj.scenes.pendulum(links=5), name)
        begin = time.process_time()
        sim.step(1)
        first = time.process_time() - begin
        sim.step(99)
        result[name] = first, sim.state_hash()
print(json.dumps([lj.__file__, Count.seen, result]))
"""


@pytest.mark.slow
def test_where_the_wheel_is_installed_nothing_is_compiled(tmp_path):
    """Installed offline, every method takes its first step in 2 s without a compilation, to the bits it has here."""
    subprocess.run([sys.executable, ROOT / "tools" / "make_wheel.py", "--out", tmp_path], check=True)
    (wheel,) = tmp_path.glob("limberjack-*-cp*.whl")
    assert wheel.stat().st_size <= make_wheel.LARGEST
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", wheel], check=True)
    # Its dependencies are those of this environment: a path of packages, without this checkout.
    (site,) = (tmp_path / "venv").glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text(f"{Path(numba.__file__).parents[1]}\n")
    methods = list(lj.methods.METHODS)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment["LIMBERJACK_CACHE_DIR"] = str(tmp_path / "cache")
    run = {"cwd": tmp_path, "env": environment, "capture_output": True, "text": True, "check": True}
    file, compilations, there = json.loads(subprocess.run([python, "-c", _FIRST_STEPS, *methods], **run).stdout)
    assert Path(file).is_relative_to(tmp_path) and compilations == 0
    assert max(first for first, _ in there.values()) < 2.0
    for name in methods:
        sim = lj.Simulation(lj.scenes.pendulum(links=5), name)
        sim.step(100)
        assert sim.state_hash() == there[name][1]
    assert not list((tmp_path / "cache").rglob("*.nbc"))
