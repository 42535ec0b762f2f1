"""Geoms, sites, equalities and actuators of MJCF, and the warnings for what has no counterpart."""

from __future__ import annotations

import re
import warnings

import mujoco
import numpy as np
import pytest
from tests.io.mjcf_help import (
    HINGE,
    TET,
    TWO,
    assert_same_motion,
    mjcf,
    nested,
    quiet,
    random_state,
    read,
    reference,
    write,
)

import limberjack as lj
from limberjack.errors import ModelWarning
from limberjack.io import load
from limberjack.reduced.dynamics import forward_kinematics

# -- geoms, contact, sites -------------------------------------------------------------------------------


def test_geoms_become_shapes(tmp_path):
    """Each kind arrives in our sizes, with place, friction, colour and body; visual geoms do not collide."""
    world = (
        '<geom name="floor" type="plane" size="1 1 1" friction=".7"/>'
        '<body name="a" pos="0 0 2"><freejoint/>'
        '<geom name="s" size=".1" pos="1 2 3" rgba="1 0 0 .5"/>'
        '<geom name="b" type="box" size=".1 .2 .3" euler="90 0 0"/>'
        '<geom name="c" type="capsule" size=".1 .2" contype="0" conaffinity="0"/>'
        '<geom name="y" type="cylinder" fromto="0 0 0 0 0 1" size=".1" material="m"/></body>'
    )
    model, m = read(tmp_path, world, '<asset><material name="m" rgba="0 1 0 1"/></asset>')
    shapes = {shape.name: shape for shape in model.shapes}
    assert shapes["floor"].body == "world" and shapes["floor"].friction == 0.7
    assert {name: (shape.kind, shape.size) for name, shape in shapes.items()} == {
        "floor": ("plane", ()),
        "s": ("sphere", (0.1,)),
        "b": ("box", (0.2, 0.4, 0.6)),
        "c": ("capsule", (0.1, 0.4)),
        "y": ("cylinder", (0.1, 1.0)),
    }
    assert shapes["s"].position == (1.0, 2.0, 3.0) and shapes["s"].color == (1.0, 0.0, 0.0, 0.5)
    assert np.allclose(shapes["b"].rotation, m.geom_quat[2], atol=1e-15)
    assert shapes["y"].position == (0.0, 0.0, 0.5) and shapes["y"].color == (0.0, 1.0, 0.0, 1.0)
    assert [name for name, shape in shapes.items() if not shape.collide] == ["c"]


def test_condim_brings_torsional_and_rolling_friction(tmp_path):
    """Condim 4 has torsional friction, 6 rolling friction, too; margins are those of the file."""
    geom = '<geom name="g{0}" size=".1" condim="{0}" friction="1 .02 .003" margin=".0{0}"/>'
    limb = f'<body name="b{{0}}"><freejoint/>{geom}</body>'
    model, _ = read(tmp_path, '<geom name="floor" type="plane" size="1 1 1"/>' + "".join(map(limb.format, (3, 4, 6))))
    shapes = {shape.name: shape for shape in model.shapes}
    found = {name: (s.torsional_friction, s.rolling_friction, s.margin) for name, s in shapes.items()}
    assert found == {"floor": (0, 0, 0), "g3": (0, 0, 0.03), "g4": (0.02, 0, 0.04), "g6": (0.02, 0.003, 0.06)}


def test_meshes_stand_where_mujoco_puts_them(tmp_path):
    """A mesh's corners in the body frame are those of the file, whatever frame MuJoCo keeps them in."""
    write(tmp_path / "meshes" / "t.obj", TET)
    world = '<body name="a"><joint/><geom type="mesh" mesh="t" pos="1 2 3" euler="0 0 90"/></body>'
    rest = '<compiler meshdir="meshes"/><asset><mesh name="t" file="t.obj" scale="2 2 2"/></asset>'
    model, _ = read(tmp_path, world, rest)
    (shape,) = model.shapes
    w, x, y, z = shape.rotation
    turn = np.zeros(9)
    mujoco.mju_quat2Mat(turn, np.array([w, x, y, z]))
    points = shape.vertices @ turn.reshape(3, 3).T + shape.position
    corners = np.array([[0, 0, 0], [2, 0, 0], [0, 2, 0], [0, 0, 2]]) @ [[0, 1, 0], [-1, 0, 0], [0, 0, 1]] + [
        1,
        2,
        3,
    ]
    gaps = np.linalg.norm(points[:, None] - corners, axis=2)
    assert gaps.min(axis=0).max() < 1e-6 and gaps.min(axis=1).max() < 1e-6
    assert len(shape.faces) == 4


