from __future__ import annotations

import math

import numpy as np
import pytest

from limberjack import errors, scenes
from limberjack_lab import bench
from limberjack_lab.bench import adaptive, paper_grid
from limberjack_lab.bench.chains import DT, turning_rod
from limberjack_lab.bench.clock import Segment
from limberjack_lab.bench.clock import adaptive as simulated
from limberjack_lab.bench.table import MISSING, Table, Watch

TINY = adaptive.Extent(12, (1, 3), (3,), (20, 40), (40, 80), (3,), 2, ((1, 5), (1, 50)), 0.05, 0.002)


def _filled() -> Table:
    table = Table("adaptive", adaptive.TITLE, quick=True)
    with Watch("adaptive") as watch:
        adaptive.fill(table, True, watch, extent=TINY)
    return table


def _numbers(rows, *without) -> list[float]:
    return [x for row in rows for key, x in row.items() if isinstance(x, float) and key not in without]


def test_every_row_is_measured():
    """A small run has all rows, finite numbers, and no answer that differs from a peer's."""
    table = _filled()
    pendulum, churn, sizes, steps, shaped, others, times, ratios = table.parts
    assert [row["budget"] for row in pendulum.rows] == 2 * ["1", "1, force at the tip", "3"]
    assert [row["integrator"] for row in pendulum.rows] == 3 * ["projected"] + 3 * ["variational"]
    assert all(row["rise"] < 1e-6 and row["energy"] < 1e-6 for row in pendulum.rows if "tip" not in row["budget"])
    assert all(row["gain"] == pytest.approx(row["full"] / row["step"]) for row in pendulum.rows)
    assert len(steps.rows) == 5
    for row in steps.rows:
        assert row["gain"] == pytest.approx(row["full"] / row["ours"]) and row["longest"] >= 1.0
        assert row["error"] < 0.5 and row["active"] > 0
    assert all(row["error"] == 0.0 for row in steps.rows[:3])  # all twelve joints are simulated
    assert [row["budget"] for row in churn.rows] == ["3"]
    assert [(row["n"], row["budget"]) for row in sizes.rows] == [(20, 3), (40, 3)]
    assert [row["n"] for row in shaped.rows] == [40, 80]
    assert all(row["free"] > 0 and row["standing_contacts"] == 10 and row["coiled"] > 0 for row in shaped.rows)
    assert len(others.rows) == 8 and [row["forces"] for row in times.rows] == [1, 5]
    for part in table.parts:
        assert all(map(math.isfinite, _numbers(part.rows)))
    for row in (*pendulum.rows, *churn.rows):
        assert row["step"] > 0 and row["ordinary"] > 0 and row["pin"] > 0 and row["finite"] == "yes"
        assert row["faster"] == pytest.approx(row["pin"] / row["step"])
        assert row["update"] == pytest.approx(20 * (row["step"] - row["ordinary"]))
    assert all(row["quiet"] > 0 and row["churn"] > 0 and row["finite"] == "yes" for row in sizes.rows)
    assert all(row["theirs"] > 0 and math.isfinite(row["ours"]) for row in others.rows)
    assert all(row["p1"] == pytest.approx(paper_grid.paper_ratio(row["forces"], 1)) for row in ratios.rows)
    assert not table.wrong and {bar.passed for bar in table.bars} == {None}


def test_missing_peers_leave_our_own_numbers(monkeypatch):
    """Without peers everything of ours is measured, and the cells of the others say what is missing."""

    def require(module, extra):
        raise errors.MissingExtra(f'"{module}" is needed for this: pip install "limberjack[{extra}]"')

    monkeypatch.setattr(errors, "require", require)
    table = _filled()
    pendulum, _, _, _, _, others, _, _ = table.parts
    assert all(row["pin"] == MISSING and row["faster"] is None and row["step"] > 0 for row in pendulum.rows)
    assert all(row["theirs"] == MISSING and row["ours"] is not None for row in others.rows)
    assert any("limberjack[bench]" in note for note in table.notes)


def test_a_motion_that_diverges_is_not_timed(monkeypatch):
    """A segment that ends in infinities is named as a wrong answer, and its row has no times."""

    def changes(self):
        raise errors.Diverged("no longer finite", "joint", 1, 0.1)

    monkeypatch.setattr(Segment, "changes", changes)
    table = Table("adaptive", adaptive.TITLE, quick=True)
    with Watch("adaptive") as watch:
        other = adaptive._pinocchio(table, scenes.paper_pendulum(links=TINY.links))
        adaptive._pendulums(table, TINY, other, watch)
        adaptive._sizes(table, TINY, watch)
    rows = table.parts[0].rows
    assert all(row["finite"] == "NO" and "step" not in row for row in rows)
    assert len(table.wrong) == len(rows) + len(TINY.size_budgets)


def test_the_turning_rod_changes_its_region_for_ever():
    """At every update of the turning rod a good part of the region changes, and the motion stays bounded."""
    sim = simulated(turning_rod(60, 10), 10, DT, 1000)
    for _ in range(3):
        before = sim.stats
        sim.step(2000)
        after = sim.stats
        changed = (after["changes"] - before["changes"]) / (after["updates"] - before["updates"]) / 20
        assert 0.1 < changed < 0.6
        assert np.abs(sim.q[1:]).max() < 0.1 and sim.stats["active_joints"] == 10


def test_a_segment_repeats_its_steps():
    """Each sample of a segment takes whole update periods from the same state, and those between updates have none."""
    segment = Segment(simulated(turning_rod(30, 5), 5, DT, 100))
    assert segment.steps % 20 == 0 and segment.steps >= 1000
    ends = []
    for _ in range(2):
        segment.restart()
        segment.sim.step(segment.steps)
        ends.append(segment.sim.state_hash())
    assert ends[0] == ends[1]
    ordinary = segment.ordinary()
    before = ordinary.sim.stats["updates"]
    ordinary.sim.step(ordinary.steps)
    assert ordinary.sim.stats["updates"] == before


def test_the_paper_has_all_its_numbers():
    """The paper's table has a time for each number of forces and joints, and one for divide and conquer."""
    assert tuple(paper_grid.PAPER_MS) == paper_grid.FORCES
    assert {len(times) for times in paper_grid.PAPER_MS.values()} == {len(paper_grid.JOINTS) + 1}


def test_the_table_is_listed():
    """The command line knows the table."""
    assert "adaptive" in bench.TABLES
