"""Put measured tables into README.md and docs/performance.md, between `<!-- bench:start -->` and `<!-- bench:end -->`.

Usage: limberjack bench --json bench.json && python tools/fill_bench.py bench.json

README.md gets a short table, docs/performance.md every grid, bar and note. Quick measurements, interrupted ones and
answers that disagree with a peer are refused: they are not for quoting.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from limberjack_lab.bench.table import shown

ROOT = Path(__file__).parent.parent
START, END = "<!-- bench:start -->\n", "<!-- bench:end -->\n"
PEERS = ("Limberjack", "Pinocchio", "MuJoCo")


class Unfit(Exception):
    """The numbers are not for quoting, or a page has no place for them."""


def _grid(heads: list[str], rows: list[list[str]]) -> str:
    marks = ["---", *["---:"] * (len(heads) - 1)]
    return "".join("| " + " | ".join(line) + " |\n" for line in (heads, marks, *rows))


def _where(machine: dict[str, str]) -> str:
    """Return the machine in one line."""
    named = {"python": "Python", "limberjack": "Limberjack", "numba": "Numba", "pin": "Pinocchio", "mujoco": "MuJoCo"}
    versions = ", ".join(f"{name} {machine[key]}" for key, name in named.items() if key in machine)
    return f"{machine.get('processor', 'unknown processor')}, {machine.get('system', '')}; {versions}"


def read(path: Path) -> dict[str, dict[str, Any]]:
    """Return the tables in a file by name; refuse those that are not for quoting."""
    try:
        tables = {table["name"]: table for table in json.loads(path.read_text(encoding="utf-8"))["tables"]}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Unfit(f"{path}: no numbers written by limberjack bench --json: {error}") from error
    for name, table in tables.items():
        for key, why in (("quick", "is quick"), ("interrupted", "was interrupted"), ("wrong", "has wrong answers")):
            if table[key]:
                raise Unfit(f'{path}: table "{name}" {why}: {table[key]}; it is not for quoting')
    return tables


def _best(rows: list[dict[str, Any]], who: str, key: str) -> Any:
    """Return the least time that one engine took on one thread."""
    own = (row.get(key) for row in rows if row["who"].lower().startswith(who.lower()) and row["threads"] == 1)
    return min((value for value in own if isinstance(value, (int, float))), default=None)


def _line(what: str, unit: str, times: list[Any]) -> list[str]:
    """Return a line of times, the peers' with how many times ours they are."""
    ours, cells = times[0], []
    for time in times:
        text = "-" if time is None else f"{shown(time)} {unit}" if not isinstance(time, str) else time
        if time is not ours and isinstance(time, (int, float)) and isinstance(ours, (int, float)):
            text += f" ({time / ours:.1f}x)"
        cells.append(text)
    return [what, *cells]


def _frames(part: dict[str, Any], peer: str) -> list[list[str]]:
    """Return a line per pile of boxes: the mean time of a frame, ours of the slowest seed."""
    lines, counts = [], dict.fromkeys(row["case"].partition(",")[0] for row in part["rows"])
    for count in counts:
        rows = [row for row in part["rows"] if row["case"].partition(",")[0] == count]
        own = [row["ms"] for row in rows if row["who"].startswith("impulses")]
        other = next((row["ms"] for row in rows if row["who"].startswith(peer)), None)
        if own and all(isinstance(time, (int, float)) for time in own):
            what = f"{int(count):,} boxes that fall and settle: a frame of 1/60 s"
            lines.append(_line(what, "ms", [max(own), None, other]))
    return lines


def short(tables: dict[str, dict[str, Any]]) -> str:
    """Return the table of the README: the chain of 300 links, the crowd and the piles of boxes."""
    lines: list[list[str]] = []
    if "chain" in tables:
        row = next((row for row in tables["chain"]["parts"][0]["rows"] if row["n"] == 300), {})
        times = [row.get(key) for key in ("call", "pin", "mujoco")]
        lines.append(_line("chain of 300 hinges: forward dynamics, from Python", "us", times))
        lines.append(_line("one step of it, many in a call", "us", [row.get("step"), None, None]))
    if "crowd" in tables:
        part = tables["crowd"]["parts"][0]
        people = f"crowd of {part['title'].partition(' figures')[0]} people, 95 dofs each"
        for key, what in (("forward", "forward dynamics"), ("step", "one step")):
            times = [_best(part["rows"], who, key) for who in PEERS]
            lines.append(_line(f"{people}: {what}", "ms", times))
    if lines and "contact" in tables:
        lines += _frames(tables["contact"]["parts"][1], PEERS[2])
    if not lines:
        raise Unfit("the README's table needs the tables chain and crowd")
    machine = next(iter(tables.values()))["machine"]
    foot = f"One thread; each peer's best way. {_where(machine)}. All tables: [Performance](docs/performance.md)."
    return f"{_grid(['', *PEERS], lines)}\n{foot}\n"


def _part(part: dict[str, Any]) -> str:
    heads = []
    for column in part["columns"]:
        title = " ".join(column["title"].split())
        heads.append(f"{title} [{column['unit']}]" if column["unit"] else title)
    rows = [[shown(row.get(column["key"])) for column in part["columns"]] for row in part["rows"]]
    title = f"**{part['title']}**\n\n" if part["title"] else ""
    return title + _grid(heads, rows)


def long(tables: dict[str, dict[str, Any]]) -> str:
    """Return every table with its bars and notes."""
    out = []
    for table in tables.values():
        out.append(f"## {table['name']}: {table['title']}\n\n{_where(table['machine'])}\n")
        out += [_part(part) for part in table["parts"]]
        bars = [_bar(bar) for bar in table["bars"] if bar["passed"] is not None]
        lines = [*bars, *table["notes"]]
        if lines:
            out.append("".join(f"- {line}\n" for line in lines))
    return "\n".join(out)


def _bar(bar: dict[str, Any]) -> str:
    limit = f"{'at least' if bar['at_least'] else 'at most'} {bar['limit']:g}"
    verdict = "kept" if bar["passed"] else "**missed**"
    return f"{bar['text']}: {shown(bar['value'])} (promised {limit}: {verdict})"


def filled(text: str, content: str, path: Path) -> str:
    """Return a page with `content` between its markers."""
    before, start, rest = text.partition(START)
    _, end, after = rest.partition(END)
    if not start or not end:
        raise Unfit(f"{path} has no lines {START.strip()} and {END.strip()}")
    return f"{before}{START}{content}{END}{after}"


def main(words: list[str]) -> int:
    """Fill both pages from the file named."""
    if len(words) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        tables = read(Path(words[0]))
        pages = {ROOT / "README.md": short(tables), ROOT / "docs" / "performance.md": f"\n{long(tables)}\n"}
        texts = {path: filled(path.read_text(encoding="utf-8"), content, path) for path, content in pages.items()}
    except Unfit as problem:
        print(problem, file=sys.stderr)
        return 2
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8")
        print(f"filled: {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
