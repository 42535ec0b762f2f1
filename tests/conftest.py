"""What all tests share: a random generator of their own, the same on every run, and no kinds of other files."""

from __future__ import annotations

import zlib

import numpy as np
import pytest

from limberjack.model.body_kinds import BODY_KINDS
from limberjack.model.joints import KINDS
from limberjack.model.registered import CONSTRAINT_KINDS, REGISTERED_BODY_KINDS


@pytest.fixture(autouse=True, scope="module")
def own_kinds():
    """Forget the kinds of joints, constraints and bodies that a file of tests registers."""
    tables = (KINDS, CONSTRAINT_KINDS, BODY_KINDS, REGISTERED_BODY_KINDS)
    before = [set(table) for table in tables]
    yield
    for table, names in zip(tables, before, strict=True):
        for name in set(table) - names:
            del table[name]


@pytest.fixture
def rng(request):
    """A generator seeded by the test's name: adding a test never changes the numbers of another."""
    return np.random.default_rng(zlib.crc32(request.node.name.encode()))
