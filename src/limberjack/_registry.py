"""Readers and writers by file suffix. Physics looks them up here and never imports `io`; targets load on first use."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from limberjack.errors import FileError

__all__ = ["lookup", "register", "suffixes"]

_TARGETS: dict[str, dict[str, str | Callable[..., Any]]] = {
    "model reader": {
        ".urdf": "limberjack.io.urdf:read",
        ".xml": "limberjack.io.mjcf:read",
        ".mjcf": "limberjack.io.mjcf:read",
        ".json": "limberjack.io.native:read",
        ".bvh": "limberjack.io.bvh:read",
    },
    "model writer": {".json": "limberjack.io.native:write"},
    "mesh reader": {
        suffix: "limberjack.io.mesh_files:read" for suffix in (".obj", ".stl", ".dae", ".ply", ".off", ".glb", ".gltf")
    },
    "trajectory writer": {
        ".npz": "limberjack.io.trajectory_files:write_npz",
        ".csv": "limberjack.io.trajectory_files:write_csv",
        ".html": "limberjack.io.html:write",
        ".bvh": "limberjack.io.bvh:write",
        ".glb": "limberjack.io.glb:write",
        ".mp4": "limberjack.io.pictures:write_mp4",
        ".gif": "limberjack.io.pictures:write_gif",
        ".png": "limberjack.io.pictures:write_png",
    },
    "trajectory reader": {".npz": "limberjack.io.trajectory_files:read_npz", ".bvh": "limberjack.io.bvh:read_motion"},
    "simulation writer": {".npz": "limberjack.io.state_files:write"},
    "simulation reader": {".npz": "limberjack.io.state_files:read"},
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
