"""The benchmark problems A01 to A05 of the IFToMM library in `full` and `multipliers`: distance from known answers."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

import limberjack as lj
from limberjack import errors, scenes
from limberjack_lab.bench.table import Bar, Table, Watch, columns

__all__ = ["A01", "PROBLEMS", "Problem", "fill_mechanisms"]

_COLUMNS = columns(
    "problem: problem; who: by; dt: dt [ms]; substeps: substeps; time: t [s]; error: error [m or rad]; "
    "gap: largest gap [m]; rows: rows; rank: rank; balance: energy|balance [J]"
)


class Problem(NamedTuple):
    """A problem and how it is run."""

    title: str  # what it is
    scene: str  # that has it
    options: dict[str, dict[str, Any]]  # of the scene, per method
    dt: float  # time step [s]
    substeps: int | None  # of the integrator, per step; None takes its default
    error: float  # promised of places and angles at all times [m, rad]
    gap: float  # promised of the loops [m]
    quick: float  # the last time of a quick run [s]
    # the place of the point, or the coordinate, at further times of a whole run [m]
    longer: dict[float, tuple[float, ...]] = {}


# By formulas, or of A04 by steps of a tenth: a test computes them anew.
A01 = {100.0: (-0.18151335142691574, -0.9833884803340789), 2000.0: (0.8146030685885461, -0.580018827837618)}
_A02 = {10.0: (0.18051222668508246, 0.9835727405826137), 20.0: (0.41090115376218633, 0.9116799009723227)}
_A04 = {10.0: (0.9997309873038468, -0.9999999638258172, -0.0002689765122687595)}
_A05 = {10.0: (0.6196229170613784,)}

_SAME: dict[str, dict[str, Any]] = {"full": {}, "multipliers": {}}
_ROW = {"loops": 40}
PROBLEMS = (
    Problem(
        "A01 pendulum", "simple_pendulum", {"full": {}, "multipliers": {"bar": "rod"}}, 1e-3, 4, 1e-9, 1e-10, 1.0, A01,
    ),
    Problem(
        "A02 row of 40 four-bars", "n_four_bar", {"full": _ROW, "multipliers": _ROW}, 1e-3, None, 1e-6, 1e-10, 0.0,
        _A02,
    ),
    Problem("A03 Andrews' squeezer", "andrews_squeezer", _SAME, 1e-5, None, 1e-6, 1e-10, 0.03),
    Problem("A04 Bricard's linkage", "bricard", _SAME, 1e-3, None, 1e-7, 1e-10, 1.0, _A04),
    Problem("A05 stiff governor", "flyball_governor", _SAME, 1e-3, 20, 1e-5, 1e-10, 0.0, _A05),
)  # fmt: skip
# The torque on Andrews' squeezer does all the work: energy less torque times angle stays [J].
_TORQUE, _BALANCE = 0.033, 1e-9


def _references(problem: Problem, quick: bool) -> list[scenes.Reference]:
    """Return what is known of a problem, by time; options that only say how it is modelled do not matter."""
    wanted = problem.options["full"]
    out = [one for one in scenes.REFERENCES if one.scene == problem.scene and one.options == wanted]
    if quick:
        return [one for one in out if one.time <= problem.quick]
    out += [out[0]._replace(time=t, value=value) for t, value in problem.longer.items()]
    return sorted(out, key=lambda one: one.time)


def _gap(sim: lj.Simulation) -> float:
    """Return the largest gap or angle of a joint: of loops as read off the poses, of all rows as the method has it."""
    return max(*sim.joint_error(), sim.stats.get("joint_error", 0.0))


def _fill(table: Table, part: Any, problem: Problem, word: str, quick: bool, watch: Watch) -> list[dict[str, Any]]:
    """Run a problem by a method and add a row for each time that is known."""
    method: Any = {"full": lj.Full, "multipliers": lj.Multipliers}[word](integrator="rk4", substeps=problem.substeps)
    scene = scenes.get(problem.scene, **problem.options[word])
    sim = lj.Simulation(scene.model, method, dt=problem.dt)
    if scene.drive is not None:
        scene.drive(sim)
    driven = problem.scene == "andrews_squeezer"
    before = (sim.energy().total, float(sim.joint("beta").q)) if driven else None
    rows: dict[float, dict[str, Any]] = {}
    for reference in _references(problem, quick):
        t = reference.time
        watch(f"{problem.title}, {word}, t = {t:g} s")
        if t not in rows:
            rows[t] = part.add(problem=problem.title, who=f"{word}, rk4", dt=1e3 * problem.dt, time=t, error=0.0)
        row: dict[str, Any] = rows[t]
        try:
            sim.step(round(t / problem.dt) - sim.steps)
        except (errors.Diverged, errors.LoopNotClosed) as error:
            row["error"] = "lost"
            table.wrong.append(f"{problem.title}, {word}: {error}")
            break
        stats = sim.stats
        row["error"] = max(row["error"], float(np.abs(scenes.measured(sim, reference) - reference.value).max()))
        row["gap"], row["substeps"] = _gap(sim), stats["substeps"]
        loops = ("rows", "rank") if word == "full" else ("auxiliary_rows", "auxiliary_rank")
        row["rows"], row["rank"] = stats.get(loops[0], 0), stats.get(loops[1], 0)
        if before is not None:
            work = _TORQUE * (float(sim.joint("beta").q) - before[1])
            row["balance"] = abs(sim.energy().total - before[0] - work)
    return list(rows.values())


def fill_mechanisms(table: Table, quick: bool, watch: Watch) -> None:
    """Add the errors of all problems in both methods, and whether they are as small as promised."""
    part = table.part("problems of the IFToMM library, accurate mode", *_COLUMNS)
    table.note("rows: of loops, the rest of the tree being solved without them; rank: how many of them are independent")
    table.note("A04 at 10 s is compared with steps of a tenth, the others with what is known or follows from formulas")
    for problem in PROBLEMS:
        rows = [row for word in problem.options for row in _fill(table, part, problem, word, quick, watch)]

        def largest(key: str, rows: list[dict[str, Any]] = rows) -> float | None:
            cells = [row.get(key) for row in rows if row.get(key) is not None]
            lost = any(isinstance(cell, str) for cell in cells)
            return math.inf if lost else max((float(cell) for cell in cells if cell is not None), default=None)

        table.bars.append(Bar(f"{problem.title}: error, both methods", largest("error"), problem.error, False))
        if problem.scene in ("n_four_bar", "bricard", "andrews_squeezer"):
            table.bars.append(Bar(f"{problem.title}: gap of its loops", largest("gap"), problem.gap, False))
        if problem.scene == "andrews_squeezer":
            table.bars.append(Bar(f"{problem.title}: energy balance, J", largest("balance"), _BALANCE, False))
