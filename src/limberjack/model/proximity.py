"""Rules that join named points which come near each other, and release them again."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from limberjack.errors import StateError, UnknownName
from limberjack.model.check import is_iterable, number, unit
from limberjack.model.model import Model

__all__ = ["KINDS_ATTACHED", "NEIGHBOURS", "Proximity", "chosen_pairs"]

# Kinds that can be made while running: all that are equality rows between two frames.
KINDS_ATTACHED = (
    "fixed", "ball", "hinge", "slide", "universal", "cylindrical", "planar", "screw", "point_on_line",
    "point_on_plane", "distance",
)  # fmt: skip
NEIGHBOURS = ("free", "chain", "loop")
FRAMES = ("world", "point", "other")
_NUMBERS = ("distance", "release", "over")


@dataclass(frozen=True, kw_only=True)
class Proximity:
    """A rule for `sim.add_rule`: points that come near each other are joined, one of `others` to each of `points`.

    Attributes:
        points: names of points of the model.
        others: names of points to which they are joined.
        distance: a pair nearer than this is joined [m].
        release: a pair farther than this is released [m]; None = never for that reason.
        kind: of the joint.
        axis: of the joint when it is made.
        axis_in: the axes in which it is given: "world", or those of the body of the "point" or of the "other".
        snap: whether the two points are drawn together; else the bodies are joined as they are, at the first of the
            points.
        over: time in which points are drawn together [s].
        neighbours: "chain" and "loop" say that the points stand in a row, or in a ring, and that one whose neighbour is
            near nothing is released: so the links of a tread leave a wheel (Weinstein, Teran and Fedkiw 2006).
        every: steps between checks of the distances.
    """

    points: tuple[str, ...]
    others: tuple[str, ...]
    distance: float
    release: float | None = None
    kind: str = "ball"
    axis: tuple[float, ...] = (0.0, 0.0, 1.0)
    axis_in: str = "world"
    snap: bool = True
    over: float = 0.1
    neighbours: str = "free"
    every: int = 4

    def __post_init__(self) -> None:
        for word in ("points", "others"):
            given: Any = getattr(self, word)
            if isinstance(given, str) or not is_iterable(given):
                raise StateError(f'{word} must be names of points, like ("hook",), got {given!r}')
            object.__setattr__(self, word, tuple(map(str, given)))
        object.__setattr__(self, "axis", unit(self.axis, "axis"))
        number(self.distance, "distance", positive=True)
        number(self.over, "over", low=0.0)
        if self.release is not None:
            number(self.release, "release", low=float(self.distance))
        if self.kind not in KINDS_ATTACHED:
            raise UnknownName("joint kind", self.kind, "what can be attached", KINDS_ATTACHED)
        for word, choices in (("neighbours", NEIGHBOURS), ("axis_in", FRAMES)):
            if getattr(self, word) not in choices:
                raise UnknownName(word, getattr(self, word), "lj.Proximity", choices)
        if type(self.every) is not int or self.every < 1:
            raise StateError(f"every must be a whole number of steps >= 1, got {self.every!r}")

    def checked(self, model: Model) -> Proximity:
        """Return the rule itself; raise if the model lacks one of its points.

        Args:
            model: has the points of the rule.
        """
        known = [point.name for point in model.points]
        for name in (*self.points, *self.others):
            if name not in known:
                raise UnknownName("point", name, f'model "{model.name}"', known)
        return self

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values, floats in hexadecimal so that no bit is lost."""
        out = {item.name: getattr(self, item.name) for item in fields(self)}
        for name in _NUMBERS:
            out[name] = None if out[name] is None else float(out[name]).hex()
        return out | {"axis": [float(x).hex() for x in self.axis]}

    @staticmethod
    def from_json(data: dict[str, Any]) -> Proximity:
        """Return the rule that `to_json` gave.

        Args:
            data: what `to_json` returned.
        """
        given = dict(data)
        given |= {name: None if data[name] is None else float.fromhex(data[name]) for name in _NUMBERS}
        given["axis"] = tuple(map(float.fromhex, data["axis"]))
        return Proximity(**given)


def chosen_pairs(
    rule: Proximity, apart: np.ndarray, joined: dict[int, int], blocked: set[tuple[int, int]]
) -> np.ndarray:
    """Return which of the others each point is to be joined to, -1 for none.

    Args:
        rule: the rule.
        apart: (m, k) distances of points and others.
        joined: the other to which a point is joined now.
        blocked: pairs that were released by hand and are not joined again before they have been apart.
    """
    free = apart.copy()
    for pair in blocked:
        free[pair] = np.inf
    out = np.where(free.min(axis=1, initial=np.inf) <= rule.distance, free.argmin(axis=1), -1)
    for i, j in joined.items():
        if rule.release is None or apart[i, j] <= rule.release:
            out[i] = j
    if rule.neighbours == "free":
        return out
    before, after = np.roll(out, 1), np.roll(out, -1)
    if rule.neighbours == "chain":
        before[0], after[-1] = out[0], out[-1]
    return np.where((before == out) & (after == out), out, -1)
