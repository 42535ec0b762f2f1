"""The method `displacements` on all kinds of constraints and scenes: rolling, carriers, large steps, recovery."""

from __future__ import annotations

import numpy as np
import pytest

import limberjack as lj
from limberjack.maximal.assemble import Assembler
from limberjack.spatial.frames import matrix_from_quaternion, quaternion_from_matrix

FINE = {"iterations": 6, "solver_iterations": 60, "tolerance": 1e-12}


@pytest.mark.parametrize("mode", ["conserving", "damped"])
def test_a_knife_edge_follows_its_cycloid(mode):
    """Velocity rows act on displacements of a step: the blade drifts as the closed form says, at first order."""
    model, slope, w, errors = lj.scenes.knife_edge(), 9.81 * np.sin(0.3), 2.0, []
    for h in (2e-3, 1e-3):
        sim = lj.Simulation(model, lj.Displacements(mode=mode, **FINE), dt=h)
        sim.step(round(2.0 / h))
        t = sim.time
        wanted = slope * np.array((np.sin(w * t) ** 2, w * t - np.sin(2 * w * t) / 2)) / (2 * w * w)
        errors.append(float(np.abs(sim.positions[0, :2] - wanted).max()))
    assert errors[0] < 0.02
    assert errors[1] < 0.6 * errors[0]


def test_a_blade_is_drawn_along_itself():
    """Without forces too: pulled by a tracker across its edge, a blade turns and glides and never moves sideways."""
    sim = lj.Simulation(lj.scenes.knife_edge(), lj.Displacements(mode="kinematic", **FINE), dt=1 / 60)
    grip = sim.grab("blade", (0.2, 0.0, 0.0))
    for k in range(60):
        before, turned = sim.positions[0].copy(), float(sim.q[2])
        grip.move((0.2, 0.01 * k, 0.0))
        sim.step()
        middle = 0.5 * (turned + float(sim.q[2]))
        moved = sim.positions[0] - before
        assert abs(-np.sin(middle) * moved[0] + np.cos(middle) * moved[1]) < 2e-4
    assert abs(sim.q[2]) > 0.3


def _planetary():
    """Return a sun and a planet on a driven arm, meshed from the arm."""
    builder = lj.Builder("planetary", gravity=(0.0, 0.0, 0.0))
    for name in ("arm", "sun", "planet"):
        builder.add_body(name, mass=1.0, inertia=(0.1, 0.1, 0.1))
    builder.add_joint_hinge("arm_axle", "world", "arm", start_velocity=0.7)
    builder.add_joint_hinge("sun_axle", "world", "sun", start_velocity=0.2)
    builder.add_joint_hinge("planet_axle", "arm", "planet", position=(0.5, 0.0, 0.0), start_velocity=1.25)
    builder.add_gear("mesh", "sun_axle", "planet_axle", ratio=-0.4, carrier="arm")
    return builder.build()


def test_gears_on_a_carrier_agree_with_multipliers():
    """A planet meshed from its carrier moves as with multipliers."""
    ends = []
    for method in (lj.Displacements(**FINE), lj.Multipliers(integrator="rattle")):
        sim = lj.Simulation(_planetary(), method, dt=1e-3)
        sim.step(500)
        ends.append(sim.q.copy())
    assert np.abs(ends[0] - ends[1]).max() < 1e-3
    assert np.abs(ends[0]).max() > 0.1


@pytest.mark.parametrize("iterations", [(2, 7), (2, 15), (3, 30)])
def test_the_shaken_plate_is_stable_at_a_twelfth_of_a_second(iterations):
    """Shaken at 12 steps a second, the paper's frame rate, the strings stay whole; held still, they calm down."""
    outer, inner = iterations
    method = lj.Displacements(mode="damped", iterations=outer, solver_iterations=inner)
    sim, speeds = lj.Simulation(lj.scenes.shaken_plate(), method, dt=1 / 12), []
    for k in range(120):
        t = min(k, 60) / 12
        sim.move("plate", (0.15 * np.sin(9.0 * t), 0.10 * np.sin(6.0 * t), 1.5), (1.0, 0.0, 0.0, 0.0))
        sim.step()
        speeds.append(float(np.abs(sim.velocities[:, 3:]).max()))
        assert speeds[-1] < 5.0 and sim.stats["joint_error"] < 0.1
    assert max(speeds[-12:]) < 0.5 * max(speeds[:60])


def test_the_plate_hangs_still_at_one_by_fifteen():
    """At rest at 12 steps a second, rods under tension stay at rest with one linearisation per step."""
    method = lj.Displacements(mode="damped", iterations=1, solver_iterations=15)
    sim = lj.Simulation(lj.scenes.shaken_plate(), method, dt=1 / 12)
    sim.move("plate", (0.0, 0.0, 1.5), (1.0, 0.0, 0.0, 0.0))
    for _ in range(240):
        sim.step()
        assert np.abs(sim.velocities[1:]).max() < 0.05 and sim.stats["joint_error"] < 1e-3


