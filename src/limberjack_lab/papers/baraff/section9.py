"""Section 9: the time to compute the multipliers of the paper's systems, and what elimination of all at once takes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from limberjack import scenes
from limberjack.cli.runs import turned
from limberjack.model.model import Model
from limberjack.model.spec import WORLD
from limberjack.reduced.dynamics import forward_kinematics
from limberjack_lab.bench.chain import difference
from limberjack_lab.bench.clock import Contender, race, until_long
from limberjack_lab.bench.elimination import ROWS, Solve
from limberjack_lab.bench.multipliers import PAPER_FACTORS, left_over, timed
from limberjack_lab.bench.table import Bar, Column, Table, Watch, ratio
from limberjack_lab.papers.pictures import ACCENT, COOL, INK, PALE, drawing

__all__ = ["SYSTEMS", "TITLE", "Growth", "System", "draw", "fill", "standing"]

TITLE = "the multipliers of the systems of section 9, and how the time grows with their number"
# Bodies of the trees whose times are drawn; the cube is followed up to a few seconds of work.
_SIZES, _CUBED = (15, 33, 63, 127, 255, 511, 1023, 4095), 300
_QUICK_SIZES = (7, 15, 33)
# The tops of the rods that stand in for contacts are this far up: over a foot's width they are level [m].
_HEIGHT = 1000.0


class System(NamedTuple):
    """A system of the paper.

    Attributes:
        title: what it is.
        model: makes it.
        primary: its multipliers.
        auxiliary: those of loops and contacts.
        ms: the paper's time, on a 250 MHz R4400 [ms].
        rows_ms: how much of it goes into J, where the paper says so [ms].
        contacts: whether the auxiliary ones are contacts.
    """

    title: str
    model: Callable[[], Model]
    primary: int
    auxiliary: int
    ms: float
    rows_ms: float | None
    contacts: bool = False


class Growth(NamedTuple):
    """Times [s] by multipliers: of the linear method, and of all at once as far as it was followed."""

    linear: dict[int, float]
    cubic: dict[int, float]


def standing() -> Model:
    """Return the figure on three legs with its feet held up and down in place of contacts, by rods from far above."""
    model = scenes.baraff_contacts()
    places = {shape.name: shape for shape in model.shapes}
    spec, joints = model.spec, list(model.spec.joints)
    ball = joints[0]
    for leg in range(3):
        foot = places[f"foot{leg}"]
        at = _world(model, foot.body, np.array(foot.position))
        joints.append(
            replace(
                ball, name=f"stand{leg}", kind="distance", parent=WORLD, child=foot.body, start=None,
                position=(at[0], at[1], at[2] + _HEIGHT), position_in_child=foot.position, length=_HEIGHT,
            )
        )  # fmt: skip
    return Model(replace(spec, joints=joints, shapes=[]))


def _world(model: Model, body: str, point: np.ndarray) -> np.ndarray:
    places, rotations = forward_kinematics(model, model.q0)
    i = model.body_index(body)
    return places[i] + turned(rotations[i : i + 1], point[None])[0]


SYSTEMS = (
    System("plane, 54 pins", scenes.baraff_planar, 108, 0, 7.75, 2.75),
    System("plane, 54 pins, six rings", lambda: scenes.baraff_planar(rings=True), 96, 12, 24.75, None),
    System("space, 32 balls, 3 feet on the ground", scenes.baraff_contacts, 96, 3, 18.0, 4.4, True),
    System("space, 127 balls", lambda: scenes.baraff_tree(stir=1.0), 381, 0, 44.6, 4.0),
)


def _wrong(solve: Solve, system: System) -> float:
    """Return how far a solution is off: of its equations, or of feet that are held always, as these here press."""
    if not system.contacts:
        return left_over(solve)
    held = Solve(standing())
    held(1)
    return difference(solve.saddle.a, held.saddle.a)


def _systems(table: Table, seconds: float, watch: Watch) -> None:
    part = table.part(
        "one solve: rows, factor, solve and auxiliary rows",
        Column("title", "system"),
        Column("primary", "multipliers,\nprimary"),
        Column("auxiliary", "auxiliary"),
        Column("paper", "the paper\n(1996)", "ms"),
        Column("paper_rows", "of that\nrows", "ms"),
        Column("ours", "ours", "us"),
        Column("ours_rows", "of that\nrows", "us"),
        Column("factor", "factor", "us"),
        Column("solve", "solve", "us"),
        Column("gain", "paper /\nours", "x"),
        Column("error", "error of the\nsolution", "rel"),
    )
    for system in SYSTEMS:
        watch(system.title, 1)
        solve = Solve(system.model(), contacts=system.contacts)
        status = solve(1)
        auxiliary = int(solve.saddle.report[0])
        held = solve.rows - (0 if system.contacts else auxiliary)
        if (status, held, auxiliary) != (0, system.primary, system.auxiliary):
            table.wrong.append(f"{system.title}: {held} + {auxiliary} multipliers, status {status}")
        row: dict[str, Any] = part.add(title=system.title, primary=held, auxiliary=auxiliary, paper=system.ms)
        row |= {"paper_rows": system.rows_ms, "error": _wrong(solve, system)}
        best = {key: 1e6 * value for key, value in timed(solve, seconds).items()}
        row["ours"] = table.trust(system.title, row["error"], best["all"])
        row |= {"ours_rows": best["rows"], "factor": best["factor"], "solve": best["solve"]}
        row["gain"] = ratio(1e3 * system.ms, row["ours"])


def _growth(table: Table, sizes: tuple[int, ...], seconds: float, watch: Watch) -> Growth:
    part = table.part(
        "binary trees on balls: the linear method and the elimination of all multipliers at once",
        Column("rows", "multipliers"),
        Column("linear", "linear", "us"),
        Column("each", "linear, per\nmultiplier", "ns"),
        Column("cubic", "all at once", "us"),
        Column("gain", "all at once /\nlinear", "x"),
        Column("paper", "the paper's\nfactor", "x"),
        Column("gap", "accelerations:\nboth ways", "rel"),
    )
    found = Growth({}, {})
    for bodies in sizes:
        watch(f"tree of {bodies} bodies", 1)
        solve = Solve(scenes.baraff_tree(bodies=bodies, stir=1.0))
        solve(1)
        row: dict[str, Any] = part.add(rows=solve.rows, paper=PAPER_FACTORS.get(solve.rows))
        n = until_long(solve)
        runs = [Contender("linear", lambda solve=solve, n=n: solve(n), n)]
        if bodies <= _CUBED:
            solve.by_elimination(1)
            assert solve.dense is not None
            row["gap"] = difference(solve.dense.a, solve.saddle.a)
            runs.append(Contender("rows", lambda solve=solve, n=n: solve(n, ROWS), n))
            runs.append(Contender("cubic", lambda solve=solve: solve.by_elimination(1)))
        best = {key: one.cpu for key, one in race(runs, seconds=seconds * len(runs)).items()}
        found.linear[solve.rows] = best["linear"]
        row["linear"], row["each"] = 1e6 * best["linear"], 1e9 * best["linear"] / solve.rows
        if "cubic" in best:
            found.cubic[solve.rows] = best["cubic"] + best["rows"]
            row["cubic"] = table.trust(f"{solve.rows} multipliers", row["gap"], 1e6 * found.cubic[solve.rows])
            row["gain"] = ratio(row["cubic"], row["linear"])
    return found


def fill(table: Table, quick: bool, watch: Watch) -> Growth:
    """Measure the systems; see `FIGURES`."""
    sizes, seconds = (_QUICK_SIZES, 0.02) if quick else (_SIZES, 1.0)
    watch.begin(len(SYSTEMS) + len(sizes))
    _systems(table, 4 * seconds, watch)
    found = _growth(table, sizes, seconds, watch)
    for rows, factor in PAPER_FACTORS.items():
        gain = None if quick else ratio(found.cubic.get(rows), found.linear.get(rows))
        table.bars.append(Bar(f"all at once / linear, {rows} multipliers", gain, factor))
    if not quick:
        low, high = 381, max(found.linear)
        slope = math.log(found.linear[high] / found.linear[low]) / math.log(high / low)
        table.bars.append(Bar(f"growth of the linear time, power of the multipliers from {low} on", slope, 1.1, False))
    table.note("the paper: an SGI Indigo2 with a 250 MHz R4400; its time of rings is that without plus 17 ms")
    table.note("the three contacts are found before; their rows, the complementarity problem and the rest are inside")
    table.note(
        "paper / ours compares two machines 30 years apart: the factors in the second table are the method's own"
    )
    return found


def draw(found: Growth, folder: Path) -> list[tuple[Path, str]]:
    """Draw both times over the number of multipliers."""
    path = folder / "baraff-growth.png"
    with drawing(path, 7.2, 5.0) as figure:
        axes = figure.add_axes((0.12, 0.12, 0.85, 0.79))
        for times, color, label, power in (
            (found.cubic, ACCENT, "all multipliers at once", 3),
            (found.linear, COOL, "linear time (Baraff 1996)", 1),
        ):
            n, t = np.array(list(times)), 1e3 * np.array(list(times.values()))
            axes.loglog(n, t[-1] * (n / n[-1]) ** power, color=PALE, linestyle=(0, (4, 3)), linewidth=1)
            # the two lines meet at the least of the sizes: the steep one is named at the next
            at = n[1 if power == 3 else 0]
            axes.annotate(f" $n^{power}$ ", (at, t[-1] * (at / n[-1]) ** power), color=PALE, va="top", ha="right")
            axes.loglog(n, t, marker="o", color=color, linewidth=1.8, label=label)
        for rows in sorted(PAPER_FACTORS.keys() & found.cubic.keys()):
            low, high = 1e3 * found.linear[rows], 1e3 * found.cubic[rows]
            axes.annotate("", (rows, high), (rows, low), arrowprops={"arrowstyle": "<->", "color": INK, "shrinkB": 4})
            text = f"{high / low:.0f} x\n(paper: {PAPER_FACTORS[rows]:.0f} x)"
            axes.text(1.08 * rows, low**0.4 * high**0.6, text, color=INK, fontsize=9, va="center")
        axes.set(
            title="Accelerations of a binary tree of bodies on balls", xlabel="multipliers", ylabel="one solve [ms]"
        )
        axes.grid(True, alpha=0.25)
        axes.legend(loc="upper left", frameon=False)
    return [(path, "section 9: growth of the time, linear and cubic")]
