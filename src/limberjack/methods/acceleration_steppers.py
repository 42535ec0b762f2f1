"""The steppers of `Full` for integrators that evaluate accelerations: trees, trees with rows, trees with contacts."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from limberjack._jit import entry
from limberjack.collision.detect import Contact
from limberjack.constraints.row_forces import RowForces, no_row_forces
from limberjack.constraints.rows import ANGLE, COORDINATES, ROWS
from limberjack.constraints.runtime import apart_bodies
from limberjack.errors import LimberjackError, StateError, Status
from limberjack.methods.row_verbs import WithoutRows, WithRows
from limberjack.methods.stepper import Forces, Stepper
from limberjack.model.arrays import LINK, SPAN, Springs, blocks_of, figure_blocks, span_of
from limberjack.model.model import Model
from limberjack.reduced.constrained_step import ACCELERATIONS, take_constrained_steps
from limberjack.reduced.constraint_set import ConstraintSet, Grip
from limberjack.reduced.contact_set import ContactSet
from limberjack.reduced.dynamics import forward_kinematics, jacobian
from limberjack.reduced.forces import SpringWork, new_spring_work, no_wrenches
from limberjack.reduced.momentum import MomentumTargets, new_momentum_targets
from limberjack.reduced.step import INTEGRATORS, MOMENTUM, RK4, new_buffers, take_steps
from limberjack.reduced.work import ROW, Work, new_lanes, new_work
from limberjack.spatial.frames import matrix_from_quaternion

__all__ = [
    "ConstrainedStepper",
    "ContactRowStepper",
    "ContactStepper",
    "FullStepper",
    "Group",
    "ImpulseStepper",
    "RowStepper",
    "constrained_stepper",
    "groups_of",
]


class Group(NamedTuple):
    """Trees that one thread steps."""

    blocks: np.ndarray  # (k, SPAN) spans that nothing ties together
    span: np.ndarray  # (SPAN,) scratch: the block in work
    springs: Springs
    work: Work  # rows of its own, the rest shared
    pull: SpringWork
    aims: MomentumTargets


def groups_of(model: Model, threads: int, *, momentum: bool = False) -> list[Group]:
    """Return the trees of a model in groups of about equal work, one per thread, that no spring ties together.

    Without springs the blocks are the same for any number of threads. Springs may tie any trees of a group together:
    then it is one block.

    Args:
        model: the model.
        threads: how many groups at most.
        momentum: whether groups have momenta to maintain; figures are then stepped one at a time.
    """
    a, n = model.arrays, len(model.arrays.links.parent)
    if len(a.springs.link) or momentum:
        blocks, sizes = blocks_of(a.links, a.drives, 0, n), np.zeros((0, 3), np.int64)
    else:
        blocks, sizes = figure_blocks(a.links, a.drives)
    shared, out = new_work(a.links)._replace(rows=np.zeros((0, ROW))), list[Group]()
    for first, last in _cuts(model, blocks, threads):
        begin, end = (int(blocks[first, LINK]), int(blocks[last - 1, LINK + 1])) if n else (0, 0)
        inside = ((a.springs.link >= begin) & (a.springs.link < end)).any(axis=1)
        springs = Springs(*(np.ascontiguousarray(field[inside]) for field in a.springs))
        whole = span_of(a.links, a.drives, begin, end)
        own = whole[None].copy() if len(springs.link) or not n else blocks[first:last]
        work = shared._replace(rows=new_work(a.links, own).rows, lanes=new_lanes(sizes[first:last]))
        targets = new_momentum_targets(a.links, whole, momentum)
        out.append(Group(own, own[0].copy(), springs, work, new_spring_work(a.links, springs), targets))
    return out


def _cuts(model: Model, blocks: np.ndarray, threads: int) -> list[tuple[int, int]]:
    """Return ranges of blocks of about equal work that no spring crosses."""
    if not len(blocks):
        return [(0, 0)]
    n, ends = len(model.arrays.links.parent), blocks[:, LINK + 1]
    tied = model.arrays.springs.link
    tied = tied[(tied >= 0).all(axis=1)]
    borders = [0]
    for k in np.searchsorted(ends, n * np.arange(1, threads + 1) / threads) + 1:
        end = ends[k - 1]
        crossed = len(tied) and ((tied.min(axis=1) < end) & (tied.max(axis=1) >= end)).any()
        if end == n or (k > borders[-1] and not crossed):
            borders.append(int(k))
    return [(i, j) for i, j in zip(borders[:-1], borders[1:], strict=True) if i < j]


class ImpulseResponse:
    """Computes the response of a model to impulses: the change of velocities, with loops and gears satisfied.

    Without gravity and limits accelerations are linear in the forces: qd changes by qdd(J^T p) - qdd(0). Limits that an
    impulse drives a joint into stop it in the step that follows.

    Args:
        model: the model.
        stepper: returns a stepper with `accelerations` for a model without the features named.
        ignored: features left out.
    """

    def __init__(self, model: Model, stepper: Callable[[Model, frozenset[str]], Any], ignored: frozenset[str]) -> None:
        self._model = model
        light = Model(replace(model.spec, gravity=(0.0, 0.0, 0.0)))
        self._stepper = stepper(light, ignored | {"limits", "contacts", "friction", "springs", "motors"})
        self._still = np.zeros(model.nv)

    def change(
        self, q: np.ndarray, link: int, point: np.ndarray, impulse: np.ndarray, angular_impulse: np.ndarray
    ) -> Any:
        """Return the change of qd (nv,) by an impulse at a point of a link's frame, world axes."""
        a = self._model.arrays
        b = int(np.flatnonzero(a.body_link == link)[0])
        positions, turns = forward_kinematics(self._model, q)
        local = a.body_offset[b, :9].reshape(3, 3).T @ (point - a.body_offset[b, 9:])
        where = positions[b] + matrix_from_quaternion(turns[b]) @ local
        rows = jacobian(self._model, q, self._model.body_names[b], where)
        tau = rows[:3].T @ angular_impulse + rows[3:].T @ impulse
        return self._accelerations(q, tau) - self._accelerations(q, self._still)

    def _accelerations(self, q: np.ndarray, tau: np.ndarray) -> np.ndarray:
        forces = SimpleNamespace(tau=tau, drives=self._model.arrays.drives, wrenches=no_wrenches())
        qdd, status = self._stepper.accelerations(q, self._still, forces)
        if status != 0:
            raise StateError("no impulses of the constraints answer this impulse")
        return qdd


