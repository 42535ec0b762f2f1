"""Nested dissection: which constraints separate the others, from the whole down to small parts.

A part is cut at the middle of a coordinate. Constraints of one side that share a body with the other side are the
separator; of the two sides' choices the smaller is taken, and of all coordinates the cut with the smallest separator
for what it cuts off.
"""

from __future__ import annotations

import numpy as np

from limberjack._jit import inner, kernel
from limberjack.constraints.system import System

__all__ = ["dissect"]

_LEAF = 24  # constraints a part may hold that is not cut any further
_LANDMARKS = 4
_DEPTH = 64  # halving any number of constraints ends before


def dissect(
    system: System, start: np.ndarray, touches: np.ndarray, constraint: np.ndarray, positions: np.ndarray | None
) -> np.ndarray:
    """Return (nc,) the stage each constraint is eliminated in: 0 for small parts, then separators, the widest last.

    Args:
        system: which constraint touches which body.
        start: (nb + 1,) the touches of each body.
        touches: (nt,) in the order of bodies.
        constraint: (nt,) of each touch.
        positions: (nb, d) places of the bodies, or None.
    """
    nc, nb = len(system.touch_start) - 1, len(start) - 1
    axes = np.vstack([_hop_axes(system, start, touches, constraint), *_place_axes(system, constraint, positions)])
    stage = np.zeros(nc, np.int64)
    parts = np.arange(nc, dtype=np.int64)
    _cut_all(system, np.ascontiguousarray(axes), parts, np.empty(nc, np.int64), np.empty((_DEPTH, 3), np.int64),
             np.empty((nb, 2), np.int64), np.empty(nc), stage)  # fmt: skip
    return stage


def _place_axes(system: System, constraint: np.ndarray, positions: np.ndarray | None) -> list[np.ndarray]:
    """Return the mean position of each constraint's bodies, one axis after the other."""
    if positions is None:
        return []
    nc = len(system.touch_start) - 1
    count = np.maximum(np.bincount(constraint, minlength=nc), 1)
    places = np.asarray(positions, float)[system.touch_body]
    return [np.bincount(constraint, places[:, k], minlength=nc) / count for k in range(places.shape[1])]


def _hop_axes(system: System, start: np.ndarray, touches: np.ndarray, constraint: np.ndarray) -> np.ndarray:
    """Return distances from far constraints, and the sums and differences of each two of them."""
    nc = len(system.touch_start) - 1
    queue, seen = np.empty(nc, np.int64), np.empty(len(start) - 1, np.int64)
    hops = np.empty((_LANDMARKS, nc), np.int64)
    nearest = np.full(nc, nc, np.int64)
    _measure_hops(system, start, touches, constraint, 0, queue, seen, hops[0])
    source = int(hops[0].argmax())
    for k in range(_LANDMARKS):
        _measure_hops(system, start, touches, constraint, source, queue, seen, hops[k])
        np.minimum(nearest, hops[k], out=nearest)
        source = int(nearest.argmax())
    pairs = [(i, j) for i in range(_LANDMARKS) for j in range(i)]
    return np.vstack([hops, *(hops[i] + hops[j] for i, j in pairs), *(hops[i] - hops[j] for i, j in pairs)]).astype(
        float
    )


@kernel
def _measure_hops(
    system, start, touches, constraint,  # model
    source,  # in
    queue, seen,  # work
    hops,  # out
):  # fmt: skip
    """Fill the distance of every constraint from `source`; what cannot be reached is one hop beyond the farthest."""
    for i in range(len(hops)):
        hops[i] = -1
    for b in range(len(seen)):
        seen[b] = 0
    hops[source] = 0
    queue[0] = source
    head, tail = 0, 1
    while head < tail:
        i = queue[head]
        head += 1
        for t in range(system.touch_start[i], system.touch_start[i + 1]):
            b = system.touch_body[t]
            if seen[b] == 1:
                continue
            seen[b] = 1
            for s in range(start[b], start[b + 1]):
                j = constraint[touches[s]]
                if hops[j] < 0:
                    hops[j] = hops[i] + 1
                    queue[tail] = j
                    tail += 1
    far = hops[queue[tail - 1]] + 1
    for i in range(len(hops)):
        if hops[i] < 0:
            hops[i] = far
    return 0


@inner
def _middle(n, values):
    """Return the value that stands in the middle of the first n when sorted; reorders them."""
    low, high, k = 0, n - 1, n // 2
    while low < high:
        pivot = values[(low + high) >> 1]
        i, j = low, high
        while i <= j:
            while values[i] < pivot:
                i += 1
            while values[j] > pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if k <= j:
            high = j
        elif k >= i:
            low = i
        else:
            break
    return values[k]


