"""Contacts of bodies with joints detected again within a step, where bodies turn or slide too far for the old ones.

The bars of a net turn by a radian within a frame: the contact points at its start tell nothing of its end.
"""

from __future__ import annotations

import math

from limberjack._jit import outlined
from limberjack.contact.bundles import pack_step_impulses, store_impulses, unpack_bundles
from limberjack.contact.sweeps import RA, RB, STEP_N, STEP_T, N
from limberjack.contact.warm_start import match_contacts
from limberjack.methods.impulses.islands import detect_contacts

__all__ = ["redetect", "restore_warm_start", "stale"]

# Contacts are detected again when some body has slid so far along another at a contact [m].
FAR = 2e-3


@outlined
def stale(first, last, since, link, row, u):
    """Return whether some contact has slid or turned too far since contacts were found, `since` seconds ago."""
    most = (FAR / since) * (FAR / since)
    for k in range(first, last):
        a, b = 6 * link[k, 0], 6 * link[k, 1]
        wx, wy, wz, x, y, z = u[a], u[a + 1], u[a + 2], u[a + 3], u[a + 4], u[a + 5]
        rx, ry, rz = row[k, RA], row[k, RA + 1], row[k, RA + 2]
        x, y, z = x + wy * rz - wz * ry, y + wz * rx - wx * rz, z + wx * ry - wy * rx
        reach = rx * rx + ry * ry + rz * rz
        if b >= 0:
            rx, ry, rz = row[k, RB], row[k, RB + 1], row[k, RB + 2]
            x -= u[b + 3] + u[b + 1] * rz - u[b + 2] * ry
            y -= u[b + 4] + u[b + 2] * rx - u[b] * rz
            z -= u[b + 5] + u[b] * ry - u[b + 1] * rx
            wx, wy, wz = wx - u[b], wy - u[b + 1], wz - u[b + 2]
            reach = min(reach, rx * rx + ry * ry + rz * rz)
        along = x * row[k, N] + y * row[k, N + 1] + z * row[k, N + 2]
        slid = x * x + y * y + z * z - along * along
        turned = (wx * wx + wy * wy + wz * wz) * reach
        if slid + turned + 2.0 * math.sqrt(max(slid, 0.0) * turned) > most:
            return True
    return False


@outlined
def _copy_cache(source, target):
    for k in range(source.count[0]):
        for c in range(3):
            target.name[k, c] = source.name[k, c]
        for c in range(4):
            target.impulse[k, c] = source.impulse[k, c]
    target.count[0] = source.count[0]


@outlined
def restore_warm_start(rounds, cache):
    """Restore the cached impulses from before the step."""
    _copy_cache(rounds.before, cache)


@outlined
def redetect(setup, shapes, filters, how, dt, up, broad, again, contacts, cache, graph, sweeps, rounds, bulk, s):
    """Detect contacts again, with the impulses so far; return a status and whether the last island has joints.

    Args:
        dt: what is left of the step [s].
        again: whether this is not the first time in the step.
    """
    if not again:
        _copy_cache(cache, rounds.before)
    unpack_bundles(contacts.count[0], sweeps.link, sweeps.row, sweeps.bundles)
    store_impulses(contacts, graph, sweeps, cache)
    row, sums = sweeps.row, rounds.sums
    for t in range(contacts.count[0]):
        k = graph.order[t]
        sums.impulse[k, 0] = row[t, STEP_N]
        for c in range(3):
            sums.impulse[k, 1 + c] = row[t, STEP_T + c]
    status, together = detect_contacts(
        setup, shapes, filters, how, dt, up, broad, contacts, cache, graph, sweeps, bulk, s
    )
    if status == 0:
        match_contacts(contacts, sums)
        for t in range(contacts.count[0]):
            k = graph.order[t]
            row[t, STEP_N] = sums.found[k, 0]
            for c in range(3):
                row[t, STEP_T + c] = sums.found[k, 1 + c]
        pack_step_impulses(contacts.count[0], row, sweeps.bundles)
    return status, together
