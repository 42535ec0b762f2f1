"""Conjugate residuals against the direct solver and dense matrices, on systems with no, one and many solutions."""

from __future__ import annotations

import numpy as np
import pytest
from tests.linear.systems import chain, grid, joint_rows, loops, net, rigid_numbers, system_of, tree
from tests.naive import sparse_saddle as saddle

from limberjack.linear import krylov, sparse, tree_preconditioner
from limberjack.linear import sparse as assembly
from limberjack.linear.packed_rows import POINT
from limberjack.linear.structure import new_work, prepare


def _iterated(system, Minv, J, C, b, *, cap=2000, tolerance=1e-12):
    """Return status, multipliers and report."""
    work, report, lam = krylov.new_krylov(system), np.zeros(3), np.full(len(b), 7.0)
    center = np.zeros((len(Minv), 3))
    status = krylov.solve_krylov(system, Minv, J, C, b, center, cap, tolerance, work, lam, report)
    return status, lam, report


def _weighed(system, Minv, J, C, residual):
    """Return the length of a residual weighed by the inverses of the diagonal blocks."""
    A, square = saddle.dense_matrix(system, Minv, J, C), 0.0
    for i in range(len(system.row_start) - 1):
        s = slice(system.row_start[i], system.row_start[i + 1])
        square += residual[s] @ np.linalg.solve(A[s, s], residual[s])
    return np.sqrt(square)


def _close(a, b):
    return np.abs(a - b).max() / np.abs(b).max()


@pytest.mark.parametrize("compliant", [False, True])
@pytest.mark.parametrize("kind", ["tree", "loops", "grid", "three"])
def test_iterated_direct_and_dense_agree(kind, compliant, rng):
    """Conjugate residuals, block LDL^T and a dense solve give the same multipliers on every kind of graph."""
    incidences = {
        "tree": lambda: tree(30, rng),
        "loops": lambda: loops(30, 8, rng),
        "grid": lambda: grid(5),
        "three": lambda: chain(30) + [rng.choice(30, 3, replace=False).tolist() for _ in range(6)],
    }[kind]()
    nb = 1 + max(b for t in incidences for b in t)
    system = system_of(incidences, rng.integers(1, 4, len(incidences)), [6] * nb)
    Minv, J = rigid_numbers(system, rng)
    b = rng.normal(size=system.row_start[-1])
    C = rng.uniform(0.0, 1.0, len(b)) if compliant else np.zeros(len(b))
    wanted = np.linalg.solve(saddle.dense_matrix(system, Minv, J, C), b)
    structure = prepare(system)
    work, direct = new_work(system, structure), np.zeros(len(b))
    assembly.assemble(system, structure, Minv, J, C, work)
    sparse.factor(structure, work)
    sparse.solve(structure, work, b, direct)
    status, lam, report = _iterated(system, Minv, J, C, b)
    assert status == krylov.CONVERGED
    assert report[2] <= 1e-12
    assert _close(direct, wanted) < 1e-10
    assert _close(lam, wanted) < 1e-9


def _pulled(rng, reach):
    """Return a chain of five balls whose ends are drawn `reach` apart: too far, so that its rows contradict another."""
    points = np.array([[0.2 * k, 0.0, 0.0] for k in range(6)])  # straight: it cannot get longer
    centers = (points[:-1] + points[1:]) / 2
    incidences = [[0], [0, 1], [1, 2], [2, 3], [3, 4], [4]]
    system = system_of(incidences, [3] * 6, [6] * 5)
    J = joint_rows(incidences, ["ball"] * 6, points, centers)
    Minv, _ = rigid_numbers(system, rng)
    b = np.zeros(18)
    b[15] = reach
    return system, Minv, J, b


