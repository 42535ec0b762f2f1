"""Forces at contacts of bodies under constraints: the answer of the joints anticipated, then complementarity.

At the poses of the start, with the velocities that the step would end with if nothing touched:

    v = A lam + b,   A = J Mhat^-1 J^T,   b = J u - wanted

where Mhat^-1 is the response of the bodies with their joints (Baraff 1996, section 7). Without friction it is one
complementarity problem with the loops and the limits that are reached, exact; with friction the cones are swept.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from limberjack.collision.contacts import Contacts
from limberjack.constraints.maximal import Maximal, new_evaluation
from limberjack.constraints.table import DRIVE, ROTOR, SPRING
from limberjack.maximal.gripping import with_slots
from limberjack.maximal.meeting import Setup, State, look_at
from limberjack.maximal.places import diagonal_of, places_of
from limberjack.model.model import Model
from limberjack.solvers.cones import sweep_cones
from limberjack.solvers.elimination import new_work, order_of, split
from limberjack.solvers.lcp import new_workspace, solve_lcp
from limberjack.solvers.paths import auxiliary_matrix, empty_responses, trace
from limberjack.solvers.tree import factor

__all__ = ["ContactRows", "matrices"]

# Overlap beyond the first is pushed out at this rate, no faster than the last [m, 1/s, m/s].
_SLOP, _RATE, _FASTEST = 1e-4, 10.0, 1.0
# Slower impacts do not bounce, as a multiple of the speed that weight gains in a step.
_BOUNCES = 2.0
# Rows that much of whose diagonal is left by others follow from them.
_DEPENDENT = 1e-11
_SWEEPS, _STILL = 2000, 1e-13


def matrices(pose: np.ndarray) -> np.ndarray:
    """Return the rotation matrices (n, 3, 3) of poses: position, quaternion, ..."""
    w, x, y, z = pose[:, 3:7].T
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return np.array(rows).transpose(2, 0, 1)


def _frames(normal: np.ndarray) -> np.ndarray:
    """Return rotations (n, 3, 3) whose z axes, the last columns, are the unit vectors `normal`."""
    z = np.abs(normal[:, 2]) < 0.7
    side = np.where(
        z[:, None],
        np.column_stack([-normal[:, 1], normal[:, 0], 0 * normal[:, 0]]),
        np.column_stack([0 * normal[:, 0], -normal[:, 2], normal[:, 1]]),
    )
    side /= np.sqrt((side * side).sum(axis=1))[:, None]
    return np.stack([side, np.cross(normal, side), normal], axis=2)


class ContactRows:
    """Rows of contacts on a model in maximal coordinates, all bodies rigid, and what answers them.

    Args:
        model: the model.
        base: the model in maximal coordinates.
        state: the state of its stepper, whose poses are looked at.
        room: contacts with the ground, and between bodies.
        friction: whether contacts rub.
    """

    def __init__(self, model: Model, base: Maximal, state: State, room: tuple[int, int], *, friction: bool) -> None:
        reads = int((base.table.role == DRIVE).sum())
        self._first = len(base.names) - reads
        self._rows = 3 if friction else 1
        self._static, self.room = room[0], room
        self._whole = with_slots(model, base, self._first, *room, self._rows)
        whole, system = self._whole, self._whole.system
        links, count = model.arrays.links, len(whole.names)
        sizes = np.array([base.held, count - reads, count], np.int64)
        self._setup = Setup(
            whole.bodies, system, whole.table, whole.touch, whole.soft, whole.center, sizes, links.gravity
        )
        self._e, self._base = new_evaluation(whole), base
        self._s = state._replace(
            u=np.zeros_like(state.u), q=state.q.copy(), qd=state.qd.copy(), pressed=np.zeros(len(whole.table.joint)),
            report=np.zeros(4),
        )  # fmt: skip
        parts = split(system, np.arange(count) < base.held)
        self._tree = order_of(system, parts)
        self._always = parts.auxiliary[parts.auxiliary < base.held]
        self._work = new_work(self._tree)
        wide = np.diff(system.row_start)
        self._limits = np.arange(base.held, self._first)
        most = len(self._always) + len(self._limits) + sum(room)
        self._responses = empty_responses(
            self._tree, most, int(wide.max(initial=0)), int(np.diff(system.touch_start).max(initial=0))
        )
        self._held, self._spots = int(wide[self._always].sum()), places_of(whole.system, self._always)
        n = self._held + len(self._limits) + self._rows * sum(room)
        self._diagonal = diagonal_of(system)
        self._matrix, self._lcp = np.zeros((n, n)), new_workspace(n)
        # rotors give way to impulses by 1 / inertia, springs and grips without limit
        role = whole.table.role
        self._give = np.where(role == SPRING, 1e12, np.where(role == ROTOR, whole.table.soft[:, 0], 0.0))
        self.sweeps = 0

    def _put(self, contacts: Contacts, turns: np.ndarray) -> np.ndarray:
        """Write the frames of the contacts into their slots; return the slot of each."""
        n = int(contacts.count[0])
        a, b = contacts.link_a[:n], contacts.link_b[:n]
        ground = b < 0
        slot = np.where(ground, np.cumsum(ground) - 1, self._static + np.cumsum(~ground) - 1)
        table, system, pose = self._whole.table, self._whole.system, self._s.pose
        pair = table.row_pair[system.row_start[self._first + slot], 0]
        axes, point = _frames(contacts.normal[:n]), contacts.point[:n]
        table.pair_link[pair, 0], table.pair_link[pair, 1] = b, a
        for end, body in ((12, a), (0, b)):
            turn = np.where((body >= 0)[:, None, None], turns[body].transpose(0, 2, 1), np.eye(3))
            place = point - np.where((body >= 0)[:, None], pose[body, :3], 0.0)
            table.pair_frame[pair, end : end + 9] = np.einsum("nij,njk->nik", turn, axes).reshape(-1, 9)
            table.pair_frame[pair, end + 9 : end + 12] = np.einsum("nij,nj->ni", turn, place)
        start = system.touch_start[self._first + slot]
        system.touch_body[start] = a
        system.touch_body[start[~ground] + 1] = b[~ground]
        return slot

    def _wanted(self, contacts: Contacts, rows: np.ndarray, before: np.ndarray, after: np.ndarray, h: float) -> Any:
        """Return the velocity each contact may not fall below; a gap may close within the step."""
        n = int(contacts.count[0])
        depth, bounce = contacts.depth[:n], contacts.restitution[:n]
        out = np.where(depth < 0.0, depth / h, np.minimum(_RATE * np.maximum(depth - _SLOP, 0.0), _FASTEST))
        slow = _BOUNCES * h * float(np.sqrt((self._setup.gravity**2).sum()))
        hit = (bounce > 0.0) & (before[rows] < -slow) & (after[rows] < out)
        return np.where(hit, np.maximum(out, -bounce * before[rows]), out)

    def forces(self, contacts: Contacts, e: Any, u: np.ndarray, foreseen: np.ndarray, time: float, h: float) -> Any:
        """Return the force (n, 3) on the first body of each contact over a step h, world axes, or None if none fit.

        Args:
            contacts: found at the poses now.
            e: the stepper's evaluation, for turns counted.
            u: (nu,) velocities now.
            foreseen: (nu,) velocities at the end of the step, nothing touching.
            time: [s].
            h: [s].
        """
        n, mine, system = int(contacts.count[0]), self._e, self._whole.system
        slot = self._put(contacts, matrices(self._s.pose))
        terms = int(self._base.table.term_start[self._base.system.row_start[self._first]])
        mine.near[:terms] = e.near[:terms]
        mine.state[: len(e.state)] = e.state
        before = mine.values[:, 1]
        if contacts.restitution[:n].any():
            self._s.u[:] = u
            look_at(self._setup, time, mine, self._s)
            before = mine.values[:, 1].copy()
        self._s.u[:] = foreseen
        look_at(self._setup, time, mine, self._s)
        value, rate = mine.values[:, 0], mine.values[:, 1]
        failed = factor(system, self._tree, mine.m, mine.j, self._give, self._work)
        if failed != 0:
            return None
        sided = system.row_start[self._limits]
        near = self._limits[value[sided] + h * np.minimum(rate[sided], 0.0) <= 0.0]
        listed = np.concatenate([self._always, near, self._first + slot])
        self._responses.constraint[: len(listed)], self._responses.count[0] = listed, len(listed)
        if trace(system, self._tree, self._responses) != 0:
            return None
        auxiliary_matrix(system, self._tree, mine.j, self._work, self._responses, self._matrix)
        rows = np.concatenate([np.arange(*system.row_start[c : c + 2].tolist()) for c in listed.tolist()])
        side, first = rate[rows].copy(), len(rows) - self._rows * n
        self._matrix[np.arange(len(rows)), np.arange(len(rows))] += self._give[rows]
        held = self._held
        # what gives way keeps the velocity it was foreseen with; rows that the tree already holds count as nothing
        side[self._give[rows] > 0.0] = 0.0
        row, in_j, in_u = self._spots
        alone = np.bincount(row, mine.j[in_j] ** 2 / mine.m[self._diagonal[in_u]], minlength=held)
        idle = np.flatnonzero(np.diag(self._matrix)[:held] <= _DEPENDENT * alone)
        self._matrix[idle, : len(rows)] = self._matrix[: len(rows), idle] = side[idle] = 0.0
        side[held:first] += np.maximum(value[rows[held:first]], 0.0) / h
        own = system.row_start[self._first + slot]
        side[first :: self._rows] -= self._wanted(contacts, own, before, rate, h)
        low = np.where(np.arange(len(rows)) < held, -np.inf, 0.0)
        push = self._solve(side, low, first, contacts.friction[:n])
        if push is None:
            return None
        axes = _frames(contacts.normal[:n])[:, :, [2, 0, 1][: self._rows]]
        return np.einsum("nij,nj->ni", axes, push[first:].reshape(n, self._rows)) / h

    def _solve(self, side: np.ndarray, low: np.ndarray, first: int, friction: np.ndarray) -> np.ndarray | None:
        """Return the impulses of all rows, or None if none fit."""
        n, force = len(side), np.zeros(len(side))
        if self._rows == 3:
            a = np.ascontiguousarray(self._matrix[:n, :n])
            self.sweeps, _ = sweep_cones(first, len(friction), _SWEEPS, _STILL, a, side, low, friction, force)
            return force
        state, left, high = np.zeros(n, np.int8), np.zeros(n), np.full(n, np.inf)
        status = solve_lcp(n, _DEPENDENT, self._matrix, side, low, high, self._lcp, state, force, left)
        return None if status != 0 else force
