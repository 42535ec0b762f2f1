"""The saddle system all constraint solvers share.

    [M  -J^T; -J  -C] [a; lam] = [F; r]          J a + C lam = -r,   M a = F + J^T lam

M has one SPD block per body, J one block per incidence (a constraint and a body it acts on), C >= 0 is a compliance per
row. The ground is no body: a constraint to it acts on one body less.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

__all__ = ["System", "new_system"]


class System(NamedTuple):
    """Which constraint acts on which body, and where their blocks start; nb bodies, nc constraints, ni incidences."""

    body_start: np.ndarray  # (nb + 1,) first index of each body's block in velocity-like vectors; dimension 1 to 12
    mass_start: np.ndarray  # (nb + 1,) first index of each body's dim x dim block, row-major, in flat M
    row_start: np.ndarray  # (nc + 1,) first index of each constraint's rows in multiplier-like vectors; 1 to 12 rows
    incidence_start: np.ndarray  # (nc + 1,) first incidence of each constraint
    incidence_body: np.ndarray  # (ni,) the body of each incidence
    block_start: np.ndarray  # (ni + 1,) first index of the incidence's block (rows x body dim, row-major) in flat J


def new_system(dimensions: np.ndarray, rows: np.ndarray, incidences: list[list[int]]) -> System:
    """Return the system of bodies with `dimensions`, constraints with `rows` each, acting on the bodies listed."""
    counts = np.array([len(bodies) for bodies in incidences], np.int64)
    body = np.array([b for bodies in incidences for b in bodies], np.int64)
    dimensions, rows = np.asarray(dimensions, np.int64), np.asarray(rows, np.int64)
    blocks = np.repeat(rows, counts) * dimensions[body] if len(body) else np.zeros(0, np.int64)
    return System(_starts(dimensions), _starts(dimensions**2), _starts(rows), _starts(counts), body, _starts(blocks))


def _starts(sizes: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
