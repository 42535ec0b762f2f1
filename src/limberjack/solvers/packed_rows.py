"""Rows of a system of solids, packed for many products with A = J M^-1 J^T + C in coordinates where it is nearly 1.

The diagonal block of A of each constraint is R R^T. With K = s R^-1 of all, s the root of a constraint's weight,

    K A K^T y = K b,  x = K^T y

has the same solutions, diagonal blocks of s^2, and least squares in it weigh each constraint by how hard it is to move
alone. R^-1 J is formed once: then a product needs no preconditioner and no vectors for it.

A joint acts with opposite wrenches at one point. Its rows on body a are those on body b, negated and moved by the gap d
from the com of a to that of b: six numbers per row serve both bodies.

    wrench on b  (t, f)          on a  -(t + d x f, f)
    J u = rows . (w_b - w_a, v_b - v_a - w_a x d)

Constraints of other forms (gears, joints of particles and of bodies in the plane) keep the rows of each body. Those
with no rows that act are left out; the rest stand in order of their counts of rows, for loops of one length, or in
large systems in the order of their bodies.

Vectors of bodies have eight places each, angular and linear part with one to spare. Reads and writes of four numbers
may run into the place after a row: it is overwritten or never used.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from limberjack._jit import inner, outlined
from limberjack.constraints.system import System
from limberjack.solvers.block_pivots import four, number, row_sums, set_four, spread
from limberjack.spatial.lanes import add, combine, cross4, lane, mul, pack, scale, splat, sub

__all__ = ["Packed", "multiply", "new_packed", "pack_rows", "pack_side", "pull", "push", "unpack"]

# A pivot at or below this part of A's own diagonal is rounding: its row follows from those before it.
_DEPENDENT = 1e-11
# Constraints whose rows are moved and pushed in one go, in the first level of cache.
_CHUNK = 64
# Of systems with more constraints than this the order follows the bodies, so that a wave over them stays in cache.
_LARGE = 1000


class Packed(NamedTuple):
    """Rows and factors of one system; nc constraints, nr rows, nb solids. Never shared between threads."""

    pair: np.ndarray  # (nc,) int64: whether a constraint acts with opposite wrenches at one point
    order: np.ndarray  # (nc,) int64 constraints in the order they are listed
    count: np.ndarray  # (2,) int64 constraints that act, and solids they act on
    listed: np.ndarray  # (nc,) int64 those
    first: np.ndarray  # (nc + 1,) int64 places of their rows in packed vectors
    ends: np.ndarray  # (nc, 2) int64 solids b and a of a pair, a = -1 for none; b = -1 where rows of each body are kept
    soft: np.ndarray  # (nc,) int8: whether any of its rows gives way
    last: np.ndarray  # (nb,) int64 the last of them on each solid
    done: np.ndarray  # (nb,) int64 the solids in the order of those
    need: np.ndarray  # (nc,) int64 the last of them on any of its solids
    gap: np.ndarray  # (3 nc + 4,) d
    rows: np.ndarray  # (6 nr + 4,) R^-1 J on b
    wide: np.ndarray  # R^-1 J on all bodies, placed as J is
    factor_start: np.ndarray  # (nc + 1,) int64
    factor: np.ndarray  # R, lower halves row by row, inverse pivots on the diagonal, 0 where a row is dropped
    root: np.ndarray  # (nc,) s
    small: np.ndarray  # (13, 12) one block
    f: np.ndarray  # (8 nb,) forces, then what they move


def new_packed(system: System, pairs: np.ndarray | None = None) -> Packed:
    """Return the arrays of a system.

    Args:
        system: constraints on solids of six displacements.
        pairs: (nc,) which of them act with opposite wrenches at one point, or on one solid; None for none.
    """
    rows, touches = np.diff(system.row_start), np.diff(system.touch_start)
    nc, nr, nb = len(rows), int(system.row_start[-1]), len(system.body_start) - 1
    pair = np.zeros(nc, np.int64) if pairs is None else np.where(touches <= 2, pairs, False).astype(np.int64)
    starts = np.concatenate([[0], np.cumsum(rows * (rows + 1) // 2)]).astype(np.int64)
    wide = np.zeros(0 if pair.all() else int(system.block_start[-1]) + 4)
    key = rows
    if nc > _LARGE and touches.all():
        key = np.maximum.reduceat(system.touch_body, system.touch_start[:-1])
    return Packed(
        pair, np.argsort(key, kind="stable").astype(np.int64), np.zeros(2, np.int64), np.zeros(nc, np.int64),
        np.zeros(nc + 1, np.int64), np.zeros((nc, 2), np.int64), np.zeros(nc, np.int8), np.zeros(nb, np.int64),
        np.zeros(nb, np.int64), np.zeros(nc, np.int64), np.zeros(3 * nc + 4), np.zeros(6 * nr + 4), wide, starts,
        np.zeros(int(starts[-1])), np.ones(nc), np.zeros((13, 12)), np.zeros(8 * nb),
    )  # fmt: skip


@inner
def _linear(J, k):
    """Return the linear part of the row at place k of J, without reading past it."""
    return pack(number(J, k + 3), number(J, k + 4), number(J, k + 5))


@inner
def _sum_blocks(system, Minv, c, J, C, small):
    """Fill the lower half of a constraint's diagonal block of A; return whether any of its rows acts."""
    n, m = system.row_start[c + 1] - system.row_start[c], Minv
    for i in range(n):
        for j in range(i):
            small[i, j] = 0.0
        small[i, i] = C[system.row_start[c] + i]
    for t in range(system.touch_start[c], system.touch_start[c + 1]):
        b, k = system.touch_body[t], system.block_start[t]
        xx, xy, xz = pack(m[b, 0], m[b, 3], m[b, 4]), pack(m[b, 3], m[b, 1], m[b, 5]), pack(m[b, 4], m[b, 5], m[b, 2])
        for i in range(n):
            turn, go = combine(xx, xy, xz, four(J, k + 6 * i)), scale(m[b, 6], _linear(J, k + 6 * i))
            for j in range(i + 1):
                s = add(mul(turn, four(J, k + 6 * j)), mul(go, _linear(J, k + 6 * j)))
                small[i, j] += (lane(s, 0) + lane(s, 1)) + lane(s, 2)
    acts = False
    for i in range(n):
        acts = acts or small[i, i] != 0.0
    return acts


