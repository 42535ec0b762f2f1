"""The real models inside the packages of the test extra, found where they are installed."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

import numpy as np

import limberjack as lj


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


def tolerance(model: lj.Model, q: np.ndarray) -> float:
    """Return 1e-9, or what one rounding of the inertia itself does where its condition is over 1e10.

    Near gimbal lock, or with fingers of a milligram on a robot of 40 kg, two inertias equal to the last bit but one
    have solutions further apart than 1e-9.
    """
    return max(1e-9, 1e-3 * np.finfo(float).eps * float(np.linalg.cond(lj.mass_matrix(model, q))))
