"""The work arrays of the tree algorithms: one row of doubles per link, and rows per dof.

World axes, at each link's own origin (the origin of its joint frame), so that a shift between links is a translation.
3-vectors and columns of 3x3 matrices take four numbers each, so that a register holds them. The fourth of some
holds something else; what lanes compute there is never used.

| row columns | name | meaning |
|---|---|---|
| 0-3 | W | angular velocity |
| 4-7 | AL | angular acceleration with qdd = 0 |
| 8-11 | AC | acceleration of the origin with qdd = 0 (classical, minus gravity) |
| 12-23 | R | rotation link -> world, three columns; the last is the joint's axis z |
| 15, 19, 23 | | in the fourth numbers of R: position of the link's origin |
| 24-27 | D | origin minus the parent's origin |
| 28-39 | J | inertia, angular block, three columns; N = J alpha + H a, F = H^T alpha + M a |
| 31, 35, 39 | | in the fourth numbers of J: h = m c of the rigid link, H = [h] |
| 40-47 | P | bias force: torque at the origin, force |
| 43 | | in the fourth number of P: m of the rigid link, M = m 1 |
| 48-59 | H | coupling block of a link that others were added to, three rows (the columns of H^T) |
| 60-71 | M | its linear block, three columns |
| 28-35 | U | once J is not needed: inertia times the joint's direction (one dof), at the parent's origin |
| 31, 35 | DI, UU | likewise, in the fourth numbers of U: 1 / (S^T U), joint force less bias |
| 36-39 | BL | likewise: change of angular acceleration by qdd |
| 40-43 | BC | once P is not needed: change of the origin's acceleration by qdd |

The order is that of use, and rows are short: long chains are bound by memory.
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
    "BC",
    "BL",
    "D",
    "DI",
    "DOFS",
    "H",
    "J",
    "LANE_COLUMNS",
    "LINKS",
    "Lanes",
    "M",
    "P",
    "R",
    "ROW",
    "U",
    "UU",
    "W",
    "Work",
    "based",
    "new_lanes",
    "new_work",
    "rotation",
    "six",
    "take_block",
]

W, AL, AC, R, D, J, P, H, M = 0, 4, 8, 12, 24, 28, 40, 48, 60
U, DI, UU, BL, BC = 28, 31, 35, 36, 40
ROW = 72


# Columns of a link of four figures at once (`figure_lanes.py`), and where the sizes of a figure are.
LANE_COLUMNS = 72
LINKS, DOFS = 0, 1


class Lanes(NamedTuple):
    """Scratch of blocks of four identical figures; k blocks, figures of at most n links."""

    rows: np.ndarray  # (LANE_COLUMNS n, 4) each column of each link, of the four figures
    blocks: np.ndarray  # (k, 3) links, dofs and coordinates of a figure; 0 where a block is stepped link by link
    size: np.ndarray  # (3,) those of the block in work


def new_lanes(blocks: np.ndarray) -> Lanes:
    """Return scratch for blocks with these sizes of figures."""
    return Lanes(np.zeros((LANE_COLUMNS * int(blocks[:, LINKS].max(initial=0)), 4)), blocks, np.zeros(3, np.int64))


# Never written: work whose blocks are stepped link by link.
NO_LANES = new_lanes(np.zeros((0, 3), np.int64))


class Work(NamedTuple):
    """Scratch of one evaluation; never shared between threads."""

    rows: np.ndarray  # (n, ROW)
    sines: np.ndarray  # (nq,) of every coordinate, angle or not: one loop without branches beats picking the angles
    cosines: np.ndarray  # (nq,)
    subspace: np.ndarray  # (nv, 6) columns of S, world axes at the link's origin; not filled for hinges and slides
    reduced: np.ndarray  # (nv, 6) L^-1 (I S)^T of links with several dofs
    pivot: np.ndarray  # (nv, 6) factor of S^T I S: unit L, pivots on the diagonal
    rest: np.ndarray  # (nv,) L^-1 (joint force less bias)
    lanes: Lanes = NO_LANES


def new_work(links: Links, blocks: np.ndarray | None = None) -> Work:
    """Return work arrays for `links`; with `blocks`, rows for the largest of these only, to be used through `based`."""
    n = len(links.parent) if blocks is None else int((blocks[:, LINK + 1] - blocks[:, LINK]).max(initial=0))
    nv, nq = len(links.armature), len(links.armature) + len(links.quaternions)
    rows = np.empty((n, ROW))  # not np.zeros: NumPy asks for huge pages here only, and long chains need them
    rows.fill(0.0)
    return Work(
        rows,
        np.zeros(nq),
        np.zeros(nq),
        np.zeros((nv, 6)),
        np.zeros((nv, 6)),
        np.zeros((nv, 6)),
        np.zeros(nv),
    )


@inner
def take_block(k, lanes):
    """Take note of the sizes of the figures of block k, which is about to be stepped; -1 = link by link."""
    if len(lanes.blocks) > 0:
        for c in range(3):
            lanes.size[c] = lanes.blocks[k, c] if k >= 0 else 0


@inner
def based(work, first):
    """Return `work` with its row 0 standing for link `first`: one set of rows, small and in cache, for every block."""
    return Work(
        from_row(work.rows, first), work.sines, work.cosines, work.subspace, work.reduced, work.pivot, work.rest,
        work.lanes,
    )  # fmt: skip


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
