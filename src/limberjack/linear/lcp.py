"""Mixed complementarity problems by pivoting: limits, contacts without friction, box bounds and equalities together.

    w = A f + b,   A symmetric positive semidefinite,   and in each row one of
    lo < f < hi  and  w = 0        f = lo  and  w >= 0        f = hi  and  w <= 0

Rows without bounds are equalities; lo = 0 alone gives f >= 0, w >= 0, f w = 0. The solution minimises
f^T A f / 2 + b^T f within the bounds.

| symbol | array | meaning |
|---|---|---|
| C | active | the active set: k rows with w = 0, in the order in which they were added |
| L, D | factor | L D L^T of A_CC: unit L below the diagonal, D on it |
| y | row | L^-1 A_Cd for a row d outside C |
| v | move | A_CC^-1 A_Cd |
| s | returned | Schur complement of A_dd: A_dd - A_dC v |

Method: the rows settled so far keep their conditions while the force of one more row d is driven until its own holds.
Equalities come first, together. In a drive of row d the active set follows by df_C = -A_CC^-1 A_Cd, and a pivot
happens at the first of: w_d = 0, d joins C; f_d at a bound, d stays there; f_i at a bound, i leaves C; w_i = 0, i joins
C. The row to drive is the one most violated, which takes fewer pivots than the order of rows would.

Adding a row to the factor of A_CC is one substitution; removing one is a rank-one update of the rows after it (Gill,
Golub, Murray and Saunders 1974, method C1, which adds a positive term and is stable without pivoting). Both cost
O(k^2), where a new factor costs O(k^3): a pivot costs O(n k) and a problem, with O(n) pivots, O(n^3).

Warm start: the state of every row is enough to restore everything, since forces of free rows follow from w = 0 and the
others are at their bounds. A guess is used by setting it up, whatever it is: rows guessed free whose force leaves its
bounds are put to that bound, until none is left.

Singular A: when row d depends on C, w_d cannot change and f_d moves until a row of C comes to a bound and leaves; if
none does, the problem has no solution, the row is marked FAILED and the others are solved without it. Redundant
equalities are left out with f = 0.

Scale: forces count by sqrt(A_ii) f_i, accelerations by w_i / sqrt(A_ii), zeros of w by the terms it is summed from; so
nothing depends on the units of rows. Of equal steps the lowest row is taken, and pivots are counted and capped.

Reference: D. Baraff, Fast Contact Force Computation for Nonpenetrating Rigid Bodies, SIGGRAPH 1994 (drive-to-zero),
which section 8.2, step 4, of Baraff 1996 refers to.
"""

from __future__ import annotations

from math import inf, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from limberjack._jit import inner, kernel, outlined
from limberjack.errors import StateError
from limberjack.linear.dense import TOLERANCE, add_to, dot, factor_psd

__all__ = [
    "AT_HIGH",
    "AT_LOW",
    "EXHAUSTED",
    "FAILED",
    "FREE",
    "INFEASIBLE",
    "ACTIVE",
    "PIVOTS",
    "PRODUCTS",
    "REDUNDANT",
    "ROUNDS",
    "SOLVED",
    "Solution",
    "UNKNOWN",
    "Workspace",
    "add_row",
    "initialize",
    "complementarity",
    "is_dependent",
    "is_equality",
    "magnitude",
    "eliminate_row",
    "new_workspace",
    "refine",
    "solve_active",
    "solve_lcp",
    "remove_row",
]

