"""Ctrl-C in the middle of a step or a run: clock, state and record stay those of one moment.

Each case runs in a process of its own: a test runner may have taken the signal for itself.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

HEAD = """
import os, signal, threading
import numpy as np
import limberjack as lj
signal.signal(signal.SIGINT, signal.default_int_handler)

def fire():
    if os.name == "posix":
        os.kill(os.getpid(), signal.SIGINT)
    else:
        signal.raise_signal(signal.SIGINT)

def interrupted(call, after):
    timer = threading.Timer(after, fire)
    timer.start()
    try:
        call()
    except KeyboardInterrupt:
        return
    finally:
        timer.join()
    raise SystemExit("the interrupt did not arrive")

def check(sim):
    assert sim.steps > 0
    positions = lj.forward_kinematics(sim.model, sim.q)[0]
    assert (positions == sim.positions).all(), "poses are of another moment"
    again = lj.Simulation(sim.model, sim.method, dt=sim.dt)
    again.step(sim.steps)
    assert (again.q == sim.q).all() and (again.qd == sim.qd).all(), f"the state is not that of step {sim.steps}"
    sim.step(10)
    again.step(10)
    assert again.state_hash() == sim.state_hash(), "the motion does not go on"
"""


def run(body):
    """Run HEAD and `body` in a new process."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    code = HEAD + textwrap.dedent(body)
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.parametrize("integrator", ["semi_implicit", "momentum"])
def test_step_stops_between_steps(integrator):
    """An interrupted step() leaves the state of exactly sim.steps steps, and goes on from there."""
    run(
        f"""
        model = lj.scenes.random_tree(bodies=12, seed=3, gravity=(0, 0, 0))
        lj.Simulation(model, lj.Full(integrator="{integrator}")).step(100)
        for k in range(4):
            sim = lj.Simulation(model, lj.Full(integrator="{integrator}"))
            interrupted(lambda: sim.step(10**9), 0.1 + 0.033 * k)
            check(sim)
        """
    )


@pytest.mark.parametrize("drive", ["sim.apply_wrench('l9', force=(1.0, 0.0, 0.0))", "grip.move((1.0, 0.0, 0.0))"])
def test_loops_of_single_steps_count_each_of_them(drive):
    """A loop of single steps of a few microseconds, interrupted anywhere, stands at a step that was counted."""
    run(
        f"""
        model = lj.scenes.long_chain(links=10)
        name = model.body_names[-1]
        drive = {drive!r}.replace("l9", name)

        def fresh():
            sim = lj.Simulation(model, lj.Adaptive(budget=4), energy_watch=False)
            grip = sim.grab(name) if "grip" in drive else None
            exec(drive, dict(sim=sim, grip=grip))
            return sim

        def loop(sim):
            while True:
                sim.step()

        fresh().step(100)
        for k in range(12):
            sim = fresh()
            interrupted(lambda: loop(sim), 0.05 + 0.0137 * k)
            again = fresh()
            again.step(sim.steps)
            assert sim.steps > 0 and (again.q == sim.q).all(), f"the state is not that of step {{sim.steps}}"
            assert again.state_hash() == sim.state_hash()
        """
    )


def test_step_stops_between_steps_on_threads():
    """The same with trees on two threads: all of them stand at one step and none runs on."""
    run(
        """
        builder = lj.Builder()
        for k in range(300):
            builder.add_body(f"a{k}", mass=1.0, com=(0, 0, -0.3), inertia=(0.1, 0.1, 0.1))
            builder.add_joint_hinge(f"h{k}", "world", f"a{k}", axis=(0, 1, 0), start=0.01 * k)
        model = builder.build()
        method = lj.Full(threads=2)
        lj.Simulation(model, method).step(100)
        for k in range(4):
            sim = lj.Simulation(model, method)
            interrupted(lambda: sim.step(10**9), 0.1 + 0.033 * k)
            check(sim)
        """
    )


def test_a_run_keeps_its_record():
    """An interrupted run() raises and keeps what it recorded: whole frames of the motion, up to the end."""
    run(
        """
        model = lj.scenes.pendulum(links=10)
        lj.Simulation(model).step(100)
        sim = lj.Simulation(model)
        interrupted(lambda: sim.run(1e6), 0.3)
        record = sim.recorded
        assert len(record) > 2 and record.times[-1] <= sim.time
        again = lj.Simulation(model)
        again.step(round(record.times[-1] / sim.dt))
        assert (again.q == record.q[-1]).all()
        check(sim)
        """
    )
