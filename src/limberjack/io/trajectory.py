"""Trajectories in files: .npz with everything in it, the model included, and .csv for other programs.

The .npz holds arrays that NumPy alone can open: `format` and `model` (UTF-8 bytes; the model in the native
JSON format), `version`, `times`, `q`, `qd`. It is not compressed, so its arrays can be mapped into memory,
and a reader never expands more than the file's own size.
"""

from __future__ import annotations

import csv
import io
import math
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from limberjack.errors import FileError, LimberjackError
from limberjack.io import native
from limberjack.io.files import atomic_write
from limberjack.model.model import Model
from limberjack.trajectory import Trajectory

__all__ = ["FORMAT", "VERSION", "read_npz", "write_csv", "write_npz"]

FORMAT = "limberjack-trajectory"
VERSION = 1
# A trajectory is read into memory whole; a larger file is a mistake or an attack.
MAX_BYTES = 16 * 1024**3

# Name -> (dtype, dimensions).
_ARRAYS = {
    "format": ("u1", 1), "version": ("i8", 0), "model": ("u1", 1), "times": ("f8", 1), "q": ("f8", 2),
    "qd": ("f8", 2),
}  # fmt: skip


def write_npz(trajectory: Trajectory, path: str | Path) -> None:
    """Write all of `trajectory`, its model included, whole or not at all."""
    arrays = {
        "format": _bytes(FORMAT),
        "version": np.array(VERSION, "<i8"),
        "model": _bytes(native.dumps(trajectory.model)),
        "times": trajectory.times.astype("<f8"),
        "q": trajectory.q.astype("<f8"),
        "qd": trajectory.qd.astype("<f8"),
    }

    def write(file: BinaryIO) -> None:
        np.savez(file, allow_pickle=False, **arrays)

    atomic_write(path, write)


def read_npz(path: str | Path) -> Trajectory:
    """Return the trajectory that `write_npz` wrote; refuse torn, changed, compressed and foreign files."""
    path = Path(path)
    try:
        if not path.is_file():
            raise FileError(path, "is a folder" if path.is_dir() else "no such file")
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size > MAX_BYTES:
                raise FileError(path, f"is larger than {MAX_BYTES / 2**30:.0f} GB")
            with zipfile.ZipFile(file) as archive:
                arrays = _arrays(archive, size, path)
    except FileError:
        raise
    except OSError as error:
        raise FileError(path, f"cannot be read: {error.strerror or error}") from error
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
        raise FileError(path, f"is not a whole trajectory: {error}") from error
    if arrays["format"].tobytes() != FORMAT.encode():
        raise FileError(path, f'is not a Limberjack trajectory: "format" must be "{FORMAT}"')
    if arrays["version"] != VERSION:
        raise FileError(path, f"has version {int(arrays['version'])}; this release reads version {VERSION}")
    model = native.loads(arrays["model"].tobytes(), path)
    try:
        return Trajectory(model, arrays["times"], arrays["q"], arrays["qd"])
    except LimberjackError as error:
        raise FileError(path, str(error)) from error


def _arrays(archive: zipfile.ZipFile, size: int, path: object) -> dict[str, np.ndarray]:
    members = archive.infolist()
    names = [member.filename.removesuffix(".npy") for member in members]
    if sorted(names) != sorted(_ARRAYS):
        shown = ", ".join(names[:8]) or "nothing"
        wanted = ", ".join(_ARRAYS)
        raise FileError(path, f"is not a Limberjack trajectory: it holds {shown[:200]} instead of {wanted}")
    for member in members:
        if member.compress_type != zipfile.ZIP_STORED or member.file_size != member.compress_size:
            raise FileError(path, f'"{member.filename}" is compressed; a trajectory is stored as it is')
    if sum(member.file_size for member in members) > size:
        raise FileError(path, "claims to hold more than the file does")
    pairs = zip(names, members, strict=True)
    return {name: _array(archive.read(member), name, path) for name, member in pairs}


def _array(data: bytes, name: str, path: object) -> np.ndarray:
    """Return the array in the bytes of a .npy file; its header is checked against their number first."""
    stream = io.BytesIO(data)
    version = np.lib.format.read_magic(stream)
    if version != (1, 0):
        raise FileError(path, f'"{name}" has an unknown layout')
    shape, fortran, dtype = np.lib.format.read_array_header_1_0(stream)
    kind, dimensions = _ARRAYS[name]
    if dtype != np.dtype("<" + kind) or len(shape) != dimensions:
        got = f"{len(shape)}-dimensional {dtype}"
        raise FileError(path, f'"{name}" must be {dimensions}-dimensional {kind}, got {got}')
    if math.prod(shape) * dtype.itemsize != len(data) - stream.tell():
        raise FileError(path, f'"{name}" has shape {shape}, which is not what follows')
    values = np.frombuffer(data, dtype, offset=stream.tell())
    return values.reshape(shape, order="F" if fortran else "C")


def write_csv(trajectory: Trajectory, path: str | Path) -> None:
    """Write one row a frame: time, every coordinate, every velocity, each number to its last bit.

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


def _bytes(text: str) -> np.ndarray[Any, Any]:
    return np.frombuffer(text.encode(), np.uint8)
