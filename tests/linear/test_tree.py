"""The factorisation of a forest of constraints against a dense solve, laws and the articulated bodies of a model."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from tests.naive import rotations as rot
from tests.naive.models import inertia, quaternion
from tests.naive.saddle import (
    Values,
    dense_rows,
    forest_by_sets,
    random_system,
    random_values,
    rows_of,
    saddle,
    solve_dense,
    system_of,
)

import limberjack as lj
from limberjack.constraints.system import System
from limberjack.errors import StateError
from limberjack.linear.auxiliary import (
    auxiliary_forces,
    auxiliary_matrix,
    auxiliary_rhs,
    empty_responses,
    new_responses,
    trace,
)
from limberjack.linear.elimination import DIM, FACTOR, Split, new_work, order_of, split
from limberjack.linear.tree import factor, residual, solve


def solved(system, tree, values):
    """Return (work, a, lam) after one factor and one solve."""
    work, a, lam = new_work(tree), np.zeros_like(values.F), np.full_like(values.r, np.nan)
    assert factor(system, tree, values.M, values.J, values.C, work) == 0
    assert solve(system, tree, work, values.F, values.r, a, lam) == 0
    return work, a, lam


def relative(x, reference):
    """Return max|x - reference| / max|reference|."""
    return np.abs(x - reference).max() / np.abs(reference).max()


@pytest.mark.parametrize("case", range(6))
@pytest.mark.parametrize("dims", [tuple(range(1, 13)), (3, 6), (6,), (3,)])
@pytest.mark.parametrize("compliance", [0.0, 0.1])
def test_random_forests_agree_with_the_dense_solve(rng, case, dims, compliance):
    """Accelerations and multipliers of forests of mixed blocks are those of the dense saddle system."""
    system = random_system(rng, 40 + 5 * case, 6, dims)
    values = random_values(rng, system, compliance)
    parts = split(system)
    tree = order_of(system, parts)
    _, a, lam = solved(system, tree, values)
    primary = np.flatnonzero(parts.primary)
    dense_a, dense_lam = solve_dense(system, values, primary)
    assert relative(a, dense_a) < 1e-10
    assert relative(lam[rows_of(system, primary)], dense_lam) < 1e-10
    assert np.isnan(lam[rows_of(system, parts.auxiliary)]).all()


@pytest.mark.parametrize("case", range(10))
def test_split_keeps_a_forest_and_takes_all_it_can(rng, case):
    """In order, a constraint is primary when its bodies, and the ground under a single one, hang together in no way."""
    system = random_system(rng, 30, 25)
    assert np.array_equal(split(system).primary, forest_by_sets(system))
    allowed = rng.uniform(size=len(system.row_start) - 1) < 0.6
    parts = split(system, allowed)
    assert np.array_equal(parts.primary, forest_by_sets(system, allowed))
    assert np.array_equal(parts.auxiliary, np.flatnonzero(~parts.primary))


def test_split_of_small_cases():
    """Second grounded rows, bridges between grounded parts, cycles, empty constraints and too many rows stay out."""
    incidences = [[0], [1], [0, 1], [1, 2], [2], [2, 1], [3, 3], [], [3, 4], [3, 4, 5], [6, 7], [8]]
    dims = [6, 6, 6, 6, 6, 6, 3, 6, 3]
    rows = [3, 3, 3, 3, 1, 1, 1, 1, 5, 1, 4, 4]
    parts = split(system_of(dims, rows, incidences))
    assert list(np.flatnonzero(parts.primary)) == [0, 1, 3, 8]


def test_order_puts_children_first_and_chains_in_a_row(rng):
    """Parents come later, leaves are bodies, roots are grounded constraints or bodies, subtrees are contiguous."""
    system = random_system(rng, 60, 10)
    parts = split(system)
    tree = order_of(system, parts)
    n = len(tree.parent)
    assert n == 60 + parts.primary.sum()
    inner, roots = tree.parent[tree.parent >= 0], np.flatnonzero(tree.parent < 0)
    assert (tree.parent[tree.parent >= 0] > np.flatnonzero(tree.parent >= 0)).all()
    assert not tree.is_constraint[np.setdiff1d(np.arange(n), inner)].any()
    grounded = parts.primary & (np.diff(system.incidence_start) == 1)
    assert set(tree.item[roots[tree.is_constraint[roots]]]) == set(np.flatnonzero(grounded))
    assert np.array_equal(tree.item[tree.body_node], np.arange(60))
    assert np.array_equal(tree.is_constraint[tree.parent[tree.parent >= 0]], ~tree.is_constraint[tree.parent >= 0])
    size, lowest = np.ones(n, dtype=int), np.arange(n)
    for node in range(n):
        if tree.parent[node] >= 0:
            size[tree.parent[node]] += size[node]
            lowest[tree.parent[node]] = min(lowest[tree.parent[node]], lowest[node])
    assert np.array_equal(size, np.arange(n) - lowest + 1)
    chain = system_of([6] * 50, [3] * 50, [[0], *([b, b + 1] for b in range(49))])
    order = order_of(chain, split(chain))
    assert np.array_equal(order.item[::2], np.arange(50)[::-1]) and not order.is_constraint[::2].any()
    assert np.array_equal(order.parent, [*range(1, 100), -1])


def test_order_refuses_what_is_no_forest():
    """A split that holds a cycle or two grounds of one component raises instead of walking for ever."""
    for incidences in ([[0, 1], [1, 2], [2, 0]], [[0, 1], [1, 0]], [[0], [0, 1], [1]], [[0, 0]]):
        system = system_of([3, 3, 3], [1] * len(incidences), incidences)
        with pytest.raises(StateError, match="forest"):
            order_of(system, Split(np.ones(len(incidences), dtype=bool), np.zeros(0, dtype=np.int64)))


def test_inputs_are_refused_by_name():
    """A mask of the wrong length and a body that does not exist raise."""
    system = system_of([3, 3], [1], [[0, 1]])
    with pytest.raises(StateError, match="1 constraints"):
        split(system, np.ones(2, dtype=bool))
    with pytest.raises(StateError, match="0..1"):
        split(system._replace(incidence_body=np.array([0, 2])))


@pytest.mark.parametrize("dims", [(6,), (3,), (7, 9, 12)])
def test_dependent_rows_name_their_constraint(rng, dims):
    """Equal rows inside one constraint fail at its node and at no other; compliance on them heals it."""
    system = random_system(rng, 30, 0, dims)
    values = random_values(rng, system)
    tree = order_of(system, split(system))
    work = new_work(tree)
    checked = 0
    for c in np.flatnonzero((tree.constraint_node >= 0) & (np.diff(system.row_start) > 1)):
        J, C = values.J.copy(), values.C.copy()
        for t in range(system.incidence_start[c], system.incidence_start[c + 1]):
            dim = int(np.diff(system.body_start)[system.incidence_body[t]])
            J[system.block_start[t] + dim : system.block_start[t] + 2 * dim] = J[system.block_start[t] :][:dim]
        assert factor(system, tree, values.M, J, C, work) == 1 + tree.constraint_node[c]
        C[system.row_start[c] : system.row_start[c + 1]] = 1e-3
        assert factor(system, tree, values.M, J, C, work) == 0
        checked += 1
    assert checked > 5


@pytest.mark.parametrize("dims", [(6,), (3,), (7, 9, 12)])
def test_bad_masses_name_their_body(rng, dims):
    """A negative mass, one that is not a number, and a leaf without mass fail at the node of the body."""
    system = random_system(rng, 30, 0, dims)
    values = random_values(rng, system)
    tree = order_of(system, split(system))
    work = new_work(tree)
    for b in range(30):
        leaf = tree.body_node[b] not in tree.parent
        for bad in [-1e6, np.nan] + [0.0] * leaf:
            M = values.M.copy()
            M[system.mass_start[b] : system.mass_start[b + 1]] *= bad
            assert factor(system, tree, M, values.J, values.C, work) == 1 + tree.body_node[b]


def test_long_chain_star_and_binary_tree():
    """10^5 bodies in a row, 10^4 on one hub and a binary tree build and solve, with residuals of rounding."""
    rng = np.random.default_rng(5)
    chain = np.arange(100_000) - 1
    star = np.where(np.arange(10_001) == 0, -1, 0)
    binary = (np.arange(20_001) + 1) // 2 - 1
    for parents in (chain, star, binary):
        n = len(parents)
        incidences = np.column_stack([parents, np.arange(n)]).ravel()[1:]
        incidence_start = np.concatenate([[0], 1 + 2 * np.arange(n)])
        starts = 6 * np.arange(n + 1), 36 * np.arange(n + 1), 3 * np.arange(n + 1)
        system = System(*starts, incidence_start, incidences, 18 * np.arange(2 * n))
        mass = np.tile(np.diag([0.1, 0.2, 0.3, 1.0, 1.0, 1.0]).ravel(), n)
        J = np.zeros((2 * n - 1, 3, 6))
        J[:, :, 3:] = np.eye(3)
        for i, j in ((1, 2), (2, 0), (0, 1)):
            lever = rng.uniform(-1, 1, 2 * n - 1)
            J[:, i, j], J[:, j, i] = lever, -lever
        values = Values(mass, J.ravel(), np.zeros(3 * n), rng.normal(size=6 * n), rng.normal(size=3 * n))
        tree = order_of(system, split(system))
        assert len(tree.parent) == 2 * n
        _, a, lam = solved(system, tree, values)
        bodies, rows = np.zeros(6 * n), np.zeros(3 * n)
        residual(system, *values, a, lam, bodies, rows)
        assert np.abs(bodies).max() < 1e-9 * np.abs(lam).max() and np.abs(rows).max() < 1e-9 * np.abs(a).max()


def test_solve_in_place_and_again(rng):
    """Right sides may be the arrays of the answer, and a factor serves any number of solves, to the same bits."""
    system = random_system(rng, 50, 5)
    values = random_values(rng, system, 0.1)
    tree = order_of(system, split(system))
    work, a, lam = solved(system, tree, values)
    own_a, own_lam = values.F.copy(), values.r.copy()
    solve(system, tree, work, own_a, own_lam, own_a, own_lam)
    primary = rows_of(system, np.flatnonzero(tree.constraint_node >= 0))
    assert np.array_equal(own_a, a) and np.array_equal(own_lam[primary], lam[primary])


def test_residual_is_that_of_the_dense_system(rng):
    """F + J^T lam - M a and r + J a + C lam, over primary and auxiliary rows."""
    system = random_system(rng, 40, 8)
    values = random_values(rng, system, 0.1)
    a, lam = rng.normal(size=len(values.F)), rng.normal(size=len(values.r))
    bodies, rows = np.zeros_like(a), np.zeros_like(lam)
    residual(system, *values, a, lam, bodies, rows)
    every = np.arange(len(system.row_start) - 1)
    left = np.concatenate([values.F, values.r]) - saddle(system, values, every) @ np.concatenate([a, lam])
    assert np.allclose(np.concatenate([bodies, rows]), left, atol=1e-12)


@pytest.mark.parametrize("case", range(6))
@pytest.mark.parametrize("dims", [tuple(range(1, 13)), (6,), (3,)])
def test_auxiliary_matrix_is_that_of_dense_responses(rng, case, dims):
    """Ja Mhat^-1 Ja^T from paths alone is that of the dense inverse, for rows on one, two and three bodies."""
    system = random_system(rng, 50, 12, dims)
    values = random_values(rng, system, 0.1 * (case % 2))
    parts = split(system)
    tree = order_of(system, parts)
    work, _, _ = solved(system, tree, values)
    responses = new_responses(system, tree, parts.auxiliary)
    rows = rows_of(system, parts.auxiliary)
    A = np.full((len(rows), len(rows)), np.nan)
    assert auxiliary_matrix(system, tree, values.J, work, responses, A) == 0
    Ja, nu = dense_rows(system, values.J)[rows], len(values.F)
    inverse = np.linalg.inv(saddle(system, values, np.flatnonzero(parts.primary)))[:nu, :nu]
    assert np.array_equal(A, A.T)
    assert relative(A, Ja @ inverse @ Ja.T) < 1e-12


def test_auxiliary_forces_close_all_rows(rng):
    """Anticipation: A mu = -b, then one more solve, gives the dense answer with all constraints in."""
    system = random_system(rng, 60, 7, (6, 7, 12))
    values = random_values(rng, system)
    parts = split(system)
    tree = order_of(system, parts)
    work, a, lam = solved(system, tree, values)
    responses = new_responses(system, tree, parts.auxiliary)
    n = int(responses.row_start[-1])
    A, b, F = np.zeros((n, n)), np.zeros(n), values.F.copy()
    auxiliary_matrix(system, tree, values.J, work, responses, A)
    auxiliary_rhs(system, values.J, responses, values.r, a, b)
    auxiliary_forces(system, values.J, responses, np.linalg.solve(A, -b), F, lam)
    solve(system, tree, work, F, values.r, a, lam)
    dense_a, dense_lam = solve_dense(system, values, np.arange(len(system.row_start) - 1))
    assert relative(a, dense_a) < 1e-9 and relative(lam, dense_lam) < 1e-9


def test_responses_of_another_system_and_their_room(rng):
    """Rows of a second system over the same bodies go through the same tree; too little room is told, not overrun."""
    system = random_system(rng, 40, 0, (3, 6))
    values = random_values(rng, system)
    tree = order_of(system, split(system))
    work, _, _ = solved(system, tree, values)
    dims = [int(x) for x in np.diff(system.body_start)]
    contacts = system_of(dims, [3, 1, 3, 2], [[4, 9], [30], [11, 2], [7, 7]])
    J = rng.normal(size=int(contacts.block_start[-1]))
    responses = empty_responses(tree, 5, 3, 2)
    inverse = np.linalg.inv(saddle(system, values, np.flatnonzero(tree.constraint_node >= 0)))
    for chosen in ([0, 1, 2], [2], [1, 0, 3, 0, 2], []):
        responses.constraint[: len(chosen)] = chosen
        responses.count[0] = len(chosen)
        assert trace(contacts, tree, responses) == 0
        n = int(responses.row_start[len(chosen)])
        A = np.zeros((n, n))
        auxiliary_matrix(contacts, tree, J, work, responses, A)
        Ja = dense_rows(contacts, J)[rows_of(contacts, chosen)]
        nu = Ja.shape[1]
        assert np.allclose(A, Ja @ inverse[:nu, :nu] @ Ja.T, rtol=1e-12, atol=1e-12)
    small = empty_responses(tree, 1, 1, 1)
    small.count[0] = 1
    assert trace(contacts, tree, small) == 1
    small.count[0] = 2
    assert trace(contacts, tree, small) == 1


def test_disconnected_figures_do_not_answer_each_other(rng):
    """Auxiliary rows on two figures without a common root have exactly zero coupling."""
    system = system_of([6] * 6, [3, 3, 3, 3, 1, 1], [[0, 1], [1, 2], [3, 4], [4, 5], [0, 2], [3, 5]])
    values = random_values(rng, system)
    parts = split(system)
    tree = order_of(system, parts)
    work, _, _ = solved(system, tree, values)
    A = np.ones((2, 2))
    auxiliary_matrix(system, tree, values.J, work, new_responses(system, tree, parts.auxiliary), A)
    assert A[0, 1] == 0.0 and A[1, 0] == 0.0 and A[0, 0] > 0.0 and A[1, 1] > 0.0


def test_kernels_allocate_nothing(rng):
    """Factor, solve and the auxiliary matrix leave no trace in memory but their results."""
    system = random_system(rng, 300, 10)
    values = random_values(rng, system)
    parts = split(system)
    tree = order_of(system, parts)
    work, a, lam = solved(system, tree, values)
    responses = new_responses(system, tree, parts.auxiliary)
    n = int(responses.row_start[-1])
    A, b = np.zeros((n, n)), np.zeros(n)

    def once():
        factor(system, tree, values.M, values.J, values.C, work)
        solve(system, tree, work, values.F, values.r, a, lam)
        auxiliary_matrix(system, tree, values.J, work, responses, A)
        auxiliary_rhs(system, values.J, responses, values.r, a, b)

    once()
    tracemalloc.start()
    once()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4000


# A tree of bodies: the parent of each and the joint between them.
TREE = (
    (-1, "free"), (0, "ball"), (1, "hinge"), (1, "ball"), (3, "hinge"), (0, "hinge"), (5, "ball"), (6, "ball"),
    (2, "hinge"),
)  # fmt: skip


class Figure:
    """A free-floating model of TREE with random bodies, at a random pose."""

    def __init__(self, rng):
        n = len(TREE)
        self.mass, self.com = rng.uniform(0.5, 3.0, n), rng.uniform(-0.2, 0.2, (n, 3))
        self.inertia = [inertia(rng, m) for m in self.mass]
        self.at, self.at_child = rng.uniform(-0.5, 0.5, (n, 3)), rng.uniform(-0.5, 0.5, (n, 3))
        self.axis = rng.normal(size=(n, 3))
        self.start = [quaternion(rng) if kind == "ball" else rng.uniform(-2, 2) for _, kind in TREE]
        self.model = self.build(0, (0.3, -0.2, 0.5), quaternion(rng))
        self.positions, quaternions = lj.forward_kinematics(self.model, self.model.q0)
        order = [self.model.body_names.index(f"b{i}") for i in range(n)]
        self.positions, self.rotations = self.positions[order], [rot.matrix(quaternions[i]) for i in order]
        self.quaternions = quaternions[order]

    def below(self, root):
        """Return the bodies that hang on `root`, itself included."""
        kept = {root}
        for i, (parent, _) in enumerate(TREE):
            if parent in kept:
                kept.add(i)
        return sorted(kept)

    def build(self, root, position, quaternion):
        """Return the model of `root` and what hangs on it, floating, with the root at this pose."""
        builder = lj.Builder(gravity=(0, 0, -9.81))
        for i in self.below(root):
            pose = {"position": position, "rotation": quaternion} if i == root else {}
            builder.add_body(f"b{i}", mass=self.mass[i], com=self.com[i], inertia=self.inertia[i], **pose)
        for i in self.below(root):
            parent, kind = TREE[i]
            if i == root:
                continue
            options = {"position": self.at[i], "position_in_child": self.at_child[i], "start": self.start[i]}
            if kind == "hinge":
                options["axis"] = self.axis[i]
            getattr(builder, f"add_joint_{kind}")(f"j{i}", f"b{parent}", f"b{i}", **options)
        return builder.build()

    def saddle(self):
        """Return (system, values) of the bodies in maximal coordinates, at rest under gravity."""
        n = len(TREE)
        centres = [self.positions[i] + self.rotations[i] @ self.com[i] for i in range(n)]
        rows = [3 if kind == "ball" else 5 for _, kind in TREE[1:]]
        system = system_of([6] * n, rows, [[parent, i + 1] for i, (parent, _) in enumerate(TREE[1:])])
        M, J, F = [], [], []
        for i in range(n):
            block = np.diag([0, 0, 0, *[self.mass[i]] * 3])
            block[:3, :3] = self.rotations[i] @ self.inertia[i] @ self.rotations[i].T
            M.append(block.ravel())
            F += [0, 0, 0, 0, 0, -9.81 * self.mass[i]]
        for i, (parent, kind) in enumerate(TREE):
            if kind == "free":
                continue
            point = self.positions[parent] + self.rotations[parent] @ self.at[i]
            axis = self.rotations[parent] @ self.axis[i]
            across = np.linalg.svd(axis[None])[2][1:] if kind == "hinge" else np.zeros((0, 3))
            for body, sign in ((parent, -1.0), (i, 1.0)):
                ball = np.hstack([-rot.cross_matrix(point - centres[body]), np.eye(3)])
                J.append(sign * np.vstack([ball, np.hstack([across, 0 * across])]).ravel())
        still = np.zeros(sum(rows))
        return system, Values(np.concatenate(M), np.concatenate(J), still, np.array(F), still)


def test_accelerations_are_those_of_the_reduced_model(rng):
    """Ball and hinge joints in maximal coordinates give the accelerations of joint coordinates, bodies at rest."""
    figure = Figure(rng)
    system, values = figure.saddle()
    tree = order_of(system, split(system))
    values = values._replace(F=values.F + rng.normal(size=len(values.F)))
    _, a, _ = solved(system, tree, values)
    q = figure.model.q0
    jacobians = np.vstack([lj.jacobian(figure.model, q, f"b{i}") for i in range(len(TREE))])
    qdd = np.linalg.solve(lj.mass_matrix(figure.model, q), jacobians.T @ values.F)
    assert np.abs(dense_rows(system, values.J) @ jacobians).max() < 1e-13
    assert relative(a, jacobians @ qdd) < 1e-11


def pivot(tree, work, node):
    """Return D (dim, dim) of a node at its elimination."""
    p, dim = int(tree.table[node, FACTOR]), int(tree.table[node, DIM])
    lower = np.zeros((dim, dim))
    lower[np.tril_indices(dim)] = work[p : p + dim * (dim + 1) // 2]
    inverse = lower.diagonal().copy()
    np.fill_diagonal(lower, 1.0)
    return lower @ np.diag(1.0 / inverse) @ lower.T


def test_pivots_of_bodies_are_articulated_inertias(rng):
    """D of a body at its elimination is the inertia it shows, about its com, with all that hangs below it."""
    figure = Figure(rng)
    system, values = figure.saddle()
    tree = order_of(system, split(system))
    work, _, _ = solved(system, tree, values)
    for i in range(len(TREE)):
        model = figure.build(i, figure.positions[i], figure.quaternions[i])
        jacobian = lj.jacobian(model, model.q0, f"b{i}")
        mobility = jacobian @ np.linalg.solve(lj.mass_matrix(model, model.q0), jacobian.T)
        assert relative(pivot(tree, work, int(tree.body_node[i])), np.linalg.inv(mobility)) < 1e-12
