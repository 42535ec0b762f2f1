"""One page of all that was measured of the papers: what holds and what does not, tables and pictures, all inside."""

from __future__ import annotations

import base64
from html import escape
from pathlib import Path

from limberjack_lab.bench.table import Bar, Part, Table, shown, write_whole

__all__ = ["CLAIMS", "PAGE", "write_report"]

PAGE = "report.html"

# What each paper claims, in our words: the figure that tests it and how the text of the bar begins.
CLAIMS = {
    "redon": (
        ("accelerations are right for the joints that are simulated, however few", "fig4", "largest error"),
        ("joints chosen as a body moves lead nearer to its true rest than as many fixed ones", "fig6", "mean distance"),
        ("the error grows gradually as fewer joints are simulated", "fig5", "median error"),
        ("the cost follows the joints simulated, not the body", "table1", "our gain over our DCA"),
        ("two orders of magnitude are gained at one joint of 300", "table1", "gain over the DCA"),
        ("a crowd is simulated several times faster, more coarsely where it is far", "fig1", "full / adaptive"),
    ),
    "baraff": (
        ("the time grows linearly with the constraints of an acyclic system", "section9", "growth"),
        ("it is faster than elimination of all at once at 99 constraints", "section9", "all at once / linear, 99"),
        ("and by far at 381", "section9", "all at once / linear, 381"),
    ),
    "faure": (
        ("the assembly converges fast", "fig2", "error after"),
        ("a ring of figures with 758 constraints is assembled in 6 x 30 iterations", "fig3", "error after"),
        ("in less than a second", "fig3", "time of 6 x 30"),
        ("energy and momentum remain constant to rounding", "fig4", "change of the energy of a chain, printed"),
        ("in our conserving step the energy does", "fig4", "change of the energy of a chain, conserving"),
        ("and the momentum", "fig4", "change of its angular momentum"),
        ("what a hand has pulled open closes again, at 2 x 5 iterations", "fig5", "error 60 frames after, 2 x 5"),
        ("and at 3 x 50", "fig5", "error 60 frames after, 3 x 50"),
        ("a shaken plate is simulated at 12 frames a second, drawing included", "fig6", "frames per second"),
    ),
    "weinstein": (
        ("joints stay closed among contacts, friction and stacks", "scenes", "largest gap of a joint"),
        ("joints take about 5 % of the time", "scenes", "share of the joints"),
        ("joints solved one after another converge in a few sweeps", "sweeps", "gap after 15 sweeps"),
    ),
}  # fmt: skip

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #22303c; background: #fbfaf7; max-width: 1180px;
  margin: 2rem auto; padding: 0 1rem }