def test_too_far_a_pull_ends_at_the_least_residual(rng):
    """A straight chain pulled at both ends has no solution: the least-squares displacement is found and reported."""
    system, Minv, J, b = _pulled(rng, 0.5)
    C = np.zeros(18)
    A = saddle.dense_matrix(system, Minv, J, C)
    wanted = saddle.least_squares(system, Minv, J, C, b)
    status, lam, report = _iterated(system, Minv, J, C, b)
    left = _weighed(system, Minv, J, C, b - A @ lam)
    assert status in (krylov.LEAST_SQUARES, krylov.STALLED)
    assert np.linalg.norm(b - A @ lam) > 0.1
    assert report[1] == pytest.approx(left, rel=1e-9)
    assert report[2] == pytest.approx(left / _weighed(system, Minv, J, C, b), rel=1e-9)
    rows = saddle.dense_rows(system, J)
    assert _close(rows.T @ lam, rows.T @ wanted) < 1e-6
    assert report[0] < 60


def test_more_iterations_never_make_it_worse(rng):
    """On contradictory rows the weighted residual falls with the cap, and stays at the least however long it runs."""
    system, Minv, J, b = _pulled(rng, 0.5)
    C = np.zeros(18)
    A = saddle.dense_matrix(system, Minv, J, C)
    P = np.zeros_like(A)
    for i in range(6):
        s = slice(3 * i, 3 * i + 3)
        P[s, s] = np.linalg.inv(A[s, s])
    sizes = []
    for cap in [*range(20), 100, 10_000]:
        status, lam, report = _iterated(system, Minv, J, C, b, cap=cap)
        residual = b - A @ lam
        sizes.append(residual @ P @ residual)
        assert report[0] <= cap
    assert (np.diff(sizes) <= 1e-12 * sizes[0]).all()
    wanted = b - A @ saddle.least_squares(system, Minv, J, C, b)
    assert sizes[-1] == pytest.approx(wanted @ P @ wanted, rel=1e-9)


def test_repeated_rows_with_a_solution_converge(rng):
    """Doubled constraints leave A singular; with a consistent right-hand side the residual goes to rounding."""
    incidences = loops(25, 6, rng)
    system = system_of(incidences + incidences, [3] * (2 * len(incidences)), [6] * 25)
    Minv, J = rigid_numbers(system_of(incidences, [3] * len(incidences), [6] * 25), rng)
    J = np.tile(J, 2)
    C = np.zeros(system.row_start[-1])
    A = saddle.dense_matrix(system, Minv, J, C)
    b = A @ rng.normal(size=len(C))
    status, lam, report = _iterated(system, Minv, J, C, b, tolerance=1e-11)
    assert status == krylov.CONVERGED
    assert np.linalg.norm(A @ lam - b) <= 1e-11 * np.linalg.norm(b)


def test_rows_that_follow_from_others_within_a_constraint(rng):
    """A constraint with a row twice, and one between fixed bodies, get no multiplier there and disturb nothing."""
    incidences = [[0, 1], [1, 2], [2, 3], [3, 4]]
    system = system_of(incidences, [3] * 4, [6] * 5)
    Minv, J = rigid_numbers(system, rng)
    Minv[3:] = 0.0
    for t in (0, 1):
        J[system.block_start[t] + 12 : system.block_start[t] + 18] = J[
            system.block_start[t] : system.block_start[t] + 6
        ]
    C = np.zeros(12)
    A = saddle.dense_matrix(system, Minv, J, C)
    b = A @ rng.normal(size=12)
    status, lam, _ = _iterated(system, Minv, J, C, b, tolerance=1e-11)
    assert status == krylov.CONVERGED
    assert (lam[9:] == 0.0).all()
    assert lam[0] * lam[2] == 0.0
    assert np.abs(A @ lam - b).max() < 1e-10


