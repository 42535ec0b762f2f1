"""The paper's middle ground: reduced coordinates in and out, multipliers inside (Baraff 1996, section 1).

    q, qd -> poses, velocities -> rows -> factor -> solve -> qdd = J a + c of the rows along the coordinates -> q, qd

q and qd are the state, so that joints cannot open and nothing is projected; accelerations are those of the linear-time
factorisation of the joints' multipliers. A stage is a compiled call.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from limberjack._jit import kernel
from limberjack.errors import LimberjackError, StateError, Status, UnsupportedByMethod
from limberjack.maximal.rows import indices_of
from limberjack.maximal.solve import NO_STABILIZATION
from limberjack.methods.capabilities import VERBS
from limberjack.methods.multipliers.method import MultipliersStepper
from limberjack.methods.multipliers.options import INTEGRATORS, Multipliers
from limberjack.methods.multipliers.step import EULER, RK4, take_steps
from limberjack.methods.stepper import Forces, Stepper
from limberjack.model.arrays import whole_span
from limberjack.model.model import Model
from limberjack.reduced.integrate import add_stage, begin_stages, end_stages, explicit_step
from limberjack.reduced.step import new_buffers
from limberjack.spatial.copies import HUGE

__all__ = ["ReducedStepper"]

_FOREIGN = ("loops", "limits", "gears", "velocity", "contacts", "bodies")
_OFFERED = ("semi_implicit", "euler", "rk4")


@kernel
def _begin(
    # in
    span, q, qd,
    # out
    b,
):  # fmt: skip
    """Begin a step."""
    begin_stages(span, q, qd, b)


@kernel
def _take_stage(
    # model
    links,
    # in
    span, code, stage, h, b,
    # out
    q, qd,
):  # fmt: skip
    """Take a stage, with b.qdd at it, and the step itself at the last one; return how far ahead the next stage is."""
    if code != RK4:
        explicit_step(links, span, code == EULER, h, b.qdd, q, qd)
        return 0.0
    ahead = add_stage(links, span, stage, h, q, qd, b)
    if stage == 3:
        end_stages(links, span, h, b, q, qd)
    return ahead


class ReducedStepper(Stepper):
    """Takes the steps of `Multipliers(coordinates="reduced")` on trees."""

    def __init__(self, model: Model, options: Multipliers, ignored: frozenset[str]) -> None:
        found = model.features()
        for word in _FOREIGN:
            if word in found and word not in ignored:
                raise UnsupportedByMethod(
                    f'coordinates="reduced" of method "multipliers" moves trees alone, and model "{model.name}" has '
                    f'{word}: {found[word]}; use coordinates="maximal", or ignore="{word}"'
                )
        if options.integrator not in _OFFERED:
            raise StateError(
                f'integrator "{options.integrator}" does not work on reduced coordinates; choose {", ".join(_OFFERED)}'
            )
        if options.order == "first":
            raise StateError('order "first" works on bodies; use coordinates="maximal"')
        plain = replace(options, coordinates="maximal", integrator="euler", stabilization="none", substeps=1)
        self._inner = MultipliersStepper(model, plain, ignored)
        self._model, self._options, self._links = model, options, model.arrays.links
        self._span = whole_span(model.arrays.links, model.arrays.drives)
        self._substeps = options.substeps or (2 if options.integrator == "rk4" else 1)
        self.q, self.qd = model.q0.copy(), model.qd0.copy()
        self._buffers = new_buffers(model.nq, model.nv)
        whole = self._inner.whole
        counts = self._inner._setup.constraints
        self._block_indices = indices_of(whole.system, np.arange(counts[1], counts[2]))
        first = int(whole.system.row_start[counts[1]])
        self._rows = np.arange(first, int(whole.system.row_start[counts[2]]))
        drive = whole.table.drive[self._rows, 1].copy()
        # the three rows of a ball stand for three velocities, and give the first index of each
        self._velocity = drive
        self._failed_inside = False  # whether the last failure is one of bodies, not of q and qd

    def accelerations(self, q: np.ndarray, qd: np.ndarray, forces: Forces, time: float) -> tuple[np.ndarray, int]:
        """Return qdd (nv,) at a state, and a status."""
        inner = self._inner
        inner._q[:], inner._qd[:] = q, qd
        inner._put_state(check=False)
        drives, tau = inner._all_drives(forces)
        model = (inner._setup, inner._tree, inner._structure, self._model.arrays.springs, drives)
        how = (inner._still, inner._drive_span, EULER, False, NO_STABILIZATION, True, 1, 1, 1.0, 1.0, 1.0, time)
        _, status = take_steps(*model, *how, forces.wrenches, tau, inner._e, inner._saddle, inner._s)
        self._failed_inside = status != 0
        return self._read(inner._saddle.a, inner._e), int(status)

    def _read(self, a: np.ndarray, e: Any) -> np.ndarray:
        """Return qdd from the accelerations of the bodies."""
        out = np.zeros(self._model.nv)
        row, in_j, in_u = self._block_indices
        seen = np.bincount(row, e.j[in_j] * a[in_u], minlength=len(self._rows))
        out[self._velocity] = seen + e.values[self._rows, 2]
        start = self._inner.whole.bodies.start
        for link, _, v, kind in self._inner._free:
            if kind != "free":
                continue
            ends, o = e.ends[link], int(start[link])
            turn, turning = ends[:9].reshape(3, 3), ends[12:15]
            lever = turn @ self._inner.whole.center[link]
            swing = np.cross(a[o : o + 3], lever) + np.cross(turning, np.cross(turning, lever))
            out[v : v + 3] = a[o + 3 : o + 6] - swing
            out[v + 3 : v + 6] = turn.T @ a[o : o + 3]
        return out

    def advance(self, n: int, dt: float, forces: Forces, time: float = 0.0) -> tuple[int, int]:
        """Take up to n steps; see `Stepper`."""
        h = dt / self._substeps
        for step in range(n):
            before = self.q.copy(), self.qd.copy()
            for sub in range(self._substeps):
                status = self._one(h, forces, time + step * dt + sub * h)
                if status == 0 and not (np.abs(self.qd) < HUGE).all():
                    status = Status.NOT_FINITE + int(np.flatnonzero(~(np.abs(self.qd) < HUGE))[0])
                if status != 0:
                    self.q[:], self.qd[:] = before
                    return step, status
        return n, 0

    def _one(self, h: float, forces: Forces, time: float) -> int:
        """Take one step of h; return a status."""
        b, code, at = self._buffers, INTEGRATORS.index(self._options.integrator), time
        _begin(self._span, self.q, self.qd, b)
        for stage in range(4 if code == RK4 else 1):
            b.qdd[:], status = self.accelerations(b.q_stage, b.qd_stage, forces, at)
            if status != 0:
                return status
            at = time + _take_stage(self._links, self._span, code, stage, h, b, self.q, self.qd)
        return 0

    def explain(self, status: int, where: str) -> tuple[type[LimberjackError], str, str] | None:
        """Return (error, joint, message) of a failure of the rows, else None."""
        return self._inner.explain(status, where) if self._failed_inside else None

    def stats(self) -> dict[str, Any]:
        """Return bodies, rows, evaluations of the forces per step and substeps."""
        stages = 4 if self._options.integrator == "rk4" else 1
        rows = int(self._inner.whole.system.row_start[self._inner.whole.equality_count])
        bodies = len(self._inner.whole.bodies.kind)
        return {"bodies": bodies, "rows": rows, "evaluations": stages * self._substeps, "substeps": self._substeps}

    def _refusal(self, verb: str) -> UnsupportedByMethod:
        what = f'coordinates="reduced" of method "multipliers" cannot {VERBS[verb]} ("{verb}")'
        return UnsupportedByMethod(f'{what}; use coordinates="maximal"')
