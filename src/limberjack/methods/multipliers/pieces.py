"""Steps that would not close, or not be stable, are taken in pieces, and as a last resort by velocities alone.

A constraint force F at a lever r of a body turns with the body: with d its displacement, the acceleration of the point
is (I^-1 (d x F)) x r. So the forces of the joints are springs, of squared frequency

    k <= sum over the joints of a body of |F| |[r x] I^-1|,

which bounds those of the whole system, since the constraints only remove motions. It is the frequency of a taut chain:
12 T / (m l) for rods. Steps of h sqrt(k) > 2 are unstable; longer ones are divided by a power of two. So are those that
do not close, as when a link turns by more than about a radian.

Where that does not help, as in a pose in which loops lose rank and forces have no bound, the step is taken by
velocities:

    (1 + h^2 k) I instead of I,   J (u + du) = 0,   then x + h u and u are projected.

No curvature enters, velocities gain no energy, and motion normal to the constraints is lost. In the first-order world,
f = m v, forces that turn with bodies limit the step to h k < 2: there (1 + h k) I replaces I in every step that needs
it, which changes the way to the equilibrium and not the equilibrium.

Reference: Baraff 1996, section 5, footnote 5, for loops without rank.
"""

from __future__ import annotations

import numpy as np

from limberjack._jit import inner, outlined
from limberjack.constraints.rows import COORDINATES, ROWS
from limberjack.errors import Status
from limberjack.maximal.bodies import add_geometric_inertia, move_bodies
from limberjack.maximal.forces import forces
from limberjack.maximal.rows import evaluate
from limberjack.maximal.soft_rows import AT_END, set_soft_laws, switch_soft_rows
from limberjack.maximal.solve import (
    ACTIVE_TOLERANCE,
    BY_VELOCITIES,
    PIECES,
    PROJECT,
    STIFFEST,
    STIFFEST_BODY,
    factor_and_solve,
    project,
)
from limberjack.spatial.copies import HUGE, copy, copy_rows

__all__ = [
    "CONSERVING", "DISSIPATIVE", "SWITCHES", "copy_state", "next_attempt", "note_attempt", "note_forces",
    "pieces_needed", "set_stiffness", "velocity_step",
]  # fmt: skip

# Pieces of a step at most: where forces ask for them, and where halves do not close.
_MOST, _MOST_HALVES = 256, 64
# Largest h sqrt(k) of steps with projections, which lose energy; and of those that conserve it: near 2, where linear
# motions become unstable, others gain.
DISSIPATIVE, CONSERVING = 2.0, 1.0
# Solves of a step in which motors, grips and soft limits may enter or leave their bounds.
SWITCHES = 6


@outlined
def set_stiffness(setup, scale, e, s):
    """Fill the bounds on the squared frequencies of bodies under scale times `constraint_force`; return the largest."""
    table, start, k = setup.table, setup.system.row_start, s.stiffness
    for i in range(len(k)):
        k[i] = 0.0
    for c in range(setup.constraints[0]):
        pair = table.row_pair[start[c], 0]
        x = y = z = 0.0
        for r in range(start[c], start[c + 1]):
            if table.row_pair[r, 0] == pair:
                f = s.constraint_force[r]
                x, y, z = x + f * e.wrench[r, 3], y + f * e.wrench[r, 4], z + f * e.wrench[r, 5]
        force = scale * np.sqrt(x * x + y * y + z * z)
        for end in range(2):
            i = table.pair_link[pair, end]
            if i >= 0:
                k[i] += force * s.lever_mobility[pair, end]
    largest, at = 0.0, -1
    for i in range(len(k)):
        if not k[i] <= largest:
            largest, at = k[i], i
    s.report[STIFFEST], s.report[STIFFEST_BODY] = largest, at
    return largest


@outlined
def note_forces(rows, lam, s):
    """Keep the forces of the first rows."""
    for r in range(rows):
        s.constraint_force[r] = lam[r]


