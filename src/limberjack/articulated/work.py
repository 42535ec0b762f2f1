"""The work arrays of the tree algorithms: one row of doubles per link, and rows per freedom.

World axes, at each link's own origin (the origin of its joint frame), so that a shift between links is a translation.

| row columns | name | meaning |
|---|---|---|
| 0-8 | R | rotation link -> world, by rows |
| 9-11 | O | position of the link's origin |
| 12-14 | D | origin minus the parent's origin |
| 15-17 | W | angular velocity |
| 18-20 | AL | angular acceleration: first with qdd = 0, in the last pass the change by qdd |
| 21-23 | AC | acceleration of the origin (classical, minus gravity), likewise |
| 24-29 | J | inertia, angular block (xx yy zz xy xz yz) |
| 30-38 | H | its coupling block: N = J alpha + H a, F = H^T alpha + M a; of a rigid link h = m c in the first three |
| 39-44 | M | its linear block; of a rigid link only m in the first |
| 45-50 | P | bias force: torque at the origin, force |
| 51-56 | U | inertia times the joint's direction (one-freedom links) |
| 57 | DI | 1 / (S^T U) |
| 58 | UU | joint force less bias |
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from limberjack.model.arrays import Links

__all__ = ["AC", "AL", "D", "DI", "H", "J", "M", "O", "P", "R", "ROW", "U", "UU", "W", "Work", "new_work"]

R, O, D, W, AL, AC, J, H, M, P, U, DI, UU = 0, 9, 12, 15, 18, 21, 24, 30, 39, 45, 51, 57, 58  # noqa: E741
ROW = 64


class Work(NamedTuple):
    """Scratch of one evaluation; never shared between threads."""

    rows: np.ndarray  # (n, ROW)
    sines: np.ndarray  # (nq,) of every coordinate, angle or not: one loop without branches beats picking the angles
    cosines: np.ndarray  # (nq,)
    subspace: np.ndarray  # (nv, 6) columns of S, world axes at the link's origin; not filled for hinges and slides
    reduced: np.ndarray  # (nv, 6) L^-1 (I S)^T of links with several freedoms
    pivot: np.ndarray  # (nv, 6) factor of S^T I S: unit L, pivots on the diagonal
    rest: np.ndarray  # (nv,) L^-1 (joint force less bias)


def new_work(links: Links) -> Work:
    """Return work arrays for `links`."""
    n, nv, nq = len(links.parent), len(links.armature), len(links.armature) + len(links.quaternions)
    return Work(
        np.zeros((n, ROW)),
        np.zeros(nq),
        np.zeros(nq),
        np.zeros((nv, 6)),
        np.zeros((nv, 6)),
        np.zeros((nv, 6)),
        np.zeros(nv),
    )
