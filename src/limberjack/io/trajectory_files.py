"""Trajectory files: .npz and .parquet with all data and the model, and .csv for other programs.

The .npz (see `npz.py`) holds `format` and `model` (UTF-8 bytes; the model in the native JSON format), `version`,
`times`, `q`, `qd`. It is not compressed, so its arrays can be mapped into memory. A .parquet file has the columns of
the .csv and the model in its metadata; it needs pyarrow (extra `parquet`).
"""

from __future__ import annotations

import csv
import io
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from limberjack.errors import FileError, LimberjackError, require
from limberjack.io import native, npz
from limberjack.io.files import atomic_write
from limberjack.io.xml import read_bytes
from limberjack.model.model import Model
from limberjack.simulation.trajectory import Trajectory

__all__ = [
    "FORMAT", "LAYOUT", "VERSION", "read_csv", "read_npz", "read_parquet", "write_csv", "write_npz", "write_parquet",
]  # fmt: skip

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


def read_csv(path: str | Path, model: Model | None = None) -> Trajectory:
    """Return the trajectory of `model` in a .csv file; columns are found by their names, others are left out."""
    path = Path(path)
    if model is None:
        raise FileError(path, "a table holds no model: give the model that moved, Trajectory.load(path, model)")
    lines = csv.reader(io.StringIO(read_bytes(path).decode("utf-8-sig", "replace"), newline=""))
    wanted = ["time", *_columns(model)]
    numbers = array("d")  # a list of floats would take four times the memory
    try:
        names = next(lines, [])
        _check_columns(path, names, wanted)
        order = [names.index(name) for name in wanted]
        for row in lines:
            if row:
                numbers.extend([float(row[k]) for k in order])
    except FileError:
        raise
    except (ValueError, IndexError):
        raise FileError(path, "a row has a cell that is no number, or too few cells", lines.line_num) from None
    except csv.Error as error:
        raise FileError(path, f"is no table: {error}", lines.line_num) from None
    return _from_table(path, model, np.frombuffer(numbers).reshape(-1, len(wanted)))


def write_parquet(trajectory: Trajectory, path: str | Path) -> None:
    """Write the columns of the .csv as Parquet, the model in the metadata."""
    arrow, parquet = require("pyarrow", extra="parquet"), require("pyarrow.parquet", extra="parquet")
    numbers = np.hstack([trajectory.times[:, None], trajectory.q, trajectory.qd])
    names = ["time", *_columns(trajectory.model)]
    table = arrow.table({name: np.ascontiguousarray(numbers[:, k]) for k, name in enumerate(names)})
    kept = {"format": FORMAT, "version": str(VERSION), "model": native.dumps(trajectory.model)}
    table = table.replace_schema_metadata({**(table.schema.metadata or {}), **kept})

    def write(file: BinaryIO) -> None:
        parquet.write_table(table, file)

    atomic_write(path, write)


def read_parquet(path: str | Path, model: Model | None = None) -> Trajectory:
    """Return the trajectory in a Parquet file; `model` stands for the one in its metadata where that has none."""
    path = Path(path)
    parquet = require("pyarrow.parquet", extra="parquet")
    data = read_bytes(path, LAYOUT.largest)
    try:
        # the limits are of what describes the file, which could claim any length
        file = parquet.ParquetFile(io.BytesIO(data), thrift_string_size_limit=2**28, thrift_container_size_limit=2**20)
        kept = (file.schema_arrow.metadata or {}).get(b"model")
        if model is None:
            if kept is None:
                raise FileError(path, "holds no model: give the model that moved, Trajectory.load(path, model)")
            model = native.loads(kept, path)
        wanted = ["time", *_columns(model)]
        _check_columns(path, file.schema_arrow.names, wanted)
        # packed runs of equal numbers expand without bounds
        if file.metadata.num_rows * len(wanted) * 8 > LAYOUT.largest:
            raise FileError(path, f"claims {file.metadata.num_rows} rows, more than {LAYOUT.largest / 2**30:.0f} GB")
        columns = [_numbers(path, file, name) for name in wanted]
    except (OSError, ValueError, ArithmeticError, LookupError, NotImplementedError) as error:
        # what pyarrow raises derives from these; NotImplementedError: types and encodings that it does not read
        if isinstance(error, LimberjackError):
            raise
        raise FileError(path, f"is no Parquet file: {str(error)[:400]}") from error
    return _from_table(path, model, np.stack(columns, axis=1))


def _numbers(path: Path, file: Any, name: str) -> np.ndarray:
    """Return a column as float64."""
    kind = str(file.schema_arrow.field(name).type)
    if not kind.startswith(("double", "float", "int", "uint")):
        raise FileError(path, f'column "{name}" must hold numbers, it holds {kind[:60]}')
    column = file.read(columns=[name]).column(name).to_numpy()
    return np.asarray(column, np.float64)


def _check_columns(path: Path, names: list[str], wanted: list[str]) -> None:
    missing = [name for name in wanted if name not in names]
    if missing:
        shown = ", ".join(missing[:3]) + (f" and {len(missing) - 3} more" if len(missing) > 3 else "")
        raise FileError(path, f"has no column {shown}; it has {', '.join(names[:12]) or 'none'}", 1)


def _from_table(path: Path, model: Model, numbers: np.ndarray) -> Trajectory:
    """Return the trajectory in rows of time, q and qd."""
    try:
        return Trajectory(model, numbers[:, 0], numbers[:, 1 : 1 + model.nq], numbers[:, 1 + model.nq :])
    except LimberjackError as error:
        raise FileError(path, str(error)) from error


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
