"""Simulations in files: model, method and all that feeds the next step, so that a resumed run goes on bit for bit.

The .npz holds arrays that NumPy alone can open: `format`, `model` (native JSON) and `header` (JSON) as UTF-8 bytes,
`version`, one array `state.NAME` for each of the snapshot, and `sha256` of all of them. The header names the
method with its options, the ignored features and the clock; its floats are written as hexadecimal text, so no
digit is lost. Nothing is compressed or pickled: a reader never expands more than the file's own size.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import math
import os
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from limberjack.errors import FileError, LimberjackError, ModelWarning, StateError
from limberjack.io import native
from limberjack.io.files import atomic_write
from limberjack.methods import METHODS, method_of
from limberjack.model.model import Model
from limberjack.simulation import Simulation, Snapshot

__all__ = ["FORMAT", "VERSION", "read", "write"]

FORMAT = "limberjack-simulation"
VERSION = 1
# A state is read into memory whole; a larger file is a mistake or an attack.
MAX_BYTES = 4 * 1024**3

_KINDS = {"f8", "i8", "i4", "u1", "b1"}
_FIXED = {"format": "u1", "version": "i8", "model": "u1", "header": "u1", "sha256": "u1"}
_CLOCK = ("steps", "base_steps", "base_time", "dt")


# -- out -------------------------------------------------------------------------------------------


def write(sim: Simulation, path: str | Path) -> None:
    """Write `sim` whole or not at all; `read` makes it again."""
    snapshot = sim.snapshot()
    header = {
        "method": sim.method.name,
        "options": _options(sim.method),
        "ignore": list(sim.ignored),
        "clock": {name: _plain(getattr(snapshot, name), name) for name in _CLOCK},
        "compiled": _fingerprint(sim.model),
    }
    arrays = {
        "format": _bytes(FORMAT),
        "version": np.array(VERSION, "<i8"),
        "model": _bytes(native.dumps(sim.model)),
        "header": _bytes(json.dumps(header)),
    }
    for name, array in snapshot.arrays.items():
        arrays[f"state.{name}"] = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False)
    arrays["sha256"] = np.frombuffer(_digest(arrays), np.uint8)

    def store(file: BinaryIO) -> None:
        np.savez(file, allow_pickle=False, **arrays)

    atomic_write(path, store)


def _options(method: Any) -> dict[str, Any]:
    """Return the options of a method in what JSON has; refuse those no file can hold."""
    name = method.name
    if name not in METHODS or type(method) is not type(method_of(name)):
        raise StateError(f'method "{name}" cannot be saved: it is none of {", ".join(METHODS)}')
    what = f'option "{{}}" of method "{name}"'
    return {f.name: _plain(getattr(method, f.name), what.format(f.name)) for f in dataclasses.fields(method)}


def _plain(value: Any, what: str) -> Any:
    """Return `value` in what JSON has: floats as {"hex": ...}, tuples as lists."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)):
        return {"hex": float(value).hex()}
    if isinstance(value, (tuple, list)):
        return [_plain(x, what) for x in value]
    raise StateError(f"{what} cannot be saved: a file cannot hold a {type(value).__name__}")


def _bytes(text: str) -> np.ndarray:
    return np.frombuffer(text.encode(), np.uint8)


