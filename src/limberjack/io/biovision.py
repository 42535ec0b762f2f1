"""Motion capture as BVH (Biovision hierarchy): a skeleton with its motion in, trajectories out.

A file has joints with constant offsets, then one line of channels per frame. BVH is y up and its figures face z; here
z is up and figures face x: (x, y, z) of the world are (z, x, y) of the file. Rotation channels multiply in the order
listed, and position channels replace the offset. The file names no unit of length: see `guess_unit`.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from limberjack.errors import FileError, LimberjackError, ModelWarning
from limberjack.io.files import Taken, atomic_write
from limberjack.io.xml import read_bytes
from limberjack.model import check
from limberjack.model.builder import Builder
from limberjack.model.model import Model
from limberjack.model.spec import WORLD
from limberjack.simulation.trajectory import Trajectory, rates
from limberjack.spatial.frames import matrix_from_axis, matrix_from_quaternion, quaternion_from_matrix, turn_z_to

__all__ = ["UNITS", "guess_unit", "loads", "read", "read_motion", "write"]

# Metres per unit of the files there are; "cmu" is that of the Carnegie Mellon database, 1 / 0.45 inches.
UNITS = {"m": 1.0, "cm": 0.01, "mm": 0.001, "inch": 0.0254, "cmu": 0.0254 / 0.45}
# The longest way from the hips of an adult to the tip of a foot or a hand [m].
_REACH = 1.1
_MASS = 75.0  # of an adult [kg]
_MOST_BYTES, _MOST_JOINTS, _MOST_NUMBERS = 512 * 2**20, 10_000, 50_000_000
# Smallest radius of a bone as a share of that of the trunk, so that no body is without inertia; radius of a head as a
# share of its length.
_THIN, _WIDE = 0.08, 0.75
_AXES = {"x": 0, "y": 1, "z": 2}
# World axes of the x, y and z of a file.
_WORLD_AXIS = (1, 2, 0)
_PERMUTED = [2, 0, 1]


@dataclass(slots=True)
class _Joint:
    """A joint of the hierarchy, in the file's units and axes."""

    name: str
    parent: int
    line: int
    offset: tuple[float, ...] = (0.0, 0.0, 0.0)
    channels: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])  # ("position" or "rotation", axis)
    first: int = 0
    ends: list[tuple[float, ...]] = field(default_factory=list[tuple[float, ...]])


class _Words:
    """The words of a file with their lines, one ahead."""

    def __init__(self, path: Path, text: str) -> None:
        self.path, self._lines, self.line = path, text.splitlines(), 0
        self._row: list[str] = []
        self._at = 0

    def next(self, what: str) -> str:
        """Return the next word; at the end of the file say that `what` is missing."""
        while self._at >= len(self._row):
            if self.line >= len(self._lines):
                raise FileError(self.path, f"ends where {what} is expected", self.line)
            self._row, self._at = self._lines[self.line].split(), 0
            self.line += 1
        self._at += 1
        return self._row[self._at - 1]

    def rest(self) -> str:
        """Return what is left of the line."""
        rest, self._row = " ".join(self._row[self._at :]), []
        return rest

    def expect(self, *words: str) -> str:
        """Return the next word, in capitals, which must be one of `words`."""
        found = self.next(" or ".join(words))
        if found.upper() not in words:
            raise FileError(self.path, f'"{found}" where {" or ".join(words)} is expected', self.line)
        return found.upper()

    def number(self, what: str) -> float:
        """Return the next word as a finite number."""
        word = self.next(what)
        try:
            value = float(word)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise FileError(self.path, f'{what} must be a finite number, got "{word}"', self.line)
        return value

    def whole(self, what: str, most: int) -> int:
        """Return the next word as a whole number from 0 to `most`."""
        value = self.number(what)
        if value != int(value) or not 0 <= value <= most:
            raise FileError(self.path, f"{what} must be a whole number from 0 to {most}, got {value:g}", self.line)
        return int(value)

    def rows(self) -> Iterator[tuple[int, str]]:
        """Yield the lines that are left, with their numbers."""
        if self._at < len(self._row):
            yield self.line, self.rest()
        for i in range(self.line, len(self._lines)):
            yield i + 1, self._lines[i]


