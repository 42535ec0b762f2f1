"""Steps of trees with contacts and dry friction: a free step, contact impulses, then the step with them as forces.

    kinematics -> contacts (`collision/`) -> free step, without contacts -> impulses by sweeps -> constrained step

Contacts, dry friction of joints, loops and limits about to be reached are blocks of rows, solved together by projected
Gauss-Seidel sweeps and Newton steps. Each row stores the forward pass y of its paths to the world; with z = sum of
y_j lam_j over all rows, the velocity of row i is the sum over its path of y_i z / D (`responses.py`), so that one
update costs the length of its path. Islands of few rows have the matrix of their responses instead. Normal impulses
push, friction stays within its disk (a cone, no pyramid), and so do torsional and rolling friction, dry friction within
its bounds; equality rows are unbounded. Contacts and dry friction then act in the step as forces lam / h; loops and
limits are solved again in the step (`constrained_step.py`).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from limberjack._jit import inner, kernel, outlined
from limberjack.collision.bvh import move_parts
from limberjack.collision.detect import detect_once
from limberjack.constraints.rows import GAP, LEVER_A, LEVER_B, REGISTERED
from limberjack.constraints.table import INEQUALITY
from limberjack.contact.restitution import separation_velocity
from limberjack.contact.warm_start import match_contacts, store_matched
from limberjack.errors import Status
from limberjack.model.arrays import DOF, LINK, SPAN, Drives, Links, span_of, whole_span
from limberjack.model.joints import HINGE, SLIDE
from limberjack.reduced.aba import articulate
from limberjack.reduced.constrained_step import take_constrained_steps
from limberjack.reduced.kinematics import kinematics
from limberjack.reduced.rnea import direction
from limberjack.reduced.rows import ROW, ROW_END, evaluate_rows
from limberjack.reduced.work import DI, D, R, U, W, Work, new_work
from limberjack.spatial.lanes import lane, load4, pack, splat, store4
from limberjack.spatial.quaternions import quaternion_from_matrix
from limberjack.spatial.vectors import cross

__all__ = [
    "BOUND",
    "CONVERGED",
    "CONTACT",
    "ContactState",
    "DRY_FRICTION",
    "EQUALITY_ROW",
    "FREE_VELOCITY",
    "PUSH_OUT_LEAST",
    "PathRows",
    "ROLLING",
    "TARGET",
    "TORSION",
    "collect_blocks",
    "fall_of",
    "has_impact",
    "mark_trees",
    "new_contact_state",
    "new_path_rows",
    "projected_gauss_seidel",
    "push_out_speed",
    "release_rows",
    "set_poses",
    "take_normal_alone",
    "take_contact_steps",
    "wakes",
    "work_of_contacts",
    "write_torque",
]

# Kinds of blocks: three rows of a contact, one equality, one inequality, dry friction of one dof, and three rows of the
# torsional and rolling friction of the contact in the block before.
CONTACT, EQUALITY_ROW, INEQUALITY_ROW, DRY_FRICTION, ROLLING = range(5)
# Most sweeps; they end when no velocity changes by more than this [m/s].
_MOST_SWEEPS, CONVERGED, _STALLED = 100, 1e-9, 2e-7
# Contacts that share what they exert in more than one way may go on trading impulses: from so many sweeps on this
# change is larger by a factor each, up to these, with equality rows the second.
_PATIENCE, _SLACKER, _LARGEST, _LARGEST_EQUALITY = 8, 1.5, 1e-5, 1e-7
# If velocities still change by more than this [m/s] after all sweeps, the target velocities of the contacts cannot be
# reached by any motion, and impulses grow from sweep to sweep. Targets of zero are always feasible.
_DIVERGED = 0.5
# So it is if they add energy by more than this part of what their normal impulses meet: restitution of the velocity may
# where friction acts on joined bodies. Where friction wedges something in, as between the ground and a taut rope, there
# may be no impulses that fit: contacts are then taken without friction, which a motion of least energy satisfies.
_GAINED = 0.03
# Equality rows are solved exactly in the step: contact impulses found with open equalities are too large and would add
# energy.
_MOST_SWEEPS_EQUALITY = 1000
# Where the first sweep does not converge, rows that are neither open nor at a bound are solved together (a Newton
# step), at most so many times, for islands of at most so many rows and dofs.
_MOST_STEPS, _MOST_ROWS, _MOST_DOFS = 32, 192, 192
# Redundant rows share what they exert by this part of their diagonals (Levenberg and Marquardt). It is larger by a
# factor after a step that is taken back, smaller by it after one that is not, within these bounds.
_SHARED, _LEAST_SHARED, _MOST_SHARED, _SHARED_FACTOR = 1e-4, 1e-7, 1e-1, 10.0
# After a step, contacts open and close in so many sweeps at most, and may then change this times as much as before it.
_SWEEPS_AFTER, _ACCEPTED = 8, 1.0
# A direction is locked by joints where what is left of y, of size 1 before two paths cancel, is rounding; its square.
_ROUNDING = 1e-20
# Contacts whose response along the normal is below this times that along the tangents separate more slowly: a wedge of
# a thousandth would turn a small push into a large slip.
_STIFF = 1e-3
# Penetration beyond the slop is pushed out at this rate, up to this speed [m, 1/s, m/s].
_SLOP, _PUSH_OUT_RATE, _PUSH_OUT_SPEED = 1e-4, 10.0, 1.0
# Nothing is pushed out for less than this speed [m/s].
PUSH_OUT_LEAST = 1e-5
# Limits nearer than this after the free step are included [m, rad].
_NEAR = 0.05
# Slower impacts have no restitution, as a multiple of the speed that gravity adds in a step.
_RESTITUTION_STEPS = 2.0
# Columns of `coefficients`: 1 / K of the normal or only row, K between it and the tangents (2), inverse of K of the
# tangents (3), free velocities (3), target velocity, friction coefficient or largest impulse, 1 / the largest K of the
# tangents; of rolling friction the row along the normal is bounded by another coefficient.
_INVERSE, _CROSS, _ACROSS, FREE_VELOCITY, TARGET, BOUND, _SCALE, TORSION, _COEFFICIENTS = 0, 1, 3, 6, 9, 10, 11, 12, 13


class Responses(NamedTuple):
    """Responses of the r rows of an island on d dofs to each other, and scratch of a Newton step.

    Rows are worked on four numbers at a time; what stands beyond their ends means nothing.
    """

    count: np.ndarray  # (1,) rows
    velocity: np.ndarray  # (1, r + 4) of each row
    matrix: np.ndarray  # (r, r + 4)
    rows: np.ndarray  # (r, d + 4) y / sqrt(D), zero beyond
    free: np.ndarray  # (r, 2) rows that are solved for: their block, and which of its rows
    fours: np.ndarray  # (d / 4 + 1,) where four columns of `rows` of a block are not all zero
    factor: np.ndarray  # (r, r + 4)
    step: np.ndarray  # (r,)


def new_responses(nv: int, most: int) -> Responses:
    """Return room for the responses of at most so many rows."""
    r = min(_MOST_ROWS, most)
    return Responses(
        np.zeros(1, np.int64), np.zeros((1, r + 4)), np.zeros((r, r + 4)), np.zeros((r, min(nv, _MOST_DOFS) + 4)),
        np.zeros((r, 2), np.int64), np.zeros(min(nv, _MOST_DOFS) // 4 + 1, np.int64), np.zeros((r, r + 4)), np.zeros(r),
    )  # fmt: skip


class PathRows(NamedTuple):
    """Blocks of rows over trees; n links, m blocks, c nonzeros in them."""

    seen: np.ndarray  # (n,) links of the path being walked
    dense: np.ndarray  # (nv, 4) y before it is packed
    inverse: np.ndarray  # (nv,) 1 / D
    z: np.ndarray  # (nv,) z / D
    start: np.ndarray  # (m + 1,) nonzeros of each block
    column: np.ndarray  # (c,) dofs
    y: np.ndarray  # (c, 4) of up to three rows
    kind: np.ndarray  # (m,)
    source: np.ndarray  # (m,) contact, row or dof
    coefficients: np.ndarray  # (m, _COEFFICIENTS)
    axes: np.ndarray  # (m, 9) normal and tangents of contacts
    lam: np.ndarray  # (m, 3)
    kept: np.ndarray  # (m, 3) lam before a Newton step
    sliding: np.ndarray  # (m,) 1 where a Newton step lets the tangents slide, 2 where it lets torsional friction
    row: np.ndarray  # (m,) first row of each block in `responses`, -1 where velocities are sums over paths
    order: np.ndarray  # (m,) blocks by islands: of trees that contacts or rows tie together
    tree: np.ndarray  # (m,) a tree of each block
    responses: Responses
    report: np.ndarray  # (4,) blocks, sweeps, last change of velocity, nonzeros needed


def new_path_rows(links: int, nv: int, blocks: int, nonzeros: int) -> PathRows:
    """Return arrays for so many blocks of rows and nonzeros in them."""
    return PathRows(
        np.zeros(links, np.int64), np.zeros((nv, 4)), np.zeros(nv), np.zeros(nv), np.zeros(blocks + 1, np.int64),
        np.zeros(nonzeros, np.int64), np.zeros((nonzeros, 4)), np.zeros(blocks, np.int64), np.zeros(blocks, np.int64),
        np.zeros((blocks, _COEFFICIENTS)), np.zeros((blocks, 9)), np.zeros((blocks, 3)), np.zeros((blocks, 3)),
        np.zeros(blocks, np.uint8), np.full(blocks, -1, np.int64), np.zeros(blocks, np.int64),
        np.zeros(blocks, np.int64), new_responses(nv, 3 * blocks), np.zeros(4),
    )  # fmt: skip


class ContactState(NamedTuple):
    """State and scratch of contacts on t trees of n links."""

    trees: np.ndarray  # (t, SPAN) every tree
    tree: np.ndarray  # (n,) the tree of each link
    tree_of_dof: np.ndarray  # (nv,)
    whole: np.ndarray  # (SPAN,)
    friction_dofs: np.ndarray  # (f,) dofs with dry friction
    friction: np.ndarray  # (nv,) of joints [N, N m]
    extent: np.ndarray  # (n,) how far shapes reach from the link's origin [m]
    work: Work  # of the start of the step
    pose: np.ndarray  # (n, 7)
    velocities: np.ndarray  # (n, 6)
    reach: np.ndarray  # (n,)
    island: np.ndarray  # (t,) the tree whose island each belongs to
    tally: np.ndarray  # (t + 1,) blocks of the islands
    involved: np.ndarray  # (t,) 0, or 1 where contacts are near the tree or its joints have dry friction
    asleep: np.ndarray  # (t,) uint8, 1 for trees that variational steps leave as they are
    packed: PathRows
    q: np.ndarray  # (nq,) at the start
    qd: np.ndarray  # (nv,)
    free_velocity: np.ndarray  # (nv,) velocities after the free step
    applied: np.ndarray  # (nv,) forces of the user and of dry friction
    dry: np.ndarray  # (nv,) forces of dry friction in the last step, to start from


def new_contact_state(
    links: Links, drives: Drives, friction: np.ndarray, extent: np.ndarray, packed: PathRows
) -> ContactState:
    """Return state and scratch of the contacts of trees.

    Args:
        links, drives: the trees.
        friction: (nv,) dry friction of their dofs [N, N m].
        extent: (n,) how far shapes reach from each link's origin [m].
        packed: arrays for rows, of as many links and dofs.
    """
    n, nv = len(links.parent), len(links.armature)
    roots = np.append(np.flatnonzero(links.parent < 0), n)
    trees = [span_of(links, drives, int(i), int(j)) for i, j in zip(roots[:-1], roots[1:], strict=True)]
    tree = np.repeat(np.arange(len(trees)), np.diff(roots)).astype(np.int64)
    return ContactState(
        np.array(trees, np.int64).reshape(-1, SPAN), tree, np.repeat(tree, links.dof), whole_span(links, drives),
        np.flatnonzero(friction > 0.0),
        friction, extent, new_work(links), np.zeros((n, 7)), np.zeros((n, 6)), np.zeros(n),
        np.zeros(len(trees), np.int64), np.zeros(len(trees) + 1, np.int64),
        np.zeros(len(trees), np.int64), np.zeros(len(trees), np.uint8), packed, np.zeros(nv + len(links.quaternions)),
        np.zeros(nv), np.zeros(nv), np.zeros(nv), np.zeros(nv),
    )  # fmt: skip


@outlined
def _eliminate_along_path(links, link, nx, ny, nz, fx, fy, fz, own, share, work, qd, dense):
    """Add the forward elimination of the wrenches of three lanes on `link` (torque at its origin) to `dense`.

    With own >= 0, a dof of `link`, a joint force `share` on it is included. Returns J qd.
    """
    rows, subspace, reduced, pivot = work.rows, work.subspace, work.reduced, work.pivot
    ax, ay, az, bx, by, bz = nx, ny, nz, fx, fy, fz
    i, rate = link, splat(0.0)
    while i >= 0:
        kind = links.kind[i]
        seen = splat(0.0)
        for a in range(links.dof[i]):
            v = links.v_start[i] + a
            sx, sy, sz, tx, ty, tz = direction(kind, i, v, rows, subspace)
            seen = sx * nx + sy * ny + sz * nz + tx * fx + ty * fy + tz * fz
            plain = sx * ax + sy * ay + sz * az + tx * bx + ty * by + tz * bz
            if v == own:
                seen, plain = seen + share, plain + share
            rate = rate + qd[v] * plain
            store4(dense, v, 0, load4(dense, v, 0) + seen)
            if kind != HINGE and kind != SLIDE:
                s = pivot[v, a] * seen
                nx, ny, nz = nx - reduced[v, 0] * s, ny - reduced[v, 1] * s, nz - reduced[v, 2] * s
                fx, fy, fz = fx - reduced[v, 3] * s, fy - reduced[v, 4] * s, fz - reduced[v, 5] * s
        cx, cy, cz = cross(rows[i, D], rows[i, D + 1], rows[i, D + 2], fx, fy, fz)
        nx, ny, nz = nx + cx, ny + cy, nz + cz
        cx, cy, cz = cross(rows[i, D], rows[i, D + 1], rows[i, D + 2], bx, by, bz)
        ax, ay, az = ax + cx, ay + cy, az + cz
        if kind == HINGE or kind == SLIDE:
            s = rows[i, DI] * seen
            nx, ny, nz = nx - rows[i, U] * s, ny - rows[i, U + 1] * s, nz - rows[i, U + 2] * s
            fx, fy, fz = fx - rows[i, U + 4] * s, fy - rows[i, U + 5] * s, fz - rows[i, U + 6] * s
        i = links.parent[i]
    return rate


@inner
def _pack_path(links, link, stamp, at, packed):
    """Pack y of the links from `link` up to where an earlier path joins, from index `at` on; return the next index."""
    i, room = link, len(packed.column)
    while i >= 0 and packed.seen[i] != stamp:
        packed.seen[i] = stamp
        for v in range(links.v_start[i], links.v_start[i] + links.dof[i]):
            if at < room:
                packed.column[at] = v
                store4(packed.y, at, 0, load4(packed.dense, v, 0))
            store4(packed.dense, v, 0, splat(0.0))
            at += 1
        i = links.parent[i]
    return at


@inner
def _wedged(along, across):
    """Return the part of its speed at which a contact with these responses, along the normal and across, separates."""
    return math.sqrt(along / (_STIFF * across)) if along < _STIFF * across else 1.0


@outlined
def _invert_diagonal(k, width, packed):
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
    f = packed.coefficients
    f[k, _INVERSE] = 1.0 / k00 if k00 > none else 0.0
    f[k, _CROSS], f[k, _CROSS + 1] = k01, k02
    half = 0.5 * (k11 - k22)
    largest = 0.5 * (k11 + k22) + math.sqrt(half * half + k12 * k12)
    f[k, _SCALE] = 1.0 / largest if largest > none else 0.0
    if width == 3 and f[k, TARGET] > 0.0:
        f[k, TARGET] *= _wedged(k00, largest)
    across = k11 * k22 - k12 * k12
    if across > 1e-12 * k11 * k22 and min(k11, k22) > none:
        f[k, _ACROSS], f[k, _ACROSS + 1], f[k, _ACROSS + 2] = k22 / across, k11 / across, -k12 / across
    else:
        # one direction is locked by the joints: each tangent by itself
        f[k, _ACROSS] = 1.0 / k11 if k11 > max(none, 1e-12 * k00) else 0.0
        f[k, _ACROSS + 1] = 1.0 / k22 if k22 > max(none, 1e-12 * k00) else 0.0
        f[k, _ACROSS + 2] = 0.0


@inner
def _wide(kind):
    """Return whether a block has three rows."""
    return kind == CONTACT or kind == ROLLING


@inner
def _apply_impulse(k, d0, d1, d2, packed):
    """Add the impulses d of block k to z, or to the velocities of its island."""
    r = packed.row[k]
    if r < 0:
        for t in range(packed.start[k], packed.start[k + 1]):
            v = packed.column[t]
            packed.z[v] += packed.inverse[v] * (packed.y[t, 0] * d0 + packed.y[t, 1] * d1 + packed.y[t, 2] * d2)
        return
    u, a, s0, s1, s2 = packed.responses.velocity, packed.responses.matrix, splat(d0), splat(d1), splat(d2)
    if _wide(packed.kind[k]):
        for j in range(0, packed.responses.count[0], 4):
            x = load4(u, 0, j) + s0 * load4(a, r, j) + s1 * load4(a, r + 1, j)
            store4(u, 0, j, x + s2 * load4(a, r + 2, j))
    else:
        for j in range(0, packed.responses.count[0], 4):
            store4(u, 0, j, load4(u, 0, j) + s0 * load4(a, r, j))


@inner
def _velocity(k, packed):
    """Return the velocities of the rows of block k."""
    r = packed.row[k]
    if r >= 0:
        u = packed.responses.velocity
        return u[0, r], u[0, r + 1], u[0, r + 2]
    f, y, z = packed.coefficients, packed.y, packed.z
    u = load4(f, k, FREE_VELOCITY)
    for t in range(packed.start[k], packed.start[k + 1]):
        u = u + load4(y, t, 0) * splat(z[packed.column[t]])
    return lane(u, 0), lane(u, 1), lane(u, 2)


@inner
def _bounds(k, packed):
    """Return the largest impulses of block k: of its first row, where it has two signs, and across it."""
    kind, f = packed.kind[k], packed.coefficients
    if kind == DRY_FRICTION:
        return f[k, BOUND], 0.0
    if kind == ROLLING:
        push = packed.lam[k - 1, 0]
        return f[k, TORSION] * push, f[k, BOUND] * push
    return np.inf, f[k, BOUND] * packed.lam[k, 0]


@inner
def _update(k, packed):
    """One projected Gauss-Seidel update of block k; return the change of velocity."""
    f, lam, kind = packed.coefficients, packed.lam, packed.kind[k]
    if kind == DRY_FRICTION and f[k, BOUND] == 0.0:
        return 0.0
    u0, u1, u2 = _velocity(k, packed)
    inverse, most = f[k, _INVERSE], _bounds(k, packed)[0]
    new = lam[k, 0] - (u0 - f[k, TARGET]) * inverse
    low = 0.0 if kind == CONTACT or kind == INEQUALITY_ROW else -most
    new = min(max(new, low), most)
    d0, d1, d2 = new - lam[k, 0], 0.0, 0.0
    lam[k, 0] = new
    if _wide(kind):
        u1, u2 = u1 + f[k, _CROSS] * d0, u2 + f[k, _CROSS + 1] * d0
        x = lam[k, 1] - (f[k, _ACROSS] * u1 + f[k, _ACROSS + 2] * u2)
        w = lam[k, 2] - (f[k, _ACROSS + 2] * u1 + f[k, _ACROSS + 1] * u2)
        most, size = _bounds(k, packed)[1], math.sqrt(x * x + w * w)
        if size > most:
            # it slides: friction opposes the slip, for which both tangents need one step length
            x, w = lam[k, 1] - f[k, _SCALE] * u1, lam[k, 2] - f[k, _SCALE] * u2
            size = math.sqrt(x * x + w * w)
            s = most / size if size > most else 1.0
            x, w = s * x, s * w
        d1, d2 = x - lam[k, 1], w - lam[k, 2]
        lam[k, 1], lam[k, 2] = x, w
    if d0 != 0.0 or d1 != 0.0 or d2 != 0.0:
        _apply_impulse(k, d0, d1, d2, packed)
    return (abs(d0) + abs(d1) + abs(d2)) / inverse if inverse > 0.0 else 0.0


@inner
def _sweep(first, last, packed):
    """Update the blocks of an island once; return the largest change of velocity."""
    change = 0.0
    for i in range(first, last):
        change = max(change, _update(packed.order[i], packed))
    return change


@outlined
def _find_responses(first, last, packed):
    """Fill the responses of the rows of an island to each other, and their velocities; return whether there is room."""
    s, order = packed.responses, packed.order
    low, high, n = len(packed.z), 0, 0
    for i in range(first, last):
        k = order[i]
        n += 3 if _wide(packed.kind[k]) else 1
        for t in range(packed.start[k], packed.start[k + 1]):
            low, high = min(low, packed.column[t]), max(high, packed.column[t] + 1)
    width = max(high - low, 0)
    if n > len(s.step) or width > s.rows.shape[1] - 4:
        return False
    s.count[0], n = n, 0
    for i in range(first, last):
        k = order[i]
        more = 3 if _wide(packed.kind[k]) else 1
        u = _velocity(k, packed)
        s.velocity[0, n] = u[0]
        if more == 3:
            s.velocity[0, n + 1], s.velocity[0, n + 2] = u[1], u[2]
        for r in range(more):
            for v in range(0, width, 4):
                store4(s.rows, n + r, v, splat(0.0))
        fours, before = 0, -1
        for t in range(packed.start[k], packed.start[k + 1]):
            v = packed.column[t]
            root = math.sqrt(packed.inverse[v])
            for r in range(more):
                s.rows[n + r, v - low] = packed.y[t, r] * root
        for t in range(packed.start[k], packed.start[k + 1]):
            four = (packed.column[t] - low) // 4
            if four != before:
                for other in range(fours):
                    if s.fours[other] == four:
                        four = before
                        break
                if four != before:
                    s.fours[fours], before = four, four
                    fours += 1
        packed.row[k] = n
        for r in range(n, n + more):
            for j in range(r + 1):
                part = splat(0.0)
                for t in range(fours):
                    v = 4 * s.fours[t]
                    part = part + load4(s.rows, r, v) * load4(s.rows, j, v)
                s.matrix[r, j] = (lane(part, 0) + lane(part, 1)) + (lane(part, 2) + lane(part, 3))
                s.matrix[j, r] = s.matrix[r, j]
        n += more
    return True


@inner
def _forget_responses(first, last, packed):
    """Take the velocities of an island as sums over paths again."""
    for i in range(first, last):
        packed.row[packed.order[i]] = -1


@inner
def _apply_all(first, last, packed):
    """Find what the impulses of the blocks of an island have changed: z, or its velocities."""
    for i in range(first, last):
        k = packed.order[i]
        r = packed.row[k]
        if r >= 0:
            for c in range(3 if _wide(packed.kind[k]) else 1):
                packed.responses.velocity[0, r + c] = packed.coefficients[k, FREE_VELOCITY + c]
        for t in range(packed.start[k], packed.start[k + 1]):
            packed.z[packed.column[t]] = 0.0
    for i in range(first, last):
        k = packed.order[i]
        if packed.lam[k, 0] != 0.0 or packed.lam[k, 1] != 0.0 or packed.lam[k, 2] != 0.0:
            _apply_impulse(k, packed.lam[k, 0], packed.lam[k, 1], packed.lam[k, 2], packed)


@inner
def _slip(k, packed):
    """Return friction of block k less a step length times its slip, and how large it may be: beyond, it slides."""
    f, u = packed.coefficients, _velocity(k, packed)
    x, y = packed.lam[k, 1] - f[k, _SCALE] * u[1], packed.lam[k, 2] - f[k, _SCALE] * u[2]
    return x, y, _bounds(k, packed)[1]


@inner
def _list_row(k, c, n, packed):
    """List row c of block k as one that a Newton step solves for; return how many there are."""
    packed.responses.free[n, 0], packed.responses.free[n, 1] = k, c
    return n + 1


@inner
def _list_free_rows(first, last, packed):
    """List the rows of an island that a Newton step solves for; return how many, and whether contacts slide."""
    f, n, slides = packed.coefficients, 0, False
    for i in range(first, last):
        k = packed.order[i]
        kind, lam = packed.kind[k], packed.lam[k, 0]
        packed.sliding[k] = 0
        if f[k, _INVERSE] == 0.0 or (kind == ROLLING and packed.lam[k - 1, 0] == 0.0):
            continue
        most, across = _bounds(k, packed)
        free = lam > 0.0 if kind == CONTACT or kind == INEQUALITY_ROW else abs(lam) < most
        if kind == ROLLING and not free and most > 0.0:
            packed.sliding[k] = 2
            slides = free = True
        if free:
            n = _list_row(k, 0, n, packed)
        if _wide(kind) and across > 0.0 and f[k, _ACROSS] > 0.0 and f[k, _ACROSS + 1] > 0.0:
            x, y, _ = _slip(k, packed)
            if x * x + y * y >= across * across:
                packed.sliding[k] += 1
                slides = True
            n = _list_row(k, 2, _list_row(k, 1, n, packed), packed)
    return n, slides


@inner
def _pushing(k, packed):
    """Return the block whose normal impulse bounds the friction of block k."""
    return k - 1 if packed.kind[k] == ROLLING else k


@inner
def _fill_torsion(i, n, packed):
    """Fill row i of a Newton step, of torsional friction that slides: it grows with the normal impulse."""
    s = packed.responses
    k = s.free[i, 0]
    part = math.copysign(packed.coefficients[k, TORSION], packed.lam[k, 0])
    for j in range(n):
        s.factor[i, j] = -part if s.free[j, 0] == k - 1 and s.free[j, 1] == 0 else 0.0
    s.factor[i, i] = 1.0
    s.step[i] = part * packed.lam[k - 1, 0] - packed.lam[k, 0]


@inner
def _fill_sliding(i, n, share, packed):
    """Fill row i of a Newton step, of friction of a contact that slides: f = mu p / |p|, p = f - s u, linearized.

    f is the friction per normal impulse times that, u the slip, s a step length.
    """
    s = packed.responses
    k, c = s.free[i, 0], s.free[i, 1]
    x, y, most = _slip(k, packed)
    size = math.sqrt(x * x + y * y)
    x, y = x / size, y / size
    own = x if c == 1 else y
    part = most / size
    ex, ey = part * ((1.0 if c == 1 else 0.0) - own * x), part * ((1.0 if c == 2 else 0.0) - own * y)
    step, r, push = packed.coefficients[k, _SCALE], packed.row[k], _pushing(k, packed)
    for j in range(n):
        b, d = s.free[j, 0], s.free[j, 1]
        o = packed.row[b] + d
        s.factor[i, j] = step * (ex * s.matrix[r + 1, o] + ey * s.matrix[r + 2, o])
        if b == push and d == 0:
            s.factor[i, j] -= packed.coefficients[k, BOUND] * own
        elif b == k and d > 0:
            s.factor[i, j] += (1.0 if d == c else 0.0) - (ex if d == 1 else ey)
    # the slip across is that of others, too, where contacts are redundant
    s.factor[i, i] += share
    s.step[i] = most * own - packed.lam[k, c]


@inner
def _subtract_rows(i, first, end, t, s, k, a):
    """Subtract t a[k, j] + s a[k + 1, j] from a[i, j] for first <= j < end, and up to three more."""
    t4, s4 = splat(t), splat(s)
    for j in range(first, end, 4):
        store4(a, i, j, load4(a, i, j) - t4 * load4(a, k, j) - s4 * load4(a, k + 1, j))


@inner
def _eliminate_all(n, symmetric, a, x):
    """Replace x by the solution of a y = x, a overwritten; return whether all pivots were positive.

    Two pivots at a time. Of a symmetric matrix the lower half is read; what is above its diagonal becomes D L^T.
    """
    for k in range(0, n, 2):
        if not a[k, k] > 0.0:
            return False
        p = 1.0 / a[k, k]
        if k + 1 == n:
            break
        if symmetric:
            a[k, k + 1] = a[k + 1, k]
        t = a[k + 1, k] * p
        _subtract_rows(k + 1, k + 1, k + 2 if symmetric else n, t, 0.0, k, a)
        x[k + 1] -= t * x[k]
        if not a[k + 1, k + 1] > 0.0:
            return False
        q = 1.0 / a[k + 1, k + 1]
        for i in range(k + 2, n):
            if symmetric:
                a[k, i] = a[i, k]
            t = a[i, k] * p
            a[i, k + 1] -= t * a[k, k + 1]
            if symmetric:
                a[k + 1, i] = a[i, k + 1]
            s = a[i, k + 1] * q
            x[i] -= t * x[k] + s * x[k + 1]
            _subtract_rows(i, k + 2, i + 1 if symmetric else n, t, s, k, a)
    for k in range(n - 1, -1, -1):
        part = x[k]
        for j in range(k + 1, n):
            part -= a[k, j] * x[j]
        x[k] = part / a[k, k]
    return True


@outlined
def _newton_step(first, last, share, packed):
    """Solve the rows of an island that are neither open nor at a bound together; return whether there were any.

    Contacts that slide have friction of the size and direction that their normal impulse and their slip ask for
    (Alart and Curnier's generalized Newton method); all other rows stay as they are. Impulses beyond their bounds are
    cut. Diagonals are larger by their part `share`.
    """
    s, lam, f = packed.responses, packed.lam, packed.coefficients
    n, slides = _list_free_rows(first, last, packed)
    if n == 0:
        return False
    for i in range(n):
        k, c = s.free[i, 0], s.free[i, 1]
        if c == 0 and packed.sliding[k] >= 2:
            _fill_torsion(i, n, packed)
            continue
        if c > 0 and packed.sliding[k] % 2 == 1:
            _fill_sliding(i, n, share, packed)
            continue
        r = packed.row[k] + c
        for j in range(n if slides else i + 1):
            s.factor[i, j] = s.matrix[r, packed.row[s.free[j, 0]] + s.free[j, 1]]
        s.factor[i, i] *= 1.0 + share
        s.step[i] = (f[k, TARGET] if c == 0 else 0.0) - s.velocity[0, r]
    if not _eliminate_all(n, not slides, s.factor, s.step):
        return False
    for i in range(first, last):
        k = packed.order[i]
        for c in range(3):
            packed.kept[k, c] = lam[k, c]
    for i in range(n):
        lam[s.free[i, 0], s.free[i, 1]] += s.step[i]
    for i in range(first, last):
        k = packed.order[i]
        kind = packed.kind[k]
        if kind == CONTACT or kind == INEQUALITY_ROW:
            lam[k, 0] = max(0.0, lam[k, 0])
        most, across = _bounds(k, packed)
        lam[k, 0] = min(max(lam[k, 0], -most), most)
        if _wide(kind):
            size = math.sqrt(lam[k, 1] * lam[k, 1] + lam[k, 2] * lam[k, 2])
            if size > across:
                lam[k, 1], lam[k, 2] = lam[k, 1] * across / size, lam[k, 2] * across / size
    _apply_all(first, last, packed)
    return True


@outlined
def _restore_impulses(first, last, packed):
    """Take the last Newton step of an island back."""
    for i in range(first, last):
        k = packed.order[i]
        for c in range(3):
            packed.lam[k, c] = packed.kept[k, c]
    _apply_all(first, last, packed)


@outlined
def _sweeps(first, last, most, enough, packed):
    """Update the blocks of an island until they change by no more than `enough`, or `most` times; return that.

    After the first sweep come Newton steps; one after which far more changes than before is taken back. Where small
    changes no longer become smaller by these, rows that depend on each other contradict each other by as much.
    """
    change, share, steps, done = 0.0, _SHARED, 0, 0
    largest = _LARGEST_EQUALITY if most > _MOST_SWEEPS else _LARGEST
    known = False
    for sweep in range(most):
        change, done = _sweep(first, last, packed), sweep + 1
        if sweep >= _PATIENCE:
            enough = max(enough, min(_SLACKER * enough, largest))
        if change < enough:
            break
        if sweep == 0:
            known = _find_responses(first, last, packed)
        if known and steps < _MOST_STEPS and share <= _MOST_SHARED:
            before = change
            if _newton_step(first, last, share, packed):
                steps += 1
                for _ in range(_SWEEPS_AFTER):
                    change = _sweep(first, last, packed)
                    if change < max(enough, 0.5 * before):
                        break
                if not change < _ACCEPTED * before:
                    _restore_impulses(first, last, packed)
                    change, share = before, _SHARED_FACTOR * share
                else:
                    share = max(share / _SHARED_FACTOR, _LEAST_SHARED)
            else:
                steps = _MOST_STEPS
            if change < enough or (change < _STALLED and change > 0.5 * before):
                break
    packed.report[1], packed.report[2] = max(packed.report[1], done), max(packed.report[2], change)
    return change


@inner
def _root(island, t):
    while island[t] != t:
        t = island[t]
    return t


@outlined
def _find_islands(count, contacts, constraint, state):
    """Order the blocks by the islands of trees that they tie together."""
    p, island, tally = state.packed, state.island, state.tally
    for t in range(len(island)):
        island[t] = t
    for k in range(count):
        if p.kind[k] == DRY_FRICTION:
            p.tree[k] = state.tree_of_dof[p.source[k]]
        elif _wide(p.kind[k]):
            a, b = contacts.link_a[p.source[k]], contacts.link_b[p.source[k]]
            p.tree[k] = state.tree[a]
            if b >= 0:
                island[_root(island, state.tree[b])] = _root(island, state.tree[a])
        else:
            r = p.source[k]
            p.tree[k] = state.tree[constraint.path[r, 0]]
            for slot in range(1, 4):
                if constraint.path[r, slot] >= 0:
                    island[_root(island, state.tree[constraint.path[r, slot]])] = _root(island, p.tree[k])
    for t in range(len(tally)):
        tally[t] = 0
    for k in range(count):
        p.tree[k] = _root(island, p.tree[k])
        tally[p.tree[k] + 1] += 1
    for t in range(len(island)):
        tally[t + 1] += tally[t]
    for k in range(count):
        p.order[tally[p.tree[k]]] = k
        tally[p.tree[k]] += 1


@outlined
def _gains(first, last, packed):
    """Return whether the impulses of an island add energy: a part of what they take, beyond what pushes overlap out."""
    f, lam, work, allowed = packed.coefficients, packed.lam, 0.0, 0.0
    for i in range(first, last):
        k = packed.order[i]
        u = _velocity(k, packed)
        work += 0.5 * lam[k, 0] * (f[k, FREE_VELOCITY] + u[0])
        if 0.0 < f[k, TARGET] <= _PUSH_OUT_SPEED:
            allowed += lam[k, 0] * f[k, TARGET]
        allowed += _GAINED * abs(lam[k, 0] * f[k, FREE_VELOCITY])
        if _wide(packed.kind[k]):
            work += 0.5 * lam[k, 1] * (f[k, FREE_VELOCITY + 1] + u[1])
            work += 0.5 * lam[k, 2] * (f[k, FREE_VELOCITY + 2] + u[2])
    return work > allowed


@outlined
def projected_gauss_seidel(count, enough, packed):
    """Solve for the impulses of the first `count` blocks of `order`, island by island, warm started from `lam`.

    Velocities change by no more than `enough` at the end, unless that takes too many sweeps [m/s].
    """
    packed.report[1] = packed.report[2] = 0.0
    first = 0
    while first < count:
        most, last = _MOST_SWEEPS, first
        while last < count and packed.tree[packed.order[last]] == packed.tree[packed.order[first]]:
            k = packed.order[last]
            if packed.kind[k] == EQUALITY_ROW:
                most = _MOST_SWEEPS_EQUALITY
            wide = _wide(packed.kind[k])
            _invert_diagonal(k, 3 if wide else 1, packed)
            if packed.lam[k, 0] != 0.0 or wide:
                _apply_impulse(k, packed.lam[k, 0], packed.lam[k, 1], packed.lam[k, 2], packed)
            last += 1
        for attempt in range(3):
            change = _sweeps(first, last, most, enough, packed)
            again = attempt < 2 and (change > _DIVERGED or _gains(first, last, packed))
            _forget_responses(first, last, packed)
            if not again:
                break
            for i in range(first, last):
                k = packed.order[i]
                packed.lam[k, 0] = packed.lam[k, 1] = packed.lam[k, 2] = 0.0
                packed.coefficients[k, TARGET] = min(packed.coefficients[k, TARGET], 0.0)
                if attempt == 1 and _wide(packed.kind[k]):
                    packed.coefficients[k, BOUND] = packed.coefficients[k, TORSION] = 0.0
            _apply_all(first, last, packed)
            packed.report[2] = 0.0
        first = last


@outlined
def release_rows(count, h, constraint, packed):
    """Let inequality rows start from the impulses that the free velocities include: contacts may relieve them.

    The velocities become those without these impulses.
    """
    some, lam, f = False, packed.lam, packed.coefficients
    for k in range(count):
        if packed.kind[k] == INEQUALITY_ROW and constraint.multipliers[packed.source[k]] > 0.0:
            lam[k, 0], some = h * constraint.multipliers[packed.source[k]], True
            _apply_impulse(k, -lam[k, 0], 0.0, 0.0, packed)
    if not some:
        return
    for k in range(count):
        f[k, FREE_VELOCITY], f[k, FREE_VELOCITY + 1], f[k, FREE_VELOCITY + 2] = _velocity(k, packed)
    for k in range(count):
        if packed.kind[k] == INEQUALITY_ROW and lam[k, 0] > 0.0:
            for t in range(packed.start[k], packed.start[k + 1]):
                packed.z[packed.column[t]] = 0.0


@inner
def fall_of(h, gravity):
    """Return how far gravity moves a body in a step."""
    return h * h * math.sqrt(gravity[0] * gravity[0] + gravity[1] * gravity[1] + gravity[2] * gravity[2])


@outlined
def set_poses(links, h, turning, rows, subspace, qd, state):
    """Fill poses, velocities and reach of all links.

    With `turning` the rows have angular velocities, else these are found too.
    """
    pose, velocities, gravity = state.pose, state.velocities, links.gravity
    fall = fall_of(h, gravity)
    for i in range(len(links.parent)):
        p = links.parent[i]
        vx = vy = vz = wx = wy = wz = 0.0
        if p >= 0:
            wx, wy, wz = velocities[p, 0], velocities[p, 1], velocities[p, 2]
            cx, cy, cz = cross(wx, wy, wz, rows[i, D], rows[i, D + 1], rows[i, D + 2])
            vx, vy, vz = velocities[p, 3] + cx, velocities[p, 4] + cy, velocities[p, 5] + cz
        for v in range(links.v_start[i], links.v_start[i] + links.dof[i]):
            s = direction(links.kind[i], i, v, rows, subspace)
            wx, wy, wz = wx + s[0] * qd[v], wy + s[1] * qd[v], wz + s[2] * qd[v]
            vx, vy, vz = vx + s[3] * qd[v], vy + s[4] * qd[v], vz + s[5] * qd[v]
        if turning:
            wx, wy, wz = rows[i, W], rows[i, W + 1], rows[i, W + 2]
        velocities[i, 0], velocities[i, 1], velocities[i, 2] = wx, wy, wz
        velocities[i, 3], velocities[i, 4], velocities[i, 5] = vx, vy, vz
        pose[i, 0], pose[i, 1], pose[i, 2] = rows[i, R + 3], rows[i, R + 7], rows[i, R + 11]
        pose[i, 3], pose[i, 4], pose[i, 5], pose[i, 6] = quaternion_from_matrix(
            (
                rows[i, R], rows[i, R + 4], rows[i, R + 8], rows[i, R + 1], rows[i, R + 5], rows[i, R + 9],
                rows[i, R + 2], rows[i, R + 6], rows[i, R + 10],
            )
        )  # fmt: skip
        turn = math.sqrt(wx * wx + wy * wy + wz * wz)
        state.reach[i] = h * (math.sqrt(vx * vx + vy * vy + vz * vz) + turn * state.extent[i]) + fall


@inner
def _tangent(x, y, z):
    """Return a unit vector perpendicular to the unit vector (x, y, z)."""
    if abs(z) < 0.7:
        f = 1.0 / math.sqrt(x * x + y * y)
        return -f * y, f * x, 0.0
    f = 1.0 / math.sqrt(y * y + z * z)
    return 0.0, -f * z, f * y


@inner
def _contact_rows(links, link, sign, axes, k, point, work, qd, dense):
    """Add the forward elimination of `sign` times the axes of contact k, forces at a point on `link`; return J qd."""
    rows = work.rows
    fx = sign * pack(axes[k, 0], axes[k, 3], axes[k, 6])
    fy = sign * pack(axes[k, 1], axes[k, 4], axes[k, 7])
    fz = sign * pack(axes[k, 2], axes[k, 5], axes[k, 8])
    x, y, z = point[0] - rows[link, R + 3], point[1] - rows[link, R + 7], point[2] - rows[link, R + 11]
    nx, ny, nz = cross(x, y, z, fx, fy, fz)
    return _eliminate_along_path(links, link, nx, ny, nz, fx, fy, fz, np.int64(-1), splat(0.0), work, qd, dense)


@inner
def _single_row(links, link, nx, ny, nz, fx, fy, fz, own, share, work, qd, dense):
    """Add the forward elimination of one wrench on `link`, and of `share` on its dof `own`; return J qd."""
    n, f = (pack(nx, 0.0, 0.0), pack(ny, 0.0, 0.0), pack(nz, 0.0, 0.0)), (pack(fx, 0.0, 0.0), pack(fy, 0.0, 0.0))
    rate = _eliminate_along_path(
        links, link, n[0], n[1], n[2], f[0], f[1], pack(fz, 0.0, 0.0), own, pack(share, 0.0, 0.0), work, qd, dense
    )
    return lane(rate, 0)


@inner
def push_out_speed(depth):
    """Return the speed at which an overlap is pushed out."""
    return min(_PUSH_OUT_RATE * max(depth - _SLOP, 0.0), _PUSH_OUT_SPEED)


@inner
def take_normal_alone(k, depth, packed):
    """Make contact block k, whose diagonal is inverted, one row along its normal that pushes an overlap out."""
    f, speed = packed.coefficients, push_out_speed(depth)
    # a gap may close by what is left of it after this substep: little is known of that, so it does not
    f[k, FREE_VELOCITY], f[k, TARGET] = 0.0, speed
    if speed > 0.0 and f[k, _INVERSE] > 0.0 and f[k, _SCALE] > 0.0:
        f[k, TARGET] = speed * _wedged(1.0 / f[k, _INVERSE], 1.0 / f[k, _SCALE])
    packed.kind[k] = INEQUALITY_ROW


@outlined
def _add_contact(links, k, c, h, push, contacts, found, work, state):
    """Fill block k with contact c; return the index after its last nonzero. With `push`, overlap is pushed out."""
    p = state.packed
    a, b, t = contacts.link_a[c], contacts.link_b[c], state
    point = (contacts.point[c, 0], contacts.point[c, 1], contacts.point[c, 2])
    nx, ny, nz = contacts.normal[c, 0], contacts.normal[c, 1], contacts.normal[c, 2]
    ux, uy, uz = _tangent(nx, ny, nz)
    vx, vy, vz = cross(nx, ny, nz, ux, uy, uz)
    p.axes[k, 0], p.axes[k, 1], p.axes[k, 2] = nx, ny, nz
    p.axes[k, 3], p.axes[k, 4], p.axes[k, 5] = ux, uy, uz
    p.axes[k, 6], p.axes[k, 7], p.axes[k, 8] = vx, vy, vz
    before = 0.0
    rate = _contact_rows(links, a, 1.0, p.axes, k, point, work, t.free_velocity, p.dense)
    if b >= 0:
        rate = rate + _contact_rows(links, b, -1.0, p.axes, k, point, work, t.free_velocity, p.dense)
    store4(p.coefficients, k, FREE_VELOCITY, rate)
    for end in range(2):
        i = a if end == 0 else b
        if i >= 0:
            sign = 1.0 if end == 0 else -1.0
            lx, ly, lz = point[0] - t.pose[i, 0], point[1] - t.pose[i, 1], point[2] - t.pose[i, 2]
            cx, cy, cz = cross(t.velocities[i, 0], t.velocities[i, 1], t.velocities[i, 2], lx, ly, lz)
            before += sign * (
                nx * (t.velocities[i, 3] + cx) + ny * (t.velocities[i, 4] + cy) + nz * (t.velocities[i, 5] + cz)
            )
    depth, restitution = contacts.depth[c], contacts.restitution[c]
    if depth < 0.0:
        target = depth / h
    else:
        target = push_out_speed(depth) if push else 0.0
    g = links.gravity
    slow = _RESTITUTION_STEPS * h * math.sqrt(g[0] * g[0] + g[1] * g[1] + g[2] * g[2])
    if restitution > 0.0 and before < -slow and p.coefficients[k, FREE_VELOCITY] < target:
        target = max(target, separation_velocity(restitution, before, p.coefficients[k, FREE_VELOCITY], -depth, h))
    p.coefficients[k, TARGET], p.coefficients[k, BOUND] = target, contacts.friction[c]
    p.kind[k], p.source[k] = CONTACT, c
    p.lam[k, 0] = h * found[c, 0]
    p.lam[k, 1] = h * (found[c, 1] * ux + found[c, 2] * uy + found[c, 3] * uz)
    p.lam[k, 2] = h * (found[c, 1] * vx + found[c, 2] * vy + found[c, 3] * vz)
    return _pack_paths(links, a, b, k, p)


@inner
def _pack_paths(links, a, b, k, p):
    """Pack block k, on links a and b; return the index after its last nonzero."""
    at = _pack_path(links, a, k + 1, p.start[k], p)
    if b >= 0:
        at = _pack_path(links, b, k + 1, at, p)
    return at


@outlined
def _add_rolling(links, k, c, h, contacts, found, work, state):
    """Fill block k with torsional and rolling friction of contact c, the block before; return the index after it."""
    p = state.packed
    a, b = contacts.link_a[c], contacts.link_b[c]
    for r in range(9):
        p.axes[k, r] = p.axes[k - 1, r]
    tx = pack(p.axes[k, 0], p.axes[k, 3], p.axes[k, 6])
    ty = pack(p.axes[k, 1], p.axes[k, 4], p.axes[k, 7])
    tz = pack(p.axes[k, 2], p.axes[k, 5], p.axes[k, 8])
    none, rate = splat(0.0), splat(0.0)
    for end in range(2):
        i, sign = (a, 1.0) if end == 0 else (b, -1.0)
        if i >= 0:
            rate = rate + _eliminate_along_path(
                links, i, sign * tx, sign * ty, sign * tz, none, none, none, np.int64(-1), none, work,
                state.free_velocity, p.dense,
            )  # fmt: skip
    store4(p.coefficients, k, FREE_VELOCITY, rate)
    for r in range(3):
        x, y, z = p.axes[k, 3 * r], p.axes[k, 3 * r + 1], p.axes[k, 3 * r + 2]
        p.lam[k, r] = h * (found[c, 4] * x + found[c, 5] * y + found[c, 6] * z)
    p.coefficients[k, TARGET] = 0.0
    p.coefficients[k, TORSION], p.coefficients[k, BOUND] = contacts.rolling[c, 0], contacts.rolling[c, 1]
    p.kind[k], p.source[k] = ROLLING, c
    return _pack_paths(links, a, b, k, p)


@inner
def _owner(links, path, r, v):
    """Return the link whose dof v is; it starts one of the paths of row r."""
    out = path[r, 0]
    for slot in range(4):
        i = path[r, slot]
        if i >= 0 and links.v_start[i] <= v < links.v_start[i] + links.dof[i]:
            out = i
    return out


@outlined
def _add_row(links, table, k, r, h, constraint, work, state):
    """Fill block k with row r of the model's constraints; return the index after its last nonzero."""
    t, stamp, rate = state, k + 1, -table.target[r, 1]
    pair_state, wrench = constraint.state, constraint.wrench
    for slot in range(2):
        p = table.row_pair[r, slot]
        if p < 0:
            continue
        o = 6 * slot
        nx, ny, nz = wrench[r, o], wrench[r, o + 1], wrench[r, o + 2]
        fx, fy, fz = wrench[r, o + 3], wrench[r, o + 4], wrench[r, o + 5]
        for end in range(2):
            i = table.pair_link[p, end]
            if i < 0:
                continue
            lever, sign = (LEVER_A, -1.0) if end == 0 else (LEVER_B, 1.0)
            x, y, z = pair_state[p, lever], pair_state[p, lever + 1], pair_state[p, lever + 2]
            if end == 0:
                x, y, z = x + pair_state[p, GAP], y + pair_state[p, GAP + 1], z + pair_state[p, GAP + 2]
            cx, cy, cz = cross(x, y, z, fx, fy, fz)
            rate += _single_row(
                links, i, sign * (nx + cx), sign * (ny + cy), sign * (nz + cz), sign * fx, sign * fy,
                sign * fz, np.int64(-1), 0.0, work, t.free_velocity, t.packed.dense,
            )  # fmt: skip
    for c in range(2):
        v = table.indices[r, c]
        if v >= 0:
            i = _owner(links, constraint.path, r, v)
            rate += _single_row(
                links, i, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, v, table.share[r, c], work, t.free_velocity,
                t.packed.dense,
            )  # fmt: skip
    at = t.packed.start[k]
    for slot in range(4):
        if constraint.path[r, slot] >= 0:
            at = _pack_path(links, constraint.path[r, slot], stamp, at, t.packed)
    inequality = table.role[r] == INEQUALITY
    if not inequality and table.terms[table.term_start[r], 0] == REGISTERED:
        # it may depend on time: the free velocity leads to where it closes, and contacts leave its rate as it is
        rate = 0.0
    t.packed.kind[k], t.packed.source[k] = (INEQUALITY_ROW if inequality else EQUALITY_ROW), r
    t.packed.coefficients[k, FREE_VELOCITY], t.packed.coefficients[k, TARGET], t.packed.coefficients[k, BOUND] = (
        rate,
        0.0,
        0.0,
    )
    if inequality:
        t.packed.coefficients[k, TARGET] = -max(constraint.values[r, 0], 0.0) / h
    t.packed.lam[k, 0] = t.packed.lam[k, 1] = t.packed.lam[k, 2] = 0.0
    return at


@outlined
def _add_friction(links, k, i, v, h, work, state):
    """Fill block k with the dry friction of dof v of link i; return the index after its last nonzero."""
    p = state.packed
    t = state
    p.coefficients[k, FREE_VELOCITY] = _single_row(
        links, i, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, v, 1.0, work, t.free_velocity, p.dense
    )
    p.coefficients[k, TARGET], p.coefficients[k, BOUND] = 0.0, h * t.friction[v]
    p.kind[k], p.source[k] = DRY_FRICTION, v
    p.lam[k, 0] = h * min(max(t.dry[v], -t.friction[v]), t.friction[v])
    p.lam[k, 1] = p.lam[k, 2] = 0.0
    return _pack_path(links, i, k + 1, p.start[k], p)


@inner
def sleeps(contacts, c, state):
    """Return whether contact c is between trees that sleep, or one that does and the world."""
    a, b = contacts.link_a[c], contacts.link_b[c]
    return state.asleep[state.tree[a]] != 0 and (b < 0 or state.asleep[state.tree[b]] != 0)


@outlined
def wakes(contacts, state):
    """Return whether a tree that is awake is in contact with one that sleeps."""
    for c in range(contacts.count[0]):
        a, b = contacts.link_a[c], contacts.link_b[c]
        if b >= 0 and state.asleep[state.tree[a]] != state.asleep[state.tree[b]]:
            return True
    return False


@outlined
def mark_trees(links, blocks, constraint, contacts, state):
    """Mark the trees that contacts or dry friction act on, without those that sleep.

    So are the trees that rows tie to them: of a gripper whose fingers each are two trees that a loop closes, with a
    gear between the drivers, contacts act on the fingertips alone.
    """
    for t in range(len(state.involved)):
        state.involved[t] = 0
    for c in range(contacts.count[0]):
        if sleeps(contacts, c, state):
            continue
        state.involved[state.tree[contacts.link_a[c]]] = 1
        if contacts.link_b[c] >= 0:
            state.involved[state.tree[contacts.link_b[c]]] = 1
    v = 0
    for i in range(len(links.parent)):
        while v < len(state.friction_dofs) and state.friction_dofs[v] < links.v_start[i] + links.dof[i]:
            if not state.asleep[state.tree[i]]:
                state.involved[state.tree[i]] = 1
            v += 1
    for k in range(len(blocks)):
        if constraint.blocks[k, ROW] == constraint.blocks[k, ROW_END] or blocks[k, LINK] == blocks[k, LINK + 1]:
            continue
        first, last, some = state.tree[blocks[k, LINK]], state.tree[blocks[k, LINK + 1] - 1], False
        for t in range(first, last + 1):
            some = some or state.involved[t] != 0
        if some:
            for t in range(first, last + 1):
                state.involved[t] = 0 if state.asleep[t] else 1


@outlined
def _articulate(links, span, added, tau, state):
    """Eliminate the trees involved, and fill 1 / D of their dofs."""
    work, inverse = state.work, state.packed.inverse
    for t in range(len(state.trees)):
        if state.involved[t] == 0:
            continue
        for c in range(SPAN):
            span[c] = state.trees[t, c]
        status = articulate(links, span, added, tau, work.subspace, work.rows, work.reduced, work.pivot, work.rest)
        if status != 0:
            return status
        for i in range(span[LINK], span[LINK + 1]):
            for c in range(links.dof[i]):
                v = links.v_start[i] + c
                one = links.kind[i] == HINGE or links.kind[i] == SLIDE
                inverse[v] = work.rows[i, DI] if one else work.pivot[v, c]
        for v in range(span[DOF], span[DOF + 1]):
            state.packed.z[v] = 0.0
    return 0


@outlined
def collect_blocks(links, table, blocks, h, push, contacts, found, constraint, work, state):
    """Fill the blocks of all rows on the trees involved; return how many, or Status.MORE_CONTACTS.

    With `push`, contacts push out overlap.
    """
    p = state.packed
    t = state
    room, k = len(p.kind), 0
    for i in range(len(p.seen)):
        p.seen[i] = 0
    f = 0
    for i in range(len(links.parent)):
        while f < len(t.friction_dofs) and t.friction_dofs[f] < links.v_start[i] + links.dof[i]:
            if not t.asleep[t.tree[i]]:
                if k < room:
                    p.start[k + 1] = _add_friction(links, k, i, t.friction_dofs[f], h, work, t)
                k += 1
            f += 1
    for b in range(len(blocks)):
        for r in range(constraint.blocks[b, ROW], constraint.blocks[b, ROW_END]):
            role = table.role[r]
            if role > INEQUALITY or t.involved[t.tree[constraint.path[r, 0]]] == 0:
                continue
            if role == INEQUALITY and constraint.values[r, 0] + h * min(constraint.values[r, 1], 0.0) > _NEAR:
                continue
            if k < room:
                p.start[k + 1] = _add_row(links, table, k, r, h, constraint, work, t)
            k += 1
    for c in range(contacts.count[0]):
        if sleeps(contacts, c, t):
            continue
        if k < room:
            p.start[k + 1] = _add_contact(links, k, c, h, push, contacts, found, work, t)
        k += 1
        if contacts.rolling[c, 0] > 0.0 or contacts.rolling[c, 1] > 0.0:
            if k < room:
                p.start[k + 1] = _add_rolling(links, k, c, h, contacts, found, work, t)
            k += 1
    p.report[0], p.report[3] = k, p.start[min(k, room)]
    if k > room or p.start[k] > len(p.column):
        return Status.MORE_CONTACTS
    _find_islands(k, contacts, constraint, t)
    return k


@inner
def _write_wrench(at, i, point, x, y, z, sign, torque, pose, r, wrenches):
    """Write the force (x, y, z) at a point of the world, and `sign` times a torque, on link i as wrench `at`."""
    dx, dy, dz = point[0] - pose[i, 0], point[1] - pose[i, 1], point[2] - pose[i, 2]
    wrenches.link[at] = i
    w = wrenches.data
    for c in range(3):
        w[at, c] = r[i, R + 4 * c] * dx + r[i, R + 4 * c + 1] * dy + r[i, R + 4 * c + 2] * dz
        w[at, 6 + c] = sign * torque[c]
    w[at, 3], w[at, 4], w[at, 5] = x, y, z


@inner
def write_torque(k, count, f, found, p):
    """Write f times the torque of rolling friction at contact block k to found, and return it."""
    c, x, y, z = p.source[k], 0.0, 0.0, 0.0
    if k + 1 < count and p.kind[k + 1] == ROLLING:
        l, a = p.lam, p.axes  # noqa: E741
        x = f * (l[k + 1, 0] * a[k, 0] + l[k + 1, 1] * a[k, 3] + l[k + 1, 2] * a[k, 6])
        y = f * (l[k + 1, 0] * a[k, 1] + l[k + 1, 1] * a[k, 4] + l[k + 1, 2] * a[k, 7])
        z = f * (l[k + 1, 0] * a[k, 2] + l[k + 1, 1] * a[k, 5] + l[k + 1, 2] * a[k, 8])
    found[c, 4], found[c, 5], found[c, 6] = x, y, z
    return x, y, z


@outlined
def _write_forces(count, h, applied, own, contacts, found, state, wrenches):
    """Write the forces of contacts and dry friction: wrenches after the `own` of the user, and joint forces."""
    p = state.packed
    t, at, f = state, own, 1.0 / h
    for v in range(len(applied)):
        t.applied[v] = applied[v]
    for k in range(count):
        if p.kind[k] == DRY_FRICTION:
            t.applied[p.source[k]] += f * p.lam[k, 0]
            t.dry[p.source[k]] = f * p.lam[k, 0]
        if p.kind[k] != CONTACT:
            continue
        c, a, l = p.source[k], p.axes, p.lam  # noqa: E741
        sx, sy, sz = l[k, 1] * a[k, 3] + l[k, 2] * a[k, 6], l[k, 1] * a[k, 4] + l[k, 2] * a[k, 7], (
            l[k, 1] * a[k, 5] + l[k, 2] * a[k, 8]
        )  # fmt: skip
        found[c, 0], found[c, 1], found[c, 2], found[c, 3] = f * l[k, 0], f * sx, f * sy, f * sz
        torque = write_torque(k, count, f, found, p)
        x, y, z = f * (l[k, 0] * a[k, 0] + sx), f * (l[k, 0] * a[k, 1] + sy), f * (l[k, 0] * a[k, 2] + sz)
        if l[k, 0] == 0.0:
            continue
        point = (contacts.point[c, 0], contacts.point[c, 1], contacts.point[c, 2])
        _write_wrench(at, contacts.link_a[c], point, x, y, z, 1.0, torque, t.pose, t.work.rows, wrenches)
        at += 1
        if contacts.link_b[c] >= 0:
            _write_wrench(at, contacts.link_b[c], point, -x, -y, -z, -1.0, torque, t.pose, t.work.rows, wrenches)
            at += 1
    for k in range(at, len(wrenches.link)):
        wrenches.link[k] = -1


@inner
def _velocity_at(i, point, velocities, pose):
    """Return the velocity of a point of the world that moves with link i; the world's is 0."""
    if i < 0:
        return 0.0, 0.0, 0.0
    cx, cy, cz = cross(
        velocities[i, 0], velocities[i, 1], velocities[i, 2], point[0] - pose[i, 0], point[1] - pose[i, 1],
        point[2] - pose[i, 2],
    )  # fmt: skip
    return velocities[i, 3] + cx, velocities[i, 4] + cy, velocities[i, 5] + cz


@inner
def _along(k, x, y, z, p):
    """Return the product of a velocity and the impulse, or its moment, of block k."""
    a, l = p.axes, p.lam  # noqa: E741
    return (
        l[k, 0] * (a[k, 0] * x + a[k, 1] * y + a[k, 2] * z)
        + l[k, 1] * (a[k, 3] * x + a[k, 4] * y + a[k, 5] * z)
        + l[k, 2] * (a[k, 6] * x + a[k, 7] * y + a[k, 8] * z)
    )


@outlined
def work_of_contacts(count, contacts, qd, velocities, state):
    """Return what the impulses of contacts and dry friction do at velocities qd, those of links given [J]."""
    p, out = state.packed, 0.0
    for k in range(count):
        if p.kind[k] == DRY_FRICTION:
            out += p.lam[k, 0] * qd[p.source[k]]
        elif _wide(p.kind[k]):
            c = p.source[k]
            a, b = contacts.link_a[c], contacts.link_b[c]
            if p.kind[k] == CONTACT:
                point = (contacts.point[c, 0], contacts.point[c, 1], contacts.point[c, 2])
                x, y, z = _velocity_at(a, point, velocities, state.pose)
                ox, oy, oz = _velocity_at(b, point, velocities, state.pose)
            else:
                x, y, z = velocities[a, 0], velocities[a, 1], velocities[a, 2]
                ox = oy = oz = 0.0
                if b >= 0:
                    ox, oy, oz = velocities[b, 0], velocities[b, 1], velocities[b, 2]
            out += _along(k, x - ox, y - oy, z - oz, p)
    return out


@outlined
def has_impact(count, impact_speed, impact_shapes, impact_links, contacts, p):
    """Return whether a contact of one of these shapes and links removes more speed than `impact_speed`."""
    for k in range(count):
        if (
            p.kind[k] == CONTACT
            and p.lam[k, 0] > 0.0
            and p.coefficients[k, TARGET] - p.coefficients[k, FREE_VELOCITY] > impact_speed
        ):
            c = p.source[k]
            for end in range(2):
                i = contacts.link_a[c] if end == 0 else contacts.link_b[c]
                shape = contacts.shape_a[c] if end == 0 else contacts.shape_b[c]
                if impact_shapes[shape] != 0 and impact_links[i + 1] != 0:
                    return True
    return False


@outlined
def _copy(source, target):
    for k in range(len(source)):
        target[k] = source[k]


@outlined
def _evaluate_all_rows(links, table, blocks, span, time, q, qd, work, constraint):
    """Evaluate the rows of all blocks at the start of the step."""
    for b in range(len(blocks)):
        for c in range(SPAN):
            span[c] = blocks[b, c]
        evaluate_rows(links, table, span, b, time, q, qd, work, constraint)


@kernel
def take_contact_steps(
    # model
    links, drives, springs, table, own, shapes, filters,
    # in
    blocks, span, code, n, substeps, h, time, margin, impact_speed, impact_after, impact_shapes, impact_links, applied,
    given, work, spring_work, b, constraint, bvh, broad, contacts, warm_start, state, wrenches,
    # out
    q, qd,
):  # fmt: skip
    """Take n steps of `substeps` times h, contacts and dry friction included.

    Args:
        links, drives, springs, table, own, blocks, span, code, work, spring_work, b, constraint: of
            `take_constrained_steps`.
        shapes, filters, bvh, broad, contacts: of `detect_once`.
        n: steps.
        substeps: integrator steps per step.
        h: their length [s].
        time: at the start [s].
        margin: gap up to which contacts are detected [m].
        impact_speed: a step in which a contact removes more speed is not taken, and ends the steps [m/s].
        impact_after: number of steps in which that is ignored.
        impact_shapes: (s,) 1 for the shapes it applies to; none if it is empty.
        impact_links: (n + 1,) 1 for the links it applies to; the first is the world.
        applied: (nv,) joint forces of the user.
        given: how many of `wrenches` are the user's; the rest holds those of contacts.
        warm_start: forces of the last step by contact, to start from.
        state: state and scratch.
        q, qd: the state.

    Returns:
        steps taken, and 0 or a status: those of `take_constrained_steps`, MORE_CONTACTS, NOT_FINITE, or IMPACT:
        `warm_start` then has the impulses of the step that was not taken.
    """
    t, dt = state, substeps * h
    for step in range(n):
        at = time + step * dt
        kinematics(links, t.whole, q, qd, t.work)
        set_poses(links, dt, True, t.work.rows, t.work.subspace, qd, t)
        if len(bvh.top) > 0:
            move_parts(t.pose, t.velocities, t.reach, dt, fall_of(dt, links.gravity), bvh)
        found = detect_once(shapes, filters, t.pose, t.reach, margin, bvh, broad, contacts)
        if found == Status.MORE_CONTACTS:
            return step, Status.MORE_CONTACTS
        if found == Status.POSE_NOT_FINITE:
            return step, Status.NOT_FINITE
        for k in range(given, len(wrenches.link)):
            wrenches.link[k] = -1
        count = 0
        _copy(applied, t.applied)
        if contacts.count[0] > 0 or len(t.friction_dofs) > 0:
            _copy(q, t.q)
            _copy(qd, t.qd)
            _, status, _ = take_constrained_steps(
                links, drives, springs, table, own, blocks, 0, len(blocks), span, code, 1, substeps, h, at, applied,
                wrenches, work, spring_work, b, constraint, q, qd,
            )  # fmt: skip
            _copy(qd, t.free_velocity)
            _copy(t.q, q)
            _copy(t.qd, qd)
            if status != 0:
                return step, status
            _evaluate_all_rows(links, table, blocks, span, at, q, qd, t.work, constraint)
            mark_trees(links, blocks, constraint, contacts, t)
            status = _articulate(links, span, b.added, b.tau, t)
            if status != 0:
                return step, status
            match_contacts(contacts, warm_start)
            count = collect_blocks(links, table, blocks, dt, True, contacts, warm_start.found, constraint, t.work, t)
            if count == Status.MORE_CONTACTS:
                return step, Status.MORE_CONTACTS
            projected_gauss_seidel(count, CONVERGED, t.packed)
            _write_forces(count, dt, applied, given, contacts, warm_start.found, t, wrenches)
            if (
                len(impact_shapes) > 0
                and step >= impact_after
                and has_impact(count, impact_speed, impact_shapes, impact_links, contacts, t.packed)
            ):
                store_matched(contacts, warm_start)
                return step, Status.IMPACT
        _, status, _ = take_constrained_steps(
            links, drives, springs, table, own, blocks, 0, len(blocks), span, code, 1, substeps, h, at, t.applied,
            wrenches, work, spring_work, b, constraint, q, qd,
        )  # fmt: skip
        if status != 0:
            return step, status
        store_matched(contacts, warm_start)
    return n, 0
