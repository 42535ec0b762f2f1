"""What the pictures of the papers share: colours, chains as lines, files written whole."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from limberjack.cli.demo import canvas
from limberjack.cli.runs import turned
from limberjack.errors import require
from limberjack.io.files import atomic_write
from limberjack.model.model import Model
from limberjack.reduced.dynamics import forward_kinematics

__all__ = ["ACCENT", "COOL", "INK", "PALE", "chain_corners", "drawing"]

INK, PALE = "#22303c", "#9aa5ad"
ACCENT, COOL = "#e8743b", "#3f7cac"


@contextmanager
def drawing(path: Path, width: float, height: float) -> Iterator[Any]:
    """Give a figure of so many inches; what was drawn on it is then written to `path`."""
    require("matplotlib", extra="plot")
    with canvas(width, height, 120) as figure:
        yield figure
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png")
    atomic_write(path, buffer.getvalue())


def chain_corners(model: Model, q: np.ndarray) -> np.ndarray:
    """Return the (links + 1, 2) corners in the x-z plane of a chain of equal links that hang along their -z."""
    places, rotations = forward_kinematics(model, q)
    length = abs(model.spec.joints[-1].position[2])
    end = places[-1] + turned(rotations[-1:], np.array([[0.0, 0.0, -length]]))[0]
    return np.vstack([places, end])[:, [0, 2]]
