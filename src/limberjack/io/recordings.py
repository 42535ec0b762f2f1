"""Recordings (.ljr): a run written while it goes on, which survives the death of the process and can be replayed.

A file is one line that names format and version, then records: kind (1 byte), length and CRC-32 (4 bytes each, little
endian), content. The CRC covers kind, length and content. Kinds:

- H: the simulation at the start, as `state_files.dumps` writes it; always first;
- F: a frame: step, time, q and qd, after the CRC-32 of q and qd of every step since the frame before;
- I: what was set from outside after the frame before: arrays of the snapshot that changed, options, the clock;
- S: the SHA-256 of everything that feeds the next step (`Simulation.state_hash`), every second of simulated time;
- D: the run diverged: frames later than this time are not part of it;
- E: the end.

Each record is one write to the end of the file, so that a process that dies leaves whole records and at most one torn
one; every second they are flushed to the disk. A reader cuts a torn tail; damage before it is refused by its place.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from limberjack.errors import FileError, LimberjackError
from limberjack.io import state_files
from limberjack.io.files import atomic_write
from limberjack.io.xml import read_bytes
from limberjack.simulation.simulation import Simulation, Snapshot
from limberjack.simulation.trajectory import Trajectory

__all__ = ["FORMAT", "VERSION", "Divergence", "RecordingWriter", "Replay", "read_trajectory", "replay"]

FORMAT = "limberjack-recording"
VERSION = 1
_START, _FRAME, _INPUT, _HASH, _DIVERGED, _END = b"HFISDE"
_HEAD = struct.Struct("<BII")
_MOMENT = struct.Struct("<qd")
_LARGEST = 4 * 1024**3
# Types of arrays in inputs: those of snapshots.
_TYPES = ("<f8", "<i8", "<i4", "|u1", "|b1")


# -- out -------------------------------------------------------------------------------------------


class RecordingWriter:
    """Writes a run of a simulation to a file, from its present state on; `close` it at the end.

    A file that is there already is replaced by the new one with its first record in it.
    """

    def __init__(self, sim: Simulation, path: str | Path) -> None:
        self._sim, self._path = sim, Path(path)
        line = f"{FORMAT} {VERSION}\n".encode()
        first = _record(_START, state_files.dumps(sim))
        atomic_write(self._path, line + first)
        try:
            self._file = os.open(self._path, os.O_WRONLY | os.O_APPEND | getattr(os, "O_BINARY", 0))
        except OSError as error:
            raise FileError(path, f"cannot write: {error.strerror or error}") from error
        self._size = len(line) + len(first)
        self._checks: list[int] = []
        self._hashed = sim.time
        self._frame()

    def take(self, n: int) -> None:
        """Take n steps, and write the frame that they end in."""
        for _ in range(n):
            self._sim.step()
            self._checks.append(_check(self._sim))
        self._frame()

    def call(self, callback: Callable[[Simulation], None]) -> None:
        """Call what may set things from outside, and write what it has set."""
        before, method = self._sim.snapshot(), self._sim.method
        callback(self._sim)
        self._note(before, method)

    def _frame(self) -> None:
        """Write a frame, and once a second the hash."""
        sim = self._sim
        checks = np.array(self._checks, "<u4").tobytes()
        content = _MOMENT.pack(sim.steps, sim.time) + struct.pack("<I", len(self._checks)) + checks
        self._write(_FRAME, content + sim.q.astype("<f8").tobytes() + sim.qd.astype("<f8").tobytes())
        self._checks.clear()
        if sim.time - self._hashed >= 1.0 - 1e-9:
            self._hash()

    def _note(self, before: Snapshot, method: Any) -> None:
        """Write what has been set since a snapshot was taken."""
        sim, after = self._sim, self._sim.snapshot()
        old, new = before.arrays, after.arrays
        changed = {name: array for name, array in new.items() if name not in old or not _same(array, old[name])}
        removed = [name for name in old if name not in new]
        clock = {name: getattr(after, name) for name in ("steps", "base_steps", "base_time", "dt")}
        stays = all(getattr(before, name) == value for name, value in clock.items())
        if not changed and not removed and stays and sim.method is method:
            return
        kept = {name: a.astype(a.dtype.newbyteorder("<"), order="C", copy=False) for name, a in changed.items()}
        head: dict[str, Any] = {
            "clock": {name: state_files.plain(value, name) for name, value in clock.items()},
            "arrays": [[name, array.dtype.str, list(array.shape)] for name, array in kept.items()],
            "removed": removed,
        }
        if sim.method is not method:
            head["options"] = _tuned(method, sim.method)
        text = json.dumps(head).encode()
        self._write(_INPUT, struct.pack("<I", len(text)) + text + b"".join(array.tobytes() for array in kept.values()))

    def diverged(self) -> None:
        """Say that what was recorded later than the present state of the simulation led out of bounds."""
        self._write(_DIVERGED, _MOMENT.pack(self._sim.steps, self._sim.time))

    def close(self, ended: bool = False) -> None:
        """Write the last hash and close the file; `ended`: the run came to its end."""
        try:
            if ended:
                self._hash()
                self._write(_END, b"")
        finally:
            os.close(self._file)

    def _hash(self) -> None:
        sim = self._sim
        self._write(_HASH, struct.pack("<q", sim.steps) + bytes.fromhex(sim.state_hash()))
        self._hashed = sim.time
        os.fsync(self._file)

    def _write(self, kind: int, content: bytes) -> None:
        record = _record(kind, content)
        try:
            written = os.write(self._file, record)
            if written < len(record):  # the disk is full
                os.write(self._file, record[written:])
        except OSError as error:
            os.ftruncate(self._file, self._size)
            what = f"cannot write: {error.strerror or error}; what was recorded before is kept"
            raise FileError(self._path, what) from error
        self._size += len(record)


def _record(kind: int, content: bytes) -> bytes:
    if len(content) >= 2**32:
        raise LimberjackError(f"a record of {len(content)} bytes is too large for a recording")
    head = struct.pack("<BI", kind, len(content))
    return _HEAD.pack(kind, len(content), zlib.crc32(content, zlib.crc32(head))) + content


def _check(sim: Simulation) -> int:
    stepper = sim._stepper  # pyright: ignore[reportPrivateUsage]
    return zlib.crc32(stepper.qd.tobytes(), zlib.crc32(stepper.q.tobytes()))


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()


def _tuned(before: Any, after: Any) -> dict[str, Any]:
    """Return the options in which two methods of one kind differ."""
    pairs = {name: (getattr(before, name), getattr(after, name)) for name in after.__dataclass_fields__}
    return {name: state_files.plain(new, name) for name, (old, new) in pairs.items() if old is not new}


# -- in --------------------------------------------------------------------------------------------


class _Frame(NamedTuple):
    step: int
    time: float
    checks: np.ndarray
    q: np.ndarray
    qd: np.ndarray


class _Input(NamedTuple):
    clock: dict[str, Any]
    options: dict[str, Any]
    arrays: dict[str, np.ndarray]
    removed: list[str]


class _Hash(NamedTuple):
    step: int
    digest: str


@dataclass
class _Recording:
    """What a file holds: the simulation at the start, and what happened from then on."""

    path: Path
    sim: Simulation
    entries: list[_Frame | _Input | _Hash]
    ended: bool
    cut: int  # bytes of a torn tail

    @property
    def frames(self) -> list[_Frame]:
        return [entry for entry in self.entries if isinstance(entry, _Frame)]


def _read(path: str | Path) -> _Recording:
    path = Path(path)
    data = read_bytes(path, _LARGEST)
    line, newline, _ = data[:64].partition(b"\n")
    word, _, version = line.decode("ascii", "replace").partition(" ")
    if word != FORMAT or not newline:
        raise FileError(path, f'is not a recording: it does not begin with "{FORMAT}"')
    if version != str(VERSION):
        raise FileError(path, f"has version {version[:20]}; this release reads version {VERSION}")
    records = _records(path, data, len(line) + 1)
    first = next(records, None)
    if first is None or first[0] != _START:
        raise FileError(path, "is cut short: its first record is not whole")
    found = _Recording(path, state_files.loads(first[1], path), [], False, 0)
    end = first[2]
    for kind, content, end in records:
        if kind in (_START, *_READERS, _DIVERGED, _END) and found.ended:
            raise FileError(path, f"is damaged: records after its end at byte {end - len(content)}")
        try:
            if kind == _DIVERGED:
                _, time = _MOMENT.unpack(content)
                found.entries = list(_until(found.entries, time))
                found.ended = True
            elif kind == _END and not content:
                found.ended = True
            else:
                found.entries.append(_READERS[kind](found.sim, content))
        except (LookupError, ValueError, TypeError, AttributeError, struct.error, RecursionError) as error:
            what = f"is damaged: the record that ends at byte {end} makes no sense: {error}"
            raise FileError(path, what) from error
    found.cut = len(data) - end
    return found


def _records(path: Path, data: bytes, at: int) -> Iterator[tuple[int, bytes, int]]:
    """Yield kind, content and end of each record up to a torn tail."""
    while at + _HEAD.size <= len(data):
        kind, length, crc = _HEAD.unpack_from(data, at)
        begin, end = at + _HEAD.size, at + _HEAD.size + length
        if end > len(data):
            # Torn, or a length that was changed: then whole records follow.
            if any(_is_whole(data, k) for k in range(at + 1, min(len(data) - _HEAD.size, at + 2**16))):
                raise FileError(path, f"is damaged at byte {at}: a record has a wrong length")
            return
        content = data[begin:end]
        if zlib.crc32(content, zlib.crc32(data[at : at + 5])) != crc:
            if not any(data[end:]):
                return  # the last record is torn: a lost block of the disk reads as zeros
            raise FileError(path, f"is damaged at byte {at}: a record does not have the CRC it was written with")
        yield kind, content, end
        at = end


def _is_whole(data: bytes, at: int) -> bool:
    if data[at] not in b"FISDE":
        return False
    _, length, crc = _HEAD.unpack_from(data, at)
    end = at + _HEAD.size + length
    return end <= len(data) and zlib.crc32(data[at + _HEAD.size : end], zlib.crc32(data[at : at + 5])) == crc


def _until(entries: list[Any], time: float) -> Iterator[Any]:
    """Yield the entries up to the last frame that is not later than `time`, the first at least."""
    last = max((k for k, e in enumerate(entries) if isinstance(e, _Frame) and e.time <= time), default=0)
    yield from entries[: last + 1]


def _frame_of(sim: Simulation, content: bytes) -> _Frame:
    step, time = _MOMENT.unpack_from(content)
    (count,) = struct.unpack_from("<I", content, _MOMENT.size)
    at = _MOMENT.size + 4
    nq, nv = sim.model.nq, sim.model.nv
    if len(content) != at + 4 * count + 8 * (nq + nv):
        raise ValueError(f"a frame of {len(content)} bytes")
    checks = np.frombuffer(content, "<u4", count, at)
    numbers = np.frombuffer(content, "<f8", nq + nv, at + 4 * count)
    return _Frame(step, time, checks, numbers[:nq], numbers[nq:])


def _input_of(sim: Simulation, content: bytes) -> _Input:
    (length,) = struct.unpack_from("<I", content)
    head, at = json.loads(content[4 : 4 + length]), 4 + length
    arrays: dict[str, np.ndarray] = {}
    for name, kind, shape in head["arrays"]:
        if kind not in _TYPES or not all(type(n) is int and n >= 0 for n in shape):
            raise ValueError(f'"{name}" has type {kind} and shape {shape}')
        dtype, count = np.dtype(kind), int(np.prod(shape, dtype=object))
        if at + count * dtype.itemsize > len(content):
            raise ValueError(f'"{name}" is longer than its record')
        arrays[str(name)] = np.frombuffer(content, dtype, count, at).reshape(shape)
        at += count * dtype.itemsize
    clock = {str(name): state_files.value_of(value) for name, value in head["clock"].items()}
    options = {str(name): state_files.value_of(value) for name, value in head.get("options", {}).items()}
    return _Input(clock, options, arrays, [str(name) for name in head["removed"]])


def _hash_of(sim: Simulation, content: bytes) -> _Hash:
    if len(content) != 40:
        raise ValueError(f"a hash of {len(content)} bytes")
    return _Hash(struct.unpack_from("<q", content)[0], content[8:].hex())


_READERS: dict[int, Callable[[Simulation, bytes], Any]] = {_FRAME: _frame_of, _INPUT: _input_of, _HASH: _hash_of}


def read_trajectory(path: str | Path) -> Trajectory:
    """Return the motion in a recording, up to its last whole frame."""
    found = _read(path)
    frames = found.frames
    if not frames:
        raise FileError(path, "is cut short: it holds no whole frame")
    try:
        times, q, qd = ([getattr(frame, name) for frame in frames] for name in ("time", "q", "qd"))
        return Trajectory(found.sim.model, np.array(times), np.array(q), np.array(qd))
    except LimberjackError as error:
        raise FileError(path, str(error)) from error


# -- again -----------------------------------------------------------------------------------------


class Divergence(NamedTuple):
    """Where a replay first differs from its recording."""

    step: int  # the first step that ends in another state
    time: float  # its end [s]
    what: str  # what differs


@dataclass(frozen=True)
class Replay:
    """What a replay found.

    Attributes:
        sim: the simulation at the end of the replay.
        steps: how many were compared, all of them by their coordinates and velocities.
        hashes: how many states were compared whole.
        divergence: the first step that differs, or None.
        ended: whether the recording came to its end; else its process died.
        cut: bytes of a torn last record that were left out.
    """

    sim: Simulation
    steps: int
    hashes: int
    divergence: Divergence | None
    ended: bool
    cut: int


def replay(path: str | Path, tick: Callable[[int], None] | None = None) -> Replay:
    """Simulate a recording again and compare every step with it; stop at the first that differs.

    Args:
        path: the file, written by `sim.run(..., record=path)`.
        tick: called with the number of steps taken since its last call.
    """
    found = _read(path)
    sim, hashes, divergence = found.sim, 0, None
    # Its snapshots begin elsewhere here: what it would stop was stopped when it was recorded.
    sim.energy_watch = False
    begin = sim.steps
    for entry in found.entries:
        if isinstance(entry, _Frame):
            before = sim.steps
            divergence = _again(sim, entry)
            if tick is not None:
                tick(sim.steps - before)
        elif isinstance(entry, _Input):
            _apply(found.path, sim, entry)
        else:
            hashes += 1
            if entry.step != sim.steps or entry.digest != sim.state_hash():
                what = "the coordinates are equal, but not all that feeds the next step"
                divergence = Divergence(sim.steps, sim.time, what)
        if divergence is not None:
            break
    return Replay(sim, sim.steps - begin, hashes, divergence, found.ended, found.cut)


def _again(sim: Simulation, frame: _Frame) -> Divergence | None:
    """Take the steps up to a frame; return the first that differs."""
    try:
        for check in frame.checks.tolist():
            sim.step()
            if _check(sim) != check:
                at_end = sim.steps == frame.step
                return Divergence(sim.steps, sim.time, _differs(sim, frame) if at_end else "coordinates or velocities")
    except LimberjackError as error:
        return Divergence(sim.steps + 1, sim.time + sim.dt, f"fails now: {error}")
    if sim.steps != frame.step or not (_same(sim.q, frame.q) and _same(sim.qd, frame.qd)):
        return Divergence(sim.steps, sim.time, _differs(sim, frame))
    return None


def _differs(sim: Simulation, frame: _Frame) -> str:
    """Return which dof differs most and by how much."""
    gap = np.abs(sim.qd - frame.qd)
    if not gap.size or not gap.max() > 0.0:
        return "coordinates"
    worst = int(np.argmax(gap))
    return f'the velocity of "{sim.model.dof_name(worst)}" differs by {gap[worst]:.3g}'


def _apply(path: Path, sim: Simulation, entry: _Input) -> None:
    """Set what was set from outside."""
    try:
        if entry.options:
            sim.tune(**entry.options)
        state = sim.snapshot().arrays | entry.arrays
        state_files.continued(sim, entry.clock, {k: v for k, v in state.items() if k not in entry.removed})
    except (LimberjackError, LookupError, TypeError, ValueError, ArithmeticError) as error:
        raise FileError(path, f"an input at t = {sim.time:.6g} s cannot be repeated: {error}") from error
