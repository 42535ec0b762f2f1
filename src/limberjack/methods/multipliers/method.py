"""The running side of `Multipliers`: state in maximal coordinates, advanced by its integrators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from limberjack.errors import Diverged, LimberjackError, LoopNotClosed, StateError, Status, UnsupportedByMethod
from limberjack.maximal.ball_joint_rattle import momenta_of, new_balls, take_ball_steps
from limberjack.maximal.bodies import PLANAR, RIGID, SCALABLE
from limberjack.maximal.inserted_rows import grip_rows
from limberjack.maximal.rows import new_maximal
from limberjack.maximal.runtime_rows import RuntimeRows
from limberjack.maximal.solve import BY_VELOCITIES, PIECES, STIFFEST, STIFFEST_BODY, evaluate_state
from limberjack.methods.multipliers.options import INTEGRATORS, STABILIZATIONS, Multipliers
from limberjack.methods.multipliers.rattle import take_rattle_steps
from limberjack.methods.multipliers.step import take_steps
from limberjack.methods.stepper import Forces, Stepper
from limberjack.model.model import Model
from limberjack.reduced.constraint_set import Grip
from limberjack.spatial.frames import matrix_from_quaternion

__all__ = ["MultipliersStepper"]


class MultipliersStepper(RuntimeRows, Stepper):
    """Takes the steps of `Multipliers`."""

    def __init__(self, model: Model, options: Multipliers, ignored: frozenset[str]) -> None:
        rotors = "armature" in model.features() and "armature" not in ignored
        if rotors and options.integrator == "rattle":
            raise UnsupportedByMethod('integrator "rattle" knows no rotor inertia (armature); use "rk4"')
        soft = self._soft = self._has_soft_rows(options)
        whole = new_maximal(model, ignored, springs=soft, rotors=rotors, drives=soft)
        if options.integrator == "rattle" and (whole.bodies.kind >= SCALABLE).any():
            raise UnsupportedByMethod('integrator "rattle" moves rigid bodies and particles only; use "rk4"')
        # nothing but ball joints and weights: a step of its own
        plain = options.integrator == "rattle" and options.solver != "tree" and not len(model.springs)
        self._balls = new_balls(whole, model.arrays.links.gravity) if plain else None
        super().__init__(model, whole, solver=options.solver, strict=options.stabilization == "project", soft=soft)
        self._options, self.inertial = options, options.order == "second"
        self._code = INTEGRATORS.index(options.integrator)
        self._substeps = options.substeps or (2 if options.integrator == "rk4" else 1)
        self._dt = 0.0

    @staticmethod
    def _has_soft_rows(options: Multipliers) -> bool:
        """Return whether springs, dampers, motors and soft limits are rows, taken implicitly."""
        return options.integrator in ("semi_implicit", "implicit") and options.order == "second"

    def advance(self, n: int, dt: float, forces: Forces, time: float = 0.0) -> tuple[int, int]:
        """Take up to n steps; see `Stepper`."""
        self._begin(time)
        self._dt = dt
        drives, tau = self._all_drives(forces)
        driven = bool(len(drives.indices) or len(drives.ball_indices) or tau.any())
        options = self._options
        taken, status = 0, 0
        while taken < n or n == 0:
            springs, structures = self._model.arrays.springs, (self._tree, self._structure)
            model = (self._setup, *structures, springs, drives, self._still, self._drive_span)
            clock = (n - taken, self._substeps, dt / self._substeps)
            rest = (options.tolerance, time + taken * dt, forces.wrenches, tau, self._e, self._saddle, self._s)
            if self._balls is not None and not driven and self.whole is self._base:
                balls, structure, work = self._balls
                state = (self._s.pose, self._s.u, work, self._s.report)
                more, status = take_ball_steps(balls, structure, *clock, options.tolerance, forces.wrenches, *state)
                self._s.fresh[0], self._s.report[PIECES] = 0, 1
                if status in (Status.OPEN_LOOP, Status.INFEASIBLE, Status.NOT_CONVERGED):
                    # this step is taken in pieces, which general rows do
                    taken += int(more)
                    self._forget_pushes()
                    clock, rest = (1, *clock[1:]), (rest[0], time + taken * dt, *rest[2:])
                    more, status = take_rattle_steps(*model, driven, *clock, *rest)
            elif options.integrator == "rattle":
                self._forget_pushes()
                more, status = take_rattle_steps(*model, driven, *clock, *rest)
            else:
                loose = STABILIZATIONS.index(options.stabilization)
                how = (self._code, options.order == "first", loose, driven)
                more, status = take_steps(*model, *how, *clock, options.rate, *rest)
            taken += int(more)
            if status == Status.MORE_ROWS:
                self._room *= 2
                self.new_saddle()
            elif status != 0 or n == 0:
                break
        self._time = time + taken * dt
        self._read = False
        return taken, int(status)

    def _begin(self, time: float) -> None:
        """Take what was set from outside before the first of several steps."""
        self._take_edits()
        if not self._closed:
            self.aim_rows(time, 0.0)
            self.check_loops()
            self._closed = True
        self._time = time
        for grip in self._row_grips:
            self._aim(grip)

    def _put_state(self, *, check: bool = True) -> None:
        super()._put_state(check=check)
        self._forget_pushes()

    def _forget_pushes(self) -> None:
        """Let the steps of balls begin anew: the impulses they had are not those to expect."""
        if self._balls is not None:
            self._balls[2].impulses[:], self._balls[2].known[:] = 0.0, 0

    def state_arrays(self) -> dict[str, np.ndarray]:
        """Return poses, velocities, turns counted and the impulses that balls begin with."""
        if self._balls is None:
            return super().state_arrays()
        work = self._balls[2]
        return super().state_arrays() | {
            "pushes": work.impulses.copy(), "known": work.known.copy(), "momenta": momenta_of(work).copy(),
            "faced": work.factor_rotations.copy(), "facing": work.factor_age[:2].copy(),
        }  # fmt: skip

    def set_state_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        """Set what `state_arrays` returned."""
        super().set_state_arrays(arrays)
        if self._balls is not None:
            work = self._balls[2]
            work.impulses[:], work.known[:], momenta_of(work)[:] = arrays["pushes"], arrays["known"], arrays["momenta"]
            work.reported[:], work.factor_rotations[:] = self._s.u, arrays["faced"]
            work.factor_age[:2], work.factor_age[2] = arrays["facing"], 0.0

    def point_position(self, link: int, point: np.ndarray) -> np.ndarray | None:
        """Return where a point of a link's frame is in the world if its body changes size, else None."""
        if self.whole.bodies.kind[link] < SCALABLE:
            return None
        evaluate_state(self._setup, self._time, self._e, self._s)
        return self._position_of(link, point)

    def tune(self, options: Multipliers) -> None:
        """Continue with other options; the integrator, the solver, the order and the coordinates stay."""
        for word in ("integrator", "solver", "order", "coordinates"):
            now = getattr(self._options, word)
            if getattr(options, word) != now:
                raise StateError(f'method "multipliers" cannot change {word} while running; it is "{now}"')
        self._options, self._strict = options, options.stabilization == "project"
        self._options_of_solver["strict"] = self._strict
        self._substeps = options.substeps or (2 if options.integrator == "rk4" else 1)
        self.invalidate()

    # Grips

    def grab(self, grip: Grip) -> Stepper:
        """Add a grip; see `Stepper`."""
        if self.whole.bodies.kind[grip.link] >= SCALABLE:
            raise UnsupportedByMethod("grips act on bodies that keep their size only")
        self._regrip([*self._row_grips, grip])
        return self

    def release(self, grip: Grip) -> Stepper:
        """Remove a grip."""
        self._regrip([one for one in self._row_grips if one is not grip])
        return self

    def reset_grips(self) -> None:
        """Set up the rows of all grips again."""
        self._regrip(list(self._row_grips))

    def _regrip(self, grips: list[Grip]) -> None:
        """Make table and solver anew for other grips, the state kept."""
        self._take_edits()
        self._row_grips = grips
        self._change(list(self._attached))

    def _frame(self, grip: Grip) -> np.ndarray:
        row = grip_rows(self._without_grips, self._row_grips, grip)
        return self.whole.table.pair_frame[self.whole.table.row_pair[row, 0]]

    def _error(self, grip: Grip) -> tuple[np.ndarray, np.ndarray]:
        """Return how far the point of a grip is from where it is drawn to, and its velocity."""
        kind, o, link = self.whole.bodies.kind[grip.link], int(self.whole.bodies.start[grip.link]), grip.link
        pose, u = self._s.pose[link], self._s.u
        lever = matrix_from_quaternion(pose[3:7]) @ (grip.point - self.whole.center[link])
        if kind == RIGID:
            velocity = u[o + 3 : o + 6] + np.cross(u[o : o + 3], lever)
        else:
            turn = u[o + 2] if kind == PLANAR else 0.0
            plain = np.array((u[o], u[o + 1], 0.0 if kind == PLANAR else u[o + 2]))
            velocity = plain + np.cross((0.0, 0.0, turn), lever)
        return pose[:3] + lever - grip.target, velocity

    def _aim(self, grip: Grip) -> None:
        """Draw the grip where it is wanted, or as far as its largest force allows."""
        frame, most = self._frame(grip), grip.most / grip.stiffness
        error = self._error(grip)[0]
        frame[:9] = (np.eye(3) if grip.rotation is None else grip.rotation).ravel()
        frame[9:12] = grip.target + error - np.clip(error, -most, most)

    def move_grip(self, grip: Grip) -> None:
        """Take the target of a grip, which has changed."""
        self._aim(grip)
        self.invalidate()

    def held_grips(self) -> Sequence[Grip]:
        """Return the grips."""
        return self._row_grips

    def grip_force(self, grip: Grip) -> np.ndarray:
        """Return the force (3,) a grip pulls with now, world axes."""
        error, velocity = self._error(grip)
        return np.clip(-grip.stiffness * error - grip.damping * velocity, -grip.most, grip.most)

    def explain(self, status: int, where: str) -> tuple[type[LimberjackError], str, str] | None:
        """Return (error, joint, message) of a failure: what was tried, and what stands against it."""
        report, kind = self._s.report, Status.of(status)[0]
        if kind not in (Status.OPEN_LOOP, Status.NOT_CONVERGED):
            return self._explain_pivot(where) if status == Status.INFEASIBLE else super().explain(status, where)
        gap, name = float(report[1]), self._joint_name(int(report[2]))
        tried = f"in {int(report[PIECES])} pieces too" if report[PIECES] > 1 else "by velocities alone too"
        text = f'joint "{name}": gap {gap:.3g} m > 1e-8 m, {tried}, at {where}'
        loop_rows, rank = int(self._saddle.report[0]), int(self._saddle.report[1])
        frequency = float(np.sqrt(report[STIFFEST]))
        if frequency * self._dt > 1.0:
            body = self._body_name(int(report[STIFFEST_BODY]))
            reason = f'the forces of its joints give body "{body}" a frequency of {frequency:.3g} rad/s; it needs more '
            reason += f"mass, its neighbours less, or dt < {2.0 / frequency:.2g} s"
        elif self._tree is not None and rank < loop_rows:
            reason = f"{rank} of {loop_rows} rows of loops are independent in this pose: another start, or a loop less"
        else:
            turning = self._body_speeds()
            link = int(np.argmax(turning))
            reason = f'body "{self._body_name(link)}" turns fastest, at {turning[link]:.3g} rad/s'
            reason += "; look at the forces on it, or try a smaller dt"
        return LoopNotClosed, name, f"{text}; {reason}"

    def _explain_pivot(self, where: str) -> tuple[type[LimberjackError], str, str]:
        """Return (error, joint, message) where a factorisation or the inequality rows have no solution."""
        node, name = int(self._s.report[3]) - 1, ""
        text = f"no forces of the constraints fit together at {where}"
        if node < 0:
            return Diverged, name, f"{text}: limits, loops or contacts that act at once contradict each other"
        if self._tree is not None and not self._tree.is_constraint[node]:
            body = self._body_name(int(self._tree.item[node]))
            return Diverged, name, f'{text}: body "{body}" has no inertia left beside those of its neighbours'
        item = int(self._tree.item[node]) if self._tree is not None else node
        name = self.whole.names[item] if item < len(self.whole.names) else ""
        return Diverged, name, f'{text}: the rows of joint "{name}" depend on each other'

    def _body_name(self, link: int) -> str:
        return self._model.body_names[int(np.flatnonzero(self._model.arrays.body_link == link)[0])]

    def _body_speeds(self) -> np.ndarray:
        """Return (n,) angular speeds of the bodies."""
        bodies, u = self.whole.bodies, self._s.u
        out = np.zeros(len(bodies.kind))
        solid, flat = np.flatnonzero(bodies.kind == RIGID), np.flatnonzero(bodies.kind == PLANAR)
        out[solid] = np.sqrt((u[bodies.start[solid][:, None] + np.arange(3)] ** 2).sum(axis=1))
        out[flat] = np.abs(u[bodies.start[flat] + 2])
        return out

    def stats(self) -> dict[str, Any]:
        """Return bodies, rows, auxiliary rows with their rank, what the last projection did and how the step was taken.

        "pieces" is how many parts the last step was divided into, "by_velocities" whether it was taken by velocities
        alone, see `pieces.py`.
        """
        report = self._saddle.report
        return {
            "bodies": len(self.whole.bodies.kind),
            "rows": int(self.whole.system.row_start[self.whole.equality_count]),
            "auxiliary_rows": int(report[0]),
            "auxiliary_rank": int(report[1]),
            "projection_iterations": int(self._s.report[0]),
            "joint_error": float(self._s.report[1]),
            "substeps": self._substeps,
            "pieces": int(self._s.report[PIECES]),
            "by_velocities": bool(self._s.report[BY_VELOCITIES]),
        }
