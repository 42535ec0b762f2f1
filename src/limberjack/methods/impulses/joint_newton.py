"""Joints one after the other, as Weinstein, Teran and Fedkiw (2006) do.

Pre-stabilisation (section IV, `sweep_joints`): the bodies of a joint are moved to the end of the step by equation (1);
f are the values of its locked rows there, which are 0 in the target state of equation (4). Newton's method finds the
impulse j along the rows of the start with f(j) = 0,

    A dj = -f / h,   A = J' G M^-1 J^T,   j <- j + eps dj,

    symbol  thing                                               in the paper
    j       impulses along the locked rows                      j and j_tau, linear and angular impulse, (2) and (3)
    f       values of the locked rows at the end of the step    f(j) from (5), f(j_tau) from (6)
    A       its derivative                                      df/dj, df/dj_tau (appendix)
    J, J'   rows at the start and at the end of the step
    G       derivative of a pose by h times its velocity        of q^(dt w) (appendix)
    eps     part of the error that a visit takes out            eps, end of sections IV and V

One system of up to six rows replaces the alternation of a linear and an angular solve, and impulses act along locked
directions only: the 3 x 3 systems of the paper also transmit impulses along free ones. For rotations by a = h w, G is
the derivative of exp, 1 + (1 - cos t) / t^2 a* + (t - sin t) / t^3 a* a* with t = |a|, which is regular at rest where
the formulas of the appendix are 0 / 0. A joint is left when its error is (1 - eps) of what it was: with the paper's
schedule eps grows from 1 / sweeps to 1 over the sweeps; without, it is 1. Where a Newton step does not reduce the
error, or always, its best part is found by golden section search (end of section IV).

Velocity post-stabilisation (section V, `post_stabilize_in_sweeps`) takes the part eps out of the rates of the locked
rows, again along locked directions only instead of by the 6 x 6 response of the paper.

Sweeps alone converge slowly: a step of 1/60 s would leave the joints of nets and long chains open by centimetres. Where
neither contacts nor limits act, and without the schedule, two sweeps go through the joints forward and backward, which
makes them a symmetric operator, and the change they make is taken for the negative gradient of a nonlinear conjugate
gradient method (`accelerate`), as in `joint_contacts.py`.

The sweeps over velocities after forces have acted start from the joints' forces of the last step (`_warm_start`),
without the schedule: the load of a taut structure has to cross it once and not in every step.

Limits are one-sided rows. Those of black-box joints may have no direction at the start, when only the predicted state
violates them; `take_end_row` then takes the direction at the end.
"""

from __future__ import annotations

import math

from limberjack._jit import inner, outlined
from limberjack.constraints.compound import set_compound
from limberjack.constraints.rows import GAP, LEVER_A, LEVER_B, REGISTERED, row, set_pair
from limberjack.maximal.soft_rows import row_rate
from limberjack.maximal.solve import ACTIVE_TOLERANCE
from limberjack.methods.impulses.motion import drift_body
from limberjack.spatial.quaternions import rotation_from_quaternion
from limberjack.spatial.trig import sincos
from limberjack.spatial.vectors import cross, symmetric_times

__all__ = [
    "ALWAYS", "FALLBACK", "NEVER", "accelerate", "post_stabilize_in_sweeps", "sweep_joints",
    "take_end_row", "take_end_rows", "time_rates",
]  # fmt: skip

# When to search along a Newton step by golden section: never, where the error does not drop, always.
NEVER, FALLBACK, ALWAYS = 0.0, 1.0, 2.0
# Newton steps per joint and visit; steps of the golden section search, over 0 .. _FAR of a Newton step.
_STEPS, _GOLDEN, _FAR = 8, 30, 2.0
_RATIO = 0.5 * (math.sqrt(5.0) - 1.0)
# Sweeps over velocities end when no row changes by more than this [m/s, rad/s].
_SETTLED = 1e-10
# Rows of the scratch: K and its factor, or A (6); f; dj; saved velocities of up to four bodies.
_K, _F, _DJ, _OLD = 0, 6, 7, 8