def read(
    path: str | Path, *, unit: float | str | None = None, mass: float = _MASS, repair: bool = True, **_: Any
) -> Model:
    """Return the figure of a BVH file; its motion is `model.motion`, a `Trajectory`, and it starts in its first frame.

    The root is a free joint, a joint of one rotation channel a hinge, other joints are balls. Bones are capsules whose
    section is proportional to the length of all bones beyond them, as that of branches; those of joints called head are
    about as wide as long. All are scaled so that they weigh `mass` with the density of water.

    Args:
        path: the file.
        unit: metres per unit of length of the file, or its name in `UNITS`; None guesses it, see `guess_unit`.
        mass: of the figure [kg].
        repair: rename joints that share a name, with a `ModelWarning`; False refuses them.
    """
    path = Path(path)
    text = read_bytes(path, _MOST_BYTES).decode("utf-8", "replace").lstrip("\ufeff")
    return loads(text, path, unit=unit, mass=mass, repair=repair)


def loads(
    text: str,
    path: str | Path = "clip.bvh",
    *,
    unit: float | str | None = None,
    mass: float = _MASS,
    repair: bool = True,
) -> Model:
    """Return the figure in the text of a BVH file, as `read`; `path` names it."""
    path = Path(path)
    try:
        words = _Words(path, text)
        joints = _hierarchy(words)
        _check_names(path, joints, repair)
        seconds, numbers = _motion(words, sum(len(joint.channels) for joint in joints))
        scale = guess_unit(_reach(joints)) if unit is None else _checked_unit(unit)
        model = _figure(path.stem, joints, numbers, scale, check.number(mass, "mass", positive=True))
        return _with_motion(model, joints, numbers, scale, seconds)
    except LimberjackError as error:
        if isinstance(error, FileError):
            raise
        raise FileError(path, str(error)) from error


def read_motion(path: str | Path) -> Trajectory:
    """Return the motion of a BVH file; its model is the figure that `read` makes."""
    motion = read(path).motion
    assert motion is not None
    return motion


def guess_unit(reach: float) -> float:
    """Return the unit in which the figure is nearest to human size.

    Args:
        reach: length of the longest way from the root to the end of a limb, in units of the file.
    """
    return min(UNITS.values(), key=lambda unit: abs(math.log(max(reach, 1e-300) * unit / _REACH)))


def _checked_unit(unit: float | str) -> float:
    if isinstance(unit, str):
        if unit not in UNITS:
            raise LimberjackError(f'no unit "{unit}"; there is {", ".join(UNITS)} or a number of metres')
        return UNITS[unit]
    return check.number(unit, "unit", positive=True)


# Reading


def _hierarchy(words: _Words) -> list[_Joint]:
    """Read the joints up to the word MOTION, parents first."""
    words.expect("HIERARCHY")
    joints: list[_Joint] = []
    while words.expect("ROOT", "MOTION") == "ROOT":
        _tree(words, joints)
    if not joints:
        raise FileError(words.path, "has no ROOT", words.line)
    return joints


def _tree(words: _Words, joints: list[_Joint]) -> None:
    """Read one root and what is below it; the open joints are a list, whatever the depth."""
    above = [_begin(words, joints, -1)]
    while above:
        joint = joints[above[-1]]
        word = words.expect("OFFSET", "CHANNELS", "JOINT", "END", "}")
        if word == "OFFSET":
            joint.offset = _three(words, f'OFFSET of joint "{joint.name}"')
        elif word == "CHANNELS":
            _channels(words, joint)
        elif word == "JOINT":
            above.append(_begin(words, joints, above[-1]))
        elif word == "END":
            words.rest()  # "Site"
            words.expect("{")
            words.expect("OFFSET")
            joint.ends.append(_three(words, f'OFFSET of the end of joint "{joint.name}"'))
            words.expect("}")
        else:
            above.pop()


