"""Elimination orders of constraints that keep the factor of A = J M^-1 J^T + C sparse.

Two constraints are neighbours when they share a body: every body is a clique of the graph of A. Eliminating a
constraint merges its cliques. The cliques themselves are stored, never the pairs, so the work is that of the
incidences; this is the quotient graph of the minimum-degree methods, and bodies are its first elements.

Two orders are tried, and the one with fewer block updates is taken:

- minimum degree with approximate degrees (Amestoy, Davis and Duff 1996). A constraint in a single clique is always
  eliminated first: it adds no block. On a tree there always is such a constraint, so trees have no fill, and the second
  order is not tried.
- nested dissection: the constraints are divided by the smallest of several separators, recursively; separators are
  eliminated after what they separate, and within a stage the degree decides. A part is cut at the median of a
  coordinate: the distances, in incidences, from a few far constraints, and sums and differences of these.
  On a grid such sums are the grid's own coordinates. Constraints of one side that share a body with the other side are
  the separator; of the two sides' choices the smaller is taken, and of all coordinates the cut with the smallest
  separator relative to what it cuts off.

A body with many constraints is a dense clique: h constraints on one hub give h^2 / 2 blocks and h^3 / 6 updates
whatever the order, although the saddle system on the same tree is sparse. `Ordering` tells these numbers before
anything of that size is stored; for such systems the caller prefers a solver that eliminates bodies too.

Ties go to the lower index: the order is a function of the system alone.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from limberjack._jit import inner, kernel
from limberjack.constraints.system import System

__all__ = ["Ordering", "body_incidences", "constraint_of_incidence", "dissect", "order_constraints"]

_LEAF = 24  # largest part that is not cut any further
_LANDMARKS = 4
_DEPTH = 64  # halving any number of constraints ends before
_SMALL = 256  # in cliques up to this size the degrees of the members are exact
# Columns of the work rows. Cells: the variable, and the next cell of the same clique.
_VAR, _NEXT = 0, 1
# Cliques: first cell, members alive, the step it was merged or last visited, members outside the newest clique.
_HEAD, _SIZE, _MERGED, _SEEN, _OUTSIDE = 0, 1, 2, 3, 4
# Members: key in the heap (-1 = eliminated), slot in the heap, cliques alive, the step it was last gathered, degree.
_KEY, _SLOT, _CLIQUES, _MARK, _DEGREE, _STAGE = 0, 1, 2, 3, 4, 5


def dissect(system: System, start: np.ndarray, incidences: np.ndarray, constraint: np.ndarray) -> np.ndarray:
    """Return (nc,) the stage each constraint is eliminated in: 0 for small parts, then separators, the widest last.

    Args:
        system: incidences of constraints and bodies.
        start: (nb + 1,) the incidences of each body.
        incidences: (nt,) in the order of bodies.
        constraint: (nt,) of each incidence.
    """
    nc, nb = len(system.incidence_start) - 1, len(start) - 1
    axes = _hop_axes(system, start, incidences, constraint)
    stage = np.zeros(nc, np.int64)
    parts = np.arange(nc, dtype=np.int64)
    _cut_all(system, np.ascontiguousarray(axes), parts, np.empty(nc, np.int64), np.empty((_DEPTH, 3), np.int64),
             np.empty((nb, 2), np.int64), np.empty(nc), stage)  # fmt: skip
    return stage


def _hop_axes(system: System, start: np.ndarray, incidences: np.ndarray, constraint: np.ndarray) -> np.ndarray:
    """Return distances from far constraints, and the sums and differences of each two of them."""
    nc = len(system.incidence_start) - 1
    queue, seen = np.empty(nc, np.int64), np.empty(len(start) - 1, np.int64)
    hops = np.empty((_LANDMARKS, nc), np.int64)
    nearest = np.full(nc, nc, np.int64)
    _measure_hops(system, start, incidences, constraint, 0, queue, seen, hops[0])
    source = int(hops[0].argmax())
    for k in range(_LANDMARKS):
        _measure_hops(system, start, incidences, constraint, source, queue, seen, hops[k])
        np.minimum(nearest, hops[k], out=nearest)
        source = int(nearest.argmax())
    pairs = [(i, j) for i in range(_LANDMARKS) for j in range(i)]
    return np.vstack([hops, *(hops[i] + hops[j] for i, j in pairs), *(hops[i] - hops[j] for i, j in pairs)]).astype(
        float
    )


@kernel
def _measure_hops(
    system, start, incidences, constraint,  # model
    source,  # in
    queue, seen,  # work
    hops,  # out
):  # fmt: skip
    """Fill the distance of every constraint from `source`; unreachable ones are one hop beyond the farthest."""
    for i in range(len(hops)):
        hops[i] = -1
    for b in range(len(seen)):
        seen[b] = 0
    hops[source] = 0
    queue[0] = source
    head, tail = 0, 1
    while head < tail:
        i = queue[head]
        head += 1
        for t in range(system.incidence_start[i], system.incidence_start[i + 1]):
            b = system.incidence_body[t]
            if seen[b] == 1:
                continue
            seen[b] = 1
            for s in range(start[b], start[b + 1]):
                j = constraint[incidences[s]]
                if hops[j] < 0:
                    hops[j] = hops[i] + 1
                    queue[tail] = j
                    tail += 1
    far = hops[queue[tail - 1]] + 1
    for i in range(len(hops)):
        if hops[i] < 0:
            hops[i] = far
    return 0


@inner
def _middle(n, values):
    """Return the median of the first n values; reorders them."""
    low, high, k = 0, n - 1, n // 2
    while low < high:
        pivot = values[(low + high) >> 1]
        i, j = low, high
        while i <= j:
            while values[i] < pivot:
                i += 1
            while values[j] > pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if k <= j:
            high = j
        elif k >= i:
            low = i
        else:
            break
    return values[k]


@inner
def _mark_bodies(system, axes, axis, cut, parts, low, high, stamp, marks):
    """Mark the bodies of constraints below and above `cut` in the part; return how many constraints are below."""
    below = 0
    for m in range(low, high):
        i = parts[m]
        side = 0 if axes[axis, i] < cut else 1
        below += 1 - side
        for t in range(system.incidence_start[i], system.incidence_start[i + 1]):
            marks[system.incidence_body[t], side] = stamp
    return below


@inner
def _at_border(system, i, other, stamp, marks):
    """Return whether constraint i shares a body with the other side."""
    for t in range(system.incidence_start[i], system.incidence_start[i + 1]):
        if marks[system.incidence_body[t], other] == stamp:
            return True
    return False


@inner
def _cut_cost(system, axes, axis, cut, parts, low, high, stamp, marks):
    """Return the cost of a cut and the side that its separator is taken from."""
    below = _mark_bodies(system, axes, axis, cut, parts, low, high, stamp, marks)
    borders_below, borders_above = 0, 0
    for m in range(low, high):
        i = parts[m]
        if axes[axis, i] < cut:
            borders_below += 1 if _at_border(system, i, 1, stamp, marks) else 0
        else:
            borders_above += 1 if _at_border(system, i, 0, stamp, marks) else 0
    above = high - low - below
    side = 0 if borders_below <= borders_above else 1
    separator = borders_below if side == 0 else borders_above
    smaller = min(below - separator, above) if side == 0 else min(below, above - separator)
    if smaller <= 0:
        return np.inf, side
    return (separator + 0.5) / smaller, side


@inner
def _best_cut(system, axes, parts, low, high, stamp, marks, values):
    """Return the cheapest cut of a part: its cost, axis, value, side of the separator, and the next free stamp."""
    best, best_axis, best_cut, best_side = np.inf, -1, 0.0, 0
    for axis in range(len(axes)):
        for m in range(low, high):
            values[m - low] = axes[axis, parts[m]]
        middle = _middle(high - low, values)
        # Many constraints may be at the median itself: cut on either side of them.
        above = np.inf
        for m in range(high - low):
            if values[m] > middle and values[m] < above:
                above = values[m]
        for cut in (middle, above):
            cost, side = _cut_cost(system, axes, axis, cut, parts, low, high, stamp, marks)
            stamp += 1
            if cost < best:
                best, best_axis, best_cut, best_side = cost, axis, cut, side
    return best, best_axis, best_cut, best_side, stamp


@inner
def _split(system, axes, axis, cut, side, parts, low, high, stamp, marks, sorted_parts, depth, stage):
    """Reorder a part as below, above, separator; set the separator's depth; return the ends of the first two."""
    _mark_bodies(system, axes, axis, cut, parts, low, high, stamp, marks)
    first, last = low, high
    for m in range(low, high):
        i = parts[m]
        own = 0 if axes[axis, i] < cut else 1
        if own == side and _at_border(system, i, 1 - side, stamp, marks):
            last -= 1
            sorted_parts[last] = i
            stage[i] = depth
        elif own == 0:
            sorted_parts[first] = i
            first += 1
    end = first
    for m in range(low, high):
        i = parts[m]
        if axes[axis, i] >= cut and stage[i] == 0:
            sorted_parts[end] = i
            end += 1
    for m in range(low, high):
        parts[m] = sorted_parts[m]
    return first, end


