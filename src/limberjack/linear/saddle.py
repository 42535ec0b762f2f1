"""One saddle system solved by a direct solver for the primary constraints, and auxiliary constraints on top.

Primary constraints are those that one factorisation takes: a forest (`tree.py`), or all equality constraints
(`sparse.py`). The others, loops over a forest and inequality rows, are auxiliary. Their matrix follows from responses
with the primary constraints in place (`auxiliary.py` over a forest), their forces from a linear system or a
complementarity problem, and one more solve gives the final accelerations and multipliers. Auxiliary rows of bodies that
no constraint connects do not couple: each component has its own matrix and its own forces.

Kernels take both structures, one of them None. A branch under `if x is None: pass; else:` is not compiled when x is
None; written the other way round, both branches would be.

Reference: Baraff 1996, section 8.2, steps 1 to 6.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from limberjack._jit import inner, kernel, outlined
from limberjack.constraints.system import System
from limberjack.linear import sparse
from limberjack.linear.auxiliary import (
    Responses,
    auxiliary_forces,
    auxiliary_matrix,
    auxiliary_rhs,
    empty_responses,
    trace,
)
from limberjack.linear.dense import TOLERANCE, factor_psd, solve_psd
from limberjack.linear.elimination import Tree, new_work, order_of, representative_of, split
from limberjack.linear.lcp import Workspace, new_workspace, solve_lcp
from limberjack.linear.ordering import Ordering
from limberjack.linear.sparse import assemble
from limberjack.linear.structure import Structure, Work, prepare
from limberjack.linear.structure import new_work as new_sparse_work
from limberjack.linear.tree import factor, solve

__all__ = [
    "INFINITE", "NO_ROOM", "NO_SOLUTION", "Saddle", "factor_saddle", "first_constraints", "invalidate_responses",
    "invert_masses", "list_active", "list_equalities", "new_saddle", "row_mobility", "solve_saddle",
]  # fmt: skip

INFINITE = np.inf
# Statuses beside 0 and 1 + node: no room for the active rows; no forces satisfy the inequality rows.
NO_ROOM, NO_SOLUTION = -1, -2


class Components(NamedTuple):
    """The constraints listed, by the component of the bodies they act on; k constraints and rows at most, n bodies.

    All constraints of the system connect: those that may become active, too.
    """

    body: np.ndarray  # (n,) component of each body: the first body of it
    of: np.ndarray  # (nc,) component of each constraint
    head: np.ndarray  # (n,) the first of the listed constraints of a component, -1 = none left
    following: np.ndarray  # (k,) the next one of the same component
    constraint: np.ndarray  # (k,) all that are listed
    row_start: np.ndarray  # (k + 1,)
    low: np.ndarray  # (k,) bounds of their rows
    high: np.ndarray  # (k,)
    force: np.ndarray  # (k,) forces of their rows


class Saddle(NamedTuple):
    """Scratch of the system; nu velocities, nr rows, k auxiliary rows at most at a time."""

    equality_system: System  # the equality constraints alone, for the sparse solver
    work: np.ndarray  # of the tree
    sparse: Work
    minv: np.ndarray  # (nb, 7) inverse inertia and mass of rigid bodies, or flat inverse blocks
    equality_r: np.ndarray  # their right sides
    equality_lam: np.ndarray  # their multipliers
    responses: Responses
    cached_constraints: np.ndarray  # (1 + k,) constraints of the cached matrix: how many, -1 for none, and which
    cached_matrix: np.ndarray  # (k, k) rows of the matrices of all components, with the current factor
    components: Components
    auxiliary: np.ndarray  # equality constraints that are auxiliary
    f: np.ndarray  # (nu,) right side of the bodies; changed by the solve
    r: np.ndarray  # (nr,) right side of the constraints
    c: np.ndarray  # (nr,) compliance
    a: np.ndarray  # (nu,) the solution
    response: np.ndarray  # (nu,) to one row
    lam: np.ndarray  # (nr,)
    matrix: np.ndarray  # (k, k)
    factor: np.ndarray  # (k, k)
    order: np.ndarray  # (k,)
    low: np.ndarray  # (k,)
    high: np.ndarray  # (k,)
    rhs: np.ndarray  # (k,)
    force: np.ndarray  # (k,)
    residual: np.ndarray  # (k,)
    guess: np.ndarray  # (k,) int8
    lcp: Workspace
    report: np.ndarray  # (4,) auxiliary rows, their rank, dropped primary rows, largest residual of a row


def first_constraints(system: System, count: int) -> System:
    """Return the system of the first `count` constraints."""
    incidences = int(system.incidence_start[count])
    return System(
        system.body_start, system.mass_start, system.row_start[: count + 1].copy(),
        system.incidence_start[: count + 1].copy(), system.incidence_body[:incidences].copy(),
        system.block_start[: incidences + 1].copy(),
    )  # fmt: skip


def new_saddle(
    system: System,
    equality_count: int,
    *,
    loops: bool,
    rigid: bool,
    room: int = 16,
    primary: np.ndarray | None = None,
    ordering: Ordering | None = None,
) -> tuple[Tree | None, Structure | None, Saddle]:
    """Return the structures, one of them None, and the scratch for `system`.

    Args:
        system: all constraints: `equality_count` equalities, then inequality rows and rows that constrain nothing.
        equality_count: see above.
        loops: whether the sparse solver takes all equalities; else the tree takes a forest, and the rest is auxiliary.
        rigid: whether all bodies are rigid.
        room: inequality rows that may be active at once.
        primary: (nc,) bool, which constraints may be part of the forest; all if None.
        ordering: of the sparse solver, if known.
    """
    nc = len(system.row_start) - 1
    nu, nr = int(system.body_start[-1]), int(system.row_start[-1])
    room = min(room, nc - equality_count)
    own = first_constraints(system, equality_count)
    rows = np.diff(system.row_start)
    tree = structure = None
    auxiliary, work = np.zeros(0, np.int64), np.zeros(0)
    if loops:
        structure = prepare(own, ordering)
        factored, responses = new_sparse_work(own, structure), _no_responses(room)
    else:
        allowed = np.arange(nc) < equality_count
        parts = split(system, allowed if primary is None else allowed & primary)
        tree = order_of(system, parts)
        auxiliary, work = parts.auxiliary[parts.auxiliary < equality_count], new_work(tree)
        incidences = int(np.diff(system.incidence_start).max(initial=0))
        responses = empty_responses(tree, len(auxiliary) + room, int(rows.max(initial=0)), incidences)
        factored = _no_factor()
    k = int(rows[auxiliary].sum()) + room
    # flat and unused for a tree: one type of saddle for all kinds of bodies
    minv = np.zeros((len(system.body_start) - 1, 7)) if rigid and loops else np.zeros(int(system.mass_start[-1]))
    equality_rows = int(own.row_start[-1]) if loops else 0
    saddle = Saddle(
        own, work, factored, minv, np.zeros(equality_rows), np.zeros(equality_rows), responses,
        np.full(1 + k, -1, np.int64), np.zeros((k, k)), _new_components(system, k), auxiliary, np.zeros(nu),
        np.zeros(nr), np.zeros(nr),
        np.zeros(nu), np.zeros(nu), np.zeros(nr), np.zeros((k, k)), np.zeros((k, k)), np.zeros(k, np.int64),
        np.zeros(k), np.zeros(k), np.zeros(k), np.zeros(k), np.zeros(k), np.zeros(k, np.int8), new_workspace(k),
        np.zeros(4),
    )  # fmt: skip
    return tree, structure, saddle


def _new_components(system: System, k: int) -> Components:
    """Return the components of a system, with room for k constraints and rows."""
    n = len(system.body_start) - 1
    above = np.arange(n)
    _connect(system, above)
    start = system.incidence_start[:-1]
    of = np.zeros(len(start), np.int64)
    acts = np.diff(system.incidence_start) > 0
    of[acts] = above[system.incidence_body[start[acts]]]
    whole = lambda size: np.zeros(size, np.int64)  # noqa: E731
    head, low, high, force = np.full(n, -1), np.zeros(k), np.zeros(k), np.zeros(k)
    return Components(above, of, head, whole(k), whole(k), whole(k + 1), low, high, force)


@kernel
def _connect(
    # model
    system,
    # out
    above,
):  # fmt: skip
    """Replace each body in `above` by the first body that the constraints connect it with."""
    for c in range(len(system.row_start) - 1):
        for t in range(system.incidence_start[c] + 1, system.incidence_start[c + 1]):
            a = representative_of(above, system.incidence_body[t - 1])
            b = representative_of(above, system.incidence_body[t])
            above[max(a, b)] = min(a, b)
    for i in range(len(above)):
        above[i] = representative_of(above, i)
    return 0


def _no_factor() -> Work:
    """Return empty arrays of a sparse factor, of the types the kernels expect."""
    whole, pairs, flat = np.zeros((0, 4), np.int64), np.zeros((0, 4)), np.zeros(0)
    return Work(pairs, pairs, pairs, whole, pairs, pairs, pairs, np.zeros(0, np.int64), flat, flat, flat, flat, flat)


def _no_responses(room: int) -> Responses:
    """Return responses that only list constraints, for a solver without a tree."""
    sizes = (2, room, room + 1, room + 1, 1, 0, (0, 0), 0, 0, 0)
    return Responses(*(np.zeros(size, np.int64) for size in sizes), *(np.zeros(0) for _ in range(3)))


@inner
def list_equalities(row_start, auxiliary, constraint, low, high):
    """List the auxiliary equality constraints; return their rows."""
    rows = 0
    for i in range(len(auxiliary)):
        c = auxiliary[i]
        constraint[i] = c
        for _ in range(row_start[c + 1] - row_start[c]):
            low[rows], high[rows] = -INFINITE, INFINITE
            rows += 1
    return rows


@outlined
def list_active(
    # in
    row_start, first, last, values, tolerance, positions, auxiliary, room,
    # out
    last_force, count, constraint, low, high,
):  # fmt: skip
    """List the auxiliary equality constraints and the active inequality rows; return the rows or NO_ROOM.

    Args:
        row_start: of the system.
        first, last: the range of inequality constraints.
        values: (r, 3) value and rate of all rows.
        tolerance: a row is active when its value is at most this.
        positions: whether positions are projected.
        auxiliary: equality constraints that are auxiliary.
        room: constraints that can be listed.
        last_force: (r,) > 0 for rows with a force in the stage before: they stay active, and positions are brought back
            to them from either side; < 0 once listed for positions, so that rows do not leave and return in turn.
        count, constraint: of the responses.
        low, high: bounds of the rows.
    """
    rows, listed = list_equalities(row_start, auxiliary, constraint, low, high), len(auxiliary)
    for c in range(first, last):
        r = row_start[c]
        if values[r, 0] <= tolerance or last_force[r] > 0.0 or (positions and last_force[r] < 0.0):
            if listed == room:
                return NO_ROOM
            constraint[listed] = c
            low[rows], high[rows] = -INFINITE if positions and last_force[r] > 0.0 else 0.0, INFINITE
            if positions and last_force[r] == 0.0:
                last_force[r] = -1.0
            listed += 1
            rows += 1
    count[0] = listed
    return rows


@outlined
def invert_masses(body_start, mass_start, m, minv):
    """Fill the inverse masses from the mass blocks."""
    if minv.ndim == 2:
        for b in range(len(body_start) - 1):
            o = mass_start[b]
            xx, yy, zz, xy, xz, yz = m[o], m[o + 7], m[o + 14], m[o + 1], m[o + 2], m[o + 8]
            a, b0, c0 = yy * zz - yz * yz, xz * yz - xy * zz, xy * yz - xz * yy
            f = 1.0 / (xx * a + xy * b0 + xz * c0)
            minv[b, 0], minv[b, 1], minv[b, 2] = f * a, f * (xx * zz - xz * xz), f * (xx * yy - xy * xy)
            minv[b, 3], minv[b, 4], minv[b, 5] = f * b0, f * c0, f * (xy * xz - xx * yz)
            minv[b, 6] = 1.0 / m[o + 21]
    else:
        for b in range(len(body_start) - 1):
            _invert_block(body_start[b + 1] - body_start[b], mass_start[b], m, minv)


@inner
def _invert_block(d, o, m, out):
    """Invert one SPD block by elimination of [M | 1] column by column, in place."""
    for i in range(d * d):
        out[o + i] = m[o + i]
    for k in range(d):
        p = 1.0 / out[o + k * d + k]
        for i in range(d):
            if i != k:
                f = out[o + i * d + k] * p
                for j in range(d):
                    if j != k:
                        out[o + i * d + j] -= f * out[o + k * d + j]
                out[o + i * d + k] = -f
        for j in range(d):
            if j != k:
                out[o + k * d + j] *= p
        out[o + k * d + k] = p


@inner
def factor_saddle(
    # model
    system, tree, structure,
    # in
    m, j,
    # out
    saddle,
):  # fmt: skip
    """Factor the primary system; return 0, or 1 + the node without inertia or with dependent rows."""
    failed = 0
    invalidate_responses(saddle)
    if tree is None:
        pass
    else:
        failed = factor(system, tree, m, j, saddle.c, saddle.work)
    if structure is None:
        pass
    else:
        invert_masses(system.body_start, system.mass_start, m, saddle.minv)
        assemble(saddle.equality_system, structure, saddle.minv, j, saddle.c, saddle.sparse)
        dropped = sparse.factor(structure, saddle.sparse)
        saddle.report[2] = max(dropped, 0)
        failed = -dropped if dropped < 0 else 0
    return failed


@inner
def _solve_primary(system, tree, structure, exact, j, saddle, f, a, r, lam):
    """Solve for the primary constraints with the current factor."""
    if tree is None:
        pass
    else:
        solve(system, tree, saddle.work, f, r, a, lam)
    if structure is None:
        pass
    else:
        _copy(len(saddle.equality_r), r, saddle.equality_r)
        sparse.solve_factored(
            saddle.equality_system, structure, saddle.minv, j, saddle.c, f, saddle.equality_r,
            1 if exact and saddle.report[2] > 0.0 else 0, saddle.sparse, a, saddle.equality_lam,
        )  # fmt: skip
        _copy(len(saddle.equality_r), saddle.equality_lam, lam)


@inner
def row_mobility(system, c, k, m, j):
    """Return J M^-1 J^T of row k of constraint c, with M taken as diagonal: its mobility without other constraints."""
    out = 0.0
    for t in range(system.incidence_start[c], system.incidence_start[c + 1]):
        body = system.incidence_body[t]
        dim = system.body_start[body + 1] - system.body_start[body]
        o, d = system.block_start[t] + k * dim, system.mass_start[body]
        for i in range(dim):
            out += j[o + i] * j[o + i] / m[d + i * (dim + 1)]
    return out


@outlined
def _finish_matrix(system, constraint, count, row_start, c, m, j, rows, matrix, rhs):
    """Clear rows that the primary constraints already determine, up to rounding; add compliance."""
    for i in range(count):
        k = constraint[i]
        to = row_start[i]
        for r in range(row_start[i + 1] - to):
            if matrix[to + r, to + r] <= TOLERANCE * row_mobility(system, k, r, m, j):
                rhs[to + r] = 0.0
                for other in range(rows):
                    matrix[to + r, other] = 0.0
                    matrix[other, to + r] = 0.0
            matrix[to + r, to + r] += c[system.row_start[k] + r]


@outlined
def _solve_auxiliary(rows, matrix, rhs, low, high, lcp, guess, factored, order, force, residual, report):
    """Solve for the forces of the auxiliary rows; return 0 or NO_SOLUTION."""
    # Section 8.2, step 4
    bounded = False
    for i in range(rows):
        bounded = bounded or low[i] > -INFINITE
    if bounded:
        report[1] += rows
        for i in range(rows):
            guess[i] = 0
        return (
            NO_SOLUTION if solve_lcp(rows, TOLERANCE, matrix, rhs, low, high, lcp, guess, force, residual) != 0 else 0
        )
    for i in range(rows):
        for k in range(i + 1):
            factored[i, k] = matrix[i, k]
    rank = factor_psd(rows, TOLERANCE, factored, order, residual)
    for i in range(rows):
        residual[i] = -rhs[i]
    report[3] = max(report[3], solve_psd(rows, rank, factored, order, residual, force))
    report[1] += rank
    return 0


@outlined
def _row_force(system, c, j, f):
    """Set f to J^T of constraint c, of one row."""
    for i in range(len(f)):
        f[i] = 0.0
    for t in range(system.incidence_start[c], system.incidence_start[c + 1]):
        begin = system.body_start[system.incidence_body[t]]
        o = system.block_start[t]
        for i in range(system.block_start[t + 1] - o):
            f[begin + i] += j[o + i]


@outlined
def _row_product(system, c, j, a):
    """Return J a of constraint c, of one row."""
    out = 0.0
    for t in range(system.incidence_start[c], system.incidence_start[c + 1]):
        begin = system.body_start[system.incidence_body[t]]
        o = system.block_start[t]
        for i in range(system.block_start[t + 1] - o):
            out += j[o + i] * a[begin + i]
    return out


@outlined
def _copy(count, source, target):
    for i in range(count):
        target[i] = source[i]


@inner
def invalidate_responses(saddle):
    """Mark the cached matrix as outdated: factor or rows have changed."""
    saddle.cached_constraints[0] = -1


@outlined
def _is_cached(listed, cached_constraints):
    """Return whether the cached matrices belong to the constraints listed; make them those to be cached."""
    same = cached_constraints[0] == listed.count[0]
    for i in range(listed.count[0]):
        same = same and cached_constraints[1 + i] == listed.constraint[i]
        cached_constraints[1 + i] = listed.constraint[i]
    cached_constraints[0] = listed.count[0]
    return same


@outlined
def _copy_block(rows, source, from_row, target, to_row):
    """Copy a matrix of so many rows and columns from rows `from_row` on to rows `to_row` on."""
    for i in range(rows):
        for k in range(rows):
            target[to_row + i, k] = source[from_row + i, k]


@outlined
def _sort_by_components(system_rows, listed, low, high, parts):
    """Keep the constraints listed with their bounds, and chain those of each component."""
    parts.row_start[0] = 0
    for i in range(listed.count[0]):
        c = listed.constraint[i]
        parts.constraint[i] = c
        parts.row_start[i + 1] = parts.row_start[i] + system_rows[c + 1] - system_rows[c]
    for r in range(parts.row_start[listed.count[0]]):
        parts.low[r], parts.high[r] = low[r], high[r]
    for i in range(listed.count[0] - 1, -1, -1):
        of = parts.of[parts.constraint[i]]
        parts.following[i], parts.head[of] = parts.head[of], i


@outlined
def _list_component(i, listed, low, high, parts):
    """List the constraints chained from i on alone; return their rows."""
    count, rows = 0, 0
    listed.row_start[0] = 0
    while i >= 0:
        listed.constraint[count] = parts.constraint[i]
        for r in range(parts.row_start[i], parts.row_start[i + 1]):
            low[rows], high[rows] = parts.low[r], parts.high[r]
            rows += 1
        count += 1
        listed.row_start[count] = rows
        i = parts.following[i]
    listed.count[0] = count
    return rows


@outlined
def _keep_forces(i, force, parts):
    """Keep the forces of the component that starts with constraint i; it is done."""
    parts.head[parts.of[parts.constraint[i]]] = -1
    rows = 0
    while i >= 0:
        for r in range(parts.row_start[i], parts.row_start[i + 1]):
            parts.force[r] = force[rows]
            rows += 1
        i = parts.following[i]


@outlined
def _fill_products(system, i, constraint, j, response, matrix):
    """Fill the row and column of the matrix of listed row i from the response to it."""
    for k in range(i + 1):
        matrix[i, k] = _row_product(system, constraint[k], j, response)
        matrix[k, i] = matrix[i, k]


@inner
def _set_responses(system, tree, structure, rows, j, saddle):
    """Fill the matrix of the listed rows; return 0 or NO_ROOM."""
    s, listed = saddle, saddle.responses
    status = 0
    if tree is None:
        pass
    else:
        if trace(system, tree, listed) != 0:
            status = NO_ROOM
        else:
            auxiliary_matrix(system, tree, j, s.work, listed, s.matrix)
    if structure is None:
        pass
    else:
        # the response to each row, with the primary constraints in place; few inequality rows only
        for i in range(rows):
            _row_force(system, listed.constraint[i], j, s.response)
            for k in range(len(s.equality_r)):
                s.equality_r[k] = 0.0
            sparse.solve_factored(
                s.equality_system,
                structure,
                s.minv,
                j,
                s.c,
                s.response,
                s.equality_r,
                0,
                s.sparse,
                s.response,
                s.equality_lam,
            )
            _fill_products(system, i, listed.constraint, j, s.response, s.matrix)
    return status


@inner
def _solve_component(system, tree, structure, rows, cached, at, m, j, saddle):
    """Solve for the forces of the rows listed and add them to saddle.f; return 0, NO_ROOM or NO_SOLUTION.

    `cached`: whether rows `at` and following of the cached matrices are those of the rows listed; else they are filled.
    """
    # Section 8.2, step 3, and J^a v'_aux + c^a of equation (12)
    s, listed = saddle, saddle.responses
    if cached:
        _copy_block(rows, s.cached_matrix, at, s.matrix, 0)
    else:
        if _set_responses(system, tree, structure, rows, j, saddle) != 0:
            return NO_ROOM
        _copy_block(rows, s.matrix, 0, s.cached_matrix, at)
    if tree is None:
        for i in range(rows):
            c = listed.constraint[i]
            s.rhs[i] = _row_product(system, c, j, s.a) + s.r[system.row_start[c]]
    else:
        auxiliary_rhs(system, j, listed, s.r, s.a, s.rhs)
    _finish_matrix(system, listed.constraint, listed.count[0], listed.row_start, s.c, m, j, rows, s.matrix, s.rhs)
    status = _solve_auxiliary(
        rows, s.matrix, s.rhs, s.low, s.high, s.lcp, s.guess, s.factor, s.order, s.force, s.residual, s.report
    )
    auxiliary_forces(system, j, listed, s.force, s.f, s.lam)
    return status


@outlined
def _solve_components(system, tree, structure, m, j, saddle):
    """Solve for the forces of all rows listed, component by component; return 0, NO_ROOM or NO_SOLUTION."""
    s, listed, parts = saddle, saddle.responses, saddle.components
    count, cached, status, at = listed.count[0], _is_cached(listed, s.cached_constraints), 0, 0
    _sort_by_components(system.row_start, listed, s.low, s.high, parts)
    s.report[1], s.report[3] = 0.0, 0.0
    for i in range(count):
        if parts.head[parts.of[parts.constraint[i]]] == i:
            rows = _list_component(i, listed, s.low, s.high, parts)
            found = _solve_component(system, tree, structure, rows, cached, at, m, j, saddle)
            status = found if status == 0 else status
            _keep_forces(i, s.force, parts)
            at += rows
    listed.count[0] = count
    for i in range(count):
        listed.constraint[i] = parts.constraint[i]
    _copy(at, parts.force, s.force)
    if status == NO_ROOM:
        invalidate_responses(saddle)
    return status


@inner
def solve_saddle(
    # model
    system, tree, structure,
    # in
    rows, exact, m, j,
    # out
    saddle,
):  # fmt: skip
    """Fill saddle.a and saddle.lam from saddle.f and saddle.r with the rows listed; f gets the auxiliary forces added.

    Args:
        system, tree, structure: the constraints, and the solver of the primary ones.
        rows: listed.
        exact: whether to refine the solution where rows depend on each other; iterated solves can do without.
        m, j: masses and rows.
        saddle: with its factor.

    Returns:
        0, NO_ROOM, or NO_SOLUTION when no forces satisfy the inequality rows.
    """
    s = saddle
    for k in range(len(s.lam)):
        s.lam[k] = 0.0
    # Section 8.2, step 2: the acceleration without auxiliary forces
    _solve_primary(system, tree, structure, exact, j, s, s.f, s.a, s.r, s.lam)
    s.report[0] = rows
    status = 0
    if rows > 0:
        for k in range(len(s.lam)):
            s.lam[k] = 0.0
        status = _solve_components(system, tree, structure, m, j, saddle)
        if status != NO_ROOM:
            # Section 8.2, step 5: the primary rows of lam are solved for again; the auxiliary ones stay
            _solve_primary(system, tree, structure, exact, j, s, s.f, s.a, s.r, s.lam)
    return status
