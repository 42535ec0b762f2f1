"""Checks of an MJCF file and of the files it names, before MuJoCo opens any of them.

MuJoCo follows every path in a file, accepts NaN and copies a body any number of times. Here the XML is read by
Limberjack's own reader, includes and sub-models with it, and refused by file, line and
element where a path leaves the model's folders, a number is not finite, elements nest deeper than MuJoCo can
follow or their copies grow out of hand.
"""

from __future__ import annotations

import os
import posixpath
import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from limberjack.errors import FileError
from limberjack.io.xml import MAX_BYTES, Element, Roots, read_bytes, read_xml

__all__ = ["Scan", "scan"]

# MuJoCo's XML parser stops at 500 levels: worldbody, 496 bodies and what the last one holds.
MAX_DEPTH, MAX_BODIES_DEEP = 499, 496
# MuJoCo's compiler takes time that grows with the square of the copies: about 7 s for so many.
MAX_COPIES = 10_000
MAX_CELLS = 4_000_000
MAX_MODELS_DEEP = 8

_NOT_FINITE = re.compile(r"(?<![\w.])[+-]?(?:nan|inf|infinity)(?![\w.])", re.IGNORECASE)
_ENCODING = re.compile(rb"""\s*<\?xml[^>]*?encoding\s*=\s*["']([A-Za-z0-9._-]+)""")
# Attributes that hold names, files or free text, where "nan" may be a name.
_WORDS = frozenset(
    """actuator assetdir body body1 body2 camera childclass class content_type cranksite file fileback
    filedown filefront fileleft fileright fileup flex frame geom geom1 geom2 gridlayout hfield input instance
    joint joint1 joint2 jointinparent key material mesh meshdir model name node objname plugin prefix refname
    refsite role sep sidesite site site1 site2 slidersite subtree1 subtree2 suffix target tendon tendon1
    tendon2 texture texturedir value""".split()
)
_FOLDER_OF = {"mesh": "mesh", "hfield": "mesh", "skin": "mesh", "flexcomp": "mesh", "texture": "texture"}
_COUNTED = {"replicate": "count", "composite": "count", "flexcomp": "count"}


@dataclass
class Scan:
    """What was found: files read, and references to files that are not there."""

    files: list[Path] = field(default_factory=list)
    missing: list[tuple[str, Path, int]] = field(default_factory=list)


@dataclass
class _Model:
    """One MJCF model: its main file, the folders of its assets, and what it takes from other files."""

    file: Path
    folder: Path
    parents: tuple[Path, ...]
    folders: dict[str, str] = field(default_factory=dict)
    strip: bool = False
    assets: list[tuple[str, str, Path, int]] = field(default_factory=list)
    models: dict[str, tuple[str, Path, int]] = field(default_factory=dict)
    attached: list[tuple[str, int]] = field(default_factory=list)
    copies: int = 0


def scan(path: Path, roots: Sequence[Path]) -> Scan:
    """Return what the MJCF file at `path` refers to, or raise `FileError` where something must not be.

    Args:
        path: the main file.
        roots: further folders that files may come from, besides the main file's own.
    """
    real = path.resolve()
    found = Scan()
    scanner = _Scanner([real.parent, *roots], found)
    scanner.model(_Model(path, real.parent, (real,)))
    return found


