"""Complementarity problems against enumeration, SciPy, and the laws their solutions keep."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.optimize
from tests.naive.complementarity import enumerate_states, faults

from limberjack.errors import StateError
from limberjack.linear.dense import TOLERANCE
from limberjack.linear.lcp import (
    AT_HIGH,
    AT_LOW,
    FAILED,
    FREE,
    INFEASIBLE,
    REDUNDANT,
    SOLVED,
    complementarity,
    new_workspace,
    solve_lcp,
)

inf = np.inf


def bounds(rng, n, unit=1.0):
    """Return random bounds: none, from 0 up, a box around 0, a box from 0."""
    kind = rng.integers(0, 4, n)
    lo = np.select([kind == 0, kind == 2], [-inf, -rng.random(n) * unit], 0.0)
    hi = np.where(kind < 2, inf, rng.random(n) * unit)
    return lo, hi


def problem(rng, n, rank, decades=0.0):
    """Return (A, b, lo, hi, G, c): least squares |G f - c| between bounds, which always has a solution."""
    g = rng.normal(size=(rank, n)) * 10.0 ** rng.uniform(-decades, decades, n)
    c = rng.normal(size=rank)
    a = g.T @ g
    return (a + a.T) / 2.0, -g.T @ c, *bounds(rng, n, 1.0 / np.sqrt(np.diagonal(a))), g, c


@pytest.mark.parametrize("decades", [0.0, 8.0])
@pytest.mark.parametrize("deficient", [False, True])
def test_conditions_hold(deficient, decades, rng):
    """In 2500 random problems of up to 40 rows all conditions hold to 1e-9, rank-deficient or not, at any scale."""
    work = new_workspace(40)
    for _ in range(2500):
        n = int(rng.integers(1, 41))
        rank = int(rng.integers(1, n + 1)) if deficient else n + 1
        a, b, lo, hi, *_ = problem(rng, n, rank, decades)
        state, f, w = np.zeros(n, np.int8), np.zeros(n), np.zeros(n)
        assert solve_lcp(n, TOLERANCE, a, b, lo, hi, work, state, f, w) == SOLVED
        assert faults(a, b, lo, hi, f).max() <= 1e-9
        assert np.all(f[state == AT_LOW] == lo[state == AT_LOW]) and np.all(f[state == AT_HIGH] == hi[state == AT_HIGH])


@pytest.mark.parametrize("whole", [False, True])
def test_against_enumeration(whole, rng):
    """Up to 5 rows, problems are solved exactly when some choice of states is right, with its w; ties included."""
    statuses = []
    for _ in range(400):
        n = int(rng.integers(1, 6))
        rank = int(rng.integers(1, n + 1))
        if whole:
            g, b = rng.integers(-2, 3, (rank, n)).astype(float), rng.integers(-2, 3, n).astype(float)
        else:
            g, b = rng.normal(size=(rank, n)), rng.normal(size=n)
        if rng.random() < 0.5:
            b = g.T @ rng.integers(-2, 3, rank)
        a, (lo, hi) = g.T @ g, bounds(rng, n)
        found, wanted = complementarity(a, b, lo, hi), enumerate_states(a, b, lo, hi)
        assert found.status == (INFEASIBLE if wanted is None else SOLVED)
        if wanted is not None:
            assert np.allclose(found.w, a @ wanted + b, atol=1e-8)
            assert faults(a, b, lo, hi, found.f).max() <= 1e-9
        statuses.append(found.status)
    assert min(statuses.count(SOLVED), statuses.count(INFEASIBLE)) > 10


@pytest.mark.parametrize("deficient", [False, True])
def test_against_bounded_least_squares(deficient, rng):
    """The w of larger problems is the gradient SciPy's bounded least squares ends with."""
    for _ in range(40):
        n = int(rng.integers(10, 41))
        rank = int(rng.integers(n // 2, n)) if deficient else n + 3
        a, b, lo, hi, g, c = problem(rng, n, rank)
        wanted = scipy.optimize.lsq_linear(g, c, (lo, hi), method="bvls", tol=1e-14)
        found = complementarity(a, b, lo, hi)
        assert np.abs(found.w - g.T @ (g @ wanted.x - c)).max() <= 1e-8 * np.abs(b).max()
        if not deficient:
            assert np.abs(found.f - wanted.x).max() <= 1e-7 * np.abs(wanted.x).max()


def test_against_nnls(rng):
    """With f >= 0 alone and A positive definite, forces are those of SciPy's nonnegative least squares."""
    for n in (1, 3, 10, 60):
        g, c = rng.normal(size=(n + 5, n)), rng.normal(size=n + 5)
        found = complementarity(g.T @ g, -g.T @ c)
        assert np.allclose(found.f, scipy.optimize.nnls(g, c)[0], atol=1e-9)


def test_infeasible_problems_have_a_certificate(rng):
    """A problem is called infeasible exactly when some direction changes no w and lowers b^T f without end."""
    statuses = []
    for _ in range(150):
        n = int(rng.integers(4, 16))
        g = rng.integers(-1, 2, (int(rng.integers(1, n + 1)), n)).astype(float)
        b = -g.T @ rng.integers(-2, 3, len(g)) + rng.integers(0, 2, n) * (rng.random() < 0.7)
        a, (lo, hi) = g.T @ g, bounds(rng, n)
        allowed = np.column_stack([np.where(lo > -inf, 0.0, -1.0), np.where(hi < inf, 0.0, 1.0)])
        lowest = scipy.optimize.linprog(b, A_eq=g, b_eq=np.zeros(len(g)), bounds=allowed).fun
        found = complementarity(a, b, lo, hi)
        assert found.status == (INFEASIBLE if lowest < -1e-9 else SOLVED)
        assert np.any(found.state == FAILED) == (found.status == INFEASIBLE)
        statuses.append(found.status)
    assert min(statuses.count(SOLVED), statuses.count(INFEASIBLE)) > 10


def test_other_rows_are_solved_where_one_fails(rng):
    """A row that cannot be satisfied is given up; the rows it has nothing to do with have their solution."""
    a, b, lo, hi, *_ = problem(rng, 12, 13)
    alone = complementarity(a, b, lo, hi)
    large = np.zeros((13, 13))
    large[:12, :12] = a
    found = complementarity(large, np.append(b, -1.0), np.append(lo, 0.0), np.append(hi, inf))
    assert (alone.status, found.status) == (SOLVED, INFEASIBLE)
    assert list(np.flatnonzero(found.state == FAILED)) == [12]
    assert np.allclose(found.f[:12], alone.f, rtol=1e-9, atol=1e-12) and found.w[12] == -1.0


def test_a_guess_saves_pivots(rng):
    """From the states of the solution no pivot is left; from those of a similar problem few; w is the same."""
    cold = warm = 0
    for _ in range(100):
        n = int(rng.integers(5, 41))
        a, b, lo, hi, *_ = problem(rng, n, n + 1)
        first = complementarity(a, b, lo, hi)
        again = complementarity(a, b, lo, hi, guess=first.state)
        assert again.pivots == 0 and np.array_equal(again.state, first.state)
        assert np.allclose(again.f, first.f, rtol=1e-8, atol=1e-10 * np.abs(first.f).max())
        moved = b * (1.0 + 0.02 * rng.normal(size=n))
        plain, guessed = complementarity(a, moved, lo, hi), complementarity(a, moved, lo, hi, guess=first.state)
        assert np.abs(plain.w - guessed.w).max() <= 1e-9 * np.abs(b).max()
        cold, warm = cold + plain.pivots, warm + guessed.pivots
    assert warm < 0.4 * cold


def test_any_guess_is_good(rng):
    """Guesses that are wrong in every way lead to the same w, also where A is singular and rows are equalities."""
    for _ in range(300):
        n = int(rng.integers(1, 31))
        a, b, lo, hi, *_ = problem(rng, n, int(rng.integers(1, n + 2)))
        plain = complementarity(a, b, lo, hi)
        found = complementarity(a, b, lo, hi, guess=rng.integers(0, 6, n))
        assert found.status == SOLVED and faults(a, b, lo, hi, found.f).max() <= 1e-9
        assert np.abs(plain.w - found.w).max() <= 1e-8 * np.abs(b).max()


def test_units_of_rows_do_not_matter(rng):
    """Rows in units that differ by powers of two give the same states, pivots and, unit by unit, bits."""
    for _ in range(100):
        n = int(rng.integers(2, 31))
        a, b, lo, hi, *_ = problem(rng, n, int(rng.integers(n // 2, n + 2)))
        units = 2.0 ** rng.integers(-26, 27, n)
        plain = complementarity(a, b, lo, hi)
        scaled = complementarity(a * np.outer(units, units), b * units, lo / units, hi / units)
        assert np.array_equal(plain.state, scaled.state) and plain.pivots == scaled.pivots
        assert np.array_equal(plain.f, scaled.f * units) and np.array_equal(plain.w * units, scaled.w)


def test_work_grows_with_the_cube(rng):
    """Pivots are fewer than 2 per row and multiplications fewer than n^3, from 8 rows to 256."""
    for n in (8, 32, 128, 256):
        a, b, *_ = problem(rng, n, n + 3)
        found = complementarity(a, b)
        assert 0.2 * n <= found.pivots <= 2 * n
        assert found.products <= n**3
        assert np.sum(found.state == FREE) >= 0.2 * n


@pytest.mark.parametrize("copies", [2, 5])
def test_copies_of_rows(copies, rng):
    """Rows that stand there several times, scaled or not, give the w of one and forces that add up to its force."""
    a, b, *_ = problem(rng, 8, 10)
    alone = complementarity(a, b)
    unit = np.repeat([1.0, 3.0, 0.5, 1.0, 7.0][:copies], 8)
    found = complementarity(np.tile(a, (copies, copies)) * np.outer(unit, unit), np.tile(b, copies) * unit)
    assert found.status == SOLVED and np.all(found.f >= 0.0)
    assert np.allclose((found.f * unit).reshape(copies, 8).sum(0), alone.f, atol=1e-9)
    assert np.allclose(found.w, np.tile(alone.w, copies) * unit, atol=1e-9)


def test_redundant_equalities_are_named(rng):
    """Of equalities that repeat others the later part is left out with no force; if they contradict, rows fail."""
    g = rng.normal(size=(3, 3))
    rows = np.vstack([g, g[0] + g[1], 2.0 * g[2], g.sum(0)])
    a, b = rows @ rows.T, rows @ rng.normal(size=3)
    found = complementarity(a, b, -inf, inf)
    assert found.status == SOLVED and len(found.redundant) == 3 and np.all(found.f[found.redundant] == 0.0)
    assert np.abs(found.w).max() <= 1e-12 * np.abs(b).max() and found.pivots == 0
    found = complementarity(a, b + [0, 0, 0, 0, 0, 1], -inf, inf)
    assert found.status == INFEASIBLE and np.sum(found.state == FAILED) >= 1
    assert np.abs(found.w[found.state == FREE]).max() <= 1e-12 * np.abs(b).max()


def test_problems_without_a_matrix():
    """No rows; rows without mass: w = b decides alone, boxes go to their ends and the rest has no solution."""
    nothing = complementarity(np.zeros((0, 0)), [])
    assert nothing.status == SOLVED and len(nothing.f) == 0
    zero = np.zeros((2, 2))
    assert complementarity(zero, [0.0, 2.0]).status == SOLVED
    found = complementarity(zero, [1.0, -2.0])
    assert found.status == INFEASIBLE and list(found.state) == [AT_LOW, FAILED]
    found = complementarity(zero, [1.0, -2.0], -3.0, 4.0)
    assert found.status == SOLVED and list(found.f) == [-3.0, 4.0] and list(found.state) == [AT_LOW, AT_HIGH]
    found = complementarity(zero, [0.0, 0.0], -inf, inf)
    assert found.status == SOLVED and list(found.redundant) == [0, 1]
    assert complementarity(zero, [0.0, 1e-300], -inf, inf).status == INFEASIBLE


def test_bounds_of_every_kind():
    """One row at a time: between, at either end, held by equal bounds, bounded on one side, away from 0."""
    for b, lo, hi, f, state in [
        (-1.0, 0.0, inf, 0.5, FREE),
        (1.0, 0.0, inf, 0.0, AT_LOW),
        (1.0, -inf, 0.0, -0.5, FREE),
        (-1.0, -inf, 0.0, 0.0, AT_HIGH),
        (1.0, -0.25, 0.25, -0.25, AT_LOW),
        (-0.2, -0.25, 0.25, 0.1, FREE),
        (0.0, -1.0, 1.0, 0.0, FREE),
        (5.0, 3.0, 4.0, 3.0, AT_LOW),
        (-7.0, 3.0, 4.0, 3.5, FREE),
        (-9.0, 2.0, 2.0, 2.0, AT_LOW),
        (-9.0, -inf, inf, 4.5, FREE),
    ]:
        found = complementarity([[2.0]], [b], [lo], [hi])
        assert (found.status, found.f[0], found.w[0], found.state[0]) == (SOLVED, f, 2.0 * f + b, state)


def test_kernel_keeps_its_inputs_and_ignores_old_contents(rng):
    """A, b and bounds stay as they are; larger arrays full of old numbers give the same bits as new ones."""
    n, m = 14, 20
    a, b, lo, hi, *_ = problem(rng, n, 9)
    wanted = complementarity(a, b, lo, hi)
    work = new_workspace(m)
    for array in work:
        array[...] = np.nan if array.dtype == float else 3
    given = [np.full((m, m), np.nan), *(np.full(m, np.nan) for _ in range(3))]
    given[0][:n, :n] = a
    for array, values in zip(given[1:], (b, lo, hi), strict=True):
        array[:n] = values
    kept = [array.copy() for array in given]
    state, f, w = np.zeros(m, np.int8), np.full(m, np.nan), np.full(m, np.nan)
    assert solve_lcp(n, TOLERANCE, *given, work, state, f, w) == SOLVED
    assert all(np.array_equal(x, y, equal_nan=True) for x, y in zip(given, kept, strict=True))
    assert np.array_equal(f[:n], wanted.f) and np.array_equal(w[:n], wanted.w)
    assert np.array_equal(state[:n], wanted.state) and np.isnan(f[n:]).all() and not state[n:].any()


@pytest.mark.parametrize("where", [0, 1])
def test_numbers_that_are_not_end_it(where, rng):
    """A NaN in A or b neither hangs the kernel nor passes for a solution."""
    a, b, lo, hi, *_ = problem(rng, 10, 11)
    (a, b)[where][..., 4] = np.nan
    assert (
        solve_lcp(10, TOLERANCE, a, b, lo, hi, new_workspace(10), np.zeros(10, np.int8), *np.zeros((2, 10))) != SOLVED
    )


def test_matrices_known_to_thirteen_digits(rng):
    """Errors of 1e-13 in A and b, which leave singular matrices slightly indefinite, change neither status nor bar."""
    for _ in range(300):
        n = int(rng.integers(5, 41))
        a, b, lo, hi, *_ = problem(rng, n, int(rng.integers(1, n)))
        root, error = np.sqrt(np.diagonal(a)), rng.normal(size=(n, n))
        a = a + 1e-13 * (error + error.T) * np.outer(root, root)
        b = b + 1e-13 * rng.normal(size=n) * root
        found = complementarity(a, b, lo, hi)
        assert found.status == SOLVED and faults(a, b, lo, hi, found.f).max() <= 1e-8
        assert found.pivots <= 5 * n


def test_nearly_parallel_rows(rng):
    """Rows 1e-7 rad apart, closer than the tolerance tells apart, hold to that angle and never exhaust the pivots."""
    for _ in range(200):
        n = int(rng.integers(2, 30))
        g = rng.normal(size=(n, 2 * n))
        g[:, n:] = g[:, :n] + 1e-7 * rng.normal(size=(n, n))
        a, b, (lo, hi) = g.T @ g, -g.T @ rng.normal(size=n), bounds(rng, 2 * n)
        found = complementarity(a, b, lo, hi)
        assert found.status == SOLVED and faults(a, b, lo, hi, found.f).max() <= 1e-4


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (([[1.0, 2.0]], [1.0]), "expected a square"),
        ((np.eye(2), [1.0, 2.0, 3.0]), "b has shape"),
        (([[2.0, 1.0], [0.0, 2.0]], [1.0, 1.0]), r"not symmetric: a\[0, 1\] is 1, a\[1, 0\] is 0"),
        (([[1.0, 2.0], [2.0, 1.0]], [1.0, 1.0]), "not positive semidefinite"),
        (([[-1.0]], [1.0]), "not positive semidefinite"),
        (([[np.nan]], [1.0]), "finite"),
        (([[1.0]], [np.inf]), "finite"),
        (([[1.0]], [1.0], [2.0], [1.0]), "row 0 has no force between lo 2 and hi 1"),
        (([[1.0]], [1.0], [np.nan]), r"lo\[0\] is not a number"),
    ],
)
def test_what_cannot_be_is_refused(arguments, words):
    """Arrays of wrong shapes, numbers that are not, matrices and bounds that cannot be raise an error that says so."""
    with pytest.raises(StateError, match=words):
        complementarity(*arguments)


def test_states_name_what_rows_do(rng):
    """Every row of a solved problem is free with w = 0, rests at a bound, or is redundant: nothing else is left."""
    for _ in range(50):
        n = int(rng.integers(1, 31))
        a, b, lo, hi, *_ = problem(rng, n, int(rng.integers(1, n + 1)))
        found = complementarity(a, b, lo, hi)
        assert set(found.state) <= {FREE, AT_LOW, AT_HIGH, REDUNDANT}
        assert np.array_equal(found.redundant, np.flatnonzero(found.state == REDUNDANT))
        assert np.linalg.matrix_rank(a[np.ix_(found.state == FREE, found.state == FREE)]) == np.sum(found.state == FREE)
