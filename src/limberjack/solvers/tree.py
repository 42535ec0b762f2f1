"""Baraff's block-sparse factorisation of the saddle system of a forest of constraints, and solves with it.

    [ M  -J^T ] [ a   ]   [ F ]
    [-J  -C   ] [ lam ] = [ r ]        J over the primary constraints

Nodes are bodies and constraints in the order of `elimination.Tree`, B is the block of J between a node and its parent:

| symbol | meaning |
|---|---|
| D | pivot of a node: M or C, plus what its children add; of a constraint it is the pivot of the paper, negated |
| U d U^T | its factor: U unit lower, d diagonal |
| W | U^-1 B, with B turned so that the node's own index stands first |
| G | d^-1 W |
| y | forward-eliminated right side of a node |

    D_parent += G^T W                                    (both signs of the paper's H cancel)
    forward     y = U^-1 x;  x_parent += G^T y of a body,  -= G^T y of a constraint
    backward    a = U^-T (d^-1 y + G lam_parent);  lam = -U^-T (d^-1 y + G a_parent)

L = D^-1 H of the paper is U^-T G: half a triangular solve less per node, and D positive definite at every node. D of a
body is the articulated-body inertia of what hangs below it, about its own reference point.

Baraff 1996, section 7 and appendix A.
"""

from __future__ import annotations

import numpy as np

from limberjack._jit import kernel
from limberjack.solvers.elimination import (
    BODY,
    BODY_3,
    BODY_6,
    CONSTRAINT_3,
    CONSTRAINT_6,
    DIM,
    FORM,
    PLACE,
    Tree,
)
from limberjack.solvers.node_factors import (
    factor_body,
    factor_body_3,
    factor_body_6,
    factor_rows,
    push,
    push_3,
    push_6,
)
from limberjack.solvers.node_solves import (
    backward_body,
    backward_body_3,
    backward_body_6,
    backward_rows,
    backward_rows_3,
    backward_rows_6,
    forward_body,
    forward_body_3,
    forward_body_6,
    forward_rows,
    forward_rows_3,
    forward_rows_6,
)

__all__ = ["factor", "pivot", "refine", "residual", "solve"]


@kernel
def factor(
    # model
    system, tree,
    # in
    M, J, C,
    # out
    work,
):  # fmt: skip
    """Factor the saddle system into `work`; return 0, or 1 + the node whose pivot is not positive definite.

    A body fails when its block of M does, a constraint when its rows depend on each other.

    Args:
        system: the layout.
        tree: its `order_of`.
        M: flat blocks of the bodies; the lower halves are read.
        J: flat blocks of all constraints.
        C: (nr,) compliance of the rows, not negative.
        work: of `new_work(tree)`.
    """
    table = tree.table
    for n in range(len(table)):
        form = table[n, FORM]
        if form == BODY_6:
            fine = factor_body_6(table, n, M, J, work)
        elif form == BODY_3:
            fine = factor_body_3(table, n, M, J, work)
        elif form == BODY:
            fine = factor_body(table, n, M, J, work)
        else:
            fine = factor_rows(table, n, C, work)
            if form == CONSTRAINT_6:
                push_6(table, n, J, work)
            elif form == CONSTRAINT_3:
                push_3(table, n, J, work)
            else:
                push(table, n, J, work)
        if not fine:
            return 1 + n
    return 0


@kernel
def solve(
    # model
    system, tree,
    # in
    work, F, r,
    # out
    a, lam,
):  # fmt: skip
    """Fill a (nu,) and the primary rows of lam (nr,) from a factor; other rows of lam stay as they are.

    Args:
        system: the layout.
        tree: its `order_of`.
        work: as `factor` left it.
        F: (nu,) right side of the bodies; may be `a` itself.
        r: (nr,) right side of the constraints; may be `lam` itself.
    """
    table = tree.table
    for n in range(len(table)):
        form = table[n, FORM]
        if form == BODY_6:
            forward_body_6(table, n, work, F, r, a, lam)
        elif form == BODY_3:
            forward_body_3(table, n, work, F, r, a, lam)
        elif form == BODY:
            forward_body(table, n, work, F, r, a, lam)
        elif form == CONSTRAINT_6:
            forward_rows_6(table, n, work, F, a, lam)
        elif form == CONSTRAINT_3:
            forward_rows_3(table, n, work, F, a, lam)
        else:
            forward_rows(table, n, work, F, a, lam)
    for n in range(len(table) - 1, -1, -1):
        form = table[n, FORM]
        if form == BODY_6:
            backward_body_6(table, n, work, a, lam)
        elif form == BODY_3:
            backward_body_3(table, n, work, a, lam)
        elif form == BODY:
            backward_body(table, n, work, a, lam)
        elif form == CONSTRAINT_6:
            backward_rows_6(table, n, work, a, lam)
        elif form == CONSTRAINT_3:
            backward_rows_3(table, n, work, a, lam)
        else:
            backward_rows(table, n, work, a, lam)
    return 0


@kernel
def residual(
    # model
    system,
    # in
    M, J, C, F, r, a, lam,
    # out
    body_error, row_error,
):  # fmt: skip
    """Fill (F + J^T lam - M a, r + J a + C lam) over all constraints: what a and lam leave of the right side."""
    for b in range(len(system.body_start) - 1):
        v, m = system.body_start[b], system.mass_start[b]
        dim = system.body_start[b + 1] - v
        for i in range(dim):
            x = F[v + i]
            for j in range(dim):
                x -= M[m + i * dim + j] * a[v + j]
            body_error[v + i] = x
    for c in range(len(system.row_start) - 1):
        v = system.row_start[c]
        rows = system.row_start[c + 1] - v
        for k in range(rows):
            row_error[v + k] = r[v + k] + C[v + k] * lam[v + k]
        for t in range(system.touch_start[c], system.touch_start[c + 1]):
            at, body = system.block_start[t], system.touch_body[t]
            begin = system.body_start[body]
            for k in range(rows):
                x = row_error[v + k]
                for i in range(system.body_start[body + 1] - begin):
                    x += J[at] * a[begin + i]
                    body_error[begin + i] += J[at] * lam[v + k]
                    at += 1
                row_error[v + k] = x
    return 0


@kernel
def refine(
    # model
    system, tree,
    # in
    M, J, C, work, F, r,
    # work
    body_error, row_error,
    # out
    a, lam,
):  # fmt: skip
    """Improve a and the primary rows of lam by one step of iterative refinement; forces of other rows stay."""
    residual(system, M, J, C, F, r, a, lam, body_error, row_error)
    solve(system, tree, work, body_error, row_error, body_error, row_error)
    for i in range(len(a)):
        a[i] += body_error[i]
    for c in range(len(tree.constraint_node)):
        if tree.constraint_node[c] >= 0:
            for k in range(system.row_start[c], system.row_start[c + 1]):
                lam[k] += row_error[k]
    return 0


def pivot(tree: Tree, work: np.ndarray, node: int) -> np.ndarray:
    """Return D (dim, dim) of a node as it stood when `factor` eliminated it; of a body, its articulated inertia."""
    p, dim = int(tree.table[node, PLACE]), int(tree.table[node, DIM])
    lower = np.zeros((dim, dim))
    lower[np.tril_indices(dim)] = work[p : p + dim * (dim + 1) // 2]
    inverse = lower.diagonal().copy()
    np.fill_diagonal(lower, 1.0)
    return lower @ np.diag(1.0 / inverse) @ lower.T
