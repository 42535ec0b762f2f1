"""The variational step of trees: a discrete Euler-Lagrange step that forms no velocity products.

A rigid link is a cloud of mass points. Its momentum over a step h from the pose (o, R) to (o', R'), a wrench about o,
follows from the displacement (Moser and Veselov's discrete rigid body):

    F = (m (o' - o) + (R' - R) mc) / h        N = (R mc x (o' - o) + sum_k (R E)_k x (R' - R)_k) / h

with the second moments E = tr(J)/2 - J about the origin and columns k. At every pose q the incoming momentum, the
outgoing one and the impulse of the forces balance along the free directions,

    J(q)^T (p(q -> q') - p(q" -> q) - w f(q)) = 0        w = (h + h")/2,   q' = q (+) h qd

an equation for the half-step velocity qd. Starting from an extrapolation of the last half steps, each iteration adds
H(q)^-1 times the residual: the articulated inertias at q are factored once, without velocities, and an iteration is one
sweep of poses and one pass back and forth. The momentum carried to the next step is that of the last iterate plus the
linear momentum of its correction: the balance is exact however many iterations there were, and with none (the
*projected* step) the carried momentum is the projection of the incoming one in the metric of the mass, so that kinetic
energy can only fall.

Springs, soft limits and motors of joints act at mid-step, half of their impulse at either end of it, dampers with the
half-step velocity: implicit, stable at any stiffness. Springs between bodies act at the pose, or implicitly where they
are stiff. Steps in which joints would turn far are taken in substeps; a substep whose iterations do not contract is
halved, and in the end projected.

Joints that pull on a link hold it in line like springs: a link of inertia I on which forces F pull at points r from its
com swings at up to w^2 = sum F.r / I, together with links on hinges about other axes that cannot turn against it. The
balance takes the directions of the joints at the pose, which is stable for w h < 2 only, whatever the iterations do: a
light chain with a heavy tip takes more substeps (`pull`).

With a tolerance in time a tree also takes as many substeps as its own error asks for. By the extrapolation of three
half steps, the correction of the first iterate gives the third derivative of the velocities, and with it the error of
the accelerations, h^2 a"/12, of this step of second order. Its square in the norm of the inertias follows from the
elimination, sum u^2 / D, and grows with h^4.

The velocity at a pose is the one whose momentum is the incoming one and half of the impulse at the pose
(`velocities_at`); a motion started from it goes on as it would have.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from limberjack._jit import inner, kernel, outlined
from limberjack.errors import Status
from limberjack.model.arrays import BALL_DRIVE, COORDINATE, DOF, LINK, SCALAR_DRIVE, SPAN, Drives, Links, Springs
from limberjack.model.joints import BALL, FREE, HINGE, PUSH, SLIDE
from limberjack.reduced.aba import articulate, solve_accelerations, substitute_dofs
from limberjack.reduced.drives import ball_law, scalar_drive
from limberjack.reduced.figure_lanes import (
    lane_accelerations,
    lane_articulate,
    lane_begin,
    lane_carry,
    lane_joint_impulses,
    lane_outgoing,
    lane_pivots,
    lane_substitute,
    lane_wrenches,
)
from limberjack.reduced.forces import SpringWork, Wrenches, apply_implicit_springs, spring_lengths
from limberjack.reduced.integrate import advance
from limberjack.reduced.jacobians import link_velocities
from limberjack.reduced.kinematics import other_pose
from limberjack.reduced.work import BC, BL, DI, LINKS, UU, D, J, P, R, U, W, Work, based, take_block
from limberjack.spatial.copies import HUGE
from limberjack.spatial.lanes import add, at, cross4, dot4, from_row, lane, load4, mul, pack, scale, store4, sub
from limberjack.spatial.trig import sincos_all

__all__ = [
    "COUNTS",
    "Carried",
    "External",
    "ITERATIONS",
    "VariationalWork",
    "based_work",
    "correct",
    "eliminate",
    "extrapolate",
    "finish",
    "first_diverged",
    "incoming",
    "joint_impulses",
    "largest_correction",
    "moving_energy",
    "known_bias",
    "known_forces",
    "lag_of",
    "new_carried",
    "new_variational_work",
    "predict",
    "pull",
    "pull_is_due",
    "pull_substeps",
    "set_turns",
    "start",
    "stiffer",
    "substeps_of",
    "substitute",
    "take_time_error",
    "take_variational_steps",
    "static_pull",
    "too_far",
    "time_error",
    "time_substeps",
    "velocities_at",
]

# Joints turn by at most this in a substep [rad]: further, the iterations contract too slowly.
TURN = 0.25
MOST_SUBSTEPS = 64
# Links swing by at most this angle of phase in a substep [rad], in at most so many substeps of a step. How fast they do
# is looked at in every step, or after so many where they swing by less than a part of that angle in a step; it is kept
# but for this part per look. Hinges with a smaller cosine between their axes are across each other.
SWING, MOST_SWINGS, RARELY, SLOW, KEPT, ACROSS = 1.0, 1024, 4.0, 0.1, 0.99, 0.5
# Iterations end when the last changed no coordinate by more than ENOUGH [rad or m]; a substep whose last one changes
# more than LOST is halved.
ENOUGH, LOST, ITERATIONS, HALVINGS = 1e-4, 1e-3, 4, 6
# A gyroscopic torque is left out where the square of its change of the angular momentum, over that, is below this: it
# turns about one of its principal axes.
NO_TORQUE = 1e-24
# Columns of a clock: times of the last three half steps, time of the pose, length of the last substep, number of half
# steps known (0: the motion starts from q and qd), length of the last substep if it was projected, and if contacts
# acted in it: the velocity at the pose is then that of the half step. With a tolerance in time also the error in time
# of accelerations, squared, over h^4: the largest of the last few substeps, and that of the substep in work; and the
# number of substeps of a step that follows from it. The square of the fastest swing of a link under the pull of joints
# [1/s^2], and the steps until it is looked at again.
NOW, LENGTH, KNOWN_STEPS, PROJECTED_LENGTH, LAG = 3, 4, 5, 6, 7
TIME_ERROR, TRIED_ERROR, TIME_SUBSTEPS, FASTEST_SWING, UNTIL_LOOK, CLOCK = 8, 9, 10, 11, 12, 13
# Of the error in time this part is remembered from substep to substep, so that their length changes smoothly; a substep
# whose error is so many times the tolerance is halved, at most so often; the first step of a motion has so many
# substeps; where coordinates are corrected by less, the error is that of rounding. Substeps become half as many where
# this part of them would do.
REMEMBERED, TOO_FAR, TIME_HALVINGS, FIRST_SUBSTEPS, ROUNDED, FEWER = 0.9, 16.0, 3, 4.0, 1e-12, 0.4
# Half steps whose distances differ by this part are equally far apart.
EQUALLY = 1e-6
UNKNOWN = -1.0
# A factor is made anew where drives add this part of a joint's inertia more or less than in it: at soft limits.
ANEW = 0.1
# What a call counts: substeps, iterations, halvings, projected substeps.
SUBSTEPS, SWEEPS, HALVED, PROJECTED, COUNTS = 0, 1, 2, 3, 4
# The known part of a bias force (torque, force) takes the columns of velocities, which this step does not form.
KNOWN = W


class Carried(NamedTuple):
    """What a step passes to the next; n links, nv dofs, k blocks."""

    # (n, 8) angular momentum about the com, linear momentum, world axes; after a projected substep the angular velocity
    # in the axes of the link, velocity of the com
    momentum: np.ndarray
    history: np.ndarray  # (3, nv) velocities of the last half steps, latest first
    clock: np.ndarray  # (k, CLOCK)


class External(NamedTuple):
    """What acts on the links and joints."""

    drives: Drives
    springs: Springs
    stiff: bool  # whether springs between bodies are implicit
    applied: np.ndarray  # (nv,) joint forces
    wrenches: Wrenches


class VariationalWork(NamedTuple):
    """Scratch of the step; of n links in work at a time."""

    work: Work
    springs: SpringWork
    ahead: np.ndarray  # (n, column + 12) poses at the end of the step: columns of R, origin in the fourth numbers
    column: int  # where they begin: 0, or R where rows are evaluated there
    moved: np.ndarray  # (n, 4) displacement of the origins from the start to the end of the step
    q: np.ndarray  # (nq,) coordinates at the end or in the middle of the step
    qd: np.ndarray  # (nv,) the iterate
    sines: np.ndarray  # (nq,) of q
    cosines: np.ndarray  # (nq,)
    subspace: np.ndarray  # (nv, 6) S at the end of the step, not used
    zeros: np.ndarray  # (nv,)
    turns: np.ndarray  # (nv,) 1 for dofs that are rotations, else 0
    velocities: np.ndarray  # (n, 6) of the links; (n, 8) also what `_fastest_swing` sums up
    past: np.ndarray  # (nv,) force of springs and motors in the last substep that acts at the pose
    tau: np.ndarray  # (nv,)
    added: np.ndarray  # (nv,)
    qdd: np.ndarray  # (nv,)
    left: np.ndarray  # (nv,) joint forces left by the elimination, without rows
    factored: np.ndarray  # (nv,) what was added to the inertia of the joints in the factor at hand
    time_tolerance: np.ndarray  # (1,) squared accelerations, in the norm of the inertias, that a block may be wrong by


def new_carried(links: Links, blocks: int) -> Carried:
    """Return empty momenta, history and clocks of `blocks` blocks."""
    return Carried(np.zeros((len(links.parent), 8)), np.zeros((3, len(links.armature))), np.zeros((blocks, CLOCK)))


def lag_of(spans: np.ndarray, clock: np.ndarray, links: int) -> np.ndarray:
    """Return, per link, how long ago its velocities held: in blocks that contacts act on, half of a substep."""
    out = np.zeros(links)
    for span, own in zip(spans, clock, strict=False):
        out[span[LINK] : span[LINK + 1]] = 0.5 * own[LAG]
    return out


@inner
def dofs_of(span):
    """Return the range of the dofs in `span`, as numbers without a sign: loops over them are vectorised."""
    return range(np.uint64(span[DOF]), np.uint64(span[DOF + 1]))


@kernel
def set_turns(
    # in
    links, first, end,
    # out
    turns,
):  # fmt: skip
    """Fill 1 for the dofs of the links first .. end - 1 that are rotations, else 0."""
    for i in range(first, end):
        kind = links.kind[i]
        for v in range(links.v_start[i], links.v_start[i] + links.dof[i]):
            turns[v] = 0.0 if kind == SLIDE or (kind == FREE and v < links.v_start[i] + 3) else 1.0
        if kind != HINGE and kind != SLIDE and kind != BALL and kind != FREE:
            for k in range(links.factor_start[i], links.factor_start[i + 1]):
                if links.factor_kind[k] == PUSH:
                    turns[links.factor_indices[k, 1]] = 0.0


def new_variational_work(links: Links, work: Work, springs: SpringWork, rows: bool = False) -> VariationalWork:
    """Return scratch for as many links at a time as `work` has rows; with `rows`, for constraint rows too."""
    nv, nq, n = len(links.armature), len(links.armature) + len(links.quaternions), len(work.rows)
    turns = np.zeros(nv)
    set_turns(links, np.int64(0), np.int64(len(links.parent)), turns)
    return VariationalWork(
        work, springs, np.zeros((n, R + 16 if rows else 12)), R if rows else 0, np.zeros((n, 4)),
        np.zeros(nq), np.zeros(nv),
        np.zeros(nq), np.zeros(nq), np.zeros((nv, 6)), np.zeros(nv), turns, np.zeros((n, 8)),
        *(np.zeros(nv) for _ in range(6)), time_tolerance=np.zeros(1),
    )  # fmt: skip


@inner
def _hinge_pose(links, i, sine, cosine, rows, c):
    """Fill the pose of a link on a hinge in columns c .. of its row; return its axes and its origin's offset."""
    p, t = links.parent[i], links.placement
    if p >= 0:
        x, y, z = load4(rows, p, c), load4(rows, p, c + 4), load4(rows, p, c + 8)
        ox, oy, oz = rows[p, c + 3], rows[p, c + 7], rows[p, c + 11]
    else:
        x, y, z = pack(1.0, 0.0, 0.0), pack(0.0, 1.0, 0.0), pack(0.0, 0.0, 1.0)
        ox = oy = oz = 0.0
    d = add(add(scale(t[i, 9], x), scale(t[i, 10], y)), scale(t[i, 11], z))
    e = add(add(scale(t[i, 0], x), scale(t[i, 3], y)), scale(t[i, 6], z))
    f = add(add(scale(t[i, 1], x), scale(t[i, 4], y)), scale(t[i, 7], z))
    z = add(add(scale(t[i, 2], x), scale(t[i, 5], y)), scale(t[i, 8], z))
    x, y = add(scale(cosine, e), scale(sine, f)), sub(scale(cosine, f), scale(sine, e))
    store4(rows, i, c, x)
    store4(rows, i, c + 4, y)
    store4(rows, i, c + 8, z)
    rows[i, c + 3], rows[i, c + 7], rows[i, c + 11] = ox + lane(d, 0), oy + lane(d, 1), oz + lane(d, 2)
    return x, y, z, d


