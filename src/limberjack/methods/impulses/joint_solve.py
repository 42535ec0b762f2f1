"""Joints met by impulses, all at once by the saddle solver.

Velocities are met at the poses now (post-stabilisation, the paper's 4.3, along locked directions only); then impulses
along the rows of the poses now are added until the joints close at the poses a step leads to (pre-stabilisation, 4.2,
met together instead of joint by joint: its limit is the same).
"""

from __future__ import annotations

from limberjack._jit import outlined
from limberjack.linear.saddle import INFINITE, NO_ROOM, list_equalities

__all__ = [
    "DIRECTION", "LAST", "START", "SUM", "add_sums", "copy_sums", "extrapolate_sums", "interpolate_sums",
    "list_friction", "list_limits", "row_rates",
]  # fmt: skip

# Columns of what rows with bounds have pushed with: in the substep so far, at the start of a piece, before a round, and
# the direction it goes.
SUM, START, LAST, DIRECTION = range(4)


@outlined
def row_rates(system, first, last, j, u, values):
    """Fill the rates of the rows of constraints first .. last - 1 from the velocities."""
    for c in range(first, last):
        first_row = system.row_start[c]
        for r in range(first_row, system.row_start[c + 1]):
            rate = 0.0
            for t in range(system.incidence_start[c], system.incidence_start[c + 1]):
                o, b = system.block_start[t] + 6 * (r - first_row), 6 * system.incidence_body[t]
                for k in range(6):
                    rate += j[o + k] * u[b + k]
            values[r, 1] = rate


@outlined
def list_limits(
    # in
    row_start, first, last, values, touch, side, always, room, pushed,
    # out
    pressed, count, constraint, low, high,
):  # fmt: skip
    """List the auxiliary constraints that always hold and the limits that act; return the rows or NO_ROOM.

    A limit may give back what it has pushed with: a solve that knew less of the contacts may have asked for too much.

    Args:
        row_start: of the system.
        first, last: the range of one-sided constraints.
        values: (r, 3) value and rate of all rows.
        touch: a row acts when its value is at most this.
        side: (r,) right sides; a row that would be passed acts too.
        auxiliary: auxiliary constraints that always hold.
        room: constraints that can be listed.
        pushed: sums of the one-sided constraints, and others.
        pressed: (r,) -1 for rows once listed, which stay so: rows that come and go would chase each other.
        count, constraint: of the responses.
        low, high: bounds of the rows.
    """
    rows, listed = list_equalities(row_start, always, constraint, low, high), len(always)
    for c in range(first, last):
        r = row_start[c]
        if values[r, 0] <= touch or pressed[r] != 0.0 or side[r] <= 0.0:
            if listed == room:
                return NO_ROOM
            constraint[listed] = c
            low[rows], high[rows] = -pushed[c - first, SUM], INFINITE
            pressed[r] = -1.0
            listed += 1
            rows += 1
    count[0] = listed
    return rows


@outlined
def list_friction(row_start, friction_rows, most, h, rates, rows, room, pushed, count, constraint, low, high, r, c):
    """Add the rows of joints with dry friction to those listed, cut at h times their largest force; return all rows.

    Args:
        row_start: of the system.
        rubbing: constraints of one row along the coordinates of such joints.
        most: their friction.
        h: step [s].
        rates: (r, 3) values and rates of rows.
        rows: listed already.
        room: constraints that can be listed.
        pushed: sums, those of these rows last.
        count, constraint, low, high, r, c: of the saddle; r and c are its right sides and compliances.
    """
    listed, first = count[0], len(pushed) - len(friction_rows)
    for k in range(len(friction_rows)):
        if listed == room:
            return NO_ROOM
        at = row_start[friction_rows[k]]
        constraint[listed] = friction_rows[k]
        done = pushed[first + k, SUM]
        low[rows], high[rows] = -h * most[k] - done, h * most[k] - done
        r[at], c[at] = rates[at, 1], 0.0
        listed += 1
        rows += 1
    count[0] = listed
    return rows


@outlined
def add_sums(first, last, always, friction_rows, rows, count, constraint, force, pushed):
    """Add the forces of the limits and rubbing rows listed, the last of all rows, to their sums."""
    listed = count[0] - always
    at, rubs = rows - listed, len(pushed) - len(friction_rows)
    for i in range(listed):
        c = constraint[always + i]
        if c < last:
            pushed[c - first, SUM] += force[at + i]
        else:
            pushed[rubs, SUM] += force[at + i]
            rubs += 1


@outlined
def copy_sums(source, target, pushed):
    """Copy a column of the sums."""
    for i in range(len(pushed)):
        pushed[i, target] = pushed[i, source]


@outlined
def interpolate_sums(part, pushed):
    """Take back all but a part of what was added since the last."""
    for i in range(len(pushed)):
        pushed[i, SUM] = pushed[i, LAST] + part * (pushed[i, SUM] - pushed[i, LAST])


@outlined
def extrapolate_sums(part, pushed):
    """Go on along the last direction by a part of it, and keep the new direction.

    Sums may leave their bounds as the velocities that go with them do; the next solve brings back both.
    """
    for i in range(len(pushed)):
        further = part * pushed[i, DIRECTION]
        pushed[i, DIRECTION] = further + pushed[i, SUM] - pushed[i, LAST]
        pushed[i, SUM] += further
