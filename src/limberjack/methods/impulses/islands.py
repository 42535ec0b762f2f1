"""Contacts of one step: detected once, ordered by island and level, then solved in every substep, island by island.

Bodies in contact or joined by a joint make an island; an island at rest sleeps until an awake body comes near. Islands
without joints are solved here, each in one of three ways:

    SOFT    a few sweeps, four contacts at a time; contacts are springs of a frequency, strongly damped
    FIRM    more sweeps; springs of half the substeps per second
    HARD    sweeps and shock propagation, no compliance

Sweeps converge in about as many passes as a body carries times its own mass: beyond a load ratio islands are HARD.
Bodies whose motion is prescribed have infinite mass in contacts and belong to no island.

`how` holds the numbers of the method's options; the constants below are its indices.
"""

from __future__ import annotations

from limberjack._jit import inner, outlined
from limberjack.collision.detect import detect
from limberjack.contact.bundles import (
    BUNDLES,
    LOOSE,
    add_normal_impulses,
    begin_bundles,
    fill_bundles,
    list_contacts,
    pack_contacts,
    sweep_bundles,
    update_and_relax,
    update_loose,
)
from limberjack.contact.graph import find_islands, find_levels, sort_contacts
from limberjack.contact.sleep import spread_carried, wake_islands, wake_on_led
from limberjack.contact.sweeps import (
    DEPENETRATION,
    JN,
    JT,
    E,
    N,
    add_step_impulse,
    prefetch_row,
    set_contact_rows,
    set_effective_masses,
    set_links,
    shock_propagation,
    sweep,
    update_contacts,
    warm_start,
)
from limberjack.contact.warm_start import match_contacts
from limberjack.errors import Status
from limberjack.methods.impulses.motion import set_reach

__all__ = [
    "DAMPED", "STILL", "add_impulses_and_mark_free", "detect_contacts", "island_kind", "relax_islands",
    "solve_islands", "sweep_kind", "update_island_contacts",
]  # fmt: skip

# Contacts with gaps up to this are detected and count as supporting [m].
MARGIN = 1e-3
# Motion that shock propagation may always leave [m/s].
_MOTION = 0.1
# Velocity that it may give a body at rest: columns that rock come to rest by less [m/s].
_FASTER = 0.5
# How the contacts of an island are solved, see above.
SOFT, FIRM, HARD = range(3)
# A column has so many levels at least. A column with a body that has been slow for less than this time is solved FIRM:
# the change to HARD alone would keep it moving, since firm contacts sink in more; a swaying one is slow for less [s].
TALL, STILL = 3.0, 0.25
# Part of the load ratio from which islands of few contacts are HARD.
_FEW = 0.5
# Above all levels.
HIGHEST = 2**40
# How joints are solved: one after the other, all at once, or all at once and damped.
SWEPT, TOGETHER, DAMPED = 0.0, 1.0, 2.0
# Velocities after the final sweep over joints alone: those it leaves, or those saved before it (section VI).
KEPT, SAVED = 1.0, 2.0
# Indices in `how`; from KIND on, for each kind of island: sweeps, relaxation sweeps, rate, scale and give.
SHOCK, TOLERANCE, GLOBAL, SLOW, PATIENCE, SMALL, RATIO, GRADUAL, SEARCH, AFTER, LEVELS, KIND = range(12)
SWEEPS, RELAX, RATE, SCALE, GIVE, WIDTH = range(6)


@outlined
def _count_moving(bulk, graph):
    """Count bodies that have moved lately with the leaning contacts: their islands are no columns at rest."""
    for i in range(len(bulk.mass)):
        if graph.body[i] >= 0 and bulk.calm[i] < STILL:
            graph.facts[graph.body[i], 4] += 1.0