@inner
def _momentum(g, i, x, y, z, dx, dy, dz, e):
    """Return torque and force of the momentum of link i, whose axes x, y, z change by dx, dy, dz per second.

    Its origin moves with velocity e.
    """
    half, xy, xz, yz = 0.5 * (g[i, 0] + g[i, 1] + g[i, 2]), -g[i, 3], -g[i, 4], -g[i, 5]
    a = add(add(scale(half - g[i, 0], x), scale(xy, y)), scale(xz, z))
    b = add(add(scale(xy, x), scale(half - g[i, 1], y)), scale(yz, z))
    c = add(add(scale(xz, x), scale(yz, y)), scale(half - g[i, 2], z))
    h = add(add(scale(g[i, 6], x), scale(g[i, 7], y)), scale(g[i, 8], z))
    n = add(add(cross4(h, e), cross4(a, dx)), add(cross4(b, dy), cross4(c, dz)))
    f = add(add(scale(g[i, 9], e), scale(g[i, 6], dx)), add(scale(g[i, 7], dy), scale(g[i, 8], dz)))
    return n, f


@inner
def _com(g, i, x, y, z):
    """Return the com of link i from its origin, world axes."""
    m = g[i, 9]
    s = 1.0 / m if m > 0.0 else 0.0
    return add(add(scale(s * g[i, 6], x), scale(s * g[i, 7], y)), scale(s * g[i, 8], z))


@inner
def _store_momentum(g, i, x, y, z, n, f, momentum):
    """Store the momentum (n; f) about the origin of link i.

    About its com: that of a free link is constant, wherever it moves.
    """
    store4(momentum, i, 0, sub(n, cross4(_com(g, i, x, y, z), f)))
    store4(momentum, i, 4, f)


@inner
def _store_velocity(g, i, x, y, z, spin, e, momentum):
    """Store angular velocity and velocity of the com of link i, whose origin moves with e."""
    store4(momentum, i, 0, pack(dot4(x, spin), dot4(y, spin), dot4(z, spin)))
    store4(momentum, i, 4, add(e, cross4(spin, _com(g, i, x, y, z))))


