"""The short form of the matrix that `make soak` runs: two seconds of every scene by every method."""

from __future__ import annotations

import pytest
from tests.scenes.scene_matrix import FINDINGS, cells, check_cell

CELLS = [
    pytest.param(*cell, marks=pytest.mark.xfail(reason=FINDINGS[cell]) if cell in FINDINGS else ()) for cell in cells()
]


@pytest.mark.slow
@pytest.mark.parametrize("name,method", CELLS)
def test_scenes_gain_no_energy(name, method):
    """Two seconds of a scene gain at most 1 % of the energy released, with joints closed, or the method refuses it."""
    check_cell(name, method, 2.0)
