"""Snapshots, hashes and saved simulations: the next steps are the same bit for bit, in any process."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from tests.methods.scenes import INTEGRATORS, floating, hanging, started, tied

import limberjack as lj

MODELS = {"hanging": hanging, "tied": tied, "floating": lambda: floating(gravity=(0, 0, -5))}


def busy(name, integrator, **options):
    """Return a simulation in the middle of things: forces, wrenches, a moved motor, another dt."""
    sim = started(MODELS[name](), integrator, 1e-3, **options)
    sim.step(50)
    sim.tau = np.linspace(-1, 1, sim.model.nv)
    sim.apply_wrench(sim.model.body_names[-1], force=(1, 2, 3), point=(0.1, 0.2, 0.3))
    if name == "tied":
        sim.joint("a1").target = 0.9
    sim.step(30)
    sim.dt = 7e-4
    sim.step(57)
    return sim


@pytest.mark.parametrize("integrator", INTEGRATORS)
@pytest.mark.parametrize("name", MODELS)
def test_going_back_repeats_the_steps(name, integrator):
    """After restore the same steps end in the same bits, however the state was changed in between."""
    sim = busy(name, integrator)
    snapshot, here = sim.snapshot(), sim.state_hash()
    sim.step(200)
    there = sim.state_hash()
    sim.clear_wrenches()
    sim.apply_wrench(sim.model.body_names[0], torque=(9, 9, 9))
    sim.tau, sim.qd, sim.dt = sim.tau * 0, sim.qd * 0.5, 3e-3
    if name == "tied":
        sim.joint("a1").target = -2.0
    sim.step(20)
    for _ in range(2):
        sim.restore(snapshot)
        assert sim.state_hash() == here and sim.time == pytest.approx(0.08 + 57 * 7e-4)
        sim.step(200)
        assert sim.state_hash() == there


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_a_snapshot_goes_on_in_another_simulation(integrator):
    """A new simulation of the same model and method continues from the snapshot, bit for bit."""
    sim = busy("floating", integrator)
    other = lj.Simulation(MODELS["floating"](), lj.Full(integrator=integrator))
    other.restore(sim.snapshot())
    sim.step(100)
    other.step(100)
    assert other.state_hash() == sim.state_hash() and np.allclose(other.positions, sim.positions, atol=0)


def test_taking_a_snapshot_changes_nothing():
    """Neither snapshots nor measures nor hashes leave a trace in the motion."""
    for integrator in INTEGRATORS:
        sim, other = busy("tied", integrator), busy("tied", integrator)
        for _ in range(10):
            sim.step(10)
            (
                sim.snapshot(),
                sim.energy(),
                sim.momentum(),
                sim.positions,
                sim.velocities,
                sim.state_hash(),
                sim.joint_error(),
            )
        other.step(100)
        assert sim.state_hash() == other.state_hash()


def test_snapshots_of_others_are_refused():
    """A snapshot of another model does not fit, and nothing is changed by trying."""
    sim, other = busy("tied", "rk4"), busy("hanging", "rk4")
    before = sim.state_hash()
    with pytest.raises(lj.StateError, match='not of model "tied"'):
        sim.restore(other.snapshot())
    assert sim.state_hash() == before


def test_the_hash_sees_everything_that_feeds_the_next_step():
    """State, clock, step, forces, wrenches and motor targets each change the hash; equal simulations share it."""

    def change(sim, what):
        if what in ("q", "qd", "tau"):
            value = getattr(sim, what).copy()
            value[-1] = np.nextafter(value[-1], 9)
            setattr(sim, what, value)
        elif what == "dt":
            sim.dt = np.nextafter(sim.dt, 1)
        elif what == "wrench":
            sim.apply_wrench("a0", force=(1e-9, 0, 0))
        elif what == "target":
            sim.joint("a1").target = 0.90001
        elif what == "time":
            sim._clock.steps += 1
        return sim.state_hash()

    hashes = [change(busy("tied", "rk4"), what) for what in ("", "q", "qd", "tau", "dt", "wrench", "target", "time")]
    assert len(set(hashes)) == len(hashes)
    assert hashes[0] == busy("tied", "rk4").state_hash() and len(hashes[0]) == 64


SCRIPT = textwrap.dedent(
    """
    import sys
    sys.path.insert(0, sys.argv[1])
    import tests.simulation.test_snapshots as t
    for integrator in t.INTEGRATORS:
        sim = t.busy("tied", integrator)
        sim.step(300)
        print(integrator, sim.state_hash())
    sim = t.busy("floating", "momentum", threads=2)
    print(sim.state_hash())
    """
)


def test_fresh_processes_give_the_same_bits():
    """New processes with other hash seeds end in the bits of this one."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    outputs = set()
    for seed in ("0", "12345"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, root], env=environment, capture_output=True, text=True, timeout=500
        )
        assert done.returncode == 0, done.stderr
        outputs.add(done.stdout)
    assert len(outputs) == 1
    for line in outputs.pop().splitlines()[: len(INTEGRATORS)]:
        integrator, found = line.split()
        sim = busy("tied", integrator)
        sim.step(300)
        assert sim.state_hash() == found


