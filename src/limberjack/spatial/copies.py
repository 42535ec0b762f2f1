"""Copies of arrays, as functions that many kernels share, and the bound of finite numbers."""

from __future__ import annotations

from limberjack._jit import outlined

__all__ = ["HUGE", "copy", "copy_rows"]

# A number beyond this counts as no longer finite: its square still is, so nothing has overflowed yet.
HUGE = 1e150


@outlined
def copy(source, target):
    """Copy the numbers of `source` to the beginning of `target`."""
    for i in range(len(source)):
        target[i] = source[i]


@outlined
def copy_rows(source, target):
    """Copy the rows of `source` to the first ones of `target`."""
    for i in range(source.shape[0]):
        for c in range(source.shape[1]):
            target[i, c] = source[i, c]