@inner
def _factor(n, at, small, factor):
    """Replace the block by R with inverse pivots, and keep it; return False if a number is not finite."""
    fine = True
    for i in range(n):
        own = small[i, i]
        fine = fine and np.isfinite(own)
        for j in range(i + 1):
            s = small[i, j]
            for k in range(j):
                s -= small[i, k] * small[j, k]
            if j < i:
                small[i, j] = s * small[j, j]
            else:
                small[i, i] = 1.0 / np.sqrt(s) if s > _DEPENDENT * own else 0.0
        for j in range(i + 1):
            factor[at] = small[i, j]
            at += 1
    return fine


@inner
def _divide(n, root, small, J, k, out, o):
    """Fill six numbers per row at place o of out with s R^-1 times the rows at place k of J."""
    s = splat(root)
    for i in range(n):
        turn, go = mul(s, four(J, k + 6 * i)), mul(s, _linear(J, k + 6 * i))
        for j in range(i):
            x = splat(-small[i, j])
            turn, go = add(turn, mul(x, four(out, o + 6 * j))), add(go, mul(x, four(out, o + 6 * j + 3)))
        x = splat(small[i, i])
        set_four(out, o + 6 * i, mul(x, turn))
        go = mul(x, go)
        out[o + 6 * i + 3], out[o + 6 * i + 4], out[o + 6 * i + 5] = lane(go, 0), lane(go, 1), lane(go, 2)


