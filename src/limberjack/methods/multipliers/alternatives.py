"""Steps of `Multipliers` by other solvers of the same rows: conjugate residuals, or all rows in one dense matrix.

    rows -> forces -> solve -> integrate -> project

They serve for comparison, and for systems that suit them: the tree and the sparse factorisation are nearly always
faster. The dense matrix A = J M^-1 J^T + C of all rows is factored with rank detection, or solved as a complementarity
problem where inequality rows are active: O(n^3). A solve is a compiled call.

Reference: Baraff 1996, section 5, equation (7).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from limberjack._jit import kernel
from limberjack.constraints.runtime import RuntimeJoint
from limberjack.constraints.system import new_system
from limberjack.constraints.table import SPRING
from limberjack.errors import StateError, Status, UnsupportedByMethod
from limberjack.linear.dense import TOLERANCE, factor_psd, solve_psd
from limberjack.linear.krylov import CAPPED, FAILED, new_krylov, solve_krylov
from limberjack.linear.lcp import Workspace, new_workspace, solve_lcp
from limberjack.linear.saddle import first_constraints, invert_masses
from limberjack.maximal.bodies import PARTICLE, PLANAR, RIGID, SCALABLE, move_bodies
from limberjack.maximal.forces import forces as set_forces
from limberjack.maximal.rows import diagonal_of, evaluate, indices_of
from limberjack.maximal.solve import ACTIVE_TOLERANCE, GAP_ALLOWED, MAX_ITERATIONS, MIDWAY, PROJECT, set_rhs
from limberjack.methods.multipliers.method import MultipliersStepper
from limberjack.methods.multipliers.options import STABILIZATIONS, Multipliers
from limberjack.methods.stepper import Forces
from limberjack.model.model import Model
from limberjack.spatial.copies import HUGE

__all__ = ["AllRows", "AlternativeStepper", "new_all_rows", "solve_all_rows"]
_POSITION, _VELOCITY, _ACCELERATION = 0, 1, 2
_SMALL = 1e-14


class AllRows(NamedTuple):
    """Work arrays for n rows on nu velocities."""

    matrix: np.ndarray  # (n, n)
    factor: np.ndarray  # (n, n)
    order: np.ndarray  # (n,)
    residual: np.ndarray  # (n,)
    response: np.ndarray  # (nu,)
    guess: np.ndarray  # (n,) int8
    high: np.ndarray  # (n,)
    lcp: Workspace


def new_all_rows(n: int, nu: int) -> AllRows:
    """Return work arrays for n rows on nu velocities."""
    return AllRows(
        np.zeros((n, n)), np.zeros((n, n)), np.zeros(n, np.int64), np.zeros(n), np.zeros(nu), np.zeros(n, np.int8),
        np.full(n, np.inf), new_workspace(n),
    )  # fmt: skip


@kernel
def solve_all_rows(
    # in
    rows, start, in_j, in_u, first, dimension, mass_row, inverse, j, compliance, rhs, low,
    # work
    work,
    # out
    force,
):  # fmt: skip
    """Fill the forces of the listed rows with A f + side = 0, or complementary above `low`; return rank and status.

    Args:
        rows: (n,) the rows listed.
        start: (r + 1,) where the numbers of each row begin in the next two.
        in_j, in_u: their indices in J and in velocities.
        first, dimension: (nu,) of each velocity, the first velocity of its body and how many there are.
        mass_row: (nu,) of each velocity, the index of its row in the flat inverse masses.
        inverse: flat inverse mass blocks.
        j: flat J.
        compliance: (r,) compliance.
        rhs: (n,) right sides of the listed rows.
        low: (n,) lower bounds, -inf for equality rows.
        work: work arrays.
        force: (n,) the solution.
    """
    n, matrix, response, bounded = len(rows), work.matrix, work.response, False
    for i in range(n):
        r = rows[i]
        for k in range(len(response)):
            response[k] = 0.0
        for t in range(start[r], start[r + 1]):
            u = in_u[t]
            for c in range(dimension[u]):
                response[first[u] + c] += inverse[mass_row[u] + c] * j[in_j[t]]
        for k in range(i + 1):
            total = 0.0
            for t in range(start[rows[k]], start[rows[k] + 1]):
                total += j[in_j[t]] * response[in_u[t]]
            matrix[i, k] = total
            matrix[k, i] = total
        matrix[i, i] += compliance[r]
        bounded = bounded or low[i] > -np.inf
        work.guess[i] = 0
    if bounded:
        return n, solve_lcp(n, TOLERANCE, matrix, rhs, low, work.high, work.lcp, work.guess, force, work.residual)
    for i in range(n):
        for k in range(i + 1):
            work.factor[i, k] = matrix[i, k]
    rank = factor_psd(n, TOLERANCE, work.factor, work.order, work.residual)
    for i in range(n):
        work.residual[i] = -rhs[i]
    solve_psd(n, rank, work.factor, work.order, work.residual, force)
    return rank, 0


@kernel
def _evaluate_system(
    # model
    setup, springs, drives, armature, span,
    # in
    driven, mode, h, stabilization, rate, time, wrenches, applied, e, s,
    # out
    inverse, f, rhs, compliance,
):  # fmt: skip
    """Evaluate rows, inverse masses, right sides, and in mode 2 forces, at the current state."""
    start, counts = setup.system.row_start, setup.constraints
    rows = start[counts[2]] if driven else start[counts[1]]
    evaluate(setup.bodies, setup.system, setup.table, setup.row_block, setup.scalable_pairs, time, rows, s.pose, s.u, e)
    for k in range(len(f)):
        f[k] = 0.0
    if mode == 2:
        set_forces(setup, springs, drives, armature, span, driven, False, wrenches, applied, s.pose, e, s, f)
    set_rhs(setup.table, start[counts[1]], mode, h, stabilization, rate, e.values, s.last_force, rhs, compliance)
    invert_masses(setup.system.body_start, setup.system.mass_start, e.m, inverse)


@kernel
def _move(
    # model
    bodies,
    # in
    h, u,
    # out
    pose,
):  # fmt: skip
    """Move the bodies by h u."""
    move_bodies(bodies, h, u, pose)


class AlternativeStepper(MultipliersStepper):
    """Takes the steps of `Multipliers` with `solver="krylov"` or `"dense"`."""

    # whether forces of constraints are those of the mean over a step; see `step.py`
    _halfway = True

    @staticmethod
    def _has_soft_rows(options: Multipliers) -> bool:
        return False

    def __init__(self, model: Model, options: Multipliers, ignored: frozenset[str]) -> None:
        if options.integrator not in ("semi_implicit", "euler") or options.order == "first":
            raise StateError(
                f'solver "{options.solver}" takes steps of "semi_implicit" and "euler" of second order; for others use '
                'solver "tree" or "sparse"'
            )
        super().__init__(model, options, ignored)
        self._halfway = self._halfway and options.integrator == "semi_implicit"
        whole, counts = self.whole, self._setup.constraints
        system, nu = whole.system, int(whole.system.body_start[-1])
        if options.solver == "krylov" and counts[1] > counts[0]:
            raise UnsupportedByMethod(
                f'solver "krylov" takes no inequality rows, as of "{whole.names[counts[0]]}"; use solver "tree", '
                '"sparse" or "dense"'
            )
        row, in_j, in_u = indices_of(system, np.arange(counts[1]))
        order = np.argsort(row, kind="stable")
        self._row, self._in_j, self._in_u = row[order], in_j[order], in_u[order]
        self._count = int(system.row_start[counts[1]])
        self._starts = np.searchsorted(self._row, np.arange(self._count + 1)).astype(np.int64)
        dims = np.diff(system.body_start)
        self._dim = np.repeat(dims, dims).astype(np.int64)
        self._first = np.repeat(system.body_start[:-1], dims).astype(np.int64)
        self._inverse_row = diagonal_of(system) - (np.arange(nu) - self._first)
        self._inverse = np.zeros(int(system.mass_start[-1]))
        self._f, self._rhs, self._compliance = (
            np.zeros(nu),
            np.zeros(len(whole.table.joint)),
            np.zeros(len(whole.table.joint)),
        )
        self._equality_rows = int(system.row_start[whole.equality_count])
        self._own = first_constraints(system, whole.equality_count)
        self._krylov = None
        if options.solver == "krylov":
            self._make_solids()
        self._all = new_all_rows(self._count, nu) if options.solver == "dense" else None
        self._lam, self._found = np.zeros(self._count), np.zeros(3)
        self._rank = 0

    def _make_solids(self) -> None:
        """Make the system of solids of six displacements that conjugate residuals work on."""
        own, kinds = self._own, self.whole.bodies.kind
        if (kinds >= SCALABLE).any():
            raise UnsupportedByMethod('solver "krylov" moves no bodies that change their size; use "tree" or "dense"')
        columns = {RIGID: np.arange(6), PLANAR: np.array((3, 4, 2)), PARTICLE: np.array((3, 4, 5))}
        counts, incidences, columns_of, first = np.diff(own.row_start), [], [], 0
        for c in range(len(counts)):
            mine = own.incidence_body[own.incidence_start[c] : own.incidence_start[c + 1]].tolist()
            incidences.append(mine)
            for b in mine:
                rows = first + 6 * np.arange(counts[c])[:, None]
                columns_of.append((rows + columns[int(kinds[b])]).ravel())
                first += 6 * int(counts[c])
        self._solids = new_system(np.full(len(kinds), 6), counts, incidences)
        self._in_wide = np.concatenate(columns_of) if columns_of else np.zeros(0, np.int64)
        self._krylov = new_krylov(self._solids)
        self._wide, self._mobility = np.zeros(int(self._solids.block_start[-1])), np.zeros((len(kinds), 7))

    def _set_mobility(self) -> None:
        """Fill the inverse masses of the solids from the blocks of the bodies."""
        start, kinds, out = self.whole.system.mass_start[:-1], self.whole.bodies.kind, self._mobility
        solid, flat, point = (np.flatnonzero(kinds == kind) for kind in (RIGID, PLANAR, PARTICLE))
        out[solid] = self._inverse[start[solid][:, None] + np.array((0, 7, 14, 1, 2, 8, 21))]
        out[flat, 2], out[flat, 6] = self._inverse[start[flat] + 8], self._inverse[start[flat]]
        out[point, 6] = self._inverse[start[point]]

    def advance(self, n: int, dt: float, forces: Forces, time: float = 0.0) -> tuple[int, int]:
        """Take up to n steps; see `Stepper`."""
        self._take_edits()
        if not self._closed:
            self.check_loops()
            self._closed = True
        h, s = dt / self._substeps, self._s
        for step in range(n):
            before = s.pose.copy(), s.u.copy(), self._e.near.copy()
            for sub in range(self._substeps):
                status = self._one(h, forces, time + step * dt + sub * h)
                if status == 0 and not (np.abs(s.u) < HUGE).all():
                    status = Status.NOT_FINITE + int(np.flatnonzero(~(np.abs(s.u) < HUGE))[0])
                if status != 0:
                    s.pose[:], s.u[:], self._e.near[:] = before
                    return step, status
            self._time, self._read = time + (step + 1) * dt, False
        return n, 0

    def _set(self, mode: int, h: float, forces: Forces, time: float) -> None:
        drives, tau = self._all_drives(forces)
        stabilization = STABILIZATIONS.index(self._options.stabilization) if mode == _ACCELERATION else PROJECT
        if mode == _ACCELERATION and stabilization == PROJECT and self._halfway:
            stabilization = MIDWAY
        _evaluate_system(
            self._setup, self._model.arrays.springs, drives, self._still, self._drive_span, True, mode, h,
            stabilization, self._options.rate, time, forces.wrenches, tau, self._e, self._s, self._inverse, self._f,
            self._rhs, self._compliance,
        )  # fmt: skip

    def _times_inverse(self, f: np.ndarray) -> np.ndarray:
        """Return M^-1 f."""
        out = np.zeros_like(f)
        for c in range(int(self._dim.max(initial=0))):
            on = c < self._dim
            out[on] += self._inverse[self._inverse_row[on] + c] * f[self._first[on] + c]
        return out

    def _listed(self, mode: int, active_tolerance: float) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows that act and the lower bounds of their forces."""
        last_force, value = self._s.last_force, self._e.values[:, 0]
        inequalities = np.arange(self._equality_rows, self._count)
        still_active = (last_force[inequalities] > 0.0) | ((mode == _POSITION) & (last_force[inequalities] < 0.0))
        rows = inequalities[(value[inequalities] <= active_tolerance) | still_active]
        free = (last_force[rows] > 0.0) & (mode == _POSITION)
        if mode == _POSITION:
            last_force[rows[last_force[rows] == 0.0]] = -1.0
        low = np.concatenate([np.full(self._equality_rows, -np.inf), np.where(free, -np.inf, 0.0)])
        return np.concatenate([np.arange(self._equality_rows), rows]).astype(np.int64), low

    def _solve(self, mode: int, active_tolerance: float) -> tuple[np.ndarray, int]:
        """Return accelerations, changes of velocity or displacements (nu,), and a status."""
        rows, low = self._listed(mode, active_tolerance)
        moved, j, lam = self._times_inverse(self._f), self._e.j, self._lam
        rates = np.bincount(self._row, j[self._in_j] * moved[self._in_u], minlength=self._count)
        rhs = np.ascontiguousarray((rates + self._rhs[: self._count])[rows])
        lam[:] = 0.0
        if self._all is not None:
            force = np.zeros(len(rows))
            self._rank, status = solve_all_rows(
                rows, self._starts, self._in_j, self._in_u, self._first, self._dim, self._inverse_row, self._inverse,
                j, self._compliance, rhs, low, self._all, force,
            )  # fmt: skip
            lam[rows] = force
            failed = status != 0
        else:
            cap, equality_lam = 100 + 20 * self._equality_rows, np.zeros(self._equality_rows)
            compliance = self._compliance[: self._equality_rows].copy()
            self._set_mobility()
            self._wide[self._in_wide] = j[: len(self._in_wide)]
            status = solve_krylov(
                self._solids, self._mobility, self._wide, compliance, -rhs, self._s.pose, cap, _SMALL, self._krylov,
                equality_lam, self._found,
            )  # fmt: skip
            lam[: self._equality_rows] = equality_lam
            failed = status in (FAILED, CAPPED)
        constraint_force = np.bincount(self._in_u, j[self._in_j] * lam[self._row], minlength=len(moved))
        return moved + self._times_inverse(constraint_force), Status.INFEASIBLE if failed else 0

    def _one(self, h: float, forces: Forces, time: float) -> int:
        """Take one step of h; return a status."""
        s = self._s
        s.last_force[:] = 0.0
        self._set(_ACCELERATION, h, forces, time)
        a, status = self._solve(_ACCELERATION, ACTIVE_TOLERANCE)
        if status != 0:
            return status
        s.last_force[self._equality_rows : self._count] = self._lam[self._equality_rows :]
        if self._options.integrator == "euler":
            _move(self.whole.bodies, h, s.u, s.pose)
            s.u[:] += h * a
        else:
            s.u[:] += h * a
            _move(self.whole.bodies, h, s.u, s.pose)
        return self._project(forces, time + h) if self._options.stabilization == "project" else 0

    def _worst(self) -> tuple[float, int]:
        """Return the largest position error of the constraint rows, and the row."""
        table, value = self.whole.table, self._e.values[: self._count, 0]
        bilateral = (np.arange(self._count) < self._equality_rows) | (self._s.last_force[: self._count] > 0.0)
        size = np.where(bilateral, np.abs(value), -value)
        size[(table.speed[: self._count] == 1) | (table.role[: self._count] == SPRING)] = 0.0
        at = int(np.argmax(size)) if self._count else -1
        return (max(float(size[at]), 0.0), at) if self._count else (0.0, -1)

    def _project(self, forces: Forces, time: float) -> int:
        """Bring poses and velocities onto the constraints; return a status."""
        s, last, worst = self._s, np.inf, 0.0
        for iteration in range(MAX_ITERATIONS):
            self._set(_POSITION, 0.0, forces, time)
            worst, at = self._worst()
            s.report[0], s.report[1], s.report[2] = iteration, worst, at
            if worst <= self._options.tolerance or (worst < GAP_ALLOWED and worst > 0.5 * last) or not worst < 1e100:
                break
            last = worst
            a, status = self._solve(_POSITION, max(ACTIVE_TOLERANCE, 10.0 * worst))
            if status != 0:
                return Status.OPEN_LOOP
            _move(self.whole.bodies, 1.0, a, s.pose)
        if not worst <= GAP_ALLOWED:
            return Status.OPEN_LOOP
        self._set(_VELOCITY, 0.0, forces, time)
        a, status = self._solve(_VELOCITY, ACTIVE_TOLERANCE)
        if status == 0:
            s.u[:] += a
        return status

    def _change(self, attached: list[RuntimeJoint]) -> None:
        """Refuse: the indices of rows are known from the start here."""
        raise UnsupportedByMethod(
            f'solver "{self._options.solver}" of method "multipliers" knows no grips, attached joints or prescribed '
            "motion"
        )

    def stats(self) -> dict[str, Any]:
        """Return what the last step did: iterations or rank of its last solve, and the projection."""
        own = {"iterations": int(self._found[0])} if self._all is None else {"rank": int(self._rank)}
        return super().stats() | own
