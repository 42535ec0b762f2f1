"""Rows put among those of a model in maximal coordinates: grips, which give way, and room for contacts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from limberjack.constraints.maximal import Maximal
from limberjack.constraints.rows import SLIDE
from limberjack.constraints.table import SIDED, SPRING, Pairs, Row
from limberjack.holding import Grip
from limberjack.maximal.inserting import inserted, inserted_at
from limberjack.model.model import Model

__all__ = ["grip_rows", "with_grips", "with_slots"]


def grip_rows(base: Maximal, grips: list[Grip], grip: Grip) -> int:
    """Return the first row of a grip in `with_grips(model, base, grips)`."""
    row = int(base.system.row_start[base.held])
    for one in grips:
        if one is grip:
            return row
        row += 3 if one.rotation is None else 6
    raise ValueError("this grip is not held")


def with_grips(model: Model, base: Maximal, grips: list[Grip]) -> Maximal:
    """Return a model in maximal coordinates with rows for grips after its held constraints."""
    pairs, groups = Pairs(model), []
    for k, grip in enumerate(grips):
        own = grip.rows(pairs, model.joint_count + len(model.springs) + k)
        pairs.frame[-1][21:24] -= base.center[grip.link]
        groups.append([replace(row, role=SPRING) for row in own])
    return inserted(base, pairs, groups, ["grip"] * len(grips))


def with_slots(model: Model, base: Maximal, at: int, static: int, moving: int, rows: int) -> Maximal:
    """Return a model in maximal coordinates with room for contacts before its constraint `at`.

    Args:
        model: the model.
        base: the model in maximal coordinates.
        at: the constraint they stand before.
        static: contacts of one body, the first; their bodies are to be written.
        moving: contacts of two bodies.
        rows: of each contact: along z of its frame, then along x and y.
    """
    pairs, groups, links = Pairs(model), [], []
    eye = np.concatenate([np.eye(3).ravel(), np.zeros(3)])
    last = len(base.bodies.kind) - 1
    for k in range(static + moving):
        pair = pairs.add((-1 if k < static else 0, eye), (0 if k < static else last, eye))
        groups.append([Row(0, [(pair, (SLIDE, axis, 0, 1.0))], role=SIDED) for axis in (2, 0, 1)[:rows]])
        links.append([0] if k < static else [last, 0])
    return inserted_at(base, at, pairs, groups, ["contact"] * len(groups), links)