class ImpulseStepper(Stepper):
    """A stepper that takes impulses."""

    _model: Model
    _ignored: frozenset[str]
    _impulse_response: ImpulseResponse | None = None

    def apply_impulse(self, link: int, point: np.ndarray, impulse: np.ndarray, angular_impulse: np.ndarray) -> None:
        """Change velocities at once by an impulse, loops and gears maintained; see `Stepper`."""
        if self._impulse_response is None:
            self._impulse_response = ImpulseResponse(self._model, constrained_stepper, self._ignored)
        self.qd[:] += self._impulse_response.change(self.q, link, point, impulse, angular_impulse)
        self.invalidate()

    def row_forces(self, exerted: np.ndarray, forces: Forces) -> RowForces:
        """Return no forces: a tree has no rows."""
        return no_row_forces()


def constrained_stepper(model: Model, ignored: frozenset[str] = frozenset()) -> ConstrainedStepper:
    """Return a stepper with rows, whether the model has any or not: for accelerations with all that it has."""
    constraint_set = ConstraintSet(model, ignored, implicit=False)
    has_contacts = {"contacts", "friction"} & model.features().keys() - ignored
    return (ContactStepper if has_contacts else ConstrainedStepper)(model, "euler", 1, constraint_set, ignored=ignored)


def tuned_substeps(code: int, options: Any) -> int:
    """Return the substeps of other options of the same integrator, by its number."""
    if options.integrator != INTEGRATORS[code]:
        raise StateError(
            f'method "full" cannot change integrator "{INTEGRATORS[code]}" into "{options.integrator}" while running'
        )
    return options.substeps or (2 if code in (RK4, MOMENTUM) else 1)


