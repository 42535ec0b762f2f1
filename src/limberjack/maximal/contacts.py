"""Contact forces of bodies under constraints: contacts are auxiliary rows over the joints, then complementarity.

At the poses of the start, with the velocities u that the step would end with without contacts:

    v = A lam + b,   A = J Mhat^-1 J^T,   b = J u - target

where Mhat^-1 is the response of the bodies with their joints (Baraff 1996, section 8.1, equation (12)). Without
friction this is one complementarity problem with the loops and the limits that are reached, solved exactly; with
friction the cones are swept.

Contacts occupy slots of `inserted_rows.with_contact_slots`. The kernels here write frames into slots, list active rows,
and fill right sides and resulting wrenches; rows, factor, responses and complementarity are those of the rooms that own
them.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from limberjack._jit import inner, kernel, outlined
from limberjack.constraints.table import DRIVE, ROTOR, SPRING
from limberjack.contact.friction_cone import sweep_cones
from limberjack.contact.restitution import separation_velocity
from limberjack.errors import Status
from limberjack.linear.auxiliary import Responses, auxiliary_matrix, empty_responses, trace
from limberjack.linear.elimination import Tree, new_work, order_of, split
from limberjack.linear.lcp import Workspace, new_workspace, solve_lcp
from limberjack.linear.saddle import row_mobility
from limberjack.linear.tree import factor
from limberjack.maximal.bodies import add_geometric_inertia
from limberjack.maximal.inserted_rows import with_contact_slots
from limberjack.maximal.rows import Evaluation, Maximal, free_joints_of, new_evaluation
from limberjack.maximal.soft_rows import SoftRows, set_soft_compliance
from limberjack.maximal.solve import REPORT, Setup, State, evaluate_state
from limberjack.model.model import Model
from limberjack.spatial.copies import copy, copy_rows
from limberjack.spatial.quaternions import rotation_from_quaternion
from limberjack.spatial.vectors import cross, rotate_back

__all__ = [
    "ContactRows", "contact_forces", "contact_room", "list_rows", "new_contact_rows", "set_contact_rhs", "set_wrenches",
    "write_frames",
]  # fmt: skip
# Penetration that is left as it is, recovery rate of deeper ones and its largest speed [m, 1/s, m/s].
_SLOP, _RECOVERY_RATE, _MAX_RECOVERY = 1e-4, 10.0, 1.0
# Slower impacts have no restitution, as a multiple of the speed that gravity gives in a step.
_RESTITUTION_SPEED = 2.0
# Rows with at most this part of their diagonal left by others depend on them.
_DEPENDENT = 1e-11
_SWEEPS, _CONVERGED = 2000, 1e-13


@inner
def _axes(nx, ny, nz):
    """Return the unit vectors x and y of a frame whose z is the unit vector n."""
    if abs(nz) < 0.7:
        x, y, z = -ny, nx, 0.0
    else:
        x, y, z = 0.0, -nz, ny
    f = 1.0 / math.sqrt(x * x + y * y + z * z)
    x, y, z = f * x, f * y, f * z
    ux, uy, uz = cross(nx, ny, nz, x, y, z)
    return x, y, z, ux, uy, uz


@inner
def _write_frame(frame, pair, o, r, x, y, n, px, py, pz):
    """Write axes x, y, n and a point, rotated back by r, into frame[pair, o:]."""
    for c in range(3):
        v = x if c == 0 else (y if c == 1 else n)
        a, b, d = rotate_back(r, v[0], v[1], v[2])
        frame[pair, o + c], frame[pair, o + 3 + c], frame[pair, o + 6 + c] = a, b, d
    a, b, d = rotate_back(r, px, py, pz)
    frame[pair, o + 9], frame[pair, o + 10], frame[pair, o + 11] = a, b, d


@kernel
def write_frames(
    # model
    first, static, row_start, row_pair, incidence_start,
    # in
    count, link_a, link_b, point, normal, pose,
    # out
    pair_link, pair_frame, incidence_body, slot,
):  # fmt: skip
    """Write the frames of `count` contacts into slots, those of one body first; return how many are of one body.

    Args:
        first: the constraint of the first slot.
        static: slots of one body.
        row_start, incidence_start: of the system.
        row_pair: of the table.
        count: contacts.
        link_a, link_b, point, normal: of the contacts.
        pose: (n, POSE) of the bodies.
        pair_link, pair_frame: of the table.
        incidence_body: of the system.
        slot: (count,) the constraint of each contact.
    """
    ground = moving = 0
    for k in range(count):
        a, b = link_a[k], link_b[k]
        if b < 0:
            c = first + ground
            ground += 1
        else:
            c = first + static + moving
            moving += 1
        slot[k] = c
        pair, t = row_pair[row_start[c], 0], incidence_start[c]
        pair_link[pair, 0], pair_link[pair, 1] = b, a
        incidence_body[t] = a
        nx, ny, nz = normal[k, 0], normal[k, 1], normal[k, 2]
        xx, xy, xz, yx, yy, yz = _axes(nx, ny, nz)
        x, y, z = (xx, xy, xz), (yx, yy, yz), (nx, ny, nz)
        px, py, pz = point[k, 0], point[k, 1], point[k, 2]
        r = rotation_from_quaternion(pose[a, 3], pose[a, 4], pose[a, 5], pose[a, 6])
        _write_frame(pair_frame, pair, 12, r, x, y, z, px - pose[a, 0], py - pose[a, 1], pz - pose[a, 2])
        if b < 0:
            one = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0)
            _write_frame(pair_frame, pair, 0, one, x, y, z, px, py, pz)
        else:
            incidence_body[t + 1] = b
            r = rotation_from_quaternion(pose[b, 3], pose[b, 4], pose[b, 5], pose[b, 6])
            _write_frame(pair_frame, pair, 0, r, x, y, z, px - pose[b, 0], py - pose[b, 1], pz - pose[b, 2])
    return ground


@kernel
def list_rows(
    # model
    row_start, auxiliary, limits,
    # in
    h, count, slot, values,
    # out
    listed, rows,
):  # fmt: skip
    """List the active constraints and their rows: loops, limits reached within h, contacts.

    Args:
        row_start: of the system.
        auxiliary: loops.
        limits: (2,) the first limit, and the first constraint after them.
        h: the step [s].
        count: contacts.
        slot: (count,) their constraints.
        values: (r, 3) value, rate, bias of all rows.
        listed: the constraints.
        rows: all their rows.

    Returns:
        constraints listed, rows before the first of a contact, rows.
    """
    n = m = 0
    for k in range(len(auxiliary)):
        listed[n] = auxiliary[k]
        n += 1
    for c in range(limits[0], limits[1]):
        r = row_start[c]
        if values[r, 0] + h * min(values[r, 1], 0.0) <= 0.0:
            listed[n] = c
            n += 1
    before = n
    for k in range(count):
        listed[n] = slot[k]
        n += 1
    first = 0
    for k in range(n):
        first = m if k <= before else first
        for r in range(row_start[listed[k]], row_start[listed[k] + 1]):
            rows[m] = r
            m += 1
    return n, first, m


@kernel
def set_contact_rhs(
    # model
    equality_rows, rows_per_contact, compliance, slop, recovery_rate, max_recovery, restitution_threshold,
    # in
    h, first, count, rows, values, before, depth, restitution, negligible,
    # out
    matrix, rhs, low, high,
):  # fmt: skip
    """Complete the matrix and fill the velocities without forces minus their targets, and bounds.

    Args:
        equality_rows: rows of loops.
        rows_per_contact: rows of a contact.
        compliance: (r,) of compliant rows.
        slop: penetration that is left as it is [m].
        recovery_rate, max_recovery: how fast deeper penetration is pushed out [1/s], and at most [m/s].
        restitution_threshold: slower impacts have no restitution [m/s].
        h: the step [s].
        first: rows before the first of a contact.
        count: contacts.
        rows: all rows.
        values: (r, 3) at the velocities that the step would end with.
        before: (r,) rates at the start, for restitution.
        depth, restitution: of the contacts.
        negligible: (equality_rows,) diagonals up to this are rounding: the tree determines the row already.
        matrix: (n, n) completed.
        rhs, low, high: (n,).
    """
    n = first + rows_per_contact * count
    for i in range(n):
        r = rows[i]
        rhs[i], high[i] = values[r, 1], math.inf
        low[i] = -math.inf if i < equality_rows else 0.0
        if compliance[r] > 0.0:
            # compliant rows keep their predicted velocity
            matrix[i, i] += compliance[r]
            rhs[i] = 0.0
        if equality_rows <= i < first:
            rhs[i] += max(values[r, 0], 0.0) / h
    for i in range(equality_rows):
        if matrix[i, i] <= negligible[i]:
            rhs[i] = 0.0
            for k in range(n):
                matrix[i, k], matrix[k, i] = 0.0, 0.0
    for k in range(count):
        i = first + rows_per_contact * k
        r, over = rows[i], depth[k]
        # a gap may close within the step
        target = over / h if over < 0.0 else min(recovery_rate * max(over - slop, 0.0), max_recovery)
        if restitution[k] > 0.0 and before[r] < -restitution_threshold and values[r, 1] < target:
            target = max(target, separation_velocity(restitution[k], before[r], values[r, 1], -over, h))
        rhs[i] -= target
    return n


@kernel
def set_wrenches(
    # model
    rows_per_contact, center,
    # in
    h, first, count, link_a, link_b, point, normal, force, pose, begin,
    # out
    contact_forces, link, data,
):  # fmt: skip
    """Fill the force of each contact on its first body, and the wrenches on both after the first `begin`.

    Args:
        rows_per_contact: rows of a contact: along its normal, then along x and y of its frame.
        center: (n, 3) com of each body in its link's frame.
        h: the step [s].
        first: rows before the first of a contact.
        count: contacts.
        link_a, link_b, point, normal: of the contacts.
        force: (n,) impulses of all rows.
        pose: of the bodies.
        begin: number of wrenches before.
        contact_forces: (count, 3) forces, world axes.
        link, data: of the wrenches.

    Returns:
        wrenches in all.
    """
    n = begin
    for k in range(count):
        nx, ny, nz = normal[k, 0], normal[k, 1], normal[k, 2]
        i = first + rows_per_contact * k
        f = force[i] / h
        x, y, z = f * nx, f * ny, f * nz
        if rows_per_contact == 3:
            ax, ay, az, bx, by, bz = _axes(nx, ny, nz)
            f, g = force[i + 1] / h, force[i + 2] / h
            x, y, z = x + f * ax + g * bx, y + f * ay + g * by, z + f * az + g * bz
        contact_forces[k, 0], contact_forces[k, 1], contact_forces[k, 2] = x, y, z
        if x == 0.0 and y == 0.0 and z == 0.0:
            continue
        for end in range(2):
            body = link_a[k] if end == 0 else link_b[k]
            if body < 0:
                continue
            sign = 1.0 if end == 0 else -1.0
            r = rotation_from_quaternion(pose[body, 3], pose[body, 4], pose[body, 5], pose[body, 6])
            px, py, pz = rotate_back(
                r, point[k, 0] - pose[body, 0], point[k, 1] - pose[body, 1], point[k, 2] - pose[body, 2]
            )
            link[n] = body
            data[n, 0], data[n, 1] = px + center[body, 0], py + center[body, 1]
            data[n, 2] = pz + center[body, 2]
            data[n, 3], data[n, 4], data[n, 5] = sign * x, sign * y, sign * z
            data[n, 6], data[n, 7], data[n, 8] = 0.0, 0.0, 0.0
            n += 1
    return n


class ContactRows(NamedTuple):
    """Contact rows of a model in maximal coordinates, all bodies rigid, and the work arrays of their solver.

    Room for c contacts; n rows of loops, limits and contacts at most at a time.
    """

    setup: Setup  # the model with slots for contacts
    e: Evaluation
    s: State  # poses are those of the stepper, velocities its own
    tree: Tree
    work: np.ndarray  # its factor
    responses: Responses
    auxiliary: np.ndarray  # loops
    limits: np.ndarray  # (2,) the first limit, and the first constraint after them
    sizes: np.ndarray  # (4,) slots of one body and of two, rows of a contact, rows of loops
    slot: np.ndarray  # (c,) the constraint of each contact
    listed: np.ndarray  # (n,) rows
    compliance: np.ndarray  # (r,)
    before: np.ndarray  # (r,) rates at the start of the step
    negligible: np.ndarray  # (rows of loops,)
    matrix: np.ndarray  # (n, n)
    lcp: Workspace
    rhs: np.ndarray  # (n,)
    low: np.ndarray  # (n,)
    high: np.ndarray  # (n,)
    force: np.ndarray  # (n,) impulses; in the first-order world forces
    residual: np.ndarray  # (n,)
    guess: np.ndarray  # (n,) int8
    report: np.ndarray  # (2,) sweeps, contacts solved


def new_contact_rows(
    model: Model, base: Maximal, state: State, soft: SoftRows, room: tuple[int, int], *, friction: bool
) -> ContactRows:
    """Return contact rows with room for contacts with the ground and between bodies.

    Args:
        model: the model.
        base: the model in maximal coordinates.
        state: the state of its stepper, whose poses are read.
        soft: its soft rows, whose laws are those of the step without contacts.
        room: capacity for contacts with the ground, and between bodies.
        friction: whether contacts have friction.
    """
    reads = int((base.table.role == DRIVE).sum())
    first, per_contact = len(base.names) - reads, 3 if friction else 1
    whole = with_contact_slots(model, base, first, *room, per_contact)
    system, links, count = whole.system, model.arrays.links, len(whole.names)
    sizes = np.array([base.equality_count, count - reads, count], np.int64)
    setup = Setup(
        whole.bodies, system, whole.table, whole.row_block, whole.scalable_pairs, whole.center, sizes, links.gravity,
        free_joints_of(model), soft,
    )  # fmt: skip
    own = state._replace(
        u=np.zeros_like(state.u), q=state.q.copy(), qd=state.qd.copy(), last_force=np.zeros(len(whole.table.joint)),
        report=np.zeros(REPORT),
    )  # fmt: skip
    parts = split(system, np.arange(count) < base.equality_count)
    tree, auxiliary = order_of(system, parts), parts.auxiliary[parts.auxiliary < base.equality_count]
    row_counts, limits = np.diff(system.row_start), first - base.equality_count
    most = len(auxiliary) + limits + sum(room)
    incidences = int(np.diff(system.incidence_start).max(initial=0))
    responses = empty_responses(tree, most, int(row_counts.max(initial=0)), incidences)
    equality_rows = int(row_counts[auxiliary].sum())
    n, rows = equality_rows + limits + per_contact * sum(room), len(whole.table.joint)
    return ContactRows(
        setup, new_evaluation(whole), own, tree, new_work(tree), responses, auxiliary,
        np.array([base.equality_count, first], np.int64), np.array([*room, per_contact, equality_rows], np.int64),
        np.zeros(sum(room), np.int64), np.zeros(n, np.int64), np.zeros(rows), np.zeros(rows), np.zeros(equality_rows),
        np.zeros((n, n)), new_workspace(n), np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n),
        np.zeros(n, np.int8), np.zeros(2, np.int64),
    )  # fmt: skip


@outlined
def contact_room(rows, contacts):
    """Return whether there are slots for all contacts."""
    ground = 0
    for k in range(contacts.count[0]):
        if contacts.link_b[k] < 0:
            ground += 1
    return ground <= rows.sizes[0] and contacts.count[0] - ground <= rows.sizes[1]


@outlined
def _set_compliance(table, h, first_order, compliance):
    """Fill the compliance of rows over a step h: rotors have inertia, springs and grips act at the end of the step."""
    for r in range(len(compliance)):
        compliance[r] = 0.0
        if table.role[r] == ROTOR:
            compliance[r] = table.soft[r, 0]
        elif table.role[r] == SPRING:
            stiff = h * table.soft[r, 0] + table.soft[r, 1]
            stiff = stiff if first_order else h * stiff
            compliance[r] = 1.0 / stiff if stiff > 0.0 else 1e12


@outlined
def _set_negligible(system, auxiliary, m, j, negligible):
    """Fill the diagonals up to which a row of a loop is determined by the tree."""
    at = 0
    for i in range(len(auxiliary)):
        c = auxiliary[i]
        for k in range(system.row_start[c + 1] - system.row_start[c]):
            negligible[at] = _DEPENDENT * row_mobility(system, c, k, m, j)
            at += 1


@inner
def contact_forces(
    # model
    rows,
    # in
    contacts, terms, first_order, gravity, time, h, e, u, predicted, own, stiffness, stiff,
    # out
    force, wrenches,
):  # fmt: skip
    """Fill the force of each contact over a step h, and all wrenches; return a status.

    Args:
        rows: the rows and their work arrays.
        contacts: found at the poses now.
        terms: how many terms of rows come before those of contacts.
        first_order: whether forces give velocities.
        gravity: its size [m/s^2].
        time: [s].
        h: [s].
        e: the stepper's evaluation, for unwrapped angles.
        u: (nu,) current velocities.
        predicted: (nu,) velocities at the end of the step without contacts; of first order, those at its start.
        own: other wrenches.
        stiffness: (n,) of the joints' forces on bodies.
        stiff: whether the first-order step adds inertia for it.
        force: (room, 3) on the first body of each contact, world axes.
        wrenches: those and the others, with room for two per contact; what is not used is zero.
    """
    setup, system, local, w = rows.setup, rows.setup.system, rows.e, rows
    n, per_contact, equality_rows = contacts.count[0], rows.sizes[2], rows.sizes[3]
    write_frames(
        w.limits[1], w.sizes[0], system.row_start, setup.table.row_pair, system.incidence_start, n, contacts.link_a,
        contacts.link_b, contacts.point, contacts.normal, w.s.pose, setup.table.pair_link, setup.table.pair_frame,
        system.incidence_body, w.slot,
    )  # fmt: skip
    for t in range(terms):
        local.near[t] = e.near[t]
    copy_rows(e.state, local.state)
    bouncing = False
    for k in range(n):
        bouncing = bouncing or (contacts.restitution[k] > 0.0 and not first_order)
    if bouncing:
        copy(u, w.s.u)
        evaluate_state(setup, time, local, w.s)
        for r in range(len(w.before)):
            w.before[r] = local.values[r, 1]
    copy(predicted, w.s.u)
    evaluate_state(setup, time, local, w.s)
    _set_compliance(setup.table, h, first_order, w.compliance)
    set_soft_compliance(setup.soft, w.compliance)
    if first_order and stiff:
        add_geometric_inertia(setup.bodies, h, stiffness, local.m)
    if factor(system, w.tree, local.m, local.j, w.compliance, w.work) != 0:
        return Status.INFEASIBLE
    listed, first, _ = list_rows(
        system.row_start, w.auxiliary, w.limits, h, n, w.slot, local.values, w.responses.constraint, w.listed
    )
    w.responses.count[0] = listed
    if trace(system, w.tree, w.responses) != 0:
        return Status.INFEASIBLE
    auxiliary_matrix(system, w.tree, local.j, w.work, w.responses, w.matrix)
    _set_negligible(system, w.auxiliary, local.m, local.j, w.negligible)
    threshold = _RESTITUTION_SPEED * h * gravity if bouncing else math.inf
    # velocities of first order do not last, so that overlap may be pushed out at any
    rate, most = (0.5 / h, math.inf) if first_order else (_RECOVERY_RATE, _MAX_RECOVERY)
    count = set_contact_rhs(
        equality_rows, per_contact, w.compliance, _SLOP, rate, most, threshold, h, first, n, w.listed,
        local.values, w.before, contacts.depth, contacts.restitution, w.negligible, w.matrix, w.rhs, w.low, w.high,
    )  # fmt: skip
    for i in range(count):
        w.force[i], w.guess[i] = 0.0, 0
    w.report[0] = 0
    if per_contact == 3:
        w.report[0], _ = sweep_cones(first, n, _SWEEPS, _CONVERGED, w.matrix, w.rhs, w.low, contacts.friction, w.force)
    elif solve_lcp(count, _DEPENDENT, w.matrix, w.rhs, w.low, w.high, w.lcp, w.guess, w.force, w.residual) != 0:
        return Status.INFEASIBLE
    last = len(own.link)
    for k in range(last):
        wrenches.link[k] = own.link[k]
        for c in range(9):
            wrenches.data[k, c] = own.data[k, c]
    last = set_wrenches(
        per_contact, setup.center, 1.0 if first_order else h, first, n, contacts.link_a, contacts.link_b,
        contacts.point, contacts.normal, w.force, w.s.pose, last, force, wrenches.link, wrenches.data,
    )  # fmt: skip
    for k in range(last, len(wrenches.link)):
        wrenches.link[k] = 0
        for c in range(9):
            wrenches.data[k, c] = 0.0
    return 0
