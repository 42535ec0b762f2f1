"""Which bodies touch: islands and clusters by union and find, levels from the ground up, contacts in order of sweeps.

Contacts within reach join bodies to islands, which wake and sleep as one. Most of a pile's islands hang together by
contacts that will not close: those left out, the rest join bodies to clusters, which are met one by one.

Nothing here knows where contacts come from; bodies are numbered, -1 is the ground.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from limberjack._jit import inner, outlined

__all__ = [
    "BODIES", "CONTACTS", "FASTEST", "STOREYS", "LEANING", "UNLIKE", "WHOLE", "Graph", "find_clusters", "find_islands",
    "find_levels", "new_graph", "sort_contacts",
]  # fmt: skip

# Cosines of normals with the way up: one body can rest on the other; it does so squarely.
CARRYING, UPRIGHT = 0.2, 0.99
# What is known of each cluster: bodies, contacts, highest level, largest ratio of masses, contacts that lean, contacts of
# its whole island, and the square of its largest speed, which is filled elsewhere.
BODIES, CONTACTS, STOREYS, UNLIKE, LEANING, WHOLE, FASTEST, FACTS = range(8)


class Graph(NamedTuple):
    """Islands, clusters and levels of n bodies, room for c contacts."""

    root: np.ndarray  # (n,) of the union; after `find_islands` the first body of the body's island
    cluster: np.ndarray  # (n,) the first body of the body's cluster
    level: np.ndarray  # (n,) from the ground up
    start: np.ndarray  # (n + 3,) contacts of each body in `near`; tallies for sorting
    near: np.ndarray  # (2 c,) contacts of the bodies
    queue: np.ndarray  # (n,)
    loose: np.ndarray  # (c,) 1 where a contact will hardly close, and joins no cluster
    group: np.ndarray  # (c,) number of each contact's group
    order: np.ndarray  # (c,) contacts sorted by group and level
    other: np.ndarray  # (c,) scratch
    island: np.ndarray  # (n + 3,) where the contacts of each group start in the order
    body: np.ndarray  # (n,) number of each body's group, -1 = none
    count: np.ndarray  # (2,) groups; which of them holds the loose contacts, -1 = none
    facts: np.ndarray  # (n + 2, FACTS) of each group


def new_graph(n: int, capacity: int) -> Graph:
    """Return the arrays for n bodies and room for `capacity` contacts."""
    sizes = (n, n, n, n + 3, 2 * capacity, n, *4 * (capacity,), n + 3, n, 2)
    return Graph(*(np.zeros(size, np.int64) for size in sizes), np.zeros((n + 2, FACTS)))


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
    count, link_a, link_b, touch_start, touch_body, held,
    # out
    root,
):  # fmt: skip
    """Join bodies that touch or share a constraint: root becomes the first body of each body's island.

    Args:
        count: contacts.
        link_a, link_b: their bodies, b may be -1.
        touch_start, touch_body: bodies of each constraint.
        held: constraints that join their bodies.
        root: (n,).
    """
    for i in range(len(root)):
        root[i] = i
    for k in range(count):
        if link_b[k] >= 0:
            _join(root, link_a[k], link_b[k])
    for c in range(held):
        for t in range(touch_start[c] + 1, touch_start[c + 1]):
            _join(root, touch_body[touch_start[c]], touch_body[t])
    for i in range(len(root)):
        root[i] = _find(root, i)


@outlined
def find_clusters(
    # in
    count, link_a, link_b,
    # out
    graph,
):  # fmt: skip
    """Join bodies that touch by contacts that are not loose; see `find_islands`."""
    cluster = graph.cluster
    for i in range(len(cluster)):
        cluster[i] = i
    for k in range(count):
        if link_b[k] >= 0 and not graph.loose[k]:
            _join(cluster, link_a[k], link_b[k])
    for i in range(len(cluster)):
        cluster[i] = _find(cluster, i)


@inner
def _carried(up, sign, k, normal, least):
    """Return whether the cosine between the normal of contact k and the way up is more than `least`."""
    return sign * (up[0] * normal[k, 0] + up[1] * normal[k, 1] + up[2] * normal[k, 2]) > least


@outlined
def find_levels(
    # in
    count, link_a, link_b, normal, depth, margin, up,
    # out
    graph,
):  # fmt: skip
    """Fill the level of each body: how many bodies carry it above the ground; those nothing carries stand highest.

    Args:
        count: contacts.
        link_a, link_b, normal, depth: of the contacts.
        margin: contacts with a gap of more than this carry nothing [m].
        up: (3,) against gravity, unit; 0 where there is none, then every contact carries.
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
        if depth[k] > -margin and link_b[k] >= 0:
            start[link_a[k] + 2] += 1
            start[link_b[k] + 2] += 1
    for i in range(n):
        start[i + 2] += start[i + 1]
    tail = 0
    for k in range(count):
        if depth[k] <= -margin:
            continue
        a, b = link_a[k], link_b[k]
        if b >= 0:
            near[start[a + 1]] = k
            start[a + 1] += 1
            near[start[b + 1]] = k
            start[b + 1] += 1
        elif level[a] == 0 and (weightless or _carried(up, 1.0, k, normal, CARRYING)):
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
            if level[other] == 0 and (weightless or _carried(up, sign, k, normal, CARRYING)):
                level[other] = level[i] + 1
                queue[tail] = other
                tail += 1
    top = level[queue[tail - 1]] if tail > 0 else 0
    for i in range(n):
        if level[i] == 0:
            level[i] = top + 1