@inner
def _mark_bodies(system, axes, axis, cut, parts, low, high, stamp, marks):
    """Mark the bodies touched from below `cut` and from above by the part; return how many constraints are below."""
    below = 0
    for m in range(low, high):
        i = parts[m]
        side = 0 if axes[axis, i] < cut else 1
        below += 1 - side
        for t in range(system.touch_start[i], system.touch_start[i + 1]):
            marks[system.touch_body[t], side] = stamp
    return below


@inner
def _at_border(system, i, other, stamp, marks):
    """Return whether constraint i touches a body that the other side touches too."""
    for t in range(system.touch_start[i], system.touch_start[i + 1]):
        if marks[system.touch_body[t], other] == stamp:
            return True
    return False


@inner
def _judge(system, axes, axis, cut, parts, low, high, stamp, marks):
    """Return the cost of a cut and the side that its separator is taken from."""
    below = _mark_bodies(system, axes, axis, cut, parts, low, high, stamp, marks)
    borders_below, borders_above = 0, 0
    for m in range(low, high):
        i = parts[m]
        if axes[axis, i] < cut:
            borders_below += 1 if _at_border(system, i, 1, stamp, marks) else 0
        else:
            borders_above += 1 if _at_border(system, i, 0, stamp, marks) else 0
    above = high - low - below
    side = 0 if borders_below <= borders_above else 1
    separator = borders_below if side == 0 else borders_above
    smaller = min(below - separator, above) if side == 0 else min(below, above - separator)
    if smaller <= 0:
        return np.inf, side
    return (separator + 0.5) / smaller, side


@inner
def _best_cut(system, axes, parts, low, high, stamp, marks, values):
    """Return the cheapest cut of a part: its cost, axis, value, side of the separator, and the next free stamp."""
    best, best_axis, best_cut, best_side = np.inf, -1, 0.0, 0
    for axis in range(len(axes)):
        for m in range(low, high):
            values[m - low] = axes[axis, parts[m]]
        middle = _middle(high - low, values)
        # Many constraints may stand at the middle itself: cut on either side of them.
        above = np.inf
        for m in range(high - low):
            if values[m] > middle and values[m] < above:
                above = values[m]
        for cut in (middle, above):
            cost, side = _judge(system, axes, axis, cut, parts, low, high, stamp, marks)
            stamp += 1
            if cost < best:
                best, best_axis, best_cut, best_side = cost, axis, cut, side
    return best, best_axis, best_cut, best_side, stamp


@inner
def _split(system, axes, axis, cut, side, parts, low, high, stamp, marks, sorted_parts, depth, stage):
    """Reorder a part as below, above, separator; set the separator's depth; return the ends of the first two."""
    _mark_bodies(system, axes, axis, cut, parts, low, high, stamp, marks)
    first, last = low, high
    for m in range(low, high):
        i = parts[m]
        own = 0 if axes[axis, i] < cut else 1
        if own == side and _at_border(system, i, 1 - side, stamp, marks):
            last -= 1
            sorted_parts[last] = i
            stage[i] = depth
        elif own == 0:
            sorted_parts[first] = i
            first += 1
    end = first
    for m in range(low, high):
        i = parts[m]
        if axes[axis, i] >= cut and stage[i] == 0:
            sorted_parts[end] = i
            end += 1
    for m in range(low, high):
        parts[m] = sorted_parts[m]
    return first, end


@kernel
def _cut_all(
    system, axes,  # model
    parts, sorted_parts, stack, marks, values,  # work
    stage,  # out
):  # fmt: skip
    """Fill the stages: cut every part until it is small, then count depths from the bottom."""
    for b in range(len(marks)):
        marks[b, 0] = -1
        marks[b, 1] = -1
    deepest, stamp, top = 0, 0, 1
    stack[0, 0], stack[0, 1], stack[0, 2] = 0, len(stage), 1
    while top > 0:
        top -= 1
        low, high, depth = stack[top, 0], stack[top, 1], stack[top, 2]
        if high - low <= _LEAF or top + 2 > len(stack):
            continue
        cost, axis, cut, side, stamp = _best_cut(system, axes, parts, low, high, stamp, marks, values)
        if axis < 0:
            continue
        first, end = _split(system, axes, axis, cut, side, parts, low, high, stamp, marks, sorted_parts, depth, stage)
        stamp += 1
        deepest = max(deepest, depth)
        stack[top, 0], stack[top, 1], stack[top, 2] = low, first, depth + 1
        stack[top + 1, 0], stack[top + 1, 1], stack[top + 1, 2] = first, end, depth + 1
        top += 2
    for i in range(len(stage)):
        if stage[i] > 0:
            stage[i] = deepest + 1 - stage[i]
    return 0
