"""Stiff drives, limits met together and few iterations in `displacements`: nothing is thrown, no energy is made."""

from __future__ import annotations

import numpy as np
import pytest

import limberjack as lj

DYNAMIC = ("conserving", "damped")


def arm(**options):
    """Return a bar of 0.1 kg m^2 on a hinge, level at the start."""
    builder = lj.Builder("arm")
    builder.add_body("bar", mass=1.0, com=(0.3, 0.0, 0.0), inertia=(0.01, 0.01, 0.01))
    builder.add_joint_hinge("pivot", "world", "bar", axis=(0.0, 1.0, 0.0), **options)
    return builder.build()


@pytest.mark.parametrize("mode", DYNAMIC)
@pytest.mark.parametrize("damping", [20.0, 1e4])
def test_dampers_far_beyond_the_step_creep(mode, damping):
    """With h d / I up to 1700 the bar sinks at the rate m g l cos(q) / d at which torques balance."""
    sim = lj.Simulation(arm(damping=damping), lj.Displacements(mode=mode), dt=1 / 60)
    sim.step(60)
    wanted = 9.81 * 0.3 * np.cos(sim.q[0]) / damping
    assert sim.qd[0] == pytest.approx(wanted, rel=0.02)


@pytest.mark.parametrize("mode", DYNAMIC)
def test_motors_springs_and_soft_limits_are_stable_at_any_stiffness(mode):
    """Held by a motor, a spring or a soft limit of 1e6 N m/rad the bar rests where torques balance, at 1/60 s."""
    weight, stiff = 9.81 * 0.3, 1e6
    motor = lj.Motor(kp=stiff, kd=1e3, target=0.2)
    for options, rest in (
        ({"motor": motor}, 0.2),
        ({"stiffness": stiff, "damping": 1e3}, 0.0),
        ({"limits": (-1.0, 0.1), "limit_stiffness": stiff, "limit_damping": 1e3}, 0.1),
    ):
        sim = lj.Simulation(arm(**options), lj.Displacements(mode=mode), dt=1 / 60)
        sim.step(180)
        assert sim.q[0] == pytest.approx(rest + weight * np.cos(rest) / stiff, abs=2e-7)
        assert abs(sim.qd[0]) < 1e-6


@pytest.mark.parametrize("mode", DYNAMIC)
def test_a_motor_at_its_largest_torque_pushes_with_that(mode):
    """A motor that cannot reach its target accelerates the bar by max / I, without gravity."""
    builder = lj.Builder("arm", gravity=(0.0, 0.0, 0.0))
    builder.add_body("bar", mass=1.0, com=(0.3, 0.0, 0.0), inertia=(0.01, 0.01, 0.01))
    builder.add_joint_hinge(
        "pivot", "world", "bar", axis=(0.0, 1.0, 0.0), motor=lj.Motor(kp=1e5, kd=10.0, target=3.0, max=0.5)
    )
    sim = lj.Simulation(builder.build(), lj.Displacements(mode=mode), dt=1 / 240)
    sim.step(60)
    assert sim.qd[0] == pytest.approx(0.5 / 0.1 * 0.25, rel=0.03)


@pytest.mark.parametrize("mode", DYNAMIC)
def test_stiff_springs_between_points_are_stable(mode):
    """A pendulum tied by a spring of 1e5 N/m, 1/60 s, gains no energy and stays together."""
    sim = lj.Simulation(lj.scenes.tethered_pendulum(links=4, stiffness=1e5), lj.Displacements(mode=mode), dt=1 / 60)
    sim.energy_watch = False
    start = sim.energy().total
    for _ in range(10):
        sim.step(12)
        assert sim.energy().total < start + 1.0 and sim.joint_error().metres < 1e-2


def strung(stiffness, stretch=0.1):
    """Return three bodies between two walls, strung on springs that are stretched by a part of their lengths."""
    builder = lj.Builder("strung")
    for k in range(3):
        builder.add_body(f"body{k}", mass=1.0, inertia=(0.02, 0.03, 0.04), position=(0.5 * k, 0.0, 0.0))
    ends = [("world", (-0.5, 0.0, 0.0)), *((f"body{k}", (0.1, 0.05 * k, 0.0)) for k in range(3))]
    for k, (above, at) in enumerate(ends):
        below, to = (f"body{k}", (-0.1, 0.0, 0.02)) if k < 3 else ("world", (1.5, 0.05, 0.0))
        rest = (0.4 if k in (0, 3) else 0.3) * (1.0 - stretch)
        builder.add_spring(above, below, at_a=at, at_b=to, stiffness=stiffness, rest=rest)
    return builder.build()


