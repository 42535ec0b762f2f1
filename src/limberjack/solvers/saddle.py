"""One saddle system met by a direct primary solver and, for what is left over, anticipation.

Primary constraints are those the solver takes in one factorisation: a forest (`tree.py`). The others, loops and rows
that hold on one side, are auxiliary: their matrix comes from path-sparse responses, a complementarity problem gives
their forces, and one more solve spreads them (Baraff 1996, section 7).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from limberjack._jit import inner, outlined
from limberjack.constraints.system import System
from limberjack.solvers.dense import TOLERANCE, factor_psd, solve_psd
from limberjack.solvers.elimination import Tree, new_work, order_of, split
from limberjack.solvers.lcp import Workspace, new_workspace, solve_lcp
from limberjack.solvers.paths import (
    Responses,
    auxiliary_forces,
    auxiliary_matrix,
    auxiliary_rhs,
    empty_responses,
    trace,
)
from limberjack.solvers.tree import factor, solve

__all__ = ["NO_ROOM", "REFUSED", "Saddle", "factor_saddle", "grown", "list_row", "new_saddle", "solve_saddle"]

INFINITE = np.inf
# Statuses beside 0 and 1 + node: no room for the rows that act; no force meets a one-sided row.
NO_ROOM, REFUSED = -1, -2


class Saddle(NamedTuple):
    """Structure and scratch of the system; nu velocities, nr rows, k auxiliary rows at most at a time."""

    tree: Tree
    work: np.ndarray
    responses: Responses
    always: np.ndarray  # auxiliary constraints that always hold
    f: np.ndarray  # (nu,) right sides; f is changed by the solve
    r: np.ndarray  # (nr,)
    c: np.ndarray  # (nr,) compliance
    a: np.ndarray  # (nu,) the solution
    lam: np.ndarray  # (nr,)
    matrix: np.ndarray  # (k, k)
    factor: np.ndarray  # (k, k)
    order: np.ndarray  # (k,)
    low: np.ndarray  # (k,)
    high: np.ndarray  # (k,)
    side: np.ndarray  # (k,)
    force: np.ndarray  # (k,)
    left: np.ndarray  # (k,)
    guess: np.ndarray  # (k,) int8
    lcp: Workspace
    report: np.ndarray  # (4,) auxiliary rows, their rank, pivots, largest row left unmet


def new_saddle(system: System, held: int, room: int = 16) -> Saddle:
    """Return the solver of `system`, whose first `held` constraints always hold; room for so many one-sided rows."""
    nc = len(system.row_start) - 1
    parts = split(system, np.arange(nc) < held)
    tree = order_of(system, parts)
    always = parts.auxiliary[parts.auxiliary < held]
    rows = np.diff(system.row_start)
    room = min(room, nc - held)
    k = int(rows[always].sum()) + room
    count = len(always) + room
    touches = int(np.diff(system.touch_start).max(initial=0))
    responses = empty_responses(tree, count, int(rows.max(initial=0)), touches)
    nu, nr = int(system.body_start[-1]), int(system.row_start[-1])
    return Saddle(
        tree, new_work(tree), responses, always, np.zeros(nu), np.zeros(nr), np.zeros(nr), np.zeros(nu), np.zeros(nr),
        np.zeros((k, k)), np.zeros((k, k)), np.zeros(k, np.int64), *(np.zeros(k) for _ in range(5)),
        np.zeros(k, np.int8), new_workspace(k), np.zeros(4),
    )  # fmt: skip


def grown(system: System, held: int, saddle: Saddle) -> Saddle:
    """Return the solver with room for twice as many one-sided rows."""
    room = len(saddle.responses.constraint) - len(saddle.always)
    return new_saddle(system, held, max(16, 2 * room))


@outlined
def start_rows(
    # model
    system,
    # out
    saddle,
):  # fmt: skip
    """List the auxiliary constraints that always hold; return the number of rows listed."""
    rows = 0
    listed = saddle.responses
    for i in range(len(saddle.always)):
        c = saddle.always[i]
        listed.constraint[i] = c
        for _ in range(system.row_start[c + 1] - system.row_start[c]):
            saddle.low[rows], saddle.high[rows] = -INFINITE, INFINITE
            rows += 1
    listed.count[0] = len(saddle.always)
    return rows


@outlined
def list_row(c, rows, low, high, saddle):
    """List constraint c of one row with bounds on its force; return the number of rows listed, or NO_ROOM."""
    listed = saddle.responses
    if listed.count[0] == len(listed.constraint):
        return NO_ROOM
    listed.constraint[listed.count[0]] = c
    listed.count[0] += 1
    saddle.low[rows], saddle.high[rows] = low, high
    return rows + 1


@outlined
def factor_saddle(
    # model
    system,
    # in
    m, j,
    # out
    saddle,
):  # fmt: skip
    """Factor the primary system; return 0 or 1 + the node that has no inertia, or whose rows depend on each other."""
    return factor(system, saddle.tree, m, j, saddle.c, saddle.work)


@inner
def _alone(system, c, k, m, j):
    """Return about how much row k of constraint c moves along itself its bodies if nothing held them."""
    out = 0.0
    for t in range(system.touch_start[c], system.touch_start[c + 1]):
        body = system.touch_body[t]
        dim = system.body_start[body + 1] - system.body_start[body]
        o, d = system.block_start[t] + k * dim, system.mass_start[body]
        for i in range(dim):
            out += j[o + i] * j[o + i] / m[d + i * (dim + 1)]
    return out


@outlined
def solve_saddle(
    # model
    system,
    # in
    rows, m, j,
    # out
    saddle,
):  # fmt: skip
    """Fill saddle.a and saddle.lam from saddle.f and saddle.r with the rows listed; f gets the auxiliary forces added.

    Returns:
        0, NO_ROOM, or REFUSED when no force meets a one-sided row.
    """
    s, listed = saddle, saddle.responses
    for k in range(len(s.lam)):
        s.lam[k] = 0.0
    solve(system, s.tree, s.work, s.f, s.r, s.a, s.lam)
    s.report[0] = rows
    if rows == 0:
        return 0
    if trace(system, s.tree, listed) != 0:
        return NO_ROOM
    auxiliary_matrix(system, s.tree, j, s.work, listed, s.matrix)
    auxiliary_rhs(system, j, listed, s.r, s.a, s.side)
    bounded = False
    for i in range(listed.count[0]):
        c, to = listed.constraint[i], listed.row_start[i]
        for k in range(listed.row_start[i + 1] - to):
            if s.matrix[to + k, to + k] <= TOLERANCE * _alone(system, c, k, m, j):
                # the forest already holds this row: what is left is rounding, and counts as nothing
                s.side[to + k] = 0.0
                for other in range(rows):
                    s.matrix[to + k, other] = 0.0
                    s.matrix[other, to + k] = 0.0
            s.matrix[to + k, to + k] += s.c[system.row_start[c] + k]
    for i in range(rows):
        bounded = bounded or s.low[i] > -INFINITE
    status = 0
    if bounded:
        for i in range(rows):
            s.guess[i] = 0
        if solve_lcp(rows, TOLERANCE, s.matrix, s.side, s.low, s.high, s.lcp, s.guess, s.force, s.left) != 0:
            status = REFUSED
        s.report[1] = rows
    else:
        for i in range(rows):
            for k in range(i + 1):
                s.factor[i, k] = s.matrix[i, k]
        rank = factor_psd(rows, TOLERANCE, s.factor, s.order, s.left)
        for i in range(rows):
            s.left[i] = -s.side[i]
        s.report[3] = solve_psd(rows, rank, s.factor, s.order, s.left, s.force)
        s.report[1] = rank
    auxiliary_forces(system, j, listed, s.force, s.f, s.lam)
    # the primary rows of lam are solved for again; the auxiliary ones stay
    solve(system, s.tree, s.work, s.f, s.r, s.a, s.lam)
    return status
