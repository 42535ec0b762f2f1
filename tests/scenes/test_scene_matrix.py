"""The short form of the matrix that `make soak` runs: two seconds of every scene by every method."""

from __future__ import annotations

import pytest
from tests.scenes.scene_matrix import cells, check_cell


@pytest.mark.slow
@pytest.mark.parametrize("name,method", cells())
def test_scenes_gain_no_energy(name, method):
    """Two seconds of a scene gain at most 1 % of the energy released, with joints closed, or the method refuses it."""
    check_cell(name, method, 2.0)
