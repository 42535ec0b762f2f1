"""A table beside an earlier one: old value, new value and new / old, cell by cell.

Grids are matched by their titles, or by their places where a title has changed; rows by their first cell and the texts
before the first column with a unit, rows that are alike in those by their order; cells by the keys of their columns.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from limberjack import errors
from limberjack_lab.bench.table import dim, opened, shown

__all__ = ["BEYOND", "Change", "Comparison", "compare", "read", "show"]

# Relative changes of a time above this are marked.
BEYOND = 0.03
_TIME_UNITS = ("s", "ms", "us", "ns", "ms/step")


class Change(NamedTuple):
    """A cell that both tables have."""

    part: str
    row: str
    column: str
    unit: str
    old: Any
    new: Any

    @property
    def ratio(self) -> float | None:
        """New over old, of numbers."""
        if not all(isinstance(x, (int, float)) for x in (self.old, self.new)) or not self.old:
            return None
        return float(self.new / self.old)

    @property
    def mark(self) -> str:
        """`slower` or `faster` of times that changed by more than `BEYOND`, `differs` of texts that do."""
        if self.ratio is None:
            return "" if self.old == self.new else "differs"
        if self.unit not in _TIME_UNITS or abs(self.ratio - 1.0) <= BEYOND:
            return ""
        return "slower" if self.ratio > 1.0 else "faster"


class Comparison(NamedTuple):
    """The cells of both tables, and what only one of them has."""

    name: str
    changes: list[Change]
    only_old: list[str]
    only_new: list[str]
    notes: list[str]


def read(path: Path) -> dict[str, dict[str, Any]]:
    """Return the tables in a file of `limberjack bench --json` by name."""
    try:
        tables = {table["name"]: table for table in json.loads(Path(path).read_text(encoding="utf-8"))["tables"]}
        for table in tables.values():
            _cells(table["parts"])
    except OSError as error:
        raise errors.FileError(path, f"cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise errors.FileError(path, f"has no tables of limberjack bench --json: {error!r}") from None
    return tables


class _Part(NamedTuple):
    title: str
    keys: set[str]
    cells: dict[tuple[str, str], Any]  # by row and key


def _cells(parts: list[dict[str, Any]]) -> list[_Part]:
    """Return the cells of each grid by row and key; what names a row is no cell."""
    out = []
    for part in parts:
        keys = [column["key"] for column in part["columns"]]
        united = [k for k, column in enumerate(part["columns"]) if column["unit"]]
        naming = keys[: united[0]] if united else keys[:1]
        seen: Counter[str] = Counter()
        cells: dict[tuple[str, str], Any] = {}
        for row in part["rows"]:
            words = [key for k, key in enumerate(naming) if k == 0 or isinstance(row.get(key), str)]
            name = ", ".join(shown(row.get(key)) for key in words)
            seen[name] += 1
            name = name if seen[name] == 1 else f"{name} ({seen[name]})"
            cells |= {(name, key): row[key] for key in keys if key not in words and row.get(key) is not None}
        out.append(_Part(part["title"], set(keys), cells))
    return out


def _missing(part: _Part, other: _Part, title: str) -> list[str]:
    """Return what `part` has and `other` has not: columns, rows, and cells of those that both have."""
    known = {row for row, _ in other.cells}
    out = [f"{title}: column {key}" for key in sorted(part.keys - other.keys)]
    out += [f"{title}: row {row}" for row in dict.fromkeys(row for row, _ in part.cells) if row not in known]
    gone = [one for one in part.cells if one[0] in known and one[1] in other.keys and one not in other.cells]
    return out + [f"{title}: {row}: {key}" for row, key in gone]


def _pairs(old: list[_Part], new: list[_Part]) -> list[tuple[_Part | None, _Part | None]]:
    """Return the grids that belong together, None where there is no other."""
    of_title = {part.title: k for k, part in enumerate(old)}
    pairs = {k: of_title[part.title] for k, part in enumerate(new) if part.title in of_title}
    for k, part in enumerate(new):
        free = k not in pairs and k < len(old) and k not in pairs.values()
        if free and len(part.keys & old[k].keys) > 0.5 * len(part.keys):
            pairs[k] = k
    out = [(old[pairs[k]] if k in pairs else None, part) for k, part in enumerate(new)]
    return [*out, *((part, None) for k, part in enumerate(old) if k not in pairs.values())]


def compare(old: dict[str, Any], new: dict[str, Any]) -> Comparison:
    """Return a table beside an earlier one of the same name, both as `Table.as_json` has them."""
    out = Comparison(new["name"], [], [], [], [])
    columns = {(part["title"], column["key"]): column for part in new["parts"] for column in part["columns"]}
    for before, after in _pairs(_cells(old["parts"]), _cells(new["parts"])):
        if before is None:
            out.only_new.append(f"{after.title if after else ''}: all of it")
            continue
        if after is None:
            out.only_old.append(f"{before.title}: all of it")
            continue
        title = after.title or new["title"]
        for (row, key), value in after.cells.items():
            if (row, key) in before.cells:
                column = columns[after.title, key]
                words = " ".join(column["title"].split())
                out.changes.append(Change(title, row, words, column["unit"], before.cells[row, key], value))
        out.only_new.extend(_missing(after, before, title))
        out.only_old.extend(_missing(before, after, title))
    for word in ("quick", "interrupted"):
        if old[word] != new[word]:
            out.notes.append(f"only the {'earlier' if old[word] else 'new'} table is {word}: sizes may differ")
    for word in ("processor", "python", "numba"):
        if old["machine"].get(word) != new["machine"].get(word):
            out.notes.append(f"{word}: {old['machine'].get(word)} before, {new['machine'].get(word)} now")
    return out


def show(found: Comparison, console: Any = None) -> None:
    """Print a comparison: a grid per part, then what only one side has."""
    from rich.markup import escape
    from rich.table import Table as Grid

    console = opened(console)
    console.rule(f"[bold]{found.name}[/] against the earlier table")
    for title in dict.fromkeys(change.part for change in found.changes):
        console.print(f"[bold]{escape(title)}[/]", highlight=False)
        grid = Grid()
        for head in ("row", "cell", "unit", "old", "new", "new / old", ""):
            grid.add_column(head, justify="left" if head in ("row", "cell", "unit", "") else "right")
        for change in (one for one in found.changes if one.part == title):
            ratio = "" if change.ratio is None else f"{change.ratio:.3f}"
            cells = (change.row, change.column, change.unit, shown(change.old), shown(change.new), ratio, change.mark)
            style = {"slower": "red", "faster": "green", "differs": "yellow"}.get(change.mark, "")
            grid.add_row(*(escape(cell) for cell in cells), style=style)
        console.print(grid, highlight=False)
    dim(console, "only in the earlier table", found.only_old)
    dim(console, "only in the new table", found.only_new)
    marks = Counter(change.mark for change in found.changes)
    counted = f"{marks['slower']} slower, {marks['faster']} faster by more than {100 * BEYOND:g} %"
    console.print(f"{len(found.changes)} cells on both sides; times: {counted}", highlight=False)
    dim(console, "note", found.notes)
