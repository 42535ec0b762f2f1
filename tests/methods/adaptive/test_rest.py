"""Figures that lie still in the adaptive method: they come to rest as in `full`, are not updated, sleep, and wake."""

from __future__ import annotations

import numpy as np
import pytest

import limberjack as lj

SLOW = 5e-3  # root of the mean square of velocities by mass that counts as still [m/s]


def fallen(figures=1, ball=False, motor=False):
    """Return figures of a trunk with two arms of four links, above the ground beside each other; and a ball."""
    builder, turn = lj.Builder("fallen"), (np.cos(np.pi / 4), 0.0, np.sin(np.pi / 4), 0.0)
    builder.add_shape_plane("world", friction=0.8)
    for k in range(figures):
        builder.add_body(f"f{k}", mass=4.0, inertia=(0.05, 0.06, 0.04))
        builder.add_shape_box(f"f{k}", (0.3, 0.2, 0.15), friction=0.6)
        builder.add_joint_free(f"f{k}base", "world", f"f{k}", start=(3.0 * k, 0.0, 0.12, 1.0, 0.0, 0.0, 0.0))
        for side in (-1, 1):
            above, place = f"f{k}", (0.15 * side, 0.0, 0.0)
            for i in range(4):
                body = f"f{k}b{side}{i}"
                builder.add_body(body, mass=0.6, com=(0.1 * side, 0, 0), inertia=(0.002, 0.003, 0.003))
                builder.add_shape_capsule(body, 0.03, 0.14, position=(0.1 * side, 0, 0), rotation=turn, friction=0.6)
                drive = lj.Motor(kp=20.0, kd=1.0) if motor and i == 3 else None
                builder.add_joint_hinge(
                    f"f{k}j{side}{i}", above, body, position=place, axis=((0, 1, 0), (0, 0, 1))[i % 2], damping=0.05,
                    start=0.1 * (i - 1), motor=drive,
                )  # fmt: skip
                above, place = body, (0.2 * side, 0.0, 0.0)
    if ball:
        builder.add_body("ball", mass=1.0, inertia=(0.004, 0.004, 0.004))
        builder.add_shape_sphere("ball", 0.1, friction=0.6)
        builder.add_joint_free("ballbase", "world", "ball", start=(0.0, 2.0, 0.1, 1.0, 0.0, 0.0, 0.0))
    return builder.build()


def asleep(model, seconds=8.0, dt=2e-3, **options):
    """Return a simulation whose figures all sleep."""
    sim = lj.Simulation(model, lj.Adaptive(**({"budget": 4} | options)), dt=dt)
    for _ in range(int(seconds / 0.1)):
        sim.step(round(0.1 / dt))
        if sim.stats["asleep"] == len(model.arrays.links.parent[model.arrays.links.parent < 0]):
            return sim
    raise AssertionError(f"not asleep after {seconds} s: {sim.stats}")


@pytest.mark.parametrize("options", [{}, {"integrator": "projected"}, {"integrator": "semi_implicit"}, {"budget": 8}])
def test_what_lies_still_sleeps(options):
    """A figure on the ground comes to rest and sleeps: q stays to the bit, qd is 0, and no update is taken."""
    sim = asleep(fallen(), **options)
    q, updates = sim.q.copy(), sim.stats["updates"]
    sim.step(1000)
    np.testing.assert_array_equal(sim.q, q)
    np.testing.assert_array_equal(sim.qd, 0.0)
    assert sim.stats["updates"] == updates
    assert sim.stats["asleep"] == 1
    assert len(sim.contacts()) > 0


def test_sleep_takes_no_more_energy_than_the_threshold():
    """What sleep removes is kinetic, below that of the speed that counts as still, and counted."""
    model = fallen()
    mass = model.arrays.links.inertia[:, 9].sum()
    sim = lj.Simulation(model, lj.Adaptive(budget=4), dt=2e-3)
    while not sim.stats["asleep"]:
        before, removed = sim.energy(), sim.stats["energy_removed_total"]
        sim.step(1)
        assert sim.time < 8.0
    after = sim.energy()
    assert before.kinetic < 0.5 * mass * SLOW**2
    assert after.kinetic == 0.0
    assert abs(after.potential - before.potential) < 1e-9 * abs(before.potential)
    assert sim.stats["energy_removed_total"] >= removed


