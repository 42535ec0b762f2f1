"""A queue of nodes by importance: the largest key first, of equal keys the lowest node."""

from __future__ import annotations

from limberjack._jit import inner

__all__ = ["pop", "push"]


@inner
def _before(key, node, i, j):
    return key[i] > key[j] or (key[i] == key[j] and node[i] < node[j])


@inner
def push(count, new_key, new_node, key, node):
    """Add a node to a queue of `count`; return the count after."""
    i = count
    key[i], node[i] = new_key, new_node
    while i > 0:
        up = (i - 1) // 2
        if not _before(key, node, i, up):
            break
        key[i], key[up] = key[up], key[i]
        node[i], node[up] = node[up], node[i]
        i = up
    return count + 1


@inner
def pop(count, key, node):
    """Move the first node of a queue of `count` to its end, place count - 1; return the count after."""
    last = count - 1
    key[0], key[last] = key[last], key[0]
    node[0], node[last] = node[last], node[0]
    i = 0
    while True:
        best = i
        left = 2 * i + 1
        if left < last and _before(key, node, left, best):
            best = left
        if left + 1 < last and _before(key, node, left + 1, best):
            best = left + 1
        if best == i:
            break
        key[i], key[best] = key[best], key[i]
        node[i], node[best] = node[best], node[i]
        i = best
    return last
