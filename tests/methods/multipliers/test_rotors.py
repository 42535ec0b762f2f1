"""Rotor inertia in maximal coordinates: a row of the joint that gives way by 1 / inertia."""

from __future__ import annotations

import numpy as np
import pytest

import limberjack as lj


def arm(loop=False):
    """Return an arm with rotors in joints of several kinds, on a base that floats; or its end held to the ground."""
    builder = lj.Builder("arm")
    options = {"mass": 1.0, "com": (0.1, 0.0, -0.2), "inertia": (0.03, 0.04, 0.02, 0.003, 0.0, 0.001)}
    for k in range(5):
        builder.add_body(f"part{k}", **options)
    builder.add_joint_hinge("turn", "world", "part0", axis=(0, 1, 0), armature=0.3, damping=0.1)
    builder.add_joint_ball("ball", "part0", "part1", position=(0, 0, -0.4), armature=0.05)
    builder.add_joint_slide("slide", "part1", "part2", axis=(1, 0, 1), position=(0, 0, -0.4), armature=2.0)
    builder.add_joint_universal("cross", "part2", "part3", position=(0, 0, -0.4), armature=(0.1, 0.2))
    builder.add_joint_hinge("last", "part3", "part4", axis=(1, 0, 0), position=(0, 0, -0.4))
    if loop:
        builder.add_joint_distance("tie", "world", "part4", length=2.0, position=(0, 0, 0.0))
    return builder.build()


def start(model, rng):
    """Return a random state."""
    q = model.q0 + rng.uniform(-0.3, 0.3, model.nq)
    q[1:5] /= np.linalg.norm(q[1:5])
    return q, rng.uniform(-1, 1, model.nv)


def test_rotors_move_as_in_reduced_coordinates(rng):
    """Rotors in hinges, balls, slides and universals give the same motion in maximal and in reduced coordinates."""
    model = arm()
    q, qd = start(model, rng)
    sims = [lj.Simulation(model, m(integrator="rk4"), dt=1e-3, q=q, qd=qd) for m in (lj.Multipliers, lj.Full)]
    for sim in sims:
        sim.step(200)
    np.testing.assert_allclose(sims[0].q, sims[1].q, atol=1e-9)
    np.testing.assert_allclose(sims[0].qd, sims[1].qd, atol=1e-8)
    plain = lj.Simulation(model, lj.Multipliers(integrator="rk4"), dt=1e-3, q=q, qd=qd, ignore="armature")
    plain.step(200)
    assert np.abs(plain.q - sims[1].q).max() > 1e-2
    assert sims[0].energy().kinetic == pytest.approx(sims[1].energy().kinetic, rel=1e-8)


def test_impulses_act_against_rotor_inertia(rng):
    """An impulse changes velocities by the inverse of the mass matrix, rotors included."""
    model = arm()
    q, qd = start(model, rng)
    sim = lj.Simulation(model, lj.Multipliers(integrator="rk4"), dt=1e-3, q=q, qd=qd)
    impulse = np.array([0.3, -0.2, 0.5])
    column = lj.jacobian(model, q, "part4")[3:].T @ impulse
    sim.apply_impulse("part4", impulse=impulse)
    np.testing.assert_allclose(sim.qd, qd + np.linalg.solve(lj.mass_matrix(model, q), column), atol=1e-9)


def test_rattle_says_it_knows_none():
    """The integrator of momenta refuses rotors by name."""
    with pytest.raises(lj.UnsupportedByMethod, match="armature"):
        lj.Simulation(arm(), lj.Multipliers(integrator="rattle"), dt=1e-3)
