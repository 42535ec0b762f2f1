"""The naive twin of the complementarity solver: every way the rows can rest or be free, tried in turn.

For each choice the free rows' forces are the shortest solution of w = 0 there; the choice is right when those forces
are between their bounds and every w has its sign. A solvable problem has a solution whose free rows are independent,
and that one is among the choices. Equalities are free, or at f = 0 when others already satisfy them.
"""

from __future__ import annotations

import itertools

import numpy as np

FREE, LOW, HIGH, IDLE = "free", "low", "high", "idle"


def choices(lo, hi):
    """Return what one row can do."""
    if lo == -np.inf and hi == np.inf:
        return (FREE, IDLE)
    return (FREE, *((LOW,) if lo > -np.inf else ()), *((HIGH,) if hi < np.inf else ()))


def faults(a, b, lo, hi, f):
    """Return by row how far a force is from its condition, in units of the terms w is summed from.

    What is 0 but for rounding of other rows counts by a millionth of the largest number in play, in units of the row.
    """
    w = a @ f + b
    root = np.sqrt(np.diagonal(a))
    largest = max((root * np.abs(f)).max(initial=0.0), (np.abs(b[root > 0.0]) / root[root > 0.0]).max(initial=0.0))
    level = np.abs(b) + np.abs(a) @ np.abs(f) + 1e-6 * root * largest
    wrong = np.abs(w)
    wrong = np.where(f <= lo, -w, wrong)
    wrong = np.where(f >= hi, w, wrong)
    wrong = np.where(lo == hi, 0.0, np.maximum(wrong, 0.0))
    outside = np.maximum(lo - f, 0.0) + np.maximum(f - hi, 0.0)
    return wrong / np.where(level > 0.0, level, 1.0) + outside / np.where(f != 0.0, np.abs(f), 1.0)


def enumerate_states(a, b, lo, hi, tolerance=1e-8):
    """Return the forces of the first choice that is right, or None when none is: the problem has no solution."""
    n = len(b)
    for chosen in itertools.product(*(choices(*bounds) for bounds in zip(lo, hi, strict=True))):
        f = np.zeros(n)
        for i, choice in enumerate(chosen):
            f[i] = {LOW: lo[i], HIGH: hi[i]}.get(choice, 0.0)
        free = np.array([choice == FREE for choice in chosen], bool)
        if free.any():
            side = -(b + a @ f)[free]
            f[free] = np.linalg.lstsq(a[np.ix_(free, free)], side, rcond=1e-10)[0]
        f = np.where((f < lo) & (f > lo - tolerance), lo, np.where((f > hi) & (f < hi + tolerance), hi, f))
        if faults(a, b, lo, hi, f).max(initial=0.0) < tolerance:
            return f
    return None