class FullStepper(WithoutRows, ImpulseStepper):
    """The running side of `Full`."""

    def __init__(
        self, model: Model, integrator: str, substeps: int, threads: int, ignored: frozenset[str] = frozenset()
    ) -> None:
        self._model, self._code, self._substeps = model, INTEGRATORS.index(integrator), substeps
        self.q, self.qd = model.q0.copy(), model.qd0.copy()
        self._buffers = new_buffers(model.nq, model.nv)
        self._groups = groups_of(model, threads, momentum=self._code == MOMENTUM)
        self._call: Any = take_steps
        self._integrator, self._ignored, self._threads = integrator, ignored, threads
        self._pool = ThreadPoolExecutor(len(self._groups) - 1) if len(self._groups) > 1 else None

    def advance(self, n: int, dt: float, forces: Forces, time: float = 0.0) -> tuple[int, int]:
        """Take up to n steps; see `Stepper`."""
        if self._pool is None and len(self._groups[0].blocks) == 1:
            return self._advance_group(self._groups[0], n, dt, forces)
        start = (self.q.copy(), self.qd.copy(), self.state_arrays())
        # The calling thread takes the first group itself: one thread less to wake.
        first, *rest = self._groups
        others = [self._pool.submit(self._advance_group, group, n, dt, forces) for group in rest] if self._pool else []
        taken, status = min([self._advance_group(first, n, dt, forces), *(other.result() for other in others)])
        if taken < n:
            # One block failed: all go back and take the steps that every block can.
            self.q[:], self.qd[:] = start[0], start[1]
            self.set_state_arrays(start[2])
            for group in self._groups:
                self._advance_group(group, taken, dt, forces)
        return taken, status

    def _advance_group(self, group: Group, n: int, dt: float, forces: Forces) -> tuple[int, int]:
        taken = self._call(
            self._model.arrays.links, forces.drives, group.springs,
            group.blocks, len(group.blocks), group.span, self._code, n, self._substeps, dt / self._substeps, forces.tau,
            forces.wrenches, group.work, group.pull, self._buffers, group.aims, self.q, self.qd,
        )  # fmt: skip
        if self._call is take_steps:
            self._call = entry(take_steps)
        return taken

    def _with_rows(self) -> ConstrainedStepper:
        """Return a stepper with rows, on the same state."""
        if self._code == MOMENTUM:
            raise StateError('integrator "momentum" knows no grips, attached joints or prescribed motion; use "rk4"')
        constraint_set = ConstraintSet(self._model, self._ignored, implicit=self._integrator == "implicit")
        state = self.q, self.qd
        return ConstrainedStepper(
            self._model, self._integrator, self._substeps, constraint_set, state, self._ignored, without=self
        )

    def take_over(self, other: ConstrainedStepper) -> None:
        """Go on from the state of the stepper that had rows: the same arrays."""
        self._substeps = other._substeps
        self.invalidate()

    def tune(self, options: Any) -> None:
        """Continue with other substeps; see `Stepper`."""
        if options.threads != self._threads:
            raise StateError(f'method "full" cannot change threads while running; they are {self._threads}')
        self._substeps = tuned_substeps(self._code, options)

    def invalidate(self) -> None:
        """Read the momentum to keep off the state at the next step."""
        for group in self._groups:
            group.aims.fresh[:] = 1

    def state_arrays(self) -> dict[str, np.ndarray]:
        """Return the momentum the free trees should have."""
        aims = [group.aims for group in self._groups]
        return {
            "aims": np.concatenate([a.target for a in aims]),
            "fresh": np.concatenate([a.fresh for a in aims]),
        }

    def set_state_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        """Set what `state_arrays` returned."""
        start = 0
        for group in self._groups:
            here = slice(start, start + len(group.aims.target))
            group.aims.target[:], group.aims.fresh[:] = arrays["aims"][here], arrays["fresh"][here]
            start = here.stop

    def stats(self) -> dict[str, Any]:
        """Return the links visited, evaluations of the forces per step, substeps and threads."""
        evaluations = self._substeps * (4 if self._code in (RK4, MOMENTUM) else 1)
        nodes = len(self._model.arrays.links.parent)
        return {
            "nodes": nodes,
            "evaluations": evaluations,
            "substeps": self._substeps,
            "threads": len(self._groups),
        }


