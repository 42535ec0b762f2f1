"""Joints met by impulses, all at once by the saddle solver; row by row between sweeps over contacts.

Velocities are met at the poses now (post-stabilisation, the paper's 4.3, along locked directions only); then impulses
along the rows of the poses now are added until the joints close at the poses a step leads to (pre-stabilisation, 4.2,
met together instead of joint by joint: its limit is the same).
"""

from __future__ import annotations

from limberjack._jit import outlined
from limberjack.spatial.vectors import symmetric_times

__all__ = ["list_rubbing", "row_rates", "sweep_rows", "weigh_rows"]


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


@outlined
def weigh_rows(system, constraints, j, inverse, weight):
    """Fill 1 / (J M^-1 J^T) of each row of the first constraints."""
    for c in range(constraints):
        first = system.row_start[c]
        for r in range(first, system.row_start[c + 1]):
            out = 0.0
            for t in range(system.touch_start[c], system.touch_start[c + 1]):
                o, i = system.block_start[t] + 6 * (r - first), system.touch_body[t]
                nx, ny, nz, fx, fy, fz = j[o], j[o + 1], j[o + 2], j[o + 3], j[o + 4], j[o + 5]
                own = (inverse[i, 0], inverse[i, 1], inverse[i, 2], inverse[i, 3], inverse[i, 4], inverse[i, 5])
                x, y, z = symmetric_times(own, nx, ny, nz)
                out += x * nx + y * ny + z * nz + inverse[i, 6] * (fx * fx + fy * fy + fz * fz)
            weight[r] = 1.0 / out if out > 0.0 else 0.0


@outlined
def sweep_rows(system, held, sided, times, j, inverse, weight, aim, values, touch, total, u):
    """Meet J u + aim = 0 row by row, `times` times; one-sided rows that touch push only.

    Args:
        system: of all constraints.
        held, sided: constraints that always hold, and with those that hold on one side.
        times: sweeps.
        j: blocks of rows.
        inverse: (n, 7) of the bodies.
        weight, aim: (r,).
        values: (r, 3); a one-sided row touches where its value is at most `touch`.
        total: (r,) impulses so far.
        u: velocities.
    """
    for _ in range(times):
        for c in range(sided):
            first = system.row_start[c]
            if c >= held and values[first, 0] > touch:
                continue
            for r in range(first, system.row_start[c + 1]):
                error = aim[r]
                for t in range(system.touch_start[c], system.touch_start[c + 1]):
                    o, b = system.block_start[t] + 6 * (r - first), 6 * system.touch_body[t]
                    for k in range(6):
                        error += j[o + k] * u[b + k]
                push = -weight[r] * error
                if c >= held:
                    push = max(push, -total[r])
                total[r] += push
                for t in range(system.touch_start[c], system.touch_start[c + 1]):
                    o, i = system.block_start[t] + 6 * (r - first), system.touch_body[t]
                    own = (inverse[i, 0], inverse[i, 1], inverse[i, 2], inverse[i, 3], inverse[i, 4], inverse[i, 5])
                    x, y, z = symmetric_times(own, push * j[o], push * j[o + 1], push * j[o + 2])
                    b, f = 6 * i, push * inverse[i, 6]
                    u[b] += x
                    u[b + 1] += y
                    u[b + 2] += z
                    u[b + 3] += f * j[o + 3]
                    u[b + 4] += f * j[o + 4]
                    u[b + 5] += f * j[o + 5]
