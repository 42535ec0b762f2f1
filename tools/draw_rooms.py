"""Draw the rooms of the package and the imports between them: docs/images/rooms.svg, written by tools/make_docs.py.

The order of the rooms is that of the import contract in pyproject.toml; the imports are read from the source files,
including those inside functions, without those under `if TYPE_CHECKING`.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from html import escape
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCES = ROOT / "src"
LAB = "limberjack_lab"
# Files of the package's own folder that are rooms to the contract but not to a reader.
ENTRANCES = ("__init__", "__main__")

ROW, LEFT, CELL, TOP = 34, 640, 26, 96
INK, PALE, PAPER, DOT, BOX = "#22303c", "#9aa5ad", "#fbfaf7", "#e8743b", "#eef2f5"


def layers() -> list[list[str]]:
    """Return the rooms, lowest first, as the contract in pyproject.toml orders them; rooms of one level together."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        contracts = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    rows = next(contract for contract in contracts if contract["id"] == "rooms")["layers"]
    levels = [[name.strip(" ()") for name in row.split(":")] for row in reversed(rows)]
    present = [[name for name in level if name not in ENTRANCES and _exists(name)] for level in levels]
    return [level for level in present if level] + [[LAB]]


def _exists(room: str) -> bool:
    return (SOURCES / "limberjack" / room).is_dir() or (SOURCES / "limberjack" / f"{room}.py").is_file()


def files(room: str) -> list[Path]:
    """Return the source files of a room."""
    folder = SOURCES / LAB if room == LAB else SOURCES / "limberjack" / room
    return sorted(folder.rglob("*.py")) if folder.is_dir() else [folder.with_suffix(".py")]


def modules(room: str) -> list[str]:
    """Return the names of a room's files and folders; none for a room that is one file."""
    folder = SOURCES / LAB if room == LAB else SOURCES / "limberjack" / room
    if not folder.is_dir():
        return []
    found = [path.stem for path in folder.iterdir() if path.suffix == ".py" and path.stem != "__init__"]
    return sorted(found + [path.name for path in folder.iterdir() if (path / "__init__.py").is_file()])


def _imported(tree: ast.Module) -> Iterator[str]:
    """Yield the dotted names that a file imports, without those under `if TYPE_CHECKING`."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            waiting.extend(node.orelse)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        else:
            waiting.extend(ast.iter_child_nodes(node))


def imports() -> dict[str, set[str]]:
    """Return, per room, the other rooms that its files import."""
    rooms = [room for level in layers() for room in level]
    found: dict[str, set[str]] = {room: set() for room in rooms}
    for room in rooms:
        for path in files(room):
            for name in _imported(ast.parse(path.read_text(encoding="utf-8"))):
                head, *rest = name.split(".")
                other = LAB if head == LAB else rest[0] if head == "limberjack" and rest else None
                if other in found and other != room:
                    found[room].add(other)
    return found


def _text(x: float, y: float, words: str, size: int, color: str = INK, more: str = "") -> str:
    return f'<text x="{x:g}" y="{y:g}" font-size="{size}" fill="{color}"{more}>{escape(words)}</text>'


def _lines(words: list[str], width: int) -> list[str]:
    """Return the words with spaces between them in lines of at most `width` letters."""
    lines = [""]
    for word in words:
        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def picture() -> str:
    """Return the picture as SVG: a row per room, highest first, and in its columns a dot per room that it imports."""
    levels, known = layers(), imports()
    # within a level, what imports its neighbours stands above them
    rooms = [room for level in reversed(levels) for room in sorted(level, key=lambda r: -len(known[r] & {*level}))]
    width, parts, middle, y = LEFT + CELL * len(rooms) + 44, [], {}, TOP
    for room in rooms:
        lines = _lines(modules(room), 72)
        height = max(ROW - 4, 12 + 14 * len(lines))
        parts.append(f'<rect x="16" y="{y:g}" width="{LEFT - 40}" height="{height}" rx="5" fill="{BOX}"/>')
        middle[room] = y + height / 2
        parts.append(_text(26, middle[room] + 5, room, 15, more=' font-weight="bold"'))
        first = middle[room] - 7 * (len(lines) - 1) + 4
        parts += [_text(158, first + 14 * k, line, 11) for k, line in enumerate(lines) if line]
        y += height + 6
    column = {room: LEFT + CELL * (k + 0.5) for k, room in enumerate(rooms)}
    for room in rooms:
        across, down = column[room], middle[room]
        parts.append(f'<path d="M{LEFT - 12:g} {down:g}H{across:g}V{y:g}" fill="none" stroke="{PALE}" opacity="0.4"/>')
        parts.append(_text(across + 4, TOP - 8, room, 12, more=f' transform="rotate(-50 {across + 4:g} {TOP - 8})"'))
        parts.append(f'<rect x="{across - 5:g}" y="{down - 5:g}" width="10" height="10" fill="{PALE}"/>')
        for other in sorted(known[room]):
            ring = DOT if column[other] > across else f'{PAPER}" stroke="{DOT}" stroke-width="2'
            title = f"<title>{room} imports {other}</title>"
            parts.append(f'<circle cx="{column[other]:g}" cy="{down:g}" r="6" fill="{ring}">{title}</circle>')
    parts.append(_text(16, 34, "Rooms, highest first, and what each imports", 17, more=' font-weight="bold"'))
    parts.append(_text(16, 56, "A dot in the row of a room: it imports the room of that column.", 12))
    parts.append(_text(16, 73, "Dots right of the squares point down; a ring is an import upwards, on first use.", 12))
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {y + 10:g}" '
        f'font-family="system-ui, sans-serif">\n<rect width="100%" height="100%" fill="{PAPER}"/>\n{body}\n</svg>\n'
    )
