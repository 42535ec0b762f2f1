"""The folder of a sweep: `sweep.json` says what is to be done, `runs.jsonl` what has been done, one NPZ per run.

Everything is written by one process, the one that calls `sweep`; a run counts as done when its line is in `runs.jsonl`,
which is appended after its NPZ is whole on the disk. So whatever is lost, a worker, the scheduler, this process, the
folder tells what is left to do.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from limberjack.cluster.plan import Plan
from limberjack.errors import FileError, StateError, UnknownName, require
from limberjack.io.files import atomic_write

__all__ = ["Sweep"]

_PLAN, _DONE = "sweep.json", "runs.jsonl"
_FORMAT, _VERSION = "limberjack sweep", 1
_LARGEST = 2**30  # bytes of a plan or list of runs


class Sweep:
    """The results of a sweep, finished or not; made by `sweep` and by `Sweep(folder)`.

    Attributes:
        folder: where everything is.
        plan: what is to be done.
        failures: run -> what its function raised.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.plan = _read_plan(self.folder / _PLAN)
        self._done: dict[int, dict[str, Any]] = {}
        self.failures: dict[int, str] = {}
        self._torn = False  # the last line was cut off, if the process that wrote it was killed
        path = self.folder / _DONE
        if path.is_file():
            data = _bytes(path)
            self._torn = data[-1:] not in (b"", b"\n")
            for line in _lines(path, data):
                self._enter(line)

    @classmethod
    def begun(cls, folder: str | Path, plan: Plan, *, resume: bool) -> Sweep:
        """Return the sweep in `folder`, made there where there is none; refuse one that is of another plan."""
        folder = Path(folder)
        if (folder / _PLAN).exists():
            sweep = cls(folder)
            if not resume:
                raise FileError(folder, "has a sweep already; continue it with resume, or give another folder")
            differences = plan.differences(sweep.plan)
            if differences:
                raise FileError(
                    folder, f"has a sweep that differs in {'; '.join(differences)}: give another folder for this one"
                )
            return sweep
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FileError(folder, f"cannot be made: {error.strerror or error}") from error
        text = json.dumps({"format": _FORMAT, "version": _VERSION, **asdict(plan)})
        atomic_write(folder / _PLAN, text.encode())
        return cls(folder)

    def __len__(self) -> int:
        return len(self.plan)

    def __repr__(self) -> str:
        failed = f", {len(self.failures)} failed" if self.failures else ""
        return f'Sweep("{self.folder}": {len(self._done)} of {len(self)} runs done{failed})'

    @property
    def done(self) -> tuple[int, ...]:
        """The runs that have a result, in their order."""
        return tuple(sorted(self._done))

    @property
    def left(self) -> tuple[int, ...]:
        """The runs that have neither a result nor failed, in their order."""
        return tuple(run for run in range(len(self)) if run not in self._done and run not in self.failures)

    def result(self, run: int) -> dict[str, np.ndarray]:
        """Return the arrays of a run; refuse a file that is not the one that was written."""
        if run not in self._done:
            reason = f"it failed: {self.failures[run]}" if run in self.failures else "it has not been done"
            raise StateError(f"run {run} has no result: {reason}")
        path = self.folder / self._done[run]["file"]
        try:
            data = path.read_bytes()
        except OSError as error:
            raise FileError(path, f"cannot be read: {error.strerror or error}") from error
        if hashlib.sha256(data).hexdigest() != self._done[run]["sha256"]:
            raise FileError(path, f"is not what run {run} wrote: its checksum differs; delete it to repeat the run")
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}

    def results(self) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
        """Yield run and arrays of each run that is done."""
        for run in self.done:
            yield run, self.result(run)

    def table(self) -> np.ndarray:
        """Return one record per run that is done: `run`, `seed`, its parameters, and results that are one value."""
        rows = [self._row(run, arrays) for run, arrays in self.results()]
        names = list(dict.fromkeys(name for row in rows for name in row))
        columns = {name: _column([row.get(name) for row in rows]) for name in names}
        table = np.empty(len(rows), [(name, column.dtype) for name, column in columns.items()])
        for name, column in columns.items():
            table[name] = column
        return table

    def frame(self) -> Any:
        """Return `table` as a pandas DataFrame with the runs as its index; needs pandas."""
        pandas = require("pandas", extra="cluster")
        return pandas.DataFrame.from_records(self.table(), index="run") if self._done else pandas.DataFrame()

    def _row(self, run: int, arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
        single = {name: array.item() for name, array in arrays.items() if array.ndim == 0}
        return {"run": run, "seed": self.plan.seed_of(run), **self.plan.parameters[run], **single}

    def add(self, run: int, arrays: Mapping[str, np.ndarray]) -> None:
        """Store the result of a run: its NPZ first, then its line."""
        buffer = io.BytesIO()
        np.savez(buffer, allow_pickle=False, **dict(arrays))
        data = buffer.getvalue()
        name = f"run-{run:0{len(str(len(self) - 1))}d}.npz"
        atomic_write(self.folder / name, data)
        self._append({"run": run, "file": name, "sha256": hashlib.sha256(data).hexdigest()})

    def fail(self, run: int, message: str) -> None:
        """Note that the function raised for this run."""
        self._append({"run": run, "error": message})

    def forget_failures(self) -> None:
        """Leave the runs that failed to be done again."""
        self.failures.clear()

    def _append(self, line: dict[str, Any]) -> None:
        path = self.folder / _DONE
        try:
            with open(path, "ab") as file:
                file.write(b"\n" * self._torn + json.dumps(line).encode() + b"\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise FileError(path, f"cannot write: {error.strerror or error}") from error
        self._torn = False
        self._enter(line)

    def _enter(self, line: dict[str, Any]) -> None:
        run = line["run"]
        if "error" in line:
            self.failures[run] = line["error"]
        elif (self.folder / line["file"]).is_file():
            self._done[run] = line
            self.failures.pop(run, None)


def _read_plan(path: Path) -> Plan:
    if not path.is_file():
        raise FileError(path, "no such file: the folder has no sweep")
    try:
        data = json.loads(_bytes(path))
    except ValueError as error:
        raise FileError(path, f"is not a whole sweep: {error}") from error
    if not isinstance(data, dict) or data.pop("format", None) != _FORMAT:
        raise FileError(path, "is not a sweep")
    version = data.pop("version", None)
    if version != _VERSION:
        raise FileError(path, f"has version {version!r}; this program reads version {_VERSION}")
    needed = {"function": str, "source": str, "seed": int, "parameters": list, "versions": dict}
    for name, kind in needed.items():
        if not isinstance(data.get(name), kind):
            raise FileError(path, f'is not a whole sweep: "{name}" is missing or of another kind')
    for name in data.keys() - needed.keys():
        raise UnknownName("entry", name, str(path), needed)
    if not all(isinstance(run, dict) for run in data["parameters"]):
        raise FileError(path, "is not a whole sweep: the parameters of a run are a mapping")
    return Plan(**{**data, "parameters": tuple(data["parameters"])})


def _bytes(path: Path) -> bytes:
    try:
        if path.stat().st_size > _LARGEST:
            raise FileError(path, "is larger than 1 GB")
        return path.read_bytes()
    except OSError as error:
        raise FileError(path, f"cannot be read: {error.strerror or error}") from error


def _lines(path: Path, data: bytes) -> Iterator[dict[str, Any]]:
    """Yield the lines of the list of runs."""
    for number, text in enumerate(data.split(b"\n"), 1):
        try:
            line = json.loads(text)
        except ValueError:
            continue  # torn by a kill: the run it would have told of is done again
        named = isinstance(line, dict) and isinstance(line.get("run"), int)
        told = named and (isinstance(line.get("error"), str) or _is_file_name(line.get("file")))
        if not told:
            raise FileError(path, "is not a line of a sweep", number)
        yield line


def _is_file_name(name: Any) -> bool:
    return isinstance(name, str) and name == Path(name).name and name.endswith(".npz")


def _column(values: list[Any]) -> np.ndarray:
    """Return one column; values that are missing are nan among numbers, empty among texts."""
    if any(isinstance(value, (list, dict)) for value in values):
        return np.array(["" if value is None else json.dumps(value) for value in values])
    if any(isinstance(value, str) for value in values):
        return np.array(["" if value is None else str(value) for value in values])
    if any(value is None for value in values):
        return np.array([np.nan if value is None else float(value) for value in values])
    return np.array(values)
