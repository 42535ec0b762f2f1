"""Trees in groups, one per thread."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from limberjack.model.arrays import Springs, blocks_of, span_of
from limberjack.model.model import Model
from limberjack.reduced.forces import SpringWork, new_spring_work
from limberjack.reduced.momentum import MomentumTargets, new_momentum_targets
from limberjack.reduced.work import Work, new_work

__all__ = ["Group", "cuts", "new_group"]


class Group(NamedTuple):
    """Trees that one thread steps."""

    blocks: np.ndarray  # (k, SPAN) spans that nothing ties together
    span: np.ndarray  # (SPAN,) scratch: the block in work
    springs: Springs
    work: Work  # rows of its own, the rest shared
    pull: SpringWork
    aims: MomentumTargets


def cuts(model: Model, threads: int) -> list[tuple[int, int]]:
    """Return ranges of links, whole trees of about equal work, that no spring crosses."""
    links = model.arrays.links
    n = len(links.parent)
    ends = np.append(np.flatnonzero(links.parent < 0)[1:], n)
    wanted = (
        [int(ends[min(np.searchsorted(ends, n * (k + 1) / threads), len(ends) - 1)]) for k in range(threads)]
        if n
        else [0]
    )
    tied = model.arrays.springs.link
    tied = tied[(tied >= 0).all(axis=1)]
    borders = [0]
    for end in sorted(set(wanted)):
        crossed = len(tied) and ((tied.min(axis=1) < end) & (tied.max(axis=1) >= end)).any()
        if end == n or (end > borders[-1] and not crossed):
            borders.append(end)
    return list(zip(borders[:-1], borders[1:], strict=True))


def new_group(model: Model, first: int, last: int, momentum: bool, shared: Work) -> Group:
    """Return the group of the links first .. last - 1; with `momentum`, with momenta to maintain."""
    a = model.arrays
    inside = ((a.springs.link >= first) & (a.springs.link < last)).any(axis=1)
    springs = Springs(*(np.ascontiguousarray(field[inside]) for field in a.springs))
    whole = span_of(a.links, a.drives, first, last)
    # Springs may tie any trees of the group together: then it is one block.
    blocks = whole[None].copy() if len(springs.link) else blocks_of(a.links, a.drives, first, last)
    aims = new_momentum_targets(a.links, whole, momentum)
    work = shared._replace(rows=new_work(a.links, blocks).rows)
    return Group(blocks, blocks[0].copy(), springs, work, new_spring_work(a.links, springs), aims)
