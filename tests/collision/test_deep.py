"""Deep overlaps separate gently: nothing is ejected, nothing stays stuck, and crossed rods go back."""

from __future__ import annotations

import numpy as np
import pytest

import limberjack as lj
from limberjack.collision.detect import find_contacts, new_detector
from limberjack.scenes.rings import Link
from limberjack.spatial.frames import matrix_from_quaternion

BODIES, SEEDS = 16, 20
# What bodies reach that fall from the top of a cloud, and half a metre per second for being pushed out.
FASTEST = np.sqrt(2.0 * 9.81 * 0.37) + 0.5


def hook():
    """Return vertices and faces of an L-shaped prism, 5 cm thick."""
    outline = np.array([(0, 0), (2, 0), (2, 1), (1, 1), (1, 2), (0, 2)]) - 0.8
    vertices = 0.05 * np.array([(x, y, z) for z in (-0.5, 0.5) for x, y in outline])
    faces = []
    for a, b, c in ((0, 1, 2), (0, 2, 3), (0, 3, 5), (3, 4, 5)):
        faces += [(c, b, a), (a + 6, b + 6, c + 6)]
    for k in range(6):
        n = (k + 1) % 6
        faces += [(k, n, n + 6), (k, n + 6, k + 6)]
    return vertices, np.array(faces)


def add_shape(builder, body, kind):
    if kind == "boxes":
        builder.add_shape_box(body, size=(0.1, 0.08, 0.06))
    elif kind == "capsules":
        builder.add_shape_capsule(body, radius=0.03, length=0.1)
    else:
        vertices, faces = hook()
        builder.add_shape_mesh(body, vertices=vertices, faces=faces)


def cloud(kind, seed, *, unlike=1.0, jointed=False):
    """Return bodies heaped into each other over the ground; joints between every two that follow each other."""
    rng = np.random.default_rng(seed)
    builder = lj.Builder("cloud")
    builder.add_shape_plane("world")
    turns = rng.normal(size=(BODIES, 4))
    turns /= np.linalg.norm(turns, axis=1, keepdims=True)
    places = rng.uniform(-0.1, 0.1, (BODIES, 3)) + (0.0, 0.0, 0.25)
    for k in range(BODIES):
        mass = 0.2 * unlike ** rng.uniform()
        inertia = (8e-4 * mass, 9e-4 * mass, 1e-3 * mass)
        builder.add_body(f"body{k}", mass=mass, inertia=inertia, position=places[k], rotation=turns[k])
        add_shape(builder, f"body{k}", ("boxes", "capsules", "meshes")[k % 3] if kind == "all" else kind)
    for k in range(0, BODIES if jointed else 0, 2):
        middle = 0.5 * (places[k] + places[k + 1])
        own, other = (matrix_from_quaternion(turns[i]).T @ (middle - places[i]) for i in (k, k + 1))
        builder.add_joint_ball(f"joint{k}", f"body{k}", f"body{k + 1}", position=own, position_in_child=other)
    return builder.build()


def fastest(sim, seconds):
    """Return the largest speed of any body on the way."""
    most = 0.0
    for _ in range(round(seconds * 120)):
        sim.step(2)
        most = max(most, float(np.linalg.norm(sim.velocities[:, 3:], axis=1).max()))
    return most


@pytest.mark.parametrize("kind", ["boxes", "capsules", "meshes", "all"])
def test_clouds_part_gently(kind):
    """Bodies heaped into each other at random get no faster than by falling, and lie apart in the end."""
    for seed in range(SEEDS):
        sim = lj.Simulation(cloud(kind, seed), lj.Impulses(sleeping=False), dt=1 / 240)
        assert fastest(sim, 1.5) < FASTEST, seed
        assert sim.stats["penetration"] < 1e-3, seed


@pytest.mark.parametrize("contacts", ["auto", "soft", "hard"])
def test_clouds_of_unlike_bodies_part_gently(contacts):
    """With masses a thousand times apart, which shock propagation is for, light bodies are not shot out.

    Between heavy ones that close in at an angle they get faster than these.
    """
    for seed in range(SEEDS):
        model = cloud("all", seed, unlike=1e3)
        sim = lj.Simulation(model, lj.Impulses(contacts=contacts, sleeping=False), dt=1 / 240)
        assert fastest(sim, 0.75) < 1.5 * FASTEST, seed


