"""Restitution of bodies that land on several points at once, and of bodies with joints."""

from __future__ import annotations

import numpy as np
import pytest
from tests.naive import solids

import limberjack as lj

CUBE = (
    [(x, y, z) for x in (-0.1, 0.1) for y in (-0.1, 0.1) for z in (-0.1, 0.1)],
    [
        (0, 1, 3), (0, 3, 2), (4, 6, 7), (4, 7, 5), (0, 4, 5), (0, 5, 1),
        (2, 3, 7), (2, 7, 6), (0, 2, 6), (0, 6, 4), (1, 5, 7), (1, 7, 3),
    ],
)  # fmt: skip
LYING = (np.sqrt(0.5), 0, np.sqrt(0.5), 0)


def add_shapes(builder, kind, **options):
    """Give body "a" shapes that reach 0.1 m below its origin."""
    if kind == "box":
        builder.add_shape_box("a", (0.3, 0.2, 0.2), **options)
    elif kind == "ring":
        vertices, faces = solids.torus(0.2, 0.1, around=32)
        builder.add_shape_mesh("a", vertices=vertices, faces=faces, **options)
    elif kind == "mesh":
        builder.add_shape_mesh("a", *CUBE, **options)
    elif kind == "cylinder":
        builder.add_shape_cylinder("a", 0.15, 0.2, **options)
    elif kind == "lying capsule":
        builder.add_shape_capsule("a", 0.1, 0.3, rotation=LYING, **options)
    else:
        for x, y in ((-0.3, -0.2), (-0.3, 0.2), (0.3, -0.2), (0.3, 0.2)):
            builder.add_shape_capsule("a", 0.02, 0.1, position=(x, y, -0.03), **options)


def dropped(kind, e, method="impulses", dt=1 / 240):
    """Return a body that falls flat onto the ground with several contact points, by one metre."""
    builder = lj.Builder("drop")
    builder.add_shape_plane(restitution=e)
    builder.add_body("a", mass=2.0, inertia=(0.02, 0.03, 0.04), position=(0, 0, 1.1))
    add_shapes(builder, kind, restitution=e)
    return lj.Simulation(builder.build(), method, dt=dt)


def highest(sim):
    """Return how high a body rises after its first bounce."""
    top = 0.0
    for _ in range(round(2.0 / sim.dt)):
        sim.step()
        if sim.qd[2] > 0:
            top = max(top, sim.q[2] - 0.1)
        elif top > 0:
            break
    return top


@pytest.mark.parametrize("e", [0.3, 0.8, 1.0])
@pytest.mark.parametrize("kind", ["box", "mesh", "ring", "cylinder", "lying capsule", "table"])
def test_a_body_that_lands_flat_bounces_straight_up(kind, e):
    """All contacts that close at once separate with e times their velocity: no spin, and e^2 of the height."""
    sim = dropped(kind, e)
    assert abs(highest(sim) - e * e) < 5e-3
    assert np.abs(sim.qd[3:]).max() < 1e-6


@pytest.mark.parametrize("dt", [1 / 60, 1 / 240])
@pytest.mark.parametrize("method", ["full", "multipliers"])
def test_other_methods_bounce_to_the_same_height_whatever_the_step(method, dt):
    """A box that falls on its face rises to e^2 of its height also by steps that keep no energy."""
    for e in (0.5, 1.0):
        assert highest(dropped("box", e, method, dt)) == pytest.approx(e * e, abs=2e-3)


def test_boxes_that_collide_obliquely_conserve_momentum_and_gain_no_energy():
    """Boxes with friction that collide by corners, edges and faces conserve both momenta and gain no energy."""
    rng = np.random.default_rng(8)
    for seed in range(6):
        builder = lj.Builder("boxes", gravity=(0, 0, 0))
        for k in range(4):
            place = 0.35 * np.array([k % 2, k // 2, 0]) + rng.uniform(-0.03, 0.03, 3)
            builder.add_body(f"b{k}", mass=1.0 + 3 * k, inertia=(0.004, 0.006, 0.008), position=place)
            builder.add_shape_box(f"b{k}", (0.3, 0.2, 0.1), restitution=0.9, friction=0.3 * (seed % 3))
        sim = lj.Simulation(builder.build(), "impulses", dt=1 / 240)
        middle = sim.positions.mean(axis=0)
        sim.qd = np.concatenate([np.r_[-6 * (at - middle), rng.normal(size=3)] for at in sim.positions])
        before, energy, hits = sim.momentum(), sim.energy().total, 0
        for _ in range(120):
            sim.step()
            hits += sum(np.linalg.norm(contact.impulse) > 0 for contact in sim.contacts())
            now = sim.energy().total
            assert now <= energy * (1 + 3e-6)
            energy = now
        after = sim.momentum()
        assert hits > 0
        assert np.abs(after.linear - before.linear).max() < 1e-11
        assert np.abs(after.angular - before.angular).max() < 1e-11


@pytest.mark.parametrize("method", ["impulses", "full", "multipliers"])
@pytest.mark.parametrize("e", [0.5, 1.0])
def test_a_pendulum_swings_back_from_a_wall(method, e):
    """A bob on a rod that hits a wall at its lowest point comes back to e^2 of its height, joints and all."""
    builder = lj.Builder("wall")
    builder.add_shape_box("world", (0.2, 1, 3), position=(-0.2, 0, -0.5), restitution=e)
    builder.add_body("bob", mass=1.0, com=(0, 0, -0.5), inertia=(0.004, 0.004, 0.004))
    builder.add_joint_hinge("pin", "world", "bob", axis=(0, 1, 0), start=-0.8)
    builder.add_shape_sphere("bob", 0.1, position=(0, 0, -0.5), restitution=e)
    sim = lj.Simulation(builder.build(), method, dt=1 / 240)
    sim.step(72)
    while sim.qd[0] >= 0:
        sim.step()
    while sim.qd[0] < 0:
        sim.step()
    assert (1 - np.cos(sim.q[0])) / (1 - np.cos(0.8)) == pytest.approx(e * e, abs=2e-3)