@inner
def _turned(g, i, x, y, z, h, spin):
    """Return the angular momentum about the com, world axes, of link i after its own torque has acted for h.

    Its angular velocity w is given in its axes. I w' + h w' x I w' = I w, one Newton step from w: the implicit step,
    from which energy can only fall.
    """
    wx, wy, wz = lane(spin, 0), lane(spin, 1), lane(spin, 2)
    m, cx, cy, cz = g[i, 9], g[i, 6], g[i, 7], g[i, 8]
    s = 1.0 / m if m > 0.0 else 0.0
    xx, yy, zz = g[i, 0] - s * (cy * cy + cz * cz), g[i, 1] - s * (cx * cx + cz * cz), g[i, 2] - s * (cx * cx + cy * cy)
    xy, xz, yz = g[i, 3] + s * cx * cy, g[i, 4] + s * cx * cz, g[i, 5] + s * cy * cz
    lx, ly, lz = xx * wx + xy * wy + xz * wz, xy * wx + yy * wy + yz * wz, xz * wx + yz * wy + zz * wz
    tx, ty, tz = h * (wy * lz - wz * ly), h * (wz * lx - wx * lz), h * (wx * ly - wy * lx)
    if tx * tx + ty * ty + tz * tz <= NO_TORQUE * (lx * lx + ly * ly + lz * lz):
        return add(add(scale(lx, x), scale(ly, y)), scale(lz, z))
    # rows of I + h ([w] I - [I w])
    a = xx + h * (wy * xz - wz * xy), xy + h * (wy * yz - wz * yy + lz), xz + h * (wy * zz - wz * yz - ly)
    b = xy + h * (wz * xx - wx * xz - lz), yy + h * (wz * xy - wx * yz), yz + h * (wz * xz - wx * zz + lx)
    c = xz + h * (wx * xy - wy * xx + ly), yz + h * (wx * yy - wy * xy - lx), zz + h * (wx * yz - wy * xz)
    dx, dy, dz, good = _solve_3(a[0], a[1], a[2], b[0], b[1], b[2], c[0], c[1], c[2], tx, ty, tz)
    if good:
        vx, vy, vz = wx - dx, wy - dy, wz - dz
        kx, ky, kz = xx * vx + xy * vy + xz * vz, xy * vx + yy * vy + yz * vz, xz * vx + yz * vy + zz * vz
        if kx * vx + ky * vy + kz * vz <= lx * wx + ly * wy + lz * wz:
            lx, ly, lz = kx, ky, kz
    return add(add(scale(lx, x), scale(ly, y)), scale(lz, z))


@inner
def _solve_3(a, b, c, d, e, f, g, h, i, x, y, z):
    """Return the solution of a 3x3 system given by rows, and whether it has one."""
    p, q, r = e * i - f * h, f * g - d * i, d * h - e * g
    det = a * p + b * q + c * r
    size = abs(a) + abs(e) + abs(i)
    if not abs(det) > 1e-12 * size * size * size:
        return 0.0, 0.0, 0.0, False
    s = 1.0 / det
    return (
        s * (p * x + (c * h - b * i) * y + (b * f - c * e) * z),
        s * (q * x + (a * i - c * g) * y + (c * d - a * f) * z),
        s * (r * x + (b * g - a * h) * y + (a * e - b * d) * z),
        True,
    )  # fmt: skip


@inner
def _place(links, i, q, still, work):
    """Fill R, O, D, J, h and S of row i at q; return the axes of the link, its offset from its parent and m c."""
    rows, g = work.rows, links.inertia
    if links.kind[i] == HINGE:
        k = links.q_start[i]
        x, y, z, d = _hinge_pose(links, i, work.sines[k], work.cosines[k], rows, R)
    else:
        dx, dy, dz = other_pose(links, i, q, still, work.sines, work.cosines, rows, R, work.subspace)
        x, y, z, d = load4(rows, i, R), load4(rows, i, R + 4), load4(rows, i, R + 8), pack(dx, dy, dz)
    store4(rows, i, D, d)
    hx = add(add(scale(g[i, 6], x), scale(g[i, 7], y)), scale(g[i, 8], z))
    # J = R S R^T by columns
    s0 = add(add(scale(g[i, 0], x), scale(g[i, 3], y)), scale(g[i, 4], z))
    s1 = add(add(scale(g[i, 3], x), scale(g[i, 1], y)), scale(g[i, 5], z))
    s2 = add(add(scale(g[i, 4], x), scale(g[i, 5], y)), scale(g[i, 2], z))
    store4(rows, i, J, add(add(mul(s0, at(x, 0)), mul(s1, at(y, 0))), mul(s2, at(z, 0))))
    store4(rows, i, J + 4, add(add(mul(s0, at(x, 1)), mul(s1, at(y, 1))), mul(s2, at(z, 1))))
    store4(rows, i, J + 8, add(add(mul(s0, at(x, 2)), mul(s1, at(y, 2))), mul(s2, at(z, 2))))
    rows[i, J + 3], rows[i, J + 7], rows[i, J + 11] = lane(hx, 0), lane(hx, 1), lane(hx, 2)
    return x, y, z, d, hx


@inner
def _incoming(g, i, x, y, z, hx, turning, momentum):
    """Return the momentum that link i brings to its pose, about its origin."""
    l, p = load4(momentum, i, 0), load4(momentum, i, 4)  # noqa: E741
    if turning > 0.0:
        return add(_turned(g, i, x, y, z, turning, l), cross4(hx, p)), scale(g[i, 9], p)
    m = g[i, 9]
    return add(l, cross4(scale(1.0 / m if m > 0.0 else 0.0, hx), p)), p


@inner
def _store_known(g, i, h, w, gravity, hx, n, f, column, rows):
    """Fill `column` of row i: the momentum (n; f) it brings, and gravity for a time w, as forces over h; return it."""
    known_n = sub(cross4(hx, scale(-w / h, gravity)), scale(1.0 / h, n))
    known_f = sub(scale(-g[i, 9] * w / h, gravity), scale(1.0 / h, f))
    store4(rows, i, column, known_n)
    store4(rows, i, column + 4, known_f)
    return known_n, known_f


@inner
def begin(links, span, q, still, h, w, turning, momentum, work):
    """Fill R, O, D, J, h, m, S of the rows at q, and in KNOWN what is known of the bias force of a substep h.

    Known are the momentum carried and gravity, whose impulse acts for a time w. After a projected substep of length
    `turning` velocities are carried, and turned by the link's own gyroscopic torque.
    """
    rows, g = work.rows, links.inertia
    gravity = pack(links.gravity[0], links.gravity[1], links.gravity[2])
    sincos_all(span[COORDINATE], span[COORDINATE + 1], q, work.sines, work.cosines)
    for i in range(span[LINK], span[LINK + 1]):
        x, y, z, _, hx = _place(links, i, q, still, work)
        n, f = _incoming(g, i, x, y, z, hx, turning, momentum)
        _store_known(g, i, h, w, gravity, hx, n, f, KNOWN, rows)


@inner
def _displace(links, i, h, d, w):
    """Fill the pose of link i ahead, at w.q; return its axes there and the displacement of its origin.

    The displacement is the sum of those of the offsets d along the tree: small numbers, however far away the link is.
    """
    poses, o, p = w.ahead, w.column, links.parent[i]
    if links.kind[i] == HINGE:
        k = links.q_start[i]
        x, y, z, ahead = _hinge_pose(links, i, w.sines[k], w.cosines[k], poses, o)
        e = sub(ahead, d)
    else:
        dx, dy, dz = other_pose(links, i, w.q, w.zeros, w.sines, w.cosines, poses, o, w.subspace)
        x, y, z, v = load4(poses, i, o), load4(poses, i, o + 4), load4(poses, i, o + 8), links.v_start[i]
        if links.kind[i] == FREE:
            e = scale(h, pack(w.qd[v], w.qd[v + 1], w.qd[v + 2]))
        else:
            e = sub(pack(dx, dy, dz), d)
    if p >= 0:
        e = add(e, load4(w.moved, p, 0))
    store4(w.moved, i, 0, e)
    return x, y, z, e


@inner
def _begin_ahead(links, span, h, duration, turning, pending, carried, w, q):
    """Do what `begin` does and what `outgoing` does, in one pass, for poses ahead at w.q.

    With `pending`, the length of the last substep, the momenta it left are still in the rows, and are stored first.
    """
    if w.work.lanes.size[LINKS] > 0:
        lane_begin(links, span, h, duration, turning, pending, False, carried, w, q)
        return
    rows, g, momentum = w.work.rows, links.inertia, carried.momentum
    gravity = pack(links.gravity[0], links.gravity[1], links.gravity[2])
    sincos_all(span[COORDINATE], span[COORDINATE + 1], q, w.work.sines, w.work.cosines)
    sincos_all(span[COORDINATE], span[COORDINATE + 1], w.q, w.sines, w.cosines)
    per = 1.0 / (h * h)
    for i in range(span[LINK], span[LINK + 1]):
        if pending > 0.0:
            _carry_link(links, i, pending, turning > 0.0, w, momentum)
        a, b, c, d, hx = _place(links, i, q, w.zeros, w.work)
        n, f = _incoming(g, i, a, b, c, hx, turning, momentum)
        known_n, known_f = _store_known(g, i, h, duration, gravity, hx, n, f, KNOWN, rows)
        x, y, z, e = _displace(links, i, h, d, w)
        n, f = _momentum(g, i, a, b, c, sub(x, a), sub(y, b), sub(z, c), e)
        store4(rows, i, P, add(known_n, scale(per, n)))
        store4(rows, i, P + 4, add(known_f, scale(per, f)))
        rows[i, P + 3] = g[i, 9]


