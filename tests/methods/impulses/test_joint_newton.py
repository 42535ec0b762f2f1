"""Joints swept one after the other, as the paper does: against a naive twin, with its schedule and golden section."""

from __future__ import annotations

import math

import numpy as np
import pytest

import limberjack as lj
from limberjack.model.joints import KINDS
from limberjack.model.registered import CONSTRAINT_KINDS

G = 9.81


def hanging(links, tip):
    """Return rods on ball joints, hanging straight down, the last `tip` times as heavy."""
    builder, above = lj.Builder("hanging"), "world"
    for k in range(links):
        mass = tip if k == links - 1 else 1.0
        builder.add_body(f"r{k}", mass=mass, com=(0, 0, -0.25), inertia=(0.021 * mass, 0.021 * mass, 0.001 * mass))
        builder.add_joint_ball(f"j{k}", above, f"r{k}", position=(0, 0, 0) if k == 0 else (0, 0, -0.5))
        above = f"r{k}"
    return builder.build()


def naive_gap(links, tip, *, gradual, sweeps=9, steps=15, dt=1.0 / 60.0):
    """Return the largest gap of a hanging chain after some steps, by the paper's sweeps in one dimension."""
    w = 1.0 / np.array([1.0] * (links - 1) + [tip])
    x, v = np.zeros(links), np.zeros(links)

    def sweep(gap):
        for s in range(sweeps):
            eps = (s + 1) / sweeps if gradual else 1.0
            for k in range(links):
                above, fast = (w[k - 1], v[k - 1]) if k else (0.0, 0.0)
                j = -eps * (gap[k] / dt + v[k] - fast) / (w[k] + above)
                v[k] += w[k] * j
                v[k - 1] -= above * j

    for _ in range(steps):
        v -= G * dt
        sweep(np.zeros(links))
        sweep(np.diff(x, prepend=0.0))
        x += dt * v
        sweep(np.zeros(links))
    return np.abs(np.diff(x, prepend=0.0)).max()


def stretched(links, tip, *, gradual):
    """Return the largest joint error of a hanging chain after 15 steps of 1/60 s, 9 sweeps each."""
    method = lj.Impulses(joints="sweeps", sweeps=9, substeps=1, gradual=gradual, sleeping=False, tolerance=1e-15)
    sim = lj.Simulation(hanging(links, tip), method, dt=1.0 / 60.0)
    sim.step(15)
    return sim.stats["joint_error"]


@pytest.mark.parametrize("links,tip", [(10, 1.0), (30, 1.0), (10, 20.0)])
def test_sweeps_are_those_of_the_paper(links, tip):
    """A hanging chain stretches as pre-stabilisation and post-stabilisation joint by joint have it, to rounding."""
    assert stretched(links, tip, gradual=True) == pytest.approx(naive_gap(links, tip, gradual=True), rel=1e-9)


@pytest.mark.parametrize("links,tip", [(10, 1.0), (30, 1.0), (10, 20.0)])
def test_accelerated_sweeps_hold_a_chain(links, tip):
    """Without the schedule the chain stretches by less than a tenth of what as many plain sweeps leave."""
    assert stretched(links, tip, gradual=False) < 0.1 * naive_gap(links, tip, gradual=False)


def test_the_schedule_hurts_joints():
    """Errors taken out gradually leave more of them behind: the schedule is an option, not the default."""
    assert naive_gap(10, 1.0, gradual=True) > 2.0 * naive_gap(10, 1.0, gradual=False)
    assert lj.Impulses().gradual is False


def jump(position, rotation, time, data):
    """Hold a body at x = 0, from data[0] on at data[1], by a value that grows ever more slowly."""
    x = position[0]
    if time > data[0]:
        x = x - data[1]
    return math.atan2(data[2] * x, 1.0 + 0.0 * x)


@pytest.mark.parametrize("golden", ["never", "fallback", "always"])
def test_golden_section_closes_what_newton_cannot(golden):
    """Newton diverges from the root of atan from |x| > 1.39 on; with golden section search it converges."""
    lj.register_constraint("jump", jump)
    try:
        builder = lj.Builder("jump", gravity=(0, 0, 0))
        builder.add_body("body", mass=1.0, inertia=(0.1, 0.1, 0.1))
        builder.add_constraint("jump", "held", "world", "body", data=(0.045, 0.3, 10.0))
        method = lj.Impulses(joints="sweeps", golden=golden, substeps=1, sleeping=False)
        sim = lj.Simulation(builder.build(), method, dt=0.01)
        sim.step(4)
        assert abs(sim.positions[0, 0]) < 1e-8
        if golden == "never":
            with pytest.raises(lj.Diverged):
                sim.step(1)
            return
        sim.step(1)
        assert abs(sim.positions[0, 0] - 0.3) < 1e-8
    finally:
        del CONSTRAINT_KINDS["jump"], KINDS["jump"]


