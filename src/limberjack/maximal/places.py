"""Where the numbers of rows stand in flat J and in velocities, for work on whole arrays."""

from __future__ import annotations

import numpy as np

from limberjack.constraints.system import System

__all__ = ["diagonal_of", "places_of"]


def places_of(system: System, constraints: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return, of each number in the rows of `constraints`, its row counted among them, its place in J and in u."""
    out, row = [], 0
    for c in constraints.tolist():
        count = int(system.row_start[c + 1] - system.row_start[c])
        for t in range(int(system.touch_start[c]), int(system.touch_start[c + 1])):
            body, start = int(system.touch_body[t]), int(system.block_start[t])
            first, last = int(system.body_start[body]), int(system.body_start[body + 1])
            for i in range(count):
                at = start + i * (last - first)
                out += [(row + i, at + k, first + k) for k in range(last - first)]
        row += count
    found = np.array(out, np.int64).reshape(-1, 3)
    return found[:, 0], found[:, 1], found[:, 2]


def diagonal_of(system: System) -> np.ndarray:
    """Return the place in flat M of the mass that each velocity has on the diagonal."""
    dims = np.diff(system.body_start)
    own = np.arange(system.body_start[-1]) - np.repeat(system.body_start[:-1], dims)
    return np.repeat(system.mass_start[:-1], dims) + own * (np.repeat(dims, dims) + 1)
