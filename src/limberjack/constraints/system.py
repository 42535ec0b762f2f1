"""Which constraint touches which body: the block layout shared by all solvers of constraints."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

__all__ = ["System"]


class System(NamedTuple):
    """Which constraint touches which body, and where their blocks stand; nb bodies, nc constraints, nt touches."""

    body_start: np.ndarray  # (nb + 1,) int64 places of each body's block in velocity-like vectors; dimension 1..12
    mass_start: np.ndarray  # (nb + 1,) int64 place of each body's dim x dim block, row-major, in flat M
    row_start: np.ndarray  # (nc + 1,) int64 places of each constraint's rows in multiplier-like vectors; 1..12 rows
    touch_start: np.ndarray  # (nc + 1,) int64 the touches of each constraint
    touch_body: np.ndarray  # (nt,) int64 the body touched
    block_start: np.ndarray  # (nt + 1,) int64 place of the touch's block (rows x body dim, row-major) in flat J