def _begin(words: _Words, joints: list[_Joint], parent: int) -> int:
    """Read the name of a joint and its brace; return its index."""
    line, name = words.line, words.rest()
    if name.endswith("{"):
        name = name[:-1].rstrip()
    else:
        words.expect("{")
    if not name:
        raise FileError(words.path, "a joint has no name", line)
    if len(joints) >= _MOST_JOINTS:
        raise FileError(words.path, f"has more than {_MOST_JOINTS} joints", line)
    joints.append(_Joint(name, parent, line))
    return len(joints) - 1


def _three(words: _Words, what: str) -> tuple[float, ...]:
    return tuple(words.number(what) for _ in range(3))


def _channels(words: _Words, joint: _Joint) -> None:
    """Read the channels of a joint: their count, then names such as Zrotation."""
    if joint.channels:
        raise FileError(words.path, f'joint "{joint.name}" has CHANNELS twice', words.line)
    for _ in range(words.whole(f'count of channels of joint "{joint.name}"', 6)):
        word = words.next("a channel")
        kind, axis = word[1:].lower(), _AXES.get(word[:1].lower())
        if axis is None or kind not in ("position", "rotation"):
            choices = ", ".join(f"{a}{k}" for k in ("position", "rotation") for a in "XYZ")
            raise FileError(words.path, f'no channel "{word}"; channels are {choices}', words.line)
        if (kind, axis) in joint.channels:
            raise FileError(words.path, f'joint "{joint.name}" has channel "{word}" twice', words.line)
        joint.channels.append((kind, axis))


def _check_names(path: Path, joints: list[_Joint], repair: bool) -> None:
    """Number the columns, and rename joints whose name is taken or is that of the world."""
    taken = Taken(WORLD)
    first = 0
    for joint in joints:
        joint.first, first = first, first + len(joint.channels)
        if joint.name in taken:
            if not repair:
                raise FileError(path, f'joint name "{joint.name}" is taken', joint.line)
            name = taken.take(joint.name)
            warnings.warn(
                f'{path}:{joint.line}: joint name "{joint.name}" is taken; called "{name}"', ModelWarning, stacklevel=5
            )
            joint.name = name
        else:
            taken.take(joint.name)


def _motion(words: _Words, width: int) -> tuple[float, np.ndarray]:
    """Read the seconds per frame and the channels (frames, width)."""
    words.expect("FRAMES:")
    frames = words.whole("Frames", _MOST_NUMBERS)
    words.expect("FRAME")
    words.expect("TIME:")
    seconds = words.number("Frame Time")
    if frames == 0:
        raise FileError(words.path, "has no frames", words.line)
    if seconds <= 0.0 and frames > 1:
        raise FileError(words.path, f"Frame Time must be > 0 s, got {seconds:g}", words.line)
    if frames * width > _MOST_NUMBERS:
        raise FileError(words.path, f"has {frames} frames of {width} channels: more than {_MOST_NUMBERS} numbers")
    parts: list[np.ndarray] = []
    found = 0
    for line, row in words.rows():
        try:
            part = np.array(row.split(), np.float64)
        except ValueError:
            raise FileError(words.path, "a channel is not a number", line) from None
        if not np.isfinite(part).all():
            raise FileError(words.path, "a channel is not finite", line)
        found += part.size
        if found > frames * width:
            raise FileError(words.path, f"has more numbers than {frames} frames of {width} channels", line)
        parts.append(part)
    if found < frames * width:
        raise FileError(words.path, f"has {found} numbers, {frames} frames of {width} channels are {frames * width}")
    return (seconds if seconds > 0.0 else 1 / 60), np.concatenate([np.zeros(0), *parts]).reshape(frames, width)


# The figure


