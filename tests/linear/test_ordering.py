"""Orders of elimination: fill counts against plain sets, trees without fill, the net's figures."""

from __future__ import annotations

import numpy as np
import pytest
from tests.linear.systems import chain, grid, loops, net, system_of, tree
from tests.naive.sparse_saddle import eliminated

from limberjack.linear.ordering import order_constraints
from limberjack.linear.structure import prepare


def _balls(incidences):
    return system_of(incidences, [3] * len(incidences), [6] * (1 + max(b for t in incidences for b in t)))


def _graphs(rng):
    hub = [[0, i] for i in range(1, 20)]
    triple = [sorted(rng.choice(30, 3, replace=False).tolist()) for _ in range(40)]
    return {"tree": tree(60, rng), "loops": loops(60, 25, rng), "grid": grid(9), "hub": hub, "three": triple,
            "apart": [[2 * i, 2 * i + 1] for i in range(9)] + loops(18, 5, rng)}  # fmt: skip


@pytest.mark.parametrize("kind", ["tree", "loops", "grid", "hub", "three", "apart"])
def test_counts_are_those_of_elimination(kind, rng):
    """The order is a permutation, and blocks, updates, fill and columns are what eliminating on plain sets gives."""
    system = _balls(_graphs(rng)[kind])
    ordering = order_constraints(system)
    assert sorted(ordering.order) == list(range(len(ordering.order)))
    later, pairs = eliminated(system, ordering.order)
    assert ordering.later.tolist() == [len(s) for s in later]
    assert ordering.structural == pairs + len(later)
    assert ordering.blocks == sum(len(s) + 1 for s in later)
    assert ordering.updates == sum(len(s) * (len(s) + 1) // 2 for s in later)
    structure = prepare(system, ordering)
    for k, below in enumerate(later):
        rows = structure.block_row[structure.column[k] : structure.column[k + 1]]
        assert ordering.order[rows].tolist()[0] == ordering.order[k]
        assert set(ordering.order[rows[1:]].tolist()) == below
        assert (np.diff(rows) > 0).all()


@pytest.mark.parametrize("n", [2, 5, 40, 300])
def test_trees_have_no_fill(n, rng):
    """Trees are eliminated without a block that A does not have, hubs joined by chains among them."""
    assert order_constraints(_balls(tree(n, rng))).fill == 0
    assert order_constraints(_balls(chain(n))).fill == 0
    hubs = [[0, i] for i in range(1, n + 1)] + [[n, n + 1], [n + 1, n + 2], [n + 2, n + 3]]
    hubs += [[n + 3, n + 4 + i] for i in range(n)]
    assert order_constraints(_balls(hubs)).fill == 0


def test_hubs_show_their_cost_before_it_is_paid():
    """A body with h constraints is a dense clique, and the order tells it: h (h + 1) / 2 blocks."""
    h = 1000
    ordering = order_constraints(_balls([[0, i] for i in range(1, h + 1)]))
    assert ordering.blocks == h * (h + 1) // 2
    assert ordering.updates == h * (h * h - 1) // 6


def test_net_of_736_bodies():
    """The net of 736 bodies, four fixed, and 960 balls takes 7 to 9 thousand blocks and 35 to 60 thousand updates."""
    incidences, positions = net(15)
    assert (len(positions) + 4, len(incidences)) == (736, 960)
    ordering = order_constraints(_balls(incidences))
    assert 7000 <= ordering.blocks <= 9000
    assert 35_000 <= ordering.updates <= 60_000


def test_dissection_wins_on_large_grids(rng):
    """On a grid of 30 x 30 bodies nested dissection is chosen, and shuffling the constraints changes little."""
    incidences = grid(30)
    straight = order_constraints(_balls(incidences))
    shuffled = order_constraints(_balls([incidences[i] for i in rng.permutation(len(incidences))]))
    assert straight.name == "nested dissection"
    assert abs(straight.updates - shuffled.updates) < 0.35 * straight.updates


def test_long_chains_are_prepared(rng):
    """A chain of 100 000 constraints is ordered and laid out, with one block below each diagonal and no fill."""
    structure = prepare(_balls(chain(100_000)))
    assert len(structure.block_row) == 199_999
    assert len(structure.target) == 99_999


def test_same_system_same_structure(rng):
    """Orders and layouts are functions of the system alone."""
    incidences = loops(80, 40, rng)
    first, second = prepare(_balls(incidences)), prepare(_balls(incidences))
    for a, b in zip(first, second, strict=True):
        assert (a == b).all()
