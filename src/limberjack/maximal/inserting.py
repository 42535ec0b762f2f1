"""Rows put among those of a model in maximal coordinates: what comes and goes while it runs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from limberjack.constraints.maximal import Maximal
from limberjack.constraints.system import new_system
from limberjack.constraints.table import Pairs, Row, Table, new_table

__all__ = ["inserted", "inserted_at", "inserted_terms"]


def inserted_terms(base: Maximal, whole: Maximal) -> slice:
    """Return which terms of `whole` are those put among the ones of `base`."""
    first = int(base.table.term_start[base.system.row_start[base.held]])
    return slice(first, first + len(whole.table.weights) - len(base.table.weights))


def inserted(base: Maximal, pairs: Pairs, groups: list[list[Row]], names: list[str]) -> Maximal:
    """Return `base` with more constraints after those it holds, which it holds too.

    Args:
        base: a model in maximal coordinates.
        pairs: of the new rows, from the com of each body.
        groups: the rows of each constraint, one pair to a row.
        names: of the constraints.
    """
    links = [[i for i in dict.fromkeys(pairs.link[group[0].terms[0][0]]) if i >= 0] for group in groups]
    return replace(inserted_at(base, base.held, pairs, groups, names, links), held=base.held + len(groups))


def inserted_at(
    base: Maximal, place: int, pairs: Pairs, groups: list[list[Row]], names: list[str], links: list[list[int]]
) -> Maximal:
    """Return `base` with more constraints before its constraint `place`.

    Args:
        base: a model in maximal coordinates.
        place: where they are put.
        pairs: of the new rows, from the com of each body.
        groups: the rows of each constraint, one pair to a row.
        names: of the constraints.
        links: bodies that each constraint touches.
    """
    rows = [row for group in groups for row in group]
    table, more, at = base.table, new_table(rows, pairs), int(base.system.row_start[place])
    shift, here, added = len(table.pair_link), int(table.term_start[at]), len(more.weights)
    terms, own_pair = more.terms.copy(), more.row_pair.copy()
    terms[:, 1] += shift
    own_pair[own_pair >= 0] += shift
    start = np.concatenate([
        table.term_start[: at + 1], here + more.term_start[1:], table.term_start[at + 1 :] + added
    ])  # fmt: skip
    changed = {
        "pair_link": np.concatenate([table.pair_link, more.pair_link]),
        "pair_frame": np.concatenate([table.pair_frame, more.pair_frame]),
        "term_start": start,
        "terms": _into(table.terms, here, terms),
        "weights": _into(table.weights, here, more.weights),
        "row_pair": _into(table.row_pair, at, own_pair),
    }
    for name in ("target", "place", "share", "role", "speed", "soft", "drive", "joint"):
        changed[name] = _into(getattr(table, name), at, getattr(more, name))
    old = base.system
    sizes = np.diff(old.row_start).tolist()
    touches = [
        old.touch_body[old.touch_start[c] : old.touch_start[c + 1]].tolist() for c in range(len(old.row_start) - 1)
    ]
    sizes[place:place], touches[place:place] = [len(group) for group in groups], links
    system = new_system(np.diff(old.body_start), np.array(sizes, np.int64), touches)
    touch = _into(base.touch, at, np.full((len(rows), 4), -1, np.int64))
    # blocks behind the new ones stand later now, by as much as those take
    first = int(old.block_start[old.touch_start[place]])
    wide = int(system.block_start[system.touch_start[place + len(groups)]]) - first
    touch[at + len(rows) :][touch[at + len(rows) :] >= first] += wide
    for k, group in enumerate(groups):
        c, (a, b) = place + k, pairs.link[group[0].terms[0][0]]
        for t in range(int(system.touch_start[c]), int(system.touch_start[c + 1])):
            body = int(system.touch_body[t])
            dim = int(old.body_start[body + 1] - old.body_start[body])
            for i, r in enumerate(range(int(system.row_start[c]), int(system.row_start[c + 1]))):
                for end, link in enumerate((b, a)):
                    if link == body:
                        touch[r, end] = int(system.block_start[t]) + i * dim
    every = (*base.names[:place], *names, *base.names[place:])
    table = Table(**{**table._asdict(), **changed})
    return replace(base, system=system, table=table, touch=touch, names=every)


def _into(array: np.ndarray, at: int, more: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(np.concatenate([array[:at], more, array[at:]]))
