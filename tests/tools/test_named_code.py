"""The pages name files, functions and letters that the code has."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import draw_rooms
import limberjack as lj

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PACKAGE = ROOT / "src" / "limberjack"
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *DOCS.rglob("*.md")])
# `room/file.py`, `room/file.py:function`, `room/file.py:Class.method`
NAMED_FILE = re.compile(r"`([\w/]+\.py)(?::([\w.]+))?`")
NAMED_ROOM = re.compile(r"`([a-z_]+)/`")


@functools.cache
def tree_of(path: Path) -> ast.Module:
    """The syntax tree of a file."""
    return ast.parse(path.read_text(encoding="utf-8"))


def found(name: str) -> Path | None:
    """The file that a page means: from the package, from the folder of sources, or from the checkout."""
    for base in (PACKAGE, ROOT / "src", ROOT):
        if (base / name).exists():
            return base / name
    return None


def defines(body: list[ast.stmt], dotted: str) -> bool:
    """Whether a body defines a function, class or name, or a method as `Class.method`."""
    first, _, rest = dotted.partition(".")
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name == first:
            return not rest or (isinstance(node, ast.ClassDef) and defines(node.body, rest))
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and not rest:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(target, ast.Name) and target.id == first for target in targets):
                return True
    return False


def identifiers(path: Path) -> set[str]:
    """Every identifier of a file, and the file's own name."""
    names = {path.stem}
    for node in ast.walk(tree_of(path)):
        for field in ("id", "arg", "attr", "name"):
            word = getattr(node, field, None)
            if isinstance(word, str):
                names.add(word)
    return names


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_files_and_functions_a_page_names_exist(page):
    """Every `file.py`, `file.py:function` and `room/` of a page is in the sources."""
    text = page.read_text(encoding="utf-8")
    missing = []
    for name, function in NAMED_FILE.findall(text):
        path = found(name)
        if path is None or (function and not defines(tree_of(path).body, function)):
            missing.append(f"{name}:{function}" if function else name)
    missing += [room for room in NAMED_ROOM.findall(text) if found(room) is None]
    assert not missing


def test_the_page_of_a_step_names_functions():
    """The page that follows a step names a function of each method's folder or file, not files alone."""
    named = [path for path, function in NAMED_FILE.findall((DOCS / "life_of_a_step.md").read_text()) if function]
    for method in lj.capabilities():
        assert any(path.startswith((f"methods/{method}/", f"methods/{method}.py")) for path in named), method


def test_the_architecture_page_answers_three_questions_by_names():
    """Each question of an outsider is answered by at least two functions of the code."""
    text = (DOCS / "architecture.md").read_text(encoding="utf-8").partition("## Three questions\n")[2]
    questions = re.split(r"^### ", text.partition("\n## ")[0], flags=re.M)[1:]
    assert len(questions) == 3
    for question in questions:
        assert sum(bool(function) for _, function in NAMED_FILE.findall(question)) >= 2, question.splitlines()[0]


def test_every_room_is_on_the_architecture_page():
    """The table of rooms has every room of the import contract, and no other."""
    text = (DOCS / "architecture.md").read_text(encoding="utf-8").partition("## Rooms\n")[2].partition("\n## ")[0]
    told = {word.removesuffix("/").removesuffix(".py") for row in re.findall(r"^\| (`.*?) \|", text, flags=re.M)
            for word in re.findall(r"`(.*?)`", row)}  # fmt: skip
    assert told == {room for level in draw_rooms.layers() for room in level}


def notation() -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield thing, identifiers and rooms of each row of the notation table."""
    for line in (DOCS / "notation.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if len(cells) == 5 and cells[0] != "thing" and not cells[0].startswith("--"):
            thing, public, kernels, rooms, _ = cells
            words = [word for text in re.findall(r"`(.*?)`", f"{public} {kernels}") for word in text.split()]
            yield thing, words, re.findall(r"`(.*?)`", rooms)


@pytest.mark.parametrize(("words", "rooms"), [row[1:] for row in notation()], ids=[row[0] for row in notation()])
def test_the_names_of_the_notation_are_identifiers(words, rooms):
    """Every name that the notation promises is an identifier somewhere in the rooms it names."""
    assert words and rooms
    known: set[str] = set()
    for room in rooms:
        assert (PACKAGE / room).is_dir(), room
        known.update(*(identifiers(path) for path in (PACKAGE / room).rglob("*.py")))
    assert not [word for word in words if word not in known]
