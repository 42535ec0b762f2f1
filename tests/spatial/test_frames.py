"""Frames in NumPy, one at a time and in batches."""

from __future__ import annotations

import numpy as np
import pytest
from tests.naive import rotations as rot
from tests.naive.models import quaternion

from limberjack.spatial import frames


def test_skew_is_the_cross_product(rng):
    """[a] b = a x b, in batches too."""
    a, b = rng.normal(size=(2, 7, 3))
    assert np.allclose(np.einsum("nij,nj->ni", frames.skew(a), b), np.cross(a, b), atol=1e-15)


def test_batches_are_their_members(rng):
    """Every batched function gives, member by member, what it gives alone."""
    q, v = np.array([quaternion(rng) for _ in range(9)]), rng.normal(size=(9, 3))
    r = frames.matrix_from_quaternion(q)
    axes = v / np.linalg.norm(v, axis=1, keepdims=True)
    for k in range(9):
        assert np.allclose(r[k], rot.matrix(q[k]), atol=1e-15)
        assert np.allclose(frames.quaternion_from_matrix(r)[k], frames.quaternion_from_matrix(r[k]), atol=1e-15)
        assert np.allclose(frames.turn_z_to(axes)[k], frames.turn_z_to(axes[k]), atol=1e-15)
        assert np.allclose(frames.matrix_from_axis(axes, v[:, 0])[k], rot.about(axes[k], v[k, 0]), atol=1e-14)
        inverse = frames.invert(r, v)
        assert np.allclose(inverse[0][k], r[k].T) and np.allclose(inverse[1][k], -r[k].T @ v[k])


@pytest.mark.parametrize("shape", [(), (5,), (2, 3), (0,)])
def test_shapes_are_kept(shape, rng):
    """Leading dimensions of any number pass through."""
    q = rng.normal(size=(*shape, 4))
    assert frames.matrix_from_quaternion(q).shape == (*shape, 3, 3)
    assert frames.quaternion_from_matrix(frames.matrix_from_quaternion(q)).shape == (*shape, 4)
    assert frames.skew(q[..., 1:]).shape == (*shape, 3, 3)


AXES = [
    (0, 0, 1), (0, 0, -1), (1, 0, 0), (0, 1, 0), (-1, 0, 0), (1, 1, 1), (1e-9, 0, 1), (1e-9, 0, -1), (0, 1e-7, -1),
    (1e-5, 1e-5, -1), (0.3, -0.2, -0.99),
]  # fmt: skip


@pytest.mark.parametrize("axis", AXES)
def test_turn_z_to_brings_z_to_the_axis(axis):
    """The result is a rotation, takes z to the axis, and is the shortest one: it leaves z x axis where it is."""
    axis = np.array(axis, float)
    axis /= np.linalg.norm(axis)
    r = frames.turn_z_to(axis)
    assert np.abs(r @ r.T - np.eye(3)).max() < 1e-14 and np.linalg.det(r) == pytest.approx(1, abs=1e-14)
    assert np.abs(r[:, 2] - axis).max() < 1e-14
    normal = np.cross([0, 0, 1], axis)
    assert np.abs(r @ normal - normal).max() < 1e-14
    assert np.allclose(r, rot.z_to(axis), atol=1e-13)


def test_turn_z_to_is_exact_on_the_axes_of_the_frame():
    """z to z is the identity to the bit, and z to -z the half turn about x."""
    assert (frames.turn_z_to(np.array([0.0, 0.0, 1.0])) == np.eye(3)).all()
    assert (frames.turn_z_to(np.array([0.0, 0.0, -1.0])) == np.diag([1.0, -1.0, -1.0])).all()


@pytest.mark.parametrize("size", [0.0, 1e-15, 1e-13, 1e-11, 1e-6, 0.5, 3.1, np.pi])
def test_rotation_vectors_go_there_and_back(size, rng):
    """vector_from_matrix undoes matrix_from_vector up to half a turn."""
    v = rng.normal(size=3)
    v *= size / np.linalg.norm(v)
    r = frames.matrix_from_vector(v)
    assert np.allclose(r, rot.from_vector(v), atol=1e-15)
    found = frames.vector_from_matrix(r)
    assert min(np.abs(found - v).max(), np.abs(found + v).max() if size == np.pi else np.inf) < 1e-9


def test_frames_form_a_group(rng):
    """compose is associative and invert undoes it."""
    a, b, c = ((rot.matrix(quaternion(rng)), rng.normal(size=3)) for _ in range(3))
    left = frames.compose(*frames.compose(*a, *b), *c)
    right = frames.compose(*a, *frames.compose(*b, *c))
    assert all(np.allclose(x, y, atol=1e-14) for x, y in zip(left, right, strict=True))
    r, p = frames.compose(*a, *frames.invert(*a))
    assert np.allclose(r, np.eye(3), atol=1e-14) and np.allclose(p, 0, atol=1e-14)
    point = rng.normal(size=3)
    moved = a[0] @ (b[0] @ point + b[1]) + a[1]
    r, p = frames.compose(*a, *b)
    assert np.allclose(r @ point + p, moved, atol=1e-14)
