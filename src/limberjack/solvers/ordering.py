"""In which order to eliminate constraints, so that the factor of A = J M^-1 J^T + C stays sparse.

Two constraints are neighbours when they share a body: every body is a clique of the graph of A. Eliminating a
constraint joins its cliques into one. The cliques themselves are stored, never the pairs, so the work is that of the
touches; this is the quotient graph of the minimum-degree methods, and bodies are its first elements.

Two orders are tried, and the one with fewer block updates is kept:

- minimum degree with approximate degrees (Amestoy, Davis and Duff 1996). A constraint that lies in one clique only is
  always eliminated first: it adds no block. On a tree there always is such a constraint, so trees have no fill, and
  the second order is not tried.
- nested dissection: the constraints are cut in two by the smallest of several separators, again and again; separators
  are eliminated after what they separate, and within these limits the degree decides. Cuts are made across positions,
  if given, and across sums and differences of the distances, in touches, from a few far constraints. On a grid such
  sums are the grid's own coordinates.

A body with many constraints is a dense clique: h constraints on one hub give h^2 / 2 blocks and h^3 / 6 updates
whatever the order, although the saddle system on the same tree is sparse. `Ordering` tells these numbers before
anything of that size is stored; on such systems the caller prefers a solver that eliminates bodies too.

Ties go to the lower index: the order is a function of the system alone.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from limberjack._jit import inner, kernel
from limberjack.constraints.system import System
from limberjack.solvers.dissection import dissect

__all__ = ["Ordering", "body_touches", "constraint_of_touch", "order_constraints"]

_SMALL = 256  # cliques up to this size keep the degrees of their members exact


class Ordering(NamedTuple):
    """An elimination order and what it costs; nc constraints."""

    order: np.ndarray  # (nc,) int64 constraints in the order of elimination
    later: np.ndarray  # (nc,) int64 blocks below the diagonal in the column of each, in that order
    structural: int  # blocks of A on and below the diagonal
    blocks: int  # blocks of the factor
    updates: int  # block products the factorisation makes
    name: str  # the method that found it

    @property
    def fill(self) -> int:
        """Blocks of the factor where A has none."""
        return self.blocks - self.structural


def constraint_of_touch(system: System) -> np.ndarray:
    """Return (nt,) the constraint each touch belongs to."""
    return np.repeat(np.arange(len(system.touch_start) - 1), np.diff(system.touch_start))


def body_touches(system: System) -> tuple[np.ndarray, np.ndarray]:
    """Return (nb + 1,) starts and (nt,) the touches of each body, in the order of touches."""
    nb = len(system.body_start) - 1
    start = np.zeros(nb + 1, np.int64)
    np.cumsum(np.bincount(system.touch_body, minlength=nb), out=start[1:])
    return start, np.argsort(system.touch_body, kind="stable").astype(np.int64)


def order_constraints(system: System, positions: np.ndarray | None = None) -> Ordering:
    """Return the cheaper of the orders by minimum degree and by nested dissection.

    Args:
        system: which constraint touches which body.
        positions: (nb, d) places of the bodies, if known; they only help to find cuts.
    """
    nc = len(system.touch_start) - 1
    start, touches = body_touches(system)
    constraint = constraint_of_touch(system)
    structural = int(_count_blocks(system, start, touches, constraint, np.full(nc, -1, np.int64)))
    best = _eliminated(system, start, touches, constraint, np.zeros(nc, np.int64), structural, "minimum degree")
    if best.fill == 0:
        return best
    stage = dissect(system, start, touches, constraint, positions)
    other = _eliminated(system, start, touches, constraint, stage, structural, "nested dissection")
    return other if other.updates < best.updates else best


def _eliminated(
    system: System,
    start: np.ndarray,
    touches: np.ndarray,
    constraint: np.ndarray,
    stage: np.ndarray,
    structural: int,
    name: str,
) -> Ordering:
    """Return the order by least degree within ever later stages."""
    nc, nb, nt = len(stage), len(start) - 1, len(touches)
    order, later = np.empty(nc, np.int64), np.empty(nc, np.int64)
    cells = np.empty((nt, 2), np.int64)
    cliques = np.zeros((nb, 5), np.int64)
    members = np.empty((nc, 6), np.int64)
    _eliminate(system.touch_start, system.touch_body, start, touches, constraint, stage, cells, cliques, members,
               np.zeros(nt + 1, np.int64), np.empty(nc, np.int64), order, later)  # fmt: skip
    blocks = nc + int(later.sum())
    place, parent = np.empty(nc, np.int64), np.full(nc, -1, np.int64)
    _gather_subtrees(system, order, np.full(nb, -1, np.int64), np.full(nc, -1, np.int64), np.empty((nc, 3), np.int64),
                     parent, place)  # fmt: skip
    order, later = order[place], later[place]
    return Ordering(order, later, structural, blocks, int((later * (later + 1) // 2).sum()), name)


@kernel
def _count_blocks(
    system, start, touches, constraint,  # model
    seen,  # work
):  # fmt: skip
    """Return how many blocks A has on and below its diagonal."""
    count = 0
    for i in range(len(system.touch_start) - 1):
        for t in range(system.touch_start[i], system.touch_start[i + 1]):
            b = system.touch_body[t]
            for s in range(start[b], start[b + 1]):
                j = constraint[touches[s]]
                if j <= i and seen[j] != i:
                    seen[j] = i
                    count += 1
    return count


# Columns of the work rows. Cells: the variable, and the next cell of the same clique.
_VAR, _NEXT = 0, 1
# Cliques: first cell, members alive, the step it was joined or last looked at, members outside the newest clique.
_HEAD, _SIZE, _JOINED, _SEEN, _OUTSIDE = 0, 1, 2, 3, 4
# Members: key in the heap (-1 = eliminated), place in the heap, cliques alive, the step it was last gathered, degree.
_KEY, _PLACE, _CLIQUES, _MARK, _DEGREE, _STAGE = 0, 1, 2, 3, 4, 5


@inner
def _rise(place, heap, members):
    """Move the heap's entry at `place` up to where its key belongs."""
    i = heap[place]
    key = members[i, _KEY]
    while place > 0:
        above = (place - 1) >> 1
        j = heap[above]
        if members[j, _KEY] <= key:
            break
        heap[place] = j
        members[j, _PLACE] = place
        place = above
    heap[place] = i
    members[i, _PLACE] = place


