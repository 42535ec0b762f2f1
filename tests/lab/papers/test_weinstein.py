"""Weinstein's scenes anew: a table of all that the catalog has, and a picture each."""

from __future__ import annotations

import importlib

import pytest

from limberjack_lab import papers
from limberjack_lab.bench.table import Table, Watch


@pytest.mark.parametrize("name", ["scenes", "sweeps"])
def test_a_table_is_measured_and_drawn(name, tmp_path):
    """Each figure fills its table, loses nothing on the way and writes its pictures."""
    assert f"weinstein/{name}" in papers.chosen(["weinstein"])
    module = importlib.import_module(f"limberjack_lab.papers.weinstein.{name}")
    table = Table(f"weinstein/{name}", module.TITLE, quick=True)
    with Watch("test") as watch:
        found = module.fill(table, True, watch)
    assert not table.wrong and all(bar.passed is not False for bar in table.bars)
    assert table.parts[0].rows
    for path, what in module.draw(found[:2] if isinstance(found, list) else found, tmp_path):
        assert path.stat().st_size > 1000 and what