@inner
def _asleep(system, c, asleep):
    for t in range(system.incidence_start[c], system.incidence_start[c + 1]):
        if not asleep[system.incidence_body[t]]:
            return False
    return True


@inner
def _level(system, c, height):
    """Return the level of the higher body of constraint c."""
    out = 0
    for t in range(system.incidence_start[c], system.incidence_start[c + 1]):
        out = max(out, height[system.incidence_body[t]])
    return out


@inner
def _response(system, c, r, first, j, inverse, t):
    """Return M^-1 times the part of row r on its body t."""
    o, i = system.block_start[t] + 6 * (r - first), system.incidence_body[t]
    own = (inverse[i, 0], inverse[i, 1], inverse[i, 2], inverse[i, 3], inverse[i, 4], inverse[i, 5])
    x, y, z = symmetric_times(own, j[o], j[o + 1], j[o + 2])
    f = inverse[i, 6]
    return x, y, z, f * j[o + 3], f * j[o + 4], f * j[o + 5]


@outlined
def _apply_impulse(system, c, r, impulse, j, inverse, u):
    """Apply an impulse along row r of constraint c to its bodies."""
    # equations (2) and (3), with the levers in J
    first = system.row_start[c]
    for t in range(system.incidence_start[c], system.incidence_start[c + 1]):
        b = 6 * system.incidence_body[t]
        a0, a1, a2, a3, a4, a5 = _response(system, c, r, first, j, inverse, t)
        u[b] += impulse * a0
        u[b + 1] += impulse * a1
        u[b + 2] += impulse * a2
        u[b + 3] += impulse * a3
        u[b + 4] += impulse * a4
        u[b + 5] += impulse * a5


@outlined
def _factor(system, c, j, inverse, w):
    """Put L D L^T of K = J M^-1 J^T of constraint c into the scratch: L below, 1 / D on the diagonal."""
    first = system.row_start[c]
    n = system.row_start[c + 1] - first
    for a in range(n):
        for b in range(a + 1):
            w[_K + a, b] = 0.0
        for t in range(system.incidence_start[c], system.incidence_start[c + 1]):
            a0, a1, a2, a3, a4, a5 = _response(system, c, first + a, first, j, inverse, t)
            for b in range(a + 1):
                o = system.block_start[t] + 6 * b
                w[_K + a, b] += (
                    a0 * j[o] + a1 * j[o + 1] + a2 * j[o + 2] + a3 * j[o + 3] + a4 * j[o + 4] + a5 * j[o + 5]
                )
    for a in range(n):
        whole = w[_K + a, a]
        for b in range(a):
            for k in range(b):
                w[_K + a, b] -= w[_K + a, k] * w[_K + b, k]
            # until here w[a, b] is L D
        for b in range(a):
            left = w[_K + a, b]
            w[_K + a, b] = left * w[_K + b, b]
            w[_K + a, a] -= left * w[_K + a, b]
        w[_K + a, a] = 1.0 / w[_K + a, a] if w[_K + a, a] > 1e-12 * whole else 0.0


@outlined
def _solve(n, w):
    """Fill dj with the solution of K dj = -f."""
    for a in range(n):
        w[_DJ, a] = -w[_F, a]
        for b in range(a):
            w[_DJ, a] -= w[_K + a, b] * w[_DJ, b]
    for a in range(n):
        w[_DJ, a] *= w[_K + a, a]
    for a in range(n - 1, -1, -1):
        for b in range(a + 1, n):
            w[_DJ, a] -= w[_K + b, a] * w[_DJ, b]


