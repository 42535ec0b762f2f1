"""Prediction of the cheaper solver: forests for hubs and trees, the sparse factor for nets."""

from __future__ import annotations

import numpy as np
import pytest

from limberjack.constraints.system import new_system
from limberjack.linear.choice import BALL_JOINTS, choose_solver
from limberjack.linear.ordering import order_constraints


def balls(n, pairs):
    """Return the system of ball joints between pairs of n bodies."""
    return new_system(np.full(n, 6), np.full(len(pairs), 3, np.int64), [list(pair) for pair in pairs])


def choice(system, **options):
    """Return the choice for a system whose constraints may all be primary."""
    return choose_solver(system, np.ones(len(system.row_start) - 1, bool), **options)


def net(n):
    """Return the pairs of a square lattice of n x n bodies."""
    across = [(n * i + j, n * i + j + 1) for i in range(n) for j in range(n - 1)]
    return across + [(n * i + j, n * i + j + n) for i in range(n - 1) for j in range(n)]


def test_the_forest_is_taken_for_trees_and_few_loops():
    """Systems without loops, or with few rows of them, take the forest whatever else."""
    chain = [(i, i + 1) for i in range(30)]
    assert not choice(balls(31, chain), few=24).sparse
    assert not choice(balls(31, [*chain, (0, 30)]), few=24).sparse


def test_the_sparse_solver_is_taken_for_nets():
    """A lattice has many loops and little fill: the sparse solver, with the order that was found."""
    found = choice(balls(100, net(10)), few=24)
    assert found.sparse and found.ordering is not None
    assert found.loop_rows == 3 * (len(net(10)) - 99)


@pytest.mark.parametrize("arms", [300, 100_000])
def test_hubs_take_the_forest(arms):
    """The joints of a hub all fill in: the forest is taken, with loops too, and no order is searched for."""
    star = [(0, i + 1) for i in range(arms)]
    loops = [(2 * i + 1, 2 * i + 2) for i in range(10)]
    for pairs in (star, star + loops):
        found = choice(balls(arms + 1, pairs), costs=BALL_JOINTS)
        assert not found.sparse and found.ordering is None


def test_the_least_cost_of_a_hub_is_a_bound():
    """A hub of d joints takes at least (d^3 - d) / 6 products of blocks, and a star exactly these."""
    system = balls(41, [(0, i + 1) for i in range(40)])
    assert order_constraints(system).updates == (40**3 - 40) / 6
