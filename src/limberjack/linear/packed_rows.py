"""Rows of a system of solids, packed for many products with A = J M^-1 J^T + C in coordinates where it is nearly 1.

The diagonal block of A of each constraint is R R^T. With K = s R^-1 of all, s the root of a constraint's weight,

    K A K^T y = K b,  x = K^T y

has the same solutions, diagonal blocks of s^2, and least squares in it weigh each constraint by its mobility alone.
R^-1 J is formed once: then a product needs no preconditioner and no vectors for it. Rows come in three forms:

- PAIR: a joint between two solids acts with opposite wrenches at one point. Its rows on body a are those on body b,
  negated and moved by the offset d from the com of a to that of b: six numbers per row serve both bodies.

      wrench on b  (t, f)          on a  -(t + d x f, f)
      J u = rows . (w_b - w_a, v_b - v_a - w_a x d)

- POINT: three rows that hold a point of two solids together, with orthonormal directions T and levers l from the com of
  each solid to the point.

      J = T [-l x, 1] on b, the same negated on a,   J u = T (v_b + w_b x l_b - v_a - w_a x l_a)

  With G = K T a product needs G and the levers only, 84 bytes where three rows on b and the offset have 168: large nets
  are bound by memory bandwidth. G is stored in single precision. That costs no accuracy of the solution, since K is by
  definition what was stored, G T^T: any K near R^-1 is as good a preconditioner.
- WIDE: other constraints (gears, joints of particles and of bodies in the plane) have separate rows for each body.

Constraints without active rows are left out. The rest are ordered by their counts of rows, for loops of one length, or
in large systems by their bodies, for the pass of `krylov_product.py` over them.

Reads and writes of four numbers may run beyond the end of a row: what is there is overwritten later or never used.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types

from limberjack._jit import inner, outlined
from limberjack.constraints.system import System
from limberjack.linear.block_pivots import four, number, row_sums, set_four, spread
from limberjack.spatial.lanes import Lanes, add, combine, cross4, dot4, intrinsic, lane, mul, pack, scale, splat, sub

__all__ = [
    "CHUNK",
    "PAIR",
    "POINT",
    "Packed",
    "WIDE",
    "prefetch",
    "new_packed",
    "pack_point",
    "pack_rows",
    "pack_rhs",
    "pack_point_rhs",
    "set_point_rates",
    "add_point_forces",
    "unpack",
    "unpack_point",
]

_LANES = Lanes()
_SINGLES = ir.VectorType(ir.FloatType(), 4)
_DOUBLES = ir.VectorType(ir.DoubleType(), 4)
# How far directions may be from orthonormal, and rows from those of a point, relative to 1 and the lever.
_ROUNDING = 1e-13
# How many constraints ahead levers and factors are prefetched.
_AHEAD = 32
# Directions with squared lengths outside this range are stored as PAIR, in double precision.
_LEAST, _MOST = 1e-30, 1e30
WIDE, PAIR, POINT = range(3)
# A pivot at or below this part of A's own diagonal is rounding: its row depends on those before it.
_DEPENDENT = 1e-11
# Constraints of a chunk: their rows and vectors fit into the first level of cache.
CHUNK = 32
# Systems with more constraints than this are ordered by bodies, so that a pass over them stays in cache.
_LARGE = 1000


@intrinsic
def _singles(typing: Any, array: Any, k: Any) -> Any:
    """Return the numbers at indices k .. k + 3 of an array in single precision."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        read = builder.load(builder.bitcast(builder.gep(data, [args[1]]), _SINGLES.as_pointer()), align=4)
        return builder.fpext(read, _DOUBLES)

    return _LANES(array, types.intp), code


