"""Rows over trees met by sweeps, without a matrix: each row keeps the forward pass y of its paths to the world.

With z = sum of y_j lam_j over all rows, the velocity that row i gets is the sum over its path of y_i z / D
(`articulated/responses.py`): a visit costs what its path is long. Accumulated Gauss-Seidel: contacts push, friction
stays within its disk (a cone, never a pyramid), dry friction within its bounds, loops and limits hold.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from limberjack._jit import inner, outlined
from limberjack.articulated.rnea import direction
from limberjack.articulated.work import DI, D, U
from limberjack.model.joints import HINGE, SLIDE
from limberjack.spatial.vectors import cross

__all__ = [
    "CONTACT", "FREE", "HELD_ROW", "MOST", "RUBS", "SIDED_ROW", "WANTED", "PathRows", "new_path_rows", "pack_path",
    "sweep", "walk",
]  # fmt: skip

# What a block of rows is: three of a contact, one held, one-sided or with dry friction.
CONTACT, HELD_ROW, SIDED_ROW, RUBS = range(4)
# Sweeps at most; they end when no velocity changes by more than this [m/s].
_SWEEPS, _CALM = 100, 1e-9
# Velocities that still change by more than this [m/s] after all sweeps: contacts ask for what no motion can give, and
# impulses grow from sweep to sweep. That nothing comes nearer can always be had.
_RUNAWAY = 0.5
# Rows that hold whatever happens are met exactly afterwards: impulses found for less are too large, and put energy in.
_SWEEPS_HELD = 1000
# Joints hold a direction entirely where what is left of y, of size 1 before two paths cancel, is rounding; its square.
_ROUNDING = 1e-20
# Contacts along whose normal joints give way less than this times what they do across it are parted more slowly: a
# wedge of a thousandth would turn a gentle push into a wild slip.
_STIFF = 1e-3
# Columns of `facts`: 1 / K of the normal or only row, K between it and the tangents, inverse of K of the tangents (3),
# velocities foreseen (3), velocity wanted, friction coefficient or largest impulse, 1 / the largest K across.
_INVERSE, _CROSS, _ACROSS, FREE, WANTED, MOST, _SCALE, _FACTS = 0, 1, 3, 6, 9, 10, 11, 12


class PathRows(NamedTuple):
    """Blocks of rows over trees; n links, m blocks, c places in them."""

    seen: np.ndarray  # (n,) links of the path being walked
    dense: np.ndarray  # (3, nv) y before it is packed
    inverse: np.ndarray  # (nv,) 1 / D
    z: np.ndarray  # (nv,) z / D
    start: np.ndarray  # (m + 1,) places of each block
    column: np.ndarray  # (c,) freedoms
    y: np.ndarray  # (c, 3)
    kind: np.ndarray  # (m,)
    source: np.ndarray  # (m,) contact, row or freedom
    facts: np.ndarray  # (m, _FACTS)
    axes: np.ndarray  # (m, 9) normal and tangents of contacts
    lam: np.ndarray  # (m, 3)
    report: np.ndarray  # (4,) blocks, sweeps, last change of velocity, places needed


def new_path_rows(links: int, nv: int, blocks: int, places: int) -> PathRows:
    """Return room for so many blocks of rows and places in them."""
    return PathRows(
        np.zeros(links, np.int64), np.zeros((3, nv)), np.zeros(nv), np.zeros(nv), np.zeros(blocks + 1, np.int64),
        np.zeros(places, np.int64), np.zeros((places, 3)), np.zeros(blocks, np.int64), np.zeros(blocks, np.int64),
        np.zeros((blocks, _FACTS)), np.zeros((blocks, 9)), np.zeros((blocks, 3)), np.zeros(4),
    )  # fmt: skip


@outlined
def walk(links, link, row, nx, ny, nz, fx, fy, fz, own, share, work, qd, dense):
    """Add the forward elimination of a wrench on `link` (torque at its origin) to dense[row]; return J qd.

    With own >= 0, a freedom of `link`, a joint force `share` at it acts too.
    """
    rows, subspace, reduced, pivot = work.rows, work.subspace, work.reduced, work.pivot
    ax, ay, az, bx, by, bz = nx, ny, nz, fx, fy, fz
    i, rate = link, 0.0
    while i >= 0:
        kind = links.kind[i]
        seen = 0.0
        for a in range(links.dof[i]):
            v = links.v_start[i] + a
            sx, sy, sz, tx, ty, tz = direction(kind, i, v, rows, subspace)
            seen = sx * nx + sy * ny + sz * nz + tx * fx + ty * fy + tz * fz
            plain = sx * ax + sy * ay + sz * az + tx * bx + ty * by + tz * bz
            if v == own:
                seen, plain = seen + share, plain + share
            rate += plain * qd[v]
            dense[row, v] += seen
            if kind != HINGE and kind != SLIDE:
                s = seen * pivot[v, a]
                nx, ny, nz = nx - reduced[v, 0] * s, ny - reduced[v, 1] * s, nz - reduced[v, 2] * s
                fx, fy, fz = fx - reduced[v, 3] * s, fy - reduced[v, 4] * s, fz - reduced[v, 5] * s
        cx, cy, cz = cross(rows[i, D], rows[i, D + 1], rows[i, D + 2], fx, fy, fz)
        nx, ny, nz = nx + cx, ny + cy, nz + cz
        cx, cy, cz = cross(rows[i, D], rows[i, D + 1], rows[i, D + 2], bx, by, bz)
        ax, ay, az = ax + cx, ay + cy, az + cz
        if kind == HINGE or kind == SLIDE:
            s = seen * rows[i, DI]
            nx, ny, nz = nx - rows[i, U] * s, ny - rows[i, U + 1] * s, nz - rows[i, U + 2] * s
            fx, fy, fz = fx - rows[i, U + 4] * s, fy - rows[i, U + 5] * s, fz - rows[i, U + 6] * s
        i = links.parent[i]
    return rate


@inner
def pack_path(links, link, stamp, at, packed):
    """Move y of the links from `link` on, as far as no path before it went, to the packed places from `at` on."""
    i, room = link, len(packed.column)
    while i >= 0 and packed.seen[i] != stamp:
        packed.seen[i] = stamp
        for v in range(links.v_start[i], links.v_start[i] + links.dof[i]):
            if at < room:
                packed.column[at] = v
                for c in range(3):
                    packed.y[at, c] = packed.dense[c, v]
            for c in range(3):
                packed.dense[c, v] = 0.0
            at += 1
        i = links.parent[i]
    return at


@outlined
def _ready(k, width, packed):
    """Fill the inverses of block k: of its normal or only row, and of its tangents."""
    inverse, y = packed.inverse, packed.y
    k00 = k01 = k02 = k11 = k12 = k22 = none = 0.0
    for t in range(packed.start[k], packed.start[k + 1]):
        d = inverse[packed.column[t]]
        none += _ROUNDING * d
        k00 += y[t, 0] * y[t, 0] * d
        if width == 3:
            k01 += y[t, 0] * y[t, 1] * d
            k02 += y[t, 0] * y[t, 2] * d
            k11 += y[t, 1] * y[t, 1] * d
            k12 += y[t, 1] * y[t, 2] * d
            k22 += y[t, 2] * y[t, 2] * d
    f = packed.facts
    f[k, _INVERSE] = 1.0 / k00 if k00 > none else 0.0
    f[k, _CROSS], f[k, _CROSS + 1] = k01, k02
    half = 0.5 * (k11 - k22)
    largest = 0.5 * (k11 + k22) + math.sqrt(half * half + k12 * k12)
    f[k, _SCALE] = 1.0 / largest if largest > none else 0.0
    if width == 3 and f[k, WANTED] > 0.0 and k00 < _STIFF * largest:
        f[k, WANTED] *= math.sqrt(k00 / (_STIFF * largest))
    across = k11 * k22 - k12 * k12
    if across > 1e-12 * k11 * k22 and min(k11, k22) > none:
        f[k, _ACROSS], f[k, _ACROSS + 1], f[k, _ACROSS + 2] = k22 / across, k11 / across, -k12 / across
    else:
        # one direction is held by the joints: each tangent by itself
        f[k, _ACROSS] = 1.0 / k11 if k11 > max(none, 1e-12 * k00) else 0.0
        f[k, _ACROSS + 1] = 1.0 / k22 if k22 > max(none, 1e-12 * k00) else 0.0
        f[k, _ACROSS + 2] = 0.0


@inner
def _add(k, d0, d1, d2, packed):
    """Let the impulses d of block k act."""
    for t in range(packed.start[k], packed.start[k + 1]):
        v = packed.column[t]
        packed.z[v] += packed.inverse[v] * (packed.y[t, 0] * d0 + packed.y[t, 1] * d1 + packed.y[t, 2] * d2)


@inner
def _visit_contact(k, packed):
    """Let contact k have its say; return the change of velocity it made."""
    f, lam, y, z = packed.facts, packed.lam, packed.y, packed.z
    u0, u1, u2 = f[k, FREE], f[k, FREE + 1], f[k, FREE + 2]
    for t in range(packed.start[k], packed.start[k + 1]):
        s = z[packed.column[t]]
        u0, u1, u2 = u0 + y[t, 0] * s, u1 + y[t, 1] * s, u2 + y[t, 2] * s
    push = max(0.0, lam[k, 0] - (u0 - f[k, WANTED]) * f[k, _INVERSE])
    d0 = push - lam[k, 0]
    u1, u2 = u1 + f[k, _CROSS] * d0, u2 + f[k, _CROSS + 1] * d0
    x = lam[k, 1] - (f[k, _ACROSS] * u1 + f[k, _ACROSS + 2] * u2)
    w = lam[k, 2] - (f[k, _ACROSS + 2] * u1 + f[k, _ACROSS + 1] * u2)
    most, size = f[k, MOST] * push, math.sqrt(x * x + w * w)
    if size > most:
        # it slides: friction against the slip itself, for which one step length must serve both tangents
        x, w = lam[k, 1] - f[k, _SCALE] * u1, lam[k, 2] - f[k, _SCALE] * u2
        size = math.sqrt(x * x + w * w)
        s = most / size if size > most else 1.0
        x, w = s * x, s * w
    d1, d2 = x - lam[k, 1], w - lam[k, 2]
    lam[k, 0], lam[k, 1], lam[k, 2] = push, x, w
    if d0 != 0.0 or d1 != 0.0 or d2 != 0.0:
        _add(k, d0, d1, d2, packed)
    inverse = f[k, _INVERSE]
    return (abs(d0) + abs(d1) + abs(d2)) / inverse if inverse > 0.0 else 0.0


@inner
def _visit_row(k, packed):
    """Let the one row of block k have its say; return the change of velocity it made."""
    f, kind = packed.facts, packed.kind[k]
    u = f[k, FREE]
    for t in range(packed.start[k], packed.start[k + 1]):
        u += packed.y[t, 0] * packed.z[packed.column[t]]
    new = packed.lam[k, 0] - (u - f[k, WANTED]) * f[k, _INVERSE]
    if kind == SIDED_ROW:
        new = max(0.0, new)
    elif kind == RUBS:
        new = min(max(new, -f[k, MOST]), f[k, MOST])
    d = new - packed.lam[k, 0]
    packed.lam[k, 0] = new
    if d != 0.0:
        _add(k, d, 0.0, 0.0, packed)
    return abs(d) / f[k, _INVERSE] if f[k, _INVERSE] > 0.0 else 0.0


@outlined
def _sweep_all(count, times, packed):
    """Let all blocks have their say until nothing changes, or so many times; return the last change of velocity."""
    change = 0.0
    for sweep in range(times):
        change = 0.0
        for k in range(count):
            change = max(change, _visit_contact(k, packed) if packed.kind[k] == CONTACT else _visit_row(k, packed))
        packed.report[1], packed.report[2] = sweep + 1, change
        if change < _CALM:
            break
    return change


@outlined
def sweep(count, packed):
    """Find the impulses of all blocks."""
    times = _SWEEPS
    for k in range(count):
        if packed.kind[k] == HELD_ROW:
            times = _SWEEPS_HELD
        contact = packed.kind[k] == CONTACT
        _ready(k, 3 if contact else 1, packed)
        if contact:
            _add(k, packed.lam[k, 0], packed.lam[k, 1], packed.lam[k, 2], packed)
    change = _sweep_all(count, times, packed)
    if change > _RUNAWAY:
        for t in range(packed.start[count]):
            packed.z[packed.column[t]] = 0.0
        for k in range(count):
            packed.lam[k, 0] = packed.lam[k, 1] = packed.lam[k, 2] = 0.0
            packed.facts[k, WANTED] = min(packed.facts[k, WANTED], 0.0)
        _sweep_all(count, times, packed)
