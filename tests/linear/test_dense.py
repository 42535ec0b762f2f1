"""Dense solves of any rank against their definitions and NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from tests.linear import wrapped
from tests.naive.dense import keep_rows

from limberjack.linear.dense import TOLERANCE

SHAPES = [(1, 1), (2, 1), (3, 3), (6, 2), (12, 12), (20, 13), (40, 40), (40, 7)]


def semidefinite(rng, n, rank, decades=0.0):
    """Return a random symmetric matrix of a rank, rows spread over decades of scale, and its factor G, A = G^T G."""
    g = rng.normal(size=(rank, n)) * 10.0 ** rng.uniform(-decades, decades, n)
    a = g.T @ g
    return (a + a.T) / 2.0, g


@pytest.mark.parametrize("decades", [0.0, 8.0])
@pytest.mark.parametrize(("n", "rank"), SHAPES)
def test_factor_keeps_the_most_independent_rows(n, rank, decades, rng):
    """Rank and order of the rows kept are those of the definition, whatever the scale of rows."""
    a, _ = semidefinite(rng, n, rank, decades)
    found, _, order, diagonal = wrapped.factor_psd(n, TOLERANCE, a)
    assert found == rank
    assert list(order[:rank]) == keep_rows(a, 1e-9)
    assert sorted(order) == list(range(n)) and np.array_equal(diagonal, np.diagonal(a))


@pytest.mark.parametrize("decades", [0.0, 8.0])
@pytest.mark.parametrize(("n", "rank"), SHAPES)
def test_consistent_systems_are_solved(n, rank, decades, rng):
    """A x = b holds in all rows, redundant rows have x = 0; only the lower half of the leading part is read."""
    a, g = semidefinite(rng, n, rank, decades)
    b = g.T @ rng.normal(size=rank)
    large = np.full((n + 3, n + 3), np.nan)
    large[:n, :n] = np.tril(a) + np.triu(np.full((n, n), np.nan), 1)
    found, factor, order, _ = wrapped.factor_psd(n, TOLERANCE, large)
    worst, x, left = wrapped.solve_psd(n, found, factor, order, np.append(b, [np.nan] * 3))
    level = np.abs(b) + np.abs(a) @ np.abs(x[:n])
    assert found == rank and np.all(x[order[rank:n]] == 0.0)
    assert np.all(np.abs(a @ x[:n] - b) <= 1e-11 * level)
    assert np.all(np.abs(left[:n]) <= 1e-11 * level) and worst == np.abs(left[:n]).max()


def test_inconsistency_is_reported(rng):
    """Where redundant rows contradict the others, the rows kept hold and b - A x stands in the redundant ones."""
    a, g = semidefinite(rng, 9, 4)
    b = g.T @ rng.normal(size=4) + rng.normal(size=9)
    rank, factor, order, _ = wrapped.factor_psd(9, TOLERANCE, a)
    worst, x, left = wrapped.solve_psd(9, rank, factor, order, b)
    assert np.allclose(left, b - a @ x, atol=1e-12) and np.all(left[order[:rank]] == 0.0)
    assert worst == np.abs(left).max() > 0.1


def test_one_of_parallel_rows_carries_all():
    """Of three copies of one row the first carries all, the others are redundant."""
    a, b = np.ones((3, 3)), np.full(3, 6.0)
    rank, factor, order, _ = wrapped.factor_psd(3, TOLERANCE, a)
    _, x, _ = wrapped.solve_psd(3, rank, factor, order, b)
    assert rank == 1 and list(x) == [6.0, 0.0, 0.0] and list(order[1:]) == [1, 2]


def test_units_of_rows_do_not_matter(rng):
    """Rows in units that differ by powers of two give the same order and, unit by unit, the same bits."""
    a, g = semidefinite(rng, 15, 9)
    b = g.T @ rng.normal(size=9)
    units = 2.0 ** rng.integers(-25, 26, 15)
    plain, scaled = wrapped.factor_psd(15, TOLERANCE, a), wrapped.factor_psd(15, TOLERANCE, a * np.outer(units, units))
    assert plain[0] == scaled[0] and np.array_equal(plain[2], scaled[2])
    x, y = (wrapped.solve_psd(15, f[0], f[1], f[2], side)[1] for f, side in ((plain, b), (scaled, b * units)))
    assert np.array_equal(x, y * units)


def test_matrices_without_rank():
    """Size 0, zeros, and numbers that are not: no row is kept, and what is wrong is seen in the result."""
    assert wrapped.factor_psd(0, TOLERANCE, np.zeros((0, 0)))[0] == 0
    rank, factor, order, _ = wrapped.factor_psd(2, TOLERANCE, np.zeros((2, 2)))
    worst, x, left = wrapped.solve_psd(2, rank, factor, order, np.array([0.0, -3.0]))
    assert (rank, worst, list(x), list(left)) == (0, 3.0, [0.0, 0.0], [0.0, -3.0])
    rank, factor, order, _ = wrapped.factor_psd(2, TOLERANCE, np.full((2, 2), np.nan))
    assert rank == 0 and np.isnan(wrapped.solve_psd(2, rank, factor, order, np.full(2, np.nan))[0])


@pytest.mark.parametrize("decades", [0.0, 8.0])
@pytest.mark.parametrize(("m", "n", "rank"), [(1, 1, 1), (4, 4, 4), (9, 9, 5), (5, 12, 4), (12, 5, 5), (30, 30, 30)])
def test_general_systems(m, n, rank, decades, rng):
    """Unsymmetric systems of any shape: rank, zeros in redundant columns, A x = b, faults of redundant rows alone."""
    left, right = (10.0 ** rng.uniform(-decades, decades, k) for k in (m, n))
    a = left[:, None] * (rng.normal(size=(m, rank)) @ rng.normal(size=(rank, n))) * right
    b = a @ (rng.normal(size=n) / right)
    found, rows, columns, worst, x, fault = wrapped.solve_general(m, n, TOLERANCE, a, b)
    level = np.abs(a) @ np.abs(x) + np.abs(b)
    assert found == rank and np.all(x[columns[rank:]] == 0.0)
    assert np.all(np.abs(a @ x - b) <= 1e-11 * level) and worst <= 1e-11 * level.max()
    wrong = b + left * rng.normal(size=m)
    found, rows, columns, worst, x, fault = wrapped.solve_general(m, n, TOLERANCE, a, wrong)
    level = np.abs(a) @ np.abs(x) + np.abs(wrong)
    assert np.all(np.abs(wrong - a @ x - fault) <= 1e-11 * level) and np.all(fault[rows[:rank]] == 0.0)
    assert worst == np.abs(fault).max()


def test_rows_join_and_leave_the_factor(rng):
    """After any sequence of rows that join and leave, the factor solves as one made anew."""
    n = 24
    a, _ = semidefinite(rng, n, n + 4)
    inside, moves = [], []
    for step in range(200):
        i = int(rng.integers(n))
        moves.append(-1 - i if i in inside else i)
        inside.remove(i) if i in inside else inside.append(i)
        if step % 10 == 9:
            b = rng.normal(size=n)
            active, index, x = wrapped.activate_and_solve(a, np.array(moves), b)
            wanted = np.linalg.solve(a[np.ix_(inside, inside)], b[inside])
            assert list(active) == inside and list(index[inside]) == list(range(len(inside)))
            assert np.sum(index < 0) == n - len(inside)
            assert np.abs(x - wanted).max(initial=0.0) <= 1e-9 * np.abs(wanted).max(initial=0.0)
