"""Forces that change from step to step: they act at once, cost no update, and open joints where they are large."""

from __future__ import annotations

import numpy as np
import pytest
from tests.methods.adaptive.adaptive_scenes import Beside, chain, forest, joints_of, simulation
from tests.naive.models import quaternion, random_state

import limberjack as lj

DT = 1e-3


def driven_chain(links=12, **options):
    """Return a chain with a motor in every joint."""
    return chain(links, damping=0.1, motor=lj.Motor(kp=2.0, kd=0.1), **options)


def change(sim, step):
    """Change a wrench, a joint force and a motor target."""
    model, last = sim.model, sim.model.body_names[-1]
    sim.clear_wrenches()
    sim.apply_wrench(last, force=(np.sin(0.3 * step), 0.5, 0.0), torque=(0.0, 0.0, 0.1))
    sim.apply_wrench(model.body_names[2], force=(0.0, 0.2 * step, 0.0))
    sim.joint(model.joint_names[-3]).tau = 0.1 * np.cos(step)
    sim.joint(model.joint_names[4]).target = 0.5 * np.sin(0.2 * step)


@pytest.mark.parametrize("integrator", ["semi_implicit", "implicit", "rk4"])
def test_with_all_joints_they_act_as_in_full(integrator):
    """With all joints active and forces changed before every step the motion is that of full, bit for bit."""
    model = driven_chain()
    methods = lj.Adaptive(budget=10**6, integrator=integrator), lj.Full(integrator=integrator)
    few, full = (lj.Simulation(model, method, dt=DT) for method in methods)
    for step in range(50):
        for sim in (few, full):
            change(sim, step)
            sim.step()
    assert (few.q == full.q).all() and (few.qd == full.qd).all()
    assert np.abs(few.qd).max() > 0.1


@pytest.mark.parametrize("seed", range(8))
def test_every_step_is_that_of_the_twin(seed):
    """Random forces on random forests, other ones before every step: each step is that of the naive twin."""
    rng = np.random.default_rng([15, seed])
    model = forest(rng, seed, bodies=10)
    names = joints_of(model)
    if not names:
        return
    options = {"budget": 3, "update_every": 6}
    if seed % 2:
        options["metric"] = "mass"
    beside = Beside(simulation(model, rng, moving=bool(seed % 3), **options), **options)
    beside.step()
    size = (0.01, 1.0)[seed % 2]
    for _ in range(14):
        name = names[int(rng.integers(len(names)))]
        tau = np.array(beside.sim.tau)
        tau[model.joint(name).v] = size * rng.normal(size=model.joint(name).nv)
        beside.set_tau(tau)
        beside.apply_wrench(model.body_names[int(rng.integers(model.body_count))], size * rng.normal(size=6))
        driven = [n for n in names if any(m is not None for m in model.joint_spec(n).motor or ())]
        if driven:
            name = driven[int(rng.integers(len(driven)))]
            new = rng.uniform(-1, 1, np.size(beside.sim.joint(name).target))
            if model.joint(name).nq > model.joint(name).nv:
                new[-4:] = quaternion(rng)
            beside.set_target(name, new)
        beside.step()
    assert beside.compared >= 10


def test_they_cost_no_update():
    """A weak wrench or joint force, another one before every step, leaves updates where they were.

    Wrenches need no new coefficients; those above a rigid joint are computed once per update.
    """
    model = chain(64)
    calm = lj.Simulation(model, lj.Adaptive(budget=4), dt=DT)
    calm.step(200)
    wanted = calm.stats["updates"]
    assert wanted == 10
    depth = calm.stats["depth"]
    for what in ("wrench", "tau"):
        sim = lj.Simulation(model, lj.Adaptive(budget=4), dt=DT)
        sim.step()
        name = next(n for n in reversed(model.joint_names) if n not in sim.active_joints)
        for step in range(1, 200):
            if what == "wrench":
                sim.clear_wrenches()
                sim.apply_wrench(model.body_names[-1], force=(1e-2 * np.sin(step), 0, 0))
            else:
                sim.joint(name).tau = 1e-3 * np.sin(step)
            sim.step()
        assert sim.stats["updates"] == wanted
        refreshed = sim.stats["nodes_refreshed"]
        assert refreshed == 0 if what == "wrench" else 0 < refreshed <= (depth + 1) * wanted


