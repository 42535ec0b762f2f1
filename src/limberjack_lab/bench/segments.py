"""Segments of a motion that are timed again and again, and what happened on them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import limberjack as lj
from limberjack_lab.bench.clock import Contender, until_long

__all__ = ["PERIOD", "Segment", "adaptive", "motion_error", "resident_bytes", "warmed"]

# Steps between two choices of the joints that are simulated: the paper's.
PERIOD = 20
# A run without updates: no sample is this long.
_NEVER = 10**6


class Segment:
    """A simulation timed over one segment of its motion, of whole update periods.

    Args:
        sim: the simulation, at the state the segment begins with.
        least: least number of steps; a call from Python costs as much as some steps of a small region.
        again: whether each sample goes back to the start; without, the motion must not diverge however long it runs.
    """

    def __init__(self, sim: lj.Simulation, *, least: int = 1000, again: bool = True) -> None:
        self.sim, self._again = sim, again
        self._start = sim.snapshot() if again else None
        self.steps = -(-until_long(sim.step, least) // PERIOD) * PERIOD
        self.restart()

    def restart(self) -> None:
        """Go back to the start and take one step, which renews what a restored state lacks."""
        if self._start is not None:
            self.sim.restore(self._start)
            self.sim.step()

    def contender(self, key: str) -> Contender:
        """Return what to time: the steps of the segment."""
        return Contender(key, lambda: self.sim.step(self.steps), units=self.steps, prepare=self.restart)

    def changes(self) -> float:
        """Return the joints that entered or left the region per update, over one segment."""
        self.restart()
        before = self.sim.stats
        self.sim.step(self.steps)
        after = self.sim.stats
        return (after["changes"] - before["changes"]) / max(1, after["updates"] - before["updates"])

    def finite(self) -> bool:
        """Return whether the state is made of finite numbers."""
        return bool(np.isfinite(self.sim.q).all() and np.isfinite(self.sim.qd).all())

    def ordinary(self) -> Segment:
        """Return the segment of the steps between updates: the same region, never chosen again."""
        sim = lj.Simulation(self.sim.model, self.sim.method, dt=self.sim.dt)
        self.restart()
        sim.restore(self.sim.snapshot())
        sim.tune(update_every=_NEVER)
        sim.step()
        return Segment(sim, least=self.steps, again=self._again)


def adaptive(model: lj.Model, budget: int, dt: float, warm: int, push: tuple[str, Any] | None = None) -> lj.Simulation:
    """Return a simulation of `budget` joints after `warm` steps; `push` is a body and the force on it [N]."""
    return warmed(model, lj.Adaptive(budget=budget, update_every=PERIOD), dt, warm, push)


def warmed(model: lj.Model, method: Any, dt: float, warm: int, push: tuple[str, Any] | None = None) -> lj.Simulation:
    """Return a simulation by any method after `warm` steps."""
    sim = lj.Simulation(model, method, dt=dt)
    if push is not None:
        sim.apply_wrench(push[0], force=push[1])
    sim.step(warm)
    return sim


def motion_error(sim: lj.Simulation, reference: np.ndarray, size: float) -> float:
    """Return the mean distance of the bodies from where they are in `reference` (body_count, 3), per `size` [m]."""
    return float(np.linalg.norm(sim.positions - reference, axis=1).mean() / size)


def resident_bytes() -> int | None:
    """Return the memory this process holds now, where the system tells."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return None
    import resource

    return pages * resource.getpagesize()