def _reach(joints: list[_Joint]) -> float:
    """Return the length of the longest way from a root to an end, in units of the file."""
    length = np.zeros(len(joints))
    for i, joint in enumerate(joints):
        if joint.parent >= 0:
            length[i] = length[joint.parent] + math.hypot(*joint.offset)
    ends = (length[i] + math.hypot(*end) for i, joint in enumerate(joints) for end in joint.ends)
    return max([*length.tolist(), *ends])


def _bones(joints: list[_Joint], scale: float) -> list[list[np.ndarray]]:
    """Return, per joint, the vectors from its origin to the next joints and ends, world axes [m]."""
    bones: list[list[np.ndarray]] = [[scale * np.array(end)[_PERMUTED] for end in joint.ends] for joint in joints]
    for joint in joints:
        if joint.parent >= 0:
            bones[joint.parent].append(scale * np.array(joint.offset)[_PERMUTED])
    return bones


def _radii(joints: list[_Joint], bones: list[list[np.ndarray]], mass: float) -> np.ndarray:
    """Return the radius of the bones of each joint: sections carry what is beyond them, as branches of a tree do."""
    own = np.array([sum(float(np.linalg.norm(bone)) for bone in each) for each in bones])
    beyond = own.copy()
    for i in range(len(joints) - 1, 0, -1):
        if joints[i].parent >= 0:
            beyond[joints[i].parent] += beyond[i]
    whole = float(beyond.max(initial=0.0))
    if whole == 0.0:
        return np.full(len(joints), (0.75 * mass / (1000.0 * math.pi * len(joints))) ** (1 / 3))
    share = np.maximum(np.sqrt(beyond / whole), _THIN)
    wide = np.array(
        [_WIDE * length if "head" in joint.name.lower() else 0.0 for joint, length in zip(joints, own, strict=True)]
    )
    ends = np.array([max(1, sum(bool(np.any(bone)) for bone in each)) for each in bones])

    def weight(radius: float) -> float:
        r = np.maximum(radius * share, wide)
        return 1000.0 * math.pi * float((r**2 * own + 4 / 3 * r**3 * ends).sum())

    if weight(0.0) > mass:
        wide[:] = 0.0
    low, high = 0.0, (mass / 1000.0) ** (1 / 3)
    while weight(high) < mass:
        high *= 2.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if weight(middle) < mass else (low, middle)
    return np.maximum(high * share, wide)


def _figure(name: str, joints: list[_Joint], numbers: np.ndarray, scale: float, mass: float) -> Model:
    """Return the model without its motion."""
    builder = Builder(name)
    bones = _bones(joints, scale)
    for joint, each, radius in zip(joints, bones, _radii(joints, bones, mass).tolist(), strict=True):
        builder.add_body(joint.name)
        long = [bone for bone in each if np.any(bone)]
        for bone in long:
            length = float(np.linalg.norm(bone))
            builder.add_shape_capsule(
                joint.name, radius, length, position=0.5 * bone, rotation=turn_z_to(bone / length), group=1
            )
        if not long:
            builder.add_shape_sphere(joint.name, radius, group=1)
    start = _coordinates(joints, numbers[:1], scale)
    for i, joint in enumerate(joints):
        parent, kind = joints[joint.parent].name if joint.parent >= 0 else WORLD, _kind(joint)
        if kind == "free":
            builder.add_joint_free(joint.name, WORLD, joint.name, start=start[i][0])
            continue
        where = _positions(joint, numbers, scale)
        position = where.mean(axis=0)
        stray = float(np.abs(where - position).max())
        if stray > 1e-3 * max(float(np.linalg.norm(position)), scale):
            warnings.warn(
                f'joint "{joint.name}" moves by {stray:.3g} m against its parent; its mean position is taken',
                ModelWarning, stacklevel=4,
            )  # fmt: skip
        options: dict[str, Any] = {"position": position}
        if kind == "hinge":
            options["axis"] = np.eye(3)[_WORLD_AXIS[joint.channels[-1][1]]]
        if kind != "fixed":
            options["start"] = start[i][0]
        builder.add_joint(kind, joint.name, parent, joint.name, **options)
    return builder.build()


