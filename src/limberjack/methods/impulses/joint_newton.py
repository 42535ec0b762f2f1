"""Joints met one after the other, as Weinstein, Teran and Fedkiw (2006) do.

Pre-stabilisation (their 4): the bodies of a joint are moved to where the step leads; f is what its locked rows are off
by there. Newton finds the impulse j along the rows of the start with f(j) = 0,

    A dj = -f / h,   A = J' G M^-1 J^T,   j <- j + eps dj,

J' the rows there and G what a change of velocity does to a pose (for turns by a = h w the derivative of exp,
1 + (1 - cos t) / t^2 a* + (t - sin t) / t^3 a* a*, t = abs(a): the paper's appendix without its 0 / 0 at rest). A joint
is left when its error has come down to (1 - eps) of what it was. With the paper's schedule eps grows from 1 / sweeps to
1 over the sweeps; without, it is 1. Where a step of Newton does not bring the error down, or always, the best part of
it is found by golden section. Velocities (their 5): the rates of the locked rows are brought to 0 by eps. Impulses act
along locked directions only: the paper's 6 x 6 response would carry them along free ones too.
"""

from __future__ import annotations

import math

from limberjack._jit import inner, outlined
from limberjack.constraints.compound import set_compound
from limberjack.constraints.rows import GAP, LEVER_A, LEVER_B, REGISTERED, row, set_pair
from limberjack.maximal.solve import TOUCH
from limberjack.methods.impulses.motion import drift_body
from limberjack.spatial.quaternions import rotation_from_quaternion
from limberjack.spatial.trig import sincos
from limberjack.spatial.vectors import cross, symmetric_times

__all__ = [
    "ALWAYS", "FALLBACK", "NEVER", "post_stabilize_in_sweeps", "sweep_joints", "take_end_row", "take_end_rows",
    "time_rates",
]  # fmt: skip

# Limits that show themselves only where a step leads: the rows of black-box joints that nothing stops yet.


@inner
def _empty(system, c, j):
    """Return whether the row of constraint c moves nothing."""
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
    c, there,
    # out
    e,
):  # fmt: skip
    """Give the one-sided row of constraint c, if it moves nothing where a step starts, its direction where it leads."""
    table, system = setup.table, setup.system
    r = system.row_start[c]
    if table.terms[table.term_start[r], 0] != REGISTERED or there.values[r, 0] > TOUCH or not _empty(system, c, e.j):
        return
    k = table.row_pair[r, 0]
    w, s = there.wrench, e.state
    nx, ny, nz, fx, fy, fz = w[r, 0], w[r, 1], w[r, 2], w[r, 3], w[r, 4], w[r, 5]
    for end in range(2):
        o = setup.touch[r, end]
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
def take_end_rows(setup, there, e):
    """Do so for all one-sided rows."""
    for c in range(setup.constraints[0], setup.constraints[1]):
        take_end_row(setup, c, there, e)


# When the best part of a Newton step is looked for: never, where the error does not drop, always.
NEVER, FALLBACK, ALWAYS = 0.0, 1.0, 2.0
# Newton steps per joint and visit; steps of golden section, over 0 .. _FAR of a Newton step.
_STEPS, _GOLDEN, _FAR = 8, 30, 2.0
_RATIO = 0.5 * (math.sqrt(5.0) - 1.0)
# Velocities are settled when no row changes by more than this [m/s, rad/s].
_SETTLED = 1e-12
# Rows of the scratch: K and its factor, or A (6), error, impulse, velocities kept of up to four bodies.
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
    """Let the impulse `impulse` along row r of constraint c act."""
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
    """Put the solution of K x = -error into the impulse."""
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
def _jacobian(setup, c, h, u, e, there, inverse, w):
    """Put A = J' G M^-1 J^T of constraint c, with the rows there, into the scratch."""
    system, table = setup.system, setup.table
    first = system.row_start[c]
    n = system.row_start[c + 1] - first
    for a in range(n):
        r = first + a
        for b in range(n):
            w[_K + a, b] = 0.0
        if table.speed[r] == 1:
            # its error is a rate, of the rows of the start
            for b in range(n):
                for t in range(system.incidence_start[c], system.incidence_start[c + 1]):
                    o = system.block_start[t] + 6 * a
                    x = _response(system, c, first + b, first, e.j, inverse, t)
                    for k in range(6):
                        w[_K + a, b] += e.j[o + k] * x[k]
            continue
        for place in range(4):
            if setup.touch[r, place] < 0:
                continue
            slot, end = place // 2, place % 2
            p = table.row_pair[r, slot]
            i, s, o = table.pair_link[p, 1 - end], there.state, 6 * slot
            lever, sign = (LEVER_B, 1.0) if end == 0 else (LEVER_A, -1.0)
            fx, fy, fz = there.wrench[r, o + 3], there.wrench[r, o + 4], there.wrench[r, o + 5]
            x, y, z = s[p, lever], s[p, lever + 1], s[p, lever + 2]
            if end == 1:
                x, y, z = x + s[p, GAP], y + s[p, GAP + 1], z + s[p, GAP + 2]
            x, y, z = cross(x, y, z, fx, fy, fz)
            x, y, z = _exp_derivative(
                h, u, i, there.wrench[r, o] + x, there.wrench[r, o + 1] + y, there.wrench[r, o + 2] + z
            )
            for t in range(system.incidence_start[c], system.incidence_start[c + 1]):
                if system.incidence_body[t] == i:
                    for b in range(n):
                        v = _response(system, c, first + b, first, e.j, inverse, t)
                        w[_K + a, b] += sign * (x * v[0] + y * v[1] + z * v[2] + fx * v[3] + fy * v[4] + fz * v[5])