@outlined
def _exp_derivative(h, u, i, x, y, z):
    """Return (x, y, z) times the derivative of exp at h w of body i."""
    # appendix, derivative of q^(w)[r], without its 0 / 0 at w = 0
    a, b, c = h * u[6 * i], h * u[6 * i + 1], h * u[6 * i + 2]
    square = a * a + b * b + c * c
    if square < 1e-6:
        f, g = 0.5 - square / 24.0, 1.0 / 6.0 - square / 120.0
    else:
        t = math.sqrt(square)
        sine, cosine = sincos(t)
        f, g = (1.0 - cosine) / square, (t - sine) / (square * t)
    px, py, pz = cross(a, b, c, x, y, z)
    qx, qy, qz = cross(a, b, c, px, py, pz)
    return x - f * px + g * qx, y - f * py + g * qy, z - f * pz + g * qz


@outlined
def _jacobian(setup, c, h, u, e, predicted, inverse, w):
    """Fill A = J' G M^-1 J^T of constraint c in the scratch."""
    # appendix: df/dj and df/dj_tau in one matrix
    system, table = setup.system, setup.table
    first = system.row_start[c]
    n = system.row_start[c + 1] - first
    for a in range(n):
        r = first + a
        for b in range(n):
            w[_K + a, b] = 0.0
        if table.speed[r] == 1:
            # the error of this row is a rate, of the rows of the start
            for b in range(n):
                for t in range(system.incidence_start[c], system.incidence_start[c + 1]):
                    o = system.block_start[t] + 6 * a
                    x = _response(system, c, first + b, first, e.j, inverse, t)
                    for k in range(6):
                        w[_K + a, b] += e.j[o + k] * x[k]
            continue
        for column in range(4):
            if setup.row_block[r, column] < 0:
                continue
            slot, end = column // 2, column % 2
            p = table.row_pair[r, slot]
            i, s, o = table.pair_link[p, 1 - end], predicted.state, 6 * slot
            lever, sign = (LEVER_B, 1.0) if end == 0 else (LEVER_A, -1.0)
            fx, fy, fz = predicted.wrench[r, o + 3], predicted.wrench[r, o + 4], predicted.wrench[r, o + 5]
            x, y, z = s[p, lever], s[p, lever + 1], s[p, lever + 2]
            if end == 1:
                x, y, z = x + s[p, GAP], y + s[p, GAP + 1], z + s[p, GAP + 2]
            x, y, z = cross(x, y, z, fx, fy, fz)
            x, y, z = _exp_derivative(
                h, u, i, predicted.wrench[r, o] + x, predicted.wrench[r, o + 1] + y, predicted.wrench[r, o + 2] + z
            )
            for t in range(system.incidence_start[c], system.incidence_start[c + 1]):
                if system.incidence_body[t] == i:
                    for b in range(n):
                        v = _response(system, c, first + b, first, e.j, inverse, t)
                        w[_K + a, b] += sign * (x * v[0] + y * v[1] + z * v[2] + fx * v[3] + fy * v[4] + fz * v[5])


@outlined
def _solve_jacobian(n, w):
    """Fill dj with the solution of A dj = -f by elimination with row pivoting; return whether there is one."""
    # section IV: (df/dj) dj = -f(j)
    for a in range(n):
        w[_DJ, a] = -w[_F, a]
    for k in range(n):
        best, at = 0.0, -1
        for a in range(k, n):
            if abs(w[_K + a, k]) > best:
                best, at = abs(w[_K + a, k]), a
        if at < 0:
            return False
        for b in range(k, n):
            w[_K + k, b], w[_K + at, b] = w[_K + at, b], w[_K + k, b]
        w[_DJ, k], w[_DJ, at] = w[_DJ, at], w[_DJ, k]
        for a in range(k + 1, n):
            f = w[_K + a, k] / w[_K + k, k]
            for b in range(k + 1, n):
                w[_K + a, b] -= f * w[_K + k, b]
            w[_DJ, a] -= f * w[_DJ, k]
    for a in range(n - 1, -1, -1):
        for b in range(a + 1, n):
            w[_DJ, a] -= w[_K + a, b] * w[_DJ, b]
        w[_DJ, a] /= w[_K + a, a]
    return True


