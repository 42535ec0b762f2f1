"""The work arrays of the tree algorithms: one row of doubles per link, and rows per freedom.

World axes, at each link's own origin (the origin of its joint frame), so that a shift between links is a translation.
3-vectors and columns of 3x3 matrices take four places each, the last one 0, so that a register holds them.

| row columns | name | meaning |
|---|---|---|
| 0-11 | R | rotation link -> world, three columns; the last is the joint's axis z |
| 12-15 | O | position of the link's origin |
| 16-19 | D | origin minus the parent's origin |
| 20-23 | W | angular velocity |
| 24-27 | AL | angular acceleration: first with qdd = 0, in the last pass the change by qdd |
| 28-31 | AC | acceleration of the origin (classical, minus gravity), likewise |
| 32-43 | J | inertia, angular block, three columns; N = J alpha + H a, F = H^T alpha + M a |
| 44-55 | H | its coupling block, three rows (the columns of H^T) |
| 56-67 | M | its linear block, three columns |
| 68-75 | P | bias force: torque at the origin, force |
| 76-83 | U | inertia times the joint's direction (one-freedom links), at the parent's origin: angular, linear |
| 84 | DI | 1 / (S^T U) |
| 85 | UU | joint force less bias |
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from limberjack._jit import inner
from limberjack.model.arrays import LINK, Links
from limberjack.spatial.lanes import from_row

__all__ = [
    "AC",
    "AL",
    "D",
    "DI",
    "H",
    "J",
    "M",
    "O",
    "P",
    "R",
    "ROW",
    "U",
    "UU",
    "W",
    "Work",
    "based",
    "new_work",
    "rotation",
    "six",
]

R, O, D, W, AL, AC, J, H, M, P, U, DI, UU = 0, 12, 16, 20, 24, 28, 32, 44, 56, 68, 76, 84, 85  # noqa: E741
ROW = 88


class Work(NamedTuple):
    """Scratch of one evaluation; never shared between threads."""

    rows: np.ndarray  # (n, ROW)
    sines: np.ndarray  # (nq,) of every coordinate, angle or not: one loop without branches beats picking the angles
    cosines: np.ndarray  # (nq,)
    subspace: np.ndarray  # (nv, 6) columns of S, world axes at the link's origin; not filled for hinges and slides
    reduced: np.ndarray  # (nv, 6) L^-1 (I S)^T of links with several freedoms
    pivot: np.ndarray  # (nv, 6) factor of S^T I S: unit L, pivots on the diagonal
    rest: np.ndarray  # (nv,) L^-1 (joint force less bias)


def new_work(links: Links, blocks: np.ndarray | None = None) -> Work:
    """Return work arrays for `links`; with `blocks`, rows for the largest of these only, to be used through `based`."""
    n = len(links.parent) if blocks is None else int((blocks[:, LINK + 1] - blocks[:, LINK]).max(initial=0))
    nv, nq = len(links.armature), len(links.armature) + len(links.quaternions)
    return Work(
        np.zeros((n, ROW)),
        np.zeros(nq),
        np.zeros(nq),
        np.zeros((nv, 6)),
        np.zeros((nv, 6)),
        np.zeros((nv, 6)),
        np.zeros(nv),
    )


@inner
def based(work, first):
    """Return `work` with its row 0 standing for link `first`: one set of rows, small and in cache, for every block."""
    return Work(
        from_row(work.rows, first), work.sines, work.cosines, work.subspace, work.reduced, work.pivot, work.rest
    )


@inner
def rotation(i, rows):
    """Return the nine numbers of the rotation of link i, by rows."""
    return (
        rows[i, R], rows[i, R + 4], rows[i, R + 8], rows[i, R + 1], rows[i, R + 5], rows[i, R + 9],
        rows[i, R + 2], rows[i, R + 6], rows[i, R + 10],
    )  # fmt: skip


@inner
def six(i, k, rows):
    """Return the six numbers (xx, yy, zz, xy, xz, yz) of the symmetric matrix in columns k of row i."""
    return rows[i, k], rows[i, k + 5], rows[i, k + 10], rows[i, k + 4], rows[i, k + 8], rows[i, k + 9]
