"""The exceptions and warnings of Limberjack: one tree, every message names the thing, the value and the choices."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterable
from enum import IntEnum
from types import ModuleType
from typing import Any

__all__ = [
    "BudgetWarning",
    "ClusterLost",
    "Diverged",
    "EnergyWarning",
    "FileError",
    "LimberjackError",
    "LoopNotClosed",
    "MissingExtra",
    "ModelError",
    "ModelWarning",
    "StateError",
    "Status",
    "UnknownName",
    "UnsupportedByMethod",
    "UnsupportedVersion",
    "require",
]

_INDEX = 2**40  # indices of a status are smaller


class Status(IntEnum):
    """What a step returns to its driver: OK, or why it failed.

    A status is a member plus an index, where one goes with it: `Status.NOT_FINITE + 3`, in kernels as in Python;
    `Status.of` gives both back. Drivers repeat the step after MORE_ROWS, MORE_CONTACTS, IMPACT and NOT_CONVERGED; the
    others become exceptions. How a solver of `linear` ended (converged, exhausted, dependent rows, no room) is about
    numbers alone: it has codes of its own there, which the engines translate.
    """

    OK = 0
    NOT_FINITE = 1 * _INDEX  # a velocity; index: dof, velocity of the bodies, or link, as `Stepper.explain` knows
    POSE_NOT_FINITE = 2 * _INDEX  # a pose that contacts are searched at
    NO_INERTIA = 3 * _INDEX  # a joint has no inertia to act on; index: dof
    NO_LINK_INERTIA = 4 * _INDEX  # the inertia of a link is singular; index: link
    NO_SPRING_FORCES = 5 * _INDEX  # implicit springs have no solution
    OPEN_LOOP = 6 * _INDEX  # a loop joint cannot be closed; the gap and its row are in the report
    INFEASIBLE = 7 * _INDEX  # no forces satisfy the constraints
    MORE_ROWS = 8 * _INDEX  # more rows act at once than there is room for
    MORE_CONTACTS = 9 * _INDEX  # more contacts than there is room for
    IMPACT = 10 * _INDEX  # an impact on a rigid cluster: a region update precedes the step
    NOT_CONVERGED = 11 * _INDEX  # an iteration over a step did not converge: it is divided
    EVENT_REFUSED = 12 * _INDEX  # an event-driven collision that is not supported; index: 4 pair + reason

    @staticmethod
    def of(status: int) -> tuple[Status, int]:
        """Return the member and the index of a status."""
        index = int(status) % _INDEX
        return Status(int(status) - index), index


class LimberjackError(Exception):
    """Base of every error the package raises on purpose; goes from process to process whole."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Return what pickle builds the error from: its message and attributes, not what it was made from."""
        return _again, (type(self), self.args, self.__dict__)


def _again(kind: type[LimberjackError], args: tuple[Any, ...], attributes: dict[str, Any]) -> LimberjackError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(attributes)
    return error


class ModelError(LimberjackError, ValueError):
    """A model, scene or file describes something that cannot be."""


class FileError(ModelError):
    """A file is missing, unreadable or wrong; carries the path and, where known, the line."""

    def __init__(self, path: object, message: str, line: int | None = None) -> None:
        self.path, self.line = str(path), line
        where = f"{path}:{line}" if line else f"{path}"
        super().__init__(f"{where}: {message}")


class UnknownName(ModelError):
    """A name was asked for that the model, the registry or the file does not have."""

    def __init__(self, what: str, name: object, where: str, choices: Iterable[str]) -> None:
        self.name = name
        names = sorted(map(str, choices))
        close = difflib.get_close_matches(str(name), names, n=3)
        shown = ", ".join(names[:12]) + (f", ... ({len(names)} in all)" if len(names) > 12 else "")
        hint = f" (did you mean {' or '.join(close)}?)" if close and len(names) > 12 else ""
        plural = what[:-1] + "ies" if what.endswith("y") else what.removesuffix("s") + "s"
        super().__init__(f'no {what} "{name}" in {where}{hint}; {plural} are {shown or "none"}')


class StateError(LimberjackError, ValueError):
    """A state, an array or an option has the wrong shape or a value that is not allowed."""


class UnsupportedByMethod(LimberjackError):
    """The model has something the chosen method does not support."""


class LoopNotClosed(LimberjackError):
    """A loop joint is open by more than the tolerance."""


class Diverged(LimberjackError):
    """A step gave a state that is not finite, or energy far beyond the work done; the last good state is kept.

    Attributes:
        joint: name of the first joint whose state failed, or of the fastest.
        step: the step counter of the last good state.
        time: the time of the last good state [s].
    """

    def __init__(self, message: str, joint: str, step: int, time: float) -> None:
        self.joint, self.step, self.time = joint, step, time
        super().__init__(message)


class ClusterLost(LimberjackError, ConnectionError):
    """The scheduler of a cluster does not answer, or was lost; results until then are kept."""


class MissingExtra(LimberjackError, ImportError):
    """An optional dependency is needed and not installed."""


class UnsupportedVersion(LimberjackError, ImportError):
    """A dependency is installed in a version that is not supported."""

    def __init__(self, package: str, version: str, supported: str) -> None:
        self.package, self.version, self.supported = package, version, supported
        super().__init__(
            f'{package} {version} is installed, supported is {package}{supported}: pip install "{package}{supported}"'
        )


class ModelWarning(UserWarning):
    """Something in a model or file was repaired or left out; the message says what and where."""


class BudgetWarning(UserWarning):
    """More joints are simulated than the budget allows, because those of a loop move together or not at all."""


class EnergyWarning(UserWarning):
    """The energy of a simulation rose beyond the work done on it: the steps are probably too long."""


def require(module: str, extra: str) -> ModuleType:
    """Return the imported optional `module`, or raise `MissingExtra` naming the pip extra that brings it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtra(f'"{module}" is needed for this: pip install "limberjack[{extra}]"') from error
