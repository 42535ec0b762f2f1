"""Random scenes by the thousand: LIMBERJACK_SOAK_SCENES (100,000) of them, on LIMBERJACK_SOAK_WORKERS (2) processes.

They go to the folder LIMBERJACK_SOAK_FOLDER (soak-random), from which a soak that was stopped goes on.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.soak.random_runs import campaign, report

SCENES = int(os.environ.get("LIMBERJACK_SOAK_SCENES", "100000"))
WORKERS = int(os.environ.get("LIMBERJACK_SOAK_WORKERS", "2"))
FOLDER = Path(os.environ.get("LIMBERJACK_SOAK_FOLDER", "soak-random"))


@pytest.mark.soak
def test_random_scenes_fail_by_name_or_not_at_all():
    """No scene crashes, hangs, gives numbers that are not finite or gains energy without an error."""
    assert not report(campaign(0, SCENES, WORKERS, FOLDER))
