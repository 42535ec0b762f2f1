"""Coverage-guided fuzzing of every reader by atheris: LIMBERJACK_SOAK_EXECUTIONS (1,000,000) of each.

What atheris finds is left as soak-TARGET-*; such a file belongs into the corpus, with the repair. The extra `fuzz`
brings atheris, which has wheels for Linux and Python up to 3.13.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.soak.readers import TARGETS

EXECUTIONS = int(os.environ.get("LIMBERJACK_SOAK_EXECUTIONS", "1000000"))


@pytest.mark.soak
@pytest.mark.parametrize("target", TARGETS)
def test_readers_give_a_value_or_a_typed_error(target):
    """No execution crashes, takes 2 s, takes 1 GB or raises anything but a `LimberjackError`."""
    import atheris  # noqa: F401  # named here where it is missing

    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    words = [f"-atheris_runs={EXECUTIONS}", f"-artifact_prefix=soak-{target}-"]
    command = [sys.executable, "-m", "tests.soak.readers", target, *words]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, env=environment, cwd=root, capture_output=True, text=True, errors="replace")
    print(*done.stderr.splitlines()[-4:], sep="\n")
    assert done.returncode == 0, done.stderr[-3000:]
