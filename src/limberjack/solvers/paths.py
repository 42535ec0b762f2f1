"""Responses of the forest to auxiliary rows, kept only where they are not zero: on the paths to the root.

A force on one body changes the forward elimination on the way from that body to its root and nowhere else. With y_i
the forward-eliminated row i of the auxiliary J and d the diagonal of the factor (see `tree`),

    A_ij = J_i Mhat^-1 J_j^T = sum over common bodies of y_i . d^-1 y_j - sum over common constraints of the same

where Mhat^-1 is how the bodies answer to forces with the primary constraints in place. k rows cost O(k depth) for the y
and O(k^2 depth) for A, instead of a solve over all bodies for each.

The rows may belong to the system of the tree or to another one over the same bodies (contacts found at a step).

Baraff 1996, section 8; for rows whose forces act along themselves (K^T = J).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from limberjack._jit import inner, kernel
from limberjack.constraints.system import System
from limberjack.errors import StateError
from limberjack.solvers.blocks import (
    dot_3,
    dot_6,
    forward,
    forward_3,
    forward_6,
    load_3,
    load_6,
    lower_3,
    lower_6,
    minus_6,
    store_3,
    store_6,
)
from limberjack.solvers.elimination import BODY, BODY_6, CONSTRAINT_6, DIM, FORM, PLACE, UP_DIM, Tree

__all__ = [
    "Responses",
    "auxiliary_forces",
    "auxiliary_matrix",
    "auxiliary_rhs",
    "empty_responses",
    "new_responses",
    "respond",
    "trace",
]


class Responses(NamedTuple):
    """The auxiliary constraints, the nodes of their paths, and the forward-eliminated rows there; k constraints."""

    count: np.ndarray  # (1,) int64 k, at most the room of the arrays below
    constraint: np.ndarray  # (k,) int64 constraints of the system that holds the rows
    row_start: np.ndarray  # (k + 1,) int64 the rows of each one in the auxiliary matrix
    start: np.ndarray  # (k + 1,) int64 the nodes of each one's paths
    node: np.ndarray  # (all,) int64 nodes, ascending within one constraint
    up: np.ndarray  # (all,) int64 place of the parent in `node`, -1 at roots
    place: np.ndarray  # (all + 1,) int64 place of the node's rows x dim block in `values`
    values: np.ndarray  # flat y
    scaled: np.ndarray  # d^-1 y of one constraint, with the sign of its term
    where: np.ndarray  # (n,) int64 scratch by nodes
    climb: np.ndarray  # scratch by touches


def new_responses(system: System, tree: Tree, constraints: np.ndarray) -> Responses:
    """Return responses traced for these constraints, with the room they need and no more."""
    constraints = np.ascontiguousarray(constraints, dtype=np.int64)
    touches = int(np.diff(system.touch_start)[constraints].max(initial=0))
    need = np.zeros(3, dtype=np.int64)
    _measure(system, tree, constraints, np.zeros(touches, dtype=np.int64), need)
    nodes, values, most = (int(x) for x in need)
    responses = _with_room(tree, len(constraints), nodes, values, most, touches)
    responses.constraint[:] = constraints
    responses.count[0] = len(constraints)
    if trace(system, tree, responses):
        raise StateError("the constraints do not fit the tree")
    return responses


def empty_responses(tree: Tree, constraints: int, rows: int, touches: int) -> Responses:
    """Return responses with room for any `constraints` of at most so many rows and touches each, none traced yet."""
    nodes, numbers = np.zeros(len(tree.parent), dtype=np.int64), np.zeros(len(tree.parent), dtype=np.int64)
    if len(nodes):
        _depths(tree, nodes, numbers)
    longest, most = touches * int(nodes.max(initial=0)), rows * touches * int(numbers.max(initial=0))
    return _with_room(tree, constraints, constraints * longest, constraints * most, most, touches)


def _with_room(tree: Tree, constraints: int, nodes: int, values: int, most: int, touches: int) -> Responses:
    def whole(size: int) -> np.ndarray:
        return np.zeros(size, dtype=np.int64)

    return Responses(
        whole(1), whole(constraints), whole(constraints + 1), whole(constraints + 1), whole(nodes), whole(nodes),
        whole(nodes + 1), np.zeros(values), np.zeros(most), whole(len(tree.parent)), whole(touches),
    )  # fmt: skip


@kernel
def _depths(
    # model
    tree,
    # out
    nodes, numbers,
):  # fmt: skip
    """Fill the number of nodes from each one to its root, both included, and that of their numbers."""
    for n in range(len(nodes) - 1, -1, -1):
        up = tree.parent[n]
        nodes[n] = 1 + (nodes[up] if up >= 0 else 0)
        numbers[n] = tree.table[n, DIM] + (numbers[up] if up >= 0 else 0)
    return 0


@inner
def _start_climb(system, tree, c, climb):
    """Put the touched bodies' nodes into `climb`; return how many."""
    begin, end = system.touch_start[c], system.touch_start[c + 1]
    for t in range(begin, end):
        climb[t - begin] = tree.body_node[system.touch_body[t]]
    return end - begin


