"""Targets of motors for a whole model at once."""

from __future__ import annotations

import numpy as np

from limberjack.model.arrays import Drives

__all__ = ["aim_drives"]

_KP, _KD, _TARGET, _VELOCITY = 7, 8, 9, 10
_BALL_KP, _BALL_KD, _BALL_TARGET = 11, 12, 13


def aim_drives(drives: Drives, q: np.ndarray, qd: np.ndarray) -> None:
    """Write the targets of all motors; see `Simulation.set_targets`."""
    scalar, ball = drives.scalar, drives.ball
    if len(scalar):
        driven = (scalar[:, _KP] > 0.0) | (scalar[:, _KD] > 0.0)
        scalar[driven, _TARGET] = q[drives.indices[driven, 0]]
        scalar[driven, _VELOCITY] = qd[drives.indices[driven, 1]]
    if len(ball):
        kp = ball[:, _BALL_KP]
        lead = ball[:, _BALL_KD] / np.where(kp > 0.0, kp, np.inf)
        columns = drives.ball_indices[:, :1] + _FOUR
        turn = qd[drives.ball_indices[:, 1:] + _THREE] * lead[:, None]
        ball[:, _BALL_TARGET : _BALL_TARGET + 4] = _ahead(q[columns], turn)


_FOUR, _THREE = np.arange(4), np.arange(3)


def _ahead(q: np.ndarray, turn: np.ndarray) -> np.ndarray:
    """Return the unit quaternions of q (n, 4) followed by the rotation vectors `turn` (n, 3) in their own axes."""
    angle = np.sqrt(np.einsum("ni,ni->n", turn, turn))
    safe = np.maximum(angle, 1e-12)
    x, y, z = np.sin(0.5 * safe) / safe * turn.T
    c = np.cos(0.5 * angle)
    a, b, d, e = (q / np.linalg.norm(q, axis=1, keepdims=True)).T
    out = np.empty((len(q), 4))
    out[:, 0] = a * c - b * x - d * y - e * z
    out[:, 1] = a * x + b * c + d * z - e * y
    out[:, 2] = a * y - b * z + d * c + e * x
    out[:, 3] = a * z + b * y - d * x + e * c
    return out
