"""Fast assembly: errors and rows, conjugate residuals, displacements, repeated until the constraints hold.

    repeat at most `outer` times                                          correction(q), section 3.4
        e, J at the poses                                                 compute_entries(q + dq, M, J, b), b = -e
        A lam = -e,  A = J M^-1 J^T + C,  with at most `inner` iterations equation (13)
        d = M^-1 J^T lam,  rotations of one solid clamped at `clamp`      truncated rotations, 0.8 rad
        x += dx,  q <- exp(dtheta) q

An inequality row is active while it is violated, or while it pushes (`displacement_sided.py`). A compliant tracker
(stiffness k, damping c) over a step h has the compliance 1 / (h (h k + c)) and pulls by the error at the end of the
step, e_end - c / (h k + c) e_start: no derivative of its target is needed.

Guarded iterations, those of mode kinematic and of assembly from hopeless starts, are Levenberg and Marquardt's: rows
have the compliance mu times their mobility, an iteration that increases the weighted errors is undone and mu raised.
Structures out of reach of what they are drawn to come to rest at a least-squares pose.

Geometric stiffness: a joint acts on a body with force f at the lever l from its com. When the body turns by t the
torque changes by (t x l) x f, which makes a body under tension oscillate at w, w^2 = l f / I. Mode damped takes torques
where the free flight ends, which is stable up to (w h)^2 = 4/3 only: rods on strings flip back and forth at 12 steps a
second however exactly the joints are closed. Torques at the end of the step are unconditionally stable; to first order
they are

    (I + h^2 S) t = h^2 torque,   S = 2 sum of |f| |l| (1 - l l^T / l^2)

with the forces of the last step; twice, since neighbours at a joint swing against each other. S is reduced such that
(w h)^2 up to a half has no effect: there the step is the paper's to the bit.

Reference: Faure 1998, section 3.3, equations (12) and (13), and section 3.4.
"""

from __future__ import annotations

import math

from limberjack._jit import inner, kernel, outlined
from limberjack.constraints.rows import LEVER_A, LEVER_B
from limberjack.linear.krylov import FAILED, solve_krylov
from limberjack.linear.tree_preconditioner import solve_tree_preconditioned
from limberjack.maximal.bodies import AFFINE, PARTICLE, PLANAR
from limberjack.maximal.displacement_contacts import touches
from limberjack.maximal.displacement_drives import set_mobility, set_soft_forces, soft_compliance
from limberjack.maximal.displacement_limits import (
    enforce_limits,
    limit_displacements,
    soften_trackers,
    update_active_limits,
)
from limberjack.maximal.displacement_rows import LEVER, MAX_FORCE, SOFT, evaluate_errors, weighted_error, worst_error
from limberjack.maximal.displacement_sided import clamp_sided, remove_friction, shorten, sweep_rows, update_active_rows
from limberjack.spatial.quaternions import quaternion_exp, quaternion_multiply, rotation_from_quaternion
from limberjack.spatial.vectors import rotate_symmetric

__all__ = [
    "ASSEMBLE_ONLY",
    "SOLVE",
    "SOLUTION_GIVEN",
    "correct",
    "clamp_multipliers",
    "displace",
    "has_soft",
    "move_solids",
    "set_metric",
    "set_rhs",
    "set_geometric_stiffness",
    "set_step_rhs",
    "solve_step",
    "solve_rows",
    "start_step",
    "add_geometric_stiffness",
]

# (w h)^2 up to which geometric stiffness has no effect.
_LONG = 0.5
SOLVE, ASSEMBLE_ONLY, SOLUTION_GIVEN = range(3)
# Passes over the joints that bring them back within their limits; one suffices but for cones and compound joints.
_PASSES = 4
# Damping of guarded iterations: factors after a good and after a bad one, the first, and the least.
_LESS, _MORE, _FIRST, _UNDAMPED = 0.25, 8.0, 1e-2, 1e-7
# Solves in one correction, until the active set of one-sided rows is consistent, and sweeps if it is not.
_MAX_SOLVES, _SWEEPS = 6, 12


