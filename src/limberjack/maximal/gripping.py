"""Grips in maximal coordinates: rows that give way, put among those of a model that are held."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from limberjack.constraints.maximal import Maximal
from limberjack.constraints.system import new_system
from limberjack.constraints.table import SPRING, Pairs, Table, new_table
from limberjack.holding import Grip
from limberjack.model.model import Model

__all__ = ["grip_rows", "grip_terms", "with_grips"]


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
    pairs, rows, counts = Pairs(model), [], []
    for k, grip in enumerate(grips):
        own = grip.rows(pairs, model.joint_count + len(model.springs) + k)
        pairs.frame[-1][21:24] -= base.center[grip.link]
        rows += [replace(row, role=SPRING) for row in own]
        counts.append(len(own))
    table, more, at = base.table, new_table(rows, pairs), int(base.system.row_start[base.held])
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
    whole = Table(**{**table._asdict(), **changed})
    old, held = base.system, base.held
    sizes = np.diff(old.row_start).tolist()
    touches = [
        old.touch_body[old.touch_start[c] : old.touch_start[c + 1]].tolist() for c in range(len(old.row_start) - 1)
    ]
    sizes[held:held], touches[held:held] = counts, [[grip.link] for grip in grips]
    system = new_system(np.diff(old.body_start), np.array(sizes, np.int64), touches)
    touch = _into(base.touch, at, np.full((len(rows), 4), -1, np.int64))
    # blocks behind the grips' stand later now, by as much as those take
    first = int(old.block_start[old.touch_start[held]])
    wide = int(system.block_start[system.touch_start[held + len(grips)]]) - first
    touch[at + len(rows) :][touch[at + len(rows) :] >= first] += wide
    for k, grip in enumerate(grips):
        c = held + k
        dim = int(old.body_start[grip.link + 1] - old.body_start[grip.link])
        for i, r in enumerate(range(int(system.row_start[c]), int(system.row_start[c + 1]))):
            touch[r, 0] = int(system.block_start[system.touch_start[c]]) + i * dim
    names = (*base.names[:held], *("grip" for _ in grips), *base.names[held:])
    return replace(base, system=system, table=whole, touch=touch, held=held + len(grips), names=names)


def _into(array: np.ndarray, at: int, more: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(np.concatenate([array[:at], more, array[at:]]))