@outlined
def _residual(setup, c, h, time, before, compound, bulk, u, e, predicted, pose, w):
    """Move the bodies of constraint c to the end of h, fill f / h of its rows there; return the square of it."""
    # equation (1), then (5) and (6): values of the rows against the target
    system, table = setup.system, setup.table
    for t in range(system.incidence_start[c], system.incidence_start[c + 1]):
        i = system.incidence_body[t]
        drift_body(i, h, before, bulk, u, pose)
        r = rotation_from_quaternion(pose[i, 3], pose[i, 4], pose[i, 5], pose[i, 6])
        ends = predicted.ends
        ends[i, 0], ends[i, 1], ends[i, 2], ends[i, 3], ends[i, 4] = r[0], r[1], r[2], r[3], r[4]
        ends[i, 5], ends[i, 6], ends[i, 7], ends[i, 8] = r[5], r[6], r[7], r[8]
        for k in range(3):
            ends[i, 9 + k] = pose[i, k]
        for k in range(6):
            ends[i, 12 + k] = u[6 * i + k]
    first, square, last = system.row_start[c], 0.0, -1
    for r in range(first, system.row_start[c + 1]):
        for slot in range(2):
            p = table.row_pair[r, slot]
            if p >= 0 and p != last:
                set_pair(p, table.pair_link, table.pair_frame, predicted.ends, predicted.state)
                if compound[p] >= 0:
                    m = compound[p]
                    set_compound(
                        table.compound[m, 1], table.compound[m, 2], table.factor_kind, table.factor_data, time, p,
                        predicted.scratch, predicted.state,
                    )  # fmt: skip
                last = p
        row(table, r, time, predicted.state, predicted.near, predicted.wrench, predicted.values)
        off = predicted.values[r, 0] / h
        if table.speed[r] == 1:
            off = row_rate(system, r, c, e.j, u)
        w[_F, r - first] = off
        square += off * off
    return square


@inner
def _save_velocities(system, c, u, w):
    for t in range(system.incidence_start[c], system.incidence_start[c + 1]):
        for k in range(6):
            w[_OLD + t - system.incidence_start[c], k] = u[6 * system.incidence_body[t] + k]


@inner
def _try_step(system, c, part, e, bulk, u, w):
    """Set the velocities to the saved ones and `part` of dj."""
    for t in range(system.incidence_start[c], system.incidence_start[c + 1]):
        for k in range(6):
            u[6 * system.incidence_body[t] + k] = w[_OLD + t - system.incidence_start[c], k]
    first = system.row_start[c]
    for r in range(first, system.row_start[c + 1]):
        _apply_impulse(system, c, r, part * w[_DJ, r - first], e.j, bulk.inverse, u)


@outlined
def _golden(setup, c, h, time, before, compound, bulk, u, e, predicted, pose, w):
    """Take the best part of a Newton step, by golden section search; return the square of the error there."""
    a, b = 0.0, _FAR
    x, y = b - _RATIO * (b - a), a + _RATIO * (b - a)
    fx = fy = -1.0
    for _ in range(_GOLDEN):
        if fx < 0.0:
            _try_step(setup.system, c, x, e, bulk, u, w)
            fx = _residual(setup, c, h, time, before, compound, bulk, u, e, predicted, pose, w)
        if fy < 0.0:
            _try_step(setup.system, c, y, e, bulk, u, w)
            fy = _residual(setup, c, h, time, before, compound, bulk, u, e, predicted, pose, w)
        if fx <= fy:
            b, y, fy = y, x, fx
            x, fx = b - _RATIO * (b - a), -1.0
        else:
            a, x, fx = x, y, fy
            y, fy = a + _RATIO * (b - a), -1.0
    _try_step(setup.system, c, 0.5 * (a + b), e, bulk, u, w)
    return _residual(setup, c, h, time, before, compound, bulk, u, e, predicted, pose, w)


