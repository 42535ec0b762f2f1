"""Models with ball joints only, joints="damped": each joint is two levers instead of rows of the general table.

In islands with contacts the joints are swept with these, three rows at a time. After the move one direct solve projects
the poses onto all joints, and the velocities become those of the displacement made. The rows of a ball joint are the
world's axes, a block of J is s [-(r x) | 1].
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from limberjack._jit import inner, outlined
from limberjack.constraints.table import DRIVE
from limberjack.errors import Status
from limberjack.linear.sparse import assemble_ball_joints, factor, solve
from limberjack.linear.structure import Structure, Work, new_work, prepare
from limberjack.maximal.ball_joint_rattle import ball_ends, ball_system
from limberjack.maximal.rows import Maximal
from limberjack.maximal.solve import GAP_ALLOWED
from limberjack.methods.impulses.motion import Bulk, point_inverse_mass, set_velocities_from_motion, turned
from limberjack.spatial.quaternions import rotation_from_quaternion
from limberjack.spatial.vectors import cross, rotate, rotate_symmetric, symmetric_times

__all__ = [
    "BallJoints", "new_ball_joints", "post_stabilize_ball_joints", "project_ball_joints", "set_ball_joint_masses",
    "sweep_ball_joints",
]  # fmt: skip

# Newton steps; a joint with a larger gap than OPEN after all of them is a failure [m].
_NEWTON, OPEN = 40, 1e-3
# Bodies turn by no more than this at a time: in a nearly straight chain a small gap calls for large rotations [rad].
_TURN = 0.2


class BallJoints(NamedTuple):
    """Ball joints and work arrays of their solver; c joints, t incidences of a joint and a body, n bodies."""

    link: np.ndarray  # (c, 2) bodies a and b, -1 = the world
    lever: np.ndarray  # (c, 6) the joint in a and in b relative to their com, body axes; in the world its position
    incidence: np.ndarray  # (c, 2) rows of `levers`, -1 = none
    levers: np.ndarray  # (t, 4) world axes, and the sign
    weight: np.ndarray  # (c, 6) inverse of J M^-1 J^T of each joint
    inverse: np.ndarray  # (n, 7) world inverse inertia, 1 / m
    correction: np.ndarray  # (6 n,) corrections
    compliance: np.ndarray  # (3 c,) zeros: joints are rigid
    side: np.ndarray  # (3 c,) right sides
    lam: np.ndarray  # (3 c,) multipliers


def new_ball_joints(whole: Maximal, bulk: Bulk) -> tuple[BallJoints, Structure, Work] | None:
    """Return the ball joints of a model with their solver, or None if it has other joints; without joints, none."""
    n, free = len(bulk.mass), whole.equality_count == 0 and bool((whole.table.role == DRIVE).all())
    ends = (np.zeros((0, 2), np.int64), np.zeros((0, 6))) if free else ball_ends(whole)
    if ends is None:
        return None
    link, lever = ends
    own, incidence, levers = ball_system(n, link)
    c, structure = len(link), prepare(own)
    balls = BallJoints(
        link, lever, incidence, levers, np.zeros((c, 6)), np.zeros((n, 7)), np.zeros(6 * n), np.zeros(3 * c),
        np.zeros(3 * c), np.zeros(3 * c),
    )  # fmt: skip
    return balls, structure, new_work(own, structure)


@inner
def _end(balls, k, end, pose):
    """Return the position of joint k on its body a (end 0) or b (end 1), and fill the lever."""
    i, o, p = balls.link[k, end], 3 * end, balls.lever
    if i < 0:
        return p[k, o], p[k, o + 1], p[k, o + 2]
    r, t = rotation_from_quaternion(pose[i, 3], pose[i, 4], pose[i, 5], pose[i, 6]), balls.incidence[k, end]
    x, y, z = rotate(r, p[k, o], p[k, o + 1], p[k, o + 2])
    balls.levers[t, 0], balls.levers[t, 1], balls.levers[t, 2] = x, y, z
    return pose[i, 0] + x, pose[i, 1] + y, pose[i, 2] + z


@inner
def _both_asleep(balls, k, asleep):
    """Return whether the bodies of joint k sleep."""
    i = balls.link[k, 1] if balls.link[k, 1] >= 0 else balls.link[k, 0]
    return asleep[i] != 0


@outlined
def _set_gaps(balls, pose, asleep, side):
    """Fill levers and the right sides that close the gaps; return the largest gap and its joint."""
    worst, at = 0.0, -1
    for k in range(len(balls.link)):
        side[3 * k], side[3 * k + 1], side[3 * k + 2] = 0.0, 0.0, 0.0
        ax, ay, az = _end(balls, k, 0, pose)
        bx, by, bz = _end(balls, k, 1, pose)
        if not _both_asleep(balls, k, asleep):
            x, y, z = bx - ax, by - ay, bz - az
            side[3 * k], side[3 * k + 1], side[3 * k + 2] = -x, -y, -z
            size = x * x + y * y + z * z
            if not size <= worst:
                worst, at = size, k
    return math.sqrt(worst), at


@outlined
def _set_inverses(pose, bulk, inverse):
    """Fill the inverse inertias at poses."""
    own = bulk.own
    for i in range(len(bulk.mass)):
        six = (own[i, 0], own[i, 1], own[i, 2], own[i, 3], own[i, 4], own[i, 5])
        if not bulk.round[i]:
            six = rotate_symmetric(rotation_from_quaternion(pose[i, 3], pose[i, 4], pose[i, 5], pose[i, 6]), six)
        inverse[i, 0], inverse[i, 1], inverse[i, 2], inverse[i, 3], inverse[i, 4], inverse[i, 5] = six
        inverse[i, 6] = 1.0 / bulk.mass[i]


@outlined
def _respond(balls, lam, inverse, out):
    """Fill out with M^-1 J^T lam; return the largest square of a turn."""
    for k in range(len(out)):
        out[k] = 0.0
    for k in range(len(balls.link)):
        x, y, z = lam[3 * k], lam[3 * k + 1], lam[3 * k + 2]
        for end in range(2):
            i, t = balls.link[k, end], balls.incidence[k, end]
            if i >= 0:
                o, s = 6 * i, balls.levers[t, 3]
                fx, fy, fz = s * x, s * y, s * z
                nx, ny, nz = cross(balls.levers[t, 0], balls.levers[t, 1], balls.levers[t, 2], fx, fy, fz)
                out[o], out[o + 1], out[o + 2] = out[o] + nx, out[o + 1] + ny, out[o + 2] + nz
                out[o + 3], out[o + 4], out[o + 5] = out[o + 3] + fx, out[o + 4] + fy, out[o + 5] + fz
    most = 0.0
    for i in range(len(inverse)):
        o, m = 6 * i, inverse[i, 6]
        six = inverse[i, 0], inverse[i, 1], inverse[i, 2], inverse[i, 3], inverse[i, 4], inverse[i, 5]
        x, y, z = symmetric_times(six, out[o], out[o + 1], out[o + 2])
        out[o], out[o + 1], out[o + 2] = x, y, z
        out[o + 3], out[o + 4], out[o + 5] = m * out[o + 3], m * out[o + 4], m * out[o + 5]
        most = max(most, x * x + y * y + z * z)
    return most


@outlined
def _shift(part, correction, bulk, pose):
    """Move the bodies with joints by a part of the corrections."""
    for i in range(len(bulk.mass)):
        if bulk.jointed[i] and not bulk.asleep[i]:
            o = 6 * i
            for c in range(3):
                pose[i, c] += part * correction[o + 3 + c]
            pose[i, 3], pose[i, 4], pose[i, 5], pose[i, 6] = turned(
                part * correction[o], part * correction[o + 1], part * correction[o + 2], pose, i
            )


@outlined
def project_ball_joints(structure, h, tolerance, before, set_velocities, bulk, balls, factored, pose, u, report):
    """Project the poses onto the joints by Newton's method, levers updated each time; return a status.

    With `set_velocities`, velocities become those of the displacement made in h from the poses before.
    """
    last, worst, iteration = np.inf, 0.0, 0
    for iteration in range(_NEWTON):
        worst, at = _set_gaps(balls, pose, bulk.asleep, balls.side)
        report[0], report[1], report[2] = iteration, worst, 3 * at
        if worst <= tolerance or (worst < GAP_ALLOWED and worst > 0.5 * last) or not worst < 1e100:
            break
        last = worst
        _set_inverses(pose, bulk, balls.inverse)
        assemble_ball_joints(structure, balls.inverse, balls.levers, balls.compliance, factored)
        failed = factor(structure, factored)
        if failed < 0:
            report[3] = -failed
            return Status.INFEASIBLE
        solve(structure, factored, balls.side, balls.lam)
        most = _respond(balls, balls.lam, balls.inverse, balls.correction)
        part = _TURN / math.sqrt(most) if most > _TURN * _TURN else 1.0
        _shift(part, balls.correction, bulk, pose)
    if iteration > 0 and set_velocities:
        set_velocities_from_motion(h, before, pose, bulk, u)
    return 0 if worst <= max(OPEN, tolerance) else Status.OPEN_LOOP


@outlined
def post_stabilize_ball_joints(structure, pose, bulk, balls, factored, u, report):
    """Project the velocities onto the joints at the poses now; return 0 or Status.INFEASIBLE."""
    _set_gaps(balls, pose, bulk.asleep, balls.side)
    assemble_ball_joints(structure, bulk.inverse, balls.levers, balls.compliance, factored)
    failed = factor(structure, factored)
    if failed < 0:
        report[3] = -failed
        return Status.INFEASIBLE
    for k in range(len(balls.link)):
        x, y, z = _rate(balls, k, u)
        balls.side[3 * k], balls.side[3 * k + 1], balls.side[3 * k + 2] = -x, -y, -z
    solve(structure, factored, balls.side, balls.lam)
    _respond(balls, balls.lam, bulk.inverse, balls.correction)
    for i in range(len(bulk.mass)):
        if bulk.jointed[i] and not bulk.asleep[i]:
            for c in range(6 * i, 6 * i + 6):
                u[c] += balls.correction[c]
    return 0


@inner
def _rate(balls, k, u):
    """Return J u of joint k."""
    x = y = z = 0.0
    for end in range(2):
        i, t = balls.link[k, end], balls.incidence[k, end]
        if i >= 0:
            o, s = 6 * i, balls.levers[t, 3]
            cx, cy, cz = cross(u[o], u[o + 1], u[o + 2], balls.levers[t, 0], balls.levers[t, 1], balls.levers[t, 2])
            x, y, z = x + s * (u[o + 3] + cx), y + s * (u[o + 4] + cy), z + s * (u[o + 5] + cz)
    return x, y, z


@outlined
def set_ball_joint_masses(pose, bulk, balls):
    """Fill levers and effective masses of the joints at the poses now."""
    for k in range(len(balls.link)):
        xx = yy = zz = xy = xz = yz = 0.0
        for end in range(2):
            _end(balls, k, end, pose)
            i, t = balls.link[k, end], balls.incidence[k, end]
            if i >= 0:
                a = point_inverse_mass(bulk.inverse, i, balls.levers[t, 0], balls.levers[t, 1], balls.levers[t, 2])
                xx, yy, zz, xy, xz, yz = xx + a[0], yy + a[1], zz + a[2], xy + a[3], xz + a[4], yz + a[5]
        cx, cy, cz = yy * zz - yz * yz, xz * yz - xy * zz, xy * yz - xz * yy
        f = 1.0 / (xx * cx + xy * cy + xz * cz)
        w = balls.weight
        w[k, 0], w[k, 1], w[k, 2] = f * cx, f * (xx * zz - xz * xz), f * (xx * yy - xy * xy)
        w[k, 3], w[k, 4], w[k, 5] = f * cy, f * cz, f * (xy * xz - xx * yz)


@outlined
def sweep_ball_joints(balls, bulk, u):
    """Do one Gauss-Seidel sweep over the velocities of the joints."""
    w, inverse = balls.weight, bulk.inverse
    for k in range(len(balls.link)):
        if _both_asleep(balls, k, bulk.asleep):
            continue
        x, y, z = _rate(balls, k, u)
        x, y, z = symmetric_times((w[k, 0], w[k, 1], w[k, 2], w[k, 3], w[k, 4], w[k, 5]), -x, -y, -z)
        for end in range(2):
            i, t = balls.link[k, end], balls.incidence[k, end]
            if i >= 0:
                o, s, m = 6 * i, balls.levers[t, 3], inverse[i, 6]
                fx, fy, fz = s * x, s * y, s * z
                nx, ny, nz = cross(balls.levers[t, 0], balls.levers[t, 1], balls.levers[t, 2], fx, fy, fz)
                six = inverse[i, 0], inverse[i, 1], inverse[i, 2], inverse[i, 3], inverse[i, 4], inverse[i, 5]
                nx, ny, nz = symmetric_times(six, nx, ny, nz)
                u[o], u[o + 1], u[o + 2] = u[o] + nx, u[o + 1] + ny, u[o + 2] + nz
                u[o + 3], u[o + 4], u[o + 5] = u[o + 3] + m * fx, u[o + 4] + m * fy, u[o + 5] + m * fz
