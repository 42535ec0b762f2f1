"""Where the pivoting of `lcp` starts and ends: the clamped set and forces of given states, and their last correction.

A state is enough to restore everything: the free rows' forces follow from w = 0, the others rest at their bounds. So a
guess is used by setting it up, whatever it is: rows guessed free whose force then leaves its bounds are put to
that bound, until none is left.
"""

from __future__ import annotations

from math import inf, sqrt
from typing import NamedTuple

import numpy as np

from limberjack._jit import inner
from limberjack.solvers.clamped import add_row, depends, meet_row, solve_clamped, take_out
from limberjack.solvers.dense import factor_psd
from limberjack.solvers.strides import add_to

__all__ = [
    "AT_HIGH",
    "AT_LOW",
    "FAILED",
    "FREE",
    "MEMBERS",
    "PIVOTS",
    "PRODUCTS",
    "REDUNDANT",
    "ROUNDS",
    "UNKNOWN",
    "Workspace",
    "begin",
    "is_equality",
    "level",
    "new_workspace",
    "refine",
]

# What a row does. UNKNOWN, as a guess, starts from the allowed force nearest to 0.
UNKNOWN, FREE, AT_LOW, AT_HIGH, REDUNDANT, FAILED = 0, 1, 2, 3, 4, 5
# Places of Workspace.counts.
MEMBERS, PIVOTS, ROUNDS, PRODUCTS = 0, 1, 2, 3

# Forces that should be 0 are roundings of the others: this part of the largest number in play, by the scale of the row,
# belongs to every sum. With _ZERO it makes one unit in the last place.
_FLOOR = 2e-3


class Workspace(NamedTuple):
    """The arrays `solve_lcp` works in, for problems of up to m rows."""

    factor: np.ndarray  # (m, m) L and D of the clamped rows
    members: np.ndarray  # (m,) int64 the clamped rows
    place: np.ndarray  # (m,) int64 place of each row among them, or -1
    order: np.ndarray  # (m,) int64
    row: np.ndarray  # (m,) L^-1 A_Cd
    move: np.ndarray  # (m,) df of the clamped rows, by place
    change: np.ndarray  # (m,) dw by row; levels of w at the end
    root: np.ndarray  # (m,) sqrt(A_ii)
    settled: np.ndarray  # (m,) int8 whether the row's conditions are to be kept
    skipped: np.ndarray  # (m,) int8 whether the row follows from the clamped ones
    counts: np.ndarray  # (4,) int64 clamped rows, pivots, rounds, multiplications


def new_workspace(m: int) -> Workspace:
    """Return arrays for problems of up to m rows."""
    return Workspace(
        factor=np.zeros((m, m)),
        members=np.zeros(m, np.int64),
        place=np.zeros(m, np.int64),
        order=np.zeros(m, np.int64),
        row=np.zeros(m),
        move=np.zeros(m),
        change=np.zeros(m),
        root=np.zeros(m),
        settled=np.zeros(m, np.int8),
        skipped=np.zeros(m, np.int8),
        counts=np.zeros(4, np.int64),
    )


@inner
def is_equality(i, lo, hi):
    """Return whether row i has no bounds."""
    return lo[i] == -inf and hi[i] == inf


@inner
def largest(n, b, work, f):
    """Return the largest of forces and of accelerations without them, by the scales of their rows."""
    most = 0.0
    for i in range(n):
        if work.root[i] > 0.0:
            most = max(most, work.root[i] * abs(f[i]), abs(b[i]) / work.root[i])
    return most


@inner
def level(n, i, a, b, work, f):
    """Return the sum of the sizes of the terms of w_i."""
    s = abs(b[i]) + _FLOOR * work.root[i] * largest(n, b, work, f)
    for j in range(n):
        s += abs(a[i, j] * f[j])
    return s


@inner
def _clamp_equalities(n, tolerance, a, lo, hi, work, state, f):
    """Start the clamped set with the independent ones of the equalities; return their number."""
    factor, members, place = work.factor, work.members, work.place
    count = 0
    for i in range(n):
        if is_equality(i, lo, hi):
            members[count] = i
            count += 1
    for p in range(count):
        for q in range(p + 1):
            factor[p, q] = a[members[p], members[q]]
    k = factor_psd(count, tolerance, factor, work.order, work.row)
    for p in range(count):
        place[p] = members[work.order[p]]
    for p in range(count):
        i = place[p]
        members[p] = i
        state[i] = FREE if p < k else REDUNDANT
        f[i] = 0.0
    for i in range(n):
        place[i] = -1
    for p in range(k):
        place[members[p]] = p
    return k


