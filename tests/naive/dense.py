"""The naive twin of the dense solves: ranks and kept rows straight from their definitions."""

from __future__ import annotations

import numpy as np


def left_over(a, kept):
    """Return by row the part of its diagonal that the rows kept do not explain: a least-squares fit for each row."""
    root = np.sqrt(np.diagonal(a))
    a = a / np.outer(root, root)
    out = np.zeros(len(a))
    for i in range(len(a)):
        if i not in kept:
            fit = np.linalg.lstsq(a[np.ix_(kept, kept)], a[kept, i], rcond=1e-14)[0] if kept else np.zeros(0)
            out[i] = 1.0 - a[i, kept] @ fit
    return out


def keep_rows(a, tolerance):
    """Return the independent rows of a symmetric matrix, the one with the largest part left over first."""
    kept: list[int] = []
    while len(kept) < len(a):
        parts = left_over(a, kept)
        if parts.max() <= tolerance:
            break
        kept.append(int(np.argmax(parts)))
    return kept
