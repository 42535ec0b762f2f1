"""The table of a model's rows: which there are, in what order, on what, and gears between frames."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.constraints.test_rows import dense, ends_of, motion
from tests.constraints.wrapped import look
from tests.naive import moving
from tests.naive import rotations as rot
from tests.naive.models import add_body

import limberjack as lj
from limberjack.constraints.rows import ANGLE, SLIDE
from limberjack.constraints.table import EQUALITY, INEQUALITY, Pairs, collect, gear_rows, new_table
from limberjack.model.arrays import LINK
from limberjack.reduced.constraint_set import ConstraintSet, tied_blocks


def all_rows(model, **without):
    """Return rows and pairs of a model."""
    return collect(model, **({"loops": True, "gears": True, "limits": True} | without))


def test_a_loop_gives_the_rows_of_its_joint():
    """The pin that closes a four-bar holds five rows between its two links; without loops there are none."""
    model = lj.scenes.four_bar()
    rows, pairs = all_rows(model)
    assert [row.role for row in rows] == [EQUALITY] * 5 and len(pairs.link) == 1
    ends = sorted(int(model.arrays.body_link[model.body_index(body)]) for body in ("coupler", "rocker"))
    assert sorted(pairs.link[0]) == ends
    assert {model.joint_names[row.joint] for row in rows} == {"C"}
    assert all_rows(model, loops=False)[0] == []


def limited(rng):
    """Return a model with limits of every sort: hinge, compound axis, ball with cone and twist, soft ones."""
    builder = lj.Builder()
    for k in range(5):
        add_body(builder, rng, f"b{k}")
    builder.add_joint_hinge("hinge", "world", "b0", limits=(-0.5, math.inf))
    axes = [lj.Axis(name="x", axis=(1, 0, 0), limits=(-1, 1)), lj.Axis(name="y", kind="slide", axis=(0, 1, 0))]
    builder.add_joint_compound("compound", "b0", "b1", axes)
    builder.add_joint_ball("ball", "b1", "b2", limits=(0, 1.0), cone=0.5, twist=(-0.2, math.inf))
    builder.add_joint_slide("soft", "b2", "b3", limits=(-1, 1), limit_stiffness=5.0)
    builder.add_joint_planar("planar", "b3", "b4", limits=[(-1, 1), None, (-2, math.inf)])
    return builder.build()


def test_limits_stand_on_coordinates_and_balls(rng):
    """Hard limits of scalars are rows on coordinates, one per finite side; those of balls are read off frames."""
    model = limited(rng)
    rows, _ = all_rows(model)
    assert all(row.role == INEQUALITY for row in rows)
    found: dict[str, list] = {}
    for row in rows:
        found.setdefault(model.joint_names[row.joint], []).append(row)
    assert {name: len(own) for name, own in found.items()} == {"hinge": 1, "compound": 2, "ball": 3, "planar": 3}
    assert found["hinge"][0].coordinates == [(0, 0, 1.0)] and found["hinge"][0].target == (-0.5, 0.0)
    v, q = model.joint("planar").v_start, model.joint("planar").q_start
    assert [row.coordinates[0] for row in found["planar"]] == [(v, q, 1.0), (v, q, -1.0), (v + 2, q + 2, 1.0)]
    assert [row.target[0] for row in found["planar"]] == [-1.0, -1.0, -2.0]
    assert all(row.terms and not row.coordinates for row in found["ball"])
    assert all_rows(model, limits=False)[0] == []


def test_loops_within_one_link_hold_nothing(rng):
    """A joint that closes a loop between bodies that move as one can add nothing."""
    builder = lj.Builder()
    for name in "abc":
        add_body(builder, rng, name)
    builder.add_joint_hinge("h", "world", "a")
    builder.add_joint_fixed("f", "a", "b")
    builder.add_joint_fixed("g", "b", "c", position=(0.1, 0, 0))
    builder.add_joint_fixed("again", "a", "c", position=(0.1, 0, 0))
    model = builder.build()
    assert model.loop_names == ("again",) and all_rows(model)[0] == []


def test_compound_joints_close_loops(rng):
    """A compound joint that closes a loop holds the directions its axes leave over."""
    builder = lj.Builder()
    for name in "ab":
        add_body(builder, rng, name)
    builder.add_joint_hinge("h", "world", "a")
    builder.add_joint_hinge("g", "a", "b", position=(1, 0, 0))
    builder.add_joint_compound("close", "world", "b", [lj.Axis(name="x"), lj.Axis(name="y", axis=(0, 1, 0))])
    rows, _ = all_rows(builder.build())
    assert len(rows) == 4 and all(row.role == EQUALITY for row in rows)


def test_tables_keep_what_rows_say(rng):
    """Terms, pairs, coordinates, targets and roles of a table are those of its rows, in order."""
    model = limited(rng)
    rows, pairs = all_rows(model)
    table = new_table(rows, pairs)
    assert len(table.joint) == len(rows) and table.term_start[-1] == len(table.terms) == len(table.weights)
    for r, row in enumerate(rows):
        own = slice(table.term_start[r], table.term_start[r + 1])
        terms = zip(table.terms[own].tolist(), table.weights[own].tolist(), strict=True)
        assert [(p, (c, i, j, w)) for (c, p, i, j), w in terms] == row.terms
        coordinates = zip(table.indices[r, :2], table.indices[r, 2:], table.share[r], strict=True)
        coordinates = [(v, q, s) for v, q, s in coordinates if v >= 0]
        assert coordinates == row.coordinates
        assert tuple(table.target[r]) == row.target and table.role[r] == row.role
        assert table.row_pair[r, 0] == (row.terms[0][0] if row.terms else -1) and table.row_pair[r, 1] == -1


def geared(rng, carrier=None, loop=False):
    """Return a model of a free carrier with two wheels on skew axes and a gear between them."""
    builder = lj.Builder()
    for name in ("carrier", "left", "right"):
        add_body(builder, rng, name)
    options = {"rotation": rng.normal(size=4), "rotation_in_child": rng.normal(size=4)}
    options = {k: v / np.linalg.norm(v) for k, v in options.items()}
    for name in ("left", "right"):
        if loop:
            builder.add_joint_ball(f"hold_{name}", "carrier", name)
        builder.add_joint_hinge(f"{name}_axle", "carrier", name, axis=rng.normal(size=3), **options)
    builder.add_gear("mesh", "left_axle", "right_axle", ratio=-1.5, offset=0.2, carrier=carrier)
    return builder.build()


def test_gears_of_tree_joints_are_rows_on_coordinates(rng):
    """Between joints of the tree a gear is q_a - ratio q_b = offset; asked for frames, it is the same by angles."""
    model = geared(rng)
    index = model.joint_names.index("mesh")
    (row,) = gear_rows(model, Pairs(model), index, model.joint_spec("mesh"), reduced=True)
    a, b = model.joint("left_axle"), model.joint("right_axle")
    assert row.coordinates == [(a.v_start, a.q_start, 1.0), (b.v_start, b.q_start, 1.5)] and row.target == (0.2, 0.0)
    (row,) = gear_rows(model, Pairs(model), index, model.joint_spec("mesh"), reduced=False)
    assert [term[0] for _, term in row.terms] == [ANGLE, ANGLE] and not row.coordinates and not row.speed


def frame_gear(rng, **options):
    """Return the table of a gear between frames, and random motions of its three bodies."""
    model = geared(rng, **options)
    pairs = Pairs(model)
    rows = gear_rows(model, pairs, model.joint_names.index("mesh"), model.joint_spec("mesh"), reduced=False)
    return new_table(rows, pairs), [moving.Mover(rng) for _ in range(3)]


def test_gears_between_frames(rng):
    """Value, rate and second derivative of a gear by angles are those of the two angles, off closure too."""
    for _ in range(5):
        table, bodies = frame_gear(rng)
        values, wrench, state, near, _ = look(table, ends_of(bodies))
        J = dense(table, 0, state, wrench, 3)

        def value(t, table=table, bodies=bodies, near=near):
            return look(table, ends_of(bodies, t), near)[0][0, 0]

        angles = []
        for k in range(2):
            a, b = (bodies[i].at(0.0)[0] for i in table.pair_link[k])
            fa, fb = table.pair_frame[k, :9].reshape(3, 3), table.pair_frame[k, 12:21].reshape(3, 3)
            angles.append(moving.element(ANGLE, 0, 0, (a @ fa, np.zeros(3)), (b @ fb, np.zeros(3))))
        assert values[0, 0] == pytest.approx(angles[0] + 1.5 * angles[1] - 0.2, abs=1e-12)
        v, dv = motion(bodies)
        assert values[0, 1] == pytest.approx(J @ v, abs=1e-11)
        assert values[0, 1] == pytest.approx(moving.rate(value), rel=1e-6)
        assert J @ dv + values[0, 2] == pytest.approx(moving.second(value), rel=1e-4, abs=1e-5)


def test_gears_from_a_carrier_act_on_three_bodies(rng):
    """A carrier's gear ties the turns of two wheels against it, about their own axes; together they may all turn."""
    for _ in range(5):
        table, bodies = frame_gear(rng, carrier="carrier")
        values, wrench, state, *_ = look(table, ends_of(bodies))
        J = dense(table, 0, state, wrench, 3)
        v, dv = motion(bodies)
        assert values[0, 0] == 0.0 and table.speed[0] == 1

        def rate(t, table=table, bodies=bodies):
            out = 0.0
            for k, weight in enumerate((1.0, 1.5)):
                carrier, wheel = (bodies[i] for i in table.pair_link[k])
                axis = (wheel.at(t)[0] @ table.pair_frame[k, 12:21].reshape(3, 3))[:, 2]
                turns = [
                    rot.from_cross_matrix(moving.rate(lambda s, b=b: b.at(t + s)[0]) @ b.at(t)[0].T)
                    for b in (carrier, wheel)
                ]
                out += weight * axis @ (turns[1] - turns[0])
            return out

        assert values[0, 1] == pytest.approx(rate(0.0), abs=1e-8)
        assert values[0, 1] == pytest.approx(J @ v, abs=1e-12)
        assert J @ dv + values[0, 2] == pytest.approx(moving.rate(rate), abs=1e-6)
        w, u = rng.normal(size=(2, 3))
        together = np.concatenate([np.r_[w, u + np.cross(w, b.p)] for b in bodies])
        assert J @ together == pytest.approx(0.0, abs=1e-12)