@inner
def _rest(i, lo, hi, state, f):
    """Put the force of a row outside of the clamped set where its state says, or nearest to 0; set the state."""
    at = state[i]
    if at == AT_LOW and lo[i] > -inf:
        f[i] = lo[i]
    elif at == AT_HIGH and hi[i] < inf:
        f[i] = hi[i]
    else:
        f[i] = min(max(0.0, lo[i]), hi[i])
        state[i] = AT_LOW if f[i] == lo[i] else AT_HIGH if f[i] == hi[i] else UNKNOWN


@inner
def sum_rows(n, a, b, f, w):
    """Fill w = A f + b."""
    for i in range(n):
        w[i] = b[i]
    for j in range(n):
        if f[j] != 0.0:
            add_to(w, 0, n, f[j], j, a)


@inner
def _clamp_guess(n, k, tolerance, a, lo, hi, work, state, f):
    """Add the rows guessed FREE to the clamped set, rest the others where they were guessed; return the new number."""
    for i in range(n):
        work.root[i] = sqrt(a[i, i]) if a[i, i] > 0.0 else 0.0
        work.skipped[i] = 0
        work.settled[i] = 0
        if is_equality(i, lo, hi) or lo[i] == hi[i]:
            work.settled[i] = 1
        if is_equality(i, lo, hi):
            continue
        if state[i] == FREE and lo[i] < hi[i]:
            s = meet_row(k, i, a, work.members, work.factor, work.row, work.move)
            work.counts[PRODUCTS] += k * k
            if not depends(k, i, s, tolerance, a, work.members, work.move):
                k = add_row(k, i, s, work.members, work.place, work.factor, work.row)
                work.settled[i] = 1
                continue
        _rest(i, lo, hi, state, f)
    return k


@inner
def begin(n, tolerance, a, b, lo, hi, work, state, f, w):
    """Set up the clamped set, forces and w of the states given, without rows whose force would leave its bounds."""
    members, place, move = work.members, work.place, work.move
    k = _clamp_equalities(n, tolerance, a, lo, hi, work, state, f)
    k = _clamp_guess(n, k, tolerance, a, lo, hi, work, state, f)
    while True:
        for p in range(k):
            f[members[p]] = 0.0
        sum_rows(n, a, b, f, w)
        for p in range(k):
            move[p] = -w[members[p]]
        solve_clamped(k, work.factor, move)
        for p in range(k):
            f[members[p]] = move[p]
        work.counts[PRODUCTS] += k * k + 2 * n * k
        before = k
        for i in range(n):
            if place[i] >= 0 and (f[i] < lo[i] or f[i] > hi[i]):
                state[i] = AT_LOW if f[i] < lo[i] else AT_HIGH
                f[i] = lo[i] if f[i] < lo[i] else hi[i]
                work.settled[i] = 0
                k = take_out(k, place[i], members, place, work.factor, work.row)
                work.counts[PRODUCTS] += k * k
        if k == before:
            break
    sum_rows(n, a, b, f, w)
    work.counts[MEMBERS] = k


@inner
def refine(n, a, b, lo, hi, work, f, w):
    """Correct the clamped forces by what w = A f + b leaves of their rows; fill w, and change with its levels."""
    k = work.counts[MEMBERS]
    sum_rows(n, a, b, f, w)
    for p in range(k):
        work.move[p] = -w[work.members[p]]
    solve_clamped(k, work.factor, work.move)
    for p in range(k):
        i = work.members[p]
        f[i] = min(max(f[i] + work.move[p], lo[i]), hi[i])
    sum_rows(n, a, b, f, w)
    floor = _FLOOR * largest(n, b, work, f)
    for i in range(n):
        work.change[i] = abs(b[i]) + floor * work.root[i]
    for j in range(n):
        t = abs(f[j])
        if t > 0.0:
            for i in range(n):
                work.change[i] += abs(a[j, i]) * t
    work.counts[PRODUCTS] += k * k + 5 * n * k