def test_without_sleep_nothing_is_updated_at_rest():
    """With sleeping=False a figure at rest is stepped but not updated, stays below 1 mm/s, and a push ends that."""
    sim = lj.Simulation(fallen(), lj.Adaptive(budget=4, sleeping=False), dt=2e-3)
    sim.step(4000)
    updates, q = sim.stats["updates"], sim.q.copy()
    sim.step(500)
    assert sim.stats["updates"] == updates
    assert np.abs(sim.qd).max() < 1e-3
    assert np.abs(sim.q - q).max() < 1e-3
    sim.apply_wrench("f0b13", force=(0.0, 0.0, 20.0))
    sim.step(100)
    assert sim.stats["updates"] > updates
    assert np.abs(sim.q - q).max() > 1e-2


def _set_state(sim):
    q = sim.q.copy()
    q[2] += 0.05
    sim.q = q


@pytest.mark.parametrize(
    "change",
    [
        lambda sim: sim.apply_wrench("f0b13", force=(0.0, 0.0, 30.0)),
        lambda sim: sim.apply_impulse("f0b13", impulse=(0.0, 0.0, 1.0)),
        lambda sim: sim.grab("f0b13").move((0.6, 0.0, 0.6)),
        lambda sim: setattr(sim.joint("f0j13"), "target", 1.5),
        lambda sim: setattr(sim.joint("f0j13"), "tau", 3.0),
        _set_state,
    ],
    ids=["wrench", "impulse", "grip", "target", "joint force", "state"],
)
def test_what_is_done_to_a_sleeper_wakes_it(change):
    """A wrench, an impulse, a grip, a target, a joint force or a state that is set wakes a figure, which moves."""
    sim = asleep(fallen(motor=True))
    change(sim)
    q = sim.q.copy()
    sim.step(100)
    assert sim.stats["asleep"] == 0
    assert np.abs(sim.q - q).max() > 1e-2


def test_what_changes_nothing_does_not_wake():
    """The same target and the same joint force once more leave a sleeper asleep; other options wake it."""
    sim = asleep(fallen(motor=True))
    joint = sim.joint("f0j13")
    joint.target, joint.tau = joint.target, joint.tau
    sim.step(10)
    assert sim.stats["asleep"] == 1
    sim.tune(budget=5)
    sim.step(1)
    assert sim.stats["asleep"] == 0


def test_each_figure_sleeps_by_itself():
    """A push wakes one of two figures; the other sleeps on, and both sleep again in the end."""
    model = fallen(figures=2)
    sim = asleep(model, budget=8)
    n = model.nq // 2
    q = sim.q.copy()
    sim.apply_impulse("f1", impulse=(1.0, 0.0, 2.0))
    sim.step(100)
    assert sim.stats["asleep"] == 1
    np.testing.assert_array_equal(sim.q[:n], q[:n])
    assert np.abs(sim.q[n:] - q[n:]).max() > 1e-2
    sim.step(4000)
    assert sim.stats["asleep"] == 2


def test_what_comes_near_wakes():
    """A ball that rolls leaves a sleeper as it is until it hits it; the figure then moves, and the ball is slower."""
    model = fallen(ball=True)
    sim = asleep(model)
    q = sim.q.copy()
    sim.apply_impulse("ball", impulse=(0.0, -4.0, 0.0))
    steps = 0
    while sim.stats["asleep"] == 1 or steps == 0:
        np.testing.assert_array_equal(sim.q[:-7], q[:-7])
        sim.step(1)
        steps += 1
        assert steps < 1000
    assert sim.q[-6] < 0.4  # it has come near
    sim.step(50)
    assert np.abs(sim.q[:-7] - q[:-7]).max() > 1e-3
    assert sim.qd[-5] > -3.9  # the ball is slower than it was


@pytest.mark.parametrize("steps", [700, 4000])
def test_snapshots_go_on_to_the_same_bits(steps):
    """From a snapshot, taken before a figure sleeps or while it does, the motion and sleep are the same to the bit."""
    model = fallen()
    sim = lj.Simulation(model, lj.Adaptive(budget=4), dt=2e-3)
    sim.step(steps)
    other = lj.Simulation(model, lj.Adaptive(budget=4), dt=2e-3)
    other.restore(sim.snapshot())
    for one in (sim, other):
        one.step(1300)
    assert sim.stats["asleep"] == other.stats["asleep"]
    assert sim.state_hash() == other.state_hash()
    for one in (sim, other):
        one.apply_impulse("f0b13", impulse=(0.0, 0.0, 1.0))
        one.step(200)
    assert sim.state_hash() == other.state_hash()


