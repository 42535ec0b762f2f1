"""The running side of `Multipliers`: state in maximal coordinates, advanced by its integrators."""

from __future__ import annotations

from typing import Any

from limberjack.constraints.bodies import SCALABLE
from limberjack.constraints.maximal import new_maximal
from limberjack.errors import UnsupportedByMethod
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
            if options.integrator == "rattle":
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
