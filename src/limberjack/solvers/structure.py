"""Where the blocks of A = J M^-1 J^T + C and of its factor stand, and which block updates which: once per topology.

Blocks are stored by columns of the factor, the diagonal block first. A block holds the columns of its matrix, each
padded to whole groups of four numbers, so that registers of four serve every size: a 3x3 block takes three groups, a
5x5 block ten. All places are counted in groups. Padded vectors hold the rows of each constraint in the same way.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from limberjack._jit import kernel
from limberjack.constraints.system import System
from limberjack.errors import ModelError
from limberjack.solvers.ordering import Ordering, body_touches, constraint_of_touch, order_constraints

__all__ = ["Structure", "Work", "new_work", "prepare"]


class Structure(NamedTuple):
    """The layout of a factor; nc columns (constraints in elimination order), nt touches."""

    order: np.ndarray  # (nc,) int64 the constraint of each column
    rows: np.ndarray  # (nc,) int64 rows of the column's constraint
    first_row: np.ndarray  # (nc,) int64 the first of them in multiplier-like vectors
    vector: np.ndarray  # (nc + 1,) int64 groups of the column's constraint in padded vectors
    column: np.ndarray  # (nc + 1,) int64 first block of each column: the diagonal one
    block_row: np.ndarray  # (nk,) int64 the column whose constraint the block's rows belong to
    block: np.ndarray  # (nk + 1,) int64 groups of each block
    plain: np.ndarray  # (nc,) int64 1 where all blocks of the column are 3x3
    target: np.ndarray  # (nu,) int32 group of the block that each product of two blocks is taken from, in order of use
    response: np.ndarray  # (nt + 1,) int64 groups of M^-1 J^T of each touch
    filled: np.ndarray  # (nf,) int64 blocks where A has none
    sum_block: np.ndarray  # (na,) int64 blocks of A
    sum_start: np.ndarray  # (na + 1,) int64 their terms
    sum_row: np.ndarray  # (ns,) int64 touch on the side of the block's rows
    sum_column: np.ndarray  # (ns,) int64 touch of the same body on the side of its columns


class Work(NamedTuple):
    """Values of a factor and scratch; never shared between threads. Zero at first: what pads groups stays zero."""

    values: np.ndarray  # (groups, 4) A, then its factor
    response: np.ndarray  # (groups, 4) M^-1 J^T, body dimension x padded rows per touch
    diagonal: np.ndarray  # (groups, 4) of A, the measure of pivots
    x: np.ndarray  # (groups, 4) padded vector
    old: np.ndarray  # (groups, 4) one column before it is divided by its pivot
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
        system: which constraint touches which body.
        ordering: look at its `updates` first where bodies may be hubs of many constraints.
    """
    if ordering is None:
        ordering = order_constraints(system)
    nc = len(ordering.order)
    column = _sums(ordering.later + 1)
    rows = np.diff(system.row_start)[ordering.order]
    groups = (rows + 3) // 4
    start, touches = body_touches(system)
    constraint = constraint_of_touch(system)
    place = np.empty(nc, np.int64)
    place[ordering.order] = np.arange(nc)

    block_row = np.empty(ordering.blocks, np.int64)
    _fill_columns(system, start, touches, constraint, ordering.order, place, column, np.full(nc, -1, np.int64),
                  np.full((nc, 2), -1, np.int64), block_row)  # fmt: skip
    of_column = np.repeat(np.arange(nc), np.diff(column))
    block_row = block_row[np.argsort(of_column * nc + block_row)]

    block = _sums(rows[of_column] * groups[block_row])
    if block[-1] >= 2**31:
        raise ModelError(f"the factor would hold {block[-1]} groups of four numbers; the most is {2**31 - 1}")
    plain = np.minimum.reduceat((rows[block_row] == 3).astype(np.int64), column[:-1]) if nc else np.zeros(0, np.int64)
    target = np.empty(ordering.updates, np.int32)
    _fill_targets(column, block_row, block, target)

    count = int(_count_terms(system, start, touches, constraint, place))
    terms = np.empty((count, 3), np.int64)
    _fill_terms(system, start, touches, constraint, ordering.order, place, column, block_row, np.empty(nc, np.int64), terms)
    terms = terms[np.argsort(terms[:, 0], kind="stable")]
    sum_block, first = np.unique(terms[:, 0], return_index=True)
    dim = np.diff(system.body_start)[system.touch_body]
    response = _sums(dim * ((np.diff(system.row_start)[constraint] + 3) // 4))
    return Structure(
        order=ordering.order,
        rows=rows,
        first_row=system.row_start[ordering.order],
        vector=_sums(groups),
        column=column,
        block_row=block_row,
        block=block,
        plain=plain,
        target=target,
        response=response,
        filled=np.setdiff1d(np.arange(ordering.blocks), sum_block),
        sum_block=sum_block,
        sum_start=np.append(first, count).astype(np.int64),
        sum_row=np.ascontiguousarray(terms[:, 1]),
        sum_column=np.ascontiguousarray(terms[:, 2]),
    )


def new_work(system: System, structure: Structure) -> Work:
    """Return the arrays that factor and solve one system."""
    longest = structure.block[structure.column[1:]] - structure.block[structure.column[:-1]]
    nr, nu = int(system.row_start[-1]), int(system.body_start[-1])
    vector = int(structure.vector[-1])
    return Work(
        values=_zeros(int(structure.block[-1])),
        response=_zeros(int(structure.response[-1])),
        diagonal=_zeros(vector),
        x=_zeros(vector),
        old=_zeros(int(longest.max(initial=0))),
        small=np.zeros((13, 12)),
        dropped=np.zeros(nr, np.int64),
        f=np.zeros(nu),
        u=np.zeros(nu),
        b=np.zeros(nr),
        residual=np.zeros(nr),
        correction=np.zeros(nr),
    )


def _zeros(groups: int) -> np.ndarray:
    out = np.empty((groups, 4))  # not np.zeros: NumPy asks for huge pages here only
    out.fill(0.0)
    return out


def _sums(counts: np.ndarray) -> np.ndarray:
    """Return 0 and the running sums of `counts`."""
    out = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=out[1:])
    return out


@kernel
def _fill_columns(
    system, start, touches, constraint, order, place, column,  # model
    seen, children,  # work
    block_row,  # out
):  # fmt: skip
    """Fill the rows of every column: neighbours in A, and what the columns below it in the elimination tree hold."""
    for k in range(len(order)):
        i = order[k]
        at = column[k]
        seen[k] = k
        block_row[at] = k
        at += 1
        parent = len(order)
        for t in range(system.touch_start[i], system.touch_start[i + 1]):
            b = system.touch_body[t]
            for s in range(start[b], start[b + 1]):
                r = place[constraint[touches[s]]]
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
                target[u] = block[c]
                u += 1
    return u


@kernel
def _count_terms(
    system, start, touches, constraint, place,  # model
):  # fmt: skip
    """Return how many products of touches the blocks of A are sums of."""
    count = 0
    for t in range(len(system.touch_body)):
        b = system.touch_body[t]
        for s in range(start[b], start[b + 1]):
            if place[constraint[touches[s]]] >= place[constraint[t]]:
                count += 1
    return count


@kernel
def _fill_terms(
    system, start, touches, constraint, order, place, column, block_row,  # model
    slot,  # work
    terms,  # out
):  # fmt: skip
    """Fill block, touch of its rows and touch of its columns of every product."""
    n = 0
    for k in range(len(order)):
        i = order[k]
        for c in range(column[k], column[k + 1]):
            slot[block_row[c]] = c
        for t in range(system.touch_start[i], system.touch_start[i + 1]):
            b = system.touch_body[t]
            for s in range(start[b], start[b + 1]):
                r = place[constraint[touches[s]]]
                if r >= k:
                    terms[n, 0] = slot[r]
                    terms[n, 1] = touches[s]
                    terms[n, 2] = t
                    n += 1
    return n
