"""Impulses on bodies in maximal coordinates: the change of velocities that satisfies all constraint rows."""

from __future__ import annotations

import numpy as np

from limberjack._jit import kernel
from limberjack.maximal.rows import evaluate
from limberjack.maximal.solve import ACTIVE_TOLERANCE, PROJECT, factor_and_solve

__all__ = ["apply_generalized_impulse"]


@kernel
def apply_generalized_impulse(
    # model
    setup, tree, structure,
    # in
    time, impulse, e, saddle,
    # out
    s,
):  # fmt: skip
    """Apply the impulse (nu,) at the current poses: velocities change such that all rows hold; return a status."""
    rows = setup.system.row_start[setup.constraints[1]]
    evaluate(setup.bodies, setup.system, setup.table, setup.row_block, setup.scalable_pairs, time, rows, s.pose, s.u, e)
    for k in range(len(s.u)):
        saddle.f[k] = impulse[k]
    status = factor_and_solve(
        setup, tree, structure, np.int64(1), 0.0, np.int64(PROJECT), 0.0, ACTIVE_TOLERANCE, False, e, s, saddle
    )
    if status == 0:
        for k in range(len(s.u)):
            s.u[k] += saddle.a[k]
    return status
