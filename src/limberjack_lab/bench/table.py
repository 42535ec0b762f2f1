"""What a table is, how it is shown and stored, and the progress line while it is measured."""

from __future__ import annotations

import json
import math
import os
import platform
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

import limberjack as lj
from limberjack import errors

__all__ = [
    "Bar",
    "Column",
    "Part",
    "Table",
    "Watch",
    "cell",
    "columns",
    "difference",
    "dim",
    "machine",
    "measure",
    "opened",
    "peer",
    "ratio",
    "show",
    "shown",
    "write_json",
    "write_whole",
]

MISSING = "not installed"
# Largest relative difference to a peer that still counts as the same answer: MuJoCo loses digits on long chains.
TOLERANCE = 1e-6

Cell = float | int | str | None


@dataclass(frozen=True)
class Column:
    """A column: the key of its cells, its title, and the unit its numbers are in."""

    key: str
    title: str
    unit: str = ""


def columns(text: str) -> tuple[Column, ...]:
    """Return columns from "key: title [unit]; key: title; ...", a new line of a title written |."""
    out = []
    for part in text.split(";"):
        key, _, rest = part.strip().partition(": ")
        title, _, unit = rest.removesuffix("]").partition(" [")
        out.append(Column(key, title.replace("|", "\n"), unit))
    return tuple(out)


@dataclass(frozen=True)
class Bar:
    """A number the project promises: what it is, its value here (None = not measured), and the limit it must keep."""

    text: str
    value: float | None
    limit: float
    at_least: bool = True
    reason: str = ""  # why it may be missed

    @property
    def passed(self) -> bool | None:
        """Whether the bar is met; None when it was not measured."""
        if self.value is None:
            return None
        # NumPy's numbers compare to its own truths, which JSON does not take
        return bool(self.value >= self.limit if self.at_least else self.value <= self.limit)


@dataclass
class Part:
    """One grid of a table; a cell that a row lacks is shown as a dash."""

    title: str
    columns: tuple[Column, ...]
    rows: list[dict[str, Cell]] = field(default_factory=list)

    def add(self, **cells: Cell) -> dict[str, Cell]:
        """Append a row and return it; it may be filled further."""
        for key in cells:
            if key not in {column.key for column in self.columns}:
                raise KeyError(f'no column "{key}" in "{self.title}"')
        self.rows.append(cells)
        return cells


@dataclass
class Table:
    """Measurements of one subject, with the machine they were made on."""

    name: str  # key in `TABLES`
    title: str  # one line
    quick: bool  # whether sizes were cut down
    parts: list[Part] = field(default_factory=list)  # the grids
    bars: list[Bar] = field(default_factory=list)  # promises and whether they are kept
    notes: list[str] = field(default_factory=list)  # how to read the numbers
    wrong: list[str] = field(default_factory=list)  # answers that differed from a peer's; their times are not quoted
    interrupted: bool = False  # whether Ctrl-C ended the measurement early
    machine: dict[str, str] = field(default_factory=lambda: machine())  # processor, versions and load

    def part(self, title: str, *heads: Column | str) -> Part:
        """Append an empty grid and return it; several columns may be one text, as `columns` reads it."""
        found = (columns(head) if isinstance(head, str) else (head,) for head in heads)
        self.parts.append(Part(title, tuple(column for some in found for column in some)))
        return self.parts[-1]

    def bar(self, text: str, value: Cell, limit: float, at_least: bool = True, reason: str = "") -> None:
        """Add a promise; one without a number, and any of a quick table, was not measured."""
        measured = isinstance(value, (int, float)) and not self.quick
        self.bars.append(Bar(text, float(value) if measured else None, limit, at_least, reason))  # pyright: ignore

    def note(self, *texts: str) -> None:
        """Add notes, each once."""
        self.notes += [text for text in texts if text not in self.notes]

    def trust(self, what: str, difference: float, value: float) -> Cell:
        """Return `value`, or a text in its place when the answer behind it is off by more than the tolerance."""
        if difference <= TOLERANCE:
            return value
        self.wrong.append(f"{what} differs by {difference:.1e}")
        return f"differs {difference:.1e}"

    def as_json(self) -> dict[str, Any]:
        """Return everything as plain data."""
        bars = [{**asdict(bar), "passed": bar.passed} for bar in self.bars]
        return asdict(self) | {"bars": bars}


def peer(name: str, table: Table) -> Any:
    """Return the imported peer, or None with a note in the table."""
    try:
        return errors.require(name, extra="bench")
    except errors.MissingExtra as error:
        table.note(f"{name}: {MISSING} ({error})")
        return None


def difference(value: np.ndarray, reference: np.ndarray) -> float:
    """Return max |value - reference| / max |reference|."""
    return float(np.abs(value - reference).max() / np.abs(reference).max())


def cell(rows: list[dict[str, Cell]], key: str, /, **where: Cell) -> Cell:
    """Return a cell of the first row whose cells are as in `where`; None where there is none."""
    return next((row.get(key) for row in rows if all(row.get(word) == x for word, x in where.items())), None)


