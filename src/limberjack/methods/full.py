"""Method `full`: every joint moves. kinematics -> forces -> articulated bodies -> integrate.

| integrator | a step of h | order |
|---|---|---|
| euler | q += h qd, then qd += h qdd (the papers') | 1 |
| semi_implicit | qd += h qdd, then q += h qd | 1, energy bounded |
| implicit | joint and body springs, dampers and motors taken at the end of the step | 1, stable when stiff |
| rk4 | classical Runge-Kutta, quaternions in R^4 and normalised | 4 |
| momentum | rk4, then each free tree is set to the momentum and com that outer forces give it (`momentum.py`) | 4 |
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from limberjack._jit import entry, kernel, spliced
from limberjack.articulated.aba import accelerations
from limberjack.articulated.drives import drive_forces
from limberjack.articulated.integrate import advance, coordinate_rates, normalize
from limberjack.articulated.kinematics import kinematics
from limberjack.articulated.work import ROW, Work, based, new_work
from limberjack.errors import StateError, UnknownName
from limberjack.forces import Pull, implicit_springs, new_pull, pull_springs, take_wrenches
from limberjack.model.arrays import BALL_DRIVE, COORDINATE, DOF, LINK, SCALAR_DRIVE, SPAN, Springs, blocks_of, span_of
from limberjack.model.model import Model
from limberjack.momentum import Aims, gather_push, keep_momentum, new_aims, start_aims

__all__ = ["Full"]

INTEGRATORS = ("euler", "semi_implicit", "rk4", "implicit", "momentum")
_EULER, _SEMI_IMPLICIT, _RK4, _IMPLICIT, _MOMENTUM = range(5)
# A number beyond this counts as no longer finite: its square still is, so nothing has overflowed yet.
_HUGE = 1e150


class Buffers(NamedTuple):
    """Scratch of the integrators, shared by all spans (each uses its own part)."""

    qdd: np.ndarray  # (nv,)
    tau: np.ndarray  # (nv,) applied and joints' own forces
    added: np.ndarray  # (nv,)
    q_before: np.ndarray  # (nq,)
    qd_before: np.ndarray  # (nv,)
    q_stage: np.ndarray  # (nq,)
    qd_stage: np.ndarray  # (nv,)
    rates: np.ndarray  # (nq,)
    q_sum: np.ndarray  # (nq,)
    qd_sum: np.ndarray  # (nv,)


@dataclass(frozen=True, kw_only=True)
class Full:
    """All joints simulated by the articulated-body algorithm.

    Args:
        integrator: "semi_implicit", "euler" (the papers'), "rk4", "implicit" or "momentum".
        substeps: integrator steps per simulation step; None takes 2 for the fourth-order ones, which makes their
            error 16 times smaller at twice the cost, and 1 for the others.
        threads: trees that no spring ties together are stepped on up to this many threads, with the same result.
    """

    name: ClassVar[str] = "full"
    supports: ClassVar[frozenset[str]] = frozenset({"armature", "springs", "motors"})

    integrator: str = "semi_implicit"
    substeps: int | None = None
    threads: int = 1

    def __post_init__(self) -> None:
        if self.integrator not in INTEGRATORS:
            raise UnknownName("integrator", self.integrator, 'method "full"', INTEGRATORS)
        for what, value in (
            ("substeps", 1 if self.substeps is None else self.substeps),
            ("threads", self.threads),
        ):
            if not (isinstance(value, int) and 1 <= value <= 1000):
                raise StateError(f"{what} must be a whole number from 1 to 1000, got {value!r}")

    def stepper(self, model: Model) -> FullStepper:
        """Return a stepper for `model`."""
        return FullStepper(model, self)


class _Group(NamedTuple):
    """Trees that one thread steps."""

    blocks: np.ndarray  # (k, SPAN) spans that nothing ties together
    span: np.ndarray  # (SPAN,) scratch: the block in work
    springs: Springs
    work: Work  # rows of its own, the rest shared
    pull: Pull
    aims: Aims


class FullStepper:
    """The running side of `Full`."""

    def __init__(self, model: Model, options: Full) -> None:
        links = model.arrays.links
        self._model, self._code = model, INTEGRATORS.index(options.integrator)
        self._substeps = options.substeps or (2 if options.integrator in ("rk4", "momentum") else 1)
        self.q, self.qd = model.q0.copy(), model.qd0.copy()
        shared = new_work(links)._replace(rows=np.zeros((0, ROW)))
        nq, nv = model.nq, model.nv
        self._buffers = Buffers(*(np.zeros(nq if "q_" in name or name == "rates" else nv) for name in Buffers._fields))
        self._groups = [
            _group(model, first, last, self._code == _MOMENTUM, shared) for first, last in _cuts(model, options.threads)
        ]
        self._call: Any = full_steps
        self._pool = ThreadPoolExecutor(len(self._groups) - 1) if len(self._groups) > 1 else None

    def advance(self, n: int, dt: float, forces: Any) -> tuple[int, int]:
        """Take up to n steps; see `Stepper`."""
        if self._pool is None and len(self._groups[0].blocks) == 1:
            return self._advance_group(self._groups[0], n, dt, forces)
        start = (self.q.copy(), self.qd.copy(), self.memory())
        # The calling thread takes the first group itself: one thread less to wake.
        first, *rest = self._groups
        others = [self._pool.submit(self._advance_group, group, n, dt, forces) for group in rest] if self._pool else []
        taken, status = min([self._advance_group(first, n, dt, forces), *(other.result() for other in others)])
        if taken < n:
            # One block failed: all go back and take the steps that every block can.
            self.q[:], self.qd[:] = start[0], start[1]
            self.remember(start[2])
            for group in self._groups:
                self._advance_group(group, taken, dt, forces)
        return taken, status

    def _advance_group(self, group: _Group, n: int, dt: float, forces: Any) -> tuple[int, int]:
        taken = self._call(
            self._model.arrays.links, forces.drives, group.springs,
            group.blocks, group.span, self._code, n, self._substeps, dt / self._substeps, forces.tau, forces.wrenches,
            group.work, group.pull, self._buffers, group.aims, self.q, self.qd,
        )  # fmt: skip
        if self._call is full_steps:
            self._call = entry(full_steps)
        return taken

    def changed(self) -> None:
        """Take note that the state was set: the momentum to keep is read off it at the next step."""
        for group in self._groups:
            group.aims.fresh[:] = 1

    def memory(self) -> dict[str, np.ndarray]:
        """Return the momentum the free trees should have."""
        aims = [group.aims for group in self._groups]
        return {
            "aims": np.concatenate([a.aims for a in aims]),
            "fresh": np.concatenate([a.fresh for a in aims]),
        }

    def remember(self, memory: dict[str, np.ndarray]) -> None:
        """Take back what `memory` gave."""
        place = 0
        for group in self._groups:
            here = slice(place, place + len(group.aims.aims))
            group.aims.aims[:], group.aims.fresh[:] = memory["aims"][here], memory["fresh"][here]
            place = here.stop

    def stats(self) -> dict[str, Any]:
        """Return the links visited, evaluations of the forces per step, substeps and threads."""
        evaluations = self._substeps * (4 if self._code in (_RK4, _MOMENTUM) else 1)
        nodes = len(self._model.arrays.links.parent)
        return {
            "nodes": nodes,
            "evaluations": evaluations,
            "substeps": self._substeps,
            "threads": len(self._groups),
        }


def _cuts(model: Model, threads: int) -> list[tuple[int, int]]:
    """Return ranges of links, whole trees of about equal work, that no spring crosses."""
    links = model.arrays.links
    n = len(links.parent)
    ends = np.append(np.flatnonzero(links.parent < 0)[1:], n)
    wanted = (
        [int(ends[min(np.searchsorted(ends, n * (k + 1) / threads), len(ends) - 1)]) for k in range(threads)]
        if n
        else [0]
    )
    tied = model.arrays.springs.link
    tied = tied[(tied >= 0).all(axis=1)]
    cuts = [0]
    for end in sorted(set(wanted)):
        crossed = len(tied) and ((tied.min(axis=1) < end) & (tied.max(axis=1) >= end)).any()
        if end == n or (end > cuts[-1] and not crossed):
            cuts.append(end)
    return list(zip(cuts[:-1], cuts[1:], strict=True))


def _group(model: Model, first: int, last: int, momentum: bool, shared: Work) -> _Group:
    a = model.arrays
    inside = ((a.springs.link >= first) & (a.springs.link < last)).any(axis=1)
    springs = Springs(*(np.ascontiguousarray(field[inside]) for field in a.springs))
    whole = span_of(a.links, a.drives, first, last)
    # Springs may tie any trees of the group together: then it is one block.
    blocks = whole[None].copy() if len(springs.link) else blocks_of(a.links, a.drives, first, last)
    aims = new_aims(a.links, whole, momentum)
    work = shared._replace(rows=new_work(a.links, blocks).rows)
    return _Group(blocks, blocks[0].copy(), springs, work, new_pull(a.links, springs), aims)


@spliced
def _dynamics(links, drives, springs, span, h, q, qd, applied, wrenches, work, pull, driven, tau, added, qdd):
    """Fill qdd at (q, qd), implicit over h where h > 0; return 0 or the code of what failed."""
    kinematics(links, span, q, qd, work)
    take_wrenches(span, wrenches, work.rows)
    if driven:
        drive_forces(drives, links.armature, span, h, q, qd, applied, tau, added)
    if len(springs.link) > 0 and h == 0.0:
        pull_springs(links, springs, span, qd, work, pull)
    status = accelerations(links, span, added, tau, work, qdd)
    if status == 0 and len(springs.link) > 0 and h > 0.0:
        status = implicit_springs(links, springs, span, h, qd, work, pull, qdd)
    return status


@spliced
def _one_step(links, drives, springs, span, code, h, applied, wrenches, work, pull, b, aims, q, qd):
    """One step of the integrator `code`; return the status of the dynamics.

    All integrators share one loop over stages, so that the dynamics is compiled once.
    """
    many = code == _RK4 or code == _MOMENTUM
    keeping = len(aims.trees) > 0
    q0, q1, v0, v1 = span[COORDINATE], span[COORDINATE + 1], span[DOF], span[DOF + 1]
    q_stage, qd_stage, q_sum, qd_sum, rates, qdd = b.q_stage, b.qd_stage, b.q_sum, b.qd_sum, b.rates, b.qdd
    if keeping:
        start_aims(links, span, q, qd, work, aims)
    if many:
        for i in range(q0, q1):
            q_sum[i] = 0.0
            q_stage[i] = q[i]
        for v in range(v0, v1):
            qd_sum[v] = 0.0
            qd_stage[v] = qd[v]
    q_now, qd_now = (q_stage, qd_stage) if many else (q, qd)
    # Where no joint has a drive, applied forces and armature serve as they are.
    driven = span[SCALAR_DRIVE] < span[SCALAR_DRIVE + 1] or span[BALL_DRIVE] < span[BALL_DRIVE + 1]
    tau, added = (b.tau, b.added) if driven else (applied, links.armature)
    reach = h if code == _IMPLICIT else 0.0
    for stage in range(4 if many else 1):
        status = _dynamics(
            links, drives, springs, span, reach, q_now, qd_now, applied, wrenches, work, pull, driven, tau, added, qdd
        )
        if status != 0:
            return status
        if not many:
            break
        weight = (1.0 if stage == 0 or stage == 3 else 2.0) / 6.0
        if keeping:
            com_weight = 1.0 / 6.0 if stage < 3 else 0.0
            gather_push(links, springs, span, q_stage, qd_stage, weight, com_weight, tau, wrenches, work, pull, aims)
        coordinate_rates(links, span, q_stage, qd_stage, rates)
        ahead = 0.5 * h if stage < 2 else h
        for i in range(q0, q1):
            q_sum[i] += weight * rates[i]
            q_stage[i] = q[i] + ahead * rates[i]
        for v in range(v0, v1):
            qd_sum[v] += weight * qdd[v]
            qd_stage[v] = qd[v] + ahead * qdd[v]
    if many:
        for i in range(q0, q1):
            q[i] += h * q_sum[i]
        for v in range(v0, v1):
            qd[v] += h * qd_sum[v]
        normalize(links, span, q)
        if keeping:
            keep_momentum(links, span, h, work, aims, q, qd)
        return 0
    # euler moves along the velocity before the step, the others along the one after it
    if code == _EULER:
        advance(links, span, h, qd, q)
    for v in range(v0, v1):
        qd[v] += h * qdd[v]
    if code != _EULER:
        advance(links, span, h, qd, q)
    return 0


@spliced
def _check(span, qd):
    """Return 0 when the state in `span` is finite, else -1 - v for its first freedom v that is not.

    Coordinates follow velocities: finite ones stay finite as long as the velocities do.
    """
    bad = 0
    for v in range(span[DOF], span[DOF + 1]):
        bad += not abs(qd[v]) < _HUGE
    if bad == 0:
        return 0
    first = span[DOF]
    while abs(qd[first]) < _HUGE:
        first += 1
    return -1 - first


@spliced
def _block_steps(links, drives, springs, span, code, n, substeps, h, applied, wrenches, work, pull, b, aims, q, qd):
    """Take n steps with the trees in `span`; stop at the first that fails and put back the state before it."""
    q_before, qd_before = b.q_before, b.qd_before
    for step in range(n):
        for i in range(span[COORDINATE], span[COORDINATE + 1]):
            q_before[i] = q[i]
        for v in range(span[DOF], span[DOF + 1]):
            qd_before[v] = qd[v]
        status = 0
        for _ in range(substeps):
            status = _one_step(links, drives, springs, span, code, h, applied, wrenches, work, pull, b, aims, q, qd)
            if status != 0:
                break
        if status == 0:
            status = _check(span, qd)
        if status != 0:
            for i in range(span[COORDINATE], span[COORDINATE + 1]):
                q[i] = q_before[i]
            for v in range(span[DOF], span[DOF + 1]):
                qd[v] = qd_before[v]
            for k in range(len(aims.fresh)):
                aims.fresh[k] = 1
            return step, status
    return n, 0


@kernel
def full_steps(
    # model
    links, drives, springs,
    # in
    blocks, span, code, n, substeps, h, applied, wrenches, work, pull, b, aims,
    # out
    q, qd,
):  # fmt: skip
    """Take n steps of `substeps` times h with each block in turn; after a failure the blocks are at different steps.

    Returns:
        the fewest steps any block took, and 0; or 1 + a freedom without inertia; -1 - v for a freedom v that is not
        finite; -nv - 2 for a spring system that cannot be solved.
    """
    taken, status = n, 0
    for k in range(len(blocks)):
        for c in range(SPAN):
            span[c] = blocks[k, c]
        own = based(work, span[LINK])
        done, failed = _block_steps(
            links, drives, springs, span, code, n, substeps, h, applied, wrenches, own, pull, b, aims, q, qd
        )
        if done < taken:
            taken, status = done, failed
    return taken, status
