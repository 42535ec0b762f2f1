"""Boxes that lie on boxes, slightly tilted."""

from __future__ import annotations

import numpy as np
from tests.collision.pairs import found, two

from limberjack.spatial.frames import matrix_from_quaternion

_HALF = 0.1
# The slack of `collision.primitives`, and the second order error.
_SLACK = 2e-3 * _HALF


def _tilted(rng):
    """Return poses of two boxes, the second on the first, both tilted by at most a degree."""
    out = np.zeros((2, 7))
    for k in range(2):
        tilt, turn = rng.uniform(-0.008, 0.008, 2), rng.uniform(-0.2, 0.2)
        q = np.array([1.0, *tilt, turn])
        out[k, 3:] = q / np.linalg.norm(q)
    out[1, :3] = *rng.uniform(-0.05, 0.05, 2), 2.0 * _HALF
    return out


def _overlap(pose):
    """Return the corners of the overlap of two faces, seen from above, and the depth of the upper one there."""
    low, high = (matrix_from_quaternion(pose[k, 3:]) for k in range(2))
    corners = [(1, 1), (-1, 1), (-1, -1), (1, -1)]
    shape = [low.T @ (pose[1, :3] + high @ (_HALF * np.array([s, t, -1])) - pose[0, :3]) for s, t in corners]
    for axis, sign in ((0, 1), (0, -1), (1, 1), (1, -1)):
        cut = []
        for a, b in zip(shape, shape[1:] + shape[:1], strict=True):
            inside, other = _HALF - sign * a[axis], _HALF - sign * b[axis]
            if inside >= 0:
                cut.append(a)
            if inside * other < 0:
                cut.append(a + inside / (inside - other) * (b - a))
        shape = cut
    points = np.array(shape)
    return points, _HALF - points[:, 2]


def test_no_corner_of_an_overlap_is_lost():
    """The deepest contact of two stacked boxes is as deep as the deepest corner of the overlap of their faces."""
    rng, detector, seen = np.random.default_rng(0), two("box", (2 * _HALF,) * 3, "box", (2 * _HALF,) * 3), 0
    for _ in range(2000):
        pose = _tilted(rng)
        points, depth = _overlap(pose)
        # corners that barely stick out of the other face are cut or not by the slack
        deepest = found(detector, pose, margin=1e-3)["depth"].max()
        assert abs(deepest - depth.max()) < 1.5 * _SLACK
        seen += len(points) > 4
    assert seen > 300


def test_boxes_in_a_corner_rest_on_faces():
    """Boxes that overlap in a corner only have three contacts or more, of the same two faces however they rock."""
    rng, detector, faces = np.random.default_rng(1), two("box", (2 * _HALF,) * 3, "box", (2 * _HALF,) * 3), set()
    for _ in range(300):
        pose = np.zeros((2, 7))
        for k in range(2):
            q = np.array([1.0, *rng.uniform(-5e-4, 5e-4, 2), rng.uniform(-0.03, 0.03)])
            pose[k, 3:] = q / np.linalg.norm(q)
        pose[1, :3] = 0.18, 0.17, 2.0 * _HALF - 1e-4
        keys = found(detector, pose, margin=1e-3)["key"]
        assert len(keys) >= 3
        faces.update(keys // 32)
    assert len(faces) == 1
