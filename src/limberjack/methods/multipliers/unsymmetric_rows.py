"""Steps of `Multipliers` where forces of constraints act along other directions than their rows.

    rows -> factor -> solve primary -> anticipate auxiliary, their matrix not symmetric -> integrate -> project

Forces K^T mu satisfy rows J a + c = 0: friction of a sliding point, a motor that pushes aside. All rows outside
the forest are solved over it together (`linear/unsymmetric.py`), those with K = J among them. Positions and
velocities are projected in the metric of the mass, without friction.

Baraff 1996, section 8: "non-workless" forces.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from limberjack.constraints.rows import AXES_A, AXES_B, GAP, LEVER_A, LEVER_B, RATE, TURN_A, TURN_B
from limberjack.errors import StateError, Status, UnsupportedByMethod
from limberjack.linear.elimination import new_work, order_of, split
from limberjack.linear.tree import factor
from limberjack.linear.unsymmetric import solve_unsymmetric
from limberjack.maximal.bodies import PARTICLE, PLANAR, SCALABLE
from limberjack.maximal.scalable_bodies import may_be_primary
from limberjack.methods.multipliers.alternatives import AlternativeStepper
from limberjack.methods.multipliers.options import Multipliers
from limberjack.methods.stepper import Forces
from limberjack.model.model import Model
from limberjack.model.registered import CONSTRAINT_KINDS, RegisteredConstraint, unsymmetric_joints

__all__ = ["UnsymmetricStepper"]

_ACCELERATION = 2
_LEFT = 1e-6


class UnsymmetricStepper(AlternativeStepper):
    """Takes the steps of `Multipliers` for models with constraints that have forces of their own."""

    # forces along other directions follow from those at the start of the step
    _halfway = False

    def __init__(self, model: Model, options: Multipliers, ignored: frozenset[str]) -> None:
        self._unsymmetric, self._time_of_rows = unsymmetric_joints(model.spec), 0.0
        name = self._unsymmetric[0].name
        if options.integrator not in ("semi_implicit", "euler") or options.order == "first":
            raise StateError(
                f'constraint "{name}" has forces of its own, which integrators "semi_implicit" and "euler" of second '
                f'order take, not "{options.integrator}" of order "{options.order}"'
            )
        if options.solver not in ("auto", "tree"):
            raise StateError(
                f'constraint "{name}" has forces of its own, which solver "{options.solver}" does not support'
            )
        super().__init__(model, replace(options, solver="dense"), ignored)
        whole = self.whole
        if self._count > self._equality_rows:
            raise UnsupportedByMethod(
                f'joint "{self._joint_name(self._equality_rows)}" has limits, and constraint "{name}" forces of its '
                'own: together they may have no solution; to run without: ignore="limits"'
            )
        index = {word: k for k, word in enumerate(whole.names[: whole.equality_count])}
        self._constraint_of = {joint.name: index[joint.name] for joint in self._unsymmetric}
        free = np.arange(len(whole.names)) < whole.equality_count
        free[list(self._constraint_of.values())] = False
        parts = split(whole.system, free & may_be_primary(whole))
        self._forest = order_of(whole.system, parts)
        self._factor = new_work(self._forest)
        start = whole.system.row_start
        auxiliary = parts.auxiliary[parts.auxiliary < whole.equality_count]
        rows = [np.arange(int(start[c]), int(start[c + 1])) for c in auxiliary.tolist()]
        self._auxiliary = np.concatenate(rows).astype(np.int64) if rows else np.zeros(0, np.int64)
        for joint in self._unsymmetric:
            self._require_solids(joint)

    def _require_solids(self, joint: RegisteredConstraint) -> None:
        for link in self._links_of(joint):
            if link >= 0 and self.whole.bodies.kind[link] >= SCALABLE:
                raise UnsupportedByMethod(
                    f'constraint "{joint.name}" has forces of its own, which act on rigid and planar bodies and '
                    "particles only"
                )

    def _pair_of(self, joint: RegisteredConstraint) -> int:
        row = self.whole.system.row_start[self._constraint_of[joint.name]]
        return int(self.whole.table.row_pair[row, 0])

    def _links_of(self, joint: RegisteredConstraint) -> tuple[int, int]:
        a, b = self.whole.table.pair_link[self._pair_of(joint)]
        return int(a), int(b)

    def _set(self, mode: int, h: float, forces: Forces, time: float) -> None:
        self._time_of_rows = time
        super()._set(mode, h, forces, time)

    def _solve(self, mode: int, active_tolerance: float) -> tuple[np.ndarray, int]:
        """Return accelerations, changes of velocity or displacements (nu,), and a status."""
        if mode != _ACCELERATION:
            return super()._solve(mode, active_tolerance)
        system, e = self.whole.system, self._e
        if factor(system, self._forest, e.m, e.j, self._compliance, self._factor) != 0:
            return self._f, Status.INFEASIBLE
        rows = np.zeros((self._count, len(self._f)))
        rows[self._row, self._in_u] = e.j[self._in_j]
        along = rows.copy()
        for joint in self._unsymmetric:
            first = int(system.row_start[self._constraint_of[joint.name]])
            for k, wrench in enumerate(self._wrenches(joint)):
                along[first + k] = self._force(joint, wrench)
        mine = self._auxiliary
        found = solve_unsymmetric(
            system, self._forest, self._factor, self._f, self._rhs, rows[mine], self._rhs[mine], along[mine]
        )
        self._lam[:] = found.lam[: self._count]
        self._lam[mine] = found.mu
        self._rank = found.rank
        # dependent rows leave rounding; a larger residual means that no forces along these directions satisfy the rows
        solved = np.isfinite(found.a).all() and found.residual <= _LEFT * (
            1.0 + np.abs(self._rhs[mine]).max(initial=0.0)
        )
        return found.a, 0 if solved else Status.INFEASIBLE

    def _wrenches(self, joint: RegisteredConstraint) -> np.ndarray:
        """Return (rows, 6) torques and forces on the child along which each row of a constraint acts, in world axes."""
        kind, s = CONSTRAINT_KINDS[joint.kind], self._e.state[self._pair_of(joint)]
        axes, other = s[AXES_A : AXES_A + 9].reshape(3, 3), s[AXES_B : AXES_B + 9].reshape(3, 3)
        gap, turn = s[GAP : GAP + 3], s[TURN_A : TURN_A + 3]
        velocity = axes @ (s[RATE : RATE + 3] - np.cross(turn, gap))
        turning = axes @ (s[TURN_B : TURN_B + 3] - turn)
        assert kind.forces is not None
        given = kind.forces(axes @ gap, axes @ other.T, velocity, turning, self._time_of_rows, np.array(joint.data))
        wrenches = np.asarray(given, float)
        if kind.rows == 1 and wrenches.shape == (6,):
            wrenches = wrenches[None]
        if wrenches.shape != (kind.rows, 6) or not np.isfinite(wrenches).all():
            raise StateError(
                f'forces of constraint "{joint.name}" must be {kind.rows} times six finite numbers, got {given!r}'
            )
        return np.hstack([wrenches[:, :3] @ axes, wrenches[:, 3:] @ axes])

    def _force(self, joint: RegisteredConstraint, wrench: np.ndarray) -> np.ndarray:
        """Return (nu,) what a torque and force on the child and their opposite on the parent are on all velocities."""
        s, out = self._e.state[self._pair_of(joint)], np.zeros(len(self._f))
        torque, force = wrench[:3], wrench[3:]
        a, b = self._links_of(joint)
        self._add(b, torque + np.cross(s[LEVER_B : LEVER_B + 3], force), force, out)
        lever = s[LEVER_A : LEVER_A + 3] + s[GAP : GAP + 3]
        self._add(a, -torque - np.cross(lever, force), -force, out)
        return out

    def _add(self, link: int, torque: np.ndarray, force: np.ndarray, out: np.ndarray) -> None:
        if link < 0:
            return
        o, kind = int(self.whole.bodies.start[link]), int(self.whole.bodies.kind[link])
        if kind == PLANAR:
            out[o : o + 3] += force[0], force[1], torque[2]
        elif kind == PARTICLE:
            out[o : o + 3] += force
        else:
            out[o : o + 6] += np.concatenate([torque, force])