@outlined
def _solve_jacobian(n, w):
    """Put the solution of A x = -error into the impulse, by elimination with rows exchanged; return whether it is."""
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


@inner
def _rate(system, r, c, j, u):
    first, out = system.row_start[c], 0.0
    for t in range(system.incidence_start[c], system.incidence_start[c + 1]):
        o, b = system.block_start[t] + 6 * (r - first), 6 * system.incidence_body[t]
        for k in range(6):
            out += j[o + k] * u[b + k]
    return out


@outlined
def _residual(setup, c, h, time, before, compound, bulk, u, e, there, pose, w):
    """Move the bodies of constraint c to where h leads, fill its error there; return the square of it."""
    system, table = setup.system, setup.table
    for t in range(system.incidence_start[c], system.incidence_start[c + 1]):
        i = system.incidence_body[t]
        drift_body(i, h, before, bulk, u, pose)
        r = rotation_from_quaternion(pose[i, 3], pose[i, 4], pose[i, 5], pose[i, 6])
        ends = there.ends
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
                set_pair(p, table.pair_link, table.pair_frame, there.ends, there.state)
                if compound[p] >= 0:
                    m = compound[p]
                    set_compound(
                        table.compound[m, 1], table.compound[m, 2], table.factor_kind, table.factor_data, time, p,
                        there.scratch, there.state,
                    )  # fmt: skip
                last = p
        row(table, r, time, there.state, there.near, there.wrench, there.values)
        off = there.values[r, 0] / h
        if table.speed[r] == 1:
            off = _rate(system, r, c, e.j, u)
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
    """Set the velocities to what they were, and `part` of the impulse."""
    for t in range(system.incidence_start[c], system.incidence_start[c + 1]):
        for k in range(6):
            u[6 * system.incidence_body[t] + k] = w[_OLD + t - system.incidence_start[c], k]
    first = system.row_start[c]
    for r in range(first, system.row_start[c + 1]):
        _apply_impulse(system, c, r, part * w[_DJ, r - first], e.j, bulk.inverse, u)


@outlined
def _golden(setup, c, h, time, before, compound, bulk, u, e, there, pose, w):
    """Go the best part of a Newton step, by golden section; return the square of the error there."""
    a, b = 0.0, _FAR
    x, y = b - _RATIO * (b - a), a + _RATIO * (b - a)
    fx = fy = -1.0
    for _ in range(_GOLDEN):
        if fx < 0.0:
            _try_step(setup.system, c, x, e, bulk, u, w)
            fx = _residual(setup, c, h, time, before, compound, bulk, u, e, there, pose, w)
        if fy < 0.0:
            _try_step(setup.system, c, y, e, bulk, u, w)
            fy = _residual(setup, c, h, time, before, compound, bulk, u, e, there, pose, w)
        if fx <= fy:
            b, y, fy = y, x, fx
            x, fx = b - _RATIO * (b - a), -1.0
        else:
            a, x, fx = x, y, fy
            y, fy = a + _RATIO * (b - a), -1.0
    _try_step(setup.system, c, 0.5 * (a + b), e, bulk, u, w)
    return _residual(setup, c, h, time, before, compound, bulk, u, e, there, pose, w)


@outlined
def _pre_stabilize_joint(setup, c, eps, search, enough, h, time, before, compound, bulk, u, e, there, pose, w):
    """Bring the error of constraint c, where the step leads, down to (1 - eps) of what it is; return its square."""
    system = setup.system
    n = system.row_start[c + 1] - system.row_start[c]
    start = _residual(setup, c, h, time, before, compound, bulk, u, e, there, pose, w)
    if start * h * h <= enough * enough:
        return start
    target, square = max((1.0 - eps) * (1.0 - eps) * start, enough * enough / (h * h)), start
    for _ in range(_STEPS):
        _jacobian(setup, c, h, u, e, there, bulk.inverse, w)
        if not _solve_jacobian(n, w):
            break
        _save_velocities(system, c, u, w)
        if search == ALWAYS:
            found = _golden(setup, c, h, time, before, compound, bulk, u, e, there, pose, w)
        else:
            _try_step(system, c, eps, e, bulk, u, w)
            found = _residual(setup, c, h, time, before, compound, bulk, u, e, there, pose, w)
            if search == FALLBACK and not found < square:
                found = _golden(setup, c, h, time, before, compound, bulk, u, e, there, pose, w)
        if not found < 1e200:
            _try_step(system, c, 0.0, e, bulk, u, w)
            break
        better, square = found < square, found
        # half a promille more than the aim is not worth another step
        if square <= 1.001 * target or not better:
            break
    return start