def _shaken_then_held(iterations, phase):
    """Shake the plate for 10 s at 12 steps a second, hold it for 10 s; return speeds and errors of all steps."""
    outer, inner = iterations
    method = lj.Displacements(mode="damped", iterations=outer, solver_iterations=inner)
    sim, speeds, errors = lj.Simulation(lj.scenes.shaken_plate(), method, dt=1 / 12), [], []
    for k in range(240):
        t = min(k, 120) / 12
        place = (0.15 * np.sin(9.0 * t + phase), 0.10 * np.sin(6.0 * t + phase), 1.5)
        sim.move("plate", place, (1.0, 0.0, 0.0, 0.0))
        sim.step()
        speeds.append(float(np.abs(sim.velocities[:, 3:]).max()))
        errors.append(float(sim.stats["joint_error"]))
    return np.array(speeds), np.array(errors)


@pytest.mark.parametrize(("iterations", "gap"), [((2, 7), 0.03), ((1, 15), 0.15)])
@pytest.mark.parametrize("phase", [0.0, 0.4, 0.9])
def test_the_plate_comes_to_rest_at_twelve_steps_a_second(iterations, gap, phase):
    """However it was shaken at 12 steps a second, it rests within 10 s, with one linearisation per step as with two."""
    speeds, errors = _shaken_then_held(iterations, phase)
    assert speeds.max() < 5.0 and errors.max() < gap
    assert speeds[-24:].max() < 0.05


def test_short_steps_are_the_papers_to_the_bit():
    """Where bodies swing slowly beside the step, following forces changes nothing: the motion has the same bits."""
    ends = []
    for follow in (True, False):
        method = lj.Displacements(mode="damped", iterations=1, solver_iterations=15)
        sim = lj.Simulation(lj.scenes.shaken_plate(), method, dt=1 / 480)
        if not follow:
            sim._stepper._w = sim._stepper._w._replace(geometric_stiffness=np.zeros((0, 6)))
        sim.move("plate", (0.0, 0.0, 1.5), (1.0, 0.0, 0.0, 0.0))
        sim.apply_wrench("bar3", force=(0.2, 0.3, 0.0))
        sim.step(60)
        ends.append(sim.positions.tobytes())
    assert ends[0] == ends[1]


@pytest.mark.parametrize("mode", ["conserving", "damped", "kinematic"])
def test_universal_joints_with_parallel_axes_find_square(mode):
    """Started with both axes of universal joints parallel, where their cosine has no slope, figures close."""
    model = lj.scenes.ring_of_figures(figures=4, gravity=(0.0, 0.0, 0.0), assembled=False)
    sim = lj.Simulation(model, lj.Displacements(mode=mode), dt=1 / 60)
    sim.step(10)
    assert sim.joint_error().metres < 1e-9 and np.abs(sim.positions).max() < 4.0


def test_rows_of_universal_joints_are_the_derivative_of_their_errors():
    """Turned by a little about each axis, the angle between the axes changes as its row says."""
    builder = lj.Builder("cross")
    builder.add_body("a", mass=1.0, inertia=(0.1, 0.2, 0.3))
    builder.add_joint_free("free", "world", "a")
    builder.add_body("b", mass=1.0, inertia=(0.1, 0.2, 0.3))
    builder.add_joint_free("other", "world", "b", start=(0.0, 0.0, 0.0, 0.7, 0.1, 0.5, 0.5))
    builder.add_joint_universal("cross", "a", "b")
    work = Assembler(builder.build())
    system, start, errors, turn = work.net.system, work.pose.copy(), [], 1e-6
    work.correct(0, 0)
    rows = {
        int(body): work.work.jacobian[block + 18 : block + 24].copy()
        for body, block in zip(system.incidence_body, system.block_start[:-1], strict=True)
    }
    for axis in range(3):
        for sign in (-1.0, 1.0):
            small = np.array((1.0, 0.0, 0.0, 0.0))
            small[1 + axis] = 0.5 * sign * turn
            turned = matrix_from_quaternion(small / np.linalg.norm(small)) @ matrix_from_quaternion(start[1, 3:7])
            work.pose[1, 3:7] = quaternion_from_matrix(turned)
            work.correct(0, 0)
            errors.append(work.work.residual[3])
    slope = (np.array(errors[1::2]) - errors[::2]) / (2.0 * turn)
    assert np.allclose(rows[1], [*slope, 0.0, 0.0, 0.0], atol=1e-8) and np.allclose(rows[0], -rows[1], atol=1e-15)
    assert np.linalg.norm(slope) == pytest.approx(1.0, abs=1e-8)


# The bodies that two trackers pull apart, and how far.
TORN = {
    "ring_of_figures": (("figure0_pelvis", "figure13_right_foot"), 6.0),
    "draggable_structure": (("rod0_0", "rod6_7"), 3.0),
    "shaken_plate": (("plate", "bar8"), 3.0),
    "bar_between_disks": (("left", "bar"), 3.0),
    "bead_on_circle": (("bead", "bead"), 3.0),
    "faure_joints": (("universal_a", "universal_b"), 3.0),
}


