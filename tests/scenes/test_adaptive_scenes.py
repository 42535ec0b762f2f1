"""The scenes of adaptive dynamics: their models, the methods they bring, and that they run as they say."""

from __future__ import annotations

import numpy as np
import pytest

import limberjack as lj
from limberjack.scenes.adaptive import budgets_by_distance, cut_in_order
from limberjack.scenes.crowds import Push
from limberjack.viewer.drawing import turned


def simulation(scene, method=None):
    return lj.Simulation(scene.model, scene.method if method is None else method, scene.dt)


def driven(scene, method, seconds):
    """Return a simulation of the scene after `seconds`, its drive called at 100 Hz."""
    sim = simulation(scene, method)
    for _ in range(round(seconds * 100)):
        scene.drive(sim)
        sim.step(round(0.01 / scene.dt))
    return sim


@pytest.mark.parametrize(
    ("name", "budget"),
    [("paper_pendulum", 20), ("spring_pendulum", 5), ("slider_chain", 1), ("character", 20)],
)
def test_each_scene_brings_its_method(name, budget):
    """The method is adaptive with the scene's budget, which is an option; the model does not depend on it."""
    scene, other = lj.scenes.get(name), lj.scenes.get(name, budget=7)
    assert isinstance(scene.method, lj.Adaptive) and scene.method.budget == budget
    assert other.method.budget == 7
    assert lj.scenes.get(name, budget="7").method == other.method
    assert scene.model.spec.joints == other.model.spec.joints
    lj.methods.require_support(scene.model, scene.method, ())


# -- pendulums -------------------------------------------------------------------------------------


def test_the_paper_pendulum_is_the_pendulum_with_dampers():
    """Links, masses and the start are those of `pendulum`; the damping goes with mass and length."""
    plain, damped = lj.scenes.pendulum(links=20, length=0.5), lj.scenes.paper_pendulum(links=20, length=0.5)
    np.testing.assert_array_equal(plain.q0, damped.q0)
    np.testing.assert_array_equal(plain.arrays.body_inertia, damped.arrays.body_inertia)
    np.testing.assert_allclose(damped.arrays.drives.scalar[:, 0], 40.0 * 0.25)
    assert lj.scenes.paper_pendulum(links=2, damping=0.0).arrays.drives.scalar.size == 0
    assert lj.scenes.paper_pendulum().nv == 300


