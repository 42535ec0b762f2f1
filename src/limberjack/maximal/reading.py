"""Where coordinates of joints are read off rows: terms and places of angles, screws and compound joints."""

from __future__ import annotations

import numpy as np

from limberjack.constraints.maximal import Maximal
from limberjack.constraints.rows import ANGLE, COMPOUND
from limberjack.constraints.table import DRIVE, HELD
from limberjack.model.model import Model

__all__ = ["compounds_of", "screws_of", "turns_of"]


def compounds_of(whole: Maximal) -> list[tuple[int, int, int]]:
    """Return (pair, place in q, axes) of the compound joints."""
    table, place = whole.table, {}
    for r in range(len(table.joint)):
        term = table.terms[table.term_start[r]]
        if table.role[r] == DRIVE and term[0] == COMPOUND and term[2] == 0:
            place[int(term[1])] = int(table.drive[r, 0])
    return [(int(pair), place[int(pair)], int(count)) for pair, _, count in table.compound if int(pair) in place]


def screws_of(model: Model, whole: Maximal) -> list[tuple[int, list[int], float]]:
    """Return (row, terms that read its angle, travel per turn) of each screw that closes a loop."""
    out, table = [], whole.table
    for r in range(len(table.joint)):
        name = model.joint_names[table.joint[r]] if table.joint[r] < model.joint_count else ""
        terms = table.terms[table.term_start[r] : table.term_start[r + 1]]
        if name in model.loop_names and model.joint_spec(name).kind == "screw" and len(terms) == 2:
            pair, pitch = terms[1, 1], model.joint_spec(name).pitch
            own = np.flatnonzero((table.terms[:, 0] == ANGLE) & (table.terms[:, 1] == pair))
            if table.role[r] == HELD and pitch != 0.0 and terms[1, 0] == ANGLE:
                out.append((r, own.tolist(), 2.0 * np.pi * pitch))
    return out


def turns_of(model: Model, whole: Maximal) -> list[tuple[int, int]]:
    """Return (term, place in q) of the terms that read an angle of a tree joint."""
    place: dict[tuple[bytes, bytes, int], int] = {}
    table = whole.table

    def key(t: int) -> tuple[bytes, bytes, int]:
        # gears have pairs of their own with the frames of the joints they couple
        pair = int(table.terms[t, 1])
        return table.pair_link[pair].tobytes(), table.pair_frame[pair].tobytes(), int(table.terms[t, 2])

    for r in range(len(table.joint)):
        if table.role[r] == DRIVE and table.speed[r] == 0:
            place[key(int(table.term_start[r]))] = int(table.drive[r, 0])
    out = []
    for t in range(len(table.weights)):
        if table.terms[t, 0] == ANGLE and place.get(key(t), model.nq) < model.nq:
            out.append((t, place[key(t)]))
    return out
