"""Block LDL^T of constraint systems against dense matrices: graphs, sizes, dependent rows, bits."""

from __future__ import annotations

import numpy as np
import pytest
from tests.linear.systems import chain, flat_numbers, grid, joint_rows, loops, net, rigid_numbers, skew, system_of, tree
from tests.naive import sparse_saddle as saddle

from limberjack.linear import sparse
from limberjack.linear import sparse as assembly
from limberjack.linear.ordering import order_constraints
from limberjack.linear.structure import new_work, prepare


def _solved(system, Minv, J, C, F, r):
    """Return status, a, lam and the work arrays."""
    structure = prepare(system)
    work = new_work(system, structure)
    a, lam = np.zeros(system.body_start[-1]), np.zeros(system.row_start[-1])
    status = sparse.solve_saddle(system, structure, Minv, J, C, F, r, work, a, lam)
    return status, a, lam, work


def _sides(system, rng):
    return rng.normal(size=system.body_start[-1]), rng.normal(size=system.row_start[-1])


def _close(a, b):
    return np.abs(a - b).max() / np.abs(b).max()


def _mixed(kind, rng):
    """Return a system with rows of 1 to 5 (or 12) and bodies of 6 to 12 dimensions, whose rows are independent."""
    incidences = {
        "tree": lambda: tree(40, rng),
        "loops": lambda: loops(40, 15, rng),
        "grid": lambda: grid(6),
        "three": lambda: tree(40, rng) + [rng.choice(40, 3, replace=False).tolist() for _ in range(10)],
    }[kind]()
    n = 1 + max(b for t in incidences for b in t)
    dims = rng.integers(6, 13, n)
    return system_of(incidences, rng.integers(1, 6 if kind != "grid" else 4, len(incidences)), dims)


@pytest.mark.parametrize("compliant", [False, True])
@pytest.mark.parametrize("kind", ["tree", "loops", "grid", "three"])
def test_mixed_systems_match_dense(kind, compliant, rng):
    """Trees, loops, grids and three-body constraints of any sizes match dense solves."""
    system = _mixed(kind, rng)
    Minv, J = flat_numbers(system, rng)
    F, r = _sides(system, rng)
    C = rng.uniform(0.0, 1.0, len(r)) if compliant else np.zeros(len(r))
    status, a, lam, _ = _solved(system, Minv, J, C, F, r)
    wanted_a, wanted_lam = saddle.solve_saddle(system, Minv, J, C, F, r)
    assert status == 0
    assert _close(a, wanted_a) < 1e-10
    assert _close(lam, wanted_lam) < 1e-10


@pytest.mark.parametrize("rows", ["balls", "hinges", "mixed"])
@pytest.mark.parametrize("kind", ["tree", "loops"])
def test_rigid_bodies_match_dense(kind, rows, rng):
    """Rigid bodies given by seven numbers match dense solves: all balls, all hinges, and any rows from 1 to 5."""
    incidences = tree(60, rng) if kind == "tree" else loops(60, 12, rng)
    counts = {"balls": 3, "hinges": 5}.get(rows)
    sizes = rng.integers(1, 6, len(incidences)) if counts is None else np.full(len(incidences), counts)
    sizes[60:] = np.minimum(sizes[60:], 3 if rows != "hinges" else 1)  # few dofs are left: keep A well-conditioned
    system = system_of(incidences, sizes, [6] * 60)
    Minv, J = rigid_numbers(system, rng)
    F, r = _sides(system, rng)
    C = np.where(rng.random(len(r)) < 0.3, 0.1, 0.0)
    status, a, lam, _ = _solved(system, Minv, J, C, F, r)
    wanted_a, wanted_lam = saddle.solve_saddle(system, Minv, J, C, F, r)
    assert status == 0
    assert _close(a, wanted_a) < 1e-10
    assert _close(lam, wanted_lam) < 1e-10


def test_blocks_of_twelve(rng):
    """Constraints of 12 rows on bodies of 12 dimensions, beside single rows on bodies of one, match dense solves."""
    incidences = [[0, 1], [1, 2], [2, 3], [3], [0, 4], [4, 5]]
    system = system_of(incidences, [12, 12, 5, 1, 1, 1], [12, 12, 12, 12, 1, 1])
    Minv, J = flat_numbers(system, rng)
    F, r = _sides(system, rng)
    C = np.full(len(r), 0.01)
    status, a, lam, _ = _solved(system, Minv, J, C, F, r)
    wanted_a, wanted_lam = saddle.solve_saddle(system, Minv, J, C, F, r)
    assert status == 0
    assert max(_close(a, wanted_a), _close(lam, wanted_lam)) < 1e-10


