"""The inertia each joint of the humanoid feels, the measure of its springs and dampers.

A spring at joint i alone, all other joints loose, moves the inertia 1 / (M^-1)_ii, M the mass matrix. It is
far below the inertia of what hangs on the joint where a light body stands between heavy ones, and it shrinks
as the outer two of three axes turn parallel; so the least over many poses is taken, and gains in proportion
to it keep every explicit step of one length stable in all of them.
"""

from __future__ import annotations

import numpy as np

from limberjack.scenes.skeleton import NECK_BEND, Bone
from limberjack.spatial.frames import matrix_from_axis, skew

__all__ = ["felt_inertias"]

# Random poses, beside the zero pose and the two ends of all ranges.
_POSES = 24

Masses = dict[str, tuple[float, np.ndarray, np.ndarray]]


def _axes(bone: Bone) -> list[np.ndarray]:
    return [np.array(bone.axis)] + ([np.array((1.0, 0.0, 0.0))] if bone.joint == "neck" else [])


def _poses(bones: list[Bone]) -> np.ndarray:
    """Return (p, n) joint angles within the limits, one column per freedom of the bones."""
    limits = [pair for bone in bones for pair in ([bone.limits, NECK_BEND] if bone.joint == "neck" else [bone.limits])]
    low, high = np.radians(limits).T
    share = np.random.default_rng(0).uniform(0.0, 1.0, (_POSES, len(limits)))
    return np.concatenate([np.zeros((1, len(limits))), low[None], high[None], low + share * (high - low)])


def _mass_matrices(bones: list[Bone], masses: Masses, height: float, angles: np.ndarray) -> np.ndarray:
    """Return the (p, n, n) mass matrices, the six freedoms of the pelvis first; all poses at once."""
    poses, freedoms = angles.shape
    columns = np.zeros((poses, 6, 6 + freedoms))
    columns[:, range(6), range(6)] = 1.0
    matrix = np.zeros((poses, 6 + freedoms, 6 + freedoms))
    zero = {"pelvis": np.zeros(3)}
    turn = {"pelvis": np.tile(np.eye(3), (poses, 1, 1))}
    place = {"pelvis": np.zeros((poses, 3))}
    moved_by = {"pelvis": list(range(6))}
    k = 6
    for bone in (None, *bones):
        name = "pelvis" if bone is None else bone.name
        mass, com, inertia = masses[name]
        if bone is not None:
            at = height * np.array(bone.at)
            r = turn[bone.parent]
            p = place[bone.parent] + r @ (at - zero[bone.parent])
            own = []
            for axis in _axes(bone):
                w = r @ axis
                columns[:, :3, k], columns[:, 3:, k] = w, np.cross(p, w)
                r = r @ matrix_from_axis(axis, angles[:, k - 6])
                own.append(k)
                k += 1
            zero[name], turn[name], place[name], moved_by[name] = at, r, p, moved_by[bone.parent] + own
        which = moved_by[name]
        centre = place[name] + turn[name] @ (com - zero[name])
        angular = columns[:, :3, which]
        linear = columns[:, 3:, which] - skew(centre) @ angular
        world = turn[name] @ inertia @ np.swapaxes(turn[name], 1, 2)
        part = np.swapaxes(angular, 1, 2) @ world @ angular + mass * np.swapaxes(linear, 1, 2) @ linear
        matrix[np.ix_(range(poses), which, which)] += part
    return matrix


def felt_inertias(bones: list[Bone], masses: Masses, height: float) -> dict[str, np.ndarray]:
    """Return per bone the least inertia each freedom of its joint feels, over poses in the limits [kg m^2].

    Args:
        bones: parents first.
        masses: per body, with the pelvis: mass [kg], com in the standing figure [m], inertia about it (3, 3).
        height: of the figure [m].
    """
    matrix = _mass_matrices(bones, masses, height, _poses(bones))
    least = (1.0 / np.diagonal(np.linalg.inv(matrix), axis1=1, axis2=2)).min(axis=0)
    out, k = {}, 6
    for bone in bones:
        count = len(_axes(bone))
        out[bone.name] = least[k : k + count]
        k += count
    return out
