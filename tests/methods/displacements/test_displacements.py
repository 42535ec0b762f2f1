"""The method `displacements`: laws of its modes, agreement with other methods, grips, trackers, budgets, snapshots."""

from __future__ import annotations

import math

import numpy as np
import pytest

import limberjack as lj
from limberjack.collision.rays import ray_hit


def chain(bodies=6, gravity=(0.0, 0.0, 0.0)):
    """Return an isolated chain on balls that turns and bends."""
    builder = lj.Builder("chain", gravity=gravity)
    for k in range(bodies):
        builder.add_body(f"b{k}", mass=1.0, com=(0.25, 0.0, 0.0), inertia=(0.01, 0.03, 0.025))
        if k == 0:
            builder.add_joint_free("root", "world", "b0", start_velocity=(0.1, 0.2, 0.3, 1.0, 0.5, 2.0))
        else:
            rate = (0.5 * k, -0.3, 0.7)
            builder.add_joint_ball(f"j{k}", f"b{k - 1}", f"b{k}", position=(0.5, 0.0, 0.0), start_velocity=rate)
    return builder.build()


def machine(**options):
    """Return a chain from the world with a spring, a motor, damping and whatever `options` its hinge has."""
    builder = lj.Builder("machine")
    for k in range(3):
        builder.add_body(f"b{k}", mass=1.0, com=(0.25, 0.0, 0.0), inertia=(0.01, 0.03, 0.025))
    builder.add_joint_hinge("a", "world", "b0", axis=(0.0, 1.0, 0.0), damping=0.2, **options)
    builder.add_joint_ball("b", "b0", "b1", position=(0.5, 0.0, 0.0), damping=0.05)
    motor = lj.Motor(kp=5.0, kd=0.3, target=0.4)
    builder.add_joint_hinge("c", "b1", "b2", position=(0.5, 0.0, 0.0), axis=(0.0, 1.0, 0.0), motor=motor)
    builder.add_spring("world", "b2", at_a=(0.0, 0.0, 1.0), at_b=(0.5, 0.0, 0.0), stiffness=20.0, rest=0.5)
    return builder.build()


FINE = {"iterations": 6, "solver_iterations": 60, "tolerance": 1e-12}


def test_an_isolated_chain_keeps_energy_and_momentum():
    """300 steps of 1/60 s, 6 x 60 to 1e-12: energy within 1e-3, linear momentum 1e-13, angular 1e-12, relative."""
    sim = lj.Simulation(chain(), lj.Displacements(**FINE), dt=1 / 60)
    energy, (linear, angular) = sim.energy().total, sim.momentum()
    for _ in range(30):
        sim.step(10)
        assert abs(sim.energy().total / energy - 1.0) < 1e-3
    end = sim.momentum()
    assert np.abs(end.linear - linear).max() < 1e-13 * np.abs(linear).max() + 1e-13
    assert np.abs(end.angular - angular).max() < 1e-12 * np.abs(angular).max()
    assert sim.stats["joint_error"] < 1e-8 and sim.stats["damped_steps"] == 0


def test_momentum_stays_however_few_the_iterations():
    """Impulses are opposite wrenches at one point: momentum stays to rounding at 1 x 3 iterations too."""
    sim = lj.Simulation(chain(), lj.Displacements(iterations=1, solver_iterations=3), dt=1 / 240)
    linear, angular = sim.momentum()
    sim.step(200)
    assert sim.stats["damped_steps"] == 0
    assert np.abs(sim.momentum().linear - linear).max() < 1e-12
    assert np.abs(sim.momentum().angular - angular).max() < 1e-11


@pytest.mark.parametrize("mode", ["conserving", "damped"])
def test_a_bead_on_a_circle(mode):
    """The printed step loses angle per step as 1/sqrt(1/phi^2 + 2 n); impulses along the old radius lose none."""
    model, h = lj.scenes.bead_on_circle(speed=3.0), 1 / 60
    sim = lj.Simulation(model, lj.Displacements(mode=mode, **FINE), dt=h)
    angles = []
    for _ in range(200):
        sim.step()
        angles.append(math.atan2(sim.positions[0, 1], sim.positions[0, 0]))
    steps = np.diff(np.unwrap(angles))
    if mode == "conserving":
        assert np.ptp(steps) < 1e-9
    else:
        wanted = 1.0 / np.sqrt(1.0 / steps[0] ** 2 + 2.0 * np.arange(len(steps)))
        assert np.abs(steps / wanted - 1.0).max() < 2e-3
        assert steps[-1] < 0.75 * steps[0]


