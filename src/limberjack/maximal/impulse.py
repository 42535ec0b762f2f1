"""Impulses on bodies in maximal coordinates: the change of velocities that satisfies all constraint rows.

And the inverse: the multipliers of the rows that together exert given forces on the bodies.
"""

from __future__ import annotations

import numpy as np

from limberjack._jit import kernel
from limberjack.maximal.rows import evaluate
from limberjack.maximal.solve import ACTIVE_TOLERANCE, PROJECT, factor_and_solve

__all__ = ["apply_generalized_impulse", "multipliers_of_force"]


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


@kernel
def multipliers_of_force(
    # model
    setup, tree, structure,
    # in
    time, tolerance, force, e, saddle, s,
    # out
    multipliers,
):  # fmt: skip
    """Fill the multipliers (r,) whose forces J^T lam together are `force` (nu,) at the current poses; return a status.

    M a = J^T lam - force with J a = 0: a is zero where the rows can exert the force, and else its norm in the metric of
    the mass is the smallest. Inequality rows with values up to `tolerance` take part, and push only.
    """
    rows = setup.system.row_start[setup.constraints[1]]
    evaluate(setup.bodies, setup.system, setup.table, setup.row_block, setup.scalable_pairs, time, rows, s.pose, s.u, e)
    for r in range(rows):
        e.values[r, 1] = 0.0
        s.last_force[r] = 0.0
    for k in range(len(s.u)):
        saddle.f[k] = -force[k]
    status = factor_and_solve(
        setup, tree, structure, np.int64(1), 0.0, np.int64(PROJECT), 0.0, tolerance, False, e, s, saddle
    )
    for r in range(rows):
        multipliers[r] = saddle.lam[r] if status == 0 else 0.0
    return status
