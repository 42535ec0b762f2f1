"""Layout of A = J M^-1 J^T + C and of its factor, and which block updates which: once per topology.

Blocks are stored by columns of the factor, the diagonal block first. A block holds the columns of its matrix, each
padded to whole groups of four numbers, so that registers of four serve every size: a 3x3 block takes three groups, a
5x5 block ten. All indices count groups. Padded vectors hold the rows of each constraint in the same way.

Before the first block are groups of zeros. The index g of a block that is added to is given as -1 - g where nothing has
been written yet: then zeros are read, and no block has to be cleared. A is summed body by body, since all rows of a
body are near in memory then.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from limberjack._jit import inner, kernel
from limberjack.constraints.system import System
from limberjack.errors import ModelError
from limberjack.linear.ordering import Ordering, body_incidences, constraint_of_incidence, order_constraints

__all__ = ["Structure", "Work", "new_work", "prepare"]

_ZEROS = 36  # groups of the largest block, 12 x 12


class Structure(NamedTuple):
    """The layout of a factor; nc columns (constraints in elimination order), nt incidences."""

    order: np.ndarray  # (nc,) int64 the constraint of each column
    rows: np.ndarray  # (nc,) int64 rows of the column's constraint
    first_row: np.ndarray  # (nc,) int64 the first of them in multiplier-like vectors
    vector: np.ndarray  # (nc + 1,) int64 groups of the column's constraint in padded vectors
    column: np.ndarray  # (nc + 1,) int64 first block of each column: the diagonal one
    block_row: np.ndarray  # (nk,) int64 the column whose constraint the block's rows belong to
    block: np.ndarray  # (nk + 1,) int64 groups of each block
    only_3x3: np.ndarray  # (nc,) int64 1 where all blocks of the column are 3x3
    target: np.ndarray  # (nu,) int32 the block each product of two blocks is subtracted from, in order of use
    empty: np.ndarray  # (ne,) int64 diagonal blocks of constraints without incidences
    visit: np.ndarray  # (nv,) int64 bodies with incidences, in the order of their first columns
    visit_incidence: np.ndarray  # (nv + 1,) int64 incidences of each of them
    incidence: np.ndarray  # (nt, 5) int64 by visits: index in J, rows, group in `response`, group in vectors, incidence
    visit_term: np.ndarray  # (nv + 1,) int64 terms of A from each of them
    term: np.ndarray  # (ns, 3) int32 incidence of the rows, incidence of the columns, index of the block


class Work(NamedTuple):
    """Values of a factor and scratch; never shared between threads. Zero at first, as the padding stays."""

    values: np.ndarray  # (groups, 4) A, then its factor
    response: np.ndarray  # (groups, 4) M^-1 J^T of the incidences of one body, body dimension x padded rows each
    pivots: np.ndarray  # (groups, 4) diagonal of A, then inverse pivots; 0 of dropped rows
    pivot_order: np.ndarray  # (groups, 4) int64 the order of rows within each constraint; -1 = unchanged
    x: np.ndarray  # (groups, 4) padded vector
    undivided: np.ndarray  # (groups, 4) one column before it is divided by its pivots
    small: np.ndarray  # (13, 12) one diagonal block
    dropped: np.ndarray  # (nr,) int64 rows whose multipliers are 0, the first as many as `factor` returned
    f: np.ndarray  # (nu,) force-like
    u: np.ndarray  # (nu,) velocity-like
    b: np.ndarray  # (nr,) right-hand side of the multipliers
    residual: np.ndarray  # (nr,)
    correction: np.ndarray  # (nr,)


def prepare(system: System, ordering: Ordering | None = None) -> Structure:
    """Return the layout of the factor of A in the given order, or in the one `order_constraints` finds.

    Args:
        system: incidences of constraints and bodies.
        ordering: check its `updates` first where bodies may be hubs of many constraints.
    """
    if ordering is None:
        ordering = order_constraints(system)
    nc = len(ordering.order)
    column = _sums(ordering.later + 1)
    rows = np.diff(system.row_start)[ordering.order]
    groups = (rows + 3) // 4
    start, incidences = body_incidences(system)
    constraint = constraint_of_incidence(system)
    position = np.empty(nc, np.int64)
    position[ordering.order] = np.arange(nc)

    block_row = np.empty(ordering.blocks, np.int64)
    _fill_columns(system, start, incidences, constraint, ordering.order, position, column, np.full(nc, -1, np.int64),
                  np.full((nc, 2), -1, np.int64), block_row)  # fmt: skip
    of_column = np.repeat(np.arange(nc), np.diff(column))
    block_row = block_row[np.argsort(of_column * nc + block_row)]

    block = _sums(rows[of_column] * groups[block_row]) + _ZEROS
    if block[-1] >= 2**31:
        raise ModelError(f"the factor would hold {block[-1]} groups of four numbers; the most is {2**31 - 1}")
    only_3x3 = (
        np.minimum.reduceat((rows[block_row] == 3).astype(np.int64), column[:-1]) if nc else np.zeros(0, np.int64)
    )

    first = np.full(len(start) - 1, nc, np.int64)
    np.minimum.at(first, system.incidence_body, position[constraint])
    visit = np.argsort(first, kind="stable")[: np.count_nonzero(np.diff(start))].astype(np.int64)
    counts = np.diff(start)[visit]
    visit_incidence = _sums(counts)
    by_visit = incidences[np.repeat(start[visit] - visit_incidence[:-1], counts) + np.arange(len(incidences))]
    incidence = _incidence_table(system, constraint, position, _sums(groups), by_visit, visit_incidence)
    visit_term, written = np.zeros(len(visit) + 1, np.int64), np.zeros(ordering.blocks, np.int64)
    column_of = position[constraint[by_visit]]
    term = np.empty((_count_terms(visit_incidence, column_of), 3), np.int32)
    _fill_terms(visit_incidence, column_of, column, block_row, block, written, visit_term, term)
    empty = column[:-1][written[column[:-1]] == 0]
    written[empty] = 1
    target = np.empty(ordering.updates, np.int32)
    _fill_targets(column, block_row, block, written, target)
    return Structure(
        order=ordering.order,
        rows=rows,
        first_row=system.row_start[ordering.order],
        vector=_sums(groups),
        column=column,
        block_row=block_row,
        block=block,
        only_3x3=only_3x3,
        target=target,
        empty=empty,
        visit=visit,
        visit_incidence=visit_incidence,
        incidence=incidence,
        visit_term=visit_term,
        term=term,
    )


def _incidence_table(
    system: System,
    constraint: np.ndarray,
    position: np.ndarray,
    vector: np.ndarray,
    by_visit: np.ndarray,
    visit_incidence: np.ndarray,
) -> np.ndarray:
    """Return `Structure.incidence`, for incidences in the order of visits."""
    owner = constraint[by_visit]
    rows = np.diff(system.row_start)[owner]
    running = _sums(np.diff(system.body_start)[system.incidence_body[by_visit]] * ((rows + 3) // 4))
    own = running[:-1] - np.repeat(running[visit_incidence[:-1]], np.diff(visit_incidence))
    return np.stack([system.block_start[by_visit], rows, own, vector[position[owner]], by_visit], axis=1).astype(
        np.int64
    )


def new_work(system: System, structure: Structure) -> Work:
    """Return the arrays that factor and solve one system."""
    longest = structure.block[structure.column[1:]] - structure.block[structure.column[:-1]]
    dim = np.repeat(np.diff(system.body_start)[structure.visit], np.diff(structure.visit_incidence))
    response = int((structure.incidence[:, 2] + dim * ((structure.incidence[:, 1] + 3) // 4)).max(initial=0))
    nr, nu = int(system.row_start[-1]), int(system.body_start[-1])
    vector = int(structure.vector[-1])
    return Work(
        values=_zeros(int(structure.block[-1])),
        response=_zeros(response),
        pivots=_zeros(vector),
        pivot_order=np.zeros((vector, 4), np.int64),
        x=_zeros(vector),
        undivided=_zeros(int(longest.max(initial=0))),
        small=np.zeros((13, 12)),
        dropped=np.zeros(nr, np.int64),
        f=np.zeros(nu),
        u=np.zeros(nu),
        b=np.zeros(nr),
        residual=np.zeros(nr),
        correction=np.zeros(nr),
    )


def _zeros(groups: int) -> np.ndarray:
    out = np.empty((groups, 4))  # not np.zeros: NumPy asks for huge pages in np.empty only
    out.fill(0.0)
    return out


def _sums(counts: np.ndarray) -> np.ndarray:
    """Return 0 and the running sums of `counts`."""
    out = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=out[1:])
    return out


@kernel
def _fill_columns(
    system, start, incidences, constraint, order, position, column,  # model
    seen, children,  # work
    block_row,  # out
):  # fmt: skip
    """Fill the rows of every column: neighbours in A, and the rows of its children in the elimination tree."""
    for k in range(len(order)):
        i = order[k]
        at = column[k]
        seen[k] = k
        block_row[at] = k
        at += 1
        parent = len(order)
        for t in range(system.incidence_start[i], system.incidence_start[i + 1]):
            b = system.incidence_body[t]
            for s in range(start[b], start[b + 1]):
                r = position[constraint[incidences[s]]]
                if r > k and seen[r] != k:
                    seen[r] = k
                    block_row[at] = r
                    at += 1
                    parent = min(parent, r)
        child = children[k, 0]
        while child >= 0:
            for c in range(column[child] + 1, column[child + 1]):
                r = block_row[c]
                if seen[r] != k:
                    seen[r] = k
                    block_row[at] = r
                    at += 1
                    parent = min(parent, r)
            child = children[child, 1]
        if parent < len(order):
            children[k, 1] = children[parent, 0]
            children[parent, 0] = k
    return 0


@kernel
def _fill_targets(
    column, block_row, block,  # model
    written,  # work
    target,  # out
):  # fmt: skip
    """Fill which block each product of two blocks of a column changes: for each second factor, all first ones."""
    u = 0
    for k in range(len(column) - 1):
        for b in range(column[k] + 1, column[k + 1]):
            c = column[block_row[b]]
            for a in range(b, column[k + 1]):
                r = block_row[a]
                while block_row[c] < r:
                    c += 1
                target[u] = block[c] if written[c] == 1 else -1 - block[c]
                written[c] = 1
                u += 1
    return u


@kernel
def _count_terms(
    visit_incidence, column_of,  # model
):  # fmt: skip
    """Return the number of products of incidences that the blocks of A are sums of."""
    count = 0
    for v in range(len(visit_incidence) - 1):
        for q in range(visit_incidence[v], visit_incidence[v + 1]):
            for p in range(visit_incidence[v], visit_incidence[v + 1]):
                if column_of[p] >= column_of[q]:
                    count += 1
    return count


@inner
def _find(r, first, last, block_row):
    """Return the block of row r among the sorted blocks first .. last - 1 of a column."""
    while last - first > 1:
        middle = (first + last) >> 1
        if block_row[middle] <= r:
            first = middle
        else:
            last = middle
    return first


@kernel
def _fill_terms(
    visit_incidence, column_of, column, block_row, block,  # model
    written,  # work
    visit_term, term,  # out
):  # fmt: skip
    """Fill the two incidences and the block of every product, body by body."""
    n = 0
    for v in range(len(visit_incidence) - 1):
        for q in range(visit_incidence[v], visit_incidence[v + 1]):
            k = column_of[q]
            for p in range(visit_incidence[v], visit_incidence[v + 1]):
                if column_of[p] >= k:
                    c = _find(column_of[p], column[k], column[k + 1], block_row)
                    term[n, 0] = p
                    term[n, 1] = q
                    term[n, 2] = block[c] if written[c] == 1 else -1 - block[c]
                    written[c] = 1
                    n += 1
        visit_term[v + 1] = n
    return n
