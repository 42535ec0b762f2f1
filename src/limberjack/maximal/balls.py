"""Rattle of rigid bodies on ball joints: nets, ropes and trees of balls, at a third of what general rows cost.

The step is that of the integrator rattle, with all it needs of a joint being two levers: rows of a ball joint are the
world's axes, a block of J is s [-(r x) | 1]. Momenta begin each step with impulses drawn out from the two steps before:
most steps need one correction or none.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from limberjack._jit import inner, kernel, outlined
from limberjack.constraints.bodies import RIGID, TURNED
from limberjack.constraints.maximal import Maximal
from limberjack.constraints.rows import SLIDE
from limberjack.constraints.system import new_system
from limberjack.constraints.table import DRIVE, HELD
from limberjack.maximal.meeting import GAP_ALLOWED, HUGE, MOST, OPEN_LOOP, STUCK
from limberjack.solvers.assembly import assemble_balls
from limberjack.solvers.sparse import factor, solve
from limberjack.solvers.structure import Structure, Work, new_work, prepare
from limberjack.spatial.quaternions import quaternion_exp, quaternion_multiply, rotation_from_quaternion
from limberjack.spatial.vectors import cross, rotate, rotate_back, rotate_symmetric, symmetric_times

# Of the series of sin(x) / x and cos(x) in x^2.
_S1, _S2, _S3, _S4 = 1.0 / 6.0, 1.0 / 120.0, 1.0 / 5040.0, 1.0 / 362880.0
_C2, _C3, _C4, _C5 = 1.0 / 24.0, 1.0 / 720.0, 1.0 / 40320.0, 1.0 / 3628800.0

__all__ = ["BallWork", "Balls", "new_balls", "take_ball_steps"]


class Balls(NamedTuple):
    """Rigid bodies on ball joints; n bodies, c joints, t touches of a joint and a body."""

    mass: np.ndarray  # (n,)
    lightness: np.ndarray  # (n,) 1 / mass
    inertia: np.ndarray  # (n, 6) about the com, body axes: xx, yy, zz, xy, xz, yz
    inverse: np.ndarray  # (n, 6) of it
    center: np.ndarray  # (n, 3) com in the link's frame
    link: np.ndarray  # (c, 2) bodies a and b, -1 = the world
    lever: np.ndarray  # (c, 6) the joint in a and in b from their com, body axes; of the world its place there
    touch: np.ndarray  # (c, 2) rows of `levers`, -1 = none
    gravity: np.ndarray  # (3,)


class BallWork(NamedTuple):
    """What a step fills; `pushes` feeds the next."""

    momentum: np.ndarray  # (n, 6) angular about the com, linear
    turn: np.ndarray  # (n, 9) rotations at the start
    there: np.ndarray  # (n, 9) rotations at the poses tried
    vector: np.ndarray  # (n, 3) rotation vectors of the step, body axes
    levers: np.ndarray  # (t, 4) world axes, and the sign
    minv: np.ndarray  # (n, 7) world inverse inertia, 1 / m
    stage: np.ndarray  # (n, 7) poses at the start
    kept: np.ndarray  # (n, 13) poses and velocities before the step of the simulation
    soft: np.ndarray  # (3 c,) zeros: joints do not give way
    side: np.ndarray  # (3 c,)
    lam: np.ndarray  # (3 c,)
    pushes: np.ndarray  # (2, 3 c) impulses that closed the joints in the last step and in the one before, by its length
    known: np.ndarray  # (1,) steps that `pushes` knows, at most 2
    factored: Work


def new_balls(whole: Maximal, gravity: np.ndarray) -> tuple[Balls, Structure, BallWork] | None:
    """Return a model of rigid bodies on ball joints ready for `take_ball_steps`, or None if it has anything else."""
    table, system, bodies = whole.table, whole.system, whole.bodies
    held = table.role == HELD
    rows = np.flatnonzero(held)
    plain = (bodies.kind == RIGID).all() and (held | (table.role == DRIVE)).all() and whole.held > 0
    counts = np.diff(system.row_start)[: whole.held]
    if not plain or (counts != 3).any() or len(rows) != 3 * whole.held:
        return None
    first = table.term_start[rows]
    terms = table.terms[first]
    same = terms[:, 1].reshape(-1, 3)
    if (
        (table.term_start[rows + 1] - first != 1).any() or (terms[:, 0] != SLIDE).any() or table.target[rows].any()
        or (same != same[:, :1]).any() or (terms[:, 2].reshape(-1, 3) != [0, 1, 2]).any()
        or (table.weights[first] != 1.0).any() or table.speed[rows].any()
    ):  # fmt: skip
        return None
    pair = same[:, 0]
    link = table.pair_link[pair].astype(np.int64)
    lever = np.concatenate([table.pair_frame[pair, 9:12], table.pair_frame[pair, 21:24]], axis=1)
    return _laid_out(whole, link, lever, gravity)


def _laid_out(
    whole: Maximal, link: np.ndarray, lever: np.ndarray, gravity: np.ndarray
) -> tuple[Balls, Structure, BallWork]:
    bodies = whole.bodies
    n, c = len(bodies.kind), len(link)
    touches = [[int(i) for i in ends if i >= 0] for ends in link]
    own = new_system(np.full(n, 6), np.full(c, 3, np.int64), touches)
    structure = prepare(own)
    touch, levers = np.full((c, 2), -1, np.int64), np.zeros((len(own.touch_body), 4))
    for k in range(c):
        at = int(own.touch_start[k])
        for end in range(2):
            if link[k, end] >= 0:
                touch[k, end], levers[at, 3] = at, (-1.0, 1.0)[end]
                at += 1
    full = bodies.inertia[:, [0, 3, 4, 3, 1, 5, 4, 5, 2]].reshape(n, 3, 3)
    inverse = np.linalg.inv(full).reshape(n, 9)[:, [0, 4, 8, 1, 2, 5]].copy()
    balls = Balls(bodies.mass, 1.0 / bodies.mass, bodies.inertia, inverse, whole.center, link, lever, touch, gravity)
    six, nine, seven, rows = np.zeros((n, 6)), np.zeros((n, 9)), np.zeros((n, 7)), np.zeros(3 * c)
    work = BallWork(
        six, nine, nine.copy(), np.zeros((n, 3)), levers, seven, seven.copy(), np.zeros((n, 13)), rows, rows.copy(),
        rows.copy(), np.zeros((2, 3 * c)), np.zeros(1, np.int64), new_work(own, structure),
    )  # fmt: skip
    return balls, structure, work


@inner
def _matrix(r, i):
    return r[i, 0], r[i, 1], r[i, 2], r[i, 3], r[i, 4], r[i, 5], r[i, 6], r[i, 7], r[i, 8]


@inner
def _six(s, i):
    return s[i, 0], s[i, 1], s[i, 2], s[i, 3], s[i, 4], s[i, 5]


@inner
def _exp(x, y, z):
    """Return the quaternion of a rotation vector; below 0.2 rad without square root, sine or cosine."""
    t = 0.25 * (x * x + y * y + z * z)
    if t > 0.01:
        return quaternion_exp(x, y, z)
    f = 0.5 * (1.0 - t * (_S1 - t * (_S2 - t * (_S3 - t * _S4))))
    w = 1.0 - t * (0.5 - t * (_C2 - t * (_C3 - t * (_C4 - t * _C5))))
    return w, f * x, f * y, f * z


@inner
def _slope(s, kx, ky, kz, x, y, z):
    """Return (S^-1 - [k])^-1 v, v = (x, y, z), to first order in k, for the six numbers of a symmetric S."""
    x, y, z = symmetric_times(s, x, y, z)
    cx, cy, cz = cross(kx, ky, kz, x, y, z)
    cx, cy, cz = symmetric_times(s, cx, cy, cz)
    return x + cx, y + cy, z + cz


@outlined
def _set_rotations(pose, turn):
    """Fill the rotations of the poses."""
    for i in range(len(turn)):
        t = TURNED
        r = rotation_from_quaternion(pose[i, t], pose[i, t + 1], pose[i, t + 2], pose[i, t + 3])
        turn[i, 0], turn[i, 1], turn[i, 2], turn[i, 3], turn[i, 4] = r[0], r[1], r[2], r[3], r[4]
        turn[i, 5], turn[i, 6], turn[i, 7], turn[i, 8] = r[5], r[6], r[7], r[8]


@outlined
def _face(balls, structure, turn, levers, minv, soft, factored):
    """Fill levers, inverse masses and the factor at the rotations given; return the status of `factor`."""
    for i in range(len(minv)):
        s = rotate_symmetric(_matrix(turn, i), _six(balls.inverse, i))
        minv[i, 0], minv[i, 1], minv[i, 2], minv[i, 3], minv[i, 4], minv[i, 5] = s
        minv[i, 6] = balls.lightness[i]
    p = balls.lever
    for k in range(len(balls.link)):
        for end in range(2):
            i, o = balls.link[k, end], 3 * end
            if i >= 0:
                t = balls.touch[k, end]
                levers[t, 0], levers[t, 1], levers[t, 2] = rotate(_matrix(turn, i), p[k, o], p[k, o + 1], p[k, o + 2])
    assemble_balls(structure, minv, levers, soft, factored)
    return factor(structure, factored)


@outlined
def _fly(balls, h, again, stage, turn, momentum, vector, pose, there):
    """Move the poses of `stage` by h with the momenta given, into `pose`; fill the rotations there.

    The rotation vector t in body axes solves I t = exp(-t/2) l, l = h R^T L: the midpoint rule. Newton's steps by
    the slope at small t, I - [l]/2, gain two orders of t each, and the last is worth that much more than its size. No
    divisions, no roots: a unit quaternion that rounding left off by e is made one again by 1 - e/2.
    """
    for i in range(len(momentum)):
        f = h * balls.lightness[i]
        pose[i, 0] = stage[i, 0] + f * momentum[i, 3]
        pose[i, 1] = stage[i, 1] + f * momentum[i, 4]
        pose[i, 2] = stage[i, 2] + f * momentum[i, 5]
        own, s = _six(balls.inertia, i), _six(balls.inverse, i)
        lx, ly, lz = rotate_back(_matrix(turn, i), h * momentum[i, 0], h * momentum[i, 1], h * momentum[i, 2])
        kx, ky, kz = 0.5 * lx, 0.5 * ly, 0.5 * lz
        if again:
            x, y, z = vector[i, 0], vector[i, 1], vector[i, 2]
        else:
            x, y, z = _slope(s, kx, ky, kz, lx, ly, lz)
        for _ in range(20):
            w, a, b, c = _exp(0.5 * x, 0.5 * y, 0.5 * z)
            ux, uy, uz = cross(a, b, c, lx, ly, lz)
            vx, vy, vz = cross(a, b, c, ux, uy, uz)
            ex, ey, ez = symmetric_times(own, x, y, z)
            ex, ey, ez = lx - 2.0 * (w * ux - vx) - ex, ly - 2.0 * (w * uy - vy) - ey, lz - 2.0 * (w * uz - vz) - ez
            dx, dy, dz = _slope(s, kx, ky, kz, ex, ey, ez)
            x, y, z = x + dx, y + dy, z + dz
            if (abs(dx) + abs(dy) + abs(dz)) * (x * x + y * y + z * z) < 1e-17:
                break
        vector[i, 0], vector[i, 1], vector[i, 2] = x, y, z
        w, a, b, c = quaternion_multiply((stage[i, 3], stage[i, 4], stage[i, 5], stage[i, 6]), _exp(x, y, z))
        f = 1.5 - 0.5 * (w * w + a * a + b * b + c * c)
        t = TURNED
        pose[i, t], pose[i, t + 1], pose[i, t + 2], pose[i, t + 3] = f * w, f * a, f * b, f * c
    _set_rotations(pose, there)


@inner
def _place(balls, k, end, pose, there):
    """Return where joint k is as its body a (end 0) or b (end 1) has it."""
    i, o, p = balls.link[k, end], 3 * end, balls.lever
    if i < 0:
        return p[k, o], p[k, o + 1], p[k, o + 2]
    x, y, z = rotate(_matrix(there, i), p[k, o], p[k, o + 1], p[k, o + 2])
    return pose[i, 0] + x, pose[i, 1] + y, pose[i, 2] + z


@outlined
def _set_gaps(balls, h, pose, there, side):
    """Fill the right sides that close the gaps at the poses given over h; return the largest gap and its row."""
    worst, at = 0.0, -1
    f = -1.0 / h
    for k in range(len(balls.link)):
        ax, ay, az = _place(balls, k, 0, pose, there)
        bx, by, bz = _place(balls, k, 1, pose, there)
        x, y, z = bx - ax, by - ay, bz - az
        side[3 * k], side[3 * k + 1], side[3 * k + 2] = f * x, f * y, f * z
        size = max(abs(x), abs(y), abs(z))
        if not size <= worst:
            worst, at = size, 3 * k
    return worst, at


@outlined
def _push(balls, levers, scale, lam, momentum):
    """Add J^T lam times `scale` to the momenta."""
    for k in range(len(balls.link)):
        x, y, z = scale * lam[3 * k], scale * lam[3 * k + 1], scale * lam[3 * k + 2]
        for end in range(2):
            i, t = balls.link[k, end], balls.touch[k, end]
            if i >= 0:
                s = levers[t, 3]
                fx, fy, fz = s * x, s * y, s * z
                nx, ny, nz = cross(levers[t, 0], levers[t, 1], levers[t, 2], fx, fy, fz)
                momentum[i, 0], momentum[i, 1], momentum[i, 2] = (
                    momentum[i, 0] + nx, momentum[i, 1] + ny, momentum[i, 2] + nz,
                )  # fmt: skip
                momentum[i, 3], momentum[i, 4], momentum[i, 5] = (
                    momentum[i, 3] + fx, momentum[i, 4] + fy, momentum[i, 5] + fz,
                )  # fmt: skip


@outlined
def _kick(balls, h, wrenches, turn, momentum):
    """Add gravity and wrenches over h to the momenta."""
    g = balls.gravity
    gx, gy, gz = h * g[0], h * g[1], h * g[2]
    for i in range(len(momentum)):
        m = balls.mass[i]
        momentum[i, 3], momentum[i, 4], momentum[i, 5] = (
            momentum[i, 3] + m * gx, momentum[i, 4] + m * gy, momentum[i, 5] + m * gz,
        )  # fmt: skip
    w, at = wrenches.data, balls.center
    for k in range(len(wrenches.link)):
        i = wrenches.link[k]
        x, y, z = rotate(_matrix(turn, i), w[k, 0] - at[i, 0], w[k, 1] - at[i, 1], w[k, 2] - at[i, 2])
        nx, ny, nz = cross(x, y, z, w[k, 3], w[k, 4], w[k, 5])
        momentum[i, 0] += h * (nx + w[k, 6])
        momentum[i, 1] += h * (ny + w[k, 7])
        momentum[i, 2] += h * (nz + w[k, 8])
        for c in range(3):
            momentum[i, 3 + c] += h * w[k, 3 + c]


@outlined
def _set_momenta(balls, turn, u, momentum):
    """Fill the momenta of velocities u (6 n,)."""
    for i in range(len(momentum)):
        o, r, m = 6 * i, _matrix(turn, i), balls.mass[i]
        x, y, z = rotate_back(r, u[o], u[o + 1], u[o + 2])
        x, y, z = symmetric_times(_six(balls.inertia, i), x, y, z)
        momentum[i, 0], momentum[i, 1], momentum[i, 2] = rotate(r, x, y, z)
        momentum[i, 3], momentum[i, 4], momentum[i, 5] = m * u[o + 3], m * u[o + 4], m * u[o + 5]


@outlined
def _set_velocities(minv, momentum, u):
    """Fill the velocities of the momenta; return 0, or -1 - k for a velocity k that is not finite."""
    status = 0
    for i in range(len(momentum)):
        o = 6 * i
        u[o], u[o + 1], u[o + 2] = symmetric_times(_six(minv, i), momentum[i, 0], momentum[i, 1], momentum[i, 2])
        f = minv[i, 6]
        u[o + 3], u[o + 4], u[o + 5] = f * momentum[i, 3], f * momentum[i, 4], f * momentum[i, 5]
        for c in range(6):
            if not abs(u[o + c]) < HUGE:
                status = -1 - (o + c)
    return status


@outlined
def _set_rates(balls, levers, u, side):
    """Fill side with -J u."""
    for k in range(len(balls.link)):
        x = y = z = 0.0
        for end in range(2):
            i, t = balls.link[k, end], balls.touch[k, end]
            if i >= 0:
                o, s = 6 * i, levers[t, 3]
                cx, cy, cz = cross(u[o], u[o + 1], u[o + 2], levers[t, 0], levers[t, 1], levers[t, 2])
                x, y, z = x + s * (u[o + 3] + cx), y + s * (u[o + 4] + cy), z + s * (u[o + 5] + cz)
        side[3 * k], side[3 * k + 1], side[3 * k + 2] = -x, -y, -z


@outlined
def _draw_out(known, pushes, h, lam):
    """Fill lam with the impulses to expect in a step of h, and note them as those of the last step."""
    for r in range(len(lam)):
        last, before = pushes[0, r], pushes[1, r]
        expected = 2.0 * last - before if known[0] > 1 else last
        pushes[0, r], pushes[1, r], lam[r] = expected, last, h * expected
    known[0] = min(known[0] + 1, 2)


@inner
def _close(balls, structure, h, tolerance, pose, work, report):
    """Find the impulses that close the joints after a flight of h; return 0 or OPEN_LOOP."""
    w = work
    worst, last = 0.0, np.inf
    for iteration in range(MOST):
        _fly(balls, h, iteration > 0, w.stage, w.turn, w.momentum, w.vector, pose, w.there)
        worst, at = _set_gaps(balls, h, pose, w.there, w.side)
        report[0], report[1], report[2] = iteration, worst, at
        if worst <= tolerance or (worst < GAP_ALLOWED and worst > 0.5 * last) or not worst < 1e100:
            break
        last = worst
        solve(structure, w.factored, w.side, w.lam)
        _push(balls, w.levers, 1.0, w.lam, w.momentum)
        for r in range(len(w.lam)):
            w.pushes[0, r] += w.lam[r] / h
    return 0 if worst <= max(GAP_ALLOWED, tolerance) else OPEN_LOOP


@inner
def _one_step(balls, structure, ready, h, tolerance, wrenches, pose, u, work, report):
    """One step; the factor belongs to the new poses afterwards."""
    w = work
    if not ready:
        _set_rotations(pose, w.turn)
        lost = _face(balls, structure, w.turn, w.levers, w.minv, w.soft, w.factored)
        if lost < 0:
            report[3] = -lost
            return STUCK
    for i in range(len(pose)):
        for c in range(7):
            w.stage[i, c] = pose[i, c]
    _set_momenta(balls, w.turn, u, w.momentum)
    _kick(balls, 0.5 * h, wrenches, w.turn, w.momentum)
    _draw_out(w.known, w.pushes, h, w.lam)
    _push(balls, w.levers, 1.0, w.lam, w.momentum)
    status = _close(balls, structure, h, tolerance, pose, work, report)
    if status != 0:
        return status
    for i in range(len(pose)):
        for c in range(9):
            w.turn[i, c] = w.there[i, c]
    _kick(balls, 0.5 * h, wrenches, w.turn, w.momentum)
    lost = _face(balls, structure, w.turn, w.levers, w.minv, w.soft, w.factored)
    if lost < 0:
        report[3] = -lost
        return STUCK
    status = _set_velocities(w.minv, w.momentum, u)
    # near-dependent rows amplify rounding: once more where any was dropped
    for _ in range(2 if lost > 0 else 1):
        _set_rates(balls, w.levers, u, w.side)
        solve(structure, w.factored, w.side, w.lam)
        _push(balls, w.levers, 1.0, w.lam, w.momentum)
        status = _set_velocities(w.minv, w.momentum, u)
    return status


@kernel
def take_ball_steps(
    # model
    balls, structure,
    # in
    n, substeps, h, tolerance, wrenches,
    # out
    pose, u, work, report,
):  # fmt: skip
    """Take n steps of `substeps` times h; stop at the first that fails and put back the state before it.

    Args:
        balls: the model.
        structure: of the factor.
        n: steps.
        substeps: integrator steps per step.
        h: its length [s].
        tolerance: gap at which corrections stop [m].
        wrenches: lasting wrenches.
        pose: (n, POSE) com and quaternion of each body.
        u: (6 n,) angular velocity and velocity of the com, world axes.
        work: scratch, and the impulses of the last step.
        report: (4,) corrections, gap left, its row, node of a failed pivot.

    Returns:
        steps taken, and 0, -1 - k for a velocity k that is not finite, OPEN_LOOP or STUCK.
    """
    w = work
    ready = False
    for step in range(n):
        for i in range(len(pose)):
            for c in range(7):
                w.kept[i, c] = pose[i, c]
            for c in range(6):
                w.kept[i, 7 + c] = u[6 * i + c]
        for _ in range(substeps):
            status = _one_step(balls, structure, ready, h, tolerance, wrenches, pose, u, work, report)
            ready = True
            if status != 0:
                for i in range(len(pose)):
                    for c in range(7):
                        pose[i, c] = w.kept[i, c]
                    for c in range(6):
                        u[6 * i + c] = w.kept[i, 7 + c]
                for r in range(len(w.lam)):
                    w.pushes[0, r] = 0.0
                w.known[0] = 0
                return step, status
    return n, 0
