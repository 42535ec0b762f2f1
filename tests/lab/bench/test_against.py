"""Tables beside earlier ones: matched cells, marked times, and what only one side has."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

import limberjack as lj
from limberjack_lab import bench
from limberjack_lab.bench import against
from limberjack_lab.bench.table import Column, Table, write_json


def _table(us: float = 10.0, title: str = "grid", more: dict | None = None) -> Table:
    table = Table("chain", "a chain", quick=True, machine={"processor": "slide rule"})
    part = table.part(title, Column("n", "N"), Column("who", "who"), Column("step", "whole\nstep", "us"),
                      Column("gain", "gain", "x"), Column("gap", "gap", "rel"))  # fmt: skip
    part.add(n=10, who="ours", step=us, gain=2.0, gap=1e-9)
    part.add(n=10, who="peer", step="lost")
    part.add(n=10, who="ours", step=3.0, **(more or {}))
    return table


def _compared(old: Table, new: Table) -> against.Comparison:
    return against.compare(json.loads(json.dumps(old.as_json())), new.as_json())


def test_cells_stand_beside_each_other_with_their_ratio():
    """Each number has its old value, its new one and new / old; rows alike in their names are matched in order."""
    found = _compared(_table(10.0), _table(11.0))
    cells = {(change.row, change.column): change for change in found.changes}
    assert cells["10, ours", "whole step"].ratio == pytest.approx(1.1)
    assert cells["10, ours (2)", "whole step"].ratio == 1.0
    assert cells["10, ours", "gain"].ratio == 1.0 and cells["10, ours", "gap"].unit == "rel"
    assert cells["10, peer", "whole step"].ratio is None
    assert not found.only_old and not found.only_new


@pytest.mark.parametrize(("us", "mark"), [(10.29, ""), (10.31, "slower"), (9.71, ""), (9.69, "faster")])
def test_times_beyond_three_percent_are_marked(us, mark):
    """Times that changed by more than 3 % say in which direction; other numbers are never marked."""
    old, new = _table(10.0), _table(us)
    new.parts[0].rows[0]["gain"] = 9.0
    found = {change.column: change.mark for change in _compared(old, new).changes if change.row == "10, ours"}
    assert found["whole step"] == mark and found["gain"] == found["gap"] == ""


def test_what_one_side_has_is_listed():
    """A cell, a row, a column and a grid that only one of the tables has are named, on the side that has them."""
    old, new = _table(), _table(more={"gap": 1e-3})
    old.part("gone", Column("who", "who"), Column("t", "t", "s")).add(who="x", t=1.0)
    found = _compared(old, new)
    assert found.only_new == ["grid: 10, ours (2): gap"] and found.only_old == ["gone: all of it"]
    old.parts[0].add(n=30, who="ours", step=1.0)
    old.parts[0].columns += (Column("was", "was", "s"),)
    assert _compared(old, new).only_old == ["grid: column was", "grid: row 30, ours", "gone: all of it"]


def test_a_grid_with_another_title_is_found_by_its_place():
    """A part whose title was reworded is still compared, as long as most of its columns are the same."""
    found = _compared(_table(title="the old words"), _table(title="new words"))
    assert len(found.changes) == 5 and not found.only_old and not found.only_new


def test_texts_that_differ_are_marked():
    """A run that was lost before and is not now is no ratio but a difference."""
    new = _table()
    new.parts[0].rows[1]["step"] = 5.0
    (change,) = [change for change in _compared(_table(), new).changes if change.row == "10, peer"]
    assert change.ratio is None and change.mark == "differs"


def test_the_print_has_both_values_and_the_notes():
    """Printed: old, new, ratio and mark of each cell, what only one side has, and another machine."""
    old, new = _table(10.0), _table(20.0, more={"gap": 1e-3})
    old.machine["processor"] = "abacus"
    console = Console(file=io.StringIO(), width=200, color_system=None)
    against.show(_compared(old, new), console)
    text = console.file.getvalue()
    for word in ("2.000", "slower", "1 slower, 0 faster", "only in the new table: grid: 10, ours (2): gap", "abacus"):
        assert word in text


def test_a_run_prints_the_comparison(tmp_path, monkeypatch, capsys):
    """`bench --against` prints the earlier numbers beside the new ones, and says when there are none."""
    path = tmp_path / "old.json"
    write_json([_table(10.0)], path)
    for name in ("chain", "start"):
        monkeypatch.setitem(bench.TABLES, name, lambda quick: _table(10.1))
    assert bench.run(["chain", "start"], quick=True, against=path) == 0
    out = capsys.readouterr().out
    assert "1.010" in out and "0 slower" in out and 'no table "start"' in out


@pytest.mark.parametrize("text", ["", "[]", '{"tables": [{"name": "chain"}]}', '{"tables": 3}'])
def test_a_file_that_is_no_table_is_refused_before_anything_is_measured(text, tmp_path, monkeypatch):
    """One error that names the file."""
    monkeypatch.setitem(bench.TABLES, "chain", lambda quick: pytest.fail("measured"))
    path = tmp_path / "old.json"
    path.write_text(text)
    for bad in (path, tmp_path / "none.json"):
        with pytest.raises(lj.FileError, match=bad.name):
            bench.run(["chain"], quick=True, against=bad)
