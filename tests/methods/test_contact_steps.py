"""One step with contacts against the naive twin: dense M and J, projected Gauss-Seidel until nothing changes."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from tests.naive import contacts as twin

import limberjack as lj

H, G, MU, SWEEPS = 2.0**-8, 9.75, 0.5, 3000


def solved(model, q, free, found):
    """Return the velocities after contacts, by the twin, from those without, and the impulses (c, 3).

    Args:
        model, q: the model and where it was at the start of the step.
        free: (nv,) velocities after the step if there were no contacts.
        found: (bodies, position, normal, velocity along the normal that is wanted) of each contact.
    """
    pairs, points, normals, wanted = zip(*found, strict=True)
    j = twin.tree_rows(model, q, pairs, points, normals)
    inverse = np.linalg.inv(lj.mass_matrix(model, q))
    b = j @ free
    b[0::3] -= wanted
    lam = twin.gauss_seidel(j @ inverse @ j.T, b, [MU] * len(found), np.zeros(len(b)), SWEEPS)
    return free + inverse @ j.T @ lam, lam.reshape(-1, 3)


def figure():
    """Return a trunk with two legs on a hinge and a ball joint, a ball-shaped foot on each, and a slide."""
    builder = lj.Builder("figure", gravity=(0.0, 0.0, -G))
    builder.add_shape_plane(friction=MU)
    builder.add_body("trunk", mass=2.0, com=(0.0, 0.0, 0.125), inertia=(0.25, 0.1875, 0.125), position=(0.0, 0.0, 1.0))
    for k, kind in enumerate(("hinge", "ball")):
        builder.add_body(f"leg{k}", mass=1.0 + k, com=(0.0, 0.0, -0.25), inertia=(0.0625, 0.0625, 0.03125))
        builder.add_joint(
            kind, f"hip{k}", "trunk", f"leg{k}", position=(0.25 - 0.5 * k, 0.0625, -0.375), damping=0.25, axis=(0, 1, 0)
        )
        builder.add_shape_sphere(f"leg{k}", 0.125, position=(0.0, 0.0, -0.5), friction=MU)
    builder.add_body("mast", mass=1.0, inertia=(0.125, 0.125, 0.125))
    builder.add_joint_slide("lift", "trunk", "mast", position=(0.0, 0.0, 0.25), damping=0.5)
    return builder.build()


def push_out(depth):
    """Return the velocity wanted of a contact in reduced coordinates."""
    return depth / H if depth < 0.0 else min(10.0 * max(depth - 1e-4, 0.0), 1.0)


@pytest.mark.parametrize("lower", [-(2.0**-9), 0.0, 2.0**-8], ids=["gap", "at rest", "overlap"])
@pytest.mark.parametrize("speed", [0.0, 0.03125, 2.0], ids=["resting", "slow", "sliding"])
@pytest.mark.parametrize("method", ["full", "adaptive"])
def test_a_tree_steps_as_dense_gauss_seidel_says(method, speed, lower):
    """A figure on two feet that stands, slips or slides has after a step the velocities of the dense twin."""
    model = figure()
    q, qd = model.q0.copy(), np.zeros(model.nv)
    q[2] -= lower
    qd[model.joint("trunk").v] = (speed, 0.5 * speed, -1.0, 0.25, -0.5, 1.0)
    qd[model.joint("lift").v] = -2.0
    options = (lj.Full if method == "full" else partial(lj.Adaptive, budget=model.nv))(integrator="semi_implicit")
    sim = lj.Simulation(model, options, dt=H, q=q, qd=qd)
    sim.step(1)
    free = qd + H * lj.forward_dynamics(model, q, qd)
    expected, lam = solved(
        model, q, free, [(c.bodies, c.position, c.normal, push_out(c.depth)) for c in sim.contacts()]
    )
    assert len(lam) == 2
    assert lam[:, 0].max() > 0.0
    assert np.abs(free - expected).max() > 1e-2
    np.testing.assert_allclose(sim.qd, expected, rtol=0, atol=1e-7)


def stack():
    """Return three boxes of unlike masses that stand on each other and on the ground."""
    builder = lj.Builder("stack", gravity=(0.0, 0.0, -G))
    builder.add_shape_plane(friction=MU)
    for k, mass in enumerate((2.0, 1.0, 4.0)):
        inertia = np.full(3, mass / 24.0)
        builder.add_body(f"b{k}", mass=mass, inertia=inertia, position=(0.0625 * k, 0.03125 * k, 0.25 + 0.5 * k))
        builder.add_shape_box(f"b{k}", (0.5, 0.5, 0.5), friction=MU)
    return builder.build()


# Stacks that slide are left out: which corners carry them is not unique, and friction turns them accordingly.
@pytest.mark.parametrize(
    "speeds", [((0, 0, 0),) * 3, ((0.25, 0, 0), (0, 0.125, 0), (0, 0, -0.5))], ids=["resting", "colliding"]
)
def test_a_stack_steps_as_dense_gauss_seidel_says(speeds):
    """A stack of free boxes that stands or is hit has after a step the velocities of the dense twin."""
    model = stack()
    q, qd = model.q0.copy(), np.zeros(model.nv)
    for k, speed in enumerate(speeds):
        qd[model.joint(f"b{k}").v][:3] = speed
    sim = lj.Simulation(model, lj.Impulses(contacts="hard", substeps=1, sweeps=SWEEPS, shock=0), dt=H, q=q, qd=qd)
    sim.step(1)
    free = qd + H * lj.forward_dynamics(model, q, qd)
    expected, lam = solved(model, q, free, [(c.bodies, c.position, c.normal, 0.0) for c in sim.contacts()])
    assert len(lam) == 12
    assert np.abs(free - expected).max() > 1e-2
    np.testing.assert_allclose(sim.qd, expected, rtol=0, atol=1e-7)


@pytest.mark.parametrize("height", [0.25, 0.25 + 2.0**-9], ids=["on the ground", "over it"])
def test_balls_step_as_dense_gauss_seidel_says(height):
    """Balls that slide, spin, roll or land on the ground have after a step the velocities of the dense twin."""
    builder = lj.Builder("balls", gravity=(0.0, 0.0, -G))
    builder.add_shape_plane(friction=MU)
    speeds = (
        (2.0, 0.5, -1.0, 0, 0, 0),
        (0, 0, -1.0, 8.0, -4.0, 2.0),
        (1.0, 0.0, -0.75, 0, 4.0, 0),
        (0.5, 0, -2.0, 1, 1, 1),
    )
    for k in range(len(speeds)):
        builder.add_body(f"b{k}", mass=1.0 + k, inertia=np.full(3, 0.03125 * (1 + k)), position=(2.0 * k, 0.0, height))
        builder.add_shape_sphere(f"b{k}", 0.25, friction=MU)
    model = builder.build()
    q, qd = model.q0.copy(), np.ravel(speeds).astype(float)
    sim = lj.Simulation(model, lj.Impulses(contacts="hard", substeps=1, sweeps=SWEEPS, shock=0), dt=H, q=q, qd=qd)
    sim.step(1)
    free = qd + H * lj.forward_dynamics(model, q, qd)
    found = [((f"b{k}", "world"), (2.0 * k, 0.0, height - 0.25), (0, 0, 1), (0.25 - height) / H) for k in range(4)]
    expected, lam = solved(model, q, free, found)
    assert (lam[:, 0] > 0.0).all()
    across = np.linalg.norm(lam[:, 1:], axis=1) / lam[:, 0]
    assert across.min() < 0.5 * MU
    assert across.max() > MU - 1e-9
    np.testing.assert_allclose(sim.qd, expected, rtol=0, atol=1e-7)