@inner
def _next(tree, touches, climb):
    """Return the lowest node that `climb` stands at, or -1, and move on from there."""
    lowest = -1
    for t in range(touches):
        if climb[t] >= 0 and (lowest < 0 or climb[t] < lowest):
            lowest = climb[t]
    for t in range(touches):
        if lowest >= 0 and climb[t] == lowest:
            climb[t] = tree.parent[lowest]
    return lowest


@kernel
def _measure(
    # model
    system, tree, constraints,
    # work
    climb,
    # out
    need,
):  # fmt: skip
    """Fill need with the nodes, the values and the most values of one constraint that `trace` will write."""
    for i in range(len(constraints)):
        c = constraints[i]
        rows, own = system.row_start[c + 1] - system.row_start[c], 0
        touches = _start_climb(system, tree, c, climb)
        n = _next(tree, touches, climb)
        while n >= 0:
            need[0] += 1
            own += rows * tree.table[n, DIM]
            n = _next(tree, touches, climb)
        need[1] += own
        need[2] = max(need[2], own)
    return 0


@kernel
def trace(
    # model
    system, tree,
    # in and out
    responses,
):  # fmt: skip
    """Find the nodes on the paths of the constraints that `responses` names; return 0, or 1 when there is no room.

    Depends on the connections alone, not on positions.
    """
    at, values = 0, 0
    responses.row_start[0] = 0
    responses.start[0] = 0
    if responses.count[0] > len(responses.constraint):
        return 1
    for i in range(responses.count[0]):
        c = responses.constraint[i]
        rows = system.row_start[c + 1] - system.row_start[c]
        if system.touch_start[c + 1] - system.touch_start[c] > len(responses.climb):
            return 1
        touches = _start_climb(system, tree, c, responses.climb)
        first, begin = at, values
        n = _next(tree, touches, responses.climb)
        while n >= 0:
            if at >= len(responses.node):
                return 1
            responses.node[at], responses.place[at], responses.where[n] = n, values, at
            at += 1
            values += rows * tree.table[n, DIM]
            n = _next(tree, touches, responses.climb)
        if values > len(responses.values) or values - begin > len(responses.scaled):
            return 1
        for k in range(first, at):
            up = tree.parent[responses.node[k]]
            responses.up[k] = responses.where[up] if up >= 0 else -1
        responses.row_start[i + 1] = responses.row_start[i] + rows
        responses.start[i + 1] = at
    responses.place[at] = values
    return 0


@kernel
def respond(
    # model
    system, tree,
    # in
    J, work,
    # in and out
    responses,
):  # fmt: skip
    """Fill the values of traced responses from a factor: the forward pass of every row, on its paths only.

    Args:
        system: the layout of the rows.
        tree: `order_of` the primary system.
        J: flat blocks of the rows.
        work: as `factor` left it.
        responses: as `trace` left it.
    """
    values, row_start = responses.values, responses.row_start
    for k in range(responses.place[responses.start[responses.count[0]]]):
        values[k] = 0.0
    for i in range(responses.count[0]):
        c, rows = responses.constraint[i], row_start[i + 1] - row_start[i]
        first, end = responses.start[i], responses.start[i + 1]
        for t in range(system.touch_start[c], system.touch_start[c + 1]):
            n, at = tree.body_node[system.touch_body[t]], first
            while responses.node[at] != n:
                at += 1
            to, block = responses.place[at], system.block_start[t]
            for k in range(rows * tree.table[n, DIM]):
                values[to + k] += J[block + k]
        for at in range(first, end):
            up = responses.up[at]
            _respond_node(tree.table, responses.node[at], rows, responses.place[at], responses.place[up], work, values)
    return 0


@inner
def _respond_node(table, n, rows, x, to, work, values):
    """Replace the block at x by U^-1 of each row, and add what that gives to the parent's block at `to`."""
    dim, up_dim, p = table[n, DIM], table[n, UP_DIM], table[n, PLACE]
    form = table[n, FORM]
    g = p + dim * (dim + 1) // 2
    if form == BODY_6:
        f = lower_6(work, p)
        for r in range(rows):
            y = forward_6(f, load_6(values, x + 6 * r))
            store_6(values, x + 6 * r, y)
            for k in range(up_dim):
                values[to + r * up_dim + k] += dot_6(y, load_6(work, g + 6 * k))
    elif form <= BODY:
        for r in range(rows):
            forward(dim, work, p, values, x + r * dim)
            for k in range(up_dim):
                for i in range(dim):
                    values[to + r * up_dim + k] += work[g + k * dim + i] * values[x + r * dim + i]
    elif form == CONSTRAINT_6:
        for r in range(rows):
            _forward_rows(dim, p, x + r * dim, work, values)
            z = load_6(values, to + 6 * r)
            for i in range(dim):
                z = minus_6(z, values[x + r * dim + i], load_6(work, g + 6 * i))
            store_6(values, to + 6 * r, z)
    else:
        for r in range(rows):
            _forward_rows(dim, p, x + r * dim, work, values)
            for i in range(dim):
                for k in range(up_dim):
                    values[to + r * up_dim + k] -= work[g + i * up_dim + k] * values[x + r * dim + i]


