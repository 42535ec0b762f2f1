"""Archives of arrays (.npz), written atomically and checked when read.

NumPy alone can open them. Nothing in them is compressed or pickled: a reader never expands more than the file's own
size, and every header is checked against the bytes that follow before an array is allocated.
"""

from __future__ import annotations

import io
import math
import os
import zipfile
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np

from limberjack.errors import FileError
from limberjack.io.files import atomic_write

__all__ = ["Layout", "dumps", "from_text", "head", "loads", "read", "write"]

# Types of arrays that the layout knows by a prefix only.
_KINDS = {"f8", "i8", "i4", "u1", "b1"}


class Layout(NamedTuple):
    """What an archive holds beside `format` (UTF-8 bytes) and `version` (one number)."""

    what: str  # for messages, e.g. "Limberjack trajectory"
    format: str
    version: int
    largest: int  # bytes: archives are read into memory whole, and a larger one is a mistake or an attack
    arrays: dict[str, tuple[str, int]]  # name -> type and dimensions, all of them needed
    prefix: str = ""  # further arrays have names that begin so; none where empty

    def needed(self) -> dict[str, tuple[str, int]]:
        """Return type and dimensions of every array that must be there."""
        return {"format": ("u1", 1), "version": ("i8", 0)} | self.arrays


def from_text(text: str) -> np.ndarray:
    """Return text as an array of its UTF-8 bytes."""
    return np.frombuffer(text.encode(), np.uint8)


def head(layout: Layout) -> dict[str, np.ndarray]:
    """Return the two arrays that identify an archive."""
    return {"format": from_text(layout.format), "version": np.array(layout.version, "<i8")}


def write(path: str | Path, arrays: dict[str, np.ndarray]) -> None:
    """Write all arrays, `head` among them, atomically."""

    def store(file: BinaryIO) -> None:
        np.savez(file, allow_pickle=False, **arrays)

    atomic_write(path, store)


def dumps(arrays: dict[str, np.ndarray]) -> bytes:
    """Return the bytes that `write` writes."""
    out = io.BytesIO()
    np.savez(out, allow_pickle=False, **arrays)
    return out.getvalue()


def loads(data: bytes, path: Path, layout: Layout) -> dict[str, np.ndarray]:
    """Return the arrays of an archive in memory, as `read`; `path` names the file that it is part of."""
    return _opened(io.BytesIO(data), len(data), path, layout)


def read(path: Path, layout: Layout) -> dict[str, np.ndarray]:
    """Return the arrays of an archive; refuse torn, changed, compressed and foreign files and other versions."""
    try:
        if not path.is_file():
            raise FileError(path, "is a folder" if path.is_dir() else "no such file")
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size > layout.largest:
                raise FileError(path, f"is larger than {layout.largest / 2**30:.0f} GB")
            return _opened(file, size, path, layout)
    except FileError:
        raise
    except OSError as error:
        raise FileError(path, f"cannot be read: {error.strerror or error}") from error


def _opened(file: BinaryIO, size: int, path: Path, layout: Layout) -> dict[str, np.ndarray]:
    try:
        with zipfile.ZipFile(file) as archive:
            return _members(archive, size, path, layout)
    except FileError:
        raise
    except (zipfile.BadZipFile, EOFError, RuntimeError, ValueError) as error:
        raise FileError(path, f"is not a whole {layout.what}: {error}") from error


def _members(archive: zipfile.ZipFile, size: int, path: Path, layout: Layout) -> dict[str, np.ndarray]:
    listed, needed = archive.infolist(), layout.needed()
    members = {member.filename.removesuffix(".npy"): member for member in listed}
    for member in listed:
        if member.compress_type != zipfile.ZIP_STORED or member.file_size != member.compress_size:
            raise FileError(path, f'"{member.filename}" is compressed; a {layout.what} is stored as it is')
    if sum(member.file_size for member in listed) > size:
        raise FileError(path, "claims to hold more than the file does")
    if "format" in members:
        word = _array(archive.read(members["format"]), "format", path, layout).tobytes()
        if word != layout.format.encode():
            found = word[:40].decode("ascii", "replace")
            raise FileError(path, f'is not a {layout.what}: its format is "{found}", not "{layout.format}"')
    others = set(members) - set(needed)
    foreign = [name for name in others if not layout.prefix or not name.startswith(layout.prefix)]
    if foreign or not set(needed) <= set(members) or len(members) != len(listed):
        shown = ", ".join(members)[:200] or "nothing"
        raise FileError(path, f"is not a {layout.what}: it holds {shown} instead of {', '.join(needed)}")
    arrays = {name: _array(archive.read(member), name, path, layout) for name, member in members.items()}
    if arrays["version"] != layout.version:
        raise FileError(path, f"has version {int(arrays['version'])}; this release reads version {layout.version}")
    return arrays


def _array(data: bytes, name: str, path: Path, layout: Layout) -> np.ndarray:
    """Return the array in the bytes of a .npy file; its header is checked against their number first."""
    stream = io.BytesIO(data)
    if np.lib.format.read_magic(stream) != (1, 0):
        raise FileError(path, f'"{name}" has an unknown layout')
    shape, fortran, dtype = np.lib.format.read_array_header_1_0(stream)
    wanted = layout.needed().get(name)
    if wanted is None:
        if dtype.hasobject or dtype.kind + str(dtype.itemsize) not in _KINDS or dtype.byteorder == ">":
            raise FileError(path, f'"{name}" has the type {dtype}, which does not belong there')
    elif dtype != np.dtype("<" + wanted[0]) or len(shape) != wanted[1]:
        got = f"{len(shape)}-dimensional {dtype}"
        raise FileError(path, f'"{name}" must be {wanted[1]}-dimensional {wanted[0]}, got {got}')
    if math.prod(shape) * dtype.itemsize != len(data) - stream.tell():
        raise FileError(path, f'"{name}" has shape {shape}, which is not what follows')
    values = np.frombuffer(data, dtype, offset=stream.tell())
    return values.reshape(shape, order="F" if fortran else "C")
