"""Which direct solver suits a system: elimination of a forest, or a block-sparse factorisation of all constraints.

The forest costs O(n) whatever its shape, and O(k^3) for k rows of loops on top (`tree.py`, `auxiliary.py`). The
block-sparse factor takes loops as it takes everything else, but the constraints of one body are all neighbours in
A = J M^-1 J^T: d joints around a hub take d^3 / 6 products of blocks. So both costs are predicted, from the order of
elimination for the second; what a hub costs at least is known without it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from limberjack.constraints.system import System
from limberjack.linear.elimination import split
from limberjack.linear.ordering import Ordering, order_constraints

__all__ = ["BALL_JOINTS", "GENERAL", "Choice", "Costs", "choose_solver"]


class Costs(NamedTuple):
    """Time that a step takes longer with the sparse solver, and with the forest [us]; measured on one machine."""

    product: float  # of two 3x3 blocks, in all factorisations of a step
    column: float  # per constraint
    body: float  # per body, with the forest


# Steps of general rows, which differ in the solver only; steps of ball joints, which know the sparse solver only,
# against general rows over the forest.
GENERAL = Costs(6e-3, 0.0, 0.0)
BALL_JOINTS = Costs(2.5e-3, 0.11, 1.25)
# Time per step of k rows of loops over a forest, as coefficients of k, k^2, k^3 [us].
_LOOP_ROWS = (1.8, 0.014, 1e-4)


class Choice(NamedTuple):
    """The solver that is predicted to be faster."""

    sparse: bool
    ordering: Ordering | None  # of the sparse solver, where it was found
    loop_rows: int  # rows outside the forest


def choose_solver(system: System, primary: np.ndarray, *, few: int = -1, costs: Costs = GENERAL) -> Choice:
    """Return which solver takes the equality constraints of `system`.

    Args:
        system: equality constraints.
        primary: (nc,) bool, which of them may be part of the forest.
        few: up to so many rows of loops the forest is taken, whatever the costs.
        costs: of a step.
    """
    rows = np.diff(system.row_start)
    loop_rows = int(rows[split(system, primary).auxiliary].sum())
    if loop_rows <= few or not len(rows):
        return Choice(False, None, loop_rows)
    forest = costs.body * (len(system.body_start) - 1) + sum(c * loop_rows ** (i + 1) for i, c in enumerate(_LOOP_ROWS))
    product, columns = costs.product * (float(rows.mean()) / 3.0) ** 3, costs.column * len(rows)
    degree = int(np.bincount(system.incidence_body).max(initial=0))
    if columns + product * (degree**3 - degree) / 6 > forest:
        return Choice(False, None, loop_rows)
    ordering = order_constraints(system)
    return Choice(columns + product * ordering.updates <= forest, ordering, loop_rows)