def test_calls_of_any_length_sleep_alike():
    """Steps taken one by one, or all at once, end in the same bits across sleep and a push."""
    model, ends = fallen(), []
    for length in (1, 37, 5000):
        sim = lj.Simulation(model, lj.Adaptive(budget=4), dt=2e-3)
        for total in (3700, 370):
            done = 0
            while done < total:
                sim.step(min(length, total - done))
                done += min(length, total - done)
            sim.apply_impulse("f0b13", impulse=(0.0, 0.0, 1.0))
        ends.append(sim.state_hash())
    assert ends[0] == ends[1] == ends[2]


def test_joints_that_hold_contact_forces_are_not_opened():
    """At a pose in which `full` rests, the update knows that all joints would stay: no error, no change, no motion."""
    model = fallen()
    full = lj.Simulation(model, lj.Full(), dt=2e-3)
    full.step(6000)
    assert np.abs(full.qd).max() < 1e-3
    sim = lj.Simulation(model, lj.Adaptive(budget=3, sleeping=False), dt=2e-3)
    sim.q = full.q
    sim.step(400)
    mass = model.arrays.links.inertia[:, 9].sum()
    assert sim.stats["acceleration_metric"] < (SLOW / 0.5) ** 2 * mass
    changes = sim.stats["changes"]
    sim.step(400)
    assert sim.stats["changes"] == changes
    assert np.abs(sim.q - full.q).max() < 5e-3


@pytest.mark.parametrize("seed", [0, 1])
def test_a_ragdoll_with_few_joints_falls_and_rests(seed):
    """A humanoid with 10 of 88 joints falls as in `full`: head and pelvis end as low, and it sleeps."""
    model = lj.scenes.humanoid(contacts=True, limits="soft")
    qd = np.zeros(model.nv)
    if seed:
        qd[:2] = np.random.default_rng(seed).uniform(-1.0, 1.0, 2)
    heights = {}
    for method in (lj.Full(), lj.Adaptive(budget=10)):
        sim = lj.Simulation(model, method, dt=1e-3)
        sim.qd = qd
        while sim.time < 14.0 and not sim.stats.get("asleep"):
            sim.step(500)
        heights[sim.method.name] = np.array([sim.body(name).position[2] for name in ("head", "pelvis")])
    assert heights["full"].max() < 0.3
    assert np.abs(heights["adaptive"] - heights["full"]).max() < 0.15
    assert np.abs(sim.qd).max() < 1e-3
    assert sim.stats["asleep"] == 1


@pytest.mark.parametrize("dt", [1 / 240, 1 / 60])
def test_a_ragdoll_with_five_joints_comes_to_rest(dt):
    """A humanoid with 5 of 88 joints falls, lies on the ground and sleeps, at ordinary frame rates."""
    model = lj.scenes.humanoid(contacts=True, limits="soft")
    sim = lj.Simulation(model, lj.Adaptive(budget=5), dt=dt, qd=np.append([0.0, 0.3], np.zeros(model.nv - 2)))
    while sim.time < 30.0 and not sim.stats["asleep"]:
        sim.step(round(0.25 / dt))
    assert sim.stats["asleep"] == 1
    assert sim.positions[:, 2].mean() < 0.3


@pytest.mark.parametrize("value", [None, 1, "yes"])
def test_sleeping_is_true_or_false(value):
    """Other values are refused by name."""
    with pytest.raises(lj.StateError, match="sleeping"):
        lj.Adaptive(sleeping=value)


def test_an_impulse_acts_once():
    """An impulse on a body with contacts changes its velocity at once, and nothing acts in the steps that follow."""
    sim = lj.Simulation(fallen(ball=True), lj.Adaptive(budget=4), dt=2e-3)
    sim.step(3)
    sim.apply_impulse("ball", impulse=(0.0, -4.0, 0.0))
    assert sim.qd[-5] == pytest.approx(-4.0, abs=1e-9)
    sim.step(5)
    assert -4.0 <= sim.qd[-5] < -3.8  # friction of the ground slows it down