class RowStepper(WithRows, ImpulseStepper):
    """A stepper of trees with constraint rows: of loops, limits, gears, velocity constraints and grips."""

    def constraint_tables(self) -> tuple[Any, ...]:
        """Return the table of the rows."""
        return (self.constraint_set.table,)

    def row_forces(self, exerted: np.ndarray, forces: Forces) -> RowForces:
        """Return the forces of the rows in the last step."""
        return self.constraint_set.row_forces()

    @abstractmethod
    def _build(self) -> None:
        """Make what depends on the rows."""

    def _rebuild(self, change: Callable[[], Any]) -> Any:
        """Change the rows and make what depends on them anew; return what `change` does."""
        found = change()
        self._build()
        return found

    def _set_up(self, change: Callable[[], Any]) -> None:
        """Change the list of rows and set up what depends on it."""

        def anew() -> None:
            change()
            self.constraint_set.build()

        self._rebuild(anew)
        self.invalidate()

    def _settled(self) -> Stepper:
        """Return the stepper without rows that was there before, once the last is gone."""
        if self._without is None or self.constraint_set.changes:
            return self
        self._without.take_over(self)
        return self._without

    _without: Any = None  # the stepper that goes on without rows

    def move_grip(self, grip: Grip) -> None:
        """Take the target of a grip, which has changed."""
        self.constraint_set.move_grip(grip)
        self.invalidate()

    def loop_forces(self, name: str) -> np.ndarray:
        """Return the forces applied to a loop joint, to be written."""
        if name in self.constraint_set.pushed:
            return self.constraint_set.push(name)[0]
        return self._rebuild(lambda: self.constraint_set.push(name)[0])

    def explain(self, status: int, where: str) -> tuple[type[LimberjackError], str, str] | None:
        """Return (error, joint, message) of a failure the rows caused, else None."""
        return self.constraint_set.explain(status, where)

    def _row_arrays(self) -> dict[str, np.ndarray]:
        """Return the state of the rows: the turns of loop joints and the forces applied to them."""
        constraint, pairs = self.constraint_set.constraint, self.constraint_set.table.compound[:, 0]
        return {
            "near": self.constraint_set.turns(),
            "own_tau": self.constraint_set.own.tau.copy(),
            "compounds": constraint.state[pairs, COORDINATES:ROWS],
        } | self.constraint_set.runtime_arrays()

    def _set_row_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        """Set what `_row_arrays` returned."""
        constraint, table = self.constraint_set.constraint, self.constraint_set.table
        constraint.near[table.terms[:, 0] == ANGLE] = arrays["near"]
        self.constraint_set.own.tau[:] = arrays["own_tau"]
        constraint.state[table.compound[:, 0], COORDINATES:ROWS] = arrays["compounds"]

    def _row_stats(self) -> dict[str, Any]:
        """Return what the rows did in the last step."""
        report = self.constraint_set.constraint.report
        return {
            "rows": int(report[0]),
            "rank": int(report[1]),
            "projection_iterations": int(report[2]),
            "joint_error": float(report[3]),
        }


class ContactRowStepper(RowStepper):
    """A stepper of trees with contacts or dry friction in joints beside their rows; before the class of its steps."""

    _contact_set: ContactSet

    def _apart(self) -> None:
        """Let the bodies of joints made while running not collide."""
        self._contact_set.keep_apart(apart_bodies(self.constraint_set.attached))

    def _build(self) -> None:
        links, drives = self._model.arrays.links, self._model.arrays.drives
        self._contact_set.set_trees(links, drives, self._contact_set.friction)
        super()._build()

    def contacts(self) -> list[Contact]:
        """Return the contacts, gaps up to the margin included, at the start of the last step."""
        return self._contact_set.contacts()

    def _row_arrays(self) -> dict[str, np.ndarray]:
        return super()._row_arrays() | self._contact_set.state_arrays()

    def _set_row_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        super()._set_row_arrays(arrays)
        self._contact_set.set_state_arrays(arrays)

    def _row_stats(self) -> dict[str, Any]:
        return super()._row_stats() | self._contact_set.stats()


