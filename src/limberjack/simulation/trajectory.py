"""`Trajectory`: the states of one model over time, as a run records them."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from limberjack import _registry
from limberjack.errors import FileError, StateError
from limberjack.model.model import Model

__all__ = ["BodyTrack", "JointTrack", "Trajectory", "between", "rates"]


@dataclass(frozen=True)
class JointTrack:
    """One joint over time: coordinates q (n, its nq) and velocities qd (n, its nv), read-only."""

    name: str
    times: np.ndarray
    q: np.ndarray
    qd: np.ndarray


@dataclass(frozen=True)
class BodyTrack:
    """One body over time: positions (n, 3) and rotations (n, 4) of its frame in the world, read-only."""

    name: str
    times: np.ndarray
    positions: np.ndarray
    rotations: np.ndarray


class Trajectory:
    """The recorded states of one model; all arrays are float64 and read-only.

    Args:
        model: the model that moved.
        times: (n,) [s], not decreasing.
        q: (n, nq) coordinates.
        qd: (n, nv) velocities.
    """

    def __init__(self, model: Model, times: Any, q: Any, qd: Any) -> None:
        self.model = model
        self.times = _frozen(times, "times", 1)
        self.q = _frozen(q, "q", 2)
        self.qd = _frozen(qd, "qd", 2)
        count = len(self.times)
        for name, array, width in (("q", self.q, model.nq), ("qd", self.qd, model.nv)):
            if array.shape != (count, width):
                raise StateError(
                    f'{name} of a trajectory of model "{model.name}" must have shape {(count, width)}, '
                    f"got {array.shape}"
                )
        if count and (np.diff(self.times) < 0).any():
            k = int(np.argmax(np.diff(self.times) < 0))
            raise StateError(f"times must not decrease: {self.times[k]!r} then {self.times[k + 1]!r}")

    def __len__(self) -> int:
        return len(self.times)

    def __repr__(self) -> str:
        span = f", {self.times[0]:g} to {self.times[-1]:g} s" if len(self) else ""
        return f'Trajectory("{self.model.name}": {len(self)} frames{span})'

    @property
    def positions(self) -> np.ndarray:
        """Positions (n, bodies, 3) of the body frames in the world, worked out on first use."""
        return self._poses[0]

    @property
    def rotations(self) -> np.ndarray:
        """Rotations (n, bodies, 4) of the body frames, quaternions (w, x, y, z), worked out on first use."""
        return self._poses[1]

    @cached_property
    def _poses(self) -> tuple[np.ndarray, np.ndarray]:
        from limberjack.reduced.dynamics import forward_kinematics

        bodies = self.model.body_count
        positions, rotations = np.empty((len(self), bodies, 3)), np.empty((len(self), bodies, 4))
        for i, q in enumerate(self.q):
            positions[i], rotations[i] = forward_kinematics(self.model, q)
        positions.setflags(write=False)
        rotations.setflags(write=False)
        return positions, rotations

    def at(self, time: float) -> tuple[np.ndarray, np.ndarray]:
        """Return (q, qd) at a time, between frames rotated and moved evenly; before and after them, at rest.

        Args:
            time: [s].
        """
        if not len(self):
            raise StateError("a trajectory without frames has no state")
        k = min(max(int(np.searchsorted(self.times, time, side="right")) - 1, 0), max(len(self) - 2, 0))
        last = min(k + 1, len(self) - 1)
        gap = float(self.times[last] - self.times[k])
        u = 0.0 if gap <= 0.0 else min(max((float(time) - float(self.times[k])) / gap, 0.0), 1.0)
        q = between(self.model.arrays.links.quaternions, self.q[k : k + 1], self.q[last : last + 1], np.array([u]))[0]
        inside = len(self) > 1 and self.times[0] <= time <= self.times[-1]
        return q, ((1.0 - u) * self.qd[k] + u * self.qd[last]) * inside

    def body(self, name: str) -> BodyTrack:
        """Return the path of the body called `name`.

        Args:
            name: of the body.
        """
        i = self.model.body_index(name)
        return BodyTrack(name, self.times, self.positions[:, i], self.rotations[:, i])

    def joint(self, name: str) -> JointTrack:
        """Return the motion of the joint, or compound axis, called `name`; a loop joint has no columns.

        Args:
            name: of the joint or axis.
        """
        joint = self.model.joint(name)
        return JointTrack(name, self.times, self.q[:, joint.q], self.qd[:, joint.v])

    def save(self, path: str | Path, **options: Any) -> Path:
        """Write the trajectory by the suffix of `path` and return the path.

        Args:
            path: .npz and .parquet (all of it, with the model), .csv, .html (a page that plays it), .bvh, .glb, .usd,
                .usda, .usdc, .mp4, .gif, .png, or any suffix a writer is registered for.
            options: what that writer takes.
        """
        path = Path(path)
        _registry.lookup("trajectory writer", path)(self, path, **options)
        return path

    @classmethod
    def load(cls, path: str | Path, model: Model | None = None) -> Trajectory:
        """Return the trajectory in a file: .npz, .parquet, .csv, .bvh or a recording (.ljr).

        Args:
            path: the file.
            model: the model that moved, for files that do not hold it: .csv, and .parquet from other programs.
        """
        path = Path(path)
        reader = _registry.lookup("trajectory reader", path)
        if model is None:
            return reader(path)
        if "model" not in inspect.signature(reader).parameters:
            raise FileError(path, f"a {path.suffix} file brings its own model: leave out model")
        return reader(path, model)


def between(quaternions: np.ndarray, first: np.ndarray, last: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Return coordinates (n, nq) on the way from `first` (u = 0) to `last` (u = 1); quaternions take the shorter arc.

    Args:
        quaternions: (k, 2) `Links.quaternions`.
        first, last: (n, nq).
        u: (n,) in 0..1.
    """
    u = u[:, None]
    out = (1.0 - u) * first + u * last
    columns = quaternions[:, :1] + np.arange(4)
    a, b = first[:, columns], last[:, columns]
    cosine = np.einsum("nki,nki->nk", a, b)[..., None]
    b = np.where(cosine < 0.0, -b, b)
    angle = np.arccos(np.clip(np.abs(cosine), 0.0, 1.0))
    near = angle < 1e-6
    sine = np.where(near, 1.0, np.sin(angle))
    w = u[:, :, None]
    turned = np.where(near, 1.0 - w, np.sin((1.0 - w) * angle) / sine) * a
    turned += np.where(near, w, np.sin(w * angle) / sine) * b
    out[:, columns] = turned / np.linalg.norm(turned, axis=-1, keepdims=True)
    return out


