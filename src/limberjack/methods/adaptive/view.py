"""`View`: a camera as an option of method `adaptive`, and the checks of options."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from limberjack.errors import StateError

__all__ = ["View", "number", "whole"]


def number(value: Any, what: str, low: float = 0.0) -> None:
    """Refuse what is no finite number from `low` on."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise StateError(f"{what} must be a number, got {value!r}")
    if not (math.isfinite(value) and value >= low):
        raise StateError(f"{what} must be a finite number >= {low:g}, got {value!r}")


def whole(value: Any, what: str, low: int) -> None:
    """Refuse what is no whole number from `low` on."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < low:
        raise StateError(f"{what} must be a whole number >= {low}, got {value!r}")


@dataclass(frozen=True, kw_only=True)
class View:
    """A camera that decides how much motion can be seen.

    A part of the body that would move by fewer pixels than `tolerance` within an update period need not be simulated.

    Args:
        position: (3,) of the camera [m].
        target: (3,) point it looks at [m].
        pixels: height of the picture [pixels].
        angle: opening of the picture, from bottom to top [rad].
        tolerance: displacement that may go unseen [pixels].
    """

    position: tuple[float, float, float]
    target: tuple[float, float, float] = (0.0, 0.0, 0.0)
    pixels: int = 1080
    angle: float = 0.8
    tolerance: float = 1.0

    def __post_init__(self) -> None:
        for what in ("position", "target"):
            value = getattr(self, what)
            try:
                place = tuple(float(x) for x in value)
            except (TypeError, ValueError):
                raise StateError(f"{what} of the view must be 3 numbers, got {value!r}") from None
            if len(place) != 3 or not all(map(math.isfinite, place)):
                raise StateError(f"{what} of the view must be 3 finite numbers, got {value!r}")
            object.__setattr__(self, what, place)
        if self.position == self.target:
            raise StateError(f"the view looks from {self.position} at the same point; move one of them")
        whole(self.pixels, "pixels of the view", 1)
        number(self.tolerance, "tolerance of the view")
        number(self.angle, "angle of the view")
        if not 0.0 < self.angle < math.pi:
            raise StateError(f"angle of the view must be between 0 and pi, got {self.angle!r}")
        if self.tolerance == 0.0:
            raise StateError("tolerance of the view must be > 0 pixels, got 0")
