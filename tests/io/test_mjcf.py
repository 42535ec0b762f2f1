"""MJCF in, against MuJoCo itself: same bodies, same coordinates, same motion."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import mujoco
import numpy as np
import pytest
from tests.io.mjcf_help import (
    HINGE,
    JOINTS,
    assert_same_motion,
    mjcf,
    nested,
    pose_gap,
    quiet,
    random_state,
    read,
    reference,
    write,
)

from limberjack.errors import FileError
from limberjack.io import load, native

PACKAGES = {
    name: Path(importlib.util.find_spec(name).submodule_search_locations[0]) for name in ("dm_control", "gymnasium")
}
FILES = {
    f"{name}/{file.relative_to(place)}": file
    for name, place in PACKAGES.items()
    for file in sorted(place.rglob("*.xml"))
}

# -- real models -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FILES)
def test_real_models_are_mujocos(name):
    """What MuJoCo compiles loads with its bodies, coordinates, masses, limits and poses; the rest raises."""
    path = FILES[name]
    roots = [PACKAGES["dm_control"]]
    try:
        m = reference(path)
    except ValueError:
        with pytest.raises(FileError, match=r"not found|MuJoCo: |root element"):
            quiet(path, roots=roots)
        return
    model = quiet(path, roots=roots)
    names = [mujoco.mj_id2name(m, mujoco.mjtObj.mjOBJ_BODY, i) for i in range(1, m.nbody)]
    assert all(theirs in (None, "", ours) for theirs, ours in zip(names, model.body_names, strict=True))
    assert (model.nq, model.nv) == (m.nq, m.nv)
    assert np.array_equal(model.q0, m.qpos0)
    assert np.array_equal(model.arrays.body_mass, m.body_mass[1:])
    assert np.array_equal(model.arrays.body_com, m.body_ipos[1:])
    parents = [-1 if p == 0 else p - 1 for p in m.body_parentid[1:]]
    assert list(model._body_parent) == parents
    turn = np.zeros(9)
    for i in range(1, m.nbody):
        mujoco.mju_quat2Mat(turn, m.body_iquat[i])
        full = turn.reshape(3, 3) @ np.diag(m.body_inertia[i]) @ turn.reshape(3, 3).T
        assert np.allclose(model.body(model.body_names[i - 1]).inertia, full, rtol=0, atol=1e-14 * max(full.max(), 1.0))
    for j in range(m.njnt):
        joint_name = mujoco.mj_id2name(m, mujoco.mjtObj.mjOBJ_JOINT, j)
        limits = model.arrays.limits[m.jnt_dofadr[j]]
        if m.jnt_limited[j]:
            assert limits.tolist() == m.jnt_range[j].tolist()
        else:
            assert limits.tolist() == [-np.inf, np.inf]
        if joint_name:
            info = model.joint(joint_name)
            assert (info.q_start, info.v_start) == (m.jnt_qposadr[j], m.jnt_dofadr[j])
    assert np.array_equal(model.arrays.links.armature, m.dof_armature)
    assert np.array_equal(model.arrays.friction, m.dof_frictionloss)
    if m.nq:
        rng = np.random.default_rng(11)
        assert max(pose_gap(model, m, random_state(m, rng)[0]) for _ in range(3)) < 1e-12


def test_the_corpus_is_there():
    """At least the 69 files this was written against compile, humanoid, dog and fruit fly among them."""
    assert len(FILES) >= 79
    for word in (
        "suite/humanoid_CMU.xml",
        "suite/dog.xml",
        "fruitfly_v2/fruitfly.xml",
        "assets/humanoid.xml",
    ):
        assert any(name.endswith(word) for name in FILES)


def test_humanoid_survives_the_native_format():
    """A loaded humanoid written as JSON comes back bit for bit."""
    model = quiet(FILES["dm_control/suite/humanoid.xml"])
    again = native.loads(native.dumps(model))
    assert native.dumps(again) == native.dumps(model)
    assert np.array_equal(again.q0, model.q0) and again.body_names == model.body_names


# -- joints ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", JOINTS)
def test_joints_move_as_mujocos(tmp_path, case):
    """Poses and accelerations at random states are MuJoCo's, anchors, several axes and `ref` included."""
    model, m = read(tmp_path, nested(*JOINTS[case]))
    assert np.array_equal(model.q0, m.qpos0)
    assert_same_motion(model, m)
    if case in ("hinge", "slide", "ball", "free", "point_on_line", "point_on_plane"):
        assert model.joint(model.joint_names[0]).kind == case
    elif case == "welded":
        assert [model.joint(name).kind for name in model.joint_names] == ["hinge", "fixed", "hinge"]
        assert model.joint("b1").kind == "fixed"