@pytest.mark.parametrize("mode", DYNAMIC)
@pytest.mark.parametrize("stiffness", [1e5, 1e7])
def test_springs_under_tension_are_resolved(mode, stiffness):
    """Springs of up to 1e7 N/m, stretched by a tenth, gain no energy at 1/60 s: their tension divides steps."""
    sim = lj.Simulation(strung(stiffness), lj.Displacements(mode=mode), dt=1 / 60)
    sim.energy_watch = False
    start = sim.energy().total
    for _ in range(10):
        sim.step(6)
        assert sim.energy().total < start + 1e-6


def test_tension_gives_strings_their_pitch():
    """A body between two stretched springs swings across them at sqrt(2 F / (m l)), at steps that do not resolve it."""
    builder = lj.Builder("string", gravity=(0.0, 0.0, 0.0))
    builder.add_body("bead", mass=0.01, inertia=(1e-6, 1e-6, 1e-6))
    for side in (-1.0, 1.0):
        builder.add_spring("world", "bead", at_a=(side, 0.0, 0.0), stiffness=1e4, rest=0.9)
    sim = lj.Simulation(builder.build(), lj.Displacements(), dt=1 / 100)
    sim.qd = (0.0, 0.0, 1.0, 0.0, 0.0, 0.0)
    heights = []
    for _ in range(200):
        sim.step()
        heights.append(sim.q[2])
    pitch = np.sqrt(2.0 * 1e4 * 0.1 / (0.01 * 1.0))
    assert pitch / 100.0 > 2.0 and np.abs(heights).max() == pytest.approx(1.0 / pitch, rel=0.15)


def test_steps_in_pieces_resume_to_the_bit():
    """Steps divided by tension end in the same bits one by one, together, and from a snapshot in between."""
    sims = [lj.Simulation(strung(1e6), lj.Displacements(), dt=1 / 60) for _ in range(3)]
    sims[0].step(12)
    for _ in range(12):
        sims[1].step()
    sims[2].step(5)
    snapshot = sims[2].snapshot()
    sims[2].step(4)
    sims[2].restore(snapshot)
    sims[2].step(7)
    assert len({sim.state_hash() for sim in sims}) == 1


@pytest.mark.parametrize("mode", DYNAMIC)
@pytest.mark.parametrize("body", ["pelvis", "right_hand"])
def test_a_figure_held_in_the_air_stays_together(mode, body):
    """Held by pelvis or hand at 1/60 s with dampers and soft limits, joints stay closed and energy only falls."""
    sim = lj.Simulation(lj.scenes.humanoid(), lj.Displacements(mode=mode), dt=1 / 60)
    sim.energy_watch = False
    sim.move(body, sim.body(body).position, sim.body(body).rotation)
    last = sim.energy().total
    for _ in range(10):
        sim.step(18)
        energy = sim.energy().total
        assert energy < last + 0.02 * 725.0 and sim.joint_error().metres < 0.01
        last = energy


