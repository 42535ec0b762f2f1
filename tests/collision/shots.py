"""Bodies of many shapes shot at a wall of 2 cm: what the tests of fast bodies share."""

from __future__ import annotations

import numpy as np
from tests.collision.pairs import rotation

import limberjack as lj

KINDS = ("sphere", "capsule", "box", "cylinder", "hull", "angle", "torus")
# Edges of boxes go from a thirtieth of this to all of it [m].
LARGEST = 0.3


def hull_mesh(rng, size):
    """Return a tetrahedron cut off at random, convex, about its centre."""
    corners = np.array([(1, 1, 1), (1, -1, -1), (-1, 1, -1), (-1, -1, 1)]) * rng.uniform(0.3, 1.0, (4, 1)) * size / 2
    return corners, np.array([(0, 1, 2), (0, 3, 1), (0, 2, 3), (1, 3, 2)])


def angle_mesh(size):
    """Return an L, extruded along y."""
    outline = np.array([(0, 0), (3, 0), (3, 1), (1, 1), (1, 3), (0, 3)]) / 3.0 - 0.4
    x, y, z = size
    vertices = np.array([(x * a, s * y / 2, z * b) for s in (-1, 1) for a, b in outline])
    faces = []
    for a, b, c in ((0, 1, 2), (0, 2, 3), (0, 3, 4), (0, 4, 5)):
        faces += [(a, b, c), (6 + a, 6 + c, 6 + b)]
    for a in range(6):
        b = (a + 1) % 6
        faces += [(a, 6 + a, 6 + b), (a, 6 + b, b)]
    return vertices, np.array(faces)


def torus_mesh(radius, tube, around=24, across=10):
    """Return a torus about z."""
    a, t = np.meshgrid(*(2 * np.pi * np.arange(n) / n for n in (around, across)), indexing="ij")
    out = radius + tube * np.cos(t)
    vertices = np.stack([out * np.cos(a), out * np.sin(a), tube * np.sin(t)], -1).reshape(-1, 3)
    faces = []
    for i in range(around):
        for j in range(across):
            k, n = (i + 1) % around, (j + 1) % across
            p, q, r, s = i * across + j, k * across + j, k * across + n, i * across + n
            faces += [(p, q, r), (p, r, s)]
    return vertices, np.array(faces)


def add_shot(builder, body, kind, rng, **options):
    """Give a body a shape of a kind, of random size and proportions."""
    options = {"friction": 0.3, "density": 1000.0, "group": 1} | options
    if kind in ("angle", "torus"):
        # few of them, since a model keeps equal meshes once: their grids take longer than the shots
        rng = np.random.default_rng(int(rng.integers(5)))
    size = LARGEST * 10.0 ** rng.uniform(-1.5, 0.0, 3)
    if kind == "sphere":
        builder.add_shape_sphere(body, size[0] / 2, **options)
    elif kind in ("capsule", "cylinder"):
        getattr(builder, f"add_shape_{kind}")(body, size[0] / 2, size[1], **options)
    elif kind == "box":
        builder.add_shape_box(body, tuple(size), **options)
    else:
        tube = size[0] / 10
        mesh = {
            "hull": lambda: hull_mesh(rng, size),
            "angle": lambda: angle_mesh(np.maximum(size, LARGEST / 6)),
            "torus": lambda: torus_mesh(tube * rng.uniform(2.0, 4.0), tube),
        }[kind]()
        builder.add_shape_mesh(body, *mesh, **options)


def new_shots(rng, count, kinds=KINDS, **options):
    """Return a model of `count` bodies that do not collide with each other, in front of a wall across x."""
    builder = lj.Builder("shots", gravity=(0, 0, 0))
    builder.add_shape_box("world", (0.02, 4000.0, 4000.0), friction=0.3)
    for k in range(count):
        builder.add_body(f"shot{k}")
        add_shot(builder, f"shot{k}", kinds[k % len(kinds)], rng, **options)
    return builder.build()


def shoot(model, rng, dt=1 / 240, fastest=1000.0, steps=40):
    """Shoot all bodies, randomly oriented and spinning, and return (how many passed, final over initial energy)."""
    sim = lj.Simulation(model, lj.Impulses(sleeping=False), dt=dt)
    count = len(sim.q) // 7
    q, qd = sim.q.reshape(count, 7).copy(), sim.qd.reshape(count, 6).copy()
    speed = 5.0 * (fastest / 5.0) ** rng.uniform(0.0, 1.0, count)
    slant = rng.uniform(-0.5, 0.5, (count, 2))
    way = np.column_stack([np.ones(count), slant]) / np.sqrt(1.0 + (slant**2).sum(axis=1))[:, None]
    side = int(np.ceil(np.sqrt(count)))
    q[:, 0] = -1.2 * LARGEST - speed * rng.uniform(0.0, dt, count)
    q[:, 1:3] = 40.0 * np.stack(np.divmod(np.arange(count), side), -1) - 20.0 * side
    q[:, 3:] = [rotation(rng) for _ in range(count)]
    qd[:, :3], qd[:, 3:] = speed[:, None] * way, rng.uniform(-100.0, 100.0, (count, 3))
    sim.q, sim.qd = q.ravel(), qd.ravel()
    given = sim.energy().total
    sim.step(steps)
    return int((sim.positions[:, 0] > 0.0).sum()), sim.energy().total / given
