"""Soft rows of displacements: dampers, springs, soft limits and motors of joints, and springs between points.

The force tau(q, qd) of a soft row acts as it is at the end of a step of h, where q is the value of its row and
qd = (q - q_start) / h. With the multiplier lam = s tau, s = h for impulses and h^2 for displacements, K = -d tau/dq and
B = -d tau/dqd, a Newton iteration on tau from the poses reached so far is one more row of the system of a correction:

    A lam' + c lam' = c (s tau - lam),   c = 1 / (h^2 K + h B)

for the change lam' of the multiplier. Its fixed point does not depend on c, which is bounded by a multiple of the
row's own mobility, so that forces without a slope (a motor at its largest force) are rows like others. Steps start
from lam = s tau / (1 + g)^2 at the start of the step, g = mobility / c: nearly all of a weak force, nearly nothing of
a force that would throw the body over.
"""

from __future__ import annotations

from limberjack._jit import inner, outlined
from limberjack.maximal.forces import read_coordinates
from limberjack.reduced.drives import ball_law, scalar_drive

__all__ = ["add_soft_forces", "apply_soft_forces", "set_mobility", "set_soft_forces", "soft_compliance"]

# Largest compliance of a soft row, relative to its mobility.
_WEAK = 100.0


@outlined
def set_mobility(
    # model
    system, first, last,
    # in
    jacobian, minv,
    # out
    mobility,
):  # fmt: skip
    """Fill the diagonal of J M^-1 J^T of the rows of constraints first .. last."""
    m, j = minv, jacobian
    for c in range(first, last):
        for r in range(system.row_start[c], system.row_start[c + 1]):
            mobility[r] = 0.0
        for t in range(system.incidence_start[c], system.incidence_start[c + 1]):
            i, o = system.incidence_body[t], system.block_start[t]
            for r in range(system.row_start[c], system.row_start[c + 1]):
                x, y, z = j[o], j[o + 1], j[o + 2]
                turn = m[i, 0] * x * x + m[i, 1] * y * y + m[i, 2] * z * z
                turn += 2.0 * (m[i, 3] * x * y + m[i, 4] * x * z + m[i, 5] * y * z)
                x, y, z = j[o + 3], j[o + 4], j[o + 5]
                mobility[r] += turn + m[i, 6] * (x * x + y * y + z * z)
                o += 6


@inner
def soft_compliance(h, r, slope, mobility):
    """Return the compliance of soft row r."""
    most = _WEAK * mobility[r] if mobility[r] > 0.0 else 1.0
    stiff = h * h * slope[r]
    return 1.0 / stiff if stiff * most > 1.0 else most


@outlined
def set_soft_forces(
    # model
    setup, net, drives,
    # in
    h, pose, residual, start_error, e,
    # out
    reads, soft_force, soft_slope,
):  # fmt: skip
    """Fill the forces of soft rows, and their slopes with the displacement, K + B / h.

    Args:
        setup, net: the model, its constraints.
        drives: of the joints.
        h: the step [s].
        pose: (n, POSE) of the last evaluation.
        residual, start_error: values of the rows, now and at the start of the step.
        e: evaluation of the model's rows.
        reads: coordinates and velocities.
        soft_force, soft_slope: of rows.
    """
    native = setup.table.soft
    for k in range(len(net.springs)):
        r = net.springs[k]
        x, rate = residual[r], (residual[r] - start_error[r]) / h
        soft_force[r] = -native[r, 0] * x - native[r, 1] * rate
        soft_slope[r] = native[r, 0] + native[r, 1] / h
    for row in range(len(net.drive_rows)):
        r = net.drive_rows[row]
        if r >= 0:
            x, rate = residual[r], (residual[r] - start_error[r]) / h
            f, k, b = scalar_drive(row, drives.scalar, 0.0, x, rate)
            soft_force[r], soft_slope[r] = f, k + b / h
    if len(net.ball_rows) == 0:
        return
    read_coordinates(setup, pose, e, reads.q, reads.qd)
    for row in range(len(net.ball_rows)):
        r, iv = net.ball_rows[row], drives.ball_indices[row, 1]
        if r >= 0:
            for i in range(3):
                reads.qd[iv + i] = (residual[r + i] - start_error[r + i]) / h
            x, y, z, k, bx, by, bz = ball_law(row, drives.ball, reads.q, drives.ball_indices[row, 0], reads.qd, iv)
            soft_force[r], soft_force[r + 1], soft_force[r + 2] = x, y, z
            soft_slope[r], soft_slope[r + 1], soft_slope[r + 2] = k + bx / h, k + by / h, k + bz / h


@outlined
def add_soft_forces(
    # model
    system, ends, soft,
    # in
    h, jacobian, soft_force,
    # out
    impulse,
):  # fmt: skip
    """Add h times the forces of soft rows to the momenta `impulse` (6 n,)."""
    for c in range(ends[3]):
        for r in range(system.row_start[c], system.row_start[c + 1]):
            if soft[r]:
                for t in range(system.incidence_start[c], system.incidence_start[c + 1]):
                    o = system.block_start[t] + 6 * (r - system.row_start[c])
                    for k in range(6):
                        impulse[6 * system.incidence_body[t] + k] += h * soft_force[r] * jacobian[o + k]


@outlined
def apply_soft_forces(
    # model
    system, ends, soft,
    # in
    h, scale, jacobian, mobility, soft_slope,
    # out
    soft_force, lam_total, impulse,
):  # fmt: skip
    """Start the multipliers of soft rows, scale times their forces at the start of a step, and add their impulses.

    Args:
        system, ends, soft: constraints, of `Net`.
        h: the step [s].
        scale: of a multiplier per force.
        jacobian, mobility: of the rows.
        soft_slope: at the start of the step.
        soft_force: the same; replaced by what is applied.
        lam_total: multipliers.
        impulse: (6 n,) momenta.
    """
    for r in range(len(lam_total)):
        if soft[r]:
            g = 1.0 + mobility[r] / soft_compliance(h, r, soft_slope, mobility)
            soft_force[r] /= g * g
            lam_total[r] = scale * soft_force[r]
    add_soft_forces(system, ends, soft, h, jacobian, soft_force, impulse)
