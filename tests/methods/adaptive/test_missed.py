"""What rigid joints miss over time: bounds against `full`, budgets that are shared, joints that do not flicker."""

from __future__ import annotations

import numpy as np
import pytest

import limberjack as lj
from limberjack.methods.adaptive import layout


def hinged(name, joints, *, length=0.5, mass=1.0, damping=0.02, figures=1, tilt=(0.0,)):
    """Return chains of hinges that hang from the world, and q with the first hinge of chain k turned by tilt[k]."""
    builder = lj.Builder(name)
    for f in range(figures):
        above = "world"
        for k in range(joints):
            inertia = (mass * length**2 / 12, mass * length**2 / 12, 0.01 * mass * length**2)
            builder.add_body(f"f{f}.{k}", mass=mass, com=(0, 0, -length / 2), inertia=inertia)
            place = (10.0 * f, 0, 0) if k == 0 else (0, 0, -length)
            builder.add_joint_hinge(f"f{f}.j{k}", above, f"f{f}.{k}", axis=(0, 1, 0), position=place, damping=damping)
            above = f"f{f}.{k}"
    model = builder.build()
    q = np.zeros(model.nq)
    q[np.arange(len(tilt)) * joints] = tilt
    return model, q


def curled(seed, links=12, spread=0.6):
    """Return a chain of twelve heavily damped links, hung from the world in a random curve, and its state."""
    rng = np.random.default_rng(seed)
    model, q = hinged("curled", links, length=0.2, mass=0.3, damping=0.05)
    q[:] = rng.normal(size=links) * spread
    return model, q


def beside_full(model, q, method, seconds, integrator="rk4", dt=1e-3):
    """Return the largest error of link positions against `full` at every 20 ms, and the simulation."""
    sims = [lj.Simulation(model, m, dt=dt, q=q) for m in (method, lj.Full(integrator=integrator))]
    errors = []
    for _ in range(round(seconds / (20 * dt))):
        for sim in sims:
            sim.step(20)
        errors.append(np.linalg.norm(sims[0].positions - sims[1].positions, axis=1))
    return np.array(errors), sims[0]


# What is missed


@pytest.mark.parametrize("tolerance", [1.0, 2.0, 10.0])
def test_a_tolerance_does_not_keep_a_pendulum_in_the_air(tolerance):
    """A pendulum let go from the horizontal falls as in `full` at once, however small its velocity is at first."""
    model = lj.scenes.pendulum(links=2)
    errors, sim = beside_full(model, model.q0, lj.Adaptive(tolerance=tolerance, integrator="rk4"), 0.5)
    assert np.abs(sim.q - model.q0).max() > 1.0
    assert errors.max() < 0.02


@pytest.mark.parametrize("metric", ["mass", "joints"])
def test_what_accelerates_less_than_the_tolerance_falls_later(metric):
    """An acceleration below the tolerance is missed for a while, is counted, and makes the joint active in the end."""
    model, q = hinged("slow", 3, damping=0.0, tilt=(0.3,))
    sim = lj.Simulation(model, lj.Adaptive(budget=0, metric=metric, horizon=0.5), dt=1e-3, q=q)
    sim.step()
    whole = sim.stats["acceleration_metric"]
    sim = lj.Simulation(model, lj.Adaptive(tolerance=2.0 * whole, metric=metric, horizon=0.5), dt=1e-3, q=q)
    sim.step()
    assert sim.active_joints == [] and sim.stats["error_estimate"] == pytest.approx(whole)
    sim.step(60)
    assert sim.active_joints == [] and sim.stats["error_estimate"] > 1.3 * whole
    sim.step(140)
    assert sim.active_joints != []
    sim.step(800)
    assert np.abs(sim.q - q).max() > 0.05


