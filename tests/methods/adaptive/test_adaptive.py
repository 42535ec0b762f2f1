"""The adaptive method beside its naive twin: the same joints, coordinates and velocities after every step."""

from __future__ import annotations

import numpy as np
import pytest
from tests.methods.adaptive.adaptive_scenes import (
    Beside,
    chain,
    figures_of,
    forest,
    joints_of,
    motorised,
    random_weights,
    simulation,
    star,
)
from tests.methods.scenes import floating, hanging, tied
from tests.naive import adaptive as twin
from tests.naive.models import KINDS, add_body, add_joint, quaternion, random_state

import limberjack as lj


def pushed(beside, rng, size=1.0):
    """Return `beside` with random joint forces on all joints and wrenches on some bodies."""
    beside.set_tau(size * rng.normal(size=beside.model.nv))
    for body in beside.model.body_names[::3]:
        beside.apply_wrench(body, size * rng.normal(size=6))
    return beside


@pytest.mark.parametrize("seed", range(16))
def test_random_forests(seed):
    """Any forest of any joints with forces, wrenches, drives and weights moves as the twin, updated every 1 to 5."""
    rng = np.random.default_rng([1, seed])
    model = forest(rng, seed)
    options = {"budget": int(rng.integers(0, len(joints_of(model)) + 1)), "update_every": 1 + seed % 5}
    if seed % 3:
        options["weights"] = random_weights(rng, model) if seed % 3 == 1 else float(rng.uniform(0.1, 10))
    beside = pushed(Beside(simulation(model, rng, **options), **options), rng)
    beside.run(12)
    assert beside.compared >= 10 or not joints_of(model)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "fixed"])
@pytest.mark.parametrize("base", ["world", "free"])
def test_every_kind(kind, base, rng):
    """Chains and forks of each kind of joint, from the world or floating, move as the twin."""
    builder = lj.Builder(gravity=rng.normal(size=3) * 5)
    for k in range(5):
        add_body(builder, rng, f"b{k}")
        if k or base == "world":
            add_joint(builder, rng, kind, f"j{k}", f"b{(k - 1) // 2 if k > 2 else k - 1}" if k else "world", f"b{k}")
    model = motorised(builder.build(), rng)
    options = {"budget": 2, "update_every": 2}
    beside = pushed(Beside(simulation(model, rng, **options), **options), rng)
    beside.run(8)
    assert beside.compared >= 6


@pytest.mark.parametrize("seed", range(6))
def test_a_budget_per_figure(seed):
    """With one budget per figure each has its own queue's end, and the others go on."""
    rng = np.random.default_rng([2, seed])
    model = forest(rng, 3 * (seed + 1) - 1, bodies=11)
    count = len(lj.Simulation(model, lj.Adaptive(budget=1))._stepper.assembly.roots)
    assert count >= 3
    options = {"budget": tuple(int(b) for b in rng.integers(0, 4, count)), "update_every": 2}
    beside = pushed(Beside(simulation(model, rng, **options), **options), rng)
    for _ in range(10):
        beside.step()
        figures, used = figures_of(beside.sim), np.zeros(count, int)
        for name in set(beside.sim.active_joints) & set(figures):
            used[figures[name]] += 1
        assert (used <= options["budget"]).all()
    assert beside.compared >= 8


