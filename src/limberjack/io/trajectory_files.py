"""Trajectory files: .npz with all data and the model, and .csv for other programs.

The .npz (see `npz.py`) holds `format` and `model` (UTF-8 bytes; the model in the native JSON format), `version`,
`times`, `q`, `qd`. It is not compressed, so its arrays can be mapped into memory.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from limberjack.errors import FileError, LimberjackError
from limberjack.io import native, npz
from limberjack.io.files import atomic_write
from limberjack.model.model import Model
from limberjack.simulation.trajectory import Trajectory

__all__ = ["FORMAT", "LAYOUT", "VERSION", "read_npz", "write_csv", "write_npz"]

FORMAT = "limberjack-trajectory"
VERSION = 1
LAYOUT = npz.Layout(
    what="Limberjack trajectory",
    format=FORMAT,
    version=VERSION,
    largest=16 * 1024**3,
    arrays={"model": ("u1", 1), "times": ("f8", 1), "q": ("f8", 2), "qd": ("f8", 2)},
)


def write_npz(trajectory: Trajectory, path: str | Path) -> None:
    """Write all of `trajectory`, its model included, atomically."""
    arrays = npz.head(LAYOUT) | {"model": npz.from_text(native.dumps(trajectory.model))}
    arrays |= {name: getattr(trajectory, name).astype("<f8") for name in ("times", "q", "qd")}
    npz.write(path, arrays)


def read_npz(path: str | Path) -> Trajectory:
    """Return the trajectory that `write_npz` wrote; refuse torn, changed, compressed and foreign files."""
    path = Path(path)
    arrays = npz.read(path, LAYOUT)
    model = native.loads(arrays["model"].tobytes(), path)
    try:
        return Trajectory(model, arrays["times"], arrays["q"], arrays["qd"])
    except LimberjackError as error:
        raise FileError(path, str(error)) from error


def write_csv(trajectory: Trajectory, path: str | Path) -> None:
    """Write one row per frame: time, every coordinate, every velocity, each number to its last bit.

    Columns are `time`, `q.NAME` and `qd.NAME`, with `[i]` after joints of several coordinates.
    """

    def write(file: BinaryIO) -> None:
        text = io.TextIOWrapper(file, "utf-8", newline="")
        rows = csv.writer(text, lineterminator="\n")
        rows.writerow(["time", *_columns(trajectory.model)])
        for time, q, qd in zip(trajectory.times.tolist(), trajectory.q, trajectory.qd, strict=True):
            rows.writerow([repr(x) for x in (time, *q.tolist(), *qd.tolist())])
        text.flush()
        text.detach()

    atomic_write(path, write)


def _columns(model: Model) -> Iterator[str]:
    """Yield the names of all coordinates, then of all velocities."""
    joints = [joint for joint in map(model.joint, model.joint_names) if not joint.is_loop]
    for word in ("q", "qd"):
        for joint in joints:
            width = joint.nq if word == "q" else joint.nv
            if joint.axis_names:
                yield from (f"{word}.{axis}" for axis in joint.axis_names)
            elif width == 1:
                yield f"{word}.{joint.name}"
            else:
                yield from (f"{word}.{joint.name}[{i}]" for i in range(width))
