"""Bounces of bodies with joints: a contact leaves as fast as it is to when the joints have answered, not before.

A bob on a rod does not answer a wall as a free one does. The contacts of two bodies and the direct solve of all joints
take turns until those leave as they are to.
"""

from __future__ import annotations

from limberjack._jit import outlined
from limberjack.constraints.maximal import evaluate
from limberjack.methods.impulses.closing import LIMITED, clear_sums, factor_rows, hold
from limberjack.solvers.bounces import aim, book, next_pair, strike

__all__ = ["bounce_held"]

# The most turns of a pair of bodies, and solves in a substep; they end when they change no velocity by more [m/s].
_TURNS, _SOLVES, _ENOUGH = 80, 200, 1e-6


@outlined
def _take_turns(begin, end, most, h, setup, tree, structure, rows, sweeps, bulk, e, s, saddle):
    """Strike the contacts of two bodies in turn with the joints; return a status and the solves."""
    status, solves = 0, 0
    for _ in range(_TURNS):
        changed = strike(begin, end, sweeps.link, bulk.inverse, sweeps.row, s.u)
        if changed <= _ENOUGH or solves >= most:
            break
        status = hold(setup, tree, structure, LIMITED, h, rows, e, s, saddle)
        solves += 1
        if status != 0:
            break
    book(begin, end, sweeps.row)
    return status, solves


@outlined
def bounce_held(
    # model
    setup, tree, structure,
    # in
    first, last, times, h, time, all_rows, rows, sweeps, bulk,
    # out
    e, s, saddle,
):  # fmt: skip
    """Let contacts first .. last - 1, those of islands with joints, bounce, pair after pair; return a status.

    Args:
        setup, tree, structure: what stays, and the solver.
        first, last: contacts.
        times: sweeps over the pairs.
        h, time: the substep and its start [s].
        all_rows, rows: of the joints.
        sweeps, bulk: contacts and bodies.
        e, s, saddle: rows, state and factor; e and the factor are of the poses now if anything bounced.
    """
    link, row, status, left, ready = sweeps.link, sweeps.row, 0, _SOLVES, False
    for _ in range(times):
        hits, begin = 0, first
        while begin < last:
            end = next_pair(begin, last, link)
            found = aim(begin, end, link, h, row, s.u)
            if found > 0:
                if not ready:
                    evaluate(
                        setup.bodies, setup.system, setup.table, setup.touch, setup.soft, time, all_rows, s.pose, s.u, e
                    )
                    for r in range(len(s.pressed)):
                        s.pressed[r] = 0.0
                    clear_sums(len(rows.pushed), rows.pushed)
                    status = factor_rows(setup, tree, structure, e, s, saddle)
                    ready = True
                if status == 0:
                    status, solves = _take_turns(
                        begin, end, left, h, setup, tree, structure, rows, sweeps, bulk, e, s, saddle
                    )
                    left -= solves
                if status != 0:
                    return status
            hits += found
            begin = end
        if hits == 0:
            break
    return status