@inner
def _add_lever(state, k, o, size, i, geometric_stiffness):
    """Add |f| |l| (1 - l l^T / l^2) for the lever at column o of pair k to body i."""
    x, y, z = state[k, o], state[k, o + 1], state[k, o + 2]
    square = x * x + y * y + z * z
    if square > 0.0:
        s = size * math.sqrt(square)
        g = s / square
        geometric_stiffness[i, 0] += s - g * x * x
        geometric_stiffness[i, 1] += s - g * y * y
        geometric_stiffness[i, 2] += s - g * z * z
        geometric_stiffness[i, 3] -= g * x * y
        geometric_stiffness[i, 4] -= g * x * z
        geometric_stiffness[i, 5] -= g * y * z


@outlined
def set_geometric_stiffness(
    # model
    table, system, joint_count,
    # in
    scale, state, jacobian, lam_total,
    # out
    geometric_stiffness,
):  # fmt: skip
    """Fill h^2 S of all bodies.

    Args:
        table: rows of the model.
        system: the constraints.
        joint_count: how many of them are joints.
        scale: squared ratio of this step to the last.
        state: of pairs.
        jacobian: rows.
        lam_total: multipliers of the last step, h^2 times forces.
        geometric_stiffness: (n, 6) xx yy zz xy xz yz.
    """
    for i in range(len(geometric_stiffness)):
        for k in range(6):
            geometric_stiffness[i, k] = 0.0
    for c in range(joint_count):
        first, t = system.row_start[c], system.incidence_start[c]
        k = table.row_pair[first, 0]
        if k < 0 or table.row_pair[first, 1] >= 0:
            continue
        x = y = z = 0.0
        for r in range(first, system.row_start[c + 1]):
            o = system.block_start[t] + 6 * (r - first) + 3
            x, y, z = (
                x + jacobian[o] * lam_total[r],
                y + jacobian[o + 1] * lam_total[r],
                z + jacobian[o + 2] * lam_total[r],
            )
        size = scale * math.sqrt(x * x + y * y + z * z)
        if table.pair_link[k, 0] >= 0:
            _add_lever(state, k, LEVER_A, size, table.pair_link[k, 0], geometric_stiffness)
        if table.pair_link[k, 1] >= 0:
            _add_lever(state, k, LEVER_B, size, table.pair_link[k, 1], geometric_stiffness)


@inner
def _invert(a, b, c, d, e, f):
    """Return the inverse of a symmetric matrix xx yy zz xy xz yz."""
    p, q, r = b * c - f * f, e * f - d * c, d * f - e * b
    g = 1.0 / (a * p + d * q + e * r)
    return g * p, g * (a * c - e * e), g * (a * b - d * d), g * q, g * r, g * (d * e - a * f)


@outlined
def add_geometric_stiffness(geometric_stiffness, minv):
    """Replace inverse inertias by those of I + h^2 S, where bodies oscillate fast relative to the step."""
    for i in range(len(geometric_stiffness)):
        s, m = geometric_stiffness, minv
        fast = m[i, 0] * s[i, 0] + m[i, 1] * s[i, 1] + m[i, 2] * s[i, 2]
        fast += 2.0 * (m[i, 3] * s[i, 3] + m[i, 4] * s[i, 4] + m[i, 5] * s[i, 5])
        if not fast > _LONG or m[i, 0] * m[i, 1] * m[i, 2] == 0.0:
            continue
        f = 2.0 * (1.0 - _LONG / fast)
        own = _invert(m[i, 0], m[i, 1], m[i, 2], m[i, 3], m[i, 4], m[i, 5])
        new = _invert(
            own[0] + f * s[i, 0], own[1] + f * s[i, 1], own[2] + f * s[i, 2], own[3] + f * s[i, 3],
            own[4] + f * s[i, 4], own[5] + f * s[i, 5],
        )  # fmt: skip
        m[i, 0], m[i, 1], m[i, 2], m[i, 3], m[i, 4], m[i, 5] = new


