"""A URDF file being read: parsing of its numbers and elements, and its errors and repairs."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from limberjack.errors import FileError, ModelError
from limberjack.io.xml import Element
from limberjack.model import check

__all__ = ["KNOWN", "NO_TURN", "ORIGIN", "Pose", "Source"]

# Children of an element that give no warning: those that are read, then those without meaning for a model
# (hardware, controllers, sensors, settings of simulators).
KNOWN = {
    "robot": ("link", "joint", "material") + ("transmission", "gazebo", "sensor", "ros2_control"),
    "link": ("inertial", "visual", "collision", "contact") + ("gazebo", "sensor"),
    "joint": ("origin", "parent", "child", "axis", "limit", "dynamics", "mimic")
    + ("safety_controller", "calibration", "gazebo"),
    "inertial": ("origin", "mass", "inertia"),
    "visual": ("origin", "geometry", "material"),
    "collision": ("origin", "geometry") + ("material",),
    "geometry": ("box", "cylinder", "sphere", "capsule", "mesh"),
    "contact": ("lateral_friction", "restitution"),
}

_HUGE = 1e30
_OPTENV = re.compile(r"\$\(optenv\s+[^\s)]+\s*([^)]*)\)")

ORIGIN, NO_TURN = (0.0, 0.0, 0.0), (1.0, 0.0, 0.0, 0.0)

Pose = tuple[tuple[float, ...], tuple[float, ...]]


class Source:
    """The file being read.

    Args:
        path: the file.
        repair: whether defects are repaired, with a note; otherwise they are refused.

    Attributes:
        notes: what was repaired or left out, for warnings.
        unknown: lines of elements that are not read, by their path.
    """

    def __init__(self, path: Path, repair: bool) -> None:
        self.path = path
        self.repair = repair
        self.notes: list[str] = []
        self.unknown: dict[str, list[int]] = {}

    def error(self, node: Element, message: str) -> FileError:
        """Return the error at an element, to be raised."""
        return FileError(self.path, message, node.line)

    def warn(self, node: Element, message: str) -> None:
        """Note what was left out at an element."""
        self.notes.append(f"{self.path}:{node.line}: {message}")

    def mend(self, node: Element, problem: str, remedy: str) -> None:
        """Note a repair, or refuse the file where repairs are not wanted."""
        if not self.repair:
            raise self.error(node, problem)
        self.warn(node, f"{problem}; {remedy}")

    @contextmanager
    def at(self, node: Element) -> Iterator[None]:
        """Add file and line to errors of the builder."""
        try:
            yield
        except FileError:
            raise
        except ModelError as error:
            raise self.error(node, str(error)) from None

    def survey(self, node: Element, where: str) -> None:
        """Note children that are not read."""
        known = KNOWN[node.tag]
        for child in node.children:
            if child.tag not in known:
                self.unknown.setdefault(f"{where}/{child.tag}", []).append(child.line)

    def one(self, owner: str, node: Element, tag: str) -> Element | None:
        """Return the only child called `tag`; of several, the first."""
        found = node.all(tag)
        if len(found) > 1:
            problem = f"{owner}: <{tag}> stands {len(found)} times"
            self.mend(found[1], problem, f"line {found[0].line} is taken")
        return found[0] if found else None

    def name(self, node: Element) -> str:
        """Return the name of an element."""
        name = (node.get("name") or "").strip()
        with self.at(node):
            return check.name(name, f"the name of a {node.tag}")

    def numbers(
        self,
        owner: str,
        node: Element,
        key: str,
        sizes: Sequence[int],
        default: tuple[float, ...] | None = None,
        infinite: bool = False,
    ) -> tuple[float, ...]:
        """Return the numbers in an attribute.

        Args:
            owner: what the element belongs to, for messages.
            node: the element.
            key: the attribute.
            sizes: how many numbers there may be, the proper count first.
            default: taken where the attribute is missing or empty; None refuses that.
            infinite: whether infinite numbers are allowed.
        """
        what = f"{owner}: {key} of <{node.tag}>"
        text = node.get(key) or ""
        if "$" in text:
            text = self._expanded(what, node, text)
        if "," in text:
            self.mend(node, f'{what} has commas: "{text}"', "they are taken as spaces")
            text = text.replace(",", " ")
        words = text.split()
        if not words:
            if default is None:
                raise self.error(node, f"{what} is missing")
            return default
        try:
            if "_" in text:
                raise ValueError
            out = tuple(map(float, words))
        except ValueError:
            raise self.error(node, f'{what} must be numbers, got "{text[:80]}"') from None
        if len(out) not in sizes:
            problem = f'{what} must be {sizes[0]} numbers, got {len(out)}: "{text[:80]}"'
            if len(out) < max(sizes):
                raise self.error(node, problem)
            self.mend(node, problem, f"the first {max(sizes)} are taken")
            out = out[: max(sizes)]
        # Written so that NaN fails too; larger numbers would overflow where they are squared.
        if not infinite and not all(-_HUGE < x < _HUGE for x in out):
            raise self.error(node, f'{what} must be finite and below {_HUGE:g}, got "{text[:80]}"')
        if any(map(math.isnan, out)):
            raise self.error(node, f'{what} must be a number, got "{text[:80]}"')
        return out

    def number(
        self, owner: str, node: Element, key: str, default: float | None = None, infinite: bool = False
    ) -> float:
        """Return the one number in an attribute, like `numbers`."""
        return self.numbers(owner, node, key, (1,), None if default is None else (default,), infinite)[0]

    def _expanded(self, what: str, node: Element, text: str) -> str:
        plain = _OPTENV.sub(r"\1", text)
        if "$" in plain:
            raise self.error(node, f'{what} is "{text[:80]}", an expression of xacro: run xacro on the file first')
        self.mend(node, f'{what} is "{text}", left over from xacro', f'its default "{plain}" is taken')
        return plain

    def origin(self, owner: str, node: Element) -> Pose:
        """Return position and quaternion of the origin of an element."""
        origin = self.one(owner, node, "origin")
        if origin is None:
            return ORIGIN, NO_TURN
        return (
            self.numbers(owner, origin, "xyz", (3,), ORIGIN),
            _quaternion(*self.numbers(owner, origin, "rpy", (3,), ORIGIN)),
        )


def _quaternion(roll: float, pitch: float, yaw: float) -> tuple[float, ...]:
    """Return the quaternion of rotations about the fixed axes x, y, z in this order."""
    a, b, c = math.cos(roll / 2), math.cos(pitch / 2), math.cos(yaw / 2)
    x, y, z = math.sin(roll / 2), math.sin(pitch / 2), math.sin(yaw / 2)
    return (a * b * c + x * y * z, x * b * c - a * y * z, a * y * c + x * b * z, a * b * z - x * y * c)
