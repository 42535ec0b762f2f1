"""Budgets of crowds: as many joints as a frame has time for, and their division among figures by weights."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from limberjack.errors import StateError
from limberjack.model.joints import FREE
from limberjack.model.model import Model

__all__ = ["FrameBudget", "counted_joints", "divide"]

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
        first: the budget to begin with; a tenth of the joints when None.
    """

    def __init__(
        self, milliseconds: float | None, joints: int, record: ArrayLike | None = None, first: int | None = None
    ) -> None:
        self.milliseconds, self.joints = milliseconds, joints
        self.budget, self.frame = max(1, round(_FIRST_SHARE * joints)) if first is None else first, 0
        self._changes, self._steps = [(0, self.budget)], 0
        self._repeated = None if record is None else _checked(record)
        if self._repeated:
            self.budget = self._repeated[0]
            self._changes = [(0, self.budget)]

    @property
    def record(self) -> np.ndarray:
        """(changes, 2) the frame and the budget of each change."""
        return np.array(self._changes, np.int64)

    def expect(self, steps: int) -> int:
        """Return the budget of the frame about to begin, of so many steps: three times the steps, a third of it."""
        before, self._steps = self._steps, steps
        if self.milliseconds is not None and before and steps > before:
            self._set(max(1, self.budget * before // steps))
        return self.budget

    def _set(self, budget: int) -> None:
        """Take a budget for the frame to come, and note it if it is another."""
        if budget != self.budget:
            self.budget = budget
            if self._changes[-1][0] == self.frame:
                self._changes.pop()
            self._changes.append((self.frame, budget))

    def next(self, seconds: float) -> int:
        """Return the budget of the next frame after one that took `seconds`."""
        self.frame += 1
        if self._repeated is not None:
            self._set(self._repeated.get(self.frame, self.budget))
        elif self.milliseconds is not None:
            self._set(self._chosen(1e-3 * self.milliseconds / max(seconds, 1e-9)))
        return self.budget

    def _chosen(self, room: float) -> int:
        """Return the budget for `room` times the time that the last frame took."""
        if abs(math.log(room)) < _DEAD_BAND:
            return self.budget
        # frames that are late are shortened at once, time left over is taken little by little
        factor = room if room < 0.75 else room**_PART
        wanted = self.budget * min(max(factor, _FALL), _RISE)
        wanted = math.ceil(wanted) if factor > 1.0 else math.floor(wanted)
        return min(max(wanted, 1), self.joints)


def counted_joints(model: Model) -> int:
    """Return how many joints of a figure a budget counts: those that move, but for free joints to the world."""
    links = model.arrays.links
    return int(((links.dof > 0) & (links.kind != FREE)).sum())


def divide(budget: int, weights: np.ndarray, most: np.ndarray) -> tuple[int, ...]:
    """Return a budget divided by weights, none of it lost as long as a figure with a weight can take it.

    Args:
        budget: joints to divide.
        weights: (figures,) numbers >= 0; figures of weight infinity get all they can take first.
        most: (figures,) joints that a figure can take.
    """
    out = np.zeros(len(most), np.int64)
    for part in (np.isinf(weights), np.isfinite(weights) & (weights > 0.0)):
        weight, left = np.where(part, np.where(np.isinf(weights), 1.0, weights), 0.0), budget - int(out.sum())
        # figures that are full leave the rest to the others
        while left > 0 and (open_ := (weight > 0.0) & (out < most)).any():
            share = np.where(open_, weight, 0.0)
            ends = np.floor(np.cumsum(share) / share.sum() * left + 0.5).astype(np.int64)
            given = np.minimum(np.diff(ends, prepend=0), most - out)
            if not given.any():
                break
            out += given
            left = budget - int(out.sum())
    return tuple(out.tolist())


def _checked(record: ArrayLike) -> dict[int, int]:
    array = np.asarray(record)
    rising = array.ndim == 2 and array.shape[1:] == (2,) and len(array) > 0 and array.dtype.kind in "iu"
    if not rising or array[0, 0] != 0 or (np.diff(array[:, 0]) <= 0).any() or (array < 0).any():
        raise StateError(f"budgets must be (frame, budget) from frame 0 on, as `crowd.budgets`, got {record!r}")
    return {int(frame): int(budget) for frame, budget in array}
