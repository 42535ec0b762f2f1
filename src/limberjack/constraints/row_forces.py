"""Forces of constraint rows in a step, as wrenches on links and as forces along coordinates."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from limberjack.constraints.table import Table

__all__ = ["RowForces", "forces_of_rows", "no_row_forces"]


class RowForces(NamedTuple):
    """Forces of r rows; p of their pairs of frames, c of their coordinates."""

    joint: np.ndarray  # (r,) index in the model's joint_names, or beyond: springs, then grips
    role: np.ndarray  # (r,)
    multiplier: np.ndarray  # (r,)
    pair_row: np.ndarray  # (p,) the row of each pair
    link: np.ndarray  # (p, 2) links a and b, -1 = the world
    point: np.ndarray  # (p, 6) origins of the two frames in the frames of their links, or in the world
    wrench: np.ndarray  # (p, 6) torque and force on b at the origin of its frame, world axes; on a acts the opposite
    coordinate_row: np.ndarray  # (c,) the row of each coordinate
    dof: np.ndarray  # (c,)
    force: np.ndarray  # (c,) along the coordinate


def forces_of_rows(
    table: Table, multipliers: np.ndarray, wrench: np.ndarray, center: np.ndarray | None = None
) -> RowForces:
    """Return the forces of rows with these multipliers.

    Args:
        table: the rows.
        multipliers: (r,) or fewer; the rows beyond are left out.
        wrench: (r, 12) of each row per unit of its multiplier.
        center: (n, 3) points in link frames that the frames of the table are relative to; None = the origins.
    """
    rows = len(multipliers)
    lists = [np.nonzero(table.row_pair[:rows, slot] >= 0)[0] for slot in range(2)]
    pair = np.concatenate([table.row_pair[own, slot] for slot, own in enumerate(lists)]).astype(np.int64)
    own = np.concatenate(lists)
    link = table.pair_link[pair].reshape(-1, 2)
    point = table.pair_frame[pair][:, [9, 10, 11, 21, 22, 23]].reshape(-1, 6)
    if center is not None:
        offset = np.append(center, np.zeros((1, 3)), axis=0)
        point = point + np.concatenate([offset[link[:, 0]], offset[link[:, 1]]], axis=1)
    unit = np.concatenate([wrench[list_, 6 * slot : 6 * slot + 6] for slot, list_ in enumerate(lists)])
    on = [np.nonzero(table.indices[:rows, slot] >= 0)[0] for slot in range(2)]
    coordinate = np.concatenate(on)
    dof = np.concatenate([table.indices[list_, slot] for slot, list_ in enumerate(on)])
    share = np.concatenate([table.share[list_, slot] for slot, list_ in enumerate(on)])
    return RowForces(
        table.joint[:rows].copy(), table.role[:rows].copy(), multipliers.copy(), own, link, point,
        unit * multipliers[own, None], coordinate, dof, share * multipliers[coordinate],
    )  # fmt: skip


def no_row_forces() -> RowForces:
    """Return the forces of no rows."""
    none, whole = np.zeros(0), np.zeros(0, np.int64)
    return RowForces(
        whole, whole, none, whole, np.zeros((0, 2), np.int64), np.zeros((0, 6)), np.zeros((0, 6)), whole, whole, none
    )
