"""What readers and writers of files share: atomic writing, names that are not taken, and notes of what is left out."""

from __future__ import annotations

import os
import secrets
import stat
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from limberjack.errors import FileError, ModelWarning

__all__ = ["Notes", "Taken", "atomic_write"]


class Taken:
    """Names that are taken; in time proportional to their number, however many of them are equal."""

    def __init__(self, *names: str) -> None:
        self._next = dict.fromkeys(names, 2)

    def __contains__(self, name: str) -> bool:
        return name in self._next

    def take(self, name: str, between: str = "_") -> str:
        """Return `name`, with the next number after it where it is taken, and take it."""
        free, number = name, self._next.get(name, 2)
        while free in self._next:
            free, number = f"{name}{between}{number}", number + 1
        if free != name:
            self._next[name] = number
        self._next[free] = 2
        return free


class Notes:
    """Collects what a format, or the package, has no place for, and warns once per kind of it."""

    def __init__(self, path: str | Path) -> None:
        self._path, self._found = path, dict[str, list[str]]()

    def add(self, what: str, name: str) -> None:
        """Note that the thing called `name` falls under the warning `what`."""
        self._found.setdefault(what, []).append(name)

    def warn(self, stacklevel: int = 4) -> None:
        """Warn of all that was noted, at the caller so many calls up."""
        for what, names in self._found.items():
            shown = ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
            warnings.warn(ModelWarning(f"{self._path}: {what}{': ' if shown else ''}{shown}"), stacklevel=stacklevel)


def atomic_write(path: str | Path, data: bytes | Callable[[BinaryIO], None]) -> None:
    """Write `path` so that at every moment it holds either its old content or all of the new.

    The bytes go to a temporary file in the same folder and are flushed to the disk; that file is then renamed
    over the old one. Whatever fails, a full disk or an interrupt included, the old file stays whole and the
    temporary one is removed.

    Args:
        path: the file to make or replace; a symbolic link is followed, a device or folder is refused.
        data: the bytes, or a function that writes them to the open file it is given.
    """
    target, mode = _target(path)
    temporary = target.with_name(f".limberjack-{secrets.token_hex(8)}.tmp")
    try:
        _write(temporary, target, mode, data)
    except OSError as error:
        raise FileError(path, f"cannot write: {error.strerror or error}") from error


def _target(path: str | Path) -> tuple[Path, int | None]:
    """Return the real path and the permissions of the regular file there, None where there is none yet."""
    try:
        target = Path(os.path.realpath(path))
        mode = os.stat(target).st_mode
    except FileNotFoundError:
        return target, None
    except (OSError, ValueError) as error:
        raise FileError(path, f"cannot write: {getattr(error, 'strerror', None) or error}") from error
    if not stat.S_ISREG(mode):
        raise FileError(path, "is a folder" if stat.S_ISDIR(mode) else "is not a regular file")
    return target, stat.S_IMODE(mode)


def _write(temporary: Path, target: Path, mode: int | None, data: bytes | Callable[[BinaryIO], None]) -> None:
    try:
        # Not by tempfile, whose files only their owner may read.
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        with open(os.open(temporary, flags, 0o666), "wb") as file:
            if callable(data):
                data(file)
            else:
                file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if mode is not None:
            os.chmod(temporary, mode)
        os.replace(temporary, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    _sync_folder(target.parent)


def _sync_folder(folder: Path) -> None:
    """Flush the rename itself to the disk, where the system lets folders be opened."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