@outlined
def _pre_stabilize_joint(setup, c, eps, search, tolerance, h, time, before, compound, bulk, u, e, predicted, pose, w):
    """Reduce the error of constraint c at the end of the step to (1 - eps) of what it is; return its former square."""
    system = setup.system
    n = system.row_start[c + 1] - system.row_start[c]
    start = _residual(setup, c, h, time, before, compound, bulk, u, e, predicted, pose, w)
    if start * h * h <= tolerance * tolerance:
        return start
    target, square = max((1.0 - eps) * (1.0 - eps) * start, tolerance * tolerance / (h * h)), start
    for _ in range(_STEPS):
        _jacobian(setup, c, h, u, e, predicted, bulk.inverse, w)
        if not _solve_jacobian(n, w):
            break
        _save_velocities(system, c, u, w)
        if search == ALWAYS:
            found = _golden(setup, c, h, time, before, compound, bulk, u, e, predicted, pose, w)
        else:
            _try_step(system, c, eps, e, bulk, u, w)
            found = _residual(setup, c, h, time, before, compound, bulk, u, e, predicted, pose, w)
            if search == FALLBACK and not found < square:
                found = _golden(setup, c, h, time, before, compound, bulk, u, e, predicted, pose, w)
        if not found < 1e200:
            _try_step(system, c, 0.0, e, bulk, u, w)
            break
        better, square = found < square, found
        # half a per mille more than the target is not worth another step
        if square <= 1.001 * target or not better:
            break
    return start


@inner
def _empty(system, c, j):
    """Return whether the row of constraint c is zero."""
    for t in range(system.incidence_start[c], system.incidence_start[c + 1]):
        for o in range(system.block_start[t], system.block_start[t] + 6):
            if j[o] != 0.0:
                return False
    return True


@outlined
def take_end_row(
    # model
    setup,
    # in
    c, predicted,
    # out
    e,
):  # fmt: skip
    """Fill the one-sided row of constraint c, if it is zero at the start of a step, with its direction at the end."""
    table, system = setup.table, setup.system
    r = system.row_start[c]
    if (
        table.terms[table.term_start[r], 0] != REGISTERED
        or predicted.values[r, 0] > ACTIVE_TOLERANCE
        or not _empty(system, c, e.j)
    ):
        return
    k = table.row_pair[r, 0]
    w, s = predicted.wrench, e.state
    nx, ny, nz, fx, fy, fz = w[r, 0], w[r, 1], w[r, 2], w[r, 3], w[r, 4], w[r, 5]
    for end in range(2):
        o = setup.row_block[r, end]
        if o < 0:
            continue
        lever, sign = (LEVER_B, 1.0) if end == 0 else (LEVER_A, -1.0)
        x, y, z = s[k, lever], s[k, lever + 1], s[k, lever + 2]
        if end == 1:
            x, y, z = x + s[k, GAP], y + s[k, GAP + 1], z + s[k, GAP + 2]
        x, y, z = cross(x, y, z, fx, fy, fz)
        e.j[o], e.j[o + 1], e.j[o + 2] = sign * (nx + x), sign * (ny + y), sign * (nz + z)
        e.j[o + 3], e.j[o + 4], e.j[o + 5] = sign * fx, sign * fy, sign * fz


@outlined
def take_end_rows(setup, predicted, e):
    """Call `take_end_row` for all one-sided rows."""
    for c in range(setup.constraints[0], setup.constraints[1]):
        take_end_row(setup, c, predicted, e)