class _Scanner:
    def __init__(self, roots: Sequence[Path], found: Scan) -> None:
        self._roots = roots
        self._found = found

    def model(self, model: _Model) -> int:
        """Scan one model and the sub-models it takes; return how many elements it makes."""
        root = _read(model.file)
        if root.tag != "mujoco":
            hint = "; a URDF has the suffix .urdf" if root.tag == "robot" else ""
            raise FileError(model.file, f"the root element is <{root.tag}>, not <mujoco>{hint}", root.line)
        self._found.files.append(model.file)
        self._walk(model, root)
        for tag, reference, file, line in model.assets:
            self._asset(model, tag, reference, file, line)
        weights: dict[str, int] = {}
        for name, (reference, file, line) in model.models.items():
            target = self._resolve(reference, [model.folder], file, line)
            if target is None:
                raise FileError(file, f'<model file="{reference}"> is not found', line)
            if target in model.parents or len(model.parents) > MAX_MODELS_DEEP:
                chain = " -> ".join(candidate.name for candidate in (*model.parents, target))
                raise FileError(file, f"models contain each other or nest too deeply: {chain}", line)
            weights[name] = self.model(_Model(target, target.parent, (*model.parents, target)))
        heaviest = max(weights.values(), default=1)
        total = model.copies + sum(times * weights.get(name, heaviest) for name, times in model.attached)
        if total > MAX_COPIES:
            raise FileError(model.file, f"makes {total} elements by copying; {MAX_COPIES} is the most")
        return max(total, 1)

    def _walk(self, model: _Model, root: Element) -> None:
        """Visit all elements with includes put in their place, in document order, without recursion."""
        included = {model.file.resolve()}
        stack = [(node, model.file, 2, 1) for node in reversed(root.children)]
        while stack:
            node, file, depth, copies = stack.pop()
            if node.tag == "include":
                target = self._include(model, node, file)
                if target in included:
                    raise FileError(file, f'"{node.get("file")}" is included twice', node.line)
                included.add(target)
                self._found.files.append(target)
                stack += [(child, target, depth, copies) for child in reversed(_read(target).children)]
                continue
            if depth > MAX_DEPTH:
                most = f"MuJoCo reads {MAX_BODIES_DEEP} bodies one inside the other"
                raise FileError(file, f"<{node.tag}> is nested {depth} deep; {most}", node.line)
            _check_numbers(node, file)
            copies *= _count(node, file)
            if copies > 1:
                model.copies += copies
            if copies > MAX_COPIES or model.copies > MAX_COPIES:
                made = f"makes {max(copies, model.copies)} copies; {MAX_COPIES} is the most"
                raise FileError(file, f"<{node.tag}> {made}", node.line)
            self._note(model, node, file, copies)
            stack += [(child, file, depth + 1, copies) for child in reversed(node.children)]

    def _note(self, model: _Model, node: Element, file: Path, copies: int) -> None:
        """Record the references of `node` to other files."""
        if node.tag == "compiler":
            both = node.get("assetdir")
            for kind in ("mesh", "texture"):
                given = node.get(f"{kind}dir", both)
                if given is not None:
                    model.folders[kind] = given
            model.strip = node.get("strippath", str(model.strip).lower()) == "true"
        elif node.tag == "model" and node.get("file") is not None:
            reference = node.get("file") or ""
            model.models[node.get("name") or reference] = (reference, file, node.line)
        elif node.tag == "attach":
            model.attached.append((node.get("model") or "", copies))
        else:
            names = [name for name in node.attributes if name.startswith("file") and name in _WORDS]
            model.assets += [(node.tag, node.attributes[name], file, node.line) for name in names]

    def _include(self, model: _Model, node: Element, file: Path) -> Path:
        reference = node.get("file")
        if not reference:
            raise FileError(file, "<include> has no file", node.line)
        # MuJoCo looks beside the main file first, then beside the file that includes.
        target = self._resolve(reference, [model.folder, file.resolve().parent], file, node.line)
        if target is None:
            raise FileError(file, f'<include file="{reference}"> is not found', node.line)
        return target

    def _asset(self, model: _Model, tag: str, reference: str, file: Path, line: int) -> None:
        if not reference:
            return
        if model.strip:
            reference = reference.replace("\\", "/").rsplit("/", 1)[-1]
        within = model.folders.get(_FOLDER_OF.get(tag, ""), "").replace("\\", "/")
        target = self._resolve(reference, [Path(posixpath.join(str(model.folder), within))], file, line)
        if target is None:
            self._found.missing.append((reference, file, line))
        elif os.stat(target).st_size > MAX_BYTES:
            raise FileError(file, f'"{reference}" is larger than {MAX_BYTES / 2**20:.0f} MB', line)
        elif tag == "hfield":
            _check_picture(target, reference, file, line)

    def _resolve(self, reference: str, folders: Sequence[Path], file: Path, line: int) -> Path | None:
        """Return the real file meant, None where there is none; refuse what lies outside the roots."""
        if "://" in reference or reference != reference.strip() or not reference.isprintable():
            raise FileError(file, f"{reference!r} is not the path of a file beside the model", line)
        roots = Roots(file, self._roots)
        for folder in folders:
            path = posixpath.join(str(folder), reference.replace("\\", "/"))
            # MuJoCo takes ".." out of the text, the system out of the folders: with links the two can differ.
            targets = [roots.find(candidate, line) for candidate in dict.fromkeys((posixpath.normpath(path), path))]
            if targets[0] is not None:
                return targets[0]
        return None


def _read(file: Path) -> Element:
    """Return the root of an XML file that MuJoCo, which takes all text for UTF-8, reads as we do."""
    data = read_bytes(file)
    if not data.isascii():
        declared = _ENCODING.match(data)
        if declared and declared[1].lower() not in (b"utf-8", b"utf8"):
            raise FileError(file, f"is written in {declared[1].decode()}; MuJoCo reads UTF-8 alone", 1)
        try:
            data.decode("utf-8")
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            raise FileError(file, "is not UTF-8 text, which is all MuJoCo reads", line) from None
    return read_xml(file)


def _check_numbers(node: Element, file: Path) -> None:
    for name, value in node.attributes.items():
        if name in _WORDS or (name == "data" and node.tag == "text"):
            continue
        if _NOT_FINITE.search(value):
            shown = value if len(value) <= 60 else value[:57] + "..."
            called = f' name="{node.get("name")}"' if node.get("name") else ""
            raise FileError(file, f'<{node.tag}{called}>: {name}="{shown}" must be finite', node.line)


def _count(node: Element, file: Path) -> int:
    """Return the number of copies of an element; refuse height fields of too many cells."""
    names = ("nrow", "ncol") if node.tag == "hfield" else (_COUNTED.get(node.tag, ""),)
    total = 1
    for text in " ".join(node.get(name, "") or "" for name in names).split():
        total *= max(int(text), 1) if re.fullmatch(r"[+-]?\d{1,12}", text) else 1
    if node.tag != "hfield":
        return total
    if total > MAX_CELLS:
        raise FileError(file, f"<hfield> has {total} cells; {MAX_CELLS} is the most", node.line)
    return 1


def _check_picture(target: Path, reference: str, file: Path, line: int) -> None:
    """Refuse a height field in a PNG that would unpack to more cells than allowed."""
    try:
        with open(target, "rb") as picture:
            head = picture.read(24)
    except OSError as error:
        raise FileError(file, f'"{reference}" cannot be read: {error.strerror or error}', line) from error
    if head[:8] == b"\x89PNG\r\n\x1a\n" and len(head) == 24:
        width, height = struct.unpack(">II", head[16:24])
        if width * height > MAX_CELLS:
            raise FileError(file, f'"{reference}" has {width * height} cells; {MAX_CELLS} is the most', line)
