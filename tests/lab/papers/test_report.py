"""The page of the papers: self-contained, with verdicts, tables and pictures."""

from __future__ import annotations

import importlib
import re
from html.parser import HTMLParser

import pytest

from limberjack_lab import papers
from limberjack_lab.bench.table import Bar, Table
from limberjack_lab.papers.report import CLAIMS, write_report


class _Tags(HTMLParser):
    """Collects open tags, links and sources, and counts what does not close."""

    def __init__(self):
        super().__init__()
        self.open, self.sources = [], []

    def handle_starttag(self, tag, attrs):
        if tag not in ("img", "meta", "br"):
            self.open.append(tag)
        self.sources += [value for name, value in attrs if name in ("src", "href")]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_a_run_writes_one_page_with_everything(tmp_path, capsys):
    """Tables, verdicts and pictures of a run are inside the page, and the page refers to nothing outside."""
    assert papers.run(["redon/fig4"], quick=True, folder=tmp_path) == 0
    assert "report.html" in capsys.readouterr().out
    text = (tmp_path / "report.html").read_text()
    tags = _Tags()
    tags.feed(text)
    assert not tags.open
    assert len(tags.sources) == 1 and all(source.startswith("data:image/png;base64,") for source in tags.sources)
    assert "found anew: ours" in text and '<span class="yes">holds</span>' in text
    assert "not measured" in text  # claims of figures that were not run


def test_what_does_not_hold_is_said_with_its_reason(tmp_path):
    """A missed bar reads "does not hold" beside the claim, with the reason."""
    table = Table("weinstein/scenes", "scenes", quick=False)
    table.bars.append(Bar("share of the joints in the time", 27.0, 5.0, False, "joints < at once >"))
    text = write_report(papers.PAPERS, [table], {}, tmp_path).read_text()
    row = re.search(r"<tr><td>joints take about 5 % of the time.*?</tr>", text)
    assert row and "does not hold" in row[0] and "joints &lt; at once &gt;" in row[0] and "27" in row[0]


@pytest.mark.parametrize("paper", papers.PAPERS)
def test_every_claim_names_a_figure_and_a_bar(paper):
    """Claims refer to figures that exist and to bars that their modules make."""
    for _, figure, begins in CLAIMS[paper]:
        assert f"{paper}/{figure}" in papers.FIGURES
        source = importlib.import_module(f"limberjack_lab.papers.{paper}.{figure}").__file__
        words = " ".join(re.findall(r"[a-z]{3,}", begins))
        assert words.split()[0] in open(source).read(), begins