@pytest.mark.parametrize(
    "options",
    [
        'stiffness="3" springref=".4"',
        'damping="2" armature=".5"',
        'stiffness="2" damping="1" ref=".3"',
        'armature="2"',
    ],
)
@pytest.mark.parametrize("kind", ["hinge", "slide", "ball", "free", "compound", "point_on_plane"])
def test_springs_dampers_and_armature_act_as_mujocos(tmp_path, kind, options):
    """Stiffness about springref, damping and armature give MuJoCo's accelerations on every joint kind."""
    if kind in ("ball", "free"):
        options = options.replace('springref=".4"', "").replace('ref=".3"', "")
    one = f'<joint {options} type="{{}}" axis="{{}}"/>'
    joints = {
        "compound": one.format("slide", "0 1 0") + one.format("hinge", "1 0 1"),
        "point_on_plane": one.format("slide", "1 0 0")
        + one.format("slide", "0 1 0")
        + '<joint type="ball" stiffness="2" damping="1"/>',
    }.get(kind, one.format(kind, "1 0 1"))
    model, m = read(tmp_path, nested(joints, HINGE) if kind != "free" else nested(joints), '<compiler angle="radian"/>')
    assert_same_motion(model, m)


def test_joint_numbers_arrive(tmp_path):
    """Limits, friction, armature, damping, springref and ref stand where MuJoCo has them, in radians."""
    world = nested(
        '<joint name="a" range="-90 45" frictionloss=".2" damping=".3" stiffness="4" springref="30" ref="10"/>',
        '<joint name="b" type="ball" range="0 60"/>',
        '<joint name="c" type="slide" range="-1 2"/><joint name="d" axis="1 0 0" armature=".1"/>',
    )
    model, m = read(tmp_path, world)
    a = model.joint_spec("a")
    assert a.limits == ((np.deg2rad(-90), np.deg2rad(45)),)
    assert (a.friction, a.damping, a.stiffness) == ((0.2,), (0.3,), (4.0,))
    assert np.allclose((a.rest[0], a.start[0]), np.deg2rad([30, 10]), rtol=1e-15)
    assert model.joint_spec("b").limits == ((0.0, pytest.approx(np.deg2rad(60), rel=1e-15)), None, None)
    axes = model.joint_spec("c").axes
    assert [axis.name for axis in axes] == ["c", "d"] and axes[0].limits == (-1.0, 2.0) and axes[1].armature == 0.1
    assert model.joint_spec("d").name == "b2"


def test_euler_sequence_and_angle_units_are_honoured(tmp_path):
    """eulerseq and radians turn frames as MuJoCo does."""
    rest = '<compiler eulerseq="ZYX" angle="radian"/>'
    model, m = read(tmp_path, '<body euler="1 2 3"><joint range="-1 1"/><geom size=".1" pos="1 0 0"/></body>', rest)
    assert_same_motion(model, m)
    assert model.arrays.limits.tolist() == [[-1.0, 1.0]]