def test_the_cap_is_kept(rng):
    """Fewer iterations than it takes leave what they leave, and say so."""
    incidences, _ = net(5)
    nb = 1 + max(b for t in incidences for b in t)
    system = system_of(incidences, [3] * len(incidences), [6] * nb)
    Minv, J = rigid_numbers(system, rng)
    b, C = rng.normal(size=3 * len(incidences)), np.zeros(3 * len(incidences))
    status, _, report = _iterated(system, Minv, J, C, b, tolerance=1e-10)
    assert status == krylov.CONVERGED and report[0] > 3
    status, lam, report = _iterated(system, Minv, J, C, b, cap=3, tolerance=1e-10)
    assert status == krylov.CAPPED
    assert report[0] == 3
    assert 1e-10 < report[2] < 1.0
    left = b - saddle.dense_matrix(system, Minv, J, C) @ lam
    assert report[1] == pytest.approx(_weighed(system, Minv, J, C, left), rel=1e-9)


@pytest.mark.parametrize("keep", [0, 3])
def test_pairs_are_packed_rows(keep, rng):
    """Joints taken as pairs of opposite wrenches have the multipliers that all their rows give, solve after solve."""
    incidences, positions = net(4)
    centers = np.column_stack([positions, 0.1 * rng.normal(size=len(positions))])
    points = np.array([centers[t].mean(0) for t in incidences])
    kinds = ["ball" if rng.random() < 0.5 else rng.normal(size=3) for _ in incidences]
    system = system_of(incidences, [3 if isinstance(kind, str) else 5 for kind in kinds], [6] * len(centers))
    Minv, _ = rigid_numbers(system, rng)
    J = joint_rows(incidences, kinds, points, centers)
    C = np.where(rng.random(system.row_start[-1]) < 0.1, 0.3, 0.0)
    A = saddle.dense_matrix(system, Minv, J, C)
    work, report, lam = krylov.new_krylov(system, keep, np.ones(len(incidences), bool)), np.zeros(3), np.zeros(len(C))
    for _ in range(4):
        b = A @ rng.normal(size=len(C))
        status = krylov.solve_krylov(system, Minv, J, C, b, centers, 2000, 1e-12, work, lam, report)
        assert status == krylov.CONVERGED
        assert np.linalg.norm(A @ lam - b) < 1e-10 * np.linalg.norm(b)


def _net_on_points(side, rng):
    """Return a square net on balls, each with directions of its own, its numbers and a right side with a solution."""
    incidences, positions = net(side)
    centers = np.column_stack([positions, 0.1 * rng.normal(size=len(positions))])
    points = np.array([centers[t].mean(0) for t in incidences])
    system = system_of(incidences, [3] * len(incidences), [6] * len(centers))
    Minv, _ = rigid_numbers(system, rng)
    J = joint_rows(incidences, ["ball"] * len(incidences), points, centers).reshape(-1, 3, 6)
    owner = np.repeat(np.arange(len(incidences)), np.diff(system.incidence_start))
    turned = np.linalg.qr(rng.normal(size=(len(incidences), 3, 3)))[0]
    J = (turned[owner] @ J).ravel()
    return system, Minv, J, centers


def _residual(system, Minv, J, lam):
    """Return A lam, by scattering forces on bodies and gathering what they move."""
    force, out = np.zeros((len(Minv), 6)), np.zeros(len(lam))
    blocks = J.reshape(-1, 3, 6)
    owner = np.repeat(np.arange(len(system.row_start) - 1), np.diff(system.incidence_start))
    np.add.at(force, system.incidence_body, np.einsum("tij,ti->tj", blocks, lam.reshape(-1, 3)[owner]))
    turn = Minv[:, [0, 3, 4, 3, 1, 5, 4, 5, 2]].reshape(-1, 3, 3)
    moved = np.hstack([np.einsum("bij,bj->bi", turn, force[:, :3]), Minv[:, 6:] * force[:, 3:]])
    np.add.at(out.reshape(-1, 3), owner, np.einsum("tij,tj->ti", blocks, moved[system.incidence_body]))
    return out