def test_random_starts_are_smooth_and_at_rest():
    """A random start bends every hinge a little, follows the seed, and does not move."""
    a, b, c = (lj.scenes.paper_pendulum(start="random", seed=seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(a.q0, b.q0)
    assert (a.q0 != c.q0).any() and not a.qd0.any()
    assert 0.0 < np.abs(a.q0[1:]).max() < 0.2


@pytest.mark.parametrize("budget", [1, 5, 20, 100])
@pytest.mark.parametrize("start", ["horizontal", "random"])
def test_the_paper_pendulum_stays_finite_at_any_budget(budget, start):
    """First-order steps of the scene's length never gain energy worth speaking of, whatever is held."""
    scene = lj.scenes.get("paper_pendulum", budget=budget, start=start)
    sim = simulation(scene)
    first = sim.energy()
    kinetic, highest = 0.0, -np.inf
    for _ in range(20):
        sim.step(round(0.05 * scene.seconds / scene.dt))
        energy = sim.energy()
        kinetic, highest = max(kinetic, energy.kinetic), max(highest, energy.total - first.total)
    assert kinetic > 0.0 and highest < 0.02 * kinetic
    assert len(sim.active_joints) == budget


def test_the_spring_pendulum_of_the_paper():
    """50 links, 5 m, 5 kg; the spring of 60 N/m holds the middle of link 31, and other links when asked."""
    model = lj.scenes.spring_pendulum()
    assert model.nv == 50
    assert sum(model.body(name).mass for name in model.body_names) == pytest.approx(5.0)
    positions, _ = lj.forward_kinematics(model, model.q0)
    np.testing.assert_allclose(positions[:, 2], -0.1 * np.arange(50), atol=1e-12)
    (spring,) = model.springs
    assert (spring.a, spring.b, spring.stiffness, spring.at_b) == ("world", "link30", 60.0, (0.0, 0.0, -0.05))
    assert lj.scenes.spring_pendulum(tied=1).springs[0].b == "link0"


def test_the_spring_pendulum_swings_to_the_spring_with_five_joints():
    """The tied link is drawn towards the anchor, and never more than five joints move."""
    scene = lj.scenes.get("spring_pendulum")
    sim = simulation(scene)
    anchor = np.array(scene.model.springs[0].at_a)
    start = np.linalg.norm(anchor - sim.positions[30])
    for _ in range(40):
        sim.step(50)
        assert len(sim.active_joints) == 5
        assert np.count_nonzero(sim.qd) <= 5
    assert np.linalg.norm(anchor - sim.positions[30]) < 0.8 * start


# -- sliders ---------------------------------------------------------------------------------------


def accelerations(scene, method=None):
    sim = simulation(scene, method)
    scene.drive(sim)
    sim.step()
    return sim.velocities[:, 3] / sim.dt


@pytest.mark.parametrize(("mass", "force"), [(1.0, 1.0), (2.5, -8.0)])
def test_a_pushed_slider_moves_alone_or_with_those_behind_it(mass, force):
    """All joints: f/m on the second link. J1 alone: f/(4 m) on the second to the fifth, none on the first."""
    scene = lj.scenes.get("slider_chain", mass=mass, force=force)
    np.testing.assert_allclose(accelerations(scene, "full"), force / mass * np.eye(5)[1], atol=1e-12)
    wanted = force / (4 * mass) * np.array([0, 1, 1, 1, 1])
    np.testing.assert_allclose(accelerations(scene), wanted, atol=1e-12)


def test_the_tree_of_the_sliders_is_cut_at_the_first_joint():
    """The order names J1 to J4; a balanced tree would choose a joint in the middle."""
    scene = lj.scenes.get("slider_chain")
    assert cut_in_order(scene.model) == ["J1", "J2", "J3", "J4"]
    sim, balanced = simulation(scene), simulation(scene, lj.Adaptive(budget=1))
    for one in (sim, balanced):
        scene.drive(one)
        one.step()
    assert [name for name in sim.active_joints if name != "base"] == ["J1"]
    assert [name for name in balanced.active_joints if name != "base"] == ["J2"]


# -- people ----------------------------------------------------------------------------------------


def test_the_character_is_stopped_by_springs_at_its_limits():
    """Pushed, it bends some joints to their limits, and none far beyond."""
    scene = lj.scenes.get("character")
    assert not scene.model.features()
    beyond = []
    sim = simulation(scene)
    for _ in range(100):
        scene.drive(sim)
        sim.step(20)
        for joint in scene.model.spec.joints[1:]:
            for angle, (low, high) in zip(sim.q[scene.model.joint(joint.name).q], joint.limits, strict=True):
                beyond.append(max(low - angle, angle - high))
    assert 0.0 < max(beyond) < 0.2
    assert len(sim.active_joints) == 21


def test_the_character_takes_the_push_as_a_whole():
    """Held joints pass the push on: its momentum is the impulse, to the error of first-order steps, at any budget."""
    for budget in (0, 20, 88):
        scene = lj.scenes.get("character", budget=budget)
        sim = driven(scene, None, 0.5)
        linear, _ = sim.momentum()
        impulse = round(scene.drive.seconds / 0.01) * 0.01 * np.array(scene.drive.force)
        np.testing.assert_allclose(linear, impulse, atol=0.01 * abs(impulse[0]))


def test_budgets_fall_with_the_distance():
    """The nearest figure has the whole budget, one twice as far a quarter, and none less than the least."""
    places = np.array([(1.0, 0.0, 0.0), (2.0, 0.0, 0.0), (0.0, 4.0, 0.0), (0.0, 0.0, 50.0)])
    assert budgets_by_distance(places, (0.0, 0.0, 0.0), 80, 2) == (80, 20, 5, 2)


def test_budgets_are_largest_up_to_a_distance():
    """Figures as near as `near` or nearer have the whole budget, whoever is nearest."""
    places = np.array([(1.0, 0.0, 0.0), (2.0, 0.0, 0.0), (4.0, 0.0, 0.0)])
    assert budgets_by_distance(places, (0.0, 0.0, 0.0), 80, 2, near=2.0) == (80, 80, 20)
    assert budgets_by_distance(2.0 * places, (0.0, 0.0, 0.0), 80, 2, near=2.0) == (80, 20, 5)


def joints_of_figures(sim, count):
    """Return how many joints of each figure are active, but for the roots."""
    names = [name for name in sim.active_joints if not name.endswith("root")]
    return [sum(name.startswith(f"f{i:03d}/") for name in names) for i in range(count)]


def test_budgets_follow_the_figures_of_the_crowd():
    """As figures go away from the camera their budgets and active joints fall; one put near it gets all again."""
    scene = lj.scenes.get("adaptive_crowd", figures=9, budget=40)
    sim, eye = simulation(scene), np.array(scene.camera.position)
    before = np.array(scene.method.budget)
    near = np.linalg.norm(sim.q.reshape(9, 96)[:, :3] * (1, 1, 0) - eye, axis=1).min()
    for _ in range(4):
        for _ in range(15):
            scene.drive(sim)
            sim.step(17)
        places = sim.q.reshape(9, 96)[:, :3] * (1.0, 1.0, 0.0)
        distances = np.linalg.norm(places - eye, axis=1)
        scene.drive(sim)
        budgets = np.array(sim.method.budget)
        # by the size in the image, squared, of now
        wanted = np.maximum(40 * np.minimum(near / distances, 1.0) ** 2, 2)
        assert np.abs(budgets - wanted).max() <= 0.5 + 1e-9
        assert (budgets <= before).all() and budgets.sum() < before.sum()
        sim.step(20)
        assert joints_of_figures(sim, 9) == budgets.tolist()
        before = budgets
    sim.joint("f008/root").q = (eye[0] + 2.0, eye[1], 1.0, 1.0, 0.0, 0.0, 0.0)
    scene.drive(sim)
    # the others have moved on for 20 steps
    budgets = np.array(sim.method.budget)
    assert budgets[8] == 40 and ((before - 1 <= budgets) & (budgets <= before))[:8].all()
    sim.step(20)
    assert joints_of_figures(sim, 9)[8] == 40


def test_the_drive_of_the_crowd_leaves_other_methods_alone():
    """A budget for all and other methods stay as they are, and are pushed all the same."""
    scene = lj.scenes.get("adaptive_crowd", figures=4)
    for method in (lj.Adaptive(budget=30, integrator="implicit"), lj.Full(integrator="implicit")):
        sim = lj.Simulation(scene.model, method, scene.dt)
        scene.drive(sim)
        sim.step(200)
        scene.drive(sim)
        assert sim.method == method and sim.momentum().linear[0] > 100.0


def test_the_crowd_has_a_budget_per_figure():
    """Budgets follow the distance to the scene's camera and are kept; names, poses and masses are those of `crowd`."""
    scene, plain = lj.scenes.get("adaptive_crowd", figures=9, budget=40), lj.scenes.crowd(figures=9)
    assert scene.model.body_names == plain.body_names
    np.testing.assert_array_equal(scene.model.q0, plain.q0)
    budgets = np.array(scene.method.budget)
    eye = np.array(scene.camera.position)
    distance = [np.linalg.norm(scene.model.q0[96 * i : 96 * i + 2] - eye[:2]) for i in range(9)]
    assert (np.diff(budgets[np.argsort(distance)]) <= 0).all() and budgets.max() == 40 > budgets.min() >= 2
    assert isinstance(scene.drive, Push) and len(scene.drive.bodies) == 9
    sim = simulation(scene)
    scene.drive(sim)
    sim.step(20)
    assert joints_of_figures(sim, 9) == budgets.tolist()


def test_motors_hold_the_poses_of_the_crowd():
    """Every freedom but those of the roots has a motor that rests at the start and draws back to it."""
    model = lj.scenes.adaptive_crowd(figures=2)
    joints = [joint for joint in model.spec.joints if joint.kind != "free"]
    for joint in joints:
        start = joint.start or (0.0,) * len(joint.motor)
        assert [motor.target for motor in joint.motor] == list(start)
        assert all(motor.kp > 0.0 and motor.kd > 0.0 for motor in joint.motor)
    assert "motors" in model.features()
    assert "motors" not in lj.scenes.adaptive_crowd(figures=1, tone=0.0).features()
    still = lj.Simulation(model, "full")
    still.step(100)
    np.testing.assert_allclose(still.q, model.q0, atol=1e-9)


def test_the_crowd_goes_away_from_the_camera():
    """Pushed along +x, the centre of mass of every figure goes where it goes with all joints simulated."""
    scene = lj.scenes.get("adaptive_crowd", figures=4, budget=20)
    mass = np.array([scene.model.body(name).mass for name in scene.model.body_names[:89]]) / 75.0

    def centres(sim):
        coms = sim.positions + turned(sim.rotations, scene.model.arrays.body_com)
        return np.einsum("b,fbi->fi", mass, coms.reshape(4, 89, 3))

    begin = centres(simulation(scene))
    few, all_joints = driven(scene, None, 0.5), driven(scene, lj.Full(integrator="implicit"), 0.5)
    moved, wanted = centres(few) - begin, centres(all_joints) - begin
    assert (wanted[:, 0] > 0.5).all()
    np.testing.assert_allclose(moved, wanted, atol=0.03)
