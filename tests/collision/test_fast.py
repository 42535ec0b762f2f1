"""Fast bodies and thin walls: contacts reported ahead of time keep every shot on its side."""

from __future__ import annotations

import numpy as np
from tests.collision.pairs import SOLIDS, add, rotation

import limberjack as lj
from limberjack.collision.detect import find_contacts, new_detector

DT = 1.0 / 240.0


def test_no_shot_passes_a_thin_wall():
    """Of 10,000 balls, capsules, boxes and cylinders shot at up to 1000 m/s at a wall of 2 cm, none gets through.

    The solver of this test is the least one: velocities are changed so that no contact closes more than its gap.
    """
    rng = np.random.default_rng(1)
    count = 10_000
    builder = lj.Builder("shots", gravity=(0.0, 0.0, 0.0))
    for k in range(count):
        builder.add_body(f"b{k}", mass=1.0, inertia=(1.0, 1.0, 1.0))
        add(builder, f"b{k}", SOLIDS[k % 4], rng.uniform(0.02, 0.2, 3), group=1)
    builder.add_shape_box("world", (0.02, 400.0, 400.0))
    detector = new_detector(builder.build())
    speed, aim = rng.uniform(1.0, 1000.0, count), rng.uniform(-20.0, 20.0, (count, 3))
    aim[:, 0] = 0.0
    way = rng.normal(size=(count, 3))
    way[:, 0] = np.abs(way[:, 0]) + 0.2
    velocity = speed[:, None] * way / np.linalg.norm(way, axis=1, keepdims=True)
    pose = np.zeros((count, 7))
    pose[:, :3] = aim - velocity * DT * rng.uniform(0.0, 3.0, (count, 1)) - np.array([0.35, 0.0, 0.0])
    pose[:, 3:] = [rotation(rng) for _ in range(count)]
    stopped = np.zeros(count, bool)
    for _ in range(6):
        detector = find_contacts(detector, pose, DT * np.linalg.norm(velocity, axis=1), 1e-3)
        c, n = detector.contacts, detector.contacts.count[0]
        link, normal, least = c.link_a[:n], c.normal[:n], c.depth[:n] / DT
        for _ in range(4):
            closing = np.einsum("ij,ij->i", velocity[link], normal)
            for k in np.flatnonzero(closing < least - 1e-9):
                i = link[k]
                velocity[i] += max(0.0, least[k] - velocity[i] @ normal[k]) * normal[k]
                stopped[i] = True
        pose[:, :3] += DT * velocity
    assert (pose[:, 0] < 0.0).all()
    assert stopped.sum() > 0.9 * count
