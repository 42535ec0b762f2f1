"""The real models inside the packages of the test extra, found where they are installed."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path


def files_of(package: str, suffix: str) -> list[Path]:
    """Return the files of an installed package that end in `suffix`, sorted."""
    entries = importlib.metadata.files(package) or []
    found = {Path(str(entry.locate())).resolve() for entry in entries if str(entry).endswith(suffix)}
    return sorted(path for path in found if path.is_file())


def robots() -> list[Path]:
    """Return the URDFs of example-robot-data."""
    return files_of("example-robot-data", ".urdf")


def mjcf_models() -> list[Path]:
    """Return the MJCF files of the dm_control suite and locomotion, and of gymnasium, that are whole models."""
    folders = ("dm_control/suite", "dm_control/locomotion", "gymnasium/envs/mujoco/assets")
    paths = files_of("dm_control", ".xml") + files_of("gymnasium", ".xml")
    paths = [path for path in paths if any(folder in path.as_posix() for folder in folders)]
    return [path for path in paths if "<worldbody" in path.read_text("utf-8", "replace")]
