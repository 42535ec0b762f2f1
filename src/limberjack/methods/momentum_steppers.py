"""The steppers of `Full` with the variational or the projected step: trees, trees with rows, trees with contacts.

The momenta of the links are the state beside q. qd is derived from them when it is read, and they from qd after q or qd
was set (`reduced/variational.py`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from limberjack._bound import Bound
from limberjack._jit import entry
from limberjack.errors import StateError, Status
from limberjack.methods.acceleration_steppers import (
    ContactRowStepper,
    ImpulseStepper,
    RowStepper,
    groups_of,
)
from limberjack.methods.row_verbs import WithoutRows
from limberjack.methods.stepper import Forces
from limberjack.model.arrays import SPAN
from limberjack.model.model import Model
from limberjack.reduced.bound_steps import (
    ContactArguments,
    Kept,
    Motion,
    RowArguments,
    TreeArguments,
    contact_steps,
    new_motion,
    row_steps,
    row_velocities,
    tree_steps,
    tree_velocities,
)
from limberjack.reduced.constraint_set import ConstraintSet
from limberjack.reduced.contact_set import ContactSet
from limberjack.reduced.forces import Wrenches, new_spring_work, no_wrenches
from limberjack.reduced.variational import (
    COUNTS,
    ITERATIONS,
    Carried,
    lag_of,
    new_carried,
    new_variational_work,
)
from limberjack.reduced.variational_rows import RowSet
from limberjack.reduced.work import new_work

__all__ = [
    "INTEGRATORS",
    "CarriedStepper",
    "VariationalContactStepper",
    "VariationalRowStepper",
    "VariationalStepper",
    "spring_rates",
    "stiff_springs",
]

INTEGRATORS = ("variational", "projected")
# Springs between bodies are implicit where dt^2 times stiffness and response, or dt times damping and response, is
# larger than this.
STIFF = (0.2, 1.0)


def spring_rates(model: Model) -> np.ndarray:
    """Return (s, 2) stiffness [1/s^2] and damping [1/s] of springs, times the largest response of their free links."""
    links, springs = model.arrays.links, model.arrays.springs
    response = np.zeros(len(springs.link))
    for end in range(2):
        for j in np.flatnonzero(springs.link[:, end] >= 0):
            xx, yy, zz, xy, xz, yz, *moment, mass = links.inertia[springs.link[j, end]]
            if mass <= 0.0:
                response[j] = np.inf
                continue
            com = np.array(moment) / mass
            about = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
            about -= mass * (com @ com * np.eye(3) - np.outer(com, com))
            lever = np.cross(np.eye(3), springs.point[j, 3 * end : 3 * end + 3] - com)
            turned = lever.T @ np.linalg.pinv(about, hermitian=True) @ lever
            response[j] += 1.0 / mass + float(np.linalg.eigvalsh(turned)[2])
    return springs.data[:, :2] * response[:, None]


def stiff_springs(rates: np.ndarray, dt: float) -> bool:
    """Return whether springs of these rates are implicit in steps of dt."""
    return bool((rates * (dt * dt, dt) > STIFF).any())


def _carry_forces(last: Motion, new: Motion) -> None:
    """Write the forces of the last call from one set of arguments to another."""
    new.acted[:], new.acted_drives.scalar[:] = last.acted, last.acted_drives.scalar
    new.acted_drives.ball[:] = last.acted_drives.ball


class CarriedStepper(ImpulseStepper):
    """A stepper whose state is q and the momenta of the links; velocities are derived when they are read."""

    def __init__(self, model: Model, integrator: str, ignored: frozenset[str]) -> None:
        self._model, self._ignored, self._integrator = model, ignored, integrator
        self._iterations, self._threads = 0 if integrator == "projected" else ITERATIONS, 1
        self.q, self._qd = model.q0.copy(), model.qd0.copy()
        self._spring_rates = spring_rates(model)
        self._carried: Carried = new_carried(model.arrays.links, 0)
        self._counts, self._counter = np.zeros(COUNTS, np.int64), np.zeros(1, np.int64)
        self._bound: Bound | None = None  # arguments of calls, while they are those of `_forces`
        self._forces: Forces | None = None  # that the arguments are for
        self._acted: Wrenches = no_wrenches()  # in the last call
        self._dt, self._stiff = 0.0, False
        # whether _qd is the velocity at q, as 1 or 0, and the time: written by the call, which may be interrupted
        self._current, self._time = np.ones(1, np.int64), np.zeros(1)
        self._known = self.q.copy(), self._qd.copy()

    in_one_call = True

    @abstractmethod
    def _bind(self, forces: Forces) -> Bound:
        """Return the arguments of calls."""

    @abstractmethod
    def _take(self, wrenches: Wrenches, n: int, dt: float, time: float, keep: bool) -> tuple[int, int]:
        """Take n steps with the arguments bound; return the steps taken and a status.

        After a failure the state is that before the call with `keep`, else whatever it is.
        """

    @abstractmethod
    def _derive(self) -> None:
        """Fill _qd with the velocities at q."""

    @property
    def qd(self) -> np.ndarray:  # pyright: ignore[reportIncompatibleVariableOverride]
        """(nv,) velocities at q."""
        if not self._current[0] and self._forces is not None:
            self._ready(self._forces, self._dt)
            self._derive()
            self._known[1][:], self._current[0] = self._qd, 1
        return self._qd

    def _motion(self, forces: Forces, blocks: np.ndarray, span: np.ndarray, work: Any) -> Motion:
        a = self._model.arrays
        return new_motion(
            a.links, forces.drives, a.springs, forces.tau, blocks, span, work, self._carried, self.q, self._qd,
            self._known[0], self._counts, self._counter, self._current, self._time,
        )  # fmt: skip

    def _ready(self, forces: Forces, dt: float, last: Bound | None = None) -> None:
        """Bind the arguments of calls, unless they are; `last` has the forces of the last call."""
        known, bound = self._forces, self._bound
        if bound is None or known is None or known.tau is not forces.tau or known.drives is not forces.drives:
            last = last or bound
            bound = self._bound = self._bind(forces)
            if last is not None:
                _carry_forces(last.arguments.motion, bound.arguments.motion)
            self._forces = forces
        if dt != self._dt:
            self._dt, self._stiff = dt, stiff_springs(self._spring_rates, dt)

    def advance(self, n: int, dt: float, forces: Forces, time: float = 0.0) -> tuple[int, int]:
        """Take up to n steps; see `Stepper`."""
        self._ready(forces, dt)
        found = self.advance_in_one_call(n, dt, forces, time)
        if found is not None:
            return found
        start, wrenches = (self.q.copy(), self.state_arrays()), forces.wrenches
        self._counts[:] = 0
        taken, status = self._take(wrenches, n, dt, time, False)
        while status in (Status.MORE_ROWS, Status.MORE_CONTACTS):
            last = self._bound
            self._return_to(start)
            self._make_room(status)
            self._ready(forces, dt, last)
            taken, status = self._take(wrenches, n, dt, time, False)
        if taken < n:
            # Blocks may be at different steps, or in the middle of one.
            self._return_to(start)
            self._ready(forces, dt)
            self._take(wrenches, taken, dt, time, False)
        if n > 0:
            self._note_wrenches(wrenches)
        return taken, status

    def advance_in_one_call(self, n: int, dt: float, forces: Forces, time: float) -> tuple[int, int] | None:
        """Take n steps by one compiled call; None where one of them fails, and nothing has changed then."""
        known = self._forces
        if (
            dt != self._dt or n <= 0 or self._bound is None or known is None
            or forces.tau is not known.tau or forces.drives is not known.drives
        ):  # fmt: skip
            return None
        wrenches = forces.wrenches
        taken, status = self._take(wrenches, n, dt, time, True)
        if status:
            return None
        self._note_wrenches(wrenches)
        return taken, 0

    def _note_wrenches(self, wrenches: Wrenches) -> None:
        if len(wrenches.link):
            self._acted = Wrenches(wrenches.link.copy(), wrenches.data.copy())
        elif len(self._acted.link):
            self._acted = no_wrenches()

    def steps_counted(self) -> int:
        """Return the number of steps that compiled calls have taken; see `Stepper`."""
        return self._counter[0]

    def _make_room(self, status: int) -> None:
        """Grow what a status says is too small."""

    def _return_to(self, start: tuple[np.ndarray, dict[str, np.ndarray]]) -> None:
        self.q[:] = start[0]
        self._set_own(start[1])

    def tune(self, options: Any) -> None:
        """Continue with the other of the two integrators; see `Stepper`."""
        if options.integrator not in INTEGRATORS:
            raise StateError(
                f'method "full" cannot change integrator "{self._integrator}" into "{options.integrator}" while '
                f"running; it can into {' or '.join(INTEGRATORS)}"
            )
        if options.threads != self._threads:
            raise StateError(f'method "full" cannot change threads while running; they are {self._threads}')
        self._integrator, self._iterations = options.integrator, 0 if options.integrator == "projected" else ITERATIONS

    def carried_velocities(self) -> np.ndarray:
        """Return the velocities of the last half step; see `Stepper`."""
        return self._carried.history[0]

    def invalidate(self) -> None:
        """Start from (q, qd) where they were set; a force that was set changes nothing carried."""
        moved = not np.array_equal(self.q, self._known[0])
        if moved and not self._current[0]:
            # qd is still that of the pose before it was set
            now = self.q.copy()
            self.q[:] = self._known[0]
            self.qd  # noqa: B018 - reading derives it
            self.q[:] = now
        if moved or (self._current[0] and not np.array_equal(self._qd, self._known[1])):
            self._carried.clock[:] = 0.0
            self._current[0] = 1
            self._known[0][:], self._known[1][:] = self.q, self._qd

    def joint_forces_changed(self, first: int, last: int) -> None:
        """Do nothing: forces that were set change nothing that is carried."""

    def state_arrays(self) -> dict[str, np.ndarray]:
        """Return the momenta of the links, the last half-step velocities and their times."""
        return {f"carried_{name}": array.copy() for name, array in self._carried._asdict().items()}

    def set_state_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        """Set what `state_arrays` returned, at the q and qd that were set."""
        self._set_own(arrays)
        self._known[0][:], self._known[1][:] = self.q, self._qd
        self._current[0] = 1

    def _set_own(self, arrays: dict[str, np.ndarray]) -> None:
        for name, array in self._carried._asdict().items():
            array[:] = arrays[f"carried_{name}"]

    def take_over(self, other: CarriedStepper) -> None:
        """Go on from the state of another stepper of the same model, from its velocities."""
        self._integrator, self._iterations = other._integrator, other._iterations
        self.q[:], self._qd[:] = other.q, other.qd
        self._carried.clock[:] = 0.0
        self._known[0][:], self._known[1][:] = self.q, self._qd
        self._current[0] = 1

    def stats(self) -> dict[str, Any]:
        """Return the links visited, and substeps, iterations, halvings and projections of the last call."""
        words = ("substeps", "evaluations", "halved", "projected")
        nodes = len(self._model.arrays.links.parent)
        return {"nodes": nodes} | dict(zip(words, map(int, self._counts), strict=True))


class VariationalStepper(WithoutRows, CarriedStepper):
    """Steps trees without rows, on several threads."""

    def __init__(self, model: Model, integrator: str, threads: int, ignored: frozenset[str] = frozenset()) -> None:
        super().__init__(model, integrator, ignored)
        self._threads, links = threads, model.arrays.links
        groups = groups_of(model, threads)
        clocks = np.cumsum([0, *(len(group.blocks) for group in groups)])
        self._carried = new_carried(links, int(clocks[-1]))
        self._parts = [
            (group, new_variational_work(links, group.work, group.pull),
             self._carried._replace(clock=self._carried.clock[first:last]), np.zeros(COUNTS, np.int64))
            for group, first, last in zip(groups, clocks[:-1], clocks[1:], strict=True)
        ]  # fmt: skip
        self._bounds: list[Bound] = []
        self._call: Any = tree_steps
        self._pool = ThreadPoolExecutor(len(self._parts) - 1) if len(self._parts) > 1 else None

    def _bind(self, forces: Forces) -> Bound:
        motions: list[Motion] = []
        for group, work, carried, counts in self._parts:
            motion = self._motion(forces, group.blocks, group.span, work)
            if self._pool is not None:
                # parts share the forces of the last call; what is known of all is noted when all have ended
                first = (motions or [motion])[0]
                motion = motion._replace(
                    carried=carried, counts=counts, springs=group.springs, acted_drives=first.acted_drives,
                    acted=first.acted, q_known=self.q.copy(), taken=np.zeros(1, np.int64),
                )  # fmt: skip
            motions.append(motion)
        self._bounds = [Bound(TreeArguments(motion)) for motion in motions]
        return self._bounds[0]

    def _derive(self) -> None:
        for bound in self._bounds:
            tree_velocities(bound, self._acted)

    def advance_in_one_call(self, n: int, dt: float, forces: Forces, time: float) -> tuple[int, int] | None:
        """Take n steps by one compiled call on one thread; see `CarriedStepper`."""
        return super().advance_in_one_call(n, dt, forces, time) if self._pool is None else None

    def _take(self, wrenches: Wrenches, n: int, dt: float, time: float, keep: bool) -> tuple[int, int]:
        if self._pool is None:
            found = self._call(self._bounds[0], wrenches, self._stiff, self._iterations, n, dt, time, keep)
            if self._call is tree_steps:
                self._call = entry(tree_steps)
            return found
        for part in self._parts:
            part[3][:] = 0
        tasks = [(bound, wrenches, self._stiff, self._iterations, n, dt, time, keep) for bound in self._bounds]
        others = [self._pool.submit(tree_steps, *task) for task in tasks[1:]]
        taken, status = min([tree_steps(*tasks[0]), *(other.result() for other in others)])
        self._counts[:] = sum(part[3] for part in self._parts)
        self._known[0][:] = self.q
        self._counter[0] += taken
        return taken, status

    def _with_rows(self) -> VariationalRowStepper:
        """Return a stepper with rows, in the same state, until the last is gone."""
        constraint_set = ConstraintSet(self._model, self._ignored, implicit=True)
        stepper = VariationalRowStepper(self._model, self._integrator, constraint_set, self._ignored, without=self)
        stepper.take_over(self)
        return stepper

    def stats(self) -> dict[str, Any]:
        """Return what `CarriedStepper` does, and the threads."""
        return super().stats() | {"threads": len(self._parts)}


class VariationalRowStepper(RowStepper, CarriedStepper):
    """Steps trees with loops, limits, gears, velocity constraints or grips.

    Args:
        model: the model.
        integrator: "variational" or "projected".
        constraint_set: its rows.
        ignored: features left out.
        without: the stepper that goes on when the last row that comes and goes is gone.
    """

    def __init__(
        self,
        model: Model,
        integrator: str,
        constraint_set: ConstraintSet,
        ignored: frozenset[str],
        without: VariationalStepper | None = None,
    ) -> None:
        super().__init__(model, integrator, ignored)
        self.constraint_set, self._without = constraint_set, without
        self._threads = 1 if without is None else without._threads
        self._velocity_arguments: tuple[Bound, Bound]
        self._derived: Any = row_velocities
        self._call: Any = row_steps
        self._build()

    def _build(self) -> None:
        """Make what depends on the rows; the motion goes on from the velocities at q."""
        a, blocks = self._model.arrays, self.constraint_set.spans
        self._carried, self._bound = new_carried(a.links, len(blocks)), None
        self._span = blocks[0].copy() if len(blocks) else np.zeros(SPAN, np.int64)
        self._work = new_variational_work(a.links, self._new_work(blocks), new_spring_work(a.links, a.springs), True)

    def _new_work(self, blocks: np.ndarray) -> Any:
        return new_work(self._model.arrays.links, blocks)

    def _rows(self) -> RowSet:
        c = self.constraint_set
        return RowSet(c.table, c.own, c.constraint)

    def _kept(self) -> Kept:
        c = self.constraint_set
        return Kept(
            c.constraint.near.copy(), c.own.tau.copy(), c.constraint.state.copy(), c.constraint.multipliers.copy()
        )

    def _bind(self, forces: Forces) -> Bound:
        motion, rows = self._motion(forces, self.constraint_set.spans, self._span, self._work), self._rows()
        self._velocity_arguments = Bound(motion), Bound(rows)
        return self._bind_steps(motion, rows)

    def _bind_steps(self, motion: Motion, rows: RowSet) -> Bound:
        return Bound(RowArguments(motion, rows, self._kept()))

    def _take(self, wrenches: Wrenches, n: int, dt: float, time: float, keep: bool) -> tuple[int, int]:
        found = self._call(self._bound, wrenches, self._stiff, self._iterations, n, dt, time, keep)
        if self._call is row_steps:
            self._call = entry(row_steps)
        return found

    def _make_room(self, status: int) -> None:
        self._bound = None
        if status == Status.MORE_ROWS:
            self.constraint_set.grow()

    def _derive(self) -> None:
        while self._velocities() == Status.MORE_ROWS:
            last, self._bound = self._bound, None
            self.constraint_set.grow()
            assert last is not None and self._forces is not None
            self._ready(self._forces, self._dt, last)

    def _velocities(self, whole: bool = False) -> int:
        if self._derived is row_velocities and row_velocities.overloads:
            self._derived = entry(row_velocities)
        return self._derived(*self._velocity_arguments, self._stiff, self._acted, float(self._time[0]), whole)

    def state_arrays(self) -> dict[str, np.ndarray]:
        """Return what is carried and the state of the rows."""
        return super().state_arrays() | self._row_arrays()

    def _row_arrays(self) -> dict[str, np.ndarray]:
        return super()._row_arrays() | {"multipliers": self.constraint_set.constraint.multipliers.copy()}

    def _set_own(self, arrays: dict[str, np.ndarray]) -> None:
        super()._set_own(arrays)
        self._set_row_arrays(arrays)

    def _set_row_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        super()._set_row_arrays(arrays)
        self.constraint_set.constraint.multipliers[:] = arrays["multipliers"]

    def stats(self) -> dict[str, Any]:
        """Return what `CarriedStepper` does, and what the rows did in the last step."""
        return super().stats() | self._row_stats()

    def _rebuild(self, change: Callable[[], Any]) -> Any:
        """Change the rows; see `RowStepper`. The motion goes on from the velocities at q."""
        qd = self.qd.copy()
        found = super()._rebuild(change)
        self._qd[:], self._current[0] = qd, 1
        self._known[0][:], self._known[1][:] = self.q, qd
        return found


class VariationalContactStepper(ContactRowStepper, VariationalRowStepper):
    """Steps trees with contacts or dry friction in joints."""

    def __init__(self, model: Model, integrator: str, constraint_set: ConstraintSet, ignored: frozenset[str]) -> None:
        self._contact_set = ContactSet(model, ignored)
        super().__init__(model, integrator, constraint_set, ignored)
        self._call = contact_steps

    def _new_work(self, blocks: np.ndarray) -> Any:
        return self._contact_set.state.work

    def _bind_steps(self, motion: Motion, rows: RowSet) -> Bound:
        warm = self._contact_set.warm_start
        search, kept = self._contact_set.search(), self._kept()
        return Bound(
            ContactArguments(
                motion, rows, kept, search, warm.name.copy(), warm.impulse.copy(), self._contact_set.state.dry.copy()
            )
        )

    def _take(self, wrenches: Wrenches, n: int, dt: float, time: float, keep: bool) -> tuple[int, int]:
        contact_set = self._contact_set
        taken, status = self._call(
            self._bound, wrenches, self._stiff, self._iterations, n, dt, time, contact_set.impact_after, keep
        )
        if self._call is contact_steps:
            self._call = entry(contact_steps)
        if taken:
            contact_set.last_step = dt
        return taken, status

    def _make_room(self, status: int) -> None:
        if status == Status.MORE_CONTACTS:
            self._contact_set.grow()
        super()._make_room(status)

    def _set_row_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        before = self._contact_set.warm_start
        super()._set_row_arrays(arrays)
        if self._contact_set.warm_start is not before:  # there were more contacts than there was room for
            self._bound = None

    def _velocities(self, whole: bool = True) -> int:
        return super()._velocities(True)

    def velocity_lag(self) -> np.ndarray | None:
        """Return half of the last substep for trees that contacts act on, else 0; see `Stepper`."""
        return lag_of(self.constraint_set.spans, self._carried.clock, len(self._model.arrays.links.parent))
