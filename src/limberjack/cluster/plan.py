"""What a sweep is to do: its runs, their parameters and seeds, and the fingerprints that a resumed sweep is held to."""

from __future__ import annotations

import hashlib
import importlib.metadata
import inspect
import itertools
import json
import math
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from limberjack.errors import StateError

__all__ = ["Parameters", "Plan", "planned"]

Parameters = Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Any]] | int

# Packages whose version decides the bits of a result.
_DECISIVE = ("limberjack", "numpy", "numba", "llvmlite")
# More runs than this are a mistake in the grid.
_MOST_RUNS = 10_000_000


@dataclass(frozen=True)
class Plan:
    """The runs of a sweep.

    Attributes:
        function: its name, with its module.
        source: fingerprint of the function's source.
        seed: of the whole sweep.
        parameters: of each run.
        versions: of Python, the machine and the packages that decide the bits.
    """

    function: str
    source: str
    seed: int
    parameters: tuple[dict[str, Any], ...]
    versions: dict[str, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.parameters)

    def seed_of(self, run: int) -> int:
        """Return the seed of a run: a function of the sweep's seed and the run's index alone."""
        return int(np.random.SeedSequence((self.seed, run)).generate_state(1, np.uint64)[0] >> np.uint64(1))

    def differences(self, other: Plan) -> list[str]:
        """Return in words in what `other`, which is to be continued, differs from this plan."""
        out = []
        if (self.function, self.source) != (other.function, other.source):
            changed = "its source has changed" if self.function == other.function else f"now {self.function}"
            out.append(f"the function ({other.function}; {changed})")
        if self.seed != other.seed:
            out.append(f"the seed ({other.seed}; now {self.seed})")
        if self.parameters != other.parameters:
            out.append(f"the parameters ({len(other)} runs; now {len(self)})")
        for name in sorted({*self.versions, *other.versions}):
            old, new = other.versions.get(name, "none"), self.versions.get(name, "none")
            if old != new:
                out.append(f"{name} ({old}; now {new})")
        return out


def planned(function: Callable[..., Any], parameters: Parameters, seed: int, repeats: int) -> Plan:
    """Return the plan of a sweep; refuse parameters that the function does not take or that JSON cannot hold."""
    if not callable(function):
        raise StateError(f"function must be callable, got {function!r}")
    seed, repeats = _whole(seed, "seed", 0), _whole(repeats, "repeats", 1)
    runs = [dict(run) for run in _listed(parameters) for _ in range(repeats)]
    if not runs:
        raise StateError("a sweep needs at least one run, got no parameters")
    _require_accepted(function, runs[0])
    values = tuple(_plain(run, i) for i, run in enumerate(runs))
    name = f"{getattr(function, '__module__', '?')}.{getattr(function, '__qualname__', type(function).__name__)}"
    return Plan(name, _fingerprint(function), seed, values, _versions())


def _whole(value: Any, name: str, low: int) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < low:
        raise StateError(f"{name} must be a whole number >= {low}, got {value!r}")
    return int(value)


def _listed(parameters: Any) -> list[Mapping[str, Any]]:
    """Return the parameters of each run: of a grid, a list, or a number of runs that differ by their seed alone."""
    if isinstance(parameters, Mapping):
        for name, values in parameters.items():
            if isinstance(values, (str, bytes)) or not hasattr(values, "__len__"):
                raise StateError(f'parameter "{name}" of a grid takes a sequence of values, got {values!r}')
        count = math.prod(len(values) for values in parameters.values())
        if count > _MOST_RUNS:
            raise StateError(f"a grid of {count} runs is more than {_MOST_RUNS}")
        return [dict(zip(parameters, values, strict=True)) for values in itertools.product(*parameters.values())]
    if isinstance(parameters, (int, np.integer)):
        return [{}] * min(_whole(parameters, "parameters, as a number of runs,", 1), _MOST_RUNS)
    if isinstance(parameters, Sequence) and all(isinstance(run, Mapping) for run in parameters):
        return list(parameters)
    raise StateError(
        "parameters must be a mapping of names to sequences (a grid), a sequence of mappings, or a number of runs, "
        f"got {type(parameters).__name__}"
    )


def _require_accepted(function: Callable[..., Any], run: Mapping[str, Any]) -> None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return
    seeded = {"seed": 0} if "seed" in signature.parameters and "seed" not in run else {}
    try:
        signature.bind(**run, **seeded)
    except TypeError as error:
        raise StateError(f"{getattr(function, '__name__', function)}{signature} cannot be called so: {error}") from None


def _plain(run: Mapping[str, Any], index: int) -> dict[str, Any]:
    """Return parameters as JSON holds them; numbers of NumPy become Python's."""

    def number(value: Any) -> Any:
        if isinstance(value, np.generic):
            return value.item()
        if isinstance(value, np.ndarray):
            return value.tolist()
        raise TypeError(f"{type(value).__name__} is no number, text, list or mapping")

    for name in run:
        if not isinstance(name, str):
            raise StateError(f"names of parameters are texts, got {name!r} in run {index}")
    try:
        return json.loads(json.dumps(dict(run), default=number, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise StateError(
            f"the parameters of run {index} cannot be stored: {error}; give finite numbers, texts or lists"
        ) from None


def _fingerprint(function: Callable[..., Any]) -> str:
    """Return a hash of the source of a function, or of its code where there is no source."""
    try:
        text = inspect.getsource(function).encode()
    except (OSError, TypeError):
        code = getattr(function, "__code__", None) or getattr(type(function).__call__, "__code__", None)
        text = repr((code.co_code, code.co_consts, code.co_names)).encode() if code else repr(function).encode()
    return hashlib.sha256(text).hexdigest()


def _versions() -> dict[str, str]:
    out = {"python": platform.python_version(), "machine": platform.machine()}
    for name in _DECISIVE:
        try:
            out[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            out[name] = "not installed"
    return out
