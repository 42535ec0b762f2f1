"""Motion capture: figures whose motors follow recorded clips."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from limberjack.errors import ModelError
from limberjack.io import biovision
from limberjack.model import check
from limberjack.model.builder import Builder
from limberjack.model.model import Model
from limberjack.model.spec import WORLD, Joint, Motor, Spec
from limberjack.scenes.catalog import Camera, flag, scene, whole
from limberjack.scenes.crowds import graft, grid_places, named_figure
from limberjack.simulation.trajectory import Trajectory, between, rates

__all__ = ["Follow", "Part", "marching", "mocap", "tracking_error"]

_GROUND = (0.55, 0.58, 0.6, 1.0)
# Natural frequency of a joint on its motor [Hz]: human joints track motions of a few Hz.
_FREQUENCY = 6.0
# Natural frequency of the whole figure on the spring of its root [Hz].
_ASSIST = 4.0
# Least rotation [rad] or motion [m] from a pose for calibration to the first frame.
_JUMP = 0.1


@dataclass(frozen=True)
class Part:
    """What one figure follows.

    Attributes:
        prefix: of the names of its bodies and joints.
        motion: what it follows.
        shift: (3,) added to the positions of its roots [m].
    """

    prefix: str
    motion: Trajectory
    shift: tuple[float, ...]


class Follow:
    """A drive: the motors of a model aim at recorded motions, at the time of the simulation.

    It has no state of its own. Targets stay between two calls, so that it aims at the middle of them. After its last
    frame a clip stands still.

    Args:
        parts: the figures of the model.
        interval: time between two calls [s].
    """

    def __init__(self, parts: Sequence[Part], interval: float = 1 / 60) -> None:
        self.parts, self.ahead = tuple(parts), 0.5 * interval
        self._model: Model | None = None
        self._groups: list[_Group] = []

    def states(self, model: Model, time: float) -> tuple[np.ndarray, np.ndarray]:
        """Return (q, qd) of the model at a time of the clips; zero where no clip says anything.

        Args:
            model: the model.
            time: [s].
        """
        if model is not self._model:
            self._groups, self._model = _grouped(model, self.parts), model
        q, qd = np.zeros(model.nq), np.zeros(model.nv)
        for group in self._groups:
            group.put(time, q, qd)
        return q, qd

    def __call__(self, sim: Any) -> None:
        """Aim the motors at the motion, a little ahead of `sim.time`."""
        sim.set_targets(*self.states(sim.model, sim.time + self.ahead))


def _grouped(model: Model, parts: Sequence[Part]) -> list[_Group]:
    """Return the figures by their coordinates."""
    alike: dict[tuple[int, bytes], list[tuple[int, int, Part]]] = {}
    for part in parts:
        own = part.motion.model
        first = model.joint(part.prefix + own.joint_names[0])
        key = (own.nq, own.arrays.links.quaternions.tobytes())
        alike.setdefault(key, []).append((first.q_start, first.v_start, part))
    return [_Group(found) for found in alike.values()]


class _Group:
    """Figures with the same coordinates: their frames in one table, so that one call serves all."""

    def __init__(self, found: list[tuple[int, int, Part]]) -> None:
        motions: dict[int, int] = {}
        tables: list[Trajectory] = []
        for _, _, part in found:
            if id(part.motion) not in motions:
                motions[id(part.motion)] = len(tables)
                tables.append(part.motion)
        lengths = np.array([len(motion) for motion in tables])
        self._of = np.array([motions[id(part.motion)] for _, _, part in found])
        self._start = np.concatenate([[0], np.cumsum(lengths)])[:-1]
        self._length = lengths
        self._seconds = np.array([motion.times[-1] / max(len(motion) - 1, 1) for motion in tables])
        self._q, self._qd = (np.concatenate([getattr(motion, word) for motion in tables]) for word in ("q", "qd"))
        self._quaternions = found[0][2].motion.model.arrays.links.quaternions
        model = found[0][2].motion.model
        self._columns = np.array([at for at, _, _ in found])[:, None] + np.arange(model.nq)
        self._rates = np.array([at for _, at, _ in found])[:, None] + np.arange(model.nv)
        roots = [model.joint(name) for name in model.joint_names if model.joint_spec(name).kind == "free"]
        self._roots = np.array([root.q_start for root in roots], int)[:, None] + np.arange(3)
        self._shift = np.array([part.shift for _, _, part in found])

    def put(self, time: float, q: np.ndarray, qd: np.ndarray) -> None:
        """Write the states of the figures at `time` into those of the model."""
        frame = np.clip(time / np.maximum(self._seconds, 1e-12), 0.0, self._length - 1.0)
        k = np.minimum(frame.astype(int), np.maximum(self._length - 2, 0))
        u, moving = (frame - k)[self._of], (frame < self._length - 1)[self._of]
        low = (self._start + k)[self._of]
        high = np.minimum(low + 1, (self._start + self._length - 1)[self._of])
        here = between(self._quaternions, self._q[low], self._q[high], u)
        here[:, self._roots] += self._shift[:, None, :]
        q[self._columns] = here
        qd[self._rates] = ((1.0 - u)[:, None] * self._qd[low] + u[:, None] * self._qd[high]) * moving[:, None]


def tracking_error(sim: Any, follow: Follow) -> np.ndarray:
    """Return the distances (body_count,) of the bodies of a simulation from where its clips have them now [m]."""
    from limberjack.reduced.dynamics import forward_kinematics

    there, _ = forward_kinematics(sim.model, follow.states(sim.model, sim.time)[0])
    return np.linalg.norm(sim.positions - there, axis=1)


# The model


def _clips(clip: Any) -> list[Model]:
    """Return the figures of a file, a model with motion, or several of them."""
    if clip is None:
        return [marching()]
    if isinstance(clip, (str, Path)):
        clip = [clip]
    elif isinstance(clip, (Model, Trajectory)):
        clip = [clip]
    try:
        return [_one(each) for each in clip]
    except TypeError:
        raise ModelError(f"clip must be a file, a model with motion, or several of them, got {clip!r}") from None


def _one(clip: Any) -> Model:
    if isinstance(clip, (str, Path)):
        return biovision.read(clip)
    if isinstance(clip, Trajectory):
        clip = clip.model.with_motion(clip)
    if not isinstance(clip, Model) or clip.motion is None or not len(clip.motion):
        raise ModelError(f"a clip must be a BVH file or a model with motion, got {clip!r}")
    kinds = {clip.joint_spec(name).kind for name in clip.joint_names} - {"free", "ball", "hinge", "slide", "fixed"}
    if kinds:
        raise ModelError(f'clip "{clip.name}" has joints of kind {", ".join(sorted(kinds))}; a clip has none')
    return clip


def _trimmed(motion: Trajectory, skip: Any) -> Trajectory:
    """Return the motion without its first frames; None leaves out a first frame that is no part of the motion."""
    if skip is None:
        if len(motion) < 4:
            return motion
        # A pose for calibration stands apart: it is far from the next frame, and those after that are near each other.
        pairs = [rates(motion.model, motion.times[k : k + 2], motion.q[k : k + 2])[0] for k in range(3)]
        jumps = [float(np.abs(rate).max(initial=0.0)) for rate in pairs]
        skip = int(jumps[0] > 4.0 * max(jumps[1:]) + _JUMP / float(motion.times[1] - motion.times[0]))
    skip = whole(skip, "skip", 0)
    if skip >= len(motion):
        raise ModelError(f"skip must be less than the {len(motion)} frames of the clip, got {skip}")
    if not skip:
        return motion
    q, times = motion.q[skip:], motion.times[skip:] - motion.times[skip]
    qd = motion.qd[skip:].copy()
    if len(q) > 1:  # its central difference reached into the frames left out
        qd[0] = qd[1]
    return Trajectory(motion.model, times, q, qd)


def _parts(clip: Any, figures: Any, spacing: Any, skip: Any) -> list[tuple[Model, Part]]:
    """Return the figures: clip after clip over a grid, one stays where it was recorded."""
    clips = [(model, _trimmed(model.motion, skip)) for model in _clips(clip) if model.motion is not None]
    count = whole(len(clips) if figures is None else figures, "figures", 1)
    places = grid_places(count, check.number(spacing, "spacing", positive=True))
    out: list[tuple[Model, Part]] = []
    for i in range(count):
        model, motion = clips[i % len(clips)]
        if count == 1:
            out.append((model, Part("", motion, (0.0, 0.0, 0.0))))
            continue
        roots = [model.joint(name).q_start for name in model.joint_names if model.joint_spec(name).kind == "free"]
        start = motion.q[0][roots[0] : roots[0] + 2] if roots else np.zeros(2)
        shift = (*(places[i, :2] - start).tolist(), 0.0)
        out.append((model, Part(named_figure(i, count), motion, shift)))
    return out


def _inertias(model: Model) -> dict[str, tuple[float, float]]:
    """Return, per joint, mass and inertia of all that hangs on it, about it, with straight joints [kg, kg m^2]."""
    a, n = model.arrays, model.body_count
    origin, parents = np.zeros((n, 3)), [model.body(name).parent for name in model.body_names]
    for i, name in enumerate(model.joint_names[:n]):
        joint = model.joint_spec(name)
        if parents[i] != WORLD:
            offset = np.array(joint.position) - np.array(joint.position_in_child)
            origin[i] = origin[model.body_index(parents[i])] + offset
    com = origin + a.body_com
    out: dict[str, tuple[float, float]] = {}
    for i, name in enumerate(model.joint_names[:n]):
        below = {i}
        for k in range(i + 1, n):
            if parents[k] != WORLD and model.body_index(parents[k]) in below:
                below.add(k)
        rows = sorted(below)
        spread = ((com[rows] - origin[i]) ** 2).sum(axis=1)
        own = a.body_inertia[rows, :3].sum() + 2.0 * float(a.body_mass[rows] @ spread)
        out[name] = float(a.body_mass[rows].sum()), own / 3.0
    return out


def _driven(
    joint: Joint, q: np.ndarray, qd: np.ndarray, load: tuple[float, float], hertz: float, assist: float
) -> Joint:
    """Return a joint that starts in the motion and has its motors: critically damped on what hangs on it."""
    start = {"start": tuple(q.tolist()), "start_velocity": tuple(qd.tolist())}
    mass, inertia = load
    rate = 2.0 * math.pi * (assist if joint.kind == "free" else hertz)
    turn = Motor(kp=inertia * rate**2, kd=2.0 * inertia * rate, target=tuple(q[-4:].tolist()))
    if joint.kind == "ball":
        return replace(joint, motor=(turn, None, None), **start)
    if joint.kind == "free":
        push = [Motor(kp=mass * rate**2, kd=2.0 * mass * rate, target=float(x)) for x in q[:3]]
        return replace(joint, motor=(*push, turn, None, None) if rate > 0.0 else None, **start)
    if joint.kind in ("hinge", "slide"):
        own = inertia if joint.kind == "hinge" else mass
        return replace(joint, motor=(Motor(kp=own * rate**2, kd=2.0 * own * rate, target=float(q[0])),), **start)
    return joint


def _stage(*, clip: Any, figures: Any, spacing: Any, skip: Any, **_: Any) -> dict[str, Any]:
    parts = _parts(clip, figures, spacing, skip)
    motion, wide = parts[0][1].motion, len(parts) > 1
    joints = map(motion.model.joint, motion.model.joint_names)
    free = [joint.q_start for joint in joints if joint.kind == "free"]
    middle = np.zeros(3) if wide or not free else motion.q[:, free[0] : free[0] + 3].mean(axis=0)
    size = 4.0 if not wide else 3.0 + 0.8 * float(spacing) * math.sqrt(len(parts))
    eye = (float(middle[0] + size), float(middle[1] - 0.7 * size), float(middle[2] + 0.35 * size))
    return {
        "dt": 1 / 240,
        "seconds": max(1 / 60, float(max(part.motion.times[-1] for _, part in parts))),
        "drive": Follow([part for _, part in parts]),
        "camera": Camera(eye, (float(middle[0]), float(middle[1]), float(middle[2]))),
    }


# A person of 170 cm: name, parent, offset [cm] in the axes of BVH files.
_PERSON = (
    ("Hips", "", (0, 0, 0)),
    ("LeftUpLeg", "Hips", (9, -8, 0)), ("LeftLeg", "LeftUpLeg", (0, -41, 0)), ("LeftFoot", "LeftLeg", (0, -39, 0)),
    ("RightUpLeg", "Hips", (-9, -8, 0)), ("RightLeg", "RightUpLeg", (0, -41, 0)),
    ("RightFoot", "RightLeg", (0, -39, 0)),
    ("Spine", "Hips", (0, 10, 0)), ("Chest", "Spine", (0, 20, 0)), ("Neck", "Chest", (0, 18, 0)),
    ("Head", "Neck", (0, 10, 0)),
    ("LeftArm", "Chest", (18, 14, 0)), ("LeftForeArm", "LeftArm", (0, -28, 0)),
    ("LeftHand", "LeftForeArm", (0, -25, 0)),
    ("RightArm", "Chest", (-18, 14, 0)), ("RightForeArm", "RightArm", (0, -28, 0)),
    ("RightHand", "RightForeArm", (0, -25, 0)),
)  # fmt: skip
_ENDS = {
    "LeftFoot": (0, -4, 15),
    "RightFoot": (0, -4, 15),
    "Head": (0, 15, 0),
    "LeftHand": (0, -16, 0),
    "RightHand": (0, -16, 0),
}


@functools.cache
def marching() -> Model:
    """Return a person who marches on the spot for 4 s: a clip that needs no file."""
    lines: list[str] = ["HIERARCHY"]
    open_names: list[str] = []
    for name, parent, offset in _PERSON:
        while open_names and open_names[-1] != parent:
            open_names.pop()
            lines.append("}")
        channels = "3" if parent else "6 Xposition Yposition Zposition"
        lines += [f"{'JOINT' if parent else 'ROOT'} {name}", "{", f"OFFSET {' '.join(map(str, offset))}"]
        lines.append(f"CHANNELS {channels} Zrotation Xrotation Yrotation")
        if name in _ENDS:
            lines += ["End Site", "{", f"OFFSET {' '.join(map(str, _ENDS[name]))}", "}"]
        open_names.append(name)
    lines += ["}"] * len(open_names)
    frames = 241
    lines += ["MOTION", f"Frames: {frames}", f"Frame Time: {1 / 60:.9g}"]
    for k in range(frames):
        lines.append(" ".join(f"{x:.6f}" for x in _march_frame(2.0 * math.pi * k / 60)))
    return biovision.loads("\n".join(lines), "marching.bvh", unit="cm")


def _march_frame(phase: float) -> list[float]:
    """Return the channels of one frame: a stride per turn of the phase."""
    begin = min(1.0, phase / math.pi)  # at rest at the start
    out = [0.0, 94.0 + begin * 0.8 * (math.cos(2.0 * phase) - 1.0), 0.0]
    for name, _, _ in _PERSON:
        swing = begin * (math.sin(phase) if name.startswith("Left") else -math.sin(phase))
        lift = max(swing, 0.0)
        z, y = 0.0, 0.0
        if "UpLeg" in name:
            x = -45.0 * lift
        elif name.endswith("Leg"):
            x = 70.0 * lift
        elif "Foot" in name:
            x = -10.0 * lift
        elif name.endswith("ForeArm"):
            x = -25.0 - 15.0 * begin * (1.0 - math.cos(phase))
        elif name.endswith("Arm"):
            x = 25.0 * swing
            z = 6.0 if name.startswith("Left") else -6.0
        else:
            x = 0.0
            y = 4.0 * begin * math.sin(phase) if name in ("Spine", "Chest") else 0.0
        out += [z, x, y]
    return out


@scene("Figures whose motors follow clips of motion capture (BVH).", _stage)
def mocap(
    clip: Any = None,
    *,
    figures: int | None = None,
    spacing: float = 2.0,
    contacts: bool = False,
    frequency: float = _FREQUENCY,
    assist: float = _ASSIST,
    skip: int | None = None,
    gravity: Any = (0.0, 0.0, -9.81),
) -> Model:
    """Return figures that start in the first frame of their clips, with motors that `Follow` aims at the motion.

    `scenes.get("mocap", clip=...)` gives the model together with that drive. Each motor is critically damped on what
    hangs on its joint. A recorded motion is not one that keeps a figure of other masses upright: the root is assisted
    by a spring and damper towards its recorded pose, strong enough to bear the figure; with `assist=0` it is not, and
    the figure falls sooner or later.

    Args:
        clip: a BVH file, a model with motion, or several of them; None is a person who marches on the spot.
        figures: how many, clip after clip; None is one per clip. Several stand on a grid.
        spacing: of the grid [m].
        contacts: whether figures collide with the ground and each other.
        frequency: of a joint on its motor [Hz].
        assist: frequency of the whole figure on the spring of its root [Hz].
        skip: frames left out at the beginning; None leaves out the first where it is a pose for calibration, far from
            the second.
        gravity: [m/s^2].
    """
    clips = _parts(clip, figures, spacing, skip)
    hertz, assist = check.number(frequency, "frequency", positive=True), check.number(assist, "assist", low=0.0)
    contacts = flag(contacts, "contacts")
    spec = Spec("mocap", check.vector(gravity, 3, "gravity"))
    inertias = {id(model): _inertias(model) for model, _ in clips}
    for number, (model, part) in enumerate(clips):
        q, qd = part.motion.q[0], part.motion.qd[0]
        own = replace(model.spec, joints=[])
        for joint in model.spec.joints:
            info = model.joint(joint.name)
            at = q[info.q].copy()
            if joint.kind == "free":
                at[:3] += part.shift
            load = inertias[id(model)][joint.name]
            own.joints.append(_driven(joint, at, qd[info.v], load, hertz, assist))
        own.shapes = [replace(shape, group=number + 1, collide=contacts) for shape in model.spec.shapes]
        graft(spec, own, part.prefix)
    builder = Builder.from_spec(spec)
    builder.add_shape_plane(WORLD, color=_GROUND, collide=contacts, name="ground")
    return builder.build()
