"""Films: the frames of a trajectory at equal time steps, rendered one after the other."""

from __future__ import annotations

import os
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from limberjack.errors import StateError
from limberjack.simulation.recorder import Bar
from limberjack.simulation.trajectory import Trajectory
from limberjack.viewer.camera import Eye, above_ground, bounds, checked_eye, framed, seen_from
from limberjack.viewer.drawing import Drawing
from limberjack.viewer.picture import Painter

__all__ = ["Shot", "chosen_shot", "film", "frames_at", "require_frames"]

# Number of frames, spread over the motion, that determine the camera.
_SAMPLES = 40
# A motion that travels further than this many of its own sizes is followed.
_FAR = 1.5


def frames_at(trajectory: Trajectory, fps: float, speed: float = 1.0) -> np.ndarray:
    """Return the frames nearest to the times of a film.

    Args:
        trajectory: at least one frame.
        fps: frames per second.
        speed: seconds of motion per second of film.
    """
    for what, value in (("fps", fps), ("speed", speed)):
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0.0 < value < np.inf:
            raise StateError(f"{what} must be a number > 0, got {value!r}")
    require_frames(trajectory)
    times = trajectory.times
    count = int(round((times[-1] - times[0]) * fps / speed)) + 1
    wanted = times[0] + np.arange(count) * (speed / fps)
    after = np.clip(np.searchsorted(times, wanted), 1, max(1, len(times) - 1))
    before = after - 1
    after = np.minimum(after, len(times) - 1)
    return np.where(wanted - times[before] <= times[after] - wanted, before, after)


def require_frames(trajectory: Trajectory) -> None:
    """Refuse a trajectory without frames."""
    if not len(trajectory):
        raise StateError(f'the trajectory of model "{trajectory.model.name}" has no frames: nothing to draw')


class Shot(NamedTuple):
    """Camera of a film, the displacement (frames, 3) of it and its target in each frame, and the box (2, 3) framed."""

    eye: Eye
    shift: np.ndarray
    box: np.ndarray | None = None  # None where the camera was given

    def at(self, frame: int) -> Eye:
        """Return the camera of a frame."""
        return self.eye._replace(
            position=self.eye.position + self.shift[frame], target=self.eye.target + self.shift[frame]
        )


def chosen_shot(drawing: Drawing, trajectory: Trajectory, camera: Any, follow: bool | None, aspect: float) -> Shot:
    """Return the camera asked for, or one that shows the whole motion and is above the ground.

    Args:
        drawing: what is seen.
        trajectory: at least one frame.
        camera: (position, target) or None.
        follow: whether the camera moves along; None = where the motion leads far away and no camera is given.
        aspect: width / height.
    """
    require_frames(trajectory)
    middles = _middles(trajectory)
    pick = np.unique(np.linspace(0, len(trajectory) - 1, min(_SAMPLES, len(trajectory))).astype(int))
    positions, rotations = trajectory.positions[pick], trajectory.rotations[pick]
    boxes = np.array([bounds(drawing, p[None], r[None]) for p, r in zip(positions, rotations, strict=True)])
    size = float((boxes[:, 1] - boxes[:, 0]).max())
    if follow is None:
        follow = camera is None and float(np.ptp(middles, axis=0).max()) > _FAR * size
    shift = middles - middles[0] if follow else np.zeros_like(middles)
    if camera is not None:
        return Shot(checked_eye(camera), shift)
    boxes = boxes - shift[pick][:, None]
    box = np.stack([boxes[:, 0].min(axis=0), boxes[:, 1].max(axis=0)])
    centered = (positions - shift[pick][:, None]).reshape(-1, 3)
    travel = np.ptp(centered, axis=0) if len(centered) else np.zeros(3)
    flat = travel if travel.max(initial=0.0) > 0.5 * float((box[1] - box[0]).max()) else None
    return Shot(above_ground(drawing, framed(box, aspect, seen_from(box, flat)), size), shift, box)


def _middles(trajectory: Trajectory) -> np.ndarray:
    """Return the centre (frames, 3) of the bodies in each frame, smoothed."""
    if not trajectory.model.body_count:
        return np.zeros((len(trajectory), 3))
    middles = trajectory.positions.mean(axis=1)
    width = min(9, len(middles) | 1)
    padded = np.concatenate([middles[:1].repeat(width // 2, axis=0), middles, middles[-1:].repeat(width // 2, axis=0)])
    return np.stack([np.convolve(padded[:, k], np.full(width, 1.0 / width), "valid") for k in range(3)], axis=1)[
        : len(middles)
    ]


def film(
    trajectory: Trajectory,
    frames: np.ndarray,
    camera: Any,
    follow: bool | None,
    width: int,
    height: int,
    smooth: int,
    bar: Bar,
) -> Generator[np.ndarray, None, None]:
    """Yield the images of `frames` in order, rendered on as many threads as there are processors, up to four."""
    drawing = Drawing(trajectory.model, glass=False)
    shot = chosen_shot(drawing, trajectory, camera, follow, width / height)
    positions, rotations = trajectory.positions, trajectory.rotations
    threads = min(4, os.cpu_count() or 1, len(frames))
    painters = [Painter(drawing, width, height, smooth) for _ in range(threads)]
    queue = iter(frames)
    with bar as tick, ThreadPoolExecutor(threads) as pool:
        # as many at a time as there are painters: a slow one delays the others by no more than one image
        while batch := list(islice(queue, threads)):
            jobs = [
                pool.submit(painter.paint, positions[k], rotations[k], shot.at(k))
                for painter, k in zip(painters, batch, strict=False)
            ]
            for job in jobs:
                yield job.result()
                tick(1)