def test_the_damped_mode_is_stable_at_a_twelfth_of_a_second():
    """A pendulum of ten links swings down at 12 steps per second and never gains energy."""
    model = lj.scenes.pendulum(links=10)
    q = np.zeros(model.nq)
    q[0] = 1.2
    sim = lj.Simulation(model, lj.Displacements(mode="damped", iterations=10, solver_iterations=100), dt=1 / 12, q=q)
    start = sim.energy().total
    for _ in range(60):
        sim.step()
        assert sim.energy().total <= start + 1e-6
    assert np.isfinite(sim.positions).all() and sim.stats["joint_error"] < 0.05


@pytest.mark.parametrize("mode", ["conserving", "damped"])
def test_agrees_with_the_full_method(mode):
    """Springs, motors, damping, wrenches and joint forces give the motion of `full`, at the order of the mode."""
    model, errors = machine(), []
    for h in (1e-3, 5e-4):
        sim = lj.Simulation(model, lj.Displacements(mode=mode, **FINE), dt=h)
        full = lj.Simulation(model, lj.Full(integrator="rk4"), dt=5e-4)
        for one in (sim, full):
            one.apply_wrench("b1", force=(0.0, 1.0, 0.5))
            tau = np.zeros(model.nv)
            tau[0] = 0.7
            one.tau = tau
        sim.step(round(0.4 / h))
        full.step(800)
        errors.append(float(np.abs(sim.positions - full.positions).max()))
        assert np.abs(sim.qd - full.qd).max() < 0.15
    assert errors[0] < 5e-3
    assert errors[1] < 0.6 * errors[0]


def test_limits_hold_and_let_go():
    """A hinge falls on its limit, rests there, and leaves it when pulled up."""
    builder = lj.Builder("lever")
    builder.add_body("bar", mass=1.0, com=(0.5, 0.0, 0.0), inertia=(0.01, 0.1, 0.1))
    builder.add_joint_hinge("pivot", "world", "bar", axis=(0.0, 1.0, 0.0), limits=(-1.0, 0.5))
    for mode in ("conserving", "damped"):
        sim = lj.Simulation(builder.build(), lj.Displacements(mode=mode, **FINE), dt=1e-3)
        highest = 0.0
        for _ in range(100):
            sim.step(20)
            highest = max(highest, float(sim.q[0]))
        assert highest < 0.5 + 1e-6
        assert sim.q[0] > 0.4
        sim.apply_wrench("bar", force=(0.0, 0.0, 30.0))
        sim.step(300)
        assert sim.q[0] < 0.2


def test_loops_and_gears_agree_with_multipliers():
    """A four-bar and a gear train move as with multipliers."""
    for model in (lj.scenes.four_bar(), lj.scenes.gear_train()):
        ends = []
        for method in (lj.Displacements(**FINE), lj.Multipliers(integrator="rattle")):
            sim = lj.Simulation(model, method, dt=1e-3)
            sim.step(300)
            ends.append(sim.positions)
        assert np.abs(ends[0] - ends[1]).max() < 1e-4


@pytest.mark.parametrize("mode", ["conserving", "damped", "kinematic"])
def test_snapshots_are_exact(mode):
    """Restored, the next steps are the same bit for bit; looking in between changes nothing."""
    sim = lj.Simulation(machine(), lj.Displacements(mode=mode), dt=1 / 120)
    sim.step(20)
    before = sim.snapshot()
    sim.step(20)
    end = sim.state_hash()
    sim.restore(before)
    for _ in range(20):
        sim.step()
        assert np.isfinite(sim.qd).all() and np.isfinite(sim.energy().total)
    assert sim.state_hash() == end
    other = lj.Simulation(machine(), lj.Displacements(mode=mode), dt=1 / 120)
    other.step(40)
    assert other.state_hash() == end


