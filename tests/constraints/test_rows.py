"""Rows of constraints: value, row and bias against definitions and differences of moving frames, on and off closure."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
from tests.constraints.wrapped import look
from tests.naive import moving
from tests.naive import rotations as rot
from tests.naive.models import FREEDOMS, add_body, joint_options

import limberjack as lj
from limberjack.constraints.rows import ANGLE, DOT, LENGTH, SIDEWAYS, SLIDE, TURN
from limberjack.constraints.table import Row, coordinate_terms, joint_rows, limit_rows, new_table
from limberjack.model.compile import joint_frames
from limberjack.model.joints import coordinates, locked
from limberjack.spatial.frames import quaternion_from_matrix

ELEMENTS = [
    *((SLIDE, i, 0) for i in range(3)), *((DOT, i, j) for i in range(3) for j in range(3)), (LENGTH, 0, 0),
    *((ANGLE, i, 0) for i in range(3)), *((SIDEWAYS, 0, j) for j in range(3)), *((TURN, 0, j) for j in range(3)),
]  # fmt: skip
KINDS = [kind for kind in FREEDOMS if kind != "free"]


def ends_of(bodies, t=0.0):
    """Return the ends (n, 18) of bodies at time t, with the velocities they have at 0."""
    return np.array([np.concatenate([b.at(t)[0].ravel(), b.at(t)[1], b.w, b.v]) for b in bodies]).reshape(-1, 18)


def frames_at(pair, bodies, t):
    """Return frames A and B of a pair, (R, p) each in the world, at time t."""
    out = []
    for body, frame in zip(pair[0], (pair[1][:12], pair[1][12:]), strict=True):
        r, p = frame[:9].reshape(3, 3), frame[9:]
        turn, place = bodies[body].at(t) if body >= 0 else (np.eye(3), np.zeros(3))
        out.append((turn @ r, place + turn @ p))
    return out


def random_pair(rng, a=0, b=1):
    """Return links and frames of a random pair."""
    frames = [np.concatenate([rot.matrix(rng.normal(size=4)).ravel(), rng.uniform(-0.5, 0.5, 3)]) for _ in range(2)]
    return [a, b], np.concatenate(frames)


def clear_of_poles(pair, bodies):
    """Return whether no angle of the pair is near where it has no value: there differences tell nothing."""
    (a, _), (b, _) = frames_at(pair, bodies, 0.0)
    t = a.T @ b
    sizes = np.hypot(t[1, 0] - t[0, 1], t[0, 0] + t[1, 1]), np.hypot(t[2, 1], t[1, 1]), np.hypot(t[0, 2], t[0, 0])
    return min(sizes) > 0.4


def table_of(rows, *pairs):
    """Return the table of rows on these pairs."""
    plain = {"link": [p[0] for p in pairs], "frame": [p[1] for p in pairs], "compound": {}, "registered": {}}
    return new_table(rows, SimpleNamespace(**plain))


def dense(table, r, state, wrench, bodies):
    """Return row r of J (6 n,), by the wrenches on b and the opposite ones on a."""
    out = np.zeros((bodies, 6))
    for slot in range(2):
        k = table.row_pair[r, slot]
        if k < 0:
            continue
        n, f = wrench[r, 6 * slot : 6 * slot + 3], wrench[r, 6 * slot + 3 : 6 * slot + 6]
        d, ra, rb = state[k, 18:21], state[k, 21:24], state[k, 24:27]
        a, b = table.pair_link[k]
        if b >= 0:
            out[b] += np.r_[n + np.cross(rb, f), f]
        if a >= 0:
            out[a] -= np.r_[n + np.cross(ra + d, f), f]
    return out.ravel()


def motion(bodies):
    """Return velocities and accelerations (6 n,) at time 0."""
    return (
        np.concatenate([np.r_[b.w, b.v] for b in bodies]),
        np.concatenate([np.r_[b.dw, b.dv] for b in bodies]),
    )


@pytest.mark.parametrize("world", [False, True])
def test_elements_have_their_values_rates_and_biases(rng, world):
    """Every element is its definition; J V and J V' + c are its derivatives along any motion, far from closure too."""
    tried = 0
    while tried < 5:
        bodies = [moving.Mover(rng), moving.Mover(rng)]
        pair = random_pair(rng, -1 if world else 0, 1)
        if not clear_of_poles(pair, bodies):
            continue
        tried += 1
        table = table_of([Row(0, [(0, (*e, 1.0))]) for e in ELEMENTS], pair)
        values, wrench, state, _, turned = look(table, ends_of(bodies))
        v, dv = motion(bodies)
        a, b = frames_at(pair, bodies, 0.0)
        relative = rot.matrix(turned[0])
        np.testing.assert_allclose(relative, a[0].T @ b[0], atol=1e-14)
        for r, (code, i, j) in enumerate(ELEMENTS):
            J = dense(table, r, state, wrench, 2)
            if code in (SIDEWAYS, TURN):
                continue
            assert values[r, 1] == pytest.approx(J @ v, abs=1e-13)

            def value(t, code=code, i=i, j=j, bodies=bodies, pair=pair):
                return moving.element(code, i, j, *frames_at(pair, bodies, t))

            assert values[r, 0] == pytest.approx(value(0.0), abs=1e-14)
            assert values[r, 1] == pytest.approx(moving.rate(value), abs=1e-8)
            assert J @ dv + values[r, 2] == pytest.approx(moving.second(value), abs=1e-6)


