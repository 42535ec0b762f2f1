"""What all tests share: a random generator of their own, the same on every run."""

from __future__ import annotations

import zlib

import numpy as np
import pytest


@pytest.fixture
def rng(request):
    """A generator seeded by the test's name: adding a test never changes the numbers of another."""
    return np.random.default_rng(zlib.crc32(request.node.name.encode()))