def test_ellipsoids_become_closed_meshes(tmp_path):
    """An ellipsoid is a closed mesh inside it that loses little of its volume, and a warning says so."""
    path = mjcf(tmp_path, '<body><joint/><geom name="e" type="ellipsoid" size=".1 .2 .3"/></body>')
    with pytest.warns(ModelWarning, match='ellipsoids become meshes of 320 triangles, geoms: "e"'):
        (shape,) = load(path).shapes
    a, b, c = (shape.vertices[shape.faces[:, k]] for k in range(3))
    volume = np.einsum("ij,ij->i", a, np.cross(b, c)).sum() / 6
    assert 0.95 < volume / (4 / 3 * np.pi * 0.006) < 1.0
    edges = {(int(f[k]), int(f[(k + 1) % 3])) for f in shape.faces for k in range(3)}
    assert len(edges) == 960 and all((j, i) in edges for i, j in edges)


def test_contype_and_conaffinity_filter_pairs(tmp_path):
    """Geoms that MuJoCo does not let collide share a group, or their bodies are excluded."""
    limb = '<body name="{}" pos="0 0 {}"><freejoint/><geom name="g{}" size=".1" contype="{}" conaffinity="{}"/></body>'
    floor = '<geom name="floor" type="plane" size="1 1 1" contype="{}" conaffinity="{}"/>'
    world = floor.format(1, 1) + "".join(limb.format(f"b{i}", i, i, 1, 0) for i in range(3))
    model, _ = read(tmp_path, world)
    groups = {shape.name: shape.group for shape in model.shapes}
    assert groups["floor"] == 0 and groups["g0"] == groups["g1"] == groups["g2"] > 0
    assert not model.spec.excluded

    world = (
        floor.format(1, 1) + limb.format("a", 1, 1, 3, 3) + limb.format("b", 2, 2, 2, 2) + limb.format("c", 3, 3, 1, 1)
    )
    model, _ = read(tmp_path, world)
    assert {frozenset(pair) for pair in model.spec.excluded} == {
        frozenset(("world", "b")),
        frozenset(("b", "c")),
    }
    assert not any(shape.group for shape in model.shapes)

    both = limb.format("a", 1, 1, 1, 1).replace(
        "</body>", '<geom name="h" size=".2" contype="2" conaffinity="2"/></body>'
    )
    model, _ = read(tmp_path, both + limb.format("b", 2, 2, 2, 2))
    assert not model.spec.excluded and [frozenset(pair) for pair in model.spec.excluded_shapes] == [{"g1", "g2"}]


def test_pairs_collide_alone(tmp_path):
    """Geoms that collide by <pair> alone collide with each other and with nothing else."""
    none = 'contype="0" conaffinity="0"'
    limb = f'<body name="b{{0}}" pos="0 0 {{0}}"><freejoint/><geom name="g{{0}}" size=".1" {none}/></body>'
    floor = f'<geom name="floor" type="plane" size="1 1 1" {none}/>'
    pairs = '<pair geom1="floor" geom2="g1" condim="1"/><pair geom1="g1" geom2="g2" friction=".3 .3 0 0 0"/>'
    pairs = f"<contact>{pairs}</contact>"
    model, _ = read(tmp_path, floor + "".join(limb.format(i) for i in range(3)), pairs)
    assert [shape.name for shape in model.shapes if shape.collide] == ["floor", "g1", "g2"]
    query = lj.CollisionQuery(model)
    still = np.tile([1.0, 0, 0, 0], (3, 1))
    assert query.find(np.array([[0, 0, 0.05], [2, 0, 0.05], [4, 0, 0.05]]), still) == 1
    assert query.find(np.array([[0, 0, 5.0], [0, 0, 5.1], [0, 0, 5.2]]), still) == 1


