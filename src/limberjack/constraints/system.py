"""The saddle system all constraint solvers share.

    [M  -J^T; -J  -C] [a; lam] = [F; r]          J a + C lam = -r,   M a = F + J^T lam

M has one SPD block per body, J one block per touch of a constraint on a body, C >= 0 is a compliance per row. The
ground is no body: a constraint to it touches one body less.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

__all__ = ["System", "new_system"]


class System(NamedTuple):
    """Which constraint touches which body, and where their blocks stand; nb bodies, nc constraints, nt touches."""

    body_start: np.ndarray  # (nb + 1,) places of each body's block in velocity-like vectors; dimension 1 to 12
    mass_start: np.ndarray  # (nb + 1,) place of each body's dim x dim block, row-major, in flat M
    row_start: np.ndarray  # (nc + 1,) places of each constraint's rows in multiplier-like vectors; 1 to 12 rows
    incidence_start: np.ndarray  # (nc + 1,) the touches of each constraint
    incidence_body: np.ndarray  # (nt,) the body touched
    block_start: np.ndarray  # (nt + 1,) place of the touch's block (rows x body dim, row-major) in flat J


def new_system(dimensions: np.ndarray, rows: np.ndarray, touches: list[list[int]]) -> System:
    """Return the system of bodies with `dimensions`, constraints with `rows` each, touching the bodies listed."""
    counts = np.array([len(bodies) for bodies in touches], np.int64)
    body = np.array([b for bodies in touches for b in bodies], np.int64)
    dimensions, rows = np.asarray(dimensions, np.int64), np.asarray(rows, np.int64)
    blocks = np.repeat(rows, counts) * dimensions[body] if len(body) else np.zeros(0, np.int64)
    return System(_places(dimensions), _places(dimensions**2), _places(rows), _places(counts), body, _places(blocks))


def _places(sizes: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