def ratio(other: Cell, own: Cell) -> float | None:
    """Return other / own when both were measured."""
    if isinstance(other, (int, float)) and isinstance(own, (int, float)) and own > 0:
        return other / own
    return None


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def machine() -> dict[str, str]:
    """Return processor, cores, load, system and the versions of everything measured."""
    out = {
        "processor": _processor(),
        "cores": str(os.cpu_count()),
        "system": f"{platform.system()} {platform.release()}",
    }
    if hasattr(os, "getloadavg"):
        out["load"] = f"{os.getloadavg()[0]:.1f}"
    out |= {"python": platform.python_version(), "limberjack": lj.__version__}
    for package in ("numpy", "numba", "mujoco", "pin"):
        try:
            out[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            out[package] = MISSING
    return out


def shown(cell: Cell) -> str:
    """Return a cell as text with three digits that count."""
    if cell is None:
        return "-"
    if isinstance(cell, str):
        return cell
    if isinstance(cell, int) or (cell == int(cell) if math.isfinite(cell) else False):
        return f"{int(cell):,}"
    size = abs(cell)
    if not math.isfinite(cell) or size < 1e-3:
        return f"{cell:.1e}"
    return f"{cell:,.0f}" if size >= 100 else f"{cell:.3g}"


def _bar_line(bar: Bar) -> str:
    if bar.passed is None:
        return f"bar [yellow]not measured[/]: {bar.text}"
    verdict = "[green]pass[/]" if bar.passed else "[bold red]FAIL[/]"
    why = f"; {bar.reason}" if bar.reason and not bar.passed else ""
    limit = f"{'at least' if bar.at_least else 'at most'} {bar.limit:g}"
    return f"bar {verdict}: {bar.text}: {shown(bar.value)} ({limit}){why}"


def _sheets(part: Part, width: int) -> list[list[Column]]:
    """Return the columns in groups that fit side by side, each led by the first column: no number is cut short."""

    def needed(column: Column) -> int:
        texts = [*column.title.split("\n"), column.unit, *(shown(row.get(column.key)) for row in part.rows)]
        return max(map(len, texts)) + 3

    first = part.columns[0]
    sheets, room = [[first]], width - 1 - needed(first)
    for column in part.columns[1:]:
        if needed(column) > room and len(sheets[-1]) > 1:
            sheets.append([first])
            room = width - 1 - needed(first)
        sheets[-1].append(column)
        room -= needed(column)
    return sheets


def opened(console: Any = None) -> Any:
    """Return the console to print on, `console` if given: wide where it is a pipe, or headings would be wrapped."""
    from rich.console import Console

    console = console or Console()
    if not console.is_terminal:
        console.width = max(console.width, 200)
    return console


def show(table: Table, console: Any = None) -> None:
    """Print a table: machine, grids, bars, notes."""
    from rich.markup import escape
    from rich.table import Table as Grid

    console = opened(console)
    console.rule(f"[bold]{table.name}[/]: {escape(table.title)}{' (quick: not for quoting)' if table.quick else ''}")
    console.print(
        escape(" | ".join(f"{key} {value}" for key, value in table.machine.items())),
        highlight=False,
        style="dim",
    )
    for part in table.parts:
        for k, columns in enumerate(_sheets(part, console.width)):
            if part.title:
                console.print(f"[bold]{escape(part.title)}[/]{' (continued)' if k else ''}", highlight=False)
            grid = Grid()
            for column in columns:
                head = escape(column.title) + (f"\n[dim]{escape(column.unit)}[/]" if column.unit else "")
                side = "left" if column is part.columns[0] else "right"
                grid.add_column(head, justify=side, vertical="bottom", no_wrap=column is not part.columns[0])
            for row in part.rows:
                grid.add_row(*(escape(shown(row.get(column.key))) for column in columns))
            console.print(grid, highlight=False)
    for bar in table.bars:
        console.print(_bar_line(bar), highlight=False)
    for text in table.wrong:
        console.print(f"[bold red]WRONG ANSWER[/]: {escape(text)}; its time is not quoted", highlight=False)
    dim(console, "note", table.notes)
    if table.interrupted:
        console.print("[yellow]stopped by Ctrl-C: cells without a number were not measured[/]")


def dim(console: Any, word: str, texts: list[str]) -> None:
    """Print texts in grey, each behind a word."""
    from rich.markup import escape

    for text in texts:
        console.print(f"{word}: {escape(text)}", highlight=False, style="dim")


def _plain(value: Any) -> Any:
    """Return `value` with numbers that JSON does not know as text."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def write_json(tables: list[Table], path: Path) -> None:
    """Write tables to `path`, whole or not at all."""
    text = json.dumps({"tables": [_plain(table.as_json()) for table in tables]}, indent=1, allow_nan=False)
    write_whole(path, f"{text}\n".encode())


def write_whole(path: Path, data: bytes) -> None:
    """Write a file, whole or not at all."""
    part = path.with_name(path.name + ".part")
    try:
        part.write_bytes(data)
        part.replace(path)
    except OSError as error:
        raise errors.FileError(path, f"cannot be written: {error.strerror}") from None


def measure(name: str, module: Any, quick: bool, **options: Any) -> tuple[Table, Any]:
    """Return the filled table of a module and what its `fill` returned; None when Ctrl-C cut it short."""
    table, found = Table(name, module.TITLE, quick), None
    with Watch(name) as watch:
        try:
            found = module.fill(table, quick, watch, **options)
        except KeyboardInterrupt:
            table.interrupted = True
    return table, found


class Watch:
    """The progress line on stderr; refreshed on demand only, so that no thread of it disturbs a measurement."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._progress: Any = None
        self._task: Any = None

    def __enter__(self) -> Watch:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        console = Console(stderr=True)
        columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
        self._progress = Progress(
            *columns, console=console, auto_refresh=False, transient=True, disable=not console.is_terminal
        )
        self._progress.start()
        self._task = self._progress.add_task(self._title, total=None)
        return self

    def __exit__(self, *problem: object) -> None:
        self._progress.stop()

    def begin(self, total: int) -> None:
        """Set how many things will be reported."""
        self._progress.update(self._task, total=total, completed=0)

    def __call__(self, text: str, advance: int = 0) -> None:
        """Show what is being done now."""
        self._progress.update(self._task, description=f"{self._title}: {text}", advance=advance)
        self._progress.refresh()
