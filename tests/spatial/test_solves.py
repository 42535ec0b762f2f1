"""Vectors, symmetric matrices and small solves against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from tests.spatial.wrapped import solve_3, solve_ldl, vector_results


def positive(rng, n):
    """Return a random symmetric positive definite matrix."""
    a = rng.normal(size=(n, n))
    return a @ a.T + 0.1 * np.eye(n)


def test_vectors_and_matrices(rng):
    """Cross products and products with matrices, transposes and symmetric matrices are NumPy's."""
    for _ in range(20):
        a, b = rng.normal(size=(2, 3))
        m, n = rng.normal(size=(2, 3, 3))
        s = positive(rng, 3)
        turned = m @ s @ m.T
        wanted = (
            np.cross(a, b), m @ a, m.T @ a, (m @ n).ravel(), s @ a,
            turned[[0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]],
        )  # fmt: skip
        for x, y in zip(vector_results(a, b, m, n, s), wanted, strict=True):
            assert np.allclose(x, y, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 6, 20])
@pytest.mark.parametrize("first", [0, 4])
def test_ldl_solves(n, first, rng):
    """Factor and solve of a block that starts at any row give A^-1 x; only the lower half is read."""
    a = positive(rng, n)
    block = np.full((n + first, max(n, 1)), np.nan)
    block[first:, :n] = np.tril(a)
    x = rng.normal(size=n)
    found = x.copy()
    assert solve_ldl(block, first, n, 0.0, found) == 0
    assert np.allclose(found, np.linalg.solve(a, x), rtol=1e-10, atol=1e-10)


def test_ldl_names_the_row_that_fails(rng):
    """A pivot that is not above the floor stops the factor at its row: indefinite, singular, NaN."""
    a = np.diag([1.0, 2.0, -1.0, 4.0])
    assert solve_ldl(a.copy(), 0, 4, 0.0, np.ones(4)) == 3
    v = rng.normal(size=3)
    singular = np.outer(v, v)
    assert solve_ldl(singular.copy(), 0, 3, 1e-12, np.ones(3)) == 2
    assert solve_ldl(np.full((2, 2), np.nan), 0, 2, 0.0, np.ones(2)) == 1
    assert solve_ldl(np.eye(3), 0, 3, 1.0, np.ones(3)) == 1


def test_symmetric_3_solves(rng):
    """S^-1 v for positive S, and a flag for S that is not positive definite."""
    for _ in range(50):
        s, v = positive(rng, 3), rng.normal(size=3)
        good, x = solve_3(s, v)
        assert good and np.allclose(x, np.linalg.solve(s, v), rtol=1e-9, atol=1e-10)
    for bad in (np.diag([1.0, -1.0, 1.0]), np.diag([1.0, 1.0, -2.0]), np.diag([-1.0, 1.0, 1.0]), np.zeros((3, 3))):
        assert not solve_3(bad, np.ones(3))[0]