@pytest.mark.parametrize("bounded", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_tolerances(seed, bounded):
    """A tolerance stops both queues, and with error_bounded nothing that moves is stopped."""
    rng = np.random.default_rng([3, seed])
    model = forest(rng, seed)
    sim = simulation(model, rng, budget=10**6)
    every = np.ones(len(sim._stepper.assembly.parent), bool)
    record = twin.update(model, sim._stepper.assembly, every, sim.q, sim.qd, sim.dt, twin.Options(budget=10**6))
    total = record.chosen.errors[0]
    options = {"tolerance": float(total * rng.choice([1e-3, 0.03, 0.3])) + 1e-9, "update_every": 1 + seed % 3}
    if seed % 2:
        options["velocity_tolerance"] = float(record.kept.errors[0] * rng.choice([1e-3, 0.03, 0.3])) + 1e-9
    if seed % 3 == 2 and not bounded:
        options["budget"] = 3
        options.setdefault("velocity_tolerance", 1e-3)
    if bounded:
        options["error_bounded"] = True
    beside = Beside(simulation(model, rng, **options), **options)
    for record in beside.run(10):
        if record is not None and "budget" not in options:
            assert record.chosen.errors[-1] <= options["tolerance"]
    assert beside.compared >= 8 or not joints_of(model)


@pytest.mark.parametrize("seed", range(8))
def test_the_metric_of_the_masses(seed):
    """With metric="mass" each update chooses, from the rigid front down, by the distance from rigid motion."""
    rng = np.random.default_rng([6, seed])
    model = star(rng, arms=10) if seed == 0 else forest(rng, seed)
    options = {"budget": 1 + seed % 4, "update_every": 1 + seed % 3, "metric": "mass"}
    if seed % 4 == 3:
        options |= {"update_budget": 2, "tolerance": 1e-3, "velocity_tolerance": 1e-5}
    beside = Beside(simulation(model, rng, moving=bool(seed % 3), **options), **options)
    beside.apply_wrench(model.body_names[-1], rng.normal(size=6))
    beside.run(10)
    assert beside.compared >= 7


@pytest.mark.parametrize("seed", range(4))
def test_from_rest(seed):
    """Started at rest under gravity and a wrench, joints come into the region one update after the other."""
    rng = np.random.default_rng([4, seed])
    model = chain(14, free=bool(seed % 2), damping=0.1) if seed < 2 else star(rng, arms=9)
    options = {"budget": 3, "update_every": 2}
    beside = Beside(simulation(model, rng, moving=False, **options), **options)
    beside.apply_wrench(model.body_names[-1], rng.normal(size=6))
    beside.run(14)
    assert beside.compared >= 8


@pytest.mark.parametrize("budget", [0, 1, 5, 16, 24])
def test_a_hub_in_pieces(budget, rng):
    """A hub with so many arms that it is cut into pieces moves as one body, and welds are not counted."""
    options = {"budget": budget, "update_every": 3}
    beside = pushed(Beside(simulation(star(rng), rng, **options), **options), rng, 3.0)
    assert len(beside.sim._stepper.assembly.body_link) > len(beside.model.arrays.links.parent)
    beside.run(8)
    assert beside.compared >= 6


@pytest.mark.parametrize("integrator", ["semi_implicit", "euler", "implicit"])
@pytest.mark.parametrize("name", ["hanging", "floating", "forest"])
def test_integrators(name, integrator, rng):
    """Each integrator steps the hybrid body as its definition says; implicit updates judge implicit accelerations."""
    models = {"hanging": hanging, "floating": lambda: floating(gravity=(0, 1, -5)), "forest": lambda: forest(rng, 1)}
    model = models[name]()
    options = {"budget": 2, "update_every": 2}
    sim = simulation(model, rng, integrator=integrator, **options)
    beside = pushed(Beside(sim, **options), rng)
    beside.run(10)
    assert beside.compared >= 8


def test_springs_between_bodies(rng):
    """Springs pull on joints in and out of the region, within a figure, between figures and to the world."""
    options = {"budget": 2, "update_every": 3}
    beside = Beside(simulation(tied(), rng, dt=2e-3, **options), **options)
    beside.run(12)
    assert beside.compared >= 10


@pytest.mark.parametrize("update_budget", [0, 1, 3, 50])
def test_the_update_budget_is_that_of_the_first_queue(update_budget, rng):
    """update_budget limits how many joints are looked at, the budget how many stay."""
    options = {"budget": 2, "update_budget": update_budget, "update_every": 2}
    model = motorised(chain(10), rng)
    beside = pushed(Beside(simulation(model, rng, **options), **options), rng)
    for record in beside.run(10):
        assert record is None or len(record.chosen.popped) <= update_budget
    assert beside.compared >= 8


def test_weights_of_acceleration_and_velocity(rng):
    """The two queues have weights of their own; a function is called with the joint's current coordinates."""
    model = chain(9)
    asked = []

    def by_angle(q):
        asked.append(np.array(q))
        return 0.5 + float(np.atleast_1d(q)[0]) ** 2

    def turning(q):
        return np.array([[1.0 + np.cos(float(np.atleast_1d(q)[0])) ** 2]])

    options = {
        "budget": 3,
        "update_every": 1,
        "weights": {"j1": by_angle, "j4": turning, "j8": 40.0},
        "velocity_weights": {"j0": 7.0, "j5": [[3.0]], "j2": by_angle},
    }
    beside = Beside(simulation(model, rng, **options), **options)
    beside.run(10)
    assert beside.compared >= 8 and all(np.size(q) == 1 for q in asked)


def test_weights_follow_joints_that_are_held_and_set(rng):
    """A weight that is a function of q is evaluated at the current q, also for joints that are rigid but were set."""

    def by_angle(q):
        return 0.01 + 100 * float(np.atleast_1d(q)[0]) ** 2

    model = chain(9)
    options = {"budget": 2, "update_every": 2, "weights": {name: by_angle for name in model.joint_names}}
    beside = Beside(simulation(model, rng, moving=False, **options), **options)
    beside.run(3)
    for k in range(9):
        beside.set_q(f"j{k}", float(rng.uniform(-2, 2)))
        beside.run(1)
    assert beside.compared >= 10


def test_a_heavy_weight_brings_a_joint_in(rng):
    """A joint that weighs far more than the others is active, however little it moves."""
    model = chain(16)
    for name in ("j3", "j9", "j15"):
        sim = simulation(model, rng, budget=6, weights={name: 1e9}, update_every=1)
        sim.step(5)
        assert name in sim.active_joints and sim.joint(name).active


def edit(beside, rng, what):
    """Change one thing from outside."""
    model, sim = beside.model, beside.sim
    names = joints_of(model)
    name = names[int(rng.integers(len(names)))]
    place = model.joint(name)
    if what == "qd":
        beside.set_qd(name, rng.normal(size=place.nv))
    elif what == "q":
        q = random_state(rng, model)[0]
        beside.set_q(name, q[place.q])
    elif what == "tau":
        tau = np.array(sim.tau)
        tau[place.v] = rng.normal(size=place.nv) * 3
        beside.set_tau(tau)
    elif what == "wrench":
        beside.apply_wrench(model.body_names[int(rng.integers(model.body_count))], rng.normal(size=6) * 3)
    elif what == "target":
        driven = [n for n in names if any(m is not None for m in model.joint_spec(n).motor or ())]
        if driven:
            name = driven[int(rng.integers(len(driven)))]
            old = np.atleast_1d(sim.joint(name).target)
            spin = model.joint(name).nq > model.joint(name).nv
            new = rng.uniform(-1, 1, old.size)
            if spin:
                new[-4:] = quaternion(rng)
            beside.set_target(name, new)


@pytest.mark.parametrize("seed", range(8))
def test_changes_while_running(seed):
    """Velocities, coordinates, forces, wrenches and targets set between steps act from the next step on."""
    rng = np.random.default_rng([5, seed])
    model = forest(rng, seed, bodies=10)
    options = {"budget": 3, "update_every": 1 + 2 * (seed % 3)}
    beside = Beside(simulation(model, rng, moving=bool(seed % 2), **options), **options)
    beside.run(3)
    for what in ("qd", "tau", "wrench", "target", "q", "qd", "tau"):
        if joints_of(model):
            edit(beside, rng, what)
        beside.run(1 + int(rng.integers(3)))
    assert beside.compared >= 8 or not joints_of(model)


def test_a_new_step_length_and_a_cleared_wrench(rng):
    """dt may change while running, and wrenches may be taken away again."""
    options = {"budget": 3, "update_every": 2}
    beside = pushed(Beside(simulation(chain(10), rng, **options), **options), rng)
    beside.run(4)
    beside.sim.dt = 1e-3
    beside.run(4)
    beside.sim.clear_wrenches()
    beside.edited |= {int(i) for i in np.flatnonzero(beside.acting.wrenches.any(axis=1))}
    beside.acting.wrenches[:] = 0.0
    beside.pushed = True
    beside.run(4)
    assert beside.compared >= 10
