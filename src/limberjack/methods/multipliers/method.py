"""The running side of `Multipliers`: state in maximal coordinates, advanced by its integrators."""

from __future__ import annotations

from typing import Any

import numpy as np

from limberjack.constraints.bodies import SCALABLE
from limberjack.constraints.maximal import new_maximal
from limberjack.errors import UnsupportedByMethod
from limberjack.maximal.balls import new_balls, take_ball_steps
from limberjack.maximal.meeting import MORE_ROOM
from limberjack.maximal.state import MaximalState
from limberjack.methods.multipliers.options import INTEGRATORS, STABILIZATIONS, Multipliers
from limberjack.methods.multipliers.rattle import take_rattle_steps
from limberjack.methods.multipliers.steps import take_steps
from limberjack.model.model import Model

__all__ = ["MultipliersStepper"]


class MultipliersStepper(MaximalState):
    """Takes the steps of `Multipliers`."""

    def __init__(self, model: Model, options: Multipliers, ignored: frozenset[str]) -> None:
        whole = new_maximal(model, ignored, springs=options.integrator == "implicit")
        if options.integrator == "rattle" and (whole.bodies.kind >= SCALABLE).any():
            raise UnsupportedByMethod('integrator "rattle" moves rigid bodies and particles only; use "rk4"')
        # nothing but ball joints and weights: a step of its own
        plain = options.integrator == "rattle" and options.solver != "tree" and not len(model.springs)
        self._balls = new_balls(whole, model.arrays.links.gravity) if plain else None
        super().__init__(model, whole, solver=options.solver, strict=options.stabilization == "project")
        self._options = options
        self._code = INTEGRATORS.index(options.integrator)
        self._substeps = options.substeps or (2 if options.integrator == "rk4" else 1)

    def advance(self, n: int, dt: float, forces: Any, time: float = 0.0) -> tuple[int, int]:
        """Take up to n steps; see `Stepper`."""
        self._take_edits()
        if not self._closed:
            self.check_loops()
            self._closed = True
        self._time = time
        drives, tau = self._all_drives(forces)
        driven = bool(len(drives.place) or len(drives.ball_place) or tau.any())
        options = self._options
        taken = 0
        while True:
            springs, structures = self._model.arrays.springs, (self._tree, self._structure)
            model = (self._setup, *structures, springs, drives, self._still, self._drive_span)
            clock = (n - taken, self._substeps, dt / self._substeps)
            rest = (options.tolerance, time + taken * dt, forces.wrenches, tau, self._e, self._saddle, self._s)
            if self._balls is not None and not driven:
                balls, structure, work = self._balls
                state = (self._s.pose, self._s.u, work, self._s.report)
                more, status = take_ball_steps(balls, structure, *clock, options.tolerance, forces.wrenches, *state)
                self._s.fresh[0] = 0
            elif options.integrator == "rattle":
                more, status = take_rattle_steps(*model, driven, *clock, *rest)
            else:
                loose = STABILIZATIONS.index(options.stabilization)
                how = (self._code, options.order == "first", loose, driven)
                more, status = take_steps(*model, *how, *clock, options.rate, *rest)
            taken += int(more)
            if status != MORE_ROOM:
                break
            self._room *= 2
            self.new_saddle()
        self._time = time + taken * dt
        self._read = False
        return taken, int(status)

    def _put_state(self, *, check: bool = True) -> None:
        super()._put_state(check=check)
        if self._balls is not None:
            self._balls[2].pushes[:], self._balls[2].known[:] = 0.0, 0

    def memory(self) -> dict[str, np.ndarray]:
        """Return poses, velocities, turns counted and the impulses that balls begin with."""
        if self._balls is None:
            return super().memory()
        return super().memory() | {"pushes": self._balls[2].pushes.copy(), "known": self._balls[2].known.copy()}

    def remember(self, memory: dict[str, np.ndarray]) -> None:
        """Take back what `memory` gave."""
        super().remember(memory)
        if self._balls is not None:
            self._balls[2].pushes[:], self._balls[2].known[:] = memory["pushes"], memory["known"]

    def stats(self) -> dict[str, Any]:
        """Return bodies, rows, auxiliary rows with their rank, and what the last projection did."""
        report = self._saddle.report
        return {
            "bodies": len(self.whole.bodies.kind),
            "rows": int(self.whole.system.row_start[self.whole.held]),
            "auxiliary_rows": int(report[0]),
            "auxiliary_rank": int(report[1]),
            "projection_iterations": int(self._s.report[0]),
            "joint_error": float(self._s.report[1]),
            "substeps": self._substeps,
        }