@inner
def _begin_projected(links, span, h, duration, turning, pending, carried, w, q):
    """Do what `begin` does, the known part in P, in one pass with the momenta of the last substep where `pending`."""
    if w.work.lanes.size[LINKS] > 0:
        lane_begin(links, span, h, duration, turning, pending, True, carried, w, q)
        return
    rows, g, momentum = w.work.rows, links.inertia, carried.momentum
    gravity = pack(links.gravity[0], links.gravity[1], links.gravity[2])
    sincos_all(span[COORDINATE], span[COORDINATE + 1], q, w.work.sines, w.work.cosines)
    for i in range(span[LINK], span[LINK + 1]):
        if pending > 0.0:
            _carry_link(links, i, pending, turning > 0.0, w, momentum)
        x, y, z, _, hx = _place(links, i, q, w.zeros, w.work)
        n, f = _incoming(g, i, x, y, z, hx, turning, momentum)
        _, known_f = _store_known(g, i, h, duration, gravity, hx, n, f, P, rows)
        store4(rows, i, KNOWN + 4, known_f)
        rows[i, P + 3] = g[i, 9]


@inner
def _outgoing(links, span, h, w):
    """Do what `outgoing` does, for four figures at a time where the block is of four."""
    if w.work.lanes.size[LINKS] > 0:
        lane_outgoing(links, span, h, w)
    else:
        outgoing(links, span, h, w)


@inner
def outgoing(links, span, h, w):
    """Fill the poses at w.q and P of the rows: the known part and the momentum of the displacement there, over h."""
    g, rows = links.inertia, w.work.rows
    sincos_all(span[COORDINATE], span[COORDINATE + 1], w.q, w.sines, w.cosines)
    per = 1.0 / (h * h)
    for i in range(span[LINK], span[LINK + 1]):
        a, b, c = load4(rows, i, R), load4(rows, i, R + 4), load4(rows, i, R + 8)
        x, y, z, e = _displace(links, i, h, load4(rows, i, D), w)
        n, f = _momentum(g, i, a, b, c, sub(x, a), sub(y, b), sub(z, c), e)
        store4(rows, i, P, add(load4(rows, i, KNOWN), scale(per, n)))
        store4(rows, i, P + 4, add(load4(rows, i, KNOWN + 4), scale(per, f)))
        rows[i, P + 3] = g[i, 9]


@inner
def _add_known(span, wrenches, share, both, work):
    """Take `share` of the wrenches off what is known of the bias forces of their links, with `both` off P too."""
    link, w, rows = wrenches.link, wrenches.data, work.rows
    if both and work.lanes.size[LINKS] > 0:
        lane_wrenches(span, wrenches, share, True, work)
        return
    for k in range(len(link)):
        i = link[k]
        if span[LINK] <= i < span[LINK + 1]:
            d = add(
                add(scale(w[k, 0], load4(rows, i, R)), scale(w[k, 1], load4(rows, i, R + 4))),
                scale(w[k, 2], load4(rows, i, R + 8)),
            )
            f, n = pack(w[k, 3], w[k, 4], w[k, 5]), pack(w[k, 6], w[k, 7], w[k, 8])
            _subtract(i, scale(share, add(n, cross4(d, f))), scale(share, f), both, rows)


@inner
def _subtract(i, n, f, both, rows):
    """Take (n; f) off what is known of the bias force of link i, with `both` off P too."""
    store4(rows, i, KNOWN, sub(load4(rows, i, KNOWN), n))
    store4(rows, i, KNOWN + 4, sub(load4(rows, i, KNOWN + 4), f))
    if both:
        m = rows[i, P + 3]
        store4(rows, i, P, sub(load4(rows, i, P), n))
        store4(rows, i, P + 4, sub(load4(rows, i, P + 4), f))
        rows[i, P + 3] = m


@outlined
def _add_springs(links, springs, span, share, both, qd, work, spring_work):
    """Take `share` of the forces of springs at (q, qd) off what is known of the bias forces of their links."""
    spring_lengths(links, springs, span, qd, work, spring_work)
    s, link, rows = spring_work.state, springs.link, work.rows
    for j in range(len(link)):
        f = share * s[j, 11]
        force = pack(f * s[j, 0], f * s[j, 1], f * s[j, 2])
        if link[j, 0] >= 0:
            _subtract(link[j, 0], cross4(pack(s[j, 5], s[j, 6], s[j, 7]), force), force, both, rows)
        if link[j, 1] >= 0:
            back = scale(-1.0, force)
            _subtract(link[j, 1], cross4(pack(s[j, 8], s[j, 9], s[j, 10]), back), back, both, rows)


@inner
def joint_forces(links, drives, span, h, w, share, applied, last, qd, middle, past, tau, added):
    """Fill tau and added for a substep h at the guess qd: applied forces, rotors, springs, dampers, motors.

    Args:
        links, drives, span: the tree.
        h, w: length of the substep, and the time for which what acts at the pose does.
        share: of the impulse of springs and motors in the substep that acts at the pose.
        applied: (nv,) joint forces.
        last: (nv,) velocity of the last half step.
        qd: (nv,) velocity of the substep.
        middle: (nq,) coordinates in the middle of the substep.
        past: (nv,) impulse / h that springs and motors left on this pose in the last substep.
        tau, added: (nv,) filled.
    """
    armature = links.armature
    for v in dofs_of(span):
        rotor = armature[v]
        tau[v] = w / h * applied[v] + past[v] - rotor * (qd[v] - last[v]) / h
        added[v] = rotor
    # f = f_K - b qd: a share of the impulse of f_K, that of the damper for the time w
    more, stiff = w / h - share, 0.5 * share * h * h
    for row in range(span[SCALAR_DRIVE], span[SCALAR_DRIVE + 1]):
        v = drives.indices[row, 1]
        f, k, b = scalar_drive(row, drives.scalar, 0.0, middle[drives.indices[row, 0]], qd[v])
        tau[v] += share * f - more * b * qd[v]
        added[v] += w * b + stiff * k
    for row in range(span[BALL_DRIVE], span[BALL_DRIVE + 1]):
        v = drives.ball_indices[row, 1]
        x, y, z, k, bx, by, bz = ball_law(row, drives.ball, middle, drives.ball_indices[row, 0], qd, v)
        tau[v] += share * x - more * bx * qd[v]
        tau[v + 1] += share * y - more * by * qd[v + 1]
        tau[v + 2] += share * z - more * bz * qd[v + 2]
        added[v] += w * bx + stiff * k
        added[v + 1] += w * by + stiff * k
        added[v + 2] += w * bz + stiff * k


@inner
def _past_forces(drives, span, share, middle, qd, past):
    """Fill the share of the forces of springs and motors, dampers left out, in the middle of the last substep."""
    for v in dofs_of(span):
        past[v] = 0.0
    if share == 0.0:
        return
    for row in range(span[SCALAR_DRIVE], span[SCALAR_DRIVE + 1]):
        v = drives.indices[row, 1]
        f, _, b = scalar_drive(row, drives.scalar, 0.0, middle[drives.indices[row, 0]], qd[v])
        past[v] += share * (f + b * qd[v])
    for row in range(span[BALL_DRIVE], span[BALL_DRIVE + 1]):
        v = drives.ball_indices[row, 1]
        x, y, z, _, bx, by, bz = ball_law(row, drives.ball, middle, drives.ball_indices[row, 0], qd, v)
        past[v] += share * (x + bx * qd[v])
        past[v + 1] += share * (y + by * qd[v + 1])
        past[v + 2] += share * (z + bz * qd[v + 2])


