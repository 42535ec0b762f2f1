"""Reading and writing files: models, meshes, trajectories, saved simulations; readers and writers by suffix."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from limberjack import _registry
from limberjack.errors import FileError
from limberjack.model.model import Model

__all__ = ["load", "save"]


def load(
    path: str | Path,
    *,
    repair: bool = True,
    base: str = "fixed",
    roots: Sequence[str | Path] = (),
    package_paths: Sequence[str | Path] = (),
    collision: str = "hull",
) -> Model:
    """Return the model in a file: .urdf, .xml/.mjcf, .glb/.gltf with physics, .bvh or the native .json.

    Args:
        path: the file.
        repair: repair invalid inertias and other defects of real files, with a `ModelWarning` each; False refuses them.
        base: "fixed" or "free": joint of a URDF's root link to the world (other formats are as written).
        roots: further folders meshes and includes may come from; the file's own folder always may.
        package_paths: folders searched for `package://name/...`, before `ROS_PACKAGE_PATH` and the file's parents.
        collision: of URDF and MJCF; "hull": meshes collide as their convex hulls, of at most 128 vertices; "exact": as
            they are where they are closed, by signed distance; "none": nothing collides.
    """
    path = Path(path)
    reader = _registry.lookup("model reader", path)
    if not path.is_file():
        raise FileError(path, "is a folder" if path.is_dir() else "no such file")
    if base not in ("fixed", "free"):
        raise FileError(path, f'base must be "fixed" or "free", got {base!r}')
    if collision not in ("hull", "exact", "none"):
        raise FileError(path, f'collision must be "hull", "exact" or "none", got {collision!r}')
    options: dict[str, Any] = {"repair": repair, "base": base, "collision": collision}
    return reader(path, roots=[Path(r) for r in roots], package_paths=[Path(p) for p in package_paths], **options)


def save(model: Model, path: str | Path) -> Path:
    """Write `model` and return the path.

    Args:
        model: the model.
        path: .json (native, lossless), .xml/.mjcf, .urdf, or .glb/.gltf with physics. What a format has no place for is
            named in a `ModelWarning`; what would change the mechanism is refused.
    """
    path = Path(path)
    _registry.lookup("model writer", path)(model, path)
    return path