def test_a_change_of_step_keeps_free_flight():
    """Displacements are scaled with the step: free bodies fly on along their parabola."""
    builder = lj.Builder("ball")
    builder.add_body("ball", mass=1.0, inertia=(0.1, 0.1, 0.1))
    builder.add_joint_free("fly", "world", "ball", start_velocity=(1.0, 0.5, 2.0, 0.0, 0.0, 1.0))
    for mode in ("conserving", "damped"):
        sim = lj.Simulation(builder.build(), lj.Displacements(mode=mode), dt=0.01)
        for dt in (0.01, 0.02, 0.013, 0.03, 0.01):
            sim.dt = dt
            sim.step(5)
        t = sim.time
        assert np.abs(sim.positions[0] - (t, 0.5 * t, 2.0 * t - 0.5 * 9.81 * t * t)).max() < 1e-12


def _dragged(sim, grip, away, frames):
    start = grip.point.copy()
    for k in range(frames):
        grip.move(start + np.asarray(away) * min(1.0, 2.0 * k / frames))
        sim.step()


@pytest.mark.parametrize("away", [(1.0, 0.0, 0.0), (0.0, 3.0, 0.5)])
def test_structures_recover_from_too_hard_a_pull(away):
    """Dragged farther than it reaches at 2 x 5 iterations, the structure closes to 1e-6 m within 60 frames after."""
    scene = lj.scenes.get("draggable_structure")
    sim = lj.Simulation(scene.model, scene.method, dt=scene.dt)
    grip = sim.grab("rod6_3")
    _dragged(sim, grip, away, 60)
    grip.release()
    sim.step(60)
    assert sim.stats["joint_error"] <= 1e-6


def test_the_plate_is_shaken_at_one_by_fifteen():
    """The plate goes exactly where it is told, and 1 x 15 iterations per frame keep all joints within 5 mm for 20 s."""
    scene = lj.scenes.get("shaken_plate")
    assert scene.drive is not None
    sim = lj.Simulation(scene.model, scene.method, dt=scene.dt)
    for _ in range(1200):
        scene.drive(sim)
        sim.step()
        assert sim.stats["joint_error"] < 5e-3
        wanted = 0.15 * math.sin(9.0 * (sim.time - scene.dt)), 0.10 * math.sin(6.0 * (sim.time - scene.dt)), 1.5
        assert np.abs(sim.body("plate").position - wanted).max() < 1e-14


@pytest.mark.parametrize("mode", ["conserving", "damped", "kinematic"])
def test_grips_draw_points_and_tell_their_force(mode):
    """A point is drawn to where the grip is moved, noise and all; hanging still, the force is the weight carried."""
    builder = lj.Builder("bob")
    builder.add_body("bob", mass=2.0, inertia=(0.1, 0.1, 0.1))
    sim = lj.Simulation(builder.build(), lj.Displacements(mode=mode, **FINE), dt=1 / 120)
    draw = np.random.default_rng(3)
    grip, other = sim.grab("bob", (0.1, 0.0, 0.0)), sim.grab("bob", (-0.1, 0.0, 0.0))
    for _ in range(240):
        grip.move((0.6, 0.2, 0.3) + 1e-4 * draw.normal(size=3))
        other.move((0.4, 0.2, 0.3))
        sim.step()
    assert np.abs(sim.positions[0] - (0.5, 0.2, 0.3)).max() < 0.02
    if mode != "kinematic":
        assert abs(grip.force[2] + other.force[2] - 2.0 * 9.81) < 2.0
    other.release()
    grip.move((0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0))
    sim.step(360)
    assert abs(abs(sim.rotations[0] @ (0.0, 0.0, 0.0, 1.0)) - 1.0) < 0.01
    grip.release()
    with pytest.raises(lj.StateError, match="released"):
        grip.move((0.0, 0.0, 0.0))