@intrinsic
def prefetch(typing: Any, array: Any, k: Any) -> Any:
    """Prefetch the cache line of index k of an array, which need not exist; changes no result."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        byte, index = ir.IntType(8).as_pointer(), ir.IntType(32)
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        kind = ir.FunctionType(ir.VoidType(), [byte, index, index, index])
        ask = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        address = builder.bitcast(builder.gep(data, [args[1]]), byte)
        builder.call(ask, [address, index(0), index(3), index(1)])  # to read, into all levels, data
        return context.get_dummy_value()

    return types.void(array, types.intp), code


@inner
def _direction(J, k):
    return pack(number(J, k + 3), number(J, k + 4), number(J, k + 5))


@inner
def _is_far(a, lever, t):
    """Return whether a row differs from that of a point at the lever."""
    gap = sub(a, cross4(lever, t))
    return not dot4(gap, gap) <= _ROUNDING * _ROUNDING * (1.0 + dot4(lever, lever))


@outlined
def pack_point(J, k, rows, o, i, levers, single):
    """Pack three rows at index k of J as POINT if they have that form; return whether they have.

    Args:
        J: flat rows.
        k: index of the rows on solid b.
        rows: R^-1 J at index o; replaced by T there.
        o: see above.
        i: index of the constraint among those listed.
        levers: (6 n + 4,) levers; l_b is filled.
        single: (9 n + 4,) G.
    """
    s, t, u = _direction(J, k), _direction(J, k + 6), _direction(J, k + 12)
    a, b, c = four(J, k), four(J, k + 6), four(J, k + 12)
    worst = max(abs(dot4(s, s) - 1.0), abs(dot4(t, t) - 1.0), abs(dot4(u, u) - 1.0))
    worst = max(worst, abs(dot4(s, t)), abs(dot4(s, u)), abs(dot4(t, u)))
    if not worst <= _ROUNDING:
        return False
    lever = scale(0.5, add(add(cross4(s, a), cross4(t, b)), cross4(u, c)))
    if _is_far(a, lever, s) or _is_far(b, lever, t) or _is_far(c, lever, u):
        return False
    for r in range(3):
        linear = four(rows, o + 6 * r + 3)
        size = dot4(linear, linear)
        if not (size == 0.0 or _LEAST < size < _MOST):
            return False
        g = 9 * i + 3 * r
        single[g], single[g + 1], single[g + 2] = lane(linear, 0), lane(linear, 1), lane(linear, 2)
    g = 6 * i
    levers[g], levers[g + 1], levers[g + 2] = lane(lever, 0), lane(lever, 1), lane(lever, 2)
    for r in range(3):
        for d in range(3):
            rows[o + 3 * r + d] = J[k + 6 * r + 3 + d]
    return True


@inner
def pack_point_rhs(rows, o, i, single, y, k):
    """Replace three numbers of y from index k on by K of them."""
    x = add(add(mul(four(rows, o), spread(y, k)), mul(four(rows, o + 3), spread(y, k + 1))),
            mul(four(rows, o + 6), spread(y, k + 2)))  # fmt: skip
    g = 9 * i
    y[k] = dot4(_singles(single, g), x)
    y[k + 1] = dot4(_singles(single, g + 3), x)
    y[k + 2] = dot4(_singles(single, g + 6), x)


@inner
def unpack_point(rows, o, i, single, y, k):
    """Replace three numbers of y from index k on by K^T of them."""
    x = _force(single, i, y, k)
    y[k], y[k + 1], y[k + 2] = dot4(four(rows, o), x), dot4(four(rows, o + 3), x), dot4(four(rows, o + 6), x)


@inner
def _force(single, i, y, k):
    """Return the force of constraint i with multipliers at index k of y."""
    g = 9 * i
    return add(
        add(mul(_singles(single, g), spread(y, k)), mul(_singles(single, g + 3), spread(y, k + 1))),
        mul(_singles(single, g + 6), spread(y, k + 2)),
    )


@inner
def add_point_forces(levers, single, i, b, a, y, k, f):
    """Add the forces of constraint i on the solids at indices b and a, a < 0 for none."""
    x = _force(single, i, y, k)
    prefetch(levers, 6 * (i + _AHEAD))
    prefetch(single, 9 * (i + _AHEAD))
    set_four(f, b, add(four(f, b), cross4(four(levers, 6 * i), x)))
    set_four(f, b + 4, add(four(f, b + 4), x))
    if a >= 0:
        set_four(f, a, sub(four(f, a), cross4(four(levers, 6 * i + 3), x)))
        set_four(f, a + 4, sub(four(f, a + 4), x))


@inner
def set_point_rates(levers, single, i, b, a, u, w, k):
    """Set three numbers of w from index k on to G times the relative velocity of the solids at indices b and a."""
    e = add(four(u, b + 4), cross4(four(u, b), four(levers, 6 * i)))
    if a >= 0:
        e = sub(e, add(four(u, a + 4), cross4(four(u, a), four(levers, 6 * i + 3))))
    g = 9 * i
    x, y, z = mul(_singles(single, g), e), mul(_singles(single, g + 3), e), mul(_singles(single, g + 6), e)
    set_four(w, k, row_sums(x, y, z))


class Packed(NamedTuple):
    """Rows and factors of one system; nc constraints, nr rows, nb solids. Never shared between threads."""

    pair: np.ndarray  # (nc,) int64: whether a constraint acts with opposite wrenches at one point
    order: np.ndarray  # (nc,) int64 constraints in the order they are listed
    count: np.ndarray  # (2,) int64 active constraints; 1 where solids share slots in f
    listed: np.ndarray  # (nc,) int64 those constraints
    first: np.ndarray  # (nc + 1,) int32 first index of their rows in packed vectors
    form: np.ndarray  # (nc,) int8 WIDE, PAIR or POINT
    compliant: np.ndarray  # (nc,) int8: whether any of its rows has compliance
    ends: np.ndarray  # (nc, 2) int32 slots of solids b and a, a = -1 for none
    slot: np.ndarray  # (nb,) int32 of the solids in f
    last: np.ndarray  # (nb,) int32 the last constraint on each solid
    left: np.ndarray  # (nb,) int32 constraints on each solid whose rates are not set yet
    spare: np.ndarray  # (nb,) int32 slots that are free again
    opened: np.ndarray  # (nb,) int32 slots in the order they are taken
    done: np.ndarray  # (nb,) int32 solids in the order they have all their forces
    plan: np.ndarray  # (chunks, 3) int32 after each chunk: slots taken, solids done, constraints whose rates can be set
    inverse: np.ndarray  # (nb, 7) Minv in the order of `done`
    levers: np.ndarray  # (6 nc + 4,) levers of points on b and a; of pairs the offset d, then unused
    single: np.ndarray  # (9 nc + 4 or more,) float32 G of points
    rows: np.ndarray  # (6 nr + 4,) R^-1 J on b; of points T
    wide: np.ndarray  # R^-1 J on all bodies, at the indices of J
    factor_start: np.ndarray  # (nc + 1,) int64
    factor: np.ndarray  # R, lower halves row by row, inverse pivots on the diagonal, 0 where a row is dropped
    root: np.ndarray  # (nc,) s
    small: np.ndarray  # (13, 12) one block
    f: np.ndarray  # (8 nb,) forces, then responses: by slots, angular and linear part padded to four each


def new_packed(system: System, pairs: np.ndarray | None = None) -> tuple[Packed, list[np.ndarray]]:
    """Return the arrays of a system, and five packed vectors.

    What each product reads is one allocation: operating systems give large pages to large allocations only.

    Args:
        system: constraints on solids of six displacements.
        pairs: (nc,) which of them act with opposite wrenches at one point, or on one solid; None for none.
    """
    rows, incidences = np.diff(system.row_start), np.diff(system.incidence_start)
    nc, nr, nb = len(rows), int(system.row_start[-1]), len(system.body_start) - 1
    pair = np.zeros(nc, np.int64) if pairs is None else np.where(incidences <= 2, pairs, False).astype(np.int64)
    starts = np.concatenate([[0], np.cumsum(rows * (rows + 1) // 2)]).astype(np.int64)
    wide = np.zeros(0 if pair.all() else int(system.block_start[-1]) + 4)
    key, large = rows, nc > _LARGE and bool(incidences.all())
    if large:
        key = np.maximum.reduceat(system.incidence_body, system.incidence_start[:-1])
    slot, last, left, spare, opened, done = (np.zeros(nb, np.int32) for _ in range(6))
    counts = [8 * (-(-(nr + 4) // 8))] * 5 + [6 * nc + 4, 5 * nc + 2, 7 * nb, nc]
    parts = np.split(np.zeros(sum(counts)), np.cumsum(counts)[:-1])
    levers, single, inverse, ends = parts[5:]
    packed = Packed(
        pair=pair, order=np.argsort(key, kind="stable").astype(np.int64), count=np.array([0, int(large)]),
        listed=np.zeros(nc, np.int64), first=np.zeros(nc + 1, np.int32), form=np.zeros(nc, np.int8),
        compliant=np.zeros(nc, np.int8), ends=ends.view(np.int32).reshape(-1, 2), slot=slot, last=last, left=left,
        spare=spare, opened=opened, done=done, plan=np.zeros((-(-nc // CHUNK), 3), np.int32),
        inverse=inverse.reshape(-1, 7),
        levers=levers, single=single.view(np.float32), rows=np.zeros(6 * nr + 4), wide=wide, factor_start=starts,
        factor=np.zeros(int(starts[-1])), root=np.ones(nc), small=np.zeros((13, 12)), f=np.zeros(8 * nb),
    )  # fmt: skip
    return packed, [part[: nr + 4] for part in parts[:5]]


@inner
def _linear(J, k):
    """Return the linear part of the row at index k of J, without reading past it."""
    return pack(number(J, k + 3), number(J, k + 4), number(J, k + 5))


@inner
def _sum_blocks(system, Minv, c, J, C, small):
    """Fill the lower half of a constraint's diagonal block of A; return whether any of its rows is active."""
    n, m = system.row_start[c + 1] - system.row_start[c], Minv
    for i in range(n):
        for j in range(i):
            small[i, j] = 0.0
        small[i, i] = C[system.row_start[c] + i]
    for t in range(system.incidence_start[c], system.incidence_start[c + 1]):
        b, k = system.incidence_body[t], system.block_start[t]
        xx, xy, xz = pack(m[b, 0], m[b, 3], m[b, 4]), pack(m[b, 3], m[b, 1], m[b, 5]), pack(m[b, 4], m[b, 5], m[b, 2])
        for i in range(n):
            angular, linear = combine(xx, xy, xz, four(J, k + 6 * i)), scale(m[b, 6], _linear(J, k + 6 * i))
            for j in range(i + 1):
                s = add(mul(angular, four(J, k + 6 * j)), mul(linear, _linear(J, k + 6 * j)))
                small[i, j] += (lane(s, 0) + lane(s, 1)) + lane(s, 2)
    acts = False
    for i in range(n):
        acts = acts or small[i, i] != 0.0
    return acts


