"""Laws the tree algorithms keep among themselves: each against another, over random models."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from tests.naive.models import random_model, random_state
from tests.naive.rotations import from_cross_matrix, matrix
from tests.naive.twin import Twin

import limberjack as lj


@pytest.fixture(params=range(6))
def case(request):
    """A random model with a random state."""
    rng = np.random.default_rng([3, request.param])
    model = random_model(rng, bodies=int(rng.integers(5, 30)), bases=int(rng.integers(1, 4)))
    return rng, model, *random_state(rng, model)


def test_inverse_undoes_forward(case):
    """inverse_dynamics(forward_dynamics(tau)) == tau, and the other way round, wrenches and passive forces included."""
    rng, model, q, qd = case
    tau, wrenches = rng.normal(size=model.nv), rng.normal(size=(model.body_count, 6))
    qdd = lj.forward_dynamics(model, q, qd, tau, wrenches)
    assert np.abs(lj.inverse_dynamics(model, q, qd, qdd, wrenches) - tau).max() < 1e-10 * (1 + np.abs(tau).max())
    wanted = rng.normal(size=model.nv)
    back = lj.forward_dynamics(model, q, qd, lj.inverse_dynamics(model, q, qd, wanted, wrenches), wrenches)
    assert np.abs(back - wanted).max() < 1e-9 * np.abs(qdd).max()


def test_mass_matrix_columns_are_inverse_dynamics(case):
    """Column k of the mass matrix is the force for a unit acceleration of dof k less that for none."""
    _, model, q, qd = case
    mass = lj.mass_matrix(model, q)
    none = lj.inverse_dynamics(model, q, qd, np.zeros(model.nv))
    columns = [lj.inverse_dynamics(model, q, qd, unit) - none for unit in np.eye(model.nv)]
    assert np.abs(mass - np.array(columns).T).max() < 1e-11 * max(1.0, np.abs(mass).max(), np.abs(none).max())


def test_mass_matrix_is_symmetric_and_positive(case):
    """The mass matrix is exactly symmetric and its eigenvalues are positive."""
    _, model, q, _ = case
    mass = lj.mass_matrix(model, q)
    assert (mass == mass.T).all()
    assert np.linalg.eigvalsh(mass)[0] > 0


def test_kinetic_energy_is_the_mass_matrix_form(case):
    """qd^T M qd / 2 is the kinetic energy summed over bodies and rotors."""
    _, model, q, qd = case
    energy = lj.Simulation(model, q=q, qd=qd).energy().kinetic
    assert 0.5 * qd @ lj.mass_matrix(model, q) @ qd == pytest.approx(energy, rel=1e-12)


def test_jacobian_gives_velocities(case):
    """J qd is each body's angular velocity and velocity of its com."""
    _, model, q, qd = case
    velocities = lj.Simulation(model, q=q, qd=qd).velocities
    for name, velocity in zip(model.body_names, velocities, strict=True):
        assert np.abs(lj.jacobian(model, q, name) @ qd - velocity).max() < 1e-11 * (1 + np.abs(velocity).max())


def test_jacobian_at_a_point_follows_the_lever(case):
    """The Jacobian of any world point of a body is that of the com, moved by the lever between them."""
    rng, model, q, qd = case
    sim = lj.Simulation(model, q=q, qd=qd)
    name = model.body_names[-1]
    point = rng.normal(size=3)
    w, v = np.split(lj.jacobian(model, q, name, point) @ qd, 2)
    com_w, com_v = np.split(sim.velocities[-1], 2)
    com = sim.positions[-1] + matrix(sim.rotations[-1]) @ model.body(name).com
    assert np.abs(w - com_w).max() < 1e-11 * (1 + np.abs(w).max())
    assert np.abs(v - com_v - np.cross(com_w, point - com)).max() < 1e-11 * (1 + np.abs(v).max())


