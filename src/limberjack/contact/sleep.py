"""Sleep: islands at rest are left out of all work until an awake body joins them.

Kernels read and write these arrays of the n bodies in `bulk`: asleep (1 where a body sleeps), calm (how long it has
been slow [s]), extent (radius of its shapes about the com [m]), led (not 0 where the motion is prescribed), carried
(1 in islands that touch a moving led body) and the scratch `moving`. Led bodies never sleep.
"""

from __future__ import annotations

import math

from limberjack._jit import inner, outlined

__all__ = ["sleep_islands", "spread_carried", "wake_islands", "wake_on_led"]

# A led body that is faster than this keeps what touches it awake [m/s].
_STILL = 1e-9


@outlined
def wake_islands(root, bulk):
    """Wake every body of an island in which any is awake."""
    asleep, moving = bulk.asleep, bulk.moving
    for i in range(len(asleep)):
        moving[i] = 0.0
    for i in range(len(asleep)):
        if not asleep[i]:
            moving[root[i]] = 1.0
    for i in range(len(asleep)):
        if asleep[i] and moving[root[i]] > 0.0:
            asleep[i] = 0
            bulk.calm[i] = 0.0


@inner
def _speed(i, u, bulk):
    """Return the largest velocity that a point of body i may have."""
    o = 6 * i
    w = math.sqrt(u[o] * u[o] + u[o + 1] * u[o + 1] + u[o + 2] * u[o + 2])
    return math.sqrt(u[o + 3] * u[o + 3] + u[o + 4] * u[o + 4] + u[o + 5] * u[o + 5]) + bulk.extent[i] * w


@outlined
def wake_on_led(count, link_a, link_b, u, bulk):
    """Wake and mark as carried the bodies in contact with led bodies that move."""
    for i in range(len(bulk.carried)):
        bulk.carried[i] = 0
    for k in range(count):
        for side in range(2):
            i, other = (link_a[k], link_b[k]) if side == 0 else (link_b[k], link_a[k])
            if i >= 0 and other >= 0 and bulk.led[i] and not bulk.led[other] and _speed(i, u, bulk) > _STILL:
                bulk.asleep[other] = 0
                bulk.calm[other] = 0.0
                bulk.carried[other] = 1


@outlined
def spread_carried(root, bulk):
    """Mark all bodies of an island in which any is carried."""
    carried = bulk.carried
    for i in range(len(carried)):
        if carried[i]:
            carried[root[i]] = 1
    for i in range(len(carried)):
        carried[i] = carried[root[i]]


@outlined
def sleep_islands(dt, slow, patience, graph, bulk, u):
    """Put islands with contacts to sleep that have been slow for long enough."""
    root, moving = graph.root, bulk.moving
    n = len(root)
    for i in range(n):
        moving[i] = patience
    for i in range(n):
        if bulk.asleep[i]:
            continue
        bulk.calm[i] = bulk.calm[i] + dt if _speed(i, u, bulk) < slow and graph.body[i] >= 0 else 0.0
        moving[root[i]] = min(moving[root[i]], bulk.calm[i])
    for i in range(n):
        if not bulk.asleep[i] and moving[root[i]] >= patience:
            bulk.asleep[i] = 1
            for c in range(6):
                u[6 * i + c] = 0.0