def test_a_tracker_catches_carries_and_lets_go():
    """With its button down a tracker catches the body it points at, moves and turns it, and lets it go."""
    model = lj.scenes.bar_between_disks()
    sim = lj.Simulation(model, lj.Displacements(mode="kinematic", iterations=20, solver_iterations=60), dt=1 / 60)
    sim.step(5)
    tracker = lj.Tracker(sim, reach=5.0)
    target = sim.body("left").position - (2.0, 0.0, 0.0)
    tracker.update(target, pressed=False)
    assert tracker.body is None
    tracker.update(target, pressed=True)
    assert tracker.body == "left"
    before = sim.body("left").position.copy()
    tracker.update(target + (0.0, 0.3, 0.2), pressed=True)
    sim.step(5)
    assert np.abs(sim.body("left").position - before - (0.0, 0.3, 0.2)).max() < 1e-6
    assert sim.stats["joint_error"] < 1e-6
    own, turn = sim.body("left").rotation.copy(), (np.cos(0.2), 0.0, np.sin(0.2), 0.0)
    tracker.update(target + (0.0, 0.3, 0.2), turn, pressed=True)
    sim.step(10)
    assert abs(sim.body("left").rotation @ own) == pytest.approx(np.cos(0.2), abs=1e-6)
    assert sim.stats["joint_error"] < 1e-6
    tracker.update(target, pressed=False)
    assert tracker.body is None and (tracker.force == 0.0).all()


def test_a_tracker_picks_by_shape():
    """A ray past a thin rod, within the sphere around it, catches what is behind; each kind is hit where it is."""
    builder = lj.Builder("picked", gravity=(0.0, 0.0, 0.0))
    for k, name in enumerate(("rod", "can", "cube", "ball", "pyramid")):
        builder.add_body(name, mass=1.0, inertia=(0.1, 0.1, 0.1), position=(1.0 + k, 0.0, 0.0))
    builder.add_shape_capsule("rod", radius=0.02, length=2.0)
    builder.add_shape_cylinder("can", radius=0.1, length=0.5)
    builder.add_shape_box("cube", size=(0.2, 0.4, 0.6))
    builder.add_shape_sphere("ball", radius=0.3)
    corners = np.array([(0.0, 0.0, 0.0), (0.7, 0.0, 0.0), (0.0, 0.7, 0.0), (0.0, 0.0, 0.7)]) - 0.1
    builder.add_shape_mesh("pyramid", vertices=corners, faces=[(0, 2, 1), (0, 1, 3), (0, 3, 2), (1, 2, 3)])
    model = builder.build()
    sim = lj.Simulation(model, lj.Displacements(mode="kinematic"), dt=1 / 60, ignore="contacts")
    shapes = {shape.body: shape for shape in model.shapes}
    for height, side, wanted, x in (
        (0.9, 0.0, "rod", 0.98), (1.01, 0.0, "rod", 1.0 - np.sqrt(0.02**2 - 0.01**2)),
        (0.0, 0.05, "can", 2.0 - np.sqrt(0.1**2 - 0.05**2)), (0.0, 0.15, "cube", 2.9),
        (0.0, 0.28, "ball", 4.0 - np.sqrt(0.3**2 - 0.28**2)), (0.0, 0.35, "pyramid", 4.9), (0.0, 0.6, None, np.inf),
    ):  # fmt: skip
        tracker = lj.Tracker(sim, reach=10.0)
        tracker.update((0.0, side, height), pressed=True)
        assert tracker.body == wanted
        if wanted is not None:
            start = np.array((0.0, side, height)) - sim.body(wanted).position
            assert ray_hit(shapes[wanted], start, np.array((1.0, 0.0, 0.0))) == pytest.approx(x, abs=1e-9)
        tracker.update((0.0, side, height), pressed=False)


def test_driven_joints_run_at_their_rate():
    """A driven crank turns at its rate, the loop follows; let go, it stands still."""
    model = lj.scenes.four_bar()
    sim = lj.Simulation(model, lj.Displacements(mode="kinematic", **FINE), dt=1 / 60)
    name, start = model.joint_names[0], float(sim.q[0])
    sim.drive(name, 0.8)
    sim.step(60)
    assert abs(sim.q[0] - start - 0.8) < 1e-9 and sim.stats["joint_error"] < 1e-9
    sim.drive(name, None)
    sim.step(10)
    assert abs(sim.q[0] - start - 0.8) < 1e-9
    with pytest.raises(lj.StateError, match="finite"):
        sim.drive(name, float("nan"))