def test_excludes_arrive(tmp_path):
    """Body pairs that the file excludes are excluded here."""
    world = nested(HINGE, HINGE, HINGE)
    model, _ = read(tmp_path, world, '<contact><exclude body1="b2" body2="b0"/></contact>')
    assert [frozenset(pair) for pair in model.spec.excluded] == [frozenset(("b0", "b2"))]


def test_contact_without_friction(tmp_path):
    """Where every geom has condim 1 nothing rubs; one with condim 3 makes pairs rub, so friction stays."""
    limb = '<body><freejoint/><geom size=".1" condim="{}"/></body>'
    model, _ = read(tmp_path, limb.format(1) * 2)
    assert [shape.friction for shape in model.shapes] == [0.0, 0.0]
    model, _ = read(tmp_path, limb.format(1) + limb.format(3))
    assert [shape.friction for shape in model.shapes] == [1.0, 1.0]


# -- equalities and actuators ----------------------------------------------------------------------------


def loop_frames(model, name, q):
    """Return the two joint frames of a loop joint in the world, as (point, 3x3) each."""
    joint = model.joint_spec(name)
    positions, rotations = forward_kinematics(model, q)
    out = []
    ends = (
        (joint.parent, joint.position, joint.rotation),
        (joint.child, joint.position_in_child, joint.rotation_in_child),
    )
    for body, point, turn in ends:
        at, r = np.zeros(3), np.eye(3)
        local, full = np.zeros(9), np.zeros(9)
        mujoco.mju_quat2Mat(local, np.array(turn))
        if body != "world":
            i = model.body_index(body)
            mujoco.mju_quat2Mat(full, np.ascontiguousarray(rotations[i]))
            at, r = positions[i], full.reshape(3, 3)
        out.append((at + r @ point, r @ local.reshape(3, 3)))
    return out


@pytest.mark.parametrize(
    ("equality", "kind", "ends"),
    [
        ('<connect name="e" body1="b0" body2="b1" anchor=".1 .2 .3"/>', "ball", ("b0", "b1")),
        ('<connect name="e" body1="b1" anchor=".1 .2 .3"/>', "ball", ("world", "b1")),
        ('<connect name="e" site1="s0" site2="s1"/>', "ball", ("b0", "b1")),
        ('<weld name="e" body1="b0" body2="b1"/>', "fixed", ("b0", "b1")),
        ('<weld name="e" body1="b1" anchor=".1 0 .2"/>', "fixed", ("world", "b1")),
        (
            '<weld name="e" body1="b0" body2="b1" relpose="1 2 3 .5 .5 .5 .5" anchor=".3 0 0"/>',
            "fixed",
            ("b0", "b1"),
        ),
        ('<weld name="e" site1="s0" site2="s1"/>', "fixed", ("b0", "b1")),
        ('<weld name="e" body1="b0" body2="b1" torquescale="0"/>', "ball", ("b0", "b1")),
    ],
)
def test_connects_and_welds_become_loop_joints(tmp_path, equality, kind, ends):
    """The gap between the two joint frames is MuJoCo's constraint error, at the start and anywhere else."""
    body = (
        '<body name="b{0}" pos="{0} .2 .3" euler="{0} 20 30"><freejoint/>'
        '<geom size=".1"/>'
        '<site name="s{0}" pos=".1 .{0} .3" euler="10 {0} 30"/></body>'
    )
    world = body.format(0) + body.format(1)
    path = mjcf(tmp_path, world, f"<equality>{equality}</equality>")
    model, m = quiet(path), reference(path)
    info = model.joint("e")
    assert info.is_loop and (info.kind, info.parent, info.child) == (kind, *ends)
    assert (model.nq, model.nv) == (m.nq, m.nv)
    data = mujoco.MjData(m)
    rng = np.random.default_rng(3)
    for q in (m.qpos0, random_state(m, rng)[0]):
        data.qpos[:] = q
        mujoco.mj_forward(m, data)
        assert data.nefc == (3 if equality.startswith("<connect") else 6)
        (p1, r1), (p2, r2) = loop_frames(model, "e", np.array(q))
        theirs = np.linalg.norm(data.efc_pos[:3])
        assert np.linalg.norm(p1 - p2) == pytest.approx(theirs, abs=1e-12)
        if kind == "fixed":
            # MuJoCo's angular rows are sin(angle / 2) along the axis.
            half = np.sqrt(max(0.0, (3 - np.trace(r1.T @ r2)) / 4))
            assert np.linalg.norm(data.efc_pos[3:6]) == pytest.approx(half, abs=1e-7)


