"""Loops along rows, written so that they run on several numbers at once.

Places are unsigned inside: for a signed one the compiler has to allow for a place counted from the end, and then takes
one number at a time, at a quarter of the speed. Sums keep their order, so results are the same on every machine.
"""

from __future__ import annotations

import numpy as np

from limberjack._jit import inner

__all__ = ["add_to", "dot", "subtract_row"]


@inner
def dot(count, i, a, x):
    """Return the sum of a[i, j] x[j] for j < count, in four sums that do not wait for each other."""
    row, one, two, three = np.uint64(i), np.uint64(1), np.uint64(2), np.uint64(3)
    end, whole = np.uint64(count), np.uint64(count - count % 4)
    s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
    for j in range(np.uint64(0), whole, np.uint64(4)):
        s0 += a[row, j] * x[j]
        s1 += a[row, j + one] * x[j + one]
        s2 += a[row, j + two] * x[j + two]
        s3 += a[row, j + three] * x[j + three]
    for j in range(whole, end):
        s0 += a[row, j] * x[j]
    return (s0 + s1) + (s2 + s3)


@inner
def add_to(x, first, end, t, i, a):
    """Add t a[i, j] to x[j] for first <= j < end."""
    row, start = np.uint64(i), np.uint64(first)
    for j in range(np.uint64(max(end - first, 0))):
        x[start + j] += t * a[row, start + j]


@inner
def subtract_row(i, first, end, t, k, a):
    """Subtract t a[k, j] from a[i, j] for first <= j < end."""
    row, other, start = np.uint64(i), np.uint64(k), np.uint64(first)
    for j in range(np.uint64(max(end - first, 0))):
        a[row, start + j] -= t * a[other, start + j]
