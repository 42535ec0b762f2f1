"""Figures by impulses against other methods: limits, motors, dry friction in joints, rigid joints of unlike bodies."""

from __future__ import annotations

import numpy as np
import pytest
from tests.methods.impulses.test_joint_solve import chain

import limberjack as lj
from limberjack.spatial.clock import COUNTS

OTHERS = {"full": lj.Full(integrator="rk4"), "multipliers": lj.Multipliers(integrator="rk4")}


@pytest.mark.parametrize("other", OTHERS)
def test_motors_move_as_in_other_methods(other):
    """A chain on motors, dampers and springs follows `full` and `multipliers`, nearer with a smaller step."""
    motor = lj.Motor(kp=40.0, kd=2.0, target=0.6, max=30.0)
    model, errors = chain(3, motor=motor, damping=0.1, stiffness=1.0).build(), []
    exact = lj.Simulation(model, OTHERS[other], dt=5e-4)
    exact.step(600)
    for dt in (2e-3, 1e-3, 5e-4):
        sim = lj.Simulation(model, "impulses", dt=dt)
        sim.step(round(0.3 / dt))
        errors.append(np.abs(sim.q - exact.q).max())
    assert errors[2] < 3e-3 and errors[2] < 0.6 * errors[1] < 0.36 * errors[0]


def test_a_motor_holds_its_target_and_turns_no_harder_than_it_can():
    """A motor with room to spare brings its hinge to the target; one capped below the weight lets it sink."""
    for most, holds in ((np.inf, True), (1.0, False)):
        motor = lj.Motor(kp=500.0, kd=50.0, target=0.0, max=most)
        sim = lj.Simulation(chain(1, motor=motor).build(), "impulses", dt=1e-3)
        sim.step(1000)
        # weight has a torque of 0.25 g; the cap is less than half of it
        assert (abs(sim.q[0]) < 0.01) == holds
    assert sim.q[0] > 0.5


@pytest.mark.parametrize("other", OTHERS)
def test_limits_stop_as_in_other_methods(other):
    """A swinging rod reaches its hard limit when it does in `full` and `multipliers`, and rests on it likewise."""
    model = chain(1, limits=(-0.2, 0.7)).build()
    sims = [lj.Simulation(model, method, dt=1e-3) for method in (lj.Impulses(sleeping=False), lj.Multipliers())]
    sims += [lj.Simulation(model, other, dt=1e-3)] if other == "full" else []
    reached = []
    for sim in sims:
        while sim.q[0] < 0.7 - 1e-4:
            sim.step()
            assert sim.time < 1.0
        reached.append(sim.time)
        sim.step(500)
        assert sim.q[0] == pytest.approx(0.7, abs=1e-6) and abs(sim.qd[0]) < 1e-6
    assert np.ptp(reached) < 3e-3


def test_a_ball_joint_keeps_to_its_cone():
    """A rod on a ball joint with a cone of 0.5 rad swings against the cone and no farther."""
    builder = lj.Builder("cone")
    builder.add_body("rod", mass=1.0, com=(0.0, 0.0, -0.25), inertia=(0.021, 0.021, 0.001))
    builder.add_joint_ball("ball", "world", "rod", cone=0.5, twist=(-0.3, 0.3))
    sim = lj.Simulation(builder.build(), "impulses", dt=1e-3, qd=[4.0, 2.0, 1.0])
    widest = 0.0
    for _ in range(100):
        sim.step(10)
        w, x, y, z = sim.q
        widest = max(widest, float(np.arccos(1.0 - 2.0 * (x * x + y * y))))
        assert widest < 0.5 + 1e-5
        assert abs(2.0 * np.arctan2(z, w)) < 0.3 + 1e-3
    assert widest > 0.49


@pytest.mark.parametrize("joints", ["global", "sweeps"])
def test_dry_friction_is_capped(joints):
    """A hinge with friction M holds against torques below M and yields the rest above: I w' = T - M."""
    builder = lj.Builder("wheel", gravity=(0, 0, 0))
    builder.add_body("wheel", mass=1.0, inertia=(0.1, 0.1, 0.2))
    builder.add_joint_hinge("axle", "world", "wheel", friction=0.5)
    model = builder.build()
    for torque in (0.3, 0.499, 0.51, 0.8, -0.9):
        sim = lj.Simulation(model, lj.Impulses(joints=joints), dt=1e-3)
        sim.tau = [torque]
        sim.step(1000)
        left = np.sign(torque) * max(abs(torque) - 0.5, 0.0)
        assert sim.qd[0] == pytest.approx(left / 0.2, abs=1e-9)


def test_dry_friction_moves_a_chain_as_in_full():
    """A chain with friction in its hinges slows, sticks and turns as in `full`."""
    model = chain(2, friction=0.8).build()
    sims = [lj.Simulation(model, method, dt=5e-4) for method in (lj.Impulses(), lj.Full())]
    for sim in sims:
        sim.step(600)
    assert np.abs(sims[0].q - sims[1].q).max() < 2e-2
    assert np.abs(sims[0].q).max() > 0.5


