"""Collisions with restitution: all contacts of two bodies at once, pairs of bodies one after the other.

`collide` is for free bodies. All contacts of a pair that close separate with e times their approach velocity, as when a
box lands flat on its corners; solved one by one they would make it spin. First without friction,

    j_n >= 0,   u.n >= s,   j_n (u.n - s) = 0,      s the separation velocity (column SEPARATION)

which never adds energy, whatever the masses; then friction with these j_n fixed, which dissipates more. Pairs follow
one another, so that a ball that hits a row of others drives out the last one. Contacts of bodies with joints solve
normal and friction impulses together (`solve_pair`), in turn with the joints: `methods/impulses/joint_contacts.py`.

`separation_velocity` is the restitution law of the methods that solve contacts at the end of a semi-implicit step.
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
# Contacts that approach more slowly than this have no restitution [m/s].
_LEAST_APPROACH = 1e-6


@inner
def _apply_pair(link, inverse, row, k, x, y, z, u):
    """Apply the impulse (x, y, z) of contact k to both bodies."""
    apply_impulse(u, link[k, 0], inverse, row[k, RA], row[k, RA + 1], row[k, RA + 2], x, y, z)
    if link[k, 1] >= 0:
        apply_impulse(u, link[k, 1], inverse, row[k, RB], row[k, RB + 1], row[k, RB + 2], -x, -y, -z)


@outlined
def set_separation(begin, end, link, h, row, u):
    """Fill the separation velocity of each contact that closes within h, -1 of the others; return how many close.

    A body that approaches at v under the acceleration a over the gap s arrives with v1^2 = v^2 + 2 a s, separates with
    e v1 and passes the gap again with v2^2 = e^2 v1^2 - 2 a s: the impulse acts where the body is, with the energy that
    it would have at the contact.
    """
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
    """Sweep the normal impulses of the closing contacts to their separation velocities; impulses go to DEFERRED."""
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
    """Add the impulses in DEFERRED to the normal ones of the step; SEPARATION becomes the bound of friction."""
    for k in range(begin, end):
        if row[k, SEPARATION] >= 0.0:
            row[k, STEP_N] += row[k, DEFERRED]
            row[k, SEPARATION] = row[k, MU] * row[k, DEFERRED]
            row[k, DEFERRED] = 0.0


@outlined
def _solve_friction(begin, end, link, inverse, row, u):
    """Sweep the friction impulses, bounded by SEPARATION each; impulses go to DEFERRED."""
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
    """Sweep normal and friction impulses of the closing contacts of a pair; impulses add up in DEFERRED.

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
    """Add the impulses in DEFERRED to the normal and tangential ones of the step."""
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
    """Apply the collision impulses of contacts that close within h, pair after pair; return how many collided.

    Velocities are those before forces act (Weinstein, Teran, Fedkiw 2006, section VI, "Process Collisions"): a body at
    rest has none, so that no threshold tells rest from impact.

    Args:
        first, last: contacts.
        times: sweeps over the pairs.
        link: (c, 2) bodies of the contacts.
        inverse: (n, 7) inverse inertias and masses of the bodies.
        h: substep [s].
        row, u: contacts and velocities.
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


@inner
def separation_velocity(e, before, free, gap, h):
    """Return the velocity after a semi-implicit step with a collision over a gap; < 0 where the body comes to rest.

    Such steps, v <- v - a h, z <- z + h v, conserve v^2 / 2 + a z - a h v / 2, not the energy: restitution leaves e^2
    of this, so that the heights before and after have this ratio for every step length.

    Args:
        e: restitution.
        before, free: the rate of the contact at the start, < 0, and at the end without contact.
        gap: at the start, < 0 for an overlap.
        h: step [s].
    """
    pull, gap = max(before - free, 0.0), max(gap, 0.0)
    fall = 2.0 * pull * gap / h
    square = 0.25 * pull * pull - fall + e * e * (before * before + fall - pull * before)
    return (math.sqrt(square) if square > 0.0 else 0.0) - 0.5 * pull
