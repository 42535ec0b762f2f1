"""The headline of the README: its table, its picture's figures, and the place they go to."""

from __future__ import annotations

import numpy as np
import pytest

import make_headline
from make_headline import Row

ROWS = [Row(1, 12.0, 0.5, 0.5), Row(20, 0.25, 0.01, 4.0), Row(None, 0.0, 0.0, 30.0)]


def test_the_table_has_error_and_cost_of_each_budget():
    """Errors, shares, times and how many times faster than all joints, in the order of the budgets."""
    lines = make_headline.table(ROWS).splitlines()
    assert lines[2] == "| 1 | 12 m | 50 % | 0.5 us | 60x |"
    assert lines[3] == "| 20 | 0.25 m | 1 % | 4 us | 7.5x |"
    assert lines[4] == "| all, `full` | - | - | 30 us | 1x |"
    assert "300 links" in lines[-1] and "make headline" in lines[-1]


def test_the_page_is_filled_between_its_markers(tmp_path):
    """What stands around the table stays; a page without markers is refused by name."""
    page = tmp_path / "page.md"
    page.write_text(f"before\n{make_headline.START}old\n{make_headline.END}after\n")
    make_headline.fill(ROWS, page)
    text = page.read_text()
    assert text.startswith("before\n") and text.endswith("after\n") and "old" not in text and "| 20 |" in text
    page.write_text("no place")
    with pytest.raises(SystemExit, match="page.md has no lines"):
        make_headline.fill(ROWS, page)


def test_the_pages_have_the_markers_and_the_picture():
    """The README shows the film; the pages show the picture and have a place for the table."""
    assert f"({make_headline.FILM.relative_to(make_headline.ROOT)})" in (make_headline.ROOT / "README.md").read_text()
    for page in make_headline.PAGES:
        text = page.read_text()
        assert make_headline.START in text and make_headline.END in text
        assert f"images/{make_headline.PICTURE.name})" in text


def test_errors_fall_with_the_budget():
    """A larger budget is nearer to full, which is zero away from itself; all take time."""
    rows = make_headline.measured((2, 40), seconds=0.4, each=0.01)
    assert [row.budget for row in rows] == [2, 40, None]
    assert rows[0].error > rows[1].error > rows[2].error == 0.0
    assert all(row.us > 0.0 for row in rows)


def test_people_hang_by_the_hand(monkeypatch):
    """The figures of the picture hang by their right hand, and are painted in several colours."""
    monkeypatch.setattr(make_headline, "_HUNG", 0.05)
    sim = make_headline.hung(10)
    assert np.linalg.norm(sim.body("right_hand").position - (0.0, 0.0, 2.45)) < 0.05
    image = make_headline.painted([sim], 120, 90)
    assert image.shape == (90, 120, 3) and len(np.unique(image.reshape(-1, 3), axis=0)) > 50


def test_unknown_words_are_refused(capsys):
    """A word that is neither picture nor film nor table ends with status 2 and the choices."""
    assert make_headline.main(["song"]) == 2
    assert "picture, film and table" in capsys.readouterr().err