def fallen(**options):
    """Return three boxes on ball joints that have landed, joints swept."""
    builder = lj.Builder("pair")
    builder.add_shape_plane("world")
    for k in range(2):
        builder.add_body(f"b{k}", mass=4.0, inertia=(0.0267,) * 3, position=(0.0, 0.0, 0.3) if k == 0 else None)
        builder.add_shape_box(f"b{k}", (0.2, 0.2, 0.2))
    builder.add_joint_ball("joint", "b0", "b1", position=(0.15, 0, 0), position_in_child=(-0.15, 0, 0))
    builder.add_body("b2", mass=4.0, inertia=(0.0267,) * 3)
    builder.add_shape_box("b2", (0.2, 0.2, 0.2))
    builder.add_joint_ball("other", "b1", "b2", position=(0.15, 0, 0), position_in_child=(-0.15, 0, 0))
    method = lj.Impulses(joints="sweeps", sleeping=False, sweeps=3, **options)
    sim = lj.Simulation(builder.build(), method, dt=1 / 120, qd=[0, 0, 0, 0.5, 3.0, 0, *(0.0,) * 6])
    errors = []
    for _ in range(120):
        sim.step()
        errors.append(sim.joint_error().metres)
    return sim, max(errors)


def test_a_sweep_over_joints_alone_closes_them():
    """The sweep over joints after contacts leaves them closed better than without; saved velocities change the rest."""
    (_, open_), (kept, closed), (saved, restored) = (fallen(joint_sweep=word) for word in ("none", "kept", "saved"))
    assert closed < 0.5 * open_ and restored < 0.5 * open_
    assert kept.state_hash() != saved.state_hash()
    for sim in (kept, saved):
        sim.step(240)
        assert np.abs(sim.positions[:, 2] - 0.1).max() < 2e-3 and np.abs(sim.qd).max() < 2e-2


@pytest.mark.parametrize("limits", [None, (-0.4, 0.4)])
def test_swept_chains_move_as_global_ones(limits):
    """With sweeps enough a short chain with friction in its hinges, free or at limits, swings as with one solve."""
    builder, above = lj.Builder("chain"), "world"
    for k in range(3):
        builder.add_body(f"rod{k}", mass=1.0, com=(0.25, 0.0, 0.0), inertia=(0.001, 0.021, 0.021))
        position = (0.0, 0.0, 2.0) if k == 0 else (0.5, 0.0, 0.0)
        builder.add_joint_hinge(
            f"h{k}", above, f"rod{k}", axis=(0, 1, 0), position=position, limits=limits, friction=0.2
        )
        above = f"rod{k}"
    model = builder.build()
    sims = [lj.Simulation(model, lj.Impulses(joints=word, sweeps=300), dt=2e-3) for word in ("global", "sweeps")]
    for sim in sims:
        sim.step(100)
    assert np.abs(sims[0].q - sims[1].q).max() < 2e-3
    assert np.abs(sims[0].q).max() > 0.2
    assert max(sims[1].joint_error()) < 1e-6


def floors(count):
    """Return pairs of boxes, each pair on a hinge between the two, one above the other."""
    builder = lj.Builder("floors")
    builder.add_shape_plane("world")
    for k in range(count):
        for side, place in ((0, {"position": (-0.1, 0.0, 0.1 + 0.2 * k)}), (1, {})):
            builder.add_body(f"b{k}{side}", mass=4.0, inertia=(0.0267,) * 3, **place)
            builder.add_shape_box(f"b{k}{side}", (0.2, 0.2, 0.2))
        ends = {"position": (0.1, 0, 0), "position_in_child": (-0.1, 0, 0)}
        builder.add_joint_hinge(f"h{k}", f"b{k}0", f"b{k}1", axis=(0, 1, 0), **ends)
    return builder.build()


def test_shock_propagation_goes_through_joints():
    """Ten floors of hinged boxes come to rest in four seconds of five sweeps by levels; without them they rock."""
    speeds = []
    for levels in (True, False):
        method = lj.Impulses(joints="sweeps", sweeps=5, levels=levels, sleeping=False)
        sim = lj.Simulation(floors(10), method, dt=1 / 120)
        start = sim.positions
        sim.step(480)
        speeds.append(np.abs(sim.qd).max())
        assert np.abs(sim.positions - start).max() < 1e-3 and sim.joint_error().metres < 1e-8
    assert speeds[0] < 1e-3 and speeds[0] < 0.1 * speeds[1]


def test_options_of_sweeps_belong_to_sweeps():
    """The schedule, golden section and the last sweep are refused unless joints are swept, and unknown words are."""
    for options in ({"gradual": True}, {"golden": "always"}, {"joint_sweep": "saved"}, {"levels": True}):
        with pytest.raises(lj.StateError, match="sweeps"):
            lj.Impulses(**options)
    with pytest.raises(lj.UnknownName, match="silver"):
        lj.Impulses(joints="sweeps", golden="silver")
