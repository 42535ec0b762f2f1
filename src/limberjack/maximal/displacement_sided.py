"""One-sided rows of displacements in dynamics: limits and contacts, which push and never pull; contacts with friction.

A solve takes the active rows as equalities. Rows that would pull leave, rows that would be violated enter, and it is
repeated: clamping multipliers alone would leave those of the joints that balanced them. Then the cones of contacts are
projected, multipliers that would throw bodies are shortened, and the remainder is relaxed by sweeps of projected
Gauss-Seidel over all rows, each of which lowers the energy of the correction: however few there are, none is made.
"""

from __future__ import annotations

import math

from limberjack._jit import inner, outlined
from limberjack.maximal.displacement_rows import LEVER, MAX_FORCE, SOFT

__all__ = ["clamp_sided", "remove_friction", "set_active", "shorten", "sweep_rows", "update_active_rows"]

# Violations up to this are rounding [m, rad].
_VIOLATED = 1e-12


@inner
def _is_sided(ends, i):
    return ends[0] <= i < ends[1] or ends[3] <= i < ends[4]


@inner
def set_active(system, i, acts, jacobian, active, j):
    """Let constraint i act or not."""
    active[i] = 1 if acts else 0
    f = 1.0 if acts else 0.0
    for o in range(system.block_start[system.incidence_start[i]], system.block_start[system.incidence_start[i + 1]]):
        j[o] = f * jacobian[o]


@inner
def remove_friction(system, i, j, b):
    """Let contact i act along its normal alone."""
    r = system.row_start[i]
    b[r + 1] = b[r + 2] = 0.0
    for t in range(system.incidence_start[i], system.incidence_start[i + 1]):
        for o in range(system.block_start[t] + 6, system.block_start[t] + 18):
            j[o] = 0.0


@inner
def _row_rate(system, i, k, jacobian, d):
    """Return row k of constraint i times the displacements d."""
    rate = 0.0
    for t in range(system.incidence_start[i], system.incidence_start[i + 1]):
        b, o = 6 * system.incidence_body[t], system.block_start[t] + 6 * k
        for c in range(6):
            rate += jacobian[o + c] * d[b + c]
    return rate


@outlined
def update_active_rows(
    # model
    system, ends,
    # in
    leave, rubs, scale, residual, open, jacobian, correction, friction,
    # out
    active, slides, j, b, lam, lam_total,
):  # fmt: skip
    """Deactivate rows that pull, activate those that would be violated, and undo the last solve if there are any.

    Args:
        system, ends: the constraints, see `Net`.
        leave: whether rows may leave: not in the last turns, so that they end.
        rubs: whether contacts have friction.
        scale: of right sides, 1 for displacements and 1/h for impulses.
        residual, open: errors, and those left as they are.
        jacobian: rows of all constraints.
        correction: displacements or changes of velocity by the last solve.
        friction: of contacts.
        active, j, b: active constraints, their rows and right sides.
        slides: which contacts slip: their friction is left to the sweeps.
        lam, lam_total: multipliers of the last solve and their sum.

    Returns:
        Whether there are any.
    """
    changed = False
    for i in range(ends[0], ends[4]):
        if not _is_sided(ends, i):
            continue
        r = system.row_start[i]
        e = residual[r] - open[r]
        if active[i] == 1:
            if leave and lam_total[r] < 0.0:
                set_active(system, i, False, jacobian, active, j)
                changed = True
            elif i >= ends[3] and slides[i - ends[3]] == 0:
                x, y, most = lam_total[r + 1], lam_total[r + 2], friction[i - ends[3]] * lam_total[r]
                if x * x + y * y > most * most:
                    slides[i - ends[3]] = 1
                    remove_friction(system, i, j, b)
                    changed = True
        elif scale * e + _row_rate(system, i, 0, jacobian, correction) < -scale * _VIOLATED:
            set_active(system, i, True, jacobian, active, j)
            b[r] = -scale * e
            if i >= ends[3]:
                b[r + 1], b[r + 2] = -scale * residual[r + 1], -scale * residual[r + 2]
                if slides[i - ends[3]] == 1 or not rubs:
                    remove_friction(system, i, j, b)
            changed = True
    if changed:
        for r in range(len(lam)):
            lam_total[r] -= lam[r]
            lam[r] = 0.0
    return changed


@outlined
def clamp_sided(
    # model
    system, ends,
    # in
    friction,
    # out
    lam, lam_total,
):  # fmt: skip
    """Clamp accumulated multipliers of one-sided rows at 0, and those of contacts to their cones; return the change."""
    moved = False
    for i in range(ends[0], ends[4]):
        if not _is_sided(ends, i):
            continue
        r = system.row_start[i]
        if lam_total[r] < 0.0:
            lam[r] -= lam_total[r]
            lam_total[r] = 0.0
            moved = True
        if i >= ends[3]:
            most = friction[i - ends[3]] * lam_total[r]
            x, y = lam_total[r + 1], lam_total[r + 2]
            size = math.sqrt(x * x + y * y)
            if size > most:
                f = most / size - 1.0
                lam[r + 1], lam[r + 2] = lam[r + 1] + f * x, lam[r + 2] + f * y
                lam_total[r + 1], lam_total[r + 2] = x + f * x, y + f * y
                moved = True
    return moved


