"""Degenerate inputs: what is redundant is solved, what is impossible is refused by name, nothing fails in silence."""

from __future__ import annotations

import math

import numpy as np
import pytest

import limberjack as lj
from limberjack.cli.warmup import looped

METHODS = ("multipliers", "full")
METHOD_OF = {"multipliers": lj.Multipliers(integrator="rk4"), "full": lj.Full(integrator="rk4")}


def rods(last=1.0, **body):
    """Return a square of three rods and the ground; with another `last` length it cannot close."""
    builder = lj.Builder("square")
    options = {"mass": 1.0, "com": (0.5, 0, 0), "inertia": (0.01, 0.1, 0.1)} | body
    for name in ("crank", "coupler", "rocker"):
        builder.add_body(name, **options)
    builder.add_joint_hinge("a", "world", "crank", start=math.pi / 2)
    builder.add_joint_hinge("b", "crank", "coupler", position=(1, 0, 0), start=-math.pi / 2)
    builder.add_joint_hinge("c", "coupler", "rocker", position=(1, 0, 0), start=-math.pi / 2)
    builder.add_joint_ball("d", "world", "rocker", position=(1, 0, 0), position_in_child=(last, 0, 0))
    return builder.build()


@pytest.mark.parametrize("method", METHODS)
def test_redundant_loops_are_solved_and_their_rank_told(method):
    """A planar four-bar on hinges in space has three rows too many: it moves, closed, and the rank is reported."""
    sim = lj.Simulation(looped(), method, dt=1e-3)
    sim.step(50)
    assert sim.joint_error().metres < 1e-12
    rows, rank = ("auxiliary_rows", "auxiliary_rank") if method == "multipliers" else ("rows", "rank")
    assert sim.stats[rows] - sim.stats[rank] == 3


@pytest.mark.parametrize("method", METHODS)
def test_a_loop_that_is_open_is_refused_by_name(method):
    """A loop open by 2 m at the start raises with the joint and the gap; the state is kept."""
    sim = lj.Simulation(rods(last=3.0), method, dt=1e-3)
    before = sim.q.copy()
    with pytest.raises(lj.LoopNotClosed, match='"d": gap'):
        sim.step()
    np.testing.assert_array_equal(sim.q, before)


def test_assembly_tells_the_least_residual_of_a_loop_that_cannot_close():
    """Rods too short for their ground leave a gap that no pose closes: assembly tells it per joint."""
    builder = lj.Builder("short")
    builder.add_body("rod", mass=1.0, com=(0.5, 0, 0), inertia=(0.01, 0.1, 0.1))
    builder.add_joint_ball("one", "world", "rod")
    builder.add_joint_ball("two", "world", "rod", position=(2, 0, 0), position_in_child=(1, 0, 0))
    found = lj.assemble(builder.build())
    assert max(found.residuals.values()) > 0.3


@pytest.mark.parametrize("method", METHODS)
def test_singular_poses_are_passed(method):
    """Two four-bars run through the pose in which all rods lie in line, gaps never above 1e-8 m."""
    sim = lj.Simulation(lj.scenes.n_four_bar(loops=2), METHOD_OF[method], dt=1e-3)
    for _ in range(8):
        sim.step(100)
        assert sim.joint_error().metres < 1e-8


def test_bodies_without_mass_are_refused_where_they_cannot_move():
    """Maximal coordinates need mass on every body and say which has none; reduced ones take a massless carrier."""
    builder = lj.Builder("carrier")
    builder.add_body("carrier", mass=0.0, inertia=(0, 0, 0))
    builder.add_body("load", mass=1.0, com=(0.2, 0, 0), inertia=(0.01, 0.01, 0.01))
    builder.add_joint_hinge("first", "world", "carrier", axis=(0, 1, 0))
    builder.add_joint_hinge("second", "carrier", "load", axis=(1, 0, 0), position=(0.5, 0, 0))
    model = builder.build()
    with pytest.raises(lj.UnsupportedByMethod, match='"carrier" has no mass'):
        lj.Simulation(model, "multipliers")
    sim = lj.Simulation(model, "full")
    sim.step(10)
    assert np.isfinite(sim.q).all()


@pytest.mark.parametrize("method", METHODS)
def test_numbers_that_are_none_are_refused(method):
    """Not-a-number in a state, a force or a time step is refused, and nothing changes."""
    sim = lj.Simulation(rods(), method, dt=1e-3)
    start = sim.state_hash()
    for act in (
        lambda: setattr(sim, "q", [math.nan, 0.0, 0.0]),
        lambda: setattr(sim, "qd", [0.0, math.inf, 0.0]),
        lambda: sim.apply_wrench("crank", force=(math.nan, 0, 0)),
        lambda: sim.apply_impulse("crank", impulse=(math.nan, 0, 0)),
    ):
        with pytest.raises(lj.LimberjackError):
            act()
    for dt in (0.0, -1.0, math.nan, 2.0):
        with pytest.raises(lj.LimberjackError, match="dt"):
            lj.Simulation(rods(), method, dt=dt)
    assert sim.state_hash() == start


@pytest.mark.parametrize("method", METHODS)
def test_nothing_at_all_moves_without_complaint(method):
    """A model without bodies, and one without freedoms, take their steps."""
    lj.Simulation(lj.Builder("empty").build(), method, dt=1e-3).step(3)
    builder = lj.Builder("stone")
    builder.add_body("stone", mass=1.0, inertia=(0.1, 0.1, 0.1))
    builder.add_joint_fixed("set", "world", "stone", position=(0, 0, 1))
    sim = lj.Simulation(builder.build(), method, dt=1e-3)
    sim.step(3)
    assert sim.positions[0] == pytest.approx([0, 0, 1])


def test_deep_overlap_is_pushed_out_slowly():
    """A ball sunk 0.3 m into the ground comes out at most at depth / 0.1 s, without a jump."""
    builder = lj.Builder("sunk")
    builder.add_body("ball", mass=1.0, inertia=(0.1, 0.1, 0.1), position=(0, 0, 0.2))
    builder.add_shape_sphere("ball", 0.5, friction=0.0)
    builder.add_shape_plane("world", friction=0.0)
    sim = lj.Simulation(builder.build(), "multipliers", dt=2e-3)
    for _ in range(50):
        depth = max(0.5 - sim.positions[0, 2], 0.0)
        sim.step(4)
        assert sim.velocities[0, 5] <= min(depth / 0.1, 1.0) + 1e-6
    assert sim.positions[0, 2] > 0.35


@pytest.mark.parametrize("method", ["full", "multipliers", "impulses"])
def test_open_loops_are_to_be_assembled(method):
    """A bar that is 0.8 m away from the disks it joins is refused by name, not thrown at them; assembled, it runs."""
    model = lj.scenes.bar_between_disks()
    with pytest.raises(lj.LoopNotClosed, match="gap 0.8.*lj.assemble"):
        lj.Simulation(model, method).step(1)
    sim = lj.Simulation(model, method, q=lj.assemble(model).q)
    sim.step(10)
    assert sim.joint_error().metres < 1e-8