@outlined
def set_metric(
    # model
    kinds, metric,
    # in
    physical, free, pose,
    # out
    minv,
):  # fmt: skip
    """Fill the inverse masses in world axes; zero for fixed solids."""
    m = metric
    for i in range(len(metric)):
        s = (m[i, 0], m[i, 1], m[i, 2], m[i, 3], m[i, 4], m[i, 5])
        if physical and kinds[i] != PLANAR:
            r = rotation_from_quaternion(pose[i, 3], pose[i, 4], pose[i, 5], pose[i, 6])
            s = rotate_symmetric(r, s)
        f = free[i]
        minv[i, 0], minv[i, 1], minv[i, 2] = f * s[0], f * s[1], f * s[2]
        minv[i, 3], minv[i, 4], minv[i, 5] = f * s[3], f * s[4], f * s[5]
        minv[i, 6] = f * m[i, 6]


@inner
def start_step(
    # model
    net,
    # out
    w,
):  # fmt: skip
    """Clear the accumulated multipliers, and store the errors of the start of a step."""
    for r in range(len(w.lam_total)):
        w.lam_total[r] = 0.0
        w.start_error[r] = w.residual[r]
    for t in range(len(w.tracked)):
        for k in range(6):
            w.start_residual[t, k] = w.residual[net.rows[4] + 6 * t + k]
            w.saturated[t, k] = 0
    for c in range(net.ends[0], net.ends[1]):
        w.active[c] = 0


@inner
def _set_tracker_rhs(system, h, scale, i, t, residual, lam_total, track, start_residual, saturated, b, c, j):
    """Fill the right sides of tracker t, constraint i: compliant over a step h, or without effect where h is 0."""
    first = system.row_start[i]
    for k in range(6):
        r, o = first + k, system.block_start[system.incidence_start[i]] + 6 * k
        if track[t, SOFT] > 0.0 and (h == 0.0 or saturated[t, k] == 1):
            # at its largest force, whatever the error
            b[r] = 0.0
            for d in range(6):
                j[o + d] = 0.0
            continue
        f = 1.0 if k < 3 else track[t, LEVER] * track[t, LEVER]
        stiffness, damping = f * track[t, SOFT], f * track[t, SOFT + 1]
        if stiffness > 0.0:
            give = h * stiffness + damping
            c[r] = 1.0 / (h * give)
            b[r] = -scale * (residual[r] - damping / give * start_residual[t, k]) - c[r] * lam_total[r]


@outlined
def set_rhs(
    # model
    system, ends, soft,
    # in
    h, scale, damping, weight, residual, open, soft_force, soft_slope, mobility, lam_total, jacobian, track,
    start_residual, saturated, slides,
    # out
    active, b, c, j,
):  # fmt: skip
    """Fill right sides, compliances and the active rows.

    Args:
        system: the constraints.
        ends, soft: see `Net`.
        h: length of the step that soft rows act over [s]; 0 where they do not act.
        scale: of the right side: 1 for displacements, 1/h for impulses.
        damping: compliance of rows relative to their mobility over their weight.
        weight: of the errors of constraints.
        residual: errors.
        open: errors that are left as they are.
        soft_force, soft_slope, mobility: of soft rows.
        lam_total: multipliers accumulated over the step.
        jacobian: rows of all constraints.
        track, start_residual, saturated: of trackers.
        slides: which contacts slip.
        active: which constraints are active.
        b, c: right sides and compliances.
        j: rows of the active constraints.
    """
    for i in range(len(active)):
        first = system.row_start[i]
        if ends[0] <= i < ends[1] or ends[3] <= i < ends[4]:
            # its accumulated multiplier says whether it pushes
            pushes = active[i] == 1 and lam_total[first] > 0.0
            active[i] = 1 if residual[first] - open[first] < 0.0 or pushes else 0
        if soft[first]:
            active[i] = 1 if h > 0.0 else 0
        acts = float(active[i])
        for o in range(
            system.block_start[system.incidence_start[i]], system.block_start[system.incidence_start[i + 1]]
        ):
            j[o] = acts * jacobian[o]
        for r in range(first, system.row_start[i + 1]):
            b[r], c[r] = -acts * scale * (residual[r] - open[r]), acts * damping * mobility[r] / weight[i]
            if soft[r] and h > 0.0:
                c[r] = soft_compliance(h, r, soft_slope, mobility)
                b[r] = c[r] * (scale * h * h * soft_force[r] - lam_total[r])
        if ends[3] <= i < ends[4] and (h == 0.0 or slides[i - ends[3]] == 1):
            remove_friction(system, i, j, b)
        if i >= ends[4] and active[i] == 1:
            _set_tracker_rhs(
                system, h, scale, i, i - ends[4], residual, lam_total, track, start_residual, saturated, b, c, j
            )