@pytest.mark.parametrize("name", TORN)
def test_every_scene_recovers_after_release(name):
    """Pulled apart by two trackers, every scene of the paper closes to 1e-6 m within 60 frames of 2 x 5 after."""
    model, (ends, pull) = lj.scenes.get(name).model, TORN[name]
    sim = lj.Simulation(model, lj.Displacements(mode="kinematic", iterations=2, solver_iterations=5), dt=1 / 60)
    sim.step(60)
    grips = [sim.grab(body) for body in ends]
    starts = [grip.point.copy() for grip in grips]
    for k in range(60):
        for grip, start, sign in zip(grips, starts, (-1.0, 1.0), strict=True):
            grip.move(start + sign * pull * min(1.0, k / 30) * np.array((0.6, 0.2, 0.4)))
        sim.step()
    torn = sim.stats["joint_error"]
    for grip in grips:
        grip.release()
    sim.step(60)
    assert torn > 0.5 and sim.stats["joint_error"] <= 1e-6


@pytest.mark.parametrize("method", ["full", "adaptive", "multipliers", "displacements", "impulses"])
def test_grips_in_every_method(method):
    """In every method two grips draw a chain, turn its end (but for impulses), tell what they pull with, and let go."""
    builder = lj.Builder("arm")
    for k in range(3):
        builder.add_body(f"b{k}", mass=1.0, com=(0.0, 0.0, -0.2), inertia=(0.02, 0.02, 0.01))
        parent, at = ("world", (0.0, 0.0, 2.0)) if k == 0 else (f"b{k - 1}", (0.0, 0.0, -0.4))
        builder.add_joint_ball(f"j{k}", parent, f"b{k}", position=at, damping=0.3)
    sim = lj.Simulation(builder.build(), lj.Adaptive(budget=3) if method == "adaptive" else method, dt=2e-3)
    tip, middle = np.array((0.24, 0.2, 1.1336)), np.array((0.0, 0.1, 1.8268))
    turned = np.array((np.cos(0.4), 0.0, 0.0, np.sin(0.4)))
    grip, other = sim.grab("b2"), sim.grab("b0")
    for k in range(1000):
        if k % 10 == 0:
            grip.move(tip, turned if method != "impulses" else None)
            other.move(middle)
        sim.step()
    assert np.linalg.norm(grip.point - tip) < 0.05  # they give way
    assert method == "impulses" or abs(sim.rotations[2] @ turned) > 0.98
    assert 0.5 < np.linalg.norm(grip.force + other.force) < 100.0
    for one in (grip, other):
        one.release()
    with pytest.raises(lj.StateError, match="released"):
        grip.move(tip)
    sim.step(100)
    assert np.linalg.norm(sim.body("b2").position - (0.0, 0.0, 1.2)) < 0.6


@pytest.mark.parametrize("method", ["full", "multipliers", "impulses", "conserving", "damped", "kinematic"])
def test_grips_respect_limits(method):
    """A lever drawn far beyond its limit stops there, in every method and mode."""
    builder = lj.Builder("lever", gravity=(0.0, 0.0, 0.0))
    builder.add_body("bar", mass=1.0, com=(0.5, 0.0, 0.0), inertia=(0.01, 0.1, 0.1))
    builder.add_joint_hinge("pivot", "world", "bar", limits=(-0.5, 0.5), damping=0.5)
    modes = ("conserving", "damped", "kinematic")
    sim = lj.Simulation(builder.build(), lj.Displacements(mode=method, **FINE) if method in modes else method, dt=2e-3)
    grip = sim.grab("bar", (1.0, 0.0, 0.0))
    for k in range(300):
        grip.move((np.cos(0.005 * k), np.sin(0.005 * k), 0.0))
        sim.step()
        assert sim.q[0] < 0.5 + 1e-3
    assert sim.q[0] > 0.45 and np.isfinite(grip.force).all()


@pytest.mark.parametrize("mode", ["conserving", "damped"])
def test_a_tumbling_body_keeps_its_spin(mode):
    """A free body of three different inertias tumbles for 20 s at 60 steps a second: momentum and energy stay."""
    builder = lj.Builder("tumbler", gravity=(0.0, 0.0, 0.0))
    builder.add_body("top", mass=1.0, inertia=(0.02, 0.05, 0.06))
    builder.add_joint_free("fly", "world", "top", start_velocity=(0.0, 0.0, 0.0, 0.1, 6.0, 0.2))
    sim = lj.Simulation(builder.build(), lj.Displacements(mode=mode), dt=1 / 60)
    energy, spin = sim.energy().total, np.linalg.norm(sim.momentum().angular)
    for _ in range(20):
        sim.step(60)
        assert abs(sim.energy().total / energy - 1.0) < 0.05
        assert abs(np.linalg.norm(sim.momentum().angular) / spin - 1.0) < 0.05
