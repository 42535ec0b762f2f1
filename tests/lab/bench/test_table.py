from __future__ import annotations

import importlib
import io
import json
import math

import numpy as np
import pytest
from rich.console import Console

from limberjack.errors import FileError, UnknownName
from limberjack_lab import bench
from limberjack_lab.bench import table as tables
from limberjack_lab.bench.table import Bar, Column, Table


def _small() -> Table:
    table = Table("small", "a small table", quick=True, machine={"processor": "slide rule"})
    part = table.part("grid", Column("who", "who"), Column("time", "time", "us"))
    part.add(who="ours", time=1.2345)
    part.add(who="peer")
    return table


def _printed(table: Table, width: int = 120, terminal: bool = False) -> str:
    console = Console(file=io.StringIO(), width=width, force_terminal=terminal, color_system=None)
    tables.show(table, console)
    return console.file.getvalue()


def test_every_table_has_a_module_with_a_title_and_a_description():
    """Each name of TABLES leads to a module that can be measured."""
    for name, measure in bench.TABLES.items():
        module = importlib.import_module(f"limberjack_lab.bench.{name}")
        assert module.TITLE and callable(module.fill) and bench.DESCRIPTIONS[name] in measure.__doc__


def test_bars_are_met_missed_or_not_measured():
    """A bar without a value is neither passed nor failed."""
    assert Bar("speed", 3.0, 2.5).passed is True
    assert Bar("speed", 2.0, 2.5).passed is False
    assert Bar("growth", 2.0, 2.5, at_least=False).passed is True
    assert Bar("speed", None, 2.5).passed is None


def test_bars_of_numpy_numbers_are_plain_truths():
    """What a bar says can be written as JSON whatever kind of number it holds."""
    assert Bar("x", np.float64(2.0), 1.0).passed is True and Bar("x", np.float64(2.0), 1.0, False).passed is False


def test_a_row_takes_known_columns_only():
    """A cell for a column that is not there is a mistake in the table."""
    with pytest.raises(KeyError, match="tmie"):
        _small().parts[0].add(tmie=1.0)


def test_a_wrong_answer_is_not_quoted():
    """The time behind an answer that disagrees is replaced by the disagreement."""
    table = _small()
    assert table.trust("peer", 1e-12, 3.0) == 3.0
    assert table.trust("peer", 1e-3, 3.0) == "differs 1.0e-03"
    assert table.trust("peer", math.nan, 3.0) == "differs nan"
    assert len(table.wrong) == 2
    assert "WRONG ANSWER" in _printed(table)


def test_ratios_need_two_numbers():
    """A missing peer gives no ratio."""
    assert tables.ratio(6.0, 2.0) == 3.0
    assert tables.ratio(tables.MISSING, 2.0) is None
    assert tables.ratio(None, 2.0) is None


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        (None, "-"),
        ("lost", "lost"),
        (100_000, "100,000"),
        (1234.5, "1,234"),
        (1.2345, "1.23"),
        (2.5e-12, "2.5e-12"),
        (math.inf, "inf"),
    ],
)
def test_cells_show_three_digits(cell, text):
    """Numbers are shown with the digits that count."""
    assert tables.shown(cell) == text


def test_the_print_names_machine_units_and_bars():
    """A printed table says where it was measured, in which units, and what was promised."""
    table = _small()
    table.bars += [Bar("fast", 3.0, 2.5), Bar("small", 3.0, 2.5, at_least=False), Bar("later", None, 1.0)]
    table.note("read [this] way")
    text = _printed(table)
    for word in ("slide rule", "us", "pass", "FAIL", "not measured", "read [this] way", "1.23"):
        assert word in text


def test_a_narrow_terminal_cuts_no_number():
    """Columns that do not fit side by side go below each other, with the first column repeated."""
    table = _small()
    part = table.part("wide", Column("who", "who"), *(Column(f"c{k}", f"column {k}", "us") for k in range(12)))
    part.add(who="ours", **{f"c{k}": 1.23e-5 for k in range(12)})
    text = _printed(table, width=60, terminal=True)
    assert text.count("1.2e-05") == 12 and "wide (continued)" in text
    assert max(map(len, text.splitlines())) <= 60


def test_json_is_whole_and_strict(tmp_path):
    """The file is plain JSON with every part, numbers that are not finite as text, and no rest beside it."""
    table = _small()
    table.parts[0].rows[1]["time"] = math.inf
    path = tmp_path / "out.json"
    tables.write_json([table], path)
    (stored,) = json.loads(path.read_text())["tables"]
    assert stored["parts"][0]["rows"][0] == {"who": "ours", "time": 1.2345}
    assert stored["parts"][0]["rows"][1]["time"] == "inf"
    assert stored["machine"] == {"processor": "slide rule"}
    assert [entry.name for entry in tmp_path.iterdir()] == ["out.json"]


def test_json_to_a_folder_that_is_not_there_names_the_path(tmp_path):
    """An output that cannot be written is an error of ours that names the file."""
    with pytest.raises(FileError, match="out.json"):
        tables.write_json([_small()], tmp_path / "no" / "out.json")


def test_an_unknown_table_is_refused_by_name():
    """The error lists the tables there are."""
    with pytest.raises(UnknownName, match="chain, collision"):
        bench.run(["chian"], quick=True)


def test_ctrl_c_keeps_what_was_measured(monkeypatch, capsys, tmp_path):
    """An interrupted table is printed and stored as far as it got, and the status says so."""

    def interrupted(table, quick, watch):
        table.part("grid", Column("who", "who")).add(who="the first row")
        raise KeyboardInterrupt

    from limberjack_lab.bench import start

    monkeypatch.setattr(start, "fill", interrupted)
    path = tmp_path / "out.json"
    assert bench.run(["start", "chain"], quick=True, json_path=path) == 130
    printed = capsys.readouterr().out
    assert "the first row" in printed and "Ctrl-C" in printed
    (stored,) = json.loads(path.read_text())["tables"]
    assert stored["interrupted"] and stored["name"] == "start"


def test_wrong_answers_give_a_status(monkeypatch, capsys):
    """A run in which an answer disagreed ends with 1."""
    from limberjack_lab.bench import start

    monkeypatch.setattr(start, "fill", lambda table, quick, watch: table.trust("peer", 1.0, 1.0))
    assert bench.run(["start"], quick=True) == 1
    monkeypatch.setattr(start, "fill", lambda table, quick, watch: table.trust("peer", 0.0, 1.0))
    assert bench.run(["start"], quick=True) == 0