@outlined
def clamp_multipliers(
    # model
    rows,
    # in
    most, tracked, track,
    # out
    lam, lam_total, saturated,
):  # fmt: skip
    """Clamp accumulated multipliers of soft trackers at their largest force.

    Args:
        rows: see `Net`.
        most: the multiplier of a force of 1 N; 0 where trackers are rigid.
        tracked, track: of trackers.
        lam: multipliers of the last solve.
        lam_total: their sum over the step.
        saturated: which are clamped.
    """
    for t in range(len(tracked)):
        if most > 0.0 and tracked[t] >= 0 and track[t, SOFT] > 0.0:
            for k in range(6):
                r = rows[4] + 6 * t + k
                cap = most * track[t, MAX_FORCE] * (1.0 if k < 3 else track[t, LEVER])
                new = min(max(lam_total[r], -cap), cap)
                if new != lam_total[r]:
                    lam[r] += new - lam_total[r]
                    lam_total[r] = new
                    saturated[t, k] = 1


@inner
def solve_step(
    # model
    net,
    # in
    h, scale, inner_most, tolerance, center,
    # out
    w,
):  # fmt: skip
    """Solve for the multipliers of one iteration of a step, limits and contacts one-sided; fill f and correction.

    Args:
        net: the constraints.
        h: length of the step that soft rows act over [s].
        scale: of right sides: 1 for displacements, 1/h for impulses.
        inner_most, tolerance: as of `correct`.
        center: (n, 3 or more) com of the solids the rows belong to.
        w: work.

    Returns:
        status of the last solve, and solver iterations of all.
    """
    system, ends = net.system, net.ends
    total, status = 0, 0
    set_step_rhs(net, h, scale, w)
    sided = ends[0] < ends[1] or ends[3] < ends[4]
    most = scale * h * h
    for turn in range(_MAX_SOLVES if sided else 1):
        status = solve_rows(net, inner_most, tolerance, center, w)
        total += int(w.solve[0])
        clamp_multipliers(net.rows, most, w.tracked, w.track, w.lam, w.lam_total, w.saturated)
        displace(system, w.jacobian, w.lam, w.minv, w.f, w.correction)
        if turn == _MAX_SOLVES - 1 or not sided:
            break
        leave = turn < _MAX_SOLVES - 2
        if not update_active_rows(
            system, ends, leave, h > 0.0, scale, w.residual, w.open, w.jacobian, w.correction, w.friction, w.active,
            w.slides, w.j, w.b, w.lam, w.lam_total,
        ):  # fmt: skip
            break
    if sided and (clamp_sided(system, ends, w.friction, w.lam, w.lam_total) or _any_slides(w.slides, w.contact_link)):
        set_mobility(system, 0, len(w.active), w.jacobian, w.minv, w.mobility)
        displace(system, w.jacobian, w.lam, w.minv, w.f, w.correction)
        shorten(system, ends, scale, w.residual, w.open, w.jacobian, w.b, w.c, w.lam, w.lam_total, w.correction)
        sweep_rows(
            system, ends, _SWEEPS, h > 0.0, scale, most, w.residual, w.open, w.friction, w.track, w.saturated,
            w.jacobian, w.mobility, w.minv, w.b, w.c, w.active, w.lam, w.lam_total, w.correction,
        )  # fmt: skip
        displace(system, w.jacobian, w.lam, w.minv, w.f, w.correction)
    return status, total