@outlined
def _pre_stabilize_limit(setup, c, h, time, before, compound, bulk, u, e, predicted, pose, total, w):
    """Apply the impulse >= 0 that keeps the one-sided constraint c at the end of the step; return its squared error."""
    system, r = setup.system, setup.system.row_start[c]
    square = _residual(setup, c, h, time, before, compound, bulk, u, e, predicted, pose, w)
    off = predicted.values[r, 0] / h
    if off >= 0.0 and total[r] == 0.0:
        return 0.0
    take_end_row(setup, c, predicted, e)
    _factor(system, c, e.j, bulk.inverse, w)
    impulse = max(-off * w[_K, 0], -total[r])
    total[r] += impulse
    _apply_impulse(system, c, r, impulse, e.j, bulk.inverse, u)
    return square if off < 0.0 else 0.0


@outlined
def sweep_joints(
    # model
    setup,
    # in
    backward, low, high, height, eps, search, tolerance, h, time, before, compound, bulk, e,
    # out
    predicted, pose, total, w, u,
):  # fmt: skip
    """Pre-stabilise every joint once, one after the other (section IV); return the largest error that was found.

    Args:
        setup: constants of the model.
        backward: whether the last joint is the first.
        low, high: joints are left out whose higher body is not above level `low`, or is above `high`.
        height: (n,) level of each body.
        eps: part of its error that a joint loses.
        search: NEVER, FALLBACK or ALWAYS, golden section search.
        tolerance: smaller errors are left [m, rad].
        h: step [s].
        time: at its end [s].
        before: poses at its start.
        compound: (p,) the entry of each pair among the compound ones, or -1.
        bulk: the bodies.
        e: rows at the start.
        predicted, pose, w: scratch; `pose` has the predicted poses of the bodies that were visited last.
        total: (r,) accumulated impulses of one-sided rows.
        u: velocities.
    """
    counts, system, worst = setup.constraints, setup.system, 0.0
    for k in range(counts[1]):
        c = counts[1] - 1 - k if backward else k
        if _asleep(system, c, bulk.asleep) or not low < _level(system, c, height) <= high:
            continue
        if c < counts[0]:
            square = _pre_stabilize_joint(
                setup, c, eps, search, tolerance, h, time, before, compound, bulk, u, e, predicted, pose, w
            )
        else:
            square = _pre_stabilize_limit(setup, c, h, time, before, compound, bulk, u, e, predicted, pose, total, w)
        worst = max(worst, square)
    return h * math.sqrt(worst)


@outlined
def _square(bulk, a, b):
    """Return the sum over the bodies of m v^2 + I w^2 of the difference of two velocities, I the mean moment."""
    out = 0.0
    for i in range(len(bulk.mass)):
        if bulk.jointed[i] and not bulk.led[i]:
            o, g = 6 * i, (bulk.inertia[i, 0] + bulk.inertia[i, 1] + bulk.inertia[i, 2]) / 3.0
            for c in range(3):
                w, v = a[o + c] - b[o + c], a[o + 3 + c] - b[o + 3 + c]
                out += g * w * w + bulk.mass[i] * v * v
    return out


@outlined
def _extrapolate(part, last, values, direction):
    """Extrapolate values after a symmetric sweep by a part of the direction of the sweeps before."""
    for k in range(len(values)):
        further = part * direction[k] if part > 0.0 else 0.0
        direction[k] = further + values[k] - last[k]
        values[k] += further


@outlined
def accelerate(square, bulk, last, u, direction):
    """Extrapolate the velocities u after a symmetric sweep along the direction of the sweeps before.

    Args:
        square: of the change that the sweep before made; negative for none.
        bulk: the bodies.
        last: velocities before the sweep.
        u, direction: velocities, and the direction.

    Returns:
        the square of the change that the sweep made, and the part of the direction that was added.
    """
    now = _square(bulk, u, last)
    part = now / square if 0.0 <= now < square else 0.0
    _extrapolate(part, last, u, direction)
    return now, part