@pytest.mark.parametrize("threads", [2, 3, 8])
def test_threads_give_the_same_bits(threads):
    """Trees on several threads move as on one."""
    builder = lj.Builder()
    for k in range(200):
        builder.add_body(f"a{k}", mass=1.0, com=(0, 0, -0.3), inertia=(0.1, 0.1, 0.1))
        builder.add_body(f"b{k}", mass=1.0, com=(0, 0, -0.3), inertia=(0.1, 0.1, 0.1))
        builder.add_joint_hinge(f"h{k}", "world", f"a{k}", axis=(0, 1, 0), start=0.01 * k, damping=0.1)
        builder.add_joint_ball(f"s{k}", f"a{k}", f"b{k}", position=(0, 0, -0.6), start_velocity=0.01 * k)
    builder.add_spring("a3", "a7", stiffness=10.0)
    model = builder.build()
    for integrator in ("semi_implicit", "rk4", "implicit"):
        one, many = (lj.Simulation(model, lj.Full(integrator=integrator, threads=n)) for n in (1, threads))
        one.step(60)
        many.step(60)
        assert (one.q == many.q).all() and (one.qd == many.qd).all()
        assert many.stats["threads"] > 1


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_saved_simulations_go_on(integrator, tmp_path):
    """save and resume give the same hash and the same next steps."""
    sim = busy("tied", integrator)
    path = sim.save(tmp_path / "state.npz")
    again = lj.resume(path)
    assert again.state_hash() == sim.state_hash() and again.method == sim.method and again.time == sim.time
    for one in (sim, again):
        one.step(150)
    assert again.state_hash() == sim.state_hash()


def test_only_snapshots_are_restored():
    """What is no snapshot is refused by name, and the simulation stays as it was."""
    sim = lj.Simulation(lj.scenes.double_pendulum(), "full", dt=1e-3)
    sim.step(3)
    before = sim.state_hash()
    with pytest.raises(lj.LimberjackError, match="snapshot"):
        sim.restore(None)  # type: ignore[arg-type]
    assert sim.state_hash() == before


def test_dry_friction_goes_on_where_it_was():
    """A leg with dry friction on the ground goes on bit for bit."""
    b = lj.Builder("leg")
    b.add_shape_plane("world")
    b.add_body("hip", mass=2.0, inertia=(0.1, 0.1, 0.1))
    b.add_joint_free("base", "world", "hip", start=(0.0, 0.0, 0.52, 1.0, 0.0, 0.0, 0.0))
    b.add_shape_box("hip", (0.4, 0.4, 0.1))
    b.add_body("shin", mass=0.5, com=(0.0, 0.0, -0.2), inertia=(0.01, 0.01, 1e-3))
    b.add_joint_hinge("knee", "hip", "shin", axis=(0, 1, 0), start=0.3, friction=0.5)
    b.add_shape_capsule("shin", 0.03, 0.4, position=(0.0, 0.0, -0.2))
    sim = lj.Simulation(b.build(), dt=1 / 500)
    sim.step(150)
    mark = sim.snapshot()
    sim.step(40)
    end = sim.state_hash()
    other = lj.Simulation(sim.model, dt=1 / 500)
    other.restore(mark)
    other.step(40)
    assert other.state_hash() == end
