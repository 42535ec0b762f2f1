"""`robot.yaml` beside a URDF: loops that URDF cannot have, joint types that it does not know, and motors.

    closed_loop: [['frame_a', 'frame_b'], ...]   # links, or joints for the frames of their child links
    type: ['6d', '3d', ...]                      # what each loop keeps: the pose, or the position only
    joint_name: ['knee', ...]                    # joints of another type than the URDF says
    joint_type: ['SPHERICAL', 'UJOINT_XY', ...]
    name_mot: ['hip', ...]                       # joints with a motor

Only lists of names in brackets are read, with comments; anything else in the file is ignored. The start of the model is
the nearest pose in which the loops are closed, found by Newton's method from joints at zero.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from limberjack.errors import FileError
from limberjack.io.xml import read_bytes
from limberjack.model.model import Model
from limberjack.model.spec import WORLD
from limberjack.reduced.dynamics import forward_kinematics
from limberjack.spatial.frames import (
    matrix_from_quaternion,
    matrix_from_vector,
    quaternion_from_matrix,
    vector_from_matrix,
)

__all__ = ["Loops", "closed_start", "read_loops"]

_JOINT_TYPES = {"SPHERICAL": "spherical", "UJOINT_XY": "universal"}
_LOOP_KINDS = {"6d": "fixed", "3d": "ball"}
_MOST_BYTES = 1_000_000
# Newton's method: steps at most, what counts as closed [m or rad], and steps of differences.
_ITERATIONS, _CLOSED, _DELTA = 100, 1e-10, 1e-6
_KEY = re.compile(r"^([A-Za-z_]\w*)\s*:", re.M)
# A comment, or a quoted name, in which a # is no comment.
_COMMENT = re.compile(r"""("[^"\n]*"|'[^'\n]*')|#[^\n]*""")


@dataclass
class Loops:
    """What a `robot.yaml` adds to a URDF.

    Attributes:
        path: the file, None where there is none.
        loops: the two frames and the kind of joint of each loop.
        joints: types of joints by name.
        motors: names of joints with a motor.
    """

    path: Path | None = None
    loops: list[tuple[str, str, str]] = field(default_factory=list[tuple[str, str, str]])
    joints: dict[str, str] = field(default_factory=dict[str, str])
    motors: list[str] = field(default_factory=list[str])


def read_loops(urdf: Path) -> Loops:
    """Return what the `robot.yaml` beside a URDF says; nothing where there is none, or it has no loops."""
    path = urdf.parent / "robot.yaml"
    if not path.is_file():
        return Loops()
    text = read_bytes(path, _MOST_BYTES).decode("utf-8", "replace")
    lists = _lists(path, _COMMENT.sub(lambda found: found[1] or "", text))
    pairs, types = lists.get("closed_loop", []), lists.get("type", [])
    names, kinds = lists.get("joint_name", []), lists.get("joint_type", [])
    if not pairs:
        return Loops()
    if len(types) not in (0, len(pairs)) or len(names) != len(kinds):
        raise FileError(path, "closed_loop and type, joint_name and joint_type must be lists of one length")
    out = Loops(path, motors=[str(name) for name in lists.get("name_mot", [])])
    for pair, kind in zip(pairs, types or ["6d"] * len(pairs), strict=True):
        known = _LOOP_KINDS.get(str(kind).lower())
        if known is None or not isinstance(pair, list) or len(pair) != 2:
            raise FileError(path, f"a loop is [frame, frame] of type {' or '.join(_LOOP_KINDS)}, got {pair} of {kind}")
        out.loops.append((str(pair[0]), str(pair[1]), known))
    for name, kind in zip(names, kinds, strict=True):
        if str(kind) not in _JOINT_TYPES:
            raise FileError(path, f'joint "{name}": joint_type is {" or ".join(_JOINT_TYPES)}, got {kind}')
        out.joints[str(name)] = _JOINT_TYPES[str(kind)]
    return out


def closed_start(model: Model, loops: Loops) -> tuple[np.ndarray, float]:
    """Return coordinates near the start at which the loops are closed, and the largest gap left [m or rad]."""
    q = np.array(model.q0)
    pairs = [(model, a, b, kind) for a, b, kind in loops.loops]
    for _ in range(_ITERATIONS):
        gaps = _gaps(pairs, q)
        if np.abs(gaps).max() < _CLOSED:
            break
        units = _DELTA * np.eye(model.nv)
        columns = [_gaps(pairs, moved(model, q, unit)) - _gaps(pairs, moved(model, q, -unit)) for unit in units]
        step = np.linalg.lstsq(np.array(columns).T / (2.0 * _DELTA), -gaps, rcond=1e-6)[0]
        q = moved(model, q, step * min(1.0, 0.3 / max(float(np.abs(step).max()), 1e-12)))
    return q, float(np.abs(_gaps(pairs, q)).max())


def _gaps(pairs: list[tuple[Model, str, str, str]], q: np.ndarray) -> np.ndarray:
    """Return the gaps of all loops: of points, and of axes where a loop keeps the pose."""
    positions, rotations = forward_kinematics(pairs[0][0], q)
    out: list[np.ndarray] = []
    for model, a, b, kind in pairs:
        frames: list[tuple[np.ndarray, np.ndarray]] = []
        for name in (a, b):
            i = -1 if name == WORLD else model.body_index(name)
            frames.append((positions[i], matrix_from_quaternion(rotations[i])) if i >= 0 else (np.zeros(3), np.eye(3)))
        out.append(frames[1][0] - frames[0][0])
        if kind == "fixed":
            out.append(vector_from_matrix(frames[0][1].T @ frames[1][1]))
    return np.concatenate(out)


def moved(model: Model, q: np.ndarray, step: np.ndarray) -> np.ndarray:
    """Return coordinates moved by a step of the dofs."""
    links, out = model.arrays.links, q.copy()
    for v, iq, length in links.runs:
        out[iq : iq + length] += step[v : v + length]
    for iq, v in links.quaternions:
        turned = matrix_from_quaternion(q[iq : iq + 4]) @ matrix_from_vector(step[v : v + 3])
        out[iq : iq + 4] = quaternion_from_matrix(turned)
    return out


def _lists(path: Path, text: str) -> dict[str, list[Any]]:
    """Return the lists in brackets of a document, by key."""
    found = list(_KEY.finditer(text))
    out: dict[str, list[Any]] = {}
    ends = [*(key.start() for key in found[1:]), len(text)]
    for key, end in zip(found, ends, strict=False):
        value = text[key.end() : end].strip()
        if not value.startswith("["):
            continue
        try:
            rows = json.loads(re.sub(r",(\s*\])", r"\1", value.replace("'", '"')))
        except (ValueError, RecursionError):
            rows = [None]
        if not all(_is_name(row) or (isinstance(row, list) and all(map(_is_name, row))) for row in rows):
            raise FileError(path, f'"{key[1]}" is no list of names in brackets')
        out[key[1]] = rows
    return out


def _is_name(value: Any) -> bool:
    return isinstance(value, (str, int, float))