@inner
def substitute(links, span, tau, subspace, reduced, pivot, rest, rows):
    """Take new bias forces P and joint forces tau through the factor of `articulate`, from the leaves to the roots."""
    for i in range(span[LINK + 1] - 1, span[LINK] - 1, -1):
        p, kind, iv = links.parent[i], links.kind[i], links.v_start[i]
        n, f, d = load4(rows, i, P), load4(rows, i, P + 4), load4(rows, i, D)
        if kind == HINGE or kind == SLIDE:
            z = load4(rows, i, R + 8)
            force = tau[iv] - (dot4(z, n) if kind == HINGE else dot4(z, f))
            rows[i, UU] = force
            s = force * rows[i, DI]
            n, f = add(add(n, cross4(d, f)), scale(s, load4(rows, i, U))), add(f, scale(s, load4(rows, i, U + 4)))
        else:
            substitute_dofs(i, iv, links.dof[i], tau, subspace, reduced, pivot, rest, rows)
            n, f = load4(rows, i, P), load4(rows, i, P + 4)
            n = add(n, cross4(d, f))
        if p >= 0:
            store4(rows, p, P, add(load4(rows, p, P), n))
            store4(rows, p, P + 4, add(load4(rows, p, P + 4), f))


@inner
def move(links, span, h, qd, q, out):
    """Fill out = q (+) h qd."""
    for k in range(span[COORDINATE], span[COORDINATE + 1]):
        out[k] = q[k]
    advance(links, span, h, qd, out)


@inner
def extrapolate(span, clock, t, history, qd):
    """Fill qd with the extrapolation of the last half steps to time t."""
    known = int(clock[KNOWN_STEPS])
    a, b, c = 1.0, 0.0, 0.0
    t0, t1, t2 = clock[0], clock[1], clock[2]
    if known == 2:
        b = (t - t0) / (t1 - t0)
        a = 1.0 - b
    elif known == 3:
        a = (t - t1) * (t - t2) / ((t0 - t1) * (t0 - t2))
        b = (t - t0) * (t - t2) / ((t1 - t0) * (t1 - t2))
        c = (t - t0) * (t - t1) / ((t2 - t0) * (t2 - t1))
    for v in dofs_of(span):
        qd[v] = a * history[0, v] + b * history[1, v] + c * history[2, v]


@inner
def start_momenta(links, span, qd, w, momentum):
    """Fill the momenta of the links at velocities qd, for rows with the poses."""
    link_velocities(links, span, qd, w.work, w.velocities)
    rows, g, v = w.work.rows, links.inertia, w.velocities
    for i in range(span[LINK], span[LINK + 1]):
        x, y, z = load4(rows, i, R), load4(rows, i, R + 4), load4(rows, i, R + 8)
        spin, e = pack(v[i, 0], v[i, 1], v[i, 2]), pack(v[i, 3], v[i, 4], v[i, 5])
        n, f = _momentum(g, i, x, y, z, cross4(spin, x), cross4(spin, y), cross4(spin, z), e)
        _store_momentum(g, i, x, y, z, n, f, momentum)


@inner
def moving_energy(links, span, velocities, w):
    """Return the kinetic energy of links with (n, 6) velocities of their origins, for rows with the poses."""
    rows, g, v, out = w.work.rows, links.inertia, velocities, 0.0
    for i in range(span[LINK], span[LINK + 1]):
        x, y, z = load4(rows, i, R), load4(rows, i, R + 4), load4(rows, i, R + 8)
        spin, e = pack(v[i, 0], v[i, 1], v[i, 2]), pack(v[i, 3], v[i, 4], v[i, 5])
        n, f = _momentum(g, i, x, y, z, cross4(spin, x), cross4(spin, y), cross4(spin, z), e)
        out += 0.5 * (dot4(spin, n) + dot4(e, f))
    return out


@inner
def _carry_link(links, i, h, projected, w, momentum):
    """Fill what link i carries from a substep h: of the displacement to the pose ahead and of the last correction."""
    g, poses, rows, per, c = links.inertia, w.ahead, w.work.rows, 1.0 / h, w.column
    x, y, z = load4(rows, i, R), load4(rows, i, R + 4), load4(rows, i, R + 8)
    spin, e = scale(h, load4(rows, i, BL)), scale(h, load4(rows, i, BC))
    if projected:
        _store_velocity(g, i, x, y, z, spin, e, momentum)
    else:
        e = add(e, scale(per, load4(w.moved, i, 0)))
        dx = add(cross4(spin, x), scale(per, sub(load4(poses, i, c), x)))
        dy = add(cross4(spin, y), scale(per, sub(load4(poses, i, c + 4), y)))
        dz = add(cross4(spin, z), scale(per, sub(load4(poses, i, c + 8), z)))
        n, f = _momentum(g, i, x, y, z, dx, dy, dz, e)
        _store_momentum(g, i, x, y, z, n, f, momentum)


@inner
def _carry(links, span, h, projected, w, momentum):
    """Fill what the links carry from a substep h, still in the rows."""
    if w.work.lanes.size[LINKS] > 0:
        lane_carry(links, span, h, projected, w, momentum)
        return
    for i in range(span[LINK], span[LINK + 1]):
        _carry_link(links, i, h, projected, w, momentum)


@inner
def driven(span):
    return span[SCALAR_DRIVE] < span[SCALAR_DRIVE + 1] or span[BALL_DRIVE] < span[BALL_DRIVE + 1]


@outlined
def known_forces(links, external, span, h, duration, clock, carried, w, q):
    """Fill the rows at q and the known part of a substep h: incoming momentum, gravity, wrenches, soft springs.

    What acts at the pose does so for `duration`.
    """
    begin(links, span, q, w.zeros, h, duration, clock[PROJECTED_LENGTH], carried.momentum, w.work)
    _add_known(span, external.wrenches, duration / h, False, w.work)
    _add_joint_and_spring_forces(links, external, span, h, duration, clock, carried, False, w, q)


@outlined
def _add_joint_and_spring_forces(links, external, span, h, duration, clock, carried, both, w, q):
    """Add soft springs to the known part of a substep, and fill what drives left of the last one."""
    last, velocity = clock[LENGTH], carried.history[0]
    if len(external.springs.link) > 0 and not external.stiff:
        _add_springs(links, external.springs, span, duration / h, both, velocity, w.work, w.springs)
    if driven(span):
        move(links, span, -0.5 * last, velocity, q, w.q)
        _past_forces(external.drives, span, 0.5 * last / h, w.q, velocity, w.past)


@inner
def stiffer(links, span, w):
    """Return whether drives add much more or less to the inertia of a joint than in the factor at hand."""
    if not driven(span):
        return False
    for i in range(span[LINK], span[LINK + 1]):
        one = links.kind[i] == HINGE or links.kind[i] == SLIDE
        for a in range(links.dof[i]):
            v = links.v_start[i] + a
            inverse = w.work.rows[i, DI] if one else w.work.pivot[v, a]
            if abs(w.added[v] - w.factored[v]) * inverse > ANEW:
                return True
    return False


@inner
def keep_factored(span, w):
    """Take note of what is added to the inertia of joints in the factor about to be made."""
    factored, added = w.factored, w.added
    for v in dofs_of(span):
        factored[v] = added[v]


@inner
def eliminate(links, span, factored, w):
    """Eliminate all dofs for bias forces P and joint forces w.tau, by a factor made before or now; return a status."""
    work = w.work
    if factored:
        substitute(links, span, w.tau, work.subspace, work.reduced, work.pivot, work.rest, work.rows)
        return 0
    keep_factored(span, w)
    return articulate(links, span, w.added, w.tau, work.subspace, work.rows, work.reduced, work.pivot, work.rest)


@inner
def _solve(links, external, span, h, factored, w):
    """Fill w.qdd for bias forces P and joint forces w.tau, with a factor made before or now; return a status."""
    work = w.work
    if work.lanes.size[LINKS] > 0:
        return _solve_lanes(links, span, factored, w)
    status = eliminate(links, span, factored, w)
    if status != 0:
        return status
    solve_accelerations(links, span, work.subspace, work.reduced, work.pivot, work.rest, work.rows, w.qdd)
    if external.stiff:
        return apply_implicit_springs(links, external.springs, span, h, w.qd, work, w.springs, w.qdd)
    return 0


