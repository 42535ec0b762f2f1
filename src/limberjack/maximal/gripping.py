"""Grips in maximal coordinates: rows that give way, put among those of a model that are held."""

from __future__ import annotations

from dataclasses import replace

from limberjack.constraints.maximal import Maximal
from limberjack.constraints.table import SPRING, Pairs
from limberjack.holding import Grip
from limberjack.maximal.inserting import inserted
from limberjack.model.model import Model

__all__ = ["grip_rows", "with_grips"]


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
