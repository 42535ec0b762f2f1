"""Limits that show themselves only where a step leads: the rows of black-box joints that nothing stops yet."""

from __future__ import annotations

from limberjack._jit import inner, outlined
from limberjack.constraints.rows import CUSTOM, GAP, LEVER_A, LEVER_B
from limberjack.maximal.meeting import TOUCH
from limberjack.spatial.vectors import cross

__all__ = ["take_row_there", "take_rows_there"]


@inner
def _empty(system, c, j):
    """Return whether the row of constraint c moves nothing."""
    for t in range(system.touch_start[c], system.touch_start[c + 1]):
        for o in range(system.block_start[t], system.block_start[t] + 6):
            if j[o] != 0.0:
                return False
    return True


@outlined
def take_row_there(
    # model
    setup,
    # in
    c, there,
    # out
    e,
):  # fmt: skip
    """Give the one-sided row of constraint c, if it moves nothing where a step starts, its direction where it leads."""
    table, system = setup.table, setup.system
    r = system.row_start[c]
    if table.terms[table.term_start[r], 0] != CUSTOM or there.values[r, 0] > TOUCH or not _empty(system, c, e.j):
        return
    k = table.row_pair[r, 0]
    w, s = there.wrench, e.state
    nx, ny, nz, fx, fy, fz = w[r, 0], w[r, 1], w[r, 2], w[r, 3], w[r, 4], w[r, 5]
    for end in range(2):
        o = setup.touch[r, end]
        if o < 0:
            continue
        lever, sign = (LEVER_B, 1.0) if end == 0 else (LEVER_A, -1.0)
        x, y, z = s[k, lever], s[k, lever + 1], s[k, lever + 2]
        if end == 1:
            x, y, z = x + s[k, GAP], y + s[k, GAP + 1], z + s[k, GAP + 2]
        x, y, z = cross(x, y, z, fx, fy, fz)
        e.j[o], e.j[o + 1], e.j[o + 2] = sign * (nx + x), sign * (ny + y), sign * (nz + z)
        e.j[o + 3], e.j[o + 4], e.j[o + 5] = sign * fx, sign * fy, sign * fz


@outlined
def take_rows_there(setup, there, e):
    """Do so for all one-sided rows."""
    for c in range(setup.constraints[0], setup.constraints[1]):
        take_row_there(setup, c, there, e)