@inner
def _solve_lanes(links, span, factored, w):
    """Do what `_solve` does for four figures at a time; these have no springs between bodies."""
    if factored:
        lane_substitute(links, span, w.tau, w.work)
    else:
        keep_factored(span, w)
        status = lane_articulate(links, span, w.added, w.tau, w.work)
        if status != 0:
            return status
        if driven(span):
            lane_pivots(span, w.work)
    lane_accelerations(links, span, w.work, w.qdd)
    return 0


@inner
def predict(links, external, span, h, duration, last, w, q):
    """Fill the joint forces, the poses ahead and the bias forces P at the iterate w.qd."""
    _predict_forces(links, external, span, h, duration, last, w, q)
    outgoing(links, span, h, w)


@inner
def _predict_forces(links, external, span, h, duration, last, w, q):
    """Fill the joint forces at the iterate w.qd, and w.q with the coordinates ahead."""
    if driven(span):
        move(links, span, 0.5 * h, w.qd, q, w.q)
    joint_forces(
        links, external.drives, span, h, duration, 0.5, external.applied, last, w.qd, w.q, w.past, w.tau, w.added
    )
    move(links, span, h, w.qd, q, w.q)


@inner
def _iterate(links, external, span, factored, h, duration, last, clock, carried, w, q):
    """Correct w.qd once; return a status and the largest change of a coordinate."""
    if factored:
        _predict_forces(links, external, span, h, duration, last, w, q)
        _outgoing(links, span, h, w)
        if stiffer(links, span, w):
            factored = False
            _begin_ahead(links, span, h, duration, clock[PROJECTED_LENGTH], 0.0, carried, w, q)
            _add_known(span, external.wrenches, duration / h, True, w.work)
            if len(external.springs.link) > 0 and not external.stiff:
                _add_springs(links, external.springs, span, duration / h, True, last, w.work, w.springs)
    else:
        # the bias forces of the first iterate are those of `_begin_ahead`
        if driven(span):
            move(links, span, 0.5 * h, w.qd, q, w.q)
        joint_forces(
            links, external.drives, span, h, duration, 0.5, external.applied, last, w.qd, w.q, w.past, w.tau, w.added
        )
    status = _solve(links, external, span, h, factored, w)
    return status, correct(span, h, w)


@inner
def correct(span, h, w):
    """Add the correction w.qdd to w.qd; return the largest change of a coordinate."""
    qd, qdd = w.qd, w.qdd
    for v in dofs_of(span):
        qd[v] += h * qdd[v]
    return largest_correction(span, h, w)


@inner
def largest_correction(span, h, w):
    """Return the largest change of a coordinate by the correction w.qdd."""
    largest, qdd = 0.0, w.qdd
    for v in dofs_of(span):
        size = h * abs(h * qdd[v])
        largest = largest if size <= largest else size  # NaN stays the largest
    return largest


@inner
def _project(links, external, span, h, duration, last, w, q):
    """Fill w.qd with the projection of the incoming momentum and the impulses at q, in P; return a status."""
    _joint_forces_at_rest(links, external, span, h, duration, 0.5, last, w, q)
    status = _solve(links, external, span, h, False, w)
    qd, qdd = w.qd, w.qdd
    for v in dofs_of(span):
        qd[v] = h * qdd[v]
    return status


@inner
def _joint_forces_at_rest(links, external, span, h, duration, share, last, w, q):
    """Fill the joint forces at velocities of zero; of the impulse of springs and motors `share` acts at the pose."""
    for v in dofs_of(span):
        w.qd[v] = 0.0
    if driven(span):
        move(links, span, 0.0, w.qd, q, w.q)
    joint_forces(
        links, external.drives, span, h, duration, share, external.applied, last, w.qd, w.q, w.past, w.tau, w.added
    )


@inner
def known_bias(links, external, span, h, duration, share, last, w, q):
    """Fill the joint forces and the bias forces P at velocities of zero: the known part alone."""
    rows = w.work.rows
    _joint_forces_at_rest(links, external, span, h, duration, share, last, w, q)
    for i in range(span[LINK], span[LINK + 1]):
        store4(rows, i, P, load4(rows, i, KNOWN))
        store4(rows, i, P + 4, load4(rows, i, KNOWN + 4))
        rows[i, P + 3] = links.inertia[i, 9]


@inner
def _substep(links, external, span, iterations, h, clock, pending, carried, w, q, counts):
    """Find w.qd of a substep of at most h; return a status, its length and whether it was projected.

    With `pending` > 0, the length of the last substep, what it carries is still in the rows.
    """
    last = carried.history[0]
    for halving in range(HALVINGS + 1):
        duration = 0.5 * (h + clock[LENGTH])
        projected = iterations == 0 or halving == HALVINGS
        if projected:
            _begin_projected(links, span, h, duration, clock[PROJECTED_LENGTH], pending, carried, w, q)
            _add_known(span, external.wrenches, duration / h, True, w.work)
            _add_joint_and_spring_forces(links, external, span, h, duration, clock, carried, True, w, q)
            break
        extrapolate(span, clock, clock[NOW] + 0.5 * h, carried.history, w.qd)
        move(links, span, h, w.qd, q, w.q)
        _begin_ahead(links, span, h, duration, clock[PROJECTED_LENGTH], pending, carried, w, q)
        pending = 0.0
        _add_known(span, external.wrenches, duration / h, True, w.work)
        _add_joint_and_spring_forces(links, external, span, h, duration, clock, carried, True, w, q)
        change = before = 0.0
        for k in range(iterations):
            status, change = _iterate(links, external, span, k > 0, h, duration, last, clock, carried, w, q)
            counts[SWEEPS] += 1
            if status != 0:
                return status, h, False
            if k == 0 and w.time_tolerance[0] > 0.0:
                clock[TRIED_ERROR] = time_error(links, span, h, change, clock, w)
            if change < ENOUGH or (k > 0 and not change < 0.5 * before and not change < LOST):
                break
            before = change
        if change < LOST and not (halving < TIME_HALVINGS and too_far(h, clock, w)):
            return 0, h, False
        counts[HALVED] += 1
        h *= 0.5
    counts[PROJECTED] += 1
    counts[SWEEPS] += 1
    return _project(links, external, span, h, 0.5 * (h + clock[LENGTH]), last, w, q), h, True


@inner
def time_error(links, span, h, change, clock, w):
    """Return the squared error in time of the accelerations over h^4, of a first iterate; UNKNOWN if it is not known.

    Args:
        change: the largest change of a coordinate.
    """
    # velocities of half steps of different length are means over different times: their differences say nothing
    t = clock[NOW] + 0.5 * h
    equal = abs(t - clock[0] - h) < EQUALLY * h and abs(t - clock[1] - 2.0 * h) < EQUALLY * h
    if clock[KNOWN_STEPS] < 3.0 or not equal or abs(t - clock[2] - 3.0 * h) > EQUALLY * h:
        return UNKNOWN
    if not change > ROUNDED:
        return 0.0
    total, work = 0.0, w.work
    for i in range(span[LINK], span[LINK + 1]):
        if links.kind[i] == HINGE or links.kind[i] == SLIDE:
            total += work.rows[i, UU] * work.rows[i, UU] * work.rows[i, DI]
        else:
            for a in range(links.dof[i]):
                v = links.v_start[i] + a
                total += work.rest[v] * work.rest[v] * work.pivot[v, a]
    # the correction h qdd is the third difference
    return total / (144.0 * h * h * h * h)


@inner
def too_far(h, clock, w):
    """Return whether the error in time of a substep h is far beyond the tolerance, and remember it if it is."""
    if w.time_tolerance[0] <= 0.0 or not clock[TRIED_ERROR] * h * h * h * h > TOO_FAR * w.time_tolerance[0]:
        return False
    clock[TIME_ERROR] = max(clock[TIME_ERROR], clock[TRIED_ERROR])
    return True


@inner
def take_time_error(clock, w):
    """Remember the error in time of a substep that was taken, if it is known."""
    if w.time_tolerance[0] > 0.0 and clock[TRIED_ERROR] != UNKNOWN:
        clock[TIME_ERROR] = max(clock[TRIED_ERROR], REMEMBERED * clock[TIME_ERROR])


