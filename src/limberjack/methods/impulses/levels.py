"""Swept contacts in turn with swept joints: all at once, or level by level.

Level by level is the order of Weinstein, Teran and Fedkiw (2006), section VI. Each sweep goes from the ground up: the
contacts of a level, then the joints whose higher body is in that level. Shock propagation does so once more, with
infinite mass for all bodies of lower levels in contacts, but not in joints.
"""

from __future__ import annotations

from limberjack._jit import outlined
from limberjack.contact.sweeps import set_effective_masses
from limberjack.methods.impulses.islands import (
    FIRM,
    GRADUAL,
    HIGHEST,
    KIND,
    SEARCH,
    SHOCK,
    SWEEPS,
    TOLERANCE,
    WIDTH,
    sweep_kind,
)
from limberjack.methods.impulses.joint_newton import sweep_joints
from limberjack.methods.impulses.motion import SWEPT
from limberjack.spatial.clock import ticks

__all__ = ["solve_alternately", "solve_by_levels"]

# Rounds of contacts and joints in each level of shock propagation; few, since joints also act on lower levels.
_ROUNDS = 10


@outlined
def solve_alternately(first, last, kind, how, h, time, setup, height, sweeps, rows, bulk, e, s):
    """Sweep the contacts of all islands with joints, in turn with the joints at the end of the step."""
    times = int(how[KIND + WIDTH * FIRM + SWEEPS])
    for k in range(times):
        begin = ticks()
        sweep_kind(kind, first, last, 1, how, h, sweeps.link, bulk.inverse, sweeps.row, s.u)
        bulk.spent[SWEPT] += ticks() - begin
        eps = (k + 1.0) / times if how[GRADUAL] > 0.0 else 1.0
        sweep_joints(
            setup, False, -1, HIGHEST, height, eps, how[SEARCH], how[TOLERANCE], h, time + h, s.pose, rows.compound,
            bulk, e, s.predicted, s.stage, rows.total, rows.small, s.u,
        )  # fmt: skip


@outlined
def _fix_below(level, height, inverse, out):
    """Copy inverse inertias, with 0 for bodies below a level."""
    for i in range(len(inverse)):
        f = 0.0 if height[i] < level else 1.0
        for c in range(7):
            out[i, c] = f * inverse[i, c]


@outlined
def _sweep_levels(first, last, kind, times, fixed, eps, how, h, time, setup, height, sweeps, rows, bulk, e, s):
    """Sweep contacts and joints of each level `times` times, from the ground up.

    `fixed`: bodies of lower levels have infinite mass in contacts.
    """
    begin, below = first, -1
    while begin < last:
        level, end = sweeps.level[begin], begin
        while end < last and sweeps.level[end] == level:
            end += 1
        _fix_below(level if fixed else 0, height, bulk.inverse, rows.inverse)
        if fixed:
            set_effective_masses(begin, end, sweeps.link, rows.inverse, sweeps.row)
        top = HIGHEST if end == last else level
        for _ in range(times):
            # section VI: the contacts of a level, then the joints between its bodies and lower ones
            start = ticks()
            sweep_kind(kind, begin, end, 1, how, h, sweeps.link, rows.inverse, sweeps.row, s.u)
            bulk.spent[SWEPT] += ticks() - start
            sweep_joints(
                setup, False, below, top, height, eps, how[SEARCH], how[TOLERANCE], h, time + h, s.pose, rows.compound,
                bulk, e, s.predicted, s.stage, rows.total, rows.small, s.u,
            )  # fmt: skip
        begin, below = end, level


@outlined
def solve_by_levels(first, last, kind, how, h, time, setup, height, sweeps, rows, bulk, e, s):
    """Sweep the contacts of all islands with joints, and the joints at the end of the step, level by level."""
    times = int(how[KIND + WIDTH * FIRM + SWEEPS])
    for k in range(times):
        eps = (k + 1.0) / times if how[GRADUAL] > 0.0 else 1.0
        _sweep_levels(first, last, kind, 1, False, eps, how, h, time, setup, height, sweeps, rows, bulk, e, s)
    # section VI: shock propagation, without infinite inertia for joints
    if how[SHOCK] > 0.0:
        rounds = min(_ROUNDS, int(how[SHOCK]))
        _sweep_levels(first, last, kind, rounds, True, 1.0, how, h, time, setup, height, sweeps, rows, bulk, e, s)
        set_effective_masses(first, last, sweeps.link, bulk.inverse, sweeps.row)
