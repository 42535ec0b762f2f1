"""`limberjack doctor`: what is installed, where kernels are cached, how many threads there are, how fast a step is."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import time
from pathlib import Path

from limberjack import __version__, _registry
from limberjack.errors import LimberjackError

__all__ = ["EXTRAS", "diagnosis"]

# The pip extras for users, the module that tells whether each is installed, and what it is for.
EXTRAS = {
    "mjcf": ("mujoco", "MuJoCo XML models"),
    "mesh": ("trimesh", "PLY, OFF and glTF meshes"),
    "view": ("viser", "the browser viewer"),
    "video": ("imageio_ffmpeg", ".mp4 and .gif"),
    "plot": ("matplotlib", "plots of compare, demo and papers"),
    "usd": ("pxr", ".usd, .usda and .usdc"),
    "parquet": ("pyarrow", ".parquet"),
    "cluster": ("distributed", "sweeps on many machines"),
    "gym": ("gymnasium", "Gymnasium environments"),
}
_LINKS, _STEPS, _REPEATS = 100, 200, 5


def diagnosis() -> dict[str, str]:
    """Return what was found, a line per subject."""
    versions = {name: _version(name) for name in ("numba", "llvmlite", "numpy", "tyro", "rich")}
    out = {
        "limberjack": f"{__version__}, in {Path(__file__).parents[1]}",
        "python": f"{platform.python_version()}, {platform.system()} {platform.machine()}",
        "packages": ", ".join(f"{name} {version}" for name, version in versions.items()),
    }
    for extra, (module, what) in EXTRAS.items():
        there = importlib.util.find_spec(module) is not None
        out[f"extra {extra}"] = f"installed ({what})" if there else f'no: pip install "limberjack[{extra}]" for {what}'
    readable, writable = (_registry.suffixes(f"model {word}er") for word in ("read", "writ"))
    out["models"] = f"reads {' '.join(readable)}; writes {' '.join(writable)}"
    out["motions"] = f"writes {' '.join(_registry.suffixes('trajectory writer'))}"
    return out | _cache() | _threads() | _speed()


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "missing"


def _cache() -> dict[str, str]:
    from limberjack._cache import ARCHIVE, cache_folder

    folder = cache_folder()
    files = [path for path in folder.rglob("*") if path.is_file()] if folder.is_dir() else []
    size = sum(path.stat().st_size for path in files) / 2**20
    kernels = sum(path.suffix == ".nbc" for path in files)
    may = "" if os.access(folder if folder.is_dir() else folder.parent, os.W_OK) else ", which cannot be written"
    shipped = ", and kernels that came with the package" if ARCHIVE.is_file() else ""
    return {"kernel cache": f"{kernels} kernels, {size:.0f} MB in {folder}{may}{shipped}"}


def _threads() -> dict[str, str]:
    import numba

    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    used = numba.config.NUMBA_NUM_THREADS  # pyright: ignore[reportAttributeAccessIssue]
    return {"threads": f"{usable} processors for this process, {os.cpu_count()} in all; Numba uses up to {used}"}


def _speed() -> dict[str, str]:
    """Return the processor time of a step of a pendulum, the least of a few."""
    from limberjack import scenes
    from limberjack.simulation.simulation import Simulation

    begin = time.perf_counter()
    try:
        sim = Simulation(scenes.pendulum(links=_LINKS), "full", dt=1e-3)
        sim.step(_STEPS)
    except LimberjackError as error:
        return {"reference step": f"failed: {error}"}
    first = time.perf_counter() - begin
    best = float("inf")
    for _ in range(_REPEATS):
        begin = time.thread_time()
        sim.step(_STEPS)
        best = min(best, time.thread_time() - begin)
    us = 1e6 * best / _STEPS
    compiled = f"; {first:.0f} s until the first, kernels compiled: they are cached now" if first > 5.0 else ""
    text = f"{us:.1f} us: {_LINKS} hinges, method full, one thread ({us / _LINKS * 1e3:.0f} ns per joint){compiled}"
    return {"reference step": text}
