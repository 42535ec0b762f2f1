"""Rows satisfied by forces along other directions: against the dense system, and a sliding contact with friction."""

from __future__ import annotations

import numpy as np
import pytest
from tests.naive.saddle import random_system, random_values, rows_of, saddle

from limberjack.errors import StateError
from limberjack.linear.elimination import new_work, order_of, split
from limberjack.linear.tree import factor
from limberjack.linear.unsymmetric import solve_unsymmetric


def random_forest(rng):
    """Return (system, tree, values, factor, primary) of a forest of mixed blocks."""
    system = random_system(rng, 25, 4, (3, 6, 7))
    values, parts = random_values(rng, system, 0.0), split(system)
    tree = order_of(system, parts)
    work = new_work(tree)
    assert factor(system, tree, values.M, values.J, values.C, work) == 0
    return system, tree, values, work, np.flatnonzero(parts.primary)


def test_forces_along_other_directions_hold_the_rows(rng):
    """Accelerations, multipliers and forces are those of the dense system, which is not symmetric."""
    for _ in range(5):
        system, tree, values, work, primary = random_forest(rng)
        nu, keep = len(values.F), rows_of(system, primary)
        rows, along, bias = rng.normal(size=(4, nu)), rng.normal(size=(4, nu)), rng.normal(size=4)
        found = solve_unsymmetric(system, tree, work, values.F, values.r, rows, bias, along)
        own = saddle(system, values, primary)
        whole = np.zeros((len(own) + 4, len(own) + 4))
        whole[: len(own), : len(own)] = own
        whole[:nu, len(own) :], whole[len(own) :, :nu] = -along.T, rows
        wanted = np.linalg.solve(whole, np.concatenate([values.F, values.r[keep], -bias]))
        assert found.rank == 4 and found.residual == 0.0
        assert np.abs(found.a - wanted[:nu]).max() < 1e-9 * np.abs(wanted[:nu]).max()
        assert np.abs(found.lam[keep] - wanted[nu : len(own)]).max() < 1e-9 * np.abs(wanted).max()
        assert np.abs(found.mu - wanted[len(own) :]).max() < 1e-9 * np.abs(wanted).max()


def test_what_depends_on_each_other_is_found(rng):
    """A row twice has rank one less and no residual; with another bias the residual tells how far both are apart."""
    system, tree, values, work, _ = random_forest(rng)
    nu = len(values.F)
    rows, along = rng.normal(size=(3, nu)), rng.normal(size=(3, nu))
    rows[2] = rows[0]
    same = solve_unsymmetric(system, tree, work, values.F, values.r, rows, np.array([0.3, 0.1, 0.3]), along)
    assert same.rank == 2 and same.residual < 1e-10
    other = solve_unsymmetric(system, tree, work, values.F, values.r, rows, np.array([0.3, 0.1, 0.8]), along)
    assert other.rank == 2 and other.residual == pytest.approx(0.5)
    with pytest.raises(StateError, match="shapes"):
        solve_unsymmetric(system, tree, work, values.F, values.r, rows[:, 1:], np.zeros(3), along)
