"""The papers' tables and figures, measured and drawn anew.

`run(["redon"], folder="papers-output")` does all of a paper, `run(["redon/fig6"], ...)` one figure: it is measured and
printed beside the paper's numbers, the numbers go to a JSON file and the pictures (extra "plot") beside it, and
all of it to one page, `report.html`.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from limberjack import errors

if TYPE_CHECKING:
    from limberjack_lab.bench.table import Table

__all__ = ["FIGURES", "PAPERS", "chosen", "run"]

PAPERS = {
    "redon": "Redon, Galoppo, Lin: Adaptive Dynamics of Articulated Bodies (SIGGRAPH 2005)",
    "baraff": "Baraff: Linear-Time Dynamics using Lagrange Multipliers (SIGGRAPH 1996)",
    "weinstein": "Weinstein, Teran, Fedkiw: Dynamic Simulation of Articulated Rigid Bodies (TVCG 2006)",
    "faure": "Faure: Interactive Solid Animation Using Linearized Displacement Constraints (EGCAS 1998)",
}

# What each shows; the module of the same name has `TITLE`, `fill(table, quick, watch)` and `draw(found, folder)`; some
# also take `full`, for long runs.
FIGURES = {
    "redon/fig4": "accelerations of sliders with one joint simulated",
    "redon/fig6": "where a pendulum on a spring comes to rest with 5 of 50 joints simulated",
    "redon/fig5": "how far a pendulum of 300 links strays with ever fewer joints simulated",
    "redon/table1": "time per step of that pendulum by joints simulated and forces applied",
    "redon/fig1": "a crowd of 200 people simulated the more coarsely the farther they are",
    "faure/fig2": "assembly of a bar between two disks, iteration by iteration",
    "faure/fig3": "assembly of figures in a ring, 758 constraints, in 6 x 30 iterations",
    "faure/fig4": "energy of a particle on a circle and of an isolated chain, in the printed step and in ours",
    "faure/fig5": "dragging a structure at 2 x 5 and at 3 x 50 iterations, and how it recovers",
    "faure/fig6": "a plate shaken at 1 x 15 iterations per frame",
    "weinstein/scenes": "articulated bodies among contacts: time per frame, share of the joints, errors, pictures",
    "weinstein/sweeps": "joints swept 5, 9 and 15 times, and all at once",
    "baraff/section9": "time of the multipliers of the systems of section 9, and its growth, linear and cubic",
}


def chosen(names: Iterable[str]) -> list[str]:
    """Return the figures named, each once; a paper means all of its figures, nothing means everything."""
    out: list[str] = []
    for name in names:
        found = [figure for figure in FIGURES if name == figure or name == figure.partition("/")[0]]
        if not found:
            raise errors.UnknownName("figure", name, "limberjack papers", (*PAPERS, *FIGURES))
        out += found
    return list(dict.fromkeys(out)) or list(FIGURES)


def run(
    names: Iterable[str] = (), quick: bool = False, folder: str | Path = "papers-output", full: bool = False
) -> int:
    """Measure, print and draw figures; return 0, 1 when an answer was wrong, or 130 after Ctrl-C.

    A bar that is missed is printed as such and does not change the status: a busy machine is no error.

    Args:
        names: of `FIGURES` or `PAPERS`; none means everything.
        quick: small sizes and short runs, to see that everything works; not for quoting.
        folder: where numbers and pictures go, made if absent.
        full: long runs, of figures that have them.
    """
    wanted, folder = chosen(names), Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise errors.FileError(folder, f"cannot be made: {error.strerror or error}") from error
    drawable = _drawable()
    output = importlib.import_module("limberjack_lab.bench.table")
    report = importlib.import_module("limberjack_lab.papers.report")
    tables: list[Table] = []
    pictures: dict[str, dict[Path, str]] = {}
    written: dict[str, str] = {report.PAGE: "everything on one page"}
    try:
        for name in wanted:
            module = _module(name)
            longer = {"full": True} if full and "full" in inspect.signature(module.fill).parameters else {}
            table, found = output.measure(name, module, quick, **longer)
            tables.append(table)
            output.show(table)
            output.write_json(tables, folder / "numbers.json")
            written["numbers.json"] = "all numbers, for programs"
            if drawable and not table.interrupted:
                pictures[name] = dict(_module(name).draw(found, folder))
                written |= {path.name: what for path, what in pictures[name].items()}
            report.write_report(PAPERS, tables, pictures, folder)
            if table.interrupted:
                return 130
    finally:
        _tell(folder, written)
    return 1 if any(table.wrong for table in tables) else 0


def _module(name: str) -> Any:
    # Loaded when needed: the command line lists figures without loading kernels.
    return importlib.import_module(f"limberjack_lab.papers.{name.replace('/', '.')}")


def _drawable() -> bool:
    """Return whether pictures can be drawn; say what is missing before anything is measured."""
    try:
        errors.require("matplotlib", extra="plot")
    except errors.MissingExtra as error:
        print(f"no pictures: {error}")
        return False
    return True


def _tell(folder: Path, written: dict[str, str]) -> None:
    if "numbers.json" in written:
        print(f"results in {folder.resolve()}", *(f"  {name:22} {what}" for name, what in written.items()), sep="\n")
