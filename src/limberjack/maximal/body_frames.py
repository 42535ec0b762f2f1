"""Frames and velocities of bodies in models where some change their size: read off the bodies, not off coordinates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from limberjack.constraints.bodies import AFFINE, OWN, SCALABLE
from limberjack.constraints.maximal import Maximal
from limberjack.constraints.own_bodies import DRIFT
from limberjack.model.model import Model
from limberjack.spatial.frames import matrix_from_quaternion, quaternion_from_matrix

__all__ = ["body_frames", "body_speeds"]


def _nearest_rotation(shape: np.ndarray) -> np.ndarray:
    """Return the rotation nearest to a matrix, by Newton's iteration for its polar part.

    Of a matrix that is singular or mirrors, as points of a plane or a line may give, what its columns tell is kept.
    """
    out = shape
    if not np.linalg.det(shape) > 1e-9:
        x, y, z = shape.T
        if not (np.linalg.norm(x) > 1e-9 and np.linalg.norm(np.cross(x, y)) > 1e-9):
            return np.eye(3)
        z = np.cross(x, y) / np.linalg.norm(np.cross(x, y))
        x = x / np.linalg.norm(x)
        return np.column_stack([x, np.cross(z, x), z])
    for _ in range(60):
        a, b, c = out.T
        inverse = np.array([np.cross(b, c), np.cross(c, a), np.cross(a, b)]) / (a @ np.cross(b, c))
        after = 0.5 * (out + inverse.T)
        if np.abs(after - out).max() < 1e-15:
            return after
        out = after
    return out


def body_frames(
    model: Model, whole: Maximal, pose: np.ndarray, place: Callable[[int, np.ndarray], np.ndarray], rest: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Return origins (n, 3) and quaternions (n, 4) of the body frames; without axes, the nearest rotation.

    Args:
        model: the model.
        whole: the model in maximal coordinates, its maps up to date.
        pose: of the bodies.
        place: where a point of a link's frame is in the world.
        rest: the two arrays as coordinates have them, for bodies fixed to the world.
    """
    positions, rotations = (np.array(one) for one in rest)
    for i, link in enumerate(model.arrays.body_link.tolist()):
        if link < 0:
            continue
        offset = model.arrays.body_offset[i]
        turn = matrix_from_quaternion(pose[link, 3:7])
        if whole.bodies.kind[link] >= AFFINE:
            turn = _nearest_rotation(whole.bodies.maps[link, :9].reshape(3, 3))
        found = np.asarray(quaternion_from_matrix(turn @ offset[:9].reshape(3, 3)))
        positions[i], rotations[i] = place(link, offset[9:]), found if found @ rotations[i] >= 0.0 else -found
    return positions, rotations


def body_speeds(model: Model, whole: Maximal, ends: np.ndarray) -> np.ndarray:
    """Return (n, 6) angular velocities and velocities of the coms; an affine body turns as its map does, without shear.

    Args:
        model: the model.
        whole: the model in maximal coordinates, its maps up to date.
        ends: of the bodies.
    """
    a, out = model.arrays, np.zeros((model.body_count, 6))
    for i, link in enumerate(a.body_link.tolist()):
        if link < 0:
            continue
        offset = a.body_offset[i]
        at = offset[:9].reshape(3, 3) @ a.body_com[i] + offset[9:] - whole.center[link]
        out[i, :3], out[i, 3:] = ends[link, 12:15], ends[link, 15:18]
        if whole.bodies.kind[link] >= SCALABLE:
            map_now, rate = whole.bodies.maps[link, :9].reshape(3, 3), whole.bodies.maps[link, 9:18].reshape(3, 3)
            out[i, 3:] += rate @ at
            if whole.bodies.kind[link] == OWN:
                out[i, 3:] = whole.bodies.own[link, DRIFT : DRIFT + 3]
            if whole.bodies.kind[link] >= AFFINE:
                flow = rate @ np.linalg.pinv(map_now)
                out[i, :3] = 0.5 * np.array([flow[2, 1] - flow[1, 2], flow[0, 2] - flow[2, 0], flow[1, 0] - flow[0, 1]])
        else:
            out[i, 3:] += np.cross(ends[link, 12:15], ends[link, :9].reshape(3, 3) @ at)
    return out