@outlined
def pack_rows(
    # model
    system,
    # in
    Minv, J, C, center, weight,
    # out
    packed,
):  # fmt: skip
    """Pack the rows that act; return 0, or 1 + a constraint whose numbers are not finite.

    Args:
        system: which constraint touches which solid.
        Minv: (nb, 7) world inverse inertia xx yy zz xy xz yz and 1/m.
        J: flat rows.
        C: (nr,) compliance.
        center: (nb, 3 or more) where the solids' com are.
        weight: (nc,) how much the residuals of constraints count.
        packed: of this system.
    """
    listed, place, small = 0, 0, packed.small
    packed.first[0] = 0
    for at in range(len(packed.order)):
        c = packed.order[at]
        n = system.row_start[c + 1] - system.row_start[c]
        if not _sum_blocks(system, Minv, c, J, C, small):
            continue
        if not _factor(n, packed.factor_start[c], small, packed.factor):
            return 1 + c
        packed.root[c] = np.sqrt(weight[c])
        packed.soft[listed] = 0
        for i in range(n):
            if C[system.row_start[c] + i] != 0.0:
                packed.soft[listed] = 1
        t = system.touch_start[c]
        packed.ends[listed, 0] = packed.ends[listed, 1] = -1
        if packed.pair[c] == 1:
            _divide(n, packed.root[c], small, J, system.block_start[t], packed.rows, 6 * place)
            b = packed.ends[listed, 0] = system.touch_body[t]
            if system.touch_start[c + 1] - t == 2:
                a = packed.ends[listed, 1] = system.touch_body[t + 1]
                for k in range(3):
                    packed.gap[3 * listed + k] = center[b, k] - center[a, k]
        else:
            for s in range(t, system.touch_start[c + 1]):
                k = system.block_start[s]
                _divide(n, packed.root[c], small, J, k, packed.wide, k)
        for s in range(t, system.touch_start[c + 1]):
            packed.last[system.touch_body[s]] = listed
        packed.listed[listed] = c
        place += n
        listed += 1
        packed.first[listed] = place
    packed.count[0] = listed
    done = 0
    for i in range(listed):
        c, need = packed.listed[i], 0
        for s in range(system.touch_start[c], system.touch_start[c + 1]):
            b = system.touch_body[s]
            need = max(need, packed.last[b])
            if packed.last[b] == i:
                packed.done[done] = b
                done += 1
        packed.need[i] = need
    packed.count[1] = done
    return 0


@inner
def _forward(n, root, at, factor, y, k):
    """Replace n numbers of y from place k on by s R^-1 of them."""
    for i in range(n):
        x = root * y[k + i]
        for j in range(i):
            x -= factor[at] * y[k + j]
            at += 1
        y[k + i] = x * factor[at]
        at += 1


@inner
def _backward(n, root, at, factor, y, k):
    """Replace n numbers of y from place k on by s R^-T of them."""
    for i in range(n - 1, -1, -1):
        x = y[k + i]
        for j in range(i + 1, n):
            x -= factor[at + ((j * (j + 1)) >> 1) + i] * y[k + j]
        y[k + i] = x * factor[at + ((i * (i + 3)) >> 1)]
    for i in range(n):
        y[k + i] *= root


@outlined
def pack_side(system, packed, b, y):
    """Fill the packed y with K b."""
    for i in range(packed.count[0]):
        c, k = packed.listed[i], packed.first[i]
        n = packed.first[i + 1] - k
        for r in range(n):
            y[k + r] = b[system.row_start[c] + r]
        _forward(n, packed.root[c], packed.factor_start[c], packed.factor, y, k)


