"""Collisions with restitution: contacts of two bodies bounce at once, pairs of bodies one after the other.

The contacts of two bodies that close leave with e times the speed they came with, all of them, as when a box lands flat
on its corners; one after the other they would make it spin. First without friction,

    j_n >= 0,   u.n >= aim,   j_n (u.n - aim) = 0,

which loses energy whatever the masses; then friction slows what slides with these j_n as they are, which loses some
more. Pairs of bodies take turns: a ball that hits a row of others drives out the last one. What joints hold leaves with
e times its speed whatever friction does meanwhile, as in the other methods: see `methods/impulses/bouncing.py`.
"""

from __future__ import annotations

import math

from limberjack._jit import inner, outlined
from limberjack.contact.sweeps import (
    APPROACH,
    DEFERRED,
    KN,
    MN,
    MT,
    MU,
    RA,
    RB,
    SEPARATION,
    STEP_N,
    STEP_T,
    E,
    N,
    S,
    apply_impulse,
    clamp_length,
    relative_velocity,
)

__all__ = ["add_impulses", "collide", "next_pair", "separation_velocity", "set_separation", "solve_pair"]

# The most sweeps over the contacts of two bodies; they stop when none changes a velocity by more than this [m/s].
_MOST, _ENOUGH = 60, 1e-10
# Bodies that approach more slowly than this do not bounce [m/s].
_LEAST_APPROACH = 1e-6


@inner
def _apply_pair(link, inverse, row, k, x, y, z, u):
    """Let the impulse (x, y, z) of contact k act on both bodies."""
    apply_impulse(u, link[k, 0], inverse, row[k, RA], row[k, RA + 1], row[k, RA + 2], x, y, z)
    if link[k, 1] >= 0:
        apply_impulse(u, link[k, 1], inverse, row[k, RB], row[k, RB + 1], row[k, RB + 2], -x, -y, -z)


@outlined
def set_separation(begin, end, link, h, row, u):
    """Note with what speed each contact that closes within h leaves, -1 of the others; return how many close."""
    hits = 0
    for k in range(begin, end):
        row[k, SEPARATION] = -1.0
        e = row[k, E]
        if e <= 0.0:
            continue
        ux, uy, uz = relative_velocity(link, row, k, u)
        un = ux * row[k, N] + uy * row[k, N + 1] + uz * row[k, N + 2]
        a, s = row[k, APPROACH], max(row[k, S], 0.0)
        if un >= -max(0.5 * a * h, _LEAST_APPROACH) or s + h * un - 0.5 * a * h * h > 0.0:
            continue
        out = e * e * (un * un + 2.0 * a * s) - 2.0 * a * s
        row[k, SEPARATION] = math.sqrt(out) if out > 0.0 else 0.0
        row[k, DEFERRED], row[k, DEFERRED + 1], row[k, DEFERRED + 2] = 0.0, 0.0, 0.0
        hits += 1
    return hits


@outlined
def _solve_normal(begin, end, link, inverse, row, u):
    """Push along the normals until every contact that closed leaves as fast as it is to; impulses go to OWED."""
    for _ in range(_MOST):
        most = 0.0
        for k in range(begin, end):
            if row[k, SEPARATION] < 0.0:
                continue
            nx, ny, nz = row[k, N], row[k, N + 1], row[k, N + 2]
            ux, uy, uz = relative_velocity(link, row, k, u)
            before = row[k, DEFERRED]
            after = max(before + row[k, MN] * (row[k, SEPARATION] - ux * nx - uy * ny - uz * nz), 0.0)
            d = after - before
            row[k, DEFERRED] = after
            _apply_pair(link, inverse, row, k, d * nx, d * ny, d * nz, u)
            most = max(most, abs(d) / row[k, MN])
        if most < _ENOUGH:
            break


@outlined
def _take_normal(begin, end, row):
    """Take the impulses in OWED for those along the normals; AIM becomes the most that friction may do."""
    for k in range(begin, end):
        if row[k, SEPARATION] >= 0.0:
            row[k, STEP_N] += row[k, DEFERRED]
            row[k, SEPARATION] = row[k, MU] * row[k, DEFERRED]
            row[k, DEFERRED] = 0.0


@outlined
def _solve_friction(begin, end, link, inverse, row, u):
    """Let friction slow the contacts that bounced, each by AIM at most; impulses go to OWED."""
    for _ in range(_MOST):
        most = 0.0
        for k in range(begin, end):
            if row[k, SEPARATION] <= 0.0:
                continue
            nx, ny, nz = row[k, N], row[k, N + 1], row[k, N + 2]
            ux, uy, uz = relative_velocity(link, row, k, u)
            un, mt = ux * nx + uy * ny + uz * nz, row[k, MT]
            x, y, z = row[k, DEFERRED], row[k, DEFERRED + 1], row[k, DEFERRED + 2]
            tx, ty, tz = clamp_length(
                x - mt * (ux - un * nx), y - mt * (uy - un * ny), z - mt * (uz - un * nz), row[k, SEPARATION]
            )
            row[k, DEFERRED], row[k, DEFERRED + 1], row[k, DEFERRED + 2] = tx, ty, tz
            _apply_pair(link, inverse, row, k, tx - x, ty - y, tz - z, u)
            most = max(most, (abs(tx - x) + abs(ty - y) + abs(tz - z)) / mt)
        if most < _ENOUGH:
            break


