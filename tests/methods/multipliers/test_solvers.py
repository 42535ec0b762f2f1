"""One set of rows, four solvers: tree, sparse, conjugate residuals and all rows at once."""

from __future__ import annotations

import numpy as np
import pytest

import limberjack as lj
from limberjack.cli.warmup import looped

SOLVERS = ("tree", "sparse", "krylov", "dense")


def loose_chain(limits):
    """Return a chain that falls into its joint limits."""
    builder = lj.Builder("chain")
    for k in range(4):
        builder.add_body(f"link{k}", mass=1.0, com=(0.25, 0, 0), inertia=(0.01, 0.03, 0.03))
        above, place = ("world", (0, 0, 0)) if k == 0 else (f"link{k - 1}", (0.5, 0, 0))
        options = {"limits": (-0.2, 0.2)} if limits else {"armature": 0.02}
        builder.add_joint_hinge(f"joint{k}", above, f"link{k}", axis=(0, 1, 0), position=place, **options)
    return builder.build()


MODELS = {
    "tree": lambda: lj.scenes.baraff_tree(bodies=15, stir=1.0),
    "loops": lambda: lj.scenes.baraff_tree(bodies=15, loops=3),
    "redundant": lj.scenes.four_bar,
    "plane": lambda: lj.scenes.baraff_planar(rings=True),
    "rotors": lambda: loose_chain(False),
}


@pytest.mark.parametrize("name", MODELS)
def test_solvers_move_alike(name):
    """All solvers give the same motion to 1e-10, on trees, with loops, redundant ones too, in the plane, rotors."""
    found = []
    for solver in SOLVERS:
        sim = lj.Simulation(MODELS[name](), lj.Multipliers(solver=solver), dt=2e-3)
        start = sim.positions.copy()
        sim.apply_wrench(sim.model.body_names[-1], force=(30.0, 20.0, 10.0))
        sim.step(20)
        found.append(sim.positions.copy())
        assert sim.joint_error().metres < 1e-12
    for other in found[1:]:
        np.testing.assert_allclose(other, found[0], atol=1e-10)
    assert np.abs(found[0] - start).max() > 1e-3


def test_limits_hold_in_all_that_take_them():
    """A chain that falls into its limits is stopped alike by the tree, the sparse and the dense solver."""
    found = []
    for solver in ("tree", "sparse", "dense"):
        sim = lj.Simulation(loose_chain(True), lj.Multipliers(solver=solver), dt=2e-3)
        sim.step(120)
        found.append(sim.q.copy())
        assert np.abs(sim.q).max() < 0.2 + 1e-9
    np.testing.assert_allclose(found[1], found[0], atol=1e-9)
    np.testing.assert_allclose(found[2], found[0], atol=1e-9)


def test_the_rank_is_told():
    """The dense solver counts the independent rows of a planar four-bar on hinges in space: 17 of 20."""
    sim = lj.Simulation(looped(), lj.Multipliers(solver="dense"), dt=1e-3)
    sim.step()
    assert (sim.stats["rows"], sim.stats["rank"]) == (20, 17)
    sim = lj.Simulation(lj.scenes.four_bar(), lj.Multipliers(solver="krylov"), dt=1e-3)
    sim.step()
    assert sim.stats["iterations"] > 0


def test_what_they_do_not_take_is_refused():
    """One-sided rows in conjugate residuals, other integrators, contacts and grips are refused by name."""
    with pytest.raises(lj.UnsupportedByMethod, match="inequality rows"):
        lj.Simulation(loose_chain(True), lj.Multipliers(solver="krylov"), dt=1e-3)
    with pytest.raises(lj.StateError, match='"semi_implicit"'):
        lj.Simulation(loose_chain(False), lj.Multipliers(solver="dense", integrator="rk4"), dt=1e-3)
    with pytest.raises(lj.UnsupportedByMethod, match="contacts"):
        lj.Simulation(lj.scenes.baraff_contacts(), lj.Multipliers(solver="dense"), dt=1e-3)
    with pytest.raises(lj.UnsupportedByMethod, match="grips"):
        lj.Simulation(loose_chain(False), lj.Multipliers(solver="dense"), dt=1e-3).grab("link3")
