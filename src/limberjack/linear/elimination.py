"""Elimination order without fill-in: the forest of bodies and primary constraints.

Bodies and primary constraints are the nodes of a graph, with an edge for every incidence of a constraint and a body.
While the graph has no cycle, eliminating every node after its children creates no fill-in. A constraint has no diagonal
block of its own and must have a child body, so leaves are always bodies.

The paper makes every constraint on a single body auxiliary. One of them per component can be primary when it is the
root, which is eliminated last; a second one would close a cycle through the ground.

Reference: Baraff 1996, section 7.1, section 8 (auxiliary constraints) and appendix A (ordermatrix).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from limberjack._jit import inner, kernel
from limberjack.constraints.system import System
from limberjack.errors import StateError

__all__ = ["Split", "Tree", "new_work", "order_of", "representative_of", "split"]

# Columns of the table of nodes: form (below), own dimension, dimension of the parent, first index of the factor in the
# work array, of the vector in a or lam, of the diagonal in M or C, of the block with the parent in J, of the parent's
# factor and vector; whether the node is a leaf; whether it is the first child of its parent.
FORM, DIM, UP_DIM, FACTOR, VECTOR, SOURCE, BLOCK, UP_FACTOR, UP_VECTOR, LEAF, FIRST, TABLE = range(12)

# Forms: a body of dimension 6 or 3 or any other, a constraint below a body of such a dimension.
BODY_6, BODY_3, BODY, CONSTRAINT_6, CONSTRAINT_3, CONSTRAINT = range(6)


class Split(NamedTuple):
    """Which constraints form the forest and which do not; nc constraints, na of them auxiliary."""

    primary: np.ndarray  # (nc,) bool
    auxiliary: np.ndarray  # (na,) int64 the others, in order


class Tree(NamedTuple):
    """The nodes in the order of their elimination; n nodes, nb bodies, nc constraints."""

    item: np.ndarray  # (n,) int64 the body or constraint of a node
    is_constraint: np.ndarray  # (n,) bool
    parent: np.ndarray  # (n,) int64 always greater than the node itself; -1 at roots
    body_node: np.ndarray  # (nb,) int64
    constraint_node: np.ndarray  # (nc,) int64; -1 where auxiliary
    # (n, TABLE) int32 what the kernels read, a row per node; narrow, since large trees are bound by memory
    table: np.ndarray
    size: int  # of the work array


def split(system: System, allowed: np.ndarray | None = None) -> Split:
    """Return which constraints are primary: in order, each one that keeps the graph a forest.

    A constraint with more rows than its bodies have velocities, the largest body left out, cannot be eliminated from
    below and is auxiliary. So are those that close a cycle, also through the ground.

    Args:
        system: layout of the constraint system.
        allowed: (nc,) bool; where False the constraint is auxiliary whatever the graph. Default: all may be primary.
    """
    nb, nc = len(system.body_start) - 1, len(system.row_start) - 1
    allowed = np.ones(nc, dtype=bool) if allowed is None else np.ascontiguousarray(allowed, dtype=bool)
    if allowed.shape != (nc,):
        raise StateError(f"allowed has shape {allowed.shape}; there are {nc} constraints")
    if len(system.incidence_body) and not (0 <= system.incidence_body.min() and system.incidence_body.max() < nb):
        raise StateError(f"a constraint touches a body outside 0..{nb - 1}")
    primary = np.zeros(nc, dtype=bool)
    _split(system, allowed, np.arange(nb), np.zeros(nb, dtype=bool), np.full(nb, -1), primary)
    return Split(primary, np.flatnonzero(~primary))


@inner
def representative_of(above, body):
    """Return the representative of the component of `body`, with path halving."""
    while above[body] != body:
        above[body] = above[above[body]]
        body = above[body]
    return body


@kernel
def _split(
    # model
    system, allowed,
    # work
    above, grounded, seen,
    # out
    primary,
):  # fmt: skip
    """Fill primary (nc,) by union-find over the bodies."""
    for c in range(len(primary)):
        begin, end = system.incidence_start[c], system.incidence_start[c + 1]
        fits = allowed[c] and end > begin
        grounds = 1 if end == begin + 1 else 0
        total, largest = 0, 0
        for t in range(begin, end):
            body = system.incidence_body[t]
            dim = system.body_start[body + 1] - system.body_start[body]
            total += dim
            largest = max(largest, dim)
            representative = representative_of(above, body)
            if seen[representative] == c:
                fits = False
            seen[representative] = c
            if grounded[representative]:
                grounds += 1
        below = total if end == begin + 1 else total - largest
        if not fits or grounds > 1 or system.row_start[c + 1] - system.row_start[c] > below:
            continue
        primary[c] = True
        # The lower number represents a component: the union is not balanced, but path halving keeps it near linear.
        first = representative_of(above, system.incidence_body[begin])
        for t in range(begin + 1, end):
            representative = representative_of(above, system.incidence_body[t])
            above[max(first, representative)] = min(first, representative)
            grounded[min(first, representative)] = grounded[first] or grounded[representative]
            first = min(first, representative)
        if grounds == 1:
            grounded[first] = True
    return 0


def order_of(system: System, split: Split) -> Tree:
    """Return the nodes of the forest in an order with every node after its children, depth first.

    A component is rooted at its constraint with the ground, or else at its body of the lowest number. Bodies that are
    numbered depth first are eliminated in the reverse of that order: one pass over memory.
    """
    nb, nc = len(system.body_start) - 1, len(system.row_start) - 1
    counts = np.diff(system.incidence_start)
    owner = np.repeat(np.arange(nc), counts)
    used = np.flatnonzero(split.primary[owner]) if len(owner) else np.zeros(0, dtype=np.int64)
    # The incidences of each body, in the order of constraints.
    at = used[np.argsort(system.incidence_body[used], kind="stable")]
    body_incidence = np.zeros(nb + 1, dtype=np.int64)
    np.cumsum(np.bincount(system.incidence_body[used], minlength=nb), out=body_incidence[1:])
    roots = np.flatnonzero(split.primary & (counts == 1))
    n = nb + int(split.primary.sum())
    item, parent, up = np.zeros(n, dtype=np.int64), np.full(n, -1), np.full(n, -1)
    is_constraint = np.zeros(n, dtype=bool)
    body_node, constraint_node = np.full(nb, -1), np.full(nc, -1)
    stack = np.zeros((n, 3), dtype=np.int64)
    status = _walk(
        system, body_incidence, at, owner, roots, stack, item, is_constraint, parent, up, body_node, constraint_node
    )
    if status:
        raise StateError("the primary constraints do not form a forest with one grounded constraint per component")
    table, size = _table(system, item, is_constraint, parent, up)
    return Tree(item, is_constraint, parent, body_node, constraint_node, table, size)


@kernel
def _walk(
    # model
    system, body_incidence, at, owner, roots,
    # work
    stack,
    # out
    item, is_constraint, parent, up, body_node, constraint_node,
):  # fmt: skip
    """Fill the nodes by a walk from the roots, last node first; return 0, or 1 where the graph has a cycle.

    Args:
        body_incidence: (nb + 1,) first entry of each body in `at`.
        at: (nk,) incidences of primary constraints, by bodies.
        owner: (nt,) the constraint of each incidence.
        roots: constraints to start at; then every body not reached.
        up: (n,) the incidence between a node and its parent, -1 at roots.
    """
    n, left = len(item), len(item)
    for s in range(len(roots) + len(body_node)):
        if s < len(roots):
            stack[0, 0], stack[0, 1] = roots[s], 1
        elif body_node[s - len(roots)] < 0:
            stack[0, 0], stack[0, 1] = s - len(roots), 0
        else:
            continue
        stack[0, 2] = -1
        height = 1
        while height > 0:
            height -= 1
            i, constraint, edge = stack[height, 0], stack[height, 1] == 1, stack[height, 2]
            left -= 1
            if left < 0 or (constraint_node[i] if constraint else body_node[i]) >= 0:
                return 1
            item[left], is_constraint[left], up[left] = i, constraint, edge
            if constraint:
                constraint_node[i] = left
                parent[left] = body_node[system.incidence_body[edge]] if edge >= 0 else -1
                begin, end = system.incidence_start[i], system.incidence_start[i + 1]
            else:
                body_node[i] = left
                parent[left] = constraint_node[owner[edge]] if edge >= 0 else -1
                begin, end = body_incidence[i], body_incidence[i + 1]
            for k in range(end - 1, begin - 1, -1):
                incidence = k if constraint else at[k]
                if incidence == edge:
                    continue
                if height == n:
                    return 1
                stack[height, 0] = system.incidence_body[incidence] if constraint else owner[incidence]
                stack[height, 1], stack[height, 2] = 0 if constraint else 1, incidence
                height += 1
    return 0 if left == 0 else 1


def _table(system: System, item: np.ndarray, is_constraint: np.ndarray, parent: np.ndarray, up: np.ndarray):
    """Return the table of the nodes and the size of the work array."""
    n = len(item)
    table = np.zeros((n, TABLE), dtype=np.int64)
    body, constraint = ~is_constraint, is_constraint
    dims, rows = np.diff(system.body_start), np.diff(system.row_start)
    dim = table[:, DIM]
    dim[body], dim[constraint] = dims[item[body]], rows[item[constraint]]
    inside = parent >= 0
    table[inside, UP_DIM] = dim[parent[inside]]
    size = dim * (dim + 1) // 2 + dim * table[:, UP_DIM]
    table[:, FACTOR] = np.cumsum(size) - size
    table[body, VECTOR], table[constraint, VECTOR] = system.body_start[item[body]], system.row_start[item[constraint]]
    table[body, SOURCE], table[constraint, SOURCE] = system.mass_start[item[body]], system.row_start[item[constraint]]
    table[inside, BLOCK] = system.block_start[up[inside]]
    table[inside, UP_FACTOR] = table[parent[inside], FACTOR]
    table[inside, UP_VECTOR] = table[parent[inside], VECTOR]
    table[:, LEAF] = 1
    table[parent[inside], LEAF] = 0
    children, first = np.unique(parent[inside], return_index=True)
    table[np.flatnonzero(inside)[first], FIRST] = 1
    outer = np.where(body, dim, table[:, UP_DIM])
    form = np.where(outer == 6, BODY_6, np.where(outer == 3, BODY_3, BODY))
    table[:, FORM] = form + np.where(constraint, CONSTRAINT_6, 0)
    if table.max(initial=0) > np.iinfo(np.int32).max:
        raise StateError(f"the factor of {n} bodies and constraints would hold more than 2^31 numbers")
    return table.astype(np.int32), int(size.sum())


def new_work(tree: Tree) -> np.ndarray:
    """Return the array that `factor` fills."""
    return np.zeros(tree.size)