@outlined
def solve_pair(begin, end, link, inverse, row, u):
    """Push and rub the contacts that closed until each leaves as fast as it is to; impulses add up in OWED.

    Returns the largest change of a velocity [m/s].
    """
    largest = 0.0
    for _ in range(_MOST):
        most = 0.0
        for k in range(begin, end):
            if row[k, SEPARATION] < 0.0:
                continue
            nx, ny, nz = row[k, N], row[k, N + 1], row[k, N + 2]
            ux, uy, uz = relative_velocity(link, row, k, u)
            x, y, z = row[k, DEFERRED], row[k, DEFERRED + 1], row[k, DEFERRED + 2]
            before = x * nx + y * ny + z * nz
            after = max(before + row[k, MN] * (row[k, SEPARATION] - ux * nx - uy * ny - uz * nz), 0.0)
            d, mt = after - before, row[k, MT]
            ux, uy, uz = ux + d * row[k, KN], uy + d * row[k, KN + 1], uz + d * row[k, KN + 2]
            un = ux * nx + uy * ny + uz * nz
            tx, ty, tz = clamp_length(
                x - before * nx - mt * (ux - un * nx),
                y - before * ny - mt * (uy - un * ny),
                z - before * nz - mt * (uz - un * nz),
                row[k, MU] * after,
            )
            tx, ty, tz = tx + after * nx, ty + after * ny, tz + after * nz
            row[k, DEFERRED], row[k, DEFERRED + 1], row[k, DEFERRED + 2] = tx, ty, tz
            _apply_pair(link, inverse, row, k, tx - x, ty - y, tz - z, u)
            most = max(most, (abs(tx - x) + abs(ty - y) + abs(tz - z)) / mt)
        largest = max(largest, most)
        if most < _ENOUGH:
            break
    return largest


@outlined
def add_impulses(begin, end, row):
    """Take the impulses in OWED for those along and across the normals of what closed."""
    for k in range(begin, end):
        if row[k, SEPARATION] >= 0.0:
            along = (
                row[k, DEFERRED] * row[k, N]
                + row[k, DEFERRED + 1] * row[k, N + 1]
                + row[k, DEFERRED + 2] * row[k, N + 2]
            )
            row[k, STEP_N] += along
            for c in range(3):
                row[k, STEP_T + c] += row[k, DEFERRED + c] - along * row[k, N + c]


@inner
def next_pair(begin, last, link):
    """Return the first contact after `begin` that is not of the same two bodies."""
    end = begin + 1
    while end < last and link[end, 0] == link[begin, 0] and link[end, 1] == link[begin, 1]:
        end += 1
    return end


@outlined
def collide(
    # in
    first, last, times, link, inverse, h,
    # out
    row, u,
):  # fmt: skip
    """Let contacts with restitution that close within h bounce, pair after pair, with the velocities before forces.

    A body that approaches at v with the acceleration a over the gap s arrives with v1^2 = v^2 + 2 a s, leaves with
    e v1 and passes the gap again with v2^2 = e^2 v1^2 - 2 a s: the bounce happens where the body is, with the energy it
    will have had there. Returns the number of bounces.
    """
    count = 0
    for _ in range(times):
        hits, begin = 0, first
        while begin < last:
            end = next_pair(begin, last, link)
            found = set_separation(begin, end, link, h, row, u)
            if found > 0:
                _solve_normal(begin, end, link, inverse, row, u)
                _take_normal(begin, end, row)
                _solve_friction(begin, end, link, inverse, row, u)
                add_impulses(begin, end, row)
            hits += found
            begin = end
        count += hits
        if hits == 0:
            break
    return count


# How fast a contact leaves after a step in which it bounces.


@inner
def separation_velocity(e, before, free, gap, h):
    """Return the speed after a semi-implicit step in which a contact over a gap bounces; < 0 where it rises no more.

    Such steps, v <- v - a h, z <- z + h v, keep v^2 / 2 + a z - a h v / 2, not the energy: this is what the bounce
    leaves e^2 of, so that free flights before and after reach heights of this ratio, whatever the step.

    Args:
        e: restitution.
        before, free: the rate of the contact at the start, < 0, and at the end if nothing touched.
        gap: at the start, < 0 where they overlap.
        h: step [s].
    """
    pull, gap = max(before - free, 0.0), max(gap, 0.0)
    fall = 2.0 * pull * gap / h
    square = 0.25 * pull * pull - fall + e * e * (before * before + fall - pull * before)
    return (math.sqrt(square) if square > 0.0 else 0.0) - 0.5 * pull