h1, h2, h3 { line-height: 1.2 }
h2 { margin-top: 3rem; border-bottom: 2px solid #e8743b }
table { border-collapse: collapse; margin: .7rem 0 }
th, td { padding: .2rem .7rem; border-bottom: 1px solid #d9dee2; text-align: right; vertical-align: bottom }
td:first-child, th:first-child { text-align: left }
.grid { overflow-x: auto }
.unit, .note { color: #6b7780; font-size: .9em }
.yes { color: #2c7a43; font-weight: 600 }
.no { color: #b3261e; font-weight: 600 }
.open { color: #8a6d00 }
figure { display: inline-block; margin: .5rem; vertical-align: top }
img { max-width: 100%; max-height: 420px }
"""


def _verdict(bar: Bar | None) -> str:
    passed = None if bar is None else bar.passed
    word, kind = {True: ("holds", "yes"), False: ("does not hold", "no"), None: ("not measured", "open")}[passed]
    return f'<span class="{kind}">{word}</span>'


def _limit(bar: Bar) -> str:
    return f"{'at least' if bar.at_least else 'at most'} {bar.limit:g}"


def _claims(paper: str, tables: dict[str, Table]) -> str:
    rows = []
    for text, figure, begins in CLAIMS[paper]:
        table = tables.get(f"{paper}/{figure}")
        bar = next((bar for bar in table.bars if bar.text.startswith(begins)), None) if table else None
        measured = "-" if bar is None else f"{escape(bar.text)}: {shown(bar.value)} ({_limit(bar)})"
        if bar is not None and bar.passed is False and bar.reason:
            measured += f'<br><span class="note">{escape(bar.reason)}</span>'
        rows.append(f"<tr><td>{escape(text)}</td><td>{measured}</td><td>{_verdict(bar)}</td></tr>")
    return f"<table><tr><th>the paper's claim</th><th>measured here</th><th></th></tr>{''.join(rows)}</table>"


def _grid(part: Part) -> str:
    heads = "".join(
        f"<th>{escape(column.title).replace(chr(10), '<br>')}"
        + (f'<br><span class="unit">{escape(column.unit)}</span>' if column.unit else "")
        + "</th>"
        for column in part.columns
    )
    rows = "".join(
        "<tr>" + "".join(f"<td>{escape(shown(row.get(column.key)))}</td>" for column in part.columns) + "</tr>"
        for row in part.rows
    )
    return f'<h4>{escape(part.title)}</h4><div class="grid"><table><tr>{heads}</tr>{rows}</table></div>'


def _picture(path: Path, what: str) -> str:
    data = base64.b64encode(path.read_bytes()).decode()
    kind = "svg+xml" if path.suffix == ".svg" else path.suffix[1:]
    return (
        f'<figure><img alt="{escape(what)}" src="data:image/{kind};base64,{data}">'
        f"<figcaption>{escape(what)}</figcaption></figure>"
    )


def _figure(table: Table, pictures: dict[Path, str]) -> str:
    out = [f"<h3>{escape(table.name.partition('/')[2])}: {escape(table.title)}</h3>"]
    if table.quick:
        out.append('<p class="open">quick: small sizes and short runs, not for quoting</p>')
    if table.interrupted:
        out.append('<p class="open">stopped by Ctrl-C: cells without a number were not measured</p>')
    out += [f'<p class="no">wrong: {escape(text)}</p>' for text in table.wrong]
    out += [_grid(part) for part in table.parts]
    for bar in table.bars:
        why = f": {escape(bar.reason)}" if bar.passed is False and bar.reason else ""
        out.append(f"<p>{_verdict(bar)}: {escape(bar.text)}: {shown(bar.value)} ({_limit(bar)}){why}</p>")
    out += [f'<p class="note">{escape(text)}</p>' for text in table.notes]
    out += [_picture(path, what) for path, what in pictures.items()]
    return "\n".join(out)


def write_report(
    papers: dict[str, str], tables: list[Table], pictures: dict[str, dict[Path, str]], folder: Path
) -> Path:
    """Write the page into `folder`, whole or not at all; return its path.

    Args:
        papers: titles by key.
        tables: what was measured, of any papers.
        pictures: by the name of the table, files and what they show; they are copied into the page.
        folder: where it goes.
    """
    by_name = {table.name: table for table in tables}
    out = [f"<h1>Four papers, measured anew</h1><style>{_STYLE}</style>"]
    for table in tables[:1]:
        text = " | ".join(f"{key} {value}" for key, value in table.machine.items())
        out.append(f'<p class="note">{escape(text)}</p>')
    for paper, title in papers.items():
        own = [table for table in tables if table.name.startswith(f"{paper}/")]
        if own:
            out += [f"<h2>{escape(title)}</h2>", _claims(paper, by_name)]
            out += [_figure(table, pictures.get(table.name, {})) for table in own]
    body = "\n".join(out)
    page = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Limberjack: four papers, measured '
        f'anew</title><meta name="viewport" content="width=device-width"></head><body>{body}</body></html>\n'
    )
    path = folder / PAGE
    write_whole(path, page.encode())
    return path
