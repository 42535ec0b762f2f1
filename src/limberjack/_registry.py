"""Readers and writers by file suffix. Physics looks them up here and never imports `io`; targets load on first use."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from limberjack.errors import FileError, require

__all__ = ["lookup", "register", "require_extra", "suffixes"]

_TARGETS: dict[str, dict[str, str | Callable[..., Any]]] = {
    "model reader": {
        ".urdf": "limberjack.io.urdf:read",
        ".xml": "limberjack.io.mjcf:read",
        ".mjcf": "limberjack.io.mjcf:read",
        ".json": "limberjack.io.native:read",
        ".bvh": "limberjack.io.biovision:read",
        ".glb": "limberjack.io.gltf_physics:read",
        ".gltf": "limberjack.io.gltf_physics:read",
    },
    "model writer": {
        ".json": "limberjack.io.native:write",
        ".xml": "limberjack.io.mjcf_write:write",
        ".mjcf": "limberjack.io.mjcf_write:write",
        ".urdf": "limberjack.io.urdf_write:write",
        ".glb": "limberjack.io.gltf_physics:write",
        ".gltf": "limberjack.io.gltf_physics:write",
    },
    "mesh reader": {
        suffix: "limberjack.io.mesh_files:read" for suffix in (".obj", ".stl", ".dae", ".ply", ".off", ".glb", ".gltf")
    },
    "trajectory writer": {
        ".npz": "limberjack.io.trajectory_files:write_npz",
        ".csv": "limberjack.io.trajectory_files:write_csv",
        ".parquet": "limberjack.io.trajectory_files:write_parquet",
        ".html": "limberjack.io.html:write",
        ".bvh": "limberjack.io.biovision:write",
        ".glb": "limberjack.io.glb:write",
        ".usd": "limberjack.io.usd:write",
        ".usda": "limberjack.io.usd:write",
        ".usdc": "limberjack.io.usd:write",
        ".mp4": "limberjack.io.pictures:write_mp4",
        ".gif": "limberjack.io.pictures:write_gif",
        ".png": "limberjack.io.pictures:write_png",
    },
    "trajectory reader": {
        ".npz": "limberjack.io.trajectory_files:read_npz",
        ".parquet": "limberjack.io.trajectory_files:read_parquet",
        ".csv": "limberjack.io.trajectory_files:read_csv",
        ".bvh": "limberjack.io.biovision:read_motion",
        ".ljr": "limberjack.io.recordings:read_trajectory",
    },
    "recording writer": {".ljr": "limberjack.io.recordings:RecordingWriter"},
    "simulation writer": {".npz": "limberjack.io.state_files:write"},
    "simulation reader": {".npz": "limberjack.io.state_files:read"},
}
# What a suffix needs beyond the core dependencies: the module, and the pip extra that brings it.
_EXTRAS = {
    ".xml": ("mujoco", "mjcf"),
    ".mjcf": ("mujoco", "mjcf"),
    ".mp4": ("imageio_ffmpeg", "video"),
    ".gif": ("imageio_ffmpeg", "video"),
    ".usd": ("pxr", "usd"),
    ".usda": ("pxr", "usd"),
    ".usdc": ("pxr", "usd"),
    ".parquet": ("pyarrow", "parquet"),
}


def register(what: str, suffix: str, target: str | Callable[..., Any]) -> None:
    """Register `target` (a function, or "module:function") for files that end in `suffix`.

    Args:
        what: one of the tables: model, trajectory or simulation reader or writer, mesh reader.
        suffix: with its dot, e.g. ".glb".
        target: called with the arguments of the existing targets of that table.
    """
    _TARGETS[what][suffix.lower()] = target


def suffixes(what: str) -> list[str]:
    """Return the suffixes `what` knows."""
    return sorted(_TARGETS[what])


def require_extra(what: str, path: str | Path) -> None:
    """Raise `MissingExtra` where `what` needs a package for `path` that is not installed."""
    module, extra = _EXTRAS.get(Path(path).suffix.lower(), ("", ""))
    # MJCF is written without MuJoCo.
    if module and what != "model writer":
        require(module, extra)


def lookup(what: str, path: str | Path) -> Callable[..., Any]:
    """Return the function that handles `path`, or raise `FileError` naming the suffixes there are."""
    suffix = Path(path).suffix.lower()
    target = _TARGETS[what].get(suffix)
    if target is None:
        raise FileError(path, f'no {what} for "{suffix or "no suffix"}"; there is {", ".join(suffixes(what))}')
    if isinstance(target, str):
        module, function = target.split(":")
        target = getattr(importlib.import_module(module), function)
    return target
