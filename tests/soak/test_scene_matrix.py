"""Thirty seconds of every scene of the catalogue by every method; LIMBERJACK_SOAK_SECONDS sets another time."""

from __future__ import annotations

import os

import pytest
from tests.scenes.scene_matrix import cells, check_cell

SECONDS = float(os.environ.get("LIMBERJACK_SOAK_SECONDS", "30"))


@pytest.mark.soak
@pytest.mark.parametrize("name,method", cells())
def test_scenes_gain_no_energy_for_long(name, method):
    """Thirty seconds of a scene gain at most 1 % of the energy released, joints closed, or the method refuses it."""
    check_cell(name, method, SECONDS)
