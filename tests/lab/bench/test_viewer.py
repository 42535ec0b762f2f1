"""The table of what an open page costs."""

from __future__ import annotations

from limberjack_lab.bench import viewer
from limberjack_lab.bench.table import Table, Watch


def test_a_small_run_shows_pictures_to_a_page():
    """Pictures are sent while a page is open, messages reach it, opening and visits are measured; no bar is judged."""
    table = Table("viewer", viewer.TITLE, quick=True)
    with Watch("viewer") as watch:
        viewer.fill(table, True, watch)
    costs, pages = table.parts
    (row,) = costs.rows
    assert row["sent"] > 5.0 and row["got"] > 1.0 and row["alone"] > 0.0 and row["shown"] > 0.0
    assert len(pages.rows) == 3 and pages.rows[0]["value"] > 0.0
    assert {bar.passed for bar in table.bars} == {None}
