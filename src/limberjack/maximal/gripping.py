"""Rows put among those of a model in maximal coordinates: grips, which give way, and room for contacts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from limberjack.constraints.maximal import Maximal
from limberjack.constraints.rows import SLIDE
from limberjack.constraints.system import new_system
from limberjack.constraints.table import SIDED, SPRING, Pairs, Row, Table, new_table
from limberjack.holding import Grip
from limberjack.model.model import Model

__all__ = ["grip_rows", "grip_terms", "with_grips", "with_slots"]


def grip_rows(base: Maximal, grips: list[Grip], grip: Grip) -> int:
    """Return the first row of a grip in `with_grips(model, base, grips)`."""
    row = int(base.system.row_start[base.held])
    for one in grips:
        if one is grip:
            return row
        row += 3 if one.rotation is None else 6
    raise ValueError("this grip is not held")


def grip_terms(base: Maximal, whole: Maximal) -> slice:
    """Return which terms of `whole` are those of grips."""
    first = int(base.table.term_start[base.system.row_start[base.held]])
    return slice(first, first + len(whole.table.weights) - len(base.table.weights))


def with_grips(model: Model, base: Maximal, grips: list[Grip]) -> Maximal:
    """Return a model in maximal coordinates with rows for grips after its held constraints."""
    pairs, groups = Pairs(model), []
    for k, grip in enumerate(grips):
        own = grip.rows(pairs, model.joint_count + len(model.springs) + k)
        pairs.frame[-1][21:24] -= base.center[grip.link]
        groups.append([replace(row, role=SPRING) for row in own])
    whole = _with_rows(base, base.held, groups, pairs, [[grip.link] for grip in grips], "grip")
    return replace(whole, held=base.held + len(grips))


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
    pairs, groups, touches = Pairs(model), [], []
    eye = np.concatenate([np.eye(3).ravel(), np.zeros(3)])
    last = len(base.bodies.kind) - 1
    for k in range(static + moving):
        pair = pairs.add((-1 if k < static else 0, eye), (0 if k < static else last, eye))
        groups.append([Row(0, [(pair, (SLIDE, axis, 0, 1.0))], role=SIDED) for axis in (2, 0, 1)[:rows]])
        touches.append([0] if k < static else [last, 0])
    return _with_rows(base, at, groups, pairs, touches, "contact")


def _with_rows(
    base: Maximal, place: int, groups: list[list[Row]], pairs: Pairs, on: list[list[int]], name: str
) -> Maximal:
    """Return `base` with constraints of the rows in `groups` before its constraint `place`.

    Args:
        base: the model in maximal coordinates.
        place: where they are put.
        groups: rows of each constraint, of one pair each.
        pairs: those pairs.
        on: bodies each constraint touches: that of the pair's frame B, and that of A unless it is the world's.
        name: of what they are.
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
    for field in ("target", "place", "share", "role", "speed", "soft", "drive", "joint"):
        changed[field] = _into(getattr(table, field), at, getattr(more, field))
    whole = Table(**{**table._asdict(), **changed})
    old, count = base.system, len(groups)
    sizes = np.diff(old.row_start).tolist()
    touches = [
        old.touch_body[old.touch_start[c] : old.touch_start[c + 1]].tolist() for c in range(len(old.row_start) - 1)
    ]
    sizes[place:place], touches[place:place] = [len(group) for group in groups], on
    system = new_system(np.diff(old.body_start), np.array(sizes, np.int64), touches)
    touch = _into(base.touch, at, np.full((len(rows), 4), -1, np.int64))
    # blocks behind the new ones stand later now, by as much as those take
    first = int(old.block_start[old.touch_start[place]])
    wide = int(system.block_start[system.touch_start[place + count]]) - first
    touch[at + len(rows) :][touch[at + len(rows) :] >= first] += wide
    for c in range(place, place + count):
        for end, t in enumerate(range(int(system.touch_start[c]), int(system.touch_start[c + 1]))):
            dim = int(old.body_start[system.touch_body[t] + 1] - old.body_start[system.touch_body[t]])
            for i, r in enumerate(range(int(system.row_start[c]), int(system.row_start[c + 1]))):
                touch[r, end] = int(system.block_start[t]) + i * dim
    names = (*base.names[:place], *(name for _ in groups), *base.names[place:])
    return replace(base, system=system, table=whole, touch=touch, names=names)


def _into(array: np.ndarray, at: int, more: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(np.concatenate([array[:at], more, array[at:]]))