def test_rows_of_velocities(rng):
    """SIDEWAYS is the velocity of a point along an axis of its body, TURN the relative turning about one, and so on."""
    for _ in range(5):
        bodies = [moving.Mover(rng), moving.Mover(rng)]
        pairs = random_pair(rng, -1, 1), random_pair(rng)
        rows = [Row(0, [(0, (SIDEWAYS, 0, j, 1.0))]) for j in range(3)] + [
            Row(0, [(1, (TURN, 0, j, 1.0))]) for j in range(3)
        ]
        table = table_of(rows, *pairs)
        values, wrench, state, *_ = look(table, ends_of(bodies))
        v, dv = motion(bodies)

        def turning(body, t):
            r = body.at(t)[0]
            change = moving.rate(lambda s: body.at(t + s)[0])
            return rot.from_cross_matrix(change @ r.T)

        for j in range(3):

            def sideways(t, j=j, pairs=pairs, bodies=bodies):
                axis = frames_at(pairs[0], bodies, t)[1][0][:, j]
                return axis @ moving.rate(lambda s: frames_at(pairs[0], bodies, t + s)[1][1])

            def turn(t, j=j, pairs=pairs, bodies=bodies, turning=turning):
                axis = frames_at(pairs[1], bodies, t)[1][0][:, j]
                return axis @ (turning(bodies[1], t) - turning(bodies[0], t))

            for r, rate in ((j, sideways), (3 + j, turn)):
                assert values[r, 0] == 0.0
                assert values[r, 1] == pytest.approx(rate(0.0), abs=1e-8)
                got = dense(table, r, state, wrench, 2) @ dv + values[r, 2]
                assert got == pytest.approx(moving.rate(rate), abs=1e-6)
                assert dense(table, r, state, wrench, 2) @ v == pytest.approx(values[r, 1], abs=1e-13)


def test_rows_between_two_bodies_keep_momentum(rng):
    """Moving both bodies as one changes no element between them: the forces on them sum to no force and no torque."""
    bodies = [moving.Mover(rng), moving.Mover(rng)]
    elements = [e for e in ELEMENTS if e[0] != SIDEWAYS]
    table = table_of([Row(0, [(0, (*e, 1.0))]) for e in elements], random_pair(rng))
    _, wrench, state, *_ = look(table, ends_of(bodies))
    for _ in range(3):
        w, v = rng.normal(size=(2, 3))
        together = np.concatenate([np.r_[w, v + np.cross(w, b.p)] for b in bodies])
        for r in range(len(elements)):
            assert dense(table, r, state, wrench, 2) @ together == pytest.approx(0.0, abs=1e-13)


def test_the_child_moves_rows_up(rng):
    """J = [-parent | +child]: moving the child along an axis of the parent raises the value, the parent lowers it."""
    bodies = [moving.Mover(rng, still=True), moving.Mover(rng, still=True)]
    pair = random_pair(rng)
    table = table_of([Row(0, [(0, (SLIDE, i, 0, 1.0))]) for i in range(3)], pair)
    _, wrench, state, *_ = look(table, ends_of(bodies))
    axes = frames_at(pair, bodies, 0.0)[0][0]
    for r in range(3):
        J = dense(table, r, state, wrench, 2)
        np.testing.assert_allclose(J[9:], axes[:, r], atol=1e-15)
        np.testing.assert_allclose(J[3:6], -axes[:, r], atol=1e-15)