@outlined
def unpack(system, packed, y, lam):
    """Fill lam with K^T y, 0 for rows left out; y is changed."""
    for r in range(len(lam)):
        lam[r] = 0.0
    for i in range(packed.count[0]):
        c, k = packed.listed[i], packed.first[i]
        n = packed.first[i + 1] - k
        _backward(n, packed.root[c], packed.factor_start[c], packed.factor, y, k)
        for r in range(n):
            lam[system.row_start[c] + r] = y[k + r]


@inner
def _wrench(rows, o, n, y, k):
    """Return the wrench of n rows at place o with multipliers at place k of y."""
    turn = go = splat(0.0)
    for i in range(n):
        x = spread(y, k + i)
        turn, go = add(turn, mul(four(rows, o), x)), add(go, mul(four(rows, o + 3), x))
        o += 6
    return turn, go


@inner
def _add(f, b, turn, go):
    """Add a wrench to the forces at place b."""
    set_four(f, b, add(four(f, b), turn))
    set_four(f, b + 4, add(four(f, b + 4), go))


@inner
def _respond(Minv, b, f):
    """Replace the forces on solid b by M^-1 of them."""
    m, o = Minv, 8 * b
    x, y, z, s = f[o], f[o + 1], f[o + 2], m[b, 6]
    f[o] = m[b, 0] * x + m[b, 3] * y + m[b, 4] * z
    f[o + 1] = m[b, 3] * x + m[b, 1] * y + m[b, 5] * z
    f[o + 2] = m[b, 4] * x + m[b, 5] * y + m[b, 2] * z
    f[o + 4], f[o + 5], f[o + 6] = s * f[o + 4], s * f[o + 5], s * f[o + 6]


@outlined
def _push_wide(system, packed, i, y):
    """Push a constraint that keeps the rows of each body."""
    c, k = packed.listed[i], packed.first[i]
    n = packed.first[i + 1] - k
    for t in range(system.touch_start[c], system.touch_start[c + 1]):
        turn, go = _wrench(packed.wide, system.block_start[t], n, y, k)
        _add(packed.f, 8 * system.touch_body[t], turn, go)


@inner
def push(system, packed, begin, end, y):
    """Add the forces of constraints begin .. end with multipliers y."""
    f, ends = packed.f, packed.ends
    for i in range(begin, end):
        k, b, a = packed.first[i], ends[i, 0], ends[i, 1]
        if b < 0:
            _push_wide(system, packed, i, y)
            continue
        turn, go = _wrench(packed.rows, 6 * k, packed.first[i + 1] - k, y, k)
        _add(f, 8 * b, turn, go)
        if a >= 0:
            turn = add(turn, cross4(four(packed.gap, 3 * i), go))
            set_four(f, 8 * a, sub(four(f, 8 * a), turn))
            set_four(f, 8 * a + 4, sub(four(f, 8 * a + 4), go))


@inner
def _rates(rows, o, n, turn, go, w, k):
    """Set n numbers of w from place k on to the rows at place o times a motion."""
    i = 0
    while i + 3 <= n:
        x = add(mul(four(rows, o), turn), mul(four(rows, o + 3), go))
        y = add(mul(four(rows, o + 6), turn), mul(four(rows, o + 9), go))
        z = add(mul(four(rows, o + 12), turn), mul(four(rows, o + 15), go))
        set_four(w, k + i, row_sums(x, y, z))
        i += 3
        o += 18
    while i < n:
        x = add(mul(four(rows, o), turn), mul(four(rows, o + 3), go))
        w[k + i] = (lane(x, 0) + lane(x, 1)) + lane(x, 2)
        i += 1
        o += 6


@outlined
def _pull_wide(system, packed, i, u, w):
    """Set the rates of a constraint that keeps the rows of each body."""
    c, k = packed.listed[i], packed.first[i]
    n = packed.first[i + 1] - k
    for r in range(n):
        w[k + r] = 0.0
    for t in range(system.touch_start[c], system.touch_start[c + 1]):
        b, o = 8 * system.touch_body[t], system.block_start[t]
        turn, go = four(u, b), four(u, b + 4)
        for r in range(n):
            x = add(mul(four(packed.wide, o), turn), mul(four(packed.wide, o + 3), go))
            w[k + r] += (lane(x, 0) + lane(x, 1)) + lane(x, 2)
            o += 6


