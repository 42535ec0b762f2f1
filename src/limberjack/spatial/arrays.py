"""Copies of arrays, as functions that many kernels share."""

from __future__ import annotations

from limberjack._jit import outlined

__all__ = ["copy", "copy_rows"]


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
