"""Contacts of two shapes: depth, normal and points against independent distances; symmetry and invariance."""

from __future__ import annotations

import itertools

import coal
import numpy as np
import pytest
from tests.collision.pairs import SOLIDS, found, placed, rotation, two
from tests.naive.separation import separation, signed_distance

from limberjack.spatial.frames import matrix_from_quaternion, quaternion_from_matrix

PAIRS = list(itertools.combinations_with_replacement(SOLIDS, 2))


def _coal(kind, size):
    if kind == "sphere":
        return coal.Sphere(size[0])
    if kind == "box":
        return coal.Box(*size)
    return (coal.Capsule if kind == "capsule" else coal.Cylinder)(size[0], size[1])


def _random(rng, a, b, spread=1.0):
    sizes = rng.uniform(0.2, 1.0, (2, 3))
    pose = np.zeros((2, 7))
    pose[1, :3] = rng.uniform(-spread, spread, 3)
    pose[:, 3:] = rotation(rng), rotation(rng)
    return two(a, sizes[0], b, sizes[1]), sizes, pose


@pytest.mark.parametrize("a, b", PAIRS)
def test_depth_is_the_signed_distance(a, b):
    """The deepest contact has the pair's signed distance, and its normal separates them by exactly that."""
    rng = np.random.default_rng(1)
    for _ in range(12):
        detector, sizes, pose = _random(rng, a, b)
        contacts = found(detector, pose, margin=0.4)
        shapes = placed(a, sizes[0], pose[0]), placed(b, sizes[1], pose[1])
        truth = signed_distance(*shapes)
        if truth > 0.4:
            assert len(contacts["depth"]) == 0
            continue
        deepest = contacts["depth"].argmax()
        assert -contacts["depth"][deepest] == pytest.approx(truth, abs=3e-5)
        apart = separation(*shapes, contacts["normal"][deepest])[0]
        assert apart == pytest.approx(truth, abs=1e-4)


@pytest.mark.parametrize("a, b", [pair for pair in PAIRS if pair != ("sphere", "cylinder")])
def test_distances_agree_with_coal(a, b):
    """Distances of shapes that are apart, and depths of those that are not, are those of coal."""
    rng = np.random.default_rng(2)
    for _ in range(40):
        detector, sizes, pose = _random(rng, a, b)
        contacts = found(detector, pose, margin=0.5)
        request, result = coal.DistanceRequest(), coal.DistanceResult()
        request.enable_signed_distance = True
        frames = [coal.Transform3s(matrix_from_quaternion(p[3:]), p[:3]) for p in pose]
        truth = coal.distance(_coal(a, sizes[0]), frames[0], _coal(b, sizes[1]), frames[1], request, result)
        assert (len(contacts["depth"]) == 0) == (truth > 0.5)
        if truth <= 0.5:
            assert -contacts["depth"].max() == pytest.approx(truth, abs=2e-5)


@pytest.mark.parametrize("a, b", PAIRS)
def test_points_lie_between_the_surfaces(a, b):
    """Half the depth from the point, back along the normal, is the surface of a; the same way on, that of b."""
    rng = np.random.default_rng(3)
    for _ in range(20):
        detector, sizes, pose = _random(rng, a, b, 0.8)
        contacts = found(detector, pose, margin=0.2)
        for k in range(len(contacts["depth"])):
            half = 0.5 * contacts["depth"][k] * contacts["normal"][k]
            for at, kind, size, shape in ((-half, a, sizes[0], 0), (half, b, sizes[1], 1)):
                point = contacts["point"][k] + at
                local = matrix_from_quaternion(pose[shape, 3:]).T @ (point - pose[shape, :3])
                assert _outside(kind, size, local) < 2e-2 * size.max()


def _outside(kind, size, x):
    """Return the signed distance of a point from a shape at the origin."""
    if kind == "sphere":
        return np.linalg.norm(x) - size[0]
    if kind == "capsule":
        return np.linalg.norm(x - [0, 0, np.clip(x[2], -size[1] / 2, size[1] / 2)]) - size[0]
    if kind == "cylinder":
        d = np.array([np.hypot(x[0], x[1]) - size[0], abs(x[2]) - size[1] / 2])
    else:
        d = np.abs(x) - size / 2
    return min(d.max(), 0.0) + np.linalg.norm(np.maximum(d, 0.0))


@pytest.mark.parametrize("a, b", PAIRS)
def test_moving_the_world_moves_the_contacts(a, b):
    """A rigid motion of both shapes moves points and normals with it and leaves depths and keys as they are."""
    rng = np.random.default_rng(4)
    for _ in range(10):
        detector, _, pose = _random(rng, a, b)
        before = found(detector, pose, margin=0.1)
        turn, shift = matrix_from_quaternion(rotation(rng)), rng.uniform(-3, 3, 3)
        moved = pose.copy()
        moved[:, :3] = pose[:, :3] @ turn.T + shift
        moved[:, 3:] = quaternion_from_matrix(turn @ matrix_from_quaternion(pose[:, 3:]))
        after = found(detector, moved, margin=0.1)
        assert after["key"].tolist() == before["key"].tolist()
        # The polytope in a deep overlap with a cylinder ends at facets: its depth is good to 1e-5, its normal to 2e-2.
        near = 2e-2 if "cylinder" in (a, b) else 1e-7
        assert np.allclose(after["depth"], before["depth"], atol=1e-5)
        assert np.allclose(after["point"], before["point"] @ turn.T + shift, atol=near)
        assert np.allclose(after["normal"], before["normal"] @ turn.T, atol=near)


@pytest.mark.parametrize("a, b", PAIRS)
def test_exchanging_the_shapes_turns_the_normal(a, b):
    """The same two shapes in the other order have the same deepest contact, with the opposite normal."""
    rng = np.random.default_rng(5)
    for _ in range(10):
        detector, sizes, pose = _random(rng, a, b)
        one, other = found(detector, pose, 0.1), found(two(b, sizes[1], a, sizes[0]), pose[::-1], 0.1)
        assert len(one["depth"]) == len(other["depth"]) or {a, b} <= {"box", "cylinder"}
        if len(one["depth"]):
            k, l = one["depth"].argmax(), other["depth"].argmax()
            assert one["depth"][k] == pytest.approx(other["depth"][l], abs=2e-3)
            assert one["normal"][k] @ other["normal"][l] < -0.99