@outlined
def _give(system, packed, i, C, y, w):
    """Add K C K^T y of a constraint that gives way to w."""
    c, k, small = packed.listed[i], packed.first[i], packed.small
    n, at, root = packed.first[i + 1] - k, packed.factor_start[c], packed.root[c]
    column = 12
    for r in range(n):
        small[column, r] = y[k + r]
    for r in range(n - 1, -1, -1):
        x = small[column, r]
        for s in range(r + 1, n):
            x -= packed.factor[at + ((s * (s + 1)) >> 1) + r] * small[column, s]
        small[column, r] = x * packed.factor[at + ((r * (r + 3)) >> 1)]
    for r in range(n):
        x = root * root * C[system.row_start[c] + r] * small[column, r]
        for s in range(r):
            x -= packed.factor[at] * small[column, s]
            at += 1
        small[column, r] = x * packed.factor[at]
        at += 1
        w[k + r] += small[column, r]


@inner
def pull(system, packed, C, begin, end, y, w):
    """Set the rows of constraints begin .. end of w to K (J u + C K^T y), u being what the solids move."""
    u = packed.f
    for i in range(begin, end):
        k, b, a = packed.first[i], packed.ends[i, 0], packed.ends[i, 1]
        if b < 0:
            _pull_wide(system, packed, i, u, w)
        else:
            turn, go = four(u, 8 * b), four(u, 8 * b + 4)
            if a >= 0:
                other = four(u, 8 * a)
                turn, go = sub(turn, other), sub(go, four(u, 8 * a + 4))
                go = sub(go, cross4(other, four(packed.gap, 3 * i)))
            _rates(packed.rows, 6 * k, packed.first[i + 1] - k, turn, go, w, k)
        if packed.soft[i] == 1:
            _give(system, packed, i, C, y, w)


@inner
def _sum(x):
    return (lane(x, 0) + lane(x, 1)) + (lane(x, 2) + lane(x, 3))


@outlined
def multiply(
    # model
    system,
    # in
    Minv, C, alpha, q,
    # out
    packed, y, w,
):  # fmt: skip
    """Take y down by alpha q, set w to K A K^T y, and return y . w, y . y and w . w.

    One wave over the constraints: those behind it are pulled as soon as their solids have all their forces, while rows
    and vectors are still near.
    """
    f, count, first = packed.f, packed.count[0], packed.first
    rho, square, size = splat(0.0), splat(0.0), splat(0.0)
    for k in range(len(f)):
        f[k] = 0.0
    pulled = summed = begin = answered = 0
    rows = first[count]
    for k in range(rows, rows + 4):
        y[k] = 0.0
    while pulled < count:
        end = min(begin + _CHUNK, count)
        if alpha != 0.0:
            for k in range(first[begin], first[end]):
                y[k] -= alpha * q[k]
        push(system, packed, begin, end, y)
        while answered < packed.count[1] and packed.last[packed.done[answered]] < end:
            _respond(Minv, packed.done[answered], f)
            answered += 1
        ready = pulled
        while ready < count and packed.need[ready] < end:
            ready += 1
        pull(system, packed, C, pulled, ready, y, w)
        pulled, begin = ready, end
        if pulled == count:
            for k in range(rows, rows + 4):
                w[k] = 0.0
        whole = first[pulled] - 3 if pulled < count else rows
        while summed < whole:
            own, new = four(y, summed), four(w, summed)
            rho, square, size = add(rho, mul(own, new)), add(square, mul(own, own)), add(size, mul(new, new))
            summed += 4
    return _sum(rho), _sum(square), _sum(size)