@pytest.mark.parametrize("side", [6, 27])
def test_points_are_packed_as_levers(side, rng):
    """Balls with any directions have the multipliers all their rows give, in small nets and where slots are shared."""
    system, Minv, J, centers = _net_on_points(side, rng)
    nc = len(system.row_start) - 1
    b = _residual(system, Minv, J, rng.normal(size=3 * nc))
    work, report, lam = krylov.new_krylov(system, 0, np.ones(nc, bool)), np.zeros(3), np.zeros(3 * nc)
    status = krylov.solve_krylov(system, Minv, J, np.zeros(3 * nc), b, centers, 5000, 1e-13, work, lam, report)
    assert (work.packed.form[: work.packed.count[0]] == POINT).all()
    assert status == krylov.CONVERGED
    assert np.linalg.norm(_residual(system, Minv, J, lam) - b) < 1e-11 * np.linalg.norm(b)
    if side > 20:
        assert work.packed.count[1] == 1 and work.packed.slot.max() < len(Minv) // 4
    plain, other = krylov.new_krylov(system), np.zeros(3 * nc)
    krylov.solve_krylov(system, Minv, J, np.zeros(3 * nc), b, centers, 5000, 1e-13, plain, other, report)
    assert _close(lam, other) < 1e-8


@pytest.mark.parametrize("cap", range(1, 8))
def test_steps_taken_later_are_all_taken(cap, rng):
    """After any number of iterations, odd or even, the residual reported is that of the multipliers given."""
    system, Minv, J, centers = _net_on_points(5, rng)
    nc = len(system.row_start) - 1
    b, C = rng.normal(size=3 * nc), np.zeros(3 * nc)
    work, report, lam = krylov.new_krylov(system, 2, np.ones(nc, bool)), np.zeros(3), np.zeros(3 * nc)
    for _ in range(3):
        assert krylov.solve_krylov(system, Minv, J, C, b, centers, cap, 1e-30, work, lam, report) == krylov.CAPPED
        left = _weighed(system, Minv, J, C, b - saddle.dense_matrix(system, Minv, J, C) @ lam)
        assert report[0] == cap and report[1] == pytest.approx(left, rel=1e-6)


def test_recycled_solutions_go_on_where_the_last_solve_ended(rng):
    """Five iterations at a time fall as one long solve with recycled solutions, and stagnate without."""
    incidences = grid(6)
    system = system_of(incidences, [3] * len(incidences), [6] * 36)
    Minv, J = rigid_numbers(system, rng)
    C = np.zeros(3 * len(incidences))
    A = saddle.dense_matrix(system, Minv, J, C)
    left, first = {}, rng.normal(size=len(C))
    for keep in (0, 4):
        b = first
        work, report, lam = krylov.new_krylov(system, keep), np.zeros(3), np.zeros(len(C))
        for _ in range(8):
            krylov.solve_krylov(system, Minv, J, C, b, np.zeros((36, 3)), 5, 1e-14, work, lam, report)
            b = b - A @ lam
        left[keep] = np.linalg.norm(b)
    assert left[4] < 0.5 * left[0]


def test_nothing_to_do_and_nothing_finite(rng):
    """A zero right-hand side gives zero at once; numbers that are not finite give FAILED and zero."""
    system = system_of(chain(6), [3] * 6, [6] * 6)
    Minv, J = rigid_numbers(system, rng)
    C = np.zeros(18)
    status, lam, report = _iterated(system, Minv, J, C, np.zeros(18))
    assert status == krylov.CONVERGED
    assert not lam.any()
    assert not report.any()
    J[3] = np.nan
    status, lam, _ = _iterated(system, Minv, J, C, rng.normal(size=18))
    assert status == krylov.FAILED
    assert not lam.any()
    J[3] = 1.0
    status, lam, _ = _iterated(system, Minv, J, C, np.full(18, np.nan))
    assert status == krylov.FAILED
    assert not lam.any()


def test_preconditioner_helps_where_masses_differ(rng):
    """With masses over four decades the block preconditioner keeps the iterations below the number of rows."""
    incidences = chain(30)
    system = system_of(incidences, [3] * 30, [6] * 30)
    Minv, J = rigid_numbers(system, rng)
    Minv *= 10.0 ** rng.uniform(-2, 2, (30, 1))
    b = rng.normal(size=90)
    status, _, report = _iterated(system, Minv, J, np.zeros(90), b, tolerance=1e-8)
    assert status == krylov.CONVERGED
    assert report[0] <= 90