@inner
def pieces_needed(h, k, limit):
    """Return the power of two to divide a step h by for h sqrt(k) <= limit."""
    w, pieces = h * np.sqrt(k), 1
    while limit * pieces < w and pieces <= _MOST:
        pieces *= 2
    return pieces


@inner
def next_attempt(status, pieces, by_velocities, springs):
    """Return pieces and route to repeat a step with after `status`; 0 pieces where nothing is left to try."""
    if status == Status.MORE_ROWS:
        return 0, by_velocities
    stiff = Status.NOT_CONVERGED <= status < Status.NOT_CONVERGED + 2 * _MOST + 1
    more = pieces * (status - Status.NOT_CONVERGED) if stiff else 2 * pieces
    if more <= (_MOST if stiff else _MOST_HALVES):
        return more, by_velocities
    if by_velocities:
        return 0, True
    # where forces have no bound pieces do not help; what turned too fast to close needs them here too, and so do
    # springs, which projections would tighten
    return (1 if stiff and springs == 0 else _MOST_HALVES), True


@outlined
def copy_state(to_saved, table, e, s, pose, u, near, compound):
    """Save poses, velocities and what rows know of the past, or restore them: the factor is then of other poses."""
    for t in range(len(table.compound)):
        k = table.compound[t, 0]
        for c in range(COORDINATES, ROWS):
            if to_saved:
                compound[t, c - COORDINATES] = e.state[k, c]
            else:
                e.state[k, c] = compound[t, c - COORDINATES]
    if to_saved:
        copy_rows(s.pose, pose)
        copy(s.u, u)
        copy(e.near, near)
    else:
        s.fresh[0] = 0
        copy_rows(pose, s.pose)
        copy(u, s.u)
        copy(near, e.near)


@outlined
def note_attempt(pieces, by_velocities, report):
    """Report how a step was taken."""
    report[PIECES], report[BY_VELOCITIES] = pieces, 1.0 if by_velocities else 0.0


@inner
def velocity_step(
    setup, tree, structure, springs, drives, armature, span, driven, h, time, tolerance, rows, wrenches, applied, e, s,
    saddle,
):  # fmt: skip
    """Take one step of h by velocities alone; return a status."""
    nu, equalities = len(s.u), setup.system.row_start[setup.constraints[0]]
    for r in range(len(s.last_force)):
        s.last_force[r] = 0.0
    evaluate(setup.bodies, setup.system, setup.table, setup.row_block, setup.scalable_pairs, time, rows, s.pose, s.u, e)
    is_soft = len(setup.soft.row) > 0
    forces(setup, springs, drives, armature, span, driven, is_soft, wrenches, applied, s.pose, e, s, s.force)
    if is_soft:
        set_soft_laws(setup, drives, h, AT_END, setup.soft, e, s)
    status = 0
    for attempt in range(2):
        for _ in range(SWITCHES):
            for k in range(nu):
                saddle.f[k] = h * s.force[k]
            status = factor_and_solve(
                setup, tree, structure, np.int64(1), h, np.int64(PROJECT), 0.0, ACTIVE_TOLERANCE, True, e, s, saddle
            )
            if status != 0:
                return status
            for k in range(nu):
                s.u_stage[k] = s.u[k] + saddle.a[k]
            if not is_soft or not switch_soft_rows(setup, setup.soft, e, s.u_stage):
                break
        if attempt == 0:
            note_forces(equalities, saddle.lam, s)
            stiffest = set_stiffness(setup, 1.0 / h, e, s)
            if h * h * stiffest <= 1.0:
                break
            add_geometric_inertia(setup.bodies, h * h, s.stiffness, e.m)
    for k in range(nu):
        s.u[k] += saddle.a[k]
        if not abs(s.u[k]) < HUGE:
            return Status.NOT_FINITE + k
    move_bodies(setup.bodies, h, s.u, s.pose)
    return project(setup, tree, structure, time + h, tolerance, rows, e, s, saddle)
