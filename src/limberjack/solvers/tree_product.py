"""Products with S, the matrix of loops over a factored tree (`over_tree`)."""

from __future__ import annotations

from limberjack._jit import outlined
from limberjack.solvers.packed_rows import pull, push
from limberjack.solvers.tree import solve

__all__ = ["multiply_by"]


@outlined
def multiply_by(
    # model
    system,
    # in
    over, C, alpha, q,
    # out
    packed, y, w,
):  # fmt: skip
    """Take y down by alpha q, set w to K S K^T y, and return y . w, y . y and w . w.

    S = J N J^T + C, N being how solids move that the constraints of a factored tree hold together.
    """
    f, count, force, moved = packed.f, packed.count[0], over.force, over.moved
    rows = packed.first[count]
    for k in range(len(f)):
        f[k] = 0.0
    for k in range(rows):
        y[k] -= alpha * q[k]
    push(system, packed, 0, count, y)
    for b in range(len(f) >> 3):
        for i in range(3):
            force[6 * b + i] = over.free[b] * f[8 * b + i]
            force[6 * b + 3 + i] = over.free[b] * f[8 * b + 4 + i]
    solve(over.bare, over.tree, over.factor, force, over.still, moved, over.held)
    for b in range(len(f) >> 3):
        for i in range(3):
            f[8 * b + i], f[8 * b + 4 + i] = moved[6 * b + i], moved[6 * b + 3 + i]
    pull(system, packed, C, 0, count, y, w)
    rho = square = size = 0.0
    for k in range(rows):
        rho, square, size = rho + y[k] * w[k], square + y[k] * y[k], size + w[k] * w[k]
    for k in range(rows, rows + 4):
        y[k] = w[k] = 0.0
    return rho, square, size