@outlined
def _drop_led_pairs(contacts, led):
    """Drop the contacts of led bodies with each other and with the ground."""
    left = 0
    for k in range(contacts.count[0]):
        a, b = contacts.link_a[k], contacts.link_b[k]
        if led[a] and (b < 0 or led[b]):
            continue
        if left < k:
            contacts.link_a[left], contacts.link_b[left] = a, b
            contacts.shape_a[left], contacts.shape_b[left] = contacts.shape_a[k], contacts.shape_b[k]
            contacts.key[left], contacts.depth[left] = contacts.key[k], contacts.depth[k]
            contacts.friction[left], contacts.restitution[left] = contacts.friction[k], contacts.restitution[k]
            for c in range(3):
                contacts.point[left, c], contacts.normal[left, c] = contacts.point[k, c], contacts.normal[k, c]
        left += 1
    contacts.count[0] = left


@outlined
def detect_contacts(setup, shapes, filters, how, dt, up, broad, contacts, cache, graph, sweeps, bulk, s):
    """Detect contacts, find islands and levels, fill the rows; return a status and whether the last island has joints.

    The contact graph is that of section VI of the paper.
    """
    set_reach(setup.gravity, dt, s.u, bulk)
    if len(shapes.kind) > 1:
        found = detect(shapes, filters, s.pose, bulk.reach, MARGIN, broad, contacts)
        if found == Status.MORE_CONTACTS or contacts.count[0] > len(graph.order):
            return Status.MORE_CONTACTS, False
        if found != 0:
            return Status.POSE_NOT_FINITE, False
        if bulk.led_count[0] > 0:
            _drop_led_pairs(contacts, bulk.led)
            wake_on_led(contacts.count[0], contacts.link_a, contacts.link_b, s.u, bulk)
    count, system = contacts.count[0], setup.system
    find_islands(
        count, contacts.link_a, contacts.link_b, system.incidence_start, system.incidence_body, setup.constraints[0],
        bulk.led, graph.root,
    )  # fmt: skip
    wake_islands(graph.root, bulk)
    if bulk.led_count[0] > 0:
        spread_carried(graph.root, bulk)
    match_contacts(contacts, cache)
    find_levels(count, contacts.link_a, contacts.link_b, contacts.normal, contacts.depth, MARGIN, up, bulk.led, graph)
    together = sort_contacts(
        count, contacts.link_a, contacts.link_b, contacts.normal, contacts.depth, MARGIN, up, bulk.mass,
        bulk.jointed, bulk.asleep, bulk.led, graph,
    )  # fmt: skip
    _count_moving(bulk, graph)
    islands = graph.count[0] - 1 if together else graph.count[0]
    _set_contacts(islands, how, setup.gravity, contacts, cache, graph, sweeps, bulk, s)
    return 0, together


@outlined
def _set_contacts(islands, how, gravity, contacts, cache, graph, sweeps, bulk, s):
    """Put the contacts of soft islands without joints into bundles, and fill the rows of all others."""
    bundles, link, row, count = sweeps.bundles, sweeps.link, sweeps.row, contacts.count[0]
    set_links(count, contacts, graph, sweeps)
    begin_bundles(count, islands, bundles)
    for i in range(islands):
        begin, end = graph.island[i], graph.island[i + 1]
        if island_kind(i, how, graph.facts) == SOFT and not _asleep(begin, link, bulk):
            bundles.packed[i] = 1
            list_contacts(begin, end, graph.order, contacts, bundles)
    pack_contacts(gravity, link, graph.order, contacts, bulk.led, s.pose, bundles)
    fill_bundles(link, graph.order, contacts, cache.found, s.pose, bulk.inverse, s.u, bundles)
    for k in range(count):
        if bundles.slot[k] < 0:
            set_contact_rows(k, k + 1, contacts, graph, cache, gravity, bulk.led, s.pose, sweeps)
            update_contacts(k, k + 1, link, 0.0, s.pose, s.pose, s.u, row)
            set_effective_masses(k, k + 1, link, bulk.inverse, row)
    if sweeps.restitution_count[0] > 0:
        for k in range(count):
            if bundles.slot[k] >= 0:
                row[k, E] = 0.0


@inner
def _mark_contact(k, link, row, bulk):
    if row[k, JN] > 0.0:
        for side in range(2):
            i, f = link[k, side], row[k, JN] if side == 0 else -row[k, JN]
            if i >= 0:
                bulk.free[i] = 0
                for c in range(3):
                    bulk.normal_impulse[i, c] += f * row[k, N + c]