def test_budgets_and_tuning():
    """More iterations leave less error; a budget of time takes at least one and says what it chose."""
    model = lj.scenes.draggable_structure()
    left = []
    for iterations, solver in ((1, 2), (3, 60)):
        sim = lj.Simulation(model, lj.Displacements(mode="kinematic"), dt=1 / 60)
        sim.tune(iterations=iterations, solver_iterations=solver)
        grip = sim.grab("rod6_3")
        grip.move(grip.point + (0.3, 0.0, 0.3))
        sim.step()
        left.append(sim.stats["joint_error"])
        assert sim.stats["iterations"] == iterations
    assert left[1] < 0.1 * left[0]
    sim = lj.Simulation(model, lj.Displacements(max_ms=1e-3, iterations=5, solver_iterations=50), dt=1 / 60)
    sim.step(5)
    assert len(sim.stats["chosen"]) == 5 and sim.stats["chosen"][-1][0] * sim.stats["chosen"][-1][1] <= 50
    with pytest.raises(lj.StateError, match="mode"):
        sim.tune(mode="damped")


def test_weights_say_which_errors_count():
    """Where joints contradict another, the one that weighs more is closed better."""
    builder = lj.Builder("torn", gravity=(0.0, 0.0, 0.0))
    builder.add_body("bar", mass=1.0, inertia=(0.1, 0.1, 0.1))
    builder.add_joint_ball("left", "world", "bar", position=(-2.0, 0.0, 0.0), position_in_child=(-1.0, 0.0, 0.0))
    builder.add_joint_ball("right", "world", "bar", position=(2.0, 0.0, 0.0), position_in_child=(1.0, 0.0, 0.0))
    model = builder.build()
    places = []
    for weights in ({}, {"right": 100.0}):
        method = lj.Displacements(mode="kinematic", iterations=30, solver_iterations=30, weights=weights)
        sim = lj.Simulation(model, method, dt=1 / 60)
        sim.step()
        places.append(float(sim._stepper._s.pose[0, 0]))
    assert abs(places[0]) < 1e-6
    assert places[1] > 0.9


def test_pace_follows_the_clock():
    """Steps last as long as the time since the last one, within bounds, and are kept for a replay."""
    model = lj.scenes.shaken_plate()
    sim = lj.Simulation(model, lj.Displacements(mode="damped"), dt=1 / 60)
    sim.step()
    pace = lj.Pace(sim, longest=0.01)
    taken = [pace.step() for _ in range(3)]
    assert pace.taken == taken and all(0.0 < dt <= 0.01 for dt in taken)
    assert abs(sim.time - 1 / 60 - sum(taken)) < 1e-15


def test_bad_input_is_named():
    """Modes, counts, budgets, weights, bodies and steps that cannot be are refused with names and choices."""
    with pytest.raises(lj.UnknownName, match="conserving"):
        lj.Displacements(mode="lossy")
    for bad in (
        {"iterations": 0},
        {"solver_iterations": 0},
        {"max_ms": 0.0},
        {"tolerance": -1.0},
        {"weights": {"a": 0.0}},
    ):
        with pytest.raises(lj.StateError, match=next(iter(bad)).removesuffix("s")):
            lj.Displacements(**bad)
    model = machine()
    with pytest.raises(lj.UnknownName, match="elbow"):
        lj.Simulation(model, lj.Displacements(weights={"elbow": 2.0}))
    sim = lj.Simulation(model, "displacements")
    with pytest.raises(lj.UnknownName, match="elbow"):
        sim.grab("elbow")
    with pytest.raises(lj.UnknownName, match="elbow"):
        sim.move("elbow", (0.0, 0.0, 0.0))
    with pytest.raises(lj.StateError, match="finite"):
        sim.move("b0", (np.nan, 0.0, 0.0))
    with pytest.raises(lj.StateError, match="dt"):
        sim.dt = 0.0
    with pytest.raises(lj.StateError, match="reach"):
        lj.Tracker(sim, reach=0.0)
    with pytest.raises(lj.StateError, match="longest"):
        lj.Pace(sim, longest=0.0)