@pytest.mark.parametrize("mode", DYNAMIC)
@pytest.mark.parametrize("rate", [60, 240])
def test_hard_limits_met_together_throw_nothing(mode, rate):
    """Undamped limbs that fall against dozens of hard limits: joints stay closed, energy only falls."""
    sim = lj.Simulation(lj.scenes.humanoid(limits="hard", damping=0.0), lj.Displacements(mode=mode), dt=1 / rate)
    sim.energy_watch = False
    sim.move("pelvis", sim.body("pelvis").position, sim.body("pelvis").rotation)
    start = sim.energy().total
    for _ in range(8):
        sim.step(rate // 4)
        assert sim.energy().total < start + 1.0 and sim.joint_error().metres < 0.3 / rate


@pytest.mark.parametrize("rate", [240, 1000])
def test_a_long_pendulum_keeps_its_energy_at_the_default_iterations(rate):
    """Ten links let fall, 4 s at 2 x 15 iterations: energy within a ten-thousandth of what they fall by."""
    sim = lj.Simulation(lj.scenes.pendulum(links=10), lj.Displacements(), dt=1 / rate)
    for _ in range(8):
        sim.step(rate // 2)
        assert abs(sim.energy().total) < 0.05
    assert sim.stats["damped_steps"] == 0


def scene(rng):
    """Return a small random model, drawn as the soak draws them."""
    seed, size = int(rng.integers(2**31)), int(rng.integers(1, 12))
    spatial, floating = bool(rng.integers(2)), bool(rng.integers(2))
    makers = [
        lambda: lj.scenes.pendulum(links=size, start="random", seed=seed, spatial=spatial),
        lambda: lj.scenes.random_tree(bodies=size, seed=seed, floating=floating),
        lambda: lj.scenes.ball_tree(bodies=size),
        lambda: lj.scenes.tethered_pendulum(links=size + 1, stiffness=float(10 ** rng.uniform(0, 6))),
        lambda: lj.scenes.double_pendulum(),
    ]
    return makers[int(rng.integers(len(makers)))]()


@pytest.mark.parametrize("mode", DYNAMIC)
def test_random_scenes_make_no_energy(mode):
    """Of 40 random scenes at 1/1000, 1/240 and 1/60 s, none gains a tenth of its weight times a metre in 2 s."""
    for k in range(40):
        rng = np.random.default_rng([11, k])
        model, rate = scene(rng), int(rng.choice((60, 240, 1000)))
        sim = lj.Simulation(model, lj.Displacements(mode=mode), dt=1 / rate)
        sim.energy_watch = False
        start, scale = sim.energy().total, 9.81 * sum(body.mass for body in model.spec.bodies)
        for _ in range(8):
            sim.step(rate // 4)
            assert sim.energy().total < start + 0.1 * scale, f"scene {k}, {model.name}, 1/{rate} s"
        assert sim.joint_error().metres < 0.05, f"scene {k}, {model.name}, 1/{rate} s"


def chain():
    """Return five links of half a metre on ball joints, hanging."""
    builder, above = lj.Builder("chain"), "world"
    for k in range(5):
        builder.add_body(f"link{k}", mass=1.0, com=(0.0, 0.0, -0.25), inertia=(0.02, 0.02, 0.001))
        builder.add_joint_ball(f"joint{k}", above, f"link{k}", position=(0.0, 0.0, -0.5 if k else 0.0))
        above = f"link{k}"
    return builder.build()


def test_a_chain_pulled_out_of_reach_rests_and_recovers():
    """5 % beyond its reach in mode kinematic: at rest the gap is shared by all joints; let go, it closes."""
    sim = lj.Simulation(chain(), lj.Displacements(mode="kinematic"), dt=1 / 60)
    start, goal = np.array((0.0, 0.0, -2.5)), np.array((2.625, 0.0, 0.0))
    grip = sim.grab("link4", start)
    for k in range(120):
        grip.move(start + (goal - start) * (k + 1) / 120)
        sim.step()
    sim.step(60)
    before = sim.positions.copy()
    sim.step()
    assert np.abs(sim.positions - before).max() < 1e-4
    assert sim.joint_error().metres < 0.05
    grip.release()
    sim.step(60)
    assert sim.joint_error().metres < 1e-6


@pytest.mark.parametrize("mode", DYNAMIC)
def test_the_structure_dragged_in_dynamics_stays_together(mode):
    """The paper's structure, dragged to and fro at 3 x 50: joints within 5 mm, no energy beyond the hand's work."""
    method = lj.Displacements(mode=mode, iterations=3, solver_iterations=50)
    sim = lj.Simulation(lj.scenes.draggable_structure(), method, dt=1 / 60)
    grip = sim.grab("rod6_0")
    start = grip.point.copy()
    for k in range(90):
        t = k / 60
        grip.move(start + (0.8 * np.sin(6 * t), 0.4 * (1 - np.cos(6 * t)), 0.5 * t))
        sim.step()
        assert sim.joint_error().metres < 5e-3 and np.abs(sim.velocities[:, 3:]).max() < 10.0