def test_both_forms_of_masses_agree(rng):
    """Seven numbers per rigid body and its flat 6x6 inverse give the same solution."""
    incidences, _ = net(4)
    nb = 1 + max(b for t in incidences for b in t)
    system = system_of(incidences, [3] * len(incidences), [6] * nb)
    Minv, J = rigid_numbers(system, rng)
    dense = saddle.dense_inverse_mass(system, Minv)
    flat = np.concatenate([dense[6 * b : 6 * b + 6, 6 * b : 6 * b + 6].ravel() for b in range(nb)])
    F, r = _sides(system, rng)
    C = np.zeros(len(r))
    _, a, lam, _ = _solved(system, Minv, J, C, F, r)
    _, b, other, _ = _solved(system, flat, J, C, F, r)
    assert _close(a, b) < 1e-12
    assert _close(lam, other) < 1e-12


def test_balls_by_their_levers(rng):
    """Ball joints given by levers and signs make the same A, and the same measure of pivots, as their rows do."""
    incidences, _ = net(5)
    nb = 1 + max(b for t in incidences for b in t)
    system = system_of(incidences, [3] * len(incidences), [6] * nb)
    Minv, _ = rigid_numbers(system, rng)
    levers = np.hstack(
        [rng.normal(size=(len(system.incidence_body), 3)), rng.choice([-1.0, 1.0], (len(system.incidence_body), 1))]
    )
    J = np.concatenate([s[3] * np.hstack([-skew(s[:3]), np.eye(3)]).ravel() for s in levers])
    C = np.where(rng.random(3 * len(incidences)) < 0.5, 0.2, 0.0)
    structure = prepare(system)
    wanted, work = new_work(system, structure), new_work(system, structure)
    assembly.assemble(system, structure, Minv, J, C, wanted)
    assembly.assemble_ball_joints(structure, Minv, levers, C, work)
    assert _close(work.values, wanted.values) < 1e-14
    assert _close(work.pivots, wanted.pivots) < 1e-14
    b = rng.normal(size=len(C))
    lam = np.zeros(len(b))
    assert sparse.factor(structure, work) == 0
    sparse.solve(structure, work, b, lam)
    assert _close(lam, np.linalg.solve(saddle.dense_matrix(system, Minv, J, C), b)) < 1e-10


def _four_bar(tilt):
    """Return system, rows and the joints of a planar four-bar with three links on four 3-D hinges, turned in space."""
    turned, _ = np.linalg.qr(np.array([[1.0, tilt, 0.3 * tilt], [-tilt, 1.0, tilt], [0.2 * tilt, -tilt, 1.0]]))
    turned = turned[
        [2, 0, 1]
    ]  # normal nearly along x: the first row of each joint is nearly redundant, a trap for pivots
    points = np.array([[0.0, 0.0, 0.0], [0.3, 1.0, 0.0], [1.6, 1.2, 0.0], [2.0, 0.0, 0.0]]) @ turned.T
    centers = (points[:-1] + points[1:]) / 2
    incidences = [[0], [0, 1], [1, 2], [2]]
    axis = turned @ np.array([0.0, 0.0, 1.0])
    system = system_of(incidences, [5] * 4, [6] * 3)
    return system, joint_rows(incidences, [axis] * 4, points, centers)


@pytest.mark.parametrize("tilt", [0.0, 1e-8, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.3, 1.0])
def test_four_bar_drops_its_three_redundant_rows(tilt, rng):
    """A planar four-bar with 3-D hinges drops three rows, however it lies in space, and is solved to 1e-9."""
    system, J = _four_bar(tilt)
    Minv, _ = rigid_numbers(system, rng)
    rows = saddle.dense_rows(system, J)
    F = rng.normal(size=18)
    r = rows @ rng.normal(size=18)  # consistent
    C = np.zeros(20)
    status, a, lam, work = _solved(system, Minv, J, C, F, r)
    wanted, _ = saddle.solve_saddle(system, Minv, J, C, F, r)
    assert status == 3
    assert len(set(work.dropped[:3].tolist())) == 3
    assert (lam[work.dropped[:3]] == 0.0).all()
    assert _close(a, wanted) < 1e-9
    assert np.abs(rows @ a + r).max() < 1e-9


