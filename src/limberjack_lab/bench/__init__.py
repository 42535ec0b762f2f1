"""The side-by-side tables: Limberjack and its peers on the same models, in one run, on one machine.

`run(["chain"], quick=False, json_path=None)` measures and prints; `TABLES["chain"](False)` returns the `Table`. Peers
are imported when a table needs them; one that is not installed leaves its cells empty and a note.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from limberjack import errors

if TYPE_CHECKING:
    from limberjack_lab.bench.table import Table

__all__ = ["TABLES", "run"]

# What each table measures; the module of the same name has `TITLE` and `fill(table, quick, watch)`.
DESCRIPTIONS = {
    "chain": "forward dynamics and steps of hinge chains of 10 to 100,000 links",
    "crowd": "one step of 200 people of 89 bodies each, on one thread and on two",
    "adaptive": "few of many joints simulated: pendulums, very long chains, crowds, and what peers have instead",
    "stability": "whether ropes, chains, whips and ragdolls gain energy at 1/1000, 1/240 and 1/60 s",
    "multipliers": "steps in maximal coordinates: growth, dense and sparse solvers, trees with loops",
    "collision": "contacts of 500 to 20,000 boxes in a pile, time per contact",
    "contact": "nets, piles of boxes and rings by impulses, time per frame, errors beside it",
    "displacements": "assembly, dragging and shaking by displacements, against SciPy's minres, and linear growth",
    "accuracy": "errors on problems with known answers, mechanisms with loops too, and orders of the integrators",
    "viewer": "what an open page costs the simulation, opening, pages that come and go",
    "start": "import, command line, first step, compilation and building in fresh processes",
}


def _table(name: str) -> Callable[[bool], Table]:
    def measure(quick: bool) -> Table:
        # Loaded here: the command line lists tables without loading kernels or peers.
        output = importlib.import_module("limberjack_lab.bench.table")
        return output.measure(name, importlib.import_module(f"limberjack_lab.bench.{name}"), quick)[0]

    measure.__name__, measure.__doc__ = name, f"Return the table of {DESCRIPTIONS[name]}; small with `quick`."
    return measure


TABLES: dict[str, Callable[[bool], Table]] = {name: _table(name) for name in DESCRIPTIONS}


def run(
    names: Iterable[str] = (),
    quick: bool = False,
    json_path: str | Path | None = None,
    against: str | Path | None = None,
) -> int:
    """Measure, print and optionally store tables; return 0, 1 when answers disagreed, or 130 after Ctrl-C.

    A bar that is missed is printed as such and does not change the status: a busy machine is no error.

    Args:
        names: of `TABLES`; none means all.
        quick: small sizes and short runs, to see that everything works; not for quoting.
        json_path: where to write all numbers, rewritten after each table.
        against: a file written so before: its numbers are printed beside the new ones.
    """
    chosen = list(dict.fromkeys(names)) or list(TABLES)
    for name in chosen:
        if name not in TABLES:
            raise errors.UnknownName("table", name, "limberjack_lab.bench", TABLES)
    output = importlib.import_module("limberjack_lab.bench.table")
    comparison = importlib.import_module("limberjack_lab.bench.against")
    earlier = {} if against is None else comparison.read(Path(against))
    tables: list[Table] = []
    for name in chosen:
        table = TABLES[name](quick)
        tables.append(table)
        output.show(table)
        if name in earlier:
            comparison.show(comparison.compare(earlier[name], table.as_json()))
        elif against is not None:
            print(f'{against} has no table "{name}"')
        if json_path is not None:
            output.write_json(tables, Path(json_path))
        if table.interrupted:
            return 130
    return 1 if any(table.wrong for table in tables) else 0