@kernel
def _cut_all(
    system, axes,  # model
    parts, sorted_parts, stack, marks, values,  # work
    stage,  # out
):  # fmt: skip
    """Fill the stages: cut every part until it is small, then count depths from the bottom."""
    for b in range(len(marks)):
        marks[b, 0] = -1
        marks[b, 1] = -1
    deepest, stamp, top = 0, 0, 1
    stack[0, 0], stack[0, 1], stack[0, 2] = 0, len(stage), 1
    while top > 0:
        top -= 1
        low, high, depth = stack[top, 0], stack[top, 1], stack[top, 2]
        if high - low <= _LEAF or top + 2 > len(stack):
            continue
        cost, axis, cut, side, stamp = _best_cut(system, axes, parts, low, high, stamp, marks, values)
        if axis < 0:
            continue
        first, end = _split(system, axes, axis, cut, side, parts, low, high, stamp, marks, sorted_parts, depth, stage)
        stamp += 1
        deepest = max(deepest, depth)
        stack[top, 0], stack[top, 1], stack[top, 2] = low, first, depth + 1
        stack[top + 1, 0], stack[top + 1, 1], stack[top + 1, 2] = first, end, depth + 1
        top += 2
    for i in range(len(stage)):
        if stage[i] > 0:
            stage[i] = deepest + 1 - stage[i]
    return 0


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