@inner
def _mark_free(bulk):
    push = bulk.normal_impulse
    for i in range(len(bulk.free)):
        bulk.free[i] = 0 if bulk.jointed[i] or bulk.led[i] else 1
        push[i, 0], push[i, 1], push[i, 2] = 0.0, 0.0, 0.0


@outlined
def _add_impulses_and_mark(first, last, link, row, bulk):
    for k in range(first, last):
        prefetch_row(k, last, row)
        add_step_impulse(k, row)
        _mark_contact(k, link, row, bulk)


@outlined
def add_impulses_and_mark_free(islands, count, graph, sweeps, bulk):
    """Add the impulses of contacts to those of the step; mark the bodies without joints and contact impulses.

    The normal impulses on the others are summed up. Bundles add theirs to those of the step as they are relaxed, and
    `add_step_impulses` those of islands with joints, once these are closed.
    """
    bundles, link, row = sweeps.bundles, sweeps.link, sweeps.row
    _mark_free(bulk)
    for i in range(islands):
        if not bundles.packed[i]:
            _add_impulses_and_mark(graph.island[i], graph.island[i + 1], link, row, bulk)
    for k in range(graph.island[islands], count):
        _mark_contact(k, link, row, bulk)
    for t in range(bundles.count[LOOSE]):
        _add_impulses_and_mark(bundles.loose[t], bundles.loose[t] + 1, link, row, bulk)
    add_normal_impulses(bundles, bulk)


@outlined
def update_island_contacts(islands, h, before, pose, graph, sweeps, u):
    """Update levers and gaps of contacts after bodies moved from the poses before by h u; see `update_contacts`.

    Bundles are updated as they are relaxed; `settle` notes the motion for them.
    """
    bundles, link, row = sweeps.bundles, sweeps.link, sweeps.row
    for i in range(islands):
        if not bundles.packed[i]:
            update_contacts(graph.island[i], graph.island[i + 1], link, h, before, pose, u, row)
    update_loose(link, h, before, pose, u, bundles, row)


@inner
def island_kind(i, how, facts):
    """Return how to solve island i: HARD under large loads and for columns, FIRM with few contacts, else SOFT.

    Few contacts sink in by about 10 um times the load ratio where they are FIRM, and are cheap to solve HARD.

    Shock propagation lets bodies creep that lean on each other, as in an arch, since their supports form cycles; it
    keeps rocking columns rocking. Compliant contacts would let a single body slip while it compresses them.
    """
    column = facts[i, 2] >= TALL and facts[i, 0] < 4.0 * facts[i, 2] and facts[i, 4] == 0.0
    few = facts[i, 1] <= how[SMALL]
    if facts[i, 3] > (_FEW if few else 1.0) * how[RATIO] or ((column or facts[i, 0] <= 1.0) and how[RATIO] < 1e300):
        return HARD
    return FIRM if few else SOFT


@outlined
def sweep_kind(kind, first, last, times, how, h, link, inverse, row, u):
    """Sweep contacts with the parameters of a kind of island, `times` times; 0 = as often as the kind says."""
    o = KIND + WIDTH * kind
    if times == 0:
        times = int(how[o + SWEEPS])
    sweep(first, last, times, link, inverse, h, how[o + RATE], DEPENETRATION, how[o + SCALE], how[o + GIVE], row, u)


@outlined
def _motion_of(begin, end, link, bulk, u):
    """Return the motion of the bodies of some contacts, counted once per contact, and the largest squared velocity."""
    out, most = 0.0, 0.0
    for k in range(begin, end):
        for side in range(2):
            i = link[k, side]
            if i >= 0 and not bulk.led[i]:
                o, f = 6 * i, 0.1 * bulk.extent[i] * bulk.extent[i]
                w = u[o] * u[o] + u[o + 1] * u[o + 1] + u[o + 2] * u[o + 2]
                v = u[o + 3] * u[o + 3] + u[o + 4] * u[o + 4] + u[o + 5] * u[o + 5]
                out += bulk.mass[i] * (v + f * w + _MOTION * _MOTION)
                most = max(most, v + f * w)
    return out, most