def _kind(joint: _Joint) -> str:
    """Return the kind of joint that has the channels: a root that is placed is free."""
    turns = [axis for kind, axis in joint.channels if kind == "rotation"]
    if joint.parent < 0 and len(joint.channels) > len(turns):
        return "free"
    return ("fixed", "hinge")[len(turns)] if len(turns) < 2 else "ball"


def _positions(joint: _Joint, numbers: np.ndarray, scale: float) -> np.ndarray:
    """Return the (frames, 3) positions of a joint in its parent, world axes [m]."""
    out = np.tile(np.array(joint.offset), (len(numbers), 1))
    for k, (kind, axis) in enumerate(joint.channels):
        if kind == "position":
            out[:, axis] = numbers[:, joint.first + k]
    return scale * out[:, _PERMUTED]


def _rotations(joint: _Joint, numbers: np.ndarray) -> np.ndarray:
    """Return the (frames, 3, 3) rotations of a joint: its channels in the order listed."""
    out = np.tile(np.eye(3), (len(numbers), 1, 1))
    for k, (kind, axis) in enumerate(joint.channels):
        if kind == "rotation":
            out = out @ matrix_from_axis(np.eye(3)[_WORLD_AXIS[axis]], np.radians(numbers[:, joint.first + k]))
    return out


def _coordinates(joints: list[_Joint], numbers: np.ndarray, scale: float) -> list[np.ndarray]:
    """Return, per joint, its coordinates (frames, nq)."""
    out: list[np.ndarray] = []
    for joint in joints:
        kind = _kind(joint)
        if kind == "hinge":
            out.append(np.radians(numbers[:, joint.first + len(joint.channels) - 1 :][:, :1]))
        elif kind == "fixed":
            out.append(np.zeros((len(numbers), 0)))
        else:
            turn = quaternion_from_matrix(_rotations(joint, numbers))
            out.append(np.hstack([_positions(joint, numbers, scale), turn]) if kind == "free" else turn)
    return out


def _with_motion(model: Model, joints: list[_Joint], numbers: np.ndarray, scale: float, seconds: float) -> Model:
    """Return the model with its motion, and the velocity of the first frame as its start."""
    q = np.empty((len(numbers), model.nq))
    for joint, own in zip(joints, _coordinates(joints, numbers, scale), strict=True):
        q[:, model.joint(joint.name).q] = own
    times = seconds * np.arange(len(numbers))
    return model.with_motion(Trajectory(model, times, q, rates(model, times, q)))


# Writing