def test_only_turning_joints_gear_from_a_carrier(rng):
    """A slide has no turn against a carrier: such a gear is refused by name."""
    builder = lj.Builder()
    for name in "abc":
        add_body(builder, rng, name)
    builder.add_joint_hinge("h", "a", "b")
    builder.add_joint_slide("s", "a", "c")
    builder.add_gear("mesh", "h", "s", carrier="a")
    with pytest.raises(lj.UnsupportedByMethod, match='gear "mesh": joint "s" is a slide'):
        all_rows(builder.build())


def test_gears_of_loop_joints_are_read_off_frames(rng):
    """A gear on a joint that closes a loop has a term for it, and a coordinate for its partner in the tree."""
    builder = lj.Builder()
    for name in "abc":
        add_body(builder, rng, name)
    builder.add_joint_hinge("h", "world", "a")
    builder.add_joint_hinge("g", "a", "b", position=(1, 0, 0))
    builder.add_joint_slide("close", "world", "b", axis=(1, 0, 0))
    builder.add_joint_hinge("lone", "world", "c")
    builder.add_gear("mesh", "close", "lone", ratio=0.3)
    model = builder.build()
    assert model.loop_names == ("close", "mesh")
    row = all_rows(model)[0][-1]
    lone = model.joint("lone")
    assert [term for _, term in row.terms] == [(SLIDE, 2, 0, 1.0)]
    assert row.coordinates == [(lone.v_start, lone.q_start, -0.3)]


def test_rows_tie_trees_into_blocks(rng):
    """Trees that a row joins are stepped together, others on their own; rows of a block stand held before sided."""
    builder = lj.Builder()
    for k in range(6):
        add_body(builder, rng, f"b{k}")
        builder.add_joint_hinge(f"h{k}", "world", f"b{k}", limits=(-1, 1))
    builder.add_gear("mesh", "h1", "h3")
    builder.add_joint_distance("rod", "b4", "b5", length=1.0)
    model = builder.build()
    constraint_set = ConstraintSet(model, (), implicit=False)
    spans = constraint_set.spans
    assert spans[:, LINK].tolist() == [0, 1, 4] and spans[:, LINK + 1].tolist() == [1, 4, 6]
    blocks = constraint_set.constraint.blocks
    assert blocks[:, 0].tolist() == [0, 2, 9] and blocks[:, 1].tolist() == [2, 9, 14]
    for first, last in blocks[:, :2]:
        roles = constraint_set.table.role[first:last]
        assert (np.diff(roles) >= 0).all()
    assert len(tied_blocks(model, [(0, 5)])) == 1 and len(tied_blocks(model, [])) == 6