@pytest.mark.parametrize("kind", ["tread", "lattice", "flat net"])
def test_planar_mechanisms_drop_as_many_rows_as_rank_is_missing(kind, rng):
    """A tread, a lattice of hinged rods and a flat net of balls, turned in space, drop exactly what the rank lacks."""
    turned, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    if kind == "tread":
        angles = np.arange(60) * 2.0 * np.pi / 60
        points = np.stack([np.cos(angles), np.sin(angles), 0.0 * angles], 1) @ turned.T
        centers = (points + np.roll(points, -1, 0)) / 2
        incidences = [[i - 1 if i else 59, i] for i in range(60)]
    else:
        incidences, positions = net(5)
        centers = np.hstack([positions, np.zeros((len(positions), 1))]) @ turned.T
        points = [(centers[t[0]] + centers[t[-1]]) / 2 for t in incidences]
    axis = "ball" if kind == "flat net" else turned[:, 2]
    system = system_of(incidences, [3 if kind == "flat net" else 5] * len(incidences), [6] * len(centers))
    J = joint_rows(incidences, [axis] * len(incidences), points, centers)
    Minv, _ = rigid_numbers(system, rng)
    rows = saddle.dense_rows(system, J)
    F, r = rng.normal(size=rows.shape[1]), rows @ rng.normal(size=rows.shape[1])
    C = np.zeros(len(r))
    status, a, _, _ = _solved(system, Minv, J, C, F, r)
    assert status == len(r) - np.linalg.matrix_rank(saddle.dense_matrix(system, Minv, J, C), rtol=1e-11)
    assert status >= 3
    assert _close(a, saddle.solve_saddle(system, Minv, J, C, F, r)[0]) < 1e-9


def test_doubled_joints_are_dropped_by_rank(rng):
    """When every constraint of a net stands twice, exactly the doubles are dropped and the motion is unchanged."""
    incidences, _ = net(4)
    nb, nc = 1 + max(b for t in incidences for b in t), len(incidences)
    single = system_of(incidences, [3] * nc, [6] * nb)
    Minv, J = rigid_numbers(single, rng)
    double = system_of(incidences + incidences, [3] * (2 * nc), [6] * nb)
    F, r = _sides(single, rng)
    _, wanted, _, _ = _solved(single, Minv, J, np.zeros(len(r)), F, r)
    status, a, lam, work = _solved(double, Minv, np.tile(J, 2), np.zeros(2 * len(r)), F, np.tile(r, 2))
    assert status == 3 * nc
    assert len(set(work.dropped[:status].tolist())) == status
    assert (lam[work.dropped[:status]] == 0.0).all()
    assert _close(a, wanted) < 1e-9


def test_scale_of_rows_does_not_decide(rng):
    """Rows in other units are neither dropped nor kept for it: as many go, and the motion is the same."""
    system, J = _four_bar(0.3)
    Minv, _ = rigid_numbers(system, rng)
    scale = 10.0 ** rng.integers(-5, 6, 20)
    scaled = saddle.dense_rows(system, J) * scale[:, None]
    other = np.concatenate(
        [
            scaled[5 * i : 5 * i + 5, 6 * b : 6 * b + 6].ravel()
            for i in range(4)
            for b in system.incidence_body[system.incidence_start[i] : system.incidence_start[i + 1]]
        ]
    )
    F, r = rng.normal(size=18), saddle.dense_rows(system, J) @ rng.normal(size=18)
    first = _solved(system, Minv, J, np.zeros(20), F, r)
    second = _solved(system, Minv, other, np.zeros(20), F, r * scale)
    assert first[0] == second[0] == 3
    assert _close(second[1], first[1]) < 1e-9


def test_held_bodies_and_empty_constraints(rng):
    """Inverse mass 0 fixes a body; rows between fixed bodies, or on none, get multiplier 0 and disturb nothing."""
    incidences = [[0, 1], [1, 2], [2, 3], [3, 4], []]
    system = system_of(incidences, [3, 3, 3, 3, 2], [6] * 5)
    Minv, J = rigid_numbers(system, rng)
    Minv[3:] = 0.0
    F, r = _sides(system, rng)
    status, a, lam, work = _solved(system, Minv, J, np.zeros(14), F, r)
    assert status == 5
    assert sorted(work.dropped[:5].tolist()) == [9, 10, 11, 12, 13]
    assert (lam[9:] == 0.0).all()
    assert (a[18:] == 0.0).all()
    rows = saddle.dense_rows(system, J)
    assert np.abs((rows @ a + r)[:9]).max() < 1e-10
    _, a, lam, _ = _solved(system, Minv, J, np.full(14, 0.5), F, r)
    assert np.abs(rows @ a + 0.5 * lam + r).max() < 1e-10  # with compliance all rows have an effect


def test_written_out_path_has_the_same_factor(rng):
    """Columns of 3x3 blocks are factored to the same bits by the path for any size, and solved to rounding."""
    incidences, _ = net(6)
    nb = 1 + max(b for t in incidences for b in t)
    system = system_of(incidences, [3] * len(incidences), [6] * nb)
    Minv, J = rigid_numbers(system, rng)
    _, r = _sides(system, rng)
    structure = prepare(system)
    slow = structure._replace(only_3x3=np.zeros_like(structure.only_3x3))
    results = []
    for which in (structure, slow):
        work = new_work(system, which)
        lam = r.copy()
        assembly.assemble(system, which, Minv, J, np.zeros(len(r)), work)
        assert sparse.factor(which, work) == 0
        sparse.solve(which, work, lam, lam)  # in place
        results.append((work.values, lam))
    assert structure.only_3x3.all()
    assert results[0][0].tobytes() == results[1][0].tobytes()
    assert _close(results[0][1], results[1][1]) < 1e-12


