"""Contacts of one step: found once, ordered by island and level, then met in every substep, island by island."""

from __future__ import annotations

from limberjack._jit import inner, outlined
from limberjack.collision.detect import FULL, detect
from limberjack.collision.kept import find_again
from limberjack.methods.impulses.motion import set_reach
from limberjack.methods.impulses.touching import gather, wake
from limberjack.solvers.contact_graph import find_islands, find_levels, sort_contacts
from limberjack.solvers.sweeps import ACROSS, JN, JT, PUSHED, follow, set_masses, shock, sweep, warm_start

__all__ = [
    "MORE_CONTACTS", "NOT_FINITE", "find_touching", "kind_of", "meet_islands", "note_pushes", "relax_islands",
    "sweep_kind",
]  # fmt: skip

MORE_CONTACTS, NOT_FINITE = -(2**43), -(2**44)
# Contacts closer than this are looked for and count as carrying [m].
MARGIN = 1e-3
# How an island's contacts are met: giving way a little, giving way less and swept more, or not at all.
SOFT, FIRM, HARD = range(3)
# Places in `how`, the numbers of the method's options; sweeps, relaxing sweeps, rate, scale and give of each kind.
SHOCK, TOLERANCE, GLOBAL, SLOW, PATIENCE, SMALL, RATIO, KIND = range(8)
SWEEPS, RELAX, RATE, SCALE, GIVE, WIDTH = range(6)


@outlined
def find_touching(setup, shapes, filters, dt, up, broad, contacts, kept, graph, sweeps, bulk, s):
    """Find contacts, islands and levels and order them; return a status and whether the last island has joints."""
    set_reach(setup.gravity, dt, s.u, bulk)
    if len(shapes.kind) > 1:
        found = detect(shapes, filters, s.pose, bulk.reach, MARGIN, broad, contacts)
        if found == FULL or contacts.count[0] > len(graph.order):
            return MORE_CONTACTS, False
        if found != 0:
            return NOT_FINITE, False
    count, system = contacts.count[0], setup.system
    find_islands(
        count, contacts.link_a, contacts.link_b, system.touch_start, system.touch_body, setup.constraints[0],
        graph.root,
    )  # fmt: skip
    wake(graph.root, bulk)
    find_again(contacts, kept)
    find_levels(count, contacts.link_a, contacts.link_b, contacts.normal, contacts.depth, MARGIN, up, graph)
    together = sort_contacts(count, contacts.link_a, contacts.link_b, bulk.mass, bulk.jointed, graph)
    gather(contacts, graph, kept, setup.gravity, s.pose, sweeps)
    follow(0, count, sweeps.link, 0.0, s.pose, s.pose, s.u, sweeps.row)
    set_masses(0, count, sweeps.link, bulk.inverse, sweeps.row)
    return 0, together


@outlined
def note_pushes(first, last, link, row, bulk):
    """Add up the impulses of contacts, and note which bodies they push."""
    for i in range(len(bulk.free)):
        bulk.free[i] = 0 if bulk.jointed[i] else 1
    for k in range(first, last):
        jn = row[k, JN]
        row[k, PUSHED] += jn
        row[k, ACROSS] += row[k, JT]
        row[k, ACROSS + 1] += row[k, JT + 1]
        row[k, ACROSS + 2] += row[k, JT + 2]
        if jn > 0.0:
            bulk.free[link[k, 0]] = 0
            if link[k, 1] >= 0:
                bulk.free[link[k, 1]] = 0


@inner
def kind_of(i, how, facts):
    """Return how island i is to be met: hard with unlike masses and in columns, firm with few contacts, else soft."""
    column = facts[i, 2] >= 3.0 and facts[i, 0] < 2.0 * facts[i, 2] and how[RATIO] < 1e300
    if facts[i, 3] > how[RATIO] or column:
        return HARD
    return FIRM if facts[i, 1] <= how[SMALL] else SOFT


@outlined
def sweep_kind(kind, first, last, times, how, h, link, inverse, row, u):
    """Sweep contacts as those of an island of a kind, `times` times; 0 = as often as the kind asks for."""
    o = KIND + WIDTH * kind
    if times == 0:
        times = int(how[o + SWEEPS])
    sweep(first, last, times, link, inverse, h, how[o + RATE], how[o + SCALE], how[o + GIVE], row, u)


@outlined
def meet_islands(last, how, h, graph, sweeps, bulk, u):
    """Sweep the contacts of islands without joints, one island after the other."""
    link, row, inverse = sweeps.link, sweeps.row, bulk.inverse
    for i in range(last):
        begin, end = graph.island[i], graph.island[i + 1]
        if bulk.asleep[link[begin, 0]]:
            continue
        kind = kind_of(i, how, graph.facts)
        warm_start(begin, end, link, inverse, row, u)
        sweep_kind(kind, begin, end, 0, how, h, link, inverse, row, u)
        if kind == HARD and how[SHOCK] > 0.0:
            rate = how[KIND + WIDTH * HARD + RATE]
            shock(begin, end, int(how[SHOCK]), link, sweeps.level, inverse, graph.level, h, rate, row, u)


@outlined
def relax_islands(last, how, h, graph, sweeps, bulk, u):
    """Take the push that undoes overlaps out of the velocities of islands without joints."""
    for i in range(last):
        begin, end = graph.island[i], graph.island[i + 1]
        if not bulk.asleep[sweeps.link[begin, 0]]:
            times = int(how[KIND + WIDTH * kind_of(i, how, graph.facts) + RELAX])
            sweep(begin, end, times, sweeps.link, bulk.inverse, h, 0.0, 1.0, 0.0, sweeps.row, u)
