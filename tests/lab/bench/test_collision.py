"""The table of piles: contacts in proportion to boxes."""

from __future__ import annotations

from limberjack_lab.bench import TABLES


def test_piles_are_measured():
    """A small table has a row per pile, with contacts and a time each; its bar is for large piles only."""
    table = TABLES["collision"](True)
    (part,) = table.parts
    assert [row["boxes"] for row in part.rows] == [50, 200]
    for row in part.rows:
        assert row["contacts"] > 4 * row["boxes"] and row["contact_us"] > 0
    assert {bar.passed for bar in table.bars} == {None}