@outlined
def _warm_start(setup, h, bulk, e, rows, u):
    """Apply the impulses with the joints' forces of the last step over h: a structure at rest then needs no sweeps."""
    for c in range(setup.constraints[0]):
        if not _asleep(setup.system, c, bulk.asleep):
            for r in range(setup.system.row_start[c], setup.system.row_start[c + 1]):
                rows.total[r] = h * rows.force[r]
                _apply_impulse(setup.system, c, r, rows.total[r], e.j, bulk.inverse, u)


@outlined
def _store_forces(setup, h, rows):
    """Store the joints' forces over h for the next warm start."""
    for r in range(setup.system.row_start[setup.constraints[0]]):
        rows.force[r] = rows.total[r] / h


@outlined
def time_rates(setup, e, u, target):
    """Fill the partial derivatives by time of the rows, from the rates at the velocities u of their evaluation."""
    system = setup.system
    for c in range(setup.constraints[1]):
        for r in range(system.row_start[c], system.row_start[c + 1]):
            target[r] = e.values[r, 1] - row_rate(system, r, c, e.j, u)


@outlined
def post_stabilize_in_sweeps(
    # model
    setup,
    # in
    times, gradual, active, h, rows, bulk, e,
    # out
    last, direction, last_total, total_direction, u,
):  # fmt: skip
    """Project the velocities onto the joints, one after the other (velocity post-stabilisation, section V).

    Args:
        setup: constants of the model.
        times: sweeps.
        gradual: whether the part of a rate that is taken out grows to 1 over the sweeps.
        active: one-sided rows act when their value is at most this.
        h: how long forces have acted, and dry friction does [s]; 0 = not at all.
        rows: rates by time alone, joints with dry friction; scratch.
        bulk: the bodies.
        e: rows.
        last, direction, last_total, total_direction: scratch of the acceleration.
        u: velocities.
    """
    counts, system, w, square, bounded = setup.constraints, setup.system, rows.small, -1.0, False
    if h > 0.0 and not gradual:
        _warm_start(setup, h, bulk, e, rows, u)
    for k in range(times):
        most = 0.0
        eps = (k + 1.0) / times if gradual else 1.0
        if k % 2 == 0:
            for i in range(len(u)):
                last[i] = u[i]
            for r in range(len(last_total)):
                last_total[r] = rows.total[r]
        for t in range(counts[1]):
            c = counts[1] - 1 - t if k % 2 == 1 and not gradual else t
            first = system.row_start[c]
            if _asleep(system, c, bulk.asleep) or (c >= counts[0] and e.values[first, 0] > active):
                continue
            _factor(system, c, e.j, bulk.inverse, w)
            n = system.row_start[c + 1] - first
            for r in range(n):
                w[_F, r] = eps * (row_rate(system, first + r, c, e.j, u) + rows.target[first + r])
                most = max(most, abs(w[_F, r]))
            _solve(n, w)
            for r in range(n):
                impulse = w[_DJ, r]
                if c >= counts[0]:
                    impulse = max(impulse, -rows.total[first])
                    bounded = bounded or impulse != 0.0
                rows.total[first + r] += impulse
                _apply_impulse(system, c, first + r, impulse, e.j, bulk.inverse, u)
        if h > 0.0:
            for m in range(len(rows.friction_rows)):
                c = rows.friction_rows[m]
                r = system.row_start[c]
                _factor(system, c, e.j, bulk.inverse, w)
                impulse = rows.total[r] - w[_K, 0] * row_rate(system, r, c, e.j, u)
                impulse = min(max(impulse, -h * rows.most[m]), h * rows.most[m]) - rows.total[r]
                rows.total[r] += impulse
                bounded = bounded or impulse != 0.0
                most = max(most, abs(impulse))
                _apply_impulse(system, c, r, impulse, e.j, bulk.inverse, u)
        if most <= _SETTLED and not gradual:
            break
        if k % 2 == 1 and k < times - 2 and not gradual and not bounded:
            square, part = accelerate(square, bulk, last, u, direction)
            _extrapolate(part, last_total, rows.total, total_direction)
    if h > 0.0:
        _store_forces(setup, h, rows)