@inner
def _sink(place, size, heap, members):
    """Move the heap's entry at `place` down to where its key belongs."""
    i = heap[place]
    key = members[i, _KEY]
    while True:
        below = 2 * place + 1
        if below >= size:
            break
        if below + 1 < size and members[heap[below + 1], _KEY] < members[heap[below], _KEY]:
            below += 1
        j = heap[below]
        if key <= members[j, _KEY]:
            break
        heap[place] = j
        members[j, _PLACE] = place
        place = below
    heap[place] = i
    members[i, _PLACE] = place


@inner
def _rank(i, n, members):
    """Return the key of constraint i: without fill first, then by stage, degree and index; never two alike."""
    if members[i, _CLIQUES] <= 1:
        return i
    degree = min(members[i, _DEGREE], n - 1)
    return ((members[i, _STAGE] + 1) * n + degree) * n + i


@inner
def _place_again(i, n, size, heap, members):
    """Give constraint i the key of its new degree."""
    old = members[i, _KEY]
    new = _rank(i, n, members)
    members[i, _KEY] = new
    if new < old:
        _rise(members[i, _PLACE], heap, members)
    elif new > old:
        _sink(members[i, _PLACE], size, heap, members)


@inner
def _leave(i, e, first, lists, members):
    """Take clique e off the list of constraint i."""
    kept = 0
    for k in range(first, first + members[i, _CLIQUES]):
        if lists[k] != e:
            lists[first + kept] = lists[k]
            kept += 1
    members[i, _CLIQUES] = kept


