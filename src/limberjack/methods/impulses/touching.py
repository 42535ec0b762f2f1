"""Contacts from one step to the next: found again by name, ordered from the ground up, kept, put to sleep."""

from __future__ import annotations

import math

from limberjack._jit import inner, outlined
from limberjack.solvers.sweeps import ACROSS, JN, JT, LA, LB, MU, PULL, PUSHED, E, N, S

__all__ = ["gather", "keep", "rest", "wake"]


@inner
def _from_com(pose, i, x, y, z):
    """Return the point (x, y, z) of the world from the com of body i; itself for the ground."""
    if i < 0:
        return x, y, z
    return x - pose[i, 0], y - pose[i, 1], z - pose[i, 2]


@outlined
def gather(contacts, graph, kept, gravity, pose, sweeps):
    """Fill the rows of all contacts in the order of the sweeps; masses and levers come later."""
    row = sweeps.row
    sweeps.bouncing[0] = 0
    for t in range(contacts.count[0]):
        k = graph.order[t]
        a, b = contacts.link_a[k], contacts.link_b[k]
        high, low = graph.level[a], 0
        if b >= 0:
            high, low = max(graph.level[a], graph.level[b]), min(graph.level[a], graph.level[b])
        sweeps.link[t, 0], sweeps.link[t, 1], sweeps.level[t] = a, b, high
        nx, ny, nz = contacts.normal[k, 0], contacts.normal[k, 1], contacts.normal[k, 2]
        half = -0.5 * contacts.depth[k]
        x, y, z = contacts.point[k, 0], contacts.point[k, 1], contacts.point[k, 2]
        row[t, N], row[t, N + 1], row[t, N + 2] = nx, ny, nz
        row[t, LA], row[t, LA + 1], row[t, LA + 2] = _from_com(pose, a, x + half * nx, y + half * ny, z + half * nz)
        row[t, LB], row[t, LB + 1], row[t, LB + 2] = _from_com(pose, b, x - half * nx, y - half * ny, z - half * nz)
        row[t, S], row[t, MU], row[t, E] = 2.0 * half, contacts.friction[k], contacts.restitution[k]
        if row[t, E] > 0.0:
            sweeps.bouncing[0] += 1
        row[t, JN] = kept.found[k, 0]
        row[t, JT], row[t, JT + 1], row[t, JT + 2] = kept.found[k, 1], kept.found[k, 2], kept.found[k, 3]
        row[t, PUSHED], row[t, ACROSS], row[t, ACROSS + 1], row[t, ACROSS + 2] = 0.0, 0.0, 0.0, 0.0
        # bodies that both fall approach each other without acceleration
        pull = -(gravity[0] * nx + gravity[1] * ny + gravity[2] * nz)
        row[t, PULL] = max(pull, 0.0) if high > low + 1 or b < 0 else 0.0


@outlined
def keep(contacts, graph, sweeps, kept):
    """Keep the impulses of this step under the names of their contacts."""
    row = sweeps.row
    for t in range(contacts.count[0]):
        k = graph.order[t]
        kept.name[k, 0], kept.name[k, 1], kept.name[k, 2] = contacts.shape_a[k], contacts.shape_b[k], contacts.key[k]
        kept.impulse[k, 0] = row[t, JN]
        kept.impulse[k, 1], kept.impulse[k, 2], kept.impulse[k, 3] = row[t, JT], row[t, JT + 1], row[t, JT + 2]
    kept.count[0] = contacts.count[0]


@outlined
def wake(root, bulk):
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
def rest(dt, slow, patience, graph, bulk, u):
    """Put islands to sleep that touch something and have been slow for long enough."""
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