class ConstrainedStepper(RowStepper):
    """The running side of `Full` for models with loops, limits, gears or velocity constraints."""

    def __init__(
        self,
        model: Model,
        integrator: str,
        substeps: int,
        constraint_set: ConstraintSet,
        state: tuple[np.ndarray, np.ndarray] | None = None,
        ignored: frozenset[str] = frozenset(),
        without: FullStepper | None = None,
    ) -> None:
        self._ignored, self._without = ignored, without
        self._model, self._code, self._substeps = model, INTEGRATORS.index(integrator), substeps
        self.q, self.qd = state or (model.q0.copy(), model.qd0.copy())
        self.constraint_set = constraint_set
        self._build()

    def _build(self) -> None:
        a, constraint_set = self._model.arrays, self.constraint_set
        blocks = constraint_set.spans
        self._buffers = new_buffers(self._model.nq, self._model.nv)
        self._work = new_work(a.links, blocks)
        self._pull = new_spring_work(a.links, a.springs)
        self._span = blocks[0].copy() if len(blocks) else np.zeros(SPAN, np.int64)

    def tune(self, options: Any) -> None:
        """Continue with other substeps; see `Stepper`."""
        self._substeps = tuned_substeps(self._code, options)

    def advance(self, n: int, dt: float, forces: Forces, time: float = 0.0) -> tuple[int, int]:
        """Take up to n steps; see `Stepper`."""
        start = (self.q.copy(), self.qd.copy(), self.state_arrays())
        taken, status = self._take(n, dt, forces, time)
        while status == Status.MORE_ROWS:
            self._return_to(start)
            self.constraint_set.grow()
            taken, status = self._take(n, dt, forces, time)
        if taken < n and len(self.constraint_set.spans) > 1:
            # One block failed: all go back and take the steps that every block can.
            self._return_to(start)
            self._take(taken, dt, forces, time)
        return taken, status

    def _return_to(self, start: tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]) -> None:
        self.q[:], self.qd[:] = start[0], start[1]
        self.set_state_arrays(start[2])

    def accelerations(self, q: np.ndarray, qd: np.ndarray, forces: Forces) -> tuple[np.ndarray, int]:
        """Return qdd (nv,) at a state with all rows acting, and a status."""
        before, code = (self.q.copy(), self.qd.copy(), self.state_arrays()), self._code
        self.q[:], self.qd[:], self._code = q, qd, ACCELERATIONS
        try:
            status = self.advance(1, 1e-3 * self._substeps, forces)[1]
            return self.qd.copy(), status
        finally:
            self._code = code
            self._return_to(before)

    def _take(self, n: int, dt: float, forces: Forces, time: float) -> tuple[int, int]:
        a, constraint_set = self._model.arrays, self.constraint_set
        taken, status, _ = take_constrained_steps(
            a.links, forces.drives, a.springs, constraint_set.table, constraint_set.own,
            constraint_set.spans, 0, len(constraint_set.spans), self._span, self._code, n, self._substeps,
            dt / self._substeps, time, forces.tau, forces.wrenches, self._work, self._pull, self._buffers,
            constraint_set.constraint, self.q, self.qd,
        )  # fmt: skip
        return taken, status

    def state_arrays(self) -> dict[str, np.ndarray]:
        """Return the state of the rows: turns of loop joints, forces applied to them, forces of contacts by name."""
        return self._row_arrays()

    def set_state_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        """Set what `state_arrays` returned."""
        self._set_row_arrays(arrays)

    def stats(self) -> dict[str, Any]:
        """Return the links visited, evaluations per step, and what the rows did in the last step."""
        evaluations = self._substeps * (4 if self._code == RK4 else 1)
        nodes = len(self._model.arrays.links.parent)
        return {"nodes": nodes, "evaluations": evaluations, "substeps": self._substeps} | self._row_stats()


class ContactStepper(ContactRowStepper, ConstrainedStepper):
    """The running side of `Full` for models with contacts or dry friction in joints."""

    def __init__(
        self,
        model: Model,
        integrator: str,
        substeps: int,
        constraint_set: ConstraintSet,
        state: tuple[np.ndarray, np.ndarray] | None = None,
        ignored: frozenset[str] = frozenset(),
    ) -> None:
        self._contact_set = ContactSet(model, ignored)
        super().__init__(model, integrator, substeps, constraint_set, state, ignored)

    def _take(self, n: int, dt: float, forces: Forces, time: float) -> tuple[int, int]:
        a, constraint_set = self._model.arrays, self.constraint_set
        return self._contact_set.take(
            a.links, forces.drives, a.springs, constraint_set, constraint_set.constraint, constraint_set.table,
            constraint_set.spans, self._span, self._code, n, self._substeps, dt, time, forces.tau, forces.wrenches,
            self._work, self._pull, self._buffers, self.q, self.qd,
        )  # fmt: skip