@pytest.mark.parametrize(
    "joints",
    [
        '<joint type="slide" axis="1 0 0"/><joint type="ball"/>',
        '<joint type="ball"/><joint type="slide" axis="0 0 1"/>',
        '<joint axis="0 0 1"/><joint type="ball"/>',
        '<joint type="slide"/><joint type="slide" axis="0 1 0"/><joint type="slide" axis="1 0 0"/><joint type="ball"/>',
    ],
)
def test_combinations_without_a_kind_are_refused_by_name(tmp_path, joints):
    """A ball with other joints that no kind of ours has the coordinates of names the body and the joints."""
    with pytest.raises(FileError, match='body "b0" has the joints .*ball'):
        quiet(mjcf(tmp_path, nested(joints)))


def test_names_are_kept_and_made_unique(tmp_path):
    """Names of the file stand; unnamed things get names that nothing else has."""
    world = (
        '<body name="a"><joint name="b"/><geom size=".1"/>'
        '<body name="b"><geom size=".1"/></body>'
        '<body><joint axis="1 0 0"/><joint name="a" axis="0 1 0"/><geom size=".1"/><site/></body></body>'
        '<body name="body3"><joint/><geom size=".1"/><site name="tip" pos="1 2 3"/></body>'
    )
    model, m = read(tmp_path, world)
    assert model.body_names == ("a", "b", "body32", "body3")
    assert model.joint_names == ("b", "b:fixed", "body32", "body3")
    assert model.joint("body32").axis_names == ("body32:hinge", "a")
    assert [(point.name, point.body, point.position) for point in model.points] == [
        ("body32:site0", "body32", (0.0, 0.0, 0.0)),
        ("tip", "body3", (1.0, 2.0, 3.0)),
    ]
    assert model.name == "m"
    assert load(write(tmp_path / "plain.xml", "<mujoco><worldbody/></mujoco>")).name == "plain"


def test_worlds_without_bodies_and_static_bodies_load(tmp_path):
    """No bodies, no freedoms, and bodies without mass that do not move are models too."""
    model, _ = read(tmp_path)
    assert (model.body_count, model.nq) == (0, 0)
    model, m = read(tmp_path, '<body name="a" pos="1 2 3"><body name="b" pos="1 0 0"/></body>')
    assert (model.body_count, model.nq, model.joint_names) == (2, 0, ("a", "b"))
    assert pose_gap(model, m, np.zeros(0)) == 0


def test_static_bodies_are_listed_unless_the_file_fuses_them(tmp_path):
    """MuJoCo keeps static bodies by default and so do we; fusestatic in the file is the file's own wish."""
    world = '<body name="a"><joint/><geom size=".1"/><body name="b" pos="0 0 1"><geom size=".2"/></body></body>'
    assert read(tmp_path, world)[0].body_names == ("a", "b")
    assert read(tmp_path, world, '<compiler fusestatic="true"/>')[0].body_names == ("a",)


@pytest.mark.parametrize(
    ("flag", "check"),
    [
        ("gravity", lambda model: not model.gravity.any()),
        ("limit", lambda model: np.isinf(model.arrays.limits).all()),
        ("frictionloss", lambda model: not model.arrays.friction.any()),
        ("contact", lambda model: not any(shape.collide for shape in model.shapes)),
        ("equality", lambda model: not model.loop_names),
        ("spring", lambda model: model.joint_spec("j").stiffness is None),
        ("damper", lambda model: model.joint_spec("j").damping is None),
        ("actuation", lambda model: not model.actuators),
        ("constraint", lambda model: not model.loop_names and np.isinf(model.arrays.limits).all()),
    ],
)
def test_flags_switch_things_off(tmp_path, flag, check):
    """What the file's option flags disable is not in the model, and is without the flag."""
    world = (
        '<geom type="plane" size="1 1 1"/>'
        '<body name="a"><joint name="j" range="-1 1" limited="true" frictionloss="1" '
        'stiffness="1" damping="1"/><geom size=".1"/></body>'
    )
    rest = '{}<equality><connect body1="a" anchor="1 0 0"/></equality><actuator><position joint="j" kp="3"/></actuator>'
    assert check(read(tmp_path, world, rest.format(f'<option><flag {flag}="disable"/></option>'))[0])
    assert not check(read(tmp_path, world, rest.format(""))[0])