@pytest.mark.parametrize("ratio", [1e-3, 1e3, 1e6])
def test_a_rigid_joint_holds_unlike_bodies(ratio):
    """A rigid joint kept as a constraint between bodies of unlike masses moves both as one body, on a hinge."""
    builder = lj.Builder("rigid")
    builder.add_body("near", mass=1.0, com=(0.2, 0.0, 0.0), inertia=(0.01, 0.02, 0.02))
    builder.add_body("far", mass=ratio, com=(0.1, 0.0, 0.1), inertia=np.array((0.01, 0.02, 0.02)) * ratio)
    builder.add_joint_hinge("hinge", "world", "near", axis=(0, 1, 0))
    builder.add_joint_fixed("rigid", "near", "far", position=(0.4, 0.0, 0.0))
    models = [builder.build(merge_fixed=merged) for merged in (False, True)]
    sims = [lj.Simulation(model, "impulses", dt=1e-3) for model in models]
    exact = lj.Simulation(models[1], lj.Full(integrator="rk4"), dt=1e-3)
    for sim in (*sims, exact):
        sim.step(500)
    assert max(sims[0].joint_error()) < 1e-7
    # substeps are divided where joints pull hard: nearer to the exact motion than the merged body
    assert abs(sims[0].q[0] - exact.q[0]) < abs(sims[1].q[0] - exact.q[0]) + 1e-4
    assert abs(sims[0].q[0] - exact.q[0]) < 2e-2


def test_a_heavy_end_on_a_light_chain():
    """A chain of twenty light links holds an end a million times their mass, its joints closed to 1e-8 m."""
    builder, above = lj.Builder("heavy"), "world"
    for k in range(20):
        mass = 1e3 if k == 19 else 1e-3
        builder.add_body(f"r{k}", mass=mass, com=(0, 0, -0.05), inertia=np.array((1e-3, 1e-3, 1e-3)) * mass)
        builder.add_joint_ball(f"j{k}", above, f"r{k}", position=(0, 0, 0) if k == 0 else (0, 0, -0.1))
        above = f"r{k}"
    sim = lj.Simulation(builder.build(), lj.Impulses(tolerance=1e-9), dt=1 / 240)
    sim.step(480)
    assert sim.joint_error().metres < 1e-8 and sim.stats["joint_error"] < 1e-8
    assert np.abs(sim.positions[:, 2] + 0.1 * np.arange(20)).max() < 1e-6


@pytest.mark.parametrize("joints", ["global", "damped", "sweeps"])
def test_the_time_of_joints_is_a_part_of_the_whole(joints):
    """Joints take no time in steps of free bodies, and a part of it in those of figures."""
    shares = []
    for model in (lj.scenes.box_pile(boxes=10), lj.scenes.bridge(planks=3, blocks=2), chain(20).build()):
        sim = lj.Simulation(model, lj.Impulses(joints=joints, sleeping=False), dt=1 / 240)
        sim.step(120)
        shares.append(sim.stats["joint_share"])
    if COUNTS:
        assert shares[0] == 0.0 and all(0.0 < share < 1.0 for share in shares[1:])
    else:
        assert shares == [None] * 3


@pytest.mark.parametrize("method", [lj.Impulses(sleeping=False), lj.Multipliers()])
def test_figures_at_their_limits_move_as_each_does_alone(method):
    """Limits of several figures, none connected with another, are solved as those of each figure alone are."""
    starts = ((0.1, 0.6, -0.2), (0.6, 0.2, 0.6), (-0.15, 0.1, 0.3))

    def figures(which):
        builder = lj.Builder("figures")
        for k in which:
            for i in range(3):
                name = f"rod{k}_{i}"
                builder.add_body(name, mass=1.0 + i, com=(0.25, 0.0, 0.0), inertia=(0.01, 0.02, 0.02))
                parent, position = ("world", (0.0, 2.0 * k, 0.0)) if i == 0 else (f"rod{k}_{i - 1}", (0.5, 0.0, 0.0))
                builder.add_joint_hinge(
                    f"hinge{k}_{i}", parent, name, axis=(0.0, 1.0, 0.0), position=position, limits=(-0.2, 0.7),
                    start=starts[k][i], friction=0.05 if k == 1 and method.name == "impulses" else 0.0,
                )  # fmt: skip
        return builder.build()

    together = lj.Simulation(figures(range(3)), method, dt=2e-3)
    alone = [lj.Simulation(figures([k]), method, dt=2e-3) for k in range(3)]
    for sim in (together, *alone):
        sim.step(150)
    assert sum(np.abs(sim.q).max() > 0.69 for sim in alone) >= 2
    wanted = np.concatenate([sim.q for sim in alone])
    # substeps are divided for all figures where one of them needs it
    np.testing.assert_allclose(together.q, wanted, atol=1e-3)
