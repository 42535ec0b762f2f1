"""One tolerance for joints and time: substeps follow the error in time, and a time in milliseconds can be kept."""

import numpy as np
import pytest

import limberjack as lj
from limberjack.methods.adaptive import method as adaptive_method

FRAME = 1.0 / 60.0


def swinging():
    """One rod of 1 kg and 1 m on a hinge, started level."""
    b = lj.Builder("rod")
    b.add_body("rod", mass=1.0, com=(0.5, 0.0, 0.0), inertia=np.diag([1e-3, 1.0 / 12.0, 1.0 / 12.0]))
    b.add_joint_hinge("hinge", "world", "rod", axis=(0.0, 1.0, 0.0))
    return b.build()


def test_the_error_in_time_is_that_of_the_closed_form():
    """theta" = -(3 g / 2 l) cos(theta) has a known second derivative of the acceleration: the error is h^2 a"/12."""
    model, compared = swinging(), 0
    sim = lj.Simulation(model, lj.Adaptive(tolerance=4.0, dt="auto"), dt=2e-3)
    w, inertia, before = 1.5 * 9.81, 1.0 / 3.0, 0.0
    for k in range(150):
        sim.step()
        found = sim.stats["time_error"]
        theta, rate = float(sim.q[0]), float(sim.qd[0])
        acceleration = w * np.cos(theta)
        second = w * (-np.cos(theta) * rate**2 - np.sin(theta) * acceleration)
        expected = inertia * (sim.dt**2 * second / 12.0) ** 2
        # where it grows, it is not the memory of a larger one; it is that of one and a half steps ago
        if k > 40 and found > before and sim.stats["substeps"] == 1:
            assert found == pytest.approx(expected, rel=0.25)
            compared += 1
        before = found
    assert compared > 20


def errors_of(model, methods, seconds=2.0):
    """Return, per method, the largest distance of a body from where a fine rk4 run has it, and mean substeps."""
    out = []
    for method in methods:
        sim = lj.Simulation(model, method, dt=FRAME)
        reference = lj.Simulation(model, lj.Full(integrator="rk4"), dt=FRAME / 64)
        worst, substeps = 0.0, []
        for _ in range(round(seconds / FRAME)):
            sim.step()
            reference.step(64)
            worst = max(worst, float(np.abs(sim.positions - reference.positions).max()))
            substeps.append(sim.stats["substeps"])
        out.append((worst, float(np.mean(substeps))))
    return out


def test_errors_follow_the_tolerance():
    """The error of the motion falls with the root of the tolerance, at a cost that grows with its eighth root."""
    model = lj.scenes.double_pendulum()
    tolerances = (1e-2, 1e-4, 1e-6)
    found = errors_of(model, [lj.Adaptive(tolerance=one, dt="auto") for one in tolerances])
    for (error, substeps), (finer, more) in zip(found[:-1], found[1:], strict=True):
        assert finer < error / 5.0
        assert substeps < more < 8.0 * substeps
    # the horizon's promise: sqrt(tolerance) H^2 / 2 in the norm of the mass, for each horizon of the run
    for (error, _), tolerance in zip(found, tolerances, strict=True):
        assert error < 4.0 * np.sqrt(tolerance) * 0.5**2


def test_substeps_follow_the_motion():
    """A figure at rest takes one substep, a fast one several."""
    model = lj.scenes.pendulum(links=3, start="hanging")
    rest = lj.Simulation(model, lj.Adaptive(tolerance=1e-6, dt="auto"), dt=FRAME)
    rest.step(30)
    assert rest.stats["substeps"] <= 1
    rest.qd = np.full(model.nv, 6.0)
    rest.step(10)
    rest.step()
    assert rest.stats["substeps"] > 4


@pytest.mark.parametrize("scene", ["loop", "contacts"])
def test_loops_and_contacts(scene):
    """Loops stay closed and figures come to rest on the ground; a loop keeps its energy better than at dt alone."""
    if scene == "loop":
        model, seconds = lj.scenes.four_bar(), 3.0
        kept = []
        for options in ({"tolerance": 1e-6, "dt": "auto"}, {"tolerance": 1e-6}):
            sim = lj.Simulation(model, lj.Adaptive(**options), dt=FRAME)
            before = sim.energy()[2]
            sim.step(round(seconds / FRAME))
            assert sim.joint_error().metres < 1e-6
            kept.append(abs(sim.energy()[2] - before))
        assert kept[0] < 0.25 * kept[1]
    else:
        model = lj.scenes.humanoid(contacts=True, limits="soft")
        sim = lj.Simulation(model, lj.Adaptive(tolerance=1.0, dt="auto"), dt=FRAME)
        before = sim.energy()[2]
        sim.step(90)
        assert sim.energy()[2] < before
        assert np.isfinite(sim.stats["time_error"])


def test_steps_are_the_same_in_any_portions_and_after_a_snapshot():
    """60 steps at once, one by one, and resumed from a snapshot have the same bits."""
    model = lj.scenes.paper_pendulum(links=12, start="random", seed=3)
    runs = []
    for portions in ([60], [1] * 60, [7] * 8 + [4]):
        sim = lj.Simulation(model, lj.Adaptive(tolerance=0.1, dt="auto"), dt=FRAME)
        for count in portions:
            sim.step(count)
        runs.append(sim.q)
    assert (runs[0] == runs[1]).all()
    assert (runs[0] == runs[2]).all()
    sim = lj.Simulation(model, lj.Adaptive(tolerance=0.1, dt="auto"), dt=FRAME)
    sim.step(25)
    kept = sim.snapshot()
    sim.step(35)
    again = lj.Simulation(model, lj.Adaptive(tolerance=0.1, dt="auto"), dt=FRAME)
    again.restore(kept)
    again.step(35)
    assert (again.q == sim.q).all()


def test_milliseconds_widen_the_tolerance(monkeypatch):
    """Where steps take longer than they may, the tolerance is widened until they do not, and comes back."""
    model = lj.scenes.paper_pendulum(links=30, start="random", seed=1)
    sim = lj.Simulation(model, lj.Adaptive(tolerance=1e-6, dt="auto", milliseconds=2.0), dt=FRAME)
    work, cost = [0.0], [1e-4]  # seconds of an evaluation of one joint

    def now():
        stats = sim.stats
        work[0] += 0.5 * cost[0] * stats["evaluations"] * (stats["active_joints"] + 1)
        return work[0]

    monkeypatch.setattr(adaptive_method, "perf_counter", now)
    sim.step(400)
    assert sim.stats["tolerance"] > 1e-4
    stats = sim.stats
    assert 1e3 * cost[0] * stats["evaluations"] * (stats["active_joints"] + 1) / 20 < 20.0
    cost[0] = 0.0
    sim.step(20 * 60)
    assert sim.stats["tolerance"] == pytest.approx(1e-6)


def test_what_cannot_be():
    """Options that exclude each other are refused by name."""
    with pytest.raises(lj.StateError, match="needs a tolerance"):
        lj.Adaptive(budget=3, dt="auto")
    with pytest.raises(lj.StateError, match="metric='joints'"):
        lj.Adaptive(tolerance=1.0, metric="joints", dt="auto")
    with pytest.raises(lj.StateError, match="semi_implicit"):
        lj.Adaptive(tolerance=1.0, integrator="semi_implicit", dt="auto")
    with pytest.raises(lj.UnknownName, match="fixed"):
        lj.Adaptive(tolerance=1.0, dt="fast")
    with pytest.raises(lj.StateError, match="milliseconds"):
        lj.Adaptive(tolerance=1.0, milliseconds=2.0)
