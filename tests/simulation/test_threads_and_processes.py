"""One model in several threads and processes: the bits of one thread alone, whatever is asked of it."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import limberjack as lj

TREE = lj.scenes.random_tree(bodies=12, seed=2, kinds=("hinge", "ball"))
LOOPS = lj.scenes.n_four_bar()
PERSON = lj.scenes.humanoid(contacts=True)


def flat(value):
    """Return all numbers in a result."""
    if isinstance(value, np.ndarray):
        return value.ravel().astype(float)
    if isinstance(value, (int, float, bool)):
        return np.array([float(value)])
    if isinstance(value, str) or value is None:
        return np.zeros(0)
    parts = vars(value).values() if hasattr(value, "__dict__") and not isinstance(value, tuple) else value
    return np.concatenate([np.zeros(0), *(flat(part) for part in parts)])


def state(model, k):
    rng = np.random.default_rng(k)
    return lj.integrate(model, model.q0, rng.normal(0.0, 0.3, model.nv)), rng.normal(size=model.nv)


def mid(model):
    return model.body_names[model.body_count // 2]


def contacts(model, q):
    query = lj.CollisionQuery(model, margin=0.1)
    query.find(*lj.forward_kinematics(model, q))
    return query.bodies, query.depths


FUNCTIONS = {
    "bias_forces": lambda m, q, v: lj.bias_forces(m, q, v),
    "center_of_mass": lambda m, q, v: lj.center_of_mass(m, q),
    "centroidal_momentum": lambda m, q, v: lj.centroidal_momentum(m, q, v),
    "difference": lambda m, q, v: lj.difference(m, m.q0, q),
    "forward_dynamics": lambda m, q, v: lj.forward_dynamics(m, q, v),
    "forward_dynamics_derivatives": lambda m, q, v: lj.forward_dynamics_derivatives(m, q, v),
    "forward_kinematics": lambda m, q, v: lj.forward_kinematics(m, q),
    "integrate": lambda m, q, v: lj.integrate(m, q, v),
    "inverse_dynamics": lambda m, q, v: lj.inverse_dynamics(m, q, v, v),
    "inverse_dynamics_derivatives": lambda m, q, v: lj.inverse_dynamics_derivatives(m, q, v, v),
    "jacobian": lambda m, q, v: lj.jacobian(m, q, mid(m)),
    "mass_matrix": lambda m, q, v: lj.mass_matrix(m, q),
    "operational_inertia": lambda m, q, v: lj.operational_inertia(m, q, mid(m), linear=True),
}
OF_SHAPES = {
    "distance": lambda m, q, v: lj.distance(m, q, "head", "left_thumb_distal").points,
    "ray_cast": lambda m, q, v: lj.ray_cast(m, q, (2.0, 0.01 * v[0], 1.0), (-1.0, 0.0, 0.0)),
    "CollisionQuery": lambda m, q, v: contacts(m, q),
}


def same_in_threads(call, states, times=6):
    """Assert that four threads at once get what one thread alone gets, bit for bit."""
    alone = [flat(call(*one)) for one in states]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(4) as pool:
            together = list(pool.map(lambda one: flat(call(*one)), [*states] * times))
    finally:
        sys.setswitchinterval(before)
    for k, found in enumerate(together):
        assert np.array_equal(found, alone[k % len(states)], equal_nan=True)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_a_model_agree_in_threads(name):
    """Every function of dynamics and kinematics."""
    same_in_threads(lambda q, v: FUNCTIONS[name](TREE, q, v), [state(TREE, k) for k in range(16)])


@pytest.mark.parametrize("name", OF_SHAPES)
def test_functions_of_shapes_agree_in_threads(name):
    """Rays, distances and contacts of a person."""
    same_in_threads(lambda q, v: OF_SHAPES[name](PERSON, q, v), [state(PERSON, k) for k in range(6)], 3)


def test_assembly_agrees_in_threads():
    """Loops closed from different starts."""
    starts = [LOOPS.q0 + np.random.default_rng(k).normal(0.0, 0.05, LOOPS.nq) for k in range(4)]
    same_in_threads(lambda q: lj.assemble(LOOPS, q).q, [(q,) for q in starts], 3)


@pytest.mark.parametrize("method", ["full", "adaptive", "multipliers", "displacements", "impulses"])
def test_simulations_of_one_model_agree_in_threads(method):
    """Simulations that run at once do not disturb each other, nor one that is saved and resumed meanwhile."""

    def run(k):
        sim = lj.Simulation(TREE, method, dt=1e-3)
        sim.qd = 0.1 * state(TREE, k)[1]
        sim.step(30)
        sim.restore(sim.snapshot())
        sim.step(30)
        return sim.q, sim.qd, sim.energy().total, sim.positions

    same_in_threads(run, [(k,) for k in range(4)], 2)


HEAD = """
import os, sys
import limberjack as lj

def run(k=0):
    sim = lj.Simulation(lj.scenes.ball_tree(bodies=12), lj.Full(threads=2), dt=1e-3)
    sim.step(40 + k)
    return sim.state_hash()
"""


def python(code):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    words = [sys.executable, "-c", HEAD + textwrap.dedent(code)]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_goes_on():
    """After a fork parent and child step on, with threads of their own, and end in the same bits."""
    out = python(
        """
        sim = lj.Simulation(lj.scenes.crowd(figures=2, contacts=False), lj.Full(threads=2), dt=1e-3)
        sim.step(10)
        child = os.fork()
        sim.step(50)
        os.write(1, (sim.state_hash() + " " + run() + "\\n").encode())
        if not child:
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        """
    )
    assert len(out.split("\n")) == 3 and len(set(out.split())) == 2


def test_processes_of_every_kind_give_the_same_bits(tmp_path):
    """Pools of processes, however they are started, give what this process does; models go to them as they are."""
    (tmp_path / "work.py").write_text(
        HEAD
        + textwrap.dedent(
            """
            import multiprocessing

            def accelerations(model):
                return lj.forward_dynamics(model, model.q0, model.qd0).tobytes()

            if __name__ == "__main__":
                model = lj.scenes.n_four_bar()
                found = set()
                for kind in multiprocessing.get_all_start_methods():
                    with multiprocessing.get_context(kind).Pool(2) as pool:
                        found.add((*pool.map(run, [0, 1]), *pool.map(accelerations, [model])))
                found.add((run(0), run(1), accelerations(model)))
                print(len(found))
            """
        )
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    words = [sys.executable, str(tmp_path / "work.py")]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and done.stdout.strip() == "1", done.stderr[-2000:]