def _digest(arrays: dict[str, np.ndarray]) -> bytes:
    """Return the SHA-256 of all arrays but itself: names, types, shapes and bits."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        if name != "sha256":
            array = arrays[name]
            digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
            digest.update(np.ascontiguousarray(array).tobytes())
    return digest.digest()


def _fingerprint(model: Model) -> str:
    """Return a hash of the numbers the model compiles to: equal ones, and only those, step the same bits."""
    digest = hashlib.sha256()
    parts = {part.name: getattr(model.arrays, part.name) for part in dataclasses.fields(model.arrays)}
    for name, array in _leaves("", parts):
        digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode() + np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _leaves(name: str, value: Any) -> Iterator[tuple[str, np.ndarray]]:
    children = value._asdict() if hasattr(value, "_asdict") else value
    if isinstance(children, dict):
        for key, child in children.items():
            yield from _leaves(f"{name}.{key}", child)
    else:
        yield name, np.asarray(children)


# -- in --------------------------------------------------------------------------------------------


def read(path: str | Path) -> Simulation:
    """Return the simulation that `write` wrote; refuse torn, changed, compressed and foreign files."""
    path = Path(path)
    arrays = _arrays(path)
    if arrays["version"] != VERSION:
        raise FileError(path, f"has version {int(arrays['version'])}; this release reads version {VERSION}")
    if _digest(arrays) != arrays["sha256"].tobytes():
        raise FileError(path, "is damaged: its content does not have the SHA-256 it was written with")
    model = native.loads(arrays["model"].tobytes(), path)
    try:
        header = json.loads(arrays["header"].tobytes())
        clock = {name: _value(header["clock"][name]) for name in _CLOCK}
        options = {str(name): _value(value) for name, value in header["options"].items()}
        method = type(method_of(str(header["method"])))(**options)
        sim = Simulation(model, method, dt=clock["dt"], ignore=[str(word) for word in header["ignore"]])
        state = {name.removeprefix("state."): array for name, array in arrays.items() if name.startswith("state.")}
        sim.restore(_snapshot(clock, _checked(state, sim)))
        compiled = str(header["compiled"])
    except (LimberjackError, ArithmeticError, LookupError, TypeError, ValueError, AttributeError) as error:
        text = str(error) if isinstance(error, LimberjackError) else f"{type(error).__name__}: {error}"
        raise FileError(path, f"cannot be resumed: {text}") from error
    if compiled != _fingerprint(model):
        text = "was written by another release or machine, whose model differs in its last bits"
        warnings.warn(ModelWarning(f"{path}: {text}: it goes on, but not bit for bit"), stacklevel=2)
    return sim


def _value(value: Any) -> Any:
    """Return what `_plain` was given; lists come back as tuples."""
    if isinstance(value, dict):
        return float.fromhex(value["hex"])
    return tuple(map(_value, value)) if isinstance(value, list) else value


def _snapshot(clock: dict[str, Any], state: dict[str, np.ndarray]) -> Snapshot:
    steps, base_steps, base_time = clock["steps"], clock["base_steps"], clock["base_time"]
    if type(steps) is not int or type(base_steps) is not int or not 0 <= base_steps <= steps < 2**62:
        raise StateError(f"steps {steps!r} counted from {base_steps!r} is no step counter")
    if type(base_time) is not float or not math.isfinite(base_time):
        raise StateError(f"base_time must be a finite number, got {base_time!r}")
    return Snapshot(steps, base_steps, base_time, clock["dt"], state)


def _checked(state: dict[str, np.ndarray], sim: Simulation) -> dict[str, np.ndarray]:
    """Return the arrays of a snapshot after checks that no number in them can lead a kernel astray.

    `restore` compares the names and shapes. Here: types, indices in range, and a state that is a state.
    """
    own = sim.snapshot().arrays
    for name, array in state.items():
        if name not in own or array.dtype != own[name].dtype:
            raise StateError(f'"{name}" ({array.dtype}) is not part of this simulation')
        if name.startswith("drives.") and array.dtype.kind == "i" and not np.array_equal(array, own[name]):
            raise StateError(f'"{name}" does not fit the model')
    if missing := sorted(set(own) - set(state)):
        raise StateError(f'"{missing[0]}" is missing')
    link, data = state["wrenches.link"], state["wrenches.data"]
    links = len(sim.model.arrays.links.parent)
    if link.ndim != 1 or data.shape != (len(link), 9) or ((link < 0) | (link >= links)).any():
        raise StateError("the wrenches do not fit the model")
    if any(np.isnan(array).any() for array in state.values() if array.dtype.kind == "f"):
        raise StateError("a number is NaN")
    for name in ("q", "qd", "tau"):
        if state[name].shape == own[name].shape:
            setattr(sim, name, state[name])  # finite, unit quaternions: the rules of the setters
    # Kernels take writable arrays; those read from a file are not.
    return {name: array.copy() for name, array in state.items()}


def _arrays(path: Path) -> dict[str, np.ndarray]:
    try:
        if not path.is_file():
            raise FileError(path, "is a folder" if path.is_dir() else "no such file")
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size > MAX_BYTES:
                raise FileError(path, f"is larger than {MAX_BYTES / 2**30:.0f} GB")
            with zipfile.ZipFile(file) as archive:
                return _members(archive, size, path)
    except FileError:
        raise
    except OSError as error:
        raise FileError(path, f"cannot be read: {error.strerror or error}") from error
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
        raise FileError(path, f"is not a whole saved simulation: {error}") from error


def _members(archive: zipfile.ZipFile, size: int, path: Path) -> dict[str, np.ndarray]:
    members = {member.filename.removesuffix(".npy"): member for member in archive.infolist()}
    for member in archive.infolist():
        if member.compress_type != zipfile.ZIP_STORED or member.file_size != member.compress_size:
            raise FileError(path, f'"{member.filename}" is compressed; a saved simulation is stored as it is')
    if sum(member.file_size for member in archive.infolist()) > size:
        raise FileError(path, "claims to hold more than the file does")
    if "format" in members:
        word = _array(archive.read(members["format"]), "format", path).tobytes()
        if word != FORMAT.encode():
            shown = word[:40].decode("ascii", "replace")
            raise FileError(path, f'holds a "{shown}", not a simulation saved by sim.save ("{FORMAT}")')
    foreign = [name for name in members if name not in _FIXED and not name.startswith("state.")]
    absent = [name for name in _FIXED if name not in members]
    if absent or foreign or len(members) != len(archive.infolist()):
        raise FileError(path, f"is not a saved simulation: it holds {', '.join(members)[:200] or 'nothing'}")
    return {name: _array(archive.read(member), name, path) for name, member in members.items()}


def _array(data: bytes, name: str, path: Path) -> np.ndarray:
    """Return the array in the bytes of a .npy file; its header is checked against their number first."""
    stream = io.BytesIO(data)
    if np.lib.format.read_magic(stream) != (1, 0):
        raise FileError(path, f'"{name}" has an unknown layout')
    shape, fortran, dtype = np.lib.format.read_array_header_1_0(stream)
    kind = dtype.kind + str(dtype.itemsize)
    if dtype.hasobject or kind not in _KINDS or kind != _FIXED.get(name, kind) or dtype.byteorder == ">":
        raise FileError(path, f'"{name}" has the type {dtype}, which does not belong there')
    if math.prod(shape) * dtype.itemsize != len(data) - stream.tell():
        raise FileError(path, f'"{name}" has shape {shape}, which is not what follows')
    if name == "version" and shape != ():
        raise FileError(path, '"version" must be one number')
    values = np.frombuffer(data, dtype, offset=stream.tell())
    return values.reshape(shape, order="F" if fortran else "C")
