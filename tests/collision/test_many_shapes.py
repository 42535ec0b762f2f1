"""Links of many shapes: one box around them all culls their shapes, and loses no contact."""

from __future__ import annotations

import numpy as np
import pytest

import limberjack as lj
from limberjack.collision.detect import find_contacts, new_detector
from limberjack.spatial.frames import quaternion_from_matrix


def clumps(rng, bodies):
    """Return bodies of two to twelve shapes each, of all primitive kinds, over a plane and a static box."""
    builder = lj.Builder("clumps")
    builder.add_shape_plane("world")
    builder.add_shape_box("world", (1.0, 0.5, 0.4), position=(0.5, 0, 0.2))
    for k in range(bodies):
        builder.add_body(f"b{k}", mass=1.0, inertia=(0.1, 0.1, 0.1))
        for _ in range(int(rng.integers(2, 13))):
            turn = rng.normal(size=4)
            place = {"position": rng.uniform(-0.3, 0.3, 3), "rotation": turn / np.linalg.norm(turn)}
            kind = rng.integers(4)
            if kind == 0:
                builder.add_shape_sphere(f"b{k}", rng.uniform(0.03, 0.1), **place)
            elif kind == 1:
                builder.add_shape_box(f"b{k}", rng.uniform(0.05, 0.2, 3), **place)
            elif kind == 2:
                builder.add_shape_capsule(f"b{k}", rng.uniform(0.02, 0.05), rng.uniform(0.05, 0.3), **place)
            else:
                builder.add_shape_cylinder(f"b{k}", rng.uniform(0.02, 0.08), rng.uniform(0.05, 0.3), **place)
    return builder.build()


def rows(detector):
    """Return the contacts as a list of numbers."""
    c, n = detector.contacts, int(detector.contacts.count[0])
    return np.column_stack([c.link_a[:n], c.link_b[:n], c.shape_a[:n], c.shape_b[:n], c.key[:n], c.point[:n],
                            c.normal[:n], c.depth[:n]])  # fmt: skip


@pytest.mark.parametrize("seed", range(6))
def test_boxes_lose_no_contact(seed):
    """Contacts are those found when every shape is placed and bounded by itself, to the last bit."""
    rng = np.random.default_rng([7, seed])
    model = clumps(rng, bodies=14)
    boxed, plain = new_detector(model), new_detector(model)
    broad = plain.broad
    broad.item_box[:], broad.later[:] = -1.0, 0
    assert boxed.broad.later.any() and (boxed.broad.item_box[:, 3] >= 0).sum() > 5
    found = unseen = 0
    for _ in range(20):
        pose = np.zeros((14, 7))
        pose[:, :3] = rng.uniform((-2, -2, 0.2), (2, 2, 1.4), (14, 3))
        pose[:, 3:] = quaternion_from_matrix(np.linalg.qr(rng.normal(size=(14, 3, 3)))[0])
        pose[:, 3:] /= np.linalg.norm(pose[:, 3:], axis=1, keepdims=True)
        reach = rng.uniform(0.0, 0.02, 14)
        boxed, plain = find_contacts(boxed, pose, reach, 1e-3), find_contacts(plain, pose, reach, 1e-3)
        assert np.array_equal(rows(boxed), rows(plain))
        found, unseen = found + len(rows(plain)), unseen + int((boxed.broad.ready == 0).sum())
    assert found > 100 and unseen > 0