def test_joint_equalities_become_gears(tmp_path):
    """y - y0 = a0 + a1 (x - x0), references included, is the gear's ratio and offset."""
    world = nested('<joint name="x" ref="20"/>', '<joint name="y" ref="-50"/><joint name="z" axis="1 0 0"/>')
    rest = (
        '<equality><joint name="g" joint1="y" joint2="x" polycoef=".3 -2 0 0 0"/>'
        '<joint joint1="z" joint2="y"/></equality>'
    )
    model, m = read(tmp_path, world, rest)
    gear = model.joint_spec("g")
    assert (gear.parent, gear.child, gear.ratio) == ("y", "x", -2.0)
    data = mujoco.MjData(m)
    data.qpos[:] = [0.7, 0.4, 0.1]
    mujoco.mj_forward(m, data)
    assert data.efc_pos[0] == pytest.approx(0.4 - (gear.ratio * 0.7 + gear.offset), abs=1e-14)
    assert model.joint_spec("z-y").kind == "gear"


def test_inactive_equalities_are_skipped(tmp_path):
    """An equality that is not active at the start is not in the model."""
    model, _ = read(tmp_path, nested(HINGE), '<equality><connect body1="b0" anchor="1 0 0" active="false"/></equality>')
    assert not model.loop_names


def test_rotors_of_actuators_are_reflected(tmp_path):
    """Damping and armature of an actuator act on the joint by the square of the gear, actuation off too."""
    rest = '<actuator><motor joint="j" gear="3" damping="2" armature=".1"/><motor joint="j" armature=".2"/></actuator>'
    model, m = read(tmp_path, nested('<joint name="j" damping="1" armature=".5"/>'), rest)
    assert_same_motion(model, m)
    model, m = read(tmp_path, nested('<joint name="j" type="ball" damping="1" armature=".5"/>'), rest)
    assert_same_motion(model, m)


# -- warnings --------------------------------------------------------------------------------------------

FIXED = '<fixed name="t"><joint joint="j" coef="1"/><joint joint="k" coef="-1"/></fixed>'


@pytest.mark.parametrize(
    ("world", "rest", "text"),
    [
        (TWO, f"<tendon>{FIXED}</tendon>".replace('"t"', '"t" range="-1 1"'), 'limits of tendons are left out.*: "t"'),
        (
            TWO + '<site name="s"/><site name="u" pos="1 0 0"/><site name="v" pos="2 0 0"/>',
            '<tendon><spatial name="t"><site site="s"/><site site="u"/><site site="v"/></spatial></tendon>',
            'spatial tendons of more than two sites are left out.*: "t"',
        ),
        (
            TWO,
            f'<tendon>{FIXED}</tendon><equality><tendon name="e" tendon1="t"/></equality>',
            'flexes are left out: "e"',
        ),
        (
            TWO,
            '<option density="1.2" wind="1 0 0"/>',
            "fluid forces are left out: option density, option wind",
        ),
        (TWO, '<option viscosity="1"/>', "fluid forces are left out: option viscosity"),
        (
            TWO,
            '<actuator><muscle name="a" joint="j" lengthrange="0 1"/></actuator>',
            'actuators are left out.*: "a"',
        ),
        ('<body name="p" mocap="true"/>', "", 'mocap bodies stay where they are: "p"'),
        (
            nested('<joint name="j" stiffness="1 2"/>'),
            "",
            'stiffness beyond its linear term is left out: "j"',
        ),
        (nested('<joint name="j" damping="1 2"/>'), "", 'damping beyond its linear term is left out: "j"'),
        (
            TWO,
            '<actuator><motor name="a" joint="j" damping="1 2"/></actuator>',
            'of actuators beyond .* left out: "a"',
        ),
        (nested('<joint name="j" stiffness="1" springyield="1"/>'), "", 'plastic springs stay elastic: "j"'),
        (
            TWO,
            '<equality><joint name="e" joint1="j" joint2="k" polycoef="0 1 2 0 0"/></equality>',
            'not linear in another joint are left out: "e"',
        ),
        (TWO, '<option><flag filterparent="disable"/></option>', "joined bodies do not collide"),
        (
            '<geom name="g" type="hfield" hfield="h"/>',
            '<asset><hfield name="h" nrow="3" ncol="3" size="1 1 1 1"/></asset>',
            'height fields are left out, geoms: "g"',
        ),
        (TWO, '<compiler settotalmass="3"/>', "MuJoCo: compiler attribute 'settotalmass' is deprecated"),
    ],
)
def test_what_has_no_counterpart_is_named_once(tmp_path, world, rest, text):
    """Each thing left out gives exactly one warning with the file and the names."""
    path = mjcf(tmp_path, world, rest)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        load(path)
    messages = [str(warning.message) for warning in caught]
    assert all(issubclass(warning.category, ModelWarning) for warning in caught)
    assert sum(bool(re.search(text, message)) for message in messages) == 1
    assert all(message.startswith(f"{path}: ") for message in messages)


