"""The exceptions and warnings of Limberjack: one tree, every message names the thing, the value and the choices."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterable
from types import ModuleType

__all__ = [
    "Diverged",
    "FileError",
    "LimberjackError",
    "LoopNotClosed",
    "MissingExtra",
    "ModelError",
    "ModelWarning",
    "StateError",
    "UnknownName",
    "UnsupportedByMethod",
    "UnsupportedVersion",
    "require",
]


class LimberjackError(Exception):
    """Base of every error the package raises on purpose; goes from process to process whole."""

    def __reduce__(self) -> tuple:
        """Return what pickle builds the error from: its message and attributes, not what it was made from."""
        return _again, (type(self), self.args, self.__dict__)


def _again(kind: type[LimberjackError], args: tuple, attributes: dict) -> LimberjackError:
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
        plural = what[:-1] + "ies" if what.endswith("y") else what + "s"
        super().__init__(f'no {what} "{name}" in {where}{hint}; {plural} are {shown or "none"}')


class StateError(LimberjackError, ValueError):
    """A state, an array or an option has the wrong shape or a value that is not allowed."""


class UnsupportedByMethod(LimberjackError):
    """The model has something the chosen method cannot honour."""


class LoopNotClosed(LimberjackError):
    """A loop joint is open by more than the tolerance."""


class Diverged(LimberjackError):
    """A step gave a state that is not finite; the last good state is kept.

    Attributes:
        joint: name of the first joint whose state failed.
        step: the step counter of the last good state.
        time: the time of the last good state [s].
    """

    def __init__(self, message: str, joint: str, step: int, time: float) -> None:
        self.joint, self.step, self.time = joint, step, time
        super().__init__(message)


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


def require(module: str, extra: str) -> ModuleType:
    """Return the imported optional `module`, or raise `MissingExtra` naming the pip extra that brings it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtra(f'"{module}" is needed for this: pip install "limberjack[{extra}]"') from error
