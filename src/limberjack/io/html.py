"""Trajectories as one HTML file that plays by itself, offline: model, motion and player (`player.html`) in one.

Positions are integer multiples of a small step, rotations 16-bit numbers; both are stored as differences from frame to
frame and compressed, which browsers undo by themselves.
"""

from __future__ import annotations

import base64
import html
import json
import math
import zlib
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from limberjack.errors import ModelError
from limberjack.io.files import atomic_write
from limberjack.simulation.recorder import Bar
from limberjack.simulation.trajectory import Trajectory
from limberjack.spatial.frames import turn_z_to
from limberjack.viewer import geometry
from limberjack.viewer.colors import cluster_rows, cluster_table
from limberjack.viewer.drawing import Drawing
from limberjack.viewer.film import Shot, chosen_shot, require_frames

__all__ = ["write"]

# Positions are exact to this share of a typical part.
_FINE = 1e-4
_ASPECT = 1.6
_BAR = 1.15
_PALE = (0.72, 0.74, 0.76)


def write(
    trajectory: Trajectory,
    path: str | Path,
    *,
    camera: Any = None,
    follow: bool | None = None,
    title: str | None = None,
    clusters: Any = None,
    plots: Mapping[str, Any] | None = None,
    label: str = "",
    beside: Sequence[tuple[str, Trajectory, Mapping[str, Any]]] = (),
    progress: bool = False,
) -> None:
    """Write a page that plays the motion in any browser, without a network.

    Args:
        trajectory: the motion.
        path: the file.
        camera: (position, target) [m]; None = one that shows the whole motion.
        follow: move the camera along; None = where no camera is given and the motion leads far away.
        title: of the page; None = the model's name.
        clusters: (frames, bodies) number of the rigid cluster of each body, which then determines its colour.
        plots: numbers over time by name, (frames,) each: drawn as lines; NaN leaves a gap.
        label: of this motion, where others are shown beside it.
        beside: label, motion, and {"clusters": ..., "plots": ...} of each other motion that is shown side by side with
            this one, at the same times and from the same camera.
        progress: show a progress bar.
    """
    motions = [(label, trajectory, {"clusters": clusters, "plots": plots}), *beside]
    for _, motion, _ in motions:
        require_frames(motion)
    name = trajectory.model.name if title is None else str(title)
    with Bar(progress, 4, f"writing {Path(path).name}") as tick:
        drawings: dict[int, Drawing] = {}
        for _, motion, _ in motions:
            if id(motion.model) not in drawings:
                drawings[id(motion.model)] = Drawing(motion.model, glass=False)
        drawing = drawings[id(trajectory.model)]
        shot = chosen_shot(drawing, trajectory, camera, follow, _ASPECT)
        tick(1)
        order = list(drawings)
        runs = [
            {"label": word, "shapes": order.index(id(motion.model)), **_motion(motion, drawing.size)}
            | _clusters(motion, extras.get("clusters")) | _plots(motion, extras.get("plots"))
            for word, motion, extras in motions
        ]  # fmt: skip
        tick(1)
        palette = [*cluster_table().tolist(), list(_PALE)]
        data = {"name": name, "runs": runs, "shapes": [_shapes(d) for d in drawings.values()], "palette": palette}
        data |= _stage(drawing, shot, camera is not None)
        # a name such as </script> must not end the script it stands in
        text = json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
        page = resources.files("limberjack.io").joinpath("player.html").read_text("utf-8")
        tick(1)
        head, middle, tail = page.replace("@TITLE@", html.escape(name)).partition("@DATA@")
        assert middle
        atomic_write(path, (head + text + tail).encode())
        tick(1)


def _packed(array: np.ndarray) -> str:
    return base64.b64encode(zlib.compress(np.ascontiguousarray(array).tobytes(), 6)).decode()


def _planes(numbers: np.ndarray) -> str:
    """Return whole numbers (frames, n) as differences from frame to frame, lowest bytes first."""
    first = np.zeros_like(numbers[:1])
    steps = np.diff(numbers, axis=0, prepend=first).ravel()
    return _packed(steps.view(np.uint8).reshape(len(steps), numbers.itemsize).T)


def _motion(trajectory: Trajectory, size: float) -> dict[str, Any]:
    n = len(trajectory)
    positions = trajectory.positions.reshape(n, -1, 3)
    low, high = (
        (positions.min(axis=(0, 1)), positions.max(axis=(0, 1))) if positions.size else (np.zeros(3), np.zeros(3))
    )
    step = max(_FINE * size, float((high - low).max()) / 2**30, 1e-12)
    middle = positions[0].mean(axis=0) if positions.size else np.zeros(3)
    return {
        "times": [float(f"{t:.9g}") for t in trajectory.times],
        "bodies": trajectory.model.body_count,
        "origin": low.tolist(),
        "middle": middle.tolist(),
        "step": step,
        "places": _planes(np.round((positions - low) / step).astype("<i4").reshape(n, -1)),
        "turns": _planes(np.round(trajectory.rotations * 32767.0).astype("<i2").reshape(n, -1)),
    }