@inner
def _factor(n, at, small, factor):
    """Replace the block by R with inverse pivots, and store it; return False if a number is not finite."""
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
    """Fill six numbers per row at index o of out with s R^-1 times the rows at index k of J."""
    s = splat(root)
    for i in range(n):
        angular, linear = mul(s, four(J, k + 6 * i)), mul(s, _linear(J, k + 6 * i))
        for j in range(i):
            x = splat(-small[i, j])
            angular, linear = add(angular, mul(x, four(out, o + 6 * j))), add(linear, mul(x, four(out, o + 6 * j + 3)))
        x = splat(small[i, i])
        set_four(out, o + 6 * i, mul(x, angular))
        linear = mul(x, linear)
        out[o + 6 * i + 3], out[o + 6 * i + 4], out[o + 6 * i + 5] = lane(linear, 0), lane(linear, 1), lane(linear, 2)


@outlined
def _plan_product(system, packed):
    """Plan the pass of products over the listed constraints, and assign slots to solids.

    A slot is taken when the pass reaches the first constraint on a solid, and free again when the rates of all on it
    are set. In large systems few are in use at a time: they stay in cache.
    """
    count, slot, last, left = packed.count[0], packed.slot, packed.last, packed.left
    for b in range(len(slot)):
        slot[b], left[b] = -1, 0
    for i in range(count):
        c = packed.listed[i]
        for t in range(system.incidence_start[c], system.incidence_start[c + 1]):
            b = system.incidence_body[t]
            last[b] = i
            left[b] += 1
    opened = done = pulled = spare = chunk = used = 0
    for begin in range(0, count, CHUNK):
        end = min(begin + CHUNK, count)
        for i in range(begin, end):
            c = packed.listed[i]
            first = system.incidence_start[c]
            packed.ends[i, 1] = -1
            for t in range(first, system.incidence_start[c + 1]):
                b = system.incidence_body[t]
                if slot[b] < 0:
                    if packed.count[1] == 0:
                        slot[b] = b
                    elif spare > 0:
                        spare -= 1
                        slot[b] = packed.spare[spare]
                    else:
                        slot[b] = used
                        used += 1
                    packed.opened[opened] = slot[b]
                    opened += 1
                if t < first + 2:
                    packed.ends[i, t - first] = slot[b]
                if last[b] == i:
                    packed.done[done] = b
                    done += 1
        waiting = False
        while pulled < count and not waiting:
            c = packed.listed[pulled]
            for t in range(system.incidence_start[c], system.incidence_start[c + 1]):
                waiting = waiting or last[system.incidence_body[t]] >= end
            if waiting:
                break
            for t in range(system.incidence_start[c], system.incidence_start[c + 1]):
                b = system.incidence_body[t]
                left[b] -= 1
                if left[b] == 0:
                    packed.spare[spare] = slot[b]
                    spare += 1
            pulled += 1
        packed.plan[chunk, 0], packed.plan[chunk, 1], packed.plan[chunk, 2] = opened, done, pulled
        chunk += 1