# States of a row. UNKNOWN, as a guess, starts from the allowed force nearest to 0.
UNKNOWN, FREE, AT_LOW, AT_HIGH, REDUNDANT, FAILED = 0, 1, 2, 3, 4, 5
# Indices of Workspace.counts.
ACTIVE, PIVOTS, ROUNDS, PRODUCTS = 0, 1, 2, 3
# Forces that should be 0 are rounding errors of the others: this part of the largest number, by the scale of the row,
# is added to every sum. With _ZERO it makes one unit in the last place.
_FLOOR = 2e-3
# Statuses of a problem.
SOLVED, INFEASIBLE, EXHAUSTED = 0, 1, 2
# Relative to the magnitude of w_i, the sum of |A_ij f_j| and |b_i|: below _ZERO a drive of w is done, above _FAULT all
# is set up again from the rows' states, above _WRONG it is no solution. Rows treated as dependent are off by an angle
# up to sqrt(tolerance), and so is their w; _LOOSE times that angle is allowed.
_ZERO, _FAULT, _WRONG, _LOOSE = 1e-13, 1e-11, 1e-9, 10.0
# Moves below this part of the largest are rounding; a singular direction is known up to that angle only.
_STILL = 1e-13
_ROUND_LIMIT = 4


@inner
def _back(k, factor, x):
    """Replace x by L^-T x."""
    for i in range(k - 1, 0, -1):
        add_to(x, 0, i, -x[i], i, factor)


@outlined
def solve_active(k, factor, x):
    """Replace x, indexed as C, by A_CC^-1 x."""
    for i in range(1, k):
        x[i] -= dot(i, i, factor, x)
    for i in range(k):
        x[i] = x[i] / factor[i, i]
    _back(k, factor, x)


@outlined
def eliminate_row(k, d, a, active, factor, row, move):
    """Fill row and move for a row d outside of C; return its Schur complement s."""
    s = a[d, d]
    for i in range(k):
        y = a[d, active[i]] - dot(i, i, factor, row)
        row[i] = y
        move[i] = y / factor[i, i]
        s -= y * move[i]
    _back(k, factor, move)
    return s


@inner
def is_dependent(k, d, s, tolerance, a, active, move):
    """Return whether row d depends on C: whether changes of `tolerance` in the entries of A could make s zero.

    A change of relative size e in all entries, by the diagonals, changes s by up to e (A_dd + sum of A_ii v_i^2).
    """
    size = a[d, d]
    for i in range(k):
        size += a[active[i], active[i]] * move[i] * move[i]
    return not s > tolerance * size


@outlined
def add_row(k, d, s, active, index, factor, row):
    """Add the row d that `eliminate_row` was last called for; return the new k."""
    for i in range(k):
        factor[k, i] = row[i] / factor[i, i]
    factor[k, k] = s
    active[k] = d
    index[d] = k
    return k + 1


@outlined
def remove_row(k, p, active, index, factor, row):
    """Remove the row at index p of C; return the new k. `row` is overwritten."""
    index[active[p]] = -1
    alpha = factor[p, p]
    for i in range(p + 1, k):
        row[i] = factor[i, p]
    for j in range(p + 1, k):
        v = row[j]
        before = factor[j, j]
        after = before + alpha * v * v
        beta = v * alpha / after
        alpha *= before / after
        factor[j, j] = after
        for i in range(j + 1, k):
            row[i] -= v * factor[i, j]
            factor[i, j] += beta * row[i]
    for i in range(p + 1, k):
        for j in range(p):
            factor[i - 1, j] = factor[i, j]
        for j in range(p, i):
            factor[i - 1, j] = factor[i, j + 1]
        active[i - 1] = active[i]
        index[active[i]] = i - 1
    return k - 1


class Workspace(NamedTuple):
    """The arrays `solve_lcp` works in, for problems of up to m rows."""

    factor: np.ndarray  # (m, m) L and D of the active rows
    active: np.ndarray  # (m,) int64 the active rows
    index: np.ndarray  # (m,) int64 index of each row among them, or -1
    order: np.ndarray  # (m,) int64
    row: np.ndarray  # (m,) L^-1 A_Cd
    move: np.ndarray  # (m,) df of the active rows, indexed as they are
    change: np.ndarray  # (m,) dw by row; magnitudes of w at the end
    root: np.ndarray  # (m,) sqrt(A_ii)
    settled: np.ndarray  # (m,) int8 whether the row's conditions must hold from now on
    skipped: np.ndarray  # (m,) int8 whether the row depends on the active ones
    counts: np.ndarray  # (4,) int64 active rows, pivots, rounds, multiplications


