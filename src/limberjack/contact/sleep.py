"""Sleep: islands at rest are left out of all work until an awake body joins them.

Kernels read and write these arrays of the n bodies in `bulk`: asleep (1 where a body sleeps), calm (how long it has
been slow [s]), extent (radius of its shapes about the com [m]) and the scratch `moving`.
"""

from __future__ import annotations

import math

from limberjack._jit import outlined

__all__ = ["sleep_islands", "wake_islands"]


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
        o = 6 * i
        w = math.sqrt(u[o] * u[o] + u[o + 1] * u[o + 1] + u[o + 2] * u[o + 2])
        v = math.sqrt(u[o + 3] * u[o + 3] + u[o + 4] * u[o + 4] + u[o + 5] * u[o + 5])
        bulk.calm[i] = bulk.calm[i] + dt if v + bulk.extent[i] * w < slow and graph.body[i] >= 0 else 0.0
        moving[root[i]] = min(moving[root[i]], bulk.calm[i])
    for i in range(n):
        if not bulk.asleep[i] and moving[root[i]] >= patience:
            bulk.asleep[i] = 1
            for c in range(6):
                u[6 * i + c] = 0.0
