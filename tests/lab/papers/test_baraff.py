"""Baraff's section 9 anew: his systems with his numbers of multipliers, right answers, a table and a picture."""

from __future__ import annotations

import json

import numpy as np
import pytest

import limberjack as lj
from limberjack_lab import papers
from limberjack_lab.bench.maximal import EULER
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
        assert row["error"] < 1e-8 and row["step"] > 0
        assert row["gain"] == pytest.approx(1e3 * row["paper"] / row["step"])


def test_growth_stands_beside_the_factors_of_the_paper(filled):
    """Both ways agree at each size; 99 multipliers have the paper's factor; a quick run judges no bar."""
    table, found = filled
    rows = table.parts[1].rows
    assert [row["rows"] for row in rows] == list(found.linear) == list(found.cubic) == [21, 45, 99]
    assert [row["paper"] for row in rows] == [None, None, 2.0]
    assert all(row["gap"] < 1e-8 and row["dense_ratio"] == pytest.approx(row["dense"] / row["step"]) for row in rows)
    assert {bar.passed for bar in table.bars} == {None}


def test_wrong_numbers_are_told(monkeypatch):
    """A system with another number of multipliers than the paper's is reported."""
    monkeypatch.setattr(section9, "SYSTEMS", (section9.SYSTEMS[0]._replace(primary=107),))
    table = Table("baraff/section9", "", quick=True)
    with Watch("test") as watch:
        section9._systems(table, 0.01, watch)
    assert table.wrong == ["plane, 54 pins: 108 + 0 multipliers"]


def test_feet_press_but_never_pull():
    """Contacts carry a standing figure and release one that is pulled up, which falls freely."""
    stands = lj.Simulation(lj.scenes.baraff_contacts(), EULER, dt=1e-4)
    stands.step()
    assert len(stands.contacts()) == 3 and all(contact.impulse[2] > 0 for contact in stands.contacts())
    lifted = lj.Simulation(lj.scenes.baraff_contacts(gravity=(0.0, 0.0, 9.81)), EULER, dt=1e-4)
    lifted.step()
    np.testing.assert_allclose(lifted.velocities[0], (0, 0, 0, 0, 0, 9.81e-4), atol=1e-12)


def test_the_figure_is_measured_and_drawn(tmp_path):
    """`papers baraff` writes numbers and the picture of the growth."""
    assert papers.chosen(["baraff"]) == ["baraff/section9"]
    assert papers.run(["baraff"], quick=True, folder=tmp_path) == 0
    assert (tmp_path / "baraff-growth.png").read_bytes().startswith(b"\x89PNG")
    (table,) = json.loads((tmp_path / "numbers.json").read_text())["tables"]
    assert table["name"] == "baraff/section9" and len(table["parts"]) == 2