def joint_of(rng, kind, **options):
    """Return a random joint of the kind named, as a model has it."""
    builder = lj.Builder()
    add_body(builder, rng, "a")
    add_body(builder, rng, "b")
    plain = joint_options(rng, kind, passive=False) if kind in FREEDOMS else {}
    getattr(builder, f"add_joint_{kind}")("j", "a", "b", **(plain | options))
    return builder.build().joint_spec("j")


def joint_pair(joint):
    """Return the pair of a joint's own frames, on bodies 0 and 1."""
    r_p, p_p, r_c, p_c = joint_frames(joint)
    return [0, 1], np.concatenate([r_p.ravel(), p_p, r_c.ravel(), p_c])


@pytest.mark.parametrize("kind", [*KINDS, "distance"])
def test_joints_hold_what_their_locked_face_says(rng, kind):
    """Values and rows of every joint kind are those of `joints.locked`, and their derivatives those of differences."""
    for _ in range(5):
        joint = joint_of(rng, kind, length=rng.uniform(0.2, 1.0)) if kind == "distance" else joint_of(rng, kind)
        pair = joint_pair(joint)
        held = joint_rows(joint)
        table = table_of([Row(0, [(0, t) for t in terms], target=(v, 0.0)) for terms, v in held], pair)
        bodies = [moving.Mover(rng), moving.Mover(rng)]
        values, wrench, state, *_ = look(table, ends_of(bodies))
        assert len(held) == (1 if kind == "distance" else 6 - FREEDOMS[kind])

        def errors(t, joint=joint, pair=pair, bodies=bodies):
            (ra, pa), (rb, pb) = frames_at(pair, bodies, t)
            return locked(joint, ra.T @ rb, ra.T @ (pb - pa))[1]

        (ra, pa), (rb, pb) = frames_at(pair, bodies, 0.0)
        L, e = locked(joint, ra.T @ rb, ra.T @ (pb - pa))
        np.testing.assert_allclose(values[:, 0], e, atol=1e-13)
        np.testing.assert_allclose(wrench[:, :3] @ ra, L[:, :3], atol=1e-12)
        np.testing.assert_allclose(wrench[:, 3:6] @ ra, L[:, 3:], atol=1e-12)
        dv = motion(bodies)[1]
        J = np.array([dense(table, r, state, wrench, 2) for r in range(len(held))])
        np.testing.assert_allclose(values[:, 1], moving.rate(errors), atol=1e-8)
        np.testing.assert_allclose(J @ dv + values[:, 2], moving.second(errors), atol=1e-6)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if FREEDOMS[kind] and kind != "ball"])
def test_coordinates_are_read_as_joints_read_them(rng, kind):
    """The elements of a joint's scalar coordinates give what `joints.coordinates` reads off the same poses."""
    joint = joint_of(rng, kind)
    pair = joint_pair(joint)
    terms = coordinate_terms(joint)
    table = table_of([Row(0, [(0, term)]) for term in terms], pair)
    bodies = [moving.Mover(rng), moving.Mover(rng)]
    (ra, pa), (rb, pb) = frames_at(pair, bodies, 0.0)
    q = coordinates(joint, ra.T @ rb, ra.T @ (pb - pa))
    values = look(table, ends_of(bodies))[0][:, 0]
    np.testing.assert_allclose(values, q[: len(terms)], atol=1e-13)
    assert len(q) == len(terms) + (4 if kind.startswith("point_on") else 0)


def test_angles_count_turns(rng):
    """Followed in steps of a third of a turn, an angle goes on past pi and back, as does the travel of a screw."""
    still, joint = moving.Mover(rng, still=True), joint_of(rng, "screw", pitch=0.1)
    pair = joint_pair(joint)
    terms, _ = joint_rows(joint)[-1]
    rows = [Row(0, [(0, (ANGLE, 0, 0, 1.0))]), Row(0, [(0, t) for t in terms])]
    table = table_of(rows, pair)
    (a, _), frame = frames_at(pair, [still, still], 0.0), pair[1][12:]
    near = None
    for angle in np.concatenate([np.arange(0, 40, 2.0), np.arange(40, -40, -2.0)]):
        r = a[0] @ rot.about([0, 0, 1], angle) @ frame[:9].reshape(3, 3).T
        p = a[1] + a[0] @ [0, 0, 0.1 * angle] - r @ frame[9:]
        ends = np.array([np.r_[still.r.ravel(), still.p, np.zeros(6)], np.r_[r.ravel(), p, np.zeros(6)]])
        values, _, _, near, _ = look(table, ends, near)
        assert values[0, 0] == pytest.approx(angle, abs=1e-12)
        assert values[1, 0] == pytest.approx(0.0, abs=1e-12)


