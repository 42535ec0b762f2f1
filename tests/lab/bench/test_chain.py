from __future__ import annotations

import importlib

import pytest

from limberjack import errors
from limberjack_lab import bench
from limberjack_lab.bench import chain, clock
from limberjack_lab.bench.table import MISSING, Table, Watch


def _chain(sizes) -> Table:
    table = Table("chain", chain.TITLE, quick=True)
    with Watch("chain") as watch:
        chain.fill(table, True, watch, sizes=sizes)
    return table


@pytest.fixture
def without(monkeypatch):
    """Make peers look as if they were not installed."""
    hidden: set[str] = set()

    def require(module, extra):
        if module in hidden:
            raise errors.MissingExtra(f'"{module}" is needed for this: pip install "limberjack[{extra}]"')
        return importlib.import_module(module)

    monkeypatch.setattr(errors, "require", require)
    return hidden


def test_quick_chain_agrees_with_both_peers():
    """Every row has all times and ratios, and our accelerations are the peers'."""
    table = bench.TABLES["chain"](True)
    (part,) = table.parts
    assert [row["n"] for row in part.rows] == [10, 50]
    for row in part.rows:
        assert set(row) == {column.key for column in part.columns}
        assert all(isinstance(value, float) and value > 0 for key, value in row.items() if key != "n")
        assert row["pin_gap"] < 1e-9 and row["mujoco_gap"] < 1e-9 and row["residual"] < 1e-12
        assert row["pin_call"] == pytest.approx(row["pin"] / row["call"])
        assert row["step_joint"] == pytest.approx(1e3 * row["step"] / row["n"])
    assert not table.wrong and not table.interrupted
    assert {bar.passed for bar in table.bars} == {None}


def test_units_stand_in_the_headings():
    """Every column with a number but the size states its unit."""
    assert all(column.unit for column in chain._COLUMNS if column.key != "n")


def test_peers_are_capped():
    """Above the cap the peers' cells stay empty, and the answer is checked by inverse dynamics alone."""
    (row,) = _chain((chain.PEER_LIMIT + 1,)).parts[0].rows
    assert "pin" not in row and "mujoco" not in row
    assert row["pin_call"] is None and row["residual"] < 1e-12 and row["call"] > 0


def test_a_missing_peer_leaves_a_note(without):
    """Without a peer the table is measured all the same, says so in its cells and names the extra."""
    without |= {"pinocchio"}
    table = _chain((5,))
    (row,) = table.parts[0].rows
    assert row["pin"] == MISSING and row["pin_call"] is None
    assert row["mujoco"] > 0 and row["call"] > 0
    assert any("limberjack[bench]" in note for note in table.notes)


def test_no_peer_at_all(without):
    """With no peer there are still our own times."""
    without |= {"pinocchio", "mujoco"}
    (row,) = _chain((5,)).parts[0].rows
    assert row["pin"] == row["mujoco"] == MISSING and row["step"] > 0


def test_a_disagreeing_peer_is_not_timed_in_public(monkeypatch):
    """A peer whose accelerations differ shows the difference in place of its time."""
    real = chain._mujoco

    def wrong(*arguments):
        contender, qdd = real(*arguments)
        return contender, qdd + 1.0

    monkeypatch.setattr(chain, "_mujoco", wrong)
    table = _chain((5,))
    (row,) = table.parts[0].rows
    assert str(row["mujoco"]).startswith("differs") and row["mujoco_call"] is None
    assert table.wrong and "mujoco" in table.wrong[0]


def test_ctrl_c_while_timing_keeps_the_rows(monkeypatch):
    """What was measured before Ctrl-C stands in the table, bars included."""
    rounds = []

    def stop_at_second(*arguments, **options):
        rounds.append(1)
        if len(rounds) == 2:
            raise KeyboardInterrupt
        return clock.race(*arguments, **options)

    monkeypatch.setattr(chain, "race", stop_at_second)
    table = bench.TABLES["chain"](True)
    assert table.interrupted and len(table.bars) == 3
    first, second = table.parts[0].rows
    assert first["call"] > 0 and "call" not in second