@outlined
def shorten(
    # model
    system, ends,
    # in
    scale, residual, open, jacobian, b, c,
    # out
    lam, lam_total, correction,
):  # fmt: skip
    """Scale the multipliers of a solve down to where lam A lam / 2 - lam b is least along them, if that is shorter.

    Where contacts depend on each other a solve of few iterations has large multipliers of both signs that cancel;
    without the negative ones they would throw bodies apart.

    Args:
        system, ends, scale, residual, open, jacobian, b, c: as of `sweep_rows`.
        lam, lam_total: multipliers, clamped.
        correction: M^-1 J^T lam.
    """
    along = square = 0.0
    for i in range(len(system.row_start) - 1):
        first, sided = system.row_start[i], _is_sided(ends, i)
        for r in range(first, system.row_start[i + 1]):
            if lam[r] != 0.0:
                rhs = -scale * (residual[r] - (open[r] if r == first else 0.0)) if sided else b[r]
                along += lam[r] * rhs
                square += lam[r] * (_row_rate(system, i, r - first, jacobian, correction) + c[r] * lam[r])
    if not along < square:
        return
    part = max(along, 0.0) / square
    for r in range(len(lam)):
        lam_total[r] -= (1.0 - part) * lam[r]
        lam[r] *= part
    for k in range(len(correction)):
        correction[k] *= part


@inner
def _add(system, minv, i, k, x, jacobian, d):
    """Add x times M^-1 of row k of constraint i to the displacements d."""
    m = minv
    for t in range(system.incidence_start[i], system.incidence_start[i + 1]):
        n, o = system.incidence_body[t], system.block_start[t] + 6 * k
        a, b, c = x * jacobian[o], x * jacobian[o + 1], x * jacobian[o + 2]
        d[6 * n] += m[n, 0] * a + m[n, 3] * b + m[n, 4] * c
        d[6 * n + 1] += m[n, 3] * a + m[n, 1] * b + m[n, 5] * c
        d[6 * n + 2] += m[n, 4] * a + m[n, 5] * b + m[n, 2] * c
        for e in range(3, 6):
            d[6 * n + e] += m[n, 6] * x * jacobian[o + e]


@outlined
def sweep_rows(
    # model
    system, ends,
    # in
    sweeps, rubs, scale, most, residual, open, friction, track, saturated, jacobian, mobility, minv, b, c, active,
    # out
    lam, lam_total, correction,
):  # fmt: skip
    """Take sweeps of projected Gauss-Seidel over all rows, one-sided ones within their bounds.

    Args:
        system, ends: the constraints, see `Net`.
        sweeps: how many.
        rubs: whether contacts have friction.
        scale: of right sides.
        most: multiplier of a force of 1 N on a tracker.
        residual, open: errors, and those left as they are.
        friction: of contacts.
        track, saturated: of trackers.
        jacobian, mobility, minv: rows, diagonal of J M^-1 J^T, inverse masses.
        b, c: right sides and compliances of active rows.
        active: active constraints; one-sided ones may act in any case.
        lam, lam_total: multipliers.
        correction: M^-1 J^T lam.
    """
    for _ in range(sweeps):
        for i in range(len(active)):
            sided = _is_sided(ends, i)
            if active[i] == 0 and not sided:
                continue
            first = system.row_start[i]
            for k in range(1 if sided else system.row_start[i + 1] - first):
                r = first + k
                a = mobility[r] + c[r]
                if not a > 0.0 or (i >= ends[4] and saturated[i - ends[4], k] == 1):
                    continue
                rhs = -scale * (residual[r] - open[r]) if sided else b[r]
                rhs -= c[r] * lam[r] + _row_rate(system, i, k, jacobian, correction)
                new = lam_total[r] + rhs / a
                if sided:
                    new = max(new, 0.0)
                elif i >= ends[4] and track[i - ends[4], SOFT] > 0.0:
                    t = i - ends[4]
                    bound = most * track[t, MAX_FORCE] * (1.0 if k < 3 else track[t, LEVER])
                    new = min(max(new, -bound), bound)
                x = new - lam_total[r]
                if x != 0.0:
                    lam[r] += x
                    lam_total[r] = new
                    _add(system, minv, i, k, x, jacobian, correction)
            if sided and i >= ends[3] and rubs:
                _update_friction(
                    system, i, scale, friction[i - ends[3]], mobility, residual, minv, jacobian, lam, lam_total,
                    correction,
                )  # fmt: skip


@inner
def _update_friction(system, i, scale, mu, mobility, residual, minv, jacobian, lam, lam_total, correction):
    """Update both directions of friction of contact i at once, and project them onto the cone."""
    r = system.row_start[i]
    a = max(mobility[r + 1], mobility[r + 2])
    if not a > 0.0:
        return
    x = lam_total[r + 1] - (scale * residual[r + 1] + _row_rate(system, i, 1, jacobian, correction)) / a
    y = lam_total[r + 2] - (scale * residual[r + 2] + _row_rate(system, i, 2, jacobian, correction)) / a
    size, most = math.sqrt(x * x + y * y), mu * lam_total[r]
    f = most / size if size > most else 1.0
    for k in range(1, 3):
        g = f * (x if k == 1 else y) - lam_total[r + k]
        if g != 0.0:
            lam[r + k] += g
            lam_total[r + k] += g
            _add(system, minv, i, k, g, jacobian, correction)
