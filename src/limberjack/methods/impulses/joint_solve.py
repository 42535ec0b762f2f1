"""Rows with bounds in the direct solve of all joints: limits, and dry friction in joints.

Several solves of a substep add impulses to the same rows; the bounds of each solve are those of the sum minus the sum
so far. The sums of soft rows (`maximal/soft_rows.py`) stand between those of limits and of friction.
`post_stabilize.py` and `pre_stabilize.py` call the solver.
"""

from __future__ import annotations

from limberjack._jit import outlined
from limberjack.linear.saddle import INFINITE, NO_ROOM, list_equalities
from limberjack.maximal import soft_rows
from limberjack.maximal.soft_rows import row_rate

__all__ = [
    "DIRECTION", "LAST", "START", "SUM", "add_soft_sums", "add_sums", "copy_sums", "extrapolate_sums",
    "interpolate_sums", "list_friction", "list_limits", "row_rates", "set_soft_sides",
]  # fmt: skip

# Columns of the accumulated impulses of rows with bounds: in the substep so far, at the start of a piece, before a
# round, and the search direction.
SUM, START, LAST, DIRECTION = range(4)


@outlined
def row_rates(system, first, last, j, u, values):
    """Fill the rates of the rows of constraints first .. last - 1 from the velocities."""
    for c in range(first, last):
        for r in range(system.row_start[c], system.row_start[c + 1]):
            values[r, 1] = row_rate(system, r, c, j, u)


@outlined
def list_limits(
    # in
    row_start, first, last, values, active, side, auxiliary, room, sums,
    # out
    last_force, count, constraint, low, high,
):  # fmt: skip
    """List the auxiliary equality constraints and the active limits; return the rows or NO_ROOM.

    A limit may take back its accumulated impulse: an earlier solve that knew less of the contacts may have overshot.

    Args:
        row_start: of the system.
        first, last: the range of one-sided constraints.
        values: (r, 3) value and rate of all rows.
        active: a row is active when its value is at most this.
        side: (r,) right sides; a row that would be violated is active too.
        auxiliary: auxiliary equality constraints.
        room: constraints that can be listed.
        sums: accumulated impulses of the one-sided constraints, and others.
        last_force: (r,) -1 for rows once listed, which stay listed: otherwise the active set could cycle.
        count, constraint: of the responses.
        low, high: bounds of the rows.
    """
    rows, listed = list_equalities(row_start, auxiliary, constraint, low, high), len(auxiliary)
    for c in range(first, last):
        r = row_start[c]
        if values[r, 0] <= active or last_force[r] != 0.0 or side[r] <= 0.0:
            if listed == room:
                return NO_ROOM
            constraint[listed] = c
            low[rows], high[rows] = -sums[c - first, SUM], INFINITE
            last_force[r] = -1.0
            listed += 1
            rows += 1
    count[0] = listed
    return rows


@outlined
def list_friction(row_start, friction_rows, most, h, rates, rows, room, sums, count, constraint, low, high, r, c):
    """Add the rows of joints with dry friction to those listed, bounded by h times their friction; return all rows.

    Args:
        row_start: of the system.
        friction_rows: constraints of one row along the coordinates of such joints.
        most: their friction.
        h: step [s].
        rates: (r, 3) values and rates of rows.
        rows: number of rows listed already.
        room: constraints that can be listed.
        sums: accumulated impulses, those of these rows last.
        count, constraint, low, high, r, c: of the saddle; r and c are its right sides and compliances.
    """
    listed, first = count[0], len(sums) - len(friction_rows)
    for k in range(len(friction_rows)):
        if listed == room:
            return NO_ROOM
        at = row_start[friction_rows[k]]
        constraint[listed] = friction_rows[k]
        done = sums[first + k, SUM]
        low[rows], high[rows] = -h * most[k] - done, h * most[k] - done
        r[at], c[at] = rates[at, 1], 0.0
        listed += 1
        rows += 1
    count[0] = listed
    return rows


@outlined
def add_sums(first, last, auxiliary, friction_rows, rows, count, constraint, force, sums):
    """Add the forces of the listed limits and friction rows, the last of all rows, to their sums."""
    listed = count[0] - auxiliary
    at, rubs = rows - listed, len(sums) - len(friction_rows)
    for i in range(listed):
        c = constraint[auxiliary + i]
        if c < last:
            sums[c - first, SUM] += force[at + i]
        else:
            sums[rubs, SUM] += force[at + i]
            rubs += 1


@outlined
def copy_sums(source, target, sums):
    """Copy a column of the sums."""
    for i in range(len(sums)):
        sums[i, target] = sums[i, source]


@outlined
def interpolate_sums(part, sums):
    """Take back all but a part of what was added since the last round."""
    for i in range(len(sums)):
        sums[i, SUM] = sums[i, LAST] + part * (sums[i, SUM] - sums[i, LAST])


@outlined
def extrapolate_sums(part, sums):
    """Extrapolate the sums along the last direction by a part of it; store the new direction.

    Sums may leave their bounds, as the velocities that belong to them do; the next solve brings both back.
    """
    for i in range(len(sums)):
        further = part * sums[i, DIRECTION]
        sums[i, DIRECTION] = further + sums[i, SUM] - sums[i, LAST]
        sums[i, SUM] += further


@outlined
def set_soft_sides(setup, soft, sums, j, u, saddle):
    """Set compliance and right sides of the soft rows at the velocities u, with their impulses so far."""
    for m in range(len(soft.row)):
        r = soft.row[m]
        if soft.acting[0]:
            law = soft.law[m]
            saddle.c[r] = law[soft_rows.C]
            done = sums[soft.first[0] + m, SUM]
            rate = row_rate(setup.system, r, soft.constraint[m], j, u)
            saddle.r[r] = rate + law[soft_rows.C] * done + law[soft_rows.B]
        else:
            saddle.c[r], saddle.r[r] = soft_rows.INERT, 0.0


@outlined
def add_soft_sums(soft, lam, sums):
    """Add the impulses of a solve to those of the soft rows so far."""
    if soft.acting[0]:
        for m in range(len(soft.row)):
            sums[soft.first[0] + m, SUM] += lam[soft.row[m]]
