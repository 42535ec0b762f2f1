"""Collect every message of the package from its source, for docs/messages.md: errors, warnings, refusals.

A message is the text given to an error or warning class, or to a function that makes one of it. What is put into a
message when it is raised stands as "..." in its text.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from limberjack import errors

SOURCES = Path(__file__).parent.parent / "src" / "limberjack"
CLASSES = {
    name for name in errors.__all__ if inspect.isclass(vars(errors)[name]) and issubclass(vars(errors)[name], Exception)
}
# Functions that make an error or a warning of the text they are given, and which.
MAKERS = {
    "ValueError": "FileError",  # of the readers; `load` adds the path
    "_Wrong": "FileError",
    "error": "FileError",
    "note": "ModelWarning",
    "_note_all": "ModelWarning",
    "mend": "ModelWarning",
    "refusal": "UnsupportedByMethod",
    "warn": "ModelWarning",
}
# Functions that return the text of one.
RETURNED = {"inertia_problem": "ModelError", "_budget_message": "BudgetWarning"}
_GAP = "..."


class Message(NamedTuple):
    """A message of the package.

    Attributes:
        kind: name of its class; "" of what the command line prints.
        text: with "..." for what is put in.
        source: file, relative to the package.
        line: where it is made.
    """

    kind: str
    text: str
    source: str
    line: int


def _texts(node: ast.expr, known: dict[str, list[ast.expr]]) -> list[str]:
    """Return the texts that an expression can be; none where it is no text."""
    if isinstance(node, ast.Constant):
        return [node.value] if isinstance(node.value, str) else []
    if isinstance(node, ast.JoinedStr):
        parts = [str(part.value) if isinstance(part, ast.Constant) else _GAP for part in node.values]
        return ["".join(parts)]
    if isinstance(node, ast.IfExp):
        return _texts(node.body, known) + _texts(node.orelse, known)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = _texts(node.left, known) or [_GAP], _texts(node.right, known) or [_GAP]
        return [a + b for a in left for b in right]
    if isinstance(node, ast.Name):
        rest = {name: found for name, found in known.items() if name != node.id}
        return [text for value in known.get(node.id, ()) for text in _texts(value, rest)]
    return []


def _assigned(function: ast.AST) -> dict[str, list[ast.expr]]:
    """Return what each name is assigned in a function."""
    out: dict[str, list[ast.expr]] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                names = target.elts if isinstance(target, ast.Tuple) else [target]
                values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
                if len(names) == len(values):
                    for name, value in zip(names, values, strict=True):
                        if isinstance(name, ast.Name):
                            out.setdefault(name.id, []).append(value)
    return out


def _returned(function: ast.AST, known: dict[str, list[ast.expr]]) -> list[str]:
    """Return the texts that a function returns."""
    values = [node.value for node in ast.walk(function) if isinstance(node, ast.Return) and node.value is not None]
    return [text for value in values for text in _texts(value, known)]


def _unknown(call: ast.Call, known: dict[str, list[ast.expr]]) -> list[str]:
    """Return the messages of an `UnknownName`, as its class words them."""
    words = _texts(call.args[0], known) or [_GAP]
    return [str(errors.UnknownName(word, _GAP, _GAP, [_GAP])) for word in words]


def _of(node: ast.AST, known: dict[str, list[ast.expr]]) -> tuple[str, list[str]] | None:
    """Return the class and texts of what a node makes; None if it makes no message."""
    if isinstance(node, ast.FunctionDef):
        return (RETURNED[node.name], _returned(node, known)) if node.name in RETURNED else None
    if isinstance(node, ast.Tuple) and len(node.elts) == 3 and isinstance(node.elts[0], ast.Name):
        kind = node.elts[0].id  # (class, joint, text), as `Stepper.explain` returns
        return (kind, _texts(node.elts[2], known)) if kind in CLASSES else None
    if not isinstance(node, ast.Call):
        return None
    name = ast.unparse(node.func).rpartition(".")[2]
    if name == "UnknownName":
        return name, _unknown(node, known)
    if name == "UnsupportedVersion":
        return name, [str(errors.UnsupportedVersion(_GAP, _GAP, _GAP))]
    if name not in CLASSES and name not in MAKERS:
        return None
    found = [text for one in node.args for text in _texts(one, known)]
    return (name if name in CLASSES else MAKERS[name]), found


def _tidy(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


def calls() -> Iterator[tuple[str, ast.AST, str, list[str]]]:
    """Yield (file, node, class, texts) of everything in the package that makes a message."""
    for path in sorted(SOURCES.rglob("*.py")):
        tree, source = ast.parse(path.read_text(encoding="utf-8")), path.relative_to(SOURCES).as_posix()
        scopes = [node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
        inside = {id(node): scope for scope in scopes for node in ast.walk(scope)}  # inner scopes come last
        known = {id(scope): _assigned(scope) for scope in scopes}
        for node in ast.walk(tree):
            scope = inside.get(id(node))
            found = _of(node, known[id(scope)] if scope is not None else {})
            inner = (
                isinstance(node, ast.Call) and ast.unparse(node.func) == "ValueError" and not source.startswith("io/")
            )
            if found is not None and not inner:
                yield source, node, *found


def messages() -> list[Message]:
    """Return every message once, in the order of the files."""
    out: dict[tuple[str, str], Message] = {}
    for source, node, kind, texts in calls():
        shown = "" if source.startswith("cli/") and kind == "ModelWarning" else kind
        for text in map(_tidy, texts):
            if len(re.findall(r"[A-Za-z]{2,}", text)) > 1:
                out.setdefault((shown, text), Message(shown, text, source, getattr(node, "lineno", 0)))
    return sorted(out.values(), key=lambda one: (one.source, one.line))


def filled(page: str) -> str:
    """Return a page with the messages of its files between its markers `<!-- messages of FILES -->`, `<!-- end -->`.

    FILES are beginnings of paths in the package; the first marker that fits takes a message.
    """
    marker = re.compile(r"(<!-- messages of (.*?) -->\n).*?(?=<!-- end -->)", re.S)
    topics = [tuple(found[2].split()) for found in marker.finditer(page)]
    lists = {topic: "" for topic in topics}
    for one in messages():
        quote = "``" if "`" in one.text else "`"
        about = f"[{one.kind}](faq.md#errors-and-warnings)" if one.kind else "Printed by the command line."
        topic = next(topic for topic in topics if one.source.startswith(topic))
        # a heading each: the search of the site finds sections, and their headings first
        lists[topic] += f"\n#### {quote}{one.text}{quote}\n\n{about}\n"
    return marker.sub(lambda found: f"{found[1]}{lists[tuple(found[2].split())]}\n", page)