@inner
def _any_slides(slides, contact_link):
    """Return whether any contact slips."""
    for k in range(len(slides)):
        if slides[k] == 1 and contact_link[k, 0] >= 0:
            return True
    return False


@inner
def set_step_rhs(net, h, scale, w):
    """Fill the right sides of all rows, see `set_rhs`."""
    set_rhs(
        net.system, net.ends, net.soft, h, scale, w.damping[0], w.krylov.weight, w.residual, w.open, w.soft_force,
        w.soft_slope, w.mobility, w.lam_total, w.jacobian, w.track, w.start_residual, w.saturated, w.slides, w.active,
        w.b, w.c, w.j,
    )  # fmt: skip


@inner
def solve_rows(
    # model
    net,
    # in
    inner_most, tolerance, center,
    # out
    w,
):  # fmt: skip
    """Solve equation (13) for the multipliers and accumulate them; return the status of the solve."""
    status = solve_krylov(net.system, w.minv, w.j, w.c, w.b, center, inner_most, tolerance, w.krylov, w.lam, w.solve)
    # contacts are too many for the few products that the tree's solves leave time for
    if w.solve[2] > w.factored[0] and not touches(w.contact_link):
        done = w.solve[0]
        if (
            solve_tree_preconditioned(
                net.system, w.minv, w.j, w.c, w.b, center, inner_most, tolerance, w.tree, w.lam, w.solve
            )
            == FAILED
        ):
            status = solve_krylov(
                net.system, w.minv, w.j, w.c, w.b, center, inner_most, tolerance, w.krylov, w.lam, w.solve
            )
        w.solve[0] += done
    _accumulate(net, w)
    return status


@inner
def _accumulate(net, w):
    """Add the multipliers of a solve to the accumulated ones."""
    # recycled solutions may have multipliers of rows that are not active now
    start = net.system.row_start
    for c in range(len(w.active)):
        for r in range(start[c], start[c + 1]):
            if w.active[c] == 0 or (c >= net.ends[4] and w.saturated[c - net.ends[4], r - start[c]] == 1):
                w.lam[r] = 0.0
            w.lam_total[r] += w.lam[r]


@outlined
def displace(
    # model
    system,
    # in
    jacobian, lam, minv,
    # out
    f, d,
):  # fmt: skip
    """Fill f with J^T lam and d with M^-1 f.

    The rows of all constraints are used, since clamping may have changed a multiplier of one that is not active.
    """
    # Section 3.3: M^-1 J^T (J M^-1 J^T)^-1 b
    m = minv
    for k in range(len(f)):
        f[k] = 0.0
    for c in range(len(system.incidence_start) - 1):
        for t in range(system.incidence_start[c], system.incidence_start[c + 1]):
            o, k = 6 * system.incidence_body[t], system.block_start[t]
            for r in range(system.row_start[c], system.row_start[c + 1]):
                x = lam[r]
                for i in range(6):
                    f[o + i] += jacobian[k + i] * x
                k += 6
    for i in range(len(m)):
        o = 6 * i
        x, y, z = f[o], f[o + 1], f[o + 2]
        d[o] = m[i, 0] * x + m[i, 3] * y + m[i, 4] * z
        d[o + 1] = m[i, 3] * x + m[i, 1] * y + m[i, 5] * z
        d[o + 2] = m[i, 4] * x + m[i, 5] * y + m[i, 2] * z
        d[o + 3], d[o + 4], d[o + 5] = m[i, 6] * f[o + 3], m[i, 6] * f[o + 4], m[i, 6] * f[o + 5]


