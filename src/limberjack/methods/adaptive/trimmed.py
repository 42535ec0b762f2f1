"""The hybrid body cut to what is in use, in the blocks of the rows that tie figures: what steps with rows work on."""

from __future__ import annotations

import numpy as np

from limberjack.methods.adaptive.condensed import Condensed
from limberjack.model.arrays import (
    BALL_DRIVE,
    COORDINATE,
    DOF,
    LINK,
    QUATERNION,
    RUN,
    SCALAR_DRIVE,
    SPAN,
    Drives,
    Links,
)

__all__ = ["trimmed"]


def trimmed(body: Condensed, blocks: np.ndarray) -> tuple[Links, Drives, np.ndarray]:
    """Return links and drives of the hybrid body, of their own length, and the spans of its blocks.

    Args:
        body: the hybrid body.
        blocks: (k, SPAN) spans of whole trees of the model; the hybrid body's trees are in the same order.
    """
    whole, links, drives = body.whole, body.links, body.drives
    n, nv, nq = int(whole[LINK + 1]), int(whole[DOF + 1]), int(whole[COORDINATE + 1])
    spins, factors = int(whole[QUATERNION + 1]), int(links.factor_start[n])
    scalars, balls = int(whole[SCALAR_DRIVE + 1]), int(whole[BALL_DRIVE + 1])
    ends = np.searchsorted(body.link[:n], blocks[:, LINK : LINK + 2])
    v, q = (np.append(start[:n], last)[ends] for start, last in ((links.v_start, nv), (links.q_start, nq)))
    per_link = ("parent", "kind", "q_start", "v_start", "dof", "role", "placement", "inertia")
    per_factor = ("factor_kind", "factor_place", "factor_data")
    out = links._replace(
        **{name: getattr(links, name)[:n] for name in per_link},
        **{name: getattr(links, name)[:factors] for name in per_factor},
        factor_start=links.factor_start[: n + 1],
        armature=links.armature[:nv],
        runs=_cut(links.runs[: int(whole[RUN + 1])], v[:, 0]),
        quaternions=links.quaternions[:spins],
    )
    own = Drives(drives.place[:scalars], drives.scalar[:scalars], drives.ball_place[:balls], drives.ball[:balls])
    spans = np.zeros((len(blocks), SPAN), np.int64)
    for column, places in ((LINK, ends), (DOF, v), (COORDINATE, q)):
        spans[:, column : column + 2] = places
    for column, firsts in (
        (QUATERNION, out.quaternions[:, 1]),
        (SCALAR_DRIVE, own.place[:, 1]),
        (BALL_DRIVE, own.ball_place[:, 1]),
        (RUN, out.runs[:, 0]),
    ):
        spans[:, column : column + 2] = np.searchsorted(firsts, v)
    return out, own, spans


def _cut(runs: np.ndarray, borders: np.ndarray) -> np.ndarray:
    """Return runs of scalar freedoms, cut where blocks begin."""
    if not len(runs):
        return runs.copy()
    at = np.searchsorted(runs[:, 0], borders, side="right") - 1
    inside = (at >= 0) & (borders < runs[at, 0] + runs[at, 2])
    first = np.union1d(runs[:, 0], borders[inside])
    at = np.searchsorted(runs[:, 0], first, side="right") - 1
    last = np.minimum(np.append(first[1:], np.iinfo(np.int64).max), runs[at, 0] + runs[at, 2])
    return np.stack([first, runs[at, 1] + first - runs[at, 0], last - first], axis=1)