def test_same_input_same_bits(rng):
    """Used work arrays leave no trace: the second solve has the bits of the first."""
    incidences = loops(20, 6, rng)
    system = system_of(incidences, [3] * len(incidences), [6] * 20)
    Minv, J = rigid_numbers(system, rng)
    b, C = rng.normal(size=3 * len(incidences)), np.zeros(3 * len(incidences))
    work, report = krylov.new_krylov(system), np.zeros(3)
    outs = []
    for side in (b, np.full_like(b, np.nan), b):
        lam = np.zeros(len(b))
        krylov.solve_krylov(system, Minv, J, C, side, np.zeros((20, 3)), 500, 1e-10, work, lam, report)
        outs.append(lam.tobytes())
    assert outs[0] == outs[2]


def _over(system, primary=None, free=None):
    """Return what a solve over the system's tree works on."""
    nb, nc = len(system.body_start) - 1, len(system.row_start) - 1
    free = np.ones(nb, bool) if free is None else free
    allowed = np.ones(nc, bool) if primary is None else primary
    return tree_preconditioner.new_tree_preconditioner(system, free, allowed, np.zeros(nc, bool))


@pytest.mark.parametrize("extra", [0, 5])
def test_a_tree_is_an_exact_preconditioner(extra, rng):
    """Over the spanning tree a solve takes no iteration without loops, with them at most as many as they have rows."""
    incidences = loops(40, extra, rng)
    system = system_of(incidences, [3] * len(incidences), [6] * 40)
    Minv, J = rigid_numbers(system, rng)
    Minv[7] = 0.0
    free = Minv[:, 6] > 0.0
    C = np.zeros(3 * len(incidences))
    A = saddle.dense_matrix(system, Minv, J, C)
    b = A @ rng.normal(size=len(C))
    lam, report, over = np.zeros(len(C)), np.zeros(3), _over(system, free=free)
    center = np.zeros((40, 3))
    status = tree_preconditioner.solve_tree_preconditioned(system, Minv, J, C, b, center, 200, 1e-12, over, lam, report)
    assert status in (krylov.CONVERGED, krylov.LEAST_SQUARES, krylov.STALLED)
    assert np.linalg.norm(A @ lam - b) < 1e-9 * np.linalg.norm(b)
    auxiliary = int((over.tree.constraint_node < 0).sum())
    assert report[0] <= 3 * auxiliary + 2
    assert report[0] == 0 or auxiliary > 0


def test_long_chains_are_direct_over_their_tree(rng):
    """A chain of 300 links on hinges takes no iteration over its tree, and thousands joint by joint."""
    incidences = chain(300)
    points = np.array([[0.0, 0.0, 0.0]] + [[k + 1.0, 0.1 * np.sin(k), 0.0] for k in range(299)])
    centers = points + (0.5, 0.0, 0.0)
    system = system_of(incidences, [5] * 300, [6] * 300)
    J = joint_rows(incidences, [(0.0, 1.0, 0.0)] * 300, points, centers)
    Minv = np.tile((12.0, 12.0, 12.0, 0.0, 0.0, 0.0, 1.0), (300, 1))
    b, C = rng.normal(size=1500), np.zeros(1500)
    lam, report = np.zeros(1500), np.zeros(3)
    status = tree_preconditioner.solve_tree_preconditioned(
        system, Minv, J, C, b, centers, 300, 1e-12, _over(system), lam, report
    )
    assert status == krylov.CONVERGED and report[0] == 0
    left = b - saddle.dense_matrix(system, Minv, J, C) @ lam
    assert np.linalg.norm(left) < 1e-6 * np.linalg.norm(b)  # multipliers of 1e8 times b, at rounding
    status, _, report = _iterated(system, Minv, J, C, b, cap=2000, tolerance=1e-8)
    assert status == krylov.CAPPED
