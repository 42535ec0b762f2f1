"""Coefficient matrix of auxiliary constraints over a forest, from responses that are nonzero on paths to the root only.

A force on one body changes the forward elimination on the path from that body to its root and nowhere else, and two
forces couple only above the lowest common node of their paths. With H the saddle matrix, x_i the forward elimination
of row i of the auxiliary J at a node, and K_n = (H^-1)_nn,

    A_ij = J_i Mhat^-1 J_j^T = sum over the incidences of i and of j of x_i . K_n x_j,    n their lowest common node
    K_n = D_n^-1 + D_n^-1 B K_parent B^T D_n^-1 = U^-T (d^-1 + G K_parent G^T) U^-1    (d^-1 negated for constraints)

where Mhat^-1 is the response of the bodies to forces, with the primary constraints in place; other symbols as in
`tree.py`. The x of k rows cost O(k depth), the K of the nodes on their paths are shared by all, and the products are
O(k^2). The paper solves over all bodies for each row, O(k n).

The rows may belong to the system of the tree or to another one over the same bodies (contacts found at a step).

Reference: Baraff 1996, section 8.1, equations (10) and (12), and section 8.2, step 3, for workless auxiliary
constraints (K^T = J^a); `unsymmetric.py` has the others.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from limberjack._jit import inner, kernel
from limberjack.constraints.system import System
from limberjack.errors import StateError
from limberjack.linear.blocks import (
    backward,
    backward_6,
    dot_6,
    forward,
    forward_3,
    forward_6,
    load_3,
    load_6,
    lower_3,
    lower_6,
    minus_6,
    rank_one_6,
    scaled_6,
    store_6,
)
from limberjack.linear.elimination import BODY, BODY_6, CONSTRAINT_6, DIM, FACTOR, FORM, UP_DIM, Tree

__all__ = [
    "Responses",
    "auxiliary_forces",
    "auxiliary_matrix",
    "auxiliary_rhs",
    "empty_responses",
    "invert_body_6",
    "invert_rows_6",
    "new_responses",
    "respond",
    "trace",
]

_LARGEST = 12  # rows of a constraint and dimension of a body


class Responses(NamedTuple):
    """Auxiliary constraints and their forward elimination; k constraints with t incidences, n nodes."""

    count: np.ndarray  # (2,) int64 k, and the number of nodes on the paths
    constraint: np.ndarray  # (k,) int64 constraints of the system that holds the rows
    row_start: np.ndarray  # (k + 1,) int64 the rows of each one in the auxiliary matrix
    incidence_start: np.ndarray  # (k + 1,) int64 the incidences of each one below
    begin: np.ndarray  # (t + 1,) int64 index of x of an incidence in `values`: rows x dim for each node on its path
    last_common: np.ndarray  # (t,) int64 the last node of the path that is on any other path
    common_node: np.ndarray  # (t, t) int64 the lowest common node of two paths, -1 for none
    reach: np.ndarray  # (n,) int64 sum of the dimensions from a node to its root
    node: np.ndarray  # int64 the nodes on all paths, parents first
    inverse_start: np.ndarray  # (n,) int64 index of K of a node in `inverse`, -1 where it is on no path
    values: np.ndarray  # flat x
    inverse: np.ndarray  # flat K, dim x dim
    scratch: np.ndarray  # a block


def new_responses(system: System, tree: Tree, constraints: np.ndarray) -> Responses:
    """Return responses traced for these constraints, with arrays of the size they need."""
    constraints = np.ascontiguousarray(constraints, dtype=np.int64)
    rows, counts = np.diff(system.row_start)[constraints], np.diff(system.incidence_start)[constraints]
    bodies_of = [system.incidence_body[system.incidence_start[c] : system.incidence_start[c + 1]] for c in constraints]
    bodies = np.concatenate(bodies_of) if bodies_of else np.zeros(0, dtype=np.int64)
    depth, reach, squares = _path_sums(tree)
    at = tree.body_node[bodies]
    values = int((np.repeat(rows, counts) * reach[at]).sum())
    responses = _allocate(
        tree, reach, len(constraints), len(bodies), int(depth[at].sum()), values, int(squares[at].sum())
    )
    responses.constraint[:] = constraints
    responses.count[0] = len(constraints)
    if trace(system, tree, responses):
        raise StateError("the constraints do not fit the tree")
    return responses


def empty_responses(tree: Tree, constraints: int, rows: int, incidences: int) -> Responses:
    """Return responses for up to `constraints` of at most so many rows and incidences each, none traced yet.

    Args:
        tree: of the primary system.
        constraints: how many can be listed.
        rows: of each at most.
        incidences: of each at most.
    """
    depth, reach, squares = _path_sums(tree)
    paths = constraints * incidences
    deepest, farthest, largest = (int(x.max(initial=0)) for x in (depth, reach, squares))
    return _allocate(tree, reach, constraints, paths, paths * deepest, paths * rows * farthest, paths * largest)


def _path_sums(tree: Tree) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return, per node, the number of nodes on its path to the root and the sums of their dimensions and squares."""
    n = len(tree.parent)
    sums = np.zeros((3, n), dtype=np.int64)
    _sum_paths(tree, *sums)
    return sums[0], sums[1], sums[2]


