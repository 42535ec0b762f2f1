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
from limberjack.forces import Wrenches
from limberjack.maximal.contact_rows import list_rows, put_frames, set_wanted, set_wrenches
from limberjack.maximal.gripping import with_slots
from limberjack.maximal.meeting import Setup, State, look_at
from limberjack.maximal.places import diagonal_of, places_of
from limberjack.model.model import Model
from limberjack.solvers.cones import sweep_cones
from limberjack.solvers.elimination import new_work, order_of, split
from limberjack.solvers.lcp import new_workspace, solve_lcp
from limberjack.solvers.paths import auxiliary_matrix, empty_responses, trace
from limberjack.solvers.tree import factor

__all__ = ["ContactRows", "put_contacts"]

# Overlap beyond the first is pushed out at this rate, no faster than the last [m, 1/s, m/s].
_SLOP, _RATE, _FASTEST = 1e-4, 10.0, 1.0
# Slower impacts do not bounce, as a multiple of the speed that weight gains in a step.
_BOUNCES = 2.0
# Rows that much of whose diagonal is left by others follow from them.
_DEPENDENT = 1e-11
_SWEEPS, _STILL = 2000, 1e-13


def put_contacts(
    whole: Maximal, first: int, static: int, contacts: Contacts, pose: np.ndarray, slot: np.ndarray
) -> None:
    """Write the frames of contacts into the slots of `with_slots`.

    Args:
        whole: with slots from its constraint `first` on, `static` of them for one body.
        first: see above.
        static: see above.
        contacts: found at the poses.
        pose: of the bodies.
        slot: filled with the constraint of each contact.
    """
    table, system = whole.table, whole.system
    put_frames(
        first, static, system.row_start, table.row_pair, system.touch_start, int(contacts.count[0]), contacts.link_a,
        contacts.link_b, contacts.point, contacts.normal, pose, table.pair_link, table.pair_frame, system.touch_body,
        slot,
    )  # fmt: skip


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
        self._limits, limits = np.array([base.held, self._first], np.int64), self._first - base.held
        most = len(self._always) + limits + sum(room)
        self._responses = empty_responses(
            self._tree, most, int(wide.max(initial=0)), int(np.diff(system.touch_start).max(initial=0))
        )
        self._held, self._spots = int(wide[self._always].sum()), places_of(whole.system, self._always)
        n = self._held + limits + self._rows * sum(room)
        self._diagonal = diagonal_of(system)
        self._matrix, self._lcp = np.zeros((n, n)), new_workspace(n)
        # rotors give way to impulses by 1 / inertia, springs and grips without limit
        role = whole.table.role
        self._give = np.where(role == SPRING, 1e12, np.where(role == ROTOR, whole.table.soft[:, 0], 0.0))
        self._terms = int(base.table.term_start[base.system.row_start[self._first]])
        self._pull = float(np.sqrt((links.gravity**2).sum()))
        self._slot, self._listed = np.zeros(sum(room), np.int64), np.zeros(n, np.int64)
        self._alone = np.zeros(self._held)
        self._vectors = (*(np.zeros(n) for _ in range(5)), np.zeros(n, np.int8))
        self.sweeps = 0

    def forces(
        self, contacts: Contacts, e: Any, u: np.ndarray, foreseen: np.ndarray, time: float, h: float, own: Wrenches
    ) -> tuple[np.ndarray, Wrenches] | None:
        """Return the force (n, 3) on the first body of each contact over a step h, world axes, and all wrenches.

        None if no forces fit.

        Args:
            contacts: found at the poses now.
            e: the stepper's evaluation, for turns counted.
            u: (nu,) velocities now.
            foreseen: (nu,) velocities at the end of the step, nothing touching.
            time: [s].
            h: [s].
            own: wrenches that act besides.
        """
        n, mine, system, r = int(contacts.count[0]), self._e, self._whole.system, self._responses
        put_contacts(self._whole, self._first, self._static, contacts, self._s.pose, self._slot)
        mine.near[: self._terms] = e.near[: self._terms]
        mine.state[: len(e.state)] = e.state
        before = mine.values[:, 1]
        if contacts.restitution[:n].any():
            self._s.u[:] = u
            look_at(self._setup, time, mine, self._s)
            before = mine.values[:, 1].copy()
        self._s.u[:] = foreseen
        look_at(self._setup, time, mine, self._s)
        if factor(system, self._tree, mine.m, mine.j, self._give, self._work) != 0:
            return None
        listed, first, _ = list_rows(
            system.row_start, self._always, self._limits, h, n, self._slot, mine.values, r.constraint, self._listed
        )
        r.count[0] = listed
        if trace(system, self._tree, r) != 0:
            return None
        auxiliary_matrix(system, self._tree, mine.j, self._work, r, self._matrix)
        if self._held:
            row, in_j, in_u = self._spots
            weights = mine.j[in_j] ** 2 / mine.m[self._diagonal[in_u]]
            self._alone[:] = _DEPENDENT * np.bincount(row, weights, minlength=self._held)
        side, low, high, force, left, state = self._vectors
        rows = set_wanted(
            self._held, self._rows, self._give, _SLOP, _RATE, _FASTEST, _BOUNCES * h * self._pull, h, first, n,
            self._listed, mine.values, np.ascontiguousarray(before), contacts.depth, contacts.restitution, self._alone,
            self._matrix, side, low, high,
        )  # fmt: skip
        force[:rows], state[:rows] = 0.0, 0
        if self._rows == 3:
            cones = (self._matrix, side, low, contacts.friction)
            self.sweeps, _ = sweep_cones(first, n, _SWEEPS, _STILL, *cones, force)
        elif solve_lcp(rows, _DEPENDENT, self._matrix, side, low, high, self._lcp, state, force, left) != 0:
            return None
        k = len(own.link)
        pushes, link, data = np.zeros((n, 3)), np.empty(k + 2 * n, np.int64), np.empty((k + 2 * n, 9))
        link[:k], data[:k] = own.link, own.data
        last = set_wrenches(
            self._rows, self._whole.center, h, first, n, contacts.link_a, contacts.link_b, contacts.point,
            contacts.normal, force, self._s.pose, k, pushes, link, data,
        )  # fmt: skip
        return pushes, Wrenches(link[:last], data[:last])
