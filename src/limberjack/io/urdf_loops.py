"""`robot.yaml` beside a URDF: loops that URDF cannot have, joint types that it does not know, and motors.

    closed_loop: [['frame_a', 'frame_b'], ...]   # links, or joints for the frames of their child links
    type: ['6d', '3d', ...]                      # what each loop keeps: the pose, or the position only
    joint_name: ['knee', ...]                    # joints of another type than the URDF says
    joint_type: ['SPHERICAL', 'UJOINT_XY', ...]
    name_mot: ['hip', ...]                       # joints with a motor

Only lists of names in brackets are read, with comments; anything else in the file is ignored. The model starts in a
pose near joints at zero in which the loops are closed.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from limberjack.errors import FileError
from limberjack.io.xml import read_bytes

__all__ = ["Loops", "read_loops"]

_JOINT_TYPES = {"SPHERICAL": "spherical", "UJOINT_XY": "universal"}
_LOOP_KINDS = {"6d": "fixed", "3d": "ball"}
_MOST_BYTES = 1_000_000
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