def constraint_of_incidence(system: System) -> np.ndarray:
    """Return (nt,) the constraint of each incidence."""
    return np.repeat(np.arange(len(system.incidence_start) - 1), np.diff(system.incidence_start))


def body_incidences(system: System) -> tuple[np.ndarray, np.ndarray]:
    """Return (nb + 1,) starts and (nt,) the incidences of each body, in their order."""
    nb = len(system.body_start) - 1
    start = np.zeros(nb + 1, np.int64)
    np.cumsum(np.bincount(system.incidence_body, minlength=nb), out=start[1:])
    return start, np.argsort(system.incidence_body, kind="stable").astype(np.int64)


def order_constraints(system: System) -> Ordering:
    """Return the cheaper of the orders by minimum degree and by nested dissection.

    Args:
        system: incidences of constraints and bodies.
    """
    nc = len(system.incidence_start) - 1
    start, incidences = body_incidences(system)
    constraint = constraint_of_incidence(system)
    structural = int(_count_blocks(system, start, incidences, constraint, np.full(nc, -1, np.int64)))
    best = _minimum_degree(system, start, incidences, constraint, np.zeros(nc, np.int64), structural, "minimum degree")
    if best.fill == 0:
        return best
    stage = dissect(system, start, incidences, constraint)
    other = _minimum_degree(system, start, incidences, constraint, stage, structural, "nested dissection")
    return other if other.updates < best.updates else best


