"""Coordinates read off poses, and geometry given once."""

from __future__ import annotations

import numpy as np

import limberjack as lj
from limberjack.maximal.state import frees_of, read_frees
from limberjack.spatial.frames import matrix_from_quaternion


def test_free_bodies_are_read_as_one_by_one(rng):
    """Places, turns and velocities of free bodies are those of their frames: of the centre, less what it moves by."""
    n = 7
    free = [(i, 10 * i + 1, 8 * i + 2, "free" if i % 3 else "slide") for i in rng.permutation(n)]
    ends, pose, center = rng.normal(size=(n, 20)), rng.normal(size=(n, 7)), rng.normal(size=(n, 3))
    for i in range(n):
        ends[i, :9] = matrix_from_quaternion(pose[i, 3:] / np.linalg.norm(pose[i, 3:])).ravel()
    q, qd = np.full(10 * n, np.nan), np.full(8 * n, np.nan)
    read_frees(*frees_of(free), ends, pose, center, q, qd)
    expected, rates = np.full(10 * n, np.nan), np.full(8 * n, np.nan)
    for i, at, to, kind in free:
        turn, spin = ends[i, :9].reshape(3, 3), ends[i, 12:15]
        expected[at : at + 3] = ends[i, 9:12] - turn @ center[i]
        rates[to : to + 3] = ends[i, 15:18] - np.cross(spin, turn @ center[i])
        if kind == "free":
            expected[at + 3 : at + 7], rates[to + 3 : to + 6] = pose[i, 3:7], turn.T @ spin
    np.testing.assert_allclose(q, expected, atol=1e-14)
    np.testing.assert_allclose(qd, rates, atol=1e-14)


def test_equal_meshes_are_kept_once():
    """Shapes given the same vertices and faces share them, each scale its own; changing what was given changes none."""
    vertices = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
    faces = [(0, 2, 1), (0, 1, 3), (0, 3, 2), (1, 2, 3)]
    builder = lj.Builder("corners")
    for k, scale in enumerate((1.0, 1.0, 2.0, 2.0)):
        builder.add_body(f"b{k}", mass=1.0, inertia=(1.0, 1.0, 1.0))
        builder.add_shape_mesh(f"b{k}", vertices=vertices.copy(), faces=faces, scale=scale)
    vertices[0] = 5.0
    builder.add_shape_mesh("b0", vertices=vertices, faces=faces)
    one, same, large, larger, other = (shape.vertices for shape in builder.build().shapes)
    assert one is same and large is larger and one is not large and other is not one
    np.testing.assert_array_equal(large, 2.0 * np.asarray(one))
    assert np.asarray(one)[0].tolist() == [0.0, 0.0, 0.0] and not np.asarray(one).flags.writeable
