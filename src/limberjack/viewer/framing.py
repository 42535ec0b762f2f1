"""`Framing`: where the cameras of the pages look - at the whole motion at first, and after what moves away."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from limberjack.model.model import Model
from limberjack.reduced.dynamics import forward_kinematics
from limberjack.viewer.camera import Eye, above_ground, bounds, framed, seen_from
from limberjack.viewer.drawing import Drawing

__all__ = ["Framing"]

# A window of this shape, until a page tells its own.
_ASPECT = 1.3
_WAYS = {"front": (0.0, -1.0, 0.15), "side": (1.0, 0.0, 0.15), "top": (0.0, -0.02, 1.0)}
# Distance between runs side by side, in widths of their motion.
_PITCH = 1.12
# Share of the way to a larger box that is taken at a time, and how much larger it may become in all.
_BACK, _FARTHEST = 0.4, 4.0
# Share of the framed box that the middle of the model may move before the camera follows, and share of its distance by
# which a camera that a user has moved is elsewhere than told.
_SLACK, _MOVED = 0.6, 0.03
# The same as a share of the distance of a camera that was given.
_SEEN = 0.15
# A motion that leads further than this many of its own sizes is followed.
_FAR = 1.5


class Framing:
    """The cameras on one model, or several side by side.

    Args:
        drawing: of the model.
        motion: coordinates (nq,) of now, and along the motion to come as far as it is known.
        runs: how many stand side by side.
        exact: a camera to take as it is, or None.
        way: direction (3,) to look from; None = one that suits the motion.
        least: a box (2, 3) to show in any case, where more of the motion is known from before; None = that of `motion`.
    """

    def __init__(
        self, drawing: Drawing, motion: Sequence[np.ndarray], runs: int, exact: Eye | None, way: Any,
        least: np.ndarray | None = None,
    ) -> None:  # fmt: skip
        self._least = least
        self._drawing, self._runs, self._exact = drawing, runs, exact
        self._way = None if way is None else np.array(way, float)
        self.keep = True
        self._leads: dict[int, tuple[np.ndarray, deque[np.ndarray]]] = {}  # of cameras that users have moved
        self._told: deque[np.ndarray] = deque(maxlen=40)
        self.see(motion)

    @property
    def model(self) -> Model:
        """The model that is framed."""
        return self._drawing.model

    def see(self, motion: Sequence[np.ndarray]) -> None:
        """Frame a motion, given by coordinates along it; one that leads far away is framed as seen moving along."""
        poses = [forward_kinematics(self._drawing.model, q) for q in motion]
        boxes = np.array([bounds(self._drawing, p[None], r[None]) for p, r in poses])
        middles, size = boxes.mean(axis=1), float((boxes[:, 1] - boxes[:, 0]).max())
        away = np.linalg.norm(middles - middles[0], axis=1)
        leads_away = len(away) > 2 and float(away[-1]) > _FAR * size and bool((np.diff(away) > 0.0).all())
        if leads_away:
            boxes = boxes - (middles - middles[0])[:, None]
        self.box = np.stack([boxes[:, 0].min(axis=0), boxes[:, 1].max(axis=0)])
        if self._least is not None and not leads_away:
            self.box = np.stack([np.minimum(self.box[0], self._least[0]), np.maximum(self.box[1], self._least[1])])
        size = float((self.box[1] - self.box[0]).max())
        travel = np.ptp(np.concatenate([p for p, _ in poses]), axis=0) if poses[0][0].size else np.zeros(3)
        flat = travel if travel.max() > 0.5 * size and not leads_away else None
        self.way = self._way if self._way is not None else seen_from(self.box, flat)
        # the middle of parts at the first frame, or the middle of the whole motion
        first = leads_away or self._exact is not None  # a camera that was given may see a part of the motion only
        self.anchor: np.ndarray | None = None if first else self.box.mean(axis=0)
        self._slack = 0.1 * size if leads_away else _SLACK * size
        if self._exact is not None:
            self._slack = min(self._slack, _SEEN * float(np.linalg.norm(self._exact.position - self._exact.target)))
        self.moved, self._first = np.zeros(3), self.box
        self.offsets = self._side_by_side()

    def _side_by_side(self) -> np.ndarray:
        """Return where the runs stand (runs, 3): side by side as the camera sees them, around the first place [m]."""
        right = Eye(self.way, np.zeros(3)).axes()[0]
        right = right * (1.0, 1.0, 0.0)
        right /= max(float(np.linalg.norm(right)), 1e-9)
        corners = np.abs(right) @ (self.box[1] - self.box[0])
        return (np.arange(self._runs) - 0.5 * (self._runs - 1))[:, None] * (_PITCH * float(corners) * right)

    def home(self, aspect: float | None = None) -> Eye:
        """Return the camera that shows everything in a window of that width / height."""
        if self._exact is not None:
            return self._exact._replace(
                position=self._exact.position + self.moved, target=self._exact.target + self.moved
            )
        around, box = self.offsets, self.box
        box = np.stack([box[0] + around.min(axis=0), box[1] + around.max(axis=0)]) + self.moved
        eye = framed(box, aspect or _ASPECT, self.way)
        return above_ground(self._drawing, eye, 0.25 * float((box[1] - box[0]).max()))

    def toward(self, name: str, aspect: float) -> Eye:
        """Return the camera of a preset: home, front, side or top."""
        eye = self.home(aspect)
        if name not in _WAYS:
            return eye
        way = np.array(_WAYS[name])
        distance = float(np.linalg.norm(eye.position - eye.target))
        return eye._replace(position=eye.target + distance * way / np.linalg.norm(way))

    def follow(self, middle: np.ndarray, cameras: list[Any]) -> None:
        """Move the cameras along where the middle of the model has gone too far from where it was framed."""
        if self.anchor is None:
            self.anchor = middle
        away = middle - self.anchor - self.moved
        far = float(np.linalg.norm(away))
        if not self.keep or far <= self._slack or not np.isfinite(far):
            return
        step = away * (1.0 - self._slack / far)
        ours = [self.is_ours(camera) for camera in cameras]
        self.moved = self.moved + step
        for camera, own in zip(cameras, ours, strict=True):
            if own:
                self._aim(camera)
            else:
                self._take_along(camera, self.anchor + self.moved, step)

    def _take_along(self, camera: Any, middle: np.ndarray, step: np.ndarray) -> None:
        """Move the camera of a user by a step of the middle it follows, with the direction and distance it has now.

        What pages report is late: the target follows from how far the user has it from the middle, not from the report.
        """
        look, off = np.array(camera.look_at), np.array(camera.position) - np.array(camera.look_at)
        lead, told = self._leads.setdefault(id(camera), (look - middle + step, deque([look], maxlen=40)))
        if min(float(np.linalg.norm(look - one)) for one in told) > 1e-3 * float(np.linalg.norm(off)):
            lead = look - middle + step  # a user has moved the target
        target = middle + lead
        told.append(target)
        self._leads[id(camera)] = lead, told
        camera.position, camera.look_at = target + off, target

    def is_ours(self, camera: Any) -> bool:
        """Return whether a camera looks as it was told, now or a moment ago: no user has turned it or come nearer."""
        return any(_near(camera, told) for told in self._told)

    def is_home(self, camera: Any) -> bool:
        """Return whether a camera looks at everything from where it would be told to."""
        eye = self.home(camera.aspect)
        return _near(camera, eye.position - eye.target)

    def tell(self, eye: Eye) -> None:
        """Remember where a camera was told to look from; its page may have had another shape then."""
        self._told.append(eye.position - eye.target)

    def _aim(self, camera: Any) -> None:
        eye = self.home(camera.aspect)
        self.tell(eye)
        camera.position, camera.look_at = eye.position, eye.target

    def step_back(self, low: np.ndarray, high: np.ndarray, cameras: list[Any]) -> None:
        """Show more where the model reaches beyond what was framed; cameras that a user has moved are left alone.

        Args:
            low: (3,) smallest corner of what moves now.
            high: (3,) largest corner.
            cameras: of the pages.
        """
        if not self.keep or self._exact is not None or not np.isfinite([low, high]).all():
            return
        box = np.stack([np.minimum(low - self.moved, self.box[0]), np.maximum(high - self.moved, self.box[1])])
        size, first = float((self.box[1] - self.box[0]).max()), float((self._first[1] - self._first[0]).max())
        if float(np.abs(box - self.box).max()) < 0.02 * size or size > _FARTHEST * first:
            return
        ours = [camera for camera in cameras if self.is_ours(camera)]
        self.box = self.box + _BACK * (box - self.box)
        for camera in ours:
            self._aim(camera)


def _near(camera: Any, told: np.ndarray) -> bool:
    off = np.array(camera.position) - np.array(camera.look_at)
    return float(np.linalg.norm(off - told)) < _MOVED * float(np.linalg.norm(told))