@pytest.mark.parametrize("kind", ["boxes", "meshes"])
def test_clouds_with_joints_part_gently(kind):
    """The same with ball joints, which may hold bodies where they overlap: none is thrown, and joints stay closed."""
    for seed in range(6):
        sim = lj.Simulation(cloud(kind, seed, jointed=True), lj.Impulses(sleeping=False), dt=1 / 240)
        assert fastest(sim, 0.75) < FASTEST + 0.5, seed
        assert sim.joint_error().metres < 1e-6


@pytest.mark.parametrize("apart", [0.04, 0.03, 0.02, 0.01, 0.004])
def test_crossed_rods_go_back(apart):
    """Two bent rods of 24 mm radius that cross, one pushed into the other from above, separate in that direction.

    Of the surfaces those in the middle are nearer to the far side once they are in by more than a radius.
    """
    link = Link(0.25, 0.03, 0.2)
    builder = lj.Builder("two")
    for name in "ab":
        builder.add_body(name, mass=1.0, inertia=(1.0, 1.0, 1.0))
        builder.add_shape_mesh(name, vertices=link.vertices, faces=link.faces)
    turn, top = 1.4, 0.1 + link.low
    pose = np.zeros((2, 7))
    pose[0] = 0.0, -top, 0.0, 1.0, 0.0, 0.0, 0.0
    pose[1] = np.sin(turn) * top, -np.cos(turn) * top, apart, np.cos(turn / 2), 0.0, 0.0, np.sin(turn / 2)
    contacts = find_contacts(new_detector(builder.build()), pose, np.zeros(2)).contacts
    deep = np.flatnonzero(contacts.depth[: contacts.count[0]] > 1e-3)
    assert len(deep)
    assert (contacts.normal[deep, 2] < -0.3).all()
    assert contacts.depth[deep].max() == pytest.approx(0.048 - apart, abs=6e-3)


@pytest.mark.parametrize("floor", ["plane", "box"])
def test_curved_meshes_come_to_rest(floor):
    """A bent rod of facets, dropped tilted, lies still on the ground: all supporting contacts are found at once."""
    link = Link(0.25, 0.03, 0.2)
    for seed in range(4):
        turn = np.random.default_rng(seed).normal(size=4)
        builder = lj.Builder("rod")
        if floor == "plane":
            builder.add_shape_plane("world")
        else:
            builder.add_shape_box("world", (4.0, 4.0, 1.0), position=(0.0, 0.0, -0.5))
        turn /= np.linalg.norm(turn)
        builder.add_body("rod", mass=1.0, inertia=(2e-3, 2e-3, 3e-3), position=(0.0, 0.0, 0.3), rotation=turn)
        builder.add_shape_mesh("rod", vertices=link.vertices, faces=link.faces)
        sim = lj.Simulation(builder.build(), lj.Impulses(sleeping=False), dt=1 / 240)
        sim.step(960)
        assert np.linalg.norm(sim.velocities[0, 3:]) < 2e-4, seed
        assert sim.stats["penetration"] < 2e-4


def test_boxes_piled_into_each_other_are_not_thrown():
    """Six boxes of 30 cm, 2 cm from one to the next, begin to part at walking pace; later they may topple and fall."""
    rng, builder = np.random.default_rng(5), lj.Builder("pile")
    builder.add_shape_plane("world")
    for k in range(6):
        turn = rng.normal(size=4) * (0.2, 0.1, 0.1, 0.1) + (1.0, 0.0, 0.0, 0.0)
        place = (0.05 * rng.normal(), 0.05 * rng.normal(), 0.1 + 0.02 * k)
        turn /= np.linalg.norm(turn)
        builder.add_body(f"box{k}", mass=1.0, inertia=(0.015,) * 3, position=place, rotation=turn)
        builder.add_shape_box(f"box{k}", (0.3, 0.3, 0.3))
    sim = lj.Simulation(builder.build(), lj.Impulses(sleeping=False), dt=1 / 240)
    assert fastest(sim, 0.1) < 1.5
