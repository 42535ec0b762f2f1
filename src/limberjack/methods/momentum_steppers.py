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

from limberjack.errors import Status
from limberjack.methods.acceleration_steppers import (
    ContactRowStepper,
    Group,
    ImpulseStepper,
    RowStepper,
    cuts,
    new_group,
)
from limberjack.methods.stepper import Forces, Stepper
from limberjack.model.arrays import SPAN, Drives, Springs
from limberjack.model.model import Model
from limberjack.reduced.constraint_set import ConstraintSet, Grip
from limberjack.reduced.contact_set import ContactSet
from limberjack.reduced.forces import Wrenches, new_spring_work
from limberjack.reduced.reaction_terms import lag_of
from limberjack.reduced.variational import (
    COUNTS,
    ITERATIONS,
    Carried,
    External,
    new_carried,
    new_variational_work,
    take_variational_steps,
    velocities_at,
)
from limberjack.reduced.variational_rows import (
    RowSet,
    constrained_velocities_at,
    take_variational_contact_steps,
    take_variational_row_steps,
)
from limberjack.reduced.work import ROW, new_work

__all__ = [
    "INTEGRATORS",
    "CarriedStepper",
    "VariationalContactStepper",
    "VariationalRowStepper",
    "VariationalStepper",
    "copy_of",
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


def copy_of(forces: Forces) -> Forces:
    """Return forces that stay as they are."""
    return Forces(
        forces.tau.copy(),
        Drives(*(array.copy() for array in forces.drives)),
        Wrenches(*(array.copy() for array in forces.wrenches)),
    )


class CarriedStepper(ImpulseStepper):
    """A stepper whose state is q and the momenta of the links; velocities are derived when they are read."""

    def __init__(self, model: Model, integrator: str, ignored: frozenset[str]) -> None:
        self._model, self._ignored, self._integrator = model, ignored, integrator
        self._iterations = 0 if integrator == "projected" else ITERATIONS
        self.q, self._qd = model.q0.copy(), model.qd0.copy()
        self._spring_rates = spring_rates(model)
        self._carried: Carried = new_carried(model.arrays.links, 0)
        self._counts = np.zeros(COUNTS, np.int64)
        self._forces: Forces | None = None
        self._dt = self._time = 0.0
        self._current = True  # whether _qd is the velocity at q
        self._known = self.q.copy(), self._qd.copy()

    @abstractmethod
    def _take(self, n: int, dt: float, forces: Forces, time: float) -> tuple[int, int]:
        """Take n steps; return the steps taken and a status. After a failure the state is whatever it is."""

    @abstractmethod
    def _derive(self, forces: Forces) -> None:
        """Fill _qd with the velocities at q."""

    @property
    def qd(self) -> np.ndarray:  # pyright: ignore[reportIncompatibleVariableOverride]
        """(nv,) velocities at q."""
        if not self._current and self._forces is not None:
            self._derive(self._forces)
            self._known[1][:], self._current = self._qd, True
        return self._qd

    def _external(self, springs: Springs, dt: float, forces: Forces) -> External:
        return External(forces.drives, springs, stiff_springs(self._spring_rates, dt), forces.tau, forces.wrenches)

    def advance(self, n: int, dt: float, forces: Forces, time: float = 0.0) -> tuple[int, int]:
        """Take up to n steps; see `Stepper`."""
        start = self.q.copy(), self.state_arrays()
        self._counts[:] = 0
        taken, status = self._take(n, dt, forces, time)
        while status in (Status.MORE_ROWS, Status.MORE_CONTACTS):
            self._return_to(start)
            self._make_room(status)
            taken, status = self._take(n, dt, forces, time)
        if taken < n:
            # Blocks may be at different steps, or in the middle of one.
            self._return_to(start)
            self._take(taken, dt, forces, time)
        if n > 0:
            self._known[0][:] = self.q
            # the velocity at q has half of the impulse of the forces that acted, not of those set afterwards
            self._forces = copy_of(forces)
            self._current, self._dt, self._time = False, dt, time + taken * dt
        return taken, status

    def _make_room(self, status: int) -> None:
        """Grow what a status says is too small."""

    def _return_to(self, start: tuple[np.ndarray, dict[str, np.ndarray]]) -> None:
        self.q[:] = start[0]
        self._set_own(start[1])

    def carried_velocities(self) -> np.ndarray:
        """Return the velocities of the last half step; see `Stepper`."""
        return self._carried.history[0]

    def invalidate(self) -> None:
        """Start from (q, qd) where they were set; a force that was set changes nothing carried."""
        moved = not np.array_equal(self.q, self._known[0])
        if moved and not self._current:
            # qd is still that of the pose before it was set
            now = self.q.copy()
            self.q[:] = self._known[0]
            self.qd  # noqa: B018 - reading derives it
            self.q[:] = now
        if moved or (self._current and not np.array_equal(self._qd, self._known[1])):
            self._carried.clock[:] = 0.0
            self._current = True
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
        self._current = True

    def _set_own(self, arrays: dict[str, np.ndarray]) -> None:
        for name, array in self._carried._asdict().items():
            array[:] = arrays[f"carried_{name}"]

    def take_over(self, other: CarriedStepper) -> None:
        """Go on from the state of another stepper of the same model, from its velocities."""
        self.q[:], self._qd[:] = other.q, other.qd
        self._carried.clock[:] = 0.0
        self._known[0][:], self._known[1][:] = self.q, self._qd
        self._current = True

    def stats(self) -> dict[str, Any]:
        """Return the links visited, and substeps, iterations, halvings and projections of the last call."""
        words = ("substeps", "evaluations", "halved", "projected")
        nodes = len(self._model.arrays.links.parent)
        return {"nodes": nodes} | dict(zip(words, map(int, self._counts), strict=True))


class VariationalStepper(CarriedStepper):
    """Steps trees without rows, on several threads."""

    def __init__(self, model: Model, integrator: str, threads: int, ignored: frozenset[str] = frozenset()) -> None:
        super().__init__(model, integrator, ignored)
        links = model.arrays.links
        shared = new_work(links)._replace(rows=np.zeros((0, ROW)))
        groups = [new_group(model, first, last, False, shared) for first, last in cuts(model, threads)]
        clocks = np.cumsum([0, *(len(group.blocks) for group in groups)])
        self._carried = new_carried(links, int(clocks[-1]))
        self._parts = [
            (group, new_variational_work(links, group.work, group.pull),
             self._carried._replace(clock=self._carried.clock[first:last]), np.zeros(COUNTS, np.int64))
            for group, first, last in zip(groups, clocks[:-1], clocks[1:], strict=True)
        ]  # fmt: skip
        self._pool = ThreadPoolExecutor(len(self._parts) - 1) if len(self._parts) > 1 else None

    def _derive(self, forces: Forces) -> None:
        for group, work, carried, _ in self._parts:
            velocities_at(
                self._model.arrays.links, self._external(group.springs, self._dt, forces), group.blocks, 0,
                len(group.blocks), group.span, work, carried, self.q, self._qd,
            )  # fmt: skip

    def _take(self, n: int, dt: float, forces: Forces, time: float) -> tuple[int, int]:
        first, *rest = self._parts
        others = [self._pool.submit(self._take_part, part, n, dt, forces) for part in rest] if self._pool else []
        taken, status = min([self._take_part(first, n, dt, forces), *(other.result() for other in others)])
        for part in self._parts:
            self._counts += part[3]
        return taken, status

    def _take_part(
        self, part: tuple[Group, Any, Carried, np.ndarray], n: int, dt: float, forces: Forces
    ) -> tuple[int, int]:
        group, work, carried, counts = part
        counts[:] = 0
        return take_variational_steps(
            self._model.arrays.links, self._external(group.springs, dt, forces), group.blocks, len(group.blocks),
            group.span, self._iterations, n, dt, work, carried, self.q, self._qd, counts,
        )  # fmt: skip

    def grab(self, grip: Grip) -> Stepper:
        """Add a grip; see `Stepper`: a stepper with rows takes over until it is released."""
        constraint_set = ConstraintSet(self._model, self._ignored, implicit=True)
        stepper = VariationalRowStepper(self._model, self._integrator, constraint_set, self._ignored, without=self)
        stepper.take_over(self)
        return stepper.grab(grip)

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
        without: the stepper that goes on when the last grip is released.
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
        self._build()

    def _build(self) -> None:
        """Make what depends on the rows; the motion goes on from the velocities at q."""
        a, blocks = self._model.arrays, self.constraint_set.spans
        self._carried = new_carried(a.links, len(blocks))
        self._span = blocks[0].copy() if len(blocks) else np.zeros(SPAN, np.int64)
        self._work = new_variational_work(a.links, self._new_work(blocks), new_spring_work(a.links, a.springs), True)

    def _new_work(self, blocks: np.ndarray) -> Any:
        return new_work(self._model.arrays.links, blocks)

    def _rows(self) -> RowSet:
        c = self.constraint_set
        return RowSet(c.table, c.own, c.constraint)

    def _take(self, n: int, dt: float, forces: Forces, time: float) -> tuple[int, int]:
        a = self._model.arrays
        return take_variational_row_steps(
            a.links, self._external(a.springs, dt, forces), self._rows(), self.constraint_set.spans, self._span,
            self._iterations, n, dt, time, self._work, self._carried, self.q, self._qd, self._counts,
        )  # fmt: skip

    def _make_room(self, status: int) -> None:
        if status == Status.MORE_ROWS:
            self.constraint_set.grow()

    def _derive(self, forces: Forces) -> None:
        a = self._model.arrays
        while self._velocities(a.links, self._external(a.springs, self._dt, forces)) == Status.MORE_ROWS:
            self.constraint_set.grow()

    def _velocities(self, links: Any, external: External, whole: bool = False) -> int:
        return constrained_velocities_at(
            links, external, self._rows(), self.constraint_set.spans, self._span, self._time, whole, self._work,
            self._carried, self.q, self._qd,
        )  # fmt: skip

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
        self._qd[:], self._current = qd, True
        self._known[0][:], self._known[1][:] = self.q, qd
        return found

    def release(self, grip: Grip) -> Stepper:
        """Remove a grip; see `Stepper`. Without any the stepper before takes over again."""
        if self._without is None or len(self.constraint_set.grips) > 1:
            return super().release(grip)
        self.constraint_set.grips.remove(grip)
        self._without.take_over(self)
        return self._without


class VariationalContactStepper(ContactRowStepper, VariationalRowStepper):
    """Steps trees with contacts or dry friction in joints."""

    def __init__(self, model: Model, integrator: str, constraint_set: ConstraintSet, ignored: frozenset[str]) -> None:
        self._contact_set = ContactSet(model, ignored)
        super().__init__(model, integrator, constraint_set, ignored)

    def _new_work(self, blocks: np.ndarray) -> Any:
        return self._contact_set.state.work

    def _take(self, n: int, dt: float, forces: Forces, time: float) -> tuple[int, int]:
        a, contact_set = self._model.arrays, self._contact_set
        taken, status = take_variational_contact_steps(
            a.links, self._external(a.springs, dt, forces), self._rows(), contact_set.search(),
            self.constraint_set.spans, self._span, self._iterations, n, dt, time, contact_set.impact_after, self._work,
            self._carried, self.q, self._qd, self._counts,
        )  # fmt: skip
        if taken:
            contact_set.last_step = dt
        return taken, status

    def _make_room(self, status: int) -> None:
        if status == Status.MORE_CONTACTS:
            self._contact_set.grow()
        super()._make_room(status)

    def _velocities(self, links: Any, external: External, whole: bool = True) -> int:
        return super()._velocities(links, external, True)

    def velocity_lag(self) -> np.ndarray | None:
        """Return half of the last substep for trees that contacts act on, else 0; see `Stepper`."""
        return lag_of(self.constraint_set.spans, self._carried.clock, len(self._model.arrays.links.parent))
