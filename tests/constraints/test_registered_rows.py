"""Registered constraint kinds: rows and biases against differences, and refusals by name."""

from __future__ import annotations

import math

import numba
import numpy as np
import pytest
from tests.constraints.registered_constraints import above, registered, tangent, torus, tracked, turned  # noqa: F401
from tests.constraints.test_rows import dense, ends_of, frames_at, motion, random_pair
from tests.naive import moving

import limberjack as lj
from limberjack.constraints import compound, rows
from limberjack.constraints.registered_rows import address_of
from limberjack.constraints.rows import REGISTERED
from limberjack.constraints.table import Pairs, Row, new_table

DATA = {
    "torus": (0.6, 0.2), "tangent": (0.5, 0.4, 0.3, 0.3, 0.35, 0.2, 150, 0.9), "turned": (0.7, 1.3),
    "tracked": (0.4, 0.8), "above": (0.5,),
}  # fmt: skip
_set_pair, _set_compounds, _row = rows.set_pair, compound.set_compounds, rows.row


@numba.njit(_nrt=False)
def _look(table, time, ends, scratch, state, near, wrench, values):
    for k in range(len(table.pair_link)):
        _set_pair(k, table.pair_link, table.pair_frame, ends, state)
    _set_compounds(table.compound, table.factor_kind, table.factor_data, time, scratch, state)
    for r in range(len(table.joint)):
        _row(table, r, time, state, near, wrench, values)


def look(kind, count, pair, ends, time):
    """Return table, state, wrenches and values of the rows of a registered kind."""
    pairs = Pairs.__new__(Pairs)
    pairs.link, pairs.frame, pairs.compound = [pair[0]], [pair[1]], {}
    pairs.registered = {0: (address_of(kind), DATA[kind])}
    table = new_table([Row(0, [(0, (REGISTERED, i, 0, 1.0))]) for i in range(count)], pairs)
    state, wrench, values = np.zeros((1, rows.PAIR)), np.zeros((count, 12)), np.zeros((count, 3))
    _look(table, time, ends, compound.new_scratch(), state, np.zeros(count), wrench, values)
    return table, state, wrench, values


@pytest.mark.parametrize("function", [torus, tangent, turned, tracked, above])
@pytest.mark.parametrize("world", [False, True])
def test_rows_and_biases_are_derivatives(rng, function, world):
    """J V plus the change by time is phi', J V' + c is phi'', along any motion, however far from phi = 0."""
    kind, count = function.__name__, 3 if function is tracked else 1
    data, start = np.array(DATA[kind]), 0.37
    for _ in range(4):
        bodies = [moving.Mover(rng), moving.Mover(rng)]
        bodies[1].p = bodies[1].p + np.array([2.0, 0.5, 0.0])
        pair = random_pair(rng, -1 if world else 0, 1)

        def value(t, bodies=bodies, pair=pair):
            (ra, pa), (rb, pb) = frames_at(pair, bodies, t)
            turn = ra.T @ rb
            found = function(tuple(ra.T @ (pb - pa)), tuple(tuple(row) for row in turn), start + t, data)
            return np.atleast_1d(found)

        table, state, wrench, values = look(kind, count, pair, ends_of(bodies), start)
        v, dv = motion(bodies)
        np.testing.assert_allclose(values[:, 0], value(0.0), atol=1e-13)
        np.testing.assert_allclose(values[:, 1], moving.rate(value), atol=1e-9)
        for r in range(count):
            J = dense(table, r, state, wrench, 2)
            assert J @ dv + values[r, 2] == pytest.approx(moving.second(value)[r], abs=2e-7)
            by_time = state[0, rows.COORDINATES + r]
            assert J @ v + by_time == pytest.approx(values[r, 1], abs=1e-13)


def test_kinds_are_checked():
    """Names taken, wrong counts of rows and functions that do not compile are refused by name."""
    with pytest.raises(lj.ModelError, match='"torus" exists already'):
        lj.register_constraint("torus", torus)
    with pytest.raises(lj.ModelError, match='"hinge" exists already'):
        lj.register_constraint("hinge", torus)
    with pytest.raises(lj.ModelError, match="rows must be 1 to 6"):
        lj.register_constraint("seven", torus, rows=7)
    with pytest.raises(lj.ModelError, match="callable"):
        lj.register_constraint("nothing", 3)  # pyright: ignore[reportArgumentType]
    lj.register_constraint("broken", lambda position, rotation, time, data: math.erf(position[0]))
    with pytest.raises(lj.ModelError, match='"broken" does not compile'):
        address_of("broken")


def test_constraints_are_checked():
    """Unknown kinds and bodies, doubled names and numbers that are not finite are refused by name."""
    builder = lj.Builder("surface")
    builder.add_particle("bead", mass=1.0)
    with pytest.raises(lj.UnknownName, match='"tours"'):
        builder.add_constraint("tours", "on", "world", "bead")
    with pytest.raises(lj.UnknownName, match='"bed"'):
        builder.add_constraint("torus", "on", "world", "bed", data=(1.0, 0.3))
    with pytest.raises(lj.ModelError, match="finite"):
        builder.add_constraint("torus", "on", "world", "bead", data=(1.0, math.nan))
    with pytest.raises(lj.UnknownName, match='"axis"'):
        builder.add_constraint("torus", "on", "world", "bead", data=(1.0, 0.3), axis=(0, 0, 1))
    builder.add_constraint("torus", "on", "world", "bead", data=(1.0, 0.3))
    with pytest.raises(lj.ModelError, match='"on" exists already'):
        builder.add_constraint("torus", "on", "world", "bead", data=(1.0, 0.3))


def test_constraints_are_saved_and_read(tmp_path):
    """The native format holds constraints with their numbers; where their kind is not registered, reading says so."""
    builder = lj.Builder("surface")
    builder.add_particle("bead", mass=1.0, position=(1.3, 0, 0))
    builder.add_constraint("torus", "on", "world", "bead", data=(1.0, 0.3), position=(0, 0, 0.1))
    model = builder.build()
    lj.save(model, tmp_path / "bead.json")
    assert lj.load(tmp_path / "bead.json").spec == model.spec
    text = (tmp_path / "bead.json").read_text().replace('"torus"', '"tours"')
    (tmp_path / "other.json").write_text(text)
    with pytest.raises(lj.FileError, match="tours|data"):
        lj.load(tmp_path / "other.json")
