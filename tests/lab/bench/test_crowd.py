from __future__ import annotations

import numpy as np
import pytest

import limberjack as lj
from limberjack import errors
from limberjack_lab.bench import crowd
from limberjack_lab.bench.table import Table, Watch


def _crowd(figures) -> Table:
    table = Table("crowd", crowd.TITLE, quick=True)
    with Watch("crowd") as watch:
        crowd.fill(table, True, watch, figures=figures)
    return table


def test_a_small_crowd_agrees_in_all_engines():
    """Every engine gives our accelerations for pushed figures, and is timed."""
    table = _crowd(2)
    part, shares, held, costs, large = table.parts
    assert "178 bodies, 190 dofs" in part.title
    assert len(part.rows) == 12 and not table.wrong
    for row in part.rows:
        assert row["gap"] < 1e-9
        assert (row.get("forward") or 0) > 0 or (row.get("step") or 0) > 0
    assert {row["threads"] for row in part.rows} == {1, 2}
    assert {bar.passed for bar in table.bars} == {None}
    # all joints are the full crowd itself; what moves less is off by more than nothing
    assert [row["share"] for row in shares.rows][::5] == [100.0, 1.0]
    assert shares.rows[0]["error"] == 0.0 < shares.rows[-1]["error"] and shares.rows[0]["one_ratio"] > 0
    assert [row["steps"] for row in held.rows] == [4, 12, 4] and all(row["median"] > 0 for row in held.rows)
    # 96 coordinates and 95 velocities of eight bytes
    assert [row["state"] for row in costs.rows] == pytest.approx([1.528] * 3) and len(costs.rows) == 3
    assert large.rows[0]["worst"] >= large.rows[0]["step"] > 0 and large.rows[0]["pictures"] > 0


def test_the_push_as_joint_forces_is_the_push():
    """The forces pinocchio is given act as the wrench on the chest does."""
    people = crowd.Crowd(1)
    pushed = lj.forward_dynamics(people.one, people.q, people.qd, tau=people.push_forces(people.q))
    np.testing.assert_allclose(pushed, people.qdd, rtol=0, atol=1e-9 * np.abs(people.qdd).max())
    free = lj.forward_dynamics(people.one, people.q, people.qd)
    assert np.abs(free - people.qdd).max() > 0.1


def test_figures_of_the_crowd_are_the_single_figure():
    """The crowd's figures and the single figure of the peers have the same links."""
    people = crowd.Crowd(2)
    np.testing.assert_array_equal(people.whole.arrays.links.inertia[:89], people.one.arrays.links.inertia)
    np.testing.assert_array_equal(people.whole.arrays.links.inertia[89:], people.one.arrays.links.inertia)


def test_missing_peers_leave_rows_that_say_so(monkeypatch):
    """Without peers our own rows are measured and the others say what is missing."""

    def require(module, extra):
        raise errors.MissingExtra(f'"{module}" is needed for this: pip install "limberjack[{extra}]"')

    monkeypatch.setattr(errors, "require", require)
    for word in ("shares", "hold", "costs", "large"):
        monkeypatch.setattr(crowd, word, lambda *given: None)
    rows = _crowd(1).parts[0].rows
    assert [row["who"] for row in rows[4:]] == ["pinocchio: not installed", "MuJoCo: not installed"]
    assert rows[0]["step"] > 0 and rows[0]["step_ratio"] == pytest.approx(1.0)
