"""Crowds: arrays over figures, one budget, the clock, resets and rollouts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import limberjack as lj
from limberjack.crowd.frame_budget import FrameBudget, divide
from limberjack.errors import ModelError, StateError


def walker() -> lj.Model:
    """Return a free body with two legs of two links and a servo in each hip."""
    b = lj.Builder("walker")
    b.add_body("trunk", mass=5.0, inertia=(0.1, 0.1, 0.1))
    b.add_joint_free("root", "world", "trunk", start=(0, 0, 1, 1, 0, 0, 0))
    for side, y in (("left", 0.1), ("right", -0.1)):
        for above, name, z in (("trunk", f"{side}_thigh", -0.1), (f"{side}_thigh", f"{side}_shank", -0.4)):
            b.add_body(name, mass=1.0, com=(0, 0, -0.2), inertia=(0.01, 0.01, 0.002))
            position = (0, y, z) if above == "trunk" else (0, 0, z)
            b.add_joint_hinge(name, above, name, axis=(0, 1, 0), position=position)
        b.add_actuator(f"{side}_hip", f"{side}_thigh", kind="position", kp=20.0, kd=2.0)
    return b.build()


def chain(links: int = 4) -> lj.Model:
    """Return a hanging chain, which is fixed to the world."""
    return lj.scenes.pendulum(links=links)


def test_each_figure_moves_as_one_alone():
    """States, joint forces and controls have one row per figure; each row is the simulation of that figure."""
    model, n = walker(), 5
    crowd = lj.Crowd(model, n, dt=1e-3)
    random = np.random.default_rng(1)
    control, qd = random.normal(size=(n, 2)), random.normal(size=(n, model.nv))
    tau = random.normal(size=(n, model.nv))
    start = crowd.q
    assert start.shape == (n, model.nq) and len(crowd) == n
    crowd.qd, crowd.tau = qd, tau
    crowd.step(100, control=control)
    for i in range(n):
        alone = lj.Simulation(model, "full", dt=1e-3, qd=qd[i])
        alone.tau, alone.control = tau[i], control[i]
        alone.step(100)
        away = start[i] - model.q0
        assert np.allclose(crowd.q[i], alone.q + away, rtol=0, atol=1e-10)
        assert np.allclose(crowd.qd[i], alone.qd, rtol=0, atol=1e-9)
        assert np.allclose(crowd.positions[i], alone.positions + away[:3], rtol=0, atol=1e-10)
    assert (crowd.control == control).all() and (crowd.tau == tau).all()


def test_figures_of_several_models():
    """Models are taken in turn; each property is one array per figure."""
    crowd = lj.Crowd([walker(), chain(3)], 5, dt=1e-3)
    assert [len(q) for q in crowd.q] == [11, 3, 11, 3, 11] and [len(c) for c in crowd.control] == [2, 0, 2, 0, 2]
    crowd.qd = [np.full(len(v), 0.1 * i) for i, v in enumerate(crowd.qd)]
    crowd.step(10)
    alone = lj.Simulation(chain(3), "full", dt=1e-3, qd=np.full(3, 0.3))
    alone.step(10)
    assert np.allclose(crowd.q[3], alone.q, rtol=0, atol=1e-12)


def test_threads_give_the_same_bits():
    """One thread and two."""
    ends = []
    for threads in (1, 2):
        crowd = lj.Crowd(walker(), 16, dt=1e-3, threads=threads)
        crowd.reset(seed=3)
        crowd.step(50)
        ends.append(crowd.q.tobytes())
    assert ends[0] == ends[1]


def test_a_budget_of_all_and_of_each():
    """A share, a number and one number per figure; it may change while the crowd moves."""
    crowd = lj.Crowd(walker(), 10, budget=0.5, dt=1e-3)
    assert crowd.budget == 25  # of the 50 joints of ten figures, free ones counted
    crowd.reset(seed=0)
    crowd.step(60)
    assert len([name for name in crowd.sim.active_joints if not name.endswith("root")]) <= 25
    crowd.budget = 8
    crowd.step(60)
    assert len([name for name in crowd.sim.active_joints if not name.endswith("root")]) <= 8
    hero = lj.Crowd(walker(), 10, budget=[4, *[0] * 9], dt=1e-3)
    hero.step(60)
    moving = {name.split("/")[0] for name in hero.sim.active_joints if not name.endswith("root")}
    assert moving <= {"f000"}


def test_reset_of_some_figures():
    """Figures of the mask are at their start with no forces; the others go on, and seeds repeat."""
    crowd = lj.Crowd(walker(), 4, dt=1e-3)
    start = crowd.q
    crowd.control = np.full((4, 2), 0.5)
    crowd.step(50)
    before = crowd.q
    crowd.reset(np.array([True, False, False, True]))
    assert (crowd.q[[0, 3]] == start[[0, 3]]).all() and (crowd.q[[1, 2]] == before[[1, 2]]).all()
    assert (crowd.control[[0, 3]] == 0).all() and (crowd.control[[1, 2]] == 0.5).all()
    crowd.reset(seed=7)
    first = crowd.q
    assert (first != start).any() and len({row.tobytes() for row in first - start}) == 4
    crowd.step(5)
    crowd.reset(np.array([False, True, False, False]), seed=7)
    assert (crowd.q[1] == first[1]).all()


def test_rollouts_of_controls():
    """Every figure follows its own controls from one state: the same as one simulation after the other."""
    model = walker()
    crowd = lj.Crowd(model, 3, dt=1e-3)
    controls = np.random.default_rng(2).normal(size=(3, 6, 2))
    q, qd = model.q0.copy(), np.full(model.nv, 0.2)
    q[7:] = 0.3
    coordinates, velocities = crowd.rollout(controls, q=q, qd=qd, steps=5)
    assert coordinates.shape == (3, 7, model.nq) and velocities.shape == (3, 7, model.nv)
    for i in range(3):
        alone = lj.Simulation(model, "full", dt=1e-3, q=q, qd=qd)
        for k in range(6):
            alone.control = controls[i, k]
            alone.step(5)
            assert np.allclose(velocities[i, k + 1], alone.qd, rtol=0, atol=1e-9)
    again = crowd.rollout(controls, q=q, qd=qd, steps=5)
    assert (again[0] == coordinates).all() and (again[1] == velocities).all()


def test_the_ground_is_there_once():
    """A plane has no end: one of them bears all figures; what else belongs to the world goes with each figure."""
    b = lj.Builder("ball")
    b.add_body("ball", mass=1.0, inertia=(0.004, 0.004, 0.004))
    b.add_joint_free("root", "world", "ball", start=(0, 0, 0.101, 1, 0, 0, 0))
    b.add_shape_sphere("ball", 0.1)
    b.add_shape_plane("world")
    b.add_shape_box("world", (0.1, 0.1, 0.1), position=(0, 0.5, 0))
    crowd = lj.Crowd(b.build(), 4, spacing=1.0, dt=1e-3)
    kinds = [shape.kind for shape in crowd.sim.model.shapes]
    assert kinds.count("plane") == 1 and kinds.count("box") == 4
    crowd.step(300)
    assert np.allclose(crowd.positions[:, 0, 2], 0.1, atol=2e-3)


def test_the_clock_holds_its_frame():
    """The budget rises while frames are short and falls at once when they are long; what a record says is repeated."""
    pace, cost = FrameBudget(10.0, 1000), 20e-6
    seconds = []
    for frame in range(200):
        cost = 60e-6 if 100 <= frame else 20e-6  # seconds per joint: the load becomes threefold
        seconds.append(2e-3 + cost * pace.budget)
        pace.next(seconds[-1])
    for part in (seconds[60:100], seconds[140:]):
        assert abs(np.median(part) - 10e-3) < 1e-3 and max(part) < 12e-3
    again = FrameBudget(None, 1000, pace.record)
    budgets = [again.budget, *(again.next(1.0) for _ in range(200))]
    assert (again.record == pace.record).all() and budgets[-1] == pace.budget


def test_frames_of_more_steps_are_expected():
    """Three times the steps in a frame: no frame takes twice its time, and the record has one budget per frame."""
    pace, seconds = FrameBudget(10.0, 2000), list[float]()
    for frame in range(240):
        steps = 12 if 80 <= frame < 160 else 4
        pace.expect(steps)
        seconds.append(steps * (0.1e-3 + 5e-6 * pace.budget))
        pace.next(seconds[-1])
    assert max(seconds) < 20e-3
    for part in (seconds[40:80], seconds[120:160], seconds[200:]):
        assert abs(np.median(part) - 10e-3) < 1e-3
    assert (np.diff(pace.record[:, 0]) > 0).all()


def test_a_replay_of_budgets_is_exact():
    """A crowd that held its time moves the same, bit for bit, with the budgets that it chose."""
    live = lj.Crowd(walker(), 10, milliseconds=0.5, dt=1e-3)
    live.reset(seed=1)
    for k in range(30):
        live.step(10 if k < 20 else 25)
    assert live.budgets[0, 0] == 0
    again = lj.Crowd(walker(), 10, budgets=live.budgets, dt=1e-3)
    again.reset(seed=1)
    for k in range(30):
        again.step(10 if k < 20 else 25)
    assert again.sim.state_hash() == live.sim.state_hash() and (again.budgets == live.budgets).all()


def test_a_camera_chooses():
    """Joints are chosen by what a camera sees, and it can be moved."""
    camera = lj.View(position=(-8.0, 0.0, 2.0), tolerance=50.0)
    crowd = lj.Crowd(walker(), 9, camera=camera, dt=1e-3)
    crowd.reset(seed=4)
    crowd.step(30)
    crowd.camera = lj.View(position=(-500.0, 0.0, 2.0), tolerance=50.0)
    crowd.step(60)
    assert not [name for name in crowd.sim.active_joints if not name.endswith("root")]


@pytest.mark.parametrize("budget", [None, 8])
def test_figures_enter_and_leave(budget: int | None):
    """The others go on from their positions, velocities, forces and controls; names are never used twice."""
    model = walker()
    crowd = lj.Crowd(model, 4, budget=budget, dt=1e-3)
    crowd.reset(seed=5)
    random = np.random.default_rng(0)
    crowd.tau, crowd.control = random.normal(size=(4, model.nv)), random.normal(size=(4, 2))
    crowd.sim.apply_wrench("f001/trunk", force=(3.0, 0.0, 0.0))
    crowd.sim.apply_wrench("f003/left_shank", force=(0.0, 2.0, 0.0))
    crowd.step(40)
    q, qd, tau, control, time = crowd.q, crowd.qd, crowd.tau, crowd.control, crowd.sim.time
    crowd.remove([1])
    assert list(crowd.add(positions=[[9.0, 0, 0], [12.0, 0, 0]])) == [3, 4] and len(crowd) == 5
    assert crowd.figures.prefixes == ("f000/", "f002/", "f003/", "f004/", "f005/")
    stayed = [0, 2, 3]
    assert (crowd.q[:3] == q[stayed]).all() and (crowd.qd[:3] == qd[stayed]).all() and crowd.sim.time == time
    assert (crowd.tau[:3] == tau[stayed]).all() and (crowd.control[:3] == control[stayed]).all()
    assert (crowd.q[3:, 0] == [9.0, 12.0]).all() and not crowd.control[3:].any()
    assert len(crowd.sim.forces.wrenches.link) == 1
    # the shank is still pushed, by a figure that has moved up
    alone = lj.Simulation(model, "full", dt=1e-3, q=q[3], qd=qd[3])
    alone.tau, alone.control = tau[3], control[3]
    alone.apply_wrench("left_shank", force=(0.0, 2.0, 0.0))
    if budget is None:
        crowd.step(30)
        alone.step(30)
        assert np.allclose(crowd.q[2], alone.q, rtol=0, atol=1e-9)
    crowd.remove(np.arange(5) >= 3)
    assert len(crowd) == 3
    with pytest.raises(StateError, match="one at least must stay"):
        crowd.remove([0, 1, 2])
    with pytest.raises(StateError, match="remove takes indices from 0 to 2"):
        crowd.remove([3])


@pytest.mark.parametrize("options", [{}, {"budget": 0.4}])
def test_a_saved_crowd_goes_on(options: dict[str, Any], tmp_path: Path):
    """Figures that entered and left, and the motion after them, are the same, bit for bit."""
    models = [walker(), chain(3)]
    crowd = lj.Crowd(models, 5, dt=1e-3, **options)
    crowd.step(20)
    crowd.remove([2])
    crowd.add(models[1], [1.0, 2.0, 0.0])
    crowd.step(10)
    again = lj.Crowd.resume(crowd.save(tmp_path / "crowd.npz"), models)
    assert again.figures.prefixes == crowd.figures.prefixes and len(again) == 5
    assert np.allclose(again.figures.positions, crowd.figures.positions)
    for one in (crowd, again):
        one.step(15)
        one.add(positions=[5.0, 5.0, 0.0])
        one.step(15)
    assert again.sim.state_hash() == crowd.sim.state_hash() and again.figures.prefixes[-1] == "f006/"
    with pytest.raises(ModelError, match="are no figure of"):
        lj.Crowd.resume(tmp_path / "crowd.npz", models[0])


def test_weights_divide_the_budget():
    """The hero has all of its joints, figures without weight none; nothing of the budget is lost."""
    assert divide(10, np.array([np.inf, 1.0, 1.0, 0.0]), np.array([4, 4, 4, 4])) == (4, 3, 3, 0)
    assert divide(9, np.array([1.0, 2.0]), np.array([9, 4])) == (5, 4)
    assert divide(100, np.array([1.0, 2.0]), np.array([9, 4])) == (9, 4)
    assert sum(divide(37, np.random.default_rng(1).uniform(0, 1, 50), np.full(50, 3))) == 37
    crowd = lj.Crowd(walker(), 10, budget=10, weights=[np.inf, *[1.0] * 9], dt=1e-3)
    assert crowd.sim.method.budget[0] == 4 and sum(crowd.sim.method.budget) == 10 and crowd.budget == 10
    crowd.reset(seed=2)
    crowd.step(60)
    crowd.weights = [0.0] * 9 + [1.0]
    assert crowd.sim.method.budget == (0,) * 9 + (4,)
    crowd.remove([9])
    assert not any(crowd.sim.method.budget) and np.shape(crowd.weights) == (9,)
    crowd.weights = None
    assert crowd.sim.method.budget == 10
    with pytest.raises(StateError, match="9 numbers >= 0"):
        crowd.weights = [1.0, -1.0]
    with pytest.raises(StateError, match="weights divide a budget"):
        lj.Crowd(walker(), 2, weights=[1.0, 2.0])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model": 3}, "a crowd takes a lj.Model"),
        ({"model": []}, "a crowd takes a lj.Model"),
        ({"count": 0}, "count must be a whole number >= 1"),
        ({"budget": 1.5}, "between 0 and 1"),
        ({"budget": [1, 2, 3]}, r"one per figure \(2\), got 3"),
        ({"budget": 3, "milliseconds": 2.0}, "one of budget, milliseconds and budgets"),
        ({"milliseconds": -1.0}, "milliseconds must be"),
        ({"budgets": [[1, 3]]}, "from frame 0 on"),
        ({"budget": 3, "method": "full"}, 'method "full" has no budget'),
        ({"positions": [[0, 0, 0]]}, r"positions must be \(2, 3\)"),
        ({"spacing": -1.0}, "spacing must be"),
    ],
)
def test_bad_input_is_refused(options: dict[str, Any], message: str):
    """Each message names the argument and what it takes."""
    given = {"model": chain(), "count": 2} | options
    with pytest.raises(StateError, match=message):
        lj.Crowd(given.pop("model"), given.pop("count"), **given)


def test_bad_arrays_are_refused():
    """Shapes are those of the crowd."""
    crowd = lj.Crowd(chain(), 3)
    for word in ("q", "qd", "tau"):
        with pytest.raises(StateError, match=rf"{word} must have the shape \(3, 4\), got \(4,\)"):
            setattr(crowd, word, np.zeros(4))
    with pytest.raises(StateError, match="mask must be 3 booleans"):
        crowd.reset([0, 1, 0])
    with pytest.raises(StateError, match=r"controls must be \(3, times, 0\)"):
        crowd.rollout(np.zeros((3, 2, 1)))
    with pytest.raises(StateError, match="no record of budgets"):
        crowd.budgets  # noqa: B018
    with pytest.raises(ModelError, match="gravity of model"):
        lj.Crowd([chain(), lj.scenes.pendulum(links=2, gravity=(0, 0, -1.0))])
