"""Arguments and output of the command line: NAME=VALUE, lines, grids, warnings, errors."""

from __future__ import annotations

import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tyro

from limberjack import _registry
from limberjack.errors import FileError, LimberjackError, ModelWarning, StateError

__all__ = [
    "arg",
    "check_output",
    "check_place",
    "clean",
    "collected",
    "console",
    "ended_like_interrupted",
    "failed",
    "grid",
    "listed",
    "maybe",
    "say",
    "setting",
    "shown",
    "tell",
    "warn",
]

_SHOWN_WARNINGS = 5


def maybe(make: type) -> Any:
    """Return the parsing rule of an optional argument."""
    return tyro.constructors.PrimitiveConstructorSpec(
        nargs=1,
        metavar=make.__name__.upper(),
        instance_from_str=lambda words: make(words[0]),
        is_instance=lambda value: value is None or isinstance(value, make),
        str_from_instance=lambda value: [str(value)],
    )


def arg(metavar: str, otherwise: str = "") -> Any:
    """Return the help display of an argument; `otherwise` describes its default."""
    return tyro.conf.arg(metavar=metavar, help_behavior_hint=otherwise and f"(default: {otherwise})")


def clean(text: object) -> str:
    """Return `text` with control characters escaped: names come from files."""
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in str(text))


def console() -> Any:
    """Return a console that shows text as it is."""
    from rich.console import Console

    return Console(markup=False, highlight=False, emoji=False)


def say(*lines: str) -> None:
    """Print lines to stdout."""
    for line in lines:
        print(clean(line))


def warn(message: str) -> None:
    """Print a message to stderr."""
    print(f"limberjack: {clean(message)}", file=sys.stderr)


@contextmanager
def waiting(text: str) -> Iterator[None]:
    """Show on a terminal what the block does, and for how long, once it has taken a second."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, auto_refresh=False) as progress:
        task = progress.add_task(clean(text), total=None, visible=False)
        over = threading.Event()

        def show() -> None:
            while not over.wait(1.0):
                progress.update(task, visible=True)
                progress.refresh()

        clock = threading.Thread(target=show, daemon=True)
        clock.start()
        try:
            yield
        finally:
            over.set()
            clock.join()


def grid(rows: Mapping[str, str]) -> Any:
    """Return a table of two columns without a header."""
    from rich.table import Table

    table = Table(show_header=False)
    for name, value in rows.items():
        table.add_row(name, clean(value))
    return table


@contextmanager
def collected() -> Iterator[list[str]]:
    """Yield a list that collects the `ModelWarning` messages of the block; other warnings are shown as usual."""
    notes: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ModelWarning)
        yield notes
    for warning in caught:
        if issubclass(warning.category, ModelWarning):
            notes.append(str(warning.message))
        else:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)


@contextmanager
def ended_like_interrupted() -> Iterator[list[int]]:
    """Let SIGTERM end the block as Ctrl-C does, so that what was done is saved; yield a list that it is noted in."""
    ended: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield ended
        return

    def note(number: int, frame: Any) -> None:
        ended.append(number)
        if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # of a job that a script runs in the background
            raise KeyboardInterrupt
        signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGTERM, note)
    try:
        yield ended
    finally:
        signal.signal(signal.SIGTERM, before)


def tell(notes: Sequence[str], source: str) -> None:
    """Print the first few warnings about `source` and how many more there are."""
    for note in notes[:_SHOWN_WARNINGS]:
        warn(f"warning: {note}")
    if len(notes) > _SHOWN_WARNINGS:
        warn(f"{len(notes) - _SHOWN_WARNINGS} more warnings; limberjack info {source} lists all")


def setting(text: str, flag: str) -> tuple[str, Any]:
    """Return name and value of NAME=VALUE: a number, true, false, none, a text, or several with commas between."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise StateError(f'{flag} takes NAME=VALUE, got "{text}"')
    parts = [_value(part.strip()) for part in value.strip("()[] ").split(",")]
    return name.strip().replace("-", "_"), parts[0] if len(parts) == 1 else tuple(parts)


def _value(word: str) -> Any:
    known = {"true": True, "false": False, "none": None}
    if word.lower() in known:
        return known[word.lower()]
    for make in (int, float):
        try:
            return make(word)
        except ValueError:
            continue
    return word


def shown(value: Any) -> str:
    """Return `value` as `setting` reads it."""
    if isinstance(value, (tuple, list)):
        return ",".join(map(shown, value))
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def listed(fact: Any) -> str:
    """Return a value for display: counts with their sum, lists with commas, numbers short."""
    if isinstance(fact, dict):
        total = sum(fact.values())
        return f"{total}: " + ", ".join(f"{count} {kind}" for kind, count in fact.items()) if fact else "0"
    if isinstance(fact, list):
        return ", ".join(map(listed, fact)) or "none"
    return f"{fact:.6g}" if isinstance(fact, float) else str(fact)


def check_output(path: Path, table: str) -> None:
    """Refuse, before any work is done, a suffix that `table` does not have, or a file that cannot be written."""
    _registry.lookup(table, path)
    _registry.require_extra(table, path)
    check_place(path)


def check_place(path: Path) -> None:
    """Refuse a path at which no file can be written."""
    if path.is_dir():
        raise FileError(path, "is a folder")
    if not path.parent.is_dir():
        raise FileError(path, f'cannot be written: there is no folder "{path.parent}"')
    if not os.access(path.parent, os.W_OK):
        raise FileError(path, f'cannot be written: the folder "{path.parent}" does not allow it')


def failed(error: Exception) -> int:
    """Print an error in one message and return the status: 2 for bad input."""
    if os.environ.get("LIMBERJACK_DEBUG"):
        raise error
    if isinstance(error, LimberjackError):
        warn(str(error))
    elif isinstance(error, OSError):
        warn(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    elif isinstance(error, MemoryError):
        warn(f"not enough memory: {error}" if str(error) else "not enough memory")
    else:
        warn(f"internal error, please report it: {type(error).__name__}: {error} (LIMBERJACK_DEBUG=1 shows where)")
        return 1
    return 2
