"""Saved simulations: model, method and everything that enters the next step, so that a run resumes bit for bit.

The .npz (see `npz.py`) holds `format`, `model` (native JSON) and `header` (JSON) as UTF-8 bytes, `version`, one array
`state.NAME` for each of the snapshot, and `sha256` of all of them. The header names the method with its options, the
ignored features and the clock; its floats are written as hexadecimal text, so no digit is lost.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from limberjack.errors import FileError, LimberjackError, ModelWarning, StateError
from limberjack.io import native, npz
from limberjack.methods import METHODS, method_of
from limberjack.methods.adaptive.options import View
from limberjack.model.model import Model
from limberjack.simulation.simulation import Simulation, Snapshot
from limberjack.simulation.snapshots import restore_rows

__all__ = ["FORMAT", "LAYOUT", "VERSION", "continued", "dumps", "loads", "plain", "read", "value_of", "write"]

FORMAT = "limberjack-simulation"
VERSION = 1
LAYOUT = npz.Layout(
    what="saved simulation",
    format=FORMAT,
    version=VERSION,
    largest=4 * 1024**3,
    arrays={"model": ("u1", 1), "header": ("u1", 1), "sha256": ("u1", 1)},
    prefix="state.",
)

_CLOCK = ("steps", "base_steps", "base_time", "dt")


# -- out -------------------------------------------------------------------------------------------


def write(sim: Simulation, path: str | Path) -> None:
    """Write `sim` atomically; `read` restores it."""
    npz.write(path, _arrays(sim))


def dumps(sim: Simulation) -> bytes:
    """Return the bytes that `write` writes; `loads` restores them."""
    return npz.dumps(_arrays(sim))


def _arrays(sim: Simulation) -> dict[str, np.ndarray]:
    snapshot = sim.snapshot()
    header = {
        "method": sim.method.name,
        "options": _options(sim.method),
        "ignore": list(sim.ignored),
        "clock": {name: plain(getattr(snapshot, name), name) for name in _CLOCK},
        "compiled": _fingerprint(sim.model),
    }
    arrays = npz.head(LAYOUT)
    arrays |= {"model": npz.from_text(native.dumps(sim.model)), "header": npz.from_text(json.dumps(header))}
    for name, array in snapshot.arrays.items():
        arrays[f"state.{name}"] = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False)
    arrays["sha256"] = np.frombuffer(_digest(arrays), np.uint8)
    return arrays


def _options(method: Any) -> dict[str, Any]:
    """Return the options of a method as JSON types; refuse those that a file cannot hold."""
    name = method.name
    if name not in METHODS or type(method) is not type(method_of(name)):
        raise StateError(f'method "{name}" cannot be saved: it is none of {", ".join(METHODS)}')
    what = f'option "{{}}" of method "{name}"'
    return {f.name: plain(getattr(method, f.name), what.format(f.name)) for f in dataclasses.fields(method)}


def plain(value: Any, what: str) -> Any:
    """Return `value` as JSON types: floats as {"hex": ...}, tuples and arrays as lists, mappings as {"map": ...}."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)):
        return {"hex": float(value).hex()}
    if isinstance(value, (tuple, list, np.ndarray)):
        return [plain(x, what) for x in value]
    if isinstance(value, Mapping):
        return {"map": {str(key): plain(x, what) for key, x in value.items()}}
    if isinstance(value, View):
        return {"view": {f.name: plain(getattr(value, f.name), what) for f in dataclasses.fields(value)}}
    raise StateError(f"{what} cannot be saved: a file cannot hold a {type(value).__name__}")