@outlined
def move_solids(
    # model
    kinds,
    # in
    clamp, d,
    # out
    pose,
):  # fmt: skip
    """Displace all solids, rotations clamped at `clamp` (section 3.4)."""
    for i in range(len(kinds)):
        o, kind = 6 * i, kinds[i]
        pose[i, 0] += d[o + 3]
        pose[i, 1] += d[o + 4]
        if kind != PLANAR:
            pose[i, 2] += d[o + 5]
        if kind == PARTICLE or kind == AFFINE:
            continue
        x, y, z = d[o], d[o + 1], d[o + 2]
        size = math.sqrt(x * x + y * y + z * z)
        if size > clamp:
            f = clamp / size
            x, y, z = f * x, f * y, f * z
        w, a, b, c = quaternion_multiply(quaternion_exp(x, y, z), (pose[i, 3], pose[i, 4], pose[i, 5], pose[i, 6]))
        f = 1.0 / math.sqrt(w * w + a * a + b * b + c * c)
        pose[i, 3], pose[i, 4], pose[i, 5], pose[i, 6] = f * w, f * a, f * b, f * c


@inner
def has_soft(
    # in
    h, tracked, track,
):  # fmt: skip
    """Return whether any tracker is compliant over steps of h."""
    soft = False
    for t in range(len(tracked)):
        soft = soft or (h > 0.0 and tracked[t] >= 0 and track[t, SOFT] > 0.0)
    return soft


@inner
def _store(w, e, pose):
    """Store poses and angles before an iteration."""
    for i in range(len(pose)):
        for k in range(7):
            w.last_pose[i, k] = pose[i, k]
    for t in range(len(w.last_near)):
        w.last_near[t] = e.near[t]


@inner
def _undo(w, e, pose):
    """Undo an iteration that has increased the errors, and damp the next ones more."""
    for i in range(len(pose)):
        for k in range(7):
            pose[i, k] = w.last_pose[i, k]
    for t in range(len(w.last_near)):
        e.near[t] = w.last_near[t]
    for k in range(len(w.krylov.recycled)):
        w.krylov.recycled[k] = 0.0
    w.damping[0] = max(_MORE * w.damping[0], _FIRST)