@inner
def time_substeps(h, left, clock, w):
    """Return the number of substeps of what is left of a step h that the error in time asks for.

    A step has 1, 2, 4 .. substeps, and as many as the last one where it can be: estimates need equal substeps.
    """
    if w.time_tolerance[0] <= 0.0:
        return 1
    count, wanted = clock[TIME_SUBSTEPS], h * math.sqrt(math.sqrt(clock[TIME_ERROR] / w.time_tolerance[0]))
    if count == 0.0:
        count = FIRST_SUBSTEPS
    elif left == h and wanted < FEWER * count and count > 1.0 and clock[TRIED_ERROR] != UNKNOWN:
        count *= 0.5
    while count < wanted and count < MOST_SUBSTEPS:
        count *= 2.0
    clock[TIME_SUBSTEPS] = count
    return max(1, int(left * count / h + 0.999))


@inner
def finish(links, span, h, projected, clock, w, carried, q):
    """Move q by a substep, and carry its momenta, velocity and time."""
    _carry(links, span, h, projected, w, carried.momentum)
    _finish_motion(links, span, h, projected, clock, w, carried, q)


@inner
def _finish_motion(links, span, h, projected, clock, w, carried, q):
    """Move q by a substep, and carry its velocity and time; momenta stay in the rows."""
    history, qd = carried.history, w.qd
    advance(links, span, h, qd, q)
    for v in dofs_of(span):
        history[2, v] = history[1, v]
        history[1, v] = history[0, v]
        history[0, v] = qd[v]
    clock[2] = clock[1]
    clock[1] = clock[0]
    clock[0] = clock[NOW] + 0.5 * h
    clock[NOW] += h
    clock[LENGTH] = h
    clock[PROJECTED_LENGTH], clock[LAG] = h if projected else 0.0, 0.0
    clock[KNOWN_STEPS] = min(clock[KNOWN_STEPS] + 1.0, 3.0)


@inner
def fastest_turn(span, turns, qd):
    """Return the largest angular velocity of a joint [rad/s]."""
    out = 0.0
    for v in dofs_of(span):
        out = max(out, turns[v] * abs(qd[v]))
    return out


@inner
def first_diverged(span, qd):
    """Return the first dof whose velocity is not finite, -1 if there is none."""
    for v in range(span[DOF], span[DOF + 1]):
        if not abs(qd[v]) < HUGE:
            return v
    return -1


@inner
def start(links, span, h, clock, carried, w, q, qd):
    """Begin a motion at (q, qd): fill momenta, history and clock."""
    for v in dofs_of(span):
        carried.history[0, v] = qd[v]
        w.past[v] = 0.0  # of other dofs, if the links are clusters that have changed
    begin(links, span, q, w.zeros, h, h, 0.0, carried.momentum, w.work)
    start_momenta(links, span, qd, w, carried.momentum)
    lag = clock[LAG]
    for c in range(TIME_ERROR):
        clock[c] = 0.0
    clock[KNOWN_STEPS], clock[LENGTH], clock[LAG] = 1.0, lag, lag


@inner
def substeps_of(span, h, w, velocity):
    """Return the number of substeps of h in which no joint turns by more than TURN."""
    return max(1, min(MOST_SUBSTEPS, int(fastest_turn(span, w.turns, velocity) * h / TURN + 0.999)))


@inner
def pull_is_due(clock):
    """Return whether the pull of joints is to be looked at after this step."""
    clock[UNTIL_LOOK] -= 1.0
    return clock[UNTIL_LOOK] <= 0.0


@inner
def pull_substeps(h, clock):
    """Return the number of substeps of h in which no link swings by more than SWING under the pull of joints."""
    return max(1, min(MOST_SWINGS, int(math.sqrt(clock[FASTEST_SWING]) * h / SWING + 0.999)))


@inner
def _least_inertia(g, i, added, offset, f, x, y, z):
    """Return the least inertia of link i about axes through its com across the force f; 0 if there is none.

    Args:
        added: what rotors, springs and dampers add.
        offset: of the com from the middle of the joints, along f.
    """
    a, b, c, m = dot4(x, f), dot4(y, f), dot4(z, f), g[i, 9]
    s = 1.0 / m if m > 0.0 else 0.0
    cx, cy, cz = g[i, 6], g[i, 7], g[i, 8]
    xx, yy, zz = g[i, 0] - s * (cy * cy + cz * cz), g[i, 1] - s * (cx * cx + cz * cz), g[i, 2] - s * (cx * cx + cy * cy)
    xy, xz, yz = g[i, 3] + s * cx * cy, g[i, 4] + s * cx * cz, g[i, 5] + s * cy * cz
    square = a * a + b * b + c * c
    if not square > 0.0:
        return 0.0
    # trace and determinant of the inertia in the plane across f
    along = a * (xx * a + xy * b + xz * c) + b * (xy * a + yy * b + yz * c) + c * (xz * a + yz * b + zz * c)
    trace = xx + yy + zz - along / square
    minors = a * a * (yy * zz - yz * yz) + b * b * (xx * zz - xz * xz) + c * c * (xx * yy - xy * xy)
    minors += 2.0 * (a * b * (xz * yz - xy * zz) + a * c * (xy * yz - xz * yy) + b * c * (xy * xz - yz * xx))
    det = max(minors / square, 0.0)
    root = math.sqrt(max(trace * trace - 4.0 * det, 0.0))
    least = 2.0 * det / (trace + root) if trace > 0.0 else 0.0
    return least + m * offset * offset + added


@inner
def _least_added(links, i, added):
    """Return the least of what is added to the inertia of the dofs of link i."""
    v, out = links.v_start[i], 0.0
    for k in range(links.dof[i]):
        out = added[v + k] if k == 0 else min(out, added[v + k])
    return out


@inner
def _turns_along(links, i, p, rows):
    """Return whether link i turns with link p about the axis of p's hinge, as far as the joint of i is concerned."""
    if links.kind[p] != HINGE:
        return False
    if links.kind[i] == SLIDE:
        return True
    return links.kind[i] == HINGE and abs(dot4(load4(rows, i, R + 8), load4(rows, p, R + 8))) < ACROSS


@inner
def _add_turning(g, p, i, pulled, inertia, f, size, away, own):
    """Add link i, whose com is `away` from that of link p, to what turns with p."""
    m = g[p, 9] + g[i, 9]
    along = dot4(f, away)
    own[p, 6] += pulled
    own[p, 7] += inertia
    if m > 0.0 and size > 0.0:
        own[p, 7] += g[p, 9] * g[i, 9] / m * along * along / size


@inner
def _fastest_swing(links, span, scale_of, w):
    """Return the square of the fastest swing of a link, for the impulses of joints on the links in w.velocities.

    Forces of joints are those of all links beyond them. They pull at the joint above and at those below. The next two
    links, if they are on hinges across that of a link, swing with it.

    Args:
        scale_of: force over impulse.
    """
    rows, g, own, fastest = w.work.rows, links.inertia, w.velocities, 0.0
    for i in range(span[LINK + 1] - 1, span[LINK] - 1, -1):
        x, y, z, p = load4(rows, i, R), load4(rows, i, R + 4), load4(rows, i, R + 8), links.parent[i]
        f = scale(scale_of, pack(own[i, 0], own[i, 1], own[i, 2]))
        com = _com(g, i, x, y, z)
        pulled, size = own[i, 3] - dot4(f, com), dot4(f, f)
        # own[i, 4] is the largest force below, squared, own[i, 5] where it acts along this one
        offset, below = 0.0, own[i, 4]
        if below > 0.0 and size > 0.0:
            offset = (dot4(f, com) - 0.5 * own[i, 5]) * min(below, size) / max(below, size) / math.sqrt(size)
        inertia = _least_inertia(g, i, _least_added(links, i, w.added), offset, f, x, y, z)
        if pulled + own[i, 6] > 0.0 and links.dof[i] > 0 and links.kind[i] != SLIDE and inertia + own[i, 7] > 0.0:
            fastest = max(fastest, (pulled + own[i, 6]) / (inertia + own[i, 7]))
        if p >= 0:
            d = load4(rows, i, D)
            lever = sub(d, _com(g, p, load4(rows, p, R), load4(rows, p, R + 4), load4(rows, p, R + 8)))
            if _turns_along(links, i, p, rows):
                _add_turning(g, p, i, pulled, inertia, f, size, add(lever, com), own)
            o = links.parent[p]
            if o >= 0 and _turns_along(links, p, o, rows) and _turns_along(links, i, o, rows):
                away = sub(add(d, com), _com(g, o, load4(rows, o, R), load4(rows, o, R + 4), load4(rows, o, R + 8)))
                _add_turning(g, o, i, pulled, inertia, f, size, add(away, load4(rows, p, D)), own)
            own[p, 3] -= dot4(f, lever)
            if size > own[p, 4]:
                own[p, 4], own[p, 5] = size, dot4(f, d)
            for c in range(3):
                own[p, c] += own[i, c]
    return fastest


