"""Contacts detected again within a step, where bodies turn or slide too far for the old ones.

The bars of a net turn by a radian within a frame, planks that a ball hits fly where none was near: the contacts at its
start tell nothing of its end.
"""

from __future__ import annotations

import math

from limberjack._jit import inner, outlined
from limberjack.collision.shapes import SPHERE
from limberjack.contact.bundles import pack_step_impulses, store_impulses, unpack_bundles
from limberjack.contact.sweeps import RA, RB, STEP_N, STEP_T, N
from limberjack.contact.warm_start import match_contacts
from limberjack.methods.impulses.islands import MARGIN, detect_contacts

__all__ = ["redetect", "restore_warm_start", "stale", "stale_free"]

# Contacts are detected again when some body has slid so far along another at a contact [m]; bodies without joints also
# this part of their extent.
FAR, PART = 2e-3, 0.05


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


@inner
def _is_free(i, bulk):
    return not (bulk.asleep[i] or bulk.jointed[i] or bulk.led[i])


@outlined
def _has_moved_on(since, left, bulk, u):
    """Return whether bodies without joints may leave the reach that contacts were detected for, or else have moved far.

    The first is 2, the second 1.
    """
    far = 0
    for i in range(len(bulk.mass)):
        if _is_free(i, bulk):
            o, e = 6 * i, bulk.extent[i]
            w = math.sqrt(u[o] * u[o] + u[o + 1] * u[o + 1] + u[o + 2] * u[o + 2])
            v = math.sqrt(u[o + 3] * u[o + 3] + u[o + 4] * u[o + 4] + u[o + 5] * u[o + 5])
            if v * left + e * min(w * left, 2.0) > bulk.reach[i] + MARGIN:
                return 2
            if since * (v + e * w) > max(FAR, PART * e):
                far = 1
    return far


@outlined
def stale_free(since, left, shapes, contacts, bulk, pose, u):
    """Return whether contacts of bodies without joints, found `since` seconds ago, are too old for the time left [s].

    Those are that may close in that time and at which bodies have slid or turned too far.
    """
    moved = _has_moved_on(since, left, bulk, u)
    if moved != 1:
        return moved == 2
    for k in range(contacts.count[0]):
        a, b = contacts.link_a[k], contacts.link_b[k]
        if not (_is_free(a, bulk) or (b >= 0 and _is_free(b, bulk))):
            continue
        o, px, py, pz = 6 * a, contacts.point[k, 0], contacts.point[k, 1], contacts.point[k, 2]
        rx, ry, rz, wx, wy, wz = px - pose[a, 0], py - pose[a, 1], pz - pose[a, 2], u[o], u[o + 1], u[o + 2]
        x, y, z = u[o + 3] + wy * rz - wz * ry, u[o + 4] + wz * rx - wx * rz, u[o + 5] + wx * ry - wy * rx
        reach = bulk.extent[a]
        if b >= 0:
            o = 6 * b
            rx, ry, rz, tx, ty, tz = px - pose[b, 0], py - pose[b, 1], pz - pose[b, 2], u[o], u[o + 1], u[o + 2]
            x -= u[o + 3] + ty * rz - tz * ry
            y -= u[o + 4] + tz * rx - tx * rz
            z -= u[o + 5] + tx * ry - ty * rx
            wx, wy, wz, reach = wx - tx, wy - ty, wz - tz, min(reach, bulk.extent[b])
        nx, ny, nz = contacts.normal[k, 0], contacts.normal[k, 1], contacts.normal[k, 2]
        along = x * nx + y * ny + z * nz
        slid = math.sqrt(max(x * x + y * y + z * z - along * along, 0.0))
        turned = reach * math.sqrt(wx * wx + wy * wy + wz * wz)
        if shapes.kind[contacts.shape_a[k]] == SPHERE or shapes.kind[contacts.shape_b[k]] == SPHERE:
            turned = 0.0
        if since * (slid + turned) > max(FAR, PART * reach):
            gap = since * along - contacts.depth[k]
            if gap + (along - turned) * left < MARGIN:
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