def rates(model: Model, times: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Return velocities (n, nv) of coordinates (n, nq) by central differences, one-sided at the ends."""
    n, quaternions = len(times), model.arrays.links.quaternions
    out = np.zeros((n, model.nv))
    if n < 2:
        return out
    k = np.arange(n)
    low, high = np.maximum(k - 1, 0), np.minimum(k + 1, n - 1)
    gap = (times[high] - times[low])[:, None]
    for at, v, length in model.arrays.links.runs:
        out[:, at : at + length] = (q[high, v : v + length] - q[low, v : v + length]) / gap
    for iq, v in quaternions:
        out[:, v : v + 3] = _turn(q[low, iq : iq + 4], q[high, iq : iq + 4]) / gap
    return out


def _turn(first: np.ndarray, last: np.ndarray) -> np.ndarray:
    """Return the rotation vectors (n, 3) from `first` to `last` (n, 4), in the axes of either."""
    w = np.einsum("ni,ni->n", first, last)
    v = first[:, :1] * last[:, 1:] - last[:, :1] * first[:, 1:] - np.cross(first[:, 1:], last[:, 1:])
    v, w = np.where(w[:, None] < 0.0, -v, v), np.abs(w)
    size = np.linalg.norm(v, axis=1)
    return v * np.where(size < 1e-12, 2.0, 2.0 * np.arctan2(size, w) / np.where(size < 1e-12, 1.0, size))[:, None]


def _frozen(value: Any, name: str, dimensions: int) -> np.ndarray:
    try:
        array = np.array(value, np.float64)
    except (TypeError, ValueError):
        raise StateError(f"{name} of a trajectory must be numbers") from None
    if array.ndim != dimensions:
        raise StateError(f"{name} of a trajectory must have {dimensions} dimensions, got {array.ndim}")
    if not np.isfinite(array).all():
        frame = int(np.argwhere(~np.isfinite(array))[0][0])
        raise StateError(f"{name} of a trajectory must be finite, frame {frame} is not")
    array.setflags(write=False)
    return array