@kernel
def correct(
    # model
    setup, net, drives,
    # in
    given, physical, time, h, outer, inner_most, tolerance, solver_tolerance, clamp, u, e,
    # out
    pose, reads, w,
):  # fmt: skip
    """Move the solids until all constraints hold: `correction` of section 3.4.

    Args:
        setup: the model in maximal coordinates.
        net: its constraints.
        drives: of its joints, where they are soft rows.
        given: SOLVE to solve here; ASSEMBLE_ONLY to stop where a solve is due, its matrix in `w`; SOLUTION_GIVEN to go
            on with its solution.
        physical: whether to use the physical metric, or the unit metric.
        time: of driven coordinates [s].
        h: length of the step soft rows and soft trackers act over [s]; 0 where they do not act.
        outer: maximum of assembly iterations.
        inner_most: maximum of solver iterations in each.
        tolerance: largest error at which iterations end [m, rad].
        solver_tolerance: residual relative to the right side at which a solve ends.
        clamp: largest rotation of a solid in one iteration [rad].
        u: velocities; errors do not depend on them.
        e: evaluation of the model's own rows.
        pose: (n, POSE) the solids.
        reads: of coordinates of joints.
        w: work; its report has iterations, the largest error, its row, the last solver status and the norm of errors.
            `start_step` begins a step. Errors in `open` are left as they are.

    Returns:
        0, or 1 where an error is not finite: the poses are invalid then.
    """
    metric, least = (net.physical if physical else net.unit), 0.0
    guarded = given == SOLVE and w.damping[1] > 0.0
    soft = h > 0.0 and (has_soft(h, w.tracked, w.track) or net.soft_count[0] > 0)
    count, total, status, kinds, report, limited = 0, 0, 0, setup.bodies.kind, w.report, len(w.limit_order) > 0
    while True:
        evaluate_errors(setup, net, time, False, True, pose, u, e, w)
        for turn in range(_PASSES if limited else 0):
            if not enforce_limits(
                setup.table, net.system.row_start, w.limit_order, net.ends, count + turn == 0, w.residual, e, w.active,
                w.lam_total, w.limit_moves, pose,
            ):  # fmt: skip
                break
            evaluate_errors(setup, net, time, False, True, pose, u, e, w)
        if guarded:
            if count == 0:
                set_metric(kinds, metric, physical, w.free, pose, w.minv)
                set_mobility(net.system, 0, len(w.active), w.jacobian, w.minv, w.mobility)
            size = weighted_error(
                net.rows, net.soft, w.residual, w.open, w.mobility, w.krylov.weight, net.system.row_start
            )
            if count > 0 and not size <= least:
                _undo(w, e, pose)
                evaluate_errors(setup, net, time, False, True, pose, u, e, w)
            else:
                _store(w, e, pose)
                least = size
                w.damping[0] = _LESS * w.damping[0] if w.damping[0] > _UNDAMPED else 0.0
        worst, at, norm = worst_error(net.rows, net.soft, w.residual, w.open, w.track)
        if count >= outer or not (worst > tolerance or (soft and count == 0)) or not worst < 1e100:
            break
        if given != SOLUTION_GIVEN:
            set_metric(kinds, metric, physical, w.free, pose, w.minv)
            add_geometric_stiffness(w.geometric_stiffness, w.minv)
            if soft and net.soft_count[0] > 0:
                set_mobility(net.system, 0, net.ends[3], w.jacobian, w.minv, w.mobility)
                set_soft_forces(
                    setup, net, drives, h, pose, w.residual, w.start_error, e, reads, w.soft_force, w.soft_slope
                )
        if limited:
            status, done = _solve_within_limits(net, inner_most, solver_tolerance, pose, w)
            total += done
            limit_displacements(clamp, w.correction)
        elif given == SOLVE:
            status, done = solve_step(net, h, 1.0, inner_most, solver_tolerance, pose, w)
            total += done
        elif given == ASSEMBLE_ONLY:
            set_step_rhs(net, h, 1.0, w)
            break
        else:
            _accumulate(net, w)
            clamp_sided(net.system, net.ends, w.friction, w.lam, w.lam_total)
            displace(net.system, w.jacobian, w.lam, w.minv, w.f, w.correction)
        move_solids(kinds, clamp, w.correction, pose)
        count += 1
    report[0], report[1], report[2], report[3], report[4], report[5] = count, total, worst, at, status, norm
    return 0 if worst < 1e100 else 1


@inner
def _solve_within_limits(net, inner_most, tolerance, pose, w):
    """Solve until the active set of limits is consistent, with compliant trackers; return status and iterations."""
    status, total = 0, 0
    for turn in range(_MAX_SOLVES):
        set_step_rhs(net, 0.0, 1.0, w)
        soften_trackers(net.unit, net.rows[4], w.tracked, w.b, w.c)
        status = solve_rows(net, inner_most, tolerance, pose, w)
        total += int(w.solve[0])
        displace(net.system, w.jacobian, w.lam, w.minv, w.f, w.correction)
        if turn == _MAX_SOLVES - 1 or not update_active_limits(
            net.system, net.ends, w.residual, w.jacobian, w.correction, w.active, w.lam, w.lam_total
        ):
            break
    return status, total
