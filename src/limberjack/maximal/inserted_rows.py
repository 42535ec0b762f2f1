"""Rows inserted among those of a model in maximal coordinates while it runs: grips, runtime joints, slots for contacts.

Grips are compliant rows, runtime joints and driven coordinates equality rows, all after the model's own equalities; a
runtime joint may close its initial gap within a given time. Contact slots are inequality rows whose frames and bodies
are written at each step (`contacts.py`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from limberjack.constraints.rows import SLIDE
from limberjack.constraints.runtime import Driven, RuntimeJoint, is_closing, row_targets
from limberjack.constraints.system import new_system
from limberjack.constraints.table import (
    INEQUALITY,
    SPRING,
    Pairs,
    Row,
    Table,
    coordinate_terms,
    joint_rows,
    new_table,
)
from limberjack.maximal.rows import Maximal
from limberjack.model.model import Model
from limberjack.reduced.constraint_set import Grip

__all__ = [
    "grip_rows",
    "inserted",
    "inserted_at",
    "inserted_terms",
    "set_targets",
    "with_driven_rows",
    "with_runtime_joints",
    "with_grips",
    "with_contact_slots",
]


def inserted_terms(base: Maximal, whole: Maximal) -> slice:
    """Return which terms of `whole` were inserted into those of `base`."""
    first = int(base.table.term_start[base.system.row_start[base.equality_count]])
    return slice(first, first + len(whole.table.weights) - len(base.table.weights))


def inserted(base: Maximal, pairs: Pairs, groups: list[list[Row]], names: list[str]) -> Maximal:
    """Return `base` with more equality constraints after its own.

    Args:
        base: a model in maximal coordinates.
        pairs: of the new rows, from the com of each body.
        groups: the rows of each constraint, one pair to a row.
        names: of the constraints.
    """
    links = [[i for i in dict.fromkeys(pairs.link[group[0].terms[0][0]]) if i >= 0] for group in groups]
    return replace(
        inserted_at(base, base.equality_count, pairs, groups, names, links),
        equality_count=base.equality_count + len(groups),
    )


def inserted_at(
    base: Maximal, index: int, pairs: Pairs, groups: list[list[Row]], names: list[str], links: list[list[int]]
) -> Maximal:
    """Return `base` with more constraints before its constraint `index`.

    Args:
        base: a model in maximal coordinates.
        index: the constraint they are inserted before.
        pairs: of the new rows, from the com of each body.
        groups: the rows of each constraint, one pair to a row.
        names: of the constraints.
        links: bodies of each constraint.
    """
    rows = [row for group in groups for row in group]
    table, more, at = base.table, new_table(rows, pairs), int(base.system.row_start[index])
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
    for name in ("target", "indices", "share", "role", "speed", "soft", "drive", "joint"):
        changed[name] = _into(getattr(table, name), at, getattr(more, name))
    if len(more.compound):
        first = np.array([shift, len(table.factor_kind), 0])
        changed["compound"] = np.concatenate([table.compound, more.compound + first])
        changed["factor_kind"] = np.concatenate([table.factor_kind, more.factor_kind])
        changed["factor_data"] = np.concatenate([table.factor_data, more.factor_data])
    old = base.system
    sizes = np.diff(old.row_start).tolist()
    incidences = [
        old.incidence_body[old.incidence_start[c] : old.incidence_start[c + 1]].tolist()
        for c in range(len(old.row_start) - 1)
    ]
    sizes[index:index], incidences[index:index] = [len(group) for group in groups], links
    system = new_system(np.diff(old.body_start), np.array(sizes, np.int64), incidences)
    row_block = _into(base.row_block, at, np.full((len(rows), 4), -1, np.int64))
    # blocks after the new ones move by the size of those
    first = int(old.block_start[old.incidence_start[index]])
    wide = int(system.block_start[system.incidence_start[index + len(groups)]]) - first
    row_block[at + len(rows) :][row_block[at + len(rows) :] >= first] += wide
    for k, group in enumerate(groups):
        c, (a, b) = index + k, pairs.link[group[0].terms[0][0]]
        for t in range(int(system.incidence_start[c]), int(system.incidence_start[c + 1])):
            body = int(system.incidence_body[t])
            dim = int(old.body_start[body + 1] - old.body_start[body])
            for i, r in enumerate(range(int(system.row_start[c]), int(system.row_start[c + 1]))):
                for end, link in enumerate((b, a)):
                    if link == body:
                        row_block[r, end] = int(system.block_start[t]) + i * dim
    every = (*base.names[:index], *names, *base.names[index:])
    table = Table(**{**table._asdict(), **changed})
    return replace(base, system=system, table=table, row_block=row_block, names=every)


def _into(array: np.ndarray, at: int, more: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(np.concatenate([array[:at], more, array[at:]]))


def grip_rows(base: Maximal, grips: list[Grip], grip: Grip) -> int:
    """Return the first row of a grip in `with_grips(model, base, grips)`."""
    row = int(base.system.row_start[base.equality_count])
    for one in grips:
        if one is grip:
            return row
        row += 3 if one.rotation is None else 6
    raise ValueError("this grip is not held")


def with_grips(model: Model, base: Maximal, grips: list[Grip]) -> Maximal:
    """Return a model in maximal coordinates with compliant rows for grips after its equality constraints."""
    pairs, groups = Pairs(model), []
    for k, grip in enumerate(grips):
        own = grip.rows(pairs, model.joint_count + len(model.springs) + k)
        pairs.frame[-1][21:24] -= base.center[grip.link]
        groups.append([replace(row, role=SPRING) for row in own])
    return inserted(base, pairs, groups, ["grip"] * len(grips))


def with_contact_slots(model: Model, base: Maximal, at: int, static: int, moving: int, rows: int) -> Maximal:
    """Return a model in maximal coordinates with slots for contacts before its constraint `at`.

    Args:
        model: the model.
        base: the model in maximal coordinates.
        at: the constraint they are inserted before.
        static: contacts of one body, the first; their bodies are written later.
        moving: contacts of two bodies.
        rows: of each contact: along z of its frame, then along x and y.
    """
    pairs, groups, links = Pairs(model), [], []
    eye = np.concatenate([np.eye(3).ravel(), np.zeros(3)])
    last = len(base.bodies.kind) - 1
    for k in range(static + moving):
        pair = pairs.add((-1 if k < static else 0, eye), (0 if k < static else last, eye))
        groups.append([Row(0, [(pair, (SLIDE, axis, 0, 1.0))], role=INEQUALITY) for axis in (2, 0, 1)[:rows]])
        links.append([0] if k < static else [last, 0])
    return inserted_at(base, at, pairs, groups, ["contact"] * len(groups), links)


def with_runtime_joints(model: Model, base: Maximal, joints: list[RuntimeJoint]) -> Maximal:
    """Return a model in maximal coordinates with rows for joints made while running after its own."""
    pairs, groups = Pairs(model), []
    for k, one in enumerate(joints):
        pair = pairs.joint(one.joint)
        for end, link in enumerate(pairs.link[pair]):
            if link >= 0:
                pairs.frame[pair][12 * end + 9 : 12 * end + 12] -= base.center[link]
        index = model.joint_count + len(model.springs) + k
        rows = joint_rows(one.joint)
        groups.append([Row(index, [(pair, t) for t in terms], target=(value, 0.0)) for terms, value in rows])
    return inserted(base, pairs, groups, [one.joint.name for one in joints])


def with_driven_rows(model: Model, base: Maximal, driven: list[Driven]) -> Maximal:
    """Return a model in maximal coordinates with an equality row for each driven coordinate after its own."""
    pairs, groups, names = Pairs(model), [], []
    for one in driven:
        joint = model.joint_spec(model.joint_names[one.joint])
        pair = pairs.joint(joint)
        for end, link in enumerate(pairs.link[pair]):
            if link >= 0:
                pairs.frame[pair][12 * end + 9 : 12 * end + 12] -= base.center[link]
        groups.append([Row(one.joint, [(pair, coordinate_terms(joint)[one.axis])], target=(one.start, one.rate))])
        names.append(joint.name)
    return inserted(base, pairs, groups, names)


def set_targets(base: Maximal, whole: Maximal, joints: list[RuntimeJoint], time: float, dt: float) -> float:
    """Set the targets of gaps that are being closed; return the time at which the next one is closed, or inf."""
    at, first_end = base.equality_count, np.inf
    for k, one in enumerate(joints):
        closing = is_closing(one, time, dt)
        if closing:
            first_end = min(first_end, one.since + one.over)
        first, last = (int(whole.system.row_start[at + k + end]) for end in (0, 1))
        whole.table.target[first:last] = row_targets(one, closing)
    return first_end
