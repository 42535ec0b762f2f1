"""The energy watch: instabilities are found and named, work that is done is not mistaken for one."""

from __future__ import annotations

import math
import pickle
import warnings

import numpy as np
import pytest
from tests.methods.scenes import floating, hanging

import limberjack as lj
from limberjack.simulation import energy_watch

pytestmark = pytest.mark.filterwarnings("default::limberjack.errors.EnergyWarning")
METHODS = ["full", "adaptive", "multipliers", "displacements", "impulses", "divide_and_conquer"]
EXPLICIT = lj.Full(integrator="semi_implicit")


@pytest.fixture
def watchful(monkeypatch):
    """Measure the energy every other step, as far as the watch ever looks; a warning is an error."""
    for name, value in (("_MOST", 16), ("_FEWEST", 1), ("_FEWEST_LOOKS", 1), ("_MOST_LOOKS", 2), ("_FULL", 0)):
        monkeypatch.setattr(energy_watch, name, value)
    with warnings.catch_warnings():
        warnings.simplefilter("error", lj.EnergyWarning)
        yield


def chain(count=300):
    """Return a damped chain of hinges about x and y in turn, at rest in a random pose."""
    rng, builder = np.random.default_rng(0), lj.Builder("chain")
    for k in range(count):
        builder.add_body(f"link{k}", mass=1.0, com=(0, 0, -0.05), inertia=(0.01, 0.011, 0.002))
        builder.add_joint_hinge(
            f"joint{k}", f"link{k - 1}" if k else "world", f"link{k}", position=(0, 0, -0.1 if k else 0.0),
            axis=(1, 0, 0) if k % 2 else (0, 1, 0), damping=0.02, start=float(rng.normal(0.0, 0.2)),
        )  # fmt: skip
    return builder.build()


def oscillators(stiffness=1e4, count=3):
    """Return bodies on hinges with springs, the second as stiff as given."""
    builder = lj.Builder("oscillators", gravity=(0, 0, 0))
    for k in range(count):
        builder.add_body(f"b{k}", mass=1.0, com=(0.1, 0, 0), inertia=(1.0, 1.0, 1.0))
        builder.add_joint_hinge(f"j{k}", "world", f"b{k}", stiffness=stiffness if k == 1 else 1.0, start=0.1)
    return builder.build()


def pile():
    """Return a small pile of boxes."""
    return lj.scenes.box_pile(boxes=8)


