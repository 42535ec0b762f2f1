"""Section 9: the time to compute the multipliers of the paper's systems, and what elimination of all at once takes."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import limberjack as lj
from limberjack import scenes
from limberjack_lab.bench.clock import race
from limberjack_lab.bench.maximal import DENSE, EULER, PAPER_FACTORS, accelerations, elimination, step_of
from limberjack_lab.bench.table import Table, Watch, difference, ratio
from limberjack_lab.papers.pictures import ACCENT, COOL, INK, PALE, plot

__all__ = ["SYSTEMS", "TITLE", "Growth", "System", "draw", "fill"]

TITLE = "the multipliers of the systems of section 9, and how the time grows with their number"
# Bodies of the trees whose times are drawn; the cube is followed up to a few seconds of work.
_SIZES, _CUBED = (15, 33, 63, 127, 255, 511, 1023, 4095), 300
_QUICK_SIZES = (7, 15, 33)


class System(NamedTuple):
    """A system of the paper."""

    title: str  # what it is
    model: Callable[[], lj.Model]  # makes it
    primary: int  # its multipliers
    auxiliary: int  # those of loops and contacts
    ms: float  # the paper's time, on a 250 MHz R4400 [ms]


class Growth(NamedTuple):
    """Times [s] by multipliers: of the linear method, and of all at once as far as it was followed."""

    linear: dict[int, float]
    cubic: dict[int, float]


SYSTEMS = (
    System("plane, 54 pins", scenes.baraff_planar, 108, 0, 7.75),
    System("plane, 54 pins, six rings", lambda: scenes.baraff_planar(rings=True), 96, 12, 24.75),
    System("space, 32 balls, 3 feet on the ground", scenes.baraff_contacts, 96, 3, 18.0),
    System("space, 127 balls", lambda: scenes.baraff_tree(stir=1.0), 381, 0, 44.6),
)


def _systems(table: Table, seconds: float, watch: Watch) -> None:
    part = table.part(
        "one solve and step: rows, factor, solve, auxiliary rows, explicit Euler",
        "title: system; primary: multipliers,|primary; auxiliary: auxiliary; paper: the paper|(1996) [ms]; "
        "step: ours,|one step [us]; gain: paper /|ours [x]; error: accelerations: ours|and another way [rel]",
    )
    for system in SYSTEMS:
        watch(system.title, 1)
        model = system.model()
        sim = lj.Simulation(model, EULER, dt=1e-4)
        sim.step()
        loops, contacts = sim.stats["auxiliary_rows"], sim.stats.get("contacts", 0)
        primary, auxiliary = sim.stats["rows"] - loops, loops + contacts
        if (primary, auxiliary) != (system.primary, system.auxiliary):
            table.wrong.append(f"{system.title}: {primary} + {auxiliary} multipliers")
        row: dict[str, Any] = part.add(title=system.title, primary=primary, auxiliary=auxiliary, paper=system.ms)
        # one matrix knows no contacts; at rest those of method full are the same
        other = lj.Full(integrator="euler") if contacts else DENSE
        row["error"] = difference(accelerations(model), accelerations(model, other))
        best = race([step_of("step", model, EULER)], seconds=seconds)["step"].cpu
        row["step"] = table.trust(system.title, row["error"], 1e6 * best)
        row["gain"] = ratio(1e3 * system.ms, row["step"])


def fill(table: Table, quick: bool, watch: Watch) -> Growth:
    """Measure the systems; see `FIGURES`."""
    sizes, seconds = (_QUICK_SIZES, 0.02) if quick else (_SIZES, 1.0)
    watch.begin(len(SYSTEMS) + len(sizes))
    _systems(table, 2 * seconds, watch)
    rows = elimination(table, sizes, _CUBED, seconds, watch)
    found = Growth(*({row["rows"]: 1e-6 * row[key] for row in rows if row.get(key)} for key in ("step", "dense")))
    for count, factor in PAPER_FACTORS.items():
        gain = ratio(found.cubic.get(count), found.linear.get(count))
        table.bar(f"all at once / linear, {count} multipliers", gain, factor)
    low, high = min(381, *found.linear), max(found.linear)
    slope = math.log(found.linear[high] / found.linear[low]) / math.log(high / low)
    table.bar(f"growth of the linear time, power of the multipliers from {low} on", slope, 1.1, False)
    table.note("the paper: an SGI Indigo2 with a 250 MHz R4400; its time of rings is that without plus 17 ms")
    table.note("contacts: detection, their rows, the complementarity problem and the rest are inside")
    table.note(
        "paper / ours compares two machines 30 years apart: the factors in the second table are the method's own"
    )
    return found


def draw(found: Growth, folder: Path) -> list[tuple[Path, str]]:
    """Draw both times over the number of multipliers."""
    path = folder / "baraff-growth.png"
    labels = {"title": "Accelerations of a binary tree of bodies on balls", "ylabel": "one solve [ms]"}
    with plot(path, 7.2, 5.0, (0.12, 0.12, 0.85, 0.79), xlabel="multipliers", **labels) as axes:
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
        axes.legend(loc="upper left")
    return [(path, "section 9: growth of the time, linear and cubic")]