@outlined
def pack_rows(
    # model
    system,
    # in
    Minv, J, C, center, weight,
    # out
    packed,
):  # fmt: skip
    """Pack the active rows; return 0, or 1 + a constraint whose numbers are not finite.

    Args:
        system: incidences of constraints and solids.
        Minv: (nb, 7) world inverse inertia xx yy zz xy xz yz and 1/m.
        J: flat rows.
        C: (nr,) compliance.
        center: (nb, 3 or more) com of the solids.
        weight: (nc,) weights of the residuals of constraints.
        packed: of this system.
    """
    listed, row, small = 0, 0, packed.small
    packed.first[0] = 0
    for at in range(len(packed.order)):
        c = packed.order[at]
        n = system.row_start[c + 1] - system.row_start[c]
        if not _sum_blocks(system, Minv, c, J, C, small):
            continue
        if not _factor(n, packed.factor_start[c], small, packed.factor):
            return 1 + c
        packed.root[c] = np.sqrt(weight[c])
        packed.compliant[listed] = 0
        for i in range(n):
            if C[system.row_start[c] + i] != 0.0:
                packed.compliant[listed] = 1
        t, form = system.incidence_start[c], WIDE
        if packed.pair[c] == 1:
            form = PAIR
            _divide(n, packed.root[c], small, J, system.block_start[t], packed.rows, 6 * row)
            gap = 6 * listed
            if n == 3 and packed.compliant[listed] == 0:
                k = system.block_start[t]
                if pack_point(J, k, packed.rows, 6 * row, listed, packed.levers, packed.single):
                    form, gap = POINT, gap + 3
            if system.incidence_start[c + 1] - t == 2:
                b, a = system.incidence_body[t], system.incidence_body[t + 1]
                for k in range(3):
                    x = center[b, k] - center[a, k]
                    packed.levers[gap + k] = packed.levers[gap + k - 3] + x if form == POINT else x
        else:
            for s in range(t, system.incidence_start[c + 1]):
                k = system.block_start[s]
                _divide(n, packed.root[c], small, J, k, packed.wide, k)
        packed.form[listed] = form
        packed.listed[listed] = c
        row += n
        listed += 1
        packed.first[listed] = row
    packed.count[0] = listed
    _plan_product(system, packed)
    for i in range(packed.plan[(listed - 1) // CHUNK, 1] if listed > 0 else 0):
        for k in range(7):
            packed.inverse[i, k] = Minv[packed.done[i], k]
    return 0


@inner
def _forward(n, root, at, factor, y, k):
    """Replace n numbers of y from index k on by s R^-1 of them."""
    for i in range(n):
        x = root * y[k + i]
        for j in range(i):
            x -= factor[at] * y[k + j]
            at += 1
        y[k + i] = x * factor[at]
        at += 1


@inner
def _backward(n, root, at, factor, y, k):
    """Replace n numbers of y from index k on by s R^-T of them."""
    for i in range(n - 1, -1, -1):
        x = y[k + i]
        for j in range(i + 1, n):
            x -= factor[at + ((j * (j + 1)) >> 1) + i] * y[k + j]
        y[k + i] = x * factor[at + ((i * (i + 3)) >> 1)]
    for i in range(n):
        y[k + i] *= root


@outlined
def pack_rhs(system, packed, b, y):
    """Fill the packed y with K b."""
    for i in range(packed.count[0]):
        c, k = packed.listed[i], packed.first[i]
        n = packed.first[i + 1] - k
        for r in range(n):
            y[k + r] = b[system.row_start[c] + r]
        if packed.form[i] == POINT:
            pack_point_rhs(packed.rows, 6 * k, i, packed.single, y, k)
            continue
        _forward(n, packed.root[c], packed.factor_start[c], packed.factor, y, k)


@outlined
def unpack(system, packed, y, lam):
    """Fill lam with K^T y, 0 for rows left out; y is changed."""
    for r in range(len(lam)):
        lam[r] = 0.0
    for i in range(packed.count[0]):
        c, k = packed.listed[i], packed.first[i]
        n = packed.first[i + 1] - k
        if packed.form[i] == POINT:
            unpack_point(packed.rows, 6 * k, i, packed.single, y, k)
        else:
            _backward(n, packed.root[c], packed.factor_start[c], packed.factor, y, k)
        for r in range(n):
            lam[system.row_start[c] + r] = y[k + r]