def test_jacobian_by_differences(case):
    """Each column of the Jacobian is the difference of poses when its dof moves alone."""
    _, model, q, _ = case
    twin, h = Twin(model), 1e-6
    name = model.body_names[-1]
    com, jacobian = model.body(name).com, lj.jacobian(model, q, name)
    for k, unit in enumerate(np.eye(model.nv)):
        ends = []
        for side in (-h, h):
            positions, rotations = lj.forward_kinematics(model, twin.moved(q, unit, side))
            r = matrix(rotations[-1])
            ends.append((r, positions[-1] + r @ com))
        turn = from_cross_matrix((ends[1][0] - ends[0][0]) / (2 * h) @ ((ends[0][0] + ends[1][0]) / 2).T)
        assert np.abs(jacobian[:, k] - np.r_[turn, (ends[1][1] - ends[0][1]) / (2 * h)]).max() < 1e-7


def test_wrenches_act_through_the_jacobian(case):
    """A wrench on a body is the joint force J^T (torque, force)."""
    rng, model, q, qd = case
    wrenches = rng.normal(size=(model.body_count, 6))
    force = sum(lj.jacobian(model, q, name).T @ wrenches[i] for i, name in enumerate(model.body_names))
    found = lj.forward_dynamics(model, q, qd, None, wrenches)
    wanted = lj.forward_dynamics(model, q, qd, force)
    assert np.abs(found - wanted).max() < 1e-10 * np.abs(wanted).max()


def test_a_uniform_field_moves_all_alike(rng):
    """In free fall every free body accelerates with gravity and no inner joint moves: the equivalence principle."""
    gravity = (1.0, -2.0, -9.0)
    model = lj.scenes.random_tree(bodies=15, seed=4, floating=True, gravity=gravity)
    q, _ = random_state(rng, model)
    qdd = lj.forward_dynamics(model, q, np.zeros(model.nv))
    base = model.joint(model.body(model.body_names[0]).joint)
    assert np.allclose(qdd[base.v], [*gravity, 0, 0, 0], atol=1e-10)
    rest = np.delete(qdd, np.arange(base.v.start, base.v.stop))
    assert np.abs(rest).max() < 1e-9


def test_results_do_not_depend_on_earlier_calls(case):
    """Work arrays cached between calls do not change results: same inputs, same bits."""
    rng, model, q, qd = case
    first = lj.forward_dynamics(model, q, qd)
    other_q, other_qd = random_state(rng, model)
    lj.forward_dynamics(model, other_q, other_qd, rng.normal(size=model.nv), rng.normal(size=(model.body_count, 6)))
    lj.mass_matrix(model, other_q)
    lj.inverse_dynamics(model, other_q, other_qd, other_qd)
    assert (lj.forward_dynamics(model, q, qd) == first).all()


def test_inputs_are_left_alone(case):
    """No function writes to what it is given."""
    rng, model, q, qd = case
    tau, wrenches = rng.normal(size=model.nv), rng.normal(size=(model.body_count, 6))
    given = [x.copy() for x in (q, qd, tau, wrenches)]
    lj.forward_dynamics(model, q, qd, tau, wrenches)
    lj.inverse_dynamics(model, q, qd, tau, wrenches)
    lj.mass_matrix(model, q)
    lj.forward_kinematics(model, q)
    assert all((a == b).all() for a, b in zip(given, (q, qd, tau, wrenches), strict=True))


def test_threads_agree():
    """Threads that evaluate one model at once get the bits of one thread alone."""
    model = lj.scenes.random_tree(bodies=30, seed=2)
    states = [random_state(np.random.default_rng(k), model) for k in range(64)]
    alone = [lj.forward_dynamics(model, q, qd) for q, qd in states]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda s: lj.forward_dynamics(model, *s), states * 4))
    for k, qdd in enumerate(together):
        assert (qdd == alone[k % 64]).all()


def test_threads_agree_with_constraints():
    """Threads that evaluate one model with loops at once get the bits of one thread alone."""
    model = lj.scenes.n_four_bar()
    forces = np.random.default_rng(5).normal(size=(16, model.nv))
    still = np.zeros(model.nv)

    def accelerations(tau):
        return lj.forward_dynamics(model, model.q0, still, tau, constraints=True)

    alone = [accelerations(tau) for tau in forces]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(accelerations, [*forces] * 20))
    assert all((qdd == alone[k % 16]).all() for k, qdd in enumerate(together))