@outlined
def _copy_bodies(begin, end, link, source, target):
    """Copy the velocities of the bodies of some contacts."""
    for k in range(begin, end):
        for side in range(2):
            if link[k, side] >= 0:
                for c in range(6 * link[k, side], 6 * link[k, side] + 6):
                    target[c] = source[c]


@outlined
def _solve_hard(begin, end, how, h, graph, sweeps, bulk, saved, u):
    """Solve an island by shock propagation; return False, and undo it, where that adds too much energy.

    Contacts dissipate, and hardly ever make a body faster than all others that push it. Where the levels of an island
    pass impulses around in cycles, or squeeze a light body out between heavy ones of infinite mass, shock propagation
    adds energy: such an island is swept instead.
    """
    link, row, inverse = sweeps.link, sweeps.row, bulk.inverse
    _copy_bodies(begin, end, link, u, saved)
    before, fast = _motion_of(begin, end, link, bulk, u)
    warm_start(begin, end, link, inverse, row, u)
    sweep_kind(HARD, begin, end, 0, how, h, link, inverse, row, u)
    if how[SHOCK] > 0.0:
        rate = how[KIND + WIDTH * HARD + RATE]
        shock_propagation(begin, end, int(how[SHOCK]), link, sweeps.level, inverse, graph.level, h, rate, row, u)
    after, faster = _motion_of(begin, end, link, bulk, u)
    if after <= 2.0 * before and faster <= fast + _FASTER * _FASTER:
        return True
    _copy_bodies(begin, end, link, saved, u)
    for k in range(begin, end):
        row[k, JN], row[k, JT], row[k, JT + 1], row[k, JT + 2] = 0.0, 0.0, 0.0, 0.0
    return False


@inner
def _asleep(k, link, bulk):
    """Return whether the island of contact k sleeps."""
    return bulk.asleep[link[k, 1] if bulk.led[link[k, 0]] else link[k, 0]] != 0


@outlined
def solve_islands(last, how, h, graph, sweeps, bulk, saved, u):
    """Sweep the contacts of islands without joints: those of soft ones in bundles, the others island by island."""
    link, row, inverse, bundles = sweeps.link, sweeps.row, bulk.inverse, sweeps.bundles
    if bundles.count[BUNDLES] + bundles.count[LOOSE] > 0:
        o = KIND + WIDTH * SOFT
        sweep_bundles(
            int(how[o + SWEEPS]), link, inverse, bulk.led, h, how[o + RATE], DEPENETRATION, how[o + SCALE],
            how[o + GIVE], row, bundles, u,
        )  # fmt: skip
    for i in range(last):
        begin, end = graph.island[i], graph.island[i + 1]
        if bundles.packed[i] or _asleep(begin, link, bulk):
            continue
        kind = island_kind(i, how, graph.facts)
        if kind == HARD:
            if _solve_hard(begin, end, how, h, graph, sweeps, bulk, saved, u):
                continue
            kind = FIRM
        warm_start(begin, end, link, inverse, row, u)
        sweep_kind(kind, begin, end, 0, how, h, link, inverse, row, u)


@outlined
def relax_islands(last, how, h, graph, sweeps, bulk, u):
    """Take the depenetration velocity out of islands without joints."""
    bundles = sweeps.bundles
    if bundles.count[BUNDLES] + bundles.count[LOOSE] > 0:
        update_and_relax(sweeps.link, bulk.inverse, bulk.led, h, sweeps.row, bundles, u)
    for i in range(last):
        begin, end = graph.island[i], graph.island[i + 1]
        if not bundles.packed[i] and not _asleep(begin, sweeps.link, bulk):
            times = int(how[KIND + WIDTH * island_kind(i, how, graph.facts) + RELAX])
            sweep(begin, end, times, sweeps.link, bulk.inverse, h, 0.0, DEPENETRATION, 1.0, 0.0, sweeps.row, u)