def _digest(arrays: dict[str, np.ndarray]) -> bytes:
    """Return the SHA-256 of all arrays but itself: names, types, shapes and bits."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        if name != "sha256":
            array = arrays[name]
            digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
            digest.update(np.ascontiguousarray(array).tobytes())
    return digest.digest()


# Fields whose names in fingerprints differ: files must stay readable when names in the code change.
_FIELD_NAMES = {
    ".links.factor_indices": ".links.factor_place",
    ".drives.indices": ".drives.place",
    ".drives.ball_indices": ".drives.ball_place",
}


def _fingerprint(model: Model) -> str:
    """Return a hash of the arrays that the model compiles to: equal arrays give steps equal to the last bit."""
    digest = hashlib.sha256()
    parts = {part.name: getattr(model.arrays, part.name) for part in dataclasses.fields(model.arrays)}
    for name, array in _leaves("", parts):
        word = _FIELD_NAMES.get(name, name)
        digest.update(f"{word} {array.dtype.str} {array.shape}\n".encode() + np.ascontiguousarray(array).tobytes())
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
    return _restored(npz.read(path, LAYOUT), path)


def loads(data: bytes, path: Path) -> Simulation:
    """Return the simulation that `dumps` wrote; `path` names the file that it is part of."""
    return _restored(npz.loads(data, path, LAYOUT), path)


def continued(sim: Simulation, clock: Mapping[str, Any], state: dict[str, np.ndarray]) -> None:
    """Set a simulation to a clock and the arrays of a snapshot from a file, after checks that protect the kernels."""
    snapshot = _snapshot(dict(clock), state)
    time = snapshot.base_time + (snapshot.steps - snapshot.base_steps) * snapshot.dt
    sim.restore(dataclasses.replace(snapshot, arrays=_checked(state, sim, time)))


def _restored(arrays: dict[str, np.ndarray], path: Path) -> Simulation:
    if _digest(arrays) != arrays["sha256"].tobytes():
        raise FileError(path, "is damaged: its content does not have the SHA-256 it was written with")
    model = native.loads(arrays["model"].tobytes(), path)
    try:
        header = json.loads(arrays["header"].tobytes())
        clock = {name: value_of(header["clock"][name]) for name in _CLOCK}
        options = {str(name): value_of(value) for name, value in header["options"].items()}
        method = type(method_of(str(header["method"])))(**options)
        sim = Simulation(model, method, dt=clock["dt"], ignore=[str(word) for word in header["ignore"]])
        state = {name.removeprefix("state."): array for name, array in arrays.items() if name.startswith("state.")}
        continued(sim, clock, state)
        compiled = str(header["compiled"])
    except (
        LimberjackError, ArithmeticError, LookupError, TypeError, ValueError, AttributeError, RecursionError,
    ) as error:  # fmt: skip
        text = str(error) if isinstance(error, LimberjackError) else f"{type(error).__name__}: {error}"
        raise FileError(path, f"cannot be resumed: {text}") from error
    if compiled != _fingerprint(model):
        text = "was written by another release or machine, whose model differs in its last bits"
        warnings.warn(ModelWarning(f"{path}: {text}: it goes on, but not bit for bit"), stacklevel=3)
    return sim


def value_of(value: Any) -> Any:
    """Return the value that `plain` converted; lists become tuples."""
    if isinstance(value, dict) and "map" in value:
        return {str(key): value_of(x) for key, x in value["map"].items()}
    if isinstance(value, dict) and "view" in value:
        return View(**{str(key): value_of(x) for key, x in value["view"].items()})
    if isinstance(value, dict):
        return float.fromhex(value["hex"])
    return tuple(map(value_of, value)) if isinstance(value, list) else value


def _snapshot(clock: dict[str, Any], state: dict[str, np.ndarray]) -> Snapshot:
    steps, base_steps, base_time = clock["steps"], clock["base_steps"], clock["base_time"]
    if type(steps) is not int or type(base_steps) is not int or not 0 <= base_steps <= steps < 2**62:
        raise StateError(f"steps {steps!r} counted from {base_steps!r} is no step counter")
    if type(base_time) is not float or not math.isfinite(base_time):
        raise StateError(f"base_time must be a finite number, got {base_time!r}")
    return Snapshot(steps, base_steps, base_time, clock["dt"], state)


def _checked(state: dict[str, np.ndarray], sim: Simulation, time: float) -> dict[str, np.ndarray]:
    """Return the arrays of a snapshot after checks that protect the kernels.

    `restore` compares the names and shapes. Here: types, indices in range, and a valid state.
    """
    if any(np.isnan(array).any() for array in state.values() if array.dtype.kind == "f"):
        raise StateError("a number is NaN")
    for name in ("q", "qd", "tau"):  # before joints made while running, whose gaps are still being closed
        if name in state and state[name].shape == getattr(sim, name).shape:
            setattr(sim, name, state[name])  # finite, unit quaternions: the rules of the setters
    restore_rows(sim, state, time)
    sim._kinematic.restore(sim.model, state)
    sim._kinematic.apply(sim)
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
    # Kernels take writable arrays; those read from a file are not.
    return {name: array.copy() for name, array in state.items()}
