"""Baraff's section 9 anew: his systems with his numbers of multipliers, right answers, a table and a picture."""

from __future__ import annotations

import json

import numpy as np
import pytest

import limberjack as lj
from limberjack_lab import papers
from limberjack_lab.bench.elimination import Solve
from limberjack_lab.bench.table import Table, Watch
from limberjack_lab.papers.baraff import section9


@pytest.fixture(scope="module")
def filled():
    """The quick table and what its picture needs."""
    table = Table("baraff/section9", section9.TITLE, quick=True)
    with Watch("test") as watch:
        found = section9.fill(table, True, watch)
    return table, found


def test_the_systems_are_those_of_the_paper(filled):
    """Every system has as many primary and auxiliary multipliers as the paper says, and its time beside ours."""
    table, _ = filled
    assert not table.wrong
    rows = table.parts[0].rows
    assert [(row["primary"], row["auxiliary"]) for row in rows] == [(108, 0), (96, 12), (96, 3), (381, 0)]
    assert [row["paper"] for row in rows] == [7.75, 24.75, 18.0, 44.6]
    for row in rows:
        assert row["error"] < 1e-9 and row["ours"] > 0
        assert row["gain"] == pytest.approx(1e3 * row["paper"] / row["ours"])


def test_growth_stands_beside_the_factors_of_the_paper(filled):
    """Both ways agree at each size; 99 multipliers have the paper's factor; a quick run judges no bar."""
    table, found = filled
    rows = table.parts[1].rows
    assert [row["rows"] for row in rows] == list(found.linear) == list(found.cubic) == [21, 45, 99]
    assert [row["paper"] for row in rows] == [None, None, 2.0]
    assert all(row["gap"] < 1e-10 and row["gain"] == pytest.approx(row["cubic"] / row["linear"]) for row in rows)
    assert {bar.passed for bar in table.bars} == {None}


def test_wrong_numbers_are_told(monkeypatch):
    """A system with another number of multipliers than the paper's is reported."""
    monkeypatch.setattr(section9, "SYSTEMS", (section9.SYSTEMS[0]._replace(primary=107),))
    table = Table("baraff/section9", "", quick=True)
    with Watch("test") as watch:
        section9._systems(table, 0.01, watch)
    assert table.wrong == ["plane, 54 pins: 108 + 0 multipliers, status 0"]


def test_feet_press_but_never_pull():
    """Contacts hold a standing figure as feet on a plane do, and let go of one that is pulled up."""
    stands = Solve(lj.scenes.baraff_contacts(), contacts=True)
    stands(1)
    assert int(stands.saddle.report[0]) == 3 and (stands.saddle.force[:3] > 0).all()
    held = Solve(section9.standing())
    held(1)
    np.testing.assert_allclose(stands.saddle.a, held.saddle.a, rtol=1e-9, atol=1e-9)
    lifted = Solve(lj.scenes.baraff_contacts(gravity=(0.0, 0.0, 9.81)), contacts=True)
    lifted(1)
    np.testing.assert_allclose(lifted.saddle.a.reshape(-1, 6)[0], (0, 0, 0, 0, 0, 9.81), atol=1e-9)


def test_the_figure_is_measured_and_drawn(tmp_path):
    """`papers baraff` writes numbers and the picture of the growth."""
    assert papers.chosen(["baraff"]) == ["baraff/section9"]
    assert papers.run(["baraff"], quick=True, folder=tmp_path) == 0
    assert (tmp_path / "baraff-growth.png").read_bytes().startswith(b"\x89PNG")
    (table,) = json.loads((tmp_path / "numbers.json").read_text())["tables"]
    assert table["name"] == "baraff/section9" and len(table["parts"]) == 2