@pytest.mark.parametrize("seed", range(4))
def test_missed_motion_is_the_integral_of_the_metric(seed):
    """A floating chain that turns with all its joints rigid misses what its accelerations, integrated twice, amount to.

    In the axes of its first body these are the same at all times, so that e = (1 + t / H)^4 A.
    """
    rng = np.random.default_rng(seed)
    builder, above = lj.Builder("spinning", gravity=(0, 0, 0)), None
    for k in range(6):
        inertia = 0.1 * (1.0 + 0.2 * rng.random(3))
        builder.add_body(f"b{k}", mass=1.0 + rng.random(), com=(*(0.1 * rng.normal(size=2)), 0), inertia=inertia)
        if above is None:
            builder.add_joint_free("base", "world", "b0")
        else:
            builder.add_joint_hinge(f"j{k}", above, f"b{k}", axis=(0, 0, 1), position=(0.4, 0.1 * rng.normal(), 0))
        above = f"b{k}"
    model = builder.build()
    qd = np.zeros(model.nv)
    qd[5] = 2.0  # about z, the axis of all hinges
    method = lj.Adaptive(budget=0, horizon=0.5, update_every=10)
    sim = lj.Simulation(model, method, dt=1e-3, qd=qd)
    sim.step()
    whole = sim.stats["error_estimate"]
    assert whole > 0.1
    sim.step(250)  # the last update is at 0.25 s
    assert sim.stats["acceleration_metric"] == pytest.approx(whole, rel=1e-6)
    assert sim.stats["error_estimate"] == pytest.approx(whole * 1.5**4, rel=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_what_is_missed_is_no_more_than_the_estimate(seed):
    """The displacement of free joints from a rigid chain, in the norm of the inertias, stays below the estimate."""
    model, q = curled(seed, links=6)
    sim = lj.Simulation(model, lj.Adaptive(budget=0, horizon=0.5), dt=1e-3, q=q)
    full = lj.Simulation(model, lj.Full(integrator="rk4"), dt=1e-3, q=q)
    masses = np.array([0.3] * 6)
    start = full.positions + 0.0
    for _ in range(10):
        sim.step(20)
        full.step(20)
        # bodies at their frames: half a link from their coms, which move no farther
        missed = (masses * ((full.positions - start) ** 2).sum(axis=1)).sum()
        assert missed <= sim.stats["error_estimate"] * (0.5 * 0.5**2) ** 2
    assert sim.stats["error_estimate"] > 0.0


def test_snapshots_hold_what_was_missed():
    """After restore, joints become active at the same updates as in the run the snapshot was taken from."""
    model, q = curled(5)
    method = lj.Adaptive(budget=3, update_every=7)
    sim = lj.Simulation(model, method, dt=1e-3, q=q)
    sim.step(333)
    kept = sim.snapshot()
    sim.step(500)
    other = lj.Simulation(model, method, dt=1e-3, q=q)
    other.restore(kept)
    other.step(500)
    assert other.state_hash() == sim.state_hash() and other.active_joints == sim.active_joints


# Bounds over seconds


@pytest.mark.parametrize("seed", range(4))
def test_a_tolerance_bounds_the_error_over_seconds(seed):
    """For three seconds links stay within the displacement that the tolerance allows of where `full` has them."""
    model, q = curled(seed)
    for tolerance in (0.01, 0.1):
        errors, sim = beside_full(model, q, lj.Adaptive(tolerance=tolerance, integrator="rk4"), 3.0)
        allowed = 0.5 * np.sqrt(tolerance) * sim.method.horizon_used**2 / np.sqrt(0.3)
        assert errors.max() < allowed
        assert sim.stats["error_estimate"] <= tolerance


@pytest.mark.parametrize("distance", [5.0, 50.0, 500.0])
def test_a_view_keeps_its_bound_over_time(distance):
    """A chain that falls for a second is drawn within the pixel of tolerance at all times."""
    model = lj.scenes.pendulum(links=10, length=0.1)
    view = lj.View(position=(0.0, -distance, 0.0))
    errors, _ = beside_full(model, model.q0, lj.Adaptive(view=view, integrator="rk4"), 1.0)
    pixels = errors / (distance - 1.0) * view.pixels / (2 * np.tan(view.angle / 2))
    assert pixels.max() < view.tolerance


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_views_and_tolerances_keep_their_bounds_for_long(seed):
    """For ten seconds of damped chains neither the pixels of a view nor the metres of a tolerance are exceeded."""
    model, q = curled(seed, links=16)
    view = lj.View(position=(0.0, -10.0, -1.0), target=(0.0, 0.0, -1.0))
    errors, _ = beside_full(model, q, lj.Adaptive(view=view, integrator="rk4"), 10.0)
    assert errors.max() / 7.0 * view.pixels / (2 * np.tan(view.angle / 2)) < view.tolerance
    errors, _ = beside_full(model, q, lj.Adaptive(tolerance=0.05, integrator="rk4"), 10.0)
    assert errors.max() < 0.5 * np.sqrt(0.05 / 0.3) * 0.25


def test_what_is_far_away_is_rigid():
    """Seen from so far that the whole chain is less than a pixel, none of its joints is active."""
    model = lj.scenes.pendulum(links=10, length=0.1)
    sim = lj.Simulation(model, lj.Adaptive(view=lj.View(position=(0.0, -5000.0, 0.0))), dt=1e-3)
    sim.step(500)
    assert sim.active_joints == []


# Budgets


def errors_of(method, seed):
    """Return the mean error of links over a second of a random paper pendulum."""
    model = lj.scenes.paper_pendulum(links=60, start="random", seed=seed, damping=0.5)
    errors, _ = beside_full(model, model.q0, method, 1.0, dt=5e-4)
    return errors.mean()


def test_the_default_metric_follows_full_more_closely():
    """At equal budgets the median error of random chains is at most half of that of the paper's metric."""
    found = {}
    for metric in ("mass", "joints"):
        found[metric] = [errors_of(lj.Adaptive(budget=b, metric=metric), seed) for seed in range(5) for b in (10, 20)]
    assert np.median(found["mass"]) <= 0.5 * np.median(found["joints"])
    assert lj.Adaptive().metric == "mass"


@pytest.mark.parametrize("budget", [2, 4])
def test_a_figure_that_falls_gets_its_share(budget):
    """Beside a chain that whirls, one let go from the horizontal falls at once; the budget is common."""
    model, q = hinged("two", 5, figures=2, tilt=(0.0, 1.5))
    qd = np.zeros(model.nv)
    qd[0], qd[2] = 12.0, -20.0
    sim = lj.Simulation(model, lj.Adaptive(budget=budget), dt=1e-3, q=q, qd=qd)
    sim.step(600)
    assert sim.q[5] < 0.8
    assert sim.stats["active_joints"] <= budget


def test_no_figure_waits_for_ever():
    """With one joint for two chains, one of which whirls, the other moves within some seconds."""
    model, q = hinged("two", 5, figures=2, tilt=(0.0, 1.5))
    qd = np.zeros(model.nv)
    qd[0], qd[2] = 12.0, -20.0
    sim = lj.Simulation(model, lj.Adaptive(budget=1), dt=1e-3, q=q, qd=qd)
    sim.step(3000)
    assert abs(sim.q[5] - 1.5) > 0.5


# Rest


@pytest.mark.parametrize("options", [{"budget": 4}, {"tolerance": 0.01}, {"view": lj.View(position=(0, -5, 0))}])
def test_joints_do_not_flicker_at_rest(options):
    """Of a chain that creeps to its rest less than one joint per second changes, of fifty updates."""
    model, _ = hinged("resting", 5, length=0.2, mass=0.3, damping=1.0)
    q = 0.2 * np.random.default_rng(1).normal(size=5)
    sim = lj.Simulation(model, lj.Adaptive(integrator="implicit", **options), dt=1e-3, q=q)
    sim.step(40000)
    assert np.abs(sim.qd).max() < 2e-3 and np.abs(sim.q).max() < 0.01
    before = sim.stats["changes"]
    sim.step(20000)
    assert sim.stats["changes"] - before < 20
    assert sim.stats["changes_per_second"] < 5


def test_a_prediction_that_does_not_come_true_is_trusted_less():
    """Toes under a standing figure, which contact forces seem to throw up, give way to the joints that bend."""
    model = lj.scenes.humanoid(contacts=True, limits="soft")
    sim = lj.Simulation(model, lj.Adaptive(budget=10), dt=1e-3)
    toes = []
    for _ in range(20):
        sim.step(20)
        toes.append(sum("toe" in name for name in sim.active_joints))
    assert np.mean(toes[8:]) <= 4
    sim.step(800)
    assert sim.positions[:, 2].max() < 1.3  # a statue would stand at 1.58 m
    trust = sim._stepper._engine.regions.trust[:, layout.JOINT_TRUST]
    assert ((trust > 0) & (trust < 1)).any()


# The camera


def test_a_camera_that_moves_costs_no_update():
    """tune(view=) takes effect at the next update that is due and changes no coefficients."""
    model = lj.scenes.pendulum(links=30)
    sim = lj.Simulation(model, lj.Adaptive(view=lj.View(position=(0, -20, 0)), update_every=10), dt=1e-3)
    sim.step(25)
    updates = sim.stats["updates"]
    for k in range(5):
        sim.tune(view=lj.View(position=(0.1 * k, -20, 0)))
        sim.step()
    assert sim.stats["updates"] == updates
    sim.tune(view=lj.View(position=(0, -2e6, 0)))
    sim.step(600)
    assert sim.active_joints == []


def test_a_view_can_be_taken_up_and_given_up():
    """tune(view=) on a simulation without one, and view=None again, choose by the metric that belongs to each."""
    model = lj.scenes.pendulum(links=12)
    sim = lj.Simulation(model, lj.Adaptive(budget=4), dt=1e-3)
    sim.step(100)
    sim.tune(budget=None, view=lj.View(position=(0, -20, 0)))
    sim.step(50)
    assert len(sim.active_joints) > 4
    sim.tune(budget=4, view=None)
    sim.step(50)
    assert len(sim.active_joints) == 4
    fresh = lj.Simulation(model, lj.Adaptive(budget=4), dt=1e-3, q=sim.q, qd=sim.qd)
    fresh.step()
    sim.tune(budget=4)
    sim.step()
    assert np.isfinite(sim.stats["error_estimate"])