def rigid_tip(budget=8, dt=DT):
    """Return a simulation between two updates and the name of a body far from active joints."""
    model = chain(48, damping=0.05)
    sim = lj.Simulation(model, lj.Adaptive(budget=budget, metric="joints"), dt=dt)
    sim.step(3)
    active = [model.joint_names.index(name) for name in sim.active_joints]
    far = max(range(len(model.body_names)), key=lambda i: min((abs(i - j) for j in active), default=i))
    return sim, model.body_names[far]


def test_a_strong_force_opens_joints_at_once():
    """A force that would make more than 0.5 m/s in one step comes with an update that activates the joints above."""
    sim, body = rigid_tip()
    updates, mass = sim.stats["updates"], sim.model.body(body).mass
    before = set(sim.active_joints)
    sim.apply_wrench(body, force=(2.0 * mass * 0.5 / DT, 2.0 * mass * 0.5 / DT, 0))  # about either axis
    sim.step()
    assert sim.stats["updates"] == updates + 1
    joint = sim.model.body(body).joint
    assert joint in sim.active_joints and joint not in before and len(sim.active_joints) <= 8


def test_a_weaker_force_opens_them_when_it_has_acted_for_long_enough():
    """The update comes before the step in which the change would exceed 0.5 m/s; as often as not in one call."""
    found = []
    for calls in (1, 12):
        sim, body = rigid_tip()
        updates, mass = sim.stats["updates"], sim.model.body(body).mass
        sim.apply_wrench(body, force=(mass * 0.5 / DT / 6.5, 0, 0))  # 6.5 steps
        for k in range(calls):
            sim.step(12 // calls)
            if calls > 1:
                assert sim.stats["updates"] == updates + (k >= 6)
        found.append(sim.state_hash())
        assert sim.stats["updates"] == updates + 1
    assert found[0] == found[1]


def test_slight_changes_leave_the_region_to_the_metric():
    """A small force that swings at every step changes no more joints than none: it opens none of those above it."""
    changes = []
    for size in (0.0, 1e-3):
        sim = lj.Simulation(lj.scenes.long_chain(links=100, damping=0.5), lj.Adaptive(budget=10), dt=1e-3)
        sim.step(200)
        before = sim.stats["changes"]
        for k in range(200):
            sim.clear_wrenches()
            sim.apply_wrench(sim.model.body_names[-1], force=(size * np.sin(0.1 * k), 0.0, 0.0))
            sim.step()
        changes.append(sim.stats["changes"] - before)
    assert changes[1] == changes[0]


def test_a_target_that_jumps_opens_its_joint():
    """A motor whose target jumps pulls its rigid joint into the region within the step."""
    model = driven_chain(24)
    sim = lj.Simulation(model, lj.Adaptive(budget=8), dt=DT)
    sim.step(5)
    name = next(n for n in reversed(model.joint_names) if n not in sim.active_joints)
    updates = sim.stats["updates"]
    sim.joint(name).target = 3000.0
    sim.step()
    assert sim.stats["updates"] == updates + 1 and name in sim.active_joints


@pytest.mark.parametrize("budget", [0, 3, 100])
def test_linear_momentum_is_that_of_the_forces(budget):
    """Without gravity and ground the momentum of a free chain grows by the sum of the changing forces times dt."""
    model = chain(20, free=True, gravity=(0, 0, 0))
    rng = np.random.default_rng(4)
    sim = lj.Simulation(model, lj.Adaptive(budget=budget, integrator="rk4"), dt=DT)
    wanted = sim.momentum().linear
    for _ in range(60):
        sim.clear_wrenches()
        for body in rng.choice(model.body_names, 2, replace=False):
            force = rng.normal(size=3)
            sim.apply_wrench(body, force=force)
            wanted = wanted + DT * force
        sim.step()
    assert np.abs(sim.momentum().linear - wanted).max() < 1e-10


def test_snapshots_between_changes_are_exact(tmp_path):
    """A snapshot or a file taken while changed forces wait for an update goes on bit for bit."""
    model = driven_chain(30)
    sim = lj.Simulation(model, lj.Adaptive(budget=4), dt=DT)
    for step in range(7):
        change(sim, step)
        sim.step()
    change(sim, 100)
    snapshot, path = sim.snapshot(), sim.save(tmp_path / "changing.npz")

    def go_on(what):
        for step in range(30):
            change(what, step)
            what.step()
        return what.state_hash()

    wanted = go_on(sim)
    sim.restore(snapshot)
    assert go_on(sim) == wanted
    assert go_on(lj.resume(path)) == wanted


def test_forces_written_in_place_act_after_touch():
    """Arrays of sim.forces written in place act as those that were set, once `touch` was called."""
    model = driven_chain()
    sims = [lj.Simulation(model, lj.Adaptive(budget=3), dt=DT) for _ in range(2)]
    for sim in sims:
        sim.step(5)
    sims[0].joint(model.joint_names[5]).tau = 0.3
    sims[0].joint(model.joint_names[2]).target = 0.2
    sims[1].forces.tau[model.joint(model.joint_names[5]).v] = 0.3
    row = int(np.flatnonzero(model.arrays.drives.indices[:, 1] == model.joint(model.joint_names[2]).v_start)[0])
    sims[1].forces.drives.scalar[row, 9] = 0.2
    sims[1].touch()
    for sim in sims:
        sim.step(30)
    assert (sims[0].q == sims[1].q).all()


def test_moving_grips_cost_no_update():
    """A grip that is moved before every step: with all joints active as in full, and updates stay where they were."""
    model = chain(16, damping=0.2)
    path = [np.array([0.05 * np.sin(0.1 * k), 0.0, 0.02 * np.sin(0.07 * k)]) for k in range(100)]
    ends = []
    for method in (lj.Adaptive(budget=100), lj.Full(), lj.Adaptive(budget=4)):
        sim = lj.Simulation(model, method, dt=DT)
        grip = sim.grab(model.body_names[-1])
        start = grip.point
        sim.step()
        updates = sim.stats.get("updates")
        for offset in path:
            grip.move(start + offset)
            sim.step()
        ends.append((sim.q, np.linalg.norm(grip.point - grip.target)))
        if method.name == "adaptive":
            assert sim.stats["updates"] == updates + 5
    assert (ends[0][0] == ends[1][0]).all()
    assert ends[2][1] < 0.05


def test_a_hand_moves_a_rope_at_rest():
    """A hanging rope of which every joint is rigid follows the hand that holds its end about as closely as in full."""
    model = lj.scenes.pendulum(links=60, length=0.05, mass=0.05, damping=0.005, spatial=True, start="hanging")
    lags = []
    for method in (lj.Adaptive(budget=10), lj.Full()):
        sim, gaps = lj.Simulation(model, method, dt=1e-3), []
        start = sim.body(model.body_names[-1]).position.copy()
        sim.step(50)
        assert np.abs(sim.qd).max() < 1e-9
        grip = sim.grab(model.body_names[-1], start)
        for k in range(1000):
            phase = 2.0 * np.pi * sim.time
            grip.move(start + np.array([0.5 * np.sin(phase), 0.0, 0.3 * (1.0 - np.cos(phase))]))
            sim.step()
            if k >= 200 and k % 20 == 0:
                gaps.append(np.linalg.norm(grip.point - grip.target))
        lags.append(np.mean(gaps))
    assert lags[0] < 1.25 * lags[1]


def test_the_force_of_a_grip_on_a_rigid_rope_is_known():
    """A grip between parts that do not move pulls with the force of its spring, stiffness times gap."""
    model = lj.scenes.pendulum(links=20, length=0.1, mass=0.1, start="hanging")
    sim = lj.Simulation(model, lj.Adaptive(budget=0), dt=1e-3)
    name = model.body_names[-1]
    grip = sim.grab(name)
    grip.move(grip.point + np.array([0.0, 0.01, 0.0]))
    sim.step()
    stiffness = 30.0**2 * 20 * 0.1  # of the hand: the mass of the figure times its frequency squared
    assert np.allclose(grip.force, [0.0, stiffness * 0.01, 0.0], atol=1e-9)


# Impulses


def test_impulses_with_all_joints_are_those_of_full():
    """With all joints active an impulse changes velocities as in full, trees and loops."""
    looped = lj.scenes.four_bar() if "four_bar" in lj.scenes.names() else None
    for model in (chain(10), chain(10, free=True), *([looped] if looped is not None else [])):
        rng = np.random.default_rng(8)
        sims = [lj.Simulation(model, method, dt=DT) for method in (lj.Adaptive(budget=100), lj.Full())]
        sims[1].step(5)
        sims[0].step(5)
        assert (sims[0].qd == sims[1].qd).all()
        body, impulse, angular = model.body_names[-1], rng.normal(size=3), 0.1 * rng.normal(size=3)
        for sim in sims:
            sim.apply_impulse(body, impulse=impulse, angular=angular)
        assert np.abs(sims[1].qd).max() > 0.1
        assert np.abs(sims[0].qd - sims[1].qd).max() < 1e-9 * np.abs(sims[1].qd).max()


@pytest.mark.parametrize("budget", [0, 2, 5])
def test_impulses_on_clusters_bring_their_momentum(budget):
    """The momentum of a free figure changes by the impulse, linear and angular, whatever is rigid."""
    rng = np.random.default_rng(6)
    model = chain(20, free=True, gravity=(0, 0, 0))
    q, qd = random_state(rng, model)
    sim = lj.Simulation(model, lj.Adaptive(budget=budget), dt=DT, q=q, qd=qd)
    sim.step(3)
    for k in (0, 7, 19):
        body, impulse, angular = model.body_names[k], rng.normal(size=3), rng.normal(size=3)
        before, point = sim.momentum(), sim.positions[k] + rng.normal(size=3)
        sim.apply_impulse(body, impulse=impulse, angular=angular, point=point)
        after = sim.momentum()
        assert np.abs(after.linear - before.linear - impulse).max() < 1e-10
        assert np.abs(after.angular - before.angular - angular - np.cross(point, impulse)).max() < 1e-9
        assert len([name for name in sim.active_joints if name in joints_of(model)]) <= budget
        sim.step(2)


def test_an_impulse_opens_what_hangs_rigidly():
    """A chain at rest that hangs rigidly from the world is moved by an impulse, near where it was hit."""
    model = chain(32, gravity=(0, 0, 0))
    sim = lj.Simulation(model, lj.Adaptive(budget=3), dt=DT)
    sim.apply_impulse(model.body_names[-1], impulse=(1.0, 0.3, 0))
    assert np.abs(sim.qd).max() > 0.0 and len(sim.active_joints) == 3
    assert sim.energy().kinetic > 0.0


# Turns


def crowd(figures=12, links=6, gravity=(0.0, 0.0, 0.0)):
    """Return free chains far from each other."""
    builder = lj.Builder("crowd", gravity=gravity)
    for i in range(figures):
        for k in range(links):
            name = f"f{i}b{k}"
            start = {} if k else {"position": (3.0 * i, 0, 0)}
            inertia = (0.02, 0.021 + 1e-4 * i, 0.005)
            builder.add_body(name, mass=1.0 + 0.1 * k, com=(0, 0, -0.15), inertia=inertia, **start)
            if k:
                axis = ((0, 1, 0), (1, 0, 0))[k % 2]
                builder.add_joint_hinge(f"f{i}j{k}", f"f{i}b{k - 1}", name, position=(0, 0, -0.3), axis=axis)
    return builder.build()


def moving_crowd(method, seed=3, **options):
    """Return a simulation of a crowd from a random state."""
    model = crowd(**options)
    q, qd = random_state(np.random.default_rng(seed), model)
    return lj.Simulation(model, method, dt=DT, q=q, qd=qd)


def test_many_trees_are_updated_in_turns():
    """Of 12 figures four are updated at a time, all of them within `update_every` steps."""
    sim = moving_crowd(lj.Adaptive(budget=(2,) * 12, update_every=6))
    sim.step()
    assert sim.stats["trees_updated"] == 12
    for cycle in range(4):
        before = sim.stats["trees_updated"]
        counts = []
        for _ in range(6):
            start = sim.stats["trees_updated"]
            sim.step()
            counts.append(sim.stats["trees_updated"] - start)
        assert sim.stats["trees_updated"] - before == 12 and max(counts) == 4, f"cycle {cycle}: {counts}"


def test_groups_that_take_a_turn_together_are_few():
    """Of 40 figures two groups of four are updated at each step, all of them within `update_every` steps."""
    sim = moving_crowd(lj.Adaptive(budget=(2,) * 40, update_every=5), figures=40)
    sim.step()
    for cycle in range(3):
        counts = []
        for _ in range(5):
            start = sim.stats["trees_updated"]
            sim.step()
            counts.append(sim.stats["trees_updated"] - start)
        assert counts == [8] * 5, f"cycle {cycle}"


def joints_per_figure(sim, figures):
    """Return how many joints of each figure are active."""
    return [sum(name.startswith(f"f{i}j") for name in sim.active_joints) for i in range(figures)]


def test_a_changed_budget_waits_for_the_turn_of_each_figure():
    """Budgets that change at every step bring no update but those of the turns, and are kept one period later."""
    sim = moving_crowd(lj.Adaptive(budget=(4,) * 12, update_every=6))
    sim.step()
    for cycle in range(4):
        before = sim.stats["trees_updated"]
        for step in range(6):
            start = sim.stats["trees_updated"]
            sim.tune(budget=tuple(1 + (i + cycle + (step if step < 3 else 0)) % 4 for i in range(12)))
            sim.step()
            assert sim.stats["trees_updated"] - start <= 4
        assert sim.stats["trees_updated"] - before == 12
    sim.tune(budget=(1, 4, 2) * 4)
    sim.step(6)
    assert joints_per_figure(sim, 12) == [1, 4, 2] * 4
    assert sim.stats["active_joints"] == 28


def test_a_smaller_budget_for_all_waits_for_the_turns():
    """One budget for all that falls is kept one period later, without an update of all at once."""
    sim = moving_crowd(lj.Adaptive(budget=40, update_every=6))
    sim.step()
    before = sim.stats["trees_updated"]
    sim.tune(budget=20)
    sim.step()
    assert sim.stats["trees_updated"] - before <= 4
    sim.step(5)
    assert sim.stats["trees_updated"] - before == 12 and sum(joints_per_figure(sim, 12)) <= 20


@pytest.mark.parametrize(
    "options",
    [
        {"budget": (2, 4, 1) * 8},
        {"budget": 40},
        {"budget": 40, "metric": "joints", "integrator": "rk4"},
        {"tolerance": 1.0, "integrator": "implicit"},
        {"tolerance": 1.0, "dt": "auto"},
        {"view": lj.View(position=(30.0, -40.0, 10.0), target=(30.0, 0.0, 0.0)), "integrator": "semi_implicit"},
    ],
)
def test_threads_give_the_same_bits(options):
    """Updates and steps on two and three threads give the bits of one, whatever is set between them."""

    def run(threads):
        hashes = []
        sim = moving_crowd(lj.Adaptive(update_every=3, threads=threads, **options), figures=24)
        for part in range(4):
            sim.step(1 + 3 * part)
            hashes.append(sim.state_hash())
            if part == 0:
                sim.apply_wrench("f3b2", force=(40.0, 5.0, 0.0))
                sim.apply_wrench("f20b5", force=(0.0, 900.0, 0.0))  # which asks for an early update
            elif part == 1:
                sim.apply_impulse("f13b4", impulse=(0.0, 3.0, 1.0))
                sim.tune(budget=(3,) * 24 if isinstance(options.get("budget"), tuple) else 30)
            else:
                sim.tau = 0.1 * np.cos(np.arange(sim.model.nv))
        snapshot = sim.snapshot()
        sim.step(4)
        hashes.append(sim.state_hash())
        sim.restore(snapshot)
        sim.step(4)
        hashes.append(sim.state_hash())
        assert hashes[-1] == hashes[-2] and sim.stats["threads"] == threads
        return hashes, {key: value for key, value in sim.stats.items() if key != "threads"}

    one = run(1)
    assert run(2) == one and run(3) == one


@pytest.mark.parametrize("integrator", ["semi_implicit", "variational"])
def test_threads_go_back_together_where_a_figure_fails(integrator):
    """A figure that diverges stops all at the step before, on two threads in the same state as on one."""

    def run(threads):
        sim = moving_crowd(
            lj.Adaptive(budget=(5,) * 24, update_every=3, threads=threads, integrator=integrator), figures=24
        )
        sim.energy_watch = False
        sim.step(2)
        sim.apply_wrench("f17b3", force=(1e160, 0.0, 0.0))
        with pytest.raises(lj.Diverged) as error:
            sim.step(50)
        return str(error.value), sim.steps, sim.q.tobytes(), sim.qd.tobytes()

    assert run(1) == run(2)


def test_threads_cannot_be_changed_while_running():
    """`tune` refuses another number of threads, and numbers that are none."""
    sim = moving_crowd(lj.Adaptive(budget=20, threads=2))
    with pytest.raises(lj.StateError, match="threads cannot be changed while running"):
        sim.tune(threads=1)
    with pytest.raises(lj.StateError, match="threads must be a whole number >= 1, got 0"):
        lj.Adaptive(threads=0)


def test_each_figure_moves_as_if_it_were_alone():
    """A figure with a budget of its own moves as alone in the world with updates at the same steps, bit for bit.

    With the paper's metric: how long a prediction is trusted depends on the number of updates of all.
    """
    sim = moving_crowd(lj.Adaptive(budget=(2,) * 12, update_every=6, metric="joints"))
    group = sim._stepper._engine.turns.group
    sim_q0, sim_qd0 = sim.q, sim.qd
    sim.step(20)
    for i in (0, 5, 11):
        alone = crowd(figures=12)  # the same numbers; only figure i moves and has joints to spend
        own = [k for k, body in enumerate(alone.body_names) if body.startswith(f"f{i}b")]
        q = slice(alone.joint(f"f{i}b0").q_start, alone.joint(f"f{i}b0").q_start + 12)
        v = slice(alone.joint(f"f{i}b0").v_start, alone.joint(f"f{i}b0").v_start + 11)
        builder = lj.Builder("one", gravity=(0, 0, 0))
        for k in own:
            builder.add_body(
                alone.body_names[k], mass=1.0 + 0.1 * len(builder._spec.bodies), com=(0, 0, -0.15),
                inertia=(0.02, 0.021 + 1e-4 * i, 0.005), **({} if k != own[0] else {"position": (3.0 * i, 0, 0)}),
            )  # fmt: skip
        for k in range(1, 6):
            axis = ((0, 1, 0), (1, 0, 0))[k % 2]
            builder.add_joint_hinge(f"f{i}j{k}", f"f{i}b{k - 1}", f"f{i}b{k}", position=(0, 0, -0.3), axis=axis)
        one = lj.Simulation(
            builder.build(),
            lj.Adaptive(budget=2, update_every=10**6, metric="joints"),
            dt=DT,
            q=sim_q0[q],
            qd=sim_qd0[v],
        )
        for step in range(20):
            if step and step % 6 == (2 * (int(group[i]) + 1)) % 6:
                one.tune(budget=2)  # brings an update
            one.step()
        assert (one.q == sim.q[q]).all() and (one.qd == sim.qd[v]).all()


@pytest.mark.parametrize("each", [False, True])
def test_turns_keep_momentum_and_budget(each):
    """In turns, too, no budget is exceeded at any step and the momentum of each free figure stays."""
    budget = (3, 0, 1) * 4 if each else 10
    sim = moving_crowd(
        lj.Adaptive(budget=budget, update_every=5, metric="mass" if each else "joints", integrator="rk4")
    )
    sim.step()
    start = sim.momentum()
    for _ in range(40):
        sim.step()
        names = [name for name in sim.active_joints if "j" in name]
        if each:
            used = [sum(name.startswith(f"f{i}j") for name in names) for i in range(12)]
            assert all(a <= b for a, b in zip(used, budget, strict=True))
        else:
            assert len(names) <= 10 and len(names) == sim.stats["active_joints"]
    now = sim.momentum()
    assert np.abs(now.linear - start.linear).max() < 1e-8 * np.abs(start.linear).max()
    assert np.abs(now.angular - start.angular).max() < 1e-8 * np.abs(start.angular).max()


def test_a_budget_for_all_goes_to_those_that_move():
    """With one budget for all, joints go over from figures at rest to those that move, turn by turn."""
    model = crowd(figures=12)
    sim = lj.Simulation(model, lj.Adaptive(budget=12, update_every=4), dt=DT)
    sim.step()
    names = [f"f{i}b{k}" for i in range(4) for k in (2, 5)]
    for step in range(400):
        sim.clear_wrenches()
        for k, name in enumerate(names):
            sim.apply_wrench(name, force=(0.0, 20.0 * np.sin(0.05 * step + k), 0.0))
        sim.step()
        assert sim.stats["active_joints"] <= 12
    moving = sum(name.split("j")[0] in ("f0", "f1", "f2", "f3") for name in sim.active_joints if "j" in name)
    assert moving >= 8


def test_a_change_on_one_figure_updates_its_group_alone():
    """A strong force on one figure brings an early update of the trees that take their turn with it."""
    sim = moving_crowd(lj.Adaptive(budget=(0,) * 12, update_every=12))
    sim.step(2)
    while True:  # a step before which no update is due
        before = sim.stats["trees_updated"]
        snapshot = sim.snapshot()
        sim.step()
        if sim.stats["trees_updated"] == before:
            break
    sim.restore(snapshot)
    before = sim.stats["trees_updated"]
    sim.apply_wrench("f7b3", force=(5000.0, 0, 0))
    sim.step()
    assert sim.stats["trees_updated"] == before + 4


def test_turns_go_on_after_snapshots():
    """Turns, quotas and pending early updates are part of snapshots; one call and many give the same."""
    sim = moving_crowd(lj.Adaptive(budget=9, update_every=7))
    sim.step(11)
    sim.apply_wrench("f3b2", force=(30.0, 0, 0))
    snapshot = sim.snapshot()
    sim.step(25)
    wanted = sim.state_hash()
    sim.restore(snapshot)
    for _ in range(25):
        sim.step()
    assert sim.state_hash() == wanted
