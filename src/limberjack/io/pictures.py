"""Trajectories as pictures: .png of one moment, .mp4 and .gif of the motion, rendered by the rasteriser of `viewer`."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from limberjack.errors import FileError, StateError, require
from limberjack.io.files import atomic_write
from limberjack.simulation.recorder import Bar
from limberjack.simulation.trajectory import Trajectory
from limberjack.viewer.drawing import Drawing
from limberjack.viewer.film import chosen_shot, film, frames_at, require_frames
from limberjack.viewer.picture import Painter, png

__all__ = ["write_gif", "write_mp4", "write_png"]

_MP4 = ["-c:v", "libx264", "-pix_fmt", "yuv420p", "-crf", "19", "-preset", "medium", "-movflags", "+faststart"]
_GIF = [
    "-filter_complex",
    "split[a][b];[a]palettegen=max_colors=128:stats_mode=diff[p];[b][p]paletteuse=dither=none:diff_mode=rectangle",
]


def write_png(
    trajectory: Trajectory,
    path: str | Path,
    *,
    time: float | None = None,
    camera: Any = None,
    follow: bool | None = None,
    width: int = 960,
    height: int = 600,
    smooth: int = 2,
) -> None:
    """Write a picture of one moment.

    Args:
        trajectory: the motion.
        path: the file.
        time: of the moment [s]; None = the last.
        camera: (position, target) [m]; None = one that shows the whole motion.
        follow: move the camera along; None = where no camera is given and the motion leads far away.
        width: [pixels].
        height: [pixels].
        smooth: supersampling factor along each edge.
    """
    require_frames(trajectory)
    k = len(trajectory) - 1
    if time is not None:
        if isinstance(time, bool) or not isinstance(time, (int, float)) or not np.isfinite(time):
            raise StateError(f"time must be a finite number of seconds, got {time!r}")
        k = int(np.argmin(np.abs(trajectory.times - time)))
    drawing = Drawing(trajectory.model, glass=False)
    eye = chosen_shot(drawing, trajectory, camera, follow, width / height).at(k)
    painter = Painter(drawing, width, height, smooth)
    atomic_write(path, png(painter.paint(trajectory.positions[k], trajectory.rotations[k], eye)))


def write_mp4(
    trajectory: Trajectory,
    path: str | Path,
    *,
    fps: float = 30.0,
    speed: float = 1.0,
    camera: Any = None,
    follow: bool | None = None,
    width: int = 960,
    height: int = 600,
    smooth: int = 2,
    progress: bool = False,
) -> None:
    """Write a film (H.264).

    Args:
        trajectory: the motion.
        path: the file.
        fps: pictures per second.
        speed: seconds of motion per second of film.
        camera: (position, target) [m]; None = one that shows the whole motion.
        follow: move the camera along; None = where no camera is given and the motion leads far away.
        width: [pixels], even.
        height: [pixels], even.
        smooth: supersampling factor along each edge.
        progress: show a progress bar.
    """
    for what, value in (("width", width), ("height", height)):
        if value % 2:
            raise StateError(f"{what} of an .mp4 must be even, got {value!r}")
    _encode(trajectory, Path(path), _MP4, fps, speed, (camera, follow), (width, height, smooth), progress)


def write_gif(
    trajectory: Trajectory,
    path: str | Path,
    *,
    fps: float = 20.0,
    speed: float = 1.0,
    camera: Any = None,
    follow: bool | None = None,
    width: int = 640,
    height: int = 400,
    smooth: int = 2,
    progress: bool = False,
) -> None:
    """Write an animated GIF that loops; arguments as of `write_mp4`."""
    _encode(trajectory, Path(path), _GIF, fps, speed, (camera, follow), (width, height, smooth), progress)


def _encode(
    trajectory: Trajectory,
    path: Path,
    encoding: list[str],
    fps: float,
    speed: float,
    camera: tuple[Any, bool | None],
    size: tuple[int, int, int],
    progress: bool,
) -> None:
    """Render the images and have ffmpeg encode them into a file, which replaces `path` when it is complete."""
    program = require("imageio_ffmpeg", extra="video").get_ffmpeg_exe()
    frames = frames_at(trajectory, fps, speed)
    bar = Bar(progress, len(frames), f"painting {path.name}")
    pictures = film(trajectory, frames, *camera, *size, bar)
    source = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{size[0]}x{size[1]}", "-r", f"{fps:.9g}", "-i", "-"]
    with tempfile.TemporaryDirectory(prefix="limberjack-") as folder:
        made = Path(folder) / f"film{path.suffix.lower()}"
        command = [program, "-hide_banner", "-loglevel", "error", "-y", *source, "-an", *encoding, str(made)]
        with (
            open(Path(folder) / "complaints", "w+b") as complaints,
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=complaints) as process,
        ):
            assert process.stdin is not None
            try:
                for picture in pictures:
                    process.stdin.write(picture.tobytes())
            except BrokenPipeError:
                pass  # it has ended and reports why
            except BaseException:
                process.kill()
                raise
            finally:
                pictures.close()
            process.communicate()
            complaints.seek(0)
            message = complaints.read().decode(errors="replace").strip()
        if process.returncode or not made.is_file():
            raise FileError(path, f"ffmpeg could not make the film: {message[-300:] or process.returncode}")

        def copy(file: BinaryIO) -> None:
            with open(made, "rb") as source_file:
                shutil.copyfileobj(source_file, file)

        atomic_write(path, copy)