def _clusters(trajectory: Trajectory, clusters: Any) -> dict[str, Any]:
    if clusters is None:
        return {}
    table, wanted = np.asarray(clusters), (len(trajectory), trajectory.model.body_count)
    if table.shape != wanted:
        raise ModelError(f"clusters: shape {table.shape}, not (frames, bodies) = {wanted}")
    # as in the viewer; what is fixed to the world has the last colour
    return {"clusters": _planes(np.where(table >= 0, cluster_rows(table), len(cluster_table())).astype("<i2"))}


def _plots(trajectory: Trajectory, plots: Mapping[str, Any] | None) -> dict[str, Any]:
    found = {}
    for name, values in (plots or {}).items():
        numbers = np.asarray(values, float)
        if numbers.shape != (len(trajectory),):
            raise ModelError(f'plot "{name}": shape {numbers.shape}, not (frames,) = ({len(trajectory)},)')
        found[name] = [float(f"{x:.6g}") if math.isfinite(x) else None for x in numbers]
    return {"plots": found} if found else {}


def _shapes(drawing: Drawing) -> dict[str, Any]:
    parts, strings = drawing.parts, drawing.strings
    count, ties = len(parts.body), len(strings.a)
    meshes = [*drawing.geometries, *([geometry.cylinder(8)] if ties else [])]
    starts = [*np.searchsorted(parts.geometry, np.arange(len(drawing.geometries))).tolist(), count]
    if ties:
        starts.append(count + ties)
    table, vertex, face = [], 0, 0
    for k, mesh in enumerate(meshes):
        table.append(
            {"vertex": vertex, "face": face, "count": mesh.faces.size, "first": starts[k], "last": starts[k + 1]}
        )
        vertex, face = vertex + len(mesh.vertices), face + mesh.faces.size
    corners = [np.concatenate([m.vertices, m.normals], axis=1) for m in meshes]
    numbers = np.concatenate(
        [parts.position, parts.rotation, parts.scale, parts.color, np.maximum(drawing.half_widths, 1e-12)], axis=1
    )
    ends = np.concatenate([strings.a[:, None], strings.b[:, None], strings.at_a, strings.at_b], axis=1)
    return {
        "geometries": table,
        "vertices": _packed(np.concatenate([np.zeros((0, 6)), *corners]).astype("<f4")),
        "faces": _packed(np.concatenate([np.zeros(0), *(m.faces.ravel() for m in meshes)]).astype("<u4")),
        "parts": count,
        "part_numbers": _packed(numbers.astype("<f4")),
        "part_bodies": _packed(parts.body.astype("<i4")),
        "strings": ties,
        "string_numbers": _packed(ends.astype("<f4")),
        "string_width": drawing.string_width,
        "string_color": drawing.string_color,
    }


def _stage(drawing: Drawing, shot: Shot, given: bool) -> dict[str, Any]:
    eye = shot.eye
    if not given:  # room for the bar below
        eye = eye._replace(position=eye.target + _BAR * (eye.position - eye.target))
    stage: dict[str, Any] = {
        "eye": eye.position.tolist(), "target": eye.target.tolist(), "angle": eye.angle,
        "follow": bool(shot.shift.any()), "ground": None, "aspect": _ASPECT, "spread": [_ASPECT, 1.0],
    }  # fmt: skip
    if shot.box is not None:  # how wide and how high the motion is as seen, for pictures of another shape
        right, up, _ = shot.eye.axes()
        half = 0.5 * (shot.box[1] - shot.box[0])
        stage["spread"] = [float(np.abs(right) @ half), float(np.abs(up) @ half)]
    for ground in drawing.grounds[:1]:
        distance = float(np.linalg.norm(eye.position - eye.target))
        foot = eye.target - ((eye.target - ground.point) @ ground.normal) * ground.normal
        axes = turn_z_to(ground.normal)
        stage["ground"] = {
            "foot": foot.tolist(), "normal": ground.normal.tolist(), "e1": axes[:, 0].tolist(),
            "e2": axes[:, 1].tolist(), "color": list(ground.color), "reach": 6.0 * distance,
            "tile": 2.0 ** math.floor(math.log2(max(0.12 * distance, 1e-9))),
        }  # fmt: skip
    return stage