def test_targets_move_in_time(rng):
    """A row aims at target + rate time: its value and rate have both taken off, its bias neither."""
    bodies = [moving.Mover(rng), moving.Mover(rng)]
    pair = random_pair(rng)
    rows = [Row(0, [(0, (SLIDE, 0, 0, 1.0))]), Row(0, [(0, (SLIDE, 0, 0, 1.0))], target=(0.5, 0.25))]
    values = look(table_of(rows, pair), ends_of(bodies), time=2.0)[0]
    np.testing.assert_allclose(values[0] - values[1], (1.0, 0.25, 0.0), atol=1e-15)


def limit_values(rng, joint, r, p):
    """Return the values of the one-sided rows of a joint at a relative pose (r, p)."""
    pair = joint_pair(joint)
    still = moving.Mover(rng, still=True)
    ends = limit_rows(joint, scalars=True)
    table = table_of([Row(0, [(0, t) for t in terms], target=(v, 0.0)) for terms, v in ends], pair)
    (a, at), frame = frames_at(pair, [still, still], 0.0)[0], pair[1][12:]
    turn = a @ r @ frame[:9].reshape(3, 3).T
    place = at + a @ p - turn @ frame[9:]
    both = np.array([np.r_[still.r.ravel(), still.p, np.zeros(6)], np.r_[turn.ravel(), place, np.zeros(6)]])
    return look(table, both)[0][:, 0]


def test_limits_of_balls(rng):
    """The largest angle counts the whole turn, the cone the swing of z, the twist what is left about z."""
    joint = joint_of(rng, "ball", limits=(0.0, 1.2), cone=0.7, twist=(-0.4, 0.9))
    for _ in range(20):
        swing, about = rng.uniform(0, 1.5), rng.uniform(-1.5, 1.5)
        way = rng.uniform(0, 2 * math.pi)
        r = rot.about([math.cos(way), math.sin(way), 0], swing) @ rot.about([0, 0, 1], about)
        whole = 2 * math.acos(min(1.0, abs(quaternion_from_matrix(r)[0])))
        got = limit_values(rng, joint, r, np.zeros(3))
        wanted = [math.cos(whole) - math.cos(1.2), math.cos(swing) - math.cos(0.7), about + 0.4, 0.9 - about]
        np.testing.assert_allclose(got, wanted, atol=1e-12)


def test_limits_of_scalars_and_ropes(rng):
    """Limits stand at coordinate - low and high - coordinate; a rope's row is what is left of its length."""
    slide = joint_of(rng, "slide", limits=(-0.2, 0.5))
    np.testing.assert_allclose(limit_values(rng, slide, np.eye(3), np.array([0, 0, 0.3])), (0.5, 0.2), atol=1e-14)
    hinge = joint_of(rng, "hinge", limits=(-math.inf, 0.5))
    np.testing.assert_allclose(limit_values(rng, hinge, rot.about([0, 0, 1], 0.7), np.zeros(3)), [-0.2], atol=1e-14)
    planar = joint_of(rng, "planar", limits=[None, (-1.0, 2.0), (0.0, 0.5)])
    got = limit_values(rng, planar, rot.about([0, 0, 1], 0.3), np.array([9.0, 0.5, 0.0]))
    np.testing.assert_allclose(got, (1.5, 1.5, 0.3, 0.2), atol=1e-14)
    rope = joint_of(rng, "distance", length=1.5, rope=True)
    assert joint_rows(rope) == []
    np.testing.assert_allclose(limit_values(rng, rope, np.eye(3), np.array([0.6, 0, 0.8])), [0.5], atol=1e-14)
    soft = joint_of(rng, "slide", limits=(-0.2, 0.5), limit_stiffness=10.0)
    assert limit_rows(soft, scalars=True) == []
