from __future__ import annotations

from pathlib import Path

import pytest

import limberjack
from limberjack import errors
from limberjack_lab.bench import start
from limberjack_lab.bench.table import MISSING, Table, Watch


@pytest.fixture
def table():
    return Table("start", start.TITLE, quick=True)


def test_processes_run_this_very_package():
    """A fresh process imports the package the test imports, wherever it is installed."""
    run = start.run_python("-c", "import limberjack; print(limberjack.__file__)")
    assert Path(run.output.strip()) == Path(limberjack.__file__)
    assert run.seconds > 0 and run.problem == ""


def test_a_failed_process_is_a_cell_and_a_note(table):
    """A command that fails is reported by its last line, and the table goes on."""
    with Watch("start") as watch:
        times = start._turns(table, {"good": ("-c", "pass"), "bad": ("-c", "raise SystemExit('no luck')")}, 2, watch)
    assert times["bad"] == "failed" and times["good"] > 0
    assert table.notes == ["bad failed: no luck"]


def test_importing_the_package_loads_no_numba():
    """`import limberjack` and the list of tables stay light: no compiler, no peers."""
    code = "import sys, limberjack_lab.bench; limberjack_lab.bench.TABLES; print(*sys.modules)"
    assert not {"numba", "mujoco", "pinocchio", "rich"} & set(start.run_python("-c", code).output.split())


def test_building_reports_time_and_memory(table, monkeypatch):
    """Building a chain in a fresh process gives seconds and megabytes."""
    monkeypatch.setattr(start, "_QUICK_LINKS", 200)
    with Watch("start") as watch:
        start._fill_building(table, True, watch)
    values = {row["what"]: row["value"] for row in table.parts[0].rows}
    assert values["build the model"] > 0 and values["peak of the memory"] > values["of that for the chain"]


def test_waits_without_peers(table, monkeypatch):
    """Waiting times are measured without peers, whose cells say that they are missing."""

    def require(module, extra):
        raise errors.MissingExtra(f'"{module}" is needed for this: pip install "limberjack[{extra}]"')

    monkeypatch.setattr(errors, "require", require)
    monkeypatch.setattr(start, "run_python", lambda *arguments, **extra: start.Run(0.25, "", ""))
    with Watch("start") as watch:
        start._fill_waits(table, True, watch)
    rows = table.parts[0].rows
    assert [row["ours"] for row in rows] == [0.25] * 4
    assert rows[1]["mujoco"] == rows[1]["pin"] == rows[3]["mujoco"] == MISSING