def write(trajectory: Trajectory, path: str | Path, *, unit: float | str = "cm") -> None:
    """Write the motion of every body as BVH: z, y and x rotations, and positions where a joint translates.

    Frames are those of the trajectory where they are equally far apart, else its motion at the interval of its first
    two.

    Args:
        trajectory: what was recorded; loop joints are not written.
        path: the file.
        unit: metres per unit of length of the file, or its name in `UNITS`.
    """
    if not len(trajectory):
        raise FileError(path, "the trajectory has no frames")
    scale = _checked_unit(unit)
    trajectory, seconds = _even(trajectory)
    model = trajectory.model
    parents = [model.body(name).parent for name in model.body_names]
    turned, at, anchors = _frames(trajectory)
    head: list[str] = ["HIERARCHY"]
    columns: list[np.ndarray] = []
    open_bodies: list[int] = []
    index = {name: i for i, name in enumerate(model.body_names)}
    leaves = set(range(model.body_count)) - {index[parent] for parent in parents if parent != WORLD}
    for i, name in enumerate(model.body_names):
        above = index.get(parents[i], -1)
        while open_bodies and open_bodies[-1] != above:
            open_bodies.pop()
            head.append("\t" * len(open_bodies) + "}")
        r, p = turned[:, i], at[:, i]
        if above >= 0:
            back = np.swapaxes(turned[:, above], -1, -2)
            r, p = back @ r, np.einsum("nij,nj->ni", back, p - at[:, above])
        tab, p = "\t" * len(open_bodies), p[:, list(_WORLD_AXIS)] / scale
        moves = above < 0 or bool(np.abs(p - p[0]).max() * scale > 1e-9)
        names = ("Xposition Yposition Zposition " if moves else "") + "Zrotation Yrotation Xrotation"
        head += [f"{tab}{'JOINT' if above >= 0 else 'ROOT'} {'_'.join(name.split())}", tab + "{"]
        head.append(f"{tab}\tOFFSET {_text(p[0] if above >= 0 else np.zeros(3))}")
        head.append(f"{tab}\tCHANNELS {6 if moves else 3} {names}")
        columns += [p] * moves + [_angles(r)]
        if i in leaves:
            end = 2.0 * (model.arrays.body_com[i] - anchors[i])
            offset = _text(end[list(_WORLD_AXIS)] / scale)
            head += [f"{tab}\tEnd Site", tab + "\t{", f"{tab}\t\tOFFSET {offset}", tab + "\t}"]
        open_bodies.append(i)
    while open_bodies:
        open_bodies.pop()
        head.append("\t" * len(open_bodies) + "}")
    head += ["MOTION", f"Frames: {len(trajectory)}", f"Frame Time: {seconds:.9g}"]
    rows = [_text(row) for row in np.hstack(columns)]
    atomic_write(path, ("\n".join([*head, *rows]) + "\n").encode())


def _text(numbers: Sequence[float] | np.ndarray) -> str:
    return " ".join(f"{x:.9g}" for x in numbers)


def _even(trajectory: Trajectory) -> tuple[Trajectory, float]:
    """Return the trajectory in frames equally far apart, and their interval [s]."""
    times = trajectory.times
    if len(times) < 2:
        return trajectory, 1 / 60
    seconds = float(times[1] - times[0])
    if seconds <= 0.0 or np.allclose(np.diff(times), seconds, rtol=1e-6):
        return trajectory, seconds if seconds > 0.0 else 1 / 60
    even = times[0] + seconds * np.arange(int((times[-1] - times[0]) / seconds + 1e-6) + 1)
    found = [trajectory.at(time) for time in even]
    return Trajectory(trajectory.model, even, [q for q, _ in found], [qd for _, qd in found]), seconds


def _frames(trajectory: Trajectory) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rotations, origins at the joints, and these in the body frames: where most joints keep their offset."""
    a = trajectory.model.arrays
    turned = matrix_from_quaternion(trajectory.rotations)
    anchors = np.zeros((trajectory.model.body_count, 3))
    seen: set[int] = set()
    for i, link in enumerate(a.body_link.tolist()):
        if link >= 0 and link not in seen:  # of bodies that move as one the first has the joint
            anchors[i] = -a.body_offset[i, :9].reshape(3, 3).T @ a.body_offset[i, 9:]
            seen.add(link)
    return turned, trajectory.positions + np.einsum("nbij,bj->nbi", turned, anchors), anchors


def _angles(r: np.ndarray) -> np.ndarray:
    """Return the (n, 3) angles of R = Rz Ry Rx in the axes of the file [degrees]."""
    order = list(_WORLD_AXIS)
    m = r[:, order][:, :, order]
    y = -np.arcsin(np.clip(m[:, 2, 0], -1.0, 1.0))
    locked = np.abs(m[:, 2, 0]) > 1.0 - 1e-12
    z = np.where(locked, np.arctan2(-m[:, 0, 1], m[:, 1, 1]), np.arctan2(m[:, 1, 0], m[:, 0, 0]))
    x = np.where(locked, 0.0, np.arctan2(m[:, 2, 1], m[:, 2, 2]))
    return np.degrees(np.stack([z, y, x], axis=1))
