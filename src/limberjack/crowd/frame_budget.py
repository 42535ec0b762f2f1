"""A budget that follows the clock: as many joints as a frame has time for."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from limberjack.errors import StateError

__all__ = ["FrameBudget"]

# A frame within this share of its time changes nothing: the clock itself is not better.
_DEAD_BAND = 0.05
# Most that the budget grows and falls from one frame to the next, and the part of the way that it takes.
_RISE, _FALL, _PART = 1.1, 0.6, 0.35
_FIRST_SHARE = 0.1


class FrameBudget:
    """Chooses the budget of each frame from the time that the frames before took; what it chose is recorded.

    Args:
        milliseconds: time of a frame [ms].
        joints: all there are.
        record: (frames, 2) frame and budget of each change, to be repeated instead of looking at the clock.
    """

    def __init__(self, milliseconds: float | None, joints: int, record: ArrayLike | None = None) -> None:
        self.milliseconds, self._joints = milliseconds, joints
        self.budget, self.frame = max(1, round(_FIRST_SHARE * joints)), 0
        self._changes = [(0, self.budget)]
        self._repeated = None if record is None else _checked(record)
        if self._repeated:
            self.budget = self._repeated[0]
            self._changes = [(0, self.budget)]

    @property
    def record(self) -> np.ndarray:
        """(changes, 2) the frame and the budget of each change."""
        return np.array(self._changes, np.int64)

    def next(self, seconds: float) -> int:
        """Return the budget of the next frame after one that took `seconds`."""
        self.frame += 1
        before = self.budget
        if self._repeated is not None:
            self.budget = self._repeated.get(self.frame, before)
        elif self.milliseconds is not None:
            self.budget = self._chosen(1e-3 * self.milliseconds / max(seconds, 1e-9))
        if self.budget != before:
            self._changes.append((self.frame, self.budget))
        return self.budget

    def _chosen(self, room: float) -> int:
        """Return the budget for `room` times the time that the last frame took."""
        if abs(math.log(room)) < _DEAD_BAND:
            return self.budget
        # frames that are late are shortened at once, time left over is taken little by little
        factor = room if room < 0.75 else room**_PART
        wanted = self.budget * min(max(factor, _FALL), _RISE)
        wanted = math.ceil(wanted) if factor > 1.0 else math.floor(wanted)
        return min(max(wanted, 1), self._joints)


def _checked(record: ArrayLike) -> dict[int, int]:
    array = np.asarray(record)
    rising = array.ndim == 2 and array.shape[1:] == (2,) and len(array) > 0 and array.dtype.kind in "iu"
    if not rising or array[0, 0] != 0 or (np.diff(array[:, 0]) <= 0).any() or (array < 0).any():
        raise StateError(f"budgets must be (frame, budget) from frame 0 on, as `crowd.budgets`, got {record!r}")
    return {int(frame): int(budget) for frame, budget in array}
