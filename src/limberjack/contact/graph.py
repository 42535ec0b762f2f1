"""Contact graph: islands by union-find, levels from the ground up, and the order of contacts in sweeps.

Levels are those of Guendelman, Bridson and Fedkiw (2003), used by Weinstein, Teran and Fedkiw (2006), section VI; here
the level of a body is the number of bodies between it and the ground, found breadth first over supporting contacts.
The load of a body is the mass that rests on it, passed down from level to level: sweeps need as many passes as it is
times the body's own mass. Bodies are numbered, -1 is the ground. Led bodies, whose motion is prescribed, are ground
too: they join no islands and carry any load.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from limberjack._jit import inner, outlined

__all__ = ["Graph", "find_islands", "find_levels", "new_graph", "sort_contacts", "support_of"]

# Cosines between a normal and the upward direction: above the first a contact supports a body, above the second it does
# not lean.
SUPPORT, UPRIGHT = 0.2, 0.99


class Graph(NamedTuple):
    """Islands and levels of n bodies, room for c contacts."""

    root: np.ndarray  # (n,) of the union-find; after `find_islands` the first body of the body's island
    level: np.ndarray  # (n,) from the ground up
    start: np.ndarray  # (n + 2,) where the contacts of each body start in `near`; counts for sorting
    near: np.ndarray  # (2 c,) contacts of the bodies
    queue: np.ndarray  # (n,)
    order: np.ndarray  # (c,) contacts sorted by island and level
    other: np.ndarray  # (c,) scratch
    island: np.ndarray  # (n + 1,) where the contacts of each island start in the order
    body: np.ndarray  # (n,) number of each body's island among those with contacts, -1 = none
    facts: np.ndarray  # (n, 5) of each island: bodies, contacts, highest level, largest load ratio, leaning contacts
    count: np.ndarray  # (1,) islands with contacts
    load: np.ndarray  # (n,) mass that rests on each body, over its own


def new_graph(n: int, capacity: int) -> Graph:
    """Return the arrays for n bodies and room for `capacity` contacts."""
    sizes = (n, n, n + 2, 2 * capacity, n, capacity, capacity, n + 1, n)
    whole = (np.zeros(size, np.int64) for size in sizes)
    return Graph(*whole, facts=np.zeros((n, 5)), count=np.zeros(1, np.int64), load=np.zeros(n))


@inner
def _find(root, i):
    """Return the root of i, halving the path to it."""
    while root[i] != i:
        root[i] = root[root[i]]
        i = root[i]
    return i


@inner
def _join(root, i, j):
    """Join the sets of i and j; the smaller number stays."""
    i, j = _find(root, i), _find(root, j)
    if i < j:
        root[j] = i
    elif j < i:
        root[i] = j


@outlined
def find_islands(
    # in
    count, link_a, link_b, incidence_start, incidence_body, constraints, led,
    # out
    root,
):  # fmt: skip
    """Join bodies in contact or under one constraint: root becomes the first body of each body's island.

    Args:
        count: contacts.
        link_a, link_b: their bodies, b may be -1.
        incidence_start, incidence_body: bodies of each constraint.
        constraints: how many join their bodies.
        led: (n,) bodies whose motion is prescribed: what they touch does not move them.
        root: (n,).
    """
    for i in range(len(root)):
        root[i] = i
    for k in range(count):
        if link_b[k] >= 0 and not led[link_a[k]] and not led[link_b[k]]:
            _join(root, link_a[k], link_b[k])
    for c in range(constraints):
        first = -1
        for t in range(incidence_start[c], incidence_start[c + 1]):
            i = incidence_body[t]
            if not led[i]:
                if first >= 0:
                    _join(root, first, i)
                first = i
    for i in range(len(root)):
        root[i] = _find(root, i)


@inner
def _supported(up, sign, k, normal, least):
    """Return whether the cosine between the normal of contact k and the upward direction is more than `least`."""
    return sign * (up[0] * normal[k, 0] + up[1] * normal[k, 1] + up[2] * normal[k, 2]) > least


@inner
def support_of(k, link_a, link_b, led):
    """Return the moving body of contact k and whether its other body is ground: static or led."""
    a, b = link_a[k], link_b[k]
    if led[a]:
        return b, True
    return a, b < 0 or led[b] != 0


@inner
def _carried(k, weightless, link_a, link_b, normal, depth, margin, up, led, level):
    """Return the higher body of contact k where it rests on the lower one, else -1."""
    a, b = link_a[k], link_b[k]
    if depth[k] <= -margin or b < 0 or led[a] or led[b] or level[a] == level[b]:
        return -1
    high, sign = (a, 1.0) if level[a] > level[b] else (b, -1.0)
    return high if weightless or _supported(up, sign, k, normal, SUPPORT) else -1


@outlined
def _find_loads(count, link_a, link_b, normal, depth, margin, up, mass, led, graph):
    """Fill the load of each body over its own mass, from the contacts in `other`, which are sorted by level."""
    level, load, supports, carried = graph.level, graph.load, graph.queue, graph.near
    weightless = up[0] == 0.0 and up[1] == 0.0 and up[2] == 0.0
    for i in range(len(load)):
        load[i], supports[i] = 0.0, 0
    for k in range(count):
        carried[k] = _carried(k, weightless, link_a, link_b, normal, depth, margin, up, led, level)
        if carried[k] >= 0:
            supports[carried[k]] += 1
    for t in range(count - 1, -1, -1):
        k = graph.other[t]
        i = carried[k]
        if i >= 0:
            load[link_a[k] + link_b[k] - i] += (mass[i] + load[i]) / supports[i]
    for i in range(len(load)):
        load[i] /= mass[i]


@outlined
def find_levels(
    # in
    count, link_a, link_b, normal, depth, margin, up, led,
    # out
    graph,
):  # fmt: skip
    """Fill the level of each body: how many bodies support it above the ground; unsupported bodies are highest.

    Args:
        count: contacts.
        link_a, link_b, normal, depth: of the contacts.
        margin: contacts with a gap of more than this support nothing [m].
        up: (3,) against gravity, unit; 0 where there is none, then every contact supports.
        led: (n,) bodies whose motion is prescribed; they are on level 0, as the ground is.
        graph: start, near, queue and level are filled.
    """
    level, start, near, queue = graph.level, graph.start, graph.near, graph.queue
    n = len(level)
    weightless = up[0] == 0.0 and up[1] == 0.0 and up[2] == 0.0
    for i in range(n):
        level[i] = 0
    for i in range(n + 2):
        start[i] = 0
    for k in range(count):
        if depth[k] > -margin and not support_of(k, link_a, link_b, led)[1]:
            start[link_a[k] + 2] += 1
            start[link_b[k] + 2] += 1
    for i in range(n):
        start[i + 2] += start[i + 1]
    tail = 0
    for k in range(count):
        if depth[k] <= -margin:
            continue
        a, grounded = support_of(k, link_a, link_b, led)
        if not grounded:
            b = link_b[k]
            near[start[a + 1]] = k
            start[a + 1] += 1
            near[start[b + 1]] = k
            start[b + 1] += 1
            continue
        sign = 1.0 if a == link_a[k] else -1.0
        if level[a] == 0 and (weightless or _supported(up, sign, k, normal, SUPPORT)):
            level[a] = 1
            queue[tail] = a
            tail += 1
    head = 0
    while head < tail:
        i = queue[head]
        head += 1
        for t in range(start[i], start[i + 1]):
            k = near[t]
            other, sign = (link_a[k], 1.0) if link_b[k] == i else (link_b[k], -1.0)
            if level[other] == 0 and (weightless or _supported(up, sign, k, normal, SUPPORT)):
                level[other] = level[i] + 1
                queue[tail] = other
                tail += 1
    top = level[queue[tail - 1]] if tail > 0 else 0
    for i in range(n):
        if level[i] == 0 and not led[i]:
            level[i] = top + 1


@outlined
def _number_islands(count, link_a, link_b, normal, depth, margin, up, jointed, asleep, led, graph):
    """Number the islands with contacts, all awake islands with joints as one and last; fill their facts."""
    root, body, facts = graph.root, graph.body, graph.facts
    n = len(root)
    for i in range(n):
        body[i] = -1
        for c in range(5):
            facts[i, c] = 0.0
    for k in range(count):
        body[root[support_of(k, link_a, link_b, led)[0]]] = 0
    islands, together = 0, False
    # an island has joints if any of its bodies has
    for i in range(n):
        if jointed[i] and not led[i] and not asleep[i] and body[root[i]] >= 0:
            body[root[i]] = -2
            together = True
    for i in range(n):
        if root[i] == i and body[i] == 0:
            body[i] = islands
            islands += 1
    for i in range(n):
        if root[i] == i and body[i] == -2:
            body[i] = islands
    for i in range(n):
        body[i] = body[root[i]]
        if body[i] >= 0:
            facts[body[i], 0] += 1.0
            facts[body[i], 2] = max(facts[body[i], 2], float(graph.level[i]))
            facts[body[i], 3] = max(facts[body[i], 3], graph.load[i])
    for k in range(count):
        i = body[support_of(k, link_a, link_b, led)[0]]
        facts[i, 1] += 1.0
        if depth[k] > -margin and not (
            _supported(up, 1.0, k, normal, UPRIGHT) or _supported(up, -1.0, k, normal, UPRIGHT)
        ):
            facts[i, 4] += 1.0
    graph.count[0] = islands + 1 if together else islands
    return together


@outlined
def sort_contacts(
    # in
    count, link_a, link_b, normal, depth, margin, up, mass, jointed, asleep, led,
    # out
    graph,
):  # fmt: skip
    """Sort contacts by island, then by the level of the higher body; return whether the last island has joints.

    Args:
        count: contacts.
        link_a, link_b: their bodies.
        normal, depth: of the contacts.
        margin: contacts with a gap of more than this do not count as leaning [m].
        up: (3,) against gravity, unit; 0 where there is none.
        mass: (n,).
        jointed: (n,) whether the body has a joint.
        asleep: (n,) whether the body sleeps, with all of its island.
        led: (n,) bodies whose motion is prescribed.
        graph: root and level are read, the rest is filled.
    """
    level, start, order, other, island = graph.level, graph.start, graph.order, graph.other, graph.island
    n = len(level)
    for i in range(n + 2):
        start[i] = 0
    for k in range(count):
        high = level[link_a[k]] if link_b[k] < 0 else max(level[link_a[k]], level[link_b[k]])
        start[high + 1] += 1
    for i in range(n + 1):
        start[i + 1] += start[i]
    for k in range(count):
        high = level[link_a[k]] if link_b[k] < 0 else max(level[link_a[k]], level[link_b[k]])
        other[start[high]] = k
        start[high] += 1
    _find_loads(count, link_a, link_b, normal, depth, margin, up, mass, led, graph)
    together = _number_islands(count, link_a, link_b, normal, depth, margin, up, jointed, asleep, led, graph)
    for i in range(n + 1):
        island[i] = 0
    for k in range(count):
        island[graph.body[support_of(k, link_a, link_b, led)[0]] + 1] += 1
    for i in range(n):
        island[i + 1] += island[i]
    for i in range(n):
        start[i] = island[i]
    for t in range(count):
        i = graph.body[support_of(other[t], link_a, link_b, led)[0]]
        order[start[i]] = other[t]
        start[i] += 1
    return together
