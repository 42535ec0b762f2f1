"""Table `collision`: detection in piles of boxes of growing size, time per contact."""

from __future__ import annotations

import numpy as np

import limberjack as lj
from limberjack_lab.bench.clock import Contender, race
from limberjack_lab.bench.table import Table, Watch, columns

__all__ = ["TITLE", "fill", "pile"]

TITLE = "piles of boxes of 20 cm, columns of ten that lean on their neighbours: one detection"
_COUNTS, _QUICK_COUNTS = (500, 2000, 8000, 20_000), (50, 200)
_EDGE, _MARGIN = 0.2, 3e-3

_COLUMNS = columns(
    "boxes: boxes; pairs: pairs of boxes|looked at; contacts: contacts; query: detection [ms]; "
    "pair_us: per pair [us]; contact_us: per contact [us]"
)


def pile(count: int) -> tuple[lj.Model, np.ndarray, np.ndarray]:
    """Return a pile of boxes on a plane and the poses of its bodies: columns of ten, boxes a little turned."""
    builder = lj.Builder("pile")
    side = int(np.ceil(np.sqrt(count / 10)))
    turn = 0.5 * np.random.default_rng(0).uniform(-0.1, 0.1, count)
    positions, rotations = np.zeros((count, 3)), np.zeros((count, 4))
    for k in range(count):
        builder.add_body(f"box{k}", mass=8.0, inertia=(0.05, 0.05, 0.05))
        builder.add_shape_box(f"box{k}", (_EDGE,) * 3)
        column, layer = divmod(k, 10)
        positions[k] = 0.21 * (column % side), 0.21 * (column // side), (0.5 + layer) * _EDGE * 0.9975
    builder.add_shape_plane()
    rotations[:, 0], rotations[:, 3] = np.cos(turn), np.sin(turn)
    return builder.build(), positions, rotations


def fill(table: Table, quick: bool, watch: Watch) -> None:
    """Measure detection in piles of growing size; see `TABLES`."""
    part = table.part("one query, poses in, contacts out", *_COLUMNS)
    counts = _QUICK_COUNTS if quick else _COUNTS
    watch.begin(len(counts))
    for count in counts:
        watch(f"{count} boxes", 1)
        model, positions, rotations = pile(count)
        query = lj.CollisionQuery(model, margin=_MARGIN)
        contacts = query.find(positions, rotations)
        contender = Contender("ours", lambda: query.find(positions, rotations))  # noqa: B023
        seconds = race([contender], seconds=0.1 if quick else 2.0)["ours"].cpu
        part.add(
            boxes=count, pairs=query.pair_count, contacts=contacts, query=1e3 * seconds,
            pair_us=1e6 * seconds / query.pair_count, contact_us=1e6 * seconds / contacts,
        )  # fmt: skip
    first, last = (float(row["contact_us"] or 0.0) for row in (part.rows[0], part.rows[-1]))
    table.bar("time per contact, largest pile over smallest", last / first, 1.5, False)
