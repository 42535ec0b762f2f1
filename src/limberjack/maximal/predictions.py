"""Rows at poses that a step predicts, and forces on momenta."""

from __future__ import annotations

from limberjack._jit import outlined
from limberjack.constraints.bodies import RIGID, set_ends, set_soft_pair, world_inertia
from limberjack.constraints.compound import set_compounds
from limberjack.constraints.rows import row, set_pair
from limberjack.spatial.vectors import cross, symmetric_times

__all__ = ["look_there", "put_back_gyro"]


@outlined
def look_there(setup, time, pose, u, e):
    """Fill the values of the rows that hold at other poses, no blocks."""
    table = setup.table
    set_ends(setup.bodies, pose, u, e.ends)
    for k in range(len(table.pair_link)):
        set_pair(k, table.pair_link, table.pair_frame, e.ends, e.state)
    for k in range(len(setup.soft)):
        set_soft_pair(setup.soft[k], table.pair_link, table.pair_frame, setup.bodies, e.ends, e.state)
    set_compounds(table.compound, table.factor_kind, table.factor_data, time, e.scratch, e.state)
    for r in range(setup.system.row_start[setup.constraints[1]]):
        row(table, r, time, e.state, e.near, e.wrench, e.values)


@outlined
def put_back_gyro(bodies, ends, pose, f):
    """Put back the forces of inertia of rigid bodies: momenta in world axes do not have them."""
    for i in range(len(bodies.kind)):
        if bodies.kind[i] == RIGID:
            wx, wy, wz = ends[i, 12], ends[i, 13], ends[i, 14]
            lx, ly, lz = symmetric_times(world_inertia(i, RIGID, bodies, pose, ends), wx, wy, wz)
            x, y, z = cross(wx, wy, wz, lx, ly, lz)
            o = bodies.start[i]
            f[o] += x
            f[o + 1] += y
            f[o + 2] += z