def new_workspace(m: int) -> Workspace:
    """Return arrays for problems of up to m rows."""
    return Workspace(
        factor=np.zeros((m, m)),
        active=np.zeros(m, np.int64),
        index=np.zeros(m, np.int64),
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
    """Return the largest scaled force or acceleration without forces."""
    most = 0.0
    for i in range(n):
        if work.root[i] > 0.0:
            most = max(most, work.root[i] * abs(f[i]), abs(b[i]) / work.root[i])
    return most


@inner
def magnitude(n, i, a, b, work, f):
    """Return the sum of the absolute terms of w_i."""
    s = abs(b[i]) + _FLOOR * work.root[i] * largest(n, b, work, f)
    for j in range(n):
        s += abs(a[i, j] * f[j])
    return s


@inner
def _activate_equalities(n, tolerance, a, lo, hi, work, state, f):
    """Start the active set with the independent equalities; return their number."""
    factor, active, index = work.factor, work.active, work.index
    count = 0
    for i in range(n):
        if is_equality(i, lo, hi):
            active[count] = i
            count += 1
    for p in range(count):
        for q in range(p + 1):
            factor[p, q] = a[active[p], active[q]]
    k = factor_psd(count, tolerance, factor, work.order, work.row)
    for p in range(count):
        index[p] = active[work.order[p]]
    for p in range(count):
        i = index[p]
        active[p] = i
        state[i] = FREE if p < k else REDUNDANT
        f[i] = 0.0
    for i in range(n):
        index[i] = -1
    for p in range(k):
        index[active[p]] = p
    return k


@inner
def _set_at_bound(i, lo, hi, state, f):
    """Set the force of a row outside of the active set to the bound of its state, or nearest to 0; set the state."""
    at = state[i]
    if at == AT_LOW and lo[i] > -inf:
        f[i] = lo[i]
    elif at == AT_HIGH and hi[i] < inf:
        f[i] = hi[i]
    else:
        f[i] = min(max(0.0, lo[i]), hi[i])
        state[i] = AT_LOW if f[i] == lo[i] else AT_HIGH if f[i] == hi[i] else UNKNOWN


@inner
def set_w(n, a, b, f, w):
    """Fill w = A f + b."""
    for i in range(n):
        w[i] = b[i]
    for j in range(n):
        if f[j] != 0.0:
            add_to(w, 0, n, f[j], j, a)


@inner
def _activate_guess(n, k, tolerance, a, lo, hi, work, state, f):
    """Add the rows guessed FREE to the active set, put the others to their bounds; return the new number."""
    for i in range(n):
        work.root[i] = sqrt(a[i, i]) if a[i, i] > 0.0 else 0.0
        work.skipped[i] = 0
        work.settled[i] = 0
        if is_equality(i, lo, hi) or lo[i] == hi[i]:
            work.settled[i] = 1
        if is_equality(i, lo, hi):
            continue
        if state[i] == FREE and lo[i] < hi[i]:
            s = eliminate_row(k, i, a, work.active, work.factor, work.row, work.move)
            work.counts[PRODUCTS] += k * k
            if not is_dependent(k, i, s, tolerance, a, work.active, work.move):
                k = add_row(k, i, s, work.active, work.index, work.factor, work.row)
                work.settled[i] = 1
                continue
        _set_at_bound(i, lo, hi, state, f)
    return k


@inner
def initialize(n, tolerance, a, b, lo, hi, work, state, f, w):
    """Set up the active set, forces and w of the states given, without rows whose force would leave its bounds."""
    active, index, move = work.active, work.index, work.move
    k = _activate_equalities(n, tolerance, a, lo, hi, work, state, f)
    k = _activate_guess(n, k, tolerance, a, lo, hi, work, state, f)
    while True:
        for p in range(k):
            f[active[p]] = 0.0
        set_w(n, a, b, f, w)
        for p in range(k):
            move[p] = -w[active[p]]
        solve_active(k, work.factor, move)
        for p in range(k):
            f[active[p]] = move[p]
        work.counts[PRODUCTS] += k * k + 2 * n * k
        before = k
        for i in range(n):
            if index[i] >= 0 and (f[i] < lo[i] or f[i] > hi[i]):
                state[i] = AT_LOW if f[i] < lo[i] else AT_HIGH
                f[i] = lo[i] if f[i] < lo[i] else hi[i]
                work.settled[i] = 0
                k = remove_row(k, index[i], active, index, work.factor, work.row)
                work.counts[PRODUCTS] += k * k
        if k == before:
            break
    set_w(n, a, b, f, w)
    work.counts[ACTIVE] = k


@inner
def refine(n, a, b, lo, hi, work, f, w):
    """Refine the active forces by the residual w = A f + b; fill w, and `change` with its magnitudes."""
    k = work.counts[ACTIVE]
    set_w(n, a, b, f, w)
    for p in range(k):
        work.move[p] = -w[work.active[p]]
    solve_active(k, work.factor, work.move)
    for p in range(k):
        i = work.active[p]
        f[i] = min(max(f[i] + work.move[p], lo[i]), hi[i])
    set_w(n, a, b, f, w)
    floor = _FLOOR * largest(n, b, work, f)
    for i in range(n):
        work.change[i] = abs(b[i]) + floor * work.root[i]
    for j in range(n):
        t = abs(f[j])
        if t > 0.0:
            for i in range(n):
                work.change[i] += abs(a[j, i]) * t
    work.counts[PRODUCTS] += k * k + 5 * n * k


@inner
def _violation(i, state, w):
    """Return how far w_i is on the wrong side of zero for the state of its row."""
    at = state[i]
    if at == AT_LOW:
        return -w[i]
    if at == AT_HIGH:
        return w[i]
    return abs(w[i])


@inner
def _next_row(n, work, state, w):
    """Return the row not yet settled whose condition is most violated, or -1."""
    best, d = -1.0, -1
    for i in range(n):
        if work.settled[i] == 0:
            wrong = _violation(i, state, w)
            # A row between its bounds has to be driven or activated even where w is 0.
            if wrong > 0.0 or state[i] == UNKNOWN:
                size = wrong / work.root[i] if work.root[i] > 0.0 else inf
                if size > best:
                    best, d = size, i
    return d


@inner
def _direction(n, d, sign, tolerance, a, work):
    """Fill move and change for a force of row d that grows by `sign`; return d's own change, 0 if it is dependent."""
    k, active, move, change = work.counts[ACTIVE], work.active, work.move, work.change
    s = eliminate_row(k, d, a, active, work.factor, work.row, move)
    singular = is_dependent(k, d, s, tolerance, a, active, move)
    work.counts[PRODUCTS] += k * k + n * k
    for p in range(k):
        move[p] *= -sign
    for i in range(n):
        change[i] = 0.0 if singular else sign * a[d, i]
    if singular:
        return 0.0
    for p in range(k):
        add_to(change, 0, n, move[p], active[p], a)
    for p in range(k):
        change[active[p]] = 0.0
    return s


@inner
def _first_active_stop(d, still, lo, hi, work, f, t, stop):
    """Return the least step, and the row, at which an active force comes to a bound, if before t."""
    for p in range(work.counts[ACTIVE]):
        i, v = work.active[p], work.move[p]
        if abs(v) * work.root[i] <= still:
            continue
        room = (hi[i] - f[i]) / v if v > 0.0 else (lo[i] - f[i]) / v
        if room < t or (room == t and stop != d and i < stop):
            t, stop = room, i
    return t, stop


@inner
def _first_inactive_stop(n, d, still, lo, hi, work, state, w, t, stop):
    """Return the least step, and the row, at which the w of a settled row outside of C comes to 0, if before t."""
    change = work.change
    for i in range(n):
        if work.settled[i] == 0 or work.skipped[i] != 0 or work.index[i] >= 0 or lo[i] == hi[i]:
            continue
        at, v = state[i], change[i]
        if abs(v) <= still * work.root[i]:
            continue
        if at == AT_LOW and v < 0.0:
            room = max(w[i], 0.0) / -v
        elif at == AT_HIGH and v > 0.0:
            room = max(-w[i], 0.0) / v
        elif at == REDUNDANT and not is_equality(i, lo, hi):
            room = 0.0
        else:
            continue
        if room < t or (room == t and stop != d and i < stop):
            t, stop = room, i
    return t, stop


@inner
def _first_stop(n, d, sign, s, loose, lo, hi, work, state, f, w):
    """Return the step of the force of row d, and the row that stops it: d itself, another, or -1."""
    t, stop = inf, -1
    if s > 0.0:
        t, stop = abs(w[d]) / s, d
    room = hi[d] - f[d] if sign > 0.0 else f[d] - lo[d]
    if room <= t and room < inf:
        t, stop = room, d
    most = work.root[d]
    for p in range(work.counts[ACTIVE]):
        most = max(most, work.root[work.active[p]] * abs(work.move[p]))
    still = (_STILL if s > 0.0 else loose) * most
    t, stop = _first_active_stop(d, still, lo, hi, work, f, t, stop)
    if s > 0.0:
        t, stop = _first_inactive_stop(n, d, still, lo, hi, work, state, w, t, stop)
    return t, stop


@inner
def _advance(n, d, sign, t, lo, hi, work, f, w):
    """Move the forces of row d and of the active set, and w, by a step t."""
    for p in range(work.counts[ACTIVE]):
        i = work.active[p]
        f[i] = min(max(f[i] + t * work.move[p], lo[i]), hi[i])
    f[d] = min(max(f[d] + t * sign, lo[d]), hi[d])
    for i in range(n):
        w[i] += t * work.change[i]


@inner
def _deactivate(n, i, lo, hi, work, state, f):
    """Remove row i from the active set, to the bound it moved to."""
    up = work.move[work.index[i]] > 0.0
    state[i] = AT_HIGH if up else AT_LOW
    f[i] = hi[i] if up else lo[i]
    k = work.counts[ACTIVE]
    work.counts[ACTIVE] = remove_row(k, work.index[i], work.active, work.index, work.factor, work.row)
    work.counts[PRODUCTS] += k * k
    for j in range(n):
        work.skipped[j] = 0


@inner
def _activate(i, tolerance, a, work, state, w):
    """Add row i to the active set; return whether it is independent of it."""
    k = work.counts[ACTIVE]
    s = eliminate_row(k, i, a, work.active, work.factor, work.row, work.move)
    work.counts[PRODUCTS] += k * k
    if is_dependent(k, i, s, tolerance, a, work.active, work.move):
        work.skipped[i] = 1
        return False
    work.counts[ACTIVE] = add_row(k, i, s, work.active, work.index, work.factor, work.row)
    state[i] = FREE
    w[i] = 0.0
    return True


@inner
def _set_resting_state(d, otherwise, lo, hi, state, f):
    """Set the state of a row whose force stays where it is: at a bound, or else as given."""
    state[d] = AT_LOW if f[d] == lo[d] else AT_HIGH if f[d] == hi[d] else otherwise


@inner
def _drive(n, d, tolerance, limit, a, b, lo, hi, work, state, f, w):
    """Drive the force of row d until its condition holds, as those of settled rows do; return False out of pivots."""
    work.settled[d] = 1
    state[d] = UNKNOWN
    loose = max(_WRONG, _LOOSE * sqrt(tolerance))
    while work.counts[PIVOTS] < limit:
        size = magnitude(n, d, a, b, work, f)
        if abs(w[d]) <= _ZERO * size:
            _set_resting_state(d, UNKNOWN, lo, hi, state, f)
            if state[d] == UNKNOWN and not _activate(d, tolerance, a, work, state, w):
                state[d] = REDUNDANT
            return True
        sign = 1.0 if w[d] < 0.0 else -1.0
        if (f[d] >= hi[d]) if sign > 0.0 else (f[d] <= lo[d]):
            state[d] = AT_HIGH if sign > 0.0 else AT_LOW
            return True
        s = _direction(n, d, sign, tolerance, a, work)
        t, stop = _first_stop(n, d, sign, s, loose, lo, hi, work, state, f, w)
        if stop < 0:
            state[d] = FAILED
            if abs(w[d]) <= loose * size:
                work.skipped[d] = 1
                _set_resting_state(d, REDUNDANT, lo, hi, state, f)
            return True
        work.counts[PIVOTS] += 1
        end = hi[d] if sign > 0.0 else lo[d]
        reached = stop == d and t >= abs(end - f[d])
        _advance(n, d, sign, t, lo, hi, work, f, w)
        if stop != d:
            if work.index[stop] >= 0:
                _deactivate(n, stop, lo, hi, work, state, f)
            else:
                _activate(stop, tolerance, a, work, state, w)
        elif reached:
            f[d] = end
            state[d] = AT_HIGH if sign > 0.0 else AT_LOW
            return True
        else:
            work.counts[ACTIVE] = add_row(
                work.counts[ACTIVE], d, s, work.active, work.index, work.factor, work.row
            )  # fmt: skip
            state[d] = FREE
            w[d] = 0.0
            return True
    return False


@inner
def _violates(n, part, loose, lo, hi, work, state, w):
    """Return whether a row that has not failed violates its condition by `part` or `loose` of its magnitude."""
    for i in range(n):
        if state[i] != FAILED and lo[i] < hi[i]:
            allowed = loose if state[i] == REDUNDANT or work.skipped[i] != 0 else part
            # Written so that a NaN is a fault.
            if not _violation(i, state, w) <= allowed * work.change[i]:
                return True
    return False


@kernel
def solve_lcp(
    # in
    n,
    tolerance,
    a,
    b,
    lo,
    hi,
    # out
    work,
    state,
    f,
    w,
):  # fmt: skip
    """Solve w = A f + b with complementarity between bounds; return SOLVED, INFEASIBLE or EXHAUSTED.

    Without a solution f still solves all rows whose state is not FAILED; when pivots are exhausted, or numbers are not
    finite, it is the last iterate.

    Args:
        n: rows.
        tolerance: a row is dependent when the active rows leave at most this part of its diagonal, as in `dense.py`.
        a: (>= n, >= n) symmetric positive semidefinite, both halves.
        b: (>= n,) w without forces.
        lo: (>= n,) lower bounds of f, at most hi; -inf for none.
        hi: (>= n,) upper bounds of f; inf for none.
        work: arrays for at least n rows; its counts are those of this problem afterwards.
        state: (>= n,) int8 a guess, such as the result for a problem like this one, or UNKNOWN; the states found.
        f: (>= n,) the forces.
        w: (>= n,) A f + b.
    """
    for i in range(4):
        work.counts[i] = 0
    limit, loose = 50 + 20 * n, max(_WRONG, _LOOSE * sqrt(tolerance))
    status = SOLVED
    for _ in range(_ROUND_LIMIT):
        work.counts[ROUNDS] += 1
        initialize(n, tolerance, a, b, lo, hi, work, state, f, w)
        while True:
            d = _next_row(n, work, state, w)
            if d < 0:
                break
            if not _drive(n, d, tolerance, limit, a, b, lo, hi, work, state, f, w):
                status = EXHAUSTED
                break
        refine(n, a, b, lo, hi, work, f, w)
        for i in range(n):
            if state[i] == REDUNDANT and is_equality(i, lo, hi) and not abs(w[i]) <= loose * work.change[i]:
                state[i] = FAILED
        if status == EXHAUSTED or not _violates(n, _FAULT, loose, lo, hi, work, state, w):
            break
    if _violates(n, _WRONG, loose, lo, hi, work, state, w):
        return EXHAUSTED
    for i in range(n):
        if state[i] == FAILED:
            status = INFEASIBLE
    return status


class Solution(NamedTuple):
    """The result of `complementarity`."""

    f: np.ndarray  # (n,) forces
    w: np.ndarray  # (n,) A f + b
    status: int  # SOLVED, INFEASIBLE or EXHAUSTED
    pivots: int  # changes of the active set
    redundant: np.ndarray  # rows that depend on others and were left out
    state: np.ndarray  # (n,) int8 FREE, AT_LOW, AT_HIGH, REDUNDANT or FAILED; a guess for a problem like this one
    products: int  # multiplications, about


def _vector(name: str, value: ArrayLike | None, n: int, default: float) -> np.ndarray:
    if value is None:
        return np.full(n, default)
    try:
        out = np.array(np.broadcast_to(np.asarray(value, float), n))
    except (TypeError, ValueError):
        raise StateError(f"{name} has shape {np.shape(value)}, expected ({n},)") from None
    if np.isnan(out).any():
        raise StateError(f"{name}[{int(np.flatnonzero(np.isnan(out))[0])}] is not a number")
    return out


def _matrix(value: ArrayLike) -> np.ndarray:
    """Return a copy of a matrix; raise where a pair of rows shows that it is not symmetric positive semidefinite."""
    matrix = np.array(value, float, order="C")
    n = len(matrix) if matrix.ndim else 0
    if matrix.shape not in ((n, n), (0,)):
        raise StateError(f"a has shape {matrix.shape}, expected a square")
    matrix = matrix.reshape(n, n)
    if not np.isfinite(matrix).all():
        raise StateError("a must be finite")
    root = np.sqrt(np.maximum(np.diagonal(matrix), 0.0))
    sizes = np.outer(root, root)
    for wrong, name in (
        (np.abs(matrix - matrix.T) > 1e-8 * sizes, "symmetric"),
        (np.abs(matrix) > (1.0 + 1e-8) * sizes, "positive semidefinite"),
    ):
        if wrong.any():
            i, j = (int(k) for k in np.argwhere(wrong)[0])
            entries = f"a[{i}, {j}] is {matrix[i, j]:g}, a[{j}, {i}] is {matrix[j, i]:g}"
            raise StateError(f"a is not {name}: {entries}, a[{i}, {i}] is {matrix[i, i]:g}")
    return matrix


def complementarity(
    a: ArrayLike,
    b: ArrayLike,
    lo: ArrayLike | None = None,
    hi: ArrayLike | None = None,
    *,
    guess: ArrayLike | None = None,
    tolerance: float = TOLERANCE,
) -> Solution:
    """Return the f between bounds, and w = A f + b, with w = 0 between, w >= 0 at lo and w <= 0 at hi in each row.

    Args:
        a: (n, n) symmetric positive semidefinite.
        b: (n,) w at f = 0.
        lo: (n,) or one number, lower bounds; 0 if left out, -inf for none.
        hi: (n,) or one number, upper bounds; inf if left out.
        guess: (n,) states to start from, such as those of a solution of a similar problem.
        tolerance: rows are redundant when at most this part of their diagonal is left by the others.

    Raises:
        StateError: arrays of wrong shapes or not finite, A not symmetric or plainly indefinite, or lo above hi.
    """
    matrix = _matrix(a)
    n = len(matrix)
    side = _vector("b", b, n, 0.0)
    if not np.isfinite(side).all():
        raise StateError("b must be finite")
    low, high = _vector("lo", lo, n, 0.0), _vector("hi", hi, n, inf)
    crossed = np.flatnonzero((low > high) | (low == inf) | (high == -inf))
    if len(crossed):
        i = int(crossed[0])
        raise StateError(f"row {i} has no force between lo {low[i]:g} and hi {high[i]:g}")
    state = _vector("guess", guess, n, UNKNOWN).astype(np.int8)
    work, f, w = new_workspace(n), np.zeros(n), np.zeros(n)
    status = solve_lcp(n, tolerance, matrix, side, low, high, work, state, f, w)
    redundant = np.flatnonzero(state == REDUNDANT)
    return Solution(f, w, status, int(work.counts[PIVOTS]), redundant, state, int(work.counts[PRODUCTS]))
