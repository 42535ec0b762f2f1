"""Loops, joint types and motors of `robot.yaml` beside a URDF."""

from __future__ import annotations

import numpy as np
import pytest

import limberjack as lj

MASS = '<inertial><origin xyz="{x} 0 0"/><mass value="0.5"/><inertia ixx="1e-3" iyy="2e-3" izz="2e-3"/></inertial>'


def five_bar(joint_type="continuous"):
    """Return a linkage in the x-z plane of two arms of two bars that meet at (0.1, 0, 0.296)."""
    links = '<link name="base"/>'
    joints = ""
    for side, x in (("a", 0.0), ("b", 0.2)):
        links += f'<link name="{side}1">{MASS.format(x=0.1)}</link><link name="{side}2">{MASS.format(x=0.1)}</link>'
        links += f'<link name="end_{side}"/>'
        axis = '<axis xyz="0 1 0"/>'
        up, turn = (-1.9198622, 1.3500109) if side == "a" else (-1.2217305, -1.3500109)
        joints += (
            f'<joint name="mot_{side}" type="continuous"><parent link="base"/><child link="{side}1"/>'
            f'<origin xyz="{x} 0 0" rpy="0 {up} 0"/>{axis}</joint>'
            f'<joint name="elbow_{side}" type="{joint_type}"><parent link="{side}1"/><child link="{side}2"/>'
            f'<origin xyz="0.2 0 0" rpy="0 {turn} 0"/>{axis}</joint>'
            f'<joint name="tip_{side}" type="fixed"><parent link="{side}2"/><child link="end_{side}"/>'
            f'<origin xyz="0.2 0 0" rpy="0 {-up - turn} 0"/></joint>'
        )
    return f'<robot name="five_bar">{links}{joints}</robot>'


def load(tmp_path, yaml, text=None):
    (tmp_path / "robot.yaml").write_text(yaml)
    path = tmp_path / "robot.urdf"
    path.write_text(text or five_bar())
    return lj.load(path)


def test_a_five_bar_linkage_closes_and_gains_nothing(tmp_path):
    """The ends of both arms stay together while the linkage swings, its motors are actuators, and energy falls."""
    model = load(
        tmp_path, "closed_loop: [['end_a', 'tip_b']]  # a comment\ntype: ['3d']\nname_mot:\n  ['mot_a', \"mot_b\",]\n"
    )
    assert model.loop_names == ("closed_loop1",) and model.actuator_names == ("mot_a", "mot_b")
    sim = lj.Simulation(model)
    assert sim.joint_error().metres < 1e-4
    start = sim.energy().total
    most = start
    for _ in range(40):
        sim.step(50)
        most = max(most, sim.energy().total)
        assert sim.joint_error().metres < 1e-6
    assert most < start + 1e-3 * abs(start)
    assert np.abs(sim.q).max() > 0.3


@pytest.mark.parametrize("kind", ["3d", "6d"])
def test_the_start_closes_the_loops(tmp_path, kind):
    """A linkage that is open at zero starts closed, by joints alone; one that cannot close says so."""
    yaml = f"closed_loop: [['end_a', 'end_b']]\ntype: ['{kind}']\n"
    text = five_bar().replace("1.3500109 0", "0.9 0", 1)
    if kind == "6d":  # the ends turn with the forearms: a hinge more makes the angle free
        text = text.replace(
            '<joint name="tip_b" type="fixed">', '<joint name="tip_b" type="continuous"><axis xyz="0 1 0"/>'
        )
        text = text.replace('<link name="end_b"/>', f'<link name="end_b">{MASS.format(x=0.0)}</link>')
    model = load(tmp_path, yaml, text)
    assert lj.Simulation(model).joint_error() < (1e-9, 1e-9)
    assert np.abs(model.q0).max() > 0.1
    far = five_bar().replace('xyz="0.2 0 0" rpy="0 -1.2', 'xyz="2 0 0" rpy="0 -1.2')
    with pytest.warns(lj.ModelWarning, match="no pose near by closes them"):
        load(tmp_path, yaml, far)


def test_joint_types(tmp_path):
    """Joints become spherical and universal as the file says."""
    yaml = (
        'closed_loop: [["end_a", "end_b"]]\ntype: ["3d"]\n'
        'joint_name: ["elbow_a", "elbow_b"]\njoint_type: ["SPHERICAL", "UJOINT_XY"]\n'
    )
    model = load(tmp_path, yaml)
    assert (model.joint("elbow_a").kind, model.joint("elbow_b").kind) == ("ball", "universal")
    assert model.joint_spec("closed_loop1").kind == "ball"


@pytest.mark.parametrize(
    ("yaml", "text"),
    [
        ("closed_loop: [['end_a', 'nowhere']]", 'no link or joint "nowhere"'),
        ("closed_loop: [['end_a', 'end_b']]\ntype: ['2d']", "type 6d or 3d"),
        ("closed_loop: [['end_a', 'end_b']]\ntype: ['6d', '6d']", "lists of one length"),
        ("closed_loop: [['end_a', 'end_b']]\nname_mot: ['x']", 'no joint "x"'),
        ("closed_loop: [['end_a', 'end_b'", "no list of names in brackets"),
        ("closed_loop: [['end_a', 'end_b']]\njoint_name: ['elbow_a']\njoint_type: ['FLAT']", "SPHERICAL or UJOINT_XY"),
    ],
)
def test_wrong_files_are_refused(tmp_path, yaml, text):
    """Unknown frames, joints and types are refused with the file and the choices."""
    with pytest.raises(lj.FileError, match=text) as caught:
        load(tmp_path, yaml)
    assert "robot.yaml" in str(caught.value)


def test_other_files_of_that_name_are_ignored(tmp_path):
    """A robot.yaml without loops changes nothing."""
    assert load(tmp_path, "robot: {name: x}\nlist:\n  - a\n").loop_names == ()
