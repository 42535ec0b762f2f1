"""Joints met by impulses, all at once by the saddle solver.

Velocities are met at the poses now (post-stabilisation, the paper's 4.3, along locked directions only); then impulses
along the rows of the poses now are added until the joints close at the poses a step leads to (pre-stabilisation, 4.2,
met together instead of joint by joint: its limit is the same).
"""

from __future__ import annotations

from limberjack._jit import outlined

__all__ = ["list_rubbing", "row_rates"]


@outlined
def row_rates(system, constraints, j, u, values):
    """Fill the rates of the rows of the first constraints from the velocities."""
    for c in range(constraints):
        first = system.row_start[c]
        for r in range(first, system.row_start[c + 1]):
            rate = 0.0
            for t in range(system.touch_start[c], system.touch_start[c + 1]):
                o, b = system.block_start[t] + 6 * (r - first), 6 * system.touch_body[t]
                for k in range(6):
                    rate += j[o + k] * u[b + k]
            values[r, 1] = rate


@outlined
def list_rubbing(row_start, rubbing, most, h, rates, rows, room, count, constraint, low, high, r, c):
    """Add the rows of joints with dry friction to those listed, cut at h times their largest force; return all rows.

    Args:
        row_start: of the system.
        rubbing: constraints of one row along the coordinates of such joints.
        most: their friction.
        h: step [s].
        rates: (r, 3) values and rates of rows.
        rows: listed already.
        room: constraints that can be listed.
        count, constraint, low, high, r, c: of the saddle; r and c are its right sides and compliances.
    """
    listed = count[0]
    for k in range(len(rubbing)):
        if listed == room:
            return -1
        at = row_start[rubbing[k]]
        constraint[listed] = rubbing[k]
        low[rows], high[rows] = -h * most[k], h * most[k]
        r[at], c[at] = rates[at, 1], 0.0
        listed += 1
        rows += 1
    count[0] = listed
    return rows
