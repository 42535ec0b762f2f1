"""The budget of method adaptive in joints, percent or milliseconds, and what it costs: error against time per step."""

from __future__ import annotations

import math
from dataclasses import replace

from limberjack.crowd.frame_budget import FrameBudget
from limberjack.methods import Adaptive
from limberjack.model.model import Model
from limberjack.model.spec import WORLD
from limberjack.simulation.simulation import Simulation
from limberjack.viewer.carry_over import under_method
from limberjack.viewer.history import error_in

__all__ = ["UNITS", "Budget", "Tradeoff", "budget_of", "joints_of", "label_of", "variant"]

UNITS = ("joints", "percent", "milliseconds")
# Real time between two budgets that follow the clock [s].
_PERIOD = 0.1
_COLORS = ("#d1495b", "#26547c", "#3c8d5a", "#b5803a", "#8e5ea2", "#4a9c9c")


def joints_of(model: Model) -> int:
    """Return how many joints a budget counts: those that move, without free joints to the world."""
    specs = (model.joint_spec(name) for name in model.joint_names if model.joint(name).nv > 0)
    return sum(not (joint.kind == "free" and joint.parent == WORLD) for joint in specs)


def budget_of(sim: Simulation) -> int:
    """Return the joints that a simulation has time for: the sum over figures; all where nothing limits it."""
    budget = getattr(sim.method, "budget", None)
    if budget is None:
        return joints_of(sim.model)
    return min(joints_of(sim.model), int(sum(budget)) if isinstance(budget, tuple) else int(budget))


class Budget:
    """Sets the budget of a running simulation, at once or so that steps take a given time."""

    def __init__(self) -> None:
        self._clock: FrameBudget | None = None
        self._since = 0.0

    def set(self, sim: Simulation, unit: str, value: float) -> None:
        """Set the budget: so many joints, percent of them, or milliseconds per step."""
        joints = joints_of(sim.model)
        self._clock = None
        if unit == "milliseconds":
            self._clock = FrameBudget(max(value, 1e-4), joints)
            self._clock.budget = max(1, budget_of(sim))
            return
        sim.tune(budget=round(value if unit == "joints" else joints * value / 100.0))

    def follow(self, sim: Simulation, step_seconds: float, passed: float) -> None:
        """Change the budget where steps took longer or shorter than asked for; called between batches."""
        self._since += passed
        if self._clock is None or self._since < _PERIOD or not step_seconds or sim.method.name != "adaptive":
            return
        self._since = 0.0
        before = self._clock.budget
        if self._clock.next(step_seconds) != before:
            sim.tune(budget=self._clock.budget)


class Tradeoff:
    """What was measured at each budget: time per step and error; drawn as points."""

    def __init__(self) -> None:
        self._points: dict[int, tuple[float, float]] = {}
        self._unit = "m"

    def clear(self) -> None:
        """Forget everything."""
        self._points.clear()

    def add(self, budget: int, numbers: dict[str, float]) -> None:
        """Add what was measured with a budget, smoothed over time."""
        cost, found = numbers.get("time per step [ms]", 0.0), error_in(numbers)
        if found is None or not cost > 0.0 or not math.isfinite(found[1]):
            return
        unit, error = found
        if unit != self._unit:
            self._points, self._unit = {}, unit
        old = self._points.get(budget, (cost, error))
        self._points[budget] = (old[0] + 0.2 * (cost - old[0]), old[1] + 0.2 * (error - old[1]))

    def svg(self, now: list[int]) -> str:
        """Return the plot: time per step to the right, error upwards; the budgets that run now stand out.

        Args:
            now: their budgets.
        """
        width, height, left, low = 290, 150, 44, 26
        if not self._points:
            return '<div style="font-size:12px;opacity:.7">error against cost: plotted as soon as it runs</div>'
        most = _round_up(max(cost for cost, _ in self._points.values()))
        worst = _round_up(max(1e-6, *(error for _, error in self._points.values())))
        parts = [f'<svg viewBox="0 0 {width} {height}" style="width:100%;font:10px sans-serif" fill="#56636e">']
        for k in range(3):
            x, y = left + k / 2 * (width - left - 8), (height - low) * (1 - k / 2) + 6 * (k == 2)
            parts.append(f'<line x1="{left}" x2="{width - 8}" y1="{y}" y2="{y}" stroke="#dde3e8"/>')
            parts.append(f'<text x="{left - 4}" y="{y + 3}" text-anchor="end">{worst * k / 2:.3g}</text>')
            parts.append(f'<text x="{x}" y="{height - 13}" text-anchor="middle">{most * k / 2:.2g}</text>')
        parts.append(f'<text x="{width / 2}" y="{height - 2}" text-anchor="middle">time per step [ms]</text>')
        turned = f'x="9" y="{height / 2 - 8}" transform="rotate(-90 9 {height / 2 - 8})"'
        parts.append(f'<text {turned} text-anchor="middle">error [{self._unit}]</text>')
        order = {budget: k for k, budget in enumerate(now)}
        for budget, (cost, error) in sorted(self._points.items(), key=lambda item: item[0] in order):
            x = left + cost / most * (width - left - 8)
            y = (height - low) * (1.0 - error / worst) + 6 * (error / worst)
            if budget in order:
                color = _COLORS[order[budget] % len(_COLORS)]
                parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="{color}"/>')
                parts.append(f'<text x="{x:.1f}" y="{y - 8:.1f}" text-anchor="middle" fill="{color}">{budget}</text>')
            else:
                parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="#9fb0bd"/>')
        return "".join(parts) + "</svg>"


def _round_up(value: float) -> float:
    """Return the least of 1, 2, 5, 10, 20, 50 ... that is not below a value, for the end of an axis."""
    unit = 10.0 ** math.floor(math.log10(value))
    return next(k * unit for k in (1.0, 2.0, 5.0, 10.0) if k * unit >= value * (1.0 - 1e-9))


def label_of(sim: Simulation) -> str:
    """Return the budget of a simulation, or the name of its method, as a label."""
    return f"budget {budget_of(sim)}" if sim.method.name == "adaptive" else str(sim.method.name)


def variant(sim: Simulation, word: str) -> Simulation:
    """Return a simulation in the same state with another budget (a whole number) or method (a name)."""
    if not word.isdigit():
        return under_method(sim, word, lenient=True)
    base = sim.method if isinstance(sim.method, Adaptive) else Adaptive()
    other = under_method(sim, replace(base, budget=int(word)), lenient=True)
    other.tune(budget=int(word))  # the state that was carried over has the budget of before
    return other
