"""Measured tables go into the pages, and only those that are for quoting."""

from __future__ import annotations

import json

import pytest

import fill_bench
from limberjack_lab.bench import chain, contact, crowd
from limberjack_lab.bench.table import Bar, Table, write_json


def _tables() -> list[Table]:
    """A chain, a crowd and piles of boxes as `limberjack bench` would give them."""
    machine = {"processor": "slide rule", "system": "Desk 1", "python": "3.11", "pin": "3.0", "mujoco": "4.0"}
    one = Table("chain", chain.TITLE, False, machine=machine)
    part = one.part("", *chain._COLUMNS)
    part.add(n=10, call=3.0, step=1.5, pin=4.0, mujoco=9.0)
    part.add(n=300, call=25.0, step=22.0, pin=75.0, mujoco=500.0)
    one.bars += [Bar("pin / our call", 3.0, 2.5), Bar("not measured", None, 2.0), Bar("growth", 3.0, 2.0, False)]
    one.note("best of samples")
    two = Table("crowd", crowd.TITLE, False, machine=machine)
    part = two.part("200 figures: 17,800 bodies, 19,000 freedoms", *crowd._COLUMNS)
    part.add(who="Limberjack, one model of all", threads=1, forward=2.0, step=2.5)
    part.add(who="Limberjack, Full(threads=2)", threads=2, step=1.3)
    part.add(who="pinocchio, 200 x aba", threads=1, forward=6.0, step=8.0)
    part.add(who="pinocchio, abaInParallel", threads=1, forward=5.0)
    part.add(who="MuJoCo, 200 MjData", threads=1, forward=20.0, step="differs 1.0e-03")
    three = Table("contact", contact.TITLE, False, machine=machine)
    three.part("net")
    part = three.part("boxes", *contact._BOXES)
    part.add(case="2000, seed 0", who="impulses, 1/60", ms=19.0)
    part.add(case="2000, seed 1", who="impulses, 1/60", ms=20.0)
    part.add(case="2000, seed 0", who="MuJoCo, 1/240", ms=200.0)
    return [one, two, three]


@pytest.fixture
def pages(tmp_path, monkeypatch):
    """A checkout with the two pages."""
    (tmp_path / "docs").mkdir()
    for name in ("README.md", "docs/performance.md"):
        (tmp_path / name).write_text(f"before\n{fill_bench.START}old\n{fill_bench.END}after\n")
    monkeypatch.setattr(fill_bench, "ROOT", tmp_path)
    return tmp_path


def test_both_pages_are_filled(pages):
    """The README gets chain, crowd and boxes with ratios to the best peers; the other page gets all."""
    write_json(_tables(), pages / "bench.json")
    assert fill_bench.main([str(pages / "bench.json")]) == 0
    readme, page = (pages / "README.md").read_text(), (pages / "docs" / "performance.md").read_text()
    assert "| chain of 300 hinges: forward dynamics, from Python | 25 us | 75 us (3.0x) | 500 us (20.0x) |" in readme
    assert "| crowd of 200 people, 95 dofs each: forward dynamics | 2 ms | 5 ms (2.5x) | 20 ms (10.0x) |" in readme
    assert "| crowd of 200 people, 95 dofs each: one step | 2.5 ms | 8 ms (3.2x) | - |" in readme
    assert "| 2,000 boxes that fall and settle: a frame of 1/60 s | 20 ms | - | 200 ms (10.0x) |" in readme
    assert "slide rule" in readme and "Pinocchio 3.0" in readme
    for word in ("chain", "crowd", "abaInParallel", "best of samples", "kept", "**missed**"):
        assert word in page
    assert "not measured" not in page
    for text in (readme, page):
        assert text.startswith("before\n") and text.endswith("after\n") and "old" not in text
    again = fill_bench.main([str(pages / "bench.json")])
    assert again == 0 and (pages / "README.md").read_text() == readme


@pytest.mark.parametrize(
    ("change", "word"),
    [({"quick": True}, "quick"), ({"interrupted": True}, "interrupted"), ({"wrong": ["pin differs"]}, "wrong")],
)
def test_what_is_not_for_quoting_is_refused(pages, change, word, capsys):
    """Quick, interrupted and wrong measurements leave both pages as they were."""
    data = {"tables": [table.as_json() | change for table in _tables()]}
    (pages / "bench.json").write_text(json.dumps(data))
    assert fill_bench.main([str(pages / "bench.json")]) == 2
    assert word in capsys.readouterr().err
    assert "old" in (pages / "README.md").read_text() and "old" in (pages / "docs" / "performance.md").read_text()


def test_what_cannot_be_filled_is_told(pages, capsys):
    """No file, no JSON, no tables of use, no markers and no argument: status 2 and a message, nothing written."""
    path = pages / "bench.json"
    assert fill_bench.main([]) == 2
    assert fill_bench.main([str(path)]) == 2
    path.write_text("{}")
    assert fill_bench.main([str(path)]) == 2
    write_json([Table("start", "waiting", False)], path)
    assert fill_bench.main([str(path)]) == 2
    write_json(_tables(), path)
    (pages / "docs" / "performance.md").write_text("no place")
    assert fill_bench.main([str(path)]) == 2
    assert "old" in (pages / "README.md").read_text()
    assert capsys.readouterr().err.count("bench.json") >= 3


def test_the_real_pages_have_a_place():
    """README.md and docs/performance.md have the markers."""
    for path in (fill_bench.ROOT / "README.md", fill_bench.ROOT / "docs" / "performance.md"):
        assert fill_bench.filled(path.read_text(), "new\n", path).count("new\n") == 1