@outlined
def _number(count, link_a, jointed, graph):
    """Number the clusters with contacts, then the group of loose contacts, then that of all islands with joints.

    Returns whether the last group has joints.
    """
    root, cluster, body, island = graph.root, graph.cluster, graph.body, graph.queue
    n, together, loose = len(root), False, False
    for i in range(n):
        body[i], island[i] = -1, 0
    for k in range(count):
        island[root[link_a[k]]] = 1
    # an island with joints is marked by the joints of any of its bodies
    for i in range(n):
        if jointed[i] and island[root[i]] > 0:
            island[root[i]] = 2
            together = True
    for k in range(count):
        if island[root[link_a[k]]] == 1:
            if graph.loose[k]:
                loose = True
            else:
                body[cluster[link_a[k]]] = 0
    groups = 0
    for i in range(n):
        if cluster[i] == i and body[i] == 0:
            body[i] = groups
            groups += 1
    graph.count[1] = groups if loose else -1
    if loose:
        groups += 1
    for i in range(n):
        if cluster[i] != i:
            body[i] = body[cluster[i]]
    for i in range(n):
        if island[root[i]] == 2:
            body[i] = groups
    graph.count[0] = groups + 1 if together else groups
    for k in range(count):
        a = link_a[k]
        graph.group[k] = graph.count[1] if graph.loose[k] and island[root[a]] == 1 else body[a]
    return together


@outlined
def _learn(count, link_a, link_b, normal, depth, margin, up, mass, graph):
    """Fill what is known of each group; the loose contacts are in none of the counts of contacts but their own."""
    root, body, facts, whole = graph.root, graph.body, graph.facts, graph.start
    for i in range(graph.count[0]):
        for c in range(FACTS):
            facts[i, c] = 0.0
    for i in range(len(root)):
        whole[i] = 0
        if body[i] >= 0:
            facts[body[i], BODIES] += 1.0
            facts[body[i], STOREYS] = max(facts[body[i], STOREYS], float(graph.level[i]))
    for k in range(count):
        whole[root[link_a[k]]] += 1
    for k in range(count):
        a, b, i = link_a[k], link_b[k], graph.group[k]
        facts[i, CONTACTS] += 1.0
        facts[i, WHOLE] = max(facts[i, WHOLE], float(whole[root[a]]))
        if depth[k] > -margin and not (_carried(up, 1.0, k, normal, UPRIGHT) or _carried(up, -1.0, k, normal, UPRIGHT)):
            facts[i, LEANING] += 1.0
        if b >= 0:
            facts[i, UNLIKE] = max(facts[i, UNLIKE], mass[a] / mass[b], mass[b] / mass[a])


@outlined
def sort_contacts(
    # in
    count, link_a, link_b, normal, depth, margin, up, mass, jointed,
    # out
    graph,
):  # fmt: skip
    """Sort contacts by group, then by the level of the higher body; return whether the last group has joints.

    Args:
        count: contacts.
        link_a, link_b: their bodies.
        normal, depth: of the contacts.
        margin: contacts with a gap of more than this do not count as leaning [m].
        up: (3,) against gravity, unit.
        mass: (n,).
        jointed: (n,) whether a joint holds the body.
        graph: root, cluster, loose and level are read, the rest is filled.
    """
    together = _number(count, link_a, jointed, graph)
    _learn(count, link_a, link_b, normal, depth, margin, up, mass, graph)
    level, start, order, other, island = graph.level, graph.start, graph.order, graph.other, graph.island
    n, groups = len(level), graph.count[0]
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
    for i in range(groups + 1):
        island[i] = 0
    for k in range(count):
        island[graph.group[k] + 1] += 1
    for i in range(groups):
        island[i + 1] += island[i]
    for i in range(groups):
        start[i] = island[i]
    for t in range(count):
        i = graph.group[other[t]]
        order[start[i]] = other[t]
        start[i] += 1
    return together