@inner
def _forward_rows(dim, p, x, work, values):
    """Replace the part of a constraint at x by U^-1 of it."""
    if dim == 3:
        store_3(values, x, forward_3(lower_3(work, p), load_3(values, x)))
    else:
        forward(dim, work, p, values, x)


@kernel
def auxiliary_matrix(
    # model
    system, tree,
    # in
    J, work,
    # work
    responses,
    # out
    A,
):  # fmt: skip
    """Fill A (rows x rows of the responses) with J_aux Mhat^-1 J_aux^T; compliance is the caller's to add.

    Args:
        system: the layout of the rows.
        tree: `order_of` the primary system.
        J: flat blocks of the rows.
        work: as `factor` left it.
        responses: as `trace` left it; its values are filled anew.
    """
    respond(system, tree, J, work, responses)
    row_start, start = responses.row_start, responses.start
    for i in range(responses.count[0]):
        _scale(tree.table, i, work, responses)
        for j in range(i + 1):
            for a in range(row_start[i], row_start[i + 1]):
                for b in range(row_start[j], row_start[j + 1]):
                    A[a, b] = 0.0
            s, t = start[i + 1] - 1, start[j + 1] - 1
            while s >= start[i] and t >= start[j]:
                n, m = responses.node[s], responses.node[t]
                if n == m:
                    _add_products(tree.table[n, DIM], i, j, s, t, responses, A)
                if n >= m:
                    s -= 1
                if m >= n:
                    t -= 1
            for a in range(row_start[i], row_start[i + 1]):
                for b in range(row_start[j], row_start[j + 1]):
                    A[b, a] = A[a, b]
    return 0


@inner
def _scale(table, i, work, responses):
    """Fill responses.scaled for constraint i."""
    rows, at = responses.row_start[i + 1] - responses.row_start[i], 0
    first = responses.place[responses.start[i]]
    for t in range(responses.start[i], responses.start[i + 1]):
        n = responses.node[t]
        p, sign = table[n, PLACE], 1.0 if table[n, FORM] <= BODY else -1.0
        for _ in range(rows):
            for k in range(table[n, DIM]):
                responses.scaled[at] = sign * responses.values[first + at] * work[p + k * (k + 3) // 2]
                at += 1


@inner
def _add_products(dim, i, j, s, t, responses, A):
    """Add to block (i, j) of A what one common node gives, found at s of constraint i and t of constraint j."""
    row_start, scaled, values = responses.row_start, responses.scaled, responses.values
    x, y = responses.place[s] - responses.place[responses.start[i]], responses.place[t]
    first, end = row_start[j], row_start[j + 1]
    for a in range(row_start[i], row_start[i + 1]):
        if dim == 6:
            z = load_6(scaled, x)
            for b in range(first, end):
                A[a, b] += dot_6(z, load_6(values, y + 6 * (b - first)))
        elif dim == 3:
            w = load_3(scaled, x)
            for b in range(first, end):
                A[a, b] += dot_3(w, load_3(values, y + 3 * (b - first)))
        else:
            for b in range(first, end):
                at = y + dim * (b - first)
                for k in range(dim):
                    A[a, b] += scaled[x + k] * values[at + k]
        x += dim


@kernel
def auxiliary_rhs(
    # model
    system,
    # in
    J, responses, r, a,
    # out
    b,
):  # fmt: skip
    """Fill b with J_aux a + r_aux, by the rows of the responses: what is left of them without their own forces."""
    for i in range(responses.count[0]):
        c, to = responses.constraint[i], responses.row_start[i]
        v = system.row_start[c]
        for k in range(system.row_start[c + 1] - v):
            s = r[v + k]
            for t in range(system.touch_start[c], system.touch_start[c + 1]):
                body = system.touch_body[t]
                begin = system.body_start[body]
                dim = system.body_start[body + 1] - begin
                for j in range(dim):
                    s += J[system.block_start[t] + k * dim + j] * a[begin + j]
            b[to + k] = s
    return 0


@kernel
def auxiliary_forces(
    # model
    system,
    # in
    J, responses, mu,
    # out
    F, lam,
):  # fmt: skip
    """Add J_aux^T mu to F, and set the auxiliary rows of lam to mu (by the rows of the responses)."""
    for i in range(responses.count[0]):
        c, to = responses.constraint[i], responses.row_start[i]
        v = system.row_start[c]
        for k in range(system.row_start[c + 1] - v):
            lam[v + k] = mu[to + k]
            for t in range(system.touch_start[c], system.touch_start[c + 1]):
                body = system.touch_body[t]
                begin = system.body_start[body]
                dim = system.body_start[body + 1] - begin
                for j in range(dim):
                    F[begin + j] += J[system.block_start[t] + k * dim + j] * mu[to + k]
    return 0
