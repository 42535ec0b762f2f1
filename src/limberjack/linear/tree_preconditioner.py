"""The tree solver as exact preconditioner: conjugate residuals on the loops that a spanning forest leaves.

With T the constraints of a spanning forest and L the rest, A lam = b is solved by

    S lam_L = b_L - J_L N_T b_T,  S = J_L N J_L^T + C_L

where N is the response of the solids to forces with T in place (`tree.py`, factored once), and N_T that to the right
sides of T. A product with S costs one solve of the tree. Without loops the solve is direct, however long the chain,
where preconditioning joint by joint takes as many iterations as a chain has links.

Where loops contradict each other, the residual of the loops is least; joints of the tree are satisfied exactly.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from limberjack._jit import inner, kernel, outlined
from limberjack.constraints.system import System
from limberjack.linear.elimination import Tree, new_work, order_of, split
from limberjack.linear.krylov import FAILED, Krylov, iterate, new_krylov, start_solve
from limberjack.linear.packed_rows import pack_rhs, pack_rows, unpack
from limberjack.linear.tree import factor, solve

__all__ = ["TreePreconditioner", "new_tree_preconditioner", "solve_tree_preconditioned"]


class TreePreconditioner(NamedTuple):
    """A factored forest and the vectors of solves with it; never shared between threads."""

    bare: System  # without the incidences of fixed solids
    tree: Tree
    factor: np.ndarray
    mass: np.ndarray  # (36 nb,) blocks of M, 1 for fixed solids
    free: np.ndarray  # (nb,) 0 for fixed solids, else 1
    force: np.ndarray  # (6 nb,)
    displacement: np.ndarray  # (6 nb,)
    zero_rhs: np.ndarray  # (nr,) 0
    tree_lam: np.ndarray  # (nr,) multipliers of T in products
    rhs: np.ndarray  # (nr,) right sides
    krylov: Krylov  # of L


def new_tree_preconditioner(
    system: System, free: np.ndarray, allowed: np.ndarray, pairs: np.ndarray
) -> TreePreconditioner:
    """Return the arrays for a system.

    Args:
        system: constraints on solids of six displacements.
        free: (nb,) bool, which solids are not fixed.
        allowed: (nc,) bool, which constraints may be part of the forest: those that are always active.
        pairs: see `new_krylov`.
    """
    owner = np.repeat(np.arange(len(system.row_start) - 1), np.diff(system.incidence_start))
    on = free[system.incidence_body]
    starts = np.concatenate([[0], np.cumsum(np.bincount(owner[on], minlength=len(system.row_start) - 1))])
    bare = system._replace(
        incidence_start=starts.astype(np.int64), incidence_body=system.incidence_body[on].copy(),
        block_start=np.append(system.block_start[:-1][on], system.block_start[-1]),
    )  # fmt: skip
    parts = split(bare, allowed)
    tree = order_of(bare, parts)
    krylov = new_krylov(system, 0, pairs)
    remaining = ~parts.primary[krylov.packed.order]
    krylov = krylov._replace(packed=krylov.packed._replace(order=krylov.packed.order[remaining].copy()))
    krylov.packed.count[1] = 0  # the tree solves for all solids at once
    nu, nr = 6 * len(free), int(system.row_start[-1])
    return TreePreconditioner(
        bare, tree, new_work(tree), np.zeros(6 * nu), free.astype(float), np.zeros(nu), np.zeros(nu), np.zeros(nr),
        np.zeros(nr), np.zeros(nr), krylov,
    )  # fmt: skip


@outlined
def _set_masses(Minv, mass):
    """Fill the blocks of M from inverse masses; 1 where they are null."""
    for b in range(len(Minv)):
        o, m = 36 * b, Minv
        for k in range(36):
            mass[o + k] = 1.0 if k % 7 == 0 else 0.0
        if m[b, 6] == 0.0:
            continue
        xx, yy, zz, xy, xz, yz = m[b, 0], m[b, 1], m[b, 2], m[b, 3], m[b, 4], m[b, 5]
        a, b0, c0 = yy * zz - yz * yz, xz * yz - xy * zz, xy * yz - xz * yy
        f = 1.0 / (xx * a + xy * b0 + xz * c0)
        mass[o], mass[o + 7], mass[o + 14] = f * a, f * (xx * zz - xz * xz), f * (xx * yy - xy * xy)
        mass[o + 1], mass[o + 2], mass[o + 8] = f * b0, f * c0, f * (xy * xz - xx * yz)
        mass[o + 6], mass[o + 12], mass[o + 13] = mass[o + 1], mass[o + 2], mass[o + 8]
        for k in range(21, 36, 7):
            mass[o + k] = 1.0 / m[b, 6]


@inner
def _set_forces(system, packed, J, lam, free, force):
    """Fill the forces of the listed constraints."""
    for k in range(len(force)):
        force[k] = 0.0
    for i in range(packed.count[0]):
        c = packed.listed[i]
        for t in range(system.incidence_start[c], system.incidence_start[c + 1]):
            b, k = system.incidence_body[t], system.block_start[t]
            for r in range(system.row_start[c], system.row_start[c + 1]):
                for j in range(6):
                    force[6 * b + j] += free[b] * J[k + j] * lam[r]
                k += 6


@inner
def _subtract_rates(system, packed, J, displacement, rhs):
    """Subtract J times the displacements from the right sides of the listed constraints."""
    for i in range(packed.count[0]):
        c = packed.listed[i]
        for t in range(system.incidence_start[c], system.incidence_start[c + 1]):
            o, k = 6 * system.incidence_body[t], system.block_start[t]
            for r in range(system.row_start[c], system.row_start[c + 1]):
                for j in range(6):
                    rhs[r] -= J[k + j] * displacement[o + j]
                k += 6


@kernel
def solve_tree_preconditioned(
    # model
    system,
    # in
    Minv, J, C, b, center, cap, tolerance,
    # out
    preconditioner, lam, report,
):  # fmt: skip
    """Fill lam with a solution of A lam = b; where loops contradict each other, a least-squares solution for them.

    Args:
        system: incidences of constraints and solids.
        Minv: (nb, 7) see `solve_krylov`; 0 for the solids that `preconditioner` has as fixed.
        J: flat rows; those of the forest are all active.
        C: (nr,) compliance.
        b: (nr,) right-hand side.
        center: (nb, 3 or more) com of the solids.
        cap: maximum of iterations.
        tolerance: weighted residual of the loops relative to its start at which iterations end.
        preconditioner: of this system.
        lam: (nr,) multipliers.
        report: (3,) see `solve_krylov`, for the loops.

    Returns:
        As `solve_krylov`; FAILED too where rows of the forest depend on each other.
    """
    work, nr = preconditioner.krylov, len(lam)
    packed, force, displacement, rhs = (
        work.packed,
        preconditioner.force,
        preconditioner.displacement,
        preconditioner.rhs,
    )
    for r in range(nr):
        lam[r], rhs[r] = 0.0, -b[r]
    for k in range(len(force)):
        force[k] = 0.0
    report[0], report[1], report[2] = 0.0, np.inf, np.inf
    _set_masses(Minv, preconditioner.mass)
    if factor(preconditioner.bare, preconditioner.tree, preconditioner.mass, J, C, preconditioner.factor) != 0:
        return FAILED
    if pack_rows(system, Minv, J, C, center, work.weight, packed) != 0:
        return FAILED
    solve(
        preconditioner.bare,
        preconditioner.tree,
        preconditioner.factor,
        force,
        rhs,
        displacement,
        preconditioner.tree_lam,
    )
    for r in range(nr):
        rhs[r] = b[r]
    _subtract_rates(system, packed, J, displacement, rhs)
    rows = start_solve(work)
    pack_rhs(system, packed, rhs, work.r)
    status, count, square, rhs_square = iterate(system, C, tolerance, cap, preconditioner, work, rows)
    if status == FAILED or not np.isfinite(square):
        return FAILED
    unpack(system, packed, work.y, lam)
    _set_forces(system, packed, J, lam, preconditioner.free, force)
    for r in range(nr):
        rhs[r] = -b[r]
    solve(preconditioner.bare, preconditioner.tree, preconditioner.factor, force, rhs, displacement, lam)
    report[0], report[1] = count, np.sqrt(square)
    report[2] = np.sqrt(square / rhs_square) if rhs_square > 0.0 else 0.0
    return status