def diverges(sim, steps, per_call):
    """Return the error of taking steps so many at a time."""
    with pytest.raises(lj.Diverged) as caught:
        for _ in range(steps // per_call):
            sim.step(per_call)
    return caught.value


@pytest.mark.parametrize("per_call", [1, 17, 2000])
def test_an_exploding_chain_is_stopped(per_call):
    """The error comes long before a million times the energy at hand; the state is that before the step it names."""
    model = chain()
    sim = lj.Simulation(model, EXPLICIT, dt=1e-3)
    start = abs(sim.energy().total)
    error = diverges(sim, 2000, per_call)
    assert error.step == sim.steps and error.time == sim.time and f"step {sim.steps + 1}" in str(error)
    assert sim.energy().kinetic < 1e4 * start
    assert 'joint "joint' in str(error) and 'body "link' in str(error) and "energy_watch=False" in str(error)
    assert type(pickle.loads(pickle.dumps(error))) is lj.Diverged
    alone = lj.Simulation(model, EXPLICIT, dt=1e-3, energy_watch=False)
    alone.step(sim.steps)
    assert alone.state_hash() == sim.state_hash()
    alone.step(40)
    assert alone.energy().kinetic > 1e20 * start


def test_the_same_step_fails_however_steps_are_called():
    """One call of many steps and many of one end in the same state, and again when they are repeated."""
    sims = [lj.Simulation(chain(100), EXPLICIT, dt=4e-3) for _ in range(2)]
    diverges(sims[0], 2000, 2000)
    diverges(sims[1], 2000, 1)
    assert sims[0].state_hash() == sims[1].state_hash()
    before = sims[0].steps
    assert diverges(sims[0], 100, 1).step == before


def test_a_slow_rise_is_warned_of_once_and_then_an_error():
    """Explicit steps pump an oscillator: a warning names it, one in all, and the error comes a hundred times later."""
    model, dt = oscillators(), 2e-4
    sim = lj.Simulation(model, lj.Full(integrator="euler"), dt=dt)
    kinetic = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with pytest.raises(lj.Diverged, match='joint "j1" of body "b1"'):
            for _ in range(1000):
                sim.step(64)
                if caught and not kinetic:
                    kinetic.append(sim.energy().kinetic)
    assert [warning.category for warning in caught] == [lj.EnergyWarning]
    assert caught[0].filename == __file__ and '"j1"' in str(caught[0].message)
    assert sim.energy().kinetic > 10.0 * kinetic[0]


def test_it_can_be_turned_off_and_on():
    """Without the watch nothing is raised; turned on again it starts from the energy it finds."""
    sim = lj.Simulation(oscillators(), lj.Full(integrator="euler"), dt=2e-4, energy_watch=False)
    sim.step(40_000)
    assert not sim.energy_watch and sim.energy().kinetic > 1e6
    sim.energy_watch = True
    sim.step(1)
    assert sim.energy_watch
    with pytest.warns(lj.EnergyWarning):
        diverges(sim, 20_000, 100)


def test_where_forces_are_set_a_state_that_was_looked_at_is_restored():
    """With a force set before each step these cannot be repeated: the last snapshot is returned to, with its forces."""
    sim = lj.Simulation(chain(), EXPLICIT, dt=1e-3)
    start, hashes = abs(sim.energy().total), {}
    with pytest.raises(lj.Diverged, match="is restored") as caught:
        for k in range(2000):
            sim.joint("joint0").tau = 1e-3 * k
            sim.step()
            hashes[sim.steps] = sim.state_hash()
    assert caught.value.step == sim.steps < max(hashes) and sim.energy().kinetic < 1e3 * start
    assert sim.state_hash() == hashes[sim.steps] and sim.tau[0] == pytest.approx(1e-3 * (sim.steps - 1))


def test_a_recording_ends_where_the_state_is():
    """run() keeps the frames up to the state that is returned to."""
    sim = lj.Simulation(chain(), EXPLICIT, dt=1e-3)
    with pytest.raises(lj.Diverged):
        sim.run(3.0)
    assert sim.recorded.times[-1] <= sim.time < sim.recorded.times[-1] + 0.02


def test_energy_from_nowhere_is_found(watchful):
    """Velocities changed behind the simulation's back are work that nobody did."""
    sim = lj.Simulation(hanging(), EXPLICIT, dt=1e-3)
    sim.step(50)
    sim._stepper.qd[:] += 60.0
    with pytest.raises(lj.EnergyWarning):
        sim.step(2)
    sim = lj.Simulation(hanging(), EXPLICIT, dt=1e-3)
    sim.step(50)
    sim._stepper.qd[:] += 1e5
    with pytest.raises(lj.Diverged, match="the last one that was looked at, is restored"):
        sim.step(2)
    assert sim.energy().kinetic < 1e3


@pytest.mark.parametrize("method", METHODS)
def test_a_gain_that_leaves_velocities_as_they_are_is_found(method, monkeypatch):
    """A heavy body gains four tenths of its energy from nowhere, beside a light one whose spin is most of the speed."""
    builder = lj.Builder("gain", gravity=(0, 0, 0))
    builder.add_body("heavy", mass=100.0, inertia=(10.0, 10.0, 10.0))
    builder.add_joint_slide("slide", "world", "heavy", axis=(0, 0, 1), start_velocity=30.0)
    builder.add_body("light", mass=1e-3, inertia=(1e-6, 1e-6, 1e-6))
    builder.add_joint_hinge("spin", "world", "light", position=(1.0, 0.0, 0.0), axis=(0, 0, 1), start_velocity=1e3)
    sim = lj.Simulation(builder.build(), method, dt=1e-3)
    sim.step(1000)
    monkeypatch.setattr(energy_watch.EnergyWatch, "forget", lambda _: None)
    sim.qd = 1.2 * sim.qd
    with pytest.warns(lj.EnergyWarning, match='body "heavy"'):
        sim.step(1100)


@pytest.mark.parametrize(
    ("method", "scene"),
    [(method, hanging) for method in METHODS]
    + [(method, lj.scenes.bricard) for method in METHODS if lj.capabilities()[method]["loops"]]
    + [("full", pile), ("impulses", pile)],
)
def test_results_do_not_depend_on_it(method, scene, watchful):
    """A simulation that is measured all the time has the bits of one that never is."""
    sims = [
        lj.Simulation(scene(), method, dt=2e-3, ignore=("armature", "bodies"), energy_watch=on) for on in (True, False)
    ]  # fmt: skip
    for sim in sims:
        for n in (1, 1, 7, 50, 141):
            sim.step(n)
    assert sims[0]._watch._base is not None and sims[1]._watch._base is None
    assert sims[0].state_hash() == sims[1].state_hash()


@pytest.mark.parametrize("method", METHODS)
def test_velocities_of_users_are_no_alarm(method, watchful):
    """States that are set, however fast, impulses and snapshots are taken as they are."""
    sim = lj.Simulation(floating(3), method, dt=1e-3)
    sim.step(20)
    kept = sim.snapshot()
    for speed in (1e2, 1e4, 1.0):
        sim.qd = speed * np.sign(sim.qd + 0.1)
        sim.step(1)
    sim.restore(kept)
    if "impulse" in sim.method.verbs:
        sim.apply_impulse("b1", impulse=(100.0, 0, 0))
        sim.step(3)
        sim.restore(kept)
    sim.step(20)


@pytest.mark.parametrize("method", METHODS)
def test_forces_of_users_are_no_alarm(method, watchful):
    """Joint forces and wrenches a thousand times the weight, for a moment or lasting, are work that was done."""
    sim = lj.Simulation(floating(4), method, dt=1e-4)
    for k in range(60):
        sim.tau = 3e3 * np.ones(sim.model.nv) if k % 20 < 3 else np.zeros(sim.model.nv)
        if k == 30:
            sim.apply_wrench("b2", force=(0, 0, 1e5), torque=(0, 1e3, 0))
        if k == 50:
            sim.clear_wrenches()
        sim.step(1 + k % 5)
    assert sim.energy().kinetic > 1e4


@pytest.mark.parametrize("method", ["full", "multipliers", "impulses"])
def test_motors_are_no_alarm(method, watchful):
    """Stiff motors whose targets jump, and motors for speed, do work."""
    builder = lj.Builder("arm")
    motors = (lj.Motor(kp=100.0, kd=0.1), lj.Motor(kd=2.0, velocity=200.0))
    for k, motor in enumerate(motors):
        builder.add_body(f"b{k}", mass=0.1, com=(0, 0, -0.05), inertia=(1e-3, 1e-3, 1e-3))
        builder.add_joint_hinge(f"j{k}", f"b{k - 1}" if k else "world", f"b{k}", position=(0, 0, -0.1), motor=motor)
    sim = lj.Simulation(builder.build(), method, dt=1e-4)
    most = 0.0
    for k in range(100):
        sim.joint("j0").target = 3.0 * (-1) ** (k // 7)
        sim.step(3)
        most = max(most, sim.energy().kinetic)
    assert most > 20.0 * energy_watch.WARNING * 0.2 * 9.81 * 0.2


@pytest.mark.parametrize("method", ["full", "multipliers", "displacements", "impulses"])
def test_grips_are_no_alarm(method, watchful):
    """A figure dragged about by a grip gets its energy from the grip."""
    sim = lj.Simulation(floating(4, gravity=(0, 0, -9.81)), method, dt=1e-3)
    grip = sim.grab("b2")
    for k in range(80):
        grip.move(grip.target + (0.5 * (-1) ** (k // 10), 0.0, 0.2))
        sim.step(2)
    grip.release()
    sim.step(10)


@pytest.mark.parametrize("method", [name for name in METHODS if lj.capabilities()[name]["move"]])
def test_prescribed_bodies_are_no_alarm(method, watchful):
    """A body moved to and fro at a hundred metres per second throws what hangs from it."""
    sim = lj.Simulation(floating(4, gravity=(0, 0, -9.81)), method, dt=1e-3)
    start = sim.body("b0").position
    for k in range(60):
        sim.move("b0", start + (2.0 * np.sin(0.05 * k), 0, 0))
        sim.step(1)
    sim.move("b0", None)
    sim.step(20)


def test_joints_made_while_running_are_no_alarm(watchful):
    """A gap closed in an instant gives bodies the speed that takes."""
    sim = lj.Simulation(floating(1, gravity=(0, 0, 0)), "impulses", dt=1e-3)
    sim.step(20)
    joint = sim.attach("world", "b0", "ball", at_a=(0.3, 0.4, 0.5), at_b=(0, 0, 0), over=0.005)
    sim.step(30)
    joint.release()
    sim.step(20)


def test_other_springs_are_another_start(watchful):
    """Stiffness that is changed while running changes the energy at once."""
    sim = lj.Simulation(oscillators(1.0), EXPLICIT, dt=1e-4)
    sim.step(20)
    sim.forces.drives.scalar[:, 1] = 1e7
    sim.touch()
    sim.step(40)
    assert sim.energy().total > 1e4


def test_methods_of_users_are_watched():
    """A method with q, qd and advance alone is watched as the others are."""

    class Pumping(lj.methods.Stepper):
        def __init__(self, model):
            self.q, self.qd = model.q0.copy(), model.qd0.copy() + 1.0

        def advance(self, n, dt, forces, time=0.0):
            self.q[:] += n * dt * self.qd
            self.qd[:] *= 1.01**n
            return n, 0

    class Pump(lj.methods.Method):
        name = "pump"

        def stepper(self, model, ignored=frozenset()):
            return Pumping(model)

    sim = lj.Simulation(oscillators(0.0, 1), Pump(), dt=1e-3)
    with pytest.warns(lj.EnergyWarning):
        diverges(sim, 5000, 10)
    assert sim.energy().kinetic < 1e6


@pytest.mark.filterwarnings("ignore::limberjack.errors.EnergyWarning")
@pytest.mark.parametrize("per_call", [1, 10])
def test_an_explosion_of_a_small_model_is_noticed_within_a_second(per_call):
    """At 1/60 s a pump is stopped within 60 steps, whatever the calls: by steps alone looks would be 512 apart."""
    sim = lj.Simulation(oscillators(1e6, 3), lj.Full(integrator="euler"), dt=1 / 60)
    diverges(sim, 60, per_call)


@pytest.mark.filterwarnings("ignore::limberjack.errors.EnergyWarning")
def test_dampers_of_motors_explain_no_energy():
    """A motor with a constant target is a spring and a damper: what it could have given is what its spring stored."""
    builder = lj.Builder("motor", gravity=(0, 0, 0))
    builder.add_body("arm", mass=1.0, com=(0.1, 0, 0), inertia=(1.0, 1.0, 1.0))
    builder.add_joint_hinge("axle", "world", "arm", start=0.1, motor=lj.Motor(kp=1e4, kd=100.0))
    sim = lj.Simulation(builder.build(), lj.Full(integrator="euler"), dt=0.05)
    diverges(sim, 100, 1)


def test_models_of_which_few_dofs_are_stepped_are_copied_less_often():
    """The state is copied once per so many dofs stepped, not steps; a long chain of few active joints hardly ever."""
    model = lj.scenes.long_chain(links=2000)
    full, few = (lj.Simulation(model, method, dt=1e-3) for method in (lj.Full(), lj.Adaptive(budget=20)))
    for sim in (full, few):
        sim.step(2)
        assert sim._watch.period == 256 and sim._watch.next == 8  # nothing was chosen yet when it began
        sim.step(32)
    assert full._watch.period == 256 and full._watch.stride == 32
    assert few._watch.period == 256 * model.nv // 20 and few._watch.stride == 512


def test_squares_of_many_numbers_are_added_without_blas():
    """The sum of squares is the same on both sides of the length from which BLAS would take several threads."""
    for count in (1, 8191, 8192, 30000):
        values = np.random.default_rng(count).normal(size=count)
        assert energy_watch._square(values) == pytest.approx(math.fsum(x * x for x in values), rel=1e-13)
