"""Products with S, the matrix of loops over a factored tree (`over_tree`)."""

from __future__ import annotations

from limberjack._jit import outlined
from limberjack.solvers.tree import solve
from limberjack.solvers.waves import STAY, pull, push, turn

__all__ = ["multiply_by"]


@outlined
def multiply_by(
    # model
    system,
    # in
    over, C, what, alpha, beta, last_alpha, last_beta,
    # out
    packed, y, r, w, p, q,
):  # fmt: skip
    """Turn the vectors as told, set w to K S K^T r, and return r . w, r . r, w . w, w . q and q . q.

    S = J N J^T + C, N being how solids move that the constraints of a factored tree hold together.
    """
    f, count, force, moved = packed.f, packed.count[0], over.force, over.moved
    rows = packed.first[count]
    for k in range(len(f)):
        f[k] = 0.0
    bend = 0.0
    if what != STAY:
        bend = turn(what, alpha, beta, last_alpha, last_beta, 0, rows, y, r, w, p, q)
    push(system, packed, 0, count, r)
    for b in range(len(f) >> 3):
        for i in range(3):
            force[6 * b + i] = over.free[b] * f[8 * b + i]
            force[6 * b + 3 + i] = over.free[b] * f[8 * b + 4 + i]
    solve(over.bare, over.tree, over.factor, force, over.still, moved, over.held)
    for b in range(len(f) >> 3):
        for i in range(3):
            f[8 * b + i], f[8 * b + 4 + i] = moved[6 * b + i], moved[6 * b + 3 + i]
    pull(system, packed, C, 0, count, r, w)
    rho = square = size = along = 0.0
    for k in range(rows):
        rho, square, size = rho + r[k] * w[k], square + r[k] * r[k], size + w[k] * w[k]
        along += w[k] * q[k]
    for k in range(rows, rows + 4):
        r[k] = w[k] = q[k] = 0.0
    return rho, square, size, along, bend