@inner
def _begin(touch_start, touch_body, start, touches, constraint, stage, cells, cliques, members, lists, heap):
    """Fill the work rows with bodies as cliques; a body with one constraint joins nothing and is left out."""
    n = len(stage)
    for b in range(len(start) - 1):
        cliques[b, _HEAD] = -1
        cliques[b, _SIZE] = start[b + 1] - start[b]
        cliques[b, _JOINED] = -1
        cliques[b, _SEEN] = -1
        for s in range(start[b + 1] - 1, start[b] - 1, -1):
            cells[s, _VAR] = constraint[touches[s]]
            cells[s, _NEXT] = cliques[b, _HEAD]
            cliques[b, _HEAD] = s
    for i in range(n):
        members[i, _CLIQUES] = 0
        members[i, _DEGREE] = 0
        members[i, _MARK] = -1
        members[i, _STAGE] = stage[i]
        for t in range(touch_start[i], touch_start[i + 1]):
            size = cliques[touch_body[t], _SIZE]
            if size > 1:
                lists[touch_start[i] + members[i, _CLIQUES]] = touch_body[t]
                members[i, _CLIQUES] += 1
                members[i, _DEGREE] += size - 1
        members[i, _KEY] = _rank(i, n, members)
        heap[i] = i
        members[i, _PLACE] = i
    for place in range(n // 2 - 1, -1, -1):
        _sink(place, n, heap, members)


@inner
def _shrink(e, n, left, touch_start, cells, cliques, members, lists, heap):
    """Tell the members of clique e that one of them has gone; return how many are left."""
    cliques[e, _SIZE] -= 1
    size = cliques[e, _SIZE]
    if size > _SMALL:
        return size
    cell, before = cliques[e, _HEAD], -1
    while cell >= 0:
        after, i = cells[cell, _NEXT], cells[cell, _VAR]
        if members[i, _KEY] < 0:
            if before < 0:
                cliques[e, _HEAD] = after
            else:
                cells[before, _NEXT] = after
        else:
            before = cell
            members[i, _DEGREE] -= 1
            if size == 1:
                _leave(i, e, touch_start[i], lists, members)
            _place_again(i, n, left, heap, members)
        cell = after
    return size


@inner
def _join(p, step, touch_start, cells, cliques, members, lists):
    """Join the cliques of constraint p into the first of them; return how many members it has."""
    first = touch_start[p]
    into = lists[first]
    size, last = 0, -1
    for k in range(first, first + members[p, _CLIQUES]):
        e = lists[k]
        cliques[e, _JOINED] = step
        cell = cliques[e, _HEAD]
        while cell >= 0:
            after, i = cells[cell, _NEXT], cells[cell, _VAR]
            if members[i, _KEY] >= 0 and members[i, _MARK] != step:
                members[i, _MARK] = step
                size += 1
                if last < 0:
                    cliques[into, _HEAD] = cell
                else:
                    cells[last, _NEXT] = cell
                last = cell
            cell = after
    if last < 0:
        cliques[into, _HEAD] = -1
    else:
        cells[last, _NEXT] = -1
    cliques[into, _SIZE] = size
    return size


@inner
def _relist(into, step, touch_start, cells, cliques, members, lists):
    """Replace joined cliques on the lists of the new clique's members; count what other cliques have outside it."""
    cell = cliques[into, _HEAD]
    while cell >= 0:
        i = cells[cell, _VAR]
        first, kept = touch_start[i], 0
        for k in range(first, first + members[i, _CLIQUES]):
            e = lists[k]
            if cliques[e, _JOINED] == step:
                continue
            lists[first + kept] = e
            kept += 1
            if cliques[e, _SEEN] != step:
                cliques[e, _SEEN] = step
                cliques[e, _OUTSIDE] = cliques[e, _SIZE]
            cliques[e, _OUTSIDE] -= 1
        members[i, _CLIQUES] = kept  # the new clique is added when the others have been counted
        cell = cells[cell, _NEXT]


@inner
def _update_degrees(into, n, left, touch_start, cells, cliques, members, lists, heap):
    """Set the degrees of the new clique's members; a clique that lies wholly in it is dropped."""
    size = cliques[into, _SIZE]
    cell = cliques[into, _HEAD]
    while cell >= 0:
        i = cells[cell, _VAR]
        first, kept, degree = touch_start[i], 0, size - 1
        for k in range(first, first + members[i, _CLIQUES]):
            e = lists[k]
            if cliques[e, _OUTSIDE] > 0:
                lists[first + kept] = e
                kept += 1
                degree += cliques[e, _OUTSIDE]
        if size > 1:
            lists[first + kept] = into
            kept += 1
        members[i, _CLIQUES] = kept
        members[i, _DEGREE] = min(degree, members[i, _DEGREE] + size - 1)
        _place_again(i, n, left, heap, members)
        cell = cells[cell, _NEXT]


@kernel
def _eliminate(
    touch_start, touch_body, start, touches, constraint,  # model
    stage,  # in
    cells, cliques, members, lists, heap,  # work
    order, later,  # out
):  # fmt: skip
    """Fill the order of elimination and how many constraints each has as later neighbours."""
    n = len(stage)
    _begin(touch_start, touch_body, start, touches, constraint, stage, cells, cliques, members, lists, heap)
    for step in range(n):
        p = heap[0]
        left = n - step - 1
        heap[0] = heap[left]
        members[heap[0], _PLACE] = 0
        if left > 0:
            _sink(0, left, heap, members)
        members[p, _KEY] = -1
        order[step] = p
        into = lists[touch_start[p]]
        if members[p, _CLIQUES] == 0:
            later[step] = 0
        elif members[p, _CLIQUES] == 1:
            later[step] = _shrink(into, n, left, touch_start, cells, cliques, members, lists, heap)
        else:
            later[step] = _join(p, step, touch_start, cells, cliques, members, lists)
            _relist(into, step, touch_start, cells, cliques, members, lists)
            _update_degrees(into, n, left, touch_start, cells, cliques, members, lists, heap)
    return 0


@kernel
def _gather_subtrees(
    system, order,  # model
    newest, ancestor, links,  # work
    parent, place,  # out
):  # fmt: skip
    """Fill the elimination tree, and the same order with every subtree in one run: its columns stay near in memory."""
    n = len(order)
    for k in range(n):
        i = order[k]
        for t in range(system.touch_start[i], system.touch_start[i + 1]):
            b = system.touch_body[t]
            j = newest[b]
            while j >= 0 and j < k:
                after = ancestor[j]
                ancestor[j] = k
                if after < 0:
                    parent[j] = k
                j = after
            newest[b] = k
    # Of each: first child, next sibling, and the stack.
    for k in range(n):
        links[k, 0] = -1
    for k in range(n - 1, -1, -1):
        if parent[k] >= 0:
            links[k, 1] = links[parent[k], 0]
            links[parent[k], 0] = k
    count = 0
    for root in range(n):
        if parent[root] >= 0:
            continue
        top = 1
        links[0, 2] = root
        while top > 0:
            k = links[top - 1, 2]
            child = links[k, 0]
            if child >= 0:
                links[k, 0] = links[child, 1]
                links[top, 2] = child
                top += 1
            else:
                top -= 1
                place[count] = k
                count += 1
    return count
