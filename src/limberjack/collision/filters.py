"""Pairs of bodies that do not collide while joints made at run time connect them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from limberjack.collision.shapes import Filters, Shapes
from limberjack.model.model import Model

__all__ = ["with_apart"]


def with_apart(model: Model, base: Filters, shapes: Shapes, bodies: Iterable[tuple[str, str]]) -> Filters:
    """Return filters by which some pairs of bodies do not collide either.

    Args:
        model: the model.
        base: the filters without them.
        shapes: of the model.
        bodies: names of the pairs.
    """
    part = {int(body): int(own) for body, own in zip(shapes.body, shapes.part, strict=True)}
    pairs: set[tuple[int, int]] = set()
    for names in bodies:
        ends = [model.body_index(name) for name in names]
        if set(ends) <= set(part):
            a, b = part[ends[0]], part[ends[1]]
            pairs |= {(a, b), (b, a)}
    if not pairs:
        return base
    count = len(base.joined_start) - 1
    owner = np.repeat(np.arange(count), np.diff(base.joined_start))
    table = np.array(sorted(pairs | set(zip(owner.tolist(), base.joined.tolist(), strict=True))), np.int64)
    begin = np.searchsorted(table[:, 0], np.arange(count + 1)).astype(np.int64)
    return base._replace(joined_start=begin, joined=np.ascontiguousarray(table[:, 1]))
