"""Steps by displacement: move freely, assemble, and take the displacement that was made for the next step.

| mode | state | a step of h |
|---|---|---|
| conserving | p, L world | p, L += f (h + h_last)/2; repeat: fly h; (p, L) += J_0^T lam, A_0 lam = -(e - e_0)/h |
| damped | u = Dq/h | p, L = M u + f (h + h_last)/2; fly h; q += dq, the correction; u = displacement made / h |
| kinematic | - | q += dq, in the unit metric |

Mode damped is the paper's step(dt): Dq += M^-1 f dt^2; q += Dq; dq = correction(q); q += dq; Dq += dq. h_last is the
step before, 0 at the start: the first displacement is v h + a h^2 / 2. J_0 and A_0 belong to the poses at the start of
the step, so that impulses are pairs of opposite wrenches at one point then: momentum is conserved to rounding. L turns
a body over h by t with t = h I(exp(t/2) R)^-1 L, which needs no gyroscopic term: taken at the start of a step, that
term makes rods on strings spin ever faster. In mode damped L is M u with the inertia at the middle of the last step,
where u belongs.

Few iterations leave errors e_0. Closed by the motion of the next step they would become velocities e_0 / h, the more
the shorter the step, and energy from nothing. Where that energy is not negligible relative to the kinetic energy, the
motion leaves e_0 as it is, and a second correction, which changes no velocity, closes the joints.

Where impulses along the rows of the start cannot close the joints at its end, since displacements within the step are
too large or iterations too few, the step is repeated in mode damped. Steps with contacts are damped ones: what closes
within a step loses energy anyhow.

Velocities at the end of a conserving step are M^-1 ((p, L) + f h_last/2), projected onto the rows when they are read.

Reference: Faure 1998, section 4.2.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from limberjack._jit import inner, kernel, outlined
from limberjack.errors import Status
from limberjack.maximal.bodies import PARTICLE, PLANAR, RIGID, midpoint_rotation, rotated, world_inertia
from limberjack.maximal.displacement_contacts import SLOP, find_slots, leave_overlaps, touches
from limberjack.maximal.displacement_drives import add_soft_forces, apply_soft_forces, set_mobility, set_soft_forces
from limberjack.maximal.displacement_rows import evaluate_errors, worst_error
from limberjack.maximal.displacement_solve import (
    SOLVE,
    correct,
    displace,
    has_soft,
    set_geometric_stiffness,
    set_metric,
    set_step_rhs,
    solve_rows,
    solve_step,
    start_step,
)
from limberjack.maximal.forces import count_turns, forces
from limberjack.spatial.quaternions import quaternion_exp, quaternion_log, quaternion_multiply, rotation_from_quaternion
from limberjack.spatial.vectors import cross, rotate, rotate_back, symmetric_times

__all__ = ["CONSERVING", "DAMPED", "KINEMATIC", "Motion", "take_displacements"]

CONSERVING, DAMPED, KINEMATIC = range(3)
_HUGE = 1e150
# Impulses close the joints where they leave this part of the errors that the motion makes, or errors below the next
# [m, rad].
_LEFT, _SMALL = 0.1, 1e-9
# Gap up to which a contact that closes has no velocity when velocities are read [m].
_TOUCHES = 1e-6
# Squared product of step and frequency of springs under tension beyond which a step is divided, until it is 1, and into
# how many pieces at most.
_UNRESOLVED, _MOST_PIECES = 2.0, 64
# Squared product of half a step and the frequency of a soft row up to which its force is kept over the half step.
_WEAK = 1e-3
# Energy of closing errors by motion, relative to the kinetic energy, up to which it is done.
_NEGLIGIBLE = 1e-6


class Motion(NamedTuple):
    """The motion of the solids besides their poses; n solids."""

    momentum: np.ndarray  # (6 n,) angular and linear momentum; in modes damped and kinematic the velocity Dq/h
    last: np.ndarray  # (1,) the step before [s]
    force: np.ndarray  # (6 n,) without the constraints
    before: np.ndarray  # (n, POSE)
    momentum_before: np.ndarray  # (6 n,)
    near: np.ndarray  # unwrapped angles at the start of a step
    body_force: np.ndarray  # (nu,) forces by the dofs of the bodies
    last_multipliers: np.ndarray  # (nr,) multipliers of the joints in the last step of mode damped
    damped_steps: np.ndarray  # (1,) steps of mode conserving that were repeated in mode damped
    saved: np.ndarray  # the state before a step that is taken in pieces


@outlined
def _to_solids(bodies, source, out):
    """Fill six numbers per solid from the numbers of each body."""
    for i in range(len(bodies.kind)):
        o, k, kind = bodies.start[i], 6 * i, bodies.kind[i]
        if kind == RIGID:
            for c in range(6):
                out[k + c] = source[o + c]
        else:
            for c in range(3):
                out[k + c] = 0.0
            out[k + 3], out[k + 4], out[k + 5] = source[o], source[o + 1], source[o + 2]
            if kind == PLANAR:
                out[k + 2], out[k + 5] = source[o + 2], 0.0


@outlined
def _from_solids(bodies, source, out):
    """Fill the numbers of each body from six per solid."""
    for i in range(len(bodies.kind)):
        o, k, kind = bodies.start[i], 6 * i, bodies.kind[i]
        if kind == RIGID:
            for c in range(6):
                out[o + c] = source[k + c]
        else:
            out[o], out[o + 1] = source[k + 3], source[k + 4]
            out[o + 2] = source[k + 2] if kind == PLANAR else source[k + 5]


@outlined
def _remove_gyroscopic(bodies, ends, pose, f):
    """Remove the gyroscopic torques from f: momenta in world axes do not have them."""
    for i in range(len(bodies.kind)):
        if bodies.kind[i] == RIGID:
            wx, wy, wz = ends[i, 12], ends[i, 13], ends[i, 14]
            lx, ly, lz = symmetric_times(world_inertia(i, RIGID, bodies, pose, ends), wx, wy, wz)
            x, y, z = cross(wx, wy, wz, lx, ly, lz)
            k = 6 * i
            f[k], f[k + 1], f[k + 2] = f[k] + x, f[k + 1] + y, f[k + 2] + z


@outlined
def _divide(minv, f, scale, out):
    """Fill out with scale M^-1 f."""
    m = minv
    for i in range(len(m)):
        k = 6 * i
        x, y, z = scale * f[k], scale * f[k + 1], scale * f[k + 2]
        out[k] = m[i, 0] * x + m[i, 3] * y + m[i, 4] * z
        out[k + 1] = m[i, 3] * x + m[i, 1] * y + m[i, 5] * z
        out[k + 2] = m[i, 4] * x + m[i, 5] * y + m[i, 2] * z
        for c in range(3, 6):
            out[k + c] = m[i, 6] * scale * f[k + c]


@outlined
def _free_flight(bodies, h, free, momentum, before, pose):
    """Move the poses in `before` by h with the momenta, into `pose`; fixed solids stay."""
    for i in range(len(bodies.kind)):
        for c in range(7):
            pose[i, c] = before[i, c]
        k, kind = 6 * i, bodies.kind[i]
        if free[i] == 0.0:
            continue
        f = h / bodies.mass[i]
        for c in range(3):
            pose[i, c] += f * momentum[k + 3 + c]
        if kind == PARTICLE:
            continue
        orientation = before[i, 3], before[i, 4], before[i, 5], before[i, 6]
        if kind == RIGID:
            x, y, z = midpoint_rotation(
                bodies.inertia, i, h, orientation, momentum[k], momentum[k + 1], momentum[k + 2]
            )
        else:
            x, y, z = 0.0, 0.0, h * momentum[k + 2] / bodies.inertia[i, 2]
        pose[i, 3], pose[i, 4], pose[i, 5], pose[i, 6] = rotated(orientation, x, y, z)


@outlined
def _set_errors_before(system, h, speeds, jacobian, residual, out):
    """Fill the errors a time h before, by the rates of the rows now."""
    for i in range(len(system.row_start) - 1):
        first = system.row_start[i]
        for r in range(first, system.row_start[i + 1]):
            out[r] = residual[r]
        for t in range(system.incidence_start[i], system.incidence_start[i + 1]):
            o, at = 6 * system.incidence_body[t], system.block_start[t]
            for r in range(first, system.row_start[i + 1]):
                for k in range(6):
                    out[r] -= h * jacobian[at + k] * speeds[o + k]
                at += 6


@inner
def _change_momenta(
    setup, net, drives, time, h, outer, inner_most, tolerance, solver_tolerance, pose, u, e, reads, w, motion,
):  # fmt: skip
    """Find momenta with which joints are no more open at the end of the step than at its start; return whether they do.

    SHAKE with the rows of its start.
    """
    soft, count, total, solved, first = net.soft_count[0] > 0, 0, 0, 0, 0.0
    at_least = 1 if soft or has_soft(h, w.tracked, w.track) else 0
    while True:
        _free_flight(setup.bodies, h, w.free, motion.momentum, motion.before, pose)
        evaluate_errors(setup, net, time + h, False, False, pose, u, e, w)
        worst, at, norm = worst_error(net.rows, net.soft, w.residual, w.open, w.track)
        first = worst if count == 0 else first
        if count >= outer or not (worst > tolerance or count < at_least) or not worst < 1e100:
            break
        if soft:
            set_soft_forces(
                setup, net, drives, h, pose, w.residual, w.start_error, e, reads, w.soft_force, w.soft_slope
            )
        solved, done = solve_step(net, h, 1.0 / h, inner_most, solver_tolerance, motion.before, w)
        for k in range(len(w.f)):
            motion.momentum[k] += w.free[k // 6] * w.f[k]
        count += 1
        total += done
    report = w.report
    report[0], report[1], report[2], report[3], report[4], report[5] = count, total, worst, at, solved, norm
    return worst <= max(_SMALL, _LEFT * first)


@outlined
def _closing_energy(rows, soft, h, mobility, open):
    """Return the kinetic energy of a motion that closes the errors `open` in a step h, row by row."""
    energy = 0.0
    for r in range(rows):
        if not soft[r] and mobility[r] > 0.0:
            energy += 0.5 * open[r] * open[r] / (mobility[r] * h * h)
    return energy


@inner
def _leave_open(net, h, first, momentum, w):
    """Decide which errors the motion leaves as they are: none where closing them takes little energy.

    Args:
        net: the constraints.
        h: the step [s].
        first: whether it is the first of a motion.
        momentum: (6 n,) with which the solids fly.
        w: work, with the rows at the start.

    Returns:
        Whether any are left.
    """
    for r in range(net.rows[1]):
        if first:
            w.open[r] = w.residual[r]
        if net.soft[r] or (r >= net.rows[0] and w.open[r] > 0.0):
            w.open[r] = 0.0
    most = 0.0
    for r in range(net.rows[1]):
        most = max(most, abs(w.open[r]))
    if most == 0.0:
        return False
    set_mobility(net.system, 0, net.ends[1], w.jacobian, w.minv, w.mobility)
    _divide(w.minv, momentum, 1.0, w.correction)
    energy = 0.0
    for k in range(len(momentum)):
        energy += 0.5 * momentum[k] * w.correction[k]
    keeps = _closing_energy(net.rows[1], net.soft, h, w.mobility, w.open) > _NEGLIGIBLE * energy
    if not keeps:
        for r in range(net.rows[1]):
            w.open[r] = 0.0
    return keeps


@outlined
def _displacement_made(h, before, pose, momentum):
    """Fill `momentum` with the velocities Dq/h of the displacement from `before` to `pose`."""
    for i in range(len(pose)):
        k = 6 * i
        back = (before[i, 3], -before[i, 4], -before[i, 5], -before[i, 6])
        w, x, y, z = quaternion_multiply((pose[i, 3], pose[i, 4], pose[i, 5], pose[i, 6]), back)
        x, y, z = quaternion_log(w, x, y, z)
        momentum[k], momentum[k + 1], momentum[k + 2] = x / h, y / h, z / h
        for c in range(3):
            momentum[k + 3 + c] = (pose[i, c] - before[i, c]) / h


@outlined
def _predict(bodies, momenta, last, force_time, free, momentum, force, pose, out):
    """Fill out with momenta plus the impulses of the forces; those of velocities are of the middle of the last step."""
    for i in range(len(pose)):
        k, kind, m = 6 * i, bodies.kind[i], free[i]
        x, y, z = momentum[k], momentum[k + 1], momentum[k + 2]
        if not momenta:
            m *= bodies.mass[i]
            if kind == RIGID:
                x, y, z = _middle_momentum(bodies, i, last, pose, x, y, z)
            else:
                x, y, z = 0.0, 0.0, (bodies.inertia[i, 2] * z if kind == PLANAR else 0.0)
        out[k], out[k + 1], out[k + 2] = free[i] * x, free[i] * y, free[i] * z
        for c in range(3):
            out[k + 3 + c] = m * momentum[k + 3 + c]
            out[k + c] += free[i] * force_time * force[k + c]
            out[k + 3 + c] += free[i] * force_time * force[k + 3 + c]


@inner
def _middle_momentum(bodies, i, last, pose, x, y, z):
    """Return the angular momentum of solid i that turned by `last` times (x, y, z), at half of the step."""
    g, f = bodies.inertia, -0.5 * last
    orientation = (pose[i, 3], pose[i, 4], pose[i, 5], pose[i, 6])
    w, a, b, c = quaternion_multiply(quaternion_exp(f * x, f * y, f * z), orientation)
    r = rotation_from_quaternion(w, a, b, c)
    x, y, z = rotate_back(r, x, y, z)
    x, y, z = symmetric_times((g[i, 0], g[i, 1], g[i, 2], g[i, 3], g[i, 4], g[i, 5]), x, y, z)
    return rotate(r, x, y, z)


@outlined
def _set_momenta(bodies, pose, ends, free, momentum):
    """Replace velocities by momenta."""
    for i in range(len(pose)):
        k, kind, m = 6 * i, bodies.kind[i], free[i] * bodies.mass[i]
        x, y, z = momentum[k], momentum[k + 1], momentum[k + 2]
        if kind == RIGID:
            x, y, z = symmetric_times(world_inertia(i, RIGID, bodies, pose, ends), x, y, z)
        else:
            x, y, z = 0.0, 0.0, (bodies.inertia[i, 2] * z if kind == PLANAR else 0.0)
        momentum[k], momentum[k + 1], momentum[k + 2] = free[i] * x, free[i] * y, free[i] * z
        for c in range(3, 6):
            momentum[k + c] *= m


@outlined
def _set_soft_velocity_rhs(system, ends, soft, h, speeds, before, mobility, soft_slope, jacobian, active, j, b, c):
    """Let stiff soft rows act on velocities: they take back what changes their rates beyond an implicit step of h.

    Without it the force of a stiff spring that is far from its rest, kept for half a step, would throw its bodies.
    """
    for i in range(ends[3]):
        first, begin, end = system.row_start[i], system.incidence_start[i], system.incidence_start[i + 1]
        acts = False
        for r in range(first, system.row_start[i + 1]):
            acts = acts or (soft[r] and h * h * soft_slope[r] * mobility[r] > _WEAK)
        if not acts:
            continue
        active[i] = 1
        for o in range(system.block_start[begin], system.block_start[end]):
            j[o] = jacobian[o]
        for r in range(first, system.row_start[i + 1]):
            b[r], c[r] = 0.0, 1.0 / max(h * h * soft_slope[r], _WEAK * _WEAK / mobility[r])
        for t in range(begin, end):
            o, at = 6 * system.incidence_body[t], system.block_start[t]
            for r in range(first, system.row_start[i + 1]):
                for k in range(6):
                    b[r] -= j[at + k] * (speeds[o + k] - before[o + k])
                at += 6


@outlined
def _set_velocity_rhs(system, ends, aim, speeds, j, b, c):
    """Fill right sides that project velocities onto the rows; without trackers, driven coordinates at their rates."""
    for i in range(len(system.row_start) - 1):
        for r in range(system.row_start[i], system.row_start[i + 1]):
            b[r], c[r] = 0.0, 0.0
        for t in range(system.incidence_start[i], system.incidence_start[i + 1]):
            o, at = 6 * system.incidence_body[t], system.block_start[t]
            for r in range(system.row_start[i], system.row_start[i + 1]):
                for k in range(6):
                    if i >= ends[4]:
                        j[at + k] = 0.0
                    b[r] -= j[at + k] * speeds[o + k]
                at += 6
        if ends[3] <= i < ends[4] and b[system.row_start[i]] < 0.0:
            # a contact that opens
            b[system.row_start[i]] = 0.0
            for o in range(
                system.block_start[system.incidence_start[i]], system.block_start[system.incidence_start[i + 1]]
            ):
                j[o] = 0.0
        if ends[1] <= i < ends[2]:
            b[system.row_start[i]] += aim[i - ends[1], 1]


@inner
def _set_soft_forces_now(setup, net, drives, h, momenta, pose, e, reads, w, motion):
    """Fill the forces of soft rows at the poses, with the velocities of the last half step, and their slopes."""
    if momenta:
        _divide(w.minv, motion.momentum, 1.0, w.correction)
    else:
        for k in range(len(w.correction)):
            w.correction[k] = motion.momentum[k]
    _set_errors_before(net.system, h, w.correction, w.jacobian, w.residual, w.b)
    set_soft_forces(setup, net, drives, h, pose, w.residual, w.b, e, reads, w.soft_force, w.soft_slope)


@inner
def _start_soft_rows(setup, net, drives, h, scale, momenta, pose, e, reads, w, motion, momentum):
    """Start the multipliers of soft rows with the forces of the start, and add their impulses to the momenta."""
    set_mobility(net.system, 0, net.ends[3], w.jacobian, w.minv, w.mobility)
    _set_soft_forces_now(setup, net, drives, h, momenta, pose, e, reads, w, motion)
    apply_soft_forces(
        net.system, net.ends, net.soft, h, scale, w.jacobian, w.mobility, w.soft_slope, w.soft_force, w.lam_total,
        momentum,
    )  # fmt: skip


@inner
def _project_velocities(setup, net, drives, inner_most, tolerance, pose, u, e, reads, w, motion):
    """Fill the velocities of the bodies at the end of the last step, projected onto the rows."""
    half = 0.5 * motion.last[0]
    for k in range(len(motion.momentum)):
        w.f[k] = motion.momentum[k] + half * motion.force[k]
    # what touches something has the velocity of its last half step: contacts take away the half of gravity that is left
    for k in range(len(w.contact_link)):
        if w.contact_link[k, 0] >= 0 and w.residual[net.rows[3] + 3 * k] <= _TOUCHES:
            for end in range(2):
                for c in range(6 * w.contact_link[k, end], 6 * w.contact_link[k, end] + 6):
                    if c >= 0:
                        w.f[c] = motion.momentum[c]
    if net.soft_count[0] > 0 and half > 0.0:
        _set_soft_forces_now(setup, net, drives, 2.0 * half, True, pose, e, reads, w, motion)
        add_soft_forces(net.system, net.ends, net.soft, half, w.jacobian, w.soft_force, w.f)
    _divide(w.minv, w.f, 1.0, motion.force)
    for r in range(net.rows[3], net.rows[4]):
        w.lam_total[r] = 0.0
        w.residual[r] -= _TOUCHES
    set_step_rhs(net, 0.0, 1.0, w)
    _set_velocity_rhs(net.system, net.ends, w.aim, motion.force, w.j, w.b, w.c)
    if net.soft_count[0] > 0 and half > 0.0:
        set_mobility(net.system, 0, net.ends[3], w.jacobian, w.minv, w.mobility)
        _divide(w.minv, motion.momentum, 1.0, w.correction)
        _set_soft_velocity_rhs(
            net.system, net.ends, net.soft, half, motion.force, w.correction, w.mobility, w.soft_slope, w.jacobian,
            w.active, w.j, w.b, w.c,
        )  # fmt: skip
    solve_rows(net, inner_most, tolerance, pose, w)
    displace(net.system, w.jacobian, w.lam, w.minv, w.f, w.correction)
    for k in range(len(w.correction)):
        w.correction[k] += motion.force[k]
    _from_solids(setup.bodies, w.correction, u)


@inner
def _evaluate_start(
    setup, net, springs, still, armature, span, momenta, driven, time, wrenches, applied, pose, u, reads, e, w, motion,
):  # fmt: skip
    """Evaluate rows and forces at the poses, with the velocities of the last half step."""
    bodies = setup.bodies
    set_metric(bodies.kind, net.physical, True, w.free, pose, w.minv)
    if momenta:
        _divide(w.minv, motion.momentum, 1.0, w.correction)
        _from_solids(bodies, w.correction, u)
    else:
        _from_solids(bodies, motion.momentum, u)
    evaluate_errors(setup, net, time, driven, True, pose, u, e, w)
    forces(setup, springs, still, armature, span, driven, True, wrenches, applied, pose, e, reads, motion.body_force)
    _to_solids(bodies, motion.body_force, motion.force)
    _remove_gyroscopic(bodies, e.ends, pose, motion.force)


@inner
def _store_forces(net, scale, w, motion):
    """Store forces times h^2: those of trackers, contacts and joints, scale times their multipliers."""
    for t in range(len(w.tracked)):
        for k in range(6):
            w.tracker_force[t, k] = scale * w.lam_total[net.rows[4] + 6 * t + k]
    for s in range(len(w.contact_link)):
        for k in range(3):
            w.contact_force[s, k] = scale * w.lam_total[net.rows[3] + 3 * s + k]
    for r in range(net.rows[0]):
        motion.last_multipliers[r] = scale * w.lam_total[r]


@inner
def _find_contacts(setup, net, search, momenta, h, pose, w, motion):
    """Find the contacts of a step; return 0 or a status."""
    if momenta:
        set_metric(setup.bodies.kind, net.physical, True, w.free, pose, w.minv)
        _divide(w.minv, motion.momentum, 1.0, w.correction)
    else:
        for k in range(len(w.correction)):
            w.correction[k] = motion.momentum[k]
    for c in range(net.ends[3], net.ends[4]):
        w.active[c] = 0
    return find_slots(
        setup.gravity, net.system, net.ends[3], search, h, pose, w.correction, w.contact_link, w.contact_data,
        w.friction, w.slides,
    )  # fmt: skip


@inner
def _overlaps(net, w):
    """Return whether any contact overlaps by more than the slop."""
    for k in range(len(w.contact_link)):
        if w.residual[net.rows[3] + 3 * k] < -SLOP:
            return True
    return False


@inner
def _close_errors(
    setup, net, drives, time, outer, inner_most, tolerance, solver_tolerance, clamp, pose, u, e, reads, w
):  # fmt: skip
    """Close the joints by displacements that change no velocity; return the status."""
    count, total = w.report[0], w.report[1]
    for r in range(len(w.lam_total)):
        w.lam_total[r] = 0.0
        w.open[r] = 0.0
    for k in range(len(w.contact_link)):
        w.open[net.rows[3] + 3 * k] = -SLOP
    for c in range(net.ends[0], net.ends[4]):
        w.active[c] = 0
    status = correct(
        setup, net, drives, SOLVE, True, time, 0.0, outer, inner_most, tolerance, solver_tolerance, clamp, u, e, pose,
        reads, w,
    )  # fmt: skip
    w.report[0] += count
    w.report[1] += total
    return status


@inner
def _one_step(
    setup, net, springs, drives, still, armature, span, search, mode, driven, velocities_only, h, outer, inner_most,
    tolerance, solver_tolerance, clamp, time, wrenches, applied, pose, u, reads, e, w, motion,
):  # fmt: skip
    """Take one step, or fill the velocities if `velocities_only`; return 0 or a status of `take_displacements`."""
    bodies, momenta, last = setup.bodies, mode == CONSERVING, motion.last[0]
    if len(search.shapes.kind) > 0:
        found = _find_contacts(setup, net, search, momenta, last if velocities_only else h, pose, w, motion)
        if found != 0:
            return found
    if mode == KINEMATIC:
        start_step(net, w)
        return correct(
            setup, net, drives, SOLVE, False, time + h, 0.0, outer, inner_most, tolerance, solver_tolerance, clamp, u,
            e, pose, reads, w,
        )  # fmt: skip
    _evaluate_start(
        setup, net, springs, still, armature, span, momenta, driven, time, wrenches, applied, pose, u, reads, e, w,
        motion,
    )  # fmt: skip
    if velocities_only:
        _project_velocities(setup, net, drives, inner_most, solver_tolerance, pose, u, e, reads, w, motion)
        return 0
    force_time, status = 0.5 * (last + h), 0
    start_step(net, w)
    # Section 4.2: Dq += M^-1 f dt^2, q += Dq
    _predict(bodies, momenta, last, force_time, w.free, motion.momentum_before, motion.force, motion.before, w.f)
    keeps = _leave_open(net, h, last == 0.0, w.f, w)
    leave_overlaps(net.rows[3], w.contact_data, w.residual, w.open)
    scale = h if momenta else h * h
    if net.soft_count[0] > 0:
        _start_soft_rows(setup, net, drives, h, scale, momenta, pose, e, reads, w, motion, w.f)
    closed = False
    if momenta and touches(w.contact_link):
        for r in range(len(w.lam_total)):
            w.lam_total[r] *= h
    elif momenta:
        closed = _conserving_step(
            setup, net, drives, time, h, outer, inner_most, tolerance, solver_tolerance, pose, u, e, reads, w, motion
        )
    ratio = h / last if last > 0.0 else 0.0
    joints = net.ends[0] if len(w.geometric_stiffness) > 0 and not closed else 0
    if closed:
        set_geometric_stiffness(
            setup.table, net.system, joints, 0.0, e.state, w.jacobian, motion.last_multipliers, w.geometric_stiffness
        )
        _store_forces(net, h, w, motion)
    else:
        set_geometric_stiffness(
            setup.table, net.system, joints, ratio * ratio, e.state, w.jacobian, motion.last_multipliers,
            w.geometric_stiffness,
        )  # fmt: skip
        _free_flight(bodies, h, w.free, w.f, motion.before, pose)
        # dq = correction(q), q += dq
        status = correct(
            setup, net, drives, SOLVE, True, time + h, h, outer, inner_most, tolerance, solver_tolerance, clamp, u, e,
            pose, reads, w,
        )  # fmt: skip
        _store_forces(net, 1.0, w, motion)
        # Dq += dq: the displacement made, from the poses
        _displacement_made(h, motion.before, pose, motion.momentum)
        if momenta:
            keeps = True
            motion.damped_steps[0] += 1
            _set_momenta(bodies, pose, e.ends, w.free, motion.momentum)
    for t in range(len(w.tracked)):
        for k in range(6):
            w.tracker_force[t, k] /= h * h
    for s in range(len(w.contact_link)):
        for k in range(3):
            w.contact_force[s, k] /= h * h
    if (keeps or _overlaps(net, w)) and status == 0:
        status = _close_errors(
            setup, net, drives, time + h, outer, inner_most, tolerance, solver_tolerance, clamp, pose, u, e, reads, w
        )
    for r in range(net.rows[1]):
        w.open[r] = w.residual[r]
    return status


@inner
def _conserving_step(
    setup, net, drives, time, h, outer, inner_most, tolerance, solver_tolerance, pose, u, e, reads, w, motion
):  # fmt: skip
    """Move with momenta that close the joints; return whether they do. If not, all is ready for a damped step."""
    for k in range(len(w.f)):
        motion.momentum[k] = w.predicted[k] = w.free[k // 6] * w.f[k]
    for r in range(len(w.lam_total)):
        w.predicted_lam[r] = w.lam_total[r]
    if _change_momenta(
        setup, net, drives, time, h, outer, inner_most, tolerance, solver_tolerance, pose, u, e, reads, w, motion
    ):
        return True
    for k in range(len(w.f)):
        w.f[k] = w.predicted[k]
    for r in range(len(w.lam_total)):
        w.lam_total[r] = h * w.predicted_lam[r]
    for t in range(len(w.tracked)):
        for k in range(6):
            w.saturated[t, k] = 0
    for c in range(net.ends[0], net.ends[1]):
        w.active[c] = 0
    for c in range(net.ends[3], net.ends[4]):
        w.active[c] = 0
    return False


@outlined
def _set_start(pose, near, motion):
    """Store poses, motion and angles of the start of a step."""
    for i in range(len(pose)):
        for c in range(7):
            motion.before[i, c] = pose[i, c]
    for k in range(len(motion.momentum)):
        motion.momentum_before[k] = motion.momentum[k]
    for t in range(len(near)):
        motion.near[t] = near[t]


@outlined
def _copy_state(save, rows, pose, near, open, motion):
    """Save what pieces of a step change, or restore it; `rows` are those of joints and limits."""
    saved, o = motion.saved, 1
    if save:
        saved[0] = motion.last[0]
    else:
        motion.last[0] = saved[0]
    for i in range(len(pose)):
        for c in range(7):
            o = _swap(save, saved, o, pose[i], c)
    for k in range(len(motion.momentum)):
        o = _swap(save, saved, o, motion.momentum, k)
    for t in range(len(near)):
        o = _swap(save, saved, o, near, t)
    for r in range(rows):
        o = _swap(save, saved, o, open, r)
    for r in range(len(motion.last_multipliers)):
        o = _swap(save, saved, o, motion.last_multipliers, r)


@inner
def _swap(save, saved, o, values, k):
    """Copy one number to index o of `saved`, or from there; return the next index."""
    if save:
        saved[o] = values[k]
    else:
        values[k] = saved[o]
    return o + 1


@inner
def _spring_point(k, end, springs, center, pose):
    """Return the point of spring k on its body at `end`, from the com and in the world, or in the world alone."""
    i, o, p = springs.link[k, end], 3 * end, springs.point
    x, y, z = p[k, o], p[k, o + 1], p[k, o + 2]
    if i < 0:
        return 0.0, 0.0, 0.0, x, y, z
    r = rotation_from_quaternion(pose[i, 3], pose[i, 4], pose[i, 5], pose[i, 6])
    x, y, z = rotate(r, x - center[i, 0], y - center[i, 1], z - center[i, 2])
    return x, y, z, pose[i, 0] + x, pose[i, 1] + y, pose[i, 2] + z


@outlined
def _pieces(springs, center, physical, h, pose, square):
    """Return into how many pieces springs under tension divide a step h.

    A spring of length l under F holds its ends across itself with F / l, and turns bodies back, with levers r, by F r
    more: this stiffness is taken at the start of a step. The square of the frequency of a body is at most twice the sum
    of F (1 / (m l) + r (r / l + 1) / I) over its springs, since both ends move.
    """
    for k in range(len(square)):
        square[k] = 0.0
    for k in range(len(springs.link)):
        ax, ay, az, x, y, z = _spring_point(k, 0, springs, center, pose)
        bx, by, bz, u, v, w = _spring_point(k, 1, springs, center, pose)
        length = math.sqrt((u - x) ** 2 + (v - y) ** 2 + (w - z) ** 2)
        force = abs(springs.data[k, 0] * (length - springs.data[k, 2]))
        for end in range(2):
            i = springs.link[k, end]
            if i >= 0 and length > 1e-12:
                r = math.sqrt(ax * ax + ay * ay + az * az) if end == 0 else math.sqrt(bx * bx + by * by + bz * bz)
                turn = max(physical[i, 0], max(physical[i, 1], physical[i, 2]))
                square[i] += 2.0 * force * (physical[i, 6] / length + r * (r / length + 1.0) * turn)
    most = 0.0
    for i in range(len(physical)):
        most = max(most, h * h * square[i])
    return 1 if not most > _UNRESOLVED else min(int(math.ceil(math.sqrt(most))), _MOST_PIECES)


@kernel
def take_displacements(
    # model
    setup, net, springs, drives, still, armature, span, search,
    # in
    mode, driven, velocities_only, n, h, outer, inner_most, tolerance, solver_tolerance, clamp, time, wrenches, applied,
    e,
    # out
    pose, u, reads, w, motion,
):  # fmt: skip
    """Take n steps of h; stop at the first that is not finite and restore the state before it.

    Args:
        setup, net: the model in maximal coordinates, and its constraints as displacements.
        springs, drives, armature: of the model.
        still, span: no drives, since those of joints are soft rows; the span of joint forces without them.
        search: what finds contacts.
        mode: CONSERVING, DAMPED or KINEMATIC.
        driven: whether any joint has a force along its coordinates.
        velocities_only: whether to take no step, and fill the projected velocities instead, in mode CONSERVING.
        n: steps; 1 with `velocities_only`.
        h: their length [s].
        outer, inner_most, tolerance, solver_tolerance, clamp: as of `correct`.
        time: at the start [s].
        wrenches: lasting wrenches.
        applied: (nv,) joint forces.
        e: evaluation of the model's rows.
        pose, u: poses and velocities of the bodies.
        reads: of forces along joints.
        w: work.
        motion: of the solids.

    Returns:
        steps taken, and 0, Status.MORE_CONTACTS (no room for them), or Status.NOT_FINITE + the first body whose motion
        is not finite.
    """
    near = e.near
    for step in range(n):
        _set_start(pose, near, motion)
        pieces, status = 1, 0
        if len(springs.link) > 0 and mode != KINEMATIC and not velocities_only:
            pieces = _pieces(springs, setup.center, net.physical, h, pose, w.f)
        if pieces > 1:
            _copy_state(True, net.rows[1], pose, near, w.open, motion)
        for piece in range(pieces):
            if piece > 0:
                motion.last[0] = h / pieces
                count_turns(setup, e)
                _set_start(pose, near, motion)
            status = _one_step(
                setup, net, springs, drives, still, armature, span, search, mode, driven, velocities_only, h / pieces,
                outer, inner_most, tolerance, solver_tolerance, clamp, time + (step + piece / pieces) * h, wrenches,
                applied, pose, u, reads, e, w, motion,
            )  # fmt: skip
            if status != 0:
                break
        if pieces > 1 and status != 0:
            _copy_state(False, net.rows[1], pose, near, w.open, motion)
            _set_start(pose, near, motion)
        if status == Status.MORE_CONTACTS:
            return step, status
        bad = 0 if status != 0 else -1
        for k in range(len(motion.momentum)):
            if bad < 0 and not abs(motion.momentum[k]) < _HUGE:
                bad = k // 6
        if bad >= 0:
            for i in range(len(pose)):
                for c in range(7):
                    pose[i, c] = motion.before[i, c]
            for k in range(len(motion.momentum)):
                motion.momentum[k] = motion.momentum_before[k]
            for t in range(len(near)):
                near[t] = motion.near[t]
            return step, Status.NOT_FINITE + bad
        if not velocities_only:
            motion.last[0] = h / pieces
            count_turns(setup, e)
    return n, 0