@kernel
def _sum_paths(
    # model
    tree,
    # out
    depth, reach, squares,
):  # fmt: skip
    """Fill the three sums of `_path_sums`, roots first."""
    for n in range(len(depth) - 1, -1, -1):
        up, dim = tree.parent[n], tree.table[n, DIM]
        depth[n], reach[n], squares[n] = 1, dim, dim * dim
        if up >= 0:
            depth[n] += depth[up]
            reach[n] += reach[up]
            squares[n] += squares[up]
    return 0


def _allocate(
    tree: Tree, reach: np.ndarray, constraints: int, incidences: int, nodes: int, values: int, squares: int
) -> Responses:
    def integers(*shape: int) -> np.ndarray:
        return np.zeros(shape, dtype=np.int64)

    n = len(tree.parent)
    squares = min(squares, int((tree.table[:, DIM] ** 2).sum()))
    return Responses(
        integers(2), integers(constraints), integers(constraints + 1), integers(constraints + 1),
        integers(incidences + 1), integers(incidences), integers(incidences, incidences), reach,
        integers(min(n, nodes)), np.full(n, -1), np.zeros(values), np.zeros(squares), np.zeros(_LARGEST * _LARGEST),
    )  # fmt: skip


@kernel
def trace(
    # model
    system, tree,
    # in and out
    responses,
):  # fmt: skip
    """Find the paths of the constraints that `responses` lists and their common nodes; return 0, or 1 without room.

    Depends on the connectivity, not on positions.
    """
    count, begin, inverse_start = responses.count, responses.begin, responses.inverse_start
    for k in range(count[1]):
        inverse_start[responses.node[k]] = -1
    count[1] = 0
    responses.row_start[0], responses.incidence_start[0], begin[0] = 0, 0, 0
    if count[0] > len(responses.constraint):
        return 1
    at, squares = 0, 0
    for i in range(count[0]):
        c = responses.constraint[i]
        rows = system.row_start[c + 1] - system.row_start[c]
        for t in range(system.incidence_start[c], system.incidence_start[c + 1]):
            if at >= len(responses.last_common):
                return 1
            n = tree.body_node[system.incidence_body[t]]
            begin[at + 1] = begin[at] + rows * responses.reach[n]
            responses.last_common[at], responses.common_node[at, at] = n, n
            at += 1
            squares = _add_path(tree, n, squares, responses)
            if squares < 0 or begin[at] > len(responses.values):
                return 1
        responses.row_start[i + 1] = responses.row_start[i] + rows
        responses.incidence_start[i + 1] = at
    for a in range(at):
        for b in range(a):
            n, m = responses.common_node[a, a], responses.common_node[b, b]
            # Parents have greater numbers: the lower of two nodes is never an ancestor of the other.
            while n != m and n >= 0 and m >= 0:
                if n < m:
                    n = tree.parent[n]
                else:
                    m = tree.parent[m]
            n = n if n == m else -1
            responses.common_node[a, b], responses.common_node[b, a] = n, n
            responses.last_common[a], responses.last_common[b] = (
                max(responses.last_common[a], n),
                max(responses.last_common[b], n),
            )
    return 0


