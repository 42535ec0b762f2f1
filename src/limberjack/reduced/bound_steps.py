"""Calls of the variational step whose arguments are unboxed once (`_bound.py`).

A call keeps the state at its start and goes back to it after a failure, copies the forces that act, from which the
velocities at q are derived later, and counts its steps: nothing is left to do in Python but to look at the status.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from limberjack._bound import arguments_of
from limberjack._jit import inner, kernel
from limberjack.model.arrays import Drives, Links, Springs
from limberjack.reduced.variational import Carried, External, VariationalWork, take_variational_steps, velocities_at
from limberjack.reduced.variational_rows import (
    ContactSearch,
    RowSet,
    constrained_velocities_at,
    take_variational_contact_steps,
    take_variational_row_steps,
)
from limberjack.spatial.copies import copy, copy_rows

__all__ = [
    "ContactArguments",
    "Kept",
    "Motion",
    "RowArguments",
    "TreeArguments",
    "contact_arguments",
    "contact_steps",
    "new_motion",
    "passing_motion",
    "row_steps",
    "row_velocities",
    "tree_steps",
    "tree_velocities",
]


class Motion(NamedTuple):
    """State of trees, and what acts on them; k blocks."""

    links: Links
    drives: Drives
    springs: Springs
    applied: np.ndarray  # (nv,) joint forces
    acted_drives: Drives  # those of the last call
    acted: np.ndarray  # (nv,) joint forces of the last call
    blocks: np.ndarray  # (k, SPAN)
    span: np.ndarray  # (SPAN,) scratch: the block in work
    work: VariationalWork
    carried: Carried
    q: np.ndarray
    qd: np.ndarray
    q_known: np.ndarray  # (nq,) q as the last call left it
    counts: np.ndarray  # (COUNTS,) of the last call
    taken: np.ndarray  # (1,) steps of all calls
    current: np.ndarray  # (1,) whether qd is the velocity at q
    time: np.ndarray  # (1,) [s]
    q_before: np.ndarray  # (nq,) at the start of a call, as are the arrays below
    before: Carried


class Kept(NamedTuple):
    """State of the rows at the start of a call."""

    near: np.ndarray
    applied: np.ndarray  # forces on loop joints
    state: np.ndarray
    multipliers: np.ndarray


class TreeArguments(NamedTuple):
    """Of steps of trees without rows."""

    motion: Motion


class RowArguments(NamedTuple):
    """Of steps of trees with rows."""

    motion: Motion
    rows: RowSet
    kept: Kept


class ContactArguments(NamedTuple):
    """Of steps of trees with contacts or dry friction."""

    motion: Motion
    rows: RowSet
    kept: Kept
    contact: ContactSearch
    kept_name: np.ndarray  # (c, 3) of the warm start
    kept_impulse: np.ndarray  # (c, 7)
    kept_dry: np.ndarray  # (nv,) forces of dry friction, or (0,)


def new_motion(
    links: Links, drives: Drives, springs: Springs, applied: np.ndarray, blocks: np.ndarray, span: np.ndarray,
    work: VariationalWork, carried: Carried, q: np.ndarray, qd: np.ndarray, q_known: np.ndarray, counts: np.ndarray,
    taken: np.ndarray, current: np.ndarray, time: np.ndarray,
) -> Motion:  # fmt: skip
    """Return the state of trees with room for what a call keeps."""
    return Motion(
        links, drives, springs, applied, Drives(*(array.copy() for array in drives)), applied.copy(), blocks, span,
        work, carried, q, qd, q_known, counts, taken, current, time, q.copy(),
        Carried(*(array.copy() for array in carried)),
    )  # fmt: skip


def passing_motion(
    links: Links, external: External, blocks: np.ndarray, span: np.ndarray, work: VariationalWork, carried: Carried,
    q: np.ndarray, qd: np.ndarray, counts: np.ndarray,
) -> Motion:  # fmt: skip
    """Return the state of trees for one call that keeps nothing: what it would keep is written to where it is."""
    return Motion(
        links, external.drives, external.springs, external.applied, external.drives, external.applied, blocks, span,
        work, carried, q, qd, q, counts, np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(1), q, carried,
    )  # fmt: skip


def contact_arguments(motion: Motion, rows: RowSet, contact: Any) -> ContactArguments:
    """Return arguments for one call that keeps nothing."""
    c, warm = rows.constraint, contact.warm_start
    kept = Kept(c.near, rows.loops.tau, c.state, c.multipliers)
    return ContactArguments(motion, rows, kept, contact, warm.name, warm.impulse, contact.state.dry)


@inner
def _copy_carried(source, target):
    copy_rows(source.momentum, target.momentum)
    copy_rows(source.history, target.history)
    copy_rows(source.clock, target.clock)


@inner
def _begin(m):
    copy(m.q, m.q_before)
    _copy_carried(m.carried, m.before)
    for c in range(len(m.counts)):
        m.counts[c] = 0


@inner
def _back(m):
    copy(m.q_before, m.q)
    _copy_carried(m.before, m.carried)


@inner
def _end(m, taken, time):
    """Take note of q, and of the forces: the velocity at q has half of their impulse, not of those set afterwards."""
    copy(m.q, m.q_known)
    copy(m.applied, m.acted)
    copy_rows(m.drives.scalar, m.acted_drives.scalar)
    copy_rows(m.drives.ball, m.acted_drives.ball)
    m.taken[0] += taken
    m.current[0], m.time[0] = 0, time


@inner
def _keep_rows(rows, kept):
    copy(rows.constraint.near, kept.near)
    copy(rows.loops.tau, kept.applied)
    copy_rows(rows.constraint.state, kept.state)
    copy(rows.constraint.multipliers, kept.multipliers)


@inner
def _return_rows(rows, kept):
    copy(kept.near, rows.constraint.near)
    copy(kept.applied, rows.loops.tau)
    copy_rows(kept.state, rows.constraint.state)
    copy(kept.multipliers, rows.constraint.multipliers)


@kernel
def tree_steps(bound, wrenches, stiff, iterations, n, h, time, keep):
    """Take n steps of trees; see `take_variational_steps`. With `keep` a failure changes nothing."""
    m = arguments_of(bound).motion
    external = External(m.drives, m.springs, stiff, m.applied, wrenches)
    if keep:
        _begin(m)
    taken, status = take_variational_steps(
        m.links, external, m.blocks, len(m.blocks), m.span, iterations, n, h, m.work, m.carried, m.q, m.qd, m.counts
    )
    if status != 0 and keep:
        _back(m)
    elif taken > 0:
        _end(m, taken, time + taken * h)
    return taken, status


@kernel
def tree_velocities(bound, wrenches):
    """Fill the velocities at q; return a status."""
    m = arguments_of(bound).motion
    external = External(m.acted_drives, m.springs, False, m.acted, wrenches)
    return velocities_at(m.links, external, m.blocks, 0, len(m.blocks), m.span, m.work, m.carried, m.q, m.qd)


@kernel
def row_steps(bound, wrenches, stiff, iterations, n, h, time, keep):
    """Take n steps of trees with rows; see `take_variational_row_steps`. With `keep` a failure changes nothing."""
    a = arguments_of(bound)
    m = a.motion
    external = External(m.drives, m.springs, stiff, m.applied, wrenches)
    if keep:
        _begin(m)
        _keep_rows(a.rows, a.kept)
    taken, status = take_variational_row_steps(
        m.links, external, a.rows, m.blocks, m.span, iterations, n, h, time, m.work, m.carried, m.q, m.qd, m.counts
    )
    if status != 0 and keep:
        _back(m)
        _return_rows(a.rows, a.kept)
    elif taken > 0:
        _end(m, taken, time + taken * h)
    return taken, status


@kernel
def row_velocities(motion, rows, stiff, wrenches, time, whole):
    """Fill the velocities at q, which satisfy the rows; see `constrained_velocities_at`."""
    m, r = arguments_of(motion), arguments_of(rows)
    external = External(m.acted_drives, m.springs, stiff, m.acted, wrenches)
    return constrained_velocities_at(m.links, external, r, m.blocks, m.span, time, whole, m.work, m.carried, m.q, m.qd)


@kernel
def contact_steps(bound, wrenches, stiff, iterations, n, h, time, impact_after, keep):
    """Take n steps with contacts; see `take_variational_contact_steps`. With `keep` a failure changes nothing."""
    a = arguments_of(bound)
    m, cache = a.motion, a.contact.warm_start
    external = External(m.drives, m.springs, stiff, m.applied, wrenches)
    before = cache.count[0]
    if keep:
        _begin(m)
        _keep_rows(a.rows, a.kept)
        for k in range(before):
            for c in range(3):
                a.kept_name[k, c] = cache.name[k, c]
            for c in range(cache.impulse.shape[1]):
                a.kept_impulse[k, c] = cache.impulse[k, c]
        copy(a.contact.state.dry, a.kept_dry)
    taken, status = take_variational_contact_steps(
        m.links, external, a.rows, a.contact, m.blocks, m.span, iterations, n, h, time, impact_after, m.work, m.carried,
        m.q, m.qd, m.counts,
    )  # fmt: skip
    if status != 0 and keep:
        _back(m)
        _return_rows(a.rows, a.kept)
        cache.count[0] = before
        for k in range(before):
            for c in range(3):
                cache.name[k, c] = a.kept_name[k, c]
            for c in range(cache.impulse.shape[1]):
                cache.impulse[k, c] = a.kept_impulse[k, c]
        copy(a.kept_dry, a.contact.state.dry)
    elif taken > 0:
        _end(m, taken, time + taken * h)
    return taken, status
