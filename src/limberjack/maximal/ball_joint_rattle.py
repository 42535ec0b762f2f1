"""RATTLE for rigid bodies on ball joints: nets, ropes and trees of balls, at a third of the cost of general rows.

The step is that of `methods/multipliers/rattle.py`; of a joint it needs two levers only: the rows of a ball joint are
the world axes, a block of J is s [-(r x) | 1]. Bodies fly four at a time (`free_flight.py`). Each step starts with
impulses extrapolated from the two steps before, which close the joints to 1e-8 m in most motions.

The velocity projection at the end of a RATTLE step does not change the path: the impulses of the next step undo it. So
it is left out between steps, and done once for the velocities that are reported. The factor only corrects the
extrapolation: it is reused until bodies have turned by a small angle.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from limberjack._jit import inner, kernel, outlined
from limberjack.constraints.rows import SLIDE
from limberjack.constraints.system import System, new_system
from limberjack.constraints.table import DRIVE, EQUALITY
from limberjack.errors import Status
from limberjack.linear.choice import BALL_JOINTS, choose_solver
from limberjack.linear.sparse import assemble_ball_joints, factor, solve
from limberjack.linear.structure import Structure, Work, new_work, prepare
from limberjack.maximal.bodies import RIGID
from limberjack.maximal.free_flight import (
    MOMENTUM,
    POSITION,
    ROTATION_NOW,
    ROWS,
    START_ROTATION,
    accept_poses,
    apply_gravity,
    first_not_finite,
    fly,
    new_bodies,
    nine_of,
    restore_rotations,
    restore_state,
    save_rotations,
    save_state,
    set_inverses,
    set_momenta,
    set_poses,
    set_velocities,
    take_poses,
)
from limberjack.maximal.rows import Maximal, lever_mobility
from limberjack.maximal.solve import GAP_ALLOWED, MAX_ITERATIONS
from limberjack.spatial.vectors import cross, rotate, symmetric_times

__all__ = ["BallWork", "Balls", "ball_ends", "ball_system", "momenta_of", "new_balls", "take_ball_steps"]


# A factor is reused until bodies have turned by this much since it was made [rad], or for so many steps.
_MAX_ROTATION, _MAX_STEPS = 0.05, 8
# Largest product of a step and the frequency that the forces of joints give bodies.
_LIMIT = 1.5
# Indices of `factor_age`: steps since the factor was made, -1 = none; rotation since; whether the factor is valid.
_STEPS, _ROTATED, _VALID = 0, 1, 2


class Balls(NamedTuple):
    """Rigid bodies on ball joints; n bodies, c joints, t incidences of a joint and a body."""

    center: np.ndarray  # (n, 3) com in the link's frame
    link: np.ndarray  # (c, 2) bodies a and b, -1 = the world
    lane: np.ndarray  # (c, 4) first row and lane of a and of b in the rows of `free_flight.py`, -1 = the world
    lever: np.ndarray  # (c, 6) the joint in a and in b from their com, body axes; in the world its position
    incidence: np.ndarray  # (c, 2) rows of `levers`, -1 = none
    mobility: np.ndarray  # (c, 2) of the levers, see `rows.lever_mobility`
    gravity: np.ndarray  # (3,)


class BallWork(NamedTuple):
    """Work arrays of a step; `bodies` and `impulses` are inputs of the next."""

    bodies: np.ndarray  # (rows, 4) see `free_flight.py`; momenta before the velocity projection
    saved: np.ndarray  # (rows, 4) those before the step of the simulation
    reported: np.ndarray  # (6 n,) the projected velocities last reported
    levers: np.ndarray  # (t, 4) world axes, and the sign
    minv: np.ndarray  # (n or some more, 7) world inverse inertia, 1 / m
    compliance: np.ndarray  # (3 c,) zeros: joints have no compliance
    rhs: np.ndarray  # (3 c,)
    lam: np.ndarray  # (3 c,)
    impulses: np.ndarray  # (4, 3 c) impulses of the last step and of the one before, see `_extrapolate`
    known: np.ndarray  # (1,) steps that `impulses` knows, at most 2; 0: the momenta are those of the velocities
    factor_rotations: np.ndarray  # (rows, 4) rotations the factor belongs to
    factor_age: np.ndarray  # (3,) how old it is, see above
    stiffness: np.ndarray  # (n,) bound on the squared frequency of each body under the forces of its joints [1/s^2]
    factored: Work  # for the steps
    projection: Work  # for the velocities shown


def ball_ends(whole: Maximal) -> tuple[np.ndarray, np.ndarray] | None:
    """Return links (c, 2) and levers (c, 6) of a model of rigid bodies on ball joints, or None if it has others."""
    table, system, bodies = whole.table, whole.system, whole.bodies
    equality = table.role == EQUALITY
    rows = np.flatnonzero(equality)
    plain = (bodies.kind == RIGID).all() and (equality | (table.role == DRIVE)).all() and whole.equality_count > 0
    counts = np.diff(system.row_start)[: whole.equality_count]
    if not plain or (counts != 3).any() or len(rows) != 3 * whole.equality_count:
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
    return link, lever


def ball_system(n: int, link: np.ndarray) -> tuple[System, np.ndarray, np.ndarray]:
    """Return the system of ball joints on n bodies, the incidences (c, 2) of each, -1 = none, and rows for levers."""
    c = len(link)
    own = new_system(np.full(n, 6), np.full(c, 3, np.int64), [[int(i) for i in ends if i >= 0] for ends in link])
    incidence, levers = np.full((c, 2), -1, np.int64), np.zeros((len(own.incidence_body), 4))
    for k in range(c):
        at = int(own.incidence_start[k])
        for end in range(2):
            if link[k, end] >= 0:
                incidence[k, end], levers[at, 3] = at, (-1.0, 1.0)[end]
                at += 1
    return own, incidence, levers


def new_balls(whole: Maximal, gravity: np.ndarray) -> tuple[Balls, Structure, BallWork] | None:
    """Return a model of rigid bodies on ball joints ready for `take_ball_steps`.

    None if it has anything else, or if the general rows over a forest are cheaper, as around a hub of many joints.
    """
    ends = ball_ends(whole)
    if ends is None:
        return None
    (link, lever), bodies, table = ends, whole.bodies, whole.table
    pair = table.terms[table.term_start[np.flatnonzero(table.role == EQUALITY)[::3]], 1]
    n, c = len(bodies.kind), len(link)
    own, incidence, levers = ball_system(n, link)
    choice = choose_solver(own, np.ones(c, bool), costs=BALL_JOINTS)
    if not choice.sparse:
        return None
    structure = prepare(own, choice.ordering)
    full = bodies.inertia[:, [0, 3, 4, 3, 1, 5, 4, 5, 2]].reshape(n, 3, 3)
    inverse = np.linalg.inv(full).reshape(n, 9)[:, [0, 4, 8, 1, 2, 5]].copy()
    lane = np.where(link >= 0, np.stack([(link >> 2) * ROWS, link & 3]), -1).transpose(1, 2, 0).reshape(c, 4).copy()
    balls = Balls(whole.center, link, lane, lever, incidence, lever_mobility(whole)[pair], gravity)
    rows, saved, factor_rotations = new_bodies(bodies.mass, bodies.inertia, inverse)
    minv, rhs = np.zeros((n + 3 & ~3, 7)), np.zeros(3 * c)
    minv[:n, 6] = 1.0 / bodies.mass
    work = BallWork(
        rows, saved, np.zeros(6 * n), levers, minv, rhs, rhs.copy(), rhs.copy(), np.zeros((4, 3 * c)),
        np.zeros(1, np.int64), factor_rotations, np.zeros(3), np.zeros(n), new_work(own, structure),
        new_work(own, structure),
    )  # fmt: skip
    return balls, structure, work


def momenta_of(work: BallWork) -> np.ndarray:
    """Return a view (groups, 6, 4) of the momenta, which are part of the state."""
    return work.bodies.reshape(-1, ROWS, 4)[:, MOMENTUM : MOMENTUM + 6]


@outlined
def _set_levers(balls, b, levers):
    """Fill the levers at the rotations of the start of the step."""
    p = balls.lever
    for k in range(len(balls.link)):
        for end in range(2):
            row, j, o = balls.lane[k, 2 * end], balls.lane[k, 2 * end + 1], 3 * end
            if row >= 0:
                t, r = balls.incidence[k, end], nine_of(b, row + START_ROTATION, j)
                levers[t, 0], levers[t, 1], levers[t, 2] = rotate(r, p[k, o], p[k, o + 1], p[k, o + 2])


@outlined
def _set_factor(balls, structure, b, levers, minv, compliance, factored):
    """Fill levers, inverse masses and a factor at the start of the step; return the status of `factor`."""
    set_inverses(b, minv)
    _set_levers(balls, b, levers)
    assemble_ball_joints(structure, minv, levers, compliance, factored)
    return factor(structure, factored)


@outlined
def _refactor(balls, structure, w, report):
    """Factor at the rotations of the start of the step; return 0 or Status.INFEASIBLE."""
    save_rotations(w.bodies, w.factor_rotations)
    w.factor_age[_STEPS] = w.factor_age[_ROTATED] = 0.0
    w.factor_age[_VALID] = 1.0
    dropped = _set_factor(balls, structure, w.bodies, w.levers, w.minv, w.compliance, w.factored)
    if dropped < 0:
        w.factor_age[_STEPS], report[3] = -1.0, -dropped
        return Status.INFEASIBLE
    return 0


@inner
def _joint_position(balls, k, end, b):
    """Return the position of joint k on its body a (end 0) or b (end 1)."""
    row, j, o, p = balls.lane[k, 2 * end], balls.lane[k, 2 * end + 1], 3 * end, balls.lever
    if row < 0:
        return p[k, o], p[k, o + 1], p[k, o + 2]
    x, y, z = rotate(nine_of(b, row + ROTATION_NOW, j), p[k, o], p[k, o + 1], p[k, o + 2])
    return b[row + POSITION, j] + x, b[row + POSITION + 1, j] + y, b[row + POSITION + 2, j] + z


@outlined
def _set_gaps(balls, h, b, rhs):
    """Fill the right sides that close the gaps at the current poses over h; return the largest gap and its row."""
    worst, at = 0.0, -1
    f = -1.0 / h
    for k in range(len(balls.link)):
        ax, ay, az = _joint_position(balls, k, 0, b)
        bx, by, bz = _joint_position(balls, k, 1, b)
        x, y, z = bx - ax, by - ay, bz - az
        rhs[3 * k], rhs[3 * k + 1], rhs[3 * k + 2] = f * x, f * y, f * z
        size = max(abs(x), abs(y), abs(z))
        if not size <= worst:
            worst, at = size, 3 * k
    return worst, at


@outlined
def _add_impulses(balls, levers, lam, b):
    """Add J^T lam to the momenta."""
    for k in range(len(balls.link)):
        x, y, z = lam[3 * k], lam[3 * k + 1], lam[3 * k + 2]
        for end in range(2):
            row, j, t = balls.lane[k, 2 * end], balls.lane[k, 2 * end + 1], balls.incidence[k, end]
            if row >= 0:
                s, p = levers[t, 3], row + MOMENTUM
                fx, fy, fz = s * x, s * y, s * z
                nx, ny, nz = cross(levers[t, 0], levers[t, 1], levers[t, 2], fx, fy, fz)
                b[p, j], b[p + 1, j], b[p + 2, j] = b[p, j] + nx, b[p + 1, j] + ny, b[p + 2, j] + nz
                b[p + 3, j], b[p + 4, j], b[p + 5, j] = b[p + 3, j] + fx, b[p + 4, j] + fy, b[p + 5, j] + fz


@outlined
def _add_wrenches(balls, h, wrenches, b):
    """Add wrenches over h to the momenta."""
    w, at = wrenches.data, balls.center
    for k in range(len(wrenches.link)):
        i = wrenches.link[k]
        row, j = (i >> 2) * ROWS, i & 3
        r, p = nine_of(b, row + START_ROTATION, j), row + MOMENTUM
        x, y, z = rotate(r, w[k, 0] - at[i, 0], w[k, 1] - at[i, 1], w[k, 2] - at[i, 2])
        nx, ny, nz = cross(x, y, z, w[k, 3], w[k, 4], w[k, 5])
        b[p, j] += h * (nx + w[k, 6])
        b[p + 1, j] += h * (ny + w[k, 7])
        b[p + 2, j] += h * (nz + w[k, 8])
        for c in range(3):
            b[p + 3 + c, j] += h * w[k, 3 + c]


@outlined
def _set_rates(balls, levers, u, rhs):
    """Fill side with -J u."""
    for k in range(len(balls.link)):
        x = y = z = 0.0
        for end in range(2):
            i, t = balls.link[k, end], balls.incidence[k, end]
            if i >= 0:
                o, s = 6 * i, levers[t, 3]
                cx, cy, cz = cross(u[o], u[o + 1], u[o + 2], levers[t, 0], levers[t, 1], levers[t, 2])
                x, y, z = x + s * (u[o + 3] + cx), y + s * (u[o + 4] + cy), z + s * (u[o + 5] + cz)
        rhs[3 * k], rhs[3 * k + 1], rhs[3 * k + 2] = -x, -y, -z


@outlined
def _project_velocities(balls, structure, w, u):
    """Fill u with the velocities of the momenta, projected onto the joints; the momenta are not changed."""
    dropped = _set_factor(balls, structure, w.bodies, w.levers, w.minv, w.compliance, w.projection)
    set_velocities(w.bodies, w.minv, u)
    if dropped < 0:
        return Status.INFEASIBLE
    # near-dependent rows amplify rounding: refine once where any was dropped
    for _ in range(2 if dropped > 0 else 1):
        _set_rates(balls, w.levers, u, w.rhs)
        solve(structure, w.projection, w.rhs, w.lam)
        for k in range(len(balls.link)):
            x, y, z = w.lam[3 * k], w.lam[3 * k + 1], w.lam[3 * k + 2]
            for end in range(2):
                i, t = balls.link[k, end], balls.incidence[k, end]
                if i >= 0:
                    o, s, m = 6 * i, w.levers[t, 3], w.minv[i, 6]
                    fx, fy, fz = s * x, s * y, s * z
                    nx, ny, nz = cross(w.levers[t, 0], w.levers[t, 1], w.levers[t, 2], fx, fy, fz)
                    inverse = w.minv[i, 0], w.minv[i, 1], w.minv[i, 2], w.minv[i, 3], w.minv[i, 4], w.minv[i, 5]
                    nx, ny, nz = symmetric_times(inverse, nx, ny, nz)
                    u[o], u[o + 1], u[o + 2] = u[o] + nx, u[o + 1] + ny, u[o + 2] + nz
                    u[o + 3], u[o + 4], u[o + 5] = u[o + 3] + m * fx, u[o + 4] + m * fy, u[o + 5] + m * fz
    return 0


@outlined
def _extrapolate(known, impulses, h, lam):
    """Fill lam with the extrapolated impulses of a step of h, corrected by the remaining errors of the last ones.

    Rows of `impulses`: impulses, divided by the step, that would have closed the joints exactly in the last step and in
    the one before; excess impulses X of those two steps, gap = h A X. The next step starts with that gap and a speed of
    (gap - gap before) / h, and closes the joints with as much less: 2 X - X before.
    """
    for r in range(len(lam)):
        last, before, over, over_before = impulses[0, r], impulses[1, r], impulses[2, r], impulses[3, r]
        expected = 2.0 * last - before if known[0] > 1 else last
        lam[r] = h * expected - (2.0 * over - over_before)
        impulses[0, r], impulses[1, r], impulses[2, r], impulses[3, r] = expected, last, 0.0, over
    known[0] = min(known[0] + 1, 2)


@outlined
def _is_stable(balls, h, force, k):
    """Return whether a step h is stable under the forces of the joints; see `methods/multipliers/pieces.py`."""
    for i in range(len(k)):
        k[i] = 0.0
    largest = 0.0
    for c in range(len(balls.link)):
        x, y, z = force[0, 3 * c], force[0, 3 * c + 1], force[0, 3 * c + 2]
        size = math.sqrt(x * x + y * y + z * z)
        for end in range(2):
            i = balls.link[c, end]
            if i >= 0:
                k[i] += size * balls.mobility[c, end]
                largest = max(largest, k[i])
    return h * h * largest <= _LIMIT * _LIMIT


@inner
def _close(balls, structure, h, tolerance, work, report):
    """Solve for the impulses that close the joints after a flight of h; return 0, Status.OPEN_LOOP or INFEASIBLE."""
    w = work
    worst, last, turned = 0.0, np.inf, 0.0
    for iteration in range(MAX_ITERATIONS):
        turned = fly(w.bodies, h, iteration > 0)
        worst, at = _set_gaps(balls, h, w.bodies, w.rhs)
        report[0], report[1], report[2] = iteration, worst, at
        near = worst <= tolerance or (worst < GAP_ALLOWED and worst > 0.5 * last)
        if (near and iteration > 0) or not worst < 1e100:
            break
        if worst > 0.05 * last and w.factor_age[_STEPS] > 0.0 and _refactor(balls, structure, w, report) != 0:
            return Status.INFEASIBLE
        last = worst
        solve(structure, w.factored, w.rhs, w.lam)
        for r in range(len(w.lam)):
            w.impulses[0, r] += w.lam[r] / h
        if near:
            for r in range(len(w.lam)):
                w.impulses[2, r] = -w.lam[r]
            break
        _add_impulses(balls, w.levers, w.lam, w.bodies)
    w.factor_age[_STEPS] += 1.0
    w.factor_age[_ROTATED] += math.sqrt(turned)
    return 0 if worst <= max(GAP_ALLOWED, tolerance) else Status.OPEN_LOOP


@inner
def _one_step(balls, structure, h, tolerance, wrenches, work, report):
    """One step; levers and factor are ready for the next afterwards. Return a status."""
    w = work
    apply_gravity(w.bodies, 0.5 * h, balls.gravity)
    _add_wrenches(balls, 0.5 * h, wrenches, w.bodies)
    _extrapolate(w.known, w.impulses, h, w.lam)
    _add_impulses(balls, w.levers, w.lam, w.bodies)
    status = _close(balls, structure, h, tolerance, work, report)
    if status != 0:
        return status
    if not _is_stable(balls, h, w.impulses, w.stiffness):
        return Status.NOT_CONVERGED
    accept_poses(w.bodies, True)
    apply_gravity(w.bodies, 0.5 * h, balls.gravity)
    _add_wrenches(balls, 0.5 * h, wrenches, w.bodies)
    bad = first_not_finite(w.bodies)
    if bad >= 0:
        return Status.NOT_FINITE + bad
    if w.factor_age[_STEPS] >= _MAX_STEPS or w.factor_age[_ROTATED] > _MAX_ROTATION:
        return _refactor(balls, structure, w, report)
    _set_levers(balls, w.bodies, w.levers)
    return 0


@inner
def _begin(balls, structure, pose, u, work, report):
    """Set the state, unless it is unchanged since the last step; return 0 or Status.INFEASIBLE."""
    w = work
    known = w.known[0] > 0 and w.factor_age[_STEPS] >= 0.0
    for k in range(len(u)):
        known = known and u[k] == w.reported[k]
    take_poses(pose, w.bodies)
    if known and w.factor_age[_VALID] == 0.0:
        restore_rotations(w.factor_rotations, w.bodies)
        steps, turned = w.factor_age[_STEPS], w.factor_age[_ROTATED]
        if _refactor(balls, structure, w, report) != 0:
            return Status.INFEASIBLE
        w.factor_age[_STEPS], w.factor_age[_ROTATED] = steps, turned
    accept_poses(w.bodies, False)
    if not known:
        set_momenta(u, w.bodies)
        return _refactor(balls, structure, w, report)
    _set_levers(balls, w.bodies, w.levers)
    return 0


@outlined
def _reset_extrapolation(w):
    """Discard the impulses of the steps before."""
    w.known[0] = 0
    for r in range(len(w.lam)):
        w.impulses[0, r] = w.impulses[2, r] = w.impulses[3, r] = 0.0


@outlined
def _restart(balls, structure, w, report):
    """Restore the saved state, without extrapolation and with a new factor; return 0 or Status.INFEASIBLE."""
    _reset_extrapolation(w)
    restore_state(w.saved, w.bodies)
    accept_poses(w.bodies, False)
    status = _project_velocities(balls, structure, w, w.reported)
    if status != 0:
        return status
    set_momenta(w.reported, w.bodies)
    return _refactor(balls, structure, w, report)


@kernel
def take_ball_steps(
    # model
    balls, structure,
    # in
    n, substeps, h, tolerance, wrenches,
    # out
    pose, u, work, report,
):  # fmt: skip
    """Take n steps of `substeps` times h; stop at the first that fails and restore the state before it.

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
        report: (4,) corrections, remaining gap, its row, node of a failed pivot.

    Returns:
        steps taken, and 0, Status.NOT_FINITE + velocity, Status.OPEN_LOOP, INFEASIBLE or NOT_CONVERGED: the step would
        not be stable.
    """
    w = work
    status = _begin(balls, structure, pose, u, work, report)
    if status != 0:
        return 0, status
    taken, restarted = 0, False
    while taken < n:
        if not restarted:
            save_state(w.bodies, w.saved)
        for _ in range(substeps):
            status = _one_step(balls, structure, h, tolerance, wrenches, work, report)
            if status != 0:
                break
        if status == Status.OPEN_LOOP and not restarted:
            # extrapolation fails where joints become dependent on others, or independent
            restarted, status = True, _restart(balls, structure, w, report)
            if status == 0:
                continue
        if status != 0:
            break
        taken, restarted = taken + 1, False
    if status != 0:
        _reset_extrapolation(w)
        if taken == 0:
            return 0, status
        restore_state(w.saved, w.bodies)
        accept_poses(w.bodies, False)
    set_poses(w.bodies, pose)
    fitted = _project_velocities(balls, structure, w, u)
    for k in range(len(u)):
        w.reported[k] = u[k]
    return taken, status if status != 0 else fitted
