"""Where coordinates of joints are read off rows: terms and places of angles, screws and compound joints."""

from __future__ import annotations

import numpy as np

from limberjack.constraints.maximal import Maximal
from limberjack.constraints.rows import ANGLE, COMPOUND
from limberjack.constraints.table import DRIVE, HELD
from limberjack.model.model import Model

__all__ = ["compounds_of", "frees_of", "read_frees", "screws_of", "turns_of"]


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


def frees_of(free: list[tuple[int, int, int, str]]) -> tuple[np.ndarray, np.ndarray]:
    """Return the (link, place in q, place in qd) of free joints and of those that only move, as rows of two tables."""
    turning = [row[:3] for row in free if row[3] == "free"]
    moving = [row[:3] for row in free if row[3] != "free"]
    return np.array(turning, np.int64).reshape(-1, 3), np.array(moving, np.int64).reshape(-1, 3)


def read_frees(
    turning: np.ndarray, moving: np.ndarray, ends: np.ndarray, pose: np.ndarray, center: np.ndarray, q: np.ndarray,
    qd: np.ndarray,
) -> None:  # fmt: skip
    """Fill the coordinates and velocities of bodies on free joints.

    Args:
        turning, moving: of `frees_of`.
        ends: (n, 18 or more) rotation, position, angular and linear velocity of the centres of links.
        pose: (n, 7 or more) of the same, with quaternions.
        center: (n, 3) centres in the frames of links.
        q, qd: to be filled.
    """
    three = np.arange(3)
    for rows, turns in ((turning, True), (moving, False)):
        if not len(rows):
            continue
        link, at, to = rows.T
        e, c = ends[link], center[link]
        # sums written out: the same bits whatever library multiplies matrices
        lever = e[:, [0, 3, 6]] * c[:, :1] + e[:, [1, 4, 7]] * c[:, 1:2] + e[:, [2, 5, 8]] * c[:, 2:]
        spin = e[:, 12:15]
        q[at[:, None] + three] = e[:, 9:12] - lever
        qd[to[:, None] + three] = e[:, 15:18] - np.cross(spin, lever)
        if turns:
            q[at[:, None] + np.arange(3, 7)] = pose[link, 3:7]
            own = e[:, 0:3] * spin[:, :1] + e[:, 3:6] * spin[:, 1:2] + e[:, 6:9] * spin[:, 2:]
            qd[to[:, None] + np.arange(3, 6)] = own