@inner
def _add_path(tree, n, squares, responses):
    """Allocate K for the nodes from n up that have none, parents first; return the end, -1 without room."""
    first, end = responses.count[1], responses.count[1]
    while n >= 0 and responses.inverse_start[n] < 0:
        if end >= len(responses.node):
            return -1
        dim = tree.table[n, DIM]
        responses.node[end], responses.inverse_start[n] = n, squares
        end += 1
        responses.count[1] = end
        squares += dim * dim
        n = tree.parent[n]
    for k in range((end - first) // 2):
        a, b = responses.node[first + k], responses.node[end - 1 - k]
        responses.node[first + k], responses.node[end - 1 - k] = b, a
    return squares if squares <= len(responses.inverse) else -1


@kernel
def respond(
    # model
    system, tree,
    # in
    J, work,
    # in and out
    responses,
):  # fmt: skip
    """Fill x and K of traced responses from a factor.

    Args:
        system: layout of the rows.
        tree: `order_of` the primary system.
        J: flat blocks of the rows.
        work: filled by `tree.factor`.
        responses: filled by `trace`.
    """
    for k in range(responses.count[1]):
        _invert_node(tree, responses.node[k], work, responses)
    values = responses.values
    for i in range(responses.count[0]):
        rows = responses.row_start[i + 1] - responses.row_start[i]
        own = system.incidence_start[responses.constraint[i]] - responses.incidence_start[i]
        for t in range(responses.incidence_start[i], responses.incidence_start[i + 1]):
            n, x, block = responses.common_node[t, t], responses.begin[t], system.block_start[own + t]
            for k in range(rows * tree.table[n, DIM]):
                values[x + k] = J[block + k]
            while n < responses.last_common[t]:
                _eliminate_up(tree.table, n, rows, x, work, responses.scratch, values)
                x += rows * tree.table[n, DIM]
                n = tree.parent[n]
    return 0


@inner
def _eliminate_up(table, n, rows, x, work, scratch, values):
    """Set x of the parent, stored after that of node n, to +-G^T U^-1 x."""
    form, dim, up_dim, p = table[n, FORM], table[n, DIM], table[n, UP_DIM], table[n, FACTOR]
    g, to = p + dim * (dim + 1) // 2, x + rows * dim
    if form == BODY_6:
        f = lower_6(work, p)
        for r in range(rows):
            y = forward_6(f, load_6(values, x + 6 * r))
            for k in range(up_dim):
                values[to + r * up_dim + k] = dot_6(y, load_6(work, g + 6 * k))
        return
    if form == CONSTRAINT_6 and dim == 3:
        h, g0, g1, g2 = lower_3(work, p), load_6(work, g), load_6(work, g + 6), load_6(work, g + 12)
        for r in range(rows):
            v = forward_3(h, load_3(values, x + 3 * r))
            store_6(values, to + 6 * r, minus_6(minus_6(scaled_6(g0, -v[0]), v[1], g1), v[2], g2))
        return
    for r in range(rows):
        for i in range(dim):
            scratch[i] = values[x + r * dim + i]
        forward(dim, work, p, scratch, 0)
        for k in range(up_dim):
            s = 0.0
            for i in range(dim):
                s += work[g + k * dim + i] * scratch[i] if form <= BODY else -work[g + i * up_dim + k] * scratch[i]
            values[to + r * up_dim + k] = s


@inner
def _invert_node(tree, n, work, responses):
    """Fill K of a node from that of its parent."""
    table, K = tree.table, responses.inverse
    form, dim, up_dim, p, at = (
        table[n, FORM],
        table[n, DIM],
        table[n, UP_DIM],
        table[n, FACTOR],
        responses.inverse_start[n],
    )
    g = p + dim * (dim + 1) // 2
    up = responses.inverse_start[tree.parent[n]] if up_dim > 0 else 0
    if form == BODY_6:
        invert_body_6(p, up_dim, up, at, work, K)
        return
    if form == CONSTRAINT_6:
        _couple_6(dim, g, up, at, work, K)
    else:
        _couple(form <= BODY, dim, up_dim, g, up, at, work, responses.scratch, K)
    _finish_node(1.0 if form <= BODY else -1.0, dim, p, at, work, K)


@inner
def _finish_node(sign, dim, p, at, work, K):
    """Replace E = G K_parent G^T at `at` by U^-T (E +- d^-1) U^-1."""
    for i in range(dim):
        K[at + i * (dim + 1)] += sign * work[p + i * (i + 3) // 2]
    # U^-T E U^-1: rows by U^-T, transposed, rows by U^-T again.
    for side in range(2):
        for i in range(dim):
            backward(dim, work, p, K, at + i * dim)
        if side == 0:
            for i in range(dim):
                for j in range(i):
                    a, b = at + i * dim + j, at + j * dim + i
                    K[a], K[b] = K[b], K[a]


@inner
def invert_rows_6(dim, p, up, at, work, K):
    """Fill K of a constraint below a body of dimension 6 whose own starts at `up`, or below none where `up` is -1."""
    if up >= 0:
        _couple_6(dim, p + dim * (dim + 1) // 2, up, at, work, K)
    else:
        for i in range(dim * dim):
            K[at + i] = 0.0
    _finish_node(-1.0, dim, p, at, work, K)


@inner
def _couple(body, dim, up_dim, g, up, at, work, scratch, K):
    """Set K at `at` to G K_parent G^T; G is stored by the rows of the constraint, be it the node or its parent."""
    row, column = (1, dim) if body else (up_dim, 1)
    for i in range(dim):
        for l in range(up_dim):
            s = 0.0
            for k in range(up_dim):
                s += work[g + i * row + k * column] * K[up + k * up_dim + l]
            scratch[l] = s
        for j in range(dim):
            s = 0.0
            for l in range(up_dim):
                s += scratch[l] * work[g + j * row + l * column]
            K[at + i * dim + j] = s


@inner
def _couple_6(rows, g, up, at, work, K):
    """Set K at `at` to G K_parent G^T for a constraint below a body of dimension 6."""
    for i in range(rows):
        v = load_6(work, g + 6 * i)
        w = (
            dot_6(v, load_6(K, up)), dot_6(v, load_6(K, up + 6)), dot_6(v, load_6(K, up + 12)),
            dot_6(v, load_6(K, up + 18)), dot_6(v, load_6(K, up + 24)), dot_6(v, load_6(K, up + 30)),
        )  # fmt: skip
        for j in range(rows):
            K[at + i * rows + j] = dot_6(w, load_6(work, g + 6 * j))


@inner
def invert_body_6(p, rows, up, at, work, K):
    """Fill K of a body of dimension 6 below a constraint of so many rows, or none."""
    f, g = lower_6(work, p), p + 21
    zero = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    e = (
        f[0], 0.0, f[2], 0.0, 0.0, f[5], 0.0, 0.0, 0.0, f[9], 0.0, 0.0, 0.0, 0.0, f[14], 0.0, 0.0, 0.0, 0.0, 0.0, f[20],
    )  # fmt: skip
    for k in range(rows):
        w = zero
        for l in range(rows):
            w = minus_6(w, -K[up + k * rows + l], load_6(work, g + 6 * l))
        e = rank_one_6(e, load_6(work, g + 6 * k), w)
    k0 = backward_6(f, (e[0], e[1], e[3], e[6], e[10], e[15]))
    k1 = backward_6(f, (e[1], e[2], e[4], e[7], e[11], e[16]))
    k2 = backward_6(f, (e[3], e[4], e[5], e[8], e[12], e[17]))
    k3 = backward_6(f, (e[6], e[7], e[8], e[9], e[13], e[18]))
    k4 = backward_6(f, (e[10], e[11], e[12], e[13], e[14], e[19]))
    k5 = backward_6(f, (e[15], e[16], e[17], e[18], e[19], e[20]))
    k4 = minus_6(k4, f[19], k5)
    k3 = minus_6(minus_6(k3, f[18], k5), f[13], k4)
    k2 = minus_6(minus_6(minus_6(k2, f[17], k5), f[12], k4), f[8], k3)
    k1 = minus_6(minus_6(minus_6(minus_6(k1, f[16], k5), f[11], k4), f[7], k3), f[4], k2)
    k0 = minus_6(minus_6(minus_6(minus_6(minus_6(k0, f[15], k5), f[10], k4), f[6], k3), f[3], k2), f[1], k1)
    store_6(K, at, k0)
    store_6(K, at + 6, k1)
    store_6(K, at + 12, k2)
    store_6(K, at + 18, k3)
    store_6(K, at + 24, k4)
    store_6(K, at + 30, k5)


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
        system: layout of the rows.
        tree: `order_of` the primary system.
        J: flat blocks of the rows.
        work: filled by `tree.factor`.
        responses: filled by `trace`; x and K are overwritten.
    """
    respond(system, tree, J, work, responses)
    row_start, incidence_start = responses.row_start, responses.incidence_start
    # Section 8.2, step 3: J^a Mhat^-1 K of equation (12), with K = J^aT
    for i in range(responses.count[0]):
        for j in range(i + 1):
            for a in range(row_start[i], row_start[i + 1]):
                for b in range(row_start[j], row_start[j + 1]):
                    A[a, b] = 0.0
        for s in range(incidence_start[i], incidence_start[i + 1]):
            for j in range(i + 1):
                for t in range(incidence_start[j], incidence_start[j + 1]):
                    if responses.common_node[s, t] >= 0:
                        _add_products(tree.table, i, j, s, t, responses, A)
        # Sums of (s, t) and (t, s) round differently: one half of the diagonal block counts.
        for j in range(i + 1):
            for a in range(row_start[i], row_start[i + 1]):
                for b in range(row_start[j], min(a + 1, row_start[j + 1])):
                    A[b, a] = A[a, b]
    return 0


@inner
def _add_products(table, i, j, s, t, responses, A):
    """Add x_s . K x_t to block (i, j) of A, for incidence s of constraint i and incidence t of constraint j."""
    row_start, values, K, z = responses.row_start, responses.values, responses.inverse, responses.scratch
    n = responses.common_node[s, t]
    dim, at, remaining = table[n, DIM], responses.inverse_start[n], responses.reach[n]
    rows, first, end = row_start[i + 1] - row_start[i], row_start[j], row_start[j + 1]
    x = responses.begin[s] + rows * (responses.reach[responses.common_node[s, s]] - remaining)
    y = responses.begin[t] + (end - first) * (responses.reach[responses.common_node[t, t]] - remaining)
    for a in range(row_start[i], row_start[i + 1]):
        if dim == 6:
            v = load_6(values, x)
            w = (
                dot_6(v, load_6(K, at)), dot_6(v, load_6(K, at + 6)), dot_6(v, load_6(K, at + 12)),
                dot_6(v, load_6(K, at + 18)), dot_6(v, load_6(K, at + 24)), dot_6(v, load_6(K, at + 30)),
            )  # fmt: skip
            for b in range(first, end):
                A[a, b] += dot_6(w, load_6(values, y + 6 * (b - first)))
        else:
            for k in range(dim):
                z[k] = 0.0
                for l in range(dim):
                    z[k] += K[at + k * dim + l] * values[x + l]
            for b in range(first, end):
                for k in range(dim):
                    A[a, b] += z[k] * values[y + dim * (b - first) + k]
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
    """Fill b with J_aux a + r_aux, by the rows of the responses: their residual without forces of their own."""
    # Equation (10), at the acceleration with the primary constraints alone: J^a v'_aux + c^a of equation (12)
    for i in range(responses.count[0]):
        c, to = responses.constraint[i], responses.row_start[i]
        v = system.row_start[c]
        for k in range(system.row_start[c + 1] - v):
            s = r[v + k]
            for t in range(system.incidence_start[c], system.incidence_start[c + 1]):
                body = system.incidence_body[t]
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
    # Section 8.2, step 5: F_ext + K mu
    for i in range(responses.count[0]):
        c, to = responses.constraint[i], responses.row_start[i]
        v = system.row_start[c]
        for k in range(system.row_start[c + 1] - v):
            lam[v + k] = mu[to + k]
            for t in range(system.incidence_start[c], system.incidence_start[c + 1]):
                body = system.incidence_body[t]
                begin = system.body_start[body]
                dim = system.body_start[body + 1] - begin
                for j in range(dim):
                    F[begin + j] += J[system.block_start[t] + k * dim + j] * mu[to + k]
    return 0
