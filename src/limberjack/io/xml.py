"""XML read safely, and the folders a model file may take other files from.

Model files are untrusted: no DOCTYPE and no entities, no recursion over the tree, regular files of
bounded size only, and nothing from outside the declared roots, symbolic links followed.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import unquote
from xml.parsers import expat

from limberjack.errors import FileError

__all__ = ["MAX_BYTES", "Element", "Roots", "parse_xml", "read_bytes", "read_xml"]

MAX_BYTES = 256 * 1024 * 1024

# What marks a folder as a package of ROS, of old ROS, or a model of Gazebo.
_MARKERS = ("package.xml", "manifest.xml", "model.config")
_FIND = re.compile(r"\$\(find\s+([^)\s]+)\s*\)/*(.*)", re.DOTALL)
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://(.*)", re.DOTALL)


class Element:
    """One XML element: tag and attributes as written (prefixes kept), children, own text, line."""

    __slots__ = ("attributes", "children", "line", "tag", "text")

    def __init__(self, tag: str, attributes: dict[str, str], line: int) -> None:
        self.tag = tag
        self.attributes = attributes
        self.children: list[Element] = []
        self.text = ""
        self.line = line

    def __repr__(self) -> str:
        return f"Element(<{self.tag}> at line {self.line}, {len(self.children)} children)"

    def get(self, name: str, default: str | None = None) -> str | None:
        """Return the attribute called `name`."""
        return self.attributes.get(name, default)

    def all(self, tag: str) -> list[Element]:
        """Return the children called `tag`, in file order."""
        return [child for child in self.children if child.tag == tag]

    def first(self, tag: str) -> Element | None:
        """Return the first child called `tag`, or None."""
        return next((child for child in self.children if child.tag == tag), None)

    def walk(self) -> Iterator[Element]:
        """Yield this element and all below it in file order, without recursion."""
        stack: list[Element] = [self]
        while stack:
            node = stack.pop()
            yield node
            stack.extend(reversed(node.children))


def read_bytes(path: Path, largest: int = MAX_BYTES) -> bytes:
    """Return what a regular file of at most `largest` bytes holds."""
    try:
        # Checked before opening, because opening a pipe waits for its other end.
        found = os.stat(path)
        if stat.S_ISDIR(found.st_mode):
            raise FileError(path, "is a folder")
        if not stat.S_ISREG(found.st_mode):
            raise FileError(path, "is not a regular file")
        with open(path, "rb") as file:
            if os.fstat(file.fileno()).st_size > largest:
                raise FileError(path, f"is larger than {largest / 2**20:.0f} MB")
            data = file.read(largest + 1)
    except FileNotFoundError:
        raise FileError(path, "no such file") from None
    except (OSError, ValueError) as error:
        if isinstance(error, FileError):
            raise
        raise FileError(path, f"cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if len(data) > largest:
        raise FileError(path, f"is larger than {largest / 2**20:.0f} MB")
    return data


def read_xml(path: Path) -> Element:
    """Return the root element of an XML file; a DOCTYPE, malformed text or unknown encoding is refused."""
    return parse_xml(path, read_bytes(path))


def parse_xml(path: Path, data: bytes) -> Element:
    """Return the root element of the XML text `data`; `path` names it in errors."""
    root = Element("", {}, 0)
    stack = [root]
    texts: list[list[str] | None] = [None]
    parser = expat.ParserCreate()

    def start(tag: str, attributes: dict[str, str]) -> None:
        node = Element(tag, attributes, parser.CurrentLineNumber)
        stack[-1].children.append(node)
        stack.append(node)
        texts.append(None)

    def end(_tag: str) -> None:
        node, parts = stack.pop(), texts.pop()
        if parts is not None:
            node.text = "".join(parts).strip()

    def characters(text: str) -> None:
        parts = texts[-1]
        if parts is not None:
            parts.append(text)
        elif not text.isspace():
            texts[-1] = [text]

    parser.buffer_text = True
    parser.buffer_size = 1 << 20
    parser.StartElementHandler, parser.EndElementHandler, parser.CharacterDataHandler = start, end, characters

    def refuse(*_: object) -> None:
        raise FileError(path, "a DOCTYPE or entity declaration is not allowed", parser.CurrentLineNumber)

    parser.StartDoctypeDeclHandler = parser.EntityDeclHandler = refuse
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        raise FileError(path, f"not well-formed XML: {expat.ErrorString(error.code)}", error.lineno) from None
    except FileError:
        raise
    except (ValueError, LookupError) as error:
        raise FileError(path, f"unreadable text encoding: {error}", parser.CurrentLineNumber) from None
    return root.children[0]


class Roots:
    """Resolves the references of one model file, within the folders that are allowed.

    Allowed are the file's own folder and all below it, the package (a folder with package.xml) the file is
    part of, the `extra` roots, and for a `package://` or `model://` reference the package it names.

    Args:
        file: the model file that holds the references.
        extra: further folders files may come from; relative references are tried there too.
        package_paths: folders searched for packages, before ROS_PACKAGE_PATH, AMENT_PREFIX_PATH and the
            folders at, above and beside the file.
    """

    def __init__(self, file: Path, extra: Sequence[Path] = (), package_paths: Sequence[Path] = ()) -> None:
        self._file = Path(file)
        self._folder = _real(self._file).parent
        self._extra = [_real(Path(path)) for path in extra]
        self._package_paths = [_real(Path(path)) for path in package_paths]
        self._allowed = [self._folder, *self._extra]
        own = next((folder for folder in (self._folder, *self._folder.parents) if _is_marked(folder)), None)
        if own is not None and own.parent != own:
            self._allowed.append(own)
        self._packages: dict[str, list[Path]] = {}

    def resolve(self, reference: str, line: int) -> Path:
        """Return the real path of the regular file `reference` names; errors name file, line and reference."""
        found = self.find(reference, line)
        if found is None:
            message = f'"{reference}" is not found; pass roots=[...] or package_paths=[...]'
            raise FileError(self._file, message, line)
        return found

    def find(self, reference: str, line: int) -> Path | None:
        """Return what `resolve` does, but None where there is no such file; a forbidden one still raises."""
        for path, allowed in self._candidates(reference.strip().replace("\\", "/")):
            try:
                real = path.resolve(strict=True)
                mode = os.stat(real).st_mode
            except (OSError, ValueError, RuntimeError):
                continue
            if not any(real.is_relative_to(root) for root in allowed):
                message = f'"{reference}" leads to {real}, outside the folders of this model'
                raise FileError(self._file, f"{message}; pass roots=[...] to allow it", line)
            if stat.S_ISDIR(mode):
                continue
            if not stat.S_ISREG(mode):
                raise FileError(self._file, f'"{reference}" is not a regular file', line)
            return real
        return None

    def _candidates(self, reference: str) -> Iterator[tuple[Path, list[Path]]]:
        """Yield the paths a reference can mean, each with the folders it must stay in."""
        scheme = _SCHEME.fullmatch(reference)
        kind, rest = (scheme[1].lower(), unquote(scheme[2])) if scheme else ("", reference)
        found = _FIND.fullmatch(rest)
        if found:
            kind, rest = "package", f"{found[1]}/{found[2]}"
        if kind in ("package", "model"):
            name, _, rest = rest.lstrip("/").partition("/")
            rest = rest.lstrip("/")
            for package in self._find_packages(name):
                yield package / rest, [*self._allowed, package]
            for root in self._extra:
                yield root / rest, self._allowed
        elif kind in ("", "file"):
            rest = rest.removeprefix("localhost") if kind and rest.startswith("localhost/") else rest
            for folder in (self._folder, *self._extra):
                yield folder / rest, self._allowed

    def _find_packages(self, name: str) -> list[Path]:
        """Return the real folders that can be the package `name`, by precedence."""
        if name in ("", ".", "..") or "\0" in name:
            return []
        if name not in self._packages:
            real = (_real(folder) for folder in self._package_folders(name))
            self._packages[name] = list(dict.fromkeys(folder for folder in real if folder.is_dir()))
        return self._packages[name]

    def _package_folders(self, name: str) -> Iterator[Path]:
        listed = os.environ.get("ROS_PACKAGE_PATH", "").split(os.pathsep)
        for folder in (*self._package_paths, *self._extra, *(Path(entry) for entry in listed if entry)):
            if folder.name == name:
                yield folder
            yield folder / name
        for entry in os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep):
            if entry:
                yield Path(entry) / "share" / name
        for folder in (self._folder, *self._folder.parents):
            # An untrusted file must not make the home or a system folder a package: those need a marker.
            if folder.name == name and (_is_marked(folder) or _is_inner(folder)):
                yield folder
            if _is_marked(folder / name) or _is_inner(folder):
                yield folder / name


def _real(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError):
        return path.absolute()


def _is_marked(folder: Path) -> bool:
    try:
        return any((folder / marker).is_file() for marker in _MARKERS)
    except OSError:
        return False


def _is_inner(folder: Path) -> bool:
    """Return whether `folder` is neither near the top of the file system nor the home folder or above it."""
    try:
        home = _real(Path.home())
    except RuntimeError:
        home = Path("/")
    return len(folder.parts) > 2 and not home.is_relative_to(folder)