def test_same_bits_again_and_in_used_arrays(rng):
    """A solve leaves nothing behind: after another system, even one of NaN, the same input gives the same bits."""
    system = _mixed("loops", rng)
    Minv, J = flat_numbers(system, rng)
    F, r = _sides(system, rng)
    C = np.zeros(len(r))
    structure = prepare(system)
    work = new_work(system, structure)
    outs = []
    for bad in (False, True, False):
        a, lam = np.zeros(len(F)), np.zeros(len(r))
        sparse.solve_saddle(system, structure, Minv, J * (np.nan if bad else 1.0), C, F, r, work, a, lam)
        outs.append(a.tobytes() + lam.tobytes())
    assert outs[0] == outs[2] != outs[1]


def test_numbers_that_are_not_finite_name_a_constraint(rng):
    """NaN or infinity in the rows gives a negative status that names a constraint, and leaves the results alone."""
    system = system_of(chain(9), [3] * 9, [6] * 9)
    Minv, J = rigid_numbers(system, rng)
    F, r = _sides(system, rng)
    for bad in (np.nan, np.inf):
        spoiled = J.copy()
        spoiled[system.block_start[8]] = bad
        status, a, lam, _ = _solved(system, Minv, spoiled, np.zeros(27), F, r)
        assert -9 <= status <= -1
        assert not a.any()
        assert not lam.any()


def test_refinement_shrinks_the_residual(rng):
    """With mass ratios of 1e8 one refinement leaves no larger residual, and takes a spoiled solution back."""
    incidences = loops(40, 10, rng)
    system = system_of(incidences, [3] * len(incidences), [6] * 40)
    Minv, J = rigid_numbers(system, rng)
    Minv *= 10.0 ** rng.uniform(-4, 4, (40, 1))
    b = rng.normal(size=3 * len(incidences))
    C = np.zeros(len(b))
    A = saddle.dense_matrix(system, Minv, J, C)
    structure = prepare(system)
    work = new_work(system, structure)
    lam = np.zeros(len(b))
    assembly.assemble(system, structure, Minv, J, C, work)
    assert sparse.factor(structure, work) == 0
    sparse.solve(structure, work, b, lam)
    exact = lam.copy()
    lam *= 1.0 + 1e-3 * rng.normal(size=len(b))
    before = np.abs(b - A @ lam).max()
    sparse.refine(system, structure, Minv, J, C, b, work, lam)
    assert np.abs(b - A @ lam).max() < 1e-6 * before
    assert _close(lam, exact) < 1e-6


def test_factor_serves_other_right_hand_sides(rng):
    """One factor solves for any forces and rates: `solve_factored` gives what `solve_saddle` gives."""
    system = _mixed("loops", rng)
    Minv, J = flat_numbers(system, rng)
    structure = prepare(system)
    work = new_work(system, structure)
    F, r = _sides(system, rng)
    C = np.zeros(len(r))
    a, lam = np.zeros(len(F)), np.zeros(len(r))
    sparse.solve_saddle(system, structure, Minv, J, C, F, r, work, a, lam)
    for _ in range(2):
        F, r = _sides(system, rng)
        sparse.solve_factored(system, structure, Minv, J, C, F, r, 1, work, a, lam)
        wanted, multipliers = saddle.solve_saddle(system, Minv, J, C, F, r)
        assert _close(a, wanted) < 1e-10
        assert _close(lam, multipliers) < 1e-10


def test_any_order_solves(rng):
    """The order of elimination changes the work, not the solution."""
    incidences = loops(30, 10, rng)
    system = system_of(incidences, [3] * 40, [6] * 30)
    Minv, J = rigid_numbers(system, rng)
    F, r = _sides(system, rng)
    wanted, _ = saddle.solve_saddle(system, Minv, J, np.zeros(120), F, r)
    best = order_constraints(system)
    order = rng.permutation(40)
    later = np.array([len(s) for s in saddle.eliminated(system, order)[0]])
    worse = best._replace(order=order, later=later, blocks=int((later + 1).sum()),
                          updates=int((later * (later + 1) // 2).sum()))  # fmt: skip
    structure = prepare(system, worse)
    a, lam = np.zeros(len(F)), np.zeros(len(r))
    work = new_work(system, structure)
    assert sparse.solve_saddle(system, structure, Minv, J, np.zeros(120), F, r, work, a, lam) == 0
    assert worse.updates > best.updates
    assert _close(a, wanted) < 1e-10