@outlined
def _pre_stabilize_limit(setup, c, h, time, before, compound, bulk, u, e, there, pose, total, w):
    """Push constraint c, which holds on one side, out of where the step leads; return the square of its error there."""
    system, r = setup.system, setup.system.row_start[c]
    square = _residual(setup, c, h, time, before, compound, bulk, u, e, there, pose, w)
    off = there.values[r, 0] / h
    if off >= 0.0 and total[r] == 0.0:
        return 0.0
    take_end_row(setup, c, there, e)
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
    low, high, height, eps, search, enough, h, time, before, compound, bulk, e,
    # out
    there, pose, total, w, u,
):  # fmt: skip
    """Close every joint once where the step leads, one after the other; return the largest error that was found.

    Args:
        setup: what stays.
        low, high: joints are left out whose higher body is not above level `low`, or is above `high`.
        height: (n,) level of each body.
        eps: part of its error that a joint loses.
        search: NEVER, BEYOND or ALWAYS by golden section.
        enough: errors that small are left [m, rad].
        h: step [s].
        time: at its end [s].
        before: poses at its start.
        compound: (p,) the entry of each pair among the compound ones, or -1.
        bulk: the bodies.
        e: rows at the start.
        there, pose, w: scratch; the poses of the bodies that joints hold are where the step led when last looked at.
        total: (r,) impulses of one-sided rows.
        u: velocities.
    """
    counts, system, worst = setup.constraints, setup.system, 0.0
    for c in range(counts[1]):
        if _asleep(system, c, bulk.asleep) or not low < _level(system, c, height) <= high:
            continue
        if c < counts[0]:
            square = _pre_stabilize_joint(
                setup, c, eps, search, enough, h, time, before, compound, bulk, u, e, there, pose, w
            )
        else:
            square = _pre_stabilize_limit(setup, c, h, time, before, compound, bulk, u, e, there, pose, total, w)
        worst = max(worst, square)
    return h * math.sqrt(worst)


@outlined
def time_rates(setup, e, u, target):
    """Fill the rates that rows have by time alone, with the velocities they were evaluated at."""
    system = setup.system
    for c in range(setup.constraints[1]):
        for r in range(system.row_start[c], system.row_start[c + 1]):
            target[r] = e.values[r, 1] - _rate(system, r, c, e.j, u)


@outlined
def post_stabilize_in_sweeps(
    # model
    setup,
    # in
    times, gradual, touch, friction_time, rows, bulk, e,
    # out
    u,
):  # fmt: skip
    """Bring the velocities onto the joints, one after the other (post-stabilisation).

    Args:
        setup: what stays.
        times: sweeps.
        gradual: whether the part of a rate that is taken out grows to 1 over the sweeps.
        touch: one-sided rows act when their value is at most this.
        rub: for how long dry friction acts [s]; 0 = not at all.
        rows: rates by time alone, joints with dry friction; scratch.
        bulk: the bodies.
        e: rows.
        u: velocities.
    """
    counts, system, w = setup.constraints, setup.system, rows.small
    for k in range(times):
        most = 0.0
        eps = (k + 1.0) / times if gradual else 1.0
        for c in range(counts[1]):
            first = system.row_start[c]
            if _asleep(system, c, bulk.asleep) or (c >= counts[0] and e.values[first, 0] > touch):
                continue
            _factor(system, c, e.j, bulk.inverse, w)
            n = system.row_start[c + 1] - first
            for r in range(n):
                w[_F, r] = eps * (_rate(system, first + r, c, e.j, u) + rows.target[first + r])
                most = max(most, abs(w[_F, r]))
            _solve(n, w)
            for r in range(n):
                impulse = w[_DJ, r]
                if c >= counts[0]:
                    impulse = max(impulse, -rows.total[first])
                    rows.total[first] += impulse
                _apply_impulse(system, c, first + r, impulse, e.j, bulk.inverse, u)
        if friction_time > 0.0:
            for m in range(len(rows.friction_rows)):
                c = rows.friction_rows[m]
                r = system.row_start[c]
                _factor(system, c, e.j, bulk.inverse, w)
                impulse = rows.total[r] - w[_K, 0] * _rate(system, r, c, e.j, u)
                impulse = min(max(impulse, -friction_time * rows.most[m]), friction_time * rows.most[m]) - rows.total[r]
                rows.total[r] += impulse
                most = max(most, abs(impulse))
                _apply_impulse(system, c, r, impulse, e.j, bulk.inverse, u)
        if most <= _SETTLED and not gradual:
            break
