"""What the adaptive method must keep, whatever it chooses: budgets, momentum, energy, bits; and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest
from tests.methods.adaptive.adaptive_scenes import Beside, chain, figures_of, forest, joints_of, simulation, star
from tests.methods.full.test_variational import energies, heavy_chain
from tests.methods.scenes import floating, hanging, tied
from tests.model.test_model import FEATURES
from tests.naive import adaptive as twin
from tests.naive.models import random_state

import limberjack as lj

INTEGRATORS = ("semi_implicit", "euler", "implicit", "rk4")
MODELS = {
    "hanging": hanging,
    "tied": tied,
    "floating": lambda: floating(gravity=(0, 1, -5)),
    "forest": lambda: forest(np.random.default_rng(8), 2),
    "star": lambda: star(np.random.default_rng(9)),
    "chain": lambda: chain(30, damping=0.05),
}


def disturb(sim, rng):
    """Push the model from outside, as a user does while it runs."""
    sim.tau = rng.normal(size=sim.model.nv)
    sim.apply_wrench(sim.model.body_names[-1], force=rng.normal(size=3), torque=rng.normal(size=3), point=(0.1, 0, 0))
    qd = np.array(sim.qd)
    qd[-1] += 0.3
    sim.qd = qd
    if sim.model.name == "tied":
        sim.joint("a1").target = float(rng.uniform(-1, 1))


@pytest.mark.parametrize("integrator", INTEGRATORS)
@pytest.mark.parametrize("name", MODELS)
def test_with_all_joints_it_is_full_bit_for_bit(name, integrator):
    """A budget for all joints moves the model as method "full", to the last bit, however often regions are updated."""
    model = MODELS[name]()
    q, qd = random_state(np.random.default_rng(4), model)
    method = lj.Adaptive(budget=len(joints_of(model)), update_every=3, integrator=integrator)
    both = [lj.Simulation(model, m, dt=2e-3, q=q, qd=qd) for m in (lj.Full(integrator=integrator), method)]
    for round_ in range(4):
        for sim in both:
            sim.step(10 + round_)
            disturb(sim, np.random.default_rng(round_))
            sim.step()
        assert (both[0].q == both[1].q).all() and (both[0].qd == both[1].qd).all()
        assert set(both[1].active_joints) >= set(joints_of(model))


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("budget", [0, 1, 3])
def test_the_budget_is_never_exceeded(name, budget):
    """At no step are more joints simulated than the budget says; the others stand still and keep their q."""
    model, rng = MODELS[name](), np.random.default_rng(5)
    sim = simulation(model, rng, dt=1e-3, budget=budget, update_every=4)
    for k in range(40):
        before = sim.q
        if k % 7 == 3:
            disturb(sim, rng)
        sim.step()
        active = set(sim.active_joints) & set(joints_of(model))
        assert len(active) <= budget
        for joint in joints_of(model):
            place = model.joint(joint)
            assert sim.joint(joint).active == (joint in active)
            if joint not in active:
                assert (sim.qd[place.v] == 0).all() and (sim.q[place.q] == before[place.q]).all()


def test_the_budget_of_each_figure_is_never_exceeded(rng):
    """With one budget per figure none borrows from another."""
    sim = simulation(forest(rng, 2, bodies=14), rng, dt=1e-3, budget=(2, 0, 1, 3)[:3], update_every=3)
    figures, most = figures_of(sim), sim.method.budget
    for k in range(40):
        if k % 9 == 4:
            disturb(sim, rng)
        sim.step()
        used = [sum(figures.get(name) == f for name in sim.active_joints) for f in range(len(most))]
        assert all(a <= b for a, b in zip(used, most, strict=True))


def test_without_budget_and_tolerance_a_fifth_is_simulated(rng):
    """The default simulates 20 % of the joints."""
    sim = simulation(chain(50), rng, dt=1e-3)
    sim.step(3)
    assert len(sim.active_joints) == 10
    by_name = lj.Simulation(chain(50), "adaptive")
    by_name.step(3)
    assert by_name.method == lj.Adaptive() and len(by_name.active_joints) <= 10


def test_changing_the_budget_while_running(rng):
    """tune() changes the budget from the next update on, down and up."""
    sim = simulation(chain(40), rng, dt=1e-3, budget=20, update_every=5)
    for budget in (20, 3, 11, 0, 40):
        sim.tune(budget=budget)
        sim.step(5)
        assert len(sim.active_joints) <= budget
    assert len(sim.active_joints) > 0
    with pytest.raises(lj.StateError, match="budget"):
        sim.tune(budget=-1)


@pytest.mark.parametrize("seed", range(4))
def test_free_trees_keep_their_momentum(seed):
    """Updates of the region change neither linear nor angular momentum of a free tree, to 1e-12.

    The step is so short that what the integrator does to momentum is far below that.
    """
    rng = np.random.default_rng([1, seed])
    model = star(rng, gravity=(0, 0, 0)) if seed == 0 else floating(8, seed=seed)
    for budget in (0, 1, 3):
        sim = simulation(model, rng, dt=1e-12, budget=budget, update_every=1)
        for _ in range(6):
            before = sim.momentum()
            sim.step()
            after = sim.momentum()
            for one, other in zip(before, after, strict=True):
                assert np.abs(other - one).max() < 1e-12 * max(1.0, np.abs(one).max())
            qd = np.array(sim.qd)
            qd[6:] += rng.normal(size=len(qd) - 6)
            sim.qd = qd


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("budget", [0, 1, 3, 8])
def test_an_update_only_takes_energy(name, budget):
    """Kinetic energy never rises in an update; what it loses is qd_R^T K_R^-1 qd_R / 2 and stands in the stats.

    The step is so short that the rest of it changes nothing.
    """
    model, rng = MODELS[name](), np.random.default_rng(6)
    sim = simulation(model, rng, dt=1e-12, budget=budget, update_every=1)
    tree = sim._stepper.assembly
    everything = np.arange(len(tree.parent)) >= len(tree.body_link)
    q, qd, before = sim.q, sim.qd, sim.energy().kinetic
    record = twin.update(model, tree, everything, q, qd, sim.dt, twin.Options(budget=budget))
    sim.step()
    after, removed = sim.energy().kinetic, sim.stats["energy_removed"]
    assert removed >= -1e-12 * before and after <= before * (1 + 1e-9)
    assert before - after == pytest.approx(removed, rel=1e-7, abs=1e-7 * before)
    stopped = qd[record.dropped]
    loss = 0.5 * stopped @ np.linalg.solve(record.k, stopped)
    assert record.margin > 1e-9 and removed == pytest.approx(loss, rel=1e-9, abs=1e-9 * before)


@pytest.mark.parametrize("name", MODELS)
def test_the_error_never_grows_with_the_budget(name):
    """What the choice leaves out, error_estimate, falls with the budget, to 0 with all joints, and is the twin's."""
    model = MODELS[name]()
    errors, count = [], len(joints_of(model))
    for budget in range(count + 1):
        rng = np.random.default_rng(7)
        sim = simulation(model, rng, dt=1e-3, budget=budget)
        q, qd, tree = sim.q, sim.qd, sim._stepper.assembly
        sim.step()
        errors.append(sim.stats["error_estimate"])
        if budget in (0, 1, count // 2):
            everything = np.arange(len(tree.parent)) >= len(tree.body_link)
            record = twin.update(model, tree, everything, q, qd, sim.dt, twin.Options(budget=budget))
            assert errors[-1] == pytest.approx(record.chosen.errors[-1], rel=1e-8, abs=1e-8 * errors[0])
    assert (np.diff(errors) <= 1e-9 * errors[0]).all() and errors[0] > 0
    assert errors[-1] == pytest.approx(0.0, abs=1e-9 * errors[0])


def test_without_joints_a_free_figure_is_one_rigid_body():
    """A floating tree with budget 0 moves as the same bodies on fixed joints."""
    loose = floating(7, gravity=(0, 1, -5))
    builder = lj.Builder("stiff", gravity=loose.gravity)
    positions, rotations = lj.forward_kinematics(loose, loose.q0)
    for name in loose.body_names:
        info = loose.body(name)
        builder.add_body(name, mass=info.mass, com=info.com, inertia=info.inertia)
    base = loose.body_index("b0")
    assert np.allclose(rotations[base], [1, 0, 0, 0]) and np.allclose(positions[base], 0)
    for k, name in enumerate(loose.body_names):
        if name != "b0":
            builder.add_joint_fixed(f"f{k}", "b0", name, position=positions[k], rotation=rotations[k])
    qd = np.array([0.3, -0.2, 0.5, 1.0, -2.0, 0.7])
    for integrator in ("semi_implicit", "rk4"):
        one = lj.Simulation(builder.build(), lj.Full(integrator=integrator), dt=1e-3, qd=qd)
        many = lj.Simulation(
            loose, lj.Adaptive(budget=0, integrator=integrator), dt=1e-3, qd=np.r_[qd, np.zeros(loose.nv - 6)]
        )
        for sim in (one, many):
            sim.apply_wrench("b3", force=(1, 2, 3), torque=(0.1, 0, -0.2))
            sim.step(200)
        assert np.abs(many.q[:7] - one.q).max() < 1e-11 and np.abs(many.qd[:6] - one.qd).max() < 1e-11
        assert not set(many.active_joints) & set(joints_of(loose))


def test_a_large_model_stays_near_the_twin(rng):
    """Over many steps and updates of a longer chain, each step is the twin's."""
    options = {"budget": 7, "update_every": 5}
    beside = Beside(simulation(chain(24, damping=0.1), rng, dt=2e-3, **options), **options)
    beside.run(30)
    assert beside.compared >= 25 and beside.updates >= 4


def busy(name, integrator="semi_implicit", **options):
    """Return a simulation in the middle of things, between two updates."""
    model = MODELS[name]()
    sim = simulation(model, np.random.default_rng(3), dt=1e-3, integrator=integrator, update_every=7, **options)
    sim.step(30)
    disturb(sim, np.random.default_rng(11))
    sim.step(10)
    sim.dt = 7e-4
    sim.step(13)
    return sim


@pytest.mark.parametrize("integrator", INTEGRATORS)
@pytest.mark.parametrize("name", ["tied", "forest", "star"])
def test_going_back_repeats_the_steps(name, integrator):
    """After restore the same steps end in the same bits and regions, in this simulation and in a new one."""
    sim = busy(name, integrator, budget=3)
    snapshot, here, active = sim.snapshot(), sim.state_hash(), sim.active_joints
    sim.step(40)
    there, region = sim.state_hash(), sim.active_joints
    disturb(sim, np.random.default_rng(12))
    sim.clear_wrenches()
    sim.step(9)
    other = lj.Simulation(MODELS[name](), sim.method)
    for one in (sim, sim, other):
        one.restore(snapshot)
        assert one.state_hash() == here and one.active_joints == active
        one.step(40)
        assert one.state_hash() == there and one.active_joints == region


def check_resumed(sim, path):
    """Assert that the simulation saved in a file goes on with the bits and the region of `sim`."""
    again = lj.resume(sim.save(path))
    assert again.state_hash() == sim.state_hash() and again.active_joints == sim.active_joints
    for one in (sim, again):
        one.step(50)
    assert again.state_hash() == sim.state_hash() and again.active_joints == sim.active_joints


@pytest.mark.parametrize("integrator", INTEGRATORS)
@pytest.mark.parametrize("name", ["tied", "forest", "chain"])
@pytest.mark.parametrize("pending", [False, True])
def test_saved_simulations_go_on(name, integrator, pending, tmp_path):
    """save and resume give the same hash and the same next steps, also with a change not yet taken up."""
    sim = busy(name, integrator, budget=2, tolerance=1e-6)
    if pending:
        disturb(sim, np.random.default_rng(13))
    check_resumed(sim, tmp_path / "state.npz")


def test_saved_simulations_keep_weights_and_budgets(tmp_path):
    """Weights by name, numbers and matrices, and a budget per figure are part of what is saved."""
    model = MODELS["tied"]()
    weights = {"a1": 4.0, "b0": [[2.0, 0.5, 0.0], [0.5, 1.0, 0.0], [0.0, 0.0, 3.0]]}
    sim = simulation(model, np.random.default_rng(3), dt=1e-3, update_every=7, budget=(1, 2, 0), weights=weights)
    sim.step(17)
    check_resumed(sim, tmp_path / "state.npz")


def test_weights_that_are_functions_cannot_be_saved(tmp_path):
    """No file can hold a function: saving says so and leaves no file."""
    sim = simulation(MODELS["chain"](), np.random.default_rng(3), budget=2, weights={"j3": lambda q: 1.0 + q * q})
    sim.step(3)
    with pytest.raises(lj.StateError, match="weights"):
        sim.save(tmp_path / "state.npz")
    assert not list(tmp_path.iterdir())


def test_looking_changes_nothing():
    """Measures, snapshots, stats and hashes leave no trace in the motion, nor does the way steps are grouped."""
    one, other = busy("forest", budget=3), busy("forest", budget=3)
    for _ in range(10):
        one.step(5)
        one.snapshot(), one.energy(), one.momentum(), one.positions, one.stats, one.active_joints, one.state_hash()
    other.step(50)
    assert one.state_hash() == other.state_hash()


BAD_OPTIONS = [
    ({"budget": -1}, "budget"),
    ({"budget": 1.5}, "budget"),
    ({"budget": "three"}, "budget"),
    ({"budget": (1, -2)}, "budget"),
    ({"tolerance": float("nan")}, "tolerance"),
    ({"tolerance": -1.0}, "tolerance"),
    ({"tolerance": float("inf")}, "tolerance"),
    ({"velocity_tolerance": float("nan"), "tolerance": 1.0}, "velocity_tolerance"),
    ({"update_every": 0}, "update_every"),
    ({"update_every": 2.5}, "update_every"),
    ({"update_budget": -1}, "update_budget"),
    ({"metric": "speed"}, "metric"),
    ({"tree": "tall"}, "tree"),
    ({"integrator": "leapfrog"}, "integrator"),
    ({"error_bounded": True}, "tolerance"),
    ({"view": (0, 0, 1)}, "view"),
    ({"weights": -1.0}, "weight"),
    ({"weights": float("nan")}, "weight"),
    ({"weights": "heavy"}, "weight"),
    ({"weights": {"j0": -2.0}}, "j0"),
    ({"weights": {"j0": [[1.0, 0.0], [0.0, 1.0]]}}, "j0"),
    ({"weights": {"ball": [[1.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 1.0]]}}, "ball"),
    ({"weights": {"ball": [[1.0, 0.5, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]}}, "ball"),
    ({"weights": {"ball": np.full((3, 3), np.nan)}}, "ball"),
    ({"velocity_weights": {"ball": -1.0}}, "ball"),
    ({"weights": {"elbow": 1.0}}, "elbow"),
    ({"velocity_weights": {"elbow": 1.0}}, "elbow"),
    ({"budget": (1, 2, 3)}, "budget"),
    ({"tree": lambda model: ["elbow"]}, "elbow"),
    ({"tree": "forces", "force_bodies": ("nose",)}, "nose"),
]


def jointed():
    """Return a hinge and a ball from the world."""
    builder = lj.Builder("arm")
    for name in "ab":
        builder.add_body(name, mass=1.0, com=(0, 0, -0.2), inertia=(0.1, 0.1, 0.1))
    builder.add_joint_hinge("j0", "world", "a", axis=(0, 1, 0))
    builder.add_joint_ball("ball", "a", "b", position=(0, 0, -0.4))
    return builder.build()


@pytest.mark.parametrize(
    ("options", "named"), BAD_OPTIONS, ids=[f"{k}-{'-'.join(bad)}" for k, (bad, _) in enumerate(BAD_OPTIONS)]
)
def test_bad_options_are_refused(options, named):
    """A value that cannot be is refused by an error of the package that names it, before any step is taken."""
    kind = lj.UnknownName if named in ("metric", "integrator", "tree", "elbow", "nose") else lj.StateError
    with pytest.raises(kind, match=named):
        lj.Simulation(jointed(), lj.Adaptive(**options))


@pytest.mark.parametrize("bad", [-1.0, float("nan"), [[1.0, 0.0], [0.0, 1.0]], "heavy", None])
def test_functions_that_give_bad_weights_are_refused(bad):
    """A weight function whose value cannot be a weight raises an error that names the joint."""
    method = lj.Adaptive(budget=1, weights={"j0": lambda q: bad})
    with pytest.raises(lj.StateError, match="j0"):
        lj.Simulation(jointed(), method).step()


def test_models_without_joints():
    """With no joint to choose, because all is fixed or all is free, an error says so and names the model."""
    fixed, free = lj.Builder("rock"), lj.Builder("stones")
    for builder in (fixed, free):
        builder.add_body("rock", mass=1.0, inertia=(1, 1, 1))
    fixed.add_joint_fixed("bolt", "world", "rock")
    for builder in (fixed, free, lj.Builder("nothing")):
        with pytest.raises(lj.ModelError, match="no joints"):
            lj.Simulation(builder.build(), lj.Adaptive(budget=1))


def test_what_it_cannot_honour_is_refused():
    """Bodies that are not rigid raise UnsupportedByMethod with their name, and are rigid when ignored."""
    builder, example = FEATURES["bodies"][0]
    model = builder.build()
    with pytest.raises(lj.UnsupportedByMethod, match="bodies") as caught:
        lj.Simulation(model, lj.Adaptive(budget=1))
    assert example in str(caught.value)
    lj.Simulation(model, lj.Adaptive(budget=1), ignore=("bodies",)).step(3)


def _held_chain():
    """A chain of twelve hinges tied to the world in its middle, with limits on its free end."""
    builder, length = lj.Builder("held"), 0.3
    above = "world"
    for i in range(12):
        builder.add_body(f"l{i}", mass=1, com=(length / 2, 0, 0), inertia=(0.002, 0.01, 0.01))
        builder.add_joint_hinge(
            f"j{i}", above, f"l{i}", axis=(0, 1, 0), position=(length if i else 0, 0, 0), damping=0.02,
            limits=(-1.2, 1.2) if i > 5 else None, start=0.4 if i % 2 else -0.3,
        )  # fmt: skip
        above = f"l{i}"
    builder.add_point("tip", "l4", (length, 0, 0))
    free = lj.Simulation(builder.build(), ignore=("limits",))
    builder.add_joint_ball("tie", "world", "l4", position=free.point("tip").position, position_in_child=(length, 0, 0))
    return builder.build()


def test_loops_and_limits_with_all_joints_are_those_of_full():
    """A tied chain with limits moves bit for bit as in `full` when every joint is active."""
    model = _held_chain()
    full = lj.Simulation(model, lj.Full(integrator="rk4"))
    some = lj.Simulation(model, lj.Adaptive(budget=12, integrator="rk4"))
    full.step(200)
    some.step(200)
    assert (some.q == full.q).all() and (some.qd == full.qd).all()


@pytest.mark.filterwarnings("ignore::limberjack.BudgetWarning")
@pytest.mark.parametrize("budget", [2, 4, 6, 9])
def test_loops_and_limits_hold_with_few_joints(budget):
    """Whatever joints are active, the tie stays closed to 1e-10 m and no limit is passed by 1e-9 rad.

    Only the joints of the tie may be more than the budget.
    """
    model = _held_chain()
    sim = lj.Simulation(model, lj.Adaptive(budget=budget, integrator="rk4", update_every=10))
    low, high = model.arrays.limits.T
    for _ in range(12):
        sim.step(25)
        assert sim.joint_error().metres < 1e-10
        assert len(sim.active_joints) - sim.stats["over_budget"] <= budget
        assert (sim.q >= low - 1e-9).all() and (sim.q <= high + 1e-9).all()
    assert np.abs(sim.q - model.q0).max() > 0.1


def test_held_regions_resume_bit_for_bit():
    """A snapshot of a tied chain with few active joints goes on as the run it was taken from."""
    model = _held_chain()
    sim = lj.Simulation(model, lj.Adaptive(budget=4, integrator="rk4"))
    sim.step(33)
    kept = sim.snapshot()
    sim.step(50)
    other = lj.Simulation(model, lj.Adaptive(budget=4, integrator="rk4"))
    other.restore(kept)
    other.step(50)
    assert other.state_hash() == sim.state_hash()


def test_implicit_springs_between_rigid_clusters():
    """A spring between links of two clusters acts implicitly: with all joints as in `full`, with few within reason."""
    builder = lj.Builder("sprung", gravity=(0.0, 0.0, -9.75))
    for k in range(6):
        builder.add_body(f"c{k}", mass=1.0 + 0.25 * k, com=(0.25, 0.0, 0.0), inertia=(0.0625, 0.125, 0.125))
        parent, at = (f"c{k - 1}", (0.5, 0.0, 0.0)) if k else ("world", (0.0, 0.0, 4.0))
        motor = lj.Motor(kp=40.0, kd=2.0, target=0.25 * k - 0.5) if k % 2 == 0 else None
        builder.add_joint_hinge(f"j{k}", parent, f"c{k}", axis=(0.0, 1.0, 0.0), position=at, motor=motor)
    builder.add_spring("c5", "c1", stiffness=32.0, rest=1.0)
    model = builder.build()
    whole, all_joints, few = (
        lj.Simulation(model, method, dt=2.0**-10)
        for method in (
            lj.Full(integrator="implicit"),
            lj.Adaptive(integrator="implicit", budget=6),
            lj.Adaptive(integrator="implicit", budget=4, update_every=8),
        )
    )
    start = few.energy().total
    for sim in (whole, all_joints, few):
        sim.step(256)
    assert np.array_equal(whole.q, all_joints.q)
    # dampers and implicit springs only take energy
    assert few.energy().total < start and np.abs(few.q - model.q0).max() > 0.1


@pytest.mark.parametrize("budget", [5, 20])
@pytest.mark.parametrize(("tip", "dt"), [(50.0, 1 / 60), (500.0, 1 / 240)])
def test_heavy_tips_gain_no_energy(budget, tip, dt):
    """A light chain with a heavy tip gains less than 1 % of its kinetic energy, whichever joints become active."""
    sim = lj.Simulation(heavy_chain(50, "ball", tip), lj.Adaptive(budget=budget), dt=dt)
    change, kinetic = energies(sim, 6.0)
    assert change.max() < 0.01 * kinetic
