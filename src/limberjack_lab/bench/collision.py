"""Table `collision`: detection in piles of boxes of growing size, time per contact."""

from __future__ import annotations

import numpy as np

import limberjack as lj
from limberjack.collision.detect import detect_once, find_contacts, new_detector
from limberjack_lab.bench.clock import Contender, race
from limberjack_lab.bench.table import Bar, Column, Table, Watch

__all__ = ["TITLE", "fill", "pile"]

TITLE = "piles of boxes of 20 cm, columns of ten that lean on their neighbours: one detection"
_COUNTS, _QUICK_COUNTS = (500, 2000, 8000, 20_000), (50, 200)
_EDGE, _MARGIN, _REACH = 0.2, 2e-3, 1e-3

_COLUMNS = (
    Column("boxes", "boxes"),
    Column("pairs", "pairs of boxes\nlooked at"),
    Column("contacts", "contacts"),
    Column("whole", "detection", "ms"),
    Column("pair", "per pair", "us"),
    Column("contact", "per contact", "us"),
)


def pile(count: int) -> tuple[lj.Model, np.ndarray]:
    """Return a pile of boxes on a plane and the poses (n, 7) of its bodies: columns of ten, boxes a little turned."""
    builder = lj.Builder("pile")
    side = int(np.ceil(np.sqrt(count / 10)))
    pose = np.zeros((count, 7))
    turn = 0.5 * np.random.default_rng(0).uniform(-0.1, 0.1, count)
    for k in range(count):
        builder.add_body(f"box{k}", mass=8.0, inertia=(0.05, 0.05, 0.05))
        builder.add_shape_box(f"box{k}", (_EDGE,) * 3)
        column, layer = divmod(k, 10)
        pose[k, :3] = 0.21 * (column % side), 0.21 * (column // side), (0.5 + layer) * _EDGE * 0.9975
    builder.add_shape_plane()
    pose[:, 3], pose[:, 6] = np.cos(turn), np.sin(turn)
    return builder.build(), pose


def fill(table: Table, quick: bool, watch: Watch) -> None:
    """Measure detection in piles of growing size.

    Args:
        table: to fill.
        quick: small piles.
        watch: the progress line.
    """
    part = table.part("one detection, poses in, contacts out", *_COLUMNS)
    counts = _QUICK_COUNTS if quick else _COUNTS
    watch.begin(len(counts))
    for count in counts:
        watch(f"{count} boxes")
        model, pose = pile(count)
        reach = np.full(count, _REACH)
        detector = find_contacts(new_detector(model), pose, reach, _MARGIN)
        arguments = (*detector[:2], pose, reach, _MARGIN, *detector[2:])
        contender = Contender("ours", lambda arguments=arguments: detect_once(*arguments))
        seconds = race([contender], seconds=0.1 if quick else 2.0)["ours"].cpu
        pairs, contacts = int(detector.broad.count[0]), int(detector.contacts.count[0])
        part.add(
            boxes=count, pairs=pairs, contacts=contacts, whole=1e3 * seconds, pair=1e6 * seconds / pairs,
            contact=1e6 * seconds / contacts,
        )  # fmt: skip
        watch("", advance=1)
    first, last = part.rows[0], part.rows[-1]
    growth = None if quick else float(last["contact"]) / float(first["contact"])  # pyright: ignore[reportArgumentType]
    table.bars.append(Bar("time per contact, largest pile over smallest", growth, 1.5, at_least=False))
