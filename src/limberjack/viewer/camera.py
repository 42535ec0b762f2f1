"""Cameras that show all of a motion."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from limberjack.errors import StateError
from limberjack.viewer.drawing import Drawing

__all__ = ["Eye", "above_ground", "bounds", "checked_eye", "framed", "seen_from"]

# Vertical field of view [rad].
ANGLE = 0.7
_ROOM = 1.12


class Eye(NamedTuple):
    """Camera position and target, world axes [m]; vertical field of view [rad]."""

    position: np.ndarray
    target: np.ndarray
    angle: float = ANGLE

    def axes(self) -> np.ndarray:
        """Return the directions (3, 3) right, up and ahead of the camera."""
        ahead = self.target - self.position
        ahead = ahead / np.linalg.norm(ahead)
        up = np.array([0.0, 0.0, 1.0]) if abs(ahead[2]) < 0.999 else np.array([0.0, 1.0, 0.0])
        right = np.cross(ahead, up)
        right /= np.linalg.norm(right)
        return np.stack([right, np.cross(right, ahead), ahead])

    def ray(self, x: float, y: float, aspect: float) -> np.ndarray:
        """Return the direction (3,) of what is seen at x, y of the picture.

        Args:
            x: from 0 at the left to 1 at the right.
            y: from 0 at the top to 1 at the bottom.
            aspect: width of the picture over its height.
        """
        right, up, ahead = self.axes()
        scale = math.tan(0.5 * self.angle)
        way = ahead + scale * ((2.0 * x - 1.0) * aspect * right + (1.0 - 2.0 * y) * up)
        return way / np.linalg.norm(way)


def checked_eye(camera: Any) -> Eye:
    """Return a camera given as (position, target), or refuse it."""
    try:
        position, target = (np.array(x, float) for x in (camera[0], camera[1]))
    except (TypeError, ValueError, IndexError, KeyError):
        raise StateError(f"camera must be (position, target), 3 numbers each, got {camera!r}") from None
    if position.shape != (3,) or target.shape != (3,) or not np.isfinite([position, target]).all():
        raise StateError(f"camera must be (position, target), 3 finite numbers each, got {camera!r}")
    if np.linalg.norm(position - target) == 0.0:
        raise StateError(f"the camera looks from {position} at the same point; move one of them")
    return Eye(position, target)


def bounds(drawing: Drawing, positions: np.ndarray, rotations: np.ndarray) -> np.ndarray:
    """Return the smallest and largest corner (2, 3) of what moves in some frames, and of what stands near it.

    Args:
        drawing: what is seen.
        positions: (frames, bodies, 3).
        rotations: (frames, bodies, 4).
    """
    still = drawing.parts.body < 0
    reach = drawing.extents[:, None]
    box = np.array([[np.inf] * 3, [-np.inf] * 3])
    for p, r in zip(positions, rotations, strict=True):
        at = drawing.part_poses(p, r)[0]
        box = _joined(box, at[~still], reach[~still])
        if len(drawing.strings.a):
            box = _joined(box, drawing.string_ends(p, r).reshape(-1, 3), 0.0)
    if still.any() and len(positions):
        at = drawing.parts.position[still]
        if not np.isfinite(box).all():
            box = _joined(box, at, reach[still])
        else:  # walls and floors that reach far beyond what moves are not framed
            size = float((box[1] - box[0]).max())
            low, high = box[0] - 0.6 * size, box[1] + 0.6 * size
            near = ((at - reach[still] >= low) & (at + reach[still] <= high)).all(axis=1)
            box = _joined(box, at[near], reach[still][near])
    return box if np.isfinite(box).all() else np.array([[-1.0, -1.0, -1.0], [1.0, 1.0, 1.0]])


def _joined(box: np.ndarray, at: np.ndarray, reach: np.ndarray | float) -> np.ndarray:
    """Return the box around another one and balls."""
    if not len(at):
        return box
    return np.stack([np.minimum(box[0], (at - reach).min(axis=0)), np.maximum(box[1], (at + reach).max(axis=0))])


def seen_from(box: np.ndarray, flat: np.ndarray | None = None) -> np.ndarray:
    """Return the direction (3,) from which a motion is best seen: planar ones along their normal.

    Args:
        box: smallest and largest corner.
        flat: (3,) travel of the bodies along each axis; None = the size of the box.
    """
    spread = box[1] - box[0] if flat is None else flat
    widest = float(spread.max())
    if spread[1] < 0.15 * widest:
        way = np.array([0.12, -1.0, 0.1])
    elif spread[2] < 0.1 * widest and flat is not None and spread[2] == spread.min():
        way = np.array([0.05, -0.6, 1.0])
    elif spread[0] < 0.15 * widest:
        way = np.array([1.0, -0.12, 0.1])
    else:
        way = np.array([0.8, -1.0, 0.42])
    return way / np.linalg.norm(way)


def framed(box: np.ndarray, aspect: float, way: np.ndarray) -> Eye:
    """Return a camera that shows the box (2, 3) in an image of width / height `aspect`, seen from direction `way`."""
    way = way / np.linalg.norm(way)
    centre = box.mean(axis=0)
    corners = np.array([[box[i, 0], box[j, 1], box[k, 2]] for i in (0, 1) for j in (0, 1) for k in (0, 1)])
    right, up, ahead = Eye(centre + way, centre).axes()
    tall = math.tan(0.5 * ANGLE)
    off = corners - centre
    # far enough for every corner to be inside: |off . axis| <= tan (distance + off . ahead)
    need = np.maximum(np.abs(off @ up) / tall, np.abs(off @ right) / (tall * aspect)) - off @ ahead
    distance = max(float(need.max()) * _ROOM, 1e-6)
    return Eye(centre + distance * way, centre)


def above_ground(drawing: Drawing, eye: Eye, size: float) -> Eye:
    """Return the camera raised above the ground by a share of the size of what is seen [m]."""
    for ground in drawing.grounds[:1]:
        height = float((eye.position - ground.point) @ ground.normal)
        if height < 0.3 * size:
            eye = eye._replace(position=eye.position + (0.3 * size - height) * ground.normal)
    return eye
