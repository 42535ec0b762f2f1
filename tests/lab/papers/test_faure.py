"""Faure's figures anew: tables with the paper's counts, and a picture each."""

from __future__ import annotations

import importlib

import pytest

from limberjack_lab import papers
from limberjack_lab.bench.table import Table, Watch


@pytest.mark.parametrize("name", ["fig2", "fig3", "fig4", "fig5", "fig6"])
def test_a_figure_is_measured_and_drawn(name, tmp_path):
    """Each figure fills its table, meets its bars on errors and writes its picture."""
    assert f"faure/{name}" in papers.chosen(["faure"])
    module = importlib.import_module(f"limberjack_lab.papers.faure.{name}")
    table = Table(f"faure/{name}", module.TITLE, quick=True)
    with Watch("test") as watch:
        found = module.fill(table, True, watch)
    assert not table.wrong and all(bar.passed is not False for bar in table.bars)
    assert table.parts[0].rows
    (path, what), *_ = module.draw(found, tmp_path)
    assert path.stat().st_size > 1000 and what.startswith("figure")