def _minimum_degree(
    system: System,
    start: np.ndarray,
    incidences: np.ndarray,
    constraint: np.ndarray,
    stage: np.ndarray,
    structural: int,
    name: str,
) -> Ordering:
    """Return the order by least degree within ever later stages."""
    nc, nb, nt = len(stage), len(start) - 1, len(incidences)
    order, later = np.empty(nc, np.int64), np.empty(nc, np.int64)
    cells = np.empty((nt, 2), np.int64)
    cliques = np.zeros((nb, 5), np.int64)
    members = np.empty((nc, 6), np.int64)
    _eliminate(system.incidence_start, system.incidence_body, start, incidences, constraint, stage, cells, cliques,
               members, np.zeros(nt + 1, np.int64), np.empty(nc, np.int64), order, later)  # fmt: skip
    blocks = nc + int(later.sum())
    postorder, parent = np.empty(nc, np.int64), np.full(nc, -1, np.int64)
    _gather_subtrees(system, order, np.full(nb, -1, np.int64), np.full(nc, -1, np.int64), np.empty((nc, 3), np.int64),
                     parent, postorder)  # fmt: skip
    order, later = order[postorder], later[postorder]
    return Ordering(order, later, structural, blocks, int((later * (later + 1) // 2).sum()), name)


@kernel
def _count_blocks(
    system, start, incidences, constraint,  # model
    seen,  # work
):  # fmt: skip
    """Return how many blocks A has on and below its diagonal."""
    count = 0
    for i in range(len(system.incidence_start) - 1):
        for t in range(system.incidence_start[i], system.incidence_start[i + 1]):
            b = system.incidence_body[t]
            for s in range(start[b], start[b + 1]):
                j = constraint[incidences[s]]
                if j <= i and seen[j] != i:
                    seen[j] = i
                    count += 1
    return count


@inner
def _sift_up(slot, heap, members):
    """Move the heap's entry at `slot` up to where its key belongs."""
    i = heap[slot]
    key = members[i, _KEY]
    while slot > 0:
        above = (slot - 1) >> 1
        j = heap[above]
        if members[j, _KEY] <= key:
            break
        heap[slot] = j
        members[j, _SLOT] = slot
        slot = above
    heap[slot] = i
    members[i, _SLOT] = slot


@inner
def _sift_down(slot, size, heap, members):
    """Move the heap's entry at `slot` down to where its key belongs."""
    i = heap[slot]
    key = members[i, _KEY]
    while True:
        below = 2 * slot + 1
        if below >= size:
            break
        if below + 1 < size and members[heap[below + 1], _KEY] < members[heap[below], _KEY]:
            below += 1
        j = heap[below]
        if key <= members[j, _KEY]:
            break
        heap[slot] = j
        members[j, _SLOT] = slot
        slot = below
    heap[slot] = i
    members[i, _SLOT] = slot


@inner
def _rank(i, n, members):
    """Return the key of constraint i, unique: without fill first, then by stage, degree and index."""
    if members[i, _CLIQUES] <= 1:
        return i
    degree = min(members[i, _DEGREE], n - 1)
    return ((members[i, _STAGE] + 1) * n + degree) * n + i


@inner
def _update_key(i, n, size, heap, members):
    """Update the key of constraint i to its new degree."""
    old = members[i, _KEY]
    new = _rank(i, n, members)
    members[i, _KEY] = new
    if new < old:
        _sift_up(members[i, _SLOT], heap, members)
    elif new > old:
        _sift_down(members[i, _SLOT], size, heap, members)


@inner
def _remove_clique(i, e, first, lists, members):
    """Remove clique e from the list of constraint i."""
    alive = 0
    for k in range(first, first + members[i, _CLIQUES]):
        if lists[k] != e:
            lists[first + alive] = lists[k]
            alive += 1
    members[i, _CLIQUES] = alive


@inner
def _start_quotient_graph(
    incidence_start, incidence_body, start, incidences, constraint, stage, cells, cliques, members, lists, heap
):
    """Fill the work rows with bodies as cliques; a body with one constraint connects nothing and is left out."""
    n = len(stage)
    for b in range(len(start) - 1):
        cliques[b, _HEAD] = -1
        cliques[b, _SIZE] = start[b + 1] - start[b]
        cliques[b, _MERGED] = -1
        cliques[b, _SEEN] = -1
        for s in range(start[b + 1] - 1, start[b] - 1, -1):
            cells[s, _VAR] = constraint[incidences[s]]
            cells[s, _NEXT] = cliques[b, _HEAD]
            cliques[b, _HEAD] = s
    for i in range(n):
        members[i, _CLIQUES] = 0
        members[i, _DEGREE] = 0
        members[i, _MARK] = -1
        members[i, _STAGE] = stage[i]
        for t in range(incidence_start[i], incidence_start[i + 1]):
            size = cliques[incidence_body[t], _SIZE]
            if size > 1:
                lists[incidence_start[i] + members[i, _CLIQUES]] = incidence_body[t]
                members[i, _CLIQUES] += 1
                members[i, _DEGREE] += size - 1
        members[i, _KEY] = _rank(i, n, members)
        heap[i] = i
        members[i, _SLOT] = i
    for slot in range(n // 2 - 1, -1, -1):
        _sift_down(slot, n, heap, members)


@inner
def _remove_member(e, n, left, incidence_start, cells, cliques, members, lists, heap):
    """Remove an eliminated member from clique e and update the degrees of the others; return how many are left."""
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
                _remove_clique(i, e, incidence_start[i], lists, members)
            _update_key(i, n, left, heap, members)
        cell = after
    return size


@inner
def _merge_cliques(p, step, incidence_start, cells, cliques, members, lists):
    """Merge the cliques of constraint p into the first of them; return how many members it has."""
    first = incidence_start[p]
    into = lists[first]
    size, last = 0, -1
    for k in range(first, first + members[p, _CLIQUES]):
        e = lists[k]
        cliques[e, _MERGED] = step
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
def _replace_merged(into, step, incidence_start, cells, cliques, members, lists):
    """Remove merged cliques from the lists of the new clique's members; count the members of others outside it."""
    cell = cliques[into, _HEAD]
    while cell >= 0:
        i = cells[cell, _VAR]
        first, alive = incidence_start[i], 0
        for k in range(first, first + members[i, _CLIQUES]):
            e = lists[k]
            if cliques[e, _MERGED] == step:
                continue
            lists[first + alive] = e
            alive += 1
            if cliques[e, _SEEN] != step:
                cliques[e, _SEEN] = step
                cliques[e, _OUTSIDE] = cliques[e, _SIZE]
            cliques[e, _OUTSIDE] -= 1
        members[i, _CLIQUES] = alive  # the new clique is added once the others are counted
        cell = cells[cell, _NEXT]


@inner
def _update_degrees(into, n, left, incidence_start, cells, cliques, members, lists, heap):
    """Set the degrees of the new clique's members; cliques within it are dropped."""
    size = cliques[into, _SIZE]
    cell = cliques[into, _HEAD]
    while cell >= 0:
        i = cells[cell, _VAR]
        first, alive, degree = incidence_start[i], 0, size - 1
        for k in range(first, first + members[i, _CLIQUES]):
            e = lists[k]
            if cliques[e, _OUTSIDE] > 0:
                lists[first + alive] = e
                alive += 1
                degree += cliques[e, _OUTSIDE]
        if size > 1:
            lists[first + alive] = into
            alive += 1
        members[i, _CLIQUES] = alive
        members[i, _DEGREE] = min(degree, members[i, _DEGREE] + size - 1)
        _update_key(i, n, left, heap, members)
        cell = cells[cell, _NEXT]


@kernel
def _eliminate(
    incidence_start, incidence_body, start, incidences, constraint,  # model
    stage,  # in
    cells, cliques, members, lists, heap,  # work
    order, later,  # out
):  # fmt: skip
    """Fill the order of elimination and how many constraints each has as later neighbours."""
    n = len(stage)
    _start_quotient_graph(
        incidence_start, incidence_body, start, incidences, constraint, stage, cells, cliques, members, lists, heap
    )
    for step in range(n):
        p = heap[0]
        left = n - step - 1
        heap[0] = heap[left]
        members[heap[0], _SLOT] = 0
        if left > 0:
            _sift_down(0, left, heap, members)
        members[p, _KEY] = -1
        order[step] = p
        into = lists[incidence_start[p]]
        if members[p, _CLIQUES] == 0:
            later[step] = 0
        elif members[p, _CLIQUES] == 1:
            later[step] = _remove_member(into, n, left, incidence_start, cells, cliques, members, lists, heap)
        else:
            later[step] = _merge_cliques(p, step, incidence_start, cells, cliques, members, lists)
            _replace_merged(into, step, incidence_start, cells, cliques, members, lists)
            _update_degrees(into, n, left, incidence_start, cells, cliques, members, lists, heap)
    return 0


@kernel
def _gather_subtrees(
    system, order,  # model
    newest, ancestor, links,  # work
    parent, postorder,  # out
):  # fmt: skip
    """Fill the elimination tree, and the order with every subtree contiguous: its columns are near in memory."""
    n = len(order)
    for k in range(n):
        i = order[k]
        for t in range(system.incidence_start[i], system.incidence_start[i + 1]):
            b = system.incidence_body[t]
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
                postorder[count] = k
                count += 1
    return count