def test_long_lists_of_names_are_cut(tmp_path):
    """Forty tendons are one warning that shows six names and counts the rest."""
    tendons = "".join(FIXED.replace('"t"', f'"t{i}" range="-1 1"') for i in range(40))
    with pytest.warns(ModelWarning, match='"t5" and 34 more') as caught:
        load(mjcf(tmp_path, TWO, f"<tendon>{tendons}</tendon>"))
    assert len(caught) == 1


def test_equalities_that_cannot_be_met_become_springs(tmp_path):
    """Equalities that no pose meets become springs, told by name, and pull; those that can be met stay loop joints."""
    none = 'contype="0" conaffinity="0"'
    world = "".join(
        f'<body name="{name}" pos="{x} 0 1" gravcomp="1"><freejoint/><geom size=".1" {none}/></body>'
        for name, x in (("a", 0), ("b", 0.5), ("c", 2))
    )
    weld = '<weld name="w" body1="a" body2="b" relpose=".4 0 0 1 0 0 0"/>'
    connect = '<connect name="p" body1="a" body2="b" anchor=".2 .1 0"/>'
    connect += '<connect name="q" body1="b" body2="c" anchor="1 0 0"/>'
    with pytest.warns(ModelWarning, match='equalities that cannot be met together become springs: "w", "p"'):
        model = load(mjcf(tmp_path, world, f"<equality>{weld}{connect}</equality>"))
    assert model.loop_names == ("q",) and {spring.name[0] for spring in model.springs} == {"w", "p"}
    sim = lj.Simulation(model)
    sim.step(2000)
    assert sim.joint_error().metres < 1e-6
    gap = np.linalg.norm(sim.body("b").position - sim.body("a").position)
    assert 0.4 < gap < 0.5
    model = quiet(mjcf(tmp_path, world, f"<equality>{weld}</equality>"))
    assert model.loop_names == ("w",) and not model.springs


def test_loops_and_ropes_open_in_the_file_start_closed(tmp_path):
    """A rope that is too short and a loop that is open at the reference pose start closed, told by name."""
    body = '<body name="{}" pos="{} 0 {}"><{}/><geom size=".05"/><site name="{}"/></body>'
    world = body.format("low", 0, 0.5, "freejoint", "s") + '<site name="top" pos="0 0 1"/>'
    world += body.format("bob", 1.5, 1, 'joint axis="0 1 0" pos="-.5 0 0"', "r") + '<site name="fixed" pos="1 0 1.5"/>'
    rope = '<spatial name="rope" limited="true" range="0 .3"><site site="s"/><site site="top"/></spatial>'
    rest = f"<tendon>{rope}</tendon>"
    rest += '<equality><connect name="pin" site1="r" site2="fixed"/></equality>'
    with pytest.warns(ModelWarning, match="pin, rope: open by up to 0.707 m .* starts where they are closed"):
        model = load(mjcf(tmp_path, world, rest))
    sim = lj.Simulation(model)
    assert sim.joint_error() < (1e-9, 1e-9)
    assert 0.7 - 1e-9 < sim.body("low").position[2] < 0.8
