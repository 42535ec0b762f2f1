"""Unit quaternions: the axioms of a group, its exponential and logarithm, and the rotations they stand for."""

from __future__ import annotations

import numpy as np
import pytest
from tests.naive import rotations as rot
from tests.naive.models import quaternion
from tests.spatial.wrapped import exp, from_matrix, log, multiply, rotation

from limberjack.spatial import frames

ONE = np.array([1.0, 0.0, 0.0, 0.0])


def test_group_axioms(rng):
    """The product is associative, 1 is neutral, the conjugate is the inverse and lengths multiply."""
    for _ in range(50):
        a, b, c = (quaternion(rng) for _ in range(3))
        assert np.allclose(multiply(multiply(a, b), c), multiply(a, multiply(b, c)), atol=1e-15)
        assert (multiply(ONE, a) == a).all() and (multiply(a, ONE) == a).all()
        assert np.allclose(multiply(a, rot.conjugate(a)), ONE, atol=1e-15)
        assert np.linalg.norm(multiply(2 * a, 3 * b)) == pytest.approx(6, rel=1e-15)


def test_units_multiply_as_hamilton_wrote():
    """i j = k, j k = i, k i = j, and each squared is -1: the sign convention."""
    i, j, k = np.eye(4)[1:]
    for a, b, c in ((i, j, k), (j, k, i), (k, i, j)):
        assert (multiply(a, b) == c).all() and (multiply(b, a) == -c).all() and (multiply(a, a) == -ONE).all()


def test_products_are_products_of_rotations(rng):
    """R(a b) = R(a) R(b), and R(a) is the twin's matrix and that of frames."""
    for _ in range(50):
        a, b = quaternion(rng), quaternion(rng)
        assert np.allclose(rotation(multiply(a, b)), rotation(a) @ rotation(b), atol=1e-15)
        assert np.allclose(rotation(a), rot.matrix(a), atol=1e-15)
        assert np.allclose(rotation(a), frames.matrix_from_quaternion(a), atol=1e-15)


def test_length_does_not_matter(rng):
    """A quaternion of any length, either sign, stands for the rotation of its direction."""
    for size in (-1.0, 1e-100, 1e-3, 7.0, 1e100):
        q = quaternion(rng)
        assert np.allclose(rotation(size * q), rot.matrix(q), atol=1e-15)


@pytest.mark.parametrize("which", range(4))
def test_matrices_give_their_quaternion_back(which, rng):
    """Whatever component is largest, the quaternion of a matrix is that it was made from, up to sign."""
    for _ in range(50):
        q = rng.normal(size=4) * 0.3
        q[which] = 2.0
        q /= np.linalg.norm(q)
        for found in (from_matrix(rot.matrix(q)), frames.quaternion_from_matrix(rot.matrix(q))):
            assert abs(abs(found @ q) - 1) < 1e-15
            assert np.allclose(rot.matrix(found), rot.matrix(q), atol=1e-15)


def test_half_turns_give_their_quaternion_back(rng):
    """Rotations by exactly half a turn, where w vanishes, are no exception."""
    for axis in (*np.eye(3), *-np.eye(3), *rng.normal(size=(20, 3))):
        axis = axis / np.linalg.norm(axis)
        r = 2 * np.outer(axis, axis) - np.eye(3)
        for found in (from_matrix(r), frames.quaternion_from_matrix(r)):
            assert abs(abs(found[1:] @ axis) - 1) < 1e-14 and abs(found[0]) < 1e-7


def test_frames_give_w_not_negative(rng):
    """quaternion_from_matrix of frames picks the sign with w >= 0."""
    for _ in range(50):
        assert frames.quaternion_from_matrix(rot.matrix(quaternion(rng)))[0] >= 0


@pytest.mark.parametrize("size", [0.0, 1e-300, 1e-12, 1e-9, 1e-5, 1.9e-4, 2.1e-4, 0.01, 0.1, 0.3, 0.6, 1.0, 3.0])
def test_exponential_and_logarithm_are_inverse(size, rng):
    """log(exp v) = v for every length below pi, on both sides of the switch to series."""
    for _ in range(20):
        v = rng.normal(size=3)
        v *= size / np.linalg.norm(v)
        q = exp(v)
        assert np.linalg.norm(q) == pytest.approx(1, abs=4e-16)
        assert np.abs(log(q) - v).max() <= 2e-15 * max(size, 1e-300)
        assert np.abs(log(-q) - v).max() <= 2e-15 * max(size, 1e-300)
        assert np.allclose(rotation(q), rot.from_vector(v), atol=2e-15)


def test_exponential_of_many_turns(rng):
    """Long rotation vectors turn as often as they say."""
    for size in (10.0, 1000.0):
        v = rng.normal(size=3)
        v *= size / np.linalg.norm(v)
        assert np.allclose(rotation(exp(v)), rot.from_vector(v), atol=1e-12)


def test_logarithm_takes_the_short_way(rng):
    """The logarithm is at most pi long and the same for q and -q."""
    for _ in range(50):
        q = quaternion(rng)
        assert np.linalg.norm(log(q)) <= np.pi + 1e-15
        assert np.allclose(log(q), log(-q), atol=1e-14)
        assert np.allclose(log(q), rot.logarithm(q), atol=1e-14)
        assert np.allclose(log(3 * q), log(q), atol=1e-14)


def test_one_parameter_groups_add(rng):
    """exp(s v) exp(t v) = exp((s + t) v)."""
    for _ in range(20):
        v, s, t = rng.normal(size=3), *rng.normal(size=2)
        assert np.allclose(multiply(exp(s * v), exp(t * v)), exp((s + t) * v), atol=2e-15)