@outlined
def static_pull(links, external, span, clock, w):
    """Take note of the fastest swing of a motion about to start: joints bear gravity and wrenches; poses are filled."""
    own, g, link = w.velocities, links.inertia, external.wrenches.link
    for i in range(span[LINK], span[LINK + 1]):
        for c in range(3):
            own[i, c] = -g[i, 9] * links.gravity[c]
            own[i, 3 + c] = 0.0
        own[i, 6] = own[i, 7] = 0.0
    for k in range(len(link)):
        if span[LINK] <= link[k] < span[LINK + 1]:
            for c in range(3):
                own[link[k], c] -= external.wrenches.data[k, 3 + c]
    for v in dofs_of(span):
        w.added[v] = links.armature[v]
    clock[FASTEST_SWING] = max(clock[FASTEST_SWING], _fastest_swing(links, span, 1.0, w))
    clock[UNTIL_LOOK] = 0.0


@inner
def joint_impulses(links, span, h, projected, w):
    """Fill w.velocities with the impulses of joints on the links in a substep h, still in the rows, rows included."""
    g, poses, rows, per, c, own = links.inertia, w.ahead, w.work.rows, 1.0 / h, w.column, w.velocities
    for i in range(span[LINK], span[LINK + 1]):
        x, y, z = load4(rows, i, R), load4(rows, i, R + 4), load4(rows, i, R + 8)
        spin, e = scale(h, load4(rows, i, BL)), scale(h, load4(rows, i, BC))
        f = scale(g[i, 9], add(e, cross4(spin, _com(g, i, x, y, z))))
        if not projected:
            dx, dy, dz = sub(load4(poses, i, c), x), sub(load4(poses, i, c + 4), y), sub(load4(poses, i, c + 8), z)
            f = add(f, scale(per * g[i, 9], load4(w.moved, i, 0)))
            f = add(f, scale(per, add(add(scale(g[i, 6], dx), scale(g[i, 7], dy)), scale(g[i, 8], dz))))
        f = add(f, scale(h, load4(rows, i, KNOWN + 4)))
        own[i, 0], own[i, 1], own[i, 2] = lane(f, 0), lane(f, 1), lane(f, 2)
        own[i, 3] = own[i, 4] = own[i, 5] = own[i, 6] = own[i, 7] = 0.0


@inner
def pull(links, span, step, duration, clock, w):
    """Take note of the fastest swing of a link by the impulses in w.velocities, in the last substep of a step."""
    clock[FASTEST_SWING] = max(_fastest_swing(links, span, 1.0 / duration, w), KEPT * clock[FASTEST_SWING])
    slow = clock[FASTEST_SWING] * step * step < SLOW * SLOW * SWING * SWING
    clock[UNTIL_LOOK] = RARELY if slow else 1.0


@inner
def _step(links, external, span, iterations, h, clock, pending, carried, w, q, qd, counts):
    """One step of h, in substeps; return a status, and the length of the last one: its momenta are in the rows.

    With `pending` > 0 those of the step before still are.
    """
    if clock[KNOWN_STEPS] == 0.0:
        start(links, span, h, clock, carried, w, q, qd)
        static_pull(links, external, span, clock, w)
    left, due = h, pull_is_due(clock)
    while True:
        substeps = max(substeps_of(span, left, w, carried.history[0]), time_substeps(h, left, clock, w))
        substeps = max(substeps, pull_substeps(left, clock))
        clock[TRIED_ERROR] = UNKNOWN
        status, taken, projected = _substep(
            links, external, span, iterations, left / substeps, clock, pending, carried, w, q, counts
        )
        if status != 0:
            return status, 0.0
        v = first_diverged(span, w.qd)
        if v >= 0:
            return Status.NOT_FINITE + v, 0.0
        take_time_error(clock, w)
        if due:
            if w.work.lanes.size[LINKS] > 0:
                lane_joint_impulses(links, span, taken, projected, w)
            else:
                joint_impulses(links, span, taken, projected, w)
            pull(links, span, h, 0.5 * (taken + clock[LENGTH]), clock, w)
        _finish_motion(links, span, taken, projected, clock, w, carried, q)
        pending = taken
        counts[SUBSTEPS] += 1
        if taken == left:
            return 0, pending
        left -= taken


@inner
def based_work(w, first):
    """Return scratch whose row 0 stands for link `first`."""
    return VariationalWork(
        based(w.work, first), w.springs, from_row(w.ahead, first), w.column, from_row(w.moved, first),
        w.q, w.qd, w.sines, w.cosines,
        w.subspace, w.zeros, w.turns, from_row(w.velocities, first), w.past, w.tau, w.added, w.qdd, w.left, w.factored,
        w.time_tolerance,
    )  # fmt: skip


@outlined
def take_variational_steps(
    # model
    links,
    # in
    external, blocks, blocks_used, span, iterations, n, h, work,
    # out
    carried, q, qd, counts,
):  # fmt: skip
    """Take n steps of h with each of the blocks used in turn, with at most `iterations` iterations; 0 = projected.

    qd is read where a motion starts (no half step is known), and never written. After a failure the blocks are at
    different steps and what is carried does not fit q: the caller puts both back to the start of the call.

    Returns:
        the fewest steps any block took, and 0 or a status: those of `articulate` and `apply_implicit_springs`, or
        Status.NOT_FINITE + dof.
    """
    taken, status = n, 0
    for k in range(blocks_used):
        for c in range(SPAN):
            span[c] = blocks[k, c]
        take_block(k, work.work.lanes)
        w = based_work(work, span[LINK])
        done, failed, pending = n, 0, 0.0
        clock = carried.clock[k]
        for step in range(n):
            failed, pending = _step(links, external, span, iterations, h, clock, pending, carried, w, q, qd, counts)
            if failed != 0:
                done = step
                break
        if pending > 0.0:
            _carry(links, span, pending, clock[PROJECTED_LENGTH] > 0.0, w, carried.momentum)
        if done < taken:
            taken, status = done, failed
    return taken, status


@outlined
def incoming(links, external, span, clock, carried, w, q):
    """Fill joint forces and bias forces P of the velocity at q: the incoming momentum, half of the impulse at q."""
    h = clock[LENGTH]
    half = 0.0 if clock[LAG] > 0.0 else 0.5 * h
    near = External(external.drives, external.springs, False, external.applied, external.wrenches)
    known_forces(links, near, span, h, half, clock, carried, w, q)
    if clock[LAG] > 0.0:
        for v in dofs_of(span):
            w.past[v] = 0.0
    known_bias(links, near, span, h, half, 0.0, carried.history[0], w, q)


@outlined
def velocities_at(
    # model
    links,
    # in
    external, blocks, first, last, span, work, carried, q,
    # out
    qd,
):  # fmt: skip
    """Fill the velocities at q of the blocks from `first` to `last` - 1; return a status.

    Where a motion starts at q, qd stays as it is.
    """
    take_block(-1, work.work.lanes)
    for k in range(first, last):
        clock = carried.clock[k]
        h = clock[LENGTH]
        if clock[KNOWN_STEPS] == 0.0 or h == 0.0:
            continue
        for c in range(SPAN):
            span[c] = blocks[k, c]
        w = based_work(work, span[LINK])
        incoming(links, external, span, clock, carried, w, q)
        # only the half of a stiff spring's impulse that is past counts, and that is in the momentum already
        near = External(external.drives, external.springs, False, external.applied, external.wrenches)
        status = _solve(links, near, span, h, False, w)
        if status != 0:
            return status
        for v in dofs_of(span):
            w.qd[v] = h * w.qdd[v]
        for v in dofs_of(span):
            qd[v] = w.qd[v]
    return 0
