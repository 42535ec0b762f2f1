"""Forces of constraint rows on trees, and when velocities held: what reactions are made of."""

from __future__ import annotations

import numpy as np

from limberjack.constraints.row_forces import RowForces, forces_of_rows
from limberjack.model.arrays import LINK
from limberjack.reduced.constraint_set import ConstraintSet
from limberjack.reduced.variational import LAG

__all__ = ["lag_of", "row_forces_of"]


def row_forces_of(rows: ConstraintSet) -> RowForces:
    """Return the forces of the rows of a tree in the last step; forces applied to loop joints are among them."""
    table, constraint, own = rows.table, rows.constraint, rows.own
    multipliers = constraint.multipliers.copy()
    applied = own.indices[:, 1] >= 0
    if len(own.tau):
        # of a ball the index is that of the first of its three rows
        number = np.zeros(len(multipliers), np.int64)
        for r in np.flatnonzero(applied & (table.speed == 1)):
            number[r] = 0 if r == 0 or own.indices[r - 1, 1] != own.indices[r, 1] else number[r - 1] + 1
        multipliers[applied] += own.tau[(own.indices[:, 1] + number)[applied]]
    return forces_of_rows(table, multipliers, constraint.wrench)


def lag_of(spans: np.ndarray, clock: np.ndarray, links: int) -> np.ndarray:
    """Return, per link, how long ago its velocities held: in blocks that contacts act on, half of a substep."""
    out = np.zeros(links)
    for span, own in zip(spans, clock, strict=False):
        out[span[LINK] : span[LINK + 1]] = 0.5 * own[LAG]
    return out
